"""`alma completion`: the scripts ask alma itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .test_main import ALL, COMMANDS

pytestmark = pytest.mark.system

Run = Callable[..., Any]

SHELLS = ("bash", "zsh", "fish")


def complete(run: Run, *words: str) -> list[str]:
    return [line for line in run("__complete", *words).out.splitlines() if line]


def test_commands(run: Run) -> None:
    assert complete(run, "") == list(COMMANDS)
    assert complete(run, "wo") == ["work", "workflow"]
    assert complete(run, "work", "cl") == ["claim"]
    assert complete(run, "add", "kn") == ["knowledge"]
    assert complete(run, "--json", "confidence", "cal") == ["calibration"]


def test_every_option_of_every_command(run: Run) -> None:
    for path, parser in list(ALL.items())[::4]:
        flags = {flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")}
        assert set(complete(run, *path.split(), "--")) == flags


def test_values(run: Run) -> None:
    assert complete(run, "work", "list", "--status", "p") == ["pending"]
    assert complete(run, "work", "status", "wrk_1", "d") == ["done"]
    assert complete(run, "retrieve", "x", "--scope", "g") == ["global"]
    assert complete(run, "learn", "--outcome", "s") == ["success"]
    assert complete(run, "completion", "f") == ["fish"]
    assert complete(run, "learn", "--task", "") == []


def test_the_value_of_an_option_is_no_command(run: Run) -> None:
    assert complete(run, "--config", "work", "sta") == ["stats"]
    assert complete(run, "learn", "--task", "work", "--out") == ["--outcome"]


def test_bash_asks_alma(run: Run, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    (tmp_path / "alma.bash").write_text(run("completion", "bash").out)
    (tmp_path / "alma").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m alma "$@"\n')
    (tmp_path / "alma").chmod(0o755)
    ask = 'source ./alma.bash; COMP_WORDS=(alma work "li"); COMP_CWORD=2; _alma; printf "%s\\n" "${COMPREPLY[@]}"'
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [bash, "--norc", "-c", ask],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
        timeout=60,
        env={**os.environ, "PATH": path},
    )
    assert (done.stdout, done.stderr) == ("list\n", "")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_for_every_shell(run: Run, shell: str) -> None:
    script = run("completion", shell).out
    assert "alma __complete" in script
    assert run("completion", shell, "--json").json["script"].strip() == script.strip()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_their_script(run: Run, tmp_path: Path, shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell}")
    script = tmp_path / "script"
    script.write_text(run("completion", shell).out)
    subprocess.run([program, "-n", str(script)], check=True, timeout=60)


def test_how_to_turn_it_on_is_in_the_help(run: Run) -> None:
    assert "source <(alma completion bash)" in run("completion", "--help").out
