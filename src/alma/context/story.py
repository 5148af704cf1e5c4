"""The second layer: the essential story, chosen from all that is held without searching for anything.

Each sort of memory has its place in the story, and lines are taken in turns, so that many long ones of one sort leave
room for the others. Within a sort the strongest come first: what is believed, and was confirmed or used lately.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from heapq import nsmallest
from typing import NamedTuple

from ..engine.context import Engine
from ..engine.evidence import strength
from ..engine.inject.escape import escape
from ..engine.inject.prompt import tokens
from ..engine.inject.quote import quote_data
from ..engine.rule_lines import describe_occasion
from ..engine.rules import list_standing_rules
from ..engine.text import shorten
from ..types.kinds import MemoryType, Result, quoted_why
from ..types.query import Where, visible_users
from ..types.record import Record, Status
from ..types.sources import QUOTED

_WEIGHED = 10_000
"""So many of each sort are weighed, the newest: some 40 µs each."""
_TOLD = 40
"""Of each sort at most so many lines."""
_LINE_CHARS = 220
_EMPTY = "Nothing is remembered yet."

Told = Callable[[Record], str]


class Sort(NamedTuple):
    heading: str
    turns: int
    """How many lines it gets in each round."""
    lines: list[str]


def story(engine: Engine, agent: str, user: str | None, max_tokens: int) -> str:
    """The lines there is room for; what cannot be told any shorter is left out."""
    sorts = _sorts(engine, agent, user)
    taken: dict[str, list[str]] = {sort.heading: [] for sort in sorts}
    room = max_tokens
    for sort, line in _in_turns(sorts):
        cost = _cost(f"- {line}") + (0 if taken[sort.heading] else _cost(f"## {sort.heading}"))
        if cost <= room:
            taken[sort.heading].append(f"- {line}")
            room -= cost
    told = [f"## {heading}\n" + "\n".join(lines) for heading, lines in taken.items() if lines]
    return "\n".join(told) or _EMPTY


def _cost(line: str) -> int:
    """With the line break after it."""
    return tokens(f"{line}\n")


def _in_turns(sorts: list[Sort]) -> Iterable[tuple[Sort, str]]:
    left = [(sort, list(sort.lines)) for sort in sorts]
    while any(lines for _, lines in left):
        for sort, lines in left:
            for line in lines[: sort.turns]:
                yield sort, line
            del lines[: sort.turns]


def _sorts(engine: Engine, agent: str, user: str | None) -> list[Sort]:
    # A day is as fine as it has to be; with the very moment in it, ties would be broken another way each time.
    now = engine.clock().replace(hour=0, minute=0, second=0, microsecond=0)
    own = engine.scopes.readable(agent)
    seen = visible_users(user)
    ranked = _Ranked(engine, now)
    return [
        Sort("Where you left off", 4, _left_off(engine, agent, user)),
        Sort("What your user wants", 2, ranked.lines(MemoryType.USER_PREFERENCE, _wish, users={user}) if user else []),
        Sort("What you were taught", 2, ranked.rules(own, seen)),
        Sort("What works", 2, ranked.lines(MemoryType.HEURISTIC, _strategy, agents=own, users=seen)),
        Sort("What to avoid", 1, ranked.lines(MemoryType.ANTI_PATTERN, _warning, agents=own, users=seen)),
        Sort("What you know", 1, ranked.lines(MemoryType.DOMAIN_KNOWLEDGE, _fact, agents=own, users=seen)),
        Sort("What happened last", 1, _latest(engine, agent, seen)),
    ]


class _Ranked:
    """Memories by how strong they are, ties by id, as lines."""

    def __init__(self, engine: Engine, now: datetime) -> None:
        self._engine = engine
        self._now = now

    def lines(self, kind: str, told: Told, **conditions: object) -> list[str]:
        where = Where(
            kinds={kind},
            projects={self._engine.project},
            statuses={Status.ACTIVE},
            valid_at=self._engine.clock(),
            **conditions,  # type: ignore[arg-type]
        )
        return self._best(self._engine.store.scan(where, _WEIGHED), told)

    def rules(self, agents: tuple[str, ...], users: Collection[str]) -> list[str]:
        return self._best(list_standing_rules(self._engine, agents, users, _WEIGHED), _rule)

    def _best(self, records: Iterable[Record], told: Told) -> list[str]:
        ranked = nsmallest(_TOLD, records, key=lambda one: (-round(strength(one, self._now), 6), one.id))
        return list(dict.fromkeys(_shown(one, told(one)) for one in ranked))


def _shown(record: Record, text: str) -> str:
    """What comes from programs and files is quoted; a rule from there was accepted by a person."""
    origin = record.provenance.canonical_source
    if origin in QUOTED and record.kind != MemoryType.RULE:
        return quote_data(text, origin, _LINE_CHARS)
    return _line(text)


def _line(text: str) -> str:
    return escape(shorten(text, _LINE_CHARS))


def _when(condition: str, text: str) -> str:
    return f"{shorten(condition, _LINE_CHARS // 2)}: {text}" if condition else text


def _wish(record: Record) -> str:
    return str(record.body["preference"])


def _rule(record: Record) -> str:
    return _when(describe_occasion(record.body["trigger"], record.body["rule"]), record.body["rule"])


def _strategy(record: Record) -> str:
    seen = record.evidence
    proof = f" (worked {seen.successes} of {seen.results} times)" if seen.results else ""
    return _when(record.body["condition"], shorten(record.body["strategy"], _LINE_CHARS // 2 - len(proof))) + proof


def _warning(record: Record) -> str:
    why = f" ({quoted_why(record)})" if record.body["why_bad"] else ""
    return _when(record.body["condition"], f"not {shorten(record.body['pattern'], _LINE_CHARS // 2)}{why}")


def _fact(record: Record) -> str:
    return str(record.body["fact"])


def _left_off(engine: Engine, agent: str, user: str | None) -> list[str]:
    """The last handoff, in four lines."""
    where = Where(
        kinds={"handoff"},
        projects={engine.project},
        agents={agent},
        users=visible_users(user),
        statuses={Status.ACTIVE},
    )
    found = max(engine.store.scan(where, 20), key=lambda one: (one.body["ended_at"], one.id), default=None)
    if found is None:
        return []
    body = found.body
    told = [f"{body['ended_at'][:10]}, {body['last_outcome']}: {body['last_action']}"]
    told += [f"Goal: {body['goal']}"] if body["goal"] else []
    told += [f"Blocked by: {'; '.join(body['blockers'][:3])}"] if body["blockers"] else []
    told += [f"Next: {'; '.join(body['next_steps'][:3])}"] if body["next_steps"] else []
    return [_line(line) for line in told]


def _latest(engine: Engine, agent: str, users: Collection[str]) -> list[str]:
    where = Where(
        kinds={MemoryType.OUTCOME},
        projects={engine.project},
        agents={agent},
        users=users,
        statuses={Status.ACTIVE},
    )
    return list(dict.fromkeys(_line(_outcome(one)) for one in engine.store.scan(where, 10)))


def _outcome(record: Record) -> str:
    body = record.body
    return f"{record.created_at:%Y-%m-%d}, {Result(body['outcome'])}: {body['task']}: {body['strategy']}"
