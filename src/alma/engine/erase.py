"""Erase a memory with everything that repeats its words, or everything that belongs to a user.

A memory is deleted in two steps. The first is one transaction: it puts the memory's tombstone, and takes its words out
of all records that stay (`bury`). The second erases what is left (`find_remains`). Both are made from what the store
holds, so that a call that was killed in between is finished by the same call.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

from ..ports import Vacuumable
from ..text import fingerprint
from ..types.kinds import EVERYWHERE, KINDS, READABLE_KINDS, MemoryType, Result
from ..types.query import Where
from ..types.record import NONE, Evidence, Origin, Record, Status
from .admit import author_of, make_record, place_of, reword
from .changes import CHANGESET, strip_changeset
from .context import Engine
from .episodes import find_gists, find_turns, remove_turn
from .events import DELIVERY
from .outcomes import add_error, lesson_id, settle_lessons, share_label
from .proof import ErasureProof, list_pieces, prove_erased
from .tombstones import hash_key, sketch_record
from .transaction import (
    LESSONS,
    SALT_MARKER,
    Transaction,
    key_of_deleted,
    of_owner,
    split_batches,
    strategy_of,
    tombstone_id,
    write,
)

_LEAST_TEXT = 4  # Shorter texts are names and numbers that other memories have, too.
_REPLACED = "a later memory took its place, and was deleted since"


def erase_memory(engine: Engine, record: Record) -> None:
    """Delete a memory permanently, with everything that repeats its words.

    Killed at any moment, the same call finishes the work.
    """
    # What was merged into it says the same.
    for source in engine.store.get(list(record.body.get("counted", ()))):
        if source.superseded_by == record.id:
            erase_memory(engine, source)
    write(engine, lambda tx: _bury(tx, record))
    engine.store.delete(_find_remains(Transaction(engine), record))


class UserErasure(dict[str, int]):
    """How many memories of each kind were erased, and the proof that nothing is left."""

    def __init__(self, counts: Mapping[str, int], proof: ErasureProof) -> None:
        super().__init__(counts)
        self.proof = proof


def erase_user(engine: Engine, user: str, progress: Callable[[int, int], None]) -> UserErasure:
    """Erase all records of a user in this project, and look whether anything is left.

    They leave no tombstones. Outcomes that counted for a shared lesson are taken out of its count, and their words out
    of the lesson. Killed at any moment, the same call finishes the work.
    """
    counts: Counter[str] = Counter()
    everything = Where(projects={engine.project, EVERYWHERE}, users={user})
    pieces = {piece for record in engine.store.scan(everything) for piece in list_pieces(record)}
    where = replace(everything, kinds={MemoryType.OUTCOME}, projects={engine.project})
    for batch in split_batches([record for record in engine.store.scan(where) if record.links]):
        groups = engine.store.get(list({record.links[0] for record in batch}))
        shared = {group.id for group in groups if group.user != user}
        for record in batch:
            if record.links[0] in shared:
                erase_memory(engine, record)
                counts[record.kind] += 1
    outbox = replace(everything, kinds={DELIVERY})
    # Nothing may be sent of a memory after the event of its deletion.
    engine.store.delete([record.id for record in engine.store.scan(outbox)])
    stored = [(record.id, record.kind) for record in engine.store.scan(everything)]
    for ids in split_batches([id for id, kind in stored if kind in READABLE_KINDS]):
        engine.store.delete(write(engine, partial(_leave_graph, ids=ids)))
    for start in range(0, len(stored), 256):
        engine.store.delete([id for id, _ in stored[start : start + 256]])
        progress(min(start + 256, len(stored)), len(stored))
    # One that was being sent meanwhile may have been written back.
    engine.store.delete([record.id for record in engine.store.scan(outbox)])
    counts.update(kind for _, kind in stored if kind in READABLE_KINDS)
    vacuum(engine)
    by_kind = {str(kind): counts[kind] for kind in READABLE_KINDS if counts[kind]}
    return UserErasure(by_kind, prove_erased(engine, user, pieces))


def vacuum(engine: Engine) -> None:
    """Leave no byte of what was deleted in the files of the store."""
    if isinstance(engine.store, Vacuumable):
        engine.store.vacuum()


# -- first step: what stays loses the words


def _bury(tx: Transaction, record: Record) -> None:
    tx.is_erasing = True
    stone = tx.find(tombstone_id(record.id))
    if stone is None or stone.status is not Status.ACTIVE:
        salts = tx.read_salts() or [os.urandom(16).hex()]
        tx.once(SALT_MARKER, {"value": salts}, project="")
        tx.erased += [record, *_find_orphans(tx, record)]
        sketch = sketch_record(tx.engine, record, salts[0])
        body = {
            "record": record.id,
            "kind": record.kind,
            "salt": salts[0],
            "sketch": sketch.to_json() if sketch else [],
        }
        key = hash_key(salts[0], key_of_deleted(record))
        if stone is not None:
            tx.update(stone, status=Status.ACTIVE, body=body, key=key)
        else:
            place = {"id": tombstone_id(record.id), "key": key, **place_of(record), "agent": author_of(record)}
            tx.put(make_record(tx.engine, "tombstone", body, Origin.USER, **place))
    _regroup(tx, record)
    if record.kind == "turn":
        remove_turn(tx, record)
    # The history of others quotes it. Lines of earlier versions do not name what they quote.
    projects = {tx.engine.project, EVERYWHERE}
    where = Where(kinds={record.kind}, projects=projects, agents={record.agent}, statuses={Status.SUPERSEDED})
    replaced = [one.id for one in tx.scan(where) if one.superseded_by == record.id]
    quoting = [one for one in tx.find_changes([record.id]) if one.body["record"] != record.id]
    quoting += [one for one in tx.find_changes(replaced) if one.body["verb"] == "superseded"]
    for line in quoting:
        tx.update(line, body={**line.body, "why": _REPLACED})
    _unlink_from_graph(tx, [record.id])
    _strip_changesets(tx, record)


def _strip_changesets(tx: Transaction, record: Record) -> None:
    """Take a deleted memory and its words out of former values that other memories keep, and out of the outbox."""
    group, _ = _find_group(tx, record)
    related = [group.id, *(lesson_id(group, kind) for kind in LESSONS)] if group else []
    texts = {text for text in (record.text, *map(str, record.body.values())) if len(text) >= _LEAST_TEXT}
    for changeset in _find_changesets(tx, [record.id, *related]):
        body = strip_changeset(changeset.body, [record.id], texts, related)
        links = tuple(id for id in changeset.links if id != record.id)
        if links and (body, links) != (changeset.body, changeset.links):
            tx.update(changeset, body=body, links=links, updated_at=changeset.updated_at)
    for delivery in tx.scan(Where(kinds={DELIVERY}, linked={record.id, *related})):
        # Its own events are not sent any more; those of lessons are sent without words that may be its.
        event = {**delivery.body["event"], "text": "", "why": ""}
        status = Status.ARCHIVED if any(event["record"] == one.id for one in tx.erased) else delivery.status
        tx.update(delivery, body={**delivery.body, "event": event}, status=status)


def _find_changesets(tx: Transaction, ids: Collection[str]) -> list[Record]:
    return tx.scan(Where(kinds={CHANGESET}, projects={tx.engine.project, EVERYWHERE}, linked=set(ids)))


def _regroup(tx: Transaction, record: Record) -> None:
    """Take a deleted outcome or lesson out of its strategy group, and its words out of what was formed from that.

    A deleted outcome no longer counts for or against its strategy.
    """
    group, sources = _find_group(tx, record)
    if group is None:
        return
    strategy = group.body["strategy"]
    if not sources:
        _recommend_instead(tx, group, strategy, "")
        return
    group = _rebuild_group(tx, group, sources)
    settle_lessons(tx, group, group, tx.engine.clock())
    if group.body["strategy"] != strategy:
        _recommend_instead(tx, group, strategy, group.body["strategy"])
    removed = _words_of([record]) - _words_of([*sources, group])
    lessons = {lesson_id(group, kind) for kind in LESSONS} - {record.id}
    for line in tx.find_changes(lessons) if removed else ():
        before = line.body["before"]
        remaining = {name: value for name, value in before.items() if not any(text in str(value) for text in removed)}
        if remaining != before:
            tx.update(line, body={**line.body, "before": remaining})


def _find_group(tx: Transaction, record: Record) -> tuple[Record | None, list[Record]]:
    """Return the strategy group of an outcome or a lesson, and what else gives it its words, oldest first.

    That is other outcomes, and lessons that somebody stated or edited.
    """
    kinds = {MemoryType.OUTCOME, *LESSONS}
    group = next((one for one in tx.get(record.links[:1]) if one.kind == "strategy"), None)
    if record.kind not in kinds or group is None:
        return None, []
    return group, [one for one in _find_sources(tx, group) if one.id != record.id]


def _find_sources(tx: Transaction, group: Record) -> list[Record]:
    """Return the outcomes of a group and the lessons that somebody stated or edited, oldest first."""
    kinds = {MemoryType.OUTCOME, *LESSONS}
    linked = tx.scan(Where(kinds=kinds, projects={tx.engine.project}, linked={group.id}))
    # One that is about to be erased by another call gives nothing any more.
    deleted = tx.find_deleted(one.id for one in linked)
    words = [
        one
        for one in linked
        if (
            one.status is not Status.RETIRED
            if one.kind == MemoryType.OUTCOME
            else one.provenance.origin is not Origin.OUTCOME
        )
    ]
    # Outcomes that were relinked in this transaction come last in the scan.
    return sorted((one for one in reversed(words) if one.id not in deleted), key=lambda one: one.created_at)


def recount_group(tx: Transaction, group_id: str) -> None:
    """Bring a strategy group and its lessons in line with the outcomes that are stored, if their number differs."""
    for group in tx.get([group_id]):
        sources = [one for one in _find_sources(tx, group) if one.status is not Status.CANDIDATE]
        count = sum(one.kind == MemoryType.OUTCOME for one in sources)
        if group.kind == "strategy" and count != group.evidence.results:
            group = _rebuild_group(tx, group, sources) if sources else tx.update(group, evidence=NONE)
            settle_lessons(tx, group, group, tx.engine.clock())


def _rebuild_group(tx: Transaction, group: Record, sources: Sequence[Record]) -> Record:
    """Return the group with the words, the errors and the results that its sources still have."""
    body: dict[str, Any] = {**group.body, "errors": []}
    results, attempts = Evidence(), []
    for source in sources:
        one = source.body
        task = str(one.get("task") or one.get("condition") or "")
        attempts.append((strategy_of(one), task, str(one["task_type"])))
        if source.kind == MemoryType.OUTCOME:
            results = results.with_result(Result(one["outcome"]).value_of, source.created_at)
            if one["outcome"] != Result.SUCCESS:
                body["errors"] = add_error(body["errors"], one["error"])
    if (body["strategy"], body["task"]) not in {attempt[:2] for attempt in attempts}:
        body["strategy"], body["task"], body["task_type"] = attempts[0]
    body["label"] = reduce(share_label, (task for _, task, _ in attempts))
    changes: dict[str, Any] = {"body": body, "evidence": group.evidence.with_results_of(results)}
    if KINDS["strategy"].passages(body) != KINDS["strategy"].passages(group.body):
        changes |= {**reword(tx.engine, group, body), "key": fingerprint(body["strategy"])}
    return tx.update(group, **changes)


def _recommend_instead(tx: Transaction, group: Record, strategy: str, instead: str) -> None:
    """Change the warnings that recommend the strategy of a group by its old words."""
    for warning in tx.scan(of_owner(tx.engine, group, MemoryType.ANTI_PATTERN)):
        if warning.provenance.origin is Origin.OUTCOME and warning.body["better_alternative"] == strategy:
            tx.update(warning, body={**warning.body, "better_alternative": instead})


def _words_of(records: Iterable[Record]) -> set[str]:
    names = ("strategy", "pattern", "task", "condition", "error", "feedback", "why_bad", "better_alternative")
    return {str(one.body[name]) for one in records for name in names if one.body.get(name)}


# -- second step: the rest is erased


def _find_remains(tx: Transaction, record: Record) -> list[str]:
    """Return the ids of all that is erased with a memory: its history, its turns, and what only it had formed."""
    ids = [record.id]
    if record.kind == MemoryType.EPISODE:
        ids += [turn.id for turn in find_turns(tx, record)]
    if record.kind == "turn":
        ids += [line.id for line in find_gists(tx, record)]
    ids += [one.id for one in _find_orphans(tx, record)]
    lines = [one.id for one in tx.find_changes(ids) if one.body["record"] in ids]
    lines += [one.id for one in tx.scan(Where(kinds={"comparison"}, linked=set(ids)))]
    lines += [one.id for one in tx.scan(Where(kinds={DELIVERY}, linked={*ids, *lines}))]
    lines += [one.id for one in _find_changesets(tx, ids) if set(one.links) <= set(ids)]
    lone = [one for one in _find_in_graph(tx, [record.id]) if one.links == (record.id,)]
    # The graph links the conversation, not its turns: what only this turn of it names goes, too.
    for episode in tx.get(record.links[:1]) if record.kind == "turn" else ():
        other_text = "\n".join(one.text for one in find_turns(tx, episode) if one.id != record.id).casefold()
        for one in _find_in_graph(tx, [episode.id]):
            is_of_turn = one.kind == "relation" and one.body["attributes"].get("turn") == record.id
            is_named_here = one.kind == "entity" and one.body["name"].casefold() not in other_text
            lone += [one] if len(one.links) == 1 and (is_of_turn or is_named_here) else []
    return list(dict.fromkeys((*ids, *lines, *_without_spoken_of(tx, lone))))


def _find_orphans(tx: Transaction, record: Record) -> list[Record]:
    """Return the strategy group that only this memory has formed, and its lessons."""
    group, sources = _find_group(tx, record)
    return [] if group is None or sources else [group, *tx.get([lesson_id(group, kind) for kind in LESSONS])]


def _find_in_graph(tx: Transaction, sources: Collection[str]) -> list[Record]:
    return tx.scan(Where(kinds={"entity", "relation"}, projects={tx.engine.project}, linked=set(sources)))


def _unlink_from_graph(tx: Transaction, ids: Collection[str]) -> list[str]:
    """Take the links to deleted memories out of the graph; return the ids of what came from these memories alone."""
    linked = _find_in_graph(tx, ids)
    orphans = _without_spoken_of(tx, [one for one in linked if set(one.links) <= set(ids)])
    for one in linked:
        if one.id not in orphans:
            tx.update(one, links=tuple(link for link in one.links if link not in ids))
    return orphans


def _leave_graph(tx: Transaction, ids: Sequence[str]) -> list[str]:
    """Take memories that are erased now out of the graph; return the ids of what came from these memories alone."""
    tx.erased += tx.engine.store.get(ids) if tx.engine.events.has_listeners else []
    return _unlink_from_graph(tx, ids)


def _without_spoken_of(tx: Transaction, lone: Sequence[Record]) -> list[str]:
    """Return the ids of these relations, and of those entities that no other relation speaks of."""
    from ..types.graph import end_tags  # the values of the graph are loaded where there is a graph

    orphans = {one.id for one in lone if one.kind == "relation"}
    for entity in (one for one in lone if one.kind == "entity"):
        where = Where(kinds={"relation"}, projects={tx.engine.project}, tagged=set(end_tags(entity.body["entity"])))
        if all(one.id in orphans for one in tx.scan(where, len(orphans) + 1)):
            orphans.add(entity.id)
    return list(orphans)
