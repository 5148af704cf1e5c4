"""What the memory holds that may stand in a file: how it reads there, which comes first, and what was written last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..engine import validate
from ..engine.admit import make_marker
from ..engine.context import Engine
from ..engine.evidence import believe
from ..engine.rule_lines import describe_occasion
from ..engine.rules import is_old_fix
from ..types.kinds import MemoryType, quoted_why
from ..types.query import Where
from ..types.record import Origin, Record, Status, Trust
from ..types.rules import EVERYWHERE
from .lines import Grammar, Words, short

PROVEN = 0.6
"""How sure, at the low end of the belief, a strategy or fact must be to stand in a file."""
LONGEST = 1_500
"""Characters; a longer memory is a document, and no line of a list."""
FILE_ID = "file_id"
"""Under this name a rule that came from a file keeps the id it has there, so that all who share the file share it."""
_AVOID = "Avoid: "

HEADINGS: Mapping[str, str] = {
    MemoryType.RULE: "",
    MemoryType.HEURISTIC: "### What works",
    MemoryType.ANTI_PATTERN: "### What to avoid",
    MemoryType.DOMAIN_KNOWLEDGE: "### What is known",
}
KINDS = tuple(HEADINGS)
# Which field of a body each part of an item is.
PARTS: Mapping[str, Mapping[str, str]] = {
    MemoryType.RULE: {"head": "trigger", "text": "rule", "why": "why"},
    MemoryType.HEURISTIC: {"head": "condition", "text": "strategy"},
    MemoryType.ANTI_PATTERN: {
        "head": "condition",
        "text": "pattern",
        "why": "why_bad",
        "instead": "better_alternative",
    },
    MemoryType.DOMAIN_KNOWLEDGE: {"text": "fact"},
}
GRAMMARS = {
    kind: Grammar(head="head" in parts, why="why" in parts, instead="instead" in parts) for kind, parts in PARTS.items()
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A memory as it stands in a file."""

    id: str
    record: Record
    words: Words

    @property
    def digest(self) -> str:
        return self.words.digest


def entry(record: Record) -> Entry:
    kept = record.body.get("metadata", {}).get(FILE_ID)
    id = kept if isinstance(kept, str) and len(kept) == 8 else short(record.id, 8)
    return Entry(id, record, words_of(record))


def words_of(record: Record) -> Words:
    """What a reader needs; a trigger or reason that only says the rule over again is left out."""
    said = {part: str(record.body.get(field) or "") for part, field in PARTS[record.kind].items()}
    if "why" in said:
        said["why"] = quoted_why(record)
    words = Words(**said).folded()
    if record.kind == MemoryType.ANTI_PATTERN:
        return replace(words, text=f"{_AVOID}{words.text}")
    if record.kind != MemoryType.RULE:
        return words
    head = describe_occasion(words.head, words.text)
    return replace(words, head=head, why="" if words.why.lower() in words.text.lower() else words.why)


def changes(entry: Entry, words: Words) -> dict[str, str]:
    """The fields that read otherwise now, as the memory keeps them."""
    parts = PARTS[entry.record.kind].items()
    told, shown = ({field: getattr(one, part) for part, field in parts} for one in (words, entry.words))
    if entry.record.kind == MemoryType.ANTI_PATTERN:
        told["pattern"], shown["pattern"] = (one["pattern"].removeprefix(_AVOID) for one in (told, shown))
    out = {field: value for field, value in told.items() if value != shown[field]}
    if "rule" in out:
        # What only said the old rule over again goes with it.
        out |= {field: "" for field in ("trigger", "why") if not told[field] and not shown[field]}
    return out


# -- which


def everything(engine: Engine, kinds: Iterable[str], ids: Iterable[str]) -> dict[str, Entry]:
    """Return all of these kinds that could ever have stood in a file, whatever became of it, by its id there; when some
    of the ids are none of those, of every kind."""
    # The files are the project's: what belongs to one user is not written there.
    where = Where(kinds={MemoryType.RULE, *kinds}, projects={engine.project, EVERYWHERE}, users={""})
    entries: dict[str, Entry] = {}
    for record in sorted(engine.store.scan(where), key=lambda one: (one.status is not Status.ACTIVE, one.id)):
        one = entry(record)
        entries.setdefault(one.id, one)
    is_whole = where.kinds == set(KINDS) or all(id in entries for id in ids)
    return entries if is_whole else everything(engine, KINDS, ())


def of_project(engine: Engine, project_id: str | None) -> Engine:
    return engine if project_id is None else replace(engine, project=validate.name("project_id", project_id))


def find_agent(engine: Engine, agent: str | None) -> str | None:
    return None if agent is None else engine.agent(validate.name("agent", agent))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to stand in a file."""

    kinds: frozenset[str]
    agent: str | None = None
    everywhere: bool = False

    def why_not(self, engine: Engine, one: Entry) -> str | None:
        """Why a memory that holds is left out all the same; empty: it is none of what was asked for."""
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
        if record.provenance.trust is not Trust.TRUSTED and read_as_planted(one.words):
            return "nobody said it, and it reads like an instruction that was planted"
        if record.project == EVERYWHERE and not self.everywhere:
            return "it holds in all projects, not only in this one"
        # A person said it, or it came out well often enough.
        proven = record.provenance.origin is Origin.USER or believe(record, now).low >= PROVEN
        if record.kind != MemoryType.RULE and not proven:
            return "it is not proven enough"
        size = len(one.words.line())
        return f"it has {size:,} characters, and an item has at most {LONGEST:,}" if size > LONGEST else None


def read_as_planted(words: Words) -> bool:
    """Whether the words read like an instruction that somebody planted for the model."""
    # Loaded here: its patterns take a while to compile, and most rules were said by a person.
    from ..engine.inject.escape import suspicious

    return bool(suspicious(words.line()))


def by_proof(entries: Iterable[Entry], engine: Engine) -> list[Entry]:
    """The most proven first. Nothing that changes by the hour counts, so that the same ones stay."""
    now = engine.clock()

    def place(one: Entry) -> tuple[object, ...]:
        record = one.record
        said = record.provenance.origin in (Origin.USER, Origin.CORRECTION)
        repeats = int(record.body.get("metadata", {}).get("repeats", 0))
        judged = record.evidence.successes + record.evidence.ups - record.evidence.downs + repeats
        belief = round(believe(record, now).low, 2)
        return KINDS.index(record.kind), not said, -judged, -belief, record.created_at, record.id

    return sorted(entries, key=place)


# -- what was written last


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ids that stood in a file when it was last written or read, and the digests of their words."""

    id: str
    record: Record | None
    standing: Mapping[str, str]

    def saying(self, engine: Engine, standing: Mapping[str, str], *, always: bool = False) -> list[Record]:
        """What is to be put so that it says this; nothing when it does.

        Put `always`, it keeps two who read the same file at once from adding the same things twice: one of them comes
        second, and looks again.
        """
        if self.standing == standing and not always:
            return []
        return [make_marker(engine, self.id, {"value": dict(standing)}, self.record)]


def ledger(engine: Engine, name: str) -> Ledger:
    place = "\x1f".join((engine.project, name))
    id = f"mrk_rules_{short(place, 12)}"
    found = next(iter(engine.store.get([id])), None)
    value = found.body["value"] if found else {}
    return Ledger(id, found, dict(value) if isinstance(value, Mapping) else {})
