"""The scopes of agents, their teams, the filter and the batches of queries to a store, and the hits that it returns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from heapq import nsmallest
from typing import Any, NamedTuple, TypeVar

from .record import Record, Vector, cosine

T = TypeVar("T")


def plain(name: str) -> str:
    """Return a name in the form in which names are compared."""
    return name.strip().casefold()


@dataclass(frozen=True, slots=True)
class MemoryScope:
    """What one agent may learn, and whom it shares memories with."""

    agent_name: str
    can_learn: tuple[str, ...] = ()  # Empty: everything that `cannot_learn` does not name.
    cannot_learn: tuple[str, ...] = ()
    share_with: tuple[str, ...] = ()
    inherit_from: tuple[str, ...] = ()
    min_occurrences_for_heuristic: int | None = None
    domain: str = ""

    def is_allowed(self, category: str) -> bool:
        """Case and space around a category make no difference."""
        if any(plain(name) == plain(category) for name in self.cannot_learn):
            return False
        return not self.can_learn or any(plain(name) == plain(category) for name in self.can_learn)

    def shares_with(self, other: str) -> bool:
        """Return whether the agent shares its memories with another one."""
        return other in self.share_with


PROJECT_WIDE = "project:all"  # The name that memories promoted to the project have in place of their agent's.


@dataclass(frozen=True, slots=True)
class Team:
    """Agents and users who work together, with the role of each user."""

    name: str
    agents: tuple[str, ...] = ()
    users: Mapping[str, str] = field(default_factory=dict)  # Roles by user id; empty: no role.

    @property
    def space(self) -> str:
        """Return the name that memories promoted to the team have in place of their agent's."""
        return f"team:{self.name}"


def is_space(agent: str) -> bool:
    """Return whether a name in place of an agent's says that a memory was promoted. No agent may have such a name."""
    return agent.startswith("team:") or agent == PROJECT_WIDE


@dataclass(frozen=True, slots=True)
class Scopes:
    """The declared agents and teams. Without agents, every name is an agent that may learn everything."""

    agents: Mapping[str, MemoryScope]
    teams: tuple[Team, ...] = field(default=(), kw_only=True)

    def known(self) -> tuple[str, ...]:
        """Return all agents that are declared, or named in a declaration, in order of appearance."""
        names = dict.fromkeys(self.agents)
        for scope in self.agents.values():
            names |= dict.fromkeys((*scope.share_with, *scope.inherit_from))
        if self.agents:
            names |= dict.fromkeys(agent for team in self.teams for agent in team.agents)
        return tuple(names)

    def canonical(self, agent: str) -> str | None:
        """Return the declared spelling of an agent's name, or None when it is not known."""
        if not self.agents:
            return agent
        names = self.known()
        if agent in names:
            return agent
        return {name.lower(): name for name in names}.get(agent.lower())

    def of(self, agent: str) -> MemoryScope:
        """Return the scope of an agent; an undeclared agent may learn everything."""
        return self.agents.get(agent) or MemoryScope(agent)

    def readable(self, agent: str) -> tuple[str, ...]:
        """Return the agent, those that share with it, and its spaces; `inherit_from` alone gives no access."""
        shared = [name for name, scope in self.agents.items() if name != agent and scope.shares_with(agent)]
        return (agent, *shared, *self.spaces(agent))

    def spaces(self, agent: str) -> tuple[str, ...]:
        """Return the spaces of an agent: the names, in place of an agent's, of memories that were promoted to it."""
        return (*(team.space for team in self.teams if agent in team.agents), PROJECT_WIDE)

    def colleagues(self, user: str | None) -> frozenset[str] | None:
        """Return the users whose memories a user sees where memories are shared; None: those of all users."""
        if not any(team.users for team in self.teams):
            return None
        return visible_users(user).union(*(team.users for team in self.teams if user in team.users))

    def names(self, user: str) -> tuple[str, ...]:
        """Return the id of a user and their roles in teams."""
        return tuple(dict.fromkeys((user, *(role for team in self.teams if (role := team.users.get(user))))))

    def unanswered(self) -> list[tuple[str, str]]:
        """(heir, owner) for each `inherit_from` whose owner does not share."""
        return [
            (name, owner)
            for name, scope in self.agents.items()
            for owner in scope.inherit_from
            if not self.of(owner).shares_with(name)
        ]


Names = Collection[str] | None


def visible_users(user: str | None) -> frozenset[str]:
    """Return the users whose records a user sees: their own and those without a user."""
    return frozenset({"", user or ""})


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """A filter for records. All conditions must hold; None is no condition, an empty collection matches nothing."""

    kinds: Names = None
    projects: Names = None
    agents: Names = None
    users: Names = None
    sessions: Names = None
    statuses: Names = None
    keys: Names = None
    embedders: Names = None
    origins: Names = None  # Its provenance has any of these origins.
    linked: Names = None  # Has a link to any of these ids.
    tagged: Names = None  # Carries any of these tags.
    # Its body has these values: texts, numbers, true, false, or None where there is nothing.
    fields: Mapping[str, Any] | None = None
    created_from: datetime | None = None  # Inclusive.
    created_to: datetime | None = None  # Exclusive.
    valid_at: datetime | None = None  # valid_from <= moment < valid_to; an open end always holds.

    def __post_init__(self) -> None:
        for name in _CONDITIONS:
            if isinstance(getattr(self, name), str):
                raise TypeError(f"Where.{name} takes a collection of names, not one string")

    def accepts(self, record: Record) -> bool:
        """Return whether a record meets all conditions."""
        for names, value in (
            (self.kinds, record.kind),
            (self.projects, record.project),
            (self.agents, record.agent),
            (self.users, record.user),
            (self.sessions, record.session),
            (self.statuses, record.status),
            (self.keys, record.key),
            (self.embedders, record.embedder),
            (self.origins, record.provenance.origin),
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


_CONDITIONS = tuple(condition.name for condition in fields(Where))


class Hit(NamedTuple):
    """The id of a record that was found, and its score."""

    id: str
    score: float  # Higher is better. For `nearest` the cosine; for `match` comparable only within one answer.


def rank_nearest(vector: Vector, records: Iterable[Record], limit: int) -> list[Hit]:
    """Return the records whose vectors are nearest, best first; those without a vector of this length are left out."""
    cosines = ((one.id, [cosine(vector, own) for own in one.vectors if len(own) == len(vector)]) for one in records)
    hits = (Hit(id, max(scores)) for id, scores in cosines if scores)
    return nsmallest(limit, hits, key=lambda hit: (-hit.score, hit.id))


def split_batches(
    items: Sequence[T], size: int = 256, progress: Callable[[int, int], object] | None = None
) -> Iterator[Sequence[T]]:
    """Yield the items, so many at a time; after each batch, report how many of all were taken."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
        if progress is not None:
            progress(min(start + size, len(items)), len(items))
