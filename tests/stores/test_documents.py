"""A store of documents over a dict: crashes between any two steps, other writers, leases."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from alma.errors import BusyError, ConflictError, CorruptStoreError
from alma.ports import Store
from alma.stores import documents as module
from alma.stores.documents import ROWS, Conditional, Document, Documents, DocumentStore, compile_conditions, list_fields
from alma.stores.memory import MemoryStore
from alma.testing import StoreContract, capabilities, make_record
from alma.types.query import Where
from alma.types.record import cosine, quantize

EAST, NORTH, WEST, LONG = (quantize(some) for some in ([1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [1.0, 0.0, 0.0]))


class Crash(BaseException):
    """The process ends here."""


class DictDocuments:
    """Documents in dicts. `crash_after` so many single changes the process ends."""

    def __init__(self, spaces: dict[int, dict[str, Document]] | None = None, *, is_locked: bool = False) -> None:
        self.spaces = {} if spaces is None else spaces
        self.is_locked = is_locked
        self.crash_after: int | None = None

    def step(self) -> None:
        if self.crash_after is not None:
            if self.crash_after == 0:
                raise Crash
            self.crash_after -= 1

    def list_spaces(self):
        return [space for space in self.spaces if space != ROWS]

    def write(self, space, documents):
        for one in documents:
            assert not one.vector or any(one.vector), "a zero vector"
            self.step()
            self.spaces.setdefault(space, {})[one.key] = one

    def read(self, space, keys):
        return [self.spaces[space][key] for key in keys if key in self.spaces.get(space, {})]

    def remove(self, space, keys):
        for key in keys:
            self.step()
            self.spaces.get(space, {}).pop(key, None)

    def find(self, space, conditions):
        return iter([one for one in self.spaces.get(space, {}).values() if meets(one, conditions)])

    def search(self, space, vector, conditions, limit):
        scored = [
            (one, sum(a * b for a, b in zip(one.vector, vector, strict=True))) for one in self.find(space, conditions)
        ]
        return sorted(scored, key=lambda pair: -pair[1])[:limit]

    def close(self):
        pass


class ConditionalDocuments(DictDocuments):
    """The same with conditional writes; `meanwhile` and `before_undo` are called once before the first of them."""

    meanwhile = before_undo = None

    def replace_rows(self, rows):
        if self.meanwhile is not None:
            self.meanwhile, action = None, self.meanwhile
            action()
        lost = []
        for row, expected in rows:
            stored = self.read(ROWS, [row.key])
            if stored and stored[0].fields["stamp"] != expected:
                lost.append(row.key)
            else:
                self.write(ROWS, [row])
        return lost

    def remove_rows(self, stamps):
        if self.before_undo is not None:
            self.before_undo, action = None, self.before_undo
            action()
        self.remove(ROWS, [row.key for row in self.read(ROWS, list(stamps)) if row.fields["stamp"] == stamps[row.key]])


def meets(document, conditions):
    for field, names, at_least, at_most in conditions:
        value = document.fields.get(field)
        if names is not None:
            if not set(names) & set(value if isinstance(value, list) else [value]):
                return False
        elif value is None or (at_least is not None and value < at_least) or (at_most is not None and value > at_most):
            return False
    return True


class TestDocumentStore(StoreContract):
    histories = 25
    documents: type[DictDocuments] = DictDocuments

    def make_store(self) -> Store:
        self.spaces: dict[int, dict[str, Document]] = {}
        return self.open_again(None)

    def open_again(self, store: Store | None) -> Store:
        return DocumentStore(self.documents(self.spaces))

    @pytest.fixture(autouse=True)
    def no_pause(self, monkeypatch):
        monkeypatch.setattr(module, "_SETTLE_SECONDS", 0.0)


class TestConditionalDocumentStore(TestDocumentStore):
    documents = ConditionalDocuments


def test_the_fakes_are_what_they_claim():
    plain: Documents = DictDocuments()
    assert not isinstance(plain, Conditional)
    assert isinstance(ConditionalDocuments(), Conditional)


def test_capabilities_follow_from_the_database():
    many = capabilities(DocumentStore(ConditionalDocuments()))
    assert (many["atomic"], many["many writers"], many["check"]) == (False, True, True)
    for one in (DictDocuments(), ConditionalDocuments(is_locked=True)):
        assert not capabilities(DocumentStore(one))["many writers"]
    assert capabilities(DocumentStore) == capabilities(DocumentStore(DictDocuments()))


# --- crashes


def assert_answers_rightly(store):
    """Nearest agrees with the records that the store says it has."""
    model = MemoryStore()
    model.put(list(store.scan(Where())))
    for vector in (EAST, NORTH, WEST, LONG):
        for where in (Where(), Where(agents=["x"])):
            assert store.nearest(vector, where, 9) == model.nearest(vector, where, 9)


def change_rows(store):
    store.put([make_record("a", version=2, agent="x", vectors=(NORTH, LONG)), make_record("c", vectors=(WEST,))])


def delete_rows(store):
    store.delete(["a", "b"])


@pytest.mark.parametrize("make", [DictDocuments, ConditionalDocuments])
@pytest.mark.parametrize("act", [change_rows, delete_rows])
def test_a_crash_between_any_two_steps_is_repaired(make, act):
    steps = 0
    while True:
        documents = make(is_locked=True)
        before = [make_record("a", vectors=(EAST, WEST)), make_record("b", agent="x", vectors=(EAST,))]
        DocumentStore(documents).put(before)
        documents.crash_after = steps
        try:
            act(DocumentStore(documents))
            break
        except Crash:
            documents.crash_after = None
        store = DocumentStore(documents)
        if act is change_rows:
            # Even before the repair.
            assert_answers_rightly(store)
        problems = store.check()
        assert bool(store.repair()) == bool(problems)
        assert store.check() == []
        assert_answers_rightly(store)
        assert {record.id for record in store.scan(Where())} <= {"a", "b", "c"}
        steps += 1
    assert steps >= 5
    assert DocumentStore(documents).check() == []


def test_passages_that_were_lost_are_written_again():
    documents = DictDocuments(is_locked=True)
    store = DocumentStore(documents)
    store.put([make_record(f"{i:04d}", vectors=(EAST, LONG)) for i in range(1100)])
    documents.spaces[2].clear()
    assert len(store.check()) == 1100
    assert "vectors" in store.check()[0]
    assert store.nearest(EAST, Where(), 1) == []
    assert store.repair() == 1100
    assert store.nearest(EAST, Where(), 1)[0].id == "0000"


def test_a_row_that_is_no_record_is_named():
    documents = DictDocuments(is_locked=True)
    store = DocumentStore(documents)
    store.put([make_record()])
    (key,) = documents.spaces[ROWS]
    documents.spaces[ROWS][key] = replace(documents.spaces[ROWS][key], content='{"id": 1}')
    with pytest.raises(CorruptStoreError, match=key):
        store.get(["a"])


# --- other writers


def test_who_loses_a_race_leaves_nothing_and_the_winner_keeps_its_vectors():
    documents = ConditionalDocuments()
    store, other = DocumentStore(documents), DocumentStore(documents)
    store.put([make_record("a", vectors=(EAST,)), make_record("b", vectors=(EAST,))])
    won = make_record("b", version=2, vectors=(WEST,))
    documents.meanwhile = lambda: other.put([won])
    with pytest.raises(ConflictError, match="b: another process"):
        # The same vectors as the winner has: they must not be removed with the loser's.
        store.put([make_record("a", version=2), replace(won, text="x"), make_record("new", vectors=(LONG,))])
    assert store.get(["a", "b", "new"]) == [make_record("a", vectors=(EAST,)), won]
    assert store.check() == []
    assert_answers_rightly(store)


def test_two_who_add_the_same_record_at_once_are_told_apart():
    documents = ConditionalDocuments()
    store, other = DocumentStore(documents), DocumentStore(documents)
    documents.meanwhile = lambda: other.put([make_record("a", vectors=(EAST,))])
    with pytest.raises(ConflictError):
        store.put([make_record("a", vectors=(EAST,)), make_record("b", vectors=(EAST,))])
    assert [record.id for record in store.scan(Where())] == ["a"]
    assert store.check() == []


def test_who_loses_a_race_leaves_what_another_made_of_its_new_record():
    documents = ConditionalDocuments()
    store, other = DocumentStore(documents), DocumentStore(documents)
    newer = make_record("new", version=2, vectors=(NORTH,))
    documents.meanwhile = lambda: other.put([make_record("a")])
    documents.before_undo = lambda: other.put([newer])
    with pytest.raises(ConflictError, match="a: another process"):
        store.put([make_record("new", vectors=(EAST,)), make_record("a")])
    assert store.get(["new"]) == [newer]
    assert store.check() == []
    assert_answers_rightly(store)


class Clock:
    """Replaces the module `time`."""

    def __init__(self):
        self.now = 1_000_000.0

    def time(self):
        return self.now

    monotonic = time

    def sleep(self, seconds):
        self.now += seconds


def test_the_lease_of_a_writer_ends_when_it_closes_or_is_gone_for_a_minute(monkeypatch):
    clock, spaces = Clock(), {}
    monkeypatch.setattr(module, "time", clock)
    first, second, third = (DocumentStore(DictDocuments(spaces)) for _ in range(3))
    first.put([make_record("a")])
    with pytest.raises(BusyError, match=r"lease ends in 60 s.*one process .* use"):
        second.put([make_record("b")])
    assert second.get(["a"]), "reading needs no lease"
    first.close()
    second.put([make_record("b")])
    clock.now += 61
    third.put([make_record("c")])
    with pytest.raises(BusyError):
        second.put([make_record("d")])
    assert [record.id for record in third.scan(Where())] == ["c", "b", "a"]


def test_a_lease_of_a_wrong_clock_does_not_last_forever(monkeypatch):
    clock, spaces = Clock(), {}
    monkeypatch.setattr(module, "time", clock)
    clock.now += 1e6
    DocumentStore(DictDocuments(spaces)).put([make_record("a")])
    clock.now -= 1e6
    with closing(DocumentStore(DictDocuments(spaces))) as store:
        store.put([make_record("b")])


def test_of_two_who_take_the_lease_at_once_one_is_refused(monkeypatch):
    clock, spaces = Clock(), {}
    monkeypatch.setattr(module, "time", clock)
    first, second = (DocumentStore(DictDocuments(spaces)) for _ in range(2))

    def take_over(seconds):
        spaces[ROWS].clear()
        monkeypatch.setattr(clock, "sleep", lambda seconds: None)
        second.put([make_record("b")])

    monkeypatch.setattr(clock, "sleep", take_over)
    with pytest.raises(BusyError, match="began to write"):
        first.put([make_record("a")])


def test_who_closes_late_leaves_the_lease_of_another(monkeypatch):
    clock, spaces = Clock(), {}
    monkeypatch.setattr(module, "time", clock)
    first, second, third = (DocumentStore(DictDocuments(spaces)) for _ in range(3))
    first.put([make_record("a")])
    clock.now += 61
    second.put([make_record("b")])
    first.close()
    with pytest.raises(BusyError):
        third.put([make_record("c")])


def test_a_fork_has_no_part_in_the_lease_of_its_parent(monkeypatch):
    store = DocumentStore(DictDocuments())
    store.put([make_record("a")])
    monkeypatch.setattr(module.os, "getpid", lambda: -1)
    with pytest.raises(BusyError, match="another process writes"):
        store.put([make_record("b")])


def test_of_two_former_writers_who_take_the_lease_at_once_one_is_refused(monkeypatch):
    clock, spaces = Clock(), {}
    monkeypatch.setattr(module, "time", clock)
    first, second = (DocumentStore(DictDocuments(spaces)) for _ in range(2))
    for store, id in ((first, "a"), (second, "b")):
        store.put([make_record(id)])
        clock.now += 61
    write = first.documents.write

    def come_second(space, documents):
        first.documents.write = write
        monkeypatch.setattr(clock, "sleep", lambda seconds: write(space, documents))  # While the second one waits.
        with pytest.raises(BusyError, match="began to write"):
            second.put([make_record("d")])
        write(space, documents)

    first.documents.write = come_second
    first.put([make_record("c")])
    assert [record.id for record in first.scan(Where())] == ["c", "b", "a"]


def test_a_lease_ends_while_the_machine_sleeps(monkeypatch):
    clock, spaces = Clock(), {}
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(clock, "monotonic", lambda: 1.0)
    first, second = (DocumentStore(DictDocuments(spaces)) for _ in range(2))
    first.put([make_record("a")])
    clock.now += 61
    second.put([make_record("b")])
    with pytest.raises(BusyError, match="another process writes"):
        first.put([make_record("c")])


def test_a_locked_database_is_not_used_after_a_fork(monkeypatch):
    store = DocumentStore(DictDocuments(is_locked=True))
    monkeypatch.setattr(module.os, "getpid", lambda: -1)
    with pytest.raises(BusyError, match=r"fork.*use"):
        store.get(["a"])


# --- conditions


def test_conditions_select_all_that_the_filter_accepts_and_little_more():
    records = [make_record("a", agent="x", tags=("t",)), make_record("b", links=("l",)), make_record("c", agent="x")]
    cases = {"ac": {"agents": ["x"]}, "a": {"tagged": ["t"], "agents": ["x"]}, "b": {"linked": ["l"]}}
    for ids, where in cases.items():
        rows = [Document(record.id, list_fields(record)) for record in records]
        assert "".join(row.key for row in rows if meets(row, compile_conditions(Where(**where)))) == ids


def test_ties_and_strict_filters_are_resolved_by_asking_for_more():
    store = DocumentStore(DictDocuments(is_locked=True))
    store.put([make_record(f"{i:03d}", vectors=(EAST,), body={"n": i % 100}) for i in range(500)])
    store.put([make_record("near", vectors=(quantize([1.0, 0.2]),), body={"n": 7})])
    assert [hit.id for hit in store.nearest(EAST, Where(), 2)] == ["000", "001"]
    hits = store.nearest(EAST, Where(fields={"n": 7}), 9)
    assert [hit.id for hit in hits] == ["007", "107", "207", "307", "407", "near"]
    assert hits[-1].score == cosine(EAST, quantize([1.0, 0.2]))
