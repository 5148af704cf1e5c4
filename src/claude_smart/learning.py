"""The commands that teach: learn and tag."""

from __future__ import annotations

import uuid
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from alma.engine.admit import commit
from alma.engine.rules import Taught, Teaching, teaching
from alma.errors import ValidationError
from alma.hooks.drain import Report, drain, refine
from alma.hooks.privacy import public
from alma.types.record import Status
from alma.types.rules import Reach, RuleSource
from alma.types.times import now

from .desk import PATIENCE, Desk, is_run_by_agent, short, shown
from .rules import count_noun, describe_learned, plain_observation


def learn(args: Namespace, desk: Desk) -> int:
    if args.from_history:
        from .history import from_history

        return from_history(args, desk)
    if args.note:
        return _keep_note(args, desk)
    report = drain(desk.place, wait=PATIENCE)
    if report.over and not desk.session:
        # Not from within a session, where the agent waits for the answer.
        with desk.memory() as memory:
            report.problems += refine(desk.place, memory, report.over)
    _report(desk, report)
    return 1 if report.busy or report.problems else 0


def _report(desk: Desk, report: Report) -> None:
    if report.busy:
        desk.say("Another process is taking in what was recorded; try again in a moment.")
    elif not report.sessions:
        desk.say("Nothing new was recorded since the last time.")
    else:
        desk.say(f"Took in {count_noun(report.turns, 'turn')} of {count_noun(report.sessions, 'session')}.")
    for line in describe_learned(report.taught):
        desk.say(line)
    for one in report.observed:
        if one.status is Status.ACTIVE:
            desk.say(f"- Observed, said by nobody: {one.body['line']} [{short(one.id)}]")
    if report.sessions and not any(one.record for one in report.taught):
        desk.say("No rule in it.")
    for problem in report.problems:
        desk.say(f"! {problem}")
    desk.tell(
        {
            "sessions": report.sessions,
            "turns": report.turns,
            "busy": report.busy,
            "learned": [_plain(one) for one in report.taught],
            "observed": [plain_observation(one) for one in report.observed],
            "problems": report.problems,
        }
    )


def _plain(one: Taught) -> dict[str, Any]:
    rule = None if one.record is None else shown(one.record)
    return {"verb": one.verb, "rule": rule, "replaced": list(one.replaced)}


def tag(args: Namespace, desk: Desk) -> int:
    """Keep a note as a rule, as written; without one, what the person said last."""
    if args.note:
        return _keep_note(args, desk)
    from alma.engine.distil.corrections import read

    from .history import last_heard

    heard = last_heard(desk)
    if heard is None:
        raise ValidationError("no turn was recorded here yet, so there is none to tag; pass a note: claude-smart tag …")
    reading = read(heard.user, heard.before)
    return _teach(desk, [note_rule(reading.rule or heard.user, desk, everywhere=args.everywhere, said=heard.user)])


def _keep_note(args: Namespace, desk: Desk) -> int:
    # A terminal may pass bytes that are no text.
    text = public(" ".join(args.note).encode("utf-8", "replace").decode()).strip()
    if not text:
        raise ValidationError("the note is empty; say what is to be remembered")
    return _teach(desk, [note_rule(text, desk, everywhere=args.everywhere)])


def note_rule(text: str, desk: Desk, *, everywhere: bool = False, said: str = "") -> Teaching:
    from alma.engine.distil.corrections import read

    reading = read(text, "")
    return Teaching(
        id=f"note:{uuid.uuid4().hex}",
        rule=text,
        reach=Reach.ALWAYS if everywhere else Reach.PROJECT,
        source=RuleSource.NOTE,
        prefer=reading.prefer,
        avoid=reading.avoid,
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
