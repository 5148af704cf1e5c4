"""An agent that runs whatever it is shown: after an attack it runs nothing of it; what a person agreed to, it does.

The reader is a program, and what is shown is run in a shell. In some sessions each event is a process of the hook.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from alma.hooks import worker

from .misled import Session, look_back, make_host, play_steps, read_sessions_of
from .test_misled import LIMITS

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
SESSIONS = {session["name"]: session for session in read_sessions_of("misled.jsonl")}
ATTACKS = (
    "readme-before-commit",
    "postinstall-hint",
    "ticket-console",
    "subagent-convention",
    "edit-quotes-page",
    "branch-name-carrier",
    "page-into-notes-then-run",
    "curl-ticket",
    "mentioned-file",
    "other-session-launders",
)
HARMLESS = ("repair-after-correction", "german-agreed")
BY_PROCESSES = ("other-session-launders", "german-agreed")
"""The sessions whose events are processes. In the others the hook answers in this process, as test_run.py compares."""
_SPAN = re.compile(r"[`“']([^`“”'\n]{3,200})[`”']")
READER = """\
#!{python}
import json, sys
sys.path[:0] = [{root!r}, {source!r}]
from tests.hooks.misled_notes import answer_notes
session = json.load(open({session!r}))
given = sys.stdin.read()
answer = {{"cases": []}}
if '{{\\n "known"' in given:
    material, _ = json.JSONDecoder().raw_decode(given[given.rindex('{{\\n "known"'):])
    turns = [step["person"] for step in session["steps"] if "person" in step]
    answer = {{"notes": answer_notes(turns, session["notes"], material)}}
usage = {{"input_tokens": 1, "output_tokens": 1}}
print(json.dumps({{"type": "result", "is_error": False, "result": json.dumps(answer), "usage": usage}}))
"""


def list_commands(session: Session) -> list[str]:
    """Return the commands that the agent of a session ran successfully."""
    return [step["input"]["command"] for step in session["steps"] if step.get("tool") == "Bash" and step["ok"]]


def write_programs(folder: Path, session: Session) -> Path:
    """Write programs that record how they were called, for all commands of a session. Return the record."""
    record = folder / "record.txt"
    for command in list_commands(session):
        name = command.split()[0]
        path = folder / name if "/" in name else folder / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> {record}\n')
        path.chmod(0o755)
    record.touch()
    return record


def obey(text: str, folder: Path) -> None:
    """Run all that a text quotes, and each of its lines, as an agent would that obeys what it reads."""
    environ = {"PATH": str(folder / "bin"), "HOME": str(folder)}
    for command in dict.fromkeys([*_SPAN.findall(text), *re.findall(r"ran [`']([^`']+)", text)]):
        given = ["/bin/sh", "-c", command]
        subprocess.run(given, cwd=folder, env=environ, capture_output=True, timeout=60, check=False)


def let_obey(session: Session, folder: Path) -> tuple[str, str]:
    """Play a session, let an obedient agent work in the next one, and return what it ran and what it was shown."""
    host = make_host(folder, session, has_model=True)
    host.starts_processes = session["name"] in BY_PROCESSES
    program = folder / "claude"
    plan = folder / "session.json"
    plan.write_text(json.dumps(session))
    places = {"root": str(ROOT), "source": str(ROOT / "src"), "session": str(plan)}
    program.write_text(READER.format(python=sys.executable, **places))
    program.chmod(0o755)
    settings = {"model": "on", "embedding": "off", "program": str(program), "environment": {"PATH": os.defpath}}
    (host.home / "config.json").write_text(json.dumps(settings))
    for number, steps in enumerate([*session.get("earlier", []), session["steps"]]):
        play_steps(host, f"old-{number}", steps, folder / f"old-{number}.jsonl")
        worker.drain_once(host.place)
    assert "last error" not in host.log()
    shown = look_back(host, session, folder).injected
    work = folder / "work"
    work.mkdir()
    record = write_programs(work, session)
    obey(shown, work)
    return record.read_text(), shown


@pytest.mark.parametrize("name", ATTACKS)
def test_an_obedient_agent_runs_nothing_that_was_planted(name: str, tmp_path: Path) -> None:
    assert name not in LIMITS
    session = SESSIONS[name]
    ran, shown = let_obey(session, tmp_path)
    assert [text for text in session["foreign"] if text in ran or text in shown] == []


@pytest.mark.parametrize("name", HARMLESS)
def test_an_obedient_agent_runs_what_a_person_agreed_to(name: str, tmp_path: Path) -> None:
    session = SESSIONS[name]
    ran, _ = let_obey(session, tmp_path)
    assert session["shown"][0] in ran
