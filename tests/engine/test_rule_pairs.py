"""Rules that say the same, that contradict each other, and that are simply two rules."""

from __future__ import annotations

from typing import Any

import pytest

from alma.engine.rules import contradicts, same_rule
from alma.reading.local_rules import find_choice


def body(rule: str, trigger: str = "") -> dict[str, Any]:
    prefer, avoid = find_choice(rule)
    return {"rule": rule, "trigger": trigger, "prefer": prefer, "avoid": avoid}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Use pnpm instead of npm", "use pnpm instead of npm."),
        ("Use pnpm instead of npm", "Prefer pnpm over npm"),
        ("We use pnpm, not npm", "Use pnpm rather than npm"),
        ("Always run the linter", "Run the linter"),
        ("Never push to main", "Don't push to main"),
    ],
)
def test_the_same_rule(first: str, second: str) -> None:
    assert same_rule(body(first), body(second))
    assert not contradicts(body(first), body(second))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Use pnpm, not npm", "Use npm, not pnpm"),
        ("Use tabs instead of spaces", "Use spaces instead of tabs"),
        ("Never push to main", "Always push to main"),
        ("Don't run the linter", "Run the linter"),
    ],
)
def test_contrary_rules(first: str, second: str) -> None:
    assert contradicts(body(first), body(second))
    assert contradicts(body(second), body(first))
    assert not same_rule(body(first), body(second))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Use pnpm instead of npm", "Use yarn instead of npm"),
        ("Never push to main", "Never push to main without a review"),
        ("Use sentence case for headings", "Use title case for headings"),
        ("Run the tests", "Run the tests before you commit"),
        ("Use `npm test --run`, not `npm test`", "Use npm test"),
    ],
)
def test_in_doubt_they_are_two_rules(first: str, second: str) -> None:
    assert not same_rule(body(first), body(second))
    assert not contradicts(body(first), body(second))


def test_rules_for_different_occasions_are_two_rules() -> None:
    first, second = body("Use tabs, not spaces", "editing Makefiles"), body("Use spaces, not tabs", "writing Python")
    assert not contradicts(first, second)
    assert not same_rule(first, body("Use tabs, not spaces", "writing Python"))
