"""The operations of `ALMA` as functions, for the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import memory as _memory  # noqa: F401 - declares them
from ..answers import Change as Change
from ..answers import Found as Found
from ..answers import Match as Match
from ..operations import OPERATIONS

_NAMES = {
    "list_memories": "list",
    "get_memory": "get",
    "update_memory": "update",
    "delete_memory": "delete",
    "memory_history": "history",
}


def __getattr__(name: str) -> Callable[..., Any]:
    operation = OPERATIONS.get(_NAMES.get(name, name))
    if operation is None:
        raise AttributeError(name)
    names = [one.name for one in operation.parameters]
    return lambda alma, *args, **given: operation.call(alma, {**dict(zip(names, args, strict=False)), **given})
