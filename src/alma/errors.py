"""What can go wrong, as a tree.

ALMAError
 ├─ ConfigError             a configuration names something that does not exist or does not fit
 │   └─ UntrustedConfigError    it was found in a folder that is not trusted; says how to trust it
 ├─ ValidationError         an argument is not usable; says which and what is valid
 ├─ ScopeError              an agent may not learn or read this
 ├─ NotFoundError           no such memory
 ├─ MissingExtraError       an optional package is not installed; names the `pip install`
 ├─ EmbeddingError          an embedder failed
 │   └─ EmbedderMismatchError   the store was embedded by another model; says how to reindex
 ├─ ModelError              a language model gave no answer that can be used; knows what it cost
 │   ├─ ModelUnavailableError   it is not there, not logged in or failed
 │   ├─ ModelTimeoutError       it took too long and was ended
 │   ├─ ModelOutputError        it refused, or answered something else than it was asked for
 │   └─ OverBudgetError         today's budget is used up; the model was not asked
 └─ StorageError            the store could not do it
     ├─ ConflictError       somebody else wrote a newer version; read again and retry
     ├─ BusyError           the store stayed locked by others for too long
     ├─ ReadOnlyError       the store cannot be written
     ├─ StorageFullError    no room left
     ├─ CorruptStoreError   the file is not a store, or is damaged
     └─ NewerStoreError     the store was written by a newer version of alma
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ALMAError(Exception):
    """The root of every exception that alma raises on purpose."""

    neutral = ""
    """What callers on other machines read instead of the message, which may name files of this one; empty: the
    message itself."""


class ConfigError(ALMAError):
    neutral = "the server's configuration does not allow this"


class UntrustedConfigError(ConfigError):
    pass


class ValidationError(ALMAError, ValueError):
    pass


class ScopeError(ALMAError):
    pass


class NotFoundError(ALMAError, LookupError):
    pass


class MissingExtraError(ALMAError, ImportError):
    def __init__(self, package: str, extra: str, what: str = "This") -> None:
        super().__init__(f"{what} needs the package `{package}`: {install_command(extra)}")
        self.package = package
        self.extra = extra


class EmbeddingError(ALMAError):
    neutral = "the embedder failed"


class EmbedderMismatchError(EmbeddingError):
    neutral = ""


class ModelError(ALMAError):
    """`spent` is (tokens in, tokens out, cost) as far as it is known; None when nobody can tell."""

    neutral = "the language model gave no answer that can be used"

    def __init__(self, message: str, spent: tuple[int, int, float] | None = None) -> None:
        super().__init__(message)
        self.spent = spent


class ModelUnavailableError(ModelError):
    pass


class ModelTimeoutError(ModelError):
    pass


class ModelOutputError(ModelError):
    pass


class OverBudgetError(ModelError):
    neutral = ""


class StorageError(ALMAError):
    neutral = "the store could not do it"


class ConflictError(StorageError):
    neutral = ""


class BusyError(StorageError):
    neutral = "the store stayed locked by others for too long; nothing was written, try again"


class ReadOnlyError(StorageError):
    neutral = "the store cannot be written"


class StorageFullError(StorageError):
    neutral = "the store has no room left"


class CorruptStoreError(StorageError):
    neutral = "the store is damaged"


class NewerStoreError(StorageError):
    neutral = "the store was written by a newer version of alma"


def install_command(extra: str) -> str:
    """The command that installs an extra. The name on the package index belongs to another project."""
    return f"pip install '.[{extra}]' (in the checkout of alma)"


def unknown(what: str, value: object, valid: Iterable[str]) -> str:
    """The sentence for a name that is not one of the valid ones."""
    names = [str(name) for name in valid]
    close = difflib.get_close_matches(str(value), names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"unknown {what} {value!r}.{hint} Valid: {', '.join(names)}."
