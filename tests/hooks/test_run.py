"""Hooks as the host starts them: what they write and say, and real processes where something goes wrong."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alma.hooks import run
from alma.hooks.paths import DataDir

pytestmark = pytest.mark.system

Teach = Callable[..., str]
TOKEN = "ghp_" + "Ab3dEf9hJk2mNp4qRs6tUv8wXy1zAb3dEf9h"
EVENTS: dict[str, dict[str, Any]] = {
    "SessionStart": {"source": "startup"},
    "UserPromptSubmit": {"prompt": "install lodash with npm"},
    "UserPromptExpansion": {"command_name": "review", "command_args": "x", "prompt": "/review x"},
    "PreToolUse": {"tool_name": "Bash", "tool_input": {"command": "npm i"}, "tool_use_id": "t"},
    "PostToolUse": {"tool_name": "Bash", "tool_input": {"command": "npm i"}, "tool_response": {"stdout": "ok"}},
    "PostToolUseFailure": {"tool_name": "Bash", "tool_input": {"command": "npm i"}, "error": "no"},
    "PermissionDenied": {"tool_name": "Bash", "tool_input": {"command": "rm x"}, "reason": "no"},
    "Stop": {"last_assistant_message": "done", "stop_hook_active": False},
    "SubagentStop": {"agent_id": "a", "agent_type": "t", "last_assistant_message": "done"},
    "PreCompact": {"trigger": "auto"},
    "SessionEnd": {"reason": "other"},
}


# -- what is written


def test_every_event_is_a_line_of_the_journal(host: Any) -> None:
    host.starts_processes = True
    for name, given_ in EVENTS.items():
        host.send(name, **given_)
    assert [line["event"] for line in host.events()] == list(EVENTS)
    assert {line["project"] for line in host.events()} == {"git:github.com/acme/app"}
    assert Path(host.place.journal_file("s1")).stat().st_mode & 0o777 == 0o600


def test_the_event_may_be_named_by_the_command_line(host: Any) -> None:
    given_ = json.dumps({"session_id": "s1", "cwd": str(host.cwd), "reason": "other"}).encode()
    assert host.raw(given_, "SessionEnd").returncode == 0
    assert [line["event"] for line in host.events()] == ["SessionEnd"]


def test_no_secret_reaches_the_disk(host: Any) -> None:
    host.send("UserPromptSubmit", prompt=f"my token is {TOKEN} and password=hunter2xx99")
    host.send("PreToolUse", tool_name="Bash", tool_input={"command": f"curl -H 'Authorization: Bearer {TOKEN}'"})
    host.send("PreToolUse", tool_name="X", tool_input={"password": "hunter2xx99", "deep": [{"token": TOKEN}]})
    host.send(
        "PostToolUse", tool_name="Bash", tool_input={}, tool_response={"stdout": "x " * 5000 + TOKEN + " y" * 1480}
    )
    host.send("PostToolUseFailure", tool_name="Bash", tool_input={}, error=f"Exit code 1 {TOKEN}")
    host.send("Stop", last_assistant_message=f"I used {TOKEN}")
    host.send("SubagentStop", agent_id="a", last_assistant_message=f"I used {TOKEN}")
    host.send("SessionStart", source="startup", transcript_path=f"/t/{TOKEN}")
    assert len(host.events()) == 8
    assert not any(host.holds(TOKEN[i : i + 12]) for i in range(len(TOKEN) - 12))
    assert not host.holds("hunter2")


def test_nothing_private_reaches_the_disk(host: Any, teach: Teach) -> None:
    teach("Use pnpm, not npm", avoid=["npm"])
    hidden = "<Private>npm classified</Private>"
    assert host.send("UserPromptSubmit", prompt=f"fix the header {hidden}") == ""
    host.send("PreToolUse", tool_name="Write", tool_input={"content": f"a {hidden} b"})
    host.send(
        "PostToolUse", tool_name="Bash", tool_input={}, tool_response={"stdout": f"a <private>{'classified ' * 9000}"}
    )
    host.send("Stop", last_assistant_message=f"a {hidden} b")
    host.send("PostToolUse", tool_name="T", tool_input={}, tool_response={"x": "y" * 1_100_000 + hidden + "z"})
    assert len(host.events()) == 5
    assert not host.holds("classified")


def test_ignored_paths_leave_only_the_tool(host: Any, teach: Teach) -> None:
    teach("Use pnpm, not npm", avoid=["npm"])
    (host.cwd / ".claude-smart").mkdir()
    (host.cwd / ".claude-smart" / "ignore").write_text("secrets/\n*.pem\n")
    for name in ("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionDenied"):
        told = {"tool_response": {"stdout": "classified"}, "error": "classified", "reason": "classified"}
        assert host.send(name, tool_name="Bash", tool_input={"command": "npm i && cat secrets/x"}, **told) == ""
    host.send(
        "PreToolUse", tool_name="Read", tool_input={"file_path": str(host.cwd / "classified.pem")}, tool_use_id="t"
    )
    assert host.events()[-1]["data"] == {"tool_name": "Read", "tool_use_id": "t", "ignored": True}
    assert not host.holds("classified")
    assert not host.holds("secrets/x")


def test_a_project_that_ignores_everything_is_left_alone(host: Any, teach: Teach) -> None:
    teach("Use pnpm, not npm", avoid=["npm"])
    (host.cwd / ".claude-smart").mkdir()
    (host.cwd / ".claude-smart" / "ignore").write_text("# nothing from here\n*\n")
    for name, given_ in EVENTS.items():
        assert host.send(name, **given_) == ""
    assert not Path(host.place.sessions).exists()


@pytest.mark.parametrize("told", [{"everywhere": True}, {"projects": ["git:github.com/acme/app"]}])
def test_paused_nothing_is_written_and_nothing_said(host: Any, teach: Teach, told: object) -> None:
    teach("Use pnpm, not npm", avoid=["npm"])
    Path(host.place.paused).write_text(json.dumps(told))
    for name, given_ in EVENTS.items():
        assert host.send(name, **given_) == ""
    assert not Path(host.place.sessions).exists()
    Path(host.place.paused).write_text(json.dumps({"projects": ["git:another"]}))
    assert host.send("PreToolUse", **EVENTS["PreToolUse"]) != ""


def test_disabled_it_does_nothing(host: Any, teach: Teach) -> None:
    teach("Use pnpm")
    host.starts_processes = True
    host.environ["CLAUDE_SMART_DISABLE"] = "1"
    assert host.send("SessionStart", source="startup") == ""
    assert not Path(host.place.sessions).exists()


def test_events_in_a_subagent_say_so(host: Any) -> None:
    host.send("PreToolUse", agent_id="a1", **EVENTS["PreToolUse"])
    assert host.events()[-1]["agent_id"] == "a1"


# -- what is said


def test_a_command_with_the_first_name_of_the_plugin_is_answered_with_its_name_now(host: Any) -> None:
    text = host.send("UserPromptSubmit", prompt="/claude-smart:show", prompt_id="p1")
    assert "/smart:show" in text
    assert "claude-smart show" in text
    assert host.send("UserPromptSubmit", prompt="/claude-smart:tag use pnpm", prompt_id="p2") == ""
    assert host.send("UserPromptSubmit", prompt="/claude-smart:unknown", prompt_id="p3") == ""


def test_a_session_starts_with_the_playbook(host: Any, teach: Teach) -> None:
    id = teach("Use pnpm, not npm", avoid=["npm"])
    teach("Answer in French", session="s1")
    text = host.send("SessionStart", source="startup")
    assert "Use pnpm, not npm" in text
    assert "French" not in text
    assert text == host.send("SessionStart", source="startup")
    shown = host.events()[1]
    assert (shown["event"], shown["data"]["rules"], shown["data"]["where"]) == ("Shown", [id], "SessionStart")


@pytest.mark.parametrize("source", ["resume", "compact"])
def test_a_lost_context_gets_its_profile_back(host: Any, teach: Teach, source: str) -> None:
    teach("Answer in French", session="s1")
    teach("Never seen", session="s2")
    host.send("SessionStart", source="startup")
    text = host.send("SessionStart", source=source)
    assert "French" in text
    assert "Never seen" not in text


def test_a_cleared_session_goes_on_in_the_next(host: Any, teach: Teach) -> None:
    teach("Answer in French", session="s1")
    host.send("SessionEnd", reason="clear")
    assert "French" in host.send("SessionStart", "s2", source="clear")
    assert host.events("s2")[0]["data"]["parent"] == "s1"
    assert "French" in host.send("SessionStart", "s2", source="compact")
    host.send("SessionEnd", "s2", reason="clear")
    assert "French" in host.send("SessionStart", "s3", source="clear")


def test_another_repository_hears_nothing_of_it(host: Any, teach: Teach, tmp_path: Path) -> None:
    teach("Use pnpm, not npm", avoid=["npm"])
    teach("Write tests first", "everywhere")
    host.cwd = tmp_path / "other" / "app"
    (host.cwd / ".git").mkdir(parents=True)
    (host.cwd / ".git" / "config").write_text('[remote "origin"]\nurl = https://github.com/other/app\n')
    text = host.send("SessionStart", source="startup")
    assert "pnpm" not in text
    assert "tests first" in text


def test_a_fitting_rule_is_told_once(host: Any, teach: Teach) -> None:
    id = teach("Use pnpm, not npm", avoid=["npm"])
    assert host.send("UserPromptSubmit", prompt="make the header blue") == ""
    assert id[-8:] in host.send("UserPromptSubmit", prompt="install lodash with npm", prompt_id="p7")
    assert host.send("UserPromptSubmit", prompt="install lodash with npm") == ""
    assert host.send("PreToolUse", **EVENTS["PreToolUse"]) == ""
    [shown] = [line for line in host.events() if line["event"] == "Shown"]
    assert shown["data"] == {
        "rules": [id],
        "where": "UserPromptSubmit",
        "text": "install lodash with npm",
    }
    assert Path(host.place.shown_file("s1")).read_text() == f"prompted\n{id}\n"
    assert host.send("PreToolUse", "s2", **EVENTS["PreToolUse"]) != ""


def test_what_the_playbook_told_is_not_told_again(host: Any, teach: Teach) -> None:
    teach("Use pnpm, not npm", avoid=["npm"])
    host.send("SessionStart", source="startup")
    assert host.send("PreToolUse", **EVENTS["PreToolUse"]) == ""
    assert host.send("PreToolUse", agent_id="a1", **EVENTS["PreToolUse"]) != ""
    assert host.send("PreToolUse", agent_id="a1", **EVENTS["PreToolUse"]) == ""


def test_a_rule_that_was_not_followed_comes_up_again_at_the_call_that_would_break_it(host: Any, teach: Teach) -> None:
    id = teach("Use pnpm, not npm", prefer=["pnpm"], avoid=["npm"], violated=2)
    host.send("SessionStart", source="startup")
    run = {"tool_name": "Bash", "tool_use_id": "t1"}
    assert host.send("PreToolUse", tool_input={"command": "pnpm install"}, **run) == ""
    told = host.raw(
        json.dumps(
            {
                "session_id": "s1",
                "cwd": str(host.cwd),
                "hook_event_name": "PreToolUse",
                "tool_input": {"command": "npm install"},
                **run,
            }
        ).encode()
    )
    output = json.loads(told.stdout)
    # It informs; what would allow or refuse the call is not there.
    assert output.keys() == {"hookSpecificOutput"}
    assert output["hookSpecificOutput"].keys() == {"hookEventName", "additionalContext"}
    text = output["hookSpecificOutput"]["additionalContext"]
    assert f"- Use pnpm, not npm `[{id[-8:]}]` (2026-01-01; shown before and not followed: 2×)" in text
    assert host.send("PreToolUse", tool_input={"command": "npm install"}, **run) == ""
    host.send("SessionStart", source="compact")
    assert host.send("PreToolUse", tool_input={"command": "npm install"}, **run) != ""


@pytest.mark.parametrize(
    ("name", "given_"),
    [("PreToolUse", {"tool_name": "Bash", "tool_input": {"command": "ls"}}), ("UserPromptSubmit", {"prompt": "npm i"})],
)
def test_it_comes_up_nowhere_else(host: Any, teach: Teach, name: str, given_: dict[str, Any]) -> None:
    teach("Use pnpm, not npm", prefer=["pnpm"], avoid=["npm"], violated=2)
    host.send("SessionStart", source="startup")
    assert host.send(name, **given_) == ""


def test_a_rule_that_was_followed_ever_since_needs_no_reminder(host: Any, teach: Teach) -> None:
    recent = tuple((number, 1.0 if number else 0.0) for number in range(4))
    teach("Use pnpm, not npm", avoid=["npm"], violated=1, followed=3, recent=recent)
    host.send("SessionStart", source="startup")
    assert host.send("PreToolUse", **EVENTS["PreToolUse"]) == ""


@pytest.mark.parametrize(
    "told", [{"source": "system"}, {"source": "loop_wakeup"}, {"prompt": "<task-notification>npm i"}]
)
def test_a_machine_is_told_nothing(host: Any, teach: Teach, told: dict[str, str]) -> None:
    teach("Use pnpm, not npm", avoid=["npm"])
    assert host.send("UserPromptSubmit", **{"prompt": "npm install", **told}) == ""
    assert host.events()[0]["data"]["source"] == told.get("source", "system")


def test_our_own_command_is_written_as_one(host: Any, teach: Teach) -> None:
    teach("Use pnpm, not npm", avoid=["npm"])
    host.send("UserPromptSubmit", prompt="/claude-smart:tag never use npm", prompt_id="p")
    [line] = [line for line in host.events() if line["event"] != "Shown"]
    assert line["event"] == "UserPromptExpansion"
    assert line["data"]["command_args"] == "never use npm"


# -- what goes wrong


@pytest.mark.parametrize(
    "given_",
    [
        b"",
        b"garbage",
        b"\0\0\0",
        b"[1, 2]",
        b'"text"',
        b"{",
        b'{"hook_event_name": "Stop"}',
        b'{"hook_event_name": "Unknown", "session_id": "s1"}',
        b'{"session_id": "s1"}',
        b'{"session_id": 7, "hook_event_name": "Stop"}',
        b"[" * 200_000,
        b'{"a":' * 100_000,
    ],
)
def test_bad_input_ends_well_and_is_logged(host: Any, given_: bytes) -> None:
    done = host.raw(given_)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert len(host.log().splitlines()) == 1
    assert not Path(host.place.sessions, "s1.jsonl").exists()


def test_what_is_not_utf_8_is_kept_and_logged(host: Any, teach: Teach) -> None:
    teach("Use pnpm, not npm", avoid=["npm"])
    given_ = json.dumps(
        {"session_id": "s1", "cwd": str(host.cwd), "hook_event_name": "UserPromptSubmit", "prompt": "npm X"}
    )
    done = host.raw(given_.encode().replace(b"X", b"\xff\xfe"))
    assert done.returncode == 0
    assert b"Use pnpm, not npm" in done.stdout
    assert host.events()[0]["data"]["prompt"] == "npm \ufffd\ufffd"
    assert "UTF-8" in host.log()


def test_a_byte_order_mark_does_no_harm(host: Any) -> None:
    host.raw(b"\xef\xbb\xbf" + json.dumps({"session_id": "s1", "hook_event_name": "Stop"}).encode())
    assert [line["event"] for line in host.events()] == ["Stop"]


def test_a_session_id_that_is_a_path_stays_in_its_folder(host: Any) -> None:
    host.send("SessionStart", source="startup")
    before = {path for path in host.home.parent.rglob("*") if host.home not in path.parents}
    for session in ("../../escaped", "/tmp/escaped-journal", "a\0b", "..", "x" * 5000):
        host.send("Stop", session, last_assistant_message="x")
    assert {path for path in host.home.parent.rglob("*") if host.home not in path.parents} == before
    assert not Path("/tmp/escaped-journal.jsonl").exists()
    assert len(list(Path(host.place.sessions).glob("x-*.jsonl"))) == 5


def test_more_than_is_read_is_left_alone(host: Any) -> None:
    done = host.raw(b" " * (run.MOST_BYTES + 10))
    assert (done.returncode, done.stdout) == (0, b"")
    assert "64 MB" in host.log()


def test_fifty_megabytes_of_output_are_a_short_line(host: Any) -> None:
    response = {"stdout": "some output\n" * 4_300_000}
    payload = {"session_id": "s1", "cwd": str(host.cwd), "hook_event_name": "PostToolUse", "tool_response": response}
    # A busy machine may take longer than the hook's own limit for so much.
    command = [sys.executable, "-c", "import alma.hooks.run as r; r.SECONDS = 60.0; r.main()", "--home", str(host.home)]
    raw = json.dumps({**payload, "tool_name": "Bash", "tool_input": {}}).encode()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert subprocess.run(command, input=raw, env=host.environ, timeout=120, check=True).returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 5
    assert len(json.dumps(host.events()[0])) < 6000


@pytest.mark.parametrize("damage", ["garbage", "newer", "folder"])
def test_a_store_that_cannot_be_read_is_logged(host: Any, teach: Teach, damage: str) -> None:
    teach("Use pnpm, not npm", avoid=["npm"])
    db = Path(host.place.db)
    if damage == "newer":
        connection = sqlite3.connect(db)
        connection.execute("PRAGMA user_version = 77")
        connection.close()
    else:
        db.unlink()
    if damage == "garbage":
        db.write_bytes(b"x" * 10_000)
    elif damage == "folder":
        db.mkdir()
    assert host.send("SessionStart", source="startup") == ""
    assert "memory.db" in host.log()
    assert [line["event"] for line in host.events()] == ["SessionStart"]
    assert db.exists()


def test_a_store_that_is_just_being_made_is_no_trouble(host: Any) -> None:
    Path(host.place.db).touch()
    assert host.send("SessionStart", source="startup") == ""
    assert host.log() == ""


def test_a_store_that_is_not_there_yet_is_no_trouble(host: Any) -> None:
    assert host.send("SessionStart", source="startup") == ""
    assert host.log() == ""
    assert not Path(host.place.db).exists()


def test_a_locked_store_holds_up_nobody(host: Any, teach: Teach) -> None:
    host.starts_processes = True
    teach("Use pnpm, not npm", avoid=["npm"])
    connection = sqlite3.connect(host.place.db, isolation_level=None)
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    # With an empty log a hook reads the store without any lock.
    connection.execute("CREATE TABLE other (id)")
    assert Path(f"{host.place.db}-wal").stat().st_size
    connection.execute("BEGIN EXCLUSIVE")
    try:
        host.send("PreToolUse", **EVENTS["PreToolUse"])
        # A hook that is held up ends itself after a while, and says so.
        assert "gave up" not in host.log()
        assert host.events()[0]["event"] == "PreToolUse"
    finally:
        connection.close()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_home_that_cannot_be_written(host: Any) -> None:
    host.starts_processes = True
    host.home.chmod(0o500)
    try:
        host.send("Stop", last_assistant_message="x")
    finally:
        host.home.chmod(0o700)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_ends_well(host: Any) -> None:
    host.starts_processes = True
    host.place.create_folders()
    os.symlink("/dev/full", host.place.journal_file("s1"))
    assert host.send("Stop", last_assistant_message="x") == ""
    assert "No space left" in host.log()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_on_a_full_disk_a_session_starts_with_its_rules_and_says_that_it_is_not_recorded(
    host: Any, teach: Teach
) -> None:
    teach("use pnpm instead of npm", prefer=["pnpm"], avoid=["npm"])
    host.place.create_folders()
    os.symlink("/dev/full", host.place.journal_file("s1"))
    given = {"session_id": "s1", "cwd": str(host.cwd), "hook_event_name": "SessionStart", "source": "startup"}
    answer = json.loads(host.deliver(json.dumps(given).encode()))
    assert "use pnpm instead of npm" in answer["hookSpecificOutput"]["additionalContext"]
    assert answer["systemMessage"].startswith("claude-smart: this session is not recorded: ")
    assert "No space left" in answer["systemMessage"]


def test_a_home_that_is_a_file_ends_well(host: Any, tmp_path: Path) -> None:
    host.starts_processes = True
    (tmp_path / "file").touch()
    host.home = tmp_path / "file" / "home"
    assert host.send("Stop", last_assistant_message="x") == ""


def test_without_home_it_ends_well(host: Any) -> None:
    host.environ = {"PATH": host.environ["PATH"], "HOME": ""}
    assert host.raw(b"garbage").returncode == 0


@pytest.mark.parametrize("cwd", ["a\0b", "\ud800", "x" * 5000, "/" + "y" * 300, ""])
def test_a_working_folder_that_cannot_be(home: Path, cwd: str) -> None:
    (home / ".claude-smart").mkdir()
    (home / ".claude-smart" / "ignore").write_text("secrets/")
    for folder in (cwd, str(home)):
        given_ = {"session_id": "s1", "cwd": folder, "hook_event_name": "PreToolUse", "tool_name": "Bash"}
        paths = {"file_path": f"{cwd}/~\0", "command": f"cat {cwd}\0 ~nobody/x ~/x"}
        run.answer_event(json.dumps({**given_, "tool_input": paths}).encode(), DataDir(str(home)))
    assert len((home / "sessions" / "s1.jsonl").read_bytes().splitlines()) == 3


def test_a_working_folder_that_is_gone(host: Any) -> None:
    host.send("Stop", cwd="/nowhere/at/all", last_assistant_message="x")
    assert host.events()[0]["project"] == "path:/nowhere/at/all"


def test_stdin_that_never_ends_is_given_up(host: Any) -> None:
    code = "import alma.hooks.run as r; r.SECONDS = 0.3; r.main()"
    command = [sys.executable, "-c", code, "--home", str(host.home)]
    began = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=host.environ) as process:
        assert process.wait(60) == 0
        assert time.monotonic() - began < 50
    assert "timed out" in host.log()


def test_a_half_removed_installation_ends_well(host: Any, tmp_path: Path) -> None:
    alone = tmp_path / "alone" / "claude_smart"
    alone.mkdir(parents=True)
    shutil.copy(Path(__file__).parents[2] / "src" / "claude_smart" / "hook.py", alone)
    command = [sys.executable, "-I", "-S", str(alone / "hook.py")]
    done = subprocess.run(command, input=b"{}", capture_output=True, env=host.environ)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_launcher_can_be_read_by_an_old_python() -> None:
    import ast

    source = (Path(__file__).parents[2] / "src" / "claude_smart" / "hook.py").read_text()
    ast.parse(source, feature_version=(3, 4))


def test_little_is_loaded(host: Any, teach: Teach) -> None:
    """What a hook may load, and so what it costs, is counted in modules: time is too noisy for a test."""
    teach("Use pnpm, not npm", avoid=["npm"])
    code = (
        "import sys, os; sys.path.append(sys.argv[1])\n"
        "from alma.hooks import run\n"
        "run.answer_event(sys.stdin.buffer.read(), run.find_hook_dir(sys.argv[2]))\n"
        "print(*sys.modules)"
    )
    given_ = json.dumps(
        {"session_id": "s1", "cwd": str(host.cwd), "hook_event_name": "PreToolUse", **EVENTS["PreToolUse"]}
    )
    source = str(Path(__file__).parents[2] / "src")
    command = [sys.executable, "-I", "-S", "-c", code, source, str(host.home)]
    done = subprocess.run(command, input=given_, capture_output=True, text=True, env=host.environ, check=True)
    loaded = set(done.stdout.split())
    heavy = {"typing", "dataclasses", "inspect", "pathlib", "subprocess", "logging", "asyncio", "socket", "datetime"}
    assert loaded & heavy == set()
    assert {name for name in loaded if name.startswith("alma.")} <= {
        "alma.engine",
        "alma.engine.redact",
        "alma.processes",
        "alma.text",
        *(name for name in loaded if name.startswith(("alma.hooks", "alma.engine.secret_"))),
    }


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400))
def test_any_bytes_do_no_harm(home: Path, data: bytes) -> None:
    run.answer_event(data, DataDir(str(home)))


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
_FIELDS = (
    "session_id cwd prompt prompt_id source tool_name tool_input tool_response error agent_id reason trigger".split()
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(EVENTS)), st.dictionaries(st.sampled_from(_FIELDS), _VALUES, max_size=6))
def test_any_fields_do_no_harm(home: Path, name: str, fields: dict[str, Any]) -> None:
    place = DataDir(str(home))
    given_ = {"session_id": "s1", "cwd": str(home), **fields, "hook_event_name": name}
    run.answer_event(json.dumps(given_).encode(), place)
    for path in Path(place.sessions).glob("*.jsonl"):
        assert all(json.loads(line)["v"] == 1 for line in path.read_bytes().splitlines())


def test_ten_hooks_at_once_tear_no_line(host: Any) -> None:
    hook = str(Path(run.__file__).parents[2] / "claude_smart" / "hook.py")
    command = [sys.executable, "-I", "-S", hook, "--home", str(host.home)]
    running = []
    for number in range(10):
        told = {
            "session_id": "s1",
            "cwd": str(host.cwd),
            "hook_event_name": "Stop",
            "last_assistant_message": "x" * 9000,
        }
        process = subprocess.Popen(command, stdin=subprocess.PIPE, env=host.environ)
        assert process.stdin is not None
        process.stdin.write(json.dumps({**told, "prompt_id": f"p{number}"}).encode())
        running.append(process)
    for process in running:
        assert process.stdin is not None
        process.stdin.close()
    assert [process.wait(30) for process in running] == [0] * 10
    assert [line["event"] for line in host.lines()] == ["Journal", *["Stop"] * 10]
