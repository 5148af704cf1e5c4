"""Vectors of texts: a model on this machine, a service, or hashes of words. Embedders are made here, by name."""

from __future__ import annotations

import functools
import importlib.util
import logging
from collections.abc import Mapping
from typing import Any

from ..errors import ConfigError, MissingExtraError, describe_type, install_command, unknown
from ..ports import Embedder
from . import onnx
from .hash import HashEmbedder
from .local import EXTRA, PACKAGES, LocalEmbedder

Options = Mapping[str, object]

# Every provider with its options.
PROVIDERS: Mapping[str, tuple[str, ...]] = {
    "local": (),
    "onnx": ("path",),
    "hash": (),
    "mock": (),
    "azure": ("endpoint", "deployment", "api_key", "api_version", "timeout", "retries"),
    "openai": ("api_key", "model", "base_url", "timeout", "retries"),
    "auto": (),
    "none": (),
}
_OFFERED = ("auto", "local", "onnx", "openai", "azure", "hash", "none")  # `mock` is another name for `hash`.
# The options that a provider needs, with the environment variable that usually holds each.
REQUIRED = {
    "openai": {"api_key": "OPENAI_API_KEY"},
    "azure": {
        "endpoint": "AZURE_OPENAI_ENDPOINT",
        "deployment": "AZURE_OPENAI_DEPLOYMENT",
        "api_key": "AZURE_OPENAI_API_KEY",
    },
}


def create(provider: str, *, dim: int | None, options: Options) -> Embedder | None:
    """Return the embedder of that name; None means that memories are searched by words alone."""
    if provider not in PROVIDERS:
        raise ConfigError(unknown("embedder", provider, _OFFERED))
    if dim is not None and dim < 1:
        raise ConfigError(f"`embedding_dim` must be at least 1, not {dim}")
    _check_options(provider, options)
    if provider == "none":
        return None
    if provider in ("hash", "mock"):
        return HashEmbedder() if dim is None else HashEmbedder(dim)
    if provider in REQUIRED:
        from .remote import AzureEmbedder, OpenAIEmbedder

        values: dict[str, Any] = {option: value for option, value in options.items() if value is not None}
        return OpenAIEmbedder(dim=dim, **values) if provider == "openai" else AzureEmbedder(dim=dim, **values)
    packages = onnx.PACKAGES if provider == "onnx" else PACKAGES
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if provider == "onnx":
        if not options.get("path"):
            raise ConfigError(f"the embedder 'onnx' needs the option `path`: {onnx.LAYOUT}")
        if missing:
            raise MissingExtraError(missing[0], onnx.EXTRA, "The onnx embedder")
        return onnx.OnnxEmbedder(str(options["path"]), dim)
    if provider == "auto" and missing:
        _say_words_only(", ".join(missing))
        return None
    if dim not in (None, LocalEmbedder.dim):
        right = LocalEmbedder.dim
        raise ConfigError(
            f"the local embedder has {right} dimensions, not {dim}: set `embedding_dim` to {right} or leave it out"
        )
    if missing:
        raise MissingExtraError(missing[0], EXTRA, "The local embedder")
    return LocalEmbedder()


def _check_options(provider: str, options: Options) -> None:
    valid = PROVIDERS[provider]
    for option, value in options.items():
        if not valid:
            raise ConfigError(f"the embedder {provider!r} takes no options, so remove {option!r}")
        if option not in valid:
            raise ConfigError(unknown(f"option of the embedder {provider!r}", option, valid))
        if option == "timeout":
            is_fit, expected = type(value) in (int, float) and value > 0, f"a number above 0, not {value!r}"  # type: ignore[operator]
        elif option == "retries":
            is_fit, expected = type(value) is int and value >= 0, f"a whole number from 0, not {value!r}"
        else:
            # Not quoted: it may be a key.
            is_fit, expected = isinstance(value, str | None), f"a string, not {describe_type(value)}"
        if not is_fit:
            raise ConfigError(f"the embedder's option `{option}` must be {expected}")
    for option, variable in REQUIRED.get(provider, {}).items():
        if not options.get(option):
            raise ConfigError(
                f"the embedder {provider!r} needs the option `{option}`, usually `{option}: ${{{variable}}}` with the "
                f"environment variable {variable} set"
            )


@functools.cache
def _say_words_only(missing: str) -> None:
    logging.getLogger("alma").warning(
        "No embedder (missing: %s): memories are retrieved by words only. To retrieve by meaning as well: %s",
        missing,
        install_command(EXTRA),
    )
