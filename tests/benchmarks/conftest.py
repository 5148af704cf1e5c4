"""Small made-up data in the public formats."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Entry = dict[str, Any]
Write = Callable[..., Path]

TALKS = {
    "trip": ("Which ferry goes to Orkney?", "We took the ferry to Orkney on Tuesday and saw puffins on the cliffs."),
    "dog": ("My beagle Biscuit chewed the slippers.", "Give Biscuit a chew toy and praise the beagle for using it."),
    "bread": ("My sourdough starter smells of vinegar.", "Feed the sourdough starter twice a day with rye flour."),
    "bike": ("The derailleur of my bicycle clicks.", "Index the derailleur: turn the barrel adjuster a quarter turn."),
}


def talk(name: str) -> list[Entry]:
    asked, answered = TALKS[name]
    return [{"role": "user", "content": asked, "has_answer": True}, {"role": "assistant", "content": answered}]


def entry(name: str, question: str, right: list[str], kind: str = "single-session-user", **more: Any) -> Entry:
    made: Entry = {
        "question_id": name,
        "question_type": kind,
        "question": question,
        "question_date": "2024/05/20 (Mon) 09:30",
        "answer": "it is in there",
        "answer_session_ids": right,
        "haystack_session_ids": list(TALKS),
        "haystack_dates": [f"2024/05/{day:02d} (Wed) 10:00" for day in range(1, len(TALKS) + 1)],
        "haystack_sessions": [talk(one) for one in TALKS],
    }
    return made | more


@pytest.fixture
def entries() -> list[Entry]:
    return [
        entry("q1", "Did we take the ferry to Orkney and see puffins on the cliffs?", ["trip"]),
        entry("q2", "What does my beagle Biscuit chew, and what of the sourdough starter?", ["dog", "bread"], "multi"),
        entry("q3_abs", "What is the name of my parrot?", ["dog"]),
    ]


@pytest.fixture
def pool(entries: list[Entry]) -> Entry:
    own = ("haystack_session_ids", "haystack_dates", "haystack_sessions")
    questions = [{name: value for name, value in one.items() if name not in own} for one in entries]
    return {"haystack": {name: entries[0][name] for name in own}, "questions": questions}


@pytest.fixture
def samples() -> list[Entry]:
    first = [("Ann", "I adopted a tortoise called Pebble."), ("Ben", "Lovely! I play the cello in a quartet.")]
    second = [("Ben", "Our quartet plays in Lisbon next month."), ("Ann", "Look at this")]
    conversation: Entry = {
        "speaker_a": "Ann",
        "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": _spoken(1, first),
        "session_2_date_time": "10:05 am on 9 June, 2023",
        "session_2": _spoken(2, second),
    }
    conversation["session_2"][1] |= {"img_url": ["x"], "blip_caption": "a photo of a tortoise on a lawn"}
    qa = [
        {"question": "What is the tortoise called?", "answer": "Pebble", "evidence": ["D1:1 "], "category": 4},
        {"question": "Where does the quartet play?", "answer": "Lisbon", "evidence": ["D:1:2; D2:1"], "category": 1},
        {"question": "Which car does Ann drive?", "adversarial_answer": "a van", "evidence": ["D1:1"], "category": 5},
        {"question": "When was it?", "answer": "2023", "evidence": ["D"], "category": 2},
    ]
    return [{"sample_id": "conv-1", "conversation": conversation, "qa": qa}]


def _spoken(session: int, lines: list[tuple[str, str]]) -> list[Entry]:
    return [
        {"speaker": speaker, "dia_id": f"D{session}:{number}", "text": text}
        for number, (speaker, text) in enumerate(lines, 1)
    ]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def writer(value: Any, name: str = "data.json.gz") -> Path:
        path = tmp_path / name
        raw = json.dumps(value).encode()
        path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
        return path

    return writer
