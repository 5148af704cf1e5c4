"""The second hop: what is known about those whom the first results name.

"Where does Maria's manager work?" finds that her manager is Tom; where Tom works shares no word with the question. Such
facts fill places that are left free, after all that was found directly, and only where a name is particular.

Whom the graph knows by several names is looked for under all of them: asked about Bob, what is known of Robert Smith
counts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ...reading.questions import find_names
from ...text import words
from ...types.kinds import MemoryType
from ...types.names import name_key
from ...types.query import Where
from ...types.record import Record, Status
from ..search import by_words, closeness
from .request import Asked

MOST = 2
"""So many facts are added at most."""
_FROM = 3
_PARTICULAR = 5
"""A name that more facts hold tells little."""
_LEAST_CLOSE = 0.15
_MOST_KNOWN = 50


@dataclass(frozen=True, slots=True)
class Linked:
    """A fact, the name that leads to it, and how close it is to the question."""

    record: Record
    name: str
    cosine: float | None
    asked: str = ""
    """The name that the question calls it by, where it is another."""

    @property
    def why(self) -> str:
        tie = f"who is {self.asked}" if self.asked else "whom the first results name"
        return f"about {self.name}, {tie}"


def linked(asked: Asked, first: Sequence[Record]) -> list[Linked]:
    """Facts about what the first results name and the question does not, or calls by another name."""
    held = {record.id for record in first}
    leading = _unasked(asked, first[:_FROM])
    others = _also_called(asked, (*leading, *asked.question.names))
    ways = [(other, name) for name in asked.question.names for other in others.get(name, ())]
    ways += [(called, "") for name in leading for called in (name, *others.get(name, ()))]
    found: dict[str, Linked] = {}
    for name, instead in ways:
        for record in _naming(asked, name):
            near = closeness(asked.engine, record, asked.vectors)
            # What is said of the very one who is asked about need not sound like the question.
            if record.id not in held and (instead or near is None or near >= _LEAST_CLOSE):
                found.setdefault(record.id, Linked(record, name, near, instead))
    return sorted(found.values(), key=lambda one: (-(one.cosine or 0.0), one.record.id))[:MOST]


def _unasked(asked: Asked, first: Sequence[Record]) -> list[str]:
    """Whom the first results name, as it is written or as the graph has it from them."""
    said = set(words(asked.question.text))
    written = [name for record in first for name in find_names(record.text)]
    known = _entities(asked, linked={record.id for record in first}) if first else []
    found = {name_key(name): name for name in (*(one.body["name"] for one in known), *written)}
    return [name for name in found.values() if not said.issuperset(words(name))]


def _also_called(asked: Asked, names: Sequence[str]) -> dict[str, list[str]]:
    """The other names of those of whom the graph knows exactly one."""
    keys = {name: name_key(name) for name in names}
    known = _entities(asked, tagged=set(keys.values())) if keys else []
    others: dict[str, list[str]] = {}
    for name, key in keys.items():
        bearers = [one for one in known if key in one.tags]
        if len(bearers) == 1:
            called = (bearers[0].body["name"], *bearers[0].body["aliases"])
            others[name] = [one for one in called if name_key(one) != key]
    return others


def _entities(asked: Asked, **conditions: Collection[str]) -> list[Record]:
    where = Where(kinds={"entity"}, projects={asked.engine.project}, statuses={Status.ACTIVE}, **conditions)  # type: ignore[arg-type]
    return list(asked.engine.store.scan(where, _MOST_KNOWN))


def _naming(asked: Asked, name: str) -> list[Record]:
    """The facts that hold a name; none when many do."""
    where = asked.where(MemoryType.DOMAIN_KNOWLEDGE)
    hits = by_words(asked.engine.store, name, where, _PARTICULAR + 1)
    wanted = set(words(name))
    holding = [one for one in asked.engine.store.get([hit.id for hit in hits]) if wanted <= set(words(one.text))]
    return holding if len(holding) <= _PARTICULAR else []
