"""A server that has more to do than it can refuses what would wait too long, and says when to try again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.http.admission import AdmissionRules
from alma.http.app import GateRules
from alma.stores.memory import MemoryStore
from alma.types.record import Vector

from .conftest import HOST, Site, make_site


class HeldEmbedder(HashEmbedder):
    """Embeds nothing until it is let go on."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.begun = threading.Semaphore(0)

    async def wait_until_held(self) -> None:
        assert await asyncio.to_thread(self.begun.acquire, timeout=60)

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        if self.go_on.is_set():
            return super().embed(texts)
        self.begun.release()
        assert self.go_on.wait(60)
        return super().embed(texts)


@pytest.fixture
def embedder() -> HeldEmbedder:
    return HeldEmbedder()


OpenSite = Callable[..., Site]


@pytest.fixture
def open_site(tmp_path: Path, embedder: HeldEmbedder) -> Iterator[OpenSite]:
    opened: list[Site] = []

    def open_one(**rules: float) -> Site:
        alma = ALMA(MemoryStore(), embedder, project_id="app")
        embedder.go_on.set()
        alma.add_domain_knowledge("dev", "ops", "Deploys run on Fridays")
        embedder.go_on.clear()
        admission = AdmissionRules(**rules)  # type: ignore[arg-type]
        gate = GateRules(hosts=frozenset({HOST}), rate=0, admission=admission)
        opened.append(make_site(tmp_path, gate, alma=alma))
        return opened[-1]

    yield open_one
    embedder.go_on.set()
    for site in opened:
        site.alma.close()


@asynccontextmanager
async def connect(site: Site, name: str = "admin") -> AsyncIterator[httpx.AsyncClient]:
    headers = {"authorization": f"Bearer {site.secrets[name]}"}
    transport = httpx.ASGITransport(app=site.app)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}", headers=headers) as client:
        yield client


async def search(client: httpx.AsyncClient, words: str) -> httpx.Response:
    return await client.post("/v1/search", json={"query": words})


async def read_metric(client: httpx.AsyncClient, name: str) -> str:
    lines = (await client.get("/metrics")).text.splitlines()
    return next((line.rpartition(" ")[2] for line in lines if line.startswith(name)), "")


async def wait_until_waiting(client: httpx.AsyncClient) -> None:
    """Return once one operation waits for its turn."""
    async with asyncio.timeout(60):
        while await read_metric(client, "alma_http_requests_waiting") != "1.0":
            await asyncio.sleep(0)


def test_more_than_the_queue_holds_is_refused_and_the_rest_is_served(
    open_site: OpenSite, embedder: HeldEmbedder
) -> None:
    site = open_site(at_once=1, queue=1, max_wait=60)
    site.token("other", "read")

    async def send_requests() -> None:
        async with connect(site) as client, connect(site, "other") as other:
            running = asyncio.create_task(search(client, "running"))
            await embedder.wait_until_held()
            queued = asyncio.create_task(search(client, "queued"))
            await wait_until_waiting(client)
            refused = await search(client, "refused")
            assert refused.status_code == 429
            assert refused.headers["retry-after"] == "1"
            assert refused.json()["type"] == "urn:alma:error:Overloaded"
            assert refused.json()["detail"] == (
                "the server is busy: 1 operations of this token are waiting already; retry in 1 s"
            )
            # What says how the server is must answer now.
            assert (await client.get("/health")).status_code == 200
            assert (await client.post("/v1/health", json={})).json()["ok"] is True
            assert await read_metric(client, 'alma_http_requests_refused_total{reason="Overloaded"}') == "1.0"
            # Another token has a queue of its own.
            patient = asyncio.create_task(search(other, "patient"))
            embedder.go_on.set()
            answers = await asyncio.gather(running, queued, patient)
            assert [answer.status_code for answer in answers] == [200, 200, 200]
            assert await read_metric(client, "alma_http_requests_waiting") == "0.0"

    asyncio.run(send_requests())


@pytest.mark.parametrize("max_wait", [0, 0.01])
def test_what_waits_too_long_is_refused(open_site: OpenSite, embedder: HeldEmbedder, max_wait: float) -> None:
    site = open_site(at_once=2, at_once_per_token=1, queue=5, max_wait=max_wait)
    site.token("other", "read")

    async def send_requests() -> None:
        async with connect(site) as client, connect(site, "other") as other:
            running = asyncio.create_task(search(client, "running"))
            await embedder.wait_until_held()
            refused = await search(client, "refused")
            assert refused.status_code == 429
            assert f"waited for {max_wait:g} s" in refused.json()["detail"]
            # Another token has a turn of its own.
            beside = asyncio.create_task(search(other, "beside"))
            await embedder.wait_until_held()
            embedder.go_on.set()
            assert (await running).status_code == 200
            assert (await beside).status_code == 200
            # The turn is free again.
            assert (await search(client, "later")).status_code == 200

    asyncio.run(send_requests())
