"""Conversations that are found again: by session, by turn, by time, by whom they concern."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from alma import ALMA
from alma.embedders.local import LocalEmbedder
from alma.errors import NotFoundError, ScopeError
from alma.stores.memory import MemoryStore
from alma.testing import FrozenClock
from alma.types import MemoryScope

MAY = "2026-05-{:02}T10:00:00Z"


def said(text: str, speaker: str = "Ana", **more: Any) -> dict[str, Any]:
    return {"speaker": speaker, "text": text, **more}


TRIP = [
    said("We want to visit the lighthouse in Porto", at=MAY.format(1)),
    said("The lighthouse opens at nine", "assistant", at=MAY.format(1)),
    said("Then we take the early tram", at=MAY.format(1)),
]


@pytest.fixture
def alma(open_everywhere: Callable[..., ALMA]) -> ALMA:
    return open_everywhere()


def found(alma: ALMA, task: str, agent: str = "dev", **options: Any) -> list[str]:
    """The sessions that were found for Ana, or the words of the turns."""
    seen = alma.retrieve(task, agent, **{"user_id": "ana", **options})
    return [one.session_id for one in seen.episodes] or [one.text for one in seen.turns]


@pytest.fixture
def talked(alma: ALMA) -> ALMA:
    alma.add_episode("dev", "trip", TRIP, "ana", title="Porto", tags=["travel"])
    alma.add_episode(
        "dev",
        "cake",
        [said("My sister bakes a lemon cake", at=MAY.format(9)), said("Lovely", "assistant", at=MAY.format(9))],
        "bob",
        tags=["food"],
    )
    return alma


def test_the_conversation_comes_with_its_telling_turns_as_they_were_said(talked: ALMA) -> None:
    seen = talked.retrieve("When does the lighthouse in Porto open?", "dev", "ana")
    [episode] = seen.episodes
    assert (episode.session_id, episode.turn_count, seen.turns) == ("trip", 3, [])
    assert [turn.index for turn in episode.turns] == sorted(turn.index for turn in episode.turns)
    assert {"We want to visit the lighthouse in Porto", "The lighthouse opens at nine"} <= {
        turn.text for turn in episode.turns
    }
    assert [why.memory_id for why in seen.explain()] == [episode.id]
    assert [memory.id for memory in seen] == [episode.id]


def test_single_turns_come_best_first(talked: ALMA) -> None:
    seen = talked.retrieve("The lighthouse opens at nine", "dev", "ana", level="turn")
    assert seen.episodes == []
    assert seen.turns[0].text == "The lighthouse opens at nine"
    scores = [why.score for why in seen.explain()]
    assert scores == sorted(scores, reverse=True)
    assert len(talked.retrieve("The lighthouse opens at nine", "dev", "ana", level="turn", top_k=1).turns) == 1


def test_the_turns_beside_a_telling_one_are_shown_with_it(alma: ALMA) -> None:
    turns = [said("Which hotel did you book in Lisbon?"), said("The Tivoli", "Ben"), said("Thanks")]
    alma.add_episode("dev", "s1", [*turns, *(said(f"Filler number {at}") for at in range(20))])
    [episode] = alma.retrieve("Which hotel in Lisbon was booked?", "dev").episodes
    assert "The Tivoli" in [turn.text for turn in episode.turns]


def test_an_answer_that_shares_no_word_with_the_question_is_among_the_single_turns(alma: ALMA) -> None:
    alma.add_episode("dev", "s1", [said("Which hotel did you book in Lisbon?"), said("The Tivoli", "Ben")])
    assert "The Tivoli" in found(alma, "Which hotel in Lisbon was booked?", level="turn")


@pytest.mark.parametrize("question", ["Bruno", "Who is Bruno?", "E4711", "What about E4711?"])
def test_a_name_or_a_number_that_was_said_is_found(question: str) -> None:
    long = "on the night train, and we stay there until Sunday because the job runs again after we changed the setting."
    with ALMA(MemoryStore(), LocalEmbedder()) as alma:
        alma.add_episode("dev", "s1", [said(f"Yes, for four people. Our dog Bruno comes along {long}"), said("Fine")])
        alma.add_episode("dev", "s2", [said(f"The error code was E4711 {long}", "assistant"), said("Thanks")])
        alma.add_episode("dev", "s3", [said("Tomatoes are red"), said("We like football")])
        assert found(alma, question) == ["s1" if "Bruno" in question else "s2"]


def test_nothing_is_said_when_nothing_is_relevant(talked: ALMA) -> None:
    for level in ("session", "turn"):
        assert talked.retrieve("Refactor the parser module", "dev", "ana", level=level).total_items == 0


def test_a_user_finds_their_own_conversations(talked: ALMA) -> None:
    for level in ("session", "turn"):
        assert found(talked, "lighthouse in Porto", user_id="ana", level=level)
        assert not found(talked, "lighthouse in Porto", user_id="bob", level=level)
        assert not found(talked, "lighthouse in Porto", user_id=None, level=level)


def test_what_another_user_said_in_the_same_session_is_not_told(alma: ALMA) -> None:
    alma.add_episode("dev", "s1", [said("The wombat sleeps in the attic", id="1")], "ana")
    alma.add_episode("dev", "s1", [said("My safe is in the attic", id="2")], "bob")
    [episode] = alma.retrieve("Where does the wombat sleep, in the attic?", "dev", user_id="ana").episodes
    assert [turn.text for turn in episode.turns] == ["The wombat sleeps in the attic"]


def test_tags_filter(talked: ALMA) -> None:
    for level in ("session", "turn"):
        assert found(talked, "lighthouse in Porto", tags=["travel", "x"], level=level)
        assert not found(talked, "lighthouse in Porto", tags=["food"], level=level)


def test_types_filter(talked: ALMA) -> None:
    talked.add_domain_knowledge("dev", "travel", "The lighthouse in Porto is white")
    assert found(talked, "lighthouse in Porto", types=["domain_knowledge"]) == []
    only = talked.retrieve("lighthouse in Porto", "dev", "ana", types=["episode"])
    assert (len(only.episodes), only.domain_knowledge) == (1, [])
    assert not talked.retrieve("lighthouse in Porto", "dev", "ana", mode="learning").episodes


@pytest.mark.parametrize("level", ["session", "turn"])
def test_since_and_until_filter(talked: ALMA, level: str) -> None:
    ask = {"task": "lighthouse in Porto", "level": level}
    assert found(talked, **ask, since=MAY.format(1))
    assert not found(talked, **ask, since=MAY.format(2))
    assert found(talked, **ask, until=MAY.format(2))
    assert not found(talked, **ask, until=MAY.format(1))
    assert found(talked, **ask, since="2026-05-01", until=datetime(2026, 5, 2, tzinfo=UTC))


@pytest.mark.parametrize("level", ["session", "turn"])
def test_as_of_knows_what_had_been_said_by_then(talked: ALMA, level: str) -> None:
    assert found(talked, "lighthouse in Porto", as_of="2026-05-03", level=level)
    assert not found(talked, "lighthouse in Porto", as_of="2026-04-30", level=level)
    assert not found(talked, "lemon cake", as_of="2026-05-03", level=level)


@pytest.mark.parametrize("limit", [{"as_of": "2026-05-02"}, {"until": "2026-05-02"}])
def test_what_was_said_later_in_it_is_not_shown(alma: ALMA, limit: dict[str, str]) -> None:
    turns = [
        said("The wombat sleeps in the attic", at=MAY.format(1)),
        said("The attic is on fire", at=MAY.format(3)),
    ]
    alma.add_episode("dev", "s1", turns)
    [episode] = alma.retrieve("Where does the wombat sleep, in the attic?", "dev", **limit).episodes
    assert [turn.text for turn in episode.turns] == ["The wombat sleeps in the attic"]


@pytest.fixture
def dinners(open_everywhere: Callable[..., ALMA]) -> ALMA:
    alma = open_everywhere(clock=FrozenClock(datetime(2026, 5, 20, tzinfo=UTC)))
    for day in (2, 9, 13):
        alma.add_episode("dev", f"day {day}", [said("We cooked tomato soup for dinner", at=MAY.format(day))])
    return alma


def test_a_time_that_the_question_names_counts(dinners: ALMA) -> None:
    assert found(dinners, "Which tomato soup did we cook for dinner a week ago?")[0] == "day 13"
    assert found(dinners, "Which tomato soup did we cook for dinner on 9 May?")[0] == "day 9"


@pytest.mark.parametrize("question", ["soup last week", "What did we have for dinner three weeks ago last Saturday?"])
def test_nobody_has_to_have_said_the_time(dinners: ALMA, question: str) -> None:
    assert found(dinners, question)


def test_the_newest_comes_first_where_the_recent_is_asked_for(dinners: ALMA) -> None:
    days = (2, 9, 13, 4, 11, 6)
    for day in days[3:]:
        dinners.add_episode("dev", f"day {day}", [said("We cooked tomato soup for dinner", at=MAY.format(day))])
    newest = [f"day {day}" for day in sorted(days, reverse=True)]
    assert found(dinners, "tomato soup for dinner", mode="recent", top_k=6) == newest


def test_agents_do_not_hear_each_other_unless_they_share(open_everywhere: Callable[..., ALMA]) -> None:
    scopes = [MemoryScope("ops", share_with=("dev",)), MemoryScope("dev"), MemoryScope("qa")]
    alma = open_everywhere(agents=scopes)
    alma.add_episode("ops", "s1", TRIP)
    for level in ("session", "turn"):
        assert found(alma, "lighthouse in Porto", "ops", level=level)
        assert found(alma, "lighthouse in Porto", "dev", level=level)
        assert not found(alma, "lighthouse in Porto", "qa", level=level)
    with pytest.raises(ScopeError, match="Did you mean 'ops'"):
        alma.add_episode("opps", "s2", TRIP)


def test_projects_do_not_hear_each_other(open_everywhere: Callable[..., ALMA]) -> None:
    one, other = open_everywhere(project_id="one"), open_everywhere(project_id="other")
    made = one.add_episode("dev", "s1", TRIP)
    assert not found(other, "lighthouse in Porto")
    with pytest.raises(NotFoundError):
        other.get(made.id)


@pytest.fixture
def june(open_everywhere: Callable[..., ALMA]) -> ALMA:
    alma = open_everywhere(clock=lambda: datetime(2026, 6, 17, 12, tzinfo=UTC))
    for session, day, text in (
        ("offsite", "2026-05-10", "We planned the offsite in Lisbon with the design team."),
        ("failed", "2026-06-16", "The deploy failed because the migration locked the orders table."),
        ("fine", "2026-06-09", "The deploy went fine after we pinned the base image."),
    ):
        alma.add_episode(
            "dev", session, [{"role": "user", "content": text, "at": day}], title=f"About {session} things"
        )
    return alma


@pytest.mark.parametrize(
    ("question", "session"), [("What happened yesterday?", "failed"), ("What did we do in May?", "offsite")]
)
def test_a_question_about_a_time_and_nothing_else_gets_what_was_said_then(
    june: ALMA, question: str, session: str
) -> None:
    assert [one.session_id for one in june.retrieve(question, "dev").episodes] == [session]


def test_what_lies_in_the_time_asked_about_comes_first(june: ALMA) -> None:
    assert june.retrieve("What happened with the deploy yesterday?", "dev").episodes[0].session_id == "failed"
    assert june.retrieve("What happened with the deploy on 9 June?", "dev").episodes[0].session_id == "fine"


def test_a_conversation_is_found_by_its_title(june: ALMA) -> None:
    assert june.retrieve("About offsite things", "dev").episodes[0].session_id == "offsite"


def test_thumbs_move_a_conversation_among_its_peers(june: ALMA) -> None:
    first, second = june.retrieve("How did the deploy go?", "dev").episodes
    for _ in range(6):
        june.record_feedback(first.id, signal="thumbs_down")
        june.record_feedback(second.id, signal="thumbs_up")
    assert [one.id for one in june.retrieve("How did the deploy go?", "dev").episodes] == [second.id, first.id]
