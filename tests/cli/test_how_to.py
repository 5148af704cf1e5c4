"""The command-line sections of the how-to pages run as they are printed, one after the other."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
BLOCK = re.compile(r"(?:<!-- file: (?P<file>\S+) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)```", re.DOTALL)
SHORTENED = re.compile(r"\b([a-z]{3})_\w*…")


PAGES_WITH_COMMANDS = (
    "progress.md", "sessions.md", "domains.md", "workflows.md",
    "ingest.md", "extraction.md", "graph.md", "rules-in-git.md",
)  # fmt: skip


@pytest.mark.parametrize("page", PAGES_WITH_COMMANDS)
def test_commands_run_as_printed(page: str, project: Path, run: Run) -> None:
    _, _, section = (PAGES / page).read_text(encoding="utf-8").partition("## On the command line")
    commands, first = 0, {}
    for found in BLOCK.finditer(section):
        if found["file"]:
            Path(found["file"]).write_text(found["text"], encoding="utf-8")
        for line in found["text"].splitlines() if found["kind"] == "bash" else ():
            words = shlex.split(SHORTENED.sub(lambda one: first[one[1]], line), comments=True)
            ran = run(*words[1:])
            assert (words[0], ran.code) == ("alma", 0), f"{line}\n{ran.err}"
            commands += 1
            # An id that is shortened in the text stands for the first of its sort that was shown.
            for id in re.findall(r"\b[a-z]{3}_[0-9a-z]{26}\b", ran.out):
                first.setdefault(id[:3], id)
    assert commands >= 7
