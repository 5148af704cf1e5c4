"""Judging: what people and agents say about the memories they were shown changes what is shown next."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..errors import ValidationError
from ..types.kinds import FeedbackSignal, MemoryType
from ..types.record import Record
from .admit import counted
from .context import Engine
from .edit import ours
from .transaction import commit

_LOG = logging.getLogger("alma")
_COUNTS = {
    FeedbackSignal.USED: "uses",
    FeedbackSignal.IGNORED: "skips",
    FeedbackSignal.THUMBS_UP: "ups",
    FeedbackSignal.THUMBS_DOWN: "downs",
}


@dataclass(frozen=True, slots=True)
class FeedbackReport:
    recorded: tuple[str, ...]
    unknown: tuple[str, ...]
    """Ids that are not held (any more); feedback on them changes nothing."""


def feedback(engine: Engine, signals: Mapping[str, FeedbackSignal], kind: MemoryType | None = None) -> FeedbackReport:
    """Count one signal for each memory, all in one transaction."""

    def attempt() -> tuple[FeedbackReport, list[Record]]:
        held = [record for record in engine.store.get(list(signals)) if ours(engine, record)]
        _expect(held, kind)
        known = tuple(record.id for record in held)
        missing = tuple(name for name in signals if name not in known)
        return FeedbackReport(known, missing), [_counted(engine, record, signals[record.id]) for record in held]

    report = commit(engine, attempt)
    if report.unknown:
        _LOG.warning("feedback on memories that are not held was left out: %s", ", ".join(report.unknown))
    return report


def _expect(held: list[Record], kind: MemoryType | None) -> None:
    for record in held:
        if kind is not None and record.kind != kind:
            raise ValidationError(f"memory {record.id!r} is a {record.kind}, not a {kind}")


def _counted(engine: Engine, record: Record, signal: FeedbackSignal) -> Record:
    evidence = counted(record.evidence, **{_COUNTS[signal]: 1})
    if signal is not FeedbackSignal.IGNORED:
        evidence = replace(evidence, last_used=engine.clock())
    # `updated_at` stays: being talked about is not being confirmed.
    return replace(record, evidence=evidence, version=record.version + 1)


def usage(retrieved: list[str], used: list[str]) -> dict[str, FeedbackSignal]:
    strangers = [name for name in used if name not in retrieved]
    if strangers:
        raise ValidationError(
            f"used_memory_ids must be among retrieved_memory_ids; these are not: {', '.join(strangers)}"
        )
    repeated = [name for name, times in Counter(retrieved).items() if times > 1]
    if repeated:
        raise ValidationError(f"retrieved_memory_ids names these more than once: {', '.join(repeated)}")
    return {name: FeedbackSignal.USED if name in used else FeedbackSignal.IGNORED for name in retrieved}
