"""Whether the rules that were shown were followed."""

from __future__ import annotations

import pytest

from alma.engine.follow import verdicts
from alma.testing.fakes import make_record


@pytest.mark.parametrize(
    ("prefer", "avoid", "commands", "verdict"),
    [
        (["pnpm"], ["npm"], ["pnpm install"], True),
        (["pnpm"], ["npm"], ["npm install"], False),
        (["pnpm"], ["npm"], ["pnpm install", "npm test"], False),
        (["pnpm"], ["npm"], ["ls"], None),
        (["npm test -- --run"], ["npm test"], ["npm test -- --run"], True),
        (["npm test -- --run"], ["npm test"], ["npm test"], False),
        ([], ["--force"], ["git push --force"], False),
        ([], ["--force"], ["git push --force-with-lease"], None),
        ([], [], ["anything"], None),
        (["pnpm"], ["npm"], ["git commit -m 'drop npm'"], None),
        (["pnpm"], ["npm"], ['git commit -am "drop npm" && npm install'], False),
        ([], ["console.log"], ["rg console.log src"], None),
        (["rg"], ["grep"], ["grep -r todo src"], False),
        (["bundle exec rspec"], ["rspec"], ["bundle exec rspec spec"], True),
    ],
)
def test_a_rule_is_judged_by_the_names_in_it(
    prefer: list[str], avoid: list[str], commands: list[str], verdict: bool | None
) -> None:
    rule = make_record("r", kind="rule", body={"prefer": prefer, "avoid": avoid})
    assert verdicts([rule], commands).get("r") is verdict
