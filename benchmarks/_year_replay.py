"""Replay of a simulated year into a memory, with a count of every acknowledged write and its ground truth."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

from alma import ALMA
from alma.engine.consolidate import reconcile
from alma.reading.port import UNSURE, Comparer, Pair, Relation, Verdict
from alma.text import normalise
from alma.types.kinds import AntiPattern, FeedbackSignal, Heuristic, Memory

from ._product import Clock
from ._year_world import BEGIN, DAYS, PARTS, Event, YearTexts

STATED = ("domain_knowledge", "user_preference", "rule", "anti_pattern")
EVERYTHING = 1_000_000
_TEXT_FIELDS = ("fact", "preference", "rule", "pattern", "strategy")
_DAYS_OF_WEEK = 7

Table = dict[tuple[str, str, bool], Relation]
"""How pairs of texts relate; the second time, with their details named."""
Truth = tuple[str, str]
"""The id of a meaning or strategy, and the owner of the memory."""


class TableComparer:
    """Answers from a table of relations; a pair that is not in it is unsure."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.known = 0
        self.unknown: dict[tuple[str, str, bool], Pair] = {}

    def compare(self, pairs: Sequence[Pair]) -> list[Relation]:
        """Return one relation for each pair. All but `replaces` hold in both directions."""
        relations = []
        for pair in pairs:
            key = (pair.first, pair.second, any(pair[3:]))
            relation, turned = self._table.get(key), self._table.get((pair.second, pair.first, key[2]))
            if relation is None and turned is not None and turned.verdict is not Verdict.REPLACES:
                relation = turned
            if relation is None:
                self.unknown[key] = pair
            self.known += relation is not None
            relations.append(relation or UNSURE)
        return relations


@dataclass(frozen=True)
class Snapshot:
    """The memory at the end of a week."""

    day: int
    active: int
    file_bytes: int
    duplicates: dict[str, float]


@dataclass
class Ledger:
    """What the benchmark itself knows about the writes that the memory acknowledged."""

    stated: dict[str, Truth] = field(default_factory=dict)
    outcomes: dict[str, Truth] = field(default_factory=dict)
    episodes: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    deleted_meanings: dict[Truth, set[str]] = field(default_factory=dict)
    """Deleted by a person, with the normalised texts that were deleted."""
    texts: dict[Truth, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The normalised texts of each meaning that arrived and that nobody deleted."""
    latest: dict[Truth, str] = field(default_factory=dict)
    misread: list[tuple[str, str]] = field(default_factory=list)
    """A statement, and the stored text that it was taken for when it was written."""
    counts: Counter[str] = field(default_factory=Counter)


def read_text(memory: Memory) -> str:
    """Return what a stated memory or a lesson says."""
    return next(str(getattr(memory, name)) for name in _TEXT_FIELDS if hasattr(memory, name))


def owner_of(memory: Memory) -> str:
    return f"{memory.agent}/{memory.user_id}"


class YearReplay:
    """A memory in which the events of a year happen."""

    def __init__(
        self, texts: YearTexts, folder: Path, *, has_upkeep: bool = True, comparer: Comparer | None = None
    ) -> None:
        self.texts = texts
        self.clock = Clock()
        self.clock.set(BEGIN)
        self.folder = folder
        self.alma = ALMA.quickstart("year", storage_dir=folder, clock=self.clock)
        self.ledger = Ledger()
        self.snapshots: list[Snapshot] = []
        self.seconds: dict[str, float] = defaultdict(float)
        self.cpu_seconds = 0.0
        self.upkeep_counts: Counter[str] = Counter()
        self.problems: Counter[str] = Counter()
        self._has_upkeep = has_upkeep
        self.comparer = comparer if has_upkeep else None
        self._shown: dict[tuple[str, str, str], list[Memory]] = {}
        self._strategies = {
            normalise(text): strategy.id for strategy in texts.strategies.values() for text in strategy.wordings
        }
        self._meanings = {normalise(text): one.id for one in texts.meanings.values() for text in one.wordings}
        self._steps: dict[str, Callable[[list[Event]], None]] = {
            "statement": self._state,
            "conversation": self._converse,
            "outcome": self._learn,
            "retrieval": self._retrieve,
            "usage": self._report_usage,
            "feedback": self._rate,
            "deletion": self._delete,
        }

    # -- the year

    def run(self, events: Iterable[Event], tick: Callable[[int], None]) -> None:
        """Replay the events day by day; every week run the upkeep and take a snapshot."""
        for day, of_day in groupby(events, key=lambda event: (event.at - BEGIN).days):
            while len(self.snapshots) < day // _DAYS_OF_WEEK:
                self._end_week()
            for kind, group in groupby(of_day, key=lambda event: event.kind):
                batch = list(group)
                self.clock.set(batch[-1].at)
                with self._timed(kind):
                    self._steps[kind](batch)
                self.ledger.counts[kind] += len(batch)
                tick(len(batch))
        self._end_week()

    def _end_week(self) -> None:
        end = BEGIN + timedelta(days=min((len(self.snapshots) + 1) * _DAYS_OF_WEEK, DAYS))
        self.clock.set(end)
        with self._timed("upkeep"):
            self._run_upkeep()
        with self._timed("measuring"):
            self.snapshots.append(self._take_snapshot((end - BEGIN).days))

    def _run_upkeep(self) -> None:
        """Compare look-alikes with the recorded answers, if there are any, and run the weekly upkeep."""
        if self.comparer is not None:
            self._count_report(reconcile(self.alma.engine, self.comparer))
        if self._has_upkeep:
            report = self.alma.upkeep(dry_run=False)
            self._count_report(report)
            self.problems.update(report.problems)

    def _count_report(self, report: Any) -> None:
        for one in dataclasses.fields(report):
            value = getattr(report, one.name)
            if isinstance(value, Mapping):
                self.upkeep_counts.update({name: number for name, number in value.items() if isinstance(number, int)})
            elif isinstance(value, int) and not isinstance(value, bool):
                self.upkeep_counts[one.name] += value
            elif isinstance(value, list | tuple | set):
                self.upkeep_counts[one.name] += len(value)

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began, worked = time.perf_counter(), time.process_time()
        yield
        self.seconds[what] += time.perf_counter() - began
        self.cpu_seconds += time.process_time() - worked

    # -- events

    def _state(self, events: list[Event]) -> None:
        """A person's statements are added one by one; what agents and imports bring, in one batch at the day's end."""
        batch, rows = [], []
        for event in events:
            row = self._describe_statement(event)
            if event.source == "user" or row["type"] == "rule":
                self._acknowledge(event, getattr(self.alma, f"add_{row.pop('type')}")(**row))
            else:
                batch.append(event)
                rows.append(row)
        for event, memory in zip(batch, self.alma.add_many(rows), strict=True) if rows else ():
            self._acknowledge(event, memory)

    def _describe_statement(self, event: Event) -> dict[str, Any]:
        meaning = self.texts.meanings[event.truth]
        shared = {"source": event.source}
        if meaning.kind == "preference":
            own = {"user_id": event.user, "category": meaning.topic, "preference": event.text}
            return {"type": "user_preference", **own, **shared}
        shared["agent"] = event.agent
        if meaning.kind == "fact":
            return {"type": "domain_knowledge", "domain": meaning.topic, "fact": event.text, **shared}
        if meaning.kind == "rule":
            return {"type": "rule", "rule": event.text, **shared}
        return {"type": "anti_pattern", "pattern": event.text, "why_bad": meaning.why, **shared}

    def _acknowledge(self, event: Event, memory: Memory) -> None:
        truth = (event.truth, f"{event.agent}/{event.user}")
        self.ledger.texts[truth].add(normalise(event.text))
        self.ledger.latest[truth] = memory.id
        if self.ledger.stated.setdefault(memory.id, truth) != truth:
            self.ledger.misread.append((event.text, read_text(memory)))

    def _converse(self, events: list[Event]) -> None:
        conversations = [
            {
                "agent": event.agent,
                "user_id": event.user,
                "session_id": event.truth,
                "turns": [
                    {"speaker": event.user if speaker == "user" else event.agent, "text": text, "id": str(number)}
                    for number, (speaker, text) in enumerate(event.turns)
                ],
            }
            for event in {event.truth: event for event in events}.values()
        ]
        self.ledger.episodes |= {one.id for one in self.alma.add_episodes(conversations)}

    def _learn(self, events: list[Event]) -> None:
        rows = [
            {
                "agent": event.agent,
                "task": event.task,
                "outcome": event.result,
                "strategy_used": event.text,
                "task_type": event.sort,
                **({"user_id": event.user} if event.user else {}),
            }
            for event in events
        ]
        for event, outcome in zip(events, self.alma.learn_many(rows), strict=True):
            self.ledger.outcomes[outcome.id] = (event.truth, f"{event.agent}/{event.user}")

    def _retrieve(self, events: list[Event]) -> None:
        self._shown = {}
        for event in events:
            shown = self.alma.retrieve(event.text, agent=event.agent, user_id=event.user or None)
            self._shown[event.text, event.agent, event.user] = list(shown)

    def _report_usage(self, events: list[Event]) -> None:
        for event in events:
            shown = self._shown[event.text, event.agent, event.user]
            ids = list(dict.fromkeys(one.id for one in shown))
            used = [one.id for one in shown if self.find_truth(one) == event.truth]
            if ids:
                self.alma.record_usage(ids, list(dict.fromkeys(used)), agent=event.agent)

    def _rate(self, events: list[Event]) -> None:
        for event in events:
            id = self.ledger.latest.get((event.truth, f"{event.agent}/{event.user}"))
            if id is not None and id not in self.ledger.deleted:
                self.alma.record_feedback(id, signal=FeedbackSignal(f"thumbs_{event.result}"))

    def _delete(self, events: list[Event]) -> None:
        """Delete every memory in use that says this, as a person would who looks it up."""
        for event in events:
            truth = (event.truth, f"{event.agent}/{event.user}")
            ids = [id for id, known in self.ledger.stated.items() if known == truth]
            for record in self.alma.engine.store.get(ids):
                # Deleting a memory deletes what was merged into it.
                if record.status in ("active", "candidate") and self.alma.engine.store.get([record.id]):
                    self.alma.delete(record.id)
            self.ledger.deleted |= {*ids} - {one.id for one in self.alma.engine.store.get(ids)}
            self.ledger.deleted_meanings[truth] = self.ledger.texts.pop(truth, set())

    # -- the state of the memory

    def find_truth(self, memory: Memory) -> str:
        """Return the id of the meaning or strategy that a memory says; empty if it cannot be known."""
        if memory.id in self.ledger.stated:
            return self.ledger.stated[memory.id][0]
        if not any(hasattr(memory, name) for name in _TEXT_FIELDS):
            return ""
        text = read_text(memory)
        is_lesson = isinstance(memory, Heuristic | AntiPattern)
        return (self._strategies.get(normalise(text)) if is_lesson else None) or self.find_meaning(text)

    def find_meaning(self, text: str) -> str:
        """Return the id of the meaning that a text says; empty for a text of no meaning."""
        return self._meanings.get(normalise(text), "")

    def list_memories(self, kinds: Iterable[str], status: Any = "active") -> list[Memory]:
        return [one for kind in kinds for one in self.alma.list(kind, status=status, limit=EVERYTHING)]  # type: ignore[call-overload]

    def find_part(self, truth: str) -> str:
        if truth in self.texts.strategies:
            return self.texts.strategies[truth].part
        return self.texts.meanings[truth].part if truth in self.texts.meanings else ""

    def measure_duplicates(self) -> dict[str, float]:
        """Return the share of memories in use that say the same as another one of their owner, by part."""
        stated, lessons = [], []
        for one in self.list_memories((*STATED, "heuristic")):
            truth = self.find_truth(one)
            if not truth:
                self.ledger.counts["memories of unknown origin"] += 1
            elif truth in self.texts.strategies:
                lessons.append((truth, f"{owner_of(one)} {type(one).__name__}"))
            else:
                stated.append((truth, owner_of(one)))
        arrived = [truth for truth, texts in self.ledger.texts.items() for _ in texts]
        groups = {"all": stated + lessons, "stated": stated, "equal texts merged": arrived, "strategies": lessons}
        return {
            f"{name}, {part}": share_of_twins([one for one in truths if self.find_part(one[0]) == part])
            for name, truths in groups.items()
            for part in PARTS
        }

    def _take_snapshot(self, day: int) -> Snapshot:
        stats = self.alma.get_stats()
        # The quota is about all memories but conversations.
        active = stats["by_status"].get("active", 0) - stats["by_type"]["episode"]
        size = sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())
        return Snapshot(day, active, size, self.measure_duplicates())


def share_of_twins(truths: Sequence[Truth]) -> float:
    """Return the share of entries that occur more than once."""
    counts = Counter(truths)
    return sum(number for number in counts.values() if number > 1) / len(truths) if truths else 0.0
