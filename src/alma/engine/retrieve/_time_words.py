"""The words of time: how a question is cut into tokens, and the tables its expressions of time are read by."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from . import _calendar as cal

# What is asked stands last, and nobody dates a question over more than this.
_MOST = 4000
_CHUNK = r"\d{1,3}(?:,\d{3})+(?!\d)|[–—]|[^\s,;–—()\[\]…]+"
_QUOTED = r"\"[^\"\n]{1,90}\"|“[^”\n]{1,90}”|`[^`\n]{1,90}`|(?<!\w)['‘](?:[^'’\n]|['’](?=\w)){1,90}['’](?!\w)"
_NUMERIC = r"(\d{1,4})([-/.])(\d{1,2})(?:\2(\d{1,4}))?(?:t\d.*)?"
_LETTERS = re.compile(r"[a-z]+")
_EDGES = ".!?:\"'“”‘’*"


@cache
def _pattern(source: str) -> re.Pattern[str]:
    # Compiled when a question first needs it: most do not.
    return re.compile(source)


def numeric(word: str) -> re.Match[str] | None:
    """A date in digits: 2023-05-07, 5/7."""
    return _pattern(_NUMERIC).fullmatch(word) if word[:1].isdigit() and not word.isdigit() else None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Token:
    word: str
    start: int
    end: int
    pause: str
    """"." where the sentence ends, "," where a part of it does."""
    capital: bool


def tokens(question: str) -> list[Token]:
    offset = max(0, len(question) - _MOST)
    text = question[offset:]
    masked = _masked(text) if any(mark in text for mark in "\"'“‘`") else text
    made = []
    for found in _pattern(_CHUNK).finditer(masked):
        core = found[0].strip(_EDGES)
        begin = found.start() + found[0].find(core)
        pause = _pause(masked[begin + len(core) : found.end() + 1], found.end() == len(masked))
        for word, first, last in _pieces(core):
            plain = word.replace("’", "'").lower().removesuffix("'s").removesuffix("'").replace(",", "")
            at = offset + begin
            made.append(Token(plain, at + first, at + last, pause if last == len(core) else "", word[:1].isupper()))
    return made


def _masked(text: str) -> str:
    """Titles hidden, unless the whole question is in quotes."""
    most = 0.6 * len(text)
    return _pattern(_QUOTED).sub(lambda found: "\0" * len(found[0]) if len(found[0]) < most else found[0], text)


def _pause(after: str, last: bool) -> str:
    if last or any(mark in ".!?" for mark in after):
        return "."
    return "," if any(mark in ",;:)" for mark in after) else ""


def _pieces(core: str) -> list[tuple[str, int, int]]:
    """Parts of "mid-May", "3-10" and "twenty-five"; other compounds stay whole, and so mean nothing here."""
    if "-" not in core:
        return [(core, 0, len(core))]
    left, _, right = core.partition("-")
    a, b = left.lower(), right.lower()
    together = (
        a in PARTS
        or (a in NUMBERS and b in NUMBERS)
        or (a in MONTHS and b in MONTHS)
        or (day_of_month(a) and day_of_month(b))
        or (year(a) and year(b))
    )
    if not together:
        return [(core, 0, len(core))]
    cut = len(left)
    ends = [(left, 0, cut), (right, cut + 1, len(core))]
    return ends if a in PARTS or a in NUMBERS else [ends[0], ("–", cut, cut + 1), ends[1]]


NUMBERS = {
    word: number
    for number, word in enumerate(
        "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
        "eighteen nineteen twenty".split(),
        1,
    )
} | {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "ninety": 90}
VAGUE = {"couple": (2, 3), "few": (2, 5), "several": (3, 8), "dozen": (12, 12), "handful": (3, 6)}
MANY = {"minute": 50, "hour": 20, "day": 10, "week": 8, "month": 11, "year": 10}
HEDGES = frozenset(
    "about around roughly approximately approx nearly almost maybe perhaps some like exactly just".split()
)
MONTHS = {
    name: number
    for number, names in enumerate(
        ("january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
         "september sep sept", "october oct", "november nov", "december dec"),
        1,
    )
    for name in names.split()
}  # fmt: skip
WEEKDAYS = {
    name: number
    for number, names in enumerate(
        ("monday mon", "tuesday tue tues", "wednesday wed", "thursday thu thur thurs", "friday fri", "saturday sat",
         "sunday sun")
    )
    for name in names.split()
}  # fmt: skip
ORDINALS = {
    "first": 1,
    "second": 2,
    "third": 3,
    "fourth": 4,
    "1st": 1,
    "2nd": 2,
    "3rd": 3,
    "4th": 4,
    "last": -1,
    "final": -1,
}
PARTS = {
    "early": "early", "beginning": "early", "start": "early", "mid": "mid", "middle": "mid", "late": "late",
    "end": "late",
}  # fmt: skip
LAST = frozenset({"last", "past", "previous"})
LEADS = frozenset("in on at over during around within throughout for of".split())
BOUNDS = frozenset("since before after until till by prior".split())
INSIDE = frozenset("in during over around within throughout since before after until till by from between of".split())
ONCE = frozenset("on since before after until till by from between around".split())
DATED = ONCE | {"the"}
UNKNOWN = frozenset({"many", "much", "hundred", "hundreds", "thousand", "thousands", "million", "millions"})
AFTER_DAY = frozenset("of in at with and when did we i you what who".split())
FEASTS = INSIDE | {"on", "at", "for"}
DETERMINERS = frozenset("the my our your his her their a an".split())
NOT_PAST = frozenset("next coming following upcoming every each any another a an most".split())
DAYPARTS = {"morning": (4, 13), "afternoon": (11, 19), "evening": (16, 24), "night": (17, 28)}
RECENT = {"recently": 60, "lately": 60}
TO = frozenset({"to", "until", "till", "through", "and", "–"})
WORKS = frozenset("issue edition version release deadline model budget release".split())
AHEAD = frozenset(
    "should will shall plan planning suggest recommend tips advice ideas suggestions recommendations".split()
)
HABIT = frozenset("do does usually normally typically always often".split())
PAST = frozenset("did was were had have has been went happened".split())
COUNTED = frozenset(
    "steps lines items files rows users people words pages tokens pieces times ways parts places".split()
)


def day_of_month(word: str) -> int:
    digits = word[:-2] if word[-2:] in ("st", "nd", "rd", "th") else word
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 2 and 0 < int(digits) <= 31 else 0


def year(word: str) -> int:
    return int(word) if len(word) == 4 and word.isascii() and word.isdigit() and 1900 <= int(word) <= 2100 else 0


_SINGLE = (*MONTHS, *WEEKDAYS, *cal.UNITS, *cal.SEASONS, *cal.FEASTS, *RECENT)
_TELLING = frozenset(
    (*_SINGLE, *(f"{word}s" for word in _SINGLE), *"yesterday today tonight while bit time half".split(), *DAYPARTS)
)


def may_tell_time(question: str) -> bool:
    """A look before the reading: most questions say no time at all."""
    lower = question[-_MOST:].lower()
    return any(map(str.isdigit, lower)) or not _TELLING.isdisjoint(_LETTERS.findall(lower))


def tells_time(word: str) -> bool:
    """Without such a word there is no expression of time, and no need to look for one."""
    return word in _TELLING or (word[:1].isdigit() and len(word) > 2) or (len(word) == 2 and word[0] == "q")
