"""Hand edits of a file back into the memory: what is different, what comes of it, and then doing it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from os import PathLike
from typing import TYPE_CHECKING, Any

from ..engine import validate
from ..engine.admit import change, clean, key_of, revise, rewrite
from ..engine.context import Engine
from ..engine.drafts import Draft
from ..engine.facts import inserting
from ..engine.rules import AGENT, RULE_CHARS, contradicted, dressed
from ..engine.transaction import commit
from ..errors import NotFoundError, ValidationError
from ..opening import Holder
from ..reading.local_rules import find_choice
from ..types.kinds import MemoryType
from ..types.record import Origin, Provenance, Record, Status, Trust
from ..types.rules import Reach, RuleSource
from . import block as blocks
from . import files, held
from .held import Entry, Wanted
from .lines import Item, Words, read
from .types import Change, ImportReport, Verb

if TYPE_CHECKING:
    from ..core import ALMA

_PART_CHARS = 240
_LIVE = (Status.ACTIVE, Status.CANDIDATE, Status.ARCHIVED)
_SAMPLE = 80


class Side(StrEnum):
    """Who is right when both changed."""

    FILE = "file"
    MEMORY = "memory"


def import_(
    alma: ALMA | None,
    path: str | PathLike[str],
    *,
    project_id: str | None = None,
    root: str | PathLike[str] | None = None,
    agent: str | None = None,
    all: bool = False,
    trusted: bool = True,
    retire: bool = False,
    prefer: str | None = None,
    dry_run: bool = False,
) -> ImportReport:
    """Take over what was edited by hand in a file that `export` wrote: changed items, new ones, removed ones.

    A removed item is only reported unless `retire` puts its rule away. An item that was changed both here and in the
    memory is a conflict: nothing comes of it unless `prefer` says 'file' or 'memory'. With `all` the items of lists
    outside the block become rules too. Of a file that is not `trusted` whatever is new or changed waits as a candidate
    for a person, and nothing else happens. With `dry_run` nothing is written.
    """
    side = None if prefer is None else validate.choice("prefer", prefer, Side)
    where = files.place(path, root, "AGENTS.md")
    with Holder(alma, project_id) as holder:
        engine = held.of_project(holder.alma.engine, project_id)
        page = _read_page(where, all)
        page = replace(page, trusted=trusted, retire=retire, prefer=side, agent=held.find_agent(engine, agent))

        def attempt() -> tuple[ImportReport, Sequence[Record]]:
            comparison = _Comparison(engine, page)
            records, replaced = ([], []) if dry_run else _make_records(engine, comparison)
            return comparison.report(dry_run=dry_run, replaced=replaced), records

        return attempt()[0] if dry_run else commit(engine, attempt)


def plan(alma: ALMA | None, path: str | PathLike[str], **options: Any) -> ImportReport:
    """What `import_` would do with these options; nothing is written."""
    return import_(alma, path, **{**options, "dry_run": True})


@dataclass(frozen=True, slots=True)
class _Page:
    """A file, and how it is to be taken over."""

    name: str
    content: blocks.Content | None
    """What is in its block; None: it has none."""
    beside: tuple[Item, ...]
    """What stands around the block and was asked for."""
    trusted: bool = True
    retire: bool = False
    prefer: Side | None = None
    agent: str | None = None

    @property
    def items(self) -> tuple[Item, ...]:
        return self.content.items if self.content else ()


def _read_page(where: files.Place, all: bool) -> _Page:
    text = files.read(where)
    if text is None:
        raise NotFoundError(f"there is no file {where.path}")
    block = blocks.find(text, where.name)
    if block is None and not all:
        raise ValidationError(
            f"{where.name} has no block of rules; alma rules export writes one, and --all takes the items of lists "
            "that were written by hand"
        )
    beside = tuple(blocks.outside(text, block)) if all else ()
    return _Page(where.name, blocks.content(block) if block is not None else None, beside)


# -- what is different


class _Comparison:
    """A file beside the memory as it is now."""

    def __init__(self, engine: Engine, page: _Page) -> None:
        self.page = page
        # Before all else: who writes it between now and then makes us look again.
        self.ledger = held.ledger(engine, page.name)
        self._last = self.ledger.standing
        self.known = held.everything(engine, (), {*(item.id for item in page.items if item.id), *self._last})
        self._active = {one.id: one for one in self.known.values() if one.record.status is Status.ACTIVE}
        self._by_words = {one.digest: one for one in self._active.values()}
        agents = Counter(self.known[item.id].record.agent for item in page.items if item.id in self.known)
        self.agent = page.agent or (agents.most_common(1)[0][0] if agents else AGENT)
        rules = [one for one in self.known.values() if one.record.kind == MemoryType.RULE and not one.record.session]
        live = [one for one in rules if one.record.status in _LIVE and one.record.agent == self.agent]
        ranked = sorted(live, key=lambda one: _LIVE.index(one.record.status), reverse=True)
        self._keys = {one.record.key: one for one in ranked}
        self.changes: list[Change] = []
        self.unchanged = self.newer = 0
        self.standing: dict[str, str] = {}
        """What stands in the file and is in the memory, for the ledger."""
        self.present: set[str] = set()
        """The ids of the memories that stand in the file."""
        self._added: set[str] = set()
        self._compare_items()
        if page.content is not None:
            self._find_removed(engine)

    def _compare_items(self) -> None:
        fresh: list[Item] = []
        seen: set[str] = set()
        for item in self.page.items:
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
        for item in (*fresh, *self.page.beside):
            self._compare_new(item)

    def _compare_known(self, item: Item, one: Entry) -> None:
        words = read(item.said, held.GRAMMARS[one.record.kind])
        # What both last agreed on: others may have written to the file since.
        base = self._last.get(item.id, item.base)
        edited = words.digest != base
        if one.record.status is not Status.ACTIVE:
            # The memory let go of it; the next export takes it from the file.
            self.newer += not edited
            if edited:
                self._conflict(item, one, words, "the memory has let go of it since")
            return
        self.standing[one.id] = base
        if words.digest == one.digest:
            self.standing[one.id] = one.digest
            self.unchanged += 1
        elif not edited:
            self.newer += 1
        elif base in ("", one.digest):
            self._change(item, one, words)
        else:
            self._conflict(item, one, words, "the memory has changed it too since the export")

    def _conflict(self, item: Item, one: Entry, words: Words, why: str) -> None:
        if self.page.prefer is Side.FILE:
            self._change(item, one, words)
            return
        if self.page.prefer is Side.MEMORY:
            # Seen and decided: the next export may write over it.
            self.standing[one.id] = words.digest
            why = f"{why}; the memory's words are kept"
        self._report_change(Verb.CONFLICT, item, words, one, why=why)

    def _change(self, item: Item, one: Entry, words: Words) -> None:
        same, must_wait = self._keys.get(self._key(words)), self._must_wait(words)
        # These words wait for a person already.
        waits = must_wait and same is not None and same.record.status is Status.CANDIDATE
        if problem := _find_problem(words, one.record.kind):
            self._report_change(Verb.REFUSED, item, words, one, why=problem)
        elif waits or (one.record.status is Status.ACTIVE and not held.changes(one, words)):
            self.unchanged += 1
        else:
            if not must_wait:
                self.standing[one.id] = words.digest
            self._report_change(Verb.CHANGED, item, words, one, done=True)

    def _must_wait(self, words: Words) -> bool:
        """Whether a person has to see it first: an untrusted file, or words that read like a planted instruction."""
        return not self.page.trusted or held.read_as_planted(words)

    def _key(self, words: Words) -> str:
        return key_of(MemoryType.RULE, self.agent, "", {"rule": words.text})

    def _compare_new(self, item: Item) -> None:
        words = read(item.said, held.GRAMMARS[MemoryType.RULE])
        if not words.text:
            return
        known, key = self._by_words.get(words.digest), self._key(words)
        same = self._keys.get(key)
        if known is not None:
            self.present.add(known.record.id)
            self.standing[known.id] = known.digest
            self.unchanged += 1
        elif problem := _find_problem(words, MemoryType.RULE):
            self._report_change(Verb.REFUSED, item, words, why=problem)
        elif self._last.get(item.id) == words.digest:
            # It was deleted from the memory, and nobody touched it here.
            self.newer += 1
        elif key in self._added or (same is not None and same.record.id in self.present):
            self._report_change(Verb.REFUSED, item, words, same, why="the file says the same twice")
        elif same is not None:
            # The memory has it under another id, waiting or put away, or with another occasion or reason.
            self.present.add(same.record.id)
            self._change(item, same, words)
        else:
            self._added.add(key)
            if item.id:
                self.standing[item.id] = words.digest
            self._report_change(Verb.ADDED, item, words, done=True)

    def _find_removed(self, engine: Engine) -> None:
        wanted = Wanted(frozenset(held.KINDS), everywhere=True)
        for id in self._last:
            one = self._active.get(id)
            if one is None or one.record.id in self.present or wanted.why_not(engine, one) is not None:
                continue
            done = self.page.retire and self.page.trusted
            if not done:
                self.standing[id] = self._last[id]
            self._report_change(Verb.REMOVED, None, None, one, done=done, why="" if done else "it stays in the memory")

    def _report_change(
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
        if waits and not why and self.page.trusted:
            why = "it reads like a planted instruction and waits for your review"
        change = Change(
            verb=verb,
            line=item.number if item else 0,
            memory_id=one.record.id if one else None,
            before=f"- {one.words.line()}" if one else "",
            after=f"- {words.line()}" if words else "",
            done=done,
            waits=waits or (done and not self.page.trusted),
            why=why,
            item_id=item.id if item else "",
            words=words,
        )
        self.changes.append(change)

    def report(self, *, dry_run: bool, replaced: Iterable[str] = ()) -> ImportReport:
        other = self.page.content.other if self.page.content else ()
        return ImportReport(
            path=self.page.name,
            dry_run=dry_run,
            changes=tuple(self.changes),
            unchanged=self.unchanged,
            newer=self.newer,
            replaced=tuple(replaced),
            ignored=tuple(f"line {number}: {text[:_SAMPLE]}" for number, text in other),
        )


def _find_problem(words: Words, kind: str) -> str:
    """Return why these words cannot be kept as they are; empty when they can."""
    if not words.text:
        return "it says nothing"
    if kind != MemoryType.RULE:
        return "" if len(words.line()) <= held.LONGEST else f"it is longer than {held.LONGEST:,} characters"
    parts = {"the rule": (words.text, RULE_CHARS), "when": (words.head, _PART_CHARS), "why": (words.why, _PART_CHARS)}
    for what, (text, most) in parts.items():
        if len(text) > most:
            return f"{what} has {len(text):,} characters, and at most {most:,} are kept: make two of it"
    return ""


# -- doing it


def _make_records(engine: Engine, comparison: _Comparison) -> tuple[list[Record], list[str]]:
    """Return all that is put, in one go (the rules, their history and what the file held), and the ids of the rules
    that are contradicted."""
    entries = {one.record.id: one for one in comparison.known.values()}
    records: list[Record] = []
    drafts: list[Draft] = []
    for one in (one for one in comparison.changes if one.done):
        if one.verb is Verb.ADDED or one.waits:
            drafts.append(_draft_rule(engine, comparison, one))
        else:
            records += _edit_memory(engine, entries[one.memory_id or ""], one, comparison.page.name)
    made, inserted = inserting(engine, drafts)() if drafts else ([], [])
    records += inserted
    active = [record for record in made if record.status is Status.ACTIVE]
    there = comparison.present | {record.id for record in records}
    ended = [line for record in active for line in contradicted(engine, record)]
    ended = [line for line in ended if line.id not in there and not there & set(line.links)]
    replaced = dict.fromkeys(line.id for line in ended if line.kind == MemoryType.RULE)
    once = {line.id: line for line in (*ended, *records)}
    ledger = comparison.ledger.saying(engine, comparison.standing, always=bool(drafts))
    return [*once.values(), *ledger], list(replaced)


def _draft_rule(engine: Engine, comparison: _Comparison, one: Change) -> Draft:
    assert one.words is not None
    name = comparison.page.name
    metadata: dict[str, Any] = {"sources": [f"file:{name}:{one.words.digest}"], "repeats": 0}
    if one.verb is Verb.ADDED and one.item_id:
        metadata[held.FILE_ID] = one.item_id
    if one.memory_id:
        metadata["in_place_of"] = one.memory_id
    body = _clean_rule({"rule": one.words.text, "trigger": one.words.head, "why": one.words.why})
    source = RuleSource.IMPORT if one.waits else RuleSource.NOTE
    body |= {"reach": str(Reach.PROJECT), "source": str(source), "said": "", "metadata": metadata}
    # That it comes from a person's own file makes it theirs; from anybody else's it waits.
    origin = Provenance(Origin.IMPORT, Trust.UNTRUSTED) if one.waits else Provenance(Origin.USER)
    provenance = replace(origin, source=f"file {name}")
    agent = engine.agent(comparison.agent)
    return Draft(kind=MemoryType.RULE, agent=agent, body=dressed(body), provenance=provenance)


def _clean_rule(words: Mapping[str, str]) -> dict[str, Any]:
    """Return the words of a rule, cleaned, and the names it prefers and avoids."""
    cleaned = {name: str(clean(value)) for name, value in words.items()}
    prefer, avoid = find_choice(cleaned["rule"])
    return {**cleaned, "prefer": list(prefer), "avoid": list(avoid)}


def _edit_memory(engine: Engine, entry: Entry, one: Change, path: str) -> list[Record]:
    """Return the memory as it is edited in the file, or put away, and the change for its history.

    A rule that is put away does not come back by itself; stated anew by a person, it holds again.
    """
    record, home = entry.record, replace(engine, project=entry.record.project)
    before: dict[str, Any] = {"status": str(record.status)}
    if one.words is None:
        fresh = revise(home, record, status=Status.ARCHIVED, body={**record.body, "put_away": True})
        return [fresh, change(home, fresh, "retired", f"removed by hand from {path}", before)]
    fields = {field: clean(value) for field, value in held.changes(entry, one.words).items()}
    body = {**record.body, **fields, "put_away": False}
    if record.kind == MemoryType.RULE:
        body = dressed({**body, **_clean_rule({name: body[name] for name in ("rule", "trigger", "why")})})
    key = key_of(record.kind, record.agent, record.user, body) or record.key
    # What a person has edited is theirs; learning moves its evidence, not its words.
    provenance = replace(record.provenance, origin=Origin.USER, trust=Trust.TRUSTED)
    status = {"status": Status.ACTIVE, "valid_to": None, "superseded_by": ""}
    fresh = rewrite(home, record, body, provenance=provenance, key=key, **status)
    before = {field: record.body.get(field) for field in fields} | before
    return [fresh, change(home, fresh, "edited", f"by hand in {path}", before)]
