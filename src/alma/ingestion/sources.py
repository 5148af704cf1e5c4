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
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
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
LATIN = "cp1252"
_CONTROL = bytes(set(range(1, 32)) - {7, 8, 9, 10, 12, 13, 27}) + b"\x7f"
_MAX_CONTROL = 0.05
_MAX_ZEROS = 0.4  # A file that was being written when the machine stopped has whole blocks of them.
# What files are that are no text, by how they begin; images and programs show by their bytes.
_BINARY = {
    "a database": (b"SQLite format 3\x00",),
    "an archive": (b"PK\x03\x04", b"PK\x05\x06"),
    "a PDF": (b"%PDF-",),
    "packed; unpack it first": (b"\x1f\x8b", b"7z\xbc\xaf\x27\x1c", b"\xfd7zXZ\x00", b"BZh", b"Rar!\x1a\x07"),
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

    stat, modified = path.stat(), None
    with suppress(OverflowError, OSError, ValueError):
        modified = datetime.fromtimestamp(stat.st_mtime, UTC)
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
    size, packed = sum(one.file_size for one in infos), path.stat().st_size
    if len(infos) > MAX_MEMBERS or size > MAX_BYTES or _is_bomb(size, packed):
        archive.zip.close()
        grown = f"{packed:,} to {size:,} bytes in {len(infos):,} members"
        raise OSError(f"it would grow from {grown}, as no archive of texts does")
    for info in infos:
        name, inside = f"{path}!/{info.filename}", info.filename.replace("\\", "/")
        if inside.startswith("/") or ".." in inside.split("/") or ":" in inside.split("/")[0] or "\0" in inside:
            skip(name, "its name leads out of the archive")
        elif info.flag_bits & 1:
            skip(name, "it is encrypted")
        elif _is_bomb(info.file_size, info.compress_size):
            skip(name, f"it would grow from {info.compress_size:,} to {info.file_size:,} bytes")
        else:
            modified = None
            with suppress(ValueError):
                modified = datetime(*info.date_time, tzinfo=UTC)
            blocks = partial(_read_member, archive.zip, info)
            archive.members.append(Source(name, info.file_size, blocks, modified))
    return archive


def _is_bomb(size: int, packed: int) -> bool:
    return size > _SMALL and size > MAX_RATIO * max(packed, 1)


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
    binary = next((what for what, magic in _BINARY.items() if start.startswith(magic)), "")
    encoding = _guess_encoding([start])
    if start and not binary and encoding.startswith(("utf-8", LATIN)):
        control = len(start) - len(start.translate(None, _CONTROL))
        is_strange = control > _MAX_CONTROL * len(start) or start.count(0) > _MAX_ZEROS * len(start)
        binary = "not text" if is_strange else ""
    text = "" if binary else codecs.getincrementaldecoder(encoding)("replace").decode(start).removeprefix("\ufeff")
    return FileHead(text, len(start) < HEAD, binary)


def _guess_encoding(blocks: Iterable[bytes]) -> str:
    """Read its mark, or tell an old one-byte encoding from UTF-8 in which a few bytes are damaged."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    bad = foreign = 0
    for number, block in enumerate(blocks):
        if number == 0 and (marked := _find_marked_encoding(block)):
            return marked
        text = decoder.decode(block)
        bad += text.count("\ufffd") - block.count("\ufffd".encode())
        foreign += len(text) - len(text.encode("ascii", "ignore"))
    return LATIN if bad > 3 and bad > (foreign - bad) // 4 else "utf-8"


def _find_marked_encoding(start: bytes) -> str:
    """Return the encoding that the first bytes show; empty when they show none."""
    if marked := next((encoding for bom, encoding in _BOMS if start.startswith(bom)), ""):
        return marked
    # UTF-16 without its mark: every other byte of Latin text is zero.
    sample = start[:4096]
    half = len(sample) // 2
    few, many = sorted((sample[at::2].count(0), encoding) for at, encoding in enumerate(("utf-16-be", "utf-16-le")))
    return many[1] if half >= 8 and many[0] > 0.6 * half and few[0] < 0.1 * half else ""


class ByteSurvey(NamedTuple):
    """What one look at every byte gives."""

    digest: str  # By which the file is recognised.
    encoding: str


def survey_bytes(source: Source) -> ByteSurvey:
    """Read all of it, and return its digest and the encoding that fits it best."""
    hasher = hashlib.sha256()

    def hash_blocks() -> Iterator[bytes]:
        for block in source.read_blocks(4 * CHUNK):
            hasher.update(block)
            yield block

    blocks = hash_blocks()
    encoding = _guess_encoding(blocks)
    for _ in blocks:
        pass  # The mark at its beginning was enough to know the encoding.
    return ByteSurvey(hasher.hexdigest(), encoding)
