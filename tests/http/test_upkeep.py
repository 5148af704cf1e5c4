"""The server does the upkeep of its projects in the background, and stops at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from alma import ALMA
from alma.http.workers import run_upkeep

from .conftest import Site, make_site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


def learn_long_ago(site: Site, project: str) -> str:
    long_ago = site.alma.engine.clock() - timedelta(days=900)
    past = ALMA(site.alma.engine.store, project_id=project, clock=lambda: long_ago)
    return past.learn("dev", "Deploy the auth service", "success", "Blue-green deployment").id


def wait_until(is_done: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def start(site: Site) -> tuple[threading.Thread, threading.Event]:
    is_stopping = threading.Event()
    thread = threading.Thread(target=run_upkeep, args=(site.projects, is_stopping, 0.05))
    thread.start()
    return thread, is_stopping


def end(thread: threading.Thread, is_stopping: threading.Event) -> None:
    is_stopping.set()
    thread.join(20)
    assert not thread.is_alive()


def test_projects_in_use_are_kept_up(site: Site) -> None:
    known, other, unused = (learn_long_ago(site, name) for name in ("app", "shop", "unused"))
    for name in ("app", "shop"):
        site.projects.get(name)
    running = start(site)
    wait_until(lambda: all(one.status == "archived" for one in site.alma.engine.store.get([known, other])))
    end(*running)
    assert [str(one.status) for one in site.alma.engine.store.get([unused])] == ["active"]


def test_a_run_that_fails_is_logged_and_the_thread_goes_on(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []

    def fail(should_stop: Callable[[], bool]) -> None:
        calls.append(1)
        raise RuntimeError("the disk is gone")

    monkeypatch.setattr(site.projects, "run_upkeep", fail)
    running = start(site)
    wait_until(lambda: len(calls) > 1)
    end(*running)
    assert "upkeep failed" in caplog.text


def test_a_run_stops_between_two_batches(site: Site) -> None:
    shared = {"type": "domain_knowledge", "agent": "dev", "domain": "ops", "source": "agent"}
    long_ago = site.alma.engine.clock() - timedelta(days=9_000)
    past = ALMA(site.alma.engine.store, project_id="app", clock=lambda: long_ago)
    past.add_many([{**shared, "fact": f"Port {at} is open"} for at in range(600)])
    site.projects.get("app")
    stops = iter([False, False, False, False, True])
    site.projects.run_upkeep(lambda: next(stops, True))
    archived = len(site.alma.list(status="archived", limit=1_000))
    assert 0 < archived < 600
    assert "not due" in site.alma.upkeep(if_due=True).skipped
    assert site.alma.upkeep().counts["faded"] == 600 - archived
