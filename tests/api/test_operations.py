"""The list of operations is whole: each is told, typed, and its parameters explained."""

from __future__ import annotations

import pytest

from alma.operations import GROUPS, Effect, Group, operations

ALL = list(operations().values())


def test_an_operation_says_what_it_does() -> None:
    wrong = []
    for operation in ALL:
        is_sentence = operation.summary.endswith((".", "?", "…", ":")) or "\n" in operation.description
        if not is_sentence or len(operation.summary) >= 140:
            wrong.append(f"{operation.name}: {operation.summary}")
        if operation.group not in GROUPS:
            wrong.append(f"{operation.name}: unknown group {operation.group}")
        if operation.returns is None:
            wrong.append(f"{operation.name}: returns nothing")
    assert not wrong


def test_every_parameter_is_explained() -> None:
    wrong = []
    for operation in ALL:
        wrong += [
            f"{operation.name}.{parameter.name}" for parameter in operation.parameters if not parameter.about.text
        ]
    assert not wrong


def test_a_default_is_among_the_choices() -> None:
    wrong = []
    for operation in ALL:
        for parameter in operation.parameters:
            choices = parameter.about.choices
            has_default = not parameter.needed and parameter.default is not None
            if choices and has_default and parameter.default not in choices:
                wrong.append(f"{operation.name}.{parameter.name}")
    assert not wrong


def test_what_only_reads_can_be_called_twice() -> None:
    assert all(one.idempotent for one in ALL if one.effect is Effect.READS)


def test_a_name_is_given_once() -> None:
    with pytest.raises(ValueError, match="operation 'learn' is declared twice"):

        @Group("memories")(Effect.READS)
        def learn() -> None: ...
