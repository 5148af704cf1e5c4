"""What is reported about reading files."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ..extraction import Kept
from ..extraction.learner import LISTS
from ..types.kinds import Episode
from .formats import Format

SHOWN = 1_000  # So many of each kind are listed in a result; `counts` counts them all.


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was not read, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Damage:
    """A place that could not be read; what is around it was."""

    path: str
    place: str  # Such as 'line 12' or 'element 3 (character 4,096)'.
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.place}: {self.reason}" if self.place else f"{self.path}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Planned:
    """A file that will be read, as what, and how large it is (unpacked)."""

    path: str
    format: Format
    bytes: int
    own: bool = False  # Whether a person's words in it count as those of the one whose memory this is.


@dataclass(frozen=True, slots=True)
class Plan:
    root: str
    files: tuple[Planned, ...]
    skipped: tuple[Skipped, ...]

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.files)

    @property
    def formats(self) -> dict[str, int]:
        """How many files there are of each format."""
        return dict(sorted(Counter(str(one.format) for one in self.files).items()))


@dataclass(frozen=True, slots=True)
class Progress:
    """How far ingestion is, reported after each batch and at the end of each file."""

    path: str
    files: int  # Done.
    files_total: int
    bytes: int
    bytes_total: int
    conversations: int
    messages: int


@dataclass(slots=True, kw_only=True)
class IngestResult(Kept):
    """What came of it. The lists hold what is new, the first thousand of each; `counts` counts all.

    `counts` also has: files, conversations, messages, known (stored before), unchanged, and waiting (those of the new
    ones that are candidates until a person approves them).
    """

    dry_run: bool = False
    episodes: list[Episode] = field(default_factory=list)  # Conversations and documents that are new or have grown.
    counts: dict[str, int] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)  # The files read, and their formats.
    skipped: list[Skipped] = field(default_factory=list)
    damaged: list[Damage] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)  # What was deliberately not kept, and how often.
    notes: list[str] = field(default_factory=list)  # What one should know, such as an encoding that was guessed.

    @property
    def total(self) -> int:
        """How many memories are new, without conversations."""
        return sum(self.counts.get(name, 0) for name in LISTS)

    def increment(self, name: str, by: int = 1) -> None:
        if by:
            self.counts[name] = self.counts.get(name, 0) + by

    def add(self, name: str, item: object) -> None:
        """Count an item, and list it among the first thousand."""
        self.increment(name)
        if len(listed := getattr(self, name)) < SHOWN:
            listed.append(item)

    def leave_out(self, what: str, by: int = 1) -> None:
        if by:
            self.left_out[what] = self.left_out.get(what, 0) + by

    def damage(self, path: str, place: str, reason: str) -> None:
        self.add("damaged", Damage(path, place, reason))

    def note(self, what: str) -> None:
        if what and what not in self.notes and len(self.notes) < SHOWN:
            self.notes.append(what)
