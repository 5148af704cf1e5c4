"""What a workflow leaves behind: runs, checkpoints, artifacts; and how far one may look for memories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from ..types.record import Record

T = TypeVar("T", "Run", "Checkpoint", "Artifact")

MAIN = "main"


class RunStatus(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Scope(StrEnum):
    """How far one looks; each holds all that the ones before it hold."""

    NODE = "node"
    RUN = "run"
    WORKFLOW = "workflow"
    AGENT = "agent"
    TENANT = "tenant"
    GLOBAL = "global"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One pass through a workflow."""

    run_id: str
    workflow_id: str
    """Empty: nobody said which workflow it is a run of."""
    status: RunStatus
    agent: str = ""
    started_at: datetime
    ended_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The state of a run after a node, on a branch."""

    id: str
    run_id: str
    workflow_id: str
    node_id: str
    branch_id: str
    number: int
    """Counts the checkpoints of a branch from 1, without gaps, whoever writes them."""
    state: dict[str, Any]
    digest: str
    size: int
    """Of the state as JSON, in bytes."""
    parent_id: str | None = None
    """The checkpoint before it on its branch, or the one that the branch began at."""
    agent: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    redacted: tuple[str, ...] = ()
    """Where in the state a secret was taken out; empty: the state is exactly what was given."""
    created_at: datetime
    unchanged: bool = False
    """Nothing was written: this checkpoint already held the same state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """Something a run made that is kept elsewhere: a file, or whatever a URI names."""

    id: str
    run_id: str
    workflow_id: str
    node_id: str
    """Empty: of the run as a whole."""
    name: str
    location: str
    """An absolute path, or a URI."""
    kind: str
    digest: str | None = None
    """`sha256:` and the hexadecimal digest of the content."""
    size: int | None = None
    agent: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime
    updated_at: datetime


_STORED_AS = {
    "workflow_id": "workflow",
    "node_id": "node",
    "branch_id": "branch",
    "parent_id": "parent",
    "location": "path",
}


def decode_record(kind: type[T], record: Record, **values: Any) -> T:
    """Return a value of that kind: its fields are given, or in the record's body, or in the record itself."""
    for part in fields(kind):
        name = _STORED_AS.get(part.name, part.name)
        if part.name not in values and (name in record.body or hasattr(record, name)):
            values[part.name] = record.body[name] if name in record.body else getattr(record, name)
    return kind(run_id=record.session, **values)
