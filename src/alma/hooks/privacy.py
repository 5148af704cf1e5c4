"""What is nobody's business never reaches the disk: private passages, ignored paths, paused projects."""

from __future__ import annotations

import json
import os
import re
import sys

from . import log
from .place import Place
from .project import FOLDER, Project, writable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# Each letter is spelled in both cases, so that the search can jump from one `<` to the next. Compiled where needed.
_TAG = r"<\s{0,3}(/?)\s{0,3}[pP][rR][iI][vV][aA][tT][eE](?:\s[^<>]{0,200})?>"
_MOST = 256 * 1024


def public(text: str) -> str:
    """The text without its `<private>…</private>` passages; one that is not closed goes on to the end."""
    if "<" not in text:
        return text
    kept: list[str] = []
    start, depth = 0, 0
    for tag in re.finditer(_TAG, text):
        if not depth:
            kept.append(text[start : tag.start()])
        depth = max(0, depth - 1) if tag[1] else depth + 1
        start = tag.end()
    if not depth:
        kept.append(text[start:])
    return "".join(kept)


def mentions_private(raw: bytes) -> bool:
    """Whether it is worth looking for private passages: of tens of megabytes, this is told much faster."""
    return b"private" in raw.lower()


# -- pausing


def is_paused(place: Place, key: str, event: str = "") -> bool:
    """Whether this project is, or all are. A file that cannot be read may have meant this one."""
    try:
        with open(place.paused, "rb") as file:
            told = json.loads(file.read(_MOST))
        return told.get("everywhere") is True or key in told.get("projects", ())
    except FileNotFoundError:
        return False
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        log.note(place, event, f"paused.json cannot be read ({type(error).__name__}): nothing is kept until it can be")
        return True


# -- ignored paths


class Ignored:
    """The patterns of all `.claude-smart/ignore` files from the working folder up to the project's root."""

    __slots__ = ("_cwd", "_files")

    def __init__(self, cwd: str, files: list[tuple[str, list[Pattern]]]) -> None:
        self._cwd = cwd
        self._files = files

    @property
    def everything(self) -> bool:
        return any(pattern.everything for _, patterns in self._files for pattern in patterns)

    def touches(self, tool_input: Any) -> bool:
        """Whether a tool's input names an ignored path."""
        return bool(self._files) and any(self.matches(path) for path in paths(tool_input))

    def matches(self, path: str) -> bool:
        path = writable(os.path.expanduser(path) if path.startswith("~/") else path)
        named = os.path.normcase(os.path.normpath(os.path.join(self._cwd, path)))
        # A link may lead into what is ignored, and the way to the project may lead over one.
        meant = {named, os.path.normcase(os.path.realpath(named))}
        return any(_decided(patterns, folder, full) for folder, patterns in self._files for full in meant)


def ignored(project: Project, cwd: str) -> Ignored:
    files = []
    for folder in project.folders:
        try:
            with open(os.path.join(folder, FOLDER, "ignore"), "rb") as file:
                lines = file.read(_MOST).decode("utf-8", "replace").splitlines()
        except OSError:
            continue
        patterns = [Pattern(line) for line in lines if line.strip() and not line.startswith("#")]
        files.append((folder, patterns))
    return Ignored(os.path.normcase(os.path.realpath(cwd)), files)


def _decided(patterns: list[Pattern], folder: str, path: str) -> bool:
    """As in git the last pattern that matches decides, and what is in an ignored folder is ignored."""
    below = os.path.relpath(path, folder).replace(os.sep, "/")
    if below == ".." or below.startswith("../"):
        return False
    parts = below.split("/")
    held = ["/".join(parts[: i + 1]) for i in range(len(parts))]
    verdict = False
    for pattern in patterns:
        if any(map(pattern.fits, held)):
            verdict = not pattern.negated
    return verdict


class Pattern:
    """One line of an ignore file, read as git reads it, but that what is meant for folders holds for files too."""

    __slots__ = ("everything", "fits", "negated")

    def __init__(self, line: str) -> None:
        text = line.strip()
        self.everything = text == "*"
        self.negated = text.startswith("!")
        text = text[1:] if self.negated or text.startswith(("\\#", "\\!")) else text
        text = text.rstrip("/")
        start = "" if "/" in text else "(?:.*/)?"
        self.fits = _compiled(start, text.lstrip("/")).match


def _compiled(start: str, pattern: str) -> re.Pattern[str]:
    how = re.S | re.I if sys.platform in ("win32", "darwin") else re.S
    try:
        return re.compile(f"{start}{_translated(pattern)}\\Z", how)
    except re.error:
        # Such as `[z-a]`: then it means itself.
        return re.compile(f"{start}{re.escape(pattern)}\\Z", how)


def _translated(pattern: str) -> str:
    out, i = [], 0
    while i < len(pattern):
        if pattern.startswith("**/", i):
            out.append("(?:.*/)?")
            i += 3
        elif pattern.startswith("**", i):
            out.append(".*")
            i += 2
        elif pattern[i] == "[" and (end := pattern.find("]", i + 2)) > 0:
            inner = pattern[i + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            out.append(f"[{'^' + inner[1:] if inner[0] in '!^' else inner}]")
            i = end + 1
        else:
            out.append({"*": "[^/]*", "?": "[^/]"}.get(pattern[i]) or re.escape(pattern[i]))
            i += 1
    return "".join(out)


_WORD = r"[^\s\"'`|&;<>()$={},@]+"
_NAMES = ("path", "file", "dir", "folder", "uri", "notebook")
_COMMANDS = frozenset(("command", "commands", "cmd", "script", "code", "args", "arguments", "pattern", "glob"))
_DEEPEST = 5
_ITEMS = 1000


def paths(value: Any, name: str = "", depth: int = 0) -> Iterator[str]:
    """What in a tool's input may be a path: fields that say so, and the words of a command."""
    if isinstance(value, dict | list) and depth < _DEEPEST:
        named = value.items() if isinstance(value, dict) else ((name, item) for item in value[:_ITEMS])
        for key, item in named:
            yield from paths(item, str(key).lower(), depth + 1)
    elif isinstance(value, str) and any(part in name for part in _NAMES):
        yield value.removeprefix("file://")[:4096]
    elif isinstance(value, str) and name in _COMMANDS:
        for word in dict.fromkeys(re.findall(_WORD, value[:_MOST])):
            yield word
            # `git show HEAD:a/b`, `host:a/b`
            yield from word.split(":")[1:]
