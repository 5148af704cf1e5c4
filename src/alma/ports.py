"""The protocols that stores, embedders, models and clocks implement for the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from math import exp, log
from os import PathLike
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from .types.asking import Answer, Prompt
from .types.query import Hit, Where
from .types.record import Record, Vector


@runtime_checkable
class Store(Protocol):
    """Keeps records. The in-memory store is the model that every other must agree with (`alma.testing`)."""

    def put(self, records: Sequence[Record]) -> None:
        """Write all or none.

        A record is taken when its version is greater than the one held. Anything else, an equal record too, raises
        ConflictError and nothing is written: two writers who made the same change must count as two.
        """

    def get(self, ids: Sequence[str]) -> list[Record]:
        """Return the records with these ids, in order; unknown ids are left out."""

    def delete(self, ids: Sequence[str]) -> int:
        """Delete records permanently, with their vectors and words; return how many existed."""

    def scan(self, where: Where, limit: int | None = None) -> Iterator[Record]:
        """Newest first by `created_at`, ties by id, greatest first."""

    def nearest(self, vector: Vector, where: Where, limit: int) -> list[Hit]:
        """Return the records whose best vector is closest by cosine: filter, then rank; ties by id, smallest first.

        Records without a vector of this length take no part.
        """

    def close(self) -> None:
        """Close the store."""


@runtime_checkable
class Searchable(Protocol):
    """A store that also ranks by words. Without it the engine ranks words itself."""

    def match(self, words: str, where: Where, limit: int) -> list[Hit]:
        """Return the records that share at least one of the (space-separated) words: filter first, then best first."""


@runtime_checkable
class FindsAllWords(Protocol):
    """A store that finds what holds several words at once, as fast in a large store as in a small one.

    Without it, the engine looks for what holds any of them.
    """

    def match_all(self, words: str, where: Where, limit: int) -> list[str]:
        """Return the ids of records that hold each of the (space-separated) words, newest first; none for no words."""


@runtime_checkable
class FindsNearestByKind(Protocol):
    """A store that finds the nearest of several kinds at once. Without it, the engine searches again for some kinds."""

    def nearest_by_kind(self, vector: Vector, where: Where, limits: Mapping[str, int]) -> Mapping[str, list[Hit]]:
        """Return for each kind in `limits` what `nearest` finds of it, up to its limit."""


@runtime_checkable
class MatchesByKind(Protocol):
    """A store that ranks several kinds by words at once. Without it, the engine searches again for some kinds."""

    def match_by_kind(self, words: str, where: Where, limits: Mapping[str, int]) -> Mapping[str, list[Hit]]:
        """Return for each kind in `limits` what `match` finds of it, up to its limit."""


@runtime_checkable
class Snapshots(Protocol):
    """A store that supports consistent reads. Without it, each read sees the latest state."""

    def snapshot(self) -> AbstractContextManager[None]:
        """All that this thread reads inside belongs to one moment. Nothing may be written inside.

        It begins with the first read. A snapshot inside another is part of it.
        """


@runtime_checkable
class Limited(Protocol):
    """A store that does not keep all promises of `Store`, and says so."""

    limits: Mapping[str, str]
    """Of `atomic`, `many writers` and `persistent` those that are missing: what happens, and what to use instead."""


@runtime_checkable
class Checkable(Protocol):
    """A store that can look for damage in itself."""

    def check(self) -> list[str]:
        """Return the problems, one sentence each; empty if the store is intact."""


@runtime_checkable
class Repairable(Protocol):
    """A store that can complete or remove what a crash left behind."""

    def repair(self) -> int:
        """Repair what `check` reports, and return how many problems there were. Nobody else may write meanwhile."""


@runtime_checkable
class Countable(Protocol):
    """A store that counts without reading. Without it the engine scans."""

    def count(self, where: Where) -> Mapping[tuple[str, str, str], int]:
        """Return how many records there are of each (kind, agent, status)."""


@runtime_checkable
class Copyable(Protocol):
    """A store that can be copied while it is in use."""

    def backup(self, target: str | PathLike[str], progress: Callable[[int, int], None] | None = None) -> None:
        """Copy the current state to a new file; `progress` is called with the amount done and the total."""


@runtime_checkable
class Vacuumable(Protocol):
    """A store whose file may contain deleted content until it is rewritten."""

    def vacuum(self) -> None:
        """Leave no byte of deleted records in the store's files, and give their space back.

        BusyError when another process keeps the old content in use; call again once it has finished.
        """


@runtime_checkable
class Watchable(Protocol):
    """A store that notices writes, so that what was read can be kept until the next one."""

    def revision(self) -> object:
        """Return a value that differs from an earlier one if any process wrote to the store in between."""


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def name(self) -> str:
        """Kept with every record; another name means vectors that cannot be compared."""

    @property
    def dim(self) -> int:
        """Return the dimension of the vectors."""

    @property
    def passage_chars(self) -> int:
        """Return how many characters fit into one vector; longer texts are split into passages."""

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector for each text, in order."""

    def close(self) -> None:
        """Free what the embedder holds."""


@runtime_checkable
class Lingual(Protocol):
    """An embedder that understands some languages only. Any other is taken to understand all."""

    def knows(self, text: str) -> bool:
        """Return whether vectors of the text represent its meaning; otherwise words are compared."""


class ActionProbabilities(NamedTuple):
    """How two strategies relate, as probabilities."""

    same: float
    opposite: float
    variant: float
    different: float


class FactProbabilities(NamedTuple):
    """How a newer statement relates to an older one, as probabilities."""

    agrees: float
    replaces: float
    both: float

    @property
    def topic_log_odds(self) -> float:
        """Return the log-odds that both are about the same thing: that only one of them is needed."""
        return log((self.agrees + self.replaces + _LEAST) / (self.both + _LEAST))


class PairScores(NamedTuple):
    """How two texts relate. `relevance` is the log-odds that the second one matters for the task in the first."""

    relevance: float
    action: ActionProbabilities
    fact: FactProbabilities


class RelevanceWeights(NamedTuple):
    """How probable it is that a memory matters for a task, as weights of a logistic function."""

    read: tuple[float, float, float]  # Of 1, score and nearness, for a memory that was read together with the task.
    unread: tuple[float, float]  # Of 1 and nearness.

    def judge(self, nearness: float, score: float | None = None) -> float:
        """Return the probability, from how near a memory is and, if it was read, its score."""
        if score is None:
            return _from_odds(self.unread[0] + self.unread[1] * nearness)
        return _from_odds(self.read[0] + self.read[1] * score + self.read[2] * nearness)


class Calibration(NamedTuple):
    """What an embedder's figures mean, and from where on they are acted on. Each embedder has its own."""

    known: RelevanceWeights  # In languages that the embedder knows.
    unknown: RelevanceWeights  # In others.
    same: float  # The least probability of two strategies being the same.
    opposite: float
    agrees: float  # The same for statements.
    replaces: float
    alike: tuple[float, float, float]  # Weights of 1, cosine and odds of two statements being about the same thing.

    def judge_alike(self, cosine: float, fact: FactProbabilities) -> float:
        """Return the probability that two statements are about the same thing."""
        return _from_odds(self.alike[0] + self.alike[1] * cosine + self.alike[2] * fact.topic_log_odds)


_LEAST = 1e-6  # Keeps the logarithm of a probability of 0 finite.


def _from_odds(odds: float) -> float:
    return 1.0 / (1.0 + exp(-odds))


@runtime_checkable
class PairReader(Protocol):
    """An embedder that also reads two texts together."""

    @property
    def calibration(self) -> Calibration:
        """Return the thresholds that belong to this embedder."""

    def prepare_pairs(self) -> None:
        """Load what reading pairs needs, so that it takes no lock later."""

    def read_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[PairScores]:
        """Return the scores of each pair, in order."""

    def score_relevance(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return for each pair the log-odds that the second text matters for the task in the first.

        What each text costs alone may be paid once: a retrieval asks this of one task and several memories. The
        calibration of memories that were read belongs to this score, and not to the relevance of `read_pairs`.
        """


@runtime_checkable
class Model(Protocol):
    """A language model that answers a prompt with a value of the prompt's schema."""

    @property
    def name(self) -> str:
        """Return the model's name."""

    def ask(self, prompt: Prompt) -> Answer:
        """One question, one answer that fits `prompt.schema`; ModelError when there is none."""


class Clock(Protocol):
    """Returns the current time, with its time zone."""

    def __call__(self) -> datetime: ...
