"""What the commands work with: the place, the project they were called in, the store, and the rules in it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alma import jsonc
from alma.engine.context import Engine
from alma.engine.observations import OBSERVATION, count_times
from alma.engine.rules import is_old_fix
from alma.errors import ConfigError, NotFoundError, ValidationError
from alma.files import lock_file, read_content
from alma.hooks.drain import ProjectMemories
from alma.hooks.paths import DataDir, find_data_dir
from alma.hooks.project import clean_path, find_project, locate_project
from alma.hooks.wake import ask_worker
from alma.text import stems
from alma.types.kinds import EVERYWHERE, MemoryType
from alma.types.query import Where
from alma.types.record import LIVE, Record, Status

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
    return Desk(place, project or key, os.environ.get("CLAUDE_CODE_SESSION_ID", ""), here, as_json)


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
