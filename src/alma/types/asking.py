"""What a language model is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    system: str
    """What is to be done: our own words."""
    text: str
    """What it is to be done with. May come from anywhere; secrets are taken out before it leaves."""
    schema: Mapping[str, Any]
    """The shape of the answer, in the part of JSON Schema that `alma.models.schema` knows."""
    max_tokens: int = 2000
    """Of the answer."""
    version: str = ""
    """Which wording of which question this is. A new wording makes recorded answers stale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    value: Any
    """Fits the prompt's schema."""
    model: str
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    """In US dollars, as the provider counts it."""
    seconds: float = 0.0
    metered: bool = True
    """Whether the provider told what it took; otherwise what was set aside counts as spent."""
