from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from alma.engine.episodes import turn_id
from alma.engine.retrieve.conversations import BLEND, SearchHits, TimeFit, rank_conversations, rank_turns

EPISODES = [f"epi_{number:020x}" for number in range(6)]
scores = st.dictionaries(
    st.builds(turn_id, st.sampled_from(EPISODES), st.integers(0, 4)), st.floats(0.01, 1.0), max_size=12
)
wholes = st.dictionaries(st.sampled_from(EPISODES), st.floats(0.01, 1.0), max_size=6)
lists = st.builds(SearchHits, scores, scores, wholes)


def order(found: SearchHits) -> list[str]:
    return [one.id for one in rank_conversations(found)]


@given(lists)
def test_every_conversation_that_was_found_is_ranked_once(found: SearchHits) -> None:
    expected = {*found.whole, *(f"epi_{id[4:].rpartition('_')[0]}" for id in (*found.meaning, *found.words))}
    assert sorted(order(found)) == sorted(expected)


@given(lists)
def test_turns_are_of_conversations_that_were_found_and_none_comes_twice(found: SearchHits) -> None:
    ranked = rank_conversations(found)
    ids = [one.id for one in rank_turns(found, ranked)]
    assert len(ids) == len(set(ids))
    assert {*found.meaning, *found.words} <= set(ids)
    assert all(f"epi_{id[4:].rpartition('_')[0]}" in order(found) for id in ids)


@given(lists, st.sampled_from(EPISODES))
def test_a_conversation_in_the_time_asked_about_never_falls(found: SearchHits, inside: str) -> None:
    before = order(found)
    if inside in before:
        found.places[inside] = TimeFit.INSIDE
        assert order(found).index(inside) <= before.index(inside)


def test_the_nearer_one_comes_first() -> None:
    found = SearchHits({turn_id(EPISODES[0], 0): 0.4, turn_id(EPISODES[1], 3): 0.7})
    assert order(found) == [EPISODES[1], EPISODES[0]]


def test_saying_it_twice_counts_for_more_than_saying_it_once() -> None:
    once, twice = EPISODES[:2]
    found = SearchHits(words={turn_id(once, 0): 1.0, turn_id(twice, 0): 1.0, turn_id(twice, 2): 1.0})
    assert order(found) == [twice, once]


def test_a_part_of_the_question_can_bring_in_a_conversation_that_the_whole_does_not_find() -> None:
    found = SearchHits({turn_id(EPISODES[0], 0): 0.6}, parts=[SearchHits({turn_id(EPISODES[1], 0): 0.6})])
    assert order(found) == EPISODES[:2]


def test_the_turn_between_two_that_were_found_is_before_one_that_stands_alone() -> None:
    talk, other = EPISODES[:2]
    found = SearchHits({turn_id(talk, 0): 0.6, turn_id(talk, 2): 0.6, turn_id(other, 5): 0.30, turn_id(other, 9): 0.30})
    ids = [one.id for one in rank_turns(found, rank_conversations(found))]
    assert ids.index(turn_id(talk, 1)) < ids.index(turn_id(other, 5))


def test_turns_of_other_conversations_are_left_out_when_some_are_asked_for() -> None:
    found = SearchHits({turn_id(EPISODES[0], 1): 0.6, turn_id(EPISODES[1], 1): 0.5})
    best = rank_conversations(found)[:1]
    assert {one.id for one in rank_turns(found, best)} == {turn_id(EPISODES[0], number) for number in (0, 1, 2)}


def test_meaning_counts_more_where_little_was_said_unless_a_name_is_asked_for() -> None:
    near, worded = EPISODES[:2]
    found = SearchHits({turn_id(near, 0): 0.55, turn_id(worded, 0): 0.40}, {turn_id(worded, 0): 1.0}, {worded: 1.0})
    assert found.measure_fullness() == 0
    assert order(found) == [near, worded]
    found.has_name = True
    assert order(found) == [worded, near]


def test_only_ratios_of_the_blend_matter() -> None:
    found = SearchHits(
        {turn_id(EPISODES[0], 0): 0.5}, {turn_id(EPISODES[1], 0): 1.0}, {EPISODES[2]: 1.0}, has_name=True
    )
    names = ("meaning", "turn_words", "whole_words", "inside", "near", "after")
    doubled = BLEND._replace(**{name: 2 * getattr(BLEND, name) for name in names})
    assert [one.id for one in rank_conversations(found, doubled)] == order(found)
