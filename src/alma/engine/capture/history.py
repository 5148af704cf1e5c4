"""The transcripts that the host keeps of earlier sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from . import transcript

_SUFFIX = ".jsonl"
_FIRST_LINES = 200


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """A transcript: the session it is of, the folder that was worked in, bytes, and seconds since 1970."""

    path: Path
    session: str
    cwd: str
    size: int
    modified: float


def sessions(folder: Path | str) -> Iterator[HistoryFile]:
    """The sessions under a Claude folder, newest first; those of subagents are parts of them and left out.

    A file that is empty, gone or not readable by now is passed over.
    """
    found = sorted(_files(Path(folder) / "projects"), key=lambda one: (-one[2], str(one[0])))
    for path, size, modified in found:
        origin = _origin(path)
        if origin is not None:
            yield HistoryFile(path, path.name.removesuffix(_SUFFIX), origin.cwd, size, modified)


def _files(folder: Path) -> Iterator[tuple[Path, int, float]]:
    for project in _entries(folder):
        if not project.is_dir():
            continue
        for entry in _entries(Path(project.path)):
            if not entry.name.endswith(_SUFFIX) or entry.name.startswith("agent-"):
                continue
            try:
                known = entry.stat()
                is_file = entry.is_file()
            except OSError:
                continue
            if is_file:
                yield Path(entry.path), known.st_size, known.st_mtime


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def _origin(path: Path) -> transcript.Origin | None:
    try:
        with path.open("rb") as file:
            return transcript.cwd_of(islice(transcript.lines(file), _FIRST_LINES))
    except OSError:
        return None
