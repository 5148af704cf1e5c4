"""The store, embedder, clock and settings that all steps of the engine use."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..errors import BusyError, ConflictError, ScopeError, StorageError, ValidationError, unknown
from ..forks import hold_at_fork
from ..ports import Calibration, Clock, Embedder, Lingual, PairReader, PairScores, Store
from ..reading.local import LocalReader
from ..reading.port import Comparer, Pair, Relation
from ..text import passages
from ..types import times
from ..types.events import DEFAULT_EVENTS, MemoryEvent, WebhookSettings, check_event_types
from ..types.kinds import EVERYWHERE, KINDS
from ..types.query import Scopes, Where, is_space, visible_users
from ..types.record import Provenance, Record, Status, Trust, Vector
from .validate import mapping, number, whole

if TYPE_CHECKING:
    from .tombstones import Tombstones


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each factor counts; only their ratios matter."""

    similarity: float = 0.55
    recency: float = 0.10
    success: float = 0.20
    confidence: float = 0.15

    def __post_init__(self) -> None:
        if not sum(number(f"weight {name!r}", getattr(self, name), 0.0) for name in self.__slots__):
            raise ValidationError("all retrieval weights are 0; set at least one of them to a number greater than 0")

    def shares(self) -> dict[str, float]:
        """Return each weight as a share of their sum."""
        total = self.similarity + self.recency + self.success + self.confidence
        return {name: getattr(self, name) / total for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class UpkeepSettings:
    """What upkeep archives, deletes and compresses, and how often it runs by itself."""

    every_hours: float = 24.0  # 0: only when asked.
    archive_below: float = 0.1  # The strength below which an unused memory is archived.
    unused_days: float = 90.0
    # By kind, or by the domain, category or task type of a memory, which comes first.
    half_life_days: Mapping[str, float] = field(default_factory=dict)
    max_memories: int = 20_000  # Active ones, without conversations.
    max_conversations: int = 5_000
    retrieval_days: float = 30.0  # 0: notes of retrievals are kept.
    history_days: float = 0.0  # 0: the history of counts is kept.
    compress_after_days: float = 90.0  # 0: conversations are not compressed.
    compress_turns: int = 40  # Only conversations with more turns are compressed.

    def __post_init__(self) -> None:
        number("upkeep.archive_below", self.archive_below, 0.0, 1.0)
        number("upkeep.every_hours", self.every_hours, 0.0, 1_000_000)
        for setting in ("unused_days", "retrieval_days", "history_days", "compress_after_days"):
            number(f"upkeep.{setting}", getattr(self, setting), 0.0, 100_000)
        for setting in ("max_memories", "max_conversations", "compress_turns"):
            whole(f"upkeep.{setting}", getattr(self, setting), 1, 10**9)
        for key, days in mapping("upkeep.half_life_days", self.half_life_days).items():
            number(f"upkeep.half_life_days.{key}", days, 0.01, 1_000_000)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of learning, retrieval and upkeep."""

    weights: Weights = field(default_factory=Weights)
    min_occurrences_for_heuristic: int = 3
    min_failures_for_anti_pattern: int = 2
    recency_half_life_days: float = 30.0
    # How many of a user's preferences, and of the rules in force, are shown without matching the task.
    max_preferences: int = 5
    keep_retrievals: bool = True
    # The processor time in which one retrieval may read pairs of texts; 0: vectors and words decide alone.
    pair_reading_ms: float = 100.0
    # Whether what one user stated, and what is learned from their outcomes, is found by the other users of a team.
    share_between_users: bool = False
    upkeep: UpkeepSettings = field(default_factory=UpkeepSettings)

    def __post_init__(self) -> None:
        whole("min_occurrences_for_heuristic", self.min_occurrences_for_heuristic, 1, 1000)
        whole("min_failures_for_anti_pattern", self.min_failures_for_anti_pattern, 1, 1000)
        number("recency_half_life_days", self.recency_half_life_days, 0.01)
        whole("max_preferences", self.max_preferences, 0, 1000)
        number("pair_reading_ms", self.pair_reading_ms, 0.0, 60_000.0)
        if not isinstance(self.share_between_users, bool):
            raise ValidationError(f"share_between_users must be true or false, not {self.share_between_users!r}")


class FallbackHandler(logging.Handler):
    """Prints to standard error where the program has not configured logging.

    Python does that by itself, but only for warnings: with `getLogger("alma").setLevel(DEBUG)` alone, nothing would be
    seen.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record, unless another handler gets it."""
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None:
            if any(handler is not self for handler in logger.handlers):
                return
            logger = logger.parent if logger.propagate else None
        if sys.stderr is not None:
            print(self.format(record), file=sys.stderr)


_LOG = logging.getLogger("alma")
_LOG.addHandler(FallbackHandler())
_CLOSING_SECONDS = 1.0


class Encoder:
    """The embedder with a cache, so that a task that is first retrieved for and then learned is embedded once."""

    def __init__(self, embedder: Embedder, size: int = 512) -> None:
        self.embedder = embedder
        self.name = embedder.name
        self.knows: Callable[[str], bool] = lambda text: True
        if isinstance(embedder, Lingual):
            self.knows = lru_cache(maxsize=16_384)(embedder.knows)
        self.pairs = embedder if isinstance(embedder, PairReader) else None
        self._size = size
        self._vectors: dict[str, Vector] = {}

    def encode(self, groups: Sequence[Sequence[str]]) -> list[tuple[Vector, ...]]:
        """Return for each group of texts its vectors, long texts in passages: all in one pass of the embedder."""
        size = self.embedder.passage_chars
        pieces = [[piece for text in group for piece in passages(text, size)] for group in groups]
        # Never changed, only replaced: threads need no lock.
        cache = self._vectors
        missing = [text for text in dict.fromkeys(chain.from_iterable(pieces)) if text not in cache]
        if missing:
            cache = {**cache, **dict(zip(missing, self.embedder.embed(missing), strict=True))}
            self._vectors = dict(list(cache.items())[-self._size :])
        return [tuple(map(cache.__getitem__, group)) for group in pieces]


class Notes:
    """Notes about retrievals that could not be written at once, because another process was writing.

    A retrieval waits a few hundredths of a second for a writer, not longer. Its note then waits here, in this process,
    and is written together with whatever is written next, at the latest when the memory is closed. Nothing is lost
    silently: what cannot be written then either is logged with its id.

    Without `can_wait`, a retrieval waits for the writer instead: for servers of several processes, where the outcome
    that names the retrieval may arrive at another process.
    """

    def __init__(self, *, can_wait: bool = True) -> None:
        self.can_wait = can_wait
        self.waiting: dict[str, Record] = {}
        self._lock = hold_at_fork(threading.Lock())
        self._pid = os.getpid()

    def add(self, note: Record) -> None:
        """Add a note that waits to be written."""
        with self._lock:
            self._leave_to_parent()
            self.waiting[note.id] = note

    def has(self, id: str, project: str) -> bool:
        """Return whether a note waits. Check it before the store: a note is removed only after it was stored."""
        with self._lock:
            self._leave_to_parent()
            return id in self.waiting and self.waiting[id].project == project

    def take(self, project: str | None = None) -> list[Record]:
        """Return the notes of a project, or of all. They wait until `settle`; two writers may meet in a conflict."""
        with self._lock:
            self._leave_to_parent()
            return [note for note in self.waiting.values() if project in (None, note.project)]

    def settle(self, notes: Sequence[Record]) -> None:
        """Remove notes that were written or given up."""
        with self._lock:
            for note in notes:
                self.waiting.pop(note.id, None)

    def flush(self, store: Store) -> None:
        """Write what waits before the store is closed; log what cannot be written."""
        deadline = time.monotonic() + _CLOSING_SECONDS
        while notes := self.take():
            try:
                store.put(notes)
            except StorageError as error:
                if isinstance(error, BusyError | ConflictError) and time.monotonic() <= deadline:
                    continue
                names = ", ".join(note.id for note in notes)
                _LOG.warning("could not record these retrievals: %s (%s)", names, error)
            self.settle(notes)

    def _leave_to_parent(self) -> None:
        if self._pid != os.getpid():
            self.waiting, self._pid = {}, os.getpid()


Subscriber = Callable[[MemoryEvent], object]


class EventHub:
    """Who hears of events: subscribers in this process, and webhooks. All projects of a memory share one."""

    def __init__(self, webhooks: Sequence[WebhookSettings] = ()) -> None:
        self.webhooks = webhooks
        self.close: Callable[[], None] = lambda: None  # Ends what sends deliveries in the background.
        self._subscribers: dict[object, tuple[Subscriber, frozenset[str]]] = {}

    @property
    def has_listeners(self) -> bool:
        """Whether anybody hears of events. Without, a write makes none."""
        return bool(self.webhooks or self._subscribers)

    def subscribe(self, handler: Subscriber, types: Iterable[str] = DEFAULT_EVENTS) -> Callable[[], object]:
        """Call `handler` with each event of these types from now on; return the function that ends it."""
        key = object()
        self._subscribers[key] = handler, check_event_types(types)
        return lambda: self._subscribers.pop(key, None)

    def publish(self, events: Sequence[MemoryEvent]) -> None:
        """Call the subscribers with events that were stored. An exception of a subscriber is logged."""
        for event in events:
            for handler, types in list(self._subscribers.values()):
                try:
                    if event.type in types:
                        handler(event)
                except Exception:  # noqa: BLE001 - what was stored stays stored
                    _LOG.exception("a subscriber failed on the event %s (%s)", event.id, event.type)


@dataclass(frozen=True, slots=True)
class Engine:
    """The store, embedder, scopes, settings and clock of one project."""

    store: Store
    project: str
    encoder: Encoder | None = None
    scopes: Scopes = field(default_factory=lambda: Scopes({}))
    settings: Settings = field(default_factory=Settings)
    clock: Clock = times.now
    reader: Comparer = field(default_factory=LocalReader)  # Compares texts that are written: strategies, facts.
    notes: Notes = field(default_factory=Notes)
    events: EventHub = field(default_factory=EventHub)
    # By project, as they were read last, with the version of the marker that changes with them.
    tombstones: dict[str, tuple[int, Tombstones]] = field(default_factory=dict)
    # What was counted last, with the revision of the store that it was counted in.
    answers: dict[Hashable, tuple[object, object]] = field(default_factory=dict)
    changed_at: dict[str, datetime] = field(default_factory=dict)  # The time of the last change, by project.
    # By project, the time of the newest change that is dated after tomorrow: the clock was set back since.
    ahead_at: dict[str, datetime | None] = field(default_factory=dict)
    # Whether a person decides here. Without it, no rule, no preference and nothing from outside content becomes active.
    may_approve: bool = True
    approves_calls: bool = False  # Whether a person reads each call, and so accepts what it states.
    actor: str = ""  # Recorded as the author of changes, such as upkeep. If empty, `calls.act_as` names the caller.

    def may_activate(self, record: Record) -> bool:
        """Return whether this caller may make a record active."""
        is_waiting = KINDS[record.kind].is_gated and record.status is not Status.ACTIVE
        return self.may_approve or not (is_waiting or record.provenance.trust is Trust.UNTRUSTED)

    def must_wait(self, kind: str, provenance: Provenance) -> bool:
        """Return whether a new memory waits for a person: outside content, and a person's will in others' words."""
        is_accepted = self.approves_calls or provenance.is_from_person
        return provenance.trust is Trust.UNTRUSTED or (KINDS[kind].is_gated and not is_accepted)

    @property
    def embedder_name(self) -> str:
        """Return the embedder's name; empty without an embedder."""
        return self.encoder.name if self.encoder else ""

    def encode(self, groups: Sequence[Sequence[str]]) -> list[tuple[Vector, ...]]:
        """Vectors for each group of texts; none when there is no embedder."""
        return self.encoder.encode(groups) if self.encoder else [() for _ in groups]

    @property
    def calibration(self) -> Calibration | None:
        """Return the thresholds of an embedder that reads pairs of texts; None for other embedders."""
        return self.encoder.pairs.calibration if self.encoder and self.encoder.pairs else None

    def read_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[PairScores]:
        """Return the scores of pairs of texts; none when the embedder does not read them."""
        return self.encoder.pairs.read_pairs(pairs) if self.encoder and self.encoder.pairs else []

    def score_relevance(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return how relevant the second text of each pair is; nothing when the embedder does not read pairs."""
        return self.encoder.pairs.score_relevance(pairs) if self.encoder and self.encoder.pairs else []

    def compare_closely(self, pairs: Sequence[Pair]) -> list[Relation]:
        """Return one relation for each pair. Slower than `reader`: the embedder reads them too, if it can."""
        if self.encoder and isinstance(self.reader, LocalReader):
            return LocalReader(self.encoder.pairs).compare(pairs)
        return self.reader.compare(pairs)

    def knows(self, text: str) -> bool:
        """Return whether vectors of a text represent its meaning."""
        return self.encoder is not None and self.encoder.knows(text)

    def where(self, *kinds: str, **conditions: Any) -> Where:
        """Return the filter for records of these kinds in this project."""
        return Where(kinds=set(kinds), projects={self.project}, **conditions)

    def within(self, *kinds: str, **conditions: Any) -> Where:
        """Return the filter for records of these kinds in this project, and of what holds in all projects."""
        return Where(kinds=set(kinds), projects={self.project, EVERYWHERE}, **conditions)

    def find_visible(self, user: str | None) -> frozenset[str] | None:
        """Return the users whose facts, preferences, lessons and outcomes a user may find; None: all users."""
        return self.scopes.colleagues(user) if self.settings.share_between_users else visible_users(user)

    def agent(self, name: str) -> str:
        """Return the declared name of an agent."""
        if is_space(name):
            raise ScopeError(f"{name!r} is not an agent: memories have this name once they are promoted")
        declared = self.scopes.canonical(name)
        if declared is None:
            raise ScopeError(unknown("agent", name, self.scopes.known()))
        return declared
