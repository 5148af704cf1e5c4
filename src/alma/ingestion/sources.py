"""Sources of bytes, files and members of archives, and their encodings.

Archives are read without unpacking them to disk. The declared size and name of a member are not trusted: reading stops
at the declared size, and members whose compression ratio is too high for text, or whose names lead out of the archive,
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
HEAD = 256 * 1024  # How many bytes of a file are read to detect its format.
MAX_RATIO = 200  # Text compresses to a twentieth, rarely to a hundredth; a zip bomb to a thousandth or less.
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
_MAX_ZEROS = 0.4  # A file that was being written when the machine crashed has whole blocks of zeros.
# Files that are not text, by how they begin; images and programs are recognised by their control characters.
_BINARY = {
    "a database": (b"SQLite format 3\x00",),
    "an archive": (b"PK\x03\x04", b"PK\x05\x06"),
    "a PDF": (b"%PDF-",),
    "packed; unpack it first": (b"\x1f\x8b", b"7z\xbc\xaf\x27\x1c", b"\xfd7zXZ\x00", b"BZh", b"Rar!\x1a\x07"),
}

Blocks = Callable[[int], Generator[bytes, None, None]]


@dataclass(frozen=True, slots=True)
class Source:
    """A file, or a member of an archive, that can be read repeatedly."""

    name: str  # The name to show: a path, or `archive.zip!/member`.
    size: int
    read_blocks: Blocks  # Yields all bytes in blocks of that size; raises OSError.
    modified: datetime | None = None
    path: Path | None = None  # The path of a file on disk; None for a member of an archive.

    @property
    def leaf(self) -> str:
        """The file name without its folders."""
        return self.name.replace("\\", "/").rpartition("/")[2]

    @property
    def folder(self) -> str:
        """The name of the folder that it is in; empty if there is none."""
        return ("/" + self.name.replace("\\", "/")).rsplit("/", 2)[-2]

    @property
    def stem(self) -> str:
        """The file name without its last extension."""
        return self.leaf.rpartition(".")[0] or self.leaf

    def read_start(self, size: int) -> bytes:
        """Return at most `size` bytes from the beginning."""
        with closing(self.read_blocks(size)) as blocks:
            return next(blocks, b"")


def open_file(path: Path) -> Source:
    """Return a file on disk as a source; raise OSError if it does not exist."""

    def read_blocks(size: int) -> Generator[bytes, None, None]:
        with path.open("rb") as file:
            while block := file.read(size):
                yield block

    stat, modified = path.stat(), None
    with suppress(OverflowError, OSError, ValueError):
        modified = datetime.fromtimestamp(stat.st_mtime, UTC)
    return Source(str(path), stat.st_size, read_blocks, modified, path)


class Archive(NamedTuple):
    """An open zip archive and its members that may be read."""

    path: Path
    zip: zipfile.ZipFile
    members: list[Source]


def open_archive(path: Path, skip: Callable[[str, str], None]) -> Archive:
    """Open an archive; raise OSError if it is damaged or a zip bomb. `skip` receives the names of skipped members."""
    try:
        archive = Archive(path, zipfile.ZipFile(path), [])
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise OSError(f"not a complete zip archive: {error}") from error
    infos = [one for one in archive.zip.infolist() if not one.is_dir()]
    size, packed = sum(one.file_size for one in infos), path.stat().st_size
    if len(infos) > MAX_MEMBERS or size > MAX_BYTES or _is_bomb(size, packed):
        archive.zip.close()
        growth = f"{packed:,} to {size:,} bytes in {len(infos):,} members"
        raise OSError(f"too large to unpack safely: it would grow from {growth}")
    for info in infos:
        name, inside = f"{path}!/{info.filename}", info.filename.replace("\\", "/")
        if inside.startswith("/") or ".." in inside.split("/") or ":" in inside.split("/")[0] or "\0" in inside:
            skip(name, "its name leads out of the archive")
        elif info.flag_bits & 1:
            skip(name, "encrypted")
        elif _is_bomb(info.file_size, info.compress_size):
            skip(name, f"too large to unpack safely: {info.compress_size:,} bytes would become {info.file_size:,}")
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
                    raise OSError("the member is larger than the archive declares")
                yield block
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
        raise OSError(f"the member is damaged or cannot be unpacked: {error}") from error


class FileHead(NamedTuple):
    """The beginning of a file."""

    text: str  # Empty if the file is not text.
    is_whole: bool  # Whether this is the whole file.
    binary: str  # A description of a file that is not text; empty for text.


def read_head(source: Source) -> FileHead:
    """Return the decoded beginning of a file, or a description of it if it is not text."""
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
    """Return the encoding: from a byte order mark, or by telling Windows-1252 from UTF-8 with a few damaged bytes."""
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
    """Return the encoding that the first bytes show; empty if they show none."""
    if marked := next((encoding for bom, encoding in _BOMS if start.startswith(bom)), ""):
        return marked
    # UTF-16 without a byte order mark: every other byte of Latin text is zero.
    sample = start[:4096]
    half = len(sample) // 2
    few, many = sorted((sample[at::2].count(0), encoding) for at, encoding in enumerate(("utf-16-be", "utf-16-le")))
    return many[1] if half >= 8 and many[0] > 0.6 * half and few[0] < 0.1 * half else ""


class ByteSurvey(NamedTuple):
    """The digest and encoding of a file."""

    digest: str
    encoding: str


def survey_bytes(source: Source) -> ByteSurvey:
    """Read a whole file and return its digest and its most likely encoding."""
    hasher = hashlib.sha256()

    def hash_blocks() -> Iterator[bytes]:
        for block in source.read_blocks(4 * CHUNK):
            hasher.update(block)
            yield block

    blocks = hash_blocks()
    encoding = _guess_encoding(blocks)
    for _ in blocks:
        pass  # With a byte order mark, the encoding was known before the end; the digest needs the rest.
    return ByteSurvey(hasher.hexdigest(), encoding)
