"""Over HTTP: nobody is served without the token, under a foreign name, or for a foreign page."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from alma import ALMA
from alma.connections import bind_socket
from alma.errors import ConfigError
from alma.listening import check_options, is_local
from alma.mcp import McpOptions
from alma.mcp.server import build, list_hosts, list_origins, read_or_make_token
from alma.mcp.server import build_app as app
from mcp import Client

from .conftest import SECONDS, TOKEN, Lent, Place, Site

pytestmark = pytest.mark.system

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
HEADERS = {
    "Authorization": f"Bearer {TOKEN}",
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "Host": "127.0.0.1:8765",
}
MODERN = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {
        "name": "alma_stats",
        "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    },
}


@pytest.fixture
def web(alma: ALMA) -> Any:
    made = app(build(Lent(lambda: alma)), TOKEN, ["127.0.0.1:8765"], ["http://localhost:*"])
    with TestClient(made, base_url="http://127.0.0.1:8765") as client:
        yield client


def posted(web: TestClient, body: Any = None, **headers: str | None) -> httpx2.Response | Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    sent = {name: value for name, value in {**HEADERS, **named}.items() if value is not None}
    return web.post("/mcp", content=json.dumps(body or HELLO), headers=sent)


def test_an_error_names_no_path_of_the_server(site: Site) -> None:
    [store] = site.place.folder.rglob("alma.db")
    for file in store.parent.glob("alma.db*"):
        file.unlink()
    store.write_bytes(b"nonsense " * 1000)

    async def work(client: Client) -> list[str]:
        results = [await client.call_tool(f"alma_{name}", {}) for name in ("stats", "health", "list")]
        return [str(one.content[0].text) for one in results]

    for told in site.talk(work):
        assert "the store is damaged" in told
        assert str(site.place.folder) not in told
        assert "alma.db" not in told


def test_half_a_request_is_not_waited_for(place: Place) -> None:
    command = [*place.forked_command, "--transport", "http", "--port", "0", "--timeout", "0.5"]
    environ = {**os.environ, "ALMA_MCP_TOKEN": TOKEN}
    with subprocess.Popen(command, cwd=place.folder, env=environ, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = process.stderr.readline().split()[-1].removeprefix("http://").partition("/")[0]
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=SECONDS) as connection:
                connection.sendall(b"POST /mcp HTTP/1.1\r\nHost: ")
                assert b"408" in connection.recv(65536)
        finally:
            process.terminate()
            process.wait(SECONDS)


def test_with_the_token_it_answers(web: TestClient) -> None:
    answer = posted(web)
    assert answer.status_code == 200
    assert '"serverInfo"' in answer.text
    assert posted(web, Origin="http://localhost:3000").status_code == 200


@pytest.mark.parametrize(
    "token", [None, "Bearer wrong", "Bearer ", "Basic " + TOKEN, TOKEN, f"Bearer {TOKEN}x", "Bearer \u00fc"]
)
@pytest.mark.parametrize("body", [HELLO, MODERN], ids=["handshake", "modern"])
def test_without_the_token_nobody_is_served(web: TestClient, token: str | None, body: Any) -> None:
    version = {"Mcp_Protocol_Version": "2026-07-28"} if body is MODERN else {}
    sent = {name: value for name, value in HEADERS.items() if name != "Authorization"}
    if token is not None:
        sent["Authorization"] = token
    named = {name.replace("_", "-"): value for name, value in version.items()}
    raw = [(name.encode(), value.encode("latin-1")) for name, value in {**sent, **named}.items()]
    answer = web.post("/mcp", content=json.dumps(body), headers=raw)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert "alma" not in answer.text


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS", "HEAD"])
def test_no_other_way_in_either(web: TestClient, method: str) -> None:
    assert web.request(method, "/mcp", headers={"Host": HEADERS["Host"]}).status_code == 401


@pytest.mark.parametrize("path", ["/", "/mcp/x", "/.well-known/oauth-protected-resource", "/docs"])
def test_there_is_nothing_else(web: TestClient, path: str) -> None:
    assert web.get(path, headers=HEADERS).status_code == 404


@pytest.mark.parametrize("version", [{}, {"Mcp_Protocol_Version": "2026-07-28"}], ids=["handshake", "modern"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:8765"}, 421),
        ({"Host": "127.0.0.1:9999"}, 421),
        ({"Host": "127.0.0.1.evil.example:8765"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost.evil.example:80"}, 403),
        ({"Content_Type": "text/plain"}, 400),
    ],
)
def test_a_foreign_name_or_page_is_refused(
    web: TestClient, headers: dict[str, str], status: int, version: dict[str, str]
) -> None:
    assert posted(web, MODERN if version else HELLO, **headers, **version).status_code == status


def test_what_is_too_large_is_refused(web: TestClient) -> None:
    large = {**HELLO, "padding": "x" * (5 * 2**20)}
    assert posted(web, large).status_code == 413


def test_what_is_not_json_is_refused(web: TestClient) -> None:
    assert web.post("/mcp", content=b"{", headers=HEADERS).status_code == 400


# -- as a process


def test_it_can_be_stopped_and_leaves_nothing(site: Site) -> None:
    async def work(client: Client) -> None:
        await client.call_tool("alma_stats", {})

    site.talk(work)
    site.process.send_signal(signal.SIGINT)
    assert site.process.wait(SECONDS) in (0, 130, -signal.SIGINT)


def test_it_makes_a_token_for_its_owner(place: Place) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "ALMA_MCP_TOKEN"}
    command = [*place.forked_command, "--transport", "http", "--port", "0"]
    with subprocess.Popen(command, cwd=place.folder, env=environ, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            made, where = process.stderr.readline(), process.stderr.readline()
            token = (place.config.parent / "mcp-token").read_text().strip()
            headers = {**HEADERS, "Authorization": f"Bearer {token}"}
            del headers["Host"]
            answer = httpx2.post(where.split()[-1], json=HELLO, headers=headers, timeout=SECONDS)
        finally:
            process.terminate()
            process.wait(SECONDS)
    assert "created a token in" in made
    assert token not in made + where
    assert answer.status_code == 200
    if os.name == "posix":
        assert (place.config.parent / "mcp-token").stat().st_mode & 0o777 == 0o600


# -- what it refuses to begin with


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (McpOptions(host="0.0.0.0"), "--tls-cert"),
        (McpOptions(host="::"), "--tls-cert"),
        (McpOptions(host="memory.example.org", certificate="c", key="k"), "--allowed-host"),
        (McpOptions(host="0.0.0.0", insecure=True), "--allowed-host"),
        (McpOptions(key="k"), "pass both"),
        (
            McpOptions(host="0.0.0.0", certificate="c", key="k", allowed_hosts=("memory.example.org",)),
            "there is no file c and k",
        ),
    ],
)
def test_the_world_is_let_in_only_on_purpose(options: McpOptions, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        check_options(options)


@pytest.mark.parametrize(
    "options",
    [
        McpOptions(),
        McpOptions(host="localhost"),
        McpOptions(host="::1"),
        McpOptions(host="0.0.0.0", insecure=True, allowed_hosts=("memory.example.org",)),
    ],
)
def test_what_is_safe_or_meant_is_let_be(options: McpOptions) -> None:
    check_options(options)


def test_a_certificate_must_be_one(tmp_path: Path) -> None:
    file = tmp_path / "c.pem"
    file.write_text("cannot load the certificate")
    for options, message in (
        (McpOptions(certificate=str(file)), "c.pem is not a PEM certificate with its key; pass both"),
        (McpOptions(certificate=str(tmp_path / "none"), key=str(file)), "there is no file .*none$"),
    ):
        with pytest.raises(ConfigError, match=message):
            check_options(options)
    check_options(McpOptions())


@pytest.mark.parametrize("port", [-1, 70_000])
def test_a_port_must_be_one(port: int) -> None:
    with pytest.raises(ConfigError, match=f"from 0 to 65,535, not {port}"), bind_socket("127.0.0.1", port):
        pass


def test_where_it_listens_is_a_name_of_its_own() -> None:
    assert "127.0.0.2:80" in list_hosts(McpOptions(host="127.0.0.2"), 80)
    assert "http://127.0.0.2:*" in list_origins(McpOptions(host="127.0.0.2"))
    assert list_hosts(McpOptions(host="0.0.0.0", allowed_hosts=("a.example",)), 80) == ["a.example", "a.example:*"]


def test_its_own_pages_speak_as_it_does() -> None:
    assert all(one.startswith("http://") for one in list_origins(McpOptions()))
    assert all(one.startswith("https://") for one in list_origins(McpOptions(certificate="c", key="k")))


def test_local_is_what_cannot_be_reached() -> None:
    assert all(map(is_local, ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"]))
    assert not any(map(is_local, ["0.0.0.0", "::", "10.0.0.1", "localhost.example", ""]))


def test_a_token_is_made_once_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "token"
    token = read_or_make_token(path)
    assert len(token) >= 40
    assert read_or_make_token(path) == token
    assert token not in "".join(capsys.readouterr())


def test_a_token_that_another_server_is_making_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.touch(0o600)
    other = threading.Timer(0.2, path.write_text, [f"{TOKEN}\n"])
    other.start()
    assert read_or_make_token(path) == TOKEN
    other.join()


@pytest.mark.parametrize("text", ["", "short", "with space in it, and long", "ü" * 30])
def test_a_poor_token_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="at least 16"):
        read_or_make_token(path)


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_or_make_token(path)
