"""Which files below a path are read, in which format, and why the others are skipped.

Links are not followed, and only regular files are opened. Folders of tools, generated files and files that git ignores
are skipped.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ..errors import ValidationError
from ..ignore import IgnorePattern
from ..tracked import find_tracked_places
from .authors import Authorship
from .formats import IN_PROJECTS, QUOTED, Format, FormatReader, detect_format
from .sources import Archive, FileHead, Source, open_archive, open_file, read_head

DOCUMENT_BYTES = 2 * 1024 * 1024
_MAX_DEPTH = 64
_MAX_IGNORE_BYTES = 256 * 1024
_DOCUMENTS = tuple(".md .markdown .mdx .txt .text .rst .adoc .asciidoc .org".split())
_NAMELESS = frozenset("readme changelog contributing authors notes todo decisions history".split())
_CHATS = tuple(".json .jsonl .ndjson .md .markdown .txt .log .zip .vscdb".split())
_REPOSITORY = (".git", ".hg", ".svn", ".jj")
# Files that show that a folder is a project, even if it was unpacked from an archive without its history.
_PROJECT = tuple(
    """.git .hg .svn .jj .gitignore .github package.json pyproject.toml setup.py Cargo.toml go.mod pom.xml build.gradle
    Gemfile composer.json CMakeLists.txt Makefile""".split()
)
_TOOL_FOLDERS = frozenset(
    """node_modules bower_components jspm_packages __pycache__ venv env virtualenv site-packages vendor third_party
    thirdparty dist build out target bin obj coverage htmlcov _build _site tmp temp logs cache egg-info
    DerivedData Pods""".split()
)
_HISTORIES = frozenset({".specstory", ".aider.chat.history.md"})  # Hidden files that hold conversations.
_HOSTS = frozenset({".claude", ".codex", ".gemini", ".cursor", ".qwen"})  # Folders in which agents store conversations.
_TOOL_FILES = re.compile(
    r"(?:.*[-.]lock|.*lock\.(?:json|ya?ml)|requirements.*\.txt|constraints.*\.txt|cmakelists\.txt|robots\.txt|.*\.min\..*"
    r"|(?:licen[cs]e|copying|notice|unlicense)(?:[-._].*)?|third[-_]party.*|.*\.(?:map|snap|pyc|svg))",
    re.I,
)
_GENERATED = re.compile(
    r"@generated\b|\bauto-?generated\b|\bgenerated (?:by|from|file)\b.*\bdo not edit\b|\bdo not edit\b", re.I
)


class Wanted(StrEnum):
    """Which files of a folder are read. A file that is passed directly is always read."""

    EVERYTHING = "everything"
    DOCUMENTS = "documents"  # A project's documents, and conversation histories stored in the project.
    CHATS = "chats"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was not read, and the reason."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Planned:
    """A file that will be read, its format and its unpacked size."""

    path: str
    format: Format
    bytes: int
    own: bool = False  # Whether the person in it is the user whose memory this is.


@dataclass(frozen=True, slots=True)
class Plan:
    """The files below a path that would be read, and those that would be skipped."""

    root: str
    files: tuple[Planned, ...]
    skipped: tuple[Skipped, ...]

    @property
    def bytes(self) -> int:
        """The total unpacked size of the files."""
        return sum(one.bytes for one in self.files)

    @property
    def formats(self) -> dict[str, int]:
        """The number of files of each format."""
        return dict(sorted(Counter(str(one.format) for one in self.files).items()))


class FileEntry(NamedTuple):
    """A file to read."""

    source: Source
    reader: FormatReader
    own: bool
    known_as: str  # The name of a document: its path relative to the folder that is read.


_IgnoreRule = tuple[Path, IgnorePattern]  # A line of the `.gitignore` of a folder.


class Catalogue:
    """Lists all files below a path, once. Archives stay open until the catalogue is closed."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        selection: Wanted = Wanted.EVERYTHING,
        *,
        own: bool | None = None,
        max_file_bytes: int = DOCUMENT_BYTES,
    ) -> None:
        root = Path(path).expanduser()
        self.entries: list[FileEntry] = []
        self.skipped: list[Skipped] = []
        self._selection = selection
        self._own = own
        self._max_bytes = max_file_bytes
        self._archives: list[Archive] = []
        self._authorship = Authorship()
        self.shared = 0
        """How many files of a folder that is the user's own were also written by others."""
        self._has_any = lru_cache(maxsize=4096)(lambda folder, names: any((folder / one).exists() for one in names))
        try:
            exists = root.exists()
        except OSError as error:
            raise ValidationError(f"path is not a valid file name: {error.strerror}") from None
        if not exists:
            raise ValidationError(f"there is no file or folder {str(root)!r}; check the path")
        self.root = root.resolve()
        if self.root.is_dir():
            self._walk(self.root, [], _MAX_DEPTH)
        else:
            self._list_file(self.root, is_named=True)

    @property
    def plan(self) -> Plan:
        """The files that will be read and those that are skipped."""
        files = (Planned(one.source.name, one.reader.format, one.source.size, one.own) for one in self.entries)
        return Plan(str(self.root), tuple(files), tuple(self.skipped))

    def close(self) -> None:
        """Close the archives."""
        for archive in self._archives:
            archive.zip.close()

    def find_beside(self, source: Source, name: str) -> Source | None:
        """Return the file with that name in the folder of a source, or in the folder above it."""
        if source.path is not None:
            near = (source.path.parent.parent / name, source.path.parent / name)
            return next((open_file(one) for one in near if one.is_file() and not one.is_symlink()), None)
        folder = source.name.rpartition("/")[0]
        paths = {f"{folder}/{name}", f"{folder.rpartition('/')[0]}/{name}"}
        return next((one for archive in self._archives for one in archive.members if one.name in paths), None)

    def _skip(self, name: str, reason: str) -> None:
        self.skipped.append(Skipped(name, reason))

    def _walk(self, folder: Path, ignores: list[_IgnoreRule], depth: int) -> None:
        try:
            listed = sorted(os.scandir(folder), key=lambda one: one.name) if depth else []
        except OSError as error:
            self._skip(str(folder), f"the folder cannot be opened: {error.strerror}")
            return
        if not depth:
            self._skip(str(folder), f"more than {_MAX_DEPTH} folders deep")
        ignores = [*ignores, *((folder, rule) for rule in _read_ignore_rules(folder))]
        for one in listed:
            path, is_folder = Path(one.path), one.is_dir(follow_symlinks=False)
            if one.is_symlink():
                self._skip(one.path, "a link; links are not followed")
            elif reason := self._find_skip_reason(path, ignores, is_folder):
                self._skip(one.path, reason)
            elif is_folder:
                self._walk(path, ignores, depth - 1)
            else:
                self._list_file(path, is_named=False)

    def _find_skip_reason(self, path: Path, ignores: list[_IgnoreRule], is_folder: bool) -> str:
        """Return why a file or folder is skipped without opening it; empty if it is not."""
        name = path.name
        if name in _HISTORIES or (is_folder and path.parent.name in _HOSTS and name == "tmp"):
            return ""
        is_chats = self._selection is Wanted.CHATS
        tools = ("node_modules", "__pycache__", "site-packages") if is_chats else _TOOL_FOLDERS
        if is_folder and (name in tools or (not is_chats and name.endswith(".egg-info"))):
            return "a folder of tools or generated files"
        if name.startswith(".") and not (is_folder and is_chats and name in _HOSTS):
            return "hidden"
        if is_chats:
            return ""
        if not is_folder and _TOOL_FILES.fullmatch(name):
            return "a lock file, licence or tool configuration"
        is_ignored = False
        for top, rule in ignores:
            names = path.relative_to(top).parts
            if (is_folder or not rule.is_for_folders) and len(names) in rule.match(names):
                is_ignored = not rule.is_negated
        return "ignored by .gitignore" if is_ignored else ""

    def _list_file(self, path: Path, *, is_named: bool) -> None:
        """List a file or skip it; `is_named` if the caller passed this very file."""
        name, selection = path.name.lower(), self._selection
        is_document = name.endswith(_DOCUMENTS) or name in _NAMELESS or name in _HISTORIES
        is_chat = name.endswith(_CHATS) and selection is not Wanted.DOCUMENTS
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                self._skip(str(path), "not a regular file")
            elif not (is_named or is_chat or (is_document and selection is not Wanted.CHATS)):
                is_other = is_document or name.endswith(_CHATS)
                reason = f"left out by --only {selection}" if is_other else "neither a document nor a chat, by its name"
                self._skip(str(path), reason)
            else:
                known_as = path.name if path == self.root else path.relative_to(self.root).as_posix()
                self._examine(open_file(path), is_named, known_as)
        except OSError as error:
            self._skip(str(path), f"the file cannot be read: {error.strerror or error}")

    def _examine(self, source: Source, is_named: bool, known_as: str) -> None:
        """List a file or a member of an archive by its content, or skip it. Raises OSError if it cannot be read."""
        head = read_head(source)
        if head.binary == "an archive" and source.path is not None:
            self._list_archive(source.path)
            return
        reader = detect_format(source, head)
        if self._selection is Wanted.CHATS and not isinstance(reader, str) and reader.format.is_document:
            assert QUOTED.is_text is not None
            reader = QUOTED if QUOTED.is_text(head.text) else reader
        if not is_named and not isinstance(reader, str):
            reader = self._refuse(reader, source, head) or reader
        if isinstance(reader, str):
            self._skip(source.name, reader)
            return
        own = self._own
        if own is None:
            # Conversations in a repository may be those of its authors.
            is_possible = not reader.format.is_document and self._selection is not Wanted.DOCUMENTS
            is_chosen = self._selection is Wanted.CHATS or is_named or not self._is_in_project(source)
            own = is_possible and is_chosen and not self._is_tracked(source)
        elif own and not is_named:
            # A folder that is a person's own may hold files that others committed.
            own = self._authorship.is_own_file(source.path or self._archives[-1].path)
            self.shared += not own
        self.entries.append(FileEntry(source, reader, own, known_as))

    def _list_archive(self, path: Path) -> None:
        archive = open_archive(path, self._skip)
        self._archives.append(archive)
        for member in archive.members:
            try:
                if member.leaf.lower().endswith((*_CHATS, *_DOCUMENTS)) and not member.leaf.startswith("."):
                    self._examine(member, False, member.name.partition("!/")[2])
                else:
                    self._skip(member.name, "neither a document nor a chat, by its name")
            except OSError as error:
                self._skip(member.name, str(error))

    def _refuse(self, reader: FormatReader, source: Source, head: FileHead) -> str:
        """Return why a file in a folder is skipped; empty if it is read."""
        if not reader.format.is_document:
            is_selected = reader.format in IN_PROJECTS or self._selection is not Wanted.DOCUMENTS
            return "" if is_selected else "a chat, and only documents are read"
        if self._selection is Wanted.CHATS:
            return "a document, and only conversations are read"
        if source.size > self._max_bytes:
            return f"larger than {self._max_bytes:,} bytes"
        is_generated = _GENERATED.search("\n".join(head.text[:1_000].split("\n")[:5]))
        return "a generated file, as its first lines say" if is_generated else ""

    def _is_tracked(self, source: Source) -> bool:
        """Return whether git tracks a file, or the archive that it is in, so that others may have written it."""
        return bool(find_tracked_places(source.path or self._archives[-1].path))

    def _is_in_project(self, source: Source) -> bool:
        """Return whether a file is in a repository, or in a project below the path that is read."""
        if source.path is None and any(one.leaf in _PROJECT for one in self._archives[-1].members):
            return True
        return any(
            self._has_any(folder, _PROJECT if folder.is_relative_to(self.root) else _REPOSITORY)
            for folder in (source.path or self._archives[-1].path).parents
        )


def _read_ignore_rules(folder: Path) -> list[IgnorePattern]:
    file = folder / ".gitignore"
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > _MAX_IGNORE_BYTES:
            return []
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [IgnorePattern(line) for line in lines if line.strip() and not line.startswith("#")]
