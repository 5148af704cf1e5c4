"""What an agent may learn, and whose memories it may read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


def plain(name: str) -> str:
    return name.strip().casefold()


@dataclass(frozen=True, slots=True)
class MemoryScope:
    agent_name: str
    can_learn: tuple[str, ...] = ()
    """Empty: everything that `cannot_learn` does not name."""
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
        return other in self.share_with


@dataclass(frozen=True, slots=True)
class Scopes:
    """The declared agents. Without any, every name is an agent of its own that may learn everything."""

    agents: Mapping[str, MemoryScope]

    def known(self) -> tuple[str, ...]:
        """Every agent that is declared or named by one that is, in order of appearance."""
        names = dict.fromkeys(self.agents)
        for scope in self.agents.values():
            names |= dict.fromkeys((*scope.share_with, *scope.inherit_from))
        return tuple(names)

    def canonical(self, agent: str) -> str | None:
        """The declared spelling of an agent's name, or None when it is not known."""
        if not self.agents:
            return agent
        names = self.known()
        if agent in names:
            return agent
        return {name.lower(): name for name in names}.get(agent.lower())

    def of(self, agent: str) -> MemoryScope:
        return self.agents.get(agent) or MemoryScope(agent)

    def readable(self, agent: str) -> tuple[str, ...]:
        """The agent itself and all who share with it: reading needs the owner's consent, wanting is not enough."""
        shared = [name for name, scope in self.agents.items() if name != agent and scope.shares_with(agent)]
        return (agent, *shared)

    def unanswered(self) -> list[tuple[str, str]]:
        """(heir, owner) for each `inherit_from` whose owner does not share."""
        return [
            (name, owner)
            for name, scope in self.agents.items()
            for owner in scope.inherit_from
            if not self.of(owner).shares_with(name)
        ]
