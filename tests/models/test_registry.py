from __future__ import annotations

import pytest

from alma.errors import ConfigError
from alma.models.client import Client
from alma.models.registry import create
from alma.types.asking import Answer, Prompt

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def test_none_is_no_model():
    assert create("none", {}, {}) is None


def test_claude_asks_the_cheapest_unless_told():
    assert create("claude-cli", {}, {}).name == "claude-cli:haiku"
    assert create("claude-cli", {"model": "sonnet"}, {}).name == "claude-cli:sonnet"


def test_an_unknown_model_names_the_valid_ones():
    with pytest.raises(
        ConfigError, match="unknown model 'claude'. Did you mean 'claude-cli'. Valid: none, claude-cli, anthropic,"
    ):
        create("claude", {}, {})


def test_an_unknown_option_names_the_valid_ones():
    with pytest.raises(
        ConfigError, match="unknown option 'modle' of the model 'claude-cli'.*Valid: model, path, timeout"
    ):
        create("claude-cli", {"modle": "haiku"}, {})
    with pytest.raises(ConfigError, match="the model 'none' takes no options, so remove 'model'"):
        create("none", {"model": "haiku"}, {})


@pytest.mark.parametrize("model", [3, None, "--dangerously-skip-permissions"])
def test_a_model_is_a_name(model):
    with pytest.raises(ConfigError, match="`model` must be a name"):
        create("claude-cli", {"model": model}, {})


@pytest.mark.parametrize("timeout", ["soon", "0", "-1", "nan", "inf", "99999"])
def test_a_timeout_that_is_no_number_of_seconds_is_refused(timeout):
    with pytest.raises(ConfigError, match="CLAUDE_SMART_CLI_TIMEOUT"):
        create("claude-cli", {}, {"CLAUDE_SMART_CLI_TIMEOUT": timeout})


def test_no_model_is_told_a_secret():
    heard = []

    class Fake:
        name = "fake"

        def ask(self, prompt):
            heard.append(prompt)
            return Answer(value={}, model="fake")

    Client(Fake()).ask(Prompt(system="find rules", text=f"the token is {SECRET}, use pnpm", schema={}))
    assert SECRET not in heard[0].text
    assert heard[0].text.endswith(", use pnpm")
    assert heard[0].system == "find rules"
