"""A command that failed and then worked in another form."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from alma.coding.events import Event
from alma.coding.session import RepairedCommand, build_session

Happening = Callable[..., Event]


def history(happens: Happening, script: str) -> list[Event]:
    """A line a step: `! npm test` fails, `$ npm test` works, `~ a.ts` edits, `? x` asks, `. x` reads, `& x` starts."""
    made = []
    for step in filter(None, map(str.strip, script.splitlines())):
        kind, _, what = step.partition(" ")
        command = {"tool_name": "Bash", "tool_input": {"command": what}}
        match kind:
            case "!":
                made.append(happens("PostToolUseFailure", error=f"Exit code 1\n{what}: no", **command))
            case "$":
                made.append(happens("PostToolUse", output="ok", **command))
            case "&":
                background = {"command": what, "run_in_background": True}
                made.append(happens("PostToolUse", tool_name="Bash", tool_input=background, output="started"))
            case "~":
                made.append(happens("PostToolUse", tool_name="Edit", tool_input={"file_path": what}))
            case ".":
                made.append(happens("PostToolUse", tool_name="Read", tool_input={"file_path": what}))
            case "?":
                made.append(happens("UserPromptSubmit", prompt=what))
    return made


def pairs(happens: Happening, script: str) -> list[tuple[str, str, int]]:
    found = build_session(history(happens, script)).repairs
    return [(one.failed, one.worked, one.edits) for one in found]


def test_what_worked_is_paired_with_what_failed(happens: Happening) -> None:
    [fixed] = build_session(history(happens, "! npm test\n$ npm test -- --run")).repairs
    assert fixed == RepairedCommand(
        failed="npm test",
        error="Exit code 1\nnpm test: no",
        worked="npm test -- --run",
        offset=20,
        ids=("e1", "e2"),
    )


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("! npm test\n~ a.ts\n$ npm test", []),
        ("! npm test\n$ npm test", []),
        ("! npm  test\n$ npm test\n$ npm test --run", []),
        ("! npm test\n$ ls\n$ npm run test", [("npm test", "npm run test", 0)]),
        ("! npm test\n~ a.ts\n$ ls\n. b.ts\n$ npm run test", [("npm test", "npm run test", 1)]),
        ("! npm test\n$ npm run a\n$ npm run b", [("npm test", "npm run a", 0)]),
        ("! npm a\n! npm b\n$ npm c", [("npm a", "npm c", 0), ("npm b", "npm c", 0)]),
        ("! npm a\n! npm a\n$ npm c", [("npm a", "npm c", 0)]),
        ("! npm a\n! npm a --x\n$ npm a", [("npm a --x", "npm a", 0)]),
        ("! npm test\n$ make test", []),
        ("! npm test\n& npm start", []),
        ("! npm test\n" + ". x\n" * 5 + "$ npm run test", [("npm test", "npm run test", 0)]),
        ("! npm test\n" + ". x\n" * 6 + "$ npm run test", []),
        ("! npm test\n? try run\n$ npm run test", [("npm test", "npm run test", 0)]),
        ("! npm test\n? no\n? again\n$ npm run test", []),
        ("! npm test\n? <task-notification>x\n? <task-notification>y\n$ npm run t", [("npm test", "npm run t", 0)]),
    ],
)
def test_which_success_answers_which_failure(
    happens: Happening, script: str, expected: list[tuple[str, str, int]]
) -> None:
    assert pairs(happens, script) == expected


def test_a_command_that_the_person_stopped_did_not_fail(happens: Happening) -> None:
    stopped = happens(
        "PostToolUseFailure", tool_name="Bash", tool_input={"command": "npm test"}, error="x", is_interrupt=True
    )
    assert build_session([stopped, *history(happens, "$ npm run test")]).repairs == []


def test_output_that_shows_a_bad_exit_is_a_failure(happens: Happening) -> None:
    bad = happens("PostToolUse", tool_name="Bash", tool_input={"command": "npm test"}, output="Exit code 1\nno")
    [fixed] = build_session([bad, *history(happens, "$ npm run test")]).repairs
    assert fixed.error == "Exit code 1\nno"


@pytest.mark.parametrize(("output", "error"), [("boom", "boom"), ("", "Exit code 1")])
def test_an_exit_code_that_is_not_zero_is_a_failure(happens: Happening, output: str, error: str) -> None:
    ran = {"tool_name": "Bash", "tool_input": {"command": "npm test"}, "output": output}
    [fixed] = build_session([happens("PostToolUse", exit_code=1, **ran), *history(happens, "$ npm run test")]).repairs
    assert fixed.error == error
    assert build_session([happens("PostToolUse", exit_code=0, **ran)]).calls[0].ok


def test_agents_do_not_mend_each_others_commands(happens: Happening) -> None:
    failed = happens("PostToolUseFailure", "a1", tool_name="Bash", tool_input={"command": "npm a"}, error="no")
    other = happens("PostToolUse", "", tool_name="Bash", tool_input={"command": "npm b"})
    own = happens("PostToolUse", "a1", tool_name="Bash", tool_input={"command": "npm c"})
    assert [(one.failed, one.worked) for one in build_session([failed, other, own]).repairs] == [("npm a", "npm c")]


def test_a_program_of_a_similar_name_is_another_form(happens: Happening) -> None:
    events = history(happens, "! npm test\n$ pnpm test")
    assert [one.worked for one in build_session(events).repairs] == ["pnpm test"]
