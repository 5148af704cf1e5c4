"""The export of Claude.ai: conversations with their messages, and projects with their documents.

What a person attached is somebody's text, but it need not be theirs: it becomes a document of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...text import digest
from ..reading.sources import Reading
from ..types import Document, Format, Piece
from .shape import Told, dicts, moment, read_elements, said, session_of, speak, split_chat, text

_LISTS = frozenset({"conversations", "projects"})


def recognised(value: object) -> bool:
    return isinstance(value, dict) and (isinstance(value.get("chat_messages"), list) or _is_project(value))


def _is_project(value: dict[str, Any]) -> bool:
    return isinstance(value.get("docs"), list) and "uuid" in value


def read(reading: Reading, told: Told) -> Iterator[Piece]:
    for found in read_elements(reading, told, _LISTS, recognised, "neither a conversation nor a project"):
        yield from _project(found) if _is_project(found) else _conversation(found, told)


def _conversation(found: dict[str, Any], told: Told) -> Iterator[Piece]:
    everything = dicts(found["chat_messages"])
    current = _current(everything, text(found.get("current_leaf_message_uuid")))
    title = text(found.get("name"))
    first = _words(everything[0]) if everything else ""
    session = session_of(Format.CLAUDE_AI, found.get("uuid"), title, first)
    told.left("messages on other branches", len(everything) - len(current))
    messages = [
        speak(one.get("sender"), _words(one), moment(one.get("created_at")), text(one.get("uuid"))) for one in current
    ]
    yield from split_chat(Format.CLAUDE_AI, session, filter(None, messages), title)
    for one in current:
        yield from _attachments(one, told)


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


def _words(found: dict[str, Any]) -> str:
    blocks = [text(one.get("text")) for one in dicts(found.get("content")) if one.get("type", "text") == "text"]
    return "\n\n".join(filter(said, blocks)) or text(found.get("text"))


def _attachments(message: dict[str, Any], told: Told) -> Iterator[Piece]:
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
            at=moment(message.get("created_at")),
        )


def _project(found: dict[str, Any]) -> Iterator[Piece]:
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
                at=moment(one.get("created_at")),
            )
