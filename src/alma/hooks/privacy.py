"""What is nobody's business never reaches the disk: secrets, private passages, ignored paths, paused projects.

Long texts are shortened in an order that never leaves half a secret behind. The part that is kept is redacted together
with a good piece of what is not, and only then cut to its length: a secret that lies across the cut is seen whole.
Tens of megabytes are cut before anything else looks at them.
"""

from __future__ import annotations

import json
import os
import re

from .paths import MOST_CHARS, log_problem, redact_text
from .project import clean_path, read_own_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..ignore import IgnorePattern
    from .paths import DataDir
    from .project import WorkingCopy

# Each letter is spelled in both cases, so that the search can jump from one `<` to the next. Compiled where needed.
_TAG = r"<\s{0,3}(/?)\s{0,3}[pP][rR][iI][vV][aA][tT][eE](?:\s[^<>]{0,200})?>"
_MOST = 256 * 1024
_MOST_PATTERNS = 1000


def remove_private(text: str) -> str:
    """Return the text without its `<private>…</private>` passages; one that is not closed goes on to the end."""
    # In tens of megabytes a mere search tells much faster whether there may be any.
    if "<" not in text or "private" not in text.lower():
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


# -- secrets

CUT = " … "
_MARGIN = 4096
"""So much of what is left out is looked at: more than the longest keys and tokens take."""
_BREAKS = " \t\r\n\"'`,;<>(){}[]|"
_MARK = "[REDACTED:"
_DEEPEST = 8
_ITEMS = 200
_NAME = 100


def redact_and_cut(text: str, head: int, tail: int = 0) -> str:
    """Return what may be written of a text: at most about `head` characters of its start and `tail` of its end."""
    text = remove_private(text)
    if len(text) <= head + tail:
        return redact_text(text)
    # Without the token that the cut goes through, and without a key block that is not closed.
    start = text[: head + _MARGIN]
    opened = start.rfind("-----BEGIN ")
    if opened >= 0 and "-----END " not in start[opened:]:
        start = start[:opened]
    start = start[: max(start.rfind(sign) for sign in _BREAKS) + 1]
    rest = text[-(tail + _MARGIN) :] if tail else ""
    closed, opened = rest.find("-----END "), rest.find("-----BEGIN ")
    if closed >= 0 and (opened < 0 or closed < opened):
        rest = rest[closed + len("-----END ") :]
    rest = rest[min((place for sign in _BREAKS if (place := rest.find(sign)) >= 0), default=len(rest)) :]
    return _cut_start(redact_text(start), head) + CUT + _cut_end(redact_text(rest), tail)


def _find_mark(text: str, at: int) -> tuple[int, int]:
    """Return where a redaction's own mark begins and ends that lies across a place; that place when none does.

    It is not cut in two either: what is left of one would read like a secret's name.
    """
    mark = text.rfind(_MARK, 0, at + len(_MARK) - 1)
    end = text.find("]", mark) + 1 if mark >= 0 else 0
    return (mark, end) if end > at else (at, at)


def _cut_start(text: str, most: int) -> str:
    return text if len(text) <= most else text[: _find_mark(text, most)[0]]


def _cut_end(text: str, most: int) -> str:
    return text if len(text) <= most else text[_find_mark(text, len(text) - most)[1] :]


def cut_redacted(text: str, head: int, tail: int = 0) -> str:
    """Return the start and the end of a text that has no secrets left."""
    return text if len(text) <= head + tail else _cut_start(text, head) + CUT + _cut_end(text, tail)


class Trimmer:
    """Shortens and redacts JSON values. `room` is what all strings together may still take."""

    __slots__ = ("room",)

    def __init__(self, room: int) -> None:
        self.room = room

    def trim(self, value: Any, name: str = "", depth: int = 0) -> Any:
        if isinstance(value, str):
            return self._trim_text(value, name)
        if isinstance(value, int | float | None):
            return value
        if depth >= _DEEPEST:
            return CUT
        if isinstance(value, list):
            return [self.trim(item, name, depth + 1) for item in value[:_ITEMS]]
        out: dict[str, Any] = {}
        for key, item in value.items():
            if len(out) >= _ITEMS or self.room <= 0:
                break
            key = redact_and_cut(key, _NAME, 0)
            self.room -= len(key)
            out[key] = self.trim(item, key, depth + 1)
        return out

    def _trim_text(self, text: str, name: str) -> str:
        if self.room <= 0:
            return CUT
        head, tail = min(3000, self.room), min(1000, max(0, self.room - 3000))
        # `{"password": "hunter2"}` gives itself away only by both together.
        start = f"{name}=" if name else ""
        trimmed = redact_and_cut(start + text, head + len(start), tail)
        if not trimmed.startswith(start):
            trimmed = start + redact_and_cut(text, head, tail)
        self.room -= len(trimmed) - len(start)
        return trimmed.removeprefix(start)


# -- pausing


def is_paused(data_dir: DataDir, key: str, event: str = "") -> bool:
    """Return whether this project is paused, or all are. A file that cannot be read may have meant this one."""
    try:
        with open(data_dir.paused, "rb") as file:
            paused = json.loads(file.read(_MOST))
        return paused.get("everywhere") is True or key in paused.get("projects", ())
    except FileNotFoundError:
        return False
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        problem = f"paused.json cannot be read ({type(error).__name__}): nothing is kept until it can be"
        log_problem(data_dir, event, problem)
        return True


# -- ignored paths


class IgnoreRules:
    """The patterns of all `.claude-smart/ignore` files from the working folder up to the project's root.

    What git means for folders holds for files here, too.
    """

    def __init__(self, project: WorkingCopy, cwd: str) -> None:
        self._cwd = os.path.normcase(os.path.realpath(cwd))
        self._files: list[tuple[str, list[IgnorePattern]]] = []
        for folder in project.folders:
            text = read_own_file(folder, "ignore")
            lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
            if len(lines) > _MOST_PATTERNS or len(text) >= MOST_CHARS:
                # Nobody wrote so many by hand. To look at them all would hold up every call, and to leave some out
                # would write down what was to be ignored.
                lines = ["*"]
            if lines:
                from ..ignore import IgnorePattern

                self._files.append((folder, [IgnorePattern(line) for line in lines]))

    @property
    def covers_everything(self) -> bool:
        return any(pattern.covers_everything for _, patterns in self._files for pattern in patterns)

    def touches(self, tool_input: Any) -> bool:
        """Return whether a tool's input names an ignored path."""
        return bool(self._files) and any(self.matches(path) for path in find_paths(tool_input))

    def matches(self, path: str) -> bool:
        """Return whether a path is ignored. As in git, the last pattern that matches decides."""
        path = clean_path(os.path.expanduser(path) if path.startswith("~/") else path)
        named = os.path.normcase(os.path.normpath(os.path.join(self._cwd, path)))
        for folder, patterns in self._files:
            # A link may lead into what is ignored, and the way to the project may lead over one.
            for full in {named, os.path.normcase(os.path.realpath(named))}:
                names = os.path.relpath(full, folder).split(os.sep)
                verdicts = [not pattern.is_negated for pattern in patterns if pattern.match(names)]
                if names[0] != ".." and verdicts and verdicts[-1]:
                    return True
        return False


_WORD = r"[^\s\"'`|&;<>()$={},@]+"
_NAMES = ("path", "file", "dir", "folder", "uri", "notebook")
_COMMANDS = frozenset(("command", "commands", "cmd", "script", "code", "args", "arguments", "pattern", "glob"))


def find_paths(value: Any, name: str = "", depth: int = 0) -> Iterator[str]:
    """Yield what in a tool's input may be a path: fields that say so, and the words of a command."""
    if isinstance(value, dict | list) and depth < 5:
        named = value.items() if isinstance(value, dict) else ((name, item) for item in value[:1000])
        for key, item in named:
            yield from find_paths(item, str(key).lower(), depth + 1)
    elif isinstance(value, str) and any(part in name for part in _NAMES):
        yield value.removeprefix("file://")[:4096]
    elif isinstance(value, str) and name in _COMMANDS:
        for word in dict.fromkeys(re.findall(_WORD, value[:_MOST])):
            yield word
            # `git show HEAD:a/b`, `host:a/b`
            yield from word.split(":")[1:]
