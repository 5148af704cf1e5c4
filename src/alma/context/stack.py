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

from typing import TYPE_CHECKING

from .. import arguments
from ..engine import validate
from ..engine.context import Engine
from ..engine.retrieve.pipeline import retrieve
from ..engine.text import shorten
from .identity import identity
from .story import story

if TYPE_CHECKING:
    from ..core import ALMA

IDENTITY, ESSENTIAL, ON_DEMAND, DEEP = 100, 800, 600, 3000
LEAST, MOST = 30, 100_000
_WIDE = 30


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
        """Who the agent is, where it works, for whom, and what it may learn."""
        return identity(self._engine, self.agent, self.user, self._identity)

    def essential(self) -> str:
        """What matters most of all that is remembered."""
        return story(self._engine, self.agent, self.user, self._essential)

    def wake_up(self) -> str:
        """The first two layers: what a prompt begins with."""
        # The line between the two is paid for by the second.
        return f"{self.identity()}\n{story(self._engine, self.agent, self.user, self._essential - 1)}"

    def on_demand(self, topic: str) -> str:
        """What is known about a topic."""
        return self._recalled(validate.text("topic", topic), "default", None, self._on_demand)

    def deep(self, query: str) -> str:
        """All that has to do with a question, far-fetched things too."""
        return self._recalled(validate.text("query", query), "broad", _WIDE, self._deep)

    def _recalled(self, about: str, mode: str, top_k: int | None, max_tokens: int) -> str:
        given = {"task": about, "agent": self.agent, "user_id": self.user, "mode": mode, "level": "session"}
        found = retrieve(self._engine, arguments.request(self._engine, {**given, "top_k": top_k}))
        return found.to_prompt(max_tokens) or _nothing(about, max_tokens)


def _nothing(about: str, max_tokens: int) -> str:
    # Loaded here: its patterns take a while to compile.
    from ..engine.inject.escape import escape
    from ..engine.inject.prompt import tokens

    told = f"Nothing is remembered about: {escape(shorten(about, 80))}"
    return told if tokens(told) <= max_tokens else "Nothing is remembered about this."
