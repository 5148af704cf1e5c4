"""Whether shown rules were followed, and what a person's edit teaches."""

from __future__ import annotations

import pytest

from alma.engine.coding_sessions import find_swap, judge_commands
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
    assert judge_commands([rule], commands).get("r") is verdict


@pytest.mark.parametrize(
    ("change", "swap"),
    [
        ("-const x = require('fs')\n+import x from 'fs'", None),
        ("-var total = 0\n+const total = 0", ("var", "const")),
        ("-var a\n-var b\n+const a\n+const b", ("var", "const")),
        ("-print(x)\n+log.info(x)", ("print", "log.info")),
        ("-a = 1\n-b = 2\n+c = 3\n+d = 4", None),
        ("-a = 1", None),
        ("+a = 1", None),
        ("", None),
        ("-x\n+y", ("x", "y")),
    ],
)
def test_only_one_small_replacement_teaches(change: str, swap: tuple[str, str] | None) -> None:
    assert find_swap(change) == swap
