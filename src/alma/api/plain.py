"""Values as JSON values, with stable keys."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

from ..types.kinds import (
    AntiPattern,
    DomainKnowledge,
    Episode,
    Heuristic,
    Memory,
    MemoryType,
    Outcome,
    Rule,
    Turn,
    UserPreference,
)
from ..types.times import to_iso

TYPES: Mapping[type[Memory], str] = {
    Heuristic: MemoryType.HEURISTIC,
    Outcome: MemoryType.OUTCOME,
    UserPreference: MemoryType.USER_PREFERENCE,
    DomainKnowledge: MemoryType.DOMAIN_KNOWLEDGE,
    AntiPattern: MemoryType.ANTI_PATTERN,
    Episode: MemoryType.EPISODE,
    Rule: MemoryType.RULE,
    Turn: "turn",
}
"""What each memory says it is."""


def type_of(memory: Memory) -> str:
    """Its memory type; a turn is a part of an episode and not a type of its own, but it has a name."""
    return str(TYPES[type(memory)])


def plain(value: object) -> Any:
    """Dataclasses become objects, times ISO 8601; a memory also says its type."""
    if isinstance(value, Memory):
        return {"type": type_of(value), **_fields(value)}
    if is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, datetime):
        return to_iso(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | Set):
        return [plain(item) for item in value]
    return value


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
