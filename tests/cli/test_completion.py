"""`alma completion`: the scripts know what the parser knows."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alma.cli.completion import SCRIPTS, Place, places
from alma.cli.parser import build_parser

Run = Callable[..., Any]
Complete = Callable[..., list[str]]

ALL = list(places(build_parser()))


@pytest.fixture
def complete(tmp_path: Path, run: Run) -> Complete:
    """What bash offers after these words, the last of which is being typed."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    script = tmp_path / "alma.bash"
    script.write_text(run("completion", "bash").out)
    ask = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); _alma; printf "%s\\n" "${COMPREPLY[@]}"'

    def complete(*words: str) -> list[str]:
        done = subprocess.run(
            [bash, "--norc", "--noprofile", "-c", ask, "bash", str(script), "alma", *words],
            capture_output=True, text=True, cwd=tmp_path, check=True, timeout=60,
        )  # fmt: skip
        assert done.stderr == ""
        return done.stdout.split("\n")[:-1] if done.stdout.strip() else []

    return complete


def test_bash_completes_commands(complete: Complete) -> None:
    assert complete("wo") == ["work", "workflow"]
    assert complete("work", "cl") == ["claim"]
    assert complete("add", "kn") == ["knowledge"]
    assert complete("--json", "calib") == ["calibration"]


def test_bash_completes_every_place(complete: Complete) -> None:
    for place in ALL[::4]:
        assert set(complete(*place.path.split(), "")) >= set(place.commands)
        flags = {flag for option in place.options for flag in option.flags}
        assert set(complete(*place.path.split(), "--")) == {flag for flag in flags if flag.startswith("--")}


def test_bash_completes_values(complete: Complete) -> None:
    assert complete("work", "list", "--status", "p") == ["pending"]
    assert complete("work", "status", "wrk_1", "d") == ["done"]
    assert complete("retrieve", "x", "--scope", "g") == ["global"]
    assert complete("learn", "--outcome", "s") == ["success"]
    assert complete("completion", "f") == ["fish"]
    assert complete("learn", "--task", "") == []


def test_the_value_of_an_option_is_no_command(complete: Complete) -> None:
    assert complete("--config", "work", "sta") == ["stats"]
    assert complete("learn", "--task", "work", "--out") == ["--outcome"]


def test_bash_completes_files(complete: Complete, tmp_path: Path) -> None:
    (tmp_path / "two words.jsonl").touch()
    assert complete("learn", "--from", "tw") == ["two words.jsonl"]
    assert complete("add", "episode", "tw") == ["two words.jsonl"]


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_script_names_every_command_and_option(run: Run, shell: str) -> None:
    script = run("completion", shell).out
    for place in ALL:
        for option in place.options:
            assert all(flag.lstrip("-") in script for flag in option.flags)
        assert all(value in script for option in place.options for value in option.values)
        assert place.path in script
    assert run("completion", shell, "--json").json["script"].strip() == script.strip()


def test_words_of_help_cannot_break_out_of_a_script() -> None:
    place = Place("", {"odd": "it's `this`: \\ $(that)"}, (), ())
    assert "'odd:it'\\''s `this`: \\ $(that)'" in SCRIPTS["zsh"]([place])
    assert "-d 'it\\'s `this`: \\\\ $(that)'" in SCRIPTS["fish"]([place])


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
