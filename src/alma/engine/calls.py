"""What surrounds a call of the engine: the operation that runs, who runs it, and how far it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

CALL: ContextVar[str] = ContextVar("alma_call", default="")
"""The name of the operation that runs."""
RUN: ContextVar[str] = ContextVar("alma_run", default="")
"""The id of this run of the operation, by which the changes of one call are counted together."""
ACTOR: ContextVar[str] = ContextVar("alma_actor", default="")
"""Who runs it."""
MADE: ContextVar[list[str] | None] = ContextVar("alma_made", default=None)
"""The ids of stored changes."""
MAX_PAIRS = 400
"""So many pairs are compared in one run of `consolidate`; the next run goes on."""

Progress = Callable[[int, int], None]
T = TypeVar("T")


IMPORT = "ingest"
"""The operation whose runs are imports, which can be taken back by their ids."""
_IMPORT_PREFIX = "imp_"


def name_import(run: str) -> str:
    """Return the id of the import that a run is; empty for no run."""
    return f"{_IMPORT_PREFIX}{run}" if run else ""


def is_import(id: str) -> bool:
    """Return whether this is the id of an import, and not of a single change."""
    return id.startswith(_IMPORT_PREFIX)


def find_import_run(import_id: str) -> str:
    """Return the run of an import from its id."""
    return import_id.removeprefix(_IMPORT_PREFIX)


def ignore_progress(done: int, total: int) -> None:
    """Do nothing, for operations whose caller does not watch their progress."""


@contextmanager
def name_call(name: str) -> Iterator[str]:
    """Let the changesets of all writes inside bear the name of an operation; the outermost counts."""
    if outer := CALL.get():
        yield outer
        return
    with _set_within(CALL, name), _set_within(RUN, os.urandom(12).hex()):
        yield name


def act_as(actor: str) -> AbstractContextManager[str]:
    """Let the changesets of all writes inside bear the name of an interface or of a token."""
    return _set_within(ACTOR, actor)


def collect_changes() -> AbstractContextManager[list[str]]:
    """Return a list to which the ids of all changes that are stored inside are added."""
    return _set_within(MADE, list[str]())


@contextmanager
def _set_within(variable: ContextVar[Any], value: T) -> Iterator[T]:
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)
