"""What an initializer found out, as text for a prompt: fixed order, inert, within a budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..engine import validate
from ..engine.inject.escape import escape
from ..engine.inject.prompt import tokens
from .reload import Amount, fullest, say

if TYPE_CHECKING:
    from ..progress import WorkItem
    from .types import InitializationResult

LEAST, MOST = 150, 100_000
_OF_MEMORIES = 0.4
"""Such a part of the budget is for memories; what they do not need is for the rest."""


def briefing(result: InitializationResult, max_tokens: int) -> str:
    budget = validate.whole("max_tokens", max_tokens, LEAST, MOST)
    recalled = result.relevant_memories.to_prompt(max(1, int(budget * _OF_MEMORIES)))
    known = f"\n\n## What is known\n{recalled}" if recalled else ""
    return fullest(lambda amount: "\n".join(_lines(result, amount)), budget - tokens(known)) + known


def _lines(result: InitializationResult, amount: Amount) -> Iterator[str]:
    yield f"# {say(result.agent, 40)} in {say(result.project_id, 40)}"
    yield f"Goal: {say(result.goal, 2 * amount.chars)}"
    yield from _start(result.recommended_start, amount)
    yield from _section("Work items", [_item(one, amount) for one in result.work_items], 2 * amount.few)
    yield from _section("You may", _said(result.scope_rules, amount), amount.few)
    yield from _section("You must not, or only so", _said(result.constraints, amount), amount.few)
    yield from _section("Before it is done", _said(result.quality_gates, amount), amount.few)
    if result.codebase_summary:
        # Names of branches and commits come from the repository, and not everybody who wrote there is known.
        told = [escape(line)[: 2 * amount.chars] for line in result.codebase_summary.splitlines()]
        yield from _section("Code", told, 2 * amount.some)
    yield from _section("What happened last", _said(result.recent_activity, amount), amount.some)


def _start(item: WorkItem | None, amount: Amount) -> Iterator[str]:
    yield "Start with: nothing is open" if item is None else f"Start with: {_item(item, amount)}"


def _item(item: WorkItem, amount: Amount) -> str:
    waits = f", waits for {', '.join(item.waiting_for[:3])}" if item.waiting_for else ""
    return f"{item.id} {say(item.title, amount.chars)} (priority {item.priority}, {item.status}{waits})"


def _said(lines: Sequence[str], amount: Amount) -> list[str]:
    return [say(line, amount.chars) for line in lines]


def _section(heading: str, lines: Sequence[str], most: int) -> Iterator[str]:
    if not lines:
        return
    yield f"\n## {heading}"
    yield from (f"- {line}" for line in lines[:most])
    if len(lines) > most:
        yield f"- ({len(lines) - most} more)"
