"""The tool that changes operators and constants: its replacements are exact, and its probes leave a module valid."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.mutants import (
    PACKAGES,
    Mutant,
    choose_tests,
    draw_mutants,
    insert_probes,
    list_mutants,
    mutate_module,
    read_reached,
)

MODULE = '''
"""Compare 1 and 2."""

LIMIT = 3


@cache
def weigh(text: str, most: int = 4) -> "int | 5":
    """Return 6."""
    _LOG.warning("more than %d", 7)
    if text == "größer":
        return len(text) - most
    elif not text or text in ("a",):
        return f"{8 + 9}"
    return True
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "src" / "alma" / "engine"
    folder.mkdir(parents=True)
    (folder / "weights.py").write_text(MODULE, encoding="utf-8")
    return tmp_path


def find_mutants(tree: Path) -> list[Mutant]:
    return list(list_mutants(tree, None, "engine"))


def test_only_what_a_function_computes_is_changed(tree: Path) -> None:
    replacements = [(mutant.original, mutant.replacement) for mutant in find_mutants(tree)]
    assert sorted(replacements) == [
        ('"a"', '"ax"'),
        ('"größer"', '"größerx"'),
        ("-", "+"),
        ("==", "!="),
        ("True", "False"),
        ("in", "not in"),
        ("not ", ""),
        ("or", "and"),
    ]


def test_one_place_is_changed(tree: Path) -> None:
    for mutant in find_mutants(tree):
        changed = mutate_module(tree, mutant).decode()
        differing = [
            (before, after)
            for before, after in zip(MODULE.splitlines(), changed.splitlines(), strict=True)
            if before != after
        ]
        [(before, after)] = differing
        assert before.replace(mutant.original, mutant.replacement, 1) == after


def test_probes_stand_before_statements(tree: Path) -> None:
    mutants = [mutant for mutant in find_mutants(tree) if mutant.original in ("-", "not ")]
    lines = insert_probes(MODULE.encode(), mutants).decode().splitlines()
    following = [lines[number + 1].strip() for number, line in enumerate(lines) if "mutant_probe" in line]
    # No line can be inserted before `elif`, so the probe is before its `if`.
    assert following == ['if text == "größer":', "return len(text) - most"]


def test_a_function_that_differs_in_the_other_tree_is_left_alone(tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "src" / "alma" / "engine").mkdir(parents=True)
    (other / "src" / "alma" / "engine" / "weights.py").write_text("A = 1\n" + MODULE, encoding="utf-8")
    assert len(list(list_mutants(tree, other, "engine"))) == 8
    (other / "src" / "alma" / "engine" / "weights.py").write_text(MODULE.replace("True", "None"), encoding="utf-8")
    assert list(list_mutants(tree, other, "engine")) == []


def test_a_seed_draws_the_same_mutants_and_one_in_a_function(tree: Path) -> None:
    drawn = draw_mutants(tree, None, 10 * len(PACKAGES), 7)
    assert drawn == draw_mutants(tree, None, 10 * len(PACKAGES), 7)
    assert [mutant.number for mutant in drawn] == [1]


def test_a_fixture_that_reaches_a_mutant_counts_for_all_tests_of_its_file(tmp_path: Path) -> None:
    reached = tmp_path / "reached"
    reached.write_text("1\ta.py::one\tsetup\n2\ta.py::one\tcall\n", encoding="utf-8")
    tests = ["a.py::one", "a.py::two", "b.py::three"]
    assert read_reached(reached, tests) == {"1": ["a.py::one", "a.py::two"], "2": ["a.py::one"]}


def test_tests_of_the_package_come_first_and_then_the_fastest(tree: Path) -> None:
    [mutant] = draw_mutants(tree, None, len(PACKAGES), 7)
    durations = {"tests/cli/a.py::quick": 0.1, "tests/cli/a.py::slow": 9.0, "tests/engine/b.py::own": 5.0}
    probe = {"durations": durations, "failures": {}, "reached": {"1": list(durations)}}
    choice = choose_tests(probe, mutant, 2, "")
    assert (sorted(choice.tests), choice.reaching) == (["tests/cli/a.py::quick", "tests/engine/b.py::own"], 3)
