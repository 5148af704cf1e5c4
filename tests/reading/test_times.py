from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.timing import cpu_seconds

from alma.reading.questions import find_windows, remove_times

NOW = datetime(2023, 5, 25, 15, 0, tzinfo=UTC)  # a Thursday


def find_days(question: str, now: datetime = NOW) -> list[tuple[str, str]]:
    return [(f"{window.start:%Y-%m-%d}", f"{window.end:%Y-%m-%d}") for window in find_windows(question, now)]


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("What did we decide on 2023-05-07?", "2023-05-07", "2023-05-08"),
        ("the release of May 7th, 2022", "2022-05-07", "2022-05-08"),
        ("What happened on the 7th of May?", "2023-05-07", "2023-05-08"),
        ("on 25/04/2023", "2023-04-25", "2023-04-26"),
        ("What did I do in June?", "2022-06-01", "2022-07-01"),
        ("in May 2021", "2021-05-01", "2021-06-01"),
        ("What broke in 2022?", "2022-01-01", "2023-01-01"),
        ("Who called yesterday?", "2023-05-24", "2023-05-25"),
        ("the day before yesterday", "2023-05-23", "2023-05-24"),
        ("Whom did I meet on Tuesday?", "2023-05-23", "2023-05-24"),
        ("Whom did I meet last Thursday?", "2023-05-18", "2023-05-19"),
        ("What happened this week?", "2023-05-21", "2023-05-29"),
        ("What happened last week?", "2023-05-14", "2023-05-22"),
        ("Where were we last weekend?", "2023-05-20", "2023-05-22"),
        ("What did I read last month?", "2023-04-01", "2023-05-01"),
        ("Which plants did I buy in the last month?", "2023-04-25", "2023-05-26"),
        ("in the past two weeks", "2023-05-11", "2023-05-26"),
        ("2 days ago", "2023-05-23", "2023-05-24"),
        ("three weeks ago", "2023-05-01", "2023-05-08"),
        ("two months ago", "2023-03-07", "2023-04-13"),
        ("since March", "2023-03-01", "2023-05-26"),
        ("before April", "1000-01-01", "2023-04-01"),
        ("between March and May 2022", "2022-03-01", "2022-06-01"),
        ("between August 11 and August 15 2022", "2022-08-11", "2022-08-16"),
        ("between November and February", "2022-11-01", "2023-03-01"),
        ("from 3 to 10 May", "2023-05-03", "2023-05-11"),
        ("Was haben wir vor drei Wochen beschlossen?", "2023-05-01", "2023-05-08"),
        ("Was war am 3. Mai 2022?", "2022-05-03", "2022-05-04"),
        ("letzten Dienstag", "2023-05-23", "2023-05-24"),
        ("¿Qué hice el 5 de mayo?", "2023-05-05", "2023-05-06"),
        ("la semana pasada", "2023-05-14", "2023-05-22"),
        ("hace dos meses", "2023-03-07", "2023-04-13"),
        ("Qu'est-ce que nous avons décidé hier ?", "2023-05-24", "2023-05-25"),
        ("il y a deux semaines", "2023-05-08", "2023-05-15"),
        ("en mars 2023", "2023-03-01", "2023-04-01"),
    ],
)
def test_a_time_is_a_window(question: str, start: str, end: str) -> None:
    assert find_days(question) == [(start, end)]


@pytest.mark.parametrize(
    "question",
    [
        "", "may I ask what you may know", "The band will march", "I worked for three weeks", "every Tuesday",
        "open backup-2023-05-07.sql", "see logs/2023/05/07/app.log", "upgrade to version 2022.1", "in 2099",
        "What is planned for next week?", "What did April tell me about June?", "on 31 April", "Was ist hier passiert?",
        "Where is 'In May 2019' shown?", "999999 years ago",
    ],
)  # fmt: skip
def test_what_is_no_past_time_is_no_window(question: str) -> None:
    assert find_days(question) == []


def test_a_leap_day_is_one_of_a_leap_year() -> None:
    assert find_days("on 29 February") == [("2020-02-29", "2020-03-01")]
    assert find_days("a year ago", datetime(2024, 2, 29, tzinfo=UTC))[0][0] == "2022-10-31"
    assert find_days("last month", datetime(2024, 3, 31, tzinfo=UTC)) == [("2024-02-01", "2024-03-01")]


def test_an_exact_date_is_preferred_to_a_time_relative_to_now() -> None:
    assert find_days("What did Jo finish last Friday, as written on 23 January 2022?") == [("2022-01-23", "2022-01-24")]


def test_vague_words_give_soft_windows() -> None:
    assert [window.soft for window in find_windows("about two months ago or in May 2022", NOW)] == [True, False]


def test_days_are_those_of_the_person_who_asks() -> None:
    [window] = find_windows("yesterday", datetime(2023, 5, 25, 1, tzinfo=timezone(timedelta(hours=9))))
    assert (window.start, window.end) == (datetime(2023, 5, 23, 15, tzinfo=UTC), datetime(2023, 5, 24, 15, tzinfo=UTC))
    [window] = find_windows("in March 2023", datetime(2023, 5, 25, tzinfo=ZoneInfo("Europe/Berlin")))
    assert (window.start, window.end) == (datetime(2023, 2, 28, 23, tzinfo=UTC), datetime(2023, 3, 31, 22, tzinfo=UTC))


@pytest.mark.parametrize(
    ("question", "rest"),
    [
        ("What did I buy three weeks ago?", "What did I buy?"),
        ("In May, where did Anna live?", "where did Anna live?"),
        ("yesterday", ""),
        ("Where does Anna live?", "Where does Anna live?"),
    ],
)
def test_the_times_can_be_removed(question: str, rest: str) -> None:
    assert remove_times(question) == rest


_WORDS = st.sampled_from(
    """the a last this past in on since before after between and to of ago week weeks month year day May March 2022
    Tuesday two few about 3 5th 10 2023-05-07 5/7/2022 end early yesterday the Mai hace vor dos meses pasado – , . ? '
    31 February 29 999""".split()
)


@given(st.one_of(st.text(max_size=200), st.lists(_WORDS, max_size=14).map(" ".join)),
       st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)))  # fmt: skip
def test_windows_are_ordered_and_of_the_past(question: str, now: datetime) -> None:
    windows = find_windows(question, now)
    for window in windows:
        assert window.start < window.end
        assert window.start <= now
        assert window.start.tzinfo is UTC
    assert [window.place for window in windows] == sorted(window.place for window in windows)
    assert len(remove_times(question)) <= len(question)


@pytest.mark.parametrize("piece", ["the end of ", "'", "1,", "in May ", "between May and ", "last ", "3 to ", "\n"])
def test_a_long_text_is_read_fast(piece: str) -> None:
    text = piece * (60_000 // len(piece))
    assert cpu_seconds(lambda: (find_windows(text, NOW), remove_times(text)), 10, enough=0.45) < 0.5
