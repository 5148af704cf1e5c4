"""One transaction for all writers: a step reads and changes records, and all of its changes are stored, or none.

`write(engine, step)` runs `step(tx)` and puts what it changed. When another process was faster, the step runs again on
what is stored now, so that no increment is lost: a step must have no other effects.

A deleted memory leaves a tombstone, and is recognised by a salted hash of its look-up key: it does not come back by
itself. The key is a hash of the memory's words, and without a salt, a reader of the file could try out words against
it. Each store draws its own salt when something is deleted for the first time; an import brings the salts of its
tombstones.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar
from zlib import crc32

from ..errors import BusyError, ConflictError, EmbedderMismatchError, ScopeError
from ..text import digest, fingerprint
from ..types.kinds import KINDS, MemoryType
from ..types.query import Where
from ..types.record import LIVE, Origin, Record, Status, Trust
from .admit import author_of, clean, draft_record, embed_records, make_record, place_of, reword
from .calls import MADE
from .changes import make_changesets
from .context import Engine
from .events import derive_events, make_deliveries
from .tombstones import MOST_COMPARED, Tombstones, hash_key, hold_back

T = TypeVar("T")

_PATIENCE_SECONDS = 60.0
_COUNTERS = 64  # More would let fewer processes run into each other, and take more space.
EMBEDDER_MARKER = "mrk_embedder"
SALT_MARKER = "mrk_salts"
LESSONS = (MemoryType.HEURISTIC, MemoryType.ANTI_PATTERN)


class Transaction:
    """The records that one write reads and changes. Reads see what the transaction itself has changed.

    A record is read once: what is not there when it is first looked for stays absent in this transaction, and making it
    meets a conflict if another process was faster.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.is_erasing = False  # Then no former values are stored: they are what is erased.
        self.reverts: Record | None = None  # The first changeset of the change that this one reverts.
        self.change_id = ""  # The id of this change, once its changesets are made.
        self.accepted: set[str] = set()  # Ids of records that a person makes active, even if they were deleted.
        self.erased: list[Record] = []  # What the caller erases once this is stored.
        # Ids of new records by the words that find them: the store cannot find them yet.
        self.unindexed: dict[tuple[str, ...], list[str]] = {}
        # The facts that this transaction placed, by the stems of their words.
        self.placed: dict[str, list[str]] = {}
        self._read: dict[str, Record | None] = {}
        self._changed: dict[str, Record] = {}
        # Of what was changed: a batch is searched for each of its records.
        self._ids_of_kind: defaultdict[str, dict[str, None]] = defaultdict(dict)

    @property
    def changed(self) -> list[Record]:
        """Return all new and changed records, in the order in which they were first put."""
        return list(self._changed.values())

    def get(self, ids: Iterable[str], *, as_stored: bool = False) -> list[Record]:
        """Return the records with these ids, in that order; those that do not exist are left out.

        With `as_stored` they are returned without the changes of this transaction.
        """
        unique_ids = dict.fromkeys(ids)
        changed = {} if as_stored else self._changed
        missing = [id for id in unique_ids if id not in changed and id not in self._read]
        if missing:
            self._read |= dict.fromkeys(missing)
            self._read |= {record.id: record for record in self.engine.store.get(missing)}
        return [record for id in unique_ids if (record := changed.get(id) or self._read[id])]

    def read_stored(self, id: str) -> Record | None:
        """Return a record as this transaction read it; None if it was not read or did not exist."""
        return self._read.get(id)

    def find(self, id: str) -> Record | None:
        """Return the record with this id, or None."""
        records = self.get((id,))
        return records[0] if records else None

    def see(self, stored: Iterable[Record]) -> list[Record]:
        """Return records that were just read from the store as this transaction has them."""
        records = []
        for one in stored:
            record = self._changed.get(one.id) or self._read.get(one.id)
            if record is None:
                record = self._read[one.id] = one
            records.append(record)
        return records

    def scan(self, where: Where, limit: int | None = None) -> list[Record]:
        """Return the records that `where` accepts: new ones of this transaction last, stored ones newest first."""
        return self.select(self.engine.store.scan(where, limit), where)[:limit]

    def select(self, stored: Iterable[Record], where: Where) -> list[Record]:
        """Return what `where` accepts of stored records, as they are now, and of those changed in this transaction."""
        records = {record.id: record for record in self.see(stored)}
        for kind in list(self._ids_of_kind) if where.kinds is None else where.kinds:
            records |= {id: self._changed[id] for id in self._ids_of_kind.get(kind, ())}
        return [record for record in records.values() if where.accepts(record)]

    def is_new(self, record: Record) -> bool:
        """Return whether the record was made in this transaction."""
        return record.id in self._changed and self._read.get(record.id) is None

    def is_changed(self, id: str) -> bool:
        """Return whether a record was made or changed in this transaction."""
        return id in self._changed

    def put(self, record: Record, *, exact: bool = False) -> Record:
        """Store a new or a changed record. Its version grows once, however often it changes in this transaction.

        An `exact` one is stored with the version and the dates that it brings. A memory that was deleted becomes a
        candidate, unless a person states it: look at the status of what is returned.
        """
        if not exact:
            existing, now = self._read.get(record.id), self.engine.clock()
            # A draft is older than this transaction: its vectors may have taken long.
            version = existing.version + 1 if existing else record.version
            record = replace(record, version=version, updated_at=now if existing else max(now, record.updated_at))
        record = hold_back(self, record, key_of_deleted(record))
        if record.kind == "tombstone" and not self.is_changed(SALT_MARKER):
            # Its version says to all processes that there are other tombstones.
            for marker in self.get([SALT_MARKER]):
                self.update(marker)
        self._changed[record.id] = record
        self._ids_of_kind[record.kind][record.id] = None
        return record

    def update(self, record: Record, **changes: Any) -> Record:
        """Store the next version of a record with these fields changed, dated now unless `updated_at` is passed."""
        self.see([record])
        existing = self._read.get(record.id)
        if existing is not None:
            changes = {"version": existing.version + 1, "updated_at": self.engine.clock(), **changes}
        return self.put(replace(record, **changes), exact=True)

    # -- things that change while they are worked with: work items, sessions, checkpoints

    def add(self, kind: str, body: Mapping[str, Any], **fields: Any) -> Record:
        """Store a new thing without secrets; `agent`, `id`, `links` and other fields of its record may be given."""
        [record] = embed_records(self.engine, [draft_record(self.engine, kind, body, **fields)])
        return self.put(record)

    def change(self, record: Record, body: Mapping[str, Any], **fields: Any) -> Record:
        """Store the next version with another body, without secrets; a thing that stays as it is gets none."""
        fresh = {name: clean(value) for name, value in body.items()}
        if fresh == record.body and not fields:
            return record
        return self.update(record, **{**reword(self.engine, record, fresh), **fields})

    def drop(self, record: Record) -> None:
        """Forget that a record was put in this transaction."""
        self._changed.pop(record.id, None)
        self._ids_of_kind[record.kind].pop(record.id, None)

    def add_history(
        self, record: Record, verb: str, why: str = "", before: Mapping[str, Any] = {}, quoted: str = "", **fields: Any
    ) -> Record:
        """Store a line of a record's history. `quoted` is the id of another record whose words stand in `why`."""
        body = {"record": record.id, "verb": verb, "why": why, "before": dict(before)}
        links = (record.id, quoted) if quoted else (record.id,)
        return self.put(make_record(self.engine, "change", body, links=links, **place_of(record), **fields))

    def find_changes(self, ids: Collection[str]) -> list[Record]:
        """Return the lines of history that belong to these records or quote them, newest first."""
        return self.scan(self.engine.within("change", linked=set(ids))) if ids else []

    def read_history(self, id: str) -> list[Record]:
        """Return what happened to a record, oldest first."""
        return [one for one in self.find_changes([id]) if one.body["record"] == id][::-1]

    def find_live_status(self, record: Record) -> Status | None:
        """Return the status of a record, or the last one before it in which it was in use; None if it never was."""
        past = (line.body["before"].get("status") for line in reversed(self.read_history(record.id)))
        return next((Status(one) for one in (record.status, *past) if one in LIVE), None)

    def supersede(
        self, record: Record, later: Record, why: str, moment: datetime | None = None, verb: str = "", **changes: Any
    ) -> None:
        """Let a later record take the place of one that is held, from a moment on or from now on."""
        moment = moment or self.engine.clock()
        # One that ends when it begins held at no time; without an end it would hold at all.
        end = moment if record.valid_from is None or record.valid_from < moment else None
        fresh = self.update(record, status=Status.SUPERSEDED, superseded_by=later.id, valid_to=end, **changes)
        self.add_history(fresh, verb or "superseded", why, {"status": str(record.status)}, later.id)

    def once(self, id: str, body: Mapping[str, Any], **fields: Any) -> bool:
        """Store the marker `id` and return True; False when it is stored already: this was written before."""
        if self.find(id) is not None:
            return False
        self.set_marker(id, body, **fields)
        return True

    def set_marker(self, id: str, body: Mapping[str, Any], **fields: Any) -> Record:
        """Store the marker `id` with this body, in place of what it held."""
        marker = self.find(id)
        if marker is not None:
            return self.update(marker, body=body)
        return self.put(make_record(self.engine, "marker", body, id=id, **fields))

    # -- the same memory, added by two processes at once

    def watch_keys(self, keys: Iterable[str]) -> None:
        """Begin to look for memories with these keys: see `claim_keys`."""
        self.get([self._name_counter(key) for key in keys])

    def claim_keys(self, keys: Iterable[str]) -> None:
        """Add memories with these keys; this meets a conflict if another process did so since `watch_keys`."""
        for id in sorted({self._name_counter(key) for key in keys}):
            self.set_marker(id, {})

    def _name_counter(self, key: str) -> str:
        """Return the id of the marker whose version counts the additions of such keys; many keys share one."""
        return f"mrk_added_{digest(self.engine.project, size=8)}_{crc32(key.encode()) % _COUNTERS}"

    # -- deleted memories

    @cached_property
    def tombstones(self) -> Tombstones:
        """The tombstones that new memories are compared with."""
        project, marker = self.engine.project, self.find(SALT_MARKER)
        version, tombstones = self.engine.tombstones.get(project, (0, None))
        if marker is None or self.is_changed(marker.id) or marker.version != version or tombstones is None:
            where = self.engine.within("tombstone", statuses={Status.ACTIVE})
            tombstones = Tombstones(self.scan(where, MOST_COMPARED), self.read_salts())
            if marker is not None and not self.is_changed(marker.id):
                self.engine.tombstones[project] = marker.version, tombstones
        return tombstones

    def read_salts(self) -> list[str]:
        """Return the salts of the tombstones held, the store's own first; none before anything was deleted."""
        marker = self.find(SALT_MARKER)
        return list(marker.body["value"]) if marker else []

    def find_tombstones(self, keys: Iterable[str]) -> dict[str, Record]:
        """Return the active tombstones of this project and of all projects that recognise these keys, by key."""
        # Tombstones of earlier versions hold the key itself.
        by_hash = {key: key for key in keys if key}
        if not by_hash:
            return {}
        for salt in self.read_salts():
            by_hash |= {hash_key(salt, key): key for key in set(by_hash.values())}
        where = self.engine.within("tombstone", keys=set(by_hash), statuses={Status.ACTIVE})
        return {by_hash[stone.key]: stone for stone in self.scan(where)}

    def is_buried(self, key: str) -> bool:
        """Return whether the memory with this key was deleted, so that it must not come back by itself."""
        return bool(self.find_tombstones([key]))

    def find_buried(self, records: Collection[Record]) -> set[str]:
        """Return the ids of those records that were deleted themselves, or by their key."""
        stones = self.find_tombstones(map(key_of_deleted, records))
        by_key = {one.id for one in records if key_of_deleted(one) in stones}
        return by_key | self.find_deleted(one.id for one in records)

    def find_deleted(self, ids: Iterable[str], *, ever: bool = False) -> set[str]:
        """Return those ids that belong to a deleted memory; with `ever` also if somebody stated it again since."""
        names = {tombstone_id(id): id for id in ids}
        return {names[stone.id] for stone in self.get(names) if ever or stone.status is Status.ACTIVE}


def scan_records(engine: Engine, kind: str, limit: int | None = None, **conditions: Any) -> list[Record]:
    """Return the stored records of a kind, newest first; the conditions are those of `Where`."""
    return list(engine.store.scan(engine.where(kind, **conditions), limit))


def of_owner(engine: Engine, record: Record, kind: str, **conditions: Any) -> Where:
    """Return the filter for records of a kind that have the agent and the user of this one."""
    return replace(engine.where(kind, agents={record.agent}, users={record.user}), **conditions)


def tombstone_id(record_id: str) -> str:
    """Return the id of the tombstone of a record."""
    return f"tom_{record_id}"


def key_of_deleted(record: Record) -> str:
    """Return the key that recognises a memory when it is learned again."""
    if record.kind in LESSONS and record.key in ("", record.id):
        return lesson_key(record.kind, author_of(record), record.user, record.body)
    return record.key or record.id


def is_learned(record: Record) -> bool:
    """Return whether a record is a lesson that outcomes taught, and that nobody stated or edited."""
    return record.kind in LESSONS and record.provenance.origin is Origin.OUTCOME


def lesson_key(kind: str, agent: str, user: str, body: Mapping[str, Any]) -> str:
    """Return the key of a heuristic or an anti-pattern: the same for the same words, whatever group it comes from."""
    return fingerprint(kind, agent, user, strategy_of(body), str(body.get("condition", "")))


def strategy_of(body: Mapping[str, Any]) -> str:
    """Return the strategy of a strategy group, an outcome or a lesson."""
    return str(body.get("strategy") or body.get("pattern"))


def write(engine: Engine, step: Callable[[Transaction], T], *, patient: bool = True) -> T:
    """Run `step` and store what it changed; when another writer was faster, run it again on what is stored now.

    A store does not wait long to write notes alone. Unless `patient`, the BusyError is the caller's to handle.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    pause = 0.001
    while True:
        tx = Transaction(engine)
        result = step(tx)
        records = tx.changed
        if not records and not tx.erased:
            return result
        if not engine.may_approve:
            _refuse_promotion(tx)
        if not tx.is_erasing:
            records = list({one.id: one for one in (*records, *make_changesets(tx))}.values())
        events = derive_events(tx, records) if engine.events.has_listeners else []
        records += make_deliveries(engine, events) if events else []
        # The first vectors decide which embedder a store speaks; later ones must agree.
        embedder = next((record.embedder for record in records if record.vectors), "")
        if embedder:
            marker = tx.get([EMBEDDER_MARKER])
            if not marker:
                records.append(make_embedder_marker(engine, embedder))
            elif marker[0].body["value"] != embedder:
                raise describe_mismatch(marker[0].body["value"], embedder)
        notes = engine.notes.take(engine.project) if engine.notes.waiting else []
        try:
            engine.store.put([*notes, *records])
            if notes:
                engine.notes.settle(notes)
            if events:
                engine.events.publish(events)
            if tx.change_id and (made := MADE.get()) is not None:
                made.append(tx.change_id)
            return result
        except ConflictError as conflict:
            if time.monotonic() > deadline:
                raise BusyError(
                    f"other processes kept changing the same memories for {_PATIENCE_SECONDS:.0f} s; "
                    "nothing was written, try again"
                ) from conflict
        except BusyError:
            if not patient or time.monotonic() > deadline or not all(KINDS[one.kind].passing for one in records):
                raise
        time.sleep(random.uniform(0, pause))
        pause = min(pause * 2, 0.05)


def _refuse_promotion(tx: Transaction) -> None:
    """Raise ScopeError where a gated memory or outside content would become active, or trusted, without a person."""
    changed = {record.id: record for record in tx.changed if record.version > 1}
    for existing in tx.get(changed, as_stored=True):
        fresh = changed[existing.id]
        is_outside = existing.provenance.trust is Trust.UNTRUSTED
        becomes_active = fresh.status is Status.ACTIVE and existing.status is not Status.ACTIVE
        becomes_trusted = is_outside and fresh.provenance.trust is not Trust.UNTRUSTED
        if becomes_trusted or (becomes_active and not tx.engine.may_activate(existing)):
            noun = existing.kind.replace("_", " ")
            raise refuse_activation(existing, "came from outside content" if is_outside else f"is a {noun}")


def refuse_activation(record: Record, reason: str) -> ScopeError:
    """Return the error for a caller who may not make a record active; `reason` continues its id."""
    return ScopeError(
        f"{record.id!r} {reason}, and only a person may make it active: run `alma update {record.id} --status active`, "
        "use a token with the scope 'approve', or start the MCP server with --approve"
    )


def find_embedder_marker(engine: Engine) -> Record | None:
    """Return the record that names the embedder of the store's vectors, or None."""
    return next(iter(engine.store.get([EMBEDDER_MARKER])), None)


def make_embedder_marker(engine: Engine, embedder: str) -> Record:
    """Return the record that names the embedder of the store's vectors."""
    return make_record(engine, "marker", {"value": embedder}, id=EMBEDDER_MARKER, project="")


def describe_mismatch(stored: str, configured: str) -> EmbedderMismatchError:
    """Return the error for a store whose vectors come from another embedder."""
    return EmbedderMismatchError(
        f"the memories of this store were embedded by {stored!r}, but {configured!r} is configured, and their vectors "
        "cannot be compared. Configure the former embedder again, or convert the store with: alma reindex"
    )


def find_mismatch(engine: Engine) -> EmbedderMismatchError | None:
    """Return the error that names both embedders when another one than the configured made the store's vectors."""
    marker, name = find_embedder_marker(engine), engine.embedder_name
    if marker is None or not name or marker.body["value"] == name:
        return None
    return describe_mismatch(marker.body["value"], name)
