"""Rules and their files, for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..types.kinds import Rule
from .marks import counted, fit, proof
from .shapes import Column, Shape, Verbatim, line, stacked, table

if TYPE_CHECKING:
    from ..api.values import ExportReport
    from ..rulefiles.operations import ImportedRules

_FEW = 5
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def rules_table(found: Sequence[Rule]) -> Shape:
    if not found:
        return line("no rules", "dim")
    made = table("rule", Column("", "dim"), Column("id", "dim"))
    for one in found:
        told = [line(f"{one.trigger}: " if one.trigger else "", "dim") + line(fit(one.rule))]
        told += [line(f"because {fit(one.why)}", "dim")] if one.why else []
        faded = "" if one.status == "active" else f"{one.status}; "
        made.add(stacked(told), faded + proof(one), one.id)
    return made


def _diff(text: str) -> Shape:
    return Verbatim(stacked(line(row, _STYLES.get(row[:1], "")) for row in text.split("\n")))


# -- export


def exported(report: ExportReport, *, check: bool) -> Iterator[Shape]:
    if check and report.diff:
        yield _diff(report.diff)
    standing = counted(report.items, "item")
    size = f"{standing}, {report.size} of {report.limit}"
    if report.written:
        yield line(f"wrote {report.path}: {size}", "bold")
    elif check and report.changed:
        yield line(f"{report.path} is not current: {size}", "bold red")
    else:
        yield line(f"{report.path} is current: {size}" if report.items else "there is nothing to write", "bold")
    if report.hand_edits:
        yield line(f"edited by hand and not imported: {len(report.hand_edits)}", "yellow")
        yield from _few(report.hand_edits)
        yield line(f"  alma rules import {report.path} takes it over", "dim")
    if report.left_out:
        yield line(f"left out: {len(report.left_out)}", "yellow")
        yield from _few([f"{fit(one.text, 100)}: {one.why}" for one in report.left_out])


def _few(told: Sequence[str]) -> Iterator[Shape]:
    yield from (line(f"  {fit(one)}") for one in told[:_FEW])
    if len(told) > _FEW:
        yield line(f"  … and {len(told) - _FEW} more; --json lists them", "dim")


# -- import


def imported(report: ImportedRules) -> Iterator[Shape]:
    if report.changes:
        yield _diff(report.diff)
    else:
        yield line(f"{report.path} says nothing new", "bold")
    waiting = sum(one.waits for one in report.changes)
    if waiting:
        said = "waits" if waiting == 1 else "wait"
        yield line(f"{waiting} of them {said} for you: alma rules list --status candidate", "yellow")
    if report.newer:
        yield line(f"{counted(report.newer, 'item')} the memory knows better by now", "dim")
    if report.replaced:
        yield line(f"contradicted, and replaced: {', '.join(report.replaced)}", "yellow")
    if report.ignored:
        yield line(f"no items, and passed over: {len(report.ignored)}", "yellow")
        yield from _few(report.ignored)
    if any(one.verb == "conflict" and not one.done for one in report.changes):
        yield line("both changed: --prefer file or --prefer memory says who is right", "bold red")
