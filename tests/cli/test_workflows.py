"""`alma workflow` and `alma retrieve --scope`."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

FIRST = '{"version": "1.2", "done": ["lint"]}'


@pytest.fixture
def begun(project: Path, run: Run) -> None:
    """A run with a checkpoint on main, and one on a branch of it."""
    run("workflow", "start", "release", "--run", "r7", "--agent", "builder")
    run("workflow", "checkpoint", "r7", "build", "--state", FIRST)
    run("workflow", "fork", "r7", "fast")
    run("workflow", "checkpoint", "r7", "test", "--branch", "fast", "--state", '{"version": "1.2", "done": ["unit"]}')


def test_runs_begin_end_and_are_listed(project: Path, run: Run) -> None:
    assert run("workflow", "runs").out == "No runs. Start one with `alma workflow start`.\n"
    assert run("workflow", "start", "release", "--run", "r7").out == "running  r7  of release\n"
    other = run("workflow", "start", "release", "--metadata", '{"n": 1}', "--json").json["run"]
    assert other["metadata"] == {"n": 1}
    assert run("workflow", "end", "r7", "--status", "failed").out == "failed  r7  of release\n"
    out = run("workflow", "runs", "--workflow", "release").out
    assert "r7" in out
    assert other["run_id"] in out
    found = run("workflow", "runs", "--status", "failed", "--json").json
    assert [one["run_id"] for one in found["runs"]] == ["r7"]


def test_resume_prints_the_state_and_nothing_else(begun: None, run: Run) -> None:
    ran = run("workflow", "resume", "r7", "--branch", "main")
    assert json.loads(ran.out) == json.loads(FIRST)
    assert json.loads(run("workflow", "resume", "r7").out)["done"] == ["unit"]
    whole = run("workflow", "resume", "r7", "--node", "build", "--branch", "main", "--json").json["checkpoint"]
    assert (whole["number"], whole["state"]) == (1, json.loads(FIRST))


def test_a_state_comes_from_an_option_a_file_or_standard_input(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("s.json").write_text('{"a": 1}')
    save = ("workflow", "checkpoint", "r1", "n")
    assert run(*save, "--from", "s.json", "--workflow", "w").out.startswith("saved checkpoint 1 of r1 on main, after n")
    assert run(*save, "--from", "s.json").out.startswith("unchanged since checkpoint 1")
    for more in ((), ("--from", "-")):
        monkeypatch.setattr("sys.stdin", io.StringIO('{"a": 2}'))
        run(*save, *more)
    assert run(*save, "--state", '{"a": 3}', "--agent", "b", "--json").json["checkpoint"]["number"] == 3
    assert json.loads(run("workflow", "resume", "r1").out) == {"a": 3}


def test_history_newest_first(begun: None, run: Run) -> None:
    found = run("workflow", "history", "r7", "--json").json["checkpoints"]
    assert [(one["branch_id"], one["node_id"]) for one in found] == [
        ("fast", "test"),
        ("fast", "build"),
        ("main", "build"),
    ]
    out = run("workflow", "history", "r7", "--branch", "fast", "--limit", "1").out
    assert "version 1.2, done unit" in out
    assert "main" not in out


def test_merge_of_branches(begun: None, run: Run) -> None:
    ran = run(
        "workflow", "merge", "r7", "--branch", "main", "--branch", "fast", "--node", "join", "--reducer", "done=union"
    )
    assert ran.out.startswith("saved checkpoint 2 of r7 on main, after join")
    assert set(json.loads(run("workflow", "resume", "r7").out)["done"]) == {"lint", "unit"}
    again = ("workflow", "merge", "r7", "--branch", "main", "--branch", "fast", "--node", "join", "--default", "last")
    assert run(*again, "--into", "fast", "--json").json["checkpoint"]["branch_id"] == "fast"


def test_a_key_that_both_branches_changed_needs_a_reducer(begun: None, run: Run) -> None:
    run("workflow", "checkpoint", "r7", "docs", "--state", '{"version": "1.2", "done": ["docs"]}')
    ran = run("workflow", "merge", "r7", "--branch", "main", "--branch", "fast", "--node", "join")
    assert ran.code == 1
    assert ran.err.startswith("error: the key 'done' is")
    assert run("workflow", "history", "r7", "--json").json["count"] == 4


def test_merge_of_files(project: Path, run: Run) -> None:
    Path("base.json").write_text('{"n": 1, "list": []}')
    Path("a.json").write_text('{"n": 2, "list": ["a"]}')
    Path("b.json").write_text('{"n": 1, "list": ["b"]}')
    files = ("workflow", "merge", "--state", "a.json", "--state", "b.json", "--base", "base.json")
    ran = run(*files, "--reducer", "list=union")
    assert json.loads(ran.out) == {"n": 2, "list": ["a", "b"]}
    assert run(*files, "--default", "first", "--json").json["state"]["n"] == 2


def test_artifacts(begun: None, run: Run) -> None:
    Path("out.txt").write_text("made")
    assert run("workflow", "artifacts").out == "No artifacts. Add one with `alma workflow link`.\n"
    out = run("workflow", "link", "r7", "out.txt", "--node", "build", "--kind", "text", "--name", "the text").out
    assert "the text" in out
    assert "4 bytes" in out
    linked = run(
        "workflow", "link", "r7", "https://example.org/x", "--size", "9", "--digest", f"sha256:{'0' * 64}", "--json"
    ).json["artifact"]
    assert linked["size"] == 9
    found = run("workflow", "artifacts", "--run", "r7", "--node", "build", "--kind", "text", "--json").json
    assert [one["name"] for one in found["artifacts"]] == ["the text"]
    assert "example.org" in run("workflow", "artifacts", "--workflow", "release").out


def test_learn_records_an_outcome_for_each_strategy(begun: None, run: Run) -> None:
    ran = run("workflow", "learn", "r7", "--agent", "builder", "--outcome", "success", "--strategy", "In parallel")
    assert "Run the workflow release: In parallel → success" in " ".join(ran.out.split())
    made = run(
        "workflow", "learn", "r7", "--agent", "builder", "--node", "test", "--outcome", "failure", "--strategy", "One",
        "--strategy", "Two", "--task", "Test it", "--error", "timeout", "--duration-ms", "3", "--task-type", "t",
        "--feedback", "f", "--user", "ana", "--metadata", "{}", "--json",
    ).json  # fmt: skip
    assert [one["strategy_used"] for one in made["outcomes"]] == ["One", "Two"]
    assert made["outcomes"][0]["error_message"] == "timeout"


def test_learn_says_what_was_learned_from_it(project: Path, run: Run) -> None:
    for number in range(3):
        learn = ("workflow", "learn", f"r{number}", "--workflow", "release", "--agent", "builder")
        ran = run(*learn, "--outcome", "success", "--strategy", "In parallel")
    assert "heuristic formed" in ran.out


def test_cleanup_asks_and_keeps_the_newest(begun: None, run: Run, answering: Callable[[str], None]) -> None:
    for number in range(4):
        run("workflow", "checkpoint", "r7", "n", "--state", json.dumps({"n": number}))
    refused = run("workflow", "cleanup", "--keep", "1")
    assert refused.code == 1
    answering("no\n")
    assert run("workflow", "cleanup", "--keep", "1").out == "Nothing was changed.\n"
    assert "pass --yes" in refused.err
    old = run("workflow", "cleanup", "--run", "r7", "--older-than", "2001-01-01", "--yes")
    assert old.out == "deleted 0 checkpoints\n"
    assert run("workflow", "cleanup", "--run", "r7", "--keep", "1", "--yes").out == "deleted 4 checkpoints\n"
    assert json.loads(run("workflow", "resume", "r7", "--branch", "main").out) == {"n": 3}
    assert run("workflow", "cleanup", "--yes", "--json").json == {"count": 0}


BAD_INPUT: list[tuple[tuple[str, ...], str]] = [
    (("checkpoint", "r7", "n", "--state", "{"), "--state is not valid JSON"),
    (("checkpoint", "r7", "n", "--state", "[1]"), "--state must be a JSON object"),
    (("checkpoint", "r7", "n", "--from", "none.json"), "cannot read none.json"),
    (("checkpoint", "r7", "n", "--state", "{}", "--metadata", "x"), "metadata is not valid JSON"),
    (("resume", "none"), "there is no run 'none' in project 'shop'. The latest runs: r7."),
    (("link", "r8", "https://example.org/x"), "there is no run 'r8' in project 'shop'. The latest runs: r7."),
    (("artifacts", "--run", "r8"), "there is no run 'r8' in project 'shop'. The latest runs: r7."),
    (("resume", "r7", "--branch", "none"), "run_id r7, branch_id none"),
    (("history", "none"), "none"),
    (("end", "none"), "none"),
    (("end", "r7", "--status", "finished"), "unknown status 'finished'"),
    (("runs", "--status", "finished"), "unknown status 'finished'"),
    (("fork", "r7", "x", "--from", "none"), "run 'r7' has no checkpoint on branch 'none'"),
    (("fork", "r7", "fast"), "run 'r7' already has a branch 'fast'"),
    (("merge",), "workflow merge requires a RUN with --branch, or state files"),
    (("merge", "r7", "--state", "a.json"), "not both"),
    (("merge", "r7", "--branch", "main"), "requires --branch (once for each branch) and --node"),
    (("merge", "r7", "--branch", "main", "--node", "n", "--base", "x"), "--base can only be used with --state"),
    (("merge", "--state", "a.json", "--node", "n"), "can only be used with a RUN"),
    (("merge", "--state", "none.json"), "cannot read none.json"),
    (("merge", "r7", "--branch", "main", "--branch", "fast", "--node", "n", "--reducer", "done=sum"), "done"),
    (("merge", "r7", "--branch", "main", "--node", "n", "--reducer", "union"), "is not KEY=HOW"),
    (("merge", "r7", "--branch", "main", "--node", "n", "--default", "mix"), "mix"),
    (("link", "r7", "none.txt"), "none.txt"),
    (("learn", "none", "--agent", "b", "--outcome", "success", "--strategy", "s"), "none"),
    (("learn", "r7", "--agent", "b", "--outcome", "fine", "--strategy", "s"), "unknown outcome 'fine'"),
    (("cleanup", "--yes", "--older-than", "soon"), "--older-than must"),
    (("cleanup", "--yes", "--keep", "0"), "--keep must be a whole number"),
]


def test_bad_input_is_one_clear_line(begun: None, run: Run) -> None:
    wrong = []
    for argv, message in BAD_INPUT:
        ran = run("workflow", *argv)
        is_one_line = ran.err.startswith("error: ") and ran.err.count("\n") == 1
        is_unchanged = run("workflow", "history", "r7", "--json").json["count"] == 3
        if (ran.code, ran.out) != (1, "") or not is_one_line or message not in ran.err or not is_unchanged:
            wrong.append((argv, ran))
    assert not wrong


def test_a_checkpoint_over_the_limit_is_refused(begun: None, run: Run) -> None:
    Path("big.json").write_text(json.dumps({"x": "x" * 20_000_000}))
    ran = run("workflow", "checkpoint", "r7", "n", "--from", "big.json")
    assert ran.code == 1
    assert "bytes" in ran.err
    assert len(ran.err) < 500


def test_secrets_are_refused_or_taken_out(begun: None, run: Run) -> None:
    state = json.dumps({"key": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"})
    assert run("workflow", "checkpoint", "r7", "n", "--state", state).code == 1
    ran = run("workflow", "checkpoint", "r7", "n", "--state", state, "--redact")
    assert ran.code == 0
    assert "secrets removed from" in ran.out


def test_a_terminal_without_a_state_is_asked_for_one(begun: None, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal())
    assert "pass the state with --state JSON" in run("workflow", "checkpoint", "r7", "n").err


# -- scopes


@pytest.fixture
def two_runs(project: Path, run: Run) -> None:
    for number, way in ((1, "Build in parallel"), (2, "Build one by one")):
        learn = ("workflow", "learn", f"r{number}", "--workflow", "release", "--agent", "builder", "--task", "Build it")
        run(*learn, "--outcome", "success", "--strategy", way)


def test_a_scope_fences_what_is_found(two_runs: None, run: Run) -> None:
    ask = ("retrieve", "Build it", "--agent", "builder")
    inside = run(*ask, "--scope", "run", "--run", "r1", "--json").json
    assert [one["strategy_used"] for one in inside["memories"]] == ["Build in parallel"]
    around = run(*ask, "--scope", "workflow", "--workflow", "release", "--json").json
    assert around["total_items"] == 2
    assert "Build one by one" in run(*ask, "--scope", "agent").out
    assert run(*ask, "--scope", "tenant", "--tenant", "t1", "--json").json["memories"] == []


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--scope", "runs"), "unknown scope 'runs'. Did you mean 'run'?"),
        (("--run", "r1"), "--run can only be used with --scope"),
        (("--scope", "run", "--run", "r3"), "there is no run 'r3' in project 'shop'. The latest runs: r2, r1."),
        (("--scope", "run"), "run"),
        (("--scope", "run", "--run", "r1", "--since", "2026-01-01"), "--since cannot be used with --scope"),
        (("--scope", "agent", "--level", "turn", "--progressive"), "--level, --progressive cannot be used"),
    ],
)
def test_scopes_that_make_no_sense(two_runs: None, run: Run, argv: tuple[str, ...], message: str) -> None:
    ran = run("retrieve", "Build it", "--agent", "builder", *argv)
    assert (ran.code, ran.out) == (1, "")
    assert message in ran.err
