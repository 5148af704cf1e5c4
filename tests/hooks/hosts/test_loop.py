"""Every agent through the real hook process: what is recorded, what is learned, and the form of the answer."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from alma.hooks.drain import ProjectMemories, drain
from alma.hooks.evidence import TITLE
from alma.hooks.hosts import HOSTS, find_entry, is_for_host
from alma.hooks.news import note_rules
from alma.types.record import Status

from ..conftest import PROJECT

SAMPLES = Path(__file__).parent / "samples"
CORRECTION = "No, never use npm here. Always use pnpm."
HOOKED = [host for host in HOSTS if host not in ("aider", "crush")]
PLUGGED = ("claude", "codex", "copilot", "qwen")
# The fields by which a host names a session, an event and a prompt.
SPELLING = {
    "goose": ("session_id", "event", "message"),
    "cursor": ("conversation_id", "hook_event_name", "prompt"),
}
NAMES = {
    "gemini": {"UserPromptSubmit": "BeforeAgent", "Stop": "AfterAgent"},
    "cursor": {"SessionStart": "sessionStart", "UserPromptSubmit": "beforeSubmitPrompt", "Stop": "stop"},
}
MARKS: dict[str, dict[str, Any]] = {
    "codex": {"turn_id": "t1", "transcript_path": "/h/.codex/sessions/1/rollout-1.jsonl"},
    "copilot": {"timestamp": "2026-11-15T21:10:50.910Z"},
    "qwen": {"transcript_path": "/h/.qwen/projects/-w/chats/1.jsonl"},
}


@pytest.fixture(autouse=True)
def decided(home: Path) -> None:
    """The person has decided about the model reader and wants no lines, so that only the model is shown something."""
    (home / "config.json").write_text(json.dumps({"model": "off", "notices": "off"}))


def build_payload(name: str, event: str, session: str, cwd: str, prompt: str = "") -> bytes:
    session_field, event_field, prompt_field = SPELLING.get(name, ("session_id", "hook_event_name", "prompt"))
    payload = {session_field: session, event_field: NAMES.get(name, {}).get(event, event), **MARKS.get(name, {})}
    payload["working_dir" if name == "goose" else "cwd"] = cwd
    if prompt:
        payload[prompt_field] = [{"type": "text", "text": prompt}] if name == "kimi" else prompt
    return json.dumps(payload).encode()


def write_down(host: Any, name: str, prompt: str) -> None:
    """Add a prompt to the transcript of a host that names one, in its own form."""
    text = {"type": "text", "text": prompt}
    item = {"type": "item_completed", "item": {"type": "UserMessage", "content": [text]}}
    lines = {
        "codex": {"type": "event_msg", "payload": item},
        "qwen": {"type": "user", "message": {"role": "user", "parts": [{"text": prompt}]}},
    }
    if prompt and name in lines:
        path = Path(str(MARKS[name]["transcript_path"]).replace("/h/", f"{host.home.parent}/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps(lines[name]) + "\n")


def send(host: Any, name: str, event: str, session: str = "s1", prompt: str = "", cwd: Path | None = None) -> str:
    """Return what the host would show to the model."""
    goose_file = host.home / "goose-context.md"
    host.environ = {key: host.environ[key] for key in ("PATH", "HOME")}
    host.environ |= {"copilot": {"COPILOT_CLI": "1"}, "claude": {"CLAUDE_CODE_ENTRYPOINT": "cli"}}.get(name, {})
    host.environ |= {"GOOSE_MOIM_MESSAGE_FILE": str(goose_file)} if name == "goose" else {}
    # The shared plug-in passes no name.
    name_passed = () if name in PLUGGED else (name,)
    payload = build_payload(name, event, session, str(cwd or host.cwd), prompt)
    output = host.deliver(payload.replace(b'"/h/', f'"{host.home.parent}/'.encode()), *name_passed).decode()
    write_down(host, name, prompt)
    if name == "goose":
        assert output == ""
        return goose_file.read_text() if goose_file.exists() else ""
    if name == "kimi" or not output:
        return str(output)
    answer = json.loads(output)
    if name == "cursor":
        assert list(answer) == ["additional_context"]
        return str(answer["additional_context"])
    if name == "claude":
        # What the person is told, such as that something was not read.
        answer.pop("systemMessage", None)
    assert sorted(answer) == (["additionalContext"] if name == "copilot" else []) + ["hookSpecificOutput"]
    assert answer.get("additionalContext", "") in ("", answer["hookSpecificOutput"]["additionalContext"])
    assert answer["hookSpecificOutput"]["hookEventName"] == NAMES.get(name, {}).get(event, event)
    return str(answer["hookSpecificOutput"]["additionalContext"])


@pytest.mark.parametrize("name", HOOKED)
def test_a_correction_in_one_host_is_shown_in_claude_code_and_in_itself(host: Any, name: str, tmp_path: Path) -> None:
    send(host, name, "SessionStart", "first")
    send(host, name, "UserPromptSubmit", "first", CORRECTION)
    send(host, name, "Stop", "first")
    (tmp_path / "home" / "sessions" / "wanted").unlink(missing_ok=True)
    with ProjectMemories(host.place) as memory:
        (taught,) = drain(host.place, memory=memory).taught
        assert taught.record is not None
        if name == "amp":
            assert taught.record.status is Status.CANDIDATE, "it does not report when a command begins"
            return
        assert taught.record.status is Status.ACTIVE
        assert taught.record.body["metadata"]["host"] == name
    for other in {name, "claude", "kimi"}:
        shown = send(host, other, "SessionStart", f"second-{other}")
        shown += send(host, other, "UserPromptSubmit", f"second-{other}", "go on")
        rules, _, evidence = shown.partition(TITLE.splitlines()[0])
        assert rules.count("pnpm") == 1
        assert evidence.count("pnpm") <= (other == name), "the excerpt is for the agent that the person spoke with"
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / ".git").mkdir(parents=True)
    shown = send(host, name, "SessionStart", "third", cwd=elsewhere)
    assert "pnpm" not in shown + send(host, name, "UserPromptSubmit", "third", "install it", cwd=elsewhere)


def test_goose_gets_an_empty_file_in_a_paused_project(host: Any, teach: Any) -> None:
    teach("Always use pnpm")
    assert "pnpm" in send(host, "goose", "UserPromptSubmit", "s1", "install it")
    assert "pnpm" in send(host, "goose", "UserPromptSubmit", "s1", "and go on"), "the file holds all of it each time"
    (host.home / "paused.json").write_text(json.dumps({"everywhere": True}))
    assert send(host, "goose", "UserPromptSubmit", "s1", "install it") == ""


def test_a_file_of_the_persons_is_never_written_for_goose(host: Any, teach: Any, tmp_path: Path) -> None:
    teach("Always use pnpm")
    own = tmp_path / "mine.md"
    own.write_text("be brief")
    host.environ["GOOSE_MOIM_MESSAGE_FILE"] = str(own)
    for paused in (False, True):
        (host.home / "paused.json").write_text(json.dumps({"everywhere": paused}))
        host.deliver(build_payload("goose", "UserPromptSubmit", "s1", str(host.cwd), "install it"), "goose")
        assert own.read_text() == "be brief"
    assert not (host.home / "goose-context.md").exists()
    (journal,) = Path(host.place.sessions).glob("*.jsonl")
    assert '"Shown"' not in journal.read_text(), "a rule that nobody sees is not recorded as shown"


def test_the_name_that_a_file_passes_decides_which_host_it_is(host: Any, teach: Any) -> None:
    teach("Always use pnpm")
    payload = {"session_id": "s1", "cwd": str(host.cwd), "hook_event_name": "SessionStart", "source": "startup"}
    answer = json.loads(host.deliver(json.dumps(payload).encode(), "copilot"))
    assert "pnpm" in answer["additionalContext"]
    assert host.events()[0]["host"] == "copilot"


def test_a_host_that_takes_no_text_at_the_start_gets_it_with_its_first_prompt_only(host: Any, teach: Any) -> None:
    teach("Always use pnpm")
    assert send(host, "kimi", "SessionStart") == ""
    assert "pnpm" in send(host, "kimi", "UserPromptSubmit", prompt="tidy up")
    assert send(host, "kimi", "UserPromptSubmit", prompt="tidy up more") == ""


def test_codex_is_shown_only_new_rules_when_a_session_resumes(host: Any, teach: Any) -> None:
    teach("Always use pnpm")
    assert "pnpm" in send(host, "codex", "SessionStart")
    teach("Never use tabs")
    payload = json.loads(build_payload("codex", "SessionStart", "s1", str(host.cwd))) | {"source": "resume"}
    answer = host.deliver(json.dumps(payload).encode()).decode()
    assert "tabs" in answer
    assert "pnpm" not in answer


def test_a_rule_about_a_tool_of_one_host_stays_there(host: Any, teach: Any) -> None:
    teach("Use `apply_patch` to edit files")
    teach("Always use pnpm")
    assert "apply_patch" in send(host, "codex", "SessionStart", "a")
    shown = send(host, "claude", "SessionStart", "b")
    assert "apply_patch" not in shown
    assert "pnpm" in shown
    assert is_for_host("apply the patch with git apply", "claude")
    assert not is_for_host("Never pass --dangerously-skip-permissions.", "codex")
    assert [name for name in HOSTS if is_for_host("Ask with AskUserQuestion first", name)] == ["claude", "qwen", "kimi"]
    assert [name for name in HOSTS if is_for_host("Use `apply_patch` here", name)] == ["codex", "opencode", "cline"]
    assert [name for name in HOSTS if is_for_host("In Gemini CLI, never use --yolo", name)] == ["gemini"]
    both = "- With Codex and in Claude Code: use the task tool"
    assert [name for name in HOSTS if is_for_host(both, name)] == ["claude", "codex"]
    assert [name for name in HOSTS if is_for_host("In Codex and Claude Code, ask first", name)] == ["claude", "codex"]
    for rule in (
        "Write it in codex.md",
        "Use the colours of Cursor",
        "Never run npm install in the root *Why:* it hangs in Codex",
        "Remove the co-author line of Claude Code from commits",
        "Store migrations in goose format",
        "In Codex or Copilot, ask first",
    ):
        assert all(is_for_host(rule, name) for name in HOSTS)
    assert is_for_host("In Gemini CLI, never use --yolo", "codex", taught_in="codex")


def test_a_rule_about_a_tool_is_shown_where_it_was_taught(host: Any) -> None:
    send(host, "cursor", "UserPromptSubmit", "first", "No, never guess here. Always use AskUserQuestion first.")
    drain(host.place)
    assert "AskUserQuestion" in send(host, "cursor", "SessionStart", "second")
    assert "AskUserQuestion" not in send(host, "codex", "SessionStart", "third")


def test_an_event_that_two_hooks_report_counts_once(host: Any) -> None:
    for _ in range(2):
        send(host, "copilot", "UserPromptSubmit", prompt=CORRECTION)
    report = drain(host.place)
    assert report.turns == 1
    assert len(report.taught) == 1


def test_rules_in_claude_md_are_shown_to_a_host_that_does_not_read_it(host: Any, teach: Any) -> None:
    teach("Always use pnpm")
    (host.cwd / "CLAUDE.md").write_text("- Always use pnpm\n")
    assert "pnpm" not in send(host, "claude", "SessionStart", "a")
    assert "pnpm" not in send(host, "copilot", "SessionStart", "b")
    assert "pnpm" in send(host, "codex", "SessionStart", "c")
    (host.cwd / "AGENTS.md").write_text("- Always use pnpm\n")
    assert "pnpm" not in send(host, "codex", "SessionStart", "d")


@pytest.mark.parametrize(
    ("name", "files", "is_shown"),
    [
        ("gemini", "AGENTS.md", True),
        ("gemini", "GEMINI.md", False),
        ("qwen", "AGENTS.md", False),
        ("qwen", "QWEN.md", False),
        ("opencode", "CLAUDE.md", False),
        ("opencode", "AGENTS.md", False),
        ("opencode", "CLAUDE.md ../AGENTS.md=other", True),
        ("copilot", "CLAUDE.md AGENTS.md=other", False),
        ("codex", "../AGENTS.md", False),
        ("codex", "GEMINI.md CLAUDE.md", True),
    ],
)
def test_a_rule_is_left_out_only_if_the_host_reads_the_file(
    host: Any, teach: Any, name: str, files: str, is_shown: bool
) -> None:
    teach("Always use pnpm")
    folder = host.cwd / "src"
    folder.mkdir()
    for file in files.split():
        path, _, other = file.partition("=")
        (folder / path).write_text(f"- {other or 'Always use pnpm'}\n")
    assert ("pnpm" in send(host, name, "SessionStart", "a", cwd=folder)) is is_shown


# -- who drives a session


@pytest.mark.parametrize(("programs", "count"), [("off", 0), ("on", 1)])
def test_a_headless_run_teaches_nothing_unless_that_is_set(
    host: Any, tmp_path: Path, programs: str, count: int
) -> None:
    (host.home / "config.json").write_text(json.dumps({"programs": programs}))
    rollout = tmp_path / ".codex" / "sessions" / "rollout-1.jsonl"
    rollout.parent.mkdir(parents=True)
    rollout.write_bytes((SAMPLES / "codex-rollout.jsonl").read_bytes())
    payload = json.loads(build_payload("codex", "UserPromptSubmit", "s1", str(host.cwd), CORRECTION))
    host.deliver(json.dumps(payload | {"transcript_path": str(rollout)}).encode())
    assert host.events()[0]["entry"] == "headless"
    report = drain(host.place)
    assert (report.turns, len(report.taught)) == (1, count)


@pytest.mark.parametrize(
    ("name", "environ", "entry"),
    [
        ("claude", {"CLAUDE_CODE_ENTRYPOINT": "sdk-py", "CLAUDE_CODE_SESSION_ATTENDED": "0"}, "sdk-py"),
        ("claude", {"CLAUDE_CODE_ENTRYPOINT": "cli", "CLAUDE_CODE_SESSION_ATTENDED": "0"}, "headless"),
        ("claude", {"CLAUDE_CODE_ENTRYPOINT": "cli", "CLAUDE_SMART_ATTENDED": "0"}, "headless"),
        ("qwen", {"CLAUDE_CODE_ENTRYPOINT": "sdk-py"}, "cli"),
        ("qwen", {"CLAUDECODE": "1"}, "agent"),
        ("kimi", {"CLAUDE_SMART_ATTENDED": "0"}, "headless"),
    ],
)
def test_the_journal_says_who_drives(host: Any, name: str, environ: dict[str, str], entry: str) -> None:
    host.environ.pop("CLAUDE_CODE_ENTRYPOINT")
    host.environ |= environ
    host.deliver(build_payload(name, "UserPromptSubmit", "s1", str(host.cwd), CORRECTION), name)
    assert host.events()[0]["entry"] == entry
    assert len(drain(host.place).taught) == (entry == "cli")


def run_hook_below(host: Any, name: str, tmp_path: Path, arguments: list[str], source: Any) -> str:
    """Start a program with the name of a host, which starts the hook. Return who drives the session, by the journal."""
    payload = build_payload(name, "UserPromptSubmit", "s1", str(host.cwd), "hello")
    if name == "codex":
        # An ephemeral session has no transcript.
        payload = json.dumps({**json.loads(payload), "transcript_path": None}).encode()
    (tmp_path / "event").write_bytes(payload)
    program = tmp_path / name
    hook = Path(sys.modules["claude_smart"].__file__ or "").with_name("hook.py")
    program.write_text(
        "import subprocess\n"
        f"command = [{sys.executable!r}, '-I', '-S', {str(hook)!r}, {name!r}, '--home', {str(host.home)!r}]\n"
        f"subprocess.run(command, stdin=open({str(tmp_path / 'event')!r}))\n"
    )
    command = [sys.executable, str(program), *arguments]
    subprocess.run(command, stdin=source, env=host.environ, check=True, timeout=30)
    (journal,) = Path(host.place.sessions).glob("*.jsonl")
    return str(json.loads(journal.read_text().splitlines()[1])["entry"])


@pytest.mark.system
@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="what a process reads is known on Linux only")
@pytest.mark.parametrize(
    ("name", "arguments", "source", "entry"),
    [
        ("gemini", "-i hello", "terminal", "cli"),
        ("gemini", "-p hello", "terminal", "headless"),
        ("gemini", "-phello", "terminal", "headless"),
        ("gemini", "--prompt=hello", "terminal", "headless"),
        ("gemini", "hello", "null", "headless"),
        ("gemini", "", "pipe", "headless"),
        ("gemini", "--acp", "pipe", "cli"),
        ("qwen", "", "pipe", "headless"),
        ("copilot", "", "pipe", "headless"),
        ("codex", "exec --ephemeral hello", "terminal", "headless"),
        ("codex", "", "terminal", "cli"),
        ("codex", "app-server", "pipe", "cli"),
        ("goose", "session", "terminal", "cli"),
        ("goose", "session", "pipe", "headless"),
        ("goose", "run -t hello", "terminal", "headless"),
        ("cline", "", "pipe", "cli"),
    ],
)
def test_a_run_that_reads_from_no_terminal_is_headless(
    host: Any, tmp_path: Path, name: str, arguments: str, source: str, entry: str
) -> None:
    if source == "terminal":
        _, terminal = os.openpty()
        assert run_hook_below(host, name, tmp_path, arguments.split(), terminal) == entry
        return
    with open(os.devnull) as null:
        assert run_hook_below(host, name, tmp_path, arguments.split(), null if source == "null" else PIPE) == entry


@pytest.mark.parametrize(
    ("arguments", "terminal", "entry"),
    [("-p hello", "ttys001", "headless"), ("", "ttys001", "cli"), ("", "??", "headless"), ("--acp", "??", "cli")],
)
def test_without_proc_one_call_of_ps_shows_it(
    monkeypatch: pytest.MonkeyPatch, arguments: str, terminal: str, entry: str
) -> None:
    table = (
        f"{os.getppid()} 41 ?? sh -c x\n41 40 {terminal} node /usr/local/bin/gemini {arguments}\n40 1 {terminal} -zsh\n"
    )
    calls: list[str] = []

    def run(command: str) -> io.TextIOWrapper:
        calls.append(command)
        return io.TextIOWrapper(io.BytesIO(table.encode()))

    monkeypatch.setattr(os, "popen", run)
    is_folder = os.path.isdir
    monkeypatch.setattr(os.path, "isdir", lambda path: not str(path).startswith("/proc") and is_folder(path))
    assert find_entry("gemini", {}, {}) == entry
    assert [command.split()[0] for command in calls] == ["/bin/ps"]


KEYS = {
    "claude": {"hookSpecificOutput", "systemMessage"},
    "codex": {"hookSpecificOutput", "systemMessage"},
    "gemini": {"hookSpecificOutput", "systemMessage"},
    "qwen": {"systemMessage"},
    "opencode": {"hookSpecificOutput", "systemMessage"},
}
"""The hosts that show a person a line, with all keys that an answer of ours has there."""


@pytest.mark.parametrize("name", HOSTS)
def test_what_was_learned_is_said_to_the_person_in_every_host_that_can_show_it(
    host: Any, name: str, teach: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alma.hooks.hosts._list_ancestors", list)
    (host.home / "config.json").write_text(json.dumps({"model": "off"}))
    id = teach("Use pnpm instead of npm")
    note_rules(host.place, PROJECT, {id: "learned"})
    send_raw(host, name, "SessionStart", "earlier")
    note_rules(host.place, PROJECT, {id: "learned"})
    events = ["UserPromptSubmit", "UserPromptSubmit"]
    if name == "qwen":
        # It shows the messages of hooks only at the end of a turn.
        answer = send_raw(host, name, "UserPromptSubmit", "earlier", "install it with pnpm")
        assert "systemMessage" not in answer
        events = ["Stop", "Stop"]
    answers = [send_raw(host, name, event, "earlier", "install it with pnpm") for event in events]
    line = "claude-smart: learned 'Use pnpm instead of npm' · undo: "
    undo = "/forget" if name == "claude" else "claude-smart forget"
    if name not in KEYS:
        assert not any("claude-smart:" in answer for answer in answers), "nothing is shown, and nothing to the model"
        assert Path(host.place.notices_file(PROJECT)).exists(), "another host says it"
        return
    first = json.loads(answers[0])
    assert first["systemMessage"] == f"{line}{undo} {id[-8:]}"
    assert {*first} <= KEYS[name]
    assert "claude-smart:" not in json.dumps(first.get("hookSpecificOutput", {}))
    assert "systemMessage" not in answers[1]


def send_raw(host: Any, name: str, event: str, session: str, prompt: str = "") -> str:
    """Return what the hook prints for a host, and for goose what its file has."""
    goose_file = host.home / "goose-context.md"
    host.environ = {key: host.environ[key] for key in ("PATH", "HOME")}
    host.environ |= {"copilot": {"COPILOT_CLI": "1"}, "claude": {"CLAUDE_CODE_ENTRYPOINT": "cli"}}.get(name, {})
    host.environ |= {"GOOSE_MOIM_MESSAGE_FILE": str(goose_file)} if name == "goose" else {}
    payload = build_payload(name, event, session, str(host.cwd), prompt)
    printed = host.deliver(payload, *(() if name in PLUGGED else (name,))).decode()
    return str(printed + (goose_file.read_text() if goose_file.exists() else ""))
