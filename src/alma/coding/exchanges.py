"""Exchanges: what the agent had done, what the person said to it, and what the agent did then.

An exchange is evidence. It keeps both sides apart from what came from elsewhere: the output of tools, pages, files,
messages of other agents and pasted text. `OutsideText` knows the words of those, as far as they were recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ..word_prints import print_words, split_prints


class Deed(NamedTuple):
    """Something that the agent did: a command that it ran, or a file that it changed."""

    offset: int
    ok: bool
    command: str = ""
    path: str = ""
    """The file that was changed; empty for a command."""
    written: str = ""
    """The text that was written into the file."""
    removed: str = ""
    """The text that it took the place of, if the host reports that."""
    error: str = ""
    """What a command that failed printed."""


@dataclass(slots=True)
class Account:
    """What the agent did and said between two turns of the person."""

    deeds: list[Deed] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    offset: int = 0
    """The position in the journal of the last entry."""

    def add_deed(self, deed: Deed) -> None:
        """Add something that the agent did."""
        self.deeds.append(deed)
        self.offset = deed.offset

    def add_message(self, offset: int, text: str) -> None:
        """Add something that the agent wrote to the person."""
        self.messages.append(text)
        self.offset = offset


class OutsideEntry(NamedTuple):
    """The prints of the words of a text that came from outside, at a position of the journal."""

    offset: int
    prints: frozenset[bytes]


@dataclass(slots=True)
class OutsideText:
    """What came from outside in a session: neither typed by the person nor first used by the agent."""

    entries: list[OutsideEntry] = field(default_factory=list)

    def add(self, offset: int, *texts: str, prints: str = "") -> None:
        """Add texts, and the `prints` of a text that was not recorded itself."""
        words = print_words(texts).union(split_prints(prints))
        if words:
            self.entries.append(OutsideEntry(offset, frozenset(words)))

    def find_first(self, print: bytes) -> int | None:
        """Return the position at which a word first came from outside; None if it never did."""
        return next((entry.offset for entry in self.entries if print in entry.prints), None)
