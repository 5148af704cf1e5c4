"""status, usage, pause, resume, config, export, import and clear-all, as typed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from alma.files import try_lock
from alma.hooks.paths import DEFAULTS, DataDir

from .conftest import Person

RULES = (
    '{"rule": "Prefer tabs", "trigger": "writing Go", "why": "gofmt", "prefer": ["tabs"], "avoid": ["spaces"], '
    '"reach": "always"}\n'
    '{"rule": "Maybe use ruff", "status": "candidate", "said": "ruff perhaps?"}\n'
    '{"rule": "Sign all commits — even small ones"}\n'
)


def test_status_needs_no_store(person: Person) -> None:
    state = person.types("status", "--json").json
    assert (state["turns"], state["pending"], state["rules"]["active"]) == (0, 0, 0)
    assert not person.home.exists()


def test_status_counts_what_is_kept_and_what_waits(person: Person) -> None:
    person.talks("s1", "install the packages")
    assert person.types("status", "--json").json["pending"] == 1
    person.types("learn")
    state = person.types("status", "--json").json
    assert (state["turns"], state["sessions"], state["pending"]) == (2, 1, 0)


def test_pausing_one_project_or_all(person: Person) -> None:
    assert person.types("pause", "--json").json["projects"] == [f"path:{person.folder}"]
    assert "(paused here)" in person.types("status").out
    person.types("pause", "--everywhere")
    assert "Still paused everywhere" in person.types("resume").out
    assert person.types("resume", "--everywhere", "--json").json == {"everywhere": False, "projects": []}


def test_what_is_not_paused_is_not_resumed(person: Person) -> None:
    assert person.types("resume").out == f"Not paused: path:{person.folder} is recorded.\n"
    assert person.types("resume", "--everywhere").out == "Nothing was paused.\n"
    assert not Path(person.place.paused).exists()
    person.types("pause")
    assert "Resumed" in person.types("resume", "--everywhere").out
    assert "Not paused" in person.types("resume").out


def test_without_the_plugin_nothing_is_learned(person: Person) -> None:
    assert "(not learning; install the plugin: claude-smart install)" in person.types("status").out
    settings = person.folder / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"enabledPlugins": {"smart@claude-smart": true}}')
    assert "(learning)" in person.types("status").out
    settings.write_text("[")
    assert person.types("status", "--json").json["installed"] is True


def test_a_damaged_list_of_pauses_is_told_and_not_overwritten(person: Person) -> None:
    person.home.mkdir()
    for damaged in ("{", "[]", '{"projects": 5}'):
        Path(person.place.paused).write_text(damaged)
        assert "nothing was changed" in person.fails("pause").lower()
        assert Path(person.place.paused).read_text() == damaged


def test_settings_are_shown_and_set(person: Person) -> None:
    assert person.types("config", "daily_calls", "3").out == "daily_calls is now 3\n"
    assert person.types("config", "daily_calls").out == "3\n"
    assert person.types("config", "--json").json["daily_calls"] == 3
    rows = {row.split()[0]: row for row in person.types("config").out.splitlines()}
    assert [name for name in rows if name != "Ignored:"] == list(DEFAULTS)
    numbers = "maximum model calls per day (0 to 1,000,000; default: 20)"
    assert rows["daily_calls"].split(maxsplit=2)[1:] == ["3", numbers]
    assert rows["model"].endswith("on, off, or ask, which is off until you decide (default: ask)")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("daily_calls", "²"), "whole number"),
        (("daily_calls", "12.5"), "whole number"),
        (("daily_calls", "9" * 5000), "whole number"),
        (("model", "gpt"), "must be on, off or ask"),
        (("nope", "1"), "unknown setting 'nope'"),
        (("nope",), "unknown setting 'nope'"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(person: Person, given: tuple[str, ...], why: str) -> None:
    assert why in person.fails("config", *given)
    assert not Path(person.place.config).exists()


def test_usage_tells_programs_numbers(person: Person) -> None:
    assert person.types("usage", "--json").json == {"model": "ask", "daily_calls": 20, "days": []}
    assert "No model calls so far." in person.types("usage").out


# -- export and import


def test_exported_and_imported_elsewhere_the_rules_are_the_same(person: Person, tmp_path: Path) -> None:
    Path("given.jsonl").write_text(RULES)
    assert person.types("import", "given.jsonl").out == (
        "Imported 3 new rules of 3.\n1 of them must be reviewed first: claude-smart review\n"
        "For all your projects, not only this one; to remove one: claude-smart forget\n- Prefer tabs\n"
    )
    assert person.types("export", "a copy ü.jsonl").out == "Wrote 3 rules to a copy ü.jsonl\n"
    before = person.types("export", "--json").json["rules"]
    assert person.types("config", "home", str(tmp_path / "another")).code == 0
    person.types("import", "a copy ü.jsonl")
    after = person.types("export", "--json").json["rules"]
    told = ("rule", "trigger", "why", "reach", "prefer", "avoid", "status", "said", "project")
    assert [[rule[name] for name in told] for rule in after] == [[rule[name] for name in told] for rule in before]
    assert {rule["status"] for rule in after} == {"active", "candidate"}


def test_what_is_known_already_changes_nothing(person: Person) -> None:
    person.types("tag", "Sign all commits — even small ones")
    Path("given.jsonl").write_text(RULES)
    assert person.types("import", "given.jsonl").out.startswith("Imported 2 new rules of 3.\n")
    before = person.types("export", "--json").json
    assert person.types("import", "given.jsonl").out == "Imported 0 new rules of 3.\n"
    assert person.types("export", "--json").json == before
    assert next(rule for rule in before["rules"] if rule["rule"].startswith("Sign"))["source"] == "note"


def test_what_was_forgotten_is_not_brought_back_by_a_file(person: Person) -> None:
    Path("given.jsonl").write_text(RULES)
    person.types("import", "given.jsonl")
    person.types("forget", "sign all commits")
    said = person.types("import", "given.jsonl").out
    assert said.startswith("Imported 0 new rules of 3.\n- Left out, because you forgot it here: Sign all commits")
    assert person.types("import", "given.jsonl", "--json").json["new"] == 0
    person.types("tag", "Sign all commits — even small ones")
    assert len(person.rules()) == 2


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "line 2 is not valid JSON"),
        ("[]", "line 2: a rule must be a JSON object"),
        ("[" * 100_000, "line 2 is not valid JSON"),
        ('{"format": "other"}', "line 2: unknown format 'other'"),
        ('{"rule": 5}', "line 2: `rule` must be a text"),
        ('{"rule": "x", "reach": "session"}', "line 2: unknown reach 'session'"),
        ('{"rule": "x", "status": "archived"}', "line 2: unknown status 'archived'"),
        ('{"rule": "x", "created_at": "once"}', "line 2: `created_at`"),
    ],
)
def test_a_damaged_line_is_named_and_nothing_is_taken_in(person: Person, line: str, why: str) -> None:
    Path("given.jsonl").write_text('{"rule": "Use tabs"}\n' + line + "\n")
    assert why in person.fails("import", "given.jsonl")
    assert person.rules() == []


def test_a_file_that_cannot_be_read_or_written_is_told(person: Person) -> None:
    person.types("tag", "Use tabs")
    Path("bytes").write_bytes(b"\xff\xfe")
    assert "there is no file" in person.fails("import", "nowhere")
    assert "cannot be read" in person.fails("import", "bytes")
    assert "cannot be read" in person.fails("import", ".")
    assert "cannot be written" in person.fails("export", "no/such/folder/x")
    assert not Path("no").exists()


def test_what_is_printed_can_be_read_again(person: Person) -> None:
    person.types("tag", "Prefer ünïcode 😀")
    lines = [json.loads(line) for line in person.types("export").out.splitlines()]
    assert lines[0]["format"] == "claude-smart rules 1"
    assert lines[1]["rule"] == "Prefer ünïcode 😀"


# -- clear-all


def test_nothing_is_erased_unasked(person: Person, answers: Callable[..., None]) -> None:
    person.types("tag", "Use tabs")
    assert "pass --yes" in person.fails("clear-all")
    answers("n")
    assert person.types("clear-all").code == 1
    assert len(person.rules()) == 1
    answers("y")
    assert person.types("clear-all").code == 0
    assert person.rules() == []


def test_a_project_is_erased_with_its_journals_and_no_other(person: Person) -> None:
    person.types("tag", "Use tabs")
    person.types("learn", "Never push to main", "--everywhere")
    person.opens("other")
    person.types("tag", "Use spaces", "--project", "name:other")
    person.talks("s1", "a telling sentence")
    person.types("learn")
    leaving = Path(person.place.journal_file("s1")).with_suffix(".done")
    Path(person.place.journal_file("s1")).rename(leaving)
    assert person.types("clear-all", "--yes", "--json").json["erased"] > 0
    assert [rule["rule"] for rule in person.rules()] == ["Never push to main"]
    assert [rule["rule"] for rule in person.rules("--project", "name:other")] == ["Never push to main", "Use spaces"]
    assert not leaving.exists()
    assert not any(b"telling" in path.read_bytes() for path in person.home.rglob("*") if path.is_file())


def test_it_says_what_it_erases_and_that_rules_of_all_projects_stay(
    person: Person, answers: Callable[..., None]
) -> None:
    person.types("tag", "Use tabs")
    person.types("tag", "Never push to main", "--everywhere")
    assert "this erases 1 rule of " in person.fails("clear-all")
    answers("y")
    said = person.types("clear-all")
    [rule] = person.rules()
    id = rule["id"][-8:]
    kept = f"Kept: 1 rule that applies in all projects. Erase it for good: claude-smart forget --everything {id}\n"
    kept += f"  [{id}] Never push to main\n"
    assert kept in said.err
    assert said.out.endswith(kept)
    person.types("tag", "Use tabs")
    person.types("forget", "--everything", id)
    assert [one["rule"] for one in person.rules()] == ["Use tabs"]
    answers("y")
    said = person.types("clear-all", "--everywhere")
    assert (
        "This erases everything learned and recorded, in every project, and the rules that apply in all projects."
        in said.err
    )
    assert person.rules() == []


def test_one_of_a_thing_is_told_in_the_singular(person: Person) -> None:
    person.opens("other")
    person.types("tag", "Use tabs")
    person.types("config", "daily_calls", "1")
    assert "at most 1 call a day" in person.types("usage").out
    person.types("export", "rules.jsonl")
    assert ". Moved 1 rule there." in person.types("project", "--share", "name:other").out
    person.types("forget", "tabs", "--everything")
    Path("rules.jsonl").write_text('{"rule": "Use spaces"}\n')
    assert person.types("import", "rules.jsonl").out == "Imported 1 new rule of 1.\n"


def test_everything_is_erased_even_from_a_store_that_cannot_be_read(person: Person) -> None:
    person.talks("s1", "a telling sentence")
    Path(person.place.db).write_bytes(b"no database at all" * 400)
    assert person.types("clear-all", "--everywhere", "--yes").code == 0
    assert person.types("status", "--json").json["journals"] == 0
    assert person.types("clear-all", "--everywhere", "--yes").out == "Nothing to erase.\n"
    person.types("tag", "Use tabs")
    assert len(person.rules()) == 1


def test_a_folder_of_journals_that_others_use_keeps_what_is_theirs(person: Person, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "letter.txt").write_text("dear Bob")
    assert person.types("config", "state_dir", str(shared)).code == 0
    place = DataDir(str(person.home), str(shared))
    place.create_folders()
    for name in ("s1.jsonl", "s1.shown", "s2.done", "wanted", "s3.jsonl.4711"):
        (shared / name).touch()
    assert person.types("clear-all", "--everywhere", "--yes").code == 0
    assert [path.name for path in shared.iterdir()] == ["letter.txt"]


def test_while_somebody_takes_in_what_was_recorded_nothing_is_erased(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.types("tag", "Use tabs")
    monkeypatch.setattr("claude_smart.rules.PATIENCE", 0.1)
    with try_lock(person.place.drain_lock) or pytest.fail("nobody else has it"):
        assert "try again" in person.fails("clear-all", "--yes")
    assert len(person.rules()) == 1
