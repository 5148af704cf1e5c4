from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from alma import ALMA
from alma.session import Engagement, find_engagement
from alma.types.query import MemoryScope

if TYPE_CHECKING:
    from tests.conftest import Opener

HELENA = MemoryScope(
    "helena",
    can_learn=("testing_strategies",),
    cannot_learn=("backend_logic",),
    inherit_from=("victor",),
    domain="coding",
)


def of(alma: ALMA, user: str | None = None) -> Engagement:
    return find_engagement(alma.engine, "helena", alma.engine.scopes.of("helena"), user)


def test_a_scope_says_what_may_be_learned_and_what_not(open_alma: Opener) -> None:
    found = of(open_alma(agents=[HELENA, MemoryScope("victor")]))
    assert found.scope_rules == [
        "helena works in the domain coding.",
        "helena may learn about testing_strategies.",
        "helena may read the memories of victor.",
    ]
    assert found.constraints == ["helena must not learn about backend_logic."]
    assert found.quality_gates == []


def test_without_a_scope_anything_may_be_learned(alma: ALMA) -> None:
    assert of(alma) == (["helena may learn about anything."], [], [])


def test_what_was_taught_is_a_constraint_or_a_gate(alma: ALMA) -> None:
    alma.add_rule(agent="helena", rule="Use uv, not pip", trigger="installing packages")
    alma.add_rule(agent="helena", rule="Run the linter before every commit")
    alma.add_rule(agent="victor", rule="Never squash")
    alma.add_anti_pattern(agent="helena", pattern="sleep(5)", why_bad="flaky")
    alma.add_anti_pattern(agent="helena", pattern="mocks", why_bad="brittle", condition="testing the database")
    found = of(alma)
    assert found.constraints == ["When installing packages: Use uv, not pip", "Avoid: sleep(5) (flaky)"]
    assert found.quality_gates == ["Run the linter before every commit"]


def test_the_wishes_of_the_named_user_hold(alma: ALMA) -> None:
    alma.add_user_preference(user_id="ann", category="output", preference="short answers")
    assert of(alma, "ann").constraints == ["ann prefers: short answers"]
    alma.add_user_preference(user_id="bob", category="output", preference="long answers")
    assert of(alma).constraints == []
    assert of(alma, "bob").constraints == ["bob prefers: long answers"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Run the tests before you commit", True),
        ("All tests must pass", True),
        ("Tests should be green", True),
        ("Get a review before merging", True),
        ("Use tabs", False),
        ("Ask before deleting a file", False),
        ("The page should be blue", False),
    ],
)
def test_what_is_a_gate(alma: ALMA, text: str, expected: bool) -> None:
    alma.add_rule(agent="helena", rule=text)
    assert bool(of(alma).quality_gates) is expected
