"""A hook costs about the same processor time in every host: the limit is 1.2 times Claude Code's, in one run."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import pytest
from tests.hooks.hosts.test_loop import HOOKED, build_payload

pytestmark = pytest.mark.quality
_ROUNDS = 60
_LIMIT = 1.2


def measure(host: Any, raw: bytes, name: str) -> float:
    """Return the processor seconds of one hook process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    host.raw(raw, name)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("event", ["UserPromptSubmit", "PostToolUse"])
def test_a_hook_costs_at_most_a_fifth_more_than_in_claude_code(host: Any, teach: Any, home: Path, event: str) -> None:
    (home / "config.json").write_text(json.dumps({"model": "off"}))
    teach("Always use pnpm")
    host.environ["GOOSE_MOIM_MESSAGE_FILE"] = str(home / "goose-context.md")
    # A pending request: no hook starts a process for the drain.
    (home / "sessions").mkdir(exist_ok=True)
    (home / "sessions" / "wanted").touch()
    names = ["claude", *(name for name in HOOKED if name != "claude")]
    lowest = dict.fromkeys(names, float("inf"))
    # Other processes only add to a time, so the lowest counts, and a machine that is busy gets more rounds.
    for number in range(_ROUNDS):
        for name in names:
            payload = json.loads(build_payload(name, event, f"{name}-{number}", str(host.cwd), "install the packages"))
            if event == "PostToolUse":
                payload |= {"tool_name": "Bash", "tool_input": {"command": "npm test"}, "tool_use_id": f"c{number}"}
            lowest[name] = min(lowest[name], measure(host, json.dumps(payload).encode(), name))
        if number >= 8 and max(lowest.values()) <= _LIMIT * lowest["claude"]:
            break
    ratios = {name: round(seconds / lowest["claude"], 2) for name, seconds in lowest.items()}
    told = f"{ratios} after {number + 1} rounds, Claude Code: {lowest['claude'] * 1000:.0f} ms"
    assert max(lowest.values()) <= _LIMIT * lowest["claude"], told
