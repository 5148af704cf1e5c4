"""Pages of memories: filtered, ordered, and continued by a cursor that stays valid while others write.

The newest come in the order of the store, so that a page costs the same in every store. Other orders are computed: they
look at a limited number of the newest or best matching memories, and the page says if there are more.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple

from ..errors import StaleVersionError, ValidationError
from ..ports import Countable
from ..text import digest, shorten
from ..types.kinds import Episode, Memory
from ..types.query import Where
from ..types.record import Evidence, Record
from ..types.times import from_micros, to_micros
from .context import Engine
from .evidence import believe
from .search import by_words
from .view import count_records, recall, to_memory

Order = Literal["newest", "best", "least_sure", "least_followed", "most_shown"]
MAX_ORDERED = 2000  # So many of the newest are looked at where the store has no order or filter of its own.
MAX_MATCHES = 200
_SHORT = 60  # A name or an id is not cut.
# The texts of a memory in a list, so that 25 of them stay below 100 KB however they are encoded.
CUT_BYTES = 1500
Place = tuple[int, str]  # Where a record is in the order of the store.
_TITLES = ("rule", "fact", "preference", "strategy", "pattern", "title", "task_description", "line")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEntry:
    """A memory with what a person needs to judge it."""

    memory: Memory
    version: int  # Pass it as `expected_version` to change only what was seen.
    trust: str  # trusted, learned or untrusted: untrusted text is only quoted.
    evidence: Evidence
    shown: int  # How many of the retrievals that are kept showed it.
    last_shown: datetime | None  # When the newest of them did.
    superseded_by: str
    valid_from: datetime | None
    valid_to: datetime | None
    is_cut: bool  # Whether texts were shortened; `inspect` returns all.


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPage:
    """Some of the memories that match, and how to go on."""

    items: list[MemoryEntry]
    next: str | None  # The cursor of the next page; None on the last one.
    count: int | None  # How many match; None if that is not known.
    is_partial: bool  # Whether only the newest or best matching memories were ordered.


class Selection(NamedTuple):
    """Which memories are meant: what the store filters, and what is filtered afterwards."""

    where: Where
    words: str = ""
    trust: frozenset[str] | None = None

    def accepts(self, record: Record) -> bool:
        """Return whether a record passes the filters that the store does not have."""
        return self.trust is None or record.provenance.trust in self.trust

    def sign(self, order: str) -> str:
        """Return a short text that differs for other filters and orders."""
        parts = [(one.name, getattr(self.where, one.name)) for one in fields(Where)]
        return digest(order, repr([(name, _sort_names(value)) for name, value in parts]), repr(self[1:]), size=6)


def _sort_names(value: Any) -> Any:
    return sorted(map(str, value)) if isinstance(value, set | frozenset | list | tuple) else value


# -- entries


def make_entry(engine: Engine, record: Record, most: int | None = None) -> MemoryEntry:
    """Return one record as an entry, whole, or with its texts cut to so many bytes for a list."""
    memory = to_memory(record, engine.clock())
    cut = memory if most is None else cut_memory(memory, most)
    notes = engine.where("retrieval", linked={record.id})
    names = ("version", "evidence", "superseded_by", "valid_from", "valid_to")
    newest = next(engine.store.scan(notes, 1), None)
    return MemoryEntry(
        memory=cut,
        trust=str(record.provenance.trust),
        shown=sum(count_records(engine, notes).values()),
        last_shown=newest.created_at if newest else None,
        is_cut=cut is not memory,
        **{name: getattr(record, name) for name in names},
    )


def cut_memory(memory: Memory, most: int = CUT_BYTES) -> Memory:
    """Return a memory whose long texts have so many bytes together, without turns and long details.

    It is the memory itself if nothing is long.
    """
    texts = {one.name: value for one in fields(memory) if type(value := getattr(memory, one.name)) is str}
    changes: dict[str, Any] = {"turns": ()} if isinstance(memory, Episode) and memory.turns else {}
    if sum(len(value.encode()) for value in texts.values()) > most:
        long = {name: value for name, value in texts.items() if len(value) > _SHORT}
        cut = {name: cut_text(value, most // len(long)) for name, value in long.items()}
        changes |= {name: value for name, value in cut.items() if value != texts[name]}
    for name, nothing in (("metadata", {}), ("wordings", ()), ("tags", ())):
        if len(json.dumps(getattr(memory, name), default=str)) > most // 3:
            changes[name] = nothing
    return replace(memory, **changes) if changes else memory


def cut_text(text: str, most: int = CUT_BYTES) -> str:
    """Return the beginning of a text, of at most so many bytes; a text that was cut ends with an ellipsis."""
    raw = text.encode()
    return text if len(raw) <= most else raw[: most - 3].decode(errors="ignore") + "…"


def shorten_title(record: Record, most: int = 200) -> str:
    """Return the beginning of what a memory says, without its other fields."""
    return shorten(next((str(record.body[one]) for one in _TITLES if record.body.get(one)), record.text), most)


def check_versions(engine: Engine, records: Sequence[Record], expected: dict[str, int] | None) -> None:
    """Raise StaleVersionError with the present entries if records changed since somebody saw these versions."""
    changed = [one for one in records if expected and expected.get(one.id, one.version) != one.version]
    if changed:
        entries = [make_entry(engine, one, CUT_BYTES) for one in changed[:25]]
        names = ", ".join(f"{shorten_title(one, 60)!r} ({one.id})" for one in changed[:5])
        raise StaleVersionError(
            f"somebody else changed {names} in the meantime; nothing was changed. Read it again and retry",
            entries[0] if len(records) == 1 else {"entries": entries},
        )


# -- pages


def read_page(engine: Engine, selection: Selection, order: Order, limit: int, cursor: str | None) -> MemoryPage:
    """Return one page of memories. `cursor` is the `next` of the page before."""
    records, after, count, is_partial = list_page(engine, selection, limit, cursor, order)
    if count is None:
        count = count_selected(engine, selection)
    items = [make_entry(engine, one, CUT_BYTES) for one in records]
    return MemoryPage(items=items, next=after, count=count, is_partial=is_partial)


def list_page(
    engine: Engine, selection: Selection, limit: int, cursor: str | None, order: Order = "newest"
) -> tuple[list[Record], str | None, int | None, bool]:
    """Return the records of a page, the next cursor, their number if it is known, and whether there may be more."""
    name, count, is_partial = selection.sign(order), None, False
    place = _read_cursor(cursor, name)
    if order == "newest" and not selection.words:
        records, after = _walk_newest(engine, selection, place, limit)
    else:
        pool, is_partial = list_selected(engine, selection)
        ranks = _rank(engine, pool, order)
        ordered = sorted(pool, key=lambda one: (ranks[one.id], -to_micros(one.created_at), one.id))
        start = next((at for at, one in enumerate(ordered, 1) if place and one.id == place[1]), 0)
        if place and not start:
            # It was changed or deleted meanwhile: go on with what is older.
            start = next((at for at, one in enumerate(ordered) if _place_of(one) < place), len(ordered))
        records, count = ordered[start : start + limit], len(ordered)
        after = _place_of(records[-1]) if records and start + limit < len(ordered) else None
    following = after and urlsafe_b64encode(json.dumps([name, *after]).encode()).decode().rstrip("=")
    return records, following, count, is_partial


def count_selected(engine: Engine, selection: Selection) -> int | None:
    """Return how many memories are meant; None if that is not known."""
    if not selection.words and isinstance(engine.store, Countable):
        key = ("count", engine.project, selection._replace(trust=None).sign(""))
        total = recall(engine, key, lambda: sum(count_records(engine, selection.where).values()))
        if selection.trust is None or total > MAX_ORDERED:
            return total if selection.trust is None else None
    pool, is_partial = list_selected(engine, selection)
    return None if is_partial else len(pool)


def list_selected(engine: Engine, selection: Selection, most: int = MAX_ORDERED) -> tuple[list[Record], bool]:
    """Return the memories that are meant, best or newest first, and whether there may be more."""
    if selection.words:
        hits = by_words(engine.store, selection.words, selection.where, MAX_MATCHES)
        records, is_partial = engine.store.get([one.id for one in hits]), len(hits) == MAX_MATCHES
    else:
        records = list(engine.store.scan(selection.where, most + 1))
        is_partial = len(records) > most
    return [one for one in records[:most] if selection.accepts(one)], is_partial


def _walk_newest(
    engine: Engine, selection: Selection, place: Place | None, limit: int
) -> tuple[list[Record], Place | None]:
    """Return the newest records after a place, and the place to go on from; None at the end."""
    where, records = selection.where, list[Record]()
    looked, size = 0, limit + 1
    while True:
        bounded = where if place is None else replace(where, created_to=from_micros(place[0] + 1))
        batch = list(engine.store.scan(bounded, size))
        # Several records may have been made in the same moment.
        fresh = [one for one in batch if place is None or _place_of(one) < place]
        for one in fresh:
            if selection.accepts(one):
                records.append(one)
            if len(records) > limit:
                return records[:limit], _place_of(records[limit - 1])
        looked += len(fresh)
        if len(batch) < size:
            return records, None
        place = _place_of(fresh[-1]) if fresh else place
        if looked >= MAX_ORDERED:
            return records, place
        size = min(2 * size, 2 * MAX_ORDERED) if fresh else 2 * size


def _rank(engine: Engine, records: Sequence[Record], order: Order) -> dict[str, float]:
    now = engine.clock()
    if order == "least_sure":
        return {one.id: believe(one, now).mean for one in records}
    if order == "least_followed":
        shares = {one.id: one.evidence.successes + 0.5 * one.evidence.partials for one in records}
        # What was never tried comes last.
        return {one.id: shares[one.id] / one.evidence.results if one.evidence.results else 2.0 for one in records}
    if order == "most_shown":
        notes = engine.store.scan(engine.where("retrieval"), MAX_ORDERED)
        counts = Counter(id for note in notes for id in note.links)
        return {one.id: -float(counts[one.id]) for one in records}
    return {one.id: float(at if order == "best" else 0) for at, one in enumerate(records)}


# -- cursors


def _place_of(record: Record) -> Place:
    return to_micros(record.created_at), record.id


def _read_cursor(cursor: str | None, name: str) -> Place | None:
    """Return the place that a cursor of the list of this name means; None for the start."""
    if cursor is None:
        return None
    try:
        signed, micros, id = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        place = int(micros), str(id)
        from_micros(place[0])
    except (ValueError, TypeError, OverflowError, OSError):
        raise ValidationError("cursor must be the `next` of an earlier page, unchanged") from None
    if signed != name:
        raise ValidationError("this cursor belongs to another filter or order; start again without a cursor")
    return place
