"""Shared by all formats: the file that is read, and its messages."""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from ...text import digest
from ..sources import CHUNK, LATIN, Source
from ..streams import JsonItem, JsonObject, JsonStream, read_lines, read_objects

if TYPE_CHECKING:
    from ..intake import IngestResult
    from . import Format

PART_MESSAGES = 200
PART_CHARS = 500_000  # A longer conversation is stored in parts, to bound the use of memory.
PERSONS = frozenset("user human me you".split())
ASSISTANTS = frozenset("assistant ai model bot claude chatgpt gpt gemini copilot agent".split())

_PLACE_PARTS = re.compile(r"[/\\:]")
_NAME_CHARS = 120
_PLAIN_ID = re.compile(r"(?!\.)[A-Za-z0-9][A-Za-z0-9._:@+~-]{0,119}")


class Speaker(StrEnum):
    """The author of a text, which decides what may be learned from it."""

    PERSON = "person"  # The user whose memory this is.
    ASSISTANT = "assistant"
    OTHER = "other"  # Somebody else: a colleague, a document, a page.
    TOOL = "tool"  # A program or a bot.


class ChatMessage(NamedTuple):
    """One message of a conversation, or a document as a single message."""

    speaker: str
    text: str
    voice: Speaker
    at: datetime | None = None
    id: str = ""  # The id in the source format, if it has one.


class Piece(NamedTuple):
    """A conversation or a document, or a part of a long one. The parts of one have the same session.

    A document is one message; its name is the speaker.
    """

    format: Format
    session: str
    messages: Sequence[ChatMessage]
    title: str = ""
    part: str = ""  # The name of the part, the same on every import.
    is_document: bool = False
    repository: str = ""  # The name of the repository that the session of a coding agent worked in.


@dataclass(slots=True)
class ChatStart:
    """The start of a conversation. Its fields may still be set while its messages are read."""

    native: str = ""  # The id in the source format.
    title: str = ""
    session: str = ""  # The session's name, if the format has one; otherwise it is made from the id or the beginning.
    fallback: str | None = None  # Replaces a missing id; the file name by default.
    part: str = ""  # The prefix of its parts' names, if it continues in other files.
    parts: int = 0  # The number of parts so far.
    first: str = ""  # A digest of its first message.
    repository: str = ""


# What a format's reader yields: the start of a conversation and then its messages, or whole pieces.
Items = Iterator[ChatStart | ChatMessage | Piece | None]


@dataclass(slots=True)
class FileReading:
    """One pass over a file: its text, the caller's options, and the result to report to."""

    source: Source
    format: Format
    result: IngestResult
    encoding: str = "utf-8"
    known_as: str = ""  # The name of a document, which does not depend on where its folder is.
    voice: Speaker = Speaker.OTHER  # The author of a document.
    user: str = ""  # A name, id or address: messages of this person in a group chat are the user's.
    branches: bool = False  # Whether abandoned branches of a conversation are stored too.
    find_beside: Callable[[str], Source | None] = lambda name: None  # Finds a file near this one by name.
    shared: dict[str, Any] = field(default_factory=dict)  # A cache that all files of one run share.
    chunks: Iterator[str] = field(init=False)
    bytes_read: int = 0
    digest: str = ""

    def __post_init__(self) -> None:
        self.chunks = self._decode()

    def _decode(self) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder(self.encoding)("replace")
        hasher = hashlib.sha256()
        if not self.encoding.startswith("utf-8"):
            name = (
                "not UTF-8; read as Windows-1252 (Latin-1)"
                if self.encoding == LATIN
                else f"read as {self.encoding.upper()}"
            )
            self.result.note(f"{self.source.name}: {name}")
        for block in self.source.read_blocks(CHUNK):
            text = decoder.decode(block)
            if "\ufffd" in text and "\ufffd".encode() not in block:
                self.result.note(f"{self.source.name}: some bytes are not UTF-8 and were replaced")
            yield text if self.bytes_read else text.removeprefix("\ufeff")
            self.bytes_read += len(block)
            hasher.update(block)
        self.digest = hasher.hexdigest()
        yield decoder.decode(b"", True)

    def finish(self) -> str:
        """Read the rest of the file and return its digest, which differs if the file changed since it was surveyed."""
        for _ in self.chunks:
            pass
        return self.digest

    def read_pieces(self, read: Callable[[FileReading], Items]) -> Iterator[Piece]:
        """Yield the pieces of a file; messages are gathered into parts that can be written at once."""
        start, messages = ChatStart(), list[ChatMessage]()
        for item in chain(read(self), (ChatStart(),)):
            if item is None:
                continue
            if isinstance(item, ChatMessage):
                start.first = start.first or digest(item.speaker, item.text, str(item.at))
                messages.append(item)
                if len(messages) < PART_MESSAGES and sum(len(one.text) for one in messages) < PART_CHARS:
                    continue
            if messages:
                start.parts += 1
                fallback = self.source.stem if start.fallback is None else start.fallback
                session = start.session or name_session(self.format, start.native, fallback, start.first)
                part = f"{start.part}{start.parts}"
                yield Piece(self.format, session, messages, start.title, part, repository=start.repository)
                messages = []
            if isinstance(item, ChatStart):
                start = item
            elif not isinstance(item, ChatMessage):
                yield item

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the lines of the file with their numbers."""
        return read_lines(self.chunks, self.damage)

    def objects(self) -> Iterator[tuple[int, JsonObject]]:
        """Yield the JSON object of each line with its number."""
        return read_objects(self.chunks, self.damage)

    def items(self, *lists: str) -> Iterator[JsonItem]:
        """Yield the elements of a JSON list or the members of an object; of members in `lists`, yield the elements."""
        return JsonStream(self.chunks, self.damage).read(frozenset(lists))

    def conversations(
        self, lists: Sequence[str], is_known: Callable[[JsonObject], bool], complaint: str
    ) -> Iterator[JsonObject]:
        """Yield the objects of an export that `is_known` accepts: of a list, of an object's list, or a single one."""
        members: JsonObject = {}
        for item in self.items(*lists):
            if isinstance(item.value, dict) and is_known(item.value):
                yield item.value
            elif item.number >= 0:
                self.damage(item.place, complaint)
            else:
                members[item.key] = item.value
        if is_known(members):
            yield members

    def name_session(self, native: str, *otherwise: str) -> str:
        """Return the session name of a conversation in this file's format."""
        return name_session(self.format, native, *otherwise)

    def make_document(self, session: str, content: ChatMessage, title: str = "", part: str = "") -> Piece:
        """Return a document as a piece; the speaker of its content is its name."""
        return Piece(self.format, session, [content], title or content.speaker, part, is_document=True)

    def damage(self, place: str, reason: str) -> None:
        """Report a place in this file that could not be read."""
        self.result.damage(self.source.name, place, reason)

    def leave_out(self, what: str, by: int = 1) -> None:
        """Count items that are not imported by design."""
        self.result.leave_out(what, by)


def name_session(format: str, native: object, *otherwise: str) -> str:
    """Return the session name of a conversation: from its id, or from a digest if the id is missing or unsafe.

    An id is unsafe if it could be read as a path. The digest is that of the id or, without one, of `otherwise`.
    """
    name = native.strip() if isinstance(native, str) else ""
    is_plain = _PLAIN_ID.fullmatch(name) and ".." not in name
    return f"{format}:{name if is_plain else digest(*([name] if name else otherwise))}"


def name_repository(place: str) -> str:
    """Return the name of a repository from its URL or from the folder of a session, without the path to it."""
    name = _PLACE_PARTS.split(place.strip().rstrip("/\\"))[-1]
    return name.removesuffix(".git")[:_NAME_CHARS]


def make_message(role: object, text: str, at: datetime | None = None, id: str = "") -> ChatMessage | None:
    """Return a message of a person or an assistant; None for other roles and for empty texts."""
    speaker = role.casefold() if isinstance(role, str) else ""
    if not text.strip() or speaker not in PERSONS | ASSISTANTS:
        return None
    if speaker in PERSONS:
        return ChatMessage("user", text, Speaker.PERSON, at, id)
    return ChatMessage("assistant", text, Speaker.ASSISTANT, at, id)
