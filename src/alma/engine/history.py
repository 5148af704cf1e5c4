"""The history of a memory: who changed what, what differs from an earlier time, and how to take a change back.

A change is everything that one write did; its id is the key of its changesets. Taking it back is a change of its own,
which can be taken back in turn. Records that the change made are retired, not deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from ..errors import NotFoundError, ScopeError, ValidationError
from ..text import normalise
from ..types.kinds import EVERYWHERE, MEMORY_KINDS, MemoryType
from ..types.query import Where
from ..types.record import CODECS, LIVE, NONE, Origin, Record, Status
from ..types.slice import MemorySlice
from .changes import ACTOR, CHANGESET, TRACKED, restore_fields, reword_past
from .context import Engine
from .edit import is_own
from .episodes import find_turns
from .erase import recount_group
from .past import look_back
from .retrieve.pipeline import choose_memories
from .retrieve.request import Request, prepare
from .search import by_words
from .transaction import LESSONS, Transaction, write

_UNFILTERED = {"evidence", "updated_at"}
_INSTANT, _LONG = timedelta(microseconds=1), timedelta(hours=1)
_MAX_BLAMED = 5
_COUNTED = "counted"
_WORDS = ("rule", "trigger", "fact", "preference", "condition", "strategy", "pattern", "title")


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """What one change did to one memory."""

    change: str
    """The id that `revert` takes; empty for changes that earlier versions recorded."""
    at: datetime
    record: str
    verb: str
    why: str = ""
    before: Mapping[str, Any] = field(default_factory=dict)
    call: str = ""
    """The operation that made the change."""
    by: str = ""
    """Who made it: an interface such as cli or mcp, a token's name, upkeep; empty for Python code."""
    episodes: tuple[str, ...] = ()
    """The conversations or sessions that the memory was learned from."""
    reverts: str = ""
    """The id of the change that this one takes back."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How a memory differs between two times."""

    id: str
    kind: str
    what: str
    """added, removed, restored, reworded, changed, counted or deleted."""
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class RevertedChange:
    """What was taken back."""

    change: str
    """The id of the change that was taken back."""
    undo: str
    """The id of the change that took it back; empty in a dry run."""
    at: datetime
    call: str
    memories: tuple[Difference, ...]
    """What taking it back changed."""


@dataclass(frozen=True, slots=True)
class TurningPoint:
    """The change after which a task is advised differently."""

    change: str
    at: datetime
    call: str
    by: str
    revisions: tuple[Revision, ...]
    gained: tuple[str, ...]
    """The memories that the task is shown since then, and was not before."""
    lost: tuple[str, ...]
    retrievals: int
    """How many retrievals it took to find it."""


def _scan_changesets(engine: Engine, **conditions: Any) -> list[Record]:
    where = Where(kinds={CHANGESET}, projects={engine.project, EVERYWHERE}, **conditions)
    return list(engine.store.scan(where))[::-1]


# --- who changed what ------------------------------------------------------------------------------


def list_revisions(engine: Engine, record: Record, *, counts: bool = False) -> list[Revision]:
    """Return what happened to a record, oldest first; with `counts` also the changes of counts alone."""
    lines: dict[str, list[Record]] = {}
    for line in Transaction(engine).read_history(record.id):
        lines.setdefault(line.key, []).append(line)
    revisions = [_read_line(line) for line in lines.pop("", ())]
    for changeset in _scan_changesets(engine, linked={record.id}):
        was = changeset.body["was"].get(record.id, ...)
        if was is ...:
            continue
        own = lines.pop(changeset.key, [])
        known: dict[str, Any] = {name: changeset.body.get(name, "") for name in ("call", "by", "reverts")}
        for line in own:
            revisions.append(replace(_read_line(line), change=changeset.key, **known))
        # The words of a lesson follow its outcomes.
        is_edited = was is not None and was.keys() - _UNFILTERED and record.provenance.origin is not Origin.OUTCOME
        if own or (was is not None and not counts and not is_edited):
            continue
        verb = "created" if was is None else "edited" if is_edited else _COUNTED
        place: dict[str, Any] = {"change": changeset.key, "at": changeset.created_at, "record": record.id, **known}
        revisions.append(Revision(verb=verb, before=_read_before(was or {}), **place))
    revisions += [_read_line(line) for rest in lines.values() for line in rest]
    if not any(one.verb in ("created", "formed") for one in revisions):
        revisions.append(Revision(change="", at=record.created_at, record=record.id, verb="created"))
    revisions.sort(key=lambda one: (one.verb != "created", one.at))
    return [replace(revisions[0], episodes=record.provenance.episodes), *revisions[1:]]


def _read_line(line: Record) -> Revision:
    body = line.body
    return Revision(
        change="", at=line.created_at, record=body["record"], verb=body["verb"], why=body["why"], before=body["before"]
    )


def _read_before(was: Mapping[str, Any]) -> dict[str, Any]:
    """Return the former values that a person understands."""
    shown = {name: was[name] for name in ("status", "tags", "agent", "user") if name in was}
    return {**shown, **was.get("body", {}).get("set", {})}


def find_authors(engine: Engine, text: str, limit: int = _MAX_BLAMED) -> list[tuple[Record, Revision]]:
    """Return the memories that hold a text, best match first, each with the change that brought the text in."""
    wanted, projects = normalise(text), {engine.project, EVERYWHERE}
    where = Where(kinds=MEMORY_KINDS, projects=projects)
    records = engine.store.get([hit.id for hit in by_words(engine.store, text, where, 20 * limit)])
    holding = [one for one in records if wanted in normalise(one.text)]
    holding.sort(key=lambda one: one.status not in LIVE)
    authors = []
    for record in holding[:limit]:
        revisions = list_revisions(engine, record)
        past, author = record, revisions[0]
        # Back from now to the change before which it did not hold the text.
        for changeset in reversed(_scan_changesets(engine, linked={record.id})):
            was = changeset.body["was"].get(record.id)
            if was is None or "body" not in was:
                continue
            body = restore_fields(past, was)["body"]
            if wanted in normalise(past.text) and wanted not in normalise("\n".join(map(str, body.values()))):
                author = next((one for one in revisions if one.change == changeset.key), author)
                break
            past = replace(past, body=body)
        authors.append((record, author))
    return authors


# --- what differs ----------------------------------------------------------------------------------


def list_differences(engine: Engine, since: datetime, until: datetime | None = None) -> list[Difference]:
    """Return how the memories of a project differ between two times, or from then to now."""
    if until is not None and since >= until:
        raise ValidationError(f"since ({since.isoformat()}) must be before until ({until.isoformat()})")
    end = {} if until is None else {"created_to": until + _INSTANT}
    changesets = _scan_changesets(engine, created_from=since + _INSTANT, **end)
    ids = dict.fromkeys(id for one in changesets for id in one.body["was"])
    old, new = look_back(engine, since), engine if until is None else look_back(engine, until)
    differences = _compare_states(old.store.get(list(ids)), new.store.get(list(ids)))
    stones = Where(kinds={"tombstone"}, projects={engine.project, EVERYWHERE}, statuses={Status.ACTIVE})
    later = replace(stones, created_from=since + _INSTANT, created_to=end.get("created_to"))
    deleted = [Difference(one.body["record"], one.body["kind"], "deleted") for one in engine.store.scan(later)]
    return [*differences, *deleted]


def _compare_states(before: Iterable[Record], after: Iterable[Record]) -> list[Difference]:
    old, new = ({one.id: one for one in some if one.kind in MEMORY_KINDS} for some in (before, after))
    differences = []
    for id in dict.fromkeys((*old, *new)):
        first, second = old.get(id), new.get(id)
        was_live, is_live = (one is not None and one.status in LIVE for one in (first, second))
        known = second or first
        texts = ("" if one is None else one.text for one in (first, second))
        if known is None or not (was_live or is_live):
            continue
        if not is_live:
            what = "removed"
        elif not was_live:
            what = "added" if first is None else "restored"
        else:
            what = _compare_records(first, second)
        if what:
            differences.append(Difference(id, known.kind, what, *texts))
    return differences


def _compare_records(first: Record | None, second: Record | None) -> str:
    if first is None or second is None:
        return ""
    if first.text != second.text:
        return "reworded"
    if first.evidence != second.evidence:
        return _COUNTED
    names = ("status", "tags", "agent", "user", "provenance", "body")
    return "changed" if any(getattr(first, name) != getattr(second, name) for name in names) else ""


# --- taking back -----------------------------------------------------------------------------------


def undo_last(engine: Engine, memory_id: str | None = None, *, dry_run: bool = False) -> RevertedChange:
    """Take back the newest change of a project or of one memory that was not taken back yet."""
    linked = None if memory_id is None else {memory_id}
    newest = engine.store.scan(Where(kinds={CHANGESET}, projects={engine.project, EVERYWHERE}, linked=linked))
    for one in newest:
        if one.body.get("reverts") or one.body.get("undone"):
            continue
        tx = Transaction(engine)
        _revert(tx, _find_change(engine, one.key))
        # A change of memories that were deleted since has nothing to take back.
        if any(record.kind in TRACKED for record in tx.changed):
            return revert_change(engine, one.key, dry_run=dry_run)
    raise NotFoundError("there is no change to undo; `alma history ID` lists the changes of a memory")


def revert_change(engine: Engine, change: str, *, dry_run: bool = False) -> RevertedChange:
    """Take back everything that one write changed, all or none.

    Counts are taken back after later changes, too. A text or status that was changed again since is not overwritten:
    then nothing is taken back, and the error names the later change.
    """
    ids = _find_change(engine, change)
    if dry_run:
        return _revert(Transaction(engine), ids)
    done = write(engine, partial(_revert, ids=ids))
    where = Where(kinds={CHANGESET}, projects={engine.project, EVERYWHERE}, fields={"reverts": done.change})
    undo = next((one.key for one in engine.store.scan(where, 1)), "")
    return replace(done, undo=undo)


def _find_change(engine: Engine, change: str) -> list[str]:
    """Return the ids of the changesets of a change."""
    changeset = next(iter(engine.store.get([change])), None)
    projects = {engine.project, EVERYWHERE}
    if changeset is None or changeset.kind != CHANGESET or changeset.project not in projects:
        raise NotFoundError(f"there is no change {change!r}; `alma history ID` lists the changes of a memory")
    # A change of this project may reach rules of all projects, not other projects.
    return [one.id for one in _scan_changesets(engine, keys={changeset.key})]


def _revert(tx: Transaction, ids: Sequence[str]) -> RevertedChange:
    # The changesets are changed as well, so that of two callers at once one starts again and is refused.
    engine, changesets = tx.engine, tx.get(ids)
    first = changesets[0]
    key = tx.reverts = first.key
    if first.body.get("undone"):
        raise ValidationError(f"the change {key} was already taken back")
    if not engine.may_approve and first.body["by"] != (engine.actor or ACTOR.get()):
        raise ScopeError(f"the change {key} was made by somebody else, and only a person may take it back")
    was = {id: value for one in changesets for id, value in one.body["was"].items()}
    before = tx.get(was)
    for record in before:
        if not engine.may_approve and record.provenance.is_persons:
            raise ScopeError(f"memory {record.id!r} was stated by a person, and only a person may take that back")
    after = [_revert_record(tx, record, was[record.id], first) for record in before]
    groups = {one.id for one in after if one.kind == "strategy"}
    groups |= {one.links[0] for one in after if one.kind == MemoryType.OUTCOME and one.links}
    for group in sorted(groups):
        recount_group(tx, group)
    _mark_undone(tx, changesets)
    memories = _compare_states(before, tx.get(was))
    return RevertedChange(key, "", first.created_at, first.body["call"], tuple(memories))


def _mark_undone(tx: Transaction, changesets: Sequence[Record]) -> None:
    """Mark a change as taken back; if it took back another one, that one holds again."""
    for one in changesets:
        tx.update(one, body={**one.body, "undone": True}, updated_at=one.updated_at)
    for original in tx.get([str(changesets[0].body.get("reverts", ""))]):
        for one in tx.scan(Where(kinds={CHANGESET}, keys={original.key})):
            tx.update(one, body={**one.body, "undone": False}, updated_at=one.updated_at)


def _revert_record(tx: Transaction, record: Record, was: Mapping[str, Any] | None, changeset: Record) -> Record:
    """Store a record as it was before a change."""
    why = f"{changeset.body['call'] or 'a change'} of {changeset.created_at:%Y-%m-%d %H:%M}"
    if was is None:
        is_learned = record.kind in LESSONS and record.provenance.origin is Origin.OUTCOME
        # A lesson comes back when its outcomes do.
        status = Status.ARCHIVED if is_learned else Status.RETIRED
        if record.status is status:
            return record
        for turn in find_turns(tx, record) if record.kind == MemoryType.EPISODE else ():
            tx.update(turn, status=Status.RETIRED)
        # A group without results is used again by the next outcome; a pair that was set apart is not compared again.
        changes: dict[str, Any] = {"status": status}
        if record.kind == "strategy":
            changes = {"evidence": NONE}
        elif record.kind == "comparison":
            changes = {"body": {**record.body, "decision": "undone"}, "tags": ()}
        fresh = tx.update(record, **changes)
    else:
        fields = restore_fields(record, was)
        if _has_later_change(tx, record, was, changeset):
            fields.pop("updated_at", None)
        past = reword_past(tx.engine, record, replace(record, **fields))
        fresh = tx.update(past, updated_at=past.updated_at)
    if record.kind in MEMORY_KINDS and (was is None or was.keys() - _UNFILTERED):
        tx.add_history(fresh, "undone", why, {"status": str(record.status)})
    return fresh


def _has_later_change(tx: Transaction, record: Record, was: Mapping[str, Any], changeset: Record) -> bool:
    """Return whether a record was changed again; raise ValidationError if that would be overwritten."""
    names = {*was.keys() - _UNFILTERED - {"body"}}
    body_names = {*was.get("body", {}).get("set", {}), *was.get("body", {}).get("unset", ())}
    where = Where(kinds={CHANGESET}, projects={record.project}, linked={record.id})
    after = [one for one in tx.scan(replace(where, created_from=changeset.created_at)) if one.id > changeset.id]
    reverted, keys = {one.body.get("reverts") for one in after}, {one.key for one in after}
    # What was taken back since, and the taking back, cancel each other.
    lasting = (one for one in after if one.key not in reverted and one.body.get("reverts") not in keys)
    later = sorted(lasting, key=lambda one: (one.created_at, one.id))
    # From the oldest: its former values are what this change had left.
    for one in later:
        then = one.body["was"].get(record.id) or {}
        body = then.get("body", {"set": {}, "unset": ()})
        touched = {name for name in names if name in then and then[name] != CODECS[name][0](getattr(record, name))}
        touched |= {name for name in body_names if body["set"].get(name, ...) not in (..., record.body.get(name))}
        touched |= {name for name in body_names & {*body["unset"]} if name in record.body}
        names, body_names = names - then.keys(), body_names - body["set"].keys() - {*body["unset"]}
        if touched:
            raise ValidationError(
                f"{record.id} was changed again by {one.key} on {one.created_at:%Y-%m-%d %H:%M} "
                f"({', '.join(sorted(touched))}); revert that change first"
            )
    return bool(later)


# --- which change mattered -------------------------------------------------------------------------


def find_turning_point(
    engine: Engine, request: Request, since: datetime | None = None, until: datetime | None = None, shows: str = ""
) -> TurningPoint:
    """Return the change after which a task is shown what it is shown now, found by bisection.

    With `shows`, it is the change after which a text appears in the prompt, or disappears from it.
    """
    end = until or engine.clock()
    changesets = _scan_changesets(engine, created_to=end + _INSTANT, **({"created_from": since} if since else {}))
    moments = sorted({one.created_at for one in changesets})
    if not moments:
        raise NotFoundError("nothing changed in this period")
    before_all = Where(kinds={CHANGESET}, projects={engine.project, EVERYWHERE}, created_to=moments[0])
    earlier = next((one.created_at for one in engine.store.scan(before_all, 1)), None)
    answers: dict[int, MemorySlice] = {}

    def ask(number: int) -> MemorySlice:
        """Return what is shown after the change of this number; -1: before the first."""
        if number not in answers:
            # The first memory is a little older than the change that stored it.
            moment = moments[number] if number >= 0 else earlier or moments[0] - _LONG
            answers[number] = choose_memories(prepare(look_back(engine, moment), request))
        return answers[number]

    def judge(number: int) -> Any:
        return normalise(shows) in normalise(ask(number).to_prompt()) if shows else _list_shown(ask(number))

    low, high = -1, len(moments) - 1
    wanted = judge(high)
    if judge(low) == wanted:
        what = f"{shows!r} is {'shown' if wanted else 'not shown'}" if shows else "the task is shown the same memories"
        raise NotFoundError(f"{what} before and after this period; pass another time or another text")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if judge(middle) == wanted else (middle, high)
    return _describe_turning(engine, moments[high], changesets, ask(low), ask(high), len(answers))


def _list_shown(memories: MemorySlice) -> frozenset[tuple[str, ...]]:
    """Return what is shown, without counts: each new result would make a difference."""
    texts = {one.id: [str(getattr(one, name, "")) for name in _WORDS] for one in memories}
    return frozenset((one.id, one.newer, *texts[one.id]) for one in memories)


def _describe_turning(
    engine: Engine,
    moment: datetime,
    changesets: Sequence[Record],
    before: MemorySlice,
    after: MemorySlice,
    retrievals: int,
) -> TurningPoint:
    own = [one for one in changesets if one.created_at == moment]
    records = {one.id: one for one in engine.store.get([id for one in own for id in one.body["was"]])}
    keys = {one.key for one in own}
    revisions = [
        revision
        for record in records.values()
        if is_own(engine, record) and record.kind in MEMORY_KINDS
        for revision in list_revisions(engine, record, counts=True)
        if revision.change in keys
    ]
    shown: list[dict[str, Any]] = [{one.id: one for one in some} for some in (before, after)]
    gained, lost = ([id for id in shown[first] if id not in shown[1 - first]] for first in (1, 0))
    body = own[0].body
    return TurningPoint(
        own[0].key, moment, body["call"], body["by"], tuple(revisions), tuple(gained), tuple(lost), retrievals
    )
