"""The second hop: what is known about those whom the first results name.

"Where does Maria's manager work?" finds that her manager is Tom; where Tom works shares no word with the question. Such
facts fill places that are left free, after all that was found directly, and only where a name is particular.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...types.kinds import MemoryType
from ...types.record import Record
from ..search import by_words, closeness
from ..text import words
from .question import names
from .request import Asked

MOST = 2
"""So many facts are added at most."""
_FROM = 3
_PARTICULAR = 5
"""A name that more facts hold tells little."""
_LEAST_CLOSE = 0.15


@dataclass(frozen=True, slots=True)
class Linked:
    """A fact, the name that leads to it, and how close it is to the question."""

    record: Record
    name: str
    cosine: float | None


def linked(asked: Asked, first: Sequence[Record]) -> list[Linked]:
    """Facts about what the first results name and the question does not."""
    if not first:
        return []
    held = {record.id for record in first}
    found: dict[str, Linked] = {}
    for name in _unasked(asked, first[:_FROM]):
        for record in _naming(asked, name):
            near = closeness(asked.engine, record, asked.vectors)
            if record.id not in held and (near is None or near >= _LEAST_CLOSE):
                found.setdefault(record.id, Linked(record, name, near))
    return sorted(found.values(), key=lambda one: (-(one.cosine or 0.0), one.record.id))[:MOST]


def _unasked(asked: Asked, first: Iterable[Record]) -> list[str]:
    said = set(words(asked.question.text))
    found = dict.fromkeys(name for record in first for name in names(record.text))
    return [name for name in found if not said.issuperset(words(name))]


def _naming(asked: Asked, name: str) -> list[Record]:
    """The facts that hold a name; none when many do."""
    where = asked.where(MemoryType.DOMAIN_KNOWLEDGE)
    hits = by_words(asked.engine.store, name, where, _PARTICULAR + 1)
    wanted = set(words(name))
    holding = [one for one in asked.engine.store.get([hit.id for hit in hits]) if wanted <= set(words(one.text))]
    return holding if len(holding) <= _PARTICULAR else []
