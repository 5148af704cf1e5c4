"""No turn is lost: `python -m benchmarks.capture [--sessions 200] [--parallel 10] [--kills 0.15] [--claude PATH]`.

Sessions run in parallel in one repository, and each event goes to the real hook in a real process. Hooks and the worker
are killed with SIGKILL at random moments. With `--claude`, some sessions are real ones of that binary with a scripted
model, and the whole of Claude Code is killed. At the end, every turn whose hook had returned must be stored once and in
order, the store must contain no other turns, and the store must be consistent.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import claude_smart
from alma.hooks import journal
from alma.hooks.drain import ProjectMemories, drain
from alma.hooks.paths import DataDir
from alma.ports import Checkable
from alma.types.query import Where

from ._scripted_model import ANSWER, serving

HOOK = str(Path(claude_smart.__file__).with_name("hook.py"))
_SAID = ("fix the login page", "no, use pnpm not npm", "run the tests", "looks good", "why does it fail?")


@dataclass
class Found:
    sessions: int = 0
    acknowledged: int = 0
    """Turns whose hook had returned."""
    hooks_killed: int = 0
    workers_killed: int = 0
    hosts_killed: int = 0
    held: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    disordered: list[str] = field(default_factory=list)
    invented: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        return not (self.lost or self.doubled or self.disordered or self.invented or self.damage)


@dataclass
class World:
    place: DataDir
    repository: str
    environ: dict[str, str]
    kills: float
    found: Found
    returned: dict[str, list[str]] = field(default_factory=dict)
    """By session, the texts whose hook returned, in order."""
    attempted: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)


def session(world: World, number: int) -> None:
    """Run one person's session, from its start to its end or until it is killed."""
    chance = random.Random(number)
    name = f"session-{number:04}"
    told: list[str] = []
    _fire(world, chance, name, "SessionStart", source="startup")
    for turn in range(chance.randint(2, 5)):
        text = f"{chance.choice(_SAID)} ({name}, turn {turn})"
        prompt_id = f"{name}-{turn}"
        _say(world, chance, name, "UserPromptSubmit", text, told, prompt=text, prompt_id=prompt_id)
        command = {"command": "npm test"}
        _fire(world, chance, name, "PreToolUse", tool_name="Bash", tool_input=command, tool_use_id=f"{prompt_id}-t")
        answer = f"Done with {text}"
        _say(world, chance, name, "Stop", answer, told, last_assistant_message=answer, prompt_id=prompt_id)
    _fire(world, chance, name, "SessionEnd", reason="other")
    with world.lock:
        world.returned[name] = told
        world.found.sessions += 1


def _say(world: World, chance: random.Random, name: str, event: str, text: str, told: list[str], **fields: Any) -> None:
    with world.lock:
        world.attempted.add(text)
    if _fire(world, chance, name, event, **fields):
        told.append(text)


def _fire(world: World, chance: random.Random, name: str, event: str, **fields: Any) -> bool:
    """Send an event to the hook and return whether the hook finished by itself."""
    given = {"session_id": name, "cwd": world.repository, "hook_event_name": event, **fields}
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", HOOK, "--home", world.place.home],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=world.environ,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(given).encode())
    process.stdin.close()
    if chance.random() < world.kills:
        time.sleep(chance.uniform(0.0, 0.08))
        process.send_signal(signal.SIGKILL)
    killed = process.wait() == -signal.SIGKILL
    if killed:
        with world.lock:
            world.found.hooks_killed += 1
    return not killed


@contextmanager
def reaper(world: World) -> Iterator[None]:
    """Kill the draining process again and again."""
    over = threading.Event()

    def reap() -> None:
        chance = random.Random(4711)
        while not over.wait(chance.uniform(0.3, 2.0)):
            told = journal.ask_worker(world.place, {"op": "status"}, 0.3)
            if told and isinstance(told.get("pid"), int):
                os.kill(told["pid"], signal.SIGKILL)
                world.found.workers_killed += 1

    thread = threading.Thread(target=reap, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# -- real sessions


def copy_plugin(folder: Path, home: str) -> Path:
    """Copy the plugin, as the installer does, with the file that names the data folder."""
    if not folder.exists():
        shutil.copytree(Path(__file__).parent.parent / "plugin", folder)
        runtime = {"home": home, "python": sys.executable, "path": str(Path(HOOK).parent.parent)}
        (folder / "runtime.json").write_text(json.dumps(runtime))
    return folder


def real_session(world: World, claude: str, number: int, api: str) -> None:
    """Run a session of the real host with a scripted model; half of them are killed midway."""
    chance = random.Random(number)
    text = f"{chance.choice(_SAID)} (real {number})"
    with world.lock:
        world.attempted |= {text, ANSWER}
    environ = {
        **world.environ,
        "ANTHROPIC_BASE_URL": api,
        "ANTHROPIC_API_KEY": "none",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    plugin = copy_plugin(Path(world.environ["HOME"], "plugin"), world.place.home)
    process = subprocess.Popen(
        [claude, "-p", text, "--plugin-dir", str(plugin), "--output-format", "json"],
        env=environ,
        cwd=world.repository,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    kill = chance.random() < 0.5
    if kill:
        time.sleep(chance.uniform(0.3, 1.5))
        process.kill()
    out, _ = process.communicate()
    with world.lock:
        world.found.sessions += 1
        if kill:
            world.found.hosts_killed += 1
        elif process.returncode == 0 and not json.loads(out).get("is_error"):
            world.returned[str(json.loads(out)["session_id"])] = [text, ANSWER]


# -- the reckoning


def reckon(world: World) -> None:
    deadline = time.monotonic() + 120
    while drain(world.place, wait=5.0).busy and time.monotonic() < deadline:
        time.sleep(0.2)
    with ProjectMemories(world.place) as memory:
        store = memory.alma.engine.store
        turns = list(store.scan(Where(kinds={"turn"})))
        world.found.damage += store.check() if isinstance(store, Checkable) else []
    held: dict[str, list[str]] = {}
    for turn in sorted(turns, key=lambda one: (one.session, int(one.body["index"]))):
        held.setdefault(turn.session, []).append(str(turn.body["text"]))
    found = world.found
    found.held = len(turns)
    for name, told in world.returned.items():
        own = held.get(name, [])
        found.acknowledged += len(told)
        found.lost += [text for text in told if text not in own]
        found.doubled += [text for text, times in Counter(own).items() if times > 1]
        if [text for text in own if text in set(told)] != told:
            found.disordered.append(name)
    found.invented += [text for own in held.values() for text in own if text not in world.attempted]


def measured(folder: Path, sessions: int, parallel: int, kills: float, claude: str, real: int) -> Found:
    repository = folder / "repository"
    (repository / ".git").mkdir(parents=True)
    home = folder / "home"
    home.mkdir()
    environ = {"PATH": os.environ.get("PATH", ""), "HOME": str(home)}
    world = World(DataDir(str(home / "smart")), str(repository), environ, kills, Found())
    began = time.perf_counter()
    with ThreadPoolExecutor(parallel) as pool, reaper(world):
        for done, _ in enumerate(pool.map(lambda number: session(world, number), range(sessions)), 1):
            if sys.stderr.isatty():
                print(f"\r{done} of {sessions} sessions ", end="", file=sys.stderr)
    if claude:
        with serving() as api, ThreadPoolExecutor(2) as pool, reaper(world):
            list(pool.map(lambda number: real_session(world, claude, number, api), range(real)))
    if sys.stderr.isatty():
        print(file=sys.stderr)
    reckon(world)
    journal.ask_worker(world.place, {"op": "stop"}, 1.0)
    world.found.seconds = round(time.perf_counter() - began, 1)
    return world.found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--parallel", type=int, default=10)
    parser.add_argument("--kills", type=float, default=0.15, help="the share of hooks that are killed")
    parser.add_argument("--claude", default="", metavar="PATH", help="the claude binary, to also run real sessions")
    parser.add_argument("--real", type=int, default=20, help="the number of real sessions")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="capture-", ignore_cleanup_errors=True) as folder:
        found = measured(Path(folder), args.sessions, args.parallel, args.kills, args.claude, args.real)
    if args.json:
        print(json.dumps({**asdict(found), "holds": found.holds}, indent=2))
    else:
        print(f"{found.sessions} sessions, {args.parallel} at a time, {found.seconds} s")
        print(f"killed: {found.hooks_killed} hooks, {found.workers_killed} workers, {found.hosts_killed} hosts")
        print(f"turns whose hook returned: {found.acknowledged}; turns in the store: {found.held}")
        for name in ("lost", "doubled", "disordered", "invented", "damage"):
            listed = getattr(found, name)
            print(f"{name:11} {len(listed)}{'  ' + str(listed[:3]) if listed else ''}")
    return 0 if found.holds else 1


if __name__ == "__main__":
    sys.exit(main())
