"""A new file that appears only when it is complete, and overwrites nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import StorageError, ValidationError


@contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """Where to write it meanwhile: a file beside the target that only its owner can read."""
    if target.exists():
        raise _taken(target)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        _make_private(part)
        yield part
        _settle(part, target)
    finally:
        part.unlink(missing_ok=True)


def _taken(target: Path) -> ValidationError:
    return ValidationError(f"{target} is there already; choose another name, a backup overwrites nothing")


def _make_private(part: Path) -> None:
    try:
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        raise StorageError(f"{part.parent} cannot be written: {error.strerror}; choose another place") from error


def _settle(part: Path, target: Path) -> None:
    _sync(part, os.O_RDWR)
    try:
        # Where somebody made the file meanwhile, theirs stays.
        os.link(part, target)
    except FileExistsError as error:
        raise _taken(target) from error
    except OSError:
        os.replace(part, target)
    if os.name != "nt":
        _sync(target.parent, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    held = os.open(path, flags)
    try:
        os.fsync(held)
    finally:
        os.close(held)
