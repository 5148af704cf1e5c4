"""Vectors of texts: a model on this machine, a service, or hashes of words. Embedders are made here, by name."""

from __future__ import annotations

import functools
import importlib.util
import logging
from collections.abc import Callable, Iterable, Mapping

from ..errors import ConfigError, MissingExtraError, describe_type, install_command, unknown
from ..ports import Embedder
from ..registries import Part, Registry
from . import onnx
from .hash import HashEmbedder
from .local import EXTRA, PACKAGES, LocalEmbedder

Options = Mapping[str, object]

# The built-in embedders with their options.
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "local": (),
    "onnx": ("path",),
    "hash": (),
    "mock": (),
    "azure": ("endpoint", "deployment", "api_key", "api_version", "timeout", "retries"),
    "openai": ("api_key", "model", "base_url", "timeout", "retries"),
    "auto": (),
    "none": (),
}
# The options that a provider needs, with the environment variable that usually holds each.
REQUIRED = {
    "openai": {"api_key": "OPENAI_API_KEY"},
    "azure": {
        "endpoint": "AZURE_OPENAI_ENDPOINT",
        "deployment": "AZURE_OPENAI_DEPLOYMENT",
        "api_key": "AZURE_OPENAI_API_KEY",
    },
}


EMBEDDERS = Registry(
    "alma.embedders",
    "embedder",
    {
        "auto": "alma.embedders:make_auto",
        "local": "alma.embedders:make_local",
        "onnx": "alma.embedders:make_onnx",
        "openai": "alma.embedders.remote:OpenAIEmbedder",
        "azure": "alma.embedders.remote:AzureEmbedder",
        "hash": "alma.embedders:make_hash",
        "mock": "alma.embedders:make_hash",
        "none": "alma.embedders:make_none",
    },
    unlisted=["mock"],
)


def create(provider: str, *, dim: int | None, options: Options) -> Embedder | None:
    """Return the embedder of that name; None means that memories are searched by words alone."""
    part = EMBEDDERS.find(provider)
    if dim is not None and dim < 1:
        raise ConfigError(f"`embedding_dim` must be at least 1, not {dim}")
    if not part.is_built_in:
        return _create_added(part, dim, options)
    _check_options(provider, options)
    make: Callable[..., Embedder | None] = part.load()
    return make(dim=dim, **{option: value for option, value in options.items() if value is not None})


def make_none(dim: int | None) -> None:
    """Return no embedder: memories are searched by words alone."""


def make_hash(dim: int | None) -> Embedder:
    """Return hashes of words as vectors."""
    return HashEmbedder() if dim is None else HashEmbedder(dim)


def make_auto(dim: int | None) -> Embedder | None:
    """Return the local embedder if its packages are installed, otherwise none, with a warning."""
    if missing := _find_missing(PACKAGES):
        _say_words_only(", ".join(missing))
        return None
    return make_local(dim)


def make_local(dim: int | None) -> Embedder:
    """Return the embedder that comes with alma."""
    if dim not in (None, LocalEmbedder.dim):
        right = LocalEmbedder.dim
        raise ConfigError(
            f"the local embedder has {right} dimensions, not {dim}: set `embedding_dim` to {right} or leave it out"
        )
    if missing := _find_missing(PACKAGES):
        raise MissingExtraError(missing[0], EXTRA, "The local embedder")
    return LocalEmbedder()


def make_onnx(dim: int | None, path: str = "") -> Embedder:
    """Return an embedder that runs an ONNX model of the user."""
    if not path:
        raise ConfigError(f"the embedder 'onnx' needs the option `path`: {onnx.LAYOUT}")
    if missing := _find_missing(onnx.PACKAGES):
        raise MissingExtraError(missing[0], onnx.EXTRA, "The onnx embedder")
    return onnx.OnnxEmbedder(path, dim)


def _find_missing(packages: Iterable[str]) -> list[str]:
    return [package for package in packages if importlib.util.find_spec(package) is None]


def _create_added(part: Part, dim: int | None, options: Options) -> Embedder:
    """Return the embedder of another package. It is called with the options, and with `dim` if that is configured."""
    arguments = dict(options) if dim is None else {**options, "dim": dim}
    make: Callable[..., Embedder] = part.load()
    try:
        embedder = make(**arguments)
    except TypeError as error:
        raise ConfigError(f"the embedder {part.name!r} of the package {part.package}: {error}") from error
    if not isinstance(embedder, Embedder):
        raise ConfigError(f"{part.target} of the package {part.package} returned no embedder; see alma.ports.Embedder")
    return embedder


def _check_options(provider: str, options: Options) -> None:
    valid = _OPTIONS[provider]
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
