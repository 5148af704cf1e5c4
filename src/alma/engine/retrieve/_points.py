"""One point in time at one place of a question: "two weeks ago", "last May", "on Tuesday", "7 May 2023".

What combines points ("since", "between", "the end of") is in `when`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from . import _calendar as cal
from . import _time_words as words
from ._calendar import DAY, Span

Read = tuple[Span, int]
"""What was read, and the index of the token after it."""


class Points:
    """Every method gives what it read at a place and where that ends, or None."""

    def __init__(self, tokens: list[words.Token], now: datetime) -> None:
        self.tokens = tokens
        self.now = now
        self.today = cal.midnight(now)
        self.past = any(token.word in words.PAST for token in tokens)

    def word(self, i: int) -> str:
        return self.tokens[i].word if 0 <= i < len(self.tokens) else ""

    def unit(self, i: int) -> str:
        word = self.word(i)
        return word if word in cal.UNITS else word[:-1] if word.endswith("s") and word[:-1] in cal.UNITS else ""

    def stops(self, i: int) -> bool:
        return i >= len(self.tokens) or bool(self.tokens[i].pause)

    def simple(self, i: int, lead: str) -> Read | None:
        return (
            self.rolling(i)
            or self.ago(i)
            or self.named(i)
            or self.this_or_last(i, lead)
            or self.date(i, lead)
            or self.weekday(i, lead)
            or self.season(i, lead)
            or self.holiday(i, lead)
            or self.year(i, lead)
        )

    def number(self, i: int) -> tuple[float, float, int] | None:
        """At least, at most, and the token after: "2 or 3", "a few", "one and a half"."""
        j = i + (self.word(i) in ("a", "an"))
        word = self.word(j)
        low: float
        high: float
        if word in words.VAGUE:
            low, high = words.VAGUE[word]
            return low, high, j + 1 + (self.word(j + 1) == "of")
        if word == "half" and self.word(j + 1) in ("a", "an"):
            return 0.5, 0.5, j + 2
        if j > i:
            return 1, 1, j
        if word.isascii() and word.isdigit() and 0 < int(word[:9]) < 10_000:
            low = high = int(word[:9])
        elif word in words.NUMBERS:
            low = high = words.NUMBERS[word]
            if low >= 20 and words.NUMBERS.get(self.word(j + 1), 10) < 10:
                low = high = low + words.NUMBERS[self.word(j + 1)]
                j += 1
        else:
            return None
        return self.more(low, high, j + 1)

    def more(self, low: float, high: float, i: int) -> tuple[float, float, int]:
        if self.word(i) == "and" and self.word(i + 1) == "a" and self.word(i + 2) == "half":
            return low + 0.5, high + 0.5, i + 3
        if self.word(i) in ("or", "to", "–"):
            word = self.word(i + 1)
            other = words.NUMBERS.get(word) or words.day_of_month(word)
            if other and other > low:
                return low, other, i + 2
        return low, high, i

    def ago(self, i: int) -> Read | None:
        j, soft, older, newer = self.hedged(i)
        if self.word(j) == "a" and self.word(j + 1) in ("while", "bit") and self.word(j + 2) in ("ago", "back"):
            return replace(cal.days(self.today - 365 * DAY, 355, soft=True), relative=True, vague=True), j + 3
        number = self.number(j)
        low, high, k = number or (2.0, 0.0, j)
        unit = self.unit(k)
        if number and (day := words.WEEKDAYS.get(self.word(k)[:-1])) is not None and self.word(k + 1) == "ago":
            day_ago = cal.weekday(day, self.now - 7 * (low - 1) * DAY) if low < 60 else None
            return None if day_ago is None else (replace(day_ago, relative=True, weekly=False), k + 2)
        if not unit or (number is None and not (self.word(k).endswith("s") and self.uncounted(i - 1))):
            return None
        high = high if number else words.MANY.get(unit, 4)
        after, low, high = self.tail(k + 1, low, high)
        if self.word(after) not in ("ago", "back"):
            return None
        soft = soft or low != high
        span = cal.ago(self.now, 0 if newer else low, high * 1.5 if older else high, unit)
        if span is None:
            return None
        if unit == "weekend" and low == high == int(low):
            span = replace(cal.weekend(self.now, int(low)), relative=True)
        return self.on_day(replace(span, soft=soft), after + 1)

    def uncounted(self, i: int) -> bool:
        """Neither "how many weeks ago" nor a number nobody means."""
        word = self.word(i)
        return not (word[:1].isdigit() or word in words.NUMBERS or word in words.VAGUE or word in words.UNKNOWN)

    def hedged(self, i: int) -> tuple[int, bool, bool, bool]:
        """Past "about", "more than" or "less than": where the number stands, and which of them it was."""
        word, following = self.word(i), self.word(i + 1)
        if word in ("over", "under"):
            return i + 1, True, word == "over", word == "under"
        if word in ("more", "less", "at") and following in ("than", "least", "most"):
            return i + 2, True, word == "more" or following == "least", word == "less" or following == "most"
        return (
            (i + 1, word not in ("exactly", "just"), False, False) if word in words.HEDGES else (i, False, False, False)
        )

    def tail(self, i: int, low: float, high: float) -> tuple[int, float, float]:
        """ "a week or two ago", "a month or so ago", "a year and a half ago"."""
        if self.word(i) == "or" and self.word(i + 1) in ("two", "so", "more"):
            return i + 2, low, high + 1
        if self.word(i) == "and" and self.word(i + 1) == "a" and self.word(i + 2) == "half":
            return i + 3, low + 0.5, high + 0.5
        return i, low, high

    def on_day(self, span: Span, i: int) -> Read:
        """ "a week ago Saturday", "two weeks ago today"."""
        if self.word(i) == "today":
            middle = cal.midnight(span.middle)
            return replace(span, start=middle, end=middle + DAY), i + 1
        j = i + (self.word(i) in ("on", "last", "this"))
        day = words.WEEKDAYS.get(self.word(j))
        found = None if day is None else cal.joined(cal.weekday(day, self.now), span)
        if found and self.word(i) != "on" and found.start > self.today - 7 * DAY:
            found = replace(found, start=found.start - 7 * DAY, end=found.end - 7 * DAY)
        return (span, i) if found is None else (found, j + 1)

    def rolling(self, i: int) -> Read | None:
        """ "in the last 3 months", "the past week": up to now, unlike "last month"."""
        j = i + (self.word(i) in ("the", "these", "this"))
        if self.word(j) not in ("last", "past"):
            return None
        number = self.number(j + 1)
        low, high, k = number or (1, 1, j + 1)
        unit = self.unit(k)
        known = number or self.word(i) == "the" or self.word(j) == "past"
        if not unit or not known or self.word(k + 1) == "of" or (not number and unit in ("minute", "night")):
            return None
        if unit == "weekend":
            first = cal.weekend(self.now, int(high))
            return Span(first.start, cal.weekend(self.now, 1).end, relative=True), k + 1
        if not number and unit == "day" and self.word(j) == "last":
            return None
        start = cal.before(self.now, high + (0 if low == high else 1), unit)
        if start is None:
            return None
        start = start if cal.UNITS[unit][0] == "minute" else cal.midnight(start)
        loosely = self.word(k + 1) == "or" and self.word(k + 2) == "so"
        return Span(start, self.today + DAY, soft=loosely or low != high, relative=True), k + 1 + 2 * loosely

    def named(self, i: int) -> Read | None:
        word, following = self.word(i), self.word(i + 1)
        if word == "earlier" and following in ("this", "today"):
            return self.named(i + 1) or self.this_or_last(i + 1, "")
        if word in ("yesterday", "today") and not (word == "today" and self.word(i - 1) in words.BOUNDS):
            start = self.today - (word == "yesterday") * DAY
            span = replace(cal.days(start), relative=True, present=word == "today")
            return span, i + 1 + (following in words.DAYPARTS)
        if word in ("this", "last") and following in words.DAYPARTS:
            return self.daypart(following, word == "last"), i + 2
        if word == "tonight":
            return self.daypart("night", False), i + 1
        if word in words.RECENT and self.word(i - 1) in ("most", "more"):
            return None  # the latest of them, whenever that was
        if word in words.RECENT or (word == "last" and following == "time" and self.word(i - 1) != "the"):
            start = self.today - words.RECENT.get(word, 60) * DAY
            span = Span(start, self.today + DAY, soft=True, relative=True, vague=True)
            return span, i + 1 + (word == "last")
        if word == "recent" and (unit := self.unit(i + 1)) in ("day", "week", "month", "year"):
            start = cal.before(self.today, words.MANY[unit], unit) or self.today
            return Span(start, self.today + DAY, soft=True, relative=True, vague=True), i + 2
        if word == "the" and following == "other" and (unit := self.unit(i + 2)) in ("day", "night", "week"):
            days = 35 if unit == "week" else 14
            return replace(cal.days(self.today - days * DAY, days, soft=True), relative=True), i + 3
        return None

    def daypart(self, name: str, last: bool) -> Span:
        first, end = words.DAYPARTS[name]
        day = self.today - last * DAY
        return Span(day + first * DAY / 24, day + end * DAY / 24, relative=True, present=not last)

    def this_or_last(self, i: int, lead: str) -> Read | None:
        if lead in ("over", "at", "on", "during") and self.word(i) == "the" and self.word(i + 1) == "weekend":
            return self.this(0, "weekend"), i + 2
        back = 1 if self.word(i) in words.LAST or self.word(i + 1) in ("past", "last") else 0
        if not back and self.word(i) != "this":
            return None
        j = i + 1 + (self.word(i) == "this" and back)
        unit = self.unit(j)
        if self.word(j) == unit and unit in ("week", "weekend", "fortnight", "month", "quarter", "year", "decade"):
            return None if self.word(j + 1) == "of" else (self.this(back, unit), j + 1)
        day = words.WEEKDAYS.get(self.word(j))
        if day is not None:
            span = replace(cal.weekday(day, self.now), relative=True, present=not back, weekly=False)
            return span, j + 1 + (self.word(j + 1) in words.DAYPARTS)
        read = self.recurring(j)
        if read is None:
            return None
        of, after = read
        current = cal.latest(of, self.now)
        gone = current if not back or current.end <= self.now else of(current.start.year - 1)
        if not back and self.now - current.end > 60 * DAY:
            return None  # the one to come
        return replace(gone, soft=True, present=not back), after

    def recurring(self, i: int) -> tuple[Callable[[int], Span], int] | None:
        """What comes once a year: a month, a season, a feast."""
        word = self.word(i)
        if number := words.MONTHS.get(word):
            return lambda year: cal.month(year, number), i + 1
        if word in cal.SEASONS:
            return lambda year: cal.season(word, year), i + 1
        here = [name for name in cal.holidays(word) if all(self.word(i + k) == each for k, each in enumerate(name))]
        return (lambda year: cal.holiday(here[0], year), i + len(here[0])) if here else None

    def this(self, back: int, unit: str) -> Span:
        """The current week, month or year, or so many before it."""
        now = self.now
        if unit == "weekend":
            back += not back and now.weekday() < 5 and self.past
            span = cal.weekend(now, back)
        elif unit == "week":
            span = cal.days(cal.this_week(now).start - 7 * back * DAY, 7)
            # For half of the world the week begins on Sunday.
            span = replace(span, start=span.start - DAY)
        elif unit == "month":
            first = cal.months_later(self.today.replace(day=1), -back)
            span = cal.month(first.year, first.month)
        elif unit == "quarter":
            first = cal.months_later(self.today.replace(day=1), -3 * back)
            span = cal.quarter(first.year, (first.month + 2) // 3)
        elif unit == "year":
            span = cal.whole_year(now.year - back)
        else:
            span = Span(cal.before(self.today, 1, unit) or cal.LONG_AGO, self.today + DAY)
        return replace(span, relative=True, present=not back)

    def raw(self, i: int) -> tuple[int | None, int, int | None, int] | None:
        """Year, month and day as far as they are said, and the token after."""
        if (numeric := self.numeric(i)) is not None:
            return (*numeric[0], i + 1)
        word = self.word(i)
        if number := self.month(i):
            j = i + 1 + (self.word(i + 1) == "the" and bool(words.day_of_month(self.word(i + 2))))
            day = 0 if self.word(j + 1) in words.COUNTED else words.day_of_month(self.word(j))
            year, after = self.year_after(j + bool(day))
            return year, number, day or None, after
        day = words.day_of_month(word)
        j = i + 1 + (self.word(i + 1) == "of")
        if day and (number := self.month(j)):
            year, after = self.year_after(j + 1)
            return year, number, day, after
        return None

    def month(self, i: int) -> int:
        """Its number; "may" and "march" written small are verbs unless something leads to a month."""
        number = words.MONTHS.get(self.word(i), 0)
        if number and not self.tokens[i].capital and self.word(i) in ("may", "march", "mar"):
            before = self.word(i - 1)
            led = before in words.INSIDE or before in words.PARTS or before == "on" or words.day_of_month(before)
            following = self.word(i + 1)
            dated = words.year(following) or (words.day_of_month(following) and not following.isdigit())
            return number if led or dated else 0
        return number

    def year_after(self, i: int) -> tuple[int | None, int]:
        j = i + (self.word(i) in ("of", "in"))
        year = words.year(self.word(j))
        return (year, j + 1) if year and self.word(j + 1) not in words.COUNTED else (None, i)

    def numeric(self, i: int) -> list[tuple[int | None, int, int | None]] | None:
        """The ways to read 2023-05-07, 05/07/2023 or 5/7."""
        found = words.numeric(self.word(i))
        if found is None:
            return None
        a, b, c = found[1], int(found[3]), found[4]
        if len(a) == 4:
            ways = [(words.year(a), b, int(c) if c else None)] if c or found[2] != "." else []
        elif c is not None and len(c) == 4:
            ways = [(words.year(c), int(a), b), (words.year(c), b, int(a))]
            ways = ways[::-1] if found[2] == "." else ways
        elif c is None and found[2] == "/" and (int(a), b) != (9, 11) and self.says_date(i - 1):
            ways = [(-1, int(a), b), (-1, b, int(a))]
        else:
            return None
        valid = [(y if y > 0 else None, m, d) for y, m, d in ways if y and 0 < m <= 12 and (d is None or 0 < d <= 31)]
        return list(dict.fromkeys(valid[:1] if found[2] == "." else valid)) or None

    def says_date(self, i: int) -> bool:
        """Before 5/7: a half is not the first of February."""
        word = self.word(i)
        return word in words.DATED or (word in ("and", "to") and bool(words.numeric(self.word(i - 1))))

    def date(self, i: int, lead: str) -> Read | None:
        if (numeric := self.numeric(i)) is not None:
            if numeric[0][2] is None and lead not in words.INSIDE:
                return None
            spans = [cal.dated(*way, self.now) for way in numeric]
            spans = [span for span in spans if span.start <= self.now] or spans[:1]
            span = spans[0] if len(spans) == 1 else replace(spans[0], soft=True, also=replace(spans[1], soft=True))
            return self.named_by(replace(span, loose=False), i, i + 1)
        j = i + (self.word(i) == "the")
        raw = self.raw(j)
        if raw is None:
            return self.day_of_a_month(i, lead)
        year, number, day, after = raw
        span = cal.dated(year, number, day, self.now)
        if day is not None:
            return self.named_by(replace(span, loose=False), j, after + (self.word(after) in words.DAYPARTS))
        if j > i or (year is None and lead not in words.INSIDE):
            return (replace(span, bare=True), after) if self.tokens[j].capital else None
        return span, after

    def named_by(self, span: Span, i: int, after: int) -> Read | None:
        """ "the March 15th issue" is not of that day; "the 7/22 trip" may be told of on another."""
        if self.word(i - 1) not in words.DETERMINERS or self.stops(after - 1):
            return span, after
        unclear = self.word(after) in words.WORKS or self.word(i - 2) in words.BOUNDS
        return None if unclear else (replace(span, soft=True), after)

    def day_of_a_month(self, i: int, lead: str) -> Read | None:
        """ "on the 5th", "the 5th of last month"."""
        word = self.word(i + 1)
        day = words.day_of_month(word)
        if self.word(i) != "the" or not day or word.isdigit():
            return None
        if self.word(i + 2) == "of" and self.word(i + 3) in ("this", "last", "the") and self.word(i + 4) == "month":
            first = self.this(int(self.word(i + 3) == "last"), "month").start
            return cal.days(cal.on(first.year, first.month, day)), i + 5
        if lead not in words.ONCE or not (self.stops(i + 1) or self.word(i + 2) in words.AFTER_DAY):
            return None
        first = self.today.replace(day=1)
        if day > self.today.day:
            first = cal.months_later(first, -1)
        return replace(cal.days(cal.on(first.year, first.month, day)), loose=True), i + 2

    def weekday(self, i: int, lead: str) -> Read | None:
        j = i + (self.word(i) == "the")
        word, following = self.word(j), self.word(j + 1)
        day = words.WEEKDAYS.get(word)
        if day is None or (not lead and self.word(i - 1) in words.NOT_PAST):
            return None
        token = self.tokens[j]
        if len(word) < 6 and not (token.capital and lead in words.ONCE):
            return None
        if following.endswith("s") and following[:-1] in words.DAYPARTS:
            return None  # a habit
        name = not lead and i and self.tokens[i - 1].capital and not self.tokens[i - 1].pause
        if name and len(self.word(i - 1)) > 1:
            return None  # Taco Tuesday
        span = replace(cal.weekday(day, self.now), loose=True)
        part = following in words.DAYPARTS
        alone = j == i and (lead in words.ONCE or part or token.pause != "")
        return replace(span, bare=not alone), j + 1 + part

    def season(self, i: int, lead: str) -> Read | None:
        j = i + (self.word(i) == "the")
        name = self.word(j)
        if name not in cal.SEASONS:
            return None
        year, after = self.year_after(j + 1)
        if year is not None:
            return cal.season(name, year), after
        if after < len(self.tokens) and self.tokens[after].capital and not self.stops(j):
            return None  # Spring Boot
        span = replace(cal.latest(lambda year: cal.season(name, year), self.now), loose=True)
        span = replace(span, yearly=lambda year: cal.season(name, year))
        return replace(span, bare=lead not in words.INSIDE or lead == "of"), after

    def holiday(self, i: int, lead: str) -> Read | None:
        read = self.recurring(i) if self.word(i) not in words.MONTHS and self.word(i) not in cal.SEASONS else None
        if read is None:
            return None
        of, after = read
        year, after = self.year_after(after)
        if year is not None:
            return of(year), after
        span = replace(cal.latest(of, self.now), loose=True, yearly=of)
        return replace(span, bare=lead not in words.FEASTS), after

    def year(self, i: int, lead: str) -> Read | None:
        j = i + (self.word(i) == "the" and self.word(i + 1) == "year") * 2
        word = self.word(j)
        if len(word) == 2 and word[0] == "q" and word[1] in "1234":
            year, after = self.year_after(j + 1)
            number = int(word[1])
            if year is not None:
                return cal.quarter(year, number), after
            of = cal.latest(lambda year: cal.quarter(year, number), self.now)
            of = replace(of, bare=lead not in words.INSIDE)
            return replace(of, loose=True, yearly=lambda year: cal.quarter(year, number)), after
        year = words.year(word)
        if not year or self.word(j + 1) in words.COUNTED or (lead not in words.INSIDE and self.word(j - 1) != "year"):
            return None
        return cal.whole_year(year), j + 1
