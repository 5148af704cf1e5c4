"""`alma work` and `alma progress`."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.forked import find_command

from alma.cli import main

pytestmark = pytest.mark.system

Run = Callable[..., Any]


@pytest.fixture
def added(project: Path, run: Run) -> dict[str, str]:
    """A bug, and notes that wait for it."""
    bug = run("work", "add", "Fix the login bug", "--priority", "80", "--agent", "victor", "--json").json["item"]
    notes = run("work", "add", "Write notes", "--blocked-by", bug["id"], "--json").json["item"]
    return {"bug": bug["id"], "notes": notes["id"]}


def test_add_keeps_all_that_is_said(project: Path, run: Run) -> None:
    whole = run("work", "add", "Release", "--json").json["item"]
    item = run(
        "work", "add", "Fix it", "--description", "All of it", "--type", "bug", "--priority", "70", "--agent", "victor",
        "--parent", whole["id"], "--test", "test_a", "--test", "test_b", "--estimate", "12.5", "--tag", "x",
        "--metadata", '{"team": "core"}', "--blocks", whole["id"], "--json",
    ).json["item"]  # fmt: skip
    assert (item["title"], item["description"], item["item_type"]) == ("Fix it", "All of it", "bug")
    assert (item["priority"], item["agent"], item["parent_id"]) == (70, "victor", whole["id"])
    assert (item["tests"], item["estimate_minutes"], item["tags"]) == (["test_a", "test_b"], 12.5, ["x"])
    assert (item["metadata"], item["blocks"], item["status"]) == ({"team": "core"}, [whole["id"]], "pending")


def test_add_says_what_was_added_in_a_line(project: Path, run: Run) -> None:
    out = run("work", "add", "Fix it", "--agent", "victor").out
    assert out.startswith("added wrk_")
    assert out.split()[-4:] == ["50", "Fix", "it", "victor"]


def test_list_shows_the_most_urgent_first_and_what_waits_for_what(added: dict[str, str], run: Run) -> None:
    out = run("work", "list").out
    assert out.index("Fix the login bug") < out.index("Write notes")
    assert "⊘ blocked" in out
    assert added["bug"] in out.partition("Write notes")[2]
    assert added["notes"][:14] in out


def test_list_filters(added: dict[str, str], run: Run) -> None:
    run("work", "add", "Part", "--parent", added["bug"], "--tag", "small", "--type", "chore")

    def titles(*argv: str) -> list[str]:
        return [item["title"] for item in run("work", "list", *argv, "--json").json["items"]]

    assert titles() == ["Fix the login bug", "Write notes", "Part"]
    assert titles("--status", "blocked") == ["Write notes"]
    assert titles("--status", "blocked", "--status", "pending", "--limit", "2") == ["Fix the login bug", "Write notes"]
    assert titles("--agent", "victor") == ["Fix the login bug"]
    assert titles("--type", "chore") == titles("--tag", "small") == titles("--parent", added["bug"]) == ["Part"]


def test_an_empty_list_says_so(project: Path, run: Run) -> None:
    assert run("work", "list").out == "No work items. Add one with `alma work add`.\n"
    assert run("work", "list", "--json").json == {"count": 0, "items": []}


def test_done_frees_what_waited(added: dict[str, str], run: Run) -> None:
    out = run("work", "status", added["bug"], "done", "--note", "it was the cache", "--by", "victor").out
    before, _, after = out.partition("unblocked")
    assert "● done" in before
    assert added["notes"][:14] in after
    assert run("work", "show", added["notes"], "--json").json["item"]["status"] == "pending"


def test_show_tells_all_with_parts_and_history(added: dict[str, str], run: Run) -> None:
    run("work", "add", "A part", "--parent", added["bug"])
    run("work", "test", added["bug"], "test_login", "--fail")
    run("work", "status", added["bug"], "in_progress", "--by", "victor", "--note", "looking")
    out = run("work", "show", added["bug"]).out
    for part in ("◐ in progress", "Fix the login bug", "test_login failed", "A part", added["notes"], "looking"):
        assert part in out
    assert "status: pending → in_progress" in out
    document = run("work", "show", added["bug"], "--json").json
    assert [one["verb"] for one in document["history"]] == ["created", "tested", "status"]
    assert [part["title"] for part in document["parts"]] == ["A part"]


def test_history_alone(added: dict[str, str], run: Run) -> None:
    run("work", "edit", added["bug"], "--priority", "10", "--owner", "", "--by", "ana")
    out = run("work", "history", added["bug"]).out
    assert "edited by ana\n    priority: 80 → 10\n    agent: victor → none\n" in out
    assert len(run("work", "history", added["bug"], "--json").json["history"]) == 2


def test_edit_changes_only_what_is_given(added: dict[str, str], run: Run) -> None:
    item = run("work", "edit", added["bug"], "--title", "Mend it", "--owner", "", "--json").json["item"]
    assert (item["title"], item["agent"], item["priority"]) == ("Mend it", None, 80)
    ran = run("work", "edit", added["bug"])
    assert ran.code == 1
    assert "nothing to update" in ran.err


def test_next_says_what_to_do_and_how_to_take_it(added: dict[str, str], run: Run) -> None:
    out = run("work", "next", "--agent", "victor").out
    assert "Fix the login bug" in out
    assert f"to claim it: alma work claim {added['bug']} --agent victor" in out
    assert run("work", "next", "--strategy", "blocked_unblock", "--json").json["item"]["id"] == added["bug"]
    assert run("work", "next", "--agent", "ana", "--json").json == {"item": None, "waiting": 2}  # it is victor's
    assert f"to claim it: alma work claim {added['bug']} --agent victor" in run("work", "next").out


def test_next_with_claim_takes_it(added: dict[str, str], run: Run) -> None:
    item = run("work", "next", "--agent", "victor", "--claim", "--lease", "60", "--json").json["item"]
    assert (item["status"], item["claimed_by"]) == ("in_progress", "victor")
    ran = run("work", "next", "--agent", "ana")
    assert ran.code == 1
    assert ran.out == "no work item is available: 2 open items are blocked, in progress or owned by another agent\n"


def test_history_shows_times_without_fractions_of_a_second(added: dict[str, str], run: Run) -> None:
    run("work", "claim", added["bug"], "--agent", "victor")
    lines = run("work", "history", added["bug"]).out.splitlines()
    [until] = [line for line in lines if "claimed until" in line]
    assert re.fullmatch(r"    claimed until: none → [\d-]{10} [\d:]{8}", until)
    assert max(map(len, lines)) <= 100


def test_claim_renew_and_release(added: dict[str, str], run: Run) -> None:
    assert "claimed until" in run("work", "claim", added["bug"], "--agent", "victor").out
    assert run("work", "claim", added["bug"], "--agent", "victor", "--lease", "3700").code == 0
    released = run("work", "release", added["bug"], "--agent", "victor", "--note", "no time", "--json").json["item"]
    assert (released["status"], released["claimed_by"]) == ("pending", None)
    assert "no time" in run("work", "history", added["bug"]).out


def test_block_and_unblock(added: dict[str, str], run: Run) -> None:
    other = run("work", "add", "Other", "--json").json["item"]["id"]
    assert "⊘ blocked  50        Other" in run("work", "block", other, "--on", added["bug"]).out
    assert run("work", "unblock", other, "--from", added["bug"], "--json").json["item"]["status"] == "pending"


def test_tests_are_recorded(added: dict[str, str], run: Run) -> None:
    run("work", "test", added["bug"], "test_a", "--pass")
    out = run("work", "test", added["bug"], "test_b", "--fail").out
    assert "test_a passed, test_b failed" in out
    results = run("work", "show", added["bug"], "--json").json["item"]["test_results"]
    assert results == {"test_a": True, "test_b": False}


def test_archive_restore_and_all_that_are_done(added: dict[str, str], run: Run) -> None:
    run("work", "status", added["bug"], "done")
    assert "archived" in run("work", "archive", added["bug"]).out
    assert added["bug"][:14] not in run("work", "list").out
    assert added["bug"][:14] in run("work", "list", "--archived").out
    assert run("work", "restore", added["bug"], "--json").json["item"]["archived"] is False
    assert run("work", "archive", "--finished").out == "archived 0 work items\n"
    assert run("work", "archive", "--finished", "--older-than", "0").out == "archived 1 work item\n"


def test_search_finds_by_words(added: dict[str, str], run: Run) -> None:
    assert [item["id"] for item in run("work", "search", "login", "--json").json["items"]] == [added["bug"]]
    assert "Fix the login bug" in run("work", "search", "login").out


def test_delete_asks(added: dict[str, str], run: Run) -> None:
    refused = run("work", "delete", added["bug"])
    assert refused.code == 1
    assert "pass --yes" in refused.err
    assert run("work", "delete", added["bug"], "--yes").out == f"deleted {added['bug']}\n"
    assert run("work", "show", added["bug"]).code == 1
    assert run("work", "delete", added["notes"], "--yes", "--json").json == {"deleted": added["notes"]}


def test_delete_takes_no_for_an_answer(added: dict[str, str], run: Run, answering: Callable[[str], None]) -> None:
    answering("n\n")
    ran = run("work", "delete", added["bug"])
    assert (ran.code, ran.err) == (0, "Delete it and its history permanently? [y/N] ")
    assert ran.out.splitlines()[-1] == "Nothing was changed."
    answering("y\n")
    assert run("work", "delete", added["bug"]).out.splitlines()[-1] == f"deleted {added['bug']}"


def test_progress_counts_and_says_what_holds_up(added: dict[str, str], run: Run) -> None:
    run("work", "claim", added["bug"], "--agent", "victor")
    run("work", "status", run("work", "add", "Third", "--json").json["item"]["id"], "done")
    out = run("work", "progress").out
    assert "items      3\n" in out
    for part in ("done 1", "in_progress 1", "blocked 1"):
        assert part in " ".join(out.split())
    assert added["bug"] in out.partition("\nblocked\n")[2]
    assert "items      0\n" in run("work", "progress", "--agent", "ana").out
    summary = run("work", "progress", "--json").json
    assert (summary["items_total"], summary["by_status"]["done"]) == (3, 1)


def test_the_log_of_sessions(added: dict[str, str], run: Run) -> None:
    assert "No progress logged yet" in run("work", "progress", "--log").out
    run("work", "claim", added["bug"], "--agent", "victor")
    session = run("session", "start", "--agent", "victor", "--json").json["session_id"]
    run("session", "note", "--agent", "victor", "--action", "reading logs", "--log")
    out = run("work", "progress", "--log", "--session", session).out
    assert "reading logs" in out
    assert added["bug"] in out
    run("work", "delete", added["bug"], "--yes")
    [log] = run("work", "progress", "--log", "--agent", "victor", "--limit", "5", "--json").json["logs"]
    assert log["current_item_id"] == added["bug"]
    assert added["bug"] in run("work", "progress", "--log").out


BAD_INPUT: list[tuple[tuple[str, ...], str]] = [
    (("status", "{bug}", "finished"), "unknown status 'finished'"),
    (("status", "{bug}", "doone"), "Did you mean 'done'?"),
    (("status", "{notes}", "done"), "'Write notes' is blocked and cannot be set to done: it waits for wrk_"),
    (("status", "wrk_none", "done"), "there is no work item 'wrk_none'"),
    (("show", "wrk_none"), "there is no work item 'wrk_none'"),
    (("history", "wrk_none"), "there is no work item 'wrk_none'"),
    (("delete", "wrk_none", "--yes"), "there is no work item 'wrk_none'"),
    (("list", "--status", "finished"), "unknown status 'finished'"),
    (("list", "--limit", "0"), "limit must be a whole number"),
    (("next", "--strategy", "random"), "unknown strategy 'random'"),
    (("add", "x", "--metadata", "{"), "metadata is not valid JSON"),
    (("add", "x", "--priority", "101"), "priority must be a whole number"),
    (("add", "x", "--blocked-by", "wrk_none"), "there is no work item 'wrk_none'"),
    (("add", " "), "TITLE is empty"),
    (("block", "{bug}", "--on", "{notes}"), "cycle"),
    (("block", "{bug}", "--on", "{bug}"), "cycle"),
    (("release", "{bug}", "--agent", "ana"), "ana"),
    (("archive",), "work archive requires the ID of an item, or --finished"),
    (("archive", "{bug}", "--finished"), "not both"),
    (("archive", "{bug}", "--older-than", "3"), "--older-than can only be used with --finished"),
    (("archive", "{bug}"), "still blocks wrk_"),
    (("restore", "{bug}"), "'Fix the login bug' is not archived; its status is pending"),
]


def test_bad_input_is_one_clear_line(added: dict[str, str], run: Run) -> None:
    before = run("work", "list", "--archived", "--json").json
    wrong = []
    for argv, message in BAD_INPUT:
        ran = run("work", *(added.get(word.strip("{}"), word) for word in argv))
        is_one_line = ran.err.startswith("error: ") and ran.err.count("\n") == 1
        is_unchanged = run("work", "list", "--archived", "--json").json == before
        if (ran.code, ran.out) != (1, "") or not is_one_line or message not in ran.err or not is_unchanged:
            wrong.append((argv, ran))
    assert not wrong


def test_a_status_as_a_command_is_answered_with_the_command(added: dict[str, str], run: Run) -> None:
    ran = run("work", "done", added["bug"])
    assert ran.code == 2
    assert "unknown command 'done'. Did you mean `alma work status ID done`?" in ran.err


def test_what_another_has_claimed_cannot_be_changed(added: dict[str, str], run: Run) -> None:
    run("work", "claim", added["bug"], "--agent", "victor")
    for argv in (("status", added["bug"], "done", "--by", "ana"), ("claim", added["bug"], "--agent", "ana")):
        ran = run("work", *argv)
        assert ran.code == 1
        assert "claimed by 'victor'" in ran.err or "victor" in ran.err


def test_options_of_the_log_go_with_the_log(project: Path, run: Run) -> None:
    assert "can only be used with --log" in run("work", "progress", "--limit", "3").err


def test_processes_that_claim_at_once_get_different_items(project: Path, run: Run) -> None:
    for number in range(6):
        run("work", "add", f"Item {number}", "--json")
    command = [*find_command(), "work", "next", "--claim", "--json", "--agent"]
    claims = [
        subprocess.Popen([*command, f"agent{number}"], cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for number in range(4)
    ]
    said = [claim.communicate(timeout=120) for claim in claims]
    assert [claim.returncode for claim in claims] == [0] * 4, said
    taken = [json.loads(out)["item"] for out, _ in said]
    assert len({item["id"] for item in taken}) == 4
    assert {item["claimed_by"] for item in taken} == {f"agent{number}" for number in range(4)}


def test_colours_only_on_a_terminal(added: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    main(["work", "progress"])
    assert "\x1b[31m" in capsys.readouterr().out
    main(["work", "progress", "--no-color"])
    assert "\x1b[31m" not in capsys.readouterr().out
