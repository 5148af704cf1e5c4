"""Measure a cold reload: `python -m benchmarks.reload [--records 10000] [--runs 7] [--json]`.

The benchmark creates a project with many records, a history of sessions, open work items and a git repository. It then
times new interpreters from start to exit: one that only reads the quick reload, one that starts a session with a goal
(which loads the embedder) and reads it, and one that initializes from a prompt. CPU time is shown next to wall time,
which means little on a busy machine, and a bare Python start next to both. The limit is 1 s of wall time for the first
two; the requirement is 5 s.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from alma import ALMA
from alma.progress import ProgressTracker
from alma.session import SessionManager
from alma.stores.sqlite import SQLiteStore
from alma.types.query import Where
from benchmarks.speed import Mixed, Texts, filling

AGENT = "Helena"
LIMIT = 1.0
_PROJECT = "reload"
_CONFIG = f"alma:\n  project_id: {_PROJECT}\n  storage: sqlite\n  embedding_provider: local\n"
_OPEN = f"from alma.session import SessionManager\nm = SessionManager({_PROJECT!r})\n"
_RELOAD = f"text = m.get_quick_reload({AGENT!r})\nassert 'Last session: ended 2' in text, text\n"
_START = f"c = m.start_session(agent={AGENT!r}, goal='Deploy the payment queue')\nassert c.previous_handoff, c\n"
_INITIALIZE = (
    "from alma.session import SessionInitializer\n"
    f"r = SessionInitializer(m.alma, None, m).initialize({_PROJECT!r}, {AGENT!r}, '- Fix the login\\n- Then deploy')\n"
    "assert len(r.work_items) == 2 and 'Fix the login' in r.to_prompt()\n"
)
COLD = {
    "a bare Python": "pass",
    "quick reload": _OPEN + _RELOAD,
    "start a session with a goal, and reload": _OPEN + _START + _RELOAD,
    "initialize from a prompt": _OPEN + _INITIALIZE,
}
LIMITED = ("quick reload", "start a session with a goal, and reload")


@dataclass(frozen=True)
class Timing:
    what: str
    median_s: float
    worst_s: float
    cpu_s: float
    """The least that any of them took."""
    limit_s: float | None = None

    @property
    def holds(self) -> bool:
        return self.limit_s is None or self.median_s < self.limit_s


def prepare(folder: Path, records: int) -> int:
    """Create a project folder and return how many records it holds."""
    (folder / ".alma").mkdir()
    (folder / ".alma" / "config.yaml").write_text(_CONFIG, encoding="utf-8")
    embedder, texts = Mixed(), Texts()
    # Opened by its folder first, so that alma knows that it was made here.
    ALMA.quickstart(_PROJECT, storage_dir=folder / ".alma").close()
    with ALMA(SQLiteStore(folder / ".alma" / "alma.db"), embedder, project_id=_PROJECT) as alma, filling(embedder):
        _work(alma, records // 50)
        _sessions(alma, records // 100)
        _lessons(alma, texts, records // 50)
        held = _count(alma)
        for start in range(held, records, 500):
            alma.add_many(
                {"type": "domain_knowledge", "agent": AGENT, "domain": "facts", "fact": texts.fact(number)}
                for number in range(start, min(start + 500, records))
            )
        return _count(alma)


def _work(alma: ALMA, items: int) -> None:
    ProgressTracker(alma=alma).create_work_items(
        {"title": f"Fix the report of customer {number}", "priority": number % 100} for number in range(items)
    )


def _sessions(alma: ALMA, sessions: int) -> None:
    manager = SessionManager(alma=alma, workspace=None)
    for number in range(sessions):
        session = manager.start_session(AGENT, orient=False).session_id
        manager.update_session(AGENT, session, action=f"Looked at report {number}", decisions=[f"Keep format {number}"])
        manager.create_handoff(AGENT, session, f"Mended report {number}", "success", next_steps=["Go on with the next"])


def _lessons(alma: ALMA, texts: Texts, outcomes: int) -> None:
    for start in range(0, outcomes, 50):
        alma.learn_many(
            {"agent": AGENT, "task": texts.task(), "strategy_used": texts.strategy(), "outcome": "success"}
            for _ in range(start, min(start + 50, outcomes))
        )


def _count(alma: ALMA) -> int:
    records = alma.engine.store.scan(Where(projects={_PROJECT}))
    return sum(one.kind != "changeset" for one in records)


def repository(folder: Path) -> bool:
    """Create some code under git, if git is available."""
    git = shutil.which("git")
    for number in range(200):
        place = folder / "src" / f"part{number % 10}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"module{number}.py").write_text("x = 1\n", encoding="utf-8")
    (folder / "Makefile").write_text("test:\n\tpytest\n", encoding="utf-8")
    (folder / ".gitignore").write_text(".alma\n", encoding="utf-8")
    if git is None:
        return False
    who = ("-c", "user.name=bench", "-c", "user.email=bench@example.com")
    for arguments in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "Begin")):
        subprocess.run([git, *arguments], cwd=folder, check=True, capture_output=True)
    return True


def cold(folder: Path, code: str) -> tuple[float, float]:
    """Return wall and CPU seconds of an interpreter, from start to exit."""
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    used, began = _used(), time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, env=usual, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began, _used() - used


def _used() -> float:
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def measure(folder: Path, runs: int) -> list[Timing]:
    # Once beforehand, so that compiled modules are there, as they are after an installation.
    for code in COLD.values():
        cold(folder, code)
    taken: dict[str, list[tuple[float, float]]] = {what: [] for what in COLD}
    # In turns, so that a busy moment of the machine meets all of them.
    for _ in range(runs):
        for what, code in COLD.items():
            taken[what].append(cold(folder, code))
    return [_timing(what, times) for what, times in taken.items()]


def _timing(what: str, taken: list[tuple[float, float]]) -> Timing:
    wall = [seconds for seconds, _ in taken]
    limit = LIMIT if what in LIMITED else None
    return Timing(what, statistics.median(wall), max(wall), min(cpu for _, cpu in taken), limit)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reload", description=__doc__)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        versioned = repository(folder)
        held = prepare(folder, options.records)
        timings = measure(folder, options.runs)
    if options.json:
        print(json.dumps({"records": held, "git": versioned, "timings": [asdict(one) for one in timings]}, indent=2))
    else:
        print(f"{held:,} records, {'a' if versioned else 'no'} git repository, {options.runs} cold processes each")
        for one in timings:
            limit = f"  (limit {one.limit_s:g} s: {'holds' if one.holds else 'FALLS SHORT'})" if one.limit_s else ""
            wall = f"{one.median_s:6.3f} s, worst {one.worst_s:6.3f} s"
            print(f"  {one.what:<42} {wall}, processor {one.cpu_s:6.3f} s{limit}")
    return 0 if all(one.holds for one in timings) else 1


if __name__ == "__main__":
    sys.exit(main())
