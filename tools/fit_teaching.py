"""Fit the weights of `alma.reading.teaching`, and report how well it finds the turns that teach something.

    python -m tools.fit_teaching [--write]

The weights are fitted on `tests/reading/teaching/train.jsonl` and, with the labels that they already have, on the turns
of `tests/reading/written` and `tests/reading/data`. Every turn counts twice, with and without the agent's answer, which
is not known yet when a turn is stored first. The figures for these turns are cross-validated by session. The figures
for `held_out.jsonl`, by another author, are those of the weights that are printed last; `--write` stores them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alma.engine.exchanges import find_own_words
from alma.hooks.evidence import LEAST_LIKELY
from alma.reading import teaching

TESTS = Path(__file__).parent.parent / "tests" / "reading"
TRAIN = TESTS / "teaching" / "train.jsonl"
HELD_OUT = TESTS / "teaching" / "held_out.jsonl"
WRITTEN = TESTS / "written" / "turns.jsonl"
SINGLE = (TESTS / "data" / "explicit_turns.jsonl", TESTS / "data" / "plain_corrections.jsonl")
WEIGHTS = Path(teaching.__file__).with_name(teaching.FILE)
LASTING, ONCE, NO = "lasting", "once", "no"
WORTH = {LASTING: 1.0, ONCE: 0.4, NO: 0.0}
"""What a turn counts as in the fit. One that matters for its own task only may be shown, and is not the aim."""
SINGLE_WEIGHT = 0.3
"""How much a turn without a session counts: half of those teach something, and they are more explicit than usual."""
PENALTY = 2.0
EXPECTED = {"agrees to a general question": 4.0}
"""The weights that the penalty draws towards, where the data have too few turns to fit them; 0 for all others."""
FOLDS = 10
SHARES = (0.25, 0.4)
_NORMS = ("must", "not")
_POSITION = ("first", "second", "late", "words", "at most 3 words", "8 to 40 words")
Floats = NDArray[np.float64]
Fit = Callable[[Sequence["Turn"]], Callable[["Turn"], float]]


@dataclass(frozen=True)
class Turn:
    """A labelled turn of a person."""

    session: str
    language: str
    number: int
    text: str
    before: str
    then: str
    label: str
    weight: float = 1.0


@cache
def measure(turn: Turn, *, with_answer: bool = True) -> dict[str, float]:
    """Return the properties of a turn; empty if nothing is left of it without what was pasted."""
    then = turn.then if with_answer else ""
    return teaching.measure_turn(find_own_words(turn.text), number=turn.number, before=turn.before, then=then)


# -- data


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def read_sessions(path: Path) -> list[Turn]:
    """Return the turns of labelled sessions, one session a line."""
    turns = []
    for session in read_rows(path):
        before = ""
        for number, row in enumerate(session["turns"]):
            label, then = row["teaches"], row["assistant"]
            turns.append(Turn(session["id"], session["lang"], number, row["person"], before, then, label))
            before = then
    return turns


def read_written() -> list[Turn]:
    """Return the written turns. A turn without anything before it begins a session."""
    rows = read_rows(WRITTEN)
    turns: list[Turn] = []
    for row, following in zip(rows, [*rows[1:], {"prev": ""}], strict=True):
        begins = not row["prev"] or not turns
        number = 0 if begins else turns[-1].number + 1
        session = f"written {len(turns)}" if begins else turns[-1].session
        label = LASTING if row["scope"] in ("project", "always") else ONCE if row["scope"] else NO
        turns.append(Turn(session, row["lang"], number, row["user"], row["prev"], following["prev"], label))
    return turns


def read_single() -> Iterator[Turn]:
    """Yield single turns with what the agent had said before; what it answered is not known."""
    for path in SINGLE:
        for row in read_rows(path):
            label = LASTING if row.get("lasting", True) else NO
            yield Turn("", row.get("language", "en"), 2, row["turn"], row["before"], "", label, SINGLE_WEIGHT)


# -- the model and the baselines


def fit_weights(rows: Sequence[dict[str, float]], worths: Floats, counts: Floats) -> dict[str, float]:
    """Return the weights of a logistic regression with a squared penalty, by Newton's method."""
    names = sorted({name for row in rows for name in row})
    table = np.array([[*(row.get(name, 0.0) for name in names), 1.0] for row in rows])
    penalty = np.diag([*(PENALTY for _ in names), 1e-6])
    expected = np.array([*(EXPECTED.get(name, 0.0) for name in names), 0.0])
    weights = np.zeros(len(names) + 1)
    for _ in range(50):
        likely = 1 / (1 + np.exp(-table @ weights))
        gradient = table.T @ (counts * (likely - worths)) + penalty @ (weights - expected)
        curvature = (table * (counts * likely * (1 - likely))[:, None]).T @ table + penalty
        step = np.linalg.solve(curvature, gradient)
        weights -= step
        if np.abs(step).max() < 1e-9:
            break
    return {name: round(float(weight), 3) for name, weight in zip([*names, "bias"], weights, strict=True)}


def rate(weights: dict[str, float], measures: dict[str, float]) -> float:
    """Return the probability that weights give to a turn, and 0 without any property."""
    if not measures:
        return 0.0
    total = weights["bias"] + sum(weights.get(name, 0.0) * value for name, value in measures.items())
    return float(1 / (1 + np.exp(-total)))


def train(turns: Sequence[Turn]) -> dict[str, float]:
    """Return the weights fitted on turns: each counts half with and half without the agent's answer."""
    rows = [measure(turn, with_answer=with_answer) for with_answer in (True, False) for turn in turns]
    worths = np.array([WORTH[turn.label] for turn in turns] * 2)
    counts = np.array([turn.weight / 2 for turn in turns] * 2)
    counts[[not row for row in rows]] = 0.0
    return fit_weights(rows, worths, counts)


def fit_model(turns: Sequence[Turn]) -> Callable[[Turn], float]:
    """Return the model fitted on turns."""
    weights = train(turns)
    return lambda turn: rate(weights, measure(turn))


def fit_without_answer(turns: Sequence[Turn]) -> Callable[[Turn], float]:
    """Return the model fitted on turns, asked before the agent has answered."""
    weights = train(turns)
    return lambda turn: rate(weights, measure(turn, with_answer=False))


def fit_position(turns: Sequence[Turn]) -> Callable[[Turn], float]:
    """Return a baseline fitted on turns that knows only the place in the session and the length."""

    def measure_position(turn: Turn) -> dict[str, float]:
        return {name: value for name, value in measure(turn).items() if name in _POSITION}

    worths = np.array([WORTH[turn.label] for turn in turns])
    weights = fit_weights([measure_position(turn) for turn in turns], worths, np.array([turn.weight for turn in turns]))
    return lambda turn: rate(weights, measure_position(turn))


def fit_words(turns: Sequence[Turn]) -> Callable[[Turn], float]:
    """Return a baseline that nothing is fitted for: not the first turn, a normative or negating word, not too long."""

    def rate_words(turn: Turn) -> float:
        has_norm = any(clause.groups.intersection(_NORMS) for clause in teaching.iterate_clauses(turn.text))
        return 0.35 * (turn.number > 0) + 0.25 * has_norm + 0.2 * (25 <= len(turn.text) <= 420)

    return rate_words


MODELS: dict[str, Fit] = {
    "the model": fit_model,
    "before the agent answered": fit_without_answer,
    "position and length": fit_position,
    "not first, a norm, length": fit_words,
}


def cross_validate(turns: Sequence[Turn], always: Sequence[Turn], fit: Fit) -> list[float]:
    """Return a score of each turn by a model that saw neither it nor its session."""
    sessions = sorted({turn.session for turn in turns})
    folds = {session: index % FOLDS for index, session in enumerate(sessions)}
    scores = [0.0] * len(turns)
    for fold in range(FOLDS):
        score = fit([*(turn for turn in turns if folds[turn.session] != fold), *always])
        for index, turn in enumerate(turns):
            if folds[turn.session] == fold:
                scores[index] = score(turn)
    return scores


# -- figures


def measure_auc(scored: Sequence[tuple[str, float]], *, against: Sequence[str]) -> float:
    """Return how often a lasting turn has a higher score than one with another label; a tie counts half."""
    right = np.array([score for label, score in scored if label == LASTING])[:, None]
    wrong = np.array([score for label, score in scored if label in against])[None, :]
    return float(((right > wrong) + 0.5 * (right == wrong)).mean()) if right.size and wrong.size else float("nan")


def measure_recall(scored: Sequence[tuple[str, float]], share: float) -> float:
    """Return which share of the lasting turns is among the highest scores."""
    ranked = sorted(scored, key=lambda pair: -pair[1])[: round(share * len(scored))]
    lasting = sum(label == LASTING for label, _ in scored)
    return sum(label == LASTING for label, _ in ranked) / max(1, lasting)


def print_figures(title: str, turns: Sequence[Turn], scores: Sequence[float]) -> None:
    """Print the figures of some scores: for all turns, the English ones, the others, and those after the second."""
    languages: dict[str, Callable[[Turn], bool]] = {
        "all": lambda turn: True,
        "en": lambda turn: turn.language == "en",
        "other": lambda turn: turn.language != "en",
        "later": lambda turn: turn.number > 1,
    }
    for name, is_chosen in languages.items():
        scored = [(turn.label, score) for turn, score in zip(turns, scores, strict=True) if is_chosen(turn)]
        lasting = sum(label == LASTING for label, _ in scored)
        recalls = "  ".join(f"top {share:.0%} {measure_recall(scored, share):.2f}" for share in SHARES)
        print(
            f"  {title:26} {name:6} {lasting:3} of {len(scored):3}"
            f"  AUC {measure_auc(scored, against=[NO]):.3f} / {measure_auc(scored, against=[NO, ONCE]):.3f}  {recalls}"
        )


def print_calibration(turns: Sequence[Turn], scores: Sequence[float]) -> None:
    """Print what was predicted and what was right, in five bins."""
    bins: list[list[tuple[float, str]]] = [[] for _ in range(5)]
    for turn, score in zip(turns, scores, strict=True):
        bins[min(4, int(score * 5))].append((score, turn.label))
    for members in filter(None, bins):
        predicted = sum(score for score, _ in members) / len(members)
        worth = sum(WORTH[label] for _, label in members) / len(members)
        print(f"  predicted {predicted:.2f}, right {worth:.2f} ({len(members)} turns)")


def print_kept(turns: Sequence[Turn], scores: Sequence[float]) -> None:
    """Print what is kept of the turns of each kind, if those that are not worth showing are left out."""
    kept = []
    for label in (LASTING, ONCE, NO):
        labelled = [score for turn, score in zip(turns, scores, strict=True) if turn.label == label]
        kept.append(f"{sum(score >= LEAST_LIKELY for score in labelled)} of {len(labelled)} {label}")
    print(f"  at least {LEAST_LIKELY}: {', '.join(kept)}")


def print_hashes() -> None:
    """Print which data the figures are for."""
    for path in (TRAIN, HELD_OUT, WRITTEN, *SINGLE):
        print(f"{path.relative_to(TESTS)}: sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"store the weights in {WEIGHTS.name}")
    options = parser.parse_args()
    print_hashes()
    sessions, written, single = read_sessions(TRAIN), read_written(), list(read_single())
    held_out = read_sessions(HELD_OUT)
    both = [*sessions, *written]
    print(
        "\nlasting turns of all; AUC of lasting against no / against no and once; recall of lasting among the highest"
    )
    for title, fit in MODELS.items():
        scores = cross_validate(both, single, fit)
        print_figures(title, sessions, scores[: len(sessions)])
        print_figures("  on written turns", written, scores[len(sessions) :])
        if fit is fit_model:
            print_calibration(both, scores)
            print_kept(both, scores)
    print("\nheld out")
    for title, fit in MODELS.items():
        score = fit([*both, *single])
        scores = [score(turn) for turn in held_out]
        print_figures(title, held_out, scores)
        if fit is fit_model:
            print_calibration(held_out, scores)
            print_kept(held_out, scores)
    weights = train([*both, *single])
    print(f"\n{json.dumps(weights, indent=1)}")
    if options.write:
        stored = json.loads(WEIGHTS.read_text(encoding="utf-8")) | {"weights": weights}
        WEIGHTS.write_text(json.dumps(stored, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
