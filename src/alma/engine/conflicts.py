"""Conflicts: pairs of memories that seem to contradict each other, which wait for a person's decision.

A conflict is a comparison with the tag `conflict`. A reader files it that is not sure enough to replace a memory, or
may not, because the older one is trusted more; so does a value that disputes what somebody trusted more has said. The
decision stays on the comparison, and the pair is not asked about again until one of its texts changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..errors import NotFoundError, ScopeError, ValidationError
from ..reading.local import READ_AT_ONCE, has_same_words
from ..reading.port import Pair, PairKind, Relation, Verdict
from ..text import words
from ..types.kinds import Memory, MemoryType
from ..types.query import Where, split_batches
from ..types.record import LIVE, Evidence, Origin, Record, Status, Trust
from .admit import clean, explicit_key, reword
from .context import Engine
from .facts import (
    CONFLICT,
    OPPOSED,
    WAITS,
    RecordPair,
    comparison_id,
    find_comparisons,
    forget_dispute,
    put_comparison,
)
from .retrieve.lookalikes import FIELDS, NEAR, has_lookalikes, list_lookalikes, list_scopes, read_words, stated_at
from .search import find_near
from .transaction import Transaction, write
from .view import to_memory

_NEAREST, _POOL = 5, 12
# The fields that say where a memory holds or when it applies.
SCOPES = dict(zip(FIELDS, ("domain", "category", "condition", "trigger"), strict=True))


@dataclass(frozen=True, slots=True)
class MemoryConflict:
    """Two memories that seem to contradict each other."""

    id: str
    relation: str
    probability: float
    found_by: str  # "model" or "local".
    older: Memory
    newer: Memory
    evidence: tuple[Evidence, Evidence]  # Of the older and of the newer one, as below.
    episodes: tuple[tuple[str, ...], tuple[str, ...]]  # The conversations that they come from.
    suggestions: tuple[str, ...]  # Decisions, the likeliest first.


def read_pair(pair: RecordPair) -> Pair:
    """Return the texts of two records as a pair to compare."""
    if pair[0].kind == "strategy":
        return Pair(pair[0].body["strategy"], pair[1].body["strategy"], PairKind.ACTION)
    return Pair(read_words(pair[0]), read_words(pair[1]), PairKind.FACT)


def compare_locally(engine: Engine, pairs: Sequence[Pair]) -> list[Relation]:
    """Return how the local reader finds texts to relate; only texts with the same words are the same for certain."""
    relations = [one for batch in split_batches(pairs, READ_AT_ONCE) for one in engine.compare_closely(batch)]
    certain = Relation(Verdict.SAME, 1.0)
    return [certain if has_same_words(pair) else one for pair, one in zip(pairs, relations, strict=True)]


def check_conflicts(tx: Transaction, record: Record) -> list[str]:
    """Compare a record that was promoted or reworded with its nearest look-alikes; return the conflicts filed."""
    engine = tx.engine
    place = engine.within(record.kind, users={record.user}, sessions={""}, statuses={Status.ACTIVE})
    nearest = list_nearest(tx, record, place) if place.accepts(record) else []
    comparisons = find_comparisons(engine, nearest)
    known = {ids for ids, one in comparisons.items() if one.body.get("decision") != WAITS}
    pairs = [(older, newer) for older, newer in nearest if (older.id, newer.id) not in known]
    relations = zip(pairs, compare_locally(engine, [*map(read_pair, pairs)]), strict=True)
    opposed = [(pair, relation) for pair, relation in relations if relation.verdict in OPPOSED]
    return [put_comparison(tx, pair, relation, Origin.SYSTEM).id for pair, relation in opposed]


def list_nearest(tx: Transaction, record: Record, place: Where) -> list[RecordPair]:
    """Return a record with each of its nearest look-alikes in a place, the older one of each pair first."""
    if not has_lookalikes(record):
        return []
    vector = record.vectors[-1] if record.vectors else None
    near = tx.get(find_near(tx.engine, vector, read_words(record), place, _POOL))
    others = [one for one in near if one.id != record.id and place.accepts(one)]
    sides = ([record], others), (others, [record])
    lookalikes = [one for older, newer in sides for one in list_lookalikes(tx.engine, older, newer, NEAR)]
    nearest = sorted(lookalikes, key=lambda one: (-one.likeness, one.older.id))[:_NEAREST]
    return [(one.older, one.newer) for one in nearest]


# -- the inbox


def list_conflicts(engine: Engine) -> list[MemoryConflict]:
    """Return the conflicts that wait for a decision, oldest first."""
    where = engine.where("comparison", tagged={CONFLICT}, statuses={Status.ACTIVE})
    comparisons = list(engine.store.scan(where))[::-1]
    records = {one.id: one for one in engine.store.get(list({id for one in comparisons for id in one.links}))}
    conflicts, now = [], engine.clock()
    for comparison in comparisons:
        sides = [records[id] for id in comparison.links if id in records and records[id].status in LIVE]
        # Once a text has changed, the comparison says nothing about the pair.
        if len(sides) < 2 or comparison_id(*sides) != comparison.id:
            continue
        older, newer = sides
        places = [(one.agent, one.user, one.body[SCOPES[one.kind]]) for one in sides]
        mine, theirs = (set(words(read_words(one))) for one in sides)
        can_split = places[0] != places[1] or any(mine & names != theirs & names for names in list_scopes())
        is_trusted_more = older.provenance.weight > newer.provenance.weight
        ways = ("older", "newer") if is_trusted_more else ("newer", "older")
        suggestions = [*ways, "split" if _share_key(older, newer) else "both"]
        conflict = MemoryConflict(
            id=comparison.id,
            relation=comparison.body["verdict"],
            probability=comparison.body["probability"],
            found_by="model" if comparison.provenance.origin is Origin.MODEL else "local",
            older=to_memory(older, now),
            newer=to_memory(newer, now),
            evidence=(older.evidence, newer.evidence),
            episodes=(older.provenance.episodes, newer.provenance.episodes),
            suggestions=tuple(dict.fromkeys(["split", *suggestions] if can_split else suggestions)),
        )
        conflicts.append(conflict)
    return conflicts


def _share_key(older: Record, newer: Record) -> bool:
    """Return whether two memories are values of one explicit key, which has one active value."""
    return bool(explicit_key(older.kind, older.body)) and older.links == newer.links


def resolve_conflict(engine: Engine, conflict_id: str, keep: str, older_scope: str, newer_scope: str) -> list[Record]:
    """Carry out a person's decision in one transaction; return the older and the newer memory after it.

    The id may be shortened. A split needs both scopes.
    """
    if not engine.may_approve:
        hint = "run `alma conflicts resolve`, or use a token with the scope 'approve'"
        raise ScopeError(f"only a person may resolve a conflict: {hint}")
    if {bool(older_scope), bool(newer_scope)} != {keep == "split"}:
        raise ValidationError("keep 'split' takes older_scope and newer_scope, where each memory holds; others do not")

    def step(tx: Transaction) -> list[Record]:
        matching = [one for one in list_conflicts(engine) if one.id.startswith(conflict_id)]
        if len(matching) != 1:
            raise NotFoundError(
                f"{len(matching) or 'no'} conflicts begin with {conflict_id!r}; list them: `alma conflicts`"
            )
        comparison, older, newer = tx.get([one.id for one in (matching[0], matching[0].older, matching[0].newer)])
        relation = Relation(Verdict(comparison.body["verdict"]), comparison.body["probability"])
        origin, rejected = comparison.provenance.origin, {"older": [newer], "newer": [older]}.get(keep, [])
        comparison = put_comparison(tx, (older, newer), relation, origin, keep, engine.actor or "person")
        for one in (one for one in (older, newer) if one not in rejected):
            if one.status is not Status.ACTIVE:
                tx.add_history(one, "accepted", "by a person", {"status": str(one.status)})
                tx.accepted.add(one.id)
            # What a person kept has a person's weight.
            provenance = replace(one.provenance, origin=Origin.USER, trust=Trust.TRUSTED)
            kept = replace(one, status=Status.ACTIVE, provenance=provenance, body=forget_dispute(one))
            if kept != one:
                tx.update(kept, updated_at=one.updated_at)
        older, newer = tx.get([older.id, newer.id])
        if keep == "older":
            tx.supersede(newer, older, f"a person kept the older memory: {read_words(older)}")
        elif keep == "newer":
            tx.supersede(older, newer, f"a person kept the newer memory: {read_words(newer)}", stated_at(newer))
        elif keep == "split":
            rejected = [older, newer]
            scoped = _add_scope(tx, older, older_scope), _add_scope(tx, newer, newer_scope)
            # The texts are new: without this, the pair would be compared again.
            comparison = put_comparison(tx, scoped, Relation(Verdict.VARIANT, 1.0), Origin.USER, keep)
        elif _share_key(older, newer):
            raise ValidationError("both are values of one key, which has one value: keep 'newer', 'older' or 'split'")
        # By these keys `find_rejected` finds it.
        keys = {one.key: one.id for one in rejected}
        tx.update(comparison, tags=tuple(keys), body={**comparison.body, "rejected": keys})
        return tx.get([older.id, newer.id])

    return write(engine, step)


def _add_scope(tx: Transaction, record: Record, scope: str) -> Record:
    """Let a memory say where it holds: in a rule's trigger, a warning's condition, or in front of its text and key."""
    kind, body, scope = record.kind, dict(record.body), str(clean(scope))
    if kind in (MemoryType.RULE, MemoryType.ANTI_PATTERN):
        body[SCOPES[kind]] = ", ".join(filter(None, (body[SCOPES[kind]], scope)))
    else:
        body[FIELDS[kind]] = f"{scope}: {body[FIELDS[kind]]}"
        # A key has one active value.
        body |= {"attribute": f"{scope}: {body['attribute']}"} if body.get("attribute") else {}
    fresh = tx.update(record, **reword(tx.engine, record, body))
    changed = [name for name in (SCOPES[kind], FIELDS[kind]) if body[name] != record.body[name]]
    tx.add_history(fresh, "edited", "split by scope", {name: record.body[name] for name in changed})
    return fresh
