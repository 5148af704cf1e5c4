"""The four parts of a harness, and what comes out of a run.

The setting is fixed, the context is new each time, the agent does the work, and the memory schema says what of the
memory belongs to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..engine import validate
from ..errors import ValidationError, unknown
from ..types.kinds import MemoryType, Outcome
from ..types.scope import MemoryScope, plain
from ..types.slice import MemorySlice


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str = ""

    def __post_init__(self) -> None:
        validate.name("tool name", self.name)


@dataclass(frozen=True, slots=True)
class Setting:
    """What is the same in every run."""

    tools: Iterable[Tool | str] = ()
    constraints: Iterable[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """What the agent should know about where it works, by name: `{"python": "3.12"}`."""

    def __post_init__(self) -> None:
        if isinstance(self.tools, str) or isinstance(self.constraints, str):
            raise ValidationError("tools and constraints must be lists, not one text")
        object.__setattr__(self, "tools", tuple(Tool(one) if isinstance(one, str) else one for one in self.tools))
        object.__setattr__(self, "constraints", tuple(validate.text("constraint", one) for one in self.constraints))
        if not isinstance(self.environment, Mapping):
            raise ValidationError(f"environment must be a mapping, not {type(self.environment).__name__}")


@dataclass(frozen=True, slots=True)
class Context:
    """What one run is about."""

    task: str
    project_id: str | None = None
    """The project the task is about. It is told to the executor and kept with the outcome; which memory is used is
    decided by the memory that the harness was given."""
    user_id: str | None = None
    session_id: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    constraints: Iterable[str] = ()
    task_type: str | None = None
    """One of the domain's learning categories; None: the one whose words the task uses, if there is one."""
    strategy: str | None = None
    """How the task is to be done, when that is known before."""

    def __post_init__(self) -> None:
        validate.text("task", self.task)
        for label in ("project_id", "user_id", "session_id", "task_type"):
            value = getattr(self, label)
            if value is not None:
                validate.name(label, value)
        if self.strategy is not None:
            validate.text("strategy", self.strategy)
        if not isinstance(self.inputs, Mapping):
            raise ValidationError(f"inputs must be a mapping, not {type(self.inputs).__name__}")
        if isinstance(self.constraints, str):
            raise ValidationError("constraints must be a list, not one text")
        object.__setattr__(self, "constraints", tuple(validate.text("constraint", one) for one in self.constraints))


@dataclass(frozen=True, slots=True)
class Agent:
    """Who does the work, and what it may learn."""

    name: str
    role: str = ""
    scope: MemoryScope | None = None
    """None: as it is declared in the memory's configuration."""

    def __post_init__(self) -> None:
        validate.name("agent", self.name)


@dataclass(frozen=True, slots=True)
class MemorySchema:
    """What a domain learns, and what of its memory is put before the agent."""

    domain: str
    categories: tuple[str, ...] = ()
    """What may be learned; empty: anything that is not excluded."""
    excluded: tuple[str, ...] = ()
    inject: Iterable[MemoryType | str] | None = None
    """Which types of memory go into the prompt; None: all."""
    top_k: int | None = None
    max_tokens: int = 2000
    """So long may the memories in the prompt be."""

    def __post_init__(self) -> None:
        validate.name("domain", self.domain)
        validate.whole("max_tokens", self.max_tokens, 1, 1_000_000)
        if self.inject is not None:
            types = tuple(validate.choice("type", one, MemoryType) for one in validate.names("inject", self.inject))
            object.__setattr__(self, "inject", types)

    def allows(self, category: str, scope: MemoryScope) -> bool:
        """Whether the agent may learn it here: of the domain or declared for the agent, and forbidden by nobody."""
        known = {plain(one) for one in (*self.categories, *scope.can_learn)}
        excluded = plain(category) in map(plain, self.excluded)
        return not excluded and scope.is_allowed(category) and (not self.categories or plain(category) in known)

    def category(self, given: str, scope: MemoryScope) -> str:
        """A category as the domain spells it, or an error that names the valid ones."""
        known = {plain(one): one for one in (*scope.can_learn, *self.categories)}
        if self.allows(given, scope):
            return known.get(plain(given), given)
        valid = [one for one in known.values() if self.allows(one, scope)]
        forbidden = ", ".join((*self.excluded, *scope.cannot_learn))
        what = f"task_type of {scope.agent_name!r} in the domain {self.domain!r}"
        raise ValidationError(unknown(what, given, valid or [f"anything but {forbidden}"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessResult:
    """What an executor may return to say more than its output."""

    output: Any = None
    success: bool = True
    outcome: str | None = None
    """'success', 'partial' or 'failure'; None: as `success` says."""
    strategy: str | None = None
    error: str | None = None
    feedback: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a run went."""

    success: bool | None
    """None: nothing was executed, or the executor's report could not be understood."""
    output: Any = None
    prompt: str
    memories: MemorySlice | None = None
    """None: they could not be read."""
    outcome: Outcome | None = None
    """What was learned; None: nothing was."""
    strategy: str | None = None
    error: str | None = None
    """Why it failed, without secrets."""
    exception: Exception | None = field(default=None, repr=False)
    """What the executor raised."""
    duration_ms: int | None = None
    retrieval_id: str | None = None
    problem: str | None = None
    """What the memory could not do. The executor's result is not touched by it."""
