"""One transaction for all writers: a step reads and changes records, and all of its changes are stored, or none.

`write(engine, step)` runs `step(tx)` and puts what it changed. When another process was faster, the step runs again on
what is stored now, so that no increment is lost: a step must have no other effects.

A deleted memory leaves a tombstone, and is recognised by a salted hash of its look-up key: it does not come back by
itself. The key is a hash of the memory's words, and without a salt, whoever holds the file could try out words against
it. Each store draws its own salt when something is deleted for the first time; an import brings the salts of its
tombstones.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ..errors import BusyError, ConflictError, EmbedderMismatchError, ScopeError
from ..text import fingerprint
from ..types.kinds import KINDS, MemoryType
from ..types.query import Where
from ..types.record import Record, Status, Trust
from ..types.rules import EVERYWHERE
from .admit import make_record, place_of
from .context import Engine

T = TypeVar("T")

_PATIENCE_SECONDS = 60.0
EMBEDDER_MARKER = "mrk_embedder"
SALT_MARKER = "mrk_salts"
LESSONS = (MemoryType.HEURISTIC, MemoryType.ANTI_PATTERN)


class Transaction:
    """The records that one write reads and changes. Reads see what the transaction itself has changed.

    A record is read once: what is not there when it is first looked for stays absent in this transaction, and making it
    meets a conflict if somebody else was faster.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.unindexed: dict[tuple[str, ...], list[str]] = {}
        """Ids of new records by the words that find them: the store cannot find them yet."""
        self._read: dict[str, Record | None] = {}
        self._changed: dict[str, Record] = {}
        self._changed_of_kind: defaultdict[str, dict[str, None]] = defaultdict(dict)

    @property
    def changed(self) -> list[Record]:
        """Every new or changed record, in the order in which they were first put."""
        return list(self._changed.values())

    def get(self, ids: Iterable[str]) -> list[Record]:
        """Return the records with these ids, in that order; those that do not exist are left out."""
        wanted = dict.fromkeys(ids)
        self._load(id for id in wanted if id not in self._changed)
        return [record for id in wanted if (record := self._changed.get(id) or self._read[id]) is not None]

    def find(self, id: str) -> Record | None:
        if id not in self._changed:
            self._load((id,))
        return self._changed.get(id) or self._read[id]

    def read_stored(self, ids: Iterable[str]) -> list[Record]:
        """Return the records with these ids as they are stored, before the changes of this transaction."""
        wanted = list(ids)
        self._load(wanted)
        return [record for id in wanted if (record := self._read[id]) is not None]

    def _load(self, ids: Iterable[str]) -> None:
        missing = [id for id in ids if id not in self._read]
        if missing:
            self._read |= dict.fromkeys(missing)
            for record in self.engine.store.get(missing):
                self._read[record.id] = record

    def see(self, stored: Iterable[Record]) -> list[Record]:
        """Return records that were just read from the store as this transaction has them."""
        return [self._changed.get(one.id) or self._remember(one) for one in stored]

    def _remember(self, stored: Record) -> Record:
        held = self._read.get(stored.id)
        if held is None:
            self._read[stored.id] = held = stored
        return held

    def scan(self, where: Where, limit: int | None = None) -> list[Record]:
        """Return the records that `where` accepts: new ones of this transaction last, stored ones newest first."""
        return self.select(self.engine.store.scan(where, limit), where)[:limit]

    def select(self, stored: Iterable[Record], where: Where) -> list[Record]:
        """Return what `where` accepts of stored records, as they are now, and of those changed in this transaction."""
        records = {record.id: record for record in self.see(stored)}
        for kind in list(self._changed_of_kind) if where.kinds is None else where.kinds:
            records |= {id: self._changed[id] for id in self._changed_of_kind.get(kind, ())}
        return [record for record in records.values() if where.accepts(record)]

    def is_new(self, record: Record) -> bool:
        """Whether the record was made in this transaction."""
        return record.id in self._changed and self._read.get(record.id) is None

    def is_changed(self, id: str) -> bool:
        """Whether a record was made or changed in this transaction."""
        return id in self._changed

    def put(self, record: Record) -> Record:
        """Store a new or a changed record. Its version grows once, however often it changes in this transaction."""
        held = self._read.get(record.id)
        if held is not None:
            record = replace(record, version=held.version + 1, updated_at=self.engine.clock())
        return self.restore(record)

    def restore(self, record: Record) -> Record:
        """Store a record exactly as it is, with the version and the dates that it brings."""
        self._changed[record.id] = record
        self._changed_of_kind[record.kind][record.id] = None
        return record

    def update(self, record: Record, **changes: Any) -> Record:
        """Store the next version of a record with these fields changed, dated anew unless `updated_at` is given."""
        held = self._read.get(record.id) if record.id in self._changed else self._remember(record)
        if held is not None:
            changes = {"version": held.version + 1, "updated_at": self.engine.clock(), **changes}
        return self.restore(replace(record, **changes))

    def drop(self, record: Record) -> None:
        """Forget that a record was put in this transaction."""
        self._changed.pop(record.id, None)
        self._changed_of_kind[record.kind].pop(record.id, None)

    def add_history(
        self,
        record: Record,
        verb: str,
        why: str = "",
        before: Mapping[str, Any] | None = None,
        quoted: str = "",
        **fields: Any,
    ) -> Record:
        """Store a line of a record's history. `quoted` is the id of another record whose words stand in `why`."""
        body = {"record": record.id, "verb": verb, "why": why, "before": dict(before or {})}
        links = (record.id, quoted) if quoted else (record.id,)
        return self.put(make_record(self.engine, "change", body, links=links, **place_of(record), **fields))

    def once(self, id: str, body: Mapping[str, Any], **fields: Any) -> bool:
        """Store the marker `id` and return True; False when it is stored already: this was written before."""
        if self.find(id) is not None:
            return False
        self.put(make_record(self.engine, "marker", body, id=id, **fields))
        return True

    def set_marker(self, id: str, body: Mapping[str, Any], **fields: Any) -> Record:
        """Store the marker `id` with this body, in place of what it held."""
        held = self.find(id)
        if held is not None:
            return self.update(held, body=body)
        return self.put(make_record(self.engine, "marker", body, id=id, **fields))

    # -- deleted memories

    def read_salts(self) -> list[str]:
        """Return the salts of the tombstones held, the store's own first; none before anything was deleted."""
        held = self.find(SALT_MARKER)
        return list(held.body["value"]) if held else []

    def find_tombstones(self, keys: Iterable[str]) -> dict[str, Record]:
        """Return the active tombstones of this project and of all projects that recognise these keys, by key."""
        wanted = {key for key in keys if key}
        if not wanted:
            return {}
        # Tombstones of earlier versions hold the key itself.
        by_hash = {key: key for key in wanted}
        by_hash |= {hash_key(salt, key): key for salt in self.read_salts() for key in wanted}
        projects = {self.engine.project, EVERYWHERE}
        where = Where(kinds={"tombstone"}, projects=projects, keys=set(by_hash), statuses={Status.ACTIVE})
        return {by_hash[stone.key]: stone for stone in self.scan(where)}

    def is_buried(self, key: str) -> bool:
        """Whether the memory with this key was deleted, so that it must not come back by itself."""
        return bool(self.find_tombstones([key]))

    def find_deleted(self, ids: Iterable[str]) -> set[str]:
        """Return those ids that belong to a deleted memory."""
        names = {tombstone_id(id): id for id in ids}
        return {names[stone.id] for stone in self.get(names) if stone.status is Status.ACTIVE}


def tombstone_id(record_id: str) -> str:
    return f"tom_{record_id}"


def hash_key(salt: str, key: str) -> str:
    # Loaded here: it takes a while, and few memories have deleted anything.
    import hashlib

    return hashlib.blake2b(key.encode("utf-8"), key=bytes.fromhex(salt), digest_size=16).hexdigest()


def key_of_deleted(record: Record) -> str:
    """Return the key that recognises a memory when it is learned again."""
    if record.kind in LESSONS and record.key in ("", record.id):
        return lesson_key(record.kind, record.agent, record.user, record.body)
    return record.key or record.id


def lesson_key(kind: str, agent: str, user: str, body: Mapping[str, Any]) -> str:
    """Return the key of a heuristic or an anti-pattern: the same for the same words, whatever group it comes from."""
    strategy = str(body.get("strategy") or body.get("pattern"))
    return fingerprint(kind, agent, user, strategy, str(body["condition"]))


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
        if not records:
            return result
        if not engine.may_approve:
            _refuse_promotion(tx)
        notes = engine.notes.take(engine.project)
        stored = False
        try:
            engine.store.put([*notes, *records, *_claim_embedder(tx, records)])
            stored = True
            return result
        except ConflictError as conflict:
            if time.monotonic() > deadline:
                raise BusyError(
                    f"other writers were faster for {_PATIENCE_SECONDS:.0f} s; nothing was written, try again"
                ) from conflict
        except BusyError:
            if not patient or time.monotonic() > deadline or not all(KINDS[one.kind].passing for one in records):
                raise
        finally:
            engine.notes.settle(notes, stored=stored)
        time.sleep(random.uniform(0, pause))
        pause = min(pause * 2, 0.05)


def _refuse_promotion(tx: Transaction) -> None:
    """Raise ScopeError where a rule or outside content would become active, or trusted, without a person."""
    changed = {record.id: record for record in tx.changed if record.version > 1}
    for held in tx.read_stored(changed):
        fresh = changed[held.id]
        is_outside = held.provenance.trust is Trust.UNTRUSTED
        becomes_active = fresh.status is Status.ACTIVE and held.status is not Status.ACTIVE
        becomes_trusted = is_outside and fresh.provenance.trust is not Trust.UNTRUSTED
        if becomes_trusted or (becomes_active and not tx.engine.may_activate(held)):
            raise refuse_activation(held, "came from outside content" if is_outside else "is a rule")


def refuse_activation(record: Record, reason: str) -> ScopeError:
    """Return the error for a caller who may not make a record active; `reason` continues its id."""
    return ScopeError(
        f"{record.id!r} {reason}, and only a person may make it active: run `alma update {record.id} --status active`, "
        "use a token with the scope 'approve', or start the MCP server with --approve"
    )


def _claim_embedder(tx: Transaction, records: Sequence[Record]) -> list[Record]:
    """The first vectors decide which embedder a store speaks; later ones must agree."""
    embedder = next((record.embedder for record in records if record.vectors), "")
    held = tx.find(EMBEDDER_MARKER) if embedder else None
    if held is not None and held.body["value"] != embedder:
        raise describe_mismatch(held.body["value"], embedder)
    return [make_embedder_marker(tx.engine, embedder)] if embedder and held is None else []


def find_embedder_marker(engine: Engine) -> Record | None:
    return next(iter(engine.store.get([EMBEDDER_MARKER])), None)


def make_embedder_marker(engine: Engine, embedder: str) -> Record:
    return make_record(engine, "marker", {"value": embedder}, id=EMBEDDER_MARKER, project="")


def describe_mismatch(held: str, wanted: str) -> EmbedderMismatchError:
    return EmbedderMismatchError(
        f"the memories of this store were embedded by {held!r}, but {wanted!r} is configured, and their vectors cannot "
        f"be compared. Set the embedder back, or move the store over with: alma reindex"
    )
