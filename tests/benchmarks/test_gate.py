from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.gate import PARTS, main

Entry = dict[str, Any]
SCORES = """print("headline  n 300  any 0.8  all 0.7  right {right}  shown 5.0")
print("headline en  n 229  any 0.8  all 0.7  right 0.75  shown 5.0")
print("update  n 90  any 0.8  all 0.7  right 0.70  shown 5.0")
print("silent en  n 150  shown 1.60")
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data" / "worlds").mkdir(parents=True)
    return tmp_path / "data"


def write_worlds(data: Path, scorer: str) -> None:
    (data / "worlds" / "dev.jsonl").write_text("{}\n")
    (data / "worlds" / "score.py").write_text(scorer)


def run_gate(data: Path, only: str) -> int:
    return main(["--data", str(data), "--only", only, "--cache", str(data / "cache")])


def test_an_unknown_part_is_an_error_that_names_the_parts(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run_gate(data, "locomo,nonsense")
    assert stopped.value.code == 2
    complaint = capsys.readouterr().err
    assert "'nonsense'" in complaint
    assert all(name in complaint for name in PARTS)


def test_parts_without_data_are_reported_as_skipped(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_gate(data, ",".join(name for name, part in PARTS.items() if part.needs)) == 2
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert all("skipped: DATA has no" in line for line in lines)


@pytest.mark.system
@pytest.mark.parametrize(("right", "code", "verdict"), [(0.71, 0, "ok"), (0.70, 1, "MISSED")])
def test_a_missed_limit_fails_the_gate(
    data: Path, capsys: pytest.CaptureFixture[str], right: float, code: int, verdict: str
) -> None:
    write_worlds(data, SCORES.format(right=right))
    assert run_gate(data, "worlds") == code
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.split()[:3] == ["worlds", "right", f"{right:.3f}"]
    assert verdict in first
    assert all("ok" in line and "baseline" in line and "data ca3d163bab05" in line for line in rest)


@pytest.mark.system
def test_a_broken_part_fails_the_gate_and_the_others_still_run(
    data: Path, capsys: pytest.CaptureFixture[str], samples: list[Entry]
) -> None:
    write_worlds(data, "raise TypeError('no clock')")
    (data / "locomo_dev.json.gz").write_bytes(gzip.compress(json.dumps(samples).encode()))
    assert run_gate(data, "worlds,locomo") == 1
    broken, found = capsys.readouterr().out.splitlines()
    assert "FAILED" in broken
    assert "no clock" in broken
    assert found.split()[:3] == ["locomo", "any@10", "1.000"]


@pytest.mark.system
def test_haystacks_are_made_once(data: Path, capsys: pytest.CaptureFixture[str], entries: list[Entry]) -> None:
    (data / "longmemeval_oracle_dev.json.gz").write_bytes(gzip.compress(json.dumps(entries).encode()))
    script = "import shutil, sys; shutil.copy(sys.argv[1], sys.argv[5]); open(sys.argv[1] + '.runs', 'a').write('x')"
    (data / "haystack.py").write_text(script)
    assert run_gate(data, "slike") == 0
    assert run_gate(data, "slike") == 0
    assert (data / "longmemeval_oracle_dev.json.gz.runs").read_text() == "x"
    assert "slike" in capsys.readouterr().out
