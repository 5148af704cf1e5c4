"""Things that are kept as they are told and change while they are worked with: work items, sessions, checkpoints.

They go through the same door as memories: secrets are taken out, changes are read and put under a version, and two
processes that change the same thing at once both get their way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..types.query import Where
from ..types.record import Record
from .admit import clean, draft_record, embed_records, reword
from .context import Engine
from .transaction import Transaction


def add(tx: Transaction, kind: str, body: Mapping[str, Any], **fields: Any) -> Record:
    """Store a new thing; `agent`, `id`, `links` and other fields of its record may be given."""
    [record] = embed_records(tx.engine, [draft_record(tx.engine, kind, body, **fields)])
    return tx.put(record)


def change(tx: Transaction, record: Record, body: Mapping[str, Any], **fields: Any) -> Record:
    """Store the next version with another body, without secrets; a thing that stays as it is gets none."""
    fresh = {name: clean(value) for name, value in body.items()}
    if fresh == record.body and not fields:
        return record
    return tx.update(record, **{**reword(tx.engine, record, fresh), **fields})


def scan(engine: Engine, kind: str, limit: int | None = None, **conditions: Any) -> list[Record]:
    """Newest first; the conditions are those of `Where`."""
    return list(engine.store.scan(Where(kinds={kind}, projects={engine.project}, **conditions), limit))
