"""What reads sessions: the program of a coding agent, or a service that the person configured.

All are asked with the same prompts, within one budget. The settings name the program by its absolute path, and it gets
the environment that a person recorded, never that of a hook.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ..engine.context import Engine
from ..errors import ConfigError, MissingExtraError, ModelUnavailableError
from ..models import registry
from ..models.budget import NOTHING, Budgeted
from ..models.readers import PROGRAMS
from ..ports import Model
from ..types.asking import BudgetLimits, Prompt
from .paths import AGENT_READER, DEFAULTS, DataDir, build_environment, read_settings, read_text

CLAUDE, PROVIDER = "claude", "provider"
KEY_FILE = "reader-key"
"""The file with the key of the configured service."""
_OLLAMA = "http://localhost:11434/v1"
_TRY = Prompt(
    system='Reply with {"ok": true}.',
    text="This is a test of the connection.",
    schema={"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
    max_tokens=200,
    version="connection-test 1",
)


def name_reader(settings: Mapping[str, Any]) -> str:
    """Return what people call the reader."""
    reader = settings["reader"]
    if reader == PROVIDER:
        return f"{settings['model_name']} at {find_address(settings)}"
    if reader == AGENT_READER:
        return "the agent in front of you"
    return "Claude" if reader == CLAUDE else PROGRAMS[reader].title


def name_command(settings: Mapping[str, Any]) -> str:
    """Return what receives the text: a program, an address, or the agent in front of the person."""
    reader = settings["reader"]
    if reader == AGENT_READER:
        return name_reader(settings)
    if reader == PROVIDER:
        return find_address(settings)
    binary, *rest = ("claude", "-p") if reader == CLAUDE else (PROGRAMS[reader].binary, *PROGRAMS[reader].arguments)
    words = [binary]
    if rest[0] == "-p" or not rest[0].startswith("-"):
        words.append(rest[0])
    return f"`{' '.join(words)}`"


def choose_model(settings: Mapping[str, Any]) -> str:
    """Return the name of the model to ask; empty for the one that the program chooses itself."""
    name: str = settings["model_name"]
    if settings["reader"] in PROGRAMS and name == DEFAULTS["model_name"]:
        return PROGRAMS[settings["reader"]].model
    return name


def find_address(settings: Mapping[str, Any]) -> str:
    """Return the host of the configured service."""
    usual = {"anthropic": "api.anthropic.com", "openai": "api.openai.com", "ollama": "localhost:11434"}
    url: str = settings["reader_url"]
    if url != DEFAULTS["reader_url"]:
        return urlsplit(url).netloc
    return usual.get(settings["reader_provider"], "no provider")


def find_program(data_dir: DataDir) -> str:
    """Return the recorded path of the reader's program. Raise ModelUnavailableError if it is missing."""
    settings = read_settings(data_dir)
    binary = "claude" if settings["reader"] == CLAUDE else PROGRAMS[settings["reader"]].binary
    program: str = settings["program"]
    advice = "record where it is: claude-smart config program PATH"
    if not os.path.isabs(program):
        raise ModelUnavailableError(f"the program `{binary}` is not recorded; {advice}", NOTHING)
    if not os.path.isfile(program) or not os.access(program, os.X_OK):
        raise ModelUnavailableError(f"the recorded program {program} is not there; {advice}", NOTHING)
    return program


def connect_reader(data_dir: DataDir, timeout: float | None = None) -> Model:
    """Return the reader as a model, without a budget. Raise ModelUnavailableError if it cannot be asked."""
    settings = read_settings(data_dir)
    options: dict[str, Any] = {"timeout": settings["program_timeout"] if timeout is None else timeout}
    environ = build_environment(data_dir)
    if settings["reader"] == PROVIDER:
        name = settings["reader_provider"]
        options |= _describe_service(settings)
        if key := read_text(os.path.join(data_dir.home, KEY_FILE)).strip():
            environ[settings["reader_key"]] = key
        name = "openai" if name == "ollama" else name
    else:
        name = f"{settings['reader']}-cli"
        options["path"] = find_program(data_dir)
        if model := choose_model(settings):
            options["model"] = model
    try:
        reader = registry.create(name, options, environ)
    except (ConfigError, MissingExtraError) as error:
        raise ModelUnavailableError(str(error), NOTHING) from error
    assert reader is not None
    return reader


def _describe_service(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the configured service. Raise ModelUnavailableError if some are missing."""
    missing = ""
    if settings["reader_provider"] == DEFAULTS["reader_provider"]:
        missing = "reader_provider anthropic, openai or ollama"
    elif settings["model_name"] == DEFAULTS["model_name"]:
        missing = "model_name NAME"
    if missing:
        raise ModelUnavailableError(f"the reader is not configured: claude-smart config {missing}", NOTHING)
    options: dict[str, Any] = {"model": settings["model_name"]}
    if settings["reader_url"] != DEFAULTS["reader_url"]:
        options["base_url"] = settings["reader_url"]
    elif settings["reader_provider"] == "ollama":
        options["base_url"] = _OLLAMA
    if settings["reader_key"] != DEFAULTS["reader_key"]:
        options["api_key_env"] = settings["reader_key"]
    return options


def try_reader(data_dir: DataDir, engine: Engine, timeout: float) -> str:
    """Ask the reader one question that says nothing of the person. Return which model answered.

    Raise ModelError if it cannot be asked, or OverBudgetError if the day's budget is used up.
    """
    limits = BudgetLimits(calls=read_settings(data_dir)["daily_calls"])
    return Budgeted(connect_reader(data_dir, timeout), engine, limits).ask(_TRY).model
