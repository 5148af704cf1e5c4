"""The sections `cache`, `retry` and `encryption` of the settings: what is wrapped around a store."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from ..errors import ConfigError


def _check_numbers(section: str, settings: object) -> None:
    for field in fields(settings):  # type: ignore[arg-type]
        value, is_whole = getattr(settings, field.name), str(field.type) == "int"
        if isinstance(value, bool) or not isinstance(value, int if is_whole else (int, float)) or not value > 0:
            kind = "a whole number" if is_whole else "a number"
            raise ConfigError(f"{section}.{field.name} must be {kind} greater than 0, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """How much a cache keeps."""

    size: int = 20_000  # Records and hits of recent answers.

    def __post_init__(self) -> None:
        _check_numbers("cache", self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySettings:
    """How often a failed call is repeated, and when calls stop for a while."""

    attempts: int = 5
    pause: float = 0.1  # Seconds after the first failure; doubled after each further one, and varied at random.
    longest_pause: float = 5.0
    failures: int = 10  # After so many in a row the database counts as down.
    rest: float = 10.0  # Seconds for which calls then fail at once, until one of them tries again.

    def __post_init__(self) -> None:
        _check_numbers("retry", self)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionSettings:
    """Where the keys are: in an environment variable or in a file."""

    key_env: str = ""
    key_file: Path | None = None

    def __post_init__(self) -> None:
        if bool(self.key_env) == bool(self.key_file):
            raise ConfigError("encryption must set one of key_env (an environment variable) and key_file (a path)")
