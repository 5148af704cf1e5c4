"""Many processes, one budget: through the configuration, the store and a real connection."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack, contextmanager

import pytest
import yaml
from tests.forked import share_forks

from alma.app import open_memory
from alma.config import load
from alma.engine.context import Engine
from alma.models.budget import meter, usage
from alma.stores.sqlite import SQLiteStore

pytestmark = pytest.mark.system

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
for tries in sys.stdin:
    got = over = 0
    with ALMA.from_config(sys.argv[1]) as alma:
        model = alma.model
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(int(tries)):
            try:
                got += model.ask(prompt).value == {"rules": ["use pnpm"]}
            except OverBudgetError:
                over += 1
            except ModelError:
                pass
    print(got, over, flush=True)
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
        for old in tmp_path.rglob("*.db*"):
            old.unlink()
        file.write_text(yaml.safe_dump({"project_id": "p", "embedding_provider": "none", "model": model}))
        # The file is made before the race, which is about the budget.
        open_memory(load(file)).close()
        return file

    return write


@contextmanager
def start(file, count=RACERS):
    """Start processes that ask each time they are told how often, with the configuration that the file has then."""
    with ExitStack() as stack:
        racers = []
        for _ in range(count):
            process = share_forks().start(ASK, file.parent, arguments=[str(file)], with_pipes=True)
            racers.append(process)
            stack.callback(process.kill)
        yield racers


def prepare(racers, tries=TRIES):
    for racer in racers:
        tell(racer, str(tries))
    for racer in racers:
        assert racer.stdout.readline() == "ready\n", racer.stderr.read()


def tell(racer, line):
    racer.stdin.write(f"{line}\n")
    racer.stdin.flush()


def race(racers):
    prepare(racers)
    for racer in racers:
        tell(racer, "go")
    return [tuple(map(int, racer.stdout.readline().split())) for racer in racers]


def finish(racers):
    ended = [racer.communicate(timeout=120) for racer in racers]
    assert ended == [("", "")] * len(racers)


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


def test_processes_racing_never_pass_the_budget(configured, service, reply):
    file = configured()
    with start(file) as racers:
        for budget, holds in LIMITS:
            configured(**budget)
            before = len(service.seen)
            ended = race(racers)
            requests = len(service.seen) - before
            assert holds(requests), f"{requests} questions were sent with {budget}"
            assert sum(got for got, _ in ended) == requests >= 5
            assert sum(over for _, over in ended) == RACERS * TRIES - requests > 0
            day = day_of(file)
            assert (day.calls, day.tokens, day.aside_tokens) == (requests, requests * TOOK, 0)
            assert day.cost == pytest.approx(requests * TOOK * 1e-3)

        # Tries and mendings of all processes are paid for.
        service.script = [reply({}, status=503) for _ in range(4)] + [reply(b"nonsense") for _ in range(3)]
        configured(calls=12)
        before = len(service.seen)
        race(racers)
        assert len(service.seen) - before == 12
        day = day_of(file)
        assert (day.calls, day.failed, day.dropped) == (12, 7, 3)
        finish(racers)


@pytest.mark.skipif(os.name == "nt", reason="there is no such signal")
def test_who_is_killed_in_the_middle_has_spent_what_was_set_aside(configured, service, reply):
    service.script = [reply(delay=90)]
    file = configured(calls=None, tokens=4000, cost=4.0)
    with start(file, 2) as (victim, heir):
        prepare([victim], 1)
        tell(victim, "go")
        deadline = time.monotonic() + 60
        while not service.seen and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(service.seen) == 1
        os.kill(victim.pid, signal.SIGKILL)
        victim.communicate(timeout=20)
        check_heir(file, service, heir)


def check_heir(file, service, heir):
    day = day_of(file)
    assert (day.calls, day.tokens, day.failed) == (1, 0, 0)
    assert 2000 < day.aside_tokens <= 4000
    assert 2.0 < day.aside_cost <= 4.0
    prepare([heir], 3)
    tell(heir, "go")
    assert heir.stdout.readline().split() == ["0", "3"]
    finish([heir])
    assert len(service.seen) == 1
    config = load(file)
    with open_memory(config) as alma:
        left = usage(alma.engine, config.model).left
    assert (left.tokens, left.cost) == (4000 - day.aside_tokens, pytest.approx(4.0 - day.aside_cost))
