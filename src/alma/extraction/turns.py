"""Messages, as hosts and model APIs tell them, as turns: who said what, when, and by what the turn is known again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..engine import validate
from ..errors import ValidationError
from ..types.speech import is_person

_UNHEARD = frozenset({"system", "developer", "tool", "function", "tool_result"})
"""Roles whose text is neither a person's nor an assistant's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    index: int
    speaker: str
    text: str
    at: datetime | None = None
    key: str = ""
    """By its own id, or by its words and those before it: the same when the conversation is told again or has grown."""

    @property
    def by_person(self) -> bool:
        return is_person(self.speaker)

    @property
    def heard(self) -> bool:
        return self.speaker.casefold() not in _UNHEARD


def turns(messages: Sequence[Mapping[str, Any]]) -> list[Turn]:
    """Those in which something was said; each keeps its place among the messages."""
    made: list[Turn] = []
    before = ""
    for index, message in enumerate(validate.many("messages", messages)):
        turn = _turn(index, message, before)
        if turn is not None:
            made.append(turn)
            before = turn.text
    return made


def _turn(index: int, message: object, before: str) -> Turn | None:
    label = f"messages[{index}]"
    if not isinstance(message, Mapping):
        raise ValidationError(
            f"{label} must be a mapping with role and content (or speaker and text), not {type(message).__name__}"
        )
    said = message.get("content") if message.get("text") is None else message["text"]
    text = validate.output(f"{label} content", _plain(said)[: validate.MAX_TEXT])
    if text is None:
        return None
    speaker = validate.name(f"{label} role", message.get("speaker") or message.get("role"))
    id = message.get("id")
    at = message.get("at", message.get("timestamp"))
    return Turn(
        index=index,
        speaker=speaker,
        text=text,
        at=validate.moment(f"{label} at", at),
        key=digest("id", id) if isinstance(id, str) and id else digest("said", before, speaker, text),
    )


def _plain(content: object) -> str:
    """The text of a message: a string, or the text blocks of a list; what tools printed is nobody's words."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return (
            _plain(content.get("text")) if content.get("type", "text") in ("text", "input_text", "output_text") else ""
        )
    if isinstance(content, Sequence) and not isinstance(content, bytes | bytearray):
        return "\n".join(filter(None, map(_plain, content)))
    return ""


def digest(*parts: str) -> str:
    joined = "\x1f".join(parts)
    return hashlib.blake2b(joined.encode("utf-8", "replace"), digest_size=16).hexdigest()
