"""Many things from a file, told in batches: what is refused is named by its line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import NotFoundError, ScopeError, ValidationError
from .output import Progress
from .reading import read, read_object

M = TypeVar("M")
Send = Callable[[list[dict[str, Any]]], list[M]]

_BATCH = 100
_REFUSED = (ValidationError, ScopeError, NotFoundError)


@dataclass(frozen=True, slots=True)
class Told:
    place: str
    """Such as `outcomes.jsonl, line 3`."""
    given: dict[str, Any]


def lines(source: str, what: str, gaps: Mapping[str, Any]) -> Iterator[Told]:
    """The objects of a file of JSON Lines; `gaps` are filled where a line does not say it."""
    for number, text in enumerate(read(source).split("\n"), 1):
        if text.strip():
            place = f"{source}, line {number}"
            yield Told(place, {**gaps, **read_object(place, text, what)})


def sent(told: Sequence[Told], send: Send[M], progress: Progress) -> list[M]:
    """All of them, a batch after the other; each batch is kept whole or not at all."""
    made: list[M] = []
    for start in range(0, len(told), _BATCH):
        made += _batch(told[start : start + _BATCH], send, start)
        progress(len(made), len(told))
    return made


def _batch(batch: Sequence[Told], send: Send[M], before: int) -> list[M]:
    try:
        return send([one.given for one in batch])
    except _REFUSED:
        # Nothing of the batch was written. One by one it becomes clear which line it is.
        made: list[M] = []
        for one in batch:
            made += _alone(one, send, before + len(made))
        return made


def _alone(one: Told, send: Send[M], before: int) -> list[M]:
    try:
        return send([one.given])
    except _REFUSED as error:
        kept = f"; the {before} before it were recorded, so go on from this line" if before else ""
        raise type(error)(f"{one.place}: {error}{kept}") from error
