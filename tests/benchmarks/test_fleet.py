"""Several API processes on one PostgreSQL, with a kill of both kinds."""

from __future__ import annotations

import pytest
from benchmarks.fleet import is_correct, run_fleet

# That no write is lost when a server is killed is also tested in tests/stores/test_postgres.py and
# tests/http/test_database_away.py, which are not about the benchmark.
pytestmark = [pytest.mark.system, pytest.mark.quality]


def test_no_acknowledged_write_is_lost_or_doubled_by_a_kill() -> None:
    figures = run_fleet(processes=2, clients=4, seconds=2, memories=20, embedder="hash")
    assert is_correct(figures), figures
    assert figures["writes_acknowledged"] > 0
    # Both kills were noticed, and both programs answered again.
    assert sum(figures["repeats"].values()) > 0
    assert all(one["answered_again"] < 60 for one in figures["recovery"].values())
    assert figures["cpu_seconds_per_request"]["api"] > 0
