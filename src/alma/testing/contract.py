"""What every store promises, as tests: a class to inherit from and to run with pytest.

    class TestMyStore(StoreContract):
        def make_store(self):
            return MyStore(self.folder / "memory")

`self.folder` is an empty folder of the test's own. A store that keeps its records beyond the process also says how
to open the same records again (`open_again`).
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import replace
from datetime import timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any
from unittest import SkipTest

from ..errors import ConflictError, StorageError, ValidationError
from ..ports import Checkable, Countable, Searchable, Store
from ..types.evidence import Evidence
from ..types.query import Hit, Where
from ..types.record import Origin, Provenance, Record, Status, Trust
from ..types.vector import cosine, quantize
from .fakes import MOMENT, make_record

EAST = quantize([1.0, 0.0])
NORTH = quantize([0.0, 1.0])
NORTH_EAST = quantize([1.0, 1.0])
WEST = quantize([-1.0, 0.0])


def capabilities(store: Store) -> dict[str, bool]:
    """What a store can do beyond the port, for the table in the documents."""
    return {
        "words": isinstance(store, Searchable),
        "count": isinstance(store, Countable),
        "check": isinstance(store, Checkable),
        "persistent": hasattr(store, "path"),
    }


def refused(error: type[Exception], action: Callable[[], object]) -> Exception:
    """The error that the action must raise."""
    try:
        action()
    except error as raised:
        return raised
    raise AssertionError(f"{error.__name__} was not raised")


class Room:
    """Gives each test a folder of its own, and an empty one for everything that is made in it."""

    def setup_method(self) -> None:
        self._room = tempfile.TemporaryDirectory()
        self._folders = 0

    def teardown_method(self) -> None:
        self._room.cleanup()

    def _make_folder(self) -> None:
        self._folders += 1
        self.folder = Path(self._room.name) / str(self._folders)
        self.folder.mkdir()


class StoreContract(Room):
    histories = 40
    """How many random histories are compared with the in-memory store."""

    def make_store(self) -> Store:
        raise NotImplementedError("say how an empty store is made, below self.folder")

    def open_again(self, store: Store) -> Store:
        """Another handle on the same records, while `store` is open or after it was closed."""
        raise SkipTest("does not outlive its handle")

    def setup_method(self) -> None:
        super().setup_method()
        self.store = self._empty()

    def teardown_method(self) -> None:
        self.store.close()
        super().teardown_method()

    def _empty(self) -> Store:
        self._make_folder()
        return self.make_store()

    def _ids(self, where: Where, limit: int | None = None) -> list[str]:
        return [record.id for record in self.store.scan(where, limit)]

    def _near(self, where: Where = Where(), limit: int = 10) -> list[str]:  # noqa: B008
        return [hit.id for hit in self.store.nearest(EAST, where, limit)]

    # --- put and get

    def test_every_record_comes_back(self) -> None:
        text = "naïve 日本語 🙂 \x00 \u200b ' \" \\ % _ ; -- \n\r\t"
        big = {"list": list(range(20_000)), "text": "x" * 1_000_000}
        records = [
            full_record(),
            make_record("least"),
            make_record("script", text=text, key=text, project=text, tags=(text,), body={text: text}, session=text),
            make_record("big", body=big, text="word " * 20_000),
        ]
        for record in records:
            self.store.put([record])
            assert self.store.get([record.id]) == [record]
        assert self._ids(Where(projects=[text], keys=[text], tagged=[text], sessions=[text])) == ["script"]
        assert list(self.store.scan(Where(keys=[full_record().key]))) == [full_record()]

    def test_times_are_kept_to_the_microsecond_and_by_moment(self) -> None:
        elsewhere = MOMENT.astimezone(timezone(timedelta(hours=5)))
        record = make_record(created_at=elsewhere, valid_from=MOMENT - timedelta(microseconds=1))
        self.store.put([record])
        (held,) = self.store.get(["a"])
        assert (held.created_at, held.valid_from) == (MOMENT, MOMENT - timedelta(microseconds=1))

    def test_what_the_caller_changes_later_is_not_changed_in_the_store(self) -> None:
        body: dict[str, Any] = {"list": [1]}
        self.store.put([make_record(body=body)])
        body["list"].append(2)
        next(iter(self.store.get(["a"]))).body["list"].append(3)
        assert self.store.get(["a"])[0].body == {"list": [1]}

    def test_what_is_no_json_or_has_no_time_zone_is_refused(self) -> None:
        naive = MOMENT.replace(tzinfo=None)
        for bad in ({"body": {"x": object()}}, {"body": {"x": float("nan")}}, {"created_at": naive}):
            refused(ValidationError, partial(self.store.put, [make_record("b"), make_record(**bad)]))
        assert self._ids(Where()) == []

    def test_get_answers_in_the_order_asked_and_leaves_unknown_ids_out(self) -> None:
        self.store.put([make_record(id) for id in "abc"])
        assert [record.id for record in self.store.get(["c", "?", "a", "c"])] == ["c", "a", "c"]
        assert self.store.get([]) == []

    def test_an_id_is_never_taken_for_another(self) -> None:
        odd = ["a", "a\0", "a\0b", "A", "á", "a ", "%", "_", "'", '"', "\\", ""]
        self.store.put([make_record(id) for id in odd])
        for id in odd:
            assert [record.id for record in self.store.get([id])] == [id]
        assert self.store.delete(["a\0b", *(f"unknown{i}" for i in range(1000)), "a\0c"]) == 1
        assert set(self._ids(Where())) == set(odd) - {"a\0b"}

    def test_many_ids_at_once(self) -> None:
        ids = [f"id{i:05d}" for i in range(3000)]
        self.store.put([make_record(id) for id in ids])
        assert [record.id for record in self.store.get(ids)] == ids
        assert sorted(self._ids(Where(keys=[""], sessions=["", *ids]))) == ids
        assert self.store.delete(ids) == 3000

    # --- versions

    def test_a_greater_version_replaces(self) -> None:
        self.store.put([make_record(text="old", tags=("x",), links=("l",), vectors=(EAST,))])
        newer = make_record(text="new", version=7, tags=("y",), links=(), vectors=(WEST, NORTH), project="q")
        self.store.put([newer])
        assert self.store.get(["a"]) == [newer]
        for where in (Where(tagged=["x"]), Where(linked=["l"]), Where(projects=["p"])):
            assert self._ids(where) == []

    def test_an_equal_record_conflicts_too(self) -> None:
        """Otherwise two writers who both count one more would both be told that it was counted."""
        self.store.put([full_record()])
        refused(ConflictError, lambda: self.store.put([full_record()]))
        refused(ConflictError, lambda: self.store.put([make_record("b"), full_record()]))
        assert self._ids(Where()) == ["full"]

    def test_another_record_of_the_same_or_a_lower_version_conflicts(self) -> None:
        self.store.put([make_record(version=2)])
        for record in (make_record(version=2, text="x"), make_record(version=1), make_record(version=2, tags=("t",))):
            error = refused(ConflictError, partial(self.store.put, [record]))
            assert "a" in str(error)
        changed_vectors = make_record(version=2, vectors=(EAST,))
        refused(ConflictError, lambda: self.store.put([changed_vectors]))
        assert self.store.get(["a"]) == [make_record(version=2)]

    def test_a_conflict_leaves_nothing_of_the_whole_put(self) -> None:
        self.store.put([make_record(version=2, text="held")])
        fresh = [make_record("b", text="fresh", vectors=(EAST,)), make_record(version=1), make_record("c")]
        refused(ConflictError, lambda: self.store.put(fresh))
        assert self._ids(Where()) == ["a"]
        assert self._near() == []

    def test_one_put_may_hold_several_versions_of_a_record(self) -> None:
        self.store.put([make_record(version=1), make_record(version=3, text="x")])
        assert self.store.get(["a"]) == [make_record(version=3, text="x")]
        refused(ConflictError, lambda: self.store.put([make_record("b", version=2), make_record("b", version=1)]))
        assert self.store.get(["b"]) == []

    def test_putting_nothing_is_nothing(self) -> None:
        self.store.put([])
        assert self._ids(Where()) == []

    # --- delete

    def test_delete_counts_what_was_there_and_removes_it_everywhere(self) -> None:
        self.store.put([make_record(id, text="word", vectors=(EAST,), tags=("t",), links=("l",)) for id in "abc"])
        assert self.store.delete(["a", "c", "?", "a"]) == 2
        assert self.store.delete(["a"]) == self.store.delete([]) == 0
        assert self._ids(Where(tagged=["t"])) == self._ids(Where(linked=["l"])) == self._near() == ["b"]
        assert self.store.get(["a"]) == []

    def test_a_deleted_id_may_come_back_with_any_version(self) -> None:
        self.store.put([make_record(version=9, vectors=(EAST,))])
        self.store.delete(["a"])
        self.store.put([make_record(version=1)])
        assert self.store.get(["a"]) == [make_record(version=1)]
        assert self._near() == []

    # --- scan

    def test_scan_gives_the_newest_first_and_among_equals_the_greatest_id(self) -> None:
        later = MOMENT + timedelta(microseconds=1)
        self.store.put([make_record("a"), make_record("c"), make_record("b", created_at=later), make_record("ä")])
        assert self._ids(Where()) == ["b", "ä", "c", "a"]
        assert self._ids(Where(), 2) == ["b", "ä"]
        assert self._ids(Where(kinds=["heuristic"], statuses=["active"]), 3) == ["b", "ä", "c"]
        assert self._ids(Where(), 0) == []

    def test_scan_over_several_scopes_with_a_limit(self) -> None:
        records = [
            make_record(f"{i:03d}", agent=f"a{i % 7}", created_at=MOMENT + timedelta(seconds=i * 37 % 100))
            for i in range(100)
        ]
        self.store.put(records)
        wanted = sorted((r for r in records if r.agent != "a3"), key=lambda r: (r.created_at, r.id), reverse=True)
        agents = {record.agent for record in wanted}
        assert self._ids(Where(agents=agents), 10) == [record.id for record in wanted[:10]]
        assert self._ids(Where(agents=agents)) == [record.id for record in wanted]

    def test_scan_tolerates_writes_while_it_is_read(self) -> None:
        self.store.put([make_record(f"{i:04d}") for i in range(1000)])
        seen = []
        for record in self.store.scan(Where()):
            seen.append(record.id)
            if len(seen) == 1:
                self.store.put([make_record("new")])
                self.store.delete([f"{i:04d}" for i in range(500)])
        assert seen == sorted(seen, reverse=True)
        assert {f"{i:04d}" for i in range(500, 1000)} <= set(seen)

    def test_each_condition_filters(self) -> None:
        base = make_record("plain")
        others: dict[str, dict[str, Any]] = {
            "kinds": {"kind": "outcome"},
            "projects": {"project": "q"},
            "agents": {"agent": "x"},
            "users": {"user": "x"},
            "sessions": {"session": "x"},
            "statuses": {"status": Status.ARCHIVED},
            "keys": {"key": "x"},
            "embedders": {"embedder": "x"},
            "linked": {"links": ("l1", "l2")},
            "tagged": {"tags": ("t1", "t2")},
        }
        records = [replace(base, id=name, vectors=(EAST,), **fields) for name, fields in others.items()]
        self.store.put([base, *records])
        for (name, fields), record in zip(others.items(), records, strict=True):
            (value,) = fields.values()
            where = _where(name, [value] if isinstance(value, str) else [value[1], "none"])
            assert self._ids(where) == self._near(where) == [record.id], name

    def test_all_conditions_must_hold(self) -> None:
        self.store.put([make_record("a", agent="x"), make_record("b", agent="x", key="k"), make_record("c", key="k")])
        assert self._ids(Where(agents={"x", "y"}, keys=("k",))) == ["b"]
        assert self._ids(Where(agents=["x", ""], keys=["", "k"])) == ["c", "b", "a"]

    def test_an_empty_collection_matches_nothing(self) -> None:
        self.store.put([make_record(vectors=(EAST,), text="word")])
        for name in _NAMES:
            assert self._ids(_where(name, [])) == self._near(_where(name, set())) == [], name

    def test_created_from_is_inclusive_and_created_to_exclusive(self) -> None:
        hour = timedelta(hours=1)
        self.store.put([make_record(str(i), created_at=MOMENT + i * hour, vectors=(EAST,)) for i in range(4)])
        where = Where(created_from=MOMENT + hour, created_to=MOMENT + 3 * hour)
        assert self._ids(where) == ["2", "1"]
        assert self._near(where) == ["1", "2"]

    def test_valid_at_holds_from_the_start_until_before_the_end(self) -> None:
        hour = timedelta(hours=1)
        self.store.put(
            [
                make_record("always", vectors=(EAST,)),
                make_record("from", valid_from=MOMENT, vectors=(EAST,)),
                make_record("until", valid_to=MOMENT, vectors=(EAST,)),
                make_record("between", valid_from=MOMENT - hour, valid_to=MOMENT + hour, vectors=(EAST,)),
            ]
        )
        for moment, ids in [
            (MOMENT, {"always", "from", "between"}),
            (MOMENT - hour, {"always", "until", "between"}),
            (MOMENT + hour, {"always", "from"}),
        ]:
            assert set(self._ids(Where(valid_at=moment))) == set(self._near(Where(valid_at=moment))) == ids

    # --- nearest

    def test_nearest_ranks_by_cosine(self) -> None:
        vectors = {"west": WEST, "east": EAST, "north": NORTH, "between": NORTH_EAST}
        self.store.put([make_record(id, vectors=(vector,)) for id, vector in vectors.items()])
        hits = self.store.nearest(EAST, Where(), 10)
        assert [hit.id for hit in hits] == ["east", "between", "north", "west"]
        for hit in hits:
            assert abs(hit.score - cosine(EAST, vectors[hit.id])) < 1e-6
        assert self.store.nearest(EAST, Where(), 2) == hits[:2]
        assert self.store.nearest(EAST, Where(), 0) == []

    def test_of_several_vectors_the_best_counts(self) -> None:
        self.store.put([make_record("a", vectors=(WEST, EAST, NORTH)), make_record("b", vectors=(NORTH_EAST,) * 3)])
        hits = self.store.nearest(EAST, Where(), 10)
        assert [hit.id for hit in hits] == ["a", "b"]
        assert abs(hits[0].score - 1.0) < 1e-6

    def test_equal_scores_come_in_the_order_of_ids(self) -> None:
        self.store.put([make_record(f"{i * 7 % 100:02d}", vectors=(EAST,)) for i in range(100)])
        assert self._near(limit=3) == ["00", "01", "02"]
        assert self._near(limit=100) == [f"{i:02d}" for i in range(100)]

    def test_the_filter_comes_before_the_ranking(self) -> None:
        crowd = [make_record(f"crowd{i}", agent="many", vectors=(EAST,)) for i in range(500)]
        archived = [make_record(f"old{i}", agent="few", status=Status.ARCHIVED, vectors=(EAST,)) for i in range(500)]
        self.store.put([*crowd, *archived, make_record("far", agent="few", vectors=(WEST,))])
        assert self._near(Where(agents=["few"], statuses=["active"]), limit=1) == ["far"]
        assert self._near(Where(agents=["few"], statuses=["active"]), limit=5) == ["far"]

    def test_vectors_of_another_length_take_no_part(self) -> None:
        self.store.put(
            [
                make_record("none"),
                make_record("long", vectors=(quantize([1.0, 0.0, 0.0]),)),
                make_record("both", vectors=(quantize([1.0, 0.0, 0.0]), WEST)),
            ]
        )
        assert self._near() == ["both"]
        assert self.store.nearest(quantize([1.0]), Where(), 5) == []

    def test_a_vector_without_direction_scores_nothing(self) -> None:
        self.store.put([make_record("zero", vectors=(bytes(2),)), make_record("west", vectors=(WEST,))])
        assert self.store.nearest(EAST, Where(), 5) == [Hit("zero", 0.0), Hit("west", -1.0)]
        assert [hit.score for hit in self.store.nearest(bytes(2), Where(), 5)] == [0.0, 0.0]

    def test_long_vectors_are_ranked_exactly(self) -> None:
        base = bytes([127, 129] * 1000)
        others = [bytes([*base[:i], 126, *base[i + 1 :]]) for i in range(0, 40, 2)] + [base[:-1] + b"\x80"]
        self.store.put([make_record(f"{i:02d}", vectors=(vector,)) for i, vector in enumerate(others)])
        wanted = [Hit(f"{i:02d}", cosine(base, vector)) for i, vector in enumerate(others)]
        wanted.sort(key=lambda hit: (-hit.score, hit.id))
        found = self.store.nearest(base, Where(), 50)
        assert [hit.id for hit in found] == [hit.id for hit in wanted]
        assert all(abs(a.score - b.score) < 1e-9 for a, b in zip(found, wanted, strict=True))

    def test_nearest_sees_every_change(self) -> None:
        self.store.put([make_record("a", vectors=(EAST,)), make_record("b", vectors=(NORTH,))])
        assert self._near() == ["a", "b"]
        self.store.put([make_record("a", vectors=(WEST,), version=2)])
        assert self._near() == ["b", "a"]
        self.store.put([make_record("a", vectors=(WEST,), version=3, project="q")])
        assert self._near(Where(projects=["p"])) == ["b"]
        self.store.put([make_record("b", version=2)])
        assert self._near() == ["a"]
        self.store.delete(["a"])
        assert self._near() == []

    # --- words, for a store that is Searchable

    def _match(self, words: str, where: Where = Where(), limit: int = 10) -> list[str]:  # noqa: B008
        if not isinstance(self.store, Searchable):
            raise SkipTest("does not rank by words")
        hits = self.store.match(words, where, limit)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        return [hit.id for hit in hits]

    def test_match_finds_what_shares_a_word(self) -> None:
        texts = {"a": "The cache was stale", "b": "a STALE, token!", "c": "nothing of it", "d": ""}
        self.store.put([make_record(id, text=text) for id, text in texts.items()])
        assert set(self._match("stale unrelated")) == {"a", "b"}
        assert self._match("token cache stale", limit=1) in (["a"], ["b"])
        assert self._match("absent") == self._match("") == self._match("stale", limit=0) == []

    def test_match_takes_any_text_for_words(self) -> None:
        self.store.put([make_record(text="plain words: NOT a query, c++ x")])
        assert self._match("pla\0words") == ["a"]
        for words in ('"', "*", "-", "( )", "++ --", "\x00", "', ;", "\U0001faf0"):
            assert self._match(words) == [], words
        for words in ("NOT", 'plain"', "text:plain plain", "pla* words", "query AND", "NEAR(plain words)", "^plain x"):
            assert self._match(words) == ["a"], words

    def test_match_takes_words_of_any_length(self) -> None:
        # Scripts without spaces make one word of a whole page; an index may cut it, even inside a character.
        long = "\u6570\u636e\u5e93" * 10_000
        self.store.put([make_record("a", text="alpha"), make_record("long", text=f"x {long}")])
        assert self._match(f"{long} alpha", limit=1) in (["a"], ["long"])
        assert self._match(f"y{long}") == []

    def test_match_filters_before_it_ranks(self) -> None:
        crowd = [make_record(f"crowd{i}", agent="many", text="word word word") for i in range(300)]
        archived = [make_record(f"old{i}", agent="few", status=Status.ARCHIVED, text="word word") for i in range(300)]
        last = make_record("last", agent="few", text="a longer text that has the word somewhere in it")
        self.store.put([*crowd, *archived, last])
        assert self._match("word", Where(agents=["few"], statuses=["active"]), 1) == ["last"]
        assert self._match("word", Where(agents=["none"])) == self._match("word", Where(kinds=[])) == []

    def test_match_does_not_take_the_scope_for_a_word(self) -> None:
        self.store.put([make_record(agent="x", text="alpha")])
        assert self._match("x p heuristic s1 1") == []

    def test_match_sees_every_change(self) -> None:
        self.store.put([make_record("a", text="alpha"), make_record("b", text="beta")])
        self.store.put([make_record("a", text="beta", version=2), make_record("b", text="", version=2)])
        assert (self._match("alpha"), self._match("beta")) == ([], ["a"])
        self.store.put([make_record("a", text="beta", version=3, project="q")])
        assert (self._match("beta", Where(projects=["p"])), self._match("beta", Where(projects=["q"]))) == ([], ["a"])
        self.store.delete(["a"])
        assert self._match("beta") == []

    def test_rarer_words_weigh_more(self) -> None:
        self.store.put([make_record(f"{i}", text="common thing") for i in range(20)])
        self.store.put([make_record("rare", text="unusual thing")])
        assert self._match("common unusual", limit=1) == ["rare"]

    # --- beyond one handle

    def test_records_outlive_the_handle(self) -> None:
        self.store.put([full_record(), make_record("gone", vectors=(EAST,))])
        self.store.delete(["gone"])
        self.store.close()
        self.store = self.open_again(self.store)
        assert list(self.store.scan(Where())) == [full_record()]
        assert self._near() == []

    def test_two_handles_see_each_others_writes(self) -> None:
        with closing(self.open_again(self.store)) as other:
            for store, id in ((self.store, "a"), (other, "b"), (self.store, "c"), (other, "d")):
                store.put([make_record(id, text="word", vectors=(EAST,))])
                for one in (self.store, other):
                    assert id in [record.id for record in one.scan(Where())]
                    assert id in [hit.id for hit in one.nearest(EAST, Where(), 9)]
            other.put([make_record("a", vectors=(WEST,), version=2)])
            assert self._near() == ["b", "c", "d", "a"]
            assert self.store.delete(["b"]) == 1
            assert [hit.id for hit in other.nearest(EAST, Where(), 9)] == ["c", "d", "a"]
            refused(ConflictError, lambda: self.store.put([make_record("a", version=1)]))

    def test_a_closed_store_says_so(self) -> None:
        self.store.close()
        self.store.close()
        refused(StorageError, lambda: self.store.get(["a"]))
        refused(StorageError, lambda: self.store.put([make_record()]))

    def test_a_store_in_use_is_sound(self) -> None:
        if not isinstance(self.store, Checkable):
            raise SkipTest("cannot check itself")
        self.store.put([full_record(), make_record(text="word", vectors=(EAST,))])
        self.store.delete(["a"])
        assert self.store.check() == []

    def test_counting_agrees_with_scanning(self) -> None:
        if not isinstance(self.store, Countable):
            raise SkipTest("cannot count")
        self.store.put([full_record(), make_record("a"), make_record("b"), make_record("c", status=Status.ARCHIVED)])
        for where in (Where(), Where(statuses=[Status.ACTIVE]), Where(agents=[]), Where(tagged=full_record().tags)):
            found = Counter((one.kind, one.agent, str(one.status)) for one in self.store.scan(where))
            assert self.store.count(where) == found

    # --- the law

    def test_it_agrees_with_the_in_memory_store_on_random_histories(self) -> None:
        from .strategies import agree

        agree(self._empty, self.histories)


def full_record() -> Record:
    """A record with something in every field."""
    hour = timedelta(hours=1)
    return Record(
        id="full",
        kind="outcome",
        project="p",
        agent="x",
        user="u",
        session="s",
        status=Status.CANDIDATE,
        key="k",
        text="some words",
        body={"n": None, "b": True, "i": 2**60, "f": 0.1, "s": "ß", "l": [1, [2, {"x": []}]], "o": {"": {}}},
        evidence=Evidence(1, 2, 3, 4, 5, 6, 7, recent=((1, 0.5), (2, 1.0)), last_used=MOMENT),
        provenance=Provenance(Origin.TOOL, Trust.UNTRUSTED, episodes=("e2", "e1"), source="a page"),
        links=("l2", "l1", "l2"),
        tags=("t2", "t1", "t2"),
        created_at=MOMENT,
        updated_at=MOMENT + hour,
        valid_from=MOMENT - hour,
        valid_to=MOMENT + 2 * hour,
        version=3,
        superseded_by="z",
        embedder="e",
        vectors=(bytes(range(256)), b"\x01\x02\x03", bytes(range(256))),
    )


_NAMES = ("kinds", "projects", "agents", "users", "sessions", "statuses", "keys", "embedders", "linked", "tagged")


def _where(name: str, names: Collection[str]) -> Where:
    given: dict[str, Any] = {name: names}
    return Where(**given)
