"""A large export in little memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import _chat_formats as formats
from benchmarks import ingestion as benchmark

pytestmark = pytest.mark.system

MEGABYTES = int(os.environ.get("ALMA_EXPORT_MB", "200"))
MOST_MB = 300
ROOT = Path(__file__).parents[2]


@pytest.mark.quality
def test_a_large_export_is_read_in_little_memory(tmp_path: Path) -> None:
    file = tmp_path / "conversations.json"
    count = benchmark.export(file, MEGABYTES, rows=(8_000, 12_000))
    command = [sys.executable, "-m", "benchmarks.ingestion", "--child", str(file), str(tmp_path / "alma.db"), ""]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert told["conversations"] == count
    assert told["messages"] == count * benchmark.TURNS
    assert told["peak_mb"] < MOST_MB


def test_memory_does_not_grow_with_the_number_of_conversations(tmp_path: Path) -> None:
    peaks = []
    for count in (40, 160):
        formats.spread(tmp_path / str(count), benchmark.talks(1), count)
        peaks.append(benchmark.run(tmp_path / str(count), tmp_path / f"{count}.db").peak_mb)
    assert peaks[1] < 1.25 * peaks[0]
