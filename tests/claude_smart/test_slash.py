"""The slash commands, as the host passes them to the hook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.persons import act_as_agent

from claude_smart import slash

from .conftest import Person


@pytest.fixture(autouse=True)
def in_a_terminal_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CODE_ENTRYPOINT", "cli")
    # The hook sets both; so that they are as before when the test ends.
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", "")
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "")


def answers(person: Person, name: str, words: str = "") -> str:
    event: dict[str, Any] = {
        "session_id": "s1",
        "cwd": str(person.folder),
        "hook_event_name": "UserPromptExpansion",
        "command_name": f"smart:{name}",
        "command_args": words,
        "prompt": f"/smart:{name} {words}",
    }
    said = slash.answer_command(event, json.dumps(event).encode(), person.place)
    assert f"claude-smart answers /{name}:" in said["hookSpecificOutput"]["additionalContext"]
    return str(said["systemMessage"])


def propose(person: Person, *rules: str) -> None:
    Path("rules.jsonl").write_text("".join(json.dumps({"rule": one, "status": "candidate"}) + "\n" for one in rules))
    person.types("import", "rules.jsonl")


def test_a_note_is_reported_as_it_will_be_shown_with_its_reach_and_how_to_undo_it(person: Person) -> None:
    said = answers(person, "learn", "use pnpm instead of npm")
    [rule] = person.rules()
    id = rule["id"][-8:]
    assert said.startswith("Stored as a rule: use pnpm instead of npm\n")
    assert f"[{id}] reach project" in said
    assert f"Undo: /forget {id}" in said


def test_a_note_that_is_a_rule_already_offers_nothing_that_would_archive_it(person: Person) -> None:
    person.types("tag", "use pnpm instead of npm")
    said = answers(person, "tag", "use pnpm instead of npm")
    [rule] = person.rules()
    assert said.startswith(f"Already a rule: use pnpm instead of npm\n    [{rule['id'][-8:]}] reach project")
    assert "repeated once" in said
    assert "forget" not in said


def test_learn_reports_what_the_session_taught(person: Person) -> None:
    person.talks("s1", "install the packages", "no, use pnpm here instead of npm, because npm breaks the lock file")
    said = answers(person, "learn")
    [rule] = person.rules()
    assert "- Learned: " in said
    assert "reach project, active from now on" in said
    assert f"Undo: /forget {rule['id'][-8:]}" in said


def test_show_prints_what_the_session_was_told_or_all_there_is(person: Person) -> None:
    propose(person, "Use ruff")
    person.types("tag", "Use tabs")
    said = answers(person, "show")
    assert said.startswith("# Rules the user stated")
    assert "1 candidate waiting" in said
    assert "- Use ruff" in answers(person, "show", "--all")
    assert answers(person, "show", "tabs").startswith("Use tabs\n")


def test_what_waits_is_listed_accepted_rejected_and_restored(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    propose(person, "Use ruff", "Prefer fd")
    ids = {rule["rule"]: rule["id"][-8:] for rule in person.rules("--all")}
    # As in a shell of the agent; the command itself was typed by the person.
    act_as_agent(monkeypatch)
    assert "- Use ruff" in answers(person, "review")
    assert "Accepted: Use ruff" in answers(person, "review", f"accept {ids['Use ruff']}")
    assert "Rejected: Prefer fd" in answers(person, "review", "reject all")
    assert [rule["rule"] for rule in person.rules()] == ["Use ruff"]
    assert "Restored: Prefer fd" in answers(person, "restore", "prefer fd")
    assert "Changed: Use black" in answers(person, "edit", f"{ids['Use ruff']} --rule 'Use black' --reach always")
    assert [(rule["rule"], rule["reach"]) for rule in person.rules()] == [("Use black", "always")]


def test_hints_name_slash_commands_and_rules_stay_as_written(person: Person) -> None:
    propose(person, "Run claude-smart review weekly")
    [id] = [rule["id"][-8:] for rule in person.rules("--all")]
    said = answers(person, "review")
    assert "- Run claude-smart review weekly" in said
    assert "Accept: /smart:review accept ID …\nReject: /smart:review reject ID …\n" in said
    assert "\nEdit first: /smart:edit ID --rule TEXT" in said
    assert answers(person, "review", "accept") == said
    assert f"Undo: /smart:restore {id}" in answers(person, "review", f"accept {id}")
    assert f"was learned from: /forget --everything {id}" in answers(person, "forget", id)
    assert "`/show` lists the rules" in answers(person, "forget", "tabs")


def test_options_that_do_not_exist_are_told(person: Person) -> None:
    assert "unknown option '--bogus'. Valid: --json, " in answers(person, "edit", "tabs --bogus x")


def test_forgetting_is_undone_unless_everything_goes(person: Person) -> None:
    person.types("tag", "Use tabs in Go files")
    assert "Forgotten: Use tabs in Go files" in answers(person, "forget", "use tabs")
    assert "Restored: Use tabs" in answers(person, "restore", "tabs")
    assert "Erased for good: Use tabs" in answers(person, "forget", "--everything use tabs")
    assert person.rules("--all") == []


def test_an_unattended_session_decides_nothing(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    propose(person, "Use ruff")
    act_as_agent(monkeypatch)
    monkeypatch.setenv("CLAUDE_CODE_ENTRYPOINT", "sdk-cli")
    event = {
        "session_id": "s1",
        "cwd": str(person.folder),
        "command_name": "smart:review",
        "command_args": "accept all",
    }
    said = slash.answer_command(
        event, json.dumps({**event, "hook_event_name": "UserPromptExpansion"}).encode(), person.place
    )
    assert "is for a person to decide" in said["hookSpecificOutput"]["additionalContext"]
    assert person.rules() == []


@pytest.mark.parametrize("name", ["tag", "learn"])
def test_a_note_is_a_candidate_while_nothing_shows_which_commands_run(
    person: Person, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.types("pause")
    act_as_agent(monkeypatch)
    said = answers(person, name, "use pnpm, not npm")
    assert said.startswith("Not stored as a rule: nothing is recorded here")
    assert "Paused here: sessions are not recorded and agents are shown no rules. Resume: claude-smart resume" in said
    [rule] = person.rules("--all")
    assert rule["status"] == "candidate"
    assert (rule["rule"], rule["source"], rule["said"]) == ("use pnpm, not npm", "note", "use pnpm, not npm")
    assert "Bob" not in answers(person, name, "use tabs<private>, says Bob</private>")
    assert [rule["said"] for rule in person.rules("--all")][-1] == "use tabs"
    assert list(Path(person.place.sessions).glob("*")) == []


@pytest.mark.parametrize("name", ["tag", "learn"])
def test_without_a_note_a_pause_is_reported(person: Person, name: str) -> None:
    person.talks("s1", "use pnpm")
    person.types("learn")
    person.types("pause", "--everywhere")
    said = answers(person, name)
    assert "Resume: claude-smart resume --everywhere" in said
    assert "No new turns" not in said
    assert person.rules() == []


def test_a_program_stores_nothing_while_learning_is_paused(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.setenv("CLAUDE_CODE_ENTRYPOINT", "sdk-cli")
    person.types("pause")
    event = {"session_id": "s1", "cwd": str(person.folder), "command_name": "smart:tag", "command_args": "Use ruff"}
    raw = json.dumps({**event, "hook_event_name": "UserPromptExpansion"}).encode()
    said = slash.answer_command(event, raw, person.place)["hookSpecificOutput"]["additionalContext"]
    assert "Not stored as a rule" in said
    assert person.rules("--all") == []
