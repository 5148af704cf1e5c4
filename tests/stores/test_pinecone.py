"""The store Pinecone, over a loopback server that follows the service's published protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from pinecone._internal.http_client import get_budget_registry
from tests.stores.loopback import Answer, make_text
from tests.stores.pinecone_server import KEY, PineconeServer, fail

from alma.errors import BusyError, ConfigError, StorageError, UnavailableError
from alma.ports import Store
from alma.stores import create
from alma.stores.pinecone import PineconeStore
from alma.testing import StoreContract, capabilities
from alma.testing.contract import EAST, NORTH, WEST, full_record, make_record
from alma.types.query import Where
from alma.types.record import quantize

_names = count()
UNAVAILABLE = fail(503, "UNAVAILABLE", "The service is not available")
THROTTLED = fail(429, "RESOURCE_EXHAUSTED", "Too many requests", retry_after="0")


pytestmark = [pytest.mark.system, pytest.mark.usefixtures("no_certificates")]


class TestPineconeStore(StoreContract):
    """The whole contract. Every store has a namespace of its own on one server."""

    histories = 4
    many = 250
    crowd = 100
    server: PineconeServer

    @classmethod
    def setup_class(cls) -> None:
        cls.server = PineconeServer()

    @classmethod
    def teardown_class(cls) -> None:
        cls.server.close()

    def make_store(self) -> Store:
        self.name = f"test{next(_names)}"
        return PineconeStore(api_key=KEY, host=self.server.url, namespace=self.name)

    def open_again(self, store: Store) -> Store:
        return PineconeStore(api_key=KEY, host=self.server.url, namespace=self.name)


@pytest.fixture(scope="module")
def running() -> Iterator[PineconeServer]:
    server = PineconeServer()
    yield server
    server.close()


@pytest.fixture
def server(running: PineconeServer) -> PineconeServer:
    running.indexes.clear()
    running.namespaces.clear()
    running.requests.clear()
    running.lag, running.remaining = 0, None
    return running


@pytest.fixture
def open_store(server: PineconeServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., PineconeStore]]:
    """Return a function that opens a store. The SDK does not pause between its retries, nor count them."""
    monkeypatch.setattr("pinecone._internal.http_client._retry_sleep", lambda seconds: None)
    get_budget_registry()._reset()
    stores: list[PineconeStore] = []

    def open_one(**options: Any) -> PineconeStore:
        stores.append(PineconeStore(**{"api_key": KEY, "host": server.url, "patience": 2.0, **options}))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


def test_it_declares_that_it_is_neither_atomic_nor_for_several_writers(open_store: Any) -> None:
    assert capabilities(open_store()) == {
        "words": False,
        "count": False,
        "check": True,
        "persistent": True,
        "atomic": False,
        "many writers": False,
    }


def test_the_configuration_opens_it_by_name(server: PineconeServer, tmp_path: Any) -> None:
    store = create("pinecone", path=tmp_path, options={"api_key": KEY, "host": server.url})
    store.put([full_record()])
    assert store.get(["full"]) == [full_record()]
    store.close()
    for options, text in (
        ({"apikey": KEY}, "unknown option"),
        ({"api_key": KEY, "index": "My_Index"}, "lower-case letters, digits and -"),
    ):
        with pytest.raises(ConfigError, match=text):
            create("pinecone", path=tmp_path, options=options)


def test_an_index_is_created_for_rows_and_for_each_dimension_and_none_by_reading(
    open_store: Any, server: PineconeServer
) -> None:
    store = open_store(cloud="gcp", region="europe-west4")
    assert store.get(["a"]) == store.nearest(EAST, Where(), 5) == list(store.scan(Where())) == []
    assert store.check() == []
    assert server.indexes == {}
    store.put([make_record("a", vectors=(EAST, quantize([1.0, 2.0, 3.0])))])
    shapes = {name: one["schema"]["fields"]["_values"]["dimension"] for name, one in server.indexes.items()}
    assert shapes == {"alma-rows": 1, "alma-2": 2, "alma-3": 3}
    assert {one["deployment"]["region"] for one in server.indexes.values()} == {"europe-west4"}


def test_namespaces_keep_stores_apart(open_store: Any) -> None:
    one, other = open_store(namespace="one"), open_store(namespace="other")
    one.put([make_record("a", vectors=(EAST,))])
    assert other.get(["a"]) == list(other.scan(Where())) == other.nearest(EAST, Where(), 3) == []


# --- limits of the service


def test_records_larger_than_the_metadata_limit_are_kept_in_pieces(open_store: Any, server: PineconeServer) -> None:
    store = open_store()
    large = make_record("a", text=make_text(300_000), body={"x": make_text(200_000)}, vectors=(EAST,))
    store.put([large, make_record("b")])
    pieces = server.namespaces["alma-rows", "alma.pieces"]
    assert len(pieces.vectors) > 10
    assert store.get(["a"]) == [large]
    assert {record.id: record for record in store.scan(Where())}["a"] == large
    store.put([make_record("a", version=2)])
    assert pieces.vectors == {}
    store.put([make_record("a", text=make_text(100_000), version=3)])
    assert store.delete(["a"]) == 1
    assert pieces.vectors == {}


def test_fields_larger_than_the_metadata_limit_are_still_conditions(open_store: Any) -> None:
    store, key = open_store(), make_text(50_000)
    links, tags = tuple(f"link{i}" for i in range(9000)), tuple(f"tag{i}" for i in range(9000))
    large = make_record("a", key=key, links=links, tags=tags, vectors=(EAST,))
    store.put([large, make_record("b", tags=("tag1",), vectors=(NORTH,))])
    assert [hit.id for hit in store.nearest(EAST, Where(linked=["link8999"]), 3)] == ["a"]
    assert list(store.scan(Where(keys=[key]))) == [large]
    assert list(store.scan(Where(keys=["other"]))) == list(store.scan(Where(linked=["link9000"]))) == []
    assert {record.id for record in store.scan(Where(tagged=["tag1"]))} == {"a", "b"}


def test_more_names_than_a_filter_takes_select_the_same_records(open_store: Any) -> None:
    store = open_store()
    store.put([make_record("a", session="s1", vectors=(EAST,)), make_record("b", session="x", vectors=(EAST,))])
    where = Where(sessions=[f"s{i}" for i in range(12_000)])
    assert [record.id for record in store.scan(where)] == [hit.id for hit in store.nearest(EAST, where, 2)] == ["a"]


def test_a_search_for_more_than_the_service_returns_is_cut_off_there(open_store: Any, server: PineconeServer) -> None:
    store = open_store()
    store.put([make_record(str(i), vectors=(EAST if i % 2 else WEST,)) for i in range(250)])
    assert len(store.nearest(EAST, Where(), 100_000)) == 250
    asked = [request.json["topK"] for request in server.requests if request.path.endswith("alma-2/query")]
    assert max(asked) == 10_000


# --- eventual consistency


def test_a_write_waits_until_it_is_visible_to_this_process(open_store: Any, server: PineconeServer) -> None:
    store = open_store()
    store.put([make_record("a")])
    server.lag = 2
    for version in range(2, 5):
        store.put([make_record("a", version=version)])
        assert store.get(["a"])[0].version == version
    assert store.delete(["a"]) == 1
    assert store.get(["a"]) == []


def test_a_write_that_stays_invisible_for_too_long_is_not_an_error(open_store: Any, server: PineconeServer) -> None:
    store = open_store(patience=0.1)
    store.put([make_record("a")])
    server.lag = 1000
    store.put([make_record("b")])
    server.lag = 0
    assert (
        server.namespaces["alma-rows", "alma.rows"].committed > server.namespaces["alma-rows", "alma.rows"].reconciled
    )


# --- errors


def test_a_wrong_key_is_an_error_that_does_not_show_it(open_store: Any) -> None:
    with pytest.raises(StorageError, match="Pinecone refused the key") as info:
        open_store(api_key="pcsk_wrong")
    assert "pcsk" not in repr(info.value)
    with pytest.raises(ConfigError, match=r"api_key: \${PINECONE_API_KEY}"):
        open_store(api_key="")


def test_no_error_shows_the_key(open_store: Any, server: PineconeServer) -> None:
    store = open_store()
    server.fail_next("/upsert", fail(400, "INVALID_ARGUMENT", f"the request with {KEY} is bad"))
    with pytest.raises(StorageError, match=r"status 400.*with \*\*\* is bad"):
        store.put([make_record("a")])


def test_an_index_of_another_dimension_is_an_error_that_names_it(open_store: Any, server: PineconeServer) -> None:
    store = open_store()
    store.put([make_record("a", vectors=(EAST,))])
    server.indexes["alma-2"]["schema"]["fields"]["_values"]["dimension"] = 4
    with pytest.raises(ConfigError, match="index alma-2 must have one vector of dimension 2"):
        open_store(namespace="other").put([make_record("a", vectors=(EAST,))])


def test_an_index_that_was_deleted_is_an_error_and_then_made_again(open_store: Any, server: PineconeServer) -> None:
    store = open_store()
    store.put([make_record("a")])
    server.indexes.clear()
    server.namespaces.clear()
    with pytest.raises(StorageError, match="was deleted in Pinecone"):
        store.get(["a"])
    assert store.get(["a"]) == []
    store.put([make_record("a")])
    assert store.get(["a"]) == [make_record("a")]


@pytest.mark.parametrize("answer", [THROTTLED, UNAVAILABLE, None], ids=["throttled", "unavailable", "dropped"])
def test_a_failure_that_passes_is_retried(open_store: Any, server: PineconeServer, answer: Answer | None) -> None:
    store = open_store()
    store.put([make_record("a", vectors=(EAST,))])
    for path in ("/upsert", "/fetch", "/query", "/delete", "/fetch_by_metadata"):
        server.fail_next(path, answer, answer)
        store.put([make_record("a", vectors=(WEST,), version=server.count("/upsert") + 2)])
        assert store.delete(["a"]) == 1
        store.put([make_record("a", vectors=(EAST,))])
        assert [hit.id for hit in store.nearest(EAST, Where(), 1)] == ["a"]
        assert len(list(store.scan(Where()))) == 1


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (THROTTLED, BusyError, "limits the rate"),
        (UNAVAILABLE, UnavailableError, "not available"),
        (None, UnavailableError, "cannot be reached"),
    ],
)
def test_a_failure_that_stays_says_what_to_do(
    open_store: Any, server: PineconeServer, answer: Answer | None, error: type[Exception], text: str
) -> None:
    store = open_store()
    store.put([make_record("a")])
    server.fail_next("/fetch", *[answer] * 4)
    with pytest.raises(error, match=text):
        store.get(["a"])
    assert store.get(["a"]) == [make_record("a")]


def test_a_server_that_does_not_exist_is_an_error(open_store: Any) -> None:
    with pytest.raises(StorageError, match="cannot be reached"):
        open_store(host="http://127.0.0.1:9")


# --- crashes


def test_after_a_crash_at_any_request_each_record_is_the_old_or_the_new_one_and_a_repair_cleans_up(
    open_store: Any, server: PineconeServer
) -> None:
    text = make_text(60_000)
    old = [make_record(id, text=text, vectors=(EAST,)) for id in "ab"]
    new = [make_record(id, text=text[::-1], version=2, vectors=(NORTH,)) for id in "abc"]
    for step in count():
        server.indexes.clear()
        server.namespaces.clear()
        store = open_store()
        store.put(old)
        server.remaining = step
        try:
            store.put(new)
            break
        except StorageError:
            with suppress(StorageError):
                store.close()
        server.remaining = None
        server.namespaces["alma-rows", "alma.rows"].vectors.pop("lease")
        store = open_store()
        records = list(store.scan(Where()))
        assert all(record in old or record in new for record in records)
        assert {"a", "b"} <= {record.id for record in records}
        scores = {hit.id: hit.score for hit in store.nearest(EAST, Where(), 9)}
        assert scores == {record.id: pytest.approx(1.0 if record in old else 0.0) for record in records}
        store.repair()
        assert store.check() == []
        assert list(store.scan(Where())) == records
        store.close()
    server.remaining = None
    assert step > 5
