"""What a store means, over plain values: shared by the stores that hold their records in memory."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, MutableMapping
from dataclasses import replace
from heapq import nlargest, nsmallest

from ..errors import ConflictError, ValidationError
from ..types.query import Hit, Where
from ..types.record import Record, to_json
from ..types.times import utc
from ..types.vector import Vector, cosine


def accept(held: MutableMapping[str, Record], record: Record) -> None:
    """Take the record if its version is greater than the one held."""
    present = held.get(record.id)
    if present is not None and record.version <= present.version:
        raise conflict(record, present.version)
    held[record.id] = record


def conflict(record: Record, version: int) -> ConflictError:
    return ConflictError(
        f"{record.id}: version {record.version} was put, but version {version} is held; read it again and retry"
    )


def scan(records: Iterable[Record], where: Where, limit: int | None) -> list[Record]:
    found = (record for record in records if where.accepts(record))
    if limit is None:
        return sorted(found, key=_age, reverse=True)
    return nlargest(limit, found, key=_age)


def _age(record: Record) -> tuple[object, str]:
    return record.created_at, record.id


def nearest(records: Iterable[Record], vector: Vector, where: Where, limit: int) -> list[Hit]:
    hits = []
    for record in records:
        scores = [cosine(vector, other) for other in record.vectors if len(other) == len(vector)]
        if scores and where.accepts(record):
            hits.append(Hit(record.id, max(scores)))
    return nsmallest(limit, hits, key=lambda hit: (-hit.score, hit.id))


def unstorable(record: Record, problem: object) -> ValidationError:
    return ValidationError(f"{record.id!r} cannot be stored: {problem}")


def owned(record: Record) -> Record:
    """A copy that no caller can change, or ValidationError if it holds something no store could keep."""
    try:
        for moment in (record.created_at, record.updated_at, record.valid_from, record.valid_to):
            if moment is not None:
                utc(moment)
        text = json.dumps(to_json(record), ensure_ascii=False, allow_nan=False)
        text.encode()
        return replace(record, body=json.loads(text)["body"])
    except (TypeError, ValueError) as problem:
        raise unstorable(record, problem) from problem


def copied(record: Record) -> Record:
    return replace(record, body=copy.deepcopy(record.body)) if record.body else record
