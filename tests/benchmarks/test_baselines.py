from __future__ import annotations

import pytest
from benchmarks._baselines import Dense, OneVector
from benchmarks._data import Haystack, Session, Turn
from benchmarks._embedder import Remembering

from alma.embedders.hash import HashEmbedder


def session(name: str, *texts: str) -> Session:
    return Session(name, tuple(Turn(f"{name}:{at}", "user", text, None) for at, text in enumerate(texts)))


@pytest.fixture
def haystack() -> Haystack:
    return Haystack(
        "h",
        (
            session("zoo", "The penguins were fed at noon", "Giraffes sleep standing up"),
            session("farm", "The tractor needs diesel", "Barley grows on the north field"),
        ),
        (),
    )


def test_dense_ranks_turns_by_nearness(haystack: Haystack) -> None:
    with Dense(Remembering(HashEmbedder())).opened(haystack) as searcher:
        assert searcher.search("Where does barley grow, on which field?", None, "turn", 1) == ["farm:1"]
        assert searcher.search("When were the penguins fed?", None, "turn", 4)[0] == "zoo:0"


def test_a_session_is_as_near_as_its_nearest_turn(haystack: Haystack) -> None:
    with Dense(Remembering(HashEmbedder())).opened(haystack) as searcher:
        assert searcher.search("Giraffes sleep standing up", None, "session", 5) == ["zoo", "farm"]


def test_no_more_is_found_than_asked_for(haystack: Haystack) -> None:
    with Dense(Remembering(HashEmbedder())).opened(haystack) as searcher:
        assert len(searcher.search("the", None, "turn", 3)) == 3


class ShortSighted(HashEmbedder):
    passage_chars = 60


def test_a_long_turn_is_found_by_its_end() -> None:
    long = "Nothing happened that day. " * 40 + "The lighthouse keeper found a brass sextant."
    held = Haystack("h", (session("diary", long), session("other", "A tin whistle lay on the pier.")), ())
    with Dense(Remembering(ShortSighted())).opened(held) as searcher:
        found = searcher.search("The lighthouse keeper found a brass sextant.", None, "session", 2)
        assert found[0] == "diary"


def test_one_vector_ranks_whole_sessions(haystack: Haystack) -> None:
    system = OneVector(Remembering(HashEmbedder()))
    assert system.levels == ("session",)
    with system.opened(haystack) as searcher:
        assert searcher.search("tractor diesel barley field", None, "session", 5) == ["farm", "zoo"]


def test_vectors_alone_never_keep_silent(haystack: Haystack) -> None:
    with Dense(Remembering(HashEmbedder())).opened(haystack) as searcher:
        assert searcher.search("zzz qqq", None, "session", 5)
