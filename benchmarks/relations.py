"""Measure how well the local model tells relations apart: `python -m benchmarks.relations FOLDER`.

`families.jsonl` in the folder has strategies: wordings of the same one, opposites, variants and different ones.
`conflicts.jsonl` has an older and a newer statement: the newer agrees, replaces the older one, or both hold. Each area
under the curve stands next to that of the cosine of both vectors, which knows nothing but nearness. The loss check,
which a merge must pass in one direction, is counted for all pairs, as if a reader took every one of them for the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tools.training.calibrate import read_both_ways
from tools.training.examples import ACTIONS, FACTS, Labelled, list_action_pairs, list_fact_pairs

from alma.embedders.local import LocalEmbedder
from alma.reading.losses import find_losses

Array = NDArray[Any]


def find_area(scores: Array, truth: Array) -> float:
    """Return the share of (true, untrue) pairs that the scores order rightly."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores, kind="stable")] = np.arange(1, len(scores) + 1)
    count = int(truth.sum())
    return float((ranks[truth].sum() - count * (count + 1) / 2) / (count * (len(scores) - count)))


def compare_vectors(embedder: LocalEmbedder, pairs: Sequence[Labelled]) -> Array:
    """Return the cosine of each pair."""
    sides = []
    for texts in ([pair.first for pair in pairs], [pair.second for pair in pairs]):
        vectors = np.array([np.frombuffer(vector, np.int8) for vector in embedder.embed(texts)], float)
        sides.append(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    cosines: Array = (sides[0] * sides[1]).sum(axis=1)
    return cosines


def measure_losses(pairs: Sequence[Labelled], names: Sequence[str]) -> None:
    for label, name in enumerate(names):
        texts = [(pair.first, pair.second) for pair in pairs if pair.label == label]
        passing = [not (find_losses(first, second) and find_losses(second, first)) for first, second in texts]
        print(f"  loss check lets {np.mean(passing):.3f} of {len(texts)} {name} pass")


def measure_families(embedder: LocalEmbedder, rows: Sequence[dict[str, Any]]) -> None:
    pairs = [pair for family in rows for pair in list_action_pairs(family)]
    labels = np.array([pair.label for pair in pairs])
    same, cosines = read_both_ways(embedder, pairs)[:, 0], compare_vectors(embedder, pairs)
    print(f"same strategy: area {find_area(same, labels == 0):.3f}, by cosine {find_area(cosines, labels == 0):.3f}")
    for label, name in enumerate(ACTIONS[1:], start=1):
        mine = (labels == 0) | (labels == label)
        areas = [find_area(scores[mine], labels[mine] == 0) for scores in (same, cosines)]
        print(f"  against {name:9}: area {areas[0]:.3f}, by cosine {areas[1]:.3f}")
    merged = same >= embedder.calibration.same
    hard = merged[(labels == 1) | (labels == 2)]
    print(f"  at {embedder.calibration.same}: {merged[labels == 0].mean():.3f} of equal ones found,", end=" ")
    print(
        f"{hard.mean():.4f} of {len(hard)} opposites and variants, {merged[labels == 3].mean():.4f} of different ones"
    )
    measure_losses(pairs, ACTIONS)
    taken = [pair for pair, is_merged in zip(pairs, merged, strict=True) if is_merged]
    lossless = [one for one in taken if not (find_losses(one.first, one.second) and find_losses(one.second, one.first))]
    wrong = [one for one in lossless if one.label != 0]
    print(f"  merged after the loss check: {len(lossless)} of {len(taken)}, wrong {len(wrong)}")


def measure_conflicts(embedder: LocalEmbedder, rows: Sequence[dict[str, Any]]) -> None:
    pairs = list_fact_pairs(rows)
    labels = np.array([pair.label for pair in pairs])
    odds = np.array([score.fact for score in embedder.read_pairs([(pair.first, pair.second) for pair in pairs])])
    cosines = compare_vectors(embedder, pairs)
    for label, name in enumerate(FACTS):
        truth = labels == label
        by_cosine = find_area(-cosines if name == "both" else cosines, truth)
        print(f"{name:8}: area {find_area(odds[:, label], truth):.3f}, by cosine {by_cosine:.3f}")
    sure = odds[:, 1] >= embedder.calibration.replaces
    right = int((sure & (labels == 1)).sum())
    print(f"  replaces at {embedder.calibration.replaces}: {right} of {(labels == 1).sum()} found,", end=" ")
    print(f"{right} of {sure.sum()} right")
    agreeing = odds[:, 0] >= embedder.calibration.agrees
    print(f"  agrees at {embedder.calibration.agrees}: {agreeing.sum()} found, {(labels[agreeing] == 0).sum()} right")
    measure_losses(pairs, FACTS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    embedder = LocalEmbedder()
    for name, measure in (("families.jsonl", measure_families), ("conflicts.jsonl", measure_conflicts)):
        data = (folder / name).read_bytes()
        rows = [json.loads(line) for line in data.decode().splitlines()]
        print(f"{name}: {len(rows)} rows, data {hashlib.sha256(data).hexdigest()[:12]}")
        measure(embedder, rows)


if __name__ == "__main__":
    main()
