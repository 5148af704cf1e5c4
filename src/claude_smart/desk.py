"""What the commands work with: the place, the project they were called in, the store, and the rules in it."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

from alma.engine.context import Engine
from alma.engine.observations import OBSERVATION, count_times
from alma.engine.rules import is_old_fix
from alma.errors import BusyError, ConfigError, NotFoundError, ValidationError
from alma.files import try_lock
from alma.hooks.drain import ProjectMemories
from alma.hooks.paths import DataDir, NoHomeError, find_data_dir
from alma.hooks.project import clean_path, find_project, locate_project
from alma.hooks.wake import ask_worker
from alma.text import stems
from alma.types.kinds import MemoryType
from alma.types.query import Where
from alma.types.record import LIVE, Record, Status
from alma.types.rules import EVERYWHERE

PATIENCE = 20.0
"""So many seconds a command waits for another process that takes in what was recorded."""
_STOP_SECONDS = 3.0
INDENT = "    "


@dataclass(frozen=True, slots=True)
class Desk:
    place: DataDir
    project: str
    session: str
    as_json: bool
    out: TextIO
    folder: str = ""

    def say(self, text: str = "") -> None:
        """Print a line for people; programs read what `tell` prints."""
        if not self.as_json:
            print(text, file=self.out)

    def tell(self, value: Mapping[str, Any]) -> None:
        """Print the answer for programs."""
        if self.as_json:
            plain = (getattr(self.out, "encoding", None) or "utf-8").lower().replace("-", "") != "utf8"
            print(json.dumps(value, ensure_ascii=plain, indent=2), file=self.out)

    @contextmanager
    def memory(self) -> Iterator[ProjectMemories]:
        """Open the store. Where something may be stored, the working copy is remembered."""
        if self.folder:
            find_project(self.place, locate_project(self.folder))
        with ProjectMemories(self.place) as opened:
            yield opened

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep others from taking anything in meanwhile: what is half read would come back after it was erased."""
        lock = try_lock(self.place.drain_lock, PATIENCE)
        if lock is None:
            raise BusyError("another process is taking in what was recorded; try again in a moment")
        with lock:
            yield

    @contextmanager
    def engine(self) -> Iterator[Engine]:
        """Open the store for the rules of this project."""
        with self.memory() as memory:
            yield memory.engine(self.project)


def open_desk(as_json: bool = False, project: str | None = None) -> Desk:
    """Find the place and the project of this folder, without changing anything."""
    try:
        place = find_data_dir(os.environ)
        here = clean_path(os.environ.get("CLAUDE_PROJECT_DIR") or os.getcwd())
    except NoHomeError as error:
        raise ConfigError(str(error)) from error
    except FileNotFoundError:
        raise ConfigError("the folder you are in was removed; go to another one") from None
    session = os.environ.get("CLAUDE_CODE_SESSION_ID", "")
    key = find_project(place, locate_project(here), remember=False)
    return Desk(place, project or key, session, as_json, sys.stdout, here)


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
    if ask_worker(place, {"op": "stop"}, 1.0) is None:
        return
    deadline = time.monotonic() + _STOP_SECONDS
    while os.path.exists(place.worker) and time.monotonic() < deadline:
        time.sleep(0.05)


# -- rules: which there are, and how they are described


def find_rules(engine: Engine, *statuses: Status) -> list[Record]:
    """Return the rules of the project and those of all projects, oldest first."""
    where = Where(kinds={MemoryType.RULE}, projects={engine.project, EVERYWHERE}, statuses=statuses or None)
    return [one for one in engine.store.scan(where) if not is_old_fix(one)][::-1]


def find_observations(engine: Engine) -> list[Record]:
    """Return what agents did in this project that failed and then worked, oldest first."""
    where = Where(kinds={OBSERVATION}, projects={engine.project}, statuses={Status.ACTIVE, Status.CANDIDATE})
    return list(engine.store.scan(where))[::-1]


def pick_rule(records: Sequence[Record], name: str) -> Record:
    """Return the one rule that an id, the end of one, or words mean."""
    wanted = name.strip().strip("[]#").lower()
    if not wanted:
        raise ValidationError("say which rule: its id, the end of it, or words that are in it")
    texts = {one.id: str(one.body["rule" if one.kind == MemoryType.RULE else "line"]) for one in records}
    meant = [one for one in records if one.id == wanted or (len(wanted) >= 4 and one.id.endswith(wanted))]
    meant = meant or [one for one in records if wanted in texts[one.id].lower()]
    if not meant and (asked := stems(wanted)):
        meant = [one for one in records if asked <= stems(one.text)]
    if not meant:
        raise NotFoundError(f"no rule matches {name!r}; `claude-smart show` lists the rules with their ids")
    if len(meant) > 1:
        listed = "\n".join(f"  [{short_id(one.id)}] {texts[one.id]}" for one in meant[:10])
        raise ValidationError(f"{len(meant)} rules could be meant by {name!r}; name one by its id:\n{listed}")
    return meant[0]


def short_id(record_id: str) -> str:
    """Return enough of an id to name it: its end, because the beginning is the time it was made."""
    return record_id[-8:]


def count_noun(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def count_repeats(record: Record) -> int:
    return int(record.body.get("metadata", {}).get("repeats", 0))


def plain_rule(record: Record) -> dict[str, Any]:
    """Return a rule as JSON values."""
    return {
        "id": record.id,
        **{name: record.body[name] for name in ("rule", "trigger", "why", "reach", "source", "said")},
        "prefer": list(record.body["prefer"]),
        "avoid": list(record.body["avoid"]),
        "status": str(record.status),
        "project": record.project,
        "session": record.session,
        "followed": record.evidence.successes,
        "violated": record.evidence.failures,
        "repeats": count_repeats(record),
        "created_at": record.created_at.isoformat(),
    }


def plain_observation(record: Record) -> dict[str, Any]:
    names = ("failed", "worked", "failures", "successes", "concern")
    return {"id": record.id, "status": str(record.status), **{name: record.body[name] for name in names}}


def describe_rule(record: Record) -> str:
    """Return what a person needs to judge a rule: id, reach, date, and how often it was repeated and followed."""
    parts = [f"{record.created_at:%Y-%m-%d}"]
    if record.kind == OBSERVATION:
        if record.body["concern"]:
            parts.append(f"not shown: {record.body['concern']}")
        elif record.status is Status.CANDIDATE:
            parts.append("seen in one session only")
    else:
        seen = record.evidence
        counts = {"repeated": count_repeats(record), "followed": seen.successes, "violated": seen.failures}
        parts = [f"reach {record.body['reach']}", *parts]
        parts += [f"{verb} {count_times(number)}" for verb, number in counts.items() if number]
        if record.status is Status.SUPERSEDED:
            parts.append(f"replaced by [{short_id(record.superseded_by)}]")
        elif record.status not in LIVE:
            parts.append(str(record.status))
    return f"[{short_id(record.id)}] {', '.join(parts)}"


def say_rules(desk: Desk, heading: str, records: Sequence[Record]) -> None:
    if records:
        desk.say(f"\n{heading}\n")
    for one in records:
        desk.say(f"- {one.body['line']}\n{INDENT}{describe_rule(one)}")
        if one.status is Status.CANDIDATE and one.body.get("said"):
            desk.say(f"{INDENT}from: {one.body['said']}")
