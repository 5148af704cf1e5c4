"""The program as a process: its streams, and what it says when they fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from .conftest import Person

pytestmark = pytest.mark.system

PROGRAM = [sys.executable, "-m", "claude_smart"]


def environ(person: Person, **more: str) -> dict[str, str]:
    return {**os.environ, **more}


@pytest.mark.skipif(os.name == "nt", reason="has other pipes")
def test_a_reader_that_leaves_early_sees_no_complaint(person: Person) -> None:
    for number in range(3):
        person.types("tag", f"Use rule number {number}")
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*PROGRAM, "export"], stdout=writing, stderr=subprocess.PIPE, env=environ(person))
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a full disk")
def test_a_full_disk_behind_the_output_is_told(person: Person) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*PROGRAM, "config"], stdout=full, stderr=subprocess.PIPE, env=environ(person))
    assert done.returncode != 0
    assert done.stderr.startswith(b"claude-smart: ")
    assert b"Traceback" not in done.stderr


def test_a_terminal_that_knows_few_signs_is_served(person: Person) -> None:
    person.types("tag", "Prefer ünïcode 😀")
    for command in (["show"], ["show", "--json"]):
        done = subprocess.run(
            [*PROGRAM, *command], capture_output=True, env=environ(person, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
        )
        assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["rules"][0]["rule"] == "Prefer ünïcode 😀"


def test_what_was_typed_wrong_is_told_with_another_code(person: Person) -> None:
    for wrong in ([], ["nope"], ["learn", "--days", "x"]):
        with pytest.raises(SystemExit) as ended:
            person.types(*wrong)
        assert ended.value.code == 2


def test_a_command_that_is_nearly_right_is_suggested(person: Person) -> None:
    with pytest.raises(SystemExit):
        person.types("shwo")
    assert "unknown command 'shwo'. Did you mean 'show'?" in person.capture.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["review", "nope"], "review takes no argument 'nope'; decide with --accept nope or --reject nope."),
        (["review", "accept", "all"], "review takes no argument 'accept all'; decide with --accept-all."),
        (["review", "reject", "abcd"], "review takes no argument 'reject abcd'; decide with --reject abcd."),
        (["review", "all"], "review takes no argument 'all'; decide with --accept-all or --reject-all."),
        (["review", "--accept"], "--accept needs at least one value."),
        (["status", "now"], "status takes no argument 'now'."),
        (["show", "--playbok"], "unknown option '--playbok'. Did you mean '--playbook'? Valid: --json, "),
        (["edit", "x", "--reach", "far"], "unknown value 'far' for --reach. Valid: once, session, project, always."),
        (["learn", "--days", "x"], "--days must be a whole number, not 'x'."),
        (["config", "--reach", "x"], "unknown option '--reach'. Valid: --json, --adopt."),
    ],
)
def test_wrong_arguments_are_explained_on_one_line(person: Person, arguments: list[str], reason: str) -> None:
    with pytest.raises(SystemExit) as ended:
        person.types(*arguments)
    said = person.capture.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    [line] = said.err.splitlines()
    assert line.startswith(f"claude-smart: {reason}")
    assert line.endswith(f"See claude-smart {arguments[0]} --help")


@pytest.mark.parametrize("option", ["--reach", "--trigger=tests", "--everywher"])
def test_an_option_that_tag_does_not_have_is_not_part_of_the_note(person: Person, option: str) -> None:
    for command in ("tag", "learn"):
        with pytest.raises(SystemExit) as ended:
            person.types(command, "Use tabs", option, "always")
        [line] = person.capture.readouterr().err.splitlines()
        assert ended.value.code == 2
        assert line.startswith(f"claude-smart: unknown option {option.partition('=')[0]!r}.")
        assert f"Put -- before a note that contains it: `claude-smart {command} -- NOTE`" in line
    assert person.rules() == []
    person.types("tag", "--", "Use tabs", option, "always")
    person.types("tag", "never pass", "--no-verify")
    assert [one["rule"] for one in person.rules()] == [f"Use tabs {option} always", "never pass --no-verify"]


def test_only_options_that_the_command_has_are_listed(person: Person) -> None:
    for option in ("--reach", "--days"):
        with pytest.raises(SystemExit):
            person.types("tag", "Use tabs", option, "3")
        reason = f"unknown option '{option}'. Valid: --json, --project, --everywhere. Put -- before"
        said = person.capture.readouterr().err
        assert reason in said
        assert said.endswith("See claude-smart tag --help\n")


def test_an_option_before_the_command_is_explained(person: Person) -> None:
    for option in ("--project", "--json"):
        with pytest.raises(SystemExit) as ended:
            person.types(option, "show")
        assert ended.value.code == 2
        reason = f"claude-smart: {option} comes after the command: `claude-smart show {option} …`."
        assert person.capture.readouterr().err.startswith(reason)


def test_a_project_that_is_not_known_is_refused_and_the_known_ones_are_named(person: Person) -> None:
    assert person.fails("tag", "Use tabs", "--project", "nope") == "there is no project 'nope'. Known: none"
    person.types("tag", "Use tabs")
    person.opens("other")
    reason = person.fails("tag", "Use tabs", "--project", "nope")
    assert reason.startswith("there is no project 'nope'. Known: name:other, path:")
    assert len(person.rules()) == 1
    assert person.types("tag", "Use spaces", "--project", "name:other").code == 0


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_home_that_cannot_be_written_is_told(person: Person) -> None:
    person.home.mkdir(0o500)
    for command in (["tag", "x"], ["pause"], ["config", "daily_calls", "3"]):
        assert str(person.home) in person.fails(*command)
