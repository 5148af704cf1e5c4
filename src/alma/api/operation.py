"""What an operation is: a typed function over a memory, with what a program or a model must know to call it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

F = TypeVar("F", bound=Callable[..., Any])

MEMORY = "alma"
"""The first parameter of every operation, which is no argument of its callers."""
PROGRESS = "progress"
"""A parameter of long operations: a function that is told how many are done, and of how many."""


class Effect(StrEnum):
    READS = "reads"
    """What is noted about a retrieval for later judging is no change."""
    ADDS = "adds"
    CHANGES = "changes"
    ERASES = "erases"
    """Takes something away that cannot be had back."""


@dataclass(frozen=True, slots=True)
class About:
    """What a parameter means, and which values are valid."""

    text: str
    choices: tuple[str, ...] = ()
    local: bool = False
    """A path on the machine of the memory: whoever calls from elsewhere may not name one."""
    uri: bool = False
    """It may be a URI instead, which nobody opens."""
    rule_file: bool = False
    """A local path that must be a file which coding agents read rules from."""
    is_root: bool = False
    """A local path without which the folder around the current one is taken."""
    vouches: bool = False
    """True takes outside content for a person's own words: only a person may."""


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: Any
    """As it is annotated, without what is told about it."""
    about: About
    needed: bool
    default: Any = None


@dataclass(frozen=True)
class Operation:
    name: str
    run: Callable[..., Any]
    effect: Effect
    idempotent: bool
    """Called twice with the same arguments it does no more than once."""
    group: str
    """What it has to do with: memories, work, sessions, and so on."""
    for_models: bool = True
    """A model may choose it. What is only there for programs, such as many calls in one, would stand in its way."""
    on_files: bool = False
    """It works on files of the machine that it runs on: it is not for those who call from elsewhere."""

    @cached_property
    def description(self) -> str:
        return inspect.getdoc(self.run) or ""

    @property
    def summary(self) -> str:
        return self.description.partition("\n")[0]

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        return tuple(_parameters(self.run))

    @property
    def is_long(self) -> bool:
        """It can tell how far it is."""
        return PROGRESS in inspect.signature(self.run).parameters

    @cached_property
    def returns(self) -> Any:
        return get_type_hints(self.run)["return"]


OPERATIONS: dict[str, Operation] = {}
"""All of them by name, in the order in which they are told."""


def operation(
    effect: Effect,
    name: str = "",
    *,
    idempotent: bool | None = None,
    for_models: bool = True,
    on_files: bool = False,
) -> Callable[[F], F]:
    """A decorator that puts a function on the list, and leaves it as it is."""

    def listed(function: F) -> F:
        made = Operation(
            name=name or function.__name__,
            run=function,
            effect=effect,
            idempotent=effect is Effect.READS if idempotent is None else idempotent,
            group=function.__module__.rpartition(".")[2],
            for_models=for_models,
            on_files=on_files,
        )
        if made.name in OPERATIONS:
            raise ValueError(f"there are two operations of the name {made.name!r}")
        OPERATIONS[made.name] = made
        return function

    return listed


def _parameters(function: Callable[..., Any]) -> Iterator[Parameter]:
    hints = get_type_hints(function, include_extras=True)
    for name, one in inspect.signature(function).parameters.items():
        if name in (MEMORY, PROGRESS):
            continue
        kind, about = _told(hints[name])
        needed = one.default is inspect.Parameter.empty
        yield Parameter(name, kind, about or About(""), needed, None if needed else one.default)


def _told(hint: Any) -> tuple[Any, About | None]:
    if get_origin(hint) is not Annotated:
        return hint, None
    kind, *extras = get_args(hint)
    return kind, next((one for one in extras if isinstance(one, About)), None)
