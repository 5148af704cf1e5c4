"""Fit the corrections detector's regressions and write its weights.

    python -m tools.fit_corrections --turns tools/corrections_turns.jsonl --data corrections.jsonl [--write]

`--turns` are our own examples, {"user", "before", "label", "scope"}; `--data` is a labelled file of real turns with
"prev_assistant" and "source". Figures are on the real turns, cross-validated twice: by row, and by repository, so that
nothing of a repository is on both sides. Rows marked uncertain or mixed count half in fitting and not in the figures.
The thresholds hold in both. Only weights of general traits are written.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from alma.engine.distil.corrections import _features, reading

WEIGHTS_FILE = Path(_features.__file__).with_name("_weights.py")
OWN = 0.4  # our own turns are plainer than life
OWN_REACH = 1.0  # how far a rule goes is rarely said in the real ones, and their labels differ
UNSURE = 0.5
PENALTY, PENALTY_LABEL, PENALTY_REACH = 1.0, 2.0, 2.0
FOLDS = 10
STEPS = 15
ACTIVE_PRECISION, CANDIDATE_RECALL, CANDIDATE_PRECISION = 0.87, 0.76, 0.60

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Table:
    rows: list[dict[str, Any]]
    names: list[str]
    values: Array
    weights: Array
    families: Array
    real: Array
    counted: Array


def read(path: Path) -> list[dict[str, Any]]:
    raw = path.read_bytes()
    print(f"{path.name}: sha256 {hashlib.sha256(raw).hexdigest()}")
    return [json.loads(line) for line in raw.decode().splitlines() if line.strip()]


def table(own: list[dict[str, Any]], real: list[dict[str, Any]], own_weight: float, far: bool) -> Table:
    rows = [*own, *real]
    found = [_described(row, far) for row in rows]
    names = sorted({name for one in found for name in one})
    unsure = np.array([bool(row.get("uncertain") or row.get("mixed")) for row in rows])
    is_real = np.arange(len(rows)) >= len(own)
    return Table(
        rows,
        names,
        np.array([[one.get(name, 0.0) for name in names] for one in found]),
        np.where(is_real, np.where(unsure, UNSURE, 1.0), own_weight),
        np.array([str(row.get("source", "ours")) for row in rows]),
        is_real,
        is_real & ~unsure,
    )


def _described(row: Mapping[str, Any], far: bool) -> dict[str, float]:
    heard = _features.turn(row["user"], row.get("before") or row.get("prev_assistant") or "")
    found = _features.features(heard)
    return _features.reach_features(heard, found) if far else found


# --- multinomial logistic regression, by Newton's method ------------------------------------------------------------


@dataclass(slots=True)
class Model:
    bias: Array
    weights: Array

    def chances(self, values: Array) -> Array:
        return softmax(values @ self.weights + self.bias)


def softmax(sums: Array) -> Array:
    powers = np.exp(sums - sums.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def fit(values: Array, labels: Array, weights: Array, classes: int, penalty: float) -> Model:
    x = np.hstack([values, np.ones((len(values), 1))])
    y = np.eye(classes)[labels]
    theta = np.zeros((x.shape[1], classes))
    ridge = np.full(x.shape[1], float(penalty))
    ridge[-1] = 0.1
    for _ in range(STEPS):
        p = softmax(x @ theta)
        gradient = x.T @ ((p - y) * weights[:, None]) + ridge[:, None] * theta
        step = np.linalg.solve(_hessian(x, p, weights, ridge), gradient.T.ravel())
        theta -= step.reshape(classes, -1).T
        if float(np.abs(step).max()) < 1e-5:
            break
    return Model(theta[-1], theta[:-1])


def _hessian(x: Array, p: Array, weights: Array, ridge: Array) -> Array:
    size, classes = x.shape[1], p.shape[1]
    out = np.zeros((classes * size, classes * size))
    for i in range(classes):
        for j in range(i, classes):
            curve = weights * p[:, i] * ((i == j) - p[:, j])
            block = (x * curve[:, None]).T @ x
            out[i * size : (i + 1) * size, j * size : (j + 1) * size] = block
            out[j * size : (j + 1) * size, i * size : (i + 1) * size] = block
    return out + np.diag(np.tile(ridge, classes))


# --- cross-validation -----------------------------------------------------------------------------------------------


def _digest(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest(), 16)


def folds(data: Table, by_repository: bool) -> list[Array]:
    """Rows dealt out by a hash of their repository or of what was said. Our own turns are always learned from."""
    dealt = data.families.tolist() if by_repository else [row["user"] for row in data.rows]
    keys = np.array([_digest(name) % FOLDS for name in dealt])
    return [data.real & (keys == key) for key in sorted(set(keys[data.real].tolist()))]


def out_of_fold(data: Table, labels: Array, classes: int, penalty: float, by_repository: bool) -> Array:
    chances = np.zeros((len(data.rows), classes))
    for test in folds(data, by_repository):
        model = fit(data.values[~test], labels[~test], data.weights[~test], classes, penalty)
        chances[test] = model.chances(data.values[test])
    return chances


# --- figures --------------------------------------------------------------------------------------------------------


def prf(taken: Array, wanted: Array) -> dict[str, float]:
    hit, all_taken, all_wanted = int((taken & wanted).sum()), int(taken.sum()), int(wanted.sum())
    return {
        "P": round(hit / max(1, all_taken), 3),
        "R": round(hit / max(1, all_wanted), 3),
        "F1": round(2 * hit / max(1, all_taken + all_wanted), 3),
    }


GRID = tuple(round(0.1 + 0.01 * step, 2) for step in range(88))


def thresholds(views: Sequence[Array], wanted: Array) -> tuple[float, float]:
    """The upper one: the lowest that is precise enough. The lower one: the best F1 among those that recall enough.

    Both must hold in every cross-validation.
    """
    found = {t: [prf(chance >= t, wanted) for chance in views] for t in GRID}
    worst = {t: {key: min(one[key] for one in found[t]) for key in ("P", "R", "F1")} for t in GRID}
    precise = [t for t in GRID if worst[t]["P"] >= ACTIVE_PRECISION]
    recalling = [t for t in GRID if worst[t]["R"] >= CANDIDATE_RECALL and worst[t]["P"] >= CANDIDATE_PRECISION]
    if not precise or not recalling:
        raise SystemExit("no threshold is precise enough, or none recalls enough")
    return precise[0], max(recalling, key=lambda t: (worst[t]["F1"], t))


def is_rule(rows: Sequence[Mapping[str, Any]]) -> Array:
    return np.array([row["label"] in reading.RULES for row in rows])


def report(title: str, chance: Array, data: Table, active: float, candidate: float) -> None:
    wanted, part = is_rule(data.rows)[data.counted], chance[data.counted]
    best = max((prf(part >= t, wanted)["F1"], t) for t in GRID)
    print(
        f"  {title:14} active {prf(part >= active, wanted)}  candidate {prf(part >= candidate, wanted)}  best F1 {best}"
    )


def evaluate_rule(own: list[dict[str, Any]], real: list[dict[str, Any]]) -> tuple[Table, Model, float, float]:
    data = table(own, real, OWN, far=False)
    labels = is_rule(data.rows).astype(int)
    by_row, by_repository = (out_of_fold(data, labels, 2, 2 * PENALTY, flag)[:, 1] for flag in (False, True))
    views = [by_row[data.counted], by_repository[data.counted]]
    active, candidate = thresholds(views, labels[data.counted].astype(bool))
    print(f"\nrule or not: thresholds active {active}, candidate {candidate}")
    report("by row", by_row, data, active, candidate)
    report("by repository", by_repository, data, active, candidate)
    return data, fit(data.values, labels, data.weights, 2, 2 * PENALTY), active, candidate


def evaluate_label(data: Table) -> Model:
    labels = np.array([reading.LABELS.index(row["label"]) for row in data.rows])
    _accuracy("kind of turn", data, labels, len(reading.LABELS), PENALTY_LABEL, lambda label: label)
    return fit(data.values, labels, data.weights, len(reading.LABELS), PENALTY_LABEL)


def evaluate_reach(own: list[dict[str, Any]], real: list[dict[str, Any]]) -> tuple[Table, Model]:
    ours, theirs = ([row for row in rows if row["label"] in reading.RULES] for rows in (own, real))
    data = table(ours, theirs, OWN_REACH, far=True)
    labels = np.array([[str(one) for one in reading.REACHES].index(row["scope"]) for row in data.rows])
    _accuracy("reach", data, labels, 4, PENALTY_REACH, lambda label: label)
    _accuracy("once or lasting", data, labels, 4, PENALTY_REACH, lambda label: label >= 2)
    return data, fit(data.values, labels, data.weights, 4, PENALTY_REACH)


def _accuracy(
    title: str, data: Table, labels: Array, classes: int, penalty: float, view: Callable[[Array], Array]
) -> None:
    shares = []
    for flag in (False, True):
        guess = out_of_fold(data, labels, classes, penalty, flag).argmax(axis=1)
        shares.append(round(float((view(guess) == view(labels))[data.counted].mean()), 3))
    print(f"{title}: accuracy by row {shares[0]}, by repository {shares[1]}")


# --- output ---------------------------------------------------------------------------------------------------------


def literal(name: str, names: Sequence[str], bias: Array, weights: Array) -> str:
    lines = [f"{name}: dict[str, tuple[float, ...]] = {{"]
    for key, row in [("bias", bias), *zip(names, weights, strict=True)]:
        lines.append(f'    "{key}": ({", ".join(f"{value:.3f}" for value in row)}),')
    return "\n".join([*lines, "}"])


def write(own: list[dict[str, Any]], real: list[dict[str, Any]], path: Path | None) -> None:
    data, rule, active, candidate = evaluate_rule(own, real)
    label, (far, reach) = evaluate_label(data), evaluate_reach(own, real)
    turn_bias = np.concatenate([rule.bias[1:] - rule.bias[:1], label.bias])
    turn = np.hstack([rule.weights[:, 1:] - rule.weights[:, :1], label.weights])
    text = f'''"""Weights of the corrections detector, written by `tools/fit_corrections.py`. Do not edit."""

ACTIVE = {active}
CANDIDATE = {candidate}
# How much a trait speaks for a rule, and for each of: {", ".join(reading.LABELS)}.
{literal("TURN", data.names, turn_bias, turn)}
# Columns: {", ".join(reading.REACHES)}.
{literal("REACH", far.names, reach.bias, reach.weights)}
'''
    if path:
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.name}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    own, real = read(options.turns), read(options.data)
    write(own, real, WEIGHTS_FILE if options.write else None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
