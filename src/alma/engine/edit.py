"""Operations on single memories: add, update, rate, delete, and list the history."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import NotFoundError, ScopeError, ValidationError, unknown
from ..text import digest
from ..types.kinds import EVERYWHERE, KINDS, READABLE_KINDS, FeedbackSignal, MemoryType, Reach, RuleSource
from ..types.record import LIVE, Origin, Provenance, Record, Status, Trust, new_id
from . import validate
from .admit import allow, clean, draft_record, embed_records, make_record, place_of, reword
from .conflicts import check_conflicts
from .context import Engine
from .episodes import find_turns
from .erase import erase_memory
from .facts import add_facts
from .outcomes import prepare_lessons, readable_body, state_lessons
from .rules import Teaching, dress_rule, learn_rules, prepare_rules
from .transaction import LESSONS, Transaction, refuse_activation, write

Proposal = Record | Teaching


def build_proposal(engine: Engine, kind: MemoryType, arguments: Mapping[str, Any]) -> Proposal:
    """Return the proposal that the checked arguments of an `add_` method describe."""
    provenance = validate.provenance("source", arguments["source"] or "user_stated")
    if arguments.get("subject") is not None and arguments.get("attribute") is None:
        raise ValidationError(
            "`subject` requires `attribute`: together they identify the fact that a later one replaces"
        )
    shared: dict[str, Any] = {
        "user": arguments["user_id"] or "",
        "provenance": provenance,
        "tags": arguments["tags"] or (),
    }
    if "agent" in arguments:
        shared["agent"] = engine.agent(arguments["agent"])
    metadata = dict(arguments["metadata"] or {})
    body = {
        name: arguments[name] for name in KINDS[kind].fields if arguments.get(name) is not None and name != "source"
    }
    if kind is MemoryType.RULE:
        by_person = provenance.origin is Origin.USER
        source = RuleSource.NOTE if by_person else RuleSource.IMPORT
        body["reach"] = Reach(body["reach"])
        # Only a person's words become a rule at once; what anybody else writes waits for a person.
        shared |= {"id": new_id("tea"), "at": engine.clock(), "source": source, "sure": by_person}
        if key := arguments.get("idempotency_key"):
            shared["receipt"] = f"rcp_{digest(engine.project, 'rule', key, size=20)}"
        return Teaching(**body, **shared, metadata=metadata)
    body["metadata"] = metadata
    category = arguments.get("domain", "")
    if kind in LESSONS:
        body["task_type"] = category = arguments["category"] or ""
    return draft_record(engine, kind, body, category=category, **shared)


def add_memories(engine: Engine, proposals: Sequence[Proposal], *, compare_texts: bool = False) -> list[Record]:
    """Add facts, preferences, stated lessons and rules in one transaction; return each as it is stored.

    Without `compare_texts` only an equal text is recognised as a repetition of a fact.
    """
    teachings = [one for one in proposals if isinstance(one, Teaching)]
    lesson_drafts = [one for one in proposals if isinstance(one, Record) and one.kind in LESSONS]
    facts = embed_records(engine, [one for one in proposals if isinstance(one, Record) and one.kind not in LESSONS])
    lessons = prepare_lessons(engine, lesson_drafts) if lesson_drafts else []
    rules = prepare_rules(engine, teachings) if teachings else []

    def step(tx: Transaction) -> list[Record]:
        added = iter(add_facts(tx, facts, compare_texts=compare_texts) if facts else ())
        lesson_records = iter(state_lessons(tx, lessons) if lessons else ())
        taught = iter([_add_rule(tx, *one) for one in rules])
        records = (
            next(taught) if isinstance(one, Teaching) else next(lesson_records if one.kind in LESSONS else added)
            for one in proposals
        )
        return [record for record in records if record is not None]

    return write(engine, step)


def _add_rule(tx: Transaction, teaching: Teaching, draft: Record) -> Record | None:
    """Add a rule; return the stored one, or None if it was refused. One idempotency key adds one rule, once."""
    receipt = tx.find(teaching.receipt) if teaching.receipt else None
    arguments = digest(*(str(draft.body[name]) for name in ("rule", "trigger", "why", "reach")))
    if receipt is None:
        [taught] = learn_rules(tx, [(teaching, draft)])
        if teaching.receipt and taught.record is not None:
            body = {"arguments": arguments, "outcome": taught.record.id}
            tx.put(make_record(tx.engine, "receipt", body, id=teaching.receipt, **place_of(taught.record)))
        return taught.record
    if receipt.body["arguments"] != arguments:
        raise ValidationError(
            "the idempotency_key was already used for another rule; pass the same rule to repeat the call, or a new key"
        )
    record = tx.find(receipt.body["outcome"])
    if record is None:
        raise NotFoundError("the rule of this idempotency_key was deleted; pass another key to add it again")
    return record


def is_own(engine: Engine, record: Record) -> bool:
    """Return whether it is a memory of this project, or a rule of all projects."""
    if record.kind == MemoryType.RULE and record.project == EVERYWHERE:
        return True
    return record.project == engine.project and record.kind in READABLE_KINDS


def find_memory(engine: Engine, memory_id: str, other_kind: str = "") -> Record:
    """Return a memory of this project, or a record of one other kind, or raise NotFoundError."""
    return read_memory(Transaction(engine), memory_id, other_kind)


def read_memory(tx: Transaction, memory_id: str, other_kind: str = "") -> Record:
    """Return a memory of this project, or a record of one other kind, as a transaction sees it."""
    record = tx.find(memory_id)
    is_other = record is not None and (record.kind, record.project) == (other_kind, tx.engine.project) and record.body
    if record is None or not (is_other or is_own(tx.engine, record)):
        raise NotFoundError(
            f"there is no memory {memory_id!r} in project {tx.engine.project!r}; "
            "list or search the memories to find its id (`alma list --status all`)"
        )
    return record


def list_history(engine: Engine, memory_id: str) -> list[Record]:
    """Return what happened to a memory, oldest first."""
    return Transaction(engine).read_history(memory_id)


def check_fields(engine: Engine, memory_id: str, fields: Iterable[str]) -> None:
    """Raise ValidationError unless the memory has these fields, and they may be changed."""
    record = find_memory(engine, memory_id)
    allowed = (*KINDS[record.kind].editable, "metadata")
    for name in fields:
        if name not in allowed:
            raise ValidationError(unknown(f"field of {record.kind}", name, allowed))


def update_memory(
    engine: Engine,
    memory_id: str,
    fields: Mapping[str, Any],
    status: Status | None,
    tags: tuple[str, ...] | None,
    editor: Provenance,
) -> Record:
    """Change a memory's own fields, as `check_fields` allows, its status or tags; its history keeps the old ones."""

    def step(tx: Transaction) -> Record:
        record = read_memory(tx, memory_id)
        if fields or status is not None:
            refuse_overruling(engine, record, "change")
        if status is Status.ACTIVE and not engine.may_approve:
            # Whether it waits for a person, or did when it was put away.
            past = [line.body["before"].get("status") for line in reversed(tx.read_history(record.id))]
            if next((one for one in (record.status, *past) if one in LIVE), None) == Status.CANDIDATE:
                raise refuse_activation(record, "is a candidate")
        if record.kind == MemoryType.DOMAIN_KNOWLEDGE and "domain" in fields:
            allow(engine, record.agent, fields["domain"])
        values = clean(dict(fields))
        body = {**readable_body(record), **values}
        changes: dict[str, Any] = {} if tags is None else {"tags": tags}
        if status is not None:
            changes["status"] = status
            # A lesson that a person put away stays away, whatever is learned.
            body["put_away"] = status is not Status.ACTIVE
            if status is Status.ACTIVE and record.status is Status.SUPERSEDED:
                changes |= {"valid_to": None, "superseded_by": ""}
        if record.kind == MemoryType.EPISODE and changes:
            # Its turns are what is searched.
            for turn in find_turns(tx, record):
                tx.update(turn, **changes)
        if record.kind == MemoryType.RULE:
            body = dress_rule(body)
        if values.keys() - {"metadata"}:
            changes |= reword(engine, record, body)
            changes["provenance"] = _edited_by(record, editor)
        if status is Status.ACTIVE and engine.may_approve:
            tx.accepted.add(record.id)
        fresh = tx.update(record, **{"body": body, **changes})
        before = {name: record.body.get(name) for name in values} | {
            "status": str(record.status),
            "tags": list(record.tags),
        }
        tx.add_history(fresh, "edited", before=before)
        if fresh.text != record.text or (fresh.status, record.status) == (Status.ACTIVE, Status.CANDIDATE):
            check_conflicts(tx, fresh)
        return fresh

    return write(engine, step)


def refuse_overruling(engine: Engine, record: Record, verb: str) -> None:
    """Raise ScopeError where a caller who may not approve would change or erase what a person said."""
    if not engine.may_approve and record.provenance.is_persons:
        raise ScopeError(
            f"memory {record.id!r} was stated by a person, and only a person may {verb} it: run `alma update` or "
            "`alma delete`, use a token with the scope 'approve', or start the MCP server with --approve. To record "
            "something different, add another memory"
        )


def _edited_by(record: Record, editor: Provenance) -> Provenance:
    """Return the provenance of an edited record: after a person edited it, learning changes only its evidence."""
    if editor.origin is Origin.USER:
        return replace(record.provenance, origin=Origin.USER, trust=Trust.TRUSTED)
    if record.kind == MemoryType.RULE:
        raise ValidationError(
            "only a person may change the text of a rule (source 'user'); propose another rule with add_rule instead"
        )
    if record.provenance.trust is Trust.UNTRUSTED:
        return record.provenance
    return replace(record.provenance, origin=editor.origin, trust=editor.trust)


def delete_memory(engine: Engine, memory_id: str) -> None:
    """Delete a memory permanently, with everything that repeats its words, and do not learn it again by itself.

    If the process is killed, the same call finishes the work.
    """
    record = find_memory(engine, memory_id)
    refuse_overruling(engine, record, "delete")
    erase_memory(engine, record)


_LOG = logging.getLogger("alma")
_COUNTS = {
    FeedbackSignal.USED: "uses",
    FeedbackSignal.IGNORED: "skips",
    FeedbackSignal.THUMBS_UP: "ups",
    FeedbackSignal.THUMBS_DOWN: "downs",
}


@dataclass(frozen=True, slots=True)
class FeedbackReport:
    """Which memories the feedback was recorded for, and which ids are unknown."""

    recorded: tuple[str, ...]
    unknown: tuple[str, ...]  # Ids that are not held (any more); feedback on them changes nothing.


def record_feedback(
    engine: Engine, signals: Mapping[str, FeedbackSignal], kind: MemoryType | None = None
) -> FeedbackReport:
    """Count one signal for each memory, all or none; with a `kind`, memories of other kinds are an error."""

    def step(tx: Transaction) -> list[str]:
        records = [record for record in tx.get(signals) if is_own(engine, record)]
        for record in records:
            if kind is not None and record.kind != kind:
                raise ValidationError(f"memory {record.id!r} is of type {record.kind}, not {kind}")
            signal, evidence = signals[record.id], record.evidence
            changes: dict[str, Any] = {_COUNTS[signal]: getattr(evidence, _COUNTS[signal]) + 1}
            if signal is not FeedbackSignal.IGNORED:
                changes["last_used"] = engine.clock()
            # `updated_at` stays: being talked about is not being confirmed.
            tx.update(record, evidence=replace(evidence, **changes), updated_at=record.updated_at)
        return [record.id for record in records]

    recorded = write(engine, step)
    unknown = [id for id in signals if id not in recorded]
    if unknown:
        _LOG.warning("ignored feedback on memories that do not exist: %s", ", ".join(unknown))
    return FeedbackReport(tuple(recorded), tuple(unknown))


def read_usage(retrieved: list[str], used: list[str]) -> dict[str, FeedbackSignal]:
    """Return one signal for each retrieved memory: used or ignored."""
    strangers = [name for name in used if name not in retrieved]
    if strangers:
        raise ValidationError(
            f"memories that were used must be among those that were shown; not shown: {', '.join(strangers)}"
        )
    repeated = [name for name, times in Counter(retrieved).items() if times > 1]
    if repeated:
        raise ValidationError(f"these ids of shown memories occur more than once: {', '.join(repeated)}")
    return {name: FeedbackSignal.USED if name in used else FeedbackSignal.IGNORED for name in retrieved}
