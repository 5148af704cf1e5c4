"""Transcripts of coding agents: Claude Code, Codex, Gemini CLI, and Cursor's database.

Messages of the user and the assistant are imported. Tool output, messages that the host wrote in the user's name, and
conversations of sub-agents are only counted.
"""

from __future__ import annotations

import re
import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from ...coding.events import as_dict, as_dicts, extract_spoken, get_dict, get_dicts, parse_command, restore_typed
from ...coding.session import extract_reason, is_refusal
from ..streams import LIMIT, JsonObject, get_text, join_blocks, parse_json, parse_time
from .common import ChatMessage, ChatStart, FileReading, Items, make_message, name_repository

# -- Claude Code: one JSON object a line

_CLAUDE_TYPES = frozenset(
    "user assistant system summary attachment file-history-snapshot queue-operation progress ai-title custom-title "
    "agent-name pr-link last-prompt permission-mode tag".split()
)
_HOST_SIGNS = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")
_TITLES = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}


def is_claude_code(line: JsonObject) -> bool:
    """Return whether a line is from a transcript of Claude Code."""
    kind = get_text(line, "type")
    if kind in ("user", "assistant") and isinstance(line.get("message"), dict):
        return True
    return kind in _CLAUDE_TYPES and any(name in line for name in ("sessionId", "uuid", "leafUuid", "messageId"))


def read_claude_code(reading: FileReading) -> Items:
    """Yield the messages of a session of Claude Code."""
    start = ChatStart()
    yield start
    for _, line in reading.objects():
        kind = get_text(line, "type")
        start.title = get_text(line, _TITLES.get(kind, "")).strip() or start.title
        start.native = start.native or get_text(line, "sessionId")
        start.repository = start.repository or name_repository(get_text(line, "cwd"))
        at, id = parse_time(line.get("timestamp")), get_text(line, "uuid")
        content = get_dict(line, "message").get("content")
        if kind not in _CLAUDE_TYPES:
            reading.leave_out("lines of unknown types")
        elif line.get("isSidechain") is True:
            reading.leave_out("lines of sub-agents")
        elif kind == "assistant" and line.get("isApiErrorMessage") is True:
            reading.leave_out("errors of the host")
        elif kind == "assistant":
            reading.leave_out("calls of tools", sum(one.get("type") == "tool_use" for one in as_dicts(content)))
            yield make_message("assistant", join_blocks(content), at, id)
        elif kind == "user":
            for one in as_dicts(content):
                if one.get("type") == "tool_result":
                    reading.leave_out("outputs of tools")
                    yield make_message("user", _find_refusal(line, one), at, f"{id}:{get_text(one, 'tool_use_id')}")
            written = join_blocks(content)
            is_host = any(line.get(sign) is True for sign in _HOST_SIGNS)
            typed = "" if is_host else _find_typed(written, line)
            reading.leave_out("lines of the host", is_host or bool(written.strip() and not typed.strip()))
            yield make_message("user", typed, at, id)
        elif kind == "attachment":
            # A prompt that the user sent while the assistant was working.
            attached = get_dict(line, "attachment")
            is_prompt = attached.get("type") == "queued_command" and attached.get("commandMode", "prompt") == "prompt"
            if is_prompt and attached.get("isMeta") is not True:
                yield make_message("user", _find_typed(join_blocks(attached.get("prompt")), attached), at, id)


def _find_typed(written: str, line: JsonObject) -> str:
    """Return the text that the user typed; empty if the host wrote it."""
    if get_text(get_dict(line, "origin"), "kind") not in ("", "human"):
        return ""
    command = parse_command(restore_typed(written))
    if command is not None:
        return f"/{command.name} {command.words}".strip() if command.is_worth_keeping else ""
    return extract_spoken(written)


def _find_refusal(line: JsonObject, result: JsonObject) -> str:
    """Return what the user wrote when they refused a tool call."""
    printed = join_blocks(result.get("content"))
    denied = get_text(line, "toolDenialKind")
    is_refused = denied == "user-rejected" or (not denied and is_refusal(printed))
    if result.get("is_error") is not True or not is_refused:
        return ""
    return get_text(line, "userFeedback").strip() or extract_reason(printed)


# -- Codex: old and new rollouts, the stream of `codex exec --json`, and the prompt history

_ENVELOPES = frozenset("session_meta response_item event_msg turn_context compacted".split())
_ITEMS = frozenset(
    "message reasoning function_call function_call_output custom_tool_call local_shell_call custom_tool_call_output "
    "web_search_call ghost_snapshot compaction tool_search_call tool_search_output image_generation_call "
    "compaction_summary context_compaction other".split()
)
_STREAM = re.compile(r"(?:thread|turn|item)\.[a-z_]+|error")
_MADE_BY_HOST = re.compile(
    r"\s*(?:<(?:user_instructions|environment_context|turn_aborted|permissions[ _]instructions|INSTRUCTIONS"
    r"|user_shell_command|skill|collaboration_mode|subagent_notification|ENVIRONMENT_CONTEXT|personality_spec)\b"
    r"|\#\ AGENTS\.md\ instructions)",
    re.VERBOSE,
)
_REQUEST = re.compile(r"\A# Context from my IDE setup:.*?^## My request for Codex:\s*", re.DOTALL | re.MULTILINE)
_ROLES = {"user_message": "user", "agent_message": "assistant"}
_PROMPT = {"session_id", "ts", "text"}  # The members of a line in the prompt history.


def is_codex(line: JsonObject) -> bool:
    """Return whether a line is from a file of Codex."""
    kind = line.get("type")
    if not isinstance(kind, str):
        is_header = {"id", "timestamp", "instructions"} <= line.keys()
        return line.get("record_type") == "state" or is_header or line.keys() >= _PROMPT
    if kind in _ENVELOPES:
        return isinstance(line.get("payload"), dict)
    is_streamed = "thread_id" in line or "item" in line or kind.startswith("turn.")
    is_item = kind in _ITEMS and ("role" in line or kind != "message")
    return is_item or (is_streamed and bool(_STREAM.fullmatch(kind)))


def read_codex(reading: FileReading) -> Items:
    """Yield the messages of Codex sessions. Messages that a rollout has twice, as item and event, are yielded once."""
    start = ChatStart()
    yield start
    recent: deque[tuple[str, str, str]] = deque(maxlen=12)
    for _, line in reading.objects():
        if line.keys() >= _PROMPT:
            session = get_text(line, "session_id")
            if session != start.native:
                start = ChatStart(session)
                yield start
            yield make_message("user", get_text(line, "text"), parse_time(line["ts"]))
            continue
        kind = get_text(line, "type")
        if kind == "session_meta":
            header = get_dict(line, "payload")
            start.native = start.native or get_text(header, "id")
            place = get_text(get_dict(header, "git"), "repository_url") or get_text(header, "cwd")
            start.repository = start.repository or name_repository(place)
        elif kind == "thread.started" or (not kind and "instructions" in line):
            start.native = start.native or get_text(line, "thread_id", "id")
        if not is_codex(line):
            reading.leave_out("lines of unknown types")
            continue
        role, text, id = _read_codex_line(kind, line, reading)
        echo = next((one for one in recent if one[0] != kind and one[1:] == (role, text.strip())), None)
        if echo is not None:
            recent.remove(echo)
        elif text.strip():
            recent.append((kind, role, text.strip()))
            yield make_message(role, text, parse_time(line.get("timestamp")), id)


def _read_codex_line(kind: str, line: JsonObject, reading: FileReading) -> tuple[str, str, str]:
    """Return the role, text and id of a message; the text is empty if the line is not a message."""
    item = get_dict(line, "payload") or (get_dict(line, "item") if kind == "item.completed" else line)
    item_kind = get_text(item, "type")
    role = _ROLES.get(item_kind, get_text(item, "role") if item_kind == "message" else "")
    text = get_text(item, "message", "text") or join_blocks(item.get("content"), ("input_text", "output_text", "text"))
    if role == "user" and not _MADE_BY_HOST.match(text):
        return role, _REQUEST.sub("", text), ""
    if role == "assistant":
        return role, text, get_text(item, "id")
    if kind == "item.completed" or ("call" in item_kind and kind != "event_msg"):
        reading.leave_out("calls and outputs of tools")
    elif role or kind in ("compacted", "response_item", *_ITEMS):
        reading.leave_out("lines of the host")
    return "", "", ""


# -- Gemini CLI: recorded chats (an object, or a growing file of lines), checkpoints, and the prompt log

_SETUP = re.compile(r"\s*This is the Gemini CLI\. We are setting up the context for our chat\.")
_REPLY = "Got it. Thanks for the context!"


def is_gemini_element(value: JsonObject) -> bool:
    """Return whether a value is an element of a checkpoint or of the prompt log."""
    is_content = value.get("role") in ("user", "model") and isinstance(value.get("parts"), list)
    return is_content or {"sessionId", "messageId", "message"} <= value.keys()


def is_gemini_recording(value: JsonObject) -> bool:
    """Return whether a value is a recorded chat or a checkpoint."""
    return "history" in value or ("sessionId" in value and ("messages" in value or "projectHash" in value))


def is_gemini_line(line: JsonObject) -> bool:
    """Return whether a line is from a chat that is recorded line by line."""
    if "$set" in line or "$rewindTo" in line or {"sessionId", "projectHash"} <= line.keys():
        return True
    is_typed = line.get("type") in ("user", "gemini", "info", "error", "warning")
    return is_typed and "id" in line and "message" not in line


def read_gemini(reading: FileReading) -> Items:
    """Yield the messages of a recorded chat, a checkpoint or the prompt log."""
    start = ChatStart()
    yield start
    for item in reading.items("messages", "history"):
        if item.number < 0:
            value = item.value if isinstance(item.value, str) else ""
            start.native = value if item.key == "sessionId" else start.native
            start.title = value if item.key == "summary" else start.title
            continue
        element = as_dict(item.value)
        session = get_text(element, "sessionId")
        if "messageId" in element and session != start.native:
            start = ChatStart(session)
            yield start
        yield _read_gemini_message(element, reading)


def read_gemini_lines(reading: FileReading) -> Items:
    """Yield the messages of a chat recorded line by line, at its end, because messages may be replaced or withdrawn."""
    start = ChatStart()
    yield start
    waiting: dict[str, ChatMessage | None] = {}
    for _, line in reading.objects():
        if "$rewindTo" in line:
            ids = list(waiting)
            target = get_text(line, "$rewindTo")
            taken = [waiting.pop(id) for id in (ids[ids.index(target) :] if target in waiting else [])]
            reading.leave_out("messages taken back", sum(one is not None for one in taken))
            continue
        patch = get_dict(line, "$set") or (line if "type" not in line else {})
        start.native = start.native or get_text(patch, "sessionId")
        start.title = get_text(patch, "summary") or start.title
        for one in [*get_dicts(patch, "messages"), *([line] if "type" in line else [])]:
            waiting[get_text(one, "id") or f"#{len(waiting)}"] = _read_gemini_message(one, reading)
    yield from waiting.values()


def _read_gemini_message(values: JsonObject, reading: FileReading) -> ChatMessage | None:
    content = values.get("parts") if "parts" in values else values.get("content", values.get("message"))
    blocks = content if isinstance(content, list) else [content]
    called = sum("functionCall" in one or "functionResponse" in one for one in as_dicts(blocks))
    reading.leave_out("calls and outputs of tools", called)
    reading.leave_out("calls of tools", len(get_dicts(values, "toolCalls")))
    texts = [get_text(one, "text") for one in as_dicts(blocks) if not one.get("thought")]
    text = "\n".join(one for one in (*texts, *(one for one in blocks if isinstance(one, str))) if one.strip())
    role = get_text(values, "role", "type")
    is_host = role not in ("user", "gemini", "model", "assistant") or text.strip() == _REPLY
    if role == "user":
        is_host = bool(_SETUP.match(text) or parse_command(text.strip()))
    if is_host and text.strip():
        reading.leave_out("lines of the host")
    id = get_text(values, "id") or str(values.get("messageId", ""))
    return None if is_host else make_message(role, text, parse_time(values.get("timestamp")), id)


# -- Cursor: a table of keys and JSON values (`state.vscdb`), opened read-only; unknown values are ignored

# A damaged database raises either of these; an error message may quote bytes that are not text.
_FAULTS = (sqlite3.Error, UnicodeDecodeError)
_TABLES = ("cursorDiskKV", "ItemTable")


def is_cursor(path: Path) -> bool:
    """Return whether a file is a database of Cursor."""
    try:
        with closing(_open_database(path)) as database:
            return bool(_list_tables(database))
    except _FAULTS:
        return False


def _list_tables(database: sqlite3.Connection) -> list[str]:
    """Return the tables that may hold chats; none if it is not a database of Cursor."""
    tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return [name for name in _TABLES if name in tables]


def _open_database(path: Path, options: str = "mode=ro") -> sqlite3.Connection:
    """Open a database read-only; as an immutable file if its folder is not accessible."""
    database = sqlite3.connect(f"{path.resolve().as_uri()}?{options}", uri=True, timeout=5)
    try:
        database.text_factory = lambda text: text.decode("utf-8", "replace")
        # The schema of a foreign database may contain code.
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except _FAULTS as error:
        database.close()
        if isinstance(error, sqlite3.OperationalError) and options == "mode=ro":
            return _open_database(path, "mode=ro&immutable=1")
        raise
    return database


def read_cursor(reading: FileReading) -> Items:
    """Yield the conversations in a database of Cursor."""
    if reading.source.path is None:
        return
    try:
        with closing(_open_database(reading.source.path)) as database:
            for table in _list_tables(database):
                reader = _read_composers if table == "cursorDiskKV" else _read_tabs
                for id, title, messages in reader(database, reading):
                    first = next((one.text for one in messages if one), "")
                    yield ChatStart(title=title, session=reading.name_session(id, first))
                    yield from messages
    except _FAULTS as error:
        reading.damage("", f"the rest of the database could not be read: {error}")


def _read_value(database: sqlite3.Connection, table: str, key: str, reading: FileReading) -> Any:
    """Return the JSON value of a key; None if there is none."""
    query = f"SELECT substr(value, 1, ?) FROM {table} WHERE key = ? AND value IS NOT NULL"
    for (content,) in database.execute(query, (LIMIT + 1, key)):
        text = content.decode("utf-8", "replace") if isinstance(content, bytes) else str(content)
        is_long = len(text) > LIMIT
        value, reason = (None, f"longer than {LIMIT:,} characters; skipped") if is_long else parse_json(text)
        if reason:
            reading.damage(key, reason)
        return value
    return None


Conversations = Iterator[tuple[str, str, list[ChatMessage | None]]]


def _read_composers(database: sqlite3.Connection, reading: FileReading) -> Conversations:
    """Yield the id, title and messages of each conversation."""
    rows = database.execute("SELECT key FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;'")
    for (key,) in rows:
        composer = as_dict(_read_value(database, "cursorDiskKV", str(key), reading))
        id = get_text(composer, "composerId") or str(key).partition(":")[2]
        mapped = [as_dict(one) for one in get_dict(composer, "conversationMap").values()]
        inline = get_dicts(composer, "conversation") or mapped
        messages = []
        for header in inline or get_dicts(composer, "fullConversationHeadersOnly"):
            name = get_text(header, "bubbleId")
            stored = None if inline else _read_value(database, "cursorDiskKV", f"bubbleId:{id}:{name}", reading)
            bubble = header if inline else as_dict(stored)
            role = "user" if header.get("type", bubble.get("type")) == 1 else "assistant"
            at = parse_time(bubble.get("createdAt")) or parse_time(composer.get("createdAt"))
            message = make_message(role, get_text(bubble, "text"), at, name)
            reading.leave_out("calls of tools and empty messages", message is None)
            messages.append(message)
        yield id, get_text(composer, "name", "subtitle"), messages


def _read_tabs(database: sqlite3.Connection, reading: FileReading) -> Conversations:
    """Yield the id, title and messages of each conversation that older versions stored, and the prompts."""
    chats = _read_value(database, "ItemTable", "workbench.panel.aichat.view.aichat.chatdata", reading)
    for tab in get_dicts(as_dict(chats), "tabs"):
        bubbles = []
        for one in get_dicts(tab, "bubbles"):
            role = "user" if one.get("type") == "user" else "assistant"
            bubbles.append(make_message(role, get_text(one, "text", "rawText"), id=get_text(one, "id")))
        yield get_text(tab, "tabId"), get_text(tab, "chatTitle"), bubbles
    for session in as_dicts(_read_value(database, "ItemTable", "interactive.sessions", reading)):
        messages = []
        for one in get_dicts(session, "requests"):
            at = parse_time(one.get("timestamp"))
            question = get_text(one, "message") or get_text(get_dict(one, "message"), "text")
            answers = [get_text(part, "value") for part in get_dicts(one, "response")]
            answer = "\n".join(part for part in answers if part.strip())
            messages += [make_message("user", question, at), make_message("assistant", answer, at)]
        yield get_text(session, "sessionId"), get_text(session, "customTitle"), messages
    prompts = as_dicts(_read_value(database, "ItemTable", "aiService.prompts", reading))
    yield (
        f"prompts:{reading.source.folder}",
        "Prompts",
        [make_message("user", get_text(one, "text")) for one in prompts],
    )
