"""Ids sort by the moment they were made: a prefix that tells the kind, 48 bits of milliseconds, 80 random bits."""

from __future__ import annotations

import os
import threading
import time

from ..forks import hold_at_fork

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]
_lock = hold_at_fork(threading.Lock())
_last = 0


def _base32(number: int) -> str:
    """128 bits as 26 characters that sort like the number."""
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


def new_id(prefix: str) -> str:
    """A fresh id, greater than every id this process made before."""
    global _last
    fresh = (time.time_ns() // 1_000_000 << 80) | int.from_bytes(os.urandom(10), "big")
    with _lock:
        # Within one millisecond, or when the clock steps back, count on from the last one.
        _last = fresh if fresh > _last else _last + 1
        value = _last
    return f"{prefix}_{_base32(value)}"
