"""Facts and preferences: what repeats, what replaces its predecessor, and what is added.

With an explicit key a value replaces the older value of the same agent, user, domain or category and key: the older one
ends at the moment of the new one and stays in history, where `as_of` finds it. A value whose own time is before the
known one goes straight to history; one without a time of its own is ordered by arrival, not by the clock. Nobody ends
what somebody who is trusted more has said: such a value waits for a person. Without a key a text that the reader finds
to be the same refreshes what is held, and everything else is added: two facts that may contradict each other both stay
active.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..reading.port import Pair, PairKind, Relation, Verdict
from ..text import fingerprint, normalise, stems
from ..types.kinds import KINDS, MEMORY_KINDS, MemoryType
from ..types.query import Where
from ..types.record import Origin, Provenance, Record, Status, Trust
from .admit import author_of, make_record, place_of
from .context import Engine
from .search import by_words
from .tombstones import RESEMBLES
from .transaction import Transaction, of_owner

_ALIKE = 16
_WORTH_COMPARING = 0.3
_WORDS = {MemoryType.DOMAIN_KNOWLEDGE: "fact", MemoryType.USER_PREFERENCE: "preference"}
_UNDELETED = (Status.ACTIVE, Status.CANDIDATE, Status.ARCHIVED)
RecordPair = tuple[Record, Record]  # The older record and the newer one.
APART = frozenset({Verdict.VARIANT, Verdict.UNRELATED})
OPPOSED = frozenset({Verdict.REPLACES, Verdict.CONTRADICTS})
CONFLICT = "conflict"  # The tag of a comparison that waits for a person.
_BOTH = ("both", "split")  # The decisions after which both memories hold.


def add_records(tx: Transaction, drafts: Sequence[Record]) -> list[Record]:
    """Add drafted records; a repeated one confirms the memory that is there instead of doubling it."""
    engine = tx.engine
    keys = {draft.key for draft in drafts if draft.key}
    where = Where(projects={engine.project}, keys=keys, statuses=_UNDELETED, kinds={draft.kind for draft in drafts})
    by_key = {record.key: record for record in tx.scan(where)} if keys else {}
    records = []
    for draft in drafts:
        existing = by_key.get(draft.key)
        if existing is None:
            record = tx.put(draft)
        else:
            changes: dict[str, Any] = {"tags": tuple(dict.fromkeys((*existing.tags, *draft.tags)))}
            is_trusted = draft.provenance.trust is not Trust.UNTRUSTED and engine.may_activate(existing)
            if is_trusted and not tx.is_new(existing):
                # A person's word that waits because it was deleted is not confirmed by others.
                if draft.provenance.origin is Origin.USER or RESEMBLES not in existing.body.get("metadata", {}):
                    changes["status"] = Status.ACTIVE
                if draft.provenance.weight > existing.provenance.weight:
                    # Stated by a more trusted source, it takes that source.
                    changes["provenance"] = draft.provenance
            record = tx.update(existing, **changes)
        if draft.key:
            by_key[draft.key] = record
        records.append(record)
    return records


def add_facts(
    tx: Transaction, drafts: Sequence[Record], *, compare_texts: bool = True, replaces: Sequence[str] = ()
) -> list[Record]:
    """Add drafted records as `add_records` does; keyed facts replace their predecessors.

    A draft's `valid_from` is when it was said; without one it is said now. `replaces` names, for each draft, the id of
    a memory of the same kind, agent and user that it replaces as if they had the same key; "" for none. Without
    `compare_texts` only an equal text is recognised as a repetition, which is faster for many drafts.
    """
    added = add_records(tx, drafts)
    replaced = {record.id: id for record, id in zip(added, replaces, strict=False) if id}
    fresh = {record.id: record for record in added if record.kind in _WORDS and record.version == 1}
    later = set(fresh)
    repeated: dict[str, str] = {}
    for id, record in fresh.items():
        if repeated_id := _place_fact(tx, record, later, replaced.get(id, ""), compare_texts):
            repeated[id] = repeated_id
        later.discard(id)
    ids = [repeated.get(record.id, record.id) for record in added]
    records = {record.id: record for record in tx.get(ids)}
    return [records[id] for id in ids]


def _place_fact(tx: Transaction, record: Record, later: Collection[str], replaced: str, compare_texts: bool) -> str:
    """Put a new fact into its place among the others; return the id of the fact that it only repeats, if there is one.

    `later` holds the ids of the fact itself and of those that arrive after it.
    """
    if record.valid_from is not None and record.valid_from < record.created_at:
        # A fact that is added today for a year ago was known a year ago.
        record = tx.update(record, created_at=record.valid_from)
    # The only link of a fact is that of its key.
    key = set(record.links)
    if record.status is not Status.ACTIVE or not (key or replaced or compare_texts):
        return ""
    # What the agent knew may have been promoted since.
    place = {"projects": {record.project}, "agents": {record.agent, *tx.engine.scopes.spaces(record.agent)}}
    where = of_owner(tx.engine, record, record.kind, statuses={Status.ACTIVE}, **place)
    keyed = [one for one in tx.scan(replace(where, linked=key)) if one.id not in later] if key else []
    same = _find_same(tx, record, where, later, keyed) if compare_texts else []
    for other in same:
        if not key or other.links == record.links:
            tx.drop(record)
            return tx.update(other, tags=tuple(dict.fromkeys((*other.tags, *record.tags)))).id
    targets = [one for one in tx.get([replaced] if replaced else []) if one.id != record.id and where.accepts(one)]
    # A key given later takes over what was stated without one.
    against = list({other.id: other for other in (*keyed, *same, *targets)}.values())
    for other in against:
        if other.provenance.weight > record.provenance.weight:
            body = {**record.body, "metadata": {**record.body.get("metadata", {}), "disputes": other.id}}
            record = tx.update(record, status=Status.CANDIDATE, body=body)
            put_comparison(tx, (other, record), Relation(Verdict.REPLACES, 1.0), Origin.SYSTEM)
            return ""
    newer = [other for other in against if _is_later(other, record)]
    if newer:
        # It was so until what is known now began.
        first = min(newer, key=begin_of)
        record = tx.update(record, status=Status.SUPERSEDED, superseded_by=first.id, valid_to=begin_of(first))
    for other in against:
        if other not in newer:
            words = record.body[_WORDS[MemoryType(record.kind)]]
            tx.supersede(other, record, f"a later fact: {words}", begin_of(record))
    return ""


def _find_same(
    tx: Transaction, record: Record, where: Where, later: Collection[str], keyed: Sequence[Record]
) -> list[Record]:
    """Return the active records that say the same: those with the key of this one, and any without a key."""
    field, place = _WORDS[MemoryType(record.kind)], KINDS[record.kind].unique[0]
    text = record.body[field]
    mine = stems(text)
    hits = by_words(tx.engine.store, text, where, _ALIKE)
    alike = [
        other
        for other in tx.select(tx.engine.store.get([hit.id for hit in hits]), where)
        if other.id not in later
        and author_of(other) == record.agent
        and not (record.links and other.links)
        and normalise(other.body[place]) == normalise(record.body[place])
        # One shared word in many is not worth a closer look.
        and len(mine & (theirs := stems(other.body[field]))) >= _WORTH_COMPARING * max(len(mine), len(theirs))
    ]
    alike = [*keyed, *alike]
    pairs = [Pair(other.body[field], text, PairKind.FACT) for other in alike]
    relations = tx.engine.reader.compare(pairs) if pairs else ()
    return [other for other, relation in zip(alike, relations, strict=True) if relation.is_same]


def _is_later(other: Record, record: Record) -> bool:
    """Return whether a stored fact is about a later time than one that arrives now.

    Without a time of its own a fact is later than all that arrived before it, whatever the clocks said then and say
    now; only one that was announced for a time to come is later still.
    """
    if record.valid_from is not None:
        return begin_of(other) > record.valid_from
    return other.valid_from is not None and other.valid_from > max(other.created_at, record.created_at)


def begin_of(record: Record) -> datetime:
    """Return the time from which a fact holds."""
    return record.valid_from or record.created_at


# -- what a reader found out about pairs of memories: one record for each pair, so that no pair is asked about twice
#
# A comparison belongs to the words of both memories. When one of them is edited, the pair is compared again. The origin
# of what the local reader found is `system`: it does not keep a model from being asked later.


def comparison_id(one: Record, other: Record) -> str:
    """Return the id of the comparison of two records, whichever is the newer: restoring one does not ask again."""
    first, second = sorted((one, other), key=lambda record: record.id)
    return f"cmp_{fingerprint(first.id, second.id, first.text, second.text)}"


def put_comparison(
    tx: Transaction, pair: RecordPair, relation: Relation, origin: Origin, decision: str = "", by: str = ""
) -> Record:
    """Store how two records relate, in place of what was found before; without a decision, a conflict waits for one."""
    body: dict[str, Any] = {"verdict": str(relation.verdict), "probability": relation.probability}
    if decision:
        body |= {"decision": decision, "by": by or str(origin), "at": tx.engine.clock().isoformat()}
    is_open = not decision and relation.verdict in OPPOSED and pair[1].kind in MEMORY_KINDS
    fields: dict[str, Any] = {"provenance": Provenance(origin), "tags": (CONFLICT,) if is_open else ()}
    existing = tx.find(comparison_id(*pair))
    if existing is not None:
        return tx.update(existing, body=body, status=Status.ACTIVE, **fields)
    fields |= {**place_of(pair[1]), "project": tx.engine.project, "links": (pair[0].id, pair[1].id)}
    return tx.put(make_record(tx.engine, "comparison", body, id=comparison_id(*pair), **fields))


def find_comparisons(engine: Engine, pairs: Sequence[RecordPair]) -> dict[tuple[str, str], Record]:
    """Return by both ids the comparison of each pair that has one."""
    ids = {comparison_id(*pair): pair for pair in pairs}
    records = engine.store.get(list(ids)) if ids else []
    return {(ids[one.id][0].id, ids[one.id][1].id): one for one in records if one.status is Status.ACTIVE}


def find_dismissed(engine: Engine, pairs: Sequence[RecordPair]) -> Collection[tuple[str, str]]:
    """Return the ids of those pairs that are known to be about different things."""
    comparisons = find_comparisons(engine, pairs)
    return {
        ids for ids, one in comparisons.items() if one.body["verdict"] in APART or one.body.get("decision") in _BOTH
    }
