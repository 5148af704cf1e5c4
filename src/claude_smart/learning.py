"""The commands about rules: show, learn, tag, forget, review, restore."""

from __future__ import annotations

import os
import uuid
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from alma.engine import edit
from alma.engine.admit import change, commit, revise
from alma.engine.context import Engine
from alma.engine.observations import OBSERVATION, delete_observation
from alma.engine.rules import Taught, Teaching, contradicted, teaching
from alma.errors import NotFoundError, StorageError, ValidationError
from alma.hooks.drain import Report, drain, refine
from alma.hooks.privacy import public
from alma.types.kinds import MemoryType
from alma.types.record import Record, Status
from alma.types.rules import EVERYWHERE, Reach, RuleSource
from alma.types.times import now

from .desk import Desk, is_run_by_agent, named, observations, require_person, rules, short, shown

_PATIENCE = 20.0
_LIVE = (Status.ACTIVE, Status.CANDIDATE)


# -- show


def show(args: Namespace, desk: Desk) -> int:
    """The same Markdown that a session starts with; with --all also what waits and what was put away."""
    if not os.path.exists(desk.place.db):
        desk.say("Nothing was learned yet. Correct the agent in a session, or say: claude-smart tag NOTE")
        desk.tell({"project": desk.project, "playbook": "", "rules": []})
        return 0
    with desk.memory() as memory:
        found = rules(desk.engine(memory))
        seen = observations(desk.engine(memory))
    text = _playbook(desk, args.session or desk.session)
    waiting = [one for one in found if one.status is Status.CANDIDATE]
    desk.say(text or "No rule was learned for this project yet.")
    if args.all:
        _list(desk, "Waiting for review", waiting)
        _list(desk, "Put away (claude-smart restore ID brings one back)", [o for o in found if o.status not in _LIVE])
        _list_observations(desk, seen)
    elif waiting:
        desk.say(f"\n{_counted(len(waiting), 'possible rule')} waiting: claude-smart review")
    listed = found if args.all else [one for one in found if one.status is Status.ACTIVE]
    observed = [_observed(one) for one in seen if args.all or one.status is Status.ACTIVE]
    desk.tell(
        {"project": desk.project, "playbook": text, "rules": [shown(one) for one in listed], "observations": observed}
    )
    return 0


def _list_observations(desk: Desk, found: Sequence[Record]) -> None:
    if found:
        desk.say("\nSeen in sessions, said by nobody (claude-smart review --accept ID makes one a rule)")
    for one in found:
        concern = f", not shown: {one.body['concern']}" if one.body["concern"] else ""
        waits = ", seen in one session only" if not concern and one.status is Status.CANDIDATE else ""
        desk.say(f"- [{short(one.id)}] {one.body['line']}{concern}{waits}")


def _observed(record: Record) -> dict[str, Any]:
    names = ("failed", "worked", "failures", "successes", "concern")
    return {"id": record.id, "status": str(record.status), **{name: record.body[name] for name in names}}


def _playbook(desk: Desk, session: str) -> str:
    from alma.hooks.glance import Unreadable
    from alma.hooks.inject import playbook_text

    try:
        return playbook_text(desk.place, desk.project, session)
    except Unreadable as error:
        raise StorageError(f"{error}; claude-smart doctor says more") from error


def _list(desk: Desk, heading: str, found: Sequence[Record]) -> None:
    if found:
        desk.say(f"\n{heading}")
    for one in found:
        where = {EVERYWHERE: ", everywhere"}.get(one.project, "")
        instead = f" by [{short(one.superseded_by)}]" if one.superseded_by else ""
        desk.say(f"- [{short(one.id)}] {one.body['line']} ({one.status}{instead}{where}, {one.body['source']})")


# -- learn, tag


def learn(args: Namespace, desk: Desk) -> int:
    if args.from_history:
        from .history import from_history

        return from_history(args, desk)
    if args.note:
        return _note(args, desk)
    report = drain(desk.place, wait=_PATIENCE)
    if report.over and not desk.session:
        # Not from within a session, where the agent waits for the answer.
        with desk.memory() as memory:
            report.problems += refine(desk.place, memory, report.over)
    _told(desk, report)
    return 1 if report.busy or report.problems else 0


def _told(desk: Desk, report: Report) -> None:
    if report.busy:
        desk.say("Another process is taking in what was recorded; try again in a moment.")
    elif not report.sessions:
        desk.say("Nothing new was recorded since the last time.")
    else:
        sessions = _counted(report.sessions, "session")
        desk.say(f"Took in {_counted(report.turns, 'turn')} of {sessions}.")
    for taught in report.taught:
        if (text := sentence(taught)) is not None:
            desk.say(text)
    for one in report.observed:
        if one.status is Status.ACTIVE:
            desk.say(f"- seen, not said: {one.body['line']} [{short(one.id)}]")
    if report.sessions and not any(one.record for one in report.taught):
        desk.say("No rule in it.")
    for problem in report.problems:
        desk.say(f"! {problem}")
    desk.tell(
        {
            "sessions": report.sessions,
            "turns": report.turns,
            "busy": report.busy,
            "learned": [_outcome(one) for one in report.taught],
            "observed": [_observed(one) for one in report.observed],
            "problems": report.problems,
        }
    )


def sentence(one: Taught) -> str | None:
    if one.record is None:
        return f"- left out, because it was deleted before: {one.teaching.rule}"
    body, waits = one.record.body, one.record.status is Status.CANDIDATE
    verb = "a possible rule (claude-smart review)" if waits and one.verb == "made" else _VERBS[one.verb]
    instead = f", in place of {', '.join(map(short, one.replaced))}" if one.replaced else ""
    place = {"once": " for this session", "session": " for this session", "always": " everywhere"}.get(
        body["reach"], ""
    )
    return f"- {verb}{place}{instead}: {body['line']} [{short(one.record.id)}]"


_VERBS = {
    "made": "a rule",
    "repeated": "said again",
    "confirmed": "now a rule",
    "promoted": "now a rule for more than a session",
    "known": "known",
}


def _outcome(one: Taught) -> dict[str, Any]:
    rule = None if one.record is None else shown(one.record)
    return {"verb": one.verb, "rule": rule, "replaced": list(one.replaced)}


def tag(args: Namespace, desk: Desk) -> int:
    """Keep a note as a rule, as written; without one, what the person said last."""
    return _note(args, desk) if args.note else _last_turn(args, desk)


def _note(args: Namespace, desk: Desk) -> int:
    # A terminal may give us what is no text.
    text = public(" ".join(args.note).encode("utf-8", "replace").decode()).strip()
    if not text:
        raise ValidationError("the note is empty; say what is to be remembered")
    return _teach(desk, [noted(text, desk, everywhere=args.everywhere)])


def noted(text: str, desk: Desk, *, everywhere: bool = False, said: str = "") -> Teaching:
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
    for one in taught:
        desk.say(sentence(one) or "")
    desk.tell({"learned": [_outcome(one) for one in taught]})
    return 0


def _last_turn(args: Namespace, desk: Desk) -> int:
    """What was said last in this project becomes a rule."""
    from alma.reading.local_rules import word_rule

    from .history import last_heard

    heard = last_heard(desk)
    if heard is None:
        raise ValidationError("no turn was recorded here yet, so there is none to tag; pass a note: claude-smart tag …")
    made = noted(word_rule(heard.user), desk, everywhere=args.everywhere, said=heard.user)
    return _teach(desk, [made])


# -- forget


def forget(args: Namespace, desk: Desk) -> int:
    """Erase a rule; it is not learned again by itself."""
    with desk.memory() as memory:
        engine = desk.engine(memory)
        meant = named([*rules(engine), *observations(engine)], " ".join(args.what))
        if meant.kind == OBSERVATION:
            delete_observation(_home(engine, meant), meant)
        else:
            edit.delete(_home(engine, meant), meant.id)
    is_rule = meant.kind != OBSERVATION
    desk.say(f"Forgotten: {meant.body['rule' if is_rule else 'line']}")
    desk.tell({"forgotten": [shown(meant) if is_rule else _observed(meant)]})
    return 0


def _home(engine: Engine, record: Record) -> Engine:
    return replace(engine, project=record.project)


# -- review


def review(args: Namespace, desk: Desk) -> int:
    """What might be a rule waits here for a person."""
    if args.accept or args.accept_all:
        require_person("review --accept")
    with desk.memory() as memory:
        engine = desk.engine(memory)
        waiting = rules(engine, Status.CANDIDATE)
        if args.accept or args.reject or args.accept_all or args.reject_all:
            return _decide(args, desk, engine, waiting)
        if args.as_json or not (os.isatty(0) and os.isatty(1)) or not waiting:
            return _show_waiting(desk, waiting)
        return _ask_each(desk, engine, waiting)


def _decide(args: Namespace, desk: Desk, engine: Engine, waiting: list[Record]) -> int:
    if not waiting and not args.accept and not args.reject:
        return _show_waiting(desk, waiting)
    seen = observations(engine)
    yes = waiting if args.accept_all else [named([*waiting, *seen], name) for name in args.accept]
    no = waiting if args.reject_all else [named(waiting, name) for name in args.reject]
    both = {one.id for one in yes} & {one.id for one in no}
    if both:
        raise ValidationError(f"{', '.join(sorted(both))} cannot be both accepted and rejected")
    for one in yes:
        rule = accept(engine, one, everywhere=args.everywhere)
        desk.say(f"Accepted{' everywhere' if rule.project == EVERYWHERE else ''}: {rule.body['rule']}")
    for one in no:
        edit.delete(_home(engine, one), one.id)
        desk.say(f"Rejected: {one.body['rule']}")
    desk.tell({"accepted": [one.id for one in yes], "rejected": [one.id for one in no]})
    return 0


def accept(engine: Engine, record: Record, *, everywhere: bool = False) -> Record:
    """Make a lasting rule of a candidate or an observation, because a person said yes; end what it contradicts."""
    if record.kind == OBSERVATION:
        return _accept_observation(engine, record, everywhere=everywhere)

    def attempt() -> tuple[Record, list[Record]]:
        held = engine.store.get([record.id])
        if not held or held[0].status is Status.ACTIVE:
            return record, []
        return _activate(engine, held[0], "accepted", everywhere=everywhere)

    return commit(engine, attempt)


def _activate(engine: Engine, held: Record, verb: str, *, everywhere: bool = False) -> tuple[Record, list[Record]]:
    """The rule as it holds from now on, in the project or everywhere, and what changes with it.

    What a person accepts or restores is meant to last, though it was first said of one moment or session.
    """
    reach = Reach.ALWAYS if everywhere or held.project == EVERYWHERE else Reach.PROJECT
    home = replace(engine, project=EVERYWHERE if reach is Reach.ALWAYS else held.project)
    fresh = revise(
        home,
        held,
        body={**held.body, "reach": str(reach), "put_away": False},
        status=Status.ACTIVE,
        session="",
        project=home.project,
        superseded_by="",
        valid_to=None,
    )
    before = {"status": str(held.status), "reach": held.body["reach"]}
    return fresh, [fresh, change(home, fresh, verb, "by a person", before), *contradicted(home, fresh)]


def _accept_observation(engine: Engine, record: Record, *, everywhere: bool) -> Record:
    body = record.body
    rule = Teaching(
        id=f"accepted:{record.id}",
        rule=f"Run `{body['worked']}` instead of `{body['failed']}`",
        trigger=body["trigger"],
        reach=Reach.ALWAYS if everywhere else Reach.PROJECT,
        source=RuleSource.NOTE,
        prefer=tuple(body["prefer"]),
        avoid=tuple(body["avoid"]),
        said=body["line"],
        at=now(),
    )
    [taught] = commit(engine, teaching(engine, [rule]))
    commit(
        engine, lambda: (None, [revise(engine, one, status=Status.RETIRED) for one in engine.store.get([record.id])])
    )
    if taught.record is None:
        raise ValidationError(f"{record.id} could not be made a rule; write it down with claude-smart tag")
    return taught.record


# -- restore


def restore(args: Namespace, desk: Desk) -> int:
    """Bring back a rule that was replaced or put away; the rule that replaced it is replaced in turn."""
    require_person("restore")
    with desk.memory() as memory:
        engine = desk.engine(memory)
        found = [one for one in rules(engine) if one.status not in _LIVE]
        if not found:
            raise ValidationError("no rule here was replaced or put away; `claude-smart show --all` lists every rule")
        meant = named(found, " ".join(args.what))
        ended = _ending(engine, meant)
        wide = [one for one in ended if one.project == EVERYWHERE and meant.project != EVERYWHERE]
        if wide and not args.yes and not _agrees(desk, meant, wide[0]):
            return 1

        def attempt() -> tuple[Record, list[Record]]:
            held = engine.store.get([meant.id])
            if not held:
                raise NotFoundError(f"{meant.id} was deleted meanwhile")
            fresh, records = _activate(engine, held[0], "restored")
            changed = {one.id for one in records}
            for one in engine.store.get([one.id for one in ended if one.id not in changed]):
                gone = revise(engine, one, status=Status.SUPERSEDED, superseded_by=fresh.id)
                why = f"a person restored: {fresh.body['rule']}"
                records += [gone, change(engine, gone, "superseded", why, {"status": str(one.status)})]
            return fresh, records

        fresh = commit(engine, attempt)
    desk.say(f"Restored: {fresh.body['rule']}")
    for one in ended:
        desk.say(f"It replaces: {one.body['rule']} [{short(one.id)}]")
    desk.tell({"restored": shown(fresh), "replaced": [one.id for one in ended]})
    return 0


def _ending(engine: Engine, rule: Record) -> list[Record]:
    """The rules in force that ended this one, or that it contradicts."""
    home = replace(engine, project=rule.project)
    against = [one for one in contradicted(home, rule) if one.status is Status.SUPERSEDED]
    wanted = dict.fromkeys([*filter(None, [rule.superseded_by]), *(one.id for one in against)])
    return [one for one in engine.store.get(list(wanted)) if one.kind == MemoryType.RULE and one.status in _LIVE]


def _agrees(desk: Desk, rule: Record, wide: Record) -> bool:
    """A rule of this project must not end one of all projects unless its person says so."""
    said = f"[{short(wide.id)}] {wide.body['rule']!r} holds in all projects and contradicts it"
    if desk.as_json or not (os.isatty(0) and os.isatty(1)):
        raise ValidationError(f"{said}; pass --yes to replace it everywhere, or forget it first")
    return input(f"{said}. Replace it everywhere? [y/N] ").strip().lower() in ("y", "yes")


def _show_waiting(desk: Desk, waiting: list[Record]) -> int:
    for one in waiting:
        desk.say(f"[{short(one.id)}] {one.body['line']}")
        desk.say(f"         from: {one.body['said']}")
    if waiting:
        desk.say("\nclaude-smart review --accept ID …  or  --reject ID …")
    else:
        desk.say("Nothing waits for review.")
    desk.tell({"waiting": [shown(one) for one in waiting]})
    return 0


def _ask_each(desk: Desk, engine: Engine, waiting: list[Record]) -> int:
    for place, one in enumerate(waiting, 1):
        desk.say(f"\n{place} of {len(waiting)}: {one.body['line']}")
        desk.say(f"  from: {one.body['said']}")
        question = "  [y]es, in this project / [e]verywhere / [n]o, forget it / [Enter] later / [q]uit: "
        answer = input(question).strip().lower()
        if answer.startswith(("y", "e")):
            accept(engine, one, everywhere=answer.startswith("e"))
        elif answer.startswith("n"):
            edit.delete(_home(engine, one), one.id)
        elif answer.startswith("q"):
            break
    return 0


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
