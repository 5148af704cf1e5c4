from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from benchmarks._data import DataError, Notes, evidence, limited, locomo, longmemeval

Write = Callable[..., Path]
Entry = dict[str, Any]


@pytest.mark.parametrize("name", ["data.json", "data.json.gz"])
def test_every_question_has_its_own_haystack(write: Write, entries: list[Entry], name: str) -> None:
    path = write(entries, name)
    data = longmemeval(path)
    assert data.kind == "s"
    assert data.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert [haystack.name for haystack in data.haystacks] == ["q1", "q2", "q3_abs"]
    assert [len(haystack.sessions) for haystack in data.haystacks] == [4, 4, 4]
    question = data.questions[1]
    assert (question.kind, question.sessions) == ("multi", {"dog", "bread"})
    assert question.asked_at == datetime(2024, 5, 20, 9, 30, tzinfo=UTC)


def test_turns_keep_their_speaker_their_date_and_their_order(write: Write, entries: list[Entry]) -> None:
    trip = longmemeval(write(entries)).haystacks[0].sessions[0]
    assert [turn.speaker for turn in trip.turns] == ["user", "assistant"]
    assert trip.at == datetime(2024, 5, 1, 10, 0, tzinfo=UTC)
    assert trip.turns[1].at == datetime(2024, 5, 1, 10, 0, 1, tzinfo=UTC)


def test_a_question_that_ends_in_abs_is_unanswerable(write: Write, entries: list[Entry]) -> None:
    assert [question.answerable for question in longmemeval(write(entries)).questions] == [True, True, False]


def test_a_pool_is_one_store_for_all_questions(write: Write, pool: Entry) -> None:
    data = longmemeval(write(pool))
    [haystack] = data.haystacks
    assert (data.kind, len(haystack.sessions), len(haystack.questions)) == ("pool", 4, 3)


def test_haystacks_can_be_pooled_with_each_session_once(write: Write, entries: list[Entry]) -> None:
    [haystack] = longmemeval(write(entries), "pool").haystacks
    assert sorted(session.id for session in haystack.sessions) == ["bike", "bread", "dog", "trip"]
    assert len(haystack.questions) == 3


def test_a_pool_cannot_be_taken_apart(write: Write, pool: Entry) -> None:
    with pytest.raises(DataError, match="--kind pool"):
        longmemeval(write(pool), "s")


def test_a_text_under_two_ids_is_stored_once_in_a_pool_and_right_under_either(
    write: Write, entries: list[Entry]
) -> None:
    twin = dict(entries[0], question_id="q4", answer_session_ids=["trip_b"])
    twin["haystack_session_ids"] = ["trip_b", "dog", "bread", "bike"]
    data = longmemeval(write([*entries, twin]), "pool")
    [haystack] = data.haystacks
    assert "trip_b" not in {session.id for session in haystack.sessions}
    assert haystack.questions[3].sessions == {"trip"}
    assert sum(data.notes.values()) == 1


def test_a_twin_in_ones_own_haystack_is_as_right(write: Write, entries: list[Entry]) -> None:
    one = dict(entries[0], haystack_session_ids=["trip", "trip_b", "dog"])
    one["haystack_sessions"] = [one["haystack_sessions"][number] for number in (0, 0, 1)]
    one["haystack_dates"] = one["haystack_dates"][:3]
    [haystack] = longmemeval(write([one])).haystacks
    assert len(haystack.sessions) == 3
    assert haystack.same("trip_b") == "trip"


def test_a_right_session_that_is_not_there_is_left_out_and_counted(write: Write, pool: Entry) -> None:
    pool["questions"][0]["answer_session_ids"] = ["trip", "gone"]
    pool["questions"][2]["answer_session_ids"] = ["gone_abs"]
    data = longmemeval(write(pool))
    assert data.questions[0].sessions == {"trip"}
    # The unanswerable one has nothing right to miss.
    assert [count for what, count in data.notes.items() if "not in the haystack" in what] == [1]


def test_what_says_nothing_is_left_out_and_counted(write: Write, entries: list[Entry]) -> None:
    entries[0]["haystack_sessions"][0][0]["content"] = "  "
    entries[0]["haystack_sessions"][1] = []
    data = longmemeval(write(entries[:1]))
    assert [len(session.turns) for session in data.haystacks[0].sessions] == [1, 2, 2]
    assert {what: count for what, count in data.notes.items() if count} == {
        "turns left out because they are empty": 1,
        "sessions left out because they are empty": 1,
    }


def test_a_conversation_is_a_store(write: Write, samples: list[Entry]) -> None:
    data = locomo(write(samples))
    [haystack] = data.haystacks
    assert [session.id for session in haystack.sessions] == ["session_1", "session_2"]
    assert haystack.sessions[0].at == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert [turn.speaker for turn in haystack.sessions[1].turns] == ["Ben", "Ann"]
    assert [question.kind for question in haystack.questions] == ["single-hop", "multi-hop", "adversarial", "temporal"]
    assert [question.answerable for question in haystack.questions] == [True, True, False, True]


def test_a_question_is_asked_after_the_last_session(write: Write, samples: list[Entry]) -> None:
    assert locomo(write(samples)).questions[0].asked_at == datetime(2023, 6, 10, 10, 5, tzinfo=UTC)


def test_a_shared_picture_is_part_of_what_was_said(write: Write, samples: list[Entry]) -> None:
    shared = locomo(write(samples)).haystacks[0].sessions[1].turns[1]
    assert shared.text == "Look at this [shares a photo of a tortoise on a lawn]"


def test_evidence_names_turns_and_their_sessions(write: Write, samples: list[Entry]) -> None:
    data = locomo(write(samples))
    assert [question.turns for question in data.questions[:2]] == [{"D1:1"}, {"D1:2", "D2:1"}]
    assert data.questions[1].sessions == {"session_1", "session_2"}
    assert data.notes["pieces of evidence that could not be read"] == 1


def test_evidence_is_read_however_it_is_written() -> None:
    notes: Notes = Counter()
    known = {"D8:6": "", "D9:17": "", "D11:26": "", "D1:18": ""}
    told = ["D8:6; D9:17", "D:11:26", "D1:18 ", "D1:018", "D", "D99:1"]
    assert evidence(told, known, notes) == ["D8:6", "D9:17", "D11:26", "D1:18", "D1:18"]
    assert sorted(notes.values()) == [1, 1]


def test_a_limit_takes_questions_from_all_over_the_file(write: Write, entries: list[Entry]) -> None:
    data = longmemeval(write([dict(entries[0], question_id=f"q{number}") for number in range(10)]))
    assert [question.id for question in limited(data, 3).questions] == ["q0", "q3", "q6"]
    assert len(limited(data, 3).haystacks) == 3
    assert limited(data, None) is data
    assert limited(data, 99) is data


def test_a_limit_keeps_the_whole_pool(write: Write, pool: Entry) -> None:
    [haystack] = limited(longmemeval(write(pool)), 1).haystacks
    assert (len(haystack.sessions), len(haystack.questions)) == (4, 1)


@pytest.mark.parametrize("value", [{"a": 1}, [{"question_id": "q"}], [1]])
def test_another_format_is_refused_by_name(write: Write, value: Any) -> None:
    with pytest.raises(DataError, match=r"data\.json\.gz is not in LongMemEval's format"):
        longmemeval(write(value))


def test_what_is_no_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_text("not json")
    with pytest.raises(DataError, match="neither JSON"):
        locomo(path)
    with pytest.raises(DataError, match="cannot read"):
        locomo(tmp_path / "missing.json")


def test_an_unreadable_date_is_refused(write: Write, entries: list[Entry]) -> None:
    entries[0]["question_date"] = "yesterday"
    with pytest.raises(DataError, match="'yesterday'"):
        longmemeval(write(entries))
