"""Models by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ..errors import ConfigError, unknown
from ..ports import Model
from .claude_cli import CHEAPEST, PATH_VARIABLE, TIMEOUT, TIMEOUT_VARIABLE, ClaudeCLI
from .discreet import Discreet

Options = Mapping[str, object]
Environ = Mapping[str, str]


def create(name: str, options: Options, environ: Environ) -> Model | None:
    """The model of that name, which is told no secrets; None means that none is ever asked."""
    if name not in MODELS:
        raise ConfigError(unknown("model", name, MODELS))
    factory, valid = MODELS[name]
    for option in options:
        if option not in valid:
            raise ConfigError(_unknown_option(name, option, valid))
    model = factory(options, environ)
    return None if model is None else Discreet(model)


def _unknown_option(name: str, option: str, valid: tuple[str, ...]) -> str:
    if not valid:
        return f"the model {name!r} takes no options, so remove {option!r}"
    return unknown(f"option of the model {name!r}", option, valid)


def _none(options: Options, environ: Environ) -> None:
    return None


def _claude_cli(options: Options, environ: Environ) -> Model:
    return ClaudeCLI(
        environ,
        model=_text(options, "model", CHEAPEST),
        path=_text(options, "path", environ.get(PATH_VARIABLE, "")),
        timeout=_seconds(options, environ),
    )


def _text(options: Options, option: str, default: str) -> str:
    value = options.get(option, default)
    if not isinstance(value, str) or value.startswith("-"):
        raise ConfigError(f"the model's option `{option}` must be a name, not {value!r}")
    return value


def _seconds(options: Options, environ: Environ) -> float:
    value = options.get("timeout", environ.get(TIMEOUT_VARIABLE) or TIMEOUT)
    try:
        seconds = float(value) if isinstance(value, int | float | str) else math.nan
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= 3600:
        raise ConfigError(f"the model's `timeout` ({TIMEOUT_VARIABLE}) must be seconds from 1 to 3600, not {value!r}")
    return seconds


MODELS: Mapping[str, tuple[Callable[[Options, Environ], Model | None], tuple[str, ...]]] = {
    "none": (_none, ()),
    "claude-cli": (_claude_cli, ("model", "path", "timeout")),
}
