"""Agents that must find out which of several strategies works in which context, with and without memory.

In each context one strategy is best, and no agent knows which. An agent gets a task, picks a strategy, sees whether it
worked, and may remember it. Its regret is what it loses compared with always choosing the best strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Protocol

from alma import ALMA
from alma.confidence import ConfidenceEngine

from ._product import AGENT, Clock

STRATEGIES = (
    "work in small steps and check each",
    "write a script that does all of it at once",
    "copy what was done for the last customer",
    "ask the owner before touching anything",
    "start over from an empty copy",
)
_SUBJECTS = (
    "Migrate the billing database", "Translate the onboarding emails", "Fix the flaky login tests",
    "Tune the search ranking", "Restore the nightly backup", "Clean the customer addresses",
    "Draft the quarterly report", "Rotate the signing certificates", "Import the supplier catalogue",
    "Upgrade the payment library", "Schedule the warehouse shifts", "Compress the video archive",
    "Label the medical images", "Review the rental contracts", "Plan the school timetable",
    "Balance the greenhouse sensors", "Route the delivery trucks", "Transcribe the court hearings",
    "Calibrate the weather radar", "Forecast the electricity demand", "Sort the museum inventory",
    "Answer the refund requests", "Repair the broken hyperlinks", "Draw the evacuation maps",
    "Audit the expense claims", "Package the Linux drivers", "Moderate the cooking forum",
    "Simulate the bridge loads", "Match the organ donors", "Index the patent drawings",
    "Price the flight insurance", "Grade the chemistry essays", "Patch the kiosk firmware",
    "Merge the duplicate patients", "Subtitle the lecture films", "Count the seabird colonies",
    "Reconcile the tax ledgers", "Design the festival posters", "Trace the missing parcels",
    "Benchmark the graphics shaders",
)  # fmt: skip
_DETAILS = ("for the north office", "before Friday", "with the new template", "after the outage", "in the pilot group")


@dataclass(frozen=True)
class Setting:
    name: str
    contexts: int
    best: float
    """How often the best strategy of a context works."""
    others: tuple[float, float]
    """Between which the others lie."""
    changes: bool = False
    """Whether halfway another strategy becomes the best, and the best one of the others."""


SETTINGS = (
    Setting("stationary", 6, 0.9, (0.1, 0.5)),
    Setting("noisy", 6, 0.65, (0.2, 0.5)),
    Setting("many contexts", 30, 0.9, (0.1, 0.5)),
    Setting("the best changes midway", 6, 0.9, (0.1, 0.5), changes=True),
)


@dataclass(frozen=True)
class Round:
    context: int
    task: str
    chances: tuple[float, ...]
    """Of each strategy."""
    luck: float
    """A strategy works when its chance is above this: the same for every agent."""


def rounds(setting: Setting, count: int, seed: int) -> list[Round]:
    random = Random(seed)
    before = [_chances(setting, random) for _ in range(setting.contexts)]
    after = [_changed(chances, random) for chances in before] if setting.changes else before
    subjects = random.sample(_SUBJECTS, setting.contexts)
    made = []
    for number in range(count):
        context = random.randrange(setting.contexts)
        chances = (before if number < count // 2 else after)[context]
        task = f"{subjects[context]} {random.choice(_DETAILS)}"
        made.append(Round(context, task, chances, random.random()))
    return made


def _chances(setting: Setting, random: Random) -> tuple[float, ...]:
    best = random.randrange(len(STRATEGIES))
    return tuple(setting.best if at == best else random.uniform(*setting.others) for at in range(len(STRATEGIES)))


def _changed(chances: tuple[float, ...], random: Random) -> tuple[float, ...]:
    """Return the contexts after the best strategy has changed places with another one."""
    best = max(range(len(chances)), key=chances.__getitem__)
    other = random.choice([at for at in range(len(chances)) if at != best])
    moved = list(chances)
    moved[best], moved[other] = moved[other], moved[best]
    return tuple(moved)


# -- agents


class Agent(Protocol):
    def pick(self, given: Round) -> int: ...

    def see(self, given: Round, picked: int, worked: bool) -> None: ...


class Memoryless:
    """Picks a random strategy."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def pick(self, given: Round) -> int:
        return self._random.randrange(len(STRATEGIES))

    def see(self, given: Round, picked: int, worked: bool) -> None: ...


class NewestWins:
    """Trusts the newest memory: repeats what worked last in the context, and avoids what failed last.

    It is given the context, which alma must infer from the text.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._last: dict[int, tuple[int, bool]] = {}

    def pick(self, given: Round) -> int:
        at, worked = self._last.get(given.context, (-1, False))
        if worked:
            return at
        return self._random.choice([one for one in range(len(STRATEGIES)) if one != at])

    def see(self, given: Round, picked: int, worked: bool) -> None:
        self._last[given.context] = (picked, worked)


class Remembering:
    """Asks alma which strategy to take, and learns the outcome."""

    def __init__(self, alma: ALMA, clock: Clock, seed: int, explore: bool) -> None:
        self._alma = alma
        self._clock = clock
        self._confidence = ConfidenceEngine(alma, seed=seed)
        self._explore = explore

    def pick(self, given: Round) -> int:
        self._clock.set(self._clock() + timedelta(hours=1))
        ranked = self._confidence.rank_strategies(STRATEGIES, given.task, AGENT, explore=self._explore)
        return STRATEGIES.index(ranked[0][0])

    def see(self, given: Round, picked: int, worked: bool) -> None:
        self._alma.learn(AGENT, given.task, "success" if worked else "failure", STRATEGIES[picked])


def played(agent: Agent, given: Sequence[Round], tick: Callable[[int], None]) -> list[float]:
    """Return the chance of success that the agent gave away in each round."""
    lost = []
    for one in given:
        picked = agent.pick(one)
        lost.append(max(one.chances) - one.chances[picked])
        agent.see(one, picked, one.luck < one.chances[picked])
        tick(1)
    return lost


# -- figures


def regret(lost: Sequence[float]) -> list[float]:
    """Return the accumulated loss after each round."""
    total, out = 0.0, []
    for one in lost:
        total += one
        out.append(total)
    return out


def mean_curve(curves: Sequence[Sequence[float]], step: int) -> list[tuple[float, float]]:
    """Return the mean over several runs, at every `step` rounds."""
    length = len(curves[0])
    return [(float(at), sum(curve[at - 1] for curve in curves) / len(curves)) for at in range(step, length + 1, step)]


def success_curve(given: Sequence[Round], lost: Sequence[float], window: int) -> list[float]:
    """Return the chance of success of the chosen strategies over the last rounds."""
    chances = [max(one.chances) - gone for one, gone in zip(given, lost, strict=True)]
    return [sum(chances[max(0, at - window) : at]) / (at - max(0, at - window)) for at in range(1, len(chances) + 1)]
