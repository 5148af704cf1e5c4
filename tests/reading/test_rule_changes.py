"""Pairs of rules, written before the reader: which the newer one replaces, may contradict, or leaves alone."""

from __future__ import annotations

from pathlib import Path

from alma.reading.port import Verdict
from alma.reading.rule_changes import find_rule_change

PAIRS = [line.split("\t") for line in (Path(__file__).parent / "data" / "changed_rules.tsv").read_text().splitlines()]


def test_changed_rules_are_found_and_others_left_alone() -> None:
    found = {(older, newer): find_rule_change(older, newer) for _, older, newer in PAIRS}
    wrong = []
    for label, older, newer in PAIRS:
        verdict = found[older, newer]
        expected = {"key": {Verdict.REPLACES}, "conflict": {Verdict.CONTRADICTS, Verdict.REPLACES}}
        if verdict not in expected.get(label, {Verdict.UNRELATED}):
            wrong.append((label, older, newer, str(verdict)))
    assert not wrong


def test_an_addition_replaces_nothing() -> None:
    assert find_rule_change("Use port 3000 for the dev server", "Also use port 4000 for the dev server") is (
        Verdict.UNRELATED
    )
    assert find_rule_change("Use pnpm", "Use pnpm") is Verdict.UNRELATED
