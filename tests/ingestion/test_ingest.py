"""From files to memories: what is kept, once, as whose words, and what happens when it is done again."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks._chat_formats import Said, Talk, later

from alma import ALMA
from alma.errors import ModelUnavailableError, ScopeError, ValidationError
from alma.ingestion import (
    Progress,
    ingest,
    ingest_conversation,
    ingest_conversations,
    ingest_directory,
    ingest_file,
    plan,
)
from alma.stores.sqlite import SQLiteStore
from alma.types import MemorySlice
from alma.types.asking import Answer, Prompt
from benchmarks import _chat_formats as formats
from benchmarks import ingestion as benchmark

pytestmark = pytest.mark.system

TABS = Talk(
    "t1",
    "Tabs",
    [
        Said("user", "From now on never use sleep() for async waits, it makes the tests flaky.", later(0)),
        Said("assistant", "Understood.", later(1)),
        Said("user", "I prefer tabs over spaces in this repo", later(2)),
    ],
)


def everything(alma: ALMA) -> tuple[int, int, dict[str, int]]:
    stats = alma.get_stats()
    return stats["total_count"], stats["turn_count"], stats["by_type"]


def sections(memories: MemorySlice) -> dict[str, str]:
    """The parts of a prompt by their headings."""
    parts = memories.to_prompt(max_tokens=4000).split("### ")[1:]
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


# -- as promised


def test_files_and_chats_become_typed_memories_and_a_second_run_adds_nothing(tmp_path: Path, alma: ALMA) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "decisions.md").write_text(
        "# Decisions\n\nWe decided to use PostgreSQL for the billing service.\n\n"
        "Never run the migrations by hand: it locked the orders table twice.\n"
    )
    (tmp_path / "chats").mkdir()
    (tmp_path / "chats" / "claude.jsonl").write_text(
        "\n".join(
            json.dumps(line)
            for line in [
                {"type": "user", "message": {"role": "user", "content": "I prefer tabs over spaces in this repo"}},
                {
                    "type": "assistant",
                    "message": {"role": "assistant", "content": [{"type": "text", "text": "Noted."}]},
                },
            ]
        )
    )
    first = ingest_directory(tmp_path / "notes", agent="dev", project_id="test", alma=alma)
    assert first.domain_knowledge
    assert first.anti_patterns
    chats = ingest_conversations(tmp_path / "chats", agent="dev", project_id="test", alma=alma)
    assert chats.user_preferences
    held = everything(alma)
    ingest_directory(tmp_path / "notes", agent="dev", project_id="test", alma=alma)
    ingest_conversations(tmp_path / "chats", agent="dev", project_id="test", alma=alma)
    assert everything(alma) == held
    assert "PostgreSQL" in alma.retrieve("What did we decide to use for the billing service?", "dev").to_prompt()


@pytest.mark.parametrize("resume", [True, False])
def test_every_format_again_adds_nothing(tmp_path: Path, alma: ALMA, resume: bool) -> None:
    formats.spread(tmp_path / "chats", benchmark.talks(3), 16)
    formats.cursor_database(tmp_path / "chats" / "state.vscdb", [TABS])
    (tmp_path / "chats" / "doc.md").write_text("# One\n\nWe use uv.\n\n# Two\n\nWe use uv.\n")
    first = ingest(tmp_path / "chats", "dev", alma=alma, user_id="ana")
    assert first.counts["conversations"] == 17
    assert first.counts["episodes"] == 18
    assert set(first.files.values()) == {
        *("claude-code", "codex", "gemini-cli", "specstory", "chatgpt", "claude-ai", "aider", "slack"),
        *("cursor", "markdown"),
    }
    held = everything(alma)
    again = ingest(tmp_path / "chats", "dev", alma=alma, user_id="ana", resume=resume)
    assert everything(alma) == held
    assert again.total == again.counts.get("episodes", 0) == 0


def test_a_grown_export_adds_only_what_is_new(tmp_path: Path, alma: ALMA) -> None:
    made = benchmark.talks(5)
    talks = [next(made) for _ in range(3)]
    file = tmp_path / "conversations.json"
    formats.json_list(file, map(formats.chatgpt, talks))
    ingest_conversations(file, "dev", alma=alma)
    turns = alma.get_stats()["turn_count"]
    longer = Talk(talks[0].id, talks[0].title, [*talks[0].turns, Said("user", "And one more thing.", later(9))])
    formats.json_list(file, map(formats.chatgpt, [longer, *talks[1:], next(made)]))
    grown = ingest_conversations(file, "dev", alma=alma)
    assert alma.get_stats()["turn_count"] == turns + 1 + benchmark.TURNS
    assert grown.counts["episodes"] == 2
    assert grown.counts["unchanged"] == 2


def test_a_transcript_that_grows_while_it_is_written(tmp_path: Path, alma: ALMA) -> None:
    file = tmp_path / "a.jsonl"
    whole = formats.claude_code(TABS)
    for share in (0.3, 0.6, 0.61, 1):
        file.write_text(whole[: int(share * len(whole))])
        ingest_conversations(file, "dev", alma=alma)
    assert alma.get_stats()["turn_count"] == 3
    assert len(alma.list("user_preference")) + len(alma.list("rule")) >= 2


def test_a_long_conversation_is_kept_in_parts_and_whole(tmp_path: Path, alma: ALMA) -> None:
    turns = [Said("assistant" if at % 2 else "user", f"Number {at % 7}", later(at)) for at in range(450)]
    (tmp_path / "a.jsonl").write_text(formats.claude_code(Talk("long", "Long", turns)))
    (tmp_path / "b.md").write_text(formats.cursor_markdown(Talk("long", "Long", turns)))
    result = ingest_conversations(tmp_path, "dev", alma=alma)
    assert result.counts["episodes"] == 2
    assert alma.get_stats()["turn_count"] == 900
    long = next(one for one in alma.list("episode") if one.session_id == "claude-code:long")
    assert [turn.text for turn in alma.get(long.id).turns] == [said.text for said in turns]


# -- whose words


def test_what_the_person_said_is_learned(tmp_path: Path, alma: ALMA) -> None:
    (tmp_path / "a.jsonl").write_text(formats.claude_code(TABS))
    result = ingest_conversations(tmp_path, "dev", alma=alma, user_id="ana")
    assert result.user_preferences[0].status == "active"
    shown = sections(alma.retrieve("Write the tests with async waits", "dev", user_id="ana"))
    assert "tabs over spaces" in shown["Stated by the user"]


@pytest.mark.parametrize("place", ["repository", "slack", "document", "attachment"])
def test_the_words_of_others_wait_and_are_only_quoted(tmp_path: Path, alma: ALMA, place: str) -> None:
    """Never where an instruction stands, however they are asked for."""
    words = TABS.turns[0].text
    if place == "repository":
        (tmp_path / ".git").mkdir()
        (tmp_path / ".specstory").mkdir()
        (tmp_path / ".specstory" / "a.md").write_text(formats.specstory(TABS))
    elif place == "slack":
        others = Talk("s", "S", [Said("assistant", said.text, said.at) for said in TABS.turns])
        formats.slack(tmp_path, [others])
    elif place == "document":
        (tmp_path / "rules.md").write_text("\n\n".join(said.text for said in TABS.turns))
    else:
        found = formats.claude_ai(Talk("c", "C", [Said("user", "Please read this.", later(0))]))
        content = "\n\n".join(said.text for said in TABS.turns)
        found["chat_messages"][0]["attachments"] = [{"file_name": "n.txt", "extracted_content": content}]
        (tmp_path / "conversations.json").write_text(json.dumps([found]))
    result = ingest(tmp_path, "dev", alma=alma, user_id="ana")
    assert result.counts["episodes"]
    learned = [*result.rules, *result.user_preferences, *result.anti_patterns, *result.domain_knowledge]
    assert {one.status for one in learned} <= {"candidate"}
    assert not result.work_items
    shown = sections(alma.retrieve("sleep() for async waits in tests, tabs or spaces?", "dev", user_id="ana"))
    assert set(shown) == {"Past conversations (quoted)"}
    assert words[:40] in shown["Past conversations (quoted)"]


def test_documents_that_are_the_persons_own_are_learned_from(tmp_path: Path, alma: ALMA) -> None:
    (tmp_path / "notes.md").write_text("We decided to use PostgreSQL for the billing service.\n")
    result = ingest_directory(tmp_path, "dev", alma=alma, own=True)
    assert [one.status for one in result.domain_knowledge] == ["active"]


def test_a_chat_that_is_named_is_the_persons_own_even_in_a_repository(tmp_path: Path, alma: ALMA) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.md").write_text(formats.specstory(TABS))
    assert {one.own for one in plan(tmp_path / "a.md").files} == {True}
    assert {one.own for one in plan(tmp_path).files} == {False}
    assert {one.own for one in plan(tmp_path, own=True).files} == {True}
    assert {one.own for one in plan(tmp_path, wanted="chats").files} == {True}


@pytest.mark.system
def test_a_chat_that_git_tracks_is_not_the_persons_own_even_if_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(formats.specstory(TABS))
    for arguments in (["init", "-q"], ["add", "a.md"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True, timeout=60)
    assert {one.own for one in plan(tmp_path / "a.md").files} == {False}
    assert {one.own for one in plan(tmp_path, wanted="chats").files} == {False}
    assert {one.own for one in plan(tmp_path / "a.md", own=True).files} == {True}


def commit(folder: Path, name: str, author: str) -> None:
    identity = ["-c", f"user.email={author}", "-c", "user.name=Somebody"]
    for arguments in (["add", name], [*identity, "commit", "-q", "-m", name]):
        subprocess.run(["git", *arguments], cwd=folder, check=True, timeout=60)


@pytest.mark.system
def test_own_accepts_what_git_does_not_track_or_only_the_user_committed(
    tmp_path: Path, alma: ALMA, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    (home / ".gitconfig").write_text("[user]\n\temail = Ana@example.com\n")
    monkeypatch.setenv("HOME", str(home))
    subprocess.run(["git", "init", "-q"], cwd=project, check=True, timeout=60)
    files = {"mine.md": "billing", "untracked.md": "search", "theirs.md": "login", "ours.md": "audit"}
    for name, service in files.items():
        decision = f"We decided to use PostgreSQL for the {service} service."
        (project / name).write_text(f"{decision}\n\nAlways use tabs for the {service} service.\n")
    commit(project, "mine.md", "ana@example.com")
    commit(project, "theirs.md", "eve@example.com")
    commit(project, "ours.md", "ana@example.com")
    with (project / "ours.md").open("a") as file:
        file.write("\nChanged.\n")
    commit(project, "ours.md", "eve@example.com")
    result = ingest_directory(project, "dev", alma=alma, own=True)
    statuses = {fact.fact.split("for the ")[1].split()[0]: fact.status for fact in result.domain_knowledge}
    assert statuses == {"billing": "active", "search": "active", "login": "candidate", "audit": "candidate"}
    assert {rule.status for rule in result.rules} <= {"candidate"}
    assert any("2 files are in git with commits by others" in note for note in result.notes)
    assert any("findings wait" in note and "status='active'" in note for note in result.notes)
    prompt = alma.retrieve("Which database does the billing service use?", "dev").to_prompt()
    assert "PostgreSQL for the billing service" in prompt


def test_what_waited_is_learned_when_it_is_declared_as_ones_own(tmp_path: Path, alma: ALMA) -> None:
    (tmp_path / "notes.md").write_text("We decided to use PostgreSQL for the billing service.\n")
    first = ingest_directory(tmp_path, "dev", alma=alma)
    assert [fact.status for fact in first.domain_knowledge] == ["candidate"]
    ingest_directory(tmp_path, "dev", alma=alma, own=True)
    assert [fact.status for fact in alma.list("domain_knowledge")] == ["active"]


def test_a_chat_with_quoted_questions_is_read_where_chats_are_asked_for(tmp_path: Path, alma: ALMA) -> None:
    chat = "> How do I reset staging?\n\nRun `make reset`.\n\n> I prefer tabs over spaces.\n\nNoted.\n"
    folder = tmp_path / "chats"
    folder.mkdir()
    (folder / "chat.txt").write_text(chat)
    (folder / "reply.md").write_text("# Reply\n\n> quoted\n\nanswer\n\n> again\n\nmore\n")
    result = ingest_conversations(folder, "dev", alma=alma)
    assert [Path(one.path).name for one in result.skipped] == ["reply.md"]
    assert (result.counts["conversations"], result.counts["messages"]) == (1, 4)
    assert "tabs over spaces" in result.user_preferences[0].preference
    assert {file.format for file in plan(folder, wanted="documents").files} == {"text", "markdown"}


def test_in_slack_the_asked_user_is_the_person(tmp_path: Path, alma: ALMA) -> None:
    formats.slack(tmp_path, [TABS])
    result = ingest_conversations(tmp_path, "dev", alma=alma, user_id="ana")
    assert [one.status for one in result.user_preferences] == ["active"]


# -- runs


def test_a_dry_run_keeps_nothing_and_counts(tmp_path: Path, alma: ALMA) -> None:
    formats.spread(tmp_path, benchmark.talks(3), 8)
    (tmp_path / "a.jsonl").write_text(formats.claude_code(TABS))
    dry = ingest(tmp_path, "dev", alma=alma, dry_run=True)
    assert everything(alma)[:2] == (0, 0)
    assert not list(alma.engine.store.scan(_all()))
    assert dry.dry_run
    assert dry.counts["user_preferences"] >= 1
    real = ingest(tmp_path, "dev", alma=alma)
    assert real.counts["conversations"] == dry.counts["conversations"] == real.counts["episodes"]
    assert ingest(tmp_path, "dev", alma=alma, dry_run=True).counts.get("messages", 0) == 0


def _all() -> object:
    from alma.types.query import Where

    return Where()


def test_progress_goes_up_to_the_end(tmp_path: Path, alma: ALMA) -> None:
    formats.spread(tmp_path, benchmark.talks(3), 96)
    told: list[Progress] = []
    ingest(tmp_path, "dev", alma=alma, progress=told.append, dry_run=True)
    done = [(one.files, one.bytes, one.conversations, one.messages) for one in told]
    assert done == sorted(done)
    assert len(told) > 45
    assert (told[-1].files, told[-1].bytes) == (told[-1].files_total, told[-1].bytes_total)
    assert told[-1].bytes_total == plan(tmp_path).bytes


def test_a_plan_says_what_would_be_read_and_what_not(tmp_path: Path) -> None:
    formats.spread(tmp_path / "chats", benchmark.talks(3), 8)
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "data.json").write_text('{"a": 1}')
    made = plan(tmp_path)
    assert made.formats == {
        **dict.fromkeys(
            ["aider", "chatgpt", "claude-ai", "claude-code", "codex", "gemini-cli", "slack", "specstory"], 1
        )
    }
    assert {Path(one.path).name: one.reason for one in made.skipped} == {
        "picture.png": "neither a document nor a chat, by its name",
        "node_modules": "a folder of tools or generated files",
        "data.json": "JSON, but not a conversation in a known format",
        "users.json": "Slack's list of users, which is read together with its channels",
        "channels.json": "JSON, but not a conversation in a known format",
    }


def test_a_project_is_read_as_its_people_wrote_it(tmp_path: Path) -> None:
    for name in ("README.md", "docs/a.rst", "docs/deep/b.adoc", "notes.txt", "src/main.py", "package-lock.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("Some words.")
    for name in (".git/x.md", "node_modules/p/README.md", ".venv/a.md", "build/out.md", ".hidden.md", "LICENSE.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("Some words.")
    (tmp_path / "requirements.txt").write_text("x==1")
    (tmp_path / "api.md").write_text("<!-- @generated by a tool -->\n\n# API")
    (tmp_path / "big.md").write_text("word " * 1000)
    (tmp_path / ".gitignore").write_text("*.tmp.md\n/private/\n!keep.tmp.md\n# a comment\n**/secret.md\n")
    for name in ("a.tmp.md", "keep.tmp.md", "private/a.md", "docs/private/a.md", "docs/deep/secret.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("Some words.")
    made = plan(tmp_path, wanted="documents", max_file_bytes=2000)
    read = sorted(Path(one.path).relative_to(tmp_path).as_posix() for one in made.files)
    assert read == [
        *("README.md", "docs/a.rst", "docs/deep/b.adoc", "docs/private/a.md", "keep.tmp.md", "notes.txt"),
    ]


def test_one_conversation_as_messages(alma: ALMA) -> None:
    messages = [{"role": said.role, "content": said.text, "at": said.at} for said in TABS.turns]
    first = ingest_conversation(messages, "dev", alma=alma, session_id="s1", title="Tabs")
    assert first.user_preferences
    assert first.episodes[0].title == "Tabs"
    held = everything(alma)
    assert ingest_conversation(messages, "dev", alma=alma, session_id="s1", title="Tabs").total == 0
    assert everything(alma) == held


def test_a_slack_thread_of_several_days_is_one_conversation(tmp_path: Path, alma: ALMA) -> None:
    days = [Said("user", "Shall we deploy?", later(0)), Said("assistant", "Tomorrow.", later(1))]
    formats.slack(tmp_path, [Talk("s", "S", days)])
    root = formats.slack_thread(Talk("s", "S", days))[1]["ts"]
    reply = {"type": "message", "user": "U1", "text": "It is done.", "ts": "1772528400.0001", "thread_ts": root}
    (tmp_path / "general" / "2026-03-03.json").write_text(json.dumps([reply]))
    first = ingest_conversations(tmp_path, "dev", alma=alma)
    assert first.counts["episodes"] == 1
    assert [turn.text for turn in alma.get(first.episodes[0].id).turns] == [
        "Shall we deploy?",
        "Tomorrow.",
        "It is done.",
    ]
    assert "episodes" not in ingest_conversations(tmp_path, "dev", alma=alma, resume=False).counts


def test_another_project_of_the_same_memory(tmp_path: Path, alma: ALMA) -> None:
    (tmp_path / "a.jsonl").write_text(formats.claude_code(TABS))
    ingest_conversations(tmp_path, "dev", "other", alma=alma)
    assert alma.get_stats()["total_count"] == 0
    assert alma.project_id == "test"
    assert ingest_conversations(tmp_path, "dev", alma=alma).counts["episodes"] == 1


def test_what_was_deleted_stays_away(tmp_path: Path, alma: ALMA) -> None:
    (tmp_path / "a.jsonl").write_text(formats.claude_code(TABS))
    first = ingest_conversations(tmp_path, "dev", alma=alma)
    alma.delete(first.episodes[0].id)
    for one in first.user_preferences:
        alma.delete(one.id)
    again = ingest_conversations(tmp_path, "dev", alma=alma, resume=False)
    assert not again.episodes
    assert not again.user_preferences
    assert not alma.list("episode")
    assert again.left_out["conversations that were deleted here"] == 1


def test_wrong_arguments_are_named(tmp_path: Path, open_alma: Callable[..., ALMA]) -> None:
    from alma.types import MemoryScope

    alma = open_alma(agents=[MemoryScope(agent_name="helena")])
    with pytest.raises(ValidationError, match="there is no file or folder"):
        ingest(tmp_path / "none", "helena", alma=alma)
    with pytest.raises(ValidationError, match="is a folder"):
        ingest_file(tmp_path, "helena", alma=alma)
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(ValidationError, match="is not a folder; use ingest_file"):
        ingest_directory(tmp_path / "a.txt", "helena", alma=alma)
    with pytest.raises(ValidationError, match="everything, documents, chats"):
        ingest(tmp_path, "helena", alma=alma, wanted="all")
    with pytest.raises(ScopeError):
        ingest(tmp_path, "somebody", alma=alma)
    with pytest.raises(ValidationError, match="must be an object"):
        ingest_conversation(["hello"], "helena", alma=alma)  # type: ignore[list-item]


def test_without_a_memory_the_configured_one_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".alma").mkdir()
    (tmp_path / ".alma" / "config.yaml").write_text("project_id: here\nembedding_provider: none\n")
    (tmp_path / "a.jsonl").write_text(formats.claude_code(TABS))
    assert ingest_file("a.jsonl", "dev").counts["episodes"] == 1
    assert ingest_file("a.jsonl", "dev").counts["files unchanged"] == 1


class Model:
    """Finds what it is told to find, or fails."""

    def __init__(self, name: str, items: list[dict[str, object]] | None) -> None:
        self.name = name
        self.asked = 0
        self._items = items

    def ask(self, prompt: Prompt) -> Answer:
        self.asked += 1
        if self._items is None:
            raise ModelUnavailableError("it is not there")
        return Answer(value={"memories": self._items}, model=self.name)


def test_a_model_reads_what_it_has_not_read_yet(tmp_path: Path, alma: ALMA) -> None:
    (tmp_path / "a.jsonl").write_text(formats.claude_code(TABS))
    broken = ingest_conversations(tmp_path, "dev", alma=alma, model=Model("model", None))
    assert broken.user_preferences, "the local reader answers"
    assert "it is not there" in broken.notes[0]
    working = Model("model", [])
    for _ in range(2):
        ingest_conversations(tmp_path, "dev", alma=alma, model=working)
    assert working.asked == 1, "what failed is read again, once"


def test_a_model_that_is_not_there_is_not_asked_about_every_chat(tmp_path: Path, alma: ALMA) -> None:
    made = benchmark.talks(3)
    formats.json_list(tmp_path / "conversations.json", [formats.chatgpt(next(made)) for _ in range(12)])
    broken = Model("model", None)
    ingest_conversations(tmp_path, "dev", alma=alma, model=broken)
    assert broken.asked == 3
    working = Model("model", [])
    ingest_conversations(tmp_path, "dev", alma=alma, model=working)
    assert working.asked == 12


def test_the_configured_model_reads_and_its_keys_replace(tmp_path: Path, open_alma: Callable[..., ALMA]) -> None:
    said = [Said("user", "We relocated to Berlin in May.", later(0))]
    (tmp_path / "a.jsonl").write_text(formats.claude_code(Talk("m", "Move", said)))
    key = {"subject": "speaker", "attribute": "home city"}
    item = {"n": 0, "kind": "fact", "text": "The user lives in Berlin.", "quote": "relocated to Berlin", **key}
    lisbon = {**item, "text": "The user lives in Lisbon.", "quote": "I live in Lisbon"}
    alma = open_alma(model=Model("model", [lisbon, item]))
    ingest_conversation([{"role": "user", "content": "I live in Lisbon.", "at": later(-9)}], "dev", alma=alma)
    assert len(alma.list("domain_knowledge")) == 1, "the other quote is not in it"
    ingest_conversations(tmp_path, "dev", alma=alma)
    assert [(one.fact, one.status) for one in alma.list("domain_knowledge")] == [
        ("The user lives in Berlin.", "active")
    ]


KILLED = """
import sys
from alma import ALMA
from alma.ingestion import authors, ingest
from alma.stores.sqlite import SQLiteStore
with ALMA(SQLiteStore(sys.argv[2]), None, project_id="p") as alma:
    ingest(sys.argv[1], "dev", alma=alma, progress=lambda told: print(told.files, flush=True))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
def test_it_goes_on_after_being_killed(tmp_path: Path) -> None:
    formats.spread(tmp_path / "chats", benchmark.talks(11), 80)
    ended = 0
    for wait in (0.05, 0.15, 0.3):
        command = [sys.executable, "-c", KILLED, str(tmp_path / "chats"), str(tmp_path / "killed.db")]
        # On a busy machine it must not be finished before this process is back to kill it.
        process = subprocess.Popen(["nice", "-n", "5", *command], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(wait)
        ended += process.poll() is not None
        process.kill()
        process.communicate()
    assert ended < 3, "it was never interrupted"
    states = []
    for name in ("killed.db", "whole.db"):
        with ALMA(SQLiteStore(tmp_path / name), None, project_id="p") as alma:
            ingest(tmp_path / "chats", "dev", alma=alma)
            states.append(everything(alma))
    assert states[0] == states[1]


def test_the_chats_of_a_host_are_found_where_it_keeps_them(tmp_path: Path) -> None:
    chats = tmp_path / ".gemini" / "tmp" / "4f2a" / "chats"
    chats.mkdir(parents=True)
    said = {"id": "1", "type": "user", "content": "Hello there.", "timestamp": "2025-09-18T02:45:00Z"}
    session = {"sessionId": "g", "projectHash": "4f2a", "startTime": "2025-09-18T02:45:00Z", "messages": [said]}
    (chats / "session-2025-09-18T02-45-3b44bc68.json").write_text(json.dumps(session))
    (tmp_path / ".gemini" / "GEMINI.md").write_text("Some words.")
    made = plan(tmp_path / ".gemini")
    assert [(str(one.format), one.own) for one in made.files if "session" in one.path] == [("gemini-cli", True)]


def test_the_report_counts_removed_secrets_by_kind(tmp_path: Path, alma: ALMA) -> None:
    password, token = "Larch-" + "tern77", "gh" + "p_" + "x7Kq2vLm81" * 4
    (tmp_path / "notes.md").write_text(f"# Access\n\nThe password is {password}.\n\nUse {token} for CI.\n")
    chat = [{"role": "user", "content": f"export DB_PASSWORD={password}"}, {"role": "user", "content": "Thanks."}]
    (tmp_path / "chat.json").write_text(json.dumps(chat))
    removed = {"password": 2, "github_token": 1}
    dry = ingest(tmp_path, "dev", alma=alma, dry_run=True)
    first = ingest(tmp_path, "dev", alma=alma)
    second = ingest(tmp_path, "dev", alma=alma)
    assert (dry.redacted, first.redacted, second.redacted) == (removed, removed, {})
    assert password not in repr(first)
    assert token not in repr(first)
