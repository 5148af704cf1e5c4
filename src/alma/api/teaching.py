"""`learns` for a memory that is not open here: all it needs is somebody who takes outcomes."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ..engine.context import Engine


def learns(learn: Callable[..., Any], agent: str, *telling: Any, **given: Any) -> Callable[[Any], Any]:
    """A decorator as `ALMA.learns` gives one. Which agents there are is not known here, so any name will do."""
    from ..harness import learns as decorator

    nobody: Any = None
    anybody: Any = SimpleNamespace(engine=Engine(store=nobody, project="elsewhere"), learn=learn)
    return decorator(anybody, agent, *telling, **given)
