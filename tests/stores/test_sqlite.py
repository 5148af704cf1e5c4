"""What the SQLite store promises beyond the contract."""

from __future__ import annotations

import gc
import os
import random
import sqlite3
import stat
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import timedelta

import pytest

from alma.errors import (
    BusyError,
    CorruptStoreError,
    MissingExtraError,
    NewerStoreError,
    ReadOnlyError,
    StorageError,
    StorageFullError,
    ValidationError,
)
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore, database, search
from alma.stores.sqlite import store as rows
from alma.testing import MOMENT, make_record
from alma.types.kinds import KINDS
from alma.types.query import Hit, Where
from alma.types.record import Evidence, Status


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "memory.db"


@pytest.fixture
def store(path):
    with closing(SQLiteStore(path)) as store:
        yield store


def vector(seed, dim=8):
    return random.Random(seed).randbytes(dim)


def plain(path, sql, *params):
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute(sql, params).fetchall()
        db.commit()
        return rows


# --- the file


def test_the_file_is_private(path, store):
    store.put([make_record()])
    for name in ("memory.db", "memory.db-wal", "memory.db-shm"):
        assert stat.S_IMODE((path.parent / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_an_id_without_its_record_is_damage(store, monkeypatch):
    store.put([make_record("a"), make_record("b")])
    read_rows = rows._read_rows
    monkeypatch.setattr(rows, "_read_rows", lambda db, numbers: read_rows(db, list(numbers)[1:]))
    with pytest.raises(CorruptStoreError, match="a record is damaged; run `alma doctor`"):
        store.get(["a", "b"])


def test_a_file_that_others_can_read_is_a_problem(path, store):
    path.chmod(0o644)
    (problem,) = store.check()
    assert "chmod 600" in problem


def test_an_empty_file_becomes_a_store(path):
    path.parent.mkdir()
    path.touch()
    with closing(SQLiteStore(path)) as store:
        store.put([make_record()])
    assert plain(path, "PRAGMA user_version") == [(len(database.MIGRATIONS),)]
    assert plain(path, "PRAGMA journal_mode") == [("wal",)]


def test_a_file_that_another_process_fills_meanwhile_is_not_taken_for_a_foreign_one(path):
    class SlowConnection(sqlite3.Connection):
        def execute(self, statement):
            rows = super().execute(statement)
            if statement == "PRAGMA application_id":
                SQLiteStore(path).close()
            return rows

    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as empty:
        empty.execute("PRAGMA journal_mode = WAL")
    with closing(sqlite3.connect(path, factory=SlowConnection)) as slow:
        assert database.read_version(slow, path) == 0
    with closing(sqlite3.connect(path)) as db:
        assert database.read_version(db, path) > 0


def test_opening_again_changes_nothing(path):
    SQLiteStore(path).close()
    before = path.read_bytes()
    SQLiteStore(path).close()
    assert path.read_bytes() == before


def test_a_migration_is_applied_once(path, monkeypatch):
    SQLiteStore(path).close()
    monkeypatch.setattr(database, "MIGRATIONS", [*database.MIGRATIONS, lambda db: db.execute("CREATE TABLE later (x)")])
    for _ in range(2):
        SQLiteStore(path).close()
    assert plain(path, "SELECT * FROM later") == []
    assert plain(path, "PRAGMA user_version") == [(2,)]


def test_a_failed_migration_leaves_the_old_file(path, monkeypatch):
    SQLiteStore(path).close()

    def fail(db):
        db.execute("CREATE TABLE later (x)")
        db.execute("nonsense")

    with monkeypatch.context() as patch:
        patch.setattr(database, "MIGRATIONS", [*database.MIGRATIONS, fail])
        with pytest.raises(StorageError):
            SQLiteStore(path)
    with closing(SQLiteStore(path)) as store:
        assert store.check() == []


def test_a_newer_file_is_refused(path):
    SQLiteStore(path).close()
    plain(path, "PRAGMA user_version = 99")
    with pytest.raises(NewerStoreError, match="update alma"):
        SQLiteStore(path)


def test_a_foreign_database_is_refused_and_left_alone(path):
    path.parent.mkdir()
    plain(path, "CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(CorruptStoreError, match="not an alma database"):
        SQLiteStore(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"hello, this is no database\n" * 100, b"SQLite format 3\0" + bytes(5000)])
def test_a_file_that_is_no_database_is_refused(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(CorruptStoreError):
        SQLiteStore(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("seed", range(8))
def test_damage_is_reported_and_never_read_as_something_else(path, seed):
    records = {str(i): make_record(str(i), text="word " * 50, body={"x": "y" * 500}) for i in range(300)}
    with closing(SQLiteStore(path)) as store:
        store.put(list(records.values()))
    rng = random.Random(seed)
    content = bytearray(path.read_bytes())
    start = rng.randrange(20_000, len(content) - 20_000)
    content[start : start + 20_000] = rng.randbytes(20_000)
    path.write_bytes(content)
    # Any other error than this one fails the test.
    with suppress(CorruptStoreError), closing(SQLiteStore(path)) as store:
        assert store.check()
        assert all(record == records[record.id] for record in store.scan(Where()))
        store.match("word", Where(), 300)


def test_content_that_does_not_fit_is_damage(path, store):
    store.put([make_record()])
    for change in ("status = 'odd'", "body = '{'", "provenance = '[]'", "v_count = 3"):
        with closing(sqlite3.connect(path)) as db:
            db.execute(f"UPDATE record SET {change}")
            db.commit()
        with pytest.raises(CorruptStoreError, match="restore a backup"):
            store.get(["a"])
        store.delete(["a"])
        store.put([make_record()])


def test_a_check_finds_what_does_not_belong_together(path, store):
    store.put([make_record(text="word", vectors=(vector(1),))])
    for damage, problem in [
        ("INSERT INTO link VALUES (77, 0, 'x')", "links without a record"),
        ("INSERT INTO tag VALUES (77, 0, 'x')", "tags without a record"),
        ("DELETE FROM vector_tail", "vectors of records are missing"),
        ("INSERT INTO vector_tail VALUES (9, 4, 77, 1, zeroblob(3))", "vectors without a record"),
        ("UPDATE record SET text = 'other'", "index of words"),
        ("UPDATE record SET body = '['", "not JSON"),
        ("DELETE FROM scope", "records without a scope"),
    ]:
        plain(path, damage)
        assert any(problem in line for line in store.check()), problem


def test_a_replaced_file_is_noticed(path, store, tmp_path):
    with closing(SQLiteStore(tmp_path / "other.db")) as other:
        other.put([make_record("theirs", vectors=(vector(2),), text="word")])
    store.put([make_record("ours", vectors=(vector(1),), text="word")])
    assert [hit.id for hit in store.nearest(vector(1), Where(), 5)] == ["ours"]
    for name in ("memory.db-wal", "memory.db-shm"):
        (path.parent / name).unlink()
    (tmp_path / "other.db").rename(path)
    assert [hit.id for hit in store.nearest(vector(1), Where(), 5)] == ["theirs"]
    store.put([make_record("more")])
    assert [record.id for record in store.scan(Where())] == ["theirs", "more"]


def test_read_only_reads_and_refuses_to_write(path):
    with closing(SQLiteStore(path)) as store:
        store.put([make_record(text="word", vectors=(vector(1),))])
    with closing(SQLiteStore(path, read_only=True)) as store:
        assert store.get(["a"])[0].text == "word"
        assert store.nearest(vector(1), Where(), 1)
        assert store.match("word", Where(), 1)
        assert store.check() == []
        for write in (lambda: store.put([make_record("b")]), lambda: store.delete(["a"]), store.vacuum):
            with pytest.raises(ReadOnlyError):
                write()


def test_read_only_makes_no_file_and_no_migration(path, monkeypatch):
    with pytest.raises(StorageError, match="does not exist"):
        SQLiteStore(path, read_only=True)
    assert not path.exists()
    SQLiteStore(path).close()
    monkeypatch.setattr(database, "MIGRATIONS", [*database.MIGRATIONS, lambda db: None])
    with pytest.raises(ReadOnlyError, match="open it once for writing"):
        SQLiteStore(path, read_only=True)


def test_a_path_that_cannot_be_made_is_an_error_of_ours(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="choose another path"):
        SQLiteStore(tmp_path / "file" / "memory.db")
    with pytest.raises(StorageError):
        SQLiteStore(tmp_path)


def test_a_full_disk_loses_nothing_and_leaves_the_store_usable(store):
    store.put([make_record(text="held", vectors=(vector(1),))])
    with store._db.use() as db:
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages}")
    fresh = [make_record(f"b{i}", text="fresh " * 500, vectors=(vector(i),)) for i in range(200)]
    with pytest.raises(StorageFullError, match="free some space"):
        store.put(fresh)
    assert [record.id for record in store.scan(Where())] == ["a"]
    assert store.check() == []
    with store._db.use() as db:
        db.execute("PRAGMA max_page_count = 1000000")
    store.put(fresh)
    assert len(store.nearest(vector(1), Where(), 500)) == 201
    assert store.check() == []


def test_locked_for_too_long_is_busy_and_then_usable(path, store):
    with closing(SQLiteStore(path, busy_timeout=0.05)) as other, store._db.write():
        with pytest.raises(BusyError, match="try again"):
            other.put([make_record()])
        assert other.get(["a"]) == []
    with closing(SQLiteStore(path, busy_timeout=0.05)) as other:
        other.put([make_record()])


def test_what_cannot_be_encoded_is_refused(store):
    for bad in ({"text": "\ud800"}, {"version": 2**70}, {"body": {"x": "\udfff"}}):
        with pytest.raises(ValidationError):
            store.put([make_record("b"), make_record(**bad)])
    assert list(store.scan(Where())) == []


def test_nothing_is_left_open(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = SQLiteStore(path)
        store.put([make_record(text="word")])
        store.match("word", Where(), 1)
        store.close()
        del store
        gc.collect()
    assert sorted(file.name for file in path.parent.iterdir()) == ["memory.db"]


# --- what a person sees


def test_a_view_for_each_kind_reads_as_a_plain_table(path, store):
    kind = KINDS["heuristic"]
    body = {name: f"the {name}" for name in kind.fields}
    record = make_record(agent="x", body=body, text="t", evidence=Evidence(successes=3), valid_to=MOMENT)
    store.put([record, make_record("o", kind="outcome")])
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        (row,) = db.execute("SELECT * FROM heuristic")
        views = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'view'")}
    assert {"id": "a", "agent": "x", "status": "active", "successes": 3, "failures": 0}.items() <= dict(row).items()
    assert row["created_at"] == "2026-01-02T03:04:05.678901Z"
    assert row["valid_from"] is None
    assert "the condition" in tuple(row)
    assert set(KINDS) <= views


def test_views_follow_the_kinds(path, monkeypatch):
    SQLiteStore(path).close()
    kind = KINDS["heuristic"]
    renamed = type(kind)(name="insight", prefix="i", fields=("status", "why"))
    taken = type(kind)(name="record", prefix="r", fields=())
    monkeypatch.setattr(database, "KINDS", {"insight": renamed, "record": taken})
    with closing(SQLiteStore(path)) as store:
        store.put([make_record(kind="insight", body={"status": "odd", "why": "so"})])
    assert plain(path, "SELECT status, body_status, why FROM insight") == [("active", "odd", "so")]
    assert plain(path, "SELECT * FROM record_view") == []
    with pytest.raises(sqlite3.OperationalError):
        plain(path, "SELECT * FROM heuristic")


def test_stats(store):
    store.put([make_record("a", vectors=(vector(1),)), make_record("b", status=Status.ARCHIVED)])
    stats = store.stats()
    assert stats["kinds"] == {"heuristic": {"active": 1, "archived": 1}}
    assert (stats["records"], stats["vectors"], stats["vectors_waiting"]) == (2, 1, 1)
    assert stats["bytes"] > 0


# --- words and vectors


def statements(store, action):
    seen = []
    with store._db.use() as db:
        db.set_trace_callback(seen.append)
    action()
    with store._db.use() as db:
        db.set_trace_callback(None)
    return [statement for statement in seen if not statement.lstrip("- ").startswith("SELECT")]


def test_an_update_of_evidence_touches_neither_words_nor_vectors(store):
    record = make_record(text="word", vectors=(vector(1),), tags=("t",), links=("l",))
    store.put([record])
    update = make_record(
        text="word",
        vectors=(vector(1),),
        tags=("t",),
        links=("l",),
        version=2,
        evidence=Evidence(uses=1),
        status=Status.ARCHIVED,
        body={"x": 1},
    )
    written = statements(store, lambda: store.put([update]))
    assert not [s for s in written if any(table in s for table in ("words", "vector_", "meta", "link", "tag"))]
    assert [s for s in written if "UPDATE record" in s]
    assert store.get(["a"]) == [update]
    changed = statements(store, lambda: store.put([make_record(text="other", vectors=(vector(2),), version=3)]))
    assert all([s for s in changed if table in s] for table in ("words", "vector_tail", "link", "tag"))


def test_deleted_content_cannot_be_read_back(path, store):
    secret = bytes(range(1, 65)) * 6
    store.put([make_record("a", text="unmistakable", project="hidden-project", vectors=(secret,))])
    store.put([make_record(f"b{i}", vectors=(vector(i, 384),)) for i in range(1100)])
    assert store.stats()["vectors_waiting"] == 1101 - 1024
    store.delete(["a"])
    assert plain(path, "SELECT count(*) FROM vector_block WHERE instr(codes, ?)", secret) == [(0,)]
    assert plain(path, "SELECT count(*) FROM scope WHERE project = 'hidden-project'") == [(0,)]
    store.vacuum()
    content = b"".join(file.read_bytes() for file in path.parent.iterdir())
    for trace in (secret, b"unmistak", b"hidden-project"):
        assert trace not in content
    assert store.check() == []


@pytest.mark.parametrize("dims", [(8,), (8, 3)])
def test_packing_agrees_with_the_model_under_deletes_and_updates(store, path, dims):
    rng = random.Random(7)
    model = MemoryStore()
    versions = dict.fromkeys((f"{i:04d}" for i in range(3000)), 0)

    def some(ids):
        for id in ids:
            versions[id] += 1
        return [
            make_record(
                id,
                version=versions[id],
                agent=rng.choice("xyz"),
                vectors=tuple(rng.randbytes(rng.choice(dims)) for _ in range(rng.choice((0, 1, 1, 2)))),
            )
            for id in ids
        ]

    def both(action):
        assert action(store) == action(model)

    steps = [sorted(versions), rng.sample(sorted(versions), 40), rng.sample(sorted(versions), 900)]
    for ids in (*steps, ["0001"]):
        records = some(ids)
        both(lambda one, records=records: one.put(records))
        gone = rng.sample(sorted(versions), 700)
        both(lambda one, gone=gone: one.delete(gone))
        for dim in dims:
            query = rng.randbytes(dim)
            for where in (Where(), Where(agents=["x", "y"])):
                both(lambda one, query=query, where=where: one.nearest(query, where, 60))
        assert store.check() == []
    with closing(SQLiteStore(path)) as fresh:
        query = rng.randbytes(8)
        assert fresh.nearest(query, Where(), 200) == model.nearest(query, Where(), 200)
        assert list(fresh.scan(Where())) == list(model.scan(Where()))


def test_a_mostly_empty_block_is_packed_again(store):
    records = [make_record(f"{i:04d}", vectors=(vector(i),)) for i in range(2048)]
    store.put(records)
    assert store.stats()["vectors_waiting"] == 0
    store.nearest(vector(0), Where(), 1)
    store.delete([record.id for record in records[:600]])
    assert store.stats()["vectors_waiting"] == 424
    assert store.check() == []
    assert store.nearest(vector(700), Where(), 1) == [Hit("0700", 1.0)]
    assert store.get(["0700"]) == [records[700]]


def test_the_cache_does_not_grow_with_what_was_replaced(store):
    for version in range(1, 40):
        store.put([make_record(f"{i:03d}", version=version, vectors=(vector(i * version),)) for i in range(100)])
        store.nearest(vector(1), Where(), 1)
    assert len(store._cache) < 2000


def test_scores_are_those_of_the_model_to_the_last_bit(store):
    model = MemoryStore()
    records = [make_record(f"{i:03d}", vectors=(vector(i, 384), vector(-i, 1500))) for i in range(300)]
    store.put(records)
    model.put(records)
    for dim in (384, 1500):
        assert store.nearest(vector(9, dim), Where(), 300) == model.nearest(vector(9, dim), Where(), 300)


def test_without_numpy_only_nearest_is_missing(store, monkeypatch):
    store.put([make_record(text="word", vectors=(vector(1),))])
    assert store.match("word", Where(), 1)
    monkeypatch.setitem(sys.modules, "numpy", None)
    monkeypatch.delitem(sys.modules, "alma.stores.sqlite.cache", raising=False)
    with pytest.raises(MissingExtraError, match=r"'\.\[local\]"):
        store.nearest(vector(1), Where(), 1)
    monkeypatch.undo()
    assert store.nearest(vector(1), Where(), 1)


def test_common_words_are_ranked_from_the_newest_and_only_when_needed(store, monkeypatch):
    monkeypatch.setattr(search, "BUDGET", 20)
    monkeypatch.setattr(search, "POOL", 5)
    store.put([make_record(f"{i:03d}", text="common") for i in range(100)])
    store.put([make_record("rare1", text="common rare"), make_record("rare2", text="rare")])
    assert [hit.id for hit in store.match("common rare", Where(), 2)] == ["rare2", "rare1"]
    found = [hit.id for hit in store.match("common rare", Where(), 4)]
    assert found[:2] == ["rare2", "rare1"]
    assert set(found[2:]) <= {f"{i:03d}" for i in range(95, 100)}
    assert len(store.match("common", Where(), 50)) == 5


def test_many_scopes_are_filtered_all_the_same(store):
    store.put([make_record(f"{i:03d}", user=f"u{i}", text="word", vectors=(vector(1),)) for i in range(300)])
    users = [f"u{i}" for i in range(250)]
    assert len(store.match("word", Where(users=users), 500)) == 250
    assert len(store.nearest(vector(1), Where(users=users), 500)) == 250
    assert [record.id for record in store.scan(Where(users=users), 2)] == ["249", "248"]


# --- threads and forks


def test_threads_share_a_store(store):
    def work(name):
        for i in range(20):
            store.put([make_record(f"{name}{i}", text="word", vectors=(vector(i),))])
            assert store.nearest(vector(i), Where(), 3)
            assert store.match("word", Where(), 3)
            next(store.scan(Where(), 1))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, "abcd"))
    assert len(list(store.scan(Where()))) == 80
    assert store.check() == []


@pytest.mark.system
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_uses_a_connection_of_its_own(store):
    store.put([make_record("parent", vectors=(vector(1),))])
    store.nearest(vector(1), Where(), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            store.put([make_record("child", vectors=(vector(1),), created_at=MOMENT + timedelta(1))])
            code = 0 if len(store.nearest(vector(1), Where(), 5)) == 2 else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert [hit.id for hit in store.nearest(vector(1), Where(), 5)] == ["child", "parent"]
    store.put([make_record("after")])
    assert store.check() == []
