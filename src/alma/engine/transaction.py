"""One transaction for all writers: a step reads and changes records, and all of its changes are stored, or none.

`write(engine, step)` runs `step(tx)` and puts what it changed. When another process was faster, the step runs again on
what is stored now, so that no increment is lost: a step must have no other effects.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ..errors import BusyError, ConflictError, EmbedderMismatchError, ScopeError
from ..types.kinds import KINDS
from ..types.query import Where
from ..types.record import Record, Status, Trust
from .admit import change, make_marker
from .context import Engine
from .tombstones import find_tombstones

T = TypeVar("T")

_PATIENCE_SECONDS = 60.0
EMBEDDER_MARKER = "mrk_embedder"


class Transaction:
    """The records that one write reads and changes. Reads see what the transaction itself has changed."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._read: dict[str, Record] = {}
        self._absent: set[str] = set()
        self._changed: dict[str, Record] = {}

    @property
    def changed(self) -> list[Record]:
        """Every new or changed record, in the order in which they were first put."""
        return list(self._changed.values())

    def get(self, ids: Iterable[str]) -> list[Record]:
        """Return the records with these ids, in that order; those that do not exist are left out."""
        wanted = list(dict.fromkeys(ids))
        missing = [id for id in wanted if id not in self._read and id not in self._changed and id not in self._absent]
        for record in self.engine.store.get(missing) if missing else ():
            self._read[record.id] = record
        # What was not there stays so for this transaction: if another writer adds it, the put fails and is tried again.
        self._absent.update(id for id in missing if id not in self._read)
        found = (self._changed.get(id) or self._read.get(id) for id in wanted)
        return [record for record in found if record is not None]

    def find(self, id: str) -> Record | None:
        return next(iter(self.get([id])), None)

    def scan(self, where: Where, limit: int | None = None) -> list[Record]:
        """Return the records that `where` accepts: new ones of this transaction last, stored ones newest first."""
        stored = self.see(self.engine.store.scan(where, limit))
        known = {record.id for record in stored}
        fresh = [record for record in self._changed.values() if record.id not in known]
        return [record for record in (*stored, *fresh) if where.accepts(record)][:limit]

    def see(self, stored: Iterable[Record]) -> list[Record]:
        """Return records that were just read from the store as this transaction has them."""
        return [self._changed.get(one.id) or self._read.setdefault(one.id, one) for one in stored]

    def is_new(self, record: Record) -> bool:
        """Whether the record was made in this transaction."""
        return record.id in self._changed and record.id not in self._read

    def put(self, record: Record) -> Record:
        """Store a new or a changed record. Its version grows once, however often it changes in this transaction."""
        held = self._read.get(record.id)
        if held is not None:
            record = replace(record, version=held.version + 1, updated_at=self.engine.clock())
        self._changed[record.id] = record
        return record

    def update(self, record: Record, **changes: Any) -> Record:
        """Store the next version of a record with these fields changed."""
        if record.id not in self._changed:
            self._read.setdefault(record.id, record)
        return self.put(replace(record, **changes))

    def drop(self, record: Record) -> None:
        """Forget that a record was put in this transaction."""
        self._changed.pop(record.id, None)

    def add_history(
        self, record: Record, verb: str, why: str = "", before: Mapping[str, Any] | None = None, quoted: str = ""
    ) -> Record:
        """Store a line of a record's history. `quoted` is the id of another record whose words stand in `why`."""
        return self.put(change(self.engine, record, verb, why, before, quoted))

    def once(self, id: str, body: Mapping[str, Any], **fields: Any) -> bool:
        """Store the marker `id` and return True; False when it is stored already: this was written before."""
        if self.find(id) is not None:
            return False
        self.put(make_marker(self.engine, id, body, **fields))
        return True

    def set_marker(self, id: str, body: Mapping[str, Any], **fields: Any) -> Record:
        """Store the marker `id` with this body, in place of what it held."""
        return self.put(make_marker(self.engine, id, body, self.find(id), **fields))

    def find_tombstones(self, keys: Iterable[str]) -> dict[str, Record]:
        """Return the active tombstones that recognise these keys, by key."""
        stones = {key: self.see([stone])[0] for key, stone in find_tombstones(self.engine, keys).items()}
        return {key: stone for key, stone in stones.items() if stone.status is Status.ACTIVE}

    def is_buried(self, key: str) -> bool:
        """Whether the memory with this key was deleted, so that it must not come back by itself."""
        return bool(self.find_tombstones([key]))


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
        _refuse_promotion(engine, records)
        notes = engine.notes.take(engine.project)
        stored = False
        try:
            engine.store.put([*notes, *records, *_claim(engine, records)])
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


def commit(engine: Engine, attempt: Callable[[], tuple[T, Sequence[Record]]], *, patient: bool = True) -> T:
    """Put what `attempt` builds, as `write` does."""

    def step(tx: Transaction) -> T:
        result, records = attempt()
        for record in records:
            tx.put(record)
        return result

    return write(engine, step, patient=patient)


def _refuse_promotion(engine: Engine, records: Sequence[Record]) -> None:
    """Raise ScopeError where a rule or outside content would become active, or trusted, without a person."""
    if engine.may_approve:
        return
    changed = {record.id: record for record in records if record.version > 1}
    for held in engine.store.get(list(changed)) if changed else ():
        fresh = changed[held.id]
        is_outside = held.provenance.trust is Trust.UNTRUSTED
        becomes_active = fresh.status is Status.ACTIVE and held.status is not Status.ACTIVE
        becomes_trusted = is_outside and fresh.provenance.trust is not Trust.UNTRUSTED
        if becomes_trusted or (becomes_active and not engine.may_activate(held)):
            raise refuse_activation(held, "came from outside content" if is_outside else "is a rule")


def refuse_activation(record: Record, reason: str) -> ScopeError:
    """Return the error for a caller who may not make a record active; `reason` continues its id."""
    return ScopeError(
        f"{record.id!r} {reason}, and only a person may make it active: run `alma update {record.id} --status active`, "
        "use a token with the scope 'approve', or start the MCP server with --approve"
    )


def _claim(engine: Engine, records: Sequence[Record]) -> list[Record]:
    """The first vectors decide which embedder a store speaks; later ones must agree."""
    embedder = next((record.embedder for record in records if record.vectors), "")
    if not embedder:
        return []
    held = marker(engine)
    if held is None:
        return [embedder_marker(engine, embedder)]
    if held.body["value"] != embedder:
        raise mismatch(held.body["value"], embedder)
    return []


def marker(engine: Engine) -> Record | None:
    found = engine.store.get([EMBEDDER_MARKER])
    return found[0] if found else None


def embedder_marker(engine: Engine, embedder: str) -> Record:
    return make_marker(engine, EMBEDDER_MARKER, {"value": embedder}, project="")


def mismatch(held: str, wanted: str) -> EmbedderMismatchError:
    return EmbedderMismatchError(
        f"the memories of this store were embedded by {held!r}, but {wanted!r} is configured, and their vectors cannot "
        f"be compared. Set the embedder back, or move the store over with: alma reindex"
    )
