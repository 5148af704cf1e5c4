"""aider's history: Markdown in which `#### ` begins what the person wrote, `> ` what aider printed, and the rest is the
assistant's. Many sessions follow each other in one file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from ..reading.lines import lines
from ..reading.sources import Reading
from ..types import Format, Message, Piece
from .shape import Gathering, Lines, Told, assistant, said, user

STARTED = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*")
_COMMAND = re.compile(r"/([a-z][a-z-]*)\b\s*", re.I)
_SPEAKING = frozenset({"ask", "code", "architect", "context", "ok"})
"""Commands after which the person says something to the model."""


def read(reading: Reading, told: Told) -> Iterator[Piece]:
    gathering = Gathering(Format.AIDER, "")
    turn = _Turn(None)
    for _, line in lines(reading.chunks, told.damaged):
        started = STARTED.fullmatch(line)
        if started:
            yield from _all(gathering, [*turn.ends(told)])
            yield from gathering.end()
            gathering = Gathering(Format.AIDER, started[1])
            turn = _Turn(_local(started[1]))
            continue
        yield from _all(gathering, [*turn.take(line, told)])
    yield from _all(gathering, [*turn.ends(told)])
    yield from gathering.end()


def _all(gathering: Gathering, messages: list[Message]) -> Iterator[Piece]:
    for message in messages:
        yield from gathering.add(message)


class _Turn:
    """Who is speaking, and what was said so far."""

    def __init__(self, at: datetime | None) -> None:
        self._at = at
        self._who = ""
        self._lines = Lines()

    def take(self, line: str, told: Told) -> Iterator[Message]:
        who, words = _read(line)
        if self._lines.full or (who != self._who and (said(words) or who != "assistant")):
            yield from self.ends(told)
            self._who = who
        self._lines.add(words)

    def ends(self, told: Told) -> Iterator[Message]:
        words, who = self._lines.text(), self._who
        self._lines, self._who = Lines(), ""
        if not said(words):
            return
        if who == "tool":
            told.left("outputs of tools")
        elif who == "assistant":
            yield assistant(words, self._at)
        elif spoken := _spoken(words):
            yield user(spoken, self._at)
        else:
            told.left("commands")


def _read(line: str) -> tuple[str, str]:
    if line.startswith("####"):
        return "user", line[4:].removeprefix(" ").removesuffix("  ")
    if line.startswith(">"):
        return "tool", line[1:]
    return "assistant", line


def _spoken(words: str) -> str:
    """What is said after a command, or without one; nothing when the command is for aider alone."""
    command = _COMMAND.match(words)
    if command is None:
        return words
    return words[command.end() :] if command[1].lower() in _SPEAKING else ""


def _local(written: str) -> datetime | None:
    """aider writes the time of the machine it runs on, which is most likely this one."""
    try:
        return datetime.strptime(written, "%Y-%m-%d %H:%M:%S").astimezone()
    except (ValueError, OverflowError, OSError):
        return None
