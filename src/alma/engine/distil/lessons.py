"""What a strategy group's evidence says: a heuristic, an anti-pattern, or nothing yet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ...text import fingerprint, shorten
from ...types.kinds import KINDS, MemoryType
from ...types.query import Where
from ...types.record import Origin, Provenance, Record, Status, Trust
from ...types.speech import quote_output
from ..admit import build, change
from ..context import Engine
from ..drafts import Draft
from ..evidence import WORKS, Standing, believe, rate, standing
from ..search import neighbours
from ..tombstones import find_deleted_ids, find_deleted_keys, lesson_key
from .groups import Attempt, Groups, fits, label_of, lesson_id

MAX_ERRORS = 5
_ERROR_CHARS = 240
_FEW = 12
_NEAREST = 6
_KINDS = (MemoryType.HEURISTIC, MemoryType.ANTI_PATTERN)
_SETTLED = (Status.SUPERSEDED, Status.RETIRED)


def with_error(group: Record, error: str | None) -> Record:
    """The group remembering what went wrong lately, each reason once, newest last."""
    if not error:
        return group
    short = shorten(error, _ERROR_CHARS)
    others = [known for known in group.body["errors"] if fingerprint(known) != fingerprint(short)]
    return replace(group, body={**group.body, "errors": [*others, short][-MAX_ERRORS:]})


def works(group: Record, now: datetime) -> bool:
    return group.evidence.successes > 0 and (rate(group.evidence, now) or 0.0) >= WORKS


@dataclass(frozen=True, slots=True)
class Case:
    """A group whose evidence has just changed, and the attempt that changed it."""

    engine: Engine
    groups: Groups
    group: Record
    attempt: Attempt

    @property
    def alone(self) -> bool:
        """The group's first result: there can be no lesson yet."""
        return self.group.evidence.results == 1 and self.groups.is_new(self.group)


def settle(case: Case) -> list[Record]:
    """Bring the group's heuristic and anti-pattern in line with its evidence; the lines of history that follow."""
    says = _says(case)
    ids = [lesson_id(case.group, kind) for kind in _KINDS]
    held = {} if case.alone else {record.id: record for record in case.groups.get(ids)}
    history = []
    for kind, name in zip(_KINDS, ids, strict=True):
        if name in held:
            history += _update(case, held[name], says)
        elif says == str(kind) and not _is_buried(case, kind, name):
            history += _form(case, kind, name)
    return history


def _is_buried(case: Case, kind: MemoryType, name: str) -> bool:
    """Whether the lesson was deleted: this one, or one in the same words that another group had."""
    words = {"strategy": case.group.body["strategy"], "condition": label_of(case.group)}
    key = lesson_key(kind, case.group.agent, case.group.user, words)
    return bool(find_deleted_ids(case.engine, [name]) or find_deleted_keys(case.engine, [key]))


def _says(case: Case) -> Standing:
    settings = case.engine.settings
    least = case.engine.scope(case.group.agent).min_occurrences_for_heuristic
    return standing(
        case.group.evidence,
        case.engine.clock(),
        least or settings.min_occurrences_for_heuristic,
        settings.min_failures_for_anti_pattern,
    )


def _form(case: Case, kind: MemoryType, name: str) -> list[Record]:
    group = case.group
    learned = Provenance(Origin.OUTCOME, Trust.LEARNED)
    body = describe_lesson(case, kind)
    draft = Draft(kind=kind, agent=group.agent, user=group.user, body=body, provenance=learned, key=name)
    record = build(case.engine, draft, group.vectors, id=name, evidence=group.evidence, links=(group.id,))
    case.groups.put(record)
    return [change(case.engine, record, "formed", _because(group))]


def _update(case: Case, held: Record, says: Standing) -> list[Record]:
    status = _status(held, says)
    body = held.body
    # What somebody stated or edited stays as they wrote it; only its evidence and standing move.
    if status is Status.ACTIVE and not _is_stated(held):
        body = {**held.body, **describe_lesson(case, MemoryType(held.kind)), "metadata": held.body.get("metadata", {})}
    evidence = held.evidence.with_results_of(case.group.evidence)
    record = replace(held, evidence=evidence, status=status, body=body, text=KINDS[held.kind].text(body))
    case.groups.put(record)
    if status is held.status:
        return []
    verb = "restored" if status is Status.ACTIVE else "faded" if held.kind == MemoryType.HEURISTIC else "withdrawn"
    return [change(case.engine, record, verb, _because(case.group), {"status": str(held.status)})]


def _status(held: Record, says: Standing) -> Status:
    if held.status in _SETTLED or (held.body.get("put_away") and held.status is not Status.ACTIVE):
        return held.status
    unrefuted = says is Standing.OPEN and held.status is Status.ACTIVE and _is_stated(held)
    return Status.ACTIVE if says == held.kind or unrefuted else Status.ARCHIVED


def _is_stated(lesson: Record) -> bool:
    return lesson.provenance.origin is not Origin.OUTCOME


def _because(group: Record) -> str:
    seen = group.evidence
    return f"{seen.successes} of {seen.results} worked"


def describe_lesson(case: Case, kind: MemoryType) -> dict[str, Any]:
    """Return the body of the lesson that a group teaches."""
    told = case.group.body
    common = {"condition": label_of(case.group), "task_type": told["task_type"], "metadata": {}}
    if kind is MemoryType.HEURISTIC:
        return {"strategy": told["strategy"], **common}
    return {
        "pattern": told["strategy"],
        "why_bad": why_bad(case.group),
        "better_alternative": alternative(case, (case.group.id,)),
        **common,
    }


def why_bad(group: Record) -> str:
    seen = group.evidence
    return quote_output(*reversed(group.body["errors"])) or f"failed {seen.failures} of {seen.results} times"


def alternative(case: Case, but: tuple[str, ...]) -> str:
    """The strategy that most surely works for the same sort of task, other than these groups'."""
    now = case.engine.clock()
    working = [other for other in case.groups.around(case.attempt) if other.id not in but and works(other, now)]
    unwanted = find_deleted_ids(case.engine, [lesson_id(other, MemoryType.HEURISTIC) for other in working])
    working = [other for other in working if lesson_id(other, MemoryType.HEURISTIC) not in unwanted]
    best = max(working, key=lambda other: (believe(other, now).low, other.id), default=None)
    return str(best.body["strategy"]) if best else ""


def _warnings(case: Case) -> list[Record]:
    """The warnings that may be about the same sort of task: all of them while they are few, else the nearest."""
    engine, attempt = case.engine, case.attempt
    where = Where(
        kinds={MemoryType.ANTI_PATTERN},
        projects={engine.project},
        agents={attempt.agent},
        users={attempt.user},
        statuses={Status.ACTIVE},
    )
    found = list(engine.store.scan(where, _FEW + 1))
    if len(found) <= _FEW:
        return found
    return neighbours(engine, attempt.task_vector, attempt.task, where, _NEAREST)


def advise(case: Case, turned: bool) -> None:
    """Keep the other warnings for this sort of task true to what works.

    A strategy that begins to work may be what a warning without an alternative was waiting for; one whose standing has
    turned may be what another warning recommends.
    """
    groups, group = case.groups, case.group
    found = _warnings(case)
    for warning in groups.get([one.id for one in found], found):
        told = _is_stated(warning) or (warning.body["better_alternative"] and not turned)
        if told or group.id in warning.links or not fits(case.attempt, warning):
            continue
        better = alternative(case, warning.links)
        if better != warning.body["better_alternative"]:
            groups.put(replace(warning, body={**warning.body, "better_alternative": better}))
