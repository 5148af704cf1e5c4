"""Declares operations that are functions of a memory; their group is the name of their module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..operations import PROGRESS, About, Effect, Group, Operation, Parameter

F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["PROGRESS", "About", "Effect", "Operation", "Parameter", "operation"]


def operation(effect: Effect, name: str = "", **options: Any) -> Callable[[F], F]:
    def declare(function: F) -> F:
        return Group(function.__module__.rpartition(".")[2])(effect, name, **options)(function)

    return declare
