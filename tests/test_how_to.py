"""The commands in the how-to pages work, in the order in which a page shows them.

A `bash` block is run; an `sh` block is only shown, because it needs a network, a server or another program. A block
with `<!-- file: NAME -->` before it is written to that file first. An id that ends in `…` is replaced by the
last id with its prefix that a command printed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest
from tests.forked import share_forks

HOW_TO = Path(__file__).parent.parent / "docs" / "how-to"
PAGES = sorted(HOW_TO.glob("*.md"))
BLOCK = re.compile(r"(?:<!-- file: (?P<file>\S+) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)```", re.DOTALL)
RUNNER = """
import io, json, re, sys
from contextlib import redirect_stdout
from alma import people
from alma.cli import main

# The pages are for persons at a terminal.
people.find_agent = lambda **options: ""
people.find_missing_terminal = lambda: ""
printed = ""
for words in json.loads(sys.argv[1]):
    def fill_in(match):
        return re.findall(match[1] + r"_[0-9a-z]{26}", printed)[-1]
    words = [re.sub(r"\\b([a-z]{3})_\\w*…", fill_in, word) for word in words]
    with redirect_stdout(io.StringIO()) as out:
        code = main(words)
    printed += out.getvalue()
    assert code == 0, f"alma {words}: exit code {code}\\n{out.getvalue()}"
    assert "No relevant memories" not in out.getvalue(), f"alma {words} finds nothing"
"""


def list_commands(text: str) -> list[list[str]]:
    lines = [line for block in BLOCK.finditer(text) if block["kind"] == "bash" for line in block["text"].splitlines()]
    commands = [shlex.split(line, comments=True) for line in lines]
    return [words[1:] for words in commands if words[:1] == ["alma"]]


@pytest.mark.system
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_work(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    commands = list_commands(text)
    if not commands:
        return
    folder = tmp_path / "project"
    folder.mkdir()
    for block in BLOCK.finditer(text):
        if block["file"]:
            file = folder / block["file"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block["text"], encoding="utf-8")
    if not (folder / ".alma/config.yaml").exists():
        commands.insert(0, ["init"])
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config"), "NO_COLOR": "1"}
    ended = share_forks().run(RUNNER, folder, arguments=[json.dumps(commands)], environ={**os.environ, **home})
    assert ended.code == 0, ended.err[-3000:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_says_at_its_top_who_it_is_for(page: Path) -> None:
    title, paragraph = page.read_text(encoding="utf-8").split("\n\n", 2)[:2]
    assert title.startswith("# ")
    assert re.match(r"(\*\*)?For ", paragraph), f"{page.name} begins with {paragraph!r}"
    assert 1 <= len(re.findall(r"[.:](?:\s|$)", paragraph)) <= 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_lines_are_not_wide(page: Path) -> None:
    inside_table_or_code = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        inside_table_or_code ^= line.startswith("```")
        assert len(line) <= 120 or line.startswith("|"), f"{page.name}:{number}"
        assert len(line) <= 110 or inside_table_or_code or line.startswith("|"), f"{page.name}:{number}"
