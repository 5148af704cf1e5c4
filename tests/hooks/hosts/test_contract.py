"""Recorded events of every agent, replayed through its adapter: what the journal stores is compared with a file.

To compare a new version of an agent, replace its file in `samples` (one `{"name", "payload"}` per line, as its hooks
received them) and run this test. ALMA_UPDATE_GOLDEN=1 accepts the differences.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from alma.coding.session import build_session
from alma.coding.transcript import find_exits
from alma.hooks import hosts
from alma.hooks.journal import HookCall, build_line

HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in (HERE / "samples").glob("*.jsonl") if path.stem != "codex-rollout")
HOST_OF = {"copilot-claude-form": "copilot", "claude-sdk": "claude"}
PLUGGED = ("claude-sdk", "codex", "copilot-claude-form", "qwen")
"""Samples of hosts that load Claude Code's plug-ins. The files for the others name the host."""


def read_samples(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / "samples" / f"{name}.jsonl").read_text().splitlines()]


def translate(name: str, sample: dict[str, Any]) -> HookCall | None:
    host = HOST_OF.get(name, name)
    payload = hosts.read_event(host, sample["payload"], sample["name"])
    return None if payload is None else HookCall(payload, payload["hook_event_name"], host)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "digest", lambda *parts: "0" * 32)
    for variable in ("CLAUDE_CODE_ENTRYPOINT", "CLAUDE_SMART_ATTENDED", "CLAUDE_CODE_SESSION_ATTENDED"):
        monkeypatch.delenv(variable, raising=False)


def test_there_are_samples_of_every_host_with_hooks() -> None:
    assert {HOST_OF.get(name, name) for name in NAMES} == {*hosts.HOSTS} - {"aider"}


@pytest.mark.parametrize("name", NAMES)
def test_recorded_events_become_the_expected_lines(name: str) -> None:
    lines = []
    for sample in read_samples(name):
        call = translate(name, sample)
        line = build_line(call, "p", 0.0) if call else {}
        kept = {field: line[field] for field in ("event", "host", "session", "cwd", "agent_id", "data") if line}
        lines.append({"from": sample["name"], **(kept or {"event": None})})
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    golden = HERE / "golden" / f"{name}.jsonl"
    if os.environ.get("ALMA_UPDATE_GOLDEN"):
        golden.write_text(text)
    assert [json.loads(line) for line in golden.read_text().splitlines()] == lines


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("codex", "crush")])
def test_a_failed_command_is_recorded_as_a_failure(name: str) -> None:
    calls = [call for sample in read_samples(name) if (call := translate(name, sample))]
    failed = [call for call in calls if call.name == "PostToolUseFailure" and call.text("tool_name") == "Bash"]
    assert any("exit 3" in call.payload["tool_input"]["command"] for call in failed)
    assert all(call.text("error").strip() for call in failed), "without a text, no repair is learned from it"
    worked = [call for call in calls if call.name == "PostToolUse" and call.text("tool_name") == "Bash"]
    assert not any("exit 3" in call.payload["tool_input"]["command"] for call in worked)


def test_the_exit_codes_of_codex_come_from_its_transcript() -> None:
    from alma.coding.events import parse_journal

    lines = []
    for number, sample in enumerate(read_samples("codex")):
        if call := translate("codex", sample):
            lines.append(build_line(call, "p", float(number)))
    events, _ = parse_journal("".join(json.dumps(line) + "\n" for line in lines).encode())
    assert all(call.ok for call in build_session(events).calls)
    exits = find_exits((HERE / "samples" / "codex-rollout.jsonl").read_bytes().splitlines(keepends=True), ())
    calls = build_session([*events, *exits]).calls
    assert [(call.command, call.ok) for call in calls] == [
        ("echo hello-from-tool", True),
        ("ls /nonexistent-dir; exit 3", False),
    ]
    assert find_exits([b"", b"{", b'{"payload":{"item":{"type":"CommandExecution"}}}'], ()) == []


def test_an_event_reported_twice_has_one_id() -> None:
    for name in ("copilot", "copilot-claude-form", "gemini", "codex", "qwen", "opencode", "cline"):
        for sample in read_samples(name):
            call = translate(name, sample)
            if call and call.name not in ("SessionStart", "SessionEnd", "PreCompact"):
                assert build_line(call, "p", 1.0)["id"] == build_line(call, "p", 2.0)["id"], name


def test_the_payload_counts_before_the_environment() -> None:
    nested = {"COPILOT_CLI": "1", "PLUGIN_ROOT": "/p", "CLAUDECODE": "1", "GEMINI_SESSION_ID": "other"}
    for name in PLUGGED:
        for sample in read_samples(name):
            assert hosts.recognise_host(sample["payload"], nested) == HOST_OF.get(name, name)
    for sample in read_samples("copilot-claude-form"):
        assert hosts.recognise_host(sample["payload"], {"COPILOT_CLI": "1"}) == "copilot"
    plain = {"session_id": "s", "cwd": "/w", "hook_event_name": "SessionStart"}
    assert hosts.recognise_host(plain, {}) == "claude"
    assert hosts.recognise_host(plain, {"QWEN_CODE_SESSION_ID": "s"}) == "qwen"
    assert hosts.recognise_host(plain, {"QWEN_CODE_SESSION_ID": "another"}) == "claude"


def test_output_that_only_looks_like_a_failure_is_not_one() -> None:
    def name_of(host: str, response: Any) -> str:
        payload = {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": {}, "tool_response": response}
        call = hosts.read_event(host, payload)
        assert call is not None
        return str(call["hook_event_name"])

    printed = "Output: step one\nExit Code: 3\nstep two\nProcess Group PGID: 1"
    response = {"llmContent": f"<untrusted_context>\n{printed}\n</untrusted_context>"}
    assert name_of("gemini", response) == "PostToolUse"
    text = "<shellId: 1 completed with exit code 3>\nis what it printed\n<shellId: 2 completed with exit code 0>"
    assert name_of("copilot", {"result_type": "success", "text_result_for_llm": text}) == "PostToolUse"
    assert name_of("copilot", None) == name_of("gemini", 7) == name_of("cline", []) == "PostToolUse"
    assert name_of("cursor", '{"exitCode":0,"stdout":"ok"}') == name_of("cursor", "{ no JSON") == "PostToolUse"
    assert name_of("cursor", '{"exitCode":3,"stdout":"","stderr":"no"}') == "PostToolUseFailure"


@pytest.mark.parametrize(
    ("host", "prompt", "words"),
    [
        ("opencode", '"run the thing"', "run the thing"),
        ("opencode", '"npm" is banned here, use "pnpm"', '"npm" is banned here, use "pnpm"'),
        ("kimi", [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {}}], "look"),
        ("kimi", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
    ],
)
def test_a_prompt_is_what_the_person_typed(host: str, prompt: Any, words: str) -> None:
    call = hosts.read_event(host, {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": prompt})
    assert call is not None
    assert call["prompt"] == words


def test_the_texts_of_a_result_are_recorded() -> None:
    def output_of(host: str, response: Any) -> tuple[str, str]:
        payload = {"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "x", "tool_response": response}
        call = hosts.read_event(host, payload)
        assert call is not None
        line = build_line(HookCall(call, call["hook_event_name"], host), "p", 0.0)
        return line["event"], str(line["data"].get("error") or line["data"]["output"])

    parts = {"content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}
    assert output_of("opencode", parts) == ("PostToolUse", "one\ntwo")
    assert output_of("cursor", '{"exitCode":0,"stdout":"ok"}') == ("PostToolUse", "ok")
    assert output_of("cursor", '{"exitCode":3,"stderr":"no"}') == ("PostToolUseFailure", "Exit code 3\nno")
    assert output_of("cursor", "plain") == ("PostToolUse", "plain")
