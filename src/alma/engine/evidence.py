"""Scores, as pure functions of (evidence, now).

Results are weighted by order and by age: each later result takes a little from the weight of those before it, so that
a strategy which stopped working shows it after a handful of failures, however long it used to work.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime

from ..types.kinds import MEMORY_KINDS, MemoryType, Result
from ..types.query import plain
from ..types.record import Belief, Evidence, Origin, Record, Trust

_BY_ORDER = 0.93
_HALF_LIFE_DAYS = 180.0
_DAY = 86_400.0

WORKS = 0.55  # The weighted success rate from which a strategy is recommended.
FAILS = 0.40  # The rate up to which it is warned of. Between the two the evidence is mixed, and nothing is claimed.


def weigh_results(evidence: Evidence, now: datetime) -> tuple[float, float]:
    """Weighted successes and failures."""
    good = bad = 0.0
    weight = 1.0
    moment = now.timestamp()
    for at, value in reversed(evidence.recent):
        aged = weight * 0.5 ** (max(0.0, moment - at) / _DAY / _HALF_LIFE_DAYS)
        good += aged * value
        bad += aged * (1.0 - value)
        weight *= _BY_ORDER
    return good, bad


def success_rate(evidence: Evidence, now: datetime) -> float | None:
    """Return the weighted success rate; None without recent results."""
    if not evidence.recent:
        return None
    good, bad = weigh_results(evidence, now)
    return good / (good + bad) if good + bad > 1e-9 else None


def choose_lesson(evidence: Evidence, now: datetime, min_results: int, min_failures: int) -> MemoryType | None:
    """Return the kind of lesson that results teach of a strategy; None: none yet. Never both: one rate decides."""
    current = success_rate(evidence, now)
    if current is not None and evidence.results >= min_results and current >= WORKS:
        return MemoryType.HEURISTIC
    if current is not None and evidence.failures >= min_failures and current <= FAILS:
        return MemoryType.ANTI_PATTERN
    return None


# What an unproven record is worth: (for, against), as if so many judgements had been made already.
_PRIOR = {Trust.TRUSTED: (3.4, 0.6), Trust.LEARNED: (1.0, 1.0), Trust.UNTRUSTED: (1.0, 2.0)}
_STATED_PRIOR = (3.0, 1.0)


def weigh_feedback(evidence: Evidence) -> tuple[float, float]:
    """Return the weight of the feedback for a record and against it."""
    return evidence.ups + 0.3 * evidence.uses, evidence.downs + 0.15 * evidence.skips


def believe(record: Record, now: datetime) -> Belief:
    """Return the confidence that the record should be followed."""
    pro, con = weigh_feedback(record.evidence)
    if record.kind in (MemoryType.HEURISTIC, MemoryType.ANTI_PATTERN, "strategy"):
        good, bad = weigh_results(record.evidence, now)
        if record.kind == MemoryType.ANTI_PATTERN:
            good, bad = bad, good
        is_stated = record.provenance.origin is Origin.USER
        prior = _STATED_PRIOR if is_stated else (1.0, 1.0)
        yes, no = prior[0] + good + 0.5 * pro, prior[1] + bad + 0.5 * con
    else:
        prior = _PRIOR[record.provenance.trust]
        yes, no = prior[0] + pro, prior[1] + con
    mean = yes / (yes + no)
    spread = 1.645 * math.sqrt(mean * (1.0 - mean) / (yes + no + 1.0))
    return Belief(mean, max(0.0, mean - spread), min(1.0, mean + spread))


def success_factor(record: Record, now: datetime) -> float:
    """Return the success factor of the ranking: how well it went when this was followed (for a warning: how badly).

    A fact or preference has no results; being used and praised, or passed over and blamed, stands for them.
    """
    if record.kind == MemoryType.OUTCOME:
        return Result(record.body["outcome"]).value_of
    # That a rule was not followed speaks against who should have, not against the rule.
    current = None if record.kind == MemoryType.RULE else success_rate(record.evidence, now)
    if current is None:
        evidence = record.evidence
        good, bad = evidence.ups + 0.5 * evidence.uses, evidence.downs + 0.25 * evidence.skips
        return (1.0 + good) / (2.0 + good + bad)
    return 1.0 - current if record.kind == MemoryType.ANTI_PATTERN else current


def age_days(record: Record, now: datetime) -> float:
    """Return for how many days nobody has changed or used a record."""
    used = record.evidence.last_used
    touched = record.updated_at if used is None else max(record.updated_at, used)
    return max(0.0, (now - touched).total_seconds() / _DAY)


def fade_share(days: float, half_life_days: float) -> float:
    """Return the share that remains after so many days: half after each half-life."""
    return float(0.5 ** (days / half_life_days))


# Episodes fade first, what was distilled from them later, what a person said last.
_RETENTION_DAYS = {
    MemoryType.OUTCOME: 60.0,
    MemoryType.HEURISTIC: 180.0,
    MemoryType.ANTI_PATTERN: 180.0,
    MemoryType.DOMAIN_KNOWLEDGE: 365.0,
    MemoryType.USER_PREFERENCE: 3650.0,
    MemoryType.RULE: 730.0,
}


def memory_strength(record: Record, now: datetime, half_life_days: Mapping[str, float]) -> float:
    """Return the confidence in a memory, reduced by the time since it was last used or confirmed.

    `half_life_days` overrides the half-life of a kind, or of a domain, category or task type, which comes first.
    """
    days = {plain(str(name)): value for name, value in half_life_days.items()}
    names = [plain(record.body.get(name) or "") for name in ("domain", "category", "task_type")]
    half_life = next((days[name] for name in names if name in days and name not in MEMORY_KINDS), None)
    half_life = half_life or days.get(record.kind) or _RETENTION_DAYS.get(MemoryType(record.kind), 365.0)
    return believe(record, now).mean * fade_share(age_days(record, now), half_life)
