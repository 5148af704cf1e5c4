"""The host's own transcripts: two real ones (shortened), lines of other versions, and anything at all."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma.coding import transcript
from alma.coding.events import Event
from alma.coding.session import build_session
from alma.coding.transcript import find_cwd, find_unreported, read_lines, read_transcript

DATA = Path(__file__).parent / "data"
REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the"
    " new_string was NOT written to the file). "
)


def real(name: str) -> list[bytes]:
    return (DATA / name).read_bytes().splitlines(keepends=True)


def row(**fields: Any) -> bytes:
    given = {"sessionId": "s", "cwd": "/w", "timestamp": "2026-01-02T03:04:05.678Z", "isSidechain": False}
    return json.dumps({**given, **fields}).encode() + b"\n"


def user(content: Any, uuid: str = "u", **fields: Any) -> bytes:
    return row(type="user", uuid=uuid, message={"role": "user", "content": content}, **fields)


def assistant(*blocks: Any, uuid: str = "a", message: str = "m", **fields: Any) -> bytes:
    content = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]
    return row(type="assistant", uuid=uuid, message={"id": message, "role": "assistant", "content": content}, **fields)


def use(command: str, name: str = "t1") -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": command}}


def result(content: Any, name: str = "t1", error: bool = False, **fields: Any) -> bytes:
    block = {"type": "tool_result", "tool_use_id": name, "content": content, "is_error": error}
    return user([block], f"r{name}", **fields)


def names(found: list[Event]) -> list[str]:
    return [event.name for event in found]


# --- a real session at the terminal: refused, interrupted, spoken to while at work, asked, compacted --------------


def test_all_that_the_person_said_at_the_terminal() -> None:
    story = build_session(read_transcript(real("at_the_terminal.jsonl")))
    said = [(turn.speaker, turn.text.splitlines()[0]) for turn in story.turns]
    assert said == [
        ("user", "install things"),
        ("user", "no, use pnpm here"),
        ("user", "wait long"),
        ("user", "count up"),
        ("user", "work slowly"),
        ("user", "no wait, use bun instead"),
        ("user", "edit it"),
        ("user", "but keep files short"),
        ("user", "edit again"),
        ("user", "plan it"),
        ("user", "count up"),
        ("user", "line 1 of a pasted file"),
        ("user", "ask me"),
        ("user", "always pick pnpm"),
    ]


def test_what_the_words_at_the_terminal_were_about() -> None:
    heard = {one.user_words: one for one in build_session(read_transcript(real("at_the_terminal.jsonl"))).user_turns}
    assert heard["no, use pnpm here"].before == (
        "[was about to run `touch one.txt && npm install left-pad`, and was refused]"
    )
    assert "no wait, use bun instead" in heard
    assert heard["but keep files short"].before == "[was allowed to edit /w/app/b.txt: one two]"
    assert heard["always pick pnpm"].before == "[asked: Which one? (npm / yarn)]"


def test_what_no_hook_reports_is_found_with_the_same_ids() -> None:
    written = real("at_the_terminal.jsonl")
    found = find_unreported(written, ())
    assert names(found) == ["Rejected", "Remarked"]
    whole = {event.id: event for event in read_transcript(written)}
    assert all(whole[event.id].name == event.name for event in found)
    assert [event.data["tool_input"] for event in found] == [whole[event.id].data["tool_input"] for event in found]
    assert find_unreported(written, {event.id for event in found}) == []
    assert names(find_unreported(written, {found[0].id})) == names(found[1:])


def test_a_transcript_read_in_two_parts_loses_nothing_that_no_hook_reports() -> None:
    written = real("at_the_terminal.jsonl")
    whole = {event.id for event in find_unreported(written, ())}
    for cut in range(len(written) + 1):
        first = {event.id for event in find_unreported(written[:cut], ())}
        second = {event.id for event in find_unreported(written[cut:], first)}
        assert first | second == whole


# --- a real session that was resumed: a failing command, edits, a subagent, a command ------------------------------


def test_a_resumed_session_is_one_story() -> None:
    story = build_session(read_transcript(real("resumed.jsonl")))
    assert [turn.text for turn in story.turns] == ["run the tests", "agent please", "/tag always use pnpm"]
    assert [one.text for one in story.signals if one.name == "noted"] == ["always use pnpm"]
    assert find_unreported(real("resumed.jsonl"), ()) == []


def test_where_a_transcript_comes_from() -> None:
    assert find_cwd(real("resumed.jsonl")) == "/w/app"
    assert find_cwd([b"{}\n", b"no\n", row(type="user", cwd="")]) == ""
    assert find_cwd([]) == ""


# --- lines of this and other versions -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        user("Never use npm", isMeta=True),
        user("This session is being continued from a previous conversation", isCompactSummary=True),
        user("Never use npm", isVisibleInTranscriptOnly=True),
        user("Never use npm", isSidechain=True),
        user([{"type": "image", "source": {}}]),
        user(None),
        user(7),
        row(type="user", uuid="u", message="no"),
        row(type="user", uuid="u"),
        row(type="summary", summary="Never use npm"),
        row(type="queue-operation", operation="enqueue", content="Never use npm"),
        row(
            type="attachment", attachment={"type": "queued_command", "prompt": "x", "commandMode": "task-notification"}
        ),
        row(type="attachment", attachment={"type": "queued_command", "prompt": "x", "origin": {"kind": "peer"}}),
        row(type="attachment", attachment="x"),
        row(type="of the future", message={"content": "Never use npm"}),
        row(type=["user"]),
        b"[1]\n",
        b"torn {",
        b"\n",
    ],
)
def test_what_nobody_said_is_passed_over(line: bytes) -> None:
    assert list(read_transcript([line])) == []


def test_machine_made_lines_are_not_heard() -> None:
    story = build_session(
        read_transcript(
            [
                user("go", "u1"),
                assistant("Done.", uuid="a1"),
                user("<local-command-stdout>x</local-command-stdout>", "u2"),
                user("<task-notification>y</task-notification>", "u3", origin={"kind": "task-notification"}),
                user("use npm", "u4", promptSource="system"),
                user("use npm", "u5", origin={"kind": "peer"}),
            ]
        )
    )
    assert [turn.text for turn in story.turns] == ["go"]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (f"{REFUSED}To tell you how to proceed, the user said:\nuse pnpm", "use pnpm"),
        (f"{REFUSED}The user provided the following reason for the rejection:  use pnpm", "use pnpm"),
        (f"{REFUSED}To tell you how to proceed, the user said:\nuse pnpm\n\nNote: The user's next message may contain a"
         " correction or preference. Pay close attention", "use pnpm"),
    ],
)  # fmt: skip
def test_words_of_a_refusal_are_found_in_what_the_host_wrote(said: str, words: str) -> None:
    written = [assistant(use("npm i")), result(said, error=True)]
    for found in (*read_transcript(written), *find_unreported(written, ())):
        assert (found.name, found.data["text"], found.data["tool_input"]) == ("Rejected", words, {"command": "npm i"})


def test_a_refusal_without_words_and_an_interruption_say_nothing() -> None:
    written = [
        user("go", "u1"),
        assistant(use("npm i"), uuid="a2"),
        result(f"{REFUSED}STOP what you are doing", error=True),
        user([{"type": "text", "text": "[Request interrupted by user for tool use]"}], "u2"),
        user("use pnpm", "u3"),
        user("[Request interrupted by user]", "u4"),
    ]
    story = build_session(read_transcript(written))
    assert ([one.text for one in story.turns], story.signals) == (["go", "use pnpm"], [])
    assert find_unreported(written, ()) == []


def test_what_the_host_puts_beside_a_result_is_not_a_persons_remark() -> None:
    blocks = [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}, {"type": "text", "text": "keep it short"}]
    for decision in ({}, {"permissionDecision": {"source": "config"}}):
        assert list(read_transcript([assistant(use("ls")), user(blocks, **decision)])) == []
    allowed = user(blocks, permissionDecision={"source": "user_temporary"})
    assert names(list(read_transcript([assistant(use("ls")), allowed]))) == ["Remarked"]


def test_calls_that_the_host_did_not_run_are_no_failures() -> None:
    for said in ("<tool_use_error>Blocked: sleep</tool_use_error>", "[Tool call interrupted: the session ended"):
        assert list(read_transcript([assistant(use("sleep 9")), result(said, error=True)])) == []


def test_a_denied_call_is_told_with_its_reason() -> None:
    said = "Permission to use Bash with command rm has been denied."
    [found] = read_transcript([assistant(use("rm x")), result(said, error=True)])
    assert (found.name, found.data["reason"]) == ("PermissionDenied", said)
    [found] = read_transcript([assistant(use("rm x")), result("No.", error=True, toolDenialKind="automode-blocked")])
    assert (found.name, found.data["reason"]) == ("PermissionDenied", "No.")


def test_a_proposal_that_the_person_changed_is_told_with_what_was_written() -> None:
    edit = {"type": "tool_use", "id": "t1", "name": "Edit", "input": {"file_path": "/w/a", "new_string": "let x"}}
    written = [assistant(edit), result("updated", toolUseResult={"userModified": True, "newString": "const x"})]
    assert build_session(read_transcript(written)).signals[0].text.endswith("-let x\n+const x")


def test_an_older_inline_subagent_makes_no_turns() -> None:
    story = build_session(
        read_transcript(
            [
                user("go", "u1"),
                user("look around and never use npm", "s1", isSidechain=True),
                assistant("I look.", uuid="s2", isSidechain=True),
                assistant(use("ls"), uuid="s3", isSidechain=True, agentId="x1"),
                result("a", isSidechain=True, agentId="x1"),
                assistant("Found it.", uuid="a1"),
            ]
        )
    )
    assert [turn.text for turn in story.turns] == ["go"]


def test_a_prompt_sent_while_at_work_may_have_parts() -> None:
    attached = {"type": "queued_command", "prompt": [{"type": "text", "text": "use bun"}, {"type": "image"}]}
    [found] = read_transcript([row(type="attachment", uuid="q", attachment=attached)])
    assert (found.name, found.data["prompt"]) == ("UserPromptSubmit", "use bun")


def test_lines_without_a_name_of_their_own_have_one_by_what_they_say() -> None:
    bare = [json.dumps({"type": "user", "uuid": None, "message": {"content": text}}).encode() for text in "ab"]
    assert len({event.id for event in read_transcript(bare)}) == 2
    assert [event.id for event in read_transcript(bare)] == [event.id for event in read_transcript(bare)]


def test_texts_are_cut_to_what_a_journal_holds() -> None:
    given = {"command": "y" * 9000, "z": [["w" * 9000]] * 99}
    written = [
        user("x" * 100_000, "u1"),
        assistant({"type": "tool_use", "id": "t1", "name": "Bash", "input": given}),
        result("o" * 100_000, toolUseResult={"userModified": True, "content": "o" * 100_000}),
    ]
    prompt, ends = read_transcript(written)
    assert len(prompt.data["prompt"]) == 32_000
    assert len(ends.data["tool_input"]["command"]) == 4_000
    assert len(ends.data["written"]) == 4_000


# --- long ones ------------------------------------------------------------------------------------------------------


def test_a_line_that_is_too_long_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript, "LINE_BYTES", 400)
    written = [user("a", "u1"), user("b" * 1000, "u2"), user("c", "u3"), user("d" * 2000, "u4")[:-1]]
    for lines in (read_lines(io.BytesIO(b"".join(written)), 400), written):
        assert [event.data["prompt"] for event in read_transcript(lines)] == ["a", "c"]


def test_torn_lines_are_skipped() -> None:
    assert len(list(read_transcript([user("a"), b'{"type":"us\n', b"\xff\n", b"\n"]))) == 1


class _Wide(io.RawIOBase):
    """A file of one endless line, that counts how much of it is asked for at once."""

    def __init__(self) -> None:
        self.left, self.widest = 3_000_000, 0

    def readline(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        assert size >= 0, "a whole line was asked for"
        given = min(size, self.left)
        self.left, self.widest = self.left - given, max(self.widest, given)
        return b"x" * given


def test_an_endless_line_is_never_held_whole() -> None:
    file = _Wide()
    assert list(read_lines(file, 1000)) == [b"\n"]  # type: ignore[arg-type]
    assert file.widest == 1001


# --- anything -------------------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.sampled_from(["text", "tool_use"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
BLOCKS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use", "tool_result", "thinking", "image", "new", 7])},
    optional={
        "text": st.sampled_from(["no", "", "[Request interrupted by user]", "<command-name>/x</command-name>"])
        | VALUES,
        "id": st.sampled_from(["t1", "t2"]) | VALUES,
        "tool_use_id": st.sampled_from(["t1", "t2"]) | VALUES,
        "name": st.sampled_from(["Bash", "Edit"]) | VALUES,
        "input": st.just({"command": "ls"}) | VALUES,
        "content": st.sampled_from(["ok", f"{REFUSED}the user said: use pnpm", REFUSED]) | VALUES,
        "is_error": st.booleans() | VALUES,
    },
)
ROWS = st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant", "attachment", "system", "summary", "new"])},
    optional={
        "uuid": st.sampled_from(["u1", "u2", "u3"]) | VALUES,
        "sessionId": VALUES,
        "cwd": VALUES,
        "timestamp": st.sampled_from(["2026-01-02T03:04:05Z", "9999-12-31T23:59:59-12:00", "soon"]) | VALUES,
        "isSidechain": VALUES,
        "isMeta": VALUES,
        "origin": VALUES,
        "promptSource": VALUES,
        "toolUseResult": VALUES,
        "toolDenialKind": st.sampled_from(["user-rejected", "permission-rule"]) | VALUES,
        "userFeedback": VALUES,
        "permissionDecision": st.just({"source": "user_temporary"}) | VALUES,
        "interruptedMessageId": VALUES,
        "compactMetadata": VALUES,
        "subtype": st.sampled_from(["compact_boundary", "x"]) | VALUES,
        "attachment": st.fixed_dictionaries({"type": st.just("queued_command"), "prompt": VALUES}) | VALUES,
        "message": st.fixed_dictionaries(
            {"content": st.lists(BLOCKS | VALUES, max_size=3) | VALUES}, optional={"id": VALUES}
        )
        | VALUES,
    },
)


@given(st.lists(ROWS.map(lambda one: json.dumps(one).encode() + b"\n") | st.binary(max_size=30), max_size=8))
def test_any_transcript_is_read(written: list[bytes]) -> None:
    found = list(read_transcript(written))
    offsets = [event.offset for event in found]
    assert offsets == sorted(offsets)
    for event in found:
        assert event.name
        assert len(event.id) == 32
        json.dumps(dict(event.data), ensure_ascii=False).encode("utf-8")
    build_session(found)
    reported = {event.id for event in found}
    assert {event.id for event in find_unreported(written, ())} <= reported
    find_cwd(written)


@given(st.binary(max_size=200))
def test_any_bytes_are_lines(written: bytes) -> None:
    assert b"".join(read_lines(io.BytesIO(written), most=1000)) == written
    cut = list(read_lines(io.BytesIO(written), 8))
    assert all(len(one) <= 8 for one in cut)
    assert len(cut) == len(io.BytesIO(written).readlines())
