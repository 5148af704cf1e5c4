"""Look-alikes: memories of one kind and one user that seem to be about the same thing.

Nobody said that the newer one replaces the older one, so both stay. The older one is marked with the id of the newest
and comes after it. A pair that a model has found to be about different things is not marked again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from ...text import content_words, stem, words
from ...types.kinds import MemoryType, last_stated
from ...types.record import Origin, Record
from ...types.vector import cosines
from ..admit import explicit_key
from ..context import Engine
from ..facts import find_dismissed
from .rank import measure_overlap

FIELDS = {
    MemoryType.DOMAIN_KNOWLEDGE: "fact",
    MemoryType.USER_PREFERENCE: "preference",
    MemoryType.ANTI_PATTERN: "pattern",
    MemoryType.RULE: "rule",
}
"""The kinds that have look-alikes, and the field with their words."""
_SAME_REST = 0.3
_FAR = 0.25
"""Texts about the same thing are nearer than this in any language."""
_SCOPES = tuple(
    frozenset(names.split())
    for names in (
        "staging production prod live dev development test sandbox preview",
        "frontend backend",
        "ios android web desktop",
        "inbound outbound",
        "internal external",
        "breakfast lunch dinner",
        "mother father sister brother son daughter",
    )
)
"""Names of which a statement is about one at a time."""


class Likeness(NamedTuple):
    """How alike two memories must be: their vectors, or where those say nothing, the pieces of their words."""

    cosine: float
    pieces: float
    is_careful: bool = True
    """Whether another subject or scope keeps them apart."""


ALIKE = Likeness(0.55, 0.3)
NEAR = Likeness(0.4, 0.2, is_careful=False)
"""Near enough to ask somebody who can tell."""


class Lookalike(NamedTuple):
    older: Record
    newer: Record
    likeness: float


def find_newest(
    engine: Engine, records: Sequence[Record], among: Sequence[Record], until: datetime | None = None
) -> Mapping[str, Record]:
    """Return by id the newest look-alike of each record that has one, stated before `until`."""
    pairs = list(list_lookalikes(engine, records, among))
    if not pairs:
        return {}
    dismissed = find_dismissed(engine, [(pair.older, pair.newer) for pair in pairs])
    newest: dict[str, Record] = {}
    for pair in pairs:
        if (pair.older.id, pair.newer.id) in dismissed or (until is not None and stated_at(pair.newer) >= until):
            continue
        older, newer = pair.older.evidence, pair.newer.evidence
        if older.ups - older.downs > max(0, newer.ups - newer.downs):
            # Somebody looked at it and found it right.
            continue
        known = newest.get(pair.older.id)
        if known is None or _order(known) < _order(pair.newer):
            newest[pair.older.id] = pair.newer
    return newest


def list_lookalikes(
    engine: Engine, records: Sequence[Record], among: Sequence[Record], least: Likeness = ALIKE
) -> Iterator[Lookalike]:
    """Yield each of the records with each newer one that seems to be about the same thing."""
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in among:
        if has_lookalikes(record):
            groups[record.kind, record.user].append(record)
    for older in filter(has_lookalikes, records):
        others = [one for one in groups[older.kind, older.user] if _order(one) > _order(older)]
        for newer, alike in zip(others, _compare_vectors(older, others), strict=True):
            likeness = measure_likeness(engine, older, newer, alike, least)
            if likeness is not None:
                yield Lookalike(older, newer, likeness)


def has_lookalikes(record: Record) -> bool:
    """Return whether a record is of a kind that somebody states; what is learned from outcomes is counted instead."""
    return record.kind in FIELDS and record.provenance.origin is not Origin.OUTCOME


def stated_at(record: Record) -> datetime:
    is_restated = record.kind in (MemoryType.DOMAIN_KNOWLEDGE, MemoryType.USER_PREFERENCE)
    return last_stated(record) if is_restated else record.created_at


def _order(record: Record) -> tuple[datetime, datetime]:
    return stated_at(record), record.created_at


def read_words(record: Record) -> str:
    return str(record.body[FIELDS[MemoryType(record.kind)]])


def _compare_vectors(older: Record, others: Sequence[Record]) -> Sequence[float | None]:
    # The vector of a record's own words is the last: that of its trigger or condition comes before it.
    own = older.vectors[-1:]
    vectors = [other.vectors[-1] for other in others if other.embedder == older.embedder and other.vectors]
    fitting = [vector for vector in vectors if own and len(vector) == len(own[0])]
    if not own or len(fitting) < len(others):
        return [None] * len(others)
    return cosines(own, fitting)[0] if fitting else []


def measure_likeness(
    engine: Engine, older: Record, newer: Record, alike: float | None, least: Likeness
) -> float | None:
    """Return how alike two records of one kind and user are; None unless they seem to be about the same thing."""
    if alike is not None and alike < _FAR:
        return None
    keys = explicit_key(older.kind, older.body), explicit_key(newer.kind, newer.body)
    if all(keys) and keys[0] != keys[1]:
        return None
    first, second = read_words(older), read_words(newer)
    if alike is not None and alike < least.cosine and engine.knows(first) and engine.knows(second):
        return None
    if alike is None or not engine.knows(first) or not engine.knows(second):
        alike = measure_overlap(first, second)
        if alike < least.pieces:
            return None
    if least.is_careful and (_differ_in_subject(first, second) or _differ_in_scope(first, second)):
        return None
    return alike


@lru_cache(maxsize=4096)
def _list_stems(text: str) -> tuple[str, ...]:
    return tuple(stem(word) for word in content_words(text))


@lru_cache(maxsize=4096)
def _list_words(text: str) -> frozenset[str]:
    return frozenset(words(text))


def _differ_in_subject(first: str, second: str) -> bool:
    """Return whether each text opens with a word that the other lacks, and much of the rest is the same."""
    mine, theirs = _list_stems(first), _list_stems(second)
    if not mine or not theirs or mine[0] in theirs or theirs[0] in mine:
        return False
    rest, other_rest = set(mine[1:]), set(theirs[1:])
    return len(rest & other_rest) >= _SAME_REST * len(rest | other_rest) > 0


def _differ_in_scope(first: str, second: str) -> bool:
    mine, theirs = _list_words(first), _list_words(second)
    return any(mine & names and theirs & names and not mine & theirs & names for names in _SCOPES)
