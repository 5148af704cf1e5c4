"""Many processes, one budget: through the configuration, the store and a real connection."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
import yaml

from alma.app import open_memory
from alma.config import load
from alma.engine.context import Engine
from alma.models.budget import meter, usage
from alma.stores.sqlite import SQLiteStore

RACERS, TRIES = 5, 6
TOOK = 2000
ASK = """
import sys
from alma import ALMA
from alma.errors import ModelError, OverBudgetError
from alma.types.asking import Prompt
rules = {"type": "array", "items": {"type": "string"}}
schema = {"type": "object", "properties": {"rules": rules}, "required": ["rules"]}
prompt = Prompt(system="Find the rules.", text="no, use pnpm", schema=schema, max_tokens=500)
got = over = 0
with ALMA.from_config(sys.argv[1]) as alma:
    model = alma.model
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(int(sys.argv[2])):
        try:
            got += model.ask(prompt).value == {"rules": ["use pnpm"]}
        except OverBudgetError:
            over += 1
        except ModelError:
            pass
print(got, over)
"""


@pytest.fixture
def provider():
    return "openai"


@pytest.fixture
def configured(tmp_path, service):
    """Writes a configuration with that budget; the service says that each question took 1,900 tokens and 100."""
    usage = {"prompt_tokens": TOOK - 100, "completion_tokens": 100}
    service.good = lambda path, said=None, **more: type(service).good(service, path, said, usage=usage, **more)

    def write(**budget):
        model = {
            "provider": "openai",
            "model": "small",
            "base_url": f"{service.url}/v1",
            "prices": {"input": 1000.0, "output": 1000.0},
            "retries": 2,
            "timeout": 30,
            "budget": budget,
        }
        file = tmp_path / "config.yaml"
        file.write_text(yaml.safe_dump({"project_id": "p", "embedding_provider": "none", "model": model}))
        # The file is made before the race, which is about the budget.
        open_memory(load(file)).close()
        return file

    return write


def start(file, tries=TRIES):
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", ASK, str(file), str(tries)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    return process


def race(file):
    racers = [start(file) for _ in range(RACERS)]
    ended = [racer.communicate("go\n", timeout=120) for racer in racers]
    assert [errors for _, errors in ended] == [""] * RACERS
    return [tuple(map(int, out.split())) for out, _ in ended]


def day_of(file):
    config = load(file)
    store = SQLiteStore(config.path)
    try:
        [day] = meter(Engine(store, "p"))
    finally:
        store.close()
    return day


LIMITS = [
    ({"calls": 7}, lambda requests: requests <= 7),
    ({"calls": None, "tokens": 25_000}, lambda requests: requests * TOOK <= 25_000),
    ({"calls": None, "cost": 25.0}, lambda requests: requests * TOOK * 1e-3 <= 25.0),
]


@pytest.mark.parametrize(("budget", "holds"), LIMITS, ids=["calls", "tokens", "cost"])
def test_processes_racing_never_pass_the_budget(configured, service, budget, holds):
    file = configured(**budget)
    ended = race(file)
    requests = len(service.seen)
    assert holds(requests), f"{requests} questions were sent"
    assert sum(got for got, _ in ended) == requests >= 5
    assert sum(over for _, over in ended) == RACERS * TRIES - requests > 0
    day = day_of(file)
    assert (day.calls, day.tokens, day.aside_tokens) == (requests, requests * TOOK, 0)
    assert day.cost == pytest.approx(requests * TOOK * 1e-3)


def test_tries_and_mendings_of_all_processes_are_paid_for(configured, service, reply):
    service.script = [reply({}, status=503) for _ in range(4)] + [reply(b"nonsense") for _ in range(3)]
    file = configured(calls=12)
    race(file)
    assert len(service.seen) == 12
    day = day_of(file)
    assert (day.calls, day.failed, day.dropped) == (12, 7, 3)


@pytest.mark.skipif(os.name == "nt", reason="there is no such signal")
def test_who_is_killed_in_the_middle_has_spent_what_was_set_aside(configured, service, reply):
    service.script = [reply(delay=90)]
    file = configured(calls=None, tokens=4000, cost=4.0)
    victim = start(file, 1)
    victim.stdin.write("go\n")
    victim.stdin.flush()
    deadline = time.monotonic() + 60
    while not service.seen and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(service.seen) == 1
    os.kill(victim.pid, signal.SIGKILL)
    victim.communicate(timeout=20)
    day = day_of(file)
    assert (day.calls, day.tokens, day.failed) == (1, 0, 0)
    assert 2000 < day.aside_tokens <= 4000
    assert 2.0 < day.aside_cost <= 4.0
    heir = start(file, 3)
    out, _ = heir.communicate("go\n", timeout=60)
    assert out.split() == ["0", "3"]
    assert len(service.seen) == 1
    config = load(file)
    with open_memory(config) as alma:
        left = usage(alma.engine, config.model).left
    assert (left.tokens, left.cost) == (4000 - day.aside_tokens, pytest.approx(4.0 - day.aside_cost))
