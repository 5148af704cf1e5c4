"""Vectors without a model: words and their letter trigrams hashed into signed dimensions.

Texts that share words are close, others are not; paraphrases are not found. Each word is one big integer with a
lane of eight bits per dimension, so that a text is a sum of integers.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from collections.abc import Sequence
from functools import lru_cache, partial

from ..types.record import Vector, codes, quantize

WORD = re.compile(r"\w+")
CACHED_WORDS = 16_384
SPREAD = 4
LANE_PEAK = 4
WORDS_PER_SUM = 127 // LANE_PEAK


class HashEmbedder:
    """An embedder that hashes words and parts of words. It needs no model."""

    passage_chars = 4_000

    def __init__(self, dim: int = 384) -> None:
        self.dim = dim
        self.name = f"hash-{dim}"
        self._bias = int.from_bytes(b"\x80" * dim, "little")
        self._lanes = lru_cache(CACHED_WORDS)(partial(_lanes, dim))

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector for each text."""
        return [self._embed(text) for text in texts]

    def knows(self, text: str) -> bool:
        """Return False: these vectors represent letters, not meaning."""
        return False

    def close(self) -> None:
        """Free the cache."""
        self._lanes.cache_clear()

    def _embed(self, text: str) -> Vector:
        words = WORD.findall(text.casefold()) or text.split()
        if len(words) <= WORDS_PER_SUM:
            return self._sum(words)
        starts = range(0, len(words), WORDS_PER_SUM)
        parts = [codes(self._sum(words[at : at + WORDS_PER_SUM])) for at in starts]
        return quantize([float(sum(lane)) for lane in zip(*parts, strict=True)])

    def _sum(self, words: Sequence[str]) -> Vector:
        """Lanes may borrow from each other while they are added; the bias makes every lane positive again."""
        total = sum(map(self._lanes, words)) + self._bias
        return (total ^ self._bias).to_bytes(self.dim, "little")


def _lanes(dim: int, word: str) -> int:
    """Return the weight of a word; a short word is mostly grammar and weighs less."""
    data = word.encode("utf-8", "surrogatepass")
    whole = struct.unpack(f"<{SPREAD}I", hashlib.blake2b(data, digest_size=4 * SPREAD).digest())
    is_long = len(word) > 3
    strikes = [(hashed, 3 if is_long else 1) for hashed in whole]
    if is_long:
        framed = b"^" + data + b"$"
        strikes += [(zlib.crc32(framed[at : at + 3]), 1) for at in range(len(data))]
    lanes = bytearray(dim), bytearray(dim)
    for hashed, weight in strikes:
        lane, at = lanes[hashed & 1], (hashed >> 1) % dim
        if lane[at] < LANE_PEAK - 2:
            lane[at] += weight
    minus, plus = (int.from_bytes(lane, "little") for lane in lanes)
    return plus - minus
