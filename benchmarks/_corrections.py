"""Turns of people working with an agent: which of them teach a rule, and is it the right one?

A turn that is read as an active or a candidate rule counts as taken for one. Rows that those who labelled them were
not sure of, or that are two things at once, are left out.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alma import ALMA
from alma.engine.distil.corrections import Reading, Standing, read

from ._measures import f1, mean, percentile
from ._product import Clock

RULES = ("correction", "preference")
LASTING = ("project", "always")
_WORD = re.compile(r"\w+")
_FITTED = (
    "the shipped weights were fitted on a development split of such turns; on that split these figures flatter, and "
    "the cross-validated ones are printed by `python -m tools.fit_corrections`"
)


@dataclass(frozen=True)
class Heard:
    row: Mapping[str, Any]
    reading: Reading
    seconds: float

    @property
    def wanted(self) -> bool:
        return self.row["label"] in RULES

    @property
    def taken(self) -> bool:
        return self.reading.standing is not Standing.NONE


def measure(alma: ALMA, clock: Clock, rows: Sequence[Mapping[str, Any]], tick: Callable[[int], None]) -> dict[str, Any]:
    heard = []
    for row in rows:
        began = time.perf_counter()
        reading = read(row["user"], row.get("prev_assistant") or "")
        heard.append(Heard(row, reading, time.perf_counter() - began))
        tick(1)
    return score(heard)


def score(heard: Sequence[Heard]) -> dict[str, Any]:
    sure = [one for one in heard if not (one.row.get("uncertain") or one.row.get("mixed"))]
    found, active = _f1(sure, candidates=True), _f1(sure, candidates=False)
    rules = [one for one in sure if one.wanted and one.taken]
    figures = {
        "candidate": found,
        "active": active,
        "label accuracy": mean([one.row["label"] == one.reading.label for one in sure]),
        "reach accuracy": _share(rules, lambda one: one.row["scope"] == one.reading.reach),
        "once or lasting accuracy": _share(
            rules, lambda one: (one.row["scope"] in LASTING) == (one.reading.reach in LASTING)
        ),
        "rule token F1": _share(rules, lambda one: overlap(one.row.get("rule") or "", one.reading.rule)),
        "milliseconds a turn, median": 1000 * percentile([one.seconds for one in heard], 0.5),
    }
    languages = sorted({str(one.row.get("lang", "")) for one in sure} - {""})
    return {
        "figures": figures,
        "columns": ["n", "value"],
        "table": [*_rows(figures, len(sure), len(rules)), *_by_language(sure, languages)],
        "remarks": [_FITTED, f"taken for a rule and not one: {_wrongly(sure)}"],
    }


def _rows(figures: Mapping[str, Any], count: int, rules: int) -> list[tuple[str, int, float | None]]:
    table: list[tuple[str, int, float | None]] = []
    for name, value in figures.items():
        if isinstance(value, dict):
            table.extend((f"{name}: {what}", count, share) for what, share in value.items())
        else:
            table.append((name, count if name.startswith(("label", "milli")) else rules, value))
    return table


def _by_language(sure: Sequence[Heard], languages: Sequence[str]) -> list[tuple[str, int, float]]:
    parts = [(name, [one for one in sure if one.row.get("lang") == name]) for name in languages]
    return [(f"candidate: F1, {name}", len(part), _f1(part, candidates=True)["F1"]) for name, part in parts]


def _f1(heard: Sequence[Heard], candidates: bool) -> dict[str, float]:
    taken = [one.taken if candidates else one.reading.standing is Standing.ACTIVE for one in heard]
    pairs = Counter(zip(taken, (one.wanted for one in heard), strict=True))
    return f1(pairs[True, True], pairs[True, False], pairs[False, True])


def _share(heard: Sequence[Heard], right: Callable[[Heard], float]) -> float | None:
    return mean([right(one) for one in heard]) if heard else None


def overlap(wanted: str, said: str) -> float:
    """The words two sentences share, as an F1."""
    first, second = (Counter(_WORD.findall(text.lower())) for text in (wanted, said))
    return 2 * (first & second).total() / max(1, first.total() + second.total())


def _wrongly(sure: Sequence[Heard]) -> str:
    count = Counter(one.row["label"] for one in sure if one.taken and not one.wanted)
    return ", ".join(f"{label} {times}" for label, times in count.most_common()) or "none"
