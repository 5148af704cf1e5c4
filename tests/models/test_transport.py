"""Where questions and keys go, and where they do not."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from alma.errors import (
    ConfigError,
    MissingExtraError,
    ModelError,
    OverBudgetError,
)
from alma.models import client, registry, services
from alma.models.registry import open_model
from alma.types.asking import BudgetLimits, Prompt

pytestmark = pytest.mark.system

KEY = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(client, "BACKOFF", 0.01)


def timed(ask):
    started = time.monotonic()
    with pytest.raises(ModelError) as caught:
        ask()
    return caught.value, time.monotonic() - started


# -- where things go


def test_no_redirect_is_followed(opened, service, another_service, prompt, reply):
    for status in (301, 302, 307, 308):
        service.script = [reply(b"", status=status, headers={"location": f"{another_service.url}/v1/messages"})]
        error, _ = timed(lambda: opened(retries=2).ask(prompt))
        assert f"redirects to another address ({status})" in str(error)
    assert another_service.seen == []


def test_no_proxy_hears_what_is_asked_on_this_machine(opened, service, another_service, prompt, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, another_service.url)
    opened().ask(prompt)
    assert another_service.seen == []
    assert len(service.seen) == 1


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://example.org/v1", "to example.org unencrypted; use https"),
        ("http://127.0.0.1.example.org/v1", "unencrypted"),
        ("http://192.168.1.5:11434/v1", "allow_http: true"),
        ("ftp://127.0.0.1", "must be a URL"),
        ("127.0.0.1:80", "must be a URL"),
        ("https://", "must be a URL"),
        ("http://127.0.0.1:99999", "must be a URL"),
        (f"https://me:{KEY}@example.org", "must not contain a user name"),
        (f"https://example.org/?key={KEY}", "must not contain a user name"),
    ],
)
def test_an_address_that_nothing_may_be_sent_to_is_refused(opened, url, message):
    with pytest.raises(ConfigError, match=message) as caught:
        opened(base_url=url)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://localhost:1", "http://127.0.0.1:1/v1", "http://[::1]:1", "https://example.org"]
)
def test_an_address_on_this_machine_or_an_encrypted_one_is_fine(opened, url):
    opened(base_url=url)


def test_another_network_of_ones_own_must_be_allowed(opened):
    opened(base_url="http://192.168.1.5:11434/v1", allow_http=True)


# -- keys


def test_a_wrong_key_is_an_error_that_does_not_show_it(opened, service, prompt, reply):
    service.always = reply({"error": {"message": f"Incorrect API key provided: {KEY}."}}, status=401)
    error, _ = timed(lambda: opened(retries=3).ask(prompt))
    assert "refused the key in TEST_KEY (401)" in str(error)
    assert len(service.seen) == 1


@pytest.mark.parametrize("status", [400, 404, 429, 500])
def test_a_key_that_a_service_repeats_is_not_shown(opened, service, prompt, reply, status, caplog):
    caplog.set_level(logging.DEBUG)
    service.always = reply(f"your key {KEY} is bad {KEY}".encode(), status=status)
    model = opened(retries=1)
    error, _ = timed(lambda: model.ask(prompt))
    shown = f"{error} {error!r} {model!r} {vars(model)!r} {vars(model.model)!r} {caplog.text}"
    while (cause := error.__cause__ or error.__context__) is not None:
        shown, error = f"{shown} {cause}", cause
    assert KEY not in shown


def test_a_key_must_be_there_and_be_one(settings, engine):
    with pytest.raises(ConfigError, match="the environment variable TEST_KEY is not set"):
        open_model(settings, engine, {})
    for bad in ("with space", "ünicode", "new\nline"):
        with pytest.raises(ConfigError, match="contains characters that are not valid in an API key") as caught:
            open_model(settings, engine, {"TEST_KEY": bad})
        assert bad not in str(caught.value)


def test_the_usual_key_goes_to_the_usual_address_only(settings, service, engine, prompt):
    environ = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    open_model(replace(settings, api_key_env=None), engine, environ).ask(prompt)
    assert KEY not in json.dumps(service.seen[0].headers)
    usual = replace(settings, api_key_env=None, base_url=None)
    assert open_model(usual, engine, environ) is not None
    with pytest.raises(ConfigError, match="_API_KEY is not set"):
        open_model(usual, engine, {})


# -- secrets

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def test_no_secret_leaves_in_a_text_an_instruction_or_a_shape(opened, service):
    schema = {
        "type": "object",
        "description": f"never say {SECRET}",
        "properties": {"rules": {"type": "array", "items": {"type": "string", "enum": ["use pnpm", SECRET]}}},
        "required": ["rules"],
    }
    asked = Prompt(system=f"Look for {SECRET}.", text=f"the token is {SECRET}, use pnpm", schema=schema)
    assert opened().ask(asked).value == {"rules": ["use pnpm"]}
    told = json.dumps(service.seen[0].body) + json.dumps(service.seen[0].headers)
    assert SECRET not in told
    assert told.count("use pnpm") >= 2


def test_every_model_is_asked_through_the_client_that_redacts():
    environ = {"TEST_KEY": KEY}
    for name in ("claude-cli", "anthropic", "openai", "azure"):
        options = (
            {} if name == "claude-cli" else {"model": "m", "base_url": "http://localhost", "api_key_env": "TEST_KEY"}
        )
        assert isinstance(registry.create(name, options, environ), client.Client)


# -- what is not needed is not loaded


def test_opening_a_memory_with_a_model_loads_no_client(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("project_id: p\nembedding_provider: none\nmodel: {provider: openai, model: m}\n")
    code = (
        "import sys\nfrom alma import ALMA\n"
        f"with ALMA.from_config({str(config)!r}) as alma: alma.get_stats()\n"
        "assert not {'httpx', 'litellm', 'alma.models.registry', 'ssl'} & sys.modules.keys(), sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_missing_client_names_its_extra(opened, monkeypatch):
    monkeypatch.setattr(services.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"requires the package `httpx`; run: pip install '\.\[models\]'"):
        opened()


def test_an_exhausted_budget_sends_nothing(opened, service, prompt):
    with pytest.raises(OverBudgetError):
        opened(budget=BudgetLimits(calls=0), retries=3, repair=True).ask(prompt)
    assert service.seen == []
