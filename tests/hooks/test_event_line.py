from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from alma.hooks.journal import HookCall, build_line, expand_own_command, print_mentioned_files
from alma.word_prints import print_text


def written(name: str, **given: Any) -> dict[str, Any]:
    call = HookCall({"session_id": "s", "cwd": "/w", **given}, name)
    return build_line(call, "git:x", 1.5)


def test_a_line_says_when_where_and_what() -> None:
    found = written("UserPromptSubmit", prompt="hi", prompt_id="p1", source="user")
    assert found | {"id": ""} == {
        "v": 1,
        "id": "",
        "at": 1.5,
        "event": "UserPromptSubmit",
        "session": "s",
        "host": "claude",
        "project": "git:x",
        "cwd": "/w",
        "agent_id": "",
        "entry": "",
        "data": {"prompt": "hi", "prompt_id": "p1", "source": "user"},
    }


@pytest.mark.parametrize(
    ("name", "given", "data"),
    [
        (
            "SessionStart",
            {"source": "clear", "model": "m", "transcript_path": "/t", "parent": "s0"},
            {"source": "clear", "transcript_path": "/t", "parent": "s0"},
        ),
        ("PreCompact", {"trigger": "auto", "custom_instructions": None}, {}),
        ("SessionEnd", {"reason": "clear"}, {}),
        (
            "Stop",
            {"last_assistant_message": "done", "stop_hook_active": False, "background_tasks": []},
            {"last_assistant_message": "done", "stop_hook_active": False},
        ),
        (
            "SubagentStop",
            {"agent_id": "a", "agent_type": "t", "agent_transcript_path": "/x", "last_assistant_message": "ok"},
            {"agent_id": "a", "agent_type": "t", "last_assistant_message": "ok"},
        ),
        (
            "UserPromptExpansion",
            {"command_name": "learn", "command_args": "note", "prompt": "/learn note"},
            {"command_name": "learn", "command_args": "note", "prompt": "/learn note"},
        ),
        (
            "PostToolUseFailure",
            {
                "tool_name": "Bash",
                "tool_input": {"command": "x"},
                "error": "no",
                "is_interrupt": False,
                "duration_ms": 9,
            },
            {
                "tool_name": "Bash",
                "tool_input": {"command": "x"},
                "error": "no",
                "is_interrupt": False,
            },
        ),
        (
            "PermissionDenied",
            {"tool_name": "Bash", "tool_input": {"command": "x"}, "reason": "no"},
            {"tool_name": "Bash", "tool_input": {"command": "x"}, "reason": "no"},
        ),
    ],
)
def test_each_event_keeps_its_fields(name: str, given: dict[str, Any], data: dict[str, Any]) -> None:
    assert written(name, **given)["data"] == data


@pytest.mark.parametrize(
    ("response", "output"),
    [
        ({"stdout": "out", "stderr": "err", "interrupted": False}, "out\nerr"),
        ("plain", "plain"),
        ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "one\ntwo"),
        ({"content": [{"type": "text", "text": "one"}]}, "one"),
        ({"error": "command not found: pnpm", "code": 127}, "command not found: pnpm"),
        ({"stderr": "boom", "exitCode": 1}, "boom"),
        ({"result": {"message": "denied by policy"}}, "denied by policy"),
        ({"error": {"code": 3, "message": "no such file"}, "filePath": "/a"}, "no such file"),
        ({"content": [{"type": "text", "text": "one"}], "error": "two"}, "two\none"),
        ({"exitCode": 127, "stderr": ""}, '{"exitCode": 127, "stderr": ""}'),
        (
            {"reason": "not found", "token": "ghp_" + "a1B2" * 9},
            '{"reason": "not found", "token": "[REDACTED:github_token]"}',
        ),
        ({"stdout": "", "stderr": "", "interrupted": False}, ""),
        ({"content": [{"type": "image", "source": {"data": "aaaa"}}]}, ""),
        ({"filePath": "/a", "originalFile": "x" * 9000, "userModified": True}, ""),
        (None, ""),
        (3, "3"),
    ],
)
def test_the_output_of_a_tool_is_text(response: object, output: str) -> None:
    data = written("PostToolUse", tool_name="T", tool_input={}, tool_response=response)["data"]
    assert data["output"] == output


@pytest.mark.parametrize(
    ("response", "code"),
    [
        ({"stderr": "boom", "exitCode": 1}, 1),
        ({"stdout": "fine", "exit_code": 0}, 0),
        ({"output": "boom", "metadata": {"exit_code": 2}}, 2),
        ({"stdout": "fine", "exitCode": True}, None),
        ({"stdout": "fine", "exitCode": "1"}, None),
        ({"stdout": "fine"}, None),
        ("plain", None),
    ],
)
def test_the_exit_code_of_a_command_is_recorded(response: object, code: int | None) -> None:
    data = written("PostToolUse", tool_name="Bash", tool_input={}, tool_response=response)["data"]
    assert data.get("exit_code") == code


def test_the_output_of_a_tool_is_read_to_a_depth() -> None:
    response: object = "deep"
    for _ in range(900):
        response = {"result": [response]}
    data = written("PostToolUse", tool_name="T", tool_input={}, tool_response=response)["data"]
    assert "deep" not in data["output"]


def test_an_edit_by_the_person_is_noted() -> None:
    data = written("PostToolUse", tool_name="Edit", tool_input={}, tool_response={"userModified": True})["data"]
    assert data["user_modified"] is True


def test_the_same_event_has_the_same_id() -> None:
    one = written("PreToolUse", tool_name="Bash", tool_input={}, tool_use_id="t1")
    assert one["id"] == written("PreToolUse", tool_name="Bash", tool_input={}, tool_use_id="t1")["id"]
    others = [
        written("PostToolUse", tool_name="Bash", tool_input={}, tool_use_id="t1"),
        written("PreToolUse", tool_name="Bash", tool_input={}, tool_use_id="t2"),
        written("UserPromptSubmit", prompt="x", prompt_id="t1"),
        written("UserPromptSubmit", prompt="x"),
        written("UserPromptSubmit", prompt="x"),
    ]
    assert len({found["id"] for found in (one, *others)}) == 6
    assert all(len(found["id"]) == 32 for found in others)


def test_a_prompt_answered_twice_has_two_ids() -> None:
    ids = [written("Stop", last_assistant_message=text, prompt_id="p")["id"] for text in ("a", "a", "b")]
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize(
    "prompt", ["<task-notification>x", "  <local-command-stdout>x", "<command-name>/x</command-name>"]
)
def test_what_a_machine_wrote_is_told_apart(prompt: str) -> None:
    assert HookCall({"prompt": prompt}, "UserPromptSubmit").is_from_machine
    assert written("UserPromptSubmit", prompt=prompt)["data"]["source"] == "system"


def test_what_a_person_wrote_has_no_source_of_ours() -> None:
    assert "source" not in written("UserPromptSubmit", prompt="<div> is wrong")["data"]
    assert written("UserPromptSubmit", prompt="x", source="poll_event")["data"]["source"] == "poll_event"


@pytest.mark.parametrize(
    ("prompt", "name", "arguments"),
    [
        ("/tag use pnpm", "tag", "use pnpm"),
        ("/claude-smart:tag use pnpm, not npm", "claude-smart:tag", "use pnpm, not npm"),
        ("  /learn\nuse pnpm", "learn", "use pnpm"),
        ("/forget", "forget", ""),
        ("/smart:review accept 3", "smart:review", "accept 3"),
    ],
)
def test_our_own_command_in_a_prompt_is_an_expansion(prompt: str, name: str, arguments: str) -> None:
    call = expand_own_command(HookCall({"session_id": "s", "prompt": prompt, "prompt_id": "p"}, "UserPromptSubmit"))
    assert call.name == "UserPromptExpansion"
    assert (call.text("command_name"), call.text("command_args")) == (name, arguments)
    host = HookCall(
        {"session_id": "s", "prompt": prompt, "prompt_id": "p", "command_name": name}, "UserPromptExpansion"
    )
    assert call.own_command == host.own_command != ""
    assert build_line(call, "x", 1.0)["id"] == build_line(host, "x", 1.0)["id"]


@pytest.mark.parametrize("prompt", ["/review x", "/", "/ tag", "tag this", "//tag", "", "/tagged"])
def test_other_prompts_stay_prompts(prompt: str) -> None:
    assert expand_own_command(HookCall({"prompt": prompt}, "UserPromptSubmit")).name == "UserPromptSubmit"


@pytest.mark.parametrize("value", [None, 3, [], {}, True])
def test_fields_of_another_type_do_no_harm(value: object) -> None:
    names = ("prompt", "prompt_id", "source", "tool_name", "tool_input", "tool_response", "error", "agent_id", "cwd")
    for event in ("UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop", "SubagentStop"):
        assert (
            build_line(HookCall({"session_id": "s", **dict.fromkeys(names, value)}, event), "x", 1.0)["event"] == event
        )


def test_a_command_of_the_persons_own_that_has_the_name_of_ours_is_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    given = {"session_id": "s", "cwd": str(tmp_path), "prompt": "/tag v1.2.3"}
    assert expand_own_command(HookCall(given, "UserPromptSubmit")).name == "UserPromptExpansion"
    (tmp_path / ".claude" / "commands").mkdir(parents=True)
    (tmp_path / ".claude" / "commands" / "tag.md").write_text("Make a git tag: $ARGUMENTS")
    call = expand_own_command(HookCall(given, "UserPromptSubmit"))
    assert call.name == "UserPromptSubmit"
    assert build_line(call, "p", 1.0)["data"]["source"] == "command"
    expanded = {**given, "command_name": "tag", "command_args": "v1.2.3", "command_source": "project"}
    assert build_line(HookCall(expanded, "UserPromptExpansion"), "p", 1.0)["data"]["source"] == "command"


def test_what_is_cut_off_an_error_or_a_message_of_another_agent_leaves_prints() -> None:
    text = "line of the log\n" * 2000 + "use fixkit\n" + "line of the log\n" * 2000
    failed = written("PostToolUseFailure", tool_name="Bash", tool_input={"command": "x"}, error=text)
    assert failed["data"]["prints"] == print_text(text)
    stopped = written("SubagentStop", agent_id="a", agent_type="helper", last_assistant_message=text)
    assert stopped["data"]["prints"] == print_text(text)
    assert "prints" not in written("PostToolUseFailure", tool_name="Bash", tool_input={}, error="short")["data"]


def test_the_files_that_a_prompt_mentions_leave_prints(tmp_path: Path) -> None:
    (tmp_path / "notes one.md").write_text("use fixkit")
    (tmp_path / "guide.md").write_text("use quickkit")
    for prompt, text in (
        ("follow @guide.md, please", "use quickkit"),
        ('follow @"notes one.md" and @guide.md#L1', "use fixkit\nuse quickkit"),
        ("mail me@example.org about @missing.md and @../..", ""),
    ):
        call = HookCall({"session_id": "s", "cwd": str(tmp_path), "prompt": prompt}, "UserPromptSubmit")
        assert print_mentioned_files(call, lambda path: False) == print_text(text)
        assert print_mentioned_files(call, lambda path: True) == ""
