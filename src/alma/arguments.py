"""From loose arguments to what the engine takes, for features that call the engine themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .engine import validate
from .engine.admit import OutcomeDraft
from .engine.context import Engine
from .engine.retrieve.request import Request


def agent(engine: Engine, given: object) -> str:
    return engine.agent(validate.name("agent", given))


def request(engine: Engine, given: Mapping[str, Any]) -> Request:
    """Return the request that the arguments of `retrieve` describe."""
    from .memory import build_request
    from .operations import OPERATIONS

    return build_request(engine, OPERATIONS["retrieve"].complete(given))


def episode(engine: Engine, given: Mapping[str, Any]) -> OutcomeDraft:
    """Return the draft that the arguments of `learn` describe."""
    from .memory import build_outcome
    from .operations import OPERATIONS

    return build_outcome(engine, OPERATIONS["learn"].complete(given))
