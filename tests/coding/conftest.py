from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from alma.coding.events import Event

Happening = Callable[..., Event]


@pytest.fixture
def happens() -> Happening:
    """Makes events one after the other, as a journal holds them: `happens("Stop", last_assistant_message="ok")`."""
    numbers = count(1)

    def happen(name: str, agent_id: str = "", **data: Any) -> Event:
        number = next(numbers)
        return Event(f"e{number}", name, 1000.0 + number, "s", "git:x/y", agent_id, data, number * 10)

    return happen
