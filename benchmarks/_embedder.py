"""An embedder with a cache, so that a text in two hundred haystacks is embedded once.

The time for embedding is counted, so that a report can still state its cost.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from alma.ports import Embedder
from alma.types.record import Vector

from ._data import DataError


@dataclass
class Spent:
    """How many of the requested texts were embedded in this run, and the seconds it took."""

    asked: int = 0
    fresh: int = 0
    seconds: float = 0.0


class Remembering:
    """A cache of another embedder's vectors; with a file, it persists between runs."""

    def __init__(self, inner: Embedder, file: Path | None = None) -> None:
        self.name, self.dim, self.passage_chars = inner.name, inner.dim, inner.passage_chars
        self.spent = Spent()
        self._inner = inner
        self._file = _open(file) if file else None
        self._known = self._read()
        self._unsaved: dict[bytes, Vector] = {}
        self._remembers = True

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        began = time.perf_counter()
        vectors = self._remembered(texts) if self._remembers else self._inner.embed(texts)
        self.spent.seconds += time.perf_counter() - began
        self.spent.asked += len(texts)
        return vectors

    def _remembered(self, texts: Sequence[str]) -> list[Vector]:
        keys = [_key(text) for text in texts]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        made = dict(zip(missing, self._inner.embed(list(missing.values())), strict=True)) if missing else {}
        self._known |= made
        self._unsaved |= made
        self.spent.fresh += len(made)
        return [self._known[key] for key in keys]

    @contextmanager
    def forgetful(self) -> Iterator[None]:
        """Embed each question every time it is asked, as in real use."""
        self._remembers = False
        try:
            yield
        finally:
            self._remembers = True

    def close(self) -> None:
        """Do nothing: a memory closes its embedder, but this one also serves the next memory."""

    def save(self) -> None:
        if self._file is not None and self._unsaved:
            rows = [(self.name, key, vector) for key, vector in self._unsaved.items()]
            with self._file:
                self._file.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?, ?)", rows)
        self._unsaved = {}

    def finish(self) -> None:
        self.save()
        if self._file is not None:
            self._file.close()
        self._inner.close()

    def _read(self) -> dict[bytes, Vector]:
        if self._file is None:
            return {}
        return dict(self._file.execute("SELECT hash, vector FROM vectors WHERE model = ?", (self.name,)))


@contextmanager
def finishing(embedder: Remembering) -> Iterator[Remembering]:
    """`close` keeps it open for the next memory; here it ends."""
    try:
        yield embedder
    finally:
        embedder.finish()


def _open(file: Path) -> sqlite3.Connection:
    opened = sqlite3.connect(file)
    try:
        opened.execute(
            "CREATE TABLE IF NOT EXISTS vectors "
            "(model TEXT, hash BLOB, vector BLOB, PRIMARY KEY (model, hash)) WITHOUT ROWID"
        )
    except sqlite3.DatabaseError as error:
        opened.close()
        raise DataError(f"{file} is not a file of vectors that was made by --cache: {error}") from error
    return opened


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
