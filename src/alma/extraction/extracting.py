"""From messages or a text to what they say: by a model where there is one, by rules where there is none or it fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..engine import validate
from ..engine.admit import clean
from ..errors import ValidationError
from ..ports import Model
from . import reading
from .turns import Turn, turns
from .types import Extracted, Extraction


def from_conversation(messages: Sequence[Mapping[str, Any]], *, model: Model | None = None) -> list[Extracted]:
    """What a conversation says that is worth keeping, in the order it was said.

    A message is a mapping with `role` and `content` (or `speaker` and `text`), and perhaps `at` and `id`.
    """
    return list(extract_conversation(messages, model=model).found)


def from_text(text: str, *, model: Model | None = None, name: str = "") -> list[Extracted]:
    """What a note, a page of Markdown or a plain text says that is worth keeping. `name` is what it is called."""
    return list(extract_text(text, model=model, name=name).found)


def extract_conversation(messages: Sequence[Mapping[str, Any]], *, model: Model | None = None) -> Extraction:
    """As `from_conversation`, and how it was found."""
    told = [replace(turn, text=clean(turn.text)) for turn in turns(messages)]
    if model is None:
        return Extraction(found=tuple(reading.of_turns(told)))
    from .asking import by_model

    return by_model(model, told, lambda: reading.of_turns(told))


def extract_text(text: str, *, model: Model | None = None, name: str = "") -> Extraction:
    """As `from_text`, and how it was found."""
    checked = clean(_without_control(text))
    if model is None:
        return Extraction(found=tuple(reading.of_text(checked, name)))
    from .asking import by_model

    page = [Turn(index=0, speaker=name or "document", text=checked, key="text")]
    return by_model(model, page, lambda: reading.of_text(checked, name), document=True)


def _without_control(text: object) -> str:
    """A text longer than a memory may be is read in full; only what is found in it is kept."""
    if not isinstance(text, str):
        raise ValidationError(f"text must be text (str), not {type(text).__name__}")
    parts = (text[at : at + validate.MAX_TEXT] for at in range(0, len(text), validate.MAX_TEXT))
    return "".join(validate.output("text", part) or "" for part in parts)
