"""Small charts made of characters; readable without colour."""

from __future__ import annotations

from datetime import datetime

from ..types.kinds import AntiPattern, DomainKnowledge, Episode, Heuristic, Memory, Outcome, Rule, Turn, UserPreference
from ..types.speech import quote_output

STYLES = {
    "heuristic": "green",
    "anti_pattern": "red",
    "domain_knowledge": "cyan",
    "user_preference": "magenta",
    "outcome": "yellow",
    "rule": "bright_magenta",
    "episode": "blue",
    "turn": "blue",
}
HEADINGS = {
    "user_preference": "what the user wants",
    "rule": "what the user has taught",
    "heuristic": "what worked before",
    "anti_pattern": "what to avoid",
    "domain_knowledge": "what is known",
    "outcome": "what happened before",
    "episode": "what was said before",
    "turn": "what was said before",
}


def interval(mean: float, low: float, high: float, width: int = 24) -> str:
    """Where between 0 and 1 a belief lies, and how sure it is: `······├───●──┤···`."""
    at, left, right = (round(value * (width - 1)) for value in (mean, low, high))
    return "".join(_mark(place, at, left, right) for place in range(width))


def _mark(place: int, at: int, left: int, right: int) -> str:
    if place == at:
        return "●"
    if place == left:
        return "├"
    if place == right:
        return "┤"
    return "─" if left < place < right else "·"


def bar(value: float, most: float, width: int = 30) -> str:
    """A length; anything above nothing shows."""
    if value <= 0 or most <= 0:
        return ""
    return "█" * max(1, round(width * value / most))


def belief(memory: Memory, width: int = 24) -> str:
    low, high = memory.confidence_interval
    return f"{memory.confidence:.2f} {interval(memory.confidence, low, high, width)}"


def sentence(memory: Memory) -> str:
    """A memory in one line."""
    match memory:
        case Heuristic():
            return f"{_when(memory.condition)}{memory.strategy}"
        case AntiPattern():
            instead = f" Instead: {memory.better_alternative}" if memory.better_alternative else ""
            return f"{_when(memory.condition)}not {memory.pattern} ({memory.why_bad}).{instead}"
        case Outcome():
            error = f" ({quote_output(memory.error_message)})" if memory.error_message else ""
            return f"{memory.task_description}: {memory.strategy_used} → {memory.outcome}{error}"
        case UserPreference():
            return f"{memory.user_id}, {memory.category}: {memory.preference}"
        case DomainKnowledge():
            return f"{memory.domain}: {memory.fact}"
        case Rule():
            return f"{_when(memory.trigger)}{memory.rule}{f' ({memory.why})' if memory.why else ''}"
        case Episode():
            return memory.title or f"session {memory.session_id}"
        case Turn():
            return f"{memory.speaker}: {memory.text}"
    raise TypeError(f"{type(memory).__name__} has no sentence")


def _when(condition: str) -> str:
    return f"{condition}: " if condition else ""


def proof(memory: Memory) -> str:
    """What speaks for it, in a few words."""
    match memory:
        case Heuristic() if memory.occurrence_count:
            return f"worked {memory.success_count} of {memory.occurrence_count}"
        case AntiPattern() if memory.occurrence_count:
            return f"failed {memory.occurrence_count} times"
        case UserPreference() | DomainKnowledge():
            return memory.source
        case Rule() if memory.followed or memory.violated:
            return f"followed {memory.followed}, violated {memory.violated} times"
        case Rule():
            return f"{memory.source}, {memory.reach}"
        case Episode():
            return f"{counted(memory.turn_count, 'turn')}, {memory.started_at.astimezone():%Y-%m-%d}"
        case Turn():
            return f"{memory.said_at.astimezone():%Y-%m-%d}"
    return ""


def counted(number: int, noun: str, several: str = "") -> str:
    """`1 turn`, `2 turns`."""
    return f"{number} {noun if number == 1 else several or f'{noun}s'}"


def moment(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"


_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def lasting(seconds: float) -> str:
    """`3 d`, `2 h`, `40 min`, `5 s`: the greatest unit that fits."""
    for size, name in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {name}"
    return "0 s"


def ago(at: datetime, now: datetime) -> str:
    seconds = (now - at).total_seconds()
    return "just now" if seconds < 60 else f"{lasting(seconds)} ago"


def fit(text: str, most: int = 300) -> str:
    """In one line, and not longer than that."""
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= most else f"{one_line[: most - 1]}…"


def amount(number: int) -> str:
    """Of bytes."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return counted(number, "byte")
