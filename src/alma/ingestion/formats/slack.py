"""Slack's export: a folder for each channel, in it a file for each day, beside them lists of users and channels.

A thread is a conversation, and what was said in a channel on one day outside of threads is one. What others wrote is
theirs: only what the asked user wrote counts as said by the person whose memory this is.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..reading.elements import Elements
from ..reading.sources import Reading, Source
from ..types import Chat, Format, Message, Piece, Voice
from .shape import PART_CHARS, PART_MESSAGES, Told, dicts, mapping, moment, said, session_of, text

ROSTER_BYTES = 64 * 1024 * 1024
_TITLE_CHARS = 80
_SPOKEN = frozenset(
    {"", "thread_broadcast", "me_message", "file_share", "file_comment", "bot_message", "reply_broadcast"}
)
_REFERENCE = re.compile(r"<([@#!]?)([^<>|]{1,500})(?:\|([^<>]{0,500}))?>")


@dataclass(frozen=True, slots=True)
class Roster:
    """Who is who."""

    names: Mapping[str, str] = field(default_factory=dict)
    mine: frozenset[str] = frozenset()
    """The ids of the asked user."""


def recognised(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("ts"), str):
        return False
    return value.get("type", "message") == "message" and ("text" in value or "subtype" in value or "user" in value)


def is_roster(value: object) -> bool:
    """An entry of users.json."""
    return isinstance(value, dict) and "id" in value and "profile" in value and "team_id" in value


def roster(source: Source | None, asked: str) -> Roster:
    """The users that an export lists; without a list everybody is called by their id."""
    if source is None or source.size > ROSTER_BYTES:
        return Roster()
    names: dict[str, str] = {}
    mine: set[str] = set()
    with source.opening() as file:
        listed = file.read(ROSTER_BYTES).decode("utf-8", "replace")
    for item in Elements([listed], lambda *_: None).read():
        one = mapping(item.value)
        profile = mapping(one.get("profile"))
        known = [text(one.get("id")), text(one.get("name")), text(one.get("real_name"))]
        known += [text(profile.get(name)) for name in ("display_name", "real_name", "email")]
        if known[0]:
            shown = (profile.get("display_name"), one.get("real_name"), profile.get("real_name"), one.get("name"))
            names[known[0]] = next((name for name in map(text, shown) if said(name)), known[0])
            if asked and asked.casefold() in {name.casefold() for name in known if name}:
                mine.add(known[0])
    return Roster(names, frozenset(mine))


def read(reading: Reading, told: Told, who: Roster) -> Iterator[Piece]:
    place = reading.source.name
    folders = place.replace("\\", "/").rsplit("/", 2)
    day = _Day(folders[-2] if len(folders) > 1 else "", reading.source.stem)
    for item in Elements(reading.chunks, told.damaged).read(frozenset({"messages"})):
        if not isinstance(item.value, dict):
            told.damaged(f"element {item.number} (character {item.at:,})", "no message")
            continue
        message = _message(item.value, told, who)
        if message is not None:
            yield from day.add(message, item.value)
    yield from day.end()


class _Day:
    """What was said in a channel on one day: by thread, and the rest."""

    def __init__(self, channel: str, day: str) -> None:
        self._channel, self._day = channel, day
        self._held: dict[str, list[Message]] = {}
        self._count = self._size = self._part = 0

    def add(self, message: Message, found: Mapping[str, Any]) -> Iterator[Piece]:
        thread = text(found.get("thread_ts"))
        alone = thread == text(found.get("ts")) and not found.get("reply_count") and not found.get("replies")
        self._held.setdefault("" if alone else thread, []).append(message)
        self._count += 1
        self._size += len(message.text)
        if self._count >= PART_MESSAGES or self._size >= PART_CHARS:
            yield from self.end()

    def end(self) -> Iterator[Piece]:
        held, self._held = self._held, {}
        self._count = self._size = 0
        self._part += 1
        for thread, messages in held.items():
            native = f"{self._channel}:thread:{thread}" if thread else f"{self._channel}:{self._day}"
            about = " ".join(messages[0].text.split())[:_TITLE_CHARS] if thread else self._day
            yield Chat(
                format=Format.SLACK,
                session=session_of(Format.SLACK, native),
                messages=messages,
                title=f"#{self._channel}: {about}" if self._channel else about,
                part=f"{self._day}:{self._part}",
            )


def _message(found: dict[str, Any], told: Told, who: Roster) -> Message | None:
    subtype = text(found.get("subtype"))
    if subtype == "message_changed":
        return _message({**mapping(found.get("message")), "ts": found.get("ts")}, told, who)
    if subtype not in _SPOKEN:
        told.left("notices of Slack")
        return None
    words = _plain(text(found.get("text")), who) or _plain(_rich(found.get("blocks")), who)
    if not said(words):
        told.left("messages without words")
        return None
    speaker, voice = _speaker(found, who)
    edited = text(mapping(found.get("edited")).get("ts"))
    id = f"{text(found.get('ts'))}{'~' + edited if edited else ''}"
    return Message(speaker=speaker, text=words, voice=voice, at=moment(found.get("ts")), id=id)


def _speaker(found: Mapping[str, Any], who: Roster) -> tuple[str, Voice]:
    id = text(found.get("user"))
    profile = mapping(found.get("user_profile"))
    if not id or found.get("subtype") == "bot_message" or (found.get("bot_id") and id not in who.names):
        name = text(found.get("username")) or text(mapping(found.get("bot_profile")).get("name")) or "bot"
        return (name if name == "bot" else f"{name} (bot)"), Voice.TOOL
    name = who.names.get(id) or text(profile.get("display_name")) or text(profile.get("real_name")) or id
    return name, Voice.PERSON if id in who.mine else Voice.OTHER


def _plain(words: str, who: Roster) -> str:
    """The text as people read it: names for ids, links spelled out."""

    def spelled(match: re.Match[str]) -> str:
        sign, target, label = match[1], match[2], match[3]
        if sign == "@":
            return f"@{who.names.get(target) or label or target}"
        if sign == "#":
            return f"#{label or target}"
        if sign == "!":
            return f"@{label or target.partition('^')[0]}".replace("@@", "@")
        return f"{label} ({target})" if label and label != target else target

    return html.unescape(_REFERENCE.sub(spelled, words))


def _rich(blocks: object, depth: int = 0) -> str:
    """The words of a message that has blocks instead of a text."""
    if depth > 8:
        return ""
    found = []
    for block in dicts(blocks):
        inner = block.get("text")
        own = text(inner) if isinstance(inner, str) else text(mapping(inner).get("text"))
        if block.get("type") == "user":
            own = f"<@{text(block.get('user_id'))}>"
        elif block.get("type") == "link":
            own = own or text(block.get("url"))
        found.append(own + _rich(block.get("elements"), depth + 1))
    return "".join(found) if depth else "\n".join(filter(said, found))
