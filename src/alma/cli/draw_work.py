"""Work items and progress, for a person."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from ..schema import plain
from .marks import counted, fit, lasting, moment
from .shapes import Column, Line, Shape, line, stacked, table

if TYPE_CHECKING:
    from ..api.values import ItemChange, ProgressLog, ProgressSummary, WorkItem

MARKS = {
    "done": ("●", "green"),
    "review": ("◑", "cyan"),
    "in_progress": ("◐", "yellow"),
    "pending": ("○", ""),
    "blocked": ("⊘", "red"),
    "failed": ("✗", "bold red"),
}
_FILLS = {"done": "█", "review": "▓", "in_progress": "▒", "pending": "░", "blocked": "×", "failed": "!"}
_WIDTH = 60
_FEW = 10


@dataclass(frozen=True, slots=True)
class Around:
    """What the items that are shown name, and the time it is."""

    items: Mapping[str, WorkItem]
    now: datetime

    def called(self, id: str) -> str:
        found = self.items.get(id)
        return id if found is None else f"{fit(found.title, 60)!r} ({words_of(found.status)})"


def words_of(status: str) -> str:
    return status.replace("_", " ")


def badge(status: str) -> Line:
    mark, style = MARKS[status]
    return line(f"{mark} {words_of(status)}", style)


def line_of(item: WorkItem, before: str = "") -> Line:
    """An item in one line."""
    mark, style = MARKS[item.status]
    return line(before) + line(f"{mark} ", style) + line(fit(item.title)) + line(f"  {item.id}", "dim")


def changed(verb: str, item: WorkItem, around: Around) -> Line:
    """What was done to an item, and how it stands now."""
    done = line(f"{verb}  ", "bold") + badge(item.status) + line(f"  {fit(item.title)}") + line(f"  {item.id}", "dim")
    about = "; ".join(_about(item, around))
    return stacked([done, line(f"  {about}", "dim")]) if about else done


def items_table(items: Sequence[WorkItem], around: Around) -> Shape:
    if not items:
        return line("no work items", "dim")
    made = table(Column("status", wrap=False), Column("prio", right=True), "item")
    for item in items:
        made.add(badge(item.status), str(item.priority), _titled(item, around))
    return made


def _titled(item: WorkItem, around: Around) -> Line:
    below = f"{item.id}  {'; '.join(_about(item, around))}".rstrip()
    return stacked([line(fit(item.title), "dim" if item.archived else ""), line(below, "dim")])


def _about(item: WorkItem, around: Around) -> Iterator[str]:
    """What one would want to know at a glance."""
    if item.archived:
        yield "archived"
    if item.item_type != "task":
        yield item.item_type.replace("_", " ")
    yield from _whose(item, around.now)
    if item.waiting_for:
        yield f"waits for {', '.join(map(around.called, item.waiting_for))}"
    if item.tests:
        passing = sum(item.test_results.get(name, False) for name in item.tests)
        yield f"{passing} of {counted(len(item.tests), 'test')} passing"
    if item.tags:
        yield " ".join(f"#{tag}" for tag in item.tags)


def _whose(item: WorkItem, now: datetime) -> Iterator[str]:
    if item.claimed_by and item.claimed_until:
        left = (item.claimed_until - now).total_seconds()
        yield f"{item.claimed_by} has it for {lasting(left)} more" if left > 0 else f"{item.claimed_by}'s claim ran out"
    elif item.agent:
        yield item.agent


# -- one


def item_card(item: WorkItem, parts: Sequence[WorkItem], around: Around) -> Iterator[Shape]:
    yield badge(item.status) + line(f"  {item.title}", "bold") + line(f"  {item.id}", "dim")
    if item.description:
        yield line(f"\n{item.description}\n")
    grid = table(Column(style="dim", wrap=False), Column())
    for name, value in _rows(item, around):
        grid.add(name, value)
    yield grid
    if parts:
        yield line("\nparts", "bold")
        yield from (line("  ") + line_of(part) for part in parts)


def _rows(item: WorkItem, around: Around) -> Iterator[tuple[str, Line]]:
    told = {
        "type": item.item_type.replace("_", " "),
        "priority": str(item.priority),
        "agent": item.agent or "anybody's",
        "notes": item.notes,
        "part of": around.called(item.parent_id) if item.parent_id else "",
        "claimed": "; ".join(_whose(item, around.now)) if item.claimed_by else "",
        "estimate": f"{item.estimate_minutes:g} min" if item.estimate_minutes is not None else "",
        "time spent": lasting(item.time_spent_ms / 1000) if item.time_spent_ms else "",
        "attempts": str(item.attempt_count) if item.attempt_count else "",
        "tags": ", ".join(item.tags),
        "metadata": str(plain(item.metadata)) if item.metadata else "",
        "created": moment(item.created_at),
        "updated": moment(item.updated_at),
    }
    yield from ((name, line(value)) for name, value in told.items() if value)
    for name, ids in (("waits for", item.waiting_for), ("blocks", item.blocks)):
        if ids:
            yield name, stacked(line(f"{around.called(id)}  ") + line(id, "dim") for id in ids)
    if item.tests:
        yield "tests", stacked(_test(name, item.test_results.get(name)) for name in item.tests)


def _test(name: str, passing: bool | None) -> Line:
    if passing is None:
        return line(f"? {name}", "dim")
    return line(f"✓ {name}", "green") if passing else line(f"✗ {name}", "red")


def changes(past: Sequence[ItemChange]) -> Iterator[Shape]:
    yield line("\nhistory", "bold")
    grid = table(Column(style="dim", wrap=False), Column(wrap=False), Column())
    for one in past:
        why = f"{one.why}; " if one.why else ""
        grid.add(f"  {moment(one.at)}", line(one.verb), line(why + _difference(one)) + line(_by(one), "dim"))
    yield grid


def _by(change: ItemChange) -> str:
    return f" (by {change.by})" if change.by else ""


_SILENT = {
    "working_since", "held", "claimed_until", "started_at", "completed_at", "attempt_count", "time_spent_ms", "notes",
    "tests_passing",
}  # fmt: skip


def _difference(change: ItemChange) -> str:
    """What became of what; times and counts are for --json."""
    names = [name for name in dict.fromkeys((*change.before, *change.after)) if name not in _SILENT]
    pairs = ((name, _value(change.before.get(name)), _value(change.after.get(name))) for name in names)
    return ", ".join(f"{name.replace('_', ' ')} {before} → {after}" for name, before, after in pairs)


def _value(value: object) -> str:
    if value in (None, "", [], {}):
        return "none"
    if isinstance(value, Mapping):
        return fit(", ".join(f"{name}: {_value(one)}" for name, one in value.items()), 60)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return fit(", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value), 60)


def next_one(item: WorkItem | None, waiting: int, around: Around, agent: str | None) -> Iterator[Shape]:
    if item is None:
        held = f"; {counted(waiting, 'item')} open, but blocked, being worked on or another agent's" if waiting else ""
        yield line(f"nothing is free to be worked on{held}", "dim")
        return
    yield items_table([item], around)
    if item.description:
        yield line(fit(item.description, 600))
    if item.claimed_by is None:
        yield line(f"take it: alma work claim {item.id} --agent {_who(agent or item.agent)}", "dim")


def _who(agent: str | None) -> str:
    return "NAME" if agent is None else shlex.quote(agent)


# -- progress


def summary(found: ProgressSummary, around: Around) -> Iterator[Shape]:
    whose = f", {found.agent}'s items" if found.agent else ""
    if not found.items_total:
        yield line(f"{found.project_id}{whose}: no work items; `alma work add` makes one", "dim")
        return
    yield line(f"{found.project_id}{whose}: ", "bold") + done(found)
    yield stretch(found)
    yield _legend(found)
    yield from _group("in progress", found.current, around)
    yield from _group("blocked", found.blocked, around)


def done(found: ProgressSummary) -> Line:
    return line(f"{found.items_done} of {counted(found.items_total, 'item')} done ({found.completion_percentage:.0f}%)")


def stretch(found: ProgressSummary, width: int = _WIDTH) -> Line:
    """All items as one bar, by status; each that any item has shows."""
    held = {status: found.by_status.get(status, 0) for status in MARKS}
    wide = {status: max(1, round(width * count / found.items_total)) for status, count in held.items() if count}
    longest = max(wide, key=lambda status: wide[status])
    wide[longest] += width - sum(wide.values())
    out = Line()
    for status, length in wide.items():
        out += line(_FILLS[status] * length, MARKS[status][1])
    return out


def _legend(found: ProgressSummary) -> Line:
    out = Line()
    for status in MARKS:
        if count := found.by_status.get(status, 0):
            out += line(f"{'   ' if out.spans else ''}{_FILLS[status]} {words_of(status)} {count}", MARKS[status][1])
    return out


def _group(heading: str, items: Sequence[WorkItem], around: Around) -> Iterator[Shape]:
    if not items:
        return
    yield line(f"\n{heading}", "bold")
    grid = table(Column(wrap=False), Column())
    for item in items[:_FEW]:
        mark, style = MARKS[item.status]
        grid.add(line(f"  {mark}", style), _titled(item, around))
    yield grid
    if len(items) > _FEW:
        yield line(f"  … and {len(items) - _FEW} more", "dim")


def logs_table(logs: Sequence[ProgressLog], titles: Mapping[str, str]) -> Shape:
    if not logs:
        return line("no session has noted where it stands; `alma session note --log` does", "dim")
    made = table(Column("when", "dim", wrap=False), "agent", Column("done", right=True), "now")
    for log in logs:
        doing = "; ".join(filter(None, (log.current_action, titles.get(log.current_item_id or "", ""))))
        now = stacked([line(fit(doing) or "nothing was said"), line(log.session_id, "dim")])
        made.add(moment(log.created_at), log.agent, f"{log.items_done} of {log.items_total}", now)
    return made
