"""Numbers with their units, so that "a day" is "24 hours" and "3.10" is not "3.1"."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_TIME = {
    "ms": 0.001, "millisecond": 0.001, "s": 1.0, "sec": 1.0, "second": 1.0, "min": _MINUTE, "minute": _MINUTE,
    "h": _HOUR, "hr": _HOUR, "hour": _HOUR, "d": _DAY, "day": _DAY, "night": _DAY, "week": 7 * _DAY,
    "fortnight": 14 * _DAY, "month": 30 * _DAY, "quarter": 90 * _DAY, "year": 360 * _DAY,
}  # fmt: skip
_BYTES = {
    unit + tail: 1024.0**power
    for power, unit in enumerate(["", "k", "m", "g", "t"])
    for tail in ("b", "ib", "byte")
    if unit or tail != "ib"
}
_LENGTH = {"mm": 0.001, "cm": 0.01, "km": 1000.0, "metre": 1.0, "meter": 1.0, "kilometre": 1000.0}
_OTHER = {
    "%": ("%", 1.0), "percent": ("%", 1.0), "€": ("eur", 1.0), "euro": ("eur", 1.0), "eur": ("eur", 1.0),
    "$": ("usd", 1.0), "dollar": ("usd", 1.0), "usd": ("usd", 1.0), "k": ("", 1000.0),
    "thousand": ("", 1e3), "million": ("", 1e6), "billion": ("", 1e9), "hundred": ("", 100.0), "dozen": ("", 12.0),
}  # fmt: skip
UNITS: dict[str, tuple[str, float]] = {
    **{unit: ("s", factor) for unit, factor in _TIME.items()},
    **{unit: ("b", factor) for unit, factor in _BYTES.items()},
    **{unit: ("m", factor) for unit, factor in _LENGTH.items()},
    **_OTHER,
}
PERIODS = {
    "hourly": "hour", "daily": "day", "nightly": "night", "weekly": "week", "monthly": "month",
    "quarterly": "quarter", "yearly": "year", "annual": "year", "annually": "year", "fortnightly": "fortnight",
}  # fmt: skip
_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
WORDS: dict[str, float] = {
    **{word: float(i) for i, word in enumerate(_ONES.split())},
    "seventeen": 17.0, "eighteen": 18.0, "nineteen": 19.0,
    **{word: 20.0 + 10 * i for i, word in enumerate(_TENS.split())},
    "dozen": 12.0, "half": 0.5, "twice": 2.0, "thrice": 3.0, "pair": 2.0, "hundred": 100.0, "thousand": 1000.0,
}  # fmt: skip
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
ORDINALS: dict[str, int] = {word: i + 1 for i, word in enumerate(_ORDINALS.split())}
_MULTIPLIERS = {"hundred", "thousand", "million", "billion", "dozen", "k"}
_NUMBER = re.compile(r"(\d[\d,]*(?:\.\d+)*|\.\d+)([a-z%€$]*)\Z")


@dataclass(frozen=True, slots=True)
class Quantity:
    """`value` is canonical text in the base unit; an `idle` one ("one", "second") says little by itself."""

    value: str
    unit: str
    idle: bool = False

    def agrees(self, other: Quantity) -> bool:
        if self.value != other.value:
            return False
        # "the 2nd factor" answers "two-factor", and a bare number may leave its unit unsaid.
        return self.unit == other.unit or "" in (self.unit, other.unit)


def quantity(number: str, unit: str) -> Quantity:
    """From digits as written and a unit word ("" for none)."""
    kind, factor = UNITS.get(unit, ("", 1.0))
    number = number.replace(",", "")
    # Without a unit "3.10" may be a version, so it stays as it is written.
    if (not kind and factor == 1.0 and "." in number) or number.count(".") > 1:
        return Quantity(number, kind)
    return Quantity(_canonical(float(number[:300]) * factor), kind)


def worded(value: float, unit: str = "", *, idle: bool = False) -> Quantity:
    kind, factor = UNITS.get(unit, ("", 1.0))
    return Quantity(_canonical(value * factor), kind, idle)


def ordinal(value: int) -> Quantity:
    return Quantity(_canonical(value), "th" if value > 2 else "", idle=value < 3)


def fraction(value: int) -> Quantity:
    """ "a fifth of the traffic"."""
    return Quantity(_canonical(100 / value), "%")


def clock(hours: int, minutes: int, half: str) -> Quantity:
    if half == "pm" and hours < 12:
        hours += 12
    if half == "am" and hours == 12:
        hours = 0
    return Quantity(f"{hours}:{minutes:02d}", "clock")


def split_number(token: str) -> tuple[str, str] | None:
    """`64mb` → (`64`, `mb`); None when the tail is no unit, as in `2fa`."""
    match = _NUMBER.match(token)
    if match is None:
        return None
    digits, tail = match.groups()
    if tail and singular(tail) not in UNITS:
        return None
    return digits, singular(tail)


def multiplier(unit: str) -> bool:
    return unit in _MULTIPLIERS


def singular(unit: str) -> str:
    if unit in UNITS:
        return unit
    if unit == "mins":
        return "min"
    return unit[:-1] if unit.endswith("s") else unit


def scaled(number: str, unit: str) -> str:
    """`2`, `million` → `2000000`, still without a unit."""
    return _canonical(float(number.replace(",", "")[:300]) * UNITS[unit][1])


def _canonical(value: float) -> str:
    return f"{value:.12g}"
