"""`MemoryStack`: memory in four layers, each within its budget.

| layer           | about        | when                                    |
|-----------------|--------------|-----------------------------------------|
| identity        | 100 tokens   | at wake-up                              |
| essential story | 800 tokens   | at wake-up                              |
| on demand       | 600 tokens   | when a topic comes up                   |
| deep            | 3,000 tokens | when everything about something matters |

The first two read what is held and rank it by what is known of each memory; nothing is searched and nothing is written,
so the text stays the same, byte by byte, while nothing changes. The other two are retrievals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import arguments
from ..engine import validate
from ..engine.context import Engine
from ..engine.inject.escape import escape
from ..engine.inject.prompt import tokens
from ..engine.retrieve.pipeline import retrieve
from ..text import shorten
from .story import write_story

if TYPE_CHECKING:
    from ..core import ALMA

IDENTITY, ESSENTIAL, ON_DEMAND, DEEP = 100, 800, 600, 3000
LEAST, MOST = 30, 100_000
_WIDE = 30
_NAMES = 6
_NAME_CHARS = 40


class MemoryStack:
    """The memory of one agent, perhaps as it serves one user, in layers."""

    def __init__(
        self,
        alma: ALMA,
        agent: str,
        user: str | None = None,
        *,
        identity_tokens: int = IDENTITY,
        essential_tokens: int = ESSENTIAL,
        on_demand_tokens: int = ON_DEMAND,
        deep_tokens: int = DEEP,
    ) -> None:
        self._engine: Engine = alma.engine
        self.agent = arguments.agent(alma.engine, agent)
        self.user = None if user is None else validate.name("user", user)
        self._identity = validate.whole("identity_tokens", identity_tokens, LEAST, MOST)
        self._essential = validate.whole("essential_tokens", essential_tokens, LEAST, MOST)
        self._on_demand = validate.whole("on_demand_tokens", on_demand_tokens, LEAST, MOST)
        self._deep = validate.whole("deep_tokens", deep_tokens, LEAST, MOST)

    def identity(self) -> str:
        """Who the agent is, where it works, for whom, and what it may learn: the sentences there is room for."""
        scope = self._engine.scope(self.agent)
        learns = [one for one in scope.can_learn if scope.is_allowed(one)]
        sentences = [f"You are {_list_names([self.agent])}, in the project {_list_names([self._engine.project])}."]
        sentences += [f"You work for {_list_names([self.user])}."] if self.user is not None else []
        sentences += [f"Your domain is {_list_names([scope.domain])}."] if scope.domain else []
        sentences += [f"You do not learn about {_list_names(scope.cannot_learn)}."] if scope.cannot_learn else []
        sentences += [f"You learn about {_list_names(learns)}."] if learns else []
        lines: list[str] = []
        for sentence in sentences:
            if tokens("\n".join([*lines, sentence])) <= self._identity:
                lines.append(sentence)
        return "\n".join(lines)

    def essential(self) -> str:
        """What matters most of all that is remembered."""
        return write_story(self._engine, self.agent, self.user, self._essential)

    def wake_up(self) -> str:
        """The first two layers: what a prompt begins with."""
        # The line between the two is paid for by the second.
        return f"{self.identity()}\n{write_story(self._engine, self.agent, self.user, self._essential - 1)}"

    def on_demand(self, topic: str) -> str:
        """What is known about a topic."""
        return self._recall(validate.text("topic", topic), "default", None, self._on_demand)

    def deep(self, query: str) -> str:
        """All that has to do with a question, far-fetched things too."""
        return self._recall(validate.text("query", query), "broad", _WIDE, self._deep)

    def _recall(self, about: str, mode: str, top_k: int | None, max_tokens: int) -> str:
        given = {"task": about, "agent": self.agent, "user_id": self.user, "mode": mode, "level": "session"}
        memories = retrieve(self._engine, arguments.request(self._engine, {**given, "top_k": top_k}))
        nothing = f"Nothing is remembered about: {escape(shorten(about, 80))}"
        fits = tokens(nothing) <= max_tokens
        return memories.to_prompt(max_tokens) or (nothing if fits else "Nothing is remembered about this.")


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(escape(shorten(name, _NAME_CHARS)) for name in names[:_NAMES]) + more
