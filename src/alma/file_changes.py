"""Changes to files of other programs that are shown before they are made."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from .errors import ALMAError


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file before and after; None where it does not exist."""

    path: Path
    before: bytes | None
    after: bytes | None

    @property
    def verb(self) -> str:
        if self.before is None:
            return "create"
        return "remove" if self.after is None else "change"


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
        raise ALMAError(f"{path} cannot be read ({error.strerror}); nothing was changed") from error
