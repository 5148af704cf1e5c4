"""The store azure, over a loopback server that follows the published protocol of Azure Cosmos DB for NoSQL."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from threading import Event, Thread
from typing import Any

import pytest
from tests.stores.cosmos_server import KEY, CosmosServer, fail
from tests.stores.loopback import Answer, make_text

from alma.errors import BusyError, ConfigError, ConflictError, StorageError, UnavailableError
from alma.ports import Store
from alma.stores import azure, create
from alma.stores.azure import CosmosStore
from alma.stores.documents import ROWS
from alma.stores.wrappers import RetryingStore
from alma.testing import StoreContract, capabilities
from alma.testing.contract import EAST, NORTH, full_record, make_record
from alma.types.query import Where
from alma.types.record import Record, quantize

pytestmark = pytest.mark.system

_names = count()
UNAVAILABLE = fail(503, "ServiceUnavailable", "The service is not available")
THROTTLED = fail(429, "TooManyRequests", "The request rate is large", sub_status=3200, x_ms_retry_after_ms="1")
DOCS = "/docs"


class TestCosmosStore(StoreContract):
    """The whole contract. Every store has a partition of its own on one server."""

    histories = 4
    many = 250
    crowd = 100
    server: CosmosServer

    @classmethod
    def setup_class(cls) -> None:
        cls.server = CosmosServer()

    @classmethod
    def teardown_class(cls) -> None:
        cls.server.close()

    def make_store(self) -> Store:
        self.name = f"test{next(_names)}"
        return CosmosStore(endpoint=self.server.url, key=KEY, partition=self.name)

    def open_again(self, store: Store) -> Store:
        return CosmosStore(endpoint=self.server.url, key=KEY, partition=self.name)


@pytest.fixture(scope="module")
def running() -> Iterator[CosmosServer]:
    server = CosmosServer()
    yield server
    server.close()


@pytest.fixture
def server(running: CosmosServer) -> CosmosServer:
    running.databases.clear()
    running.containers.clear()
    running.items.clear()
    running.requests.clear()
    running.remaining = None
    return running


@pytest.fixture
def open_store(server: CosmosServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., CosmosStore]]:
    """Return a function that opens a store. The SDK does not pause between its retries."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    stores: list[CosmosStore] = []

    def open_one(**options: Any) -> CosmosStore:
        stores.append(CosmosStore(**{"endpoint": server.url, "key": KEY, **options}))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


def test_it_declares_several_writers_and_that_it_is_not_atomic(open_store: Any) -> None:
    assert capabilities(open_store()) == {
        "words": False,
        "count": False,
        "check": True,
        "persistent": True,
        "atomic": False,
        "many writers": True,
    }


def test_the_configuration_opens_it_by_name(server: CosmosServer, tmp_path: Any) -> None:
    store = create("azure", path=tmp_path, options={"endpoint": server.url, "key": KEY})
    store.put([full_record()])
    assert store.get(["full"]) == [full_record()]
    store.close()
    for options, text in (
        ({"endpoint": server.url}, r"the option key; write key: \${COSMOS_KEY}"),
        ({"key": KEY}, r"the option endpoint; write endpoint: \${COSMOS_ENDPOINT}"),
        ({"endpoint": server.url, "key": KEY, "index": "hnsw"}, "unknown vector index 'hnsw'"),
        ({"endpoint": server.url, "key": KEY, "container": "a/b"}, "'a/b' must consist of letters"),
        ({"url": server.url}, "unknown option"),
    ):
        with pytest.raises(ConfigError, match=text):
            create("azure", path=tmp_path, options=options)


def test_a_container_is_created_for_rows_and_for_each_dimension_and_none_by_reading(
    open_store: Any, server: CosmosServer
) -> None:
    store = open_store(index="diskANN")
    assert store.get(["a"]) == store.nearest(EAST, Where(), 5) == list(store.scan(Where())) == store.check() == []
    assert store.delete(["a"]) == 0
    assert server.containers == {}
    store.put([make_record("a", vectors=(EAST, quantize([1.0, 2.0, 3.0])))])
    assert {name for _, name in server.containers} == {"alma-rows", "alma-2", "alma-3"}
    container = server.containers["alma", "alma-3"]
    (vector,) = container["vectorEmbeddingPolicy"]["vectorEmbeddings"]
    assert (vector["dimensions"], vector["distanceFunction"]) == (3, "cosine")
    assert container["indexingPolicy"]["vectorIndexes"] == [{"path": "/vector", "type": "diskANN"}]


def test_partitions_keep_stores_apart(open_store: Any) -> None:
    one, other = open_store(partition="one"), open_store(partition="other")
    one.put([make_record("a", vectors=(EAST,))])
    assert other.get(["a"]) == list(other.scan(Where())) == other.nearest(EAST, Where(), 3) == []


def test_values_are_never_part_of_the_text_of_a_query(open_store: Any, server: CosmosServer) -> None:
    store, hostile = open_store(), 'x" OR true OR "'
    store.put([make_record("a", agent=hostile, tags=(hostile,), vectors=(EAST,)), make_record("b", vectors=(EAST,))])
    where = Where(agents=[hostile], tagged=[hostile, "@p0"])
    assert [record.id for record in store.scan(where)] == [hit.id for hit in store.nearest(EAST, where, 5)] == ["a"]
    queries = [one.json["query"] for one in server.requests if "x-ms-documentdb-isquery" in one.headers]
    assert queries
    assert not [query for query in queries if "OR" in query.replace("ORDER BY", "")]


# --- limits of the service


def test_records_larger_than_an_item_are_kept_in_pieces(open_store: Any, server: CosmosServer) -> None:
    store = open_store()
    large = make_record("a", text=make_text(3_000_000), vectors=(EAST,))
    store.put([large, make_record("b")])
    items = server.items["alma", "alma-rows"]
    assert sum(part == "alma.pieces" for part, _ in items) > 1
    assert store.get(["a"]) == [large]
    assert {record.id: record for record in store.scan(Where())}["a"] == large
    store.put([make_record("a", version=2)])
    assert not [key for key in items if key[0] == "alma.pieces"]


def test_a_put_of_many_records_is_cut_into_transactions_of_100(open_store: Any, server: CosmosServer) -> None:
    store = open_store()
    store.put([make_record(str(i), vectors=(EAST,)) for i in range(250)])
    sizes = [len(one.json) for one in server.requests if "x-ms-cosmos-is-batch-request" in one.headers]
    assert sizes == [100, 100, 50] * 2
    assert len(list(store.scan(Where()))) == len(store.nearest(EAST, Where(), 300)) == 250


def test_more_names_than_a_query_takes_select_the_same_records(open_store: Any) -> None:
    store = open_store()
    store.put([make_record("a", session="s1", vectors=(EAST,)), make_record("b", session="x", vectors=(EAST,))])
    where = Where(sessions=[f"s{i}" for i in range(7000)])
    assert [record.id for record in store.scan(where)] == [hit.id for hit in store.nearest(EAST, where, 2)] == ["a"]


def test_a_dimension_that_the_index_does_not_take_is_an_error_that_says_so(open_store: Any) -> None:
    with pytest.raises(StorageError, match="dimensions larger than 505"):
        open_store(index="flat").put([make_record("a", vectors=(bytes([1]) * 600,))])


# --- several writers


def test_of_increments_by_several_processes_none_is_lost(server: CosmosServer) -> None:
    stores = [CosmosStore(endpoint=server.url, key=KEY) for _ in range(3)]
    stores[0].put([make_record("a", body={"count": 0}, vectors=(EAST,))])

    def count_up(store: CosmosStore) -> None:
        for _ in range(5):
            while True:
                (record,) = store.get(["a"])
                body, version = {"count": record.body["count"] + 1}, record.version + 1
                with suppress(ConflictError):
                    store.put([make_record("a", body=body, version=version, vectors=(EAST,))])
                    break

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(count_up, stores))
    assert stores[1].get(["a"])[0].body == {"count": 15}
    assert stores[2].check() == []
    for store in stores:
        store.close()


def test_a_record_that_another_process_adds_first_conflicts_and_the_rest_of_the_put_is_not_written(
    open_store: Any, server: CosmosServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = open_store(), open_store()
    run_batch = one.documents._inner._run_batch

    def come_second(space: int, operations: Any) -> bool:
        if space == 0:
            monkeypatch.undo()
            other.put([make_record("b", text="first")])
        return run_batch(space, operations)

    monkeypatch.setattr(one.documents._inner, "_run_batch", come_second)
    with pytest.raises(ConflictError):
        one.put([make_record(id, text="second", vectors=(EAST,)) for id in "abc"])
    assert [record.text for record in other.scan(Where())] == ["first"]
    assert one.check() == []


def test_who_wrote_or_deleted_leaves_the_pieces_that_another_process_is_about_to_use(
    open_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure, "_CONTENT_BYTES", 5000)  # A record with more is kept in pieces.
    one, other = open_store(), open_store()
    one.put([make_record("a", text=make_text(10_000))])

    def change_while_pieces_are_written(act: Callable[[], object], record: Record) -> None:
        """Let `one` act while `other` has written the pieces of the record, and not yet its row."""
        replace_rows, run_batch = other.documents._inner.replace_rows, one.documents._inner._run_batch

        def begin(space: int, operations: Any) -> bool:
            is_done = run_batch(space, operations)
            if space == ROWS and not are_written.is_set():
                other_put.start()
                assert are_written.wait(60)
            return bool(is_done)

        def wait_for_one(rows: Any) -> list[str]:
            are_written.set()
            assert has_acted.wait(60)
            return list(replace_rows(rows))

        are_written, has_acted = Event(), Event()
        other_put = Thread(target=other.put, args=([record],))
        with monkeypatch.context() as patch:
            patch.setattr(one.documents._inner, "_run_batch", begin)
            patch.setattr(other.documents._inner, "replace_rows", wait_for_one)
            act()
            has_acted.set()
            other_put.join()
        assert other.get(["a"]) == [record]
        assert one.check() == []

    newer = [make_record("a", version=n, text=make_text(10_000 + n)) for n in (2, 3, 4)]
    change_while_pieces_are_written(lambda: one.put([newer[0]]), newer[1])
    change_while_pieces_are_written(lambda: one.delete(["a"]), newer[2])


def test_a_new_record_that_was_changed_is_not_removed_with_the_rest_of_its_put(
    open_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure, "_BATCH", 1)  # Each row is a transaction of its own.
    monkeypatch.setattr(azure, "_CONTENT_BYTES", 5000)
    one, other = open_store(), open_store()
    newer = make_record("b", text=make_text(11_000), version=2, vectors=(NORTH,))
    run_batch, batches = one.documents._inner._run_batch, []

    def interfere(space: int, operations: Any) -> bool:
        if space == ROWS:
            batches.append(operations[0][0])
            if batches[-1] == "delete" and batches.count("delete") == 1:
                other.put([newer])
            elif len(batches) == 3:
                other.put([make_record("c", text="first")])
        return bool(run_batch(space, operations))

    monkeypatch.setattr(one.documents._inner, "_run_batch", interfere)
    with pytest.raises(ConflictError):
        one.put([make_record(id, text=make_text(10_000), vectors=(EAST,)) for id in "bac"])
    assert batches == ["create"] * 3 + ["delete"] * 2
    assert {record.id: record.text for record in other.scan(Where())} == {"b": newer.text, "c": "first"}
    assert one.check() == []


# --- errors


def test_a_wrong_key_is_an_error_that_does_not_show_it(open_store: Any) -> None:
    wrong = b64encode(b"wrong").decode()
    with pytest.raises(StorageError, match="Cosmos DB refused the key") as info:
        open_store(key=wrong)
    assert wrong not in repr(info.value)
    with pytest.raises(ConfigError, match="those are base64"):
        open_store(key="not base64")


def test_a_container_of_another_dimension_is_an_error_that_names_it(open_store: Any, server: CosmosServer) -> None:
    open_store().put([make_record("a", vectors=(EAST,))])
    server.containers["alma", "alma-2"]["vectorEmbeddingPolicy"]["vectorEmbeddings"][0]["dimensions"] = 4
    with pytest.raises(ConfigError, match="container alma-2 must have vectors of dimension 2"):
        open_store().nearest(EAST, Where(), 1)


def test_a_container_that_was_deleted_is_an_error_and_then_made_again(open_store: Any, server: CosmosServer) -> None:
    store = open_store()
    store.put([make_record("a")])
    server.containers.clear()
    server.items.clear()
    with pytest.raises(StorageError, match="was deleted in Cosmos DB"):
        store.get(["a"])
    assert store.get(["a"]) == []
    store.put([make_record("a")])
    assert store.get(["a"]) == [make_record("a")]


@pytest.mark.parametrize("answer", [THROTTLED, UNAVAILABLE], ids=["throttled", "unavailable"])
def test_a_failure_that_passes_is_retried(open_store: Any, server: CosmosServer, answer: Answer) -> None:
    store = open_store()
    for version in range(1, 4):
        server.fail_next(DOCS, answer)
        store.put([make_record("a", vectors=(EAST,), version=version)])
        server.fail_next(DOCS, answer)
        assert [hit.id for hit in store.nearest(EAST, Where(), 1)] == ["a"]
    server.fail_next(DOCS, answer)
    assert store.delete(["a"]) == 1


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (THROTTLED, BusyError, "limits the rate"),
        (UNAVAILABLE, UnavailableError, "not available"),
        (None, UnavailableError, "cannot be reached"),
    ],
)
def test_a_failure_that_stays_says_what_to_do(
    open_store: Any, server: CosmosServer, answer: Answer | None, error: type[Exception], text: str
) -> None:
    store = open_store()
    store.put([make_record("a")])
    server.fail_next("", *[answer] * 300)
    with pytest.raises(error, match=text):
        store.get(["a"])
    server.clear_faults()
    assert store.get(["a"]) == [make_record("a")]


def test_with_retries_a_store_survives_an_outage(
    open_store: Any, server: CosmosServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = open_store()
    store = RetryingStore(inner)
    store.put([make_record("a")])
    server.fail_next("", *[UNAVAILABLE] * 300)
    # The service is back when the first pause ends.
    monkeypatch.setattr("alma.retry.sleep", lambda seconds: server.clear_faults())
    store.put([make_record("a", version=2, vectors=(EAST,))])
    assert inner.get(["a"])[0].version == 2
    assert inner.check() == []


def test_a_server_that_does_not_exist_is_an_error(open_store: Any) -> None:
    with pytest.raises(StorageError, match="cannot be reached"):
        open_store(endpoint="http://127.0.0.1:9")


def test_a_transaction_whose_answer_is_lost_is_written_once(open_store: Any, server: CosmosServer) -> None:
    store = open_store()
    store.put([make_record("a", vectors=(EAST,))])
    server.lose_answer(lambda request: b'"Replace"' in request.body)
    store.put([make_record("a", version=2, vectors=(NORTH,))])
    assert store.get(["a"])[0].version == 2
    assert store.check() == []


# --- crashes


def test_after_a_crash_at_any_request_each_record_is_the_old_or_the_new_one_and_a_repair_cleans_up(
    open_store: Any, server: CosmosServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure, "_CONTENT_BYTES", 5000)  # A record with more is kept in pieces.
    text = make_text(10_000)
    old = [make_record("a", text=text, vectors=(EAST,)), make_record("b", vectors=(EAST,))]
    new = [make_record("a", text=text[::-1], version=2, vectors=(NORTH,))]
    new += [make_record(id, version=2, vectors=(NORTH,)) for id in "bc"]
    for step in count():
        server.containers.clear()
        server.items.clear()
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
