"""`alma session`, `alma initialize` and `alma wake-up`."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

Run = Callable[..., Any]

HELENA = ("--agent", "helena")


@pytest.fixture
def started(project: Path, run: Run) -> str:
    return str(run("session", "start", *HELENA, "--goal", "Test the login", "--json").json["session_id"])


def test_start_prints_the_id_and_a_briefing(project: Path, run: Run) -> None:
    for _ in range(3):
        run("learn", *HELENA, "--task", "Test the login", "--outcome", "success", "--strategy", "Empty fields first")
    item = run("work", "add", "Mend the selectors", "--json").json["item"]["id"]
    ran = run("session", "start", *HELENA, "--goal", "Test the login", "--no-workspace")
    assert ran.code == 0
    assert ran.out.split()[:2] == ["session", "id"]
    for part in ("helena", "Test the login: Empty fields first", "items      1", "rules"):
        assert part in ran.out
    assert item[:14] in ran.out.partition("suggested focus")[2]
    assert "codebase state" not in ran.out


def test_start_looks_at_the_code(project: Path, run: Run) -> None:
    (project / "shop.py").write_text("x = 1\n")
    (project / "notes.txt").write_text("not committed\n")
    out = run("session", "start", *HELENA).out
    assert "codebase state" in out
    assert "Python 1" in out
    elsewhere = run("session", "start", *HELENA, "--workspace", str(project / ".alma"), "--json").json
    assert elsewhere["codebase_state"] is None


def test_a_repository_is_told_of(project: Path, run: Run) -> None:
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org"]
    try:
        subprocess.run(["git", "init", "-q", "-b", "trunk"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no git")
    (project / "shop.py").write_text("x = 1\n")
    (project / "notes.txt").write_text("not committed\n")
    subprocess.run(["git", "add", "shop.py"], check=True)
    subprocess.run([*git, "commit", "-qm", "Begin the shop"], check=True)
    out = run("session", "start", *HELENA).out
    assert "branch trunk" in " ".join(out.split())
    assert "changed files notes.txt" in " ".join(out.split())
    assert "Begin the shop" in out


def test_note_and_end_hand_over(started: str, run: Run) -> None:
    noted = run(
        "session", "note", *HELENA, "--action", "tested it", "--outcome", "failure", "--decision", "Tokens in memory",
        "--decision", "No cookies", "--file", "a.py", "--blocker", "staging is down", "--blocker", "no key",
        "--risk", "leaks", "--next", "Mend", "--test", "test_a=pass", "--test", "test_b=fail", "--confidence", "0.4",
    )  # fmt: skip
    assert noted.out.splitlines()[0] == f"noted in {started}"
    for part in (
        "tested it",
        "Tokens in memory",
        "No cookies",
        "a.py",
        "no key",
        "leaks",
        "test_a passed",
        "test_b failed",
        "0.40",
    ):
        assert part in noted.out
    session = run("session", "note", *HELENA, "--resolved", "no key", "--goal", "Mend it", "--json").json["session"]
    assert (session["blockers"], session["goal"], session["id"]) == (["staging is down"], "Mend it", started)
    ended = run("session", "end", *HELENA, "--next", "Mend the tests")
    assert ended.out.startswith(f"ended {started}")
    for part in ("Mend it", "tested it", "failure", "Mend the tests", "staging is down"):
        assert part in ended.out
    assert "previous handoff" in run("session", "start", *HELENA).out


def test_end_takes_what_is_said(started: str, run: Run) -> None:
    handoff = run(
        "session", "end", started, *HELENA, "--last-action", "ran all", "--outcome", "interrupted", "--goal", "G",
        "--decision", "D", "--file", "f.py", "--blocker", "B", "--risk", "R", "--test", "t=pass", "--confidence", "1",
        "--metadata", '{"n": 1}', "--json",
    ).json["handoff"]  # fmt: skip
    assert (handoff["last_action"], handoff["last_outcome"], handoff["current_goal"]) == ("ran all", "interrupted", "G")
    assert (handoff["key_decisions"], handoff["active_files"], handoff["blockers"]) == (["D"], ["f.py"], ["B"])
    assert (handoff["risk_flags"], handoff["test_status"], handoff["metadata"]) == (["R"], {"t": True}, {"n": 1})


def test_without_an_open_session_it_says_how_to_begin_one(project: Path, run: Run) -> None:
    for argv in (("note", "--action", "x"), ("end",)):
        ran = run("session", *argv, *HELENA)
        assert (ran.code, ran.out) == (1, "")
        assert ran.err == "error: helena has no open session; start one with `alma session start --agent helena`\n"


def test_with_several_open_sessions_one_must_be_named(started: str, run: Run) -> None:
    other = run("session", "start", *HELENA, "--json").json["session_id"]
    assert other[:14] in run("session", "start", *HELENA).out.partition("open sessions")[2]
    ran = run("session", "end", *HELENA)
    assert ran.code == 1
    assert f"{started} (Test the login)" in ran.err
    assert f"{other} (no goal)" in ran.err
    assert ran.err.count("\n") == 1
    assert run("session", "end", other, *HELENA).code == 0


def test_reload_is_exactly_the_text(started: str, run: Run) -> None:
    run("session", "end", *HELENA, "--next", "Go on")
    document = run("session", "reload", *HELENA, "--json").json
    assert run("session", "reload", *HELENA).out == document["text"] + "\n"
    assert document["text"].startswith("# helena in shop\n")
    assert "Go on" in document["text"]
    tight = run("session", "reload", *HELENA, "--max-tokens", "200").out
    assert 0 < len(tight) <= len(document["text"]) + 1


def test_list_and_show(started: str, run: Run) -> None:
    assert run("session", "list", "--agent", "ana").out == "No sessions yet. Start one with `alma session start`.\n"
    run("session", "note", *HELENA, "--action", "tested it")
    assert "handoff" not in run("session", "show", started, *HELENA).out
    run("session", "end", *HELENA, "--next", "tag the release")
    again = run("session", "start", *HELENA, "--goal", "Go on", "--json").json["session_id"]
    out = run("session", "list", *HELENA).out
    assert out.index("◐ open") < out.index(again[:14]) < out.index("✓ success") < out.index(started)
    document = run("session", "list", *HELENA, "--json").json
    assert [one["id"] for one in document["open"]] == [again]
    assert [one["session_id"] for one in document["previous"]] == [started]
    shown = run("session", "show", started, *HELENA)
    assert "ended" in shown.out
    assert "tested it" in shown.out
    assert shown.out.index("handoff:") < shown.out.index("tag the release")
    assert run("session", "show", started, *HELENA, "--json").json["session"]["state"] == "ended"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("show", "ses_none"), "has no session 'ses_none'"),
        (("end", "ses_none"), "has no session 'ses_none'"),
        (("note", "ses_none", "--action", "x"), "has no session 'ses_none'"),
        (("note",), "nothing to note"),
        (("note", "--test", "test_a"), "test_a' is not NAME=pass or NAME=fail"),
        (("note", "--test", "test_a=maybe"), "is not NAME=pass"),
        (("note", "--outcome", "success"), "pass --action with it"),
        (("note", "--action", "x", "--outcome", "fine"), "unknown outcome 'fine'"),
        (("note", "--confidence", "7"), "--confidence must be a number from 0 to 1, not 7"),
        (("end", "--metadata", "["), "metadata is not valid JSON"),
        (("reload", "--max-tokens", "0"), "--max-tokens must be a whole number"),
        (("list", "--limit", "0"), "limit must be a whole number"),
    ],
)
def test_bad_input_is_one_clear_line(started: str, run: Run, argv: tuple[str, ...], message: str) -> None:
    ran = run("session", *argv, *HELENA)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1
    assert message in ran.err
    assert run("session", "show", started, *HELENA, "--json").json["session"]["action_count"] == 0


def test_a_session_that_ended_takes_no_notes(started: str, run: Run) -> None:
    run("session", "end", *HELENA)
    assert "has ended" in run("session", "note", started, *HELENA, "--action", "x").err


PROMPT = "- Test the login form\n- Test password reset\n- Fix flaky selectors"


def test_initialize_makes_work_items_and_says_where_to_begin(project: Path, run: Run) -> None:
    ran = run("session", "prepare", PROMPT, *HELENA, "--no-workspace")
    assert ran.code == 0
    for part in (
        "session id",
        "Test password reset",
        "Fix flaky selectors",
        "recommended start",
    ):
        assert part in ran.out
    items = run("work", "list", "--json").json["items"]
    assert len(items) == 3
    # In full: ids of items made together differ only at the end.
    assert ran.out.count(items[0]["id"]) == 2


def test_initialize_from_standard_input_as_a_prompt(project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(PROMPT))
    out = run("session", "prepare", "-", *HELENA, "--prompt", "--no-workspace").out
    assert out.startswith("# helena in shop\nGoal: ")
    assert "Test password reset" in out


def test_initialize_without_items_and_with_a_domain(project: Path, run: Run) -> None:
    made = run("session", "prepare", PROMPT, *HELENA, "--no-expand", "--user", "ana", "--json").json
    assert made["work_items"] == []
    assert made["prompt"].startswith("# helena in shop")
    assert run("session", "prepare", PROMPT, *HELENA, "--domain", "coding").code == 0
    ran = run("session", "prepare", PROMPT, *HELENA, "--domain", "codin")
    assert "unknown schema 'codin'. Did you mean 'coding'?" in ran.err
    assert (
        "user_prompt" in run("session", "prepare", " ", *HELENA).err
        or "empty" in run("session", "prepare", " ", *HELENA).err
    )


def test_wake_up_is_exactly_the_text(project: Path, deployed: dict[str, str], run: Run) -> None:
    text = run("session", "wake-up", "--agent", "ops", "--json").json["text"]
    assert run("session", "wake-up", "--agent", "ops").out == text + "\n"
    assert text.startswith("You are ops, in the project shop.")
    assert "Blue-green deployment" in text
    about = run("session", "wake-up", "--agent", "ops", "--topic", "deploy the auth service", "--user", "ana").out
    assert about.startswith("### What worked (learned from outcomes)")
    assert run("session", "wake-up", "--agent", "ops", "--topic", "deploy", "--deep", "--json").json["text"]
    assert "--deep can only be used with --topic" in run("session", "wake-up", "--agent", "ops", "--deep").err


def test_a_session_without_notes_reports_no_success(project: Path, run: Run) -> None:
    run("session", "start", *HELENA)
    out = " ".join(run("session", "end", *HELENA).out.split())
    assert "last action none recorded last outcome unknown" in out
    run("session", "start", *HELENA)
    assert "last outcome failure" in " ".join(run("session", "end", *HELENA, "--outcome", "failure").out.split())
    run("session", "start", *HELENA)
    assert run("session", "end", *HELENA, "--json").json["handoff"]["last_outcome"] == "success"
