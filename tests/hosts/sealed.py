"""Run a program in a network namespace that has only loopback, with a scripted model on it.

The job comes as JSON on standard input: `command`, `cwd`, `env`, `replies`, `port`, `seconds` and, where the program
has one, `input`. The result goes to
standard output as JSON: `code`, `output`, `errors`, `requests` (what the model was asked) and `names` (the host names
that the program tried to look up; no lookup is answered). Started by `run_sealed`, under `unshare`.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from typing import Any


def find_unshare() -> list[str]:
    """Return the command that enters a new network namespace; empty where the system does not permit one."""
    for command in (["unshare", "-n", "--"], ["unshare", "-r", "-n", "--"]):
        with contextlib.suppress(OSError):
            if subprocess.run([*command, "ip", "link", "set", "lo", "up"], capture_output=True).returncode == 0:
                return command
    return []


def run_sealed(job: dict[str, Any]) -> dict[str, Any]:
    """Run a job in a namespace of its own. Return its result."""
    # Without the environment of the tests: a coding agent may have started them.
    environ = {"PATH": os.environ["PATH"]}
    command = [*find_unshare(), sys.executable, "-I", os.path.abspath(__file__)]
    done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, env=environ, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _record_lookups(address: str, names: set[str]) -> None:
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 53))
    while True:
        query, client = server.recvfrom(4096)
        labels, at = [], 12
        while at < len(query) and query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode("latin-1"))
            at += query[at] + 1
        names.add(".".join(labels))
        # NXDOMAIN: the name does not exist.
        server.sendto(query[:2] + b"\x81\x83" + query[4:6] + bytes(6) + query[12 : at + 5], client)


def _answer_lookups(names: set[str]) -> None:
    """Stand in for the name servers of this machine."""
    for line in pathlib.Path("/etc/resolv.conf").read_text().splitlines():
        words = line.split()
        if words[:1] == ["nameserver"] and ":" not in words[1]:
            if not words[1].startswith("127."):
                subprocess.run(["ip", "addr", "add", f"{words[1]}/32", "dev", "lo"], check=False, capture_output=True)
            with contextlib.suppress(OSError):
                threading.Thread(target=_record_lookups, args=(words[1], names), daemon=True).start()


def _end_processes() -> None:
    """End what the program left behind: some agents start a daemon. Everything in this namespace was started here."""
    own = os.readlink("/proc/self/ns/net")
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{name}/ns/net") == own:
                    os.kill(int(name), signal.SIGKILL)


def main() -> None:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from scripted_model import ScriptedModel  # type: ignore[import-not-found]

    job = json.load(sys.stdin)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    names: set[str] = set()
    _answer_lookups(names)
    model = ScriptedModel(job["replies"], job["port"])
    with (
        tempfile.TemporaryFile("w+") as source,
        tempfile.TemporaryFile("w+") as output,
        tempfile.TemporaryFile("w+") as errors,
    ):
        source.write(job.get("input", ""))
        source.seek(0)
        child = subprocess.Popen(
            job["command"],
            cwd=job["cwd"],
            env=job["env"],
            stdin=source if "input" in job else subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            code = child.wait(job["seconds"])
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        _end_processes()
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read())
    result = {"code": code, "output": texts[0], "errors": texts[1], "requests": model.requests, "names": sorted(names)}
    print(json.dumps(result))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
