"""Retrieval: candidates (by meaning and by words, filter first) → gate → score → diversity → a slice that knows its own
id and can say why each memory is in it. All of it reads one snapshot of the store. `explain_retrieval` says why one is
retrieved for a task, or names the first obstacle on its way.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

from ...errors import BusyError, ReadOnlyError, StorageFullError
from ...reading.port import Pair
from ...reading.questions import find_names
from ...reading.topics import find_topics
from ...text import content_words, fingerprint, name_key, shorten, stem, stems, words
from ...types.events import EventType
from ...types.kinds import TEAM_AGENT, Heuristic, MemoryType, Similar, last_stated
from ...types.query import Hit, Where, plain, visible_users
from ...types.record import PERSONS, Record, Status, Vector, cosine
from ...types.slice import Explanation, MemorySlice
from ..admit import author_of, clean, make_record
from ..context import Engine
from ..events import describe_event, make_deliveries
from ..evidence import believe, success_factor
from ..outcomes import is_of_task, list_similar
from ..past import look_back
from ..rules import AGENT, is_old_fix
from ..sameness import list_literals
from ..search import by_meaning, by_words, find_closeness, find_hits, find_hits_by_kind, read_snapshot, scan_shared
from ..transaction import LESSONS, Transaction, strategy_of, write
from ..view import render_slice, to_memory
from .conversations import add_conversations
from .lookalikes import (
    FIELDS,
    Lookalike,
    ReadPair,
    find_leading,
    find_newest,
    judge_pairs,
    list_near_pairs,
    read_pairs,
    recall_pairs,
    store_pairs,
)
from .rank import (
    LEARNED,
    PROMPTED,
    STATED,
    TOPIC_LIFT,
    Candidate,
    PairBudget,
    Scored,
    compare_records,
    is_about_topics,
    is_stated,
    list_shared_words,
    measure_nearness,
    measure_similarity,
    read_relevance,
    score_candidate,
    share_places,
)
from .request import SHARED_KINDS, Mode, Request, RetrievalContext, embed_query, prepare
from .strategies import EXAMPLES, advise, find_groups, find_lessons, list_counted

_LOG = logging.getLogger("alma")
# The kinds that are searched for, and their fields in a slice. Preferences are listed, and only ordered.
_SLICE_FIELDS = {
    MemoryType.HEURISTIC: "heuristics",
    MemoryType.ANTI_PATTERN: "anti_patterns",
    MemoryType.DOMAIN_KNOWLEDGE: "domain_knowledge",
    MemoryType.OUTCOME: "outcomes",
    MemoryType.RULE: "rules",
}
_STANDING = (MemoryType.RULE, MemoryType.USER_PREFERENCE)
# The kinds that belong to a sort of task.
_TYPED = (*LESSONS, MemoryType.OUTCOME)
_SAME_TEXT = 0.985
_MAX_STANDING, _MAX_STANDING_RULES = 200, 24
_MIN_POOL, _MIN_LESSONS = 24, 12
_TYPED_POOL = 400  # So many are looked at when a filter can only be applied to what was found.
_OTHER_TASK = 0.65  # A lesson for another action on the same thing must be nearer than this.
# What a memory gains of the similarity that it lacks, and how much lower its floor is, if the question names its owner.
_NAMED_GAIN, _NAMED_EASE = 0.5, 0.12
_MAX_REPLACED, _MAX_SUCCESSIONS = 8, 8
_NOTE_CHARS = 500
_RULE_POOL, _PROMPT_CHARS = 20, 2000
_READABLE = 0.9
_FEW_WORDS = 2
_PROMPT_READ = 4
"""How many rules are read together with a prompt, for which a hook waits."""
_TOPIC_RULES = 400
"""How many of the newest rules are compared with the topics of a prompt."""


def retrieve(engine: Engine, request: Request) -> MemorySlice:
    """Return the memories that matter for a task, and record the retrieval."""
    began = time.perf_counter()
    source = engine if request.as_of is None else look_back(engine, request.as_of)
    context = prepare(source, request)
    memories, read = _choose(context)
    context = context._replace(engine=engine)
    retrieval_id = _record_retrieval(context, memories, read) if engine.settings.keep_retrievals else None
    took_ms = (time.perf_counter() - began) * 1000
    _LOG.debug("retrieval %s for agent %s: %d memories in %.1f ms", retrieval_id, request.agent, len(memories), took_ms)
    return replace(memories, retrieval_id=retrieval_id, retrieval_time_ms=took_ms)


def _log_candidates(context: RetrievalContext, pool: Sequence[Candidate]) -> None:
    """Log what was compared with the task and how near it is, by id: nobody's texts get into a log."""
    if not _LOG.isEnabledFor(logging.DEBUG):
        return
    request = context.request
    _LOG.debug(
        "retrieve for agent %s, user %s, project %s, mode %s, top_k %d: %d candidates",
        request.agent,
        request.user,
        context.engine.project,
        request.mode,
        context.top_k,
        len(pool),
    )
    for candidate in pool:
        record = candidate.record
        if _is_standing(context, record):
            verdict = "shown whatever the task is"
        else:
            verdict = "near enough" if _is_match(context, candidate) else "not near enough"
        cosine = "none" if candidate.cosine is None else f"{candidate.cosine:.3f}"
        _LOG.debug("%s %s: cosine %s, words %.2f: %s", record.kind, record.id, cosine, candidate.words, verdict)


class Choice(NamedTuple):
    """What a retrieval shows, and the pairs of look-alikes that were read for it."""

    memories: MemorySlice
    read: list[ReadPair]


def choose_memories(context: RetrievalContext) -> MemorySlice:
    """Return what a retrieval shows, without an id: nothing is written, and nothing is embedded."""
    return _choose(context).memories


def _choose(context: RetrievalContext) -> Choice:
    engine, budget = context.engine, PairBudget(context.engine.settings.pair_reading_ms)
    with read_snapshot(engine.store):
        pool = _find_candidates(context)
        groups = find_groups(context, [candidate.record for candidate in pool])
    # Not inside a snapshot: reading pairs takes longer than all the rest, and other threads would wait.
    pool = _read_pool(context, pool, budget)
    pool = advise(context, pool, groups, budget)
    _log_candidates(context, pool)
    with read_snapshot(engine.store):
        draft = _draft_slice(context, pool)
    lookalikes, read = _find_lookalikes(context, draft, [one.record for one in pool], budget)
    with read_snapshot(engine.store):
        memories = _make_slice(context, draft, pool, lookalikes)
        if MemoryType.EPISODE in context.types:
            memories = add_conversations(context, memories)
    records = {one.record.id: one.record for one in pool}
    lessons = [records[one.id] for one in (*memories.heuristics, *memories.anti_patterns)]
    others = {one.user_id for one in memories} - visible_users(context.request.user)
    owners = {user: ", ".join(engine.scopes.names(user)) for user in others}
    return Choice(replace(memories, owners=owners, opposed=_find_opposed(engine, lessons)), read)


def _read_pool(context: RetrievalContext, pool: Sequence[Candidate], budget: PairBudget) -> list[Candidate]:
    """Return the candidates with their relevance; those of other users come last, and take no place of the others."""
    needed = STATED.need_probability(context.mode.strictness)
    read: list[Candidate] = []
    for is_other in (False, True):
        part = [one for one in pool if context.is_colleagues(one.record) is is_other]
        read += read_relevance(context.engine, context.question.text, part, needed=needed, budget=budget)
    return read


def find_memories(engine: Engine, query: str, where: Where, limit: int) -> list[Scored]:
    """Return the memories that are nearest to a query, best first.

    Unlike a retrieval it is for nobody in particular: it goes by relevance alone, has no gate, and is not recorded.
    """
    pool = _find_pool(engine, query, embed_query(engine, query), where, max(2 * limit, _MIN_POOL), most_read=0)
    scored = [
        score_candidate(one, similarity, query, engine.clock(), engine.settings)._replace(score=similarity)
        for one, similarity in zip(pool, measure_similarity(pool), strict=True)
    ]
    return share_places(sorted(scored, key=lambda one: (-one.score, one.record.id)), limit, _is_from_person)


def find_rules(engine: Engine, session: str, prompt: str, limit: int) -> list[Record]:
    """Return the rules that a prompt clearly has to do with, those of its session too, best first.

    They are ranked as in a retrieval, and fewer of them pass: in front of a person silence is better. Copies of a
    team's rules are looked for apart and come last: however many there are, they hide no rule of the person's own.
    """
    where = engine.within(MemoryType.RULE, users={""}, sessions={"", session}, statuses={Status.ACTIVE})
    of_team = engine.where(MemoryType.RULE, agents={TEAM_AGENT}, sessions={""}, statuses={Status.ACTIVE})
    if next(iter(engine.store.scan(of_team, 1)), None) is None:
        return _rank_rules(engine, prompt, where, limit)
    own = _rank_rules(engine, prompt, replace(where, agents={AGENT, *engine.scopes.spaces(AGENT)}), limit)
    return [*own, *_rank_rules(engine, prompt, of_team, limit)][:limit]


def _rank_rules(engine: Engine, prompt: str, where: Where, limit: int) -> list[Record]:
    shared_topics = _weigh_shared_topics(engine, prompt, where)
    if not shared_topics and len(content_words(prompt)) < _FEW_WORDS and not engine.knows(prompt):
        # One word of an unknown language is compared in pieces, which many words share.
        return []
    [vectors] = engine.encode([(prompt[:_PROMPT_CHARS],)])
    needed, topical = PROMPTED.probability, list(shared_topics)
    pool = _find_pool(engine, prompt, vectors, where, _RULE_POOL, topical, most_read=_PROMPT_READ, needed=needed)
    # To a model of English all texts in other letters look alike: there, words or topics must agree as well.
    is_readable = sum(map(str.isascii, prompt)) >= _READABLE * len(prompt)
    ranked = []
    for candidate, similarity in zip(pool, measure_similarity(pool), strict=True):
        is_known = candidate.is_known and is_readable and candidate.record.text.isascii()
        relevance = candidate.relevance if is_known else None
        weight = shared_topics.get(candidate.record.id, 0.0)
        judged = candidate._replace(is_known=is_known, relevance=relevance)
        if PROMPTED.passes(judged) or is_about_topics(candidate, weight):
            item = score_candidate(candidate, similarity, prompt, engine.clock(), engine.settings)
            ranked.append(item._replace(score=item.score + TOPIC_LIFT * weight))
    ranked.sort(key=lambda item: (-item.score, item.record.id))
    return [item.record for item in share_places(ranked, limit, _is_from_person)]


def _weigh_shared_topics(engine: Engine, prompt: str, where: Where) -> dict[str, float]:
    """Return the ids of the newest rules that share a topic with a prompt, the most telling first, with the weight.

    A topic weighs the less, the more of the rules are about it, and the more other topics a rule has.
    """
    asked = find_topics(prompt)
    topics: dict[str, dict[str, float]] = {}
    for record in engine.store.scan(where, _TOPIC_RULES) if asked else ():
        topics[record.id] = find_topics(record.text)
    counts = Counter(name for names in topics.values() for name in names)
    weights: dict[str, float] = {}
    for id, names in topics.items():
        shared = [weight / (1.0 + math.log(counts[name])) for name, weight in names.items() if name in asked]
        if shared:
            weights[id] = sum(shared) * math.sqrt(len(shared) / len(names))
    best = sorted(weights, key=lambda id: (-weights[id], id))[:_RULE_POOL]
    return {id: weights[id] for id in best}


def _find_pool(
    engine: Engine,
    query: str,
    vectors: Sequence[Vector],
    where: Where,
    limit: int,
    ids: Sequence[str] = (),
    *,
    most_read: int,
    needed: float | None = None,
) -> list[Candidate]:
    """Return the candidates that are nearest to a query by meaning and by words, and those with these ids."""
    with read_snapshot(engine.store):
        found = find_hits(engine, query, vectors, where, limit).records
        others = [id for id in ids if id not in found]
        records = [*found.values(), *(engine.store.get(others) if others else ())]
        pool = compare_records(engine, query, records, find_closeness(engine, records, vectors))
    return read_relevance(engine, query, pool, most_read, needed=needed) if most_read else pool


def _is_standing(context: RetrievalContext, record: Record) -> bool:
    """Return whether a memory is shown without having to match; a preference of another user is not."""
    return record.kind in _STANDING and not context.is_colleagues(record)


class Draft(NamedTuple):
    """What is shown of each kind, before look-alikes are put into their order."""

    chosen: dict[MemoryType, list[Scored]]
    preferences: list[Scored]
    rules: list[Scored]  # Those in force that do not match.

    def list_stated(self) -> list[Record]:
        """Return the memories that may have look-alikes."""
        items = [item for kind in self.chosen if kind in FIELDS for item in self.chosen[kind]]
        return [item.record for item in (*items, *self.preferences)]


def _draft_slice(context: RetrievalContext, pool: Sequence[Candidate]) -> Draft:
    """Return the best of each kind."""
    ranked = _rank_candidates(context, pool)
    chosen: dict[MemoryType, list[Scored]] = {}
    for kind in _SLICE_FIELDS:
        matching = [item for item in ranked[kind] if not item.is_standing]
        chosen[kind] = _take_diverse(matching, context.top_k)
    preferences = _put_newest_first(ranked[MemoryType.USER_PREFERENCE])
    matching = [item for item in preferences if not item.is_standing][: context.top_k]
    standing = [item for item in preferences if item.is_standing]
    rules = [item for item in ranked[MemoryType.RULE] if item.is_standing]
    standing_ids = _share_standing(standing, rules, context.engine.settings.max_preferences)
    shown_ids = {item.record.id for item in matching} | standing_ids
    preferences = [item for item in preferences if item.record.id in shown_ids]
    return Draft(chosen, preferences, [item for item in rules if item.record.id in standing_ids])


def _find_lookalikes(
    context: RetrievalContext, draft: Draft, among: Sequence[Record], budget: PairBudget
) -> tuple[list[Lookalike], list[ReadPair]]:
    """Return the look-alikes of what is shown, those of the newer ones too, and the pairs that were read for it."""
    lookalikes: list[Lookalike] = []
    read: list[ReadPair] = []
    records, seen_ids = draft.list_stated(), set[str]()
    while records:
        seen_ids |= {record.id for record in records}
        pairs, scores = recall_pairs(context.engine, list_near_pairs(context.engine, records, among))
        fresh = read_pairs(context.engine, pairs, scores, budget)
        scores |= {(one.pair.older.id, one.pair.newer.id): one.fact for one in fresh}
        found = judge_pairs(context.engine, pairs, scores)
        newer = {pair.newer.id: pair.newer for pair in found if pair.is_sure}
        records = [record for id, record in newer.items() if id not in seen_ids]
        lookalikes += found
        read += fresh
    return lookalikes, read


def _make_slice(
    context: RetrievalContext, draft: Draft, pool: Sequence[Candidate], lookalikes: Sequence[Lookalike]
) -> MemorySlice:
    """Return the slice without conversations and without an id."""
    chosen = dict(draft.chosen)
    for kind in chosen:
        if kind in FIELDS:
            chosen[kind] = _order_lookalikes(context, chosen[kind], pool, lookalikes, context.top_k)
    chosen[MemoryType.DOMAIN_KNOWLEDGE] += _find_linked_facts(context, chosen[MemoryType.DOMAIN_KNOWLEDGE])
    preferences = _order_lookalikes(context, draft.preferences, pool, lookalikes, len(draft.preferences))
    values: dict[str, Any] = {}
    for name, items in [("preferences", preferences), *((_SLICE_FIELDS[kind], chosen[kind]) for kind in chosen)]:
        views = [(to_memory(item.record, context.now), item.newer) for item in items]
        values[name] = [replace(memory, newer=newer) if newer else memory for memory, newer in views]
    values["standing_rules"] = [to_memory(item.record, context.now) for item in draft.rules]
    similar = {item.record.id: item.advice.similar for item in pool if item.advice and item.advice.similar}
    values["outcomes"] = [replace(one, similar=list_counted(similar.get(one.id, ()))) for one in values["outcomes"]]
    if values["heuristics"] and context.vectors:
        values["heuristics"] = _add_similar(context, values["heuristics"], chosen[MemoryType.HEURISTIC])
    memories = MemorySlice(
        query=context.request.task,
        agent=context.request.agent,
        progressive=context.request.progressive,
        renderer=render_slice,
        **values,
    )
    reasons = {item.record.id: item.explanation for items in (preferences, *chosen.values()) for item in items}
    return replace(memories, explanations=tuple(reasons[memory.id] for memory in memories))


def _share_standing(preferences: Sequence[Scored], rules: Sequence[Scored], budget: int) -> set[str]:
    """Return the ids of what is shown without a match: what persons said first, and preferences before rules."""
    items = sorted((*preferences, *rules), key=_is_not_from_person)
    return {item.record.id for item in items[:budget]}


def _is_from_person(item: Scored) -> bool:
    return item.record.provenance.is_from_person


def _is_not_from_person(item: Scored) -> bool:
    return not item.record.provenance.is_from_person


# --- candidates ------------------------------------------------------------------------------------


def _find_candidates(context: RetrievalContext) -> list[Candidate]:
    engine, task = context.engine, context.question.text
    task_type = plain(context.request.task_type)
    meaning: list[Hit] = []
    found: dict[str, Record] = {}
    standing = _list_standing(context)
    for where, limits in _plan_searches(context, standing):
        hits = find_hits_by_kind(engine, task, context.vectors, where, limits)
        meaning += hits.meaning
        found |= hits.records
    found |= find_lessons(context, found.values())
    by_id = found | {record.id: record for record in standing}
    records = {}
    for record in by_id.values():
        is_other_type = task_type and record.kind in _TYPED and plain(record.body.get("task_type") or "") != task_type
        is_undated = record.status is Status.SUPERSEDED and record.valid_to is None
        if not is_other_type and not is_undated and not is_old_fix(record):
            records[record.id] = record
    replaced = _find_replaced(context)
    records |= {new.id: new for _, new in replaced if new.id not in by_id}
    everything = [*records.values(), *(old for old, _ in replaced)]
    close = {hit.id: hit.score for hit in meaning}
    close |= find_closeness(engine, [record for record in everything if record.id not in close], context.vectors)
    # The owner's name is part of what a question that names them is compared with.
    owned = (record for record in everything if context.is_asked_for(record.user))
    texts = {record.id: f"{', '.join(engine.scopes.names(record.user))}: {record.text}" for record in owned}
    pool = {one.record.id: one for one in compare_records(engine, task, everything, close, texts)}
    for old, new in replaced:
        if new.id in records:
            # What was replaced leads to its successor: asked in the words of the old fact, one gets the new fact.
            both = pool[new.id], pool[old.id]
            nearest = max(both, key=measure_nearness)
            cosines = [one.cosine for one in both if one.cosine is not None]
            shared = max(one.words for one in both)
            text = nearest.text or nearest.record.text
            pool[new.id] = pool[new.id]._replace(cosine=max(cosines, default=None), words=shared, text=text)
    return [pool[id] for id in records]


def _plan_searches(context: RetrievalContext, standing: Sequence[Record]) -> list[tuple[Where, dict[str, int]]]:
    """Return the filters to search with, each with the number of hits that are wanted of each kind.

    Kinds with the same filter are searched together. Where all rules in force are listed, none is searched for.
    """
    top_k, owners = context.top_k, context.find_owners()
    task_type, is_shared = plain(context.request.task_type), context.engine.settings.share_between_users
    # Those of the user who asks are listed whether they match or not.
    searched = (*_SLICE_FIELDS, MemoryType.USER_PREFERENCE) if is_shared else tuple(_SLICE_FIELDS)
    rules = sum(record.kind == MemoryType.RULE for record in standing)
    searches: list[tuple[Where, dict[str, int]]] = []
    for kind in (kind for kind in searched if kind in context.types):
        if kind is MemoryType.RULE and _lists_rules(context) and rules < _MAX_STANDING_RULES:
            continue
        # More of the kinds that have look-alikes, which need not be near themselves.
        limit = max(3 * top_k, _MIN_POOL) if kind in FIELDS else max(2 * top_k, _MIN_LESSONS)
        limit = max(limit, EXAMPLES) if kind is MemoryType.OUTCOME else limit
        limit = _TYPED_POOL if task_type and kind in _TYPED else limit
        where = replace(context.where(kind), kinds=None)
        wheres = (where, replace(where, users=owners)) if owners and kind in SHARED_KINDS else (where,)
        for search_where in wheres:
            _add_search(searches, search_where, kind, limit)
    return searches


def _add_search(searches: list[tuple[Where, dict[str, int]]], where: Where, kind: MemoryType, limit: int) -> None:
    """Add a kind to the search with the same filter and about as many hits, or to a new one."""
    for planned, limits in searches:
        if planned == where and (max(limits.values()) >= _TYPED_POOL) is (limit >= _TYPED_POOL):
            limits[kind] = limit
            return
    searches.append((where, {kind: limit}))


def _lists_rules(context: RetrievalContext) -> bool:
    """Return whether rules are shown without having to match."""
    return MemoryType.RULE in context.types and context.request.mode is not Mode.PRECISE


def _list_standing(context: RetrievalContext) -> list[Record]:
    """Return what is shown without having to match: the rules in force and the user's preferences."""
    store, user = context.engine.store, context.request.user
    records: list[Record] = []
    if _lists_rules(context):
        records += scan_shared(store, context.where(MemoryType.RULE), _MAX_STANDING_RULES)
    if user is not None and MemoryType.USER_PREFERENCE in context.types:
        where = replace(context.where(MemoryType.USER_PREFERENCE), users={user})
        records += scan_shared(store, where, _MAX_STANDING)
    return records


def _find_replaced(context: RetrievalContext) -> list[tuple[Record, Record]]:
    """Return the superseded memories that are nearest to the task, each with the one that holds now."""
    kinds = [kind for kind in FIELDS if kind in context.types]
    if context.past is not None or not kinds:
        return []
    engine = context.engine
    where = replace(
        context.where(kinds[0]), kinds=set(kinds), statuses={Status.SUPERSEDED}, valid_at=None, sessions=None
    )
    hits = by_meaning(engine, context.vectors, where, _MAX_REPLACED)
    if not engine.knows(context.question.text):
        hits += by_words(engine.store, context.question.text, where, _MAX_REPLACED)
    pairs: list[tuple[Record, Record]] = []
    if not hits:
        return pairs
    for old in engine.store.get(list(dict.fromkeys(hit.id for hit in hits))):
        new: Record | None = old
        for _ in range(_MAX_SUCCESSIONS):
            if new is None or new.status is Status.ACTIVE:
                break
            new = next(iter(engine.store.get([new.superseded_by])), None) if new.superseded_by else None
        if new is not None and new.status is Status.ACTIVE:
            visible = context.where(new.kind)
            if visible.accepts(new) or (not new.agent and replace(visible, agents=None).accepts(new)):
                pairs.append((old, new))
    return pairs


# --- ranking ---------------------------------------------------------------------------------------


def _rank_candidates(context: RetrievalContext, pool: Sequence[Candidate]) -> dict[MemoryType, list[Scored]]:
    """Return what matches the task, or is shown without, best first."""
    passing = [
        (candidate, similarity, is_match)
        for candidate, similarity in zip(pool, measure_similarity(pool), strict=True)
        if (is_match := _is_match(context, candidate)) or _is_standing(context, candidate.record)
    ]
    matching = [candidate.record for candidate, _, is_match in passing if is_match]
    expected: Mapping[str, float] = {}
    if any(record.kind in LESSONS and record.evidence.recent for record in matching):
        # Loaded here because a process that has no lessons to show does without it.
        from ..predict import forecast_lessons

        similar = {
            candidate.record.id: [group.id for group in candidate.advice.similar]
            for candidate, _, _ in passing
            if candidate.advice
        }
        question = context.question.text
        expected = forecast_lessons(context.engine, question, context.vectors, matching, context.now, similar)
    ranked: dict[MemoryType, list[Scored]] = {kind: [] for kind in MemoryType}
    lessons = _find_best_lessons([candidate for candidate, _, _ in passing])
    for candidate, similarity, is_match in passing:
        chance = expected.get(candidate.record.id)
        most_confident = 1.0
        lesson = lessons.get(candidate.advice.strategy) if candidate.advice else None
        if lesson is not None and candidate.record.kind == MemoryType.OUTCOME:
            # An outcome does not stand before the lesson that it taught.
            chance = min(success_factor(candidate.record, context.now), expected.get(lesson.id, 1.0))
            most_confident = believe(lesson, context.now).mean
        similarity = candidate.advice.similarity if candidate.advice else similarity
        if context.is_asked_for(candidate.record.user):
            similarity += _NAMED_GAIN * (1.0 - similarity)
        scored = score_candidate(
            candidate,
            similarity,
            *context.basis,
            expected=chance,
            is_standing=not is_match,
            most_confident=most_confident,
        )
        ranked[MemoryType(candidate.record.kind)].append(scored)
    for items in ranked.values():
        # Rounded, so that a second more or less between two memories does not decide. Of equals the newest comes first.
        items.sort(key=lambda item: item.record.id, reverse=True)
        items.sort(key=lambda item: -round(item.score, 4))
    return ranked


def _find_best_lessons(candidates: Sequence[Candidate]) -> dict[str, Record]:
    """Return the heuristic with the most results of each strategy."""
    lessons: dict[str, Record] = {}
    heuristics = [one for one in candidates if one.advice and one.record.kind == MemoryType.HEURISTIC]
    for candidate in sorted(heuristics, key=lambda candidate: candidate.record.evidence.results):
        if candidate.advice:
            lessons[candidate.advice.strategy] = candidate.record
    return lessons


def _is_match(context: RetrievalContext, candidate: Candidate) -> bool:
    """Return whether a memory is about the task; others are left out, however recent and proven."""
    record, strictness = candidate.record, context.mode.strictness
    if context.is_asked_for(record.user):
        strictness -= _NAMED_EASE
    if is_stated(record):
        return STATED.passes(candidate, strictness)
    if candidate.advice and candidate.advice.is_about is not None:
        return candidate.advice.is_about
    if not LEARNED.passes(candidate, strictness):
        return False
    # A lesson for another action on what the question names is none for it: "Deploy auth", "Why is auth slow?".
    task = str(record.body.get("condition") or record.body.get("task") or "")
    action, query_stems = content_words(task, 1), stems(context.question.text)
    is_other_action = bool(action) and stem(action[0]) not in query_stems and (candidate.cosine or 0.0) < _OTHER_TASK
    return not is_other_action or query_stems.isdisjoint(stems(task))


def _order_lookalikes(
    context: RetrievalContext,
    scored: Sequence[Scored],
    pool: Sequence[Candidate],
    lookalikes: Sequence[Lookalike],
    limit: int,
) -> list[Scored]:
    """Mark each memory that has a newer look-alike, and put the newest of them before it; at most `limit` in all."""
    records = [item.record for item in scored]
    sure = [pair for pair in lookalikes if pair.is_sure]
    newest = find_newest(records, sure, context.past)
    leading = find_leading(records, sure, context.past)
    by_id = {item.record.id: item for item in scored}
    # What was not read is not marked, and brings nothing along.
    unread = [pair for pair in lookalikes if not pair.is_sure and pair.newer.id in by_id]
    later = find_newest(records, unread, context.past)
    missing = {one.id: one for one in (*leading.values(), *newest.values()) if one.id not in by_id}
    if missing:
        is_standing = all(item.is_standing for item in scored)
        for candidate, similarity in zip(pool, measure_similarity(pool), strict=True):
            if candidate.record.id in missing:
                scored_one = score_candidate(candidate, similarity, *context.basis, is_standing=is_standing)
                by_id[candidate.record.id] = scored_one
        newest |= find_newest(list(missing.values()), sure, context.past)
    ordered: dict[str, Scored] = {}
    for item in scored:
        first = [leading[item.record.id].id] if item.record.id in leading else []
        ahead = [newest[id].id for id in (*first, item.record.id) if id in newest]
        ahead += [later[item.record.id].id] if item.record.id in later else []
        for id in (*ahead, *first, item.record.id):
            if id not in ordered and id in by_id:
                newer = newest[id].id if id in newest else ""
                ordered[id] = _explain_order(by_id[id], newer, item.record.id, is_word=id in first)
    return share_places(list(ordered.values()), limit, _is_from_person)


def _explain_order(item: Scored, newer: str, older: str, *, is_word: bool = False) -> Scored:
    """Return a scored memory marked with its newer look-alike, and with the reason for its place among them.

    `is_word` is whether it comes first because a person said it.
    """
    note = f"may be superseded by the newer look-alike {newer}, which comes first" if newer else ""
    if not newer and older != item.record.id:
        note = f"comes first as the newer look-alike of {older}"
        note = f"comes first as a person's word about the same as {older}" if is_word else note
    return item._replace(newer=newer, note=note) if note else item


def _put_newest_first(scored: Sequence[Scored]) -> list[Scored]:
    """Order the preferences of each user and category by date: of two that contradict each other, the newer is first.

    What a person said comes before what others did. Else the places that a category has stay as they are ranked.
    """
    by_category: dict[tuple[str, str, bool], list[Scored]] = defaultdict(list)

    def find_group(item: Scored) -> list[Scored]:
        return by_category[item.record.user, plain(item.record.body["category"]), _is_from_person(item)]

    for item in sorted(scored, key=lambda one: (last_stated(one.record), one.record.id)):
        find_group(item).append(item)
    return sorted((find_group(item).pop() for item in scored), key=_is_not_from_person)


def _take_diverse(scored: Sequence[Scored], limit: int) -> list[Scored]:
    """Return the best that differ: one outcome per strategy and result, no second copy of a text.

    Half of the places are reserved for what persons said, which is kept before copies by others.
    """
    own = _take_distinct([item for item in scored if _is_from_person(item)], (limit + 1) // 2)
    due = {item.record.id for item in own}
    chosen: list[Scored] = []
    for item in scored:
        if item.record.id in due:
            chosen.append(item)
            due.discard(item.record.id)
        elif len(chosen) + len(due) < limit and not any(_is_copy(item, other) for other in (*chosen, *own)):
            chosen.append(item)
    return chosen


def _take_distinct(scored: Sequence[Scored], limit: int) -> list[Scored]:
    chosen: list[Scored] = []
    for item in scored:
        if len(chosen) == limit:
            break
        if not any(_is_copy(item, other) for other in chosen):
            chosen.append(item)
    return chosen


def _is_copy(item: Scored, chosen: Scored) -> bool:
    """Return whether a memory adds nothing to one that is shown."""
    record, other = item.record, chosen.record
    if record.kind == MemoryType.OUTCOME:
        return _name_result(record) == _name_result(other)
    return (
        bool(record.vectors)
        # What two users say alike is known from both.
        and (not record.user or not other.user or record.user == other.user)
        and len(record.vectors) == len(other.vectors)
        and record.embedder == other.embedder
        and stems(record.text) == stems(other.text)
        and all(cosine(mine, its) >= _SAME_TEXT for mine, its in zip(record.vectors, other.vectors, strict=True))
    )


def _name_result(outcome: Record) -> tuple[str, str, str]:
    """Return the strategy and the result of an outcome: one of each is shown, whatever the task was."""
    return outcome.user, fingerprint(strategy_of(outcome.body)), outcome.body["outcome"]


# --- what goes with the first results --------------------------------------------------------------

_MAX_LINKED, _LINKED_FROM = 2, 3
_MAX_NAMING = 5  # A name that more facts hold says little.
_MIN_LINKED_COSINE = 0.15
_MAX_ENTITIES = 50


def _find_linked_facts(context: RetrievalContext, first: Sequence[Scored]) -> list[Scored]:
    """Return facts about those whom the first results name and the question does not, or calls by another name.

    "Where does Maria's manager work?" finds that her manager is Tom; where Tom works shares no word with the question.
    Such facts fill places that are left free. Whom the graph knows by several names is looked for under all of them:
    asked about Bob, what is known of Robert Smith counts.
    """
    room = min(context.top_k - len(first), _MAX_LINKED)
    if room <= 0 or context.request.mode is Mode.PRECISE or MemoryType.DOMAIN_KNOWLEDGE not in context.types:
        return []
    records = [item.record for item in first[:_LINKED_FROM]]
    entities = _list_entities(context, linked={record.id for record in records}) if records else []
    written = [name for record in records for name in find_names(record.text)]
    names = {name_key(name): name for name in (*(one.body["name"] for one in entities), *written)}
    query_words = set(words(context.question.text))
    new = [name for name in names.values() if not query_words.issuperset(words(name))]
    if not new and not context.question.names:
        return []
    aliases = _find_aliases(context, (*new, *context.question.names))
    ways = [(other, name) for name in context.question.names for other in aliases.get(name, ())]
    ways += [(other, "") for name in new for other in (name, *aliases.get(name, ()))]
    seen_ids = {item.record.id for item in first}
    facts: list[tuple[Record, float | None, str]] = []
    for name, query in ways:
        holding = _find_naming(context, name)
        close: Mapping[str, float | None] = find_closeness(context.engine, holding, context.vectors)
        for record in holding:
            near = close.get(record.id)
            # What is said of the very one who is asked about need not sound like the question.
            if record.id not in seen_ids and (query or near is None or near >= _MIN_LINKED_COSINE):
                reason = f"about {name}, " + (f"who is {query}" if query else "whom the first results name")
                facts.append((record, near, reason))
                seen_ids.add(record.id)
    facts.sort(key=lambda fact: (-(fact[1] or 0.0), fact[0].id))
    linked = []
    for record, near, reason in facts[:room]:
        candidate = Candidate(record, near, 0.0)
        [similarity] = measure_similarity([candidate])
        scored = score_candidate(candidate, similarity, *context.basis)
        linked.append(scored._replace(reason=reason))
    return linked


def _find_aliases(context: RetrievalContext, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the other names of those of whom the graph knows exactly one."""
    keys = {name: name_key(name) for name in names}
    entities = _list_entities(context, tagged=set(keys.values()))
    aliases: dict[str, list[str]] = {}
    for name, key in keys.items():
        bearers = [one for one in entities if key in one.tags]
        if len(bearers) == 1:
            called = (bearers[0].body["name"], *bearers[0].body["aliases"])
            aliases[name] = [one for one in called if name_key(one) != key]
    return aliases


def _list_entities(context: RetrievalContext, **conditions: Collection[str]) -> list[Record]:
    where = context.engine.where("entity", statuses={Status.ACTIVE}, **conditions)
    return list(context.engine.store.scan(where, _MAX_ENTITIES))


def _find_naming(context: RetrievalContext, name: str) -> list[Record]:
    """Return the facts that hold a name, or if they are many, those that persons said; none when these are many."""
    store, name_words = context.engine.store, set(words(name))
    where = context.where(MemoryType.DOMAIN_KNOWLEDGE)
    for one in (where, replace(where, origins=PERSONS)):
        hits = by_words(store, name, one, _MAX_NAMING + 1)
        holding = [fact for fact in store.get([hit.id for hit in hits]) if name_words <= set(words(fact.text))]
        if len(holding) <= _MAX_NAMING:
            return holding
    return []


_SIMILAR_POOL, _MAX_SIMILAR = 24, 2
_SIMILAR_STRATEGY, _SIMILAR_TASK = 0.6, 0.5


def _add_similar(
    context: RetrievalContext, heuristics: Sequence[Heuristic], scored: Sequence[Scored]
) -> list[Heuristic]:
    """Return the heuristics, each with the strategies for the same sort of task that look like it.

    What the reader could not tell to be the same strategy is counted apart, and shown together.
    """
    engine, readable = context.engine, context.where("heuristic")
    where = engine.where("strategy", agents=readable.agents, users=readable.users)
    hits = by_meaning(engine, context.vectors, where, _SIMILAR_POOL)
    groups = [group for group in engine.store.get([hit.id for hit in hits]) if len(group.vectors) >= 2]
    shown_ids = {link for item in scored for link in item.record.links}
    completed = []
    for heuristic, item in zip(heuristics, scored, strict=True):
        own = next((group for group in groups if group.id in item.record.links), None)
        similar: list[tuple[float, Similar]] = []
        for group in groups if own is not None else ():
            if own is None or group.id in shown_ids or group.user != item.record.user or not group.evidence.results:
                continue
            if list_literals(own.body["strategy"]) != list_literals(group.body["strategy"]):
                continue
            alike = cosine(own.vectors[0], group.vectors[0])
            mine, theirs = own.body["task_type"], group.body["task_type"]
            alike_tasks = float(mine == theirs) if mine and theirs else cosine(own.vectors[1], group.vectors[1])
            if (alike >= _SIMILAR_STRATEGY or group.id in list_similar(own)) and alike_tasks >= _SIMILAR_TASK:
                results = group.evidence
                similar.append((-alike, Similar(group.body["strategy"], results.successes, results.results)))
        best = sorted(similar, key=lambda one: one[0])[:_MAX_SIMILAR]
        completed.append(replace(heuristic, similar=tuple(one for _, one in best)))
    return completed


def _find_opposed(engine: Engine, lessons: Sequence[Record]) -> tuple[tuple[str, ...], ...]:
    """Return ids of heuristics, each with those of warnings that other agents or users have of the same strategy.

    Lessons for different sorts of tasks are not opposed to each other.
    """
    good, bad = ([one for one in lessons if one.kind == kind and one.evidence.results] for kind in LESSONS)
    if not good or not bad:
        return ()
    groups = {group.id: group for group in engine.store.get([one.links[0] for one in good if one.links])}
    pairs = [
        (one, other)
        for one, other in product(good, bad)
        if (author_of(one), one.user) != (author_of(other), other.user)
        and any(link in groups and is_of_task(groups[link], other) for link in one.links)
    ]
    relations = engine.compare_closely([Pair(strategy_of(one.body), strategy_of(other.body)) for one, other in pairs])
    opposed: dict[str, list[str]] = {}
    for (one, other), relation in zip(pairs, relations, strict=True):
        if relation.is_same:
            opposed.setdefault(one.id, [one.id]).append(other.id)
    return tuple(map(tuple, opposed.values()))


# --- the note of a retrieval -----------------------------------------------------------------------


def _record_retrieval(context: RetrievalContext, memories: MemorySlice, read: Sequence[ReadPair]) -> str | None:
    """Store what was shown and what was read of look-alikes; return the retrieval's id.

    None where nothing can be written.
    """
    engine, request = context.engine, context.request
    shown_ids = [memory.id for memory in memories] + [rule.id for rule in memories.standing_rules]
    task = shorten(clean(request.task), _NOTE_CHARS)
    body = clean({"task": task, "mode": str(request.mode)}) | {"shown": shown_ids}
    place: dict[str, Any] = {"agent": request.agent, "user": request.user or "", "links": tuple(shown_ids)}
    record = make_record(engine, "retrieval", body, **place)

    def step(tx: Transaction) -> str:
        store_pairs(tx, read)
        return tx.put(record).id

    try:
        return write(engine, step, patient=not engine.notes.can_wait)
    except BusyError:
        if not engine.notes.can_wait:
            raise
        events = [describe_event(engine, EventType.RETRIEVED, record)]
        for one in (record, *make_deliveries(engine, events)):
            engine.notes.add(one)
        engine.events.publish(events)
        return record.id
    except (ReadOnlyError, StorageFullError) as error:
        # What was found is worth more than the note that it was looked for; the missing id tells the caller.
        _LOG.warning("could not record this retrieval: %s", error)
        return None


_MAX_PLACES = 50
SHOWN_ALWAYS = "it is shown whatever the task is"


@dataclass(frozen=True, slots=True)
class Why:
    """How the score of one memory for a query comes about."""

    memory_id: str
    retrieved: bool
    rank: int | None  # Its place among those of its type that match, from 1; None if it is not among them.
    reason: str
    explanation: Explanation | None  # What it scored, where it was looked at.


def explain_retrieval(engine: Engine, record: Record, request: Request) -> Why:
    """Return whether and why a memory, which is not a turn, is retrieved for a request.

    All types are looked at, as in a retrieval: how near one memory is, is measured by the others that were found.
    """
    context = prepare(engine, request)
    broad = prepare(engine, request._replace(top_k=_MAX_PLACES, mode=Mode.BROAD))
    # Nothing is embedded inside a snapshot: a fork waits for it, and would wait for the embedder's lock, too.
    with read_snapshot(engine.store):
        chosen = choose_memories(context)
        place = _find_place(chosen, record)
        if place is not None:
            return Why(record.id, True, place[0], place[1].reason, place[1])
        if record.id in [rule.id for rule in chosen.standing_rules]:
            return Why(record.id, True, None, SHOWN_ALWAYS, None)
        reason = next(list_obstacles(context, record), "")
        place = None if reason else _find_place(choose_memories(broad), record)
    if place is not None:
        reason = f"other memories rank higher; in a broad search it is number {place[0]}"
    elif not reason:
        close = find_closeness(engine, [record], context.vectors).get(record.id)
        meaning = "no vector to compare" if close is None else f"semantic similarity {close:.2f}"
        words = ", ".join(list_shared_words(context.question.text, record.text)[:6])
        shared = f"shared words: {words}" if words else "no shared words"
        reason = f"it is not similar enough to the task ({meaning}; {shared})"
    return Why(record.id, False, None, reason, place[1] if place else None)


def _find_place(memories: MemorySlice, record: Record) -> tuple[int, Explanation] | None:
    """Return the place of a memory among those of its type, and what it scored."""
    places = enumerate((one for one in memories.explain() if one.memory_type == record.kind), start=1)
    return next(((rank, one) for rank, one in places if one.memory_id == record.id), None)


def list_obstacles(context: RetrievalContext, record: Record) -> Iterator[str]:
    """Yield what keeps a memory out, however near it is."""
    where, user = context.where(record.kind), context.request.user
    is_hidden = where.users is not None and record.user not in where.users
    if where.statuses is not None and record.status not in where.statuses:
        statuses = ", ".join(sorted(map(str, where.statuses)))
        yield f"its status is {str(record.status)!r}, and only {statuses} are retrieved"
    if is_hidden:
        is_preference = record.kind == MemoryType.USER_PREFERENCE
        owner = f"is a preference of {record.user!r}" if is_preference else f"belongs to the user {record.user!r}"
        yield f"it {owner}, and the task is for {user or 'no user'!r}"
    elif where.agents is not None and record.agent not in where.agents:
        yield f"it belongs to the agent {record.agent!r}, whose memories {context.request.agent!r} does not read"
    if where.sessions is not None and record.session not in where.sessions:
        yield "it holds in one session only"
    if not replace(where, statuses=None, users=None, agents=None, sessions=None).accepts(record):
        yield "it does not hold at this moment"
