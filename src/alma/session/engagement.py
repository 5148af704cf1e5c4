"""Rules of engagement: what an agent may do, what it may not, and what must hold before something is done.

They come from the agent's scope and from what people taught: rules, preferences, and ways that were seen to fail.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ..engine.context import Engine
from ..engine.evidence import believe
from ..engine.rule_lines import describe_occasion
from ..engine.rules import is_old_fix
from ..text import shorten
from ..types.kinds import MemoryType, quoted_why
from ..types.query import Where, visible_users
from ..types.record import Record, Status, Trust
from ..types.rules import EVERYWHERE
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
    """Return what the agent may do, what it may not, and what must hold before something is done."""
    everywhere = {engine.project, EVERYWHERE}
    # What was said for one session holds in no other.
    rules = _list_believed(engine, agent, user, MemoryType.RULE, projects=everywhere, sessions={""})
    taught = [_describe_rule(rule) for rule in rules if not is_old_fix(rule)]
    if user is not None:
        wishes = _list_believed(engine, None, user, MemoryType.USER_PREFERENCE, users={user})
        taught += [f"{wish.user} wants: {wish.body['preference']}" for wish in wishes]
    # Ways that failed whatever the task was; those of one sort of task come when that task does.
    failed = [one for one in _list_believed(engine, agent, user, MemoryType.ANTI_PATTERN) if not one.body["condition"]]
    reasons = [f" ({quoted_why(one)})" if one.body["why_bad"] else "" for one in failed]
    warnings = [f"Not: {one.body['pattern']}{why}" for one, why in zip(failed, reasons, strict=True)]
    lines = [shorten(text, _CHARS) for text in taught]
    bounds = [text for text in lines if not is_gate(text)][:_RULES]
    bounds += [shorten(text, _CHARS) for text in warnings[:_WARNINGS]]
    excluded = [f"{scope.agent_name} must not learn about {category}." for category in scope.cannot_learn]
    gates = [text for text in lines if is_gate(text)][:_RULES]
    return Engagement(_describe_scope(scope), [*excluded, *bounds], gates)


def is_gate(text: str) -> bool:
    return bool(_GATE.search(text))


def _describe_scope(scope: MemoryScope) -> list[str]:
    name = scope.agent_name
    lines = [f"{name} works in the domain {scope.domain}."] if scope.domain else []
    if scope.can_learn:
        lines += [f"{name} may learn about {category}." for category in scope.can_learn if scope.is_allowed(category)]
    else:
        lines.append(f"{name} may learn about anything{' that is not excluded' if scope.cannot_learn else ''}.")
    return lines + [f"{name} may read what {other} shares." for other in scope.inherit_from]


def _describe_rule(rule: Record) -> str:
    occasion = describe_occasion(rule.body["trigger"], rule.body["rule"])
    return f"{occasion}: {rule.body['rule']}" if occasion else str(rule.body["rule"])


def _list_believed(
    engine: Engine, agent: str | None, user: str | None, kind: MemoryType, **conditions: Any
) -> list[Record]:
    """Return the active memories of a kind, the best believed first."""
    now = engine.clock()
    agents = None if agent is None else engine.scopes.readable(agent)
    seen = {"projects": {engine.project}, "agents": agents, "users": visible_users(user), **conditions}
    records = engine.store.scan(Where(kinds={kind}, statuses={Status.ACTIVE}, valid_at=now, **seen), _READ)
    # These lines are instructions, and the text of programs and files is none.
    trusted = [one for one in records if one.provenance.trust is not Trust.UNTRUSTED or kind == MemoryType.RULE]
    return sorted(trusted, key=lambda one: (-round(believe(one, now).mean, 6), one.id))
