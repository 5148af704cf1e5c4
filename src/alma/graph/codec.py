"""Entities and relationships as one line of JSON, for backends that keep them so beside the columns they search."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from ..types.graph import Entity, Relationship
from ..types.times import from_micros, to_micros


def micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)


def _moment(value: int | None) -> datetime | None:
    return None if value is None else from_micros(value)


def entity_text(one: Entity) -> str:
    return _text(
        {
            "id": one.id,
            "name": one.name,
            "type": one.type,
            "aliases": one.aliases,
            "attributes": one.attributes,
            "sources": one.sources,
            "confidence": one.confidence,
            "absorbed": one.absorbed,
            "created_at": micros(one.created_at),
        }
    )


def entity_of(text: str) -> Entity:
    told: dict[str, Any] = json.loads(text)
    lists = {name: tuple(told[name]) for name in ("aliases", "sources", "absorbed")}
    return Entity(**{**told, **lists, "created_at": _moment(told["created_at"])})


def relationship_text(one: Relationship) -> str:
    return _text(
        {
            "id": one.id,
            "subject": one.subject,
            "type": one.type,
            "object": one.object,
            "valid_from": micros(one.valid_from),
            "valid_to": micros(one.valid_to),
            "confidence": one.confidence,
            "attributes": one.attributes,
            "sources": one.sources,
            "created_at": micros(one.created_at),
        }
    )


def relationship_of(text: str) -> Relationship:
    told: dict[str, Any] = json.loads(text)
    times = {name: _moment(told[name]) for name in ("valid_from", "valid_to", "created_at")}
    return Relationship(**{**told, **times, "sources": tuple(told["sources"])})


def _text(told: dict[str, Any]) -> str:
    """In plain letters: what a column cannot hold as it is, such as a null character, is escaped."""
    return json.dumps(told, allow_nan=False)
