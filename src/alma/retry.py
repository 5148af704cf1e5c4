"""Retries with pauses, and secrets that are never printed, for the clients of models, embedders and databases."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from time import sleep
from typing import TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=Exception)

BACKOFF, LONGEST_WAIT = 0.5, 30.0
"""Seconds: the first pause, which doubles each time, and the longest."""


class Secret(str):
    """A key. Its representation, which may end up in a log, does not show it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


def call_with_retries(
    call: Callable[[], T],
    transient: type[E] | tuple[type[E], ...],
    retries: int,
    choose_pause: Callable[[int, E], float | None],
) -> T:
    """Return what `call` returns; after a transient error it is called again, at most so many times.

    `choose_pause` returns how many seconds to wait after a failed try, counted from 0; None to give up.
    """
    for attempt in range(retries):
        try:
            return call()
        except transient as error:
            pause = choose_pause(attempt, error)
            if pause is None:
                raise
        sleep(pause)
    return call()


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the header `Retry-After` asks for, as a number or as a date; None when it does not."""
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return max(0.0, seconds) if seconds == seconds else None
