"""Hand edits of a file back into the memory: what is different, what comes of it, and then doing it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from os import PathLike
from typing import TYPE_CHECKING, Any

from ..engine import validate
from ..engine.admit import change, clean, commit, inserting, key_of, revise, rewrite
from ..engine.context import Engine
from ..engine.drafts import Draft
from ..engine.rules import AGENT, RULE_CHARS, contradicted, dressed
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
        engine = holder.alma.engine
        engine = engine if project_id is None else replace(engine, project=validate.name("project_id", project_id))
        who = None if agent is None else engine.agent(validate.name("agent", agent))
        page = _page(where, all)
        options = _Options(trusted=trusted, retire=retire, prefer=side, agent=who)
        if dry_run:
            return _Comparison(engine, page, options).report(dry_run=True)

        def attempt() -> tuple[ImportReport, Sequence[Record]]:
            found = _Comparison(engine, page, options)
            records, replaced = _records(engine, found)
            return found.report(dry_run=False, replaced=replaced), records

        return commit(engine, attempt)


def plan(alma: ALMA | None, path: str | PathLike[str], **options: Any) -> ImportReport:
    """What `import_` would do with these options; nothing is written."""
    return import_(alma, path, **{**options, "dry_run": True})


@dataclass(frozen=True, slots=True)
class _Options:
    trusted: bool
    retire: bool
    prefer: Side | None
    agent: str | None


@dataclass(frozen=True, slots=True)
class _Page:
    name: str
    there: blocks.Content
    marked: bool
    """There is a block."""
    beside: tuple[Item, ...]
    """What stands around it and was asked for."""


def _page(where: files.Place, all: bool) -> _Page:
    text = files.read(where)
    if text is None:
        raise NotFoundError(f"there is no file {where.path}")
    block = blocks.find(text, where.name)
    if block is None and not all:
        raise ValidationError(
            f"{where.name} has no block of rules; alma rules export writes one, and --all takes the items of lists "
            "that were written by hand"
        )
    there = blocks.content(block) if block is not None else blocks.Content((), "", ())
    return _Page(where.name, there, block is not None, tuple(blocks.outside(text, block)) if all else ())


# -- what is different


class _Comparison:
    """A file beside the memory as it is now."""

    def __init__(self, engine: Engine, page: _Page, options: _Options) -> None:
        self.page, self.options = page, options
        # Before all else: who writes it between now and then makes us look again.
        self.ledger = held.ledger(engine, page.name)
        self._last = self.ledger.standing
        ids = {item.id for item in page.there.items if item.id}
        self._known = held.everything(engine, (), {*ids, *self._last})
        self._active = {one.id: one for one in self._known.values() if one.record.status is Status.ACTIVE}
        self._by_words = {one.digest: one for one in self._active.values()}
        self.agent = options.agent or self._usual_agent()
        self._keys = self._by_key()
        self.changes: list[Change] = []
        self.unchanged = self.newer = 0
        self.standing: dict[str, str] = {}
        """What stands in the file and is in the memory, for the ledger."""
        self.present: set[str] = set()
        """The ids of the memories that stand in the file."""
        self._added: set[str] = set()
        self._compare(engine)

    def _usual_agent(self) -> str:
        seen = [self._known[item.id].record.agent for item in self.page.there.items if item.id in self._known]
        return Counter(seen).most_common(1)[0][0] if seen else AGENT

    def _by_key(self) -> dict[str, Entry]:
        rules = [one for one in self._known.values() if one.record.kind == MemoryType.RULE and not one.record.session]
        live = [one for one in rules if one.record.status in _LIVE and one.record.agent == self.agent]
        ranked = sorted(live, key=lambda one: _LIVE.index(one.record.status), reverse=True)
        return {one.record.key: one for one in ranked}

    def _compare(self, engine: Engine) -> None:
        fresh: list[Item] = []
        seen: set[str] = set()
        for item in self.page.there.items:
            one = self._known.get(item.id)
            if item.id in seen:
                # A copy of another item, id and all.
                fresh.append(replace(item, id="", base=""))
            elif one is None:
                fresh.append(item)
            else:
                self.present.add(one.record.id)
                self._standing(item, one)
            seen |= {item.id} - {""}
        for item in (*fresh, *self.page.beside):
            self._new(item)
        if self.page.marked:
            self._gone(engine)

    # -- an item that the memory knows

    def _standing(self, item: Item, one: Entry) -> None:
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
            self._changed(item, one, words)
        else:
            self._conflict(item, one, words, "the memory has changed it too since the export")

    def _conflict(self, item: Item, one: Entry, words: Words, why: str) -> None:
        if self.options.prefer is Side.FILE:
            self._changed(item, one, words)
        elif self.options.prefer is Side.MEMORY:
            # Seen and decided: the next export may write over it.
            self.standing[one.id] = words.digest
            self._tell(Verb.CONFLICT, item, words, one, why=f"{why}; the memory's words are kept")
        else:
            self._tell(Verb.CONFLICT, item, words, one, why=why)

    def _changed(self, item: Item, one: Entry, words: Words) -> None:
        problem = _problem(words, one.record.kind)
        if problem:
            return self._tell(Verb.REFUSED, item, words, one, why=problem)
        if (one.record.status is Status.ACTIVE and not held.changes(one, words)) or self._waiting(words):
            self.unchanged += 1
            return None
        if not self._must_wait(words):
            self.standing[one.id] = words.digest
        return self._tell(Verb.CHANGED, item, words, one, done=True)

    def _must_wait(self, words: Words) -> bool:
        """Whether a person has to see it first: an untrusted file, or words that read like a planted instruction."""
        return not self.options.trusted or held.read_as_planted(words)

    def _waiting(self, words: Words) -> bool:
        """These words wait for a person already."""
        same = self._keys.get(self._key(words))
        return same is not None and same.record.status is Status.CANDIDATE and self._must_wait(words)

    def _key(self, words: Words) -> str:
        return key_of(MemoryType.RULE, self.agent, "", {"rule": words.text})

    # -- an item that it does not know

    def _new(self, item: Item) -> None:
        words = read(item.said, held.GRAMMARS[MemoryType.RULE])
        if not words.text:
            return None
        known = self._by_words.get(words.digest)
        if known is not None:
            self.present.add(known.record.id)
            self.standing[known.id] = known.digest
            self.unchanged += 1
            return None
        problem = _problem(words, MemoryType.RULE)
        if not problem and self._last.get(item.id) == words.digest:
            # It was deleted from the memory, and nobody touched it here.
            self.newer += 1
            return None
        if problem:
            return self._tell(Verb.REFUSED, item, words, why=problem)
        key = self._key(words)
        same = self._keys.get(key)
        if key in self._added or (same is not None and same.record.id in self.present):
            return self._tell(Verb.REFUSED, item, words, same, why="the file says the same twice")
        if same is not None:
            return self._same(item, same, words)
        self._added.add(key)
        if item.id:
            self.standing[item.id] = words.digest
        return self._tell(Verb.ADDED, item, words, done=True)

    def _same(self, item: Item, one: Entry, words: Words) -> None:
        """The memory has it under another id, waiting or put away, or with another occasion or reason."""
        self.present.add(one.record.id)
        self._changed(item, one, words)

    # -- an item that is not there any more

    def _gone(self, engine: Engine) -> None:
        wanted = Wanted(frozenset(held.KINDS), everywhere=True)
        for id in self._last:
            one = self._active.get(id)
            if one is None or one.record.id in self.present or wanted.why_not(engine, one) is not None:
                continue
            done = self.options.retire and self.options.trusted
            if not done:
                self.standing[id] = self._last[id]
            self._tell(Verb.REMOVED, None, None, one, done=done, why="" if done else "it stays in the memory")

    def _tell(
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
        if waits and not why and self.options.trusted:
            why = "it reads like a planted instruction and waits for your review"
        told = Change(
            verb=verb,
            line=item.number if item else 0,
            memory_id=one.record.id if one else None,
            before=f"- {one.words.line()}" if one else "",
            after=f"- {words.line()}" if words else "",
            done=done,
            waits=waits or (done and not self.options.trusted),
            why=why,
            item_id=item.id if item else "",
            words=words,
        )
        self.changes.append(told)

    def entry(self, memory_id: str | None) -> Entry:
        return next(one for one in self._known.values() if one.record.id == memory_id)

    def report(self, *, dry_run: bool, replaced: Iterable[str] = ()) -> ImportReport:
        return ImportReport(
            path=self.page.name,
            dry_run=dry_run,
            changes=tuple(self.changes),
            unchanged=self.unchanged,
            newer=self.newer,
            replaced=tuple(replaced),
            ignored=tuple(f"line {number}: {text[:_SAMPLE]}" for number, text in self.page.there.other),
        )


def _problem(words: Words, kind: str) -> str:
    """Why these words cannot be kept as they are."""
    if not words.text:
        return "it says nothing"
    if kind != MemoryType.RULE:
        return "" if len(words.line()) <= held.LONGEST else f"it is longer than {held.LONGEST:,} characters"
    for what, text, most in (
        ("the rule", words.text, RULE_CHARS),
        ("when", words.head, _PART_CHARS),
        ("why", words.why, _PART_CHARS),
    ):
        if len(text) > most:
            return f"{what} has {len(text):,} characters, and at most {most:,} are kept: make two of it"
    return ""


# -- doing it


def _records(engine: Engine, found: _Comparison) -> tuple[list[Record], list[str]]:
    """All that is put, in one go: the rules as they become, their history, and what the file held."""
    path = found.page.name
    doing = [one for one in found.changes if one.done]
    records: list[Record] = []
    drafts: list[Draft] = []
    for one in doing:
        if one.verb is Verb.ADDED or (one.verb is Verb.CHANGED and one.waits):
            drafts.append(_draft(engine, found, one))
        elif one.verb is Verb.CHANGED:
            records += _edited(engine, found.entry(one.memory_id), one, path)
        elif one.verb is Verb.REMOVED:
            records += _retired(engine, found.entry(one.memory_id).record, path)
    made, inserted = inserting(engine, drafts)() if drafts else ([], [])
    records += inserted
    active = [record for record in made if record.status is Status.ACTIVE]
    ended = [line for record in active for line in contradicted(engine, record)]
    there = found.present | {record.id for record in records}
    ended = [line for line in ended if line.id not in there and not there & set(line.links)]
    replaced = [line.id for line in ended if line.kind == MemoryType.RULE]
    once = {line.id: line for line in (*ended, *records)}
    return [*once.values(), *found.ledger.saying(engine, found.standing, always=bool(drafts))], list(
        dict.fromkeys(replaced)
    )


def _draft(engine: Engine, found: _Comparison, one: Change) -> Draft:
    assert one.words is not None
    trusted = not one.waits
    metadata: dict[str, Any] = {"sources": [f"file:{found.page.name}:{one.words.digest}"], "repeats": 0}
    if one.verb is Verb.ADDED and one.item_id:
        metadata[held.FILE_ID] = one.item_id
    if one.memory_id:
        metadata["in_place_of"] = one.memory_id
    body = _ruled({"rule": one.words.text, "trigger": one.words.head, "why": one.words.why})
    body |= {"reach": str(Reach.PROJECT), "source": str(RuleSource.NOTE if trusted else RuleSource.IMPORT), "said": ""}
    # That it comes from a person's own file makes it theirs; from anybody else's it waits.
    origin = Provenance(Origin.USER) if trusted else Provenance(Origin.IMPORT, Trust.UNTRUSTED)
    return Draft(
        kind=MemoryType.RULE,
        agent=engine.agent(found.agent),
        body=dressed({**body, "metadata": metadata}),
        provenance=replace(origin, source=f"file {found.page.name}"),
    )


def _ruled(words: Mapping[str, str]) -> dict[str, Any]:
    """The words of a rule, cleaned, and the names it prefers and avoids."""
    told = {name: str(clean(value)) for name, value in words.items()}
    prefer, avoid = find_choice(told["rule"])
    return {**told, "prefer": list(prefer), "avoid": list(avoid)}


def _edited(engine: Engine, entry: Entry, one: Change, path: str) -> list[Record]:
    assert one.words is not None
    record, home = entry.record, replace(engine, project=entry.record.project)
    told = {field: clean(value) for field, value in held.changes(entry, one.words).items()}
    body = {**record.body, **told, "put_away": False}
    if record.kind == MemoryType.RULE:
        body = dressed({**body, **_ruled({name: body[name] for name in ("rule", "trigger", "why")})})
    fresh = rewrite(
        home,
        record,
        body,
        status=Status.ACTIVE,
        valid_to=None,
        superseded_by="",
        # What a person has edited is theirs; learning moves its evidence, not its words.
        provenance=replace(record.provenance, origin=Origin.USER, trust=Trust.TRUSTED),
        key=key_of(record.kind, record.agent, record.user, body) or record.key,
    )
    before = {field: record.body.get(field) for field in told} | {"status": str(record.status)}
    return [fresh, change(home, fresh, "edited", f"by hand in {path}", before)]


def _retired(engine: Engine, record: Record, path: str) -> list[Record]:
    """Put away, so that it does not come back by itself; stated anew by a person, it holds again."""
    home = replace(engine, project=record.project)
    fresh = revise(home, record, status=Status.ARCHIVED, body={**record.body, "put_away": True})
    return [fresh, change(home, fresh, "retired", f"removed by hand from {path}", {"status": str(record.status)})]
