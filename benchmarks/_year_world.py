"""A simulated year of a software team: dated events, each with its ground truth.

The texts were written by hand (`data/year.json`). A *meaning* is what a statement says, in several wordings: a base
statement, its near miss (it looks alike and says something else) or its update (a later value). The first arrivals of
all wordings, the conversations and the deletions do not depend on the number of events; the rest of the events are
outcomes, retrievals with reports of what was used, ratings, and statements that arrive again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

from ._data import DataError, load

DATA = Path(__file__).parent / "data" / "year.json"
PARTS = ("development", "held_out")
DAYS = 365
BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
SEED = 7
KINDS = ("statement", "conversation", "outcome", "retrieval", "usage", "feedback", "deletion")
"""The order of a day's events."""
_DELETIONS = 12
_RETURNS = 6  # How often a deleted meaning arrives again, from agents and imports.
_WORDINGS = 4
"""How many wordings of a base statement are stated; the others occur in conversations, and after a deletion. With more,
the pairs of look-alikes would be too many for a model to be asked about."""
_SORTS_A_DAY = 4
_SHARES = {"outcome": 0.8, "retrieval": 0.025, "usage": 0.025, "feedback": 0.08, "statement": 0.0695}
_SOURCES = ("user", "agent", "import")
_OPENING, _CLOSING = timedelta(hours=8), timedelta(hours=18)


@dataclass(frozen=True)
class Meaning:
    """What one or more wordings say: a base statement (`s001`), its near miss or its update."""

    id: str
    base: str
    part: str
    kind: str
    topic: str
    owners: tuple[str, ...]
    wordings: tuple[str, ...]
    why: str = ""

    def name_owner(self, owner: str) -> tuple[str, str]:
        """Return the agent and the user of a memory that belongs to this owner; one of them is empty."""
        return ("", owner) if self.kind == "preference" else (owner, "")


@dataclass(frozen=True)
class Strategy:
    """A way of doing one sort of task; from the middle of the year it succeeds with the probability `later`."""

    id: str
    part: str
    sort: str
    chance: float
    later: float
    wordings: tuple[str, ...]

    def chance_on(self, day: int) -> float:
        return self.chance if day < DAYS // 2 else self.later


@dataclass(frozen=True)
class Question:
    text: str
    about: str
    agent: str
    user: str = ""


@dataclass(frozen=True)
class YearTexts:
    """The content of the data file."""

    sha256: str
    meanings: Mapping[str, Meaning]
    strategies: Mapping[str, Strategy]
    sorts: tuple[Mapping[str, Any], ...]
    details: tuple[str, ...]
    questions: tuple[Question, ...]
    talks: Mapping[str, Any]
    users: tuple[str, ...]

    def find_update(self, meaning: Meaning) -> Meaning | None:
        return self.meanings.get(f"{meaning.base}/update")


@dataclass(frozen=True)
class Event:
    """Something that happens. `truth` is the id of the meaning or strategy that it is about."""

    at: datetime
    kind: str
    truth: str
    agent: str = ""
    user: str = ""
    text: str = ""
    source: str = "user"
    task: str = ""
    sort: str = ""
    result: str = ""
    turns: tuple[tuple[str, str], ...] = ()
    mentions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Arrival:
    """A wording that reaches an owner on a day for the first time, and may be repeated until another day."""

    meaning: Meaning
    owner: str
    text: str
    day: int
    until: int
    source: str
    weight: float


@dataclass
class Plan:
    """What does not depend on the number of events."""

    arrivals: list[Arrival] = field(default_factory=list)
    deletions: list[tuple[int, Meaning, str]] = field(default_factory=list)
    conversations: list[Event] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.arrivals) + len(self.deletions) + len(self.conversations)


def load_year(path: Path = DATA) -> YearTexts:
    """Read the texts of the year."""
    content, sha256 = load(path)
    return read_year(content, sha256)


def read_year(content: Mapping[str, Any], sha256: str) -> YearTexts:
    """Return the texts that the content of a data file describes."""
    meanings: dict[str, Meaning] = {}
    for row in content["statements"]:
        shared = {name: row.get(name, "") for name in ("part", "kind", "topic", "why")}
        for suffix, name in (("", "wordings"), ("/near", "near_miss"), ("/update", "update")):
            if row.get(name):
                id, owners, wordings = row["id"] + suffix, tuple(row["owners"]), tuple(row[name])
                meanings[id] = Meaning(id, row["id"], owners=owners, wordings=wordings, **shared)
    strategies = {
        row["id"]: Strategy(**{"later": row["chance"], **row, "wordings": tuple(row["wordings"])})
        for row in content["strategies"]
    }
    questions = tuple(Question(**row) for row in content["questions"] if row["about"] in meanings)
    return YearTexts(
        sha256=sha256,
        meanings=meanings,
        strategies=strategies,
        sorts=tuple(content["sorts"]),
        details=tuple(content["details"]),
        questions=questions,
        talks=content["talks"],
        users=tuple(content["users"]),
    )


# -- what does not depend on the number of events


def plan_year(texts: YearTexts, seed: int = SEED) -> Plan:
    """Draw the first arrival of every wording, the deletions and the conversations."""
    random, plan = Random(f"{seed} plan"), Plan()
    bases = [one for one in texts.meanings.values() if one.id == one.base]
    lasting = [one for one in bases if texts.find_update(one) is None]
    deleted = {one.id for one in random.sample(lasting, min(_DELETIONS, len(lasting) // 4))}
    for base in bases:
        weight = min(random.paretovariate(1.2), 20.0)
        near, update = texts.meanings.get(f"{base.id}/near"), texts.find_update(base)
        change = random.randrange(150, 280)
        wordings = random.sample(base.wordings, len(base.wordings))
        split = random.choice((2, 3))
        for owner, own in zip(base.owners, (wordings[:split], wordings[split:_WORDINGS]), strict=True):
            if base.id in deleted and owner == base.owners[0]:
                _plan_deletion(plan, random, base, owner, (*own, wordings[-1]), weight)
                continue
            until = change if update else DAYS
            begin = random.randrange(0, 120)
            days = [begin, *sorted(random.randrange(begin, until - 10) for _ in own[1:])]
            for text, day in zip(own, days, strict=True):
                plan.arrivals.append(Arrival(base, owner, text, day, until, _draw_source(random, base), weight))
        if near:
            for text in near.wordings:
                day = random.randrange(10, 330)
                source = _draw_source(random, near)
                plan.arrivals.append(Arrival(near, base.owners[0], text, day, DAYS, source, weight / 3))
        if update:
            for owner, later in zip(base.owners, (update.wordings[:-1], update.wordings[-1:]), strict=True):
                for number, text in enumerate(later):
                    day = change + number * random.randrange(5, 25)
                    plan.arrivals.append(Arrival(update, owner, text, day, DAYS, "user", weight))
    plan.conversations = [_plan_conversation(texts, plan, random, number) for number in range(texts.talks["count"])]
    return plan


def _plan_deletion(
    plan: Plan, random: Random, base: Meaning, owner: str, wordings: Sequence[str], weight: float
) -> None:
    """Let a person delete a meaning; afterwards only agents and imports repeat it, in old and in new wordings."""
    day = random.randrange(150, 250)
    for text in wordings[:2]:
        first = random.randrange(0, 140)
        plan.arrivals.append(Arrival(base, owner, text, first, day, _draw_source(random, base), weight))
    plan.deletions.append((day, base, owner))
    texts = [*wordings[:2], *wordings] * _RETURNS
    for text in texts[:_RETURNS]:
        back = random.randrange(day + 1, DAYS - 5)
        source = random.choice(("agent", "import"))
        plan.arrivals.append(Arrival(base, owner, text, back, back, source, weight))


def _draw_source(random: Random, meaning: Meaning) -> str:
    # Rules of agents are only proposals, so most of them come from people.
    return random.choices(_SOURCES, (80, 15, 5) if meaning.kind == "rule" else (45, 40, 15))[0]


def _plan_conversation(texts: YearTexts, plan: Plan, random: Random, number: int) -> Event:
    """Build a conversation from the sentence pools; a person mentions some statements that are current."""
    day = 5 + number * (DAYS - 10) // texts.talks["count"]
    topic, small = random.choice(texts.talks["topics"]), texts.talks["small"]
    turns = random.randrange(20, 61)
    pools = {
        speaker: _shuffle_pool(random, topic[speaker], small[speaker], turns // 2 + 1) for speaker in ("user", "agent")
    }
    removed = {(meaning.id, owner) for _, meaning, owner in plan.deletions}
    current = [one for one in plan.arrivals if one.day < day < one.until and (one.meaning.id, one.owner) not in removed]
    chosen = random.sample(current, min(random.randrange(3, 7), len(current)))
    mentioned = {random.choice(one.meaning.wordings): one.meaning.id for one in chosen}
    for text in mentioned:
        place = random.randrange(len(pools["user"]))
        pools["user"][place] = f"{random.choice(texts.talks['lead_ins'])} {text}"
    speakers = [("user", "agent")[at % 2] for at in range(turns)]
    spoken = [(speaker, pools[speaker].pop()) for speaker in speakers]
    said = " ".join(text for _, text in spoken)
    mentions = tuple(id for text, id in mentioned.items() if text in said)
    agent, user = random.choice(texts.sorts)["agent"], random.choice(texts.users)
    at = BEGIN + timedelta(days=day)
    return Event(at, "conversation", f"talk-{number + 1:02}", agent, user, turns=tuple(spoken), mentions=mentions)


def _shuffle_pool(random: Random, topic: Sequence[str], small: Sequence[str], size: int) -> list[str]:
    lines = random.sample([*topic, *small], len(topic) + len(small))
    return lines[:size] + random.choices(small, k=max(0, size - len(lines)))


# -- events


def generate_events(texts: YearTexts, count: int, seed: int = SEED) -> Iterator[Event]:
    """Yield `count` events in the order of their time; the same for the same texts, count and seed."""
    plan = plan_year(texts, seed)
    if count < plan.size:
        raise DataError(f"the fixed part of the year has {plan.size} events: ask for at least as many, not {count}")
    budgets = {kind: int(share * (count - plan.size)) for kind, share in _SHARES.items()}
    budgets["conversation"] = min((count - plan.size) // 2000, 4 * texts.talks["count"])
    budgets["outcome"] += count - plan.size - sum(budgets.values())
    weights = [0.25 if (BEGIN + timedelta(days=day)).weekday() >= 5 else 1.0 for day in range(DAYS)]
    ends = [share / sum(weights) for share in accumulate(weights)]
    randoms = {kind: Random(f"{seed} {kind}") for kind in KINDS}
    spent: Counter[str] = Counter()
    for day, end in enumerate(ends):
        due = {}
        for kind, budget in budgets.items():
            total = budget if day == DAYS - 1 else int(budget * end)
            due[kind] = total - spent[kind]
            spent[kind] = total
        events = _list_events_of_day(texts, plan, day, due, randoms)
        step = (_CLOSING - _OPENING) / max(len(events), 1)
        opening = BEGIN + timedelta(days=day) + _OPENING
        for number, event in enumerate(events):
            yield replace(event, at=opening + number * step)


def _list_events_of_day(
    texts: YearTexts, plan: Plan, day: int, due: Mapping[str, int], randoms: Mapping[str, Random]
) -> list[Event]:
    at = BEGIN + timedelta(days=day)
    open_now = [one for one in plan.arrivals if one.day < day < one.until]
    weights = [one.weight for one in open_now]
    events = [_state(one, at, one.source) for one in plan.arrivals if one.day == day]
    random = randoms["statement"]
    # Without an open arrival, as on the first day, the event is an outcome instead.
    extra = 0 if open_now else due["statement"] + due["feedback"]
    for one in random.choices(open_now, weights, k=due["statement"]) if open_now else ():
        events.append(_state(one, at, _draw_source(random, one.meaning)))
    events += [one for one in plan.conversations if one.at == at]
    past = [one for one in plan.conversations if one.at < at]
    extra += 0 if past else due["conversation"]
    events += randoms["conversation"].choices(past, k=due["conversation"]) if past else []
    events += _draw_outcomes(texts, day, due["outcome"] + extra, randoms["outcome"])
    retrievals = [_draw_retrieval(texts, day, randoms["retrieval"]) for _ in range(due["retrieval"])]
    events += retrievals
    events += [replace(one, kind="usage") for one in retrievals]
    random = randoms["feedback"]
    for one in random.choices(open_now, weights, k=due["feedback"]) if open_now else ():
        result = "up" if random.random() < 0.9 else "down"
        events.append(Event(at, "feedback", one.meaning.id, *one.meaning.name_owner(one.owner), result=result))
    events += [
        Event(at, "deletion", meaning.id, *meaning.name_owner(owner))
        for deleted_on, meaning, owner in plan.deletions
        if deleted_on == day
    ]
    return events


def _state(one: Arrival, at: datetime, source: str) -> Event:
    agent, user = one.meaning.name_owner(one.owner)
    return Event(at, "statement", one.meaning.id, agent, user, text=one.text, source=source)


def _draw_outcomes(texts: YearTexts, day: int, count: int, random: Random) -> Iterator[Event]:
    """Yield outcomes of the few sorts of tasks that the team works on that day; strategies that work are preferred."""
    at = BEGIN + timedelta(days=day)
    sorts = random.sample(texts.sorts, min(_SORTS_A_DAY, len(texts.sorts)))
    for _ in range(count):
        sort = random.choice(sorts)
        choices = [one for one in texts.strategies.values() if one.sort == sort["id"]]
        strategy = random.choices(choices, [(0.15 + one.chance_on(day)) ** 2 for one in choices])[0]
        result = "success" if random.random() < strategy.chance_on(day) else "failure"
        if random.random() < 0.05:
            result = "partial"
        # Each agent works for two of the users; most outcomes belong to nobody in particular.
        place = [one["agent"] for one in texts.sorts].index(sort["agent"])
        user = texts.users[(place + random.randrange(2)) % len(texts.users)] if random.random() < 0.25 else ""
        yield Event(
            at,
            "outcome",
            strategy.id,
            sort["agent"],
            user,
            text=random.choice(strategy.wordings),
            task=_draw_task(texts, sort, random),
            sort=sort["id"],
            result=result,
        )


def _draw_task(texts: YearTexts, sort: Mapping[str, Any], random: Random) -> str:
    task: str = random.choice(sort["tasks"])
    return f"{task} {random.choice(texts.details)}" if random.random() < 0.6 else task


def _draw_retrieval(texts: YearTexts, day: int, random: Random) -> Event:
    """Return a question about a statement, or a task whose best strategy would help."""
    at = BEGIN + timedelta(days=day)
    if texts.questions and random.random() < 0.5:
        question = random.choice(texts.questions)
        return Event(at, "retrieval", question.about, question.agent, question.user, text=question.text)
    sort = random.choice(texts.sorts)
    own = [one for one in texts.strategies.values() if one.sort == sort["id"]]
    best = max(own, key=lambda one: one.chance_on(day))
    return Event(at, "retrieval", best.id, sort["agent"], text=_draw_task(texts, sort, random))
