"""Consolidation: memories that say the same become one, and what is out of date is superseded.

A reader says how look-alikes relate, once for each pair. Those that say the same are merged into the most trusted of
them, then the newest, that keeps what the others say and answers what they answered. No new text is made: if each has a
detail that the others lack, the survivor keeps their wordings, quoted and with their sources. If their details seem to
compete (another number or name), the reader is asked once more, about these details. Counts are added once: the
survivor notes what it counted of each source, and the results of a strategy are recounted from its outcomes. Each merge
is one write. Sources stay in history; the metadata of the survivor cites them as `merged_from`.

What a newer memory replaces or contradicts is superseded if a model is sure; else a conflict waits for a person.
Without a model the local reader compares: certain duplicates are merged, and nothing is superseded.

A deleted memory may have come back in words that its tombstone does not recognise. If a candidate that resembles it
waits, a model that finds both to say the same holds the other back, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import combinations, groupby
from typing import Any, NamedTuple

from ..errors import ModelError, ScopeError, ValidationError
from ..ports import Model
from ..reading.losses import can_be_checked, can_be_quoted, find_losses
from ..reading.port import UNSURE, Comparer, Pair, Reader, Relation, Verdict
from ..text import digest, normalise
from ..types.kinds import KINDS, MemoryType, list_wordings
from ..types.query import Where, split_batches
from ..types.record import COUNTS, LIVE, NONE, RECENT, Evidence, Origin, Provenance, Record, Status, cosines
from ..types.times import from_iso, to_iso
from .admit import place_of
from .calls import MAX_PAIRS
from .conflicts import SCOPES, compare_locally, list_nearest, read_pair
from .context import Engine
from .edit import Reviewed, change_memory, read_memory, refuse_second_values
from .erase import recount_group
from .facts import APART, OPPOSED, WAITS, RecordPair, comparison_id, find_comparisons, put_comparison
from .outcomes import is_of_task, lesson_id
from .pages import check_versions
from .retrieve import rank
from .retrieve.lookalikes import (
    FIELDS,
    NEAR,
    Lookalike,
    has_lookalikes,
    keep_outstanding,
    list_lookalikes,
    read_words,
    stated_at,
)
from .retrieve.request import embed_query
from .rule_lines import dress_rule
from .search import find_closeness, find_near
from .tombstones import RESEMBLES, hold_back_reworded
from .transaction import LESSONS, Transaction, key_of_deleted, scan_records, strategy_of, write

_MAX_RECORDS = 500  # So many of the newest memories of a kind are compared in one run, and so many others in turn.
_PAIRS_PER_CALL, _NEAREST, _POOL, _MAX_QUESTIONS, _MAX_WORDINGS = 40, 5, 12, 8, 8
_SURE, _NEAR_STRATEGIES = 0.7, 0.3
_SAME = Relation(Verdict.SAME, 1.0)
_OVERLAP = timedelta(seconds=5)
Judged = tuple[RecordPair, Relation]
KnownPair = tuple[RecordPair, Record | None]  # A pair with what was found out about it.
CanQuote = Callable[[str, str], bool]
Source = tuple[Record, CanQuote]  # A record that is merged into another, and whether its wording is kept beside others.
Plan = tuple[Record, list[Source]]  # A survivor with what is merged into it.


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
    held_back: tuple[str, ...] = ()  # Active memories that say the same as a deleted one, and wait for a person now.
    waiting: int = 0  # Pairs that a model could still decide.
    problem: str = ""  # Why they are waiting.


def open_reader(model: Model) -> Reader:
    """Return a reader that asks a model."""
    # Loaded here because it takes longer than most calls, and few have a model.
    from ..reading.model import ModelReader

    return ModelReader(model)


def reconcile(
    engine: Engine,
    reader: Comparer | None,
    limit: int = MAX_PAIRS,
    *,
    dry_run: bool = False,
    excluded: Collection[str] = (),
) -> Consolidation:
    """Compare look-alikes, then merge and supersede; without a reader, the local one compares.

    A model call that fails changes nothing: what was not answered is asked the next time. `excluded` are the ids of
    memories that are left out, as if they were archived.
    """
    returned, unanswered, failure = list[Judged](), 0, ""
    if reader:
        returned, unanswered, failure = _hold_back_returned(engine, reader, limit, dry_run=dry_run, excluded=excluded)
    held_back = dict.fromkeys(_split_returned(pair)[1].id for pair, one in returned if _is_surely_same(one))
    began, last_run = engine.clock(), find_last_run(engine)
    pairs = _list_pairs(engine, {*excluded, *held_back}, last_run)
    if reader and last_run is not None:
        pairs = _add_noted(engine, pairs, {*excluded, *held_back})
    undecided = [(pair, one) for pair, one in pairs if not _is_decided(one)]
    asked = [pair for pair, one in undecided if reader or one is None]
    answers, problem = _ask(engine, reader, asked[:limit], read_pair)
    # With what was found to be the same before: what could not be merged then may be merged now.
    judged = {_ids(pair): (pair, relation) for pair, relation in (*_recall_same(pairs), *answers)}
    merges, refused = _plan_merges(engine, judged.values(), is_read=reader is not None)
    if reader and not problem and (doubtful := _list_doubtful(judged.values(), refused)):
        checked, problem = _ask(engine, reader, doubtful[:limit], _read_details)
        marked = {_ids(pair): (pair, relation._replace(is_checked=True)) for pair, relation in checked}
        answers = list(({_ids(one[0]): one for one in answers} | marked).values())
        merges, refused = _plan_merges(engine, (judged | marked).values(), is_read=True)
    survivors = {one.id: kept.id for kept, sources in merges for one in (kept, *(one for one, _ in sources))}
    ended, conflicts = survivors.keys() - survivors.values(), list[str]()
    replaced, noted = list[Judged](), list[Judged]()
    for pair, relation in answers:
        (older, newer), is_opposed = pair, relation.verdict in OPPOSED and pair[0].kind in FIELDS
        can_end = reader is not None and _can_end(engine, pair, relation)
        if is_opposed and can_end and ended.isdisjoint(_ids(pair)):
            replaced.append((pair, relation))
            ended.add(older.id)
        elif survivors.get(older.id, older.id) != survivors.get(newer.id, newer.id):
            noted.append((pair, relation))
            is_conflict = is_opposed and not can_end and ended.isdisjoint(_ids(pair))
            conflicts += [comparison_id(older, newer)] if is_conflict else []
    origin = Origin.MODEL if reader else Origin.SYSTEM
    # Merges last, so that they are what `undo` reverts first.
    steps = [partial(_store_verdicts, judged=batch, origin=origin) for batch in split_batches(noted)]
    steps += [partial(_store_verdicts, judged=[one], origin=origin, decision="newer") for one in replaced]
    steps += [partial(_merge_records, kept=kept, sources=sources, origin=origin) for kept, sources in merges]
    if not (problem or failure or len(asked) > limit):
        steps.append(partial(note_run, began=began))
    for step in steps if not dry_run else ():
        write(engine, step)
    answered = {_ids(pair) for pair, _ in answers if reader}
    waiting = sum(ended.isdisjoint(_ids(pair)) and _ids(pair) not in answered for pair, _ in undecided)
    return Consolidation(
        compared=len(returned) + len(answers),
        merged=tuple(Merge(kept.id, tuple(one.id for one, _ in sources)) for kept, sources in merges),
        superseded=tuple(pair[0].id for pair, _ in replaced),
        apart=sum(relation.verdict in APART for _, relation in (*returned, *answers)),
        refused=tuple(refused),
        conflicts=tuple(conflicts),
        held_back=tuple(held_back),
        waiting=waiting + unanswered,
        problem=failure or problem or ("no model is configured" if waiting and reader is None else ""),
    )


def _can_end(engine: Engine, pair: RecordPair, relation: Relation) -> bool:
    """Return whether the newer of two memories may take the place of the older one without a person."""
    older, newer = pair
    # Nobody ends what is trusted more, and no agent what only another one reads.
    is_own = place_of(older) == place_of(newer) and (engine.may_approve or not older.provenance.is_from_person)
    is_own &= older.provenance.weight <= newer.provenance.weight
    # If the second answer differs from the first, nobody is sure.
    return is_own and relation.probability >= _SURE and not relation.is_checked


# -- pairs


def list_unresolved(engine: Engine) -> list[RecordPair]:
    """Return the pairs of active memories that look alike and that no model has compared yet, in a fixed order."""
    return [pair for pair, one in _list_pairs(engine) if not _is_decided(one)]


def _is_compared(one: Record | None) -> bool:
    """Return whether a model compared a pair, or a decision was taken."""
    return one is not None and (one.provenance.origin is Origin.MODEL or "decision" in one.body)


def _is_decided(one: Record | None) -> bool:
    """Return whether two active memories need not be compared again."""
    return one is not None and _is_compared(one) and one.body.get("decision") != WAITS


def _ids(pair: RecordPair) -> tuple[str, str]:
    return pair[0].id, pair[1].id


def _recall_same(pairs: Sequence[tuple[RecordPair, Record | None]]) -> Iterator[Judged]:
    for pair, one in pairs:
        if one is not None and one.body["verdict"] == Verdict.SAME and "decision" not in one.body:
            yield pair, Relation(Verdict.SAME, one.body["probability"], one.body.get("is_checked", False))


def _list_pairs(engine: Engine, excluded: Collection[str] = (), last_run: LastRun | None = None) -> list[KnownPair]:
    """Return the pairs of active memories and strategies that look alike, in a fixed order, with their comparisons.

    Of many memories of a kind, only those are compared that changed since the last run.
    """
    pairs: list[RecordPair] = []
    for kind in (*sorted(FIELDS), "strategy"):
        where = engine.within(kind, statuses={Status.ACTIVE}, sessions={""})
        records = [one for one in engine.store.scan(where) if one.id not in excluded]
        if kind == "strategy":
            records = [one for one in records if one.evidence.results and one.embedder == engine.embedder_name != ""]
        else:
            records = [one for one in records if has_lookalikes(one)]
        order, by_newer = {one.id: at for at, one in enumerate(records)}, dict[str, dict[str, Lookalike]]()
        for record, others in _list_company(engine, where, records, last_run):
            lookalikes: Iterable[Lookalike] = list_lookalikes(engine, [record], others, NEAR)
            if kind == "strategy":
                lookalikes = _compare_strategies(record, [one for one in others if order[one.id] < order[record.id]])
            for one in lookalikes:
                by_newer.setdefault(one.newer.id, {})[one.older.id] = one
        own: list[RecordPair] = []
        for id in sorted(by_newer, key=order.__getitem__):
            nearest = sorted(by_newer[id].values(), key=lambda one: (-one.likeness, one.older.id))
            own += [(one.older, one.newer) for one in nearest[:_NEAREST]]
        if kind != "strategy":
            own.sort(key=lambda pair: (stated_at(pair[1]), *map(read_words, reversed(pair))))
        pairs += own
    known = find_comparisons(engine, pairs)
    return [(pair, known.get(_ids(pair))) for pair in pairs]


def _add_noted(engine: Engine, pairs: list[KnownPair], excluded: Collection[str]) -> list[KnownPair]:
    """Return the pairs with those that were noted in earlier runs and that no model has decided."""
    present = {_ids(pair) for pair, _ in pairs}
    comparisons = scan_records(engine, "comparison", statuses={Status.ACTIVE})
    noted = [one for one in comparisons if not _is_decided(one) and tuple(one.links) not in present]
    records = {one.id: one for one in engine.store.get(list({id for one in noted for id in one.links}))}
    more: list[KnownPair] = []
    for comparison in reversed(noted):
        sides = [records[id] for id in comparison.links if id in records and id not in excluded]
        is_current = len(sides) == 2 and all(one.status is Status.ACTIVE for one in sides)
        # Once a text has changed, the comparison says nothing about the pair.
        if is_current and comparison_id(*sides) == comparison.id:
            more.append(((sides[0], sides[1]), comparison))
    return [*pairs, *more]


def _list_company(
    engine: Engine, where: Where, records: Sequence[Record], last_run: LastRun | None
) -> Iterator[tuple[Record, Sequence[Record]]]:
    """Yield each record with those to compare it with: all, or if they are too many, the nearest.

    Then it yields the newest records, or those that changed since the last run, and a part of the others, another one
    each day.
    """
    if len(records) <= _MAX_RECORDS:
        yield from ((one, records) for one in records)
        return
    by_id = {one.id: one for one in records}
    for one in _choose_due(engine, records, last_run):
        at, agents = (0, {one.agent}) if one.kind == "strategy" else (-1, None)
        vector = one.vectors[at] if one.vectors and one.embedder == engine.embedder_name else None
        own = replace(where, users={one.user}, agents=agents)
        near = [by_id[id] for id in find_near(engine, vector, _own_words(one), own, _POOL) if id in by_id]
        if one.kind != "strategy":
            near = keep_outstanding(one, [other for other in near if other is not one])
        yield from ((one, near), *((other, [one]) for other in near))


def _choose_due(engine: Engine, records: Sequence[Record], last_run: LastRun | None) -> list[Record]:
    """Return the records that are compared in this run, of the newest first."""
    today = str(engine.clock().date())
    due = records[:_MAX_RECORDS]
    if last_run is not None:
        due = [one for one in records if max(one.created_at, one.updated_at) >= last_run.began][:_MAX_RECORDS]
    if last_run is not None and last_run.day == today:
        return list(due)
    rest = records[_MAX_RECORDS:]
    start = int(digest(today), 16) % -(-len(rest) // _MAX_RECORDS) * _MAX_RECORDS
    part = rest[start : start + _MAX_RECORDS]
    return list({one.id: one for one in (*due, *part)}.values())


class LastRun(NamedTuple):
    """When the last run began that left nothing to compare."""

    began: datetime
    day: str


def find_last_run(engine: Engine) -> LastRun | None:
    """Return the last run on this project; None if there was none, or if the clock was set back since."""
    for marker in engine.store.get([_name_marker(engine)]):
        began = from_iso(marker.body["value"])
        if began is not None and began <= engine.clock():
            # A change that was dated before it may have been stored after it.
            return LastRun(began - _OVERLAP, str(began.date()))
    return None


def note_run(tx: Transaction, began: datetime) -> None:
    """Store when a run began that left nothing to compare."""
    tx.set_marker(_name_marker(tx.engine), {"value": to_iso(began)})


def _name_marker(engine: Engine) -> str:
    return f"mrk_compared_{digest(engine.project, engine.embedder_name, size=10)}"


def _compare_strategies(older: Record, groups: Sequence[Record]) -> list[Lookalike]:
    """Return the groups that have a similar strategy for similar tasks of the same owner."""
    fitting = [one for one in groups if place_of(one) == place_of(older) and is_of_task(one, older)]
    alike = cosines(older.vectors[:1], [one.vectors[0] for one in fitting])[0] if fitting else []
    near = zip(fitting, alike, strict=True)
    return [Lookalike(older, one, likeness) for one, likeness in near if likeness >= _NEAR_STRATEGIES]


def split_pairs(pairs: Sequence[RecordPair]) -> Iterator[Sequence[RecordPair]]:
    """Yield as many pairs at a time as are asked about in one call, all of one kind."""
    for _, group in groupby(pairs, key=lambda pair: pair[1].kind):
        yield from split_batches(list(group), _PAIRS_PER_CALL)


def _ask(
    engine: Engine, reader: Comparer | None, pairs: Sequence[RecordPair], read: Callable[[RecordPair], Pair]
) -> tuple[list[Judged], str]:
    """Return the answers of the reader, and why it stopped, if it did."""
    answers: list[Judged] = []
    for batch in split_pairs(pairs):
        texts = [read(pair) for pair in batch]
        try:
            relations = reader.compare(texts) if reader else compare_locally(engine, texts)
        except ModelError as error:
            return answers, str(error)
        judged = zip(batch, relations, strict=True)
        answers += [one for one in judged if one[1].probability > 0.0 or reader is None]
    return answers, ""


def _read_details(pair: RecordPair) -> Pair:
    """Return the texts of two records as a pair, with the details that only one of them has."""
    first, second, *_ = text = read_pair(pair)
    only_first, only_second = (tuple(find_losses(*two, is_read=True)) for two in ((second, first), (first, second)))
    return text._replace(only_first=only_first, only_second=only_second)


def _list_doubtful(judged: Iterable[Judged], refused: Sequence[Merge]) -> list[RecordPair]:
    """Return the pairs that are refused for nothing but details of their texts, and that were not checked yet."""
    reasons = {frozenset((one.survivor, *one.sources)): {*one.losses} for one in refused}
    doubtful = []
    for pair, relation in judged:
        losses = reasons.get(frozenset(_ids(pair)))
        if losses and not relation.is_checked:
            texts = _read_details(pair)
            if losses <= {*texts.only_first, *texts.only_second} and can_be_checked(*texts[:2]):
                doubtful.append(pair)
    return doubtful


# -- what can be merged


def _plan_merges(engine: Engine, judged: Iterable[Judged], *, is_read: bool) -> tuple[list[Plan], list[Merge]]:
    """Return each survivor with what is merged into it, and the merges that are refused."""
    clusters: dict[str, list[Record]] = {}
    relations = {frozenset(_ids(pair)): relation for pair, relation in judged}
    least = _SURE if is_read else _SAME.probability
    for pair, relation in judged:
        if relation.is_same and relation.probability >= least and place_of(pair[0]) == place_of(pair[1]):
            joined = {one.id: one for end in pair for one in clusters.get(end.id, [end])}
            clusters |= {id: list(joined.values()) for id in joined}
    tx, merges, refused, moved = Transaction(engine), list[Plan](), list[Merge](), set[str]()
    for cluster in {min(one.id for one in cluster): cluster for cluster in clusters.values()}.values():
        ranks = [(one.provenance.weight + len(_list_stated(tx, one)), stated_at(one), one.id, one) for one in cluster]
        ranked = left = [one for *_, one in sorted(ranks, reverse=True) if one.id not in moved]
        losses: dict[tuple[str, str], list[str]] = {}
        while left:
            plans = [_plan_survivor(tx, one, left, relations, is_read=is_read) for one in left]
            # The first of those that take the place of most others, with the fewest quotations.
            sizes = [(len(sources), -len(list_wordings(kept.body))) for kept, sources, _ in plans]
            at = max(range(len(left)), key=lambda at: sizes[at])
            survivor, (_, sources, _) = left[at], plans[at]
            for one, (_, _, lost) in zip(left, plans, strict=True):
                if one is survivor or not sources:
                    losses |= {(one.id, id): reasons for id, reasons in lost.items()}
            if not sources:
                break
            merges.append((survivor, sources))
            # A lesson takes its strategy group along.
            moved |= {group.id for one, _ in sources for group in _find_groups(tx, survivor, one)[1:]}
            ended = {survivor.id, *(one.id for one, _ in sources)}
            left = [one for one in left if one.id not in ended]
        for first, second in combinations([one.id for one in ranked], 2):
            if relations.get(frozenset((first, second)), UNSURE).is_same:
                pairs = [ids for ids in ((first, second), (second, first)) if losses.get(ids)]
                refused += [Merge(ids[0], ids[1:], tuple(losses[ids])) for ids in pairs[:1]]
    return merges, refused


def _plan_survivor(
    tx: Transaction,
    survivor: Record,
    others: Sequence[Record],
    relations: Mapping[frozenset[str], Relation],
    *,
    is_read: bool,
) -> tuple[Record, list[Source], dict[str, list[str]]]:
    """Merge others into a record one after another, as far as nothing is lost.

    Returns the record with the wordings it takes over, the others that are merged, and what the rest would lose.
    """
    kept, sources, losses = survivor, list[Source](), dict[str, list[str]]()
    for one in (other for other in others if other is not survivor):
        known = (survivor, *(source for source, _ in sources))
        compared = [relations.get(frozenset((it.id, one.id)), UNSURE) for it in known]
        differing = [it.verdict for it in compared if it.verdict in OPPOSED or it.verdict in APART]
        if differing:
            losses[one.id] = [f"they were compared: {differing[0]}"]
            continue
        # It holds everything; or it keeps the other wording, which only a model allows: for its details, or at last for
        # a question that would not find it otherwise.
        is_checked = compared[0].is_same and compared[0].is_checked
        ways = (_never, partial(_can_follow, _own_words(survivor))) if is_checked else (_never, _can_add, can_be_quoted)
        for can_quote in ways if is_read else (_never,):
            losses[one.id] = _find_losses(tx, kept, one, can_quote, is_read=is_read, is_checked=is_checked)
            if not losses[one.id]:
                sources.append((one, can_quote))
                kept = replace(kept, **_join_wordings(tx.engine, kept, one, can_quote))
                break
    return kept, sources, losses


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


def _own_words(record: Record) -> str:
    return str(record.body[FIELDS.get(record.kind, "strategy")])


def _never(_known: str, _text: str) -> bool:
    return False


def _can_add(known: str, text: str) -> bool:
    return bool(find_losses(known, text, is_read=True)) and can_be_quoted(known, text)


def _can_follow(checked: str, known: str, text: str) -> bool:
    """Return whether a text may be quoted whose details a model found in the text `checked`."""
    return known == checked or can_be_quoted(known, text)


def _find_losses(
    tx: Transaction, kept: Record, dropped: Record, can_quote: CanQuote, *, is_read: bool, is_checked: bool
) -> list[str]:
    """Return what would be lost if a record took the place of another; empty if nothing.

    `is_read` is whether a model has found both to say the same, `is_checked` whether it has found each detail of one in
    the other, and `can_quote` whether the other wording may be kept beside a known one.
    """
    joined = replace(kept, **_join_wordings(tx.engine, kept, dropped, can_quote))
    is_strategy, is_action = kept.kind == "strategy", kept.kind in ("strategy", MemoryType.ANTI_PATTERN)
    compare = partial(find_losses, is_read=is_read, is_action=is_action)
    # The wordings of a strategy are tasks.
    kept_texts, texts = (
        [_own_words(one), *(() if is_strategy else list_wordings(one.body))] for one in (joined, dropped)
    )
    losses = [label for text in texts for label in min((compare(one, text) for one in kept_texts), key=len)]
    # A strategy has no quotations: what it says in other words is not lost.
    losses = [] if is_checked and is_strategy else losses
    for name in (*KINDS[kept.kind].editable, *KINDS[kept.kind].keys):
        mine, theirs = (normalise(str(one.body.get(name) or "")) for one in (kept, dropped))
        if name != FIELDS.get(kept.kind, "strategy") and mine != theirs and (theirs or name in SCOPES.values()):
            losses.append(f"{name}: {theirs or 'any'}")
    if kept.provenance.weight < dropped.provenance.weight:
        losses.append("the word of somebody who is trusted more")
    elif is_read and not tx.engine.may_approve and dropped.provenance.is_from_person:
        # Whoever runs this may have chosen the model.
        losses.append("the word of a person")
    shown_ids = [dropped.id]
    if groups := _find_groups(tx, kept, dropped):
        lesson_ids = [lesson_id(group, kind) for group in groups for kind in LESSONS]
        shown_ids += lesson_ids[2:]
        losses += [] if is_of_task(*groups) else [f"task: {groups[1].body['task']}"]
        losses += ["a person deleted a lesson"] if tx.find_deleted(lesson_ids) else []
        losses += [strategy_of(one.body) for one in _list_stated(tx, groups[1]) if one.id != dropped.id]
    return losses or _find_unanswered(tx.engine, joined, dropped, shown_ids)


def _join_wordings(engine: Engine, kept: Record, source: Record, can_quote: CanQuote) -> dict[str, Any]:
    """Return the fields of a record that change with the wordings it takes over: tasks of a strategy, or details.

    A text that is trusted less is quoted with its source, but not in a rule or preference: they are instructions.
    """
    is_strategy, theirs, mine = kept.kind == "strategy", source.provenance.weight, kept.provenance.weight
    is_foreign = theirs <= 0 or (KINDS[kept.kind].is_gated and theirs != mine)
    if not is_strategy and (kept.kind not in FIELDS or is_foreign):
        return {}
    field, vectors = "task" if is_strategy else FIELDS[kept.kind], list[bytes]()
    others = {source.id: (source.body[field], source.provenance.canonical_source), **source.body.get("wordings", {})}
    body: dict[str, Any] = {**kept.body, "wordings": {**kept.body.get("wordings", {})}}
    passages = KINDS[kept.kind].passages
    # The vectors of a strategy's tasks follow its own, those of other wordings precede that of the memory's own words.
    start = len(passages({**source.body, "wordings": {}})) - 1 if is_strategy else -1
    for at, (id, (text, by)) in enumerate(others.items(), start):
        known = (body[field], *list_wordings(body))
        is_new = text and text not in known and (is_strategy or all(can_quote(one, text) for one in known))
        if is_new and len(known) <= _MAX_WORDINGS:
            body["wordings"][id] = (text, by)
            vectors += source.vectors[at:][:1]
    if not body["wordings"]:
        return {}
    body = dress_rule(body) if kept.kind == "rule" else body
    joined = kept.vectors
    # Those of a lesson are the vectors of its group.
    if joined and not (kept.kind in LESSONS and kept.links):
        end = len(joined) - (0 if is_strategy else len(passages({**body, "wordings": {}})))
        joined = (*joined[:end], *vectors, *joined[end:])
        if any(len(one.vectors) != len(passages(one.body)) for one in (kept, source)):
            # A long text has several.
            [joined] = engine.encode([passages(body)])
    return {"body": body, "text": KINDS[kept.kind].text(body), "vectors": joined}


def _find_unanswered(engine: Engine, kept: Record, dropped: Record, shown_ids: Sequence[str]) -> list[str]:
    """Return a loss if a search in the words of a record, or a recorded retrieval, found it and not the other."""
    where = engine.where("retrieval", linked=set(shown_ids))
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


# -- deleted memories that came back


def _hold_back_returned(
    engine: Engine, reader: Comparer, limit: int, *, dry_run: bool, excluded: Collection[str]
) -> tuple[list[Judged], int, str]:
    """Let memories wait that say the same as a candidate that resembles a deleted one.

    Return the answers of the reader, how many pairs have none, and why.
    """
    reading, pairs = Transaction(engine), list[RecordPair]()
    where = engine.within(*FIELDS, statuses={Status.CANDIDATE}, sessions={""})
    waiting = [one for one in reading.scan(where) if RESEMBLES in one.body.get("metadata", {})]
    for candidate in waiting[:_MAX_RECORDS]:
        owner = {"agents": {candidate.agent}, "users": {candidate.user}}
        place = engine.within(candidate.kind, statuses={Status.ACTIVE}, sessions={""}, **owner)
        near = [pair for pair in list_nearest(reading, candidate, place) if {*excluded}.isdisjoint(_ids(pair))]
        pairs += [pair for pair in near if _find_buried(reading, pair)]
    known = find_comparisons(engine, pairs)
    asked = [pair for pair in pairs if not _is_compared(known.get(_ids(pair)))]
    answers, problem = _ask(engine, reader, asked[:limit], read_pair)
    for pair, relation in answers if not dry_run else ():
        write(engine, partial(_hold_back, pair=pair, relation=relation))
    return answers, len(asked) - len(answers), problem


def _split_returned(pair: RecordPair) -> RecordPair:
    """Return the candidate that resembles a deleted memory, and the active memory."""
    older, newer = pair
    return pair if newer.status is Status.ACTIVE else (newer, older)


def _is_surely_same(relation: Relation) -> bool:
    return relation.verdict is Verdict.SAME and relation.probability >= _SURE


def _find_buried(tx: Transaction, pair: RecordPair) -> list[Record]:
    """Return the tombstones of what a candidate resembles, if they hold for a memory that says the same, too.

    They do not if it was there before the deletion, or if a person stated or accepted it since.
    """
    candidate, active = _split_returned(pair)
    lines = tx.read_history(active.id)
    # Somebody made it active again.
    is_accepted = any(one.body["before"].get("status", Status.ACTIVE) != Status.ACTIVE for one in lines)
    if active.provenance.is_persons or is_accepted:
        return []
    stones = (stone for some in tx.tombstones.find(tx, candidate, key_of_deleted(candidate)) for stone in some)
    return [stone for stone in stones if stone.created_at < active.created_at]


def _hold_back(tx: Transaction, pair: RecordPair, relation: Relation) -> None:
    """Store how a candidate and an active memory relate; if they say the same, the memory waits."""
    current = tx.get(_ids(pair))
    # Somebody may have changed or deleted one of them since they were compared.
    if [(one.status, one.text) for one in current] == [(one.status, one.text) for one in pair]:
        # While one of them waits, they are no conflict.
        put_comparison(tx, pair, relation, Origin.MODEL, WAITS if relation.verdict in OPPOSED else "")
        older, newer = current
        stones = _find_buried(tx, (older, newer)) if _is_surely_same(relation) else []
        if stones:
            hold_back_reworded(tx, _split_returned((older, newer))[1], stones)


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


def _merge_records(tx: Transaction, kept: Record, sources: Sequence[Source], origin: Origin) -> None:
    """Merge records into another; nothing happens if one of them has changed since they were compared."""
    records = [kept, *(one for one, _ in sources)]
    current = tx.get([one.id for one in records])
    pairs = zip(current[1:], sources, strict=True) if _are_unchanged(current, records) else ()
    for source, (_, can_quote) in pairs:
        _merge_source(tx, kept.id, source, can_quote)
        for other in current[: current.index(source)]:
            put_comparison(tx, (source, other), _SAME, origin, "merged")


def merge_memories(
    engine: Engine, ids: Sequence[str], into: str, text: str, expected_versions: dict[str, int] | None
) -> Reviewed:
    """Merge memories into one of them, as a person decided.

    `text` is its new wording; without it, the words stay.
    """
    if not engine.may_approve:
        raise ScopeError("only a person may merge memories: use a token with the scope 'approve'")

    def step(tx: Transaction) -> tuple[list[str], Transaction]:
        survivor, *sources = records = [read_memory(tx, id) for id in dict.fromkeys((into, *ids))]
        check_versions(engine, records, expected_versions)
        if not sources:
            raise ValidationError("pass at least two different memories to merge")
        valid = (*FIELDS, MemoryType.HEURISTIC)
        places = [(one.kind, one.agent, one.user, one.project) for one in records]
        if survivor.kind not in valid or len(set(places)) > 1:
            raise ValidationError(
                "only memories of one type, agent, user and project can be merged, of the types: "
                f"{', '.join(map(str, valid))}"
            )
        if gone := [one.id for one in records if one.status not in LIVE]:
            raise ValidationError(f"{', '.join(gone)} is not in use any more; restore it first")
        if survivor.status is not Status.ACTIVE or text:
            fields = {FIELDS.get(survivor.kind, "strategy"): text} if text else {}
            change_memory(tx, survivor, fields, Status.ACTIVE, None, Provenance(Origin.USER))
        can_quote = _never if text else _can_add
        for source in sources:
            kept = _merge_source(tx, into, source, can_quote)
            put_comparison(tx, (source, kept), _SAME, Origin.USER, "merged")
        refuse_second_values(tx, records)
        return [one.id for one in records], tx

    merged, tx = write(engine, step)
    return Reviewed("merge", len(merged), merged, tx.change_id)


def _merge_source(tx: Transaction, survivor: str, source: Record, can_quote: CanQuote) -> Record:
    """Merge a record, or its strategy group, into the survivor; return that as it is then."""
    [kept] = tx.get([survivor])
    if groups := _find_groups(tx, kept, source):
        _merge_groups(tx, *groups, can_quote=can_quote)
    else:
        _absorb(tx, kept, source, can_quote=can_quote)
    return tx.get([survivor])[0]


def _absorb(tx: Transaction, kept: Record, source: Record, *, can_quote: CanQuote) -> None:
    """Add the counts, tags and conversations of a record to another, which takes its place."""
    kept = replace(kept, **_join_wordings(tx.engine, kept, source, can_quote))
    mine, theirs = _list_counts(kept), _list_counts(source)
    # What was merged before and restored since may be in both: it counts once.
    again = {id: mine[id] & theirs[id] for id in mine.keys() & theirs.keys()}
    total = _read_counts(kept.evidence) + _read_counts(source.evidence) - sum(again.values(), Counter())
    last_used = max(filter(None, (kept.evidence.last_used, source.evidence.last_used)), default=None)
    evidence = _to_evidence(total, last_used)
    if kept.kind in LESSONS and kept.links:
        # Their results are those of the strategy group.
        evidence = evidence.with_results_of(kept.evidence)
    joined = {**theirs, **mine, **{id: mine[id] | theirs[id] for id in again}}
    counted = {id: _to_evidence(one).to_json() for id, one in joined.items() if id != kept.id}
    metadata, other = ({**one.body.get("metadata", {})} for one in (kept, source))
    if kept.kind == MemoryType.RULE and not again:
        metadata["sources"] = list(dict.fromkeys((*other.get("sources", ()), *metadata.get("sources", ()))))
        metadata["repeats"] = metadata.get("repeats", 0) + other.get("repeats", 0)
    body = {**kept.body, "counted": counted, "metadata": {**metadata, "merged_from": list(counted)}}
    tags = tuple(dict.fromkeys((*kept.tags, *source.tags)))
    episodes = tuple(dict.fromkeys((*kept.provenance.episodes, *source.provenance.episodes)))
    origin, updated_at = replace(kept.provenance, episodes=episodes), max(kept.updated_at, source.updated_at)
    fresh = tx.update(kept, body=body, evidence=evidence, tags=tags, provenance=origin, updated_at=updated_at)
    tx.add_history(fresh, "merged", f"{source.id} was merged into it")
    why = f"merged into {kept.id}: {_own_words(kept)}"
    tx.supersede(source, fresh, why, verb="merged", updated_at=source.updated_at)


def _list_counts(record: Record) -> dict[str, Counter[Any]]:
    """Return by id what the evidence of a record consists of: its own, and that of each record merged into it."""
    counted = {id: _read_counts(Evidence.from_json(one)) for id, one in record.body.get("counted", {}).items()}
    return {**counted, record.id: _read_counts(record.evidence) - sum(counted.values(), Counter())}


def _read_counts(evidence: Evidence) -> Counter[Any]:
    """Return the counts by their names, and how often each recent result occurs."""
    return Counter({name: getattr(evidence, name) for name in COUNTS}) + Counter(evidence.recent)


def _to_evidence(counts: Counter[Any], last_used: datetime | None = None) -> Evidence:
    recent = sorted(one for one in counts.elements() if one not in COUNTS)[-RECENT:]
    return Evidence(**{name: counts[name] for name in COUNTS}, recent=tuple(recent), last_used=last_used)


def _merge_groups(tx: Transaction, kept: Record, dropped: Record, *, can_quote: CanQuote) -> None:
    """Let the outcomes of a strategy group count for another one, and merge their lessons."""
    for outcome in tx.scan(Where(kinds={MemoryType.OUTCOME}, projects={kept.project}, linked={dropped.id})):
        links = tuple(kept.id if id == dropped.id else id for id in outcome.links)
        tx.update(outcome, links=links, updated_at=outcome.updated_at)
    tx.update(dropped, status=Status.SUPERSEDED, superseded_by=kept.id, evidence=NONE)
    tx.update(kept, **_join_wordings(tx.engine, kept, dropped, _never))
    recount_group(tx, kept.id)
    for kind in LESSONS:
        lessons = tx.get([lesson_id(kept, kind), lesson_id(dropped, kind)])
        live = [one for one in lessons if one.status in LIVE]
        if len(live) == 2:
            _absorb(tx, *live, can_quote=can_quote)
            continue
        for lesson in lessons:
            if lesson.links[:1] == (dropped.id,) and lesson.status is not Status.SUPERSEDED:
                # The results of both together no longer teach it.
                ended = tx.update(lesson, status=Status.SUPERSEDED, superseded_by=lesson_id(kept, kind))
                tx.add_history(ended, "merged", f"into strategy {kept.id}", {"status": str(lesson.status)})
