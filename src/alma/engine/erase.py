"""Erase a memory with everything that repeats its words, or everything that belongs to a user.

A memory is deleted in two steps. The first is one transaction: it puts the memory's tombstone, and takes its words out
of all records that stay (`bury`). The second erases what is left (`find_remains`). Both are made from what the store
holds, so that a call that was killed in between is finished by the same call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..errors import ScopeError
from ..ports import Vacuumable
from ..text import fingerprint
from ..types.kinds import EVERYWHERE, KINDS, READABLE_KINDS, MemoryType, Result
from ..types.query import Where, split_batches
from ..types.record import NONE, Evidence, Origin, Provenance, Record, Status
from .admit import author_of, make_record, place_of, reword
from .changes import CHANGESET, date_change, strip_changeset
from .context import Engine
from .episodes import find_gists, find_turns, remove_turn
from .events import DELIVERY
from .outcomes import add_error, choose_example, lesson_id, list_survivors, settle_lessons, update_lesson
from .proof import ErasureProof, list_pieces, prove_erased
from .tombstones import draw_salt, hash_key, sketch_record
from .transaction import (
    LESSONS,
    SALT_MARKER,
    Transaction,
    is_learned,
    key_of_deleted,
    of_owner,
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
    if not engine.may_approve:
        raise ScopeError(
            "only a person may delete all of a user's data: run `alma erase`, use a token with the scope 'admin', or "
            "start the MCP server with --approve"
        )
    counts: Counter[str] = Counter()
    # Notes that wait in this process would be written after their user was erased.
    engine.notes.settle([note for note in engine.notes.take() if note.user == user])
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
    for ids in split_batches([id for id, _ in stored], progress=progress):
        engine.store.delete(ids)
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
        salts = tx.read_salts() or [draw_salt()]
        tx.once(SALT_MARKER, {"value": salts}, project="")
        tx.erased += [record, *_find_orphans(tx, record)]
        sketch = sketch_record(tx.engine, record, salts[0])
        body: dict[str, Any] = {"record": record.id, "kind": record.kind, "salt": salts[0]}
        body |= {"made_in": tx.engine.project} if record.project != tx.engine.project else {}
        body["sketch"] = sketch.to_json() if sketch else []
        own: dict[str, Any] = {"id": tombstone_id(record.id), "key": hash_key(salts[0], key_of_deleted(record))}
        deleted_by = Origin.USER if tx.engine.may_approve else Origin.AGENT
        own |= {"provenance": Provenance(deleted_by), "created_at": date_change(tx.engine)}
        tx.put(make_record(tx.engine, "tombstone", body, **own, **{**place_of(record), "agent": author_of(record)}))
    _regroup(tx, record)
    for survivor in list_survivors(tx.get, record):
        _keep_wordings(tx, survivor, lambda id, _: id != record.id)
    if record.kind == "turn":
        remove_turn(tx, record)
    # The history of others quotes it. Lines of earlier versions do not name what they quote.
    where = tx.engine.within(record.kind, agents={record.agent}, statuses={Status.SUPERSEDED})
    replaced = [one.id for one in tx.scan(where) if one.superseded_by == record.id]
    quoting = [one for one in tx.find_changes([record.id]) if one.body["record"] != record.id]
    quoting += [one for one in tx.find_changes(replaced) if one.body["verb"] == "superseded"]
    for line in quoting:
        tx.update(line, body={**line.body, "why": _REPLACED})
    _unlink_from_graph(tx, [record.id])
    _strip_changesets(tx, record)


def _keep_wordings(tx: Transaction, record: Record, is_kept: Callable[[str, str], bool]) -> None:
    """Remove the other wordings of a record, by id and text, that are not kept."""
    before = record.body.get("wordings", {})
    wordings = {id: (text, by) for id, (text, by) in before.items() if is_kept(id, text)}
    if len(wordings) < len(before):
        body: dict[str, Any] = {**record.body, "wordings": wordings}
        changes = reword(tx.engine, record, body)
        if record.kind in LESSONS and record.links:
            # Its vectors are those of its strategy group.
            changes |= {"vectors": record.vectors, "embedder": record.embedder}
        tx.update(record, **changes)


def _strip_changesets(tx: Transaction, record: Record) -> None:
    """Take a deleted memory and its words out of former values that other memories keep, and out of the outbox."""
    groups = [group for group, _ in _find_groups(tx, record)]
    related = [id for group in groups for id in (group.id, *(lesson_id(group, kind) for kind in LESSONS))]
    related += [one.id for one in list_survivors(tx.get, record)]
    texts = {text for text in (record.text, *map(str, record.body.values())) if len(text) >= _LEAST_TEXT}
    for changeset in tx.scan(tx.engine.within(CHANGESET, linked={record.id, *related})):
        body = strip_changeset(changeset.body, [record.id], texts, related)
        links = tuple(id for id in changeset.links if id != record.id)
        if links and (body, links) != (changeset.body, changeset.links):
            tx.update(changeset, body=body, links=links, updated_at=changeset.updated_at)
    # The title of a conversation may be the beginning of a turn.
    related += record.links[:1] if record.kind == "turn" else ()
    for delivery in tx.scan(Where(kinds={DELIVERY}, linked={record.id, *related})):
        # Its own events are not sent any more; those of others are sent without words that may be its.
        event = {**delivery.body["event"], "text": "", "why": ""}
        status = Status.ARCHIVED if any(event["record"] == one.id for one in tx.erased) else delivery.status
        tx.update(delivery, body={**delivery.body, "event": event}, status=status)


def _regroup(tx: Transaction, record: Record) -> None:
    """Take a deleted outcome or lesson out of its strategy group, and its words out of what was formed from that.

    A deleted outcome no longer counts for or against its strategy.
    """
    groups, now = _find_groups(tx, record), tx.engine.clock()
    sources = groups[0][1] if groups else []
    for group, own in groups:
        strategy, instead = group.body["strategy"], sources[0] if sources else None
        if own:
            instead = _rebuild_group(tx, group, own)
            if group is groups[0][0]:
                settle_lessons(tx, instead, instead, now)
            else:
                for lesson in tx.get(lesson_id(group, kind) for kind in LESSONS):
                    update_lesson(tx, lesson, instead, instead, None, now)
                # The results of a merged group count for the one that took its place.
                tx.update(instead, evidence=group.evidence)
        words = strategy_of(instead.body) if instead else ""
        if words != strategy:
            for warning in tx.scan(of_owner(tx.engine, group, MemoryType.ANTI_PATTERN)):
                if warning.provenance.origin is Origin.OUTCOME and warning.body["better_alternative"] == strategy:
                    tx.update(warning, body={**warning.body, "better_alternative": words})
    strategies, removed = {strategy_of(one.body) for one in sources}, _words_of([record]) - _words_of(sources)
    lessons = {lesson_id(group, kind) for group, _ in groups for kind in LESSONS} - {record.id}
    for lesson in tx.get(lessons):
        _keep_wordings(tx, lesson, lambda _, text: text in strategies)
    for line in tx.find_changes(lessons) if removed else ():
        before, why = line.body["before"], line.body["why"]
        is_quoting = any(len(text) >= _LEAST_TEXT and text in why for text in removed)
        remaining = {name: value for name, value in before.items() if not any(text in str(value) for text in removed)}
        if is_quoting or remaining != before:
            why = _REPLACED if is_quoting else why
            tx.update(line, body={**line.body, "why": why, "before": remaining})


def _find_groups(tx: Transaction, record: Record) -> list[tuple[Record, list[Record]]]:
    """Return the strategy group of an outcome or a lesson and those merged into it, with what else gives them words.

    That is other outcomes, and lessons that somebody stated or edited, oldest first. Outcomes of a merged group are
    recognised by its strategy.
    """
    group = next((one for one in tx.get(record.links[:1]) if one.kind == "strategy"), None)
    if record.kind not in (MemoryType.OUTCOME, *LESSONS) or group is None:
        return []
    current = [group, *list_survivors(tx.get, group)][-1]
    superseded = tx.scan(of_owner(tx.engine, current, "strategy", statuses={Status.SUPERSEDED}))
    merged = [one for one in superseded if current.id in [it.id for it in list_survivors(tx.get, one)]]
    sources = [one for one in _find_sources(tx, current, *merged) if one.id != record.id]
    groups = [(current, sources)]
    for group in merged:
        own = [it for it in sources if group.id in it.links or strategy_of(it.body) == group.body["strategy"]]
        groups.append((group, own))
    return groups


def _find_sources(tx: Transaction, *groups: Record) -> list[Record]:
    """Return the outcomes of groups and the lessons that somebody stated or edited, oldest first."""
    where = tx.engine.where(MemoryType.OUTCOME, *LESSONS, linked={group.id for group in groups})
    linked = tx.scan(where)
    # One that is about to be erased by another call gives nothing any more.
    deleted = tx.find_deleted(one.id for one in linked)
    words = [one for one in linked if not is_learned(one) and (one.kind in LESSONS or one.status is not Status.RETIRED)]
    # Outcomes that were relinked in this transaction come last in the scan.
    return sorted((one for one in reversed(words) if one.id not in deleted), key=lambda one: one.created_at)


def recount_group(tx: Transaction, group_id: str, is_doubtful: bool = False) -> None:
    """Bring a strategy group and its lessons in line with its outcomes, if their number differs or `is_doubtful`."""
    for group in tx.get([group_id]):
        sources = [one for one in _find_sources(tx, group) if one.status is not Status.CANDIDATE]
        count = sum(one.kind == MemoryType.OUTCOME for one in sources)
        if group.kind == "strategy" and (is_doubtful or count != group.evidence.results):
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
    body["label"] = choose_example(sources)
    tasks = {task for _, task, _ in attempts}
    body["wordings"] = {id: one for id, one in body.get("wordings", {}).items() if one[0] in tasks}
    changes: dict[str, Any] = {"body": body, "evidence": group.evidence.with_results_of(results)}
    if KINDS["strategy"].passages(body) != KINDS["strategy"].passages(group.body):
        changes |= {**reword(tx.engine, group, body), "key": fingerprint(body["strategy"])}
    return tx.update(group, **changes)


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
    lines += [one.id for one in tx.scan(Where(kinds={"comparison", "likeness"}, linked=set(ids)))]
    lines += [one.id for one in tx.scan(Where(kinds={DELIVERY}, linked={*ids, *lines}))]
    changesets = tx.scan(tx.engine.within(CHANGESET, linked=set(ids)))
    lines += [one.id for one in changesets if set(one.links) <= set(ids)]
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
    """Return the strategy groups that only this memory has formed, and their lessons."""
    groups = [group for group, sources in _find_groups(tx, record) if not sources]
    return [*groups, *tx.get([lesson_id(group, kind) for group in groups for kind in LESSONS])]


def _find_in_graph(tx: Transaction, sources: Collection[str]) -> list[Record]:
    return tx.scan(tx.engine.where("entity", "relation", linked=set(sources)))


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
        where = tx.engine.where("relation", tagged=set(end_tags(entity.body["entity"])))
        if all(one.id in orphans for one in tx.scan(where, len(orphans) + 1)):
            orphans.add(entity.id)
    return list(orphans)
