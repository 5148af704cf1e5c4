"""Events of memories, and the section `webhooks` of the settings: who is sent them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from ..errors import ConfigError, ValidationError, unknown
from ..text import digest
from .times import to_iso


class EventType(StrEnum):
    """What happened to a memory."""

    LEARNED = "learned"  # It is new, or a candidate became active.
    CHANGED = "changed"  # Its text, tags or other fields.
    MERGED = "merged"  # Into another memory.
    SUPERSEDED = "superseded"
    FORGOTTEN = "forgotten"  # Archived or retired; it can be restored.
    RESTORED = "restored"
    DELETED = "deleted"  # Permanently.
    CONFLICT = "conflict"  # Two memories contradict each other, and a person has to decide.
    JUDGED = "judged"  # Confirmed, rated, or counted for or against: its text is the same.
    RETRIEVED = "retrieved"


DEFAULT_EVENTS = tuple(one for one in EventType if one not in (EventType.JUDGED, EventType.RETRIEVED))
"""Every type but those that each retrieval, rating and outcome causes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEvent:
    """One committed change of one memory. A deleted memory has no text, and `version` 0."""

    id: str
    type: str
    record: str  # The id of the memory; of a retrieval its id, of a conflict that of the comparison.
    kind: str
    project: str
    agent: str
    user: str
    status: str
    version: int  # Of the memory. Grows with each of its events; gaps are possible.
    at: datetime
    change: str = ""  # The key of the changeset.
    by: str = ""
    call: str = ""
    why: str = ""
    text: str = ""
    related: tuple[str, ...] = ()  # What took its place, what was retrieved, or the memories in conflict.

    def to_json(self) -> dict[str, Any]:
        """Return the event as JSON values."""
        return {**asdict(self), "at": to_iso(self.at), "related": list(self.related)}


def check_event_types(types: Iterable[str]) -> frozenset[str]:
    """Return the types as a set, or raise ValidationError for an unknown one."""
    names = frozenset([types] if isinstance(types, str) else types)
    for name in sorted(names - frozenset(EventType)):
        raise ValidationError(unknown("event", name, tuple(EventType)))
    return names


_ADDRESS = re.compile(r"(https?)://(?:[\w.-]+|\[[\da-fA-F:.]+\])(?::(\d{1,5}))?(?:/[!-~]*)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """An address that is sent events."""

    url: str = ""
    secret_env: str = ""  # The environment variable that holds the key of the signature.
    events: tuple[str, ...] = DEFAULT_EVENTS
    allow_private: bool = False  # Whether the address may be inside a private network, and http.
    timeout: float = 10.0  # Seconds for one attempt.
    attempts: int = 8

    def __post_init__(self) -> None:
        address = _ADDRESS.fullmatch(str(self.url))
        is_address = address is not None and int(address[2] or 1) in range(1, 65_536)
        is_open = address is not None and address[1] == "http" and self.allow_private is not True
        is_list = isinstance(self.events, list | tuple) and all(isinstance(one, str) for one in self.events)
        # The address is not quoted: there may be a key in it.
        for is_sound, problem in (
            (is_address, "url must be a URL such as https://example.org/alma"),
            (not is_open, "url must be https; http is for your own network, with `allow_private: true`"),
            (str(self.secret_env).isidentifier(), "secret_env must be the name of an environment variable"),
            (is_list and self.events, f"events must be a list of names from: {', '.join(EventType)}"),
            (isinstance(self.allow_private, bool), "allow_private must be true or false"),
            (isinstance(self.timeout, int | float) and 0 < self.timeout <= 300, "timeout must be 0 to 300 seconds"),
            (isinstance(self.attempts, int) and self.attempts > 0, "attempts must be a whole number greater than 0"),
        ):
            if not is_sound:
                raise ConfigError(f"webhook: {problem}")
        check_event_types(self.events)

    @property
    def id(self) -> str:
        """A digest of the address, by which stored deliveries name the webhook."""
        return digest(self.url)

    @property
    def site(self) -> str:
        """The address without its path, which may contain a key."""
        return "/".join(self.url.split("/")[:3])
