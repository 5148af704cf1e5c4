"""Conversations in JSON: exports of ChatGPT, Claude.ai and Slack, and messages with roles as in model APIs.

A ChatGPT conversation is a tree of messages, one branch of which is the current conversation. An attachment in
Claude.ai may be anybody's text, so it becomes a separate document. In Slack, each thread is a conversation, and so are
all other messages of a channel on one day; messages of other people are not attributed to the user.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from datetime import datetime

from ...coding.events import as_dict, as_dicts, get_dict, get_dicts
from ...text import digest
from ..streams import JsonObject, JsonStream, get_text, join_blocks, parse_time
from .common import ChatMessage, ChatStart, FileReading, Items, Speaker, make_message


def _list_branches(
    nodes: dict[str, JsonObject], parent: str, leaf: str, find_time: Callable[[JsonObject], datetime | None]
) -> list[list[str]]:
    """Return the keys from the root to the leaf, then those of each other branch from where it diverges.

    Without a leaf, the latest message without a successor is the end of the conversation.
    """
    parents = {get_text(one, parent) for one in nodes.values()}
    leaves = [key for key in nodes if key not in parents]
    if leaf not in nodes:
        times = {key: find_time(nodes[key]) for key in leaves or nodes}
        leaf = max(times, key=lambda key: (at.timestamp() if (at := times[key]) else 0.0, key), default="")
    branches: list[list[str]] = []
    listed: set[str] = set()
    for key in (leaf, *leaves):
        branch = []
        while key in nodes and key not in listed:
            listed.add(key)
            branch.append(key)
            key = get_text(nodes[key], parent)
        if branch or not branches:
            branches.append(branch[::-1])
    return branches


# -- ChatGPT


def is_chatgpt(value: JsonObject) -> bool:
    """Return whether a value is a conversation of a ChatGPT export."""
    return isinstance(value.get("mapping"), dict)


def read_chatgpt(reading: FileReading) -> Items:
    """Yield the conversations and custom instructions of a ChatGPT export."""
    lists = ("conversations", "items", "data")
    instructions: set[str] = set()
    for conversation in reading.conversations(lists, is_chatgpt, "not a conversation: it has no mapping"):
        nodes = {key: one for key, one in conversation["mapping"].items() if isinstance(one, dict)}
        for node in nodes.values():
            content = get_dict(node, "message", "content")
            texts = (get_text(content, name).strip() for name in ("user_profile", "user_instructions"))
            text = "\n\n".join(filter(None, texts))
            if content.get("content_type") == "user_editable_context" and text and digest(text) not in instructions:
                # Every conversation repeats the custom instructions; they are stored once.
                instructions.add(digest(text))
                title, session = "Custom instructions", f"{reading.format}:instructions:{digest(text)}"
                yield reading.make_document(session, ChatMessage(title.lower(), text, Speaker.PERSON), title)
        leaf, title = get_text(conversation, "current_node"), get_text(conversation, "title")
        branches = _list_branches(
            nodes, "parent", leaf, lambda node: parse_time(get_dict(node, "message").get("create_time"))
        )
        session = reading.name_session(get_text(conversation, "conversation_id", "id"), title, *branches[0][:2])
        for number, branch in enumerate(branches):
            nodes_read = [_read_node(get_dict(nodes[key], "message")) for key in branch]
            messages = [message for _, message in nodes_read if message]
            if number and not reading.branches:
                reading.leave_out("messages on other branches", len(messages))
                continue
            unread = sum(bool(text.strip()) and message is None for text, message in nodes_read)
            reading.leave_out("calls and outputs of tools, and lines of the host", unread)
            yield ChatStart(title=title, session=f"{session}~{digest(branch[-1])[:8]}" if number else session)
            yield from messages


def _read_node(message: JsonObject) -> tuple[str, ChatMessage | None]:
    """Return the text of a node, and its message if people see it."""
    content = get_dict(message, "content")
    parts, text = content.get("parts"), get_text(content, "text", "result")
    if isinstance(parts, list):
        spoken = [get_text(one, "text") for one in as_dicts(parts) if one.get("content_type") == "audio_transcription"]
        text = "\n".join(one for one in [*(one for one in parts if isinstance(one, str)), *spoken] if one.strip())
    is_hidden = get_dict(message, "metadata").get("is_visually_hidden_from_conversation") is True
    is_spoken = get_text(content, "content_type") in ("", "text", "multimodal_text")
    if is_hidden or not is_spoken or message.get("recipient") not in ("all", None):
        return text, None
    role, at = get_dict(message, "author").get("role"), parse_time(message.get("create_time"))
    return text, make_message(role, text, at, get_text(message, "id"))


# -- Claude.ai


def is_claude_ai(value: JsonObject) -> bool:
    """Return whether a value is a conversation or a project of a Claude.ai export."""
    return isinstance(value.get("chat_messages"), list) or (isinstance(value.get("docs"), list) and "uuid" in value)


def read_claude_ai(reading: FileReading) -> Items:
    """Yield the conversations, attachments and project documents of a Claude.ai export."""
    lists = ("conversations", "projects")
    for value in reading.conversations(lists, is_claude_ai, "neither a conversation nor a project"):
        is_chat = isinstance(value.get("chat_messages"), list)
        yield from _read_conversation(value, reading) if is_chat else _read_project(value, reading)


def _read_conversation(conversation: JsonObject, reading: FileReading) -> Items:
    everything = current = as_dicts(conversation["chat_messages"])
    nodes = {get_text(one, "uuid"): one for one in everything}
    # Without links between messages, the conversation consists of all of them.
    if any(get_text(one, "parent_message_uuid") in nodes for one in everything):
        leaf = get_text(conversation, "current_leaf_message_uuid")
        [branch, *_] = _list_branches(
            nodes, "parent_message_uuid", leaf, lambda node: parse_time(node.get("created_at"))
        )
        current = [nodes[id] for id in branch]
    reading.leave_out("messages on other branches", len(everything) - len(current))
    title, opening = get_text(conversation, "name"), _read_claude_text(everything[0]) if everything else ""
    yield ChatStart(title=title, session=reading.name_session(get_text(conversation, "uuid"), title, opening))
    for one in current:
        at = parse_time(one.get("created_at"))
        yield make_message(one.get("sender"), _read_claude_text(one), at, get_text(one, "uuid"))
    for message in current:
        for one in get_dicts(message, "attachments"):
            name, text = get_text(one, "file_name") or "attachment", get_text(one, "extracted_content")
            reading.leave_out("attachments without text", not text.strip())
            if text.strip():
                content = ChatMessage(name, text, Speaker.OTHER, parse_time(message.get("created_at")))
                yield reading.make_document(f"{reading.format}:attachment:{digest(name, text)}", content)


def _read_claude_text(message: JsonObject) -> str:
    return join_blocks(message.get("content"), separator="\n\n") or get_text(message, "text")


def _read_project(project: JsonObject, reading: FileReading) -> Items:
    title = get_text(project, "name") or "project"
    template = {"filename": f"{title}: instructions", "content": project.get("prompt_template")}
    for one in [template, *as_dicts(project["docs"])]:
        text, name = get_text(one, "content"), get_text(one, "filename") or title
        if text.strip():
            id = get_text(one, "uuid") or digest(get_text(project, "uuid"), name)
            full = name if title in name else f"{title}: {name}"
            session, at = reading.name_session(f"document:{id}"), parse_time(one.get("created_at"))
            yield reading.make_document(session, ChatMessage(name, text, Speaker.OTHER, at), full)


# -- Slack: a folder per channel with a file per day, and lists of users and channels beside them

USERS_REASON = "Slack's list of users, which is read together with its channels"
_USERS_BYTES = 64 * 1024 * 1024
_TITLE_CHARS = 80
_SPOKEN = ("", "thread_broadcast", "me_message", "file_share", "file_comment", "bot_message", "reply_broadcast")
_REFERENCE = re.compile(r"<([@#!]?)([^<>|]{1,500})(?:\|([^<>]{0,500}))?>")
Users = dict[str, tuple[str, bool]]  # By id: the name, and whether this is the user whose memory it is.


def is_slack_message(value: JsonObject) -> bool:
    """Return whether a value is a message of a Slack export."""
    is_typed = isinstance(value.get("ts"), str) and value.get("type", "message") == "message"
    return is_typed and any(name in value for name in ("text", "subtype", "user"))


def is_slack_user(value: JsonObject) -> bool:
    """Return whether a value is an entry of a Slack export's users.json."""
    return "id" in value and "profile" in value and "team_id" in value


def read_slack(reading: FileReading) -> Items:
    """Yield the threads and the other messages of one day of a Slack channel."""
    users = _load_users(reading)
    threads: dict[str, list[ChatMessage]] = {}
    for item in reading.items("messages"):
        if not isinstance(item.value, dict):
            reading.damage(item.place, "not a message")
        elif (message := _read_slack_message(item.value, reading, users)) is not None:
            thread = get_text(item.value, "thread_ts")
            has_replies = item.value.get("reply_count") or item.value.get("replies")
            is_alone = thread == item.value.get("ts") and not has_replies
            threads.setdefault("" if is_alone else thread, []).append(message)
    channel, day = reading.source.folder, reading.source.stem
    for thread, messages in threads.items():
        about = " ".join(messages[0].text.split())[:_TITLE_CHARS] if thread else day
        # A thread may continue in the files of other days.
        yield ChatStart(
            f"{channel}:thread:{thread}" if thread else f"{channel}:{day}",
            f"#{channel}: {about}" if channel else about,
            part=f"{day}:",
        )
        yield from messages


def _load_users(reading: FileReading) -> Users:
    """Return the users that an export lists, read once per run; without a list, users are called by their ids."""
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
            spellings = {name.casefold() for name in (*names, get_text(profile, "email")) if name}
            if id:
                users[id] = next(name for name in names if name.strip()), reading.user.casefold() in spellings
    return users


def _read_slack_message(values: JsonObject, reading: FileReading, users: Users) -> ChatMessage | None:
    if get_text(values, "subtype") == "message_changed":
        values = {**get_dict(values, "message"), "ts": values.get("ts")}
    subtype, user = get_text(values, "subtype"), get_text(values, "user")
    if subtype not in _SPOKEN:
        reading.leave_out("notices of Slack")
        return None
    text = _spell_out(get_text(values, "text") or _join_rich(values.get("blocks")), users)
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
    """Return a text as people see it, with names for ids and links written out."""

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
    """Return the text of a message that consists of blocks."""
    texts = []
    for block in as_dicts(blocks) if depth <= 8 else ():
        text = get_text(block, "text") or get_text(get_dict(block, "text"), "text") or get_text(block, "url")
        if block.get("type") == "user":
            text = f"<@{get_text(block, 'user_id')}>"
        texts.append(text + _join_rich(block.get("elements"), depth + 1))
    return "".join(texts) if depth else "\n".join(text for text in texts if text.strip())


# -- messages with roles and contents, from no particular host


def is_chat(value: JsonObject) -> bool:
    """Return whether a value is a message, or a conversation that begins with one."""
    speaker, content = value.get("role") or value.get("speaker"), value.get("content") or value.get("text")
    if isinstance(speaker, str) and isinstance(content, str | list):
        return True
    messages = get_dicts(value, "messages", "turns")
    return bool(messages) and is_chat(messages[0])


def read_chat(reading: FileReading) -> Items:
    """Yield the conversations of a JSON text: a list of messages, or of conversations."""
    start = ChatStart()
    yield start
    for item in reading.items("messages", "turns", "conversations"):
        if item.number >= 0:
            yield from _read_element(as_dict(item.value), start, item.number, item.place, reading)
        elif isinstance(item.value, str) and item.key in ("id", "session_id"):
            start.native = item.value
        elif isinstance(item.value, str) and item.key == "title":
            start.title = item.value


def read_chat_lines(reading: FileReading) -> Items:
    """Yield the conversations of JSON lines, each of which is a message or a conversation."""
    start = ChatStart()
    for number, line in reading.objects():
        yield from _read_element(line, start, number, f"line {number:,}", reading)


def _read_element(values: JsonObject, start: ChatStart, number: int, place: str, reading: FileReading) -> Items:
    """Yield a conversation, or a message of the current one."""
    listed = get_dicts(values, "messages", "turns")
    messages = []
    for one in listed or [values]:
        role = get_text(one, "role", "speaker")
        text = join_blocks(one.get("content") if one.get("content") is not None else one.get("text"))
        at = parse_time(one.get("at") or one.get("timestamp") or one.get("created_at"))
        messages.append(make_message(role, text, at, get_text(one, "id")))
        if messages[-1] is None and role and text.strip():
            reading.leave_out("calls and outputs of tools, and lines of the host")
        elif messages[-1] is None and not listed and not is_chat(one):
            reading.damage(place, "not a message")
    if listed:
        first = next((one.text for one in messages if one), "")
        native = get_text(values, "id", "session_id", "conversation_id")
        session = reading.name_session(native, f"{reading.source.stem}:{number}", first)
        yield ChatStart(title=get_text(values, "title"), session=session)
    yield from messages
    if listed:
        yield start
