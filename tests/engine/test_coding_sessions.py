"""Whether shown rules were followed, and what a person's edit teaches."""

from __future__ import annotations

import pytest

from alma.coding.events import Attendance
from alma.coding.session import CodingSession, Signal
from alma.engine.coding_sessions import find_teachings, judge_rule
from alma.testing import make_record


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
    assert judge_rule(rule, commands) is verdict


@pytest.mark.parametrize(
    ("change", "file", "taught"),
    [
        ("-const x = require('fs')\n+import x from 'fs'", "a.ts", None),
        ("-var total = 0\n+const total = 0", "src/a.ts", ("var", "const", "writing .ts files")),
        ("-var a\n-var b\n+const a\n+const b", "a.js", ("var", "const", "writing .js files")),
        ("-print(x)\n+log.info(x)", "run.py", ("print", "log.info", "writing .py files")),
        ("-a = 1\n-b = 2\n+c = 3\n+d = 4", "run.py", None),
        ("-a = 1", "run.py", None),
        ("+a = 1", "run.py", None),
        ("", "run.py", None),
        ("-x\n+y", "Makefile", ("x", "y", "")),
    ],
)
def test_only_one_small_replacement_teaches(change: str, file: str, taught: tuple[str, str, str] | None) -> None:
    edit = Signal("edited", change, at=0.0, offset=1, id="e", attendance=Attendance.PERSON, what=file)
    teachings = find_teachings(CodingSession(session="s", signals=[edit]), 0)
    assert [(*one.avoid, *one.prefer, one.trigger) for one in teachings] == ([taught] if taught else [])
    assert not any(one.sure for one in teachings)
