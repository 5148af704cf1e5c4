"""The fields of a work item as a caller passes them: checked, and without secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from ..engine import validate
from ..engine.admit import clean
from ..errors import ValidationError, unknown
from ..types import times
from .types import Status, WorkItem

Checks = Mapping[str, Callable[[str, Any], Any]]

_MAX_TITLE = 500
_PAST: Checks = {
    "started_at": lambda name, value: times.to_iso(validate.moment(name, value)),
    "completed_at": lambda name, value: times.to_iso(validate.moment(name, value)),
    "time_spent_ms": lambda name, value: validate.whole(name, value, 0, 10**15),
    "attempt_count": lambda name, value: validate.whole(name, value, 0, 10**15),
}
PAST = tuple(_PAST)
"""What is stored as it is given when an item is created with a status."""
_SET_BY_STORE = ("created_at", "updated_at", "archived", "waiting_for", "claimed_by", "claimed_until")


def check_flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ValidationError(f"{name} must be True or False, not {value!r}")
    return value


def _check_results(name: str, value: object) -> dict[str, bool]:
    if not isinstance(value, Mapping) or not all(isinstance(passed, bool) for passed in value.values()):
        raise ValidationError(f"{name} must be a mapping from names of tests to True or False, not {value!r}")
    return {validate.name(name, test): passed for test, passed in value.items()}


EDITABLE: Checks = {
    "title": lambda name, value: validate.text(name, value, _MAX_TITLE).strip(),
    "description": lambda name, value: validate.optional_text(name, value) or "",
    "item_type": validate.name,
    "priority": lambda name, value: validate.whole(name, value, 0, 100),
    "tests": lambda name, value: list(validate.names(name, value)),
    "estimate_minutes": lambda name, value: None if value is None else validate.number(name, value, 0.0, 1e7),
    "metadata": lambda _, value: validate.metadata(value),
    "parent_id": lambda name, value: None if value is None else validate.name(name, value),
}
"""What `update_item` changes. Statuses and blockers have consequences and methods of their own."""

_CREATABLE: Checks = {
    **EDITABLE,
    **_PAST,
    "id": lambda name, value: validate.name(name, value) if value else "",
    "status": lambda name, value: validate.choice(name, value, Status),
    "blocks": lambda name, value: list(validate.names(name, value)),
    "blocked_by": lambda name, value: list(validate.names(name, value)),
    "notes": EDITABLE["description"],
    "test_results": _check_results,
    "tests_passing": check_flag,
}


def check_fields(given: Mapping[str, Any], checks: Checks = EDITABLE) -> dict[str, Any]:
    for name in given:
        if name not in checks:
            raise ValidationError(unknown("field of a work item", name, checks))
    return {name: clean(checks[name](name, value)) for name, value in given.items()}


def check_new_item(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked fields of an item to be created; unknown times and counts are left out."""
    checked = check_fields(given, _CREATABLE)
    if "title" not in checked:
        raise ValidationError("a work item needs a title")
    checked = {name: value for name, value in checked.items() if value or name not in PAST}
    results = checked.get("test_results", {})
    if checked.pop("tests_passing", False) and not results:
        results = dict.fromkeys(checked.get("tests", ()), True)
    return checked | join_tests((*checked.get("tests", ()), *results), results)


def join_tests(tests: tuple[str, ...], results: Mapping[str, bool]) -> dict[str, Any]:
    """Return the fields of a body that tell which tests an item has and how they went."""
    known = {test: results[test] for test in tests if test in results}
    passing = bool(tests) and all(known.get(test, False) for test in tests)
    return {"tests": list(dict.fromkeys(tests)), "test_results": known, "tests_passing": passing}


def read_item(item: WorkItem | Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a work item that a caller made, unchecked."""
    if isinstance(item, WorkItem):
        return {part.name: getattr(item, part.name) for part in fields(item) if part.name not in _SET_BY_STORE}
    if not isinstance(item, Mapping):
        raise ValidationError(f"an item must be a WorkItem or a mapping of its fields, not {type(item).__name__}")
    return dict(item)
