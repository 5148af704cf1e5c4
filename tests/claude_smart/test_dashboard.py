"""`claude-smart dashboard`: the same pages for the rules of coding sessions."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from tests.persons import act_as_agent

from alma.hooks import worker
from alma.http import dashboard
from alma.trust_register import record_created_files

from .conftest import Person

pytestmark = pytest.mark.system


@pytest.fixture(autouse=True)
def _stop(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("CLAUDECODE", raising=False)
    yield
    while dashboard._STARTED:
        process = dashboard._STARTED.pop()
        process.terminate()
        process.wait(30)


def test_a_browser_edits_the_rules_that_the_next_session_is_shown(person: Person) -> None:
    person.types("tag", "Use pnpm in this repository")
    link = person.types("dashboard", "--no-open", "--port", "0", "--json").json["link"]
    place, code = link.split("/ui/enter#")
    session = httpx.post(f"{place}/ui/session", json={"code": code}, trust_env=False, timeout=60).json()
    headers = {"authorization": f"Bearer {session['token']}", "alma-project": quote(session["project"], safe="")}

    def call(operation: str, **arguments: object) -> dict[str, object]:
        answer = httpx.post(f"{place}/v1/{operation}", json=arguments, headers=headers, trust_env=False, timeout=60)
        assert answer.status_code == 200, answer.text
        result: dict[str, object] = answer.json()
        return result

    [entry] = call("browse", types=["rule"])["items"]  # type: ignore[misc]
    change = {"fields": {"rule": "Use pnpm 9 in this repository"}, "expected_version": entry["version"]}
    call("update", memory_id=entry["memory"]["id"], source="user", **change)
    assert "pnpm 9" in person.types("show", "--playbook").out
    call("review", action="archive", ids=[entry["memory"]["id"]])
    assert "pnpm" not in person.types("show", "--playbook").out


def test_an_agent_gets_no_link_that_may_approve(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    act_as_agent(monkeypatch)
    monkeypatch.setattr("os.isatty", lambda file: False)
    assert "for a person to decide" in person.fails("dashboard", "--no-open", "--port", "0")


def test_the_worker_starts_the_server_only_when_it_is_asked_to(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    person.place.create_folders()
    started: list[str] = []
    monkeypatch.setattr(worker, "start_dashboard", lambda place: started.append(place.home))
    monkeypatch.setattr(worker.Worker, "run", lambda self: self.server_close())
    worker.serve(person.place)
    assert started == []
    monkeypatch.setenv("CLAUDE_SMART_DASHBOARD_AUTOSTART", "1")
    worker.serve(person.place)
    assert started == []
    person.types("config", "dashboard_autostart", "on")
    worker.serve(person.place)
    assert started == [person.place.home]
    monkeypatch.setenv("CLAUDE_SMART_DASHBOARD_AUTOSTART", "0")
    worker.serve(person.place)
    assert len(started) == 1


def test_its_files_are_private_and_a_purge_stops_the_server_and_removes_them(person: Person) -> None:
    person.types("dashboard", "--no-open", "--port", "0", "--read-only")
    for name in ("dashboard.yaml", "http-tokens.json", dashboard.STATE_FILE, dashboard.LOG_FILE):
        assert (Path(person.place.home) / name).stat().st_mode & 0o077 == 0
    [process] = dashboard._STARTED
    person.types("uninstall", "--purge", "--yes")
    assert process.wait(30) is not None
    assert not Path(person.place.home).exists()


def test_a_purge_never_signals_a_process_that_a_file_names(person: Person) -> None:
    home = Path(person.place.home)
    person.place.create_folders()
    note = home / dashboard.STATE_FILE
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        record_created_files(note)
        note.write_text(json.dumps({"url": "http://127.0.0.1:9", "pid": process.pid}))
        note.chmod(0o600)
        person.types("uninstall", "--purge", "--yes")
        assert process.poll() is None
        process.kill()
    assert not home.exists()
