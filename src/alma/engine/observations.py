"""Observations: a command that failed and another form of it that worked. What the agent did, not what a person said.

An observation quotes both commands and how often each failed or worked. It is never one of the user's rules: it
becomes one only when a person accepts it. One whose commands weaken safety or read like an instruction is stored, but
not shown until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..coding.calls import RepairedCommand
from ..reading.local import LocalReader
from ..reading.local_repairs import find_programs, names_change, split_command
from ..reading.port import Repair
from ..text import shorten
from ..types.kinds import MemoryType
from ..types.query import Where
from ..types.quoting import quote_output
from ..types.record import LIVE, Origin, Provenance, Record, Status, Trust
from ..types.rules import RuleSource
from .admit import build, change, clean, key_of, revise, screen
from .context import Engine
from .drafts import Draft
from .inject.escape import escape, suspicious
from .redact import redact
from .rules import AGENT
from .safety import find_doubtful_change, find_weakening
from .tombstones import find_deleted_keys
from .transaction import commit

OBSERVATION = "observation"
NO_LESSON = "the model sees no lesson in it"
_COMMAND_CHARS = 160
_NOTE_CHARS = 200
_SOURCES = 50
_ARROW = " → "
"""Between the two commands in `said` of a rule that an earlier version made of a repair."""


def observe_repairs(engine: Engine, session: str, repairs: Iterable[RepairedCommand]) -> list[Record]:
    """Return the observations to store for these repairs, counted on from those that are stored."""
    changed: dict[str, Record] = {}
    repairs = list(repairs)
    cases = [Repair(*(redact(text).text for text in (one.failed, one.error, one.worked))) for one in repairs]
    for repair, shown in zip(repairs, LocalReader().explain_repairs(cases), strict=True):
        if not shown.note:
            continue
        programs = find_programs(split_command(shown.repair.failed))
        trigger = f"running {programs[0]}" if programs else ""
        draft = draft_observation(engine, repair.failed, repair.worked, trigger=trigger)
        stored = changed.get(draft.key) or find_observation(engine, draft.key)
        if stored is None and find_deleted_keys(engine, [draft.key]):
            continue
        record = stored or build(engine, draft, (), status=Status.CANDIDATE)
        # With edits in between it may have been these that helped. Where the output does not name what was changed, the
        # change may have nothing to do with it.
        counted = count_repair(record, repair, session, lasting=names_change(shown.repair) and not repair.edits)
        if counted is None:
            continue
        if stored is not None and stored.key not in changed:
            counted = revise(engine, stored, body=counted.body, status=counted.status)
        changed[draft.key] = counted
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


def find_observation(engine: Engine, key: str) -> Record | None:
    where = Where(kinds={OBSERVATION}, projects={engine.project}, keys={key})
    return next(iter(engine.store.scan(where, 1)), None)


def count_repair(record: Record, repair: RepairedCommand, session: str, *, lasting: bool) -> Record | None:
    """Return the observation with one more repair counted; None when this one was counted before."""
    metadata = dict(record.body["metadata"])
    source = ":".join(repair.ids)
    if source in metadata["sources"] or record.status not in LIVE:
        return None
    sessions = list(dict.fromkeys([*metadata["sessions"], session]))[-_SOURCES:]
    metadata |= {"sources": [*metadata["sources"], source][-_SOURCES:], "sessions": sessions}
    body = dress_observation(
        {
            **record.body,
            "failures": record.body.get("failures", 0) + repair.failures,
            "successes": record.body.get("successes", 0) + 1,
            "metadata": metadata,
        }
    )
    shown = not body["concern"] and (lasting or len(sessions) > 1 or record.status is Status.ACTIVE)
    return replace(record, body=body, status=Status.ACTIVE if shown else Status.CANDIDATE)


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


def find_repair(engine: Engine, repair: RepairedCommand) -> Record | None:
    """Return the observation of a repair, if it is stored."""
    body = clean({"failed": quote_command(repair.failed), "worked": quote_command(repair.worked)})
    return find_observation(engine, key_of(OBSERVATION, AGENT, "", body))


def explain_observation(engine: Engine, record: Record, note: str) -> Record:
    """Return an observation with what a model says about it. Without a note it teaches nothing, and is not shown."""
    body = {**record.body, "metadata": {**record.body["metadata"], "note": shorten(clean(note), _NOTE_CHARS)}}
    if note:
        return revise(engine, record, body=dress_observation(body))
    return revise(engine, record, body={**body, "concern": body["concern"] or NO_LESSON}, status=Status.CANDIDATE)


def count_times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def delete_observation(engine: Engine, record: Record) -> None:
    """Erase an observation; the same repair is not recorded again."""
    body = {"record": record.id, "kind": record.kind}
    draft = Draft(kind="tombstone", agent=record.agent, body=body, provenance=Provenance(Origin.USER))
    stone = build(engine, draft, (), id=f"tom_{record.id}", key=record.key, project=record.project)
    commit(engine, lambda: (None, [] if engine.store.get([stone.id]) else [stone]))
    engine.store.delete([record.id])


def adopt_old_fixes(engine: Engine) -> int:
    """Turn the rules that earlier versions made of repairs into observations; return how many there were."""
    statuses = (*LIVE, Status.ARCHIVED)
    rules = engine.store.scan(Where(kinds={MemoryType.RULE}, statuses=statuses))
    old = [one.id for one in rules if one.body.get("source") == RuleSource.FIX]
    if not old:
        return 0

    def attempt() -> tuple[int, Sequence[Record]]:
        records: list[Record] = []
        stored = [one for one in engine.store.get(old) if one.status in statuses]
        for one in stored:
            records += [revise(engine, one, status=Status.RETIRED), change(engine, one, "became an observation")]
            failed, arrow, worked = str(one.body["said"]).partition(_ARROW)
            if arrow and one.status in LIVE:
                records.append(adopt_old_fix(engine, one, failed, worked))
        return len(stored), records

    return commit(engine, attempt)


def adopt_old_fix(engine: Engine, rule: Record, failed: str, worked: str) -> Record:
    seen = 1 + int(rule.body.get("metadata", {}).get("repeats", 0))
    fields = {name: rule.body[name] for name in ("trigger", "prefer", "avoid")}
    draft = draft_observation(engine, failed, worked, failures=seen, successes=seen, **fields)
    status = Status.CANDIDATE if draft.body["concern"] else rule.status
    return build(engine, draft, (), project=rule.project, status=status, created_at=rule.created_at)
