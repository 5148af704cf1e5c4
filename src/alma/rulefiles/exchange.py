"""Rules into a file, in an order that stays and within what its readers take in; and edits of the file back."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from os import PathLike
from pathlib import PurePosixPath
from typing import Annotated, Any

from ..engine import validate
from ..engine.admit import clean, key_of, reword
from ..engine.context import Engine
from ..engine.evidence import believe
from ..engine.facts import add_records
from ..engine.rules import Teaching, dress_rule, find_similar_rules, prepare_rules, supersede_rules
from ..engine.transaction import Transaction, write
from ..errors import NotFoundError, ValidationError, unknown
from ..memory import ALMA
from ..opening import Holder
from ..operations import About, Effect, Group
from ..reading.local_rules import find_choice
from ..text import shorten
from ..types.kinds import MemoryType
from ..types.record import Origin, Provenance, Status, Trust
from ..types.rules import Reach, RuleSource
from ..words import AnyAgent
from .block import Block, Words, find_block, find_newline, list_items_outside, place_block, remove_block, write_item
from .entries import (
    FILE_ID,
    HEADINGS,
    KINDS,
    Change,
    Comparison,
    Entry,
    Side,
    Verb,
    Wanted,
    list_changes,
    read_item_words,
)
from .targets import (
    NAME,
    TARGETS,
    Host,
    Limit,
    RuleFile,
    change_file,
    check_name,
    find_file,
    is_rule_file,
    make_front,
    read_file,
)

operation = Group("rules")
Root = Annotated[
    str | PathLike[str] | None,
    About("the repository's folder; by default the one around the current folder", local=True, is_root=True),
]
OtherProject = Annotated[str | None, About("the project, where it is not the memory's own", for_python=True)]

TITLE = "## Rules learned in this project"
_SAMPLE = 80
_MOST = 10_000_000


@contextmanager
def open_engine(alma: ALMA | None, project_id: str | None) -> Iterator[Engine]:
    """Open the memory that is configured unless one is given, for the project that is named."""
    with Holder(alma, project_id) as holder:
        engine = holder.alma.engine
        yield engine if project_id is None else replace(engine, project=validate.name("project_id", project_id))


def find_agent(engine: Engine, agent: str | None) -> str | None:
    return None if agent is None else engine.agent(validate.name("agent", agent))


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


@operation(Effect.CHANGES, "export_rules", idempotent=True, on_files=True)
def export(
    alma: ALMA | None,
    to: Annotated[str, About("which agent's file", tuple(TARGETS))],
    path: Annotated[
        str | PathLike[str] | None,
        About("another file than that agent's usual one", local=True, is_rule_file=is_rule_file),
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
    host = validate.choice("target", to, Host)
    kinds = validate.names("include", include or (MemoryType.RULE,))
    for kind in set(kinds) - set(KINDS):
        raise ValidationError(unknown("memory type to include", kind, KINDS))
    most = TARGETS[host].limit
    most = most if limit is None else most._replace(most=validate.whole("limit", limit, 1, _MOST))
    file = find_file(path, root, TARGETS[host].path.format(name=check_name(name)))
    if path is None and not is_rule_file(PurePosixPath(file.name)):
        raise ValidationError(
            f"{file.path} is a link to {file.name}, which is no file for rules; pass a path to write there"
        )
    if host is Host.SKILL and file.real.name == "SKILL.md":
        # A skill is called what its folder is called.
        name = check_name(file.real.parent.name)
    with open_engine(alma, project_id) as engine:
        wanted = Wanted(frozenset(kinds), find_agent(engine, agent), everywhere)
        front = make_front(host, file.name, name)
        return _write_block(engine, host, file, front, wanted, most, check=check, force=force, remove=remove)


def _write_block(
    engine: Engine,
    host: Host,
    file: RuleFile,
    front: str,
    wanted: Wanted,
    most: Limit,
    *,
    check: bool,
    force: bool,
    remove: bool,
) -> ExportReport:
    before = read_file(file)
    text = before or ""
    block = find_block(text, file.name)
    comparison = Comparison(Transaction(engine), file.name, block, kinds=wanted.kinds)
    by_hand = {read_item_words(one).digest for one in list_items_outside(text, block)}
    fitting, left_out = _choose_entries(engine, comparison, wanted, by_hand)
    after, standing = before, dict[str, str]()
    if remove:
        # The file goes too when nothing else is in it.
        rest = remove_block(text, file.name)
        after = "" if rest.strip() == front.strip() else rest
    elif block or fitting:
        after, standing = _fill_block(engine, text, block, front, fitting, most)
        cut_off = [one for one in fitting if one.id not in standing]
        left_out += [LeftOut(one.record.id, one.words.text, f"the file has room for {most}") for one in cut_off]
    edits = _list_hand_edits(block, comparison, fitting) if block else []
    is_changed = after != before
    if edits and is_changed and not (check or force):
        raise _refuse_edits(file.name, edits)
    if not check and after is not None:
        if is_changed:
            change_file(file, after or None, before)
        if standing != comparison.last:
            write(engine, lambda tx: tx.set_marker(comparison.ledger_id, {"value": standing}))
    old, new = ([row.removesuffix("\r") for row in one.split("\n")] if one else [] for one in (text, after))
    return ExportReport(
        to=host,
        path=file.name,
        root=str(file.root),
        items=len(standing),
        changed=text != (after or ""),
        written=not check and is_changed,
        diff="\n".join(difflib.unified_diff(old, new, f"a/{file.name}", f"b/{file.name}", n=2, lineterm="")),
        left_out=tuple(left_out),
        hand_edits=tuple(edits),
        size=str(most._replace(most=most.unit.of(after or ""))),
        limit=str(most),
    )


def _choose_entries(
    engine: Engine, comparison: Comparison, wanted: Wanted, by_hand: Collection[str]
) -> tuple[list[Entry], list[LeftOut]]:
    """Return the memories that are to stand in the file, and those that are left out for a reason."""
    fitting: list[Entry] = []
    left_out: list[LeftOut] = []
    for one in comparison.known.values():
        why = wanted.why_not(engine, one)
        if why is None and one.digest in by_hand:
            why = "it stands in the file already, written by hand"
        if why:
            left_out.append(LeftOut(one.record.id, one.words.text, why))
        elif why is None and one.words.text:
            fitting.append(one)
    return fitting, left_out


def _refuse_edits(name: str, edits: Sequence[str]) -> ValidationError:
    listed = "\n".join(f"  {one}" for one in edits)
    removed = "; --retire also puts away what was removed" if any(one.endswith("(removed)") for one in edits) else ""
    return ValidationError(
        f"{name} was edited by hand, and an export would take that away:\n{listed}\n"
        f"Import it first (alma rules import {name}{removed}), or export with force."
    )


def _list_hand_edits(block: Block, comparison: Comparison, fitting: Sequence[Entry]) -> list[str]:
    """Return what an export would take away although nobody imported it."""
    edits = [f"line {number}: {shorten(line, _SAMPLE)} (no item of a list)" for number, line in block.other]
    for change, item, _, entry in comparison.differences:
        if item is not None:
            what = "changed" if item.id in comparison.known else "new"
            edits.append(f"line {change.line}: {shorten(item.said, _SAMPLE)} ({what})")
        elif entry is not None and entry in fitting:
            edits.append(f"{shorten(entry.words.text, _SAMPLE)} (removed)")
    return edits


def _fill_block(
    engine: Engine, text: str, block: Block | None, front: str, entries: Sequence[Entry], most: Limit
) -> tuple[str, dict[str, str]]:
    """Return the file with as many entries as the limit has room for, the most proven first, and their digests."""
    # The ids that are in the file, in its order, matched by id or, failing that, by text. What is new goes to the end,
    # so that a diff shows it and nothing else.
    by_name = {name: one.id for one in entries for name in (one.digest, one.id)}
    ids = [by_name.get(item.id) or by_name.get(read_item_words(item).digest) for item in (block.items if block else ())]
    places = {id: at for at, id in enumerate(dict.fromkeys(ids))}
    ordered = sorted(entries, key=lambda one: (places.get(one.id, len(ids)), one.record.created_at, one.id))
    lines = {one.id: write_item(one.words, one.id) for one in entries}
    end = find_newline(text)

    def write_file(chosen: Mapping[str, str]) -> str:
        parts = [(block and block.title) or TITLE, ""]
        for kind, heading in HEADINGS.items():
            items = [lines[one.id] for one in ordered if one.record.kind == kind and one.id in chosen]
            parts += [*(("", heading, "") if items and heading else ()), *items]
        return place_block(text, block, parts if chosen else parts[:1], front)

    chosen: dict[str, str] = {}
    headed: set[str] = {MemoryType.RULE}
    spent = most.unit.of(write_file({})) + most.unit.of(end)
    now = engine.clock()
    for one in sorted(entries, key=lambda one: _rank_by_proof(one, now)):
        kind = one.record.kind
        cost = most.unit.of(lines[one.id] + end)
        cost += 0 if kind in headed else most.unit.of(f"{end}{HEADINGS[kind]}{end}{end}")
        if spent + cost <= most.most:
            chosen[one.id] = one.digest
            spent += cost
            headed.add(kind)
    return write_file(chosen), chosen


def _rank_by_proof(one: Entry, now: datetime) -> tuple[Any, ...]:
    """Return a sort key, the most proven first. Nothing that changes by the hour counts, so that the same ones stay."""
    record = one.record
    is_said = record.provenance.origin in (Origin.USER, Origin.CORRECTION)
    repeats = int(record.body.get("metadata", {}).get("repeats", 0))
    judged = record.evidence.successes + record.evidence.ups - record.evidence.downs + repeats
    belief = round(believe(record, now).low, 2)
    return KINDS.index(record.kind), not is_said, -judged, -belief, record.created_at, record.id


# -- import


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    path: str
    dry_run: bool
    changes: tuple[Change, ...] = ()
    unchanged: int = 0
    newer: int = 0
    """Items that the memory knows better by now; an export brings them into the file."""
    replaced: tuple[str, ...] = ()
    """The ids of rules that are not in the file and that a new one contradicts."""
    ignored: tuple[str, ...] = ()
    """What is in the block and is no item of a list, a sentence each."""
    diff: str = ""
    """What becomes of the memory, one item after the other."""

    def of(self, verb: Verb) -> tuple[Change, ...]:
        return tuple(one for one in self.changes if one.verb is verb)

    @property
    def added(self) -> tuple[Change, ...]:
        return self.of(Verb.ADDED)

    @property
    def changed(self) -> tuple[Change, ...]:
        return self.of(Verb.CHANGED)

    @property
    def removed(self) -> tuple[Change, ...]:
        return self.of(Verb.REMOVED)

    @property
    def conflicts(self) -> tuple[Change, ...]:
        return self.of(Verb.CONFLICT)

    @property
    def refused(self) -> tuple[Change, ...]:
        return self.of(Verb.REFUSED)


@operation(Effect.CHANGES, "import_rules", idempotent=True, on_files=True, defaults={"path": "AGENTS.md"})
def import_(
    alma: ALMA | None,
    path: Annotated[str | PathLike[str], About("the file", local=True, is_rule_file=is_rule_file)],
    *,
    project_id: OtherProject = None,
    root: Root = None,
    agent: AnyAgent = None,
    all: Annotated[bool, About("items of lists outside the block become rules, too", shown_as="all_items")] = False,
    trusted: Annotated[
        bool, About("whether the file is your own; what is new in a file of others waits for a person", vouches=True)
    ] = True,
    retire: Annotated[bool, About("archive rules whose items were removed")] = False,
    prefer: Annotated[str | None, About("who is right where both changed", tuple(Side))] = None,
    dry_run: Annotated[bool, About("write nothing, only say what would change")] = False,
) -> ImportReport:
    """Take over what people edited in a file that export_rules wrote: changed items, new ones, removed ones.

    Notes:
    A removed item is only reported unless `retire` puts its rule away. An item that was changed both here and in the
    memory is a conflict: nothing comes of it unless `prefer` says 'file' or 'memory'. With `all` the items of lists
    outside the block become rules too. Of a file that is not `trusted` whatever is new or changed waits as a candidate
    for a person, and nothing else happens. With `dry_run` nothing is written.
    """
    side = None if prefer is None else validate.choice("prefer", prefer, Side)
    file = find_file(path, root, "AGENTS.md")
    text = read_file(file)
    if text is None:
        raise NotFoundError(f"there is no file {file.path}")
    block = find_block(text, file.name)
    if block is None and not all:
        raise ValidationError(
            f"{file.name} has no block of rules; alma rules export writes one, and --all takes the items of lists "
            "that were written by hand"
        )
    beside = list_items_outside(text, block) if all else []
    with open_engine(alma, project_id) as engine:
        owner = find_agent(engine, agent)

        def take_over(tx: Transaction) -> ImportReport:
            comparison = Comparison(
                tx, file.name, block, beside, agent=owner, is_trusted=trusted, prefer=side, retire=retire
            )
            replaced = [] if dry_run else _make_changes(tx, comparison, file.name)
            return ImportReport(
                path=file.name,
                dry_run=dry_run,
                changes=tuple(one.change for one in comparison.differences),
                unchanged=comparison.unchanged,
                newer=comparison.newer,
                replaced=tuple(replaced),
                ignored=tuple(f"line {number}: {line[:_SAMPLE]}" for number, line in (block.other if block else ())),
                diff="\n".join(str(one.change) for one in comparison.differences),
            )

        return take_over(Transaction(engine)) if dry_run else write(engine, take_over)


def plan(alma: ALMA | None, path: str | PathLike[str], **options: Any) -> ImportReport:
    """What `import_` would do with these options; nothing is written."""
    return import_(alma, path, **{**options, "dry_run": True})


def _make_changes(tx: Transaction, comparison: Comparison, name: str) -> list[str]:
    """Put the rules, their history and what the file held; return the ids of the rules that are contradicted."""
    teachings: list[Teaching] = []
    for change, item, words, entry in comparison.differences:
        if change.done and words and (entry is None or change.waits):
            ids = {FILE_ID: item.id if item and entry is None else "", "in_place_of": change.memory_id}
            teachings.append(_teach_rule(words, name, comparison.agent, ids, must_wait=change.waits))
        elif change.done and entry:
            _edit_memory(tx, entry, words, name)
    rules = add_records(tx, [draft for _, draft in prepare_rules(tx.engine, teachings)])
    there = comparison.present | {record.id for record in tx.changed}
    replaced: list[str] = []
    for rule in (record for record in rules if record.status is Status.ACTIVE):
        similar = [one for one in find_similar_rules(tx, rule, tx.engine.project) if one.id not in there]
        replaced += supersede_rules(tx, rule, similar)
    # Put in any case with something new: of two who read the same file at once, one comes second and looks again,
    # instead of adding the same things twice.
    if teachings or comparison.last != comparison.standing:
        tx.set_marker(comparison.ledger_id, {"value": comparison.standing})
    return list(dict.fromkeys(replaced))


def _teach_rule(words: Words, name: str, agent: str, ids: Mapping[str, str | None], *, must_wait: bool) -> Teaching:
    prefer, avoid = find_choice(words.text)
    # That it comes from a person's own file makes it theirs; from anybody else's it waits.
    origin = Provenance(Origin.IMPORT, Trust.UNTRUSTED) if must_wait else Provenance(Origin.USER)
    return Teaching(
        id=f"file:{name}:{words.digest}",
        rule=words.text,
        trigger=words.head,
        why=words.why,
        reach=Reach.PROJECT,
        source=RuleSource.IMPORT if must_wait else RuleSource.NOTE,
        prefer=prefer,
        avoid=avoid,
        agent=agent,
        provenance=replace(origin, source=f"file {name}"),
        metadata={name: id for name, id in ids.items() if id},
    )


def _edit_memory(tx: Transaction, entry: Entry, words: Words | None, name: str) -> None:
    """Store a memory as it is edited in the file, or put away, and the change for its history.

    A rule that is put away does not come back by itself; stated anew by a person, it holds again.
    """
    record = entry.record
    before: dict[str, Any] = {"status": str(record.status)}
    if words is None:
        retired = tx.update(record, status=Status.ARCHIVED, body={**record.body, "put_away": True})
        tx.add_history(retired, "retired", f"removed by hand from {name}", before)
        return
    fields = {field: clean(value) for field, value in list_changes(entry, words).items()}
    body = {**record.body, **fields, "put_away": False}
    if record.kind == MemoryType.RULE:
        prefer, avoid = find_choice(body["rule"])
        body = dress_rule({**body, "prefer": list(prefer), "avoid": list(avoid)})
    fresh = tx.update(
        record,
        **reword(tx.engine, record, body),
        key=key_of(record.kind, record.agent, record.user, body) or record.key,
        # What a person has edited is theirs; learning moves its evidence, not its words.
        provenance=replace(record.provenance, origin=Origin.USER, trust=Trust.TRUSTED),
        status=Status.ACTIVE,
        valid_to=None,
        superseded_by="",
    )
    tx.add_history(fresh, "edited", f"by hand in {name}", {field: record.body.get(field) for field in fields} | before)
