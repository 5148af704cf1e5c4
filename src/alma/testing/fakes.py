"""Stand-ins that do the same thing every time."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ..types.record import Record, Vector, quantize

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


class FrozenClock:
    """Stands still until it is told to go on."""

    def __init__(self, moment: datetime = MOMENT) -> None:
        self.moment = moment

    def __call__(self) -> datetime:
        return self.moment

    def advance(self, **by: float) -> datetime:
        """`advance(days=1)`: the arguments of timedelta."""
        self.moment += timedelta(**by)
        return self.moment


class FakeEmbedder:
    """Texts that share words are near each other; nothing is understood."""

    passage_chars = 1000

    def __init__(self, dim: int = 64) -> None:
        self.dim = dim
        self.name = f"fake-{dim}"

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        vectors = []
        for text in texts:
            values = [0.0] * self.dim
            for word in text.lower().split():
                digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
                values[int.from_bytes(digest[:4], "big") % self.dim] += 1.0 if digest[4] & 1 else -1.0
            vectors.append(quantize(values))
        return vectors

    def close(self) -> None:
        """Holds nothing."""


def make_record(id: str = "a", **fields: Any) -> Record:
    """A record with as little in it as possible."""
    given: dict[str, Any] = {"kind": "heuristic", "project": "p", "created_at": MOMENT, "updated_at": MOMENT} | fields
    return Record(id=id, **given)
