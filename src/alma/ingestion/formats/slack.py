"""Slack's export: a folder for each channel, in it a file for each day, beside them lists of users and channels.

A thread is a conversation, and what was said in a channel on one day outside of threads is one. What others wrote is
theirs: only what the asked user wrote counts as said by the person whose memory this is.
"""

from __future__ import annotations

import html
import re

from ..streams import JsonObject, JsonStream, as_dict, as_dicts, get_dict, get_text, parse_time
from .common import PART_CHARS, PART_MESSAGES, Chat, ChatMessage, FileReading, Items, Speaker

USERS_REASON = "Slack's list of users, read together with its channels"
_USERS_BYTES = 64 * 1024 * 1024
_TITLE_CHARS = 80
_SPOKEN = ("", "thread_broadcast", "me_message", "file_share", "file_comment", "bot_message", "reply_broadcast")
_REFERENCE = re.compile(r"<([@#!]?)([^<>|]{1,500})(?:\|([^<>]{0,500}))?>")
Users = dict[str, tuple[str, bool]]  # By id: the name, and whether it is the asked user.


def is_message(value: JsonObject) -> bool:
    if not isinstance(value.get("ts"), str):
        return False
    return value.get("type", "message") == "message" and ("text" in value or "subtype" in value or "user" in value)


def is_user(value: JsonObject) -> bool:
    """Whether it is an entry of users.json."""
    return "id" in value and "profile" in value and "team_id" in value


def read(reading: FileReading) -> Items:
    users = _load_users(reading)
    threads: dict[str, list[ChatMessage]] = {}
    count = size = 0
    part = 1
    for item in reading.items("messages"):
        if not isinstance(item.value, dict):
            reading.damage(item.place, "no message")
        elif (message := _read_message(item.value, reading, users)) is not None:
            thread = get_text(item.value, "thread_ts")
            has_replies = item.value.get("reply_count") or item.value.get("replies")
            is_alone = thread == item.value.get("ts") and not has_replies
            threads.setdefault("" if is_alone else thread, []).append(message)
            count, size = count + 1, size + len(message.text)
            if count >= PART_MESSAGES or size >= PART_CHARS:
                yield from _make_chats(reading, threads, part)
                threads, count, size, part = {}, 0, 0, part + 1
    yield from _make_chats(reading, threads, part)


def _make_chats(reading: FileReading, threads: dict[str, list[ChatMessage]], part: int) -> Items:
    channel, day = reading.source.folder, reading.source.stem
    for thread, messages in threads.items():
        about = " ".join(messages[0].text.split())[:_TITLE_CHARS] if thread else day
        session = reading.name_session(f"{channel}:thread:{thread}" if thread else f"{channel}:{day}")
        yield Chat(reading.format, session, messages, f"#{channel}: {about}" if channel else about, f"{day}:{part}")


def _load_users(reading: FileReading) -> Users:
    """Read the users that an export lists, once in a run; without a list everybody is called by their id."""
    source = reading.find_beside("users.json")
    if source is None or source.size > _USERS_BYTES:
        return {}
    users: Users | None = reading.shared.get(source.name)
    if users is None:
        users = reading.shared[source.name] = {}
        text = source.read_start(_USERS_BYTES).decode("utf-8", "replace")
        for item in JsonStream([text], lambda *_: None).read():
            one = as_dict(item.value)
            profile, id = get_dict(one, "profile"), get_text(one, "id")
            called = (get_text(profile, "display_name"), get_text(one, "real_name"), get_text(profile, "real_name"))
            names = (*called, get_text(one, "name"), id)
            known = {name.casefold() for name in (*names, get_text(profile, "email")) if name}
            if id:
                users[id] = next(name for name in names if name.strip()), reading.user.casefold() in known
    return users


def _read_message(values: JsonObject, reading: FileReading, users: Users) -> ChatMessage | None:
    if get_text(values, "subtype") == "message_changed":
        values = {**get_dict(values, "message"), "ts": values.get("ts")}
    subtype, user = get_text(values, "subtype"), get_text(values, "user")
    if subtype not in _SPOKEN:
        reading.leave_out("notices of Slack")
        return None
    text = _spell_out(get_text(values, "text"), users) or _spell_out(_join_rich(values.get("blocks")), users)
    if not text.strip():
        reading.leave_out("messages without words")
        return None
    if not user or subtype == "bot_message" or (values.get("bot_id") and user not in users):
        name = get_text(values, "username") or get_text(get_dict(values, "bot_profile"), "name")
        speaker, voice = f"{name} (bot)" if name and name != "bot" else "bot", Speaker.TOOL
    else:
        profile = get_dict(values, "user_profile")
        speaker, is_own = users.get(user) or (get_text(profile, "display_name", "real_name") or user, False)
        voice = Speaker.PERSON if is_own else Speaker.OTHER
    edited = get_text(get_dict(values, "edited"), "ts")
    id = get_text(values, "ts") + (f"~{edited}" if edited else "")
    return ChatMessage(speaker, text, voice, parse_time(values.get("ts")), id)


def _spell_out(text: str, users: Users) -> str:
    """Return the text as people read it: names for ids, links spelled out."""

    def spell(match: re.Match[str]) -> str:
        sign, target, label = match[1], match[2], match[3]
        if sign == "@":
            return f"@{users.get(target, (label,))[0] or target}"
        if sign == "#":
            return f"#{label or target}"
        if sign == "!":
            return f"@{label or target.partition('^')[0]}".replace("@@", "@")
        return f"{label} ({target})" if label and label != target else target

    return html.unescape(_REFERENCE.sub(spell, text))


def _join_rich(blocks: object, depth: int = 0) -> str:
    """Return the words of a message that has blocks instead of a text."""
    texts = []
    for block in as_dicts(blocks) if depth <= 8 else ():
        text = get_text(block, "text") or get_text(get_dict(block, "text"), "text")
        if block.get("type") == "user":
            text = f"<@{get_text(block, 'user_id')}>"
        elif block.get("type") == "link":
            text = text or get_text(block, "url")
        texts.append(text + _join_rich(block.get("elements"), depth + 1))
    return "".join(texts) if depth else "\n".join(text for text in texts if text.strip())
