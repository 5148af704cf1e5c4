"""Four layers of memory, each with its own token budget.

from alma.context import MemoryStack

stack = MemoryStack(alma, agent="helena")
prompt = stack.wake_up()

| layer           | budget       | use                              |
|-----------------|--------------|----------------------------------|
| identity        | 100 tokens   | at wake-up                       |
| essential story | 800 tokens   | at wake-up                       |
| on demand       | 600 tokens   | when a topic comes up            |
| deep            | 3,000 tokens | for everything about one subject |

The first two layers rank stored memories without searching or writing, so their text stays the same, byte for byte,
while the memory does not change. The other two are retrievals.

The essential story has a section for each type of memory. Lines are taken in rounds, so that no section crowds out the
others. Within a section, memories that are confident and recently used or confirmed come first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from . import words
from .engine import validate
from .engine.context import Engine
from .engine.escape import escape
from .engine.prompt import quote_data
from .engine.retrieve.pipeline import retrieve
from .engine.retrieve.rank import is_from_person, share_places
from .engine.transaction import scan_records
from .errors import ValidationError
from .memory import ALMA, build_request
from .operations import About, Effect, Group
from .session import describe_reason, describe_rule, rank_memories
from .session.handoff import find_latest
from .text import count_tokens, shorten
from .types.kinds import MemoryType
from .types.query import visible_users
from .types.record import QUOTED, Record, Status
from .types.speech import mark_source
from .words import Text

__all__ = ["MemoryStack"]

IDENTITY, ESSENTIAL, ON_DEMAND, DEEP = 100, 800, 600, 3000
LEAST, MOST = 30, 100_000
_WIDE = 30
_NAMES = 6
_NAME_CHARS = 40
_WEIGHED = 10_000  # The newest of each type to rank; about 40 µs each.
_MAX_LINES = 40  # Maximum lines per section.
_LINE_CHARS = 220
_STATED = (MemoryType.RULE, MemoryType.DOMAIN_KNOWLEDGE)  # What is marked where others than persons wrote some of it.


class MemoryStack:
    """The memory of an agent, optionally for one user, in layers."""

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
        self.agent = alma.engine.agent(validate.name("agent", agent))
        self.user = None if user is None else validate.name("user", user)
        self._identity = validate.whole("identity_tokens", identity_tokens, LEAST, MOST)
        self._essential = validate.whole("essential_tokens", essential_tokens, LEAST, MOST)
        self._on_demand = validate.whole("on_demand_tokens", on_demand_tokens, LEAST, MOST)
        self._deep = validate.whole("deep_tokens", deep_tokens, LEAST, MOST)

    def identity(self) -> str:
        """Return who the agent is, its project, user, domain and what it may learn, within the budget."""
        scope = self._engine.scopes.of(self.agent)
        learns = [one for one in scope.can_learn if scope.is_allowed(one)]
        sentences = [
            (f"You are {_list_names([self.agent])}, in the project ", [self._engine.project]),
            ("You work for ", [self.user] if self.user else []),
            ("Your domain is ", [scope.domain] if scope.domain else []),
            ("You do not learn about ", scope.cannot_learn),
            ("You learn about ", learns),
        ]
        lines: list[str] = []
        for beginning, names in sentences:
            line = f"{beginning}{_list_names(names)}."
            if names and count_tokens("\n".join([*lines, line])) <= self._identity:
                lines.append(line)
        return "\n".join(lines)

    def essential(self) -> str:
        """Return the most important memories."""
        return _write_story(self._engine, self.agent, self.user, self._essential)

    def wake_up(self) -> str:
        """Return the first two layers, to start a prompt with."""
        # The line break between the two counts toward the second.
        return f"{self.identity()}\n{_write_story(self._engine, self.agent, self.user, self._essential - 1)}"

    def on_demand(self, topic: str) -> str:
        """Return what is known about a topic."""
        return self._recall(validate.text("topic", topic), "default", None, self._on_demand)

    def deep(self, query: str) -> str:
        """Return everything related to a question, including loosely related memories."""
        return self._recall(validate.text("query", query), "broad", _WIDE, self._deep)

    def _recall(self, about: str, mode: str, top_k: int | None, max_tokens: int) -> str:
        request = {"task": about, "agent": self.agent, "user_id": self.user, "mode": mode, "level": "session"}
        memories = retrieve(self._engine, build_request(self._engine, {**request, "top_k": top_k}))
        nothing = f"Nothing is remembered about: {escape(shorten(about, 80))}"
        fits = count_tokens(nothing) <= max_tokens
        return memories.to_prompt(max_tokens) or (nothing if fits else "Nothing is remembered about this.")


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(escape(shorten(name, _NAME_CHARS)) for name in names[:_NAMES]) + more


# -- the essential story


def _write_story(engine: Engine, agent: str, user: str | None, max_tokens: int) -> str:
    """Return as many lines as fit the budget."""
    sorts = _list_sorts(engine, agent, user)
    chosen: dict[str, list[str]] = {heading: [] for heading, _, _ in sorts}
    turns = [
        (heading, line)
        for start in range(_MAX_LINES)
        for heading, each, lines in sorts
        for line in lines[start * each : (start + 1) * each]
    ]
    room = max_tokens
    for heading, line in turns:
        # Including the line break.
        cost = count_tokens(f"- {line}\n") + (0 if chosen[heading] else count_tokens(f"## {heading}\n"))
        if cost <= room:
            chosen[heading].append(f"- {line}")
            room -= cost
    parts = [f"## {heading}\n" + "\n".join(lines) for heading, lines in chosen.items() if lines]
    return "\n".join(parts) or "Nothing is remembered yet."


def _list_sorts(engine: Engine, agent: str, user: str | None) -> list[tuple[str, int, list[str]]]:
    """Return each section: its heading, lines per round, and all its lines."""

    def list_lines(kind: MemoryType, describe: Callable[[Record], str]) -> list[str]:
        lines: dict[str, None] = {}
        records = share_places(rank_memories(engine, kind, agent, user, _WEIGHED), _MAX_LINES, is_from_person)
        # Where what persons said stands beside the words of others, or is expected to stand alone, those are marked.
        is_marked = kind is MemoryType.USER_PREFERENCE or (kind in _STATED and any(map(is_from_person, records)))
        for one in records:
            origin = one.provenance.canonical_source
            mark = mark_source(origin) if is_marked else ""
            # Content from programs and files is quoted, except rules, which a person accepted.
            is_quoted = origin in QUOTED and kind is not MemoryType.RULE
            line = _write_line(describe(one), mark)
            lines[quote_data(describe(one), origin, _LINE_CHARS) if is_quoted else line] = None
        return list(lines)

    def add_condition(record: Record, text: str) -> str:
        condition = record.body["condition"]
        return f"{shorten(condition, _LINE_CHARS // 2)}: {text}" if condition else text

    def describe_strategy(record: Record) -> str:
        seen = record.evidence
        proof = f" (worked {seen.successes} of {seen.results} times)" if seen.results else ""
        return add_condition(record, shorten(record.body["strategy"], _LINE_CHARS // 2 - len(proof))) + proof

    def describe_warning(record: Record) -> str:
        pattern = shorten(record.body["pattern"], _LINE_CHARS // 2)
        return add_condition(record, f"avoid {pattern}{describe_reason(record)}")

    last: list[str] = []
    if handoff := find_latest(engine, agent, user):
        last = [f"{handoff.session_end:%Y-%m-%d}, {handoff.last_outcome}: {handoff.last_action}"]
        last += [f"Goal: {handoff.current_goal}"] if handoff.current_goal else []
        last += [f"Blocked by: {'; '.join(handoff.blockers[:3])}"] if handoff.blockers else []
        last += [f"Next: {'; '.join(handoff.next_steps[:3])}"] if handoff.next_steps else []
    wishes = list_lines(MemoryType.USER_PREFERENCE, lambda one: one.body["preference"]) if user else []
    seen = {"users": visible_users(user), "statuses": {Status.ACTIVE}}
    outcomes = [
        f"{one.created_at:%Y-%m-%d}, {one.body['outcome']}: {one.body['task']}: {one.body['strategy']}"
        for one in scan_records(engine, MemoryType.OUTCOME, 10, agents={agent}, **seen)
    ]
    return [
        ("Where you left off", 4, [_write_line(line) for line in last]),
        ("What your user wants", 2, wishes),
        ("What you were taught", 2, list_lines(MemoryType.RULE, describe_rule)),
        ("What works", 2, list_lines(MemoryType.HEURISTIC, describe_strategy)),
        ("What to avoid", 1, list_lines(MemoryType.ANTI_PATTERN, describe_warning)),
        ("What you know", 1, list_lines(MemoryType.DOMAIN_KNOWLEDGE, lambda one: one.body["fact"])),
        ("What happened last", 1, list(dict.fromkeys(map(_write_line, outcomes)))),
    ]


def _write_line(text: str, mark: str = "") -> str:
    return escape(shorten(text, _LINE_CHARS - len(mark))) + mark


# -- as operations

operation = Group("sessions")


@operation(Effect.READS)
def wake_up(
    alma: Any,
    agent: words.Agent,
    user_id: words.User = None,
    topic: Annotated[str | None, About("return what is known about this, in up to 600 tokens")] = None,
    deep: Annotated[bool, About("with a topic: include loosely related memories, in up to 3,000 tokens")] = False,
) -> Text:
    """Return the start of a prompt: who the agent is and its most important memories, in up to 900 tokens.

    With a topic, returns what is known about it.
    """
    stack = MemoryStack(alma, agent, user_id)
    if deep and not topic:
        raise ValidationError("deep requires a topic")
    return Text(stack.wake_up() if not topic else stack.deep(topic) if deep else stack.on_demand(topic))
