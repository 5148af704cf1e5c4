"""What a question asks: its own words out of a pasted prompt, whom and which times it names, whose matter it is.

Times are read as windows relative to now: English, and the plainest forms of German, Spanish and French. An expression
that is not known gives no window. The words are in `questions.json` and `times.json`. `make gate` scores this reader.
"""

from __future__ import annotations

import re
from calendar import isleap, monthrange
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from .local import load_file, remove_pasted

DAY = timedelta(days=1)
_TIMED_CHARS, _MAX_LEAD_CHARS = 2000, 40
_LONG_AGO = datetime(1000, 1, 1)
_DATA: dict[str, Any] = load_file("times.json")
_WORDS: dict[str, dict[str, str]] = {
    kind: {word.replace("_", " "): value for value, row in rows.items() for word in row.split()}
    for kind, rows in _DATA["words"].items()
}
_ANY = {kind: "|".join(map(re.escape, sorted(words, key=len, reverse=True))) for kind, words in _WORDS.items()}
_GROUPS = {kind: f"(?P<{kind}>{choices})" for kind, choices in _ANY.items()}
_PIECES = _GROUPS | {name: piece.format(**_GROUPS) for name, piece in _DATA["pieces"].items()}
_LEAD = re.compile(rf"(?<![\w-])(?:(?:{_ANY['lead']}) ){{1,4}}\Z", re.I)
_TO = re.compile(rf" ?(?:{_ANY['to']}) ?(?:the )?", re.I)
_FRENCH = re.compile(rf"\b(?:{_ANY['french']})\b", re.I)
_QUOTED = re.compile(r"(?<!\w)(?:'[^'\n]{2,80}'|\"[^\"\n]{2,80}\"|“[^”\n]{2,80}”|`[^`\n]{2,80}`)(?!\w)")
NAMES_OF_TIMES = _WORDS["month"].keys() | _WORDS["weekday"].keys()
_MAX_CHARS = 1000
_SHORT_CHARS = 400
"""Up to here, code and output are what is asked about."""
_MAX_START, _MAX_END = 5_000, 15_000
"""Of a longer prompt the beginning says what to do, and the end asks."""
_MAX_NAMES, _MAX_PARTS, _MIN_PART_CHARS = 12, 4, 8
_VOCABULARY: dict[str, Any] = load_file("questions.json")
_WORD = re.compile(r"[^\W_]+")
_PLAIN = frozenset(_VOCABULARY["plain"].split())
_NOT_NAMES = _PLAIN | NAMES_OF_TIMES
_IDLE = _PLAIN | frozenset(_VOCABULARY["idle"].split())


@cache
def _compile_phrases(name: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(_VOCABULARY[name])})\b", re.I)


_ASKING = re.compile(rf"\?|^\W*(?:{'|'.join(_VOCABULARY['asking'].split())})\b", re.I)
_CONTEXT = re.compile(rf"<(/?)(?:{'|'.join(_VOCABULARY['context_tags'].split())})(?:\s[^<>]{{0,200}})?>", re.I)
_TAGGED = re.compile(rf"<({'|'.join(_VOCABULARY['question_tags'].split())})>([^<>]{{3,1000}})</\1>", re.I)
_TURN = re.compile(r"^[ \t]{0,8}(?:(user|human|question|q)|assistant|ai|bot|system|answer)[ \t]?:", re.I | re.M)
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_ERROR = re.compile(r"^.{0,80}?(?:error|exception|panic|fatal|failed)\b.{0,200}", re.I | re.M)
_SENTENCE = re.compile(r"[^.?!\n]{3,250}\?")

_PART = re.compile(r"\bbetween (.{3,300}?) and (.{3,300})|[,:] (.{3,300}?),? or (.{3,300})", re.I | re.S)
_JOINT = re.compile(r"\b(?:before|after|when|since|than|until|from)\b", re.I)
_QUOTE = r"(?<!\w)(?:\"[^\"\n]{2,80}\"|“[^”\n]{2,80}”|`[^`\n]{2,80}`|'(?:[^'\n]|'(?=\w)){2,80}'(?!\w))"
_CODE = r"(?<![\w/.@#-])(?:[@#]\w{2,40}|[\w-]{1,80}(?:[/._]\w[\w-]{0,80}){1,20}(?:\(\))?|[a-z]{1,40}[A-Z]\w{0,80})"
_CAPITAL = r"[A-ZÀ-ÞΑ-ΩЀ-Я][\w'’&-]{0,40}"
_PROPER = rf"(?<!\w)(?:(?:Dr|Mrs?|St)\. )?{_CAPITAL}(?: (?:(?:of|of the|de|van) )?(?:{_CAPITAL}|\d{{1,6}})){{0,6}}"
_NAME = re.compile(rf"(?P<quote>{_QUOTE})|(?P<code>{_CODE})|(?P<proper>{_PROPER})")


class Question(NamedTuple):
    """What a query asks for."""

    text: str  # The words to search for.
    several: bool  # It asks for more than one memory: a count, a list, a comparison.
    names: tuple[str, ...]
    personal: bool  # It asks about what the person did, has or said.
    idle: bool  # It holds no word to search for, as "thanks" and "go on".
    parts: tuple[str, ...]  # The things it asks about, where it names several.


def read_question(prompt: str) -> Question:
    """Return what a query asks for."""
    text = cut_pasted(prompt)
    names = find_names(text)
    several = _compile_phrases("several").search(_compile_phrases("one").sub(" ", text)) is not None
    return Question(
        text=text,
        several=several,
        names=names,
        personal=bool(
            _ASKING.search(text) and _compile_phrases("own").search(_compile_phrases("how_to").sub(" ", text))
        ),
        idle=not names and _IDLE.issuperset(_WORD.findall(text.casefold())),
        parts=split_parts(text) if several or " or " in text else (),
    )


def cut_pasted(prompt: str) -> str:
    """Return the words of a prompt that ask, in at most 1,000 characters.

    Of a longer text these are its beginning and its end without pasted blocks, the last questions and the last error.
    """
    text = prompt if len(prompt) <= _MAX_START + _MAX_END else f"{prompt[:_MAX_START]}\n{prompt[-_MAX_END:]}"
    text = _HIDDEN.sub("", text)
    tagged = _TAGGED.search(text)
    text = tagged[2] if tagged else _drop_context(text) if "<" in text else text
    text = _keep_last_turn(text) if ":" in text else text
    flat = " ".join(text.split())
    if len(flat) <= _SHORT_CHARS:
        return flat or prompt[:_MAX_CHARS]
    own = " ".join((remove_pasted(text) or text).split())
    ends = [*_SENTENCE.findall(own)[-2:], *(error.strip() for error in _ERROR.findall(text)[-1:])]
    room = _MAX_CHARS - sum(len(end) + 1 for end in ends)
    if len(own) > room:
        own = f"{own[: room // 3]} {own[1 + room // 3 - room :]}"
    return " ".join([own, *(end for end in ends if end not in own)]).strip()


def _drop_context(text: str) -> str:
    """Return the text outside of tags that hold context, such as <documents>; all of it where one is left open."""
    pieces, depth, at = [], 0, 0
    for tag in _CONTEXT.finditer(text):
        pieces += [] if depth else [text[at : tag.start()]]
        depth, at = max(0, depth + (-1 if tag[1] else 1)), tag.end()
    own = " ".join((*pieces, text[at:]))
    return own if not depth and _WORD.search(own) else text


def _keep_last_turn(text: str) -> str:
    """Return what the person said last in a transcript, or the text where it is none."""
    turns, end = [], len(text)
    for mark in reversed(list(_TURN.finditer(text))):
        turns += [text[mark.end() : end]] if mark[1] else []
        end = mark.start()
    return next((turn for turn in turns if _WORD.search(turn)), text)


def find_names(text: str) -> tuple[str, ...]:
    """Return people, places, titles and identifiers, as they are written and each once."""
    names: dict[str, str] = {}
    for match in _NAME.finditer("" if " " in text and text.isupper() else text[:_MAX_END]):
        name = match[0].strip("\"“”`'‘ ") if match["quote"] else match[0]
        if match["proper"]:
            words, before = name.split(" "), text[max(0, match.start() - 4) : match.start()]
            is_first = before.rstrip(" \"“'‘(*-")[-1:] in ("", ".", "!", "?", ":", "\n")
            while words and words[0].casefold().replace("’", "'").partition("'")[0] in _NOT_NAMES:
                del words[0]
            is_sure = not is_first or len(words) > 1 or words != name.split(" ") or "'" in name
            name = re.sub(r"['’]s?$", "", " ".join(words)) if is_sure else ""
        folded = name.casefold()
        if any(map(str.isalpha, name)) and folded.removesuffix("s") not in _NOT_NAMES and len(names) < _MAX_NAMES:
            names.setdefault(folded, name)
    return tuple(names.values())


def split_parts(text: str) -> tuple[str, ...]:
    """Return the things that a question asks about: "the trip" and "the wedding" of "the trip or the wedding"."""
    pair = _PART.search(text)
    pieces = [piece for piece in pair.groups() if piece] if pair else _JOINT.split(text)
    parts = [piece.strip(" ,?!.\"'“”`") for piece in pieces]
    if len(parts) < 2 or any(_PLAIN.issuperset(_WORD.findall(part.casefold())) for part in parts):
        return ()
    return tuple(part for part in parts if len(part) >= _MIN_PART_CHARS)[:_MAX_PARTS]


# -- times


@cache
def _compile_forms() -> list[re.Pattern[str]]:
    """Return the patterns of all expressions, made when they are first needed: that takes a while."""
    ends = r"(?<![\w/.#-])(?:%s)(?![\w/]|[-.]\w)"
    return [re.compile(ends % form.format(**_PIECES), re.I) for form in _DATA["forms"]]


class Window(NamedTuple):
    """A period from `start` until before `end`, and where in the question it is named."""

    start: datetime
    end: datetime
    soft: bool  # Whether the wording is vague, so that times just outside the window also match.
    place: tuple[int, int]
    leads: frozenset[str] = frozenset()
    is_relative: bool = False


def find_windows(question: str, now: datetime) -> list[Window]:
    """Return the past times that a question names, in UTC and in the order of the text."""
    zone, windows = now.tzinfo, _find_local(question, now.replace(tzinfo=None))
    ends = [[edge.replace(tzinfo=zone).astimezone(UTC) for edge in (one.start, one.end)] for one in windows]
    return [one._replace(start=start, end=end) for one, (start, end) in zip(windows, ends, strict=True)]


def remove_times(question: str) -> str:
    """Return the question without the times it names."""
    text = question
    for window in reversed(_find_local(question, datetime(2100, 12, 31))):
        text = text[: window.place[0]] + text[window.place[1] :]
    return text if text == question else re.sub(r"\s+(?=[\s.,;:!?)]|$)|^[\s,;:]+", "", text)


def _find_local(question: str, now: datetime) -> list[Window]:
    """Find windows in the time of the person who asks, the most specific forms first."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    text = _QUOTED.sub(lambda quote: "#" * len(quote[0]), question[:_TIMED_CHARS])
    windows: list[Window] = []
    for form in _compile_forms():
        for match in list(form.finditer(text)):
            lead = _LEAD.search(text, max(0, match.start() - _MAX_LEAD_CHARS), match.start())
            words = lead[0].lower().split() if lead else []
            leads = frozenset(_WORDS["lead"][word] for word in words)
            groups = {name: value.lower() for name, value in match.groupdict().items() if value}
            first, last = lead.start() if lead else match.start(), match.end()
            is_end = any("between" in one.leads and _TO.fullmatch(text, one.place[1], first) for one in windows)
            if "open" in groups and leads <= {"filler", "about"} and not is_end:
                continue
            if groups.get("days_ago") == "hier" and not _FRENCH.search(text):  # German for "here"
                continue
            try:
                start, end = _apply_leads(*_read_period(groups, today, words[-1:] == ["the"]), leads, today)
            except (ValueError, OverflowError):  # there is no such day
                continue
            soft = "about" in leads or groups.get("number") in ("few", "several")
            windows.append(Window(start, end, soft, (first, last), leads, not groups.keys() & {"month", "year"}))
            text = text[:first] + "#" * (last - first) + text[last:]
    windows = [
        one for one in (_join_ranges(text, windows) if windows else ()) if one.start <= now and one.start < one.end
    ]
    is_exact = any(not one.is_relative and one.end - one.start <= DAY for one in windows)
    return [one for one in windows if not (is_exact and one.is_relative)]


def _read_period(groups: dict[str, str], today: datetime, rolling: bool) -> tuple[datetime, datetime]:
    if "month" in groups or "year" in groups:
        return _read_date(groups, today)
    if "weekday" in groups:
        start = today - ((today.weekday() - int(_WORDS["weekday"][groups["weekday"]])) % 7 + 1) * DAY
        return start, start + DAY
    if "days_ago" in groups:
        start = today - int(_WORDS["days_ago"][groups["days_ago"]]) * DAY
        return start, start + DAY
    unit = _WORDS["unit"][groups["unit"]]
    count = int(groups.get("count") or _WORDS["number"][groups.get("number", "a")])
    is_last = not groups.keys().isdisjoint(("last", "last_after"))
    if "ago" in groups:
        start, slack = _shift_date(today, unit, -count), _estimate_slack(unit, count)
        return start - slack, start + slack + DAY
    if groups.keys() & {"count", "number"} or (is_last and rolling and unit != "weekend"):
        return _shift_date(today, unit, -count), today + DAY
    week, month = today - today.weekday() * DAY, today.replace(day=1)
    starts = {"day": today, "week": week, "weekend": week + 5 * DAY, "month": month, "year": month.replace(month=1)}
    start = _shift_date(starts[unit], unit, -is_last)
    end = start + 2 * DAY if unit == "weekend" else _shift_date(start, unit, 1)
    return (start - DAY if unit == "week" else start), end  # some weeks begin with a Sunday


def _read_date(groups: dict[str, str], today: datetime) -> tuple[datetime, datetime]:
    year = int(groups.get("year", 0))
    if "month" not in groups:
        return datetime(year, 1, 1), datetime(year + 1, 1, 1)
    month, last = int(_WORDS["month"].get(groups["month"], groups["month"])), int(groups.get("day", 1))
    if month > 12:
        month, last = last, month
    day = int(groups.get("first_day", last))
    is_leap_day = (month, day) == (2, 29)
    years = [year] if year else [one for one in range(today.year, today.year - 9, -1) if isleap(one) or not is_leap_day]
    start = next(date for date in (datetime(one, month, day) for one in years) if year or date <= today)
    return start, start.replace(day=last) + DAY if "day" in groups else _shift_date(start, "month", 1)


def _shift_date(date: datetime, unit: str, count: int) -> datetime:
    """Return the date so many units later, on the last day of a shorter month."""
    if unit in ("day", "week", "weekend"):
        return date + count * (1 if unit == "day" else 7) * DAY
    year, month = divmod(date.year * 12 + date.month - 1 + count * (12 if unit == "year" else 1), 12)
    return date.replace(year=year, month=month + 1, day=min(date.day, monthrange(year, month + 1)[1]))


def _estimate_slack(unit: str, count: int) -> timedelta:
    """Return how far off "so many units ago" usually is: the more and the larger, the wider."""
    if unit == "day":
        return (0 if count <= 2 else 1 if count < 7 else min(5, round(count * 0.15))) * DAY
    return {"month": min(45, 12 + 3 * count), "year": min(240, 90 + 30 * count)}.get(unit, min(7, 3 + count // 4)) * DAY


def _apply_leads(start: datetime, end: datetime, leads: frozenset[str], today: datetime) -> tuple[datetime, datetime]:
    if leads & {"since", "after"}:
        return (start if "since" in leads else end), today + DAY
    if leads & {"before", "until"}:
        return _LONG_AGO, (start if "before" in leads else end)
    return start, end


def _join_ranges(text: str, windows: list[Window]) -> list[Window]:
    """Join "between" one time "and" the next; a first time without a year takes the second one's."""
    joined: list[Window] = []
    for window in sorted(windows, key=lambda one: one.place):
        before = joined[-1] if joined else None
        if before and "between" in before.leads and _TO.fullmatch(text, before.place[1], window.place[0]):
            start = before.start
            while start > window.start and start.year >= window.start.year:
                start = _shift_date(start, "year", -1)
            joined[-1] = before._replace(start=start, end=window.end, place=(before.place[0], window.place[1]))
        else:
            joined.append(window)
    return joined
