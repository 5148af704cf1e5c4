"""Arguments of conversations and of retrieval: what is wrong is named, with what would be right."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.errors import ValidationError
from alma.stores.memory import MemoryStore
from alma.types import Where


def said(text: Any, speaker: str = "Ana", **more: Any) -> dict[str, Any]:
    return {"speaker": speaker, "text": text, **more}


TRIP = [said("We want to visit the lighthouse in Porto"), said("It opens at nine", "bot"), said("Then we go early")]
GOOD: dict[str, Any] = {"agent": "dev", "session_id": "s1", "turns": TRIP}
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("no agent", {"agent": None}, "missing argument 'agent' of add_episode: the agent's name"),
    ("empty agent", {"agent": ""}, "agent is empty"),
    ("empty session", {"session_id": " "}, "session_id is empty"),
    ("session a number", {"session_id": 7}, r"session_id must be a string, not a number \(7\)"),
    ("long session", {"session_id": "s" * 201}, "session_id has 201 characters; at most 200"),
    ("turns None", {"turns": None}, "missing argument 'turns' of add_episode"),
    ("turns text", {"turns": "Hello"}, "turns must be a list of objects, not a string"),
    ("turns one mapping", {"turns": said("Hello")}, "turns must be a list of objects, not an object"),
    ("a turn as text", {"turns": ["Hello"]}, r"turns\[0\].*must be an object with speaker and text, not a string"),
    ("an unknown key", {"turns": [*TRIP, {"speeker": "Ana"}]}, r"turns\[3\].*'speeker'. Did you mean 'speaker'"),
    ("no speaker", {"turns": [{"text": "Hello"}]}, r"turns\[0\] speaker must be a string, not null"),
    ("empty speaker", {"turns": [said("Hello", "")]}, r"turns\[0\] speaker is empty"),
    ("long speaker", {"turns": [said("Hello", "x" * 201)]}, r"turns\[0\] speaker has 201 characters"),
    ("text a number", {"turns": [said(7)]}, r"turns\[0\] text must be a string, not a number \(7\)"),
    ("text bytes", {"turns": [said(b"x")]}, r"turns\[0\] text must be a string, not bytes; decode"),
    ("text in parts", {"turns": [said([{"type": "text"}])]}, r"turns\[0\] text must be a string, not a list"),
    ("text too long", {"turns": [said("x" * 100_001)]}, r"turns\[0\] text has 100,001 characters; at most 100,000"),
    ("lone surrogate", {"turns": [said("a\udc80")]}, r"turns\[0\] text contains a lone surrogate"),
    ("time without zone", {"turns": [said("x", at=datetime(2026, 5, 7))]}, r"turns\[0\] at has no time zone"),
    ("time in words", {"turns": [said("x", at="yesterday")]}, r"turns\[0\] at must be a time such as 2026"),
    (
        "time a number",
        {"turns": [said("x", at=1778160000)]},
        r"turns\[0\] at must be a time such as 2026-05-07T14:30:00Z, not a number",
    ),
    ("id a number", {"turns": [said("x", id=7)]}, r"turns\[0\] id must be a string, not a number \(7\)"),
    ("tags one text", {"tags": "travel"}, "tags must be a list of names"),
    ("metadata not JSON", {"metadata": {"a": object()}}, "metadata must contain only JSON values"),
    ("title a number", {"title": 7}, "title must be a string"),
    ("unknown argument", {"sesion_id": "s1"}, "unknown argument 'sesion_id' of add_episode. Did you mean 'session_id'"),
]
ASKED: list[tuple[str, dict[str, Any], str]] = [
    ("mode", {"mode": "presice"}, "unknown mode 'presice'. Did you mean 'precise'.*default, precise, broad, recent"),
    ("type", {"types": ["episodes"]}, "unknown type 'episodes'. Did you mean 'episode'"),
    ("types one text", {"types": "episode"}, "types must be a list of names"),
    ("tags one text", {"tags": "travel"}, "tags must be a list of names"),
    ("level", {"level": "turns"}, "unknown level 'turns'. Did you mean 'turn'.*session, turn"),
    ("since", {"since": "last week"}, "since must be a time such as 2026"),
    ("until", {"until": datetime(2026, 5, 7)}, "until has no time zone"),
    ("as_of", {"as_of": 7}, "as_of must be a time such as 2026-05-07T14:30:00Z, not a number"),
    ("an empty span", {"since": "2026-05-07", "until": "2026-05-07"}, "since .* must be before until"),
]


@pytest.fixture
def alma() -> ALMA:
    return ALMA(MemoryStore(), HashEmbedder())


@pytest.mark.parametrize(("change", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_it_is_refused_and_nothing_is_kept(alma: ALMA, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        alma.add_episodes([{**GOOD, **change}])
    assert list(alma.engine.store.scan(Where())) == []


@pytest.mark.parametrize(("options", "message"), [case[1:] for case in ASKED], ids=[case[0] for case in ASKED])
def test_a_bad_question_is_refused(alma: ALMA, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        alma.retrieve("Hello", "dev", **options)


def test_an_episode_is_not_added_like_a_fact(alma: ALMA) -> None:
    with pytest.raises(ValidationError, match="add_episode"):
        alma.add_many([{"type": "episode", **GOOD}])


@pytest.mark.parametrize("empty", [None, ""])
def test_of_two_names_for_the_text_the_filled_one_counts(alma: ALMA, empty: str | None) -> None:
    assert alma.add_episode("dev", "s1", [{"role": "user", "text": empty, "content": "Hello"}]).turn_count == 1


@pytest.mark.parametrize("text", [0, False, [], {}])
def test_a_text_that_is_no_text_is_refused(alma: ALMA, text: Any) -> None:
    with pytest.raises(ValidationError):
        alma.add_episode("dev", "s1", [said(text)])
