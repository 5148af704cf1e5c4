"""`alma ingest`, `alma learn-from`, `alma usage`."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alma.app import open_config
from alma.types.asking import Answer, Prompt

Run = Callable[..., Any]

CHAT = [
    {"role": "user", "content": "Test the login form"},
    {"role": "assistant", "content": "I used incremental validation which worked well on the 8-field form."},
    {"role": "user", "content": "From now on never use sleep() for async waits, it makes the tests flaky."},
]


@pytest.fixture
def written(project: Path) -> Path:
    """A transcript with a torn line, a document, and what is neither."""
    folder = project / "written"
    (folder / "chats").mkdir(parents=True)
    lines = [
        {"type": "user", "message": {"role": "user", "content": "I prefer tabs over spaces in this repo"}},
        {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "Noted."}]}},
    ]
    text = "\n".join(map(json.dumps, lines)) + "\n{torn\n"
    (folder / "chats" / "session.jsonl").write_text(text, encoding="utf-8")
    (folder / "decisions.md").write_text("# Decisions\n\nWe decided to use PostgreSQL for billing.\n", encoding="utf-8")
    for name in ("a.py", "b.py", "c.py"):
        (folder / name).write_text("print()\n")
    return folder


# -- ingest


def test_the_plan_says_what_would_be_read_as_what(written: Path, run: Run) -> None:
    ran = run("ingest", "written", "--plan")
    assert ran.code == 0
    rows = {row.split()[1]: row for row in ran.out.splitlines() if "session.jsonl" in row or "decisions.md" in row}
    assert "chats/session.jsonl" in rows["claude-code"].replace(os.sep, "/")
    assert rows["markdown"].endswith("no")
    assert ran.out.count("neither a document nor a chat, by its name") == 3
    plan = run("ingest", "written", "--plan", "--only", "documents", "--own", "--json").json
    assert [(one["format"], one["own"]) for one in plan["files"]] == [("markdown", True)]
    assert not (written.parent / ".alma" / "alma.db").exists()


def test_a_dry_run_counts_and_keeps_nothing(written: Path, run: Run) -> None:
    ran = run("ingest", "written", "--agent", "dev", "--user", "ana", "--dry-run")
    assert ran.code == 0
    assert "would store 2 conversations and documents, 1 fact, 1 user preference; 1 to review" in ran.out
    assert run("stats", "--json").json["total_count"] == 0


def test_what_was_read_is_told_with_what_was_not(written: Path, run: Run) -> None:
    ran = run("ingest", "written", "--agent", "dev", "--user", "ana")
    assert ran.code == 0  # a torn line is no error
    for part in (
        "read 2 files: 1 conversation, 1 document, 2 messages, 1 section; stored 2 conversations and documents, ",
        "1 user preference",
        "content that is not your own waits for your review: run `alma list --status candidate`",
        "decisions.md markdown",
        "neither a document nor a chat, by its name",
        "line 3",
        "not complete JSON",
    ):
        assert part in " ".join(ran.out.split())
    [preference] = run("list", "--type", "user_preference", "--json").json["memories"]
    assert preference["user_id"] == "ana"
    # The document is somebody's words, and waits.
    assert run("list", "--status", "candidate", "--json").json["count"] == 1
    again = run("ingest", "written", "--agent", "dev", "--user", "ana")
    assert "read 2 files (2 unchanged)" in again.out
    assert "stored nothing new" in again.out
    assert "user preference" not in again.out
    document = run("ingest", "written", "--agent", "dev", "--user", "ana", "--json").json
    assert (document["counts"]["files"], document["dry_run"]) == (2, False)


def test_an_import_is_taken_back(written: Path, run: Run) -> None:
    ran = run("ingest", "written", "--agent", "dev", "--user", "ana")
    [import_id] = re.findall(r"alma ingest --undo (imp_\w+)", ran.out)
    assert "would undo the import of" in run("ingest", "--undo", import_id, "--dry-run").out
    assert run("list", "--json").json["count"] > 0
    undone = run("ingest", "--undo", import_id)
    assert f"({import_id})" in undone.out
    assert run("list", "--json").json["count"] == 0
    [redo] = re.findall(r"alma revert (imp_\w+)", undone.out)
    assert run("revert", redo).code == 0
    assert run("list", "--json").json["count"] > 0


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--undo", "imp_0"), "there is no import 'imp_0'"),
        (("--undo", "chg_0"), "--undo must be the id of an import"),
        (("written", "--undo", "imp_0"), "a path cannot be used with --undo"),
        (("--plan", "--undo", "imp_0"), "--plan cannot be used with --undo"),
        ((), "requires a path, or --undo ID"),
    ],
)
def test_bad_input_of_undoing_an_import(written: Path, run: Run, argv: tuple[str, ...], message: str) -> None:
    ran = run("ingest", *argv)
    assert ran.code != 0
    assert message in ran.err


def test_own_words_are_learned_from_at_once(written: Path, run: Run) -> None:
    run("ingest", "written/decisions.md", "--agent", "dev", "--own")
    [fact] = run("list", "--type", "domain_knowledge", "--json").json["memories"]
    assert "PostgreSQL" in fact["fact"]
    run("ingest", "written/chats", "--agent", "dev", "--user", "ana", "--not-own")
    assert run("list", "--type", "user_preference", "--json").json["count"] == 0


def test_a_long_list_is_shortened_with_a_count(project: Path, run: Run) -> None:
    good = json.dumps({"type": "user", "message": {"role": "user", "content": "Good morning to you"}})
    Path("torn.jsonl").write_text("\n".join([good, *["{torn"] * 40]), encoding="utf-8")
    assert len(run("ingest", "torn.jsonl", "--agent", "dev", "--dry-run", "--json").json["damaged"]) == 40
    ran = run("ingest", "torn.jsonl", "--agent", "dev")
    assert "40 damaged" in ran.out
    assert ran.out.count("not complete JSON") == 20
    assert "… and 20 more; --json lists all" in ran.out


def test_a_name_cannot_move_the_cursor(project: Path, run: Run) -> None:
    Path("odd").mkdir()
    try:
        Path("odd/\x1b[2Jx.py").write_text("")
    except OSError:
        pytest.skip("no such name here")
    ran = run("ingest", "odd", "--plan")
    assert "\x1b" not in ran.out
    assert "[2Jx.py" in ran.out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("nowhere", "--agent", "dev"), "there is no file or folder 'nowhere'"),
        (("nowhere", "--plan"), "there is no file or folder 'nowhere'"),
        (("written", "--agent", "dev", "--only", "chat"), "Did you mean 'chats'?"),
        (("written", "--agent", "dev", "--max-file-bytes", "-1"), "--max-file-bytes must be a whole number"),
        (("written", "--agent", " "), "agent is empty"),
    ],
)
def test_bad_input_of_ingest(written: Path, run: Run, argv: tuple[str, ...], message: str) -> None:
    ran = run("ingest", *argv)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1
    assert message in ran.err
    assert run("stats", "--json").json["total_count"] == 0


# -- learn-from


@pytest.fixture
def chat(project: Path) -> str:
    Path("chat.jsonl").write_text("\n".join(map(json.dumps, CHAT)), encoding="utf-8")
    Path("chat.json").write_text(json.dumps(CHAT, indent=2), encoding="utf-8")
    return "chat.jsonl"


def test_what_was_found_is_shown_with_its_words(chat: str, run: Run) -> None:
    ran = run("learn-from", chat, "--agent", "helena", "--dry-run")
    assert ran.code == 0
    assert "From now on never use sleep() for async waits" in ran.out
    assert "found 2 memories; would store 1 outcome, 1 rule\n" in ran.out
    assert run("stats", "--json").json["total_count"] == 0


def test_a_conversation_teaches_once(chat: str, run: Run) -> None:
    told = ("learn-from", chat, "--agent", "helena", "--session", "monday", "--save-episode")
    assert "; stored 1 outcome, 1 rule\n" in run(*told).out
    again = run(*told, "--json").json
    assert (again["new"], again["known"], again["episode_id"][:4]) == (0, 2, "epi_")
    assert run("list", "--type", "episode", "--json").json["memories"][0]["session_id"] == "monday"
    assert run("learn-from", "chat.json", *told[2:], "--json").json["new"] == 0


def test_from_standard_input(project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(CHAT)))
    assert run("learn-from", "-", "--agent", "helena", "--json").json["extracted_count"] == 2


def test_plain_words_are_learned_from(project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("I moved to Porto, call me Sam. Our frogs sing on Mondays."))
    ran = run("learn-from", "-", "--user", "sam")
    assert "found 2 memories; stored 1 fact, 1 user preference" in ran.out
    assert "'Our frogs sing on Mondays.': not understood" in ran.out
    [fact] = run("list", "--type", "domain_knowledge", "--json").json["memories"]
    assert (fact["fact"], fact["agent"], fact["user_id"]) == ("The user lives in Porto", "assistant", "sam")
    Path("empty.txt").write_text("\n")
    assert "empty.txt is empty" in run("learn-from", "empty.txt").err


def test_a_note_is_learned_from(project: Path, run: Run) -> None:
    text = "# Decisions\n\nWe decided to use PostgreSQL for the billing service.\n\nTODO: rotate the keys\n"
    Path("decisions.md").write_text(text, encoding="utf-8")
    ran = run("learn-from", "decisions.md", "--text", "--agent", "helena")
    assert "We decided to use PostgreSQL for the billing service." in ran.out
    assert "; stored 1 fact, 1 work item\n" in ran.out
    [fact] = run("list", "--type", "domain_knowledge", "--json").json["memories"]
    assert fact["source"] == "decisions.md"
    assert run("work", "list", "--json").json["items"][0]["title"] == "Rotate the keys"
    again = run("learn-from", "decisions.md", "--text", "--agent", "helena", "--json").json
    assert (again["new"], again["known"]) == (0, 2)


def test_the_words_of_others_wait(chat: str, run: Run) -> None:
    run("learn-from", chat, "--agent", "helena", "--untrusted")
    assert run("list", "--json").json["count"] == 0
    assert run("list", "--status", "candidate", "--json").json["count"] == 2
    Path("note.md").write_text("We decided to use PostgreSQL for the billing service.")
    run("learn-from", "note.md", "--text", "--agent", "helena", "--untrusted")
    assert run("list", "--json").json["count"] == 0
    assert run("list", "--status", "candidate", "--json").json["count"] == 3


def test_what_is_less_sure_is_left_out_and_told(chat: str, run: Run) -> None:
    ran = run("learn-from", chat, "--agent", "helena", "--min-confidence", "0.8")
    assert "found 1 memory; stored 1 rule\n" in ran.out
    assert "skipped" in ran.out
    assert "is below 0.8" in " ".join(ran.out.split())
    Path("note.md").write_text("We decided to use PostgreSQL for the billing service.")
    none = run("learn-from", "note.md", "--text", "--agent", "helena", "--min-confidence", "1")
    assert "found 0 memories; " in none.out
    assert "its confidence (0.8" in " ".join(none.out.split())


@pytest.mark.parametrize(
    ("text", "argv", "message"),
    [
        ("", (), "is empty"),
        ("{torn", (), "chat, line 1 is not valid JSON"),
        ("[3]", (), "must be an object with role and content"),
        ('{"role": "user", "content": "x"}', ("--min-confidence", "2"), "--min-confidence must"),
        ('{"role": "user", "content": "x"}', ("--text", "--min-confidence", "2"), "--min-confidence must"),
        (
            '{"role": "user", "content": "x"}',
            ("--text", "--session", "s"),
            "--session can only be used with a conversation",
        ),
        (
            '{"role": "user", "content": "x"}',
            ("--text", "--save-episode"),
            "--save-episode can only be used with a conversation",
        ),
        ('{"role": "user", "content": "x"}', ("--name", "n"), "--name can only be used with --text"),
        ("\xff", ("--text",), "cannot read"),
    ],
)
def test_bad_input_of_learn_from(project: Path, run: Run, text: str, argv: tuple[str, ...], message: str) -> None:
    Path("chat").write_bytes(text.encode("latin-1"))
    ran = run("learn-from", "chat", "--agent", "helena", *argv)
    assert (ran.code, ran.out) == (1, "")
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_a_note_that_is_taken_for_a_conversation_is_told_how_to_be_read(project: Path, run: Run) -> None:
    (project / "minutes.md").write_text("[Minutes]\nWe decided to use PostgreSQL.\n")
    assert "pass --text" in run("learn-from", "minutes.md", "--agent", "helena").err
    assert "pipe them into `alma learn-from -`" in run("learn-from", "We decided it.", "--agent", "helena").err


def test_a_dry_run_counts_what_would_be_stored(chat: str, run: Run) -> None:
    would = run("learn-from", chat, "--agent", "helena", "--dry-run", "--json").json
    did = run("learn-from", chat, "--agent", "helena", "--json").json
    assert (would["new"], would["kept"]) == (did["new"], did["kept"]) == (2, {"Outcome": 1, "Rule": 1})


def test_an_undeclared_agent_may_not_learn_from_a_note_either(project: Path, run: Run) -> None:
    (project / ".alma" / "config.yaml").write_text("project_id: shop\nembedding_provider: hash\nagents: {a: {}}\n")
    Path("note.md").write_text("We decided to use PostgreSQL for the billing service.")
    ran = run("learn-from", "note.md", "--text", "--agent", "b", "--dry-run")
    assert ran.code == 1
    assert "'b'" in ran.err


# -- usage


class Told:
    """A model that answers, and says what it took."""

    name = "openai:tiny"

    def ask(self, prompt: Prompt) -> Answer:
        return Answer(value={}, model=self.name, tokens_in=1200, tokens_out=30, cost=0.0)


def test_where_no_model_is_asked(project: Path, run: Run) -> None:
    ran = run("usage")
    assert ran.out == "No model is configured, and no calls were made.\n"
    assert run("usage", "--json").json["days"] == []


def test_what_was_asked_and_what_is_left(project: Path, run: Run) -> None:
    from alma.models.budget import Budgeted
    from alma.types.asking import BudgetLimits

    config = project / ".alma" / "config.yaml"
    config.write_text(
        "project_id: shop\nembedding_provider: hash\nmodel: {provider: openai, model: tiny, budget: {calls: 5}, "
        "base_url: 'http://127.0.0.1:9/v1'}\n"
    )
    with open_config(config) as alma:
        model = Budgeted(Told(), alma.engine, BudgetLimits(calls=5))
        for _ in range(2):
            model.ask(Prompt(system="What?", text="This.", schema={"type": "object"}))
    run("trust")
    ran = run("usage", "--days", "1")
    assert "provider   openai" in ran.out
    assert "left       calls 3" in ran.out
    assert "openai:tiny" in ran.out
    assert "2400" in ran.out
    assert run("usage", "--json").json["left"]["calls"] == 3


def test_days_are_at_least_one(project: Path, run: Run) -> None:
    ran = run("usage", "--days", "0")
    assert ran.code == 1
    assert "at least 1" in ran.err
