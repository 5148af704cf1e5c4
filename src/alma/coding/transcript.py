"""Read the host's transcript of a session as events: what a person said, refused or changed.

The host may change the format at any time, so fields that are missing, new or of another type are skipped. A transcript
can be very long, so it is read line by line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from .events import (
    Event,
    cut_text,
    extract_spoken,
    find_attendance,
    get_dict,
    get_dicts,
    get_text,
    is_moment,
    parse_line,
    restore_typed,
)
from .session import EXITED, extract_reason, is_refusal

LINE_BYTES = 8 * 1024 * 1024
"""Longer lines are skipped: they contain images and whole files, not a person's words."""

UNREPORTED = frozenset({"Rejected", "Remarked"})
"""Events that no hook reports."""

_PROMPT_CHARS = 32_000
_TEXT_CHARS = 4_000
_ITEMS = 40
_DEPTH = 6
_OPEN_CALLS = 500
_FIRST_LINES = 200

# Byte strings that mark the lines with tool calls and with a person's response to them.
_SIGNS = (b'"tool_use"', b"user-rejected", b"doesn't want to", b"userFeedback", b'"permissionDecision"')
_SOURCES = {"typed": "user", "queued": "user", "suggestion_accepted": "user"}
_MADE_BY_HOST = ("isSidechain", "isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")
_NOT_PERMITTED = ("Permission to use ", "Permission for this ")


# -- files


class TranscriptFile(NamedTuple):
    """A transcript file: its session, the working folder, and its modification time in seconds since 1970."""

    path: Path
    session: str
    cwd: str
    modified: float


def list_transcripts(folder: Path | str) -> Iterator[TranscriptFile]:
    """Yield the transcripts under a Claude folder, newest first, without those of subagents.

    Files that are empty or unreadable are skipped.
    """
    files = []
    for path in Path(folder, "projects").glob("*/*.jsonl"):
        with suppress(OSError):
            if path.is_file() and not path.name.startswith("agent-"):
                files.append((-path.stat().st_mtime, str(path), path))
    for modified, _, path in sorted(files):
        with suppress(OSError), path.open("rb") as file:
            if cwd := find_cwd(islice(read_lines(file), _FIRST_LINES)):
                yield TranscriptFile(path, path.stem, cwd, -modified)


def read_lines(file: BinaryIO, most: int = LINE_BYTES) -> Iterator[bytes]:
    """Yield the lines of a file. A line longer than `most` bytes is replaced by an empty one."""
    while line := file.readline(most + 1):
        if len(line) <= most:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(most + 1)
        yield b"\n"


def find_cwd(lines: Iterable[bytes]) -> str:
    """Return the working folder from the first line that has one and a session id; empty if there is none."""
    entries = (parse_line(line) for line in lines if len(line) <= LINE_BYTES)
    return next((cwd for one in entries if get_text(one, "sessionId") and (cwd := get_text(one, "cwd"))), "")


# -- what people said, in the transcripts of several hosts

_SPOKEN_SIGNS = (b'"user', b"queued_command", b"queue-operation", b'"UserMessage"', b'"turn.prompt"')


def find_spoken(lines: Iterable[bytes]) -> Iterator[str]:
    """Yield the messages of users in a transcript of any host that is known, without the results of tools."""
    for line in lines:
        if len(line) <= LINE_BYTES and any(sign in line for sign in _SPOKEN_SIGNS):
            yield from _list_spoken(parse_line(line))


def find_results(lines: Iterable[bytes]) -> set[str]:
    """Return the ids of the tool calls whose results a transcript of Claude Code or Codex contains."""
    ids = set()
    for line in lines:
        if len(line) <= LINE_BYTES and (b'"tool_result"' in line or b"call_output" in line):
            entry = parse_line(line)
            blocks = _list_blocks(get_dict(entry, "message")) if entry.get("type") == "user" else []
            ids |= {get_text(block, "tool_use_id") for block in blocks if block.get("type") == "tool_result"}
            payload = get_dict(entry, "payload")
            if get_text(payload, "type").endswith("call_output"):
                ids.add(get_text(payload, "call_id"))
    return ids


def _list_spoken(entry: dict[str, Any]) -> list[str]:
    """Return the texts that a user typed according to one line."""
    kind = entry.get("type")
    if kind == "user":
        return _list_user_texts(entry)
    if kind == "attachment":
        attached = get_dict(entry, "attachment")
        is_prompt = attached.get("type") == "queued_command" and attached.get("commandMode", "prompt") == "prompt"
        is_made = attached.get("isMeta") is True or entry.get("isSidechain") is True
        return _list_texts(attached, "prompt") if is_prompt and not is_made and _is_of_person(attached) else []
    if kind == "queue-operation":
        return _list_texts(entry, "content") if entry.get("operation") == "enqueue" else []
    if kind == "user.message":
        return _list_texts(get_dict(entry, "data"), "content")
    if kind == "turn.prompt":
        return _list_texts(entry, "input") if get_text(get_dict(entry, "origin"), "kind") == "user" else []
    payload = get_dict(entry, "payload") if kind == "event_msg" else {}
    if payload.get("type") == "user_message":
        return _list_texts(payload, "message")
    item = get_dict(payload, "item")
    return _list_texts(item, "content") if item.get("type") == "UserMessage" else []


def _list_user_texts(entry: dict[str, Any]) -> list[str]:
    if any(entry.get(sign) is True for sign in _MADE_BY_HOST) or not _is_of_person(entry):
        return []
    message = get_dict(entry, "message") or entry
    texts = []
    for name in ("content", "parts", "displayContent"):
        blocks = _list_blocks(message, name)
        if any(block.get("type") == "tool_result" or "functionResponse" in block for block in blocks):
            return []
        texts += _list_texts(message, name)
    return texts


def _list_texts(values: dict[str, Any], name: str) -> list[str]:
    """Return the texts of a member: all together, and each alone."""
    parts = [text for block in _list_blocks(values, name) if (text := get_text(block, "text"))]
    return parts if len(parts) < 2 else ["\n".join(parts), *parts]


# -- events


def read_transcript(lines: Iterable[bytes]) -> Iterator[Event]:
    """Yield the events of a transcript, in order."""
    reader = TranscriptReader()
    for line in lines:
        yield from reader.read(line)


def find_unreported(lines: Iterable[bytes], known_ids: Collection[str]) -> list[Event]:
    """Return the events that no hook reports and whose ids are not in `known_ids`. Parses only candidate lines."""
    candidates = (line for line in lines if any(sign in line for sign in _SIGNS))
    return [event for event in read_transcript(candidates) if event.name in UNREPORTED and event.id not in known_ids]


def find_exits(lines: Iterable[bytes], known_ids: Collection[str]) -> list[Event]:
    """Return the commands that failed according to a transcript of Codex, whose hooks do not report exit codes."""
    events = []
    for line in lines:
        entry = parse_line(line) if b'"CommandExecution"' in line and len(line) <= LINE_BYTES else {}
        item = get_dict(get_dict(entry, "payload"), "item")
        code, call_id = item.get("exit_code"), get_text(item, "id")
        id = hashlib.sha256(f"exit\0{get_text(entry, 'timestamp')}\0{call_id}".encode()).hexdigest()[:32]
        if type(code) is int and code and call_id and id not in known_ids:
            moment = 0.0
            with suppress(ValueError, OverflowError):
                moment = datetime.fromisoformat(get_text(entry, "timestamp")).timestamp()
            events.append(Event(id, EXITED, moment, data={"tool_use_id": call_id, "exit_code": code}))
    return events


class TranscriptReader:
    """Reads a transcript line by line and returns the events that each line completes."""

    def __init__(self) -> None:
        self._offset = 0
        self._open: dict[str, dict[str, Any]] = {}
        self._at = 0.0
        self._entry: dict[str, Any] = {}

    def read(self, line: bytes) -> list[Event]:
        """Return the events that the next line completes."""
        self._offset += len(line)
        entry = self._entry = parse_line(line) if len(line) <= LINE_BYTES else {}
        blocks = _list_blocks(get_dict(entry, "message"))
        if entry.get("type") == "assistant":
            for block in blocks:
                if block.get("type") == "tool_use":
                    if len(self._open) >= _OPEN_CALLS:
                        del self._open[next(iter(self._open))]
                    call = {
                        "tool_name": get_text(block, "name"),
                        "tool_input": _shorten_value(get_dict(block, "input")),
                    }
                    self._open[get_text(block, "id")] = call
        elif entry.get("type") == "user":
            return self._read_user(blocks)
        elif entry.get("type") == "attachment":
            # A prompt that the person sent while the assistant was working.
            attached = get_dict(entry, "attachment")
            is_prompt = attached.get("type") == "queued_command" and attached.get("commandMode", "prompt") == "prompt"
            is_made = attached.get("isMeta") is True or entry.get("isSidechain") is True
            if is_prompt and not is_made and _is_of_person(attached):
                return self._read_prompt(_join_texts(_list_blocks(attached, "prompt")), "user")
        return []

    def _read_user(self, blocks: list[dict[str, Any]]) -> list[Event]:
        """Return the events of a "user" line, which has either a prompt or the results of tool calls."""
        entry, text = self._entry, _join_texts(blocks)
        results = [block for block in blocks if block.get("type") == "tool_result"]
        if results:
            about = self._find_call(get_text(results[0], "tool_use_id"))
            events = [event for block in results if (event := self._read_result(block)) is not None]
            # A person who allows a call may add a remark, which the host puts beside the call's result.
            is_allowed = get_text(get_dict(entry, "permissionDecision"), "source").startswith("user")
            if is_allowed and extract_spoken(text):
                events.append(self._make_event("Remarked", {**about, "text": cut_text(text, _PROMPT_CHARS)}, "remark"))
            return events
        if any(entry.get(sign) is True for sign in _MADE_BY_HOST):
            return []
        source = get_text(entry, "promptSource")
        source = _SOURCES.get(source, source) if _is_of_person(entry) else "system"
        return self._read_prompt(restore_typed(text) or text, source)

    def _read_prompt(self, prompt: str, source: str) -> list[Event]:
        data = {"prompt": cut_text(prompt, _PROMPT_CHARS), "source": source}
        return [self._make_event("UserPromptSubmit", data)] if prompt.strip() else []

    def _read_result(self, block: dict[str, Any]) -> Event | None:
        """Return the event of a call that a person changed, answered or refused; None for other calls."""
        call_id, answer = get_text(block, "tool_use_id"), _join_texts(_list_blocks(block))
        call, part = self._find_call(call_id), f"ends:{call_id}"
        self._open.pop(call_id, None)
        denial, result = get_text(self._entry, "toolDenialKind"), get_dict(self._entry, "toolUseResult")
        is_error = block.get("is_error") is True
        if is_error and (denial == "user-rejected" or (not denial and is_refusal(answer))):
            reason = get_text(self._entry, "userFeedback").strip() or extract_reason(answer)
            # Only the host writes the kind of denial. The text of the result may be a tool's.
            data = {**call, "text": cut_text(reason, _PROMPT_CHARS), "marked": denial == "user-rejected"}
            return self._make_event("Rejected", data, part) if reason else None
        if is_error:
            is_denied = denial in ("permission-rule", "automode-blocked") or answer.startswith(_NOT_PERMITTED)
            data = {**call, "reason": cut_text(answer, _TEXT_CHARS)}
            return self._make_event("PermissionDenied", data, part) if is_denied else None
        answers = get_dict(result, "answers")
        if answers or result.get("userModified") is True:
            new_text = cut_text(get_text(result, "newString", "content"), _TEXT_CHARS)
            final = {**call["tool_input"], "answers": _shorten_value(answers)}
            changes = {"tool_input": final, "user_modified": result.get("userModified") is True, "written": new_text}
            return self._make_event("PostToolUse", {**call, **changes}, part)
        return None

    def _find_call(self, call_id: str) -> dict[str, Any]:
        return {"tool_use_id": call_id, **self._open.get(call_id, {"tool_name": "", "tool_input": {}})}

    def _make_event(self, name: str, data: dict[str, Any], part: str = "") -> Event:
        entry = self._entry
        with suppress(ValueError, OverflowError, OSError):
            moment = datetime.fromisoformat(get_text(entry, "timestamp")).timestamp()
            self._at = moment if is_moment(moment) else self._at
        uuid = get_text(entry, "uuid") or hashlib.sha256(json.dumps(entry).encode()).hexdigest()
        entry_point = get_text(entry, "entrypoint")
        return Event(
            id=hashlib.sha256(f"transcript\0{uuid}\0{part}".encode("utf-8", "replace")).hexdigest()[:32],
            name=name,
            at=self._at,
            session=get_text(entry, "sessionId"),
            agent_id=(get_text(entry, "agentId") or "sidechain") if entry.get("isSidechain") is True else "",
            data=data,
            offset=self._offset,
            attendance=find_attendance(entry_point) if entry_point else None,
        )


def _is_of_person(entry: dict[str, Any]) -> bool:
    return get_text(get_dict(entry, "origin"), "kind") in ("", "human")


def _list_blocks(values: dict[str, Any], name: str = "content") -> list[dict[str, Any]]:
    text = get_text(values, name)
    return [{"type": "text", "text": text}] if text else get_dicts(values, name)


def _join_texts(blocks: list[dict[str, Any]]) -> str:
    return "\n".join(text for block in blocks if block.get("type") == "text" and (text := get_text(block, "text")))


def _shorten_value(value: Any, depth: int = 0) -> Any:
    """Return a JSON value with long texts and lists cut."""
    if isinstance(value, str):
        return cut_text(value, _TEXT_CHARS)
    if depth >= _DEPTH:
        return None
    if isinstance(value, list):
        return [_shorten_value(one, depth + 1) for one in value[:_ITEMS]]
    if isinstance(value, dict):
        return {key: _shorten_value(one, depth + 1) for key, one in list(value.items())[:_ITEMS]}
    return value
