"""Changes to files that can be looked at before they are made, and are made all or not at all."""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alma.errors import ALMAError, ConfigError
from alma.files import FileChange, read_content

_SHOWN_LINES = 40


@dataclass(frozen=True, slots=True)
class Change(FileChange):
    def difference(self) -> list[str]:
        """What changes line by line; nothing for a file that is created or removed whole."""
        if self.before is None or self.after is None:
            return []
        before, after = (content.decode("utf-8", "replace").splitlines() for content in (self.before, self.after))
        return list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]


def removal(path: Path) -> Change:
    return Change(path, read_content(path), None)


@dataclass(frozen=True, slots=True)
class Plan:
    changes: tuple[Change, ...] = ()
    folders: tuple[Path, ...] = ()
    """To be removed afterwards, in this order, if nothing is left in them."""

    def __bool__(self) -> bool:
        return bool(self.changes) or any(folder.is_dir() and not any(folder.iterdir()) for folder in self.folders)

    def lines(self, own: Path) -> Iterator[str]:
        """For people. Files of our own are counted by folder; every other one is shown with what changes in it."""
        ours = [change for change in self.changes if change.path.is_relative_to(own)]
        for verb in ("create", "change", "remove"):
            paths = [change.path for change in ours if change.verb == verb]
            if paths:
                yield f"{verb} {len(paths)} file{'s' * (len(paths) != 1)} in {os.path.commonpath(_parents(paths))}"
        for change in self.changes:
            if change not in ours:
                yield f"{change.verb} {change.path}"
                yield from (f"    {line}" for line in change.difference()[:_SHOWN_LINES])

    def plain(self) -> list[dict[str, Any]]:
        """For programs."""
        return [
            {"change": change.verb, "path": str(change.path), "difference": change.difference()}
            for change in self.changes
        ]


def _parents(paths: Sequence[Path]) -> list[str]:
    return [str(path.parent) for path in paths]


def carry_out(plan: Plan) -> None:
    """Make the changes. When one fails, those before it are taken back."""
    for change in plan.changes:
        if read_content(change.path) != change.before:
            raise ConfigError(f"{change.path} was changed by somebody else in the meantime; run the command again")
    made: list[Path] = []
    done: list[Change] = []
    try:
        for change in plan.changes:
            made += _make_folders(change.path.parent)
            _write(change.path, change.after)
            done.append(change)
    except OSError as error:
        _take_back(done, made)
        raise ALMAError(f"{change.path} could not be written ({error.strerror}); nothing was changed") from error
    for folder in plan.folders:
        _remove_if_empty(folder)


def _take_back(done: Sequence[Change], made: Sequence[Path]) -> None:
    for change in reversed(done):
        with contextlib.suppress(OSError):
            _write(change.path, change.before)
    for folder in reversed(made):
        _remove_if_empty(folder)


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _make_folders(folder: Path) -> list[Path]:
    missing = [one for one in (folder, *folder.parents) if not one.exists()][::-1]
    for one in missing:
        one.mkdir(mode=0o700, exist_ok=True)
    return missing


def _write(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
        return
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with open(os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode), "wb") as file:
            file.write(content)
        if os.name != "nt":
            fresh.chmod(mode)
        os.replace(fresh, path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
