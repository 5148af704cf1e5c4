"""Which strategy to advise first: a strategy is as near to a task as the tasks that it was used for.

A strategy's examples are its stored outcomes. The nearest of them are found for the task anyway; the others count by
the first task of their strategy group, which is stored with its number of results. So nothing is stored for this, and
an outcome that is erased leaves nothing behind. How near a strategy is, is the mean of its nearest example and of the
centroid of all its examples.

Lessons and outcomes of one strategy have one place in the order. What worked before and then failed loses its place at
once: its earlier successes count for little, and for what worked instead on the same task. Where results turn, older
results of other strategies lose a little, too.

A lesson or outcome is about a task if its nearest example is. Where nearness does not tell and the embedder reads pairs
of texts, it reads the task together with the nearest example of a strategy: tasks that share words can ask for
different actions.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache, partial
from operator import mul
from typing import Any, NamedTuple

from ...ports import PairScores
from ...text import fingerprint, stems
from ...types.kinds import KINDS, MemoryType, Result, Similar
from ...types.record import Record, Status, Vector, norm, unit
from ..outcomes import list_similar
from ..transaction import LESSONS, strategy_of
from .rank import Advice, Candidate, PairBudget, is_stated, measure_nearness, rate_nearness
from .request import RetrievalContext

EXAMPLES = 24
"""How many of the nearest outcomes are looked at."""
_MAX_GROUPS = 96
_ADVISED = (*LESSONS, MemoryType.OUTCOME)
_BEST_SHARE = 0.4  # What the nearest example counts; the centroid of all has the rest.
# What a strategy keeps of its successes for each failure since, and what others keep for each such failure.
_TURNED, _UNSETTLED = 0.1, 0.95
_TURN_NEARNESS = 0.2  # A failure on a task less near than this turns nothing here.
_INHERITED = 0.7  # What the successes of a strategy that failed count for the one that worked instead.
_LOG_WEIGHT, _LEAST_TRUST = 0.1, 1e-3  # How much the logarithm of a share weighs against nearness.
_FIRST = 4  # So many strategies are looked at closely.
_MOST_READ, _READ_CHARS = 2, 400  # So many examples are read together with the task.
# How near an example is that need not be read, that need not be read unless it shares words with the task, and that is
# not worth reading.
_SURELY_NEAR, _NEAR, _LEAST_NEAR = 0.72, 0.3, 0.22
# What is less near than this share of the first is left out: where several are about as near, and elsewhere.
_SHARE_OF_FIRST, _SHARE_OF_NEAREST = 0.5, 0.7
# How much topic and nearness weigh beside relevance, and from where on an example is about the task: set on the
# development half of tests/data/reworded_tasks.jsonl.
_TOPIC_WEIGHT, _NEAR_WEIGHT, _ABOUT = 0.4, 6.0, 3.2
_CROWD, _ABOUT_AS_NEAR = 3, 0.6

_fingerprint = lru_cache(maxsize=4096)(fingerprint)


class Example(NamedTuple):
    """A task that a strategy worked for, or the first task of a group, which stands for several."""

    vector: Vector | None
    near: float | None  # How near it is to the task at hand; None: it only counts for the centroid.
    weight: float  # How many successes it stands for.
    trust: float = 1.0  # What is left of its weight after what happened since.


@dataclass(slots=True)
class AdvisedStrategy:
    """One strategy, with what is known of it for the task at hand."""

    key: str
    lessons: list[Candidate] = field(default_factory=list)
    outcomes: list[Candidate] = field(default_factory=list)  # Oldest first.
    groups: list[Record] = field(default_factory=list)
    inherited: list[Candidate] = field(default_factory=list)  # What worked for strategies that it took over from.
    similar: list[Record] = field(default_factory=list)  # Groups that may be the same strategy in other words.
    value: float = 0.0
    is_about: bool | None = None  # Whether its nearest example is about the task; None: it was not read.

    def find_nearest(self) -> Candidate:
        """Return the candidate that is nearest to the task."""
        return max((*self.outcomes, *self.lessons), key=measure_nearness)


# --- what is looked at -----------------------------------------------------------------------------


def find_lessons(context: RetrievalContext, records: Iterable[Record]) -> dict[str, Record]:
    """Return by id the lessons of the strategy groups of outcomes, as far as they may be shown."""
    groups = {record.links[0] for record in records if record.kind == MemoryType.OUTCOME and record.links}
    wheres = {kind: context.where(kind) for kind in LESSONS if kind in context.types}
    ids = [f"{KINDS[kind].prefix}_{group.partition('_')[2]}" for group in groups for kind in wheres]
    lessons = context.engine.store.get(ids) if ids else []
    return {lesson.id: lesson for lesson in lessons if wheres[MemoryType(lesson.kind)].accepts(lesson)}


def find_groups(context: RetrievalContext, records: Iterable[Record]) -> list[Record]:
    """Return the strategy groups of lessons and outcomes, and those of the same strategies for other tasks."""
    advised = [record for record in records if record.kind in _ADVISED]
    request = context.request
    if not advised or request.tags or request.since or request.until or request.fields:
        # What a group has counted cannot be filtered.
        return []
    readable = context.where(MemoryType.OUTCOME)
    where = context.engine.where("strategy", agents=readable.agents, users=readable.users, statuses={Status.ACTIVE})
    keys = {_fingerprint(strategy_of(record.body)) for record in advised}
    groups = {group.id: group for group in context.engine.store.scan(replace(where, keys=keys), _MAX_GROUPS)}
    # Those of strategies that were merged have other words.
    others = {record.links[0] for record in advised if record.links}
    others = (others | {id for group in groups.values() for id in list_similar(group)}) - groups.keys()
    more = context.engine.store.get(list(others)) if others else []
    return [*groups.values(), *(group for group in more if where.accepts(group))]


def gather_strategies(pool: Sequence[Candidate], groups: Sequence[Record]) -> list[AdvisedStrategy]:
    """Return the strategies of the lessons and outcomes among the candidates."""
    keys = {group.id: group.key for group in groups}
    strategies: dict[str, AdvisedStrategy] = {}

    def find_strategy(record: Record) -> AdvisedStrategy:
        own = keys.get(record.links[0], "") if record.links else ""
        key = own or _fingerprint(strategy_of(record.body))
        return strategies.setdefault(key, AdvisedStrategy(key))

    for candidate in sorted(pool, key=lambda candidate: (candidate.record.created_at, candidate.record.id)):
        if candidate.record.kind == MemoryType.OUTCOME:
            find_strategy(candidate.record).outcomes.append(candidate)
        elif candidate.record.kind in LESSONS and not is_stated(candidate.record):
            find_strategy(candidate.record).lessons.append(candidate)
    by_id = {group.id: group for group in groups}
    for group in groups:
        if group.key in strategies:
            strategy = strategies[group.key]
            strategy.groups.append(group)
            others = [by_id[id] for id in list_similar(group) if id in by_id]
            strategy.similar += [other for other in others if other.key != group.key and other not in strategy.similar]
    return list(strategies.values())


# --- how near a strategy is ------------------------------------------------------------------------


def measure_strategies(context: RetrievalContext, strategies: Sequence[AdvisedStrategy]) -> None:
    """Set how near each strategy is to the task, after what happened to it lately."""
    failures = {strategy.key: _list_late_failures(strategy) for strategy in strategies}
    turns = sorted(failure.record.created_at for late in failures.values() for failure in late)
    _pass_on(strategies, failures)
    examples = [_list_examples(strategy, len(failures[strategy.key]), turns) for strategy in strategies]
    centroids = measure_centroids(context.vectors, examples)
    for strategy, own, centroid in zip(strategies, examples, centroids, strict=True):
        near = [one for one in own if one.near is not None]
        if not near:
            # It never worked, or its outcomes were put away.
            strategy.value = measure_nearness(strategy.find_nearest())
            continue
        best = max((one.near or 0.0) + _weigh_trust(one.trust) for one in near)
        trust = sum(one.trust for one in near) / len(near)
        middle = max(one.near or 0.0 for one in near) if centroid is None else centroid
        strategy.value = _BEST_SHARE * best + (1.0 - _BEST_SHARE) * (middle + _weigh_trust(trust))


def _weigh_trust(trust: float) -> float:
    return _LOG_WEIGHT * math.log(max(trust, _LEAST_TRUST))


def _value_of(candidate: Candidate) -> float:
    return Result(candidate.record.body["outcome"]).value_of


def _list_late_failures(strategy: AdvisedStrategy) -> list[Candidate]:
    """Return the failures on such tasks since a strategy worked last; none if it never worked."""
    late: list[Candidate] = []
    for candidate in reversed(strategy.outcomes):
        if _value_of(candidate):
            return late
        if measure_nearness(candidate) >= _TURN_NEARNESS:
            late.append(candidate)
    return []


def _pass_on(strategies: Sequence[AdvisedStrategy], failures: Mapping[str, Sequence[Candidate]]) -> None:
    """Let what worked for a strategy count for the one that worked instead, on the task on which it failed."""
    worked: dict[str, list[tuple[Candidate, AdvisedStrategy]]] = defaultdict(list)
    for strategy in strategies:
        for candidate in strategy.outcomes:
            if _value_of(candidate):
                worked[candidate.record.body["task"]].append((candidate, strategy))
    for strategy in strategies:
        for failure in sorted(failures[strategy.key], key=measure_nearness, reverse=True):
            tried = worked[failure.record.body["task"]]
            instead = [other for candidate, other in tried if candidate.record.created_at > failure.record.created_at]
            if instead:
                instead[0].inherited += [candidate for candidate in strategy.outcomes if _value_of(candidate)]
                break


def _make_example(candidate: Candidate, trust: float) -> Example:
    vector = next(iter(candidate.record.vectors), None)
    return Example(vector, measure_nearness(candidate), _value_of(candidate), trust)


def _list_examples(strategy: AdvisedStrategy, late: int, turns: Sequence[datetime]) -> list[Example]:
    """Return the tasks that a strategy worked for; what was not looked at counts by the first task of its group."""
    examples = [_make_example(candidate, _INHERITED) for candidate in strategy.inherited]
    found: defaultdict[str, float] = defaultdict(float)
    kept = _TURNED**late
    for candidate in strategy.outcomes:
        record = candidate.record
        if value := _value_of(candidate):
            since = len(turns) - bisect_right(turns, record.created_at)
            examples.append(_make_example(candidate, kept * _UNSETTLED**since))
            found[next(iter(record.links), "")] += value
    for group in strategy.groups:
        left = group.evidence.successes + 0.5 * group.evidence.partials - found[group.id]
        if left > 0.0 and len(group.vectors) >= 2:
            examples.append(Example(group.vectors[1], None, left, kept))
    return examples


def measure_centroids(vectors: Sequence[Vector], examples: Sequence[Sequence[Example]]) -> list[float | None]:
    """Return for each list of examples the cosine of their centroid to the nearest of the vectors; None without any."""
    size = len(vectors[0]) if vectors else 0
    rows: list[list[tuple[Vector, float]]] = []
    for some in examples:
        fitting = [(one.vector, one.weight * one.trust) for one in some if one.vector and len(one.vector) == size]
        rows.append(fitting)
    numpy = sys.modules.get("numpy")
    measure = _measure_centroid if numpy is None else partial(_measure_array_centroid, numpy)
    return [measure(vectors, row) if row else None for row in rows]


def _measure_centroid(vectors: Sequence[Vector], row: Sequence[tuple[Vector, float]]) -> float:
    sums = [0.0] * len(vectors[0])
    for vector, weight in row:
        sums = [total + weight * value for total, value in zip(sums, unit(vector), strict=True)]
    length = math.sqrt(sum(value * value for value in sums)) or 1.0
    dots: list[float] = [sum(map(mul, unit(vector), sums)) for vector in vectors]
    return max(dots) / length


def _measure_array_centroid(numpy: Any, vectors: Sequence[Vector], row: Sequence[tuple[Vector, float]]) -> float:
    centroid = numpy.zeros(len(vectors[0]))
    for vector, weight in row:
        centroid += numpy.frombuffer(vector, numpy.int8) * (weight / (norm(vector) or 1.0))
    length = float(numpy.linalg.norm(centroid)) or 1.0
    dots = [float(numpy.frombuffer(vector, numpy.int8) @ centroid) / (norm(vector) or 1.0) for vector in vectors]
    return float(max(dots)) / length


# --- whether it is about the task ------------------------------------------------------------------


def read_examples(context: RetrievalContext, strategies: Sequence[AdvisedStrategy], budget: PairBudget) -> None:
    """Set which strategies were used for such tasks, where the embedder reads pairs of texts.

    Where several strategies are about as near, nearness tells. Elsewhere the nearest examples are read together with
    the task; what was not read has to pass the gate for lessons.
    """
    known = [strategy for strategy in strategies if strategy.find_nearest().is_known]
    if context.engine.calibration is None or len(context.question.text) > _READ_CHARS or not known:
        return
    ranked = sorted(known, key=lambda strategy: -strategy.value)
    if _is_crowded(ranked):
        _keep_near(ranked, _LEAST_NEAR + context.mode.strictness)
    else:
        _keep_about(ranked, ExampleReader(context, budget))


def _is_crowded(ranked: Sequence[AdvisedStrategy]) -> bool:
    """Return whether several strategies are about as near: then the store knows this sort of task, and nearness tells.

    A single strategy that is near, and no other, may be near for what it is done to, not for what is done.
    """
    return len(ranked) > _CROWD and ranked[_CROWD].value >= _ABOUT_AS_NEAR * ranked[0].value


def _keep_near(ranked: Sequence[AdvisedStrategy], floor: float) -> None:
    """Keep the first strategies, and what is not much less near."""
    first: list[AdvisedStrategy] = []
    for strategy in ranked[:_FIRST]:
        nearness = max(_list_nearest_tasks(strategy).values(), default=0.0)
        if nearness >= floor:
            first.append(strategy)
    least = _SHARE_OF_FIRST * max((strategy.value for strategy in first), default=math.inf)
    for strategy in first:
        strategy.is_about = True
    for strategy in ranked if first else ():
        strategy.is_about = strategy.is_about or strategy.value >= least


def _keep_about(ranked: Sequence[AdvisedStrategy], reader: ExampleReader) -> None:
    """Keep the strategies that have an example about the task, unless another one is much nearer."""
    least = 0.0
    for strategy in ranked:
        examples = _list_nearest_tasks(strategy)
        near = max(examples.values(), default=0.0)
        strategy.is_about = False if near < least else reader.judge(examples)
        if strategy.is_about:
            least = max(least, _SHARE_OF_NEAREST * near)


def _list_nearest_tasks(strategy: AdvisedStrategy) -> dict[str, float]:
    """Return the tasks that a strategy was used for, or took over, with how near they are, the nearest first."""
    nearest = sorted((*strategy.outcomes, *strategy.lessons, *strategy.inherited), key=measure_nearness, reverse=True)
    examples: dict[str, float] = {}
    for candidate in nearest:
        task = str(candidate.record.body.get("condition") or candidate.record.body.get("task") or "")
        examples.setdefault(task, candidate.cosine or 0.0)
    return examples


class ExampleReader:
    """Tells whether examples are about a task; reads those together with it for which nearness does not decide."""

    def __init__(self, context: RetrievalContext, budget: PairBudget) -> None:
        self.engine = context.engine
        self.task = context.question.text
        self.strictness = context.mode.strictness
        self.budget = budget
        self.verdicts: dict[str, bool | None] = {}

    def judge(self, examples: Mapping[str, float]) -> bool | None:
        """Return whether one of the nearest examples is about the task; each has how near it is, the nearest first.

        None where nearness does not tell and nothing was read.
        """
        verdict: bool | None = False
        for number, (example, near) in enumerate(list(examples.items())[:_MOST_READ]):
            is_about = self._judge_example(example, near - self.strictness)
            if is_about:
                return True
            if number == 0:
                verdict = is_about
        return verdict

    def _judge_example(self, example: str, near: float) -> bool | None:
        if not _LEAST_NEAR <= near < _SURELY_NEAR:
            return near >= _SURELY_NEAR
        asked, known = stems(self.task), stems(example)
        # It is near for what it means: another action on the same thing shares the name of the thing.
        is_reworded = asked.isdisjoint(known)
        # One of them says all that the other says, and more of it: "Write a headline", "… about trains".
        is_part = asked <= known or known <= asked
        if near >= _NEAR and (is_reworded or is_part):
            return True
        can_read = 0 < len(example) <= _READ_CHARS and len(self.verdicts) < _MOST_READ and self.budget.has_time
        if example not in self.verdicts and can_read:
            self.verdicts[example] = self._read(example, near)
        return self.verdicts.get(example)

    def _read(self, example: str, near: float) -> bool | None:
        """Return whether an example is about the task, read in either order; None if there is no time to read."""
        verdict: bool | None = None
        for pair in ((self.task, example), (example, self.task)):
            for scores in self.budget.read(self.engine, [pair]):
                verdict = _is_about(scores, near)
            if verdict:
                break
        return verdict


def _is_about(scores: PairScores, near: float) -> bool:
    """Return whether an example that was read is about the task."""
    alike = _TOPIC_WEIGHT * scores.fact.topic_log_odds + _NEAR_WEIGHT * near
    return scores.relevance + alike >= _ABOUT


# --- advice ----------------------------------------------------------------------------------------


def advise(
    context: RetrievalContext, pool: Sequence[Candidate], groups: Sequence[Record], budget: PairBudget
) -> list[Candidate]:
    """Return the candidates, those that are lessons or outcomes with what their strategy is worth for the task."""
    strategies = gather_strategies(pool, groups)
    if not strategies:
        return list(pool)
    measure_strategies(context, strategies)
    read_examples(context, strategies, budget)
    advice: dict[str, Advice] = {}
    similarities = rate_nearness([strategy.value for strategy in strategies])
    for strategy, similarity in zip(strategies, similarities, strict=True):
        own = Advice(strategy.key, strategy.value, similarity, strategy.is_about, tuple(strategy.similar))
        for candidate in (*strategy.lessons, *strategy.outcomes):
            advice[candidate.record.id] = own
    return [candidate._replace(advice=advice.get(candidate.record.id)) for candidate in pool]


def list_counted(groups: Sequence[Record]) -> tuple[Similar, ...]:
    """Return the strategies of groups with what was counted of each."""
    counted = [(group.body["strategy"], group.evidence) for group in groups if group.evidence.results]
    return tuple(Similar(strategy, results.successes, results.results) for strategy, results in counted)
