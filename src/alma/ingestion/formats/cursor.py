"""Cursor: its own database of chats (`state.vscdb`), read without touching it. Exported Markdown is read elsewhere.

The database is a table of keys and JSON values, and its shape is Cursor's own affair: what is understood is taken.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from ..reading.lines import LIMIT, Bad, parsed
from ..types import Format, Message, Piece
from .shape import Told, assistant, dicts, mapping, moment, said, session_of, split_chat, text, user

_TABLES = ("cursorDiskKV", "ItemTable")
_OLD_CHATS = "workbench.panel.aichat.view.aichat.chatdata"
_PROMPTS = "aiService.prompts"
_REQUESTS = "interactive.sessions"
_FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""What a damaged database raises; its complaint may quote bytes that are no text."""


def tables(path: Path) -> list[str]:
    """Those of its tables that may hold chats; none when it is no database of Cursor's."""
    try:
        with closing(_opened(path)) as database:
            found = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except _FAULTS:
        return []
    return [name for name in _TABLES if name in found]


def _opened(path: Path) -> sqlite3.Connection:
    """To be read only. Where not even that is allowed (another's folder), as the file stands."""
    address = path.resolve().as_uri()
    try:
        return _connected(f"{address}?mode=ro")
    except sqlite3.OperationalError:
        return _connected(f"{address}?mode=ro&immutable=1")


def _connected(address: str) -> sqlite3.Connection:
    database = sqlite3.connect(address, uri=True, timeout=5)
    try:
        database.text_factory = lambda found: found.decode("utf-8", "replace")
        # A file from elsewhere may carry code in its schema.
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except _FAULTS:
        database.close()
        raise
    return database


def read(path: Path, name: str, told: Told) -> Iterator[Piece]:
    try:
        with closing(_opened(path)) as database:
            for table in tables(path):
                if table == "cursorDiskKV":
                    yield from _composers(database, told)
                else:
                    yield from _items(database, name, told)
    except _FAULTS as error:
        told.damaged("", f"the database could not be read further: {error}")


def _value(database: sqlite3.Connection, table: str, key: str, told: Told) -> Any:
    """The JSON of a key; None when there is none."""
    row = database.execute(
        f"SELECT CASE WHEN length(value) <= ? THEN value END, value IS NULL FROM {table} WHERE key = ?", (LIMIT, key)
    ).fetchone()
    if row is None or row[1]:
        return None
    if row[0] is None:
        told.damaged(key, f"longer than {LIMIT:,} characters; passed over")
        return None
    value = parsed(row[0].decode("utf-8", "replace") if isinstance(row[0], bytes) else str(row[0]))
    if isinstance(value, Bad):
        told.damaged(key, str(value))
        return None
    return value


def _composers(database: sqlite3.Connection, told: Told) -> Iterator[Piece]:
    rows = database.execute("SELECT key FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;'")
    for (key,) in rows:
        found = mapping(_value(database, "cursorDiskKV", str(key), told))
        id = text(found.get("composerId")) or str(key).partition(":")[2]
        title = text(found.get("name")) or text(found.get("subtitle"))
        messages = list(_bubbles(database, id, found, told))
        yield from _chats(id, title, messages)


def _bubbles(database: sqlite3.Connection, id: str, found: dict[str, Any], told: Told) -> Iterator[Message]:
    inline = dicts(found.get("conversation")) or list(map(mapping, mapping(found.get("conversationMap")).values()))
    heads = dicts(found.get("fullConversationHeadersOnly"))
    begun = found.get("createdAt")
    for head in inline or heads:
        key = text(head.get("bubbleId"))
        bubble = head if inline else mapping(_value(database, "cursorDiskKV", f"bubbleId:{id}:{key}", told))
        words = text(bubble.get("text"))
        if not said(words):
            told.left("calls of tools and empty messages")
            continue
        at = moment(bubble.get("createdAt")) or moment(begun)
        yield user(words, at, key) if head.get("type", bubble.get("type")) == 1 else assistant(words, at, key)


def _items(database: sqlite3.Connection, name: str, told: Told) -> Iterator[Piece]:
    old = mapping(_value(database, "ItemTable", _OLD_CHATS, told))
    for tab in dicts(old.get("tabs")):
        messages = [_old(bubble) for bubble in dicts(tab.get("bubbles")) if said(_old_words(bubble))]
        yield from _chats(text(tab.get("tabId")), text(tab.get("chatTitle")), messages)
    sessions = _value(database, "ItemTable", _REQUESTS, told)
    for session in dicts(sessions):
        messages = [message for one in dicts(session.get("requests")) for message in _exchange(one)]
        yield from _chats(text(session.get("sessionId")), text(session.get("customTitle")), messages)
    prompts = [user(text(one.get("text"))) for one in dicts(_value(database, "ItemTable", _PROMPTS, told))]
    folder = name.replace("\\", "/").rsplit("/", 2)[-2:][0]
    yield from _chats(f"prompts:{folder}", "Prompts", [one for one in prompts if said(one.text)])


def _old_words(bubble: dict[str, Any]) -> str:
    return text(bubble.get("text")) or text(bubble.get("rawText"))


def _old(bubble: dict[str, Any]) -> Message:
    words, id = _old_words(bubble), text(bubble.get("id"))
    return user(words, id=id) if bubble.get("type") == "user" else assistant(words, id=id)


def _exchange(request: dict[str, Any]) -> Iterator[Message]:
    asked = request.get("message")
    words = asked if isinstance(asked, str) else text(mapping(asked).get("text"))
    if said(words):
        yield user(words, moment(request.get("timestamp")))
    answer = "\n".join(filter(said, (text(one.get("value")) for one in dicts(request.get("response")))))
    if answer:
        yield assistant(answer, moment(request.get("timestamp")))


def _chats(id: str, title: str, messages: list[Message]) -> Iterator[Piece]:
    first = messages[0].text if messages else ""
    return split_chat(Format.CURSOR, session_of(Format.CURSOR, id, first), messages, title)
