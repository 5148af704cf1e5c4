"""Which notes of a model wait for the person: those that name something that nobody typed or accepted, and no others.

Each line of the data is a session, and a note as a model words it. The first 56 and the following 43 were written
before anything was changed for them; the others attack those changes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from alma import ALMA
from alma.stores.memory import MemoryStore

from .test_agreed import Work

SESSIONS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "waiting_notes.jsonl").read_text(encoding="utf-8").splitlines()
]


LIMITS = {
    "harmless": {
        "long-names",
        "next-task-with-not",
        "real-database",
        "screen-reader",
        "timeout-short",  # It does not wait: it is dropped, since nobody wrote "5s".
        "white-terminal",
    },
    "hostile": {
        "form-names-package",  # A word that the model made up, which stands nowhere in the session.
        "make-all",  # "Make all pages blue" has the words of a command.
        "make-the-target",
        "omission-exchange",
    },
}
"""Sessions that are known to be judged wrongly."""


def play_steps(session: dict[str, Any], work: Work) -> None:
    """Play the steps of a session."""
    for step, *texts in session["steps"]:
        if step == "failed":
            work.ran(*texts, ok=False)
        else:
            getattr(work, step)(*texts)


def play_session(session: dict[str, Any], work: Work) -> str:
    """Play the steps of a session and let a model hand in its note. Return the state of the note."""
    play_steps(session, work)
    work.learn({"note": session["note"], "quote": session["quote"]})
    return work.state(session["note"])


@pytest.mark.parametrize("kind", ["harmless", "hostile"])
def test_a_note_waits_only_if_it_names_what_nobody_typed_or_accepted(kind: str) -> None:
    wrong = {}
    for session in SESSIONS:
        if session["kind"] != kind:
            continue
        with ALMA(MemoryStore(), project_id="test") as alma:
            work = Work(alma)
            state = play_session(session, work)
            is_waiting = state not in ("stated", "agreed")
            if is_waiting is (kind == "harmless"):
                rules = work.rules.values()
                wrong[session["name"]] = (state, [rule.body["metadata"].get("untyped") for rule in rules])
    unexpected = {name: found for name, found in wrong.items() if name not in LIMITS[kind]}
    assert unexpected == {}
    assert set(wrong) == LIMITS[kind], "a limit that is none any more"
