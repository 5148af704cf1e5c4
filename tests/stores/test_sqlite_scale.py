"""Many memories: what is found when comparing everything would take too long."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from datetime import timedelta

import numpy as np
import pytest

from alma.ports import Store
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore, cache, search, vectors
from alma.testing import MOMENT, StoreContract, make_record
from alma.types.query import Where
from alma.types.record import Status

pytestmark = pytest.mark.system


class TestSQLiteStoreBySign(StoreContract):
    """Every question compares signs first, believes nothing of it, and so comes to the exact answer by every turn."""

    histories = 30

    def setup_method(self) -> None:
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(vectors, "BLOCK", 4)
        for name, value in {"SEGMENT": 8, "EXACT": 1, "_ROWS": 3, "_TELLING": -1}.items():
            self._patch.setattr(cache, name, value)
        self._patch.setattr(cache, "count_candidates", lambda limit: 0)
        self._patch.setattr(cache, "_FIRST_BATCH", 1)
        self._patch.setattr(cache, "_VECTORS", 0)
        super().setup_method()

    def teardown_method(self) -> None:
        super().teardown_method()
        self._patch.undo()

    def make_store(self) -> Store:
        return SQLiteStore(self.folder / "memory.db")

    def open_again(self, store: Store) -> Store:
        return SQLiteStore(self.folder / "memory.db")


@pytest.fixture
def store(tmp_path):
    with closing(SQLiteStore(tmp_path / "memory.db")) as store:
        yield store


def clustered(count, dim=100, seed=3, shift=0.0):
    """Vectors with neighbours, around a middle that is not zero when shifted."""
    chance = np.random.default_rng(seed)
    centres = chance.normal(shift, 1, (40, dim))
    made = centres[chance.integers(0, 40, count)] + chance.normal(0, 0.7, (count, dim))
    return [row.tobytes() for row in np.rint(127 * made / np.abs(made).max(axis=1, keepdims=True)).astype("i1")]


def filled(store, count, **kinds):
    model = MemoryStore()
    made = [
        make_record(
            f"{i:05d}",
            agent=("few" if i % 100 == 7 else "many"),
            status=Status.ARCHIVED if i % 100 == 57 else Status.ACTIVE,
            session=f"s{i // 20}",
            tags=("rare",) if i % 100 == 29 else ("usual",),
            created_at=MOMENT + timedelta(minutes=i),
            vectors=(vector,),
        )
        for i, vector in enumerate(clustered(count, **kinds))
    ]
    for one in (store, model):
        one.put(made)
    return model


@pytest.fixture
def by_sign(monkeypatch):
    """So that a few thousand vectors are many; the calls that compared signs."""
    monkeypatch.setattr(cache, "SEGMENT", 1024)
    monkeypatch.setattr(cache, "EXACT", 500)
    monkeypatch.setattr(cache, "CANDIDATES", 400)
    monkeypatch.setattr(cache, "BELIEVED", 10)
    calls = []
    closest = cache.Shelf.find_closest

    def counted(self, parts, vector, count):
        calls.append(cache.count_rows(parts))
        return closest(self, parts, vector, count)

    monkeypatch.setattr(cache.Shelf, "find_closest", counted)
    return calls


@pytest.mark.parametrize(("dim", "shift"), [(100, 2.0), (128, 0.0)])
def test_the_nearest_by_sign_are_nearly_the_nearest(store, by_sign, dim, shift):
    model = filled(store, 2000, dim=dim, shift=shift)
    shares = []
    for query in clustered(20, dim=dim, seed=3, shift=shift):
        found, right = store.nearest(query, Where(), 10), model.nearest(query, Where(), 10)
        shares.append(len(set(found) & set(right)) / 10)
    assert by_sign == [2000] * 20
    assert sum(shares) / len(shares) >= 0.97


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A store of 4000 memories and its model, only to be read."""
    with closing(SQLiteStore(tmp_path_factory.mktemp("many") / "memory.db")) as store:
        yield store, filled(store, 4000)


@pytest.mark.parametrize(
    "where",
    [
        Where(agents=["few"]),
        Where(statuses=["archived"]),
        Where(tagged=["rare"]),
        Where(tagged=["rare"], statuses=["active"], agents=["few", "many"]),
        Where(sessions=["s3", "s77"]),
        Where(sessions=["s3", "s77"], statuses=["active"], kinds=["heuristic"]),
        Where(created_from=MOMENT + timedelta(minutes=900), created_to=MOMENT + timedelta(minutes=940)),
        Where(tagged=["rare"], created_from=MOMENT + timedelta(minutes=3000)),
        Where(tagged=["usual"], sessions=["s12"], statuses=["archived"]),
        Where(sessions=[""], agents=["few"]),
    ],
    ids=str,
)
def test_with_a_filter_that_leaves_little_the_answer_is_exact(many, by_sign, where):
    store, model = many
    for query in clustered(5, seed=9):
        assert store.nearest(query, where, 10) == model.nearest(query, where, 10)


def test_a_question_for_more_than_can_be_believed_is_answered_exactly(store, by_sign):
    model = filled(store, 2000)
    query = clustered(1, seed=9)[0]
    assert store.nearest(query, Where(), 1500) == model.nearest(query, Where(), 1500)
    assert by_sign == []


def test_up_to_the_limit_every_code_is_compared(store, by_sign):
    model = filled(store, 500)
    query = clustered(1, seed=9)[0]
    assert store.nearest(query, Where(), 10) == model.nearest(query, Where(), 10)
    assert by_sign == []


def test_codes_that_are_mostly_zero_are_not_judged_by_their_sign(store, by_sign):
    chance = random.Random(5)
    sparse = [bytes(chance.choice((0, 0, 0, 1, 255)) for _ in range(64)) for _ in range(1500)]
    model = MemoryStore()
    for one in (store, model):
        one.put([make_record(f"{i:05d}", vectors=(vector,)) for i, vector in enumerate(sparse)])
    assert store.nearest(sparse[7], Where(), 20) == model.nearest(sparse[7], Where(), 20)
    assert by_sign == []


def test_what_another_writes_or_deletes_is_seen_among_many(store, by_sign, tmp_path):
    filled(store, 3000)
    query = clustered(1, seed=11)[0]
    first = store.nearest(query, Where(), 10)
    with closing(SQLiteStore(tmp_path / "memory.db")) as other:
        other.put([make_record("new", vectors=(query,))])
        other.delete([hit.id for hit in first])
    found = store.nearest(query, Where(), 10)
    assert (found[0].id, found[0].score) == ("new", pytest.approx(1.0))
    assert not {hit.id for hit in first} & {hit.id for hit in found}
    assert len(found) == 10


def test_when_all_the_nearest_have_gone_the_rest_is_found(store, by_sign):
    model = filled(store, 3000)
    query = clustered(1)[0]
    gone = [hit.id for hit in store.nearest(query, Where(), 40)] + [hit.id for hit in model.nearest(query, Where(), 60)]
    for one in (store, model):
        one.delete(gone)
    found, right = store.nearest(query, Where(), 10), model.nearest(query, Where(), 10)
    assert len(set(found) & set(right)) >= 8
    assert not set(gone) & {hit.id for hit in found}


def test_a_store_put_back_in_place_is_noticed(store, tmp_path):
    """A copy made by SQLite itself overwrites the file instead of replacing it."""
    store.put([make_record("kept", vectors=(b"\x01\x02",))])
    with closing(sqlite3.connect(tmp_path / "backup.db")) as backup, closing(sqlite3.connect(store.path)) as held:
        held.backup(backup)
        store.put([make_record("later", vectors=(b"\x01\x02",))])
        assert len(store.nearest(b"\x01\x02", Where(), 5)) == 2
        backup.backup(held)
    store.put([make_record("other", vectors=(b"\x01\x02",))])
    assert [hit.id for hit in store.nearest(b"\x01\x02", Where(), 5)] == ["kept", "other"]


# --- reading many records


def test_vectors_are_read_alone_in_runs_and_in_whole_blocks(store):
    made = clustered(3000, dim=16)
    records = [make_record(f"{i:05d}", vectors=(vector,)) for i, vector in enumerate(made)]
    store.put(records)
    chance = random.Random(2)
    for some in (records[100:130], records[0:1024], records[700:1400], chance.sample(records, 50), records[::3]):
        assert store.get([record.id for record in some]) == some


# --- words


WORDS = "ant bee cat dog eel fox gnu hen".split()


def talkative(count, seed):
    chance = random.Random(seed)
    return [
        make_record(
            f"{i:04d}",
            kind=chance.choice(("heuristic", "outcome", "outcome", "outcome", "outcome", "outcome")),
            agent=chance.choice("xyz"),
            status=chance.choice((Status.ACTIVE, Status.ACTIVE, Status.ACTIVE, Status.ARCHIVED)),
            session=chance.choice(("", "s1", "s2", "s3")),
            tags=tuple(chance.sample(("t1", "t2"), chance.choice((0, 0, 0, 1)))),
            created_at=MOMENT + timedelta(minutes=i),
            text=" ".join(chance.choices(WORDS, [1, 1, 2, 4, 8, 16, 32, 64], k=chance.randint(0, 4))),
        )
        for i in range(count)
    ]


WHERES = [
    Where(),
    Where(kinds=["heuristic"]),
    Where(kinds=["outcome"]),
    Where(kinds=["outcome"], agents=["x", "y"], statuses=["active"]),
    Where(statuses=["archived"]),
    Where(agents=["x"], tagged=["t1"]),
    Where(sessions=["s1"], kinds=["heuristic"], statuses=["archived"]),
    Where(sessions=["s2"], tagged=["t2"]),
    Where(sessions=[""]),
    Where(created_from=MOMENT + timedelta(minutes=20), created_to=MOMENT + timedelta(minutes=50)),
    Where(kinds=["outcome"], created_to=MOMENT + timedelta(minutes=15)),
    Where(tagged=["none"]),
]


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """A store of 400 memories in few words, only to be read, and what was put into it."""
    records = talkative(400, seed=4)
    with closing(SQLiteStore(tmp_path_factory.mktemp("spoken") / "memory.db")) as store:
        store.put(records)
        yield store, records


@pytest.mark.parametrize("budget", [0, 60, 100_000])
@pytest.mark.parametrize("first", [1, 64])
@pytest.mark.parametrize("where", WHERES, ids=str)
def test_words_find_as_many_as_there_are_whatever_the_filter(spoken, monkeypatch, budget, first, where):
    monkeypatch.setattr(search, "BUDGET", budget)
    monkeypatch.setattr(search, "_FIRST", first)
    monkeypatch.setattr(search, "_GROWTH", 1 if first == 1 else 8)
    monkeypatch.setattr(search, "POOL", 100)
    store, records = spoken
    for asked in ("ant", "bee cat", "dog hen", "gnu hen fox", "ant absent", "absent"):
        right = {
            record.id for record in records if where.accepts(record) and set(asked.split()) & set(record.text.split())
        }
        for limit in (1, 5, 20):
            found = [hit.id for hit in store.match(asked, where, limit)]
            assert len(found) == len(set(found)) == min(limit, len(right)), (asked, limit)
            assert set(found) <= right


def test_the_score_does_not_depend_on_the_way(store, monkeypatch):
    """Whether the index or the records are asked for the scope, the best are the same."""
    store.put(talkative(400, seed=6))
    where = Where(kinds=["outcome"], statuses=["active"])
    answers = []
    for most in (0.0, 2.0):
        monkeypatch.setattr(search, "_MOST", most)
        answers.append(store.match("ant cat fox", where, 15))
    assert answers[0] == answers[1] != []


def test_of_common_words_the_rarer_weighs_more(store, monkeypatch):
    monkeypatch.setattr(search, "BUDGET", 0)
    store.put([make_record(f"{i:03d}", text="common usual" if i % 3 else "common special") for i in range(60)])
    found = store.match("common special usual", Where(), 60)
    assert {hit.id for hit in found[:20]} == {f"{i:03d}" for i in range(0, 60, 3)}
    assert [hit.id for hit in found[:2]] == ["057", "054"]
