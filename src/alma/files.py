"""Files: written whole or not at all, private to their owner, locked, and changed only after the change was shown.

The hooks' hot path does not load this module, which takes 10 ms: see `hooks/paths.py`.
"""

from __future__ import annotations

import difflib
import os
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from .errors import ALMAError, BusyError, ConfigError, StorageError, ValidationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

PRIVATE = 0o600
READABLE_BY_OTHERS = "is readable by other users"
_REPLACE_TRIES = 20


# -- writing


def write_atomic(
    path: str | os.PathLike[str], content: str | bytes, *, mode: int = PRIVATE, sync: bool = False
) -> None:
    """Replace a file by this content, or leave it as it is when that fails: readers see the one or the other.

    A new file gets `mode`; one that exists keeps its own permissions if they are stricter than the user's default.
    With `sync` the content is on disk when this returns. Raises OSError.
    """
    part = f"{os.fspath(path)}.{os.getpid()}.part"
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        if os.name != "nt":
            os.chmod(part, mode)
        for _ in range(_REPLACE_TRIES if os.name == "nt" else 0):
            # Windows refuses while somebody reads the target, so it is tried for a while.
            with suppress(PermissionError):
                os.replace(part, path)
                return
            time.sleep(0.02)
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.remove(part)
        raise


def create_private(path: str | os.PathLike[str], content: str | bytes = b"") -> bool:
    """Create a file that only its owner can read, never readable by others for a moment; False if it exists."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE)
    except FileExistsError:
        return False
    with open(descriptor, "wb") as file:
        file.write(data)
    return True


@contextmanager
def make_new_file(target: Path) -> Iterator[Path]:
    """Make a file that appears only when it is complete, and overwrites nothing.

    Yields where to write it meanwhile: a file beside the target that only its owner can read.
    """
    problem = f"{target} already exists and is not overwritten; choose another name"
    if target.exists():
        raise ValidationError(problem)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        try:
            part.unlink(missing_ok=True)
            os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, PRIVATE))
        except OSError as error:
            raise refuse_folder(part.parent, error) from error
        yield part
        _sync(part, os.O_RDWR)
        try:
            # Where somebody made the file meanwhile, theirs stays.
            os.link(part, target)
        except FileExistsError as error:
            raise ValidationError(problem) from error
        except OSError:
            os.replace(part, target)
        sync_folder(target.parent)
    finally:
        part.unlink(missing_ok=True)


def refuse_folder(folder: Path, error: OSError) -> StorageError:
    """Return the error for a folder in which no file can be written."""
    if not folder.exists():
        return StorageError(f"the folder {folder} does not exist; create it, or choose another")
    return StorageError(f"the folder {folder} cannot be written ({error.strerror}); choose another")


def sync_folder(folder: Path) -> None:
    """Bring the names of a folder's files to disk. Windows has no such call and needs none."""
    if os.name != "nt":
        _sync(folder, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- folders


def make_private_folder(folder: Path) -> None:
    """Make a folder that only its owner can read, and keep it out of git."""
    if not folder.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    keep_out_of_git(folder)


def keep_out_of_git(folder: Path) -> None:
    """In a folder named `.alma`, write a `.gitignore` that covers everything, unless there is one."""
    if folder.name == ".alma":
        # A folder on a read-only disk is still good to read. A file that is there, or a link, stays as it is.
        with suppress(OSError), (folder / ".gitignore").open("x", encoding="utf-8") as file:
            file.write("*\n")


# -- locks


@contextmanager
def lock_file(path: str | os.PathLike[str], seconds: float) -> Iterator[None]:
    """Hold an exclusive lock between processes; it ends with the process, whatever becomes of it.

    It is a transaction on an empty SQLite file, because SQLite locks alike on every platform. Raises BusyError after
    `seconds`, StorageError when it cannot be locked.
    """
    with closing(_open_lock(os.fspath(path), seconds)):
        yield


def try_lock(path: str | os.PathLike[str], seconds: float = 0.0) -> ExitStack | None:
    """Return a held lock, to be closed or left as a block; None when another process keeps it for `seconds`."""
    with suppress(BusyError), ExitStack() as stack:
        stack.enter_context(lock_file(path, seconds))
        return stack.pop_all()
    return None


def _open_lock(path: str, seconds: float) -> sqlite3.Connection:
    import sqlite3

    deadline = time.monotonic() + seconds
    while True:
        connection = None
        try:
            if os.path.islink(path):
                # It came with the folder: the file that it names would be locked, and emptied if it is no database.
                os.unlink(path)
            # Before SQLite sees it, so that others can never read it.
            create_private(path)
            inode, left = _inode(path), max(0.0, deadline - time.monotonic())
            connection = sqlite3.connect(path, timeout=left, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode = MEMORY")
            connection.execute("BEGIN EXCLUSIVE")
            if _inode(path) == inode:
                return connection
            # It was removed while we waited: a lock on a file that nobody can find is none.
            connection.close()
        except (OSError, sqlite3.Error) as error:
            if connection is not None:
                connection.close()
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise BusyError(
                    f"{path} is locked by another process (waited {seconds:g} s); try again later"
                ) from error
            if code not in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                hint = "check the permissions of its folder"
                raise StorageError(f"{path} cannot be locked ({error}); {hint}") from error
            # Emptied where it lies: removing it would take the file away from under somebody who locked it meanwhile.
            os.truncate(path, 0)


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return -1


# -- planned changes to files of other programs


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file before and after; None where it does not exist."""

    path: Path
    before: bytes | None
    after: bytes | None
    mode: int = PRIVATE  # The permissions of a new file; one that exists keeps its own.

    def __bool__(self) -> bool:
        return self.before != self.after

    @property
    def verb(self) -> str:
        """Return what is done to the file: create, change or remove."""
        if self.before is None:
            return "create"
        return "remove" if self.after is None else "change"

    def diff(self) -> str:
        """Return the change as a unified diff."""
        before, after = (
            (content or b"").decode("utf-8", "replace").splitlines(keepends=True)
            for content in (self.before, self.after)
        )
        old, new = (str(self.path) if content is not None else os.devnull for content in (self.before, self.after))
        lines = difflib.unified_diff(before, after, old, new)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

    def apply(self, content: bytes | None) -> None:
        """Write this content, with the permissions of the file that is there, or remove the file."""
        if content is None:
            self.path.unlink(missing_ok=True)
        else:
            mode = self.path.stat().st_mode & 0o777 if self.path.exists() else self.mode
            write_atomic(self.path, content, mode=mode, sync=self.before is not None)


def apply_changes(changes: Sequence[FileChange], empty_folders: Sequence[Path] = ()) -> None:
    """Make all of these changes, or none: when one fails, the earlier ones are undone.

    A file that is no longer as it was planned stops it before anything is written. Afterwards those of the
    `empty_folders` that hold nothing are removed, in this order.
    """
    for change in changes:
        if read_content(change.path) != change.before:
            raise ConfigError(f"{change.path} was changed by another program; nothing was written, try again")
    done: list[FileChange] = []
    folders: list[Path] = []
    try:
        for change in changes:
            missing = [one for one in change.path.parents if change.after is not None and not one.exists()]
            for folder in reversed(missing):
                folder.mkdir(mode=0o700 if change.mode == PRIVATE else 0o777, exist_ok=True)
                folders.append(folder)
            done.append(change)
            change.apply(change.after)
    except OSError as error:
        for one in reversed(done):
            with suppress(OSError):
                one.apply(one.before)
        _remove_empty(reversed(folders))
        raise ALMAError(
            f"{change.path} cannot be written ({error.strerror}); check its permissions. Nothing was changed"
        ) from error
    _remove_empty(empty_folders)


def _remove_empty(folders: Iterable[Path]) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def resolve_link(path: Path) -> Path:
    """Return the file itself: many keep their settings elsewhere and link to them, and the link stays a link."""
    return Path(os.path.realpath(path))


def read_content(path: Path) -> bytes | None:
    """Return what a file holds, or None where there is none."""
    if path.is_socket():
        return b""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ALMAError(
            f"{path} cannot be read ({error.strerror}); check its permissions. Nothing was changed"
        ) from error


def decode_settings(path: Path, content: bytes | None) -> str:
    """Return the text of a settings file; empty without one. Raise ConfigError if it is not valid UTF-8."""
    try:
        return (content or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not valid UTF-8 ({error}); fix the file first. Nothing was changed") from error


def read_settings_text(path: Path) -> str:
    """Return the text of a settings file; empty if there is none."""
    return decode_settings(path, read_content(path))
