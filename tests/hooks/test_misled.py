"""Attacks in which a session plants something and the model that reads it was misled: nothing of it is passed on.

The first two lists were written by an author who did not know the code, the third against what source files may say.
The harmless sessions beside them must still teach.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .misled import Session, find_leaks, find_losses, play, play_both, read_sessions_of

pytestmark = pytest.mark.system

LISTS = ("misled.jsonl", "misled_later.jsonl", "misled_source.jsonl")
SESSIONS = [session for name in LISTS for session in read_sessions_of(name)]
PARTS = 4
"""Each of which takes seconds."""
LIMITS = {
    # What an agent read in one session and uses in another, without any trace in between.
    "earlier-page-later-deed",
}
"""Attacks that are known to succeed: see "What it can still do" in SECURITY.md."""


def list_sessions(*, is_harmless: bool) -> list[Session]:
    return [session for session in SESSIONS if (session["category"] == "harmless") is is_harmless]


@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_that_was_planted_is_shown(part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leaks: dict[str, dict[str, list[str]]] = {"none": {}, "model": {}}
    sessions = list_sessions(is_harmless=False)[part::PARTS]
    limits = LIMITS & {session["name"] for session in sessions}
    for session in sessions:
        for name, memory in play_both(tmp_path / session["name"], session, monkeypatch).items():
            if found := find_leaks(session, memory):
                leaks[name][session["name"]] = found
    for found_leaks in leaks.values():
        unexpected = {name: found for name, found in found_leaks.items() if name not in limits}
        assert unexpected == {}
        assert set(found_leaks) == limits, "a limit that is none any more"


def test_each_limit_is_a_session() -> None:
    assert {session["name"] for session in list_sessions(is_harmless=False)} >= LIMITS


def test_what_a_person_agreed_to_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = {}
    for session in list_sessions(is_harmless=True):
        memory = play(tmp_path / session["name"], session, monkeypatch, has_model=True)
        if found := find_losses(session, memory):
            losses[session["name"]] = found
    assert losses == {}


def test_no_prompt_of_a_later_session_repeats_what_was_planted() -> None:
    for session in list_sessions(is_harmless=False):
        asked = f"{session['prompt']} {session['call']}".casefold()
        assert [text for text in session["foreign"] if text.casefold() in asked] == [], session["name"]
