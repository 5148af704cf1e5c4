"""`alma mcp`: the server as a command, and its place in the settings of clients."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.forked import find_command

pytestmark = pytest.mark.system

Run = Callable[..., Any]

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


@pytest.fixture
def home(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nobody's settings but our own."""
    folder = project.parent / "home"
    folder.mkdir()
    for name in ("HOME", "USERPROFILE", "APPDATA", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(folder))
    return folder


@pytest.mark.parametrize("words", [("mcp", "--config", "CONFIG"), ("--config", "CONFIG", "mcp", "--tools", "core")])
def test_it_answers_over_standard_input_and_output(project: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    config = str(project / ".alma" / "config.yaml")
    command = [*find_command(), *(config if word == "CONFIG" else word for word in words)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(HELLO) + "\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        rest, _ = server.communicate(timeout=60)
    assert answer["result"]["serverInfo"]["name"] == "alma"
    assert (rest, server.returncode) == ("", 0)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--config", "nowhere.yaml"), "no configuration file nowhere.yaml; create one with `alma init`"),
        (("--tools", "retrieve,nonsense"), "unknown tool 'nonsense'"),
        (("--transport", "http", "--host", "0.0.0.0"), "--tls-cert"),
    ],
)
def test_what_cannot_be_served_is_one_clear_line(project: Path, run: Run, argv: tuple[str, ...], message: str) -> None:
    ran = run("mcp", *argv)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: ")
    assert message in ran.err


def test_without_the_extra_it_is_named(project: Path) -> None:
    code = """if True:
        import sys

        class Missing:
            def find_spec(self, name, path=None, target=None):
                if name == "mcp":
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(0, Missing())
        from alma.cli import main
        sys.exit(main(["mcp"]))
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "'.[mcp]" in done.stderr
    assert "Traceback" not in done.stderr


# -- install


def test_install_shows_asks_and_does_it(home: Path, run: Run, answering: Callable[[str], None]) -> None:
    answering("n\n")
    refused = run("mcp", "install", "--client", "cursor")
    assert refused.code == 1
    assert '+    "alma": {' in refused.out
    assert not Path(".cursor/mcp.json").exists()
    answering("y\n")
    done = run("mcp", "install", "--client", "cursor", "--tools", "core", "--agent", "dev")
    assert done.code == 0
    assert "Done." in done.out.splitlines()[-1]
    entry = json.loads(Path(".cursor/mcp.json").read_text())["mcpServers"]["alma"]
    assert entry["args"][-4:] == ["--tools", "core", "--agent", "dev"]
    assert "already installed" in run("mcp", "install", "--client", "cursor", "--tools", "core", "--agent", "dev").out


def test_the_configuration_that_was_named_is_written(
    home: Path, project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = str(project / ".alma" / "config.yaml")
    monkeypatch.chdir(home)
    run("mcp", "install", "--client", "cursor", "--yes", "--config", config)
    assert config in json.loads(Path(".cursor/mcp.json").read_text())["mcpServers"]["alma"]["args"]


def test_uninstall_takes_it_out_again(home: Path, run: Run) -> None:
    Path(".cursor").mkdir()
    mine = '{"mcpServers": {"git": {"command": "uvx"}}}\n'
    Path(".cursor/mcp.json").write_text(mine)
    run("mcp", "install", "--client", "cursor", "--yes")
    assert "alma" in Path(".cursor/mcp.json").read_text()
    assert run("mcp", "uninstall", "--client", "cursor", "--yes").code == 0
    assert Path(".cursor/mcp.json").read_text() == mine
    assert run("mcp", "uninstall", "--client", "cursor", "--yes").code == 0


def test_as_json(home: Path, run: Run) -> None:
    told = ("mcp", "install", "--client", "claude-code", "--json")
    refused = run(*told)
    assert refused.code == 1
    assert "--yes" in refused.json["error"]["message"]
    dry = run(*told, "--dry-run").json
    assert (dry["done"], dry["change"]) == (False, "create")
    assert not Path(".mcp.json").exists()
    assert run(*told, "--yes").json["done"] is True
    assert Path(".mcp.json").exists()


def test_settings_that_cannot_be_read_are_left_alone(home: Path, run: Run) -> None:
    Path(".mcp.json").write_text("{torn")
    ran = run("mcp", "install", "--client", "claude-code", "--yes")
    assert ran.code == 1
    assert ran.err.startswith("error: ")
    assert Path(".mcp.json").read_text() == "{torn"
