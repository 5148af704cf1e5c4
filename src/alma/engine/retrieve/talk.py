"""Which conversations, and which turns of them, a question is about.

Turns are searched, by meaning and by words, and what each conversation's people said in one piece, by words. A
conversation counts by its best turn, by the sum of what its turns say (each further one counting half of the one
before), and by its people's words as a whole; one that lies in a time the question names counts more. A turn counts by
itself, by its neighbours, because an answer follows its question, and by its conversation.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import IntEnum

from ...ports import Store
from ...reading.times import Window
from ...text import content_words, is_common
from ...types.query import Hit, Where
from ...types.vector import Vector
from ..episodes import episode_of, number_of, turn_id
from ..search import by_meaning, by_words
from .fuse import Prior, standardise
from .request import Asked

TURNS = 150
"""So many turns are looked at, by meaning and by words each."""
EPISODES = 60


@dataclass(frozen=True, slots=True)
class Blend:
    """What counts how much; fitted by `tools/fit_ranking.py`."""

    meaning: float = 1.0
    turn_words: float = 0.5
    whole_words: float = 0.5
    inside: float = 2.5
    """In a time that the question names,"""
    near: float = 0.6
    """in one that it hints at,"""
    after: float = 0.9
    """or soon after it: people tell of things when they are over."""
    part: float = 0.3
    """About one of several things that are asked about."""
    decay: float = 0.5
    scant: float = 3.0
    """So many times more meaning counts than all these where little has been said and no name is asked for: in a
    small store every word looks rare."""
    words_in_turn: float = 0.6
    beside: float = 0.25
    next_but_one: float = 0.1
    conversation: float = 0.25


BLEND = Blend()
_MEANING = Prior(0.35, 0.12)
_WORDS = Prior(0.30, 0.25)
_COMMON = 0.4
_MUCH = 50, 90
"""So many conversations found are few, so many are many."""
_SOON = timedelta(days=14), timedelta(days=60)
"""After a period people still talk of it for as long as it lasted, but at least and at most so long."""


class Place(IntEnum):
    """Where a conversation lies, given the times that a question names."""

    ELSEWHERE = 0
    AFTER = 1
    NEAR = 2
    INSIDE = 3


@dataclass(slots=True)
class Lists:
    """What was found: scores of turns and of episodes, by id."""

    meaning: dict[str, float] = field(default_factory=dict)
    words: dict[str, float] = field(default_factory=dict)
    whole: dict[str, float] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    """By episode."""
    named: bool = False
    """The question names somebody or something."""
    parts: list[Lists] = field(default_factory=list)
    """The same for each part of the question."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """A conversation that was found, or a turn of one."""

    id: str
    score: float
    cosine: float | None
    place: Place = Place.ELSEWHERE


def search(asked: Asked) -> Lists:
    """Everywhere, then in each time that the question names, then for each part of it."""
    found = _gather(asked, asked.question.text, asked.vectors)
    found.named = bool(asked.question.names)
    for window in asked.windows:
        for place, period in _periods(window):
            part = _gather(asked, asked.question.text, asked.vectors, period)
            for id in _episodes(part):
                found.places[id] = max(found.places.get(id, Place.ELSEWHERE), place)
            found.meaning = _with(found.meaning, part.meaning, TURNS)
            found.words = _with(found.words, part.words, TURNS)
            found.whole = _with(found.whole, part.whole, EPISODES)
    for text in asked.question.parts:
        [vectors] = asked.engine.encode([(text,)]) if asked.vectors else [()]
        found.parts.append(_gather(asked, text, vectors))
    return found


Period = tuple[datetime, datetime]


def _periods(window: Window) -> list[tuple[Place, Period]]:
    if window.soft:
        return [(Place.NEAR, (window.start, window.end))]
    least, most = _SOON
    soon = window.end + min(max(window.end - window.start, least), most)
    return [(Place.INSIDE, (window.start, window.end)), (Place.AFTER, (window.end, soon))]


def _with(held: dict[str, float], more: Mapping[str, float], limit: int) -> dict[str, float]:
    """What a full list left out scores no better than its last."""
    most = min(held.values()) if len(held) >= limit else math.inf
    return {id: min(score, most) for id, score in more.items()} | held


def _gather(asked: Asked, text: str, vectors: tuple[Vector, ...], period: Period | None = None) -> Lists:
    store = asked.engine.store
    turns, episodes = (within(asked.where(kind), period) for kind in ("turn", "episode"))
    return Lists(
        meaning=_scores(by_meaning(asked.engine, vectors, turns, TURNS)),
        words=_worded(store, text, turns, TURNS),
        whole=_worded(store, text, episodes, EPISODES),
    )


def _worded(store: Store, text: str, where: Where, limit: int) -> dict[str, float]:
    """By words, common ones counting less than their frequency says: in a small store everything looks rare."""
    telling, common = _parted(text)
    found = _scores(by_words(store, telling or common, where, limit))
    if not telling or not common:
        return found
    for hit in by_words(store, common, where, limit):
        found[hit.id] = found.get(hit.id, 0.0) + _COMMON * hit.score
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0]))[:limit])


def _parted(text: str) -> tuple[str, str]:
    found = content_words(text)
    return " ".join(one for one in found if not is_common(one)), " ".join(one for one in found if is_common(one))


def within(where: Where, period: Period | None) -> Where:
    if period is None:
        return where
    start = period[0] if where.created_from is None else max(where.created_from, period[0])
    end = period[1] if where.created_to is None else min(where.created_to, period[1])
    return replace(where, created_from=start, created_to=end)


def _scores(hits: Iterable[Hit]) -> dict[str, float]:
    return {hit.id: hit.score for hit in hits}


def _episodes(found: Lists) -> set[str]:
    own = {*map(episode_of, found.meaning), *map(episode_of, found.words), *found.whole}
    return own.union(*map(_episodes, found.parts))


def conversations(found: Lists, blend: Blend = BLEND) -> list[Spoken]:
    """The episodes that were found, best first."""
    ids = sorted(_episodes(found))
    blend = _told(found, blend)
    scores = _blended(found, ids, blend)
    closest = _best(found.meaning)
    worth = {
        Place.ELSEWHERE: 0.0, Place.AFTER: blend.after, Place.NEAR: blend.near, Place.INSIDE: blend.inside
    }  # fmt: skip
    about = _foremost([_blended(part, ids, blend) for part in found.parts], len(ids))
    ranked = []
    for at, id in enumerate(ids):
        place = found.places.get(id, Place.ELSEWHERE)
        score = scores[at] + blend.part * about[at] + worth[place]
        ranked.append(Spoken(id, score, closest.get(id), place))
    return sorted(ranked, key=lambda one: (-one.score, one.id))


def much(found: Lists) -> float:
    """Whether few conversations were found, 0, or many, 1."""
    few, many = _MUCH
    return min(1.0, max(0.0, (len(_episodes(found)) - few) / (many - few)))


def _told(found: Lists, blend: Blend) -> Blend:
    """The blend with the share beside meaning that the question and the store give."""
    scant = 0.0 if found.named else 1.0 - much(found)
    less = 1.0 / (1.0 + (blend.scant - 1.0) * scant)
    names = ("turn_words", "whole_words", "inside", "near", "after", "part")
    return replace(blend, **{name: less * getattr(blend, name) for name in names})


def _foremost(scores: list[list[float]], count: int) -> list[float]:
    """The best that each gets from any part."""
    return [max(some) for some in zip(*scores, strict=True)] if scores else [0.0] * count


def _blended(found: Lists, ids: Sequence[str], blend: Blend) -> list[float]:
    closest = _best(found.meaning)
    least = min(found.meaning.values(), default=None)
    summed = _scaled({id: _decayed(scores, blend.decay) for id, scores in _by_episode(found.words).items()})
    whole = _scaled(found.whole)
    meaning = standardise([closest.get(id, least) for id in ids], _MEANING)
    by_turn = standardise([summed.get(id, 0.0) for id in ids], _WORDS)
    by_whole = standardise([whole.get(id, 0.0) for id in ids], _WORDS)
    return [
        blend.meaning * one + blend.turn_words * two + blend.whole_words * three
        for one, two, three in zip(meaning, by_turn, by_whole, strict=True)
    ]


def turns(found: Lists, ranked: Sequence[Spoken], blend: Blend = BLEND) -> list[Spoken]:
    """The turns of these conversations that were found, and those beside them, best first."""
    worth = {one.id: one.score for one in ranked}
    ids = sorted({*found.meaning, *found.words})
    least = min(found.meaning.values(), default=None)
    words = _scaled(found.words)
    meaning = standardise([found.meaning.get(id, least) for id in ids], _MEANING)
    said = standardise([words.get(id, 0.0) for id in ids], _WORDS)
    alone = {
        (episode_of(id), number_of(id)): blend.meaning * meaning[at] + blend.words_in_turn * said[at]
        for at, id in enumerate(ids)
    }
    floor = min(alone.values(), default=0.0)
    shares = ((-2, blend.next_but_one), (-1, blend.beside), (1, blend.beside), (2, blend.next_but_one))
    scored = []
    for episode, number in _with_neighbours(alone, worth):
        score = alone.get((episode, number), floor) + blend.conversation * worth[episode]
        score += sum(share * (alone.get((episode, number + step), floor) - floor) for step, share in shares)
        id = turn_id(episode, number)
        scored.append(Spoken(id, score, found.meaning.get(id)))
    return sorted(scored, key=lambda one: (-one.score, one.id))


def _with_neighbours(alone: Iterable[tuple[str, int]], wanted: Container[str]) -> set[tuple[str, int]]:
    """The turn after a question answers it, whatever its words."""
    places = [place for place in alone if place[0] in wanted]
    return {(episode, number + step) for episode, number in places for step in (-1, 0, 1) if number + step >= 0}


def _by_episode(scores: Mapping[str, float]) -> Mapping[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for id, score in scores.items():
        found[episode_of(id)].append(score)
    return found


def _best(scores: Mapping[str, float]) -> dict[str, float]:
    return {id: max(some) for id, some in _by_episode(scores).items()}


def _decayed(scores: list[float], decay: float) -> float:
    return sum(score * decay**place for place, score in enumerate(sorted(scores, reverse=True)[:8]))


def _scaled(scores: Mapping[str, float]) -> dict[str, float]:
    """Relative to the best: word scores are only comparable within one answer."""
    best = max(scores.values(), default=0.0)
    return {id: score / best for id, score in scores.items()} if best > 0 else dict(scores)
