"""`alma learn` and `alma retrieve`."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

DEPLOY = ("--agent", "ops", "--task", "Deploy the auth service", "--strategy", "Blue-green deployment")


def lines(*outcomes: dict[str, Any]) -> str:
    return "".join(json.dumps(one) + "\n" for one in outcomes)


def outcome(**more: Any) -> dict[str, Any]:
    return {"agent": "ops", "task": "Deploy", "outcome": "failure", "strategy_used": "Rolling update", **more}


def test_learning_says_how_the_strategy_stands_and_what_it_became(project: Path, run: Run) -> None:
    first = run("learn", *DEPLOY, "--outcome", "success")
    assert first.code == 0
    assert "on similar tasks, this strategy worked 1 of 1 times; a heuristic forms after 3 outcomes" in first.out
    run("learn", *DEPLOY, "--outcome", "success")
    third = run("learn", *DEPLOY, "--outcome", "success")
    assert "heuristic formed: Deploy the auth service: Blue-green deployment (3 of 3 worked)" in third.out
    assert "1 of" not in run("learn", *DEPLOY, "--outcome", "success").out


def test_all_options_of_learn_are_recorded(project: Path, deployed: dict[str, str], run: Run) -> None:
    found = run("retrieve", "Deploy the auth service", "--agent", "ops", "--json").json
    made = run(
        "learn", *DEPLOY, "--outcome", "partial", "--task-type", "deployment", "--duration-ms", "1200",
        "--error", "slow", "--feedback", "fine", "--retrieval-id", found["retrieval_id"], "--user", "ana",
        "--tag", "a", "--tag", "b", "--json",
    ).json  # fmt: skip
    kept = made["outcome"]
    assert kept["type"] == "outcome"
    assert (kept["outcome"], kept["task_type"], kept["duration_ms"]) == ("partial", "deployment", 1200)
    assert (kept["error_message"], kept["user_feedback"], kept["tags"]) == ("slow", "fine", ["a", "b"])
    assert kept["retrieval_id"] == found["retrieval_id"]
    assert made["learned"] == []
    assert made["strategy"]["needed"] == 3


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ((*DEPLOY, "--outcome", "succes"), "unknown outcome 'succes'. Did you mean 'success'?"),
        ((*DEPLOY,), "missing --outcome: the result. Valid: success,"),
        ((*DEPLOY, "--outcome", "success", "--retrieval-id", "ret_x"), "there is no retrieval 'ret_x'"),
        ((*DEPLOY, "--outcome", "success", "--duration-ms", "-1"), "--duration-ms must be a whole number"),
        (("--from", "nowhere.jsonl"), "cannot read nowhere.jsonl"),
    ],
)
def test_what_cannot_be_learned_is_refused(project: Path, run: Run, argv: tuple[str, ...], message: str) -> None:
    ran = run("learn", *argv)
    assert ran.code == 1
    assert ran.err.startswith("error: ")
    assert message in ran.err
    assert run("stats", "--json").json["total_count"] == 0


def test_a_file_of_outcomes(project: Path, run: Run) -> None:
    Path("some.jsonl").write_text(lines(outcome(error_message="pods"), outcome(error_message="net")) + "\n")
    ran = run("learn", "--from", "some.jsonl")
    assert ran.code == 0
    assert "recorded 2 outcomes" in ran.out
    assert "anti-pattern formed" in ran.out
    again = run("learn", "--from", "some.jsonl", "--json").json
    assert (again["recorded"], len(again["ids"]), again["learned"]) == (2, 2, [])


def test_many_from_standard_input_with_options_for_the_gaps(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [{"task": f"Task {at}", "outcome": "success", "strategy_used": "Look"} for at in range(150)]
    monkeypatch.setattr("sys.stdin", io.StringIO(lines(*given)))
    assert run("learn", "--agent", "qa", "--task-type", "t", "--from", "-", "--json").json["recorded"] == 150
    assert run("stats", "--json").json["by_agent"]["qa"] >= 150


def test_progress_is_shown_on_standard_error_only(project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    Path("some.jsonl").write_text(lines(*(outcome(task=f"Task {at}", task_type="t") for at in range(120))))
    assert run("learn", "--from", "some.jsonl", "--json").json["recorded"] == 120
    assert "120/120" in terminal.getvalue()


def test_a_line_that_is_not_json_stops_before_anything_is_recorded(project: Path, run: Run) -> None:
    Path("bad.jsonl").write_text(lines(outcome()) + "{\n")
    assert "bad.jsonl, line 2 is not valid JSON" in run("learn", "--from", "bad.jsonl").err
    Path("bad.jsonl").write_text("3\n")
    assert "bad.jsonl, line 1 must be an object" in run("learn", "--from", "bad.jsonl").err
    assert run("stats", "--json").json["total_count"] == 0


def test_a_refused_line_is_named_and_says_what_was_kept(project: Path, run: Run) -> None:
    Path("bad.jsonl").write_text(lines(outcome(), outcome(task="Else"), outcome(outcome="meh"), outcome()))
    ran = run("learn", "--from", "bad.jsonl", "--json")
    assert ran.code == 1
    assert ran.json["error"]["type"] == "ValidationError"
    assert ran.json["error"]["message"].startswith("bad.jsonl, line 3: unknown outcome 'meh'")
    assert ran.json["error"]["message"].endswith(
        " 2 lines before it were stored; correct this line and continue from here."
    )
    assert run("stats", "--json").json["by_type"]["outcome"] == 2


def test_retrieve_groups_by_type(project: Path, deployed: dict[str, str], run: Run) -> None:
    ran = run("retrieve", "Deploy the auth service", "--agent", "ops")
    assert ran.code == 0
    assert ran.out.index("heuristic") < ran.out.index("outcome")
    assert deployed["heuristic"][:14] in ran.out
    assert "factor" not in ran.out


def test_prompt_is_exactly_the_prompt(project: Path, deployed: dict[str, str], run: Run) -> None:
    plain = run("retrieve", "Deploy the auth service", "--agent", "ops", "--prompt").out
    document = run("retrieve", "Deploy the auth service", "--agent", "ops", "--json").json
    assert plain == document["prompt"] + "\n"
    assert plain.startswith("### What worked (learned from outcomes)\n- Deploy the auth service: Blue-green deployment")
    tight = run("retrieve", "Deploy the auth service", "--agent", "ops", "--prompt", "--max-tokens", "40").out
    assert 0 < len(tight) < len(plain)


def test_explain_shows_factors_that_add_up(project: Path, deployed: dict[str, str], run: Run) -> None:
    ran = run("retrieve", "Deploy the auth service", "--agent", "ops", "--explain")
    for name in ("similarity", "recency", "success", "confidence"):
        assert f"\n{name}" in ran.out.partition("weight")[2]
    document = run("retrieve", "Deploy the auth service", "--agent", "ops", "--json").json
    why = document["explanations"][0]
    similar = why["factors"]["similarity"]["value"]
    total = sum(
        part["value"] * part["weight"] * (1.0 if name == "similarity" else similar)
        for name, part in why["factors"].items()
    )
    assert total == pytest.approx(why["score"])
    # What is shown adds up, too.
    formula = next(line for line in ran.out.splitlines() if line.startswith(f"{why['score']:.3f} = similarity"))
    score, similarity, weight, *pairs = map(float, re.findall(r"\d\.\d+", formula))
    others = sum(value * share for value, share in zip(pairs[::2], pairs[1::2], strict=True))
    assert similarity * (weight + others) == pytest.approx(score, abs=0.002)


def test_nothing_relevant_is_said_so(project: Path, deployed: dict[str, str], run: Run) -> None:
    ran = run("retrieve", "Bake a cake", "--agent", "ops", "--explain")
    assert ran.out == "No relevant memories for this task.\n"
    assert run("retrieve", "Bake a cake", "--agent", "ops", "--prompt").out == "\n"
    assert run("retrieve", "Bake a cake", "--agent", "ops", "--json").json["memories"] == []


def test_the_user_s_preferences_come_along(project: Path, run: Run) -> None:
    run("add", "preference", "--user", "ana", "--category", "style", "--preference", "Short answers")
    ran = run("retrieve", "Bake a cake", "--agent", "ops", "--user", "ana")
    assert "Short answers" in ran.out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("Deploy", "--agent", "ops", "--top-k", "-1"), "--top-k must be a whole number from 1"),
        (("Deploy", "--agent", "ops", "--max-tokens", "0"), "--max-tokens must be a whole number greater than 0"),
        ((" ", "--agent", "ops"), "TASK is empty"),
    ],
)
def test_bad_arguments_of_retrieve(project: Path, run: Run, argv: tuple[str, ...], message: str) -> None:
    ran = run("retrieve", *argv)
    assert (ran.code, ran.out) == (1, "")
    assert message in ran.err


def test_an_unknown_agent_is_named_with_the_known_ones(project: Path, run: Run) -> None:
    (project / ".alma" / "config.yaml").write_text("project_id: shop\nembedding_provider: hash\nagents: {coder: {}}\n")
    ran = run("retrieve", "Deploy", "--agent", "codre", "--json")
    assert ran.code == 1
    assert ran.json["error"]["type"] == "ScopeError"
    assert "Did you mean 'coder'?" in ran.json["error"]["message"]


def test_square_brackets_and_braces_are_shown_as_they_are(project: Path, run: Run) -> None:
    fact = "[bold]Deploy[/bold] with {x} :smile: and [/nothing]"
    run("add", "knowledge", "--agent", "ops", "--domain", "ops", "--fact", fact)
    out = run("list").out
    assert all(part in out for part in fact.split())
