"""Were the rules that were shown followed? Judged by the names they prefer and avoid, in what was run afterwards.

A rule without such names cannot be judged so, and is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ..types.record import Record
from .context import Engine

# A message and what is searched for or printed are spoken of, not run.
_TOLD = re.compile(
    r"""((?<=\s)(?:-m|-am|--message)[= ]?)\s*(?:'[^']*'|"[^"]*")|(\b(?:echo|printf|grep|rg|ag)\b)[^|;&\n]*""",
)


def verdicts(rules: Iterable[Record], commands: Sequence[str]) -> dict[str, bool]:
    """For each rule that the commands had to do with: True when it was followed, False when it was not."""
    found: dict[str, bool] = {}
    commands = [_TOLD.sub(r"\1\2 ", command) for command in commands]
    for rule in rules:
        wanted, unwanted = _names(rule, "prefer"), _names(rule, "avoid")
        if _violates(commands, wanted, unwanted):
            found[rule.id] = False
        elif any(_mentions(command, name) for command in commands for name in wanted):
            found[rule.id] = True
    return found


def _names(rule: Record, field: str) -> list[str]:
    return [str(name).lower() for name in rule.body.get(field, ()) if str(name).strip()]


def _violates(commands: Sequence[str], wanted: Sequence[str], unwanted: Sequence[str]) -> bool:
    """Named what it should not, and not as a part of what it should: `npm test -- --run` holds `npm test`."""
    return any(
        _mentions(command, name) and not any(name in good and _mentions(command, good) for good in wanted)
        for command in commands
        for name in unwanted
    )


def _mentions(command: str, name: str) -> bool:
    return re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w-])", command.lower()) is not None


def judged(engine: Engine, rules: Iterable[Record], found: Mapping[str, bool]) -> list[Record]:
    """The rules with what was seen of them; that one was not followed does not make it less true."""
    now = engine.clock()
    return [
        replace(
            rule,
            evidence=replace(rule.evidence.with_result(1.0 if found[rule.id] else 0.0, now), last_used=now),
            version=rule.version + 1,
        )
        for rule in rules
        if rule.id in found
    ]
