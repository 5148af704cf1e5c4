"""Ask a model how look-alikes relate, and keep what it says: once for each pair, and so that it can be undone.

What a newer memory repeats, replaces or contradicts is superseded: it stays in history, and `update` with the status
'active' restores it. Pairs about different things are no longer marked. A call that fails changes nothing: what was
not answered is asked the next time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from ...errors import ModelError
from ...ports import Model
from ...reading.port import About, Comparer, Pair, Relation, Verdict
from ...types.query import Where
from ...types.record import Origin, Status
from ...types.rules import EVERYWHERE
from ..admit import make_record, place_of
from ..context import Engine
from ..facts import APART, RecordPair, comparison_id, find_comparisons
from ..retrieve.lookalikes import FIELDS, NEAR, list_lookalikes, read_words, stated_at
from ..transaction import Transaction, write

MAX_PAIRS = 400
"""So many are compared in one run; the next run goes on."""
_BATCH = 40
_MAX_RECORDS = 500
"""So many of the newest memories of a kind are compared with each other."""
_NEAREST = 5
_SURE = 0.7
_REASONS = {
    Verdict.SAME: "a later memory says the same",
    Verdict.REPLACES: "a later memory takes its place",
    Verdict.CONTRADICTS: "a later memory contradicts it",
}


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What one run did. `superseded` holds ids; `waiting` pairs were not answered and are asked again."""

    compared: int = 0
    superseded: tuple[str, ...] = ()
    apart: int = 0
    """Pairs that turned out to be about different things."""
    waiting: int = 0
    problem: str = ""
    """Why pairs are waiting, or why nothing was compared."""


def list_unresolved(engine: Engine) -> list[RecordPair]:
    """Return the pairs of active memories that look alike and were not compared yet, in a fixed order."""
    pairs: list[RecordPair] = []
    for kind in FIELDS:
        where = Where(kinds={kind}, projects={engine.project, EVERYWHERE}, statuses={Status.ACTIVE}, sessions={""})
        records = list(engine.store.scan(where, _MAX_RECORDS))
        by_newer: dict[str, list[tuple[float, RecordPair]]] = {}
        for one in list_lookalikes(engine, records, records, NEAR):
            by_newer.setdefault(one.newer.id, []).append((-one.likeness, (one.older, one.newer)))
        for nearest in by_newer.values():
            pairs += [pair for _, pair in sorted(nearest, key=lambda entry: (entry[0], entry[1][0].id))[:_NEAREST]]
    known = find_comparisons(engine, pairs)
    unresolved = [pair for pair in pairs if (pair[0].id, pair[1].id) not in known]
    return sorted(unresolved, key=lambda pair: (pair[1].kind, stated_at(pair[1]), *map(read_words, reversed(pair))))


def reconcile_by_model(engine: Engine, model: Model | None, limit: int = MAX_PAIRS) -> Reconciled:
    """Ask the configured model. Without one nothing is compared, and `problem` says so."""
    if model is None:
        return Reconciled(waiting=len(list_unresolved(engine)), problem="no model is configured")
    # Loaded here because it takes longer than most calls, and few have a model.
    from ...reading.model import ModelReader

    return reconcile(engine, ModelReader(model), limit)


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
        of_kind = list(group)
        for start in range(0, len(of_kind), _BATCH):
            yield of_kind[start : start + _BATCH]


def read_pair(pair: RecordPair) -> Pair:
    return Pair(read_words(pair[0]), read_words(pair[1]), About.FACT)


def record_verdicts(tx: Transaction, answered: Sequence[tuple[RecordPair, Relation]]) -> list[str]:
    """Store what was found out about pairs; return the ids of what is superseded.

    Records that are no longer active, or say something else now than when they were compared, are left alone.
    """
    ended: list[str] = []
    for (older, newer), relation in answered:
        current = tx.read_stored([older.id, newer.id])
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
