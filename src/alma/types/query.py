"""What a store is asked: a filter, and what it answers with when it ranks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, NamedTuple

from .record import Record

Names = Collection[str] | None


def visible_users(user: str | None) -> frozenset[str]:
    """Return whose records somebody sees: the user's own and those of nobody in particular."""
    return frozenset({"", user or ""})


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Every given condition must hold. None asks for nothing; an empty collection matches nothing."""

    kinds: Names = None
    projects: Names = None
    agents: Names = None
    users: Names = None
    sessions: Names = None
    statuses: Names = None
    keys: Names = None
    embedders: Names = None
    linked: Names = None
    """Has a link to any of these ids."""
    tagged: Names = None
    """Carries any of these tags."""
    fields: Mapping[str, Any] | None = None
    """Its body has these values: texts, numbers, true, false, or None where there is nothing."""
    created_from: datetime | None = None
    """Inclusive."""
    created_to: datetime | None = None
    """Exclusive."""
    valid_at: datetime | None = None
    """valid_from <= moment < valid_to; an open end always holds."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if isinstance(getattr(self, field.name), str):
                raise TypeError(f"Where.{field.name} takes a collection of names, not one string")

    def accepts(self, record: Record) -> bool:
        for names, value in (
            (self.kinds, record.kind),
            (self.projects, record.project),
            (self.agents, record.agent),
            (self.users, record.user),
            (self.sessions, record.session),
            (self.statuses, record.status),
            (self.keys, record.key),
            (self.embedders, record.embedder),
        ):
            if names is not None and value not in names:
                return False
        for names, values in ((self.linked, record.links), (self.tagged, record.tags)):
            if names is not None and not any(value in names for value in values):
                return False
        if self.fields and any(record.body.get(name) != value for name, value in self.fields.items()):
            return False
        if self.created_from is not None and record.created_at < self.created_from:
            return False
        if self.created_to is not None and record.created_at >= self.created_to:
            return False
        if self.valid_at is None:
            return True
        begun = record.valid_from is None or record.valid_from <= self.valid_at
        return begun and (record.valid_to is None or self.valid_at < record.valid_to)


class Hit(NamedTuple):
    id: str
    score: float
    """Higher is better. For `nearest` the cosine; for `match` comparable only within one answer."""
