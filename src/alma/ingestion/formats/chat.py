"""Conversations in no host's own format: messages with roles and contents, as model APIs take them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..streams import as_dict, get_dicts, get_text, join_blocks, parse_time
from .common import Chat, ChatMessage, ChatParts, FileReading, make_message

SIGN = re.compile(r'\A\{\s*"(?:role|speaker)"\s*:\s*"[^"]{1,80}"\s*,')


def is_message(value: dict[str, Any]) -> bool:
    """Whether it is a message, or a conversation that begins with one."""
    speaker, content = value.get("role") or value.get("speaker"), value.get("content") or value.get("text")
    if isinstance(speaker, str) and isinstance(content, str | list):
        return True
    messages = get_dicts(value, "messages") or get_dicts(value, "turns")
    return bool(messages) and is_message(messages[0])


def read(reading: FileReading) -> Iterator[Chat]:
    """Read a JSON text: a list of messages, or of conversations that have them."""
    parts = ChatParts(reading)
    for item in reading.items("messages", "turns", "conversations"):
        if item.number >= 0:
            yield from _read_element(as_dict(item.value), parts, item.number, item.place, reading)
        elif isinstance(item.value, str) and item.key in ("id", "session_id"):
            parts.session = item.value
        elif isinstance(item.value, str) and item.key == "title":
            parts.title = item.value
    yield from parts.end()


def read_lines(reading: FileReading) -> Iterator[Chat]:
    parts = ChatParts(reading)
    for number, line in reading.objects():
        yield from _read_element(line, parts, number, f"line {number:,}", reading)
    yield from parts.end()


def _read_element(
    values: dict[str, Any], parts: ChatParts, number: int, place: str, reading: FileReading
) -> Iterator[Chat]:
    """Read a conversation, or a message of the one that is collected."""
    if listed := get_dicts(values, "messages") or get_dicts(values, "turns"):
        messages = [one for one in (_read_message(each, reading) for each in listed) if one]
        native = get_text(values, "id", "session_id", "conversation_id")
        first = messages[0].text if messages else ""
        session = reading.name_session(native, f"{reading.source.stem}:{number}", first)
        yield from reading.split_chat(session, messages, get_text(values, "title"))
    elif (message := _read_message(values, reading)) is not None:
        yield from parts.add(message)
    elif not is_message(values):
        reading.damage(place, "no message")


def _read_message(values: dict[str, Any], reading: FileReading) -> ChatMessage | None:
    role = get_text(values, "role", "speaker")
    text = join_blocks(values.get("content") if values.get("content") is not None else values.get("text"))
    at = parse_time(values.get("at") or values.get("timestamp") or values.get("created_at"))
    message = make_message(role, text, at, get_text(values, "id"))
    if message is None and role and text.strip():
        reading.leave_out("calls and outputs of tools, and lines of the host")
    return message
