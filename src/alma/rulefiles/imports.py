"""Hand edits of a file back into the memory: what is different, what comes of it, and then doing it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from os import PathLike
from typing import Annotated, Any

from ..engine import validate
from ..engine.admit import Draft, clean, key_of, prepare, rewrite
from ..engine.context import Engine
from ..engine.facts import add_records
from ..engine.rules import AGENT, RULE_CHARS, dress_rule, find_similar_rules, supersede_rules
from ..engine.transaction import Transaction, write
from ..errors import NotFoundError, ValidationError
from ..memory import ALMA
from ..opening import Holder
from ..operations import About, Effect
from ..reading.local_rules import find_choice
from ..types.kinds import MemoryType
from ..types.record import Origin, Provenance, Status, Trust
from ..types.rules import Reach, RuleSource
from ..words import AnyAgent
from .block import Block, Item, Words, find_block, list_items_outside, read_words
from .exports import (
    FILE_ID,
    KINDS,
    LONGEST,
    PARTS,
    Entry,
    OtherProject,
    Root,
    Wanted,
    find_agent,
    find_entries,
    is_planted,
    list_changes,
    make_ledger_id,
    operation,
    read_ledger,
    use_project,
)
from .targets import find_file, read_file

_PART_CHARS = 240
_LIVE = (Status.ACTIVE, Status.CANDIDATE, Status.ARCHIVED)
_SAMPLE = 80


class Side(StrEnum):
    """Who is right when both changed."""

    FILE = "file"
    MEMORY = "memory"


class Verb(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"
    CONFLICT = "conflict"
    """Changed in the file and in the memory since the export."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that is different in the file, and what comes of it."""

    verb: Verb
    line: int = 0
    """In the file; 0: it is not there any more."""
    memory_id: str | None = None
    before: str = ""
    after: str = ""
    done: bool = False
    """It was taken over, or would be."""
    waits: bool = False
    """Taken over as a candidate, which holds when a person says so."""
    why: str = ""


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
    path: Annotated[str | PathLike[str], About("the file", local=True, rule_file=True)],
    *,
    project_id: OtherProject = None,
    root: Root = None,
    agent: AnyAgent = None,
    all: Annotated[bool, About("items of lists outside the block become rules, too", shown_as="all_items")] = False,
    trusted: Annotated[bool, About("false for a file of others: what is new waits for a person", vouches=True)] = True,
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
    with Holder(alma, project_id) as holder:
        engine = use_project(holder.alma.engine, project_id)
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
        options: dict[str, Any] = {"is_trusted": trusted, "retire": retire, "prefer": side}
        options["agent"] = find_agent(engine, agent)

        def take_over(tx: Transaction) -> ImportReport:
            comparison = _Comparison(tx, file.name, block, beside, **options)
            replaced = [] if dry_run else _make_changes(tx, comparison)
            changes = tuple(one for one, _, _ in comparison.changes)
            diff = []
            for one in changes:
                why = f": {one.why}" if one.why else ""
                diff.append(f"@@ {one.verb}{'' if one.done else ', left as it is'}{why} @@")
                diff += [f"{sign}{words}" for sign, words in (("-", one.before), ("+", one.after)) if words]
            return ImportReport(
                path=file.name,
                dry_run=dry_run,
                changes=changes,
                unchanged=comparison.unchanged,
                newer=comparison.newer,
                replaced=tuple(replaced),
                ignored=tuple(f"line {number}: {line[:_SAMPLE]}" for number, line in (block.other if block else ())),
                diff="\n".join(diff),
            )

        return take_over(Transaction(engine)) if dry_run else write(engine, take_over)


def plan(alma: ALMA | None, path: str | PathLike[str], **options: Any) -> ImportReport:
    """What `import_` would do with these options; nothing is written."""
    return import_(alma, path, **{**options, "dry_run": True})


# -- what is different


class _Comparison:
    """A file beside the memory as it is now."""

    def __init__(
        self,
        tx: Transaction,
        name: str,
        block: Block | None,
        beside: Sequence[Item],
        *,
        is_trusted: bool,
        retire: bool,
        prefer: Side | None,
        agent: str | None,
    ) -> None:
        self.name, self._is_trusted, self._prefer = name, is_trusted, prefer
        items = block.items if block else ()
        # Before all else: who writes it between now and then makes us look again.
        self.ledger_id = make_ledger_id(tx.engine, name)
        self.last = read_ledger(tx.find(self.ledger_id))
        self.known = find_entries(tx.engine, (), {*(item.id for item in items if item.id), *self.last})
        self._active = {one.id: one for one in self.known.values() if one.record.status is Status.ACTIVE}
        self._by_words = {one.digest: one for one in self._active.values()}
        agents = Counter(self.known[item.id].record.agent for item in items if item.id in self.known)
        self.agent = agent or (agents.most_common(1)[0][0] if agents else AGENT)
        rules = [one for one in self.known.values() if one.record.kind == MemoryType.RULE and not one.record.session]
        live = [one for one in rules if one.record.status in _LIVE and one.record.agent == self.agent]
        ranked = sorted(live, key=lambda one: _LIVE.index(one.record.status), reverse=True)
        self._keys = {one.record.key: one for one in ranked}
        self.changes: list[tuple[Change, Item | None, Words | None]] = []
        self.unchanged = self.newer = 0
        self.standing: dict[str, str] = {}
        """What stands in the file and is in the memory, for the ledger."""
        self.present: set[str] = set()
        """The ids of the memories that stand in the file."""
        self._added: set[str] = set()
        self._compare_items(items, beside)
        wanted = Wanted(frozenset(KINDS), everywhere=True)
        for id in self.last if block else ():
            one = self._active.get(id)
            if one is None or one.record.id in self.present or wanted.why_not(tx.engine, one) is not None:
                continue
            done = retire and is_trusted
            if not done:
                self.standing[id] = self.last[id]
            self._note(Verb.REMOVED, None, None, one, done=done, why="" if done else "it stays in the memory")

    def _compare_items(self, items: Sequence[Item], beside: Sequence[Item]) -> None:
        fresh: list[Item] = []
        seen: set[str] = set()
        for item in items:
            one = self.known.get(item.id)
            if item.id in seen:
                # A copy of another item, id and all.
                fresh.append(replace(item, id="", base=""))
            elif one is None:
                fresh.append(item)
            else:
                self.present.add(one.record.id)
                self._compare_known(item, one)
            seen |= {item.id} - {""}
        for item in (*fresh, *beside):
            self._compare_new(item)

    def _compare_known(self, item: Item, one: Entry) -> None:
        words = read_words(item.said, PARTS[one.record.kind])
        # What both last agreed on: others may have written to the file since.
        base = self.last.get(item.id, item.base)
        is_edited = words.digest != base
        if one.record.status is not Status.ACTIVE:
            # The memory let go of it; the next export takes it from the file.
            self.newer += not is_edited
            if is_edited:
                self._conflict(item, one, words, "the memory has let go of it since")
            return
        self.standing[one.id] = base
        if words.digest == one.digest:
            self.standing[one.id] = one.digest
            self.unchanged += 1
        elif not is_edited:
            self.newer += 1
        elif base in ("", one.digest):
            self._change(item, one, words)
        else:
            self._conflict(item, one, words, "the memory has changed it too since the export")

    def _conflict(self, item: Item, one: Entry, words: Words, why: str) -> None:
        if self._prefer is Side.FILE:
            self._change(item, one, words)
            return
        if self._prefer is Side.MEMORY:
            # Seen and decided: the next export may write over it.
            self.standing[one.id] = words.digest
            why = f"{why}; the memory's words are kept"
        self._note(Verb.CONFLICT, item, words, one, why=why)

    def _change(self, item: Item, one: Entry, words: Words) -> None:
        same, must_wait = self._keys.get(self._key(words)), self._must_wait(words)
        # These words wait for a person already.
        is_waiting = must_wait and same is not None and same.record.status is Status.CANDIDATE
        if problem := _find_problem(words, one.record.kind):
            self._note(Verb.REFUSED, item, words, one, why=problem)
        elif is_waiting or (one.record.status is Status.ACTIVE and not list_changes(one, words)):
            self.unchanged += 1
        else:
            if not must_wait:
                self.standing[one.id] = words.digest
            self._note(Verb.CHANGED, item, words, one, done=True)

    def _must_wait(self, words: Words) -> bool:
        """Whether a person has to see it first: an untrusted file, or words that read like a planted instruction."""
        return not self._is_trusted or is_planted(words)

    def _key(self, words: Words) -> str:
        return key_of(MemoryType.RULE, self.agent, "", {"rule": words.text})

    def _compare_new(self, item: Item) -> None:
        words = read_words(item.said, PARTS[MemoryType.RULE])
        if not words.text:
            return
        known, key = self._by_words.get(words.digest), self._key(words)
        same = self._keys.get(key)
        if known is not None:
            self.present.add(known.record.id)
            self.standing[known.id] = known.digest
            self.unchanged += 1
        elif problem := _find_problem(words, MemoryType.RULE):
            self._note(Verb.REFUSED, item, words, why=problem)
        elif self.last.get(item.id) == words.digest:
            # It was deleted from the memory, and nobody touched it here.
            self.newer += 1
        elif key in self._added or (same is not None and same.record.id in self.present):
            self._note(Verb.REFUSED, item, words, same, why="the file says the same twice")
        elif same is not None:
            # The memory has it under another id, waiting or put away, or with another occasion or reason.
            self.present.add(same.record.id)
            self._change(item, same, words)
        else:
            self._added.add(key)
            if item.id:
                self.standing[item.id] = words.digest
            self._note(Verb.ADDED, item, words, done=True)

    def _note(
        self,
        verb: Verb,
        item: Item | None,
        words: Words | None,
        one: Entry | None = None,
        *,
        done: bool = False,
        why: str = "",
    ) -> None:
        waits = done and words is not None and self._must_wait(words)
        if waits and not why and self._is_trusted:
            why = "it reads like a planted instruction and waits for your review"
        change = Change(
            verb=verb,
            line=item.number if item else 0,
            memory_id=one.record.id if one else None,
            before=f"- {one.words.line()}" if one else "",
            after=f"- {words.line()}" if words else "",
            done=done,
            waits=waits or (done and not self._is_trusted),
            why=why,
        )
        self.changes.append((change, item, words))


def _find_problem(words: Words, kind: str) -> str:
    """Return why these words cannot be kept as they are; empty when they can."""
    if not words.text:
        return "it says nothing"
    if kind != MemoryType.RULE:
        return "" if len(words.line()) <= LONGEST else f"it is longer than {LONGEST:,} characters"
    parts = {"the rule": (words.text, RULE_CHARS), "when": (words.head, _PART_CHARS), "why": (words.why, _PART_CHARS)}
    for what, (text, most) in parts.items():
        if len(text) > most:
            return f"{what} has {len(text):,} characters, and at most {most:,} are kept: make two of it"
    return ""


# -- doing it


def _make_changes(tx: Transaction, comparison: _Comparison) -> list[str]:
    """Put the rules, their history and what the file held; return the ids of the rules that are contradicted."""
    entries = {one.record.id: one for one in comparison.known.values()}
    drafts: list[Draft] = []
    for one, item, words in comparison.changes:
        if one.done and words is not None and (one.verb is Verb.ADDED or one.waits):
            drafts.append(_draft_rule(tx.engine, comparison, one, item, words))
        elif one.done:
            _edit_memory(tx, entries[one.memory_id or ""], words, comparison.name)
    made = add_records(tx, prepare(tx.engine, drafts))
    there = comparison.present | {record.id for record in tx.changed}
    replaced: list[str] = []
    for rule in (record for record in made if record.status is Status.ACTIVE):
        similar = [one for one in find_similar_rules(tx, rule, tx.engine.project) if one.id not in there]
        replaced += supersede_rules(tx, rule, similar)
    # Put in any case with something new: of two who read the same file at once, one comes second and looks again,
    # instead of adding the same things twice.
    if drafts or comparison.last != comparison.standing:
        tx.set_marker(comparison.ledger_id, {"value": dict(comparison.standing)})
    return list(dict.fromkeys(replaced))


def _draft_rule(engine: Engine, comparison: _Comparison, one: Change, item: Item | None, words: Words) -> Draft:
    name = comparison.name
    metadata: dict[str, Any] = {"sources": [f"file:{name}:{words.digest}"], "repeats": 0}
    if one.verb is Verb.ADDED and item and item.id:
        metadata[FILE_ID] = item.id
    if one.memory_id:
        metadata["in_place_of"] = one.memory_id
    body = _clean_rule({"rule": words.text, "trigger": words.head, "why": words.why})
    source = RuleSource.IMPORT if one.waits else RuleSource.NOTE
    body |= {"reach": str(Reach.PROJECT), "source": str(source), "said": "", "metadata": metadata}
    # That it comes from a person's own file makes it theirs; from anybody else's it waits.
    origin = Provenance(Origin.IMPORT, Trust.UNTRUSTED) if one.waits else Provenance(Origin.USER)
    provenance = replace(origin, source=f"file {name}")
    agent = engine.agent(comparison.agent)
    return Draft(kind=MemoryType.RULE, agent=agent, body=dress_rule(body), provenance=provenance)


def _clean_rule(words: Mapping[str, str]) -> dict[str, Any]:
    """Return the words of a rule, cleaned, and the names it prefers and avoids."""
    cleaned = {name: str(clean(value)) for name, value in words.items()}
    prefer, avoid = find_choice(cleaned["rule"])
    return {**cleaned, "prefer": list(prefer), "avoid": list(avoid)}


def _edit_memory(tx: Transaction, entry: Entry, words: Words | None, path: str) -> None:
    """Store a memory as it is edited in the file, or put away, and the change for its history.

    A rule that is put away does not come back by itself; stated anew by a person, it holds again.
    """
    record = entry.record
    before: dict[str, Any] = {"status": str(record.status)}
    if words is None:
        retired = tx.update(record, status=Status.ARCHIVED, body={**record.body, "put_away": True})
        tx.add_history(retired, "retired", f"removed by hand from {path}", before)
        return
    fields = {field: clean(value) for field, value in list_changes(entry, words).items()}
    body = {**record.body, **fields, "put_away": False}
    if record.kind == MemoryType.RULE:
        body = dress_rule({**body, **_clean_rule({name: body[name] for name in ("rule", "trigger", "why")})})
    key = key_of(record.kind, record.agent, record.user, body) or record.key
    # What a person has edited is theirs; learning moves its evidence, not its words.
    provenance = replace(record.provenance, origin=Origin.USER, trust=Trust.TRUSTED)
    status = {"status": Status.ACTIVE, "valid_to": None, "superseded_by": ""}
    home = replace(tx.engine, project=record.project)
    fresh = tx.put(rewrite(home, record, body, provenance=provenance, key=key, **status))
    before = {field: record.body.get(field) for field in fields} | before
    tx.add_history(fresh, "edited", f"by hand in {path}", before)
