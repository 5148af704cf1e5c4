from __future__ import annotations

import math

import pytest
from benchmarks._measures import (
    all_at,
    any_at,
    auc,
    brier,
    calibration_error,
    f1,
    log_loss,
    mean,
    ndcg_at,
    percentile,
    predictions,
    recall,
    reciprocal_rank,
    wilson,
)
from hypothesis import given
from hypothesis import strategies as st

NAMES = st.sampled_from("abcdefgh")
RANKED = st.lists(NAMES, unique=True)
RIGHT = st.frozensets(NAMES, min_size=1)
PREDICTIONS = st.lists(st.tuples(st.floats(0.01, 0.99), st.booleans()), min_size=1)


def test_any_needs_one_and_all_needs_every_right_name() -> None:
    ranked, right = ["x", "a", "y", "b"], {"a", "b"}
    assert [any_at(ranked, right, k) for k in (1, 2, 4)] == [0, 1, 1]
    assert [all_at(ranked, right, k) for k in (1, 2, 4)] == [0, 0, 1]


def test_nothing_found_is_a_miss() -> None:
    assert any_at([], {"a"}, 5) == all_at([], {"a"}, 5) == ndcg_at([], {"a"}, 10) == reciprocal_rank([], {"a"}) == 0


def test_gain_is_discounted_by_place() -> None:
    assert ndcg_at(["a", "b"], {"a", "b"}, 10) == 1
    assert ndcg_at(["x", "a"], {"a"}, 10) == pytest.approx(1 / math.log2(3))
    assert ndcg_at(["a", "x", "b"], {"a", "b"}, 10) == pytest.approx((1 + 0.5) / (1 + 1 / math.log2(3)))


def test_reciprocal_rank_is_of_the_first_right_one() -> None:
    assert reciprocal_rank(["x", "y", "b", "a"], {"a", "b"}) == pytest.approx(1 / 3)


def test_recall_is_the_mean_over_questions() -> None:
    found = recall([(["a"], {"a"}), ([], {"a"}), (["x", "a"], {"a", "b"}), (["x", "a", "b"], {"a", "b"})])
    assert found["any@1"] == 0.25
    assert found["any@5"] == 0.75
    assert found["all@5"] == 0.5
    assert found["MRR"] == 0.5
    assert recall([]) == {}


@given(RANKED, RIGHT, st.integers(1, 9))
def test_all_is_never_more_than_any(ranked: list[str], right: frozenset[str], k: int) -> None:
    assert all_at(ranked, right, k) <= any_at(ranked, right, k)


@given(RANKED, RIGHT, st.integers(1, 9))
def test_looking_further_never_loses(ranked: list[str], right: frozenset[str], k: int) -> None:
    assert any_at(ranked, right, k) <= any_at(ranked, right, k + 1)
    assert all_at(ranked, right, k) <= all_at(ranked, right, k + 1)


@given(RANKED, RIGHT, st.integers(1, 9))
def test_gain_lies_between_none_and_the_ideal(ranked: list[str], right: frozenset[str], k: int) -> None:
    assert 0 <= ndcg_at(ranked, right, k) <= 1 + 1e-9
    others = [name for name in ranked if name not in right]
    assert ndcg_at([*sorted(right), *others], right, k) == pytest.approx(1)


@given(RANKED, RIGHT)
def test_moving_a_right_name_up_never_lowers_a_measure(ranked: list[str], right: frozenset[str]) -> None:
    first = next((name for name in ranked if name in right), None)
    better = ranked if first is None else [first, *(name for name in ranked if name != first)]
    assert ndcg_at(better, right, 10) >= ndcg_at(ranked, right, 10) - 1e-12
    assert reciprocal_rank(better, right) >= reciprocal_rank(ranked, right)


def test_percentile_is_a_value_that_was_seen() -> None:
    values = [5.0, 1.0, 3.0, 2.0, 4.0]
    assert percentile(values, 0.5) == 3
    assert percentile(values, 0.95) == 5
    assert percentile([7.0], 0.5) == 7


def test_wilson_matches_a_published_example() -> None:
    # 81 of 263 (Newcombe 1998, method 3): 0.2553 to 0.3662.
    low, high = wilson(81, 263)
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)


@given(st.integers(1, 500), st.data())
def test_the_interval_holds_the_share(count: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, count))
    low, high = wilson(hits, count)
    assert 0 <= low <= hits / count + 1e-9
    assert hits / count - 1e-9 <= high <= 1


def test_the_interval_of_nothing_is_everything() -> None:
    assert wilson(0, 0) == (0, 1)


def test_f1_of_counts() -> None:
    assert f1(2, 1, 2) == {"precision": pytest.approx(2 / 3), "recall": 0.5, "F1": pytest.approx(4 / 7)}
    assert f1(0, 0, 0) == {"precision": 0, "recall": 0, "F1": 0}


def test_brier_and_log_loss_of_a_few() -> None:
    pairs = [(0.8, True), (0.4, False)]
    assert brier(pairs) == pytest.approx((0.04 + 0.16) / 2)
    assert log_loss(pairs) == pytest.approx(-(math.log(0.8) + math.log(0.6)) / 2)


def test_auc_counts_ties_as_half() -> None:
    assert auc([(0.1, False), (0.9, True)]) == 1
    assert auc([(0.9, False), (0.1, True)]) == 0
    assert auc([(0.5, False), (0.5, True)]) == 0.5
    assert auc([(0.2, False), (0.5, True), (0.5, False), (0.9, True)]) == pytest.approx(3.5 / 4)
    assert auc([(0.3, True)]) == 0.5


@given(PREDICTIONS)
def test_auc_is_the_share_of_pairs_in_the_right_order(pairs: list[tuple[float, bool]]) -> None:
    good = [chance for chance, happened in pairs if happened]
    bad = [chance for chance, happened in pairs if not happened]
    if good and bad:
        wins = [1.0 if a > b else 0.5 if a == b else 0.0 for a in good for b in bad]
        assert auc(pairs) == pytest.approx(mean(wins))


def test_calibration_error_is_the_gap_in_each_bin() -> None:
    assert calibration_error([(0.75, True)] * 3 + [(0.75, False)]) == 0
    assert calibration_error([(0.95, False), (0.05, False)]) == pytest.approx((0.95 + 0.05) / 2)


@given(PREDICTIONS)
def test_every_measure_of_predictions_is_finite(pairs: list[tuple[float, bool]]) -> None:
    assert all(math.isfinite(value) for value in predictions(pairs).values())


def test_a_certain_prediction_that_fails_costs_much_but_not_everything() -> None:
    assert predictions([(1.0, False)])["log loss"] == pytest.approx(-math.log(0.01))
    assert predictions([]) == {}
