"""Codex: rollouts of all ages, the stream of `codex exec --json`, and the history of prompts.

A rollout of today tells most messages twice, as an item of the model's context and as an event for the screen; either
may be missing. The earliest had bare items and a headless first line.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from ..reading.lines import objects
from ..reading.sources import Reading
from ..types import Format, Message, Piece
from .shape import Gathering, Told, assistant, dicts, mapping, moment, said, text, user

ENVELOPES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_ITEMS = frozenset(
    {
        *("message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "local_shell_call"),
        *("custom_tool_call_output", "web_search_call", "ghost_snapshot", "compaction", "tool_search_call"),
        *("tool_search_output", "image_generation_call", "compaction_summary", "context_compaction", "other"),
    }
)
_STREAM = re.compile(r"(?:thread|turn|item)\.[a-z_]+|error")
_MADE_BY_HOST = re.compile(
    r"\s*(?:<(?:user_instructions|environment_context|turn_aborted|permissions[ _]instructions|INSTRUCTIONS"
    r"|user_shell_command|skill|collaboration_mode|subagent_notification|ENVIRONMENT_CONTEXT|personality_spec)\b"
    r"|\#\ AGENTS\.md\ instructions)",
    re.VERBOSE,
)
_REQUEST = re.compile(r"\A# Context from my IDE setup:.*?^## My request for Codex:\s*", re.DOTALL | re.MULTILINE)
_LATELY = 12


def recognised(line: dict[str, Any]) -> bool:
    kind = line.get("type")
    if isinstance(kind, str):
        if kind in ENVELOPES:
            return isinstance(line.get("payload"), dict)
        return (kind in _ITEMS and ("role" in line or kind != "message")) or bool(
            _STREAM.fullmatch(kind) and ("thread_id" in line or "item" in line or kind.startswith("turn."))
        )
    if line.get("record_type") == "state":
        return True
    return ("id" in line and "timestamp" in line and "instructions" in line) or _from_history(line)


def _from_history(line: dict[str, Any]) -> bool:
    return {"session_id", "ts", "text"} <= line.keys()


class _Echoes:
    """Two channels tell the same messages; each is taken once, whichever is first."""

    def __init__(self) -> None:
        self._lately: deque[tuple[str, str, str]] = deque(maxlen=_LATELY)

    def repeats(self, channel: str, role: str, words: str) -> bool:
        for heard in self._lately:
            if heard[0] != channel and heard[1:] == (role, words.strip()):
                self._lately.remove(heard)
                return True
        self._lately.append((channel, role, words.strip()))
        return False


def read(reading: Reading, told: Told) -> Iterator[Piece]:
    gathering = Gathering(Format.CODEX, reading.source.stem)
    echoes = _Echoes()
    for _, line in objects(reading.chunks, told.damaged):
        if _from_history(line):
            if text(line["session_id"]) != gathering.session:
                yield from gathering.end()
                gathering = Gathering(Format.CODEX, reading.source.stem)
                gathering.session = text(line["session_id"])
            yield from gathering.add(user(text(line["text"]), moment(line["ts"])))
            continue
        gathering.session = gathering.session or _session(line)
        if not recognised(line):
            told.left("lines of unknown types")
            continue
        for message in _messages(line, told, echoes):
            yield from gathering.add(message)
    yield from gathering.end()


def _session(line: dict[str, Any]) -> str:
    if line.get("type") == "session_meta":
        return text(mapping(line.get("payload")).get("id"))
    if line.get("type") == "thread.started":
        return text(line.get("thread_id"))
    return text(line.get("id")) if "type" not in line and "instructions" in line else ""


def _messages(line: dict[str, Any], told: Told, echoes: _Echoes) -> Iterator[Message]:
    kind, at = text(line.get("type")), moment(line.get("timestamp"))
    payload = mapping(line.get("payload"))
    if kind == "response_item":
        yield from _item(payload, at, told, echoes)
    elif kind == "event_msg":
        yield from _event(payload, at, told, echoes)
    elif kind == "compacted":
        told.left("summaries of the host")
    elif kind == "item.completed":
        item = mapping(line.get("item"))
        if item.get("type") == "agent_message":
            yield assistant(text(item.get("text")), at, text(item.get("id")))
        else:
            told.left("calls of tools")
    elif kind in _ITEMS:
        yield from _item(line, at, told, echoes)


def _item(item: dict[str, Any], at: datetime | None, told: Told, echoes: _Echoes) -> Iterator[Message]:
    if item.get("type") != "message":
        told.left(
            "calls and outputs of tools" if "call" in text(item.get("type")) else "thoughts and notes of the host"
        )
        return
    role = text(item.get("role"))
    parts = [one for one in dicts(item.get("content")) if one.get("type") in ("input_text", "output_text", "text")]
    words = "\n".join(text(one.get("text")) for one in parts) or text(item.get("content"))
    if role == "assistant":
        if said(words) and not echoes.repeats("item", role, words):
            yield assistant(words, at, text(item.get("id")))
    elif role == "user":
        yield from _person("item", words, at, told, echoes)
    else:
        told.left("lines of the host")


def _event(payload: dict[str, Any], at: datetime | None, told: Told, echoes: _Echoes) -> Iterator[Message]:
    kind = payload.get("type")
    if kind == "user_message":
        yield from _person("event", text(payload.get("message")), at, told, echoes)
    elif kind == "agent_message":
        words = text(payload.get("message"))
        if said(words) and not echoes.repeats("event", "assistant", words):
            yield assistant(words, at)


def _person(channel: str, words: str, at: datetime | None, told: Told, echoes: _Echoes) -> Iterator[Message]:
    if _MADE_BY_HOST.match(words):
        told.left("lines of the host")
        return
    typed = _REQUEST.sub("", words)
    if said(typed) and not echoes.repeats(channel, "user", typed):
        yield user(typed, at)
