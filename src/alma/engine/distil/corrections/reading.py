"""Is this turn a correction or a preference, and which rule follows?

A turn is stripped to the person's own words, described by general traits, and weighed by three small regressions:
is it a rule at all, what kind of turn is it, and how far does the rule go. Two thresholds: above the upper one a rule
is believed at once, above the lower one it waits until it is repeated, confirmed or reviewed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import exp

from ....types.rules import Reach
from . import _weights
from ._features import Turn, features, reach_features, turn
from ._names import is_program, names, rivals
from ._trigger import trigger
from ._wording import word
from .standing import hollow

LABELS = ("correction", "preference", "approval", "new_task", "question", "other")
RULES = LABELS[:2]
LASTING = (Reach.PROJECT, Reach.ALWAYS)
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
    reach = _bounded(_reach(heard, found), heard, wording.rule, (*prefer, *avoid))
    if reach in LASTING and hollow(wording.rule):
        standing = Standing.CANDIDATE
    return Reading(label, round(score, 4), standing, wording.rule, when, wording.why, reach, prefer, avoid)


def _bounded(reach: Reach, heard: Turn, rule: str, named: Sequence[str]) -> Reach:
    """Every project is told what holds always: a rule that names files or tools of one holds in that one.

    And what is said to hold for this session holds for it, whatever else is said.
    """
    if "this_session" in heard.said.cues:
        return Reach.SESSION
    everywhere = _ALL_PROJECTS.search(heard.own.text)
    of_one = _OF_A_PROJECT.search(rule) or (any(map(_technical, named)) and not _MINE.search(heard.own.text))
    if reach is Reach.ALWAYS and of_one and not everywhere:
        return Reach.PROJECT
    # "yarn not npm" is a choice between two of a kind, "tests go in __tests__" is said of all: not of a moment.
    general = any(rivals(one, other) for one in named for other in named) or "general" in heard.said.cues
    return Reach.PROJECT if reach is Reach.ONCE and general and "session" not in heard.said.cues else reach


def _technical(name: str) -> bool:
    return is_program(name) or not name.isalpha() or not name.islower()


_ALL_PROJECTS = re.compile(
    r"\b(?:all (?:my |our |the )?(?:projects|repos\w*)|every (?:project|repo\w*)|everywhere)\b", re.I
)
_MINE = re.compile(r"\bi(?:'d|’d| would)? (?:\w+ly |always |much )?(?:prefer|like|love|hate|want)\b", re.I)
_OF_A_PROJECT = re.compile(
    r"`|\w/\w|\b\w+\.[a-z]{2,4}\b|\b[a-z]+\d\w*\b|\w_\w|\b(?:ui|repo|codebase|gems?|module|package)\b", re.I
)


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
