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
from ...types.kinds import MemoryType, last_stated
from ...types.query import Hit
from ...types.record import Origin, Provenance, Record, Status
from ...types.scope import plain
from ...types.slice import Explanation, MemorySlice
from ...types.vector import Vector, cosine
from ..admit import build, clean, commit, marker, mismatch
from ..context import Engine
from ..drafts import Draft
from ..rules import is_old_fix
from ..search import by_meaning, by_words, closeness
from ..text import coverage, shorten, stems
from ..view import view
from .fuse import Candidate, relevant, similarity
from .hop import linked
from .recall import recall
from .request import MANNERS, Asked, Mode, Request
from .score import explain, score

_LOG = logging.getLogger("alma")
_OWNED = (
    MemoryType.HEURISTIC,
    MemoryType.ANTI_PATTERN,
    MemoryType.DOMAIN_KNOWLEDGE,
    MemoryType.OUTCOME,
    MemoryType.RULE,
)
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
_NOTE_CHARS = 500


@dataclass(frozen=True, slots=True)
class Scored:
    record: Record
    score: float
    explanation: Explanation


def retrieve(engine: Engine, request: Request) -> MemorySlice:
    began = time.perf_counter()
    asked = look(engine, request)
    ranked = _rank(asked, _pool(asked))
    chosen = {kind: _diverse(ranked[kind], asked.top_k) for kind in _OWNED}
    chosen[MemoryType.DOMAIN_KNOWLEDGE] += _second_hop(asked, chosen)
    preferences = _put_newest_first(ranked[MemoryType.USER_PREFERENCE])
    chosen[MemoryType.USER_PREFERENCE] = preferences[: engine.settings.max_preferences]
    made = _slice(asked, chosen)
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
    limit = max(2 * asked.top_k, 12)
    meaning: list[Hit] = []
    words: list[Hit] = []
    for kind in (kind for kind in _OWNED if kind in asked.types):
        where = asked.where(kind)
        meaning += by_meaning(engine, asked.vectors, where, limit)
        words += by_words(engine.store, task, where, limit)
    ids = dict.fromkeys(hit.id for hit in (*meaning, *words))
    records = [*engine.store.get(list(ids)), *_standing(asked)]
    close = {hit.id: hit.score for hit in meaning}
    said = word_scores(task, words, {record.id: record for record in records})
    return [
        Candidate(record, _closeness(asked, record, close), said.get(record.id, 0.0))
        for record in {record.id: record for record in records}.values()
        if (record.status is not Status.SUPERSEDED or record.valid_to is not None) and not is_old_fix(record)
    ]


def _closeness(asked: Asked, record: Record, known: dict[str, float]) -> float | None:
    return known[record.id] if record.id in known else closeness(asked.engine, record, asked.vectors)


def _standing(asked: Asked) -> list[Record]:
    """The user's preferences stand whether or not the task is about them: dinner shares no word with 'vegetarian'."""
    if asked.request.user is None or MemoryType.USER_PREFERENCE not in asked.types:
        return []
    where = replace(asked.where(MemoryType.USER_PREFERENCE), users={asked.request.user}, agents=None)
    return list(asked.engine.store.scan(where, _MAX_STANDING))


def word_scores(task: str, hits: Sequence[Hit], records: dict[str, Record]) -> dict[str, float]:
    """Word scores are only comparable within one answer; the best one is anchored to how much of the query it says."""
    found = [hit for hit in hits if hit.id in records]
    if not found:
        return {}
    best = max(found, key=lambda hit: hit.score)
    anchor = coverage(stems(task), stems(records[best.id].text))
    return {hit.id: anchor * max(0.0, hit.score / best.score) if best.score > 0 else 0.0 for hit in found}


def _rank(asked: Asked, pool: list[Candidate]) -> dict[MemoryType, list[Scored]]:
    ranked: dict[MemoryType, list[Scored]] = {kind: [] for kind in MemoryType}
    settings = asked.settings
    held = [
        (candidate, similar)
        for candidate, similar in zip(pool, similarity(pool), strict=True)
        if _stands(candidate.record) or relevant(candidate, asked.manner.strictness)
    ]
    expected = _expected(asked, [candidate for candidate, _ in held])
    for candidate, similar in held:
        record, chance = candidate.record, expected.get(candidate.record.id)
        total, factors = score(record, similar, asked.now, settings, chance)
        why = explain(candidate, total, factors, asked.question.text, _stands(record), chance)
        ranked[MemoryType(record.kind)].append(Scored(record, total, why))
    for scored in ranked.values():
        # Rounded, so that a second more or less between two memories does not decide.
        scored.sort(key=lambda item: (-round(item.score, 4), item.record.id))
    return ranked


def _expected(asked: Asked, held: Sequence[Candidate]) -> dict[str, float]:
    """How well the lessons among them will do at the task, by id."""
    if not any(one.record.kind in _LESSONS and one.record.evidence.recent for one in held):
        return {}
    # Loaded here because a process that has no lessons to show does without it.
    from ..predict.ahead import ahead

    found = [(one.record, one.cosine) for one in held]
    return ahead(asked.engine, asked.question.text, asked.vectors, found, asked.now)


def _stands(record: Record) -> bool:
    return record.kind == MemoryType.USER_PREFERENCE


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
        [similar] = similarity([candidate])
        total, factors = score(one.record, similar, asked.now, asked.settings)
        why = explain(candidate, total, factors, asked.question.text, standing=False)
        found.append(Scored(one.record, total, replace(why, reason=one.why)))
    return found


def _copies(a: Record, b: Record) -> bool:
    if not a.vectors or len(a.vectors) != len(b.vectors) or a.embedder != b.embedder:
        return False
    if stems(a.text) != stems(b.text):
        return False
    return all(cosine(own, other) >= _SAME_TEXT for own, other in zip(a.vectors, b.vectors, strict=True))


def _slice(asked: Asked, chosen: dict[MemoryType, list[Scored]]) -> MemorySlice:
    values: dict[str, Any] = {
        _FIELDS[kind]: [view(item.record, asked.now) for item in items] for kind, items in chosen.items()
    }
    made = MemorySlice(
        query=asked.request.task,
        agent=asked.request.agent,
        progressive=asked.request.progressive,
        renderer=_render,
        **values,
    )
    why = {item.record.id: item.explanation for items in chosen.values() for item in items}
    return replace(made, explanations=tuple(why[memory.id] for memory in made))


def _render(made: MemorySlice, max_tokens: int) -> str:
    # Loaded when a prompt is wanted: its patterns take longer to compile than a small retrieval takes.
    from ..inject.prompt import render

    return render(made, max_tokens)


def _keep(asked: Asked, made: MemorySlice) -> str | None:
    engine, request = asked.engine, asked.request
    shown = [memory.id for memory in made]
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
