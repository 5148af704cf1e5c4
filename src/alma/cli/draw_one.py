"""One memory with all that is known of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING

from ..schema import plain, type_of
from ..types.kinds import Episode, Memory, MemoryType, Turn
from ..types.record import Provenance, Record
from ..types.speech import quote_output
from .marks import STYLES, belief, fit, moment, sentence
from .shapes import Column, Line, Shape, line, stacked, table

if TYPE_CHECKING:
    from ..api.memories import Change

_ELSEWHERE = {"id", "confidence", "confidence_interval", "status", "turns"}
_RELATED = {MemoryType.OUTCOME: "counts for", "turn": "said in"}
_COUNTS = ("successes", "partials", "failures", "uses", "skips", "ups", "downs")


def card(memory: Memory, record: Record, related: Sequence[Memory], history: Sequence[Change]) -> Iterator[Shape]:
    kind = type_of(memory)
    yield line(kind.replace("_", " "), f"bold {STYLES[kind]}") + line(f" {memory.id} ({memory.status})")
    grid = table(Column(style="dim", wrap=False), Column())
    for name, value in _rows(memory, record):
        grid.add(name, line(value))
    yield grid
    if related:
        yield line(f"\n{_RELATED.get(kind, 'learned from')}", "bold")
        yield from (line(f"  {one.id}  {fit(sentence(one))}") for one in related)
    if isinstance(memory, Episode) and memory.turns:
        yield line("\nwhat was said", "bold")
        yield from map(_spoken, memory.turns)
    if history:
        yield line("\nhistory", "bold")
        yield from (line(f"  {moment(event.at)}  {_event(event)}") for event in history)


def _spoken(turn: Turn) -> Line:
    """Who, when and which; below it the words as they are."""
    said = [line(f"    {one}") for one in turn.text.splitlines()]
    return stacked([line(f"  {turn.speaker}", "bold") + line(f"  {moment(turn.said_at)}  {turn.id}", "dim"), *said])


def _rows(memory: Memory, record: Record) -> Iterator[tuple[str, str]]:
    for field in fields(memory):
        value = getattr(memory, field.name)
        if field.name == "error_message" and value:
            value = quote_output(value)
        if field.name not in _ELSEWHERE and value not in (None, "", (), {}):
            yield field.name.replace("_", " "), _said(value)
    yield "confidence", belief(memory)
    evidence = ", ".join(f"{name} {number}" for name in _COUNTS if (number := getattr(record.evidence, name)))
    yield "evidence", evidence or "none yet"
    yield "came from", _origin(record.provenance)
    yield "embedder", record.embedder or "none (words only)"
    yield "version", str(record.version)


def _said(value: object) -> str:
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(plain(value))


def _origin(provenance: Provenance) -> str:
    source = f", {provenance.source}" if provenance.source else ""
    return f"{provenance.origin}{source} ({provenance.trust})"


def _event(event: Change) -> str:
    why = f" ({event.why})" if event.why else ""
    before = ", ".join(f"{name} was {value!r}" for name, value in event.before.items())
    return f"{event.verb}{why}" + (f": {before}" if before else "")
