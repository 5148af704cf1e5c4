"""From the conversations that were found to what is given back of them."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from ...reading.times import remove_times
from ...text import STOP, agreement, is_common, stems, words
from ...types.evidence import NONE, Evidence
from ...types.kinds import Episode, Turn
from ...types.record import Record
from ...types.slice import Explanation, Factor, MemorySlice
from ...types.times import from_iso
from ..episodes import episode_of, number_of, turn_id
from ..evidence import faded, feedback
from ..view import view
from .fuse import FLOOR, Sign, squash
from .request import Asked, Level
from .score import shared_words
from .talk import Lists, Place, Spoken, conversations, much, search, turns, within

EXCERPT = 3
"""So many turns of a conversation are shown."""
_LOOKED_AT = 5
"""Some of them are beside the telling ones and do not exist, or are not for everybody."""
_AMONG = 30
_BEST = 5
_DEPTH = 5
_ABBREVIATED = re.compile(r"[A-Z]{2}")
"""What is written with capitals for its letters is as often a word ("TV") as a name."""
_FALL, _FAINT = 0.45, 0.10
"""Once it is clear that something relevant was said, what is so much less relevant may be heard too, if not faint."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A conversation or turn with what is needed to show it."""

    found: Spoken
    record: Record
    excerpt: tuple[Record, ...]
    sign: Sign

    def relevant(self, strictness: float) -> bool:
        return FLOOR.passes(self.sign, strictness)

    @property
    def nearness(self) -> float:
        return FLOOR.nearness(self.sign)


def recall(asked: Asked, made: MemorySlice) -> MemorySlice:
    """The slice with the conversations or turns that the question is about."""
    if asked.question.idle:
        return made
    heard = weigh(asked, search(asked))
    kept = _in_time(asked, heard) or _audible(heard, asked.manner.strictness)
    why = (*made.explanations, *(_explain(asked, one) for one in kept))
    values = [_view(asked, one) for one in kept]
    return replace(
        made,
        episodes=[one for one in values if isinstance(one, Episode)],
        turns=[one for one in values if isinstance(one, Turn)],
        explanations=why,
    )


def weigh(asked: Asked, found: Lists) -> list[Heard]:
    """The best of what was found, each with how relevant it is."""
    ranked = conversations(found)
    if _only_a_time(asked):
        ranked += _others_in_time(asked, {one.id for one in ranked})
    if asked.request.level is Level.TURN:
        chosen = _turns(asked, turns(found, ranked))
    else:
        best = _fresh(asked, ranked) if asked.manner.recency else _timely(ranked)[: asked.top_k]
        chosen = _episodes(asked, best, turns(found, best))
    ground = _ground(asked, found)
    return _praised([_heard(ground, *one) for one in chosen])


def _timely(ranked: Sequence[Spoken]) -> list[Spoken]:
    """Among the very best those first that lie in a time which the question names plainly."""
    return sorted(ranked[:_BEST], key=lambda one: one.place is not Place.INSIDE) + list(ranked[_BEST:])


def _praised(heard: list[Heard]) -> list[Heard]:
    """What people said about a conversation moves it among its peers."""
    if all(one.record.evidence is NONE for one in heard):
        return heard
    return sorted(heard, key=lambda one: -(one.found.score + _praise(one.record.evidence)))


def _praise(evidence: Evidence) -> float:
    good, bad = feedback(evidence)
    return (good - bad) / (good + bad + 2.0)


def _only_a_time(asked: Asked) -> bool:
    if not (asked.windows or asked.request.since or asked.request.until):
        return False
    text = asked.question.text
    left = remove_times(text)
    return all(is_common(one) or one in STOP for one in words(left))


def _others_in_time(asked: Asked, known: Container[str]) -> list[Spoken]:
    """The newest conversations of that time, whatever their words."""
    where = asked.where("episode")
    periods = [within(where, (one.start, one.end)) for one in asked.windows] or [where]
    found = (record.id for period in periods for record in asked.engine.store.scan(period, asked.top_k))
    return [Spoken(id, 0.0, None, Place.INSIDE) for id in dict.fromkeys(found) if id not in known]


def _in_time(asked: Asked, heard: Sequence[Heard]) -> list[Heard]:
    """A question about a time and nothing else is about whatever was said in it."""
    if not _only_a_time(asked):
        return []
    filtered = not asked.windows
    return [one for one in heard if filtered or one.found.place in (Place.INSIDE, Place.NEAR)]


def _audible(heard: Sequence[Heard], strictness: float) -> list[Heard]:
    """Nothing unless something is clearly relevant; then also what is less so, and turns beside one that is."""
    sure = {one.record.id for one in heard if one.relevant(strictness)}
    if not sure:
        return []
    beside = {id for one in sure if one.startswith("trn_") for id in _beside(one)}
    # Words alone tell who is in, not who is further out: one word fewer says little.
    by_words = strictness <= 0 and all(one.sign.cosine is None for one in heard)
    least = max(_FAINT, max(one.nearness for one in heard) - _FALL) + strictness
    return [one for one in heard if by_words or one.record.id in sure | beside or one.nearness >= least]


def _beside(turn: str) -> tuple[str, str]:
    episode, number = episode_of(turn), number_of(turn)
    return turn_id(episode, number - 1), turn_id(episode, number + 1)


Chosen = tuple[Spoken, Record, list[Record]]
"""What was found, its record, and the turns to be shown of it."""


def _episodes(asked: Asked, chosen: Sequence[Spoken], spoken: Iterable[Spoken]) -> list[Chosen]:
    telling: dict[str, list[str]] = {one.id: [] for one in chosen}
    for turn in spoken:
        place = telling.get(episode_of(turn.id))
        if place is not None and len(place) < _LOOKED_AT:
            place.append(turn.id)
    for episode, some in telling.items():
        # Found by its words as a whole, or by its time: its beginning tells what it is about.
        some += [] if some else [turn_id(episode, number) for number in range(EXCERPT)]
    ids = [*telling, *(id for some in telling.values() for id in some)]
    held = {record.id: record for record in asked.engine.store.get(ids)}
    where = asked.where("turn")
    # A conversation may have begun before the time that is asked for.
    whole = replace(asked.where("episode"), created_from=None, created_to=None)
    kept = [one for one in chosen if one.id in held and whole.accepts(held[one.id])]
    shown = {one.id: [held[id] for id in telling[one.id] if id in held and where.accepts(held[id])] for one in kept}
    return [(one, held[one.id], shown[one.id][:EXCERPT]) for one in kept]


def _fresh(asked: Asked, ranked: Sequence[Spoken]) -> list[Spoken]:
    """The newest gain on the others: what was said of a thing lately is how it stands now."""
    among = ranked[: max(_AMONG, 3 * asked.top_k)]
    half_life = asked.settings.recency_half_life_days
    held = asked.engine.store.get([one.id for one in among])
    said = {record.id: from_iso(record.body["ended_at"]) or record.created_at for record in held}
    gained = [
        replace(one, score=one.score + asked.manner.recency * _recency(asked.now - said[one.id], half_life))
        for one in among
        if one.id in said
    ]
    return sorted(gained, key=lambda one: (-one.score, one.id))[: asked.top_k]


def _recency(age: timedelta, half_life_days: float) -> float:
    return faded(max(age, timedelta(0)) / timedelta(days=1), half_life_days)


def _turns(asked: Asked, spoken: Sequence[Spoken]) -> list[Chosen]:
    # Some of them are neighbours that do not exist, or that the request's filters leave out.
    chosen = spoken[: 2 * asked.top_k]
    held = {record.id: record for record in asked.engine.store.get([one.id for one in chosen])}
    where = asked.where("turn")
    found = [one for one in chosen if one.id in held and where.accepts(held[one.id])]
    if asked.manner.recency:
        half_life = asked.settings.recency_half_life_days
        ages = {one.id: _recency(asked.now - held[one.id].created_at, half_life) for one in found}
        found.sort(key=lambda one: -(one.score + asked.manner.recency * ages[one.id]))
    return [(one, held[one.id], [held[one.id]]) for one in found[: asked.top_k]]


@dataclass(frozen=True, slots=True)
class Ground:
    """What every conversation is weighed against: the question, and all that was near it."""

    query: frozenset[str]
    names: tuple[str, ...]
    personal: bool
    of_oneself: bool
    nearest: tuple[float, ...]
    much: float


def _ground(asked: Asked, lists: Lists) -> Ground:
    question = asked.question
    # "Last week" is not said of what happened last week.
    text = remove_times(question.text) if asked.windows else question.text
    return Ground(
        query=stems(text),
        names=tuple(name for name in question.names if not _ABBREVIATED.search(name)),
        personal=question.personal,
        of_oneself="i" in words(question.text),
        nearest=tuple(sorted(lists.meaning.values(), reverse=True)),
        much=much(lists),
    )


def _heard(ground: Ground, found: Spoken, record: Record, excerpt: Sequence[Record]) -> Heard:
    shared = max((agreement(ground.query, stems(turn.text)) for turn in excerpt), default=0.0)
    titled = agreement(ground.query, stems(str(record.body.get("title", "")))) >= FLOOR.said
    told = tuple(sorted(excerpt, key=lambda turn: int(turn.body["index"])))
    cosine, depth = _nearness(ground.nearest, found)
    named = _named(ground.names, record, told)
    known = named is True or ground.of_oneself
    return Heard(
        found, record, told, Sign(cosine, depth, ground.much, shared, named is False, ground.personal, known, titled)
    )


def _nearness(nearest: Sequence[float], found: Spoken) -> tuple[float | None, float]:
    """Its cosine, and how near the fifth nearest turn of all is."""
    if not nearest:
        return None, 0.0
    # What is not among so many that are near is no nearer than the last of them.
    cosine = nearest[-1] if found.cosine is None else found.cosine
    return cosine, nearest[min(_DEPTH, len(nearest)) - 1]


def _named(names: Sequence[str], record: Record, excerpt: Sequence[Record]) -> bool | None:
    """Whether anything that the question names is named here; None when it names nothing."""
    if not names:
        return None
    said = {word for one in (record, *excerpt) for word in words(one.text)}
    said.update(word for speaker in record.body.get("speakers", ()) for word in words(str(speaker)))
    return any(said.issuperset(words(name)) for name in names)


def _view(asked: Asked, heard: Heard) -> Episode | Turn:
    shown = view(heard.record, asked.now)
    if isinstance(shown, Episode):
        told = [view(turn, asked.now) for turn in heard.excerpt]
        return replace(shown, turns=tuple(turn for turn in told if isinstance(turn, Turn)))
    assert isinstance(shown, Turn)
    return shown


def _explain(asked: Asked, heard: Heard) -> Explanation:
    similar = squash(heard.found.score)
    text = "\n".join(turn.text for turn in heard.excerpt)
    shared = shared_words(asked.question.text, text)
    return Explanation(
        memory_id=heard.record.id,
        memory_type=heard.record.kind,
        score=similar,
        factors={"similarity": Factor(similar, 1.0)},
        cosine=heard.found.cosine,
        words=heard.sign.words,
        shared_words=shared,
        reason=_reason(heard, shared),
    )


def _reason(heard: Heard, shared: tuple[str, ...]) -> str:
    found = []
    if heard.found.place in (Place.INSIDE, Place.NEAR):
        found.append("in the time asked about")
    if heard.found.cosine is not None:
        found.append(f"meaning {heard.found.cosine:.2f}")
    if shared:
        found.append("shares " + ", ".join(shared[:6]))
    return "; ".join(found) or "found by words"
