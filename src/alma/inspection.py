"""Look inside a memory: what a record rests on, what outcomes taught, and which ids begin with a prefix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path

from .answers import copy_fields
from .engine import transaction, view
from .errors import ValidationError
from .memory import ALMA
from .types.kinds import KINDS, Episode, Memory, MemoryType, Outcome
from .types.query import Where
from .types.record import Evidence, Provenance, Status

_LESSONS = (MemoryType.HEURISTIC, MemoryType.ANTI_PATTERN)
_LESSON_VERBS = ("formed", "restored", "faded", "withdrawn")
_RELATED = 5


def find_ids(alma: ALMA, prefix: str, limit: int = 20) -> list[str]:
    """Return the ids of this project's records that begin with `prefix`, at most `limit`; a whole id alone."""
    if alma.engine.store.get([prefix]):
        return [prefix]
    kinds = {kind.name for kind in KINDS.values() if prefix.startswith(f"{kind.prefix}_")} or None
    records = alma.engine.store.scan(Where(kinds=kinds, projects={alma.project_id}))
    return sorted(islice((record.id for record in records if record.id.startswith(prefix)), limit))


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """What a memory rests on."""

    evidence: Evidence
    provenance: Provenance
    embedder: str
    version: int
    related: list[Memory]
    """The outcomes that a lesson was learned from, the lessons that an outcome counts for, or a turn's conversation."""


def read_background(alma: ALMA, memory_id: str) -> Background:
    [record] = alma.engine.store.get([memory_id])
    related: list[Memory] = []
    if record.links and record.kind == "turn":
        conversation = alma.get(record.links[0])
        related = [replace(conversation, turns=()) if isinstance(conversation, Episode) else conversation]
    elif record.links:
        # They share a strategy group, which is the first link of each.
        kinds = _LESSONS if record.kind == MemoryType.OUTCOME else (MemoryType.OUTCOME,)
        where = Where(kinds=kinds, projects={alma.project_id}, linked=record.links[:1])
        related = [alma.get(one.id) for one in alma.engine.store.scan(where, _RELATED)]
    return copy_fields(Background, record, related=related)


@dataclass(frozen=True, slots=True)
class Lesson:
    """A heuristic or anti-pattern, and what happened to it."""

    verb: str
    why: str
    memory: Memory


@dataclass(frozen=True, slots=True)
class Tally:
    """How an outcome's strategy is doing after it."""

    successes: int
    results: int
    needed: int
    """So many results make a heuristic, if they mostly worked."""


def find_groups(alma: ALMA, outcomes: Sequence[Outcome]) -> list[str]:
    """Return the ids of the strategy groups that these outcomes count for."""
    records = alma.engine.store.get([outcome.id for outcome in outcomes])
    return list(dict.fromkeys(record.links[0] for record in records if record.links))


def find_lessons(alma: ALMA, outcomes: Sequence[Outcome], since: datetime) -> list[Lesson]:
    """Return what the lessons of these outcomes' strategies went through since then, oldest first."""
    where = Where(kinds=_LESSONS, projects={alma.project_id}, linked=find_groups(alma, outcomes))
    lessons = [
        (line["at"], Lesson(line["verb"], line["why"], alma.get(record.id)))
        for record in alma.engine.store.scan(where)
        for line in alma.history(record.id)
        if line["at"] >= since and line["verb"] in _LESSON_VERBS
    ]
    return [lesson for _, lesson in sorted(lessons, key=lambda pair: pair[0])]


def count_results(alma: ALMA, outcome: Outcome) -> Tally:
    [group] = alma.engine.store.get(find_groups(alma, [outcome]))
    scope = alma.engine.scope(outcome.agent)
    needed = scope.min_occurrences_for_heuristic or alma.engine.settings.min_occurrences_for_heuristic
    return Tally(group.evidence.successes, group.evidence.results, needed)


def count_records(alma: ALMA, kind: str) -> int:
    """Count the active records of a kind in this project."""
    where = Where(kinds={kind}, projects={alma.project_id}, statuses={Status.ACTIVE})
    return sum(view.count_records(alma.engine, where).values())


def read_embedders(alma: ALMA) -> tuple[str, str]:
    """Return the embedder that made the store's vectors and the configured one; empty where there is none."""
    held = transaction.find_embedder_marker(alma.engine)
    return "" if held is None else str(held.body["value"]), alma.engine.embedder_name


def find_store_file(alma: ALMA) -> Path:
    """Return the file that can be vacuumed."""
    store = alma.engine.store
    if not hasattr(store, "vacuum"):
        raise ValidationError(f"{type(store).__name__} keeps nothing in files, so there is nothing to vacuum")
    return Path(store.path)  # type: ignore[attr-defined]


def list_declared_agents(alma: ALMA) -> tuple[str, ...]:
    """Return the names of the agents that the configuration declares; none when any agent may learn."""
    return alma.engine.scopes.known()
