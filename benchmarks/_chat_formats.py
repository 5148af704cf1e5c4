"""Synthetic conversations in the public formats, used to measure and test ingestion.

They have the structure of the hosts' own files and exports, including what surrounds the messages there: tool calls,
messages of the host, other branches.
"""

from __future__ import annotations

import json
import sqlite3
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Said:
    role: str
    """'user' or 'assistant'."""
    text: str
    at: datetime = START


@dataclass(frozen=True)
class Talk:
    id: str
    title: str
    turns: Sequence[Said]


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


# -- a file for each conversation


def claude_code(talk: Talk) -> str:
    lines = [_line({"type": "summary", "summary": talk.title, "leafUuid": f"{talk.id}-0"})]
    for number, said in enumerate(talk.turns):
        common = {
            "uuid": f"{talk.id}-{number}",
            "sessionId": talk.id,
            "cwd": "/home/ana/app",
            "isSidechain": False,
            "timestamp": _iso(said.at),
            "version": "2.1.0",
        }
        if said.role == "user":
            lines.append(_line({**common, "type": "user", "message": {"role": "user", "content": said.text}}))
            continue
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": "pytest -q"}}
        blocks = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": said.text}, use]
        lines.append(_line({**common, "type": "assistant", "message": {"role": "assistant", "content": blocks}}))
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "3 passed"}
        told = {**common, "uuid": f"{talk.id}-{number}-r", "type": "user", "toolUseResult": {"stdout": "3 passed"}}
        lines.append(_line({**told, "message": {"role": "user", "content": [result]}}))
    return "".join(lines)


def codex(talk: Talk) -> str:
    def wrapped(kind: str, payload: Mapping[str, Any], at: datetime) -> str:
        return _line({"timestamp": _iso(at), "type": kind, "payload": payload})

    first = talk.turns[0].at if talk.turns else START
    meta = {"id": talk.id, "timestamp": _iso(first), "cwd": "/home/ana/app", "originator": "codex_cli_rs"}
    context = "<environment_context>\n  <cwd>/home/ana/app</cwd>\n</environment_context>"
    setting = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": context}]}
    lines = [wrapped("session_meta", meta, first), wrapped("response_item", setting, first)]
    for number, said in enumerate(talk.turns):
        kind, event = ("input_text", "user_message") if said.role == "user" else ("output_text", "agent_message")
        item = {"type": "message", "role": said.role, "content": [{"type": kind, "text": said.text}]}
        call = {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": f"call_{number}"}
        lines += [
            wrapped("turn_context", {"cwd": "/home/ana/app", "model": "gpt-5-codex"}, said.at),
            wrapped("response_item", item, said.at),
            wrapped("event_msg", {"type": event, "message": said.text}, said.at),
            wrapped("event_msg", {"type": "token_count", "info": None}, said.at),
            wrapped("response_item", call, said.at),
            wrapped(
                "response_item", {"type": "function_call_output", "call_id": call["call_id"], "output": "ok"}, said.at
            ),
        ]
    return "".join(lines)


def gemini(talk: Talk) -> str:
    messages = [
        {
            "id": f"{talk.id}-{number}",
            "timestamp": _iso(said.at),
            "type": "user" if said.role == "user" else "gemini",
            "content": said.text,
            **({} if said.role == "user" else {"toolCalls": [{"id": "c", "name": "ls", "args": {}}], "thoughts": []}),
        }
        for number, said in enumerate(talk.turns)
    ]
    first = talk.turns[0].at if talk.turns else START
    head = {"sessionId": talk.id, "projectHash": "ab" * 32, "startTime": _iso(first), "lastUpdated": _iso(first)}
    return json.dumps({**head, "messages": messages, "summary": talk.title}, indent=2, ensure_ascii=False)


def gemini_lines(talk: Talk) -> str:
    held = json.loads(gemini(talk))
    messages = held.pop("messages")
    lines = [_line({**held, "messages": []})]
    for message in messages:
        if message["type"] == "gemini":
            lines.append(_line({**message, "content": "…"}))
        lines.append(_line(message))
    return "".join([*lines, _line({"$set": {"lastUpdated": _iso(START)}})])


def aider(talks: Iterable[Talk]) -> str:
    out = []
    for talk in talks:
        started = (talk.turns[0].at if talk.turns else START).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        out.append(f"\n# aider chat started at {started}\n\n> Aider v0.86.0  \n> Git repo: .git with 45 files  \n\n")
        for said in talk.turns:
            if said.role == "user":
                out.append("".join(f"#### {line}  \n" for line in said.text.split("\n")) + "\n")
            else:
                out.append(f"{said.text}\n\n> Tokens: 2.1k sent, 120 received.  \n\n")
    return "".join(out)


def specstory(talk: Talk) -> str:
    first = (talk.turns[0].at if talk.turns else START).strftime("%Y-%m-%d %H:%M:%SZ")
    out = [
        "<!-- Generated by SpecStory, Markdown v2.1.0 -->\n\n",
        f"# {talk.title} ({first})\n\n<!-- Claude Code Session {talk.id} ({first}) -->\n",
    ]
    for said in talk.turns:
        time = said.at.strftime("%Y-%m-%d %H:%M:%SZ")
        who = f"User ({time})" if said.role == "user" else f"Agent (claude-opus-4 {time})"
        tool = '\n<tool-use data-tool-type="shell"><details>\n<summary>Bash</summary>\nok\n</details></tool-use>\n'
        out.append(f"\n_**{who}**_\n\n{said.text}\n{'' if said.role == 'user' else tool}\n---\n")
    return "".join(out)


def cursor_markdown(talk: Talk) -> str:
    out = [f"# {talk.title}\n_Exported on 4/3/2026 at 10:44:59 PDT from Cursor (2.6.20)_\n"]
    out += [f"\n---\n\n**{'User' if said.role == 'user' else 'Cursor'}**\n\n{said.text}\n" for said in talk.turns]
    return "".join(out)


# -- all conversations in one


def chatgpt(talk: Talk) -> dict[str, Any]:
    """Return the tree of one conversation, with an unused answer and a tool call."""
    nodes: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None, "children": []}}
    parent = "root"

    def hang(id: str, message: Mapping[str, Any] | None, parent: str) -> None:
        nodes[id] = {"id": id, "message": message, "parent": parent, "children": []}
        nodes[parent]["children"].append(id)

    for number, said in enumerate(talk.turns):
        id = f"{talk.id}-{number}"
        message = {
            "id": id,
            "author": {"role": said.role, "name": None, "metadata": {}},
            "create_time": said.at.timestamp(),
            "content": {"content_type": "text", "parts": [said.text]},
            "status": "finished_successfully",
            "recipient": "all",
            "metadata": {},
        }
        hang(id, message, parent)
        if said.role == "assistant":
            other = {**message, "id": f"{id}-b", "content": {"content_type": "text", "parts": ["Another answer."]}}
            hang(f"{id}-b", other, parent)
            tool = {
                **message,
                "id": f"{id}-t",
                "author": {"role": "tool", "name": "python"},
                "content": {"content_type": "execution_output", "text": "42"},
            }
            hang(f"{id}-t", tool, id)
            parent = f"{id}-t"
        else:
            parent = id
    first = talk.turns[0].at.timestamp() if talk.turns else START.timestamp()
    return {
        "title": talk.title,
        "create_time": first,
        "update_time": first,
        "mapping": nodes,
        "moderation_results": [],
        "current_node": parent,
        "conversation_id": talk.id,
        "id": talk.id,
    }


def claude_ai(talk: Talk) -> dict[str, Any]:
    first = _iso(talk.turns[0].at if talk.turns else START)
    return {
        "uuid": talk.id,
        "name": talk.title,
        "summary": "",
        "created_at": first,
        "updated_at": first,
        "account": {"uuid": "acc"},
        "chat_messages": [
            {
                "uuid": f"{talk.id}-{number}",
                "text": said.text,
                "content": [{"type": "text", "text": said.text, "citations": []}],
                "sender": "human" if said.role == "user" else "assistant",
                "created_at": _iso(said.at),
                "updated_at": _iso(said.at),
                "attachments": [],
                "files": [],
            }
            for number, said in enumerate(talk.turns)
        ],
    }


def json_list(file: Path, values: Iterable[Mapping[str, Any]]) -> None:
    """Yield a JSON list piece by piece, so that it is never in memory as a whole."""
    with file.open("w", encoding="utf-8") as out:
        out.write("[")
        for number, value in enumerate(values):
            out.write(("," if number else "") + json.dumps(value, ensure_ascii=False))
        out.write("]")


SLACK_USERS = [
    {"id": "U1", "team_id": "T1", "name": "ana", "profile": {"display_name": "Ana", "email": "ana@example.org"}},
    {"id": "U2", "team_id": "T1", "name": "ben", "profile": {"display_name": "Ben", "email": "ben@example.org"}},
]


def slack_thread(talk: Talk) -> list[dict[str, Any]]:
    """Return a thread and a message about somebody joining; 'user' is Ana, 'assistant' is Ben."""
    root = f"{talk.turns[0].at.timestamp():.6f}" if talk.turns else "1"
    found: list[dict[str, Any]] = [
        {"type": "message", "subtype": "channel_join", "user": "U2", "text": "<@U2> has joined", "ts": root}
    ]
    for number, said in enumerate(talk.turns):
        ts = f"{said.at.timestamp() + number / 1000:.6f}" if number else root
        words = said.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        user = "U1" if said.role == "user" else "U2"
        told = {"type": "message", "user": user, "text": words, "ts": ts, "thread_ts": root}
        found.append({**told, "reply_count": len(talk.turns) - 1} if not number else told)
    return found


def slack(folder: Path, talks: Iterable[Talk]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "users.json").write_text(json.dumps(SLACK_USERS))
    (folder / "channels.json").write_text(json.dumps([{"id": "C1", "name": "general", "members": ["U1", "U2"]}]))
    days: dict[str, list[dict[str, Any]]] = {}
    for talk in talks:
        day = (talk.turns[0].at if talk.turns else START).strftime("%Y-%m-%d")
        days.setdefault(day, []).extend(slack_thread(talk))
    (folder / "general").mkdir(exist_ok=True)
    for day, messages in days.items():
        (folder / "general" / f"{day}.json").write_text(json.dumps(messages, ensure_ascii=False, indent=4))


def cursor_database(file: Path, talks: Iterable[Talk]) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        for table in ("ItemTable", "cursorDiskKV"):
            database.execute(f"CREATE TABLE IF NOT EXISTS {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        for talk in talks:
            heads = [
                {"bubbleId": f"b{number}", "type": 1 if said.role == "user" else 2}
                for number, said in enumerate(talk.turns)
            ]
            held = {"_v": 10, "composerId": talk.id, "name": talk.title, "fullConversationHeadersOnly": heads}
            rows = [(f"composerData:{talk.id}", json.dumps(held))]
            for head, said in zip(heads, talk.turns, strict=True):
                bubble = {**head, "text": said.text, "createdAt": _iso(said.at)}
                rows.append((f"bubbleId:{talk.id}:{head['bubbleId']}", json.dumps(bubble)))
            database.executemany("INSERT INTO cursorDiskKV VALUES (?, ?)", rows)


# -- folders and archives of them

EACH: Mapping[str, tuple[str, Callable[[Talk], str]]] = {
    "claude-code": ("{id}.jsonl", claude_code),
    "codex": ("rollout-{id}.jsonl", codex),
    "gemini-cli": ("session-{id}.json", gemini),
    "specstory": ("{id}.md", specstory),
}


def zipped(archive: Path, files: Mapping[str, str]) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for name, text in files.items():
            out.writestr(name, text)


def spread(folder: Path, talks: Iterator[Talk], count: int) -> None:
    """Write this many conversations in all public formats, each in its own folder."""
    share = max(1, count // 8)
    for name, (pattern, write) in EACH.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for talk in _some(talks, share):
            (folder / name / pattern.format(id=talk.id)).write_text(write(talk), encoding="utf-8")
    (folder / "chatgpt").mkdir()
    json_list(folder / "chatgpt" / "conversations.json", map(chatgpt, _some(talks, share)))
    (folder / "claude-ai").mkdir()
    json_list(folder / "claude-ai" / "conversations.json", map(claude_ai, _some(talks, share)))
    (folder / "aider").mkdir()
    (folder / "aider" / ".aider.chat.history.md").write_text(aider(_some(talks, share)), encoding="utf-8")
    slack(folder / "slack", _some(talks, count - 7 * share))


def _some(talks: Iterator[Talk], count: int) -> Iterator[Talk]:
    return (next(talks) for _ in range(count))


def later(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)
