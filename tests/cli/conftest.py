"""A project folder with a configuration, and a way to run commands in it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.forked import Running, share_server_forks

from alma.cli import main
from alma.http import dashboard

CONFIG = """\
alma:
  project_id: shop
  embedding_provider: hash
"""


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shop"
    (folder / ".alma").mkdir(mode=0o700, parents=True)
    (folder / ".alma" / "config.yaml").write_text(CONFIG, encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("ALMA_CONFIG", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*argv: str) -> Ran:
        code = main(argv)
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def forked_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """`alma dashboard` forks its servers from a process that has loaded them, where that is possible."""

    def start(command: list[str], *, env: dict[str, str], **options: Any) -> Running:
        assert command[:4] == [sys.executable, "-P", "-m", "alma.http"]
        code = "import sys; from alma.http import main; sys.exit(main())"
        log = Path(command[command.index("--tokens") + 1]).with_name(dashboard.LOG_FILE)
        return share_server_forks().start(code, Path.cwd(), arguments=command[4:], environ=env, log=log)

    if hasattr(os, "fork"):
        monkeypatch.setattr(dashboard, "subprocess", SimpleNamespace(Popen=start, DEVNULL=subprocess.DEVNULL))


class _Person(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Somebody at a terminal who says this when asked."""
    return lambda said: monkeypatch.setattr("sys.stdin", _Person(said))


@pytest.fixture
def deployed(project: Path, run: Run) -> dict[str, str]:
    """Three successes and what followed from them; the ids of one memory of each sort."""
    learn = ("learn", "--agent", "ops", "--task", "Deploy the auth service", "--strategy", "Blue-green deployment")
    for _ in range(3):
        ran = run(*learn, "--outcome", "success", "--json")
    fact = run("add", "knowledge", "--agent", "ops", "--domain", "ops", "--fact", "Logs are on host nine", "--json")
    return {
        "outcome": ran.json["outcome"]["id"],
        "heuristic": ran.json["learned"][0]["memory"]["id"],
        "fact": fact.json["memory"]["id"],
    }
