"""Expressions of time in a question, as the periods they mean.

The question is cut into tokens and read from left to right; each expression is tried from the most to the least
specific. Words decide, not patterns: a table lookup a token costs less than compiling one large expression. What is
quoted is a title, and what is written like a path, a version or code is never a date.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ..text import STOP
from ..text import words as plain_words
from . import _calendar as cal
from . import _time_words as words
from ._calendar import DAY, Span
from ._points import Points, Read


@dataclass(frozen=True, slots=True)
class Window:
    start: datetime
    """Inclusive, in UTC like the end."""
    end: datetime
    """Exclusive."""
    text: str
    """The words it was read from."""
    soft: bool
    """The words are vague: what lies just outside may be meant as well."""


def windows(question: str, now: datetime) -> list[Window]:
    """When the thing asked about happened or was said, in the order read; nothing when the question does not say."""
    zone = now.tzinfo
    found = []
    for first, last, span in _expressions(question, now.replace(tzinfo=None)):
        for reading in (span, span.also):
            if reading is not None:
                start, end = (edge.replace(tzinfo=zone).astimezone(UTC) for edge in (reading.start, reading.end))
                found.append(Window(start, end, question[first:last], reading.soft))
    return found


def without_times(question: str) -> str:
    """The question less its expressions of time, for searching by words; itself when nothing else would be left."""
    left, at = "", 0
    for first, last, _ in _expressions(question, datetime(2100, 12, 31, 23, 59)):
        left += question[at:first]
        at = last
    left = re.sub(r"\s+(?=[\s.,;:!?)]|$)|^[\s,;:]+", "", left + question[at:])
    return left if at and any(word not in STOP for word in plain_words(left)) else question


# So many words may stand before the one that tells it: "in about one and a half | years".
_BEFORE = 7


def _expressions(question: str, now: datetime) -> list[tuple[int, int, Span]]:
    """Where each expression stands in the question, and what it means."""
    if not words.may_tell_time(question):
        return []
    tokens = words.tokens(question)
    telling = [i for i, token in enumerate(tokens) if words.tells_time(token.word)][::-1]
    if not telling:
        return []
    reader = _Reader(tokens, now)
    found: list[tuple[int, int, Span]] = []
    i = 0
    while telling:
        if telling[-1] < i:
            telling.pop()
            continue
        i = max(i, telling[-1] - _BEFORE)
        read = reader.at(i)
        if read is None:
            i += 1
            continue
        span, after = read
        if found and (both := reader.joined(found[-1], i, span)):
            found[-1] = (found[-1][0], after, both)
        else:
            found.append((i, after, span))
        i = max(after, i + 1)
    kept = _settled(found, {token.word for token in tokens}, now)
    return [(tokens[first].start, tokens[last - 1].end, span) for first, last, span in kept]


def _settled(found: list[tuple[int, int, Span]], said: set[str], now: datetime) -> list[tuple[int, int, Span]]:
    """What is left when plans, habits and the future are set aside, and the exact is preferred to the vague."""
    ahead = bool(said & words.AHEAD)
    habit = bool(said & words.HABIT) and not said & words.PAST
    kept = [
        item
        for item in found
        if not (item[2].bare or (ahead and item[2].present) or (habit and item[2].loose) or item[2].start > now)
    ]
    if any(not span.vague for _, _, span in kept):
        kept = [item for item in kept if not item[2].vague]
    if any(not span.relative and span.end - span.start <= DAY for _, _, span in kept):
        # "last Friday, as told on 23 January": told from that day, not from now.
        kept = [item for item in kept if not item[2].relative]
    return kept


class _Reader(Points):
    """Points in time, and what is said of them."""

    def at(self, i: int) -> Read | None:
        return self.between(i) or self.bounded(i) or self.led(i)

    def joined(self, earlier: tuple[int, int, Span], i: int, span: Span) -> Span | None:
        """ "on Tuesday of last week" is one expression, "on Tuesday. Last week" are two."""
        _, after, first = earlier
        if i - after > 1 or (i > after and self.word(after) not in ("of", "in", "on", "during")):
            return None
        pause = self.tokens[after - 1].pause
        return cal.joined(first, span) if not pause or (pause == "," and span.recurs != first.recurs) else None

    def led(self, i: int) -> Read | None:
        """A point in time with the word that leads to it: "in May", "back in 2020", "at the end of last month"."""
        j = i + (self.word(i) in ("back", "as") and self.word(i + 1) in words.LEADS)
        lead = self.word(j)
        if lead not in words.LEADS:
            return self.point(i, "")
        hedged = self.ago(i)  # "over a year ago", "around two weeks ago"
        read = hedged or self.point(j + 1, lead)
        if hedged or read is None or not read[0].relative or self.word(j + 1) in ("the", "past") or j > i:
            return read
        return None  # "take part in | last week": that word belongs to what was done

    def between(self, i: int) -> Read | None:
        start = i + (self.word(i) in ("between", "from", "in", "on", "during", "the"))
        opened = self.word(i) in ("between", "from")
        return self.dates(start, opened) or (self.ends(start) if opened else None)

    def dates(self, i: int, opened: bool) -> Read | None:
        """ "3 to 10 May", "May 3–10", "March and May 2022": what one end leaves out, the other says."""
        day, first = words.day_of_month(self.word(i)), self.raw(i)
        if first is None and day and (last := self.raw(i + 2)) and last[2] and self.word(i + 1) in words.TO:
            first = (last[0], last[1], day, i + 1)
        if first is None or (self.word(first[3]) not in words.TO if opened else self.word(first[3]) != "–"):
            return None
        last = self.raw(first[3] + 1)
        if last is None and first[2] and (day := words.day_of_month(self.word(first[3] + 1))):
            year, after = self.year_after(first[3] + 2)
            last = (year or first[0], first[1], day, after)
        if last is None:
            return None
        begin, end = (cal.dated(each[0] or last[0], each[1], each[2], self.now) for each in (first, last))
        if begin.start > end.start and first[0] is None:
            begin = cal.dated(end.start.year - (first[1] > last[1]), first[1], first[2], self.now)
        return self.range(begin, end, last[3])

    def ends(self, i: int) -> Read | None:
        first = self.point(i, "from")
        if first is None or self.word(first[1]) not in words.TO:
            return None
        if self.word(first[1] + 1) in ("now", "present"):
            return Span(first[0].start, self.today + DAY, soft=first[0].soft), first[1] + 2
        last = self.point(first[1] + 1, "from")
        return None if last is None else self.range(first[0], last[0], last[1])

    def range(self, begin: Span, end: Span, after: int) -> Read | None:
        if begin.start >= end.end:
            return None
        return Span(begin.start, end.end, soft=begin.soft or end.soft), after

    def bounded(self, i: int) -> Read | None:
        """ "since March", "before June": open at one side."""
        word = self.word(i)
        j = i + 1 + (word == "prior" or self.word(i + 1) in ("around", "about"))
        if word not in words.BOUNDS or self.attributive(j):
            return None
        read = self.point(j, word)
        if read is None or read[0].vague:
            return None
        span, after = read
        if word in ("since", "after"):
            start = span.start if word == "since" else span.end
            open_ended = Span(start, max(self.today, start) + DAY, soft=span.soft)
        else:
            end = span.end if word in ("until", "till", "by") else span.start
            if end > self.today or span.present:
                return None  # says nothing about the past
            open_ended = Span(cal.LONG_AGO, end, soft=span.soft)
        return replace(open_ended, loose=span.loose), after

    def attributive(self, i: int) -> bool:
        """ "the 7/22 trip" names a trip; when it was told is another matter."""
        return self.word(i) in words.DETERMINERS and (self.raw(i + 1) is not None) and not self.stops(i + 1)

    def point(self, i: int, lead: str) -> Read | None:
        return self.anchored(i) or self.part(i, lead) or self.simple(i, lead)

    def anchored(self, i: int) -> Read | None:
        """ "the week before August 3", "two weeks after Christmas"; before an event it means nothing to us."""
        j = i + (self.word(i) in ("the", "last"))
        number = self.number(j)
        low, high, k = number or (1, 1, j)
        unit, day = self.unit(k), words.WEEKDAYS.get(self.word(k))
        side = self.word(k + 1)
        if side not in ("before", "after", "following", "of") or (not unit and (day is None or number)):
            return None
        if side == "before" and self.word(k + 2) == "last" and unit in ("week", "weekend", "month", "year"):
            return self.this(2, unit), k + 3
        read = None if self.attributive(k + 2) else self.part(k + 2, side) or self.simple(k + 2, side)
        if read is None or read[0].vague or read[0].bare:
            return None
        if side == "of":
            return (cal.around(read[0], unit), read[1]) if unit and not number and j > i else None
        way = 1 if side == "before" else -1
        up_to = number is None or j > i
        span = self.beside(read[0], way, unit, day) if up_to and not number else None
        span = span or self.away(read[0], way, unit, (low, high), up_to)
        return None if span is None else (span, read[1])

    def beside(self, anchor: Span, way: int, unit: str, day: int | None) -> Span | None:
        """The Sunday or the weekend next to it."""
        if day is None and unit != "weekend":
            return None
        edge = anchor.day if way > 0 else anchor.day + 8 * DAY
        return replace(cal.weekday(day, edge), weekly=False) if day is not None else cal.weekend(edge, 1)

    def away(self, anchor: Span, way: int, unit: str, count: tuple[float, float], up_to: bool) -> Span | None:
        """So far from it, or all the time up to it: "two weeks before", "the two weeks before"."""
        edge = (
            anchor.day if way > 0 or not up_to else max(anchor.day + DAY, anchor.end if not anchor.soft else anchor.day)
        )
        far, near = cal.before(edge, way * count[1], unit), cal.before(edge, way * count[0], unit)
        if far is None or near is None:
            return None
        if up_to:
            return Span(min(far, edge), max(far, edge), soft=anchor.soft)
        room = cal.slack(count[1], unit)
        return Span(min(far, near) - room, max(far, near) + room + DAY)

    def part(self, i: int, lead: str) -> Read | None:
        """ "late May", "the end of last month", "the first week of May", "the second half of 2022"."""
        j = i + (self.word(i) == "the")
        which = words.PARTS.get(self.word(j))
        if which is not None:
            k = j + 1 + (self.word(j + 1) in ("of", "in"))
            read = self.whole(k) or self.simple(k, "in")
            if read is None or read[0].end - read[0].start <= DAY:
                return None
            return self.begun(read[0], lambda span: cal.part(span, which)), read[1]
        nth = words.ORDINALS.get(self.word(j))
        number = self.number(j + 1) if nth in (1, -1) else None
        k = number[2] if number else j + 1
        unit = "half" if self.word(k) == "half" else self.unit(k)
        if nth is None or unit in ("", "minute", "hour") or self.word(k + 1) not in ("of", "in"):
            return None
        read = self.whole(k + 2) or self.simple(k + 2, "in")
        if read is None:
            return None
        inner = self.begun(read[0], lambda span: self.nth(span, nth, unit, number[1] if number else 1))
        shorter = inner.end - inner.start < read[0].end - read[0].start
        return (inner, read[1]) if shorter and inner.end > inner.start else None

    def whole(self, i: int) -> Read | None:
        """ "the year" in "the end of the year"."""
        unit = self.unit(i + 1)
        if self.word(i) != "the" or unit not in ("week", "month", "year"):
            return None
        span = self.this(0, unit)
        return replace(span, yearly=cal.whole_year) if unit == "year" else span, i + 2

    def begun(self, span: Span, cut: Callable[[Span], Span]) -> Span:
        """The part of the latest such span whose part has begun."""
        found = cut(span)
        if found.start > self.now and span.yearly is not None:
            found = cut(span.yearly(span.start.year - 1))
        return replace(found, yearly=None, weekly=False)

    def nth(self, span: Span, nth: int, unit: str, count: float) -> Span:
        if unit == "weekend":
            return self.nth_weekend(span, nth)
        length = (span.end - span.start) / 2 if unit == "half" else None
        if length is None:
            step = cal.before(span.start, -count, unit)
            length = (step or span.end) - span.start
        start = span.end - length if nth < 0 else span.start + (nth - 1) * length
        start, end = cal.midnight(start), cal.midnight(start + length)
        room = DAY if unit == "week" else 0 * DAY
        return replace(span, start=max(span.start, start - room), end=min(span.end, end + room))

    def nth_weekend(self, span: Span, nth: int) -> Span:
        first = cal.weekend(span.start + (7 if span.start.weekday() == 6 else 0) * DAY, 0)
        last = cal.weekend(span.end - DAY, int((span.end - DAY).weekday() < 5))
        return last if nth < 0 else cal.days(first.start + 7 * (nth - 1) * DAY, 2)
