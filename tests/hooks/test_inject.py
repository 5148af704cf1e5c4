from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alma.hooks import inject, paths
from alma.hooks.inject import ReadOnlyRules
from alma.hooks.paths import DataDir

PROJECT = "git:github.com/acme/app"
Teach = Callable[..., str]


@pytest.fixture
def place(home: Path) -> DataDir:
    return DataDir(str(home))


def told(place: DataDir, session: str = "") -> str:
    return inject.read_playbook(place, PROJECT, session)


def test_the_playbook_is_a_list_that_a_person_can_read(place: DataDir, teach: Teach) -> None:
    id = teach("Use pnpm, not npm", trigger="installing", why="the lockfile is pnpm's")
    assert told(place) == (
        "# Rules the user stated\n\n"
        "The user stated these rules in earlier sessions. Follow them unless the user says otherwise now.\n\n"
        f"- **When installing:** Use pnpm, not npm *Why:* the lockfile is pnpm's `[{id[-8:]}]` (2026-01-01)\n"
    )


def test_without_rules_nothing_is_said(place: DataDir, teach: Teach) -> None:
    teach("Use yarn", "git:github.com/other/app")
    assert told(place) == ""


def test_the_most_useful_come_first(place: DataDir, teach: Teach) -> None:
    order = {
        "plain and old": teach("plain and old"),
        "plain and new": teach("plain and new"),
        "violated": teach("violated", violated=1),
        "followed": teach("followed", followed=1),
        "said again": teach("said again", repeats=2),
        "noted": teach("noted", source="note"),
    }
    text = told(place)
    found = sorted(order, key=lambda name: text.index(f"- {name}"))
    assert found == ["noted", "said again", "followed", "plain and new", "plain and old", "violated"]


def test_the_same_rules_make_the_same_bytes(place: DataDir, teach: Teach) -> None:
    for number in range(30):
        teach(f"Rule number {number}", followed=number % 3, repeats=number % 4)
    once = told(place)
    assert once == told(place)
    teach("Rule number 31")
    assert once != told(place)


def test_the_budget_is_kept_and_long_rules_passed_over(place: DataDir, teach: Teach, home: Path) -> None:
    for number in range(60):
        teach(f"Rule number {number} " + "is quite long and goes on " * (number % 12))
    assert 4000 < len(told(place)) <= 1500 * 4
    Path(place.config).write_text(json.dumps({"playbook_tokens": 100}))
    assert 0 < len(told(place)) <= 400
    Path(place.config).write_text(json.dumps({"playbook_tokens": 100_000, "prompt_tokens": 100_000}))
    for number in range(20):
        teach(f"Said in this session, number {number} " + "and so on " * 20, session="s1")
    assert 9000 < len(told(place, "s1")) <= inject.MOST_CHARS


def test_the_profile_follows_in_the_order_it_was_said(place: DataDir, teach: Teach) -> None:
    teach("Use pnpm")
    first, second = (teach(text, session="s1") for text in ("Answer in French", "No tests today"))
    text = told(place, "s1")
    assert text.index("Use pnpm") < text.index("Stated earlier in this session") < text.index("French")
    assert text.index(first[-8:]) < text.index(second[-8:])
    assert "French" not in told(place)


def test_a_profile_alone_starts_with_its_heading(place: DataDir, teach: Teach) -> None:
    teach("Answer in French", session="s1")
    assert told(place, "s1").startswith("## Stated earlier in this session\n")


def test_a_rule_is_one_line_whatever_became_of_it() -> None:
    from alma.hooks.inject import StoredRule

    rule = StoredRule("rul_0123456789", 1, "{}", json.dumps({"line": "a\n# b\r\n- c " + "x" * 1000}))
    assert "\n" not in rule.line
    assert len(rule.line) < 430


@pytest.mark.parametrize("body", [{}, {"line": 3}, {"line": None}, {"metadata": {"repeats": "x"}}])
def test_odd_rules_do_no_harm(body: dict[str, Any]) -> None:
    from alma.hooks.inject import StoredRule

    rule = StoredRule("rul_0123456789", 1, '{"successes": 2}', json.dumps(body))
    assert inject.rank_rule(rule)[0] == 1
    assert rule.names("prefer") == []


def test_five_rules_at_most_in_time(place: DataDir, teach: Teach) -> None:
    for number in range(9):
        teach(f"Rule {number}")
    with ReadOnlyRules(place, PROJECT) as glance:
        telling = inject.build_reminder(glance.list_newest(), paths.read_settings(place))
    assert len(telling.rules) == 5
    assert telling.text.count("\n- ") == 5
    assert inject.build_reminder([], paths.read_settings(place)).text == ""


def test_what_an_earlier_version_learned_from_a_repair_is_no_rule_of_the_user(place: DataDir, teach: Teach) -> None:
    """As the hook finds it right after an update, before any drain has run."""
    teach("Use tabs")
    teach("Use `npm test -- --run`", said="npm test → npm test -- --run", source="fix")
    teach("Use `git push --force`", said="git push → git push --force", source="fix")
    rules, _, seen = told(place).partition("## Observed in earlier sessions")
    assert "Use tabs" in rules
    assert "npm test" not in rules
    assert seen == "", "the next drain turns it into an observation"
    assert "--force" not in rules
