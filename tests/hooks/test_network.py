"""Nothing leaves the machine: hooks, worker and commands under a tracer speak to nobody but each other."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import claude_smart
from alma.hooks import journal
from alma.hooks.paths import DataDir

pytestmark = pytest.mark.system

SOURCE = Path(claude_smart.__file__).parent.parent
_CALL = re.compile(r"\b(connect|sendto|sendmsg|bind)\(")
_LOCAL = re.compile(r'AF_UNIX|AF_NETLINK|inet_addr\("127\.|inet_pton\(AF_INET6, "::1"|, NULL, 0\)|\bsendto\(\d+, "')


@pytest.fixture
def tracer() -> str:
    found = shutil.which("strace")
    if found is None or subprocess.run([found, "-o", os.devnull, "true"], check=False).returncode:
        pytest.skip("NOT PROVEN HERE that nothing but loopback is contacted: strace is missing or not permitted")
    return found


def strangers(trace: str) -> list[str]:
    return [line for line in trace.splitlines() if _CALL.search(line) and not _LOCAL.search(line)]


def test_a_stranger_is_noticed() -> None:
    line = 'connect(3, {sa_family=AF_INET, sin_port=htons(443), sin_addr=inet_addr("93.184.216.34")}, 16) = 0'
    assert strangers(line) == [line]
    assert strangers('connect(3, {sa_family=AF_UNIX, sun_path="/x"}, 110) = 0') == []


def test_a_whole_session_contacts_nobody(tracer: str, tmp_path: Path) -> None:
    home, trace = tmp_path / "home", tmp_path / "trace"
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    environ["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    # Each drain ends by itself: the tracer waits for whatever was started.
    environ["CLAUDE_SMART_BACKEND_AUTOSTART"] = "0"
    traced = [tracer, "-f", "-qq", "-A", "-e", "trace=network", "-o", str(trace)]
    hook = [sys.executable, "-I", "-S", str(SOURCE / "claude_smart" / "hook.py"), "--home", str(home)]

    def fire(event: str, **fields: object) -> None:
        given = {"session_id": "s1", "cwd": str(tmp_path), "hook_event_name": event, **fields}
        subprocess.run([*traced, *hook], input=json.dumps(given).encode(), env=environ, check=True, timeout=60)

    fire("SessionStart", source="startup")
    fire("UserPromptSubmit", prompt="no, use pnpm instead of npm", prompt_id="p1")
    fire("Stop", last_assistant_message="Done.", prompt_id="p1")
    place = DataDir(str(home))
    worker = [sys.executable, "-I", str(SOURCE / "alma" / "hooks" / "worker.py"), "--home", str(home)]
    with subprocess.Popen([*traced, *worker], env=environ) as running:
        deadline = time.monotonic() + 60
        while not (told := journal.ask_worker(place, {"op": "status"}, 1.0)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert told, "the worker did not start under the tracer"
        journal.ask_worker(
            place, {"op": "recall", "project": "p", "session": "s1", "text": "install packages", "limit": 3}, 20.0
        )
        journal.ask_worker(place, {"op": "stop"}, 5.0)
        assert running.wait(120) == 0
    command = "from claude_smart.cli import main; main(['show']); main(['learn']); main(['status'])"
    subprocess.run(
        [*traced, sys.executable, "-c", command],
        env={**environ, "PYTHONPATH": str(SOURCE)},
        cwd=tmp_path,
        check=True,
        timeout=60,
        stdout=subprocess.DEVNULL,
    )
    written = trace.read_text(errors="replace")
    assert "AF_UNIX" in written, "the tracer saw nothing at all"
    assert strangers(written) == []
    assert not (tmp_path / "cache").exists(), "a library wrote to the user's cache folder"
