"""The host's own transcript of a session, as the events that hooks would have reported, and what no hook reports.

Its format is the host's own affair and changes: whatever is missing, new or of another type is passed over. It can be
very long, so it is read line by line and little of it is held.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from .calls import extract_reason, is_refusal
from .events import Event, as_dict, as_moment, as_text, find_attendance, parse_line
from .prompts import cut_text, extract_spoken, restore_typed

LINE_BYTES = 8 * 1024 * 1024
"""Longer lines are skipped: they hold images and whole files, and nothing that a person said."""

UNREPORTED = frozenset({"Interrupted", "Rejected", "Remarked"})
"""What happens in a session and no hook tells."""

_PROMPT_CHARS = 32_000
_SAID_CHARS = 16_000
_TEXT_CHARS = 4_000
_ITEMS = 40
_DEPTH = 6
_OPEN_CALLS = 500
_HELD_LINES, _HELD_BYTES = 64, 256 * 1024
_FIRST_LINES = 200

_INTERRUPTED = "[Request interrupted by user"
_SIGNS = (b"interrupted by user", b"user-rejected", b"doesn't want to", b"userFeedback", b'"permissionDecision"')
_SOURCES = {"typed": "user", "queued": "user", "suggestion_accepted": "user", "sdk": "sdk", "system": "system"}
_MADE_BY_HOST = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")


# -- files


@dataclass(frozen=True, slots=True)
class TranscriptFile:
    """A transcript: the session it is of, the folder that was worked in, and when it changed (seconds since 1970)."""

    path: Path
    session: str
    cwd: str
    modified: float


def list_transcripts(folder: Path | str) -> Iterator[TranscriptFile]:
    """Yield the sessions under a Claude folder, newest first; those of subagents are parts of them and left out.

    A file that is empty, gone or not readable by now is passed over.
    """
    files = []
    for path in Path(folder, "projects").glob("*/*.jsonl"):
        with suppress(OSError):
            if path.is_file() and not path.name.startswith("agent-"):
                files.append((-path.stat().st_mtime, str(path), path))
    for modified, _, path in sorted(files):
        cwd = ""
        with suppress(OSError), path.open("rb") as file:
            cwd = find_cwd(islice(read_lines(file), _FIRST_LINES))
        if cwd:
            yield TranscriptFile(path, path.name.removesuffix(".jsonl"), cwd, -modified)


def read_lines(file: BinaryIO, most: int = LINE_BYTES) -> Iterator[bytes]:
    """Yield the lines of a file. One longer than `most` is never held whole: a bare newline takes its place."""
    while line := file.readline(most + 1):
        if len(line) <= most:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(most + 1)
        yield b"\n"


def find_cwd(lines: Iterable[bytes]) -> str:
    """Return the working folder, as the first line that has one and a session says; empty when none does."""
    for line in lines:
        entry = as_dict(parse_line(line)) if len(line) <= LINE_BYTES else {}
        if as_text(entry.get("cwd")) and as_text(entry.get("sessionId")):
            return as_text(entry["cwd"])
    return ""


# -- events


def read_transcript(lines: Iterable[bytes]) -> Iterator[Event]:
    """Yield the events of a transcript, in order."""
    reader = TranscriptReader()
    offset = 0
    for line in lines:
        start, offset = offset, offset + len(line)
        yield from reader.read(line, start, offset)
    yield from reader.end_reply(offset)


def find_unreported(lines: Iterable[bytes], known: Collection[str]) -> list[Event]:
    """Return what no hook reports and is not known yet. Only the lines that may tell of it are parsed."""
    reader = TranscriptReader()
    held: deque[bytes] = deque(maxlen=_HELD_LINES)
    events: list[Event] = []
    offset = 0
    for line in lines:
        start, offset = offset, offset + len(line)
        if any(sign in line for sign in _SIGNS):
            for earlier in held:
                # The lines before say what was being done.
                reader.read(earlier, start, start)
            held.clear()
            events += [event for event in reader.read(line, start, offset) if event.name in UNREPORTED]
        elif b'"assistant"' in line and len(line) <= _HELD_BYTES:
            held.append(line)
    # The few lines that were parsed do not tell for certain what was said before.
    return [
        replace(event, data={key: value for key, value in event.data.items() if key != "said"})
        for event in events
        if event.id not in known
    ]


class TranscriptReader:
    """Takes line after line and returns the events that each completes."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, dict[str, Any]]] = {}
        self._message = ""
        self._said: list[str] = []
        self._said_by: Event | None = None
        self._said_earlier = ""
        self._refused = ""
        self._at = 0.0

    def read(self, line: bytes, start: int, end: int) -> list[Event]:
        if not line.strip() or len(line) > LINE_BYTES:
            return []
        entry = parse_line(line)
        if not isinstance(entry, dict):
            return []
        entry["uuid"] = as_text(entry.get("uuid")) or hashlib.sha256(line).hexdigest()
        kind = entry.get("type")
        if kind == "assistant":
            return self._read_assistant(entry, end)
        if kind == "user":
            return self._read_user(entry, start, end)
        if kind == "attachment":
            return self._read_attachment(entry, end)
        if kind == "system" and entry.get("subtype") == "compact_boundary":
            trigger = as_text(as_dict(entry.get("compactMetadata")).get("trigger"))
            return [self._event("PreCompact", entry, end, {"trigger": trigger})]
        return []

    def end_reply(self, offset: int) -> list[Event]:
        """Return the end of the assistant's turn, if it was saying something."""
        last, said = self._said_by, self._take_reply()
        if last is None or not said.strip():
            return []
        data = {"last_assistant_message": cut_text(said, _SAID_CHARS), "stop_hook_active": False}
        return [Event(last.id, "Stop", last.at, last.session, "", last.cwd, "", data, offset)]

    def _take_reply(self) -> str:
        said = "\n".join(self._said)
        self._message, self._said, self._said_by = "", [], None
        return said

    def _read_assistant(self, entry: dict[str, Any], end: int) -> list[Event]:
        message = as_dict(entry.get("message"))
        is_subagent, is_error = entry.get("isSidechain") is True, entry.get("isApiErrorMessage") is True
        events: list[Event] = []
        for block in _list_blocks(message.get("content")):
            said = as_text(block.get("text"))
            if block.get("type") == "tool_use":
                if len(self._open) >= _OPEN_CALLS:
                    del self._open[next(iter(self._open))]
                call_id = as_text(block.get("id"))
                self._open[call_id] = (as_text(block.get("name")), _shorten(as_dict(block.get("input"))))
                events.append(self._event("PreToolUse", entry, end, self._find_call(call_id), f"begins:{call_id}"))
                if not is_subagent:
                    # Words before a call are not the turn's last.
                    self._said_earlier = self._take_reply() or self._said_earlier
            elif block.get("type") == "text" and said.strip() and not is_subagent and not is_error:
                # One reply comes as several lines, a block each; the last reply with words is the turn's last word.
                ids = (message.get("id"), entry.get("requestId"), entry.get("requestRef"))
                key = next(filter(None, map(as_text, ids)), "")
                self._said = [*self._said, said] if key and key == self._message else [said]
                self._message = key
                self._said_by = self._event("Stop", entry, end, {})
        return events

    # -- the person, and what tools answered, which comes in the person's name

    def _read_user(self, entry: dict[str, Any], start: int, end: int) -> list[Event]:
        blocks = _list_blocks(as_dict(entry.get("message")).get("content"))
        said = _join_texts(blocks)
        results = [block for block in blocks if block.get("type") == "tool_result"]
        if results:
            about = self._find_call(as_text(results[0].get("tool_use_id")))
            events = [event for block in results for event in self._read_result(entry, block, end)]
            if said.lstrip().startswith(_INTERRUPTED):
                return events + self._read_interruption(entry, end)
            # Who lets a call pass may add a word; the host puts it beside the call's result.
            is_allowed = as_text(as_dict(entry.get("permissionDecision")).get("source")).startswith("user")
            if is_allowed and extract_spoken(said):
                data = {**about, "text": cut_text(said, _PROMPT_CHARS)}
                events.append(self._event("Remarked", entry, end, data, "remark"))
            return events
        if entry.get("isSidechain") is True or any(entry.get(sign) is True for sign in _MADE_BY_HOST):
            return []
        if said.lstrip().startswith(_INTERRUPTED):
            return self._read_interruption(entry, end)
        events = self.end_reply(start)
        self._said_earlier = ""
        prompt = restore_typed(said) or said
        if prompt.strip():
            source = as_text(entry.get("promptSource"))
            source = _SOURCES.get(source, source) if _is_of_person(entry) else "system"
            data = {"prompt": cut_text(prompt, _PROMPT_CHARS), "source": source}
            events.append(self._event("UserPromptSubmit", entry, end, data))
        return events

    def _read_interruption(self, entry: dict[str, Any], end: int) -> list[Event]:
        """The person pressed Escape: at the question whether a call may run, or while something ran."""
        call_id, self._refused = self._refused, ""
        said, self._said_earlier = self._take_reply() or self._said_earlier, ""
        if entry.get("interruptedByShutdown") is True:
            return []
        name = "Rejected" if call_id and not entry.get("interruptedMessageId") else "Interrupted"
        data = {"text": "", "said": cut_text(said, _TEXT_CHARS), **self._find_call(call_id)}
        self._open.pop(call_id, None)
        return [self._event(name, entry, end, data)]

    def _read_attachment(self, entry: dict[str, Any], end: int) -> list[Event]:
        """A prompt that was sent while the assistant was working comes as an attachment."""
        attached = as_dict(entry.get("attachment"))
        if attached.get("type") != "queued_command" or attached.get("commandMode", "prompt") != "prompt":
            return []
        prompt = _join_texts(_list_blocks(attached.get("prompt")))
        if attached.get("isMeta") is True or not _is_of_person(attached) or entry.get("isSidechain") is True:
            return []
        data = {"prompt": cut_text(prompt, _PROMPT_CHARS), "source": "user"}
        return [self._event("UserPromptSubmit", entry, end, data)] if prompt.strip() else []

    def _read_result(self, entry: dict[str, Any], block: dict[str, Any], end: int) -> list[Event]:
        call_id = as_text(block.get("tool_use_id"))
        answer = _join_texts(_list_blocks(block.get("content")))
        call = self._find_call(call_id)
        if block.get("is_error") is True:
            return self._read_failure(entry, call, answer, end)
        self._open.pop(call_id, None)
        data = {**call, "output": cut_text(answer, _TEXT_CHARS, 0.75)}
        # What the host noted about a call beside the answer that the model saw.
        result = as_dict(entry.get("toolUseResult"))
        if result.get("interrupted") is True:
            data["interrupted"] = True
        if result.get("userModified") is True:
            written = as_text(result.get("newString")) or as_text(result.get("content"))
            data |= {"user_modified": True, "written": cut_text(written, _TEXT_CHARS)}
        if isinstance(result.get("answers"), dict):
            data["tool_input"] = {**call["tool_input"], "answers": _shorten(result["answers"])}
        return [self._event("PostToolUse", entry, end, data, f"ends:{call_id}")]

    def _read_failure(self, entry: dict[str, Any], call: dict[str, Any], answer: str, end: int) -> list[Event]:
        call_id, denial = call["tool_use_id"], as_text(entry.get("toolDenialKind"))
        if denial == "user-rejected" or (not denial and is_refusal(answer)):
            reason = as_text(entry.get("userFeedback")).strip() or extract_reason(answer)
            if not reason:
                self._refused = self._refused or call_id
                return []
            # Only the host writes the kind of denial; the words of the result may be a tool's.
            name = "Rejected"
            data = {"text": cut_text(reason, _PROMPT_CHARS), "marked": denial == "user-rejected"}
        elif denial in ("permission-rule", "automode-blocked") or (
            not denial and answer.startswith(("Permission to use ", "Permission for this "))
        ):
            name, data = "PermissionDenied", {"reason": cut_text(answer, _TEXT_CHARS)}
        else:
            name, data = "PostToolUseFailure", {"error": cut_text(answer, _TEXT_CHARS, 0.75), "is_interrupt": False}
        self._open.pop(call_id, None)
        if name == "PostToolUseFailure" and (
            denial or answer.startswith(("<tool_use_error>", "[Tool call ", "[Agent call "))
        ):
            # The host did not run it at all.
            return []
        return [self._event(name, entry, end, {**call, **data}, f"ends:{call_id}")]

    # -- parts

    def _find_call(self, call_id: str) -> dict[str, Any]:
        name, arguments = self._open.get(call_id, ("", {}))
        return {"tool_use_id": call_id, "tool_name": name, "tool_input": arguments}

    def _event(self, name: str, entry: dict[str, Any], end: int, data: dict[str, Any], part: str = "") -> Event:
        try:
            moment = as_moment(datetime.fromisoformat(as_text(entry.get("timestamp"))).timestamp())
        except (ValueError, OverflowError, OSError):
            moment = None
        self._at = moment or self._at
        entry_point = as_text(entry.get("entrypoint"))
        return Event(
            id=hashlib.sha256(f"transcript\0{entry['uuid']}\0{part}".encode("utf-8", "replace")).hexdigest()[:32],
            name=name,
            at=self._at,
            session=as_text(entry.get("sessionId")),
            cwd=as_text(entry.get("cwd")),
            agent_id=(as_text(entry.get("agentId")) or "sidechain") if entry.get("isSidechain") is True else "",
            data=data,
            offset=end,
            attendance=find_attendance(entry_point) if entry_point else None,
        )


def _is_of_person(entry: dict[str, Any]) -> bool:
    return as_text(as_dict(entry.get("origin")).get("kind")) in ("", "human")


def _list_blocks(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _join_texts(blocks: list[dict[str, Any]]) -> str:
    texts = (as_text(block.get("text")) for block in blocks if block.get("type") == "text")
    return "\n".join(filter(None, texts))


def _shorten(value: Any, depth: int = 0) -> Any:
    """Return the arguments of a call with long texts cut and long lists ended."""
    if isinstance(value, str):
        return cut_text(value, _TEXT_CHARS)
    if depth >= _DEPTH:
        return None
    if isinstance(value, list):
        return [_shorten(one, depth + 1) for one in value[:_ITEMS]]
    if isinstance(value, dict):
        return {key: _shorten(one, depth + 1) for key, one in list(value.items())[:_ITEMS]}
    return value
