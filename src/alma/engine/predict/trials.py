"""Which of an agent's outcomes bear on a task, and on a strategy for it.

Never all of them: the nearest by task, whatever the strategy; the nearest of the strategy itself; and the newest,
for how things go at present. Any number of outcomes may be stored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache

from ...reading.port import Pair
from ...text import fingerprint, passages, stems, words
from ...types.kinds import MemoryType, Result
from ...types.query import Where, visible_users
from ...types.record import Origin, Record, Status
from ...types.vector import Vector, cosine
from ..context import Engine
from ..outcomes import contrary, lesson_id, same_task
from ..search import by_meaning, has_vectors, neighbours
from .forecast import SIMILAR, Trial, forecast

_NEAR, _NEWEST, _OWN, _GROUPS, _PARAPHRASES = 96, 32, 32, 16, 8
_FEW = 8
"""Fewer of the strategy's own outcomes than this among the nearest and newest, and more are looked for."""
_RESULTS = 16
_SPAN = 12
_MAX_VECTORS, _BEGINNING = 4, 600
"""A longer task, and a longer strategy, is known by its beginning."""
_KINSHIP = 8
_CONTRARY_FROM = 0.65
"""From here on tasks would count as alike, and it is worth asking whether they are contrary."""
_RELATED = 0.7
"""From here on it is worth asking whether one strategy is the opposite of the other."""
_NEGATIONS = frozenset("not no never without don doesn avoid skip".split())
_DAY = 86_400.0
_STATED_VALUES = {MemoryType.HEURISTIC: 1.0, MemoryType.ANTI_PATTERN: 0.0}


@dataclass(slots=True)
class TaskContext:
    """What is known about a task before any strategy is considered."""

    engine: Engine
    agent: str
    task: str
    vectors: tuple[Vector, ...]
    now: datetime
    before: datetime | None
    """Only what was known before this moment; None: everything."""
    is_careful: bool = True
    """Whether a task that reads alike may turn out to be contrary."""
    user: str | None = None
    """Whose outcomes and lessons count beside those of nobody in particular."""
    outcomes: dict[str, Record] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    """By id, where it is known: the cosine of whichever of a record's vectors is closest."""
    _likeness: dict[str, float] = field(default_factory=dict)
    """By task."""
    _strategy_cosines: dict[str, float] = field(default_factory=dict)
    """How near the words of the task at hand come to a strategy."""
    _strategy_vectors: dict[str, Vector | None] = field(default_factory=dict)

    def embed_strategies(self, strategies: Sequence[str]) -> list[Vector | None]:
        """Return the vectors of strategies, by their beginnings: all in one pass of the embedder."""
        new = [one for one in dict.fromkeys(strategies) if one not in self._strategy_vectors]
        # Where nothing was embedded yet there is nothing to compare with.
        vectors = self.engine.encode([(one[:_BEGINNING],) for one in new]) if self.vectors else [()] * len(new)
        self._strategy_vectors |= {one: next(iter(some), None) for one, some in zip(new, vectors, strict=True)}
        return [self._strategy_vectors[one] for one in strategies]

    def where(self, kind: str) -> Where:
        return Where(
            kinds={kind},
            projects={self.engine.project},
            agents={self.agent},
            users=visible_users(self.user),
            statuses={Status.ACTIVE},
            created_to=self.before if kind == MemoryType.OUTCOME else None,
        )

    def find_near(self, where: Where, limit: int) -> list[Record]:
        if not self.vectors:
            return neighbours(self.engine, None, self.task, where, limit)
        hits = by_meaning(self.engine, self.vectors[:1], where, limit)
        self.scores |= {hit.id: hit.score for hit in hits}
        return self.engine.store.get([hit.id for hit in hits])

    def compare_task(self, record: Record, task: str) -> float:
        """Return how like the task of an outcome, a group or a lesson is to the one at hand: 1 for the same task.

        A contrary task is 0, however near it reads.
        """
        if task not in self._likeness:
            closest = self._find_cosine(record, task)
            if task == self.task or key_of(task) == key_of(self.task):
                likeness = 1.0
            elif closest is None:
                mine, theirs = stems(self.task), stems(task)
                likeness = 2.0 * len(mine & theirs) / max(1, len(mine) + len(theirs))
            elif self.is_careful and closest >= _CONTRARY_FROM and not same_task(self.task, task, closest):
                likeness = 0.0
            else:
                likeness = closest
            self._likeness[task] = likeness
        return self._likeness[task]

    def _find_cosine(self, record: Record, task: str) -> float | None:
        """Return how near a record's task comes to the one at hand; None where there is nothing to compare."""
        is_outcome = record.kind == MemoryType.OUTCOME
        # A group, and a lesson formed from it, has the strategy's vector, then the task's; an outcome has it last.
        strategy_vectors = record.vectors[-1:] if is_outcome else record.vectors[:1]
        score = self.scores.get(record.id)
        if score is not None and len(self.vectors) == 1:
            strategy = strategy_of(record)
            if strategy not in self._strategy_cosines:
                self._strategy_cosines[strategy] = _find_closest(self.vectors, strategy_vectors) or 0.0
            # The store has compared it already; that counts if it was not the strategy that came so near.
            if score > self._strategy_cosines[strategy]:
                return score
        encoder = self.engine.encoder
        if encoder is None or record.embedder != encoder.name:
            return None
        pieces = len(passages(task, encoder.embedder.passage_chars)) if is_outcome else 0
        return _find_closest(self.vectors, record.vectors[:pieces] if is_outcome else record.vectors[1:2])


def _find_closest(vectors: Iterable[Vector], others: Sequence[Vector]) -> float | None:
    """Return the greatest cosine of any two that can be compared."""
    cosines = [cosine(one, other) for one in vectors for other in others if len(one) == len(other)]
    return max(cosines, default=None)


@lru_cache(maxsize=4096)
def key_of(text: str) -> str:
    """Return the same for texts that differ in case and spaces only."""
    return fingerprint(text)


def strategy_of(record: Record) -> str:
    """Return the strategy of an outcome, a group, a heuristic or a warning."""
    return str(record.body.get("strategy") or record.body.get("pattern"))


def read_task(
    engine: Engine, agent: str, task: str, before: datetime | None = None, user: str | None = None
) -> TaskContext:
    """Return what is known about a task for a user; `before` asks what was known at that moment."""
    vectors: tuple[Vector, ...] = ()
    if engine.encoder is not None and has_vectors(engine):
        [vectors] = engine.encode([(task[: _MAX_VECTORS * engine.encoder.embedder.passage_chars],)])
    context = TaskContext(engine, agent, task, vectors[:_MAX_VECTORS], before or engine.clock(), before, user=user)
    where = context.where(MemoryType.OUTCOME)
    newest = list(engine.store.scan(where, _NEWEST))
    near = context.find_near(where, _NEAR)
    is_full = len(near) == _NEAR and all(_compare_outcome(context, one) >= SIMILAR for one in near[-8:])
    if vectors and is_full:
        # There may be more such tasks than were asked for; then the nearest are any of them, and may be old. So those
        # of several times as far back as the newest outcomes reach are looked for, too.
        first, last = newest[-1].created_at, newest[0].created_at
        near += context.find_near(replace(where, created_from=last - _SPAN * (last - first)), _NEAR)
    context.outcomes = {record.id: record for record in (*newest, *near)}
    return context


@dataclass(frozen=True, slots=True)
class Survey:
    """What is known of a strategy for a task."""

    trials: tuple[Trial, ...]
    """The outcomes that bear on its chance, and what people said about it."""
    tried: int
    worked: float
    """How often, on any task like those nearest to this one; half for what went half well."""
    lessons: tuple[Record, ...]
    """The heuristics and warnings about it, those for the most similar tasks first."""


def survey_strategy(context: TaskContext, strategy: str) -> Survey:
    groups = _find_groups(context, strategy)
    names = {group.id for group in groups}
    outcomes = context.outcomes
    kinship = _Kinship(context, strategy)
    trials = [kinship.make_trial(record, names) for record in outcomes.values()]
    if names and sum(trial.own for trial in trials) < _FEW:
        more = {record.id: record for record in _find_own_outcomes(context, names) if record.id not in outcomes}
        trials += [kinship.make_trial(record, names) for record in more.values()]
        outcomes = outcomes | more
    lessons = _find_lessons(context, groups)
    if context.before is None:
        # Of what a group has counted it cannot be told for sure what came before a moment. Of a task that was done a
        # thousand times the nearest outcomes are any of them; its group knows the latest.
        known = group_results(outcomes.values())
        owners = {name: lesson.id for lesson in lessons for name in lesson.links}
        for group in groups:
            trials += list_results(context, group, group.body["task"], known, owners.get(group.id, ""))
    for lesson in lessons:
        if lesson.provenance.origin is Origin.USER:
            # A person's word about the strategy: as good as a few trials until there are some.
            trials.append(
                Trial(
                    id=lesson.id,
                    strategy=strategy_of(lesson),
                    task=lesson.body["condition"],
                    value=_STATED_VALUES[MemoryType(lesson.kind)],
                    days=max(0.0, (context.now - lesson.updated_at).total_seconds() / _DAY),
                    alike=_compare_lesson(context, lesson),
                    own=True,
                    kin=1.0,
                    said=True,
                )
            )
    return Survey(
        trials=tuple(trials),
        tried=sum(group.evidence.results for group in groups),
        worked=sum(group.evidence.successes + 0.5 * group.evidence.partials for group in groups),
        lessons=tuple(lessons),
    )


def _find_groups(context: TaskContext, strategy: str) -> list[Record]:
    """Return the groups that the strategy's outcomes are counted in, in whatever words.

    If they are many, those of the nearest outcomes come first.
    """
    store, key = context.engine.store, key_of(strategy)
    where = context.where("strategy")
    exact = {group.id: group for group in store.scan(replace(where, keys={key}), _GROUPS + 1)}
    if len(exact) > _GROUPS:
        own = [record for record in context.outcomes.values() if key_of(record.body["strategy"]) == key]
        own.sort(key=lambda record: -_compare_outcome(context, record))
        names = list(dict.fromkeys(name for record in own for name in record.links))[:_GROUPS]
        missing = [name for name in names if name not in exact]
        exact |= {group.id: group for group in (store.get(missing) if missing else ())}
        exact = {name: exact[name] for name in dict.fromkeys((*names, *exact)) if name in exact}
    if exact:
        return list(exact.values())[:_GROUPS]
    [vector] = context.embed_strategies([strategy])
    similar = neighbours(context.engine, vector, strategy, where, _PARAPHRASES)
    relations = context.engine.reader.compare([Pair(group.body["strategy"], strategy) for group in similar])
    return [group for group, relation in zip(similar, relations, strict=True) if relation.is_same]


def _find_own_outcomes(context: TaskContext, groups: set[str]) -> list[Record]:
    where = replace(context.where(MemoryType.OUTCOME), linked=groups)
    if context.before is None:
        # The groups have counted the rest; these tell which they were and how they failed.
        return list(context.engine.store.scan(where, _FEW))
    # Words cannot be looked for among the linked only, without looking for them everywhere.
    return context.find_near(where, _OWN) if context.vectors else list(context.engine.store.scan(where, _OWN))


def _find_lessons(context: TaskContext, groups: Sequence[Record]) -> list[Record]:
    names = [lesson_id(group, kind) for group in groups for kind in _STATED_VALUES]
    lessons = [
        record
        for record in (context.engine.store.get(names) if names else ())
        if record.status is Status.ACTIVE and (context.before is None or record.created_at < context.before)
    ]
    return sorted(lessons, key=lambda record: -_compare_lesson(context, record))


def _compare_lesson(context: TaskContext, lesson: Record) -> float:
    """Return how like the tasks that a lesson is about are to this one; without a condition it is about all."""
    condition = lesson.body["condition"]
    return context.compare_task(lesson, condition) if condition else 1.0


def _compare_outcome(context: TaskContext, outcome: Record) -> float:
    return context.compare_task(outcome, outcome.body["task"])


# --- trials ----------------------------------------------------------------------------------------


def make_trial(context: TaskContext, record: Record, *, is_own: bool, kin: float) -> Trial:
    """Return an outcome, seen from the task at hand."""
    body = record.body
    return Trial(
        id=record.id,
        strategy=body["strategy"],
        task=body["task"],
        value=Result(body["outcome"]).value_of,
        days=max(0.0, (context.now - record.created_at).total_seconds() / _DAY),
        alike=_compare_outcome(context, record),
        own=is_own,
        kin=kin,
        error=body["error"] or "",
    )


class _Kinship:
    """How like the strategies of outcomes are to the one at hand; what is worked out for one serves all its outcomes.

    Without a vector only the strategy itself is known, and no kin.
    """

    def __init__(self, context: TaskContext, strategy: str) -> None:
        self._context = context
        self._strategy = strategy
        [self._vector] = context.embed_strategies([strategy])
        self._kin: dict[str, float] = {}

    def make_trial(self, record: Record, groups: Collection[str]) -> Trial:
        strategy = record.body["strategy"]
        if strategy not in self._kin:
            self._kin[strategy] = self._measure(strategy, record)
        kin = self._kin[strategy]
        is_own = kin >= 1.0 or any(link in groups for link in record.links)
        return make_trial(self._context, record, is_own=is_own, kin=kin)

    def _measure(self, strategy: str, record: Record) -> float:
        if key_of(strategy) == key_of(self._strategy):
            return 1.0
        is_comparable = self._vector is not None and record.embedder == self._context.engine.embedder_name
        alike = (_find_closest([self._vector or b""], record.vectors[-1:]) if is_comparable else None) or 0.0
        if alike >= _RELATED:
            is_negated, is_other_negated = (not _NEGATIONS.isdisjoint(words(one)) for one in (strategy, self._strategy))
            if is_negated != is_other_negated or contrary(strategy, self._strategy):
                return 0.0
        return float(min(0.99, max(0.0, alike) ** _KINSHIP))


KnownResults = Mapping[str, Sequence[tuple[float, float]]]
"""By group the results of the outcomes at hand, newest first: (moment, value)."""


def group_results(outcomes: Iterable[Record]) -> KnownResults:
    groups: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for record in outcomes:
        for group in record.links:
            groups[group].append((record.created_at.timestamp(), Result(record.body["outcome"]).value_of))
    return {group: sorted(results, reverse=True) for group, results in groups.items()}


def list_results(context: TaskContext, record: Record, task: str, known: KnownResults, source: str) -> Iterator[Trial]:
    """Yield the last results of a group, or of the lesson formed from it, that are not known, as trials of `source`."""
    alike = context.compare_task(record, task) if task else 1.0
    group = record.id if record.kind == "strategy" else next(iter(record.links), "")
    left = list(record.evidence.recent[-_RESULTS:])
    for moment, value in known.get(group, ()):
        # A result is counted just before its outcome is written, so each outcome takes the newest that is not after it.
        for place in range(len(left) - 1, -1, -1):
            if left[place][0] <= moment and left[place][1] == value:
                del left[place]
                break
    for at, value in left:
        days = max(0.0, (context.now.timestamp() - at) / _DAY)
        yield Trial(source, strategy_of(record), task, value, days, alike, own=True, kin=1.0)


# --- the success factor of the ranking -------------------------------------------------------------


def forecast_lessons(
    engine: Engine,
    task: str,
    vectors: Sequence[Vector],
    candidates: Sequence[tuple[Record, float | None]],
    now: datetime,
) -> dict[str, float]:
    """Return by id, for the heuristics and warnings among the candidates that have any result: the chance that what
    they recommend will succeed at the task, and that what they warn of will fail.

    Each record comes with the cosine of whichever of its vectors is closest to the task. It reads nothing and embeds
    nothing: the outcomes are those that were found for the task anyway, and a lesson carries the last results of its
    strategy with it.
    """
    context = TaskContext(engine, "", task, tuple(vectors), now, None, is_careful=False)
    context.scores = {record.id: cosine for record, cosine in candidates if cosine is not None}
    outcomes = [record for record, _ in candidates if record.kind == MemoryType.OUTCOME]
    known = group_results(outcomes)
    # Each outcome as a trial of the strategy at hand, and as one of another: the two serve every lesson.
    pairs = [
        (
            record,
            make_trial(context, record, is_own=True, kin=1.0),
            make_trial(context, record, is_own=False, kin=0.0),
        )
        for record in outcomes
    ]
    chances = {}
    for lesson, _ in candidates:
        if lesson.kind in _STATED_VALUES and lesson.evidence.recent:
            key, groups = key_of(strategy_of(lesson)), set(lesson.links)
            trials = [
                own if key_of(strategy_of(record)) == key or not groups.isdisjoint(record.links) else other
                for record, own, other in pairs
            ]
            trials += list_results(context, lesson, lesson.body["condition"], known, lesson.id)
            mean = forecast(trials).mean
            chances[lesson.id] = 1.0 - mean if lesson.kind == MemoryType.ANTI_PATTERN else mean
    return chances
