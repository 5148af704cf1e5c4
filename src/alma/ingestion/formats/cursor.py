"""Cursor's own database of chats (`state.vscdb`), read without touching it. Exported Markdown is read by `texts`.

The database is a table of keys and JSON values, and Cursor may change its shape: what is understood is taken.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from ..streams import LIMIT, as_dict, as_dicts, get_dict, get_dicts, get_text, parse_json, parse_time
from .common import ChatMessage, ChatStart, FileReading, Items, make_message

# What a damaged database raises; its complaint may quote bytes that are no text.
_FAULTS = (sqlite3.Error, UnicodeDecodeError)


def is_database(path: Path) -> bool:
    try:
        with closing(_open_database(path)) as database:
            return bool(_list_tables(database))
    except _FAULTS:
        return False


def _list_tables(database: sqlite3.Connection) -> list[str]:
    """Return its tables that may hold chats; none when it is not a database of Cursor's."""
    tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return [name for name in ("cursorDiskKV", "ItemTable") if name in tables]


def _open_database(path: Path, options: str = "mode=ro") -> sqlite3.Connection:
    """Open it to read only. Where not even that is allowed (another's folder), as the file is now."""
    database = sqlite3.connect(f"{path.resolve().as_uri()}?{options}", uri=True, timeout=5)
    try:
        database.text_factory = lambda text: text.decode("utf-8", "replace")
        # A file from elsewhere may carry code in its schema.
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except _FAULTS as error:
        database.close()
        if isinstance(error, sqlite3.OperationalError) and options == "mode=ro":
            return _open_database(path, "mode=ro&immutable=1")
        raise
    return database


def read(reading: FileReading) -> Items:
    if reading.source.path is None:
        return
    try:
        with closing(_open_database(reading.source.path)) as database:
            for table in _list_tables(database):
                reader = _read_composers if table == "cursorDiskKV" else _read_items
                for id, title, messages in reader(database, reading):
                    first = next((one.text for one in messages if one), "")
                    yield ChatStart(title=title, session=reading.name_session(id, first))
                    yield from messages
    except _FAULTS as error:
        reading.damage("", f"the database could not be read further: {error}")


def _read_value(database: sqlite3.Connection, table: str, key: str, reading: FileReading) -> Any:
    """Return the JSON of a key; None when there is none."""
    query = f"SELECT substr(value, 1, ?) FROM {table} WHERE key = ? AND value IS NOT NULL"
    for (content,) in database.execute(query, (LIMIT + 1, key)):
        text = content.decode("utf-8", "replace") if isinstance(content, bytes) else str(content)
        is_long = len(text) > LIMIT
        value, reason = (None, f"longer than {LIMIT:,} characters; passed over") if is_long else parse_json(text)
        if reason:
            reading.damage(key, reason)
        return value
    return None


Conversations = Iterator[tuple[str, str, list[ChatMessage | None]]]


def _read_composers(database: sqlite3.Connection, reading: FileReading) -> Conversations:
    """Yield the id, the title and the messages of each conversation."""
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


def _read_items(database: sqlite3.Connection, reading: FileReading) -> Conversations:
    """Yield the id, the title and the messages of each conversation that older versions stored."""
    chats = _read_value(database, "ItemTable", "workbench.panel.aichat.view.aichat.chatdata", reading)
    for tab in get_dicts(as_dict(chats), "tabs"):
        bubbles = [
            make_message(
                "user" if one.get("type") == "user" else "assistant",
                get_text(one, "text", "rawText"),
                id=get_text(one, "id"),
            )
            for one in get_dicts(tab, "bubbles")
        ]
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
    folder = reading.source.name.replace("\\", "/").rsplit("/", 2)[-2:][0]
    yield f"prompts:{folder}", "Prompts", [make_message("user", get_text(one, "text")) for one in prompts]
