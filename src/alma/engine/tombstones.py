"""Read-only look-ups of deleted memories, for callers outside a transaction."""

from __future__ import annotations

from collections.abc import Iterable

from ..types.record import Record
from .context import Engine
from .transaction import Transaction


def find_tombstones(engine: Engine, keys: Iterable[str]) -> dict[str, Record]:
    """Return the active tombstones of this project and of all projects that recognise these keys, by key."""
    return Transaction(engine).find_tombstones(keys)


def find_deleted_keys(engine: Engine, keys: Iterable[str]) -> set[str]:
    """Return those keys that belong to a deleted memory, which must not come back by itself."""
    return set(find_tombstones(engine, keys))
