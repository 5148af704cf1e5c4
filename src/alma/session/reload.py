"""Where an agent left off, in a few hundred tokens.

The layout is always the same, label by label, so that an agent finds what it looks for at a glance and nothing shifts
when a part is empty. Long parts are shortened until the whole fits, the least important first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..engine.inject.escape import escape
from ..engine.inject.prompt import tokens
from ..text import shorten
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
    """Return the fullest text that keeps to the budget."""
    return write_fullest(lambda amount: "\n".join(_list_lines(known, amount)), max_tokens)


def write_fullest(write: Callable[[Amount], str], max_tokens: int) -> str:
    for amount in _AMOUNTS:
        text = write(amount)
        if tokens(text) <= max_tokens:
            return text
    # The last resort: as many whole lines as fit.
    lines = text.splitlines()
    while lines and tokens("\n".join(lines)) > max_tokens:
        lines.pop()
    return "\n".join(lines)


def say(text: str, chars: int) -> str:
    """One line that cannot act as structure."""
    return escape(shorten(text, chars)) if text.strip() else _NONE


def _list_lines(known: Known, amount: Amount) -> Iterator[str]:
    sessions, progress, focus = known.going_on, known.progress, known.focus
    yield f"# {say(known.agent, 40)} in {say(known.project_id, 40)}"
    yield from _list_handoff(known.handoff, amount) if known.handoff else ("Last session: none yet",)
    if sessions:
        first, more = sessions[0], f" ({len(sessions) - 1} more)" if len(sessions) > 1 else ""
        goal = say(first.goal or "no goal", amount.chars)
        yield f"Open now: {first.id} since {first.started_at:%Y-%m-%d %H:%M} UTC, {goal}{more}"
    else:
        yield f"Open now: {_NONE}"
    if progress.items_total:
        done = f"{progress.items_done} of {progress.items_total} done"
        yield f"Progress: {done}, {progress.items_in_progress} in progress, {progress.items_blocked} blocked"
    else:
        yield "Progress: no work items"
    yield f"Focus: {f'{focus.id} {say(focus.title, amount.chars)} (priority {focus.priority})' if focus else _NONE}"


def _list_handoff(handoff: SessionHandoff, amount: Amount) -> Iterator[str]:
    seconds = handoff.duration_ms // 1000
    minutes = f"{seconds // 60} min" if seconds >= 60 else f"{seconds} s"
    lasted = minutes if seconds < 7200 else f"{seconds // 3600} h"
    yield f"Last session: {handoff.session_end:%Y-%m-%d %H:%M} UTC, {lasted}, {handoff.last_outcome}"
    yield f"Goal: {say(handoff.current_goal, amount.chars)}"
    yield f"Last action: {say(handoff.last_action, amount.chars)}"
    yield from _list_items("Blockers", handoff.blockers, amount.few, amount)
    yield from _list_items("Next steps", handoff.next_steps, amount.few, amount)
    yield from _list_items("Decisions", handoff.key_decisions, amount.some, amount)
    yield f"Files: {_join_items(handoff.active_files, amount)}"
    failing = [name for name, passing in handoff.test_status.items() if not passing]
    counts = f"{len(handoff.test_status) - len(failing)} passing, {len(failing)} failing"
    names = f": {_join_items(failing, amount)}" if failing and amount.some else ""
    yield f"Tests: {counts if handoff.test_status else _NONE}{names}"
    yield from _list_items("Risks", handoff.risk_flags, amount.some, amount)
    yield f"Confidence: {handoff.confidence_level:.0%}"


def _list_items(label: str, items: Sequence[str], most: int, amount: Amount) -> Iterator[str]:
    more = f"({len(items) - most} more)" if len(items) > most else ""
    if not items or not most:
        yield f"{label}: {more or _NONE}"
        return
    yield f"{label}:"
    yield from (f"- {say(item, amount.chars)}" for item in items[:most])
    if more:
        yield f"- {more}"


def _join_items(items: Sequence[str], amount: Amount) -> str:
    shown = [say(item, amount.chars) for item in items[: amount.some]]
    return ", ".join([*shown, f"({len(items) - amount.some} more)"] if len(items) > amount.some else shown) or _NONE
