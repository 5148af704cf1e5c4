"""Facts that take each other's place: what is told later holds, what was told before is kept with the time it held.

A fact that conflicts with an older one of the same agent and user supersedes it: the older one gets the moment of the
new one as its end and stays in history, where `as_of` finds it. A fact that is older than what is known goes straight
to history. Nobody ends what somebody who is trusted more has said: such a fact waits for a person.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..types.kinds import MemoryType
from ..types.query import Where
from ..types.record import Record, Status
from .admit import Attempting, change, inserting, revise
from .context import Engine
from .drafts import Draft
from .search import by_words

_ALIKE = 16
_WORDS = {MemoryType.DOMAIN_KNOWLEDGE: "fact", MemoryType.USER_PREFERENCE: "preference"}


def admitting(engine: Engine, drafts: Sequence[Draft]) -> Attempting:
    """As `admit.inserting`, and facts take the place of those they conflict with.

    A draft's `valid_from` is when it was said; without one it is said now.
    """
    insert = inserting(engine, drafts)

    def attempt() -> tuple[list[Record], list[Record]]:
        made, changed = insert()
        course = _Course(engine, changed)
        for record in made:
            if record.version == 1 and record.kind in _WORDS:
                course.take(record.id)
        return [course.records.get(one.id, one) for one in made], [*course.records.values(), *course.history]

    return attempt


class _Course:
    """The records as they become while facts are taken in one after the other."""

    def __init__(self, engine: Engine, changed: Iterable[Record]) -> None:
        self.records = {record.id: record for record in changed}
        self.history: list[Record] = []
        self._engine = engine
        self._read: dict[str, Record] = {}

    def take(self, id: str) -> None:
        record = self.records[id]
        if record.valid_from is not None and record.valid_from < record.created_at:
            # Told today of a year ago, it was known a year ago.
            record = self._put(replace(record, created_at=record.valid_from))
        if record.status is not Status.ACTIVE:
            return
        against = [held for held in self._alike(record) if _conflict(record, held)]
        for held in against:
            if held.provenance.weight > record.provenance.weight:
                body = {**record.body, "metadata": {**record.body.get("metadata", {}), "disputes": held.id}}
                self._put(replace(record, status=Status.CANDIDATE, body=body))
                return
        later = [held for held in against if _begun(held) > _begun(record)]
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
        if by.valid_from is None:
            self._put(replace(by, valid_from=moment))
        ended: dict[str, Any] = {"status": Status.SUPERSEDED, "superseded_by": by.id}
        # One that ends when it begins held at no time; without an end it would hold at all.
        ended["valid_to"] = moment if held.valid_from is None or held.valid_from < moment else None
        if held.id in self.records:
            self._put(replace(held, **ended))
        else:
            self._put(revise(self._engine, held, **ended))
        words = by.body[_WORDS[MemoryType(by.kind)]]
        self.history.append(
            change(self._engine, held, "superseded", f"a later fact: {words}", {"status": str(held.status)})
        )

    def _put(self, record: Record) -> Record:
        self.records[record.id] = record
        return record

    def _alike(self, record: Record) -> list[Record]:
        """What might conflict with it: held facts that share its words, and those of the same batch."""
        from .claims import claim

        told = str(record.body[_WORDS[MemoryType(record.kind)]])
        if claim(told) is None:
            return []
        where = Where(
            kinds={record.kind},
            projects={record.project},
            agents={record.agent},
            users={record.user},
            statuses={Status.ACTIVE},
        )
        hits = [hit.id for hit in by_words(self._engine.store, told, where, _ALIKE)]
        found = {one.id: one for one in self._engine.store.get(hits)} | self.records
        return [
            one for one in found.values() if one.id != record.id and one.status is Status.ACTIVE and where.accepts(one)
        ]


def _conflict(record: Record, held: Record) -> bool:
    # Loaded here: what reads claims takes longer to load than all of alma.
    from .claims import conflict

    name = _WORDS[MemoryType(record.kind)]
    first, second = str(record.body[name]), str(held.body[name])
    # Whichever is the later may be the one that says something has changed.
    return conflict(first, second) if _begun(record) >= _begun(held) else conflict(second, first)


def _begun(record: Record) -> datetime:
    return record.valid_from or record.created_at
