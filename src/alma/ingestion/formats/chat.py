"""Conversations in no host's own format: messages with roles and contents, as model APIs take them."""

from __future__ import annotations

import re

from ..streams import JsonObject, as_dict, get_dicts, get_text, join_blocks, parse_time
from .common import ChatStart, FileReading, Items, make_message

SIGN = re.compile(r'\A\{\s*"(?:role|speaker)"\s*:\s*"[^"]{1,80}"\s*,')


def is_message(value: JsonObject) -> bool:
    """Whether it is a message, or a conversation that begins with one."""
    speaker, content = value.get("role") or value.get("speaker"), value.get("content") or value.get("text")
    if isinstance(speaker, str) and isinstance(content, str | list):
        return True
    messages = get_dicts(value, "messages", "turns")
    return bool(messages) and is_message(messages[0])


def read(reading: FileReading) -> Items:
    """Read a JSON text: a list of messages, or of conversations that have them."""
    start = ChatStart()
    yield start
    for item in reading.items("messages", "turns", "conversations"):
        if item.number >= 0:
            yield from _read_element(as_dict(item.value), start, item.number, item.place, reading)
        elif isinstance(item.value, str) and item.key in ("id", "session_id"):
            start.native = item.value
        elif isinstance(item.value, str) and item.key == "title":
            start.title = item.value


def read_lines(reading: FileReading) -> Items:
    start = ChatStart()
    for number, line in reading.objects():
        yield from _read_element(line, start, number, f"line {number:,}", reading)


def _read_element(values: JsonObject, start: ChatStart, number: int, place: str, reading: FileReading) -> Items:
    """Read a conversation, or a message of the one that is collected."""
    listed = get_dicts(values, "messages", "turns")
    messages = []
    for one in listed or [values]:
        role = get_text(one, "role", "speaker")
        text = join_blocks(one.get("content") if one.get("content") is not None else one.get("text"))
        at = parse_time(one.get("at") or one.get("timestamp") or one.get("created_at"))
        messages.append(make_message(role, text, at, get_text(one, "id")))
        if messages[-1] is None and role and text.strip():
            reading.leave_out("calls and outputs of tools, and lines of the host")
        elif messages[-1] is None and not listed and not is_message(one):
            reading.damage(place, "no message")
    if listed:
        first = next((one.text for one in messages if one), "")
        native = get_text(values, "id", "session_id", "conversation_id")
        session = reading.name_session(native, f"{reading.source.stem}:{number}", first)
        yield ChatStart(title=get_text(values, "title"), session=session)
    yield from messages
    if listed:
        yield start
