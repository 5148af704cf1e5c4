"""The second layer: the essential story, chosen from all that is held without searching for anything.

Each sort of memory has its place in the story, and lines are taken in turns, so that many long ones of one sort leave
room for the others. Within a sort the strongest come first: what is believed, and was confirmed or used lately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import nsmallest
from typing import Any, NamedTuple

from ..engine import things
from ..engine.context import Engine
from ..engine.evidence import strength
from ..engine.inject.escape import escape
from ..engine.inject.prompt import quote_data, tokens
from ..engine.rule_lines import describe_occasion
from ..engine.rules import is_old_fix
from ..text import shorten
from ..types.kinds import MemoryType, Result, quoted_why
from ..types.query import Where, visible_users
from ..types.record import QUOTED, Record, Status
from ..types.rules import EVERYWHERE

_WEIGHED = 10_000
"""So many of each sort are weighed, the newest: some 40 µs each."""
_TOLD = 40
"""Of each sort at most so many lines."""
_LINE_CHARS = 220
_EMPTY = "Nothing is remembered yet."


class Sort(NamedTuple):
    heading: str
    turns: int
    """How many lines it gets in each round."""
    lines: list[str]


def write_story(engine: Engine, agent: str, user: str | None, max_tokens: int) -> str:
    """Return the lines there is room for; what cannot be told any shorter is left out."""
    sorts = _list_sorts(engine, agent, user)
    taken: dict[str, list[str]] = {sort.heading: [] for sort in sorts}
    room = max_tokens
    for sort, line in _take_turns(sorts):
        heading = "" if taken[sort.heading] else f"## {sort.heading}\n"
        # Each with the line break after it.
        cost = tokens(f"- {line}\n") + (tokens(heading) if heading else 0)
        if cost <= room:
            taken[sort.heading].append(f"- {line}")
            room -= cost
    parts = [f"## {heading}\n" + "\n".join(lines) for heading, lines in taken.items() if lines]
    return "\n".join(parts) or _EMPTY


def _take_turns(sorts: list[Sort]) -> Iterator[tuple[Sort, str]]:
    for start in range(_TOLD):
        for sort in sorts:
            for line in sort.lines[start * sort.turns : (start + 1) * sort.turns]:
                yield sort, line


def _list_sorts(engine: Engine, agent: str, user: str | None) -> list[Sort]:
    seen = visible_users(user)
    shared = {"agents": engine.scopes.readable(agent), "users": seen}
    # What was said for one session holds in no other.
    taught = {**shared, "projects": {engine.project, EVERYWHERE}, "sessions": {""}}
    wishes = _rank_lines(engine, MemoryType.USER_PREFERENCE, _describe_wish, users={user}) if user else []
    recent = things.scan(engine, MemoryType.OUTCOME, 10, agents={agent}, users=seen, statuses={Status.ACTIVE})
    return [
        Sort("Where you left off", 4, _describe_handoff(engine, agent, user)),
        Sort("What your user wants", 2, wishes),
        Sort("What you were taught", 2, _rank_lines(engine, MemoryType.RULE, _describe_rule, **taught)),
        Sort("What works", 2, _rank_lines(engine, MemoryType.HEURISTIC, _describe_strategy, **shared)),
        Sort("What to avoid", 1, _rank_lines(engine, MemoryType.ANTI_PATTERN, _describe_warning, **shared)),
        Sort("What you know", 1, _rank_lines(engine, MemoryType.DOMAIN_KNOWLEDGE, _describe_fact, **shared)),
        Sort("What happened last", 1, list(dict.fromkeys(_write_line(_describe_outcome(one)) for one in recent))),
    ]


def _rank_lines(engine: Engine, kind: MemoryType, describe: Callable[[Record], str], **conditions: Any) -> list[str]:
    """Return the lines of the strongest memories of a kind, ties by id."""
    now = engine.clock()
    # A day is as fine as it has to be; with the very moment in it, ties would be broken another way each time.
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    where = {"projects": {engine.project}, "statuses": {Status.ACTIVE}, "valid_at": now, **conditions}
    records = engine.store.scan(Where(kinds={kind}, **where), _WEIGHED)
    held = (one for one in records if not is_old_fix(one))
    ranked = nsmallest(_TOLD, held, key=lambda one: (-round(strength(one, day), 6), one.id))
    lines: dict[str, None] = {}
    for one in ranked:
        origin = one.provenance.canonical_source
        # What comes from programs and files is quoted; a rule from there was accepted by a person.
        is_quoted = origin in QUOTED and kind != MemoryType.RULE
        lines[quote_data(describe(one), origin, _LINE_CHARS) if is_quoted else _write_line(describe(one))] = None
    return list(lines)


def _write_line(text: str) -> str:
    return escape(shorten(text, _LINE_CHARS))


def _add_condition(condition: str, text: str) -> str:
    return f"{shorten(condition, _LINE_CHARS // 2)}: {text}" if condition else text


def _describe_wish(record: Record) -> str:
    return str(record.body["preference"])


def _describe_rule(record: Record) -> str:
    return _add_condition(describe_occasion(record.body["trigger"], record.body["rule"]), record.body["rule"])


def _describe_strategy(record: Record) -> str:
    seen = record.evidence
    proof = f" (worked {seen.successes} of {seen.results} times)" if seen.results else ""
    strategy = shorten(record.body["strategy"], _LINE_CHARS // 2 - len(proof))
    return _add_condition(record.body["condition"], strategy) + proof


def _describe_warning(record: Record) -> str:
    why = f" ({quoted_why(record)})" if record.body["why_bad"] else ""
    return _add_condition(record.body["condition"], f"not {shorten(record.body['pattern'], _LINE_CHARS // 2)}{why}")


def _describe_fact(record: Record) -> str:
    return str(record.body["fact"])


def _describe_outcome(record: Record) -> str:
    body = record.body
    return f"{record.created_at:%Y-%m-%d}, {Result(body['outcome'])}: {body['task']}: {body['strategy']}"


def _describe_handoff(engine: Engine, agent: str, user: str | None) -> list[str]:
    """Return the last handoff in four lines."""
    users = visible_users(user)
    handoffs = things.scan(engine, "handoff", 20, agents={agent}, users=users, statuses={Status.ACTIVE})
    if not handoffs:
        return []
    body = max(handoffs, key=lambda one: (one.body["ended_at"], one.id)).body
    lines = [f"{body['ended_at'][:10]}, {body['last_outcome']}: {body['last_action']}"]
    lines += [f"Goal: {body['goal']}"] if body["goal"] else []
    lines += [f"Blocked by: {'; '.join(body['blockers'][:3])}"] if body["blockers"] else []
    lines += [f"Next: {'; '.join(body['next_steps'][:3])}"] if body["next_steps"] else []
    return [_write_line(line) for line in lines]
