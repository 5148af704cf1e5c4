"""How a task is called, what sort it is, and how soon it is wanted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum

from ...engine.text import shorten
from ._blocks import Piece

TITLE_CHARS = 80
_BOLD = re.compile(r"^(?:\*\*|__)(?P<title>[^*_\n]{2,100}?):?(?:\*\*|__)\s*[:—–-]?\s*")
_EMPHASIS = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1")
_FIRST_SENTENCE = re.compile(r"[.!?](?=\s+[^\sa-z])")
_MARK = re.compile(
    r"(?i)\s*[\[(](?:p[0-4]|(?:low|medium|high|top|highest|lowest)(?: prio(?:rity)?)?|urgent|critical|optional"
    r"|asap)[\])]\s*"
)


_TAIL = re.compile(
    r"(?i)[,;]?\s*\b(?:no (?:rush|hurry)|asap|urgent(?:ly)?|if time permits|when(?:ever)? you (?:can|have time)|please"
    r"|if (?:you have|there(?:['’]s| is)) (?:any )?time|thanks|thank you)[.!]*$"
)
_HANGING = re.compile(r"(?i)^\S+(?:\s+\S+)?\s+(?:it|this|that|them|these|those)$")


def hangs(title: str) -> bool:
    """It says only what to do with something that was named before: 'fix it'."""
    return bool(_HANGING.match(title))


def titled(piece: Piece) -> str:
    """Short, without what only decorates it."""
    bold = _BOLD.match(piece.text)
    if bold:
        return _dressed(bold["title"])
    end = _FIRST_SENTENCE.search(piece.masked)
    return _dressed(piece.text[: end.start()] if end else piece.text)


def _dressed(text: str) -> str:
    # A title is much shorter; marks beyond this do not matter.
    plain = _MARK.sub(" ", _EMPHASIS.sub(r"\2", " ".join(text.split())[: 20 * TITLE_CHARS])).strip()
    plain = _TAIL.sub("", plain) or plain
    plain = plain.rstrip(".!;:,… ") or plain
    plain = _fitted(plain)
    return plain[:1].upper() + plain[1:]


def _fitted(text: str) -> str:
    if len(text) <= TITLE_CHARS:
        return text
    cut = text.rfind(" ", TITLE_CHARS // 2, TITLE_CHARS)
    return f"{text[:cut].rstrip(',;: ')}…" if cut > 0 else shorten(text, TITLE_CHARS)


# -- sort

_BUG = re.compile(
    r"(?i)\b(?:fix(?:es|ed)?|bugs?|broken|crash\w*|regression|hotfix|defect|repair|flaky|stack ?trace|fails?|failing)\b"
)
_QUESTION = re.compile(
    r"(?i)^(?:why|how|what|which|where|when|who)\b|^(?:investigate|research|find out|figure out|explore"
    r"|analy[sz]e|compare"
    r"|evaluate|study|determine|look into|understand)\b|\?$"
)
_FEATURE = re.compile(
    r"(?i)^(?:add|implement|create|build|introduce|support|develop|enable|design|integrate|write a)\b"
)


_CHORE = re.compile(r"(?i)\b(?:tests?|docs?|documentation|comments?|changelog|readme)\b")


def item_type(title: str) -> str:
    """By the title; a question asks for an answer, whatever it is about."""
    if _QUESTION.search(title):
        return "research_question"
    if _FEATURE.match(title):
        return "task" if _CHORE.search(title) else "feature"
    return "bug" if _BUG.search(title) else "task"


# -- priority


class Level(IntEnum):
    """The highest priority of each; tasks of one level go down from there in their order."""

    URGENT = 95
    HIGH = 80
    USUAL = 60
    LOW = 30


_WIDTH = 14
_NOT = r"(?:\b(?:not|isn['’]t|no|non|less|nothing)(?:\W+\w+){0,2}\W+)"
_LOW = re.compile(
    r"(?i)\b(?:nice[ -]to[ -]haves?|optional(?:ly)?|if (?:there(?:['’]s| is) "
    r"|you have )?(?:any )?time(?: permits| allows)?"
    r"|low(?:est)?[ -]prio(?:rity)?|low priority|no (?:rush|hurry)|eventually|some ?day"
    r"|when(?:ever)? you (?:can|have time)"
    r"|minor|p[34]|priority:? low)\b|\[low\]|\(low\)"
    rf"|{_NOT}(?:urgent|important|critical|(?:a )?priority)\b"
)
_URGENT = re.compile(
    r"(?i)\b(?:urgent(?:ly)?|asap|as soon as possible|immediately|right away|critical(?:ly)?|emergency|p0"
    r"|blocker|hotfix"
    r"|show ?stopper|(?:production|prod|site|service) is down|data loss|top priority|priority:? (?:urgent"
    r"|critical|highest))\b"
)
_HIGH = re.compile(
    r"(?i)\b(?:important(?:ly)?|high(?:est)?[ -]prio(?:rity)?|p1|security|vulnerab\w+|crucial|must[ -]have|essential"
    r"|priority:? high)\b|\[high\]|\(high\)"
)


def level(text: str) -> Level:
    if _LOW.search(text):
        return Level.LOW
    if _URGENT.search(text):
        return Level.URGENT
    return Level.HIGH if _HIGH.search(text) else Level.USUAL


def prioritised(texts: Sequence[str]) -> list[int]:
    """By the words first, then by the order, without one level reaching into the next."""
    levels = [level(text) for text in texts]
    seen: dict[Level, int] = {}
    found = []
    for one in levels:
        place = seen[one] = seen.get(one, -1) + 1
        span = max(_WIDTH, levels.count(one) - 1)
        found.append(one - place * _WIDTH // span)
    return found
