from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from alma.hooks.inject import ReadOnlyRules
from alma.hooks.paths import DataDir
from benchmarks import _hook_world as world
from benchmarks import hooks

pytestmark = pytest.mark.system


def test_every_event_is_measured_beside_a_bare_interpreter(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    world.fill(home, rules=40, own=20, turns=40)
    costs = hooks.measured(home, world.repository(tmp_path / "app"), runs=1)
    assert [cost.what for cost in costs[2:]] == [*world.EVENTS, *world.MORE]
    assert all(cost.cpu > 0 and cost.wall > 0 for cost in costs)
    assert [cost.holds for cost in costs[:2]] == [None, None]


def test_the_world_holds_what_it_says(tmp_path: Path) -> None:
    world.fill(tmp_path, rules=40, own=25, turns=10)
    with ReadOnlyRules(DataDir(str(tmp_path)), world.PROJECT) as glance:
        assert glance.count() == 25
        assert len(glance.list_newest()) == 25


def test_what_is_measured_says_something(tmp_path: Path) -> None:
    """A prompt that finds no rule would be cheaper than one that does."""
    world.fill(tmp_path, rules=300, own=300, turns=0)
    cwd = world.repository(tmp_path / "app")
    environ = {"HOME": str(tmp_path)}
    for name in ("SessionStart", "UserPromptSubmit", "PreToolUse"):
        command = [sys.executable, "-I", "-S", hooks.HOOK, name, "--home", str(tmp_path)]
        given = world.payload(name, cwd, f"s-{name}")
        done = subprocess.run(command, input=given, capture_output=True, env=environ, check=True)
        assert json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
