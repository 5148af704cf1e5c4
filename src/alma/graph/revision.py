"""What statements make of what is stored, and which entities may be one.

The same stated again is confirmed, not doubled.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from ..engine.admit import clean
from ..errors import NotFoundError, ValidationError
from ..types.graph import THING, Direction, Entity, Relationship, Suggestion, name_key, relationship_id
from .rows import EntityFilter, GraphChange, Item, RelationFilter, RowReader

MAX_LIMIT = 10_000
_MAX_SOURCES = 200  # So many of the records something comes from are stored, the latest.
_MAX_ALIASES = 100
_ALWAYS, _NEVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


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
        self._between: dict[tuple[str, str], list[Relationship]] = defaultdict(list)
        known = [one for one in relationships if one.subject in self._ids and one.object in self._ids]
        pairs = {(self._ids[one.subject], self._ids[one.object]) for one in known}
        for one in rows.find_relationships(RelationFilter(pairs=pairs)) if pairs else ():
            self._between[one.subject, one.object].append(one)

    def add_entity(self, stated: Entity) -> str:
        """Return the id that the entity is stored by."""
        id = self._ids.setdefault(stated.id, stated.id)
        stored = self.entities.get(id)
        if stored is None:
            aliases, sources = _list_aliases(stated.name, stated.aliases), stated.sources[-_MAX_SOURCES:]
            merged = replace(stated, aliases=aliases, sources=sources, created_at=self._now)
        else:
            merged = merge_entity(stored, stated)
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
        subject, object = ends
        if subject == object:
            return None
        derived = relationship_id(stated.subject, stated.type, stated.object, stated.valid_from)
        # Without an id of its own it gets one here, where its ends are known.
        own = stated.id if stated.id != derived else ""
        stated = replace(stated, subject=subject, object=object, id=own)
        if own:
            stored_by_id = {one.id: one for one in self._rows.find_relationships(RelationFilter(ids=[own]))}
            other = self.relationships.get(own) or stored_by_id.get(own)
            if other is not None and _name_statement(other) != _name_statement(stated):
                raise ValidationError(f"{own!r} is the id of another relationship: {other.subject} {other.type}")
        between = [self.relationships.get(one.id, one) for one in self._between[subject, object]]
        same = [one for one in between if one.type == stated.type]
        stored = next((one for one in same if own and one.id == own), None) or _find_match(same, stated, self._now)
        if stored is None:
            fresh = _begin_relationship(stated, same, self._now)
        else:
            fresh = merge_relationship(stored, stated, [one for one in same if one.id != stored.id])
        for one in self._supersede(fresh) if supersede else [fresh]:
            self.relationships[one.id] = fresh = one
            siblings = self._between[one.subject, one.object]
            if all(other.id != one.id for other in siblings):
                siblings.append(one)
        return fresh

    def to_change(self) -> GraphChange:
        entities = tuple(self.entities[id] for id in self._changed)
        return GraphChange(entities=entities, relationships=tuple(self.relationships.values()))

    def _supersede(self, fresh: Relationship) -> list[Relationship]:
        """End its rivals where the fresh one, which comes last, begins; it ends where a later one began."""
        where = RelationFilter(ends=[fresh.subject], direction=Direction.OUT, types={fresh.type})
        stored = {one.id: one for one in self._rows.find_relationships(where, MAX_LIMIT)} | self.relationships
        rivals = [one for one in stored.values() if _name_statement(one)[:2] == (fresh.subject, fresh.type)]
        rivals = [one for one in rivals if one.object != fresh.object and one.id != fresh.id]
        start = fresh.valid_from or self._now
        later = [one.valid_from for one in rivals if one.valid_from is not None and one.valid_from > start]
        ended = [
            replace(one, valid_to=start)
            for one in rivals
            if (one.valid_from or _ALWAYS) <= start < (one.valid_to or _NEVER)
        ]
        return [*ended, replace(fresh, valid_to=_find_earliest([*later, fresh.valid_to]))]


def resolve_entities(rows: RowReader, ids: Iterable[str]) -> dict[str, Entity]:
    """Return each by the id asked for: its own, one that was merged into it, or a name that only it has."""
    wanted = list(dict.fromkeys(ids))
    resolved = {one.id: one for one in rows.find_entities(EntityFilter(ids=wanted))}
    missing = [id for id in wanted if id not in resolved]
    if not missing:
        return resolved
    named = rows.find_entities(EntityFilter(keys={key for id in missing for key in (id, name_key(id))}))
    for id in missing:
        merged = [one for one in named if id in one.absorbed]
        candidates = merged or [one for one in named if name_key(id) in one.keys]
        if len(candidates) == 1:
            resolved[id] = candidates[0]
    return resolved


def merge_entity(stored: Entity, stated: Entity) -> Entity:
    """Return the stored one with what is new: its own name and type stay unless nothing was known."""
    return replace(
        stored,
        type=stated.type if stored.type == THING else stored.type,
        aliases=_list_aliases(stored.name, (*stored.aliases, stated.name, *stated.aliases)),
        attributes={**stored.attributes, **stated.attributes},
        sources=tuple(dict.fromkeys((*stored.sources, *stated.sources)))[-_MAX_SOURCES:],
        confidence=max(stored.confidence, stated.confidence),
        absorbed=tuple(dict.fromkeys((*stored.absorbed, *stated.absorbed))),
    )


def _list_aliases(name: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return each once, whatever its spelling."""
    aliases = {name_key(one): one for one in reversed(names)}
    aliases.pop(name_key(name), None)
    return tuple(reversed(aliases.values()))[-_MAX_ALIASES:]


def merge_relationship(stored: Relationship, stated: Relationship, others: Sequence[Relationship] = ()) -> Relationship:
    """Return what is stated again for a time that overlaps: it holds as long as either says.

    It ends when somebody knows that it ended. `others` say the same of other times; they are not run into.
    """
    is_timeless = stated.valid_from is None and stated.valid_to is None
    start = stored.valid_from if is_timeless else _find_start(stored, stated)
    end = max(filter(None, (stored.valid_to, stated.valid_to)), default=None)
    for one in others:
        if (one.valid_to or _NEVER) <= (stored.valid_from or _ALWAYS):
            start = max(filter(None, (start, one.valid_to)), default=None)
        elif (stored.valid_to or _NEVER) <= (one.valid_from or _ALWAYS):
            end = _find_earliest([end, one.valid_from])
    return replace(
        stored,
        valid_from=start,
        valid_to=end,
        confidence=max(stored.confidence, stated.confidence),
        attributes={**stored.attributes, **stated.attributes},
        sources=tuple(dict.fromkeys((*stored.sources, *stated.sources)))[-_MAX_SOURCES:],
    )


def _find_match(same: Sequence[Relationship], stated: Relationship, now: datetime) -> Relationship | None:
    """Return the latest of the same ends and type whose time overlaps.

    Stated without any time, something holds now: what has ended is then another time, not this one.
    """
    is_timeless = stated.valid_from is None and stated.valid_to is None
    start, end = now if is_timeless else stated.valid_from or _ALWAYS, stated.valid_to or _NEVER
    matches = [one for one in same if start < (one.valid_to or _NEVER) and (one.valid_from or _ALWAYS) < end]
    return max(matches, key=_rank_start, default=None)


def _begin_relationship(stated: Relationship, same: Sequence[Relationship], now: datetime) -> Relationship:
    """Return a new relationship. After one that ended, and with no time of its own, it begins now."""
    is_timeless = stated.valid_from is None and stated.valid_to is None
    start = now if is_timeless and same else stated.valid_from
    later = [one.valid_from for one in same if start and one.valid_from and one.valid_from > start]
    return replace(
        stated,
        id="" if start != stated.valid_from else stated.id,
        valid_from=start,
        valid_to=_find_earliest([*later, stated.valid_to]),
        created_at=now,
        sources=stated.sources[-_MAX_SOURCES:],
        span=None,
    )


def merge_entities(rows: RowReader, keep: Entity, others: Sequence[Entity]) -> tuple[Entity, GraphChange]:
    """Make several entities one: the kept one's own words win. What then says the same of one time is one."""
    if not others:
        return keep, GraphChange()
    removed = [one.id for one in others]
    merged = keep
    for other in others:
        stated = replace(other, attributes={**other.attributes, **merged.attributes})
        merged = merge_entity(merged, replace(stated, absorbed=(*other.absorbed, other.id)))
    kept: dict[tuple[str, str, str], list[Relationship]] = defaultdict(list)
    dropped: list[str] = []
    for edge in sorted(rows.find_relationships(RelationFilter(ends=[keep.id, *removed])), key=_rank_start):
        subject, object = (keep.id if end in removed else end for end in (edge.subject, edge.object))
        moved = replace(edge, subject=subject, object=object)
        same = kept[_name_statement(moved)]
        if subject == object:
            dropped.append(edge.id)
        elif same and (moved.valid_from or _ALWAYS) < (same[-1].valid_to or _NEVER):
            is_open = same[-1].valid_to is None or moved.valid_to is None
            wider = merge_relationship(same[-1], moved)
            end = None if is_open else wider.valid_to
            same[-1] = replace(wider, valid_from=_find_start(same[-1], moved), valid_to=end)
            dropped.append(edge.id)
        else:
            same.append(moved)
    edges = tuple(one for some in kept.values() for one in some)
    return merged, GraphChange((merged,), edges, tuple(removed), tuple(dropped))


def remove_source(rows: RowReader, source: str, ended_at: datetime | None, keep: Iterable[str]) -> GraphChange:
    """Take a source away. An entity that nothing else speaks of goes too; one that was ended stays for the past."""
    kept = frozenset(keep)

    def withdraw(items: Iterable[Item]) -> list[Item]:
        lost = (one for one in items if one.id not in kept)
        return [replace(one, sources=tuple(each for each in one.sources if each != source)) for one in lost]

    entities = withdraw(rows.find_entities(EntityFilter(source=source)))
    edges = withdraw(rows.find_relationships(RelationFilter(source=source)))
    if ended_at is not None:
        ends = {
            one.id: min(one.valid_to or _NEVER, max(ended_at, one.valid_from or ended_at))
            for one in edges
            if not one.sources
        }
        return GraphChange(
            tuple(entities), tuple(replace(one, valid_to=ends.get(one.id, one.valid_to)) for one in edges)
        )
    removed = {one.id for one in edges if not one.sources}
    orphans = set()
    for one in entities:
        related = [] if one.sources else rows.find_relationships(RelationFilter(ends=[one.id]), len(removed) + 1)
        if not one.sources and all(edge.id in removed for edge in related):
            orphans.add(one.id)
    return GraphChange(
        entities=tuple(one for one in entities if one.id not in orphans),
        relationships=tuple(one for one in edges if one.sources),
        removed_entities=tuple(orphans),
        removed_relationships=tuple(removed),
    )


def _name_statement(one: Relationship) -> tuple[str, str, str]:
    return one.subject, one.type, one.object


def _rank_start(one: Relationship) -> tuple[datetime, str]:
    return one.valid_from or _ALWAYS, one.id


def _find_start(one: Relationship, other: Relationship) -> datetime | None:
    return None if one.valid_from is None or other.valid_from is None else min(one.valid_from, other.valid_from)


def _find_earliest(moments: Iterable[datetime | None]) -> datetime | None:
    return min(filter(None, moments), default=None)


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


_Pair = tuple[Entity, Entity, str, float]


def suggest_merges(entities: Sequence[Entity]) -> list[Suggestion]:
    """Return pairs that may be one entity, surest first. The one with the longer name is the one to keep."""
    suggestions: dict[tuple[str, str], Suggestion] = {}
    for one, other, why, score in (
        *_compare_spelling(entities),
        *_compare_people(entities),
        *_compare_organisations(entities),
    ):
        keep, gone = sorted((one, other), key=lambda each: (-len(each.name), each.id))
        is_alike = one.type == other.type or THING in (one.type, other.type)
        if one.id != other.id and is_alike:
            suggestions.setdefault((keep.id, gone.id), Suggestion(keep, gone, why, score))
    return sorted(suggestions.values(), key=lambda each: (-each.score, each.keep.id, each.other.id))


def _compare_spelling(entities: Sequence[Entity]) -> Iterator[_Pair]:
    """Yield those written with other marks between the letters, or sharing an alias."""
    groups: dict[str, list[Entity]] = defaultdict(list)
    for one in entities:
        groups[_PLAIN.sub("", name_key(one.name))].append(one)
    for key, some in groups.items():
        if len(key) > 2:
            yield from ((some[0], other, "spelled alike", _SURE) for other in some[1:])
    by_alias: dict[str, Entity] = {}
    for one in entities:
        for key in one.keys:
            if (first := by_alias.setdefault(key, one)) is not one:
                yield first, one, f"both are called {key!r}", _LIKELY


def _compare_people(entities: Sequence[Entity]) -> Iterator[_Pair]:
    people = [one for one in entities if one.type in ("person", THING)]
    full = [one for one in people if one.type == "person" and len(name_key(one.name).split()) > 1]
    short_names = {words[0]: words[1:] for line in _SHORT_FOR.split("|") if (words := line.split())}
    by_first: dict[str, list[Entity]] = defaultdict(list)
    for one in full:
        words = name_key(one.name).split()
        for short in {words[0], *short_names.get(words[0], ())}:
            by_first[short].append(one)
            by_first[f"{short} {words[-1]}"].append(one)
        by_first[f"{words[0][:1]} {words[-1]}"].append(one)
    for one in people:
        called = name_key(one.name).replace(".", "").lstrip("@")
        same = [other for other in by_first.get(called, ()) if other.id != one.id]
        for other in same:
            score = _PERHAPS if len(same) > 1 else _LIKELY if " " not in called else _SURE
            yield one, other, f"{one.name!r} is short for {other.name!r}", score


def _compare_organisations(entities: Sequence[Entity]) -> Iterator[_Pair]:
    groups: dict[str, list[Entity]] = defaultdict(list)
    for one in entities:
        if one.type in ("organisation", THING):
            words = name_key(one.name).replace(",", "").split()
            while len(words) > 1 and words[-1] in _LEGAL:
                words.pop()
            groups[" ".join(words)].append(one)
    for group in groups.values():
        yield from ((group[0], other, "the same but for the legal form", _LIKELY) for other in group[1:])
