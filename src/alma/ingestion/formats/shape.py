"""What the readers of all formats share: values of foreign JSON taken with care, and messages gathered into parts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ...text import digest
from ..reading.elements import Elements
from ..reading.sources import Reading
from ..types import Chat, Format, Message, Piece, Voice

PART_MESSAGES = 200
PART_CHARS = 500_000
"""A longer conversation is kept part by part, so that no more than this of it is held."""

_FIRST, _LAST = -62_135_596_800.0, 32_503_680_000.0
_PLAIN_ID = re.compile(r"(?!\.)[A-Za-z0-9][A-Za-z0-9._:@+~-]{0,119}")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the reading is told by whoever wants it."""

    user: str = ""
    """A name, id or address: what a person of that name wrote among others is theirs."""
    branches: bool = False
    """Whether what was said on abandoned branches of a conversation is kept too."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a reader tells beside what it reads."""

    damaged: Callable[[str, str], None]
    left: Callable[..., None]
    """What was deliberately not kept, and how much of it."""
    asked: Asked = field(default_factory=Asked)


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def dicts(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def moment(value: object) -> datetime | None:
    """Seconds, milli- or microseconds since 1970, or ISO 8601 text; what is none of these is no time."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        return _read_moment(value.strip())
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    seconds = float(value)
    for unit in (1e6, 1e3):
        if abs(seconds) > 1e8 * unit:
            seconds /= unit
            break
    return _in_range(lambda: datetime.fromtimestamp(seconds, UTC)) if _FIRST < seconds < _LAST else None


def _read_moment(value: str) -> datetime | None:
    if re.fullmatch(r"\d{9,17}(?:\.\d{1,9})?", value):
        return moment(float(value))
    read = _in_range(lambda: datetime.fromisoformat(value))
    if read is None or read.tzinfo is None:
        return None if read is None else read.replace(tzinfo=UTC)
    return _in_range(lambda: read.astimezone(UTC))


def _in_range(make: Callable[[], datetime]) -> datetime | None:
    try:
        made = make()
    except (ValueError, OverflowError, OSError):
        return None
    return made if 1000 <= made.year <= 2999 else None


def session_of(format: Format, native: object, *otherwise: str) -> str:
    """The name of a conversation: the host's id of it, or a digest of it when it is missing or could mean a path."""
    name = text(native).strip()
    if not name:
        return f"{format}:{digest(*otherwise)}"
    plain = _PLAIN_ID.fullmatch(name) and ".." not in name
    return f"{format}:{name if plain else digest(name)}"


def said(value: str) -> bool:
    return bool(value.strip())


def user(words: str, at: datetime | None = None, id: str = "") -> Message:
    return Message(speaker="user", text=words, voice=Voice.PERSON, at=at, id=id)


def assistant(words: str, at: datetime | None = None, id: str = "") -> Message:
    return Message(speaker="assistant", text=words, voice=Voice.ASSISTANT, at=at, id=id)


def speak(role: object, words: str, at: datetime | None = None, id: str = "") -> Message | None:
    """Return what a person or an assistant said; None when neither did, or nothing."""
    if not said(words) or role not in ("user", "human", "assistant"):
        return None
    return assistant(words, at, id) if role == "assistant" else user(words, at, id)


class Lines:
    """The lines of what somebody is saying; `full` when that is so much that it is better given out."""

    def __init__(self, *first: str) -> None:
        self._held = list(first)
        self._size = sum(map(len, first))

    def add(self, line: str) -> None:
        self._held.append(line)
        self._size += len(line) + 1

    @property
    def full(self) -> bool:
        return self._size >= PART_CHARS

    def text(self, ends: re.Pattern[str] | None = None) -> str:
        """Without empty lines, and such as `ends` matches, at the end."""
        held = self._held
        last = len(held)
        while last and (not said(held[last - 1]) or (ends is not None and ends.fullmatch(held[last - 1]))):
            last -= 1
        return "\n".join(held[:last]).strip("\n")


def split_chat(format: Format, session: str, messages: Iterable[Message], title: str) -> Iterator[Piece]:
    """Yield a conversation in parts of a size that can be written at once."""
    gathering = Gathering(format, "")
    gathering.name, gathering.title = session, title
    for message in messages:
        yield from gathering.add(message)
    yield from gathering.end()


def read_elements(
    reading: Reading, told: Told, lists: frozenset[str], is_known: Callable[[object], bool], complaint: str
) -> Iterator[dict[str, Any]]:
    """Yield the objects of an export that are known: in a list, in a list of an object, or one that stands alone."""
    alone: dict[str, Any] = {}
    for item in Elements(reading.chunks, told.damaged).read(lists):
        if is_known(item.value):
            yield item.value
        elif item.number >= 0:
            told.damaged(f"element {item.number} (character {item.at:,})", complaint)
        else:
            alone[item.key] = item.value
    if is_known(alone):
        yield alone


class Gathering:
    """The messages of one conversation as they come; full parts are given out on the way."""

    def __init__(self, format: Format, fallback: str) -> None:
        self.session: object = None
        self.name = ""
        """Of the session, where it is known in full."""
        self.title = ""
        self._format = format
        self._fallback = fallback
        self._first = ""
        self._held: list[Message] = []
        self._size = 0
        self._part = 0

    def add(self, message: Message) -> Iterator[Piece]:
        if not said(message.text):
            return
        if not self._first:
            self._first = digest(message.speaker, message.text, str(message.at))
        self._held.append(message)
        self._size += len(message.text)
        if len(self._held) >= PART_MESSAGES or self._size >= PART_CHARS:
            yield from self.end()

    def end(self) -> Iterator[Piece]:
        if not self._held:
            return
        held, self._held, self._size = self._held, [], 0
        self._part += 1
        yield Chat(
            format=self._format,
            session=self.name or session_of(self._format, self.session, self._fallback, self._first),
            messages=held,
            title=self.title,
            part=str(self._part),
        )
