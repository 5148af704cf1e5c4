"""The context that all commands work at, and the commands about rules: show, review, edit, restore, forget, learn, tag.

A command says what people are to read and returns what programs get with `--json`.
"""

from __future__ import annotations

import os
import time
import uuid
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from alma import jsonc
from alma.coding.events import parse_journal
from alma.coding.session import build_session
from alma.coding.transcript import list_transcripts, read_lines, read_transcript
from alma.engine import rules as core
from alma.engine.coding_sessions import find_mark, find_teachings
from alma.engine.context import Engine
from alma.engine.edit import list_history
from alma.engine.observations import OBSERVATION, count_times, delete_observation
from alma.engine.rules import Teaching
from alma.engine.transaction import Transaction, write
from alma.errors import ConfigError, NotFoundError, ValidationError
from alma.files import lock_file, read_content
from alma.hooks import drain as drains
from alma.hooks.inject import read_playbook
from alma.hooks.journal import ask_worker
from alma.hooks.paths import DataDir, find_data_dir, is_model_allowed, list_own_files
from alma.hooks.privacy import remove_private
from alma.hooks.project import clean_path, find_copy, locate_project, read_copies
from alma.reading.local_rules import find_choice, word_rule
from alma.text import stems
from alma.types.kinds import EVERYWHERE, LASTING, MemoryType, Reach, RuleSource
from alma.types.query import Where
from alma.types.record import LIVE, Record, Status
from alma.types.times import now

PATIENCE = 20.0
"""So many seconds a command waits for another process that takes in what was recorded."""
_STOP_SECONDS = 3.0
INDENT = "    "
Answer = dict[str, Any]
"""What a command returns for programs; what people read it says itself."""


@dataclass
class CommandContext:
    data_dir: DataDir
    project: str
    session: str
    folder: str
    as_json: bool = False
    exit_code: int = 0

    def print_lines(self, *lines: str) -> None:
        """Print lines for people; programs get what the command returns."""
        for line in () if self.as_json else lines:
            print(line)

    def list_rules(self, heading: str, records: Sequence[Record]) -> list[Answer]:
        """Say which rules there are; return them as JSON values."""
        if records:
            self.print_lines(f"\n{heading}\n")
        for one in records:
            self.print_lines(f"- {one.body['line']}\n{INDENT}{describe_rule(one)}")
            if one.status is Status.CANDIDATE and one.body.get("said"):
                self.print_lines(f"{INDENT}from: {one.body['said']}")
        return [rule_to_dict(one) for one in records]

    def report_change(
        self, verb: str, rule: Record, ended: Sequence[Record] = (), details: Sequence[str] = ()
    ) -> Answer:
        """Print what was done to a rule, which rules it replaces and how to undo it; return it as JSON values."""
        self.print_lines(f"{verb}: {rule.body['line']}\n{INDENT}{describe_rule(rule)}")
        self.print_lines(*(f"{INDENT}{detail}" for detail in details))
        self.print_lines(*(f"{INDENT}It replaces: {one.body['rule']} [{short_id(one.id)}]" for one in ended))
        self.print_lines(f"{INDENT}Undo: claude-smart restore {short_id(rule.id)}")
        return {verb.lower(): rule_to_dict(rule), "replaced": [one.id for one in ended]}

    def memory(self) -> drains.ProjectMemories:
        """Open the store. Something may be stored now, so the working copy is remembered."""
        find_copy(self.data_dir, locate_project(self.folder))
        return drains.ProjectMemories(self.data_dir)

    @contextmanager
    def memory_if_any(self) -> Iterator[drains.ProjectMemories | None]:
        """Open the store; None where nothing was stored yet."""
        with self.memory() if os.path.exists(self.data_dir.db) else nullcontext() as memory:
            yield memory

    @contextmanager
    def engine(self) -> Iterator[Engine]:
        """Open the store for the rules of this project."""
        with self.memory() as memory:
            yield memory.engine(self.project)


def open_context(as_json: bool = False, project: str | None = None) -> CommandContext:
    """Find the data folder and the project of this folder, without changing anything."""
    data_dir = find_data_dir(os.environ)
    try:
        here = clean_path(os.environ.get("CLAUDE_PROJECT_DIR") or os.getcwd())
    except FileNotFoundError:
        raise ConfigError("the folder you are in was removed; go to another one") from None
    key = find_copy(data_dir, locate_project(here), remember=False).key
    if project not in (None, key):
        require_project(data_dir, str(project))
    return CommandContext(data_dir, project or key, os.environ.get("CLAUDE_CODE_SESSION_ID", ""), here, as_json)


def require_project(data_dir: DataDir, key: str) -> None:
    """Refuse a project that has neither a working copy nor anything stored."""
    known = {copy.key for copy in read_copies(data_dir)}
    if key not in known and os.path.exists(data_dir.db):
        with drains.ProjectMemories(data_dir) as memory:
            known |= {one.project for one in memory.alma.engine.store.scan(Where(projects={key}), 1)}
    if key not in known:
        raise NotFoundError(f"there is no project {key!r}. Known: {', '.join(sorted(known)) or 'none'}")


def require_session(data_dir: DataDir, engine: Engine, session: str) -> None:
    """Refuse a session that has neither a journal nor anything stored."""
    records = engine.store.scan(Where(sessions={session}), 1)
    if not os.path.exists(data_dir.journal_file(session)) and not list(records):
        raise NotFoundError(f"there is no session {session!r}; claude-smart show --all lists the rules of all sessions")


def is_run_by_agent() -> bool:
    """Whether an agent runs this command in its own shell; its slash commands come by way of the journal."""
    return os.environ.get("CLAUDECODE") == "1" and not os.isatty(0)


def require_person(doing: str) -> None:
    """Refuse what only a person may decide, where an agent runs the command."""
    if is_run_by_agent():
        raise ValidationError(f"{doing} is for a person to decide, and an agent runs this: run it in a terminal")


def ask_yes(question: str) -> bool:
    return input(question).strip().lower() in ("y", "yes")


def stop_worker(data_dir: DataDir) -> None:
    """End the worker: it would write into what is about to go."""
    if ask_worker(data_dir, {"op": "stop"}, 1.0) is not None:
        deadline = time.monotonic() + _STOP_SECONDS
        while os.path.exists(data_dir.worker) and time.monotonic() < deadline:
            time.sleep(0.05)


def read_object(path: Path) -> tuple[str | None, dict[str, Any]]:
    """Return the text of a JSON file and what it holds; None and nothing where there is no file."""
    content = read_content(path)
    if content is None:
        return None, {}
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 ({error}); mend it first, nothing was changed") from error
    # The host reads JSON without comments and nothing else.
    return text, jsonc.load(text, str(path), remarks=False)


# -- rules: which there are, and how they are described


def find_rules(engine: Engine, *statuses: Status) -> list[Record]:
    """Return the rules of the project and those of all projects, oldest first."""
    where = Where(kinds={MemoryType.RULE}, projects={engine.project, EVERYWHERE}, statuses=statuses or None)
    return [one for one in engine.store.scan(where) if not core.is_old_fix(one)][::-1]


def find_observations(engine: Engine) -> list[Record]:
    """Return what agents did in this project that failed and then worked, oldest first."""
    return list(engine.store.scan(Where(kinds={OBSERVATION}, projects={engine.project}, statuses=LIVE)))[::-1]


def pick_rule(records: Sequence[Record], name: str) -> Record:
    """Return the one rule that an id, the end of one, or words mean."""
    wanted = name.strip("[]# ").lower()
    if not wanted:
        raise ValidationError("say which rule: its id, the end of it, or words that are in it")
    texts = {one.id: str(one.body["rule" if one.kind == MemoryType.RULE else "line"]) for one in records}
    matches = (
        [one for one in records if one.id == wanted or (len(wanted) >= 4 and one.id.endswith(wanted))]
        or [one for one in records if wanted in texts[one.id].lower()]
        or [one for one in records if stems(wanted) and stems(wanted) <= stems(one.text)]
    )
    if not matches:
        raise NotFoundError(f"no rule matches {name!r}; `claude-smart show` lists the rules with their ids")
    if len(matches) > 1:
        listed = "\n".join(f"  [{short_id(one.id)}] {texts[one.id]}" for one in matches[:10])
        raise ValidationError(f"{len(matches)} rules could be meant by {name!r}; name one by its id:\n{listed}")
    return matches[0]


def short_id(record_id: str) -> str:
    """Return enough of an id to name it: its end, because the beginning is the time it was made."""
    return record_id[-8:]


def count_noun(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


_RULE_FIELDS = ("rule", "trigger", "why", "reach", "source", "said", "prefer", "avoid")
_OBSERVATION_FIELDS = ("failed", "worked", "failures", "successes", "concern")


def rule_to_dict(record: Record) -> Answer:
    """Return a rule or an observation as JSON values."""
    if record.kind == OBSERVATION:
        fields = {name: record.body[name] for name in _OBSERVATION_FIELDS}
        return {"id": record.id, "status": str(record.status), **fields}
    return {
        "id": record.id,
        **{name: record.body[name] for name in _RULE_FIELDS},
        "status": str(record.status),
        "project": record.project,
        "session": record.session,
        "followed": record.evidence.successes,
        "violated": record.evidence.failures,
        "repeats": record.body.get("metadata", {}).get("repeats", 0),
        "created_at": record.created_at.isoformat(),
    }


def describe_rule(record: Record) -> str:
    """Return what a person needs to judge a rule: id, reach, date, and how often it was repeated and followed."""
    value, day = rule_to_dict(record), f"{record.created_at:%Y-%m-%d}"
    if record.kind == OBSERVATION:
        once = "seen in one session only" if record.status is Status.CANDIDATE else ""
        parts = [day, f"not shown: {value['concern']}" if value["concern"] else once]
    else:
        counts = {"repeated": value["repeats"], "followed": value["followed"], "violated": value["violated"]}
        parts = [f"reach {value['reach']}", day]
        parts += [f"{verb} {count_times(number)}" for verb, number in counts.items() if number]
        if record.status is Status.SUPERSEDED:
            parts.append(f"replaced by [{short_id(record.superseded_by)}]")
        elif record.status not in LIVE:
            parts.append(value["status"])
    return f"[{short_id(record.id)}] {', '.join(filter(None, parts))}"


# -- show

_NOTHING = "No rule was learned for this project yet."
_HISTORY = ("rule", "trigger", "why", "reach", "status")
_CHANGE = ("verb", "why", "before")


def show(args: Namespace, context: CommandContext) -> Answer:
    """Show what is known for this project, or one rule with its history."""
    if not os.path.exists(context.data_dir.db):
        context.print_lines("Nothing was learned yet. Correct the agent in a session, or say: claude-smart tag NOTE")
        return {"project": context.project, "playbook": "", "rules": [], "observations": []}
    with context.engine() as engine:
        if args.session:
            require_session(context.data_dir, engine, args.session)
        known, observed = find_rules(engine), find_observations(engine)
        if args.what:
            return _show_one(context, engine, pick_rule([*known, *observed], " ".join(args.what)))
    session = args.session or context.session
    playbook = read_playbook(context.data_dir, context.project, session, context.folder)
    active, waiting = ([one for one in known if one.status is status] for status in LIVE)
    lasting = [one for one in active if not one.session]
    # A command that weakens safety is not put before an agent, which may be the one who asks.
    observed = [one for one in observed if args.all or one.status is Status.ACTIVE]
    if args.playbook:
        context.print_lines(
            playbook or ("All rules stand in CLAUDE.md, which Claude Code reads itself." if lasting else _NOTHING)
        )
        if waiting:
            context.print_lines(f"{count_noun(len(waiting), 'possible rule')} waiting: claude-smart review")
    else:
        context.print_lines(f"Project {context.project}")
        here = [one for one in active if one.session and one.session == session]
        elsewhere = [one for one in active if one.session not in ("", session)]
        gone = [one for one in known if one.status not in LIVE]
        for heading, hint, rules, is_listed in (
            ("Rules in force", "", lasting, True),
            ("Only in this session", "", here, True),
            ("Waiting for your review", " (claude-smart review)", waiting, True),
            ("Observed in commands", " (claude-smart review --accept ID turns one into a rule)", observed, True),
            ("Only in other sessions", "", elsewhere, args.all),
            ("Replaced or archived", " (claude-smart restore ID brings one back)", gone, args.all),
        ):
            if is_listed:
                context.list_rules(heading + hint, rules)
            elif rules:
                context.print_lines(f"\n{count_noun(len(rules), 'rule')} {heading.lower()}: claude-smart show --all")
        if not (active or waiting or observed):
            context.print_lines(_NOTHING)
    listed, seen = ([rule_to_dict(one) for one in rules] for rules in (known if args.all else active, observed))
    return {"project": context.project, "playbook": playbook, "rules": listed, "observations": seen}


def _show_one(context: CommandContext, engine: Engine, record: Record) -> Answer:
    context.print_lines(f"{record.body['line']}\n{INDENT}{describe_rule(record)}")
    for title, name in (("learned from", "said"), ("source", "source")):
        if record.body.get(name):
            context.print_lines(f"{INDENT}{title}: {record.body[name]}")
    after = {**record.body, "status": str(record.status)}
    history, lines = list_history(engine, record.id), []
    for one in reversed(history):
        before = {name: value for name, value in one.body["before"].items() if name in _HISTORY}
        changed = ", ".join(f"{name} {value!r}" for name, value in before.items() if value != after[name])
        step = f"{INDENT}{one.created_at:%Y-%m-%d %H:%M} {one.body['verb']} {one.body['why']}".rstrip()
        lines.append(f"{step} (before: {changed})" if changed else step)
        after |= before
    context.print_lines(*reversed(lines))
    steps = [{"at": one.created_at.isoformat(), **{name: one.body[name] for name in _CHANGE}} for one in history]
    return {**rule_to_dict(record), "history": steps}


# -- review


def review(args: Namespace, context: CommandContext) -> Answer:
    """Decide about what might be a rule; at a terminal, one after the other."""
    if args.accept or args.accept_all:
        require_person("review --accept")
    with context.engine() as engine:
        waiting = find_rules(engine, Status.CANDIDATE)
        acceptable = [*waiting, *find_observations(engine)]
        yes = waiting if args.accept_all else [pick_rule(acceptable, name) for name in args.accept]
        no = waiting if args.reject_all else [pick_rule(waiting, name) for name in args.reject]
        accepted, rejected = ([one.id for one in records] for records in (yes, no))
        if both := set(accepted) & set(rejected):
            raise ValidationError(f"{', '.join(sorted(both))} cannot be both accepted and rejected")
        for records, answer in ((yes, "a" if args.everywhere else "y"), (no, "n")):
            for one in records:
                _apply_decision(context, engine, one, answer)
        if yes or no:
            return {"accepted": accepted, "rejected": rejected}
        if waiting and not context.as_json and os.isatty(0) and os.isatty(1):
            _ask_each(context, engine, waiting)
            return {}
    plain = context.list_rules("Waiting for your review", waiting)
    how = "\nclaude-smart review --accept ID …  or  --reject ID …; claude-smart edit ID --rule … changes it first"
    context.print_lines(how if waiting else "Nothing waits for review.")
    return {"waiting": plain}


def _ask_each(context: CommandContext, engine: Engine, waiting: list[Record]) -> None:
    for number, one in enumerate(waiting, 1):
        context.print_lines(f"\n{number} of {len(waiting)}: {one.body['line']}\n{INDENT}{describe_rule(one)}")
        context.print_lines(f"{INDENT}from: {one.body['said']}")
        question = "  [y]es, in this project / [a]lways, in all projects / [e]dit / [n]o / [Enter] skip / [q]uit: "
        while (answer := input(question).strip().lower()[:1]) == "e":
            names = ("rule", "trigger", "why")
            words = {name: text for name in names if (text := input(f"  {name} [{one.body[name]}]: ").strip())}
            one = core.change_rule(engine, one.id, "edited", words=words)[0] if words else one
        if answer == "q":
            break
        _apply_decision(context, engine, one, answer)


def _apply_decision(context: CommandContext, engine: Engine, record: Record, answer: str) -> None:
    """Accept a rule here (y) or always (a), or reject it (n); anything else leaves it waiting."""
    if answer in ("y", "a"):
        context.report_change("Accepted", accept_rule(engine, record, everywhere=answer == "a"))
    elif answer == "n":
        context.report_change("Rejected", *core.change_rule(engine, record.id, "rejected", status=Status.ARCHIVED))


def accept_rule(engine: Engine, record: Record, *, everywhere: bool = False) -> Record:
    """Make a lasting rule of a candidate or an observation, because a person said yes; end what it contradicts."""
    reach = Reach.ALWAYS if everywhere or record.project == EVERYWHERE else Reach.PROJECT
    if record.kind != OBSERVATION:
        return core.change_rule(engine, record.id, "accepted", reach=reach, status=Status.ACTIVE)[0]
    body = record.body
    text = f"Run `{body['worked']}` instead of `{body['failed']}`"
    rule = Teaching(f"accepted:{record.id}", text, reach, RuleSource.NOTE, body["trigger"], said=body["line"], at=now())
    rule = rule._replace(prefer=tuple(body["prefer"]), avoid=tuple(body["avoid"]))
    prepared = core.prepare_rules(engine, [rule])

    def replace_observation(tx: Transaction) -> Record:
        [taught] = core.learn_rules(tx, prepared)
        for one in tx.get([record.id]):
            tx.update(one, status=Status.RETIRED)
        # A note that its person vouches for is never refused.
        assert taught.record is not None
        return taught.record

    return write(engine, replace_observation)


# -- edit, restore, forget


def edit(args: Namespace, context: CommandContext) -> Answer:
    """Change the words or the reach of a rule."""
    require_person("edit")
    values = {"rule": args.rule, "trigger": args.trigger, "why": args.reason}
    words = {name: text for name, text in values.items() if text is not None}
    if not words and args.reach is None:
        raise ValidationError("nothing to change: pass --rule, --trigger, --reason or --reach")
    with context.engine() as engine:
        rule = pick_rule(find_rules(engine, *LIVE), " ".join(args.what))
        reach = Reach(args.reach or rule.body["reach"])
        session = args.session or context.session
        changed, ended = core.change_rule(engine, rule.id, "edited", words=words, reach=reach, session=session)
    names = {"rule": "rule", "trigger": "trigger", "why": "reason"}
    details = [
        f"{names[name]}: {changed.body[name] or 'none'} (before: {rule.body[name] or 'none'})"
        for name in words
        if changed.body[name] != rule.body[name]
    ]
    return context.report_change("Changed", changed, ended, details)


def restore(args: Namespace, context: CommandContext) -> Answer:
    """Bring back a rule that was replaced, rejected or archived, or undo the last change of a rule in force."""
    require_person("restore")
    name = " ".join(args.what)
    end = name.strip("[]# ").lower()
    with context.engine() as engine:
        # Words mean a rule that is gone; an id may also name one in force, whose last change is undone.
        is_id = len(end) >= 4
        known = [one for one in find_rules(engine) if one.status not in LIVE or (is_id and one.id.endswith(end))]
        if not known:
            raise ValidationError(
                f"no replaced or archived rule matches {name!r}; to undo the last change of an active rule, pass its id"
            )
        rule = pick_rule(known, name)
        ended = core.find_ended(Transaction(engine), rule, rule.superseded_by) if rule.status not in LIVE else []
        wide = [one for one in ended if one.project == EVERYWHERE and rule.project != EVERYWHERE]
        if wide and not args.yes:
            raise ValidationError(
                f"[{short_id(wide[0].id)}] {wide[0].body['rule']!r} holds in all projects and contradicts it; "
                "pass --yes to replace it everywhere, or forget it first"
            )
        restored, replaced = core.restore_rule(engine, rule.id)
        return context.report_change("Restored" if restored.status in LIVE else "Put away again", restored, replaced)


def forget(args: Namespace, context: CommandContext) -> Answer:
    """Put a rule away; with --everything, erase it with the sentence that it came from."""
    if args.everything:
        require_person("forget --everything")
    with context.memory() as memory:
        engine = memory.engine(context.project)
        rules = find_rules(engine, *(() if args.everything else LIVE))
        rule = pick_rule([*rules, *find_observations(engine)], " ".join(args.what))
        answer: Answer = {"forgotten": [rule_to_dict(rule)]}
        if rule.kind == OBSERVATION:
            delete_observation(replace(engine, project=rule.project), rule)
            context.print_lines(f"Erased: {rule.body['line']}")
        elif args.everything:
            quotes = core.find_quotes(rule)
            with lock_file(context.data_dir.drain_lock, PATIENCE):
                # What is half read would come back after it was erased.
                turns = core.erase_rule(engine, rule)
                lines = drains.erase_from_journals(
                    context.data_dir, rule.project, lambda text: core.has_quote(text, quotes)
                )
                memory.alma.vacuum()
            also = f"{count_noun(turns, 'recorded turn')} and {count_noun(lines, 'journal line')}"
            context.print_lines(f"Erased for good: {rule.body['rule']}\n{INDENT}with its history, {also}.")
            context.print_lines(f"{INDENT}Claude Code's own transcripts are not changed.")
            answer |= {"turns": turns, "journal_lines": lines}
        else:
            context.report_change("Forgotten", *core.change_rule(engine, rule.id, "put away", status=Status.ARCHIVED))
            how = f"claude-smart forget --everything {short_id(rule.id)}"
            context.print_lines(f"{INDENT}Erase it, and the sentence it came from: {how}")
    return answer


# -- learn, tag

_READING_SECONDS = 30.0
"""The host ends a slash command that takes a minute."""
_TITLES = {
    "repeated": "Repeated",
    "confirmed": "Confirmed",
    "promoted": "Now beyond one session",
    "known": "Already known",
}


def learn(args: Namespace, context: CommandContext) -> Answer:
    """Take in what was recorded; keep a note; or propose rules from old transcripts."""
    if args.from_history:
        return _learn_from_history(args, context)
    if args.note:
        return tag(args, context)
    report = drains.drain(context.data_dir, wait=PATIENCE)
    reading = drains.ReadingReport()
    is_read = is_model_allowed(context.data_dir) and os.path.exists(context.data_dir.db)
    if is_read:
        # Claude reads this session, or all that wait when there is none.
        timeout = _READING_SECONDS if context.session else None
        with context.memory() as memory:
            reading = drains.read_sessions(
                context.data_dir, memory, session=context.session, is_urgent=True, timeout=timeout
            )
    if report.busy:
        context.print_lines("Another process is taking in what was recorded; try again in a moment.")
    elif not report.sessions:
        context.print_lines("Nothing new was recorded since the last time.")
    else:
        context.print_lines(
            f"Imported {count_noun(report.turns, 'turn')} from {count_noun(report.sessions, 'session')}."
        )
    # What both readers learned, each rule as it is now.
    refined, archived = ({one.id: one for one in records} for records in (reading.refined, reading.archived))
    current = [one for one in report.taught if one.record is None or one.record.id not in archived]
    learned = [one._replace(record=one.record and refined.get(one.record.id, one.record)) for one in current]
    learned += reading.taught
    plain = _report_learned(context, learned)
    for one in report.observed:
        if one.status is Status.ACTIVE:
            context.print_lines(f"- Observed in commands: {one.body['line']} [{short_id(one.id)}]")
    if is_read:
        _say_reading(context, reading, {one.record.id for one in learned if one.record})
    if (report.sessions or is_read) and not any(one.record for one in learned) and not reading.refined:
        hint = "Only explicit corrections are found while Claude does not read them: claude-smart config model on"
        context.print_lines("No rules found." if is_read else f"No rules found.\n{hint}")
    for problem in report.problems:
        context.print_lines(f"! {problem}")
    context.exit_code = int(report.busy or bool(report.problems))
    changed = {"refined": reading.refined, "archived": reading.archived, "observed": report.observed}
    return {
        **{name: getattr(report, name) for name in ("sessions", "turns", "busy", "problems")},
        "learned": plain,
        **{name: [rule_to_dict(one) for one in records] for name, records in changed.items()},
        "read": {name: getattr(reading, name) for name in ("turns", "dropped", "problem")} if is_read else None,
    }


def _report_learned(context: CommandContext, taught: Sequence[core.Taught]) -> list[Answer]:
    """Say what became of the rules that were just taught, each as it is shown to the agent, and how to undo it."""
    for one in taught:
        if one.record is None:
            context.print_lines(f"- Not learned, because you erased it: {one.teaching.rule}")
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
        context.print_lines(f"- {title}: {body['line']}\n{INDENT}[{name}] {state}")
        context.print_lines(
            *(f"{INDENT}It replaces [{id[-8:]}]: claude-smart restore {id[-8:]}" for id in one.replaced)
        )
    return [
        {"verb": one.verb, "rule": one.record and rule_to_dict(one.record), "replaced": list(one.replaced)}
        for one in taught
    ]


def _say_reading(context: CommandContext, reading: drains.ReadingReport, listed: set[str]) -> None:
    """Say what Claude did with the rules that are not `listed` yet, or why it did nothing."""
    for one in reading.refined:
        if one.id not in listed:
            context.print_lines(f"- reworded: {one.body['line']} [{short_id(one.id)}]")
    for one in reading.archived:
        context.print_lines(f"- no rule after all (claude-smart restore {short_id(one.id)}): {one.body['line']}")
    if reading.turns:
        context.print_lines(f"Claude read {count_noun(reading.turns, 'turn')}.")
    if reading.dropped:
        context.print_lines(f"Dropped by the checks: {drains.describe_dropped(reading.dropped)}.")
    if reading.problem:
        context.print_lines(
            f"Claude could not read the session: {reading.problem}. It is retried later; local findings are kept."
        )
    elif not reading.sessions:
        context.print_lines("Claude had nothing to read: no turn since the last time may be a correction.")


def tag(args: Namespace, context: CommandContext) -> Answer:
    """Keep a note as a rule, as written; without one, what the person said last."""
    if args.note:
        # A terminal may pass bytes that are no text.
        rule = words = remove_private(" ".join(args.note).encode("utf-8", "replace").decode()).strip()
        if not words:
            raise ValidationError("the note is empty; say what is to be remembered")
    else:
        own = context.data_dir.journal_file(context.session)
        paths = sorted(
            list_own_files(context.data_dir, ".jsonl"), key=lambda path: (path == own, os.path.getmtime(path))
        )
        words = ""
        while paths and not words:
            with open(paths.pop(), "rb") as file:
                story = build_session(parse_journal(file.read())[0])
            words = story.user_turns[-1].user_words if story.user_turns and story.project == context.project else ""
        if not words:
            raise ValidationError(
                "no turn was recorded here yet, so there is none to tag; pass a note: claude-smart tag …"
            )
        rule = word_rule(words)
    prefer, avoid = find_choice(rule)
    reach, is_sure = Reach.ALWAYS if args.everywhere else Reach.PROJECT, not is_run_by_agent()
    note = Teaching(f"note:{uuid.uuid4().hex}", rule, reach, RuleSource.NOTE, said=words, sure=is_sure, at=now())
    with context.engine() as engine:
        taught = core.teach(engine, [note._replace(prefer=prefer, avoid=avoid, session=context.session)])
    return {"learned": _report_learned(context, taught)}


def _learn_from_history(args: Namespace, context: CommandContext) -> Answer:
    """Propose rules from the transcripts that Claude Code keeps, offline; they wait for review."""
    folder = args.folder or os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    if not os.path.isdir(os.path.join(folder, "projects")):
        raise NotFoundError(
            f"{folder} holds no transcripts (no folder `projects`); name the Claude folder: --folder DIR"
        )
    oldest = 0.0 if args.days is None else time.time() - args.days * 86_400.0
    sessions = turns = 0
    proposed: dict[str, list[Record]] = {}
    with context.memory() as memory:
        for file in (one for one in list_transcripts(folder) if one.modified >= oldest):
            # One that was recorded as it happened has taught what it had to teach.
            if find_mark(memory.engine(EVERYWHERE), file.session).offset:
                continue
            with open(file.path, "rb") as lines:
                events = list(read_transcript(read_lines(lines)))
            story = build_session([replace(event, data=_remove_private(event.data)) for event in events])
            sessions, turns = sessions + 1, turns + len(story.turns)
            project = find_copy(context.data_dir, locate_project(file.cwd), remember=False).key
            # What was said long ago, and not to this memory, waits for a person or for its repetition.
            lasting = [one._replace(sure=False) for one in find_teachings(story, 0) if one.reach in LASTING]
            taught = (
                [one for one in core.teach(memory.engine(project), lasting) if one.verb != "known"] if lasting else []
            )
            proposed.setdefault(project, []).extend(one.record for one in taught if one.record)
    context.print_lines(f"Read {count_noun(sessions, 'session')} with {count_noun(turns, 'turn')}.")
    plain = [one for project, rules in proposed.items() for one in context.list_rules(project, rules)]
    context.print_lines(
        "\nNone is used until you say so: claude-smart review" if plain else "No rule was found in them."
    )
    return {"sessions": sessions, "turns": turns, "proposed": plain}


def _remove_private(value: Any) -> Any:
    """Return the value without what was marked as private; secrets are taken out where it is admitted."""
    if isinstance(value, str):
        return remove_private(value)
    if isinstance(value, dict):
        return {name: _remove_private(item) for name, item in value.items()}
    return [_remove_private(item) for item in value] if isinstance(value, list) else value
