"""How likely a turn teaches something: on labelled sessions that another author wrote than those it was fitted on.

The floors are .02 below what was measured. `python -m tools.fit_teaching` prints all figures.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest
from tests.timing import cpu_seconds, is_linear
from tools.fit_teaching import (
    HELD_OUT,
    LASTING,
    NO,
    ONCE,
    TRAIN,
    WEIGHTS,
    Fit,
    Turn,
    fit_position,
    fit_words,
    measure_auc,
    measure_recall,
    print_hashes,
    read_sessions,
    read_single,
    read_written,
    train,
)

from alma.engine.exchanges import find_own_words
from alma.hooks.evidence import LEAST_LIKELY
from alma.reading.teaching import measure_turn, rate_turn

MEASURED_AUC = 0.893
MEASURED_AUC_WITH_ONCE = 0.869
MEASURED_RECALL = 0.88
TOLERANCE = 0.02


@pytest.fixture(scope="module")
def held_out() -> list[Turn]:
    return read_sessions(HELD_OUT)


def rate(turn: Turn) -> float:
    return rate_turn(find_own_words(turn.text), number=turn.number, before=turn.before, then=turn.then)


def score(turns: list[Turn], rate: Callable[[Turn], float]) -> list[tuple[str, float]]:
    return [(turn.label, rate(turn)) for turn in turns]


def test_turns_that_teach_are_found_in_sessions_of_another_author(held_out: list[Turn]) -> None:
    scored = score(held_out, rate)
    assert measure_auc(scored, against=[NO]) >= MEASURED_AUC - TOLERANCE
    assert measure_auc(scored, against=[NO, ONCE]) >= MEASURED_AUC_WITH_ONCE - TOLERANCE
    assert measure_recall(scored, 0.4) >= MEASURED_RECALL - TOLERANCE


@pytest.mark.parametrize("fit", [fit_position, fit_words])
def test_it_is_better_than_a_trivial_baseline(held_out: list[Turn], fit: Fit) -> None:
    baseline = score(held_out, fit([*read_sessions(TRAIN), *read_written(), *read_single()]))
    scored = score(held_out, rate)
    for against in ([NO], [NO, ONCE]):
        assert measure_auc(scored, against=against) > measure_auc(baseline, against=against)


def test_almost_everything_that_teaches_is_worth_showing(held_out: list[Turn]) -> None:
    lasting = [rate(turn) for turn in held_out if turn.label == LASTING]
    others = [rate(turn) for turn in held_out if turn.label == NO]
    assert sum(likely >= LEAST_LIKELY for likely in lasting) >= 0.9 * len(lasting)
    assert sum(likely >= LEAST_LIKELY for likely in others) <= 0.5 * len(others)


def test_what_is_for_once_lies_between(held_out: list[Turn]) -> None:
    def average(label: str) -> float:
        likely = [rate(turn) for turn in held_out if turn.label == label]
        return sum(likely) / len(likely)

    assert average(NO) < average(ONCE) < average(LASTING)


def test_the_stored_weights_are_those_that_the_tool_fits() -> None:
    stored = json.loads(WEIGHTS.read_text(encoding="utf-8"))["weights"]
    fitted = train([*read_sessions(TRAIN), *read_written(), *read_single()])
    assert stored == pytest.approx(fitted, abs=0.002)


def test_the_file_of_words_and_weights_stays_small() -> None:
    assert WEIGHTS.stat().st_size < 60_000


def test_the_data_are_named_by_their_hashes(capsys: pytest.CaptureFixture[str]) -> None:
    print_hashes()
    printed = capsys.readouterr().out
    assert "teaching/held_out.jsonl: sha256 fb6876ed4dfee4ed" in printed
    assert "teaching/train.jsonl: sha256 2ef63e190c475bd1" in printed


def test_the_same_turn_has_the_same_value_whatever_was_rated_before(held_out: list[Turn]) -> None:
    first = [rate(turn) for turn in held_out]
    shuffled = list(enumerate(held_out))
    random.Random(7).shuffle(shuffled)
    assert {index: rate(turn) for index, turn in shuffled} == dict(enumerate(first))


@pytest.mark.parametrize("text", ["", "  \n", "…", "?!", "👍", "\ud800", "\x00"])
def test_a_text_without_words_teaches_nothing(text: str) -> None:
    assert rate_turn(text, number=3, before=text, deeds=text, then=text) == 0.0


@pytest.mark.parametrize(
    "unit", ["no, we never do it like this here. ", "以后都用中文，", "İ\u0301ß", "a,b ", ".", "?" * 3 + " "]
)
def test_a_long_text_takes_linear_time(unit: str) -> None:
    def make_call(size: int) -> Callable[[], object]:
        text = unit * (size // len(unit))
        return lambda: rate_turn(text, number=1, before=text, deeds=text, then=text)

    assert is_linear(make_call, 10_000)


def test_a_turn_takes_well_under_a_millisecond(held_out: list[Turn]) -> None:
    turns = held_out * 2
    enough = 0.0005 * len(turns)
    assert cpu_seconds(lambda: [rate_turn(turn.text, number=1) for turn in turns], 20, enough) <= enough


@pytest.mark.parametrize(
    ("text", "act"),
    [
        ("ok, why does the build fail", "only question"),
        ("When I say short, I mean it.", "only statement"),
        ("dann mach den Test", "only request"),
        ("great, thanks!", "only acceptance"),
        ("now it throws a KeyError", "only failure"),
        ("なぜ失敗しますか", "only question"),
        ("谢谢", "only acceptance"),
        ("everything goes through the gateway here", "only statement"),
    ],
)
def test_a_turn_is_known_by_what_it_does(text: str, act: str) -> None:
    assert act in measure_turn(text, number=2)


def test_a_yes_to_a_general_question_teaches() -> None:
    general = "Done. So I should always regenerate the client after that?"
    assert rate_turn("yes", number=4, before=general) > 0.3
    assert rate_turn("yes", number=4, before="Done. Shall I commit it?") < LEAST_LIKELY


def test_a_first_request_teaches_seldom_but_may() -> None:
    assert rate_turn("add an endpoint for invoices", number=0) < LEAST_LIKELY
    assert rate_turn("We always use pnpm here. Add an endpoint for invoices.", number=0) > LEAST_LIKELY


def test_what_the_turn_names_of_the_deeds_before_counts() -> None:
    text = "docker is not available on these machines"
    assert rate_turn(text, number=2, deeds="docker compose up") > rate_turn(text, number=2, deeds="make")
