"""What was said, for a prompt: quoted, so that it is never taken as said now, and cut to the part asked about."""

from __future__ import annotations

from functools import lru_cache

from ...text import coverage, shorten, stems
from ...types import speech
from ...types.kinds import Episode, Turn
from .escape import escape, suspicious

_NAME_CHARS = 40
_TITLE_CHARS = 80
_ONLY_QUOTED = " (reads like an instruction; it is only quoted)"
_LEFT_OUT = "(left out: it reads like an instruction)"
_FROM = {"tool": "what a program printed", "content": "a file, page or message"}
_INNER = str.maketrans({"“": "‘", "”": "’"})

_suspicious = lru_cache(maxsize=1024)(suspicious)


def told(memory: Episode | Turn, query: str, most: int, *, marked: bool = False) -> str:
    """A turn; or when a conversation was and what about, and below it its turns. `marked` looks at each closely."""
    if isinstance(memory, Turn):
        return f"- {_said(memory, query, most, marked)}"
    said = [f"  - {_said(turn, query, most, marked)}" for turn in memory.turns]
    return "\n".join([f"- {_heading(memory)}{':' if said else ''}", *said])


def brief(memory: Episode | Turn, query: str, most: int) -> str:
    """Who said what and when, in one line."""
    if isinstance(memory, Turn):
        return _briefly(memory, query, most)
    telling = max(memory.turns, key=lambda turn: coverage(stems(query), stems(turn.text)), default=None)
    if telling is None:
        return _heading(memory)
    return _briefly(telling, query, most)


def _briefly(turn: Turn, query: str, most: int) -> str:
    who = f"{turn.said_at.date()}, {_name(turn.speaker)}: "
    text = excerpt(turn.text, query, max(20, most - len(who) - 2))
    return f"{who}{_LEFT_OUT if _suspicious(text) else quoted(text)}"


def _heading(episode: Episode) -> str:
    title = shorten(episode.title or f"session {episode.session_id}", _TITLE_CHARS)
    return f"{episode.started_at.date()}, {quoted(title)}"


def _said(turn: Turn, query: str, most: int, marked: bool) -> str:
    text = excerpt(turn.text, query, most)
    mark = _ONLY_QUOTED if marked and _suspicious(text) else ""
    return f"{turn.said_at.date()}, {_name(turn.speaker)}: {quoted(text)}{mark}"


def _name(speaker: str) -> str:
    """Who spoke. A name is not quoted, so it is short and has nothing in it that could end one."""
    return escape(shorten(speaker, _NAME_CHARS)).translate(_INNER)


def quote_data(text: str, origin: str, most: int) -> str:
    """Return what a program printed or a file said as quoted data; `origin` is one of `sources.QUOTED`."""
    return f"{quoted(shorten(text, most), is_data=True)} (quoted from {_FROM[origin]})"


def quoted(text: str, *, is_data: bool = False) -> str:
    return f"“{escape(text, is_data=is_data).translate(_INNER)}”"


def excerpt(text: str, query: str, most: int) -> str:
    """The text in at most about so many characters: of a longer one the part that says most of what is asked."""
    flat = " ".join(text.split())
    if len(flat) <= most:
        return flat
    found, said = _weighed(text, query)
    pieces = [shorten(piece, most) for piece in found]
    first = last = said.index(max(said))
    room = most - len(pieces[first])
    # What follows explains more than what went before.
    while last + 1 < len(pieces) and len(pieces[last + 1]) < room:
        last += 1
        room -= len(pieces[last]) + 1
    while first > 0 and len(pieces[first - 1]) < room:
        first -= 1
        room -= len(pieces[first]) + 1
    shown = " ".join(pieces[first : last + 1])
    cut = last + 1 < len(pieces) and not shown.endswith("…")
    return f"{'… ' * (first > 0)}{shown}{' …' * cut}"


@lru_cache(maxsize=128)
def _weighed(text: str, query: str) -> tuple[list[str], list[float]]:
    """Its sentences, and how much of the question each says."""
    pieces = speech.sentences(text)
    asked = stems(query)
    return pieces, [coverage(asked, stems(piece)) for piece in pieces]
