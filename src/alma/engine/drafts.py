"""What writers propose, before it is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ..types.kinds import MemoryType, Result
from ..types.record import Origin, Provenance
from ..types.vector import Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Something to be kept as it is told."""

    kind: str
    body: Mapping[str, Any]
    agent: str = ""
    user: str = ""
    session: str = ""
    category: str = ""
    """What the agent's `can_learn` and `cannot_learn` are asked about; empty: nothing to ask."""
    key: str = ""
    """Finds the same memory when it is told again; set when the draft is screened."""
    provenance: Provenance = field(default_factory=Provenance)
    tags: tuple[str, ...] = ()
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    vectors: tuple[Vector, ...] = ()
    """Set when the draft is prepared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeDraft:
    """A task that was done: how, and how it went."""

    agent: str
    task: str
    strategy: str
    result: Result
    task_type: str = ""
    duration_ms: int | None = None
    error: str | None = None
    feedback: str | None = None
    retrieval: str | None = None
    idempotency_key: str | None = None
    """Recorded once under this key, however often it is sent."""
    user: str = ""
    shared: bool = False
    """Whether it counts for the lessons of all users, not only for those of its own."""
    session: str = ""
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A heuristic or an anti-pattern that somebody states instead of letting it be learned."""

    kind: MemoryType
    agent: str
    condition: str
    strategy: str
    user: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)
    category: str = ""
    provenance: Provenance = field(default_factory=lambda: Provenance(Origin.USER))
    tags: tuple[str, ...] = ()
