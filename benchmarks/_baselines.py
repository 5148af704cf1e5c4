"""Baselines to compare alma with: exact vector search in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import numpy as np

from alma.text import passages
from alma.types import speech
from alma.types.record import Vector

from ._data import Haystack, Turn
from ._embedder import Remembering
from ._trial import Ingest, Level

Array = np.ndarray[Any, np.dtype[Any]]


class Dense:
    """Rank turns by the cosine of alma's own vectors; a session ranks as its nearest turn."""

    name = "dense only"
    levels: tuple[Level, ...] = ("session", "turn")

    def __init__(self, embedder: Remembering) -> None:
        self.ingest = Ingest()
        self._embedder = embedder

    @contextmanager
    def opened(self, haystack: Haystack) -> Iterator[Nearest]:
        pieces = [
            (session.id, turn.id, piece)
            for session in haystack.sessions
            for turn in session.turns
            for passage in speech.passages(turn.speaker, turn.text)
            for piece in passages(passage, self._embedder.passage_chars)
        ]
        vectors = self._embedder.embed([piece for _, _, piece in pieces])
        yield Nearest(
            self._embedder,
            vectors,
            {"session": [session for session, _, _ in pieces], "turn": [turn for _, turn, _ in pieces]},
        )
        self._embedder.save()


class OneVector:
    """Rank sessions by one vector each, of as much of the session's text as the model reads.

    In conversations with an assistant only the user's text is used, which works far better than the whole.
    """

    name = "one vector a session"
    levels: tuple[Level, ...] = ("session",)

    def __init__(self, embedder: Remembering) -> None:
        self.ingest = Ingest()
        self._embedder = embedder

    @contextmanager
    def opened(self, haystack: Haystack) -> Iterator[Nearest]:
        vectors = self._embedder.embed([_read(session.own) for session in haystack.sessions])
        yield Nearest(self._embedder, vectors, {"session": [session.id for session in haystack.sessions]})
        self._embedder.save()


class Nearest:
    """Ranks all vectors by cosine; `owners` maps each vector to its item, per level."""

    def __init__(self, embedder: Remembering, vectors: Sequence[Vector], owners: dict[Level, list[str]]) -> None:
        self._embedder = embedder
        self._matrix = np.stack([_unit(vector) for vector in vectors])
        self._owners = owners

    def search(self, question: str, at: datetime | None, level: Level, top_k: int) -> list[str]:
        with self._embedder.forgetful():
            [vector] = self._embedder.embed([question])
        scores = self._matrix @ _unit(vector)
        owners = self._owners[level]
        found = dict.fromkeys(owners[place] for place in np.argsort(-scores, kind="stable"))
        return list(found)[:top_k]


def _read(turns: Sequence[Turn]) -> str:
    return "\n".join(speech.by_name(turn.speaker, turn.text) for turn in turns)


def _unit(vector: Vector) -> Array:
    values = np.frombuffer(vector, dtype=np.int8).astype(np.float32)
    return values / max(float(np.linalg.norm(values)), 1e-9)
