"""Maintenance of a store: reindex for another embedder, and ask a model about look-alikes.

Moving: each record remembers its embedder, so the work can stop anywhere and go on later. What the new one has embedded
already is passed over. The marker changes last; until then readers and writers of the old embedder go on.

A model is asked how look-alikes relate, once for each pair. What a newer memory repeats, replaces or contradicts is
superseded: it stays in history, and `update` with the status 'active' restores it. Pairs about different things are no
longer marked. A call that fails changes nothing: what was not answered is asked the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

from ..errors import ConflictError, ModelError, StorageError
from ..ports import Model
from ..reading.port import Comparer, Pair, PairKind, Reader, Relation, Verdict
from ..types.kinds import EVERYWHERE, KINDS
from ..types.query import Where
from ..types.record import Origin, Record, Status
from .admit import embed_records, make_record, place_of
from .context import Engine
from .facts import APART, RecordPair, comparison_id, find_comparisons
from .retrieve.rank import FIELDS, NEAR, list_lookalikes, read_words, stated_at
from .transaction import EMBEDDER_MARKER, Transaction, find_embedder_marker, make_embedder_marker, split_batches, write

MUTE: dict[str, Any] = {"vectors": (), "embedder": ""}

Progress = Callable[[int, int], None]


def find_stale(engine: Engine) -> list[str]:
    """Return the ids of what is not embedded by the configured embedder, oldest first."""
    kinds = [name for name, kind in KINDS.items() if kind.passages(dict.fromkeys(kind.fields, "x"))]
    return [record.id for record in engine.store.scan(Where(kinds=kinds)) if _is_stale(engine, record)][::-1]


def _is_stale(engine: Engine, record: Record) -> bool:
    return record.embedder != (engine.embedder_name if KINDS[record.kind].passages(record.body) else "")


def ignore_progress(done: int, total: int) -> None:
    """Ignore the progress."""


def reindex(engine: Engine, progress: Progress = ignore_progress) -> int:
    """Embed all records again that need it; return how many there were."""
    moved, name = 0, engine.embedder_name
    before: list[str] = []
    while (todo := find_stale(engine)) and todo != before:
        done = 0
        for ids in split_batches(todo):
            stale = [one for one in engine.store.get(ids) if _is_stale(engine, one)]
            fresh = embed_records(engine, [replace(one, **MUTE, version=one.version + 1) for one in stale])
            # Not through a transaction, which would refuse the vectors of another embedder.
            try:
                engine.store.put(fresh)
            except ConflictError:
                for record in fresh:
                    # Somebody changed one of them; the next round meets it again.
                    with suppress(ConflictError):
                        engine.store.put([record])
            done += len(ids)
            progress(done, len(todo))
        moved += len(todo)
        before = todo
    if todo:
        raise StorageError(f"{len(todo)} records could not be embedded again, {todo[0]} among them; run `alma doctor`")
    marker = find_embedder_marker(engine)
    if marker is not None and not name:
        engine.store.delete([EMBEDDER_MARKER])
    elif name and (marker is None or marker.body["value"] != name):
        version = marker.version + 1 if marker else 1
        engine.store.put([replace(make_embedder_marker(engine, name), version=version)])
    return moved


MAX_PAIRS = 400  # So many are compared in one run; the next run goes on.
_PAIRS_PER_CALL = 40
_MAX_RECORDS = 500  # So many of the newest memories of a kind are compared with each other.
_NEAREST = 5
_SURE = 0.7
_REASONS = {
    Verdict.SAME: "a later memory says the same",
    Verdict.REPLACES: "a later memory takes its place",
    Verdict.CONTRADICTS: "a later memory contradicts it",
}


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The result of one run. `superseded` holds ids; `waiting` pairs got no answer and are asked about again."""

    compared: int = 0
    superseded: tuple[str, ...] = ()
    apart: int = 0  # Pairs that turned out to be about different things.
    waiting: int = 0
    problem: str = ""  # Why pairs are waiting, or why nothing was compared.


def list_unresolved(engine: Engine) -> list[RecordPair]:
    """Return the pairs of active memories that look alike and were not compared yet, in a fixed order."""
    pairs: list[RecordPair] = []
    for kind in FIELDS:
        where = Where(kinds={kind}, projects={engine.project, EVERYWHERE}, statuses={Status.ACTIVE}, sessions={""})
        records = list(engine.store.scan(where, _MAX_RECORDS))
        by_newer: dict[str, list[RecordPair]] = {}
        lookalikes = list_lookalikes(engine, records, records, NEAR)
        for one in sorted(lookalikes, key=lambda one: (-one.likeness, one.older.id)):
            by_newer.setdefault(one.newer.id, []).append((one.older, one.newer))
        for nearest in by_newer.values():
            pairs += nearest[:_NEAREST]
    comparisons = find_comparisons(engine, pairs)
    unresolved = [pair for pair in pairs if (pair[0].id, pair[1].id) not in comparisons]
    return sorted(unresolved, key=lambda pair: (pair[1].kind, stated_at(pair[1]), *map(read_words, reversed(pair))))


def reconcile_by_model(engine: Engine, model: Model | None, limit: int = MAX_PAIRS) -> Reconciled:
    """Ask the configured model. Without one nothing is compared, and `problem` says so."""
    if model is None:
        return Reconciled(waiting=len(list_unresolved(engine)), problem="no model is configured")
    return reconcile(engine, open_reader(model), limit)


def open_reader(model: Model) -> Reader:
    """Return a reader that asks a model."""
    # Loaded here because it takes longer than most calls, and few have a model.
    from ..reading.model import ModelReader

    return ModelReader(model)


def reconcile(engine: Engine, reader: Comparer, limit: int = MAX_PAIRS) -> Reconciled:
    """Have the reader compare look-alikes, and supersede what is out of date."""
    pairs = list_unresolved(engine)
    compared, apart, superseded = 0, 0, list[str]()
    for batch in split_pairs(pairs[:limit]):
        try:
            relations = reader.compare([read_pair(pair) for pair in batch])
        except ModelError as error:
            return Reconciled(compared, tuple(superseded), apart, len(pairs) - compared, str(error))
        answered = [one for one in zip(batch, relations, strict=True) if one[1].probability > 0.0]
        superseded += write(engine, partial(record_verdicts, answered=answered))
        compared += len(answered)
        apart += sum(relation.verdict in APART for _, relation in answered)
    return Reconciled(compared, tuple(superseded), apart, len(pairs) - compared)


def split_pairs(pairs: Sequence[RecordPair]) -> Iterator[Sequence[RecordPair]]:
    """Yield as many pairs at a time as are asked about in one call, all of one kind."""
    for _, group in groupby(pairs, key=lambda pair: pair[1].kind):
        yield from split_batches(list(group), _PAIRS_PER_CALL)


def read_pair(pair: RecordPair) -> Pair:
    """Return the texts of two records as a pair to compare."""
    return Pair(read_words(pair[0]), read_words(pair[1]), PairKind.FACT)


def record_verdicts(tx: Transaction, answered: Sequence[tuple[RecordPair, Relation]]) -> list[str]:
    """Store what was found out about pairs; return the ids of what is superseded.

    Records that are no longer active, or say something else now than when they were compared, are left alone.
    """
    ended: list[str] = []
    for (older, newer), relation in answered:
        current = tx.get([older.id, newer.id], as_stored=True)
        state = [(one.status, one.text) for one in current]
        if state != [(Status.ACTIVE, older.text), (Status.ACTIVE, newer.text)]:
            continue
        body = {"verdict": str(relation.verdict), "probability": relation.probability}
        place = {**place_of(newer), "project": tx.engine.project, "links": (older.id, newer.id)}
        comparison = make_record(tx.engine, "comparison", body, Origin.MODEL, id=comparison_id(older, newer), **place)
        if tx.find(comparison.id) is not None:
            continue
        tx.put(comparison)
        is_replaced = relation.verdict in _REASONS and relation.probability >= _SURE
        # Nobody ends what is trusted more.
        if not is_replaced or older.provenance.weight > newer.provenance.weight or {older.id, newer.id} & {*ended}:
            continue
        reason = f"{_REASONS[relation.verdict]}: {read_words(newer)}"
        # It says nothing new, so it is not dated anew.
        tx.supersede(current[0], newer, reason, stated_at(newer), updated_at=current[0].updated_at)
        ended.append(older.id)
    return ended
