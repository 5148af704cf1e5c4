"""The context of a command, and the commands about rules: show, review, edit, restore, forget, learn, tag.

A command prints text for people and returns the values that `--json` prints.
"""

from __future__ import annotations

import os
import time
import uuid
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from alma import jsonc, people
from alma.coding.session import CodingSession, build_session
from alma.coding.transcript import list_transcripts, read_lines, read_transcript
from alma.engine import rules as core
from alma.engine.coding_sessions import find_mark, find_teachings
from alma.engine.conflicts import MemoryConflict, list_conflicts, resolve_conflict
from alma.engine.context import Engine
from alma.engine.erase import erase_memory
from alma.engine.exchanges import EXCHANGE
from alma.engine.observations import OBSERVATION, accept_observation, count_times
from alma.engine.rules import Teaching
from alma.engine.transaction import Transaction, write
from alma.errors import ConfigError, NotFoundError, ValidationError
from alma.files import decode_settings, lock_file, read_content
from alma.hooks import drain as drains
from alma.hooks import journal
from alma.hooks.evidence import LEAST_LIKELY
from alma.hooks.inject import normalise_item, read_host_rules, read_playbook, reads_agents_md
from alma.hooks.news import drop_noted
from alma.hooks.paths import (
    DataDir,
    NoHomeError,
    build_environment,
    find_data_dir,
    is_model_allowed,
    list_own_files,
    read_settings,
)
from alma.hooks.privacy import IgnoreRules, remove_private
from alma.hooks.project import WorkingCopy, clean_path, find_copy, locate_project, read_copies
from alma.hooks.reader import name_reader
from alma.hooks.team import sync_team
from alma.reading.local_rules import find_choice, read_turn, word_rule
from alma.rulefiles.targets import find_repository
from alma.text import map_texts, stems
from alma.types.kinds import EVERYWHERE, LASTING, Basis, MemoryType, Reach, Rule, RuleSource
from alma.types.query import Where
from alma.types.record import LIVE, Record, Status
from alma.types.times import now

from . import aider

PATIENCE = 20.0
"""How many seconds a command waits for another process that is importing sessions."""
_STOP_SECONDS = 3.0
INDENT = "    "
Answer = dict[str, Any]
"""The JSON values that a command returns."""


@dataclass
class CommandContext:
    """The data folder, project, session and folder that a command works on, its output and its exit code."""

    data_dir: DataDir
    project: str
    session: str
    folder: str
    as_json: bool = False
    exit_code: int = 0

    def print_lines(self, *lines: str) -> None:
        """Print lines for people; nothing with `--json`."""
        for line in () if self.as_json else lines:
            print(line)

    def list_rules(self, heading: str, records: Sequence[Record]) -> list[Answer]:
        """Print the rules under a heading; return them as JSON values."""
        if records:
            self.print_lines(f"\n{heading}\n")
        for one in records:
            self.print_lines(f"- {plain_line(one)}\n{INDENT}{describe_rule(one)}")
            if one.status is Status.CANDIDATE and one.body.get("said"):
                self.print_lines(f"{INDENT}from: {one.body['said']}")
            if one.status is Status.CANDIDATE and (doubt := find_doubt(one)):
                self.print_lines(f"{INDENT}not known to be yours: {doubt}")
        return [rule_to_dict(one) for one in records]

    def report_change(
        self, verb: str, rule: Record, ended: Sequence[Record] = (), details: Sequence[str] = (), undo: str = "Undo"
    ) -> Answer:
        """Print what was done to a rule, which rules it replaces and how to undo it; return it as JSON values."""
        self.print_lines(f"{verb}: {plain_line(rule)}\n{INDENT}{describe_rule(rule)}")
        self.print_lines(*(f"{INDENT}{detail}" for detail in details))
        self.print_lines(*(f"{INDENT}It replaces: {one.body['rule']} [{short_id(one.id)}]" for one in ended))
        self.print_lines(f"{INDENT}{undo}: claude-smart restore {short_id(rule.id)}")
        return {verb.lower(): rule_to_dict(rule), "replaced": [one.id for one in ended]}

    def find_copy(self, *, remember: bool = False) -> WorkingCopy:
        """Return the working copy of the folder; with `remember`, a new or changed one is stored."""
        return find_copy(self.data_dir, locate_project(self.folder), remember=remember)

    def memory(self) -> drains.ProjectMemories:
        """Open the store, creating it if needed, and remember the working copy."""
        self.find_copy(remember=True)
        return drains.ProjectMemories(self.data_dir)

    @contextmanager
    def memory_if_any(self) -> Iterator[drains.ProjectMemories | None]:
        """Open the store; None if nothing has been stored yet."""
        with self.memory() if os.path.exists(self.data_dir.db) else nullcontext() as memory:
            yield memory

    @contextmanager
    def engine(self) -> Iterator[Engine]:
        """Open the store and return the engine of this project."""
        with self.memory() as memory:
            yield memory.engine(self.project)


def open_context(
    as_json: bool = False, project: str | None = None, data_dir: DataDir | None = None, folder: str = ""
) -> CommandContext:
    """Return the context for a folder, by default the current one, or for `project`. Changes nothing."""
    here = clean_path(folder) or _find_folder()
    data_dir = data_dir or find_data_dir(os.environ)
    key = find_copy(data_dir, locate_project(here), remember=False).key
    if project not in (None, key):
        require_project(data_dir, str(project))
    return CommandContext(data_dir, project or key, os.environ.get("CLAUDE_CODE_SESSION_ID", ""), here, as_json)


def _find_folder() -> str:
    """Return the current folder; outside of git, the one that the host was started in if it is above, as in hooks."""
    try:
        here = clean_path(os.getcwd())
    except FileNotFoundError:
        raise ConfigError("the current folder no longer exists; change to another folder") from None
    located = locate_project(here, clean_path(os.environ.get("CLAUDE_PROJECT_DIR", "")))
    return here if located.is_git or located.is_named else located.path


def require_project(data_dir: DataDir, key: str) -> None:
    """Raise NotFoundError for a project that has neither a working copy nor anything stored."""
    keys = {copy.key for copy in read_copies(data_dir)}
    if key not in keys and os.path.exists(data_dir.db):
        with drains.ProjectMemories(data_dir) as memory:
            keys |= {one.project for one in memory.alma.engine.store.scan(Where(projects={key}), 1)}
    if key not in keys:
        raise NotFoundError(f"there is no project {key!r}. Known: {', '.join(sorted(keys)) or 'none'}")


def require_session(data_dir: DataDir, engine: Engine, session: str) -> None:
    """Raise NotFoundError for a session that has neither a journal nor anything stored."""
    records = engine.store.scan(Where(sessions={session}), 1)
    if not os.path.exists(data_dir.journal_file(session)) and not list(records):
        raise NotFoundError(
            f"there is no session {session!r}; `claude-smart show --all` lists the rules of all sessions"
        )


_typed_by_person = ContextVar("typed_by_person", default=False)


@contextmanager
def act_for_person() -> Iterator[None]:
    """Let commands count as a person's: the host has reported a slash command that a person typed."""
    token = _typed_by_person.set(True)
    try:
        yield
    finally:
        _typed_by_person.reset(token)


def is_run_by_agent() -> bool:
    """Return whether an agent runs this command in its shell. Slash commands do not count."""
    return not _typed_by_person.get() and bool(people.find_agent(folders=_list_folders()))


def find_objection() -> str:
    """Return why this command is not known to be a person's; empty if a person runs it."""
    if _typed_by_person.get():
        return ""
    return people.find_agent(folders=_list_folders()) or people.find_missing_terminal()


_DOORS = (
    f"{people.DOORS}; to provision a machine, run `claude-smart install --yes --settings FILE` outside of any agent"
)


def require_person(doing: str) -> None:
    """Raise PersonRequiredError unless a person runs a command that only a person may decide on."""
    if not _typed_by_person.get():
        people.require_person(doing, _DOORS, folders=_list_folders())


def _list_folders() -> list[str]:
    """Return the data folders in which hooks recorded the processes of agents, besides the usual ones."""
    try:
        return [find_data_dir(os.environ).home]
    except NoHomeError:
        return []


def ask_yes(question: str) -> bool:
    """Ask a question at the terminal. Return whether the answer is yes; the default is no."""
    return input(question).strip().lower() in ("y", "yes")


def stop_worker(data_dir: DataDir) -> None:
    """Stop the worker, which would write to files that are about to be removed, and wait until it has ended."""
    if journal.ask_worker(data_dir, {"op": "stop"}, 1.0) is not None:
        deadline = time.monotonic() + _STOP_SECONDS
        while os.path.exists(data_dir.worker) and time.monotonic() < deadline:
            time.sleep(0.05)


def read_object(path: Path) -> tuple[str | None, dict[str, Any]]:
    """Return the text of a JSON file and the object in it; None and an empty object if there is no file."""
    content = read_content(path)
    if content is None:
        return None, {}
    text = decode_settings(path, content)
    # The host reads only JSON without comments.
    return text, jsonc.load(text, str(path), remarks=False)


def read_paused(data_dir: DataDir) -> dict[str, Any]:
    """Return which projects are paused, and whether all are."""
    paused = {"everywhere": False, "projects": [], **read_object(Path(data_dir.paused))[1]}
    if not isinstance(paused["projects"], list):
        raise ConfigError(f"{data_dir.paused}: `projects` must be a list; fix the file first. Nothing was changed")
    return paused


def describe_pause(context: CommandContext) -> str:
    """Return why nothing is recorded in this project and how to change that; empty if sessions are recorded."""
    if IgnoreRules(locate_project(context.folder), context.folder).covers_everything:
        return "Excluded by .claude-smart/ignore: sessions here are not recorded and agents are shown no rules."
    try:
        paused = read_paused(context.data_dir)
    except ConfigError as error:
        return f"Nothing is recorded: {error}"
    if not paused["everywhere"] and context.project not in paused["projects"]:
        return ""
    where, option = ("everywhere", " --everywhere") if paused["everywhere"] else ("here", "")
    return (
        f"Paused {where}: sessions are not recorded and agents are shown no rules. Resume: claude-smart resume{option}"
    )


# -- finding and describing rules


def find_rules(engine: Engine, *statuses: Status) -> list[Record]:
    """Return the rules of the project and those of all projects, oldest first."""
    where = Where(kinds={MemoryType.RULE}, projects={engine.project, EVERYWHERE}, statuses=statuses or None)
    return [one for one in engine.store.scan(where) if not core.is_old_fix(one)][::-1]


def find_own_rules(engine: Engine, *statuses: Status) -> list[Record]:
    """Return the rules as `find_rules` does, without the copies of a team's rules."""
    return [one for one in find_rules(engine, *statuses) if not core.is_copy(one)]


def find_observations(engine: Engine) -> list[Record]:
    """Return the observations of this project, oldest first."""
    return list(engine.store.scan(Where(kinds={OBSERVATION}, projects={engine.project}, statuses=LIVE)))[::-1]


def pick_rule(records: Sequence[Record], name: str, noun: str = "rule") -> Record:
    """Return the one rule that matches an id, the end of one, or words. Raise an error unless exactly one does.

    `noun` is what the records are called in the error: rule or candidate.
    """
    query = name.strip("[]# ").lower()
    if not query:
        raise ValidationError("pass a rule: its id, the end of its id, or words of the rule")
    texts = {one.id: str(one.body["rule" if one.kind == MemoryType.RULE else "line"]) for one in records}
    matches = (
        [one for one in records if one.id == query or (len(query) >= 4 and one.id.endswith(query))]
        or [one for one in records if query in texts[one.id].lower()]
        or [one for one in records if stems(query) and stems(query) <= stems(one.text)]
    )
    if not matches:
        command = "show" if noun == "rule" else "review"
        raise NotFoundError(f"no {noun} matches {name!r}; `claude-smart {command}` lists the {noun}s with their ids")
    if len(matches) > 1:
        choices = "\n".join(f"  [{short_id(one.id)}] {texts[one.id]}" for one in matches[:10])
        raise ValidationError(f"{len(matches)} {noun}s match {name!r}; pass the id of one:\n{choices}")
    return matches[0]


def short_id(record_id: str) -> str:
    """Return the end of an id, which is enough to name a record; the start is a timestamp."""
    return record_id[-8:]


def count_noun(number: int, noun: str) -> str:
    """Return a number with a noun in the right form: "1 rule", "2 rules"."""
    return f"{number} {noun}{'s' * (number != 1)}"


_RULE_FIELDS = ("rule", "trigger", "why", "reach", "source", "said", "prefer", "avoid")
_OBSERVATION_FIELDS = ("failed", "worked", "failures", "successes", "concern")


def rule_to_dict(record: Record) -> Answer:
    """Return a rule or an observation as JSON values; `team` is the server that a copy of a team's rule came from."""
    server = core.name_server(record)
    if record.kind == OBSERVATION:
        fields = {name: record.body[name] for name in _OBSERVATION_FIELDS}
        return {"id": record.id, "status": str(record.status), **fields, **({"team": server} if server else {})}
    return {
        "id": record.id,
        **{name: record.body[name] for name in _RULE_FIELDS},
        "basis": str(record.body.get("basis", Basis.STATED)),
        "accepted": record.body.get("accepted", ""),
        "status": str(record.status),
        "project": record.project,
        "session": record.session,
        "followed": record.evidence.successes,
        "violated": record.evidence.failures,
        "repeats": record.body.get("metadata", {}).get("repeats", 0),
        "created_at": record.created_at.isoformat(),
        "doubt": find_doubt(record),
        **({"team": server} if server else {}),
    }


def find_doubt(record: Record) -> str:
    """Return why a rule is not known to come from a person; empty if nothing is known against it."""
    return str(record.body.get("metadata", {}).get("doubt") or "")


def plain_line(record: Record) -> str:
    """Return the line of a rule or observation without its Markdown, for a terminal."""
    line, _, why = str(record.body["line"]).partition(" *Why:* ")
    if line.startswith("**") and record.body.get("trigger"):
        line = line.removeprefix("**").replace(":** ", ": ", 1)
    return f"{line}{'' if line.endswith(('.', '!', '?')) else '.'} Why: {why}" if why else line


def describe_rule(record: Record) -> str:
    """Return the id, reach, date and evidence of a rule on one line."""
    value, day = rule_to_dict(record), f"{record.created_at:%Y-%m-%d}"
    if record.kind == OBSERVATION:
        once = "observed in one session only" if record.status is Status.CANDIDATE else ""
        parts = [day, f"not shown: {value['concern']}" if value["concern"] else once]
    else:
        counts = {"repeated": value["repeats"], "followed": value["followed"], "violated": value["violated"]}
        parts = [f"reach {value['reach']}", day]
        parts += [f"{verb} {count_times(number)}" for verb, number in counts.items() if number]
        if record.session:
            parts.append(f"session {record.session}")
        if record.status is Status.SUPERSEDED:
            parts.append(f"replaced by [{short_id(record.superseded_by)}]")
        elif record.status not in LIVE:
            parts.append(value["status"])
    if value.get("team"):
        # The name of a colleague is what the server says, so it is quoted.
        sharer = record.body["metadata"].get("shared_by", "")
        named = f", which names {sharer!r}" if sharer else ""
        parts.append(f"shared by the team server {value['team']}{named}; you did not state it")
    return f"[{short_id(record.id)}] {', '.join(filter(None, parts))}"


# -- show

_NOTHING = "No rules for this project yet. Correct the agent in a session, or run: claude-smart tag NOTE"
_HISTORY = ("rule", "trigger", "why", "reach", "status")
_CHANGE = ("verb", "why", "before")


def show(args: Namespace, context: CommandContext) -> Answer:
    """Show the rules, candidates and observations of this project, or one rule with its history."""
    if not os.path.exists(context.data_dir.db):
        context.print_lines(_NOTHING)
        return {"project": context.project, "playbook": "", "rules": [], "observations": []}
    with context.engine() as engine:
        if args.session:
            require_session(context.data_dir, engine, args.session)
        all_rules, observed = find_rules(engine), find_observations(engine)
        if args.what:
            return _show_one(context, engine, pick_rule([*all_rules, *observed], " ".join(args.what)))
    session = args.session or context.session
    playbook = read_playbook(context.data_dir, context.project, session, context.folder)
    # What was screened out is listed only for a person who asks for all, because an agent may run this command.
    sees_all = args.all and not is_run_by_agent()
    shared = [one for one in all_rules if core.is_copy(one) and one.status is Status.ACTIVE]
    held_back = [one for one in all_rules if core.is_copy(one) and one.status is Status.CANDIDATE]
    all_rules = [one for one in all_rules if sees_all or one in shared or not core.is_copy(one)]
    own_rules = [one for one in all_rules if not core.is_copy(one)]
    active, waiting = ([one for one in own_rules if one.status is status] for status in LIVE)
    lasting = [one for one in active if not one.session]
    stated = [rule for rule in lasting if rule.body.get("basis") != Basis.AGREED]
    agreed = [rule for rule in lasting if rule not in stated]
    # Commands that weaken safety are listed only with --all, because an agent may run this command.
    observed = [one for one in observed if args.all or one.status is Status.ACTIVE]
    if args.playbook:
        context.print_lines(
            playbook
            or ("All rules are in CLAUDE.md or AGENTS.md, which Claude Code reads itself." if lasting else _NOTHING)
        )
        if waiting or held_back:
            count = len(waiting) + len(held_back)
            context.print_lines(f"{count_noun(count, 'candidate')} waiting for review: claude-smart review")
    else:
        context.print_lines(f"Project {context.project}")
        here = [one for one in active if one.session and one.session == session]
        elsewhere = [one for one in active if one.session not in ("", session)]
        inactive = [one for one in all_rules if one.status not in LIVE]
        for heading, hint, rules, is_listed in (
            ("Rules you stated", "", stated, True),
            ("How it was done here, accepted by you", "", agreed, True),
            ("Only in this session", "", here, True),
            ("Candidates", " (not shown to the agent until you accept them with `claude-smart review`)", waiting, True),
            ("Observed", " (`claude-smart review --accept ID` turns one into a rule)", observed, True),
            ("Shared by the team", " (you did not state them; `claude-smart forget ID` hides one here)", shared, True),
            ("Shared by the team, for you to review", " (not shown to the agent)", held_back, sees_all),
            ("Only in other sessions", "", elsewhere, args.all),
            ("Replaced or archived", " (`claude-smart restore ID` brings one back)", inactive, args.all),
        ):
            if is_listed:
                context.list_rules(heading + hint, rules)
            elif rules:
                context.print_lines(f"\n{count_noun(len(rules), 'rule')} {heading.lower()}: claude-smart show --all")
        if not (active or waiting or observed or shared or held_back):
            context.print_lines(_NOTHING)
    lists = {"rules": all_rules if args.all else [*active, *shared], "observations": observed}
    values = {name: [rule_to_dict(one) for one in records] for name, records in lists.items()}
    return {"project": context.project, "playbook": playbook, **values}


def _show_one(context: CommandContext, engine: Engine, record: Record) -> Answer:
    context.print_lines(f"{plain_line(record)}\n{INDENT}{describe_rule(record)}")
    for title, name in (("learned from", "said"), ("accepted with", "accepted"), ("source", "source")):
        if record.body.get(name):
            context.print_lines(f"{INDENT}{title}: {record.body[name]}")
    if doubt := find_doubt(record):
        context.print_lines(f"{INDENT}not known to be yours: {doubt}")
    after = {**record.body, "status": str(record.status)}
    history, lines = Transaction(engine).read_history(record.id), []
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
    """Accept or reject candidates, and decide conflicts; at a terminal, one at a time."""
    for option in ("accept", "reject"):
        if getattr(args, option) or getattr(args, f"{option}_all"):
            require_person(f"`claude-smart review --{option}`")
    kept = {side: getattr(args, f"keep_{side}") for side in _SIDES if getattr(args, f"keep_{side}")}
    if kept:
        require_person("`claude-smart review --keep-…`")
    with context.engine() as engine:
        if kept:
            return _decide_conflicts(context, engine, kept)
        open_conflicts = list_rule_conflicts(engine)
        # An agent is not shown what was screened out of a team's rules.
        waiting = (find_own_rules if is_run_by_agent() else find_rules)(engine, Status.CANDIDATE)
        acceptable = [*waiting, *find_observations(engine)]
        yes = waiting if args.accept_all else [pick_rule(acceptable, name, "candidate") for name in args.accept]
        no = waiting if args.reject_all else [pick_rule(waiting, name, "candidate") for name in args.reject]
        accepted, rejected = ([one.id for one in records] for records in (yes, no))
        if both := set(accepted) & set(rejected):
            raise ValidationError(f"{', '.join(sorted(both))} is in both --accept and --reject; pass it to one of them")
        for records, answer in ((yes, "a" if args.everywhere else "y"), (no, "n")):
            for one in records:
                _apply_decision(context, engine, one, answer)
        if yes or no:
            return {"accepted": accepted, "rejected": rejected}
        is_open = bool(waiting or open_conflicts)
        if is_open and not context.as_json and os.isatty(0) and os.isatty(1) and not find_objection():
            _ask_each(context, engine, waiting)
            _ask_each_conflict(context, engine, open_conflicts)
            return {}
    values = context.list_rules("Candidates", waiting)
    how = (
        "\nAccept: claude-smart review --accept ID …",
        "Reject: claude-smart review --reject ID …",
        "Edit first: claude-smart edit ID --rule TEXT",
    )
    if waiting:
        context.print_lines(*how)
    if open_conflicts:
        context.print_lines("\nConflicts: the newer rule may replace the older one; until you decide, both apply")
    for conflict in open_conflicts:
        context.print_lines(*_describe_conflict(conflict))
    if open_conflicts:
        context.print_lines("\nDecide: claude-smart review --keep-newer ID, --keep-older ID or --keep-both ID")
    if not (waiting or open_conflicts):
        context.print_lines("No candidates to review.")
    conflicts = [
        {"id": one.id, "older": one.older.id, "newer": one.newer.id, "relation": one.relation} for one in open_conflicts
    ]
    return {"waiting": values, "conflicts": conflicts}


_SIDES = ("newer", "older", "both")


def list_rule_conflicts(engine: Engine) -> list[MemoryConflict]:
    """Return the conflicts between rules that wait for a decision, oldest first."""
    return [one for one in list_conflicts(engine) if isinstance(one.older, Rule)]


def _describe_conflict(conflict: MemoryConflict) -> list[str]:
    """Return a conflict in three lines: its id, the newer rule and the older one, with their dates."""
    lines = [f"\n[{short_id(conflict.id)}]"]
    for side in ("newer", "older"):
        rule: Rule = getattr(conflict, side)
        waits = ", waits for review" if rule.status == Status.CANDIDATE else ""
        lines.append(f"{INDENT}{side}, {rule.created_at:%Y-%m-%d}{waits}: {rule.rule} [{short_id(rule.id)}]")
    return lines


def _decide_conflicts(context: CommandContext, engine: Engine, kept: Mapping[str, list[str]]) -> Answer:
    """Keep the newer rules, the older ones or both, as a person decides."""
    decided: dict[str, list[str]] = {}
    for side, names in kept.items():
        for name in names:
            end = name.strip("[]# ").lower()
            found = [one for one in list_rule_conflicts(engine) if len(end) >= 4 and one.id.endswith(end)]
            if len(found) != 1:
                raise NotFoundError(f"no conflict matches {name!r}; `claude-smart review` lists them with their ids")
            _keep(context, engine, found[0], side)
            decided.setdefault(side, []).append(found[0].id)
    return {"kept": decided}


def _keep(context: CommandContext, engine: Engine, conflict: MemoryConflict, side: str) -> None:
    resolve_conflict(engine, conflict.id, side, "", "")
    kept = conflict.older if side == "older" else conflict.newer
    assert isinstance(kept, Rule)
    context.print_lines("Kept both rules" if side == "both" else f"Kept the {side} rule: {kept.rule}")


def _ask_each_conflict(context: CommandContext, engine: Engine, open_conflicts: list[MemoryConflict]) -> None:
    answers = {"n": "newer", "o": "older", "b": "both"}
    for conflict in open_conflicts:
        context.print_lines(*_describe_conflict(conflict))
        answer = input("  keep the [n]ewer / [o]lder / [b]oth / [Enter] skip / [q]uit: ").strip().lower()[:1]
        if answer == "q":
            break
        if answer in answers:
            _keep(context, engine, conflict, answers[answer])


def _ask_each(context: CommandContext, engine: Engine, waiting: list[Record]) -> None:
    for number, one in enumerate(waiting, 1):
        context.print_lines(f"\n{number} of {len(waiting)}: {plain_line(one)}\n{INDENT}{describe_rule(one)}")
        is_shared = core.is_copy(one)
        if one.body["said"]:
            context.print_lines(f"{INDENT}from: {one.body['said']}")
        more = "" if is_shared else " / [a]lways, in all projects / [e]dit"
        question = f"  [y]es, in this project{more} / [n]o / [Enter] skip / [q]uit: "
        while (answer := input(question).strip().lower()[:1]) == "e" and not is_shared:
            names = ("rule", "trigger", "why")
            words = {name: text for name in names if (text := input(f"  {name} [{one.body[name]}]: ").strip())}
            one = core.change_rule(engine, one.id, "edited", words=words)[0] if words else one
        if answer == "q":
            break
        _apply_decision(context, engine, one, answer)


def _apply_decision(context: CommandContext, engine: Engine, record: Record, answer: str) -> None:
    """Accept a candidate for this project (y) or all projects (a), or reject it (n); otherwise leave it."""
    if answer in ("y", "a"):
        context.report_change("Accepted", accept_rule(engine, record, everywhere=answer == "a"))
    elif answer == "n":
        context.report_change("Rejected", *core.change_rule(engine, record.id, "rejected", status=Status.ARCHIVED))


def accept_rule(engine: Engine, record: Record, *, everywhere: bool = False) -> Record:
    """Make a candidate or an observation an active rule, and supersede the rules that it contradicts."""
    is_wide = (everywhere and not core.is_copy(record)) or record.project == EVERYWHERE
    reach = Reach.ALWAYS if is_wide else Reach.PROJECT
    if record.kind != OBSERVATION:
        return core.change_rule(engine, record.id, "accepted", reach=reach, status=Status.ACTIVE)[0]
    return write(engine, lambda tx: accept_observation(tx, record, reach))


# -- edit, restore, forget

_SESSIONS = 3


def edit(args: Namespace, context: CommandContext) -> Answer:
    """Change the text, trigger, reason or reach of a rule."""
    require_person("`claude-smart edit`")
    values = {"rule": args.rule, "trigger": args.trigger, "why": args.reason}
    words = {name: text for name, text in values.items() if text is not None}
    if not words and args.reach is None:
        raise ValidationError("nothing to change: pass --rule, --trigger, --reason or --reach")
    with context.engine() as engine:
        rule = pick_rule(find_rules(engine, *LIVE), " ".join(args.what))
        reach = Reach(args.reach or rule.body["reach"])
        session = args.session or context.session
        if reach not in LASTING and not (rule.session or session):
            raise ValidationError(
                f"--reach {reach} needs a session: pass --session ID. {_list_sessions(context)}. In Claude Code, "
                "/smart:edit takes the session you are in"
            )
        is_same = all(" ".join(text.split()) == rule.body[name] for name, text in words.items())
        if is_same and reach == rule.body["reach"] and (reach in LASTING or session in ("", rule.session)):
            context.print_lines(f"Nothing to change: {plain_line(rule)}\n{INDENT}{describe_rule(rule)}")
            return {"changed": rule_to_dict(rule), "replaced": []}
        if core.is_copy(rule):
            changed, ended = _state_instead(engine, rule, words, reach, session)
        else:
            changed, ended = core.change_rule(engine, rule.id, "edited", words=words, reach=reach, session=session)
    names = {"rule": "rule", "trigger": "trigger", "why": "reason"}
    details = [
        f"{names[name]}: {changed.body[name] or 'none'} (before: {rule.body[name] or 'none'})"
        for name in words
        if changed.body[name] != rule.body[name]
    ]
    if changed.body["reach"] != rule.body["reach"]:
        details.append(f"reach: {changed.body['reach']} (before: {rule.body['reach']})")
    return context.report_change("Changed", changed, ended, details)


def _state_instead(
    engine: Engine, copy: Record, words: dict[str, str], reach: Reach, session: str
) -> tuple[Record, list[Record]]:
    """State a rule of one's own in place of a copy of a team's rule, whose words stay the team's."""
    if "rule" not in words:
        raise ValidationError("this rule is the team's; to make it yours, say it in your own words: pass --rule TEXT")
    texts = {name: words.get(name, copy.body[name]) for name in ("rule", "trigger", "why")}
    core.check_lengths(texts)
    prefer, avoid = find_choice(texts["rule"])
    id = f"note:{uuid.uuid4().hex}"
    note = Teaching(id, reach=reach, source=RuleSource.NOTE, said=texts["rule"], at=now(), **texts)
    note = note._replace(prefer=prefer, avoid=avoid, session=session, supersedes=(copy.id,))
    [taught] = core.teach(engine, [note])
    # A note by a person is never refused.
    assert taught.record is not None
    return taught.record, engine.store.get(list(taught.replaced))


def _read_stories(context: CommandContext) -> Iterator[CodingSession]:
    """Yield the sessions that were recorded in this project: first the current one, then the newest."""
    own = context.data_dir.journal_file(context.session)
    paths = sorted(list_own_files(context.data_dir, ".jsonl"), key=lambda path: (path != own, -os.path.getmtime(path)))
    journals = filter(None, (drains.read_journal(context.data_dir, path) for path in paths))
    return (one.story for one in journals if one.story.project == context.project)


def _list_sessions(context: CommandContext) -> str:
    """Return the ids of the last sessions that were recorded in this project, newest first."""
    ids = [story.session for story in islice(_read_stories(context), _SESSIONS)]
    return f"The last sessions here: {', '.join(ids)}" if ids else "No session was recorded here yet"


def restore(args: Namespace, context: CommandContext) -> Answer:
    """Bring back a replaced, rejected or archived rule, or undo the last change of an active one."""
    require_person("`claude-smart restore`")
    name = " ".join(args.what)
    end = name.strip("[]# ").lower()
    with context.engine() as engine:
        # Words match inactive rules first. The last change of an active rule is undone.
        rules, is_id = find_rules(engine), len(end) >= 4
        try:
            rule = pick_rule([one for one in rules if one.status not in LIVE or (is_id and one.id.endswith(end))], name)
        except NotFoundError:
            rule = pick_rule(rules, name)
        ended = core.find_ended(Transaction(engine), rule, rule.superseded_by) if rule.status not in LIVE else []
        wide = [one for one in ended if one.project == EVERYWHERE and rule.project != EVERYWHERE]
        if wide and not args.yes:
            raise ValidationError(
                f"[{short_id(wide[0].id)}] {wide[0].body['rule']!r} applies in all projects and contradicts it; "
                "pass --yes to replace it everywhere, or forget it first"
            )
        restored, replaced = core.restore_rule(engine, rule.id)
    verb, undo, details = "Restored" if restored.status in LIVE else "Put away again", "Undo", list[str]()
    if rule.status in LIVE and restored.status in LIVE:
        undo = "Redo the change that was undone"
        details = [f"Restore goes one step back. Earlier versions: claude-smart show {short_id(rule.id)}"]
    return context.report_change(verb, restored, replaced, details, undo)


def forget(args: Namespace, context: CommandContext) -> Answer:
    """Archive a rule; with --everything, erase it with the sentence it was learned from."""
    require_person("`claude-smart forget`")
    with context.memory() as memory:
        engine = memory.engine(context.project)
        rules = find_rules(engine, *(() if args.everything else LIVE))
        rule = pick_rule([*rules, *find_observations(engine)], " ".join(args.what))
        answer: Answer = {"forgotten": [rule_to_dict(rule)]}
        if rule.kind == OBSERVATION:
            erase_memory(replace(engine, project=rule.project), rule)
            context.print_lines(f"Erased: {plain_line(rule)}")
        elif args.everything:
            quotes = core.find_quotes(rule)
            with lock_file(context.data_dir.drain_lock, PATIENCE):
                # Without the lock, a running drain could store the sentence again.
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
            context.print_lines(f"{INDENT}Erase it for good, with the sentence it was learned from: {how}")
    return answer


# -- learn, tag

_READING_SECONDS = 30.0
"""The host stops a slash command after a minute."""
_RECENT = timedelta(hours=24)
_MOST_RECENT = 5
_NOT_ASKED = (
    "{title} was not asked, because it is off. Only explicit corrections are recognized. Let {title} find the others:"
    " claude-smart config model on"
)
_TITLES = {
    "repeated": "Active again",
    "confirmed": "Confirmed",
    "promoted": "Now reaches further",
}


def learn(args: Namespace, context: CommandContext) -> Answer:
    """Import recorded sessions, store a note, or propose rules from old transcripts."""
    if args.from_history:
        return _learn_from_history(args, context)
    if args.here:
        raise ValidationError("type /learn --here in a session: then the agent that you talk to there reads")
    if args.note:
        return tag(args, context)
    repository = str(find_repository(Path(context.folder)))
    if is_aider := os.path.isfile(os.path.join(repository, aider.RULES)):
        aider.import_history(context.data_dir, repository, is_person=not is_run_by_agent())
    report = drains.drain(context.data_dir, wait=PATIENCE)
    away = ""
    if not is_run_by_agent():
        with drains.ProjectMemories(context.data_dir) as memory:
            away = sync_team(context.data_dir, memory, context.project)
    reading = drains.ReadingReport(title=name_reader(read_settings(context.data_dir)))
    is_read = is_model_allowed(context.data_dir) and os.path.exists(context.data_dir.db)
    if is_read:
        # The model reads this session; outside of a session, all that are waiting.
        timeout = _READING_SECONDS if context.session else None
        with context.memory() as memory:
            reading = drains.read_sessions(
                context.data_dir, memory, session=context.session, is_urgent=True, timeout=timeout
            )
    if is_aider:
        aider.write_rules(context.data_dir, repository)
    if report.busy:
        context.print_lines("Another process is importing sessions; try again in a moment.")
    elif not report.sessions:
        context.print_lines(describe_pause(context) or "No new turns since the last import.")
    else:
        context.print_lines(
            f"Imported {count_noun(report.turns, 'turn')} from {count_noun(report.sessions, 'session')}."
        )
    # The rules that both readers learned, each in its current form.
    refined, archived = ({one.id: one for one in records} for records in (reading.refined, reading.archived))
    current = [one for one in report.taught if one.record is None or one.record.id not in archived]
    lessons = [one._replace(record=one.record and refined.get(one.record.id, one.record)) for one in current]
    lessons += reading.taught
    values = _report_learned(context, lessons)
    for one in report.observed:
        if one.status is Status.ACTIVE:
            context.print_lines(f"- Observed: {plain_line(one)} [{short_id(one.id)}]")
    if is_read:
        _report_reading(context, reading, {one.record.id for one in lessons if one.record})
    is_nothing_new = not report.busy and not any(one.record for one in lessons) and not reading.refined
    recent = _list_recent(context) if is_nothing_new else []
    if is_nothing_new and not recent and (report.sessions or is_read):
        context.print_lines("No rules found.")
    if report.sessions and not is_read:
        context.print_lines(_NOT_ASKED.format(title=name_reader(read_settings(context.data_dir))))
    _report_excerpts(context)
    if not is_run_by_agent():
        printed_rules = [one.record for one in lessons if one.record] + reading.refined
        printed_ids = [rule.id for rule in printed_rules] + [str(value["id"]) for value in recent]
        drop_noted(context.data_dir, context.project, printed_ids)
    if report.waiting:
        context.print_lines("A prompt is not in the agent's transcript yet; it is imported in a moment.")
    for problem in [*report.problems, *([f"the team's server is away: {away}"] if away else [])]:
        context.print_lines(f"! {problem}")
    context.exit_code = int(report.busy or bool(report.problems))
    changed = {"refined": reading.refined, "archived": reading.archived, "observed": report.observed}
    return {
        **{name: getattr(report, name) for name in ("sessions", "turns", "busy", "problems")},
        "learned": values,
        "recent": recent,
        **{name: [rule_to_dict(one) for one in records] for name, records in changed.items()},
        "read": {name: getattr(reading, name) for name in ("turns", "dropped", "problem")} if is_read else None,
    }


def _report_learned(context: CommandContext, lessons: Sequence[core.Taught]) -> list[Answer]:
    """Print each new rule as it is shown to the agent, its state, and how to undo it; return them as JSON values.

    "Learned" is only what the next session gets.
    """
    host_rules = read_host_rules(context.folder, with_agents=reads_agents_md(default=True)) if lessons else set()
    for one in lessons:
        if one.record is None:
            context.print_lines(f"- Not learned, because you erased this rule before: {one.teaching.rule}")
            continue
        body, name = one.record.body, short_id(one.record.id)
        before = read_last_change(context, one.record) if one.verb in ("repeated", "promoted") else {}
        was_active = one.verb == "known" or before.get("status") == Status.ACTIVE
        if one.record.status is Status.ACTIVE and was_active and one.verb != "promoted":
            title, state = "Already a rule", describe_rule(one.record).partition("] ")[2]
        elif one.record.status is Status.ACTIVE and one.record.session:
            is_here = one.record.session == context.session
            title = "Kept for this session" if is_here else f"Kept for session {one.record.session}"
            keep, undo = f"edit {name} --reach project", f"forget {name}"
            state = f"later sessions do not get it; keep it: claude-smart {keep}. Undo: claude-smart {undo}"
        elif one.record.status is Status.ACTIVE and normalise_item(body["rule"]) in host_rules:
            title = "Already in CLAUDE.md or AGENTS.md"
            state = (
                f"reach {body['reach']}, stored, and not shown to Claude Code twice. Undo: claude-smart forget {name}"
            )
        elif one.record.status is Status.ACTIVE:
            title = _TITLES.get(one.verb, "Learned")
            is_wider = was_active and before.get("reach") in LASTING
            undo = f"edit {name} --reach {before['reach']}" if is_wider else f"forget {name}"
            state = f"reach {body['reach']}, active from now on. Undo: claude-smart {undo}"
        elif one.record.status is Status.CANDIDATE:
            title = "Waits for your review"
            how = f"`claude-smart review --accept {name}` or `claude-smart review --reject {name}`"
            state = f"reach {body['reach']}, not active yet; decide with {how}"
        else:
            title, state = "Repeated, but archived", f"bring it back: claude-smart restore {name}"
        context.print_lines(f"- {title}: {body['line']}\n{INDENT}[{name}] {state}")
        context.print_lines(
            *(f"{INDENT}It replaces [{id[-8:]}]. Undo: claude-smart restore {id[-8:]}" for id in one.replaced)
        )
    return [
        {"verb": one.verb, "rule": one.record and rule_to_dict(one.record), "replaced": list(one.replaced)}
        for one in lessons
    ]


def report_lessons(context: CommandContext, lessons: Sequence[core.Taught]) -> list[Answer]:
    """Print what was learned, as `learn` does; return it as JSON values."""
    return _report_learned(context, lessons)


def read_last_change(context: CommandContext, record: Record) -> Answer:
    """Return the status and reach that a rule had before its last change; empty if it never changed."""
    with context.engine() as engine:
        history = Transaction(engine).read_history(record.id)
    return dict(history[-1].body["before"]) if history else {}


def _list_recent(context: CommandContext) -> list[Answer]:
    """Print the rules that were learned in this project lately, newest first; return them as JSON values."""
    since = now() - _RECENT
    with context.memory_if_any() as memory:
        rules = find_own_rules(memory.engine(context.project), *LIVE) if memory else []
    recent = [one for one in reversed(rules) if one.created_at >= since][:_MOST_RECENT]
    if recent:
        context.print_lines("No new rules. From the last 24 hours:")
    for one in recent:
        state = "waits for your review, said"
        if one.status is Status.ACTIVE:
            state = "kept for one session," if one.session else "learned"
        age = _describe_age(now() - one.created_at)
        context.print_lines(f"- {plain_line(one)}\n{INDENT}[{short_id(one.id)}] {state} {age}")
    return [rule_to_dict(one) for one in recent]


def _report_excerpts(context: CommandContext) -> None:
    """Print how many turns of the last day no rule was made of, and that later sessions are shown as excerpts."""
    if read_settings(context.data_dir)["evidence"] != "on" or not os.path.exists(context.data_dir.db):
        return
    with context.engine() as engine:
        where = Where(
            kinds={EXCHANGE}, projects={engine.project}, statuses={Status.ACTIVE}, created_from=now() - _RECENT
        )
        covered = {turn for rule in find_own_rules(engine, *LIVE) for turn in core.list_turns(rule)}
        excerpts = [
            one
            for one in engine.store.scan(where)
            if one.body["likely"] >= LEAST_LIKELY and one.body["turn"] not in covered
        ]
    if excerpts:
        kept = "1 turn is kept as an excerpt" if len(excerpts) == 1 else f"{len(excerpts)} turns are kept as excerpts"
        context.print_lines(f"{kept}, which a later session may be shown: claude-smart show --evidence")


def _describe_age(age: timedelta) -> str:
    """Return how long ago something was, such as "2 minutes ago"."""
    minutes = int(age.total_seconds() // 60)
    if minutes < 1:
        return "just now"
    return f"{count_noun(minutes, 'minute') if minutes < 60 else count_noun(minutes // 60, 'hour')} ago"


def _report_reading(context: CommandContext, reading: drains.ReadingReport, printed_ids: set[str]) -> None:
    """Print what the model did with rules that were not printed yet, or why it did nothing."""
    for one in reading.refined:
        if one.id not in printed_ids:
            context.print_lines(f"- Reworded: {plain_line(one)} [{short_id(one.id)}]")
    for one in reading.archived:
        restore_hint = f"Undo: claude-smart restore {short_id(one.id)}"
        context.print_lines(f"- Archived, not a rule after all: {plain_line(one)}\n{INDENT}{restore_hint}")
    if reading.turns:
        is_empty = not (reading.taught or reading.refined or reading.archived or reading.dropped)
        found = " and found no rule in them" if is_empty else ""
        context.print_lines(f"{reading.title} read {count_noun(reading.turns, 'turn')}{found}.")
    if reading.dropped:
        context.print_lines(f"Proposals dropped by the checks: {drains.describe_dropped(reading.dropped)}.")
    if reading.problem:
        context.print_lines(
            f"{reading.title} could not read the session: {reading.problem}. It will be retried; "
            "rules found locally are stored."
        )
    elif not reading.sessions:
        context.print_lines(f"{reading.title} had nothing to read: no new turn looks like a correction.")


def tag(args: Namespace, context: CommandContext) -> Answer:
    """Store a note as a rule, verbatim; without a note, the person's last message, which waits unless it is a rule."""
    is_statement = True
    if args.note:
        # A terminal may pass bytes that are not valid text.
        rule = words = remove_private(" ".join(args.note).encode("utf-8", "replace").decode()).strip()
        if not words:
            raise ValidationError("the note is empty; pass the rule as text: claude-smart tag NOTE")
    else:
        turns = (story.user_turns[-1] for story in _read_stories(context) if story.user_turns)
        words = next((turn.user_words for turn in turns), "")
        if not words:
            raise ValidationError(
                "no turn was recorded in this project yet; pass the rule as text: claude-smart tag NOTE"
            )
        rule = word_rule(words)
        is_statement = read_turn(words) is not None
    prefer, avoid = find_choice(rule)
    reach, objection = Reach.ALWAYS if args.everywhere else Reach.PROJECT, find_objection()
    note = Teaching(f"note:{uuid.uuid4().hex}", rule, reach, RuleSource.NOTE, said=words, at=now())
    # A request, such as "install the packages", is no rule because it was the last message.
    is_sure = is_statement and not objection
    note = note._replace(prefer=prefer, avoid=avoid, session=context.session, sure=is_sure)
    if objection:
        note = note._replace(metadata={"doubt": objection})
    with context.engine() as engine:
        lessons = core.teach(engine, [note])
    if objection:
        context.print_lines(f"Not stored as a rule, because a person has to decide: {objection}.")
    elif not is_statement:
        context.print_lines("Your last message does not say that it is a rule, so it waits for you:")
    return {"learned": _report_learned(context, lessons)}


def _learn_from_history(args: Namespace, context: CommandContext) -> Answer:
    """Propose rules from the transcripts that Claude Code keeps. Runs offline; the rules become candidates."""
    environ = build_environment(context.data_dir)
    folder = args.folder or environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    if not os.path.isdir(os.path.join(folder, "projects")):
        raise NotFoundError(
            f"{folder} has no transcripts (no folder `projects` in it); pass the Claude folder: --folder DIR"
        )
    oldest = 0.0 if args.days is None else time.time() - args.days * 86_400.0
    sessions = turns = recorded = 0
    transcripts = list(list_transcripts(folder))
    recent = [one for one in transcripts if one.modified >= oldest]
    proposed: dict[str, list[Record]] = {}
    with context.memory() as memory:
        for file in recent:
            # Skip sessions that were recorded live: they are already imported.
            if find_mark(memory.engine(EVERYWHERE), file.session).offset:
                recorded += 1
                continue
            with open(file.path, "rb") as lines:
                events = list(read_transcript(read_lines(lines)))
            # Secrets are removed when it is stored.
            story = build_session([replace(event, data=map_texts(event.data, remove_private)) for event in events])
            sessions, turns = sessions + 1, turns + len(story.turns)
            project = find_copy(context.data_dir, locate_project(file.cwd), remember=False).key
            # Old statements become candidates until a person accepts or repeats them.
            lasting = [one._replace(sure=False) for one in find_teachings(story, 0) if one.reach in LASTING]
            lessons = (
                [one for one in core.teach(memory.engine(project), lasting) if one.verb != "known"] if lasting else []
            )
            proposed.setdefault(project, []).extend(one.record for one in lessons if one.record)
    context.print_lines(f"Read {count_noun(sessions, 'session')} with {count_noun(turns, 'turn')}.")
    if recorded:
        context.print_lines(f"Skipped, because they were recorded live: {count_noun(recorded, 'session')}.")
    if len(recent) < len(transcripts):
        older = count_noun(len(transcripts) - len(recent), "session")
        context.print_lines(f"Skipped, because they are older than --days {args.days:g}: {older}.")
    if not transcripts:
        context.print_lines(f"There are no transcripts below {folder}/projects; another folder: --folder DIR")
    values = [one for project, rules in proposed.items() for one in context.list_rules(project, rules)]
    waiting = "\nThese are candidates. None is used until you accept it: claude-smart review"
    context.print_lines(waiting if values else "No rules found.")
    return {"sessions": sessions, "turns": turns, "proposed": values}
