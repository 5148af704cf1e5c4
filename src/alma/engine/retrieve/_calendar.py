"""Periods of the calendar: what "May", "last summer" or "two weeks ago" cover, given when it is said.

Everything here is in local time without a zone; `when` adds the zone at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

DAY = timedelta(days=1)
LONG_AGO = datetime(1000, 1, 1)


# Never compared or shown: each method a dataclass need not make is time saved on loading.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Span:
    start: datetime
    end: datetime
    soft: bool = False
    relative: bool = False
    """Counted from now: "last week", "five days ago"."""
    vague: bool = False
    """Says hardly more than "not long ago"."""
    present: bool = False
    """May still lie ahead: "tonight", "this weekend"."""
    loose: bool = False
    """Comes again and again, and nothing says which one is meant: "on Tuesday", "in May"."""
    bare: bool = False
    """Only an expression of time together with another one: "Christmas" in "Christmas last year"."""
    weekly: bool = False
    yearly: Callable[[int], Span] | None = None
    also: Span | None = None
    """The other reading of 05/07/2023."""

    @property
    def recurs(self) -> bool:
        return self.weekly or self.yearly is not None

    @property
    def day(self) -> datetime:
        """The day itself of a feast or date, the first of anything longer."""
        return midnight(self.middle) if self.end - self.start < 14 * DAY else self.start

    @property
    def middle(self) -> datetime:
        return self.start + (self.end - self.start) / 2


def midnight(moment: datetime) -> datetime:
    return datetime(moment.year, moment.month, moment.day)


def days(start: datetime, count: float = 1, *, soft: bool = False) -> Span:
    return Span(start, start + count * DAY, soft=soft)


def on(year: int, month: int, day: int) -> datetime:
    """That day, or the month's last when it has fewer."""
    return datetime(year, month, min(day, (months_later(datetime(year, month, 1), 1) - DAY).day))


def months_later(moment: datetime, count: int) -> datetime:
    years, month = divmod(moment.month - 1 + count, 12)
    first = datetime(moment.year + years, month + 1, 1)
    length = ((first + 32 * DAY).replace(day=1) - first).days
    return moment.replace(year=first.year, month=first.month, day=min(moment.day, length))


def month(year: int, number: int) -> Span:
    first = datetime(year, number, 1)
    return Span(first, months_later(first, 1))


def whole_year(year: int) -> Span:
    return Span(datetime(year, 1, 1), datetime(year + 1, 1, 1))


def quarter(year: int, number: int) -> Span:
    first = datetime(year, 3 * number - 2, 1)
    return Span(first, months_later(first, 3))


def dated(year: int | None, number: int, day: int | None, now: datetime) -> Span:
    """A month or a day of it; without a year the latest one that has begun."""

    def of(year: int) -> Span:
        return month(year, number) if day is None else days(on(year, number, day))

    if year is not None:
        return of(year)
    return replace(latest(of, now), loose=True, yearly=of)


def latest(of: Callable[[int], Span], now: datetime) -> Span:
    for year in (now.year + 1, now.year):
        if (found := of(year)).start <= now:
            return found
    return of(now.year - 1)


# The unit's base, and how many of it.
UNITS: dict[str, tuple[str, int]] = {
    "minute": ("minute", 1), "min": ("minute", 1), "hour": ("minute", 60), "hr": ("minute", 60), "day": ("day", 1),
    "night": ("day", 1), "week": ("day", 7), "weekend": ("day", 7), "fortnight": ("day", 14), "month": ("month", 1),
    "quarter": ("month", 3), "year": ("month", 12), "yr": ("month", 12), "decade": ("month", 120),
}  # fmt: skip
_MOST_DAYS = 300 * 365


def before(moment: datetime, count: float, unit: str) -> datetime | None:
    """So many units earlier (later when the count is negative); None beyond what anybody remembers."""
    base, factor = UNITS[unit]
    amount = count * factor
    if base == "minute":
        return moment - timedelta(minutes=amount) if abs(amount) < _MOST_DAYS * 1440 else None
    if base == "day":
        return moment - amount * DAY if abs(amount) < _MOST_DAYS else None
    if abs(amount) * 30 >= _MOST_DAYS:
        return None
    whole = int(amount)
    return months_later(moment, -whole) - round((amount - whole) * 30) * DAY


def slack(count: float, unit: str) -> timedelta:
    """How far off "that many units ago" usually is: the more and the larger, the wider."""
    base, factor = UNITS[unit]
    if base == "minute":
        return timedelta(minutes=max(5.0, 0.4 * count * factor))
    if unit in ("day", "night"):
        return (0 if count <= 2 else 1 if count < 7 else min(5, round(count * 0.15))) * DAY
    if base == "day":
        return min(7, 3 + int(count // 4)) * DAY
    if factor == 12 and count >= 1:
        return min(240, 90 + 30 * count) * DAY
    return min(45, 12 + 3 * count * factor) * DAY


def ago(now: datetime, low: float, high: float, unit: str) -> Span | None:
    """Between `low` and `high` units before now, with the slack that belongs to it."""
    first, last = before(now, high, unit), before(now, low, unit)
    if first is None or last is None:
        return None
    if UNITS[unit][0] == "minute":
        return Span(first - slack(high, unit), min(now, last + slack(low, unit)), relative=True)
    start = midnight(first) - slack(high, unit)
    end = midnight(last) + slack(low, unit) + DAY
    return Span(start, max(start + DAY, min(end, midnight(now) + DAY)), relative=True)


def this_week(now: datetime) -> Span:
    return days(midnight(now) - now.weekday() * DAY, 7)


def weekend(now: datetime, back: int) -> Span:
    """The weekend of this week (0) or so many before it."""
    return days(this_week(now).start + (5 - 7 * back) * DAY, 2)


def around(span: Span, unit: str) -> Span:
    """ "the week of May 8" is more than that day."""
    wider = {"week": (-1, 7), "weekend": (5, 7)}.get(unit)
    if wider is None or span.end - span.start > DAY:
        return span
    monday = this_week(span.start).start
    return Span(monday + wider[0] * DAY, monday + wider[1] * DAY, span.soft)


def weekday(number: int, now: datetime) -> Span:
    """The last one before today."""
    return replace(days(midnight(now) - ((now.weekday() - number - 1) % 7 + 1) * DAY), weekly=True)


_SEASONS = {
    "spring": ((3, 1), (6, 21)), "summer": ((6, 1), (9, 23)), "fall": ((9, 1), (12, 21)),
    "autumn": ((9, 1), (12, 21)), "winter": ((12, 1), (3, 21)),
}  # fmt: skip
SEASONS = frozenset(_SEASONS)


def season(name: str, year: int) -> Span:
    (month, day), (last_month, last_day) = _SEASONS[name]
    return Span(datetime(year, month, day), datetime(year + (last_month < month), last_month, last_day), soft=True)


def _nth(year: int, number: int, weekday: int, nth: int) -> datetime:
    """The nth such weekday of a month; the last one for -1."""
    if nth < 0:
        last = months_later(datetime(year, number, 1), 1) - DAY
        return last - ((last.weekday() - weekday) % 7) * DAY
    first = datetime(year, number, 1)
    return first + ((weekday - first.weekday()) % 7 + 7 * (nth - 1)) * DAY


def _easter(year: int) -> datetime:
    """Sunday after the first full moon of spring, by the Gregorian reckoning."""
    golden, century = year % 19, year // 100
    moon = (century - century // 4 - (8 * century + 13) // 25 + 19 * golden + 15) % 30
    moon -= (moon // 28) * (1 - (moon // 28) * (29 // (moon + 1)) * ((21 - golden) // 11))
    sunday = moon - (year + year // 4 + moon + 2 - century + century // 4) % 7
    month = 3 + (sunday + 40) // 44
    return datetime(year, month, sunday + 28 - 31 * (month // 4))


# Words, the day of a year, and how many days before and after people mean by it.
_HOLIDAYS: dict[tuple[str, ...], tuple[Callable[[int], datetime], int, int]] = {
    ("christmas", "eve"): (lambda year: datetime(year, 12, 24), 0, 1),
    ("christmas", "day"): (lambda year: datetime(year, 12, 25), 0, 1),
    ("christmas",): (lambda year: datetime(year, 12, 25), 6, 6),
    ("xmas",): (lambda year: datetime(year, 12, 25), 6, 6),
    ("boxing", "day"): (lambda year: datetime(year, 12, 26), 0, 1),
    ("new", "year", "eve"): (lambda year: datetime(year, 12, 31), 0, 1),
    ("new", "year", "day"): (lambda year: datetime(year, 1, 1), 0, 1),
    ("new", "year"): (lambda year: datetime(year, 1, 1), 3, 3),
    ("valentine", "day"): (lambda year: datetime(year, 2, 14), 1, 2),
    ("valentine",): (lambda year: datetime(year, 2, 14), 2, 2),
    ("st", "patrick", "day"): (lambda year: datetime(year, 3, 17), 1, 2),
    ("good", "friday"): (lambda year: _easter(year) - 2 * DAY, 0, 1),
    ("easter", "sunday"): (_easter, 0, 1),
    ("easter", "monday"): (lambda year: _easter(year) + DAY, 0, 1),
    ("easter",): (_easter, 3, 4),
    ("ash", "wednesday"): (lambda year: _easter(year) - 46 * DAY, 0, 1),
    ("mother", "day"): (lambda year: _nth(year, 5, 6, 2), 1, 2),
    ("father", "day"): (lambda year: _nth(year, 6, 6, 3), 1, 2),
    ("memorial", "day"): (lambda year: _nth(year, 5, 0, -1), 3, 1),
    ("independence", "day"): (lambda year: datetime(year, 7, 4), 1, 2),
    ("fourth", "of", "july"): (lambda year: datetime(year, 7, 4), 1, 2),
    ("labor", "day"): (lambda year: _nth(year, 9, 0, 1), 3, 1),
    ("labour", "day"): (lambda year: _nth(year, 9, 0, 1), 3, 1),
    ("halloween",): (lambda year: datetime(year, 10, 31), 3, 4),
    ("thanksgiving", "day"): (lambda year: _nth(year, 11, 3, 4), 0, 1),
    ("thanksgiving",): (lambda year: _nth(year, 11, 3, 4), 3, 4),
    ("black", "friday"): (lambda year: _nth(year, 11, 3, 4) + DAY, 1, 2),
    ("cyber", "monday"): (lambda year: _nth(year, 11, 3, 4) + 4 * DAY, 0, 1),
}  # fmt: skip
_BY_FIRST: dict[str, list[tuple[str, ...]]] = {}
for _name in sorted(_HOLIDAYS, key=len, reverse=True):
    _BY_FIRST.setdefault(_name[0], []).append(_name)


FEASTS = frozenset(name[-1] for name in _HOLIDAYS)
"""The word each of them ends with."""


def holidays(first: str) -> Iterable[tuple[str, ...]]:
    """The names of holidays that begin with this word, the longest first."""
    return _BY_FIRST.get(first, ())


def holiday(name: tuple[str, ...], year: int) -> Span:
    reckon, early, late = _HOLIDAYS[name]
    day = reckon(year)
    return Span(day - early * DAY, day + late * DAY, soft=early + late > 1)


def part(span: Span, which: str) -> Span:
    """Its beginning, middle or end; the edges of such a thing are not sharp."""
    third = (span.end - span.start) / 3
    first = {"early": 0, "mid": 1, "late": 2}[which]
    start = span.start + first * third
    return replace(span, start=midnight(start), end=midnight(start + third) + DAY, soft=True, yearly=None)


def joined(one: Span, other: Span) -> Span | None:
    """Two expressions side by side as one: the Tuesday of last week, the Christmas of that year."""
    if one.weekly != other.weekly:
        return _that_day(*((one, other) if one.weekly else (other, one)))
    if (one.yearly is None) != (other.yearly is None):
        return _that_year(*((one, other) if one.yearly else (other, one)))
    if one.start >= other.end or other.start >= one.end:
        return None
    return replace(
        one, start=max(one.start, other.start), end=min(one.end, other.end), loose=False, bare=one.bare and other.bare
    )


def _that_day(day: Span, frame: Span) -> Span | None:
    target = midnight(frame.middle)
    ahead = (day.start.weekday() - target.weekday() + 3) % 7 - 3
    found = replace(days(target + ahead * DAY), relative=frame.relative, soft=frame.soft)
    return found if found.start < frame.end and found.end > frame.start else None


def _that_year(span: Span, frame: Span) -> Span | None:
    assert span.yearly is not None
    made = (span.yearly(frame.middle.year + k) for k in (-1, 0, 1))
    inside = [found for found in made if found.start < frame.end and found.end > frame.start]
    nearest = min(inside, key=lambda found: abs(found.middle - frame.middle), default=None)
    return None if nearest is None else replace(nearest, soft=nearest.soft or frame.soft)
