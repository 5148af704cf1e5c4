"""The commands about rules: show, review, edit, restore, forget. And how a rule is described to a person."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from alma.engine import edit as editing
from alma.engine.admit import revise
from alma.engine.context import Engine
from alma.engine.observations import OBSERVATION, count_times, delete_observation
from alma.engine.rule_changes import change_rule, erase, find_ended, find_quotes, has_quote
from alma.engine.rule_changes import restore as restore_rule
from alma.engine.rules import Taught, Teaching, teaching
from alma.engine.transaction import commit
from alma.errors import StorageError, ValidationError
from alma.hooks.drain import erase_from_journals
from alma.types.record import LIVE, Record, Status
from alma.types.rules import EVERYWHERE, Reach, RuleSource
from alma.types.times import now

from .desk import Desk, named, observations, require_person, rules, short, shown

_INDENT = "    "
_NOTHING = "No rule was learned for this project yet."
_HISTORY = ("rule", "trigger", "why", "reach", "status")


# -- how a rule is described


def describe_rule(record: Record) -> str:
    """Return what a person needs to judge a rule: id, reach, date, and how often it was repeated and followed."""
    if record.kind == OBSERVATION:
        concern = f", not shown: {record.body['concern']}" if record.body["concern"] else ""
        waits = ", seen in one session only" if not concern and record.status is Status.CANDIDATE else ""
        return f"[{short(record.id)}] {record.created_at:%Y-%m-%d}{concern}{waits}"
    seen = record.evidence
    counts = (
        ("repeated", int(record.body.get("metadata", {}).get("repeats", 0))),
        ("followed", seen.successes),
        ("violated", seen.failures),
    )
    ended = {Status.SUPERSEDED: f"replaced by [{short(record.superseded_by)}]", Status.ARCHIVED: "archived"}
    parts = [
        f"reach {record.body['reach']}",
        f"{record.created_at:%Y-%m-%d}",
        *(f"{verb} {count_times(number)}" for verb, number in counts if number),
        *([ended.get(record.status, str(record.status))] if record.status not in LIVE else []),
    ]
    return f"[{short(record.id)}] {', '.join(parts)}"


def list_rules(desk: Desk, heading: str, records: Sequence[Record]) -> None:
    if records:
        desk.say(f"\n{heading}\n")
    for one in records:
        desk.say(f"- {one.body['line']}\n{_INDENT}{describe_rule(one)}")
        if one.status is Status.CANDIDATE and one.body.get("said"):
            desk.say(f"{_INDENT}from: {one.body['said']}")


def describe_learned(taught: Sequence[Taught]) -> list[str]:
    """Return what became of the rules that were just taught, each as it is shown to the agent, and how to undo it."""
    lines = []
    for one in taught:
        if one.record is None:
            lines.append(f"- Not learned, because you erased it: {one.teaching.rule}")
            continue
        record, name = one.record, short(one.record.id)
        reach = f"reach {record.body['reach']}"
        if record.status is Status.CANDIDATE:
            title = "Possible rule"
            state = f"{reach}, waits for you: claude-smart review --accept {name} (or --reject {name})"
        elif record.status is not Status.ACTIVE:
            title, state = "Repeated, but you archived it", f"claude-smart restore {name} brings it back"
        else:
            title = _TITLES.get(one.verb, "Learned")
            state = f"{reach}, in force from now on. Undo: claude-smart forget {name}"
        lines.append(f"- {title}: {record.body['line']}\n{_INDENT}[{name}] {state}")
        lines += [f"{_INDENT}It replaces [{short(id)}]: claude-smart restore {short(id)}" for id in one.replaced]
    return lines


_TITLES = {
    "repeated": "Repeated",
    "confirmed": "Confirmed",
    "promoted": "Now beyond one session",
    "known": "Already known",
}


def plain_observation(record: Record) -> dict[str, Any]:
    names = ("failed", "worked", "failures", "successes", "concern")
    return {"id": record.id, "status": str(record.status), **{name: record.body[name] for name in names}}


# -- show


def show(args: Namespace, desk: Desk) -> int:
    """Show what is known for this project, or one rule with its history."""
    if not os.path.exists(desk.place.db):
        desk.say("Nothing was learned yet. Correct the agent in a session, or say: claude-smart tag NOTE")
        desk.tell({"project": desk.project, "playbook": "", "rules": [], "observations": []})
        return 0
    with desk.memory() as memory:
        engine = desk.engine(memory)
        known, observed = rules(engine), observations(engine)
        if args.what:
            return _show_one(desk, engine, named([*known, *observed], " ".join(args.what)))
    session = args.session or desk.session
    playbook = _read_playbook(desk, session)
    active = [one for one in known if one.status is Status.ACTIVE]
    elsewhere = [one for one in active if one.session not in ("", session)]
    waiting = [one for one in known if one.status is Status.CANDIDATE]
    past = [one for one in known if one.status not in LIVE]
    # A command that weakens safety is not put before an agent, which may be the one who asks.
    observed = [one for one in observed if args.all or one.status is Status.ACTIVE]
    if args.playbook:
        lasting = any(not one.session for one in active)
        desk.say(playbook or ("All rules stand in CLAUDE.md, which Claude Code reads itself." if lasting else _NOTHING))
        if waiting:
            desk.say(f"{count_noun(len(waiting), 'possible rule')} waiting: claude-smart review")
    else:
        desk.say(f"Project {desk.project}")
        list_rules(desk, "Rules in force", [one for one in active if not one.session])
        list_rules(desk, "Only in this session", [one for one in active if one.session and one.session == session])
        list_rules(desk, "Waiting for your review (claude-smart review)", waiting)
        list_rules(desk, "Observed in commands (claude-smart review --accept ID turns one into a rule)", observed)
        if args.all:
            list_rules(desk, "Only in other sessions", elsewhere)
            list_rules(desk, "Replaced or archived (claude-smart restore ID brings one back)", past)
        elif elsewhere:
            desk.say(f"\n{count_noun(len(elsewhere), 'rule')} only in other sessions: claude-smart show --all")
        if past and not args.all:
            desk.say(f"\n{count_noun(len(past), 'rule')} replaced or archived: claude-smart show --all")
        if not (active or waiting or observed):
            desk.say(_NOTHING)
    desk.tell(
        {
            "project": desk.project,
            "playbook": playbook,
            "rules": [shown(one) for one in (known if args.all else active)],
            "observations": [plain_observation(one) for one in observed],
        }
    )
    return 0


def _read_playbook(desk: Desk, session: str) -> str:
    from alma.hooks.inject import playbook_text
    from alma.hooks.rules_reader import UnreadableStoreError as Unreadable

    try:
        return playbook_text(desk.place, desk.project, session, desk.folder)
    except Unreadable as error:
        raise StorageError(f"{error}; claude-smart doctor says more") from error


def _show_one(desk: Desk, engine: Engine, record: Record) -> int:
    history = editing.history(engine, record.id)
    desk.say(f"{record.body['line']}\n{_INDENT}{describe_rule(record)}")
    if record.kind == OBSERVATION:
        desk.tell({**plain_observation(record), "history": []})
        return 0
    for title, name in (("trigger", "trigger"), ("reason", "why"), ("learned from", "said"), ("source", "source")):
        if record.body[name]:
            desk.say(f"{_INDENT}{title}: {record.body[name]}")
    after = {**record.body, "status": str(record.status)}
    steps = []
    for one in reversed(history):
        before = {name: value for name, value in one.body["before"].items() if name in _HISTORY}
        changed = ", ".join(f"{name} {value!r}" for name, value in before.items() if value != after[name])
        was = f" (before: {changed})" if changed else ""
        steps.append(f"{_INDENT}{one.created_at:%Y-%m-%d %H:%M} {one.body['verb']} {one.body['why']}".rstrip() + was)
        after |= before
    for step in reversed(steps):
        desk.say(step)
    lines = [
        {"at": one.created_at.isoformat(), **{k: one.body[k] for k in ("verb", "why", "before")}} for one in history
    ]
    desk.tell({**shown(record), "history": lines})
    return 0


# -- review


def review(args: Namespace, desk: Desk) -> int:
    """Decide about what might be a rule; at a terminal, one after the other."""
    if args.accept or args.accept_all:
        require_person("review --accept")
    with desk.memory() as memory:
        engine = desk.engine(memory)
        waiting = rules(engine, Status.CANDIDATE)
        if args.accept or args.reject or ((args.accept_all or args.reject_all) and waiting):
            return _decide(args, desk, engine, waiting)
        if args.as_json or not (os.isatty(0) and os.isatty(1)) or not waiting:
            return _list_waiting(desk, waiting)
        return _ask_each(desk, engine, waiting)


def _decide(args: Namespace, desk: Desk, engine: Engine, waiting: list[Record]) -> int:
    observed = observations(engine)
    yes = waiting if args.accept_all else [named([*waiting, *observed], name) for name in args.accept]
    no = waiting if args.reject_all else [named(waiting, name) for name in args.reject]
    both = {one.id for one in yes} & {one.id for one in no}
    if both:
        raise ValidationError(f"{', '.join(sorted(both))} cannot be both accepted and rejected")
    for one in yes:
        _say_accepted(desk, accept(engine, one, everywhere=args.everywhere))
    for one in no:
        _reject(desk, engine, one)
    desk.tell({"accepted": [one.id for one in yes], "rejected": [one.id for one in no]})
    return 0


def _say_accepted(desk: Desk, rule: Record) -> None:
    where = " everywhere" if rule.project == EVERYWHERE else ""
    desk.say(f"Accepted{where}: {rule.body['rule']}\n{_INDENT}{describe_rule(rule)}")
    desk.say(f"{_INDENT}Undo: claude-smart restore {short(rule.id)}")


def _reject(desk: Desk, engine: Engine, record: Record) -> None:
    change_rule(engine, record.id, "rejected", status=Status.ARCHIVED)
    desk.say(f"Rejected: {record.body['rule']}\n{_INDENT}Undo: claude-smart restore {short(record.id)}")


def accept(engine: Engine, record: Record, *, everywhere: bool = False) -> Record:
    """Make a lasting rule of a candidate or an observation, because a person said yes; end what it contradicts."""
    reach = Reach.ALWAYS if everywhere or record.project == EVERYWHERE else Reach.PROJECT
    if record.kind != OBSERVATION:
        return change_rule(engine, record.id, "accepted", reach=reach, status=Status.ACTIVE)[0]
    body = record.body
    rule = Teaching(
        id=f"accepted:{record.id}",
        rule=f"Run `{body['worked']}` instead of `{body['failed']}`",
        trigger=body["trigger"],
        reach=reach,
        source=RuleSource.NOTE,
        prefer=tuple(body["prefer"]),
        avoid=tuple(body["avoid"]),
        said=body["line"],
        at=now(),
    )
    [taught] = commit(engine, teaching(engine, [rule]))
    if taught.record is None:
        raise ValidationError(f"{record.id} could not be made a rule; write it down with claude-smart tag")
    commit(
        engine, lambda: (None, [revise(engine, one, status=Status.RETIRED) for one in engine.store.get([record.id])])
    )
    return taught.record


def _list_waiting(desk: Desk, waiting: list[Record]) -> int:
    list_rules(desk, "Waiting for your review", waiting)
    how = "\nclaude-smart review --accept ID …  or  --reject ID …; claude-smart edit ID --rule … changes it first"
    desk.say(how if waiting else "Nothing waits for review.")
    desk.tell({"waiting": [shown(one) for one in waiting]})
    return 0


def _ask_each(desk: Desk, engine: Engine, waiting: list[Record]) -> int:
    question = "  [y]es, in this project / [a]lways, in all projects / [e]dit / [n]o / [Enter] skip / [q]uit: "
    for place, one in enumerate(waiting, 1):
        desk.say(f"\n{place} of {len(waiting)}: {one.body['line']}\n{_INDENT}{describe_rule(one)}")
        desk.say(f"{_INDENT}from: {one.body['said']}")
        answer = input(question).strip().lower()[:1]
        if answer == "e":
            words = {name: input(f"  {name} [{one.body[name]}]: ").strip() for name in ("rule", "trigger", "why")}
            words = {name: value for name, value in words.items() if value}
            one = change_rule(engine, one.id, "edited", words=words)[0] if words else one
            answer = input("  [y]es, in this project / [a]lways / [Enter] leave it waiting: ").strip().lower()[:1]
        if answer in ("y", "a"):
            _say_accepted(desk, accept(engine, one, everywhere=answer == "a"))
        elif answer == "n":
            _reject(desk, engine, one)
        elif answer == "q":
            break
    return 0


# -- edit, restore


def edit(args: Namespace, desk: Desk) -> int:
    """Change the words or the reach of a rule."""
    require_person("edit")
    given = {"rule": args.rule, "trigger": args.trigger, "why": args.reason}
    words = {name: value for name, value in given.items() if value is not None}
    if not words and args.reach is None:
        raise ValidationError("nothing to change: pass --rule, --trigger, --reason or --reach")
    with desk.memory() as memory:
        engine = desk.engine(memory)
        meant = named(rules(engine, *LIVE), " ".join(args.what))
        reach = None if args.reach is None else Reach(args.reach)
        session = args.session or desk.session
        fresh, ended = change_rule(engine, meant.id, "edited", words=words, reach=reach, session=session)
    desk.say(f"Changed: {fresh.body['line']}\n{_INDENT}{describe_rule(fresh)}")
    _say_ended(desk, ended)
    desk.say(f"{_INDENT}Undo: claude-smart restore {short(fresh.id)}")
    desk.tell({"changed": shown(fresh), "replaced": [one.id for one in ended]})
    return 0


def _say_ended(desk: Desk, ended: Sequence[Record]) -> None:
    for one in ended:
        desk.say(f"{_INDENT}It replaces: {one.body['rule']} [{short(one.id)}]")


def restore(args: Namespace, desk: Desk) -> int:
    """Bring back a rule that was replaced, rejected or archived, or undo the last change of a rule in force."""
    require_person("restore")
    with desk.memory() as memory:
        engine = desk.engine(memory)
        known, name = rules(engine), " ".join(args.what)
        past = [one for one in known if one.status not in LIVE]
        # Words mean a rule that is gone; an id may also name one in force, whose last change is undone.
        in_force = [one for one in known if one.status in LIVE and one.id.endswith(name.strip("[]# ").lower())]
        if not past and not in_force:
            raise ValidationError(
                f"no replaced or archived rule matches {name!r}; to undo the last change of an active rule, pass its id"
            )
        meant = named([*past, *(in_force if len(name.strip()) >= 4 else ())], name)
        ended = find_ended(engine, meant) if meant.status not in LIVE else []
        wide = [one for one in ended if one.project == EVERYWHERE and meant.project != EVERYWHERE]
        if wide and not args.yes and not _agrees(desk, wide[0]):
            return 1
        fresh, ended = restore_rule(engine, meant.id)
    desk.say(f"Restored: {fresh.body['rule']}\n{_INDENT}{describe_rule(fresh)}")
    _say_ended(desk, ended)
    desk.tell({"restored": shown(fresh), "replaced": [one.id for one in ended]})
    return 0


def _agrees(desk: Desk, wide: Record) -> bool:
    """Ask whether a rule of this project may end one of all projects."""
    said = f"[{short(wide.id)}] {wide.body['rule']!r} holds in all projects and contradicts it"
    if desk.as_json or not (os.isatty(0) and os.isatty(1)):
        raise ValidationError(f"{said}; pass --yes to replace it everywhere, or forget it first")
    return input(f"{said}. Replace it everywhere? [y/N] ").strip().lower() in ("y", "yes")


# -- forget


def forget(args: Namespace, desk: Desk) -> int:
    """Put a rule away; with --everything, erase it with the sentence that it came from."""
    if args.everything:
        require_person("forget --everything")
    with desk.memory() as memory:
        engine = desk.engine(memory)
        kept = rules(engine) if args.everything else rules(engine, *LIVE)
        meant = named([*kept, *observations(engine)], " ".join(args.what))
        if meant.kind == OBSERVATION:
            delete_observation(replace(engine, project=meant.project), meant)
            desk.say(f"Erased: {meant.body['line']}")
            desk.tell({"forgotten": [plain_observation(meant)]})
        elif args.everything:
            quotes = find_quotes(meant)
            with desk.alone():
                turns = erase(engine, meant)
                lines = erase_from_journals(desk.place, meant.project, lambda text: has_quote(text, quotes))
                memory.alma.vacuum()
            also = f"{count_noun(turns, 'recorded turn')} and {count_noun(lines, 'journal line')}"
            desk.say(f"Erased for good: {meant.body['rule']}\n{_INDENT}with its history, {also}.")
            desk.say(f"{_INDENT}Claude Code's own transcripts are not changed.")
            desk.tell({"forgotten": [shown(meant)], "turns": turns, "journal_lines": lines})
        else:
            change_rule(engine, meant.id, "put away", status=Status.ARCHIVED)
            desk.say(f"Forgotten: {meant.body['rule']}\n{_INDENT}Undo: claude-smart restore {short(meant.id)}")
            desk.say(
                f"{_INDENT}Erase it, and the sentence it came from: claude-smart forget --everything {short(meant.id)}"
            )
            desk.tell({"forgotten": [shown(meant)]})
    return 0


def count_noun(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
