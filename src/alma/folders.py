"""The folder `.alma`: for its owner alone, and never committed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


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
