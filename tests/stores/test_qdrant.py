from __future__ import annotations

import socket
import stat
import subprocess
from contextlib import closing
from typing import Any

import pytest
from tests.forked import find_python
from tests.stores.loopback import Answer, LoopbackServer, Request

from alma.errors import BusyError, ConfigError, StorageError, UnavailableError
from alma.ports import Store
from alma.stores import create
from alma.stores.documents import ROWS, make_key
from alma.testing import StoreContract, capabilities, make_record
from alma.types.query import Where
from alma.types.record import quantize

pytestmark = pytest.mark.system


def open_qdrant(**options: Any) -> Any:
    """Open a store. Its client is imported here, because each process that collects tests would import it."""
    from alma.stores.qdrant import QdrantStore

    return QdrantStore(**options)


class TestQdrantFolder(StoreContract):
    histories = 20

    def make_store(self) -> Store:
        return self.open_again(None)

    def open_again(self, store: Store | None) -> Store:
        return open_qdrant(path=str(self.folder / "qdrant"))


class TestQdrantInMemory(StoreContract):
    histories = 10

    def make_store(self) -> Store:
        return open_qdrant(path=":memory:")


OPEN = """
import sys
from pathlib import Path
from alma.errors import BusyError
from alma.stores import create
for name in ("qdrant", "chroma"):
    path = Path(sys.argv[1], name)
    try:
        create(name, path=path, options={"path": str(path)})
    except BusyError as error:
        print(error)
"""


@pytest.mark.system
def test_a_second_process_is_told_what_to_use(tmp_path):
    """The lock ends with the store: that the same process can open it again is part of the contract."""
    opened = [create(name, path=tmp_path, options={"path": str(tmp_path / name)}) for name in ("qdrant", "chroma")]
    for store in opened:
        store.put([make_record("a")])
    command = [*find_python(), OPEN, str(tmp_path)]
    messages = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.splitlines()
    assert len(messages) == 2
    for message in messages:
        assert "another process uses" in message
        assert "use `alma serve`" in message
        assert "server's url" in message
    for store in opened:
        store.put([make_record("b")])
        store.close()


def test_the_folder_is_private(tmp_path):
    open_qdrant(path=str(tmp_path / "folder")).close()
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o700


def test_a_folder_takes_a_second_collection(tmp_path):
    for name in ("one", "one-2", "two"):
        with closing(open_qdrant(path=str(tmp_path), collection=name)) as store:
            assert list(store.scan(Where())) == []
            store.put([make_record(name, vectors=(quantize([1.0, 0.5]),))])
            assert store.check() == []


@pytest.mark.parametrize(
    "options", [{}, {"url": "http://127.0.0.1:1", "path": "x"}, {"path": "x", "collection": "a/b"}]
)
def test_wrong_options_are_named(tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError):
        open_qdrant(**options)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_not_there_is_tried_again_and_named_without_the_key(monkeypatch):
    pauses = []
    monkeypatch.setattr("alma.retry.sleep", pauses.append)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # Nobody else listens there meanwhile.
        port = silent.getsockname()[1]
        with closing(open_qdrant(url=f"https://user:word@127.0.0.1:{port}", api_key="secret")) as store:
            assert capabilities(store)["many writers"]
            with pytest.raises(StorageError, match="127.0.0.1 cannot be reached") as error:
                store.get(["a"])
    assert "secret" not in str(error.value)
    assert "word" not in str(error.value)
    assert len(pauses) == 2


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer(503, {}), UnavailableError),
        (Answer(408, {}), UnavailableError),
        (Answer(429, {}, {"Retry-After": "1"}), BusyError),
        (Answer(400, {}), StorageError),
    ],
)
def test_a_failure_of_the_server_says_whether_it_passes(answer, kind):
    class Failing(LoopbackServer):
        def answer(self, request: Request) -> Answer:
            return answer

    with (
        closing(Failing()) as server,
        closing(open_qdrant(url=server.url)) as store,
        pytest.raises(StorageError, match="127.0.0.1") as error,
    ):
        store.get(["a"])
    assert type(error.value) is kind


def test_a_conditional_write_of_another_process_is_noticed():
    """The client's local mode follows the server: no increment is lost, whoever is first."""
    store = open_qdrant(path=":memory:")
    store.put([make_record("a", version=1), make_record("b", version=1)])
    documents = store.documents
    (row,) = documents.read(ROWS, [make_key("a")])
    newer = type(row)(row.key, {**row.fields, "stamp": "s2", "trail": ["s2"]}, row.content)
    assert documents.replace_rows([(newer, "another stamp")]) == [row.key]
    assert documents.replace_rows([(newer, row.fields["stamp"])]) == []
    assert documents.replace_rows([(row, "")]) == [row.key], "it exists"
    documents.remove_rows({row.key: row.fields["stamp"]})
    assert store.get(["a"]), "it was changed"
    documents.remove_rows({row.key: "s2"})
    assert [record.id for record in store.scan(Where())] == ["b"]
    store.close()
