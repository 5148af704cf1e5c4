"""What may be typed short: ids, the agent, times."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from alma.cli.derive import parse_moment

Run = Callable[..., Any]

NOW = datetime(2026, 5, 7, 12, tzinfo=UTC)


def test_the_ids_of_a_list_are_taken_by_every_command(project: Path, deployed: dict[str, str], run: Run) -> None:
    short = {line.split()[0] for line in run("list").out.splitlines()}
    assert {id[:14] for id in deployed.values()} <= short
    fact = deployed["fact"][:14]
    assert run("show", fact, "--json").json["memory"]["id"] == deployed["fact"]
    assert run("feedback", fact, "up").code == 0
    assert run("feedback", "--shown", fact, "--used", fact).out == "recorded: 1 memory used, 0 unused\n"
    assert run("explain", fact, "--task", "Find the logs", "--agent", "ops").code == 0
    assert run("update", fact, "--tag", "x", "--json").json["memory"]["tags"] == ["x"]
    assert run("delete", fact, "--yes").out == f"deleted {deployed['fact']}\n"
    item = run("work", "add", "Fix it", "--json").json["item"]["id"]
    other = run("work", "add", "Then this", "--blocked-by", item[:14], "--json").json["item"]
    assert other["blocked_by"] == [item]
    assert run("work", "status", item[:14], "done").code == 0


def test_an_ambiguous_id_lists_what_it_may_be(project: Path, deployed: dict[str, str], run: Run) -> None:
    ran = run("show", "out_0")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: id 'out_0' is ambiguous: it matches out_")
    assert deployed["outcome"] in ran.err
    assert ran.err.count("out_") == 4
    assert "there is no memory 'out_zz'" in run("show", "out_zz").err
    Path("chat.json").write_text('[{"speaker": "Ana", "text": "Hello"}]')
    assert run("add", "episode", "chat.json", "--agent", "ops", "--session", "out_0").code == 0


def test_the_agent_comes_from_the_environment_or_the_configuration(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn = ("learn", "--task", "Deploy", "--outcome", "success", "--strategy", "Slowly", "--json")
    for words in (learn, ("retrieve", "Deploy"), ("ingest", "."), ("work", "next", "--claim"), ("session", "list")):
        ran = run(*words)
        assert ran.code == 2
        assert "requires --agent (or $ALMA_AGENT, or default_agent in the configuration)" in (ran.err or ran.out)
    file = project / ".alma" / "config.yaml"
    file.write_text(file.read_text() + "  default_agent: ops\n")
    assert run(*learn).json["outcome"]["agent"] == "ops"
    assert run("retrieve", "Deploy", "--json").json["agent"] == "ops"
    monkeypatch.setenv("ALMA_AGENT", "dev")
    assert run(*learn).json["outcome"]["agent"] == "dev"
    assert run(*learn, "--agent", "qa").json["outcome"]["agent"] == "qa"
    assert run("list", "--type", "outcome", "--json").json["count"] == 3


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("30 minutes", timedelta(minutes=30)),
        ("1 minute ago", timedelta(minutes=1)),
        ("5min", timedelta(minutes=5)),
        ("2 hours", timedelta(hours=2)),
        ("10 days", timedelta(days=10)),
        ("3d", timedelta(days=3)),
        ("12h", timedelta(hours=12)),
        ("2 weeks", timedelta(weeks=2)),
        ("1 week ago", timedelta(weeks=1)),
        ("6 months", timedelta(days=180)),
    ],
)
def test_a_time_may_be_an_age(text: str, age: timedelta) -> None:
    assert datetime.fromisoformat(parse_moment(text, NOW)) == NOW - age


def test_days_begin_at_midnight() -> None:
    today, yesterday = (datetime.fromisoformat(parse_moment(text, NOW)) for text in ("today", "yesterday"))
    assert today - yesterday == timedelta(days=1)
    assert (today.hour, today.minute) == (0, 0)


def test_any_other_time_is_left_to_the_operation(project: Path, deployed: dict[str, str], run: Run) -> None:
    assert parse_moment("2026-05-07") == "2026-05-07"
    assert parse_moment("soon") == "soon"
    assert parse_moment("99999 years") == "99999 years"
    ask = ("retrieve", "Deploy the auth service", "--agent", "ops", "--json")
    assert run(*ask, "--since", "2 weeks").json["total_items"] > 0
    assert run(*ask, "--until", "yesterday").json["total_items"] == 0
    assert run(*ask, "--since", "30 minutes").json["total_items"] > 0
    assert run(*ask, "--as-of", "30 minutes").json["total_items"] == 0
    refused = run(*ask, "--since", "soon")
    assert refused.code == 1
    for form in ("minutes, hours, days, weeks", "yesterday", "2026-05-07T14:30Z"):
        assert form in refused.json["error"]["message"]
