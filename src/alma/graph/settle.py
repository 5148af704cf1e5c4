"""What becomes of something that is held when it is told again. Values in, values out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from ..types.graph import THING, Entity, Relationship, relationship_id
from ..types.names import name_key

MOST_SOURCES = 200
"""So many of the records something comes from are remembered, the latest."""
MOST_ALIASES = 100


def joined(first: Sequence[str], then: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *then)))[-MOST_SOURCES:]


def told_again(held: Entity, given: Entity) -> Entity:
    """The held one with what is new: its own name and type stay unless nothing was known."""
    return replace(
        held,
        type=given.type if held.type == THING else held.type,
        aliases=_aliases(held.name, (*held.aliases, given.name, *given.aliases)),
        attributes={**held.attributes, **given.attributes},
        sources=joined(held.sources, given.sources),
        confidence=max(held.confidence, given.confidence),
        absorbed=tuple(dict.fromkeys((*held.absorbed, *given.absorbed))),
    )


def united(keep: Entity, others: Sequence[Entity]) -> Entity:
    """One entity of several: the kept one's own words win."""
    made = keep
    for other in others:
        told = told_again(made, replace(other, attributes={**other.attributes, **made.attributes}))
        made = replace(told, absorbed=tuple(dict.fromkeys((*told.absorbed, other.id))))
    return made


def _aliases(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """Each once, whatever its spelling."""
    found = {name_key(one): one for one in reversed(tuple(names))}
    found.pop(name_key(name), None)
    return tuple(reversed(found.values()))[-MOST_ALIASES:]


def confirmed(held: Relationship, given: Relationship, others: Sequence[Relationship] = ()) -> Relationship:
    """Said again for a time that overlaps: it holds as long as either says, and ends when somebody knows it ended.

    `others` say the same of other times; they are not run into.
    """
    timeless = given.valid_from is None and given.valid_to is None
    start = held.valid_from if timeless else _earlier(held.valid_from, given.valid_from)
    end = _end(held.valid_to, given.valid_to)
    for one in others:
        if _before_or_at(one.valid_to, held.valid_from):
            start = one.valid_to if start is None or (one.valid_to is not None and one.valid_to > start) else start
        elif one.valid_from is not None and _before_or_at(held.valid_to, one.valid_from):
            end = one.valid_from if end is None or one.valid_from < end else end
    return replace(
        held,
        valid_from=start,
        valid_to=end,
        confidence=max(held.confidence, given.confidence),
        attributes={**held.attributes, **given.attributes},
        sources=joined(held.sources, given.sources),
    )


def _before_or_at(end: datetime | None, start: datetime | None) -> bool:
    return end is not None and start is not None and end <= start


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    return None if one is None or other is None else min(one, other)


def _end(held: datetime | None, given: datetime | None) -> datetime | None:
    if held is None or given is None:
        return given if held is None else held
    return max(held, given)


def matching(held: Sequence[Relationship], given: Relationship, now: datetime) -> Relationship | None:
    """The latest of the same ends and type that the given one is another telling of: the times overlap.

    Told without any time, something holds now: what has ended is then another time, not this one.
    """
    timeless = given.valid_from is None and given.valid_to is None
    start = now if timeless else given.valid_from
    same = [one for one in held if one.type == given.type and _overlap(one, start, given.valid_to)]
    return max(same, key=_begun, default=None)


def _overlap(held: Relationship, start: datetime | None, end: datetime | None) -> bool:
    begins = held.valid_to is None or start is None or start < held.valid_to
    return begins and (end is None or held.valid_from is None or held.valid_from < end)


def begun(given: Relationship, held: Sequence[Relationship], now: datetime) -> Relationship:
    """A new telling. After one that ended, and with no time of its own, it begins now."""
    timeless = given.valid_from is None and given.valid_to is None
    start = now if timeless and held else given.valid_from
    known = [one.valid_from for one in held if one.valid_from is not None]
    later = [one for one in known if start is not None and one > start]
    return replace(
        given,
        id=relationship_id(given.subject, given.type, given.object, start) if start != given.valid_from else given.id,
        valid_from=start,
        valid_to=min([*later, *([given.valid_to] if given.valid_to else [])], default=None),
        created_at=now,
        sources=given.sources[-MOST_SOURCES:],
        span=None,
    )


def superseding(
    fresh: Relationship, others: Sequence[Relationship], now: datetime
) -> tuple[Relationship, list[Relationship]]:
    """Others of the same subject and type end where the fresh one begins; it ends where a later one has begun."""
    start = fresh.valid_from or now
    rivals = [one for one in others if one.object != fresh.object and one.id != fresh.id]
    later = [one.valid_from for one in rivals if one.valid_from is not None and one.valid_from > start]
    ended = [
        replace(one, valid_to=max(start, one.valid_from or start))
        for one in rivals
        if (one.valid_from is None or one.valid_from <= start) and (one.valid_to is None or one.valid_to > start)
    ]
    stops = min([*later, *([fresh.valid_to] if fresh.valid_to else [])], default=None)
    return replace(fresh, valid_to=stops), ended


def repointed(one: Relationship, old: Iterable[str], new: str) -> Relationship:
    gone = set(old)
    return replace(
        one,
        subject=new if one.subject in gone else one.subject,
        object=new if one.object in gone else one.object,
    )


def collapsed(relationships: Sequence[Relationship]) -> tuple[list[Relationship], list[str]]:
    """After a merge, what says the same of times that overlap is one: those that are left, and the ids that went."""
    kept: dict[tuple[str, str, str], list[Relationship]] = {}
    gone: list[str] = []
    for one in sorted(relationships, key=_begun):
        same = kept.setdefault((one.subject, one.type, one.object), [])
        if same and (same[-1].valid_to is None or one.valid_from is None or one.valid_from < same[-1].valid_to):
            same[-1] = _widest(same[-1], one)
            gone.append(one.id)
        else:
            same.append(one)
    return [one for some in kept.values() for one in some], gone


def _begun(one: Relationship) -> tuple[bool, float, str]:
    return one.valid_from is not None, one.valid_from.timestamp() if one.valid_from else 0.0, one.id


def _widest(held: Relationship, one: Relationship) -> Relationship:
    open_ended = held.valid_to is None or one.valid_to is None
    made = confirmed(held, one)
    end = None if open_ended else made.valid_to
    return replace(made, valid_from=_earlier(held.valid_from, one.valid_from), valid_to=end)
