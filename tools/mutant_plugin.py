"""A pytest plugin that names the current test, selects tests, and reports durations and failures as JSON.

`tools/mutants.py` copies it into a tree's `src`, beside `mutant_probe.py`.
"""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent
REPORT = FOLDER / "mutant_probe.report"
SELECTED = FOLDER / "mutant_probe.selected"
_TESTS_BETWEEN_REPORTS = 50
mutant_probe = import_module("mutant_probe")
_durations: dict[str, float] = {}
_failures: dict[str, str] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Name the test whose fixtures run now. Other tests of the file may share what the fixtures create."""
    mutant_probe.note_test(f"{item.nodeid}\tsetup")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Name the test that runs now."""
    mutant_probe.note_test(f"{item.nodeid}\tcall")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the selected tests, in the order of the selection."""
    if not SELECTED.exists():
        return
    names = json.loads(SELECTED.read_text(encoding="utf-8"))
    places = {name: place for place, name in enumerate(names)}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in places])
    kept = [item for item in items if item.nodeid in places]
    kept.sort(key=lambda item: places[item.nodeid])
    items[:] = kept


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the durations of a test's phases, and note failures. A run that is stopped leaves a report, too."""
    _durations[report.nodeid] = _durations.get(report.nodeid, 0.0) + report.duration
    if report.failed:
        _failures.setdefault(report.nodeid, report.longreprtext[-600:])
    if len(_durations) % _TESTS_BETWEEN_REPORTS == 0:
        _write_report()


def pytest_sessionfinish() -> None:
    """Write durations and failures."""
    _write_report()


def _write_report() -> None:
    """Write durations and failures, in the process that receives all reports."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    report: dict[str, Any] = {"durations": _durations, "failures": _failures}
    REPORT.write_text(json.dumps(report), encoding="utf-8")
