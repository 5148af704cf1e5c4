"""Rules that stand in CLAUDE.md or AGENTS.md are read by the host itself, and not shown a second time."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Teach = Callable[..., str]
RUN_NPM = {"tool_name": "Bash", "tool_input": {"command": "npm install"}, "tool_use_id": "t1"}


def start(host: Any, session: str = "s1") -> str:
    return str(host.send("SessionStart", session, source="startup"))


@pytest.mark.parametrize(
    "text",
    [
        "# Here\n\n- Use pnpm, not npm\n",
        "* use pnpm,\n  not npm.\n",
        "- **When installing:** Use pnpm, not npm *Why:* the lockfile <!-- 4kq0m8zt w31x9c -->\n",
    ],
)
def test_a_rule_that_stands_there_is_not_shown_again(host: Any, teach: Teach, text: str) -> None:
    id = teach("Use pnpm, not npm", avoid=["npm"])
    teach("Use tabs")
    (host.cwd / "CLAUDE.md").write_text(text)
    assert "pnpm" not in start(host)
    assert "Use tabs" in start(host)
    assert host.send("PreToolUse", **RUN_NPM) == ""
    # It is part of the context all the same: whether it is followed is judged.
    assert id in host.events()[1]["data"]["rules"]


@pytest.mark.parametrize(
    "text",
    [
        "- Don't use pnpm, not npm\n",
        "Use pnpm, not npm\n",
        "<!--\n- Use pnpm, not npm\n-->\n",
        "```\n- Use pnpm, not npm\n```\n",
        "- Use pnpm, not npm, in scripts\n",
    ],
)
def test_what_only_looks_like_it_is_another_thing(host: Any, teach: Teach, text: str) -> None:
    teach("Use pnpm, not npm", avoid=["npm"])
    (host.cwd / "CLAUDE.md").write_text(text)
    assert "Use pnpm, not npm" in start(host)


def test_files_of_the_repository_count_from_a_folder_below(host: Any, teach: Teach) -> None:
    teach("Use pnpm, not npm")
    (host.cwd / "CLAUDE.md").write_text("See @AGENTS.md\n")
    (host.cwd / "AGENTS.md").write_text("- Use pnpm, not npm\n")
    host.cwd /= "web"
    host.cwd.mkdir()
    assert start(host) == ""


@pytest.mark.parametrize(
    ("files", "version", "shown"),
    [
        ({"AGENTS.md"}, "claude-code_2-1-325_harness", False),
        ({".claude/AGENTS.md"}, "claude-code_2-2-0_harness", False),
        # An earlier version, or another host, may not read it: shown twice is better than not at all.
        ({"AGENTS.md"}, "claude-code_2-1-97_harness", True),
        ({"AGENTS.md"}, "", True),
        # Beside a CLAUDE.md, even one above the repository, the host does not read AGENTS.md.
        ({"AGENTS.md", "CLAUDE.local.md"}, "claude-code_2-1-325_harness", True),
        ({"AGENTS.md", "../CLAUDE.md"}, "claude-code_2-1-325_harness", True),
        # The person's own is no obstacle.
        ({"AGENTS.md", "../.claude/CLAUDE.md"}, "claude-code_2-1-325_harness", False),
    ],
)
def test_agents_md_counts_where_the_host_reads_it(
    host: Any, teach: Teach, files: set[str], version: str, shown: bool
) -> None:
    teach("Use pnpm, not npm")
    for name in files:
        path = host.cwd / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("- Use pnpm, not npm\n" if "AGENTS" in name else "- Use tabs\n")
    host.environ["AI_AGENT"] = version
    assert ("Use pnpm, not npm" in start(host)) is shown


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_what_is_no_plain_file_holds_up_nobody(host: Any, teach: Teach) -> None:
    teach("Use pnpm, not npm")
    os.mkfifo(host.cwd / "CLAUDE.md")
    assert "Use pnpm, not npm" in start(host)


def test_a_file_of_opened_comments_is_read_in_no_time(host: Any, teach: Teach) -> None:
    teach("Use pnpm, not npm")
    Path(host.cwd / "CLAUDE.md").write_text("<!--" * 60_000)
    assert "Use pnpm, not npm" in start(host)
