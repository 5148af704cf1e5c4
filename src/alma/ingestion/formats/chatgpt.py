"""ChatGPT's export: conversations as trees of messages, of which one branch is the conversation.

The list stands alone (`conversations.json`, also in numbered parts), in an object, or one conversation stands alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...text import digest
from ..reading.sources import Reading
from ..types import Document, Format, Message, Piece, Voice
from .shape import Told, dicts, mapping, moment, read_elements, said, session_of, speak, split_chat, text

_LISTS = frozenset({"conversations", "items", "data"})
_SPOKEN = frozenset({"text", "multimodal_text"})


def recognised(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("mapping"), dict)


def read(reading: Reading, told: Told) -> Iterator[Piece]:
    own = _Instructions()
    for found in read_elements(reading, told, _LISTS, recognised, "no conversation: it has no mapping"):
        yield from _conversation(found, told, own)


class _Instructions:
    """The custom instructions stand in every conversation; they are told once."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def told(self, content: dict[str, Any]) -> Iterator[Piece]:
        parts = (text(content.get(name)).strip() for name in ("user_profile", "user_instructions"))
        words = "\n\n".join(filter(None, parts))
        known = digest(words)
        if not words or known in self._known:
            return
        self._known.add(known)
        yield Document(
            format=Format.CHATGPT,
            session=f"{Format.CHATGPT}:instructions:{known}",
            name="custom instructions",
            title="Custom instructions",
            text=words,
            voice=Voice.PERSON,
        )


def _conversation(found: dict[str, Any], told: Told, own: _Instructions) -> Iterator[Piece]:
    nodes = {key: one for key, one in found["mapping"].items() if isinstance(one, dict)}
    current = _path(nodes, _leaf(nodes, found.get("current_node")))
    native = text(found.get("conversation_id")) or text(found.get("id"))
    title = text(found.get("title"))
    session = session_of(Format.CHATGPT, native, title, *current[:2])
    for node in nodes.values():
        content = mapping(mapping(node.get("message")).get("content"))
        if content.get("content_type") == "user_editable_context":
            yield from own.told(content)
    yield from _chat(nodes, current, session, title, told)
    others = _branches(nodes, set(current))
    if not told.asked.branches:
        told.left("messages on other branches", sum(bool(_message(nodes[key])) for path in others for key in path))
        return
    for path in others:
        yield from _chat(nodes, path, f"{session}~{digest(path[-1])[:8]}", title, told)


def _leaf(nodes: dict[str, dict[str, Any]], current: object) -> str:
    """The end of the conversation: as it says, or its latest message that nothing follows."""
    if isinstance(current, str) and current in nodes:
        return current
    parents = {text(one.get("parent")) for one in nodes.values()}
    ends = [key for key in nodes if key not in parents] or list(nodes)
    times = {key: moment(mapping(nodes[key].get("message")).get("create_time")) for key in ends}
    return max(ends, key=lambda key: (at.timestamp() if (at := times[key]) else 0.0, key), default="")


def _path(nodes: dict[str, dict[str, Any]], leaf: str, known: set[str] | None = None) -> list[str]:
    """From the root, or from where it leaves what is known, to a leaf."""
    path: list[str] = []
    seen = set(known or ())
    while leaf in nodes and leaf not in seen:
        seen.add(leaf)
        path.append(leaf)
        leaf = text(nodes[leaf].get("parent"))
    return path[::-1]


def _branches(nodes: dict[str, dict[str, Any]], known: set[str]) -> list[list[str]]:
    """What is on no branch before it, each from its fork to its end."""
    parents = {text(one.get("parent")) for one in nodes.values()}
    found = []
    for leaf in [key for key in nodes if key not in parents]:
        path = _path(nodes, leaf, known)
        if path:
            found.append(path)
            known = known | set(path)
    return found


def _chat(nodes: dict[str, dict[str, Any]], path: list[str], session: str, title: str, told: Told) -> Iterator[Piece]:
    messages = []
    for key in path:
        if message := _message(nodes[key]):
            messages.append(message)
        elif said(_words(mapping(nodes[key].get("message")))):
            told.left("calls and outputs of tools, and lines of the host")
    return split_chat(Format.CHATGPT, session, messages, title)


def _message(node: dict[str, Any]) -> Message | None:
    found = mapping(node.get("message"))
    role = mapping(found.get("author")).get("role")
    if mapping(found.get("metadata")).get("is_visually_hidden_from_conversation") is True:
        return None
    content = mapping(found.get("content"))
    is_spoken = (text(content.get("content_type")) or "text") in _SPOKEN
    if not is_spoken or found.get("recipient") not in ("all", None):
        return None
    return speak(role, _words(found), moment(found.get("create_time")), text(found.get("id")))


def _words(message: dict[str, Any]) -> str:
    content = mapping(message.get("content"))
    listed = content.get("parts")
    if not isinstance(listed, list):
        return text(content.get("text")) or text(content.get("result"))
    spoken = [one for one in listed if isinstance(one, str)]
    spoken += [text(one.get("text")) for one in dicts(listed) if one.get("content_type") == "audio_transcription"]
    return "\n".join(filter(said, spoken))
