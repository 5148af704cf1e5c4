from __future__ import annotations

import pytest

from benchmarks import _tool_failures


def row(kind: str, lesson: str | None = None) -> dict[str, str | None]:
    return {
        "id": kind,
        "kind": kind,
        "cmd_fail": "docker-compose up",
        "cmd_ok": "docker compose up",
        "lesson": lesson,
    }


def test_only_a_lesson_that_is_wanted_counts() -> None:
    wanted, code, alarm = row("lesson", "use docker compose"), row("code_fix"), row("false_alarm")
    found = _tool_failures.score([(wanted, "use docker compose"), (code, "use docker compose"), (alarm, None)])
    assert found["precision"] == 0.5
    assert found["recall"] == 1
    assert found["F1"] == pytest.approx(2 / 3)
    assert found["alike"] == 1
    assert found["failed"] == ["code_fix code_fix: use docker compose"]


def test_saying_nothing_is_no_success() -> None:
    found = _tool_failures.score([(row("lesson", "use docker compose"), None)])
    assert found["F1"] == 0
    assert found["named"] is None


def test_a_rule_must_name_what_changed() -> None:
    assert _tool_failures.score([(row("lesson", "x"), "there is no docker-compose")])["named"] == 1
    assert _tool_failures.score([(row("lesson", "x"), "try again")])["named"] == 0
