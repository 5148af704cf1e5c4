"""`EntityExtractor`: the entities that texts name and the relationships that they state, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..engine import validate
from ..errors import ModelError, ValidationError
from ..ports import Model
from ..reading.local import LocalReader
from ..reading.model import ModelReader
from ..reading.port import Entities
from ..types.graph import THING, Entity, Relationship, Span
from .checks import type_name

Extracted = tuple[list[Entity], list[Relationship]]

_BY_BOTH, _BY_MODEL, _BY_LOCAL = 0.9, 0.8, 0.7
_MAX_CHARS = 100_000
_REDACTED = re.compile(r"\[REDACTED:[^\]\s]{1,60}\]")
_TYPES = {"organization": "organisation", "other": THING}


class EntityExtractor:
    """Reads texts locally, and with a model as well where there is one. What both find has more confidence.

    When the model fails, the local reading is used, `failure` says why, and the model is not asked again.
    """

    def __init__(self, model: Model | None = None) -> None:
        self._model = None if model is None else ModelReader(model)
        self._answers: dict[tuple[str, str], Entities] = {}
        self.failure = ""

    @property
    def reader(self) -> str:
        """Which reader is at work: "local", or the name of the model."""
        if self._model is None:
            return "local"
        return f"local ({self._model.name} failed: {self.failure})" if self.failure else self._model.name

    def extract(self, text: str, *, speaker: str | None = None) -> Extracted:
        """Return what a text names and states. `speaker` is who "I" is."""
        return self.extract_many([(text, speaker)])[0]

    def extract_many(self, texts: Sequence[tuple[str, str | None]]) -> list[Extracted]:
        """Do the same for several texts with their speakers. The model sees them in batches, and each only once."""
        entries = [_check_entry(text, speaker) for text, speaker in texts]
        local = LocalReader().find_entities([text for text, _ in entries], [speaker for _, speaker in entries])
        self._ask_model([entry for entry in dict.fromkeys(entries) if entry[0].strip() and entry not in self._answers])
        return [
            _combine_readings(*entry, found, self._answers.get(entry, Entities()))
            for entry, found in zip(entries, local, strict=True)
        ]

    def _ask_model(self, entries: Sequence[tuple[str, str]]) -> None:
        if self._model is None or self.failure or not entries:
            return
        try:
            answers = self._model.find_entities([text for text, _ in entries], [speaker for _, speaker in entries])
        except ModelError as error:
            self.failure = str(error)
        else:
            self._answers.update(zip(entries, answers, strict=True))


def _check_entry(text: object, speaker: str | None) -> tuple[str, str]:
    if not isinstance(text, str):
        raise ValidationError(f"text must be text (str), not {type(text).__name__}")
    # A redacted secret is no name.
    readable = _REDACTED.sub(lambda found: " " * len(found[0]), text[:_MAX_CHARS]).replace("’", "'")
    return readable, validate.name("speaker", speaker) if speaker else ""


def _combine_readings(text: str, speaker: str, local: Entities, asked: Entities) -> Extracted:
    entities: dict[str, Entity] = {}
    types = {name.strip(): _TYPES.get(kind, kind) for name, kind in asked.names}
    for name, kind in {**types, **dict(local.names)}.items():
        spans = tuple(_find_spans(name, text))
        if len(name) > 1 and (spans or name == speaker):
            specific = types.get(name, THING) if kind == THING else kind
            confidence = _rate_confidence(name in dict(local.names), name in types)
            entities[name] = Entity(name, specific, confidence=confidence, spans=spans)
    relationships: dict[str, Relationship] = {}
    for relation in dict.fromkeys((*local.relations, *asked.relations)):
        subject, kind, target = relation
        ends = entities.get(subject.strip()), entities.get(target.strip())
        if ends[0] is None or ends[1] is None or ends[0].id == ends[1].id:
            continue
        try:
            kind_name = type_name("type", kind)
        except ValidationError:
            continue
        confidence = _rate_confidence(relation in local.relations, relation in asked.relations)
        span = _find_nearest(ends[0].spans, ends[1].spans)
        one = Relationship(ends[0].id, kind_name, ends[1].id, confidence=confidence, span=span)
        relationships.setdefault(one.id, one)
    return (
        sorted({one.id: one for one in entities.values()}.values(), key=lambda one: (one.spans[:1], one.id)),
        sorted(relationships.values(), key=lambda one: (one.span or (0, 0), one.id)),
    )


def _rate_confidence(is_local: bool, is_asked: bool) -> float:
    return _BY_BOTH if is_local and is_asked else _BY_LOCAL if is_local else _BY_MODEL


def _find_spans(name: str, text: str) -> Iterator[Span]:
    for found in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text):
        yield found.span()


def _find_nearest(first: Sequence[Span], second: Sequence[Span]) -> Span | None:
    """Return the shortest stretch of text with both ends in it; of the speaker the text has no place."""
    pairs = [(min(a[0], b[0]), max(a[1], b[1])) for a in first[:50] for b in second[:50]]
    return min(pairs or [*first, *second], key=lambda span: (span[1] - span[0], span), default=None)
