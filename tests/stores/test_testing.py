"""The contract is only worth something if it catches stores that break it."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta

import pytest

from alma.errors import ConflictError
from alma.stores.memory import MemoryStore
from alma.testing import MOMENT, FakeEmbedder, FrozenClock, StoreContract, make_record
from alma.testing.contract import agree
from alma.types.query import Hit, Where
from alma.types.record import cosine

pytestmark = pytest.mark.system


class WritesInPart(MemoryStore):
    def put(self, records):
        for record in records:
            super().put([record])


class TakesAnyVersion(MemoryStore):
    def put(self, records):
        for record in records:
            try:
                super().put([record])
            except ConflictError:
                self.delete([record.id])
                super().put([record])


class FiltersAfterRanking(MemoryStore):
    def nearest(self, vector, where, limit):
        wanted = {record.id for record in self.scan(where)}
        return [hit for hit in super().nearest(vector, Where(), limit) if hit.id in wanted]


class TakesAnEmptyCollectionForNone(MemoryStore):
    def scan(self, where, limit=None):
        given = {field.name: getattr(where, field.name) for field in fields(where)}
        return super().scan(Where(**{name: value or None for name, value in given.items()}), limit)


class LooksAtTheFirstVectorOnly(MemoryStore):
    def nearest(self, vector, where, limit):
        hits = [
            Hit(record.id, cosine(vector, record.vectors[0]))
            for record in self.scan(where)
            if record.vectors and len(record.vectors[0]) == len(vector)
        ]
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit]


class OldestFirst(MemoryStore):
    def scan(self, where, limit=None):
        return iter(list(super().scan(where))[::-1][:limit])


class LosesTags(MemoryStore):
    def put(self, records):
        super().put([replace(record, tags=tuple(sorted(set(record.tags)))) for record in records])


class HidesALimit(MemoryStore):
    limits = {}


class ExplainsNoLimit(MemoryStore):
    limits = {"persistent": "no", "many writers": "no"}


@pytest.mark.parametrize("broken", [HidesALimit, ExplainsNoLimit])
def test_a_limit_must_be_declared_and_explained(broken):
    contract = StoreContract()
    contract.make_store = broken
    contract.setup_method()
    with pytest.raises((AssertionError, NotImplementedError)):
        contract.test_records_outlive_the_handle()
    contract.teardown_method()


BROKEN = {
    WritesInPart: "test_a_version_that_is_no_greater_conflicts_and_leaves_nothing_of_the_whole_put",
    TakesAnyVersion: "test_a_version_that_is_no_greater_conflicts_and_leaves_nothing_of_the_whole_put",
    FiltersAfterRanking: "test_the_filter_comes_before_the_ranking",
    TakesAnEmptyCollectionForNone: "test_each_condition_filters",
    LooksAtTheFirstVectorOnly: "test_nearest_ranks_by_the_cosine_of_the_best_vector",
    OldestFirst: "test_scan_gives_the_newest_first_and_among_equals_the_greatest_id",
    LosesTags: "test_every_record_comes_back",
}


@pytest.mark.parametrize(("broken", "test"), BROKEN.items())
def test_a_broken_store_fails_the_test_that_says_so(broken, test):
    contract = StoreContract()
    contract.make_store = broken
    contract.setup_method()
    with pytest.raises(AssertionError):
        getattr(contract, test)()
    contract.teardown_method()


@pytest.mark.parametrize("broken", BROKEN)
def test_random_histories_find_a_broken_store(broken):
    with pytest.raises(AssertionError):
        agree(broken, examples=300, shrink=False)


def test_a_store_is_described_before_it_is_tested():
    with pytest.raises(NotImplementedError, match=r"self\.folder"):
        StoreContract().make_store()
    with pytest.raises(NotImplementedError, match="persistent"):
        StoreContract().open_again(MemoryStore())


def test_a_frozen_clock_goes_on_when_told():
    clock = FrozenClock()
    assert clock() == clock() == MOMENT
    assert clock.advance(days=1) == clock() == MOMENT + timedelta(days=1)


def test_the_fake_embedder_puts_texts_with_common_words_near_each_other():
    embedder = FakeEmbedder()
    one, same, near, far = embedder.embed(["fix the login", "fix the login", "fix the logout", "bake some bread"])
    assert len(one) == embedder.dim
    assert one == same
    assert cosine(one, near) > cosine(one, far)


def test_make_record_takes_any_field():
    assert make_record("x", agent="y").agent == "y"
