"""What the commands work with: the place, the project they were called in, and the store when it is needed."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

from alma.engine.context import Engine
from alma.engine.observations import OBSERVATION
from alma.engine.rules import is_old_fix
from alma.errors import ALMAError, BusyError, ConfigError, NotFoundError, ValidationError
from alma.files import try_lock as held
from alma.hooks.drain import ProjectMemories as Memory
from alma.hooks.paths import DEFAULTS
from alma.hooks.paths import DataDir as Place
from alma.hooks.paths import NoHomeError as NoPlace
from alma.hooks.paths import check_setting as wrong
from alma.hooks.paths import find_data_dir as find
from alma.hooks.paths import read_settings as read
from alma.hooks.project import clean_path as writable
from alma.hooks.project import find_project
from alma.hooks.project import locate_project as locate
from alma.hooks.wake import ask_worker as ask
from alma.types.kinds import MemoryType
from alma.types.query import Where
from alma.types.record import Record, Status
from alma.types.rules import EVERYWHERE

SHORT = 8
PATIENCE = 20.0
"""So many seconds a command waits for another process that takes in what was recorded."""


@dataclass(frozen=True, slots=True)
class Desk:
    place: Place
    project: str
    session: str
    as_json: bool
    out: TextIO
    folder: str = ""

    def say(self, text: str = "") -> None:
        """For people; programs read what `tell` gives."""
        if not self.as_json:
            print(text, file=self.out)

    def tell(self, value: Mapping[str, Any]) -> None:
        if self.as_json:
            plain = (getattr(self.out, "encoding", None) or "utf-8").lower().replace("-", "") != "utf8"
            print(json.dumps(value, ensure_ascii=plain, indent=2), file=self.out)

    @contextmanager
    def memory(self) -> Iterator[Memory]:
        """Open the store. Where something may be stored, the working copy is remembered."""
        if self.folder:
            find_project(self.place, locate(self.folder))
        with Memory(self.place) as opened:
            yield opened

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep others from taking anything in meanwhile: what is half read would come back after it was erased."""
        lock = held(self.place.drain_lock, PATIENCE)
        if lock is None:
            raise BusyError("another process is taking in what was recorded; try again in a moment")
        with lock:
            yield

    def engine(self, memory: Memory) -> Engine:
        return memory.engine(self.project)


def desk(as_json: bool = False, project: str | None = None, folder: str | None = None) -> Desk:
    try:
        place = find(os.environ)
    except NoPlace as error:
        raise ConfigError(str(error)) from error
    here = writable(folder or os.environ.get("CLAUDE_PROJECT_DIR") or _folder())
    session = os.environ.get("CLAUDE_CODE_SESSION_ID", "")
    key = find_project(place, locate(here), remember=False)
    return Desk(place, project or key, session, as_json, sys.stdout, here)


def is_run_by_agent() -> bool:
    """Whether an agent runs this command in its own shell; its slash commands come by way of the journal."""
    return os.environ.get("CLAUDECODE") == "1" and not os.isatty(0)


def require_person(doing: str) -> None:
    """Refuse what only a person may decide, where an agent runs the command."""
    if is_run_by_agent():
        raise ValidationError(f"{doing} is for a person to decide, and an agent runs this: run it in a terminal")


def own_words(error: ALMAError) -> str:
    """What went wrong. The store speaks of its own program, which is not the one that a person has here."""
    return str(error).replace("`alma doctor`", "`claude-smart doctor`").replace("alma rules ", "claude-smart ")


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise ConfigError("the folder you are in was removed; go to another one") from None


def rules(engine: Engine, *statuses: Status, projects: frozenset[str] | None = None) -> list[Record]:
    """The rules of the project and those of all projects, oldest first."""
    where = Where(
        kinds={MemoryType.RULE},
        projects=projects or {engine.project, EVERYWHERE},
        statuses=statuses or None,
    )
    return [one for one in engine.store.scan(where) if not is_old_fix(one)][::-1]


def observations(engine: Engine) -> list[Record]:
    """What agents did in this project that failed and then worked, oldest first."""
    where = Where(kinds={OBSERVATION}, projects={engine.project}, statuses={Status.ACTIVE, Status.CANDIDATE})
    return list(engine.store.scan(where))[::-1]


def short(record_id: str) -> str:
    """Enough of an id to name it: its end, because the beginning is the time it was made."""
    return record_id[-SHORT:]


def named(found: list[Record], name: str) -> Record:
    """The one rule that an id, the end of one, or words mean."""
    wanted = name.strip().strip("[]#").lower()
    if not wanted:
        raise ValidationError("say which rule: its id, the end of it, or words that are in it")
    exact = [one for one in found if one.id == wanted or (len(wanted) >= 4 and one.id.endswith(wanted))]
    meant = exact or [one for one in found if wanted in _words(one).lower()] or _by_words(found, wanted)
    if not meant:
        raise NotFoundError(f"no rule matches {name!r}; `claude-smart show` lists the rules with their ids")
    if len(meant) > 1:
        listed = "\n".join(f"  [{short(one.id)}] {_words(one)}" for one in meant[:10])
        raise ValidationError(f"{len(meant)} rules could be meant by {name!r}; name one by its id:\n{listed}")
    return meant[0]


def _words(record: Record) -> str:
    return str(record.body["rule" if record.kind == MemoryType.RULE else "line"])


def _by_words(found: list[Record], wanted: str) -> list[Record]:
    from alma.text import stems

    asked = stems(wanted)
    return [one for one in found if asked and asked <= stems(one.text)]


def shown(record: Record) -> dict[str, Any]:
    """A rule as JSON values."""
    body = record.body
    texts = ("rule", "trigger", "why", "reach", "source", "said")
    return {
        "id": record.id,
        **{name: body[name] for name in texts},
        "prefer": list(body["prefer"]),
        "avoid": list(body["avoid"]),
        "status": str(record.status),
        "project": record.project,
        "session": record.session,
        "followed": record.evidence.successes,
        "violated": record.evidence.failures,
        "repeats": int(body.get("metadata", {}).get("repeats", 0)),
        "created_at": record.created_at.isoformat(),
    }


# -- settings


def settings(place: Place) -> dict[str, Any]:
    return dict(read(place).values)


def set_setting(place: Place, name: str, value: str) -> dict[str, Any]:
    if name not in DEFAULTS:
        raise ConfigError(f"there is no setting {name!r}. Valid: {', '.join(DEFAULTS)}")
    held = _read(place.config)
    held[name] = _checked(name, value)
    write(place.config, held)
    return held


def _checked(name: str, value: str) -> str | int:
    number = isinstance(DEFAULTS[name], int) and value.isascii() and value.isdigit()
    given: str | int = int(value[:20]) if number else value
    if problem := wrong(name, given):
        raise ConfigError(problem.removeprefix("config.json: ").rpartition(";")[0] or problem)
    return given


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read ({error}); mend it or remove it") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path} must hold a JSON object; mend it or remove it")
    return value


def write(path: str, value: Mapping[str, Any]) -> None:
    """All or nothing, for its owner only."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_text(path: str, text: str) -> None:
    fresh = f"{path}.{os.getpid()}.new"
    try:
        with open(os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(fresh, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.remove(fresh)
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


# -- the worker


def stop_worker(place: Place, seconds: float = 3.0) -> None:
    """A worker that goes on would write into what is about to go."""
    if ask(place, {"op": "stop"}, 1.0) is None:
        return
    deadline = time.monotonic() + seconds
    while os.path.exists(place.worker) and time.monotonic() < deadline:
        time.sleep(0.05)


# -- pausing


def paused(place: Place) -> dict[str, Any]:
    held = {"everywhere": False, "projects": [], **_read(place.paused)}
    if not isinstance(held["projects"], list):
        raise ConfigError(f"{place.paused}: `projects` must be a list; mend it or remove it")
    return held


def set_paused(place: Place, project: str | None, to: bool) -> dict[str, Any]:
    """Pause or resume one project, or (None) all of them."""
    held = paused(place)
    projects = [one for one in held["projects"] if one != project]
    if project is None:
        held = {"everywhere": to, "projects": held["projects"] if to else []}
    else:
        held = {**held, "projects": [*projects, project] if to else projects}
    write(place.paused, held)
    return held
