"""Measures, as small pure functions.

`ranked` are names, best first; `right` are the names that should be among them. An empty ranking counts as a miss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

CUTS = (1, 5, 10)
_BINS = 10
# A prediction of 0 or 1 would make one surprise infinitely bad.
_SUREST = 0.99


def any_at(ranked: Sequence[str], right: AbstractSet[str], k: int) -> float:
    """Return 1 if at least one right name is among the first k."""
    return float(not right.isdisjoint(ranked[:k]))


def all_at(ranked: Sequence[str], right: AbstractSet[str], k: int) -> float:
    """Return 1 if every right name is among the first k."""
    return float(bool(right) and right <= set(ranked[:k]))


def ndcg_at(ranked: Sequence[str], right: AbstractSet[str], k: int) -> float:
    """Return the normalised discounted cumulative gain with binary relevance."""
    gain = sum(1 / math.log2(place + 2) for place, name in enumerate(ranked[:k]) if name in right)
    best = sum(1 / math.log2(place + 2) for place in range(min(k, len(right))))
    return gain / best if best else 0.0


def reciprocal_rank(ranked: Sequence[str], right: AbstractSet[str]) -> float:
    return next((1 / place for place, name in enumerate(ranked, 1) if name in right), 0.0)


def recall(answers: Sequence[tuple[Sequence[str], AbstractSet[str]]]) -> dict[str, float]:
    """Return the mean of every measure over (ranked, right) pairs; empty if there are none."""
    if not answers:
        return {}
    values = {f"any@{k}": mean([any_at(ranked, right, k) for ranked, right in answers]) for k in CUTS}
    values |= {f"all@{k}": mean([all_at(ranked, right, k) for ranked, right in answers]) for k in CUTS}
    values["nDCG@10"] = mean([ndcg_at(ranked, right, 10) for ranked, right in answers])
    values["MRR"] = mean([reciprocal_rank(ranked, right) for ranked, right in answers])
    return values


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that `share` of all values are at or below (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def wilson(hits: float, count: int, z: float = 1.96) -> tuple[float, float]:
    """Return the Wilson interval of a proportion, by default at 95 % confidence."""
    if not count:
        return 0.0, 1.0
    share = hits / count
    scale = 1 + z * z / count
    middle = (share + z * z / (2 * count)) / scale
    spread = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / scale
    return max(0.0, middle - spread), min(1.0, middle + spread)


# -- decisions


def f1(hits: int, wrong: int, missed: int) -> dict[str, float]:
    """Return precision, recall and F1 from the counts of right, wrong and missed claims."""
    return {
        "precision": hits / (hits + wrong) if hits + wrong else 0.0,
        "recall": hits / (hits + missed) if hits + missed else 0.0,
        "F1": 2 * hits / (2 * hits + wrong + missed) if hits + wrong + missed else 0.0,
    }


# -- predictions: (what was predicted, what happened)

Prediction = tuple[float, bool]


def predictions(pairs: Sequence[Prediction]) -> dict[str, float]:
    """Return every measure of a list of predictions; empty if there are none."""
    if not pairs:
        return {}
    kept = [(min(_SUREST, max(1 - _SUREST, chance)), happened) for chance, happened in pairs]
    return {
        "n": len(kept),
        "Brier": brier(kept),
        "log loss": log_loss(kept),
        "AUC": auc(kept),
        "calibration error": calibration_error(kept),
    }


def brier(pairs: Sequence[Prediction]) -> float:
    return mean([(chance - happened) ** 2 for chance, happened in pairs])


def log_loss(pairs: Sequence[Prediction]) -> float:
    return mean([-math.log(chance if happened else 1 - chance) for chance, happened in pairs])


def auc(pairs: Sequence[Prediction]) -> float:
    """Return how often a success was predicted above a failure, ties counting half; 0.5 with only one class."""
    good = sum(happened for _, happened in pairs)
    bad = len(pairs) - good
    if not good or not bad:
        return 0.5
    return (_rank_sum(pairs) - good * (good + 1) / 2) / (good * bad)


def _rank_sum(pairs: Sequence[Prediction]) -> float:
    """Return the sum of the ranks of the successes; equal predictions share the mean of their ranks."""
    ordered = sorted(pairs)
    total, start = 0.0, 0
    while start < len(ordered):
        stop = start
        while stop < len(ordered) and ordered[stop][0] == ordered[start][0]:
            stop += 1
        total += sum(happened for _, happened in ordered[start:stop]) * (start + 1 + stop) / 2
        start = stop
    return total


def calibration_error(pairs: Sequence[Prediction]) -> float:
    """Return the expected calibration error in ten bins, weighted by their size."""
    bins: list[list[Prediction]] = [[] for _ in range(_BINS)]
    for chance, happened in pairs:
        bins[min(_BINS - 1, int(chance * _BINS))].append((chance, happened))
    return math.fsum(abs(math.fsum(chance - happened for chance, happened in held)) for held in bins) / len(pairs)
