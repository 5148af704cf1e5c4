"""What a session begins with, as text for a prompt: fixed order, inert, within a budget.

The layout is always the same, label by label, so that an agent finds what it looks for at a glance and nothing shifts
when a part is empty. Long parts are shortened until the whole fits, the least important first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..engine import validate
from ..engine.escape import escape
from ..engine.prompt import tokens
from ..progress import ProgressSummary, WorkItem
from ..text import shorten
from .handoff import InitializationResult, Session, SessionHandoff

_OF_MEMORIES = 0.4  # Such a part of a briefing is for memories; what they do not need is for the rest.
_NONE = "none"
# So long may a line be, and of lists a twentieth of it is told.
_CHARS = (200, 160, 120, 90, 70, 50, 32, 16, 6)


def _write_fullest(list_lines: Callable[[int], Iterator[str]], max_tokens: int) -> str:
    """Return the fullest text that keeps to the budget."""
    for chars in _CHARS:
        lines = "\n".join(list_lines(chars)).splitlines()
        if tokens("\n".join(lines)) <= max_tokens:
            break
    # The last resort: as many whole lines as fit.
    while tokens("\n".join(lines)) > max_tokens:
        lines.pop()
    return "\n".join(lines)


def _quote(text: str, chars: int) -> str:
    """Return one line that cannot act as structure."""
    return escape(shorten(text, chars)) if text.strip() else _NONE


def _list_some(items: Sequence[str], most: int, chars: int) -> list[str]:
    more = [f"({len(items) - most} more)"] if len(items) > most else []
    return [*(_quote(item, chars) for item in items[:most]), *more]


def write_reload(
    agent: str,
    handoff: SessionHandoff | None,
    open_sessions: Sequence[Session],
    progress: ProgressSummary,
    focus: WorkItem | None,
    max_tokens: int = 400,
) -> str:
    """Return where an agent left off, in a few hundred tokens."""

    def list_lines(chars: int) -> Iterator[str]:
        yield f"# {_quote(agent, 40)} in {_quote(progress.project_id, 40)}"
        yield from _list_handoff(handoff, chars) if handoff else ("Last session: none yet",)
        now, done = _NONE, "no work items"
        for first in open_sessions[:1]:
            more = f" ({len(open_sessions) - 1} more)" if len(open_sessions) > 1 else ""
            goal = _quote(first.goal or "no goal", chars)
            now = f"{first.id} since {first.started_at:%Y-%m-%d %H:%M} UTC, {goal}{more}"
        if progress.items_total:
            done = f"{progress.items_done} of {progress.items_total} done, {progress.items_in_progress} in progress"
            done += f", {progress.items_blocked} blocked"
        yield f"Open now: {now}"
        yield f"Progress: {done}"
        yield f"Focus: {f'{focus.id} {_quote(focus.title, chars)} (priority {focus.priority})' if focus else _NONE}"

    return _write_fullest(list_lines, max_tokens)


def _list_handoff(handoff: SessionHandoff, chars: int) -> Iterator[str]:
    def list_items(label: str, items: Sequence[str], least: int = 0) -> Iterator[str]:
        most = max(least, chars // 20)
        lines = _list_some(items, most, chars)
        yield f"{label}:" if items and most else f"{label}: {', '.join(lines) or _NONE}"
        yield from (f"- {line}" for line in lines if most)

    seconds, some = handoff.duration_ms // 1000, chars // 20
    lasted = f"{seconds // 3600} h" if seconds >= 7200 else f"{seconds // 60} min" if seconds >= 60 else f"{seconds} s"
    yield f"Last session: {handoff.session_end:%Y-%m-%d %H:%M} UTC, {lasted}, {handoff.last_outcome}"
    yield f"Goal: {_quote(handoff.current_goal, chars)}"
    yield f"Last action: {_quote(handoff.last_action, chars)}"
    yield from list_items("Blockers", handoff.blockers, 1)
    yield from list_items("Next steps", handoff.next_steps, 1)
    yield from list_items("Decisions", handoff.key_decisions)
    yield f"Files: {', '.join(_list_some(handoff.active_files, some, chars)) or _NONE}"
    failing = [name for name, passing in handoff.test_status.items() if not passing]
    counts = f"{len(handoff.test_status) - len(failing)} passing, {len(failing)} failing"
    names = f": {', '.join(_list_some(failing, some, chars))}" if failing and some else ""
    yield f"Tests: {counts if handoff.test_status else _NONE}{names}"
    yield from list_items("Risks", handoff.risk_flags)
    yield f"Confidence: {handoff.confidence_level:.0%}"


def write_briefing(result: InitializationResult, max_tokens: int) -> str:
    """Return what an agent knows before it begins, as Markdown."""
    budget = validate.whole("max_tokens", max_tokens, 150, 100_000)
    recalled = result.relevant_memories.to_prompt(max(1, int(budget * _OF_MEMORIES)))
    known = f"\n\n## What is known\n{recalled}" if recalled else ""

    def describe_item(item: WorkItem, chars: int) -> str:
        waits = f", waits for {', '.join(item.waiting_for[:3])}" if item.waiting_for else ""
        return f"{item.id} {_quote(item.title, chars)} (priority {item.priority}, {item.status}{waits})"

    def list_lines(chars: int) -> Iterator[str]:
        start, some = result.recommended_start, chars // 20
        few = max(1, some)
        yield f"# {_quote(result.agent, 40)} in {_quote(result.project_id, 40)}"
        yield f"Goal: {_quote(result.goal, 2 * chars)}"
        yield f"Start with: {'nothing is open' if start is None else describe_item(start, chars)}"
        # Names of branches and commits come from the repository, and not everybody who wrote there is known.
        code = (result.codebase_summary or "").splitlines()
        items = [describe_item(item, chars) for item in result.work_items]
        for heading, lines, most, width in (
            ("Work items", items, 2 * few, 0),
            ("You may", result.scope_rules, few, chars),
            ("You must not, or only so", result.constraints, few, chars),
            ("Before it is done", result.quality_gates, few, chars),
            ("Code", code, 2 * some, 2 * chars),
            ("What happened last", result.recent_activity, some, chars),
        ):
            if lines:
                yield f"\n## {heading}"
            yield from (f"- {_quote(line, width) if width else line}" for line in lines[:most])
            if len(lines) > most:
                yield f"- ({len(lines) - most} more)"

    return _write_fullest(list_lines, budget - tokens(known)) + known
