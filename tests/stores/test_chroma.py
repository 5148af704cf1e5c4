from __future__ import annotations

import http.client
import itertools
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.hooks.test_network import strangers, tracer

from alma.errors import ConfigError, StorageError
from alma.ports import Store
from alma.testing import StoreContract, make_record
from alma.types.query import Where
from alma.types.record import quantize

__all__ = ["tracer"]
pytestmark = [pytest.mark.system, pytest.mark.usefixtures("no_certificates")]
EAST = quantize([1.0, 0.0])


def open_chroma(**options: Any) -> Any:
    """Open a store. Its client is imported here, because each process that collects tests would import it."""
    from alma.stores.chroma import ChromaStore

    return ChromaStore(**options)


class TestChromaFolder(StoreContract):
    histories = 10
    many = 600
    crowd = 300

    def make_store(self) -> Store:
        return open_chroma(path=str(self.folder / "chroma"))

    def open_again(self, store: Store) -> Store:
        return open_chroma(path=str(self.folder / "chroma"))


class Server:
    """A Chroma server of the installed package, on a free port of this machine."""

    def __init__(self, folder: str) -> None:
        # Another process may take the port before the server does.
        assert any(self.start(folder) for _ in range(5)), "the Chroma server ended"

    def start(self, folder: str) -> bool:
        """Start it on a port that is free now. Return False if it ends before it answers."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [Path(sys.executable).with_name("chroma"), "run", "--path", folder, "--host", "127.0.0.1"]
        environ = {**os.environ, "ANONYMIZED_TELEMETRY": "False", "HOME": folder}
        self.process = subprocess.Popen(
            [*command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ
        )
        self.url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 60
        while not self.answers():
            if self.process.poll() is not None:
                return False
            assert time.monotonic() < deadline, "the Chroma server does not answer"
            time.sleep(0.05)
        return True

    def answers(self) -> bool:
        """Whether Chroma itself answers: a connection alone may reach another test's port, or the caller's own."""
        try:
            with urllib.request.urlopen(f"{self.url}/api/v2/heartbeat", timeout=5) as answer:
                return b"heartbeat" in answer.read()
        except (OSError, http.client.HTTPException):
            return False

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def server():
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder)
        yield server
        server.stop()


@pytest.mark.system
class TestChromaServer(StoreContract):
    histories = 5
    many = 600
    crowd = 300
    numbers = itertools.count()

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def share_server(cls, server):
        cls.url = server.url

    def make_store(self) -> Store:
        self.name = f"alma{next(self.numbers)}"
        return open_chroma(url=self.url, collection=self.name)

    def open_again(self, store: Store) -> Store:
        return open_chroma(url=self.url, collection=self.name)


@pytest.mark.system
def test_a_server_that_dies_is_a_clear_error_and_nothing_acknowledged_is_lost(tmp_path):
    server = Server(str(tmp_path))
    try:
        store = open_chroma(url=server.url)
        store.put([make_record("a", vectors=(EAST,))])
    finally:
        server.stop()
    for action in (lambda: store.get(["a"]), lambda: store.put([make_record("b")])):
        with pytest.raises(StorageError, match=r"Chroma server 127\.0\.0\.1 failed.*check its url"):
            action()
    store.close()
    with pytest.raises(StorageError, match="check its url"):
        open_chroma(url=server.url)
    with closing(open_chroma(path=str(tmp_path))) as survivor:
        assert [hit.id for hit in survivor.nearest(EAST, Where(), 5)] == ["a"]


def test_long_lists_of_names_are_left_to_the_filter(tmp_path):
    with closing(open_chroma(path=str(tmp_path))) as store:
        store.put([make_record("a", agent="x", tags=("t",)), make_record("b", links=("l",))])
        many = [str(i) for i in range(40_000)]
        for name, value, id in (("agents", "x", "a"), ("tagged", "t", "a"), ("linked", "l", "b")):
            assert [record.id for record in store.scan(Where(**{name: [value, *many]}))] == [id]


@pytest.mark.parametrize("options", [{}, {"url": "http://[::1]", "path": "x"}, {"path": "x", "collection": "a/b"}])
def test_wrong_options_are_named(tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError):
        open_chroma(**options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://vectors.example", ("vectors.example", 8000, False)),
        ("https://vectors.example", ("vectors.example", 443, True)),
        ("https://vectors.example:9000", ("vectors.example", 9000, True)),
    ],
)
def test_a_url_without_a_port_means_the_usual_one(monkeypatch, url, place):
    places = []

    def refuse(host, port, ssl, *options):
        places.append((host, port, ssl))
        raise ConnectionError("refused")

    monkeypatch.setattr("chromadb.HttpClient", refuse)
    with pytest.raises(StorageError, match="refused"):
        open_chroma(url=url)
    assert places == [place]


USE = """
import sys, time
from pathlib import Path
from alma.stores import create, pair
from alma.testing import make_record
from alma.types.query import Where
unused = Path("unused")
stores = [
    create("qdrant", path=unused, options={"path": "qdrant"}),
    pair(create("memory", path=unused, options={}), "qdrant", {"path": "paired"}),
    create("chroma", path=unused, options={"path": "chroma"}),
    create("chroma", path=unused, options={"url": sys.argv[1]}),
]
for store in stores:
    for version in (1, 2):
        store.put([make_record("a", version=version, text="words", vectors=(bytes([1, 2, 3]),))])
    assert store.nearest(bytes([1, 2, 3]), Where(), 1) and list(store.scan(Where())) and not store.check()
time.sleep(1)
for store in stores:
    store.close()
"""


@pytest.mark.system
def test_using_a_store_contacts_nobody(tracer, tmp_path, server):
    trace, home = tmp_path / "trace", tmp_path / "home"
    home.mkdir()
    traced = [tracer, "-f", "--seccomp-bpf", "-qq", "-A", "-e", "trace=network", "-o", str(trace)]
    subprocess.run(
        [*traced, sys.executable, "-W", "error", "-c", USE, server.url],
        env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=tmp_path,
        check=True,
        timeout=120,
    )
    assert strangers(trace.read_text(errors="replace")) == []
    assert list(home.iterdir()) == [], "a library wrote to the user's home"
