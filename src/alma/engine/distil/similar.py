"""Are two strategies the same? Outcomes are counted together only when this module says so.

Sentence vectors cannot tell: "Use sleep(5)" and "Don't use sleep(5)" have cosine 0.976, a paraphrase often 0.6. So
laws come first, in code: another number, flag or quoted name is never the same strategy; a turned negation, order,
preference or particle is the opposite one; nothing but the same content words is the same. What the laws leave open
is weighed by a small regression over word alignment and cosine (`tools/fit_judge.py`). A wrong merge is worse than a
missed one, so its threshold is set for few of those.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from alma.engine.distil import _align, _similar_weights, _surface
from alma.engine.distil._align import Alignment, Stance
from alma.engine.distil._parse import Parsed, parse
from alma.engine.distil._quantities import Quantity


class Verdict(StrEnum):
    SAME = "same"
    OPPOSITE = "opposite"
    VARIANT = "variant"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Judgement:
    verdict: Verdict
    score: float  # probability of same, 0..1
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything about a pair that does not need the cosine."""

    features: dict[str, float]
    conflicts: tuple[str, ...]  # facts that differ
    reversals: tuple[str, ...]  # stances that are turned round
    alike: bool  # the same content words, said in the same sense


CLASSES = (Verdict.SAME, Verdict.OPPOSITE, Verdict.VARIANT, Verdict.DIFFERENT)
_TURNED = 0.9  # weight of the words whose polarity is turned: at least one full content word
_BARE_LENGTH = math.log(6)
_REST = 0.8  # weight of unanswered words: no full content word


def judge(a: str, b: str, cosine: float | None) -> Judgement:
    """Compare two strategies; `cosine` is that of their sentence vectors, None without an embedder."""
    if _surface.other_options(a, b):
        return Judgement(Verdict.VARIANT, 0.0, ("different option or symbol",))
    first, second = parse(a), parse(b)
    if first.key == second.key:
        return Judgement(Verdict.SAME, 1.0, ("the same text",))
    if _surface.turned(a, b):
        return Judgement(Verdict.OPPOSITE, 0.0, ("negated, or going the other way",))
    if _surface.foreign(a, b):
        return Judgement(Verdict.DIFFERENT, 0.0, ("not equal, in letters that cannot be judged",))
    if second.key < first.key:
        first, second = second, first
    if cosine is not None and not math.isfinite(cosine):
        cosine = None
    if first.long or second.long:
        return _documents(first, second, cosine)
    if not first.words or not second.words:
        return Judgement(Verdict.DIFFERENT, 0.0, ("no common words",))
    return _decide(compare(first, second), cosine)


@lru_cache(maxsize=4096)
def compare(a: Parsed, b: Parsed) -> Comparison:
    laid = _align.align(a, b)
    view = _align.stance(a, b, laid)
    features = _align.features(a, b, laid, view)
    conflicts = tuple(_conflicts(a, b))
    reversals = tuple(_reversals(laid, view))
    alike = not conflicts and not reversals and _alike(features)
    return Comparison(features, conflicts, reversals, alike)


# --- laws -------------------------------------------------------------------------------------------------------


def _conflicts(a: Parsed, b: Parsed) -> list[str]:
    found = []
    left, right = _align.unmatched_quantities(a, b)
    if any(not x.idle for x in left + right) or (left and right):
        found.append(f"different number: {_listed(left)} vs {_listed(right)}")
    strict = sorted(_align.missing_strict(a, b)), sorted(_align.missing_strict(b, a))
    if any(strict):
        found.append(f"different option or name: {_joined(strict[0])} vs {_joined(strict[1])}")
    names = sorted(_align.missing_literals(a, b)), sorted(_align.missing_literals(b, a))
    if all(names) or any(map(_align.is_version, names[0] + names[1])):
        found.append(f"different identifier: {_joined(names[0])} vs {_joined(names[1])}")
    return found


def _reversals(laid: Alignment, view: Stance) -> list[str]:
    found = []
    rest = max(laid.rest_left, laid.rest_right)
    # Removing verbs must agree: "mute it" against "do not send it" turns a negation but not the sense.
    if min(view.hard_flipped, view.soft_flipped) >= _TURNED and rest < _REST:
        antonyms = [f"{laid.left[m.left].lemma} vs {laid.right[m.right].lemma}" for m in laid.antonyms]
        found.append(f"opposite words: {', '.join(antonyms)}" if antonyms else "negation or preference reversed")
    if view.order_swapped and view.order_crossed > view.order_same:
        found.append("order reversed")
    if view.particles_crossed:
        found.append("on/off, in/out or up/down reversed")
    return found


_UNALIKE = (
    "flipped_any", "soft_flipped", "swapped", "antonyms", "rivals", "roles", "marks", "concessive", "ordered_one",
    "literals_lost", "idle_lost", "loose", "proper_both",
)  # fmt: skip


def _alike(features: dict[str, float]) -> bool:
    return features["nothing_left"] > 0 and features["crossed"] <= 0.5 and not any(features[name] for name in _UNALIKE)


def _documents(a: Parsed, b: Parsed, cosine: float | None) -> Judgement:
    """Texts too long to be a strategy: only the same words in the same order are the same."""
    left, right = set(a.key.split()), set(b.key.split())
    shared = len(left & right) / max(1, len(left | right))
    near = max(shared, cosine or 0.0) >= 0.8
    return Judgement(Verdict.VARIANT if near else Verdict.DIFFERENT, 0.0, ("long texts that are not equal",))


# --- model ------------------------------------------------------------------------------------------------------


def _decide(pair: Comparison, cosine: float | None) -> Judgement:
    chances = probabilities(pair.features, cosine)
    reasons = pair.reversals + pair.conflicts
    if pair.reversals:
        return Judgement(Verdict.OPPOSITE, min(chances[0], 0.1), reasons)
    if pair.alike:
        return Judgement(Verdict.SAME, max(chances[0], 0.95), ("the same content words",))
    threshold = _similar_weights.THRESHOLD_WORDS if cosine is None else _similar_weights.THRESHOLD
    if chances[0] >= threshold and not pair.conflicts and not _bare(pair.features):
        return Judgement(Verdict.SAME, chances[0], _explained(pair, cosine))
    best = max((1, 2, 3), key=lambda i: chances[i])
    score = min(chances[0], 0.2) if pair.conflicts else chances[0]
    return Judgement(CLASSES[best], score, reasons or _explained(pair, cosine))


def _bare(features: dict[str, float]) -> bool:
    """So few words that one without an answer is all there is: "Use --dry-run" against "Skip --dry-run"."""
    return features["cover_low"] < 0.2 and features["length"] < _BARE_LENGTH


def probabilities(features: dict[str, float], cosine: float | None) -> tuple[float, ...]:
    """Of same, opposite, variant, different."""
    weights = _similar_weights.WEIGHTS_WORDS if cosine is None else _similar_weights.WEIGHTS
    same, opposite, variant, different = weights["bias"]
    for name, value in with_cosine(features, cosine).items():
        if value:
            row = weights[name]
            same += value * row[0]
            opposite += value * row[1]
            variant += value * row[2]
            different += value * row[3]
    top = max(same, opposite, variant, different)
    powers = [math.exp(s - top) for s in (same, opposite, variant, different)]
    whole = sum(powers)
    return tuple(p / whole for p in powers)


def with_cosine(features: dict[str, float], cosine: float | None) -> dict[str, float]:
    """The features plus their products; the cosine means more the less the words overlap."""
    exact, cover = features["exact_low"], features["cover_low"]
    out = {**features, "exact2": exact * exact, "added_exact": features["added_only"] * features["exact_high"]}
    if cosine is not None:
        near = min(1.0, max(-1.0, cosine))
        out.update(
            cos=near,
            cos2=near * near,
            cos_exact=near * exact,
            cos_cover=near * cover,
            cos_high=max(0.0, near - 0.6),
            cos_low=max(0.0, 0.5 - near),
        )
    return out


# --- words for people -------------------------------------------------------------------------------------------


def _explained(pair: Comparison, cosine: float | None) -> tuple[str, ...]:
    found = [f"{round(100 * pair.features['cover_low'])} % of the words answered"]
    if cosine is not None:
        found.append(f"cosine {cosine:.2f}")
    if pair.features["flipped_any"]:
        found.append("some words negated on one side")
    if pair.features["added_only"]:
        found.append("one text says more")
    return tuple(found)


def _listed(quantities: list[Quantity]) -> str:
    return _joined([f"{x.value} {x.unit}".strip() for x in quantities])


def _joined(items: list[str]) -> str:
    return ", ".join(items[:5]) or "none"
