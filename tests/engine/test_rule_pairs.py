"""Two rules: the same, contrary, or neither. Read as a person would say them."""

from __future__ import annotations

from typing import Any

import pytest

from alma.engine.distil.corrections import read
from alma.engine.rule_pairs import contradicts, same_rule


def told(text: str) -> dict[str, Any]:
    found = read(text, "I did it.")
    return {"rule": found.rule or text, "trigger": found.trigger, "prefer": found.prefer, "avoid": found.avoid}


def verdict(a: str, b: str) -> str:
    first, second = told(a), told(b)
    assert contradicts(first, second) == contradicts(second, first)
    assert same_rule(first, second) == same_rule(second, first)
    if same_rule(first, second):
        return "same"
    return "contrary" if contradicts(first, second) else "neither"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Use tabs, not spaces", "Indent with tabs, not spaces"),
        ("Never push to main", "Don't push to main."),
        ("Always add comments", "Please add comments"),
        ("use pnpm instead of npm", "it's pnpm, not npm"),
    ],
)
def test_the_same(a: str, b: str) -> None:
    assert verdict(a, b) == "same"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Use tabs, not spaces", "use spaces, not tabs"),
        ("use sentence case for headings", "we decided to use title case for headings after all, not sentence case"),
        ("use title case for headings", "use sentence case for headings instead of title case"),
        ("use npm", "use pnpm instead of npm"),
        ("Never push directly to main, open a PR instead", "Push directly to main"),
        ("Answer in English, not German", "answer in German"),
        ("don't mock the database in tests", "mock the database in tests"),
        ("use poetry add rather than pip install", "use uv, not poetry"),
        ("Use pandas", "use polars instead of pandas"),
        ("ask before deleting files", "don't ask before deleting files"),
        ("use the staging database", "use the production database, not staging"),
        ("Always add comments", "Never add comments"),
    ],
)
def test_contrary(a: str, b: str) -> None:
    assert verdict(a, b) == "contrary"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Use 2 spaces for indentation in YAML", "Use 4 spaces for indentation in Python"),
        ("Never push directly to main", "Open a PR before you push to main"),
        ("use rspec, not minitest", "There is no `rspec` here: use `bundle exec rspec`."),
        ("never edit files in dist", "never edit files in vendor"),
        ("keep answers short", "keep functions short"),
        ("use port 8080 for the api", "use port 9090 for the metrics"),
        ("don't mock the database in tests", "mock the payment gateway in tests"),
        ("Use snake_case for files, not camelCase", "Use camelCase for variables"),
        ("commit messages in English", "commit messages in present tense"),
        ("run make check before pushing", "run make lint before pushing"),
        ("never log tokens", "log request ids"),
        ("Use black for formatting", "Use pytest for testing"),
        ("Run the tests with --run", "Run the linter with --fix"),
        ("Use const, not let", "Use let only when reassigning, const otherwise"),
        # Without a model these may both hold.
        ("Indent with 2 spaces", "Indent with 4 spaces"),
        ("use port 8080 for the api", "use port 8081 for the api"),
        ("answer in German", "answer in English"),
        ("Always run the tests before committing", "Never commit without running the tests"),
        ("Never copy from staging to production", "Copy from production to staging"),
    ],
)
def test_neither(a: str, b: str) -> None:
    assert verdict(a, b) == "neither"


def test_other_occasions_are_no_contradiction() -> None:
    docs = {"rule": "Use npm", "trigger": "publishing the website", "prefer": ["npm"], "avoid": []}
    code = {"rule": "Do not use npm", "trigger": "installing dependencies", "prefer": [], "avoid": ["npm"]}
    assert not contradicts(docs, code)


def test_to_name_what_is_avoided_is_no_occasion_of_its_own() -> None:
    tabs = {"rule": "Use tabs", "trigger": "using spaces", "prefer": ["tabs"], "avoid": ["spaces"]}
    spaces = {"rule": "Use spaces", "trigger": "using tabs", "prefer": ["spaces"], "avoid": ["tabs"]}
    assert contradicts(tabs, spaces)
