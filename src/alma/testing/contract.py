"""What every store promises, as tests: a class to inherit from and to run with pytest.

    class TestMyStore(StoreContract):
        def make_store(self):
            return MyStore(self.folder / "memory")

`self.folder` is an empty folder of the test's own. A store that keeps its records beyond the process also says how
to open the same records again (`open_again`). What a store cannot do it declares in `limits`; then the tests check
that it fails clearly instead.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from unittest import SkipTest

from ..errors import BusyError, ConflictError, StorageError, ValidationError
from ..ports import Checkable, Countable, FindsAllWords, FindsNearestByKind, MatchesByKind, Searchable, Store
from ..stores.memory import MemoryStore
from ..types.query import Where
from ..types.record import Evidence, Origin, Provenance, Record, Status, Trust, Vector, cosine, quantize

with suppress(ImportError):  # Only the random histories need it.
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st
    from hypothesis.strategies import SearchStrategy

# --- stand-ins that do the same thing every time

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


class FrozenClock:
    """Stands still until `advance` is called."""

    def __init__(self, moment: datetime = MOMENT) -> None:
        self.moment = moment

    def __call__(self) -> datetime:
        return self.moment

    def advance(self, **by: float) -> datetime:
        """`advance(days=1)`: the arguments of timedelta."""
        self.moment += timedelta(**by)
        return self.moment


class FakeEmbedder:
    """Texts that share words are near each other; nothing is understood."""

    passage_chars = 1000

    def __init__(self, dim: int = 64) -> None:
        self.dim = dim
        self.name = f"fake-{dim}"

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector for each text."""
        vectors = []
        for text in texts:
            values = [0.0] * self.dim
            for word in text.lower().split():
                digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
                values[int.from_bytes(digest[:4], "big") % self.dim] += 1.0 if digest[4] & 1 else -1.0
            vectors.append(quantize(values))
        return vectors

    def close(self) -> None:
        """Holds nothing."""


def make_record(id: str = "a", **fields: Any) -> Record:
    """A record with as little in it as possible."""
    values: dict[str, Any] = {"kind": "heuristic", "project": "p", "created_at": MOMENT, "updated_at": MOMENT} | fields
    return Record(id=id, **values)


# --- the contract

EAST = quantize([1.0, 0.0])
NORTH = quantize([0.0, 1.0])
NORTH_EAST = quantize([1.0, 1.0])
WEST = quantize([-1.0, 0.0])
HOUR = timedelta(hours=1)


PROMISES = ("persistent", "atomic", "many writers")


def capabilities(store: Store | type[Store]) -> dict[str, bool]:
    """What a store, or a class of stores, can do, for the table in the documents."""
    limits = getattr(store, "limits", {})
    methods = {"words": "match", "count": "count", "check": "check"}
    return {
        **{name: hasattr(store, method) for name, method in methods.items()},
        **{name: name not in limits for name in PROMISES},
    }


def refused(error: type[Exception], action: Callable[..., object], *args: Any, **options: Any) -> Exception:
    """The error that the action must raise."""
    try:
        action(*args, **options)
    except error as raised:
        return raised
    raise AssertionError(f"{error.__name__} was not raised")


class Room:
    """Gives each test a folder of its own, and an empty one for everything that is made in it."""

    def setup_method(self) -> None:
        """Create the temporary folder of a test."""
        self._room = tempfile.TemporaryDirectory()
        self._folders = 0

    def teardown_method(self) -> None:
        """Delete the temporary folder of a test."""
        self._room.cleanup()

    def _make_folder(self) -> None:
        self._folders += 1
        self.folder = Path(self._room.name) / str(self._folders)
        self.folder.mkdir()

    def _need_hypothesis(self) -> None:
        if find_spec("hypothesis") is None:
            raise SkipTest("random histories need the package hypothesis")


class StoreContract(Room):
    """The tests that every store must pass. Subclass it and define `make_store`."""

    histories = 40  # How many random histories are compared with the in-memory store.
    many = 1200  # How many records are written, read and deleted at once: several of a store's batches and pages.
    crowd = 500  # How many records of each kind a filter has to leave out.

    def make_store(self) -> Store:
        """Return a new, empty store."""
        raise NotImplementedError("return a new, empty store in a folder below self.folder")

    def open_again(self, store: Store) -> Store:
        """Another handle on the same records, while `store` is open or after it was closed."""
        raise NotImplementedError("return another handle on the records of the store, or declare a limit `persistent`")

    def setup_method(self) -> None:
        """Open an empty store."""
        super().setup_method()
        self.store = self._make_empty()

    def teardown_method(self) -> None:
        """Close the store."""
        self.store.close()
        super().teardown_method()

    def _make_empty(self) -> Store:
        self._make_folder()
        return self.make_store()

    def _put(self, *ids: str, **fields: Any) -> None:
        self.store.put([make_record(id, **fields) for id in ids])

    def _scan(self, limit: int | None = None, /, **conditions: Any) -> list[str]:
        return [record.id for record in self.store.scan(Where(**conditions), limit)]

    def _near(self, limit: int = 10, /, **conditions: Any) -> list[str]:
        return [hit.id for hit in self.store.nearest(EAST, Where(**conditions), limit)]

    def _can(self, capability: str) -> bool:
        """Return whether the store can do this; what it cannot do must be declared with a sentence that explains it."""
        limits = getattr(self.store, "limits", {})
        assert set(limits) <= set(PROMISES), limits
        assert all(len(text.split()) > 5 for text in limits.values()), "a limit says what to use instead"
        return capabilities(self.store)[capability]

    def _match(self, words: str, limit: int = 10, /, **conditions: Any) -> list[str]:
        assert isinstance(self.store, Searchable)
        hits = self.store.match(words, Where(**conditions), limit)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        return [hit.id for hit in hits]

    # --- put, get and delete

    def test_every_record_comes_back(self) -> None:
        """Every record comes back."""
        text = "naïve 日本語 🙂 \x00 \u200b ' \" \\ % _ ; -- \n\r\t"
        for record in (
            full_record(),
            make_record("least"),
            make_record("script", text=text, key=text, project=text, tags=(text,), body={text: text}, session=text),
            make_record("big", body={"list": list(range(20_000)), "text": "x" * 1_000_000}, text="word " * 20_000),
            make_record("elsewhere", created_at=MOMENT.astimezone(timezone(5 * HOUR))),
        ):
            self.store.put([record])
            assert self.store.get([record.id]) == [record]
        assert self._scan(projects=[text], keys=[text], tagged=[text], sessions=[text]) == ["script"]
        assert list(self.store.scan(Where(keys=["k"]))) == [full_record()]

    def test_what_the_caller_changes_later_is_not_changed_in_the_store(self) -> None:
        """What the caller changes later is not changed in the store."""
        body: dict[str, Any] = {"list": [1]}
        self._put("a", body=body)
        body["list"].append(2)
        self.store.get(["a"])[0].body["list"].append(3)
        assert self.store.get(["a"])[0].body == {"list": [1]}

    def test_what_is_no_json_or_has_no_time_zone_is_refused(self) -> None:
        """What is no json or has no time zone is refused."""
        naive = MOMENT.replace(tzinfo=None)
        for bad in ({"body": {"x": object()}}, {"body": {"x": float("nan")}}, {"created_at": naive}):
            refused(ValidationError, self.store.put, [make_record("b"), make_record(**bad)])
        assert self._scan() == []

    def test_an_id_is_never_taken_for_another(self) -> None:
        """An id is never taken for another."""
        odd = ["a", "a\0", "a\0b", "A", "á", "a ", "%", "_", "'", '"', "\\", ""]
        self._put(*odd)
        for ids in (*([id] for id in odd), ["A", "a", "A"], []):
            assert [record.id for record in self.store.get([*ids, "?"])] == ids
        assert self.store.delete(["a\0b", *(f"unknown{i}" for i in range(1000)), "a\0c"]) == 1
        assert set(self._scan()) == set(odd) - {"a\0b"}

    def test_many_ids_at_once(self) -> None:
        """Many ids at once."""
        ids = [f"id{i:05d}" for i in range(self.many)]
        self._put(*ids)
        assert [record.id for record in self.store.get(ids)] == ids
        assert sorted(self._scan(keys=[""], sessions=["", *ids])) == ids
        assert self.store.delete(ids) == self.many

    def test_a_greater_version_replaces(self) -> None:
        """A greater version replaces."""
        self._put("a", text="old", tags=("x",), links=("l",), vectors=(EAST,))
        newer = make_record(text="new", version=7, tags=("y",), links=(), vectors=(WEST, NORTH), project="q")
        self.store.put([make_record(version=3), newer])
        assert self.store.get(["a"]) == [newer]
        assert self._scan(tagged=["x"]) == self._scan(linked=["l"]) == self._scan(projects=["p"]) == []

    def test_a_version_that_is_no_greater_conflicts_and_leaves_nothing_of_the_whole_put(self) -> None:
        """Even an equal record: two writers who both count one more would both be told that it was counted."""
        stored = make_record(version=2, text="held")
        self.store.put([stored])
        stale = (stored, make_record(version=2), make_record(version=1), make_record(version=2, vectors=(EAST,)))
        for record in stale:
            fresh = [make_record("b", vectors=(EAST,)), record, make_record("c")]
            assert "a" in str(refused(ConflictError, self.store.put, fresh))
        refused(ConflictError, self.store.put, [make_record("b", version=2), make_record("b", version=1)])
        self.store.put([])
        assert list(self.store.scan(Where())) == [stored]
        assert self._near() == []

    def test_delete_counts_what_was_there_and_removes_it_everywhere(self) -> None:
        """Delete counts what was there and removes it everywhere."""
        self._put("a", "b", "c", version=9, text="word", vectors=(EAST,), tags=("t",), links=("l",))
        assert self.store.delete(["a", "c", "?", "a"]) == 2
        assert self.store.delete(["a"]) == self.store.delete([]) == 0
        assert self._scan(tagged=["t"]) == self._scan(linked=["l"]) == self._near() == ["b"]
        # The id may come back with any version.
        self._put("a")
        assert self.store.get(["a"]) == [make_record()]
        assert self._near() == ["b"]

    # --- scan

    def test_scan_gives_the_newest_first_and_among_equals_the_greatest_id(self) -> None:
        """Scan gives the newest first and among equals the greatest id."""
        self._put("a", "c", "ä")
        self._put("b", created_at=MOMENT + timedelta(microseconds=1))
        assert self._scan() == ["b", "ä", "c", "a"]
        assert self._scan(2) == ["b", "ä"]
        assert self._scan(3, kinds=["heuristic"], statuses=["active"]) == ["b", "ä", "c"]
        assert self._scan(0) == []

    def test_scan_tolerates_writes_while_it_is_read(self) -> None:
        """Scan tolerates writes while it is read."""
        ids = [f"{i:04d}" for i in range(self.many)]
        deleted, kept = ids[: self.many // 2], ids[self.many // 2 :]
        self._put(*ids)
        seen_ids = []
        for record in self.store.scan(Where()):
            seen_ids.append(record.id)
            if len(seen_ids) == 1:
                self._put("new")
                self.store.delete(deleted)
        assert seen_ids == sorted(seen_ids, reverse=True)
        assert set(kept) <= set(seen_ids)

    def test_each_condition_filters(self) -> None:
        """Each condition filters."""
        for name, value in CONDITIONS.items():
            self._put(name, vectors=(EAST,), **{name: value})
        self._put("plain", vectors=(EAST,))
        for name, value in CONDITIONS.items():
            where = {"links": "linked", "tags": "tagged", "status": "statuses"}.get(name, f"{name}s")
            values = [value, "none"] if isinstance(value, str) else value[1:]
            assert self._scan(**{where: values}) == self._near(**{where: values}) == [name], name
            # An empty collection matches nothing.
            assert self._scan(**{where: []}) == self._near(**{where: set()}) == [], name
        self._put("stated", vectors=(EAST,), provenance=Provenance(Origin.USER))
        self._put("heard", vectors=(EAST,), provenance=Provenance(Origin.CORRECTION, Trust.LEARNED))
        for origins, ids in (
            ([Origin.USER], ["stated"]),
            ({"user", "tool"}, ["stated"]),
            ([Origin.CORRECTION], ["heard"]),
            ([], []),
        ):
            assert self._scan(origins=origins) == self._near(origins=origins) == ids, origins
        self._put("bodied", vectors=(EAST,), body={"size": 2, "name": 'Say "no"', "gone": None})
        for fields, ids in (
            ({"size": 2, "name": 'Say "no"', "gone": None}, ["bodied"]),
            ({"size": 3}, []),
            ({"size": 2, "name": "Say"}, []),
        ):
            assert self._scan(fields=fields) == self._near(fields=fields) == ids, fields
        assert self._scan(agents={"x", "y"}, keys=("k",)) == []
        assert self._scan(agents=["x", ""], keys=["x", ""], users=["x"]) == ["user"]

    def test_spans_of_time_include_their_beginning_and_exclude_their_end(self) -> None:
        """Spans of time include their beginning and exclude their end."""
        times: dict[str, dict[str, Any]] = {
            "always": {},
            "from": {"valid_from": MOMENT},
            "until": {"valid_to": MOMENT},
            "between": {"valid_from": MOMENT - HOUR, "valid_to": MOMENT + HOUR},
            "late": {"created_at": MOMENT + HOUR, "valid_from": MOMENT + 2 * HOUR},
        }
        for id, fields in times.items():
            self._put(id, vectors=(EAST,), **fields)
        for ids, conditions in (
            ("always from between", {"valid_at": MOMENT}),
            ("always until between", {"valid_at": MOMENT - HOUR}),
            ("always from", {"valid_at": MOMENT + HOUR}),
            ("late", {"created_from": MOMENT + HOUR}),
            ("always from until between", {"created_from": MOMENT, "created_to": MOMENT + HOUR}),
        ):
            assert set(self._scan(**conditions)) == set(self._near(**conditions)) == set(ids.split())

    # --- nearest

    def test_nearest_ranks_by_the_cosine_of_the_best_vector(self) -> None:
        """Nearest ranks by the cosine of the best vector."""
        long = quantize([1.0, 0.0, 0.0])
        vectors = {
            "none": (),
            "another length": (long,),
            "west": (long, WEST),
            "east": (EAST,),
            "north": (NORTH,),
            "several": (WEST, NORTH_EAST, NORTH),
            # It has no direction.
            "zero": (bytes(2),),
        }
        for id, some in vectors.items():
            self._put(id, vectors=some)
        hits = self.store.nearest(EAST, Where(), 10)
        assert [hit.id for hit in hits] == ["east", "several", "north", "zero", "west"]
        for hit, expected in zip(hits, (1.0, cosine(EAST, NORTH_EAST), 0.0, 0.0, -1.0), strict=True):
            assert abs(hit.score - expected) < 1e-6
        assert self.store.nearest(EAST, Where(), 2) == hits[:2]
        assert self.store.nearest(EAST, Where(), 0) == self.store.nearest(quantize([1.0]), Where(), 5) == []
        assert {hit.score for hit in self.store.nearest(bytes(2), Where(), 5)} == {0.0}

    def test_equal_scores_come_in_the_order_of_ids(self) -> None:
        """Equal scores come in the order of ids."""
        self._put(*(f"{i * 7 % 100:02d}" for i in range(100)), vectors=(EAST,))
        assert self._near(3) == ["00", "01", "02"]
        assert self._near(100) == [f"{i:02d}" for i in range(100)]

    def test_the_filter_comes_before_the_ranking(self) -> None:
        """The filter comes before the ranking."""
        many = [str(i) for i in range(self.crowd)]
        self._put(*(f"crowd{i}" for i in many), agent="many", vectors=(EAST,))
        self._put(*(f"old{i}" for i in many), agent="few", status=Status.ARCHIVED, vectors=(EAST,))
        self._put("far", agent="few", vectors=(WEST,))
        assert self._near(1, agents=["few"], statuses=["active"]) == ["far"]
        assert self._near(5, agents=["few"], statuses=["active"]) == ["far"]

    def test_long_vectors_are_ranked_exactly(self) -> None:
        """Long vectors are ranked exactly."""
        base = bytes([127, 129] * 1000)
        others = [bytes([*base[:i], 126, *base[i + 1 :]]) for i in range(0, 40, 2)] + [base[:-1] + b"\x80"]
        for i, vector in enumerate(others):
            self._put(f"{i:02d}", vectors=(vector,))
        expected = sorted((-cosine(base, vector), f"{i:02d}") for i, vector in enumerate(others))
        hits = self.store.nearest(base, Where(), 50)
        assert [hit.id for hit in hits] == [id for _, id in expected]
        assert all(abs(hit.score + score) < 1e-9 for hit, (score, _) in zip(hits, expected, strict=True))

    # --- words, for a store that is Searchable

    def test_match_finds_what_shares_a_word(self) -> None:
        """Match finds what shares a word."""
        if not self._can("words"):
            return
        texts = {"a": "The cache was stale", "b": "a STALE, token!", "c": "nothing of it", "d": ""}
        self.store.put([make_record(id, text=text, agent="x") for id, text in texts.items()])
        assert set(self._match("stale unrelated")) == {"a", "b"}
        assert self._match("token cache stale", 1) in (["a"], ["b"])
        assert self._match("absent") == self._match("") == self._match("stale", 0) == []
        # The scope is no word.
        assert self._match("x p heuristic s1 1") == []

    def test_match_all_finds_what_holds_every_word(self) -> None:
        """Match all finds what holds every word, for a store that has it."""
        if not isinstance(self.store, FindsAllWords):
            return
        texts = {"a": "The cache was stale", "b": "a STALE, token cache!", "c": "a cache", "d": ""}
        self.store.put([make_record(id, text=text, agent="y" if id == "a" else "x") for id, text in texts.items()])
        everything = Where()
        assert set(self.store.match_all("stale cache", everything, 9)) == {"a", "b"}
        assert self.store.match_all("stale cache", Where(agents={"x"}), 9) == ["b"]
        assert len(self.store.match_all("cache", everything, 2)) == 2
        for words in ("stale absent", "", '"', "x", "*"):
            assert self.store.match_all(words, everything, 9) == [], words
        assert self.store.match_all("cache", everything, 0) == []

    def test_several_kinds_are_searched_as_each_of_them_alone(self) -> None:
        """Several kinds are searched as each of them alone, for a store that does so at once."""
        records: list[Record] = []
        for number in range(30):
            kind = "heuristic" if number % 7 % 2 else "domain_knowledge"
            agent = "x" if number % 3 else "y"
            vector = quantize([1.0, number / 10, 0.5, 0.0])
            records.append(
                make_record(f"m{number:02}", kind=kind, agent=agent, text="a stale cache", vectors=(vector,))
            )
        self.store.put(records)
        limits = {"heuristic": 4, "domain_knowledge": 9, "rule": 3}
        vector = quantize([1.0, 1.0, 0.0, 0.0])
        for where in (Where(), Where(agents={"y"})):
            alone = {kind: replace(where, kinds={kind}) for kind in limits}
            if isinstance(self.store, FindsNearestByKind):
                near = self.store.nearest_by_kind(vector, where, limits)
                assert near == {kind: self.store.nearest(vector, alone[kind], limits[kind]) for kind in limits}
            if isinstance(self.store, MatchesByKind) and isinstance(self.store, Searchable):
                for kind, hits in self.store.match_by_kind("stale cache", where, limits).items():
                    expected = self.store.match("stale cache", alone[kind], limits[kind])
                    assert [hit.id for hit in hits] == [hit.id for hit in expected]

    def test_match_takes_any_text_for_words(self) -> None:
        """Match takes any text for words."""
        if not self._can("words"):
            return
        self._put("a", text="plain words: NOT a query, c++ x")
        for words in ('"', "*", "-", "( )", "++ --", "\x00", "', ;", "\U0001faf0"):
            assert self._match(words) == [], words
        for words in ("NOT", 'plain"', "text:plain plain", "pla* words", "query AND", "NEAR(plain words)", "^plain x"):
            assert self._match(words) == self._match("pla\0words") == ["a"], words

    def test_match_takes_words_of_any_length(self) -> None:
        """Match takes words of any length."""
        if not self._can("words"):
            return
        # Scripts without spaces make one word of a whole page; an index may cut it, even inside a character.
        long = "\u6570\u636e\u5e93" * 10_000
        self.store.put([make_record("a", text="alpha"), make_record("long", text=f"x {long}")])
        assert self._match(f"{long} alpha", 1) in (["a"], ["long"])
        assert self._match(f"y{long}") == []

    def test_match_filters_before_it_ranks(self) -> None:
        """Match filters before it ranks."""
        if not self._can("words"):
            return
        many = [str(i) for i in range(300)]
        self._put(*(f"crowd{i}" for i in many), agent="many", text="word word word")
        self._put(*(f"old{i}" for i in many), agent="few", status=Status.ARCHIVED, text="word word")
        self._put("last", agent="few", text="a longer text that has the word somewhere in it")
        assert self._match("word", 1, agents=["few"], statuses=["active"]) == ["last"]
        assert self._match("word", agents=["none"]) == self._match("word", kinds=[]) == []

    def test_rarer_words_weigh_more(self) -> None:
        """Rarer words weigh more."""
        if not self._can("words"):
            return
        self._put(*map(str, range(20)), text="common thing")
        self._put("rare", text="unusual thing")
        assert self._match("common unusual", 1) == ["rare"]

    # --- the whole

    def test_records_outlive_the_handle(self) -> None:
        """Records outlive the handle."""
        self.store.put([full_record(), make_record("gone", vectors=(EAST,))])
        self.store.delete(["gone"])
        self.store.close()
        if not self._can("persistent"):
            self.store = self.make_store()
            assert self._scan() == []
            return
        self.store = self.open_again(self.store)
        assert list(self.store.scan(Where())) == [full_record()]
        assert self._near() == []

    def test_two_handles_see_each_others_writes(self) -> None:
        """Two handles see each others writes."""
        if not self._can("many writers"):
            self._refuse_second_writer()
            return
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
            refused(ConflictError, self._put, "a", version=1)

    def _refuse_second_writer(self) -> None:
        """A second handle fails when it is opened or writes, and says what to use; the first one goes on."""
        if not self._can("persistent"):
            return
        self._put("a")

        def write() -> None:
            with closing(self.open_again(self.store)) as other:
                other.put([make_record("b")])

        assert "use" in str(refused(BusyError, write))
        self._put("c")
        assert self._scan() == ["c", "a"]

    def test_a_reader_sees_all_of_a_put_or_nothing(self) -> None:
        """A reader sees all of a put or nothing."""
        if not self._can("atomic"):
            return

        def write_often() -> None:
            for version in range(1, 30):
                self._put("a", "b", "c", version=version)

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write_often)
            while not writing.done():
                assert len({record.version for record in self.store.get(["a", "b", "c"])}) <= 1
        writing.result()
        assert len(self.store.get(["a", "b", "c"])) == 3

    def test_of_equal_increments_by_several_threads_none_is_lost(self) -> None:
        """Of equal increments by several threads none is lost."""
        self._put("a", body={"count": 0}, vectors=(EAST,))

        def count_up(_: int) -> None:
            for _ in range(5):
                while True:
                    (record,) = self.store.get(["a"])
                    body = {"count": record.body["count"] + 1}
                    with suppress(ConflictError):
                        self.store.put([replace(record, body=body, version=record.version + 1)])
                        break

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(count_up, range(3)))
        assert self.store.get(["a"])[0].body == {"count": 15}
        assert self._near() == ["a"]
        assert not isinstance(self.store, Checkable) or self.store.check() == []

    def test_a_closed_store_says_so(self) -> None:
        """A closed store says so."""
        self.store.close()
        self.store.close()
        refused(StorageError, self.store.get, ["a"])
        refused(StorageError, self._put, "a")

    def test_counting_agrees_with_scanning(self) -> None:
        """Counting agrees with scanning."""
        if not isinstance(self.store, Countable):
            assert not self._can("count")
            return
        self.store.put([full_record(), make_record("a"), make_record("b"), make_record("c", status=Status.ARCHIVED)])
        for where in (Where(), Where(statuses=[Status.ACTIVE]), Where(agents=[]), Where(tagged=full_record().tags)):
            expected = Counter((one.kind, one.agent, str(one.status)) for one in self.store.scan(where))
            assert self.store.count(where) == expected

    def test_it_agrees_with_the_in_memory_store_on_random_histories(self) -> None:
        """It agrees with the in memory store on random histories."""
        self._need_hypothesis()
        agree(self._make_empty, self.histories)


# A value of each field that a condition is about.
CONDITIONS: dict[str, Any] = {
    "kind": "outcome",
    "project": "q",
    **dict.fromkeys(("agent", "user", "session", "key", "embedder"), "x"),
    "status": Status.ARCHIVED,
    "links": ("l1", "l2"),
    "tags": ("t1", "t2"),
}


def full_record() -> Record:
    """A record with something in every field."""
    names = {"kind": "outcome", "project": "p", "agent": "x", "user": "u", "session": "s", "key": "k", "embedder": "e"}
    times = {"updated_at": MOMENT + HOUR, "valid_from": MOMENT - HOUR, "valid_to": MOMENT + 2 * HOUR}
    return make_record(
        "full",
        **names,
        **times,
        status=Status.CANDIDATE,
        text="some words",
        body={"n": None, "b": True, "i": 2**60, "f": 0.1, "s": "ß", "l": [1, [2, {"x": []}]], "o": {"": {}}},
        evidence=Evidence(1, 2, 3, 4, 5, 6, 7, recent=((1, 0.5), (2, 1.0)), last_used=MOMENT),
        provenance=Provenance(Origin.TOOL, Trust.UNTRUSTED, episodes=("e2", "e1"), source="a page"),
        links=("l2", "l1", "l2"),
        tags=("t2", "t1", "t2"),
        version=3,
        superseded_by="z",
        vectors=(bytes(range(256)), b"\x01\x02\x03", bytes(range(256))),
    )


# --- random histories, drawn from tiny domains so that values collide


def run_examples(
    run: Callable[[Any], None], values: SearchStrategy[Any], examples: int, *, shrink: bool = True
) -> None:
    """Run a check on random values, the same way on every machine."""
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    checks = list(HealthCheck)
    bounds = settings(max_examples=examples, deadline=None, database=None, phases=phases, suppress_health_check=checks)
    settings(bounds, report_multiple_bugs=False, derandomize=True)(given(values)(run))()


def call_safely(target: object, verb: str, *args: object, **options: object) -> object:
    """Return what a method returns, or the type of what it raises."""
    try:
        result = getattr(target, verb)(*args, **options)
        return list(result) if isinstance(result, Iterator) else result
    except Exception as error:  # noqa: BLE001 - that both raise the same is what is compared
        return type(error)


def draw_some(values: Sequence[Any], *, unique: bool = False) -> SearchStrategy[tuple[Any, ...]]:
    """Return a strategy for up to two of these values."""
    return st.lists(st.sampled_from(values), max_size=2, unique=unique).map(tuple)


IDS = ("a", "b", "c", "d", "é")
WORDS = ("alpha", "beta", "gamma")
TEXTS = ("", "alpha", "alpha beta", "gamma beta beta", "delta")
MOMENTS = tuple(MOMENT + timedelta(microseconds=i) for i in range(3))
VECTORS = (b"\x7f\x00", b"\x00\x7f", b"\x7f\x7f", b"\x81\x01", b"\x00\x00", b"\x7f\x00\x01", b"\x01\x02\x03", b"\x05")
NAMES: dict[str, tuple[str, ...]] = {
    "kind": ("heuristic", "outcome"),
    "project": ("p", "q"),
    "agent": ("", "x"),
    "user": ("", "u"),
    "session": ("", "s"),
    "status": (Status.ACTIVE, Status.ARCHIVED),
    "key": ("", "k"),
    "embedder": ("", "e"),
}


class Ask(NamedTuple):
    """A query of a random history."""

    where: Where
    vector: bytes
    words: str
    limit: int


Step = tuple[str, Sequence[object]] | Ask
# What is asked after every write.
ALWAYS = (
    Ask(Where(), VECTORS[0], " ".join(WORDS), 9),
    # A store that ranks before it filters finds too little here.
    Ask(Where(agents=("x",)), VECTORS[0], " ".join(WORDS), 1),
    Ask(Where(statuses=(Status.ACTIVE,)), VECTORS[0], " ".join(WORDS), 1),
)


def records() -> SearchStrategy[Record]:
    """Return a strategy for records."""
    moments = st.sampled_from(MOMENTS)
    recent = st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0.0, 0.5, 1.0])), max_size=2).map(tuple)
    return st.builds(
        Record,
        id=st.sampled_from(IDS),
        text=st.sampled_from(TEXTS),
        body=st.dictionaries(st.sampled_from("xü"), st.none() | st.integers(0, 1) | st.just([1.5, "y"]), max_size=2),
        evidence=st.builds(Evidence, successes=st.integers(0, 2), recent=recent, last_used=st.none() | moments),
        provenance=st.builds(Provenance, st.sampled_from(Origin), st.sampled_from(Trust), draw_some(IDS)),
        links=draw_some(IDS[:3]),
        tags=draw_some(("red", "blue", "green")),
        version=st.integers(1, 4),
        superseded_by=st.sampled_from(("", "a")),
        vectors=st.lists(st.sampled_from(VECTORS), max_size=3).map(tuple),
        **dict.fromkeys(("created_at", "updated_at"), moments),
        **{name: st.none() | moments for name in ("valid_from", "valid_to")},
        **{name: st.sampled_from(values) for name, values in NAMES.items()},
    )


def wheres() -> SearchStrategy[Where]:
    """Return a strategy for conditions."""
    fields = {"statuses" if name == "status" else f"{name}s": draw_some(values) for name, values in NAMES.items()}
    fields |= {"linked": draw_some(IDS[:2]), "tagged": draw_some(("red", "blue"))}
    fields["origins"] = draw_some((Origin.USER, Origin.AGENT))
    times: dict[str, Any] = dict.fromkeys(("created_from", "created_to", "valid_at"), st.sampled_from(MOMENTS))
    conditions = {**fields, **times}
    # Few conditions at a time, or hardly any record would ever be found.
    names = st.lists(st.sampled_from(sorted(conditions)), max_size=3, unique=True)
    return names.flatmap(lambda some: st.builds(Where, **{name: conditions[name] for name in some}))


def steps() -> SearchStrategy[Step]:
    """Return a strategy for the steps of a history."""
    put = st.tuples(st.just("put"), st.lists(records(), min_size=1, max_size=3))
    delete = st.tuples(st.just("delete"), st.lists(st.sampled_from((*IDS, "unknown")), max_size=3))
    words = st.lists(st.sampled_from((*WORDS, "unknown", '"', "*")), max_size=3).map(" ".join)
    ask = st.builds(Ask, wheres(), st.sampled_from(VECTORS), words, st.integers(0, 6))
    return put | put | ask | ask | delete


def agree(make_store: Callable[[], Store], examples: int = 40, *, shrink: bool = True) -> None:
    """A fresh store gives the same answers as the in-memory store, whatever happens to both.

    `shrink` looks for the shortest history that shows the difference.
    """

    def run(history: list[Step]) -> None:
        store, model = make_store(), MemoryStore()
        try:
            for step in history:
                if isinstance(step, Ask):
                    _compare_answers(store, model, step)
                    continue
                assert call_safely(store, *step) == call_safely(model, *step)
                assert store.get(IDS) == model.get(IDS)
                for ask in ALWAYS:
                    _compare_answers(store, model, ask)
            assert not isinstance(store, Checkable) or store.check() == []
        finally:
            store.close()

    run_examples(run, st.lists(steps(), min_size=1, max_size=12), examples, shrink=shrink)


def _compare_answers(store: Store, model: Store, ask: Ask) -> None:
    for limit in (None, ask.limit):
        assert call_safely(store, "scan", ask.where, limit) == call_safely(model, "scan", ask.where, limit)
    near, expected = (one.nearest(ask.vector, ask.where, ask.limit) for one in (store, model))
    assert [hit.id for hit in near] == [hit.id for hit in expected]
    assert all(abs(a.score - b.score) < 1e-6 for a, b in zip(near, expected, strict=True))
    if not isinstance(store, Searchable):
        return
    hits, words = store.match(ask.words, ask.where, ask.limit), set(ask.words.split())
    matching = {record.id for record in model.scan(ask.where) if words & set(record.text.split())}
    assert {hit.id for hit in hits} <= matching
    assert len({hit.id for hit in hits}) == len(hits) == min(len(matching), ask.limit)
    assert hits == sorted(hits, key=lambda hit: -hit.score)
