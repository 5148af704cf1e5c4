"""A memory as it was at an earlier time: the store seen through the changes since then.

The past store is read like any other, so a retrieval in the past is the same retrieval on other records. Records whose
words or filtered fields changed since are restored when the store is opened; counts are restored when a record is read.

A fact that was added later for an earlier time counts from that time on, and what it replaced ends there: `valid_to`
decides, not the time of the change. What another memory replaced counts as known until that change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from heapq import nlargest

from ..errors import ReadOnlyError
from ..text import stem, words
from ..types.query import Hit, Where, rank_nearest
from ..types.record import Record, Status, Vector
from .changes import CHANGESET, INSTANT, REWRITTEN, TRACKED, restore_fields, reword_past
from .context import Engine
from .search import by_words, read_snapshot


class PastStore:
    """The records of one project as they were at a moment. It cannot be written."""

    def __init__(self, engine: Engine, moment: datetime) -> None:
        self._engine, self._store, self._moment = engine, engine.store, moment
        self._later = engine.within(CHANGESET, created_from=moment + INSTANT)
        rewritten = replace(self._later, tagged={REWRITTEN})
        ids = {id for one in self._store.scan(rewritten) for id, was in one.body["was"].items() if was is not None}
        replaced = replace(Where(projects=self._later.projects), statuses={Status.SUPERSEDED}, valid_at=moment)
        # Also what was replaced before changes were recorded.
        ids |= {one.id for one in self._store.scan(replaced) if one.valid_to is not None}
        records = self._store.get(sorted(ids))
        self._restored = {one.id: one for one in self._restore(records)}

    def put(self, records: Sequence[Record]) -> None:
        """Raise ReadOnlyError."""
        raise ReadOnlyError("the past cannot be changed")

    def delete(self, ids: Sequence[str]) -> int:
        """Raise ReadOnlyError."""
        raise ReadOnlyError("the past cannot be changed")

    def close(self) -> None:
        """Keep the store open: it belongs to the present."""

    def snapshot(self) -> AbstractContextManager[None]:
        """All reads inside belong to one moment, where the store can do that."""
        return read_snapshot(self._store)

    def get(self, ids: Sequence[str]) -> list[Record]:
        """Return the records with these ids that existed then, as they were."""
        present = self._store.get([id for id in ids if id not in self._restored])
        records = self._restored | {one.id: one for one in self._restore(present)}
        return [records[id] for id in ids if id in records]

    def scan(self, where: Where, limit: int | None = None) -> Iterator[Record]:
        """Yield the records that met the conditions then, newest first."""
        most = None if limit is None else limit + len(self._restored)
        present = [one for one in self._store.scan(self._narrow(where), most) if one.id not in self._restored]
        records = [*self._restore(present), *filter(where.accepts, self._restored.values())]
        most = len(records) if limit is None else limit
        return iter(nlargest(most, records, key=lambda one: (one.created_at, one.id)))

    def nearest(self, vector: Vector, where: Where, limit: int) -> list[Hit]:
        """Return the records whose vectors were nearest, best first."""
        hits = self._store.nearest(vector, self._narrow(where), limit + len(self._restored))
        hits = [hit for hit in hits if hit.id not in self._restored]
        hits += rank_nearest(vector, filter(where.accepts, self._restored.values()), limit)
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit]

    def match(self, query: str, where: Where, limit: int) -> list[Hit]:
        """Return the records that shared words with the query; those that changed since come first."""
        hits = by_words(self._store, query, self._narrow(where), limit + len(self._restored))
        best = max((hit.score for hit in hits), default=1.0)
        wanted, restored = set(map(stem, words(query))), filter(where.accepts, self._restored.values())
        shared = {one.id: len(wanted.intersection(map(stem, words(one.text)))) for one in restored}
        changed = [Hit(id, best + number) for id, number in shared.items() if number]
        kept = [hit for hit in hits if hit.id not in self._restored]
        return [*sorted(changed, key=lambda hit: (-hit.score, hit.id)), *kept][:limit]

    def _narrow(self, where: Where) -> Where:
        if where.kinds is None or not TRACKED.issuperset(where.kinds):
            return where
        end = self._moment + INSTANT
        return replace(where, created_to=end if where.created_to is None else min(end, where.created_to))

    def _restore(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield those of the records that existed then, as they were."""
        tracked = [one for one in records if one.kind not in TRACKED or one.created_at <= self._moment]
        ids = {one.id for one in tracked if one.kind in TRACKED and one.version > 1}
        later: defaultdict[str, list[Record]] = defaultdict(list)
        for changeset in self._store.scan(replace(self._later, linked=ids)) if ids else ():
            for id in ids.intersection(changeset.body["was"]):
                later[id].append(changeset)
        for record in tracked:
            past = record
            for changeset in later[record.id]:
                was = changeset.body["was"][record.id]
                if was is not None:
                    past = replace(past, **restore_fields(past, was))
            end, successor = record.valid_to, record.superseded_by
            # Replaced only if it was by then.
            if past.status is Status.SUPERSEDED and past.valid_to is not None and past.valid_to > self._moment:
                past = replace(past, status=Status.ACTIVE, valid_to=None, superseded_by="")
            elif past.status is not record.status is Status.SUPERSEDED and end is not None and end <= self._moment:
                changesets = self._store.scan(replace(self._later, linked={successor}))
                if any(one.body["was"].get(successor, ...) is None for one in changesets):
                    past = replace(past, status=record.status, valid_to=end, superseded_by=successor)
            yield reword_past(self._engine, record, past)


class FormerRecords:
    """Records as they were at moments since a given one, such as when they were shown."""

    def __init__(self, engine: Engine, records: Iterable[Record], since: datetime) -> None:
        self._records = {one.id: one for one in records}
        self._later: defaultdict[str, list[Record]] = defaultdict(list)
        changed = {one.id for one in self._records.values() if one.version > 1}
        where = engine.within(CHANGESET, created_from=since, linked=changed)
        # Newest first, as they are taken back.
        for changeset in engine.store.scan(where) if changed else ():
            for id in changed.intersection(changeset.body["was"]):
                self._later[id].append(changeset)

    def find(self, id: str, moment: datetime) -> Record | None:
        """Return a record as it was at a moment; None if it is gone."""
        record = self._records.get(id)
        if record is None:
            return None
        for changeset in self._later[id]:
            was = changeset.body["was"][id]
            if changeset.created_at > moment and was is not None:
                record = replace(record, **restore_fields(record, was))
        return record


def look_back(engine: Engine, moment: datetime) -> Engine:
    """Return the engine of a project as it was at an earlier time."""
    return replace(engine, store=PastStore(engine, moment), clock=lambda: moment)
