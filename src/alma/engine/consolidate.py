"""Consolidation: memories that say the same become one, and what is out of date is superseded.

A reader says how look-alikes relate, once for each pair. Those that say the same are merged into the most trusted of
them, then the newest, that keeps what the others say and answers what they answered; no new text is made. Counts are
added once: a source notes what was counted of it, and the results of a strategy are recounted from its outcomes. Each
merge is one write. Sources stay in history, and the survivor names them in its metadata as `merged_from`.

What a newer memory replaces or contradicts is superseded if a model is sure; else a conflict waits for a person.
Without a model the local reader compares: certain duplicates are merged, and nothing is superseded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, groupby, permutations
from typing import Any

from ..errors import ModelError
from ..reading.losses import find_losses
from ..reading.port import Comparer, Relation, Verdict
from ..text import normalise, words
from ..types.kinds import EVERYWHERE, KINDS, MemoryType
from ..types.query import Where
from ..types.record import COUNTS, LIVE, NONE, RECENT, Evidence, Origin, Record, Status, cosines
from .conflicts import SCOPES, compare_locally, read_pair
from .context import Engine
from .erase import recount_group
from .facts import APART, OPPOSED, RecordPair, comparison_id, find_comparisons, put_comparison
from .outcomes import is_of_task, lesson_id
from .retrieve import rank
from .retrieve.rank import FIELDS, read_words, stated_at
from .retrieve.request import embed_query
from .search import find_closeness
from .transaction import LESSONS, Transaction, split_batches, strategy_of, write

MAX_PAIRS = 400  # So many are compared in one run; the next run goes on.
_PAIRS_PER_CALL, _MAX_QUESTIONS = 40, 8
_MAX_RECORDS = 500  # So many of the newest memories of a kind are compared with each other.
_NEAREST = 5
_SURE = 0.7
_NEAR_STRATEGIES = 0.5
_ARTICLES = ("a", "an", "the")
_REASONS = {Verdict.REPLACES: "takes its place", Verdict.CONTRADICTS: "contradicts it"}
Ids = tuple[str, str]
Judged = tuple[RecordPair, Relation, Origin]


@dataclass(frozen=True, slots=True)
class Merge:
    """The memory that stays, those that are merged into it, and what would be lost, if it was refused."""

    survivor: str
    sources: tuple[str, ...]
    losses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Consolidation:
    """The result of one run; of a dry run, what it would be."""

    compared: int = 0
    merged: tuple[Merge, ...] = ()
    superseded: tuple[str, ...] = ()
    apart: int = 0  # Pairs that turned out to be about different things.
    refused: tuple[Merge, ...] = ()
    conflicts: tuple[str, ...] = ()  # Ids of the conflicts that now wait for a person.
    waiting: int = 0  # Pairs that a model could still decide.
    problem: str = ""  # Why they are waiting.


def reconcile(
    engine: Engine, reader: Comparer | None, limit: int = MAX_PAIRS, *, dry_run: bool = False
) -> Consolidation:
    """Compare look-alikes, then merge and supersede; without a reader, the local one compares.

    A model call that fails changes nothing: what was not answered is asked the next time.
    """
    pairs = [*_list_pairs(engine), *_list_group_pairs(engine)]
    known = find_comparisons(engine, pairs)
    undecided = [pair for pair in pairs if not _is_decided(known.get(_ids(pair)))]
    asked = undecided if reader else [pair for pair in undecided if _ids(pair) not in known]
    answers, problem = _ask(engine, reader, asked[:limit])
    # With what was found to be the same before, and could not be merged then.
    judged = {_ids(one[0]): one for one in (*_recall_same(pairs, known), *answers)}
    merges, refused = _plan_merges(engine, judged)
    survivors = {one.id: records[0].id for records in merges for one in records}
    inside = {ids for ids in map(_ids, pairs) if survivors.get(ids[0], 0) == survivors.get(ids[1], 1)}
    ended, conflicts = survivors.keys() - survivors.values(), list[str]()
    replaced, noted = list[Judged](), list[Judged]()
    for one in answers:
        (older, newer), (verdict, probability), _ = one
        if (older.id, newer.id) in inside:
            continue
        is_opposed = verdict in OPPOSED and older.kind in FIELDS
        # Nobody ends what is trusted more.
        can_replace = reader and probability >= _SURE and older.provenance.weight <= newer.provenance.weight
        if is_opposed and can_replace and ended.isdisjoint((older.id, newer.id)):
            replaced.append(one)
            ended.add(older.id)
        else:
            noted.append(one)
            conflicts += [comparison_id(older, newer)] if is_opposed and not can_replace else []
    if not dry_run:
        for records in merges:
            own = [judged[ids] for ids in inside & judged.keys() if survivors[ids[0]] == records[0].id]
            write(engine, partial(_merge_records, records=records, judged=own))
        for one in replaced:
            write(engine, partial(_replace_older, judged=one))
        for batch in split_batches(noted):
            write(engine, partial(_note_comparisons, judged=batch))
    waiting = {ids for ids in map(_ids, undecided) if ended.isdisjoint(ids)} - {
        _ids(one[0]) for one in answers if reader
    }
    return Consolidation(
        compared=len(answers),
        merged=tuple(Merge(one.id, tuple(source.id for source in sources)) for one, *sources in merges),
        superseded=tuple(pair[0].id for pair, *_ in replaced),
        apart=sum(relation.verdict in APART for _, relation, _ in answers),
        refused=tuple(refused),
        conflicts=tuple(conflicts),
        waiting=len(waiting),
        problem=problem or ("no model is configured" if waiting and reader is None else ""),
    )


# -- pairs


def list_unresolved(engine: Engine) -> list[RecordPair]:
    """Return the pairs of active memories that look alike and that no model has compared yet, in a fixed order."""
    pairs = _list_pairs(engine)
    known = find_comparisons(engine, pairs)
    return [pair for pair in pairs if not _is_decided(known.get(_ids(pair)))]


def _ids(pair: RecordPair) -> Ids:
    return pair[0].id, pair[1].id


def _is_decided(one: Record | None) -> bool:
    """Return whether a model compared a pair, or a decision was taken."""
    return one is not None and (one.provenance.origin is Origin.MODEL or "decision" in one.body)


def _recall_same(pairs: Sequence[RecordPair], known: Mapping[Ids, Record]) -> Iterator[Judged]:
    for pair in pairs:
        one = known.get(_ids(pair))
        if one is not None and one.body["verdict"] == Verdict.SAME and "decision" not in one.body:
            yield pair, Relation(Verdict.SAME, one.body["probability"]), one.provenance.origin


def _list_pairs(engine: Engine) -> list[RecordPair]:
    """Return the pairs of active memories that look alike, in a fixed order."""
    pairs: list[RecordPair] = []
    for kind in FIELDS:
        where = Where(kinds={kind}, projects={engine.project, EVERYWHERE}, statuses={Status.ACTIVE}, sessions={""})
        records = list(engine.store.scan(where, _MAX_RECORDS))
        by_newer: dict[str, list[RecordPair]] = {}
        lookalikes = rank.list_lookalikes(engine, records, records, rank.NEAR)
        for one in sorted(lookalikes, key=lambda one: (-one.likeness, one.older.id)):
            by_newer.setdefault(one.newer.id, []).append((one.older, one.newer))
        for nearest in by_newer.values():
            pairs += nearest[:_NEAREST]
    return sorted(pairs, key=lambda pair: (pair[1].kind, stated_at(pair[1]), *map(read_words, reversed(pair))))


def _list_group_pairs(engine: Engine) -> list[RecordPair]:
    """Return the pairs of strategy groups with results that have one owner, similar tasks and similar strategies."""
    owners: defaultdict[Ids, list[Record]] = defaultdict(list)
    where = Where(kinds={"strategy"}, projects={engine.project}, statuses={Status.ACTIVE})
    for group in engine.store.scan(where, _MAX_RECORDS):
        if group.evidence.results and group.vectors and group.embedder == engine.embedder_name:
            owners[group.agent, group.user].append(group)
    pairs: list[RecordPair] = []
    for groups in owners.values():
        for at, newer in enumerate(groups):
            others = [one for one in groups[at + 1 :] if is_of_task(newer, one)]
            alike = cosines(newer.vectors[:1], [one.vectors[0] for one in others])[0] if others else []
            near = sorted(zip(alike, others, strict=True), key=lambda one: (-one[0], one[1].id))[:_NEAREST]
            pairs += [(one, newer) for likeness, one in near if likeness >= _NEAR_STRATEGIES]
    return pairs


def split_pairs(pairs: Sequence[RecordPair]) -> Iterator[Sequence[RecordPair]]:
    """Yield as many pairs at a time as are asked about in one call, all of one kind."""
    for _, group in groupby(pairs, key=lambda pair: pair[1].kind):
        yield from split_batches(list(group), _PAIRS_PER_CALL)


def _ask(engine: Engine, reader: Comparer | None, pairs: Sequence[RecordPair]) -> tuple[list[Judged], str]:
    """Return the answers of the reader, and why it stopped, if it did."""
    answers: list[Judged] = []
    if reader is None:
        for pair, relation in zip(pairs, compare_locally(engine, pairs), strict=True):
            first, second = (_list_words(text) for text in read_pair(pair)[:2])
            certain = Relation(Verdict.SAME, 1.0) if first == second else relation
            answers.append((pair, certain, Origin.SYSTEM))
        return answers, ""
    for batch in split_pairs(pairs):
        try:
            relations = reader.compare([read_pair(pair) for pair in batch])
        except ModelError as error:
            return answers, str(error)
        judged = zip(batch, relations, strict=True)
        answers += [(pair, relation, Origin.MODEL) for pair, relation in judged if relation.probability > 0.0]
    return answers, ""


def _list_words(text: str) -> list[str]:
    return [word.removesuffix("s") for word in words(text) if word not in _ARTICLES]


# -- what can be merged


def _plan_merges(engine: Engine, judged: Mapping[Ids, Judged]) -> tuple[list[list[Record]], list[Merge]]:
    """Return the records of each merge, the survivor first, and the merges that are refused."""
    tx, clusters, same = Transaction(engine), dict[str, list[Record]](), set[frozenset[str]]()
    for ids, (pair, relation, _) in judged.items():
        owners = [(one.project, one.agent, one.user) for one in pair]
        if relation.is_same and relation.probability >= _SURE and owners[0] == owners[1]:
            joined = {one.id: one for end in pair for one in clusters.get(end.id, [end])}
            clusters |= {id: list(joined.values()) for id in joined}
            same.add(frozenset(ids))
    merges, refused, moved = list[list[Record]](), list[Merge](), set[str]()
    for cluster in {min(one.id for one in cluster): cluster for cluster in clusters.values()}.values():
        unmoved = (one for one in cluster if one.id not in moved)
        left = ranked = sorted(unmoved, key=partial(_rank_survivor, tx), reverse=True)
        losses = {(one.id, two.id): _find_obstacles(tx, one, two, judged) for one, two in permutations(ranked, 2)}
        while left:
            able = [[kept, *(one for one in left if one is not kept and not losses[kept.id, one.id])] for kept in left]
            # The first of those that take the place of most others.
            records = max(able, key=len)
            if len(records) == 1:
                break
            merges.append(records)
            # A lesson takes its strategy group along.
            moved |= {group.id for one in records[1:] for group in _find_groups(tx, records[0], one)[1:]}
            left = [one for one in left if one not in records]
        for kept, dropped in combinations(ranked, 2):
            if (kept in left or dropped in left) and {kept.id, dropped.id} in same:
                refused.append(Merge(kept.id, (dropped.id,), tuple(losses[kept.id, dropped.id])))
    return merges, refused


def _rank_survivor(tx: Transaction, record: Record) -> tuple[Any, ...]:
    """Return the rank among records that say the same: the most trusted first, then the newest."""
    if record.kind == "strategy":
        return len(_list_stated(tx, record)), record.evidence.results, record.created_at
    return record.provenance.weight, stated_at(record), record.created_at


def _find_groups(tx: Transaction, kept: Record, dropped: Record) -> Sequence[Record]:
    """Return the strategy groups of two records: themselves, or those of two lessons; none for other memories."""
    if kept.kind == "strategy":
        return kept, dropped
    groups = tx.get([*kept.links[:1], *dropped.links[:1]]) if kept.kind in LESSONS else []
    return groups if len(groups) == 2 else ()


def _list_stated(tx: Transaction, group: Record) -> list[Record]:
    """Return the lessons of a strategy group that somebody stated."""
    lessons = tx.get([lesson_id(group, kind) for kind in LESSONS])
    return [one for one in lessons if one.status in LIVE and one.provenance.origin is not Origin.OUTCOME]


def _find_obstacles(tx: Transaction, kept: Record, dropped: Record, judged: Mapping[Ids, Judged]) -> list[str]:
    """Return what would be lost if a record took the place of another; empty if nothing."""
    own = FIELDS.get(MemoryType(kept.kind), "") if kept.kind in FIELDS else "strategy"
    losses = find_losses(kept.body[own], dropped.body[own])
    for ids in ((kept.id, dropped.id), (dropped.id, kept.id)):
        verdict = judged[ids][1].verdict if ids in judged else Verdict.SAME
        losses += [f"they were compared: {verdict}"] if verdict in (*OPPOSED, *APART) else []
    for name in (*KINDS[kept.kind].editable, *KINDS[kept.kind].keys):
        mine, theirs = (normalise(str(one.body.get(name) or "")) for one in (kept, dropped))
        if name != own and mine != theirs and (theirs or name in SCOPES.values()):
            losses.append(f"{name}: {theirs or 'any'}")
    if kept.provenance.weight < dropped.provenance.weight:
        losses.append("the word of somebody who is trusted more")
    shown_ids = [dropped.id]
    if groups := _find_groups(tx, kept, dropped):
        lesson_ids = [lesson_id(group, kind) for group in groups for kind in LESSONS]
        shown_ids += lesson_ids[2:]
        losses += [f"task: {groups[1].body['task']}"] if not is_of_task(*groups) else []
        losses += ["a person deleted a lesson"] if tx.find_deleted(lesson_ids) else []
        losses += [strategy_of(one.body) for one in _list_stated(tx, groups[1]) if one.id != dropped.id]
    return losses or _find_unanswered(tx.engine, kept, dropped, shown_ids)


def _find_unanswered(engine: Engine, kept: Record, dropped: Record, shown_ids: Sequence[str]) -> list[str]:
    """Return a loss if a search in the words of a record, or a recorded retrieval, found it and not the other."""
    where = Where(kinds={"retrieval"}, projects={engine.project}, linked=set(shown_ids))
    questions = {note.body["task"]: "a recorded question" for note in engine.store.scan(where, _MAX_QUESTIONS)}
    questions[dropped.body["task"] if dropped.kind == "strategy" else read_words(dropped)] = "a search in its words"
    is_learned = kept.kind == "strategy" or not rank.is_stated(kept)
    for question, label in questions.items():
        close = find_closeness(engine, [kept, dropped], embed_query(engine, question))
        pool = rank.compare_records(engine, question, [kept, dropped], close)
        pool = pool if is_learned else rank.read_relevance(engine, question, pool)
        passes = [(rank.LEARNED if is_learned else rank.STATED).passes(one) for one in pool]
        if passes == [False, True]:
            return [f"an answer to {label}"]
    return []


# -- writing


def _merge_records(tx: Transaction, records: Sequence[Record], judged: Sequence[Judged]) -> None:
    """Merge records into the first one; nothing happens if one of them has changed since they were compared."""
    current = tx.get([one.id for one in records])
    if [(one.status, one.text) for one in current] != [(Status.ACTIVE, one.text) for one in records]:
        return
    for source in current[1:]:
        [survivor] = tx.get([current[0].id])
        if groups := _find_groups(tx, survivor, source):
            _merge_groups(tx, *groups)
        else:
            _absorb(tx, survivor, source)
    for one in judged:
        put_comparison(tx, *one, "merged")


def _absorb(tx: Transaction, kept: Record, source: Record) -> None:
    """Add the counts, tags and conversations of a record to another, which takes its place."""
    metadata, theirs = ({"merged_from": [], **one.body.get("metadata", {})} for one in (kept, source))
    # One of them may have been merged into the other before and restored since: then only what is new counts.
    again = [one for one, other in ((source, metadata), (kept, theirs)) if one.id in other["merged_from"]]
    counted = Evidence.from_json(again[0].body.get("counted", {})) if again else NONE
    evidence = add_evidence(kept.evidence, source.evidence, counted)
    if kept.kind in LESSONS and kept.links:
        # Their results are those of the strategy group.
        evidence = evidence.with_results_of(kept.evidence)
    if kept.kind == MemoryType.RULE and not again:
        metadata["sources"] = list(dict.fromkeys((*theirs.get("sources", ()), *metadata.get("sources", ()))))
        metadata["repeats"] = metadata.get("repeats", 0) + theirs.get("repeats", 0)
    ids = dict.fromkeys((*metadata["merged_from"], source.id, *theirs["merged_from"]))
    metadata["merged_from"] = [id for id in ids if id != kept.id]
    episodes = tuple(dict.fromkeys((*kept.provenance.episodes, *source.provenance.episodes)))
    fresh = tx.update(
        kept,
        body={**kept.body, "metadata": metadata},
        evidence=evidence,
        tags=tuple(dict.fromkeys((*kept.tags, *source.tags))),
        provenance=replace(kept.provenance, episodes=episodes),
        updated_at=max(kept.updated_at, source.updated_at),
    )
    tx.add_history(fresh, "merged", f"{source.id} was merged into it")
    body = {**source.body, "counted": source.evidence.to_json()}
    why = f"merged into {kept.id}: {read_words(kept) if kept.kind in FIELDS else strategy_of(kept.body)}"
    tx.supersede(source, fresh, why, stated_at(kept), "merged", body=body, updated_at=source.updated_at)


def add_evidence(evidence: Evidence, other: Evidence, counted: Evidence = NONE) -> Evidence:
    """Return the sum of two records' evidence, without what was counted before."""
    counts = {name: getattr(evidence, name) + getattr(other, name) - getattr(counted, name) for name in COUNTS}
    left = list(counted.recent)
    fresh = [one for one in other.recent if one not in left or left.remove(one)]  # type: ignore[func-returns-value]
    recent = sorted((*evidence.recent, *fresh), key=lambda one: one[0])[-RECENT:]
    used = [one for one in (evidence.last_used, other.last_used) if one]
    return Evidence(**counts, recent=tuple(recent), last_used=max(used, default=None))


def _merge_groups(tx: Transaction, kept: Record, dropped: Record) -> None:
    """Let the outcomes of a strategy group count for another one, and merge their lessons."""
    for outcome in tx.scan(Where(kinds={MemoryType.OUTCOME}, projects={kept.project}, linked={dropped.id})):
        links = tuple(kept.id if id == dropped.id else id for id in outcome.links)
        tx.update(outcome, links=links, updated_at=outcome.updated_at)
    tx.update(dropped, status=Status.SUPERSEDED, superseded_by=kept.id, evidence=NONE)
    recount_group(tx, kept.id)
    for kind in LESSONS:
        lessons = tx.get([lesson_id(kept, kind), lesson_id(dropped, kind)])
        live = [one for one in lessons if one.status in LIVE]
        if len(live) == 2:
            _absorb(tx, *live)
        elif live and live[0].links[:1] == (dropped.id,):
            # The results of both together no longer teach it.
            archived = tx.update(live[0], status=Status.ARCHIVED)
            tx.add_history(archived, "merged", f"into strategy {kept.id}", {"status": str(live[0].status)})


def _replace_older(tx: Transaction, judged: Judged) -> None:
    """Let the newer record of a pair take the place of the older one, unless one of them has changed since."""
    (older, newer), relation, _ = judged
    current = tx.get([older.id, newer.id])
    if [(one.status, one.text) for one in current] == [(Status.ACTIVE, one.text) for one in (older, newer)]:
        put_comparison(tx, *judged, "newer")
        reason = f"a later memory {_REASONS[relation.verdict]}: {read_words(newer)}"
        # It says nothing new, so it is not dated anew.
        tx.supersede(current[0], newer, reason, stated_at(newer), updated_at=current[0].updated_at)


def _note_comparisons(tx: Transaction, judged: Sequence[Judged]) -> None:
    for one in judged:
        put_comparison(tx, *one)
