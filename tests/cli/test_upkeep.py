"""upkeep, forget, stats, reindex, vacuum."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from alma.app import open_config
from alma.stores.sqlite import SQLiteStore

pytestmark = pytest.mark.system

Run = Callable[..., Any]

ALL = ("--older-than-days", "0", "--below-confidence", "2")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_dry_run_shows_and_changes_nothing(project: Path, deployed: dict[str, str], run: Run) -> None:
    ran = run("archive", *ALL, "--dry-run")
    assert deployed["fact"][:14] in ran.out
    assert "would archive 5 memories" in ran.out
    assert run("archive", *ALL, "--dry-run", "--json").json["count"] == 5
    assert run("list", "--json").json["count"] == 5


def test_forget_asks(project: Path, deployed: dict[str, str], run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("\n"))
    ran = run("archive", *ALL)
    assert "Archive 5 memories? [y/N]" in ran.err
    assert "Nothing was changed" in ran.out
    monkeypatch.setattr("sys.stdin", Terminal("yes\n"))
    assert "archived 5 memories" in run("archive", *ALL).out
    assert run("list", "--json").json["count"] == 0


def test_forget_where_nobody_can_be_asked(
    project: Path, deployed: dict[str, str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    ran = run("archive", *ALL)
    assert ran.code == 1
    assert "pass --yes" in ran.err
    done = run("archive", *ALL, "--yes", "--agent", "ops", "--json").json
    assert (done["dry_run"], done["count"], len(done["ids"])) == (False, 5, 5)


def test_nothing_to_forget_needs_no_answer(project: Path, deployed: dict[str, str], run: Run) -> None:
    assert run("archive").out == "nothing to archive\n"


def test_forget_checks_its_numbers(project: Path, run: Run) -> None:
    ran = run("archive", "--older-than-days", "-1", "--yes")
    assert ran.code == 1
    assert "--older-than-days" in ran.err


def test_stats(project: Path, deployed: dict[str, str], run: Run) -> None:
    out = run("stats").out
    for part in ("memories    5", "by agent    ops 5", "outcome 3"):
        assert part in out
    document = run("stats", "--agent", "ops", "--json").json
    assert document["by_type"]["outcome"] == 3
    assert document["embedder"] == "hash-384"


def test_reindex_says_from_where_to_where(project: Path, deployed: dict[str, str], run: Run) -> None:
    assert "all records are up to date" in run("reindex").out
    (project / ".alma" / "config.yaml").write_text("project_id: shop\nembedding_provider: hash\nembedding_dim: 64\n")
    refused = run("list")
    assert refused.code == 1
    assert "alma reindex" in refused.err
    ran = run("reindex")
    assert ran.out.startswith("from hash-384 to hash-64\n")
    assert "embedded 6 records" in ran.out
    assert run("list").code == 0
    (project / ".alma" / "config.yaml").write_text("project_id: shop\nembedding_provider: none\n")
    done = run("reindex", "--json").json
    assert (done["from"], done["to"]) == ("hash-64", "none (words only)")
    assert done["moved"] > 5


def test_reindex_repairs_vectors_that_a_crash_left_behind(project: Path, run: Run) -> None:
    config = project / ".alma" / "config.yaml"
    config.write_text("project_id: shop\nembedding_provider: hash\nvectors: qdrant\nvector_options: {path: vectors}\n")
    run("trust")
    assert run("add", "fact", "--agent", "ops", "--fact", "Deploys are on Tuesdays", "--domain", "ops").code == 0
    rows = open_config(config).engine.store
    [passage] = rows.documents.find(384, [])
    rows.documents.write(384, [replace(passage, key=f"{passage.key}0", vector=[1.0, *383 * [0.0]])])
    rows.close()
    assert "alma reindex" in run("doctor").out
    assert "repaired 1 vector" in run("reindex").out
    assert run("doctor").code == 0


def test_vacuum_says_how_much_space_came_back(project: Path, run: Run) -> None:
    turns = [{"speaker": "Ana", "text": f"{number} " + "word after word " * 300} for number in range(200)]
    Path("chat.json").write_text(json.dumps(turns))
    made = run("add", "episode", "chat.json", "--agent", "ops", "--session", "s1", "--json").json["memory"]
    run("delete", made["id"], "--yes")
    document = run("vacuum", "--json").json
    assert document["bytes_freed"] == document["bytes_before"] - document["bytes_after"] > 500_000
    assert Path(document["path"]).stat().st_size <= document["bytes_after"]
    assert run("vacuum").out == f"no unused space in {document['path']}\n"
    assert run("stats").code == 0


def test_vacuum_names_the_space(project: Path, deployed: dict[str, str], run: Run) -> None:
    turns = [{"speaker": "Ana", "text": f"{number} " + "word after word " * 300} for number in range(200)]
    Path("chat.json").write_text(json.dumps(turns))
    made = run("add", "episode", "chat.json", "--agent", "ops", "--session", "s1", "--json").json["memory"]
    run("delete", made["id"], "--yes")
    assert re.fullmatch(r"freed \d+\.\d MB; \S+alma\.db is now \d+\.\d kB\n", run("vacuum").out)
    assert run("list", "--json").json["count"] == 5


def test_vacuum_writes_a_file_of_lines_anew(project: Path, run: Run) -> None:
    (project / ".alma" / "config.yaml").write_text("project_id: shop\nembedding_provider: hash\nstorage: file\n")
    made = run("add", "knowledge", "--agent", "dev", "--domain", "x", "--fact", "Unmistakable", "--json").json
    run("delete", made["memory"]["id"], "--yes")
    assert run("vacuum", "--json").json["bytes_freed"] > 0
    assert not any(b"Unmistakable" in file.read_bytes() for file in (project / ".alma").iterdir())


def test_erase_asks_counts_and_proves(project: Path, run: Run, answering: Callable[[str], None]) -> None:
    run("add", "preference", "--user", "ana", "--category", "tone", "--preference", "Short")
    answering("n\n")
    assert run("erase", "--user", "ana").out == "Nothing was changed.\n"
    erased = run("erase", "--user", "ana", "--yes")
    assert erased.code == 0
    assert erased.out.splitlines() == [
        "deleted everything of user 'ana'",
        "  user preference  1",
        "looked at all records, alma.db, alma.db-wal, alma.db-shm: nothing is left",
        "not checked: exports and backups that were made before",
    ]
    again = run("erase", "--user", "ana", "--yes", "--json").json
    assert (again["counts"], again["proof"]["records"], again["proof"]["bytes"]) == ({}, 0, 0)


def test_the_former_names_of_erase_still_work(project: Path, run: Run) -> None:
    for words in (("delete", "--user", "ana"), ("erase-user", "ana")):
        run("add", "preference", "--user", "ana", "--category", "tone", "--preference", "Short")
        assert run(*words, "--yes").out.startswith("deleted everything of user 'ana'\n  user preference  1\n")


def test_erase_names_what_is_left_and_fails(project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    config = (project / ".alma" / "config.yaml").read_text()
    run("add", "preference", "--user", "ana", "--category", "tone", "--preference", "Answers with many footnotes")
    (project / ".alma" / "config.yaml").write_text(re.sub("project_id: .*", "project_id: other", config))
    erased = run("erase", "--user", "ana", "--yes")
    assert erased.code == 1
    assert "left are 2 records in project 'shop'" in erased.out
    (project / ".alma" / "config.yaml").write_text(config)
    monkeypatch.setattr(SQLiteStore, "vacuum", lambda self: None)
    erased = run("erase", "--user", "ana", "--yes")
    assert erased.code == 1
    assert re.search(r"left are \d+ places in alma\.db", erased.out)


def test_upkeep_counts_what_each_step_changed(project: Path, deployed: dict[str, str], run: Run) -> None:
    config = project / ".alma" / "config.yaml"
    config.write_text(f"{config.read_text()}  upkeep: {{max_memories: 3, history_days: 30}}\n")
    refused = run("upkeep")
    assert refused.code == 1
    assert "upkeep" in refused.err, "a quota needs a trusted folder"
    run("trust")
    planned = run("upkeep", "--dry-run").out
    assert re.search(r"memories archived over a limit +2\n", planned)
    assert re.search(r"dry run +yes\n", planned)
    assert "_" not in planned, "names of counts are plain words"
    assert run("list", "--json").json["count"] == 5
    document = run("upkeep", "--json").json
    assert document["counts"]["over_quota"] == len(document["ids"]["over_quota"]) == 2
    assert run("list", "--json").json["count"] == 3
    assert "not due" in run("upkeep", "--if-due").out
    archived = document["ids"]["over_quota"][0]
    assert run("update", archived, "--status", "active").code == 0
    assert re.search(r"memories archived over a limit +1\n", run("upkeep").out)
    assert re.search(r"pairs compared +0\n", run("consolidate").out)


def test_upkeep_names_wrong_settings(project: Path, run: Run) -> None:
    config = project / ".alma" / "config.yaml"
    before = config.read_text()
    for line, message in (
        ("{unused_days: -1}", "upkeep.unused_days must be a number from 0 to 100,000, not -1"),
        ("{max_memories: none}", "upkeep.max_memories must be a whole number from 1"),
        ("{half_life_days: 3}", "upkeep.half_life_days must be a JSON object"),
        ("{half_life_days: {ops: soon}}", "upkeep.half_life_days.ops must be a finite number"),
        ("{half_life_days: {ops: 0}}", "upkeep.half_life_days.ops must be a number from 0.01"),
        ("{archive_under: 0.1}", "unknown key 'archive_under' in upkeep. Did you mean 'archive_below'?"),
        ("7", "upkeep must be a mapping with keys from: every_hours"),
    ):
        config.write_text(f"{before}  upkeep: {line}\n")
        run("trust")
        ran = run("--config", str(config), "upkeep")
        assert (ran.code, message in ran.err) == (1, True), ran.err


def test_consolidate_says_what_a_model_would_add(project: Path, run: Run) -> None:
    facts = (
        "Backups run every night at 2",
        "The backups run every night at 2",
        "Backups run every night, or so it seems",
    )
    rows = [{"type": "domain_knowledge", "agent": "ops", "domain": "ops", "fact": fact} for fact in facts]
    Path("facts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    run("add", "many", "facts.jsonl")
    plan = run("consolidate", "--dry-run", "--json").json
    assert run("list", "--json").json["count"] == 3
    ran = run("reconcile", "--json")
    assert (ran.code, ran.json) == (0, plan)
    assert (len(plan["merged"]), plan["problem"]) == (1, "no model is configured")
    assert run("list", "--json").json["count"] == 2
    assert "no model is configured" in run("consolidate").out


def test_a_conflict_is_shown_with_the_commands_that_decide_it(project: Path, run: Run) -> None:
    for source, fact in (("user", "Billing runs on Postgres 14"), ("agent", "Billing runs on MySQL 8")):
        place = ("--domain", "ops", "--subject", "billing", "--attribute", "database", "--source", source)
        run("add", "knowledge", "--agent", "ops", "--fact", fact, *place)
    shown = run("conflicts").out
    assert re.search(r"older  ops: Billing runs on Postgres 14\n +kno_\w+: [-0-9]+ [:0-9]+, user, active, ops\n", shown)
    [command] = re.findall(r"alma (conflicts resolve cmp_\w+ --keep older)", shown)
    assert "Billing runs on MySQL 8" in run(*command.split()).out
    assert run("conflicts", "list").out == "No conflicts.\n"
    ran = run(*command.split())
    assert (ran.code, "list them: `alma conflicts`" in ran.err) == (1, True)
