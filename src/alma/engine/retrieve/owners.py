"""Whose memories a question asks for. A user is named by the words of their id, or by their role in a team."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product

from ...text import STOP, is_common, stem, words

_DIGITS = re.compile(r"(\d+)")
_WORD = re.compile(r"[^\W_]+")
_MAX_WORDS, _MAX_RUN = 30, 3
_SEPARATORS = "-_. "


@lru_cache(maxsize=4096)
def _split_name(text: str) -> frozenset[str]:
    return frozenset(words(_DIGITS.sub(r" \1 ", text)))


def is_named(name: str, question: str) -> bool:
    """Return whether a question holds all words of a name, or one that is not an ordinary word.

    "alice.smith" is named by "Alice", and "on-call-lead" by "the on-call lead" but not by "lead". Of an address, the
    part before the @ is the name.
    """
    own, asked = _split_name(name.partition("@")[0]), set(map(stem, _split_name(question)))
    telling = (word for word in own if len(word) > 2 and word not in STOP and not is_common(word))
    return bool(own) and (asked.issuperset(map(stem, own)) or any(stem(word) in asked for word in telling))


def guess_users(question: str) -> set[str]:
    """Return the ids that users may have whom a question names: a store cannot list its users."""
    parts, ids = _WORD.findall(question)[:_MAX_WORDS], set[str]()
    for start, size in product(range(len(parts)), range(1, _MAX_RUN + 1)):
        run = parts[start : start + size]
        if len(run) > 1 or run[0].casefold() not in STOP:
            joined = {separator.join(run) for separator in _SEPARATORS}
            ids.update(form for one in joined for form in (one, one.lower(), one.title()))
    return ids
