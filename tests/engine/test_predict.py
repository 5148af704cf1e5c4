from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma import ALMA
from alma.engine.predict import (
    Beta,
    Forecast,
    Trial,
    find_stale_age,
    forecast,
    forecast_lessons,
    read_task,
    survey_strategy,
    weigh_likeness,
)
from alma.types.query import Where

Open = Callable[..., ALMA]
TASK = "Reconcile the ledger of the Lisbon office"
SORTING = "sort the entries by date first"
GUESSING = "guess the missing totals"


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2025, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(hours=1)
        return self.now


def trial(value: float, days: float = 1.0, alike: float = 1.0, own: bool = True, **more: object) -> Trial:
    named = {"strategy": SORTING if own else GUESSING, "task": TASK if alike == 1.0 else f"another at {alike}"}
    return Trial(id="out_1", value=value, days=days, alike=alike, own=own, **{**named, **more})  # type: ignore[arg-type]


def predicted(alma: ALMA, strategy: str, task: str = TASK, before: datetime | None = None) -> Forecast:
    return forecast(survey_strategy(read_task(alma.engine, "a", task, before), strategy).trials)


# -- the Beta distribution


@pytest.mark.parametrize(
    ("good", "bad", "chance", "below"),
    # Where it is known in closed form: uniform, x², 1 - (1 - x)², the arcsine law.
    [(1, 1, 0.3, 0.3), (2, 1, 0.6, 0.36), (1, 2, 0.6, 0.84), (0.5, 0.5, 0.5, 0.5), (0.5, 0.5, 0.25, 1 / 3)],
)
def test_the_share_below_a_chance(good: float, bad: float, chance: float, below: float) -> None:
    assert Beta(good, bad).below(chance) == pytest.approx(below, abs=1e-6)


@given(st.floats(0.02, 200), st.floats(0.02, 200))
def test_nine_tenths_lie_in_the_interval(good: float, bad: float) -> None:
    belief = Beta(good, bad)
    low, high = belief.interval()
    assert 0.0 <= low <= high <= 1.0
    # Where nearly all of it lies on the very edge, no number below 1 is close enough to it.
    if low > 1e-5 and high < 1 - 1e-5:
        assert belief.below(high) - belief.below(low) == pytest.approx(0.9, abs=1e-3)


# -- weighing


def test_knowing_nothing_it_is_even_and_anything_is_possible() -> None:
    found = forecast([])
    low, high = found.belief.interval()
    assert found.mean == 0.5
    assert high - low > 0.9


@given(
    st.lists(
        st.builds(
            trial,
            st.sampled_from([0.0, 0.5, 1.0]),
            st.floats(0, 1000),
            st.sampled_from([-0.2, 0.3, 0.7, 1.0]),
            st.booleans(),
        ),
        max_size=30,
    )
)
def test_a_chance_is_a_chance_and_one_success_more_never_lowers_it(trials: list[Trial]) -> None:
    before, after = forecast(trials).mean, forecast([*trials, trial(1.0, days=0.0)]).mean
    assert 0.0 < before < 1.0
    if find_stale_age([*trials, trial(1.0, days=0.0)]) == find_stale_age(trials):
        assert after >= before - 1e-9


def test_more_trials_narrow_the_interval() -> None:
    widths = []
    for count in (0, 2, 8, 30):
        low, high = forecast([trial(1.0, days=float(at)) for at in range(count)]).belief.interval()
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)


def test_the_less_alike_a_task_the_less_it_says() -> None:
    means = [forecast([trial(1.0, alike=alike) for _ in range(3)]).mean for alike in (1.0, 0.8, 0.6)]
    assert means == sorted(means, reverse=True)
    assert weigh_likeness(0.4) == weigh_likeness(-1.0) == 0.0
    assert weigh_likeness(1.0) == 1.0


def test_a_task_that_everybody_fails_at_is_hard_for_a_new_strategy_too() -> None:
    others = [trial(0.0, own=False, strategy=f"way {at % 3}") for at in range(9)]
    elsewhere = [trial(1.0, alike=0.1, own=False, strategy=f"way {at % 3}") for at in range(9)]
    assert forecast([*others, *elsewhere]).mean < 0.2
    assert forecast(elsewhere).mean > 0.6


def test_what_a_strategy_alone_achieved_is_to_its_credit_and_what_everybody_did_is_not() -> None:
    own = [trial(1.0, alike=0.75) for _ in range(4)]
    elsewhere = [trial(value, alike=0.0, own=False) for value in (0.0, 1.0) * 6]
    everybody = [trial(1.0, alike=0.75, own=False, strategy=f"way {at}") for at in range(8)]
    alone = forecast([*own, *elsewhere])
    assert alone.mean > 0.7
    ease = forecast([*everybody, *elsewhere]).expected - forecast(elsewhere).expected
    assert forecast([*own, *everybody, *elsewhere]).expected - ease < alone.expected


def test_a_strategy_that_works_everywhere_is_expected_to_work_here() -> None:
    own = [trial(1.0, alike=0.1) for _ in range(12)]
    others = [trial(0.0, alike=0.1, own=False) for _ in range(12)]
    assert forecast([*own, *others]).mean > 0.65


def test_what_worked_long_ago_and_fails_now_is_seen_to_fail() -> None:
    used_to = [trial(1.0, days=float(at)) for at in range(10, 40)]
    assert forecast(used_to).mean > 0.9
    assert forecast([*used_to, *(trial(0.0, days=float(at)) for at in range(5))]).mean < 0.4


def test_one_bad_day_changes_nothing_and_a_bad_week_does() -> None:
    used_to = [trial(1.0, days=float(at)) for at in range(10, 30)] + [trial(0.0, days=31.0)]
    assert find_stale_age([*used_to, trial(0.0, days=1.0)]) == float("inf")
    assert find_stale_age([*used_to, *(trial(0.0, days=float(at)) for at in range(5))]) == 4.0


def test_a_change_elsewhere_leaves_this_task_alone() -> None:
    elsewhere = [trial(1.0, days=float(at), alike=0.2) for at in range(10, 30)]
    elsewhere += [trial(0.0, days=float(at), alike=0.2) for at in range(6)]
    assert find_stale_age(elsewhere) == float("inf")


def test_what_was_tried_little_promises_more_than_what_was_tried_much() -> None:
    little, much = forecast([trial(1.0), trial(0.0)]), forecast([trial(1.0), trial(0.0)] * 20)
    luck = random.Random(1)
    assert little.promise(luck) - little.mean > 1.5 * (much.promise(luck) - much.mean) > 0


def test_what_was_never_tried_here_is_not_given_up_for_what_it_did_elsewhere() -> None:
    elsewhere = [trial(0.0, alike=0.1, task=f"another {at}") for at in range(20)]
    others = [trial(0.4, own=False) for _ in range(20)]
    luck = random.Random(1)
    untried, tried = forecast([*elsewhere, *others]), forecast([trial(0.0) for _ in range(20)])
    assert untried.promise(luck) > untried.mean + 0.12
    assert tried.promise(luck) < tried.mean + 0.1


# -- from the store


def test_a_strategy_is_judged_by_how_it_went_on_such_tasks(open_everywhere: Open) -> None:
    alma = open_everywhere()
    for _ in range(5):
        alma.learn("a", TASK, "success", SORTING)
        alma.learn("a", TASK, "failure", GUESSING)
    assert predicted(alma, SORTING).mean > 0.8
    assert predicted(alma, GUESSING).mean < 0.2
    assert 0.3 < predicted(alma, "ask the auditor").mean < 0.8


def test_the_outcomes_of_another_agent_say_nothing(open_everywhere: Open) -> None:
    alma = open_everywhere()
    for _ in range(5):
        alma.learn("b", TASK, "failure", SORTING)
    assert predicted(alma, SORTING).mean == 0.5


def test_the_opposite_of_a_strategy_is_not_the_strategy(open_everywhere: Open) -> None:
    alma = open_everywhere()
    for _ in range(6):
        alma.learn("a", TASK, "success", "Do not sort the entries")
    trials = survey_strategy(read_task(alma.engine, "a", TASK), "Sort the entries").trials
    assert not any(one.own for one in trials)
    assert all(one.kin == 0.0 for one in trials)


def test_another_wording_of_a_strategy_is_the_strategy(open_everywhere: Open) -> None:
    alma = open_everywhere()
    for _ in range(4):
        alma.learn("a", TASK, "success", "Do not commit the .env file")
    trials = survey_strategy(read_task(alma.engine, "a", TASK), "Don't commit the .env file").trials
    assert sum(one.own for one in trials) == 4


def test_a_contrary_task_says_nothing(open_everywhere: Open) -> None:
    alma = open_everywhere()
    alma.learn("a", "Disable the query cache on the server", "success", SORTING)
    [one] = survey_strategy(read_task(alma.engine, "a", "Enable the query cache on the server"), SORTING).trials
    assert one.alike < 0.9


def test_every_result_is_counted_once(open_everywhere: Open) -> None:
    alma = open_everywhere(clock=Clock())
    for at in range(7):
        alma.learn("a", TASK, "success" if at % 2 else "failure", SORTING)
    found = survey_strategy(read_task(alma.engine, "a", TASK), SORTING)
    assert len(found.trials) == found.tried == 7
    assert found.worked == 3


def test_of_a_task_done_very_often_the_latest_results_count(open_everywhere: Open) -> None:
    alma = open_everywhere(clock=Clock())
    rows = [{"agent": "a", "task": TASK, "outcome": "success", "strategy_used": SORTING} for _ in range(120)]
    alma.learn_many(rows)
    alma.learn_many([{**row, "outcome": "failure"} for row in rows[:12]])
    assert predicted(alma, SORTING).mean < 0.3


def test_before_a_moment_nothing_later_is_known(open_everywhere: Open) -> None:
    clock = Clock()
    alma = open_everywhere(clock=clock)
    for _ in range(4):
        alma.learn("a", TASK, "success", SORTING)
    moment = clock()
    for _ in range(8):
        alma.learn("a", TASK, "failure", SORTING)
    assert predicted(alma, SORTING, before=moment).mean > 0.8
    assert predicted(alma, SORTING).mean < 0.3


def test_what_a_person_says_counts_until_there_is_evidence(open_everywhere: Open) -> None:
    alma = open_everywhere()
    alma.add_heuristic("a", TASK, SORTING)
    alma.add_anti_pattern("a", GUESSING, "it was wrong twice", condition=TASK)
    assert predicted(alma, SORTING).mean > 0.7
    assert predicted(alma, GUESSING).mean < 0.3
    for _ in range(8):
        alma.learn("a", TASK, "failure", SORTING)
    assert predicted(alma, SORTING).mean < 0.35


# -- for retrieval's ranking


def test_a_lesson_is_ranked_by_how_it_will_do_at_this_task(open_everywhere: Open) -> None:
    alma = open_everywhere()
    porto = "Translate the annual report for the Porto museum"
    for _ in range(4):
        alma.learn("a", TASK, "success", SORTING)
        alma.learn("a", porto, "success", "use the glossary")
        alma.learn("a", porto, "failure", GUESSING)
    engine = alma.engine
    records = list(engine.store.scan(Where(kinds={"heuristic", "anti_pattern", "outcome"})))
    lessons = {
        str(one.body.get("strategy") or one.body.get("pattern")): one.id for one in records if one.kind != "outcome"
    }
    [vectors] = engine.encode([(TASK,)])
    chances = forecast_lessons(engine, TASK, vectors, records, engine.clock())
    assert set(chances) == set(lessons.values())
    assert chances[lessons[SORTING]] > chances[lessons["use the glossary"]]
    [vectors] = engine.encode([(porto,)])
    chances = forecast_lessons(engine, porto, vectors, records, engine.clock())
    assert chances[lessons[GUESSING]] > 0.8, "a warning is ranked by how surely the thing fails"
    assert chances[lessons["use the glossary"]] > chances[lessons[SORTING]]


def test_a_lesson_without_results_is_left_to_what_was_said(open_everywhere: Open) -> None:
    alma = open_everywhere()
    alma.add_heuristic("a", TASK, SORTING)
    records = list(alma.engine.store.scan(Where(kinds={"heuristic"})))
    assert forecast_lessons(alma.engine, TASK, (), records, alma.engine.clock()) == {}


@pytest.mark.parametrize("millis", [0, 300, 600, 900])
def test_quick_results_count_in_their_order_wherever_a_second_begins(open_alma: Open, millis: int) -> None:
    moments = (datetime(2025, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis + 9 * number) for number in range(9999))
    alma = open_alma(clock=lambda: next(moments), embedder=None)
    for result, strategy in [*[("success", SORTING)] * 8, *[("failure", GUESSING)] * 2, *[("failure", SORTING)] * 7]:
        alma.learn("a", TASK, result, strategy)
    records = list(alma.engine.store.scan(Where(kinds={"anti_pattern"})))
    chances = forecast_lessons(alma.engine, TASK, (), records, alma.engine.clock())
    assert sorted(chances.values()) == pytest.approx([0.847, 0.919], abs=1e-3)
