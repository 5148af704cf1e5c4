"""How a memory reads as one item of a list, and what an item says when it is read again.

    - **When deploying:** Use blue-green deployment. *Why:* It can be rolled back. <!-- 4kq0m8zt w31x9c -->

The comment names the memory and a digest of the words as they were written: an item whose words no longer fit its
digest was edited by hand.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace

from .escaping import decode, encode, fold, masked

_MOST = 10_000
"""Characters of an item that are looked at; far more than are ever kept."""
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_MARK = re.compile(r"\s*<!--\s*(?P<id>[0-9a-hjkmnp-tv-z]{8})(?:\s+(?P<base>[0-9a-hjkmnp-tv-z]{6}))?\s*-->")
_HEAD = re.compile(r"(?P<mark>\*\*|__)(?P<head>[^\s].*?):(?P=mark)(?:\s+|$)")
_LABELS = re.compile(r"(?P<mark>[*_])(?P<name>Why|Instead):(?P=mark)\s*")


@dataclass(frozen=True, slots=True)
class Words:
    """What an item says: when it applies, what it is about, why, and what to do instead."""

    text: str
    head: str = ""
    why: str = ""
    instead: str = ""

    def folded(self) -> Words:
        return Words(fold(self.text), fold(self.head), fold(self.why), fold(self.instead))

    @property
    def digest(self) -> str:
        return short("\x1f".join((self.head, self.text, self.why, self.instead)), 6)

    def line(self) -> str:
        head = f"**{encode(self.head, head=True)}:** " if self.head else ""
        why = f" *Why:* {encode(self.why)}" if self.why else ""
        instead = f" *Instead:* {encode(self.instead)}" if self.instead else ""
        return f"{head}{encode(self.text)}{why}{instead}"


@dataclass(frozen=True, slots=True)
class Grammar:
    """Which parts an item of some kind has."""

    head: bool = True
    why: bool = True
    instead: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a list as it stands in a file."""

    said: str
    """Its Markdown on one line, without the comment."""
    number: int
    """The line of the file it begins in."""
    id: str = ""
    base: str = ""
    """The digest of the words it was written with; empty: it was written by hand."""
    heading: str = ""


def short(text: str, length: int) -> str:
    """A digest in letters and digits that are not mistaken for each other."""
    value = int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big")
    return "".join(_ALPHABET[value >> 5 * at & 31] for at in range(length))


def written(words: Words, id: str) -> str:
    return f"- {words.line()} <!-- {id} {words.digest} -->"


def is_mark(comment: str) -> bool:
    return bool(_MARK.fullmatch(comment))


def item(said: str, number: int, heading: str = "") -> Item:
    """An item from its Markdown, which may go over several lines."""
    flat = fold(said)
    marks = list(_MARK.finditer(flat))
    if not marks:
        return Item(flat[:_MOST], number, heading=heading)
    last = marks[-1]
    rest = fold(f"{flat[: last.start()]} {flat[last.end() :]}")
    return Item(rest[:_MOST], number, last["id"], last["base"] or "", heading)


def read(said: str, grammar: Grammar) -> Words:
    """The words of an item. What is not of its grammar is text."""
    blot = masked(said)
    start, head = 0, ""
    if grammar.head and (found := _HEAD.match(blot)):
        head, start = said[found.start("head") : found.end("head")], found.end()
    parts = {"Why": grammar.why, "Instead": grammar.instead}
    labels = [one for one in _LABELS.finditer(blot, start) if parts[one["name"]]]
    ends = [*(one.start() for one in labels), len(said)][1:]
    told: dict[str, str] = {}
    for label, end in zip(labels, ends, strict=True):
        told[label["name"]] = f"{told.get(label['name'], '')} {said[label.end() : end]}"
    text = said[start : labels[0].start()] if labels else said[start:]
    words = Words(decode(text), decode(head), decode(told.get("Why", "")), decode(told.get("Instead", "")))
    # A head alone says nothing of its own; then it is the text.
    return words if words.text else replace(words, text=decode(said), head="", why="", instead="")
