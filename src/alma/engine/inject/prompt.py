"""Memories as text for a prompt: grouped, one line each, inert, within a budget."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...errors import ValidationError
from ...types.kinds import AntiPattern, DomainKnowledge, Heuristic, Memory, Outcome, UserPreference
from ...types.slice import MemorySlice
from ..text import shorten
from .escape import escape

_FIELD_CHARS = 500
_CHARS_PER_TOKEN = 3.5


def tokens(text: str) -> int:
    """An estimate on the safe side: about 3.5 bytes to a token."""
    return math.ceil(len(text.encode("utf-8", "replace")) / _CHARS_PER_TOKEN)


def render(memories: MemorySlice, max_tokens: int) -> str:
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens <= 0:
        raise ValidationError(f"max_tokens must be a whole number greater than 0, not {max_tokens!r}")
    room = max_tokens
    out: list[str] = []
    for heading, items in _sections(memories):
        lines: list[str] = []
        opening = f"{'' if not out else chr(10)}### {heading}"
        spent = tokens(opening) + 1
        for item in items:
            cost = tokens(line(item)) + 1
            if spent + cost > room:
                continue
            lines.append(line(item))
            spent += cost
        if lines:
            out += [opening, *lines]
            room -= spent
    return "\n".join(out)


def _sections(memories: MemorySlice) -> Iterator[tuple[str, list[Memory]]]:
    yield "What the user wants", list(memories.preferences)
    yield "What worked before", list(memories.heuristics)
    yield "What to avoid", list(memories.anti_patterns)
    yield "What is known", list(memories.domain_knowledge)
    yield "What happened before", list(memories.outcomes)


def _say(text: str) -> str:
    return escape(shorten(text, _FIELD_CHARS))


def line(memory: Memory) -> str:
    match memory:
        case Heuristic():
            return _heuristic(memory)
        case AntiPattern():
            return _anti_pattern(memory)
        case Outcome():
            return _outcome(memory)
        case UserPreference():
            return f"- {_say(memory.preference)}"
        case DomainKnowledge():
            return f"- {_say(memory.fact)}"
    raise TypeError(f"{type(memory).__name__} has no line")


def _heuristic(memory: Heuristic) -> str:
    when = f"{_say(memory.condition)}: " if memory.condition else ""
    proof = f" (worked {memory.success_count} of {memory.occurrence_count} times)" if memory.occurrence_count else ""
    return f"- {when}{_say(memory.strategy)}{proof}"


def _anti_pattern(memory: AntiPattern) -> str:
    when = f"{_say(memory.condition)}: " if memory.condition else ""
    times = f" (failed {memory.occurrence_count} times)" if memory.occurrence_count > 1 else ""
    why = f" Why: {_say(memory.why_bad)}." if memory.why_bad else ""
    instead = f" Instead: {_say(memory.better_alternative)}." if memory.better_alternative else ""
    return f"- {when}not {_say(memory.pattern)}{times}.{why}{instead}"


def _outcome(memory: Outcome) -> str:
    took = f" in {memory.duration_ms / 1000:g} s" if memory.duration_ms else ""
    error = f": {_say(memory.error_message)}" if memory.error_message and not memory.success else ""
    told = f" The user said: {_say(memory.user_feedback)}" if memory.user_feedback else ""
    return f"- {_say(memory.task_description)}: {_say(memory.strategy_used)} → {memory.outcome}{took}{error}{told}"
