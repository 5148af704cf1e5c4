"""What spares most texts most of the work must never spare a secret."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import alma
from alma.engine.redact import _TELLING, _suspect
from alma.engine.secret_names import RULES
from alma.engine.secret_rule import SHORTEST, Rule, Text, anywhere, find, fold

ALL = RULES.rules
# These are known by what stands elsewhere in the text too.
BY_CONTEXT = {'"kty"', "cookie"}
ALONE = [rule for rule in ALL if BY_CONTEXT.isdisjoint(rule.hints)]
ANCHORED = [rule for rule in ALL if rule.starts is not anywhere]
MANY = settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
BITS = ["=", ": ", "', '", '"', " ", "\n", "x9Kq2vLm81", "set ", "İ", "ſ", "a", "_", "."]


def matched(rule: Rule) -> st.SearchStrategy[str]:
    return st.from_regex(rule.pattern.compiled())


def everywhere(rule: Rule) -> Rule:
    """The same rule, tried at every place of every text."""
    return Rule(rule.name, ("",), rule.pattern.source, rule.locate)


@given(st.sampled_from(ALONE).flatmap(lambda rule: st.tuples(st.just(rule), matched(rule))))
@MANY
def test_no_rule_matches_a_text_without_its_hints(drawn: tuple[Rule, str]) -> None:
    rule, text = drawn[0], Text(drawn[1])
    where = text.folded if rule.folds else text.long if rule.run else text.plain
    assert any(hint in where for hint in rule.hints)
    assert text.longest >= rule.run


@given(st.sampled_from(ALL).flatmap(lambda rule: st.tuples(st.just(rule), matched(rule))))
@MANY
def test_what_a_rule_finds_is_found_among_all_rules(drawn: tuple[Rule, str]) -> None:
    rule, text = drawn[0], Text(drawn[1])
    if find(everywhere(rule), text):
        assert rule in RULES.for_text(text)
        assert _suspect(text)


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: f"{rule.name or 'named'} {rule.hints[0]}")
def test_the_first_look_lets_every_rule_through(rule: Rule) -> None:
    loose = [hint for hint in rule.hints if not any(word in hint.lower() for word in _TELLING)]
    assert not loose or rule.run >= SHORTEST or rule.name in ("card_number", "iban", "provider_token")


@given(
    st.sampled_from(ANCHORED).flatmap(
        lambda rule: st.tuples(
            st.just(rule), st.lists(st.one_of(matched(rule), st.sampled_from([*rule.hints, *BITS])), max_size=6)
        )
    )
)
@MANY
def test_looking_only_where_a_match_can_begin_misses_none(drawn: tuple[Rule, list[str]]) -> None:
    rule, text = drawn[0], Text("".join(drawn[1]))
    assert find(rule, text) == find(everywhere(rule), text)


@given(st.text(st.characters(), max_size=60))
def test_folding_keeps_every_place(text: str) -> None:
    assert len(fold(text)) == len(text)


def test_a_letter_that_only_folds_to_another_hides_nothing() -> None:
    from alma.engine.redact import redact

    value = "x9" + "Kettle44"
    assert value not in redact(f"paſſword={value} and toKen: {value}7b").text


PROBE = """
import re, sys
sys.path.insert(0, sys.argv[1])
from alma.engine.redact import redact
redact(sys.argv[2])
print(*sorted(sys.modules))
"""


def loaded(text: str) -> set[str]:
    source = str(Path(alma.__file__).parent.parent)
    run = [sys.executable, "-I", "-S", "-c", PROBE, source, text]
    return set(subprocess.run(run, capture_output=True, text=True, check=True).stdout.split())


def test_a_plain_text_loads_no_rules() -> None:
    assert "alma.engine.secret_names" not in loaded("run the tests")


def test_redaction_loads_nothing_heavy() -> None:
    heavy = {"dataclasses", "typing", "inspect", "base64", "ast", "json"}
    assert not loaded("the api key is in https://example.com/some/long/path?key=value") & heavy


def test_only_the_patterns_that_may_match_are_compiled() -> None:
    code = PROBE.replace(
        "print(*sorted(sys.modules))", "print(sum(rule.pattern._compiled is not None for rule in rules))"
    )
    code = code.replace(
        "redact(sys.argv[2])", "redact(sys.argv[2]); from alma.engine.secret_names import RULES; rules = RULES.rules"
    )
    run = [sys.executable, "-I", "-S", "-c", code, str(Path(alma.__file__).parent.parent), "rename the key, please"]
    assert int(subprocess.run(run, capture_output=True, text=True, check=True).stdout) <= 4
