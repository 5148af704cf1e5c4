"""Connections that send half a request, and more of them than there is room for."""

from __future__ import annotations

import json
import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

from alma.app import open_quickstart
from alma.http import tokens
from alma.http.app import GateRules, build
from alma.projects import LazyMemory, Projects

from .conftest import SECONDS, Served, start

pytestmark = pytest.mark.system


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Served]:
    made = start(tmp_path, "--timeout", "1.5", "--max-connections", "24")
    yield made
    made.end()
    assert made.process.stderr is not None
    made.process.stderr.close()


def dial(served: Served) -> socket.socket:
    host, _, port = served.url.removeprefix("http://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=SECONDS)


def read_answer(connection: socket.socket) -> bytes:
    answer = b""
    while not answer.endswith(b"}"):
        answer += connection.recv(65536)
    return answer


def read_to_end(connection: socket.socket) -> bytes:
    """What comes until the other side closes. Fails when it never does."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("sent", [b"", b"GET /hea", b"GET /health HTTP/1.1\r\nHost: x\r\nX-A: 1\r\n"])
def test_half_sent_headers_are_not_waited_for(hasty: Served, sent: bytes) -> None:
    with dial(hasty) as connection:
        connection.sendall(sent)
        began = time.monotonic()
        assert b"408" in read_to_end(connection).partition(b"\r\n")[0]
        assert time.monotonic() - began < 20


def test_headers_that_trickle_in_are_not_waited_for(hasty: Served) -> None:
    with dial(hasty) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\n")
        began = time.monotonic()
        connection.settimeout(0.05)
        answer = b""
        while not answer and time.monotonic() - began < 20:
            try:
                connection.sendall(b"X-A: 1\r\n")
                answer = connection.recv(65536)
            except TimeoutError:
                continue
            except ConnectionError:
                # It was closed while more was being sent; the answer can still be read.
                answer = read_to_end(connection)
        assert b"408" in answer
        assert time.monotonic() - began < 15


def test_the_second_request_of_a_connection_has_no_more_time(hasty: Served) -> None:
    with dial(hasty) as connection:
        host = hasty.url.removeprefix("http://").encode()
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
        assert b"200 OK" in read_answer(connection)
        time.sleep(2)
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
        assert b"200 OK" in read_answer(connection)
        connection.sendall(b"GET /hea")
        assert b"408" in read_to_end(connection)


@pytest.mark.parametrize("token", [True, False])
def test_half_sent_bodies_are_not_waited_for(tmp_path: Path, token: bool) -> None:
    served = start(tmp_path, "--timeout", "0.5")
    try:
        with dial(served) as connection:
            head = f"POST /v1/stats HTTP/1.1\r\nHost: {served.url.removeprefix('http://')}\r\nContent-Length: 50\r\n"
            head += (
                f"Authorization: Bearer {served.token if token else 'wrong'}\r\nContent-Type: application/json\r\n\r\n"
            )
            connection.sendall(head.encode() + b'{"agent": ')
            began = time.monotonic()
            assert (b"408" if token else b"401") in read_to_end(connection).partition(b"\r\n")[0]
            assert time.monotonic() - began < 20
    finally:
        served.end()
        assert served.process.stderr is not None
        served.process.stderr.close()


def test_one_address_gets_a_part_of_the_connections(tmp_path: Path) -> None:
    served = start(tmp_path, "--max-connections", "24")
    try:
        some = [dial(served) for _ in range(6)]
        with dial(served) as connection:
            answer = read_to_end(connection)
        assert answer.startswith(b"HTTP/1.1 503")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["type"] == "urn:alma:error:TooManyConnections"
        for one in some:
            one.close()
        end = time.monotonic() + SECONDS
        while True:
            try:
                if httpx.get(f"{served.url}/health", trust_env=False).status_code == 200:
                    break
            except httpx.TransportError:
                pass
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        served.end()
        assert served.process.stderr is not None
        served.process.stderr.close()


@pytest.mark.skipif(os.name != "posix", reason="NOT TESTED HERE: other systems keep files private otherwise")
def test_the_log_is_private_even_when_it_was_not(tmp_path: Path) -> None:
    log = tmp_path / "requests.log"
    log.write_text("")
    log.chmod(0o644)
    served = start(tmp_path)
    try:
        assert stat.S_IMODE(log.stat().st_mode) == 0o600
        log.unlink()
    finally:
        served.end()
        assert served.process.stderr is not None
        served.process.stderr.close()
    again = start(tmp_path)
    again.end()
    assert again.process.stderr is not None
    again.process.stderr.close()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_damaged_store_is_named_in_the_log_and_not_in_the_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "alma.db"
    store.write_bytes(b"nonsense " * 1000)
    projects = Projects(LazyMemory(lambda: open_quickstart("app", tmp_path)))
    file = tmp_path / tokens.FILE
    headers = {"authorization": f"Bearer {tokens.add(file, 'owner', 'admin', ())}"}
    app = build(projects, tokens.Tokens(file), GateRules(hosts=frozenset({"testserver"}), rate=0))
    client = TestClient(app, headers=headers)
    for operation in ("stats", "list"):
        answer = client.post(f"/v1/{operation}")
        assert str(tmp_path) not in answer.text
        assert "alma.db" not in answer.text
        assert answer.status_code == 500
        assert answer.json()["type"] == "urn:alma:error:CorruptStoreError"
    ready = client.get("/ready")
    assert ready.status_code == 503
    assert str(tmp_path) not in ready.text
    assert f"see the server's log for request id {ready.json()['request_id']}, or POST /v1/health" in ready.text
    assert f"request {ready.json()['request_id']}: the memory is not ready: {store} is damaged" in caplog.text
    health = client.post("/v1/health")
    assert (health.status_code, health.json()["ok"]) == (200, False)
    assert health.json()["project_id"] == ""
    assert client.post("/v1/health", headers={"alma-project": "shop"}).json()["project_id"] == "shop"
    [problem] = health.json()["problems"]
    assert "the store is damaged" in problem
    assert str(tmp_path) not in problem


def test_a_long_query_in_a_script_without_spaces_is_answered(tmp_path: Path) -> None:
    served = start(tmp_path)
    try:
        with served.connect() as alma:
            alma.add_domain_knowledge("dev", "database", "The database listens on port 5432")
            found = alma.search(query="数据库在端口五四三二上运行" * 2_310 + " database")
            assert [one.memory.domain for one in found] == ["database"]
    finally:
        served.end()
        assert served.process.stderr is not None
        served.process.stderr.close()
