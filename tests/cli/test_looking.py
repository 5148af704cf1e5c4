"""`alma search`, `alma browse`, `alma explain`, `alma playbook`, `alma shown` and `alma health`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def test_search_finds_by_words_over_all_agents(project: Path, deployed: dict[str, str], run: Run) -> None:
    [first, *_] = run("search", "logs host", "--json").json["matches"]
    assert first["memory"]["id"] == deployed["fact"]
    out = run("search", "logs host").out
    assert "Logs are on host nine" in out
    assert deployed["fact"][:14] in out


def test_search_filters(project: Path, deployed: dict[str, str], run: Run) -> None:
    ask = ("search", "Deploy the auth service", "--json")
    assert {one["memory"]["type"] for one in run(*ask, "--type", "heuristic").json["matches"]} == {"heuristic"}
    assert run(*ask, "--limit", "1").json["count"] == 1
    assert run(*ask, "--agent", "nobody").json["count"] == 0
    run("update", deployed["heuristic"], "--status", "archived")
    assert run(*ask, "--type", "heuristic").json["count"] == 0
    assert run(*ask, "--type", "heuristic", "--status", "all").json["count"] == 1
    assert run("search", "zebra", "--agent", "nobody").out == "No memories match.\n"


def test_explain_says_why_or_why_not(project: Path, deployed: dict[str, str], run: Run) -> None:
    ask = ("explain", deployed["heuristic"], "--agent", "ops", "--task")
    out = run(*ask, "Deploy the auth service").out
    assert out.startswith("retrieved, rank 1: ")
    assert "similarity" in out
    assert run(*ask, "Bake a cake").out.startswith("not retrieved: it is not similar enough")
    why = run(*ask, "Deploy the auth service", "--json").json
    assert (why["retrieved"], why["memory_id"]) == (True, deployed["heuristic"])
    retrieved = run("retrieve", "Deploy the auth service", "--agent", "ops", "--json").json["explanations"]
    [same] = [one for one in retrieved if one["memory_id"] == deployed["heuristic"]]
    assert why["explanation"]["factors"]["similarity"] == same["factors"]["similarity"]
    assert why["explanation"]["score"] == pytest.approx(same["score"], abs=1e-5)


def test_playbook_is_exactly_the_page(project: Path, deployed: dict[str, str], run: Run) -> None:
    page = run("playbook", "--json").json["text"]
    assert "Blue-green deployment" in page
    assert run("playbook", "--agent", "ops").out == page + "\n"


def test_usage_says_how_many_were_used(project: Path, deployed: dict[str, str], run: Run) -> None:
    ran = run("feedback", "--shown", deployed["fact"], deployed["heuristic"], "--used", deployed["fact"])
    assert ran.out == "recorded: 1 memory used, 1 unused\n"
    evidence = run("show", deployed["fact"], "--json").json["evidence"]
    assert (evidence["uses"], evidence["skips"]) == (1, 0)
    assert run("show", deployed["heuristic"], "--json").json["evidence"]["skips"] == 1
    again = run("feedback", "--shown", deployed["fact"], "heu_none")
    assert again.out == "recorded: 0 memories used, 1 unused\n"
    assert again.err == "warning: ignored feedback on memories that do not exist: heu_none\n"
    none = run("feedback", "--shown", "heu_none")
    assert (none.code, none.out) == (1, "")
    assert none.err.endswith("error: no such memory: heu_none\n")


def test_health_is_well(project: Path, deployed: dict[str, str], run: Run) -> None:
    ran = run("doctor", "--quick")
    assert ran.code == 0
    assert ran.out.startswith("ok: ")
    assert run("doctor", "--quick", "--json").json["problems"] == []


def test_health_says_what_is_not_well(project: Path, deployed: dict[str, str], run: Run) -> None:
    text = "project_id: shop\nembedding_provider: hash\nembedding_dim: 64\n"
    (project / ".alma" / "config.yaml").write_text(text)
    ran = run("doctor", "--quick")
    assert ran.code == 1
    assert ran.out.startswith("problems:")
    assert "reindex" in ran.out
    assert run("doctor", "--quick", "--json").json["ok"] is False


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("search", " "), "WORDS is empty"),
        (("search", "x", "--type", "rumour"), "unknown type 'rumour'"),
        (("search", "x", "--status", "gone"), "unknown status 'gone'"),
        (("search", "x", "--limit", "0"), "limit must be a whole number"),
        (("explain", "heu_none", "--task", "t", "--agent", "a"), "there is no memory 'heu_none'"),
        (("playbook", "--max-tokens", "0"), "--max-tokens must be a whole number"),
        (
            ("learn", "--agent", "a", "--task", "t", "--outcome", "success", "--strategy", "s", "--metadata", "{"),
            "JSON",
        ),
    ],
)
def test_bad_input_is_one_clear_line(project: Path, run: Run, argv: tuple[str, ...], message: str) -> None:
    ran = run(*argv)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1
    assert message in ran.err


def test_browse_prints_what_memories_say_and_how_to_go_on(project: Path, deployed: dict[str, str], run: Run) -> None:
    out = run("browse", "--type", "domain_knowledge").out
    assert "Logs are on host nine" in out
    assert "--cursor" not in out
    first = run("browse", "--limit", "1")
    assert f"--cursor {run('browse', '--limit', '1', '--json').json['next']}" in first.out
    assert run("browse", "--words", "zebra").out == "Nothing found.\n"
    assert run("browse", "observations").out == "Nothing found.\n"


def test_browse_changes_prints_a_line_for_each_change(project: Path, deployed: dict[str, str], run: Run) -> None:
    [change] = run("browse", "changes", "--limit", "1", "--json").json["items"]
    [_, line, _] = run("browse", "changes", "--limit", "1").out.splitlines()
    assert line.startswith(change["change"])
    assert f"{change['memories'][0]['verb']} {change['memories'][0]['text']}" in line
    assert "+00:00" not in line
