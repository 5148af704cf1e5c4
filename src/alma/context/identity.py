"""The first layer: who an agent is."""

from __future__ import annotations

from collections.abc import Sequence

from ..engine.context import Engine
from ..engine.inject.escape import escape
from ..engine.inject.prompt import tokens
from ..engine.text import shorten
from ..types.scope import MemoryScope

_NAME_CHARS = 40


def identity(engine: Engine, agent: str, user: str | None, max_tokens: int) -> str:
    """As many of its sentences as there is room for, the most important first."""
    told: list[str] = []
    for sentence in _sentences(engine, agent, user):
        if tokens("\n".join([*told, sentence])) <= max_tokens:
            told.append(sentence)
    return "\n".join(told)


def _sentences(engine: Engine, agent: str, user: str | None) -> list[str]:
    scope = engine.scope(agent)
    found = [f"You are {_name(agent)}, in the project {_name(engine.project)}."]
    if user is not None:
        found.append(f"You work for {_name(user)}.")
    if scope.domain:
        found.append(f"Your domain is {_name(scope.domain)}.")
    return [*found, *_learning(scope)]


def _learning(scope: MemoryScope) -> list[str]:
    found = []
    if scope.cannot_learn:
        found.append(f"You do not learn about {_names(scope.cannot_learn)}.")
    if learns := [one for one in scope.can_learn if scope.is_allowed(one)]:
        found.append(f"You learn about {_names(learns)}.")
    return found


def _name(text: str) -> str:
    return escape(shorten(text, _NAME_CHARS))


def _names(given: Sequence[str], most: int = 6) -> str:
    more = f" and {len(given) - most} more" if len(given) > most else ""
    return ", ".join(_name(one) for one in given[:most]) + more
