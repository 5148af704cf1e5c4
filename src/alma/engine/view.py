"""From stored records to the values people see."""

from __future__ import annotations

from datetime import datetime

from ..types.kinds import KINDS, Memory
from ..types.record import Record
from .evidence import believe


def view(record: Record, now: datetime) -> Memory:
    decode = KINDS[record.kind].decode
    if decode is None:
        raise TypeError(f"a {record.kind} record is not a memory")
    return decode(record, believe(record, now))
