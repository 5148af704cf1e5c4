"""Which share of a question's words a memory holds, where a rare word counts more than a common one.

In a language that the embedder understands, a term is a word by its stem. Elsewhere nobody knows the stems, so a term
is a piece of four letters; in Chinese and Japanese it is a pair of characters. A term is looked up in the marked text,
where every word stands between ^ and $.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

from ...text import content_words, stem, words
from ...types.record import Record

_MAX_WORDS = 40
_PIECE = 4
_ABSENT = 0.3
"""How much a piece counts that no memory at hand holds: in pieces, most of an inflected word is missing."""


def _fold_accents(text: str) -> str:
    if text.isascii():
        return text
    return "".join(sign for sign in unicodedata.normalize("NFKD", text) if not unicodedata.combining(sign))


@lru_cache(maxsize=4096)
def mark_words(text: str) -> str:
    return f"^{'$^'.join(words(_fold_accents(text)))}$"


@lru_cache(maxsize=1024)
def list_terms(text: str, *, is_known: bool) -> tuple[str, ...]:
    """Return what is looked up of a text: stems where its language is known, else pieces of its words."""
    terms: list[str] = []
    for word in content_words(_fold_accents(text), _MAX_WORDS):
        root = stem(word)
        if not word.isascii() and len(word) <= 2:
            terms.append(word)
        elif is_known:
            terms.append(f"^{root}" if len(root) >= _PIECE else f"^{word}$")
        elif len(word) > 2 or word.isdigit():
            marked = f"^{word}$"
            terms += [marked[at : at + _PIECE] for at in range(max(1, len(marked) - _PIECE + 1))]
    return tuple(dict.fromkeys(terms))


def share_words(question: str, records: Sequence[Record], *, is_known: bool) -> Mapping[str, float]:
    """Return by id which share of the question's words each record holds, from 0 to 1."""
    terms = list_terms(question, is_known=is_known)
    term_places = {record.id: _find_terms(terms, mark_words(record.text)) for record in records}
    counts = Counter(at for found in term_places.values() for at in found)
    weights = [math.log(1 + len(term_places) / (0.5 + counts[at])) for at in range(len(terms))]
    absent = 1.0 if is_known else _ABSENT
    total = sum(weight * (1.0 if at in counts else absent) for at, weight in enumerate(weights))
    return {name: sum(weights[at] for at in found) / total if total else 0.0 for name, found in term_places.items()}


def _find_terms(terms: Sequence[str], marked: str) -> list[int]:
    return [at for at, term in enumerate(terms) if term in marked]


def measure_overlap(text: str, other: str) -> float:
    """Return which share of the pieces of one text the other holds, whichever share is greater."""
    mine, theirs = list_terms(text, is_known=False), list_terms(other, is_known=False)
    marked, marked_other = mark_words(text), mark_words(other)
    shares = [
        sum(term in other_text for term in terms) / len(terms)
        for terms, other_text in ((mine, marked_other), (theirs, marked))
        if terms
    ]
    return max(shares, default=0.0)
