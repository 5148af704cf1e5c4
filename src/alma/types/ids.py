"""Ids sort by the moment they were made: a prefix that tells the kind, 48 bits of milliseconds, 80 random bits."""

from __future__ import annotations

import os
import threading
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_lock = threading.Lock()
_last = 0


def _base32(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        digits.append(_ALPHABET[number & 31])
        number >>= 5
    return "".join(reversed(digits))


def new_id(prefix: str) -> str:
    """A fresh id, greater than every id this process made before."""
    global _last
    fresh = (time.time_ns() // 1_000_000 << 80) | int.from_bytes(os.urandom(10), "big")
    with _lock:
        # Within one millisecond, or when the clock steps back, count on from the last one.
        _last = fresh if fresh > _last else _last + 1
        value = _last
    return f"{prefix}_{_base32(value, 26)}"
