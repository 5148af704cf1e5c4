"""Promotion: a memory of one agent becomes readable for its team or for all agents of the project.

A promoted memory has the name of a space in place of its agent's, such as `team:backend`, which the filter of a
retrieval lets through for the agents of the team. The agent that it came from stays in its body.
"""

from __future__ import annotations

from ..errors import ScopeError, ValidationError
from ..types.kinds import PROMOTED_FROM, MemoryType, Result
from ..types.query import PROJECT_WIDE, is_space
from ..types.record import Record, Status
from .admit import author_of
from .conflicts import check_conflicts
from .context import Engine
from .edit import read_memory, refuse_overruling
from .rules import is_copy
from .transaction import LESSONS, Transaction, write

PROMOTABLE = (*LESSONS, MemoryType.DOMAIN_KNOWLEDGE, MemoryType.RULE)
_MAX_OUTCOMES = 1000
_HOW = "run `alma promote`, or use a token with the scope 'approve'"


def promote_memory(engine: Engine, memory_id: str, to: str, team: str | None = None) -> Record:
    """Let a team or the whole project read a memory of an agent, or reverse that (`to` is "agent")."""

    def step(tx: Transaction) -> Record:
        record = read_memory(tx, memory_id)
        if record.kind not in PROMOTABLE:
            raise ValidationError(f"a {record.kind} cannot be promoted; only these can: {', '.join(PROMOTABLE)}")
        if is_copy(record):
            raise ValidationError("this rule is a copy of a team's rule, which cannot be promoted; state your own rule")
        author = author_of(record)
        space = {"agent": author, "project": PROJECT_WIDE}.get(to) or _find_space(engine, author, team)
        if space == record.agent:
            return record
        is_wider = to != "agent" and record.agent != PROJECT_WIDE
        if not is_wider:
            refuse_overruling(engine, record, "demote")
        why = f" ({check_promotion(tx, record)})" if is_wider else ""
        body = {**record.body, PROMOTED_FROM: author if is_space(space) else ""}
        # `updated_at` stays: being shared is not being confirmed.
        fresh = tx.update(record, agent=space, body=body, updated_at=record.updated_at)
        if is_wider:
            check_conflicts(tx, fresh)
        tx.add_history(fresh, "promoted" if is_wider else "demoted", f"to {space}{why}", {"agent": record.agent})
        return fresh

    return write(engine, step)


def check_promotion(tx: Transaction, record: Record) -> str:
    """Return why a memory may be promoted; raise an error that says what is missing if it may not.

    A person may promote every active memory. Anybody else may promote what an agent learned from outcomes of more than
    one agent, user or session.
    """
    if record.status is not Status.ACTIVE:
        raise ValidationError(f"{record.id!r} is {record.status}; only an active memory can be promoted")
    sources = _count_sources(tx, record) if record.kind in LESSONS else {}
    several = ", ".join(f"{count} {name}s" for name, count in sources.items() if count > 1)
    if tx.engine.may_approve or (several and not record.provenance.is_from_person):
        return ", ".join(filter(None, ("by a person" * tx.engine.may_approve, several and f"learned from {several}")))
    if record.provenance.is_from_person:
        raise ScopeError(f"{record.id!r} was stated by a person, and only a person may promote it: {_HOW}")
    evidence = "its outcomes come from one source" if any(sources.values()) else "it has no outcomes"
    raise ScopeError(
        f"{record.id!r} cannot be promoted yet: {evidence}. It needs outcomes that confirm it from more than one "
        f"agent, user or session, or a person: {_HOW}"
    )


def _count_sources(tx: Transaction, lesson: Record) -> dict[str, int]:
    """Return how many agents, users and sessions the outcomes have that confirm a lesson."""
    where = tx.engine.where(MemoryType.OUTCOME, linked=set(lesson.links), statuses={Status.ACTIVE})
    outcomes = tx.scan(where, _MAX_OUTCOMES)
    is_success = lesson.kind == MemoryType.HEURISTIC
    confirming = [one for one in outcomes if (one.body["outcome"] == Result.SUCCESS) is is_success]
    return {name: len({getattr(one, name) for one in confirming} - {""}) for name in ("agent", "user", "session")}


def _find_space(engine: Engine, agent: str, name: str | None) -> str:
    """Return the space of the agent's team."""
    teams = {team.name: team for team in engine.scopes.teams if agent in team.agents}
    if not teams:
        raise ValidationError(f"agent {agent!r} is in no team; declare one in `teams`, or promote to 'project'")
    if name is None and len(teams) == 1:
        [name] = teams
    if name not in teams:
        raise ValidationError(f"pass as `team` one that agent {agent!r} is in: {', '.join(teams)}; not {name!r}")
    return teams[name].space
