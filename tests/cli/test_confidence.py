"""`alma confidence` and `alma calibration`."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

AT = ("--task", "Deploy the auth service", "--agent", "ops")


def outcomes(*results: str, strategy: str = "Blue-green deployment") -> str:
    told = {"agent": "ops", "task": "Deploy the auth service", "strategy_used": strategy}
    return "".join(json.dumps({**told, "outcome": result}) + "\n" for result in results)


@pytest.fixture
def tried(project: Path, run: Run) -> None:
    """One strategy that works, one that does not."""
    Path("tried.jsonl").write_text(outcomes(*["success"] * 8) + outcomes(*["failure"] * 8, strategy="Rolling update"))
    run("learn", "--from", "tried.jsonl")


def test_assess_says_how_likely_it_is_and_why(tried: None, run: Run) -> None:
    out = run("confidence", "assess", "Blue-green deployment", *AT).out
    signal = run("confidence", "assess", "Blue-green deployment", *AT, "--json").json
    assert signal["recommendation"].replace("_", " ") in out
    assert f"{signal['predicted_success']:.2f}" in out
    assert "tried                    8" in out
    [first, *_] = signal["opportunity_signals"]
    assert first["description"] in " ".join(out.split())
    assert first["source"].split(", ")[0] in out


def test_what_was_never_tried_is_said_so(project: Path, run: Run) -> None:
    out = run("confidence", "assess", "Pray", *AT).out
    assert "tried                    0" in out


def test_rank_puts_the_best_first_with_its_chance_and_its_risks(tried: None, run: Run) -> None:
    names = ("Rolling update", "Blue-green deployment")
    ran = run("confidence", "rank", *names, *AT)
    assert ran.code == 0
    assert ran.out.index("Blue-green deployment") < ran.out.index("Rolling update")
    assert "avoid" in ran.out
    ranked = run("confidence", "rank", *names, *AT, "--json").json["strategies"]
    assert [one["strategy"] for one in ranked] == ["Blue-green deployment", "Rolling update"]
    assert ranked[0]["predicted_success"] > ranked[1]["predicted_success"]


def test_explore_gives_what_was_tried_little_its_turn(tried: None, run: Run) -> None:
    assert run("confidence", "rank", "Rolling update", "Canary release", *AT, "--explore", "--json").code == 0


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("confidence", "assess", " ", *AT), "empty"),
        (("confidence", "assess", "x", "--task", " ", "--agent", "ops"), "empty"),
        (("confidence", "calibration", "--limit", "0"), "limit must be a whole number"),
    ],
)
def test_bad_input_is_one_clear_line(project: Path, run: Run, argv: tuple[str, ...], message: str) -> None:
    ran = run(*argv)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1
    assert message in ran.err


def test_calibration_says_when_there_is_too_little(project: Path, run: Run) -> None:
    out = run("confidence", "calibration").out
    assert out == "Only 0 outcomes; at least 20 are needed to judge predictions\n"
    Path("few.jsonl").write_text(outcomes("success", "failure"))
    run("learn", "--from", "few.jsonl")
    few = run("confidence", "calibration", "--agent", "ops").out
    assert "Only 2 outcomes; at least 20 are needed" in few
    assert "better" not in few
    assert run("confidence", "calibration", "--agent", "nobody").out.startswith("Only 0 outcomes")


def test_calibration_shows_what_was_predicted_and_what_came_of_it(project: Path, run: Run) -> None:
    Path("many.jsonl").write_text(
        "".join(outcomes("success") + outcomes("failure", strategy="Rolling update") for _ in range(15))
    )
    run("learn", "--from", "many.jsonl")
    report = run("confidence", "calibration", "--limit", "28", "--json").json
    assert report["count"] == 28
    out = run("confidence", "calibration").out
    for part in (
        "count 30",
        f"Brier score {run('confidence', 'calibration', '--json').json['brier']:.2f}",
        "Brier score of the running rate",
        "predicted observed",
    ):
        assert part in " ".join(out.split())
    assert "Predictions are better than the running success rate" in out
    assert "this is a rough estimate" in " ".join(out.split())


def test_how_far_it_is_goes_to_standard_error(tried: None, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert run("confidence", "calibration", "--json").json["count"] == 16
    assert "16/16" in terminal.getvalue()
