"""The section `model` of the configuration, from the file to the memory's own model."""

from __future__ import annotations

from dataclasses import asdict

import pytest
import yaml

from alma import ALMA
from alma.app import open_memory
from alma.config import load
from alma.errors import ConfigError, OverBudgetError
from alma.models.budget import by_model, usage
from alma.models.claude_cli import ClaudeCLI
from alma.stores.memory import MemoryStore
from alma.types.asking import Answer, BudgetLimits, ModelSettings, Prices


@pytest.fixture
def provider():
    return "openai"


@pytest.fixture
def write(tmp_path):
    def go(model):
        file = tmp_path / ".alma" / "config.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(yaml.safe_dump({"alma": {"project_id": "p", "embedding_provider": "none", "model": model}}))
        return file

    return go


def test_none_is_the_default(write):
    assert load(write(None)).model == ModelSettings()
    with ALMA.from_config(write({"provider": "none"})) as alma:
        assert alma.model is None
    with ALMA(MemoryStore()) as alma:
        assert alma.model is None


def test_the_whole_section_is_read(write, tmp_path):
    found = load(
        write(
            {
                "provider": "azure",
                "model": "m",
                "base_url": "https://x.example.org",
                "api_key_env": "MY_KEY",
                "api_version": "2024-10-21",
                "timeout": 30,
                "connect_timeout": 5,
                "read_timeout": 20,
                "retries": 1,
                "structured": "json_object",
                "repair": False,
                "allow_http": False,
                "prices": {"input": 1, "output": 5.5},
                "budget": {"calls": None, "tokens": 1000, "cost": 0.5},
                "log": "logs/sent.jsonl",
            }
        )
    ).model
    assert found.prices == Prices(1, 5.5)
    assert found.budget == BudgetLimits(calls=None, tokens=1000, cost=0.5)
    assert found.log == tmp_path / "logs" / "sent.jsonl"
    assert (found.timeout, found.retries, found.repair) == (30, 1, False)


OPENAI = {"provider": "openai", "model": "m"}


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("openai", "model must be a mapping with keys from: provider, model"),
        ({"provider": "opnai"}, "unknown model 'opnai'. Did you mean 'openai'?"),
        ({"provider": "openai"}, "`model` is missing; set it to the name of a model of openai"),
        ({"povider": "openai"}, "unknown key 'povider' in model. Did you mean 'provider'?"),
        ({"provider": "none", "model": "m"}, "the model 'none' takes no options, so remove 'model'"),
        ({"provider": "claude-cli", "base_url": "https://x"}, "unknown option 'base_url' of the model 'claude-cli'"),
        (OPENAI | {"api_version": "1"}, "unknown option 'api_version' of the model 'openai'"),
        (OPENAI | {"path": "/bin/claude"}, "unknown option 'path' of the model 'openai'"),
        (OPENAI | {"timeout": 0}, "`timeout` must be a number of seconds up to 3600, not 0"),
        (OPENAI | {"timeout": "1m"}, "`timeout` must be a number of seconds"),
        (OPENAI | {"read_timeout": True}, "`read_timeout` must be a number of seconds"),
        (OPENAI | {"retries": -1}, "`retries` must be a whole number from 0 to 10"),
        (OPENAI | {"retries": 1.5}, "`retries` must be"),
        (OPENAI | {"structured": "jsonschema"}, "unknown value 'jsonschema' of the model's `structured`. Did you mean"),
        (OPENAI | {"allow_http": "yes"}, "`allow_http` must be true or false"),
        (OPENAI | {"model": 4}, "`model` must be a name, not 4"),
        (OPENAI | {"budget": {"call": 3}}, "unknown key 'call' in model.budget. Did you mean 'calls'?"),
        (OPENAI | {"budget": {"calls": -1}}, "budget.calls must be a whole number of 0 or more"),
        (OPENAI | {"budget": {"tokens": 1.5}}, "budget.tokens must be a whole number"),
        (OPENAI | {"budget": {"cost": "1 $"}}, "budget.cost must be an amount in US dollars"),
        (OPENAI | {"budget": {"cost": float("inf")}}, "budget.cost must be an amount in US dollars"),
        (OPENAI | {"budget": {"cost": 1}}, "a budget of `cost` needs the model's `prices`"),
        (OPENAI | {"budget": 3}, "model.budget must be a mapping"),
        (OPENAI | {"prices": {"input": 1}}, "model.prices must set both input and output"),
        (
            OPENAI | {"prices": {"input": 1, "output": -2}},
            "prices.output must be the price of a million tokens in US dollars",
        ),
        (OPENAI | {"prices": {"in": 1, "out": 2}}, "unknown key 'in' in model.prices"),
        (OPENAI | {"log": 3}, "model.log must be a non-empty text"),
    ],
)
def test_what_does_not_fit_is_told_with_what_does(write, section, message):
    with pytest.raises(ConfigError) as caught:
        load(write(section))
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(write(section)))


@pytest.mark.parametrize(
    "section", [{"api_key": "sk-abcDEF123"}, {"api_key_env": "sk-abcDEF123"}, {"api_key_env": "AIzaSyabcDEF123"}]
)
def test_a_key_in_the_file_is_refused_and_not_shown(write, section):
    with pytest.raises(ConfigError, match="api_key_env") as caught:
        load(write(OPENAI | section))
    assert "abcDEF123" not in str(caught.value)


def test_a_memory_has_the_model_of_its_configuration(write, service, prompt):
    file = write(OPENAI | {"base_url": f"{service.url}/v1", "budget": {"calls": 2}})
    with ALMA.from_config(file) as alma:
        assert alma.model is alma.model
        assert alma.model.ask(prompt).value == {"rules": ["use pnpm"]}
        alma.model.ask(prompt)
    with ALMA.from_config(file) as alma, pytest.raises(OverBudgetError):
        alma.model.ask(prompt)
    assert len(service.seen) == 2


def test_what_is_wrong_with_a_model_is_told_when_it_is_first_wanted(write, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ALMA.from_config(write(OPENAI)) as alma:
        alma.add_domain_knowledge(agent="a", domain="d", fact="f")
        with pytest.raises(ConfigError, match="the environment variable OPENAI_API_KEY is not set"):
            _ = alma.model


def test_claude_code_can_be_the_model(write, monkeypatch):
    asked = []

    def ask(self, prompt):
        asked.append(self.name)
        return Answer(value={"rules": []}, model="haiku", tokens_in=5, tokens_out=1, cost=0.01)

    monkeypatch.setattr(ClaudeCLI, "ask", ask)
    file = write({"provider": "claude-cli", "model": "sonnet", "timeout": 5, "budget": {"cost": 1.0}})
    config = load(file)
    with open_memory(config) as alma:
        from alma.types.asking import Prompt

        alma.model.ask(Prompt(system="s", text="t", schema={"type": "object"}))
        assert usage(alma.engine, config.model).left.cost == pytest.approx(0.99)
    assert asked == ["claude-cli:sonnet"]


def test_a_model_of_ones_own_can_be_given():
    class Mine:
        name = "mine"

        def ask(self, prompt):
            return Answer(value=1, model="mine")

    mine = Mine()
    with ALMA(MemoryStore(), model=mine) as alma:
        assert alma.model is mine
    opened = []
    with ALMA(MemoryStore(), model=lambda engine: opened.append(engine) or mine) as alma:
        assert not opened
        assert alma.model is mine
        assert alma.model is mine
    assert len(opened) == 1


def test_usage_tells_each_model_and_what_is_left(write, service, reply, prompt):
    section = OPENAI | {
        "base_url": f"{service.url}/v1",
        "retries": 0,
        "repair": False,
        "prices": {"input": 10.0, "output": 50.0},
        "budget": {"calls": 10, "tokens": 100_000, "cost": 1.0},
    }
    config = load(write(section))
    with open_memory(config) as alma:
        empty = usage(alma.engine, config.model)
        assert (empty.days, empty.left.calls, empty.today.calls) == ((), 10, 0)
        alma.model.ask(prompt)
        service.said = "nonsense"
        with pytest.raises(Exception, match="not JSON"):
            alma.model.ask(prompt)
        service.script = [reply({}, status=503)]
        with pytest.raises(Exception, match="503"):
            alma.model.ask(prompt)
        found = usage(alma.engine, config.model)
    [used] = by_model(found.today)
    cost = 2 * (100 * 10e-6 + 20 * 50e-6)
    assert asdict(used) == {
        "model": "openai:m",
        "calls": 3,
        "failed": 2,
        "dropped": 1,
        "tokens_in": 200,
        "tokens_out": 40,
        "cost": pytest.approx(cost),
    }
    assert (found.left.calls, found.left.tokens) == (7, 100_000 - 240)
    assert found.left.cost == pytest.approx(1.0 - cost)
    assert found.limits.cost == 1.0
    assert "3 calls (2 failed, 1 of them answered uselessly)" in str(found.days[0])


def test_usage_needs_no_key_and_no_model(write, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    config = load(write(OPENAI))
    with open_memory(config) as alma:
        assert usage(alma.engine, config.model).left.calls == 100
