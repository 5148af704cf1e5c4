from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.forked import share_forks

from alma.engine.context import Engine
from alma.errors import ModelOutputError, ModelTimeoutError, ModelUnavailableError, OverBudgetError
from alma.models.budget import Budgeted, BudgetLimits, Day, meter, most_tokens, reserve, settle, usage
from alma.stores.sqlite import SQLiteStore
from alma.testing import FrozenClock
from alma.types.asking import Answer, ModelSettings, Prompt
from alma.types.query import Where

pytestmark = pytest.mark.system

PROMPT = Prompt(system="do", text="something", schema={"type": "object"}, max_tokens=100)
TODAY = "2026-01-02"


@pytest.fixture
def clock():
    return FrozenClock()


@pytest.fixture
def engine(tmp_path, clock):
    store = SQLiteStore(tmp_path / "memory.db")
    yield Engine(store, "p", clock=clock)
    store.close()


class Fake:
    name = "fake:small"

    def __init__(self, outcome=None):
        self.asked = 0
        self.outcome = outcome

    def ask(self, prompt):
        self.asked += 1
        if self.outcome is not None:
            raise self.outcome
        return Answer(value={}, model="fake-1", tokens_in=100, tokens_out=20, cost=0.01)


def test_what_was_used_is_metered(engine):
    model = Budgeted(Fake(), engine, BudgetLimits())
    assert model.ask(PROMPT).value == {}
    model.ask(PROMPT)
    took = {"failed": 0, "dropped": 0, "tokens_in": 200, "tokens_out": 40, "cost": 0.02}
    counted = Day(TODAY, calls=2, tokens_in=200, tokens_out=40, cost=0.02)
    purposes = {"other": {"calls": 2, **took}}
    assert meter(engine) == [replace(counted, models={"fake:small": 2}, used={"fake:small": took}, purposes=purposes)]
    assert meter(engine)[0].tokens == 240
    assert str(meter(engine)[0]) == "2026-01-02  2 calls  200 tokens in, 40 out, $0.0200  fake:small 2"


def test_a_day_has_so_many_calls_and_the_next_day_again(engine, clock):
    fake = Fake()
    model = Budgeted(fake, engine, BudgetLimits(calls=2))
    model.ask(PROMPT)
    model.ask(PROMPT)
    with pytest.raises(
        OverBudgetError, match=r"today's model budget is used up \(2 of 2 calls\); raise `model.budget.calls`"
    ):
        model.ask(PROMPT)
    assert fake.asked == 2
    clock.advance(days=1)
    model.ask(PROMPT)
    assert [(day.day, day.calls) for day in meter(engine)] == [("2026-01-03", 1), (TODAY, 2)]


def test_none_at_all_is_a_budget_too(engine):
    fake = Fake()
    with pytest.raises(OverBudgetError):
        Budgeted(fake, engine, BudgetLimits(calls=0)).ask(PROMPT)
    assert fake.asked == 0
    assert meter(engine) == []


def test_tokens_are_set_aside_before_the_question(engine):
    most = most_tokens(PROMPT)
    limits = BudgetLimits(calls=None, tokens=2 * most)
    first = reserve(engine, limits, "m", most)
    reserve(engine, limits, "m", most)
    with pytest.raises(OverBudgetError, match="tokens; this call needs"):
        reserve(engine, limits, "m", most)
    settle(engine, first, (10, 5, 0.0), failed=False)
    with pytest.raises(OverBudgetError):
        reserve(engine, limits, "m", most)
    reserve(engine, limits, "m", most - 15)


def test_money_is_set_aside_before_the_question(engine):
    limits = BudgetLimits(calls=None, cost=0.10, cost_of_a_call=0.05)
    first = reserve(engine, limits, "m", 1)
    reserve(engine, limits, "m", 1)
    with pytest.raises(OverBudgetError, match=r"\$0.1000 of \$0.10; this call needs \$0.0500"):
        reserve(engine, limits, "m", 1)
    settle(engine, first, (1, 1, 0.0), failed=False)
    reserve(engine, limits, "m", 1)


@pytest.mark.parametrize("error", [ModelOutputError("bad", (50, 5, 0.02)), ModelUnavailableError("off", (0, 0, 0.0))])
def test_a_question_that_failed_is_counted_with_what_it_cost(engine, error):
    with pytest.raises(type(error)):
        Budgeted(Fake(error), engine, BudgetLimits()).ask(PROMPT)
    [day] = meter(engine)
    assert (day.calls, day.failed, day.tokens, day.cost) == (1, 1, sum(error.spent[:2]), error.spent[2])
    assert day.aside_tokens == 0


@pytest.mark.parametrize("error", [ModelTimeoutError("slow"), KeyboardInterrupt()])
def test_what_nobody_knows_counts_as_spent(engine, error):
    limits = BudgetLimits(tokens=most_tokens(PROMPT))
    with pytest.raises(type(error)):
        Budgeted(Fake(error), engine, limits).ask(PROMPT)
    [day] = meter(engine)
    assert (day.calls, day.failed, day.tokens) == (1, 1, 0)
    assert day.aside_tokens == most_tokens(PROMPT)
    with pytest.raises(OverBudgetError):
        Budgeted(Fake(), engine, limits).ask(PROMPT)


def test_a_question_over_midnight_belongs_to_the_day_it_was_asked(engine, clock):
    reserved = reserve(engine, BudgetLimits(), "m", 10)
    clock.advance(days=1)
    settle(engine, reserved, (1, 2, 0.5), failed=False)
    [day] = meter(engine)
    assert (day.day, day.calls, day.tokens_in, day.tokens_out, day.cost) == (TODAY, 1, 1, 2, 0.5)


def test_days_of_a_newer_version_can_be_read(engine):
    reserve(engine, BudgetLimits(), "m", 10)
    [held] = engine.store.scan(Where(kinds={"marker"}))
    engine.store.put([replace(held, version=2, body={"value": {**held.body["value"], "smell": 3}})])
    assert meter(engine)[0].calls == 1


def test_projects_share_one_budget(engine):
    limits = BudgetLimits(calls=1)
    reserve(engine, limits, "m", 1)
    with pytest.raises(OverBudgetError):
        reserve(replace(engine, project="another"), limits, "m", 1)


@pytest.mark.parametrize(
    ("days", "expected"), [(1, [0]), (7, [0, 6]), (30, [0, 6]), (90, [0, 6, 40]), (10**9, [0, 6, 40])]
)
def test_usage_is_of_the_last_days_whether_or_not_a_model_was_asked_on_them(engine, clock, days, expected):
    now = clock.moment
    for ago in (40, 6, 0):
        clock.moment = now - timedelta(days=ago)
        reserve(engine, BudgetLimits(), "fake", 10)
    used = usage(engine, ModelSettings(), days=days).days
    assert [one.day for one in used] == [(now - timedelta(days=ago)).date().isoformat() for ago in expected]


RACE = """
import sys
from alma.engine.context import Engine
from alma.errors import OverBudgetError
from alma.models.budget import BudgetLimits, reserve, settle
from alma.stores.sqlite import SQLiteStore
store = SQLiteStore(sys.argv[1])
engine = Engine(store, "p")
got = 0
print("ready", flush=True)
sys.stdin.readline()
for _ in range(3):
    try:
        reserved = reserve(engine, BudgetLimits(calls=5), "m", 10)
    except OverBudgetError:
        continue
    got += 1
    settle(engine, reserved, (7, 1, 0.5), failed=False)
store.close()
print(got)
"""


def test_eight_processes_racing_for_five_calls_get_five(tmp_path):
    path = tmp_path / "memory.db"
    SQLiteStore(path).close()
    racers = [share_forks().start(RACE, tmp_path, arguments=[str(path)], with_pipes=True) for _ in range(8)]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    ended = [racer.communicate("go\n", timeout=60) for racer in racers]
    assert [errors for _, errors in ended] == [""] * 8
    assert sum(int(out) for out, _ in ended) == 5
    store = SQLiteStore(path)
    [day] = meter(Engine(store, "p"))
    assert (day.calls, day.tokens_in, day.tokens_out, day.cost, day.aside_tokens) == (5, 35, 5, 2.5, 0)
    store.close()
