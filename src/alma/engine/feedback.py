"""Judging: what people and agents say about the memories they were shown changes what is shown next."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import ValidationError
from ..types.kinds import FeedbackSignal, MemoryType
from .context import Engine
from .edit import is_own
from .transaction import Transaction, write

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
    """Count one signal for each memory, all or none; with a `kind`, memories of other kinds are an error."""

    def step(tx: Transaction) -> list[str]:
        records = [record for record in tx.get(signals) if is_own(engine, record)]
        for record in records:
            if kind is not None and record.kind != kind:
                raise ValidationError(f"memory {record.id!r} is of type {record.kind}, not {kind}")
            signal, evidence = signals[record.id], record.evidence
            changes: dict[str, Any] = {_COUNTS[signal]: getattr(evidence, _COUNTS[signal]) + 1}
            if signal is not FeedbackSignal.IGNORED:
                changes["last_used"] = engine.clock()
            # `updated_at` stays: being talked about is not being confirmed.
            tx.update(record, evidence=replace(evidence, **changes), updated_at=record.updated_at)
        return [record.id for record in records]

    known = write(engine, step)
    unknown = [id for id in signals if id not in known]
    if unknown:
        _LOG.warning("feedback on memories that are not held was left out: %s", ", ".join(unknown))
    return FeedbackReport(tuple(known), tuple(unknown))


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
