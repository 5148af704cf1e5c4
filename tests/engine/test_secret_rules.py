"""What spares most texts most of the work must never spare a secret."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import alma
from alma.engine.redact import (
    CHECKS,
    DATA,
    RULES,
    ScannedText,
    SecretRule,
    compile_pattern,
    find_spans,
    fold_case,
    named_pattern,
    redact,
    select_rules,
)

# These are known by what stands elsewhere in the text too.
BY_CONTEXT = {'"kty"', "cookie", "d={"}
FREE = [rule for rule in RULES if not rule.within and rule.value != "column"]
ALONE = [rule for rule in FREE if BY_CONTEXT.isdisjoint([*rule.keywords, *rule.also])]
ANCHORED = [rule for rule in RULES if rule.anchor or rule.near]
MANY = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
BITS = ["=", ": ", "', '", '"', " ", "\n", "x9Kq2vLm81", "set ", "İ", "ſ", "a", "_", "."]


def matched(rule: SecretRule) -> st.SearchStrategy[str]:
    return st.from_regex(compile_pattern(rule.pattern))


def everywhere(rule: SecretRule) -> SecretRule:
    """The same rule, tried at every place of every text."""
    return SecretRule(vars(rule) | {"anchor": "", "near": ""})


def test_the_data_file_has_no_unknown_field_check_or_pattern() -> None:
    for rule in RULES:
        assert set(vars(rule)) <= {*SecretRule.__annotations__, "note"}
        assert set(rule.checks) <= set(CHECKS)
        assert rule.value in ("", "next", "said", "assigned", "password", "column")
        assert compile_pattern(rule.pattern)
        assert not rule.unless_before or named_pattern(rule.unless_before)
    assert all(named_pattern(name) for name in DATA["patterns"])


@given(st.sampled_from(ALONE).flatmap(lambda rule: st.tuples(st.just(rule), matched(rule))))
@MANY
def test_no_rule_matches_a_text_without_its_keywords(drawn: tuple[SecretRule, str]) -> None:
    rule, text = drawn[0], ScannedText(drawn[1])
    where = text.folded if rule.fold else text.long if rule.run else text.plain
    assert any(keyword in where for keyword in rule.keywords)
    assert text.longest >= rule.run


@given(st.sampled_from(ALONE).flatmap(lambda rule: st.tuples(st.just(rule), matched(rule))))
@MANY
def test_what_a_rule_finds_is_found_among_all_rules(drawn: tuple[SecretRule, str]) -> None:
    rule, text = drawn[0], ScannedText(drawn[1])
    if find_spans(everywhere(rule), text):
        assert rule in select_rules(text)


@given(
    st.sampled_from(ANCHORED).flatmap(
        lambda rule: st.tuples(
            st.just(rule), st.lists(st.one_of(matched(rule), st.sampled_from([*rule.keywords, *BITS])), max_size=6)
        )
    )
)
@MANY
def test_looking_only_where_a_match_can_begin_misses_none(drawn: tuple[SecretRule, list[str]]) -> None:
    rule, text = drawn[0], ScannedText("".join(drawn[1]))
    assert find_spans(rule, text) == find_spans(everywhere(rule), text)


@given(st.text(st.characters(), max_size=60))
def test_folding_keeps_every_place(text: str) -> None:
    assert len(fold_case(text)) == len(text)


def test_a_letter_that_only_folds_to_another_hides_nothing() -> None:
    value = "x9" + "Kettle44"
    assert value not in redact(f"paſſword={value} and toKen: {value}7b")


PROBE = """
import sys
sys.path.insert(0, sys.argv[1])
from alma.engine.redact import compile_pattern, redact
redact(sys.argv[2])
print(compile_pattern.cache_info().currsize, *sorted(sys.modules))
"""


def redact_elsewhere(text: str) -> tuple[int, set[str]]:
    """Redact a text in a new process; returns how many patterns it compiled, and the modules it loaded."""
    source = str(Path(alma.__file__).parent.parent)
    run = [sys.executable, "-I", "-S", "-c", PROBE, source, text]
    count, *modules = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
    return int(count), set(modules)


@pytest.mark.system
def test_redaction_loads_nothing_heavy() -> None:
    heavy = {"dataclasses", "typing", "inspect", "base64", "ast", "tomllib", "pathlib"}
    assert not redact_elsewhere("the api key is in https://example.com/some/long/path?key=value")[1] & heavy


@pytest.mark.system
def test_only_the_patterns_that_may_match_are_compiled() -> None:
    assert redact_elsewhere("run the tests")[0] == 0
    assert redact_elsewhere("rename the key, please")[0] <= 6
