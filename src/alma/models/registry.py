"""Models by name. Whatever is made here is told no secrets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import ConfigError, unknown
from ..ports import Model
from ..types.model import LONGEST_TIMEOUT, PROVIDERS, ModelSettings, unfit
from . import chat, messages
from .claude_cli import CHEAPEST, PATH_VARIABLE, TIMEOUT, TIMEOUT_VARIABLE, ClaudeCLI
from .discreet import Discreet
from .endpoint import Endpoint, checked_url, key_in

Options = Mapping[str, object]
Environ = Mapping[str, str]


def create(name: str, options: Options, environ: Environ) -> Model | None:
    """The model of that name; None means that none is ever asked."""
    if name not in PROVIDERS:
        raise ConfigError(unknown("model", name, PROVIDERS))
    for option, value in options.items():
        if option not in PROVIDERS[name]:
            raise ConfigError(unfit(name, option))
        if option == "model" and not isinstance(value, str):
            raise ConfigError(f"the model's `model` must be a name, not {value!r}")
    given: dict[str, Any] = {**options}
    return build(ModelSettings(provider=name, **given), environ)


def build(settings: ModelSettings, environ: Environ) -> Model | None:
    model = _BUILDERS[settings.provider](settings, environ)
    if model is None:
        return None
    if settings.log is not None:
        from .sent import Logged

        model = Logged(model, settings.log)
    return Discreet(model)


def _none(settings: ModelSettings, environ: Environ) -> None:
    return None


def _recorded(settings: ModelSettings, environ: Environ) -> Model:
    from pathlib import Path

    from .recorded import Recorded

    return Recorded(Path(settings.path) if settings.path else None, Path(settings.dump) if settings.dump else None)


def _claude_cli(settings: ModelSettings, environ: Environ) -> Model:
    return ClaudeCLI(
        environ,
        model=settings.model or CHEAPEST,
        path=settings.path or environ.get(PATH_VARIABLE, ""),
        timeout=settings.timeout or _seconds(environ),
    )


def _seconds(environ: Environ) -> float:
    value = environ.get(TIMEOUT_VARIABLE) or TIMEOUT
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= LONGEST_TIMEOUT:
        raise ConfigError(f"{TIMEOUT_VARIABLE} must be seconds from 1 to {LONGEST_TIMEOUT:g}, not {value!r}")
    return seconds


def _anthropic(settings: ModelSettings, environ: Environ) -> Model:
    base, key = _where(settings, environ, messages.URL, messages.KEY_VARIABLE)
    ways = messages.WAYS_ELSEWHERE if settings.base_url else messages.WAYS
    return _remote(messages.Messages, ways, settings, messages.address(base), messages.headers(key), key)


def _openai(settings: ModelSettings, environ: Environ) -> Model:
    base, key = _where(settings, environ, chat.URL, chat.KEY_VARIABLE)
    return _remote(chat.Chat, chat.WAYS, settings, chat.address(base), chat.headers(key), key)


def _azure(settings: ModelSettings, environ: Environ) -> Model:
    if not settings.base_url:
        raise ConfigError("the model's `base_url` is missing, such as https://NAME.openai.azure.com")
    base = checked_url(settings.base_url, allow_http=settings.allow_http)
    key = key_in(environ, settings.api_key_env or chat.AZURE_KEY_VARIABLE)
    url = chat.azure_address(base, settings.model or "", settings.api_version)
    return _remote(chat.Chat, chat.WAYS, settings, url, chat.azure_headers(key), key)


def _where(settings: ModelSettings, environ: Environ, url: str, variable: str) -> tuple[str, str]:
    """The address and the key to it. The usual key is for the usual address; elsewhere only one that was named goes."""
    base = checked_url(settings.base_url or url, allow_http=settings.allow_http)
    usual = "" if settings.base_url else variable
    return base, key_in(environ, settings.api_key_env or usual)


def _remote(
    kind: Callable[..., Model],
    ways: tuple[str, ...],
    settings: ModelSettings,
    url: str,
    headers: Mapping[str, str],
    key: str,
) -> Model:
    from .wire import CONNECT_TIMEOUT, TIMEOUT, Patience, need_httpx

    need_httpx(settings.provider)
    total = settings.timeout or TIMEOUT
    patience = Patience(settings.connect_timeout or CONNECT_TIMEOUT, settings.read_timeout or total, total)
    endpoint = _endpoint(settings, url, headers, key)
    return kind(endpoint, _ways(settings, ways), patience=patience, prices=settings.prices)


def _endpoint(settings: ModelSettings, url: str, headers: Mapping[str, str], key: str) -> Endpoint:
    variable = settings.api_key_env or _USUAL.get(settings.provider, "")
    return Endpoint(settings.provider, url, settings.model or "", headers, key, variable if key else "")


def _ways(settings: ModelSettings, ways: tuple[str, ...]) -> tuple[str, ...]:
    if settings.structured == "auto":
        return ways
    if settings.structured not in ways:
        raise ConfigError(unknown(f"value of `structured` for {settings.provider}", settings.structured, ways))
    return (settings.structured,)


def _litellm(settings: ModelSettings, environ: Environ) -> Model:
    from .lite import TIMEOUT, LiteLLM, need_litellm

    need_litellm()
    url = checked_url(settings.base_url, allow_http=settings.allow_http) if settings.base_url else ""
    key = key_in(environ, settings.api_key_env or "")
    if settings.structured == "tool":
        raise ConfigError(unknown("value of `structured` for litellm", "tool", ("auto", *chat.WAYS)))
    return LiteLLM(
        _endpoint(settings, url, {}, key),
        structured=settings.structured,
        timeout=settings.timeout or TIMEOUT,
        prices=settings.prices,
    )


_USUAL = {"anthropic": messages.KEY_VARIABLE, "openai": chat.KEY_VARIABLE, "azure": chat.AZURE_KEY_VARIABLE}
_BUILDERS: Mapping[str, Callable[[ModelSettings, Environ], Model | None]] = {
    "none": _none,
    "claude-cli": _claude_cli,
    "anthropic": _anthropic,
    "openai": _openai,
    "azure": _azure,
    "litellm": _litellm,
    "recorded": _recorded,
}
