"""`EntityExtractor`: the entities that a text names and the relations it states, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from ...engine import validate
from ...errors import ModelError, ValidationError
from ...ports import Model
from ...types.graph import THING, Entity, Relationship, Span
from ...types.names import name_key
from ._chunks import Chunk, Part, chunks, sentences
from ._clauses import Said, described, relations
from ._names import names
from ._written import Mention, apart, mentions

_SURE, _LIKELY, _UNSURE = 0.9, 0.7, 0.5
_REDACTED = re.compile(r"\[REDACTED:[^\]\s]{1,60}\]")
_MOST_CHARS = 100_000
_MOST_CHUNKS = 400
"""What is longer is no sentence: a list, a log, a table."""


class EntityExtractor:
    """Works by itself; with a model it finds more, and what both find is surer."""

    def __init__(self, model: Model | None = None) -> None:
        self._model = model

    def extract(self, text: str, *, speaker: str | None = None) -> tuple[list[Entity], list[Relationship]]:
        """What the text names and says; `speaker` is who "I" is.

        A model that fails or answers nonsense takes nothing away from what is found without it.
        """
        if not isinstance(text, str):
            raise ValidationError(f"text must be text (str), not {type(text).__name__}")
        # A secret that was taken out has no name.
        read = _REDACTED.sub(lambda found: " " * len(found[0]), text[:_MOST_CHARS])
        found = _Found(speaker and validate.name("speaker", speaker))
        found.read(read)
        if self._model is not None and read.strip():
            from .asking import ask

            with suppress(ModelError):
                found.add(*ask(self._model, read))
        return found.entities(), found.relationships()


class _Found:
    """What was found so far, by name."""

    def __init__(self, speaker: str | None) -> None:
        self._speaker = speaker
        self._entities: dict[str, Entity] = {}
        self._spans: dict[str, set[Span]] = {}
        self._relationships: dict[str, Relationship] = {}

    def read(self, text: str) -> None:
        held = _mentions(text)
        for one in held:
            self._name(one.name, one.type, (one.start, one.end), _SURE if one.sure else _LIKELY)
        for start, sentence in sentences(text):
            row = chunks(sentence, start, held)
            if len(row) > _MOST_CHUNKS:
                continue
            asks = sentence.rstrip("\"”'’) \n").endswith("?")
            for said in relations(_unquoted(row), question=asks, speaker=self._self()):
                self._say(said, row)

    def add(self, entities: Iterable[Entity], relationships: Iterable[Relationship]) -> None:
        for one in entities:
            for span in one.spans:
                self._name(one.name, one.type, span, one.confidence)
        for rel in relationships:
            if {rel.subject, rel.object} <= self._entities.keys() and rel.subject != rel.object:
                held_too = self._relationships.get(rel.id)
                sure = rel if held_too is None else replace(held_too, confidence=_SURE)
                self._relationships[rel.id] = sure

    def entities(self) -> list[Entity]:
        found = [replace(one, spans=tuple(sorted(self._spans[one.id]))) for one in self._entities.values()]
        return sorted(found, key=lambda one: (one.spans[:1], one.id))

    def relationships(self) -> list[Relationship]:
        return sorted(self._relationships.values(), key=lambda one: (one.span or (0, 0), one.id))

    def _self(self) -> Chunk | None:
        if self._speaker is None:
            return None
        mention = Mention(0, 0, self._speaker, "person")
        return Chunk(Part.ENTITY, 0, 0, self._speaker, self._speaker.lower(), mention)

    def _name(self, name: str, kind: str, span: Span | None, confidence: float) -> str:
        fresh = Entity(name, kind, confidence=confidence)
        held = self._entities.get(fresh.id)
        self._entities[fresh.id] = fresh if held is None else _both(held, fresh)
        self._spans.setdefault(fresh.id, set()).update([span] if span is not None else [])
        return fresh.id

    def _say(self, said: Said, row: Sequence[Chunk]) -> None:
        subject = self._end(said.subject, said.subject_type, row)
        object = self._end(said.object, said.object_type, row)
        if subject == object:
            return
        places = [one for one in (said.subject, said.object) if one.end]
        span = (min(one.start for one in places), max(one.end for one in places))
        one = Relationship(subject, said.type, object, confidence=_LIKELY, span=span)
        self._relationships.setdefault(one.id, one)

    def _end(self, one: Chunk, kind: str, row: Sequence[Chunk]) -> str:
        span = (one.start, one.end) if one.end else None
        if one.mention is not None:
            id = self._name(one.mention.name, one.mention.type, span, _LIKELY)
            held = self._entities[id]
            if kind and held.type in (THING, "product") and held.type != kind and not _settled(one.mention, kind):
                self._entities[id] = replace(held, type=kind)
            return id
        return self._name(described(row, one) or one.text, THING, span, _UNSURE)


def _settled(mention: Mention, kind: str) -> bool:
    """A product may also be the company that makes it; anything else that is sure stays."""
    return mention.sure and mention.type != THING and kind != "organisation"


def _both(held: Entity, fresh: Entity) -> Entity:
    kind = fresh.type if held.type == THING else held.type
    sure = max(held.confidence, fresh.confidence)
    return held if (kind, sure) == (held.type, held.confidence) else replace(held, type=kind, confidence=sure)


def _mentions(text: str) -> list[Mention]:
    """What is written in its own way, and the names outside of it. A first name that stands for a full one is its."""
    return _called(apart(text, [*mentions(text), *names(text)]))


def _called(held: list[Mention]) -> list[Mention]:
    """ "Jane Doe … Jane": the same person, when only one is so called."""
    full: dict[str, set[str]] = {}
    for one in held:
        parts = name_key(one.name).split()
        if one.type == "person" and len(parts) == 2:
            for part in parts:
                full.setdefault(part, set()).add(one.name)
    out = []
    for one in held:
        same = full.get(name_key(one.name), set())
        out.append(replace(one, name=next(iter(same)), type="person") if len(same) == 1 else one)
    return out


def _unquoted(row: list[Chunk]) -> list[Chunk]:
    """What somebody is quoted with is theirs to answer for."""
    out: list[Chunk] = []
    inside = False
    for one in row:
        if one.text in '"“”' and one.text:
            inside = one.text == "“" or (one.text == '"' and not inside)
            out.append(one)
        elif not inside:
            out.append(one)
    return out
