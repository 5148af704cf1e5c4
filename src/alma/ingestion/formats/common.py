"""What all formats share: the file that is read, and the messages that it holds."""

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
PART_CHARS = 500_000  # A longer conversation is stored part by part, so that no more of it is in memory.
PERSONS = frozenset("user human me you".split())
ASSISTANTS = frozenset("assistant ai model bot claude chatgpt gpt gemini copilot agent".split())

_PLAIN_ID = re.compile(r"(?!\.)[A-Za-z0-9][A-Za-z0-9._:@+~-]{0,119}")


class Speaker(StrEnum):
    """Whose words they are, which decides what may be learned from them."""

    PERSON = "person"  # The one whose memory this is.
    ASSISTANT = "assistant"
    OTHER = "other"  # Somebody else: a colleague, a document, a page.
    TOOL = "tool"  # A program or a bot.


class ChatMessage(NamedTuple):
    speaker: str
    text: str
    voice: Speaker
    at: datetime | None = None
    id: str = ""  # The host's own, if it has one.


class Piece(NamedTuple):
    """A conversation or a document, or a part of a long one. The parts of one have the same session.

    A document is one message; its name is the speaker.
    """

    format: Format
    session: str
    messages: Sequence[ChatMessage]
    title: str = ""
    part: str = ""  # The same part has the same name when it is read again.
    is_document: bool = False


@dataclass(slots=True)
class ChatStart:
    """A conversation begins. What is known of it may still be set while its messages are read."""

    native: str = ""  # The host's id of it.
    title: str = ""
    session: str = ""  # Its name, where the format names it; otherwise it is made of the id, or of how it begins.
    fallback: str | None = None  # What stands for the id when there is none; the name of the file by default.
    part: str = ""  # How the names of its parts begin, where it goes on in other files.
    parts: int = 0  # How many there are so far.
    first: str = ""  # A digest of its first message.


# What the reader of a format yields: messages after the start of their conversation, or whole pieces.
Items = Iterator[ChatStart | ChatMessage | Piece | None]


@dataclass(slots=True)
class FileReading:
    """One pass over one file: its text, what the caller asked for, and where to report what is not kept."""

    source: Source
    format: Format
    result: IngestResult
    encoding: str = "utf-8"
    known_as: str = ""  # The name of a document: the same when it is read again, wherever its folder then is.
    voice: Speaker = Speaker.OTHER  # Whose words a document is.
    user: str = ""  # A name, id or address: what a person of that name wrote among others is theirs.
    branches: bool = False  # Whether abandoned branches of a conversation are kept too.
    find_beside: Callable[[str], Source | None] = lambda name: None  # Finds a file beside this one.
    shared: dict[str, Any] = field(default_factory=dict)  # For what the files of one run have in common.
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
        """Read what is left and return the digest of all bytes: the file may have changed since it was surveyed."""
        for _ in self.chunks:
            pass
        return self.digest

    def read_pieces(self, read: Callable[[FileReading], Items]) -> Iterator[Piece]:
        """Yield what a reader finds, with messages gathered into parts of a size that can be written at once."""
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
                yield Piece(self.format, session, messages, start.title, f"{start.part}{start.parts}")
                messages = []
            if isinstance(item, ChatStart):
                start = item
            elif not isinstance(item, ChatMessage):
                yield item

    def lines(self) -> Iterator[tuple[int, str]]:
        return read_lines(self.chunks, self.damage)

    def objects(self) -> Iterator[tuple[int, JsonObject]]:
        """Yield the JSON object of each line with its number."""
        return read_objects(self.chunks, self.damage)

    def items(self, *lists: str) -> Iterator[JsonItem]:
        """Yield the elements of a JSON list; of an object its members, and of those named by `lists` the elements."""
        return JsonStream(self.chunks, self.damage).read(frozenset(lists))

    def conversations(
        self, lists: Sequence[str], is_known: Callable[[JsonObject], bool], complaint: str
    ) -> Iterator[JsonObject]:
        """Yield the known objects of an export: in a list, in a list of an object, or one that stands alone."""
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
        return name_session(self.format, native, *otherwise)

    def make_document(
        self,
        session: str,
        name: str,
        text: str,
        *,
        title: str = "",
        part: str = "",
        at: datetime | None = None,
        voice: Speaker = Speaker.OTHER,
    ) -> Piece:
        message = ChatMessage(name, text, voice, at)
        return Piece(self.format, session, [message], title or name, part, is_document=True)

    def damage(self, place: str, reason: str) -> None:
        self.result.damage(self.source.name, place, reason)

    def leave_out(self, what: str, by: int = 1) -> None:
        """Count what is deliberately not kept."""
        self.result.leave_out(what, by)


def name_session(format: str, native: object, *otherwise: str) -> str:
    """Name a conversation: by the host's id, or by a digest when there is none or it could mean a path."""
    name = native.strip() if isinstance(native, str) else ""
    is_plain = _PLAIN_ID.fullmatch(name) and ".." not in name
    return f"{format}:{name if is_plain else digest(*([name] if name else otherwise))}"


def make_message(role: object, text: str, at: datetime | None = None, id: str = "") -> ChatMessage | None:
    """Return what a person or an assistant said; None when neither did, or when there are no words."""
    speaker = role.casefold() if isinstance(role, str) else ""
    if not text.strip() or speaker not in PERSONS | ASSISTANTS:
        return None
    if speaker in PERSONS:
        return ChatMessage("user", text, Speaker.PERSON, at, id)
    return ChatMessage("assistant", text, Speaker.ASSISTANT, at, id)
