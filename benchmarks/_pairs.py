"""Pairs of strategies: does alma count what is the same together, and nothing else?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alma import ALMA
from alma.engine.distil.similar import judge
from alma.types.vector import cosine

from ._measures import f1, mean
from ._product import Clock

LABELS = ("same", "opposite", "variant", "different")


@dataclass(frozen=True)
class Judged:
    label: str
    kind: str
    merged: bool
    verdict: str


def measure(alma: ALMA, clock: Clock, rows: Sequence[Mapping[str, Any]], tick: Callable[[int], None]) -> dict[str, Any]:
    judged = []
    for number, row in enumerate(rows):
        judged.append(
            Judged(row["label"], row.get("kind", ""), merged(alma, f"pair-{number}", row), verdict(alma, row))
        )
        tick(1)
    return score(judged)


def merged(alma: ALMA, agent: str, row: Mapping[str, Any]) -> bool:
    """Three successes make a heuristic; two of one strategy and one of another do not."""
    for strategy in (row["a"], row["a"], row["b"]):
        alma.learn(agent, row.get("domain") or "the same task", "success", strategy)
    return bool(alma.list("heuristic", agent=agent))


def verdict(alma: ALMA, row: Mapping[str, Any]) -> str:
    first, second = (vectors[0] if vectors else None for vectors in alma.engine.encode([(row["a"],), (row["b"],)]))
    alike = cosine(first, second) if first is not None and second is not None else None
    return str(judge(row["a"], row["b"], alike).verdict)


def score(judged: Sequence[Judged]) -> dict[str, Any]:
    merging, wrongly, labels = _f1(judged), _wrongly(judged), _labels(judged)
    kinds = sorted({one.kind for one in judged if one.kind})
    by_kind = {kind: _f1([one for one in judged if one.kind == kind]) for kind in kinds}
    count = len(judged)
    table = [
        *((f"counted together: {name}", count, value) for name, value in merging.items()),
        *((f"counted together: F1, {kind}", _count(judged, kind), found["F1"]) for kind, found in by_kind.items()),
        *((f"{name} pairs counted together", n, share) for name, (n, share) in wrongly.items()),
        *((f"the judge's label: {name}", count, value) for name, value in labels.items()),
    ]
    return {
        "merging": merging,
        "wrongly_merged": {name: share for name, (_, share) in wrongly.items()},
        "labels": labels,
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


def _labels(judged: Sequence[Judged]) -> dict[str, float]:
    scores = [
        f1(
            sum(one.verdict == label == one.label for one in judged),
            sum(one.verdict == label != one.label for one in judged),
            sum(one.label == label != one.verdict for one in judged),
        )["F1"]
        for label in LABELS
    ]
    return {"accuracy": mean([one.verdict == one.label for one in judged]), "macro F1": mean(scores)}
