"""Arguments: what fits is taken, and what does not is named with what would be right."""

from __future__ import annotations

from typing import Any

import pytest

from alma.errors import ValidationError
from alma.operations import operations

LEARN = {"agent": "dev", "task": "t", "outcome": "success", "strategy_used": "s"}


def refused(name: str, arguments: dict[str, Any], **defaults: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        operations()[name].check(arguments, defaults)
    return str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({**LEARN, "outcome": "banana"}, "unknown outcome 'banana'. Valid: success, partial, failure."),
        ({**LEARN, "stratgy": "x"}, "Did you mean 'strategy_used'?"),
        ({**LEARN, "task": 5}, "task must be a string, not a number (5)"),
        ({**LEARN, "duration_ms": "5"}, "duration_ms must be a whole number from 0 to 1,000,000,000,000,000, not '5'"),
        ({**LEARN, "duration_ms": 5.5}, "not 5.5"),
        ({**LEARN, "duration_ms": True}, "not True"),
        ({**LEARN, "tags": ["a", 1]}, "tags[1] must be a string, not a number (1)"),
        ({**LEARN, "tags": "a"}, "tags must be a list of names, not 'a'"),
        ({**LEARN, "metadata": []}, "metadata must be a JSON object, not a list"),
        (
            {"agent": "dev", "task": "t", "strategy_used": "s"},
            "missing argument 'outcome': the result. Valid: success",
        ),
        ({**LEARN, "agent": None}, "missing argument 'agent'"),
    ],
)
def test_what_is_wrong_is_named(arguments: dict[str, Any], told: str) -> None:
    assert told in refused("learn", arguments)


def test_all_that_is_missing_is_named_at_once() -> None:
    told = refused("learn", {"banana": 1})
    assert all(name in told for name in ("banana", *LEARN))


def test_a_long_value_is_not_thrown_back_whole() -> None:
    assert len(refused("learn", {**LEARN, "tags": "x" * 5000})) < 200


def test_no_arguments_at_all() -> None:
    assert refused("health", {"x": 1}) == "unknown argument 'x'. It takes no arguments."


def test_values_of_objects_are_looked_at() -> None:
    ended = {"agent": "dev", "session_id": "s"}
    assert "test_status['login'] must be true or false" in refused(
        "end_session", {**ended, "test_status": {"login": "yes"}}
    )
    assert "unknown type 'x'" in refused("retrieve", {"task": "t", "agent": "a", "types": ["rule", "x"]})


def test_what_fits_by_any_reading_is_taken() -> None:
    taken = operations()["forget"].check({"older_than_days": 5, "agent": None, "dry_run": None})
    assert taken == {"older_than_days": 5.0, "agent": None}
    assert isinstance(taken["older_than_days"], float)
    assert operations()["learn"].check({**LEARN, "duration_ms": 5.0})["duration_ms"] == 5
    assert operations()["list"].check({"status": None}) == {"status": None}


def test_a_default_fills_what_is_needed_and_only_that() -> None:
    rest = {name: value for name, value in LEARN.items() if name != "agent"}
    assert operations()["learn"].check(rest, {"agent": "ops"})["agent"] == "ops"
    assert operations()["learn"].check({**rest, "agent": None}, {"agent": "ops"})["agent"] == "ops"
    assert operations()["learn"].check(LEARN, {"agent": "ops"})["agent"] == "dev"
    assert operations()["list"].check({}, {"agent": "ops"}) == {}
