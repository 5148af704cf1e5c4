"""What a person does to a rule: accept, edit, widen or narrow, put away, bring back, erase.

Each change keeps the rule as it was in its history, so that `restore` can undo it. Only `erase` cannot be undone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import NotFoundError, ValidationError
from ..reading.local_rules import find_choice
from ..text import normalise
from ..types.kinds import MemoryType
from ..types.query import Where
from ..types.record import LIVE, Origin, Record, Status, Trust
from ..types.rules import EVERYWHERE, LASTING, MACHINE_TAUGHT, Reach, RuleSource
from . import edit
from .admit import clean, key_of, reword
from .context import Engine
from .rules import RULE_CHARS, dress_rule, find_ended_rules, find_similar_rules
from .transaction import Transaction, write

WORDS = ("rule", "trigger", "why")
_FIELDS = (*WORDS, "prefer", "avoid", "source")
_BY_PERSON = ("edited", "accepted", "restored")
_PART_CHARS = 240
_LEAST_QUOTE = 12
"""A shorter sentence ("use tabs") may be part of many that have nothing to do with the rule."""


def change_rule(
    engine: Engine,
    rule_id: str,
    verb: str,
    *,
    words: Mapping[str, str] | None = None,
    reach: Reach | None = None,
    status: Status | None = None,
    session: str = "",
) -> tuple[Record, list[Record]]:
    """Change a rule for a person; return it and the rules that it replaces from now on.

    `words` holds new values of `rule`, `trigger` and `why`. `session` is where a rule of reach once or session holds.
    """
    fields = {name: _check_words(name, value) for name, value in (words or {}).items()}

    def step(tx: Transaction) -> tuple[Record, list[Record]]:
        record = _get_rule(tx, rule_id)
        return _apply(tx, record, verb, fields, reach or Reach(record.body["reach"]), status or record.status, session)

    return write(engine, step)


def restore(engine: Engine, rule_id: str) -> tuple[Record, list[Record]]:
    """Undo the last change of a rule; return the rule and the rules that it replaces.

    A rule that was replaced or put away is in force again, or waits again if it did before. A rule in force gets the
    words, the reach and the status that it had before a person last changed it.
    """
    return write(engine, lambda tx: _restore(tx, rule_id))


def _restore(tx: Transaction, rule_id: str) -> tuple[Record, list[Record]]:
    record = _get_rule(tx, rule_id)
    lines = [one.body for one in reversed(edit.read_history(tx, rule_id))]
    if record.status not in LIVE:
        statuses = (one["before"].get("status") for one in lines)
        before = {"status": next((one for one in statuses if one in LIVE), Status.ACTIVE)}
        if record.status is Status.SUPERSEDED and not record.body.get("put_away"):
            before["reach"] = record.body["reach"] if record.body["reach"] in LASTING else Reach.PROJECT
    else:
        before = next((one["before"] for one in lines if one["verb"] in _BY_PERSON and one["before"]), {})
    fields = {name: before[name] for name in _FIELDS if before.get(name, record.body[name]) != record.body[name]}
    reach, status = Reach(before.get("reach", record.body["reach"])), Status(before.get("status", record.status))
    if not fields and (str(reach), status) == (record.body["reach"], record.status):
        raise ValidationError("there is no change of this rule to undo")
    session, project = before.get("session", record.session), before.get("project", "")
    return _apply(tx, record, "restored", fields, reach, status, session, project)


def find_ended(engine: Engine, rule: Record) -> list[Record]:
    """Return the rules in force that replaced this one, or that it contradicts."""
    return _find_ended(Transaction(engine), rule, rule.superseded_by)


def _find_ended(tx: Transaction, rule: Record, successor: str) -> list[Record]:
    similar = find_similar_rules(tx, rule, rule.project)
    ids = dict.fromkeys([*filter(None, [successor]), *(one.id for one in find_ended_rules(tx, rule, similar))])
    return [one for one in tx.get(ids) if one.kind == MemoryType.RULE and one.status in LIVE]


def _get_rule(tx: Transaction, rule_id: str) -> Record:
    record = tx.find(rule_id)
    if record is None or record.kind != MemoryType.RULE:
        raise NotFoundError(f"there is no rule {rule_id!r} any more")
    return record


def _check_words(name: str, value: str) -> str:
    text = " ".join(str(clean(value)).split())
    most = RULE_CHARS if name == "rule" else _PART_CHARS
    if len(text) > most:
        raise ValidationError(f"the {name} has {len(text)} characters; at most {most} are kept")
    if name == "rule" and not text:
        raise ValidationError("a rule cannot be empty; forget it instead")
    return text


def _apply(
    tx: Transaction,
    record: Record,
    verb: str,
    fields: Mapping[str, Any],
    reach: Reach,
    status: Status,
    session: str,
    project: str = "",
) -> tuple[Record, list[Record]]:
    session = "" if reach in LASTING else record.session or session
    if reach not in LASTING and not session:
        raise ValidationError(f"reach {str(reach)!r} needs a session: pass its id, or use 'project' or 'always'")
    own = project or (record.project if record.project != EVERYWHERE else tx.engine.project)
    body: dict[str, Any] = {**record.body, **fields, "reach": str(reach), "put_away": status not in LIVE}
    changes: dict[str, Any] = {
        "status": status,
        "session": session,
        "project": EVERYWHERE if reach is Reach.ALWAYS else own,
        "superseded_by": "",
        "valid_to": None,
    }
    if fields:
        if "rule" in fields and "prefer" not in fields:
            prefer, avoid = find_choice(body["rule"])
            body |= {"prefer": list(prefer), "avoid": list(avoid)}
        if "why" in fields and "source" not in fields and body["source"] in MACHINE_TAUGHT:
            # The reason is no longer what a program printed.
            body["source"] = str(RuleSource.NOTE)
        body = dress_rule(body)
        changes |= reword(tx.engine, record, body)
        changes["key"] = key_of(record.kind, record.agent, record.user, body) or record.key
        changes["provenance"] = replace(record.provenance, origin=Origin.USER, trust=Trust.TRUSTED)
    fresh = tx.update(record, **{"body": body, **changes})
    before = {name: record.body[name] for name in (*_FIELDS, "reach")}
    before |= {"status": str(record.status), "session": record.session, "project": record.project}
    tx.add_history(fresh, verb, "by a person", before)
    ended = _find_ended(tx, fresh, record.superseded_by) if status is Status.ACTIVE else []
    for one in ended:
        gone = tx.update(one, status=Status.SUPERSEDED, superseded_by=fresh.id)
        why = f"a person {verb}: {fresh.body['rule']}"
        tx.add_history(gone, "superseded", why, {"status": str(one.status)}, fresh.id)
    return fresh, ended


# -- erasing


def erase(engine: Engine, rule: Record) -> int:
    """Erase a rule, its history and every recorded turn that holds the sentence it came from; return how many turns.

    It cannot be undone. The caller erases the sentence from journals, and vacuums.
    """
    edit.delete_memory(replace(engine, project=rule.project), rule.id)
    quotes = find_quotes(rule)
    # A rule of all projects may have been taught in any of them.
    projects = None if rule.project == EVERYWHERE else {rule.project}
    turns = [one for one in engine.store.scan(Where(kinds={"turn"}, projects=projects)) if has_quote(one.text, quotes)]
    for turn in turns:
        edit.delete_memory(replace(engine, project=turn.project), turn.id)
    notes = engine.store.scan(Where(kinds={"retrieval"}, projects=projects))
    engine.store.delete([one.id for one in notes if has_quote(one.body["task"], quotes)])

    def forget_words(tx: Transaction) -> None:
        for one in tx.scan(Where(kinds={MemoryType.RULE}, projects=projects)):
            if has_quote(one.body["said"], quotes):
                tx.update(one, body={**one.body, "said": ""})

    write(engine, forget_words)
    return len(turns)


def find_quotes(rule: Record) -> list[str]:
    """Return the sentences by which a recorded turn is recognised as one that taught this rule."""
    return list(dict.fromkeys(normalise(str(rule.body[name])) for name in ("said", "rule") if rule.body[name]))


def has_quote(text: str, quotes: Sequence[str]) -> bool:
    """Whether a text holds one of these sentences; a short one only counts when it is the whole text."""
    plain = normalise(text)
    return any(one == plain or (len(one) >= _LEAST_QUOTE and one in plain) for one in quotes)
