"""Observations: a command that failed and another form of it that worked. What the agent did, not what a person said.

An observation quotes both commands and how often each failed or worked. It is never one of the user's rules: it
becomes one only when a person accepts it. One whose commands weaken safety or read like an instruction is stored, but
not shown until then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..coding.calls import RepairedCommand
from ..reading.local import LocalReader, find_programs, names_change, split_command
from ..reading.port import Repair
from ..text import shorten
from ..types.kinds import MemoryType
from ..types.query import Where
from ..types.record import LIVE, Origin, Provenance, Record, Status, Trust
from ..types.rules import RuleSource
from ..types.speech import quote_output
from .admit import Draft, build, clean, key_of, screen
from .context import Engine
from .erase import make_tombstone
from .inject.escape import escape, suspicious
from .redact import redact
from .rules import AGENT
from .safety import find_doubtful_change, find_weakening
from .transaction import Transaction, write

OBSERVATION = "observation"
NO_LESSON = "the model sees no lesson in it"
_COMMAND_CHARS = 160
_NOTE_CHARS = 200
_SOURCES = 50
_ARROW = " → "
"""Between the two commands in `said` of a rule that an earlier version made of a repair."""


@dataclass(frozen=True, slots=True)
class PreparedRepair:
    """A repair that shows something, and the observation that it would become."""

    repair: RepairedCommand
    draft: Draft
    is_lasting: bool
    """Whether the output names what was changed, and nothing else was edited in between that may have helped."""


def prepare_repairs(engine: Engine, repairs: Sequence[RepairedCommand]) -> list[PreparedRepair]:
    """Return the repairs that show something, by the local reader."""
    cases = [Repair(*(redact(text) for text in (one.failed, one.error, one.worked))) for one in repairs]
    prepared = []
    for repair, shown in zip(repairs, LocalReader().explain_repairs(cases), strict=True):
        if shown.note:
            programs = find_programs(split_command(shown.repair.failed))
            trigger = f"running {programs[0]}" if programs else ""
            draft = draft_observation(engine, repair.failed, repair.worked, trigger=trigger)
            prepared.append(PreparedRepair(repair, draft, names_change(shown.repair) and not repair.edits))
    return prepared


def record_repairs(tx: Transaction, session: str, prepared: Sequence[PreparedRepair]) -> list[Record]:
    """Count each repair once for its observation; return the observations that changed. A deleted one stays away."""
    changed: dict[str, Record] = {}
    for one in prepared:
        key = one.draft.key
        held = find_observation(tx, key)
        if held is None and tx.is_buried(key):
            continue
        record = held or build(tx.engine, one.draft, status=Status.CANDIDATE)
        metadata = dict(record.body["metadata"])
        source = ":".join(one.repair.ids)
        if source in metadata["sources"] or record.status not in LIVE:
            continue
        sessions = list(dict.fromkeys([*metadata["sessions"], session]))[-_SOURCES:]
        metadata |= {"sources": [*metadata["sources"], source][-_SOURCES:], "sessions": sessions}
        body = dress_observation(
            {
                **record.body,
                "failures": record.body.get("failures", 0) + one.repair.failures,
                "successes": record.body.get("successes", 0) + 1,
                "metadata": metadata,
            }
        )
        is_telling = one.is_lasting or len(sessions) > 1 or record.status is Status.ACTIVE
        status = Status.ACTIVE if is_telling and not body["concern"] else Status.CANDIDATE
        changes: dict[str, Any] = {"body": body, "status": status}
        changed[key] = tx.put(replace(record, **changes)) if held is None else tx.update(held, **changes)
    return list(changed.values())


def draft_observation(engine: Engine, failed: str, worked: str, **fields: Any) -> Draft:
    body = {
        "failed": quote_command(failed),
        "worked": quote_command(worked),
        "source": str(RuleSource.FIX),
        "prefer": [],
        "avoid": [],
        "concern": find_concern(failed, worked),
        "metadata": {"sources": [], "sessions": []},
        **fields,
    }
    source = Provenance(Origin.OUTCOME, Trust.LEARNED, source=str(RuleSource.FIX))
    return screen(engine, Draft(kind=OBSERVATION, agent=AGENT, body=dress_observation(body), provenance=source))


def find_observation(tx: Transaction, key: str) -> Record | None:
    where = Where(kinds={OBSERVATION}, projects={tx.engine.project}, keys={key})
    return next(iter(tx.scan(where, 1)), None)


def quote_command(command: str) -> str:
    """Return a command as one line of data: no line breaks, no backticks that could end the quote."""
    return shorten(escape(" ".join(command.split())).replace("`", "'"), _COMMAND_CHARS)


def find_concern(failed: str, worked: str) -> str:
    """Return why these commands must not be shown without a person's acceptance; empty when they may be."""
    weakening = find_weakening(failed) or find_weakening(worked) or find_doubtful_change(failed, worked)
    return weakening or ("reads like an instruction" if suspicious(failed) or suspicious(worked) else "")


def dress_observation(body: Mapping[str, Any]) -> dict[str, Any]:
    failures, successes = body.get("failures", 0), body.get("successes", 0)
    line = f"`{body['failed']}` failed {count_times(failures)}, `{body['worked']}` worked {count_times(successes)}"
    note = body.get("metadata", {}).get("note", "")
    return {
        **body,
        "failures": failures,
        "successes": successes,
        "line": f"{line} ({quote_output(note)})" if note else line,
    }


def find_repair(tx: Transaction, repair: RepairedCommand) -> Record | None:
    """Return the observation of a repair, if it is stored."""
    body = clean({"failed": quote_command(repair.failed), "worked": quote_command(repair.worked)})
    return find_observation(tx, key_of(OBSERVATION, AGENT, "", body))


def explain_observation(tx: Transaction, record: Record, note: str) -> None:
    """Store what a model says about an observation. Without a note it teaches nothing, and is not shown."""
    body = {**record.body, "metadata": {**record.body["metadata"], "note": shorten(clean(note), _NOTE_CHARS)}}
    if note:
        tx.update(record, body=dress_observation(body))
    else:
        tx.update(record, body={**body, "concern": body["concern"] or NO_LESSON}, status=Status.CANDIDATE)


def count_times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def delete_observation(engine: Engine, record: Record) -> None:
    """Erase an observation; the same repair is not recorded again."""
    body = {"record": record.id, "kind": record.kind}
    stone = make_tombstone(engine, record, body, record.key)
    write(engine, lambda tx: tx.find(stone.id) or tx.put(stone))
    engine.store.delete([record.id])


def adopt_old_fixes(engine: Engine) -> int:
    """Turn the rules that earlier versions made of repairs into observations; return how many there were."""
    statuses = (*LIVE, Status.ARCHIVED)
    rules = engine.store.scan(Where(kinds={MemoryType.RULE}, statuses=statuses))
    old = [one.id for one in rules if one.body.get("source") == RuleSource.FIX]
    if not old:
        return 0

    def step(tx: Transaction) -> int:
        rules = [one for one in tx.get(old) if one.status in statuses]
        for rule in rules:
            tx.update(rule, status=Status.RETIRED)
            tx.add_history(rule, "became an observation")
            failed, arrow, worked = str(rule.body["said"]).partition(_ARROW)
            if arrow and rule.status in LIVE:
                seen = 1 + int(rule.body.get("metadata", {}).get("repeats", 0))
                fields = {name: rule.body[name] for name in ("trigger", "prefer", "avoid")}
                draft = draft_observation(engine, failed, worked, failures=seen, successes=seen, **fields)
                status = Status.CANDIDATE if draft.body["concern"] else rule.status
                tx.put(build(engine, draft, project=rule.project, status=status, created_at=rule.created_at))
        return len(rules)

    return write(engine, step)
