"""The process boundary: help, exit codes, errors, pipes."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.forked import find_command

from alma import __version__
from alma.cli import main
from alma.cli.derive import RENAMED, SUMMARIES, build_parser
from alma.errors import ALMAError

Run = Callable[..., Any]

COMMANDS = tuple(SUMMARIES)


def alma(*argv: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*find_command(), *argv],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=cwd,
        env={**os.environ, "PYTHONUTF8": "1", **more},
        check=False,
    )


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def test_version(run: Run) -> None:
    ran = run("--version")
    assert (ran.code, ran.out.strip()) == (0, f"alma {__version__}")


def paths(parser: argparse.ArgumentParser, before: str = "") -> dict[str, argparse.ArgumentParser]:
    """Every command and what is below it, such as `work` and `work add`."""
    found = {}
    for name, sub in subcommands(parser).items():
        found[f"{before}{name}"] = sub
        found |= paths(sub, f"{before}{name} ")
    return found


PARSER = build_parser()
ALL = paths(PARSER)


def test_the_commands_are_few_and_none_is_the_twin_of_another() -> None:
    assert len(COMMANDS) == len(set(COMMANDS)) <= 52
    assert {path.split()[0] for path in ALL} == set(COMMANDS)
    assert not set(RENAMED) & set(COMMANDS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (("health",), ("doctor", "--quick")),
        (("progress",), ("work", "progress")),
        (("forget", "--dry-run"), ("archive", "--dry-run")),
        (("wake-up", "--agent", "ops"), ("session", "wake-up", "--agent", "ops")),
        pytest.param(("erase-user", "ana", "--yes"), ("delete", "--user", "ana", "--yes"), marks=pytest.mark.system),
        (("calibration",), ("confidence", "calibration")),
    ],
)
def test_an_old_name_works_with_a_hint(project: Path, run: Run, old: tuple[str, ...], new: tuple[str, ...]) -> None:
    before, now = run("--config", ".alma/config.yaml", *old, "--json"), run(*new, "--json")
    assert before.json.keys() == now.json.keys()
    assert before.err == f"hint: `alma {old[0]}` is now `alma {RENAMED[old[0]]}`\n"
    assert now.err == ""
    assert f"\n  {old[0]} " not in run("--help").out


def test_what_was_meant_is_said(run: Run) -> None:
    assert "Did you mean 'list'?" in run("lst").err
    assert "Did you mean 'status'?" in run("work", "statsu", "x").err
    assert "Did you mean '--limit'?" in run("list", "--limt", "3").err


def test_every_command_has_help_with_a_description_and_an_example(run: Run) -> None:
    wrong = []
    for path, parser in ALL.items():
        ran = run(*path.split(), "--help")
        examples = ran.out.partition("examples:")[2].partition("shared options")[0]
        description = parser.description or ""
        is_narrow = all(len(line) < 80 for line in description.splitlines())
        if ran.code != 0 or f"alma {path}" not in examples or not description or not is_narrow:
            wrong.append(path)
    assert not wrong


def test_every_example_is_understood() -> None:
    """Each line of the examples that begins with `alma` parses, but for shells' own words."""
    wrong = []
    for path, parser in ALL.items():
        text = (parser.epilog or "").replace("\\\n", " ")
        for line in text.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] != ["alma"] or {">", ">>", "<", "|"} & set(words):
                continue
            try:
                PARSER.parse_args(words[1:])
            except (SystemExit, ALMAError) as error:
                wrong.append(f"{path}: {line}: {error!r}")
    assert not wrong


def test_every_command_takes_json() -> None:
    wrong = []
    for path, parser in ALL.items():
        if not any("--json" in action.option_strings for action in parser._actions):
            wrong.append(path)
    assert not wrong


def test_a_command_is_the_same_whether_all_are_loaded_or_only_it() -> None:
    wrong = []
    for name in COMMANDS:
        parser = build_parser([name])
        alone = paths(parser)
        wrong += [path for path in ALL if path.split()[0] == name and not is_same_help(path, alone)]
        if [*subcommands(parser)] != [*subcommands(PARSER)]:
            wrong.append(name)
    assert not wrong


def is_same_help(path: str, alone: dict[str, argparse.ArgumentParser]) -> bool:
    return path in alone and alone[path].format_help() == ALL[path].format_help()


@pytest.mark.system
@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["--version"],
        ["completion", "bash"],
        ["__complete", "wo"],
        ["token", "--help"],
        ["mcp", "--help"],
        ["serve", "--help"],
    ],
    ids=" ".join,
)
def test_what_needs_no_memory_loads_none(project: Path, argv: list[str]) -> None:
    code = f"""if True:
        import sys
        from alma.cli import main
        main({argv!r})
        heavy = ("alma.memory", "alma.progress", "rich", "yaml", "numpy", "mcp", "uvicorn", "httpx")
        sys.exit(str([name for name in sys.modules if name in heavy]))
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "[]"


def test_what_can_be_added_has_help(run: Run) -> None:
    for kind in subcommands(subcommands(build_parser())["add"]):
        ran = run("add", kind, "--help")
        assert ran.code == 0
        assert "--tag" in ran.out


def test_the_general_help_lists_every_command(run: Run) -> None:
    text = run("--help").out
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert all(
        f"\n{title}:\n" in text
        for title in ("start", "everyday", "memories", "knowledge", "maintenance", "integrations")
    )


def test_without_a_command_it_shows_help_and_calls_it_wrong_usage(run: Run) -> None:
    ran = run()
    assert ran.code == 2
    assert "usage: alma" in ran.err


WRONG_USAGE = [
    ["nonsense"],
    ["show"],
    ["feedback", "x", "maybe"],
    ["add", "rumour"],
    ["init", "--x"],
    ["work"],
    ["session", "start"],
    ["work", "test", "x", "y"],
    ["work", "test", "x", "y", "--pass", "--fail"],
    ["confidence", "assess", "x"],
    ["work", "add"],
    ["domains", "show"],
    ["workflow", "start"],
    ["completion", "tcsh"],
    ["session", "wake-up"],
    ["work", "add", "x", "--priority", "high"],
    ["ingest"],
    ["ingest", "x", "--own", "--not-own"],
    ["ingest", "x", "--max-file-bytes", "many"],
    ["usage", "--days", "few"],
    ["graph"],
    ["graph", "path", "x"],
    ["graph", "merge", "x"],
    ["rules", "export"],
    ["add", "many"],
    ["token", "add"],
    ["mcp", "install"],
    ["mcp", "install", "--client", "emacs"],
    ["mcp", "--transport", "pigeon"],
    ["serve", "--port", "http"],
]


def test_wrong_usage_is_2(run: Run) -> None:
    wrong = []
    for argv in WRONG_USAGE:
        ran = run(*argv)
        if ran.err.startswith("usage: alma"):  # a group without a command shows what there is
            is_clear = "commands:" in ran.err
        else:
            has_hint = re.search(r" Run `alma( [a-z -]+)? --help` for help\.\n$", ran.err) is not None
            is_clear = ran.err.startswith("error: ") and has_hint and ran.err.count("\n") == 1
        if ran.code != 2 or not is_clear:
            wrong.append((argv, ran))
    assert not wrong


def test_an_error_is_one_line_on_standard_error(project: Path, run: Run) -> None:
    ran = run("show", "heu_nothing")
    assert (ran.code, ran.out) == (1, "")
    hint = "list or search the memories to find its id (`alma list --status all`)"
    assert ran.err == f"error: there is no memory 'heu_nothing' in project 'shop'; {hint}\n"


def test_an_error_as_json_is_on_standard_output(project: Path, run: Run) -> None:
    ran = run("show", "heu_nothing", "--json")
    assert (ran.code, ran.err) == (1, "")
    assert ran.json["error"]["type"] == "NotFoundError"
    assert ran.json["error"]["message"].startswith("there is no memory 'heu_nothing' in project 'shop'; ")
    assert ran.json.keys() == {"error"}


def test_shared_options_may_stand_before_or_after_the_command(project: Path, run: Run) -> None:
    assert run("--json", "stats").json == run("stats", "--json").json


def test_a_missing_configuration_says_how_to_write_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ALMA_CONFIG", raising=False)
    ran = run("list")
    assert ran.code == 1
    assert "alma init" in ran.err
    assert "alma init" in run("list", "--config", "nowhere.yaml").err


def test_the_configuration_may_be_named(
    project: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = project / ".alma" / "config.yaml"
    monkeypatch.chdir(tmp_path)
    assert run("stats", "--json", "--config", str(file)).json["project_id"] == "shop"
    monkeypatch.setenv("ALMA_CONFIG", str(file))
    assert run("stats", "--json").json["project_id"] == "shop"


def test_ctrl_c_is_130(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("alma.stores.sqlite.SQLiteStore.scan", interrupted)
    assert main(["list"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_warnings_of_the_library_go_to_standard_error(project: Path, run: Run) -> None:
    ran = run("feedback", "--shown", "no-such-memory", "--json")
    assert ran.err.startswith("warning: ")


@pytest.mark.system
def test_it_runs_as_a_module(project: Path) -> None:
    done = alma("stats", "--json", cwd=project)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["project_id"] == "shop"


@pytest.mark.system
@pytest.mark.parametrize("argv", [("list", "--json"), ("list",)])
@pytest.mark.skipif(os.name != "posix", reason="pipes differ")
def test_a_closed_pipe_leaves_no_traceback(project: Path, deployed: dict[str, str], argv: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run([*find_command(), *argv], cwd=project, stdout=closed, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.system
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no file that is always full")
@pytest.mark.parametrize("argv", [("list",), ("list", "--json"), ("work", "list", "--json")])
def test_a_full_disk_is_one_line(project: Path, deployed: dict[str, str], argv: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*find_command(), *argv],
            cwd=project,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("error: cannot write the output: No space left")


@pytest.mark.system
def test_no_colour_when_piped_and_none_when_unwanted(project: Path, deployed: dict[str, str]) -> None:
    assert "\x1b[" not in alma("list", cwd=project).stdout
    forced = alma("list", cwd=project, FORCE_COLOR="1").stdout
    assert "\x1b[3" in forced
    for plain in (
        alma("list", "--no-color", cwd=project, FORCE_COLOR="1").stdout,
        alma("list", cwd=project, FORCE_COLOR="1", NO_COLOR="1").stdout,
    ):
        assert "\x1b[3" not in plain
