"""Several processes on one run, and processes that are killed while they write checkpoints."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.forked import find_python

from alma import ALMA
from alma.stores.sqlite import SQLiteStore
from alma.workflow import WorkflowMemory

pytestmark = pytest.mark.system

COMMON = """
import sys
from alma import ALMA
from alma.stores.sqlite import SQLiteStore
from alma.workflow import WorkflowMemory
workflow = WorkflowMemory(ALMA(SQLiteStore(sys.argv[1]), project_id="p"))
name = sys.argv[2]

def state(number):
    rest = {"list": list(range(number % 50)), "half": number / 2, "text": "é" * (number % 97)}
    return {"by": name, "number": number} | rest
"""

TOGETHER = """
for number in range(40):
    made = workflow.checkpoint("run", "node", state(number))
    print(made.number, number, flush=True)
"""

ENDLESS = """
held = workflow.resume("run")
start = held.state["number"] + 1 if held else 0
if held:
    assert held.state == state(held.state["number"]) | {"by": held.state["by"]}, "resumed something else"
for number in range(start, 10**9):
    workflow.checkpoint("run", "node", state(number), workflow_id="crawl")
    print(number, flush=True)
"""


def start(script: str, path: Path, name: str) -> subprocess.Popen[str]:
    command = [*find_python(), COMMON + script, str(path), name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_processes_on_one_run_lose_nothing_and_number_without_gaps(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    running = {name: start(TOGETHER, path, name) for name in ("left", "right")}
    told: dict[int, tuple[str, int]] = {}
    for name, process in running.items():
        out, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        for line in out.splitlines():
            number, own = map(int, line.split())
            assert number not in told, "two were told the same number"
            told[number] = (name, own)
    with ALMA(SQLiteStore(path), project_id="p") as alma:
        workflow = WorkflowMemory(alma)
        held = workflow.list_runs(run_id="run", limit=1000).checkpoints
        assert [one.number for one in held] == list(range(80, 0, -1)), "the newest is the last"
        assert {one.number: (one.state["by"], one.state["number"]) for one in held} == told
        parents = {one.id: one.parent_id for one in held}
        assert [parents[one.id] for one in held] == [one.id for one in held[1:]] + [None]
        assert len(workflow.list_runs().runs) == 1


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="nobody can be killed here")
def test_a_killed_run_resumes_at_what_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    chance = random.Random(5)
    acknowledged = -1
    for turn in range(5):
        process = start(ENDLESS, path, str(turn))
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first, process.communicate()[1]
        time.sleep(chance.uniform(0.02, 0.2))
        process.send_signal(signal.SIGKILL)
        # Not communicate(): what was read ahead with the first line would be missing.
        rest = process.stdout.read()
        _, errors = process.communicate()
        assert not errors
        assert int(first) >= acknowledged + 1, "it began before what was acknowledged"
        acknowledged = int((first + rest).rpartition("\n")[0].rpartition("\n")[2])
        with ALMA(SQLiteStore(path), project_id="p") as alma:
            workflow = WorkflowMemory(alma)
            held = workflow.resume("run")
            assert held is not None
            # The last one may have been written without a word about it.
            assert held.state["number"] in (acknowledged, acknowledged + 1)
            number = held.state["number"]
            expected = {
                "number": number,
                "list": list(range(number % 50)),
                "half": number / 2,
                "text": "é" * (number % 97),
            }
            assert held.state == expected | {"by": str(turn)}
            assert held.number == number + 1, "one checkpoint for each number, none twice"
            assert alma.engine.store.check() == []  # type: ignore[attr-defined]
    assert acknowledged > 20
