"""Figures for Prometheus: how many requests, how long they took, how many run now, and how much is remembered."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping

from alma import __version__

from .gate import Call

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Watches the gate. Names of operations and statuses are the only labels: no token, no project, no text."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_flight = 0
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()

    def begun(self, call: Call) -> None:
        with self._lock:
            self._in_flight += 1

    def ended(self, call: Call) -> None:
        name = call.operation or call.path or "unknown"
        took = call.seconds
        with self._lock:
            self._in_flight -= 1
            self._requests[name, call.status] += 1
            self._seconds[name] += took  # type: ignore[assignment]
            counts = self._buckets.setdefault(name, [0] * (len(BUCKETS) + 1))
            counts[bisect_left(BUCKETS, took)] += 1

    def text(self, project: str, memories: Mapping[str, int]) -> str:
        """`memories`: how many the project holds, by type."""
        return "\n".join([*self._lines(), *_held(project, memories)]) + "\n"

    def _lines(self) -> Iterator[str]:
        with self._lock:
            requests, running = dict(self._requests), self._in_flight
            seconds = dict(self._seconds)
            buckets = {name: list(counts) for name, counts in self._buckets.items()}
        yield from _head("alma_info", "gauge", "the version that runs")
        yield f'alma_info{{version="{__version__}"}} 1'
        yield from _head("alma_http_requests_total", "counter", "requests by operation and status")
        for (name, status), count in sorted(requests.items()):
            yield f'alma_http_requests_total{{operation="{_quoted(name)}",status="{status}"}} {count}'
        yield from _head("alma_http_request_seconds", "histogram", "how long requests took")
        for name, counts in sorted(buckets.items()):
            yield from _histogram(_quoted(name), counts, seconds[name])
        yield from _head("alma_http_requests_in_flight", "gauge", "requests that run now")
        yield f"alma_http_requests_in_flight {running}"


def _histogram(name: str, counts: list[int], seconds: float) -> Iterator[str]:
    total = 0
    for bound, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
        total += count
        yield f'alma_http_request_seconds_bucket{{operation="{name}",le="{bound}"}} {total}'
    yield f'alma_http_request_seconds_sum{{operation="{name}"}} {seconds:.6f}'
    yield f'alma_http_request_seconds_count{{operation="{name}"}} {total}'


def _held(project: str, memories: Mapping[str, int]) -> Iterator[str]:
    yield from _head("alma_memories", "gauge", "memories in use, by type")
    for kind, count in memories.items():
        yield f'alma_memories{{project="{_quoted(project)}",type="{_quoted(kind)}"}} {count}'


def _head(name: str, kind: str, told: str) -> Iterator[str]:
    yield f"# HELP {name} {told}"
    yield f"# TYPE {name} {kind}"


def _quoted(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
