"""Arguments: what fits is taken, and what does not is named with what would be right."""

from __future__ import annotations

from typing import Any

import pytest

from alma.api import operations
from alma.api.checking import checked
from alma.errors import ValidationError

LEARN = {"agent": "dev", "task": "t", "outcome": "success", "strategy_used": "s"}


def refused(name: str, arguments: dict[str, Any], **defaults: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        checked(operations()[name], arguments, defaults)
    return str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({**LEARN, "outcome": "banana"}, "unknown outcome 'banana'. Valid: success, partial, failure."),
        ({**LEARN, "stratgy": "x"}, "Did you mean 'strategy_used'?"),
        ({**LEARN, "task": 5}, "task must be a string, not 5"),
        ({**LEARN, "duration_ms": "5"}, "duration_ms must be a whole number or null, not '5'"),
        ({**LEARN, "duration_ms": 5.5}, "not 5.5"),
        ({**LEARN, "duration_ms": True}, "not True"),
        ({**LEARN, "tags": ["a", 1]}, "tags[1] must be a string, not 1"),
        ({**LEARN, "tags": "a"}, "tags must be a list or null"),
        ({**LEARN, "metadata": []}, "metadata must be an object or null"),
        (
            {"agent": "dev", "task": "t", "strategy_used": "s"},
            "missing argument 'outcome': how it went. Valid: success",
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
    assert refused("health", {"x": 1}) == "unknown argument 'x'. There are none."


def test_values_of_objects_are_looked_at() -> None:
    ended = {"agent": "dev", "session_id": "s"}
    assert "test_status['login'] must be true or false" in refused(
        "end_session", {**ended, "test_status": {"login": "yes"}}
    )
    assert "unknown types 'x'" in refused("retrieve", {"task": "t", "agent": "a", "types": ["rule", "x"]})


def test_what_fits_by_any_reading_is_taken() -> None:
    taken = checked(operations()["forget"], {"older_than_days": 5, "agent": None, "dry_run": None})
    assert taken == {"older_than_days": 5.0, "agent": None}
    assert isinstance(taken["older_than_days"], float)
    assert checked(operations()["learn"], {**LEARN, "duration_ms": 5.0})["duration_ms"] == 5
    assert checked(operations()["list"], {"status": None}) == {"status": None}


def test_a_default_fills_what_is_needed_and_only_that() -> None:
    rest = {name: value for name, value in LEARN.items() if name != "agent"}
    assert checked(operations()["learn"], rest, {"agent": "ops"})["agent"] == "ops"
    assert checked(operations()["learn"], {**rest, "agent": None}, {"agent": "ops"})["agent"] == "ops"
    assert checked(operations()["learn"], LEARN, {"agent": "ops"})["agent"] == "dev"
    assert checked(operations()["list"], {}, {"agent": "ops"}) == {}
