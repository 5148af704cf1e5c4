"""`claude-smart doctor`: the whole chain on this machine, in a scratch home, and the state of the real one."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from alma.engine.rules import AGENT
from alma.errors import ALMAError, BusyError, ConfigError, CorruptStoreError, ModelError, NewerStoreError, StorageError
from alma.files import read_content
from alma.hooks.drain import SPENT, ProjectMemories, describe_dropped, describe_reader, drain, find_program
from alma.hooks.paths import DataDir, list_own_files, read_settings
from alma.hooks.project import identify_project
from alma.types.kinds import MemoryType
from alma.types.query import Where
from alma.types.record import Record, Status
from alma.upkeep import FAILED, OK, Finding, check_integrity, check_modes, check_space

from .cli import own_words
from .data import describe_reading, find_pending, read_paused
from .desk import Answer, Desk, read_object
from .install import PLUGIN, find_setup, list_enabled, list_hooks, plan_install

# Not imported: it is a program, and ends the process.
_HOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hook.py")
_RECENT_SECONDS = 7 * 86_400.0
_HOOK_SECONDS = 20.0
_RESTORE = "restore a backup of memory.db, or: claude-smart clear-all --everywhere"
_FIXES: tuple[tuple[type[Exception], str], ...] = (
    (NewerStoreError, "an older claude-smart is used than the one that wrote it: update this one"),
    (BusyError, "end the process that uses it, or try again"),
    (CorruptStoreError, _RESTORE),
    (StorageError, "check the disk, and the owner and mode of the file"),
    (Exception, "mend or remove what is named"),
)
_SAID = "no, use pnpm here instead of npm, because npm breaks the lock file"
_CHAIN = (
    "a hook fires and its turn is in the journal",
    "the turn is in the store",
    "a rule was learned from it",
    "the next session is told",
)


class Step(NamedTuple):
    name: str
    ok: bool
    detail: str
    fix: str = ""
    """What to do about it; empty when nothing is wrong."""


def doctor(args: Namespace, desk: Desk) -> Answer:
    """Check everything, and print each step as soon as it is done."""
    steps = []
    for step in _run_steps(desk):
        steps.append(step._asdict())
        desk.say(f"{'✓' if step.ok else '✗'} {step.name}: {step.detail}", *([f"    {step.fix}"] if step.fix else []))
    sound = all(step["ok"] for step in steps)
    desk.say("\nAll is well." if sound else "\nSomething is not as it should be; see the lines marked ✗.")
    desk.exit_code = int(not sound)
    return {"ok": sound, "steps": steps}


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
    yield from _check_plugin(desk.place)
    with tempfile.TemporaryDirectory(prefix="claude-smart-", ignore_cleanup_errors=True) as scratch:
        # Each link needs the one before it; the first that fails says why, and the rest are not tried.
        links = _run_chain(scratch)
        for number, name in enumerate(_CHAIN, 1):
            try:
                yield Step(name, True, next(links))
            except (ALMAError, OSError, subprocess.SubprocessError, ValueError, LookupError) as error:
                yield Step(name, False, str(error) or type(error).__name__, "see hooks.log, and report this line")
                yield from (Step(left, False, "not tried") for left in _CHAIN[number:])
                break
    checks = (_check_home, _check_disk, _check_settings, _check_store, _check_journals, _check_reader, _check_log)
    for check in checks:
        name = check.__name__.removeprefix("_check_")
        try:
            state, *rest = check(desk)
            step = Step(name, state != FAILED, *rest)
        except (ALMAError, OSError) as error:
            step = Step(name, False, own_words(error), next(fix for kind, fix in _FIXES if isinstance(error, kind)))
        if step.detail:
            yield step


def _check_plugin(place: DataDir) -> Iterator[Step]:
    setup = find_setup({**os.environ, "CLAUDE_SMART_HOME": place.home})
    try:
        names = list_enabled(read_object(setup.settings)[1])
    except ConfigError as error:
        yield Step("plug-in", False, str(error), "mend the file; Claude Code does not read it either")
        return
    if not names:
        yield Step("plug-in", False, f"not enabled in {setup.settings}", "claude-smart install")
        return
    fix = "" if len(names) == 1 else "keep one of them"
    yield Step("plug-in", not fix, f"{', '.join(names)} is enabled", fix)
    if PLUGIN not in names:
        return
    content = read_content(setup.marketplace / "plugin" / "hooks" / "hooks.json")
    programs = {hook["command"] for hook in list_hooks(json.loads(content))} if content else {str(setup.marketplace)}
    gone = sorted(one for one in programs if not os.path.isfile(one))
    if gone:
        yield Step("hooks", False, f"{', '.join(gone)} is gone", "claude-smart install")
    elif any(change.path.suffix == ".py" for change in plan_install(setup).changes):
        yield Step("hooks", True, "installed from another version than this one", "claude-smart update")
    else:
        yield Step("hooks", True, f"{setup.plain}, as installed")


# -- the chain, in a scratch home


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
    for id, prompt in (("p1", "install the packages"), ("p2", _SAID)):
        fire("UserPromptSubmit", prompt=prompt, prompt_id=id)
        fire("Stop", last_assistant_message="I ran npm install.", stop_hook_active=False, prompt_id=id)
    if not os.path.exists(place.journal("doctor-1")):
        raise ValueError(f"the hook wrote no journal; its log says: {_read_log(place)[-3:]}")
    yield f"{took * 1000:.0f} ms for one hook"

    report = drain(place, wait=1.0)
    turns = read_records("turn")
    if len(turns) != 4:
        raise ValueError(f"{len(turns)} of 4 turns arrived; {report.problems or _read_log(place)[-3:]}")
    yield "4 of 4, each once"

    rules = [one for one in read_records(MemoryType.RULE) if one.status is Status.ACTIVE]
    if not rules:
        raise ValueError(f"no rule came of {_SAID!r}")
    yield str(rules[0].body["line"])

    answer = fire("SessionStart", "doctor-2", source="startup")
    if "pnpm" not in answer:
        raise ValueError(f"the rule is not in what the session is told; the log says: {_read_log(place)[-3:]}")
    context = json.loads(answer)["hookSpecificOutput"]["additionalContext"]
    yield f"{len(context)} characters at the start of a session"


def _fire_hook(place: DataDir, event: dict[str, object]) -> str:
    """Run the hook as the host does, and return what it answers."""
    # Somebody is said to be draining already: a process of its own would outlive this folder.
    Path(place.sessions, "wanted").touch()
    names = ("PATH", "SYSTEMROOT", "HOME", "USERPROFILE", "TEMP", "TMP")
    environ = {name: value for name, value in os.environ.items() if name.upper() in names}
    environ |= {"CLAUDE_SMART_HOME": place.home, "CLAUDE_SMART_BACKEND_AUTOSTART": "0", "CLAUDE_SMART_ATTENDED": "1"}
    command = [sys.executable, "-I", "-S", _HOOK]
    content = json.dumps(event).encode()
    done = subprocess.run(command, input=content, capture_output=True, env=environ, timeout=_HOOK_SECONDS, check=False)
    return done.stdout.decode("utf-8", "replace")


# -- the real home


def _check_home(desk: Desk) -> Finding:
    place = desk.place
    if not os.path.isdir(place.home):
        return OK, f"{place.home} does not exist yet; the first session makes it"
    # Those that tell what was said. The folder of journals may be elsewhere, and others may use it too.
    files = [path for path in Path(place.home).rglob("*") if path.is_file() and "marketplace" not in path.parts]
    problems = check_modes(FAILED, "chmod go= {}", [*map(Path, list_own_files(place)), *files])
    for folder in (place.home, place.sessions):
        if os.path.isdir(folder) and not os.access(folder, os.W_OK | os.X_OK):
            problems.append((FAILED, f"{folder} cannot be written", "check its owner and mode"))
    return problems[0] if problems else (OK, f"{place.home}, for you alone")


def _check_disk(desk: Desk) -> Finding:
    [found] = check_space(Path(desk.place.home))
    return found if found[0] == FAILED else (OK, "")


def _check_settings(desk: Desk) -> Finding:
    read_paused(desk.place)
    problems = read_settings(desk.place).problems
    state = FAILED if problems else OK
    return state, "; ".join(problems), f"mend {desk.place.config}: claude-smart config NAME VALUE"


def _check_store(desk: Desk) -> Finding:
    with desk.memory_if_any() as memory:
        [found] = check_integrity(memory.alma.engine.store) if memory else [(OK, "")]
    return (FAILED, found[1], _RESTORE) if found[0] == FAILED else found


def _check_journals(desk: Desk) -> Finding:
    with desk.memory_if_any() as memory:
        waiting = find_pending(desk.place, memory)
    hour_ago = time.time() - 3600
    old = [path for path in waiting if os.path.exists(path) and os.path.getmtime(path) < hour_ago]
    if old:
        fix = "claude-smart learn takes them in, or says why it cannot"
        return FAILED, f"{len(old)} were not taken in for more than an hour", fix
    return OK, f"{len(waiting)} wait to be taken in"


def _check_reader(desk: Desk) -> Finding:
    """Say which reader is at work, and why Claude could not read what waits for it."""
    with desk.memory_if_any() as memory:
        state = describe_reader(desk.place, memory)
    line = describe_reading(state)
    if state.reader == "local":
        return OK, line
    if state.dropped:
        line += f"; dropped by the checks: {describe_dropped(state.dropped)}"
    if state.error == SPENT:
        fix = "claude-smart config daily_calls N raises the limit"
        return OK, f"{line}; {SPENT}, so that the rest is read tomorrow", fix
    if state.error:
        again = f"next attempt after {state.next_try:%Y-%m-%d %H:%M} UTC" if state.next_try else "given up"
        return FAILED, f"{line}; last error: {state.error}; {again}", "claude-smart learn tries it now"
    try:
        find_program()
    except ModelError as error:
        return FAILED, f"{line}; {error}", "install Claude Code, or: claude-smart config model off"
    return OK, line


def _check_log(desk: Desk) -> Finding:
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - _RECENT_SECONDS))
    recent = [line for line in _read_log(desk.place) if line >= since]
    if not recent:
        return OK, "no trouble in the last seven days"
    detail = f"{len(recent)} lines in the last seven days; the last: {recent[-1]}"
    return FAILED, detail, f"see {desk.place.log}"


def _read_log(place: DataDir) -> list[str]:
    content = read_content(Path(place.log)) or b""
    return content.decode("utf-8", "replace").splitlines()
