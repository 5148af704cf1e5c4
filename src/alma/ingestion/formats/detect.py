"""What a file is, told by what it holds. Its name decides only between kinds of plain text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..reading.elements import Elements
from ..reading.lines import Bad, parsed
from ..reading.sources import Head, Reading, Source
from ..types import Format, Piece
from . import aider, chat, chatgpt, claude_ai, claude_code, codex, cursor, gemini, slack, specstory
from .shape import Told

Reader = Callable[[Reading, Told], Iterator[Piece]]

_LINES = 50
_ELEMENTS = 8
_SIGN_CHARS = 4_000
_LISTS = frozenset({"conversations", "projects", "messages", "history", "items", "data", "turns"})
_MARKDOWN = (".md", ".markdown", ".mdx", ".rst", ".adoc", ".asciidoc")

NO_CONVERSATION = "JSON, but no conversation in a format that is known"
ROSTER = "Slack's list of users, read together with its channels"


@dataclass(frozen=True, slots=True)
class Detected:
    format: Format
    read: Reader | None = None
    """None: it takes more to read it than its text (Slack's names, a database, a document's own name)."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """What cannot be read, and why."""

    reason: str


_OF_LINES: tuple[tuple[Callable[[dict[str, Any]], bool], Detected], ...] = (
    (claude_code.recognised, Detected(Format.CLAUDE_CODE, claude_code.read)),
    (codex.recognised, Detected(Format.CODEX, codex.read)),
    (gemini.recognised_line, Detected(Format.GEMINI, gemini.read_lines)),
    (chat.recognised, Detected(Format.CHAT, chat.read_lines)),
)
_OF_VALUES: tuple[tuple[Callable[[object], bool], Detected | Unknown], ...] = (
    (chatgpt.recognised, Detected(Format.CHATGPT, chatgpt.read)),
    (claude_ai.recognised, Detected(Format.CLAUDE_AI, claude_ai.read)),
    (slack.is_roster, Unknown(ROSTER)),
    (slack.recognised, Detected(Format.SLACK)),
    (gemini.recognised, Detected(Format.GEMINI, gemini.read)),
    (chat.recognised, Detected(Format.CHAT, chat.read)),
)
# What a value that is too long for a look at its beginning gives away.
_SIGNS = (
    (re.compile(r'"mapping"\s*:\s*\{'), Detected(Format.CHATGPT, chatgpt.read)),
    (re.compile(r'"chat_messages"\s*:\s*\['), Detected(Format.CLAUDE_AI, claude_ai.read)),
    (re.compile(r'"docs"\s*:\s*\['), Detected(Format.CLAUDE_AI, claude_ai.read)),
)
# The same of a first line that is: a screenshot in the first message is longer.
_LINE_SIGNS = (
    (
        re.compile(
            r'\{(?:[^{]*"(?:parentUuid|isSidechain)"\s*:|\s*"type"\s*:\s*"(?:user|assistant)"\s*,\s*"message"\s*:\s*\{)'
        ),
        Detected(Format.CLAUDE_CODE, claude_code.read),
    ),
    (
        re.compile(r'\{\s*"timestamp"\s*:\s*"[^"]*"\s*,\s*"type"\s*:\s*"\w+"\s*,\s*"payload"\s*:'),
        Detected(Format.CODEX, codex.read),
    ),
    (re.compile(r'\{\s*"(?:role|speaker)"\s*:\s*"[^"]{1,80}"\s*,'), Detected(Format.CHAT, chat.read_lines)),
)


def detect(source: Source, head: Head) -> Detected | Unknown:
    if head.is_sqlite:
        known = source.path is not None and cursor.tables(source.path)
        return Detected(Format.CURSOR) if known else Unknown("a database, but none of Cursor's")
    if head.binary:
        return Unknown(head.binary if head.binary != "binary" else "not text")
    start = head.text.lstrip("\ufeff \t\r\n")
    if not start.strip("\0 \t\r\n"):
        return Unknown("empty")
    if start[0] in "[{":
        found = _json(start, head.whole)
        if isinstance(found, Detected) or _is_json(start, head.whole, source.leaf):
            return found
    return _text(head.text, source.leaf)


def _is_json(start: str, whole: bool, leaf: str) -> bool:
    """Whether a text that begins with a bracket is data, and not a note that begins with one."""
    if leaf.lower().endswith((".json", ".jsonl", ".ndjson")) or (whole and not isinstance(parsed(start), Bad)):
        return True
    damaged: list[str] = []
    items = list(Elements([start], lambda *told: damaged.append(told[0])).read())
    return len(items) > 1 and len(damaged) <= 1


def _json(start: str, whole: bool) -> Detected | Unknown:
    if start[0] == "{":
        of_lines = _of_lines(start, whole)
        if of_lines is not None:
            return of_lines
    found = _of_values(start)
    if found is None and start[0] == "{" and not whole and "\n" not in start:
        found = next((kind for sign, kind in _LINE_SIGNS if sign.match(start[:_SIGN_CHARS])), None)
    return found or Unknown(NO_CONVERSATION)


def _of_lines(start: str, whole: bool) -> Detected | None:
    listed = start.split("\n")
    if not whole:
        # The last is most likely cut.
        listed = listed[:-1] or listed
    objects = [one for line in listed[:_LINES] if line.strip() and isinstance(one := parsed(line.strip()), dict)]
    if not objects or (len(objects) == 1 and _is_one_object(objects[0])):
        return None
    return next((kind for knows, kind in _OF_LINES if any(map(knows, objects))), None)


def _is_one_object(value: dict[str, Any]) -> bool:
    """A single line that is a whole conversation rather than one line of one."""
    return gemini.recognised_object(frozenset(value)) or any(
        isinstance(value.get(name), list | dict) for name in ("mapping", "chat_messages", *_LISTS)
    )


def _of_values(start: str) -> Detected | Unknown | None:
    keys: set[str] = set()
    alone: dict[str, Any] = {}
    values: list[object] = []
    for item in Elements([start], lambda *_: None).read(_LISTS):
        keys.add(item.key)
        if item.number < 0:
            alone[item.key] = item.value
        values.append(item.value)
        if len(values) >= _ELEMENTS and item.number >= 0:
            break
    for knows, kind in _OF_VALUES:
        if any(map(knows, [alone, *values])):
            return kind
    signed = next((kind for sign, kind in _SIGNS if sign.search(start)), None)
    if signed is not None:
        return signed
    if gemini.recognised_object(frozenset(keys)):
        return Detected(Format.GEMINI, gemini.read)
    return None


def _text(head: str, leaf: str) -> Detected:
    lines = head.split("\n")
    if any(aider.STARTED.fullmatch(line.rstrip("\r")) for line in lines):
        return Detected(Format.AIDER, aider.read)
    if specstory.MADE_BY.search(head[:2_000]) or any(specstory.SPEAKS.fullmatch(line.rstrip("\r")) for line in lines):
        return Detected(Format.SPECSTORY, specstory.read)
    if any(specstory.CURSOR_MADE.fullmatch(line.rstrip("\r")) for line in lines[:10]):
        return Detected(Format.CURSOR, specstory.read_cursor)
    if chat.labelled(head):
        return Detected(Format.CHAT, chat.read_text)
    return Detected(Format.MARKDOWN if leaf.lower().endswith(_MARKDOWN) else Format.TEXT)
