"""The commands about rules: show, review, edit, restore, forget, learn, tag."""

from __future__ import annotations

import os
import sys
import time
import uuid
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from alma.coding.events import parse_journal
from alma.coding.session import CodingSession, build_session
from alma.coding.transcript import list_transcripts, read_lines, read_transcript
from alma.engine.coding_sessions import find_mark, find_teachings
from alma.engine.context import Engine
from alma.engine.edit import list_history
from alma.engine.observations import OBSERVATION, delete_observation
from alma.engine.rules import (
    Taught,
    Teaching,
    change_rule,
    erase_rule,
    find_ended,
    find_quotes,
    has_quote,
    learn_rules,
    prepare_rules,
    restore_rule,
    teach,
)
from alma.engine.transaction import Transaction, write
from alma.errors import NotFoundError, StorageError, ValidationError
from alma.hooks.drain import DrainReport, ReadingReport, describe_dropped, drain, erase_from_journals, read_sessions
from alma.hooks.inject import playbook_text
from alma.hooks.paths import is_model_allowed, list_own_files
from alma.hooks.privacy import remove_private
from alma.hooks.project import find_project, locate_project
from alma.hooks.rules_reader import UnreadableStoreError
from alma.reading.local_rules import find_choice, word_rule
from alma.types.record import LIVE, Record, Status
from alma.types.rules import EVERYWHERE, LASTING, Reach, RuleSource
from alma.types.times import now

from .desk import (
    INDENT,
    PATIENCE,
    Desk,
    ask_yes,
    count_noun,
    describe_rule,
    find_observations,
    find_rules,
    is_run_by_agent,
    pick_rule,
    plain_observation,
    plain_rule,
    require_person,
    say_rules,
    short_id,
)

_NOTHING = "No rule was learned for this project yet."
_HISTORY = ("rule", "trigger", "why", "reach", "status")
_READING_SECONDS = 30.0
"""The host ends a slash command that takes a minute."""
_TITLES = {
    "repeated": "Repeated",
    "confirmed": "Confirmed",
    "promoted": "Now beyond one session",
    "known": "Already known",
}


# -- show


def show(args: Namespace, desk: Desk) -> int:
    """Show what is known for this project, or one rule with its history."""
    if not os.path.exists(desk.place.db):
        desk.say("Nothing was learned yet. Correct the agent in a session, or say: claude-smart tag NOTE")
        desk.tell({"project": desk.project, "playbook": "", "rules": [], "observations": []})
        return 0
    with desk.engine() as engine:
        known, observed = find_rules(engine), find_observations(engine)
        if args.what:
            return _show_one(desk, engine, pick_rule([*known, *observed], " ".join(args.what)))
    session = args.session or desk.session
    try:
        playbook = playbook_text(desk.place, desk.project, session, desk.folder)
    except UnreadableStoreError as error:
        raise StorageError(f"{error}; claude-smart doctor says more") from error
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
        say_rules(desk, "Rules in force", [one for one in active if not one.session])
        say_rules(desk, "Only in this session", [one for one in active if one.session and one.session == session])
        say_rules(desk, "Waiting for your review (claude-smart review)", waiting)
        say_rules(desk, "Observed in commands (claude-smart review --accept ID turns one into a rule)", observed)
        if args.all:
            say_rules(desk, "Only in other sessions", elsewhere)
            say_rules(desk, "Replaced or archived (claude-smart restore ID brings one back)", past)
        hidden = {} if args.all else {"only in other sessions": elsewhere, "replaced or archived": past}
        for where, records in hidden.items():
            if records:
                desk.say(f"\n{count_noun(len(records), 'rule')} {where}: claude-smart show --all")
        if not (active or waiting or observed):
            desk.say(_NOTHING)
    desk.tell(
        {
            "project": desk.project,
            "playbook": playbook,
            "rules": [plain_rule(one) for one in (known if args.all else active)],
            "observations": [plain_observation(one) for one in observed],
        }
    )
    return 0


def _show_one(desk: Desk, engine: Engine, record: Record) -> int:
    desk.say(f"{record.body['line']}\n{INDENT}{describe_rule(record)}")
    if record.kind == OBSERVATION:
        desk.tell({**plain_observation(record), "history": []})
        return 0
    for title, name in (("trigger", "trigger"), ("reason", "why"), ("learned from", "said"), ("source", "source")):
        if record.body[name]:
            desk.say(f"{INDENT}{title}: {record.body[name]}")
    changes = list_history(engine, record.id)
    after = {**record.body, "status": str(record.status)}
    steps = []
    for one in reversed(changes):
        before = {name: value for name, value in one.body["before"].items() if name in _HISTORY}
        changed = ", ".join(f"{name} {value!r}" for name, value in before.items() if value != after[name])
        step = f"{INDENT}{one.created_at:%Y-%m-%d %H:%M} {one.body['verb']} {one.body['why']}".rstrip()
        steps.append(f"{step} (before: {changed})" if changed else step)
        after |= before
    for step in reversed(steps):
        desk.say(step)
    lines = [
        {"at": one.created_at.isoformat(), **{k: one.body[k] for k in ("verb", "why", "before")}} for one in changes
    ]
    desk.tell({**plain_rule(record), "history": lines})
    return 0


# -- review


def review(args: Namespace, desk: Desk) -> int:
    """Decide about what might be a rule; at a terminal, one after the other."""
    if args.accept or args.accept_all:
        require_person("review --accept")
    with desk.engine() as engine:
        waiting = find_rules(engine, Status.CANDIDATE)
        if args.accept or args.reject or ((args.accept_all or args.reject_all) and waiting):
            return _decide(args, desk, engine, waiting)
        if waiting and not args.json and os.isatty(0) and os.isatty(1):
            return _ask_each(desk, engine, waiting)
    say_rules(desk, "Waiting for your review", waiting)
    how = "\nclaude-smart review --accept ID …  or  --reject ID …; claude-smart edit ID --rule … changes it first"
    desk.say(how if waiting else "Nothing waits for review.")
    desk.tell({"waiting": [plain_rule(one) for one in waiting]})
    return 0


def _decide(args: Namespace, desk: Desk, engine: Engine, waiting: list[Record]) -> int:
    acceptable = [*waiting, *find_observations(engine)]
    yes = waiting if args.accept_all else [pick_rule(acceptable, name) for name in args.accept]
    no = waiting if args.reject_all else [pick_rule(waiting, name) for name in args.reject]
    both = {one.id for one in yes} & {one.id for one in no}
    if both:
        raise ValidationError(f"{', '.join(sorted(both))} cannot be both accepted and rejected")
    for one in yes:
        _accept(desk, engine, one, everywhere=args.everywhere)
    for one in no:
        _reject(desk, engine, one)
    desk.tell({"accepted": [one.id for one in yes], "rejected": [one.id for one in no]})
    return 0


def _ask_each(desk: Desk, engine: Engine, waiting: list[Record]) -> int:
    question = "  [y]es, in this project / [a]lways, in all projects / [e]dit / [n]o / [Enter] skip / [q]uit: "
    for place, one in enumerate(waiting, 1):
        desk.say(f"\n{place} of {len(waiting)}: {one.body['line']}\n{INDENT}{describe_rule(one)}")
        desk.say(f"{INDENT}from: {one.body['said']}")
        answer = input(question).strip().lower()[:1]
        if answer == "e":
            words = {name: input(f"  {name} [{one.body[name]}]: ").strip() for name in ("rule", "trigger", "why")}
            words = {name: value for name, value in words.items() if value}
            one = change_rule(engine, one.id, "edited", words=words)[0] if words else one
            answer = input("  [y]es, in this project / [a]lways / [Enter] leave it waiting: ").strip().lower()[:1]
        if answer in ("y", "a"):
            _accept(desk, engine, one, everywhere=answer == "a")
        elif answer == "n":
            _reject(desk, engine, one)
        elif answer == "q":
            break
    return 0


def _accept(desk: Desk, engine: Engine, record: Record, *, everywhere: bool) -> None:
    rule = accept(engine, record, everywhere=everywhere)
    where = " everywhere" if rule.project == EVERYWHERE else ""
    desk.say(f"Accepted{where}: {rule.body['rule']}\n{INDENT}{describe_rule(rule)}")
    desk.say(f"{INDENT}Undo: claude-smart restore {short_id(rule.id)}")


def _reject(desk: Desk, engine: Engine, record: Record) -> None:
    change_rule(engine, record.id, "rejected", status=Status.ARCHIVED)
    desk.say(f"Rejected: {record.body['rule']}\n{INDENT}Undo: claude-smart restore {short_id(record.id)}")


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
    prepared = prepare_rules(engine, [rule])

    def replace_observation(tx: Transaction) -> Record:
        [taught] = learn_rules(tx, prepared)
        if taught.record is None:
            raise ValidationError(f"{record.id} could not be made a rule; write it down with claude-smart tag")
        for one in tx.get([record.id]):
            tx.update(one, status=Status.RETIRED)
        return taught.record

    return write(engine, replace_observation)


# -- edit, restore, forget


def edit(args: Namespace, desk: Desk) -> int:
    """Change the words or the reach of a rule."""
    require_person("edit")
    given = {"rule": args.rule, "trigger": args.trigger, "why": args.reason}
    words = {name: value for name, value in given.items() if value is not None}
    if not words and args.reach is None:
        raise ValidationError("nothing to change: pass --rule, --trigger, --reason or --reach")
    with desk.engine() as engine:
        meant = pick_rule(find_rules(engine, *LIVE), " ".join(args.what))
        reach = None if args.reach is None else Reach(args.reach)
        session = args.session or desk.session
        fresh, ended = change_rule(engine, meant.id, "edited", words=words, reach=reach, session=session)
    desk.say(f"Changed: {fresh.body['line']}\n{INDENT}{describe_rule(fresh)}")
    _say_ended(desk, ended)
    desk.say(f"{INDENT}Undo: claude-smart restore {short_id(fresh.id)}")
    desk.tell({"changed": plain_rule(fresh), "replaced": [one.id for one in ended]})
    return 0


def _say_ended(desk: Desk, ended: Sequence[Record]) -> None:
    for one in ended:
        desk.say(f"{INDENT}It replaces: {one.body['rule']} [{short_id(one.id)}]")


def restore(args: Namespace, desk: Desk) -> int:
    """Bring back a rule that was replaced, rejected or archived, or undo the last change of a rule in force."""
    require_person("restore")
    with desk.engine() as engine:
        known, name = find_rules(engine), " ".join(args.what)
        past = [one for one in known if one.status not in LIVE]
        # Words mean a rule that is gone; an id may also name one in force, whose last change is undone.
        in_force = [one for one in known if one.status in LIVE and one.id.endswith(name.strip("[]# ").lower())]
        if not past and not in_force:
            raise ValidationError(
                f"no replaced or archived rule matches {name!r}; to undo the last change of an active rule, pass its id"
            )
        meant = pick_rule([*past, *(in_force if len(name.strip()) >= 4 else ())], name)
        ended = find_ended(engine, meant) if meant.status not in LIVE else []
        wide = [one for one in ended if one.project == EVERYWHERE and meant.project != EVERYWHERE]
        if wide and not args.yes:
            problem = f"[{short_id(wide[0].id)}] {wide[0].body['rule']!r} holds in all projects and contradicts it"
            if desk.as_json or not (os.isatty(0) and os.isatty(1)):
                raise ValidationError(f"{problem}; pass --yes to replace it everywhere, or forget it first")
            if not ask_yes(f"{problem}. Replace it everywhere? [y/N] "):
                return 1
        fresh, ended = restore_rule(engine, meant.id)
    desk.say(f"Restored: {fresh.body['rule']}\n{INDENT}{describe_rule(fresh)}")
    _say_ended(desk, ended)
    desk.tell({"restored": plain_rule(fresh), "replaced": [one.id for one in ended]})
    return 0


def forget(args: Namespace, desk: Desk) -> int:
    """Put a rule away; with --everything, erase it with the sentence that it came from."""
    if args.everything:
        require_person("forget --everything")
    with desk.memory() as memory:
        engine = memory.engine(desk.project)
        rules = find_rules(engine) if args.everything else find_rules(engine, *LIVE)
        meant = pick_rule([*rules, *find_observations(engine)], " ".join(args.what))
        if meant.kind == OBSERVATION:
            delete_observation(replace(engine, project=meant.project), meant)
            desk.say(f"Erased: {meant.body['line']}")
            desk.tell({"forgotten": [plain_observation(meant)]})
        elif args.everything:
            quotes = find_quotes(meant)
            with desk.alone():
                turns = erase_rule(engine, meant)
                lines = erase_from_journals(desk.place, meant.project, lambda text: has_quote(text, quotes))
                memory.alma.vacuum()
            also = f"{count_noun(turns, 'recorded turn')} and {count_noun(lines, 'journal line')}"
            desk.say(f"Erased for good: {meant.body['rule']}\n{INDENT}with its history, {also}.")
            desk.say(f"{INDENT}Claude Code's own transcripts are not changed.")
            desk.tell({"forgotten": [plain_rule(meant)], "turns": turns, "journal_lines": lines})
        else:
            change_rule(engine, meant.id, "put away", status=Status.ARCHIVED)
            name = short_id(meant.id)
            desk.say(f"Forgotten: {meant.body['rule']}\n{INDENT}Undo: claude-smart restore {name}")
            desk.say(f"{INDENT}Erase it, and the sentence it came from: claude-smart forget --everything {name}")
            desk.tell({"forgotten": [plain_rule(meant)]})
    return 0


# -- learn


def learn(args: Namespace, desk: Desk) -> int:
    """Take in what was recorded; keep a note; or propose rules from old transcripts."""
    if args.from_history:
        return _learn_from_history(args, desk)
    if args.note:
        return _keep_note(args, desk)
    report = drain(desk.place, wait=PATIENCE)
    reading = None
    if is_model_allowed(desk.place) and os.path.exists(desk.place.db):
        # Claude reads this session, or all that wait when there is none.
        timeout = _READING_SECONDS if desk.session else None
        with desk.memory() as memory:
            reading = read_sessions(desk.place, memory, session=desk.session, is_urgent=True, timeout=timeout)
    _report(desk, report, reading)
    return 1 if report.busy or report.problems else 0


def _report(desk: Desk, report: DrainReport, reading: ReadingReport | None) -> None:
    if report.busy:
        desk.say("Another process is taking in what was recorded; try again in a moment.")
    elif not report.sessions:
        desk.say("Nothing new was recorded since the last time.")
    else:
        desk.say(f"Imported {count_noun(report.turns, 'turn')} from {count_noun(report.sessions, 'session')}.")
    refined, archived = (reading.refined, reading.archived) if reading else ([], [])
    # What both readers learned, each rule as it is now.
    fresh = {one.id: one for one in refined}
    gone = {one.id for one in archived}
    learned = [
        one if one.record is None else one._replace(record=fresh.get(one.record.id, one.record))
        for one in report.taught
        if one.record is None or one.record.id not in gone
    ]
    learned += reading.taught if reading else []
    _say_learned(desk, learned)
    for one in report.observed:
        if one.status is Status.ACTIVE:
            desk.say(f"- Observed in commands: {one.body['line']} [{short_id(one.id)}]")
    if reading is not None:
        _say_reading(desk, reading, {one.record.id for one in learned if one.record})
    if (report.sessions or reading) and not any(one.record for one in learned) and not refined:
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
            "learned": [_plain_taught(one) for one in learned],
            "refined": [plain_rule(one) for one in refined],
            "archived": [plain_rule(one) for one in archived],
            "observed": [plain_observation(one) for one in report.observed],
            "read": {name: getattr(reading, name) for name in ("turns", "dropped", "problem")} if reading else None,
            "problems": report.problems,
        }
    )


def _say_learned(desk: Desk, taught: Sequence[Taught]) -> None:
    """Say what became of the rules that were just taught, each as it is shown to the agent, and how to undo it."""
    for one in taught:
        record = one.record
        if record is None:
            desk.say(f"- Not learned, because you erased it: {one.teaching.rule}")
            continue
        name = short_id(record.id)
        reach = f"reach {record.body['reach']}"
        if record.status is Status.CANDIDATE:
            title = "Possible rule"
            state = f"{reach}, waits for you: claude-smart review --accept {name} (or --reject {name})"
        elif record.status is not Status.ACTIVE:
            title, state = "Repeated, but you archived it", f"claude-smart restore {name} brings it back"
        else:
            title = _TITLES.get(one.verb, "Learned")
            state = f"{reach}, in force from now on. Undo: claude-smart forget {name}"
        desk.say(f"- {title}: {record.body['line']}\n{INDENT}[{name}] {state}")
        for id in map(short_id, one.replaced):
            desk.say(f"{INDENT}It replaces [{id}]: claude-smart restore {id}")


def _say_reading(desk: Desk, reading: ReadingReport, listed: set[str]) -> None:
    """Say what Claude did with the rules that are not `listed` yet, or why it did nothing."""
    for one in (one for one in reading.refined if one.id not in listed):
        desk.say(f"- reworded: {one.body['line']} [{short_id(one.id)}]")
    for one in reading.archived:
        desk.say(f"- no rule after all (claude-smart restore {short_id(one.id)}): {one.body['line']}")
    if reading.turns:
        desk.say(f"Claude read {count_noun(reading.turns, 'turn')}.")
    if reading.dropped:
        desk.say(f"Dropped by the checks: {describe_dropped(reading.dropped)}.")
    if reading.problem:
        desk.say(f"Claude could not read the session: {reading.problem}. It is retried later; local findings are kept.")
    elif not reading.sessions:
        desk.say("Claude had nothing to read: no turn since the last time may be a correction.")


def _plain_taught(one: Taught) -> dict[str, Any]:
    rule = None if one.record is None else plain_rule(one.record)
    return {"verb": one.verb, "rule": rule, "replaced": list(one.replaced)}


# -- tag


def tag(args: Namespace, desk: Desk) -> int:
    """Keep a note as a rule, as written; without one, what the person said last."""
    if args.note:
        return _keep_note(args, desk)
    paths = sorted(list_own_files(desk.place, ".jsonl"), key=os.path.getmtime, reverse=True)
    if desk.session and os.path.exists(desk.place.journal(desk.session)):
        paths.insert(0, desk.place.journal(desk.session))
    for path in paths:
        with open(path, "rb") as file:
            story = build_session(parse_journal(file.read())[0])
        if story.heard and story.project == desk.project:
            said = story.heard[-1].heard
            return _teach_note(args, desk, word_rule(said), said)
    raise ValidationError("no turn was recorded here yet, so there is none to tag; pass a note: claude-smart tag …")


def _keep_note(args: Namespace, desk: Desk) -> int:
    # A terminal may pass bytes that are no text.
    text = remove_private(" ".join(args.note).encode("utf-8", "replace").decode()).strip()
    if not text:
        raise ValidationError("the note is empty; say what is to be remembered")
    return _teach_note(args, desk, text, text)


def _teach_note(args: Namespace, desk: Desk, rule: str, said: str) -> int:
    prefer, avoid = find_choice(rule)
    note = Teaching(
        id=f"note:{uuid.uuid4().hex}",
        rule=rule,
        reach=Reach.ALWAYS if args.everywhere else Reach.PROJECT,
        source=RuleSource.NOTE,
        prefer=prefer,
        avoid=avoid,
        said=said,
        session=desk.session,
        sure=not is_run_by_agent(),
        at=now(),
    )
    with desk.engine() as engine:
        taught = teach(engine, [note])
    _say_learned(desk, taught)
    desk.tell({"learned": [_plain_taught(one) for one in taught]})
    return 0


# -- learn --from-history


def _learn_from_history(args: Namespace, desk: Desk) -> int:
    """Propose rules from the transcripts that Claude Code keeps, offline; they wait for review."""
    folder = args.folder or os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    if not os.path.isdir(os.path.join(folder, "projects")):
        raise NotFoundError(
            f"{folder} holds no transcripts (no folder `projects`); name the Claude folder: --folder DIR"
        )
    oldest = 0.0 if args.days is None else time.time() - args.days * 86_400.0
    files = [one for one in list_transcripts(folder) if one.modified >= oldest]
    sessions = turns = unreadable = 0
    proposed: list[tuple[str, Record]] = []
    is_watched = not desk.as_json and sys.stderr.isatty()
    with desk.memory() as memory:
        for number, one in enumerate(files, 1):
            if is_watched:
                count = f"{number} of {len(files)} transcripts, {len(proposed)} rules proposed"
                print(f"\r{count} ", end="" if number < len(files) else "\n", file=sys.stderr)
            if find_mark(memory.engine(EVERYWHERE), one.session).offset:
                # It was recorded as it happened, and taught what it had to teach.
                continue
            story = _read_transcript(str(one.path))
            if story is None:
                unreadable += 1
                continue
            sessions, turns = sessions + 1, turns + len(story.turns)
            project = find_project(desk.place, locate_project(one.cwd), remember=False) if one.cwd else ""
            # What was said long ago, and not to this memory, waits for a person or for its repetition.
            lasting = [given._replace(sure=False) for given in find_teachings(story, 0) if given.reach in LASTING]
            taught = teach(memory.engine(project), lasting) if project and lasting else []
            proposed += [(project, one.record) for one in taught if one.record is not None and one.verb != "known"]
    desk.say(f"Read {count_noun(sessions, 'session')} with {count_noun(turns, 'turn')}.")
    if unreadable:
        desk.say(f"{unreadable} transcripts held nothing that could be read.")
    for project in dict.fromkeys(project for project, _ in proposed):
        say_rules(desk, project, [one for key, one in proposed if key == project])
    desk.say("\nNone is used until you say so: claude-smart review" if proposed else "No rule was found in them.")
    counts = {"sessions": sessions, "turns": turns, "unreadable": unreadable}
    desk.tell({**counts, "proposed": [plain_rule(one) for _, one in proposed]})
    return 0


def _read_transcript(path: str) -> CodingSession | None:
    """Return the story of a transcript; None when nothing in it can be read."""
    try:
        with open(path, "rb") as file:
            events = list(read_transcript(read_lines(file)))
    except OSError:
        return None
    return build_session([replace(one, data=_remove_private(one.data)) for one in events]) if events else None


def _remove_private(value: Any) -> Any:
    """Return the value without what was marked as private; secrets are taken out where it is admitted."""
    if isinstance(value, str):
        return remove_private(value)
    if isinstance(value, dict):
        return {name: _remove_private(item) for name, item in value.items()}
    return [_remove_private(item) for item in value] if isinstance(value, list) else value
