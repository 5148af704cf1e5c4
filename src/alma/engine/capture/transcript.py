"""The host's own transcript of a session, as the events that hooks would have reported, and what no hook reports.

Its format is the host's own affair and changes: whatever is missing, new or of another type is passed over. It can be
very long, so it is read line by line and little of it is held.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, BinaryIO

from . import calls, words
from .attendance import find_attendance
from .events import Event, loads, moment, text

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
_FIRST_LINES = 400

_INTERRUPTED = "[Request interrupted by user"
_SIGNS = (b"interrupted by user", b"user-rejected", b"doesn't want to", b"userFeedback", b'"permissionDecision"')
_SOURCES = {"typed": "user", "queued": "user", "suggestion_accepted": "user", "sdk": "sdk", "system": "system"}
_DENIALS = ("permission-rule", "automode-blocked")
_PERMISSION = ("Permission to use ", "Permission for this ")


@dataclass(slots=True)
class Tally:
    """What was read, and what had to be left out."""

    lines: int = 0
    long: int = 0
    damaged: int = 0


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a transcript comes from."""

    session: str
    cwd: str


def lines(file: BinaryIO, tally: Tally | None = None, most: int = LINE_BYTES) -> Iterator[bytes]:
    """The lines of a file, none held whole that is longer than `most`; for such a one comes a bare newline."""
    while line := file.readline(most + 1):
        if len(line) <= most:
            yield line
            continue
        if tally is not None:
            tally.long += 1
        while line and not line.endswith(b"\n"):
            line = file.readline(most + 1)
        yield b"\n"


def read(lines: Iterable[bytes], tally: Tally | None = None) -> Iterator[Event]:
    """The events of a transcript, in order."""
    reader = _Reader(tally or Tally())
    offset = 0
    for line in lines:
        start, offset = offset, offset + len(line)
        yield from reader.take(line, start, offset)
    yield from reader.stop(offset)


def missed(lines: Iterable[bytes], known: Collection[str]) -> list[Event]:
    """What no hook reports and is not known yet. Only the lines that may tell of it are parsed."""
    reader = _Reader(Tally())
    held: deque[bytes] = deque(maxlen=_HELD_LINES)
    found: list[Event] = []
    offset = 0
    for line in lines:
        start, offset = offset, offset + len(line)
        if any(sign in line for sign in _SIGNS):
            for earlier in held:
                # What was being done is told by the lines before.
                list(reader.take(earlier, start, start))
            held.clear()
            found += [_bare(event) for event in reader.take(line, start, offset) if event.name in UNREPORTED]
        elif b'"assistant"' in line and len(line) <= _HELD_BYTES:
            held.append(line)
    return [event for event in found if event.id not in known]


def _bare(event: Event) -> Event:
    """Without what was said before, which the few lines that were parsed do not tell for certain."""
    return replace(event, data={key: value for key, value in event.data.items() if key != "said"})


def cwd_of(lines: Iterable[bytes]) -> Origin | None:
    """The working folder and the session, as the first line that has both says."""
    for number, line in enumerate(lines):
        found = loads(line) if len(line) <= LINE_BYTES else None
        if isinstance(found, dict) and text(found.get("cwd")) and text(found.get("sessionId")):
            return Origin(found["sessionId"], found["cwd"])
        if number >= _FIRST_LINES:
            break
    return None


class _Reader:
    """Takes line after line and gives the events that each completes."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._open: dict[str, tuple[str, dict[str, Any]]] = {}
        self._message = ""
        self._said: list[str] = []
        self._said_by: Event | None = None
        self._lately = ""
        self._refused = ""
        self._at = 0.0

    def take(self, line: bytes, start: int, end: int) -> list[Event]:
        self._tally.lines += 1
        if not line.strip():
            return []
        if len(line) > LINE_BYTES:
            self._tally.long += 1
            return []
        found = loads(line)
        if not isinstance(found, dict):
            self._tally.damaged += 1
            return []
        found["uuid"] = text(found.get("uuid")) or hashlib.sha256(line).hexdigest()
        kind = found.get("type")
        if kind == "assistant":
            return self._assistant(found, end)
        if kind == "user":
            return self._user(found, start, end)
        if kind == "attachment":
            return self._attached(found, end)
        if kind == "system" and found.get("subtype") == "compact_boundary":
            return [self._event("PreCompact", found, end, {"trigger": _trigger(found)})]
        return []

    def stop(self, offset: int) -> list[Event]:
        """The end of the assistant's turn, if it was saying something."""
        last, said = self._said_by, self._falls_silent()
        if last is None or not said.strip():
            return []
        data = {"last_assistant_message": words.cut(said, _SAID_CHARS), "stop_hook_active": False}
        return [Event(last.id, "Stop", last.at, last.session, "", last.cwd, "", data, offset)]

    # -- the assistant

    def _assistant(self, line: dict[str, Any], end: int) -> list[Event]:
        message = _dict(line.get("message"))
        found: list[Event] = []
        side = line.get("isSidechain") is True
        for block in _blocks(message.get("content")):
            if block.get("type") == "tool_use":
                found.append(self._begins(line, block, end))
                if not side:
                    # Words before a call are not the turn's last.
                    self._lately = self._falls_silent() or self._lately
            elif block.get("type") == "text" and not side and line.get("isApiErrorMessage") is not True:
                self._says(line, message, text(block.get("text")), end)
        return found

    def _says(self, line: dict[str, Any], message: dict[str, Any], said: str, end: int) -> None:
        """One reply comes as several lines, a block each; the last reply with words is the turn's last word."""
        if not said.strip():
            return
        key = text(message.get("id")) or text(line.get("requestId")) or text(line.get("requestRef"))
        if not key or key != self._message:
            self._said = []
        self._message = key
        self._said.append(said)
        self._said_by = self._event("Stop", line, end, {})

    def _begins(self, line: dict[str, Any], block: dict[str, Any], end: int) -> Event:
        use, name, given = text(block.get("id")), text(block.get("name")), _short(_dict(block.get("input")))
        if len(self._open) >= _OPEN_CALLS:
            del self._open[next(iter(self._open))]
        self._open[use] = (name, given)
        data = {"tool_name": name, "tool_use_id": use, "tool_input": given}
        return self._event("PreToolUse", line, end, data, part=f"begins:{use}")

    def _falls_silent(self) -> str:
        said = "\n".join(self._said)
        self._message, self._said, self._said_by = "", [], None
        return said

    # -- the person, and what tools answered, which comes in the person's name

    def _user(self, line: dict[str, Any], start: int, end: int) -> list[Event]:
        content = _dict(line.get("message")).get("content")
        blocks = _blocks(content)
        said = "\n".join(filter(None, (text(one.get("text")) for one in blocks if one.get("type") == "text")))
        results = [one for one in blocks if one.get("type") == "tool_result"]
        if results:
            about = self._call(text(results[0].get("tool_use_id")))
            found = [event for one in results for event in self._result(line, one, end)]
            return found + self._remark(line, about, said, end)
        if _made_by_host(line) or line.get("isSidechain") is True:
            return []
        if said.lstrip().startswith(_INTERRUPTED):
            return self._stopped(line, end)
        stop = self.stop(start)
        self._lately = ""
        prompt = words.typed(said) or said
        if not prompt.strip():
            return stop
        data = {"prompt": words.cut(prompt, _PROMPT_CHARS), "source": _source(line)}
        return [*stop, self._event("UserPromptSubmit", line, end, data)]

    def _stopped(self, line: dict[str, Any], end: int) -> list[Event]:
        """The person pressed Escape: at the question whether a call may run, or while something ran."""
        use, self._refused = self._refused, ""
        partly, self._lately = self._falls_silent() or self._lately, ""
        if line.get("interruptedByShutdown") is True:
            return []
        name = "Rejected" if use and not line.get("interruptedMessageId") else "Interrupted"
        data = {"text": "", "said": words.cut(partly, _TEXT_CHARS), **self._call(use)}
        self._open.pop(use, None)
        return [self._event(name, line, end, data)]

    def _attached(self, line: dict[str, Any], end: int) -> list[Event]:
        """A prompt that was sent while the assistant was working comes as an attachment."""
        attached = _dict(line.get("attachment"))
        if attached.get("type") != "queued_command" or attached.get("commandMode", "prompt") != "prompt":
            return []
        if attached.get("isMeta") is True or _origin(attached) not in ("", "human"):
            return []
        given = attached.get("prompt")
        parts = [text(one.get("text")) for one in _blocks(given) if one.get("type") == "text"]
        prompt = "\n".join(filter(None, parts))
        if not prompt.strip() or line.get("isSidechain") is True:
            return []
        data = {"prompt": words.cut(prompt, _PROMPT_CHARS), "source": "user"}
        return [self._event("UserPromptSubmit", line, end, data)]

    def _result(self, line: dict[str, Any], block: dict[str, Any], end: int) -> list[Event]:
        use, said = text(block.get("tool_use_id")), _joined(block.get("content"))
        call = self._call(use)
        if block.get("is_error") is True:
            return self._failed(line, use, said, end)
        self._open.pop(use, None)
        result = line.get("toolUseResult")
        data = {**call, "output": words.cut(said, _TEXT_CHARS, 0.75), **_details(result)}
        if isinstance(result, dict) and isinstance(result.get("answers"), dict):
            data["tool_input"] = {**call.get("tool_input", {}), "answers": _short(result["answers"])}
        return [self._event("PostToolUse", line, end, data, part=f"ends:{use}")]

    def _failed(self, line: dict[str, Any], use: str, said: str, end: int) -> list[Event]:
        call, kind = self._call(use), text(line.get("toolDenialKind"))
        if kind == "user-rejected" or (not kind and calls.refused(said)):
            reason = text(line.get("userFeedback")).strip() or calls.reason(said)
            if not reason:
                self._refused = self._refused or use
                return []
            self._open.pop(use, None)
            # Only the host writes the kind; the words of the result may be a tool's.
            data = {**call, "text": words.cut(reason, _PROMPT_CHARS), "marked": kind == "user-rejected"}
            return [self._event("Rejected", line, end, data, part=f"ends:{use}")]
        self._open.pop(use, None)
        if kind in _DENIALS or (not kind and said.startswith(_PERMISSION)):
            data = {**call, "reason": words.cut(said, _TEXT_CHARS)}
            return [self._event("PermissionDenied", line, end, data, part=f"ends:{use}")]
        if kind or said.startswith(("<tool_use_error>", "[Tool call ", "[Agent call ")):
            # The host did not run it at all.
            return []
        data = {**call, "error": words.cut(said, _TEXT_CHARS, 0.75), "is_interrupt": False}
        return [self._event("PostToolUseFailure", line, end, data, part=f"ends:{use}")]

    def _remark(self, line: dict[str, Any], about: dict[str, Any], said: str, end: int) -> list[Event]:
        """Who lets a call pass may add a word; the host puts it beside the call's result."""
        if said.lstrip().startswith(_INTERRUPTED):
            return self._stopped(line, end)
        allowed = text(_dict(line.get("permissionDecision")).get("source")).startswith("user")
        if not allowed or not words.spoken(said):
            return []
        data = {**about, "text": words.cut(said, _PROMPT_CHARS)}
        return [self._event("Remarked", line, end, data, part="remark")]

    # -- parts

    def _call(self, use: str) -> dict[str, Any]:
        name, given = self._open.get(use, ("", {}))
        return {"tool_use_id": use, "tool_name": name, "tool_input": given}

    def _event(self, name: str, line: dict[str, Any], end: int, data: dict[str, Any], part: str = "") -> Event:
        self._at = _when(line.get("timestamp")) or self._at
        side = line.get("isSidechain") is True
        return Event(
            id=hashlib.sha256(f"transcript\0{line['uuid']}\0{part}".encode("utf-8", "replace")).hexdigest()[:32],
            name=name,
            at=self._at,
            session=text(line.get("sessionId")),
            cwd=text(line.get("cwd")),
            agent_id=(text(line.get("agentId")) or "sidechain") if side else "",
            data=data,
            offset=end,
            attendance=find_attendance(entry) if (entry := text(line.get("entrypoint"))) else None,
        )


def _made_by_host(line: dict[str, Any]) -> bool:
    return any(line.get(sign) is True for sign in ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly"))


def _source(line: dict[str, Any]) -> str:
    if _origin(line) not in ("", "human"):
        return "system"
    given = text(line.get("promptSource"))
    return _SOURCES.get(given, given)


def _origin(line: dict[str, Any]) -> str:
    return text(_dict(line.get("origin")).get("kind"))


def _trigger(line: dict[str, Any]) -> str:
    return text(_dict(line.get("compactMetadata")).get("trigger"))


def _details(result: object) -> dict[str, Any]:
    """What the host noted about a call beside the answer that the model saw."""
    if not isinstance(result, dict):
        return {}
    found: dict[str, Any] = {}
    if result.get("interrupted") is True:
        found["interrupted"] = True
    if result.get("userModified") is True:
        found["user_modified"] = True
        found["written"] = words.cut(text(result.get("newString")) or text(result.get("content")), _TEXT_CHARS)
    return found


def _joined(content: object) -> str:
    return "\n".join(text(one.get("text")) for one in _blocks(content) if one.get("type") == "text")


def _blocks(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _short(value: Any, depth: int = 0) -> Any:
    """Arguments of a call with long texts cut and long lists ended."""
    if isinstance(value, str):
        return words.cut(value, _TEXT_CHARS)
    if depth >= _DEPTH:
        return None
    if isinstance(value, list):
        return [_short(one, depth + 1) for one in value[:_ITEMS]]
    if isinstance(value, dict):
        return {key: _short(one, depth + 1) for key, one in list(value.items())[:_ITEMS]}
    return value


def _when(value: object) -> float | None:
    try:
        return moment(datetime.fromisoformat(text(value)).timestamp())
    except (ValueError, OverflowError, OSError):
        return None
