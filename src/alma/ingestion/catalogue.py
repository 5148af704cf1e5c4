"""What there is to read below a path: files and members of archives, what each is, and why the others are not read.

No link is followed, and nothing is opened that is no plain file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Self

from ..errors import ValidationError
from . import ignoring
from .formats.detect import Detected, Unknown, detect
from .ignoring import Ignored
from .reading.archive import Archive, ArchiveError
from .reading.sources import Head, Source, head, of_file
from .types import Format, Plan, Planned, Skipped

DOCUMENT_BYTES = 2 * 1024 * 1024
_DEEPEST = 64
_DOCUMENTS = (".md", ".markdown", ".mdx", ".txt", ".text", ".rst", ".adoc", ".asciidoc", ".org")
_NAMELESS = frozenset({"readme", "changelog", "contributing", "authors", "notes", "todo", "decisions", "history"})
_CHATS = (".json", ".jsonl", ".ndjson", ".md", ".markdown", ".txt", ".log", ".zip", ".vscdb")
_REPOSITORY = (".git", ".hg", ".svn", ".jj")
_PROJECT = (
    *_REPOSITORY, ".gitignore", ".github", "package.json", "pyproject.toml", "setup.py", "Cargo.toml", "go.mod",
    "pom.xml", "build.gradle", "Gemfile", "composer.json", "CMakeLists.txt", "Makefile",
)  # fmt: skip
"""Also as it is unpacked from an archive, without its history."""
_IN_REPOSITORIES = frozenset({Format.AIDER, Format.SPECSTORY, Format.CURSOR, Format.CHAT, Format.CLAUDE_CODE})


class Wanted(StrEnum):
    """What of a folder is read. A file that is named itself is always read."""

    EVERYTHING = "everything"
    DOCUMENTS = "documents"
    """A project's documents, and the histories of conversations that lie in it."""
    CHATS = "chats"


@dataclass(frozen=True, slots=True)
class Entry:
    source: Source
    detected: Detected
    own: bool
    known_as: str
    """What a document is called: its path within the folder asked for."""

    @property
    def planned(self) -> Planned:
        return Planned(self.source.name, self.detected.format, self.source.size, self.own)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise ValidationError(f"no file can have this name: {error.strerror}") from None


class Catalogue:
    """Looks at everything below a path once. Archives stay open until it is closed."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        wanted: Wanted = Wanted.EVERYTHING,
        *,
        own: bool | None = None,
        max_file_bytes: int = DOCUMENT_BYTES,
    ) -> None:
        self.root = Path(path).expanduser()
        self.skipped: list[Skipped] = []
        self._wanted = wanted
        self._own = own
        self._most = max_file_bytes
        self._archives: list[Archive] = []
        self._holds = lru_cache(maxsize=4096)(_holds)
        if not _is_there(self.root):
            raise ValidationError(f"there is nothing at {self.root}")
        self.root = self.root.resolve()
        self.entries = tuple(self._all())

    @property
    def plan(self) -> Plan:
        return Plan(str(self.root), tuple(one.planned for one in self.entries), tuple(self.skipped))

    def beside(self, source: Source, name: str) -> Source | None:
        """The file of that name beside the folder that a source is in, or in it."""
        if source.path is not None:
            near = (source.path.parent.parent / name, source.path.parent / name)
            return next((of_file(one) for one in near if one.is_file() and not one.is_symlink()), None)
        place = source.name.rsplit("/", 2)
        wished = {f"{place[0]}/{name}", f"{place[0]}/{place[1]}/{name}" if len(place) == 3 else ""}
        return next((one for archive in self._archives for one in archive.members if one.name in wished), None)

    # -- looking

    def _all(self) -> Iterator[Entry]:
        if self.root.is_dir():
            yield from self._folder(self.root, None, 0, set())
        else:
            yield from self._file(self.root, named=True)

    def _folder(self, folder: Path, above: Ignored | None, depth: int, seen: set[tuple[int, int]]) -> Iterator[Entry]:
        try:
            place = folder.stat()
            listed = sorted(os.scandir(folder), key=lambda one: one.name)
        except OSError as error:
            return self._skip(str(folder), f"it cannot be entered: {error.strerror}")
        if depth > _DEEPEST or ((place.st_dev, place.st_ino) in seen and place.st_ino):
            return self._skip(str(folder), "too deep, or entered already")
        seen = seen | {(place.st_dev, place.st_ino)}
        ignored = Ignored(folder, above)
        for one in listed:
            path = Path(one.path)
            if one.is_symlink():
                self._skip(one.path, "a link; links are not followed")
            elif one.is_dir(follow_symlinks=False):
                reason = self._passed_over(path, ignored, is_folder=True)
                if reason:
                    self._skip(one.path, reason)
                else:
                    yield from self._folder(path, ignored, depth + 1, seen)
            elif reason := self._passed_over(path, ignored, is_folder=False):
                self._skip(one.path, reason)
            else:
                yield from self._file(path, named=False)

    def _passed_over(self, path: Path, ignored: Ignored, *, is_folder: bool) -> str:
        """Why it is not looked at; empty when it is."""
        name = path.name
        if name in ignoring.HISTORIES or (is_folder and path.parent.name in ignoring.HOSTS and name == "tmp"):
            return ""
        if self._wanted is Wanted.CHATS:
            return _no_place_of_chats(name, is_folder=is_folder)
        reason = ignoring.folder(name) if is_folder else ignoring.file(name)
        if not reason and ignored.leaves_out(path, is_folder=is_folder):
            return "left out by .gitignore"
        return reason

    def _file(self, path: Path, *, named: bool) -> Iterator[Entry]:
        try:
            mode = path.stat().st_mode
            if not stat.S_ISREG(mode):
                return self._skip(str(path), "no plain file")
            source = of_file(path)
            if not named and not self._promising(path):
                return self._skip(str(path), "neither a document nor a chat, by its name")
            beginning = head(source)
            if beginning.is_zip:
                yield from self._archive(path)
            else:
                yield from self._entry(source, beginning, named, self._known_as(path))
        except OSError as error:
            self._skip(str(path), f"it cannot be read: {error.strerror or error}")

    def _promising(self, path: Path) -> bool:
        name = path.name.lower()
        document = name.endswith(_DOCUMENTS) or name in _NAMELESS or name in ignoring.HISTORIES
        if self._wanted is Wanted.DOCUMENTS:
            return document
        return name.endswith(_CHATS) or (document and self._wanted is Wanted.EVERYTHING)

    def _known_as(self, path: Path) -> str:
        return path.name if path == self.root else path.relative_to(self.root).as_posix()

    def _archive(self, path: Path) -> Iterator[Entry]:
        try:
            archive = Archive(path, self._skip)
        except ArchiveError as error:
            return self._skip(str(path), str(error))
        self._archives.append(archive)
        for member in archive.members:
            if not member.leaf.lower().endswith((*_CHATS, *_DOCUMENTS)) or member.leaf.startswith("."):
                self._skip(member.name, "neither a document nor a chat, by its name")
                continue
            try:
                beginning = head(member)
            except OSError as error:
                self._skip(member.name, str(error))
                continue
            if beginning.is_zip:
                self._skip(member.name, "an archive in an archive; unpack it first")
            else:
                yield from self._entry(member, beginning, False, member.name.partition("!/")[2])

    def _entry(self, source: Source, beginning: Head, named: bool, known_as: str) -> Iterator[Entry]:
        found = detect(source, beginning)
        if isinstance(found, Unknown):
            return self._skip(source.name, found.reason)
        if reason := self._unwanted(found.format, source, beginning, named):
            return self._skip(source.name, reason)
        yield Entry(source, found, self._is_own(found.format, source, named), known_as)

    def _unwanted(self, format: Format, source: Source, beginning: Head, named: bool) -> str:
        if named:
            return ""
        if not format.is_document:
            chats = format in _IN_REPOSITORIES or self._wanted is not Wanted.DOCUMENTS
            return "" if chats else "a chat; ingest_conversations reads it"
        if self._wanted is Wanted.CHATS:
            return "no conversation; ingest_directory reads documents"
        if source.size > self._most:
            return f"larger than {self._most:,} bytes"
        return "made by a program, as it says itself" if ignoring.generated(beginning.text) else ""

    def _is_own(self, format: Format, source: Source, named: bool) -> bool:
        """Whether what a person says in it is taken for the owner's words. A repository brings whatever its authors
        put into it, conversations too."""
        if self._own is not None:
            return self._own
        if format.is_document or self._wanted is Wanted.DOCUMENTS:
            return False
        return self._wanted is Wanted.CHATS or named or not self._in_project(source)

    def _in_project(self, source: Source) -> bool:
        """Whether it lies in a repository, or below the path asked for in what looks like somebody's project."""
        if source.path is None and any(one.leaf in _PROJECT for one in self._archives[-1].members):
            return True
        place = (source.path or self._archives[-1].path).parent
        return any(
            self._holds(folder, _PROJECT if folder.is_relative_to(self.root) else _REPOSITORY)
            for folder in (place, *place.parents)
        )

    def _skip(self, name: str, reason: str) -> None:
        self.skipped.append(Skipped(name, reason))

    def close(self) -> None:
        for archive in self._archives:
            archive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _no_place_of_chats(name: str, *, is_folder: bool) -> str:
    if not is_folder:
        return "hidden" if name.startswith(".") else ""
    if name in ("node_modules", "__pycache__", "site-packages"):
        return "a folder of tools or of what they made"
    return "hidden" if name.startswith(".") and name not in ignoring.HOSTS else ""


def _holds(folder: Path, names: tuple[str, ...]) -> bool:
    return any((folder / name).exists() for name in names)
