"""`claude-smart doctor`: the whole chain on this machine, in a scratch home, and the state of the real one."""

from __future__ import annotations

import calendar
import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from alma.engine.rules import AGENT
from alma.errors import ALMAError, BusyError, CorruptStoreError, ModelError, NewerStoreError, StorageError
from alma.hooks import paths
from alma.hooks.drain import ProjectMemories as Memory
from alma.hooks.drain import drain
from alma.hooks.paths import DataDir as Place
from alma.hooks.paths import list_own_files as own_files
from alma.hooks.project import identify_project as identify
from alma.ports import Checkable
from alma.types.kinds import MemoryType
from alma.types.query import Where
from alma.types.record import Record, Status

from .desk import Desk, own_words, paused

# Not imported: it is a program, and ends the process.
_HOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hook.py")
_RECENT_SECONDS = 7 * 86_400.0
_HOOK_SECONDS = 20.0
_ROOM = 10_000_000
_RESTORE = "restore a backup of memory.db, or: claude-smart clear-all --everywhere"
_SAID = "no, use pnpm here instead of npm, because npm breaks the lock file"


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    ok: bool
    detail: str
    fix: str = ""
    """What to do about it; empty when nothing is wrong."""


def doctor(args: Namespace, desk: Desk) -> int:
    steps: list[Step] = []
    for step in _steps(desk):
        steps.append(step)
        desk.say(f"{'✓' if step.ok else '✗'} {step.name}: {step.detail}")
        if step.fix:
            desk.say(f"    {step.fix}")
    sound = all(step.ok for step in steps)
    desk.say("\nAll is well." if sound else "\nSomething is not as it should be; see the lines marked ✗.")
    desk.tell({"ok": sound, "steps": [_plain(step) for step in steps]})
    return 0 if sound else 1


def _plain(step: Step) -> dict[str, Any]:
    return {"name": step.name, "ok": step.ok, "detail": step.detail, "fix": step.fix}


def _steps(desk: Desk) -> Iterator[Step]:
    yield _python()
    yield _sqlite()
    yield from _installed(desk)
    with tempfile.TemporaryDirectory(prefix="claude-smart-", ignore_cleanup_errors=True) as scratch:
        yield from _chain(scratch)
    place = desk.place
    yield _looked("home", lambda: _home(place))
    # Of no interest unless something is wrong with them.
    also = (_looked("disk", lambda: _disk(place)), _looked("settings", lambda: _settings(place)))
    yield from (step for step in also if not step.ok)
    if os.path.exists(place.db):
        yield _looked("store", lambda: _store(place))
    yield _looked("journals", lambda: _backlog(desk))
    yield _looked("reader", lambda: _reader(place))
    yield _looked("log", lambda: _log(place))


def _looked(name: str, look: Callable[[], Step]) -> Step:
    """What cannot even be looked at is a finding like another; the steps after it are still taken."""
    try:
        return look()
    except NewerStoreError as error:
        return Step(
            name, False, str(error), "an older claude-smart is used than the one that wrote it: update this one"
        )
    except BusyError as error:
        return Step(name, False, str(error), "end the process that uses it, or try again")
    except CorruptStoreError as error:
        return Step(name, False, own_words(error), _RESTORE)
    except StorageError as error:
        return Step(name, False, own_words(error), "check the disk, and the owner and mode of the file")
    except (ALMAError, OSError) as error:
        return Step(name, False, str(error), "mend or remove what is named")


def _python() -> Step:
    version = ".".join(map(str, sys.version_info[:3]))
    ok = sys.version_info >= (3, 11)
    return Step("Python", ok, f"{version} ({sys.executable})", "" if ok else "install Python 3.11 or newer")


def _sqlite() -> Step:
    try:
        with closing(sqlite3.connect(":memory:")) as db:
            db.execute("CREATE VIRTUAL TABLE t USING fts5 (x)")
    except sqlite3.OperationalError as error:
        return Step("SQLite", False, f"{sqlite3.sqlite_version}: {error}", "use a Python whose SQLite has FTS5")
    return Step("SQLite", True, f"{sqlite3.sqlite_version}, with full-text search")


def _installed(desk: Desk) -> Iterator[Step]:
    from .install import state

    for name, ok, detail, fix in state(desk.place):
        yield Step(name, ok, detail, fix)


# -- the chain, in a scratch home


@dataclass(frozen=True, slots=True)
class _Scratch:
    place: Place
    folder: str

    def fire(self, event: str, **fields: object) -> str:
        """Run the hook as the host does; what it answers."""
        # Somebody is said to be draining already: a process of its own would outlive this folder.
        with open(os.path.join(self.place.sessions, "wanted"), "w", encoding="utf-8"):
            pass
        given = {"session_id": "doctor-1", "cwd": self.folder, "hook_event_name": event, **fields}
        kept = ("PATH", "SYSTEMROOT", "HOME", "USERPROFILE", "TEMP", "TMP")
        environ = {name: value for name, value in os.environ.items() if name.upper() in kept}
        environ |= {"CLAUDE_SMART_HOME": self.place.home, "CLAUDE_SMART_BACKEND_AUTOSTART": "0"}
        environ["CLAUDE_SMART_ATTENDED"] = "1"
        done = subprocess.run(
            [sys.executable, "-I", "-S", _HOOK],
            input=json.dumps(given).encode(),
            capture_output=True,
            env=environ,
            timeout=_HOOK_SECONDS,
            check=False,
        )
        return done.stdout.decode("utf-8", "replace")


def _chain(scratch: str) -> Iterator[Step]:
    folder = os.path.join(scratch, "repository")
    os.makedirs(folder)
    made = _Scratch(Place(os.path.join(scratch, "home")), folder)
    made.place.make()
    yield from _linked(
        ("a hook fires and its turn is in the journal", lambda: _fired(made)),
        ("the turn is in the store", lambda: _stored(made)),
        ("a rule was learned from it", lambda: _learned(made)),
        ("the next session is told", lambda: _told(made)),
    )


def _linked(*links: tuple[str, Callable[[], str]]) -> Iterator[Step]:
    """Each needs the one before it; the first that fails tells why, and the rest were not tried."""
    for place, (name, link) in enumerate(links):
        try:
            yield Step(name, True, link())
        except (ALMAError, OSError, subprocess.SubprocessError, ValueError, LookupError) as error:
            yield Step(name, False, str(error) or type(error).__name__, "see hooks.log, and report this line")
            for left, _ in links[place + 1 :]:
                yield Step(left, False, "not tried")
            return


def _fired(made: _Scratch) -> str:
    began = time.perf_counter()
    made.fire("SessionStart", source="startup")
    took = time.perf_counter() - began
    made.fire("UserPromptSubmit", prompt="install the packages", prompt_id="p1")
    made.fire("Stop", last_assistant_message="I ran npm install.", stop_hook_active=False, prompt_id="p1")
    made.fire("UserPromptSubmit", prompt=_SAID, prompt_id="p2")
    made.fire("Stop", last_assistant_message="I will use pnpm.", stop_hook_active=False, prompt_id="p2")
    path = made.place.journal("doctor-1")
    if not os.path.exists(path):
        raise ValueError(f"the hook wrote no journal; its log says: {_tail(made.place) or 'nothing'}")
    return f"{took * 1000:.0f} ms for one hook"


def _stored(made: _Scratch) -> str:
    report = drain(made.place, wait=1.0)
    turns = _records(made, "turn")
    if len(turns) != 4:
        raise ValueError(f"{len(turns)} of 4 turns arrived; {'; '.join(report.problems) or _tail(made.place)}")
    return "4 of 4, each once"


def _learned(made: _Scratch) -> str:
    found = [one for one in _records(made, MemoryType.RULE) if one.status is Status.ACTIVE]
    if not found:
        raise ValueError(f"no rule came of {_SAID!r}")
    return str(found[0].body["line"])


def _told(made: _Scratch) -> str:
    answer = made.fire("SessionStart", session_id="doctor-2", source="startup")
    if not answer.strip():
        raise ValueError(f"the hook answered nothing; its log says: {_tail(made.place) or 'nothing'}")
    context = json.loads(answer)["hookSpecificOutput"]["additionalContext"]
    if "pnpm" not in context:
        raise ValueError("the rule is not in what the session is told")
    return f"{len(context)} characters at the start of a session"


def _records(made: _Scratch, kind: str) -> list[Record]:
    with Memory(made.place) as memory:
        engine = memory.engine(identify(made.folder))
        return list(engine.store.scan(Where(kinds={kind}, agents={AGENT})))


# -- the real home


def _home(place: Place) -> Step:
    if not os.path.isdir(place.home):
        return Step("home", True, f"{place.home} does not exist yet; the first session makes it")
    open_to = [name for name in _files(place) if os.name == "posix" and _is_open(name)]
    if open_to:
        return Step("home", False, f"others can read {open_to[0]}", f"chmod go= {shlex.quote(open_to[0])}")
    for folder in (place.home, place.sessions):
        if os.path.isdir(folder) and not os.access(folder, os.W_OK | os.X_OK):
            return Step("home", False, f"{folder} cannot be written", "check its owner and mode")
    return Step("home", True, f"{place.home}, for you alone")


def _is_open(path: str) -> bool:
    try:
        return bool(os.lstat(path).st_mode & 0o077)
    except FileNotFoundError:
        return False


def _files(place: Place) -> Iterator[str]:
    """Those that tell what was said. The folder of journals may be elsewhere, and others may use it too."""
    for folder, _, names in os.walk(place.home):
        if "marketplace" not in os.path.relpath(folder, place.home).split(os.sep):
            yield from (os.path.join(folder, name) for name in names)
    yield from own_files(place)


def _disk(place: Place) -> Step:
    folder = place.home
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    free = shutil.disk_usage(folder).free
    room = f"{free // 1_000_000} MB free"
    return Step("disk", free > _ROOM, room, "" if free > _ROOM else "make room: nothing can be recorded on a full disk")


def _settings(place: Place) -> Step:
    problems = paths.read_settings(place).problems
    if problems:
        return Step("settings", False, problems[0], f"mend {place.config}: claude-smart config NAME VALUE")
    paused(place)
    return Step("settings", True, "in order")


def _store(place: Place) -> Step:
    with Memory(place) as memory:
        store = memory.alma.engine.store
        found = store.check() if isinstance(store, Checkable) else []
    if found:
        return Step("store", False, found[0], _RESTORE)
    return Step("store", True, f"{place.db} is sound")


def _backlog(desk: Desk) -> Step:
    from .keeping import pending

    waiting = pending(desk)
    old = [path for path in waiting if _idle(path) > 3600]
    if old:
        fix = "claude-smart learn takes them in, or says why it cannot"
        return Step("journals", False, f"{len(old)} were not taken in for more than an hour", fix)
    return Step("journals", True, f"{len(waiting)} wait to be taken in")


def _reader(place: Place) -> Step:
    """Which reader is at work, and why Claude could not read what waits for it."""
    from alma.hooks.drain import SPENT, describe_dropped, describe_reader, find_program

    from .keeping import describe_reading

    if os.path.exists(place.db):
        with Memory(place) as memory:
            state = describe_reader(place, memory)
    else:
        state = describe_reader(place, None)
    line = describe_reading(state.plain())
    if not state.is_allowed:
        return Step("reader", True, line)
    if state.dropped:
        line += f"; dropped by the checks: {describe_dropped(state.dropped)}"
    if state.error == SPENT:
        fix = "claude-smart config daily_calls N raises the limit"
        return Step("reader", True, f"{line}; {SPENT}, so that the rest is read tomorrow", fix)
    if state.error:
        again = f"next attempt after {state.next_try:%Y-%m-%d %H:%M} UTC" if state.next_try else "given up"
        return Step("reader", False, f"{line}; last error: {state.error}; {again}", "claude-smart learn tries it now")
    try:
        find_program()
    except ModelError as error:
        return Step("reader", False, f"{line}; {error}", "install Claude Code, or: claude-smart config model off")
    return Step("reader", True, line)


def _idle(path: str) -> float:
    try:
        return time.time() - os.path.getmtime(path)
    except FileNotFoundError:
        return 0.0


def _log(place: Place) -> Step:
    lines = [line for line in _lines(place) if _age(line) < _RECENT_SECONDS]
    if not lines:
        return Step("log", True, "no trouble in the last seven days")
    return Step("log", False, f"{len(lines)} lines in the last seven days; the last: {lines[-1]}", f"see {place.log}")


def _lines(place: Place) -> list[str]:
    try:
        with open(place.log, encoding="utf-8", errors="replace") as file:
            return [line.strip() for line in file if line.strip()]
    except OSError:
        return []


def _age(line: str) -> float:
    try:
        return time.time() - calendar.timegm(time.strptime(line.split(" ")[0], "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        return 0.0


def _tail(place: Place) -> str:
    return " | ".join(_lines(place)[-3:])
