"""The export of Claude.ai: conversations with their messages, and projects with their documents.

What a person attached is somebody's text, but it need not be theirs: it becomes a document of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...engine.text import digest
from ..reading.elements import Elements
from ..reading.sources import Reading
from ..types import Chat, Document, Format, Message, Piece
from .shape import Told, assistant, dicts, moment, parts, said, session_of, text, user

_LISTS = frozenset({"conversations", "projects"})


def recognised(value: object) -> bool:
    return isinstance(value, dict) and (isinstance(value.get("chat_messages"), list) or _is_project(value))


def _is_project(value: dict[str, Any]) -> bool:
    return isinstance(value.get("docs"), list) and "uuid" in value


def read(reading: Reading, told: Told) -> Iterator[Piece]:
    alone: dict[str, Any] = {}
    name = reading.source.name
    for item in Elements(reading.chunks, told.damaged).read(_LISTS):
        if recognised(item.value):
            yield from _one(item.value, name, told)
        elif item.number >= 0:
            told.damaged(f"element {item.number} (character {item.at:,})", "neither a conversation nor a project")
        else:
            alone[item.key] = item.value
    if recognised(alone):
        yield from _one(alone, name, told)


def _one(found: dict[str, Any], name: str, told: Told) -> Iterator[Piece]:
    if _is_project(found):
        yield from _project(found, name)
    else:
        yield from _conversation(found, name, told)


def _conversation(found: dict[str, Any], name: str, told: Told) -> Iterator[Piece]:
    everything = dicts(found["chat_messages"])
    current = _current(everything, text(found.get("current_leaf_message_uuid")))
    title = text(found.get("name"))
    first = _words(everything[0]) if everything else ""
    session = session_of(Format.CLAUDE_AI, found.get("uuid"), title, first)
    told.left("messages on other branches", len(everything) - len(current))
    messages = [message for one in current if (message := _message(one)) is not None]
    for number, part in enumerate(parts(messages), 1):
        yield Chat(format=Format.CLAUDE_AI, session=session, messages=part, title=title, part=str(number), place=name)
    for one in current:
        yield from _attachments(one, name, told)


def _current(messages: list[dict[str, Any]], leaf: str) -> list[dict[str, Any]]:
    """The branch that ends the conversation. Without links between messages all of them are it."""
    by_id = {text(one.get("uuid")): one for one in messages}
    linked = [one for one in messages if text(one.get("parent_message_uuid")) in by_id]
    if not linked:
        return messages
    followed = {text(one.get("parent_message_uuid")) for one in messages}
    ends = [id for id in by_id if id not in followed]
    here = leaf if leaf in by_id else max(ends, key=lambda id: (text(by_id[id].get("created_at")), id), default="")
    path: list[dict[str, Any]] = []
    seen: set[str] = set()
    while here in by_id and here not in seen:
        seen.add(here)
        path.append(by_id[here])
        here = text(by_id[here].get("parent_message_uuid"))
    return path[::-1]


def _message(found: dict[str, Any]) -> Message | None:
    words, at, id = _words(found), moment(found.get("created_at")), text(found.get("uuid"))
    if not said(words):
        return None
    sender = found.get("sender")
    if sender in ("human", "user"):
        return user(words, at, id)
    return assistant(words, at, id) if sender == "assistant" else None


def _words(found: dict[str, Any]) -> str:
    blocks = [text(one.get("text")) for one in dicts(found.get("content")) if one.get("type", "text") == "text"]
    return "\n\n".join(filter(said, blocks)) or text(found.get("text"))


def _attachments(message: dict[str, Any], name: str, told: Told) -> Iterator[Piece]:
    for one in dicts(message.get("attachments")):
        content = text(one.get("extracted_content"))
        title = text(one.get("file_name")) or "attachment"
        if not said(content):
            told.left("attachments without text")
            continue
        yield Document(
            format=Format.CLAUDE_AI,
            session=f"{Format.CLAUDE_AI}:attachment:{digest(title, content)}",
            name=title,
            title=title,
            text=content,
            place=name,
            at=moment(message.get("created_at")),
        )


def _project(found: dict[str, Any], name: str) -> Iterator[Piece]:
    title = text(found.get("name")) or "project"
    template = {"filename": f"{title}: instructions", "content": found.get("prompt_template")}
    for one in [template, *dicts(found["docs"])]:
        content, file = text(one.get("content")), text(one.get("filename")) or title
        if said(content):
            known = text(one.get("uuid")) or digest(text(found.get("uuid")), file)
            yield Document(
                format=Format.CLAUDE_AI,
                session=session_of(Format.CLAUDE_AI, f"document:{known}"),
                name=file,
                title=f"{title}: {file}" if title not in file else file,
                text=content,
                place=name,
                at=moment(one.get("created_at")),
            )
