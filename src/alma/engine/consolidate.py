"""Consolidation: memories that say the same become one, and what is out of date is superseded.

A reader says how look-alikes relate, once for each pair. Those that say the same are merged into the most trusted of
them, then the newest, that keeps what the others say and answers what they answered; no new text is made. Counts are
added once: the survivor notes what it counted of each source, and the results of a strategy are recounted from its
outcomes. Each merge is one write. Sources stay in history; the metadata of the survivor cites them as `merged_from`.

What a newer memory replaces or contradicts is superseded if a model is sure; else a conflict waits for a person.
Without a model the local reader compares: certain duplicates are merged, and nothing is superseded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, groupby, permutations

from ..errors import ModelError
from ..ports import Model
from ..reading.losses import find_losses
from ..reading.port import Comparer, Reader, Relation, Verdict
from ..text import normalise
from ..types.kinds import EVERYWHERE, KINDS, MemoryType
from ..types.query import Where
from ..types.record import COUNTS, LIVE, NONE, RECENT, Evidence, Origin, Record, Status, cosines
from .admit import place_of
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
_MAX_RECORDS = 500  # So many of the newest memories of a kind are compared with each other.
_PAIRS_PER_CALL, _NEAREST, _MAX_QUESTIONS = 40, 5, 8
_SURE, _NEAR_STRATEGIES = 0.7, 0.5
_SAME = Relation(Verdict.SAME, 1.0)
Judged = tuple[RecordPair, Relation]


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


def open_reader(model: Model) -> Reader:
    """Return a reader that asks a model."""
    # Loaded here because it takes longer than most calls, and few have a model.
    from ..reading.model import ModelReader

    return ModelReader(model)


def reconcile(
    engine: Engine, reader: Comparer | None, limit: int = MAX_PAIRS, *, dry_run: bool = False
) -> Consolidation:
    """Compare look-alikes, then merge and supersede; without a reader, the local one compares.

    A model call that fails changes nothing: what was not answered is asked the next time.
    """
    pairs = _list_pairs(engine)
    undecided = [(pair, one) for pair, one in pairs if not _is_decided(one)]
    asked = [pair for pair, one in undecided if reader or one is None]
    answers, problem = _ask(engine, reader, asked[:limit])
    # With what was found to be the same before: what could not be merged then may be merged now.
    merges, refused = _plan_merges(engine, [*_recall_same(pairs), *answers], is_read=reader is not None)
    survivors = {one.id: records[0].id for records in merges for one in records}
    ended, conflicts = survivors.keys() - survivors.values(), list[str]()
    replaced, noted = list[Judged](), list[Judged]()
    for pair, relation in answers:
        (older, newer), is_opposed = pair, relation.verdict in OPPOSED and pair[0].kind in FIELDS
        # Nobody ends what is trusted more, and no agent what only another one reads.
        is_own = place_of(older) == place_of(newer) and (engine.may_approve or not older.provenance.is_persons)
        can_end = (
            reader and is_own and relation.probability >= _SURE and older.provenance.weight <= newer.provenance.weight
        )
        if is_opposed and can_end and ended.isdisjoint(_ids(pair)):
            replaced.append((pair, relation))
            ended.add(older.id)
        elif survivors.get(older.id, older.id) != survivors.get(newer.id, newer.id):
            noted.append((pair, relation))
            is_conflict = is_opposed and not can_end and ended.isdisjoint(_ids(pair))
            conflicts += [comparison_id(older, newer)] if is_conflict else []
    origin = Origin.MODEL if reader else Origin.SYSTEM
    # Merges last, so that they are what `undo` takes back first.
    steps = [partial(_store_verdicts, judged=batch, origin=origin) for batch in split_batches(noted)]
    steps += [partial(_store_verdicts, judged=[one], origin=origin, decision="newer") for one in replaced]
    steps += [partial(_merge_records, records=records, origin=origin) for records in merges]
    for step in steps if not dry_run else ():
        write(engine, step)
    answered = {_ids(pair) for pair, _ in answers if reader}
    waiting = sum(ended.isdisjoint(_ids(pair)) and _ids(pair) not in answered for pair, _ in undecided)
    return Consolidation(
        compared=len(answers),
        merged=tuple(Merge(one.id, tuple(source.id for source in sources)) for one, *sources in merges),
        superseded=tuple(pair[0].id for pair, _ in replaced),
        apart=sum(relation.verdict in APART for _, relation in answers),
        refused=tuple(refused),
        conflicts=tuple(conflicts),
        waiting=waiting,
        problem=problem or ("no model is configured" if waiting and reader is None else ""),
    )


# -- pairs


def list_unresolved(engine: Engine) -> list[RecordPair]:
    """Return the pairs of active memories that look alike and that no model has compared yet, in a fixed order."""
    return [pair for pair, one in _list_pairs(engine) if not _is_decided(one)]


def _is_decided(one: Record | None) -> bool:
    """Return whether a model compared a pair, or a decision was taken."""
    return one is not None and (one.provenance.origin is Origin.MODEL or "decision" in one.body)


def _ids(pair: RecordPair) -> tuple[str, str]:
    return pair[0].id, pair[1].id


def _recall_same(pairs: Sequence[tuple[RecordPair, Record | None]]) -> Iterator[Judged]:
    for pair, one in pairs:
        if one is not None and one.body["verdict"] == Verdict.SAME and "decision" not in one.body:
            yield pair, Relation(Verdict.SAME, one.body["probability"])


def _list_pairs(engine: Engine) -> list[tuple[RecordPair, Record | None]]:
    """Return the pairs of active memories and strategies that look alike, in a fixed order, with their comparisons."""
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
    pairs.sort(key=lambda pair: (pair[1].kind, stated_at(pair[1]), *map(read_words, reversed(pair))))
    pairs += _list_strategies(engine)
    known = find_comparisons(engine, pairs)
    return [(pair, known.get(_ids(pair))) for pair in pairs]


def _list_strategies(engine: Engine) -> Iterator[RecordPair]:
    """Yield the pairs of strategy groups with results that have one owner, similar tasks and similar strategies."""
    where = Where(kinds={"strategy"}, projects={engine.project}, statuses={Status.ACTIVE})
    groups = [
        one
        for one in engine.store.scan(where, _MAX_RECORDS)
        if one.evidence.results and one.vectors and one.embedder == engine.embedder_name
    ]
    for at, newer in enumerate(groups):
        others = [one for one in groups[at + 1 :] if place_of(one) == place_of(newer) and is_of_task(newer, one)]
        alike = cosines(newer.vectors[:1], [one.vectors[0] for one in others])[0] if others else []
        near = sorted(zip(alike, others, strict=True), key=lambda one: (-one[0], one[1].id))[:_NEAREST]
        yield from ((one, newer) for likeness, one in near if likeness >= _NEAR_STRATEGIES)


def split_pairs(pairs: Sequence[RecordPair]) -> Iterator[Sequence[RecordPair]]:
    """Yield as many pairs at a time as are asked about in one call, all of one kind."""
    for _, group in groupby(pairs, key=lambda pair: pair[1].kind):
        yield from split_batches(list(group), _PAIRS_PER_CALL)


def _ask(engine: Engine, reader: Comparer | None, pairs: Sequence[RecordPair]) -> tuple[list[Judged], str]:
    """Return the answers of the reader, and why it stopped, if it did."""
    answers: list[Judged] = []
    for batch in split_pairs(pairs):
        texts = [read_pair(pair) for pair in batch]
        try:
            relations = reader.compare(texts) if reader else compare_locally(engine, texts)
        except ModelError as error:
            return answers, str(error)
        judged = zip(batch, relations, strict=True)
        answers += [one for one in judged if one[1].probability > 0.0 or reader is None]
    return answers, ""


# -- what can be merged


def _plan_merges(engine: Engine, judged: Sequence[Judged], *, is_read: bool) -> tuple[list[list[Record]], list[Merge]]:
    """Return the records of each merge, the survivor first, and the merges that are refused."""
    clusters: dict[str, list[Record]] = {}
    verdicts = {frozenset(_ids(pair)): relation.verdict for pair, relation in judged}
    least = _SURE if is_read else _SAME.probability
    for pair, relation in judged:
        if relation.is_same and relation.probability >= least and place_of(pair[0]) == place_of(pair[1]):
            joined = {one.id: one for end in pair for one in clusters.get(end.id, [end])}
            clusters |= {id: list(joined.values()) for id in joined}
    tx, merges, refused, moved = Transaction(engine), list[list[Record]](), list[Merge](), set[str]()
    for cluster in {min(one.id for one in cluster): cluster for cluster in clusters.values()}.values():
        unmoved = [(one.provenance.weight + len(_list_stated(tx, one)), stated_at(one), one.id, one) for one in cluster]
        left = ranked = [one for *_, one in sorted(unmoved, reverse=True) if one.id not in moved]
        losses = {}
        for kept, dropped in permutations(ranked, 2):
            verdict = verdicts.get(frozenset((kept.id, dropped.id)))
            is_other = verdict in OPPOSED or verdict in APART
            reasons = [f"they were compared: {verdict}"] if is_other else _find_losses(tx, kept, dropped, is_read)
            losses[kept.id, dropped.id] = reasons
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
            if (kept in left or dropped in left) and verdicts.get(frozenset((kept.id, dropped.id))) is Verdict.SAME:
                refused.append(Merge(kept.id, (dropped.id,), tuple(losses[kept.id, dropped.id])))
    return merges, refused


def _find_groups(tx: Transaction, kept: Record, dropped: Record) -> Sequence[Record]:
    """Return the strategy groups of two records: themselves, or those of two lessons; none for other memories."""
    if kept.kind == "strategy":
        return kept, dropped
    groups = tx.get([*kept.links[:1], *dropped.links[:1]]) if kept.kind in LESSONS else []
    return groups if len(groups) == 2 else ()


def _list_stated(tx: Transaction, group: Record) -> list[Record]:
    """Return the lessons of a strategy group that somebody stated; none of another record."""
    lessons = tx.get([lesson_id(group, kind) for kind in LESSONS])
    return [one for one in lessons if one.status in LIVE and one.provenance.origin is not Origin.OUTCOME]


def _find_losses(tx: Transaction, kept: Record, dropped: Record, is_read: bool) -> list[str]:
    """Return what would be lost if a record took the place of another; empty if nothing.

    `is_read` is whether a model has found both to say the same.
    """
    own = "strategy" if kept.kind == "strategy" else FIELDS[MemoryType(kept.kind)]
    is_action = kept.kind == "strategy"
    losses = find_losses(kept.body[own], dropped.body[own], is_read=is_read, is_action=is_action)
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
        losses += [] if is_of_task(*groups) else [f"task: {groups[1].body['task']}"]
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
        if [(rank.LEARNED if is_learned else rank.STATED).passes(one) for one in pool] == [False, True]:
            return [f"an answer to {label}"]
    return []


# -- writing


def _are_unchanged(current: Sequence[Record], compared: Sequence[Record]) -> bool:
    return [(one.status, one.text) for one in current] == [(Status.ACTIVE, one.text) for one in compared]


def _store_verdicts(tx: Transaction, judged: Sequence[Judged], origin: Origin, decision: str = "") -> None:
    """Store how pairs relate. After a decision, the newer record of each takes the place of the older one."""
    for pair, relation in judged:
        current = tx.get(_ids(pair))
        # Somebody may have changed one of them since they were compared.
        if _are_unchanged(current, pair):
            put_comparison(tx, pair, relation, origin, decision)
            verb = "takes its place" if relation.verdict is Verdict.REPLACES else "contradicts it"
            why, [older, newer] = f"a later memory {verb}: {read_pair(pair).second}", current
            if decision:
                # It says nothing new, so it is not dated anew.
                tx.supersede(older, newer, why, stated_at(newer), updated_at=older.updated_at)


def _merge_records(tx: Transaction, records: Sequence[Record], origin: Origin) -> None:
    """Merge records into the first one; nothing happens if one of them has changed since they were compared."""
    current = tx.get([one.id for one in records])
    for source in current[1:] if _are_unchanged(current, records) else ():
        [survivor] = tx.get([current[0].id])
        if groups := _find_groups(tx, survivor, source):
            _merge_groups(tx, *groups)
        else:
            _absorb(tx, survivor, source)
        for other in current[: current.index(source)]:
            put_comparison(tx, (source, other), _SAME, origin, "merged")


def _absorb(tx: Transaction, kept: Record, source: Record) -> None:
    """Add the counts, tags and conversations of a record to another, which takes its place."""
    mine, theirs = ({**one.body.get("counted", {})} for one in (kept, source))
    # One of them may have been merged into the other before and restored since: then only what is new counts.
    is_again = source.id in mine or kept.id in theirs
    before = Evidence.from_json(mine.get(source.id) or theirs.get(kept.id) or {})
    evidence = add_evidence(kept.evidence, source.evidence, before)
    if kept.kind in LESSONS and kept.links:
        # Their results are those of the strategy group.
        evidence = evidence.with_results_of(kept.evidence)
    counted = {**theirs, **mine, source.id: source.evidence.to_json()}
    counted.pop(kept.id, None)
    metadata, other = ({**one.body.get("metadata", {})} for one in (kept, source))
    if kept.kind == MemoryType.RULE and not is_again:
        metadata["sources"] = list(dict.fromkeys((*other.get("sources", ()), *metadata.get("sources", ()))))
        metadata["repeats"] = metadata.get("repeats", 0) + other.get("repeats", 0)
    body = {**kept.body, "counted": counted, "metadata": {**metadata, "merged_from": list(counted)}}
    tags = tuple(dict.fromkeys((*kept.tags, *source.tags)))
    episodes = tuple(dict.fromkeys((*kept.provenance.episodes, *source.provenance.episodes)))
    origin, updated_at = replace(kept.provenance, episodes=episodes), max(kept.updated_at, source.updated_at)
    fresh = tx.update(kept, body=body, evidence=evidence, tags=tags, provenance=origin, updated_at=updated_at)
    tx.add_history(fresh, "merged", f"{source.id} was merged into it")
    why = f"merged into {kept.id}: {read_words(kept) if kept.kind in FIELDS else strategy_of(kept.body)}"
    tx.supersede(source, fresh, why, verb="merged", updated_at=source.updated_at)


def add_evidence(evidence: Evidence, other: Evidence, counted: Evidence = NONE) -> Evidence:
    """Return the sum of two records' evidence, without what was counted before."""
    counts = {name: getattr(evidence, name) + getattr(other, name) - getattr(counted, name) for name in COUNTS}
    recent = Counter(evidence.recent) + (Counter(other.recent) - Counter(counted.recent))
    last_used = max(filter(None, (evidence.last_used, other.last_used)), default=None)
    return Evidence(**counts, recent=tuple(sorted(recent.elements()))[-RECENT:], last_used=last_used)


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
            continue
        for lesson in lessons:
            if lesson.links[:1] == (dropped.id,) and lesson.status is not Status.SUPERSEDED:
                # The results of both together no longer teach it.
                ended = tx.update(lesson, status=Status.SUPERSEDED, superseded_by=lesson_id(kept, kind))
                tx.add_history(ended, "merged", f"into strategy {kept.id}", {"status": str(lesson.status)})
