"""The state of a git repository, read quietly, within a time, and without running anything the repository names."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

_MAX_COMMITS = 5
_MAX_CHANGES = 20
_SUBJECT_CHARS = 100
_MAX_OUTPUT = 1_000_000
_MIN_SECONDS = 0.1
_MARK = "\x1f"
# A file monitor or a signature check is a program that the repository's own configuration may name.
_QUIET = ("-c", "core.fsmonitor=false", "-c", "log.showSignature=false", "-c", "core.quotePath=false", "--no-pager")
_NO_STATUS: dict[str, Any] = {
    "branch": None, "head": None, "upstream": None, "ahead": 0, "behind": 0, "clean": None,
    "staged": 0, "modified": 0, "untracked": 0, "conflicted": 0, "changed_files": [],
}  # fmt: skip
_PATH_AFTER = {"1": 8, "2": 9, "u": 10, "?": 1}
"""After so many spaces the path begins, which may hold spaces itself."""


def read_repository(root: Path, seconds: float) -> dict[str, Any] | None:
    """Return branch, changes and recent commits; None without git, without a repository, or when it takes too long.

    When a repository is so large that the changes cannot be listed in time, the rest is returned without them.
    """
    program = shutil.which("git")
    # Looked for here because starting a program in vain takes longer.
    if program is None or not (root / ".git").exists():
        return None
    git = [program, "-C", str(root), *_QUIET]
    status_call = _start_git([*git, "status", "--porcelain=v2", "--branch", "--untracked-files=normal"])
    log_call = _start_git([*git, "log", f"-{_MAX_COMMITS}", f"--format=%h{_MARK}%cI{_MARK}%s"])
    deadline = time.monotonic() + seconds
    log, status = _read_output(log_call, deadline), _read_output(status_call, deadline)
    if status is None and log is None:
        return None
    if status is None:
        branch = _read_output(_start_git([*git, "branch", "--show-current"]), time.monotonic() + _MIN_SECONDS)
        state = {**_NO_STATUS, "branch": (branch or "").strip() or None}
    else:
        state = _parse_status(status)
    commits = [line.split(_MARK, 2) for line in (log or "").splitlines() if line.count(_MARK) >= 2]
    recent = [{"hash": hash, "when": when, "subject": subject[:_SUBJECT_CHARS]} for hash, when, subject in commits]
    return {**state, "recent_commits": recent}


def _start_git(command: list[str]) -> subprocess.Popen[bytes] | None:
    # It must neither ask anybody anything nor lock what the person is working on.
    quiet = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    # On Windows a window would open for a moment.
    flags = getattr(subprocess, "CREATE_NO_WINDOW", 0)
    null = subprocess.DEVNULL
    try:
        return subprocess.Popen(
            command, stdin=null, stdout=subprocess.PIPE, stderr=null, env=quiet, creationflags=flags
        )
    except OSError:
        return None


def _read_output(process: subprocess.Popen[bytes] | None, deadline: float) -> str | None:
    if process is None:
        return None
    try:
        out, _ = process.communicate(timeout=max(_MIN_SECONDS, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None
    return None if process.returncode else out[:_MAX_OUTPUT].decode("utf-8", "replace")


def _parse_status(status: str) -> dict[str, Any]:
    state: dict[str, Any] = {**_NO_STATUS, "changed_files": []}
    for line in status.splitlines():
        kind, _, rest = line.partition(" ")
        if kind in _PATH_AFTER:
            state["untracked"] += kind == "?"
            state["conflicted"] += kind == "u"
            state["staged"] += kind in "12" and rest[0] != "."
            state["modified"] += kind in "12" and rest[1] != "."
            state["changed_files"].append(line.split(" ", _PATH_AFTER[kind])[-1].partition("\t")[0])
            continue
        name, _, value = rest.partition(" ")
        if name == "branch.oid":
            state["head"] = None if value == "(initial)" else value[:12]
        elif name == "branch.head":
            state["branch"] = None if value == "(detached)" else value
        elif name == "branch.upstream":
            state["upstream"] = value
        elif name == "branch.ab":
            state["ahead"], state["behind"] = (abs(int(count)) for count in value.split())
    state["changed_files"] = state["changed_files"][:_MAX_CHANGES]
    state["clean"] = not (state["staged"] or state["modified"] or state["untracked"] or state["conflicted"])
    return state
