from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma.engine.evidence import believe, choose_lesson, memory_strength, success_rate
from alma.types import Evidence, MemoryType, Origin, Provenance, Record, Trust
from alma.types.record import NONE

NOW = datetime(2026, 3, 1, tzinfo=UTC)
S, P, F = 1.0, 0.5, 0.0


def seen(*values: float, at: datetime = NOW) -> Evidence:
    evidence = Evidence()
    for value in values:
        evidence = evidence.with_result(value, at)
    return evidence


def record(kind: str = "heuristic", evidence: Evidence = NONE, **more: object) -> Record:
    made = {"id": "x", "kind": kind, "project": "p", "created_at": NOW, "updated_at": NOW, "evidence": evidence}
    return Record(**(made | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((), None),
        ((S, S), None),
        ((S, S, S), MemoryType.HEURISTIC),
        ((S, S, F), MemoryType.HEURISTIC),
        ((F, F, S), MemoryType.ANTI_PATTERN),
        ((P, P, P), None),
        ((F,), None),
        ((F, F), MemoryType.ANTI_PATTERN),
        ((S, F, F), MemoryType.ANTI_PATTERN),
        ((S, S, S, F, F), MemoryType.HEURISTIC),
        ((S, S, S, F, F, F), None),
        ((S, S, S, F, F, F, F), MemoryType.ANTI_PATTERN),
        ((F, F, S, S), None),
        ((F, F, S, S, S), MemoryType.HEURISTIC),
        ((S,) * 200 + (F,) * 12, MemoryType.ANTI_PATTERN),
    ],
)
def test_what_results_say(values: tuple[float, ...], expected: MemoryType | None) -> None:
    assert choose_lesson(seen(*values), NOW, 3, 2) is expected


def test_counts_are_exact_however_long_the_history() -> None:
    evidence = seen(*([S] * 100), *([P] * 7), *([F] * 50))
    assert (evidence.successes, evidence.partials, evidence.failures, evidence.results) == (100, 7, 50, 157)
    assert len(evidence.recent) == 32


def test_older_results_weigh_less() -> None:
    old = seen(F, F, at=NOW - timedelta(days=720))
    mixed = Evidence(successes=2, failures=2, recent=(*old.recent, *seen(S, S).recent))
    assert (success_rate(mixed, NOW) or 0) > 0.9


@given(st.lists(st.sampled_from([S, P, F]), max_size=60))
def test_belief_lies_in_its_interval_and_grows_with_success(values: list[float]) -> None:
    before = believe(record(evidence=seen(*values)), NOW)
    after = believe(record(evidence=seen(*values, S)), NOW)
    assert 0 <= before.low <= before.mean <= before.high <= 1
    assert after.mean > before.mean


@given(st.lists(st.sampled_from([S, P, F]), max_size=40))
def test_a_warning_is_believed_as_its_strategy_is_not(values: list[float]) -> None:
    evidence = seen(*values)
    for_it, against = believe(record(evidence=evidence), NOW), believe(record("anti_pattern", evidence), NOW)
    assert for_it.mean == pytest.approx(1 - against.mean)


@given(
    st.builds(Evidence, ups=st.integers(0, 9), downs=st.integers(0, 9), uses=st.integers(0, 9), skips=st.integers(0, 9))
)
def test_evidence_survives_json(evidence: Evidence) -> None:
    assert Evidence.from_json(evidence.to_json()) == evidence


def test_thumbs_move_a_fact() -> None:
    plain = believe(record("domain_knowledge"), NOW).mean
    assert believe(record("domain_knowledge", Evidence(ups=2)), NOW).mean > plain
    assert believe(record("domain_knowledge", Evidence(downs=2)), NOW).mean < plain
    assert believe(record("domain_knowledge", Evidence(skips=5)), NOW).mean < plain


def test_untrusted_content_is_believed_less() -> None:
    doubted = Provenance(Origin.TOOL, Trust.UNTRUSTED)
    assert believe(record("domain_knowledge", provenance=doubted), NOW).mean < 0.5


def test_what_nobody_uses_fades_and_what_is_used_does_not() -> None:
    later = NOW + timedelta(days=120)
    idle = memory_strength(record("outcome"), later, {})
    used = memory_strength(record("outcome", Evidence(uses=1, last_used=later)), later, {})
    assert idle < memory_strength(record("outcome"), NOW, {}) / 3
    assert used > 2 * idle
