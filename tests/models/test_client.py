from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma import retry
from alma.errors import ModelUnavailableError
from alma.models import client
from alma.models.client import Client, TransientModelError
from alma.retry import BACKOFF, LONGEST_WAIT
from alma.types.asking import Answer, Prompt

PROMPT = Prompt(system="s", text="t", schema={})


class Failing:
    name = "failing"

    def __init__(self, *errors):
        self.errors = list(errors)
        self.asked = 0

    def ask(self, prompt):
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return Answer(value={}, model="m")


def waits_of(*errors, retries=5, draw=lambda low, high: high, within=1000.0):
    waits = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(retry, "sleep", waits.append)
        patched.setattr(client, "uniform", draw)
        Client(Failing(*errors), retries=retries, within=within).ask(PROMPT)
    return waits


def test_pauses_are_drawn_from_a_range_that_doubles():
    drawn = []

    def draw(low, high):
        drawn.append((low, high))
        return low

    assert waits_of(*[TransientModelError("busy")] * 4, draw=draw) == [0.0] * 4
    assert drawn == [(0.0, BACKOFF), (0.0, BACKOFF * 2), (0.0, BACKOFF * 4), (0.0, BACKOFF * 8)]


@given(st.lists(st.floats(0, 20), min_size=1, max_size=4), st.floats(0, 1))
def test_nobody_comes_back_earlier_than_told(told, share):
    waits = waits_of(*(TransientModelError("busy", after=after) for after in told), draw=lambda low, high: share * high)
    assert len(waits) == len(told)
    assert all(after <= wait <= after + BACKOFF for wait, after in zip(waits, told, strict=True))


def test_many_who_fail_together_do_not_come_back_together():
    pauses = {waits_of(TransientModelError("busy"), draw=__import__("random").uniform)[0] for _ in range(50)}
    assert len(pauses) > 45


def test_what_is_not_passing_is_not_tried_again():
    model = Failing(ModelUnavailableError("no key"))
    with pytest.raises(ModelUnavailableError):
        Client(model, retries=3, within=10).ask(PROMPT)
    assert model.asked == 1


@pytest.mark.parametrize(("after", "within"), [(LONGEST_WAIT + 1, 1000.0), (5.0, 2.0)])
def test_who_would_wait_too_long_gives_up_at_once(after, within, monkeypatch):
    monkeypatch.setattr(retry, "sleep", lambda seconds: pytest.fail("it waited"))
    model = Failing(TransientModelError("busy", after=after))
    with pytest.raises(TransientModelError):
        Client(model, retries=3, within=within).ask(PROMPT)
    assert model.asked == 1
