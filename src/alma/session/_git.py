"""What `git` says of a folder: quietly, within a time, and without running anything that the repository names."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

COMMITS = 5
CHANGED = 20
_SUBJECT_CHARS = 100
_OUTPUT = 1_000_000
_LEAST = 0.1
_MARK = "\x1f"
# A file monitor or a signature check is a program that the repository's own configuration may name.
_QUIET = ("-c", "core.fsmonitor=false", "-c", "log.showSignature=false", "-c", "core.quotePath=false", "--no-pager")


def look(folder: Path, seconds: float) -> dict[str, Any] | None:
    """Branch, changes and recent commits; None without git, without a repository, or when it takes too long.

    Of a repository so large that the changes cannot be listed in time, the rest is told without them.
    """
    program = shutil.which("git")
    # Looked for here because starting a program in vain takes longer.
    if program is None or not any((place / ".git").exists() for place in (folder, *folder.parents)):
        return None
    asked = [program, "-C", str(folder), *_QUIET]
    status = _Call([*asked, "status", "--porcelain=v2", "--branch", "--untracked-files=normal"])
    log = _Call([*asked, "log", f"-{COMMITS}", f"--format=%h{_MARK}%cI{_MARK}%s"])
    deadline = time.monotonic() + seconds
    commits, told = log.answer(deadline), status.answer(deadline)
    if told is None and commits is None:
        return None
    found = _status(told) if told is not None else {**_NO_STATUS, "branch": _branch(asked)}
    return {**found, "recent_commits": _commits(commits or "")}


class _Call:
    """A program that runs while others do."""

    def __init__(self, command: list[str]) -> None:
        # It must neither ask anybody anything nor lock what the person is working on.
        quiet = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        try:
            self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=quiet,
                # On Windows a window would open for a moment.
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError:
            self._process = None

    def answer(self, deadline: float) -> str | None:
        if self._process is None:
            return None
        try:
            out, _ = self._process.communicate(timeout=max(_LEAST, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            return None
        return None if self._process.returncode else out[:_OUTPUT].decode("utf-8", "replace")


def _branch(asked: list[str]) -> str | None:
    return (_Call([*asked, "branch", "--show-current"]).answer(time.monotonic() + _LEAST) or "").strip() or None


_NO_STATUS: dict[str, Any] = {
    "branch": None, "head": None, "upstream": None, "ahead": 0, "behind": 0, "clean": None,
    "staged": 0, "modified": 0, "untracked": 0, "conflicted": 0, "changed_files": [],
}  # fmt: skip


def _status(told: str) -> dict[str, Any]:
    found: dict[str, Any] = {**_NO_STATUS, "changed_files": []}
    for line in told.splitlines():
        if line.startswith("# branch."):
            _heading(found, line.removeprefix("# branch."))
        elif line[:2] in ("1 ", "2 ", "u ", "? "):
            _change(found, line)
    found["clean"] = not (found["staged"] or found["modified"] or found["untracked"] or found["conflicted"])
    return found


def _heading(found: dict[str, Any], line: str) -> None:
    name, _, value = line.partition(" ")
    if name == "oid":
        found["head"] = None if value == "(initial)" else value[:12]
    elif name == "head":
        found["branch"] = None if value == "(detached)" else value
    elif name == "upstream":
        found["upstream"] = value
    elif name == "ab":
        ahead, behind = value.split()
        found["ahead"], found["behind"] = abs(int(ahead)), abs(int(behind))


_PATH_AFTER = {"1": 8, "2": 9, "u": 10, "?": 1}
"""After so many spaces the path begins, which may hold spaces itself."""


def _change(found: dict[str, Any], line: str) -> None:
    kind = line[0]
    path = line.split(" ", _PATH_AFTER[kind])[-1].partition("\t")[0]
    if kind == "?":
        found["untracked"] += 1
    elif kind == "u":
        found["conflicted"] += 1
    else:
        found["staged"] += line[2] != "."
        found["modified"] += line[3] != "."
    if len(found["changed_files"]) < CHANGED:
        found["changed_files"].append(path)


def _commits(told: str) -> list[dict[str, str]]:
    parts = [line.split(_MARK, 2) for line in told.splitlines() if line.count(_MARK) >= 2]
    return [{"hash": name, "when": when, "subject": subject[:_SUBJECT_CHARS]} for name, when, subject in parts]
