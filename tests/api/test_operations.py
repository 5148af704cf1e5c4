"""The list of operations is whole: each is told, typed, and its parameters explained."""

from __future__ import annotations

import pytest

from alma.operations import GROUPS, Effect, Group, Operation, operations

ALL = list(operations().values())


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_an_operation_says_what_it_does(one: Operation) -> None:
    assert one.summary.endswith((".", "?", "…", ":")) or "\n" in one.description
    assert len(one.summary) < 140
    assert one.group in GROUPS
    assert one.returns is not None


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_every_parameter_is_explained(one: Operation) -> None:
    assert not [parameter.name for parameter in one.parameters if not parameter.about.text]


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_a_default_is_among_the_choices(one: Operation) -> None:
    for parameter in one.parameters:
        if parameter.about.choices and not parameter.needed and parameter.default is not None:
            assert parameter.default in parameter.about.choices


def test_what_only_reads_can_be_called_twice() -> None:
    assert all(one.idempotent for one in ALL if one.effect is Effect.READS)


def test_a_name_is_given_once() -> None:
    with pytest.raises(ValueError, match="operation 'learn' is declared twice"):

        @Group("memories")(Effect.READS)
        def learn() -> None: ...
