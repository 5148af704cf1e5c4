"""In the real Claude Code the server that `.mcp.json` names is started, its tools are called, the model is told."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.host.conftest import Model, texts

from alma.app import open_config
from alma.files import apply_changes
from alma.mcp import clients
from alma.mcp.clients import CLIENTS, PROJECT

from .conftest import Place

pytestmark = pytest.mark.system

TASK = "Deploy the auth service"


@dataclass(frozen=True)
class Desk:
    """Somebody at work in a project, with a model that says what a test wrote down for it."""

    binary: str
    place: Place
    home: Path
    model: Model

    def asks(self, prompt: str, *replies: dict[str, Any]) -> list[dict[str, Any]]:
        """The requests that the model got."""
        self.model.will_say(*replies)
        environ = {
            "HOME": str(self.home),
            "PATH": os.defpath,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": "none",
            "MCP_TIMEOUT": "60000",
        }
        command = [self.binary, "-p", prompt, "--allowedTools", "mcp__alma", "--output-format", "json"]
        done = subprocess.run(
            command,
            cwd=self.place.folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return self.model.requests


@pytest.fixture
def desk(claude_binary: str, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    home = tmp_path / "home"
    (home / ".claude").mkdir(parents=True)
    # The question whether a project's servers may be started is for a person; here nobody is asked.
    (home / ".claude" / "settings.json").write_text(json.dumps({"enableAllProjectMcpServers": True}))
    monkeypatch.chdir(place.folder)
    apply_changes([clients.install(CLIENTS["claude-code"], PROJECT, place.command)])
    model = Model()
    yield Desk(claude_binary, place, home, model)
    model.close()


def results(requests: list[dict[str, Any]]) -> list[str]:
    """What tools gave back, as the model was shown it."""
    return [
        "\n".join(texts(part["content"]))
        for request in requests[-1:]
        for message in request["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == "tool_result"
    ]


def test_what_is_remembered_reaches_the_next_request(desk: Desk) -> None:
    learned = {"agent": "dev", "task": TASK, "outcome": "success", "strategy_used": "Blue-green deployment"}
    requests = desk.asks(
        "deploy it",
        {"when": "deploy it", "tool": "mcp__alma__alma_retrieve", "input": {"task": TASK, "agent": "dev"}},
        {"when": "Blue-green", "tool": "mcp__alma__alma_learn", "input": learned},
        {"when": "strategy_used", "tool": "mcp__alma__alma_learn", "input": {**learned, "outcome": "banana"}},
        {"text": "Done."},
    )
    recalled, kept, refused = results(requests)
    assert "Blue-green deployment" in recalled
    assert '"outcome":"success"' in kept.replace(" ", "")
    assert "Valid: success, partial, failure" in refused
    with open_config(desk.place.config) as alma:
        assert len(alma.list("outcome")) == 5
