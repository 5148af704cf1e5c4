"""Rules into a file: ours in a marked block, in an order that stays, within what its readers take in."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ..engine import validate
from ..engine.context import Engine
from ..engine.transaction import commit
from ..errors import ValidationError, unknown
from ..opening import Holder
from ..types.kinds import MemoryType
from . import block as blocks
from . import files, held
from .held import Entry, Wanted
from .lines import Item, read, written
from .targets import NAME, Limit, file_name, is_rule_file, skill_name, target
from .types import ExportReport, LeftOut

if TYPE_CHECKING:
    from ..core import ALMA

TITLE = "## Rules learned in this project"
_SAMPLE = 80
_MOST = 10_000_000


def export(
    alma: ALMA | None,
    to: str,
    path: str | PathLike[str] | None = None,
    *,
    project_id: str | None = None,
    root: str | PathLike[str] | None = None,
    agent: str | None = None,
    everywhere: bool = False,
    include: Iterable[str] = (MemoryType.RULE,),
    name: str = NAME,
    limit: int | None = None,
    check: bool = False,
    force: bool = False,
    remove: bool = False,
) -> ExportReport:
    """Write the rules that hold in this project to the file that a coding agent reads, inside a marked block.

    `to` is 'agents-md', 'claude-md', 'cursor', 'windsurf', 'copilot' or 'skill'; without `path` it is that agent's
    usual file at the root of the repository. `include` may name 'heuristic', 'anti_pattern' and 'domain_knowledge'
    too, of which the proven ones are taken, and `everywhere` takes in rules of all projects. What the limit leaves no
    room for is left out, the least proven first. With `check` nothing is written. What was edited by hand and not
    imported is not overwritten unless `force`. With `remove` the block is taken out of the file instead; a file that
    holds nothing else is deleted.
    """
    host, called = target(to), file_name(name)
    where = files.place(path, root, host.path.format(name=called))
    if path is None and not is_rule_file(PurePosixPath(where.name)):
        raise ValidationError(
            f"{where.path} is a link to {where.name}, which is no file for rules; pass a path to write there"
        )
    if host.name == "skill":
        called = skill_name(PurePosixPath(where.real.as_posix()), called)
    most = host.limit if limit is None else replace(host.limit, most=validate.whole("limit", limit, 1, _MOST))
    with Holder(alma, project_id) as holder:
        engine = held.of_project(holder.alma.engine, project_id)
        kinds = validate.names("include", include)
        for kind in kinds:
            if kind not in held.KINDS:
                raise ValidationError(unknown("memory type to include", kind, held.KINDS))
        wanted = Wanted(frozenset(kinds), held.find_agent(engine, agent), everywhere)
        page = _compose_page(engine, where, host.front(where.name, called), wanted, most)
        if remove:
            rest = blocks.without(page.before or "", where.name)
            is_empty = rest.strip() == host.front(where.name, called).strip()
            page = replace(page, after="" if is_empty else rest, standing={})
        is_changed = page.after != page.before
        if page.hand_edits and is_changed and not (check or force):
            raise ValidationError(_describe_edits(where.name, page.hand_edits))
        if not check:
            _write_page(engine, where, page)
    before, after = page.before or "", page.after or ""
    old, new = ([row.removesuffix("\r") for row in text.split("\n")] if text else [] for text in (before, after))
    diff = difflib.unified_diff(old, new, f"a/{where.name}", f"b/{where.name}", n=2, lineterm="")
    return ExportReport(
        to=host.name,
        path=where.name,
        root=str(where.root),
        items=len(page.standing),
        changed=before != after,
        written=not check and is_changed,
        diff="\n".join(diff),
        left_out=page.left_out,
        hand_edits=page.hand_edits,
        size=f"{most.unit.of(after):,} {most.unit}",
        limit=str(most),
    )


def _describe_edits(name: str, edits: Sequence[str]) -> str:
    told = "\n".join(f"  {one}" for one in edits[:20])
    more = f"\n  and {len(edits) - 20} more" if len(edits) > 20 else ""
    removed = "; --retire also puts away what was removed" if any(one.endswith("(removed)") for one in edits) else ""
    return (
        f"{name} was edited by hand, and an export would take that away:\n{told}{more}\n"
        f"Import it first (alma rules import {name}{removed}), or export with force."
    )


@dataclass(frozen=True, slots=True)
class _Page:
    """A file as it is and as it should be."""

    before: str | None
    after: str | None
    """None: there is nothing to write, and no file."""
    standing: Mapping[str, str]
    left_out: tuple[LeftOut, ...]
    hand_edits: tuple[str, ...]


def _write_page(engine: Engine, where: files.Place, page: _Page) -> None:
    if page.after == "" and page.before:
        files.delete(where, page.before)
    elif page.after is not None and page.after != page.before:
        files.write(where, page.after, page.before)
    if page.after is not None:
        commit(engine, lambda: (None, held.ledger(engine, where.name).saying(engine, page.standing)))


def _compose_page(engine: Engine, where: files.Place, front: str, wanted: Wanted, most: Limit) -> _Page:
    before = files.read(where)
    text = before or ""
    block = blocks.find(text, where.name)
    there = blocks.content(block) if block is not None else blocks.Content((), "", ())
    known = held.everything(engine, wanted.kinds, [one.id for one in there.items if one.id])
    by_hand = {_digest(one, MemoryType.RULE) for one in blocks.outside(text, block)}
    fitting: list[Entry] = []
    left_out: list[LeftOut] = []
    for one in known.values():
        why = wanted.why_not(engine, one)
        if why is None and one.digest in by_hand:
            why = "it stands in the file already, written by hand"
        if why is None and one.words.text:
            fitting.append(one)
        elif why:
            left_out.append(LeftOut(one.record.id, one.words.text, why))
    if block is None and not fitting:
        return _Page(before, before, {}, tuple(left_out), ())
    edits = hand_edits(there, known, held.ledger(engine, where.name).standing, fitting) if block is not None else ()
    layout = _Layout(text, block, front, there.title or TITLE, _list_places(there.items, fitting))
    chosen = _choose_entries(engine, fitting, layout, most)
    standing = {one.id: one.digest for one in chosen}
    cut_off = [one for one in fitting if one.id not in standing]
    left_out += [LeftOut(one.record.id, one.words.text, f"the file has room for {most}") for one in cut_off]
    return _Page(before, layout.write(chosen), standing, tuple(left_out), tuple(edits))


def _list_places(items: Sequence[Item], entries: Sequence[Entry]) -> list[str]:
    """Return the ids of the entries in the file, in file order, matched by id or, failing that, by text."""
    by_id = {one.id: one for one in entries}
    by_words = {one.digest: one for one in entries}
    matches = (by_id.get(item.id) or by_words.get(_digest(item, MemoryType.RULE)) for item in items)
    return list(dict.fromkeys(one.id for one in matches if one is not None))


def _digest(item: Item, kind: str) -> str:
    return read(item.said, held.GRAMMARS[kind]).digest


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the items go."""

    text: str
    block: blocks.Block | None
    front: str
    title: str
    order: Sequence[str]
    """The ids that are there, as they are."""

    def write(self, chosen: Iterable[Entry]) -> str:
        places = {id: at for at, id in enumerate(self.order)}
        # What is new goes to the end, so that a diff shows it and nothing else.
        ordered = sorted(chosen, key=lambda one: (places.get(one.id, len(places)), one.record.created_at, one.id))
        lines = [self.title, ""]
        for kind, heading in held.HEADINGS.items():
            items = [written(one.words, one.id) for one in ordered if one.record.kind == kind]
            lines += [*(("", heading, "") if items and heading else ()), *items]
        return blocks.placed(self.text, self.block, lines if lines[2:] else lines[:1], self.front)


def _choose_entries(engine: Engine, entries: Sequence[Entry], layout: _Layout, most: Limit) -> list[Entry]:
    """As many as the limit has room for, the most proven first."""
    end = blocks.newline(layout.text)
    chosen: list[Entry] = []
    headed = {MemoryType.RULE}
    spent = most.unit.of(layout.write([])) + most.unit.of(end)
    for one in held.by_proof(entries, engine):
        cost = most.unit.of(f"{written(one.words, one.id)}{end}")
        if one.record.kind not in headed:
            cost += most.unit.of(f"{end}{held.HEADINGS[one.record.kind]}{end}{end}")
        if spent + cost <= most.most:
            chosen.append(one)
            spent += cost
            headed.add(MemoryType(one.record.kind))
    return chosen


# -- what a person did to the block


def hand_edits(
    there: blocks.Content, known: Mapping[str, Entry], last: Mapping[str, str], fitting: Sequence[Entry]
) -> list[str]:
    """What an export would take away although nobody imported it."""
    said = {one.digest for one in fitting}
    told = [f"line {number}: {_sample(text)} (no item of a list)" for number, text in there.other]
    seen: set[str] = set()
    for item in there.items:
        one = known.get(item.id) if item.id not in seen else None
        seen.add(item.id)
        if one is not None:
            now = _digest(item, one.record.kind)
            if now not in (last.get(item.id, item.base), one.digest):
                told.append(f"line {item.number}: {_sample(item.said)} (changed)")
        # Whatever kind it is of: one of the ways to read it gives the words that were written.
        elif last.get(item.id) not in [_digest(item, kind) for kind in held.KINDS] and (
            _digest(item, MemoryType.RULE) not in said
        ):
            told.append(f"line {item.number}: {_sample(item.said)} (new)")
    words = {_digest(item, MemoryType.RULE) for item in there.items if not item.id}
    gone = [one for one in fitting if one.id in last and one.id not in seen and one.digest not in words]
    return told + [f"{_sample(one.words.text)} (removed)" for one in gone]


def _sample(text: str) -> str:
    return text if len(text) <= _SAMPLE else f"{text[: _SAMPLE - 1]}…"
