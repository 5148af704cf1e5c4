"""The slash commands, in a repository that has nothing of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

NOTE = 'never write "it\'s" in $(touch pwned) docs; use `it is` & nothing else'


@pytest.mark.parametrize("prefix", ["/", "/smart:"])
def test_a_tagged_note_becomes_a_rule_as_written_and_no_shell_sees_it(person: Any, prefix: str) -> None:
    shop = person.project("shop")
    said = person.says(f"{prefix}tag {NOTE}", shop)
    (rule,) = person.rules(shop)
    assert rule["rule"] == NOTE
    assert (rule["status"], rule["source"], rule["reach"]) == ("active", "note", "project")
    assert "claude-smart answers /tag:\n\nStored as a rule" in said.shown
    assert list(Path(shop).iterdir()) == [Path(shop) / ".git"]
    assert person.complaints() == []
    person.learn()
    person.learn()
    (rule,) = person.rules(shop)
    assert rule["repeats"] == 0, "it is kept once however often the session is taken in"


def test_a_tag_without_a_note_is_about_what_was_said_before(person: Any) -> None:
    shop = person.project("shop")
    first = person.says("the parser lives in lib/parse.ts, mind that", shop)
    person.says("/tag", shop, resume=first.id)
    (rule,) = [rule for rule in person.rules(shop) if rule["source"] == "note"]
    assert "lib/parse.ts" in rule["rule"]


def test_learn_with_a_note_keeps_it_and_without_one_takes_in_the_session(person: Any) -> None:
    shop = person.project("shop")
    person.says("/learn run the linter before you commit", shop)
    assert [rule["rule"] for rule in person.rules(shop)] == ["run the linter before you commit"]
    said = person.says("/learn", shop)
    assert "claude-smart answers /learn" in said.shown


def test_show_prints_the_rules_of_the_project_alone(person: Any) -> None:
    shop, blog = person.project("shop"), person.project("blog")
    person.smart("tag", "use tabs in this shop", cwd=shop)
    person.smart("tag", "use spaces in this blog", cwd=blog)
    shown = person.says("/show", shop).shown.partition("claude-smart answers /show")[2]
    assert "use tabs in this shop" in shown
    assert "use spaces in this blog" not in shown


def test_a_forgotten_rule_is_gone_and_stays_gone(person: Any) -> None:
    shop = person.project("shop")
    person.smart("tag", "use tabs", cwd=shop)
    person.smart("tag", "write tests first", cwd=shop)
    said = person.says("/forget use tabs", shop)
    assert "Forgotten: use tabs" in said.shown
    assert [rule["rule"] for rule in person.rules(shop) if rule["status"] == "active"] == ["write tests first"]


def test_what_waits_is_reviewed_and_edited(person: Any) -> None:
    shop = person.project("shop")
    (shop / "rules.jsonl").write_text('{"rule": "use tabs", "status": "candidate"}\n')
    person.smart("import", "rules.jsonl", cwd=shop)
    assert "Accepted: use tabs" in person.says("/smart:review accept all", shop).shown
    assert "Changed: use spaces" in person.says("/smart:edit tabs --rule 'use spaces'", shop).shown
    (rule,) = person.rules(shop)
    assert (rule["rule"], rule["status"]) == ("use spaces", "active")
    assert person.complaints() == []
