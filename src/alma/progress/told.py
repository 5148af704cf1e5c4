"""What a caller says of a work item, checked and freed of secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from ..engine import validate
from ..engine.admit import clean
from ..errors import ValidationError, unknown
from ..types import times
from .types import Status, WorkItem

MAX_TITLE = 500
_MAX_MINUTES = 10_000_000.0
_MAX_COUNT = 10**15


def _text(name: str, value: object) -> str:
    return validate.optional_text(name, value) or ""


def _title(name: str, value: object) -> str:
    return validate.text(name, value, MAX_TITLE).strip()


def _minutes(name: str, value: object) -> float | None:
    return None if value is None else validate.number(name, value, 0.0, _MAX_MINUTES)


def _names(name: str, value: Any) -> list[str]:
    return list(validate.names(name, value))


def _parent(name: str, value: object) -> str | None:
    return None if value is None else validate.name(name, value)


def _moment(name: str, value: object) -> str | None:
    return times.to_iso(validate.moment(name, value))


def _results(name: str, value: object) -> dict[str, bool]:
    if not isinstance(value, Mapping) or not all(isinstance(passed, bool) for passed in value.values()):
        raise ValidationError(f"{name} must be a mapping from names of tests to True or False, not {value!r}")
    return {validate.name(name, test): passed for test, passed in value.items()}


def _count(name: str, value: object) -> int:
    return validate.whole(name, value, 0, _MAX_COUNT)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ValidationError(f"{name} must be True or False, not {value!r}")
    return value


EDITABLE: Mapping[str, Callable[[str, Any], Any]] = {
    "title": _title,
    "description": _text,
    "item_type": validate.name,
    "priority": lambda name, value: validate.whole(name, value, 0, 100),
    "tests": _names,
    "estimate_minutes": _minutes,
    "metadata": lambda _, value: validate.metadata(value),
    "parent_id": _parent,
}
"""What `update_item` changes. Statuses and blockers have consequences and methods of their own."""

_CREATABLE: Mapping[str, Callable[[str, Any], Any]] = {
    **EDITABLE,
    "id": lambda name, value: validate.name(name, value) if value else "",
    "status": lambda name, value: validate.choice(name, value, Status),
    "blocks": _names,
    "blocked_by": _names,
    "notes": _text,
    "test_results": _results,
    "tests_passing": _flag,
    "started_at": _moment,
    "completed_at": _moment,
    "time_spent_ms": _count,
    "attempt_count": _count,
}
_OF_THE_STORE = ("created_at", "updated_at", "archived", "waiting_for", "claimed_by", "claimed_until", "project_id")


def checked(given: Mapping[str, Any], checks: Mapping[str, Callable[[str, Any], Any]]) -> dict[str, Any]:
    for name in given:
        if name not in checks:
            raise ValidationError(unknown("field of a work item", name, checks))
    return {name: clean(checks[name](name, value)) for name, value in given.items()}


def creatable(given: Mapping[str, Any]) -> dict[str, Any]:
    told = checked(given, _CREATABLE)
    if "title" not in told:
        raise ValidationError("a work item needs a title")
    # A moment or a count that is not known is left to be found out.
    told = {name: value for name, value in told.items() if value or name not in _LEFT_OUT}
    results = told.get("test_results", {})
    if told.pop("tests_passing", False) and not results:
        results = dict.fromkeys(told.get("tests", ()), True)
    tests = list(dict.fromkeys((*told.get("tests", ()), *results)))
    return told | tested(tests, results)


_LEFT_OUT = ("started_at", "completed_at", "time_spent_ms", "attempt_count")


def tested(tests: list[str], results: Mapping[str, bool]) -> dict[str, Any]:
    known = {test: results[test] for test in tests if test in results}
    passing = bool(tests) and all(known.get(test, False) for test in tests)
    return {"tests": tests, "test_results": known, "tests_passing": passing}


def of_item(item: WorkItem) -> dict[str, Any]:
    """The fields of a work item that somebody made by hand, to be created."""
    return {part.name: getattr(item, part.name) for part in fields(item) if part.name not in _OF_THE_STORE}
