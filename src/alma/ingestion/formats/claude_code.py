"""Claude Code's own transcripts: one JSON object a line.

What a person typed, what the assistant said, and what the person wrote when refusing a call is kept. What tools
printed, what the host wrote in the person's name, and the talk of sub-agents is not: it is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...coding.calls import extract_reason, is_refusal
from ...coding.prompts import extract_spoken, parse_command, restore_typed
from ..reading.lines import objects
from ..reading.sources import Reading
from ..types import Format, Message, Piece
from .shape import Gathering, Told, assistant, dicts, mapping, moment, said, text, user

TYPES = frozenset(
    {
        *("user", "assistant", "system", "summary", "attachment", "file-history-snapshot", "queue-operation"),
        *("progress", "ai-title", "custom-title", "agent-name", "pr-link", "last-prompt", "permission-mode", "tag"),
    }
)
_HOST_SIGNS = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")
_TITLES = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}


def recognised(line: dict[str, Any]) -> bool:
    kind = text(line.get("type"))
    if kind in ("user", "assistant") and isinstance(line.get("message"), dict):
        return True
    return kind in TYPES and any(name in line for name in ("sessionId", "uuid", "leafUuid", "messageId"))


def read(reading: Reading, told: Told) -> Iterator[Piece]:
    gathering = Gathering(Format.CLAUDE_CODE, reading.source.stem)
    for _, line in objects(reading.chunks, told.damaged):
        if title := text(line.get(_TITLES.get(text(line.get("type")), ""))).strip():
            gathering.title = title
        gathering.session = gathering.session or text(line.get("sessionId"))
        if text(line.get("type")) not in TYPES:
            told.left("lines of unknown types")
            continue
        if line.get("isSidechain") is True:
            told.left("lines of sub-agents")
            continue
        for message in _messages(line, told):
            yield from gathering.add(message)
    yield from gathering.end()


def _messages(line: dict[str, Any], told: Told) -> Iterator[Message]:
    kind = line.get("type")
    if kind == "assistant":
        yield from _assistant(line, told)
    elif kind == "user":
        yield from _user(line, told)
    elif kind == "attachment":
        yield from _queued(line)


def _assistant(line: dict[str, Any], told: Told) -> Iterator[Message]:
    if line.get("isApiErrorMessage") is True:
        told.left("errors of the host")
        return
    blocks = _blocks(mapping(line.get("message")).get("content"))
    spoken = "\n".join(filter(said, (text(one.get("text")) for one in blocks if one.get("type") == "text")))
    told.left("calls of tools", sum(one.get("type") == "tool_use" for one in blocks))
    if said(spoken):
        yield assistant(spoken, moment(line.get("timestamp")), text(line.get("uuid")))


def _user(line: dict[str, Any], told: Told) -> Iterator[Message]:
    at, id = moment(line.get("timestamp")), text(line.get("uuid"))
    blocks = _blocks(mapping(line.get("message")).get("content"))
    results = [one for one in blocks if one.get("type") == "tool_result"]
    for one in results:
        told.left("outputs of tools")
        if refusal := _refusal(line, one):
            yield user(refusal, at, f"{id}:{text(one.get('tool_use_id'))}")
    if any(line.get(sign) is True for sign in _HOST_SIGNS):
        told.left("lines of the host")
        return
    written = "\n".join(filter(None, (text(one.get("text")) for one in blocks if one.get("type") == "text")))
    typed = _typed(written, text(mapping(line.get("origin")).get("kind")))
    if said(typed):
        yield user(typed, at, id)
    elif said(written):
        told.left("lines of the host")


def _typed(written: str, origin: str) -> str:
    """What the person wrote; nothing when the host did."""
    if origin not in ("", "human"):
        return ""
    command = parse_command(restore_typed(written))
    if command is not None:
        return f"/{command.name} {command.words}".strip() if command.is_worth_keeping else ""
    return extract_spoken(written)


def _refusal(line: dict[str, Any], result: dict[str, Any]) -> str:
    """What a person wrote when they did not let a call pass."""
    if result.get("is_error") is not True:
        return ""
    printed = "\n".join(text(one.get("text")) for one in _blocks(result.get("content")))
    denied = text(line.get("toolDenialKind"))
    if denied != "user-rejected" and (denied or not is_refusal(printed)):
        return ""
    return text(line.get("userFeedback")).strip() or extract_reason(printed)


def _queued(line: dict[str, Any]) -> Iterator[Message]:
    """A prompt that was sent while the assistant was working."""
    attached = mapping(line.get("attachment"))
    if attached.get("type") != "queued_command" or attached.get("commandMode", "prompt") != "prompt":
        return
    if attached.get("isMeta") is True:
        return
    parts = (text(one.get("text")) for one in _blocks(attached.get("prompt")) if one.get("type") == "text")
    typed = _typed("\n".join(filter(None, parts)), text(mapping(attached.get("origin")).get("kind")))
    if said(typed):
        yield user(typed, moment(line.get("timestamp")), text(line.get("uuid")))


def _blocks(content: object) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else dicts(content)
