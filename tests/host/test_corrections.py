"""A correction of each kind, said in Claude Code, reaches the next session, with and without a reader."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import Any

import pytest
from tests.hosts.kinds import KINDS, TASKS, number_notes, write_programs

from alma.hooks import worker

from .test_reading import QUESTION

pytestmark = pytest.mark.system


def name_tool(reply: dict[str, object]) -> dict[str, object]:
    """Return a reply of the other agents' model as one of this model."""
    return {"bash" if name == "shell" else name: value for name, value in reply.items()}


def let_read(person: Any) -> None:
    """Drain and read in a process of its own; the model finds the notes of all kinds."""
    nothing = {"when": QUESTION, "text": '{"notes": []}'}
    person.model.will_say(
        {"when": f"{QUESTION}.*discount for students", "text": json.dumps({"notes": number_notes()})},
        {"when": "look at commands of a coding agent", "text": '{"cases": []}'},
        *[nothing] * 3,
    )
    command = [sys.executable, "-I", worker.FILE, "--home", str(person.smart_home), "--once"]
    subprocess.run(command, env=person.environ, timeout=60, check=True)


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_each_kind_of_correction_reaches_the_next_session(person: Any) -> None:
    shop = person.project("shop")
    write_programs(shop)
    for setting, value in (("program", str(person.binary)), ("model", "on"), ("learn_offer", "off")):
        assert person.smart("config", setting, value).returncode == 0
    with person.session(shop, options=["--allowedTools", "Bash"]) as session:
        for kind in KINDS.values():
            session.says(kind.task, *map(name_tool, kind.done))
            session.says(kind.answer, *map(name_tool, kind.then))
    person.learn()
    asked = json.dumps(person.says(TASKS, shop).requests, ensure_ascii=False)
    taught = [part for kind in KINDS.values() for part in kind.excerpt]
    noted = [str(kind.note["note"]) for kind in KINDS.values()]
    assert [part for part in taught if part not in asked] == [], asked
    assert not any(note in asked for note in noted), "nothing was read yet"

    let_read(person)
    asked = json.dumps(person.says(TASKS, shop).requests, ensure_ascii=False)
    assert [note for note in noted if note not in asked] == [], person.rules(shop)
    assert person.complaints() == []
