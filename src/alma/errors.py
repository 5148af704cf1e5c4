"""The tree of all errors that alma raises.

ALMAError
 ├─ ConfigError             a configuration names something that does not exist or does not fit
 │   └─ UntrustedConfigError    it, or a store, is not trusted; names the command that trusts it
 ├─ ValidationError         an argument is not valid; names it and the valid values
 ├─ ScopeError              an agent may not learn or read this
 ├─ PersonRequiredError     only a person at a terminal may decide this; names the ways to do it
 ├─ NotFoundError           no such memory
 ├─ MissingExtraError       an optional package is not installed; names the `pip install`
 ├─ EmbeddingError          an embedder failed
 │   └─ EmbedderMismatchError   the store was embedded by another model; explains how to reindex
 ├─ ModelError              a language model gave no usable answer; reports its cost
 │   ├─ ModelUnavailableError   it cannot be reached, is not logged in, or failed
 │   ├─ ModelTimeoutError       it did not answer in time
 │   ├─ ModelOutputError        it refused, or its answer cannot be used
 │   └─ OverBudgetError         today's budget is used up; the model was not asked
 └─ StorageError            the store failed
     ├─ ConflictError       another process wrote a newer version; read again and retry
     │   └─ StaleVersionError   you saw an older version; `present` is what there is now
     ├─ BusyError           the store stayed locked by others for too long
     ├─ UnavailableError    the database cannot be reached; whether a write was stored may be unknown
     ├─ ReadOnlyError       the store cannot be written
     ├─ StorageFullError    no room left
     ├─ CorruptStoreError   the file is not a store, or is damaged
     ├─ EarlierStoreError   the file is a database of alma-memory 0.x; names the import
     └─ NewerStoreError     the store was written by a newer version of alma
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping


class ALMAError(Exception):
    """The base class of all errors that alma raises."""

    neutral = ""
    """The text that remote callers get instead of the message, which may name local files; empty: the message."""


class ConfigError(ALMAError):
    """The configuration names something that does not exist or does not fit."""

    neutral = "the server's configuration does not allow this"


class UntrustedConfigError(ConfigError):
    """The configuration file lies in a folder that is not trusted, or git tracks a store or another user owns it."""


class ValidationError(ALMAError, ValueError):
    """An argument is not valid."""


class PersonRequiredError(ALMAError):
    """Only a person may decide this, and no person at a terminal runs the process."""


class ScopeError(ALMAError):
    """The caller or agent may not do this."""


class NotFoundError(ALMAError, LookupError):
    """There is no memory or record with this id."""


class MissingExtraError(ALMAError, ImportError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str, what: str = "This") -> None:
        super().__init__(f"{what} requires the package `{package}`; run: {install_command(extra)}")
        self.package = package
        self.extra = extra


class EmbeddingError(ALMAError):
    """The embedder failed."""

    neutral = "the embedder failed"


class EmbedderMismatchError(EmbeddingError):
    """The vectors of the store come from another embedder."""

    neutral = ""


class ModelError(ALMAError):
    """A language model gave no usable answer. `spent` is (tokens in, tokens out, cost); None if unknown."""

    neutral = "the language model gave no answer that can be used"

    def __init__(self, message: str, spent: tuple[int, int, float] | None = None) -> None:
        super().__init__(message)
        self.spent = spent


class ModelUnavailableError(ModelError):
    """The model cannot be reached, is not logged in, or failed."""


class ModelTimeoutError(ModelError):
    """The model did not answer in time."""


class ModelOutputError(ModelError):
    """The model refused, or its answer cannot be used."""


class OverBudgetError(ModelError):
    """The daily budget is used up; the model was not asked."""

    neutral = ""


class StorageError(ALMAError):
    """The store failed."""

    neutral = "the store failed"


class ConflictError(StorageError):
    """Another process wrote a newer version; read again and retry."""

    neutral = ""


class StaleVersionError(ConflictError):
    """The caller saw an older version, or another number of memories; `present` is what there is now."""

    def __init__(self, message: str, present: object = None) -> None:
        super().__init__(message)
        self.present = present


class BusyError(StorageError):
    """Other processes locked the store for too long."""

    neutral = "the store stayed locked by others for too long; nothing was written, try again"


class UnavailableError(StorageError):
    """The database cannot be reached, or the connection broke during a write."""

    neutral = (
        "the database cannot be reached at the moment; try again. A write may have been stored: repeat it only with "
        "its idempotency_key, or read first"
    )


class ReadOnlyError(StorageError):
    """The store is not writable."""

    neutral = "the store cannot be written"


class StorageFullError(StorageError):
    """There is no space left for the store."""

    neutral = "the store has no room left"


class CorruptStoreError(StorageError):
    """The file is damaged or is not a store."""

    neutral = "the store is damaged"


class EarlierStoreError(StorageError):
    """The file is a database of alma-memory 0.x, which is imported and not opened."""

    neutral = "the store is a database of alma-memory 0.x"


class NewerStoreError(StorageError):
    """The store was written by a newer version of alma."""

    neutral = "the store was written by a newer version of alma"


def install_command(extra: str) -> str:
    """Return the command that installs an extra. The name on the package index belongs to another project."""
    return f"pip install '.[{extra}]' (in the checkout of alma)"


def unknown(what: str, value: object, valid: Iterable[str]) -> str:
    """Return the error message for an unknown name, with the closest and all valid names.

    The name follows the noun: `what` may be "field", or "field of a work item".
    """
    names = [str(name) for name in valid]
    close = difflib.get_close_matches(str(value), names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    noun, *owner = re.split(r"(?= (?:of|in|for|at) )", what, maxsplit=1)
    if not names:
        return f"there is no {noun} {value!r}{''.join(owner)}; no {noun}s exist yet"
    return f"unknown {noun} {value!r}{''.join(owner)}.{hint} Valid: {', '.join(names)}."


def describe_type(value: object) -> str:
    """Return what a value is, in the words of JSON: "a list", "a number (5)", "null"."""
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    if isinstance(value, int | float):
        return f"a number ({value})" if isinstance(value, float) or abs(value) < 10**15 else "a number"
    for name, types in _TYPE_NAMES.items():
        if isinstance(value, types):
            return name
    return f"a value of type {type(value).__name__}"


def describe_parse_error(error: Exception) -> str:
    """Return why a text is not JSON, and where: "expecting value at column 1"."""
    reason, line, column = (getattr(error, name, None) for name in ("msg", "lineno", "colno"))
    if not reason:
        return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    place = f"line {line}, column {column}" if line and line > 1 else f"column {column}"
    return f"{reason[0].lower()}{reason[1:]} at {place}"


_TYPE_NAMES: dict[str, tuple[type, ...]] = {
    "a string": (str,),
    "bytes": (bytes, bytearray),
    "an object": (Mapping,),
    "a list": (list, tuple),
}
