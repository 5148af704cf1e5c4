"""Models by name. Every model that is created here redacts what it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..engine.context import Engine
from ..errors import ConfigError, unknown
from ..ports import Model
from ..types.asking import LONGEST_TIMEOUT, PROVIDERS, ModelSettings, Prices, unfit
from .budget import Budget
from .claude_cli import CHEAPEST, PATH_VARIABLE, TIMEOUT_VARIABLE, ClaudeCLI
from .claude_cli import TIMEOUT as CLAUDE_TIMEOUT
from .client import RETRIES, Client
from .recorded import Recorded

DEAREST = Prices(15.0, 75.0)
"""An upper bound where no prices are configured: Claude Code reports the cost of a call only afterwards."""
_RETRYING_SECONDS = 60.0

Environ = Mapping[str, str]


def create(name: str, options: Mapping[str, Any], environ: Environ) -> Model | None:
    """Return the model of that name; None for `none`."""
    if name not in PROVIDERS:
        raise ConfigError(unknown("model", name, PROVIDERS))
    for option, value in options.items():
        if option not in PROVIDERS[name]:
            raise ConfigError(unfit(name, option))
        if option == "model" and value is None:
            raise ConfigError("the model's `model` must be a name, not None")
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
    if settings.provider == "none":
        return None
    if settings.provider == "recorded":
        return Recorded(*(Path(name) if name else None for name in (settings.path, settings.dump)))
    if settings.provider == "claude-cli":
        value = settings.timeout or environ.get(TIMEOUT_VARIABLE) or CLAUDE_TIMEOUT
        try:
            timeout = float(value)
        except ValueError:
            timeout = 0.0
        if not 0 < timeout <= LONGEST_TIMEOUT:
            raise ConfigError(f"{TIMEOUT_VARIABLE} must be seconds from 1 to {LONGEST_TIMEOUT:g}, not {value!r}")
        path = settings.path or environ.get(PATH_VARIABLE, "")
        return ClaudeCLI(environ, model=settings.model or CHEAPEST, path=path, timeout=timeout)
    from .services import SERVICES

    return SERVICES[settings.provider](settings, environ)
