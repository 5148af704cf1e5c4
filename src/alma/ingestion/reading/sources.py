"""Where bytes come from: a file, or a member of an archive. And what they are: which encoding, or none at all."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

CHUNK = 256 * 1024
HEAD = 256 * 1024
"""So much of a file is looked at to tell what it is."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_OLD = "cp1252"
_CONTROL = bytes(set(range(1, 32)) - {7, 8, 9, 10, 12, 13, 27}) + b"\x7f"
_MOST_CONTROL = 0.05
_MOST_ZEROS = 0.5
"""A file that was being written when the machine stopped has whole blocks of them."""
_SQLITE = b"SQLite format 3\x00"
_MAGIC = (
    (b"%PDF-", "a PDF"),
    (b"\x89PNG", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"GIF8", "an image"),
    (b"\x1f\x8b", "packed with gzip; unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "packed with 7-Zip; unpack it first"),
    (b"\xfd7zXZ\x00", "packed with xz; unpack it first"),
    (b"BZh", "packed with bzip2; unpack it first"),
    (b"Rar!\x1a\x07", "packed with RAR; unpack it first"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
)


@dataclass(frozen=True, slots=True)
class Source:
    """Bytes that can be read again and again."""

    name: str
    """For a person: a path, or `archive.zip!/member`."""
    size: int
    opening: Callable[[], BinaryIO]
    modified: datetime | None = None
    path: Path | None = None
    """The file on the disk, when it is one."""

    @property
    def leaf(self) -> str:
        return self.name.replace("\\", "/").rpartition("/")[2]

    @property
    def stem(self) -> str:
        return self.leaf.rpartition(".")[0] or self.leaf


def of_file(path: Path, name: str | None = None) -> Source:
    stat = path.stat()
    return Source(name or str(path), stat.st_size, lambda: path.open("rb"), _moment(stat.st_mtime), path)


def _moment(seconds: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a file."""

    bytes: bytes
    text: str
    """Decoded as far as it goes; empty when it is no text."""
    whole: bool
    """Whether that is all of it."""
    binary: str = ""
    """What it is instead of text; empty when it is text."""

    @property
    def is_sqlite(self) -> bool:
        return self.bytes.startswith(_SQLITE)

    @property
    def is_zip(self) -> bool:
        return self.bytes.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def head(source: Source) -> Head:
    with source.opening() as file:
        found = file.read(HEAD)
    whole = len(found) < HEAD
    binary = _binary(found)
    return Head(found, "" if binary else _decoded(found), whole, binary)


def _decoded(found: bytes) -> str:
    encoding, errors = _encoding(found)
    text = codecs.getincrementaldecoder(encoding)(errors).decode(found)
    return text.removeprefix("\ufeff")


def _encoding(found: bytes) -> tuple[str, str]:
    marked = next((encoding for bom, encoding in _BOMS if found.startswith(bom)), "")
    if marked:
        return marked, "replace"
    if wide := _wide(found):
        return wide, "replace"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(found)
    except UnicodeDecodeError:
        return (_OLD if _old(found) else "utf-8"), "replace"
    return "utf-8", "strict"


def _wide(found: bytes) -> str:
    """UTF-16 without its mark: every other byte of Latin text is zero."""
    sample = found[:4096]
    half = len(sample) // 2
    if half < 8:
        return ""
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    if odd > 0.6 * half and even < 0.1 * half:
        return "utf-16-le"
    return "utf-16-be" if even > 0.6 * half and odd < 0.1 * half else ""


def _old(found: bytes) -> bool:
    """Whether it is rather an old one-byte encoding than UTF-8 in which a few bytes are damaged."""
    text = found.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    good = sum(1 for one in text if one > "\x7f") - bad
    return bad > 3 and bad > good // 4


def _binary(found: bytes) -> str:
    for magic, what in (*_MAGIC, (_SQLITE, "a database"), (b"PK\x03\x04", "an archive"), (b"PK\x05\x06", "an archive")):
        if found.startswith(magic):
            return what
    if _encoding(found)[0].startswith(("utf-16", "utf-32")):
        return ""
    control = len(found) - len(found.translate(None, _CONTROL))
    strange = control > _MOST_CONTROL * len(found) or found.count(0) > _MOST_ZEROS * len(found)
    return "binary" if found and strange else ""


@dataclass(frozen=True, slots=True)
class Survey:
    """What one look at every byte tells."""

    digest: str
    encoding: str
    note: str = ""


def survey(source: Source) -> Survey:
    """Reads all of it: the digest by which it is known again, and the encoding that fits every byte."""
    hasher = hashlib.sha256()
    decoder: codecs.IncrementalDecoder | None = codecs.getincrementaldecoder("utf-8")()
    first, torn = b"", b""
    with source.opening() as file:
        while chunk := file.read(4 * CHUNK):
            first = first or chunk
            hasher.update(chunk)
            if decoder is not None:
                decoder, torn = _further(decoder, chunk)
    if decoder is not None:
        decoder, torn = _further(decoder, b"", final=True)
    encoding, errors = _encoding(first)
    note = ""
    if encoding == "utf-8" and decoder is None:
        encoding, errors = (_OLD if _old(torn) else "utf-8"), "replace"
    if encoding == _OLD:
        note = f"{source.name}: not UTF-8; read as Windows-1252 (Latin-1)"
    elif encoding == "utf-8" and errors == "replace":
        note = f"{source.name}: some bytes are not UTF-8 and were replaced"
    elif encoding.startswith(("utf-16", "utf-32")):
        note = f"{source.name}: read as {encoding.upper()}"
    return Survey(hasher.hexdigest(), encoding, note)


def _further(
    decoder: codecs.IncrementalDecoder, chunk: bytes, *, final: bool = False
) -> tuple[codecs.IncrementalDecoder | None, bytes]:
    try:
        decoder.decode(chunk, final)
    except UnicodeDecodeError:
        return None, chunk
    return decoder, b""


class Reading:
    """One pass over the text of a source. `read` says how far it is."""

    def __init__(self, source: Source, surveyed: Survey) -> None:
        self.source = source
        self.read = 0
        self._surveyed = surveyed
        self._hasher = hashlib.sha256()
        self.chunks = self._chunks()

    def _chunks(self) -> Iterator[str]:
        # What was surveyed fits its encoding; what was written since need not.
        decoder = codecs.getincrementaldecoder(self._surveyed.encoding)("replace")
        first = True
        for chunk in self._bytes():
            text = decoder.decode(chunk)
            yield text.removeprefix("\ufeff") if first else text
            first = False
        if last := decoder.decode(b"", True):
            yield last

    def _bytes(self) -> Iterator[bytes]:
        with self.source.opening() as file:
            while chunk := file.read(CHUNK):
                self.read += len(chunk)
                self._hasher.update(chunk)
                yield chunk

    def finish(self) -> bool:
        """Read what is left; whether all was as it had been surveyed, since a file may change in between."""
        for _ in self.chunks:
            pass
        return self._hasher.hexdigest() == self._surveyed.digest
