"""Record which tests reach a mutant. `tools/mutants.py` copies this module into a tree's `src`.

It writes beside itself, not to a path in an environment variable, because some tests start processes with an
environment of their own. It imports little, because hooks load it, too.
"""

from __future__ import annotations

import os
import time

REACHED = os.path.join(os.path.dirname(__file__), "mutant_probe.reached")
RUNNING = os.path.join(os.path.dirname(__file__), "mutant_probe.running")
_SECONDS_BETWEEN_READS = 0.05
# A test may replace the functions of `os` to let files fail, or the clock.
_open, _write, _close, _monotonic = os.open, os.write, os.close, time.monotonic

_process_of_tests = 0
_current_test = ""
_running_tests: list[str] = []
_last_read = float("-inf")
_seen: set[tuple[int, str]] = set()


def reach(mutant: int) -> None:
    """Record that the current tests reach the statement of a mutant."""
    tests = [_current_test] if os.getpid() == _process_of_tests else _list_running_tests()
    for test in tests:
        if test and (mutant, test) not in _seen:
            _seen.add((mutant, test))
            _append_line(f"{mutant}\t{test}\n")


def note_test(name: str) -> None:
    """Set the test that this process runs, for itself and for the processes that it starts."""
    global _process_of_tests, _current_test
    _process_of_tests = os.getpid()
    _current_test = name
    os.makedirs(RUNNING, exist_ok=True)
    with open(os.path.join(RUNNING, str(_process_of_tests)), "w", encoding="utf-8") as file:
        file.write(name)


def _append_line(line: str) -> None:
    try:
        file = _open(REACHED, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        _write(file, line.encode())
        _close(file)
    except OSError:
        return


def _list_running_tests() -> list[str]:
    """Return the tests that all pytest workers run at the moment: one of them uses this process."""
    global _running_tests, _last_read
    if _monotonic() - _last_read > _SECONDS_BETWEEN_READS:
        tests: list[str] = []
        try:
            for name in os.listdir(RUNNING):
                with open(os.path.join(RUNNING, name), encoding="utf-8") as file:
                    tests.append(file.read())
        except OSError:
            return []
        _running_tests = tests
        _last_read = _monotonic()
    return _running_tests
