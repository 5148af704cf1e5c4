from __future__ import annotations

import os
import subprocess
import sys

import pytest

from alma.session import handoff

pytestmark = pytest.mark.system


def test_this_process_is_not_gone() -> None:
    assert not handoff.is_process_gone(handoff.mark_process())


@pytest.mark.skipif(os.name != "posix", reason="only there can another process be asked about")
def test_an_ended_process_is_gone() -> None:
    code = "import json; from alma.session.handoff import mark_process; print(json.dumps(mark_process()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    import json

    assert handoff.is_process_gone(json.loads(done.stdout))


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="only Linux tells when a process began")
def test_another_process_with_the_same_number_is_not_the_same() -> None:
    assert handoff.is_process_gone({**handoff.mark_process(), "began": "1"})


@pytest.mark.parametrize("held", [None, {}, {"machine": "elsewhere", "pid": 1, "began": ""}, {"pid": "x"}])
def test_what_cannot_be_told_is_not_gone(held: dict[str, object] | None) -> None:
    assert not handoff.is_process_gone(held)


def test_nobody_is_asked_where_asking_would_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {**handoff.mark_process(), "pid": 2**22 + 1}
    monkeypatch.setattr(handoff.os, "name", "nt")
    assert not handoff.is_process_gone(held)
