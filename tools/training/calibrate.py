"""Calibrate the scores of the shipped model on the held-out examples: `python -m tools.training.calibrate`.

`--pools FILE` only writes the candidates of the product for each held-out question, for `tools.training.reader`.

Prints the `Calibration` of `alma.embedders.local`, and how well each threshold does. Candidates come from retrievals of
the product; of each question the nearest are read.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks.worlds import Replay
from numpy.typing import NDArray

from alma.embedders.local import LocalEmbedder
from alma.engine.retrieve.lookalikes import WORTH_READING
from alma.engine.retrieve.pipeline import _find_candidates
from alma.engine.retrieve.rank import MAX_READ, can_judge, measure_nearness
from alma.engine.retrieve.request import Request, prepare

from .examples import FOLDER, HELD_OUT, Labelled, list_action_pairs, list_fact_pairs, read_examples, read_world

Array = NDArray[Any]
_MERGED = 0.002  # The share of opposites and variants that may be counted as the same; the aim is 0.005.
_PRECISION = {"agrees": 0.985, "replaces": 0.985}
_PENALTY = 1e-3


class Question(NamedTuple):
    """A question with the memories that a retrieval looks at: how near each is, and whether it matters."""

    near: Array
    labels: Array
    is_known: Array
    scores: Array  # Of those that are read; NaN for others.


def fit_logistic(features: Array, labels: Array) -> Array:
    """Return the weights of a logistic regression, by Newton's method."""
    rows = np.column_stack([np.ones(len(features)), features])
    weights = np.zeros(rows.shape[1])
    for _ in range(50):
        chances = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ (chances - labels) + _PENALTY * weights
        curve = (rows * (chances * (1 - chances))[:, None]).T @ rows + _PENALTY * np.eye(len(weights))
        weights = weights - np.linalg.solve(curve, slope)
    return weights


def judge(weights: Array, *features: Array) -> Array:
    """Return probabilities."""
    odds = weights[0] + sum(weight * feature for weight, feature in zip(weights[1:], features, strict=True))
    chances: Array = 1 / (1 + np.exp(-odds))
    return chances


def ask_world(world: dict[str, Any], folder: str) -> list[tuple[str, list[Any], set[str]]]:
    """Return each question with its candidates and the ids of the memories it is about."""
    replay = Replay(world, folder)
    engine = replay.memory.engine
    asked = [(one["q"], one["user"], one["at"], {*one["need"], *one["stale"]}) for one in world["questions"]]
    asked += [(text, "", "2026-12-20T09:00:00+00:00", set()) for text in world["silent"]]
    questions = []
    for text, user, at, about in asked:
        replay.clock.set(datetime.fromisoformat(at))
        context = prepare(engine, Request(task=text, agent="a", user=user or None, top_k=8))
        pool = [one for one in _find_candidates(context) if can_judge(one, context.question.text)]
        ids = {own for own, name in replay.ids.items() if name in about}
        if pool:
            questions.append((context.question.text, pool, ids))
    replay.memory.close()
    return questions


def read_questions(worlds: Sequence[dict[str, Any]], embedder: LocalEmbedder) -> list[Question]:
    """Return the questions with the scores of the memories that a retrieval reads."""
    questions = []
    for world in worlds:
        with tempfile.TemporaryDirectory() as folder:
            for text, pool, about in ask_world(world, folder):
                near, known = (np.array([f(one) for one in pool]) for f in (measure_nearness, lambda one: one.is_known))
                scores = np.full(len(pool), np.nan)
                first = np.argsort(-near)[:MAX_READ]
                pairs = [(text, pool[at].text or pool[at].record.text) for at in first]
                scores[first] = embedder.score_relevance(pairs)
                labels = np.array([one.record.id in about for one in pool], float)
                questions.append(Question(near, labels, known, scores))
    return questions


def fit_odds(questions: Sequence[Question], *, is_known: bool) -> tuple[Array, Array]:
    """Return the weights for memories that were read and for those that were not."""
    rows = [np.column_stack([one.scores, one.near, one.labels])[one.is_known == is_known] for one in questions]
    scores, near, labels = np.concatenate(rows).T
    was_read = ~np.isnan(scores)
    read = fit_logistic(np.column_stack([scores, near])[was_read], labels[was_read])
    return read, fit_logistic(near[~was_read, None], labels[~was_read])


def print_gate(questions: Sequence[Question], odds: Mapping[bool, tuple[Array, Array]]) -> None:
    """Print how often something that matters is shown, and how much on a silent question, by threshold."""
    for threshold in (0.02, 0.025, 0.03, 0.035, 0.04, 0.05, 0.06, 0.08, 0.1, 0.2, 0.3, 0.5):
        shown, silent = [], []
        for one in questions:
            chances = np.zeros(len(one.near))
            for is_known, (read, unread) in odds.items():
                mine = one.is_known == is_known
                was_read = mine & ~np.isnan(one.scores)
                chances[mine] = judge(unread, one.near[mine])
                chances[was_read] = judge(read, one.scores[was_read], one.near[was_read])
            passing = chances >= threshold
            if one.labels.any():
                shown.append(bool((passing & (one.labels > 0)).any()))
            else:
                silent.append(passing.sum())
        print(f"relevance {threshold:5.3f}  shown {np.mean(shown):.3f}  on silent {np.mean(silent):.2f}")


def fit_alike(worlds: Sequence[dict[str, Any]], embedder: LocalEmbedder) -> Array:
    """Return the weights of cosine and odds, from memories of one kind and user that are near each other."""
    rows = []
    for world in map(read_world, worlds):
        vectors = np.array([np.frombuffer(vector, np.int8) for vector in embedder.embed(world.memories)], float)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        places = [(pair, 1.0) for pair in world.updates] + [(pair, 0.0) for pair in world.neighbours]
        places = [(pair, label) for pair, label in places if vectors[pair[0]] @ vectors[pair[1]] >= WORTH_READING]
        scores = embedder.read_pairs([(world.memories[old], world.memories[new]) for (old, new), _ in places])
        for ((old, new), label), score in zip(places, scores, strict=True):
            rows.append((vectors[old] @ vectors[new], score.fact.topic_log_odds, label))
    features = np.array(rows)
    return fit_logistic(features[:, :2], features[:, 2])


def choose_threshold(scores: Array, truth: Array, precision: float) -> float:
    """Return the lowest score from which on this share is true, and print what it finds."""
    order = np.argsort(-scores)
    right = np.cumsum(truth[order])
    precise = np.flatnonzero(right / np.arange(1, len(order) + 1) >= precision)
    at = int(precise[-1]) if len(precise) else 0
    print(f"  at {scores[order[at]]:.3f}: {right[at]} of {truth.sum()} found, precision {right[at] / (at + 1):.3f}")
    return float(scores[order[at]])


def read_both_ways(embedder: LocalEmbedder, pairs: Sequence[Labelled]) -> Array:
    """Return the mean probabilities of pairs of strategies, read in both orders."""
    ways = [[(one.first, one.second) for one in pairs], [(one.second, one.first) for one in pairs]]
    mean: Array = np.mean([[score.action for score in embedder.read_pairs(way)] for way in ways], axis=0)
    return mean


def list_pools(worlds: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each question with the texts of its candidates, how near they are, and whether they matter."""
    pools = []
    for world in worlds:
        with tempfile.TemporaryDirectory() as folder:
            for text, pool, about in ask_world(world, folder):
                row = {"lang": world["lang"], "q": text, "texts": [one.text or one.record.text for one in pool]}
                row["near"] = [measure_nearness(one) for one in pool]
                row["known"] = [one.is_known for one in pool]
                row["labels"] = [one.record.id in about for one in pool]
                pools.append(row)
    return pools


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", type=Path, help="write the candidates of the held-out questions to this file")
    args = parser.parse_args()
    embedder = LocalEmbedder()
    rows = [json.loads(line) for line in (FOLDER / "worlds.jsonl").read_text(encoding="utf-8").splitlines()]
    worlds = [row for row in rows if row["author"] in HELD_OUT]
    if args.pools:
        args.pools.write_text(json.dumps(list_pools(worlds)))
        return
    english = [row for row in worlds if row["lang"] == "en"]
    questions = read_questions(worlds, embedder)
    odds = {is_known: fit_odds(questions, is_known=is_known) for is_known in (True, False)}
    print(f"{len(english)} worlds in English")
    print_gate(read_questions(english, embedder), odds)
    print("all worlds")
    print_gate(questions, odds)
    examples = read_examples(is_held_out=True)
    pairs = [pair for family in examples.families if family["matched"] for pair in list_action_pairs(family)]
    actions = read_both_ways(embedder, pairs)
    labels = np.array([pair.label for pair in pairs])
    hard = np.sort(actions[(labels == 1) | (labels == 2), 0])
    same = float(hard[int((1 - _MERGED) * len(hard))])
    print(f"same: at {same:.3f}, {(actions[labels == 0, 0] > same).mean():.3f} of equal strategies found")
    print("opposite:")
    thresholds = {"same": same, "opposite": choose_threshold(actions[:, 1], labels == 1, 0.95)}
    facts = list_fact_pairs([row for row in examples.conflicts if row["matched"]])
    chances = np.array([score.fact for score in embedder.read_pairs([(pair.first, pair.second) for pair in facts])])
    labels = np.array([pair.label for pair in facts])
    for at, name in enumerate(("agrees", "replaces")):
        print(f"{name}:")
        thresholds[name] = choose_threshold(chances[:, at], labels == at, _PRECISION[name])
    for is_known, (read, unread) in odds.items():
        print(f"{'known' if is_known else 'unknown'}: read {read.round(3)}, unread {unread.round(3)}")
    print(f"alike {fit_alike(english, embedder).round(3)}")
    print({name: round(value, 4) for name, value in thresholds.items()})


if __name__ == "__main__":
    main()
