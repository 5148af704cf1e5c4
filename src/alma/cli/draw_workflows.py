"""Runs of workflows, their checkpoints and artifacts, for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from ..types.kinds import Outcome
from .marks import ago, amount, fit, lasting, sentence
from .shapes import Column, Line, Shape, line, stacked, table

if TYPE_CHECKING:
    from ..api.values import Artifact, Checkpoint, Run

_STATES = {
    "running": ("◐", "yellow"),
    "completed": ("●", "green"),
    "failed": ("✗", "bold red"),
    "cancelled": ("○", "dim"),
}


def _badge(status: str) -> Line:
    mark, style = _STATES[status]
    return line(f"{mark} {status}", style)


def run_line(run: Run) -> Line:
    of = f"  of {run.workflow_id}" if run.workflow_id else ""
    return _badge(run.status) + line(f"  {run.run_id}", "bold") + line(of)


def runs_table(runs: Sequence[Run], now: datetime) -> Shape:
    if not runs:
        return line("no runs", "dim")
    made = table(Column("status", wrap=False), "run", "workflow", "agent", Column("began", wrap=False), "took")
    for run in runs:
        took = lasting((run.ended_at - run.started_at).total_seconds()) if run.ended_at else ""
        cells = (line(run.run_id, "bold"), line(run.workflow_id or "–"), line(run.agent or "–"))
        made.add(_badge(run.status), *cells, ago(run.started_at, now), took)
    return made


def checkpoint_line(made: Checkpoint) -> Line:
    verb = "unchanged since " if made.unchanged else "kept "
    at = line(f"{verb}checkpoint {made.number}", "bold") + line(
        f" of {made.run_id} on {made.branch_id}, after {made.node_id}"
    )
    told = line(f"  {amount(made.size)}; {made.id}", "dim")
    if made.redacted:
        told = stacked([told, line(f"  without the secrets at {', '.join(made.redacted)}", "yellow")])
    return stacked([at, told])


def history_table(found: Sequence[Checkpoint], now: datetime) -> Shape:
    if not found:
        return line("no checkpoints", "dim")
    made = table(
        Column("#", right=True), "branch", "node", Column("when", wrap=False), Column("size", right=True), "state"
    )
    for one in found:
        keys = fit(", ".join(one.state), 60)
        made.add(
            str(one.number),
            line(one.branch_id),
            line(one.node_id),
            ago(one.created_at, now),
            amount(one.size),
            line(keys, "dim"),
        )
    return made


def artifacts_table(found: Sequence[Artifact]) -> Shape:
    if not found:
        return line("no artifacts", "dim")
    made = table("artifact", "run", "node", "kind", Column("size", right=True))
    for one in found:
        name = stacked([line(one.name, "bold"), line(one.location, "dim")])
        size = "" if one.size is None else amount(one.size)
        made.add(name, line(one.run_id), line(one.node_id or "–"), line(one.kind), size)
    return made


def recorded(outcomes: Sequence[Outcome]) -> Iterator[Shape]:
    for one in outcomes:
        yield line(f"recorded {one.id}  ") + line(fit(sentence(one)))
