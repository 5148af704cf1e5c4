"""`alma dashboard`: it finds the running server or starts one, and gives a link that works once."""

from __future__ import annotations

import json
import os
import socket
import webbrowser
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from alma.http import dashboard

from .conftest import Run

pytestmark = pytest.mark.system
STATE = Path(".alma") / dashboard.STATE_FILE


@pytest.fixture(autouse=True)
def _stop(project: Path) -> Iterator[None]:
    yield
    while dashboard._STARTED:
        process = dashboard._STARTED.pop()
        process.terminate()
        process.wait(30)


def trade(link: str) -> httpx.Response:
    place, code = link.split("/ui/enter#")
    return httpx.post(f"{place}/ui/session", json={"code": code}, trust_env=False, timeout=60)


def test_a_server_is_started_once_and_each_link_works_once(project: Path, run: Run) -> None:
    first = run("dashboard", "--no-open", "--json").json
    assert first["was_started"]
    assert first["link"].startswith("http://127.0.0.1:")
    second = run("dashboard", "--no-open", "--read-only", "--json").json
    assert not second["was_started"]
    assert second["link"].partition("/ui/")[0] == first["link"].partition("/ui/")[0]
    assert trade(first["link"]).json()["scope"] == "approve"
    assert trade(second["link"]).json()["scope"] == "read"
    assert trade(first["link"]).status_code == 401
    if os.name == "posix":
        for name in (dashboard.STATE_FILE, dashboard.LOG_FILE):
            assert (project / ".alma" / name).stat().st_mode & 0o077 == 0


@pytest.mark.usefixtures("forked_servers")
def test_the_link_is_opened_in_a_browser_and_not_written_down(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda link: not opened.append(link))
    ran = run("dashboard", "--admin")
    [link] = opened
    code = link.partition("#")[2]
    assert code not in ran.out
    assert trade(link).json()["scope"] == "admin"
    assert code not in (project / ".alma" / dashboard.LOG_FILE).read_text()


@pytest.mark.usefixtures("forked_servers")
def test_a_server_of_somebody_else_is_not_sent_the_token(project: Path, run: Run) -> None:
    run("dashboard", "--no-open", "--json")
    state = json.loads((project / STATE).read_text())
    # A process that is gone, whose port somebody else may have.
    (project / STATE).write_text(json.dumps({**state, "pid": 2**22 + 1}))
    assert run("dashboard", "--no-open", "--json").json["was_started"]


@pytest.mark.usefixtures("forked_servers")
def test_a_restarted_server_has_the_same_port_so_that_open_tabs_go_on(project: Path, run: Run) -> None:
    def stop(*, is_killed: bool = False) -> None:
        process = dashboard._STARTED.pop()
        process.kill() if is_killed else process.terminate()
        process.wait(30)

    def open_port() -> int:
        link = run("dashboard", "--no-open", "--json").json["link"]
        return int(link.partition("/ui/")[0].rpartition(":")[2])

    port = open_port()
    stop()
    assert open_port() == port
    stop(is_killed=True)
    assert open_port() == port
    stop()
    with socket.create_server(("127.0.0.1", port)):
        assert open_port() != port, "it is in use"


@pytest.mark.usefixtures("forked_servers")
def test_a_named_server_gives_a_link_to_whoever_has_a_token(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = run("dashboard", "--no-open", "--json").json["link"].partition("/ui/")[0]
    secret = run("token", "add", "ana", "--scope", "read", "--json").json["token"]
    Path("secret.txt").write_text(secret)
    link = run("dashboard", "--server", place, "--token-file", "secret.txt", "--no-open", "--json").json["link"]
    session = trade(link).json()
    assert (session["scope"], session["name"]) == ("read", "dashboard of ana")
    Path("secret.txt").write_text("wrong")
    refused = run("dashboard", "--server", place, "--token-file", "secret.txt", "--no-open")
    assert refused.code == 1
    assert "unknown or revoked" in refused.err


@pytest.mark.parametrize("url", ["ftp://example.org", "http://example.org", "https://user:pw@example.org", "nonsense"])
def test_a_server_that_must_not_get_a_token_is_refused(project: Path, run: Run, url: str) -> None:
    Path("secret.txt").write_text("alma_secret")
    refused = run("dashboard", "--server", url, "--token-file", "secret.txt", "--no-open")
    assert refused.code == 1


@pytest.mark.usefixtures("forked_servers")
def test_a_port_in_use_is_reported(project: Path, run: Run) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        refused = run("dashboard", "--no-open", "--port", str(busy.getsockname()[1]))
    assert refused.code == 1
    assert "cannot listen at" in refused.err
