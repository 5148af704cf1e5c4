from __future__ import annotations

import pytest

from alma.engine.outcomes import same_task


@pytest.mark.parametrize(
    ("task", "other", "alike", "expected"),
    [
        ("Deploy auth service", "Deploy the auth service to prod", 0.83, True),
        ("Fix login bug", "Fix the login bug", 0.99, True),
        ("Fix login bug", "Write quarterly report", 0.1, False),
        ("Enable two-factor login", "Disable two-factor login", 0.89, False),
        ("Scale up the cluster", "Scale down the cluster", 0.97, False),
        ("Import the customer list", "Export the customer list", 0.83, False),
        ("Deploy auth service", "Deploy the auth service", None, True),
        ("Deploy auth service", "Write the report", None, False),
        ("anything", "", None, True),
    ],
)
def test_sorts_of_task(task: str, other: str, alike: float | None, expected: bool) -> None:
    assert same_task(task, other, alike) is expected


def test_a_named_type_decides_whatever_its_case() -> None:
    assert same_task("Fix login", "Fix cart", 0.2, "Bugfix", "bugfix ")
    assert not same_task("Fix login", "Fix login", 1.0, "bugfix", "feature")
