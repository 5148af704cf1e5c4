from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from benchmarks._data import Haystack, Question, Session, Turn
from benchmarks._trial import Ingest, Level, Plan, run

WHEN = datetime(2024, 5, 20, tzinfo=UTC)


class Scripted:
    """Answers what it is told to, and notes what it was asked."""

    name = "scripted"

    def __init__(self, answers: dict[str, list[str]], levels: tuple[Level, ...] = ("session", "turn")) -> None:
        self.answers = answers
        self.levels = levels
        self.ingest = Ingest()
        self.asked: list[tuple[str, datetime | None, Level, int]] = []

    @contextmanager
    def opened(self, haystack: Haystack) -> Iterator[Scripted]:
        yield self

    def search(self, question: str, at: datetime | None, level: Level, top_k: int) -> list[str]:
        self.asked.append((question, at, level, top_k))
        return self.answers.get(f"{level} {question}", [])


def haystack(*questions: Question, twins: dict[str, str] | None = None) -> Haystack:
    sessions = tuple(Session(name, (Turn(f"{name}:0", "user", name, WHEN),)) for name in ("s1", "s2"))
    return Haystack("h", sessions, questions, twins or {})


def question(text: str, *right: str, answerable: bool = True) -> Question:
    return Question(text, "kind", text, WHEN, answerable, frozenset(right), frozenset(f"{one}:0" for one in right))


def plan(levels: tuple[Level, ...] = ("session",), each: int = 0) -> Plan:
    return Plan(levels, 7, ("u0", "u1", "u2"), each)


def test_each_question_is_asked_as_of_its_date_on_every_level() -> None:
    system = Scripted({"session a": ["s1"], "turn a": ["s1:0"]})
    trial = run(system, [haystack(question("a", "s1"))], plan(("session", "turn")))
    assert system.asked == [("a", WHEN, "session", 7), ("a", WHEN, "turn", 7)]
    assert [(one.right, one.found) for one in trial.answerable["session"]] == [({"s1"}, ("s1",))]
    assert [(one.right, one.found) for one in trial.answerable["turn"]] == [({"s1:0"}, ("s1:0",))]
    assert len(trial.seconds) == 1


def test_a_system_is_not_asked_for_what_it_cannot_rank() -> None:
    trial = run(Scripted({}, levels=("session",)), [haystack(question("a", "s1"))], plan(("session", "turn")))
    assert list(trial.answerable) == ["session"]


def test_unanswerable_questions_are_kept_apart() -> None:
    trial = run(Scripted({}), [haystack(question("a", "s1", answerable=False), question("b", "s1"))], plan())
    assert [one.question for one in trial.unanswerable] == ["a"]
    assert [one.question for one in trial.answerable["session"]] == ["b"]


def test_a_question_without_anything_right_is_not_counted() -> None:
    trial = run(Scripted({}), [haystack(question("a"))], plan())
    assert trial.answerable == {}


def test_finding_the_twin_is_finding_it_once() -> None:
    held = haystack(question("a", "s1"), twins={"s1b": "s1"})
    trial = run(Scripted({"session a": ["s2", "s1b", "s1"]}), [held], plan())
    assert trial.answerable["session"][0].found == ("s2", "s1")


def test_stores_take_turns_at_the_unrelated_questions() -> None:
    system = Scripted({"session u2": ["s1"]})
    trial = run(system, [haystack(), haystack()], plan(each=2))
    assert [one.question for one in trial.unrelated] == ["u0", "u1", "u2", "u0"]
    assert [bool(one.found) for one in trial.unrelated] == [False, False, True, False]


def test_every_question_moves_the_bar() -> None:
    moved: list[int] = []
    run(Scripted({}), [haystack(question("a", "s1"), question("b", "s1"))], plan(), moved.append)
    assert moved == [1, 1]


def test_the_rate_counts_embedding_as_if_nothing_had_been_remembered() -> None:
    # 100 turns in 5 s, of which 4 s went into 40 new texts of 80: all 80 would have taken 8 s.
    ingest = Ingest(turns=100, seconds=5.0, embedding_seconds=4.0, texts=80, fresh_texts=40)
    assert ingest.storing_rate == pytest.approx(100)
    assert ingest.rate == pytest.approx(100 / 9)


def test_without_remembering_the_rate_is_turns_over_seconds() -> None:
    ingest = Ingest(turns=100, seconds=5.0, embedding_seconds=4.0, texts=80, fresh_texts=80)
    assert ingest.rate == pytest.approx(20)


def test_no_rate_is_claimed_when_embedding_was_not_seen() -> None:
    assert Ingest(turns=100, seconds=1.0, embedding_seconds=0.1, texts=80, fresh_texts=0).rate is None
    assert Ingest().rate is None
    assert Ingest().storing_rate is None


def test_words_alone_need_no_embedding() -> None:
    assert Ingest(turns=100, seconds=2.0).rate == Ingest(turns=100, seconds=2.0).storing_rate == pytest.approx(50)
