"""How much work a call is, on machines that do other things besides."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def cpu_seconds(call: Callable[[], object], tries: int = 3) -> float:
    """Return the CPU time of this thread that `call` takes, the least of some tries, without garbage collection."""
    costs = []
    gc.disable()
    try:
        for _ in range(tries):
            began = time.thread_time()
            call()
            costs.append(time.thread_time() - began)
    finally:
        gc.enable()
    return min(costs)
