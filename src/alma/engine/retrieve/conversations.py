"""Which conversations, and which turns of them, a question is about, and what is shown of them.

Turns are searched, by meaning and by words, and what each conversation's people said in one piece, by words. A
conversation counts by its best turn, by the sum of what its turns say (each further one counting half of the one
before), and by its people's words as a whole; one that lies in a time the question names counts more. A turn counts by
itself, by its neighbours, because an answer follows its question, and by its conversation.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import IntEnum
from typing import NamedTuple

from ...reading.questions import remove_times
from ...text import STOP, agreement, content_words, is_common, stems, words
from ...types.kinds import Episode, Turn
from ...types.query import Where
from ...types.record import NONE, Record, Vector
from ...types.slice import Factor, MemorySlice
from ...types.times import from_iso
from ..episodes import episode_of, number_of, turn_id
from ..evidence import fade_share, weigh_feedback
from ..search import by_meaning, by_words
from ..view import to_memory
from .rank import OTHER_MEANING, Prior, explain_score, list_shared_words, squash, standardise
from .request import Level, RetrievalContext

# --- when to stay silent ---------------------------------------------------------------------------


class RelevanceEvidence(NamedTuple):
    """How well a conversation matches the query, by each measure."""

    cosine: float | None
    # The cosine of the fifth nearest turn of all: what was talked about was talked about more than once.
    depth: float
    fullness: float  # From 0 to 1: how much has been said by which this one could be near by chance.
    words: float  # Which share of the question's words its best turn holds.
    has_unknown_name: bool  # The question names somebody or something of which there is no word in it.
    is_personal: bool  # The question is about the person who asks.
    # The question names somebody or something that is named here too, or speaks of the person who asks.
    has_known_name: bool = False
    is_titled: bool = False  # The question asks for it by its title.


# What people said in passing is near to many a task, so more is asked of it than of what was kept on purpose: that
# something else near the task was said as well. Fitted by `tools/fit_ranking.py`.
class RelevanceFloor(NamedTuple):
    """How relevant a conversation must be to be shown."""

    least: float = 0.60
    # Where little has been said, less is near by chance, and nothing follows from nothing else being near.
    small: float = 0.52
    personal: float = 0.10  # A question about one's own past is more likely to have its answer there.
    words: float = 0.30
    depth: float = 0.30  # The share of the neighbourhood in the cosine.
    unknown_name: float = 0.11
    words_only: float = 0.50
    # How much less words alone have to say of a question about oneself, or about somebody who is known.
    known_name: float = 0.30
    all_words: float = 0.75  # What says so much of the question passes unless its meaning is quite another.

    def measure_nearness(self, evidence: RelevanceEvidence) -> float:
        """Return how relevant it is, to be compared with others for the same question."""
        if evidence.cosine is None:
            return evidence.words
        return evidence.cosine + self.words * evidence.words - (self.unknown_name if evidence.has_unknown_name else 0.0)

    def passes(self, evidence: RelevanceEvidence, strictness: float = 0.0) -> bool:
        """Return whether the evidence reaches the floor; `strictness` raises it."""
        if evidence.is_titled:
            return True
        more = strictness + (self.unknown_name if evidence.has_unknown_name else 0.0)
        if evidence.cosine is None:
            is_familiar = evidence.is_personal or evidence.has_known_name
            return evidence.words >= self.words_only + more - (self.known_name if is_familiar else 0.0)
        more -= self.personal if evidence.is_personal else 0.0
        is_all_said = evidence.words >= self.all_words and not evidence.has_unknown_name
        if is_all_said and evidence.cosine >= OTHER_MEANING + strictness:
            return True
        full = evidence.fullness
        near = (1.0 - self.depth * full) * evidence.cosine + self.depth * full * evidence.depth
        return near + self.words * evidence.words >= self.small + full * (self.least - self.small) + more


FLOOR = RelevanceFloor()


# --- search ----------------------------------------------------------------------------------------

# So many turns are looked at, by meaning and by words each, and so many conversations.
_MAX_TURNS, _MAX_EPISODES = 150, 60
_COMMON = 0.4  # What a common word counts: in a small store every word looks rare.
# After a period people still talk of it for as long as it lasted, but at least and at most so long.
_SOON = timedelta(days=14), timedelta(days=60)
_FULLNESS = 50, 90  # So many conversations are few, so many are many.

Period = tuple[datetime, datetime]
Scores = Mapping[str, float]


class TimeFit(IntEnum):
    """Where a conversation lies, given the times that a question names."""

    ELSEWHERE = 0
    AFTER = 1
    NEAR = 2
    INSIDE = 3


@dataclass(slots=True)
class SearchHits:
    """Scores of turns and of episodes, by id."""

    meaning: dict[str, float] = field(default_factory=dict)
    words: dict[str, float] = field(default_factory=dict)
    whole: dict[str, float] = field(default_factory=dict)
    places: dict[str, TimeFit] = field(default_factory=dict)  # By episode.
    has_name: bool = False  # The question names somebody or something.
    parts: list[SearchHits] = field(default_factory=list)  # The same for each part of the question.

    def list_episodes(self) -> set[str]:
        """Return the ids of all conversations with a hit."""
        own = {*map(episode_of, self.meaning), *map(episode_of, self.words), *self.whole}
        return own.union(*(part.list_episodes() for part in self.parts))

    def measure_fullness(self) -> float:
        """Return 0 where few conversations were found, 1 where many were."""
        few, many = _FULLNESS
        return min(1.0, max(0.0, (len(self.list_episodes()) - few) / (many - few)))


def search_conversations(context: RetrievalContext) -> SearchHits:
    """Search everywhere, then in each time that the question names, then for each part of it."""
    text, vectors = context.question.text, context.vectors
    has_name = bool(context.question.names)
    if not _has_conversations(context):
        # Most memories of agents have none, and each of the searches below would look through all words for them.
        return SearchHits(has_name=has_name)
    hits = _search_period(context, text, vectors)
    hits.has_name = has_name
    for window in context.windows:
        period = (window.start, window.end)
        periods: list[tuple[TimeFit, Period]] = [(TimeFit.NEAR, period)]
        if not window.soft:
            soon = window.end + min(max(window.end - window.start, _SOON[0]), _SOON[1])
            periods = [(TimeFit.INSIDE, period), (TimeFit.AFTER, (window.end, soon))]
        for place, period in periods:
            more = _search_period(context, text, vectors, period)
            for id in more.list_episodes():
                hits.places[id] = max(hits.places.get(id, TimeFit.ELSEWHERE), place)
            hits.meaning = _merge_scores(hits.meaning, more.meaning, _MAX_TURNS)
            hits.words = _merge_scores(hits.words, more.words, _MAX_TURNS)
            hits.whole = _merge_scores(hits.whole, more.whole, _MAX_EPISODES)
    parts = zip(context.question.parts, context.part_vectors, strict=True)
    hits.parts = [_search_period(context, part, part_vectors) for part, part_vectors in parts]
    return hits


def _has_conversations(context: RetrievalContext) -> bool:
    where = replace(context.where("episode"), kinds={"episode", "turn"})
    return next(iter(context.engine.store.scan(where, 1)), None) is not None


def _search_period(
    context: RetrievalContext, text: str, vectors: Sequence[Vector], period: Period | None = None
) -> SearchHits:
    turns, episodes = context.where("turn"), context.where("episode")
    if period is not None:
        turns, episodes = _limit_period(turns, period), _limit_period(episodes, period)
    return SearchHits(
        meaning={hit.id: hit.score for hit in by_meaning(context.engine, vectors, turns, _MAX_TURNS)},
        words=_match_words(context, text, turns, _MAX_TURNS),
        whole=_match_words(context, text, episodes, _MAX_EPISODES),
    )


def _limit_period(where: Where, period: Period) -> Where:
    start = period[0] if where.created_from is None else max(where.created_from, period[0])
    end = period[1] if where.created_to is None else min(where.created_to, period[1])
    return replace(where, created_from=start, created_to=end)


def _match_words(context: RetrievalContext, text: str, where: Where, limit: int) -> dict[str, float]:
    store, query = context.engine.store, content_words(text)
    rare, common = (" ".join(one for one in query if is_common(one) is is_rest) for is_rest in (False, True))
    scores = {hit.id: hit.score for hit in by_words(store, rare or common, where, limit)}
    if not rare or not common:
        return scores
    for hit in by_words(store, common, where, limit):
        scores[hit.id] = scores.get(hit.id, 0.0) + _COMMON * hit.score
    return dict(sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:limit])


def _merge_scores(scores: dict[str, float], more: Mapping[str, float], limit: int) -> dict[str, float]:
    """Add scores of a narrower search. What a full list left out scores no better than its last."""
    most = min(scores.values()) if len(scores) >= limit else math.inf
    return {id: min(score, most) for id, score in more.items()} | scores


# --- ranking ---------------------------------------------------------------------------------------


class Blend(NamedTuple):
    """The weights of the ranking, fitted by `tools/fit_ranking.py`."""

    meaning: float = 1.0
    turn_words: float = 0.5
    whole_words: float = 0.5
    inside: float = 2.5  # For a conversation in a time that the question names.
    near: float = 0.6  # For one in a time that the question hints at.
    # For one soon after the time that the question names: people tell of things when they are over.
    after: float = 0.9
    part: float = 0.3  # About one of several things that are asked about.
    decay: float = 0.5
    # So many times more meaning counts than all these where little has been said and no name is asked for: in a small
    # store every word looks rare.
    scant: float = 3.0
    words_in_turn: float = 0.6
    beside: float = 0.25
    next_but_one: float = 0.1
    conversation: float = 0.25


BLEND = Blend()
_MEANING = Prior(0.35, 0.12)
_WORDS = Prior(0.30, 0.25)


class RankedHit(NamedTuple):
    """A conversation that was found, or a turn of one."""

    id: str
    score: float
    cosine: float | None
    place: TimeFit = TimeFit.ELSEWHERE


def rank_conversations(hits: SearchHits, blend: Blend = BLEND) -> list[RankedHit]:
    """Return the episodes that were found, best first."""
    ids = sorted(hits.list_episodes())
    scant = 0.0 if hits.has_name else 1.0 - hits.measure_fullness()
    less = 1.0 / (1.0 + (blend.scant - 1.0) * scant)
    names = ("turn_words", "whole_words", "inside", "near", "after", "part")
    blend = blend._replace(**{name: less * getattr(blend, name) for name in names})
    worth = (0.0, blend.after, blend.near, blend.inside)
    closest = {id: max(scores) for id, scores in _group_by_episode(hits.meaning).items()}
    scores = _blend_scores(hits, ids, blend)
    parts = [_blend_scores(part, ids, blend) for part in hits.parts] or [[0.0] * len(ids)]
    ranked = []
    for at, id in enumerate(ids):
        place = hits.places.get(id, TimeFit.ELSEWHERE)
        score = scores[at] + blend.part * max(part[at] for part in parts) + worth[place]
        ranked.append(RankedHit(id, score, closest.get(id), place))
    return sorted(ranked, key=lambda one: (-one.score, one.id))


def _blend_scores(hits: SearchHits, ids: Sequence[str], blend: Blend) -> list[float]:
    closest = {id: max(scores) for id, scores in _group_by_episode(hits.meaning).items()}
    sums = {
        id: sum(score * blend.decay**at for at, score in enumerate(sorted(scores, reverse=True)[:8]))
        for id, scores in _group_by_episode(hits.words).items()
    }
    least = min(hits.meaning.values(), default=None)
    return _combine(ids, (blend.meaning, closest), least, (blend.turn_words, sums), (blend.whole_words, hits.whole))


def _combine(
    ids: Sequence[str], meaning: tuple[float, Scores], least: float | None, *worded: tuple[float, Scores]
) -> list[float]:
    """Return for each id the sum of its standardised scores by their weights; `least` is the cosine of the others."""
    columns = [(meaning[0], standardise([meaning[1].get(id, least) for id in ids], _MEANING))]
    for weight, scores in worded:
        # Word scores are only comparable within one answer.
        best = max([0.0, *scores.values()]) or 1.0
        columns.append((weight, standardise([scores.get(id, 0.0) / best for id in ids], _WORDS)))
    return [sum(weight * column[at] for weight, column in columns) for at in range(len(ids))]


def _group_by_episode(scores: Mapping[str, float]) -> Mapping[str, list[float]]:
    groups: dict[str, list[float]] = defaultdict(list)
    for id, score in scores.items():
        groups[episode_of(id)].append(score)
    return groups


def rank_turns(hits: SearchHits, ranked: Sequence[RankedHit], blend: Blend = BLEND) -> list[RankedHit]:
    """Return the turns of these conversations that were found, and those beside them, best first."""
    worth = {one.id: one.score for one in ranked}
    ids = sorted({*hits.meaning, *hits.words})
    least = min(hits.meaning.values(), default=None)
    combined = _combine(ids, (blend.meaning, hits.meaning), least, (blend.words_in_turn, hits.words))
    alone = {(episode_of(id), number_of(id)): score for id, score in zip(ids, combined, strict=True)}
    floor = min(alone.values(), default=0.0)
    shares = ((-2, blend.next_but_one), (-1, blend.beside), (1, blend.beside), (2, blend.next_but_one))
    # The turn after a question answers it, whatever its words.
    places = {
        (episode, number + step)
        for episode, number in alone
        for step in (-1, 0, 1)
        if episode in worth and number + step >= 0
    }
    scored = []
    for episode, number in places:
        score = alone.get((episode, number), floor) + blend.conversation * worth[episode]
        score += sum(share * (alone.get((episode, number + step), floor) - floor) for step, share in shares)
        id = turn_id(episode, number)
        scored.append(RankedHit(id, score, hits.meaning.get(id)))
    return sorted(scored, key=lambda one: (-one.score, one.id))


# --- what is shown ---------------------------------------------------------------------------------

_EXCERPT_TURNS = 3
_MAX_EXCERPT = 5  # Some of them are neighbours that do not exist, or that the request's filters leave out.
_MIN_AMONG, _BEST = 30, 5
_DEPTH = 5
# What is written with capitals for its letters is as often a word ("TV") as a name.
_ABBREVIATED = re.compile(r"[A-Z]{2}")
# Once it is clear that something relevant was said, what is so much less relevant may be shown too, if not faint.
_FALL, _FAINT = 0.45, 0.10


class ConversationHit(NamedTuple):
    """A conversation or turn with what is needed to show it."""

    ranked: RankedHit
    record: Record
    excerpt: tuple[Record, ...]
    evidence: RelevanceEvidence


Chosen = tuple[RankedHit, Record, list[Record]]  # What was found, its record, and the turns to be shown of it.


def add_conversations(context: RetrievalContext, memories: MemorySlice) -> MemorySlice:
    """Return the slice with the conversations or turns that the question is about."""
    if context.question.idle:
        return memories
    search_hits = search_conversations(context)
    is_only_time = _asks_only_for_time(context)
    if not is_only_time and not search_hits.list_episodes():
        return memories
    hits = weigh_conversations(context, search_hits)
    chosen: list[ConversationHit] = []
    if is_only_time:
        # It is about whatever was said then.
        inside = (TimeFit.INSIDE, TimeFit.NEAR)
        chosen = [one for one in hits if not context.windows or one.ranked.place in inside]
    chosen = chosen or _drop_irrelevant(hits, context.mode.strictness)
    episodes: list[Episode] = []
    turns: list[Turn] = []
    explanations = list(memories.explanations)
    for hit in chosen:
        similarity, ranked = squash(hit.ranked.score), hit.ranked
        shared = list_shared_words(context.question.text, "\n".join(turn.text for turn in hit.excerpt))
        timely = "in the time asked about" if ranked.place in (TimeFit.INSIDE, TimeFit.NEAR) else ""
        why = (similarity, {"similarity": Factor(similarity, 1.0)}, ranked.cosine, hit.evidence.words, shared, timely)
        explanations.append(explain_score(hit.record, *why))
        memory = to_memory(hit.record, context.now)
        if isinstance(memory, Episode):
            excerpt = [to_memory(turn, context.now) for turn in hit.excerpt]
            episodes.append(replace(memory, turns=tuple(turn for turn in excerpt if isinstance(turn, Turn))))
        elif isinstance(memory, Turn):
            turns.append(memory)
    return replace(memories, episodes=episodes, turns=turns, explanations=tuple(explanations))


def weigh_conversations(context: RetrievalContext, hits: SearchHits) -> list[ConversationHit]:
    """Return the best of what was found, each with how relevant it is."""
    ranked = rank_conversations(hits)
    if _asks_only_for_time(context):
        # The newest conversations of that time, too, whatever their words.
        where, ids = context.where("episode"), {one.id for one in ranked}
        periods = [_limit_period(where, (one.start, one.end)) for one in context.windows] or [where]
        records = (record for period in periods for record in context.engine.store.scan(period, context.top_k))
        others = dict.fromkeys(record.id for record in records)
        ranked += [RankedHit(id, 0.0, None, TimeFit.INSIDE) for id in others if id not in ids]
    if context.request.level is Level.TURN:
        nearest = {one.id: one for one in rank_turns(hits, ranked)[: 2 * context.top_k]}
        turns = filter(context.where("turn").accepts, context.engine.store.get(list(nearest)))
        chosen = [(nearest[turn.id], turn, [turn]) for turn in turns]
        if context.mode.recency:
            chosen.sort(key=lambda one: -(one[0].score + _measure_recency(context, one[1].created_at)))
        chosen = chosen[: context.top_k]
    else:
        if context.mode.recency:
            # The newest gain on the others: what was said of a thing lately is how it is now.
            among = {one.id: one for one in ranked[: max(_MIN_AMONG, 3 * context.top_k)]}
            gained = []
            for record in context.engine.store.get(list(among)):
                gain = _measure_recency(context, from_iso(record.body["ended_at"]) or record.created_at)
                gained.append(among[record.id]._replace(score=among[record.id].score + gain))
            best = sorted(gained, key=lambda one: (-one.score, one.id))[: context.top_k]
        else:
            # Among the very best those first that lie in a time which the question names plainly.
            first = sorted(ranked[:_BEST], key=lambda one: one.place is not TimeFit.INSIDE)
            best = [*first, *ranked[_BEST:]][: context.top_k]
        chosen = _choose_episodes(context, best, rank_turns(hits, best))
    weighed = _collect_evidence(context, hits, chosen)
    if any(one.record.evidence is not NONE for one in weighed):
        # What people said about a conversation moves it among its peers.
        praise = {}
        for one in weighed:
            good, bad = weigh_feedback(one.record.evidence)
            praise[one.record.id] = (good - bad) / (good + bad + 2.0)
        weighed.sort(key=lambda one: -(one.ranked.score + praise[one.record.id]))
    return weighed


def _asks_only_for_time(context: RetrievalContext) -> bool:
    if not (context.windows or context.request.since or context.request.until):
        return False
    return all(is_common(one) or one in STOP for one in words(remove_times(context.question.text)))


def _drop_irrelevant(hits: Sequence[ConversationHit], strictness: float) -> list[ConversationHit]:
    """Return nothing unless something is clearly relevant; then also what is less so, and turns beside one that is."""
    sure = {one.record.id for one in hits if FLOOR.passes(one.evidence, strictness)}
    if not sure:
        return []
    for id in [id for id in sure if id.startswith("trn_")]:
        sure.update(turn_id(episode_of(id), number_of(id) + step) for step in (-1, 1))
    # Words alone tell what is relevant, not what is less so: one word fewer says little.
    by_words = strictness <= 0 and all(one.evidence.cosine is None for one in hits)
    nearness = [FLOOR.measure_nearness(one.evidence) for one in hits]
    least = max(_FAINT, max(nearness) - _FALL) + strictness
    return [one for one, near in zip(hits, nearness, strict=True) if by_words or one.record.id in sure or near >= least]


def _choose_episodes(
    context: RetrievalContext, episodes: Sequence[RankedHit], turns: Iterable[RankedHit]
) -> list[Chosen]:
    excerpts: dict[str, list[str]] = {one.id: [] for one in episodes}
    for turn in turns:
        excerpt = excerpts.get(episode_of(turn.id))
        if excerpt is not None and len(excerpt) < _MAX_EXCERPT:
            excerpt.append(turn.id)
    for episode, excerpt in excerpts.items():
        # Found by its words as a whole, or by its time: its beginning tells what it is about.
        excerpt += [] if excerpt else [turn_id(episode, number) for number in range(_EXCERPT_TURNS)]
    ids = [*excerpts, *(id for excerpt in excerpts.values() for id in excerpt)]
    records = {record.id: record for record in context.engine.store.get(ids)}
    where = context.where("turn")
    shown = {id: record for id, record in records.items() if where.accepts(record)}
    # A conversation may have begun before the time that is asked for.
    whole = replace(context.where("episode"), created_from=None, created_to=None)
    chosen = []
    for one in episodes:
        record = records.get(one.id)
        if record is not None and whole.accepts(record):
            excerpt_turns = [shown[id] for id in excerpts[one.id] if id in shown]
            if not excerpt_turns and (gist := record.body.get("gist")):
                lines = context.engine.store.get([turn_id(one.id, number) for number in range(*gist)])
                excerpt_turns = [line for line in lines if where.accepts(line)]
            chosen.append((one, record, excerpt_turns[:_EXCERPT_TURNS]))
    return chosen


def _measure_recency(context: RetrievalContext, moment: datetime) -> float:
    days = max(context.now - moment, timedelta(0)) / timedelta(days=1)
    return context.mode.recency * fade_share(days, context.settings.recency_half_life_days)


def _collect_evidence(context: RetrievalContext, hits: SearchHits, chosen: Sequence[Chosen]) -> list[ConversationHit]:
    question = context.question
    # "Last week" is not said of what happened last week.
    query = stems(remove_times(question.text) if context.windows else question.text)
    names = [set(words(name)) for name in question.names if not _ABBREVIATED.search(name)]
    is_of_oneself = "i" in words(question.text)
    nearest = sorted(hits.meaning.values(), reverse=True)
    depth = nearest[min(_DEPTH, len(nearest)) - 1] if nearest else 0.0
    fullness = hits.measure_fullness()
    weighed = []
    for ranked, record, excerpt in chosen:
        excerpt.sort(key=lambda turn: int(turn.body["index"]))
        # What is not among so many that are near is no nearer than the last of them.
        cosine = nearest[-1] if nearest and ranked.cosine is None else ranked.cosine if nearest else None
        texts = [record.text, *(turn.text for turn in excerpt), *map(str, record.body.get("speakers", ()))]
        vocabulary = {word for text in texts for word in words(text)} if names else set()
        is_named = any(vocabulary.issuperset(name) for name in names)
        evidence = RelevanceEvidence(
            cosine=cosine,
            depth=depth,
            fullness=fullness,
            words=max((agreement(query, stems(turn.text)) for turn in excerpt), default=0.0),
            has_unknown_name=bool(names) and not is_named,
            is_personal=question.personal,
            has_known_name=is_named or is_of_oneself,
            is_titled=agreement(query, stems(str(record.body.get("title", "")))) >= FLOOR.all_words,
        )
        weighed.append(ConversationHit(ranked, record, tuple(excerpt), evidence))
    return weighed
