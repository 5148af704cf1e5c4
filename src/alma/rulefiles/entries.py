"""What the memory holds that may stand in a file, how it reads there, and how a file differs from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ..engine.admit import key_of
from ..engine.context import Engine
from ..engine.evidence import believe
from ..engine.rules import AGENT, RULE_CHARS, describe_occasion, is_old_fix
from ..engine.transaction import Transaction
from ..types.kinds import EVERYWHERE, MemoryType, quoted_why
from ..types.query import Where
from ..types.record import Origin, Record, Status, Trust
from .block import Block, Item, Words, make_digest, read_words

LONGEST = 1_500
"""Characters; a longer memory is a document, and no line of a list."""
FILE_ID = "file_id"
"""Under this name a rule that came from a file keeps the id it has there, so that all who share the file share it."""
_PROVEN = 0.6
"""How sure, at the low end of the belief, a strategy or fact must be to stand in a file."""
_PART_CHARS = 240
_AVOID = "Avoid: "

HEADINGS: Mapping[str, str] = {
    MemoryType.RULE: "",
    MemoryType.HEURISTIC: "### What works",
    MemoryType.ANTI_PATTERN: "### What to avoid",
    MemoryType.DOMAIN_KNOWLEDGE: "### What is known",
}
KINDS = tuple(HEADINGS)
_PARTS = ("text", "head", "why", "instead")
_FIELDS: Mapping[str, tuple[str, ...]] = {
    MemoryType.RULE: ("rule", "trigger", "why"),
    MemoryType.HEURISTIC: ("strategy", "condition"),
    MemoryType.ANTI_PATTERN: ("pattern", "condition", "why_bad", "better_alternative"),
    MemoryType.DOMAIN_KNOWLEDGE: ("fact",),
}
"""Which fields of a body the parts of an item are, in the order of `Words`."""


class Entry(NamedTuple):
    """A memory as it stands in a file."""

    id: str
    record: Record
    words: Words
    digest: str


def make_entry(record: Record) -> Entry:
    """Return what a reader needs; a trigger or reason that only says the rule over again is left out."""
    words = Words(*(str(record.body.get(field) or "") for field in _FIELDS[record.kind]))
    if words.why:
        words = words._replace(why=quoted_why(record))
    words = words.folded()
    if record.kind == MemoryType.ANTI_PATTERN:
        words = words._replace(text=f"{_AVOID}{words.text}")
    elif record.kind == MemoryType.RULE:
        why = "" if words.why.lower() in words.text.lower() else words.why
        words = words._replace(head=describe_occasion(words.head, words.text), why=why)
    file_id = record.body.get("metadata", {}).get(FILE_ID)
    id = file_id if isinstance(file_id, str) and len(file_id) == 8 else make_digest(record.id, 8)
    return Entry(id, record, words, words.digest)


def read_item_words(item: Item, kind: str = MemoryType.RULE) -> Words:
    return read_words(item.said, _PARTS[: len(_FIELDS[kind])])


def list_changes(entry: Entry, words: Words) -> dict[str, str]:
    """Return the fields that read otherwise now, as the memory keeps them."""
    kind = entry.record.kind
    prefix = _AVOID if kind == MemoryType.ANTI_PATTERN else ""
    new, old = (one._replace(text=one.text.removeprefix(prefix)) for one in (words, entry.words))
    pairs = list(zip(_FIELDS[kind], new, old, strict=False))
    changed = {field: after for field, after, before in pairs if after != before}
    if "rule" in changed:
        # What only said the old rule over again goes with it.
        changed |= {field: "" for field, after, before in pairs if not after + before}
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


class Wanted(NamedTuple):
    """What is to stand in a file."""

    kinds: frozenset[str]
    agent: str | None = None
    everywhere: bool = False

    def why_not(self, engine: Engine, one: Entry) -> str | None:
        """Return why a memory that holds is left out all the same; empty: it is none of what was asked for."""
        record, now = one.record, engine.clock()
        is_over = record.valid_to is not None and record.valid_to <= now
        if record.status is not Status.ACTIVE or record.kind not in self.kinds or record.session or is_over:
            return ""
        if self.agent not in (None, record.agent):
            return ""
        trust, size = record.provenance.trust, len(one.words.line())
        # A person said it, or it came out well often enough.
        is_proven = record.provenance.origin is Origin.USER or believe(record, now).low >= _PROVEN
        is_hostile = trust is not Trust.TRUSTED and is_planted(one.words)
        reasons = {
            "an agent worked it out, and no person accepted it": is_old_fix(record),
            "it comes from an untrusted source": trust is Trust.UNTRUSTED,
            "nobody said it, and it reads like an instruction that was planted": is_hostile,
            "it holds in all projects, not only in this one": record.project == EVERYWHERE and not self.everywhere,
            "it is not proven enough": record.kind != MemoryType.RULE and not is_proven,
            f"it has {size:,} characters, and an item has at most {LONGEST:,}": size > LONGEST,
        }
        return next((reason for reason, is_true in reasons.items() if is_true), None)


def is_planted(words: Words) -> bool:
    """Whether the words read like an instruction that somebody planted for the model."""
    # Loaded here: its patterns take a while to compile, and most rules were said by a person.
    from ..engine.escape import suspicious

    return bool(suspicious(words.line()))


# -- what is different


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

    def __str__(self) -> str:
        title = f"@@ {self.verb}{'' if self.done else ', left as it is'}{self.why and f': {self.why}'} @@"
        words = {"-": self.before, "+": self.after}
        return "\n".join([title, *(f"{sign}{line}" for sign, line in words.items() if line)])


class Difference(NamedTuple):
    """A change, what the file says there, and which memory it is about."""

    change: Change
    item: Item | None
    words: Words | None
    entry: Entry | None


class Comparison:
    """A file beside the memory as it is now."""

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
        self._is_trusted, self._prefer = is_trusted, prefer
        items = block.items if block else ()
        # The marker of what stood in the file when it was last written or read: the ids and the digests of their words.
        # Before all else: who writes it between now and then makes us look again.
        self.ledger_id = "mrk_rules_" + make_digest(f"{tx.engine.project}\x1f{name}", 12)
        marker = tx.find(self.ledger_id)
        self.last: dict[str, str] = dict(marker.body["value"]) if marker else {}
        self.known = find_entries(tx.engine, kinds, {*(item.id for item in items if item.id), *self.last})
        active = {one.id: one for one in self.known.values() if one.record.status is Status.ACTIVE}
        self._by_words = {one.digest: one for one in active.values()}
        agents = Counter(self.known[item.id].record.agent for item in items if item.id in self.known)
        self.agent = agent or next((one for one, _ in agents.most_common(1)), AGENT)
        rules = [one for one in self.known.values() if one.record.kind == MemoryType.RULE and not one.record.session]
        self._keys = {
            one.record.key: one
            for status in (Status.ARCHIVED, Status.CANDIDATE, Status.ACTIVE)
            for one in rules
            if (one.record.status, one.record.agent) == (status, self.agent)
        }
        self.differences: list[Difference] = []
        self.unchanged = self.newer = 0
        self.standing: dict[str, str] = {}
        """What stands in the file and is in the memory, for the ledger."""
        self.present: set[str] = set()
        """The ids of the memories that stand in the file."""
        self._added: set[str] = set()
        seen: set[str] = {""}
        fresh: list[Item] = []
        for item in items:
            one = self.known.get(item.id)
            if one is None or item.id in seen:
                # It may be a copy of another item, id and all.
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
        """Note what stood in the file and does not any more."""
        wanted = Wanted(frozenset(KINDS), everywhere=True)
        for id, digest in self.last.items():
            one = active.get(id)
            if one is not None and one.record.id not in self.present and wanted.why_not(engine, one) is None:
                if not done:
                    self.standing[id] = digest
                self._note(Verb.REMOVED, entry=one, done=done, why="" if done else "it stays in the memory")

    def _compare_known(self, item: Item, one: Entry) -> None:
        words = read_item_words(item, one.record.kind)
        # What both last agreed on: others may have written to the file since.
        base = self.last.get(item.id, item.base)
        is_active = one.record.status is Status.ACTIVE
        if is_active:
            self.standing[one.id] = base
        if is_active and words.digest == one.digest:
            self.standing[one.id] = one.digest
            self.unchanged += 1
        elif words.digest == base:
            # The memory changed it or let go of it; the next export brings that into the file.
            self.newer += 1
        elif self._prefer is Side.FILE or (is_active and base in ("", one.digest)):
            self._change(item, one, words)
        else:
            why = "the memory has changed it too since the export" if is_active else "the memory has let go of it since"
            if self._prefer is Side.MEMORY:
                # Seen and decided: the next export may write over it.
                self.standing[one.id] = words.digest
                why = f"{why}; the memory's words are kept"
            self._note(Verb.CONFLICT, item, words, one, why=why)

    def _compare_new(self, item: Item) -> None:
        words = read_item_words(item)
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
        elif self.last.get(item.id) in [read_item_words(item, kind).digest for kind in KINDS]:
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

    def _note(
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
            why = "it reads like a planted instruction and waits for your review"
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
        self.differences.append(Difference(change, item, words, entry))


def _find_problem(words: Words, kind: str) -> str:
    """Return why these words cannot be kept as they are; empty when they can."""
    if not words.text:
        return "it says nothing"
    if kind != MemoryType.RULE:
        return "" if len(words.line()) <= LONGEST else f"it is longer than {LONGEST:,} characters"
    limits = {"the rule": RULE_CHARS, "when": _PART_CHARS, "why": _PART_CHARS}
    for (what, most), text in zip(limits.items(), words, strict=False):
        if len(text) > most:
            return f"{what} has {len(text):,} characters, and at most {most:,} are kept: make two of it"
    return ""
