"""The service as a process: where it listens, what it logs, how it ends."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.forked import Ended, share_server_forks

import alma.http as server
from alma import ALMA
from alma.app import open_config
from alma.errors import ConfigError, MissingExtraError, StorageError, ValidationError
from alma.http import HttpOptions, JsonLines, check_options, tokens
from alma.listening import is_local

from .conftest import CONFIG, SECONDS, Served, start

pytestmark = pytest.mark.system

SECRET = "The launch code is q7319z"


# -- where to listen


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "memory.example.org"])
def test_beyond_this_machine_only_with_tls_or_on_ones_own_word(host: str) -> None:
    with pytest.raises(ConfigError, match="--tls-cert"):
        check_options(HttpOptions(host=host, allowed_hosts=("memory.example.org",)))
    with pytest.raises(ConfigError, match="--allowed-host"):
        check_options(HttpOptions(host=host, insecure=True))
    check_options(HttpOptions(host=host, insecure=True, allowed_hosts=("memory.example.org",)))


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pass both"):
        check_options(HttpOptions(certificate="cert.pem"))
    (tmp_path / "c.pem").write_text("nonsense")
    with pytest.raises(ConfigError, match="c.pem are not a PEM certificate and its key"):
        check_options(HttpOptions(certificate=str(tmp_path / "c.pem"), key=str(tmp_path / "c.pem")))


def test_this_machine_needs_nothing() -> None:
    assert [is_local(one) for one in ("127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost")] == [True] * 5
    assert [is_local(one) for one in ("0.0.0.0", "::", "10.0.0.1", "localhost.evil.example", "")] == [False] * 5
    check_options(HttpOptions())


def test_a_port_that_is_taken_is_told(served: Served, tmp_path: Path) -> None:
    port = int(served.url.rpartition(":")[2])
    with pytest.raises(ConfigError, match="cannot listen"):
        server.serve(HttpOptions(config=str(served.config), port=port))


@pytest.mark.parametrize("package", ["uvicorn", "fastapi"])
def test_without_its_packages_it_says_what_to_install(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for module in ("alma.http.app", "alma.http.workers", "alma.connections"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[http\]'"):
        server.serve(HttpOptions())


def test_on_the_command_line_what_is_wrong_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert server.main(["--host", "0.0.0.0"]) == 2
    assert "--tls-cert" in capsys.readouterr().err


@pytest.mark.parametrize("server_command", [["serve"], ["mcp", "--transport", "http"]], ids=["serve", "mcp"])
@pytest.mark.parametrize("cause", ["storage not in this version", "damaged store"])
def test_a_store_that_cannot_be_opened_is_reported_before_listening(
    tmp_path: Path, server_command: list[str], cause: str
) -> None:
    config = tmp_path / ".alma" / "config.yaml"
    config.parent.mkdir()
    config.write_text(CONFIG.replace("sqlite", "postgres") if cause.startswith("storage") else CONFIG)
    (tmp_path / ".alma" / "alma.db").write_bytes(b"nonsense " * 1000)

    def run_alma(*words: str) -> Ended:
        code = "import sys; from alma.cli import main; sys.exit(main())"
        arguments = ["--config", str(config), *words]
        return share_server_forks().run(code, tmp_path, arguments=arguments, seconds=SECONDS)

    refused, stats = run_alma(*server_command, "--port", "0"), run_alma("stats")
    assert (refused.code, refused.err) == (1, stats.err)
    assert "needs 'dsn' in storage_options" in refused.err or "is damaged" in refused.err
    assert not [*config.parent.glob("*token*")]


def test_a_port_that_is_taken_leaves_the_store_closed(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, close = list[str](), ALMA.close

    def note_and_close(alma: ALMA) -> None:
        closed.append(alma.project_id)
        close(alma)

    monkeypatch.setattr(ALMA, "close", note_and_close)
    with pytest.raises(ConfigError, match="cannot listen"):
        server.serve(HttpOptions(config=str(served.config), port=int(served.url.rpartition(":")[2])))
    assert closed == ["app"]


# -- running


def test_it_serves_with_the_token_that_it_made(served: Served) -> None:
    headers = {"authorization": f"Bearer {served.token}"}
    assert httpx.get(f"{served.url}/ready", headers=headers, trust_env=False, timeout=60).json() == {"ready": True}
    assert httpx.get(f"{served.url}/ready", trust_env=False, timeout=60).json() == {"ready": True}
    assert httpx.get(f"{served.url}/metrics", trust_env=False, timeout=60).status_code == 401
    foreign = {**headers, "host": "evil.example"}
    assert httpx.get(f"{served.url}/ready", headers=foreign, trust_env=False, timeout=60).status_code == 421
    assert "server" not in httpx.get(f"{served.url}/health", headers=headers, trust_env=False, timeout=60).headers


def test_a_line_for_each_request_and_no_memory_in_it(served: Served) -> None:
    with served.connect() as alma:
        alma.add_domain_knowledge("dev", "launch", SECRET)
        alma.retrieve(SECRET, "dev")
        alma.search(query=SECRET)
    headers = {"authorization": f"Bearer {served.token}", "x-request-id": "mine-1"}
    httpx.get(f"{served.url}/v1/{SECRET}?why={SECRET}", headers=headers, trust_env=False, timeout=60)
    headers["x-forwarded-for"] = f"{'9' * 200}, 203.0.113.7"
    httpx.post(f"{served.url}/v1/get", json={"memory_id": SECRET}, headers=headers, trust_env=False, timeout=60)
    httpx.get(f"{served.url}/alma/v1/stats?why={SECRET}", trust_env=False, timeout=60)
    httpx.get(f"{served.url}/v1/{served.token}", trust_env=False, timeout=60)
    served.end()
    text = served.log.read_text()
    assert "launch" not in text
    assert "7319z" not in text
    assert served.token not in text
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(one["operation"], one["status"]) for one in lines] == [
        ("add_knowledge", 200),
        ("retrieve", 200),
        ("search", 200),
        ("", 404),
        ("get", 404),
        ("", 401),
        ("", 401),
    ]
    # Only short plain names of an unknown path are logged.
    assert [one["path"] for one in lines[3:]] == ["/v1/…", "/v1/get", "/alma/v1/stats", "/v1/…"]
    assert {one["client"] for one in lines} == {"127.0.0.1"}
    assert lines[4]["forwarded_for"].endswith(", 203.0.113.7")
    assert len(lines[4]["forwarded_for"]) == 100
    assert lines[3]["forwarded_for"] is None
    assert lines[4].keys() == {
        *("time", "request_id", "method", "path", "operation", "status", "ms", "token", "bytes_in", "bytes_out"),
        *("client", "forwarded_for"),
    }
    assert (lines[4]["request_id"], lines[4]["token"], lines[4]["method"]) == ("mine-1", "admin", "POST")
    assert [one["ms"] for one in lines] == [round(one["ms"], 2) for one in lines]
    assert lines[0]["bytes_in"] > 0
    assert lines[0]["bytes_out"] > 0


def test_what_the_memory_notes_quotes_nothing() -> None:
    def line(name: str, text: str, *given: object) -> dict[str, object]:
        made: dict[str, object] = json.loads(JsonLines().format(logging.LogRecord(name, 30, "", 1, text, given, None)))
        return made

    noted = line("alma", "left out: %s", "what was asked")
    assert noted["message"] == "left out: %s"
    assert line("alma.http", "request %s failed", "id-1")["message"] == "request id-1 failed"
    failed = line("alma", "could not be recorded: %s", ValidationError("what was asked"))
    assert failed["error"] == "ValidationError"
    assert "what was asked" not in json.dumps([noted, failed])


def test_who_sends_too_much_is_told_so_and_may_go_on(served: Served) -> None:
    headers = {"authorization": f"Bearer {served.token}", "content-type": "application/json"}
    with httpx.Client(base_url=served.url, headers=headers, trust_env=False, timeout=SECONDS) as client:
        for content in (b"x" * 20_000_000, iter([b"x" * 1_000_000] * 20)):
            assert client.post("/v1/learn", content=content).status_code == 413
        assert client.post("/v1/stats").status_code == 200


def test_a_token_that_is_added_meanwhile_is_known(served: Served) -> None:
    secret = tokens.add(tokens.find_file(served.config), "guest", "read")
    headers = {"authorization": f"Bearer {secret}"}
    assert httpx.get(f"{served.url}/health", headers=headers, trust_env=False, timeout=60).status_code == 200


def test_over_tls(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("NOT TESTED HERE: openssl is not installed, and makes the certificate")
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    made = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "1"]
    made += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(made, check=True, capture_output=True)
    served = start(tmp_path, "--tls-cert", cert, "--tls-key", key)
    try:
        assert served.url.startswith("https://")
        with served.connect(ca_file=cert) as alma:
            assert alma.list() == []
        with served.connect() as alma, pytest.raises(StorageError, match="cannot be reached"):
            alma.list()
    finally:
        served.end()
        assert served.process.stderr is not None
        served.process.stderr.close()


@pytest.mark.parametrize("options", [{"max_megabytes": 0.0}, {"rate": -1.0}, {"max_megabytes": float("nan")}])
def test_limits_that_make_no_sense_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="--rate"):
        check_options(HttpOptions(**options))  # type: ignore[arg-type]


# -- ending


class Writers:
    """Some who write without end, and remember what was acknowledged."""

    def __init__(self, served: Served, count: int = 4) -> None:
        self.acknowledged: list[str] = []
        self.problems: list[BaseException] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(served, at)) for at in range(count)]

    def __enter__(self) -> Writers:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for one in self._threads:
            one.join(SECONDS)

    def _write(self, served: Served, who: int) -> None:
        with served.connect(timeout=30) as alma:
            for at in range(100_000):
                if self._stop.is_set():
                    return
                try:
                    made = alma.learn(f"agent-{who}", f"Task {who} {at}", "success", f"Way {at}")
                except StorageError:
                    return
                except BaseException as error:  # noqa: BLE001 - told to the test, which fails with it
                    self.problems.append(error)
                    return
                self.acknowledged.append(made.id)

    def wait_for(self, count: int) -> None:
        end = time.monotonic() + SECONDS
        while len(self.acknowledged) < count:
            assert time.monotonic() < end
            assert not self.problems, self.problems
            time.sleep(0.02)


def held(served: Served) -> set[str]:
    with open_config(served.config) as alma:
        return {one.id for one in alma.list("outcome", limit=100_000)}


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="NOT TESTED HERE: no SIGKILL")
def test_killed_it_has_lost_nothing_that_was_acknowledged(served: Served) -> None:
    with Writers(served) as writers:
        writers.wait_for(40)
        os.kill(served.process.pid, signal.SIGKILL)
        served.process.wait(SECONDS)
    assert not writers.problems
    assert set(writers.acknowledged) <= held(served)


def test_asked_to_end_it_finishes_what_runs(served: Served) -> None:
    with Writers(served) as writers:
        writers.wait_for(40)
        status = served.end()
    assert not writers.problems
    assert status in (0, -signal.SIGTERM)
    found = held(served)
    assert set(writers.acknowledged) <= found
    # What ran was finished, and answered: nobody wrote without being told.
    assert len(found) == len(writers.acknowledged)
    lines = [json.loads(line) for line in served.log.read_text().splitlines()]
    assert {one.get("status") for one in lines} == {200}


def test_it_starts_again_where_it_was(tmp_path: Path) -> None:
    once = start(tmp_path)
    assert str(tmp_path / ".alma" / "http-token") in once.told
    assert once.token not in once.told
    with once.connect() as alma:
        made = alma.add_domain_knowledge("dev", "launch", SECRET)
    once.end()
    again: Any = start(tmp_path)
    try:
        assert again.token == once.token
        assert "created a token" in once.told
        assert "created a token" not in again.told
        with again.connect() as alma:
            assert alma.get(made.id).fact == SECRET
    finally:
        again.end()
        for one in (once, again):
            one.process.stderr.close()
