"""What statements make of what is stored, and which entities may be one.

The same stated again is confirmed, not doubled.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from ..engine.admit import clean
from ..errors import NotFoundError, ValidationError
from ..text import name_key
from ..types.graph import THING, Direction, Entity, Relationship, Suggestion, relationship_id
from .rows import GraphChange, Item, RowFilter, RowReader

MAX_LIMIT = 10_000
_MAX_SOURCES = 200  # So many of the records something comes from are stored, the latest.
_MAX_ALIASES = 100
_ALWAYS, _NEVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def resolve_entities(rows: RowReader, ids: Iterable[str]) -> dict[str, Entity]:
    """Return each by the id asked for: its own, one that was merged into it, or a name that only it has."""
    wanted = list(dict.fromkeys(ids))
    resolved = {one.id: one for one in rows.find(Entity, RowFilter(ids=wanted))}
    missing = [id for id in wanted if id not in resolved]
    keys = {key for id in missing for key in (id, name_key(id))}
    named = rows.find(Entity, RowFilter(keys=keys)) if missing else []
    for id in missing:
        merged = [one for one in named if id in one.absorbed]
        candidates = merged or [one for one in named if name_key(id) in one.keys]
        if len(candidates) == 1:
            resolved[id] = candidates[0]
    return resolved


class Revision:
    """The entities and relationships that a list of statements adds or changes."""

    def __init__(
        self, rows: RowReader, now: datetime, entities: Sequence[Entity], relationships: Sequence[Relationship]
    ) -> None:
        self._rows = rows
        self._now = now
        ends = [end for one in relationships for end in (one.subject, one.object)]
        resolved = resolve_entities(rows, [*(one.id for one in entities), *ends])
        self._ids = {id: one.id for id, one in resolved.items()}
        self.entities = {one.id: one for one in resolved.values()}
        self.relationships: dict[str, Relationship] = {}
        self._changed: dict[str, None] = {}
        self._between: dict[tuple[str, str], dict[str, Relationship]] = defaultdict(dict)
        pairs = {(self._ids.get(one.subject, ""), self._ids.get(one.object, "")) for one in relationships}
        known = [pair for pair in pairs if all(pair)]
        for one in rows.find(Relationship, RowFilter(pairs=known)) if known else ():
            self._between[one.subject, one.object][one.id] = one

    def add_entity(self, stated: Entity) -> str:
        """Return the id that the entity is stored by."""
        id = self._ids.setdefault(stated.id, stated.id)
        stored = self.entities.get(id)
        merged = _merge_entity(stored or replace(stated, created_at=self._now), stated)
        if merged != stored:
            self.entities[id] = merged
            self._changed[id] = None
        return id

    def add_relationship(self, stated: Relationship, *, supersede: bool = False) -> Relationship | None:
        """Return the relationship as it is stored now, or None where both ends are the same entity."""
        ends = []
        for id in (stated.subject, stated.object):
            end = self._ids.get(id) or self._ids.get(clean(id))
            if end is None:
                raise NotFoundError(f"there is no entity {id!r}; add it before its relationships")
            ends.append(end)
        if ends[0] == ends[1]:
            return None
        derived = relationship_id(stated.subject, stated.type, stated.object, stated.valid_from)
        # Without an id of its own it gets one here, where its ends are known.
        own = "" if stated.id == derived else stated.id
        stated = replace(stated, subject=ends[0], object=ends[1], id=own)
        between = self._between[ends[0], ends[1]]
        same = [one for one in between.values() if one.type == stated.type]
        if own and own not in {one.id for one in same}:
            for other in (*self.relationships.values(), *self._rows.find(Relationship, RowFilter(ids=[own]))):
                if other.id == own:
                    raise ValidationError(f"{own!r} is the id of another relationship: {other.subject} {other.type}")
        fresh = _state_relationship(stated, same, own, self._now)
        for one in self._supersede(fresh) if supersede else [fresh]:
            self.relationships[one.id] = self._between[one.subject, one.object][one.id] = fresh = one
        return fresh

    def _supersede(self, fresh: Relationship) -> Iterator[Relationship]:
        """End its rivals where the fresh one, which comes last, begins; it ends where a later one began."""
        where = RowFilter(ends=[fresh.subject], direction=Direction.OUT, types=[fresh.type])
        stored = {one.id: one for one in self._rows.find(Relationship, where, MAX_LIMIT)} | self.relationships
        start, (_, end) = fresh.valid_from or self._now, _find_span(fresh)
        for one in stored.values():
            is_rival = (one.subject, one.type) == (fresh.subject, fresh.type) and one.object != fresh.object
            since, until = _find_span(one)
            if is_rival and since <= start < until:
                yield replace(one, valid_to=start)
            elif is_rival and start < since:
                end = min(end, since)
        yield _set_span(fresh, _find_span(fresh)[0], end)

    def to_change(self) -> GraphChange:
        return GraphChange([self.entities[id] for id in self._changed], list(self.relationships.values()))


# -- one statement and what is stored


def _find_span(one: Relationship) -> tuple[datetime, datetime]:
    return one.valid_from or _ALWAYS, one.valid_to or _NEVER


def _set_span(one: Relationship, start: datetime, end: datetime, **changes: Any) -> Relationship:
    since, until = None if start == _ALWAYS else start, None if end == _NEVER else end
    return replace(one, valid_from=since, valid_to=until, **changes)


def _merge_common(stored: Item, stated: Item) -> dict[str, Any]:
    return {
        "attributes": {**stored.attributes, **stated.attributes},
        "sources": tuple(dict.fromkeys((*stored.sources, *stated.sources)))[-_MAX_SOURCES:],
        "confidence": max(stored.confidence, stated.confidence),
    }


def _merge_entity(stored: Entity, stated: Entity) -> Entity:
    """Return the stored one with what is new: its own name and type stay unless nothing was known."""
    # Each alias once, whatever its spelling.
    aliases = {name_key(one): one for one in reversed((*stored.aliases, stated.name, *stated.aliases))}
    aliases.pop(name_key(stored.name), None)
    return replace(
        stored,
        type=stated.type if stored.type == THING else stored.type,
        aliases=tuple(reversed(aliases.values()))[-_MAX_ALIASES:],
        absorbed=tuple(dict.fromkeys((*stored.absorbed, *stated.absorbed))),
        **_merge_common(stored, stated),
    )


def _state_relationship(stated: Relationship, same: Sequence[Relationship], own: str, now: datetime) -> Relationship:
    """Return what a statement makes of those with the same ends and type: the one it confirms, or a new one.

    It confirms the latest whose time overlaps, which then holds as long as either says, and ends when somebody knows
    that it ended. Stated without any time, something holds now: after one that has ended, it begins again.
    """
    is_timeless = stated.valid_from is None and stated.valid_to is None
    since, until = _find_span(stated)
    since = now if is_timeless else since
    matches = [one for one in same if since < _find_span(one)[1] and _find_span(one)[0] < until]
    stored = next((one for one in same if one.id == own), None) or max(matches, key=_rank_start, default=None)
    if stored is None:
        start = now if is_timeless and same else stated.valid_from
        id = stated.id if start == stated.valid_from else ""
        return replace(stated, id=id, valid_from=start, created_at=now, sources=stated.sources[-_MAX_SOURCES:])
    first, last = _find_span(stored)
    start = first if is_timeless else min(first, since)
    end = max(filter(None, (stored.valid_to, stated.valid_to)), default=_NEVER)
    for one in same:
        # Others say the same of other times; they are not run into.
        if one.id != stored.id and _find_span(one)[1] <= first:
            start = max(start, _find_span(one)[1])
        elif one.id != stored.id and last <= _find_span(one)[0]:
            end = min(end, _find_span(one)[0])
    return _set_span(stored, start, end, **_merge_common(stored, stated))


def _rank_start(one: Relationship) -> tuple[datetime, str]:
    return _find_span(one)[0], one.id


# -- several that are one, and sources that are gone


def merge_entities(rows: RowReader, keep: Entity, others: Collection[Entity]) -> tuple[Entity, GraphChange]:
    """Make several entities one: the kept one's own words win. What then says the same of one time is one."""
    if not others:
        return keep, GraphChange()
    removed = [one.id for one in others]
    merged = keep
    for other in others:
        attributes, absorbed = {**other.attributes, **merged.attributes}, (*other.absorbed, other.id)
        merged = _merge_entity(merged, replace(other, attributes=attributes, absorbed=absorbed))
    kept: dict[tuple[str, str, str], list[Relationship]] = defaultdict(list)
    dropped: list[str] = []
    for edge in sorted(rows.find(Relationship, RowFilter(ends=[keep.id, *removed])), key=_rank_start):
        subject, object = (keep.id if end in removed else end for end in (edge.subject, edge.object))
        moved = replace(edge, subject=subject, object=object)
        same = kept[subject, edge.type, object]
        start, end = _find_span(moved)
        if subject == object:
            dropped.append(edge.id)
        elif same and start < _find_span(same[-1])[1]:
            first, last = _find_span(same[-1])
            same[-1] = _set_span(same[-1], min(first, start), max(last, end), **_merge_common(same[-1], moved))
            dropped.append(edge.id)
        else:
            same.append(moved)
    return merged, GraphChange([merged], [one for some in kept.values() for one in some], removed, dropped)


def remove_source(
    rows: RowReader, source: str, ended_at: datetime | None, keep: Collection[str]
) -> tuple[tuple[int, int, int], GraphChange]:
    """Take a source away; return how many entities and relationships go, how many relationships end, and the change.

    An entity that nothing else speaks of goes too; one that was ended stays for the past.
    """
    where = RowFilter(source=source)

    def withdraw(items: Iterable[Item]) -> list[Item]:
        lost = (one for one in items if one.id not in keep)
        return [replace(one, sources=tuple(each for each in one.sources if each != source)) for one in lost]

    entities, edges = withdraw(rows.find(Entity, where)), withdraw(rows.find(Relationship, where))
    alone = [one for one in edges if not one.sources]
    kept = [one for one in edges if one.sources]
    if ended_at is not None:
        ended = [
            replace(one, valid_to=min(_find_span(one)[1], max(ended_at, one.valid_from or ended_at))) for one in alone
        ]
        return (0, 0, len(ended)), GraphChange(entities, [*kept, *ended])
    removed = {one.id for one in alone}
    orphans = []
    for one in entities:
        related = [] if one.sources else rows.find(Relationship, RowFilter(ends=[one.id]), len(removed) + 1)
        if not one.sources and removed.issuperset(edge.id for edge in related):
            orphans.append(one.id)
    counts = (len(orphans), len(removed), 0)
    return counts, GraphChange([one for one in entities if one.id not in orphans], kept, orphans, list(removed))


# -- which entities may be one, judged by their names alone

_SHORT_FOR = """abigail abby|alexander alex sasha|alexandra alex sandra|andrew andy drew|anthony tony|barbara barb|
benjamin ben|catherine cathy kate|charles charlie chuck|christina chris tina|christopher chris|cynthia cindy|
daniel dan danny|david dave|deborah deb debbie|donald don|dorothy dot|edward ed eddie ted|
elizabeth liz beth betty eliza|emily em|eugene gene|franklin frank|frederick fred|gabriel gabe|gregory greg|
henry hank harry|jacob jake|james jim jimmy|janet jan|jeffrey jeff|jennifer jen jenny|jessica jess|
john jack johnny|jonathan jon|joseph joe joey|joshua josh|judith judy|katherine kate kathy katie|kenneth ken|
kimberly kim|lawrence larry|leonard leo len|margaret maggie meg peggy|matthew matt|melanie mel|
michael mike mick|nathaniel nate|nicholas nick|pamela pam|patricia pat trish|patrick pat|peter pete|
philip phil|raymond ray|rebecca becky|richard rick dick|robert bob rob bobby|ronald ron|samantha sam|
samuel sam|stephanie steph|stephen steve|steven steve|susan sue|theodore ted theo|theresa terry|
thomas tom tommy|timothy tim|victoria vicky|vincent vince|walter walt|william bill will billy|zachary zach"""
_LEGAL = frozenset("inc inc. corp corp. corporation ltd ltd. llc gmbh ag co co. company plc sa bv group".split())
_PLAIN = re.compile(r"[^\w]+|_")
_SURE, _LIKELY, _PERHAPS = 0.9, 0.7, 0.4


def suggest_merges(entities: Sequence[Entity]) -> list[Suggestion]:
    """Return pairs that may be one entity, surest first. The one with the longer name is the one to keep."""
    suggestions: dict[tuple[str, str], Suggestion] = {}
    for one, other, why, score in (*_compare_spelling(entities), *_compare_people(entities)):
        keep, gone = sorted((one, other), key=lambda each: (-len(each.name), each.id))
        is_alike = one.type == other.type or THING in (one.type, other.type)
        if one.id != other.id and is_alike:
            suggestions.setdefault((keep.id, gone.id), Suggestion(keep, gone, why, score))
    return sorted(suggestions.values(), key=lambda each: (-each.score, each.keep.id, each.other.id))


def _compare_spelling(entities: Sequence[Entity]) -> Iterator[tuple[Entity, Entity, str, float]]:
    """Yield those written with other marks between the letters, sharing an alias, or differing by a legal form."""
    first: dict[tuple[str, str], Entity] = {}
    for one in entities:
        words = name_key(one.name).replace(",", "").split()
        while len(words) > 1 and words[-1] in _LEGAL:
            words.pop()
        plain = _PLAIN.sub("", name_key(one.name))
        reasons = [("spelled alike", plain, _SURE)] if len(plain) > 2 else []
        reasons += [(f"both are called {key!r}", key, _LIKELY) for key in one.keys]
        if one.type in ("organisation", THING):
            reasons.append(("the same but for the legal form", " ".join(words), _LIKELY))
        for why, key, score in reasons:
            yield first.setdefault((why, key), one), one, why, score


def _compare_people(entities: Sequence[Entity]) -> Iterator[tuple[Entity, Entity, str, float]]:
    short_names = {names[0]: names[1:] for line in _SHORT_FOR.split("|") if (names := line.split())}
    by_short: dict[str, list[Entity]] = defaultdict(list)
    for one in entities:
        first, *rest = name_key(one.name).split()
        if one.type == "person" and rest:
            shorts = (first, *short_names.get(first, ()))
            for short in {*shorts, *(f"{each} {rest[-1]}" for each in (*shorts, first[:1]))}:
                by_short[short].append(one)
    for one in entities:
        called = name_key(one.name).replace(".", "").lstrip("@")
        same = [other for other in by_short.get(called, ()) if other.id != one.id]
        for other in same if one.type in ("person", THING) else ():
            score = _PERHAPS if len(same) > 1 else _LIKELY if " " not in called else _SURE
            yield one, other, f"{one.name!r} is short for {other.name!r}", score
