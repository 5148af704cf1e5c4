"""Which operations run now, which wait, and which are refused because they would wait too long.

More operations at a time than there are processors make each of them slower and none of them sooner. So few run, the
next ones wait in order, and what would wait too long is refused at once, with the time after which to try again.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic

import anyio

OVERLOADED = "Overloaded"
_LONGEST_RETRY = 30
_WEIGHT = 0.1
"""How much the last operation counts in the mean duration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRules:
    """How many operations run and wait."""

    at_once: int = 16
    """So many run at the same time."""
    at_once_per_token: int = 4
    """So many of one token, so that slow calls leave room for other clients."""
    queue: int = 64
    """So many of one token wait for their turn."""
    max_wait: float = 2.0
    """So many seconds at most."""


class OverloadedError(Exception):
    """Raised for an operation that is refused, and was not begun."""

    def __init__(self, message: str, retry_seconds: int) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds


class Admission:
    """Lets operations in, in the order in which they came; those of each token wait in a queue of their own."""

    def __init__(self, rules: AdmissionRules) -> None:
        self._rules = rules
        self._running = anyio.CapacityLimiter(rules.at_once)
        self._tokens: dict[str, anyio.CapacityLimiter] = {}
        self._mean_seconds = 0.0
        self._waiting = 0
        self.count_waiting: Callable[[float], object] = float
        """Called with the number of operations that wait, whenever it changes."""

    @asynccontextmanager
    async def admit(self, token: str) -> AsyncIterator[None]:
        """Wait for a turn and hold it. Raise OverloadedError if too many wait, or if it does not come in time."""
        per_token = min(self._rules.at_once_per_token, self._rules.at_once)
        own = self._tokens.setdefault(token, anyio.CapacityLimiter(per_token))
        if not self._take_free(own):
            await self._wait_for_turn(own)
        began = monotonic()
        try:
            yield
        finally:
            self._mean_seconds += _WEIGHT * (monotonic() - began - self._mean_seconds)
            self._running.release()
            own.release()

    def _take_free(self, own: anyio.CapacityLimiter) -> bool:
        """Take a turn if nobody has to wait for one."""
        try:
            own.acquire_nowait()
        except anyio.WouldBlock:
            return False
        try:
            self._running.acquire_nowait()
        except anyio.WouldBlock:
            own.release()
            return False
        return True

    async def _wait_for_turn(self, own: anyio.CapacityLimiter) -> None:
        if own.statistics().tasks_waiting >= self._rules.queue:
            raise self._refuse(f"{self._rules.queue} operations of this token are waiting already")
        self._count(1)
        try:
            with anyio.move_on_after(self._rules.max_wait) as limit:
                await own.acquire()
                try:
                    await self._running.acquire()
                except BaseException:
                    own.release()
                    raise
        finally:
            self._count(-1)
        if limit.cancelled_caught:
            raise self._refuse(f"the operation waited for {self._rules.max_wait:g} s")

    def _count(self, change: int) -> None:
        self._waiting += change
        self.count_waiting(self._waiting)

    def _refuse(self, reason: str) -> OverloadedError:
        """Return the refusal, with the seconds after which those who wait now will have had their turn."""
        turns = math.ceil((self._waiting + 1) / self._rules.at_once_per_token)
        seconds = min(_LONGEST_RETRY, max(1, math.ceil(turns * self._mean_seconds)))
        return OverloadedError(f"the server is busy: {reason}; retry in {seconds} s", seconds)
