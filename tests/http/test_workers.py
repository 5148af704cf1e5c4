"""Several processes behind one port: they behave as one, are replaced when they die, and stop in order."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from alma.errors import ConfigError, MissingExtraError
from alma.http import HttpOptions, check_options, dashboard, serve, tokens
from alma.http.tokens import TokenScope

from .conftest import CONFIG, SECONDS, Served, start

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="NOT TESTED HERE: processes are listed in /proc"),
]
SECRET = "a-secret-that-all-processes-share"


def list_workers(pid: int) -> set[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(one) for one in children if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()}


def wait_until(is_done: Callable[[], object], seconds: float = SECONDS) -> None:
    end = time.monotonic() + seconds
    while not is_done():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def post(served: Served, operation: str, **arguments: Any) -> Any:
    """Send a request on a connection of its own, so that any of the processes may answer it."""
    headers = {"authorization": f"Bearer {SECRET}", "connection": "close"}
    url = f"{served.url}/v1/{operation}"
    answer = httpx.post(url, json=arguments, headers=headers, trust_env=False, timeout=SECONDS)
    assert answer.status_code == 200, answer.text
    return answer.json()


@contextmanager
def serve_with_workers(folder: Path) -> Iterator[Served]:
    """Start a server with two processes beside the first, and end it unless a test did."""
    (folder / ".alma").mkdir()
    # Of an earlier start; the file and the variable are used together.
    secret = tokens.add(folder / ".alma" / tokens.FILE, "reader", "read")
    (folder / ".alma" / tokens.FIRST_FILE).write_text(secret)
    (folder / ".alma" / "config.yaml").write_text(CONFIG)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(tokens.SECRET_VARIABLE, SECRET)
        served = start(folder, "--workers", "2")
    yield served
    if served.process.poll() is None:
        served.end()
    assert served.process.stderr is not None
    served.process.stderr.close()


def end_with_workers(served: Served, number: signal.Signals) -> None:
    """End the first process by a signal, and check that all others end with it."""
    wait_until(lambda: len(list_workers(served.process.pid)) == 2)
    post(served, "stats")
    workers = list_workers(served.process.pid)
    served.process.send_signal(number)
    status = served.process.wait(SECONDS)
    if number == signal.SIGTERM:
        assert status == 0
        assert not any(map(is_alive, workers))
    wait_until(lambda: not any(map(is_alive, workers)))
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{served.url}/health", trust_env=False, timeout=60)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server for the tests that leave it running. That SIGTERM ends all its processes is checked at the end."""
    with serve_with_workers(tmp_path_factory.mktemp("fleet")) as served:
        yield served
        end_with_workers(served, signal.SIGTERM)


def count_requests(served: Served) -> dict[str, float]:
    headers = {"authorization": f"Bearer {served.token}", "connection": "close"}
    text = httpx.get(f"{served.url}/metrics", headers=headers, trust_env=False, timeout=SECONDS).text
    assert text.count("# TYPE alma_memories gauge") == 1
    assert re.search(r"^alma_http_requests_in_flight \d", text, re.MULTILINE)
    lines = re.findall(r'^alma_http_requests_total\{operation="(\w+)",status="200"\} (\S+)', text, re.MULTILINE)
    return {name: float(value) for name, value in lines}


def test_workers_behave_as_one_server(fleet: Served) -> None:
    wait_until(lambda: len(list_workers(fleet.process.pid)) == 2)
    learned = {"agent": "dev", "task": "Deploy the shop", "outcome": "success", "strategy_used": "Blue-green"}
    ids = {post(fleet, "learn", idempotency_key="once", **learned)["id"] for _ in range(12)}
    assert len(ids) == 1
    for _ in range(6):
        # The answer of one process can be used at every other.
        retrieval = post(fleet, "retrieve", task="Deploy the shop", agent="dev")["retrieval_id"]
        post(fleet, "learn", retrieval_id=retrieval, **learned)
    for number in range(4):
        post(fleet, "create_domain", name=f"gardening-{number}", learning_categories=["weeds"])
        post(fleet, "use_domain", name=f"gardening-{number}")
        used = [[one["name"] for one in post(fleet, "list_domains")["result"] if one["in_use"]] for _ in range(6)]
        assert used == [[f"gardening-{number}"]] * 6
    for _ in range(4):
        # Any process tells what all of them answered.
        counted = count_requests(fleet)
        assert (counted["learn"], counted["retrieve"]) == (18, 6)


def test_all_workers_know_the_sessions_of_the_dashboard(fleet: Served) -> None:
    def call(method: str, path: str, secret: str, body: Any = None) -> httpx.Response:
        headers = {"authorization": f"Bearer {secret}", "connection": "close"}
        url = f"{fleet.url}{path}"
        return httpx.request(method, url, json=body, headers=headers, trust_env=False, timeout=SECONDS)

    wait_until(lambda: len(list_workers(fleet.process.pid)) == 2)
    code = call("POST", "/v1/session/code", SECRET, {}).json()["code"]
    answers = [call("POST", "/ui/session", "none", {"code": code}) for _ in range(4)]
    assert sorted(one.status_code for one in answers) == [200, 401, 401, 401]
    session = answers[0].json()
    assert {call("GET", "/v1/sessions", session["token"]).json()["sessions"][0]["id"] for _ in range(12)} == {
        session["id"]
    }
    call("POST", "/v1/session/end", session["token"], {})
    assert {call("GET", "/v1/sessions", session["token"]).status_code for _ in range(8)} == {401}


def test_a_worker_that_dies_is_replaced(fleet: Served) -> None:
    wait_until(lambda: len(list_workers(fleet.process.pid)) == 2)
    stored = post(fleet, "stats")["total_count"]
    before = list_workers(fleet.process.pid)
    os.kill(min(before), signal.SIGKILL)
    wait_until(lambda: len(list_workers(fleet.process.pid) - {min(before)}) == 2)
    wait_until(lambda: post(fleet, "stats")["total_count"] == stored)
    assert f"worker process {min(before)} ended" in fleet.log.read_text()
    assert count_requests(fleet)["stats"] >= 1


def test_all_workers_end_when_the_first_process_is_killed(tmp_path: Path) -> None:
    with serve_with_workers(tmp_path) as served:
        end_with_workers(served, signal.SIGKILL)


def test_before_it_stops_a_server_says_that_it_is_not_ready(tmp_path: Path) -> None:
    served = start(tmp_path, "--drain", "8")
    try:
        headers = {"authorization": f"Bearer {served.token}"}
        with httpx.Client(base_url=served.url, headers=headers, trust_env=False, timeout=SECONDS) as client:
            assert client.get("/ready").json() == {"ready": True}
            assert "connection" not in client.get("/health").headers
            served.process.terminate()
            wait_until(lambda: client.get("/ready").status_code == 503)
            refused = client.get("/ready")
            assert "about to stop" in refused.json()["detail"]
            assert refused.headers["retry-after"]
            answer = client.post("/v1/stats", json={})
            assert (answer.status_code, answer.headers["connection"]) == (200, "close")
            assert client.get("/health").json() == {"status": "ok"}
        assert served.process.wait(SECONDS) == 0
    finally:
        served.end()
        assert served.process.stderr is not None
        served.process.stderr.close()


def test_sigterm_ends_one_process_with_status_0(tmp_path: Path) -> None:
    served = start(tmp_path)
    # At once: it may not have begun to serve.
    status = served.end()
    assert served.process.stderr is not None
    served.process.stderr.close()
    assert status == 0


def test_tokens_come_from_a_file_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "team.json"
    secret = tokens.add(file, "ci", "write")
    assert tokens.Tokens(file).find(secret) is not None
    monkeypatch.setenv(tokens.FILE_VARIABLE, str(file))
    assert tokens.find_file(tmp_path / "config.yaml") == file
    monkeypatch.setenv(tokens.SECRET_VARIABLE, SECRET)
    found = tokens.Tokens(tmp_path / "none.json").find(SECRET)
    assert found is not None
    assert (found.name, found.scope) == (tokens.ENVIRONMENT, "admin")
    assert tokens.Tokens(tmp_path / "none.json").find(secret) is None
    assert tokens.ensure_token(tmp_path / "none.json") is None
    assert not (tmp_path / "none.json").exists()


@pytest.mark.parametrize(
    "secret", ["short", "with spaces in it, and long enough", "ünïcode-that-is-long-enough-for-it"]
)
def test_a_weak_token_in_the_environment_is_refused(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tokens.SECRET_VARIABLE, secret)
    with pytest.raises(ConfigError, match="at least 24") as caught:
        tokens.read_environment()
    assert secret not in str(caught.value)


def test_options_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    for options in ({"workers": 0}, {"drain": -1.0}, {"drain": float("nan")}):
        with pytest.raises(ConfigError, match="--workers"):
            check_options(HttpOptions(**options))  # type: ignore[arg-type]
    config = tmp_path / "config.yaml"
    for storage in ({"storage": "memory"}, {"storage": "qdrant", "storage_options": {"path": "vectors"}}):
        config.write_text(yaml.safe_dump({"alma": {"project_id": "app", **storage}}))
        with pytest.raises(ConfigError, match="several processes cannot share this store"):
            serve(HttpOptions(config=str(config), workers=2))


def test_traces_need_their_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    monkeypatch.delitem(sys.modules, "alma.tracing", raising=False)
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[tracing\]'"):
        serve(HttpOptions(config=str(config), traces=True))


def test_any_of_the_processes_proves_that_the_server_knows_the_token(
    fleet: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(tokens.SECRET_VARIABLE, SECRET)
    # The processes start after the address is printed.
    post(fleet, "stats")
    file = fleet.config.parent / tokens.FILE
    for _ in range(6):
        link, was_started = dashboard.get_link(fleet.config, file, TokenScope.READ)
        assert not was_started
        assert link.startswith(f"{fleet.url}/ui/enter#")
