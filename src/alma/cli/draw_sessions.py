"""Sessions, what they start with and what they leave behind, for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .draw_work import Around, done, items_table, line_of, stretch
from .marks import ago, counted, fit, lasting, sentence
from .shapes import Column, Line, Shape, line, stacked, table

if TYPE_CHECKING:
    from ..api.sessions import Initialized
    from ..api.values import Session, SessionContext, SessionHandoff

_ENDS = {"success": ("✓", "green"), "failure": ("✗", "red"), "interrupted": ("!", "yellow")}
_BAR = 30


def begun(context: SessionContext, now: datetime) -> Iterator[Shape]:
    yield line("session ", "bold") + line(context.session_id, "bold cyan")
    yield line(f"{context.agent} in {context.project_id}" + (f": {fit(context.goal)}" if context.goal else ""))
    for other in context.open_sessions:
        since = ago(other.last_seen, now)
        yield line(f"another session of {other.agent} is open: {other.id} ({fit(other.goal, 80)}, {since})", "yellow")
    if context.previous_handoff is not None:
        yield line("\nwhere the last session left off", "bold")
        yield from handed_over(context.previous_handoff, now)
    yield from _progress(context)
    yield from _bullets("what worked before", (fit(sentence(one)) for one in context.relevant_heuristics))
    yield from _bullets("what was tried lately", (fit(sentence(one)) for one in context.recent_outcomes))
    if context.codebase_state is not None:
        yield from _bullets("the code", _code(context.codebase_state))
    yield from _bullets("rules", context.rules_of_engagement)


def _progress(context: SessionContext) -> Iterator[Shape]:
    if not context.progress.items_total:
        return
    yield line("\nprogress", "bold")
    yield line("  ") + stretch(context.progress, _BAR) + line("  ") + done(context.progress)
    if context.suggested_focus is not None:
        yield line_of(context.suggested_focus, "  begin with  ")


def _bullets(heading: str, lines: Iterable[str]) -> Iterator[Shape]:
    told = Counter(lines)
    if not told:
        return
    yield line(f"\n{heading}", "bold")
    grid = table(Column(wrap=False), Column())
    for one, times in told.items():
        grid.add("  •", line(one) + line(f" ({times} times)" if times > 1 else "", "dim"))
    yield grid


def _code(state: Mapping[str, Any]) -> Iterator[str]:
    written = ", ".join(f"{count} {name}" for name, count in list(state["languages"].items())[:3])
    yield f"{state['name']}{f' ({written})' if written else ''} at {state['root']}"
    git = state["git"]
    if git is not None:
        changed = "changes unknown" if git["clean"] is None else "clean" if git["clean"] else _changed(git)
        yield f"branch {git['branch'] or 'none (detached)'}, {changed}"
        yield from (f"{one['hash']} {fit(one['subject'], 100)}" for one in git["recent_commits"][:3])
    if state["tests"]["command"]:
        yield f"tests: {state['tests']['command']}"


def _changed(git: Mapping[str, Any]) -> str:
    return ", ".join(f"{git[name]} {name}" for name in ("staged", "modified", "untracked", "conflicted") if git[name])


# -- what is left behind


def handed_over(handoff: SessionHandoff, now: datetime) -> Iterator[Shape]:
    grid = table(Column(style="dim", wrap=False), Column())
    for name, value in _handed(handoff, now):
        grid.add(f"  {name}", value)
    yield grid


def _handed(handoff: SessionHandoff, now: datetime) -> Iterator[tuple[str, Line]]:
    lasted = lasting(handoff.duration_ms / 1000)
    yield "session", line(handoff.session_id, "dim") + line(f"  ended {ago(handoff.session_end, now)} after {lasted}")
    yield from _texts({"goal": handoff.current_goal})
    if handoff.last_action:
        yield "last", line(fit(handoff.last_action)) + line("  ") + _ended(handoff.last_outcome)
    left = handoff.left_out
    for name, key, lines in (
        ("next", "next_steps", handoff.next_steps),
        ("blockers", "blockers", handoff.blockers),
        ("decided", "key_decisions", handoff.key_decisions),
        ("files", "active_files", handoff.active_files),
        ("risks", "risk_flags", handoff.risk_flags),
    ):
        yield from _listed(name, lines, left.get(key, 0))
    yield from _tests(handoff.test_status)
    yield "going", line(f"{handoff.confidence_level:.0%} confident")


def _ended(outcome: str) -> Line:
    mark, style = _ENDS[outcome]
    return line(f"{mark} {outcome}", style)


def _texts(told: Mapping[str, str]) -> Iterator[tuple[str, Line]]:
    yield from ((name, line(fit(value))) for name, value in told.items() if value)


def _listed(name: str, lines: Sequence[str], more: int = 0) -> Iterator[tuple[str, Line]]:
    if lines:
        rest = [line(f"({more} more)", "dim")] if more else []
        yield name, stacked([*(line(fit(one)) for one in lines), *rest])


def _tests(status: Mapping[str, bool]) -> Iterator[tuple[str, Line]]:
    if status:
        marked = (
            line(f"✓ {name}", "green") if passing else line(f"✗ {name}", "red") for name, passing in status.items()
        )
        yield "tests", stacked(marked)


def session_card(session: Session, now: datetime) -> Iterator[Shape]:
    style = {"open": "green", "ended": "dim"}.get(session.state, "yellow")
    seen = f"  {session.agent}, begun {ago(session.started_at, now)}, last heard of {ago(session.last_seen, now)}"
    yield line(session.id, "bold") + line(f"  {session.state}", style) + line(seen)
    grid = table(Column(style="dim", wrap=False), Column())
    for name, value in _noted(session):
        grid.add(f"  {name}", value)
    yield grid


def _noted(session: Session) -> Iterator[tuple[str, Line]]:
    yield from _texts({"goal": session.goal})
    yield from _listed("done", session.actions, session.action_count - len(session.actions))
    for name, lines in (
        ("next", session.next_steps),
        ("blockers", session.blockers),
        ("decided", session.decisions),
        ("files", session.active_files),
        ("risks", session.risk_flags),
    ):
        yield from _listed(name, lines)
    yield from _tests(session.test_status)
    if session.confidence_level is not None:
        yield "going", line(f"{session.confidence_level:.0%} confident")


def opened_and_ended(going_on: Sequence[Session], previous: Sequence[SessionHandoff], now: datetime) -> Iterator[Shape]:
    if not going_on and not previous:
        yield line("no session yet", "dim")
        return
    made = table(Column("", wrap=False), "goal", Column("when", wrap=False))
    for one in going_on:
        state = line(f"◐ {one.state}", "green" if one.state == "open" else "yellow")
        made.add(state, _named(one.goal, one.id), ago(one.last_seen, now))
    for last in previous:
        made.add(_ended(last.last_outcome), _named(last.current_goal, last.session_id), ago(last.session_end, now))
    yield made


def _named(goal: str, id: str) -> Line:
    return stacked([line(fit(goal) or "no goal", "" if goal else "dim"), line(id, "dim")])


# -- a plan


def initialized(made: Initialized, now: datetime) -> Iterator[Shape]:
    yield line("session ", "bold") + line(made.session_id, "bold cyan")
    yield line(f"{made.agent}: {fit(made.goal)}")
    if made.work_items:
        around = Around({item.id: item for item in made.work_items}, now)
        planned = f", planned by {made.planned_by}" if made.planned_by != "local" else ""
        yield line(f"\n{counted(len(made.work_items), 'work item')}{planned}", "bold")
        yield items_table(made.work_items, around)
    if made.recommended_start is not None:
        yield line_of(made.recommended_start, "begin with  ")
    yield from _bullets("what is known", (fit(sentence(one)) for one in made.memories))
    yield from _bullets("may", made.scope_rules)
    yield from _bullets("must not, or only so", made.constraints)
    yield from _bullets("before it is done", made.quality_gates)
    yield from _bullets("the code", (made.codebase_summary or "").splitlines())
    yield from _bullets("what happened last", made.recent_activity)
