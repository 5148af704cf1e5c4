"""What operations answer where a caller outside Python needs more, or something else, than the method returns."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, TypeVar, cast

from . import words
from .types.kinds import Memory, Rule
from .types.slice import Explanation, MemorySlice

T = TypeVar("T")


def copy_fields(kind: type[T], value: Any, **more: Any) -> T:
    """Return a dataclass with the fields that `value` has under the same names; `more` gives other fields."""
    names = [one.name for one in fields(cast("Any", kind)) if one.name not in more]
    return kind(**{name: getattr(value, name) for name in names}, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a retrieval found."""

    query: str
    agent: str
    retrieval_id: str | None
    """To be named when an outcome is learned with the help of these memories."""
    retrieval_time_ms: float
    total_items: int
    memories: list[Memory]
    explanations: list[Explanation]
    """Why each is here, in the same order."""
    standing_rules: list[Rule] = field(default_factory=list)
    """Rules in force that do not match the task; the prompt shows them, too."""
    prompt: str
    """All of it as Markdown for a prompt; empty when nothing is relevant."""


def to_found(memories: MemorySlice, max_tokens: words.MaxTokens = 2000) -> Found:
    """Return what was retrieved with its prompt."""
    return copy_fields(
        Found,
        memories,
        retrieval_time_ms=round(memories.retrieval_time_ms, 3),
        memories=list(memories),
        explanations=list(memories.explain()),
        prompt=memories.to_prompt(max_tokens),
    )


@dataclass(frozen=True, slots=True)
class Match:
    memory: Memory
    score: float
    """0 to 1: how near it is."""
    reason: str


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Deleted:
    id: str


@dataclass(frozen=True, slots=True)
class ErasedUser:
    user_id: str
    counts: dict[str, int]
    """How many memories of each kind were erased."""


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the history of a memory or a work item."""

    at: datetime
    verb: str
    why: str
    before: dict[str, Any]
    by: str = ""
    """Who changed a work item; empty: it was not said."""
    after: dict[str, Any] = field(default_factory=dict)
    """What a work item has had since."""


@dataclass(frozen=True, slots=True)
class ForgottenMemories:
    count: int
    ids: list[str]
    dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    ok: bool
    version: str
    project_id: str
    memories: int
    embedder: str
    """Its name; empty when memories are found by words only."""
    problems: list[str]


def to_deleted(nothing: None, memory_id: str) -> Deleted:
    return Deleted(memory_id)


def to_erased(counts: dict[str, int], user_id: str) -> ErasedUser:
    return ErasedUser(user_id, counts)


def to_forgotten(gone: Any, dry_run: bool) -> ForgottenMemories:
    return ForgottenMemories(int(gone), list(gone.ids), dry_run)


def to_changes(changes: list[dict[str, Any]]) -> list[Change]:
    return [Change(**one) for one in changes]
