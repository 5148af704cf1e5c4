"""Archives, read without unpacking them to the disk. What a hostile one does is refused by name.

A member is believed neither in its size nor in its name: reading stops where it says it ends, where it has grown by a
factor that no text reaches, and names that lead elsewhere are passed over.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, BinaryIO, Self, cast

from ...errors import ALMAError
from .sources import Source

RATIO = 200
"""Text shrinks to a twentieth, seldom to a hundredth; a bomb to a thousandth and less."""
SMALL = 1024 * 1024
MOST_BYTES = 64 * 1024**3
MOST_MEMBERS = 200_000


class ArchiveError(ALMAError):
    """An archive that cannot or must not be read."""


class Archive:
    """An open archive and those of its members that may be read."""

    def __init__(self, path: Path, skip: Callable[[str, str], None]) -> None:
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise ArchiveError(f"{path} is no whole zip archive: {error}") from error
        self.path = path
        try:
            self.members = tuple(self._allowed(skip))
        except ArchiveError:
            self._zip.close()
            raise

    def _allowed(self, skip: Callable[[str, str], None]) -> Iterator[Source]:
        infos = [one for one in self._zip.infolist() if not one.is_dir()]
        if len(infos) > MOST_MEMBERS:
            raise ArchiveError(f"{self.path} has {len(infos):,} members; at most {MOST_MEMBERS:,} are read")
        size, packed = sum(one.file_size for one in infos), max(self.path.stat().st_size, 1)
        if size > MOST_BYTES or (size > SMALL and size > RATIO * packed):
            raise ArchiveError(
                f"{self.path} would grow from {packed:,} to {size:,} bytes, as no archive of texts does: it is not read"
            )
        for info in infos:
            reason = _forbidden(info)
            if reason:
                skip(self._name(info), reason)
            else:
                yield Source(self._name(info), info.file_size, self._opener(info), _modified(info))

    def _name(self, info: zipfile.ZipInfo) -> str:
        return f"{self.path}!/{info.filename}"

    def _opener(self, info: zipfile.ZipInfo) -> Callable[[], BinaryIO]:
        return lambda: cast(BinaryIO, _Member(self._zip, info))

    def close(self) -> None:
        self._zip.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Member:
    """The bytes of a member, as many as it may have. What is wrong with them is an OSError, as with any file."""

    def __init__(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
        self._left = info.file_size
        try:
            self._file: IO[bytes] = archive.open(info)
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError, ValueError) as error:
            raise OSError(f"this member cannot be unpacked: {error}") from error

    def read(self, size: int = -1) -> bytes:
        wanted = self._left + 1 if size < 0 else min(size, self._left + 1)
        try:
            found = self._file.read(wanted)
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
            raise OSError(f"this member is damaged: {error}") from error
        self._left -= len(found)
        if self._left < 0:
            raise OSError("this member is larger than the archive says")
        return found

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _forbidden(info: zipfile.ZipInfo) -> str:
    name = info.filename.replace("\\", "/")
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or ":" in parts[0] or "\0" in name:
        return "its name leads out of the archive"
    if info.flag_bits & 1:
        return "it is encrypted"
    if info.file_size > SMALL and info.file_size > RATIO * max(info.compress_size, 1):
        return f"it would grow from {info.compress_size:,} to {info.file_size:,} bytes"
    return ""


def _modified(info: zipfile.ZipInfo) -> datetime | None:
    try:
        return datetime(*info.date_time, tzinfo=UTC)
    except ValueError:
        return None
