"""Only as much memory as is needed: four layers, each within its budget.

from alma.context import MemoryStack

stack = MemoryStack(alma, agent="helena")
prompt = stack.wake_up()

| layer           | about        | when                                    |
|-----------------|--------------|-----------------------------------------|
| identity        | 100 tokens   | at wake-up                              |
| essential story | 800 tokens   | at wake-up                              |
| on demand       | 600 tokens   | when a topic comes up                   |
| deep            | 3,000 tokens | when everything about something matters |

The first two read what is held and rank it by what is known of each memory; nothing is searched and nothing is written,
so the text stays the same, byte by byte, while nothing changes. The other two are retrievals.

In the essential story each sort of memory has its place, and lines are taken in turns, so that many long ones of one
sort leave room for the others. Within a sort the strongest come first: what is believed, and was confirmed or used
lately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from . import words
from .engine import validate
from .engine.context import Engine
from .engine.escape import escape
from .engine.prompt import count_tokens, quote_data
from .engine.retrieve.pipeline import retrieve
from .engine.transaction import scan_records
from .errors import ValidationError
from .memory import ALMA, build_request
from .operations import About, Effect, Group
from .session import describe_reason, describe_rule, rank_memories
from .session.handoff import find_latest
from .text import shorten
from .types.kinds import MemoryType
from .types.query import visible_users
from .types.record import QUOTED, Record, Status
from .words import Text

__all__ = ["MemoryStack"]

IDENTITY, ESSENTIAL, ON_DEMAND, DEEP = 100, 800, 600, 3000
LEAST, MOST = 30, 100_000
_WIDE = 30
_NAMES = 6
_NAME_CHARS = 40
_WEIGHED = 10_000  # So many of each sort are weighed, the newest: some 40 µs each.
_TOLD = 40  # Of each sort at most so many lines.
_LINE_CHARS = 220


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
        self.agent = alma.engine.agent(validate.name("agent", agent))
        self.user = None if user is None else validate.name("user", user)
        self._identity = validate.whole("identity_tokens", identity_tokens, LEAST, MOST)
        self._essential = validate.whole("essential_tokens", essential_tokens, LEAST, MOST)
        self._on_demand = validate.whole("on_demand_tokens", on_demand_tokens, LEAST, MOST)
        self._deep = validate.whole("deep_tokens", deep_tokens, LEAST, MOST)

    def identity(self) -> str:
        """Who the agent is, where it works, for whom, and what it may learn: the sentences there is room for."""
        scope = self._engine.scope(self.agent)
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
        """What matters most of all that is remembered."""
        return _write_story(self._engine, self.agent, self.user, self._essential)

    def wake_up(self) -> str:
        """The first two layers: what a prompt begins with."""
        # The line between the two is paid for by the second.
        return f"{self.identity()}\n{_write_story(self._engine, self.agent, self.user, self._essential - 1)}"

    def on_demand(self, topic: str) -> str:
        """What is known about a topic."""
        return self._recall(validate.text("topic", topic), "default", None, self._on_demand)

    def deep(self, query: str) -> str:
        """All that has to do with a question, far-fetched things too."""
        return self._recall(validate.text("query", query), "broad", _WIDE, self._deep)

    def _recall(self, about: str, mode: str, top_k: int | None, max_tokens: int) -> str:
        given = {"task": about, "agent": self.agent, "user_id": self.user, "mode": mode, "level": "session"}
        memories = retrieve(self._engine, build_request(self._engine, {**given, "top_k": top_k}))
        nothing = f"Nothing is remembered about: {escape(shorten(about, 80))}"
        fits = count_tokens(nothing) <= max_tokens
        return memories.to_prompt(max_tokens) or (nothing if fits else "Nothing is remembered about this.")


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(escape(shorten(name, _NAME_CHARS)) for name in names[:_NAMES]) + more


# -- the essential story


def _write_story(engine: Engine, agent: str, user: str | None, max_tokens: int) -> str:
    """Return the lines there is room for; what cannot be told any shorter is left out."""
    sorts = _list_sorts(engine, agent, user)
    chosen: dict[str, list[str]] = {heading: [] for heading, _, _ in sorts}
    turns = [
        (heading, line)
        for start in range(_TOLD)
        for heading, each, lines in sorts
        for line in lines[start * each : (start + 1) * each]
    ]
    room = max_tokens
    for heading, line in turns:
        # Each with the line break after it.
        cost = count_tokens(f"- {line}\n") + (0 if chosen[heading] else count_tokens(f"## {heading}\n"))
        if cost <= room:
            chosen[heading].append(f"- {line}")
            room -= cost
    parts = [f"## {heading}\n" + "\n".join(lines) for heading, lines in chosen.items() if lines]
    return "\n".join(parts) or "Nothing is remembered yet."


def _list_sorts(engine: Engine, agent: str, user: str | None) -> list[tuple[str, int, list[str]]]:
    """Return each sort of memory: its heading, how many lines it gets in each round, and its lines."""

    def list_lines(kind: MemoryType, describe: Callable[[Record], str]) -> list[str]:
        lines: dict[str, None] = {}
        for one in rank_memories(engine, kind, agent, user, _WEIGHED)[:_TOLD]:
            origin = one.provenance.canonical_source
            # What comes from programs and files is quoted; a rule from there was accepted by a person.
            is_quoted = origin in QUOTED and kind is not MemoryType.RULE
            lines[quote_data(describe(one), origin, _LINE_CHARS) if is_quoted else _write_line(describe(one))] = None
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
        return add_condition(record, f"not {pattern}{describe_reason(record)}")

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


def _write_line(text: str) -> str:
    return escape(shorten(text, _LINE_CHARS))


# -- as operations

operation = Group("sessions")


@operation(Effect.READS)
def wake_up(
    alma: Any,
    agent: words.Agent,
    user_id: words.User = None,
    topic: Annotated[str | None, About("instead: what is known about this, within 600 tokens")] = None,
    deep: Annotated[bool, About("with a topic: everything, far-fetched things too, within 3,000 tokens")] = False,
) -> Text:
    """Who an agent is and what matters most of all it remembers, within 900 tokens: what a prompt begins with.

    With a topic, what is known about that.
    """
    stack = MemoryStack(alma, agent, user_id)
    if deep and not topic:
        raise ValidationError("deep goes with a topic")
    return Text(stack.wake_up() if not topic else stack.deep(topic) if deep else stack.on_demand(topic))
