"""What a person reads where nothing changed, where something is wrong, and in help."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alma.cli.derive import COMMANDS, build_parser

Run = Callable[..., Any]

NOTES = "# Notes\n\nWe decided to use Postgres for the orders service.\n\nAlways run the linter before a commit.\n"


def elsewhere(project: Path, name: str) -> str:
    config = project / f"{name}.yaml"
    config.write_text(
        f"alma:\n  project_id: {name}\n  embedding_provider: hash\n  storage_dir: {project}/other\n", encoding="utf-8"
    )
    return str(config)


# -- where nothing changes


@pytest.mark.parametrize("first", [(), ("--untrusted",)])
def test_an_own_import_says_that_an_earlier_one_still_waits(project: Path, run: Run, first: tuple[str, ...]) -> None:
    run("add", "rule", "--agent", "dev", "--rule", "Use pnpm")
    run("export", "memory.jsonl")
    other = elsewhere(project, "shop")
    run("import", "memory.jsonl", "--config", other, *first)
    ran = run("import", "memory.jsonl", "--config", other, "--trusted")
    assert ran.code == 0
    assert "nothing changed: 1 already stored" in ran.out
    assert "still waiting for your review: 1" in ran.out
    assert "alma update ID --status active" in ran.out


def test_an_own_import_that_took_everything_says_nothing_of_waiting(project: Path, run: Run) -> None:
    run("add", "rule", "--agent", "dev", "--rule", "Use pnpm")
    run("export", "memory.jsonl")
    ran = run("import", "memory.jsonl", "--config", elsewhere(project, "shop"), "--trusted")
    assert ran.out.strip() == "1 added"


def test_an_import_of_another_project_says_where_it_is_seen(project: Path, run: Run) -> None:
    run("add", "knowledge", "--agent", "dev", "--domain", "ops", "--fact", "The window is 9 to 17 h")
    run("export", "memory.jsonl")
    ran = run("import", "memory.jsonl", "--config", elsewhere(project, "garden"), "--keep-project")
    assert "they belong to project 'shop'" in ran.out


def test_reading_words_again_as_own_accepts_them_but_no_rule(project: Path, run: Run) -> None:
    Path("notes.md").write_text(NOTES)
    assert "; 2 to review" in run("ingest", "notes.md", "--agent", "dev").out
    ran = run("ingest", "notes.md", "--agent", "dev", "--own")
    assert "stored 1 heuristic; 1 already stored" in ran.out
    assert "alma update ID --status active" in ran.out
    assert "Always run the linter" in run("list", "--status", "candidate").out


def test_an_empty_folder_has_nothing_to_read(project: Path, run: Run) -> None:
    Path("empty").mkdir()
    ran = run("ingest", "empty", "--agent", "dev")
    assert (ran.code, ran.out) == (1, "nothing to import in empty\n")


# -- where something is wrong


def test_a_folder_of_code_must_exist(project: Path, run: Run) -> None:
    for words in (("session", "start"), ("session", "prepare", "Fix the login")):
        ran = run(*words, "--agent", "dev", "--workspace", "/nope")
        assert ran.code == 1
        assert "--workspace must be an existing folder, not '/nope'" in ran.err
        assert run(*words, "--agent", "dev", "--no-workspace").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("learn --agent dev --task T --outcome success --strategy {blank}", "--strategy is empty"),
        ("learn --agent dev --task T", "missing --outcome: the result. Valid: success, partial, failure."),
        ("work add Title --type {blank}", "--type is empty"),
        ("workflow start {blank}", "WORKFLOW is empty"),
        ("session end --agent dev --outcome foo", "unknown --outcome 'foo'"),
        ("rules export --to foo", "unknown value 'foo' of --to"),
        ("ingest . --agent dev --only foo", "unknown value 'foo' of --only"),
        ("list --status foo", "superseded, archived, retired, all."),
        ("rules list --status foo", "superseded, archived, retired, all."),
        ("search deploy --status foo", "superseded, archived, retired, all."),
        ("graph path Maria {blank}", "TO is empty"),
        ("graph suggest --limit 0", "--limit must be a whole number from 1 to 10,000, not 0"),
        ("workflow merge --state a --node n --into b", "--node, --into can only be used with a RUN"),
        ("work add Title --priority abc", "error: --priority must be a whole number, not 'abc'"),
        ("work claim wrk_1 --agent dev --lease abc", "error: --lease must be a number, not 'abc'"),
        ("import nope.json", "error: cannot read nope.json: No such file or directory"),
        ("add many nope.json", "error: cannot read nope.json: No such file or directory"),
        ("retrieve Deploy --agent dev --since banana", "or an age in minutes, hours, days, weeks"),
        ("workflow cleanup --yes --older-than banana", "--older-than must be a time (2026-05-07"),
    ],
)
def test_messages_name_what_was_typed(project: Path, run: Run, words: str, message: str) -> None:
    if words.startswith("session end"):
        run("session", "start", "--agent", "dev")
    ran = run(*(" " if word == "{blank}" else word for word in words.split()))
    assert message in ran.err


def test_a_checkpoint_says_that_standard_input_is_empty(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    ran = run("workflow", "checkpoint", "r1", "build")
    assert "standard input is empty; pass the state with --state JSON, --from FILE, or" in ran.err


def test_a_taken_name_of_a_domain_says_how_to_overwrite_it(project: Path, run: Run) -> None:
    run("domains", "create", "letters", "--learn", "tone")
    ran = run("domains", "create", "letters", "--learn", "length")
    assert ran.err == (
        "error: there is already another schema 'letters'; choose another name, or overwrite it with --replace\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("session list --agent dev --state open", "No open sessions."),
        ("session list --agent dev --state ended", "No ended sessions."),
        ("graph find --type banana", "No entity of that type."),
        ("graph find Bob --type banana", "No entity of that name and type."),
    ],
)
def test_an_empty_list_says_what_was_looked_for(project: Path, run: Run, words: str, message: str) -> None:
    assert run(*words.split()).out.startswith(message)


def test_an_id_and_a_user_exclude_each_other(project: Path, run: Run) -> None:
    ran = run("delete", "abc", "--user", "ana")
    assert ran.code == 2
    assert "takes ID or --user, not both" in ran.err


def test_fields_may_follow_options(deployed: dict[str, str], run: Run) -> None:
    ran = run("update", deployed["fact"], "--tag", "x", "fact=Logs are on host ten", "--json")
    assert ran.code == 0, ran.err
    assert (ran.json["memory"]["fact"], ran.json["memory"]["tags"]) == ("Logs are on host ten", ["x"])
    assert "unrecognized arguments: more" in run("show", deployed["fact"], "more").err


# -- what is shown


def test_times_are_shown_as_times(deployed: dict[str, str], run: Run) -> None:
    lines = run("show", deployed["heuristic"]).out.splitlines()
    [first] = [line for line in lines if line.startswith("  recent")]
    assert first.split()[1].count("-") == 2
    assert first.endswith("success")


def test_help_says_what_a_negative_option_does(project: Path, run: Run) -> None:
    assert "no workspace, not even the default" in run("session", "start", "--help").out
    assert "do not create work items" in run("session", "prepare", "--help").out
    assert "not your own" in run("rules", "import", "--help").out


# -- help


@pytest.mark.parametrize(
    ("command", "wanted", "unwanted"),
    [
        (
            "graph",
            "path         show how two entities are related",
            "what can be reached from an entity, nearest first; or",
        ),
        ("graph around", "maximum number of steps (default: 2)", "--to"),
        ("graph path", "TO the other entity", "`to`"),
        ("graph suggest", "pairs of entities that may be the same", "by type"),
        ("graph stats", "by type", "--suggestions"),
        ("work list", "most urgent first.", "--id"),
        ("work list", "most urgent first.", "--query"),
        ("work show", "ID the work item's id", "only this"),
        ("work history", "ID the work item's id", "only this"),
        ("work add", "estimate, in minutes", "null"),
        ("work edit", "estimate, in minutes", "null"),
        ("work next", "Pass --claim", "`claim`"),
        ("work progress", "with --log: only this session", "ID only"),
        ("work archive", "with --finished: only items", "N only"),
        ("workflow end", "completed (default), failed or cancelled", "running"),
        ("workflow end", "RUN the run's name", "a new name"),
        ("workflow history", "RUN the run's name", "of this run"),
        ("workflow merge", "a branch to merge", "instead of"),
        ("workflow merge", "print the result. Reducers: append", "one run"),
        ("workflow link", "the node that created it", "only this node"),
        ("workflow link", "its SHA-256; computed if PATH is a file", "its SHA-256 --size"),
        ("domains list", "both presets and your own.", "show one"),
        ("domains show", "NAME the schema's name", "only"),
        ("domains delete", "alma domains delete letters", "delete sales"),
        ("session show", "ID the session's id", "only this"),
        ("session start", "`alma session note`", "update_session"),
        ("session note", "--blocker BLOCKER what blocks the work", "short texts"),
        ("session end", "--next NEXT a step for the next session", "start_session"),
        ("rules list", "List rules, newest first.", "List memories"),
        ("rules import", "`alma rules export`", "export_rules"),
        ("list", "only memories with this status: candidate, active, superseded, archived, retired or all", "null"),
        ("search", "only memories with this status: candidate, active, superseded, archived, retired or all", "null"),
        ("retrieve", "`alma show ID` shows a memory in full", "`get`"),
        ("add rule", "or import (default: user)", "user_stated"),
        ("add preference", "or import (default: user)", "explicit_instruction"),
    ],
)
def test_help_describes_the_command_itself(run: Run, command: str, wanted: str, unwanted: str) -> None:
    words = " ".join(run(*command.split(), "--help").out.split())
    assert " ".join(wanted.split()) in words
    assert unwanted not in words


@pytest.mark.parametrize("command", ["add many", "workflow merge", "import"])
def test_help_has_no_indented_paragraphs(run: Run, command: str) -> None:
    description = run(*command.split(), "--help").out.partition("positional arguments:")[0].partition("\n\n")[2]
    assert "  " not in description


def test_a_run_cannot_end_as_running(project: Path, run: Run) -> None:
    run("workflow", "start", "release", "--run", "r1")
    assert "Valid: completed, failed, cancelled." in run("workflow", "end", "r1", "--status", "running").err
    assert run("workflow", "end", "r1", "--json").json["run"]["status"] == "completed"
    assert run("workflow", "end", "r1", "--status", "failed", "--json").json["run"]["status"] == "failed"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("domains create sales --learn tone", "'sales' is a preset; pass --replace to replace it"),
        ("work list --parent wrk_none", "wrk_none"),
        ("work add Title --tag {blank}", "--tag is empty"),
        ("domains create letters --entity {blank}", "--entity is empty"),
    ],
)
def test_a_message_names_the_option(project: Path, run: Run, words: str, message: str) -> None:
    ran = run(*(" " if word == "{blank}" else word for word in words.split()))
    assert (ran.code, ran.out) == (1, "")
    assert message in ran.err


def test_an_export_over_manual_edits_names_the_option(project: Path, run: Run) -> None:
    run("add", "rule", "--agent", "dev", "--rule", "Use tabs")
    run("rules", "export", "--to", "agents-md", "--root", ".")
    file = Path("AGENTS.md")
    file.write_text(file.read_text().replace("tabs", "spaces"))
    assert "export with --force" in run("rules", "export", "--to", "agents-md", "--root", ".").err


def test_files_left_out_on_request_say_so(project: Path, run: Run) -> None:
    Path("chats").mkdir()
    Path("chats/chat.json").write_text("[]")
    plan = run("ingest", "chats", "--only", "documents", "--plan", "--json").json
    assert [one["reason"] for one in plan["skipped"]] == ["left out by --only documents"]


def test_help_is_for_people_not_for_models(run: Run) -> None:
    build_parser()
    for name in [one.words for one in COMMANDS]:
        text = " ".join(run(*name.split(), "--help").out.split())
        assert "Call this" not in text, name
        assert not re.search(r"`[a-z]+_[a-z_]+`", text.partition(" options:")[0]), name
        if "--agent AGENT the agent's name" in text:
            assert "the agent's name (default: $ALMA_AGENT, then default_agent)" in text, name
