"""What is told of an export or an import."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from .lines import Words


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
    item_id: str = field(default="", repr=False)
    words: Words | None = field(default=None, repr=False)


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

    @property
    def diff(self) -> str:
        """What becomes of the memory, one item after the other."""
        told = []
        for one in self.changes:
            told.append(f"@@ {one.verb}{'' if one.done else ', left as it is'}{f': {one.why}' if one.why else ''} @@")
            told += [f"-{one.before}"] if one.before else []
            told += [f"+{one.after}"] if one.after else []
        return "\n".join(told)
