"""`alma serve` and `alma token`."""

from __future__ import annotations

import json
import logging
import os
import signal
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.forked import find_command

from alma.app import TOKEN_FILES
from alma.http import tokens

pytestmark = pytest.mark.system

Run = Callable[..., Any]


# -- tokens


def test_a_token_may_expire_and_may_approve(project: Path, run: Run) -> None:
    made = run("token", "add", "ana", "--scope", "approve", "--expires", "2999-01-31", "--json").json
    assert made["expires_at"].startswith("2999-01-31")
    assert (made["scope"], made["expired"]) == ("approve", False)
    assert "until 2999-01-31 00:00 UTC" in run("token", "add", "bob", "--expires", "2999-01-31").out
    run("token", "add", "ci")
    assert "2999-01-31" in run("token", "list").out
    assert [one["expires_at"] is None for one in run("token", "list", "--json").json["tokens"]] == [False, False, True]
    assert "such as 12h" in run("token", "add", "eve", "--expires", "soon").err


def test_a_token_is_shown_once_and_not_kept(project: Path, run: Run) -> None:
    ran = run("token", "add", "dashboard")
    assert ran.code == 0
    said, secret = ran.out.splitlines()
    assert said == "Created token 'dashboard': may read in all projects. Copy it now; it is not shown again:"
    file = project / ".alma" / tokens.FILE
    assert secret not in file.read_text()
    assert tokens.Tokens(file).find(secret) is not None
    assert "dashboard" in run("token", "list").out
    assert secret not in run("token", "list", "--json").out


def test_scopes_and_projects(project: Path, run: Run) -> None:
    made = run("token", "add", "ci", "--scope", "write", "--project", "shop", "--project", "garden", "--json").json
    assert (made["scope"], made["projects"]) == ("write", ["garden", "shop"])
    assert "may do everything in all projects" in run("token", "add", "root", "--scope", "admin").out
    [ci, root] = run("token", "list", "--json").json["tokens"]
    assert (ci["name"], root["projects"]) == ("ci", None)
    assert "sha256" not in ci
    assert "digest" not in ci


def test_revoked_it_opens_nothing(project: Path, run: Run) -> None:
    secret = run("token", "add", "ci", "--json").json["token"]
    assert run("token", "revoke", "ci").out == "revoked ci\n"
    assert tokens.Tokens(project / ".alma" / tokens.FILE).find(secret) is None
    assert run("token", "list", "--json").json["count"] == 0


def test_without_any(project: Path, run: Run) -> None:
    assert run("token", "list").out.startswith("No tokens yet")


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_the_file_is_private(project: Path, run: Run) -> None:
    run("token", "add", "ci")
    file = project / ".alma" / tokens.FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    ran = run("token", "list")
    assert ran.code == 1
    assert "chmod 600" in ran.err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("add", "ci"), "token 'ci' already exists"),
        (("add", "x", "--scope", "all"), "unknown scope 'all'"),
        (("add", " "), "NAME must be"),
        (("add", "x", "--project", ""), "project must be"),
        (("revoke", "c"), "unknown token 'c'"),
        (("list", "--config", "nowhere.yaml"), "nowhere.yaml"),
    ],
)
def test_bad_input_is_one_clear_line(project: Path, run: Run, argv: tuple[str, ...], message: str) -> None:
    run("token", "add", "ci")
    ran = run("token", *argv)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1
    assert message in ran.err
    assert [one["name"] for one in run("token", "list", "--json").json["tokens"]] == ["ci"]


# -- serve


def test_it_serves_and_ends_well(project: Path) -> None:
    command = [*find_command(), "serve", "--port", "0", "--log-file", "requests.jsonl"]
    with subprocess.Popen(command, cwd=project, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            said = []
            for line in server.stderr:
                said.append(line)
                if "://" in line:
                    break
            address = said[-1].split()[-1]
            token = (project / ".alma" / tokens.FIRST_FILE).read_text().strip()
            asked = urllib.request.Request(f"{address}/v1/stats", b"{}", {"Authorization": f"Bearer {token}"})
            asked.add_header("Content-Type", "application/json")
            with urllib.request.urlopen(asked, timeout=30) as answer:
                assert json.load(answer)["project_id"] == "shop"
        finally:
            server.send_signal(signal.SIGTERM if os.name == "posix" else signal.CTRL_C_EVENT)
            rest = server.communicate(timeout=60)[1]
    assert "Traceback" not in rest
    assert any(tokens.FIRST_FILE in line for line in said)
    assert len(Path(project / "requests.jsonl").read_text().splitlines()) == 1


def test_its_log_is_its_own(project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the service logs must not stand on standard error a second time."""

    def warned(chosen: object) -> None:
        logging.getLogger("alma").warning("of the service")

    monkeypatch.setattr("alma.http.serve", warned)
    assert "warning:" not in run("serve").err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--host", "0.0.0.0"), "--tls-cert"),
        (("--host", "0.0.0.0", "--insecure"), "--allowed-host"),
        (("--tls-cert", "x.pem"), "pass both --tls-cert and --tls-key"),
        (("--config", "nowhere.yaml"), "nowhere.yaml"),
        (("--log-file", "nowhere/x.jsonl"), "pass another --log-file"),
    ],
)
def test_what_cannot_be_served(project: Path, run: Run, argv: tuple[str, ...], message: str) -> None:
    ran = run("serve", "--port", "0", *argv)
    assert ran.code == 1
    assert "error: " in ran.err
    assert message in ran.err


def test_without_the_extra_it_is_named(project: Path) -> None:
    code = """if True:
        import sys
        sys.modules["uvicorn"] = None
        from alma.cli import main
        sys.exit(main(["serve"]))
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "'.[http]" in done.stderr


def test_the_doctor_knows_where_tokens_are() -> None:
    assert {tokens.FILE, tokens.FIRST_FILE} < {*TOKEN_FILES}
