"""Reads what work on software a text is about: dependencies, money, sign-in, images and so on, in eight languages.

Two texts may be about the same work without a word in common: "Use pnpm" and "add lodash to the dependencies". The
words are in topics.toml. A text without any of them is about nothing, which most short follow-ups are.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

_WORD = re.compile(r"[\w.+#'-]*\w")
_MOST_CHARS = 2000
BROAD = 0.5
"""How much a topic counts that many tasks are about."""


class _Topics(NamedTuple):
    """The words of all topics, by how they are looked up."""

    whole: dict[str, set[str]]
    phrases: dict[str, set[str]]
    starts: dict[str, set[str]]
    parts: dict[str, set[str]]
    broad: frozenset[str]


def find_topics(text: str) -> dict[str, float]:
    """Return the topics that a text is about, each with how much it tells; none for most short texts."""
    return dict(_find_topics(text[:_MOST_CHARS]))


@lru_cache(maxsize=4096)
def _find_topics(text: str) -> tuple[tuple[str, float], ...]:
    topics = _load_topics()
    folded = _fold_text(text)
    words = _WORD.findall(folded)
    found: set[str] = set()
    for word in words:
        found |= topics.whole.get(word, set())
        for length in range(3, len(word) + 1):
            found |= topics.starts.get(word[:length], set())
    spaced = f" {' '.join(words)} "
    for phrase, names in topics.phrases.items():
        if phrase in spaced:
            found |= names
    for part, names in topics.parts.items():
        if part in folded:
            found |= names
    return tuple((name, BROAD if name in topics.broad else 1.0) for name in sorted(found))


def _fold_text(text: str) -> str:
    """Return a text without case and accents. Signs of Chinese and Japanese stay as they are."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(sign for sign in decomposed if not "\u0300" <= sign <= "\u036f")
    return unicodedata.normalize("NFKC", plain)


@lru_cache(maxsize=1)
def _load_topics() -> _Topics:
    entries = tomllib.loads(Path(__file__).with_name("topics.toml").read_text(encoding="utf-8"))
    topics = _Topics({}, {}, {}, {}, frozenset(name for name, entry in entries.items() if entry.get("broad")))
    for name, entry in entries.items():
        for word in entry["words"].split():
            form = _fold_text(word)
            if "_" in form:
                end = "" if form.endswith("*") else " "
                place, key = topics.phrases, f" {form.strip('*_').replace('_', ' ')}{end}"
            elif form.startswith("*") or form[0] >= "\u2e80":
                place, key = topics.parts, form.strip("*")
            elif form.endswith("*"):
                place, key = topics.starts, form.strip("*")
            else:
                place, key = topics.whole, form
            place.setdefault(key, set()).add(name)
    return topics
