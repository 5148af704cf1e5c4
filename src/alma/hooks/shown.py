"""Which rules a context already holds: ids, one a line; those of a subagent, whose context is its own, with its id.

An id with an exclamation mark: the rule was brought up at a tool call, because it was not followed before.
"""

from __future__ import annotations

import os

from .place import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST = 1_000_000
_FLAGS = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0)


def read(place: Place, session: str, agent: str = "") -> set[str]:
    try:
        with open(place.shown(session), "rb") as file:
            lines = file.read(_MOST).decode("utf-8", "replace").split("\n")
    except FileNotFoundError:
        return set()
    parts = (line.partition(" ") for line in lines if line)
    return {id for id, _, shown_to in parts if shown_to == agent}


def add(place: Place, session: str, ids: Iterable[str], agent: str = "") -> None:
    _write(place, session, ids, agent, os.O_APPEND)


def start(place: Place, session: str, ids: Iterable[str]) -> None:
    """The context is empty but for these."""
    _write(place, session, ids, "", os.O_TRUNC)


def _write(place: Place, session: str, ids: Iterable[str], agent: str, how: int) -> None:
    behind = f" {agent}".rstrip()
    text = "".join(f"{id}{behind}\n" for id in ids)
    file = os.open(place.shown(session), _FLAGS | how, 0o600)
    try:
        os.write(file, text.encode("utf-8", "replace"))
    finally:
        os.close(file)
