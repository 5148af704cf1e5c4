"""alma through its public interface: `add_episodes` into a SQLite store, then `retrieve`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from alma import ALMA
from alma.stores.sqlite import SQLiteStore

from ._data import Haystack, Session
from ._embedder import Remembering
from ._trial import Ingest, Level

AGENT = "bench"
_BATCH = 32
_EARLIEST = datetime.min.replace(tzinfo=UTC)


class Clock:
    """A clock that the runner sets: to the time of the session being stored, or of the question."""

    def __init__(self) -> None:
        self.moment = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.moment

    def set(self, moment: datetime | None) -> None:
        self.moment = moment or self.moment


class Product:
    levels: tuple[Level, ...] = ("session", "turn")

    def __init__(self, name: str, embedder: Remembering | None) -> None:
        self.name = name
        self.ingest = Ingest()
        self._embedder = embedder

    @contextmanager
    def opened(self, haystack: Haystack) -> Iterator[Searching]:
        clock = Clock()
        with tempfile.TemporaryDirectory() as folder:
            store = SQLiteStore(Path(folder) / "alma.db")
            with ALMA(store, self._embedder, project_id="bench", clock=clock) as alma:
                self._fill(alma, clock, haystack.sessions)
                yield Searching(alma, clock, haystack, self._embedder)
        if self._embedder is not None:
            self._embedder.save()

    def _fill(self, alma: ALMA, clock: Clock, sessions: Sequence[Session]) -> None:
        """In the order in which they took place, as a memory would meet them."""
        ordered = sorted(sessions, key=lambda session: session.at or _EARLIEST)
        for start in range(0, len(ordered), _BATCH):
            batch = ordered[start : start + _BATCH]
            clock.set(batch[-1].turns[-1].at)
            self._add(alma, batch)

    def _add(self, alma: ALMA, batch: Sequence[Session]) -> None:
        spent = self._embedder.spent if self._embedder is not None else None
        before = (spent.asked, spent.fresh, spent.seconds) if spent else (0, 0, 0.0)
        began = time.perf_counter()
        alma.add_episodes([_episode(session) for session in batch])
        self.ingest.seconds += time.perf_counter() - began
        self.ingest.turns += sum(len(session.turns) for session in batch)
        if spent:
            self.ingest.texts += spent.asked - before[0]
            self.ingest.fresh_texts += spent.fresh - before[1]
            self.ingest.embedding_seconds += spent.seconds - before[2]


def _episode(session: Session) -> dict[str, Any]:
    turns = [{"speaker": turn.speaker, "text": turn.text, "at": turn.at} for turn in session.turns]
    return {"agent": AGENT, "session_id": session.id, "user_id": None, "turns": turns, "title": ""}


class Searching:
    def __init__(self, alma: ALMA, clock: Clock, haystack: Haystack, embedder: Remembering | None) -> None:
        self.alma = alma
        self.clock = clock
        self._embedder = embedder
        self.turns = {session.id: [turn.id for turn in session.turns] for session in haystack.sessions}

    def search(self, question: str, at: datetime | None, level: Level, top_k: int) -> list[str]:
        self.clock.set(at)
        with self._embedder.forgetful() if self._embedder is not None else nullcontext():
            found = self.alma.retrieve(question, agent=AGENT, top_k=top_k, types=["episode"], level=level)
        if level == "turn":
            return [self.turns[turn.session_id][turn.index] for turn in found.turns]
        return [episode.session_id for episode in found.episodes]
