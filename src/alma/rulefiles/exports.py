"""Rules into a file: in a marked block, in an order that stays, within what its readers take in.

Also what the memory holds that may stand in a file: how it reads there, which comes first, and what was written last.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from os import PathLike
from pathlib import PurePosixPath
from typing import Annotated, Any

from ..engine import validate
from ..engine.context import Engine
from ..engine.evidence import believe
from ..engine.rule_lines import describe_occasion
from ..engine.rules import is_old_fix
from ..engine.transaction import Transaction, write
from ..errors import ValidationError, unknown
from ..memory import ALMA
from ..opening import Holder
from ..operations import About, Effect, Group
from ..text import shorten
from ..types.kinds import MemoryType, quoted_why
from ..types.query import Where
from ..types.record import Origin, Record, Status, Trust
from ..types.rules import EVERYWHERE
from ..words import AnyAgent
from .block import (
    Block,
    Item,
    Words,
    find_block,
    find_newline,
    list_items_outside,
    make_digest,
    place_block,
    read_words,
    remove_block,
    write_item,
)
from .targets import NAME, TARGETS, Host, Limit, RuleFile, change_file, check_name, find_file, is_rule_file, read_file

operation = Group("rules")
Root = Annotated[
    str | PathLike[str] | None,
    About("the repository's folder; by default the one around the current folder", local=True, is_root=True),
]
OtherProject = Annotated[str | None, About("the project, where it is not the memory's own", for_python=True)]

TITLE = "## Rules learned in this project"
LONGEST = 1_500
"""Characters; a longer memory is a document, and no line of a list."""
FILE_ID = "file_id"
"""Under this name a rule that came from a file keeps the id it has there, so that all who share the file share it."""
_PROVEN = 0.6
"""How sure, at the low end of the belief, a strategy or fact must be to stand in a file."""
_SAMPLE = 80
_MOST = 10_000_000
_AVOID = "Avoid: "

HEADINGS: Mapping[str, str] = {
    MemoryType.RULE: "",
    MemoryType.HEURISTIC: "### What works",
    MemoryType.ANTI_PATTERN: "### What to avoid",
    MemoryType.DOMAIN_KNOWLEDGE: "### What is known",
}
KINDS = tuple(HEADINGS)
_AVOIDED = {"head": "condition", "text": "pattern", "why": "why_bad", "instead": "better_alternative"}
PARTS: Mapping[str, Mapping[str, str]] = {
    MemoryType.RULE: {"head": "trigger", "text": "rule", "why": "why"},
    MemoryType.HEURISTIC: {"head": "condition", "text": "strategy"},
    MemoryType.ANTI_PATTERN: _AVOIDED,
    MemoryType.DOMAIN_KNOWLEDGE: {"text": "fact"},
}
"""Which field of a body each part of an item is."""


# -- a memory as it stands in a file


@dataclass(frozen=True, slots=True)
class Entry:
    """A memory as it stands in a file."""

    id: str
    record: Record
    words: Words

    @property
    def digest(self) -> str:
        return self.words.digest


def make_entry(record: Record) -> Entry:
    """Return what a reader needs; a trigger or reason that only says the rule over again is left out."""
    values = {part: str(record.body.get(field) or "") for part, field in PARTS[record.kind].items()}
    if "why" in values:
        values["why"] = quoted_why(record)
    words = Words(**values).folded()
    if record.kind == MemoryType.ANTI_PATTERN:
        words = replace(words, text=f"{_AVOID}{words.text}")
    elif record.kind == MemoryType.RULE:
        head = describe_occasion(words.head, words.text)
        words = replace(words, head=head, why="" if words.why.lower() in words.text.lower() else words.why)
    kept = record.body.get("metadata", {}).get(FILE_ID)
    id = kept if isinstance(kept, str) and len(kept) == 8 else make_digest(record.id, 8)
    return Entry(id, record, words)


def list_changes(entry: Entry, words: Words) -> dict[str, str]:
    """Return the fields that read otherwise now, as the memory keeps them."""
    parts = PARTS[entry.record.kind].items()
    new, old = ({field: getattr(one, part) for part, field in parts} for one in (words, entry.words))
    if entry.record.kind == MemoryType.ANTI_PATTERN:
        new["pattern"], old["pattern"] = (one["pattern"].removeprefix(_AVOID) for one in (new, old))
    changed = {field: value for field, value in new.items() if value != old[field]}
    if "rule" in changed:
        # What only said the old rule over again goes with it.
        changed |= {field: "" for field in ("trigger", "why") if not new[field] and not old[field]}
    return changed


def find_entries(engine: Engine, kinds: Iterable[str], ids: Iterable[str]) -> dict[str, Entry]:
    """Return all of these kinds that could ever have stood in a file, whatever became of it, by its id there; when some
    of the ids are none of those, of every kind."""
    # The files are the project's: what belongs to one user is not written there.
    where = Where(kinds={MemoryType.RULE, *kinds}, projects={engine.project, EVERYWHERE}, users={""})
    entries: dict[str, Entry] = {}
    for record in sorted(engine.store.scan(where), key=lambda one: (one.status is not Status.ACTIVE, one.id)):
        one = make_entry(record)
        entries.setdefault(one.id, one)
    is_whole = where.kinds == set(KINDS) or all(id in entries for id in ids)
    return entries if is_whole else find_entries(engine, KINDS, ())


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to stand in a file."""

    kinds: frozenset[str]
    agent: str | None = None
    everywhere: bool = False

    def why_not(self, engine: Engine, one: Entry) -> str | None:
        """Return why a memory that holds is left out all the same; empty: it is none of what was asked for."""
        record = one.record
        now = engine.clock()
        if record.status is not Status.ACTIVE or record.kind not in self.kinds or record.session:
            return ""
        if self.agent not in (None, record.agent) or (record.valid_to is not None and record.valid_to <= now):
            return ""
        if is_old_fix(record):
            return "an agent worked it out, and no person accepted it"
        if record.provenance.trust is Trust.UNTRUSTED:
            return "it comes from an untrusted source"
        if record.provenance.trust is not Trust.TRUSTED and is_planted(one.words):
            return "nobody said it, and it reads like an instruction that was planted"
        if record.project == EVERYWHERE and not self.everywhere:
            return "it holds in all projects, not only in this one"
        # A person said it, or it came out well often enough.
        is_proven = record.provenance.origin is Origin.USER or believe(record, now).low >= _PROVEN
        if record.kind != MemoryType.RULE and not is_proven:
            return "it is not proven enough"
        size = len(one.words.line())
        return f"it has {size:,} characters, and an item has at most {LONGEST:,}" if size > LONGEST else None


def is_planted(words: Words) -> bool:
    """Whether the words read like an instruction that somebody planted for the model."""
    # Loaded here: its patterns take a while to compile, and most rules were said by a person.
    from ..engine.inject.escape import suspicious

    return bool(suspicious(words.line()))


def use_project(engine: Engine, project_id: str | None) -> Engine:
    return engine if project_id is None else replace(engine, project=validate.name("project_id", project_id))


def find_agent(engine: Engine, agent: str | None) -> str | None:
    return None if agent is None else engine.agent(validate.name("agent", agent))


# -- what was written last


def make_ledger_id(engine: Engine, name: str) -> str:
    """Return the id of the marker that keeps what stood in a file when it was last written or read."""
    return "mrk_rules_" + make_digest(f"{engine.project}\x1f{name}", 12)


def read_ledger(marker: Record | None) -> dict[str, str]:
    """Return the ids that stood in the file, and the digests of their words."""
    value = marker.body["value"] if marker else {}
    return dict(value) if isinstance(value, Mapping) else {}


# -- export


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A memory that holds, and does not stand in the file."""

    memory_id: str
    text: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    to: str
    path: str
    """The file, below the root of its repository."""
    root: str
    items: int
    """How many memories stand in the file now, or would."""
    changed: bool
    """The file is not what it should be (with `check`), or was not until now."""
    written: bool
    diff: str
    """A unified diff; empty when nothing changes."""
    left_out: tuple[LeftOut, ...] = ()
    hand_edits: tuple[str, ...] = ()
    """What was edited by hand and not imported yet, a sentence each; an export would take it away."""
    size: str
    limit: str


@dataclass(frozen=True, slots=True)
class _Page:
    """A file as it is and as it should be."""

    before: str | None
    after: str | None
    """None: there is nothing to write, and no file."""
    standing: Mapping[str, str]
    left_out: tuple[LeftOut, ...] = ()
    hand_edits: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        return self.after != self.before


@operation(Effect.CHANGES, "export_rules", idempotent=True, on_files=True)
def export(
    alma: ALMA | None,
    to: Annotated[str, About("which agent's file", tuple(TARGETS))],
    path: Annotated[
        str | PathLike[str] | None, About("another file than that agent's usual one", local=True, rule_file=True)
    ] = None,
    *,
    project_id: OtherProject = None,
    root: Root = None,
    agent: AnyAgent = None,
    everywhere: Annotated[bool, About("rules of all projects, too; they are personal")] = False,
    include: Annotated[Iterable[str] | None, About("what else that is proven, beside rules", KINDS)] = None,
    name: Annotated[str, About("the name of a skill or of a file among others")] = NAME,
    limit: Annotated[int | None, About("another limit than that agent's, in its own unit")] = None,
    check: Annotated[bool, About("write nothing, only say whether the file is current")] = False,
    force: Annotated[bool, About("overwrite what was edited by hand and not imported")] = False,
    remove: Annotated[bool, About("take the block out of the file", for_python=True)] = False,
) -> ExportReport:
    """Write the rules of this project to AGENTS.md, CLAUDE.md or another agent's file, inside a marked block.

    Notes:
    `to` is 'agents-md', 'claude-md', 'cursor', 'windsurf', 'copilot' or 'skill'; without `path` it is that agent's
    usual file at the root of the repository. `include` may name 'heuristic', 'anti_pattern' and 'domain_knowledge'
    too, of which the proven ones are taken, and `everywhere` takes in rules of all projects. What the limit leaves no
    room for is left out, the least proven first. With `check` nothing is written. What was edited by hand and not
    imported is not overwritten unless `force`. With `remove` the block is taken out of the file instead; a file that
    holds nothing else is deleted.
    """
    target = TARGETS[validate.choice("target", to, Host)]
    name = check_name(name)
    file = find_file(path, root, target.path.format(name=name))
    if path is None and not is_rule_file(PurePosixPath(file.name)):
        raise ValidationError(
            f"{file.path} is a link to {file.name}, which is no file for rules; pass a path to write there"
        )
    if target.name == "skill" and file.real.name == "SKILL.md":
        # A skill is called what its folder is called.
        name = check_name(file.real.parent.name)
    front = target.front(file.name, name)
    kinds = validate.names("include", include or (MemoryType.RULE,))
    for kind in kinds:
        if kind not in KINDS:
            raise ValidationError(unknown("memory type to include", kind, KINDS))
    most = target.limit if limit is None else replace(target.limit, most=validate.whole("limit", limit, 1, _MOST))
    with Holder(alma, project_id) as holder:
        engine = use_project(holder.alma.engine, project_id)
        wanted = Wanted(frozenset(kinds), find_agent(engine, agent), everywhere)
        page = _compose_page(engine, file, front, wanted, most)
        if remove:
            # The file goes too when nothing else is in it.
            rest = remove_block(page.before or "", file.name)
            page = replace(page, after="" if rest.strip() == front.strip() else rest, standing={})
        if page.hand_edits and page.is_changed and not (check or force):
            raise _refuse_edits(file.name, page.hand_edits)
        if not check:
            _write_page(engine, file, page)
    texts = (page.before or "", page.after or "")
    old, new = ([row.removesuffix("\r") for row in text.split("\n")] if text else [] for text in texts)
    return ExportReport(
        to=target.name,
        path=file.name,
        root=str(file.root),
        items=len(page.standing),
        changed=texts[0] != texts[1],
        written=not check and page.is_changed,
        diff="\n".join(difflib.unified_diff(old, new, f"a/{file.name}", f"b/{file.name}", n=2, lineterm="")),
        left_out=page.left_out,
        hand_edits=page.hand_edits,
        size=f"{most.unit.of(texts[1]):,} {most.unit}",
        limit=str(most),
    )


def _refuse_edits(name: str, edits: Sequence[str]) -> ValidationError:
    listed = "\n".join(f"  {one}" for one in edits[:20])
    more = f"\n  and {len(edits) - 20} more" if len(edits) > 20 else ""
    removed = "; --retire also puts away what was removed" if any(one.endswith("(removed)") for one in edits) else ""
    return ValidationError(
        f"{name} was edited by hand, and an export would take that away:\n{listed}{more}\n"
        f"Import it first (alma rules import {name}{removed}), or export with force."
    )


def _write_page(engine: Engine, file: RuleFile, page: _Page) -> None:
    if page.after is None:
        return
    if page.is_changed:
        change_file(file, page.after or None, page.before)
    ledger = make_ledger_id(engine, file.name)

    def keep_standing(tx: Transaction) -> None:
        if read_ledger(tx.find(ledger)) != page.standing:
            tx.set_marker(ledger, {"value": dict(page.standing)})

    write(engine, keep_standing)


def _compose_page(engine: Engine, file: RuleFile, front: str, wanted: Wanted, most: Limit) -> _Page:
    before = read_file(file)
    text = before or ""
    block = find_block(text, file.name)
    items = block.items if block else ()
    known = find_entries(engine, wanted.kinds, [one.id for one in items if one.id])
    by_hand = {_digest_item(one, MemoryType.RULE) for one in list_items_outside(text, block)}
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
        return _Page(before, before, {}, tuple(left_out))
    edits: list[str] = []
    if block is not None:
        marker = next(iter(engine.store.get([make_ledger_id(engine, file.name)])), None)
        edits = _list_hand_edits(block, known, read_ledger(marker), fitting)
    layout = _Layout(text, block, front, fitting)
    chosen = layout.choose(engine, most)
    standing = {one.id: one.digest for one in chosen}
    cut_off = [one for one in fitting if one.id not in standing]
    left_out += [LeftOut(one.record.id, one.words.text, f"the file has room for {most}") for one in cut_off]
    return _Page(before, layout.write(chosen), standing, tuple(left_out), tuple(edits))


def _digest_item(item: Item, kind: str) -> str:
    return read_words(item.said, PARTS[kind]).digest


class _Layout:
    """Where the items go."""

    def __init__(self, text: str, block: Block | None, front: str, entries: Sequence[Entry]) -> None:
        self.text, self.block, self.front, self.entries = text, block, front, entries
        # The ids that are in the file, in its order, matched by id or, failing that, by text.
        by_id = {one.id: one for one in entries}
        by_words = {one.digest: one for one in entries}
        items = block.items if block else ()
        matches = (by_id.get(item.id) or by_words.get(_digest_item(item, MemoryType.RULE)) for item in items)
        order = dict.fromkeys(one.id for one in matches if one is not None)
        self.places = {id: at for at, id in enumerate(order)}

    def write(self, chosen: Iterable[Entry]) -> str:
        last = len(self.places)
        # What is new goes to the end, so that a diff shows it and nothing else.
        ordered = sorted(chosen, key=lambda one: (self.places.get(one.id, last), one.record.created_at, one.id))
        lines = [(self.block and self.block.title) or TITLE, ""]
        for kind, heading in HEADINGS.items():
            items = [write_item(one.words, one.id) for one in ordered if one.record.kind == kind]
            lines += [*(("", heading, "") if items and heading else ()), *items]
        return place_block(self.text, self.block, lines if lines[2:] else lines[:1], self.front)

    def choose(self, engine: Engine, most: Limit) -> list[Entry]:
        """Return as many as the limit has room for, the most proven first."""
        end = find_newline(self.text)
        chosen: list[Entry] = []
        headed: set[str] = {MemoryType.RULE}
        spent = most.unit.of(self.write([])) + most.unit.of(end)
        now = engine.clock()
        for one in sorted(self.entries, key=lambda one: _rank_by_proof(one, now)):
            kind = one.record.kind
            cost = most.unit.of(f"{write_item(one.words, one.id)}{end}")
            if kind not in headed:
                cost += most.unit.of(f"{end}{HEADINGS[kind]}{end}{end}")
            if spent + cost <= most.most:
                chosen.append(one)
                spent += cost
                headed.add(kind)
        return chosen


def _rank_by_proof(one: Entry, now: datetime) -> tuple[Any, ...]:
    """Return a sort key, the most proven first. Nothing that changes by the hour counts, so that the same ones stay."""
    record = one.record
    is_said = record.provenance.origin in (Origin.USER, Origin.CORRECTION)
    repeats = int(record.body.get("metadata", {}).get("repeats", 0))
    judged = record.evidence.successes + record.evidence.ups - record.evidence.downs + repeats
    belief = round(believe(record, now).low, 2)
    return KINDS.index(record.kind), not is_said, -judged, -belief, record.created_at, record.id


def _list_hand_edits(
    block: Block, known: Mapping[str, Entry], last: Mapping[str, str], fitting: Sequence[Entry]
) -> list[str]:
    """Return what an export would take away although nobody imported it."""
    digests = {one.digest for one in fitting}
    edits = [f"line {number}: {shorten(text, _SAMPLE)} (no item of a list)" for number, text in block.other]
    seen: set[str] = set()
    for item in block.items:
        one = known.get(item.id) if item.id not in seen else None
        seen.add(item.id)
        where = f"line {item.number}: {shorten(item.said, _SAMPLE)}"
        if one is not None:
            if _digest_item(item, one.record.kind) not in (last.get(item.id, item.base), one.digest):
                edits.append(f"{where} (changed)")
        # Whatever kind it is of: one of the ways to read it gives the words that were written.
        elif last.get(item.id) not in [_digest_item(item, kind) for kind in KINDS] and (
            _digest_item(item, MemoryType.RULE) not in digests
        ):
            edits.append(f"{where} (new)")
    words = {_digest_item(item, MemoryType.RULE) for item in block.items if not item.id}
    gone = [one for one in fitting if one.id in last and one.id not in seen and one.digest not in words]
    return edits + [f"{shorten(one.words.text, _SAMPLE)} (removed)" for one in gone]
