"""Four factors. Recency, success and confidence count only as far as a memory is relevant: they tell apart what is
about the task, they never lift what is not."""

from __future__ import annotations

from datetime import datetime

from ...types.record import Record
from ...types.slice import Explanation, Factor
from ..evidence import believe, recency, success
from ..settings import Settings
from ..text import content_words, stem, words
from .fuse import Candidate


def score(record: Record, similar: float, now: datetime, settings: Settings) -> tuple[float, dict[str, Factor]]:
    shares = settings.weights.shares()
    values = {
        "similarity": similar,
        "recency": recency(record, now, settings.recency_half_life_days),
        "success": success(record, now),
        "confidence": believe(record, now).mean,
    }
    total = sum(shares[name] * value * (1.0 if name == "similarity" else similar) for name, value in values.items())
    return total, {name: Factor(value, shares[name]) for name, value in values.items()}


def explain(candidate: Candidate, total: float, factors: dict[str, Factor], query: str, standing: bool) -> Explanation:
    shared = shared_words(query, candidate.record.text)
    return Explanation(
        memory_id=candidate.record.id,
        memory_type=candidate.record.kind,
        score=total,
        factors=factors,
        cosine=candidate.cosine,
        words=candidate.words,
        shared_words=shared,
        reason=_reason(candidate, shared, standing),
    )


def shared_words(query: str, text: str) -> tuple[str, ...]:
    theirs = set(map(stem, words(text)))
    return tuple(word for word in content_words(query) if stem(word) in theirs)


def _reason(candidate: Candidate, shared: tuple[str, ...], standing: bool) -> str:
    found = []
    if standing:
        found.append("a standing preference of the user")
    if candidate.cosine is not None:
        found.append(f"meaning {candidate.cosine:.2f}")
    if shared:
        found.append("shares " + ", ".join(shared[:6]))
    return "; ".join(found) or "found by words"
