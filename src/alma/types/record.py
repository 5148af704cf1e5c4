"""The stored form of everything: a `Record` of some kind. Only the codec of its kind reads or writes `body`.

Its vectors are int8 codes: one signed byte per dimension, scaled so that the largest component is 127. Only the
direction of a vector means anything, so no scale is stored and every store ranks on exactly the same numbers: the dot
product of two codes is an integer.

Its evidence is what is known for or against it: counts and when. Scores are computed from that, never stored.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from operator import mul
from typing import Any, NamedTuple

from ..forks import hold_at_fork
from . import times
from .times import from_micros, to_micros

# --- vectors ---------------------------------------------------------------------------------------

Vector = bytes


def quantize(values: Sequence[float]) -> Vector:
    """Return a vector as one signed byte for each value, scaled to the largest."""
    peak = max(map(abs, values), default=0.0)
    if not math.isfinite(peak) or not all(map(math.isfinite, values)):
        raise ValueError("a vector contains a value that is not finite")
    if peak == 0.0:
        return bytes(len(values))
    return bytes(round(127 * value / peak) & 0xFF for value in values)


def codes(vector: Vector) -> memoryview:
    """Return the signed bytes of a vector."""
    return memoryview(vector).cast("b")


@lru_cache(maxsize=1024)
def norm(vector: Vector) -> float:
    """Return the length of a vector."""
    own = codes(vector)
    return math.sqrt(sum(map(mul, own, own)))


def cosine(a: Vector, b: Vector) -> float:
    """Return the cosine of two vectors of the same dimension; 0 if one is zero."""
    if len(a) != len(b):
        raise ValueError(f"vectors of {len(a)} and {len(b)} dimensions cannot be compared")
    scale = norm(a) * norm(b)
    return sum(map(mul, codes(a), codes(b))) / scale if scale else 0.0


def cosines(vectors: Sequence[Vector], others: Sequence[Vector]) -> list[list[float]]:
    """Return the cosine of each vector with each of the others, which have the same length."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not vectors or not others:
        return [[cosine(one, other) for other in others] for one in vectors]
    # In float64 the sums of products of codes are exact. A matrix product would start threads, which take longer.
    first, second = (
        numpy.frombuffer(b"".join(some), numpy.int8).reshape(len(some), -1).astype(numpy.float64)
        for some in (vectors, others)
    )
    lengths = [numpy.sqrt(numpy.einsum("ij,ij->i", codes, codes)) for codes in (first, second)]
    products, scales = numpy.einsum("ij,kj->ik", first, second), numpy.outer(*lengths)
    table: list[list[float]] = (products / numpy.where(scales == 0.0, 1.0, scales)).tolist()
    return table


def unit(vector: Vector) -> list[float]:
    """Return the vector as floats of length 1."""
    scale = norm(vector)
    return [code / scale for code in codes(vector)] if scale else [0.0] * len(vector)


# --- evidence --------------------------------------------------------------------------------------

RECENT = 32


@dataclass(frozen=True, slots=True)
class Evidence:
    """The results and feedback that were recorded for a record."""

    successes: int = 0
    partials: int = 0
    failures: int = 0
    uses: int = 0
    skips: int = 0
    ups: int = 0
    downs: int = 0
    # The last results, oldest first: (seconds since the epoch, 1.0 success | 0.5 partial | 0.0 failure).
    recent: tuple[tuple[float, float], ...] = ()
    last_used: datetime | None = None

    @property
    def results(self) -> int:
        """Return how many results were recorded."""
        return self.successes + self.partials + self.failures

    def with_result(self, value: float, at: datetime) -> Evidence:
        """Return the evidence with one more result."""
        count = "successes" if value >= 1.0 else "failures" if value <= 0.0 else "partials"
        recent = (*self.recent, (at.timestamp(), value))[-RECENT:]
        return replace(self, **{count: getattr(self, count) + 1}, recent=recent)

    def with_results_of(self, other: Evidence) -> Evidence:
        """Return this evidence with the results of another one; uses and ratings stay."""
        names = ("successes", "partials", "failures", "recent")
        return replace(self, **{name: getattr(other, name) for name in names})

    def to_json(self) -> dict[str, Any]:
        """Return the evidence as JSON values, without counts that are 0."""
        out: dict[str, Any] = {name: value for name in COUNTS if (value := getattr(self, name))}
        if self.recent:
            out["recent"] = [[float(at), value] for at, value in self.recent]
        if self.last_used is not None:
            out["last_used"] = to_micros(self.last_used)
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Evidence:
        """Return the evidence that `to_json` wrote."""
        if not data:
            return NONE
        last_used = data.get("last_used")
        return cls(
            **{name: int(data[name]) for name in COUNTS if name in data},
            recent=tuple((float(at), float(value)) for at, value in data.get("recent", ())),
            last_used=None if last_used is None else from_micros(last_used),
        )


COUNTS = ("successes", "partials", "failures", "uses", "skips", "ups", "downs")
NONE = Evidence()


class Belief(NamedTuple):
    """How much is believed: the mean of a posterior and the interval that holds nine tenths of it."""

    mean: float
    low: float
    high: float


# --- ids -------------------------------------------------------------------------------------------

# Ids sort by the moment they were made: a prefix that tells the kind, 48 bits of milliseconds, 80 random bits.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]
_lock = hold_at_fork(threading.Lock())
_last = 0


def new_id(prefix: str) -> str:
    """Return a fresh id, greater than every id this process made before."""
    global _last
    fresh = (time.time_ns() // 1_000_000 << 80) | int.from_bytes(os.urandom(10), "big")
    with _lock:
        # Within one millisecond, or when the clock steps back, count on from the last one.
        _last = fresh if fresh > _last else _last + 1
        value = _last
    # 128 bits as 26 characters that sort like the number.
    return f"{prefix}_{''.join([_PAIRS[value >> shift & 1023] for shift in range(120, -1, -10)])}"


# --- where it came from ----------------------------------------------------------------------------

# What a person said or wrote; what the agent did or wrote; what a program printed; files, pages, mails and pasted text;
# what another memory or a recorded conversation held.
SOURCES = ("user", "agent", "tool", "content", "import")
RELAYED = "relayed"  # An agent reports what a person said: it is the agent's word, not the person's.
QUOTED = ("tool", "content")  # Text from these is shown as quoted data, never as an instruction.

_OTHER_NAMES = {
    "user": "user_stated stated user_said explicit_instruction explicit instruction correction user_correction person "
    "human",
    "agent": f"{RELAYED} assistant ai model llm learned inferred observed agent_guess code_analysis analysis outcome",
    "tool": "tool_output tool_result tool_call program program_output command command_output output shell terminal "
    "stdout stderr log logs ci",
    "content": "file files document documents doc docs documentation readme markdown pdf code source_code repository "
    "web webpage web_page web_search website page url link html wiki internet search search_result email mail "
    "attachment message slack ticket issue comment review paste pasted clipboard external third_party untrusted",
    "import": "imported conversation chat transcript episode export backup migration",
}
_ALIASES: Mapping[str, str] = {name: name for name in SOURCES} | {
    alias.replace("_", ""): name for name, aliases in _OTHER_NAMES.items() for alias in aliases.split()
}


def find_source(name: str) -> str | None:
    """Return the source that a name stands for, in any case and with any separators; None for an unknown name."""
    return _ALIASES.get("".join(sign for sign in name.casefold() if sign.isalnum()))


class Status(StrEnum):
    """Whether a record is in use."""

    CANDIDATE = "candidate"
    ACTIVE = "active"
    SUPERSEDED = "superseded"
    ARCHIVED = "archived"
    RETIRED = "retired"


LIVE = (Status.ACTIVE, Status.CANDIDATE)  # In force, or waiting for a person or for evidence.


class Origin(StrEnum):
    """Where a record came from."""

    OUTCOME = "outcome"
    CORRECTION = "correction"
    USER = "user"
    AGENT = "agent"
    IMPORT = "import"
    MODEL = "model"
    TOOL = "tool"
    CONTENT = "content"
    SYSTEM = "system"


PERSONS = (Origin.USER, Origin.CORRECTION)  # The origins of what a person said.


class Trust(StrEnum):
    """How far a record is trusted. Untrusted text never appears where a prompt gives instructions."""

    TRUSTED = "trusted"
    LEARNED = "learned"
    UNTRUSTED = "untrusted"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a record came from, and how far it is trusted."""

    origin: Origin = Origin.AGENT
    trust: Trust = Trust.TRUSTED
    episodes: tuple[str, ...] = ()
    source: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the provenance as JSON values."""
        out: dict[str, Any] = {"origin": str(self.origin), "trust": str(self.trust)}
        if self.episodes:
            out["episodes"] = list(self.episodes)
        if self.source:
            out["source"] = self.source
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Provenance:
        """Return the provenance that `to_json` wrote."""
        origin, trust, source = Origin(data["origin"]), Trust(data["trust"]), data.get("source", "")
        canonical = find_source(source) if origin is Origin.AGENT and trust is Trust.TRUSTED else None
        if canonical in QUOTED:
            # Earlier versions believed every source that they did not know by its exact spelling.
            origin, trust = Origin(canonical), Trust.UNTRUSTED
        return cls(origin, trust, tuple(data.get("episodes", ())), source)

    @property
    def weight(self) -> int:
        """Return the weight against other statements: highest for a person's, 0 for untrusted text."""
        return 0 if self.trust is Trust.UNTRUSTED else _WEIGHTS.get(self.origin, 1)

    @property
    def is_persons(self) -> bool:
        """Return whether a person stated it."""
        return self.trust is Trust.TRUSTED and self.origin in PERSONS

    @property
    def is_from_person(self) -> bool:
        """Return whether it is a person's word: stated by a person, or heard from one in a conversation."""
        return self.canonical_source == "user"

    @property
    def canonical_source(self) -> str:
        """One of `SOURCES`."""
        if self.trust is Trust.UNTRUSTED:
            return "tool" if self.origin is Origin.TOOL else "content"
        return _CANONICAL.get(self.origin, str(self.origin))


_WEIGHTS = {Origin.USER: 3, Origin.CORRECTION: 3, Origin.AGENT: 2}
_CANONICAL = {Origin.CORRECTION: "user", Origin.OUTCOME: "agent", Origin.MODEL: "agent", Origin.SYSTEM: "agent"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The stored form of everything that a store holds."""

    id: str
    kind: str
    project: str
    agent: str = ""  # Empty: belongs to no agent in particular.
    user: str = ""
    session: str = ""
    status: Status = Status.ACTIVE
    key: str = ""  # The kind's own look-up key, such as the fingerprint that finds a duplicate.
    text: str = ""  # What is searched; empty for kinds that are not.
    body: Mapping[str, Any] = field(default_factory=dict)  # JSON values only.
    evidence: Evidence = NONE
    provenance: Provenance = field(default_factory=Provenance)
    links: tuple[str, ...] = ()  # Ids of the records this one points at.
    tags: tuple[str, ...] = ()
    created_at: datetime
    updated_at: datetime
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    version: int = 1
    superseded_by: str = ""
    embedder: str = ""
    # One per passage of the text; the best of them counts. Empty when nothing is embedded.
    vectors: tuple[Vector, ...] = ()


def _keep_value(value: Any) -> Any:
    return value


_PLAIN = "id kind project agent user session key text version superseded_by embedder".split()
_TIMES = ("created_at", "updated_at", "valid_from", "valid_to")
# For each field: the function that makes a JSON value of it, and the one that reads it.
CODECS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    **dict.fromkeys(_PLAIN, (_keep_value, _keep_value)),
    **dict.fromkeys(_TIMES, (times.to_iso, times.from_iso)),
    "status": (str, Status),
    "body": (dict, dict),
    "evidence": (Evidence.to_json, Evidence.from_json),
    "provenance": (Provenance.to_json, Provenance.from_json),
    "links": (list, tuple),
    "tags": (list, tuple),
    "vectors": (lambda some: [b64encode(one).decode() for one in some], lambda some: tuple(map(b64decode, some))),
}


def to_json(record: Record) -> dict[str, Any]:
    """Return the record as JSON values; nothing is lost."""
    return {name: encode(getattr(record, name)) for name, (encode, _) in CODECS.items()}


def from_json(data: Mapping[str, Any]) -> Record:
    """Return the record that `to_json` wrote."""
    return Record(**{name: decode(data[name]) for name, (_, decode) in CODECS.items()})
