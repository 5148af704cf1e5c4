"""How much work a call is, on machines that do other things besides."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def cpu_seconds(call: Callable[[], object], tries: int = 3, enough: float = 0.0) -> float:
    """Return the CPU time of this thread that `call` takes, the least of some tries, without garbage collection.

    Other processes and a busy host only add to a time, so a limit is checked with many tries: the first one that takes
    at most `enough` seconds is the last.
    """
    lowest = float("inf")
    gc.disable()
    try:
        for _ in range(tries):
            began = time.thread_time()
            call()
            lowest = min(lowest, time.thread_time() - began)
            if lowest <= enough:
                break
    finally:
        gc.enable()
    return lowest


def is_linear(make_call: Callable[[int], Callable[[], object]], size: int, rounds: int = 10) -> bool:
    """Return whether a call on ten times as much takes at most twenty times as long.

    The two are measured in turns, and the lowest of each counts. A time below a millisecond counts as one. A call whose
    time grows with the square of the size takes a hundred times as long in each round.
    """
    small, large = make_call(size), make_call(10 * size)
    lowest_small = lowest_large = float("inf")
    for _ in range(rounds):
        lowest_small = min(lowest_small, cpu_seconds(small, 1))
        lowest_large = min(lowest_large, cpu_seconds(large, 1))
        if lowest_large <= 20 * max(lowest_small, 1e-3):
            return True
    return False
