"""Embedders by name."""

from __future__ import annotations

import functools
import importlib.util
import logging
from collections.abc import Callable, Mapping

from alma.errors import ConfigError, MissingExtraError, install_command, unknown
from alma.ports import Embedder

from .hash import HashEmbedder
from .local import EXTRA, PACKAGES, LocalEmbedder

Options = Mapping[str, object]
Factory = Callable[[int | None, Options], Embedder | None]

PATIENCE = ("timeout", "retries")
OPENAI_OPTIONS = ("api_key", "model", "base_url", *PATIENCE)
AZURE_OPTIONS = ("endpoint", "deployment", "api_key", "api_version", *PATIENCE)
USUAL_VARIABLES = {
    ("openai", "api_key"): "OPENAI_API_KEY",
    ("azure", "api_key"): "AZURE_OPENAI_API_KEY",
    ("azure", "endpoint"): "AZURE_OPENAI_ENDPOINT",
    ("azure", "deployment"): "AZURE_OPENAI_DEPLOYMENT",
}


def create(provider: str, *, dim: int | None, options: Options) -> Embedder | None:
    """The embedder of that name; None means that words alone are searched."""
    if provider not in PROVIDERS:
        raise ConfigError(unknown("embedder", provider, PROVIDERS))
    if dim is not None and dim < 1:
        raise ConfigError(f"`embedding_dim` must be at least 1, not {dim}")
    factory, valid = PROVIDERS[provider]
    for option in options:
        if option not in valid:
            raise ConfigError(_unknown_option(provider, option, valid))
    return factory(dim, options)


def _unknown_option(provider: str, option: str, valid: tuple[str, ...]) -> str:
    if not valid:
        return f"the embedder {provider!r} takes no options, so remove {option!r}"
    return unknown(f"option of the embedder {provider!r}", option, valid)


def _local(dim: int | None, options: Options) -> Embedder:
    if dim not in (None, LocalEmbedder.dim):
        right = LocalEmbedder.dim
        raise ConfigError(
            f"the local embedder has {right} dimensions, not {dim}: set `embedding_dim` to {right} or leave it out"
        )
    if missing := _missing():
        raise MissingExtraError(missing[0], EXTRA, "The local embedder")
    return LocalEmbedder()


def _missing() -> list[str]:
    return [package for package in PACKAGES if importlib.util.find_spec(package) is None]


def _hash(dim: int | None, options: Options) -> Embedder:
    return HashEmbedder() if dim is None else HashEmbedder(dim)


def _auto(dim: int | None, options: Options) -> Embedder | None:
    missing = _missing()
    if not missing:
        return _local(dim, options)
    _say_words_only(", ".join(missing))
    return None


def _none(dim: int | None, options: Options) -> None:
    return None


def _openai(dim: int | None, options: Options) -> Embedder:
    from .remote import OPENAI_URL, RETRIES, TIMEOUT, OpenAIEmbedder

    return OpenAIEmbedder(
        _required("openai", options, "api_key"),
        model=_text(options, "model", "text-embedding-3-small"),
        base_url=_text(options, "base_url", OPENAI_URL),
        dim=dim,
        timeout=_number(options, "timeout", TIMEOUT),
        retries=_count(options, "retries", RETRIES),
    )


def _azure(dim: int | None, options: Options) -> Embedder:
    from .remote import AZURE_VERSION, RETRIES, TIMEOUT, AzureEmbedder

    return AzureEmbedder(
        _required("azure", options, "endpoint"),
        _required("azure", options, "deployment"),
        _required("azure", options, "api_key"),
        api_version=_text(options, "api_version", AZURE_VERSION),
        dim=dim,
        timeout=_number(options, "timeout", TIMEOUT),
        retries=_count(options, "retries", RETRIES),
    )


def _required(provider: str, options: Options, option: str) -> str:
    value = _text(options, option, "")
    if not value:
        variable = USUAL_VARIABLES[provider, option]
        raise ConfigError(
            f"the embedder {provider!r} needs the option `{option}`, usually `{option}: ${{{variable}}}` with the "
            f"environment variable {variable} set"
        )
    return value


def _text(options: Options, option: str, default: str) -> str:
    value = options.get(option)
    if value is None:
        return default
    if not isinstance(value, str):
        raise ConfigError(f"the embedder's option `{option}` must be a text, not {type(value).__name__}")
    return value


def _number(options: Options, option: str, default: float) -> float:
    value = options.get(option, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise ConfigError(f"the embedder's option `{option}` must be a number above 0, not {value!r}")
    return float(value)


def _count(options: Options, option: str, default: int) -> int:
    value = options.get(option, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"the embedder's option `{option}` must be a whole number from 0, not {value!r}")
    return value


@functools.cache
def _say_words_only(missing: str) -> None:
    logging.getLogger("alma").warning(
        "No embedder (missing: %s): memories are found by words only. For meaning too: %s",
        missing,
        install_command(EXTRA),
    )


PROVIDERS: Mapping[str, tuple[Factory, tuple[str, ...]]] = {
    "local": (_local, ()),
    "hash": (_hash, ()),
    "mock": (_hash, ()),
    "azure": (_azure, AZURE_OPTIONS),
    "openai": (_openai, OPENAI_OPTIONS),
    "auto": (_auto, ()),
    "none": (_none, ()),
}
