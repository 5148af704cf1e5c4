"""Memories as text for a prompt: grouped, one line each, inert, within a budget.

A conversation has its telling turns below its line. A progressive slice has a short line with the id for each memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...errors import ValidationError
from ...text import shorten
from ...types.kinds import AntiPattern, DomainKnowledge, Episode, Heuristic, Memory, Outcome, Rule, Turn, UserPreference
from ...types.quoting import quote_output
from ...types.slice import MemorySlice
from ...types.sources import QUOTED
from ..rule_lines import describe_occasion
from . import quote
from .escape import escape

_FIELD_CHARS = 500
_TURN_CHARS = (500, 240, 120)
"""So much of each turn is shown: of the most that lets everything be heard, else of the least."""
_BRIEF_CHARS = 85
_DATA_CHARS = 240
_NOTED = {"agent": " (noted by an agent)", "import": " (imported)"}
"""Beside what a user wants, where it was not the user who said it."""
_NEWER = "; there is a newer one, above"
_CHARS_PER_TOKEN = 3.5
_MORE = "Each line is a summary: `get` with the id in brackets gives the whole."


def tokens(text: str) -> int:
    """An estimate on the safe side: about 3.5 bytes to a token."""
    return math.ceil(len(text.encode("utf-8", "replace")) / _CHARS_PER_TOKEN)


def render(memories: MemorySlice, max_tokens: int) -> str:
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens <= 0:
        raise ValidationError(f"max_tokens must be a whole number greater than 0, not {max_tokens!r}")
    closing = f"\n{_MORE}" if memories.progressive else ""
    room = max_tokens - (tokens(closing) + 1 if closing else 0)
    out: list[str] = []
    for heading, items in _sections(memories):
        lines: list[str] = []
        opening = f"{'' if not out else chr(10)}### {heading}"
        spent = _cost(opening)
        for form in _forms(items, memories, room - spent):
            if spent + _cost(form) <= room:
                lines.append(form)
                spent += _cost(form)
        if lines:
            out += [opening, *lines]
            room -= spent
    return "\n".join([*out, closing] if out and closing else out)


def _sections(memories: MemorySlice) -> Iterator[tuple[str, list[Memory]]]:
    yield "What the user wants", list(memories.preferences)
    yield "What the user has taught", list(memories.rules)
    yield "What the user has taught, whatever the task", list(memories.standing_rules)
    yield "What worked before", list(memories.heuristics)
    yield "What to avoid", list(memories.anti_patterns)
    yield "What is known", list(memories.domain_knowledge)
    yield "What happened before", list(memories.outcomes)
    yield "What was said before (quoted)", [*memories.episodes, *memories.turns]


def _cost(text: str) -> int:
    """With the line break after it."""
    return tokens(text) + 1


def _forms(items: Sequence[Memory], memories: MemorySlice, room: int) -> Iterator[str]:
    """How each is shown."""
    if memories.progressive:
        yield from (f"- {_brief(item, memories.query)} [{item.id}]" for item in items)
        return
    spoken = [item for item in items if isinstance(item, Episode | Turn)]
    if spoken:
        most = _chars(spoken, memories.query, room)
        yield from (quote.told(item, memories.query, most, marked=True) for item in spoken)
        return
    yield from map(line, items)


def _chars(spoken: Sequence[Episode | Turn], query: str, room: int) -> int:
    for most in _TURN_CHARS[:-1]:
        if sum(_cost(quote.told(item, query, most)) for item in spoken) <= room:
            return most
    return _TURN_CHARS[-1]


def _brief(memory: Memory, query: str) -> str:
    if isinstance(memory, Episode | Turn):
        return quote.brief(memory, query, _BRIEF_CHARS)
    date = _date(memory)
    if _is_data(memory):
        return quote.quote_data(_summary(memory), memory.origin, _BRIEF_CHARS - len(date)) + date
    return escape(shorten(_summary(memory), _BRIEF_CHARS - len(date))) + date


def _is_data(memory: Memory) -> bool:
    """Whether its words are only quoted. A rule is active only after a person accepted it, so it is theirs."""
    return memory.origin in QUOTED and not isinstance(memory, Rule)


def _summary(memory: Memory) -> str:
    match memory:
        case Heuristic():
            return f"{_when(memory.condition)}{memory.strategy}"
        case AntiPattern():
            return f"{_when(memory.condition)}not {memory.pattern}"
        case Outcome():
            return f"{memory.outcome}: {memory.task_description}: {memory.strategy_used}"
        case UserPreference():
            return memory.preference
        case DomainKnowledge():
            return memory.fact
        case Rule():
            return f"{_when(describe_occasion(memory.trigger, memory.rule))}{memory.rule}"
    raise TypeError(f"{type(memory).__name__} has no summary")


def _when(condition: str) -> str:
    return f"{condition}: " if condition else ""


def _say(text: str) -> str:
    return escape(text.strip() if len(text) <= _FIELD_CHARS else shorten(text, _FIELD_CHARS))


def _sentence(text: str) -> str:
    """Return a text with a mark at its end, so that another sentence can follow."""
    shown = _say(text)
    return shown if shown.endswith((".", "!", "?", "…", "。", "！", "？")) else f"{shown}."


def line(memory: Memory) -> str:
    if _is_data(memory):
        newer = _date(memory) if memory.newer else ""
        return f"- {quote.quote_data(_summary(memory), memory.origin, _DATA_CHARS)}{newer}"
    match memory:
        case Heuristic():
            return _heuristic(memory)
        case AntiPattern():
            return _anti_pattern(memory)
        case Outcome():
            return _outcome(memory)
        case UserPreference():
            return f"- {_say(memory.preference)}{_NOTED.get(memory.origin, '')}{_date(memory)}"
        case DomainKnowledge():
            return f"- {_say(memory.fact)}{_date(memory)}"
        case Rule():
            return _rule(memory)
    raise TypeError(f"{type(memory).__name__} has no line")


def _date(memory: Memory) -> str:
    """When a memory was last stated, where that matters: of two that contradict each other the later one holds."""
    match memory:
        case UserPreference():
            stated = memory.timestamp
        case DomainKnowledge():
            stated = memory.last_verified
        case _ if memory.newer:
            stated = memory.created_at
        case _:
            return ""
    return f" ({stated:%Y-%m-%d}{_NEWER if memory.newer else ''})"


def _heuristic(memory: Heuristic) -> str:
    when = f"{_say(memory.condition)}: " if memory.condition else ""
    proof = f" (worked {memory.success_count} of {memory.occurrence_count} times)" if memory.occurrence_count else ""
    others = "; ".join(
        f"{_say(one.strategy)}, worked {one.success_count} of {one.occurrence_count}" for one in memory.similar
    )
    return f"- {when}{_say(memory.strategy)}{proof}{f' Similar: {others}' if others else ''}"


def _anti_pattern(memory: AntiPattern) -> str:
    when = f"{_say(memory.condition)}: " if memory.condition else ""
    times = f" (failed {memory.occurrence_count} times)" if memory.occurrence_count > 1 else ""
    why = f" Why: {_sentence(memory.why_bad)}" if memory.why_bad else ""
    instead = f" Instead: {_sentence(memory.better_alternative)}" if memory.better_alternative else ""
    avoid = "avoid" if when else "Avoid"
    return f"- {when}{avoid} {_say(memory.pattern).rstrip('.')}{times}.{why}{instead}{_date(memory)}"


def _rule(memory: Rule) -> str:
    occasion = describe_occasion(memory.trigger, memory.rule)
    when = f"{_say(occasion)}: " if occasion else ""
    rule = f"{_sentence(memory.rule)} Why: {_sentence(memory.why)}" if memory.why else _say(memory.rule)
    return f"- {when}{rule}{_date(memory)}"


def _outcome(memory: Outcome) -> str:
    took = f" in {memory.duration_ms / 1000:g} s" if memory.duration_ms else ""
    output = "" if memory.success else quote_output(memory.error_message or "")
    error = f"; {_say(output)}" if output else ""
    told = f" Feedback: {quote.quoted(shorten(memory.user_feedback, _DATA_CHARS))}" if memory.user_feedback else ""
    return f"- {_say(memory.task_description)}: {_say(memory.strategy_used)} → {memory.outcome}{took}{error}{told}"
