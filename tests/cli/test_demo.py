"""alma demo: it plays to the end, and what it shows is so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alma.cli import demo
from alma.cli.demo import DemoError, expect

Run = Callable[..., Any]


@pytest.fixture
def words_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def configuration(project: str, storage: str, embedding: str, folder: str) -> str:
        return f"project_id: {project}\nstorage_dir: {folder}\nembedding_provider: none\n"

    monkeypatch.setattr(demo, "write_configuration", configuration)


def test_the_story_with_the_best_embedder(run: Run) -> None:
    ran = run("demo", "--fast")
    assert ran.code == 0, ran.err
    for part in ("1. An agent without memory", "★ heuristic formed", "★ anti-pattern formed", "the prompt after"):
        assert part in ran.out
    assert "★ heuristic faded" in ran.out
    assert "9. Where to go next" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 100
    assert "\x1b" not in ran.out


def test_the_story_with_words_only(words_only: None, run: Run) -> None:
    ran = run("demo")
    assert ran.code == 0, ran.err
    assert "words only" in ran.out


def test_colours_where_they_are_wanted(words_only: None, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    ran = run("demo", "--fast")
    assert ran.code == 0, ran.err
    assert "pods not ready" in ran.out
    assert "\x1b[" in ran.out


def test_as_json_it_names_its_acts(words_only: None, run: Run) -> None:
    document = run("demo", "--json").json
    assert document["ok"] is True
    assert document["acts"][0] == "An agent without memory"
    assert len(document["acts"]) == 9


def test_the_story_is_the_same_every_time(words_only: None, run: Run) -> None:
    assert run("demo").out == run("demo").out


def test_keep_leaves_a_memory_to_look_at(words_only: None, run: Run, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    ran = run("demo", "--keep", str(kept))
    assert ran.code == 0
    assert run("stats", "--config", str(kept / "config.yaml"), "--json").json["by_agent"]["ops"] > 10
    again = run("demo", "--keep", str(kept))
    assert again.code == 1
    assert "already exists" in again.err


def test_an_expectation_that_fails_is_loud(words_only: None, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DemoError, match="the demo expected that pigs fly"):
        expect([], "pigs fly")
    monkeypatch.setattr(demo, "ARRIVALS", demo.ARRIVALS[:2])
    ran = run("demo")
    assert ran.code == 1
    assert "error: the demo expected that three successes form a heuristic" in ran.err
