"""What holds for every format: what was written is read, whatever was said; and no bytes make the reading fall over."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks._chat_formats import Said, Talk, later
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.timing import cpu_seconds

from alma import ALMA
from alma.ingestion import ingest
from alma.stores.memory import MemoryStore
from benchmarks import _chat_formats as formats

Write = Callable[[Path, Sequence[Talk]], None]
MORE = int(os.environ.get("ALMA_FUZZ", "1"))
"""So many times as many examples are tried."""


def each(write: Callable[[Talk], str], suffix: str) -> Write:
    def all(folder: Path, talks: Sequence[Talk]) -> None:
        for number, talk in enumerate(talks):
            (folder / f"{number:03}{suffix}").write_text(write(talk), encoding="utf-8", newline="")

    return all


def listed(shape: Callable[[Talk], dict[str, Any]]) -> Write:
    return lambda folder, talks: formats.json_list(folder / "conversations.json", map(shape, talks))


WRITERS: dict[str, Write] = {
    "claude-code": each(formats.claude_code, ".jsonl"),
    "codex": each(formats.codex, ".jsonl"),
    "gemini": each(formats.gemini, ".json"),
    "gemini lines": each(formats.gemini_lines, ".jsonl"),
    "chatgpt": listed(formats.chatgpt),
    "claude-ai": listed(formats.claude_ai),
    "slack": lambda folder, talks: formats.slack(folder / "export", talks),
    "cursor": lambda folder, talks: formats.cursor_database(folder / "state.vscdb", talks),
    "specstory": each(formats.specstory, ".md"),
    "cursor markdown": each(formats.cursor_markdown, ".md"),
    "aider": lambda folder, talks: (folder / "history.md").write_text(formats.aider(talks), encoding="utf-8") and None,
}
MARKDOWN = ("specstory", "cursor markdown", "aider")

words = st.text(st.characters(categories=["L", "N"], max_codepoint=0x2FFFF), min_size=1, max_size=8)
paragraphs = st.lists(st.lists(words, min_size=1, max_size=6).map(" ".join), min_size=1, max_size=4).map("\n\n".join)
# Space around a message is nobody's, and a command or a tag at its beginning is a host's affair.
typed = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=60).map(
    lambda text: f"a{text.strip()}".strip()
)


def talks_of(text: st.SearchStrategy[str], least: int) -> st.SearchStrategy[list[Talk]]:
    def talk(number: int, title: str, texts: list[str]) -> Talk:
        turns = [
            Said("assistant" if at % 2 else "user", said, later(number * 600 + at)) for at, said in enumerate(texts)
        ]
        return Talk(f"talk-{number}", title, turns)

    several = st.lists(st.tuples(words, st.lists(text, min_size=least, max_size=6)), min_size=1, max_size=3)
    return several.map(lambda drawn: [talk(number, *one) for number, one in enumerate(drawn)])


def heard(pieces: Sequence[Any]) -> list[list[str]]:
    return [[message.text for message in piece.messages] for piece in pieces if not piece.is_document]


@pytest.mark.parametrize("name", WRITERS)
@settings(max_examples=25 * MORE)
@given(data=st.data())
def test_what_was_written_is_read(name: str, read: Callable[..., Any], data: st.DataObject) -> None:
    # In Slack what nobody replied to is no conversation of its own.
    talks = data.draw(talks_of(paragraphs if name in MARKDOWN else typed, least=2 if name == "slack" else 1))
    with tempfile.TemporaryDirectory() as folder:
        WRITERS[name](Path(folder), talks)
        pieces, told = read(Path(folder))
    assert sorted(heard(pieces)) == sorted([said.text for said in talk.turns] for talk in talks)
    assert not told.damaged
    roles = [[one.speaker for one in piece.messages] for piece in pieces]
    if name != "slack":
        assert all(speakers == (["user", "assistant"] * 3)[: len(speakers)] for speakers in roles)


EXAMPLE = [
    Talk("a-1", "One", [Said("user", "I prefer tabs.", later(0)), Said("assistant", 'Noted "it".', later(1))]),
    Talk("b-2", "Two", [Said("user", "Never use sleep()\nin tests.", later(2)), Said("assistant", "Über.", later(3))]),
]

edits = st.one_of(
    st.tuples(st.just("cut"), st.floats(0, 1), st.integers(1, 400)),
    st.tuples(st.just("put"), st.floats(0, 1), st.binary(min_size=1, max_size=40)),
    st.tuples(
        st.just("put"),
        st.floats(0, 1),
        st.sampled_from([b"\0" * 9, b"[" * 3000, b'"', b"\\", b"}", b"\xff\xfe", b"\r"]),
    ),
    st.tuples(
        st.just("put"), st.floats(0, 1), st.sampled_from([b"1e999", b"-", b"9" * 5000, b"NaN", b'{"a":', b"\xe2\x82"])
    ),
    st.tuples(st.just("twice"), st.floats(0, 1), st.integers(1, 400)),
    st.tuples(st.just("end"), st.floats(0, 1), st.just(0)),
)


def changed(held: bytes, edit: tuple[str, float, Any]) -> bytes:
    verb, share, what = edit
    at = int(share * len(held))
    if verb == "cut":
        return held[:at] + held[at + what :]
    if verb == "put":
        return held[:at] + what + held[at:]
    if verb == "twice":
        return held[: at + what] + held[at:]
    return held[:at]


@pytest.mark.parametrize("name", WRITERS)
@settings(max_examples=40 * MORE)
@given(chosen=st.lists(edits, min_size=1, max_size=4))
def test_damaged_bytes_never_make_the_reading_fall_over(
    name: str, read: Callable[..., Any], chosen: list[tuple[str, float, Any]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        WRITERS[name](Path(folder), EXAMPLE)
        for file in [one for one in Path(folder).rglob("*") if one.is_file()]:
            held = file.read_bytes()
            for edit in chosen:
                held = changed(held, edit)
            file.write_bytes(held)
        assert cpu_seconds(lambda: read(Path(folder), branches=True), enough=9) < 10


@settings(max_examples=25 * MORE)
@given(name=st.sampled_from(sorted(WRITERS)), chosen=st.lists(edits, min_size=1, max_size=3))
def test_damaged_files_are_kept_as_far_as_they_are_whole(name: str, chosen: list[tuple[str, float, Any]]) -> None:
    """Whatever was read can be written, and a second run adds nothing."""
    with tempfile.TemporaryDirectory() as folder, ALMA(MemoryStore(), None, project_id="p") as alma:
        WRITERS[name](Path(folder), EXAMPLE)
        for file in [one for one in Path(folder).rglob("*") if one.is_file()]:
            held = file.read_bytes()
            for edit in chosen:
                held = changed(held, edit)
            file.write_bytes(held)
        ingest(folder, "dev", alma=alma)
        before = alma.get_stats()
        again = ingest(folder, "dev", alma=alma, resume=False)
        after = alma.get_stats()
    assert (before["total_count"], before["turn_count"]) == (after["total_count"], after["turn_count"])
    assert again.total == 0


@settings(max_examples=40 * MORE)
@given(data=st.binary(max_size=3000))
def test_any_bytes_are_read_or_skipped(read: Callable[..., Any], data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.json", "b.jsonl", "c.md", "d.txt", "e.zip", "f.vscdb"):
            (Path(folder) / name).write_bytes(data)
        read(Path(folder))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                "type message role content text uuid sessionId payload mapping parent author parts chat_messages "
                "sender "
                "ts user id messages history docs create_time current_node attachments blocks $set content_type "
                "subtype".split()
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=25,
)


@settings(max_examples=50 * MORE)
@given(value=json_values)
def test_json_of_any_shape_is_read_or_skipped(read: Callable[..., Any], value: Any) -> None:
    """The names that formats use, with values of any type behind them."""
    with tempfile.TemporaryDirectory() as folder:
        lines = value if isinstance(value, list) else [value]
        (Path(folder) / "a.json").write_text(json.dumps(value))
        (Path(folder) / "b.jsonl").write_text("\n".join(map(json.dumps, lines)))
        head = json.dumps({"type": "user", "message": {"role": "user", "content": "hi"}})
        (Path(folder) / "c.jsonl").write_text("\n".join([head, *map(json.dumps, lines)]))
        (Path(folder) / "d.json").write_text(json.dumps([{"title": "", "mapping": {"a": value}}, value]))
        (Path(folder) / "e.json").write_text(json.dumps([{"uuid": "", "chat_messages": [value]}, value]))
        (Path(folder) / "f.jsonl").write_text(
            "\n".join(json.dumps({"type": "response_item", "payload": {"type": "message", "x": one}}) for one in lines)
        )
        (Path(folder) / "g.json").write_text(json.dumps([{"type": "message", "ts": "1", "text": "hi"}, value]))
        read(Path(folder))
