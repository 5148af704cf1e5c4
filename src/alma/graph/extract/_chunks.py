"""A sentence as a row of chunks: entities, noun phrases, verbs, and the small words between them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ._verbs import Form, Verb, verbs
from ._words import (
    ADVERBS,
    AUXILIARIES,
    CONDITIONS,
    DETERMINERS,
    MODALS,
    NEGATIONS,
    PREPOSITIONS,
    PRONOUNS,
    RELATIVES,
    SAYING,
    VAGUE,
)
from ._written import Mention

_TOKEN = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|['’]s\b|[^\w\s]|_")
_SENTENCE = re.compile(r"(?<=[.!?])[\"”'’)]*\s+(?=[\"“'‘(]*[A-ZÀ-Þ@#`])|\n+")
_MOST_WORDS = 4


class Part(StrEnum):
    ENTITY = "entity"
    NOUN = "noun"
    VERB = "verb"
    AUXILIARY = "auxiliary"
    MODAL = "modal"
    NEGATION = "negation"
    CONDITION = "condition"
    SAYING = "saying"
    RELATIVE = "relative"
    PREPOSITION = "preposition"
    PRONOUN = "pronoun"
    OWNER = "owner"
    AND = "and"
    COMMA = "comma"
    ADVERB = "adverb"
    DETERMINER = "determiner"
    STOP = "stop"


@dataclass(slots=True)
class Chunk:
    part: Part
    start: int
    end: int
    text: str
    low: str = ""
    mention: Mention | None = None
    verb: Verb | None = None
    words: tuple[str, ...] = field(default=())
    headed: bool = False
    """An entity that only tells what kind of thing the noun after it is."""


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Where each begins, and its words."""
    start = 0
    for found in _SENTENCE.finditer(text):
        yield start, text[start : found.start()]
        start = found.end()
    yield start, text[start:]


def chunks(sentence: str, offset: int, mentions: Sequence[Mention]) -> list[Chunk]:
    """`mentions` are those of the whole text."""
    first = bisect_left(mentions, offset, key=lambda one: one.start)
    last = bisect_left(mentions, offset + len(sentence), key=lambda one: one.start)
    inside = [one for one in mentions[first:last] if one.end <= offset + len(sentence)]
    out: list[Chunk] = []
    at = 0
    for one in inside:
        _plain(sentence[at : one.start - offset], offset + at, out)
        out.append(Chunk(Part.ENTITY, one.start, one.end, one.name, one.name.lower(), one))
        at = one.end - offset
    _plain(sentence[at:], offset + at, out)
    return _phrased(out)


def _plain(text: str, offset: int, out: list[Chunk]) -> None:
    for found in _TOKEN.finditer(text):
        start, end = found.start() + offset, found.end() + offset
        word = found[0]
        out.append(_chunk(word, start, end, out))


_ASKED = frozenset("what how why whose whatever whoever however".split())
_LOOSE = frozenset("out off up down here there back ago such similar away along around".split())
_MARKS = {",": Part.COMMA, "&": Part.AND, "and": Part.AND}


def _chunk(word: str, start: int, end: int, before: Sequence[Chunk]) -> Chunk:
    low = word.lower().replace("’", "'")
    part = _part(low, before)
    verb = verbs().get(low) if part is Part.VERB else None
    if part is Part.VERB and verb is None:
        verb = Verb(low, frozenset({Form.PAST, Form.PARTICIPLE}))
    return Chunk(part, start, end, word, low, verb=verb)


_CLASSES = (
    (CONDITIONS, Part.CONDITION),
    (RELATIVES, Part.RELATIVE),
    (AUXILIARIES, Part.AUXILIARY),
    (MODALS, Part.MODAL),
    (SAYING, Part.SAYING),
    (DETERMINERS, Part.DETERMINER),
    (PRONOUNS, Part.PRONOUN),
    (PREPOSITIONS, Part.PREPOSITION),
    (ADVERBS, Part.ADVERB),
)


def _part(low: str, before: Sequence[Chunk]) -> Part:
    if low == "'s":
        return Part.OWNER
    if low in _MARKS:
        return _MARKS[low]
    if not low[0].isalnum():
        return Part.STOP
    if low.endswith("n't") or low in NEGATIONS or low == "longer":
        return Part.NEGATION
    for words, part in _CLASSES:
        if low in words:
            return Part.NOUN if part is Part.ADVERB and before and before[-1].part is Part.DETERMINER else part
    if low in _ASKED or (low.partition("'")[0] in PRONOUNS and "'" in low):
        return Part.STOP
    if low in ("or", "but"):
        return Part.STOP if low == "but" else Part.AND
    if low.endswith("ly") and len(low) > 4:
        return Part.ADVERB
    return Part.VERB if _verbal(low, before) else Part.NOUN


def _verbal(low: str, before: Sequence[Chunk]) -> bool:
    """A word that can be a verb is one where a verb can stand."""
    last = before[-1] if before else None
    known = verbs().get(low)
    if last is None or last.part in (Part.DETERMINER, Part.OWNER):
        return False
    if known is None:
        after = (Part.ENTITY, Part.AUXILIARY, Part.ADVERB)
        return low.endswith("ed") and len(low) > 5 and last.part in after
    if known.forms <= {Form.BASE}:
        return last.part in (Part.MODAL, Part.PRONOUN, Part.NEGATION) or last.low in ("to", "do", "does", "did")
    if Form.GERUND in known.forms:
        return last.part in (Part.AUXILIARY, Part.ADVERB)
    return last.part is not Part.PREPOSITION


def _phrased(row: list[Chunk]) -> list[Chunk]:
    """Nouns that stand together are one phrase; an entity before them only says of what kind."""
    out: list[Chunk] = []
    at = 0
    while at < len(row):
        one = row[at]
        if one.part is not Part.NOUN:
            following = row[at + 1] if at + 1 < len(row) else None
            one.headed = one.part is Part.ENTITY and following is not None and _heads(following)
            out.append(one)
            at += 1
            continue
        end = at
        while end < len(row) and row[end].part is Part.NOUN and row[end].start - row[max(at, end - 1)].end < 2:
            end += 1
        end = max(end, at + 1)
        group = row[at:end]
        out.append(_noun(group, bool(out) and out[-1].part is Part.DETERMINER))
        at = end
    return out


def _heads(following: Chunk) -> bool:
    """ "The Kafka cluster" is a cluster; "joined Acme last week" is about Acme."""
    return following.part is Part.NOUN and following.low not in VAGUE


def _noun(group: Sequence[Chunk], determined: bool) -> Chunk:
    """ "The billing team" is a thing; "started playing guitar" is not one."""
    words = tuple(one.text for one in group)
    name = " ".join(words)
    first, last = words[0].lower(), words[-1].lower()
    loose = (
        first in VAGUE
        or last in VAGUE
        or first in _LOOSE
        or last in _LOOSE
        or (first.endswith("ing") and not determined)
    )
    kept = () if len(words) > _MOST_WORDS or loose else words
    return Chunk(Part.NOUN, group[0].start, group[-1].end, name, name.lower(), words=kept)
