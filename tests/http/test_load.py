"""A short run of the load benchmark: nobody gets an error, and nothing that was acknowledged is lost."""

from __future__ import annotations

import json

import pytest

from benchmarks import serve

pytestmark = pytest.mark.system


def test_many_at_once_are_served(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    options = "--seconds 0.3 --clients 64 --memories 50 --embedder none --workers 1 --json".split()
    assert serve.main(options) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["errors"] == []
    assert told["lost"] == 0
    assert [row["operation"] for row in told["rows"]] == ["get", "retrieve", "add_knowledge"]
    assert all(row["done"] > 0 for row in told["rows"])
