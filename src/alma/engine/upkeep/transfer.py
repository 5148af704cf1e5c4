"""A memory as JSON Lines: written out whole, and taken in again by any store.

The first line says what it is; every other is a record, exactly as it is held. Taken in twice it changes nothing: a
record is known by its id, the newer version counts, and what was erased here stays erased.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from ...errors import ValidationError
from ...types.kinds import KINDS, MemoryType
from ...types.query import Where
from ...types.record import Provenance, Record, Status, Trust, from_json, to_json
from ...types.rules import EVERYWHERE
from ...types.times import to_iso
from ..admit import buried, clean, commit
from ..context import Engine
from .reindex import reindex, unseen

FORMAT = 1
_BATCH = 256
_HERE_ONLY = ("marker",)
"""What a store notes about itself."""
_ALONE = (MemoryType.DOMAIN_KNOWLEDGE, MemoryType.USER_PREFERENCE)
"""Nothing hangs on these, so one that says the same under another id need not be kept twice."""

Progress = Callable[[int, int], None]


# -- out


def lines(engine: Engine, *, vectors: bool = True, progress: Progress = unseen) -> Iterator[str]:
    """The project of an engine and what holds in all projects, oldest first, a JSON text a line."""
    kinds = [name for name in KINDS if name not in _HERE_ONLY]
    where = Where(kinds=kinds, projects={engine.project, EVERYWHERE})
    ids = [record.id for record in engine.store.scan(where)][::-1]
    yield _text(
        {
            "alma": "export",
            "format": FORMAT,
            "project": engine.project,
            "records": len(ids),
            "exported_at": to_iso(engine.clock()),
        }
    )
    for start in range(0, len(ids), _BATCH):
        batch = ids[start : start + _BATCH]
        for record in engine.store.get(batch):
            yield _text(to_json(record if vectors else _bare(record)))
        progress(start + len(batch), len(ids))


def _bare(record: Record) -> Record:
    return replace(record, vectors=(), embedder="")


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


# -- in


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What became of the records of a file."""

    added: int = 0
    updated: int = 0
    known: int = 0
    """Held already, in this or a newer version."""
    erased: int = 0
    """Deleted here on purpose, and left so."""
    embedded: int = 0
    """Embedded anew, because the file's vectors are of another embedder, or of none."""


def read(source: Iterable[str], place: str) -> Iterator[Record]:
    """The records of an export; ValidationError names the line that is none."""
    numbered = enumerate(source, 1)
    _header(next(numbered, (1, ""))[1], place)
    for number, line in numbered:
        if line.strip():
            yield _record(line, f"{place}, line {number}")


def project_of(first: str, place: str) -> str:
    return str(_header(first, place)["project"])


def _header(line: str, place: str) -> dict[str, Any]:
    head = _parsed(line, f"{place}, line 1")
    if not isinstance(head, dict) or head.get("alma") != "export" or "project" not in head:
        raise ValidationError(
            f"{place} is no export of alma; `alma export` writes one, `alma ingest` reads other files"
        )
    if head.get("format") != FORMAT:
        raise ValidationError(
            f"{place} has format {head.get('format')!r}, and this version reads {FORMAT}; a newer alma may read it"
        )
    return head


def _parsed(line: str, place: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"{place} is not JSON: {error}; nothing was taken in") from error


def _record(line: str, place: str) -> Record:
    data = _parsed(line, place)
    try:
        made = from_json(data)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ValidationError(
            f"{place} is no record ({type(error).__name__}: {error}); nothing was taken in"
        ) from error
    if made.kind not in KINDS or made.kind in _HERE_ONLY:
        raise ValidationError(f"{place} is of the kind {made.kind!r}, which is unknown here; nothing was taken in")
    return made


def take(
    engine: Engine, records: Iterable[Record], total: int, *, trusted: bool = True, progress: Progress = unseen
) -> Taken:
    """Take in records that were read and found sound; may be stopped at any moment and begun again.

    `trusted=False` is for files of others: what they hold waits for a person, and never stands as an instruction.
    """
    counts, done, mute = Taken(), 0, False
    for batch in _batches(_fitted(engine, record, trusted) for record in records):
        counts, done = _sum(counts, _put(engine, batch)), done + len(batch)
        mute = mute or any(not one.vectors and KINDS[one.kind].passages(one.body) for one in batch)
        progress(done, total)
    return replace(counts, embedded=reindex(engine, progress)) if mute and engine.encoder else counts


def weigh(engine: Engine, records: Iterable[Record]) -> Taken:
    """What would become of them, without changing anything."""
    counts = Taken()
    for batch in _batches(records):
        counts = _sum(counts, _judged(engine, batch)[0])
    return counts


def _batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    left = iter(records)
    while batch := list(islice(left, _BATCH)):
        yield batch


def _fitted(engine: Engine, record: Record, trusted: bool) -> Record:
    """Without secrets, with vectors of this store's embedder only, and no more believed than the file is."""
    body, text = clean(dict(record.body)), clean(record.text)
    changed = body != record.body or text != record.text
    fitted = replace(record, body=body, text=text) if changed else record
    if changed or record.embedder != engine.embedder_name:
        fitted = _bare(fitted)
    return fitted if trusted else _doubted(fitted)


def _doubted(record: Record) -> Record:
    origin = record.provenance
    doubted = Provenance(origin.origin, Trust.UNTRUSTED, origin.episodes, origin.source or "import")
    waits = record.kind in set(MemoryType) and record.status is Status.ACTIVE
    return replace(record, provenance=doubted, status=Status.CANDIDATE if waits else record.status)


def _put(engine: Engine, batch: Sequence[Record]) -> Taken:
    return commit(engine, lambda: _judged(engine, batch))


def _judged(engine: Engine, batch: Sequence[Record]) -> tuple[Taken, list[Record]]:
    """What becomes of each, and those that are to be written."""
    newest = {record.id: record for record in sorted(batch, key=lambda one: one.version)}
    held = {record.id: record for record in engine.store.get(list(newest))}
    gone = buried(engine, {record.key for record in newest.values() if record.key})
    said = _said(engine, newest.values())
    fresh, counts = [], Taken()
    for record in newest.values():
        one = _one(record, held.get(record.id), gone, said)
        counts = _sum(counts, one)
        if one.added or one.updated:
            fresh.append(record)
    return counts, fresh


def _one(record: Record, held: Record | None, gone: set[str], said: dict[tuple[str, str], str]) -> Taken:
    if held is not None:
        return Taken(updated=1) if record.version > held.version else Taken(known=1)
    if record.kind != "tombstone" and record.key in gone:
        return Taken(erased=1)
    if record.kind in _ALONE and said.get((record.kind, record.key), record.id) != record.id:
        return Taken(known=1)
    return Taken(added=1)


def _said(engine: Engine, records: Iterable[Record]) -> dict[tuple[str, str], str]:
    """By kind and key the id of what already says the same."""
    keys = {record.key for record in records if record.kind in _ALONE and record.key}
    if not keys:
        return {}
    where = Where(kinds=set(_ALONE), keys=keys, statuses={Status.ACTIVE, Status.CANDIDATE})
    return {(record.kind, record.key): record.id for record in engine.store.scan(where)}


def _sum(a: Taken, b: Taken) -> Taken:
    return Taken(
        added=a.added + b.added,
        updated=a.updated + b.updated,
        known=a.known + b.known,
        erased=a.erased + b.erased,
        embedded=a.embedded + b.embedded,
    )
