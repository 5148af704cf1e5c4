"""The one stored shape: whatever is kept is a `Record` of some kind. Only its kind's codec reads or writes `body`."""

from __future__ import annotations

import base64
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from ..forks import hold_at_fork
from . import times
from .evidence import NONE, Evidence
from .vector import Vector

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

SOURCES = ("user", "agent", "tool", "content", "import")
"""What a person said or wrote; what the agent did or wrote; what a program printed; files, pages, mails and pasted
text; what another memory or a recorded conversation held."""
RELAYED = "relayed"
"""An agent reports what a person said: it is the agent's word, not the person's."""
QUOTED = ("tool", "content")
"""Text from these is shown as quoted data, never as an instruction."""

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
    CANDIDATE = "candidate"
    ACTIVE = "active"
    SUPERSEDED = "superseded"
    ARCHIVED = "archived"
    RETIRED = "retired"


LIVE = (Status.ACTIVE, Status.CANDIDATE)
"""In force, or waiting for a person or for evidence."""


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


class Trust(StrEnum):
    """How far its content may be believed; what is untrusted never stands where an instruction stands."""

    TRUSTED = "trusted"
    LEARNED = "learned"
    UNTRUSTED = "untrusted"


@dataclass(frozen=True, slots=True)
class Provenance:
    origin: Origin = Origin.AGENT
    trust: Trust = Trust.TRUSTED
    episodes: tuple[str, ...] = ()
    source: str = ""

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {"origin": str(self.origin), "trust": str(self.trust)}
        if self.episodes:
            out["episodes"] = list(self.episodes)
        if self.source:
            out["source"] = self.source
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Provenance:
        origin, trust, source = Origin(data["origin"]), Trust(data["trust"]), data.get("source", "")
        canonical = find_source(source) if origin is Origin.AGENT and trust is Trust.TRUSTED else None
        if canonical in QUOTED:
            # Earlier versions believed every source that they did not know by its exact spelling.
            origin, trust = Origin(canonical), Trust.UNTRUSTED
        return cls(origin, trust, tuple(data.get("episodes", ())), source)

    @property
    def weight(self) -> int:
        """How much it counts against other statements: a person's word most, untrusted text nothing."""
        return 0 if self.trust is Trust.UNTRUSTED else _WEIGHTS.get(self.origin, 1)

    @property
    def is_persons(self) -> bool:
        """Whether a person said it."""
        return self.trust is Trust.TRUSTED and self.origin in (Origin.USER, Origin.CORRECTION)

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
    id: str
    kind: str
    project: str
    agent: str = ""
    """Empty: belongs to no agent in particular."""
    user: str = ""
    session: str = ""
    status: Status = Status.ACTIVE
    key: str = ""
    """The kind's own look-up key, such as the fingerprint that finds a duplicate."""
    text: str = ""
    """What is searched; empty for kinds that are not."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """JSON values only."""
    evidence: Evidence = NONE
    provenance: Provenance = field(default_factory=Provenance)
    links: tuple[str, ...] = ()
    """Ids of the records this one points at."""
    tags: tuple[str, ...] = ()
    created_at: datetime
    updated_at: datetime
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    version: int = 1
    superseded_by: str = ""
    embedder: str = ""
    vectors: tuple[Vector, ...] = ()
    """One per passage of the text; the best of them counts. Empty when nothing is embedded."""


_PLAIN = ("id", "kind", "project", "agent", "user", "session", "key", "text", "version", "superseded_by", "embedder")
_TIMES = ("created_at", "updated_at", "valid_from", "valid_to")


def to_json(record: Record) -> dict[str, Any]:
    """The record as JSON values; nothing is lost."""
    out: dict[str, Any] = {name: getattr(record, name) for name in _PLAIN}
    out |= {name: times.to_iso(getattr(record, name)) for name in _TIMES}
    out |= {
        "status": str(record.status),
        "body": dict(record.body),
        "evidence": record.evidence.to_json(),
        "provenance": record.provenance.to_json(),
        "links": list(record.links),
        "tags": list(record.tags),
        "vectors": [base64.b64encode(vector).decode() for vector in record.vectors],
    }
    return out


def from_json(data: Mapping[str, Any]) -> Record:
    moments: dict[str, Any] = {name: times.from_iso(data[name]) for name in _TIMES}
    return Record(
        **{name: data[name] for name in _PLAIN},
        **moments,
        status=Status(data["status"]),
        body=dict(data["body"]),
        evidence=Evidence.from_json(data["evidence"]),
        provenance=Provenance.from_json(data["provenance"]),
        links=tuple(data["links"]),
        tags=tuple(data["tags"]),
        vectors=tuple(base64.b64decode(vector) for vector in data["vectors"]),
    )
