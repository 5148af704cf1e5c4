"""The things a question asks about, when it asks about more than one: each is searched for by itself as well."""

from __future__ import annotations

import re
from functools import cache

from ..text import content_words

_LEAST_CHARS = 8
_MOST = 4


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    return (
        re.compile(r"\bbetween (?P<a>.+?) and (?P<b>.+)", re.IGNORECASE | re.DOTALL),
        re.compile(r"[,:] (?P<a>.+?),? or (?P<b>.+)", re.DOTALL),
    )


@cache
def _joints() -> re.Pattern[str]:
    return re.compile(r"\b(?:before|after|when|since|than|until|from)\b", re.IGNORECASE)


@cache
def _quoted() -> re.Pattern[str]:
    return re.compile(r"(?<!\w)(?:'([^'\n]{3,80})'|\"([^\"\n]{3,80})\"|“([^”\n]{3,80})”)(?!\w)")


def parts(question: str) -> tuple[str, ...]:
    """ "Which came first, the trip or the wedding?" asks about a trip and about a wedding."""
    for pattern in _patterns():
        if found := pattern.search(question):
            return _worth((found["a"], found["b"]))
    quoted = ["".join(groups) for groups in _quoted().findall(question)]
    if len(quoted) > 1:
        return _worth(quoted)
    return _worth(_joints().split(question))


def _worth(pieces: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    kept = [piece.strip(" ,?!.") for piece in pieces]
    if len(kept) < 2 or not all(content_words(piece) for piece in kept):
        return ()
    return tuple(piece for piece in kept if len(piece) >= _LEAST_CHARS)[:_MOST]
