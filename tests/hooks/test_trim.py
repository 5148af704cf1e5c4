from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.timing import cpu_seconds

from alma.hooks.privacy import CUT, Trimmer, cut_redacted, redact_and_cut

TOKEN = "ghp_" + "Ab3dEf9hJk2mNp4qRs6tUv8wXy1zAb3dEf9h"
KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA7bq\n" * 150 + "-----END RSA PRIVATE KEY-----\n"


def test_a_short_text_is_kept_as_it_is() -> None:
    assert redact_and_cut("run the tests", 100, 100) == "run the tests"


def test_a_long_text_keeps_its_start_and_its_end() -> None:
    text = "start " + "middle " * 5000 + "end"
    short = redact_and_cut(text, 100, 300)
    assert short.startswith("start middle")
    assert short.endswith("middle end")
    assert CUT in short
    assert len(short) <= 400 + len(CUT)


@pytest.mark.parametrize("shift", range(0, 60, 3))
def test_no_cut_leaves_half_a_secret(shift: int) -> None:
    """The cut goes through the token, just before and just behind it."""
    line = "word " * 18 + "\n"
    before = "x " * ((1000 - shift) // 2)
    behind = " x" * ((3000 - shift) // 2)
    text = before + TOKEN + "\n" + line * 200 + TOKEN + behind
    short = redact_and_cut(text, 1000, 3000)
    assert not any(TOKEN[i : i + 10] in short for i in range(len(TOKEN) - 10))


@pytest.mark.parametrize("start", [900, 500, 2000, 6000])
def test_no_cut_leaves_half_a_key(start: int) -> None:
    text = "a " * (start // 2) + KEY + "b " * 1000 + "\n" + KEY + "c " * (start // 2)
    assert "MIIEpAIBAAKCAQEA7bq" not in redact_and_cut(text, 1000, 3000)


def test_a_key_longer_than_all_that_is_looked_at() -> None:
    long_key = KEY.replace("MIIEpAIBAAKCAQEA7bq\n", "MIIEpAIBAAKCAQEA7bq\n" * 10)
    short = redact_and_cut("a " * 300 + long_key + "b " * 300, 1000, 3000)
    assert "MIIEpAIBAAKCAQEA7bq" not in short
    assert short.endswith("b ")


def test_one_endless_token_is_not_cut_into_pieces() -> None:
    assert redact_and_cut("A1b2" * 10_000, 1000, 3000) == CUT


def test_a_token_that_the_cut_does_not_go_through_is_kept() -> None:
    """What is kept of the end is searched for secrets from 4096 characters before it, here from between two words."""
    looked_at = 300 + 4096
    assert redact_and_cut("a " * 3000 + "x" * (looked_at - 1), 100, 300).endswith(CUT + "x" * 300)
    assert redact_and_cut("a " * 3000 + "x" * looked_at, 100, 300).endswith(CUT)


def test_fifty_megabytes_are_cut_before_anything_looks_at_them() -> None:
    text = "line of output, token=abc\n" * 2_000_000
    whole = cpu_seconds(lambda: text.count("token"))
    assert cpu_seconds(lambda: redact_and_cut(text, 1000, 3000), 10, enough=0.2) < 0.2 + whole


def test_what_is_private_in_the_middle_hides_the_end() -> None:
    assert redact_and_cut("a " * 3000 + "<private>" + "b " * 3000, 100, 100).replace(CUT, "").strip("a ") == ""


def test_a_mark_is_not_cut_in_two() -> None:
    text = "a" * 95 + "[REDACTED:password]" + "b" * 95
    for head in range(90, 130):
        assert "[RED" not in cut_redacted(text, head, 0).replace("[REDACTED:password]", "")
    for tail in range(90, 130):
        assert "word]" not in cut_redacted(text, 0, tail).replace("[REDACTED:password]", "")


def test_a_name_and_a_value_give_a_secret_away_together() -> None:
    trimmed = Trimmer(16_000).trim(
        {"password": "hunter2", "name": "hunter2", "nested": [{"api_key": "a8f5f167f44f4964e6c998dee827110c"}]}
    )
    assert trimmed == {
        "password": "[REDACTED:password]",
        "name": "hunter2",
        "nested": [{"api_key": "[REDACTED:api_key]"}],
    }
    environment = [{"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "SIZE", "value": "hunter2"}]
    trimmed = Trimmer(16_000).trim({"environment": environment})
    assert [field["value"] for field in trimmed["environment"]] == ["[REDACTED:password]", "hunter2"]


def test_each_string_and_all_together_have_a_limit() -> None:
    trimmed = Trimmer(16_000).trim({f"k{i}": "word " * 2000 for i in range(20)})
    assert max(map(len, trimmed.values())) <= 4000 + len(CUT)
    assert sum(map(len, trimmed.values())) <= 16_000 + 25 * len(CUT)


def test_what_is_no_text_stays() -> None:
    assert Trimmer(100).trim({"a": 1, "b": None, "c": True, "d": [1.5]}) == {"a": 1, "b": None, "c": True, "d": [1.5]}


def test_endless_nesting_is_cut() -> None:
    value: object = "x"
    for _ in range(500):
        value = {"a": [value]}
    assert CUT in str(Trimmer(16_000).trim(value))


@given(st.text(max_size=300), st.integers(0, 80), st.integers(0, 80))
def test_a_text_never_grows_by_more_than_the_mark(text: str, head: int, tail: int) -> None:
    assert len(redact_and_cut(text, head, tail)) <= max(len(text), head + tail + len(CUT)) + 200
