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
from itertools import product
from typing import Any

from ..reading.port import Pair, PairKind, Relation, Verdict
from ..text import fingerprint, normalise, stems
from ..types.kinds import KINDS, MEMORY_KINDS, NEWER, MemoryType
from ..types.query import Where, visible_users
from ..types.record import LIVE, PERSONS, Origin, Provenance, Record, Status
from .admit import author_of, explicit_key, link_key, make_record, merge_repetition, place_of
from .context import Engine
from .search import find_repeated
from .tombstones import RESEMBLES
from .transaction import Transaction, of_owner

_ALIKE, _MAX_WATCHED = 16, 16
_WORTH_COMPARING = 0.3
_WORDS: dict[str, str] = {MemoryType.DOMAIN_KNOWLEDGE: "fact", MemoryType.USER_PREFERENCE: "preference"}
_UNDELETED = (Status.ACTIVE, Status.CANDIDATE, Status.ARCHIVED)
RecordPair = tuple[Record, Record]  # The older record and the newer one.
APART = frozenset({Verdict.VARIANT, Verdict.UNRELATED})
OPPOSED = frozenset({Verdict.REPLACES, Verdict.CONTRADICTS})
CONFLICT = "conflict"  # The tag of a comparison that waits for a person.
WAITS = "waits"  # The decision about a memory and a candidate that seem to contradict each other, while that waits.
_BOTH = ("both", "split")  # The decisions after which both memories hold.


def add_records(tx: Transaction, drafts: Sequence[Record]) -> list[Record]:
    """Add drafted records; a repeated one confirms the memory that is there instead of doubling it."""
    engine = tx.engine
    keys = {draft.key for draft in drafts if draft.key}
    watched = {one for draft in drafts for one in (draft.key, *draft.links) if one}
    # An import of many is not held up by each fact that others add meanwhile.
    watched = watched if len(watched) <= _MAX_WATCHED else set()
    tx.watch_keys(watched)
    where = engine.where(*(draft.kind for draft in drafts), keys=keys, statuses=_UNDELETED)
    by_key = {record.key: record for record in tx.scan(where)} if keys else {}
    merged = find_survivors(tx, where) if keys - by_key.keys() else {}
    rejected = find_rejected(tx, keys - by_key.keys())
    records = []
    for draft in drafts:
        existing = by_key.get(draft.key)
        survivor = merged.get(draft.key)
        if existing is None and survivor is not None and draft.provenance.weight <= survivor.provenance.weight:
            existing = survivor
        if existing is None and draft.key in rejected and not draft.provenance.is_persons:
            records.append(rejected[draft.key])
            continue
        if existing is None:
            record = tx.put(draft)
        else:
            changes = merge_repetition(existing, draft)
            repeated = replace(existing, body=changes["body"])
            can_confirm = not engine.must_wait(draft.kind, draft.provenance) and engine.may_activate(existing)
            if can_confirm and not tx.is_new(existing):
                # A person's word that waits because it was deleted is not confirmed by others.
                if draft.provenance.origin is Origin.USER or RESEMBLES not in existing.body.get("metadata", {}):
                    repeated = replace(repeated, body=forget_dispute(repeated))
                    changes |= {"status": Status.ACTIVE, "body": repeated.body}
                # Stated by a more trusted source, it takes that source. What was put away, and is stated again, is
                # the word of who states it now.
                is_put_away = existing.status is Status.ARCHIVED
                if is_put_away or draft.provenance.weight > existing.provenance.weight:
                    changes["provenance"] = draft.provenance
                    changes |= _take_words(repeated, draft)
            record = tx.update(existing, **changes)
        if existing is None or existing.status is not Status.ACTIVE:
            tx.claim_keys(watched & {draft.key, *draft.links})
        if draft.key:
            by_key[draft.key] = record
        records.append(record)
    return records


def _take_words(existing: Record, draft: Record) -> dict[str, Any]:
    """Return the fields of a memory that change if it is worded as in a draft: what is a person's is in their words."""
    name = _WORDS.get(existing.kind, "")
    if not name or existing.body[name] == draft.body[name]:
        return {}
    body = {**existing.body, name: draft.body[name]}
    # The other wordings say what it said before.
    body.pop("wordings", None)
    return {
        "body": body,
        "text": KINDS[existing.kind].text(body),
        "vectors": draft.vectors,
        "embedder": draft.embedder,
        "key": draft.key,
    }


def forget_dispute(record: Record) -> dict[str, Any]:
    """Return the body of a record that disputes no other one any more."""
    marks = ("disputes", NEWER)
    metadata = {name: value for name, value in record.body.get("metadata", {}).items() if name not in marks}
    return {**record.body, **({"metadata": metadata} if metadata != record.body.get("metadata", {}) else {})}


def find_survivors(tx: Transaction, where: Where) -> dict[str, Record]:
    """Return, by the keys of memories that were merged, the memories that took their places."""
    survivors = {}
    for record in tx.scan(replace(where, statuses={Status.SUPERSEDED})):
        for survivor in tx.get([record.superseded_by]):
            if record.id in survivor.body.get("counted", {}) and survivor.status in _UNDELETED:
                survivors[record.key] = survivor
    return survivors


def find_rejected(tx: Transaction, keys: Collection[str]) -> dict[str, Record]:
    """Return, by key, what became of values that a person rejected in a conflict. Only a person brings them back."""
    where = tx.engine.where("comparison", tagged=set(keys), statuses={Status.ACTIVE})
    rejected = dict[str, Record]()
    for one in tx.scan(where) if keys else ():
        pair = tx.get(one.links)
        # Once a text has changed, or what was kept has ended, the decision does not hold any more.
        if len(pair) == 2 and comparison_id(*pair) == one.id and any(record.status in LIVE for record in pair):
            ids = {id: key for key, id in one.body.get("rejected", {}).items() if key in keys}
            rejected |= {ids[record.id]: record for record in pair if record.id in ids}
    return rejected


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
    pairs = sorted((draft.provenance.weight, record.id) for record, draft in zip(added, drafts, strict=True))
    weights = {id: weight for weight, id in pairs}
    # What waited or was archived, and is active because it was stated again, has to find its place like a new one.
    stored = {one.id: one.status for one in filter(None, map(tx.read_stored, weights))}
    known = {one.id for one in added if stored.get(one.id) in (one.status, Status.ACTIVE)}
    fresh = {one.id: one for one in added if one.kind in _WORDS and one.id not in known}
    later = set(fresh)
    repeated: dict[str, str] = {}
    for id, record in fresh.items():
        repeated[id] = _place_fact(tx, record, weights[id], later, replaced.get(id, ""), compare_texts) or id
        later.discard(id)
        if compare_texts and repeated[id] == id:
            _note_placed(tx, record)
    ids = [repeated.get(record.id, record.id) for record in added]
    records = {record.id: record for record in tx.get(ids)}
    return [records[id] for id in ids]


def _place_fact(
    tx: Transaction, record: Record, weight: int, later: Collection[str], replaced: str, compare_texts: bool
) -> str:
    """Put a new fact into its place among the others; return the id of the fact that it only repeats, if there is one.

    `weight` is that of who states it now, and `later` holds the ids of the fact itself and of those that arrive after.
    """
    if record.valid_from is not None and record.valid_from < record.created_at:
        # A fact that is added today for a year ago was known a year ago.
        record = tx.update(record, created_at=record.valid_from)
    # The only link of a fact is that of its key.
    key = set(record.links)
    if record.status is Status.CANDIDATE and KINDS[record.kind].is_gated and record.provenance.weight:
        _dispute_key(tx, record)
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
            changes = merge_repetition(other, record)
            if record.provenance.weight > other.provenance.weight:
                repeated = replace(other, body=changes["body"])
                changes |= {"provenance": record.provenance, **_take_words(repeated, record)}
            return tx.update(other, **changes).id
    targets = [one for one in tx.get([replaced] if replaced else []) if one.id != record.id and where.accepts(one)]
    # A key given later takes over what was stated without one.
    against = list({other.id: other for other in (*keyed, *same, *targets)}.values())
    for other in (*against, *find_persons_values(tx, record, weight)):
        if other.provenance.weight > weight and other.id not in later:
            dispute(tx, record, other)
            return ""
    newer = [other for other in against if _is_later(other, record)]
    if newer:
        # It was so until what is known now began.
        first = min(newer, key=begin_of)
        record = tx.update(record, status=Status.SUPERSEDED, superseded_by=first.id, valid_to=begin_of(first))
    for other in against:
        if other not in newer:
            words = record.body[_WORDS[record.kind]]
            moment = begin_of(record) if tx.is_new(record) else None
            tx.supersede(other, record, f"a later fact: {words}", moment)
    return ""


def dispute(tx: Transaction, record: Record, other: Record) -> Record:
    """Let a value wait for a person, in a conflict with the one that holds."""
    body = {**record.body, "metadata": {**record.body.get("metadata", {}), "disputes": other.id}}
    record = tx.update(record, status=Status.CANDIDATE, body=body)
    put_comparison(tx, (other, record), Relation(Verdict.REPLACES, 1.0), Origin.SYSTEM)
    return record


def _dispute_key(tx: Transaction, record: Record) -> None:
    """Let a gated value, which waits, be in a conflict with the value that its explicit key has."""
    where = of_owner(tx.engine, record, record.kind, statuses={Status.ACTIVE}, linked=set(record.links))
    for other in tx.scan(where, 1) if record.links else ():
        dispute(tx, record, other)


def find_persons_values(tx: Transaction, record: Record, weight: int) -> list[Record]:
    """Return the values that persons gave an explicit key, where they are seen beside a value of somebody else.

    That is in the memories of all agents that read each other's, and of all users if the value is for all.
    """
    scopes, key = tx.engine.scopes, explicit_key(record.kind, record.body)
    if not key or weight >= Provenance(Origin.USER).weight:
        return []
    heirs = (name for name in scopes.known() if record.agent in scopes.readable(name))
    agents = {*scopes.readable(record.agent), *heirs}
    users = visible_users(record.user) if record.user else None
    where = tx.engine.where(record.kind, agents=agents, users=users, statuses={Status.ACTIVE}, origins=PERSONS)
    owners = product(agents, users or ("",))
    links = {link_key(record.kind, agent, user, record.body)[0] for agent, user in owners}
    values = tx.scan(replace(where, linked=links))
    if users is None:
        # The links differ with the user, and a store cannot list its users.
        names = (KINDS[record.kind].unique[0], *KINDS[record.kind].keys)
        fields = {name: record.body[name] for name in names if record.body.get(name)}
        values += [one for one in tx.scan(replace(where, fields=fields)) if explicit_key(one.kind, one.body) == key]
    return [one for one in values if one.id != record.id and one.text != record.text]


def _find_same(
    tx: Transaction, record: Record, where: Where, later: Collection[str], keyed: Sequence[Record]
) -> list[Record]:
    """Return the active records that say the same: those with the key of this one, and any without a key."""
    field, place = _WORDS[record.kind], KINDS[record.kind].unique[0]
    text = record.body[field]
    mine = stems(text)
    ids = find_repeated(tx.engine.store, text, where, _ALIKE)
    stored = tx.see(tx.engine.store.get(ids))
    placed = tx.get(_find_placed(tx, mine))
    alike = [
        other
        for other in {one.id: one for one in (*stored, *placed)}.values()
        if where.accepts(other)
        and other.id not in later
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


def _find_placed(tx: Transaction, stems_of_text: Collection[str]) -> list[str]:
    """Return the ids of facts that this transaction placed and that share a word with a text, at most a few.

    The rarest words come first: a repetition shares them too. With all of them, many facts would be compared with each
    other, pair by pair.
    """
    postings = sorted((tx.placed[word] for word in stems_of_text if word in tx.placed), key=len)
    found: dict[str, None] = {}
    for posting in postings:
        found |= dict.fromkeys(posting[-_ALIKE:])
        if len(found) >= _ALIKE:
            break
    return list(found)


def _note_placed(tx: Transaction, record: Record) -> None:
    """Note the words of a fact, by which later ones of the same transaction find it."""
    for word in stems(str(record.body[_WORDS[record.kind]])):
        tx.placed.setdefault(word, []).append(record.id)


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
    # Other wordings do not count: a memory that takes them over is compared by its own words.
    texts = [KINDS[it.kind].text({**it.body, "wordings": {}}) for it in (first, second)]
    return f"cmp_{fingerprint(first.id, second.id, *texts)}"


def put_comparison(
    tx: Transaction, pair: RecordPair, relation: Relation, origin: Origin, decision: str = "", by: str = ""
) -> Record:
    """Store how two records relate, in place of what was found before; without a decision, a conflict waits for one."""
    body: dict[str, Any] = {"verdict": str(relation.verdict), "probability": relation.probability}
    body |= {"is_checked": True} if relation.is_checked else {}
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
    active = (one for one in engine.store.get(list(ids)) if one.status is Status.ACTIVE)
    return {(ids[one.id][0].id, ids[one.id][1].id): one for one in active}


def is_dismissal(comparison: Record) -> bool:
    """Return whether a comparison found two memories to be about different things."""
    is_apart = comparison.body["verdict"] in APART or comparison.body.get("decision") in _BOTH
    return comparison.status is Status.ACTIVE and is_apart
