"""LiteLLM: played by a module of the same name, and the real one on the scripted service."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from alma.errors import (
    ConfigError,
    MissingExtraError,
    ModelOutputError,
    ModelTimeoutError,
    ModelUnavailableError,
    OverBudgetError,
)
from alma.models import services
from alma.models.budget import meter
from alma.models.client import TransientModelError
from alma.models.registry import open_model
from alma.types.asking import BudgetLimits, ModelSettings, Prices, Prompt

pytestmark = pytest.mark.system

KEY = "sk-very-secret-0123456789"
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
SETTINGS = {"provider": "litellm", "model": "some/model", "retries": 0, "repair": False}


class OpenAIError(Exception):
    def __init__(self, status_code):
        super().__init__(f"the key {KEY} is bad")
        self.status_code = status_code


class Timeout(OpenAIError):
    pass


class APIConnectionError(OpenAIError):
    pass


@pytest.fixture
def litellm(monkeypatch):
    module = ModuleType("litellm")
    module.__spec__ = SimpleNamespace()
    module.exceptions = SimpleNamespace(openai=SimpleNamespace(OpenAIError=OpenAIError))
    module.asked = []
    module.said, module.reason, module.error = '{"rules": ["use pnpm"], "why": null}', "stop", None
    module.usage = {"prompt_tokens": 100, "completion_tokens": 20}

    def completion(**request):
        module.asked.append(request)
        if module.error:
            raise module.error
        choice = {"finish_reason": module.reason, "message": {"content": module.said}}
        dump = {"model": "some-1", "choices": [choice], "usage": module.usage}
        return SimpleNamespace(model_dump=lambda: dump, _hidden_params={"response_cost": 0.25})

    module.completion = completion
    monkeypatch.setitem(sys.modules, "litellm", module)
    monkeypatch.setattr(services.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(services.os, "environ", dict(os.environ))
    return module


def ask(engine, prompt, environ=None, **changes):
    return open_model(ModelSettings(**SETTINGS | changes), engine, environ or {}).ask(prompt)


def test_it_answers(litellm, engine, prompt):
    answer = ask(engine, prompt)
    assert answer.value == {"rules": ["use pnpm"]}
    assert (answer.tokens_in, answer.tokens_out, answer.cost) == (100, 20, 0.25)
    [request] = litellm.asked
    assert (request["model"], request["max_tokens"], request["num_retries"]) == ("some/model", 500, 0)
    assert request["response_format"]["json_schema"]["strict"] is True
    assert not {"api_key", "api_base"} & request.keys(), "it finds them itself"
    assert services.os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"


def test_our_prices_come_first(litellm, engine, prompt):
    assert ask(engine, prompt, prices=Prices(10.0, 0.0)).cost == pytest.approx(0.001)


def test_a_key_and_an_address_may_be_named(litellm, engine, prompt):
    ask(engine, prompt, {"K": KEY}, api_key_env="K", base_url="http://localhost:1")
    assert litellm.asked[0]["api_key"] == KEY
    assert litellm.asked[0]["api_base"] == "http://localhost:1"
    with pytest.raises(ConfigError, match="unencrypted"):
        ask(engine, prompt, base_url="http://example.org")


def test_no_secret_leaves(litellm, engine, prompt):
    ask(engine, Prompt(system=SECRET, text=f"{SECRET}, use pnpm", schema=prompt.schema))
    assert SECRET not in str(litellm.asked)
    assert ", use pnpm" in str(litellm.asked)


@pytest.mark.parametrize(
    ("error", "kind", "spent"),
    [
        (OpenAIError(401), ModelUnavailableError, (0, 0, 0.0)),
        (OpenAIError(400), ModelUnavailableError, (0, 0, 0.0)),
        (OpenAIError(429), TransientModelError, (0, 0, 0.0)),
        (OpenAIError(500), TransientModelError, None),
        (OpenAIError(None), ModelUnavailableError, (0, 0, 0.0)),
        (Timeout(408), ModelTimeoutError, None),
        (APIConnectionError(500), TransientModelError, None),
    ],
)
def test_its_errors_get_our_names_and_show_no_key(litellm, engine, prompt, error, kind, spent):
    litellm.error = error
    with pytest.raises(kind) as caught:
        ask(engine, prompt)
    assert caught.value.spent == spent
    assert KEY not in str(caught.value)
    assert caught.value.__suppress_context__, "its own words are not shown with ours"


def test_every_try_is_paid(litellm, engine, prompt, monkeypatch):
    monkeypatch.setattr("alma.models.client.BACKOFF", 0.001)
    litellm.error = OpenAIError(503)
    with pytest.raises(TransientModelError):
        ask(engine, prompt, retries=2)
    assert meter(engine)[0].calls == len(litellm.asked) == 3


@pytest.mark.parametrize(
    ("said", "reason", "message"),
    [
        ("nonsense", "stop", "not JSON"),
        ("{}", "stop", "'rules' is missing"),
        ("{", "length", "cut off"),
        ("", "content_filter", "refused"),
    ],
)
def test_what_is_no_answer_is_dropped_and_counted(litellm, engine, prompt, said, reason, message):
    litellm.said, litellm.reason = said, reason
    with pytest.raises(ModelOutputError, match=message):
        ask(engine, prompt)
    [day] = meter(engine)
    assert (day.dropped, day.tokens) == (1, 120)


def test_its_budget_holds(litellm, engine, prompt):
    ask(engine, prompt, budget=BudgetLimits(calls=1))
    with pytest.raises(OverBudgetError):
        ask(engine, prompt, budget=BudgetLimits(calls=1))


def test_it_is_an_extra(engine, prompt, monkeypatch):
    monkeypatch.setattr(services.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"requires the package `litellm`; run: pip install '\.\[litellm\]'"):
        ask(engine, prompt)


# -- the real one

REAL = """
import sys
from alma.engine.context import Engine
from alma.errors import ModelError
from alma.models.budget import meter
from alma.models.registry import open_model
from alma.stores.memory import MemoryStore
from alma.types.asking import Prompt
from alma.types.asking import ModelSettings
engine = Engine(MemoryStore(), "p")
settings = ModelSettings(provider="litellm", model="openai/small", base_url=sys.argv[1] + "/v1", api_key_env="K",
                         retries=0, repair=False, timeout=10)
model = open_model(settings, engine, {"K": sys.argv[2]})
rules = {"type": "array", "items": {"type": "string"}}
schema = {"type": "object", "properties": {"rules": rules}, "required": ["rules"]}
for _ in range(int(sys.argv[3])):
    try:
        print(model.ask(Prompt(system="Find the rules.", text="use pnpm", schema=schema)).value)
    except ModelError as error:
        print(type(error).__name__, error, error.spent)
[day] = meter(engine)
print(day.calls, day.failed, day.dropped, day.tokens)
"""


def test_the_real_one_on_the_scripted_service(downloaded, service, reply, tmp_path):
    folder = downloaded("litellm-1.106.2", "litellm==1.106.2")
    refused = {"error": {"message": f"bad key {KEY}"}}
    service.script = [
        reply(),
        reply(refused, status=401),
        reply({}, status=429),
        reply({}, status=500),
        reply(delay=30),
        reply(service.good("/chat", "nonsense")),
        reply({"error": {"message": "no"}}, status=400),
    ]
    count = len(service.script)
    done = subprocess.run(
        [sys.executable, "-c", REAL, service.url, KEY, str(count)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(folder)])},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert KEY not in done.stdout + done.stderr
    name = "litellm"
    assert done.stdout.splitlines() == [
        "{'rules': ['use pnpm']}",
        f"ModelUnavailableError {name} refused the key in K (401) (0, 0, 0.0)",
        f"TransientModelError {name} answered with 429 (0, 0, 0.0)",
        f"TransientModelError {name} answered with 500 None",
        f"ModelTimeoutError {name} did not answer within 10 s None",
        "ModelOutputError the model's answer is not JSON (8 characters) (100, 20, 0.0)",
        f"ModelUnavailableError {name} refused the request (400) (0, 0, 0.0)",
        "7 6 1 240",
    ]
    assert len(service.seen) == count
    assert service.seen[0].body["response_format"]["json_schema"]["strict"] is True
