"""Whatever comes in: a clear error, nothing half-written, and the memory stays usable."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alma import ALMA
from alma.engine.context import Settings, Weights
from alma.errors import ALMAError, ValidationError

Call = Callable[[ALMA], Any]
GOOD = {"agent": "dev", "task": "Deploy", "outcome": "success", "strategy_used": "Canary"}


def learn(**changes: Any) -> Call:
    return lambda alma: alma.learn(**{**GOOD, **changes})


CASES: list[tuple[str, Call, str]] = [
    ("empty task", learn(task=""), "task is empty"),
    ("blank strategy", learn(strategy_used=" \n"), "strategy_used is empty"),
    ("huge text", learn(task="x" * 1_000_000), "1,000,000 characters.*100,000"),
    ("huge error", learn(error_message="x" * 1_000_000), "error_message has"),
    ("control character", learn(task="a\x00b"), r"control character '\\x00' at position 1"),
    ("lone surrogate", learn(task="a\udc80b"), "lone surrogate at position 1"),
    ("bytes", learn(task=b"\xff"), "bytes; decode"),
    ("a number", learn(task=7), r"must be a string, not a number \(7\)"),
    ("unknown outcome", learn(outcome="sucess"), "unknown outcome 'sucess'.*'success'.*partial"),
    ("outcome None", learn(outcome=None), "missing argument 'outcome': the result. Valid: success, partial, failure"),
    ("negative duration", learn(duration_ms=-1), "duration_ms"),
    ("duration is text", learn(duration_ms="7"), "duration_ms"),
    ("empty agent", learn(agent=""), "agent is empty"),
    ("long agent", learn(agent="a" * 300), "agent has 300"),
    ("tags as one text", learn(tags="prod"), "list of names"),
    ("metadata not JSON", learn(metadata={"a": object()}), "only JSON values"),
    ("metadata NaN", learn(metadata={"a": math.nan}), "only JSON values"),
    ("metadata huge", learn(metadata={"a": "x" * 70_000}), "at most 65,536"),
    ("metadata a list", learn(metadata=[1]), "must be a JSON object"),
    ("negative top_k", lambda alma: alma.retrieve("x", "dev", top_k=-1), "top_k must be a whole number from 1"),
    ("top_k zero", lambda alma: alma.retrieve("x", "dev", top_k=0), "top_k"),
    ("top_k true", lambda alma: alma.retrieve("x", "dev", top_k=True), "top_k"),
    ("top_k huge", lambda alma: alma.retrieve("x", "dev", top_k=10**9), "top_k"),
    ("empty query", lambda alma: alma.retrieve("", "dev"), "task is empty"),
    ("prompt of nothing", lambda alma: alma.retrieve("x", "dev").to_prompt(max_tokens=0), "max_tokens"),
    ("unknown type", lambda alma: alma.list("heuristics"), "unknown type 'heuristics'. Did you mean 'heuristic'"),
    ("unknown status", lambda alma: alma.list(status="gone"), "unknown status.*archived"),
    ("unknown argument", lambda alma: alma.learn_many([{**GOOD, "taks": "x"}]), "unknown argument 'taks' of learn"),
    ("add an outcome", lambda alma: alma.add_many([{"type": "outcome"}]), "learn_many"),
    ("add without fact", lambda alma: alma.add_many([{"type": "domain_knowledge", "agent": "d"}]), "domain"),
    ("add no mapping", lambda alma: alma.add_many(["x"]), "mapping"),
    ("endless age", lambda alma: alma.forget(older_than_days=10**400), "older_than_days must be a finite number"),
    ("NaN age", lambda alma: alma.forget(older_than_days=math.nan), "older_than_days must be a finite number"),
    ("negative age", lambda alma: alma.forget(older_than_days=-1), "older_than_days must be at least 0, not -1"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_it_is_refused_and_the_memory_stays_usable(alma: ALMA, call: Call, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        call(alma)
    assert alma.get_stats()["total_count"] == 0
    alma.learn(**GOOD)
    assert alma.get_stats()["total_count"] == 1


def test_one_bad_row_refuses_the_whole_batch(alma: ALMA) -> None:
    with pytest.raises(ValidationError):
        alma.learn_many([GOOD, {**GOOD, "outcome": "maybe"}])
    assert alma.get_stats()["total_count"] == 0


@pytest.mark.parametrize("weight", [math.nan, math.inf, -0.1, "0.5", True])
def test_weights_must_be_finite_and_not_negative(weight: Any) -> None:
    with pytest.raises(ValidationError, match="recency"):
        Weights(recency=weight)


def test_some_weight_must_count() -> None:
    with pytest.raises(ValidationError, match="at least one"):
        Weights(0, 0, 0, 0)


def test_settings_must_make_sense() -> None:
    with pytest.raises(ValidationError, match="min_occurrences"):
        Settings(min_occurrences_for_heuristic=0)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(task=st.text(max_size=300), strategy=st.text(max_size=300), error=st.text(max_size=300))
def test_any_text_is_kept_or_refused_with_an_alma_error(alma: ALMA, task: str, strategy: str, error: str) -> None:
    try:
        made = alma.learn("dev", task, "failure", strategy, error_message=error)
    except ALMAError:
        return
    assert alma.get(made.id) == made
    found = alma.retrieve(task, "dev")
    found.to_prompt()
    found.explain()
