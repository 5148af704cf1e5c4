"""FileStore: one JSON Lines file, for tests and for little.

A line is a record, `{"deleted": id}`, or an array of these (what was written together is one line, so that it is
there as a whole or not at all); the last word about an id counts. Writers take turns by a lock on a file beside it.
Before every operation what others appended is read; a new inode means that another process rewrote the file without its
garbage. A last line without an end is what a crash left: it is not read, and cut off by the next write.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from ..errors import (
    CorruptStoreError,
    ReadOnlyError,
    StorageError,
    StorageFullError,
    ValidationError,
    describe_parse_error,
)
from ..files import create_private, lock_file, make_new_file, make_private_folder, sync_folder, write_atomic
from ..forks import hold_at_fork
from ..trust_register import check_store
from ..types.record import Record, from_json, to_json
from .memory import DictStore

_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
_LOCK_SECONDS = 60.0
_FEW = 64  # A file with so few entries is not worth rewriting.
_MARK = 64  # So many bytes before the place reached tell that it is still the same file.


class FileStore(DictStore):
    """A store in one file of JSON lines, for small memories."""

    def __init__(self, path: str | os.PathLike[str], *, trust: bool = False) -> None:
        """With `trust`, the file is opened even if git tracks it or another user owns it."""
        self.path = Path(path).expanduser()
        self._trust = trust
        self._mutex = hold_at_fork(threading.RLock())
        self._closed = False
        self._revision = 0
        self._forget()
        check_store(self.path, trust=trust)
        with _translate_errors(self.path):
            if not self.path.exists():
                make_private_folder(self.path.parent)
                create_private(self.path)
                sync_folder(self.path.parent)
        with self._open():
            pass

    def backup(self, target: str | os.PathLike[str], progress: Callable[[int, int], None] | None = None) -> None:
        """Copy what the file holds at this moment to a new file."""
        with self._open() as records:
            data = _encode_records(records)
        with _translate_errors(Path(target)), make_new_file(Path(target)) as part:
            part.write_bytes(data)
        if progress is not None:
            progress(1, 1)

    def revision(self) -> int:
        """Return a number that goes up whenever this or another process wrote to the file."""
        with self._open():
            return self._revision

    def vacuum(self) -> None:
        """Rewrite the file without deleted records and old versions."""
        with self._open(to_write=True):
            self._compact()

    def close(self) -> None:
        """Close the store."""
        with self._mutex:
            self._closed = True
            self._forget()

    def _forget(self) -> None:
        self._records: dict[str, Record] = {}
        self._inode = self._offset = self._lines = self._entries = 0
        self._mark = b""
        self._revision += 1

    @contextmanager
    def _open(self, *, to_write: bool = False) -> Iterator[dict[str, Record]]:
        with self._mutex, _translate_errors(self.path):
            if self._closed:
                raise StorageError(f"{self.path} is closed; open the store again")
            for place in (self.path, self.path.parent) if to_write else ():
                if place.exists() and not os.access(place, os.W_OK):
                    raise ReadOnlyError(f"{place} cannot be written; check its owner and permissions")
            with lock_file(f"{self.path}.lock", _LOCK_SECONDS) if to_write else nullcontext():
                self._catch_up()
                yield self._records

    def _catch_up(self) -> None:
        """Read what was appended since; from the start if it is another file now."""
        with self.path.open("rb") as file:
            inode = os.fstat(file.fileno()).st_ino
            file.seek(self._offset - len(self._mark))
            is_same = inode == self._inode and file.read(len(self._mark)) == self._mark
            if not is_same or not self._offset:
                # A `git pull` may have replaced the file. The new one often gets the number of the old one.
                check_store(self.path, trust=self._trust)
            if not is_same:
                self._forget()
                self._inode = inode
                file.seek(0)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._apply(line)

    def _apply(self, line: bytes) -> None:
        try:
            data = json.loads(line)
            entries = [
                (entry["deleted"], None) if "deleted" in entry else (entry["id"], from_json(entry))
                for entry in (data if isinstance(data, list) else [data])
            ]
        except (ValueError, KeyError, TypeError) as error:
            reason = f"the field {error} is missing" if isinstance(error, KeyError) else describe_parse_error(error)
            raise CorruptStoreError(
                f"{self.path}, line {self._lines + 1} is not a record: {reason}; restore a backup or remove the line"
            ) from error
        for id, record in entries:
            if record is None:
                self._records.pop(id, None)
            else:
                self._records[id] = record
        self._revision += 1
        self._lines += 1
        self._entries += len(entries)
        self._offset += len(line)
        self._mark = line[-_MARK:]

    def _keep(self, records: Mapping[str, Record | None]) -> None:
        entries = [{"deleted": id} if record is None else to_json(record) for id, record in sorted(records.items())]
        line = _encode_line(entries[0] if len(entries) == 1 else entries)
        with self.path.open("r+b") as file:
            file.truncate(self._offset)
            file.seek(self._offset)
            try:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                # Whatever was written of the line has no end: nobody reads it, and the next write cuts it off.
                self._forget()
                raise
        self._apply(line)
        if self._entries > _FEW and self._entries > 2 * len(self._records):
            self._compact()

    def _compact(self) -> None:
        """Rewrite the file without its garbage; a reader sees either the old or the new one."""
        write_atomic(self.path, _encode_records(self._records), sync=True)
        sync_folder(self.path.parent)
        self._forget()
        self._catch_up()


def _encode_line(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _encode_records(records: Mapping[str, Record]) -> bytes:
    return b"".join(_encode_line(to_json(record)) for record in records.values())


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeEncodeError as error:
        raise ValidationError(f"a value cannot be stored: {error}") from error
    except OSError as error:
        if error.errno in _READ_ONLY:
            raise ReadOnlyError(
                f"{path} cannot be written ({error.strerror}); check its owner and permissions"
            ) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            problem = f"no room left to write {path}; nothing was changed; free some space and try again"
            raise StorageFullError(problem) from error
        raise StorageError(
            f"{path} cannot be read or written ({error.strerror}); check the file and its folder"
        ) from error
