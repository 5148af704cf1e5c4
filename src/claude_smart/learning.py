"""The commands that teach: learn and tag."""

from __future__ import annotations

import os
import uuid
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from alma.engine.rules import Taught, Teaching, teaching
from alma.engine.transaction import commit
from alma.errors import ValidationError
from alma.hooks.drain import DrainReport as Report
from alma.hooks.drain import ReadingReport, describe_dropped, drain, read_sessions
from alma.hooks.paths import is_model_allowed
from alma.hooks.privacy import remove_private as public
from alma.types.record import Status
from alma.types.rules import Reach, RuleSource
from alma.types.times import now

from .desk import PATIENCE, Desk, is_run_by_agent, short, shown
from .rules import count_noun, describe_learned, plain_observation

_READING_SECONDS = 30.0


def learn(args: Namespace, desk: Desk) -> int:
    if args.from_history:
        from .history import from_history

        return from_history(args, desk)
    if args.note:
        return _keep_note(args, desk)
    report = drain(desk.place, wait=PATIENCE)
    _report(desk, report, _read_now(desk))
    return 1 if report.busy or report.problems else 0


def _read_now(desk: Desk) -> ReadingReport | None:
    """Let Claude read this session, or all that wait when there is none; None where it may not."""
    if not is_model_allowed(desk.place) or not os.path.exists(desk.place.db):
        return None
    # The host ends a slash command that takes a minute.
    timeout = _READING_SECONDS if desk.session else None
    with desk.memory() as memory:
        return read_sessions(desk.place, memory, session=desk.session, is_urgent=True, timeout=timeout)


def _report(desk: Desk, report: Report, reading: ReadingReport | None) -> None:
    if report.busy:
        desk.say("Another process is taking in what was recorded; try again in a moment.")
    elif not report.sessions:
        desk.say("Nothing new was recorded since the last time.")
    else:
        desk.say(f"Imported {count_noun(report.turns, 'turn')} from {count_noun(report.sessions, 'session')}.")
    learned = _combine(report, reading)
    for line in describe_learned(learned):
        desk.say(line)
    for one in report.observed:
        if one.status is Status.ACTIVE:
            desk.say(f"- Observed in commands: {one.body['line']} [{short(one.id)}]")
    _say_reading(desk, reading, {one.record.id for one in learned if one.record})
    if (report.sessions or reading) and not any(one.record for one in learned) and not (reading and reading.refined):
        desk.say("No rules found.")
        if reading is None:
            desk.say(
                "Only explicit corrections are found while Claude does not read them: claude-smart config model on"
            )
    for problem in report.problems:
        desk.say(f"! {problem}")
    desk.tell(
        {
            "sessions": report.sessions,
            "turns": report.turns,
            "busy": report.busy,
            "learned": [_plain(one) for one in learned],
            "refined": [shown(one) for one in reading.refined] if reading else [],
            "archived": [shown(one) for one in reading.archived] if reading else [],
            "observed": [plain_observation(one) for one in report.observed],
            "read": {"turns": reading.turns, "dropped": reading.dropped, "problem": reading.problem}
            if reading
            else None,
            "problems": report.problems,
        }
    )


def _combine(report: Report, reading: ReadingReport | None) -> list[Taught]:
    """Return what both readers learned, each rule as it is now."""
    if reading is None:
        return report.taught
    refined = {one.id: one for one in reading.refined}
    gone = {one.id for one in reading.archived}
    local = [
        replace(one, record=refined.get(one.record.id, one.record)) if one.record is not None else one
        for one in report.taught
        if one.record is None or one.record.id not in gone
    ]
    return [*local, *reading.taught]


def _say_reading(desk: Desk, reading: ReadingReport | None, listed: set[str]) -> None:
    """Say what Claude did with the rules that are not `listed` yet, or why it did nothing."""
    if reading is None:
        return
    for one in (one for one in reading.refined if one.id not in listed):
        desk.say(f"- reworded: {one.body['line']} [{short(one.id)}]")
    for one in reading.archived:
        desk.say(f"- no rule after all (claude-smart restore {short(one.id)}): {one.body['line']}")
    if reading.turns:
        desk.say(f"Claude read {count_noun(reading.turns, 'turn')}.")
    if reading.dropped:
        desk.say(f"Dropped by the checks: {describe_dropped(reading.dropped)}.")
    if reading.problem:
        desk.say(f"Claude could not read the session: {reading.problem}. It is retried later; local findings are kept.")
    elif not reading.sessions:
        desk.say("Claude had nothing to read: no turn since the last time may be a correction.")


def _plain(one: Taught) -> dict[str, Any]:
    rule = None if one.record is None else shown(one.record)
    return {"verb": one.verb, "rule": rule, "replaced": list(one.replaced)}


def tag(args: Namespace, desk: Desk) -> int:
    """Keep a note as a rule, as written; without one, what the person said last."""
    if args.note:
        return _keep_note(args, desk)
    from alma.reading.local_rules import word_rule

    from .history import last_heard

    heard = last_heard(desk)
    if heard is None:
        raise ValidationError("no turn was recorded here yet, so there is none to tag; pass a note: claude-smart tag …")
    return _teach(desk, [note_rule(word_rule(heard.heard), desk, everywhere=args.everywhere, said=heard.heard)])


def _keep_note(args: Namespace, desk: Desk) -> int:
    # A terminal may pass bytes that are no text.
    text = public(" ".join(args.note).encode("utf-8", "replace").decode()).strip()
    if not text:
        raise ValidationError("the note is empty; say what is to be remembered")
    return _teach(desk, [note_rule(text, desk, everywhere=args.everywhere)])


def note_rule(text: str, desk: Desk, *, everywhere: bool = False, said: str = "") -> Teaching:
    from alma.reading.local_rules import find_choice

    prefer, avoid = find_choice(text)
    return Teaching(
        id=f"note:{uuid.uuid4().hex}",
        rule=text,
        reach=Reach.ALWAYS if everywhere else Reach.PROJECT,
        source=RuleSource.NOTE,
        prefer=prefer,
        avoid=avoid,
        said=said or text,
        session=desk.session,
        sure=not is_run_by_agent(),
        at=now(),
    )


def _teach(desk: Desk, teachings: Sequence[Teaching]) -> int:
    with desk.memory() as memory:
        engine = desk.engine(memory)
        taught = commit(engine, teaching(engine, teachings))
    for line in describe_learned(taught):
        desk.say(line)
    desk.tell({"learned": [_plain(one) for one in taught]})
    return 0
