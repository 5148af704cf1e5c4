"""Export a memory as JSON Lines, and import such a file into any store.

The first line is a header and the last an end mark; every other line is a record, exactly as it is stored. Importing a
file twice changes nothing: records are matched by id, the newer version wins, and erased records stay erased.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Any

from ..errors import ValidationError, describe_parse_error
from ..types.kinds import EVERYWHERE, KINDS, MEMORY_KINDS, READABLE_KINDS, MemoryType
from ..types.query import Where, split_batches
from ..types.record import COUNTS, LIVE, Evidence, Origin, Record, Status, Trust, from_json, to_json
from ..types.times import now, to_iso
from .admit import clean
from .calls import Progress, ignore_progress, name_call
from .changes import CHANGESET, check_changeset, strip_changeset
from .context import Engine
from .episodes import list_sources
from .erase import recount_group
from .facts import dispute, find_persons_values
from .tombstones import Tombstones
from .transaction import LESSONS, SALT_MARKER, Transaction, is_learned, write
from .upkeep import MUTE, reindex
from .validate import is_deeper
from .view import to_memory

FORMAT = 1
END = {"alma": "end"}
_BATCH = 256
# Nothing hangs on these, so one that says the same under another id need not be kept twice.
_ALONE = (MemoryType.DOMAIN_KNOWLEDGE, MemoryType.USER_PREFERENCE)

HERE_ONLY = ("marker", "delivery", "likeness")  # What a store notes about itself, or finds again.
# What each field of a record must be.
_FIELDS: dict[type, tuple[str, str]] = {
    str: ("text", "id kind project agent user session key text superseded_by embedder"),
    list: ("a list of strings", "links tags vectors"),
    dict: ("an object", "body evidence provenance"),
}
_LONGEST_ID = 256
_MOST = 2**53
_LAST_SECOND = 253_402_300_799  # Of the year 9999.
_DEEPEST = 200
_MAX_MERGES = 8  # So often a strategy group is followed to the one that it was merged into.
_TRUST = (Trust.UNTRUSTED, Trust.LEARNED, Trust.TRUSTED)


class ImportTrust(StrEnum):
    """How far a file is believed, whatever its records say of themselves."""

    # An export of this memory: imported exactly as it is, except for text that reads like a planted instruction.
    OWN = "own"
    # Rules and preferences wait for a person, nothing counts as a person's own words, and nothing held is replaced.
    IMPORTED = "imported"
    NONE = "none"  # Somebody else's: all memories wait for a person, and nothing but memories is taken.


# -- out


def export_lines(engine: Engine, *, vectors: bool = True, progress: Progress = ignore_progress) -> Iterator[str]:
    """Yield the project of an engine and what holds in all projects, oldest first, a JSON text a line."""
    kinds = [name for name in KINDS if name not in HERE_ONLY]
    where = engine.within(*kinds)
    ids = [record.id for record in engine.store.scan(where)][::-1]
    moment = to_iso(engine.clock())
    yield _encode(
        {"alma": "export", "format": FORMAT, "project": engine.project, "records": len(ids), "exported_at": moment}
    )
    for batch in split_batches(ids, progress=progress):
        for record in engine.store.get(batch):
            yield _encode(to_json(record if vectors else replace(record, **MUTE)))
    yield _encode(END)


def _encode(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


# -- in


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """How many records of a file were imported, skipped or left out."""

    added: int = 0
    updated: int = 0
    known: int = 0  # Already stored, in this or a newer version.
    erased: int = 0  # Deleted here on purpose; they stay deleted.
    embedded: int = 0  # Embedded again, because the file's vectors come from another embedder or are missing.
    waiting: int = 0  # Those added that wait for a person.
    left_out: int = 0  # Not memories: work items, sessions, counts and deletions of an untrusted file.


def read_records(source: Iterable[str], place: str) -> Iterator[Record]:
    """Yield the records of an export; ValidationError names the first invalid line."""
    numbered = enumerate(source, 1)
    projects = {project_of(next(numbered, (1, ""))[1], place), EVERYWHERE}
    moment, last, is_whole = now(), 1, False
    for last, line in numbered:
        at = f"{place}, line {last}"
        if not line.strip():
            continue
        data = _parse_json(line, at)
        if is_whole:
            raise ValidationError(f"{at} comes after the end of the export; nothing was imported")
        is_whole = data == END
        if is_whole:
            continue
        try:
            record = parse_record(line, data, projects, moment)
        except (KeyError, IndexError, ValueError, TypeError, AttributeError, OverflowError) as error:
            reason = str(error) if type(error) is ValueError else "a value has the wrong type or format"
            if isinstance(error, KeyError):
                reason = f"the field {error} is missing"
            raise ValidationError(f"{at} is not a valid record: {reason}; nothing was imported") from error
        yield record
    if not is_whole:
        raise ValidationError(f"{place} is truncated after line {last}: the end mark is missing; nothing was imported")


def project_of(first: str, place: str) -> str:
    """Return the project that the first line of an export names."""
    head = _parse_json(first, f"{place}, line 1", "pass a file that `alma export` wrote; ")
    if not isinstance(head, dict) or head.get("alma") != "export" or "project" not in head:
        raise ValidationError(
            f"{place} is not an alma export; `alma export` writes one, and `alma ingest` reads other files"
        )
    if head.get("format") != FORMAT:
        raise ValidationError(
            f"{place} has format {head.get('format')!r}, but this version reads {FORMAT}; update alma and try again"
        )
    project = head["project"]
    if not isinstance(project, str) or project in ("", EVERYWHERE):
        raise ValidationError(f"{place} has no valid project name: {project!r}; nothing was imported")
    return project


def _parse_json(line: str, place: str, advice: str = "") -> Any:
    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not a valid JSON number")

    try:
        return json.loads(line, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise ValidationError(
            f"{place} is not valid JSON ({describe_parse_error(error)}); {advice}nothing was imported"
        ) from error


def parse_record(line: str, data: Any, projects: Collection[str], now: datetime) -> Record:
    """Return the record of a line, or raise ValueError or another error of decoding.

    Files come from anywhere. Invalid records are refused before anything is written: once stored, they would break
    every retrieval that reads them.
    """
    _check(isinstance(data, dict), "it is not a JSON object")
    for shape, (noun, names) in _FIELDS.items():
        for name in names.split():
            is_fit = isinstance(data[name], shape)
            _check(
                is_fit and (shape is str or all(isinstance(one, str) for one in data[name])), f"{name} must be {noun}"
            )
    is_version = type(data["version"]) is int and 0 < data["version"] < _MOST
    _check(is_version, "version must be a whole number from 1")
    _check(data["created_at"] and data["updated_at"], "created_at and updated_at are required")
    _check(not is_deeper(data["body"], _DEEPEST), f"body is nested deeper than {_DEEPEST} levels")
    if "\\ud" in line.lower():
        # Half a character is valid in JSON and nowhere else.
        json.dumps(data, ensure_ascii=False).encode("utf-8")
    record = from_json(data)
    evidence, kind = record.evidence, KINDS.get(record.kind)
    if kind is None or record.kind in HERE_ONLY:
        raise ValueError(f"unknown kind {record.kind!r}")
    is_id = record.id.isprintable() and 0 < len(record.id) <= _LONGEST_ID
    _check(is_id, f"id must be 1 to {_LONGEST_ID} visible characters")
    names_of_projects = " and ".join(sorted(projects))
    _check(record.project in projects, f"its project is {record.project!r}, but the file contains {names_of_projects}")
    is_counted = all(0 <= getattr(evidence, name) < _MOST for name in COUNTS)
    _check(is_counted, "the counts of its evidence must be 0 or more")
    is_dated = all(0 <= at <= _LAST_SECOND and 0 <= worth <= 1 for at, worth in evidence.recent)
    _check(is_dated, "each recent result of its evidence must be a time in seconds and a value from 0 to 1")
    # The codec of its kind must understand it.
    for name in {*kind.editable, *kind.unique}:
        _check(isinstance(record.body[name], str), f"{name} must be text")
    _check(isinstance(record.body.get("metadata", {}), dict), "metadata must be an object")
    kind.text(record.body)
    kind.passages(record.body)
    if kind.decode is not None:
        to_memory(record, now)
    if record.kind == CHANGESET:
        check_changeset(record.body)
    for counted in record.body.get("counted", {}).values():
        Evidence.from_json(counted)
    return record


def _check(is_sound: object, problem: str) -> None:
    if not is_sound:
        raise ValueError(problem)


# -- what becomes of records


def import_records(
    engine: Engine,
    records: Iterable[Record],
    total: int,
    *,
    trust: ImportTrust = ImportTrust.OWN,
    orphans: Collection[str] = (),
    dry_run: bool = False,
    progress: Progress = ignore_progress,
) -> ImportResult:
    """Import valid records, without `orphans`. The import can be stopped at any moment and started again.

    A dry run changes nothing and returns the counts of an import.
    """
    counts: Counter[str] = Counter()
    done, is_mute = 0, False
    left = iter(records)
    regrouped: set[str] = set()
    while batch := [_fit_record(engine, record, trust) for record in islice(left, _BATCH)]:
        step = partial(_import_batch, records=batch, trust=trust, orphans=orphans)
        regrouped |= _find_other_groups(engine, batch) if trust is ImportTrust.OWN else set()
        with name_call("import"):
            counts += step(Transaction(engine)) if dry_run else write(engine, step)
        done += len(batch)
        is_mute = is_mute or any(not one.vectors and KINDS[one.kind].passages(one.body) for one in batch)
        progress(done, total)
    for group in () if dry_run else sorted(regrouped):
        write(engine, partial(recount_group, group_id=group))
    is_embedding = is_mute and engine.encoder is not None and not dry_run
    return ImportResult(**counts, embedded=reindex(engine, progress) if is_embedding else 0)


def _find_other_groups(engine: Engine, records: Sequence[Record]) -> set[str]:
    """Return the ids of strategy groups that are stored in another version than the file's.

    They may lack outcomes of the file, or count outcomes that the file does not have.
    """
    versions = {record.id: record.version for record in records if record.kind == "strategy"}
    return {one.id for one in engine.store.get(list(versions)) if one.version != versions[one.id]}


def find_orphans(engine: Engine, records: Iterable[Record]) -> set[str]:
    """Return the ids of strategy groups in a file, and of their lessons, that only deleted memories had formed."""
    sources: defaultdict[str, set[str]] = defaultdict(set)
    merged: dict[str, str] = {}
    for record in records:
        if record.links and record.kind in (MemoryType.OUTCOME, *LESSONS) and not is_learned(record):
            sources[record.links[0]].add(record.id)
        elif record.kind == "strategy" and record.superseded_by:
            merged[record.id] = record.superseded_by
    for group, survivor in [*merged.items()] * _MAX_MERGES:
        sources[group] |= sources.get(survivor, set())
    ids = sorted({id for some in sources.values() for id in some})
    deleted = {id for batch in split_batches(ids) for id in Transaction(engine).find_deleted(batch, ever=True)}
    groups = [group for group, some in sources.items() if some and some <= deleted]
    orphans = {*groups} - {one.id for one in engine.store.get(groups)}
    return orphans | {group.replace("str", KINDS[kind].prefix, 1) for group in orphans for kind in LESSONS}


def _is_orphan(record: Record, gone: Collection[str]) -> bool:
    """Return whether a record is nothing without memories that are gone, such as a turn or a line of history."""
    subjects = [id in gone for id in (*record.links, *list_sources(record))]
    if record.kind in ("entity", "relation"):
        return bool(subjects) and all(subjects)
    return record.kind in ("turn", "change", "comparison") and any(subjects)


def find_claims(engine: Engine, records: Iterable[Record]) -> list[Record]:
    """Return the records that are new or newer than what is held and that only an own export may claim.

    These are active rules and preferences, and memories that say they are a person's own words.
    """
    claims = [one for one in records if limit_trust(one, ImportTrust.IMPORTED) != one]
    versions = {one.id: one.version for one in engine.store.get([one.id for one in claims])}
    return [one for one in claims if one.version > versions.get(one.id, 0)]


def _fit_record(engine: Engine, record: Record, trust: ImportTrust) -> Record:
    """Return it without secrets, with vectors of this store's embedder only, and no more believed than the file is."""
    if record.kind == "tombstone":
        # It holds no words, and its salt reads like a secret.
        return record
    body, text = clean(dict(record.body)), clean(record.text)
    size = engine.encoder.embedder.dim if engine.encoder else 0
    is_ours = record.embedder == engine.embedder_name and all(len(one) == size for one in record.vectors)
    if (body, text) != (record.body, record.text) or not is_ours or not record.vectors:
        record = replace(record, body=body, text=text, **MUTE)
    return limit_trust(record, trust)


def limit_trust(record: Record, trust: ImportTrust) -> Record:
    """Return the record with no more trust than the file has."""
    if record.kind not in READABLE_KINDS:
        return record
    waiting = Status.CANDIDATE if record.status is Status.ACTIVE else record.status
    source, is_gated = record.provenance, KINDS[record.kind].is_gated
    if trust is ImportTrust.NONE:
        doubted = replace(source, trust=Trust.UNTRUSTED, source=source.source or "import")
        return replace(record, provenance=doubted, status=waiting)
    if record.kind in (MemoryType.EPISODE, MemoryType.OUTCOME, "turn"):
        # What was said and done; it is only ever quoted.
        return record
    if record.status is Status.ACTIVE and (is_gated or trust is ImportTrust.IMPORTED):
        # Loaded here: its patterns take a while to compile.
        from .escape import find_suspicion

        if find_suspicion(record.text):
            record = replace(record, status=waiting, tags=tuple(dict.fromkeys((*record.tags, "suspicious"))))
    if trust is ImportTrust.OWN:
        return record
    if source.origin in (Origin.USER, Origin.CORRECTION):
        source = replace(source, origin=Origin.IMPORT, trust=min(source.trust, Trust.LEARNED, key=_TRUST.index))
    return replace(record, provenance=source, status=waiting if is_gated else record.status)


def _import_batch(
    tx: Transaction, records: Sequence[Record], trust: ImportTrust, orphans: Collection[str]
) -> Counter[str]:
    """Store those records that are new or newer; return what became of all of them, as fields of `ImportResult`."""
    if trust is ImportTrust.OWN:
        # What was deleted here is left out below; an own export is taken in as it is.
        tx.tombstones = Tombstones()
    newest = {record.id: record for record in sorted(records, key=lambda one: one.version)}
    stored = {record.id: record for record in tx.get(newest, as_stored=True)}
    memories = [record for record in newest.values() if record.kind != "tombstone"]
    deleted = tx.find_buried(memories) | set(orphans)
    parts = [one for one in memories if one.kind not in MEMORY_KINDS]
    subjects = {id for one in parts for id in (*one.links, *list_sources(one), *one.body.get("was", ()))}
    gone = tx.find_deleted(subjects, ever=True) | set(orphans)
    alone = [record for record in memories if record.kind in _ALONE and record.key]
    projects, keys = {record.project for record in alone}, {record.key for record in alone}
    where = Where(kinds=set(_ALONE), projects=projects, keys=keys, statuses=LIVE)
    same = {(one.project, one.kind, one.key): one.id for one in tx.scan(where)} if alone else {}
    counts: Counter[str] = Counter()
    salts = tx.read_salts()
    salt_count = len(salts)
    for record in newest.values():
        if record.kind == CHANGESET:
            # What the records were before: nothing that a person counts.
            links = tuple(id for id in record.links if id not in gone)
            if record.id not in stored and trust is ImportTrust.OWN and links:
                tx.put(replace(record, body=strip_changeset(record.body, gone, ()), links=links), exact=True)
            continue
        existing, is_memory = stored.get(record.id), record.kind in READABLE_KINDS
        twin = same.get((record.project, record.kind, record.key), record.id)
        if trust is ImportTrust.NONE and not is_memory:
            counts["left_out"] += 1
        elif existing is not None and (trust is not ImportTrust.OWN or record.version <= existing.version):
            counts["known"] += 1
        elif _is_orphan(record, gone) or (record.id in deleted and not (existing and existing.text == record.text)):
            counts["erased"] += 1
        elif existing is None and twin != record.id:
            counts["known"] += 1
        else:
            counts["updated" if existing else "added"] += 1
            salt = str(record.body.get("salt") or "") if record.kind == "tombstone" else ""
            if len(salt) == 32 and set(salt) <= set("0123456789abcdef") and salt not in salts:
                # The store's own salt stays the first.
                salts.append(salt)
            record = tx.put(record, exact=True)
            if trust is not ImportTrust.OWN and record.kind in _ALONE and record.status is Status.ACTIVE:
                record = _dispute_persons_value(tx, record)
            counts["waiting"] += not existing and is_memory and record.status is Status.CANDIDATE
    if len(salts) > salt_count:
        tx.set_marker(SALT_MARKER, {"value": salts}, project="")
    return counts


def _dispute_persons_value(tx: Transaction, record: Record) -> Record:
    """Let an imported value wait if a person gave its explicit key another one."""
    for other in find_persons_values(tx, record, record.provenance.weight):
        return dispute(tx, record, other)
    return record
