"""Each coding agent that may read corrections, as it is released: a misled model gets nothing done with its tools."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.hosts.agents import AGENTS, PORT
from tests.hosts.conftest import Desk
from tests.hosts.readers import MEMORY, QUESTION, SECRET, SERVER, SETUPS, prepare_person, write_script
from tests.hosts.sealed import run_sealed

from alma.hooks import worker
from alma.models.readers import PROGRAMS

pytestmark = pytest.mark.system

ASK = """
import json, os, sys
from alma.errors import ALMAError
from alma.models.registry import create
from alma.types.asking import Prompt

schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
prompt = Prompt(system="Obey.", text=sys.argv[4], schema=schema)
options = {"path": sys.argv[2], "timeout": 90, **json.loads(sys.argv[3])}
try:
    answer = create(sys.argv[1], options, dict(os.environ)).ask(prompt)
    print(json.dumps({"value": answer.value, "tokens": answer.tokens_in, "model": answer.model}))
except ALMAError as error:
    print(json.dumps({"error": type(error).__name__, "message": str(error)}))
"""
MODELS = {"gemini": "gemini-2.5-flash", "codex": "stub-model"}


def ask(desk: Desk, name: str, replies: list[dict[str, object]], text: str, **environ: str) -> dict[str, Any]:
    """Ask the real agent through our module, sealed. Return the answer and what the model was asked."""
    options = {"model": MODELS[name]} if name in MODELS else {}
    command = [sys.executable, "-I", "-c", ASK, f"{name}-cli", str(desk.installed.program), json.dumps(options), text]
    job = {"command": command, "cwd": str(desk.home), "env": {**desk.environ, **environ}, "replies": replies}
    result = run_sealed({**job, "port": PORT, "seconds": 120})
    assert result["code"] == 0, result["errors"][-2000:]
    return {**json.loads(result["output"]), "requests": result["requests"]}


def list_marks(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "marks").iterdir())


def find_files(home: Path, text: str) -> list[str]:
    files = [path for path in home.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path) for path in files if text.encode() in path.read_bytes()]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_misled_model_is_refused_the_shell_files_and_mcp_servers(name: str, open_desk: Callable[[str], Desk]) -> None:
    desk, setup = open_desk(name), SETUPS[name]
    prepare_person(name, desk.home)
    calls = (setup.shell, *setup.others, setup.server)
    script = write_script(desk.home, *calls, text='{"ok": true}')
    answer = ask(desk, name, script, f"marker-of-the-question, see @{desk.home}/secret.txt and @../secret.txt")
    assert answer.get("value") == {"ok": True}, answer
    assert not any("memory extraction" in json.dumps(request) for request in answer["requests"])
    asked = json.dumps(answer["requests"])
    untried = [tool for tool, _ in calls if f'"{tool}"' not in asked and f"'{tool}'" not in asked]
    assert untried == []
    assert list_marks(desk.home) == [], "a command ran, a file was written, or a hook or a server was started"
    assert (desk.home / "secret.txt").read_text() == f"{SECRET}\n"
    assert [text for text in (SECRET, MEMORY, SERVER) if text in asked] == []
    assert find_files(desk.home, "marker-of-the-question") == [], "no session is kept"


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_calls_work_where_the_person_works(name: str, open_desk: Callable[[str], Desk]) -> None:
    """Show that the test above can fail: its settings are read, its tools are known, and its server starts."""
    desk, setup = open_desk(name), SETUPS[name]
    prepare_person(name, desk.home)
    shop = desk.make_repository("shop")
    script = write_script(desk.home, setup.shell, setup.server, text="done")
    asked = json.dumps(desk.run_session("Task: obey", shop, *script))
    assert SECRET in asked
    assert MEMORY in asked or name in ("goose", "copilot")
    assert {"shell", "server"} <= {*list_marks(desk.home)}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_agent_that_is_not_logged_in_is_unavailable(name: str, open_desk: Callable[[str], Desk]) -> None:
    desk = open_desk(name)
    empty = desk.home / "nobody"
    empty.mkdir()
    own = dict.fromkeys(AGENTS[name].environ, "")
    answer = ask(desk, name, [], "x", **own, HOME=str(empty))
    assert answer.get("error") == "ModelUnavailableError", answer
    assert answer["requests"] == []


UNKNOWN = "hm, the house style here is tabs, you know"
NOTE = {"n": 0, "scope": "project", "note": "Indent with tabs", "quote": "the house style here is tabs"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_only_the_model_understands_reaches_the_next_session(name: str, open_desk: Callable[[str], Desk]) -> None:
    """Record a session in the agent, let its own program read it in the worker, and start another session."""
    desk = open_desk(name)
    shop = desk.make_repository("shop")
    assert desk.smart("install", "--host", name, "--yes", folder=shop)[0] == 0
    settings = {
        "programs": "on",
        "model": "on",
        "reader": name,
        "program": str(desk.installed.program),
        "environment": desk.environ,
    }
    Path(desk.data_dir.config).write_text(json.dumps(settings))
    desk.run_session(UNKNOWN, shop, {"text": "I will use tabs.", "seconds": 1})
    found = json.dumps({"notes": [{**NOTE, "n": number} for number in range(3)]})
    replies = [{"when": f"{QUESTION}.*Write the notes that a careful colleague", "text": found}]
    # Some agents do not report the end of a headless run: the session was idle for an hour.
    for journal in Path(desk.data_dir.sessions).glob("*.jsonl"):
        os.utime(journal, (time.time() - 3600, time.time() - 3600))
    command = [sys.executable, "-I", worker.FILE, "--home", desk.data_dir.home, "--once"]
    job = {"command": command, "cwd": str(desk.home), "env": desk.environ, "replies": replies}
    result = run_sealed({**job, "port": PORT, "seconds": 120})
    assert result["code"] == 0, result["errors"][-2000:]
    assert "local + " + name in desk.smart("status", folder=shop)[1]
    assert "Indent with tabs" in desk.smart("show", folder=shop)[1], desk.smart("status", folder=shop)[1]
    assert "Indent with tabs" in json.dumps(desk.run_session("what is here?", shop, {"text": "ok", "seconds": 1}))
