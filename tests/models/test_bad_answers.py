"""What a service may answer instead of an answer."""

from __future__ import annotations

import gzip
import json
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alma.errors import (
    ModelError,
    ModelOutputError,
)
from alma.models import client
from alma.models.budget import meter
from alma.types.asking import BudgetLimits


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(client, "BACKOFF", 0.01)


def timed(ask):
    started = time.monotonic()
    with pytest.raises(ModelError) as caught:
        ask()
    return caught.value, time.monotonic() - started


BAD = [
    ("not json at all", r"answer is not JSON \(15 characters\)"),
    ("", "the model's answer is empty"),
    ('{"rules": [', "not JSON"),
    ('{"rules": [NaN]}', "not JSON"),
    ('{"rules": ["\\ud800"]}', "not JSON"),
    ("[" * 100_000, "not JSON"),
    ({"rules": "use pnpm"}, r"does not match the schema: \$.rules: must be array"),
    ({"rules": [], "more": 1}, "was not requested"),
    ({"rules": ["x"] * 6}, "at most 5 items"),
    ("[]", "must be object"),
]


@pytest.mark.parametrize(("said", "message"), BAD)
def test_what_is_no_answer_is_dropped_and_counted(opened, service, prompt, said, message, engine):
    service.said = said
    with pytest.raises(ModelOutputError, match=message) as caught:
        opened().ask(prompt)
    assert caught.value.spent[:2] == (100, 20)
    [day] = meter(engine)
    assert (day.calls, day.failed, day.dropped, day.tokens) == (1, 1, 1, 120)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"",
        b"[1]",
        b"null",
        b'{"choices": [], "content": null}',
        b'{"choices": [7], "content": 7}',
        b"\xff\xfe",
    ],
)
def test_an_envelope_that_is_none_is_dropped(opened, service, prompt, reply, body, engine):
    service.script = [reply(body)]
    with pytest.raises(ModelOutputError):
        opened().ask(prompt)
    [day] = meter(engine)
    assert day.dropped == 1
    assert day.aside_tokens > 0, "nobody knows what it took"


def test_an_answer_is_mended_once(opened, service, provider, prompt, reply, engine):
    service.script = [reply(service.good("/messages" if provider == "anthropic" else "/chat", "nonsense"))]
    assert opened(repair=True).ask(prompt).value == {"rules": ["use pnpm"]}
    told = json.dumps(service.seen[1].body)
    assert "An earlier answer could not be used: the model's answer is not JSON (8 characters)" in told
    assert "nonsense" not in told
    [day] = meter(engine)
    assert (day.calls, day.failed, day.dropped, day.tokens) == (2, 1, 1, 240)


def test_it_is_mended_no_more_than_once(opened, service, prompt, engine):
    service.said = "nonsense"
    with pytest.raises(ModelOutputError):
        opened(repair=True).ask(prompt)
    assert meter(engine)[0].dropped == 2
    assert len(service.seen) == 2


def test_it_is_not_mended_where_the_budget_does_not_allow_it(opened, service, prompt, engine):
    service.said = "nonsense"
    with pytest.raises(ModelOutputError, match="not JSON"):
        opened(repair=True, budget=BudgetLimits(calls=1)).ask(prompt)
    assert len(service.seen) == 1


@pytest.mark.parametrize("how", ["refused", "cut off"])
def test_a_refusal_and_a_lack_of_room_are_not_mended(opened, service, provider, prompt, reply, how):
    path = "/messages" if provider == "anthropic" else "/chat"
    good = service.good(path)
    if provider == "anthropic":
        good["stop_reason"] = "refusal" if how == "refused" else "max_tokens"
    else:
        good["choices"][0]["finish_reason"] = "content_filter" if how == "refused" else "length"
    service.always = reply(good)
    with pytest.raises(ModelOutputError, match=how):
        opened(repair=True).ask(prompt)
    assert len(service.seen) == 1


def test_a_service_that_does_not_count_has_spent_what_was_set_aside(opened, service, provider, prompt, reply, engine):
    path = "/messages" if provider == "anthropic" else "/chat"
    service.script = [reply(service.good(path, usage=None))]
    answer = opened().ask(prompt)
    assert not answer.metered
    [day] = meter(engine)
    assert (day.tokens, day.failed) == (0, 0)
    assert day.aside_tokens > 500


def test_a_flood_is_ended_early(opened, service, prompt, reply):
    service.script = [reply(b'{"x": "' + b"a" * (40 * 1024 * 1024) + b'"}')]
    error, seconds = timed(lambda: opened().ask(prompt))
    assert "answered with more than 4 MB; the request was cancelled" in str(error)
    assert seconds < 19


def test_a_flood_of_an_error_is_cut(opened, service, prompt, reply):
    service.script = [reply(b"a" * (20 * 1024 * 1024), status=400)]
    error, _ = timed(lambda: opened().ask(prompt))
    assert "refused the request (400)" in str(error)
    assert len(str(error)) < 400


def test_a_flood_of_a_passing_error_is_retried(opened, service, prompt, reply):
    service.script = [reply(b"a" * (5 * 1024 * 1024), status=503)]
    opened(retries=1).ask(prompt)
    assert len(service.seen) == 2


def test_nothing_is_unpacked(opened, service, prompt, reply):
    bomb = gzip.compress(b"0" * 50_000_000)
    service.script = [reply(bomb, headers={"content-encoding": "gzip"})]
    error, _ = timed(lambda: opened().ask(prompt))
    assert "an encoding that was not requested" in str(error)
    assert service.seen[0].headers["accept-encoding"] == "identity"


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["content", "choices", "message", "usage", "type", "text", "stop_reason", "input_tokens"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=10,
    ).map(lambda value: json.dumps(value).encode())
)
def test_whatever_comes_back_is_an_answer_or_a_named_error(opened, service, prompt, reply, body):
    service.script = [reply(body)]
    with pytest.raises(ModelError):
        opened().ask(prompt)
