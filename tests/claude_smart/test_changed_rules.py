"""A person changes what they said before: which rule holds, what the agent is shown, and where it is decided."""

from __future__ import annotations

from alma import ALMA, Rule

from .conftest import Person


def test_a_newer_value_of_the_same_key_replaces_the_older_one(person: Person) -> None:
    wrong = []
    for older, newer in (
        ("Use port 3000 for the dev server", "The dev server runs on port 4000"),
        ("Format the code with black", "Format the code with ruff"),
        ("Put migrations in db/migrations", "Migrations go in sql/changes"),
        ("Use yarn for the web app", "Use pnpm for the web app"),
    ):
        person.types("tag", older)
        person.types("tag", newer)
        rules = {one["rule"]: one["status"] for one in person.rules("--all")}
        if (rules[older], rules[newer]) != ("superseded", "active"):
            wrong.append((older, newer, rules))
    assert not wrong
    assert person.types("review", "--json").json["conflicts"] == []


def test_a_newer_rule_that_may_replace_an_older_one_waits_for_a_decision(person: Person) -> None:
    person.types("tag", "Sign the commits")
    person.types("tag", "Deploy on Tuesdays")
    person.types("tag", "Deploy on Thursdays")
    rules = {one["rule"]: one for one in person.rules()}
    older, newer = rules["Deploy on Tuesdays"], rules["Deploy on Thursdays"]
    assert (older["status"], newer["status"]) == ("active", "active")

    playbook = person.types("show", "--playbook").out
    assert playbook.index("Deploy on Thursdays") < playbook.index("Deploy on Tuesdays")
    [line] = [line for line in playbook.splitlines() if "Tuesdays" in line]
    assert line.endswith(f"; the newer `[{newer['id'][-8:]}]` may replace it)")
    assert "may replace" not in playbook.replace(line, "")

    [conflict] = person.types("review", "--json").json["conflicts"]
    assert (conflict["older"], conflict["newer"]) == (older["id"], newer["id"])
    said = person.types("review").out
    assert "newer, " in said
    assert "Deploy on Thursdays" in said
    assert "--keep-newer" in said
    assert "1 conflict between rules: claude-smart review" in person.types("status").out
    assert person.types("status", "--json").json["conflicts"] == 1

    person.types("review", "--keep-newer", conflict["id"][-8:])
    statuses = {one["rule"]: one["status"] for one in person.rules("--all")}
    assert (statuses["Deploy on Tuesdays"], statuses["Deploy on Thursdays"]) == ("superseded", "active")
    assert "conflict" not in person.types("status").out


def test_both_rules_may_be_kept_and_the_mark_goes_with_the_newer_one(person: Person) -> None:
    person.types("tag", "Answer in German")
    person.types("tag", "Answer in English")
    [conflict] = person.types("review", "--json").json["conflicts"]
    assert "no conflict matches 'zzzz'" in person.fails("review", "--keep-both", "zzzz")
    person.types("review", "--keep-both", conflict["id"][-8:])
    assert "may replace" not in person.types("show", "--playbook").out
    assert person.types("review", "--json").json["conflicts"] == []

    person.types("tag", "Indent with tabs")
    person.types("tag", "Indent with 2 spaces")
    assert "may replace" in person.types("show", "--playbook").out
    person.types("forget", "Indent with 2 spaces")
    assert "may replace" not in person.types("show", "--playbook").out


def test_rules_that_can_both_be_followed_are_left_alone(person: Person) -> None:
    for rule in ("Use pnpm for the web app", "Use poetry for the backend", "Run ruff before pushing"):
        person.types("tag", rule)
    person.types("tag", "Run pytest before pushing")
    assert {one["status"] for one in person.rules("--all")} == {"active"}
    assert person.types("review", "--json").json["conflicts"] == []


def test_an_edit_ends_a_conflict(person: Person) -> None:
    person.types("tag", "Deploy on Tuesdays")
    person.types("tag", "Deploy on Thursdays")
    person.types("edit", "Deploy on Thursdays", "--rule", "Tag a release on Thursdays")
    assert person.types("review", "--json").json["conflicts"] == []
    assert "may replace" not in person.types("show", "--playbook").out


def test_the_inbox_of_the_dashboard_lists_the_conflict(alma: ALMA) -> None:
    older = alma.add_rule("dev", "Deploy on Tuesdays", source="user")
    newer = alma.add_rule("dev", "Deploy on Thursdays", source="user")
    [conflict] = alma.conflicts()
    assert (conflict.older.id, conflict.newer.id) == (older.id, newer.id)
    shown = alma.retrieve("Deploy the service", "dev").rules
    marks = {rule.id: rule.newer for rule in shown if isinstance(rule, Rule)}
    assert list(marks.items()) == [(newer.id, ""), (older.id, newer.id)]
