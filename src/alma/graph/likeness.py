"""Which entities may be one, judged by their names alone."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from ..types.graph import THING, Entity, Suggestion, name_key

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
    """Surest first. The one with the longer name is the one to keep."""
    found: dict[tuple[str, str], Suggestion] = {}
    for one, other, why, score in (*_spelled(entities), *_people(entities), *_organisations(entities)):
        keep, gone = sorted((one, other), key=lambda each: (-len(each.name), each.id))
        is_alike = one.type == other.type or THING in (one.type, other.type)
        if one.id != other.id and is_alike:
            found.setdefault((keep.id, gone.id), Suggestion(keep, gone, why, score))
    return sorted(found.values(), key=lambda each: (-each.score, each.keep.id, each.other.id))


Found = Iterator[tuple[Entity, Entity, str, float]]


def _spelled(entities: Sequence[Entity]) -> Found:
    """Written with other marks between the letters, or sharing an alias."""
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


def _people(entities: Sequence[Entity]) -> Found:
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


def _organisations(entities: Sequence[Entity]) -> Found:
    groups: dict[str, list[Entity]] = defaultdict(list)
    for one in entities:
        if one.type in ("organisation", THING):
            words = name_key(one.name).replace(",", "").split()
            while len(words) > 1 and words[-1] in _LEGAL:
                words.pop()
            groups[" ".join(words)].append(one)
    for group in groups.values():
        yield from ((group[0], other, "the same but for the legal form", _LIKELY) for other in group[1:])
