"""What a repaired command shows, read without a model."""

from __future__ import annotations

import pytest

from alma.reading.local import LocalReader, find_programs, is_same_attempt, names_change, split_command
from alma.reading.port import Repair


def test_the_note_quotes_both_commands() -> None:
    [shown] = LocalReader().explain_repairs([Repair("npm test", "watch mode needs a terminal", "npm test -- --run")])
    assert shown.note == "`npm test` failed, `npm test -- --run` worked"


@pytest.mark.parametrize(
    ("failed", "output", "worked"),
    [
        ("npm test", "2 failed, 3 passed", "npm test -- --run"),
        ("tsc -p .", "src/a.ts(1,2): error TS2345: no", "tsc -p app"),
        ("npm  test", "killed", "npm test"),
    ],
)
def test_failing_code_and_an_unchanged_command_show_nothing(failed: str, output: str, worked: str) -> None:
    assert LocalReader().explain_repairs([Repair(failed, output, worked)])[0].note == ""


def test_the_output_may_name_what_was_changed() -> None:
    assert names_change(Repair("npm run --foo x", "npm ERR! unknown option --foo", "npm run x"))
    assert not names_change(Repair("npm run x", "npm ERR! no network", "npm run x --offline"))


@pytest.mark.parametrize(
    ("failed", "worked", "expected"),
    [
        ("python a.py", "python3 a.py", True),
        ("cd app && npm test", "cd app && pnpm test", True),
        ("npm test", "npm run test", True),
        ("npm test", "make test", False),
        ("cat notes.txt", "rm notes.txt", False),
        ('echo "unclosed', "echo closed", True),
        ("", "ls", False),
    ],
)
def test_which_command_is_another_attempt(failed: str, worked: str, expected: bool) -> None:
    assert is_same_attempt(failed, worked) is expected


@pytest.mark.parametrize(
    ("command", "programs"),
    [
        ("cd /w && CI=1 npm test", ["npm"]),
        ("sudo /usr/bin/make x; ls", ["make", "ls"]),
        ("npx vitest", ["vitest"]),
        ("", []),
    ],
)
def test_the_programs_of_a_command_line(command: str, programs: list[str]) -> None:
    assert find_programs(split_command(command)) == programs
