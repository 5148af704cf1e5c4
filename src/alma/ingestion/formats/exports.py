"""The exports of ChatGPT and Claude.ai.

ChatGPT's conversations are trees of messages, of which one branch is the conversation. What a person attached in
Claude.ai is somebody's text, but it need not be theirs: it becomes a document of its own.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from ...text import digest
from ..streams import as_dicts, get_dict, get_dicts, get_text, join_blocks, parse_time
from .common import ChatMessage, ChatStart, FileReading, Items, Speaker, make_message

CHATGPT_SIGN = re.compile(r'"mapping"\s*:\s*\{')
CLAUDE_AI_SIGN = re.compile(r'"(?:chat_messages|docs)"\s*:\s*\[')
Nodes = dict[str, dict[str, Any]]


def _follow_parents(nodes: Nodes, leaf: str, parent: str, known: Collection[str] = ()) -> list[str]:
    """Return the keys from the root, or from where it leaves what is known, to a leaf."""
    path: list[str] = []
    seen = set(known)
    while leaf in nodes and leaf not in seen:
        seen.add(leaf)
        path.append(leaf)
        leaf = get_text(nodes[leaf], parent)
    return path[::-1]


def _find_leaves(nodes: Nodes, parent: str) -> list[str]:
    parents = {get_text(one, parent) for one in nodes.values()}
    return [key for key in nodes if key not in parents]


# -- ChatGPT


def is_chatgpt(value: dict[str, Any]) -> bool:
    return isinstance(value.get("mapping"), dict)


def read_chatgpt(reading: FileReading) -> Items:
    lists = ("conversations", "items", "data")
    instructions: set[str] = set()
    for conversation in reading.conversations(lists, is_chatgpt, "no conversation: it has no mapping"):
        nodes = {key: one for key, one in conversation["mapping"].items() if isinstance(one, dict)}
        for node in nodes.values():
            content = get_dict(node, "message", "content")
            if content.get("content_type") == "user_editable_context":
                # The custom instructions stand in every conversation; they are kept once.
                texts = (get_text(content, name).strip() for name in ("user_profile", "user_instructions"))
                text = "\n\n".join(filter(None, texts))
                if text and digest(text) not in instructions:
                    instructions.add(digest(text))
                    session = f"{reading.format}:instructions:{digest(text)}"
                    title = "Custom instructions"
                    yield reading.make_document(session, title.lower(), text, title=title, voice=Speaker.PERSON)
        yield from _read_branches(conversation, nodes, reading)


def _read_branches(conversation: dict[str, Any], nodes: Nodes, reading: FileReading) -> Items:
    leaves = _find_leaves(nodes, "parent")
    times = {key: parse_time(get_dict(nodes[key], "message").get("create_time")) for key in leaves or nodes}
    # The end of the conversation: as it says, or its latest message that nothing follows.
    leaf = get_text(conversation, "current_node")
    if leaf not in nodes:
        leaf = max(times, key=lambda key: (at.timestamp() if (at := times[key]) else 0.0, key), default="")
    path = _follow_parents(nodes, leaf, "parent")
    title = get_text(conversation, "title")
    session = reading.name_session(get_text(conversation, "conversation_id", "id"), title, *path[:2])
    paths, known = [path], set(path)
    for other in leaves:
        if branch := _follow_parents(nodes, other, "parent", known):
            paths.append(branch)
            known |= set(branch)
    for number, branch in enumerate(paths):
        messages = [_read_node(nodes[key]) for key in branch]
        if number and not reading.branches:
            reading.leave_out("messages on other branches", sum(one is not None for one in messages))
            continue
        unread = [nodes[key] for key, one in zip(branch, messages, strict=True) if one is None]
        is_text = [bool(_read_node_text(get_dict(one, "message")).strip()) for one in unread]
        reading.leave_out("calls and outputs of tools, and lines of the host", sum(is_text))
        name = f"{session}~{digest(branch[-1])[:8]}" if number else session
        yield ChatStart(title=title, session=name)
        yield from messages


def _read_node(node: dict[str, Any]) -> ChatMessage | None:
    message = get_dict(node, "message")
    content = get_dict(message, "content")
    is_hidden = get_dict(message, "metadata").get("is_visually_hidden_from_conversation") is True
    is_spoken = get_text(content, "content_type") in ("", "text", "multimodal_text")
    if is_hidden or not is_spoken or message.get("recipient") not in ("all", None):
        return None
    role = get_dict(message, "author").get("role")
    at = parse_time(message.get("create_time"))
    return make_message(role, _read_node_text(message), at, get_text(message, "id"))


def _read_node_text(message: dict[str, Any]) -> str:
    content = get_dict(message, "content")
    parts = content.get("parts")
    if not isinstance(parts, list):
        return get_text(content, "text", "result")
    spoken = [get_text(one, "text") for one in as_dicts(parts) if one.get("content_type") == "audio_transcription"]
    return "\n".join(one for one in [*(one for one in parts if isinstance(one, str)), *spoken] if one.strip())


# -- Claude.ai


def is_claude_ai(value: dict[str, Any]) -> bool:
    return isinstance(value.get("chat_messages"), list) or (isinstance(value.get("docs"), list) and "uuid" in value)


def read_claude_ai(reading: FileReading) -> Items:
    lists = ("conversations", "projects")
    for value in reading.conversations(lists, is_claude_ai, "neither a conversation nor a project"):
        is_chat = isinstance(value.get("chat_messages"), list)
        yield from _read_conversation(value, reading) if is_chat else _read_project(value, reading)


def _read_conversation(conversation: dict[str, Any], reading: FileReading) -> Items:
    everything = as_dicts(conversation["chat_messages"])
    nodes = {get_text(one, "uuid"): one for one in everything}
    current = everything
    # Without links between messages all of them are the conversation.
    if any(get_text(one, "parent_message_uuid") in nodes for one in everything):
        leaf = get_text(conversation, "current_leaf_message_uuid")
        if leaf not in nodes:
            leaves = _find_leaves(nodes, "parent_message_uuid")
            leaf = max(leaves, key=lambda id: (get_text(nodes[id], "created_at"), id), default="")
        current = [nodes[id] for id in _follow_parents(nodes, leaf, "parent_message_uuid")]
    reading.leave_out("messages on other branches", len(everything) - len(current))
    texts = [join_blocks(one.get("content"), separator="\n\n") or get_text(one, "text") for one in current]
    messages = [
        make_message(one.get("sender"), text, parse_time(one.get("created_at")), get_text(one, "uuid"))
        for one, text in zip(current, texts, strict=True)
    ]
    title = get_text(conversation, "name")
    first = everything[0] if everything else {}
    opening = join_blocks(first.get("content"), separator="\n\n") or get_text(first, "text")
    session = reading.name_session(get_text(conversation, "uuid"), title, opening)
    yield ChatStart(title=title, session=session)
    yield from messages
    for message in current:
        for one in get_dicts(message, "attachments"):
            name, text = get_text(one, "file_name") or "attachment", get_text(one, "extracted_content")
            if not text.strip():
                reading.leave_out("attachments without text")
                continue
            session = f"{reading.format}:attachment:{digest(name, text)}"
            yield reading.make_document(session, name, text, at=parse_time(message.get("created_at")))


def _read_project(project: dict[str, Any], reading: FileReading) -> Items:
    title = get_text(project, "name") or "project"
    template = {"filename": f"{title}: instructions", "content": project.get("prompt_template")}
    for one in [template, *as_dicts(project["docs"])]:
        text, name = get_text(one, "content"), get_text(one, "filename") or title
        if text.strip():
            id = get_text(one, "uuid") or digest(get_text(project, "uuid"), name)
            session = reading.name_session(f"document:{id}")
            full = name if title in name else f"{title}: {name}"
            yield reading.make_document(session, name, text, title=full, at=parse_time(one.get("created_at")))
