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
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass

from alma.engine.rules import AGENT
from alma.errors import ALMAError, BusyError, CorruptStoreError, ModelError, NewerStoreError, StorageError
from alma.hooks import paths
from alma.hooks.drain import SPENT, ProjectMemories, describe_dropped, describe_reader, drain, find_program
from alma.hooks.paths import DataDir, list_own_files
from alma.hooks.project import identify_project
from alma.ports import Checkable
from alma.types.kinds import MemoryType
from alma.types.query import Where
from alma.types.record import Record, Status

from .cli import own_words
from .data import describe_reading, find_pending, read_paused
from .desk import Desk
from .install import check_plugin

# Not imported: it is a program, and ends the process.
_HOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hook.py")
_RECENT_SECONDS = 7 * 86_400.0
_HOOK_SECONDS = 20.0
_ROOM = 10_000_000
_RESTORE = "restore a backup of memory.db, or: claude-smart clear-all --everywhere"
_SAID = "no, use pnpm here instead of npm, because npm breaks the lock file"
_CHAIN = (
    "a hook fires and its turn is in the journal",
    "the turn is in the store",
    "a rule was learned from it",
    "the next session is told",
)


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    ok: bool
    detail: str
    fix: str = ""
    """What to do about it; empty when nothing is wrong."""


Finding = tuple[bool, str, str]
"""Whether it is well, what was found, and what to do about it."""


def doctor(args: Namespace, desk: Desk) -> int:
    """Check everything, and print each step as soon as it is done."""
    steps: list[Step] = []
    for step in _run_steps(desk):
        steps.append(step)
        desk.say(f"{'✓' if step.ok else '✗'} {step.name}: {step.detail}")
        if step.fix:
            desk.say(f"    {step.fix}")
    sound = all(step.ok for step in steps)
    desk.say("\nAll is well." if sound else "\nSomething is not as it should be; see the lines marked ✗.")
    desk.tell({"ok": sound, "steps": [asdict(step) for step in steps]})
    return 0 if sound else 1


def _run_steps(desk: Desk) -> Iterator[Step]:
    version = ".".join(map(str, sys.version_info[:3]))
    is_new = sys.version_info >= (3, 11)
    yield Step("Python", is_new, f"{version} ({sys.executable})", "" if is_new else "install Python 3.11 or newer")
    try:
        with closing(sqlite3.connect(":memory:")) as db:
            db.execute("CREATE VIRTUAL TABLE t USING fts5 (x)")
        yield Step("SQLite", True, f"{sqlite3.sqlite_version}, with full-text search")
    except sqlite3.OperationalError as error:
        yield Step("SQLite", False, f"{sqlite3.sqlite_version}: {error}", "use a Python whose SQLite has FTS5")
    yield from (Step(*found) for found in check_plugin(desk.place))
    with tempfile.TemporaryDirectory(prefix="claude-smart-", ignore_cleanup_errors=True) as scratch:
        yield from _check_chain(scratch)
    checks = {
        "home": _check_home,
        "disk": _check_disk,
        "settings": _check_settings,
        "store": _check_store,
        "journals": _check_journals,
        "reader": _check_reader,
        "log": _check_log,
    }
    for name, check in checks.items():
        try:
            step = Step(name, *check(desk))
        except NewerStoreError as error:
            fix = "an older claude-smart is used than the one that wrote it: update this one"
            step = Step(name, False, str(error), fix)
        except BusyError as error:
            step = Step(name, False, str(error), "end the process that uses it, or try again")
        except CorruptStoreError as error:
            step = Step(name, False, own_words(error), _RESTORE)
        except StorageError as error:
            step = Step(name, False, own_words(error), "check the disk, and the owner and mode of the file")
        except (ALMAError, OSError) as error:
            step = Step(name, False, str(error), "mend or remove what is named")
        if step.detail and not (step.ok and name in ("disk", "settings")):
            # Disk and settings are of no interest unless something is wrong with them.
            yield step


# -- the chain, in a scratch home


def _check_chain(scratch: str) -> Iterator[Step]:
    """Each link needs the one before it; the first that fails says why, and the rest are not tried."""
    links = _run_chain(scratch)
    for number, name in enumerate(_CHAIN, 1):
        try:
            yield Step(name, True, next(links))
        except (ALMAError, OSError, subprocess.SubprocessError, ValueError, LookupError) as error:
            yield Step(name, False, str(error) or type(error).__name__, "see hooks.log, and report this line")
            yield from (Step(left, False, "not tried") for left in _CHAIN[number:])
            return


def _run_chain(scratch: str) -> Iterator[str]:
    """Yield what each link of the chain came to. Raises ValueError where it is broken."""
    folder, place = os.path.join(scratch, "repository"), DataDir(os.path.join(scratch, "home"))
    os.makedirs(folder)
    place.make()

    def fire(event: str, session: str = "doctor-1", **fields: object) -> str:
        return _fire_hook(place, {"session_id": session, "cwd": folder, "hook_event_name": event, **fields})

    def read_records(kind: str) -> list[Record]:
        with ProjectMemories(place) as memory:
            return list(memory.engine(identify_project(folder)).store.scan(Where(kinds={kind}, agents={AGENT})))

    began = time.perf_counter()
    fire("SessionStart", source="startup")
    took = time.perf_counter() - began
    fire("UserPromptSubmit", prompt="install the packages", prompt_id="p1")
    fire("Stop", last_assistant_message="I ran npm install.", stop_hook_active=False, prompt_id="p1")
    fire("UserPromptSubmit", prompt=_SAID, prompt_id="p2")
    fire("Stop", last_assistant_message="I will use pnpm.", stop_hook_active=False, prompt_id="p2")
    log = " | ".join(_read_log(place)[-3:])
    if not os.path.exists(place.journal("doctor-1")):
        raise ValueError(f"the hook wrote no journal; its log says: {log or 'nothing'}")
    yield f"{took * 1000:.0f} ms for one hook"

    report = drain(place, wait=1.0)
    turns = read_records("turn")
    if len(turns) != 4:
        raise ValueError(f"{len(turns)} of 4 turns arrived; {'; '.join(report.problems) or log}")
    yield "4 of 4, each once"

    rules = [one for one in read_records(MemoryType.RULE) if one.status is Status.ACTIVE]
    if not rules:
        raise ValueError(f"no rule came of {_SAID!r}")
    yield str(rules[0].body["line"])

    answer = fire("SessionStart", "doctor-2", source="startup")
    if not answer.strip():
        raise ValueError(f"the hook answered nothing; its log says: {' | '.join(_read_log(place)[-3:]) or 'nothing'}")
    context = json.loads(answer)["hookSpecificOutput"]["additionalContext"]
    if "pnpm" not in context:
        raise ValueError("the rule is not in what the session is told")
    yield f"{len(context)} characters at the start of a session"


def _fire_hook(place: DataDir, event: dict[str, object]) -> str:
    """Run the hook as the host does, and return what it answers."""
    # Somebody is said to be draining already: a process of its own would outlive this folder.
    with open(os.path.join(place.sessions, "wanted"), "w", encoding="utf-8"):
        pass
    kept = ("PATH", "SYSTEMROOT", "HOME", "USERPROFILE", "TEMP", "TMP")
    environ = {name: value for name, value in os.environ.items() if name.upper() in kept}
    environ |= {"CLAUDE_SMART_HOME": place.home, "CLAUDE_SMART_BACKEND_AUTOSTART": "0", "CLAUDE_SMART_ATTENDED": "1"}
    done = subprocess.run(
        [sys.executable, "-I", "-S", _HOOK],
        input=json.dumps(event).encode(),
        capture_output=True,
        env=environ,
        timeout=_HOOK_SECONDS,
        check=False,
    )
    return done.stdout.decode("utf-8", "replace")


# -- the real home


def _check_home(desk: Desk) -> Finding:
    place = desk.place
    if not os.path.isdir(place.home):
        return True, f"{place.home} does not exist yet; the first session makes it", ""
    # Those that tell what was said. The folder of journals may be elsewhere, and others may use it too.
    files = list_own_files(place)
    for folder, _, names in os.walk(place.home):
        if "marketplace" not in os.path.relpath(folder, place.home).split(os.sep):
            files += [os.path.join(folder, name) for name in names]
    for path in files if os.name == "posix" else ():
        try:
            if os.lstat(path).st_mode & 0o077:
                return False, f"others can read {path}", f"chmod go= {shlex.quote(path)}"
        except FileNotFoundError:
            continue
    for folder in (place.home, place.sessions):
        if os.path.isdir(folder) and not os.access(folder, os.W_OK | os.X_OK):
            return False, f"{folder} cannot be written", "check its owner and mode"
    return True, f"{place.home}, for you alone", ""


def _check_disk(desk: Desk) -> Finding:
    folder = desk.place.home
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    free = shutil.disk_usage(folder).free
    return free > _ROOM, f"{free // 1_000_000} MB free", "make room: nothing can be recorded on a full disk"


def _check_settings(desk: Desk) -> Finding:
    problems = paths.read_settings(desk.place).problems
    if problems:
        return False, problems[0], f"mend {desk.place.config}: claude-smart config NAME VALUE"
    read_paused(desk.place)
    return True, "in order", ""


def _check_store(desk: Desk) -> Finding:
    if not os.path.exists(desk.place.db):
        return True, "", ""
    with ProjectMemories(desk.place) as memory:
        store = memory.alma.engine.store
        problems = store.check() if isinstance(store, Checkable) else []
    return (False, problems[0], _RESTORE) if problems else (True, f"{desk.place.db} is sound", "")


def _check_journals(desk: Desk) -> Finding:
    waiting = find_pending(desk)
    hour_ago = time.time() - 3600
    old = [path for path in waiting if os.path.exists(path) and os.path.getmtime(path) < hour_ago]
    if old:
        fix = "claude-smart learn takes them in, or says why it cannot"
        return False, f"{len(old)} were not taken in for more than an hour", fix
    return True, f"{len(waiting)} wait to be taken in", ""


def _check_reader(desk: Desk) -> Finding:
    """Say which reader is at work, and why Claude could not read what waits for it."""
    if os.path.exists(desk.place.db):
        with ProjectMemories(desk.place) as memory:
            state = describe_reader(desk.place, memory)
    else:
        state = describe_reader(desk.place, None)
    line = describe_reading(state.plain())
    if state.reader == "local":
        return True, line, ""
    if state.dropped:
        line += f"; dropped by the checks: {describe_dropped(state.dropped)}"
    if state.error == SPENT:
        fix = "claude-smart config daily_calls N raises the limit"
        return True, f"{line}; {SPENT}, so that the rest is read tomorrow", fix
    if state.error:
        again = f"next attempt after {state.next_try:%Y-%m-%d %H:%M} UTC" if state.next_try else "given up"
        return False, f"{line}; last error: {state.error}; {again}", "claude-smart learn tries it now"
    try:
        find_program()
    except ModelError as error:
        return False, f"{line}; {error}", "install Claude Code, or: claude-smart config model off"
    return True, line, ""


def _check_log(desk: Desk) -> Finding:
    recent = []
    for line in _read_log(desk.place):
        try:
            at = calendar.timegm(time.strptime(line.split(" ")[0], "%Y-%m-%dT%H:%M:%SZ"))
        except ValueError:
            at = int(time.time())
        if time.time() - at < _RECENT_SECONDS:
            recent.append(line)
    if not recent:
        return True, "no trouble in the last seven days", ""
    detail = f"{len(recent)} lines in the last seven days; the last: {recent[-1]}"
    return False, detail, f"see {desk.place.log}"


def _read_log(place: DataDir) -> list[str]:
    try:
        with open(place.log, encoding="utf-8", errors="replace") as file:
            return [line.strip() for line in file if line.strip()]
    except OSError:
        return []
