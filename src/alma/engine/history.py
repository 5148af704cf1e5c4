"""The history of a memory: who changed what, what differs from an earlier time, and how to undo a change.

A change is everything that one write did; its id is the key of its changesets. Reverting it is a change of its own,
which can be reverted in turn. Records that the change made are retired, not deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from itertools import islice
from typing import Any

from ..errors import NotFoundError, ScopeError, ValidationError
from ..text import normalise, words
from ..types.kinds import EVERYWHERE, KINDS, MEMORY_KINDS, MemoryType
from ..types.query import Where
from ..types.record import CODECS, LIVE, NONE, Origin, Record, Status
from ..types.slice import MemorySlice
from ..types.times import format_minute, from_micros
from .calls import ACTOR, IMPORT, RUN, find_import_run, name_import
from .changes import (
    CHANGESET,
    INSTANT,
    LATE,
    TRACKED,
    UNFILTERED,
    Was,
    order_changes,
    restore_fields,
    reword_past,
)
from .context import Engine
from .edit import is_own, refuse_second_values
from .episodes import find_turns, join_said
from .erase import recount_group
from .past import look_back
from .retrieve.pipeline import choose_memories
from .retrieve.request import Request, prepare
from .search import by_words
from .tombstones import read_others
from .transaction import LESSONS, Transaction, is_learned, write

_LONG = timedelta(hours=1)
_MAX_BLAMED = 5
_COUNTED = "counted"
_WORDS = ("rule", "trigger", "fact", "preference", "condition", "strategy", "pattern", "title")


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the history of a memory or a work item."""

    at: datetime
    verb: str
    why: str = ""
    before: Mapping[str, Any] = field(default_factory=dict)
    by: str = ""
    """Who made the change: an agent, an interface such as cli, a token's name or upkeep; empty for Python code."""
    after: Mapping[str, Any] = field(default_factory=dict)
    """The values of a work item after the change."""
    record: str = ""
    """The id of the memory or the work item."""
    change: str = ""
    """The id that `revert` takes; empty for work items and for changes that earlier versions recorded."""
    call: str = ""
    """The operation that made the change."""
    episodes: tuple[str, ...] = ()
    """The conversations that a new memory was learned from."""
    reverts: str = ""
    """The id of the change that this one reverts."""


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
    """What was undone."""

    change: str
    """The id of the change that was undone."""
    undo: str
    """The id of the change that undid it; empty in a dry run."""
    at: datetime
    call: str
    memories: tuple[Difference, ...]
    """How the memories changed by that."""
    rest: int = 0
    """How many other changes the same call made, which still hold."""
    import_id: str = ""
    """The id of the import that made it, if one did."""
    left: tuple[str, ...] = ()
    """What still holds of an import, with the reasons."""


@dataclass(frozen=True, slots=True)
class TurningPoint:
    """The change after which a task is advised differently."""

    change: str
    at: datetime
    call: str
    by: str
    revisions: tuple[Change, ...]
    gained: tuple[str, ...]
    """The memories that the task is shown since then, and was not before."""
    lost: tuple[str, ...]
    retrievals: int
    """How many retrievals it took to find it."""


_MOST_SHOWN = 1000
_IMPORTING = (IMPORT, "revert")  # The operations whose runs have the id of an import: undoing one can be undone.
_MOST_OF_CALL = 5000  # Among so many of the newest changes, the others of one call are looked for.


def _scan_changesets(engine: Engine, **conditions: Any) -> list[Record]:
    where = engine.within(CHANGESET, **conditions)
    return list(engine.store.scan(where))[::-1]


# --- who changed what ------------------------------------------------------------------------------


def list_revisions(engine: Engine, record: Record, *, counts: bool = False) -> list[Change]:
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
        known["change"] = changeset.key
        for one in map(_read_line, own):
            # What an undo replaced is in the changeset, where a deletion finds it.
            texts = {} if one.verb != "undone" or was is None else was.get("body", {}).get("set", {})
            before = {name: texts[name] for name in KINDS[record.kind].editable if name in texts}
            revisions.append(replace(one, **known, before={**before, **one.before}))
        # The words of a lesson follow its outcomes.
        is_edited = was is not None and was.keys() - UNFILTERED and record.provenance.origin is not Origin.OUTCOME
        if own or (was is not None and not counts and not is_edited):
            continue
        verb = "created" if was is None else "edited" if is_edited else _COUNTED
        known |= {"before": read_before(was or {}), "record": record.id}
        revisions.append(Change(changeset.created_at, verb, **known))
    revisions += [_read_line(line) for rest in lines.values() for line in rest]
    if not any(one.verb in ("created", "formed") for one in revisions):
        revisions.append(Change(record.created_at, "created", record=record.id))
    revisions.sort(key=lambda one: (one.verb != "created", one.at))
    return [replace(revisions[0], episodes=record.provenance.episodes), *revisions[1:]]


def _read_line(line: Record) -> Change:
    return Change(line.created_at, **{name: one for name, one in line.body.items() if name in Change.__slots__})


def read_before(was: Was) -> dict[str, Any]:
    """Return the former values that a person understands."""
    shown = {name: was[name] for name in ("status", "tags", "agent", "user") if name in was}
    return {**shown, **was.get("body", {}).get("set", {})}


def find_authors(engine: Engine, text: str) -> list[tuple[Record, Change]]:
    """Return the memories that hold a text, or are in it, best first, each with the change that brought the text in."""
    where = engine.within(*MEMORY_KINDS)
    records = engine.store.get([hit.id for hit in by_words(engine.store, text, where, 20 * _MAX_BLAMED)])

    def has_text(kind: str, body: Mapping[str, Any]) -> bool:
        # A line of a prompt has a date and counts besides.
        parts = KINDS[kind].passages({**body, "wordings": {}})
        return _spell(text).strip() in _spell(KINDS[kind].text(body)) or (
            bool(parts) and all(_spell(one) in _spell(text) for one in parts)
        )

    holding = [one for one in records if has_text(one.kind, one.body)]
    holding.sort(key=lambda one: one.status not in LIVE)
    authors = []
    for record in holding[:_MAX_BLAMED]:
        revisions = list_revisions(engine, record)
        past, author = record, revisions[0]
        # Back from now to the change before which it did not hold the text.
        for changeset in reversed(_scan_changesets(engine, linked={record.id})):
            was = changeset.body["was"].get(record.id)
            if was is None or "body" not in was:
                continue
            body = restore_fields(past, was)["body"]
            if has_text(record.kind, past.body) and not has_text(record.kind, body):
                author = next((one for one in revisions if one.change == changeset.key), author)
                break
            past = replace(past, body=body)
        authors.append((record, author))
    return authors


def _spell(text: str) -> str:
    return f" {' '.join(words(text))} "


# --- what differs ----------------------------------------------------------------------------------


def list_differences(engine: Engine, since: datetime, until: datetime | None = None) -> list[Difference]:
    """Return how the memories of a project differ between two times, or from then to now."""
    if until is not None and since >= until:
        raise ValidationError(f"since ({since.isoformat()}) must be before until ({until.isoformat()})")
    period = {"created_from": since + INSTANT, "created_to": until and until + INSTANT}
    changesets = _scan_changesets(engine, **period)
    ids = dict.fromkeys(id for one in changesets for id in one.body["was"])
    old, new = look_back(engine, since), engine if until is None else look_back(engine, until)
    differences = _compare_states(old.store.get(list(ids)), new.store.get(list(ids)))
    later = engine.within("tombstone", statuses={Status.ACTIVE}, **period)
    deleted = [Difference(one.body["record"], one.body["kind"], "deleted") for one in engine.store.scan(later)]
    return [*differences, *deleted]


def _compare_states(before: Iterable[Record], after: Iterable[Record]) -> list[Difference]:
    old, new = ({one.id: one for one in some if one.kind in MEMORY_KINDS} for some in (before, after))
    differences = []
    for id in dict.fromkeys((*old, *new)):
        first, second = old.get(id), new.get(id)
        if what := _compare_records(first, second):
            # A memory that is not in use has no text to compare.
            texts = (one.text if one and one.status in LIVE else "" for one in (first, second))
            differences.append(Difference(id, (second or old[id]).kind, what, *texts))
    return differences


def _compare_records(first: Record | None, second: Record | None) -> str:
    """Return how two states of a memory differ; empty if they do not, or if neither is live."""
    if second is None or second.status not in LIVE:
        return "removed" if first is not None and first.status in LIVE else ""
    if first is None or first.status not in LIVE:
        return "added" if first is None else "restored"
    if first.text != second.text:
        return "reworded"
    if first.evidence != second.evidence:
        return _COUNTED
    names = ("status", "tags", "agent", "user", "provenance", "body")
    return "changed" if any(getattr(first, name) != getattr(second, name) for name in names) else ""


# --- undoing ---------------------------------------------------------------------------------------


def undo_last(engine: Engine, memory_id: str | None = None, *, dry_run: bool = False) -> RevertedChange:
    """Undo the newest change that this project made, of one memory or of any, and that was not undone yet."""
    linked = None if memory_id is None else {memory_id}
    buried = engine.store.scan(engine.within("tombstone", statuses={Status.ACTIVE})) if memory_id is None else ()
    stone = next((one for one in buried if _is_made_here(engine, one)), None)
    hint = ""
    for one in _scan_newest(engine, linked):
        if one.body.get("reverts") or one.body.get("undone") or not _is_made_here(engine, one):
            continue
        tx = Transaction(engine)
        _revert(tx, _find_change(engine, one.key))
        # A change of memories that were deleted since has nothing to undo.
        if not any(record.kind in TRACKED for record in tx.changed):
            continue
        made_after = from_micros(one.body.get("after", 0))
        if stone is None or stone.created_at <= max(one.created_at, made_after):
            return revert_change(engine, one.key, dry_run=dry_run)
        hint = f"; to undo the change before it, run `alma revert {one.key}`"
        break
    if stone is not None:
        raise ValidationError(
            f"the last change deleted {stone.body['record']} on {format_minute(stone.created_at)}, and a deletion "
            f"cannot be undone{hint}"
        )
    raise NotFoundError("there is no change to undo; `alma history ID` lists the changes of a memory")


def _scan_newest(engine: Engine, linked: set[str] | None) -> Iterable[Record]:
    """Return the changesets in the order in which they were made, newest first."""
    where = engine.within(CHANGESET, linked=linked)
    late = list(engine.store.scan(replace(where, tagged={LATE})))
    if not late:
        return engine.store.scan(where)
    # The clock was set back: changes made since then are listed among the older ones.
    return order_changes((*late, *engine.store.scan(where, _MOST_OF_CALL)))


def _is_made_here(engine: Engine, record: Record) -> bool:
    """Return whether a changeset or a tombstone comes from a call of this project; rules belong to all projects."""
    return bool(record.body.get("made_in", engine.project) == engine.project)


def revert_change(engine: Engine, change: str, *, dry_run: bool = False) -> RevertedChange:
    """Undo everything that one write changed, all or none.

    Counts are subtracted after later changes, too. A text or status that was changed again since is not overwritten:
    then nothing is reverted, and the error names the later change.
    """
    ids = _find_change(engine, change)
    if dry_run:
        return _revert(Transaction(engine), ids)
    done, tx = write(engine, lambda tx: (_revert(tx, ids), tx))
    return replace(done, undo=tx.change_id)


def revert_import(engine: Engine, import_id: str, *, dry_run: bool = False) -> RevertedChange:
    """Undo all changes of one import, newest first, as far as each can be undone.

    What was changed again since still holds afterwards, and so do work items; `left` lists both with the reasons. The
    undo has an id of its own, which undoes it.
    """
    run = find_import_run(import_id)
    every_change = engine.store.scan(engine.within(CHANGESET))
    own_changes = [one for one in every_change if one.body.get("run") == run and one.body["call"] in _IMPORTING]
    if not own_changes:
        raise NotFoundError(f"there is no import {import_id!r} that stored anything; `alma ingest` prints the ids")
    standing = [one for one in own_changes if not one.body.get("undone")]
    if not standing:
        raise ValidationError(f"the import {import_id} was already undone")
    preview = Transaction(engine)
    memories: dict[str, Difference] = {}
    left = []
    for change in dict.fromkeys(one.key for one in order_changes(standing)):
        try:
            reverted = _revert(preview, _find_change(engine, change)) if dry_run else revert_change(engine, change)
        except (ValidationError, ScopeError, NotFoundError) as error:
            left.append(f"{change}: {error}")
            continue
        memories |= {difference.id: difference for difference in reverted.memories}
    undo_id = "" if dry_run else name_import(RUN.get())
    first = own_changes[-1]
    return RevertedChange(
        import_id,
        undo_id,
        first.created_at,
        first.body["call"],
        tuple(islice(memories.values(), _MOST_SHOWN)),
        rest=len(left),
        import_id=import_id,
        left=(*left, *_list_tasks(engine, import_id)),
    )


def _list_tasks(engine: Engine, import_id: str) -> list[str]:
    """Return the work items that an import created, which have a history of their own."""
    items = engine.store.scan(engine.within("work_item", statuses={Status.ACTIVE}))
    own_items = [one for one in items if one.body.get("metadata", {}).get("import") == import_id]
    return [f"{one.id}: work items stay; archive it with `alma work archive`" for one in own_items]


def _find_change(engine: Engine, change: str) -> list[str]:
    """Return the ids of the changesets of a change."""
    changesets = list(engine.store.scan(Where(kinds={CHANGESET}, keys={change})))[::-1]
    # A change of another project may reach rules of all projects. It is reverted as a whole, or not at all.
    if not changesets or any(one.project not in (engine.project, EVERYWHERE) for one in changesets):
        hint = "`alma history ID` lists the changes of a memory"
        whose = " of this project's memories alone" if changesets else ""
        raise NotFoundError(f"there is no change {change!r}{whose}; {hint}")
    return [one.id for one in changesets]


def _revert(tx: Transaction, ids: Sequence[str]) -> RevertedChange:
    # The changesets are changed as well, so that of two callers at once one starts again and is refused.
    engine, changesets = tx.engine, tx.get(ids)
    first = tx.reverts = changesets[0]
    key = first.key
    if first.body.get("undone"):
        raise ValidationError(f"the change {key} was already undone")
    if not engine.may_approve and first.body["by"] != (engine.actor or ACTOR.get()):
        raise ScopeError(f"the change {key} was made by somebody else, and only a person may revert it")
    was = {id: value for one in changesets for id, value in one.body["was"].items()}
    before = tx.get(was)
    for record in before:
        if not engine.may_approve and record.provenance.is_from_person:
            raise ScopeError(f"memory {record.id!r} was stated by a person, and only a person may undo that")
    groups: dict[str, bool] = {}
    for record in before:
        fresh, has_later = _revert_record(tx, record, was[record.id], first)
        is_counted = fresh.kind == MemoryType.OUTCOME and Status.RETIRED in (record.status, fresh.status)
        ids = fresh.links[:1] if is_counted or fresh.kind in LESSONS else [fresh.id] if fresh.kind == "strategy" else []
        groups |= {id: has_later or groups.get(id, False) for id in ids}
    for group, has_later in sorted(groups.items()):
        recount_group(tx, group, has_later)
    for episode in tx.get(one.id for one in before if one.kind == MemoryType.EPISODE and tx.is_changed(one.id)):
        body = {**episode.body, "said": join_said(find_turns(tx, episode))}
        tx.update(episode, body=body, text=KINDS[episode.kind].text(body), updated_at=episode.updated_at)
    refuse_second_values(tx, before)
    for one in changesets:
        tx.update(one, body={**one.body, "undone": True}, updated_at=one.updated_at)
    # If it reverted another change, that one holds again.
    original = first.body.get("reverts")
    for one in tx.scan(Where(kinds={CHANGESET}, keys={original})) if original else ():
        tx.update(one, body={**one.body, "undone": False}, updated_at=one.updated_at)
    memories = _compare_states(before, tx.get(was))
    rest = _count_rest(engine, first)
    call = first.body["call"]
    import_id = name_import(first.body.get("run", "")) if call == IMPORT else ""
    return RevertedChange(key, "", first.created_at, call, tuple(memories), rest, import_id)


def _count_rest(engine: Engine, changeset: Record) -> int:
    """Return how many other changes of the same call still hold; a call may write several times."""
    run = changeset.body.get("run")
    if not run:
        return 0
    others = engine.store.scan(engine.within(CHANGESET), _MOST_OF_CALL)
    keys = {one.key for one in others if one.body.get("run") == run and not one.body.get("undone")}
    return len(keys - {changeset.key})


def _revert_record(tx: Transaction, record: Record, was: Was | None, changeset: Record) -> tuple[Record, bool]:
    """Store a record as it was before a change; return it, and whether it was changed again since."""
    is_made = was is None and record.kind != "strategy"
    later = [] if is_made else _list_later_changes(tx, record, changeset)
    why = f"{changeset.body['call'] or 'a change'} of {changeset.created_at:%Y-%m-%d %H:%M}"
    if was is None:
        # A lesson comes back when its outcomes do.
        status = Status.ARCHIVED if is_learned(record) else Status.RETIRED
        if record.status is status:
            return record, False
        for turn in find_turns(tx, record) if record.kind == MemoryType.EPISODE else ():
            tx.update(turn, status=Status.RETIRED)
        # A group without results is used again by the next outcome; a pair that was set apart is not compared again.
        changes: dict[str, Any] = {"status": status}
        if record.kind == "strategy":
            changes = {"evidence": NONE}
        elif record.kind == "comparison":
            changes = {"body": {**record.body, "decision": "undone"}, "tags": ()}
        fresh = tx.update(record, **changes)
    elif record.kind == "tombstone" and "body" in was:
        # Other wordings that it recognises stay.
        others = {id: one for id, one in read_others(record).items() if id not in changeset.body["was"]}
        fresh = tx.update(record, body={**record.body, "others": others})
    else:
        past = replace(record, **restore_fields(record, _select_former(record, was, later) if later else was))
        past = reword_past(tx.engine, record, past)
        fresh = tx.update(past, updated_at=past.updated_at)
    if record.kind in MEMORY_KINDS and (was is None or was.keys() - UNFILTERED):
        before = {"status": str(record.status)} if fresh.status is not record.status else {}
        tx.add_history(fresh, "undone", why, before)
    return fresh, bool(later)


def _list_later_changes(tx: Transaction, record: Record, changeset: Record) -> list[Record]:
    """Return the changesets of the changes of a record after another one that still hold, oldest first."""
    place = (changeset.created_at, changeset.key)
    where = tx.engine.within(CHANGESET, linked={record.id}, created_from=place[0])
    after = [one for one in tx.scan(where) if (one.created_at, one.key) > place]
    keys = {one.key for one in after}
    # What was reverted since, and the revert, cancel each other.
    lasting = (one for one in after if not one.body.get("undone") and one.body.get("reverts") not in keys)
    return sorted(lasting, key=lambda one: (one.created_at, one.id))


def _select_former(record: Record, was: Was, later: Sequence[Record]) -> dict[str, Any]:
    """Return the former values that can be restored after later changes, or raise ValidationError."""
    former = was.get("body", {"set": {}, "unset": ()})
    names, body_names = {*was.keys() - UNFILTERED - {"body"}}, {*former["set"], *former["unset"]}
    # Strategy groups and lessons follow their outcomes: they are counted and worded anew.
    is_counted = record.kind == "strategy" or is_learned(record)
    kept = {"updated_at"}
    # From the oldest: its former values are what this change had left.
    for one in later:
        then = one.body["was"].get(record.id) or {}
        body = then.get("body", {"set": {}, "unset": ()})
        touched = {name for name in names if name in then and then[name] != CODECS[name][0](getattr(record, name))}
        in_body = {name for name in body_names if body["set"].get(name, ...) not in (..., record.body.get(name))}
        in_body |= {name for name in body_names & {*body["unset"]} if name in record.body}
        names, body_names = names - then.keys(), body_names - body["set"].keys() - {*body["unset"]}
        kept |= touched | in_body
        lost = touched - ({"status"} if record.kind in LESSONS else set()) | (set() if is_counted else in_body)
        if lost:
            raise ValidationError(
                f"{record.id} was changed again by {one.key} on {one.created_at:%Y-%m-%d %H:%M} "
                f"({', '.join(sorted(lost))}); revert that change first"
            )
    values = {name: value for name, value in was.items() if name not in kept}
    if "body" in was:
        restored = {name: value for name, value in former["set"].items() if name not in kept}
        values["body"] = {"set": restored, "unset": [name for name in former["unset"] if name not in kept]}
    return values


# --- which change mattered -------------------------------------------------------------------------


def find_turning_point(
    engine: Engine, request: Request, since: datetime | None = None, until: datetime | None = None, shows: str = ""
) -> TurningPoint:
    """Return the change after which a task is shown what it is shown now, found by bisection.

    With `shows`, it is the change after which a text appears in the prompt, or disappears from it.
    """
    end = until or engine.clock()
    changesets = _scan_changesets(engine, created_to=end + INSTANT, created_from=since)
    moments = sorted({one.created_at for one in changesets})
    if not moments:
        raise NotFoundError("nothing changed in this period")
    before_all = engine.within(CHANGESET, created_to=moments[0])
    earlier = next((one.created_at for one in engine.store.scan(before_all, 1)), None)

    @cache
    def ask(number: int) -> MemorySlice:
        """Return what is shown after the change of this number; -1: before the first."""
        # The first memory is a little older than the change that stored it.
        moment = moments[number] if number >= 0 else earlier or moments[0] - _LONG
        return choose_memories(prepare(look_back(engine, moment), request))

    def judge(number: int) -> Any:
        if shows:
            return normalise(shows) in normalise(ask(number).to_prompt())
        # Without counts: each new result would make a difference.
        return {(one.id, one.newer, *(str(getattr(one, name, "")) for name in _WORDS)) for one in ask(number)}

    low, high = -1, len(moments) - 1
    wanted = judge(high)
    if judge(low) == wanted:
        what = f"{shows!r} is {'shown' if wanted else 'not shown'}" if shows else "the task is shown the same memories"
        raise NotFoundError(f"{what} before and after this period; pass another time or another text")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if judge(middle) == wanted else (middle, high)
    return _describe_turning(engine, moments[high], changesets, [ask(low), ask(high)], ask.cache_info().currsize)


def _describe_turning(
    engine: Engine, moment: datetime, changesets: Sequence[Record], slices: Sequence[MemorySlice], retrievals: int
) -> TurningPoint:
    own = [one for one in changesets if one.created_at == moment]
    records = engine.store.get(list(dict.fromkeys(id for one in own for id in one.body["was"])))
    keys = {one.key for one in own}
    memories = [one for one in records if is_own(engine, one) and one.kind in MEMORY_KINDS]
    revisions = [it for one in memories for it in list_revisions(engine, one, counts=True) if it.change in keys]
    before, after = ([one.id for one in some] for some in slices)
    gained, lost = (id for id in after if id not in before), (id for id in before if id not in after)
    body = own[0].body
    return TurningPoint(
        own[0].key, moment, body["call"], body["by"], tuple(revisions), tuple(gained), tuple(lost), retrievals
    )
