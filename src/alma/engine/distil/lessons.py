"""What a strategy group's evidence says: a heuristic, an anti-pattern, or nothing yet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...types.kinds import KINDS, MemoryType
from ...types.query import Where
from ...types.record import Origin, Provenance, Record, Status, Trust
from ..admit import build, buried, change
from ..context import Engine
from ..drafts import Draft
from ..evidence import WORKS as _WORKS
from ..evidence import Standing, believe, rate, standing
from ..search import neighbours
from ..text import fingerprint, shorten
from .groups import Attempt, Groups, lesson_id

MAX_ERRORS = 5
_ERROR_CHARS = 240
_WHY_CHARS = 600
_WARNINGS = 8
_SETTLED = (Status.SUPERSEDED, Status.RETIRED)


def with_error(group: Record, error: str | None) -> Record:
    """The group remembering what went wrong lately, each reason once, newest last."""
    if not error:
        return group
    short = shorten(error, _ERROR_CHARS)
    others = [known for known in group.body["errors"] if fingerprint(known) != fingerprint(short)]
    return replace(group, body={**group.body, "errors": [*others, short][-MAX_ERRORS:]})


def settle(engine: Engine, groups: Groups, group: Record, attempt: Attempt) -> list[Record]:
    """Bring the group's heuristic and anti-pattern in line with its evidence; the lines of history that follow."""
    scope = engine.scope(group.agent)
    least = scope.min_occurrences_for_heuristic or engine.settings.min_occurrences_for_heuristic
    says = standing(group.evidence, engine.clock(), least, engine.settings.min_failures_for_anti_pattern)
    history = []
    for kind, body in (
        (MemoryType.HEURISTIC, _heuristic_body),
        (MemoryType.ANTI_PATTERN, _anti_pattern_body),
    ):
        known = groups.get([lesson_id(group, kind)])
        wanted = says == Standing(str(kind))
        if known:
            history += _update(
                engine, groups, known[0], group, wanted, says, body(engine, groups, group, attempt, wanted)
            )
        elif wanted and not buried(engine, [lesson_id(group, kind)]):
            record = _form(engine, kind, group, body(engine, groups, group, attempt, wanted))
            groups.put(record)
            history.append(change(engine, record, "formed", _because(group)))
    return history


def _form(engine: Engine, kind: str, group: Record, body: dict[str, Any]) -> Record:
    draft = Draft(kind=kind, agent=group.agent, body=body, provenance=Provenance(Origin.OUTCOME, Trust.LEARNED))
    return build(
        engine,
        draft,
        group.vectors,
        id=lesson_id(group, kind),
        evidence=group.evidence,
        links=(group.id,),
        key=lesson_id(group, kind),
    )


def _update(
    engine: Engine, groups: Groups, held: Record, group: Record, wanted: bool, says: Standing, body: dict[str, Any]
) -> list[Record]:
    stated = held.provenance.origin is Origin.USER
    status = _status(held, wanted, stated, says)
    # What a person wrote or edited stays as they wrote it; only its evidence and standing move.
    told = held.body if stated else {**held.body, **body}
    record = replace(
        held,
        evidence=held.evidence.with_results_of(group.evidence),
        status=status,
        body=told,
        text=KINDS[held.kind].text(told),
    )
    groups.put(record)
    if status is held.status:
        return []
    verb = "restored" if status is Status.ACTIVE else "faded" if held.kind == MemoryType.HEURISTIC else "withdrawn"
    return [change(engine, record, verb, _because(group), {"status": str(held.status)})]


def _status(held: Record, wanted: bool, stated: bool, says: Standing) -> Status:
    if held.status in _SETTLED:
        return held.status
    if wanted or (stated and says is Standing.OPEN and held.status is Status.ACTIVE):
        return Status.ACTIVE
    return Status.ARCHIVED


def _because(group: Record) -> str:
    seen = group.evidence
    return f"{seen.successes} of {seen.results} worked"


def _heuristic_body(engine: Engine, groups: Groups, group: Record, attempt: Attempt, wanted: bool) -> dict[str, Any]:
    body = group.body
    return {"condition": body["task"], "strategy": body["strategy"], "task_type": body["task_type"], "metadata": {}}


def _anti_pattern_body(engine: Engine, groups: Groups, group: Record, attempt: Attempt, wanted: bool) -> dict[str, Any]:
    body = group.body
    # Looking for what worked instead is a search; a warning that is not given needs none.
    better = {"better_alternative": alternative(engine, groups, group, attempt)} if wanted else {}
    return {
        "pattern": body["strategy"],
        "condition": body["task"],
        "why_bad": why_bad(group),
        "better_alternative": "",
        "task_type": body["task_type"],
        "metadata": {},
    } | better


def why_bad(group: Record) -> str:
    errors = group.body["errors"]
    if errors:
        return shorten("; ".join(reversed(errors)), _WHY_CHARS)
    seen = group.evidence
    return f"failed {seen.failures} of {seen.results} times"


def alternative(engine: Engine, groups: Groups, group: Record, attempt: Attempt) -> str:
    """The strategy that is most surely better for the same sort of task."""
    now = engine.clock()
    working = [
        other
        for other in groups.around(attempt)
        if other.id != group.id and other.evidence.successes and (rate(other.evidence, now) or 0.0) >= _WORKS
    ]
    best = max(working, key=lambda other: (believe(other, now).low, other.id), default=None)
    return str(best.body["strategy"]) if best else ""


def advise(engine: Engine, groups: Groups, group: Record, attempt: Attempt, turned: bool) -> None:
    """Keep the other warnings for this sort of task true to what works.

    A success may be what a warning without an alternative was waiting for; a strategy whose standing has turned may be
    what another warning recommends.
    """
    where = Where(
        kinds={MemoryType.ANTI_PATTERN}, projects={engine.project}, agents={group.agent}, statuses={Status.ACTIVE}
    )
    for found in neighbours(engine.store, attempt.task_vector, attempt.task, where, _WARNINGS):
        [warning] = groups.get([found.id])
        owner = groups.get(warning.links[:1])
        settled = warning.provenance.origin is Origin.USER or (warning.body["better_alternative"] and not turned)
        if settled or not owner or owner[0].id == group.id or not groups.fits(attempt, owner[0]):
            continue
        better = alternative(engine, groups, owner[0], attempt)
        if better != warning.body["better_alternative"]:
            groups.put(replace(warning, body={**warning.body, "better_alternative": better}))
