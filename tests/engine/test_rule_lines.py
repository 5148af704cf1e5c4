"""How a rule reads: as a person would write it in CLAUDE.md."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma.engine.rule_lines import LINE_CHARS, describe_occasion, format_line


@pytest.mark.parametrize(
    ("trigger", "occasion"),
    [
        ("installing packages", "When installing packages"),
        ("committing", "When committing"),
        ("using npm", "When using npm"),
        ("before a release", "Before a release"),
        ("in Go files", "In Go files"),
        ("TypeScript files", "For TypeScript files"),
        (".ts files", "For .ts files"),
        ("you commit", "When you commit"),
        ("the tests fail", "When the tests fail"),
        ("the payment service", "For the payment service"),
        ("提交代码时", "提交代码时"),
    ],
)
def test_an_occasion_is_a_phrase_in_front_of_the_rule(trigger: str, occasion: str) -> None:
    assert describe_occasion(trigger, "Ask me first") == occasion
    assert describe_occasion(occasion, "Ask me first") == occasion


@pytest.mark.parametrize(
    "trigger",
    [
        "",
        "...",
        "using",
        "when using",
        "npm test without",
        "running `npm",
        "a test fails (on CI",
        "you push. Then wait",
        "why is this so?",
        "installing packages " * 10,
    ],
)
def test_one_that_does_not_read_well_is_left_out(trigger: str) -> None:
    assert describe_occasion(trigger, "Ask me first") == ""


@pytest.mark.parametrize(
    ("trigger", "rule"),
    [
        ("committing", "Run make lint before you commit"),
        ("running npm test", "Pass --run to `npm test`"),
        ("using npm", "Use pnpm instead of npm"),
        ("adding emojis to headings", "Don't add emojis to headings"),
    ],
)
def test_what_the_rule_says_itself_is_not_said_twice(trigger: str, rule: str) -> None:
    assert format_line({"trigger": trigger, "rule": rule, "why": ""}) == rule


def test_a_line_has_the_occasion_the_rule_and_the_reason() -> None:
    body = {"trigger": "committing", "rule": "Run make check", "why": "CI is slow"}
    assert format_line(body) == "**When committing:** Run make check *Why:* CI is slow"
    body = {"trigger": "", "rule": "Use pnpm, npm breaks the lock file", "why": "npm breaks"}
    assert format_line(body) == "Use pnpm, npm breaks the lock file"


@given(st.text(max_size=300), st.text(min_size=1, max_size=700), st.text(max_size=300))
def test_whatever_the_words_it_is_one_short_line(trigger: str, rule: str, why: str) -> None:
    text = format_line({"trigger": trigger, "rule": rule, "why": why})
    assert len(text) <= LINE_CHARS
    assert "\n" not in text
