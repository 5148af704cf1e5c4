"""What an initializer found out, as text for a prompt: fixed order, inert, within a budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..engine import validate
from ..engine.inject.escape import escape
from ..engine.inject.prompt import tokens
from .reload import Amount, say, write_fullest

if TYPE_CHECKING:
    from ..progress import WorkItem
    from .types import InitializationResult

LEAST, MOST = 150, 100_000
_OF_MEMORIES = 0.4
"""Such a part of the budget is for memories; what they do not need is for the rest."""


def write_briefing(result: InitializationResult, max_tokens: int) -> str:
    budget = validate.whole("max_tokens", max_tokens, LEAST, MOST)
    recalled = result.relevant_memories.to_prompt(max(1, int(budget * _OF_MEMORIES)))
    known = f"\n\n## What is known\n{recalled}" if recalled else ""
    return write_fullest(lambda amount: "\n".join(_list_lines(result, amount)), budget - tokens(known)) + known


def _list_lines(result: InitializationResult, amount: Amount) -> Iterator[str]:
    items = [_describe_item(item, amount) for item in result.work_items]
    start = result.recommended_start
    # Names of branches and commits come from the repository, and not everybody who wrote there is known.
    code = [escape(line)[: 2 * amount.chars] for line in (result.codebase_summary or "").splitlines()]
    rules = {
        "You may": result.scope_rules,
        "You must not, or only so": result.constraints,
        "Before it is done": result.quality_gates,
    }
    activity = [say(line, amount.chars) for line in result.recent_activity]
    yield f"# {say(result.agent, 40)} in {say(result.project_id, 40)}"
    yield f"Goal: {say(result.goal, 2 * amount.chars)}"
    yield f"Start with: {'nothing is open' if start is None else _describe_item(start, amount)}"
    yield from _list_section("Work items", items, 2 * amount.few)
    for heading, lines in rules.items():
        yield from _list_section(heading, [say(line, amount.chars) for line in lines], amount.few)
    yield from _list_section("Code", code, 2 * amount.some)
    yield from _list_section("What happened last", activity, amount.some)


def _describe_item(item: WorkItem, amount: Amount) -> str:
    waits = f", waits for {', '.join(item.waiting_for[:3])}" if item.waiting_for else ""
    return f"{item.id} {say(item.title, amount.chars)} (priority {item.priority}, {item.status}{waits})"


def _list_section(heading: str, lines: Sequence[str], most: int) -> Iterator[str]:
    if not lines:
        return
    yield f"\n## {heading}"
    yield from (f"- {line}" for line in lines[:most])
    if len(lines) > most:
        yield f"- ({len(lines) - most} more)"
