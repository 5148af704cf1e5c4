"""Everything that is refused before anything is done."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from alma.http import tokens
from alma.http.app import GateRules, RateLimits, Refusal

from .conftest import HOST, Site, make_site

FACT = {"agent": "dev", "domain": "deployment", "fact": "The deploy window is 9 to 17 h"}


def error(answer: httpx.Response) -> dict[str, str]:
    """The problem, with the name of its type alone and its detail as `message`."""
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem.keys() == {"type", "title", "status", "detail", "request_id"}
    assert problem["status"] == answer.status_code
    assert problem["request_id"] == answer.headers["x-request-id"]
    return {"type": problem["type"].removeprefix("urn:alma:error:"), "message": problem["detail"]}


# -- the token


@pytest.mark.parametrize("path", ["/metrics", "/openapi.json", "/v1/operations", "/v1/stats", "/nowhere"])
def test_without_a_token_nothing_is_told(site: Site, path: str) -> None:
    with site.client() as client:
        del client.headers["authorization"]
        answer = client.get(path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="alma"'
    assert error(answer)["type"] == "Unauthorized"


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer ", "Bearer wrong", "Basic YWxtYTphbG1h", "Bearer é"])
def test_a_wrong_token_opens_nothing(site: Site, given: str) -> None:
    answer = site.post("add_knowledge", FACT, authorization=given.encode("latin-1"))  # type: ignore[arg-type]
    assert answer.status_code == 401
    assert site.alma.get_stats()["total_count"] == 0


def test_two_tokens_in_one_request_are_none(site: Site) -> None:
    secret = site.secrets["admin"]
    pairs = [("authorization", f"Bearer {secret}"), ("authorization", "Bearer x"), ("host", HOST)]
    with site.client() as client:
        del client.headers["authorization"]
        assert client.post("/v1/stats", headers=httpx.Headers(pairs)).status_code == 401


@pytest.mark.parametrize(("path", "told"), [("/health", {"status": "ok"}), ("/ready", {"ready": True})])
def test_a_health_check_needs_no_token(site: Site, path: str, told: dict[str, Any]) -> None:
    with site.client() as client:
        del client.headers["authorization"]
        assert client.get(path).json() == told
        assert client.get(path, headers={"authorization": "Bearer wrong"}).json() == told
        assert client.get(path, headers={"host": "evil.example"}).status_code == 421
        assert client.get(path, headers={"origin": "https://evil.example"}).status_code == 403


def test_health_checks_have_a_rate_limit_of_their_own(tmp_path: Path) -> None:
    site = make_site(tmp_path, GateRules(hosts=frozenset({HOST}), rate=0.001, burst=2))
    assert [site.client().get("/ready").status_code for _ in range(3)] == [200, 200, 429]
    assert site.post("stats").status_code == 200
    site.alma.close()


@pytest.mark.parametrize("path", ["/ui/app.js", "/ui/", "/ui/nothing.js", "/ready"])
def test_who_has_no_token_cannot_use_up_the_requests_of_others(tmp_path: Path, path: str) -> None:
    """Of the login, of health checks, and of clients with a token."""
    site = make_site(tmp_path, GateRules(hosts=frozenset({HOST}), rate=0.001, burst=2))
    with site.client() as client:
        code = client.post("/v1/session/code", json={}).json()["code"]
        del client.headers["authorization"]
        assert [client.get(path).status_code for _ in range(3)][2] == 429
        assert [client.get("/health").status_code for _ in range(5)] == [200] * 5
        assert path == "/ready" or client.get("/ready").status_code == 200
        assert client.post("/ui/session", json={"code": code}).status_code == 200
        with_token = {"authorization": f"Bearer {site.secrets['admin']}"}
        assert client.post("/v1/stats", json={}, headers=with_token).status_code == 200


def test_files_are_limited_for_each_address(tmp_path: Path) -> None:
    site = make_site(tmp_path, GateRules(hosts=frozenset({HOST}), rate=0.001, burst=2))

    def load(address: str) -> int:
        client = TestClient(site.app, base_url=f"http://{HOST}", client=(address, 50000))
        return client.get("/ui/app.js").status_code

    assert [load("192.0.2.1") for _ in range(3)] == [200, 200, 429]
    assert load("192.0.2.2") == 200
    site.alma.close()


def test_wrong_logins_do_not_keep_a_right_one_out(tmp_path: Path) -> None:
    site = make_site(tmp_path, GateRules(hosts=frozenset({HOST}), rate=0.001, burst=2))
    with site.client() as client:
        code = client.post("/v1/session/code", json={}).json()["code"]
        del client.headers["authorization"]
        statuses = [client.post("/ui/session", json={"code": "wrong"}).status_code for _ in range(30)]
        assert set(statuses) == {401, 429}
        assert client.post("/ui/session", json={"code": code}).status_code == 200
        assert client.post("/ui/session", json={"code": "x" * 30_000}).status_code == 413


def test_buckets_of_callers_who_are_gone_are_forgotten() -> None:
    now = [0.0]
    limits = RateLimits(10, 2, lambda: now[0])
    for number in range(30_000):
        now[0] += 0.01
        limits.take(f"caller {number}")
    assert len(limits._buckets) <= 10_000


def test_an_expired_token_is_refused_with_the_reason(site: Site) -> None:
    secret = tokens.add(site.tokens, "guest", "read", expires="1h")
    site.secrets["guest"] = secret
    assert site.post("stats", name="guest").status_code == 200
    held = json.loads(site.tokens.read_text())
    held["tokens"][-1]["expires_at"] = "2020-01-31T12:00:00+00:00"
    site.tokens.write_text(json.dumps(held))
    answer = site.post("stats", name="guest")
    assert answer.status_code == 401
    assert "'guest' expired on 2020-01-31 12:00 UTC" in error(answer)["message"]
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]


def test_a_revoked_token_is_refused_at_once(site: Site) -> None:
    site.token("guest")
    assert site.post("stats", name="guest").status_code == 200
    tokens.revoke(site.tokens, "guest")
    assert site.post("stats", name="guest").status_code == 401


def test_a_damaged_token_file_opens_nothing_and_tells_nothing(site: Site) -> None:
    site.tokens.write_text("nonsense")
    answer = site.post("stats")
    assert (answer.status_code, error(answer)["type"]) == (503, "NotReady")
    assert str(site.tokens.parent) not in answer.text


# -- what a token may do


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [
        ("read", {"stats"}),
        ("write", {"stats", "add_knowledge"}),
        ("approve", {"stats", "add_knowledge"}),
        ("admin", {"stats", "add_knowledge", "delete"}),
    ],
)
def test_a_scope_is_kept(site: Site, scope: str, allowed: set[str]) -> None:
    site.token("one", scope)
    held = site.post("add_knowledge", FACT).json()["id"]
    calls: dict[str, dict[str, Any]] = {"stats": {}, "add_knowledge": FACT, "delete": {"memory_id": held}}
    for operation, arguments in calls.items():
        answer = site.post(operation, arguments, name="one")
        assert (answer.status_code == 200) == (operation in allowed), operation
        if operation not in allowed:
            assert answer.status_code == 403
            assert "insufficient_scope" in answer.headers["www-authenticate"]
            assert "'one' has the scope" in error(answer)["message"]


# -- whom it calls, and from where


@pytest.mark.parametrize(
    "host", ["evil.example", "memory.test.evil.example", "127.0.0.1", "", "memory.test@evil", "[::1", "memory:1.test"]
)
def test_a_foreign_host_is_refused(site: Site, host: str) -> None:
    answer = site.post("add_knowledge", FACT, host=host)
    assert answer.status_code == 421
    assert error(answer)["type"] == "ForeignHost"
    assert site.alma.get_stats()["total_count"] == 0


def test_a_name_with_a_port_is_ours_at_that_port_only(tmp_path: Path) -> None:
    site = make_site(
        tmp_path, GateRules(hosts=frozenset({"127.0.0.1:8766", "[::1]:8766", "[::2]", "memory.example.org"}))
    )
    given = [
        "127.0.0.1:8766",
        "[::1]:8766",
        "MEMORY.example.org",
        "memory.example.org:99",
        "127.0.0.1:80",
        "[::1]",
        "[::2]:9",
    ]
    assert [site.post("stats", host=one).status_code for one in given] == [200, 200, 200, 200, 421, 421, 200]
    site.alma.close()


@pytest.mark.parametrize("origin", ["https://evil.example", "null", f"https://{HOST}", f"http://{HOST}:3000", ""])
def test_a_foreign_origin_is_refused(site: Site, origin: str) -> None:
    answer = site.post("add_knowledge", FACT, origin=origin)
    assert answer.status_code == 403
    assert error(answer)["type"] == "ForeignOrigin"
    assert "access-control-allow-origin" not in answer.headers
    assert site.alma.get_stats()["total_count"] == 0


def test_our_own_pages_may_call(site: Site) -> None:
    answer = site.post("stats", origin=f"http://{HOST}")
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers


def test_a_page_that_was_let_in_may_call(tmp_path: Path) -> None:
    page = "https://app.example.org"
    site = make_site(tmp_path, GateRules(hosts=frozenset({HOST}), origins=frozenset({page})))
    answer = site.post("stats", origin=page)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, page)
    with site.client(origin=page, **{"access-control-request-method": "POST"}) as client:
        del client.headers["authorization"]
        asked = client.options("/v1/stats")
    assert asked.status_code == 204
    assert "authorization" in asked.headers["access-control-allow-headers"]
    assert asked.headers["access-control-allow-origin"] == page
    site.alma.close()


def test_a_browser_that_asks_for_a_foreign_page_is_told_nothing(site: Site) -> None:
    with site.client(origin="https://evil.example", **{"access-control-request-method": "POST"}) as client:
        answer = client.options("/v1/stats")
    assert answer.status_code == 403
    assert "access-control-allow-methods" not in answer.headers


# -- how much, and how often


@pytest.fixture
def small(tmp_path: Path) -> Any:
    site = make_site(tmp_path, GateRules(hosts=frozenset({HOST}), max_bytes=1000, rate=0))
    yield site
    site.alma.close()


def test_a_request_that_says_it_is_too_large_is_not_read(small: Site) -> None:
    answer = small.post("add_knowledge", {**FACT, "fact": "x" * 2000})
    assert answer.status_code == 413
    assert error(answer)["type"] == "TooLarge"
    assert small.post("add_knowledge", FACT).status_code == 200


@pytest.mark.parametrize("length", ["-1", "1e9", "9" * 40, "abc"])
def test_a_strange_length_is_refused(small: Site, length: str) -> None:
    assert small.post("stats", **{"content-length": length}).status_code == 413


async def sent(site: Site, pieces: AsyncIterator[bytes]) -> httpx.Response:
    headers = {"authorization": f"Bearer {site.secrets['admin']}", "content-type": "application/json"}
    transport = httpx.ASGITransport(app=site.app)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}", headers=headers) as client:
        return await client.post("/v1/add_knowledge", content=pieces)


def test_a_request_with_two_ends_is_refused_and_nothing_after_it_is_read(small: Site) -> None:
    answer = small.post("stats", **{"transfer-encoding": "chunked", "content-length": "2"})
    assert answer.status_code == 400
    assert error(answer)["type"] == "AmbiguousLength"
    assert answer.headers["connection"] == "close"


def test_a_request_that_does_not_say_its_size_is_counted(small: Site) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b'{"agent": "dev", "domain": "d", "fact": "'
        for _ in range(20):
            yield b"x" * 100
        yield b'"}'

    answer = asyncio.run(sent(small, pieces()))
    assert answer.status_code == 413
    assert small.alma.get_stats()["total_count"] == 0


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    site = make_site(tmp_path, GateRules(hosts=frozenset({HOST}), body_seconds=0.05, rate=0))

    async def pieces() -> AsyncIterator[bytes]:
        yield b'{"agent": '
        await asyncio.sleep(5)

    answer = asyncio.run(sent(site, pieces()))
    assert (answer.status_code, error(answer)["type"]) == (408, "TooSlow")
    assert answer.headers["connection"] == "close"
    site.alma.close()


def test_who_asks_too_often_waits(tmp_path: Path) -> None:
    site = make_site(tmp_path, GateRules(hosts=frozenset({HOST}), rate=0.001, burst=2))
    site.token("other")
    assert [site.post("stats").status_code for _ in range(3)] == [200, 200, 429]
    refused = site.post("stats")
    wait = int(refused.headers["retry-after"])
    assert wait >= 1
    assert error(refused)["message"].endswith(f"retry in {wait} s")
    assert error(refused)["type"] == "RateLimited"
    assert site.post("stats", name="other").status_code == 200
    site.alma.close()


def test_a_bucket_fills_again() -> None:
    now = [0.0]
    limits = RateLimits(10, 2, lambda: now[0])
    limits.take("a"), limits.take("a")
    with pytest.raises(Refusal, match="retry in 1 s"):
        limits.take("a")
    now[0] = 0.1
    limits.take("a")
    with pytest.raises(Refusal):
        limits.take("a")
    now[0] = 100.0
    limits.take("a"), limits.take("a")
    with pytest.raises(Refusal):
        limits.take("a")


# -- the request itself

BAD = [
    b"",
    b"nonsense",
    b"[]",
    b"null",
    b'"text"',
    b"{",
    b'{"task": NaN}',
    b'{"task": ' + b"9" * 400 + b"}",
    b'{"task": "t", "agent": "a", "top_k": Infinity}',
    b'{"task": "t", "agent": "a", "top_k": 1e999}',
    b'{"task": "t", "agent": "a", "top_k": ' + b"9" * 400 + b"}",
    b'{"task": "t", "agent": "a", "top_k": ' + b"9" * 5000 + b"}",
    b'{"task": "\\ud800", "agent": "a"}',
    b'{"task": "t", "agent": "\\udfff"}',
    b'{"\\ud800": 1}',
    b'{"task": "a\\u0000b", "agent": "a"}',
    b'{"task": "t", "agent": "a\x00"}',
    b"\xff\xfe{}",
    b'{"task": "\xed\xa0\x80", "agent": "a"}',
    b"\xef\xbb\xbf{}",
    b'{"task": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"task": "t", "agent": "a", "types": ' + b"[" * 70 + b"]" * 70 + b"}",
    b'{"task": "t"}',
    b'{"task": "t", "agent": "a", "colour": "red"}',
    b'{"task": {"a": 1}, "agent": "a"}',
    b'{"task": "t", "agent": "a", "mode": "psychic"}',
    b'{"task": "t", "agent": "a", "since": "yesterday"}',
    b'{"task": "t", "agent": "a", "max_tokens": -5}',
    b'{"task": "t", "agent": "a", "top_k": true}',
]


@pytest.mark.parametrize("body", BAD, ids=lambda body: body[:30].decode("latin-1"))
def test_a_bad_body_is_the_callers_fault(site: Site, body: bytes) -> None:
    with site.client(**{"content-type": "application/json"}) as client:
        answer = client.post("/v1/retrieve", content=body)
    assert answer.status_code == 400, answer.text
    assert error(answer)["type"] == "ValidationError"


def test_what_is_deep_but_not_too_deep_comes_back(site: Site) -> None:
    deep: Any = "bottom"
    for _ in range(50):
        deep = [deep]
    site.post("checkpoint", {"run_id": "r", "node_id": "n", "state": {"deep": deep}})
    assert site.post("resume", {"run_id": "r"}).json()["checkpoint"]["state"]["deep"] == deep


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"])
def test_only_json_is_read(site: Site, kind: str) -> None:
    with site.client(**{"content-type": kind}) as client:
        answer = client.post("/v1/add_knowledge", content=json.dumps(FACT).encode())
    assert answer.status_code == 415
    assert site.alma.get_stats()["total_count"] == 0


def test_json_may_name_its_charset(site: Site) -> None:
    with site.client(**{"content-type": "Application/JSON; charset=utf-8"}) as client:
        assert client.post("/v1/add_knowledge", content=json.dumps(FACT).encode()).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/v1/retrieve", 405, "POST"),
        ("DELETE", "/v1/retrieve", 405, "POST"),
        ("POST", "/health", 405, "GET"),
        ("PUT", "/v1/operations", 405, "GET"),
        ("POST", "/v1/operations", 405, "GET"),
        ("POST", "/v1/nothing", 404, None),
        ("GET", "/v1/nothing", 404, None),
        ("POST", "/v1/", 404, None),
        ("POST", "/v1/retrieve/", 404, None),
        ("GET", "/docs", 404, None),
        ("GET", "/../../etc/passwd", 404, None),
    ],
)
def test_wrong_ways_in(site: Site, method: str, path: str, status: int, allow: str | None) -> None:
    answer = site.client().request(method, path)
    assert (answer.status_code, answer.headers.get("allow")) == (status, allow)
    assert error(answer)


def test_errors_of_the_library_have_their_status(site: Site) -> None:
    missing = site.post("get", {"memory_id": "nobody"})
    assert (missing.status_code, error(missing)["type"]) == (404, "NotFoundError")


def test_what_goes_wrong_inside_is_not_told(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> None:
        raise RuntimeError("the secret recipe")

    monkeypatch.setattr("alma.engine.view.stats", broken)
    answer = site.post("stats")
    assert (answer.status_code, error(answer)["type"]) == (500, "InternalError")
    assert "recipe" not in answer.text


# -- request ids


def test_a_request_id_is_echoed_or_made(site: Site) -> None:
    assert site.post("stats", **{"x-request-id": "trace-42.a_b"}).headers["x-request-id"] == "trace-42.a_b"
    strange = [site.post("stats", **{"x-request-id": one}).headers["x-request-id"] for one in ("a b", "x" * 65, "<b>")]
    made = [*strange, site.post("stats").headers["x-request-id"]]
    assert all(len(one) == 16 for one in made)
    assert len(set(made)) == 4


def test_answers_are_not_kept_by_others(site: Site) -> None:
    answer = site.post("stats")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("row", ["text", 7, None, {"type": "rule", "agent": "a", "rule": "r", "metadata": "x"}])
@pytest.mark.parametrize("scope", ["write", "approve"])
def test_rows_of_a_wrong_form_are_refused_and_no_error_of_the_server(site: Site, row: object, scope: str) -> None:
    site.token(scope, scope)
    assert 400 <= site.post("add_many", {"memories": [row]}, name=scope).status_code < 500
