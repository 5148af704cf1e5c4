"""The files that connect other agents: valid for each agent, and the scripts run with the recorded calls."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from alma.errors import ConfigError
from alma.hooks.drain import drain
from alma.hooks.hosts import HOSTS
from alma.hooks.paths import DataDir
from claude_smart.adapters import build_command, build_files
from claude_smart.aider import HISTORY, RULES, import_history, read_history, write_rules
from claude_smart.cli import main
from claude_smart.targets import TARGETS

HOOK = '/home/dev/my "data"/hook.py'.replace('"', "")
SAMPLES = Path(__file__).parents[1] / "hooks" / "hosts" / "samples"


def test_every_host_can_be_installed() -> None:
    assert {*TARGETS} == {*HOSTS}
    assert {host for host in HOSTS if not build_files(host, "python3", HOOK)} == {"claude", "aider"}


@pytest.mark.parametrize("host", [host for host in HOSTS if build_files(host, "/usr/bin/python3", HOOK)])
def test_the_files_of_a_host_are_valid_and_start_the_hook(host: str) -> None:
    for path, text in build_files(host, "/usr/bin/python3", HOOK).items():
        assert not path.startswith("/")
        if path.endswith(".json"):
            json.loads(text)
        elif path.endswith(".toml"):
            hooks = tomllib.loads(text)["hooks"]
            assert all({*hook} == {"event", "command", "timeout"} for hook in hooks), "Kimi rejects any other field"
    assert any(HOOK in text for text in build_files(host, "/usr/bin/python3", HOOK).values())
    assert not any("${CLAUDE_PLUGIN_ROOT}" in text for text in build_files(host, "p", HOOK).values())


@pytest.mark.system
@pytest.mark.skipif(os.name == "nt", reason="for the shells of other systems")
@pytest.mark.parametrize("folder", ["plain", "two words", '$HOME `id` "x" it\'s \\ é'])
@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "fish", "tcsh"])
def test_a_command_runs_the_hook_and_does_nothing_without_it(shell: str, folder: str, tmp_path: Path) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    hook = tmp_path / folder / "hook.py"
    hook.parent.mkdir()
    python = tmp_path / folder / "python"
    python.symlink_to(sys.executable)
    command = build_command("codex", str(python), str(hook))

    def run() -> tuple[int, str, str]:
        done = subprocess.run([shell, "-c", command], input="event", capture_output=True, text=True, timeout=30)
        return done.returncode, done.stdout, done.stderr

    assert run() == (0, "", "")
    hook.write_text("import sys; print(sys.argv[1], sys.stdin.read())")
    assert run() == (0, "codex event\n", "")
    hook.write_text("raise SystemExit(2)")
    assert run()[0] == 0
    python.unlink()
    assert run() == (0, "", "")


def test_the_command_on_windows_is_for_the_shell_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("claude_smart.adapters.os", SimpleNamespace(name="nt"))
    python, hook = "C:\\py\\python.exe", "C:\\it's\\hook.py"
    assert build_command("kimi", python, hook) == (
        f'if exist "{python}" if exist "{hook}" "{python}" -I -S "{hook}" kimi'
    )
    own = "'C:\\it''s\\hook.py'"
    assert build_command("gemini", python, hook) == (
        f"if ((Test-Path '{python}') -and (Test-Path {own})) {{ & '{python}' -I -S {own} gemini }}"
    )


def test_codex_is_asked_for_no_more_time_than_it_gives() -> None:
    hooks = json.loads(build_files("codex", "python3", HOOK)[".codex/hooks.json"])["hooks"]
    assert {event: groups[0]["hooks"][0]["timeout"] for event, groups in hooks.items()} == {
        **dict.fromkeys(hooks, 5),
        "SessionEnd": 3,
    }


# -- the scripts, in Node with a hook that answers and writes down what it got

_FAKE = """import json, sys
event = json.load(sys.stdin) | {"argument": sys.argv[1]}
with open(sys.argv[0] + ".log", "a") as log:
    log.write(json.dumps(event) + "\\n")
if event["hook_event_name"] in ("SessionStart", "UserPromptSubmit"):
    print(json.dumps({"hookSpecificOutput": {"additionalContext": "RULE-" + event["hook_event_name"]}}))
"""
_DRIVERS = {
    "opencode": """
const calls = JSON.parse(process.env.CALLS)
const hooks = await (await import(process.env.SCRIPT)).ClaudeSmart({ directory: "/w/app" })
const [{ input, output }] = calls.prompt
const system = []
await hooks["chat.message"](input, output)
await hooks["experimental.chat.system.transform"](input, { system })
for (const call of calls.tools) await hooks["tool.execute.after"](call.input, call.output)
await hooks.event({ event: calls.error[0].input })
await hooks.event({ event: { type: "session.idle", properties: { sessionID: input.sessionID } } })
await hooks.dispose()
console.log(JSON.stringify([system, output.parts.filter((part) => part.synthetic).map((part) => part.text)]))
""",
    "cline": """
const calls = JSON.parse(process.env.CALLS)
const { hooks } = (await import(process.env.SCRIPT)).default
const snapshot = { conversationId: "c1", messages: [calls.prompt[0].last] }
const answers = [hooks.beforeRun({ snapshot }), hooks.beforeRun({ snapshot })]
for (const call of calls.tools) hooks.afterTool({ snapshot, ...call })
hooks.afterRun({ snapshot, result: { outputText: "All done." } })
console.log(JSON.stringify(answers))
""",
}
CALLS: dict[str, dict[str, list[Any]]] = {
    "opencode": {
        "prompt": [
            {
                "input": {"sessionID": "ses_1"},
                "output": {"message": {"id": "msg_1"}, "parts": [{"type": "text", "text": "run the thing"}]},
            }
        ],
        "tools": [
            {
                "input": {"tool": "bash", "sessionID": "ses_1", "callID": "call_3", "args": {"command": "exit 3"}},
                "output": {"title": "exit 3", "metadata": {"exit": 3}, "output": "no"},
            },
            {
                "input": {"tool": "docs_search", "sessionID": "ses_1", "callID": "call_4", "args": {}},
                "output": {"content": [{"type": "text", "text": "from a server"}]},
            },
        ],
        "error": [
            {
                "input": {
                    "type": "message.part.updated",
                    "properties": {
                        "sessionID": "ses_1",
                        "part": {
                            "type": "tool",
                            "tool": "read",
                            "callID": "call_2",
                            "state": {"status": "error", "input": {"filePath": "/x"}, "error": "File not found: /x"},
                        },
                    },
                }
            }
        ],
    },
    "cline": {
        "prompt": [{"last": {"id": "m1", "content": [{"type": "text", "text": "<user_input>go</user_input>"}]}}],
        "tools": [
            {
                "toolCall": {"toolCallId": "call_2", "toolName": "run_commands"},
                "input": {"commands": ["exit 3"]},
                "result": {"output": [{"query": "exit 3", "result": "no", "success": False}]},
            }
        ],
    },
}
EXPECTED = {
    "opencode": (
        [["RULE-SessionStart"], ["RULE-UserPromptSubmit"]],
        "SessionStart UserPromptSubmit PostToolUse PostToolUse PostToolUseFailure Stop SessionEnd",
    ),
    "cline": (
        [{"appendContext": "RULE-SessionStart\nRULE-UserPromptSubmit"}, {"appendContext": "RULE-UserPromptSubmit"}],
        "SessionStart UserPromptSubmit UserPromptSubmit PostToolUse Stop",
    ),
}


def run_script(host: str, folder: Path, python: str) -> Any:
    """Run the script of a host in Node with the recorded calls. Return what it answers."""
    files = build_files(host, python, str(folder / "hook.py"))
    script = folder / "script.mjs"
    script.write_text(next(text for path, text in files.items() if path.endswith(".js")))
    driver = folder / "driver.mjs"
    driver.write_text(_DRIVERS[host])
    environ = {"CALLS": json.dumps(CALLS[host]), "SCRIPT": str(script)}
    command = [shutil.which("node") or "", str(driver)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.system
@pytest.mark.skipif(not shutil.which("node"), reason="Node is not installed")
@pytest.mark.parametrize("host", sorted(_DRIVERS))
def test_a_script_does_nothing_without_the_hook_or_the_interpreter(host: str, tmp_path: Path) -> None:
    nothing = [[], []] if host == "opencode" else [None, None]
    assert run_script(host, tmp_path, sys.executable) == nothing
    (tmp_path / "hook.py").write_text(_FAKE)
    assert run_script(host, tmp_path, str(tmp_path / "gone")) == nothing


@pytest.mark.system
@pytest.mark.skipif(not shutil.which("node"), reason="Node is not installed")
@pytest.mark.parametrize("host", sorted(_DRIVERS))
def test_a_script_passes_events_to_the_hook_and_answers_to_the_model(host: str, tmp_path: Path) -> None:
    (tmp_path / "hook.py").write_text(_FAKE)
    answers, names = EXPECTED[host]
    assert run_script(host, tmp_path, sys.executable) == answers
    events = [json.loads(line) for line in (tmp_path / "hook.py.log").read_text().splitlines()]
    assert " ".join(event["hook_event_name"] for event in events) == names
    assert {event["argument"] for event in events} == {host}
    assert len({event["session_id"] for event in events}) == 1
    if host == "opencode":
        assert events[3]["tool_response"]["content"] == [{"type": "text", "text": "from a server"}]


# -- aider


def sync_aider(data_dir: DataDir, folder: str) -> int:
    """Import the new turns, learn from them and write the rules, as `claude-smart learn` does."""
    count = import_history(data_dir, folder, is_person=True)
    drain(data_dir, wait=10.0)
    write_rules(data_dir, folder)
    return count


def test_the_history_of_aider_is_imported_once_and_its_rules_file_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "app"
    (folder / ".git").mkdir(parents=True)
    data_dir = DataDir(str(tmp_path / "home"))
    monkeypatch.delenv("CLAUDECODE", raising=False)
    history = folder / HISTORY
    history.write_text(
        "\n# aider chat started at 2026-11-15 21:29:36\n\n> Aider v0.86.2  \n\n#### install the packages  \n\n"
        "I ran npm install.\n\n> Tokens: 10 sent.  \n\n#### No, never use npm here. Always use pnpm.  \n\nOk.\n"
    )
    typed = folder / ".aider.input.history"
    typed.write_text(
        "\n# 2026-11-15 21:29:40\n+install the packages\n\n# 2026-11-15 21:30:01\n"
        "+No, never use npm here. Always use pnpm.\n"
    )
    assert sync_aider(data_dir, str(folder)) == 2
    assert "pnpm" in (folder / RULES).read_text()
    assert sync_aider(data_dir, str(folder)) == 0
    with history.open("a") as file:
        file.write("\n#### go on  \n\nDone.\n")
    assert sync_aider(data_dir, str(folder)) == 1


@pytest.mark.parametrize("typed", [None, "+something else\n"])
def test_words_in_the_history_of_aider_that_nobody_typed_teach_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str | None
) -> None:
    monkeypatch.delenv("CLAUDECODE", raising=False)
    (tmp_path / ".git").mkdir()
    (tmp_path / HISTORY).write_text("# aider chat started at never\n#### Always use pnpm  \n\nOk.\n#### Never lint\n")
    if typed is not None:
        (tmp_path / ".aider.input.history").write_text(typed)
    assert sync_aider(DataDir(str(tmp_path / "home")), str(tmp_path)) == 1
    assert (tmp_path / RULES).read_text() == ""


@pytest.mark.system
def test_a_history_of_aider_that_git_tracks_is_refused(tmp_path: Path) -> None:
    (tmp_path / HISTORY).write_text("#### Always use pnpm  \n")
    for command in (["init", "-q"], ["add", HISTORY]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    with pytest.raises(ConfigError, match="tracked by git"):
        sync_aider(DataDir(str(tmp_path / "home")), str(tmp_path))


def test_a_session_of_aider_with_a_message_on_its_command_line_is_a_programs() -> None:
    (turn,) = read_history((SAMPLES / "aider.chat.history.md").read_text())
    assert turn.prompt == "change x to 2"
    assert turn.entry == "headless"
    assert turn.started == "2026-11-15 21:29:36"
    assert "x = 2" in turn.reply
    assert "Tokens" not in turn.reply
    assert list(read_history("no history")) == []


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("/usr/bin/aider --message x --model m", "headless"),
        ("aider --message=x", "headless"),
        ("aider -m x", "headless"),
        ("aider --yes -mx", "headless"),
        ("aider --msg x", "headless"),
        ("aider --ms=x", "headless"),
        ("/opt/my tools/aider a.py --message-file f", "headless"),
        ("aider -f f", "headless"),
        ("/lib/aider/__main__.py -ff", "headless"),
        ("C:\\py\\Scripts\\aider.exe -m x", "headless"),
        ("aider --model x --map-tokens 1 a-m.py", "cli"),
        ("/opt/aider-chat/bin/python -m pip install --upgrade aider-chat", "cli"),
    ],
)
def test_every_form_of_a_message_on_the_command_line_of_aider_is_a_programs(line: str, entry: str) -> None:
    (turn,) = read_history(f"# aider chat started at 2026-11-15\n> {line}  \n\n#### hello  \n\nOk.\n")
    assert turn.entry == entry


@pytest.mark.parametrize("added", ["[tools]\nshell = true\n", "# later\n"])
def test_lines_that_were_added_to_a_file_without_a_last_line_break_stay_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, added: str
) -> None:
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    file = tmp_path / ".kimi-code" / "config.toml"
    file.parent.mkdir()
    file.write_text('model = "kimi-k2"')
    assert main(["install", "--host", "kimi", "--yes", "--no-model"]) == 0
    file.write_text(file.read_text() + added)
    assert main(["uninstall", "--yes"]) == 0
    assert file.read_text() == f'model = "kimi-k2"\n{added}'


def test_what_was_erased_is_not_imported_from_the_history_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("CLAUDECODE", "CLAUDE_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLAUDE_SMART_USE_LOCAL_EMBEDDING", "0")
    folder, data = tmp_path / "app", tmp_path / ".claude-smart"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    words = ["No, never use npm here. Always use pnpm.", "No, never use tabs here. Always use spaces."]
    turns = "".join(f"#### {one}  \n\nOk.\n\n" for one in words)
    (folder / HISTORY).write_text(f"# aider chat started at 2026-11-15 21:29:36\n\n{turns}")
    (folder / ".aider.input.history").write_text("".join(f"+{one}\n" for one in words))
    assert main(["install", "--host", "aider", "--yes"]) == 0
    (data / "goose-context.md").write_text("pnpm and spaces")
    assert main(["learn"]) == 0
    assert "pnpm" in (folder / RULES).read_text()
    assert main(["forget", "--everything", "pnpm"]) == 0
    assert "spaces" in (folder / RULES).read_text()
    assert (data / "goose-context.md").read_text() == ""
    for _ in range(2):
        shutil.rmtree(data / "sessions")
        assert main(["learn"]) == 0
        assert "pnpm" not in (folder / RULES).read_text()
        assert main(["clear-all", "--yes", "--everywhere"]) == 0
        assert (folder / RULES).read_text() == ""
    assert all("pnpm" not in path.read_text() for path in data.glob("*.json"))
    assert main(["uninstall", "--purge", "--yes"]) == 0
    assert not data.exists()
