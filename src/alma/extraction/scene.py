"""What a sentence is read with: who says it, where, and what was said before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .types import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    document: bool = False
    person: bool = True
    """Whether a person says it; a document is written by one."""
    who: str = "The user"
    """Whom "I" stands for."""
    to_agent: bool = True
    """Whether an assistant is being talked to: what people tell each other to do is no rule for it."""
    task: str = ""
    """What was last asked for, or the heading: what an outcome is the outcome of."""
    before: str = ""
    """What was said just before by the other side."""
    heading: str = ""
    box: str = ""
    subject: str = ""
    """What the sentence before was about."""
    earlier: str = ""
    """The sentence before."""
    play: bool = False
    """The turn sets up a game or a role."""
    following: str = ""
    """The next sentence of the same paragraph."""


@dataclass(frozen=True, slots=True)
class Found:
    kind: Kind
    text: str
    fields: Mapping[str, str] = field(default_factory=dict)
    confidence: float = 0.8


def sentence(text: str) -> str:
    """One line, begun with a capital where it begins with a plain word, without its closing mark."""
    flat = " ".join(text.split()).strip(" ,;:-–—").rstrip(".!…").strip()
    first = flat.split(" ", 1)[0]
    return flat[:1].upper() + flat[1:] if first.isalpha() and first.islower() else flat
