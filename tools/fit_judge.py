"""Fit the similarity judge's regression and write its weights.

    python tools/fit_judge.py --pairs tools/judge_pairs.jsonl [MORE.jsonl ...] [--check UNSEEN.jsonl] [--write]

A pair is {"a", "b", "label", "family", "kind"} and, optionally, "cosine"; missing cosines are computed with the local
embedder. Figures are cross-validated: pairs of one family are never on both sides. `--check` pairs are predicted by a
model that has seen only the `--pairs`; with `--write` the shipped weights are fitted on both.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from alma.engine.distil import similar
from alma.engine.distil._parse import parse

LABELS = [str(c) for c in similar.CLASSES]
WEIGHTS_FILE = Path(similar.__file__).with_name("_similar_weights.py")
PENALTY = 8.0
CROSS_WEIGHT = 0.6  # pairs of two paraphrases are rarer in life than in the training file
MOST_WRONG = 0.04
FOLDS = 10

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(slots=True)
class Table:
    rows: list[dict[str, Any]]
    names: list[str]
    values: Array
    labels: Array
    weights: Array
    families: Array
    open: Array  # neither law decides: the model's share
    pairs: list[similar.Comparison]

    def take(self, index: Array) -> Table:
        return Table(
            [self.rows[i] for i in index], self.names, self.values[index], self.labels[index], self.weights[index],
            self.families[index], self.open[index], [self.pairs[i] for i in index],
        )  # fmt: skip


def read(path: Path) -> list[dict[str, Any]]:
    raw = path.read_bytes()
    print(f"{path.name}: sha256 {hashlib.sha256(raw).hexdigest()}")
    rows = [json.loads(line) for line in raw.decode().splitlines() if line.strip()]
    return [{**row, "family": f"{path.name}:{row['family']}"} for row in rows]


def add_cosines(rows: list[dict[str, Any]], force: bool) -> None:
    missing = [r for r in rows if force or "cosine" not in r]
    if not missing:
        return
    from alma.embedders.local import LocalEmbedder
    from alma.types.vector import cosine

    texts = sorted({t for r in missing for t in (r["a"], r["b"])})
    vectors = dict(zip(texts, LocalEmbedder().embed(texts), strict=True))
    for row in missing:
        row["cosine"] = round(float(cosine(vectors[row["a"]], vectors[row["b"]])), 3)


def table(rows: list[dict[str, Any]], *, with_cosine: bool) -> Table:
    pairs, dicts = [], []
    for row in rows:
        first, second = sorted((parse(row["a"]), parse(row["b"])), key=lambda p: p.key)
        pair = similar.compare(first, second)
        pairs.append(pair)
        dicts.append(similar.with_cosine(pair.features, row["cosine"] if with_cosine else None))
    names = list(dicts[0])
    return Table(
        rows,
        names,
        np.array([[d[n] for n in names] for d in dicts]),
        np.array([LABELS.index(r["label"]) for r in rows]),
        np.array([CROSS_WEIGHT if r.get("kind") == "cross" else 1.0 for r in rows]),
        np.array([r["family"] for r in rows]),
        np.array([not p.reversals and not p.alike for p in pairs]),
        pairs,
    )


# --- multinomial logistic regression, by Newton's method -----------------------------------------------------------


@dataclass(slots=True)
class Model:
    bias: Array
    weights: Array  # on raw features: the scaling is folded in

    def chances(self, values: Array) -> Array:
        return softmax(values @ self.weights + self.bias)


def softmax(sums: Array) -> Array:
    powers = np.exp(sums - sums.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def fit(data: Table) -> Model:
    data = data.take(np.flatnonzero(data.open))
    mean, scale = data.values.mean(axis=0), data.values.std(axis=0) + 1e-9
    scale = np.where(scale < 1e-6, 1.0, scale)
    x = np.hstack([(data.values - mean) / scale, np.ones((len(data.rows), 1))])
    y = np.eye(4)[data.labels]
    theta = np.zeros((x.shape[1], 4))
    ridge = np.full(x.shape[1], PENALTY)
    ridge[-1] = 1e-3
    for _ in range(30):
        p = softmax(x @ theta)
        gradient = x.T @ ((p - y) * data.weights[:, None]) + ridge[:, None] * theta
        step = np.linalg.solve(_hessian(x, p, data.weights, ridge), gradient.T.ravel())
        theta -= step.reshape(4, -1).T
        if float(np.abs(step).max()) < 1e-6:
            break
    weights = theta[:-1] / scale[:, None]
    return Model(theta[-1] - mean @ weights, weights)


def _hessian(x: Array, p: Array, weights: Array, ridge: Array) -> Array:
    size = x.shape[1]
    out = np.zeros((4 * size, 4 * size))
    for i in range(4):
        for j in range(4):
            curve = weights * p[:, i] * ((i == j) - p[:, j])
            out[i * size : (i + 1) * size, j * size : (j + 1) * size] = (x * curve[:, None]).T @ x
    return out + np.diag(np.tile(ridge, 4))


Result = tuple[Table, Model, float]


# --- figures ----------------------------------------------------------------------------------------------------


def folds(families: Array) -> list[Array]:
    """Families dealt out by a hash of their name, so that the order of the file does not matter."""
    numbers = np.array([int(hashlib.sha256(str(f).encode()).hexdigest(), 16) % FOLDS for f in families])
    return [np.flatnonzero(numbers == k) for k in range(FOLDS) if (numbers == k).any()]


def out_of_fold(data: Table, extra: Table | None) -> Array:
    chances = np.zeros((len(data.rows), 4))
    for test in folds(data.families):
        train = data.take(np.setdiff1d(np.arange(len(data.rows)), test))
        chances[test] = fit(joined(train, extra)).chances(data.values[test])
    return chances


def joined(a: Table, b: Table | None) -> Table:
    if b is None:
        return a
    stack = np.concatenate
    return Table(
        a.rows + b.rows, a.names, stack([a.values, b.values]), stack([a.labels, b.labels]),
        stack([a.weights, b.weights]), stack([a.families, b.families]), stack([a.open, b.open]), a.pairs + b.pairs,
    )  # fmt: skip


def merged(data: Table, chances: Array, threshold: float) -> Array:
    lawful = np.array([not p.reversals and not p.conflicts for p in data.pairs])
    alike = np.array([p.alike for p in data.pairs])
    return np.asarray((alike | (chances[:, 0] >= threshold)) & lawful)


def figures(data: Table, merge: Array) -> dict[str, Any]:
    same = data.labels == 0
    hit, wrong, missed = (merge & same).sum(), (merge & ~same).sum(), (~merge & same).sum()
    shares = {LABELS[k]: round(float(merge[data.labels == k].mean()), 3) for k in (1, 2, 3)}
    return {
        "n": len(same),
        "P": round(float(hit / max(1, hit + wrong)), 3),
        "R": round(float(hit / max(1, hit + missed)), 3),
        "F1": round(float(2 * hit / max(1, 2 * hit + wrong + missed)), 3),
        "wrong": round(float(wrong / max(1, (~same).sum())), 3),
        **shares,
    }


def choose_threshold(data: Table, chances: Array) -> float:
    plain = np.flatnonzero(data.weights == 1.0)
    part, own = data.take(plain), chances[plain]
    for threshold in np.arange(0.40, 0.96, 0.01):
        if figures(part, merged(part, own, float(threshold)))["wrong"] <= MOST_WRONG:
            return round(float(threshold), 2)
    return 0.95


def accuracy(data: Table, chances: Array, threshold: float) -> float:
    merge = merged(data, chances, threshold)
    best = 1 + chances[:, 1:].argmax(axis=1)
    turned = np.array([bool(p.reversals) for p in data.pairs])
    guess = np.where(merge, 0, np.where(turned, 1, best))
    return round(float((guess == data.labels).mean()), 3)


def evaluate(own: list[dict[str, Any]], check: list[dict[str, Any]], *, with_cosine: bool) -> Result:
    """The threshold keeps wrong merges low in both cross-validations, so the check figures have a hand in it."""
    data = table(own, with_cosine=with_cosine)
    chances = out_of_fold(data, None)
    threshold = choose_threshold(data, chances)
    if not check:
        report(with_cosine, threshold, {"own pairs, family-CV": (data, chances)})
        return data, fit(data), threshold
    unseen = table(check, with_cosine=with_cosine)
    known = out_of_fold(unseen, data)
    threshold = max(threshold, choose_threshold(unseen, known))
    views = {
        "own pairs, family-CV": (data, chances),
        "check pairs, own model": (unseen, fit(data).chances(unseen.values)),
        "check pairs, family-CV": (unseen, known),
    }
    report(with_cosine, threshold, views)
    both = joined(data, unseen)
    return both, fit(both), threshold


def report(with_cosine: bool, threshold: float, views: dict[str, tuple[Table, Array]]) -> None:
    print(f"\n[{'cosine' if with_cosine else 'words only'}] threshold {threshold}")
    for title, (data, chances) in views.items():
        plain = np.flatnonzero(data.weights == 1.0)
        part = data.take(plain)
        shown = figures(part, merged(part, chances[plain], threshold))
        print(f"  {title:24}", shown, "accuracy", accuracy(part, chances[plain], threshold))
        if len(plain) < len(data.rows):
            print(f"  {'  with crosses':24}", figures(data, merged(data, chances, threshold)))


# --- output -----------------------------------------------------------------------------------------------------


def literal(name: str, names: list[str], model: Model) -> str:
    lines = [f"{name}: dict[str, tuple[float, float, float, float]] = {{"]
    for key, row in [("bias", model.bias), *zip(names, model.weights, strict=True)]:
        lines.append(f'    "{key}": ({", ".join(f"{v:.4f}" for v in row)}),')
    return "\n".join([*lines, "}"])


def write(results: list[Result]) -> None:
    (data, model, threshold), (words, words_model, words_threshold) = results
    text = f'''"""Weights of the similarity judge, written by `tools/fit_judge.py`. Do not edit.

Columns: same, opposite, variant, different.
"""

THRESHOLD = {threshold}
THRESHOLD_WORDS = {words_threshold}
{literal("WEIGHTS", data.names, model)}
{literal("WEIGHTS_WORDS", words.names, words_model)}
'''
    WEIGHTS_FILE.write_text(text)
    print(f"wrote {WEIGHTS_FILE.name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, nargs="+", required=True)
    parser.add_argument("--check", type=Path, nargs="*", default=[])
    parser.add_argument("--recompute", action="store_true", help="cosines from the local embedder, stored ones ignored")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    own = [row for path in options.pairs for row in read(path)]
    check = [row for path in options.check for row in read(path)]
    add_cosines(own + check, options.recompute)
    results = [evaluate(own, check, with_cosine=flag) for flag in (True, False)]
    if options.write:
        write(results)


if __name__ == "__main__":
    main()
