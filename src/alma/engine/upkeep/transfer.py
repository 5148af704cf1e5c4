"""A memory as JSON Lines: written out whole, and taken in again by any store.

The first line says what it is, the last that it is whole; every other is a record, exactly as it is held. Taken in
twice it changes nothing: a record is known by its id, the newer version counts, and what was erased here stays erased.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Any

from ...errors import ValidationError
from ...types.kinds import KINDS, READABLE_KINDS, MemoryType
from ...types.query import Where
from ...types.record import Origin, Provenance, Record, Status, Trust, to_json
from ...types.rules import EVERYWHERE
from ...types.times import now, to_iso
from ..admit import clean
from ..context import Engine
from ..erase import salt_marker
from ..tombstones import SALT_MARKER, find_deleted_ids, find_deleted_keys, key_of_deleted, read_salts
from ..transaction import commit
from .reindex import reindex, unseen
from .sound import HERE_ONLY, sound

FORMAT = 1
END = {"alma": "end"}
_BATCH = 256
_ALONE = (MemoryType.DOMAIN_KNOWLEDGE, MemoryType.USER_PREFERENCE)
"""Nothing hangs on these, so one that says the same under another id need not be kept twice."""

_WAITING = {Status.ACTIVE: Status.CANDIDATE}


class ImportTrust(StrEnum):
    """How far a file is believed, whatever its records say of themselves."""

    OWN = "own"
    """An export of this memory: taken in exactly as it is, except for text that reads like a planted instruction."""
    IMPORTED = "imported"
    """Rules wait for a person, nothing counts as a person's own words, and nothing that is held is replaced."""
    NONE = "none"
    """Somebody else's: all memories wait for a person, and nothing but memories is taken."""


Progress = Callable[[int, int], None]
Said = tuple[str, str, str]


# -- out


def lines(engine: Engine, *, vectors: bool = True, progress: Progress = unseen) -> Iterator[str]:
    """The project of an engine and what holds in all projects, oldest first, a JSON text a line."""
    kinds = [name for name in KINDS if name not in HERE_ONLY]
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
    yield _text(END)


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
    waiting: int = 0
    """Of those added, the ones that wait for a person."""
    left_out: int = 0
    """Of others, and no memory: their work, sessions, counts and deletions are not ours."""


def read(source: Iterable[str], place: str) -> Iterator[Record]:
    """The records of an export; ValidationError names the line that is none."""
    numbered = enumerate(source, 1)
    projects = {project_of(next(numbered, (1, ""))[1], place), EVERYWHERE}
    moment, last, whole = now(), 1, False
    for last, line in numbered:
        at = f"{place}, line {last}"
        if not line.strip():
            continue
        data = _parsed(line, at)
        if whole:
            raise ValidationError(f"{at} comes after the end; nothing was taken in")
        whole = data == END
        if not whole:
            yield _record(line, data, projects, moment, at)
    if not whole:
        raise ValidationError(f"{place} is cut off after line {last}: it has no end; nothing was taken in")


def project_of(first: str, place: str) -> str:
    project: str = _header(first, place)["project"]
    return project


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
    if not isinstance(head["project"], str) or head["project"] in ("", EVERYWHERE):
        raise ValidationError(f"{place} must name its project, and not {head['project']!r}; nothing was taken in")
    return head


def _parsed(line: str, place: str) -> Any:
    try:
        return json.loads(line, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"{place} is not JSON: {error}; nothing was taken in") from error


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON")


def _record(line: str, data: Any, projects: Collection[str], moment: datetime, place: str) -> Record:
    try:
        return sound(line, data, projects, moment)
    except (KeyError, IndexError, ValueError, TypeError, AttributeError, OverflowError) as error:
        told = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise ValidationError(f"{place} is no record ({told}); nothing was taken in") from error


def take(
    engine: Engine,
    records: Iterable[Record],
    total: int,
    *,
    trust: ImportTrust = ImportTrust.OWN,
    progress: Progress = unseen,
) -> Taken:
    """Take in records that were read and found sound; may be stopped at any moment and begun again."""
    counts, done, mute = Taken(), 0, False
    for batch in _batches(_fitted(engine, record, trust) for record in records):
        counts, done = _sum(counts, _put(engine, batch, trust)), done + len(batch)
        mute = mute or any(not one.vectors and KINDS[one.kind].passages(one.body) for one in batch)
        progress(done, total)
    return replace(counts, embedded=reindex(engine, progress)) if mute and engine.encoder else counts


def weigh(engine: Engine, records: Iterable[Record], *, trust: ImportTrust = ImportTrust.OWN) -> Taken:
    """What would become of them, without changing anything."""
    counts = Taken()
    for batch in _batches(_limited(record, trust) for record in records):
        counts = _sum(counts, _judged(engine, batch, trust)[0])
    return counts


def find_claims(engine: Engine, records: Iterable[Record]) -> list[Record]:
    """Return the records that are new or newer than what is held and that only an own export may claim.

    These are active rules, and memories that say they are a person's own words.
    """
    claims = [one for one in records if _limited(one, ImportTrust.IMPORTED) != one]
    held = {one.id: one.version for one in engine.store.get([one.id for one in claims])}
    return [one for one in claims if one.version > held.get(one.id, 0)]


def _batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    left = iter(records)
    while batch := list(islice(left, _BATCH)):
        yield batch


def _fitted(engine: Engine, record: Record, trust: ImportTrust) -> Record:
    """Without secrets, with vectors of this store's embedder only, and no more believed than the file is."""
    if record.kind == "tombstone":
        # It holds no words, and its salt reads like a secret.
        return record
    body, text = clean(dict(record.body)), clean(record.text)
    changed = body != record.body or text != record.text
    fitted = replace(record, body=body, text=text) if changed else record
    if changed or not _is_ours(engine, record):
        fitted = _bare(fitted)
    return _limited(fitted, trust)


def _is_ours(engine: Engine, record: Record) -> bool:
    """Its vectors are of this embedder: by its name, and as long as its own are."""
    if engine.encoder is None or not record.vectors:
        return False
    size = engine.encoder.embedder.dim
    return record.embedder == engine.embedder_name and all(len(one) == size for one in record.vectors)


def _limited(record: Record, trust: ImportTrust) -> Record:
    """The record with no more trust than the file has."""
    if record.kind not in READABLE_KINDS:
        return record
    waiting = _WAITING.get(record.status, record.status)
    told = record.provenance
    if trust is ImportTrust.NONE:
        doubted = Provenance(told.origin, Trust.UNTRUSTED, told.episodes, told.source or "import")
        return replace(record, provenance=doubted, status=waiting)
    if record.kind in (MemoryType.EPISODE, MemoryType.OUTCOME, "turn"):
        # What was said and done; it is only ever quoted.
        return record
    checked = record.kind == MemoryType.RULE or trust is ImportTrust.IMPORTED
    if checked and record.status is Status.ACTIVE and _reads_planted(record):
        record = replace(record, status=waiting, tags=tuple(dict.fromkeys((*record.tags, "suspicious"))))
    if trust is ImportTrust.OWN:
        return record
    if told.origin in (Origin.USER, Origin.CORRECTION):
        told = replace(told, origin=Origin.IMPORT, trust=min(told.trust, Trust.LEARNED, key=_TRUST.index))
    return replace(record, provenance=told, status=waiting if record.kind == MemoryType.RULE else record.status)


_TRUST = (Trust.UNTRUSTED, Trust.LEARNED, Trust.TRUSTED)


def _reads_planted(record: Record) -> bool:
    # Loaded here: its patterns take a while to compile.
    from ..inject.escape import suspicious

    return bool(suspicious(record.text))


def _put(engine: Engine, batch: Sequence[Record], trust: ImportTrust) -> Taken:
    return commit(engine, lambda: _judged(engine, batch, trust))


def _judged(engine: Engine, batch: Sequence[Record], trust: ImportTrust) -> tuple[Taken, list[Record]]:
    """What becomes of each, and those that are to be written."""
    newest = {record.id: record for record in sorted(batch, key=lambda one: one.version)}
    held = {record.id: record for record in engine.store.get(list(newest))}
    memories = [record for record in newest.values() if record.kind != "tombstone"]
    gone = find_deleted_keys(engine, map(key_of_deleted, memories))
    gone |= find_deleted_ids(engine, [record.id for record in memories])
    said = _said(engine, newest.values())
    fresh, counts = [], Taken()
    for record in newest.values():
        one = _one(record, held.get(record.id), gone, said, trust)
        if one.added and record.kind in READABLE_KINDS and record.status is Status.CANDIDATE:
            one = replace(one, waiting=1)
        counts = _sum(counts, one)
        if one.added or one.updated:
            fresh.append(record)
    return counts, [*fresh, *_new_salts(engine, fresh)]


def _new_salts(engine: Engine, fresh: Sequence[Record]) -> list[Record]:
    """The store's salts with those that the tombstones of a file were made with."""
    known = read_salts(engine)
    told = dict.fromkeys(str(one.body.get("salt") or "") for one in fresh if one.kind == "tombstone")
    new = [salt for salt in told if len(salt) == 32 and _is_hex(salt) and salt not in known]
    if not new:
        return []
    held = engine.store.get([SALT_MARKER])
    if not held:
        return [salt_marker(engine, new)]
    return [replace(held[0], body={"value": [*known, *new]}, version=held[0].version + 1)]


def _is_hex(text: str) -> bool:
    return all(sign in "0123456789abcdef" for sign in text)


def _one(record: Record, held: Record | None, gone: set[str], said: dict[Said, str], trust: ImportTrust) -> Taken:
    if trust is ImportTrust.NONE and record.kind not in READABLE_KINDS:
        return Taken(left_out=1)
    if held is not None:
        return Taken(updated=1) if trust is ImportTrust.OWN and record.version > held.version else Taken(known=1)
    if not gone.isdisjoint((record.id, key_of_deleted(record))):
        return Taken(erased=1)
    if record.kind in _ALONE and said.get(_what(record), record.id) != record.id:
        return Taken(known=1)
    return Taken(added=1)


def _said(engine: Engine, records: Iterable[Record]) -> dict[Said, str]:
    """By project, kind and key the id of what already says the same."""
    alone = [record for record in records if record.kind in _ALONE and record.key]
    if not alone:
        return {}
    where = Where(
        kinds=set(_ALONE),
        projects={record.project for record in alone},
        keys={record.key for record in alone},
        statuses={Status.ACTIVE, Status.CANDIDATE},
    )
    return {_what(record): record.id for record in engine.store.scan(where)}


def _what(record: Record) -> Said:
    return record.project, record.kind, record.key


def _sum(a: Taken, b: Taken) -> Taken:
    return Taken(
        added=a.added + b.added,
        updated=a.updated + b.updated,
        known=a.known + b.known,
        erased=a.erased + b.erased,
        embedded=a.embedded + b.embedded,
        waiting=a.waiting + b.waiting,
        left_out=a.left_out + b.left_out,
    )
