"""`add_rule` with an idempotency key adds one rule, once, in every interface."""

from __future__ import annotations

import pytest

from alma import ALMA
from alma.errors import NotFoundError, ValidationError

RULE = "use pnpm instead of npm"


def test_the_same_key_adds_and_counts_once(alma: ALMA) -> None:
    rules = [alma.add_rule("dev", RULE, idempotency_key="k1") for _ in range(3)]
    assert len({one.id for one in rules}) == 1
    assert alma.get(rules[0].id).repeats == 0
    assert alma.add_rule("dev", RULE, idempotency_key="k2").repeats == 1


def test_a_key_belongs_to_one_rule_of_one_project(alma: ALMA) -> None:
    alma.add_rule("dev", RULE, idempotency_key="k1")
    with pytest.raises(ValidationError, match="already used with other arguments"):
        alma.add_rule("dev", "never use yarn", idempotency_key="k1")


def test_a_deleted_rule_is_not_added_again(alma: ALMA) -> None:
    alma.delete(alma.add_rule("dev", RULE, idempotency_key="k1").id)
    with pytest.raises(NotFoundError, match="deleted since; it is not stored again"):
        alma.add_rule("dev", RULE, idempotency_key="k1")
    assert alma.add_rule("dev", RULE, idempotency_key="k2").rule == RULE


def test_a_replaced_rule_does_not_come_back(alma: ALMA) -> None:
    alma.add_rule("dev", RULE, idempotency_key="k1")
    later = alma.add_rule("dev", "use npm instead of pnpm")
    assert alma.add_rule("dev", RULE, idempotency_key="k1").status == "superseded"
    assert [one.id for one in alma.list("rule")] == [later.id]
