"""A clock that is set back does not decide what is so."""

from __future__ import annotations

from typing import Any

import pytest

from alma import ALMA


@pytest.fixture
def alma(open_alma: Any) -> ALMA:
    opened: ALMA = open_alma()
    return opened


def shown(alma: ALMA, **options: Any) -> list[str]:
    found = alma.retrieve("When is the deploy window?", "dev", **options)
    return [one.fact for one in found.domain_knowledge]


@pytest.mark.parametrize("seconds", [2, 86_400])
def test_a_fact_that_arrives_later_holds(alma: ALMA, clock: Any, seconds: int) -> None:
    old = alma.add_domain_knowledge("dev", "ops", "The deploy window is 9 to 17 h")
    clock.pass_days(-seconds / 86_400)
    new = alma.add_domain_knowledge("dev", "ops", "The deploy window is 8 to 18 h")
    assert (new.status, alma.get(old.id).status) == ("active", "superseded")
    assert shown(alma) == [new.fact]
    clock.pass_days(-seconds / 86_400)
    assert shown(alma) == [new.fact], "it holds although its time is still ahead"
    last = alma.add_domain_knowledge("dev", "ops", "The deploy window is 7 to 19 h")
    assert [one.id for one in alma.list("domain_knowledge")] == [last.id]
    assert shown(alma) == [last.fact]
    assert alma.history(old.id)[-1]["verb"] == "superseded"


def test_a_preference_that_arrives_later_holds(alma: ALMA, clock: Any) -> None:
    alma.add_user_preference("ana", "editor", "My editor is vim")
    clock.pass_days(-2 / 86_400)
    new = alma.add_user_preference("ana", "editor", "My editor is emacs")
    assert new.status == "active"
    assert [one.id for one in alma.retrieve("Open a file", "dev", "ana").preferences] == [new.id]


def test_what_held_before_is_found_with_as_of(alma: ALMA, clock: Any) -> None:
    old = alma.add_domain_knowledge("dev", "ops", "The deploy window is 9 to 17 h")
    clock.pass_days(1)
    between = clock()
    clock.pass_days(1)
    new = alma.add_domain_knowledge("dev", "ops", "The deploy window is 8 to 18 h")
    assert shown(alma, as_of=between) == [old.fact]
    assert shown(alma) == [new.fact]
