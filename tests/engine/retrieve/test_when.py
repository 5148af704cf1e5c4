from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma.engine.retrieve.when import windows, without_times

NOW = datetime(2023, 5, 25, 15, 0, tzinfo=UTC)  # a Thursday


def spans(question: str, now: datetime = NOW) -> list[tuple[str, str]]:
    return [(f"{window.start:%Y-%m-%d}", f"{window.end:%Y-%m-%d}") for window in windows(question, now)]


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("What did I buy three weeks ago?", "2023-05-01", "2023-05-08"),
        ("What did I mention a couple of days ago?", "2023-05-21", "2023-05-24"),
        ("What did I buy 10 days ago?", "2023-05-13", "2023-05-18"),
        ("What did I buy 2 days ago?", "2023-05-23", "2023-05-24"),
        ("What charity event did I take part in a month ago?", "2023-04-10", "2023-05-11"),
        ("Where was I two months ago?", "2023-03-07", "2023-04-13"),
        ("What happened half a year ago?", "2022-10-26", "2022-12-26"),
        ("twenty-five days ago", "2023-04-26", "2023-05-05"),
        ("a week or two ago I said so", "2023-05-08", "2023-05-22"),
        ("2-3 weeks ago", "2023-05-01", "2023-05-15"),
        ("two weeks ago today", "2023-05-11", "2023-05-12"),
        ("a week ago Saturday I ran", "2023-05-13", "2023-05-14"),
        ("two Tuesdays ago", "2023-05-16", "2023-05-17"),
        ("two weekends ago", "2023-05-13", "2023-05-15"),
        ("over a year ago", "2021-07-13", "2022-09-23"),
        ("Who did I meet last Tuesday?", "2023-05-23", "2023-05-24"),
        ("Who did I meet on Tuesday?", "2023-05-23", "2023-05-24"),
        ("Who did I meet last Thursday?", "2023-05-18", "2023-05-19"),
        ("What did I do on Friday night?", "2023-05-19", "2023-05-20"),
        ("What did I do on Tuesday of last week?", "2023-05-16", "2023-05-17"),
        ("What did I do last week on Tuesday?", "2023-05-16", "2023-05-17"),
        ("What did I do on the Wednesday two months ago?", "2023-03-22", "2023-03-23"),
        ("What happened this week?", "2023-05-21", "2023-05-29"),
        ("What happened last week?", "2023-05-14", "2023-05-22"),
        ("the week before last", "2023-05-07", "2023-05-15"),
        ("What happened last weekend?", "2023-05-20", "2023-05-22"),
        ("Which bike did I fix the past weekend?", "2023-05-20", "2023-05-22"),
        ("What did I do over the weekend?", "2023-05-20", "2023-05-22"),
        ("What did I do last month?", "2023-04-01", "2023-05-01"),
        ("How many plants did I get in the last month?", "2023-04-25", "2023-05-26"),
        ("in the past two weeks", "2023-05-11", "2023-05-26"),
        ("in the last 3 months", "2023-02-25", "2023-05-26"),
        ("this year", "2023-01-01", "2024-01-01"),
        ("last quarter", "2023-01-01", "2023-04-01"),
        ("since March", "2023-03-01", "2023-05-26"),
        ("since the start of 2023", "2023-01-01", "2023-05-26"),
        ("before April", "1000-01-01", "2023-04-01"),
        ("by the end of 2022", "1000-01-01", "2023-01-02"),
        ("between March and May", "2023-03-01", "2023-06-01"),
        ("between August 11 and August 15 2022", "2022-08-11", "2022-08-16"),
        ("between November and February", "2022-11-01", "2023-03-01"),
        ("from 3 to 10 May", "2023-05-03", "2023-05-11"),
        ("May 3–10, 2022", "2022-05-03", "2022-05-11"),
        ("between 2020 and 2022", "2020-01-01", "2023-01-01"),
        ("from January 2022 until now", "2022-01-01", "2023-05-26"),
        ("What did I do in May?", "2023-05-01", "2023-06-01"),
        ("What did I do in June?", "2022-06-01", "2022-07-01"),
        ("what did i do in march", "2023-03-01", "2023-04-01"),
        ("in early May", "2023-05-01", "2023-05-12"),
        ("mid-April", "2023-04-11", "2023-04-22"),
        ("in May 2021", "2021-05-01", "2021-06-01"),
        ("In Sept. 2022 I said something", "2022-09-01", "2022-10-01"),
        ("in May last year", "2022-05-01", "2022-06-01"),
        ("last year in May", "2022-05-01", "2022-06-01"),
        ("last May", "2022-05-01", "2022-06-01"),
        ("What did I do May 7th?", "2023-05-07", "2023-05-08"),
        ("the 7th of May 2022", "2022-05-07", "2022-05-08"),
        ("on December 1,2022", "2022-12-01", "2022-12-02"),
        ("on 8th December, 2022", "2022-12-08", "2022-12-09"),
        ("on the 5th", "2023-05-05", "2023-05-06"),
        ("the 5th of last month", "2023-04-05", "2023-04-06"),
        ("on 2023/05/07", "2023-05-07", "2023-05-08"),
        ("2023-05-07", "2023-05-07", "2023-05-08"),
        ("at 2023-05-07T10:22:31Z", "2023-05-07", "2023-05-08"),
        ("on 25/04/2023", "2023-04-25", "2023-04-26"),
        ("on 25.04.2023", "2023-04-25", "2023-04-26"),
        ("on 05/07/2023", "2023-05-07", "2023-05-08"),  # the other reading has not come yet
        ("What did I say in 2022?", "2022-01-01", "2023-01-01"),
        ("What did we ship in Q4 2022?", "2022-10-01", "2023-01-01"),
        ("What did we ship in Q1?", "2023-01-01", "2023-04-01"),
        ("in the first week of May", "2023-05-01", "2023-05-09"),
        ("the last weekend of April", "2023-04-29", "2023-05-01"),
        ("first half of 2022", "2022-01-01", "2022-07-02"),
        ("the week of May 8", "2023-05-07", "2023-05-15"),
        ("at the end of last month", "2023-04-21", "2023-05-02"),
        ("the week before August 3, 2022", "2022-07-27", "2022-08-03"),
        ("the Sunday before May 20", "2023-05-14", "2023-05-15"),
        ("last weekend before April 10, 2023", "2023-04-08", "2023-04-10"),
        ("two weeks before August 11, 2022", "2022-07-25", "2022-08-01"),
        ("the day before yesterday", "2023-05-23", "2023-05-24"),
        ("the day after Christmas", "2022-12-26", "2022-12-27"),
        ("What did we cook last summer?", "2022-06-01", "2022-09-23"),
        ("the summer of 2021", "2021-06-01", "2021-09-23"),
        ("last winter", "2022-12-01", "2023-03-21"),
        ("last Christmas", "2022-12-19", "2022-12-31"),
        ("Where did I spend Christmas last year?", "2022-12-19", "2022-12-31"),
        ("at Thanksgiving 2021", "2021-11-22", "2021-11-29"),
        ("on New Year's Eve", "2022-12-31", "2023-01-01"),
        ("Who did I fly with on Valentine's day?", "2023-02-13", "2023-02-16"),
        ("for Easter", "2023-04-06", "2023-04-13"),
        ("last Halloween", "2022-10-28", "2022-11-04"),
        ("yesterday", "2023-05-24", "2023-05-25"),
        ("What did I say today?", "2023-05-25", "2023-05-26"),
        ("the other day", "2023-05-11", "2023-05-25"),
        ("recently", "2023-03-26", "2023-05-26"),
    ],
)  # fmt: skip
def test_an_expression_of_time_is_a_window(question: str, start: str, end: str) -> None:
    assert spans(question) == [(start, end)]


@pytest.mark.parametrize(
    "question",
    [
        "", "may I ask what you may know", "The band will march in formation", "Give me a second", "we sat in the sun",
        "upgrade to version 2022.1", "do it in 2 steps", "sort 2000 items in 2000 steps", "I worked for three weeks",
        "How many days ago did I buy a smoker?", "How long ago was that?", "What did I do 3 weeks before the wedding?",
        "prices fall in the market", "open backup-2023-05-07.sql", "see logs/2023/05/07/app.log", "report_may_2023",
        "What is planned for next week?", "What do I have next Tuesday?", "Remind me tomorrow", "in two weeks",
        "on the 5th floor", "24/7 support and 1/2 cup after the 9/11 attacks", "on a Sunday", "on Saturday mornings",
        "What time do I get up on Saturday?", "every Tuesday", "Taco Tuesday", "When was the last time I ran?",
        "What should I cook tonight?", "What should I serve this weekend?", "What did April tell me about June?",
        "How does Spring Boot work in Spring Security?", "How many did I catch before the 7/22 trip?",
        "When did I read the March 15th issue?", "Where is 'The Summer of 2019' shown?", "`git log --since 2022`",
        "Wie war es im Mai? Was habe ich am Dienstag gemacht?", "¿Qué hice el 5 de mayo?", "en mars 2023", "去年五月",
        "999999999999 years ago", "0 days ago", "before today", "this summer", "in 2099", "what is my last name",
        "Which service did I start using most recently?", "the first three months of my collection",
    ],
)  # fmt: skip
def test_what_is_no_time_of_the_past_gives_no_window(question: str) -> None:
    assert spans(question) == []


def test_both_readings_of_an_ambiguous_date() -> None:
    found = windows("What did I say on 04/03/2023?", NOW)
    assert [(window.start.month, window.start.day) for window in found] == [(4, 3), (3, 4)]
    assert all(window.soft and window.text == "on 04/03/2023" for window in found)


@pytest.mark.parametrize(
    ("question", "soft"),
    [("two months ago", False), ("about two months ago", True), ("a few weeks ago", True), ("last spring", True),
     ("recently", True), ("yesterday", False), ("in late May 2022", True), ("in May 2022", False)],
)  # fmt: skip
def test_vague_words_give_soft_windows(question: str, soft: bool) -> None:
    assert [window.soft for window in windows(question, NOW)] == [soft]


def test_windows_come_in_the_order_read_with_their_words() -> None:
    found = windows("Did I run more in April than the week of May 8, or since yesterday?", NOW)
    assert [window.text for window in found] == ["in April", "the week of May 8", "since yesterday"]


def test_a_date_is_preferred_to_what_is_told_from_it() -> None:
    assert spans("What did Jo finish last Friday, as told on 23 January, 2022?") == [("2022-01-23", "2022-01-24")]
    assert spans("What cake did she make recently in May 2022?") == [("2022-05-01", "2022-06-01")]


def test_days_are_those_of_the_asker() -> None:
    now = datetime(2023, 5, 25, 1, 0, tzinfo=timezone(timedelta(hours=9)))
    [window] = windows("yesterday", now)
    assert window.start == datetime(2023, 5, 23, 15, tzinfo=UTC)
    assert window.end == datetime(2023, 5, 24, 15, tzinfo=UTC)


def test_a_month_is_whole_where_clocks_change() -> None:
    [window] = windows("in March 2023", datetime(2023, 5, 25, tzinfo=ZoneInfo("Europe/Berlin")))
    assert window.start == datetime(2023, 2, 28, 23, tzinfo=UTC)
    assert window.end == datetime(2023, 3, 31, 22, tzinfo=UTC)


def test_the_last_of_february() -> None:
    assert spans("on 29 February", datetime(2023, 5, 1, tzinfo=UTC)) == [("2023-02-28", "2023-03-01")]
    assert spans("a year ago today", datetime(2024, 2, 29, 12, tzinfo=UTC)) == [("2023-02-28", "2023-03-01")]


@pytest.mark.parametrize(
    ("question", "left"),
    [
        ("What did I buy three weeks ago?", "What did I buy?"),
        ("Which vehicle did I wash first in February, the bike or the car?",
         "Which vehicle did I wash first, the bike or the car?"),
        ("In May, where did Anna live?", "where did Anna live?"),
        ("What did I do on Tuesday?", "What did I do on Tuesday?"),
        ("yesterday", "yesterday"),
        ("How many days ago did I buy a smoker?", "How many days ago did I buy a smoker?"),
    ],
)  # fmt: skip
def test_the_question_without_its_times(question: str, left: str) -> None:
    assert without_times(question) == left


_WORDS = st.sampled_from(
    """the a last this past next in on since before after between and to of ago week weeks month year day May March 2022
    Tuesday first half two few about 3 5th 10 2023-05-07 5/7 end early summer Christmas new year's eve yesterday other
    recently morning Q1 – , . ? ' 31 February 30""".split()
)


@given(st.one_of(st.text(max_size=200), st.lists(_WORDS, max_size=14).map(" ".join)),
       st.datetimes(datetime(1970, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC)))  # fmt: skip
def test_any_text_gives_sound_windows(question: str, now: datetime) -> None:
    for window in windows(question, now):
        assert window.start < window.end
        assert window.start <= now
        assert window.start.tzinfo is UTC
        assert window.text in question
    assert without_times(question) or not question


@pytest.mark.parametrize("piece", ["the end of ", "'", "1,", "in May ", "between May and ", "day ", "last ", "\n"])
def test_long_input_takes_no_long_time(piece: str) -> None:
    hostile = piece * (200_000 // len(piece))
    began = time.process_time()
    windows(hostile, NOW)
    assert time.process_time() - began < 1.0
