"""Four factors. Recency, success and confidence count only as far as a memory is relevant: they tell apart what is
about the task, they never lift what is not."""

from __future__ import annotations

from datetime import datetime

from ...text import content_words, stem, words
from ...types.kinds import MemoryType
from ...types.record import Record
from ...types.slice import Explanation, Factor
from ..evidence import believe, recency, success
from ..settings import Settings
from .fuse import Candidate


def score(
    record: Record, similar: float, now: datetime, settings: Settings, ahead: float | None = None
) -> tuple[float, dict[str, Factor]]:
    """`ahead` is how well a lesson is expected to do at the task; without it its success is how it did so far."""
    shares = settings.weights.shares()
    values = {
        "similarity": similar,
        "recency": recency(record, now, settings.recency_half_life_days),
        "success": success(record, now) if ahead is None else ahead,
        "confidence": believe(record, now).mean,
    }
    total = sum(shares[name] * value * (1.0 if name == "similarity" else similar) for name, value in values.items())
    return total, {name: Factor(value, shares[name]) for name, value in values.items()}


def explain(
    candidate: Candidate,
    total: float,
    factors: dict[str, Factor],
    query: str,
    standing: bool,
    ahead: float | None = None,
) -> Explanation:
    shared = shared_words(query, candidate.record.text)
    return Explanation(
        memory_id=candidate.record.id,
        memory_type=candidate.record.kind,
        score=total,
        factors=factors,
        cosine=candidate.cosine,
        words=candidate.words,
        shared_words=shared,
        reason=_reason(candidate, shared, standing, ahead),
        standing=standing,
    )


def shared_words(query: str, text: str) -> tuple[str, ...]:
    theirs = set(map(stem, words(text)))
    return tuple(word for word in content_words(query) if stem(word) in theirs)


def _reason(candidate: Candidate, shared: tuple[str, ...], standing: bool, ahead: float | None) -> str:
    found = []
    if standing:
        is_rule = candidate.record.kind == MemoryType.RULE
        found.append("a rule in force" if is_rule else "a standing preference of the user")
    if candidate.cosine is not None:
        found.append(f"meaning {candidate.cosine:.2f}")
    if shared:
        found.append("shares " + ", ".join(shared[:6]))
    told = "; ".join(found) or "found by words"
    return told if ahead is None else f"{told}; {_expected(candidate.record, ahead)}"


def _expected(lesson: Record, ahead: float) -> str:
    if lesson.kind == MemoryType.ANTI_PATTERN:
        return f"expected to fail here {ahead:.2f}"
    return f"expected to work here {ahead:.2f}"
