"""Who runs a command: what shows an agent, and what does not."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from alma import people
from alma.errors import PersonRequiredError
from alma.hooks.hosts import HOSTS
from alma.processes import (
    AGENTS,
    Process,
    _parse_ps,
    find_caller,
    is_running,
    list_lineage,
    name_system_program,
    read_process,
)

pytestmark = pytest.mark.no_person
SSHD = Process(900, 1, "1", ("sshd",), began=1.0)


@pytest.fixture(autouse=True)
def no_agent_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A terminal of a person, whatever runs the tests."""
    for name in (*people.AGENT_VARIABLES, "AGENT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("alma.processes.find_system_home", lambda: "")
    monkeypatch.setattr(people, "read_environ", lambda pid: {})
    monkeypatch.setattr(people, "list_processes", list)
    monkeypatch.setattr(people, "name_system_program", lambda process: process.name)
    run_below(monkeypatch, SSHD)


def run_below(monkeypatch: pytest.MonkeyPatch, *processes: Process) -> None:
    own = Process(1000, processes[0].pid, "5", ("claude-smart",))
    monkeypatch.setattr(people, "list_lineage", lambda pid=0: [own, *processes])


def record(home: Path, process: str, *lines: dict[str, object]) -> None:
    """Write down the process of a session, and the lines of its journal."""
    folder = home / ".claude-smart"
    (folder / "agents").mkdir(parents=True, exist_ok=True)
    journal = folder / "s1.jsonl"
    journal.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    fields = {"process": process, "host": "codex", "session": "s1", "journal": str(journal)}
    (folder / "agents" / "s1.json").write_text(json.dumps(fields))


def begin(at: float, **data: object) -> dict[str, object]:
    call = {"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"command": "make"}, **data}
    return {"v": 1, "event": "PreToolUse", "at": at, "agent_id": "", "data": call}


def end(at: float, event: str = "PostToolUse", **fields: object) -> dict[str, object]:
    return {"v": 1, "event": event, "at": at, "agent_id": "", "data": {"tool_use_id": "t1"}, **fields}


def test_without_an_agent_nothing_is_found() -> None:
    assert people.find_agent() == ""


def test_every_variable_of_every_agent_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(HOSTS) == list(AGENTS)
    silent = []
    for name in people.AGENT_VARIABLES:
        with monkeypatch.context() as patch:
            patch.setenv(name, "1")
            silent += [] if name in people.find_agent() else [name]
    assert silent == []
    monkeypatch.setenv("AGENT", "goose")
    assert "goose runs this command" in people.find_agent()
    monkeypatch.setenv("AGENT", "ssh-agent of mine")
    assert people.find_agent() == ""


def test_an_environment_that_was_cleaned_below_the_agent_does_not_help(monkeypatch: pytest.MonkeyPatch) -> None:
    run_below(monkeypatch, Process(950, 900, "4", ("env", "-i", "bash")), SSHD)
    monkeypatch.setattr(people, "read_environ", lambda pid: {"QWEN_CODE": "1"} if pid == 950 else {})
    assert people.find_agent() == "Qwen Code runs this command (process 950 has the variable QWEN_CODE)"


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        (("/usr/local/bin/codex", "--full-auto"), "Codex"),
        (("node", "/usr/bin/gemini"), "Gemini CLI"),
        (("node", "--no-warnings", "/usr/lib/node_modules/@google/gemini-cli/dist/index.js"), "Gemini CLI"),
        (("/usr/bin/python3", "-m", "aider"), "aider"),
        (("/home/me/venv/bin/python3", "/home/me/venv/lib/python3.12/site-packages/aider/main.py"), "aider"),
        (("cursor-agent",), "Cursor"),
        (("/usr/share/cursor/cursor", "."), ""),
        (("code", "."), ""),
        (("node", "/home/me/goose/server.js"), ""),
        (("vim", "claude"), ""),
        (("-bash",), ""),
        ((), ""),
    ],
)
def test_a_known_program_above_is_an_agent_and_an_editor_is_not(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], title: str
) -> None:
    run_below(monkeypatch, Process(950, 900, "4", arguments), SSHD)
    assert people.find_agent() == (f"{title} runs this command (process 950)" if title else "")


def test_a_recorded_host_above_is_an_agent_and_a_later_process_with_its_number_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run_below(monkeypatch, Process(950, 900, "4", ("renamed",)), SSHD)
    record(tmp_path, "950:4")
    assert people.find_agent() == "Codex runs this command (process 950 is its session s1)"
    record(tmp_path, "950:3")
    assert people.find_agent() == ""


def test_the_folder_that_the_settings_name_is_read_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run_below(monkeypatch, Process(950, 900, "4", ("renamed",)), SSHD)
    record(tmp_path / "elsewhere", "950:4")
    (tmp_path / ".claude-smart").mkdir()
    named = str(tmp_path / "elsewhere" / ".claude-smart")
    (tmp_path / ".claude-smart" / "config.json").write_text(json.dumps({"home": named}))
    assert "process 950" in people.find_agent()


def test_a_program_that_the_settings_name_is_an_agent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    player = str(tmp_path / "player.py")
    run_below(monkeypatch, Process(950, 900, "4", ("/usr/bin/python3", player)), SSHD)
    assert people.find_agent() == ""
    (tmp_path / ".claude-smart").mkdir()
    (tmp_path / ".claude-smart" / "config.json").write_text(json.dumps({"host_program": player}))
    assert "process 950" in people.find_agent()


def test_a_program_that_an_agent_left_behind_is_known_by_when_it_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    now = time.time()
    shell = Process(950, 1, "4", ("script", "-qec", "claude-smart"), began=now - 30)
    run_below(monkeypatch, shell)
    record(tmp_path, "7:7", begin(now - 40), end(now - 20))
    assert people.find_agent() == "the program it runs in was started while Codex ran a command"
    # It started after the command had ended.
    record(tmp_path, "7:7", begin(now - 60), end(now - 50))
    assert "while Codex ran a command" not in people.find_agent()
    # A person opens a terminal whenever they like.
    record(tmp_path, "7:7", begin(now - 40), end(now - 20))
    run_below(monkeypatch, Process(950, 1, "4", ("/usr/bin/kitty",), began=now - 30))
    assert people.find_agent() == ""
    # A copy of another program has its name, or another program shows it.
    monkeypatch.setattr(people, "name_system_program", lambda process: "python3.11")
    assert people.find_agent() == "the program it runs in was started while Codex ran a command"


_RENAMED = """\
import ctypes, sys, time
ctypes.CDLL(None).prctl(15, b"kitty", 0, 0, 0)
print(flush=True)
time.sleep(60)
"""


@pytest.mark.system
@pytest.mark.skipif(sys.platform != "linux", reason="the programs are read from /proc")
def test_a_process_is_known_by_the_program_that_it_runs_and_not_by_the_name_that_it_shows(tmp_path: Path) -> None:
    copy = tmp_path / "kitty"
    shutil.copy("/bin/sleep", copy)
    renamed = [sys.executable, "-c", _RENAMED]
    for command, shown in (([str(copy), "60"], "kitty"), (["/bin/sleep", "60"], "sleep"), (renamed, "kitty")):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
            if command is renamed:
                assert running.stdout is not None
                running.stdout.readline()
            process = read_process(running.pid)
            # Of a process that has ended, nobody can say which program it ran.
            program = name_system_program(process) if process is not None else None
            running.kill()
        assert process is not None
        assert process.name == shown
        assert (program == shown) is (shown == "sleep")


PTS_1, PTS_2, CONSOLE = 136 << 8 | 1, 136 << 8 | 2, 4 << 8 | 1
INIT = Process(1, 0, "1", ("systemd",), began=1.0)
CONTAINER = Process(1, 0, "1", ("bash",), began=1.0, terminal=PTS_1)


def test_a_command_that_a_waiting_script_runs_is_not_a_persons(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No command runs when the script starts, and the agent has ended."""
    now = time.time()

    def run(name: str, pid: int, parent: int, terminal: int = 0) -> Process:
        return Process(pid, parent, "9", (name,), began=now - 30, terminal=terminal)

    shell = run("bash", 990, 980, PTS_1)
    refused = {
        "python": [shell, run("python3.11", 980, 1), INIT],
        "python below a shell": [shell, run("python3", 980, 970), run("sh", 970, 1), INIT],
        "script in script": [shell, run("script", 980, 970, PTS_2), run("sh", 970, 960, PTS_2), run("script", 960, 1)],
        "a shell without a parent": [run("bash", 990, 1, PTS_1), INIT],
        "python without a terminal": [run("sh", 990, 980), run("python3", 980, 1), INIT],
        "a shell with a terminal of its own in a container": [run("bash", 990, 1, PTS_2), CONTAINER],
    }
    accepted = {
        "emulator": [shell, run("kitty", 980, 1), INIT],
        "tmux": [shell, run("tmux: server", 980, 1), INIT],
        "screen": [shell, run("screen", 980, 1), INIT],
        "ssh": [shell, run("sshd-session", 980, 970), run("sshd", 970, 1), INIT],
        "docker exec": [run("bash", 990, 0, PTS_1)],
        "editor": [shell, run("code", 980, 970), run("code", 970, 1), INIT],
        "editor on another machine": [shell, run("node", 980, 970), run("sh", 970, 1), INIT],
        "console": [run("bash", 990, 1, CONSOLE), INIT],
        "script in an emulator": [shell, run("script", 980, 970, PTS_2), run("kitty", 970, 1), INIT],
        "the first shell of a container": [CONTAINER],
        "a shell in the first shell of a container": [run("bash", 990, 1, PTS_1), CONTAINER],
        "cron": [run("sh", 990, 980), run("cron", 980, 1), INIT],
    }
    failures = []
    for title, lineage in (refused | accepted).items():
        own = Process(1000, lineage[0].pid, "5", ("claude-smart",), began=now - 1, terminal=lineage[0].terminal)
        monkeypatch.setattr(people, "list_lineage", lambda pid=0, lineage=lineage, own=own: [own, *lineage])
        record(tmp_path, "7:7", begin(now - 60), end(now - 50), end(now - 45, "SessionEnd"))
        reason = people.find_agent()
        failures += [] if ("after a session of Codex had begun" in reason) is (title in refused) else [(title, reason)]
        # Without a session before it, nobody can have left it behind.
        record(tmp_path, "7:7", begin(now - 20), end(now - 10))
        failures += [] if people.find_agent() == "" else [(title, "no session before")]
    assert failures == []


def test_without_a_terminal_any_program_that_lost_its_parent_may_be_what_an_agent_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Such a command can only be one that passes `--yes`, which gives consent for a whole machine."""
    now = time.time()
    record(tmp_path, "7:7", begin(now - 60), end(now - 50), end(now - 45, "SessionEnd"))

    def find_reason(*processes: Process, owns: bool = True) -> str:
        run_below(monkeypatch, *processes)
        monkeypatch.setattr("alma.processes.is_own_process", lambda process: owns)
        return people.find_agent()

    shell = Process(990, 980, "9", ("sh",), began=now - 30)
    make = Process(980, 1, "9", ("make", "-f", "x"), began=now - 30)
    copy = Process(980, 970, "9", ("copy-of-sh",), began=now - 30)
    detached = Process(970, 1, "9", ("sh",), began=now - 30)
    assert "a program (make)" in find_reason(shell, make, INIT)
    assert "a program (sh)" in find_reason(shell, copy, detached, INIT)
    # A service of the system, such as cron; a login; what has run for longer; a container.
    assert find_reason(shell, make, INIT, owns=False) == ""
    assert find_reason(shell, Process(980, 1, "9", ("sshd",), began=now - 30), INIT) == ""
    assert find_reason(shell, Process(980, 1, "9", ("runner",), began=now - 90), INIT) == ""
    assert find_reason(Process(990, 0, "9", ("sh",), began=now - 30)) == ""


@pytest.mark.parametrize(
    ("top", "is_refused"),
    [
        (Process(960, 1, "9", ("script", "-qec", "x"), began=50.0), True),
        (Process(960, 1, "9", ("/usr/bin/python3.11", "x.py"), began=50.0), True),
        (Process(960, 1, "9", ("alma", "trust", "--yes"), began=50.0), True),
        (Process(960, 1, "9", ("bash",), began=5.0), False),
        (Process(960, 0, "9", ("bash",), began=50.0), False),
        (Process(960, 1, "9", ("tmux: server",), began=50.0), False),
        (Process(960, 1, "9", ("kitty",), began=50.0), False),
    ],
)
def test_a_shell_that_lost_its_parent_while_an_agent_runs_is_not_a_persons(
    monkeypatch: pytest.MonkeyPatch, top: Process, is_refused: bool
) -> None:
    run_below(monkeypatch, top)
    assert people.find_agent() == ""
    monkeypatch.setattr(people, "list_processes", lambda: [Process(20, 1, "2", ("claude",), began=10.0)])
    assert bool(people.find_agent()) is is_refused


def test_a_shell_that_was_opened_in_a_container_from_outside_was_left_by_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    now = time.time()
    record(tmp_path, "7:7", begin(now - 60))
    os.utime(tmp_path / ".claude-smart" / "s1.jsonl", (now, now))
    run_below(monkeypatch, Process(57, 0, "9", ("bash",), began=now - 30))
    assert people.find_agent() == ""
    run_below(monkeypatch, Process(57, 1, "9", ("bash",), began=now - 30))
    assert people.find_agent() != ""


def test_a_command_in_a_namespace_of_its_own_that_an_agent_started_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`unshare --pid` hides the agent's process, so that it does not seem to run."""
    now = time.time()
    record(tmp_path, "7:7", begin(now - 60))
    folder = tmp_path / ".claude-smart"
    os.utime(folder / "s1.jsonl", (now - 60, now - 60))
    run_below(monkeypatch, Process(1, 0, "9", ("python3",), began=now - 5))
    assert people.find_agent() == ""
    fields = json.loads((folder / "agents" / "s1.json").read_text())
    (folder / "agents" / "s1.json").write_text(json.dumps({**fields, "namespace": "pid:[1]"}))
    assert people.find_agent() != ""


def test_an_end_that_another_program_reported_does_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    now = time.time()
    run_below(monkeypatch, Process(950, 1, "4", ("sh",), began=now - 30))
    forged = [end(now - 35, origin="other"), end(now - 35, "Stop", origin="other")]
    record(tmp_path, "7:7", begin(now - 40), *forged, end(now - 20))
    assert people.find_agent() != ""


def test_a_command_that_names_us_and_was_announced_just_now_is_refused_everywhere(tmp_path: Path) -> None:
    now = time.time()
    record(tmp_path, "7:7", begin(now - 5, names_us=True), end(now - 4))
    assert "announced a command of this program a moment ago" in people.find_agent()
    record(tmp_path, "7:7", begin(now - 95, names_us=True), end(now - 90))
    assert people.find_agent() == ""


def test_a_system_that_shows_no_processes_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "list_lineage", lambda pid=0: [])
    with pytest.raises(PersonRequiredError, match="does not tell which programs run"):
        people.require_person("`alma trust`")


def test_a_pipe_and_a_terminal_of_another_session_are_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    main, other = pty.openpty()
    own = os.dup(0)
    try:
        os.dup2(reading, 0)
        assert people.find_missing_terminal() == "its input is not a terminal"
        os.dup2(other, 0)
        assert people.find_missing_terminal() == "its input is a terminal that does not control it"
    finally:
        os.dup2(own, 0)
        for file in (reading, writing, main, other, own):
            os.close(file)


@pytest.mark.system
def test_a_job_without_a_terminal_is_refused() -> None:
    """As from `cron`, `at` or `systemd-run`."""
    code = "from alma import people; print(people.find_missing_terminal())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        start_new_session=True,
    )
    assert done.stdout == "its input is not a terminal\n"


def test_the_list_of_ps_is_read_with_start_times_and_login_shells() -> None:
    text = "    1     0 Wed Nov 18 06:35:11 2026     /sbin/launchd\n  22     1 Wed Nov 18 06:35:12 2026     -zsh\nodd\n"
    table = _parse_ps(text)
    assert (table[22].parent, table[22].name, table[22].identity) == (1, "zsh", "22:Wed Nov 18 06:35:12 2026")
    assert table[22].began - table[1].began == 1


def test_the_nearest_program_that_is_no_shell_is_the_caller() -> None:
    lineage = list_lineage()
    caller, age, launchers = find_caller()
    assert caller is not None
    assert caller.pid in [one.pid for one in lineage[1:]]
    assert age >= 0
    assert [one.pid for one in (*launchers, caller)] == [one.pid for one in lineage[1 : len(launchers) + 2]]


@pytest.mark.parametrize("argument", [{"run_in_background": True}, {"is_background": True}, {"mode": "async"}])
def test_a_command_in_the_background_of_any_host_may_run_when_it_is_reported(argument: dict[str, object]) -> None:
    now = time.time()
    lines = (begin(now - 1, tool_input={"command": "x", **argument}), end(now))
    [call] = people.list_shell_calls(b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in lines))
    assert call.is_open_at(people.OPEN, now + 1)


def test_a_record_with_a_number_that_is_no_number_names_no_process() -> None:
    assert not is_running("²:1")
