"""What a session begins with, as text for a prompt: fixed order, inert, within a budget.

The layout is always the same, label by label, so that an agent finds what it looks for at a glance and nothing shifts
when a part is empty. Long parts are shortened until the whole fits, the least important first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..engine import validate
from ..engine.inject.escape import escape
from ..engine.inject.prompt import tokens
from ..text import shorten

if TYPE_CHECKING:
    from ..progress import ProgressSummary, WorkItem
    from .handoff import InitializationResult, Session, SessionHandoff

RELOAD_TOKENS = 120, 4000
BRIEFING_TOKENS = 150, 100_000
"""The least and the most."""
_OF_MEMORIES = 0.4
"""Such a part of a briefing is for memories; what they do not need is for the rest."""
_NONE = "none"


class Amount(NamedTuple):
    """How much of each thing is told."""

    chars: int
    few: int
    """Of blockers and next steps."""
    some: int
    """Of decisions, files, tests and risks."""


_AMOUNTS = (
    Amount(200, 10, 10), Amount(160, 6, 6), Amount(120, 5, 4), Amount(90, 4, 3), Amount(70, 3, 2),
    Amount(50, 2, 1), Amount(32, 1, 1), Amount(16, 1, 0), Amount(6, 1, 0),
)  # fmt: skip


def _write_fullest(list_lines: Callable[[Amount], Iterator[str]], max_tokens: int) -> str:
    """Return the fullest text that keeps to the budget."""
    for amount in _AMOUNTS:
        text = "\n".join(list_lines(amount))
        if tokens(text) <= max_tokens:
            return text
    # The last resort: as many whole lines as fit.
    lines = text.splitlines()
    while lines and tokens("\n".join(lines)) > max_tokens:
        lines.pop()
    return "\n".join(lines)


def _quote(text: str, chars: int) -> str:
    """Return one line that cannot act as structure."""
    return escape(shorten(text, chars)) if text.strip() else _NONE


# -- where an agent left off


def write_reload(
    agent: str,
    handoff: SessionHandoff | None,
    open_sessions: Sequence[Session],
    progress: ProgressSummary,
    focus: WorkItem | None,
    max_tokens: int = 400,
) -> str:
    """Return where an agent left off, in a few hundred tokens."""

    def list_lines(amount: Amount) -> Iterator[str]:
        yield f"# {_quote(agent, 40)} in {_quote(progress.project_id, 40)}"
        yield from _list_handoff(handoff, amount) if handoff else ("Last session: none yet",)
        if open_sessions:
            first, more = open_sessions[0], f" ({len(open_sessions) - 1} more)" if len(open_sessions) > 1 else ""
            goal = _quote(first.goal or "no goal", amount.chars)
            yield f"Open now: {first.id} since {first.started_at:%Y-%m-%d %H:%M} UTC, {goal}{more}"
        else:
            yield f"Open now: {_NONE}"
        if progress.items_total:
            done = f"{progress.items_done} of {progress.items_total} done"
            yield f"Progress: {done}, {progress.items_in_progress} in progress, {progress.items_blocked} blocked"
        else:
            yield "Progress: no work items"
        next_item = f"{focus.id} {_quote(focus.title, amount.chars)} (priority {focus.priority})" if focus else _NONE
        yield f"Focus: {next_item}"

    return _write_fullest(list_lines, max_tokens)


def _list_handoff(handoff: SessionHandoff, amount: Amount) -> Iterator[str]:
    def list_items(label: str, items: Sequence[str], most: int) -> Iterator[str]:
        more = f"({len(items) - most} more)" if len(items) > most else ""
        if not items or not most:
            yield f"{label}: {more or _NONE}"
            return
        yield f"{label}:"
        yield from (f"- {_quote(item, amount.chars)}" for item in items[:most])
        if more:
            yield f"- {more}"

    def join_items(items: Sequence[str]) -> str:
        shown = [_quote(item, amount.chars) for item in items[: amount.some]]
        more = [f"({len(items) - amount.some} more)"] if len(items) > amount.some else []
        return ", ".join([*shown, *more]) or _NONE

    seconds = handoff.duration_ms // 1000
    minutes = f"{seconds // 60} min" if seconds >= 60 else f"{seconds} s"
    lasted = minutes if seconds < 7200 else f"{seconds // 3600} h"
    yield f"Last session: {handoff.session_end:%Y-%m-%d %H:%M} UTC, {lasted}, {handoff.last_outcome}"
    yield f"Goal: {_quote(handoff.current_goal, amount.chars)}"
    yield f"Last action: {_quote(handoff.last_action, amount.chars)}"
    yield from list_items("Blockers", handoff.blockers, amount.few)
    yield from list_items("Next steps", handoff.next_steps, amount.few)
    yield from list_items("Decisions", handoff.key_decisions, amount.some)
    yield f"Files: {join_items(handoff.active_files)}"
    failing = [name for name, passing in handoff.test_status.items() if not passing]
    counts = f"{len(handoff.test_status) - len(failing)} passing, {len(failing)} failing"
    names = f": {join_items(failing)}" if failing and amount.some else ""
    yield f"Tests: {counts if handoff.test_status else _NONE}{names}"
    yield from list_items("Risks", handoff.risk_flags, amount.some)
    yield f"Confidence: {handoff.confidence_level:.0%}"


# -- what an initializer found out


def write_briefing(result: InitializationResult, max_tokens: int) -> str:
    """Return what an agent knows before it begins, as Markdown."""
    budget = validate.whole("max_tokens", max_tokens, *BRIEFING_TOKENS)
    recalled = result.relevant_memories.to_prompt(max(1, int(budget * _OF_MEMORIES)))
    known = f"\n\n## What is known\n{recalled}" if recalled else ""

    def describe_item(item: WorkItem, amount: Amount) -> str:
        waits = f", waits for {', '.join(item.waiting_for[:3])}" if item.waiting_for else ""
        return f"{item.id} {_quote(item.title, amount.chars)} (priority {item.priority}, {item.status}{waits})"

    def list_lines(amount: Amount) -> Iterator[str]:
        start, chars = result.recommended_start, amount.chars
        # Names of branches and commits come from the repository, and not everybody who wrote there is known.
        code = [escape(line)[: 2 * chars] for line in (result.codebase_summary or "").splitlines()]
        sections = (
            ("Work items", [describe_item(item, amount) for item in result.work_items], 2 * amount.few),
            ("You may", [_quote(line, chars) for line in result.scope_rules], amount.few),
            ("You must not, or only so", [_quote(line, chars) for line in result.constraints], amount.few),
            ("Before it is done", [_quote(line, chars) for line in result.quality_gates], amount.few),
            ("Code", code, 2 * amount.some),
            ("What happened last", [_quote(line, chars) for line in result.recent_activity], amount.some),
        )
        yield f"# {_quote(result.agent, 40)} in {_quote(result.project_id, 40)}"
        yield f"Goal: {_quote(result.goal, 2 * chars)}"
        yield f"Start with: {'nothing is open' if start is None else describe_item(start, amount)}"
        for heading, lines, most in sections:
            if lines:
                yield f"\n## {heading}"
            yield from (f"- {line}" for line in lines[:most])
            if len(lines) > most:
                yield f"- ({len(lines) - most} more)"

    return _write_fullest(list_lines, budget - tokens(known)) + known
