"""The known formats: how each is recognised by its content, and how it is read.

How to add a format
-------------------
1. Write `formats/NAME.py`, or a part of `agents.py`, `exports.py` or `texts.py`, with a function that recognises the
   format and one that reads it: it takes a `FileReading` and yields `ChatStart`s with the messages that follow them, or
   `Piece`s of a document. `read_chat` is a short example. `common.py` has what most formats need:
   `reading.objects()` (JSON Lines), `reading.items()` (a JSON text), `reading.lines()`, `make_message`.
2. Below, add its name to `Format` and a `FormatReader` to `FORMATS`. The first that recognises a file reads it.
3. Add a sample conversation to `benchmarks/_chat_formats.py`: `tests/ingestion/test_format_laws.py` then checks it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path

from ..sources import FileHead, Source
from ..streams import JsonObject, JsonStream, parse_json
from . import agents, exports, texts
from .common import FileReading, Items


class Format(StrEnum):
    """The formats of conversations and documents that can be imported."""

    CLAUDE_CODE = "claude-code"
    CHATGPT = "chatgpt"
    CLAUDE_AI = "claude-ai"
    CODEX = "codex"
    SLACK = "slack"
    GEMINI = "gemini-cli"
    CURSOR = "cursor"
    AIDER = "aider"
    SPECSTORY = "specstory"
    CHAT = "chat"  # Messages with roles, as in model APIs, or a text in which each turn begins with its speaker.
    MARKDOWN = "markdown"
    TEXT = "text"

    @property
    def is_document(self) -> bool:
        """Whether this is a format of documents, not of conversations."""
        return self in (Format.MARKDOWN, Format.TEXT)


@dataclass(frozen=True, slots=True)
class FormatReader:
    """Reads one format, and recognises it by one of the functions whose names begin with `is_`."""

    format: Format
    read: Callable[[FileReading], Items]
    is_line: Callable[[JsonObject], bool] | None = None  # An object of a file of JSON lines.
    is_value: Callable[[JsonObject], bool] | None = None  # An element of a JSON list, or a whole JSON object.
    is_text: Callable[[str], object] | None = None  # The beginning of a text that is not JSON.
    is_database: Callable[[Path], bool] | None = None  # An SQLite database.
    sign: str = ""  # A pattern that recognises a line or value which is too long to parse.
    reason: str = ""  # Why a file of this kind is not read on its own.


FORMATS = (
    FormatReader(
        Format.CLAUDE_CODE, agents.read_claude_code, is_line=agents.is_claude_code, sign=r'"message"\s*:\s*\{'
    ),
    FormatReader(Format.CODEX, agents.read_codex, is_line=agents.is_codex, sign=r'"payload"\s*:\s*\{'),
    FormatReader(Format.GEMINI, agents.read_gemini_lines, is_line=agents.is_gemini_line),
    FormatReader(Format.CHATGPT, exports.read_chatgpt, is_value=exports.is_chatgpt, sign=r'"mapping"\s*:\s*\{'),
    FormatReader(
        Format.CLAUDE_AI,
        exports.read_claude_ai,
        is_value=exports.is_claude_ai,
        sign=r'"(?:chat_messages|docs)"\s*:\s*\[',
    ),
    FormatReader(Format.SLACK, exports.read_slack, is_value=exports.is_slack_user, reason=exports.USERS_REASON),
    FormatReader(Format.SLACK, exports.read_slack, is_value=exports.is_slack_message),
    FormatReader(Format.GEMINI, agents.read_gemini, is_value=agents.is_gemini_element),
    FormatReader(Format.CHAT, exports.read_chat_lines, is_line=exports.is_chat, sign=r'"(?:role|speaker)"\s*:\s*"'),
    FormatReader(Format.CHAT, exports.read_chat, is_value=exports.is_chat),
    FormatReader(Format.GEMINI, agents.read_gemini, is_value=agents.is_gemini_recording),
    FormatReader(Format.CURSOR, agents.read_cursor, is_database=agents.is_cursor),
    FormatReader(Format.AIDER, texts.read_aider, is_text=texts.AIDER.search),
    FormatReader(Format.SPECSTORY, texts.read_specstory, is_text=texts.SPECSTORY.search),
    FormatReader(Format.CURSOR, texts.read_cursor, is_text=texts.CURSOR.search),
    FormatReader(Format.CHAT, texts.read_labelled, is_text=texts.is_labelled),
)
MARKDOWN = FormatReader(Format.MARKDOWN, texts.read_document)
TEXT = FormatReader(Format.TEXT, texts.read_document)
QUOTED = FormatReader(Format.CHAT, texts.read_quoted, is_text=texts.is_quoted)
"""Is no part of `FORMATS`: only a person who says that a file is a conversation can tell it from a document."""
# The formats of conversations that people store in project folders.
IN_PROJECTS = frozenset({Format.AIDER, Format.SPECSTORY, Format.CURSOR, Format.CHAT, Format.CLAUDE_CODE})

_LINES = 50
_ELEMENTS = 8
_LISTS = frozenset("conversations projects messages history items data turns".split())
_MARKDOWN_NAMES = (".md", ".markdown", ".mdx", ".rst", ".adoc", ".asciidoc")


def detect_format(source: Source, head: FileHead) -> FormatReader | str:
    """Return the reader for a file's content, or the reason why there is none.

    The file name is used only to tell Markdown from plain text.
    """
    if head.binary == "a database":
        readers = (one for one in FORMATS if source.path and one.is_database and one.is_database(source.path))
        return next(readers, "a database, but not one of Cursor's")
    if head.binary == "an archive":
        return "an archive in an archive; unpack it first"
    start = head.text.lstrip("\ufeff \t\r\n")
    if head.binary or not start.strip("\0 \t\r\n"):
        return head.binary or "empty"
    if start[0] in "[{":
        reader = _detect_json(start, head.is_whole)
        if reader is not None:
            return reader.reason or reader
        if source.leaf.lower().endswith((".json", ".jsonl", ".ndjson")) or _is_json(start, head.is_whole):
            return "JSON, but not a conversation in a known format"
    reader = next((one for one in FORMATS if one.is_text and one.is_text(head.text)), None)
    return reader or (MARKDOWN if source.leaf.lower().endswith(_MARKDOWN_NAMES) else TEXT)


def _detect_json(start: str, is_whole: bool) -> FormatReader | None:
    # Unless this is the whole file, the last line is probably cut off.
    listed = start.split("\n") if start[0] == "{" else []
    lines = [line for line in (listed if is_whole else listed[:-1] or listed)[:_LINES] if line.strip()]
    objects = [one for line in lines if isinstance(one := parse_json(line.strip())[0], dict)]
    names = ("mapping", "chat_messages", *_LISTS)
    if len(objects) == 1 and any(isinstance(objects[0].get(name), list | dict) for name in names):
        # A single line that is a whole conversation, not one message of it.
        objects = []
    reader = next((one for one in FORMATS if one.is_line and any(map(one.is_line, objects))), None)
    if reader is not None:
        return reader
    whole: JsonObject = {}
    values = [whole]
    for number, item in enumerate(JsonStream([start], lambda *_: None).read(_LISTS), 1):
        whole[item.key] = item.value if item.number < 0 else [item.value]
        if isinstance(item.value, dict):
            values.append(item.value)
        if number >= _ELEMENTS and item.number >= 0:
            break
    by_value = (one for one in FORMATS if one.is_value and any(map(one.is_value, values)))
    # The first line or value may be longer than the beginning that was read.
    is_long_line = not is_whole and len(listed) == 1
    by_sign = (one for one in FORMATS if one.sign and (one.is_value or is_long_line) and re.search(one.sign, start))
    return next(chain(by_value, by_sign), None)


def _is_json(start: str, is_whole: bool) -> bool:
    """Return whether a text that begins with a bracket is JSON, and not a note that begins with one."""
    if is_whole and not parse_json(start)[1]:
        return True
    reasons: list[str] = []
    items = list(JsonStream([start], lambda _, reason: reasons.append(reason)).read())
    # The end of the beginning that was read may cut a value.
    return len(items) > 1 and (not reasons or (not is_whole and all("in the middle" in one for one in reasons)))
