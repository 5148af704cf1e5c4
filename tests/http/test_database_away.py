"""`alma serve` on PostgreSQL while the database is away: what clients get, and that it recovers by itself."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.stores.postgres_server import kill_server

from alma.http import tokens
from alma.stores.postgres.server import LocalServer, start_server

from .conftest import SECONDS, Served, start
from .test_workers import list_workers, wait_until

pytestmark = pytest.mark.system
CONFIG = """\
alma:
  project_id: app
  storage: postgres
  storage_options: {{dsn: {dsn}, timeout: 1}}
  embedding_provider: hash
"""


@pytest.fixture
def database(short_folder: Path) -> Iterator[LocalServer]:
    server = start_server(short_folder / "pg", fsync="off")
    yield server
    start_server(short_folder / "pg").stop()


def start_on(dsn: str, folder: Path, *options: str) -> Served:
    config = folder / ".alma" / "config.yaml"
    config.parent.mkdir()
    config.write_text(CONFIG.format(dsn=json.dumps(dsn)))
    return start(folder, *options)


def end(served: Served) -> int:
    status = served.end()
    assert served.process.stderr is not None
    served.process.stderr.close()
    return status


def call_server(served: Served) -> httpx.Client:
    headers = {"authorization": f"Bearer {served.token}"}
    return httpx.Client(base_url=served.url, headers=headers, trust_env=False, timeout=SECONDS)


def check_refusals(client: httpx.Client, database: LocalServer) -> None:
    for _ in range(4):
        # On a connection of its own, so that any of the processes may answer it.
        refused = client.post("/v1/stats", json={}, headers={"connection": "close"})
        problem = refused.json()
        assert (refused.status_code, problem["type"]) == (503, "urn:alma:error:UnavailableError"), refused.text
        assert "cannot be reached" in problem["detail"]
        assert str(database.folder) not in refused.text
        assert int(refused.headers["retry-after"]) > 0
    assert client.get("/ready").status_code == 503
    assert client.get("/health").json() == {"status": "ok"}


def test_requests_get_503_until_the_database_is_back(database: LocalServer, tmp_path: Path) -> None:
    """A server of one process and one with workers, on the same database."""
    alone = start_on(database.dsn, tmp_path)
    fleet = start(tmp_path, "--workers", "2")
    fact = {"agent": "dev", "domain": "launch", "fact": "The launch needs a countdown"}
    try:
        with call_server(alone) as one, call_server(fleet) as other:
            stored = one.post("/v1/add_knowledge", json=fact)
            assert stored.status_code == 200, stored.text
            for client in (one, other):
                assert client.post("/v1/get", json={"memory_id": stored.json()["id"]}).status_code == 200
                assert client.get("/ready").status_code == 200
            kill_server(database)
            # A worker that is started while the database is away waits for it.
            victim = min(list_workers(fleet.process.pid))
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda: len(list_workers(fleet.process.pid) - {victim}) == 2)
            check_refusals(one, database)
            check_refusals(other, database)
            start_server(database.folder, fsync="off")
            for client in (one, other):
                wait_until(lambda client=client: client.get("/ready").status_code == 200)
                for _ in range(4):
                    assert client.post("/v1/get", json={"memory_id": stored.json()["id"]}).status_code == 200
    finally:
        assert (end(alone), end(fleet)) == (0, 0)


def test_several_servers_on_one_database_are_one(postgres_dsn: str, tmp_path: Path) -> None:
    first = start_on(postgres_dsn, tmp_path)
    second = start(tmp_path, "--tokens", str(tmp_path / ".alma" / tokens.FILE))
    learned = {"agent": "dev", "task": "Deploy the shop", "outcome": "success", "strategy_used": "Blue-green"}
    try:
        with first.connect() as one, second.connect() as other:
            ids = {alma.learn(**learned, idempotency_key="once").id for alma in (one, other, one)}
            assert len(ids) == 1
            shown = one.retrieve("Deploy the shop", "dev").retrieval_id
            other.learn(**learned, retrieval_id=shown)
            other.create_domain(name="gardening", learning_categories=["weeds"])
            for alma, name in ((one, "gardening"), (other, "coding")):
                alma.use_domain(name=name)
                used = [[each.name for each in server.list_domains() if each.in_use] for server in (one, other)]
                assert used == [[name], [name]]
    finally:
        assert (end(first), end(second)) == (0, 0)
