"""Messages, as hosts and model APIs pass them, as turns: who spoke, when, and an id that survives a second reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..engine import validate
from ..engine.admit import clean
from ..errors import ValidationError
from ..reading.port import Role
from ..text import digest
from ..types.speech import is_person

_TOOLS = frozenset({"system", "developer", "tool", "function", "tool_result"})
"""Roles whose text is neither a person's nor an assistant's own."""
_TEXT_BLOCKS = ("text", "input_text", "output_text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    index: int
    speaker: str
    text: str
    at: datetime | None = None
    key: str = ""
    """Its own id, or a digest of its words and those before it: equal when the conversation is read again or has
    grown."""

    @property
    def role(self) -> Role:
        if self.speaker.casefold() in _TOOLS:
            return Role.TOOL
        return Role.USER if is_person(self.speaker) else Role.ASSISTANT


def read_messages(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return the messages that hold text, without secrets. Each keeps its index among all messages."""
    read: list[Message] = []
    before = ""
    for index, message in enumerate(validate.many("messages", messages)):
        label = f"messages[{index}]"
        if not isinstance(message, Mapping):
            raise ValidationError(
                f"{label} must be a mapping with role and content (or speaker and text), not {type(message).__name__}"
            )
        content = message.get("content") if message.get("text") is None else message["text"]
        text = validate.output(f"{label} content", _read_content(content)[: validate.MAX_TEXT])
        if text is None:
            continue
        speaker = validate.name(f"{label} role", message.get("speaker") or message.get("role"))
        id = message.get("id")
        read.append(
            Message(
                index=index,
                speaker=speaker,
                text=clean(text),
                at=validate.moment(f"{label} at", message.get("at", message.get("timestamp"))),
                key=digest("id", id) if isinstance(id, str) and id else digest("said", before, speaker, text),
            )
        )
        before = text
    return read


def _read_content(content: object) -> str:
    """Return the text of a message: a string, or the text blocks of a list. Tool output is left out."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return _read_content(content.get("text")) if content.get("type", "text") in _TEXT_BLOCKS else ""
    if isinstance(content, Sequence) and not isinstance(content, bytes | bytearray):
        return "\n".join(filter(None, map(_read_content, content)))
    return ""
