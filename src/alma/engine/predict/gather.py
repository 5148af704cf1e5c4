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
from ..search import by_meaning, neighbours
from ..transaction import marker, mismatch
from .trial import Trial
from .turn import SIMILAR

_NEAR, _NEWEST, _OWN, _GROUPS, _PARAPHRASES = 96, 32, 32, 16, 8
_FEW = 8
"""Fewer of the strategy's own outcomes than this among the nearest and newest, and more are looked for."""
_RESULTS = 16
_SPAN = 12
_MOST_VECTORS, _BEGINNING = 4, 600
"""A longer task, and a longer strategy, is known by its beginning."""
_KINSHIP = 8
_TELLING = 0.65
"""From here on tasks would count as alike, and it is worth asking whether they are contrary."""
_RELATED = 0.7
"""From here on it is worth asking whether one strategy is the opposite of the other."""
_NEGATIONS = frozenset("not no never without don doesn avoid skip".split())
_DAY = 86_400.0


@dataclass(slots=True)
class Ground:
    """What is known about a task before any strategy is considered."""

    engine: Engine
    agent: str
    task: str
    vectors: tuple[Vector, ...]
    now: datetime
    before: datetime | None
    """Only what was known before this moment; None: everything."""
    judging: bool = True
    """Whether a task that reads alike may turn out to be contrary."""
    user: str | None = None
    """Whose outcomes and lessons count beside those of nobody in particular."""
    outcomes: dict[str, Record] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    """By id, where it is known: the cosine of whichever of a record's vectors is closest."""
    _alike: dict[str, float] = field(default_factory=dict)
    _spoken: dict[str, float] = field(default_factory=dict)
    _meant: dict[str, Vector | None] = field(default_factory=dict)

    def meanings(self, strategies: Sequence[str]) -> list[Vector | None]:
        """The vectors of strategies, by their beginnings: all in one pass of the embedder."""
        new = [one for one in dict.fromkeys(strategies) if one not in self._meant]
        # Where nothing was embedded yet there is nothing to compare with.
        made = self.engine.encode([(one[:_BEGINNING],) for one in new]) if self.vectors else [()] * len(new)
        self._meant |= {one: next(iter(vectors), None) for one, vectors in zip(new, made, strict=True)}
        return [self._meant[one] for one in strategies]

    def where(self, kind: str) -> Where:
        return Where(
            kinds={kind},
            projects={self.engine.project},
            agents={self.agent},
            users=visible_users(self.user),
            statuses={Status.ACTIVE},
            created_to=self.before if kind == MemoryType.OUTCOME else None,
        )

    def alike(self, held: Record, task: str) -> float:
        """How like the task of a group, or of the lesson formed from it, is to the one at hand."""
        if task not in self._alike:
            # It has two vectors: the strategy's, then the task's.
            closest = self._known(held, held.vectors[:1])
            if closest is None and held.embedder == self.engine.embedder_name:
                closest = _closest(self, held.vectors[1:2])
            self._alike[task] = _alike(self, task, closest)
        return self._alike[task]

    def likes(self, outcome: Record) -> float:
        """How like an outcome's task is to the one at hand."""
        task = outcome.body["task"]
        if task not in self._alike:
            closest = self._known(outcome, outcome.vectors[-1:])
            if closest is None:
                closest = _closest(self, _task_vectors(self, outcome))
            self._alike[task] = _alike(self, task, closest)
        return self._alike[task]

    def _known(self, record: Record, strategy: Sequence[Vector]) -> float | None:
        """The store has compared the nearest already; it counts if it was not the strategy that came so near."""
        score = self.scores.get(record.id)
        if score is None or len(self.vectors) != 1:
            return None
        return score if score > self._spoken_of(strategy_of(record), strategy) else None

    def _spoken_of(self, strategy: str, vectors: Sequence[Vector]) -> float:
        """How near the words of the task at hand come to a strategy."""
        if strategy not in self._spoken:
            self._spoken[strategy] = _cosine(self.vectors[0], vectors) or 0.0
        return self._spoken[strategy]


def ground(engine: Engine, agent: str, task: str, before: datetime | None = None, user: str | None = None) -> Ground:
    """What is known about the task for a user; `before` asks what was known at that moment."""
    vectors = _task_meaning(engine, task)
    made = Ground(engine, agent, task, vectors, before or engine.clock(), before, user=user)
    where = made.where(MemoryType.OUTCOME)
    newest = list(engine.store.scan(where, _NEWEST))
    near = _near(made, where, _NEAR)
    # Whether there are more such tasks than were asked for: then the nearest are any of them, and may be old.
    if vectors and len(near) == _NEAR and all(made.likes(record) >= SIMILAR for record in near[-8:]):
        near += _near(made, replace(where, created_from=_lately(newest)), _NEAR)
    made.outcomes = {record.id: record for record in (*newest, *near)}
    return made


def _task_meaning(engine: Engine, task: str) -> tuple[Vector, ...]:
    held = marker(engine) if engine.encoder is not None else None
    if engine.encoder is None or held is None:
        return ()  # nothing has been embedded yet
    if held.body["value"] != engine.embedder_name:
        raise mismatch(held.body["value"], engine.embedder_name)
    [vectors] = engine.encode([(task[: _MOST_VECTORS * engine.encoder.embedder.passage_chars],)])
    return vectors[:_MOST_VECTORS]


def _lately(newest: Sequence[Record]) -> datetime:
    """Several times as far back as the newest outcomes reach."""
    first, last = newest[-1].created_at, newest[0].created_at
    return last - _SPAN * (last - first)


def _near(ground: Ground, where: Where, limit: int) -> list[Record]:
    engine = ground.engine
    if not ground.vectors:
        return neighbours(engine, None, ground.task, where, limit)
    hits = by_meaning(engine, ground.vectors[:1], where, limit)
    ground.scores |= {hit.id: hit.score for hit in hits}
    return engine.store.get([hit.id for hit in hits])


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


def survey(ground: Ground, strategy: str) -> Survey:
    groups = _groups(ground, strategy)
    own = {group.id for group in groups}
    [vector] = ground.meanings([strategy])
    known = Known(ground, strategy, own, vector)
    outcomes = ground.outcomes
    trials = [known.trial(record) for record in outcomes.values()]
    if own and sum(trial.own for trial in trials) < _FEW:
        more = {record.id: record for record in _own_outcomes(ground, own) if record.id not in outcomes}
        trials += [known.trial(record) for record in more.values()]
        outcomes = outcomes | more
    lessons = _lessons(ground, groups)
    if ground.before is None:
        # Of what a group has counted it cannot be told for sure what came before a moment.
        trials += _counted(ground, groups, lessons, outcomes.values())
    return Survey(
        trials=(*trials, *(_saying(ground, record) for record in lessons if record.provenance.origin is Origin.USER)),
        tried=sum(group.evidence.results for group in groups),
        worked=sum(group.evidence.successes + 0.5 * group.evidence.partials for group in groups),
        lessons=tuple(lessons),
    )


def _groups(ground: Ground, strategy: str) -> list[Record]:
    """The groups that the strategy's outcomes are counted in; if they are many, those of the nearest outcomes first."""
    where = replace(ground.where("strategy"), keys={key_of(strategy)})
    exact = {group.id: group for group in ground.engine.store.scan(where, _GROUPS + 1)}
    if len(exact) > _GROUPS:
        names = _linked(ground, strategy)
        missing = [name for name in names if name not in exact]
        exact |= {group.id: group for group in (ground.engine.store.get(missing) if missing else ())}
        exact = {name: exact[name] for name in dict.fromkeys((*names, *exact)) if name in exact}
    return list(exact.values())[:_GROUPS] or _paraphrased(ground, strategy)


def _linked(ground: Ground, strategy: str) -> list[str]:
    """The groups of the strategy's outcomes at hand, those of the most similar tasks first."""
    key = key_of(strategy)
    own = [record for record in ground.outcomes.values() if key_of(record.body["strategy"]) == key]
    near = sorted(own, key=lambda record: -ground.likes(record))
    return list(dict.fromkeys(name for record in near for name in record.links))[:_GROUPS]


def _paraphrased(ground: Ground, strategy: str) -> list[Record]:
    [vector] = ground.meanings([strategy])
    found = neighbours(ground.engine, vector, strategy, ground.where("strategy"), _PARAPHRASES)
    relations = ground.engine.reader.compare([Pair(group.body["strategy"], strategy) for group in found])
    return [group for group, relation in zip(found, relations, strict=True) if relation.is_same]


def _cosine(vector: Vector | None, others: Sequence[Vector]) -> float | None:
    comparable = [other for other in others if vector is not None and len(other) == len(vector)]
    return max((cosine(vector, other) for other in comparable), default=None) if vector is not None else None


def _own_outcomes(ground: Ground, groups: set[str]) -> list[Record]:
    where = replace(ground.where(MemoryType.OUTCOME), linked=groups)
    if ground.before is None:
        # The groups have counted the rest; these tell which they were and how they failed.
        return list(ground.engine.store.scan(where, _FEW))
    # Words cannot be looked for among the linked only, without looking for them everywhere.
    return _near(ground, where, _OWN) if ground.vectors else list(ground.engine.store.scan(where, _OWN))


def _counted(
    ground: Ground, groups: Sequence[Record], lessons: Sequence[Record], outcomes: Iterable[Record]
) -> list[Trial]:
    """The last results of the strategy that are not among the outcomes at hand.

    Of a task that was done a thousand times the nearest outcomes are any of them; its group knows the latest.
    """
    known = at_hand(outcomes)
    told = {name: lesson.id for lesson in lessons for name in lesson.links}
    return [
        trial for group in groups for trial in results(ground, group, group.body["task"], known, told.get(group.id, ""))
    ]


AtHand = Mapping[str, Sequence[tuple[float, float]]]
"""By group the results of the outcomes at hand, newest first: (moment, value)."""


def at_hand(outcomes: Iterable[Record]) -> AtHand:
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for record in outcomes:
        for group in record.links:
            found[group].append((record.created_at.timestamp(), _value(record)))
    return {group: sorted(results, reverse=True) for group, results in found.items()}


def results(ground: Ground, held: Record, task: str, known: AtHand, name: str) -> Iterator[Trial]:
    """The last results of a group, or of the lesson formed from it, that are not at hand; told to come from `name`."""
    alike = ground.alike(held, task) if task else 1.0
    group = held.id if held.kind == "strategy" else next(iter(held.links), "")
    for at, value in _rest(held.evidence.recent[-_RESULTS:], known.get(group, ())):
        days = max(0.0, (ground.now.timestamp() - at) / _DAY)
        yield Trial(name, strategy_of(held), task, value, days, alike, own=True, kin=1.0)


def _rest(recent: Sequence[tuple[int, float]], known: Sequence[tuple[float, float]]) -> list[tuple[int, float]]:
    """A result is counted just before its outcome is written, so each outcome takes the newest that is not after it."""
    left = list(recent)
    for moment, value in known:
        for place in range(len(left) - 1, -1, -1):
            if left[place][0] <= moment and left[place][1] == value:
                del left[place]
                break
    return left


@lru_cache(maxsize=4096)
def key_of(text: str) -> str:
    """The same for texts that differ in case and spaces only."""
    return fingerprint(text)


def strategy_of(record: Record) -> str:
    """Of an outcome, a group, a heuristic or a warning."""
    return str(record.body.get("strategy") or record.body.get("pattern"))


def _value(record: Record) -> float:
    return Result(record.body["outcome"]).value_of


def _closest(ground: Ground, vectors: Sequence[Vector]) -> float | None:
    near = [value for own in ground.vectors if (value := _cosine(own, vectors)) is not None]
    return max(near, default=None)


def _alike(ground: Ground, task: str, closest: float | None) -> float:
    """1 for the same task, 0 for a contrary one however near it reads."""
    if task == ground.task or key_of(task) == key_of(ground.task):
        return 1.0
    if closest is None:
        return _by_words(ground.task, task)
    is_contrary = ground.judging and closest >= _TELLING and not same_task(ground.task, task, closest)
    return 0.0 if is_contrary else closest


def _by_words(task: str, other: str) -> float:
    mine, theirs = stems(task), stems(other)
    return 2.0 * len(mine & theirs) / max(1, len(mine) + len(theirs))


def tried(ground: Ground, record: Record, own: bool, kin: float) -> Trial:
    """An outcome, seen from the task at hand."""
    body = record.body
    days = max(0.0, (ground.now - record.created_at).total_seconds() / _DAY)
    alike = ground.likes(record)
    return Trial(record.id, body["strategy"], body["task"], _value(record), days, alike, own, kin, body["error"] or "")


class Known:
    """Outcomes as trials of one strategy; what is worked out for one strategy serves all its outcomes.

    Without a vector only the strategy itself is known, and no kin.
    """

    def __init__(self, ground: Ground, strategy: str, groups: Collection[str], vector: Vector | None) -> None:
        self._ground = ground
        self._strategy = strategy
        self._groups = frozenset(groups)
        self._key = key_of(strategy)
        self._vector = vector
        self._kin: dict[str, float] = {}

    def trial(self, record: Record) -> Trial:
        kin = self._kinship(record.body["strategy"], record)
        return tried(self._ground, record, own=kin >= 1.0 or not self._groups.isdisjoint(record.links), kin=kin)

    def _kinship(self, strategy: str, record: Record) -> float:
        if strategy not in self._kin:
            self._kin[strategy] = self._relation(strategy, record)
        return self._kin[strategy]

    def _relation(self, strategy: str, record: Record) -> float:
        if key_of(strategy) == self._key:
            return 1.0
        ours = record.embedder == self._ground.engine.embedder_name
        alike = (_cosine(self._vector, record.vectors[-1:]) if ours else None) or 0.0
        if alike >= _RELATED and (_negates(strategy) != _negates(self._strategy) or contrary(strategy, self._strategy)):
            return 0.0
        return float(min(0.99, max(0.0, alike) ** _KINSHIP))


def _negates(strategy: str) -> bool:
    return not _NEGATIONS.isdisjoint(words(strategy))


def _task_vectors(ground: Ground, record: Record) -> Sequence[Vector]:
    encoder = ground.engine.encoder
    if encoder is None or record.embedder != encoder.name:
        return ()
    pieces = passages(record.body["task"], encoder.embedder.passage_chars)
    return record.vectors[: len(pieces)]


_SAYS = {MemoryType.HEURISTIC: 1.0, MemoryType.ANTI_PATTERN: 0.0}


def _lessons(ground: Ground, groups: Sequence[Record]) -> list[Record]:
    names = [lesson_id(group, kind) for group in groups for kind in _SAYS]
    found = [
        record
        for record in (ground.engine.store.get(names) if names else ())
        if record.status is Status.ACTIVE and (ground.before is None or record.created_at < ground.before)
    ]
    return sorted(found, key=lambda record: -_fitting(ground, record))


def _fitting(ground: Ground, lesson: Record) -> float:
    """How like the tasks that a lesson is about are to this one; without a condition it is about all."""
    condition = lesson.body["condition"]
    return ground.alike(lesson, condition) if condition else 1.0


def _saying(ground: Ground, lesson: Record) -> Trial:
    """A person's word about the strategy: as good as a few trials until there are some."""
    body = lesson.body
    return Trial(
        id=lesson.id,
        strategy=strategy_of(lesson),
        task=body["condition"],
        value=_SAYS[MemoryType(lesson.kind)],
        days=max(0.0, (ground.now - lesson.updated_at).total_seconds() / _DAY),
        alike=_fitting(ground, lesson),
        own=True,
        kin=1.0,
        said=True,
    )
