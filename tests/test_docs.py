"""Documents that cannot lie: examples run, links lead somewhere, generated parts are up to date."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from argparse import ArgumentParser
from functools import cache
from pathlib import Path

import pytest
import yaml
from tools.generate_docs import PAGES, rendered

from alma.config import load

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"(?:<!-- file: (?P<file>\S+) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)```", re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")

named = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))


def blocks(document: Path, kind: str) -> list[re.Match[str]]:
    return [found for found in BLOCK.finditer(document.read_text(encoding="utf-8")) if found["kind"] == kind]


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 120


@named
def test_links_lead_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text(encoding="utf-8")):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            file = document.parent / path if path else document
            assert file.exists(), f"{document.name} points at {target}"
            assert not anchor or anchor in _anchors(file), f"{document.name} points at {target}"


def _anchors(file: Path) -> list[str]:
    headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings]


@named
def test_python_examples_run(document: Path, tmp_path: Path) -> None:
    examples = blocks(document, "python")
    if not examples:
        return
    for found in blocks(document, "yaml"):
        if found["file"]:
            (tmp_path / found["file"]).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / found["file"]).write_text(found["text"])
    code = "\n".join(found["text"] for found in examples)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]


@named
def test_yaml_examples_load(document: Path, tmp_path: Path) -> None:
    for found in blocks(document, "yaml"):
        data = yaml.safe_load(found["text"])
        wrapped = data if "alma" in data else {"project_id": "p", **data}
        file = tmp_path / "config.yaml"
        file.write_text(yaml.safe_dump(wrapped))
        load(file)


@named
def test_command_examples_are_commands(document: Path, tmp_path: Path) -> None:
    """Each `alma …` line of a shell example is understood by the parser."""
    import shlex

    from claude_smart.cli import build_parser as smart_parser

    for found in blocks(document, "bash"):
        for line in found["text"].splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["claude-smart"]:
                smart_parser().parse_args(words[1:])
            if words[:1] == ["alma"]:
                alma_parser().parse_args(words[1:])


@cache
def alma_parser() -> ArgumentParser:
    from alma.cli.derive import build_parser

    return build_parser()


@pytest.mark.parametrize("page", PAGES)
def test_generated_pages_are_up_to_date(page: str) -> None:
    held = (ROOT / page).read_text(encoding="utf-8")
    # How argparse pads and wraps differs from one Python to the next.
    assert rendered(page, held).split() == held.split(), (
        f"run `python tools/generate_docs.py` to bring {page} up to date"
    )


def test_the_tutorial_shows_what_is_printed(tmp_path: Path) -> None:
    document = ROOT / "docs" / "tutorial" / "first-memory.md"
    code = "\n".join(found["text"] for found in blocks(document, "python"))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True, env={**os.environ}
    )
    [shown] = [found["text"] for found in blocks(document, "text")]
    assert shown.strip() in done.stdout


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda example: example.stem)
def test_examples_run(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_figures_of_language_readers_stand_beside_held_out_text_and_a_baseline() -> None:
    page = (ROOT / "docs/explanation/benchmarks.md").read_text(encoding="utf-8")
    section = page.partition("### Readers of language")[2].partition("\n## ")[0]
    for figure in (".58", ".81", ".76", ".91", ".875"):
        assert figure in section
    for document in DOCUMENTS:
        assert not re.search(r"F1 0?\.75\b|precision 0?\.92\b", document.read_text(encoding="utf-8")), document
