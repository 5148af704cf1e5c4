"""Reading and writing a file of a repository, and never one outside of it."""

from __future__ import annotations

import os
import stat
import tempfile
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from ..errors import ValidationError

MOST_BYTES = 1_000_000
_MODE = 0o644
_CHANGED = " was changed by somebody else just now"


@dataclass(frozen=True, slots=True)
class Place:
    """A file in a repository."""

    path: Path
    """As it was named."""
    root: Path
    real: Path
    """Where it really is, links followed."""

    @property
    def name(self) -> str:
        """Below the root, with slashes, the same on every machine."""
        return self.real.relative_to(self.root).as_posix()


def repository(folder: Path) -> Path:
    """The root of the repository that a folder is in; else the folder itself."""
    here = folder.resolve()
    return next((above for above in (here, *here.parents) if (above / ".git").exists()), here)


def place(path: str | PathLike[str] | None, root: str | PathLike[str] | None, usual: str) -> Place:
    """Where a file is; without a path, the usual one at the root of the repository."""
    try:
        if root is not None and not Path(root).is_dir():
            raise ValidationError(f"root must be a folder, and {os.fspath(root)!r} is none")
        base = None if root is None else Path(root).resolve()
        named = Path(path) if path is not None else (base or repository(Path.cwd())) / usual
        if path is not None and (named.is_dir() or os.fspath(path).endswith(("/", os.sep))):
            named = named / Path(usual).name
        if base is not None and not named.is_absolute():
            named = base / named
        top, real = base or _find_top(named), named.resolve()
        is_other = real.exists() and not real.is_file()
    except (OSError, RuntimeError, UnicodeEncodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValidationError(f"no file can have this name: {reason}") from None
    if not real.is_relative_to(top):
        raise ValidationError(f"{named} lies outside of {top}; a link must not lead out of the repository")
    if is_other:
        raise ValidationError(f"{named} is not a file")
    return Place(named, top, real)


def _find_top(named: Path) -> Path:
    """Return the repository that a file is in by its name: where links on the way lead is checked against it."""
    here, folder = repository(Path.cwd()), named.parent.absolute()
    if Path(os.path.normpath(Path.cwd() / named)).is_relative_to(here):
        return here
    return repository(next((above for above in (folder, *folder.parents) if above.is_dir()), folder))


def read(where: Place) -> str | None:
    """What the file holds, every line break as it is; None when there is none."""
    try:
        if where.real.stat().st_size > MOST_BYTES:
            raise ValidationError(f"{where.path} has more than {MOST_BYTES:,} bytes; that is no file of rules")
        return where.real.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise ValidationError(f"{where.path} is not UTF-8 (byte {error.start}); save it as UTF-8 first") from None
    except OSError as error:
        raise ValidationError(f"{where.path} cannot be read: {error.strerror or error}") from error


def write(where: Place, text: str, before: str | None) -> None:
    """Put the text in place of `before`, all of it or nothing; whoever reads meanwhile sees the one or the other."""
    try:
        where.real.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IMODE(where.real.stat().st_mode) if before is not None else _MODE
        file, name = tempfile.mkstemp(dir=where.real.parent, prefix=f".{where.real.name}.")
        try:
            with os.fdopen(file, "wb") as out:
                out.write(text.encode("utf-8"))
                out.flush()
                os.fsync(out.fileno())
            os.chmod(name, mode)
            if read(where) != before:
                raise ValidationError(f"{where.path}{_CHANGED}; nothing was written, try again")
            os.replace(name, where.real)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise ValidationError(f"{where.path} cannot be written: {error.strerror or error}") from error


def delete(where: Place, before: str) -> None:
    """Delete a file that still holds what was read."""
    if read(where) != before:
        raise ValidationError(f"{where.path}{_CHANGED}; nothing was deleted, try again")
    where.real.unlink()
