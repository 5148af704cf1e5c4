"""The exports of ChatGPT and Claude.ai.

ChatGPT's conversations are trees of messages, of which one branch is the conversation. What a person attached in
Claude.ai is somebody's text, but it need not be theirs: it becomes a document of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from ...text import digest
from ..streams import JsonObject, as_dicts, get_dict, get_dicts, get_text, join_blocks, parse_time
from .common import ChatMessage, ChatStart, FileReading, Items, Speaker, make_message

CHATGPT_SIGN = re.compile(r'"mapping"\s*:\s*\{')
CLAUDE_AI_SIGN = re.compile(r'"(?:chat_messages|docs)"\s*:\s*\[')


def _list_branches(
    nodes: dict[str, JsonObject], parent: str, leaf: str, find_time: Callable[[JsonObject], datetime | None]
) -> list[list[str]]:
    """Return the keys from the root to the leaf, then those of each branch from where it leaves what is known.

    Without a leaf the latest message that nothing follows is the end of the conversation.
    """
    parents = {get_text(one, parent) for one in nodes.values()}
    leaves = [key for key in nodes if key not in parents]
    if leaf not in nodes:
        times = {key: find_time(nodes[key]) for key in leaves or nodes}
        leaf = max(times, key=lambda key: (at.timestamp() if (at := times[key]) else 0.0, key), default="")
    branches: list[list[str]] = []
    known: set[str] = set()
    for key in (leaf, *leaves):
        branch = []
        while key in nodes and key not in known:
            known.add(key)
            branch.append(key)
            key = get_text(nodes[key], parent)
        if branch or not branches:
            branches.append(branch[::-1])
    return branches


# -- ChatGPT


def is_chatgpt(value: JsonObject) -> bool:
    return isinstance(value.get("mapping"), dict)


def read_chatgpt(reading: FileReading) -> Items:
    lists = ("conversations", "items", "data")
    instructions: set[str] = set()
    for conversation in reading.conversations(lists, is_chatgpt, "no conversation: it has no mapping"):
        nodes = {key: one for key, one in conversation["mapping"].items() if isinstance(one, dict)}
        for node in nodes.values():
            content = get_dict(node, "message", "content")
            texts = (get_text(content, name).strip() for name in ("user_profile", "user_instructions"))
            text = "\n\n".join(filter(None, texts))
            if content.get("content_type") == "user_editable_context" and text and digest(text) not in instructions:
                # The custom instructions stand in every conversation; they are kept once.
                instructions.add(digest(text))
                title, session = "Custom instructions", f"{reading.format}:instructions:{digest(text)}"
                yield reading.make_document(session, title.lower(), text, title=title, voice=Speaker.PERSON)
        yield from _read_branches(conversation, nodes, reading)


def _read_branches(conversation: JsonObject, nodes: dict[str, JsonObject], reading: FileReading) -> Items:
    leaf, title = get_text(conversation, "current_node"), get_text(conversation, "title")
    branches = _list_branches(
        nodes, "parent", leaf, lambda node: parse_time(get_dict(node, "message").get("create_time"))
    )
    session = reading.name_session(get_text(conversation, "conversation_id", "id"), title, *branches[0][:2])
    for number, branch in enumerate(branches):
        messages = [_read_node(get_dict(nodes[key], "message")) for key in branch]
        if number and not reading.branches:
            reading.leave_out("messages on other branches", sum(one is not None for one in messages))
            continue
        unread = [nodes[key] for key, one in zip(branch, messages, strict=True) if one is None]
        is_text = [bool(_read_node_text(get_dict(one, "message")).strip()) for one in unread]
        reading.leave_out("calls and outputs of tools, and lines of the host", sum(is_text))
        yield ChatStart(title=title, session=f"{session}~{digest(branch[-1])[:8]}" if number else session)
        yield from messages


def _read_node(message: JsonObject) -> ChatMessage | None:
    is_hidden = get_dict(message, "metadata").get("is_visually_hidden_from_conversation") is True
    is_spoken = get_text(get_dict(message, "content"), "content_type") in ("", "text", "multimodal_text")
    if is_hidden or not is_spoken or message.get("recipient") not in ("all", None):
        return None
    role, at = get_dict(message, "author").get("role"), parse_time(message.get("create_time"))
    return make_message(role, _read_node_text(message), at, get_text(message, "id"))


def _read_node_text(message: JsonObject) -> str:
    content = get_dict(message, "content")
    parts = content.get("parts")
    if not isinstance(parts, list):
        return get_text(content, "text", "result")
    spoken = [get_text(one, "text") for one in as_dicts(parts) if one.get("content_type") == "audio_transcription"]
    return "\n".join(one for one in [*(one for one in parts if isinstance(one, str)), *spoken] if one.strip())


# -- Claude.ai


def is_claude_ai(value: JsonObject) -> bool:
    return isinstance(value.get("chat_messages"), list) or (isinstance(value.get("docs"), list) and "uuid" in value)


def read_claude_ai(reading: FileReading) -> Items:
    lists = ("conversations", "projects")
    for value in reading.conversations(lists, is_claude_ai, "neither a conversation nor a project"):
        is_chat = isinstance(value.get("chat_messages"), list)
        yield from _read_conversation(value, reading) if is_chat else _read_project(value, reading)


def _read_conversation(conversation: JsonObject, reading: FileReading) -> Items:
    everything = current = as_dicts(conversation["chat_messages"])
    nodes = {get_text(one, "uuid"): one for one in everything}
    # Without links between messages all of them are the conversation.
    if any(get_text(one, "parent_message_uuid") in nodes for one in everything):
        leaf = get_text(conversation, "current_leaf_message_uuid")
        [branch, *_] = _list_branches(
            nodes, "parent_message_uuid", leaf, lambda node: parse_time(node.get("created_at"))
        )
        current = [nodes[id] for id in branch]
    reading.leave_out("messages on other branches", len(everything) - len(current))
    title, opening = get_text(conversation, "name"), _read_claude_text(everything[0]) if everything else ""
    session = reading.name_session(get_text(conversation, "uuid"), title, opening)
    yield ChatStart(title=title, session=session)
    for one in current:
        at = parse_time(one.get("created_at"))
        yield make_message(one.get("sender"), _read_claude_text(one), at, get_text(one, "uuid"))
    for message in current:
        for one in get_dicts(message, "attachments"):
            name, text = get_text(one, "file_name") or "attachment", get_text(one, "extracted_content")
            reading.leave_out("attachments without text", not text.strip())
            if text.strip():
                session = f"{reading.format}:attachment:{digest(name, text)}"
                yield reading.make_document(session, name, text, at=parse_time(message.get("created_at")))


def _read_claude_text(message: JsonObject) -> str:
    return join_blocks(message.get("content"), separator="\n\n") or get_text(message, "text")


def _read_project(project: JsonObject, reading: FileReading) -> Items:
    title = get_text(project, "name") or "project"
    template = {"filename": f"{title}: instructions", "content": project.get("prompt_template")}
    for one in [template, *as_dicts(project["docs"])]:
        text, name = get_text(one, "content"), get_text(one, "filename") or title
        if text.strip():
            id = get_text(one, "uuid") or digest(get_text(project, "uuid"), name)
            session = reading.name_session(f"document:{id}")
            full = name if title in name else f"{title}: {name}"
            yield reading.make_document(session, name, text, title=full, at=parse_time(one.get("created_at")))
