"""What one write changed: a `changeset` holds the former values, so that it can be listed, undone and looked back on.

Every write stores one changeset for each agent and user that it touched; those of one write share a `key`. For each
record, `was` holds what its fields were before, or None if the write made the record. Counts are stored as
differences, so that a change can be reverted after later ones. A write that erases leaves none.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from ..types.kinds import KINDS, MEMORY_KINDS, MemoryType
from ..types.record import CODECS, COUNTS, RECENT, Evidence, Origin, Record, new_id
from ..types.times import EPOCH, from_micros, to_micros
from .admit import make_record
from .calls import ACTOR, CALL, RUN

if TYPE_CHECKING:
    from .context import Engine
    from .transaction import Transaction

CHANGESET = "changeset"
TRACKED = frozenset((*MEMORY_KINDS, "turn", "strategy", "observation", "comparison"))
INSTANT = timedelta(microseconds=1)
UNFILTERED = {"evidence", "updated_at"}  # Fields that no search filters by, and that change with each count.
REWRITTEN = "rewritten"  # The tag of a changeset that changed texts or fields that are filtered by.
LATE = "late"  # The tag of a changeset that is newer than one with a later date: the clock was set back.

_FIELDS = "project agent user session status key provenance links tags valid_from valid_to superseded_by".split()
# Of a conversation: its text, which its turns have, and the number of the next turn, which is not used twice.
_DERIVED = ("said", "next")
Was = Mapping[str, Any]


def date_change(engine: Engine) -> datetime:
    """Return the time of a new change: now, or just after the last one if the clock was set back since."""
    now, last = engine.clock(), engine.changed_at.get(engine.project)
    if last is None:
        # A change that is further ahead comes from a clock that was wrong: later changes are not dated after it.
        ends = now + timedelta(days=1)
        where = engine.within(CHANGESET, created_to=ends)
        last = next((one.created_at for one in engine.store.scan(where, 1)), now)
        # What is made now is newer than those all the same.
        ahead = engine.within(CHANGESET, created_from=ends)
        engine.ahead_at[engine.project] = next((one.created_at for one in engine.store.scan(ahead, 1)), None)
    moment = engine.changed_at[engine.project] = now if now >= last else last + INSTANT
    return moment


def order_changes(changesets: Iterable[Record]) -> list[Record]:
    """Return changesets in the order in which they were made, newest first, also where the clock was set back."""

    def find_place(changeset: Record) -> tuple[datetime, bool, datetime]:
        after = changeset.body.get("after")
        base = max(changeset.created_at, from_micros(after)) if after else changeset.created_at
        return base, bool(after), changeset.created_at

    return sorted({one.id: one for one in changesets}.values(), key=find_place, reverse=True)


def make_changesets(tx: Transaction) -> list[Record]:
    """Return the changesets of a transaction, and its lines of history with their key."""
    fresh = [record for record in tx.changed if record.kind in TRACKED]
    if not fresh:
        return []
    tx.get([one.id for one in fresh if one.version > 1], as_stored=True)
    places: defaultdict[tuple[str, str, str], dict[str, Any]] = defaultdict(dict)
    rewritten: set[str] = set()  # May be found by other words or another filter now.
    for record in fresh:
        stored = tx.read_stored(record.id)
        was = stored and describe_change(stored, record)
        places[record.project, record.agent, record.user][record.id] = was
        if stored and was and (stored.text != record.text or not was.keys().isdisjoint(_FIELDS)):
            rewritten.add(record.id)
    for stone in tx.changed:
        # Stating a deleted memory again retires its tombstone.
        if stone.kind == "tombstone" and (stored := tx.read_stored(stone.id)):
            next(iter(places.values()))[stone.id] = describe_change(stored, stone)
    engine, key, by_id = tx.engine, new_id(KINDS[CHANGESET].prefix), {one.id: one for one in fresh}
    tx.change_id = key
    moment = date_change(engine)
    later = engine.ahead_at.get(engine.project)
    changesets: list[Record] = []
    for (project, agent, user), was in places.items():
        body: dict[str, Any] = {"call": CALL.get(), "by": engine.actor or ACTOR.get(), "was": was}
        body |= {"run": RUN.get()} if RUN.get() else {}
        body |= {"reverts": tx.reverts.key} if tx.reverts else {}
        body |= {"made_in": engine.project} if project != engine.project else {}
        # New turns are found by their conversation: long ones would make long lists.
        links = tuple(id for id, one in was.items() if id in by_id and (one is not None or by_id[id].kind != "turn"))
        tags = () if rewritten.isdisjoint(links) else (REWRITTEN,)
        if later is not None and later > moment:
            tags = (*tags, LATE)
            body["after"] = to_micros(later)
        id = new_id(KINDS[CHANGESET].prefix) if changesets else key
        own: dict[str, Any] = {"id": id, "key": key, "links": links, "tags": tags, "created_at": moment}
        changesets.append(make_record(engine, CHANGESET, body, project=project, agent=agent, user=user, **own))
    new_lines = (one for one in tx.changed if one.kind == "change" and not one.key)
    lines = [replace(one, key=key, created_at=moment) for one in new_lines]
    return [*changesets, *lines]


def describe_change(before: Record, after: Record) -> dict[str, Any]:
    """Return the values that a record had before a change, as JSON values."""
    was = {
        name: CODECS[name][0](getattr(before, name))
        for name in _FIELDS
        if getattr(before, name) != getattr(after, name)
    }
    if before.body != after.body:
        changed = {
            name: value
            for name, value in before.body.items()
            if after.body.get(name, ...) != value and name not in _DERIVED
        }
        was["body"] = {"set": changed, "unset": [name for name in after.body if name not in before.body]}
    if before.evidence != after.evidence:
        was["evidence"] = _subtract(before.evidence, after.evidence)
    if before.updated_at != after.updated_at:
        was["updated_at"] = to_micros(before.updated_at)
    return was


def _subtract(before: Evidence, after: Evidence) -> dict[str, Any]:
    """Return what evidence gained, and the recent results that it lost."""
    gain: dict[str, Any] = {
        name: difference for name in COUNTS if (difference := getattr(after, name) - getattr(before, name))
    }
    if gained := _list_missing(after.recent, before.recent):
        gain["gained"] = gained
    if lost := _list_missing(before.recent, after.recent):
        gain["lost"] = lost
    if before.last_used != after.last_used:
        gain["last_used"] = None if before.last_used is None else to_micros(before.last_used)
    if _add_back(after, gain).recent != before.recent:
        # Results that did not arrive in the order of their times.
        gain["recent"] = [list(one) for one in before.recent]
    return gain


def _list_missing(results: Iterable[tuple[float, float]], others: Iterable[tuple[float, float]]) -> list[list[float]]:
    return [list(one) for one in (Counter(results) - Counter(others)).elements()]


def restore_fields(record: Record, was: Was) -> dict[str, Any]:
    """Return the fields of a record as they were before a change, without its text and vectors."""
    fields = {name: CODECS[name][1](value) for name, value in was.items() if name in _FIELDS}
    if "body" in was:
        kept = {name: value for name, value in record.body.items() if name not in was["body"]["unset"]}
        fields["body"] = {**kept, **was["body"]["set"]}
    if "evidence" in was:
        fields["evidence"] = _add_back(record.evidence, was["evidence"])
    if "updated_at" in was:
        fields["updated_at"] = from_micros(was["updated_at"])
    return fields


def _add_back(evidence: Evidence, gain: Mapping[str, Any]) -> Evidence:
    changes: dict[str, Any] = {name: max(0, getattr(evidence, name) - gain[name]) for name in COUNTS if name in gain}
    if "last_used" in gain:
        changes["last_used"] = None if gain["last_used"] is None else from_micros(gain["last_used"])
    gained = [(float(at), float(value)) for at, value in gain.get("gained", ())]
    results = gain.get("recent", [*gain.get("lost", ()), *_list_missing(evidence.recent, gained)])
    recent = [(float(at), float(value)) for at, value in results]
    if "recent" not in gain:
        recent = sorted(recent, key=lambda one: one[0])[-RECENT:]
    return replace(evidence, **changes, recent=tuple(recent))


def reword_past(engine: Engine, record: Record, past: Record) -> Record:
    """Return a former state of a record with the text and vectors that belong to its body."""
    kind = KINDS[record.kind]
    if past.body == record.body:
        return past
    past = replace(past, text=kind.text(past.body))
    is_lesson = record.kind in (MemoryType.HEURISTIC, MemoryType.ANTI_PATTERN) and bool(record.links)
    # The vectors of a lesson are those of its strategy group, which has its wordings, until somebody edits it.
    is_learned = is_lesson and record.provenance.origin is past.provenance.origin is Origin.OUTCOME
    bodies = ({**one.body, "wordings": {}} if is_lesson else one.body for one in (record, past))
    own, former = map(kind.passages, bodies)
    if is_learned or own == former:
        return past
    # In the order of a group: the strategy first.
    [vectors] = engine.encode([former[::-1] if is_lesson else former])
    return replace(past, vectors=vectors, embedder=engine.embedder_name if vectors else "")


def check_changeset(body: Mapping[str, Any]) -> None:
    """Raise an error of decoding unless the body of an imported changeset can be read."""
    blank = Record(id="", kind="", project="", created_at=EPOCH, updated_at=EPOCH)
    for was in dict(body["was"]).values():
        if was is not None:
            replace(blank, **restore_fields(blank, was))


def _was_merged_from(was: Was | None, ids: Collection[str]) -> bool:
    """Return whether a former value of a record is a merge with one of these."""
    former = was.get("body", {}).get("set", {}) if was else {}
    merged = {*former.get("counted", {}), *former.get("metadata", {}).get("merged_from", ())}
    return not merged.isdisjoint(ids)


def strip_changeset(
    body: Mapping[str, Any], erased: Collection[str], texts: Collection[str], related: Collection[str] = ()
) -> dict[str, Any]:
    """Return the body of a changeset without erased records, and without former texts that hold one of `texts`.

    `related` are records that are worded after the erased one, so that none of their former texts stays. The text that
    a record had while an erased one was merged into it may repeat that one in other words, so it goes too.
    """
    stripped = {}
    for id, was in body["was"].items():
        if id in erased:
            continue
        former = json.dumps(was.get("body", ""), ensure_ascii=False) if was else ""
        is_worded_after = id in related or _was_merged_from(was, erased)
        if was and (is_worded_after or any(json.dumps(text, ensure_ascii=False)[1:-1] in former for text in texts)):
            was = {name: value for name, value in was.items() if name != "body"}
        stripped[id] = was
    return {**body, "was": stripped}
