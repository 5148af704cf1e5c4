"""Observations: a command that failed and another form of it that worked. What the agent did, not what a person said.

An observation quotes both commands and how often each failed or worked. It is never one of the user's rules: it
becomes one only when a person accepts it. One whose commands weaken safety or read like an instruction is stored, but
not shown until then. In doubt a command counts as weakening: the cost of that is an observation that is not shown.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..coding.session import RepairedCommand
from ..reading.local import LocalReader, find_programs, names_change, split_command
from ..reading.port import Repair
from ..text import shorten
from ..types.kinds import Reach, RuleSource
from ..types.query import Where
from ..types.record import LIVE, Origin, Provenance, Record, Status, Trust
from ..types.speech import quote_output
from .admit import clean, draft_record
from .context import Engine
from .escape import escape, find_suspicion, read_patterns
from .rules import AGENT, Teaching, is_old_fix, learn_rules, prepare_rules
from .safety import find_weakening
from .transaction import Transaction, write

_DATA = read_patterns("safety")
_PATTERNS = {name: re.compile("".join(pattern)) for name, pattern in _DATA["patterns"].items()}


def find_doubtful_change(failed: str, worked: str) -> str:
    """Return what in the change from one command to the other a person should see first; empty for a plain change.

    A plain change exchanges or adds ordinary words, paths and long options without a warning sign in their names, in
    one simple command. Everything else is doubtful: nobody can list all the ways to switch a safeguard off.
    """
    if re.search(r"[|;&<>`$(){}\n\\#*?!]", worked):
        return "more than a simple command"
    try:
        before, after = (Counter(shlex.split(command)) for command in (failed, worked))
    except ValueError:
        return "quotes that do not end"
    words = worked.split()
    for word in after - before:
        if not _PATTERNS["plain_word"].fullmatch(word) or ":/" in word or _PATTERNS["assignment"].match(word):
            return "an address, a variable or a quoted text"
        runs_module = word == "-m" and "python" in words[max(0, words.index(word) - 1)]
        is_option = word.startswith("-") and word != "--" and not runs_module
        is_plain = _PATTERNS["long_option"].match(word) and not _PATTERNS["doubtful_option"].search(word)
        if (is_option and not is_plain) or _PATTERNS["negative"].search(word):
            return "an option that may switch something off"
    if any(word.startswith("-") and _PATTERNS["doubtful_option"].search(word) for word in before - after):
        return "an option that was dropped"
    return ""


OBSERVATION = "observation"
NO_LESSON = "the model sees no lesson in it"
FOREIGN_PROGRAM = "another program, which a tool's output, a page or a file named"
_COMMAND_CHARS = 160
_NOTE_CHARS = 200
_SOURCES = 50
PreparedRepair = tuple[RepairedCommand, Record, bool]


def prepare_repairs(
    engine: Engine, repairs: Sequence[RepairedCommand], is_foreign: Callable[[str, int], bool]
) -> list[PreparedRepair]:
    """Return the repairs that show something, what each would become, and whether it shows that at once.

    It does if the output names what was changed, and nothing else was edited in between that may have helped. A repair
    that runs another program is not shown if `is_foreign` says that its name came from outside, at that offset.
    """
    cases = [Repair(clean(one.failed), clean(one.error), clean(one.worked)) for one in repairs]
    prepared = []
    for repair, observation in zip(repairs, LocalReader().explain_repairs(cases), strict=True):
        if observation.note:
            programs = find_programs(split_command(observation.repair.failed))
            trigger = f"running {programs[0]}" if programs else ""
            draft = draft_observation(engine, repair.failed, repair.worked, trigger=trigger)
            others = set(find_programs(split_command(observation.repair.worked))).difference(programs)
            if any(is_foreign(program, repair.offset) for program in others) and not draft.body["concern"]:
                draft = replace(draft, body={**draft.body, "concern": FOREIGN_PROGRAM})
            prepared.append((repair, draft, names_change(observation.repair) and not repair.edits))
    return prepared


def record_repairs(tx: Transaction, session: str, prepared: Sequence[PreparedRepair]) -> list[Record]:
    """Count each repair once for its observation; return the observations that changed. A deleted one stays away."""
    changed: dict[str, Record] = {}
    for repair, draft, is_telling in prepared:
        existing = find_observation(tx, draft)
        if existing is None and tx.is_buried(draft.key):
            continue
        record = existing or replace(draft, status=Status.CANDIDATE)
        metadata, source = record.body["metadata"], ":".join(repair.ids)
        if source in metadata["sources"] or record.status not in LIVE:
            continue
        sessions = list(dict.fromkeys([*metadata["sessions"], session]))[-_SOURCES:]
        sources = [*metadata["sources"], source][-_SOURCES:]
        counts = {"failures": record.body["failures"] + repair.failures, "successes": record.body["successes"] + 1}
        metadata = {**metadata, "sources": sources, "sessions": sessions}
        body = dress_observation({**record.body, **counts, "metadata": metadata})
        is_shown = is_telling or len(sessions) > 1 or record.status is Status.ACTIVE
        status = Status.ACTIVE if is_shown and not body["concern"] else Status.CANDIDATE
        if existing is None:
            record = tx.put(record)
        changed[record.id] = tx.update(record, body=body, status=status)
    return list(changed.values())


def draft_observation(engine: Engine, failed: str, worked: str, **fields: Any) -> Record:
    """Return the observation of a repaired command, with the reason why it must not be shown, if there is one."""
    weakening = find_weakening(failed) or find_weakening(worked) or find_doubtful_change(failed, worked)
    is_suspicious = find_suspicion(failed) or find_suspicion(worked)
    body = {
        "failed": _quote(failed),
        "worked": _quote(worked),
        "failures": 0,
        "successes": 0,
        "source": str(RuleSource.FIX),
        "prefer": [],
        "avoid": [],
        # Why it must not be shown without a person's acceptance.
        "concern": weakening or ("reads like an instruction" if is_suspicious else ""),
        "metadata": {"sources": [], "sessions": []},
        **fields,
    }
    source = Provenance(Origin.OUTCOME, Trust.LEARNED, source=str(RuleSource.FIX))
    return draft_record(engine, OBSERVATION, dress_observation(body), agent=AGENT, provenance=source)


def _quote(command: str) -> str:
    """Return a command as one line of data: no line breaks, no backticks that could end the quote."""
    return shorten(escape(" ".join(command.split())).replace("`", "'"), _COMMAND_CHARS)


def dress_observation(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body with the line that hosts are shown."""
    failed, worked = count_times(body["failures"]), count_times(body["successes"])
    line = f"`{body['failed']}` failed {failed}, `{body['worked']}` worked {worked}"
    note = body["metadata"].get("note", "")
    return {**body, "line": f"{line} ({quote_output(note)})" if note else line}


def count_times(number: int) -> str:
    """Return "once", "twice" or "N times"."""
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def find_observation(tx: Transaction, draft: Record) -> Record | None:
    """Return the stored observation with the key of a draft, or None."""
    where = tx.engine.where(OBSERVATION, keys={draft.key})
    return next(iter(tx.scan(where, 1)), None)


def explain_observation(tx: Transaction, record: Record, note: str) -> None:
    """Store what a model says about an observation. Without a note it teaches nothing, and is not shown."""
    body = {**record.body, "metadata": {**record.body["metadata"], "note": shorten(clean(note), _NOTE_CHARS)}}
    if note:
        tx.update(record, body=dress_observation(body))
    else:
        tx.update(record, body={**body, "concern": body["concern"] or NO_LESSON}, status=Status.CANDIDATE)


def accept_observation(tx: Transaction, record: Record, reach: Reach = Reach.PROJECT) -> Record:
    """Make an observation a rule that a person states; return the rule."""
    body, id = record.body, f"accepted:{record.id}"
    text = f"Run `{body['worked']}` instead of `{body['failed']}`"
    rule = Teaching(id, text, reach, RuleSource.NOTE, body["trigger"], said=body["line"], at=tx.engine.clock())
    rule = rule._replace(prefer=tuple(body["prefer"]), avoid=tuple(body["avoid"]))
    [taught] = learn_rules(tx, prepare_rules(tx.engine, [rule]))
    tx.add_history(tx.update(record, status=Status.RETIRED), "accepted", before={"status": str(record.status)})
    # A note by a person is never refused.
    assert taught.record is not None
    return taught.record


def adopt_old_fixes(engine: Engine) -> None:
    """Turn the rules that earlier versions made of repairs into observations."""
    where = Where(kinds={"rule"}, statuses={*LIVE, Status.ARCHIVED})
    if not any(map(is_old_fix, engine.store.scan(where))):
        return

    def step(tx: Transaction) -> None:
        for rule in filter(is_old_fix, tx.scan(where)):
            tx.update(rule, status=Status.RETIRED)
            tx.add_history(rule, "became an observation")
            failed, arrow, worked = rule.body["said"].partition(" → ")
            if arrow and rule.status in LIVE:
                count = 1 + rule.body["metadata"].get("repeats", 0)
                names = {name: rule.body[name] for name in ("trigger", "prefer", "avoid")}
                draft = draft_observation(engine, failed, worked, failures=count, successes=count, **names)
                status = Status.CANDIDATE if draft.body["concern"] else rule.status
                tx.put(replace(draft, project=rule.project, status=status, created_at=rule.created_at))

    write(engine, step)
