"""The example notebooks run, show what they print, and reach the results they promise."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from tests.forked import share_forks
from tools.run_notebooks import NOTEBOOKS, RUNNER, read_notebook, read_sources

PRESETS = Path(__file__).parent.parent / "src" / "alma" / "domain_presets"
RESULTS = {
    "coding": ["['Blue-green deployment']", "['Rolling update']", "worked 3 of 3", "clear the session cache"],
    "content_creation": ["['Ask a question', 'State a number']", "['Use a pun']", "no passive voice", "recorded"],
    "customer_support": ["40,000 orders", "seen by another customer: []", "Split the export by month", "True"],
    "general": ["Sort by date, then by name", "Back up photos", "left: ['2025']"],
    "research": ["then: Compare the methods", "avoid: Search by keywords", "known paper: strong_yes", "year: 2025"],
    "sales": ["anna: Call Globex", "ben: Call Initech", "Show the cost of doing nothing: yes"],
}
REFUSED = {
    "coding": "credentials",
    "content_creation": "unpublished_sources",
    "general": "credentials",
    "research": "participant_data",
    "sales": "payment_details",
}


def hide_dates(text: str) -> str:
    return re.sub(r"\d{4}-\d{2}-\d{2}", "DATE", text)


def test_every_preset_has_a_notebook() -> None:
    presets = {path.stem for path in PRESETS.glob("*.yaml")}
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == presets == RESULTS.keys()


@pytest.mark.system
@pytest.mark.parametrize("name", sorted(RESULTS))
def test_a_notebook_runs_and_shows_what_it_prints(name: str, tmp_path: Path) -> None:
    notebook = NOTEBOOKS / f"{name}.ipynb"
    cells = read_notebook(notebook)["cells"]
    assert 6 <= len(cells) <= 10
    assert cells[0]["cell_type"] == "markdown"
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = share_forks().run(RUNNER, tmp_path, environ=environ, given=read_sources(notebook))
    assert ended.code == 0, ended.err
    outputs: list[str] = json.loads(ended.out)
    for result in RESULTS[name]:
        assert result in "".join(outputs)
    assert REFUSED.get(name, "") in outputs[-1]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    stored = ["".join(text for output in cell["outputs"] for text in output["text"]) for cell in code]
    assert [hide_dates(text) for text in stored] == [hide_dates(text) for text in outputs], (
        "run `python -m tools.run_notebooks` to store what the cells print now"
    )
