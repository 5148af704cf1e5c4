"""What is read out of files, and what is told about the reading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from ..types.kinds import AntiPattern, DomainKnowledge, Episode, Heuristic, Outcome, Rule, UserPreference


class Format(StrEnum):
    CLAUDE_CODE = "claude-code"
    CHATGPT = "chatgpt"
    CLAUDE_AI = "claude-ai"
    CODEX = "codex"
    SLACK = "slack"
    GEMINI = "gemini-cli"
    CURSOR = "cursor"
    AIDER = "aider"
    SPECSTORY = "specstory"
    CHAT = "chat"
    """Roles and contents, as model APIs take them, or a text in which each line begins with who speaks."""
    MARKDOWN = "markdown"
    TEXT = "text"

    @property
    def is_document(self) -> bool:
        return self in (Format.MARKDOWN, Format.TEXT)


class Voice(StrEnum):
    """Whose words they are, which decides what may be learned from them."""

    PERSON = "person"
    """The one whose memory this is."""
    ASSISTANT = "assistant"
    OTHER = "other"
    """Somebody else: a colleague, a document, a page."""
    TOOL = "tool"
    """A program or a bot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    speaker: str
    text: str
    voice: Voice
    at: datetime | None = None
    id: str = ""
    """The host's own, if it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """A conversation, or a part of a long one: the parts of one have the same session."""

    format: Format
    session: str
    messages: Sequence[Message]
    title: str = ""
    part: str = ""
    """Which part it is; the same part is read again under the same name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A text, or a part of a long one."""

    format: Format
    session: str
    name: str
    text: str
    title: str = ""
    part: str = ""
    at: datetime | None = None
    voice: Voice = Voice.OTHER


Piece = Chat | Document


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was not read, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Damage:
    """A place that could not be read; what stands around it was."""

    path: str
    place: str
    """Such as 'line 12' or 'element 3 (character 4,096)'."""
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.place}: {self.reason}" if self.place else f"{self.path}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Planned:
    """A file that will be read, as what, and how large it is (unpacked)."""

    path: str
    format: Format
    bytes: int
    own: bool = False
    """Whether what a person says in it is taken for the words of the one whose memory this is."""


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
    """How far it is, told after each batch and at the end of each file."""

    path: str
    files: int
    """Done."""
    files_total: int
    bytes: int
    bytes_total: int
    conversations: int
    messages: int


SHOWN = 1_000
"""So many of each kind are listed in a result; `counts` counts them all."""


@dataclass(slots=True, kw_only=True)
class IngestResult:
    """What came of it. The lists hold what is new, the first thousand of each; `counts` counts all."""

    dry_run: bool = False
    domain_knowledge: list[DomainKnowledge] = field(default_factory=list)
    user_preferences: list[UserPreference] = field(default_factory=list)
    anti_patterns: list[AntiPattern] = field(default_factory=list)
    heuristics: list[Heuristic] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    work_items: list[Any] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)
    """Conversations and documents that are new or have grown."""
    counts: dict[str, int] = field(default_factory=dict)
    """How many there are of each of the above, and: files, conversations, messages, known (told before), unchanged,
    waiting (of those that are new: candidates until a person approves them)."""
    files: dict[str, str] = field(default_factory=dict)
    """The files read, and their formats."""
    skipped: list[Skipped] = field(default_factory=list)
    damaged: list[Damage] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    """What was read and deliberately not kept, such as the output of tools, and how often."""
    refused: list[str] = field(default_factory=list)
    """What could not be kept, and why."""
    notes: list[str] = field(default_factory=list)
    """What one should know, such as an encoding that was guessed."""

    def count(self, name: str, by: int = 1) -> None:
        if by:
            self.counts[name] = self.counts.get(name, 0) + by

    def leave(self, what: str, by: int = 1) -> None:
        if by:
            self.left_out[what] = self.left_out.get(what, 0) + by

    def damage(self, path: str, place: str, reason: str) -> None:
        self._list("damaged", Damage(path, place, reason))

    def skip(self, path: str, reason: str) -> None:
        self._list("skipped", Skipped(path, reason))

    def refuse(self, why: str) -> None:
        self._list("refused", why)

    def _list(self, name: str, item: object) -> None:
        self.count(name)
        if len(listed := getattr(self, name)) < SHOWN:
            listed.append(item)

    def note(self, what: str) -> None:
        if what not in self.notes and len(self.notes) < SHOWN:
            self.notes.append(what)

    @property
    def total(self) -> int:
        """How many memories are new, conversations not counted."""
        return sum(self.counts.get(name, 0) for name in MEMORIES)


MEMORIES = (
    *("domain_knowledge", "user_preferences", "anti_patterns", "heuristics"),
    *("outcomes", "rules", "work_items"),
)
