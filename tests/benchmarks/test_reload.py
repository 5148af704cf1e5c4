"""The full size is `python -m benchmarks.reload`; times are not judged here."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.reload import COLD, LIMIT, Timing, measure, prepare, repository


@pytest.mark.quality
def test_each_cold_process_finds_what_was_prepared(tmp_path: Path) -> None:
    repository(tmp_path)
    assert prepare(tmp_path, 300) == 300
    timings = measure(tmp_path, 1)
    assert [one.what for one in timings] == list(COLD)
    bare = timings[0].median_s
    assert all(one.median_s > bare for one in timings[1:])


def test_a_slow_reload_falls_short() -> None:
    assert not Timing("quick reload", LIMIT + 0.1, 2.0, 0.2, LIMIT).holds
    assert Timing("quick reload", LIMIT - 0.1, 2.0, 0.2, LIMIT).holds
