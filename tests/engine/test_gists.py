"""Long conversations are compressed into lines that name and quote their turns, and can be restored."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, cast

import pytest

from alma import ALMA
from alma.engine.context import Settings, UpkeepSettings
from alma.errors import ModelUnavailableError
from alma.reading.local import LocalReader
from alma.reading.model import ModelReader
from alma.reading.port import Role, SpokenTurn
from alma.types.asking import Answer, Prompt
from alma.types.kinds import Episode, Turn
from alma.types.query import Where

PLAN = "We move the billing database to Postgres 16 in May"
OWNER = "Carla will rehearse the restore on staging"
Line = Mapping[str, Any]
GOOD: tuple[Line, ...] = (
    {"text": "Billing moves to Postgres 16.", "turns": [0, 1, 2, 3], "quote": "billing database to Postgres 16"},
    {"text": "Carla rehearses the restore.", "turns": [*range(4, 12)], "quote": "rehearse the restore on staging"},
)


class Writer:
    """A model that answers with the lines it was given."""

    name = "scripted"

    def __init__(self) -> None:
        self.lines: Sequence[Line] = GOOD
        self.asked: list[list[dict[str, Any]]] = []
        self.is_out = False

    def ask(self, prompt: Prompt) -> Answer:
        self.asked.append(json.loads(prompt.text)["turns"])
        if self.is_out:
            raise ModelUnavailableError("the model is out")
        return Answer(value={"lines": list(self.lines)}, model=self.name)


@pytest.fixture
def writer() -> Writer:
    return Writer()


@pytest.fixture
def alma(open_alma: Callable[..., ALMA], writer: Writer) -> ALMA:
    settings = Settings(upkeep=UpkeepSettings(compress_turns=10))
    return open_alma(model=writer, settings=settings)


def talk(alma: ALMA, session: str = "planning", count: int = 12, **more: Any) -> str:
    turns = [{"speaker": ("Ana", "Bob")[at % 2], "text": f"Remark {at} on {session}"} for at in range(count)]
    if count > 9:
        turns[3]["text"], turns[9]["text"] = PLAN, OWNER
    begun = alma.engine.clock()
    for at, turn in enumerate(turns):
        turn["at"] = (begun + timedelta(minutes=at)).isoformat()
    return alma.add_episode("dev", session, turns, **more).id


def read_turns(alma: ALMA, id: str, *statuses: str) -> list[Turn]:
    turns = cast("Episode", alma.get(id)).turns
    return [turn for turn in turns if not statuses or turn.status in statuses]


def test_a_gist_takes_the_place_of_its_turns(alma: ALMA, writer: Writer, clock: Any) -> None:
    id = talk(alma, tags=["billing"])
    before = read_turns(alma, id)
    clock.pass_days(100)
    assert alma.upkeep().ids["compressed"] == [id]
    lines = read_turns(alma, id, "active")
    assert [(one.speaker, one.text) for one in lines] == [("summary", one["text"]) for one in GOOD]
    assert [one.metadata["gist_of"] for one in lines] == [
        [one.id for one in before[:4]],
        [one.id for one in before[4:]],
    ]
    assert [(one.tags, one.origin) for one in lines] == [(("billing", "gist"), "agent")] * 2
    assert [one.said_at for one in lines] == [before[0].said_at, before[4].said_at]
    archived = read_turns(alma, id, "archived")
    assert [(one.id, one.text) for one in archived] == [(one.id, one.text) for one in before]
    line = alma.history(id)[-1]
    assert (line["verb"], line["why"], line["by"]) == ("compressed", "12 turns into 2 lines", "upkeep")


def test_it_is_compressed_once(alma: ALMA, writer: Writer, clock: Any) -> None:
    talk(alma)
    clock.pass_days(100)
    assert alma.upkeep().counts["compressed"] == 1
    clock.pass_days(400)
    assert alma.upkeep().counts["compressed"] == 0
    assert len(writer.asked) == 1


def test_the_lines_are_found_and_the_turns_are_not(alma: ALMA, clock: Any) -> None:
    talk(alma)
    clock.pass_days(100)
    alma.upkeep()
    found = alma.retrieve("Which database does billing move to, Postgres?", "dev", level="turn").turns
    assert {one.speaker for one in found} == {"summary"}


def test_a_turn_that_no_line_names_is_still_found(alma: ALMA, writer: Writer, clock: Any) -> None:
    writer.lines = [{**GOOD[0], "turns": [3]}]
    id = talk(alma)
    clock.pass_days(100)
    assert alma.upkeep().counts["compressed"] == 1
    assert [one.text for one in read_turns(alma, id, "archived")] == [PLAN]
    found = alma.retrieve("Who will rehearse the restore on staging?", "dev", level="turn").turns
    assert OWNER in [one.text for one in found]
    assert alma.history(id)[-1]["why"] == "1 turns into 1 lines"


def test_what_is_found_by_its_title_is_shown_by_its_lines(
    open_alma: Callable[..., ALMA], writer: Writer, clock: Any
) -> None:
    settings = Settings(upkeep=UpkeepSettings(compress_turns=10))
    alma = open_alma(model=writer, settings=settings, embedder=None)
    talk(alma, title="Quarterly infrastructure roundtable")
    clock.pass_days(100)
    alma.upkeep()
    [episode] = alma.retrieve("Quarterly infrastructure roundtable", "dev").episodes
    assert [one.text for one in episode.turns] == [one["text"] for one in GOOD]


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": "Billing moves to MySQL.", "turns": [3], "quote": "billing database to MySQL"},
        {"text": "Billing moves to Postgres 17.", "turns": [3], "quote": "billing database to Postgres"},
        {"text": "Billing moves.", "turns": [4], "quote": "billing database to Postgres 16"},
        {"text": "Billing moves.", "turns": [3], "quote": "to Postgres"},
        {"text": "Billing moves.", "turns": [3, 99], "quote": "billing database to Postgres 16"},
        {"text": "Billing moves.", "turns": [-9], "quote": "billing database to Postgres 16"},
        {"text": "Billing moves.", "turns": [], "quote": "billing database to Postgres 16"},
        {"text": " ", "turns": [3], "quote": "billing database to Postgres 16"},
    ],
    ids=["quote", "number", "other turn", "short quote", "no such turn", "negative", "no turn", "no text"],
)
def test_a_line_that_its_turns_do_not_support_is_dropped(alma: ALMA, writer: Writer, clock: Any, wrong: Line) -> None:
    writer.lines = [GOOD[1], wrong]
    id = talk(alma)
    clock.pass_days(100)
    assert alma.upkeep().counts["compressed"] == 1
    texts = [one.text for one in read_turns(alma, id, "active")]
    assert texts == [*(f"Remark {at} on planning" for at in range(3)), PLAN, GOOD[1]["text"]]


@pytest.mark.parametrize("lines", [[], [GOOD[0], {**GOOD[0], "turns": [1]}, {**GOOD[0], "quote": "not there at all"}]])
def test_a_gist_with_too_little_support_is_refused_and_not_asked_for_again(
    alma: ALMA, writer: Writer, clock: Any, lines: Sequence[Line]
) -> None:
    writer.lines = lines
    id = talk(alma)
    clock.pass_days(100)
    assert alma.upkeep().counts["compressed"] == 0
    alma.upkeep()
    assert len(writer.asked) == 1
    assert len(read_turns(alma, id, "active")) == len(read_turns(alma, id)) == 12


def test_what_is_added_later_is_compressed_later(alma: ALMA, writer: Writer, clock: Any) -> None:
    id = talk(alma)
    clock.pass_days(100)
    alma.upkeep()
    more = [{"speaker": "Bob", "text": f"Later remark {at}"} for at in range(11)]
    alma.add_episode("dev", "planning", more)
    assert len(read_turns(alma, id)) == 12 + 2 + 11
    clock.pass_days(100)
    writer.lines = [{"text": "Bob said more.", "turns": [*range(11)], "quote": "Later remark 10"}]
    assert alma.upkeep().counts["compressed"] == 1
    assert [one["text"] for one in writer.asked[1]] == [one["text"] for one in more]
    assert [one.text for one in read_turns(alma, id, "active")] == [*(one["text"] for one in GOOD), "Bob said more."]


def test_without_a_model_nothing_is_compressed_and_the_report_says_so(
    open_alma: Callable[..., ALMA], clock: Any
) -> None:
    alma = open_alma()
    id = talk(alma, count=60)
    clock.pass_days(100)
    for dry_run in (True, False):
        report = alma.upkeep(dry_run=dry_run)
        assert report.counts["compressed"] == 0
        assert report.problems == ["1 long conversations were not compressed: no model is configured"]
    assert len(read_turns(alma, id, "active")) == 60


def test_a_dry_run_asks_nothing(alma: ALMA, writer: Writer, clock: Any) -> None:
    id = talk(alma)
    clock.pass_days(100)
    assert alma.upkeep(dry_run=True).ids["compressed"] == [id]
    assert not writer.asked


def test_short_new_used_and_single_voiced_conversations_stay(alma: ALMA, writer: Writer, clock: Any) -> None:
    used = talk(alma, "used")
    talk(alma, "short", count=10)
    alma.add_episode("dev", "guide.md", [{"speaker": "guide.md", "text": f"Section {at}"} for at in range(50)])
    clock.pass_days(100)
    alma.record_usage([used], [used])
    talk(alma, "new")
    clock.pass_days(1)
    assert alma.upkeep().counts["compressed"] == 0
    assert not writer.asked


def test_compression_can_be_switched_off(open_alma: Callable[..., ALMA], writer: Writer, clock: Any) -> None:
    alma = open_alma(model=writer, settings=Settings(upkeep=UpkeepSettings(compress_after_days=0)))
    talk(alma, count=60)
    clock.pass_days(900)
    assert alma.upkeep().counts["compressed"] == 0


def test_a_model_that_fails_leaves_the_rest_for_the_next_run(alma: ALMA, writer: Writer, clock: Any) -> None:
    ids = [talk(alma, "first"), talk(alma, "second")]
    clock.pass_days(100)
    writer.is_out = True
    assert alma.upkeep().problems == ["2 long conversations were not compressed: the model is out"]
    assert len(writer.asked) == 1
    writer.is_out = False
    assert alma.upkeep().ids["compressed"] == ids


def test_outside_content_is_not_summarised(alma: ALMA, writer: Writer, clock: Any) -> None:
    id = talk(alma, source="web")
    for turn in read_turns(alma, id)[:3]:
        alma.update(turn.id, status="active")
    alma.update(id, status="active")
    clock.pass_days(100)
    alma.upkeep()
    assert not writer.asked


def test_undo_brings_the_turns_back_and_the_conversation_can_grow(alma: ALMA, writer: Writer, clock: Any) -> None:
    id = talk(alma)
    clock.pass_days(100)
    alma.upkeep()
    alma.undo(id)
    assert [one.speaker for one in read_turns(alma, id, "active")] == ["Ana", "Bob"] * 6
    assert {one.status for one in read_turns(alma, id) if one.speaker == "summary"} == {"retired"}
    assert alma.upkeep().counts["compressed"] == 0
    alma.add_episode("dev", "planning", [{"speaker": "Ana", "text": "One more thing"}])
    assert read_turns(alma, id, "active")[-1].text == "One more thing"


def test_a_restored_conversation_is_not_compressed_again(alma: ALMA, writer: Writer, clock: Any) -> None:
    id = talk(alma)
    clock.pass_days(100)
    alma.upkeep()
    alma.update(id, status="active")
    clock.pass_days(100)
    assert alma.upkeep().counts["compressed"] == 0
    assert len(read_turns(alma, id, "active")) == 14


def test_deleting_a_turn_deletes_the_lines_that_stand_for_it(alma: ALMA, clock: Any) -> None:
    id = talk(alma)
    before = read_turns(alma, id)
    clock.pass_days(100)
    alma.upkeep()
    alma.delete(before[9].id)
    assert [one.text for one in read_turns(alma, id, "active")] == [
        *(f"Remark {at} on planning" for at in (4, 5, 6, 7, 8, 10, 11)),
        GOOD[0]["text"],
    ]
    assert not any("Carla" in str(one) for one in alma.engine.store.scan(Where()))
    assert cast("Episode", alma.get(id)).turn_count == len(read_turns(alma, id)) == 12


def test_deleting_a_line_restores_its_turns(alma: ALMA, clock: Any) -> None:
    id = talk(alma)
    clock.pass_days(100)
    alma.upkeep()
    alma.delete(read_turns(alma, id, "active")[0].id)
    assert [one.text for one in read_turns(alma, id, "active")] == [
        *(f"Remark {at} on planning" for at in range(3)),
        PLAN,
        GOOD[1]["text"],
    ]


def test_secrets_are_redacted(alma: ALMA, writer: Writer, clock: Any) -> None:
    secret = "sk-ant-api03-" + "a1B2c3D4" * 6
    writer.lines = [{**GOOD[1], "text": f"Carla uses {secret}"}]
    id = talk(alma)
    clock.pass_days(100)
    alma.upkeep()
    assert secret not in str(list(alma.engine.store.scan(Where())))
    assert len(read_turns(alma, id)) >= 12


def test_a_long_conversation_is_read_in_parts(writer: Writer) -> None:
    turns = [SpokenTurn(Role.USER, "word " * 300, "Ana") for _ in range(40)]
    [lines] = ModelReader(writer).write_gists([turns])
    assert sum(map(len, writer.asked)) == 40
    assert len(writer.asked) > 2
    assert len(lines) == len(GOOD) * len(writer.asked)


def test_the_local_reader_writes_nothing() -> None:
    assert LocalReader().write_gists([[SpokenTurn(Role.USER, PLAN)], []]) == [[], []]
