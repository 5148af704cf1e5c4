"""Operations on single memories: add, update, rate, delete, and list the history."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import NotFoundError, ScopeError, StaleVersionError, ValidationError, unknown
from ..text import digest, shorten
from ..types import speech
from ..types.kinds import EVERYWHERE, KINDS, READABLE_KINDS, FeedbackSignal, MemoryType, Reach, RuleSource
from ..types.query import Where
from ..types.record import LIVE, Origin, Provenance, Record, Status, Trust, new_id
from . import validate
from .admit import KEY_LINK, allow, clean, draft_record, embed_records, readable_body, reword
from .conflicts import check_conflicts
from .context import Engine
from .episodes import find_turns
from .erase import erase_memory
from .facts import add_facts, dispute, find_persons_values
from .observations import OBSERVATION, accept_observation
from .outcomes import find_repeated, prepare_lessons, put_receipt, state_lessons
from .pages import Selection, check_versions, list_selected, shorten_title
from .retrieve.lookalikes import FIELDS
from .rule_lines import dress_rule
from .rules import (
    Teaching,
    accept_words,
    apply_rule_change,
    check_lengths,
    claim_words,
    drop_marks,
    is_copy,
    learn_rules,
    prepare_rules,
    refuse_copy_change,
)
from .transaction import LESSONS, Transaction, refuse_activation, write

Proposal = Record | Teaching
ONLY_HERE = "only_here"
"""In the body of a rule: whether a person said that it holds in its project only."""


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
    lessons, rules = prepare_lessons(engine, lesson_drafts), prepare_rules(engine, teachings)

    def step(tx: Transaction) -> list[Record]:
        added = iter(add_facts(tx, facts, compare_texts=compare_texts))
        lesson_records = iter(state_lessons(tx, lessons))
        taught = iter([_add_rule(tx, *one) for one in rules])
        records = (
            next(taught) if isinstance(one, Teaching) else next(lesson_records if one.kind in LESSONS else added)
            for one in proposals
        )
        return [record for record in records if record is not None]

    return write(engine, step)


def _add_rule(tx: Transaction, teaching: Teaching, draft: Record) -> Record | None:
    """Add a rule; return the stored one, or None if it was refused. One idempotency key adds one rule, once."""
    arguments = digest(
        *(str(draft.body[name]) for name in ("rule", "trigger", "why", "reach")), *_list_extras(teaching)
    )
    if repeated := find_repeated(tx, teaching.receipt, arguments):
        return repeated
    [taught] = learn_rules(tx, [(teaching, draft)])
    return taught.record and put_receipt(tx, teaching.receipt, arguments, taught.record)


def _list_extras(teaching: Teaching) -> list[str]:
    """Return the tags and metadata of a rule for its receipt; none if it has none, as receipts were made before."""
    extras = [sorted(teaching.tags), dict(teaching.metadata)]
    return [json.dumps(extras, sort_keys=True)] if any(extras) else []


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


def check_fields(engine: Engine, memory_id: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return new values of a memory's fields; raise ValidationError unless it has them, and they may be changed."""
    kind = KINDS[find_memory(engine, memory_id).kind]
    allowed, checked = (*kind.editable, "metadata"), dict[str, Any]()
    for name, value in fields.items():
        if name not in allowed:
            raise ValidationError(unknown(f"field of {kind.name}", name, allowed))
        if name == "metadata":
            checked[name] = validate.metadata(name, value)
        else:
            # An empty text clears a field that may be empty.
            is_cleared = name in kind.optional and not validate.optional_text(name, value)
            checked[name] = "" if is_cleared else validate.text(name, value)
    if kind.name == MemoryType.RULE:
        check_lengths(checked)
    return checked


def update_memory(
    engine: Engine,
    memory_id: str,
    fields: Mapping[str, Any],
    status: Status | None,
    tags: tuple[str, ...] | None,
    editor: Provenance,
    expected_version: int | None = None,
) -> Record:
    """Change a memory's own fields, as `check_fields` allows, its status or tags; its history keeps the old ones.

    Raise StaleVersionError if it has another version than the expected one.
    """

    def step(tx: Transaction) -> Record:
        record = read_memory(tx, memory_id)
        check_versions(engine, [record], {memory_id: expected_version} if expected_version is not None else None)
        fresh = change_memory(tx, record, fields, status, tags, editor)
        refuse_second_values(tx, [record])
        return _dispute_moved_value(tx, record, fresh)

    return write(engine, step)


def _dispute_moved_value(tx: Transaction, before: Record, record: Record) -> Record:
    """Let a value wait that an edit gave another key, if a person gave that key a value. Its domain is part of it."""
    if record.links == before.links or record.status is not Status.ACTIVE:
        return record
    persons_values = find_persons_values(tx, record, record.provenance.weight)
    return dispute(tx, record, persons_values[0]) if persons_values else record


def change_memory(
    tx: Transaction,
    record: Record,
    fields: Mapping[str, Any],
    status: Status | None,
    tags: tuple[str, ...] | None,
    editor: Provenance,
    verb: str = "edited",
) -> Record:
    """Change a memory in a transaction, as `update_memory` does. `verb` is the word in its history."""
    engine = tx.engine
    # Anybody may add tags; without one of theirs, a person would no longer find the memory.
    loses_tags = tags is not None and not set(record.tags) <= set(tags)
    if fields or status is not None or loses_tags:
        refuse_overruling(engine, record, "change")
    # Whether it waits for a person, or did when it was put away.
    if status is Status.ACTIVE and not engine.may_approve and tx.find_live_status(record) is Status.CANDIDATE:
        raise refuse_activation(record, "is a candidate")
    for group in tx.get(record.links[:1]) if record.kind in LESSONS and status is Status.ACTIVE else ():
        if group.status is Status.SUPERSEDED:
            merges = [line.key for line in tx.read_history(record.id) if line.body["verb"] == "merged"]
            raise ValidationError(
                f"{record.id} cannot become active: its results count for {group.superseded_by}, which its strategy "
                f"was merged into; undo the merge to restore it: `alma revert {''.join(merges[-1:])}`"
            )
    if record.kind == MemoryType.DOMAIN_KNOWLEDGE and "domain" in fields:
        allow(engine, record.agent, fields["domain"])
    if is_copy(record):
        refuse_copy_change(tx, record, is_changed=bool(fields), is_accepted=status is Status.ACTIVE)
    values = clean(dict(fields))
    body = {**readable_body(record), **values}
    if values.keys() & {*FIELDS.values()}:
        # The other wordings say what it said before.
        body.pop("wordings", None)
    changes: dict[str, Any] = {} if tags is None else {"tags": tags}
    if status is not None:
        changes["status"] = status
        # A lesson that was put away stays away, whatever is learned; a rule only if a person put it away.
        if engine.may_approve or record.kind != MemoryType.RULE:
            body["put_away"] = status is not Status.ACTIVE
        body = accept_words(record, body) if status is Status.ACTIVE else body
        if status is Status.ACTIVE and record.status is Status.SUPERSEDED:
            changes |= {"valid_to": None, "superseded_by": ""}
    if record.kind == MemoryType.EPISODE and changes:
        # Its turns are what is searched. One that was undone, or waits for a person by itself, stays as it is.
        for turn in find_turns(tx, record):
            if turn.status in (record.status, Status.ACTIVE, Status.ARCHIVED):
                tx.update(turn, **changes)
    if record.kind == MemoryType.RULE:
        body = dress_rule(claim_words(record, body, values, status) if engine.may_approve else body)
    if values.keys() - {"metadata"}:
        changes |= reword(engine, record, body)
        changes["provenance"] = credit_edit(record, editor, values)
        is_accepted = status is Status.ACTIVE and engine.may_approve
        if KINDS[record.kind].is_gated and engine.must_wait(record.kind, editor) and not is_accepted:
            # In other words than a person's it is no longer what a person said or accepted.
            changes["status"] = Status.CANDIDATE if record.status is Status.ACTIVE else record.status
    if status is Status.ACTIVE and engine.may_approve:
        tx.accepted.add(record.id)
    changes["body"] = body
    if status is None and all(getattr(record, name) == value for name, value in changes.items()):
        return record
    fresh = tx.update(record, **changes)
    if record.kind == MemoryType.RULE and "rule" in values:
        drop_marks(tx, fresh)
    before = {name: record.body.get(name) for name in values if record.body.get(name) != fresh.body.get(name)}
    before |= {"status": str(record.status)} if record.status is not fresh.status else {}
    before |= {"tags": list(record.tags)} if record.tags != fresh.tags else {}
    tx.add_history(fresh, verb, before=before)
    if fresh.text != record.text or (fresh.status, record.status) == (Status.ACTIVE, Status.CANDIDATE):
        check_conflicts(tx, fresh)
    return fresh


# -- decisions about several memories

MAX_REVIEWED = 1000
_DECISIONS: dict[str, tuple[str, tuple[Status, ...]]] = {
    "approve": ("accepted", (Status.CANDIDATE,)),
    "reject": ("rejected", (Status.CANDIDATE,)),
    "archive": ("archived", LIVE),
    "restore": ("restored", (Status.ARCHIVED, Status.SUPERSEDED, Status.RETIRED)),
    "apply_here": ("edited", LIVE),
    "apply_everywhere": ("edited", LIVE),
    "make_rule": ("accepted", LIVE),
}
"""For each action: the verb in the history, and the statuses that it applies to."""


@dataclass(frozen=True, slots=True)
class Reviewed:
    """The memories that a person decided about, in one change."""

    action: str
    count: int
    ids: list[str]
    change: str
    """Pass it to `revert` to undo the decision."""


def review_memories(
    engine: Engine,
    action: str,
    chosen: Sequence[str] | Selection,
    expected_count: int | None,
    expected_versions: dict[str, int] | None,
) -> Reviewed:
    """Decide about memories, all or none, in one change."""

    def step(tx: Transaction) -> tuple[list[str], Transaction]:
        if isinstance(chosen, Selection):
            selected, is_partial = list_selected(engine, chosen, MAX_REVIEWED)
            records = tx.see(selected)
            if is_partial:
                raise ValidationError(f"more than {MAX_REVIEWED:,} memories match; narrow the filter")
        else:
            records = [read_memory(tx, one, OBSERVATION) for one in dict.fromkeys(chosen)]
        if expected_count is not None and len(records) != expected_count:
            message = (
                f"{len(records)} memories match now, not {expected_count}; nothing was changed. Look again and retry"
            )
            raise StaleVersionError(message, {"count": len(records)})
        check_versions(engine, records, expected_versions)
        if wrong := [one for one in records if one.status not in _DECISIONS[action][1]]:
            valid = ", ".join(_DECISIONS[action][1])
            raise ValidationError(
                f"{action} applies to memories with the status {valid}, but {len(wrong)} of {len(records)} differ, "
                f"such as {shorten_title(wrong[0], 60)!r} ({wrong[0].id}), {wrong[0].status}; nothing was changed"
            )
        for one in tx.get([one.id for one in records]):
            [current] = tx.get([one.id])
            # An earlier one may have taken its place.
            if current.status is one.status:
                _decide(tx, action, current)
        refuse_second_values(tx, records)
        return [one.id for one in records], tx

    ids, tx = write(engine, step)
    return Reviewed(action, len(ids), ids, tx.change_id)


def _decide(tx: Transaction, action: str, record: Record) -> None:
    verb, is_rule = _DECISIONS[action][0], record.kind == MemoryType.RULE
    wanted = MemoryType.RULE if action.startswith("apply_") else OBSERVATION if action == "make_rule" else ""
    if wanted and not tx.engine.may_approve:
        raise ScopeError("only a person may make a rule, or change where one applies: use a token of scope 'approve'")
    if record.kind != wanted if wanted else (record.kind, action) == (OBSERVATION, "approve"):
        raise ValidationError(f"{action} does not apply to {record.id!r}, which is of type {record.kind}")
    if action == "make_rule":
        accept_observation(tx, record)
        return
    if wanted:
        reach = Reach.PROJECT if action == "apply_here" else Reach.ALWAYS
        fresh, _ = apply_rule_change(tx, record, verb, {}, reach, record.status, "")
        tx.update(fresh, body={**fresh.body, ONLY_HERE: action == "apply_here"})
        return
    status = Status.ACTIVE if action == "approve" else Status.ARCHIVED
    if action == "restore":
        # One that was waiting when it was put away waits again.
        status = tx.find_live_status(record) or Status.ACTIVE
    if is_rule and tx.engine.may_approve:
        apply_rule_change(tx, record, verb, {}, Reach(record.body["reach"]), status, record.session)
    else:
        change_memory(tx, record, {}, status, None, Provenance(Origin.USER), verb)


def refuse_overruling(engine: Engine, record: Record, verb: str) -> None:
    """Raise ScopeError where a caller who may not approve would change or erase what a person said."""
    if not engine.may_approve and record.provenance.is_from_person:
        raise ScopeError(
            f"memory {record.id!r} was stated by a person, and only a person may {verb} it: run `alma update` or "
            "`alma delete`, use a token with the scope 'approve', or start the MCP server with --approve. To record "
            "something different, add another memory"
        )


def _refuse_erasing_talk(engine: Engine, record: Record) -> None:
    """Raise ScopeError where a caller who may not approve would erase what a person said in a conversation."""
    is_persons_turn = record.kind == "turn" and speech.is_person(record.body["speaker"])
    if not engine.may_approve and (is_persons_turn or record.body.get("said")):
        raise ScopeError(
            f"a person speaks in {record.id!r}, and only a person may delete it: run `alma delete`, use a token with "
            "the scope 'approve', or start the MCP server with --approve. To hide it, archive it"
        )


def refuse_second_values(tx: Transaction, before: Sequence[Record]) -> None:
    """Raise ValidationError if one of these is active now, was not before, and its key or strategy has another one."""
    past = {one.id: one.status for one in before}
    for record in tx.get(past):
        is_lesson = record.kind in LESSONS
        key = {link for link in record.links if is_lesson or link.startswith(KEY_LINK)}
        if not key or record.status is not Status.ACTIVE or past[record.id] is Status.ACTIVE:
            continue
        kinds = LESSONS if is_lesson else {record.kind}
        where = Where(kinds=kinds, projects={record.project}, linked=key, statuses={Status.ACTIVE})
        for other in (one for one in tx.scan(where) if one.id != record.id):
            what = "its strategy has the lesson" if is_lesson else "its key has the value"
            raise ValidationError(
                f"{record.id} cannot become active: {what} {other.id} ({shorten(other.text, 80)!r}); "
                f"undo or archive that one first: `alma undo {other.id}`, `alma update {other.id} --status archived`"
            )


def credit_edit(record: Record, editor: Provenance, values: Mapping[str, Any]) -> Provenance:
    """Return the provenance of a record after an edit: what it says is the editor's only if the editor wrote it."""
    if record.kind == MemoryType.RULE and editor.origin is not Origin.USER:
        raise ValidationError(
            "only a person may change the text of a rule (source 'user'); propose another rule with add_rule instead"
        )
    main = FIELDS.get(record.kind, "strategy")
    is_rewritten = values.get(main, record.body.get(main)) != record.body.get(main)
    # What was learned from outcomes or a correction is worded anew, unless it is the editor's.
    if not is_rewritten and record.provenance.origin not in (Origin.OUTCOME, Origin.CORRECTION):
        return record.provenance
    if editor.origin is Origin.USER:
        return replace(record.provenance, origin=Origin.USER, trust=Trust.TRUSTED)
    if record.provenance.trust is Trust.UNTRUSTED:
        return record.provenance
    return replace(record.provenance, origin=editor.origin, trust=editor.trust)


def delete_memory(engine: Engine, memory_id: str) -> None:
    """Delete a memory permanently, with everything that repeats its words, and do not learn it again by itself.

    If the process is killed, the same call finishes the work.
    """
    record = find_memory(engine, memory_id)
    refuse_overruling(engine, record, "delete")
    _refuse_erasing_talk(engine, record)
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
