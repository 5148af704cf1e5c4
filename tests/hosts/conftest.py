"""A person who works with one coding agent, in a home of its own, with a scripted model and without a network."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.hosts.agents import AGENTS, PORT, InstalledAgent, NotInstalledError, install_agent
from tests.hosts.sealed import find_unshare, run_sealed

from alma.hooks.drain import drain
from alma.hooks.paths import DataDir
from claude_smart.cli import main

_SECONDS = 120
_TRIES = 4
CHOSEN = os.environ.get("ALMA_TEST_HOSTS", "").split(",")
"""Agents to install and run besides the small ones; `make test-hosts` sets `all`."""


@dataclass
class Desk:
    """One coding agent and the folders of the person who uses it."""

    name: str
    installed: InstalledAgent
    home: Path
    wakes_workers: bool = False
    """Whether the hooks start workers, as they do where nobody tests them."""

    @property
    def environ(self) -> dict[str, str]:
        folders = [self.installed.path, str(self.home / "bin"), "/usr/local/bin", "/usr/bin", "/bin"]
        own = {key: value.format(home=self.home) for key, value in self.installed.agent.environ.items()}
        return {
            "HOME": str(self.home),
            "PATH": os.pathsep.join(filter(None, folders)),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "CLAUDE_SMART_BACKEND_AUTOSTART": "0",
            "CLAUDE_SMART_USE_LOCAL_EMBEDDING": "0",
            **own,
        }

    def make_repository(self, name: str) -> Path:
        folder = self.home / "work" / name
        folder.mkdir(parents=True)
        for arguments in (["init", "-q"], ["config", "user.name", "Test"], ["config", "user.email", "test@localhost"]):
            subprocess.run(["git", "-C", str(folder), *arguments], check=True)
        return folder

    def run_session(
        self, prompt: str, folder: Path, *replies: dict[str, object], without: str = "", command: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Run a session in the real agent. Return what the model was asked.

        `without` is an option to leave out. `command` is another command line, in which PROGRAM is replaced.
        """
        arguments = [one for one in self.installed.agent.arguments(prompt) if one != without]
        own = [one.replace("PROGRAM", str(self.installed.program)) for one in command]
        job = {
            "command": own or [str(self.installed.program), *arguments],
            "cwd": str(folder),
            "env": self.environ,
            "replies": replies,
            "port": PORT,
            "seconds": _SECONDS,
        }
        log = self.home / ".cline/data/logs/cline.log"
        for _ in range(_TRIES):
            before = log.read_text() if log.exists() else ""
            result = run_sealed(job)
            # Cline gives plug-ins four seconds to load, and goes on without them on a busy machine.
            if not log.exists() or "plugin loading failed" not in log.read_text().removeprefix(before):
                break
        assert result["code"] == 0, f"{result['output'][-1000:]} {result['errors'][-1000:]}"
        assert result["requests"], "the agent asked the model nothing"
        requests: list[dict[str, Any]] = result["requests"]
        return requests

    def smart(self, *arguments: str, folder: Path | None = None) -> tuple[int, str]:
        """Run a `claude-smart` command in the environment of the person. Return its code and output."""
        printed = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed), redirect_stderr(printed):
            patch.setattr(os, "environ", self.environ)
            patch.chdir(folder or self.home)
            code = main(arguments)
        if arguments[0] == "install" and code == 0 and not self.wakes_workers:
            self.wake_nobody()
        return code, printed.getvalue()

    def wake_nobody(self) -> None:
        """Let the hooks start a program that ends at once: most tests drain by themselves."""
        file = Path(self.data_dir.runtime)
        file.write_text(json.dumps({**json.loads(file.read_text()), "python": shutil.which("true")}))

    @property
    def data_dir(self) -> DataDir:
        return DataDir(str(self.home / ".claude-smart"))

    def learn(self, folder: Path) -> None:
        """Import all that was recorded."""
        if self.name == "aider":
            assert self.smart("learn", folder=folder)[0] == 0
        report = drain(self.data_dir, wait=20.0)
        assert (report.busy, report.problems) == (False, [])


@pytest.fixture
def open_desk(tmp_path: Path) -> Callable[[str], Desk]:
    """Return a function that installs an agent. Skips the test where that is not possible or not asked for."""

    def open_agent(name: str) -> Desk:
        agent = AGENTS[name]
        if not (agent.is_small or {"all", name} & {*CHOSEN}):
            pytest.skip(f"NOT TESTED IN THE REAL {agent.title}: `make test-hosts` installs it and runs this")
        if not sys.platform.startswith("linux"):
            pytest.skip(f"NOT TESTED IN THE REAL {agent.title}: its package here is the one for Linux")
        if not find_unshare():
            pytest.skip(f"NOT TESTED IN THE REAL {agent.title}: this system permits no network namespaces")
        try:
            installed = install_agent(name)
        except NotInstalledError as error:
            pytest.skip(f"NOT TESTED IN THE REAL {agent.title}: it could not be installed ({error})")
        home = tmp_path / "home"
        (home / "bin").mkdir(parents=True, exist_ok=True)
        installed.configure(home)
        # Every session here is a headless run; it stands for one in which a person types.
        (home / ".claude-smart").mkdir(mode=0o700, exist_ok=True)
        (home / ".claude-smart" / "config.json").write_text('{"programs": "on"}')
        return Desk(name, installed, home)

    return open_agent


def take_snapshot(folder: Path) -> dict[str, bytes]:
    """Return every file below a home folder with its content, except our own data."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    names = {path.relative_to(folder).as_posix(): path for path in files}
    return {name: path.read_bytes() for name, path in names.items() if not name.startswith(".claude-smart/")}
