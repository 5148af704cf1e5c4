"""A clock that is set back does not decide what is so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.stores.memory import MemoryStore
from alma.types.record import Vector


@pytest.fixture
def alma(open_alma: Any) -> ALMA:
    opened: ALMA = open_alma()
    return opened


def shown(alma: ALMA, **options: Any) -> list[str]:
    found = alma.retrieve("When is the deploy window?", "dev", **options)
    return [one.fact for one in found.domain_knowledge]


@pytest.mark.parametrize("seconds", [2, 86_400])
def test_a_fact_that_arrives_later_holds(alma: ALMA, clock: Any, seconds: int) -> None:
    old = alma.add_domain_knowledge("dev", "ops", "The deploy window is 9 to 17 h", attribute="window")
    clock.pass_days(-seconds / 86_400)
    new = alma.add_domain_knowledge("dev", "ops", "The deploy window is 8 to 18 h", attribute="window")
    assert (new.status, alma.get(old.id).status) == ("active", "superseded")
    assert shown(alma) == [new.fact]
    clock.pass_days(-seconds / 86_400)
    assert shown(alma) == [new.fact], "it holds although its time is still ahead"
    last = alma.add_domain_knowledge("dev", "ops", "The deploy window is 7 to 19 h", attribute="window")
    assert [one.id for one in alma.list("domain_knowledge")] == [last.id]
    assert shown(alma) == [last.fact]
    assert alma.history(old.id)[-1]["verb"] == "superseded"


def test_a_preference_that_arrives_later_holds(alma: ALMA, clock: Any) -> None:
    alma.add_user_preference("ana", "editor", "My editor is vim", attribute="editor")
    clock.pass_days(-2 / 86_400)
    new = alma.add_user_preference("ana", "editor", "My editor is emacs", attribute="editor")
    assert new.status == "active"
    assert [one.id for one in alma.retrieve("Open a file", "dev", "ana").preferences] == [new.id]


def test_what_held_before_is_found_with_as_of(alma: ALMA, clock: Any) -> None:
    old = alma.add_domain_knowledge("dev", "ops", "The deploy window is 9 to 17 h", attribute="window")
    clock.pass_days(1)
    between = clock()
    clock.pass_days(1)
    new = alma.add_domain_knowledge("dev", "ops", "The deploy window is 8 to 18 h", attribute="window")
    assert shown(alma, as_of=between) == [old.fact]
    assert shown(alma) == [new.fact]


def test_a_memory_is_dated_when_it_is_stored_not_when_its_vectors_were_begun() -> None:
    """What reads only what changed since its last run would pass over it."""
    moments = [datetime(2026, 3, 1, 12, tzinfo=UTC)]

    class SlowEmbedder(HashEmbedder):
        def embed(self, texts: Sequence[str]) -> list[Vector]:
            moments[0] += timedelta(minutes=30)
            return super().embed(texts)

    with ALMA(MemoryStore(), SlowEmbedder(), clock=lambda: moments[0]) as alma:
        fact = alma.add_domain_knowledge("dev", "ops", "Deploys happen on Tuesdays")
        [record] = alma.engine.store.get([fact.id])
    assert record.updated_at == moments[0]


def test_undo_takes_back_the_newest_change_after_the_clock_was_set_back(open_alma: Any, clock: Any) -> None:
    first = open_alma()
    first.add_domain_knowledge("dev", "birds", "Ducks dive")
    kept = first.add_domain_knowledge("dev", "birds", "Geese graze")
    first.close()
    clock.pass_days(-30)
    alma = open_alma()
    alma.add_domain_knowledge("dev", "birds", "Swans hiss")
    alma.update(kept.id, fact="Geese graze at dawn")
    undone = [alma.undo().memories[0].before.partition("\n")[2] for _ in range(3)]
    assert undone == ["Geese graze at dawn", "Swans hiss", "Geese graze"]
