"""Rules of engagement: what an agent may do, what it may not, and what must hold before something is done.

They come from the agent's scope and from what people taught: rules, preferences, and ways that were seen to fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ..engine.context import Engine
from ..engine.evidence import believe
from ..engine.rule_lines import describe_occasion
from ..engine.rules import list_standing_rules
from ..engine.text import shorten
from ..types.kinds import MemoryType, quoted_why
from ..types.query import Where, visible_users
from ..types.record import Record, Status, Trust
from ..types.scope import MemoryScope

_READ = 200
_RULES = 12
_WARNINGS = 5
_CHARS = 240

# What is asked for before something counts as done, and what must be true then.
_GATE = re.compile(
    r"\b(?:before (?:you )?(?:commit\w*|merg\w+|push\w*|releas\w+|deploy\w*|finish\w*|clos\w+|mark\w*|call\w*|say\w*"
    r"|ship\w*|submit\w*|send\w*|publish\w*|done|opening a pr|(?:a|the|each|every|any) (?:commit|merge|push"
    r"|release|pr))"
    r"|(?:after|on) (?:each|every|any) (?:change|edit|commit)"
    r"|must (?:pass|succeed|hold|be (?:green|reviewed|approved|tested|covered|cited))"
    r"|(?:tests?|lint\w*|type ?checks?|ci|build) (?:must|should|have to|has to|needs? to) "
    r"|(?:is|are) (?:only|not) done (?:when|until|before)"
    r"|definition of done|acceptance criteri\w+)",
    re.I,
)


class Engagement(NamedTuple):
    scope_rules: list[str]
    constraints: list[str]
    quality_gates: list[str]


def engagement(engine: Engine, agent: str, scope: MemoryScope, user: str | None = None) -> Engagement:
    taught = [*_rules(engine, agent, user), *_preferences(engine, user)]
    gates = [text for text in taught if is_gate(text)]
    bounds = [text for text in taught if not is_gate(text)]
    return Engagement(
        _may(scope), [*_may_not(scope), *bounds[:_RULES], *_warnings(engine, agent, user)], gates[:_RULES]
    )


def is_gate(text: str) -> bool:
    return bool(_GATE.search(text))


def _may(scope: MemoryScope) -> list[str]:
    name = scope.agent_name
    found = [f"{name} works in the domain {scope.domain}."] if scope.domain else []
    if scope.can_learn:
        found += [f"{name} may learn about {category}." for category in scope.can_learn if scope.is_allowed(category)]
    elif scope.cannot_learn:
        found.append(f"{name} may learn about anything that is not excluded.")
    else:
        found.append(f"{name} may learn about anything.")
    found += [f"{name} may read what {other} shares." for other in scope.inherit_from]
    return found


def _may_not(scope: MemoryScope) -> list[str]:
    return [f"{scope.agent_name} must not learn about {category}." for category in scope.cannot_learn]


def _rules(engine: Engine, agent: str, user: str | None) -> list[str]:
    """What holds in every session, the best believed first."""
    rules = list_standing_rules(engine, engine.scopes.readable(agent), visible_users(user), _READ)
    return [_when(one) for one in _believed(engine, rules)]


def _when(rule: Record) -> str:
    occasion = describe_occasion(rule.body["trigger"], rule.body["rule"])
    return shorten(f"{occasion}: {rule.body['rule']}" if occasion else rule.body["rule"], _CHARS)


def _preferences(engine: Engine, user: str | None) -> list[str]:
    """What the user wants; nothing when no user is named."""
    if user is None:
        return []
    where = Where(
        kinds={MemoryType.USER_PREFERENCE},
        projects={engine.project},
        users={user},
        statuses={Status.ACTIVE},
        valid_at=engine.clock(),
    )
    found = _believed(engine, engine.store.scan(where, _READ))
    return [shorten(f"{one.user} wants: {one.body['preference']}", _CHARS) for one in found]


def _warnings(engine: Engine, agent: str, user: str | None) -> list[str]:
    """Ways that failed whatever the task was; those of one sort of task come when that task does."""
    where = Where(
        kinds={MemoryType.ANTI_PATTERN},
        projects={engine.project},
        agents=engine.scopes.readable(agent),
        users=visible_users(user),
        statuses={Status.ACTIVE},
        valid_at=engine.clock(),
    )
    found = [one for one in _believed(engine, engine.store.scan(where, _READ)) if not one.body["condition"]]
    return [_warning(one) for one in found[:_WARNINGS]]


def _warning(record: Record) -> str:
    why = f" ({quoted_why(record)})" if record.body["why_bad"] else ""
    return shorten(f"Not: {record.body['pattern']}{why}", _CHARS)


def _believed(engine: Engine, records: Iterable[Record]) -> list[Record]:
    now = engine.clock()
    # These lines are instructions, and the text of programs and files is none.
    trusted = [one for one in records if one.provenance.trust is not Trust.UNTRUSTED or one.kind == MemoryType.RULE]
    return sorted(trusted, key=lambda one: (-round(believe(one, now).mean, 6), one.id))
