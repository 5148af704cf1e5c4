"""Slack, Gemini CLI, Cursor, aider, SpecStory and what is no host's own, each in its shape."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from benchmarks._chat_formats import Said, Talk, later

from alma.ingestion import Format, plan
from alma.ingestion.formats.common import Piece, Speaker
from benchmarks import _chat_formats as formats

Read = Callable[..., Any]

TALK = Talk(
    "5c7d5c23-0691",
    "Fix the login",
    [
        Said("user", "Fix the login form, please.", later(0)),
        Said("assistant", "Done: the session cache was stale.", later(1)),
        Said("user", "I prefer tabs over spaces.\nAlways.", later(2)),
        Said("assistant", "Noted.\n\n```py\nx = 1\n```", later(3)),
    ],
)
SAID = [(said.role, said.text) for said in TALK.turns]


def said(pieces: list[Piece]) -> list[tuple[str, str]]:
    return [(one.speaker, one.text) for chat in pieces if not chat.is_document for one in chat.messages]


def lines(*values: Mapping[str, Any]) -> str:
    return "\n".join(json.dumps(value) for value in values)


# -- Slack


def test_slack_folders(tmp_path: Path, read: Read) -> None:
    formats.slack(tmp_path / "export", [TALK])
    [chat], told = read(tmp_path, user="ana@example.org")
    assert [(one.speaker, one.text, one.voice) for one in chat.messages] == [
        ("Ana" if said.role == "user" else "Ben", said.text, Speaker.PERSON if said.role == "user" else Speaker.OTHER)
        for said in TALK.turns
    ]
    assert chat.title.startswith("#general: Fix the login")
    assert told.left_out == {"notices of Slack": 1}
    assert {one.reason for one in told.skipped} == {
        "Slack's list of users, which is read together with its channels",
        "JSON, but not a conversation in a known format",
    }


def test_slack_threads_days_edits_and_bots(tmp_path: Path, read: Read) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "users.json").write_text(json.dumps(formats.SLACK_USERS))
    first = [
        {
            "type": "message",
            "user": "U1",
            "text": "Morning &amp; hello <@U2>, see <https://x.org|the page>",
            "ts": "1772442000.000100",
        },
        {
            "type": "message",
            "user": "U1",
            "text": "Deploy?",
            "ts": "1772442001.000100",
            "thread_ts": "1772442001.000100",
            "reply_count": 2,
        },
        {
            "type": "message",
            "user": "U2",
            "text": "Yes",
            "ts": "1772442002.000100",
            "thread_ts": "1772442001.000100",
            "edited": {"user": "U2", "ts": "1772442009.000000"},
        },
        {"type": "message", "subtype": "bot_message", "username": "CI", "text": "green", "ts": "1772442003.000100"},
        {
            "type": "message",
            "user": "U9",
            "text": "",
            "blocks": [
                {
                    "type": "rich_text",
                    "elements": [
                        {
                            "type": "rich_text_section",
                            "elements": [{"type": "text", "text": "from "}, {"type": "user", "user_id": "U1"}],
                        }
                    ],
                }
            ],
            "ts": "1772442004.000100",
        },
        {
            "type": "message",
            "subtype": "message_changed",
            "ts": "1772442005.000100",
            "message": {"type": "message", "user": "U1", "text": "changed", "ts": "1772442000.000200"},
        },
    ]
    second = [
        {
            "type": "message",
            "user": "U1",
            "text": "Late reply",
            "ts": "1772528400.0001",
            "thread_ts": "1772442001.000100",
        }
    ]
    (tmp_path / "ops" / "2026-03-02.json").write_text(json.dumps(first))
    (tmp_path / "ops" / "2026-03-03.json").write_text(json.dumps(second))
    day, thread, more = read(tmp_path)[0]
    assert [(one.speaker, one.text) for one in day.messages] == [
        ("Ana", "Morning & hello @Ben, see the page (https://x.org)"),
        ("CI (bot)", "green"),
        ("U9", "from @Ana"),
        ("Ana", "changed"),
    ]
    assert [one.text for one in thread.messages] == ["Deploy?", "Yes"]
    assert thread.messages[1].id.endswith("~1772442009.000000")
    assert thread.session == more.session != day.session
    assert thread.part != more.part
    assert all(one.voice in (Speaker.OTHER, Speaker.TOOL) for piece in (day, thread, more) for one in piece.messages)


def test_slack_in_its_archive(tmp_path: Path, read: Read) -> None:
    day = json.dumps(formats.slack_thread(TALK))
    users = json.dumps(formats.SLACK_USERS)
    formats.zipped(tmp_path / "slack.zip", {"users.json": users, "channels.json": "[]", "general/2026-03-02.json": day})
    [chat], _ = read(tmp_path)
    assert [one.speaker for one in chat.messages] == ["Ana", "Ben", "Ana", "Ben"]


# -- Gemini CLI


def test_gemini_recordings(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.json").write_text(formats.gemini(TALK))
    (tmp_path / "b.jsonl").write_text(formats.gemini_lines(TALK))
    old, new = read(tmp_path)[0]
    assert said([old]) == said([new]) == SAID
    assert old.session == new.session == f"gemini-cli:{TALK.id}"
    assert old.title == new.title == TALK.title


def test_gemini_takes_back_what_was_rewound(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.jsonl").write_text(formats.gemini_lines(TALK) + json.dumps({"$rewindTo": f"{TALK.id}-2"}))
    [chat], told = read(tmp_path)
    assert said([chat]) == SAID[:2]
    assert told.left_out["messages taken back"] == 2


def test_gemini_checkpoints_and_logs(tmp_path: Path, read: Read) -> None:
    history = [
        {"role": "user", "parts": [{"text": "This is the Gemini CLI. We are setting up the context for our chat. x"}]},
        {"role": "model", "parts": [{"text": "Got it. Thanks for the context!"}]},
        {"role": "user", "parts": [{"text": "hello"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "ls"}}, {"text": "hi"}, {"text": "hm", "thought": True}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "ls"}}]},
    ]
    log = [
        {"sessionId": "s", "messageId": 0, "type": "user", "message": "one", "timestamp": "2026-01-01T00:00:00Z"},
        {"sessionId": "s", "messageId": 1, "type": "user", "message": "/quit", "timestamp": "2026-01-01T00:00:00Z"},
        {"sessionId": "t", "messageId": 0, "type": "user", "message": "two", "timestamp": "2026-01-01T00:00:00Z"},
    ]
    (tmp_path / "checkpoint-a.json").write_text(json.dumps({"history": history, "authType": "x"}))
    (tmp_path / "checkpoint-b.json").write_text(json.dumps(history))
    (tmp_path / "logs.json").write_text(json.dumps(log))
    first, second, one, two = read(tmp_path)[0]
    assert said([first]) == said([second]) == [("user", "hello"), ("assistant", "hi")]
    assert (said([one]), said([two])) == ([("user", "one")], [("user", "two")])


# -- Cursor


def test_cursor_database(tmp_path: Path, read: Read) -> None:
    formats.cursor_database(tmp_path / "state.vscdb", [TALK])
    with closing(sqlite3.connect(tmp_path / "state.vscdb")) as database, database:
        tabs = [
            {
                "tabId": "t1",
                "chatTitle": "Old",
                "bubbles": [{"type": "user", "text": "q"}, {"type": "ai", "rawText": "a"}],
            }
        ]
        requests = [{"sessionId": "r", "requests": [{"message": {"text": "why?"}, "response": [{"value": "so"}]}]}]
        rows = [
            ("workbench.panel.aichat.view.aichat.chatdata", json.dumps({"tabs": tabs})),
            ("interactive.sessions", json.dumps(requests)),
            ("aiService.prompts", json.dumps([{"text": "do it", "commandType": 4}])),
        ]
        database.executemany("INSERT INTO ItemTable VALUES (?, ?)", rows)
        database.execute("INSERT INTO cursorDiskKV VALUES ('composerData:broken', '{\"composerId\":')")
    pieces, told = read(tmp_path)
    assert [said([one]) for one in pieces] == [
        SAID,
        [("user", "q"), ("assistant", "a")],
        [("user", "why?"), ("assistant", "so")],
        [("user", "do it")],
    ]
    assert {one.session for one in pieces} >= {f"cursor:{TALK.id}", "cursor:t1", "cursor:r"}
    assert [one.place for one in told.damaged] == ["composerData:broken"]


def test_a_database_of_something_else_is_skipped(tmp_path: Path, read: Read) -> None:
    with closing(sqlite3.connect(tmp_path / "state.vscdb")) as database, database:
        database.execute("CREATE TABLE t (a)")
    pieces, told = read(tmp_path)
    assert not pieces
    assert [one.reason for one in told.skipped] == ["a database, but not one of Cursor's"]


def test_cursor_markdown(tmp_path: Path, read: Read) -> None:
    (tmp_path / "chat.md").write_text(formats.cursor_markdown(TALK))
    [chat], told = read(tmp_path)
    assert said([chat]) == SAID
    assert chat.title == TALK.title
    assert told.files[str(tmp_path / "chat.md")] == "cursor"


# -- aider, SpecStory


def test_aider(tmp_path: Path, read: Read) -> None:
    second = Talk(
        "x",
        "",
        [
            Said("user", "/ask why is it slow?", later(60)),
            Said("assistant", "Because.", later(60)),
            Said("user", "/add a.py", later(60)),
        ],
    )
    (tmp_path / ".aider.chat.history.md").write_text(formats.aider([TALK, second]))
    one, two = read(tmp_path)[0]
    assert said([one]) == SAID
    assert one.messages[0].at == TALK.turns[0].at
    assert said([two]) == [("user", "why is it slow?"), ("assistant", "Because.")]
    assert one.session != two.session


def test_specstory(tmp_path: Path, read: Read) -> None:
    (tmp_path / ".specstory" / "history").mkdir(parents=True)
    (tmp_path / ".specstory" / "history" / "2026-03-02.md").write_text(formats.specstory(TALK))
    [chat], told = read(tmp_path)
    assert said([chat]) == SAID
    assert chat.session == f"specstory:{TALK.id}"
    assert chat.title == TALK.title
    assert [one.at for one in chat.messages] == [one.at for one in TALK.turns]
    assert told.left_out == {"calls of tools and thoughts": 2}


def test_specstory_of_the_first_days_and_sidechains(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.md").write_text(
        "<!-- Generated by SpecStory -->\n\n# A title (2025-04-05 09:08:24)\n\n_**User**_\n\nhello\n\n---\n\n"
        "_**Assistant**_\n\nhi\n\n---\n\n_**Agent (m 2025-04-05 09:09:00Z)**_ - sidechain\n\naside\n\n---\n"
    )
    [chat], told = read(tmp_path)
    assert said([chat]) == [("user", "hello"), ("assistant", "hi")]
    assert chat.messages[0].at is not None
    assert chat.messages[0].at.hour == 9
    assert told.left_out == {"lines of sub-agents": 1}


# -- no host's own format


def test_roles_and_contents(tmp_path: Path, read: Read) -> None:
    messages = [{"role": role, "content": text} for role, text in SAID]
    (tmp_path / "a.json").write_text(json.dumps([{"role": "system", "content": "be good"}, *messages]))
    (tmp_path / "b.json").write_text(json.dumps({"id": "b1", "title": "B", "messages": messages}))
    (tmp_path / "c.jsonl").write_text(lines(*messages))
    (tmp_path / "d.jsonl").write_text(lines({"messages": messages}, {"messages": messages[:1]}))
    (tmp_path / "e.txt").write_text("\n".join(f"{role.title()}: {text}" for role, text in SAID))
    pieces, told = read(tmp_path)
    assert [said([one]) for one in pieces] == [SAID, SAID, SAID, SAID, SAID[:1], SAID]
    assert set(told.files.values()) == {"chat"}
    assert not told.damaged


def test_documents(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.md").write_text("# Decisions\n\nWe use PostgreSQL.\n")
    (tmp_path / "b.txt").write_text("[x] a note that begins with a bracket")
    (tmp_path / "c.rst").write_text("Title\n=====\n\nWords.")
    pieces, _ = read(tmp_path)
    assert [(one.format, one.messages[0].speaker, one.messages[0].voice) for one in pieces] == [
        (Format.MARKDOWN, "a.md", Speaker.OTHER),
        (Format.TEXT, "b.txt", Speaker.OTHER),
        (Format.MARKDOWN, "c.rst", Speaker.OTHER),
    ]


NOTE = " is how the meeting began, and so it went on." * 8_000


@pytest.mark.parametrize("name", ["a.md", "a.txt"])
@pytest.mark.parametrize(
    "text",
    [
        '["We ship on Friday", she said.',
        '["One", "two"] and three were the words.',
        '{ "Quoted" words in braces.',
        '{ "title": "Front matter", "draft": true }\n\n# Heading\n\nWords.',
        '["One", "two"]' + NOTE,
        '{ "Quoted" }' + NOTE,
    ],
)
def test_a_note_that_begins_like_json_is_a_document(tmp_path: Path, read: Read, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    pieces, told = read(tmp_path)
    assert "".join(one.messages[0].text for one in pieces) == text
    assert not told.damaged


@pytest.mark.parametrize("text", ["{}", '["a"]', '{"a": 1}\n{"b": 2}\n', json.dumps([{"a": "b" * 50}] * 9_000)])
def test_data_in_a_text_file_is_no_document(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    [skipped] = plan(tmp_path).skipped
    assert skipped.reason == "JSON, but not a conversation in a known format"


def test_the_name_of_a_file_does_not_decide(tmp_path: Path, read: Read) -> None:
    (tmp_path / "chat.txt").write_text(formats.codex(TALK))
    (tmp_path / "notes.json").write_text("just some words, no JSON at all\n")
    (tmp_path / "x.md").write_text(formats.claude_code(TALK))
    _, told = read(tmp_path)
    assert [told.files[str(tmp_path / name)] for name in ("chat.txt", "notes.json", "x.md")] == [
        "codex",
        "text",
        "claude-code",
    ]
