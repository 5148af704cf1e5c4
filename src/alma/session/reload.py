"""Where an agent left off, in a few hundred tokens.

The layout is always the same, label by label, so that an agent finds what it looks for at a glance and nothing shifts
when a part is empty. Long parts are shortened until the whole fits, the least important first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..engine.inject.escape import escape
from ..engine.inject.prompt import tokens
from ..engine.text import shorten
from .types import Session, SessionHandoff

if TYPE_CHECKING:
    from ..progress import ProgressSummary, WorkItem

TOKENS = 400
LEAST, MOST = 120, 4000
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


class Known(NamedTuple):
    """All that a reload is made of."""

    agent: str
    project_id: str
    handoff: SessionHandoff | None
    going_on: Sequence[Session]
    progress: ProgressSummary
    focus: WorkItem | None


def reload(known: Known, max_tokens: int = TOKENS) -> str:
    """The fullest telling that keeps to the budget."""
    return fullest(lambda amount: "\n".join(_lines(known, amount)), max_tokens)


def fullest(told: Callable[[Amount], str], max_tokens: int) -> str:
    for amount in _AMOUNTS:
        text = told(amount)
        if tokens(text) <= max_tokens:
            return text
    return clipped(text, max_tokens)


def clipped(text: str, max_tokens: int) -> str:
    """As many whole lines as fit: the last resort."""
    kept: list[str] = []
    for line in text.splitlines():
        if tokens("\n".join([*kept, line])) > max_tokens:
            break
        kept.append(line)
    return "\n".join(kept)


def _lines(known: Known, amount: Amount) -> Iterator[str]:
    yield f"# {say(known.agent, 40)} in {say(known.project_id, 40)}"
    yield from _left_off(known.handoff, amount) if known.handoff else ("Last session: none yet",)
    yield f"Open now: {_going_on(known.going_on, amount)}"
    yield f"Progress: {_progress(known.progress)}"
    yield f"Focus: {_focus(known.focus, amount)}"


def _left_off(handoff: SessionHandoff, amount: Amount) -> Iterator[str]:
    yield f"Last session: {handoff.session_end:%Y-%m-%d %H:%M} UTC, {_lasted(handoff)}, {handoff.last_outcome}"
    yield f"Goal: {say(handoff.current_goal, amount.chars)}"
    yield f"Last action: {say(handoff.last_action, amount.chars)}"
    yield from _list("Blockers", handoff.blockers, amount.few, amount)
    yield from _list("Next steps", handoff.next_steps, amount.few, amount)
    yield from _list("Decisions", handoff.key_decisions, amount.some, amount)
    yield f"Files: {_inline(handoff.active_files, amount.some, amount)}"
    yield f"Tests: {_tests(handoff.test_status, amount)}"
    yield from _list("Risks", handoff.risk_flags, amount.some, amount)
    yield f"Confidence: {handoff.confidence_level:.0%}"


def say(text: str, chars: int) -> str:
    """One line that cannot act as structure."""
    return escape(shorten(text, chars)) if text.strip() else _NONE


def _lasted(handoff: SessionHandoff) -> str:
    minutes = handoff.duration_ms // 60_000
    if minutes < 1:
        return f"{handoff.duration_ms // 1000} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"


def _list(label: str, items: Sequence[str], most: int, amount: Amount) -> Iterator[str]:
    if not items or not most:
        yield f"{label}: {_left(items) if items else _NONE}"
        return
    yield f"{label}:"
    yield from (f"- {say(item, amount.chars)}" for item in items[:most])
    if len(items) > most:
        yield f"- {_left(items[most:])}"


def _left(items: Sequence[str]) -> str:
    return f"({len(items)} more)"


def _inline(items: Sequence[str], most: int, amount: Amount) -> str:
    if not items:
        return _NONE
    shown = [say(item, amount.chars) for item in items[:most]]
    return ", ".join([*shown, _left(items[most:])] if len(items) > most else shown)


def _tests(status: dict[str, bool], amount: Amount) -> str:
    if not status:
        return _NONE
    failing = [name for name, passing in status.items() if not passing]
    told = f"{len(status) - len(failing)} passing, {len(failing)} failing"
    return f"{told}: {_inline(failing, amount.some, amount)}" if failing and amount.some else told


def _going_on(sessions: Sequence[Session], amount: Amount) -> str:
    if not sessions:
        return _NONE
    first = sessions[0]
    more = f" {_left([one.id for one in sessions[1:]])}" if len(sessions) > 1 else ""
    return f"{first.id} since {first.started_at:%Y-%m-%d %H:%M} UTC, {say(first.goal or 'no goal', amount.chars)}{more}"


def _progress(progress: ProgressSummary) -> str:
    if not progress.items_total:
        return "no work items"
    return (
        f"{progress.items_done} of {progress.items_total} done, {progress.items_in_progress} in progress, "
        f"{progress.items_blocked} blocked"
    )


def _focus(item: WorkItem | None, amount: Amount) -> str:
    return _NONE if item is None else f"{item.id} {say(item.title, amount.chars)} (priority {item.priority})"
