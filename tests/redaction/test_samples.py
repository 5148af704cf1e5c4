"""Scores on samples that were written before the rules: secrets in 60 forms, and harmless texts that look like some.

The rules were written with the samples of even index only. Of the others only the figures are reported, never a row.
A sample's `\\u241f` keeps scanners from taking this repository for a leak, and is taken out here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from alma.engine.redact import redact

pytestmark = pytest.mark.quality

SAMPLES = Path(__file__).parent / "data" / "secret_samples.jsonl"
MOST_MISSED = 0.05
MOST_FALSE_ALARMS = {"development": 0, "held-out": 1}
"""The aim is none. The one of the held-out half was there before the rules that these samples are for."""


def read_samples(half: int) -> list[dict[str, Any]]:
    lines = SAMPLES.read_text(encoding="utf-8").replace("\u241f", "").splitlines()
    return [sample for sample in map(json.loads, lines) if sample["index"] % 2 == half]


@pytest.mark.parametrize("half", list(MOST_FALSE_ALARMS))
def test_secrets_are_removed_and_nothing_else(half: str) -> None:
    samples = read_samples(1 if half == "held-out" else 0)
    secrets = [sample for sample in samples if sample["secrets"]]
    missed, false_alarms = [], []
    for sample in samples:
        text = redact(sample["text"])
        if any(secret in text for secret in sample["secrets"]):
            missed.append(sample)
        if not sample["secrets"] and text != sample["text"]:
            false_alarms.append(sample)
    figures = f"missed {len(missed)} of {len(secrets)}, {len(false_alarms)} false alarms"
    shown = [f"{sample['form']}: {sample['text']}" for sample in missed + false_alarms if half == "development"]
    is_good_enough = len(missed) <= MOST_MISSED * len(secrets) and len(false_alarms) <= MOST_FALSE_ALARMS[half]
    assert is_good_enough, "\n".join([figures, *shown])
