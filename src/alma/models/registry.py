"""Models by name. Every model that is created here redacts what it is sent."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..engine.context import Engine
from ..errors import ConfigError, ModelUnavailableError, unknown
from ..ports import Model
from ..types.asking import (
    LONGEST_TIMEOUT,
    MODELS,
    PROVIDERS,
    READERS,
    Answer,
    ModelSettings,
    Prices,
    Prompt,
    describe_unfit_option,
)
from .budget import Budget
from .claude_cli import CHEAPEST, PATH_VARIABLE, TIMEOUT_VARIABLE, ClaudeCLI
from .client import RETRIES, Client, check
from .program import TIMEOUT as PROGRAM_TIMEOUT
from .readers import ReaderModel

# An upper bound where no prices are configured: Claude Code reports the cost of a call only afterwards.
DEAREST = Prices(15.0, 75.0)
_RETRYING_SECONDS = 60.0

Environ = Mapping[str, str]


def create(name: str, options: Mapping[str, Any], environ: Environ) -> Model | None:
    """Return the model of that name; None for `none`."""
    if name not in PROVIDERS:
        raise ConfigError(unknown("model", name, PROVIDERS))
    for option, value in options.items():
        if option not in PROVIDERS[name]:
            raise ConfigError(describe_unfit_option(name, option))
        if option == "model" and value is None:
            raise ConfigError("the model's `model` must be a name, not null")
    return build(ModelSettings(provider=name, **options), environ)


def build(settings: ModelSettings, environ: Environ) -> Model | None:
    """Return the model without a budget; None when no model is configured."""
    provider = _connect(settings, environ)
    return provider and Client(provider, log=settings.log)


def open_model(settings: ModelSettings, engine: Engine, environ: Environ) -> Model | None:
    """Return the model with its budget, retries and repair. A wrong setting raises here, not when it is asked."""
    provider = _connect(settings, environ)
    return provider and Client(
        provider,
        log=settings.log,
        budget=Budget(engine, settings.budget, settings.prices or DEAREST),
        retries=RETRIES if settings.retries is None else settings.retries,
        within=settings.timeout or _RETRYING_SECONDS,
        repair=settings.repair,
    )


def _connect(settings: ModelSettings, environ: Environ) -> Model | None:
    part = MODELS.find(settings.provider)
    connect: Callable[[ModelSettings, Environ], Model | None] = part.load()
    model = connect(settings, environ)
    if not part.is_built_in and not isinstance(model, Model):
        raise ConfigError(f"{part.target} of the package {part.package} returned no model; see alma.ports.Model")
    return model


def connect_nothing(settings: ModelSettings, environ: Environ) -> None:
    """Return no model."""


def connect_recorded(settings: ModelSettings, environ: Environ) -> Model:
    """Return a model that replays recorded answers."""
    return Recorded(*(Path(name) if name else None for name in (settings.path, settings.dump)))


def connect_program(settings: ModelSettings, environ: Environ) -> Model:
    """Return a model that asks the program of a coding agent."""
    value = settings.timeout or environ.get(TIMEOUT_VARIABLE) or PROGRAM_TIMEOUT
    try:
        timeout = float(value)
    except ValueError:
        timeout = 0.0
    if not 0 < timeout <= LONGEST_TIMEOUT:
        raise ConfigError(
            f"{TIMEOUT_VARIABLE} must be a number of seconds from 1 to {LONGEST_TIMEOUT:g}, not {value!r}"
        )
    host = settings.provider.removesuffix("-cli")
    if host in READERS:
        return ReaderModel(host, environ, model=settings.model or "", path=settings.path or "", timeout=timeout)
    path = settings.path or environ.get(PATH_VARIABLE, "")
    return ClaudeCLI(environ, model=settings.model or CHEAPEST, path=path, timeout=timeout)


# --- answers that were recorded before
#
# Prompts are written to one file, answers are read from another. Both are JSON lines. A prompt has an `id`, the digest
# of its wording, text and schema; an answer has that `id` and a `value`. Quality can be measured this way on answers of
# a real model, without a network.


class Recorded:
    """Replays the answers in `answers`. A prompt without an answer is appended to `dump` and raises."""

    name = "recorded"

    def __init__(self, answers: Path | None, dump: Path | None) -> None:
        if answers is None and dump is None:
            raise ConfigError("the recorded model needs `path`, a file of answers, or `dump`, a file for prompts")
        self._answers = _load_answers(answers) if answers is not None else {}
        self._dump = dump

    def ask(self, prompt: Prompt) -> Answer:
        """Return the recorded answer to a prompt, or raise ModelUnavailableError."""
        name = digest_prompt(prompt)
        if name in self._answers:
            value = self._answers[name]
            check(value, prompt.schema)
            return Answer(value=value, model=self.name)
        if self._dump is None:
            raise ModelUnavailableError(f"there is no recorded answer {name} (prompt {prompt.version or 'unnamed'})")
        line = {"id": name, "version": prompt.version, "system": prompt.system, "text": prompt.text}
        target = os.open(self._dump, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with open(target, "a", encoding="utf-8") as file:
            file.write(json.dumps({**line, "schema": prompt.schema}, ensure_ascii=False) + "\n")
        raise ModelUnavailableError(f"the prompt {name} was written to {self._dump}; its answer is not recorded yet")


def digest_prompt(prompt: Prompt) -> str:
    """Return the id under which the answer to a prompt is recorded."""
    parts = [prompt.version, prompt.system, prompt.text, json.dumps(prompt.schema, sort_keys=True)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _load_answers(path: Path) -> Mapping[str, Any]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"the recorded answers {path} cannot be read: {error.strerror}") from error
    answers = {}
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                row = json.loads(line)
                answers[row["id"]] = row["value"]
            except (ValueError, KeyError, TypeError):
                raise ConfigError(f"{path}:{number} must be a JSON object with `id` and `value`") from None
    return answers
