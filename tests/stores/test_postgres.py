"""The store in PostgreSQL: the contract in all its ways of working, tenants, lost connections, and bad input."""

from __future__ import annotations

import json
import os
import random
import socket
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import count, product

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.stores.postgres_server import create_database, kill_server

from alma import ALMA, ports, stores
from alma.embedders.hash import HashEmbedder
from alma.errors import (
    BusyError,
    ConfigError,
    ConflictError,
    NewerStoreError,
    ReadOnlyError,
    StorageError,
    StorageFullError,
    UnavailableError,
    ValidationError,
)
from alma.stores.postgres import PostgresStore, schema
from alma.stores.postgres.database import PostgresDatabase
from alma.stores.postgres.server import start_server
from alma.testing import StoreContract, make_record
from alma.types.query import Where
from alma.types.record import quantize
from alma.types.times import now

pytestmark = pytest.mark.system

EAST, NORTH = quantize([1.0, 0.0]), quantize([0.0, 1.0])

# --- the contract


class PostgresContract(StoreContract):
    histories = 8
    options = {}
    store_class = PostgresStore

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def use_server(cls, postgres_server):
        # A database takes five times as long to make as a schema, in which a store is as much on its own.
        cls.dsn = create_database(postgres_server.dsn)
        cls.numbers = count()

    def make_store(self):
        schema = f"{self.options.get('schema', 'alma')} {next(self.numbers)}"
        self.used = {**self.options, "schema": schema}
        return self.store_class(self.dsn, **self.used)

    def open_again(self, store):
        return self.store_class(self.dsn, **self.used)


class TestPostgres(PostgresContract):
    pass


class TestBehindAPooler(PostgresContract):
    options = {"pooler": True, "tenant": "te'n\\ant"}

    @pytest.fixture(autouse=True)
    def change_sessions(self, monkeypatch):
        """Take away all state of a session after each transaction, as a pooler does that gives out another one."""
        take_back = PostgresDatabase._take_back

        def discard(self, connection):
            if not connection.closed and connection.info.transaction_status == 0:
                connection.execute("DISCARD ALL")
            take_back(self, connection)

        monkeypatch.setattr(PostgresDatabase, "_take_back", discard)


class IndexedStore(PostgresStore):
    """Searches by the index of vectors, however few there are."""

    def __init__(self, dsn, **options):
        super().__init__(dsn, exact_rows=0, index_rows=1, **options)

    def put(self, records):
        super().put(records)
        self.build_indexes()


class TestByIndex(PostgresContract):
    store_class = IndexedStore


class TestPartitions(PostgresContract):
    options = {"partitions": 3, "tenant": "a\0b", "schema": 'odd "schema"'}


@pytest.fixture
def store(postgres_dsn):
    with closing(PostgresStore(postgres_dsn, timeout=10.0)) as store:
        yield store


@contextmanager
def connect(dsn, **changes):
    with psycopg.connect(make_conninfo(dsn, **changes), autocommit=True) as connection:
        yield connection


def list_ids(store, **conditions):
    return [record.id for record in store.scan(Where(**conditions))]


def test_it_is_made_by_its_name_and_implements_the_optional_protocols(postgres_dsn, tmp_path):
    with closing(stores.create("postgres", path=tmp_path, options={"dsn": postgres_dsn})) as store:
        for protocol in ("Searchable", "Countable", "Snapshots", "Checkable", "Vacuumable", "Watchable"):
            assert isinstance(store, getattr(ports, protocol)), protocol
    with pytest.raises(ConfigError, match="unknown option"):
        stores.create("postgres", path=tmp_path, options={"dsn": postgres_dsn, "pool": 1})


def test_values_come_back_exactly_and_are_found_by_them(store):
    body = {"zero": -0.0, "large": 1.7e308, "small": 5e-324, "whole": 2**200, "nul\0": "a\0\1\2b", "deep": [[[{}]]]}
    store.put([make_record("\1\0\2", body=body, text="\1\1 word", links=("\0", "{}", '"\\'), tags=("\1",))])
    [record] = store.get(["\1\0\2"])
    assert repr(record.body) == repr(body)
    assert (record.links, record.tags, record.text) == (("\0", "{}", '"\\'), ("\1",), "\1\1 word")
    for fields in ({"nul\0": "a\0\1\2b"}, {"whole": 2**200}, {"zero": 0}, {"absent": None, "large": 1.7e308}):
        assert list_ids(store, fields=fields) == ["\1\0\2"], fields
    for fields in ({"nul\0": "a"}, {"whole": 2**200 + 1}, {"zero": None}, {"deep": []}):
        assert list_ids(store, fields=fields) == [], fields
    assert list_ids(store, linked=['"\\']) == list_ids(store, tagged=["\1"]) == ["\1\0\2"]


def test_text_that_looks_like_an_escaped_nul_is_found_as_it_is(store):
    values = {"looks": "\\u0000", "is": "\0", "both": "\\\0", "two": "\0\0"}
    store.put([make_record(name, body={"x": value, "\1": name}) for name, value in values.items()])
    for name, value in values.items():
        assert list_ids(store, fields={"x": value}) == list_ids(store, fields={"\1": name}) == [name]


def test_true_and_one_are_equal_in_fields_as_in_python(store):
    store.put(
        [
            make_record("true", body={"x": True}),
            make_record("one", body={"x": 1.0}),
            make_record("text", body={"x": "1"}),
        ]
    )
    for value in (1, True, 1.0):
        assert sorted(list_ids(store, fields={"x": value})) == ["one", "true"]


# --- many rows


def test_an_index_is_built_in_the_background_and_used(postgres_dsn):
    rng = random.Random(1)
    vectors = [bytes(rng.choices(range(256), k=8)) for _ in range(2000)]
    options = {"index_rows": 1000, "exact_rows": 500}
    with connect(postgres_dsn) as other:
        with closing(PostgresStore(postgres_dsn, **options)) as store:
            store.put([make_record(f"{i:04d}", vectors=(vector,)) for i, vector in enumerate(vectors)])
            other.execute("ANALYZE alma.passage")
            exact = store.nearest(vectors[0], Where(), 10)
            query = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('alma.passage_hnsw_8')"
            deadline = time.monotonic() + 60
            while other.execute(query).fetchone() != (True,) and time.monotonic() < deadline:
                time.sleep(0.05)
        with closing(PostgresStore(postgres_dsn, **options)) as store:
            assert store.nearest(vectors[0], Where(), 10) == exact
            assert store.nearest(vectors[0], Where(keys=["none"]), 10) == []
            assert store.build_indexes() == []
        usage = "SELECT idx_scan FROM pg_stat_all_indexes WHERE indexrelname = 'passage_hnsw_8'"
        while other.execute(usage).fetchone() == (0,) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert other.execute(usage).fetchone() != (0,)


def test_an_index_that_another_process_builds_is_left_to_it(postgres_dsn, monkeypatch):
    fetch = PostgresDatabase.fetch
    building = [(1,)]

    def report_progress(self, query, *arguments, **options):
        return building if "pg_stat_progress_create_index" in query else fetch(self, query, *arguments, **options)

    monkeypatch.setattr(PostgresDatabase, "fetch", report_progress)
    with closing(PostgresStore(postgres_dsn, index_rows=1)) as store:
        store.put([make_record("a", vectors=(bytes([1, 2, 3]),))])
        assert store.build_indexes() == []
        building.clear()
        assert store.build_indexes() == [3]
        assert store.build_indexes() == []


def test_very_common_words_are_answered_by_the_newest_records(store, monkeypatch):
    monkeypatch.setattr("alma.stores.postgres.search.BUDGET", 20)
    monkeypatch.setattr("alma.stores.postgres.search.POOL", 30)
    moment = now()
    records = [
        make_record(f"{i:03d}", text="common word", created_at=moment.replace(microsecond=i)) for i in range(100)
    ]
    store.put([*records, make_record("rare", text="common thing", agent="x")])
    assert [hit.id for hit in store.match("common", Where(), 2)] == ["099", "098"]
    assert [hit.id for hit in store.match("common thing", Where(), 2)] == ["rare", "099"]
    # The newest records do not have it.
    assert [hit.id for hit in store.match("common", Where(agents=["x"]), 2)] == ["rare"]
    assert len(store.match("common", Where(), 200)) == 101


def test_texts_with_very_many_words_are_stored_and_found(store):
    text = " ".join(f"w{i:x}" for i in range(200_000))
    store.put([make_record("long", text=text)])
    assert [hit.id for hit in store.match("w1f", Where(), 1)] == ["long"]
    many = tuple(f"id{i}" for i in range(20_000))
    store.put([make_record("links", links=many, tags=many, text=text)])
    assert list_ids(store, linked=["id19999"]) == list_ids(store, tagged=["id7"]) == ["links"]
    with pytest.raises(ValidationError, match="too many"):
        store.put([make_record("more", links=tuple(f"id{i}" for i in range(100_000)))])


@pytest.mark.quality
def test_three_thousand_records_are_put_in_seconds(store):
    rng = random.Random(2)
    records = [make_record(f"{i}", text=f"some words {i}", vectors=(rng.randbytes(384),)) for i in range(3000)]
    begin = time.monotonic()
    store.put(records)
    assert time.monotonic() - begin < 60
    assert sum(store.count(Where()).values()) == 3000


# --- one moment, changes, forks


def test_a_snapshot_without_reads_takes_no_connection(postgres_dsn):
    with closing(PostgresStore(postgres_dsn, timeout=0.5, pool_size=1)) as store:
        with store.snapshot():
            thread = threading.Thread(target=store.put, args=([make_record()],))
            thread.start()
            thread.join()
            assert [one.id for one in store.get(["a"])] == ["a"]
        assert [one.id for one in store.get(["a"])] == ["a"]


def test_a_retrieval_searches_all_kinds_with_one_query_by_meaning_and_one_by_words(postgres_dsn, monkeypatch):
    with ALMA(PostgresStore(postgres_dsn), HashEmbedder(), project_id="p") as memory:
        for number in range(40):
            memory.add_domain_knowledge("a", "ops", f"The auth service fails to deploy on host {number}")
        memory.add_anti_pattern("a", "Deploying the auth service at night", "nobody watches it")
        memory.retrieve("Why does the auth service fail?", "a")
        queries = []
        execute = psycopg.Connection.execute

        def note_query(connection, query, *args, **options):
            queries.append(query)
            return execute(connection, query, *args, **options)

        monkeypatch.setattr(psycopg.Connection, "execute", note_query)
        found = memory.retrieve("Why does the auth service fail to start?", "a")
    assert found.domain_knowledge
    assert found.anti_patterns
    by_kind = [query for query in queries if "PARTITION BY" in query]
    assert sum("<=>" in query for query in by_kind) == 1
    assert sum("score" in query for query in by_kind) == 1
    assert len(queries) <= 30


def test_a_snapshot_is_one_moment_and_nothing_is_written_inside(store):
    store.put([make_record("a", text="word", vectors=(EAST,))])
    with closing(PostgresStore(store_dsn(store))) as other:
        with store.snapshot():
            assert list_ids(store) == ["a"]
            other.put([make_record("b", text="word", vectors=(EAST,))])
            with store.snapshot():
                assert list_ids(store) == ["a"]
            assert len(store.match("word", Where(), 9)) == len(store.nearest(EAST, Where(), 9)) == 1
            with pytest.raises(StorageError, match="inside a snapshot"):
                store.put([make_record("c")])
        assert sorted(list_ids(store)) == ["a", "b"]


def store_dsn(store):
    return store._db._dsn


@pytest.mark.parametrize("options", [{}, {"notify": False}, {"pooler": True}], ids=["notices", "asking", "pooler"])
def test_the_revision_changes_when_another_store_writes(postgres_dsn, options):
    with closing(PostgresStore(postgres_dsn, **options)) as store, closing(PostgresStore(postgres_dsn)) as other:
        before = store.revision()
        assert store.revision() == before
        seen = {before}
        for write in (
            lambda: other.put([make_record()]),
            lambda: other.delete(["a"]),
            lambda: store.put([make_record()]),
        ):
            write()
            assert store.revision() not in seen
            seen.add(store.revision())
        other.get(["a"])
        assert store.revision() in seen


def test_a_store_that_does_not_listen_still_announces_its_changes(postgres_dsn):
    with closing(PostgresStore(postgres_dsn)) as listening, closing(PostgresStore(postgres_dsn, notify=False)) as other:
        before = listening.revision()
        other.put([make_record("a")])
        assert listening.revision() != before


def test_a_lost_listening_connection_counts_as_a_change(postgres_dsn):
    with closing(PostgresStore(postgres_dsn)) as store, connect(postgres_dsn) as other:
        before = store.revision()
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT 1%'")
        deadline = time.monotonic() + 20
        while (after := store.revision()) == before:
            assert time.monotonic() < deadline, "the lost connection is not noticed"
            time.sleep(0.05)
        store.put([make_record()])
        assert store.revision() not in (before, after)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_has_connections_of_its_own(store):
    store.put([make_record("before")])
    revision = store.revision()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            assert store.revision() != revision
            store.put([make_record("child")])
            store.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.put([make_record("after")])
    assert sorted(list_ids(store)) == ["after", "before", "child"]


def test_threads_share_few_connections(postgres_dsn):
    with closing(PostgresStore(postgres_dsn, pool_size=2)) as store:
        threads = [threading.Thread(target=store.put, args=([make_record(f"{i}")],)) for i in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(list_ids(store)) == 20


# --- damage and deleted content


def test_damage_is_reported(store, postgres_server):
    store.put([make_record("a", vectors=(EAST,), text="x"), make_record("b", vectors=(EAST,)), make_record("c")])
    store.put([make_record("d", vectors=(EAST,)), make_record("e")])
    assert store.check() == []
    with connect(store_dsn(store), user="postgres") as admin:
        admin.execute("SET search_path = alma, public")
        admin.execute("DELETE FROM record WHERE id = 'a'")
        admin.execute("DELETE FROM passage WHERE id = 'b'")
        admin.execute("UPDATE record SET body = '{' WHERE id = 'c'")
        admin.execute("UPDATE passage SET project = 'other' WHERE id = 'd'")
        admin.execute("CREATE INDEX passage_hnsw_2 ON passage (i)")
        admin.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'passage_hnsw_2'::regclass")
    problems = "\n".join(store.check())
    for problem in ("1 passages without", "1 entries of words without", "1 records with missing", "'c' is damaged"):
        assert problem in problems
    assert "columns differ" in problems
    assert "passage_hnsw_2 is not valid" in problems


def test_vacuum_leaves_no_deleted_content_in_the_tables(store, postgres_server):
    store.put([make_record("a", text="findmehere", body={"x": "findmehere"}), make_record("b")])
    assert any(b"findmehere" in data for data in read_tables(store, postgres_server))
    store.delete(["a"])
    with connect(store_dsn(store)) as reader:
        # A row that another transaction may still read is not removed.
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT pg_current_xact_id()")
        store.put([make_record("c", text="findmehere")])
        store.delete(["c"])
        with pytest.raises(BusyError, match="vacuum again"):
            store.vacuum()
        reader.execute("COMMIT")
    store.vacuum()
    assert not any(b"findmehere" in data for data in read_tables(store, postgres_server))
    assert list_ids(store) == ["b"]


def read_tables(store, server):
    with connect(store_dsn(store), user="postgres") as admin:
        admin.execute("CHECKPOINT")
        query = "SELECT pg_relation_filepath(oid) FROM pg_class WHERE relnamespace = 'alma'::regnamespace"
        paths = [path for (path,) in admin.execute(query) if path]
    return [(server.folder / path).read_bytes() for path in paths]


# --- connections that are lost


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_put_whose_commit_gets_no_answer_is_stored_once(store, monkeypatch, is_committed):
    store.put([make_record("a")])
    execute, armed = psycopg.Connection.execute, [True]

    def fail_once(self, query, *args, **options):
        if query == "COMMIT" and armed.pop():
            armed.append(False)
            if is_committed:
                execute(self, query)
            with socket.socket(fileno=os.dup(self.fileno())) as raw:
                raw.shutdown(socket.SHUT_RDWR)
        elif query == "COMMIT":
            armed.append(False)
        return execute(self, query, *args, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", fail_once)
    store.put([make_record("a", version=2), make_record("b")])
    assert {record.id: record.version for record in store.get(["a", "b"])} == {"a": 2, "b": 1}
    with pytest.raises(ConflictError):
        store.put([make_record("a", version=2)])


def test_reads_and_writes_go_on_when_the_server_ends_all_connections(store):
    with connect(store_dsn(store), user="postgres") as admin:
        for i in range(3):
            store.put([make_record(f"{i}")])
            with store.snapshot(), store.snapshot():
                store.get(["0"])
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'alma'")
            assert len(list_ids(store)) == i + 1


def test_a_read_inside_a_snapshot_is_not_repeated_at_another_moment(store):
    with connect(store_dsn(store), user="postgres") as admin, store.snapshot():
        store.get(["a"])
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'alma'")
        with pytest.raises(StorageError, match="try again"):
            store.get(["a"])


def wait_for_more(ids, number):
    """Wait until so many more ids are in a list."""
    wanted = len(ids) + number
    deadline = time.monotonic() + 120
    while len(ids) < wanted:
        assert time.monotonic() < deadline, "nothing more is written"
        time.sleep(0.01)


def test_nothing_acknowledged_is_lost_or_doubled_when_the_server_is_killed(short_folder):
    server = start_server(short_folder / "data")
    store = PostgresStore(server.dsn, timeout=60.0)
    store.put([make_record("shared")])
    acknowledged, errors, counts, is_over = [], [], [0] * 4, threading.Event()
    doubts = []

    def write(worker):
        i = 0
        while not is_over.is_set():
            try:
                ids = [f"{worker}-{i}-{j}" for j in range(3)]
                store.put([make_record(id, text="word", vectors=(EAST,)) for id in ids])
                acknowledged.extend(ids)
                count_shared(worker, i)
            except Exception as error:  # noqa: BLE001 - any error is a failure of the test
                errors.append(error)
            i += 1

    def count_shared(worker, i):
        (record,) = store.get(["shared"])
        after = replace(record, evidence=record.evidence.with_result(1.0, now()), version=record.version + 1)
        try:
            store.put([replace(after, body={"by": f"{worker} {i}"})])
            counts[worker] += 1
        except ConflictError:
            pass
        except UnavailableError as error:
            # After the crash another worker was faster: nothing is left by which the store could know this write again.
            if "it is unknown whether the write was stored" not in str(error):
                raise
            doubts.append(error)

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        wait_for_more(acknowledged, 60)
        kill_server(server)
        server = start_server(short_folder / "data")
        wait_for_more(acknowledged, 1)
    is_over.set()
    for thread in threads:
        thread.join()
    assert errors == []
    present = set(list_ids(store))
    assert set(acknowledged) <= present
    assert len(present) == len(acknowledged) + 1, "what was not acknowledged was written all the same"
    assert 0 <= store.get(["shared"])[0].evidence.successes - sum(counts) <= len(doubts)
    assert store.check() == []
    store.close()
    server.stop()


# --- bad input


@pytest.mark.parametrize(
    "dsn",
    [
        "postgres//user:s3cret@host/db",
        "postgresql://user:s3cret@host:port/db",
        "host=x passwort=s3cret",
        "postgresql://user:pa/s3cret@host/db",
        "postgresql://user:p@ss:s3cret@127.0.0.1:1/db",
        "postgresql://user:1/s3cret@127.0.0.1/db",
        "postgresql://user:s3cret@127.0.0.1:1/db",
        "postgresql://user:s3cret@host.invalid/db",
    ],
)
def test_a_wrong_connection_string_is_explained_without_the_password(dsn):
    with pytest.raises((ConfigError, StorageError), match="dsn") as caught:
        PostgresStore(dsn, timeout=3.0)
    error = caught.value
    assert "s3cret" not in str(error)
    assert error.__cause__ is None or "s3cret" not in str(error.__cause__)
    assert error.__suppress_context__ or error.__context__ is None or "s3cret" not in str(error.__context__)


def test_what_the_server_refuses_is_explained(postgres_server, postgres_dsn):
    rules = postgres_server.folder / "pg_hba.conf"
    rules.write_text("local all locked scram-sha-256\n" + rules.read_text())
    with connect(postgres_dsn, user="postgres") as admin:
        admin.execute("DROP ROLE IF EXISTS locked")
        admin.execute("CREATE ROLE locked LOGIN PASSWORD 'right'")
        loaded = "SELECT pg_conf_load_time()"
        before, deadline = admin.execute(loaded).fetchone(), time.monotonic() + 60
        admin.execute("SELECT pg_reload_conf()")
        while admin.execute(loaded).fetchone() == before:
            assert time.monotonic() < deadline, "the server does not read its rules again"
            time.sleep(0.05)
    for changes, reason in (
        ({"user": "locked", "password": "wr0ng"}, "password authentication failed"),
        ({"user": "nobody"}, "does not exist"),
        ({"dbname": "nowhere"}, "does not exist"),
    ):
        with pytest.raises(ConfigError, match=reason) as caught:
            PostgresStore(make_conninfo(postgres_dsn, **changes))
        assert "wr0ng" not in str(caught.value)
    with pytest.raises(ReadOnlyError, match="CREATE on the database"):
        PostgresStore(make_conninfo(postgres_dsn, user="locked", password="right"))
    for options in ({"pool_size": 0}, {"timeout": 0}, {"schema": ""}, {"partitions": -1}):
        with pytest.raises(ConfigError):
            PostgresStore(postgres_dsn, **options)
    with pytest.raises(ConfigError):
        PostgresStore("")


def test_a_database_without_pgvector_is_explained(postgres_server):
    with pytest.raises(ConfigError, match="CREATE EXTENSION vector"):
        PostgresStore(create_database(postgres_server.dsn, "TEMPLATE template0"))


def test_a_newer_schema_is_refused(store):
    with connect(store_dsn(store)) as other:
        other.execute("UPDATE alma.meta SET value = 99 WHERE name = 'version'")
    with pytest.raises(NewerStoreError, match="update alma"):
        PostgresStore(store_dsn(store))


def test_what_cannot_be_stored_is_refused(store):
    for record in (
        make_record(text="\ud800"),
        make_record("\udfff"),
        make_record(project="\ud800"),
        make_record(vectors=(bytes(16_001),)),
        make_record(version=2**63),
    ):
        with pytest.raises(ValidationError):
            store.put([make_record("b"), record])
    with pytest.raises(ValidationError):
        store.get(["\ud800"])
    with pytest.raises(ValidationError):
        list_ids(store, fields={"x": float("nan")})
    assert list_ids(store) == []


def test_a_read_only_store_is_read_and_not_written(store):
    store.put([make_record("a", text="word", vectors=(EAST,))])
    dsn = store_dsn(store)
    with connect(dsn, user="postgres") as admin:
        admin.execute("DROP ROLE IF EXISTS reader")
        admin.execute("CREATE ROLE reader LOGIN")
        admin.execute("GRANT USAGE ON SCHEMA alma TO reader")
        admin.execute("GRANT SELECT ON ALL TABLES IN SCHEMA alma TO reader")
        admin.execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA alma TO reader")
    reader = make_conninfo(dsn, user="reader")
    frozen = make_conninfo(dsn, options="-c default_transaction_read_only=on")
    for other in (PostgresStore(dsn, read_only=True), PostgresStore(reader), PostgresStore(frozen)):
        with closing(other):
            assert list_ids(other) == [hit.id for hit in other.match("word", Where(), 1)] == ["a"]
            assert [hit.id for hit in other.nearest(EAST, Where(), 1)] == ["a"]
            with pytest.raises(ReadOnlyError):
                other.put([make_record("b")])
            with pytest.raises(ReadOnlyError):
                other.delete(["a"])
    assert list_ids(store) == ["a"]
    with connect(dsn, user="postgres") as admin:
        admin.execute("DROP OWNED BY reader")
        admin.execute("DROP ROLE reader")
    with pytest.raises(ReadOnlyError, match="no tables yet"):
        PostgresStore(dsn, schema="other", read_only=True)


def test_a_full_disk_is_reported(store, monkeypatch):
    execute = psycopg.Connection.execute

    def fail(self, query, *args, **options):
        if query.startswith("INSERT"):
            raise psycopg.errors.DiskFull("could not extend file")
        return execute(self, query, *args, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", fail)
    with pytest.raises(StorageFullError, match="free some space"):
        store.put([make_record()])
    assert list_ids(store) == []


def test_waiting_ends_after_the_timeout(postgres_dsn):
    with closing(PostgresStore(postgres_dsn, timeout=0.5, pool_size=1)) as store, connect(postgres_dsn) as other:
        store.put([make_record()])
        other.execute("BEGIN")
        other.execute("SELECT set_config('alma.tenant', '=', true)")
        assert other.execute("SELECT id FROM alma.record FOR UPDATE").fetchall() == [("a",)]
        with pytest.raises(BusyError, match="locked"):
            store.put([make_record(version=2)])
        other.execute("COMMIT")
        with store.snapshot():
            assert store.get(["a"])
            thread_errors = []

            def read():
                try:
                    store.get(["a"])
                except BusyError as error:
                    thread_errors.append(error)

            thread = threading.Thread(target=read)
            thread.start()
            thread.join()
        assert "pool_size" in str(thread_errors[0])


# --- tenants

TENANTS = ("", "a", "A", "b\0", "=")
WORDS = ("alpha", "beta", "gamma", "delta")


def fill_tenants(dsn, **options):
    """Return a store for each tenant; all have the same ids, words and vectors."""
    tenants = {tenant: PostgresStore(dsn, tenant=tenant, **options) for tenant in TENANTS}
    rng = random.Random(5)
    for tenant, store in tenants.items():
        store.put(
            [
                make_record(
                    f"{i}",
                    body={"tenant": tenant},
                    text=" ".join(rng.sample(WORDS, 2)),
                    tags=(rng.choice(WORDS),),
                    links=(f"{i + 1}",),
                    key=f"{i % 5}",
                    project=tenant,
                    vectors=(quantize([rng.random(), rng.random() - 0.5]),),
                )
                for i in range(20)
            ]
        )
        store.put(
            [make_record(f"only {tenant}", project=tenant, body={"tenant": tenant}, text="alpha", vectors=(EAST,))]
        )
    return tenants


@pytest.mark.parametrize("partitions", [0, 3])
def test_no_query_returns_a_row_of_another_tenant(postgres_dsn, partitions):
    tenants = fill_tenants(postgres_dsn, partitions=partitions)
    rng = random.Random(6)
    for _ in range(600):  # Each kind of question, with each condition, of each tenant, several times.
        tenant, store = rng.choice(list(tenants.items()))
        own = {*(f"{i}" for i in range(20)), f"only {tenant}"}
        where = rng.choice(
            (
                Where(),
                Where(keys=[f"{rng.randrange(6)}"]),
                Where(tagged=rng.sample(WORDS, 2)),
                Where(linked=[f"{rng.randrange(22)}"]),
                Where(projects=TENANTS),
                Where(fields={"tenant": rng.choice(TENANTS)}),
            )
        )
        limit = rng.randrange(1, 30)
        ask = rng.randrange(5)
        if ask == 0:
            records = list(store.scan(where, limit))
        elif ask == 1:
            records = store.get([*rng.sample(sorted(own), 3), *(f"only {name}" for name in TENANTS)])
        elif ask == 2:
            records = store.get([hit.id for hit in store.nearest(rng.randbytes(2), where, limit)])
        elif ask == 3:
            records = store.get([hit.id for hit in store.match(" ".join(rng.sample(WORDS, 2)), where, limit)])
        else:
            records = []
            assert sum(store.count(where).values()) <= len(own)
        assert all(record.body == {"tenant": tenant} and record.id in own for record in records)
    for tenant, store in tenants.items():
        assert store.delete([f"only {name}" for name in TENANTS]) == 1
        assert len(list_ids(store)) == 20
        assert store.check() == [], tenant
        store.close()


STATEMENTS = (
    "SELECT body FROM record",
    "SELECT body FROM record WHERE id = '3' OR true",
    "SELECT body FROM passage JOIN record USING (tenant, id) ORDER BY vec <=> '[1,1]'",
    "SELECT body FROM term JOIN record USING (tenant, id) WHERE terms @@ (%(terms)s::text[])[1]::tsquery",
    "SELECT body FROM find_terms(%(terms)s, 100) f JOIN record USING (id)",
    "UPDATE record SET version = version RETURNING body",
    "DELETE FROM record RETURNING body",
)


@pytest.mark.parametrize("partitions", [0, 3])
@pytest.mark.parametrize("role", ["alma", "member"])
def test_row_level_security_alone_hides_other_tenants(postgres_dsn, partitions, role):
    tenants = fill_tenants(postgres_dsn, partitions=partitions)
    for store in tenants.values():
        store.close()
    with connect(postgres_dsn, user="postgres") as admin:
        admin.execute("DROP ROLE IF EXISTS member")
        admin.execute("CREATE ROLE member LOGIN")
        admin.execute("GRANT USAGE ON SCHEMA alma TO member")
        admin.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA alma TO member")
        admin.execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA alma TO member")
        rows = admin.execute("SELECT DISTINCT unnest(tsvector_to_array(terms)) FROM alma.term").fetchall()
        terms = [f"'{term}'" if i == 0 else term for i, (term,) in enumerate(rows)]
    tables = ["record", "passage", "term"]
    tables += [f"{table}_{i}" for table in tables for i in range(partitions)]
    with connect(postgres_dsn, user=role) as connection:
        connection.execute("SET search_path = alma, public")
        for turn, (tenant, statement) in enumerate(product(TENANTS, STATEMENTS)):
            if turn % 10 == 0:
                # Without a tenant nothing is visible, also after one was set.
                for table in tables:
                    assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
            connection.execute("BEGIN")
            value = tenant.replace("\0", "\1\1")
            connection.execute("SELECT set_config('alma.tenant', %s, true)", (f"={value}",))
            ids = [name for (name,) in connection.execute("SELECT id FROM find_terms(%s, 100)", (terms[1:],))]
            assert {name for name in ids if name.startswith("only")} == {f"only {value}"}
            rows = connection.execute(statement, {"terms": terms}).fetchall()
            assert {body for (body,) in rows} <= {make_body(tenant), None}
            for table in tables:
                assert {name for (name,) in connection.execute(f"SELECT DISTINCT tenant FROM {table}")} <= {value}
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("INSERT INTO term VALUES ('other', 'x', '')" if turn % 2 else INSERT)
            connection.execute("ROLLBACK")
    with connect(postgres_dsn, user="postgres") as admin:
        admin.execute("DROP OWNED BY member")
        admin.execute("DROP ROLE member")


@pytest.mark.parametrize("partitions", [0, 3])
def test_an_older_schema_is_upgraded_and_then_hides_the_words_of_other_tenants(postgres_dsn, monkeypatch, partitions):
    with monkeypatch.context() as older:
        older.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
        running = PostgresStore(postgres_dsn, tenant="a", partitions=partitions)
        running.put([make_record("1", text="alpha", tags=("x",))])
        with closing(PostgresStore(postgres_dsn, tenant="b", partitions=partitions)) as other:
            other.put([make_record("2", text="beta")])
    with connect(postgres_dsn, user="postgres") as admin:
        admin.execute("DROP ROLE IF EXISTS reader")
        admin.execute("CREATE ROLE reader LOGIN")
        admin.execute("GRANT USAGE ON SCHEMA alma TO reader")
        admin.execute("GRANT SELECT ON ALL TABLES IN SCHEMA alma TO reader")
    reader_dsn = make_conninfo(postgres_dsn, user="reader")
    with pytest.raises(ReadOnlyError, match="open it once for writing"):
        PostgresStore(reader_dsn, tenant="a", read_only=True)
    with pytest.raises(ReadOnlyError, match="as the owner of its tables"):
        PostgresStore(reader_dsn, tenant="a")
    assert [hit.id for hit in running.match("alpha", Where(), 9)] == ["1"]
    with closing(PostgresStore(postgres_dsn, tenant="b")) as other:
        assert [hit.id for hit in other.match("alpha beta", Where(), 9)] == ["2"]
    # A process that opened the store before the upgrade goes on.
    running.put([make_record("1", version=2, text="gamma", tags=("x",))])
    assert [hit.id for hit in running.match("gamma", Where(tagged=["x"]), 9)] == ["1"]
    running.close()
    with closing(PostgresStore(reader_dsn, tenant="a", read_only=True)) as store:
        assert [hit.id for hit in store.match("gamma", Where(), 9)] == ["1"]
    with connect(postgres_dsn) as owner:
        assert owner.execute("SELECT count(*) FROM alma.term").fetchone() == (0,)
    query = "SELECT grantee FROM information_schema.routine_privileges WHERE routine_name = 'find_terms' ORDER BY 1"
    with connect(postgres_dsn, user="postgres") as admin:
        assert admin.execute(query).fetchall() == [("alma",), ("reader",)]
        admin.execute("DROP OWNED BY reader")
        admin.execute("DROP ROLE reader")


INSERT = (
    "INSERT INTO passage SELECT 'other', 'x', 0, kind, project, agent, \"user\", session, status, key, embedder,"
    " created_at, valid_from, valid_to, dim, vec FROM passage LIMIT 1"
)


def make_body(tenant):
    return json.dumps({"tenant": tenant}, ensure_ascii=False, separators=(",", ":"))
