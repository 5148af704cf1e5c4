"""The slash commands, in a repository that has nothing of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

NOTE = 'never write "it\'s" in $(touch pwned) docs; use `it is` & nothing else'


def list_active(person: Any, shop: Path) -> list[str]:
    return [rule["rule"] for rule in person.rules(shop) if rule["status"] == "active"]


def test_each_command_does_in_a_session_what_it_says(person: Any) -> None:
    shop, blog = person.project("shop"), person.project("blog")
    person.smart("tag", "use spaces in this blog", cwd=blog)
    with person.session(shop) as session:
        # A note becomes a rule as it was written, and no shell sees it.
        notes = {"/tag": NOTE, "/smart:tag": NOTE.replace("docs", "texts")}
        for command, note in notes.items():
            said = session.says(f"{command} {note}")
            assert "claude-smart answers /tag:\n\nStored as a rule" in said.last_shown
        rules = person.rules(shop)
        assert [rule["rule"] for rule in rules] == list(notes.values())
        assert {(rule["status"], rule["source"], rule["reach"]) for rule in rules} == {("active", "note", "project")}
        assert list(Path(shop).iterdir()) == [Path(shop) / ".git"]
        person.learn()
        person.learn()
        assert [rule["repeats"] for rule in person.rules(shop)] == [0, 0], "kept once however often it is taken in"

        shown = session.says("/show").last_shown.partition("claude-smart answers /show")[2]
        assert NOTE in shown
        assert "use spaces in this blog" not in shown

        session.says("/learn run the linter before you commit")
        assert list_active(person, shop) == [*notes.values(), "run the linter before you commit"]
        assert "claude-smart answers /learn" in session.says("/learn").last_shown

        assert f"Forgotten: {NOTE}" in session.says("/forget docs; use").last_shown
        assert list_active(person, shop) == [notes["/smart:tag"], "run the linter before you commit"], "it stays gone"

        (shop / "rules.jsonl").write_text('{"rule": "use tabulators", "status": "candidate"}\n')
        person.smart("import", "rules.jsonl", cwd=shop)
        assert "Accepted: use tabulators" in session.says("/smart:review accept all").last_shown
        assert "Changed: use spaces" in session.says("/smart:edit tabulators --rule 'use spaces'").last_shown
        assert list_active(person, shop)[1:] == ["run the linter before you commit", "use spaces"]

        session.says("the parser lives in lib/parse.ts, mind that")
        session.says("/tag")
    about_before = [rule["rule"] for rule in person.rules(shop) if rule["source"] == "note"][-1]
    assert "lib/parse.ts" in about_before, "without a note it is about what was said before"
    assert person.complaints() == []
