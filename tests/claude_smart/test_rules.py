"""show, review, edit, restore and forget, as typed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Person

CORRECTION = "no, use pnpm here instead of npm, because npm breaks the lock file"


def only(person: Person, *arguments: str) -> dict[str, Any]:
    [rule] = person.rules(*arguments)
    return rule


# -- show


def test_rules_are_shown_in_groups_with_what_a_person_needs_to_judge_them(person: Person) -> None:
    person.types("tag", "Use tabs")
    person.types("tag", "Answer in English", "--everywhere")
    person.types("tag", "Use tabs")
    proposed(person, "Use ruff")
    person.types("tag", "Sign commits")
    person.types("forget", "sign commits")
    ids = {rule["rule"]: rule["id"][-8:] for rule in person.rules("--all")}
    today = time.strftime("%Y-%m-%d", time.gmtime())
    shown = person.types("show").out
    in_force, waiting = shown.split("Candidates")
    assert f"- Use tabs\n    [{ids['Use tabs']}] reach project, {today}, repeated once\n" in in_force
    assert f"- Answer in English\n    [{ids['Answer in English']}] reach always, {today}\n" in in_force
    assert f"- Use ruff\n    [{ids['Use ruff']}]" in waiting
    assert "1 rule replaced or archived: claude-smart show --all" in waiting
    assert "Sign commits" not in shown
    assert "Sign commits" in person.types("show", "--all").out


def test_the_playbook_is_what_a_session_starts_with(person: Person) -> None:
    person.types("tag", "Use tabs")
    text = person.types("show", "--playbook").out
    assert text.startswith("# Rules the user stated\n")
    assert text == person.types("show", "--json").json["playbook"] + "\n"


def test_one_rule_is_shown_with_its_history(person: Person) -> None:
    person.types("tag", "Use tabs")
    person.types("edit", "tabs", "--rule", "Use spaces", "--reason", "diffs")
    said = person.types("show", "spaces").out
    assert said.startswith("Use spaces. Why: diffs\n")
    assert "edited by a person (before: rule 'Use tabs', why '')" in said
    [line] = person.types("show", "spaces", "--json").json["history"]
    assert (line["verb"], line["before"]["rule"], line["before"]["reach"]) == ("edited", "Use tabs", "project")


# -- edit


def test_words_and_reach_are_edited_and_the_change_is_undone(person: Person) -> None:
    person.opens("other")
    person.types("tag", "Use pnpm instead of npm")
    id = only(person)["id"][-8:]
    changes = ("--rule", "Use bun instead of npm", "--trigger", "installing packages", "--reason", "it is fast")
    said = person.types("edit", id, *changes, "--reach", "always").out
    assert "Changed: When installing packages: Use bun instead of npm. Why: it is fast" in said
    assert f"Undo: claude-smart restore {id}" in said
    rule = only(person, "--project", "name:other")
    assert (rule["rule"], rule["trigger"], rule["why"], rule["reach"]) == (
        "Use bun instead of npm",
        "installing packages",
        "it is fast",
        "always",
    )
    assert (rule["prefer"], rule["avoid"]) == (["bun"], ["npm"])
    assert person.types("restore", id).code == 0
    rule = only(person)
    assert (rule["rule"], rule["trigger"], rule["why"], rule["reach"]) == ("Use pnpm instead of npm", "", "", "project")
    assert (rule["prefer"], rule["avoid"]) == (["pnpm"], ["npm"])
    assert person.rules("--project", "name:other") == []
    assert person.types("restore", id).code == 0
    assert only(person)["rule"] == "Use bun instead of npm"


def test_a_rule_is_narrowed_to_a_session_and_widened_again(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    person.types("tag", "Use tabs")
    said = person.fails("edit", "tabs", "--reach", "session")
    assert said.startswith("--reach session needs a session: pass --session ID. No session was recorded here yet. ")
    person.talks("s0", "hello")
    assert "pass --session ID. The last sessions here: s0." in person.fails("edit", "tabs", "--reach", "session")
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s1")
    said = person.types("edit", "tabs", "--reach", "session").out
    assert "\n    reach: session (before: project)\n" in said
    assert ", session s1\n" in said
    assert "Only in this session\n\n- Use tabs" in person.types("show").out
    monkeypatch.delenv("CLAUDE_CODE_SESSION_ID")
    assert "Use tabs" not in person.types("show", "--playbook").out
    assert person.types("edit", "tabs", "--reach", "project").code == 0
    assert "Use tabs" in person.types("show", "--playbook").out


def test_show_names_the_rules_of_other_sessions(person: Person) -> None:
    person.types("tag", "Use tabs")
    person.types("edit", "tabs", "--reach", "session", "--session", "s9")
    assert "1 rule only in other sessions: claude-smart show --all" in person.types("show").out


def test_each_line_of_the_history_says_what_that_change_replaced(person: Person) -> None:
    person.types("tag", "Use tabs")
    person.types("tag", "use tabs")
    person.types("edit", "tabs", "--reach", "always")
    person.types("edit", "tabs", "--reach", "session", "--session", "s9")
    *_, repeated, widened, narrowed = person.types("show", "tabs").out.rstrip().splitlines()
    assert "reach" not in repeated
    assert widened.endswith("(before: reach 'project')")
    assert narrowed.endswith("(before: reach 'always')")


def test_a_rule_that_was_widened_goes_back_to_its_own_project(person: Person) -> None:
    person.opens("other")
    person.types("tag", "Use tabs")
    id = only(person)["id"]
    person.types("edit", id, "--reach", "always")
    assert person.types("restore", id, "--project", "name:other").code == 0
    assert person.rules("--project", "name:other") == []
    assert only(person)["reach"] == "project"


def test_what_cannot_be_edited_is_told(person: Person) -> None:
    person.types("tag", "Use tabs")
    assert "nothing to change" in person.fails("edit", "tabs")
    assert "a rule cannot be empty" in person.fails("edit", "tabs", "--rule", " ")
    assert "shorten it to at most 600" in person.fails("edit", "tabs", "--rule", "x" * 601)
    assert "no rule matches" in person.fails("edit", "spaces", "--rule", "x")
    assert "no change to undo" in person.fails("restore", only(person)["id"])


def test_a_rule_that_is_edited_ends_what_it_contradicts_now(person: Person) -> None:
    person.types("tag", "Use pnpm, not npm")
    person.types("tag", "Sign all commits")
    said = person.types("edit", "sign all", "--rule", "Use npm, not pnpm").out
    assert "It replaces: Use pnpm, not npm [" in said
    assert [rule["rule"] for rule in person.rules()] == ["Use npm, not pnpm"]


# -- forget


def test_a_rule_is_forgotten_by_its_id_the_end_of_it_or_its_words(person: Person) -> None:
    for note in ("Use tabs in Go files", "Run make lint first", "Never push to main", "Sign all commits"):
        person.types("tag", note)
    ids = {rule["rule"]: rule["id"] for rule in person.rules()}
    assert person.types("forget", ids["Use tabs in Go files"]).out.startswith("Forgotten: Use tabs in Go files\n")
    assert person.types("forget", f"[{ids['Run make lint first'][-8:]}]").code == 0
    assert person.types("forget", "push", "to", "main").code == 0
    assert [rule["rule"] for rule in person.rules()] == ["Sign all commits"]


def test_words_that_could_mean_several_name_them(person: Person) -> None:
    person.types("tag", "Use tabs in Go files")
    person.types("tag", "Use tabs in Makefiles")
    said = person.fails("forget", "tabs")
    assert "2 rules match" in said
    assert "Use tabs in Makefiles" in said
    assert len(person.rules()) == 2


def proposed(person: Person, *rules: str) -> None:
    lines = "".join(f'{{"rule": "{rule}", "status": "candidate"}}\n' for rule in rules)
    Path("rules.jsonl").write_text(lines)
    assert person.types("import", "rules.jsonl").code == 0


def test_what_waits_is_accepted_or_rejected(person: Person) -> None:
    proposed(person, "Use ruff", "Write in German", "Prefer fd")
    assert "claude-smart review --accept ID" in person.types("review").out
    assert "in both --accept and --reject" in person.fails("review", "--accept", "ruff", "--reject", "ruff")
    assert person.types("review", "--accept", "ruff", "--reject", "german", "--json").code == 0
    assert [rule["rule"] for rule in person.rules()] == ["Use ruff"]
    assert [rule["rule"] for rule in person.types("review", "--json").json["waiting"]] == ["Prefer fd"]
    for verb in ("--accept", "--reject"):
        reason = "no candidate matches 'ruff'; `claude-smart review` lists the candidates with their ids"
        assert person.fails("review", verb, "ruff") == reason
    assert person.types("review", "--accept-all").code == 0
    assert {rule["rule"] for rule in person.rules()} == {"Use ruff", "Prefer fd"}


def test_at_a_terminal_each_is_asked_about(person: Person, answers: Callable[..., None]) -> None:
    proposed(person, "Use ruff", "Write in German", "Prefer fd", "Prefer rg")
    answers("y", "n", "", "q")
    assert person.types("review").code == 0
    assert [rule["rule"] for rule in person.rules()] == ["Use ruff"]
    assert [rule["rule"] for rule in person.types("review", "--json").json["waiting"]] == ["Prefer fd", "Prefer rg"]


def test_a_note_that_is_a_rule_already_offers_nothing_that_would_archive_it(person: Person) -> None:
    person.types("tag", "Use tabs")
    id = only(person)["id"][-8:]
    said = person.types("tag", "Use tabs").out
    assert said.startswith(f"- Already a rule: Use tabs\n    [{id}] reach project, ")
    assert said.endswith("repeated once\n")
    assert "forget" not in said
    said = person.types("tag", "Use tabs", "--everywhere").out
    assert said.startswith("- Now reaches further: Use tabs\n")
    assert said.endswith(f"reach always, active from now on. Undo: claude-smart edit {id} --reach project\n")
    assert person.types("edit", id, "--reach", "project").code == 0
    assert only(person)["reach"] == "project"
    person.types("forget", id)
    said = person.types("tag", "Use tabs").out
    assert said.startswith("- Active again: Use tabs\n")
    assert said.endswith(f"active from now on. Undo: claude-smart forget {id}\n")


def test_an_edit_that_changes_nothing_says_so(person: Person) -> None:
    person.types("tag", "Use tabs")
    id = only(person)["id"]
    for same in (["--reach", "project"], ["--rule", "Use  tabs", "--reason", ""]):
        assert person.types("edit", id, *same).out.startswith("Nothing to change: Use tabs\n")
        assert person.types("edit", id, *same, "--json").json["changed"]["rule"] == "Use tabs"
    assert person.types("show", id, "--json").json["history"] == []
    assert "Changed: Use tabs" in person.types("edit", id, "--reach", "always").out


def test_a_forgotten_rule_stays_away_until_its_person_wants_it_back(person: Person) -> None:
    person.talks("s1", "install the packages", CORRECTION)
    person.types("learn")
    id = only(person)["id"][-8:]
    person.types("forget", id)
    assert person.rules() == []
    person.talks("s2", "install the packages", CORRECTION)
    said = person.types("learn").out
    assert "Repeated, but archived" in said
    assert f"bring it back: claude-smart restore {id}" in said
    assert person.rules() == []
    assert person.types("restore", id).code == 0
    assert "pnpm" in only(person)["rule"]


def test_what_is_forgotten_with_everything_leaves_no_trace(person: Person) -> None:
    person.talks("s1", "install the packages", CORRECTION, "and now run the linter")
    person.types("learn")
    person.tells("s2", "UserPromptSubmit", prompt=f"I said: {CORRECTION}!", prompt_id="again")
    person.tells("s2", "Shown", rules=[only(person)["id"]], where="UserPromptSubmit", text=CORRECTION)
    person.tells("s2", "Stop", last_assistant_message="Understood.", prompt_id="again")
    person.types("learn")
    said = person.types("forget", "--everything", "pnpm").out
    assert "2 recorded turns and 3 journal lines" in said
    assert person.rules("--all") == []
    files = [path for path in person.home.rglob("*") if path.is_file()]
    assert [path for path in files if b"pnpm" in path.read_bytes() or b"lock file" in path.read_bytes()] == []
    assert any(b"run the linter" in path.read_bytes() for path in files)
    assert person.types("learn").out == "No new turns since the last import.\n"
    person.talks("s1", "we are done")
    assert "Imported 2 turns from 1 session." in person.types("learn").out


def test_a_rule_of_all_projects_is_erased_from_all_and_another_from_its_own(person: Person) -> None:
    everywhere, here = "never push to main directly", "always squash your commits"
    person.talks("s1", everywhere, here)
    home, person.folder = person.folder, person.folder.parent / "elsewhere"
    person.folder.mkdir()
    person.talks("s2", everywhere, here)
    person.folder = home
    person.types("tag", everywhere, "--everywhere")
    person.types("tag", here)
    for rule in (everywhere, here):
        assert person.types("forget", "--everything", rule).code == 0
    own, other = (Path(person.place.journal_file(session)).read_text() for session in ("s1", "s2"))
    assert (everywhere in own, here in own) == (False, False)
    assert (everywhere in other, here in other) == (False, True)


def test_a_short_sentence_takes_no_other_turn_along(person: Person) -> None:
    person.talks("s1", "please use tabs in the new file only if the linter agrees")
    person.types("learn")
    person.types("tag", "use tabs")
    assert person.types("forget", "--everything", "use tabs", "--json").json["turns"] == 0
    assert b"linter agrees" in Path(person.place.journal_file("s1")).read_bytes()


# -- review


def test_a_candidate_is_edited_while_it_is_reviewed(person: Person, answers: Callable[..., None]) -> None:
    proposed(person, "Use ruf", "Prefer fd")
    answers("e", "Use ruff", "", "it is fast", "y", "a")
    assert person.types("review").code == 0
    ruff, fd = person.rules()
    assert (ruff["rule"], ruff["why"], ruff["reach"]) == ("Use ruff", "it is fast", "project")
    assert (fd["rule"], fd["reach"]) == ("Prefer fd", "always")


def test_what_was_rejected_or_accepted_can_be_undone(person: Person) -> None:
    proposed(person, "Use ruff", "Write in German")
    ids = {rule["rule"]: rule["id"] for rule in person.rules("--all")}
    person.types("review", "--accept", "ruff", "--reject", "german")
    assert person.types("restore", ids["Use ruff"]).code == 0
    assert person.types("restore", "write in german").code == 0
    waiting = person.types("review", "--json").json["waiting"]
    assert {rule["rule"] for rule in waiting} == {"Use ruff", "Write in German"}


# -- accepting what was said once


ONCE = "no, call it load_settings"


def test_what_was_said_once_lasts_when_a_person_accepts_it(person: Person) -> None:
    person.talks("s1", "write the loader", ONCE)
    person.types("learn")
    [waiting] = person.types("review", "--json").json["waiting"]
    assert waiting["reach"] == "once"
    assert person.types("review", "--accept", waiting["id"]).code == 0
    [rule] = person.rules()
    assert (rule["status"], rule["reach"], rule["session"]) == ("active", "project", "")
    person.talks("another", "hello")
    assert "load_settings" in person.types("show", "--session", "another").out


def test_what_is_accepted_may_hold_everywhere(person: Person) -> None:
    person.opens("other")
    proposed(person, "Use ruff")
    assert person.types("review", "--accept", "ruff", "--everywhere").code == 0
    [rule] = person.rules("--project", "name:other")
    assert (rule["rule"], rule["reach"]) == ("Use ruff", "always")


# -- bringing back what was replaced


def test_a_rule_that_was_replaced_is_listed_and_restored(person: Person) -> None:
    person.types("tag", "Use pnpm, not npm")
    person.types("tag", "Use npm, not pnpm")
    assert [rule["rule"] for rule in person.rules()] == ["Use npm, not pnpm"]
    listed = person.types("show", "--all").out
    assert "archived (`claude-smart restore ID` brings one back)\n\n- Use pnpm, not npm\n" in listed
    assert ", replaced by [" in listed
    [old] = [rule for rule in person.rules("--all") if rule["status"] == "superseded"]
    said = person.types("restore", old["id"][-8:])
    assert said.out.startswith("Restored: Use pnpm, not npm\n")
    assert "It replaces: Use npm, not pnpm [" in said.out
    assert [rule["rule"] for rule in person.rules()] == ["Use pnpm, not npm"]
    assert "Use pnpm, not npm" in person.types("show").out
    assert person.types("restore", "npm, not pnpm").code == 0
    assert [rule["rule"] for rule in person.rules()] == ["Use npm, not pnpm"]


def test_what_replaced_it_everywhere_is_replaced_only_with_yes(person: Person) -> None:
    person.types("tag", "Use pnpm, not npm")
    person.types("tag", "Use npm, not pnpm", "--everywhere")
    assert "applies in all projects" in person.fails("restore", "pnpm, not npm")
    assert [rule["rule"] for rule in person.rules()] == ["Use npm, not pnpm"]
    assert person.types("restore", "pnpm, not npm", "--yes").code == 0
    assert [rule["rule"] for rule in person.rules()] == ["Use pnpm, not npm"]


def test_where_nothing_was_replaced_nothing_is_restored(person: Person) -> None:
    person.types("tag", "Use tabs")
    assert "this rule has no change to undo" in person.fails("restore", "tabs")
    assert "no rule matches 'spaces'" in person.fails("restore", "spaces")


def test_the_last_change_of_an_active_rule_is_undone_and_redone_by_its_words(person: Person) -> None:
    person.types("tag", "Use pnpm")
    person.types("edit", "pnpm", "--rule", "Use bun")
    id = only(person)["id"][-8:]
    said = person.types("restore", "bun").out
    assert said.startswith("Restored: Use pnpm\n")
    assert "\n    Restore goes one step back. " in said
    assert f"\n    Redo the change that was undone: claude-smart restore {id}\n" in said
    assert person.types("restore", "pnpm").out.startswith("Restored: Use bun\n")


def test_an_edit_of_a_trigger_or_a_reason_is_shown(person: Person) -> None:
    person.types("tag", "Use tabs")
    said = person.types("edit", "tabs", "--trigger", "tabs", "--reason", "diffs").out
    assert "\n    trigger: tabs (before: none)\n    reason: diffs (before: none)\n    Undo: " in said
    said = person.types("edit", "tabs", "--trigger", "").out
    assert "\n    trigger: none (before: tabs)\n    Undo: " in said


def test_a_session_that_is_not_known_is_refused(person: Person) -> None:
    person.types("tag", "Use tabs")
    person.talks("s1", "hello")
    for command in (["show"], ["show", "--playbook"], ["show", "--json"]):
        assert person.types(*command, "--session", "s1").code == 0
        assert person.fails(*command, "--session", "nope") == (
            "there is no session 'nope'; `claude-smart show --all` lists the rules of all sessions"
        )
