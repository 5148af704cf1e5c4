"""Gemini CLI: recorded chats (an object, or lines that are added to), checkpoints, and the log of prompts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ...coding.prompts import parse_command
from ..reading.elements import Elements
from ..reading.lines import objects
from ..reading.sources import Reading
from ..types import Format, Message, Piece
from .shape import Gathering, Told, assistant, dicts, mapping, moment, said, text, user

_LISTS = frozenset({"messages", "history"})
_SETUP = re.compile(r"\s*This is the Gemini CLI\. We are setting up the context for our chat\.")
_REPLY = "Got it. Thanks for the context!"
_HELD_CHARS = 8_000_000
_SPEAKERS = ("user", "gemini")


def recognised(value: object) -> bool:
    """An element of a list: of a checkpoint, or of the log."""
    if not isinstance(value, dict):
        return False
    content = value.get("role") in ("user", "model") and isinstance(value.get("parts"), list)
    return content or {"sessionId", "messageId", "message"} <= value.keys()


def recognised_line(line: dict[str, Any]) -> bool:
    if "$set" in line or "$rewindTo" in line or {"sessionId", "projectHash"} <= line.keys():
        return True
    return line.get("type") in (*_SPEAKERS, "info", "error", "warning") and "id" in line and "message" not in line


def recognised_object(keys: frozenset[str]) -> bool:
    return {"sessionId", "messages"} <= keys or {"sessionId", "projectHash"} <= keys or "history" in keys


def read(reading: Reading, told: Told) -> Iterator[Piece]:
    """A JSON text: a recorded chat, a checkpoint or the log."""
    gathering = Gathering(Format.GEMINI, reading.source.stem)
    for item in Elements(reading.chunks, told.damaged).read(_LISTS):
        if item.number < 0:
            if item.key == "sessionId":
                gathering.session = text(item.value)
            elif item.key == "summary":
                gathering.title = text(item.value)
            continue
        found = mapping(item.value)
        if "messageId" in found and text(found.get("sessionId")) != gathering.session:
            yield from gathering.end()
            gathering = Gathering(Format.GEMINI, reading.source.stem)
            gathering.session = text(found.get("sessionId"))
        message = _message(found, told)
        if message is not None:
            yield from gathering.add(message)
    yield from gathering.end()


def read_lines(reading: Reading, told: Told) -> Iterator[Piece]:
    """The newer recording: a message is written again in full whenever something is added to it."""
    gathering = Gathering(Format.GEMINI, reading.source.stem)
    held = _Held()
    for _, line in objects(reading.chunks, told.damaged):
        if "$rewindTo" in line:
            told.left("messages taken back", held.rewind(text(line["$rewindTo"])))
            continue
        patch = mapping(line.get("$set")) or (line if "type" not in line else {})
        gathering.session = gathering.session or text(patch.get("sessionId"))
        gathering.title = text(patch.get("summary")) or gathering.title
        for one in [*dicts(patch.get("messages")), *([line] if "type" in line else [])]:
            held.put(text(one.get("id")), _message(one, told))
        for message in held.settled():
            yield from gathering.add(message)
    for message in held.rest():
        yield from gathering.add(message)
    yield from gathering.end()


class _Held:
    """Messages that may still be written again; of very many the oldest are taken to be done."""

    def __init__(self) -> None:
        self._messages: dict[str, Message | None] = {}
        self._done: set[str] = set()
        self._size = 0

    def put(self, id: str, message: Message | None) -> None:
        key = id or f"#{len(self._messages)}"
        if key in self._done:
            return
        self._size += len(message.text if message else "") - len(old.text if (old := self._messages.get(key)) else "")
        self._messages[key] = message

    def rewind(self, id: str) -> int:
        """Take back that message and all after it."""
        keys = list(self._messages)
        gone = keys[keys.index(id) :] if id in self._messages else []
        taken = [message for key in gone if (message := self._messages.pop(key))]
        self._size -= sum(len(message.text) for message in taken)
        return len(taken)

    def settled(self) -> Iterator[Message]:
        while self._size > _HELD_CHARS:
            key = next(iter(self._messages))
            message = self._messages.pop(key)
            self._done.add(key)
            if message is not None:
                self._size -= len(message.text)
                yield message

    def rest(self) -> Iterator[Message]:
        yield from filter(None, self._messages.values())


def _message(found: dict[str, Any], told: Told) -> Message | None:
    role = text(found.get("role")) or text(found.get("type"))
    content = found.get("parts") if "parts" in found else found.get("content", found.get("message"))
    spoken = content if isinstance(content, str) else _parts(content, told)
    told.left("calls of tools", len(dicts(found.get("toolCalls"))))
    id = text(found.get("id")) or str(found.get("messageId", ""))
    at = moment(found.get("timestamp"))
    if role == "user":
        return _typed(spoken, told, user(spoken, at, id))
    if role in ("gemini", "model", "assistant") and said(spoken) and spoken.strip() != _REPLY:
        return assistant(spoken, at, id)
    if said(spoken):
        told.left("lines of the host")
    return None


def _typed(spoken: str, told: Told, message: Message) -> Message | None:
    if not said(spoken):
        return None
    if _SETUP.match(spoken) or parse_command(spoken.strip()):
        told.left("lines of the host")
        return None
    return message


def _parts(content: object, told: Told) -> str:
    listed = content if isinstance(content, list) else [content]
    found = [text(one.get("text")) for one in dicts(listed) if not one.get("thought")]
    found += [one for one in listed if isinstance(one, str)]
    told.left(
        "calls and outputs of tools", sum("functionCall" in one or "functionResponse" in one for one in dicts(listed))
    )
    return "\n".join(filter(said, found))
