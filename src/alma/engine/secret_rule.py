"""A rule that finds one kind of secret, and the patterns it is made of.

Nothing is compiled before it is needed: most texts hold none of a rule's hints, and a short-lived process that
compiled every pattern would spend more time on that than on its work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

Span = tuple[int, int]
Locate = Callable[["re.Match[str]"], "Span | None"]


class Pattern:
    """A regular expression that is compiled when it is first used."""

    __slots__ = ("_compiled", "flags", "source")

    def __init__(self, source: str, flags: int = 0) -> None:
        self.source = source
        self.flags = flags
        self._compiled: re.Pattern[str] | None = None

    def compiled(self) -> re.Pattern[str]:
        if self._compiled is None:
            self._compiled = re.compile(self.source, self.flags)
        return self._compiled

    def match(self, text: str, at: int = 0) -> re.Match[str] | None:
        return self.compiled().match(text, at)

    def search(self, text: str) -> re.Match[str] | None:
        return self.compiled().search(text)

    def sub(self, new: str, text: str) -> str:
        return self.compiled().sub(new, text)

    def split(self, text: str) -> list[str]:
        return self.compiled().split(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        return self.compiled().finditer(text)


SHORTEST = 15
"""The shortest secret with a shape of its own has as many characters, none of them a space."""

_NUMBER = Pattern(r"\d\d[ -]?\w{4}[ -]?\w\w")
"""Numbers of cards and accounts may be written in groups; somewhere they hold this."""


class Text:
    """A text and what many rules ask of it."""

    __slots__ = ("_numbered", "folded", "long", "longest", "plain")

    def __init__(self, plain: str) -> None:
        self.plain = plain
        self.folded = fold(plain)
        words = plain.split()
        self.longest = max(map(len, words), default=0)
        self.long = " ".join([word for word in words if len(word) >= SHORTEST])
        self._numbered: bool | None = None

    @property
    def numbered(self) -> bool:
        """Whether the number of a card or an account may be in it."""
        if self._numbered is None:
            self._numbered = _NUMBER.search(self.plain) is not None
        return self._numbered


Starts = Callable[["Rule", Text], "Iterator[re.Match[str]]"]


class Rule:
    """What to look for, and where.

    `hints`: without one of these the pattern cannot match. They stand as written in a rule that minds case, and in
    lower case in one that does not (`folds`).
    `needs`: one of these characters must be there too.
    `run`: so many characters without a space must be there; if case matters, the hint is among such.
    `starts`: how matches are looked for.
    """

    __slots__ = ("folds", "hints", "locate", "name", "needs", "pattern", "run", "starts")

    def __init__(
        self,
        name: str,
        hints: tuple[str, ...],
        pattern: str,
        locate: Locate,
        *,
        folds: bool = False,
        needs: str = "",
        run: int = 0,
        starts: Starts | None = None,
    ) -> None:
        self.name = name
        self.hints = hints
        self.pattern = Pattern(pattern)
        self.locate = locate
        self.folds = folds
        self.needs = needs
        self.run = run
        self.starts = starts or anywhere

    def allows(self, text: Text) -> bool:
        """Whether the text has what the rule asks for besides a hint."""
        return text.longest >= self.run and (not self.needs or any(sign in text.plain for sign in self.needs))


class Rules:
    """Rules in the order in which they are tried, found by their hints."""

    __slots__ = ("_by_hint", "rules")

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.rules = rules
        self._by_hint: tuple[dict[str, list[int]], ...] = ({}, {}, {})
        for number, rule in enumerate(rules):
            where = 0 if rule.folds else 1 if not rule.run else 2
            for hint in rule.hints:
                self._by_hint[where].setdefault(hint, []).append(number)

    def for_text(self, text: Text) -> list[Rule]:
        """Those that may match."""
        numbers: set[int] = set()
        for hints, where in zip(self._by_hint, (text.folded, text.plain, text.long), strict=True):
            numbers.update(*[found for hint, found in hints.items() if hint in where])
        return [rule for number in sorted(numbers) if (rule := self.rules[number]).allows(text)]


def fold(text: str) -> str:
    """Lower case, character by character: what a pattern that minds no case takes for the same letter."""
    if not text.isascii():
        text = text.replace("\u0130", "i").replace("\u0131", "i").replace("\u017f", "s")
    return text.lower()


def anywhere(rule: Rule, text: Text) -> Iterator[re.Match[str]]:
    return rule.pattern.finditer(text.plain)


def at_hints(rule: Rule, text: Text) -> Iterator[re.Match[str]]:
    """Matches that begin with a hint: finding the hint is much faster than trying each place."""
    where = text.folded if rule.folds else text.plain
    return _matches(rule, text, sorted(place for hint in rule.hints for place in _places(where, hint)))


def at_matches(anchor: str) -> Starts:
    """Matches that begin where `anchor` does, which is looked for in the lower-case text."""
    ready = Pattern(anchor)
    return lambda rule, text: _matches(rule, text, (found.start() for found in ready.finditer(text.folded)))


def _matches(rule: Rule, text: Text, places: Iterable[int]) -> Iterator[re.Match[str]]:
    done = 0
    for at in places:
        match = rule.pattern.match(text.plain, at) if at >= done else None
        if match:
            done = match.end()
            yield match


def _places(text: str, hint: str) -> Iterator[int]:
    at = text.find(hint)
    while at >= 0:
        yield at
        at = text.find(hint, at + 1)


def _in_marker(text: str, at: int) -> bool:
    return text.rfind("[REDACTED:", max(0, at - 30), at) > text.rfind("]", max(0, at - 30), at)


def find(rule: Rule, text: Text) -> list[Span]:
    spans: list[Span] = []
    end = 0
    for match in rule.starts(rule, text):
        span = rule.locate(match) if match.start() >= end else None
        if span and not _in_marker(text.plain, span[0]):
            spans.append(span)
            end = span[1]
    return spans
