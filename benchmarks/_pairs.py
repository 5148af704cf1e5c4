"""Pairs of strategies: test that alma counts equal strategies together, and only those."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alma import ALMA

from ._measures import f1, mean
from ._product import Clock

LABELS = ("same", "opposite", "variant", "different")


@dataclass(frozen=True)
class Judged:
    label: str
    kind: str
    merged: bool


def measure(alma: ALMA, clock: Clock, rows: Sequence[Mapping[str, Any]], tick: Callable[[int], None]) -> dict[str, Any]:
    judged = []
    for number, row in enumerate(rows):
        judged.append(Judged(row["label"], row.get("kind", ""), merged(alma, f"pair-{number}", row)))
        tick(1)
    return score(judged)


def merged(alma: ALMA, agent: str, row: Mapping[str, Any]) -> bool:
    """Return whether alma counted two strategies together: three successes make a heuristic, two and one do not."""
    for strategy in (row["a"], row["a"], row["b"]):
        alma.learn(agent, row.get("domain") or "the same task", "success", strategy)
    return bool(alma.list("heuristic", agent=agent))


def score(judged: Sequence[Judged]) -> dict[str, Any]:
    merging, wrongly = _f1(judged), _wrongly(judged)
    kinds = sorted({one.kind for one in judged if one.kind})
    by_kind = {kind: _f1([one for one in judged if one.kind == kind]) for kind in kinds}
    count = len(judged)
    table = [
        *((f"counted together: {name}", count, value) for name, value in merging.items()),
        *((f"counted together: F1, {kind}", _count(judged, kind), found["F1"]) for kind, found in by_kind.items()),
        *((f"{name} pairs counted together", n, share) for name, (n, share) in wrongly.items()),
    ]
    return {
        "merging": merging,
        "wrongly_merged": {name: share for name, (_, share) in wrongly.items()},
        "by_kind": by_kind,
        "columns": ["n", "value"],
        "table": table,
    }


def _count(judged: Sequence[Judged], kind: str) -> int:
    return sum(one.kind == kind for one in judged)


def _f1(judged: Sequence[Judged]) -> dict[str, float]:
    return f1(
        sum(one.merged and one.label == "same" for one in judged),
        sum(one.merged and one.label != "same" for one in judged),
        sum(not one.merged and one.label == "same" for one in judged),
    )


def _wrongly(judged: Sequence[Judged]) -> dict[str, tuple[int, float]]:
    found = {}
    for label in LABELS[1:]:
        own = [one.merged for one in judged if one.label == label]
        if own:
            found[label] = (len(own), mean(own))
    return found
