"""Tell which files in git repositories are the user's own: git does not track them, or only the user committed them.

Authors of commits can be forged, so this decides nothing alone: it narrows what a person declared as their own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from ..tracked import find_tracked_places

_SECONDS = 60
# A file monitor or a signature check is a program that the repository's own configuration may name.
_QUIET = ("core.fsmonitor=false", "log.showSignature=false", "core.quotePath=false", "core.hooksPath=/dev/null")


class Authorship:
    """Answers for the files of one import; each repository is read once."""

    def __init__(self) -> None:
        self._authors: dict[Path, Mapping[str, set[str]]] = {}
        self._own: frozenset[str] | None = None

    def is_own_file(self, path: Path) -> bool:
        """Return whether git does not track a file, or its commits have only the user's own address as author."""
        if not find_tracked_places(path):
            return True
        top = next((folder for folder in path.parents if (folder / ".git").exists()), None)
        if top is None:
            return False
        if self._own is None:
            self._own = _find_own_addresses()
        if top not in self._authors:
            self._authors[top] = _list_authors(top)
        authors = self._authors[top].get(path.relative_to(top).as_posix(), set())
        return bool(authors) and authors <= self._own


def _find_own_addresses() -> frozenset[str]:
    """Return the addresses in the user's global settings; those of a repository are the repository's."""
    lines = _run_git(Path.home(), "config", "--global", "--get-all", "user.email")
    return frozenset(line.strip().lower() for line in lines)


def _list_authors(top: Path) -> Mapping[str, set[str]]:
    """Return the addresses of the authors of each file of a repository; nothing if git fails."""
    authors: defaultdict[str, set[str]] = defaultdict(set)
    author = ""
    for line in _run_git(top, "log", "--format=%x00%ae", "--name-only", "--no-renames"):
        if line.startswith("\0"):
            author = line[1:].lower()
        elif line:
            authors[line].add(author)
    return authors


def _run_git(folder: Path, *arguments: str) -> list[str]:
    program = shutil.which("git")
    if program is None:
        return []
    options = [part for option in _QUIET for part in ("-c", option)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        run = subprocess.run(
            [program, "-C", str(folder), "--no-pager", *options, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=_SECONDS,
            check=False,
            encoding="utf-8",
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return run.stdout.splitlines() if run.returncode == 0 else []
