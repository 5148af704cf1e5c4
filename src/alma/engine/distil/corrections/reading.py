"""Is this turn a correction or a preference, and which rule follows?

A turn is stripped to the person's own words, described by general traits, and weighed by three small regressions:
is it a rule at all, what kind of turn is it, and how far does the rule go. Two thresholds: above the upper one a rule
is believed at once, above the lower one it waits until it is repeated, confirmed or reviewed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import exp

from ....types.rules import Reach
from ...text import STOP, words
from . import _weights
from ._features import Turn, features, reach_features, turn
from ._names import names
from ._trigger import trigger
from ._wording import word

LABELS = ("correction", "preference", "approval", "new_task", "question", "other")
RULES = LABELS[:2]
LASTING = (Reach.PROJECT, Reach.ALWAYS)
_EMPTY = frozenset("always never every time times yes ok okay keep like way".split())
REACHES = (Reach.ONCE, Reach.SESSION, Reach.PROJECT, Reach.ALWAYS)


class Standing(StrEnum):
    """What becomes of what was read: a rule at once, a rule in waiting, or nothing."""

    ACTIVE = "active"
    CANDIDATE = "candidate"
    NONE = "none"


@dataclass(frozen=True)
class Reading:
    """What a turn says about how to work."""

    label: str
    score: float
    """How sure it is that a rule follows, 0 to 1."""
    standing: Standing
    rule: str
    trigger: str
    why: str
    reach: Reach
    prefer: tuple[str, ...]
    avoid: tuple[str, ...]


def read(user: str, before: str = "") -> Reading:
    """`user` is what the person said, `before` what the assistant said or did just before it."""
    heard = turn(user, before)
    if not heard.said.sentences:
        return nothing("other", 0.0)
    found = features(heard)
    for_rule, *for_labels = _totals(_weights.TURN, found)
    score = 1 / (1 + exp(-max(-30.0, min(30.0, for_rule))))
    standing = _standing(score)
    if standing is Standing.NONE:
        return nothing(_label(for_labels, LABELS[2:]), score)
    return _reading(heard, found, score, standing, _label(for_labels, RULES))


def nothing(label: str, score: float) -> Reading:
    return Reading(label, round(score, 4), Standing.NONE, "", "", "", Reach.ONCE, (), ())


def _reading(heard: Turn, found: Mapping[str, float], score: float, standing: Standing, label: str) -> Reading:
    wording = word(heard.said)
    prefer, avoid = names(wording.said)
    when = trigger(wording.rule, avoid)
    reach = _reach(heard, found)
    if reach in LASTING and hollow(wording.rule):
        standing = Standing.CANDIDATE
    return Reading(label, round(score, 4), standing, wording.rule, when, wording.why, reach, prefer, avoid)


def hollow(rule: str) -> bool:
    """Whether a rule says nothing by itself: "always", "do that"."""
    return all(word in STOP or word in _EMPTY for word in words(rule))


def _standing(score: float) -> Standing:
    if score >= _weights.ACTIVE:
        return Standing.ACTIVE
    return Standing.CANDIDATE if score >= _weights.CANDIDATE else Standing.NONE


def _label(totals: Sequence[float], among: tuple[str, ...]) -> str:
    return max(among, key=lambda label: totals[LABELS.index(label)])


def _reach(heard: Turn, found: Mapping[str, float]) -> Reach:
    traits = reach_features(heard, found)
    totals = _totals(_weights.REACH, traits)
    reach = max(zip(totals, REACHES, strict=True), key=lambda pair: pair[0])[1]
    # A wrong lasting rule nags for ever: what points at "it" or "that" lasts only if something else says so.
    if reach in LASTING and traits["this*"] and not any(traits[name] for name in _SAYS_SO):
        return Reach.ONCE
    return reach


_SAYS_SO = ("lasting*", "team*", "habit*", "conduct*", "taste*")


def _totals(weights: Mapping[str, tuple[float, ...]], found: Mapping[str, float]) -> list[float]:
    totals = list(weights["bias"])
    for name, value in found.items():
        if value and name in weights:
            for at, weight in enumerate(weights[name]):
                totals[at] += value * weight
    return totals
