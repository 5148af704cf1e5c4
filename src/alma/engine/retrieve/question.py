"""What kind of question it is, and what of it is to be searched for.

The kinds are read from set phrases, without a model: a phrase is looked up among the question's plain words, so that
case, punctuation and spacing make no difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from ..text import STOP, words
from ._asked import asked
from ._parts import parts
from ._time_words import MONTHS, WEEKDAYS


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    """What is to be searched for."""
    several: bool
    """Wants more than one memory: a count, a list, a sum, a comparison."""
    ordered: bool
    """Asks which came first, or in which order."""
    latest: bool
    """Asks how things stand now."""
    asks_when: bool
    about_assistant: bool
    """Asks what the assistant said, not what the person did."""
    advice: bool
    """Wants a recommendation that fits the person: preferences matter."""
    names: tuple[str, ...]
    personal: bool = False
    """Asks about what the person did, has or said: it wants to be answered from memory."""
    idle: bool = False
    """Says nothing that could be looked for: "thanks", "go on"."""
    parts: tuple[str, ...] = ()
    """What is to be searched for by itself as well, when several things are asked about."""


def read(query: str) -> Question:
    text = asked(query)
    # The set phrases that `text` leaves out are those that say who is asked about.
    said = f" {' '.join(words(query if len(query) <= _LONG else text))} "
    ordered = _ordered(said)
    about_assistant = _any(said, _ASSISTANT)
    several = ordered or _several(said)
    found = names(text)
    return Question(
        text=text,
        several=several,
        ordered=ordered,
        latest=_any(said, _LATEST),
        asks_when=_any(said, _WHEN) or _asks_duration(said),
        about_assistant=about_assistant,
        advice=_any(said, _ADVICE) and not (about_assistant and _any(said, _RECALL)),
        names=found,
        personal=about_assistant or _personal(query, said),
        idle=not found and _IDLE.issuperset(words(text)),
        parts=parts(text) if several else (),
    )


def _personal(query: str, said: str) -> bool:
    """ "How do I …" asks how it is done, not how I did it."""
    asking = "?" in query or said.startswith(_ASKING)
    told = said
    for phrase in _HOW_TO:
        told = told.replace(phrase, " ")
    return asking and len(query) <= _LONG and _any(told, _OWN)


_LONG = 2000
_ASKING = tuple(
    f" {word} " for word in "what which who whom whose when where why how did do does was were have has".split()
)
_IDLE = STOP | frozenset(
    """ahead alright awesome bye continue cool done excellent exactly fine go going good got great hello hey hi indeed
    keep know left looks next nice nope ok okay perfect proceed right say sounds start sure thank thanks thing things
    think today try understood want wait well work worked working works wow yeah yep yes""".split()
)


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(f" {line.strip()} " for line in text.split(",") if line.strip())


def _any(said: str, phrases: Iterable[str]) -> bool:
    return any(phrase in said for phrase in phrases)


_UNITS = ("minutes", "hours", "days", "weeks", "months", "years")
_SEVERAL = _phrases(
    """how many, list, lists, total, altogether, combined, in all, all the, all my, all of, all our, every, each,
    what are the, what were the, what are my, what were my, what are some, which ones, compare, compared, comparison,
    difference between, differ, average, overall, summary of, summarize, summarise, sum of, both, various, different,
    what kinds of, what types of, what other, what else, the most, the least, the highest, the lowest, more than,
    less than, higher, lower, older, younger, how much more, how much less, how much earlier, how much later, increase,
    decrease, how often, what percentage, the order of, what order, which order, how has, how have, instead of,
    so far, up to now, besides, how much have i"""
)
_ONE = _phrases("most recent, most recently, every day, each day, every week, each week, every month, each month")
_PAIRED = _phrases("how much, how old, how long, how far, what is the minimum, what is the maximum")
_HOW_TO = _phrases(
    "how do i, how can i, how should i, how would i, how do we, how can we, how should we, can i, can we"
)
_OWN = _phrases(
    """did i, did we, have i, have we, had i, had we, was i, were we, do i, do we, am i, are we, will i, my, our, mine,
    ours, i mentioned, i told, i said, i bought, i went, i did, i had, i was, i am, i have, i ve, remind me, for me"""
)
_ORDER = _phrases(
    """came first, come first, happened first, happen first, in what order, in which order, what order, the order of,
    order of, order in which, from earliest to, from first to, from oldest to, from the earliest, earliest to latest,
    before or after, after or before, earlier or later, chronological, chronologically, sooner or later, came last,
    first second and third, sequence of, timeline, which was first, was it before"""
)
_LATEST = _phrases(
    """currently, current, right now, as of now, as of today, latest, newest, most recent, most recently, these days,
    nowadays, at the moment, at present, presently, so far, still, to date, up to date, anymore, any more, now"""
)
_WHEN = _phrases(
    """when did, when was, when were, when is, when are, when do, when does, when will, when had, when have, when has,
    what time, what date, which date, what day, which day, what month, which month, what year, which year, which week,
    what week, the date, since when, how long ago, how long since, how long has it been, how long is it since,
    how long was it since, when exactly, how recently"""
)
_SPANS = _phrases("ago, since, passed, elapsed, before, after, between, until")
_ASSISTANT = _phrases(
    """you told, you said, you say, you mentioned, you recommended, you suggested, you gave, you listed, you explained,
    you described, you provided, you proposed, you advised, you wrote, you made, you came up, you shared, you referred,
    you were referring, you named, you used, you showed, you helped, you answered, you recommend me, you pointed out,
    did you say, did you tell, did you mention, did you recommend, did you suggest, did you give, did you call,
    did you write, you ve told, you ve mentioned, you ve suggested, you had mentioned, you had said, you had suggested,
    our previous, our last, our earlier, our past, our prior, our conversation, our conversations, our chat, our chats,
    our discussion, our session, we talked, we discussed, we spoke, we decided, we chatted, we were talking,
    we were discussing, did we discuss, did we talk, did we decide, previous conversation, previous chat,
    last conversation, earlier conversation, can you remind me, could you remind me, your suggestion,
    your suggestions, your recommendation, your recommendations, your answer, your reply, your response, your advice,
    your last message"""
)
_RECALL = _phrases(
    """remind me, you recommended, you suggested, you mentioned, you told, you said, did you recommend, did you suggest,
    did you give, you gave, your recommendation, your recommendations, your suggestion, your suggestions, your advice"""
)
_ADVICE = _phrases(
    """any tips, some tips, any advice, some advice, any suggestions, some suggestions, any suggestion, any ideas,
    some ideas, any recommendations, some recommendations, any recommendation, any thoughts, tips for, tips on,
    tips to, advice on, advice for, ideas for, suggestions for, suggestions on, recommendations for, recommend,
    suggest, what should i, where should i, which should i, how should i, who should i, when should i, should i,
    what would you, which would you, what do you think, do you think, do you have any, what could i, where can i find,
    how can i, what can i, help me choose, help me find, help me decide, help me pick, help me plan, best way to,
    good idea to, what s a good, what is a good, what are good, what are some good, which one should, worth trying,
    recommendations, suggestions, tips, might i like, would i like, would i enjoy, might i enjoy"""
)


def _several(said: str) -> bool:
    if _asks_duration(said):
        # How long ago one thing was is one memory; how long between two, or until another, is two.
        return " ago " not in said or " when " in said
    if _any(said, _PAIRED) and _any(said, (" and ", " when ", " than ", " by ")):
        return True
    less = said
    for phrase in _ONE:
        less = less.replace(phrase, " ")
    return _any(less, _SEVERAL)


def _asks_duration(said: str) -> bool:
    """ "how many days passed between", "how many weeks ago"."""
    return any(f" how many {unit} " in said for unit in _UNITS) and _any(said, _SPANS)


def _ordered(said: str) -> bool:
    if _any(said, _ORDER):
        return True
    asks = said.startswith((" which ", " who ", " what ", " did ", " was ")) or " which " in said
    return asks and _any(said, (" first ", " earlier ", " last ", " later ")) and " or " in said


_UPPER = "A-ZÀ-ÖØ-ÞΑ-ΩЀ-Я"
# A name begins with one of few letters and marks: to look for these first is what makes it fast.
_PLAIN = (
    rf"[\"“`'‘{_UPPER}](?:(?<=\")([^\"\n]{{2,80}})\"|(?<=“)([^”\n]{{2,80}})”|(?<=`)([^`\n]{{2,80}})`|"
    r"(?<=['‘])(?<!\w['‘])((?:[^'’\n]|['’](?=\w)){2,80})['’](?!\w)|"
    rf"(?<=[{_UPPER}])(?<!\w[{_UPPER}])(?P<proper>(?:(?:t|rs?|s|rof)\. [{_UPPER}])?[\w'’&-]*"
    rf"(?: (?:of the |of |the |de |la |van |von |for |& )?[{_UPPER}0-9][\w'’&-]*){{0,6}}))"
)
_WRITTEN = r"(?<![\w/.@#-])([@#]\w[\w.-]*\w|[\w-]*(?:[/\\._](?=\w)[\w-]+)+(?:\(\))?|[a-z]+[A-Z]\w*)"
_CODE = r"\w[/\\._]\w|[@#/]\w|[a-z][A-Z]"
_STARTERS = STOP | frozenset(
    """fix find list tell give show explain use add write make remind compare name describe hi hello hey thanks thank
    yes no ok okay also recently last today yesterday tomorrow maybe please help need want got get set run check see
    look try update create build debug why user assistant system human question answer note todo first next finally
    however since based according given think keep remember sure great good nice sorry wow any many much another every
    one two three whose""".split()
)
_DAYS = {*WEEKDAYS, *(f"{day}s" for day in WEEKDAYS)}
_NO_NAME = frozenset("i e.g i.e a.m p.m and/or he/she him/her his/her w/o n/a".split()) | MONTHS.keys() | _DAYS
_ACTS = frozenset("said told asked went lives loves likes works bought wants got mentioned".split())
_READ = 20_000


@cache
def _pattern(source: str) -> re.Pattern[str]:
    return re.compile(source)


def names(text: str, most: int = 12) -> tuple[str, ...]:
    """People, places, products, titles and identifiers, as written and each once; not a word that is only
    capitalised because a sentence begins with it."""
    read = text[:_READ]
    shouted = " " in read and read.isupper()
    pattern = _pattern(f"{_WRITTEN}|{_PLAIN}" if _pattern(_CODE).search(read) else _PLAIN)
    found: dict[str, str] = {}
    taken: set[str] = set()
    for match in pattern.finditer(read):
        if match[0] in taken:
            continue
        if match.lastgroup == "proper":
            name = "" if shouted else _proper(read, match)
        else:
            name = match[match.lastindex or 0].strip()
        folded = name.casefold()
        if _names_something(folded):
            found.setdefault(folded, name)
            taken.add(match[0])
            if len(found) >= most:
                break
    return tuple(found.values())[:most]


def _names_something(folded: str) -> bool:
    """Not a date, a clause in quotes, or letters of the alphabet."""
    first = folded.partition(" ")[0]
    if folded in _NO_NAME or first == "i" or not any(map(str.isalpha, folded)):
        return False
    return not ((first in MONTHS or first in WEEKDAYS) and folded[len(first) + 1 :][:1].isdigit())


def _proper(text: str, match: re.Match[str]) -> str:
    run = match[0].split(" ")
    if run[0].startswith(("I'", "I’")) or run[0] == "I":
        return " ".join(run[1:])
    before = text[max(0, match.start() - 3) : match.start()].rstrip(" \t\"“'‘(*-")
    initial = not before or before[-1] in ".!?:\n"
    while initial and run and run[0].lower().replace("’", "'").partition("'")[0] in _STARTERS:
        del run[0]
    kept = _own(" ".join(run))
    if not kept[:1].isupper() or kept.lower() in STOP:
        return ""
    sure = not initial or len(run) < len(match[0].split(" ")) or len(run) > 1
    return kept if sure or _named(text, match, kept) else ""


def _own(name: str) -> str:
    for ending in ("'s", "’s", "'", "’"):
        name = name.removesuffix(ending)
    return name.rstrip("-&")


def _named(text: str, match: re.Match[str], word: str) -> bool:
    """Whether the first word of a sentence is a name: written oddly, owning or doing something, or named again."""
    if word != match[0] or not (word[1:].islower() or len(word) == 1):
        return True
    after = text[match.end() : match.end() + 24]
    if after.startswith(":") or after[1:].split(" ", 1)[0] in _ACTS:
        return True
    again = text.find(f" {word}", match.end())
    return again > 0 and text[again - 1] not in ".!?:\n"
