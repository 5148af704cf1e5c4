"""The commands about rules: show, review, edit, restore, forget, learn, tag.

A command says what people are to read and returns what programs get with `--json`.
"""

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
from alma.coding.session import build_session
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
from alma.errors import NotFoundError, ValidationError
from alma.hooks.drain import ReadingReport, describe_dropped, drain, erase_from_journals, read_sessions
from alma.hooks.inject import playbook_text
from alma.hooks.paths import is_model_allowed, list_own_files
from alma.hooks.privacy import remove_private
from alma.hooks.project import find_project, locate_project
from alma.reading.local_rules import find_choice, word_rule
from alma.types.kinds import EVERYWHERE, LASTING, Reach, RuleSource
from alma.types.record import LIVE, Record, Status
from alma.types.times import now

from .desk import (
    INDENT,
    PATIENCE,
    Answer,
    Desk,
    count_noun,
    describe_rule,
    find_observations,
    find_rules,
    is_run_by_agent,
    pick_rule,
    plain_rule,
    plain_rules,
    require_person,
    short_id,
)

_NOTHING = "No rule was learned for this project yet."
_HISTORY = ("rule", "trigger", "why", "reach", "status")
_CHANGE = ("verb", "why", "before")
_READING_SECONDS = 30.0
"""The host ends a slash command that takes a minute."""
_TITLES = {
    "repeated": "Repeated",
    "confirmed": "Confirmed",
    "promoted": "Now beyond one session",
    "known": "Already known",
}


# -- show


def show(args: Namespace, desk: Desk) -> Answer:
    """Show what is known for this project, or one rule with its history."""
    if not os.path.exists(desk.place.db):
        desk.say("Nothing was learned yet. Correct the agent in a session, or say: claude-smart tag NOTE")
        return {"project": desk.project, "playbook": "", "rules": [], "observations": []}
    with desk.engine() as engine:
        known, observed = find_rules(engine), find_observations(engine)
        if args.what:
            return _show_one(desk, engine, pick_rule([*known, *observed], " ".join(args.what)))
    session = args.session or desk.session
    playbook = playbook_text(desk.place, desk.project, session, desk.folder)
    active, waiting = ([one for one in known if one.status is status] for status in LIVE)
    lasting = [one for one in active if not one.session]
    here = [one for one in active if one.session and one.session == session]
    hidden = {
        "Only in other sessions": [one for one in active if one.session not in ("", session)],
        "Replaced or archived (claude-smart restore ID brings one back)": [
            one for one in known if one.status not in LIVE
        ],
    }
    # A command that weakens safety is not put before an agent, which may be the one who asks.
    observed = [one for one in observed if args.all or one.status is Status.ACTIVE]
    if args.playbook:
        desk.say(playbook or ("All rules stand in CLAUDE.md, which Claude Code reads itself." if lasting else _NOTHING))
        if waiting:
            desk.say(f"{count_noun(len(waiting), 'possible rule')} waiting: claude-smart review")
    else:
        desk.say(f"Project {desk.project}")
        desk.list_rules("Rules in force", lasting)
        desk.list_rules("Only in this session", here)
        desk.list_rules("Waiting for your review (claude-smart review)", waiting)
        desk.list_rules("Observed in commands (claude-smart review --accept ID turns one into a rule)", observed)
        for where, rules in hidden.items():
            if args.all:
                desk.list_rules(where, rules)
            elif rules:
                what = where.partition(" (")[0].lower()
                desk.say(f"\n{count_noun(len(rules), 'rule')} {what}: claude-smart show --all")
        if not (active or waiting or observed):
            desk.say(_NOTHING)
    listed, seen = plain_rules(known if args.all else active), plain_rules(observed)
    return {"project": desk.project, "playbook": playbook, "rules": listed, "observations": seen}


def _show_one(desk: Desk, engine: Engine, record: Record) -> Answer:
    desk.say(f"{record.body['line']}\n{INDENT}{describe_rule(record)}")
    for title, name in (("learned from", "said"), ("source", "source")):
        if record.body.get(name):
            desk.say(f"{INDENT}{title}: {record.body[name]}")
    after = {**record.body, "status": str(record.status)}
    history, lines = list_history(engine, record.id), []
    for one in reversed(history):
        before = {name: value for name, value in one.body["before"].items() if name in _HISTORY}
        changed = ", ".join(f"{name} {value!r}" for name, value in before.items() if value != after[name])
        step = f"{INDENT}{one.created_at:%Y-%m-%d %H:%M} {one.body['verb']} {one.body['why']}".rstrip()
        lines.append(f"{step} (before: {changed})" if changed else step)
        after |= before
    desk.say(*reversed(lines))
    steps = [{"at": one.created_at.isoformat(), **{name: one.body[name] for name in _CHANGE}} for one in history]
    return {**plain_rule(record), "history": steps}


# -- review


def review(args: Namespace, desk: Desk) -> Answer:
    """Decide about what might be a rule; at a terminal, one after the other."""
    if args.accept or args.accept_all:
        require_person("review --accept")
    with desk.engine() as engine:
        waiting = find_rules(engine, Status.CANDIDATE)
        acceptable = [*waiting, *find_observations(engine)]
        yes = waiting if args.accept_all else [pick_rule(acceptable, name) for name in args.accept]
        no = waiting if args.reject_all else [pick_rule(waiting, name) for name in args.reject]
        accepted, rejected = ([one.id for one in records] for records in (yes, no))
        if both := set(accepted) & set(rejected):
            raise ValidationError(f"{', '.join(sorted(both))} cannot be both accepted and rejected")
        for one in yes:
            _decide(desk, engine, one, "a" if args.everywhere else "y")
        for one in no:
            _decide(desk, engine, one, "n")
        if yes or no:
            return {"accepted": accepted, "rejected": rejected}
        if waiting and not desk.as_json and os.isatty(0) and os.isatty(1):
            _ask_each(desk, engine, waiting)
            return {}
    plain = desk.list_rules("Waiting for your review", waiting)
    how = "\nclaude-smart review --accept ID …  or  --reject ID …; claude-smart edit ID --rule … changes it first"
    desk.say(how if waiting else "Nothing waits for review.")
    return {"waiting": plain}


def _ask_each(desk: Desk, engine: Engine, waiting: list[Record]) -> None:
    question = "  [y]es, in this project / [a]lways, in all projects / [e]dit / [n]o / [Enter] skip / [q]uit: "
    for place, one in enumerate(waiting, 1):
        desk.say(f"\n{place} of {len(waiting)}: {one.body['line']}\n{INDENT}{describe_rule(one)}")
        desk.say(f"{INDENT}from: {one.body['said']}")
        answer = input(question).strip().lower()[:1]
        if answer == "e":
            words = {name: input(f"  {name} [{one.body[name]}]: ").strip() for name in ("rule", "trigger", "why")}
            if words := {name: value for name, value in words.items() if value}:
                one, _ = change_rule(engine, one.id, "edited", words=words)
            answer = input("  [y]es, in this project / [a]lways / [Enter] leave it waiting: ").strip().lower()[:1]
        if answer == "q":
            break
        _decide(desk, engine, one, answer)


def _decide(desk: Desk, engine: Engine, record: Record, answer: str) -> None:
    """Accept a rule here (y) or always (a), or reject it (n); anything else leaves it waiting."""
    if answer in ("y", "a"):
        desk.report_change("Accepted", accept(engine, record, everywhere=answer == "a"))
    elif answer == "n":
        desk.report_change("Rejected", *change_rule(engine, record.id, "rejected", status=Status.ARCHIVED))


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
        for one in tx.get([record.id]):
            tx.update(one, status=Status.RETIRED)
        # A note that its person vouches for is never refused.
        assert taught.record is not None
        return taught.record

    return write(engine, replace_observation)


# -- edit, restore, forget


def edit(args: Namespace, desk: Desk) -> Answer:
    """Change the words or the reach of a rule."""
    require_person("edit")
    values = {"rule": args.rule, "trigger": args.trigger, "why": args.reason}
    words = {name: text for name, text in values.items() if text is not None}
    if not words and args.reach is None:
        raise ValidationError("nothing to change: pass --rule, --trigger, --reason or --reach")
    with desk.engine() as engine:
        rule = pick_rule(find_rules(engine, *LIVE), " ".join(args.what))
        reach = Reach(args.reach or rule.body["reach"])
        session = args.session or desk.session
        changed = change_rule(engine, rule.id, "edited", words=words, reach=reach, session=session)
    return desk.report_change("Changed", *changed)


def restore(args: Namespace, desk: Desk) -> Answer:
    """Bring back a rule that was replaced, rejected or archived, or undo the last change of a rule in force."""
    require_person("restore")
    name = " ".join(args.what)
    end = name.strip("[]# ").lower()
    with desk.engine() as engine:
        # Words mean a rule that is gone; an id may also name one in force, whose last change is undone.
        is_id = len(end) >= 4
        known = [one for one in find_rules(engine) if one.status not in LIVE or (is_id and one.id.endswith(end))]
        if not known:
            raise ValidationError(
                f"no replaced or archived rule matches {name!r}; to undo the last change of an active rule, pass its id"
            )
        rule = pick_rule(known, name)
        ended = find_ended(Transaction(engine), rule, rule.superseded_by) if rule.status not in LIVE else []
        wide = [one for one in ended if one.project == EVERYWHERE and rule.project != EVERYWHERE]
        if wide and not args.yes:
            raise ValidationError(
                f"[{short_id(wide[0].id)}] {wide[0].body['rule']!r} holds in all projects and contradicts it; "
                "pass --yes to replace it everywhere, or forget it first"
            )
        restored, replaced = restore_rule(engine, rule.id)
        return desk.report_change("Restored" if restored.status in LIVE else "Put away again", restored, replaced)


def forget(args: Namespace, desk: Desk) -> Answer:
    """Put a rule away; with --everything, erase it with the sentence that it came from."""
    if args.everything:
        require_person("forget --everything")
    with desk.memory() as memory:
        engine = memory.engine(desk.project)
        rules = find_rules(engine, *(() if args.everything else LIVE))
        rule = pick_rule([*rules, *find_observations(engine)], " ".join(args.what))
        answer: Answer = {"forgotten": [plain_rule(rule)]}
        if rule.kind == OBSERVATION:
            delete_observation(replace(engine, project=rule.project), rule)
            desk.say(f"Erased: {rule.body['line']}")
        elif args.everything:
            quotes = find_quotes(rule)
            with desk.lock_drain():
                turns = erase_rule(engine, rule)
                lines = erase_from_journals(desk.place, rule.project, lambda text: has_quote(text, quotes))
                memory.alma.vacuum()
            also = f"{count_noun(turns, 'recorded turn')} and {count_noun(lines, 'journal line')}"
            desk.say(f"Erased for good: {rule.body['rule']}\n{INDENT}with its history, {also}.")
            desk.say(f"{INDENT}Claude Code's own transcripts are not changed.")
            answer |= {"turns": turns, "journal_lines": lines}
        else:
            desk.report_change("Forgotten", *change_rule(engine, rule.id, "put away", status=Status.ARCHIVED))
            how = f"claude-smart forget --everything {short_id(rule.id)}"
            desk.say(f"{INDENT}Erase it, and the sentence it came from: {how}")
    return answer


# -- learn, tag


def learn(args: Namespace, desk: Desk) -> Answer:
    """Take in what was recorded; keep a note; or propose rules from old transcripts."""
    if args.from_history:
        return _learn_from_history(args, desk)
    if args.note:
        return tag(args, desk)
    report = drain(desk.place, wait=PATIENCE)
    reading = ReadingReport()
    is_read = is_model_allowed(desk.place) and os.path.exists(desk.place.db)
    if is_read:
        # Claude reads this session, or all that wait when there is none.
        timeout = _READING_SECONDS if desk.session else None
        with desk.memory() as memory:
            reading = read_sessions(desk.place, memory, session=desk.session, is_urgent=True, timeout=timeout)
    if report.busy:
        desk.say("Another process is taking in what was recorded; try again in a moment.")
    elif not report.sessions:
        desk.say("Nothing new was recorded since the last time.")
    else:
        desk.say(f"Imported {count_noun(report.turns, 'turn')} from {count_noun(report.sessions, 'session')}.")
    # What both readers learned, each rule as it is now.
    refined, archived = ({one.id: one for one in records} for records in (reading.refined, reading.archived))
    current = [one for one in report.taught if one.record is None or one.record.id not in archived]
    learned = [one._replace(record=one.record and refined.get(one.record.id, one.record)) for one in current]
    learned += reading.taught
    plain = _report_learned(desk, learned)
    for one in report.observed:
        if one.status is Status.ACTIVE:
            desk.say(f"- Observed in commands: {one.body['line']} [{short_id(one.id)}]")
    if is_read:
        _say_reading(desk, reading, {one.record.id for one in learned if one.record})
    if (report.sessions or is_read) and not any(one.record for one in learned) and not reading.refined:
        hint = "Only explicit corrections are found while Claude does not read them: claude-smart config model on"
        desk.say("No rules found." if is_read else f"No rules found.\n{hint}")
    for problem in report.problems:
        desk.say(f"! {problem}")
    desk.exit_code = int(report.busy or bool(report.problems))
    return {
        **{name: getattr(report, name) for name in ("sessions", "turns", "busy", "problems")},
        "learned": plain,
        "refined": plain_rules(reading.refined),
        "archived": plain_rules(reading.archived),
        "observed": plain_rules(report.observed),
        "read": {name: getattr(reading, name) for name in ("turns", "dropped", "problem")} if is_read else None,
    }


def _report_learned(desk: Desk, taught: Sequence[Taught]) -> list[Answer]:
    """Say what became of the rules that were just taught, each as it is shown to the agent, and how to undo it."""
    for one in taught:
        if one.record is None:
            desk.say(f"- Not learned, because you erased it: {one.teaching.rule}")
            continue
        body, name = one.record.body, short_id(one.record.id)
        if one.record.status is Status.ACTIVE:
            title = _TITLES.get(one.verb, "Learned")
            state = f"reach {body['reach']}, in force from now on. Undo: claude-smart forget {name}"
        elif one.record.status is Status.CANDIDATE:
            title = "Possible rule"
            state = f"reach {body['reach']}, waits for you: claude-smart review --accept {name} (or --reject {name})"
        else:
            title, state = "Repeated, but you archived it", f"claude-smart restore {name} brings it back"
        desk.say(f"- {title}: {body['line']}\n{INDENT}[{name}] {state}")
        desk.say(*(f"{INDENT}It replaces [{id[-8:]}]: claude-smart restore {id[-8:]}" for id in one.replaced))
    return [
        {"verb": one.verb, "rule": one.record and plain_rule(one.record), "replaced": list(one.replaced)}
        for one in taught
    ]


def _say_reading(desk: Desk, reading: ReadingReport, listed: set[str]) -> None:
    """Say what Claude did with the rules that are not `listed` yet, or why it did nothing."""
    for one in reading.refined:
        if one.id not in listed:
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


def tag(args: Namespace, desk: Desk) -> Answer:
    """Keep a note as a rule, as written; without one, what the person said last."""
    if args.note:
        # A terminal may pass bytes that are no text.
        rule = words = remove_private(" ".join(args.note).encode("utf-8", "replace").decode()).strip()
        if not words:
            raise ValidationError("the note is empty; say what is to be remembered")
    else:
        own = desk.place.journal(desk.session)
        paths = sorted(list_own_files(desk.place, ".jsonl"), key=lambda path: (path == own, os.path.getmtime(path)))
        words = ""
        while paths and not words:
            with open(paths.pop(), "rb") as file:
                story = build_session(parse_journal(file.read())[0])
            words = story.heard[-1].heard if story.heard and story.project == desk.project else ""
        if not words:
            raise ValidationError(
                "no turn was recorded here yet, so there is none to tag; pass a note: claude-smart tag …"
            )
        rule = word_rule(words)
    prefer, avoid = find_choice(rule)
    note = Teaching(
        id=f"note:{uuid.uuid4().hex}",
        rule=rule,
        reach=Reach.ALWAYS if args.everywhere else Reach.PROJECT,
        source=RuleSource.NOTE,
        prefer=prefer,
        avoid=avoid,
        said=words,
        session=desk.session,
        sure=not is_run_by_agent(),
        at=now(),
    )
    with desk.engine() as engine:
        taught = teach(engine, [note])
    return {"learned": _report_learned(desk, taught)}


def _learn_from_history(args: Namespace, desk: Desk) -> Answer:
    """Propose rules from the transcripts that Claude Code keeps, offline; they wait for review."""
    folder = args.folder or os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    if not os.path.isdir(os.path.join(folder, "projects")):
        raise NotFoundError(
            f"{folder} holds no transcripts (no folder `projects`); name the Claude folder: --folder DIR"
        )
    oldest = 0.0 if args.days is None else time.time() - args.days * 86_400.0
    files = [one for one in list_transcripts(folder) if one.modified >= oldest]
    sessions = turns = 0
    proposed: dict[str, list[Record]] = {}
    with desk.memory() as memory:
        for number, file in enumerate(files, 1):
            if sys.stderr.isatty():
                print(f"{number} of {len(files)} transcripts", end="\r", file=sys.stderr)
            # One that was recorded as it happened has taught what it had to teach.
            if find_mark(memory.engine(EVERYWHERE), file.session).offset:
                continue
            with open(file.path, "rb") as lines:
                events = list(read_transcript(read_lines(lines)))
            story = build_session([replace(event, data=_remove_private(event.data)) for event in events])
            sessions, turns = sessions + 1, turns + len(story.turns)
            project = find_project(desk.place, locate_project(file.cwd), remember=False)
            # What was said long ago, and not to this memory, waits for a person or for its repetition.
            lasting = [one._replace(sure=False) for one in find_teachings(story, 0) if one.reach in LASTING]
            taught = [one for one in teach(memory.engine(project), lasting) if one.verb != "known"] if lasting else []
            proposed.setdefault(project, []).extend(one.record for one in taught if one.record)
    desk.say(f"Read {count_noun(sessions, 'session')} with {count_noun(turns, 'turn')}.")
    plain = [one for project, rules in proposed.items() for one in desk.list_rules(project, rules)]
    desk.say("\nNone is used until you say so: claude-smart review" if plain else "No rule was found in them.")
    return {"sessions": sessions, "turns": turns, "proposed": plain}


def _remove_private(value: Any) -> Any:
    """Return the value without what was marked as private; secrets are taken out where it is admitted."""
    if isinstance(value, str):
        return remove_private(value)
    if isinstance(value, dict):
        return {name: _remove_private(item) for name, item in value.items()}
    return [_remove_private(item) for item in value] if isinstance(value, list) else value
