"""Facts and preferences: what repeats, what replaces its predecessor, and what is added.

With an explicit key a value replaces the older value of the same agent, user, domain or category and key: the older one
ends at the moment of the new one and stays in history, where `as_of` finds it. A value whose own time is before the
known one goes straight to history; one without a time of its own is ordered by arrival, not by the clock. Nobody ends
what somebody who is trusted more has said: such a value waits for a person. Without a key a text that the reader finds
to be the same refreshes what is held, and everything else is added: two facts that may contradict each other both stay
active.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..reading.port import About, Pair
from ..text import normalise
from ..types.kinds import KINDS, MemoryType
from ..types.query import Where
from ..types.record import Record, Status
from .admit import Attempting, change, explicit_key, inserting, revise
from .context import Engine
from .drafts import Draft
from .search import by_words

_ALIKE = 16
_WORDS = {MemoryType.DOMAIN_KNOWLEDGE: "fact", MemoryType.USER_PREFERENCE: "preference"}


def admitting(
    engine: Engine, drafts: Sequence[Draft], compare_texts: bool = True, replaces: Sequence[str] = ()
) -> Attempting:
    """As `admit.inserting`, and keyed facts replace their predecessors.

    `replaces` names, for each draft, the id of a memory of the same kind, agent and user that it replaces as if they
    had the same key; "" for none.

    A draft's `valid_from` is when it was said; without one it is said now. Without `compare_texts` only an equal text
    is recognised as a repetition, which is faster for many drafts.
    """
    insert = inserting(engine, drafts)

    def attempt() -> tuple[list[Record], list[Record]]:
        made, changed = insert()
        course = _Course(engine, changed, compare_texts)
        fresh = [record.id for record in made if record.version == 1 and record.kind in _WORDS]
        replaced = {record.id: id for record, id in zip(made, replaces, strict=False) if id}
        for at, id in enumerate(fresh):
            course.take(id, set(fresh[at + 1 :]), replaced.get(id, ""))
        kept = [course.repeated.get(one.id, one.id) for one in made]
        return [course.records[name] for name in kept], [*course.records.values(), *course.history]

    return attempt


class _Course:
    """The records as they become while facts are taken in one after the other."""

    def __init__(self, engine: Engine, changed: Iterable[Record], compare_texts: bool) -> None:
        self.records = {record.id: record for record in changed}
        self.repeated: dict[str, str] = {}
        """By the id of a new record that only repeats a held one: the id of the held one."""
        self.history: list[Record] = []
        self._engine = engine
        self._compare_texts = compare_texts

    def take(self, id: str, not_yet: Collection[str], replaced: str = "") -> None:
        """Take in one fact; those in `not_yet` arrive after it and are not known yet."""
        record = self.records[id]
        if record.valid_from is not None and record.valid_from < record.created_at:
            # Told today of a year ago, it was known a year ago.
            record = self._put(replace(record, created_at=record.valid_from))
        if record.status is not Status.ACTIVE:
            return
        keyed = [held for held in self._find_keyed(record) if held.id not in not_yet]
        same = [held for held in self._find_same(record, keyed) if held.id not in not_yet]
        repeated = next((held for held in same if not record.links or held.links == record.links), None)
        if repeated is not None:
            self._refresh(repeated, record)
            return
        # A key given later takes over what was stated without one.
        named = self._find_named(record, replaced)
        against = list({held.id: held for held in (*keyed, *same, *named)}.values())
        for held in against:
            if held.provenance.weight > record.provenance.weight:
                body = {**record.body, "metadata": {**record.body.get("metadata", {}), "disputes": held.id}}
                self._put(replace(record, status=Status.CANDIDATE, body=body))
                return
        later = [held for held in against if _is_later(held, record)]
        if later:
            self._past(record, min(later, key=_begun))
            against = [held for held in against if held not in later]
        for held in against:
            self._end(held, self.records[id])

    def _past(self, record: Record, later: Record) -> None:
        """It was so until what is known now began."""
        self._put(replace(record, status=Status.SUPERSEDED, superseded_by=later.id, valid_to=_begun(later)))

    def _end(self, held: Record, by: Record) -> None:
        moment = _begun(by)
        ended: dict[str, Any] = {"status": Status.SUPERSEDED, "superseded_by": by.id}
        # One that ends when it begins held at no time; without an end it would hold at all.
        ended["valid_to"] = moment if held.valid_from is None or held.valid_from < moment else None
        if held.id in self.records:
            self._put(replace(held, **ended))
        else:
            self._put(revise(self._engine, held, **ended))
        words = by.body[_WORDS[MemoryType(by.kind)]]
        self.history.append(
            change(self._engine, held, "superseded", f"a later fact: {words}", {"status": str(held.status)}, by.id)
        )

    def _put(self, record: Record) -> Record:
        self.records[record.id] = record
        return record

    def _refresh(self, held: Record, record: Record) -> None:
        """The new record repeats a held one: that one is confirmed instead."""
        del self.records[record.id]
        self.repeated[record.id] = held.id
        tags = tuple(dict.fromkeys((*held.tags, *record.tags)))
        is_changed = held.id in self.records
        self._put(replace(held, tags=tags) if is_changed else revise(self._engine, held, tags=tags))

    def _find_keyed(self, record: Record) -> list[Record]:
        """The active records with the explicit key of this one."""
        if not explicit_key(record.kind, record.body):
            return []
        where = replace(self._where(record), linked=set(record.links))
        return self._current(self._engine.store.scan(where), record, where)

    def _find_named(self, record: Record, replaced: str) -> list[Record]:
        """The active record with the id `replaced`, if it is of the same kind, agent and user as this one."""
        stored = self._engine.store.get([replaced]) if replaced else []
        current = self._current(stored, record, self._where(record)) if stored else []
        return [held for held in current if held.id == replaced]

    def _find_same(self, record: Record, keyed: Sequence[Record]) -> list[Record]:
        """The active records that say the same as this one: those with its key, and any without a key of their own."""
        if not self._compare_texts:
            return []
        where = self._where(record)
        text = str(record.body[_WORDS[MemoryType(record.kind)]])
        hits = [hit.id for hit in by_words(self._engine.store, text, where, _ALIKE)]
        found = self._current(self._engine.store.get(hits), record, where)
        place = KINDS[record.kind].unique[0]
        alike = [held for held in found if normalise(held.body[place]) == normalise(record.body[place])]
        if record.links:
            alike = [*keyed, *(held for held in alike if not held.links)]
        pairs = [Pair(str(held.body[_WORDS[MemoryType(held.kind)]]), text, About.FACT) for held in alike]
        relations = self._engine.reader.compare(pairs)
        return [held for held, relation in zip(alike, relations, strict=True) if relation.is_same]

    def _where(self, record: Record) -> Where:
        return Where(
            kinds={record.kind},
            projects={record.project},
            agents={record.agent},
            users={record.user},
            statuses={Status.ACTIVE},
        )

    def _current(self, stored: Iterable[Record], record: Record, where: Where) -> list[Record]:
        """What the store gave as it is now in this transaction, with the records of the same batch."""
        found = {one.id: one for one in stored} | self.records
        return [one for one in found.values() if one.id != record.id and where.accepts(one)]


def _is_later(held: Record, record: Record) -> bool:
    """Return whether a stored fact is about a later time than one that arrives now.

    Without a time of its own a fact is later than all that arrived before it, whatever the clocks said then and say
    now; only one that was announced for a time to come is later still.
    """
    if record.valid_from is not None:
        return _begun(held) > record.valid_from
    return held.valid_from is not None and held.valid_from > max(held.created_at, record.created_at)


def _begun(record: Record) -> datetime:
    return record.valid_from or record.created_at
