"""Exchanges: what the agent had done, what the person said to it, and what the agent did then.

An exchange is evidence. It keeps both sides apart from what came from elsewhere: the output of tools, pages, files,
messages of other agents and pasted text. `OutsideText` knows the words of those, as far as they were recorded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ..word_prints import CUT, print_runs, print_word, print_words, remove_runs, split_prints


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
    cut_at: int | None = None
    """The position of the first text that was too long for all of its words to be recorded; None without one."""
    _runs: set[int] = field(default_factory=set)

    def add(self, offset: int, *texts: str, prints: str = "", names: Iterable[str] = ()) -> None:
        """Add texts without these names, and the `prints` of a text that was not recorded itself."""
        words = print_words(texts, names).union(split_prints(prints))
        if words:
            self.entries.append(OutsideEntry(offset, frozenset(words)))
        if prints.endswith(CUT) and self.cut_at is None:
            self.cut_at = offset

    def add_names(self, offset: int, names: Iterable[str]) -> None:
        """Add names without the text around them."""
        if prints := frozenset(map(print_word, names)):
            self.entries.append(OutsideEntry(offset, prints))

    def add_quotable(self, *texts: str) -> None:
        """Add texts of which a person may paste a part."""
        for text in texts:
            self._runs |= print_runs(text)

    def remove_quotations(self, text: str) -> str:
        """Return a text of the person with an ellipsis for what they repeated of a text that was added as quotable."""
        return remove_runs(text, self._runs.__contains__) if self._runs else text

    def find_first(self, print: bytes) -> int | None:
        """Return the position at which a word first came from outside; None if it never did."""
        return next((entry.offset for entry in self.entries if print in entry.prints), None)
