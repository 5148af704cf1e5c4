"""From stored records to the values people see."""

from __future__ import annotations

from datetime import datetime

from ..types.kinds import KINDS, Memory
from ..types.record import Record
from ..types.slice import MemorySlice
from .evidence import believe


def view(record: Record, now: datetime) -> Memory:
    decode = KINDS[record.kind].decode
    if decode is None:
        raise TypeError(f"a {record.kind} record is not a memory")
    return decode(record, believe(record, now))


def render_slice(memories: MemorySlice, max_tokens: int) -> str:
    # Loaded when a prompt is wanted: its patterns take longer to compile than a small retrieval takes.
    from .inject.prompt import render

    return render(memories, max_tokens)
