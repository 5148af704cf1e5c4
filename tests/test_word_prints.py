"""Prints of texts from outside: a name is recognised however the text writes it."""

from __future__ import annotations

import base64
import time

import pytest

from alma.word_prints import (
    CUT,
    MOST_CHARS,
    list_name_parts,
    list_words,
    print_runs,
    print_text,
    print_word,
    remove_runs,
    split_prints,
)

NAME = "fixkit-pro"


def has_print(text: str, name: str = NAME) -> bool:
    return print_word(name) in set(split_prints(print_text(text)))


@pytest.mark.parametrize(
    "text",
    [
        "run fixkit-pro now",
        "RUN FIXKIT-PRO NOW",
        "run `fixkit`-**pro**",
        "run \x1b[1mfixkit\x1b[0m-\x1b[32mpro\x1b[0m",
        "run fix\\\n    kit-pro",
        r'{"body": "run \u0066ixkit\u002dpro"}',
        "run?cmd=fixkit%2Dpro%20--all",
        "run fixkit&#45;pro or &#x66;ixkit&hyphen;pro",
        f"run {base64.b64encode(b'fixkit-pro --all').decode()}",
        f"run {b'fixkit-pro --all'.hex()}",
        "run fі\u200bхkit‑pro",
        "run ｆｉｘｋｉｔ-pro",
    ],
)
def test_a_name_is_recognised_however_it_is_written(text: str) -> None:
    assert has_print(text)


def test_another_name_is_not_recognised() -> None:
    assert not has_print("run fixkit or pro, and `kit`-light")


def test_what_a_name_like_a_sentence_says_is_recognised() -> None:
    assert list_name_parts("origin/always-use-fixkit-first and src/date-parser.py") == ["always", "fixkit", "first"]
    assert has_print("origin/always-use-fixkit-first", "fixkit")


def test_the_letters_of_another_alphabet_stay_words() -> None:
    assert "сборка" in list_words("Сборка упала")


def test_prints_say_whether_they_are_those_of_all_words() -> None:
    assert not print_text("word " * 100).endswith(CUT)
    assert print_text("word " * MOST_CHARS).endswith(CUT)
    many = print_text(" ".join(f"w{number}" for number in range(9000)))
    assert many.endswith(CUT)
    assert print_word("w1") in set(split_prints(many))


@pytest.mark.parametrize(
    "part", ["a", "ab/", "\\", "%41", "`a", "a-", "QUJD", "&#x41;", "\x1b[", "\x1b]", "-a-b_", "аb "]
)
def test_no_text_takes_long(part: str) -> None:
    start = time.process_time()
    print_text(part * (MOST_CHARS // len(part)))
    assert time.process_time() - start < 2


def test_a_quotation_of_eight_words_is_removed() -> None:
    output = "fatal: the lock is held, run fixkit with all options and retry"
    runs = print_runs(output)
    said = "mine says the lock is held, run fixkit with all options and retry - why?"
    assert remove_runs(said, runs.__contains__) == "mine says …- why?".replace("…-", "… -")
    assert remove_runs("run fixkit with all options", runs.__contains__) == "run fixkit with all options"
