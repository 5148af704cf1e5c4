"""Where bytes come from, a file or a member of an archive, and how they are encoded.

Archives are read without unpacking them to the disk. Neither the size nor the name of a member is believed: reading
stops where the member says it ends, and members that would grow beyond what text does, or whose names lead elsewhere,
are skipped.
"""

from __future__ import annotations

import codecs
import hashlib
import zipfile
import zlib
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

CHUNK = 256 * 1024
HEAD = 256 * 1024  # So much of a file is looked at to find its format.
MAX_RATIO = 200  # Text shrinks to a twentieth, seldom to a hundredth; a bomb to a thousandth and less.
MAX_BYTES = 64 * 1024**3
MAX_MEMBERS = 200_000
_SMALL = 1024 * 1024

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LATIN = "cp1252"
_CONTROL = bytes(set(range(1, 32)) - {7, 8, 9, 10, 12, 13, 27}) + b"\x7f"
_MAX_CONTROL = 0.05
_MAX_ZEROS = 0.5  # A file that was being written when the machine stopped has whole blocks of them.
_BINARY = {
    b"SQLite format 3\x00": "a database",
    b"PK\x03\x04": "an archive",
    b"PK\x05\x06": "an archive",
    b"%PDF-": "a PDF",
    b"\x89PNG": "an image",
    b"\xff\xd8\xff": "an image",
    b"GIF8": "an image",
    b"\x1f\x8b": "packed with gzip; unpack it first",
    b"7z\xbc\xaf\x27\x1c": "packed with 7-Zip; unpack it first",
    b"\xfd7zXZ\x00": "packed with xz; unpack it first",
    b"BZh": "packed with bzip2; unpack it first",
    b"Rar!\x1a\x07": "packed with RAR; unpack it first",
    b"\x7fELF": "a program",
    b"MZ": "a program",
}

Blocks = Callable[[int], Generator[bytes, None, None]]


@dataclass(frozen=True, slots=True)
class Source:
    """Bytes that can be read again and again."""

    name: str  # For a person: a path, or `archive.zip!/member`.
    size: int
    read_blocks: Blocks  # Yields all bytes in blocks of that size; raises OSError.
    modified: datetime | None = None
    path: Path | None = None  # The file on the disk, when it is one.

    @property
    def leaf(self) -> str:
        return self.name.replace("\\", "/").rpartition("/")[2]

    @property
    def folder(self) -> str:
        """The name of the folder that it is in; empty when there is none."""
        return ("/" + self.name.replace("\\", "/")).rsplit("/", 2)[-2]

    @property
    def stem(self) -> str:
        return self.leaf.rpartition(".")[0] or self.leaf

    def read_start(self, size: int) -> bytes:
        with closing(self.read_blocks(size)) as blocks:
            return next(blocks, b"")


def open_file(path: Path) -> Source:
    def read_blocks(size: int) -> Generator[bytes, None, None]:
        with path.open("rb") as file:
            while block := file.read(size):
                yield block

    stat = path.stat()
    try:
        modified = datetime.fromtimestamp(stat.st_mtime, UTC)
    except (OverflowError, OSError, ValueError):
        modified = None
    return Source(str(path), stat.st_size, read_blocks, modified, path)


class Archive(NamedTuple):
    """An open zip archive and those of its members that may be read."""

    path: Path
    zip: zipfile.ZipFile
    members: list[Source]


def open_archive(path: Path, skip: Callable[[str, str], None]) -> Archive:
    """Open an archive; raise OSError when it cannot or must not be read. `skip` gets names and reasons."""
    try:
        archive = Archive(path, zipfile.ZipFile(path), [])
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise OSError(f"it is no whole zip archive: {error}") from error
    infos = [one for one in archive.zip.infolist() if not one.is_dir()]
    size, packed = sum(one.file_size for one in infos), max(path.stat().st_size, 1)
    if len(infos) > MAX_MEMBERS or size > MAX_BYTES or (size > _SMALL and size > MAX_RATIO * packed):
        archive.zip.close()
        grown = f"{packed:,} to {size:,} bytes in {len(infos):,} members"
        raise OSError(f"it would grow from {grown}, as no archive of texts does")
    for info in infos:
        name, inside = f"{path}!/{info.filename}", info.filename.replace("\\", "/")
        is_bomb = info.file_size > _SMALL and info.file_size > MAX_RATIO * max(info.compress_size, 1)
        if inside.startswith("/") or ".." in inside.split("/") or ":" in inside.split("/")[0] or "\0" in inside:
            skip(name, "its name leads out of the archive")
        elif info.flag_bits & 1:
            skip(name, "it is encrypted")
        elif is_bomb:
            skip(name, f"it would grow from {info.compress_size:,} to {info.file_size:,} bytes")
        else:
            try:
                modified = datetime(*info.date_time, tzinfo=UTC)
            except ValueError:
                modified = None
            blocks = partial(_read_member, archive.zip, info)
            archive.members.append(Source(name, info.file_size, blocks, modified))
    return archive


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, size: int) -> Generator[bytes, None, None]:
    left = info.file_size
    try:
        with archive.open(info) as file:
            while block := file.read(min(size, left + 1)):
                left -= len(block)
                if left < 0:
                    raise OSError("this member is larger than the archive says")
                yield block
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
        raise OSError(f"this member is damaged or cannot be unpacked: {error}") from error


class FileHead(NamedTuple):
    """The beginning of a file."""

    text: str  # Decoded as far as it goes; empty when it is not text.
    is_whole: bool  # Whether that is all of the file.
    binary: str  # What it is instead of text; empty when it is text.


def read_head(source: Source) -> FileHead:
    start = source.read_start(HEAD)
    binary = next((what for magic, what in _BINARY.items() if start.startswith(magic)), "")
    encoding = _guess_encoding(start)
    if start and not binary and not encoding.startswith(("utf-16", "utf-32")):
        control = len(start) - len(start.translate(None, _CONTROL))
        is_strange = control > _MAX_CONTROL * len(start) or start.count(0) > _MAX_ZEROS * len(start)
        binary = "not text" if is_strange else ""
    text = "" if binary else codecs.getincrementaldecoder(encoding)("replace").decode(start).removeprefix("\ufeff")
    return FileHead(text, len(start) < HEAD, binary)


def _guess_encoding(start: bytes) -> str:
    if marked := next((encoding for bom, encoding in _BOMS if start.startswith(bom)), ""):
        return marked
    # UTF-16 without its mark: every other byte of Latin text is zero.
    sample = start[:4096]
    half = len(sample) // 2
    few, many = sorted((sample[at::2].count(0), encoding) for at, encoding in enumerate(("utf-16-be", "utf-16-le")))
    if half >= 8 and many[0] > 0.6 * half and few[0] < 0.1 * half:
        return many[1]
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return _guess_damaged(start)
    return "utf-8"


def _guess_damaged(content: bytes) -> str:
    """Tell an old one-byte encoding from UTF-8 in which a few bytes are damaged."""
    text = content.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    good = sum(1 for one in text if one > "\x7f") - bad
    return _LATIN if bad > 3 and bad > good // 4 else "utf-8"


class Survey(NamedTuple):
    """What one look at every byte gives."""

    digest: str
    encoding: str
    note: str = ""


def survey(source: Source) -> Survey:
    """Read all of it: the digest by which it is recognised, and the encoding that fits every byte."""
    hasher = hashlib.sha256()
    decoder = codecs.getincrementaldecoder("utf-8")()
    first = torn = b""
    for block in chain(source.read_blocks(4 * CHUNK), [b""]):
        first = first or block
        hasher.update(block)
        try:
            decoder.decode(b"" if torn else block, not block and not torn)
        except UnicodeDecodeError:
            torn = block or first
    encoding = _guess_encoding(first)
    if encoding == "utf-8" and torn:
        encoding = _guess_damaged(torn)
    notes = {
        "utf-8": "some bytes are not UTF-8 and were replaced" if torn else "",
        "utf-8-sig": "",
        _LATIN: "not UTF-8; read as Windows-1252 (Latin-1)",
    }
    note = notes.get(encoding, f"read as {encoding.upper()}")
    return Survey(hasher.hexdigest(), encoding, f"{source.name}: {note}" if note else "")
