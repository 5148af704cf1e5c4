"""What every step of the engine works with."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from ..errors import ScopeError, unknown
from ..forks import hold_at_fork
from ..ports import Clock, Embedder, Lingual, Store
from ..reading.local import LocalReader
from ..reading.port import Comparer
from ..text import passages
from ..types import times
from ..types.kinds import MemoryType
from ..types.record import Record, Status, Trust
from ..types.scope import MemoryScope, Scopes
from ..types.vector import Vector
from .notes import Notes
from .settings import Settings

_MANY_TEXTS = 4096


class Encoder:
    """The embedder with a small memory, so that a task which is retrieved for and then learned is embedded once."""

    def __init__(self, embedder: Embedder, size: int = 512) -> None:
        self.embedder = embedder
        self._size = size
        self._known: OrderedDict[str, Vector] = OrderedDict()
        self._lock = hold_at_fork(threading.Lock())
        self._is_lingual = isinstance(embedder, Lingual)
        self._understood: dict[str, bool] = {}

    @property
    def name(self) -> str:
        return self.embedder.name

    def knows(self, text: str) -> bool:
        if not self._is_lingual:
            return True
        if text not in self._understood:
            if len(self._understood) >= _MANY_TEXTS:
                self._understood.clear()
            self._understood[text] = cast("Lingual", self.embedder).knows(text)
        return self._understood[text]

    def encode(self, groups: Sequence[Sequence[str]]) -> list[tuple[Vector, ...]]:
        """For each group of texts its vectors, long texts in passages: all in one pass of the embedder."""
        split = [[piece for text in group for piece in self._passages(text)] for group in groups]
        vectors = self._vectors(list(dict.fromkeys(piece for group in split for piece in group)))
        return [tuple(vectors[piece] for piece in group) for group in split]

    def _passages(self, text: str) -> list[str]:
        return passages(text, self.embedder.passage_chars)

    def _vectors(self, texts: list[str]) -> dict[str, Vector]:
        with self._lock:
            known = {text: self._known[text] for text in texts if text in self._known}
        missing = [text for text in texts if text not in known]
        if missing:
            known |= zip(missing, self.embedder.embed(missing), strict=True)
            self._remember(known)
        return known

    def _remember(self, vectors: dict[str, Vector]) -> None:
        with self._lock:
            for text, vector in list(vectors.items())[-self._size :]:
                self._known[text] = vector
                self._known.move_to_end(text)
            while len(self._known) > self._size:
                self._known.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Engine:
    store: Store
    project: str
    encoder: Encoder | None = None
    scopes: Scopes = field(default_factory=lambda: Scopes({}))
    settings: Settings = field(default_factory=Settings)
    clock: Clock = times.now
    reader: Comparer = field(default_factory=LocalReader)
    """Compares texts that are written: strategies, facts."""
    notes: Notes = field(default_factory=Notes)
    may_approve: bool = True
    """Whether a person decides here. Without it, no rule and nothing that came from outside content becomes active."""

    def may_activate(self, record: Record) -> bool:
        is_waiting_rule = record.kind == MemoryType.RULE and record.status is not Status.ACTIVE
        return self.may_approve or not (is_waiting_rule or record.provenance.trust is Trust.UNTRUSTED)

    @property
    def embedder_name(self) -> str:
        return self.encoder.name if self.encoder else ""

    def encode(self, groups: Sequence[Sequence[str]]) -> list[tuple[Vector, ...]]:
        """Vectors for each group of texts; none when there is no embedder."""
        return self.encoder.encode(groups) if self.encoder else [() for _ in groups]

    def knows(self, text: str) -> bool:
        """Return whether vectors of a text stand for its meaning."""
        if self.encoder is None:
            return False
        return self.encoder.knows(text)

    def agent(self, name: str) -> str:
        """The declared name of an agent."""
        found = self.scopes.canonical(name)
        if found is None:
            raise ScopeError(unknown("agent", name, self.scopes.known()))
        return found

    def scope(self, agent: str) -> MemoryScope:
        return self.scopes.of(agent)
