"""The port that every reader of natural language implements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Verdict(StrEnum):
    SAME = "same"
    REPLACES = "replaces"
    CONTRADICTS = "contradicts"
    VARIANT = "variant"
    UNRELATED = "unrelated"
    UNSURE = "unsure"


class About(StrEnum):
    """What the texts of a pair are. The tense of an action does not matter, the tense of a fact does."""

    ACTION = "action"
    FACT = "fact"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts to compare. `second` is the newer one."""

    first: str
    second: str
    about: About = About.ACTION


@dataclass(frozen=True, slots=True)
class Relation:
    """How the second text of a pair relates to the first.

    `probability` is how likely the verdict is true. An unsure reader gives 0: callers keep both texts apart.
    """

    verdict: Verdict
    probability: float

    @property
    def is_same(self) -> bool:
        return self.verdict is Verdict.SAME


UNSURE = Relation(Verdict.UNSURE, 0.0)


class Reader(Protocol):
    def compare(self, pairs: Sequence[Pair]) -> Sequence[Relation]:
        """Return one relation for each pair, in order."""
        ...
