"""Memories as text for a prompt: grouped, one line each, inert, within a budget.

What was said is quoted, so that it is never taken as said now, and cut to the part asked about. A conversation has its
best turns below its line. A progressive slice has a short line with the id for each memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from ..errors import ValidationError
from ..text import coverage, shorten, stems
from ..types.kinds import AntiPattern, DomainKnowledge, Episode, Heuristic, Memory, Outcome, Rule, Turn, UserPreference
from ..types.record import QUOTED
from ..types.slice import MemorySlice
from ..types.speech import quote_output, sentences
from .escape import escape, suspicious
from .rules import describe_occasion

_FIELD_CHARS = 500
# So much of each turn is shown: of the most that lets everything be shown, else of the least.
_TURN_CHARS = (500, 240, 120)
_BRIEF_CHARS = 85
_DATA_CHARS = 240
_NAME_CHARS = 40
_TITLE_CHARS = 80
# Beside what a user wants, where it was not the user who said it.
_NOTED = {"agent": " (noted by an agent)", "import": " (imported)"}
_STATED_AT: dict[type[Memory], str] = {UserPreference: "timestamp", DomainKnowledge: "last_verified"}
_NEWER = "; there is a newer one, above"
_CHARS_PER_TOKEN = 3.5
_MORE = "Each line is a summary: `get` with the id in brackets gives the whole."
_ONLY_QUOTED = " (reads like an instruction; it is only quoted)"
_LEFT_OUT = "(left out: it reads like an instruction)"
_SOURCES = {"tool": "what a program printed", "content": "a file, page or message"}
_INNER = str.maketrans({"“": "‘", "”": "’"})

_is_suspicious = lru_cache(maxsize=1024)(suspicious)


def tokens(text: str) -> int:
    """Return an estimate on the safe side: about 3.5 bytes to a token."""
    return math.ceil(len(text.encode("utf-8", "replace")) / _CHARS_PER_TOKEN)


def render(memories: MemorySlice, max_tokens: int) -> str:
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens <= 0:
        raise ValidationError(f"max_tokens must be a whole number greater than 0, not {max_tokens!r}")
    sections: list[tuple[str, Sequence[Memory]]] = [
        ("What the user wants", memories.preferences),
        ("What the user has taught", memories.rules),
        ("What the user has taught, whatever the task", memories.standing_rules),
        ("What worked before", memories.heuristics),
        ("What to avoid", memories.anti_patterns),
        ("What is known", memories.domain_knowledge),
        ("What happened before", memories.outcomes),
        ("What was said before (quoted)", [*memories.episodes, *memories.turns]),
    ]
    closing = f"\n{_MORE}" if memories.progressive else ""
    room = max_tokens - (_count_line(closing) if closing else 0)
    out: list[str] = []
    for heading, items in sections:
        lines: list[str] = []
        opening = f"{'' if not out else chr(10)}### {heading}"
        spent = _count_line(opening)
        for line in _write_lines(items, memories, room - spent):
            if spent + _count_line(line) <= room:
                lines.append(line)
                spent += _count_line(line)
        if lines:
            out += [opening, *lines]
            room -= spent
    return "\n".join([*out, closing] if out and closing else out)


def _count_line(text: str) -> int:
    """Return the tokens of a line with the line break after it."""
    return tokens(text) + 1


def _write_lines(items: Sequence[Memory], memories: MemorySlice, room: int) -> list[str]:
    query = memories.query
    if memories.progressive:
        return [f"- {_summarise(item, query)} [{item.id}]" for item in items]
    spoken = [item for item in items if isinstance(item, Episode | Turn)]
    if not spoken:
        return [write_line(item) for item in items]
    limit = next(
        (
            chars
            for chars in _TURN_CHARS[:-1]
            if sum(_count_line(_quote_conversation(item, query, chars)) for item in spoken) <= room
        ),
        _TURN_CHARS[-1],
    )
    return [_quote_conversation(item, query, limit, is_marked=True) for item in spoken]


# --- memories --------------------------------------------------------------------------------------


def write_line(memory: Memory) -> str:
    words, line = _word_memory(memory)
    if _is_data(memory):
        return f"- {quote_data(words, memory.origin, _DATA_CHARS)}{_write_date(memory) if memory.newer else ''}"
    return f"- {line}"


def _word_memory(memory: Memory) -> tuple[str, str]:
    """Return the words of a memory as they are, and as a line of a prompt with what speaks for it."""
    date = _write_date(memory)
    match memory:
        case Heuristic():
            count = f" (worked {memory.success_count} of {memory.occurrence_count} times)"
            others = "; ".join(
                f"{_say(one.strategy)}, worked {one.success_count} of {one.occurrence_count}" for one in memory.similar
            )
            proof = f"{count if memory.occurrence_count else ''}{f' Similar: {others}' if others else ''}"
            return _join(memory.condition, memory.strategy), _join(
                _say(memory.condition), _say(memory.strategy)
            ) + proof
        case AntiPattern():
            times = f" (failed {memory.occurrence_count} times)" if memory.occurrence_count > 1 else ""
            why = f" Why: {_end_sentence(memory.why_bad)}" if memory.why_bad else ""
            instead = f" Instead: {_end_sentence(memory.better_alternative)}" if memory.better_alternative else ""
            avoid = _join(_say(memory.condition), "avoid" if memory.condition else "Avoid")
            line = f"{avoid} {_say(memory.pattern).rstrip('.')}{times}.{why}{instead}{date}"
            return _join(memory.condition, f"not {memory.pattern}"), line
        case Outcome():
            words = (memory.outcome, memory.task_description, memory.strategy_used)
            took = f" in {memory.duration_ms / 1000:g} s" if memory.duration_ms else ""
            output = "" if memory.success else quote_output(memory.error_message or "")
            error = f"; {_say(output)}" if output else ""
            feedback = shorten(memory.user_feedback, _DATA_CHARS) if memory.user_feedback else ""
            result = f"{memory.outcome}{took}{error}{f' Feedback: {_quote(feedback)}' if feedback else ''}"
            return ": ".join(words), f"{_say(memory.task_description)}: {_say(memory.strategy_used)} → {result}"
        case UserPreference():
            return memory.preference, f"{_say(memory.preference)}{_NOTED.get(memory.origin, '')}{date}"
        case DomainKnowledge():
            return memory.fact, f"{_say(memory.fact)}{date}"
        case Rule():
            occasion = describe_occasion(memory.trigger, memory.rule)
            why = f"{_end_sentence(memory.rule)} Why: {_end_sentence(memory.why)}" if memory.why else _say(memory.rule)
            return _join(occasion, memory.rule), _join(_say(occasion), why) + date
    raise TypeError(f"{type(memory).__name__} has no line")


def _join(condition: str, words: str) -> str:
    return f"{condition}: {words}" if condition else words


def _is_data(memory: Memory) -> bool:
    """Whether its words are only quoted. A rule is active only after a person accepted it, so it is theirs."""
    return memory.origin in QUOTED and not isinstance(memory, Rule)


def _summarise(memory: Memory, query: str) -> str:
    if isinstance(memory, Turn):
        return _quote_briefly(memory, query)
    if isinstance(memory, Episode):
        best = max(memory.turns, key=lambda turn: coverage(stems(query), stems(turn.text)), default=None)
        return _write_heading(memory) if best is None else _quote_briefly(best, query)
    date, words = _write_date(memory), _word_memory(memory)[0]
    limit = _BRIEF_CHARS - len(date)
    is_data = _is_data(memory)
    return (quote_data(words, memory.origin, limit) if is_data else escape(shorten(words, limit))) + date


def _write_date(memory: Memory) -> str:
    """Return when a memory was last stated, where it matters: of two that contradict each other the later one holds."""
    field = _STATED_AT.get(type(memory), "created_at" if memory.newer else "")
    return f" ({getattr(memory, field):%Y-%m-%d}{_NEWER if memory.newer else ''})" if field else ""


def _say(text: str) -> str:
    return escape(text.strip() if len(text) <= _FIELD_CHARS else shorten(text, _FIELD_CHARS))


def _end_sentence(text: str) -> str:
    """Return a text with a mark at its end, so that another sentence can follow."""
    shown = _say(text)
    return shown if shown.endswith((".", "!", "?", "…", "。", "！", "？")) else f"{shown}."


# --- quotations ------------------------------------------------------------------------------------


def quote_data(text: str, origin: str, limit: int) -> str:
    """Return what a program printed or a file said as quoted data; `origin` is one of `sources.QUOTED`."""
    return f"{_quote(shorten(text, limit), is_data=True)} (quoted from {_SOURCES[origin]})"


def _quote(text: str, *, is_data: bool = False) -> str:
    return f"“{escape(text, is_data=is_data).translate(_INNER)}”"


def _quote_conversation(memory: Episode | Turn, query: str, limit: int, *, is_marked: bool = False) -> str:
    """Return a turn; or when a conversation was and what about, and below it its turns.

    `is_marked` looks at each closely, and marks what reads like an instruction.
    """
    lines = []
    for turn in memory.turns if isinstance(memory, Episode) else (memory,):
        text = excerpt(turn.text, query, limit)
        mark = _ONLY_QUOTED if is_marked and _is_suspicious(text) else ""
        lines.append(f"- {_write_speaker(turn)}: {_quote(text)}{mark}")
    if isinstance(memory, Turn):
        return lines[0]
    heading = f"- {_write_heading(memory)}{':' if lines else ''}"
    return "\n".join([heading, *(f"  {line}" for line in lines)])


def _quote_briefly(turn: Turn, query: str) -> str:
    speaker = f"{_write_speaker(turn)}: "
    text = excerpt(turn.text, query, max(20, _BRIEF_CHARS - len(speaker) - 2))
    return f"{speaker}{_LEFT_OUT if _is_suspicious(text) else _quote(text)}"


def _write_heading(episode: Episode) -> str:
    title = shorten(episode.title or f"session {episode.session_id}", _TITLE_CHARS)
    return f"{episode.started_at.date()}, {_quote(title)}"


def _write_speaker(turn: Turn) -> str:
    """Return when and who. A name is not quoted, so it is short and has nothing in it that could end a quotation."""
    return f"{turn.said_at.date()}, {escape(shorten(turn.speaker, _NAME_CHARS)).translate(_INNER)}"


def excerpt(text: str, query: str, limit: int) -> str:
    """Return the text in at most about so many characters: of a longer one the part that says most of what is asked."""
    flat = " ".join(text.split())
    if len(flat) <= limit:
        return flat
    parts, shares = _weigh_sentences(text, query)
    pieces = [shorten(piece, limit) for piece in parts]
    first = last = shares.index(max(shares))
    room = limit - len(pieces[first])
    # What follows explains more than what went before.
    while last + 1 < len(pieces) and len(pieces[last + 1]) < room:
        last += 1
        room -= len(pieces[last]) + 1
    while first > 0 and len(pieces[first - 1]) < room:
        first -= 1
        room -= len(pieces[first]) + 1
    shown = " ".join(pieces[first : last + 1])
    is_cut = last + 1 < len(pieces) and not shown.endswith("…")
    return f"{'… ' * (first > 0)}{shown}{' …' * is_cut}"


@lru_cache(maxsize=128)
def _weigh_sentences(text: str, query: str) -> tuple[list[str], list[float]]:
    """Return the sentences of a text, and how much of the question each says."""
    pieces, wanted = sentences(text), stems(query)
    return pieces, [coverage(wanted, stems(piece)) for piece in pieces]
