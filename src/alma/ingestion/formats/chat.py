"""Conversations in no host's own format: roles and contents as model APIs take them, or text with names before it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..reading.elements import Elements
from ..reading.lines import lines, objects
from ..reading.sources import Reading
from ..types import Format, Message, Piece
from .shape import Gathering, Lines, Told, assistant, dicts, mapping, moment, said, session_of, split_chat, text, user

_LISTS = frozenset({"messages", "turns", "conversations"})
_PERSONS = frozenset({"user", "human", "me", "you"})
_ASSISTANTS = frozenset({"assistant", "ai", "model", "bot", "claude", "chatgpt", "gpt", "gemini", "copilot", "agent"})
LABEL = re.compile(
    r"(?:\*\*|__)?(user|human|me|you|assistant|ai|claude|chatgpt|gpt|gemini|copilot|bot)(?:\*\*|__)?\s?:(?:\*\*|__)?"
    r"(?:[ \t]+(.*)|[ \t]*)",
    re.I,
)


def recognised(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    who, what = value.get("role") or value.get("speaker"), value.get("content") or value.get("text")
    if isinstance(who, str) and isinstance(what, str | list):
        return True
    listed = dicts(value.get("messages")) or dicts(value.get("turns"))
    return bool(listed) and recognised(listed[0])


def labelled(head: str) -> bool:
    """Whether a text is a conversation: two speakers or more, one of them first."""
    found = [LABEL.fullmatch(line.strip()) for line in head.split("\n") if line.strip()]
    if not found or found[0] is None:
        return False
    speakers = [one[1].lower() for one in found if one]
    return len(speakers) >= 2 and any(one in _PERSONS for one in speakers) and any(o in _ASSISTANTS for o in speakers)


def read(reading: Reading, told: Told) -> Iterator[Piece]:
    """A JSON text: a list of messages, or of conversations that have them."""
    gathering = Gathering(Format.CHAT, reading.source.stem)
    for item in Elements(reading.chunks, told.damaged).read(_LISTS):
        if item.number < 0:
            if item.key in ("id", "session_id"):
                gathering.session = text(item.value)
            elif item.key == "title":
                gathering.title = text(item.value)
        else:
            place = f"element {item.number} (character {item.at:,})"
            yield from _element(mapping(item.value), gathering, f"{reading.source.stem}:{item.number}", place, told)
    yield from gathering.end()


def read_lines(reading: Reading, told: Told) -> Iterator[Piece]:
    gathering = Gathering(Format.CHAT, reading.source.stem)
    for number, line in objects(reading.chunks, told.damaged):
        yield from _element(line, gathering, f"{reading.source.stem}:{number}", f"line {number:,}", told)
    yield from gathering.end()


def _element(found: dict[str, Any], gathering: Gathering, fallback: str, place: str, told: Told) -> Iterator[Piece]:
    """A conversation, or a message of the one that is gathered."""
    if listed := dicts(found.get("messages")) or dicts(found.get("turns")):
        messages = [message for one in listed if (message := _message(one, told)) is not None]
        native = text(found.get("id")) or text(found.get("session_id")) or text(found.get("conversation_id"))
        session = session_of(Format.CHAT, native, fallback, messages[0].text if messages else "")
        yield from split_chat(Format.CHAT, session, messages, text(found.get("title")))
    elif (message := _message(found, told)) is not None:
        yield from gathering.add(message)
    elif not recognised(found):
        told.damaged(place, "no message")


def _message(found: dict[str, Any], told: Told) -> Message | None:
    who = text(found.get("role")) or text(found.get("speaker"))
    words = _words(found.get("content") if found.get("content") is not None else found.get("text"))
    at, id = moment(found.get("at") or found.get("timestamp") or found.get("created_at")), text(found.get("id"))
    if not said(words) or not who:
        return None
    if who.casefold() in _PERSONS:
        return user(words, at, id)
    if who.casefold() in _ASSISTANTS:
        return assistant(words, at, id)
    told.left("calls and outputs of tools, and lines of the host")
    return None


def _words(content: object) -> str:
    if isinstance(content, str):
        return content
    spoken = [text(one.get("text")) for one in dicts(content) if one.get("type", "text") == "text"]
    return "\n".join(filter(said, spoken))


def read_text(reading: Reading, told: Told) -> Iterator[Piece]:
    """A text in which each turn begins with who speaks."""
    gathering = Gathering(Format.CHAT, reading.source.stem)
    who, held = "", Lines()
    for _, line in lines(reading.chunks, told.damaged):
        found = LABEL.fullmatch(line)
        if found is not None or held.full:
            if (message := _spoken(who, held)) is not None:
                yield from gathering.add(message)
            who, held = (found[1].lower(), Lines(found[2] or "")) if found else (who, Lines(line))
        else:
            held.add(line)
    if (message := _spoken(who, held)) is not None:
        yield from gathering.add(message)
    yield from gathering.end()


def _spoken(who: str, held: Lines) -> Message | None:
    words = held.text()
    if not who or not said(words):
        return None
    return user(words) if who in _PERSONS else assistant(words)
