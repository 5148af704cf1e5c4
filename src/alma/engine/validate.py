"""Arguments from outside: what is not usable is refused with a sentence that says what would be."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

from ..errors import ValidationError, describe_type, unknown
from ..types.record import SOURCES, Origin, Provenance, Trust, find_source

MAX_TEXT = 100_000
MAX_NAME = 200
MAX_METADATA = 65_536
_EARLIEST, _LATEST = 1000, 2999
_LARGEST = sys.float_info.max
_VALUE_CHARS = 60

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_INVISIBLE = " \t\n\r\u00a0\u200b\u200c\u200d\u2060\u3000\ufeff"
_SURROGATE = re.compile(r"[\ud800-\udfff]")

E = TypeVar("E", bound=StrEnum)


def text(name: str, value: object, most: int = MAX_TEXT) -> str:
    """Return a text that is not empty, not too long and has no control characters, or raise ValidationError."""
    checked = string(name, value)
    if is_blank(checked):
        raise ValidationError(f"{name} is empty; pass some text")
    if len(checked) > most:
        raise ValidationError(
            f"{name} has {len(checked):,} characters; at most {most:,} are allowed: split or shorten it"
        )
    if control := _CONTROL.search(checked):
        raise ValidationError(
            f"{name} contains the control character {control[0]!r} at position {control.start()}; remove it"
        )
    return checked


def optional_text(name: str, value: object) -> str | None:
    """Return a valid text, or None for a missing or empty one."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    return text(name, value)


def output(name: str, value: object) -> str | None:
    """Text a program printed: colours and control characters are dropped, they carry no meaning here."""
    if value is None:
        return None
    checked = _CONTROL.sub("", _ANSI.sub("", string(name, value)))
    return text(name, checked) if checked.strip() else None


def name(label: str, value: object) -> str:
    """Return a valid short text without surrounding spaces."""
    return text(label, value, MAX_NAME).strip()


def optional_name(label: str, value: object) -> str:
    """Return a name, or "" for a blank one."""
    return name(label, value) if optional_text(label, value) else ""


def is_blank(value: str) -> bool:
    """Return whether a text has no visible character."""
    return not value.strip(_INVISIBLE)


def format_value(value: object) -> str:
    """Return a value as error messages show it, shortened."""
    if isinstance(value, int | float) and not abs(value) <= _LARGEST:
        return "NaN" if value != value else "infinity" if isinstance(value, float) else "a number that is too large"
    text = "null" if value is None else repr(value)
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]}…"


def string(label: str, value: object) -> str:
    """Return a value that is valid Unicode text, or raise ValidationError."""
    if isinstance(value, bytes | bytearray):
        raise ValidationError(
            f"{label} must be a string, not bytes; decode it first, for example with .decode('utf-8', 'replace')"
        )
    if not isinstance(value, str):
        raise ValidationError(f"{label} must be a string, not {describe_type(value)}")
    if lone := _SURROGATE.search(value):
        raise ValidationError(
            f"{label} contains a lone surrogate at position {lone.start()} and is not valid Unicode; "
            "decode the original bytes with errors='replace'"
        )
    return value


def whole(label: str, value: object, least: float | None = None, most: float | None = None) -> int:
    """Return a whole number within the limits, or raise ValidationError."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not _is_within(value, least, most):
        limits = "" if least is None else f" of at least {least}" if most is None else f" from {least} to {most:,}"
        raise ValidationError(f"{label} must be a whole number{limits}, not {format_value(value)}")
    return value


def number(label: str, value: object, least: float | None = None, most: float | None = None) -> float:
    """Return a finite number within the limits as a float, or raise ValidationError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
        raise ValidationError(f"{label} must be a finite number, not {format_value(value)}")
    if not _is_within(value, least, most):
        limits = f"at least {least:,.10g}" if most is None else f"a number from {least or 0:,.10g} to {most:,.10g}"
        raise ValidationError(f"{label} must be {limits}, not {value:.10g}")
    return float(value)


def _is_within(value: float, least: float | None, most: float | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)


def moment(label: str, value: object) -> datetime | None:
    """A point in time: a datetime with a time zone, or ISO 8601 text (a date alone is its first moment; UTC unless it
    says otherwise)."""
    if value is None:
        return None
    if isinstance(value, str):
        try:
            read = datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValidationError(f"{label} must be a time such as 2026-05-07T14:30:00Z, not {value!r}") from None
        value = read if read.tzinfo else read.replace(tzinfo=UTC)
    if not isinstance(value, datetime):
        raise ValidationError(f"{label} must be a time such as 2026-05-07T14:30:00Z, not {describe_type(value)}")
    if value.tzinfo is None:
        raise ValidationError(f"{label} has no time zone; pass an aware datetime such as datetime.now(timezone.utc)")
    if not _EARLIEST <= value.year <= _LATEST:
        raise ValidationError(f"{label} must be between the years {_EARLIEST} and {_LATEST}, not in {value.year}")
    return value.astimezone(UTC)


def choice(label: str, value: object, options: type[E]) -> E:
    """Return the member of an enumeration with this value, or raise ValidationError."""
    return options(one_of(label, value, list(options)))


_TRUST = {"user": Trust.TRUSTED, "agent": Trust.TRUSTED, "import": Trust.LEARNED}


def provenance(label: str, value: object) -> Provenance:
    """Return the provenance of a source.

    The name is stored as passed; the trust follows from its canonical source.
    """
    source_name = name(label, value)
    source = find_source(source_name)
    if source is None:
        raise ValidationError(unknown(label, source_name, SOURCES))
    return Provenance(Origin(source), _TRUST.get(source, Trust.UNTRUSTED), source=source_name)


def one_of(label: str, value: object, choices: Sequence[str]) -> str:
    """One of the choices, which may be passed as a member of an enumeration."""
    chosen = str(value)
    if chosen not in choices:
        raise ValidationError(unknown(label, value, choices))
    return chosen


def names(label: str, value: Iterable[str] | None) -> tuple[str, ...]:
    """Return valid names, each once, in order; none for None."""
    if value is None:
        return ()
    return tuple(dict.fromkeys(name(f"{label}[{at}]", item) for at, item in enumerate(items(label, value, "names"))))


def items(label: str, value: object, what: str = "", describe: Callable[[object], str] = format_value) -> list[Any]:
    """Return the items of any iterable except text and mappings, or raise ValidationError."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise ValidationError(f"{label} must be a list{what and f' of {what}'}, not {describe(value)}")
    return list(value)


def many(label: str, value: object) -> list[Any]:
    """Return a list of values, or raise ValidationError."""
    return items(label, value, "objects", describe_type)


def mapping(label: str, value: object) -> Mapping[str, Any]:
    """Return a mapping, or raise ValidationError."""
    if not isinstance(value, Mapping):
        raise ValidationError(f"{label} must be a JSON object, not {describe_type(value)}")
    return value


def is_deeper(value: object, levels: int) -> bool:
    """Return whether the values of a JSON value are nested deeper than so many levels."""
    level = [value]
    for _ in range(levels + 1):
        inner = (one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list))
        level = [one for some in inner for one in some]
    return bool(level)


def metadata(label: str, value: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return metadata as plain JSON values, or raise ValidationError if it is not JSON or too long."""
    if value is None:
        return {}
    mapping(label, value)
    try:
        encoded = json.dumps(value, allow_nan=False, ensure_ascii=False)
        encoded.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        reason = "NaN and infinity are not allowed" if "JSON compliant" in str(error) else str(error)
        raise ValidationError(f"{label} must contain only JSON values: {reason}") from None
    if len(encoded) > MAX_METADATA:
        raise ValidationError(
            f"{label} takes {len(encoded):,} characters as JSON; at most {MAX_METADATA:,} are allowed"
        )
    decoded: dict[str, Any] = json.loads(encoded)
    return decoded
