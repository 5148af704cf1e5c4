"""`claude-smart`: the commands of the plug-in."""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alma import __version__, jsonc
from alma.engine.context import Engine
from alma.engine.observations import OBSERVATION, count_times
from alma.engine.rules import is_old_fix
from alma.errors import ALMAError, ConfigError, NotFoundError, ValidationError, unknown
from alma.files import lock_file, read_content
from alma.hooks.drain import ProjectMemories
from alma.hooks.inject import UnreadableStoreError
from alma.hooks.journal import ask_worker
from alma.hooks.paths import DataDir, NoHomeError, find_data_dir
from alma.hooks.project import clean_path, find_project, locate_project, read_copies
from alma.text import stems
from alma.types.kinds import MemoryType
from alma.types.query import Where
from alma.types.record import LIVE, Record, Status
from alma.types.rules import EVERYWHERE

COMMANDS = {
    "install": ("install.install", "install the plug-in in Claude Code; shows what it changes, and asks"),
    "uninstall": ("install.install", "take the plug-in out again; what was learned stays"),
    "update": ("install.install", "bring the installed plug-in to this version"),
    "doctor": ("install.doctor", "prove on this machine that a correction is recorded, learned and shown again"),
    "show": ("rules.show", "what is known for this project: rules, what waits for review, observations"),
    "learn": ("rules.learn", "take in now what was recorded; with a note: keep it as a rule"),
    "tag": ("rules.tag", "keep a note as a rule, as written; without one, what was said last"),
    "review": ("rules.review", "decide about what might be a rule; at a terminal, one after the other"),
    "edit": ("rules.edit", "change the words or the reach of a rule"),
    "restore": ("rules.restore", "bring back a rule that is gone, or undo the last change of one"),
    "forget": ("rules.forget", "put a rule away: by its id, the end of it, or its words"),
    "project": ("data.project", "which project this folder belongs to; answer where that is in doubt"),
    "status": ("data.status", "what is kept, and whether it is learning"),
    "usage": ("data.usage", "what the model was asked for, if it was allowed"),
    "pause": ("data.pause", "record and show nothing in this project"),
    "resume": ("data.pause", "go on recording and showing"),
    "config": ("data.config", "show or change a setting"),
    "export": ("data.export", "write the rules as JSON lines, or into CLAUDE.md, AGENTS.md, …"),
    "import": ("data.import_", "take in rules from JSON lines, or what was edited in CLAUDE.md, AGENTS.md, …"),
    "clear-all": ("data.clear_all", "erase what was learned and recorded in this project"),
}
"""Each command: the function that runs it, and its help."""

_ALL = " ".join(COMMANDS)
OPTIONS = (
    (_ALL, "--json", "for programs"),
    (_ALL, "--project KEY", "another project than the one of this folder"),
    ("clear-all", "--everywhere", "of all projects"),
    ("install uninstall update clear-all", "--yes", "do not ask"),
    ("install uninstall update", "--dry-run", "only show what would change"),
    (
        "install",
        "--model",
        "whether Claude may read your corrections (`claude -p`, within a daily limit); asked if left out",
    ),
    ("uninstall", "--purge", "erase what was learned and recorded, too"),
    ("show", "what:RULE*", "one rule (an id or its words) with its history"),
    ("show", "--all", "also rules of other sessions, and replaced or archived ones"),
    ("show", "--playbook", "the Markdown that a session starts with"),
    ("show", "--session ID", "with the rules of this session"),
    ("learn tag", "note:NOTE*", None),
    ("learn tag", "--everywhere", "the rule holds in all projects"),
    ("learn", "--from-history", "propose rules from existing Claude Code transcripts"),
    ("learn", "--folder DIR", "the Claude folder (default: $CLAUDE_CONFIG_DIR or ~/.claude)"),
    ("learn", "--days N", "only transcripts changed in the last N days"),
    ("review", "--accept ID+", None),
    ("review", "--reject ID+", None),
    ("review", "--accept-all", None),
    ("review", "--reject-all", None),
    ("review", "--everywhere", "what is accepted holds in all projects"),
    ("edit", "what:RULE+", "an id, the end of one, or words of the rule"),
    ("edit", "--rule TEXT", "what to do"),
    ("edit", "--trigger TEXT", "when it applies, such as 'running tests'; '' for always"),
    ("edit", "--reason TEXT", "why"),
    ("edit", "--reach once|session|project|always", "how far it goes"),
    ("edit", "--session ID", "the session of a rule with reach once or session"),
    ("restore forget", "what:RULE+", None),
    ("restore", "--yes", "also if that replaces a rule of all projects"),
    ("forget", "--everything", "erase it for good, with the recorded sentence that it came from"),
    ("project", "--share KEY", "share the rules of this project"),
    ("project", "--separate", "keep this folder a project of its own"),
    ("pause resume", "--everywhere", "in all projects"),
    ("config", "name:NAME?", None),
    ("config", "value:VALUE?", None),
    ("export", "file:FILE?", "a name that ends in .md: a marked block in that file"),
    ("export", "--everywhere", "into a .md file also the rules of all projects"),
    ("export", "--remove", "take the block out of a .md file again"),
    ("export", "--force", "overwrite what was edited in the block and not imported"),
    ("export", "--dry-run", "only show how a .md file would change"),
    ("import", "file:FILE", None),
    ("import", "--all", "also the items of lists outside the block of a .md file"),
    ("import", "--retire", "archive rules whose items were removed"),
    ("import", "--prefer file|memory", "who is right where both changed"),
    ("import", "--dry-run", "only show what a .md file would change"),
)
"""Each option or argument: the commands that have it, how it is written, and its help.

`--flag`, `--option VALUE` or `name:ARGUMENT`; `*`, `+` and `?` say how many, `a|b` are the choices, N is a number.
"""


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="claude-smart", description="Correct your coding agent once: it learns rules from your corrections."
    )
    root.add_argument("--version", action="version", version=f"claude-smart {__version__}")
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command, (_, help) in COMMANDS.items():
        one = commands.add_parser(command, help=help, description=help)
        for names, notation, meaning in OPTIONS:
            if command not in names.split():
                continue
            name, _, value = notation.partition(" " if notation.startswith("--") else ":")
            settings: dict[str, Any] = {"metavar": value.rstrip("*+?"), "type": int if value == "N" else str}
            if not value:
                settings = {"action": argparse.BooleanOptionalAction if name == "--model" else "store_true"}
            elif "|" in value:
                settings = {"choices": tuple(value.split("|"))}
            elif value[-1] in "*+?":
                settings |= {"nargs": value[-1], "default": None if value[-1] == "?" else []}
            one.add_argument(name, help=meaning, **settings)
    return root


def separate_note(arguments: Sequence[str]) -> list[str]:
    """Put `--` before the note of `learn` and `tag`, so that a note may begin with `--` or hold an option's name."""
    command, *rest = arguments or [""]
    if command not in ("learn", "tag") or {"-h", "--help"} & set(rest):
        return list(arguments)
    known = dict(option.partition(" ")[::2] for names, option, _ in OPTIONS if "learn" in names.split())
    options, note = [command], []
    while rest:
        word = rest.pop(0)
        if word == "--":
            note += rest
            break
        if word.partition("=")[0] not in known:
            note.append(word)
            continue
        options.append(word)
        if known.get(word) and rest:
            options.append(rest.pop(0))
    return [*options, "--", *note] if note else options


def own_words(error: Exception) -> str:
    """Return what went wrong. The store names its own program, which is not the one that a person has here."""
    return str(error).replace("`alma doctor`", "`claude-smart doctor`").replace("alma rules ", "claude-smart ")


def main(arguments: Sequence[str] | None = None) -> int:
    root, words = parser(), separate_note(sys.argv[1:] if arguments is None else arguments)
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        root.error(unknown("command", words[0], COMMANDS))
    args = root.parse_args(words)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a sign shows another in its place.
            stream.reconfigure(errors="replace")
    module, _, function = COMMANDS[args.command][0].rpartition(".")
    try:
        run = getattr(importlib.import_module(f"claude_smart.{module}"), function)
        desk = open_desk(args.json, args.project)
        answer = run(args, desk)
        if args.json:
            print(json.dumps(answer, indent=2))
        sys.stdout.flush()
        return desk.exit_code
    except (ALMAError, NoHomeError, UnreadableStoreError) as error:
        reason = own_words(error)
    except BrokenPipeError:
        # The reader of the output has closed it; what Python still writes at its end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    except (EOFError, KeyboardInterrupt):
        return 130
    print(f"claude-smart: {reason}", file=sys.stderr)
    return 1


# -- what the commands work with: the place, the project they were called in, the store, and the rules in it

PATIENCE = 20.0
"""So many seconds a command waits for another process that takes in what was recorded."""
_STOP_SECONDS = 3.0
INDENT = "    "
Answer = dict[str, Any]
"""What a command returns for programs; what people read it says itself."""


@dataclass
class Desk:
    place: DataDir
    project: str
    session: str
    folder: str
    as_json: bool = False
    exit_code: int = 0

    def say(self, *lines: str) -> None:
        """Print lines for people; programs get what the command returns."""
        for line in () if self.as_json else lines:
            print(line)

    def list_rules(self, heading: str, records: Sequence[Record]) -> list[Answer]:
        """Say which rules there are; return them as JSON values."""
        if records:
            self.say(f"\n{heading}\n")
        for one in records:
            self.say(f"- {one.body['line']}\n{INDENT}{describe_rule(one)}")
            if one.status is Status.CANDIDATE and one.body.get("said"):
                self.say(f"{INDENT}from: {one.body['said']}")
        return plain_rules(records)

    def report_change(self, verb: str, rule: Record, ended: Sequence[Record] = ()) -> Answer:
        """Say what was done to a rule, which rules it replaces, and how to undo it; return the same."""
        self.say(f"{verb}: {rule.body['line']}\n{INDENT}{describe_rule(rule)}")
        self.say(*(f"{INDENT}It replaces: {one.body['rule']} [{short_id(one.id)}]" for one in ended))
        self.say(f"{INDENT}Undo: claude-smart restore {short_id(rule.id)}")
        return {verb.lower(): plain_rule(rule), "replaced": [one.id for one in ended]}

    def memory(self) -> ProjectMemories:
        """Open the store. Something may be stored now, so the working copy is remembered."""
        find_project(self.place, locate_project(self.folder))
        return ProjectMemories(self.place)

    @contextmanager
    def memory_if_any(self) -> Iterator[ProjectMemories | None]:
        """Open the store; None where nothing was stored yet."""
        with self.memory() if os.path.exists(self.place.db) else nullcontext() as memory:
            yield memory

    @contextmanager
    def engine(self) -> Iterator[Engine]:
        """Open the store for the rules of this project."""
        with self.memory() as memory:
            yield memory.engine(self.project)

    def lock_drain(self) -> AbstractContextManager[None]:
        """Keep others from taking anything in meanwhile: what is half read would come back after it was erased."""
        return lock_file(self.place.drain_lock, PATIENCE)


def open_desk(as_json: bool = False, project: str | None = None) -> Desk:
    """Find the place and the project of this folder, without changing anything."""
    place = find_data_dir(os.environ)
    try:
        here = clean_path(os.environ.get("CLAUDE_PROJECT_DIR") or os.getcwd())
    except FileNotFoundError:
        raise ConfigError("the folder you are in was removed; go to another one") from None
    key = find_project(place, locate_project(here), remember=False)
    if project not in (None, key):
        require_project(place, str(project))
    return Desk(place, project or key, os.environ.get("CLAUDE_CODE_SESSION_ID", ""), here, as_json)


def require_project(place: DataDir, key: str) -> None:
    """Refuse a project that has neither a working copy nor anything stored."""
    known = {copy.key for copy in read_copies(place)}
    if key not in known and os.path.exists(place.db):
        with ProjectMemories(place) as memory:
            known |= {one.project for one in memory.alma.engine.store.scan(Where(projects={key}), 1)}
    if key not in known:
        raise NotFoundError(f"there is no project {key!r}. Known: {', '.join(sorted(known)) or 'none'}")


def is_run_by_agent() -> bool:
    """Whether an agent runs this command in its own shell; its slash commands come by way of the journal."""
    return os.environ.get("CLAUDECODE") == "1" and not os.isatty(0)


def require_person(doing: str) -> None:
    """Refuse what only a person may decide, where an agent runs the command."""
    if is_run_by_agent():
        raise ValidationError(f"{doing} is for a person to decide, and an agent runs this: run it in a terminal")


def ask_yes(question: str) -> bool:
    return input(question).strip().lower() in ("y", "yes")


def stop_worker(place: DataDir) -> None:
    """End the worker: it would write into what is about to go."""
    if ask_worker(place, {"op": "stop"}, 1.0) is not None:
        deadline = time.monotonic() + _STOP_SECONDS
        while os.path.exists(place.worker) and time.monotonic() < deadline:
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
    return [one for one in engine.store.scan(where) if not is_old_fix(one)][::-1]


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


def plain_rule(record: Record) -> Answer:
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


def plain_rules(records: Iterable[Record]) -> list[Answer]:
    return [plain_rule(one) for one in records]


def describe_rule(record: Record) -> str:
    """Return what a person needs to judge a rule: id, reach, date, and how often it was repeated and followed."""
    value, day = plain_rule(record), f"{record.created_at:%Y-%m-%d}"
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
