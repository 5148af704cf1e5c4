from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from alma.ports import Store
from alma.stores.chroma import ChromaStore
from alma.testing import StoreContract


class TestChromaFolder(StoreContract):
    histories = 30

    def make_store(self) -> Store:
        return ChromaStore(path=str(self.folder / "chroma"))

    def open_again(self, store: Store) -> Store:
        return ChromaStore(path=str(self.folder / "chroma"))


class Server:
    """A Chroma server of the installed package, on a free port of this machine."""

    def __init__(self, folder: str) -> None:
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
        while True:
            assert self.process.poll() is None, "the Chroma server ended"
            assert time.monotonic() < deadline, "the Chroma server does not answer"
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def server():
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder)
        yield server
        server.stop()


@pytest.mark.slow
class TestChromaServer(StoreContract):
    histories = 5
    numbers = itertools.count()

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def share_server(cls, server):
        cls.url = server.url

    def make_store(self) -> Store:
        self.name = f"alma{next(self.numbers)}"
        return ChromaStore(url=self.url, collection=self.name)

    def open_again(self, store: Store) -> Store:
        return ChromaStore(url=self.url, collection=self.name)
