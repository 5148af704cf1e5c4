"""Retrieval: candidates (by meaning and by words, filter first) → fuse → gate → score → diversity → a slice that knows
its own id and can say why each memory is in it."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...errors import BusyError, ReadOnlyError, StorageFullError
from ...reading.questions import read_question
from ...reading.times import find_windows
from ...text import content_words, shorten, stem, stems
from ...types.kinds import Memory, MemoryType, last_stated
from ...types.query import Hit
from ...types.record import Origin, Provenance, Record, Status
from ...types.scope import plain
from ...types.slice import Explanation, MemorySlice
from ...types.vector import Vector, cosine
from ..admit import build, clean
from ..context import Engine
from ..drafts import Draft
from ..rules import is_old_fix
from ..search import by_meaning, by_words, find_closeness
from ..transaction import commit, marker, mismatch
from ..view import render_slice, view
from .fuse import LEARNED, TOLD, Candidate, similarity
from .hop import linked
from .lookalikes import FIELDS, find_newest
from .recall import recall
from .replaced import find_replaced
from .request import MANNERS, Asked, Mode, Request
from .score import explain, score
from .shares import share_words
from .similar import add_similar

_LOG = logging.getLogger("alma")
_OWNED = (
    MemoryType.HEURISTIC,
    MemoryType.ANTI_PATTERN,
    MemoryType.DOMAIN_KNOWLEDGE,
    MemoryType.OUTCOME,
    MemoryType.RULE,
)
_STANDING = (MemoryType.RULE, MemoryType.USER_PREFERENCE)
_TYPED = (MemoryType.HEURISTIC, MemoryType.ANTI_PATTERN, MemoryType.OUTCOME)
"""The kinds that belong to a sort of task."""
_LESSONS = (MemoryType.HEURISTIC, MemoryType.ANTI_PATTERN)
_FIELDS = {
    MemoryType.HEURISTIC: "heuristics",
    MemoryType.OUTCOME: "outcomes",
    MemoryType.USER_PREFERENCE: "preferences",
    MemoryType.DOMAIN_KNOWLEDGE: "domain_knowledge",
    MemoryType.ANTI_PATTERN: "anti_patterns",
    MemoryType.RULE: "rules",
}
_SAME_TEXT = 0.985
_MAX_STANDING = 200
_STANDING_RULES = 24
_LEAST_POOL = 24
_LEAST_LESSONS = 12
_TYPED_POOL = 400
"""So many are looked at when a filter can only be applied to what was found."""
_OTHER_TASK = 0.65
"""A lesson for another action on the same thing must be nearer than this."""
_NOTE_CHARS = 500


@dataclass(frozen=True, slots=True)
class Scored:
    record: Record
    score: float
    explanation: Explanation
    newer: str = ""
    """The id of its newest look-alike."""


def retrieve(engine: Engine, request: Request) -> MemorySlice:
    began = time.perf_counter()
    asked = look(engine, request)
    pool = _pool(asked)
    ranked = _rank(asked, pool)
    matching = {kind: [item for item in ranked[kind] if not item.explanation.standing] for kind in ranked}
    chosen = {kind: _order_lookalikes(asked, _diverse(matching[kind], asked.top_k), pool) for kind in _OWNED}
    chosen[MemoryType.DOMAIN_KNOWLEDGE] += _second_hop(asked, chosen)
    preferences = _put_newest_first(ranked[MemoryType.USER_PREFERENCE])
    budget = engine.settings.max_preferences
    matched = [item for item in preferences if not item.explanation.standing][: asked.top_k]
    standing = [item for item in preferences if item.explanation.standing][:budget]
    shown = [item for item in preferences if item in matched or item in standing]
    chosen[MemoryType.USER_PREFERENCE] = _order_lookalikes(asked, shown, pool, limit=len(shown))
    rules = [item for item in ranked[MemoryType.RULE] if item.explanation.standing][: budget - len(standing)]
    made = _slice(asked, chosen, rules)
    if MemoryType.EPISODE in asked.types:
        made = recall(asked, made)
    kept = _keep(asked, made) if engine.settings.keep_retrievals else None
    return replace(made, retrieval_id=kept, retrieval_time_ms=(time.perf_counter() - began) * 1000)


def look(engine: Engine, request: Request) -> Asked:
    question = read_question(request.task)
    now = request.as_of or engine.clock()
    return Asked(
        engine=engine,
        request=request,
        manner=MANNERS[request.mode],
        question=question,
        windows=tuple(find_windows(question.text, now)),
        vectors=query_vectors(engine, question.text),
        now=now,
    )


def query_vectors(engine: Engine, task: str) -> tuple[Vector, ...]:
    """Of a long task its beginning and its end: what is asked usually stands last."""
    if engine.encoder is None:
        return ()
    held = marker(engine)
    if held is None:
        return ()  # nothing has been embedded yet
    if held.body["value"] != engine.embedder_name:
        raise mismatch(held.body["value"], engine.embedder_name)
    size = engine.encoder.embedder.passage_chars
    [vectors] = engine.encode([(task,) if len(task) <= size else (task[:size], *_endings(task, size))])
    return vectors


def _endings(task: str, size: int) -> tuple[str, ...]:
    """The last passage, and the last lines of it alone: a question after a page of preamble is short."""
    end = task[-size:]
    return (end, end[-size // 4 :].partition(" ")[2] or end)


def _pool(asked: Asked) -> list[Candidate]:
    engine, task = asked.engine, asked.question.text
    meaning: list[Hit] = []
    words: list[Hit] = []
    for kind in (kind for kind in _OWNED if kind in asked.types):
        where = asked.where(kind)
        limit = _list_limit(asked, kind)
        meaning += by_meaning(engine, asked.vectors, where, limit)
        words += by_words(engine.store, task, where, limit)
    ids = dict.fromkeys(hit.id for hit in (*meaning, *words))
    found = {record.id: record for record in (*engine.store.get(list(ids)), *_standing(asked))}
    records = [record for record in found.values() if _is_shown(asked, record)]
    is_known = engine.knows(task)
    replaced = find_replaced(asked, is_known=is_known)
    records += [one.successor for one in replaced if one.successor.id not in found]
    everything = [*records, *(one.record for one in replaced)]
    shares = share_words(task, everything, is_known=is_known)
    close: dict[str, float | None] = {hit.id: hit.score for hit in meaning}
    close |= find_closeness(engine, [record for record in everything if record.id not in close], asked.vectors)
    pool = {
        record.id: Candidate(record, close.get(record.id), shares[record.id], is_known and engine.knows(record.text))
        for record in records
    }
    for one in replaced:
        held, cosine = pool[one.successor.id], close.get(one.record.id)
        near = max((value for value in (held.cosine, cosine) if value is not None), default=None)
        pool[held.record.id] = replace(held, cosine=near, words=max(held.words, shares[one.record.id]))
    return list(pool.values())


def _list_limit(asked: Asked, kind: MemoryType) -> int:
    """Return how many are looked at: more of the kinds that have look-alikes, which need not be near themselves."""
    if asked.request.task_type and kind in _TYPED:
        return _TYPED_POOL
    return max(3 * asked.top_k, _LEAST_POOL) if kind in FIELDS else max(2 * asked.top_k, _LEAST_LESSONS)


def _is_shown(asked: Asked, record: Record) -> bool:
    wanted = asked.request.task_type
    if wanted and record.kind in _TYPED and plain(record.body.get("task_type") or "") != plain(wanted):
        return False
    return (record.status is not Status.SUPERSEDED or record.valid_to is not None) and not is_old_fix(record)


def _standing(asked: Asked) -> list[Record]:
    """What is shown without having to match: the rules in force and the user's preferences."""
    found: list[Record] = []
    if MemoryType.RULE in asked.types and asked.request.mode is not Mode.PRECISE:
        found += asked.engine.store.scan(asked.where(MemoryType.RULE), _STANDING_RULES)
    if asked.request.user is not None and MemoryType.USER_PREFERENCE in asked.types:
        where = replace(asked.where(MemoryType.USER_PREFERENCE), users={asked.request.user}, agents=None)
        found += asked.engine.store.scan(where, _MAX_STANDING)
    return found


def _rank(asked: Asked, pool: list[Candidate]) -> dict[MemoryType, list[Scored]]:
    ranked: dict[MemoryType, list[Scored]] = {kind: [] for kind in MemoryType}
    passing = [
        (candidate, similar, is_match)
        for candidate, similar in zip(pool, similarity(pool), strict=True)
        if (is_match := _matches(asked, candidate)) or candidate.record.kind in _STANDING
    ]
    expected = _expected(asked, [candidate for candidate, _, is_match in passing if is_match])
    for candidate, similar, is_match in passing:
        ranked[MemoryType(candidate.record.kind)].append(_score(asked, candidate, similar, expected, not is_match))
    for scored in ranked.values():
        # Rounded, so that a second more or less between two memories does not decide. Of equals the newest comes first.
        scored.sort(key=lambda item: item.record.id, reverse=True)
        scored.sort(key=lambda item: -round(item.score, 4))
    return ranked


def _score(
    asked: Asked, candidate: Candidate, similar: float, expected: Mapping[str, float], standing: bool = False
) -> Scored:
    chance = expected.get(candidate.record.id)
    total, factors = score(candidate.record, similar, asked.now, asked.settings, chance)
    why = explain(candidate, total, factors, asked.question.text, standing, chance)
    return Scored(candidate.record, total, why)


def _matches(asked: Asked, candidate: Candidate) -> bool:
    """The gate before everything else: a fresh, proven, beloved memory that is not about the task stays out."""
    record, strictness = candidate.record, asked.manner.strictness
    if record.kind not in _TYPED or (record.kind == MemoryType.ANTI_PATTERN and not record.body["condition"]):
        return TOLD.passes(candidate, strictness)
    return LEARNED.passes(candidate, strictness) and not _is_other_task(asked.question.text, candidate)


def _is_other_task(question: str, candidate: Candidate) -> bool:
    """Return whether a lesson is for another action on what the question names: "Deploy auth", "Why is auth slow?"."""
    body = candidate.record.body
    action = content_words(str(body.get("condition") or body.get("task") or ""), 1)
    asked = stems(question)
    if not action or stem(action[0]) in asked or (candidate.cosine or 0.0) >= _OTHER_TASK:
        return False
    return not asked.isdisjoint(stems(str(body.get("condition") or body.get("task"))))


def _expected(asked: Asked, held: Sequence[Candidate]) -> dict[str, float]:
    """How well the lessons among them will do at the task, by id."""
    if not any(one.record.kind in _LESSONS and one.record.evidence.recent for one in held):
        return {}
    # Loaded here because a process that has no lessons to show does without it.
    from ..predict.ahead import ahead

    found = [(one.record, one.cosine) for one in held]
    return ahead(asked.engine, asked.question.text, asked.vectors, found, asked.now)


def _order_lookalikes(
    asked: Asked, scored: list[Scored], pool: Sequence[Candidate], limit: int | None = None
) -> list[Scored]:
    """Mark each memory that has a newer look-alike, and put the newest of them before it; at most `limit` in all."""
    among = [candidate.record for candidate in pool]
    newest = dict(find_newest(asked.engine, [item.record for item in scored], among, asked.past))
    by_id = {item.record.id: item for item in scored}
    missing = {record.id: record for record in newest.values() if record.id not in by_id}
    if missing:
        is_standing = all(item.explanation.standing for item in scored)
        for candidate, similar in zip(pool, similarity(pool), strict=True):
            if candidate.record.id in missing:
                by_id[candidate.record.id] = _score(asked, candidate, similar, {}, is_standing)
        newest |= find_newest(asked.engine, list(missing.values()), among, asked.past)
    ordered: dict[str, Scored] = {}
    for item in scored:
        ahead = [newest[item.record.id].id] if item.record.id in newest else []
        for id in (*ahead, item.record.id):
            if id not in ordered:
                ordered[id] = replace(by_id[id], newer=newest[id].id if id in newest else "")
    return list(ordered.values())[: asked.top_k if limit is None else limit]


def _put_newest_first(scored: list[Scored]) -> list[Scored]:
    """Order the preferences of each category by date: where two contradict each other, the newer one comes first.

    The places that a category has among the others stay as they are ranked.
    """
    by_category: dict[str, list[Scored]] = {}
    for item in sorted(scored, key=lambda one: (last_stated(one.record), one.record.id)):
        by_category.setdefault(plain(item.record.body["category"]), []).append(item)
    return [by_category[plain(item.record.body["category"])].pop() for item in scored]


def _diverse(scored: list[Scored], top_k: int) -> list[Scored]:
    """The best that differ: one outcome per strategy and result, no second copy of a text."""
    taken: list[Scored] = []
    told: set[tuple[str, str]] = set()
    for item in scored:
        if len(taken) == top_k:
            break
        if item.record.kind == MemoryType.OUTCOME:
            what = (item.record.links[0] if item.record.links else item.record.id, item.record.body["outcome"])
            if what in told:
                continue
            told.add(what)
        elif any(_copies(item.record, other.record) for other in taken):
            continue
        taken.append(item)
    return taken


def _second_hop(asked: Asked, chosen: Mapping[MemoryType, list[Scored]]) -> list[Scored]:
    room = asked.top_k - len(chosen[MemoryType.DOMAIN_KNOWLEDGE])
    if room <= 0 or asked.request.mode is Mode.PRECISE or MemoryType.DOMAIN_KNOWLEDGE not in asked.types:
        return []
    first = [item.record for item in chosen[MemoryType.DOMAIN_KNOWLEDGE]]
    found = []
    for one in linked(asked, first)[:room]:
        candidate = Candidate(one.record, one.cosine, 0.0)
        scored = _score(asked, candidate, similarity([candidate])[0], {})
        found.append(replace(scored, explanation=replace(scored.explanation, reason=one.why)))
    return found


def _copies(a: Record, b: Record) -> bool:
    if not a.vectors or len(a.vectors) != len(b.vectors) or a.embedder != b.embedder:
        return False
    if stems(a.text) != stems(b.text):
        return False
    return all(cosine(own, other) >= _SAME_TEXT for own, other in zip(a.vectors, b.vectors, strict=True))


def _slice(asked: Asked, chosen: dict[MemoryType, list[Scored]], rules: Sequence[Scored]) -> MemorySlice:
    values: dict[str, Any] = {_FIELDS[kind]: [_view(asked, item) for item in items] for kind, items in chosen.items()}
    values["standing_rules"] = [view(item.record, asked.now) for item in rules]
    values["heuristics"] = add_similar(asked, values["heuristics"], chosen[MemoryType.HEURISTIC])
    made = MemorySlice(
        query=asked.request.task,
        agent=asked.request.agent,
        progressive=asked.request.progressive,
        renderer=render_slice,
        **values,
    )
    why = {item.record.id: item.explanation for items in chosen.values() for item in items}
    return replace(made, explanations=tuple(why[memory.id] for memory in made))


def _view(asked: Asked, item: Scored) -> Memory:
    memory = view(item.record, asked.now)
    return replace(memory, newer=item.newer) if item.newer else memory


def _keep(asked: Asked, made: MemorySlice) -> str | None:
    engine, request = asked.engine, asked.request
    shown = [memory.id for memory in (*made, *made.standing_rules)]
    draft = Draft(
        kind="retrieval",
        agent=request.agent,
        user=request.user or "",
        body=clean({"task": shorten(clean(request.task), _NOTE_CHARS), "mode": str(request.mode)}) | {"shown": shown},
        provenance=Provenance(Origin.SYSTEM),
    )
    record = build(engine, draft, (), links=tuple(shown))
    try:
        return commit(engine, lambda: (record.id, [record]), patient=False)
    except BusyError:
        engine.notes.add(record)
        return record.id
    except (ReadOnlyError, StorageFullError) as error:
        # What was found is worth more than the note that it was looked for; the missing id tells the caller.
        _LOG.warning("this retrieval could not be recorded: %s", error)
        return None
