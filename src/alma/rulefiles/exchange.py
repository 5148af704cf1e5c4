"""Export rules to a file in a stable order within its size limit, and import edits of the file."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from os import PathLike
from pathlib import PurePosixPath
from typing import Annotated, Any, NamedTuple

from ..engine import validate
from ..engine.admit import clean, key_of, reword
from ..engine.context import Engine
from ..engine.edit import credit_edit
from ..engine.escape import find_suspicion
from ..engine.evidence import believe
from ..engine.facts import add_records
from ..engine.rule_lines import describe_occasion, dress_rule
from ..engine.rules import (
    AGENT,
    RULE_CHARS,
    Teaching,
    find_similar_rules,
    is_copy,
    is_old_fix,
    prepare_rules,
    supersede_rules,
)
from ..engine.transaction import Transaction, write
from ..errors import NotFoundError, ValidationError, unknown
from ..memory import ALMA
from ..opening import OwnsMemory
from ..operations import About, Effect, Group
from ..reading.local_rules import find_choice
from ..text import shorten
from ..types.kinds import EVERYWHERE, MemoryType, Reach, RuleSource, quoted_why
from ..types.query import Where
from ..types.record import Origin, Provenance, Record, Status, Trust
from ..words import AnyAgent
from . import targets
from .block import (
    Block,
    Item,
    Words,
    find_block,
    find_newline,
    list_items_outside,
    make_begin,
    make_digest,
    place_block,
    read_words,
    remove_block,
    write_item,
)

operation = Group("rules")
Root = Annotated[
    str | PathLike[str] | None,
    About("the root of the repository (default: the repository of the current folder)", local=True, is_root=True),
]
OtherProject = Annotated[str | None, About("the project, where it is not the memory's own", for_python=True)]

TITLE = "## Project rules (stated by the user)"
_SAMPLE = 80
_MOST = 10_000_000


@contextmanager
def open_engine(alma: ALMA | None, project_id: str | None) -> Iterator[Engine]:
    """Return the engine of `alma`, or of the configured memory, for `project_id` or the memory's own project."""
    with OwnsMemory(alma, project_id) as holder:
        engine = holder.alma.engine
        yield engine if project_id is None else replace(engine, project=validate.name("project_id", project_id))


def find_agent(engine: Engine, agent: str | None) -> str | None:
    """Return the valid name of an agent; None if none was passed."""
    return None if agent is None else engine.agent(validate.name("agent", agent))


# -- memories as entries of a file

LONGEST = 1_500  # Characters. A longer memory is a document, not a list item.
# The metadata key for the id that an imported rule has in its file, so that everyone who shares the file shares the id.
FILE_ID = "file_id"
_PROVEN = 0.6  # The lower bound of the confidence that a strategy or fact needs to be exported.
_PART_CHARS = 240
_AVOID = "Avoid: "
IN_ALL_PROJECTS = "it applies in all projects, not only in this one"

HEADINGS: Mapping[str, str] = {
    MemoryType.RULE: "",
    MemoryType.HEURISTIC: "### What worked (learned from outcomes)",
    MemoryType.ANTI_PATTERN: "### Avoid (learned from outcomes)",
    MemoryType.DOMAIN_KNOWLEDGE: "### Facts",
}
KINDS = tuple(HEADINGS)
_PARTS = ("text", "head", "why", "instead")
# The fields of a body that hold the parts of an item, in the order of `Words`.
_FIELDS: Mapping[str, tuple[str, ...]] = {
    MemoryType.RULE: ("rule", "trigger", "why"),
    MemoryType.HEURISTIC: ("strategy", "condition"),
    MemoryType.ANTI_PATTERN: ("pattern", "condition", "why_bad", "better_alternative"),
    MemoryType.DOMAIN_KNOWLEDGE: ("fact",),
}


class Entry(NamedTuple):
    """A memory in the form of a file item."""

    id: str
    record: Record
    words: Words
    digest: str


def make_entry(record: Record) -> Entry:
    """Return a memory as an entry. A trigger or reason that only repeats the rule is left out."""
    words = Words(*(str(record.body.get(field) or "") for field in _FIELDS[record.kind]))
    if words.why:
        words = words._replace(why=quoted_why(record))
    words = words.normalise()
    if record.kind == MemoryType.ANTI_PATTERN:
        words = words._replace(text=f"{_AVOID}{words.text}")
    elif record.kind == MemoryType.RULE:
        why = "" if words.why.lower() in words.text.lower() else words.why
        words = words._replace(head=describe_occasion(words.head, words.text), why=why)
    file_id = record.body.get("metadata", {}).get(FILE_ID)
    id = file_id if isinstance(file_id, str) and len(file_id) == 8 else make_digest(record.id, 8)
    return Entry(id, record, words, words.digest)


def read_item_words(item: Item, kind: str = MemoryType.RULE) -> Words:
    """Return the words of an item, with the parts that memories of this kind have."""
    return read_words(item.markdown, _PARTS[: len(_FIELDS[kind])])


def list_changes(entry: Entry, words: Words) -> dict[str, str]:
    """Return the fields of a memory that an edit changes, with their new values."""
    kind = entry.record.kind
    prefix = _AVOID if kind == MemoryType.ANTI_PATTERN else ""
    new, old = (one._replace(text=one.text.removeprefix(prefix)) for one in (words, entry.words))
    pairs = list(zip(_FIELDS[kind], new, old, strict=False))
    changed = {field: after for field, after, before in pairs if after != before}
    if "rule" in changed:
        # A trigger or reason that only repeated the old rule is removed with it.
        changed |= {field: "" for field, after, before in pairs if not after + before}
    return changed


def find_entries(engine: Engine, kinds: Iterable[str], ids: Iterable[str]) -> dict[str, Entry]:
    """Return all memories of these kinds that could be in a file, whatever their status, by their id there.

    If some of the `ids` are missing, return memories of every kind.
    """
    # Files belong to the project, so memories of a single user are not written to them.
    where = Where(kinds={MemoryType.RULE, *kinds}, projects={engine.project, EVERYWHERE}, users={""})
    entries: dict[str, Entry] = {}
    for record in sorted(engine.store.scan(where), key=lambda one: (one.status is not Status.ACTIVE, one.id)):
        one = make_entry(record)
        entries.setdefault(one.id, one)
    is_whole = where.kinds == set(KINDS) or all(id in entries for id in ids)
    return entries if is_whole else find_entries(engine, KINDS, ())


def find_reason(
    engine: Engine,
    one: Entry,
    kinds: Collection[str] = KINDS,
    agent: str | None = None,
    by_hand: Collection[str] = (),
    *,
    everywhere: bool = True,
) -> str | None:
    """Return why a memory is left out of a file; None if it is included, empty if it was not requested."""
    record, now = one.record, engine.clock()
    is_over = record.valid_to is not None and record.valid_to <= now
    is_other = record.kind not in kinds or agent not in (None, record.agent)
    if record.status is not Status.ACTIVE or is_other or record.session or is_over:
        return ""
    trust, size = record.provenance.trust, len(one.words.line())
    # A person stated it, or its outcomes prove it.
    is_proven = record.provenance.origin is Origin.USER or believe(record, now).low >= _PROVEN
    is_hostile = trust is not Trust.TRUSTED and find_suspicion(one.words.line())
    reasons = {
        "a team's server shared it and nobody stated it here": is_copy(record),
        "an agent derived it and no person accepted it": is_old_fix(record),
        "it comes from an untrusted source": trust is Trust.UNTRUSTED,
        "no person stated it and it reads like a planted instruction": is_hostile,
        IN_ALL_PROJECTS: record.project == EVERYWHERE and not everywhere,
        "it has too little evidence": record.kind != MemoryType.RULE and not is_proven,
        f"it has {size:,} characters; the limit for an item is {LONGEST:,}": size > LONGEST,
        "the file already has it, written by hand": one.digest in by_hand,
    }
    return next((reason for reason, is_true in reasons.items() if is_true), None)


# -- differences between a file and the memory


class Side(StrEnum):
    """Which side wins if the file and the memory both changed."""

    FILE = "file"
    MEMORY = "memory"


class Verb(StrEnum):
    """What happened to an item of a file."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"
    CONFLICT = "conflict"  # Changed in the file and in the memory since the export.
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A difference between the file and the memory, and whether it was imported."""

    verb: Verb
    line: int = 0  # In the file; 0 if it is no longer there.
    memory_id: str | None = None
    before: str = ""
    after: str = ""
    done: bool = False  # It was imported, or would be with `dry_run`.
    waits: bool = False  # Imported as a candidate, which a person has to accept.
    why: str = ""

    def __str__(self) -> str:
        title = f"@@ {self.verb}{'' if self.done else ', not imported'}{self.why and f': {self.why}'} @@"
        words = {"-": self.before, "+": self.after}
        return "\n".join([title, *(f"{sign}{line}" for sign, line in words.items() if line)])


# A change, the item and its words in the file, and the memory that it is about.
Difference = tuple[Change, Item | None, Words | None, Entry | None]


class Comparison:
    """The differences between a file and the current memory."""

    def __init__(
        self,
        tx: Transaction,
        name: str,
        block: Block | None,
        beside: Iterable[Item] = (),
        *,
        kinds: Iterable[str] = (),
        agent: str | None = None,
        is_trusted: bool = True,
        prefer: Side | None = None,
        retire: bool = False,
    ) -> None:
        self._is_trusted, self._prefer, self._is_deleted = is_trusted, prefer, tx.is_buried
        items = block.items if block else ()
        # The marker holds the ids and digests of the items when the file was last written or read. It is read first, so
        # that a concurrent write makes this transaction run again.
        self.ledger_id = "mrk_rules_" + make_digest(f"{tx.engine.project}\x1f{name}", 12)
        marker = tx.find(self.ledger_id)
        self.last: dict[str, str] = dict(marker.body["value"]) if marker else {}
        self.entries = find_entries(tx.engine, kinds, {*(item.id for item in items if item.id), *self.last})
        active = {one.id: one for one in self.entries.values() if one.record.status is Status.ACTIVE}
        self._by_words = {one.digest: one for one in active.values()}
        agents = Counter(self.entries[item.id].record.agent for item in items if item.id in self.entries)
        self.agent = agent or next((one for one, _ in agents.most_common(1)), AGENT)
        rules = [one for one in self.entries.values() if one.record.kind == MemoryType.RULE and not one.record.session]
        self._keys = {
            one.record.key: one
            for status in (Status.ARCHIVED, Status.CANDIDATE, Status.ACTIVE)
            for one in rules
            if (one.record.status, one.record.agent) == (status, self.agent)
        }
        self.differences: list[Difference] = []
        self.unchanged = self.newer = 0
        self.ledger: dict[str, str] = {}  # The digests of items that are both in the file and in the memory, by id.
        self.present: set[str] = set()  # The ids of the memories that are in the file.
        self._added: set[str] = set()
        seen: set[str] = {""}
        fresh: list[Item] = []
        for item in items:
            one = self.entries.get(item.id)
            if one is None or item.id in seen:
                # It may be a copy of another item, including its id.
                fresh.append(item if item.id not in seen else item._replace(id="", base=""))
            else:
                self.present.add(one.record.id)
                self._compare_known(item, one)
            seen.add(item.id)
        for item in (*fresh, *beside):
            self._compare_new(item)
        if block is not None:
            self._note_removed(tx.engine, active, done=retire and is_trusted)

    def _note_removed(self, engine: Engine, active: Mapping[str, Entry], *, done: bool) -> None:
        """Add the items that were removed from the file."""
        for id, digest in self.last.items():
            one = active.get(id)
            if one is not None and one.record.id not in self.present and find_reason(engine, one) is None:
                if not done:
                    self.ledger[id] = digest
                self._add_difference(Verb.REMOVED, entry=one, done=done, why="" if done else "it stays in the memory")

    def _compare_known(self, item: Item, one: Entry) -> None:
        words = read_item_words(item, one.record.kind)
        # The last state that both agreed on; others may have written to the file since.
        base = self.last.get(item.id, item.base)
        is_active = one.record.status is Status.ACTIVE
        if is_active:
            self.ledger[one.id] = base
        if is_active and words.digest == one.digest:
            self.ledger[one.id] = one.digest
            self.unchanged += 1
        elif words.digest == base:
            # The memory changed or removed it; the next export updates the file.
            self.newer += 1
        elif self._prefer is Side.FILE or (is_active and base in ("", one.digest)):
            self._compare_changed(item, one, words)
        else:
            why = "it also changed in the memory since the export" if is_active else "it is no longer in the memory"
            if self._prefer is Side.MEMORY:
                # The person decided, so the next export may overwrite the item.
                self.ledger[one.id] = words.digest
                why = f"{why}; the memory's version is kept"
            self._add_difference(Verb.CONFLICT, item, words, one, why=why)

    def _compare_new(self, item: Item) -> None:
        words = read_item_words(item)
        if not words.text:
            return
        equal, key = self._by_words.get(words.digest), self._make_key(words)
        same = self._keys.get(key)
        if equal is not None:
            self.present.add(equal.record.id)
            self.ledger[equal.id] = equal.digest
            self.unchanged += 1
        elif problem := _find_problem(words, MemoryType.RULE):
            self._add_difference(Verb.REFUSED, item, words, why=problem)
        elif _has_digest(item, self.last.get(item.id)):
            # It was deleted from the memory and is unchanged in the file.
            self.newer += 1
        elif self._is_deleted(key):
            self._add_difference(Verb.REFUSED, item, words, why="it was deleted; add it again with `alma add rule`")
        elif key in self._added or (same is not None and same.record.id in self.present):
            self._add_difference(Verb.REFUSED, item, words, same, why="the file contains it twice")
        elif same is not None:
            # The memory has it under another id, as a candidate or archived, or with another trigger or reason.
            self.present.add(same.record.id)
            self._compare_changed(item, same, words)
        else:
            self._added.add(key)
            if item.id:
                self.ledger[item.id] = words.digest
            self._add_difference(Verb.ADDED, item, words, done=True)

    def _compare_changed(self, item: Item, one: Entry, words: Words) -> None:
        same, must_wait = self._keys.get(self._make_key(words)), self._must_wait(words)
        # The same words are a candidate already.
        is_waiting = must_wait and same is not None and same.record.status is Status.CANDIDATE
        if problem := _find_problem(words, one.record.kind):
            self._add_difference(Verb.REFUSED, item, words, one, why=problem)
        elif is_waiting or (one.record.status is Status.ACTIVE and not list_changes(one, words)):
            self.unchanged += 1
        else:
            if not must_wait:
                self.ledger[one.id] = words.digest
            self._add_difference(Verb.CHANGED, item, words, one, done=True)

    def _must_wait(self, words: Words) -> bool:
        """Return whether a person must accept it: the file is untrusted, or it reads like a planted instruction."""
        return not self._is_trusted or bool(find_suspicion(words.line()))

    def _make_key(self, words: Words) -> str:
        return key_of(MemoryType.RULE, self.agent, "", {"rule": words.text})

    def _add_difference(
        self,
        verb: Verb,
        item: Item | None = None,
        words: Words | None = None,
        entry: Entry | None = None,
        *,
        done: bool = False,
        why: str = "",
    ) -> None:
        waits = done and words is not None and self._must_wait(words)
        if waits and self._is_trusted:
            why = "it reads like a planted instruction and is a candidate until you accept it"
        change = Change(
            verb=verb,
            line=item.number if item else 0,
            memory_id=entry.record.id if entry else None,
            before=f"- {entry.words.line()}" if entry else "",
            after=f"- {words.line()}" if words else "",
            done=done,
            waits=waits,
            why=why,
        )
        self.differences.append((change, item, words, entry))


def _find_problem(words: Words, kind: str) -> str:
    """Return why these words cannot be stored; empty if they can."""
    if not words.text:
        return "it has no text"
    if kind != MemoryType.RULE:
        return "" if len(words.line()) <= LONGEST else f"it is longer than {LONGEST:,} characters"
    limits = {"the rule": RULE_CHARS, "when": _PART_CHARS, "why": _PART_CHARS}
    for (what, most), text in zip(limits.items(), words, strict=False):
        if len(text) > most:
            return f"{what} has {len(text):,} characters; the limit is {most:,}. Split it into two items"
    return ""


# -- export


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An active memory that is not in the file, and why."""

    memory_id: str
    text: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """The result of an export."""

    to: str
    path: str  # The file, below the root of its repository.
    root: str
    items: int  # How many memories the file contains now, or would with `check`.
    changed: bool  # The file differs from the memory (with `check`), or did before the export.
    written: bool
    diff: str  # A unified diff; empty when nothing changes.
    left_out: tuple[LeftOut, ...] = ()
    # Edits in the file that were not imported yet, one sentence each. An export would overwrite them.
    hand_edits: tuple[str, ...] = ()
    size: str
    limit: str


@operation(Effect.CHANGES, "export_rules", idempotent=True, on_files=True)
def export(
    alma: ALMA | None,
    to: Annotated[str, About("the file format", tuple(targets.TARGETS))],
    path: Annotated[
        str | PathLike[str] | None,
        About(
            "the file to write (default: the agent's own file, such as AGENTS.md)",
            local=True,
            is_rule_file=targets.is_rule_file,
        ),
    ] = None,
    *,
    project_id: OtherProject = None,
    root: Root = None,
    agent: AnyAgent = None,
    everywhere: Annotated[bool, About("also export rules that apply in all projects (reach always)")] = False,
    include: Annotated[
        Iterable[str] | None, About("memory types to export (default: rule); all but rules only if proven", KINDS)
    ] = None,
    name: Annotated[str, About("the name of the skill, or of the file in a rules folder")] = targets.NAME,
    limit: Annotated[
        int | None,
        About("maximum size of the file, in bytes or characters as the agent counts (default: the agent's limit)"),
    ] = None,
    check: Annotated[bool, About("report whether the file is up to date, and write nothing")] = False,
    force: Annotated[bool, About("overwrite edits that were not imported")] = False,
    remove: Annotated[bool, About("remove the block from the file", for_python=True)] = False,
    importer: Annotated[str, About("the import command that the mark of a new block names", for_python=True)] = (
        "alma rules import"
    ),
) -> ExportReport:
    """Write this project's rules to AGENTS.md, CLAUDE.md or another agent's file, in a marked block.

    Notes:
    `to` is 'agents-md', 'claude-md', 'cursor', 'windsurf', 'copilot' or 'skill'. Without `path`, the agent's default
    file at the root of the repository is written. `include` lists memory types: 'rule' (the default), 'heuristic',
    'anti_pattern' and 'domain_knowledge'; of the last three, only proven ones are exported. `everywhere` adds rules of
    all projects. Items beyond the size limit are left out, those with the least evidence first. With `check`, nothing
    is written. Edits in the block that were not imported are overwritten only with `force`. With `remove`, the block
    is removed instead, and a file without other content is deleted.
    """
    host = validate.choice("target", to, targets.Host)
    kinds = validate.names("include", include or (MemoryType.RULE,))
    for kind in set(kinds) - set(KINDS):
        raise ValidationError(unknown("memory type to include", kind, KINDS))
    most = targets.TARGETS[host].limit
    most = most if limit is None else most._replace(most=validate.whole("limit", limit, 1, _MOST))
    file = targets.find_file(path, root, targets.TARGETS[host].path.format(name=targets.check_name(name)))
    if path is None and not targets.is_rule_file(PurePosixPath(file.name)):
        raise ValidationError(
            f"{file.path} is a link to {file.name}, which is not a rule file; pass its path to write there"
        )
    if host is targets.Host.SKILL and file.real.name == "SKILL.md":
        # A skill has the name of its folder.
        name = targets.check_name(file.real.parent.name)
    with open_engine(alma, project_id) as engine:
        before = targets.read_file(file)
        block = find_block(before or "", file.name)
        comparison = Comparison(Transaction(engine), file.name, block, kinds=kinds)
        by_hand = {read_item_words(one).digest for one in list_items_outside(before or "", block)}
        owner, entries = find_agent(engine, agent), comparison.entries
        reasons = {
            id: find_reason(engine, one, kinds, owner, by_hand, everywhere=everywhere) for id, one in entries.items()
        }
        fitting = [one for id, one in entries.items() if reasons[id] is None and one.words.text]
        left_out = {id: why for id, why in reasons.items() if why}
        front = targets.make_front(host, file.name, name)
        after, ledger = before, dict[str, str]()
        if remove:
            # A file without other content is deleted.
            rest = remove_block(before or "", file.name)
            after = "" if rest.strip() == front.strip() else rest
        elif block or fitting:
            after, ledger = _fill_block(
                engine, before or "", block, (front, make_begin(importer, file.name)), fitting, most
            )
            left_out |= {one.id: f"the file is limited to {most}" for one in fitting if one.id not in ledger}
        edits = _list_hand_edits(block, comparison, fitting, remove=remove) if block else []
        if edits and after != before and not (check or force):
            raise _refuse_edits(file.name, edits)
        if not check and after is not None:
            if after != before:
                targets.change_file(file, after or None, before)
            if ledger != comparison.last:
                write(engine, lambda tx: tx.set_marker(comparison.ledger_id, {"value": ledger}))
    old, new = ([row.removesuffix("\r") for row in one.split("\n")] if one else [] for one in (before, after))
    return ExportReport(
        to=host,
        path=file.name,
        root=str(file.root),
        items=len(ledger),
        changed=(before or "") != (after or ""),
        written=not check and after != before,
        diff="\n".join(difflib.unified_diff(old, new, f"a/{file.name}", f"b/{file.name}", n=2, lineterm="")),
        left_out=tuple(LeftOut(entries[id].record.id, entries[id].words.text, why) for id, why in left_out.items()),
        hand_edits=tuple(edits),
        size=str(most._replace(most=most.unit.of(after or ""))),
        limit=str(most),
    )


def _refuse_edits(name: str, edits: Sequence[str]) -> ValidationError:
    edit_lines = "\n".join(f"  {one}" for one in edits)
    removed = "; --retire archives removed rules" if any(one.endswith("(removed)") for one in edits) else ""
    return ValidationError(
        f"{name} has edits that were not imported, and an export would overwrite them:\n{edit_lines}\n"
        f"Import them first (alma rules import {name}{removed}), or export with --force."
    )


def _list_hand_edits(
    block: Block, comparison: Comparison, fitting: Sequence[Entry], *, remove: bool = False
) -> list[str]:
    """Return the edits that an export would overwrite although they were not imported.

    With `remove`, items that the memory does not know count only if they changed since their export, unless the memory
    has read or written this file: the memory that exported them may have been erased.
    """
    edits = [f"line {number}: {shorten(line, _SAMPLE)} (not a list item)" for number, line in block.other]
    for change, item, _, entry in comparison.differences:
        if item is not None and remove and not comparison.last and entry is None and _has_digest(item, item.base):
            continue
        if item is not None:
            what = "changed" if item.id in comparison.entries else "new"
            edits.append(f"line {change.line}: {shorten(item.markdown, _SAMPLE)} ({what})")
        elif entry is not None and entry in fitting:
            edits.append(f"{shorten(entry.words.text, _SAMPLE)} (removed)")
    return edits


def _has_digest(item: Item, digest: str | None) -> bool:
    """Return whether an item has the words of this digest, read as a memory of any kind."""
    return digest in [read_item_words(item, kind).digest for kind in KINDS]


def _fill_block(
    engine: Engine,
    text: str,
    block: Block | None,
    opening: tuple[str, str],
    entries: Sequence[Entry],
    most: targets.Limit,
) -> tuple[str, dict[str, str]]:
    """Return the file with as many entries as fit in the limit, those with most evidence first, and their digests.

    `opening` is the front matter of a new file and the first marker of a new block.
    """
    # The ids in the file, in its order, matched by id or by text. New entries go to the end, so that a diff shows only
    # them.
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
        return place_block(text, block, parts if chosen else parts[:1], *opening)

    chosen: dict[str, str] = {}
    headed: set[str] = {MemoryType.RULE}
    size = most.unit.of(write_file({})) + most.unit.of(end)
    now = engine.clock()
    for one in sorted(entries, key=lambda one: _rank_by_proof(one, now)):
        kind = one.record.kind
        cost = most.unit.of(lines[one.id] + end)
        cost += 0 if kind in headed else most.unit.of(f"{end}{HEADINGS[kind]}{end}{end}")
        if size + cost <= most.most:
            chosen[one.id] = one.digest
            size += cost
            headed.add(kind)
    return write_file(chosen), chosen


def _rank_by_proof(one: Entry, now: datetime) -> tuple[Any, ...]:
    """Return a sort key, most evidence first. It does not depend on the time of day, so the selection is stable."""
    record = one.record
    is_said = record.provenance.origin in (Origin.USER, Origin.CORRECTION)
    repeats = int(record.body.get("metadata", {}).get("repeats", 0))
    judged = record.evidence.successes + record.evidence.ups - record.evidence.downs + repeats
    belief = round(believe(record, now).low, 2)
    return KINDS.index(record.kind), not is_said, -judged, -belief, record.created_at, record.id


# -- import


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """The result of an import."""

    path: str
    dry_run: bool
    changes: tuple[Change, ...] = ()
    unchanged: int = 0
    newer: int = 0  # Items that changed in the memory only; an export updates them in the file.
    replaced: tuple[str, ...] = ()  # The ids of rules outside the file that an imported rule superseded.
    ignored: tuple[str, ...] = ()  # Lines of the block that are not list items, one sentence each.
    diff: str = ""  # The changes of the memory, item by item.

    def of(self, verb: Verb) -> tuple[Change, ...]:
        """Return the changes with this verb."""
        return tuple(one for one in self.changes if one.verb is verb)

    added = property(lambda self: self.of(Verb.ADDED))
    changed = property(lambda self: self.of(Verb.CHANGED))
    removed = property(lambda self: self.of(Verb.REMOVED))
    conflicts = property(lambda self: self.of(Verb.CONFLICT))
    refused = property(lambda self: self.of(Verb.REFUSED))


@operation(Effect.CHANGES, "import_rules", idempotent=True, on_files=True, defaults={"path": "AGENTS.md"})
def import_(
    alma: ALMA | None,
    path: Annotated[str | PathLike[str], About("the file", local=True, is_rule_file=targets.is_rule_file)],
    *,
    project_id: OtherProject = None,
    root: Root = None,
    agent: Annotated[
        str | None,
        About("the agent that new rules belong to (default: the agent of the exported rules)", check=validate.name),
    ] = None,
    all: Annotated[bool, About("also import list items outside the block as rules", shown_as="all_items")] = False,
    trusted: Annotated[
        bool, About("whether the file is your own; changes in an untrusted file become candidates", vouches=True)
    ] = True,
    retire: Annotated[bool, About("archive rules whose items were removed")] = False,
    prefer: Annotated[str | None, About("which side wins if both changed", tuple(Side))] = None,
    dry_run: Annotated[bool, About("report what would change, and write nothing")] = False,
) -> ImportReport:
    """Import the changed, new and removed items of a file that export_rules wrote.

    Notes:
    A removed item is only reported, unless `retire` archives its rule. An item that changed both in the file and in the
    memory is a conflict, which is skipped unless `prefer` is 'file' or 'memory'. With `all`, list items outside the
    block become rules too. New and changed items of a file that is not `trusted` become candidates, and nothing else
    is imported. With `dry_run`, nothing is written.
    """
    side = None if prefer is None else validate.choice("prefer", prefer, Side)
    file = targets.find_file(path, root, "AGENTS.md")
    text = targets.read_file(file)
    if text is None:
        raise NotFoundError(f"there is no file {file.path}")
    block = find_block(text, file.name)
    if block is None and not all:
        raise ValidationError(
            f"{file.name} has no block of rules; write one with alma rules export, or import list items outside a "
            "block with --all"
        )
    beside = list_items_outside(text, block) if all else []
    with open_engine(alma, project_id) as engine:
        owner = find_agent(engine, agent)

        def take_over(tx: Transaction) -> ImportReport:
            comparison = Comparison(
                tx, file.name, block, beside, agent=owner, is_trusted=trusted, prefer=side, retire=retire
            )
            replaced = [] if dry_run else _make_changes(tx, comparison, file.name)
            changes = tuple(change for change, *_ in comparison.differences)
            return ImportReport(
                path=file.name,
                dry_run=dry_run,
                changes=changes,
                unchanged=comparison.unchanged,
                newer=comparison.newer,
                replaced=tuple(replaced),
                ignored=tuple(f"line {number}: {line[:_SAMPLE]}" for number, line in (block.other if block else ())),
                diff="\n".join(map(str, changes)),
            )

        return take_over(Transaction(engine)) if dry_run else write(engine, take_over)


def plan(alma: ALMA | None, path: str | PathLike[str], **options: Any) -> ImportReport:
    """Return what `import_` would do with these options. Nothing is written."""
    return import_(alma, path, **{**options, "dry_run": True})


def _make_changes(tx: Transaction, comparison: Comparison, name: str) -> list[str]:
    """Store the changes, their history and the state of the file; return the ids of the rules that are superseded."""
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
    # Write the marker whenever something is new: if two processes import the same file at once, the second one runs
    # again instead of adding everything twice.
    if teachings or comparison.last != comparison.ledger:
        tx.set_marker(comparison.ledger_id, {"value": comparison.ledger})
    return list(dict.fromkeys(replaced))


def _teach_rule(words: Words, name: str, agent: str, ids: Mapping[str, str | None], *, must_wait: bool) -> Teaching:
    prefer, avoid = find_choice(words.text)
    # A rule from a person's own file counts as theirs; one from another file becomes a candidate.
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
    """Update a memory to the words in the file, or archive it if `words` is None, and add the change to its history.

    An archived rule is not learned again by itself. If a person states it again, it becomes active.
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
        provenance=credit_edit(record, Provenance(Origin.USER), fields),
        status=Status.ACTIVE,
        valid_to=None,
        superseded_by="",
    )
    tx.add_history(fresh, "edited", f"by hand in {name}", {field: record.body.get(field) for field in fields} | before)
