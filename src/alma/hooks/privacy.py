"""Keep private data off the disk: secrets, `<private>` passages, ignored paths and paused projects.

Long texts are shortened without leaving half a secret behind. The kept part is redacted together with a margin of the
text that follows, and only then cut to length, so a secret that lies across the cut is recognised as a whole. Texts of
tens of megabytes are cut before any other processing.
"""

from __future__ import annotations

import json
import os
import re

from .paths import MOST_CHARS, log_problem, read_regular_file, redact_text
from .project import clean_path, read_own_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..ignore import IgnorePattern
    from .paths import DataDir
    from .project import WorkingCopy

# Each letter is spelled in both cases: a case-insensitive pattern could not jump from one `<` to the next. Compiled
# where needed.
_TAG = r"<\s{0,3}(/?)\s{0,3}[pP][rR][iI][vV][aA][tT][eE](?:\s[^<>]{0,200})?>"
_MOST = 256 * 1024
_MOST_PATTERNS = 1000


def remove_private(text: str) -> str:
    """Return the text without its `<private>…</private>` passages. An unclosed passage extends to the end."""
    # In tens of megabytes, a plain search is much faster than the pattern.
    if "<" not in text or "private" not in text.lower():
        return text
    parts: list[str] = []
    start, depth = 0, 0
    for tag in re.finditer(_TAG, text):
        if not depth:
            parts.append(text[start : tag.start()])
        depth = max(0, depth - 1) if tag[1] else depth + 1
        start = tag.end()
    if not depth:
        parts.append(text[start:])
    return "".join(parts)


# -- secrets

CUT = " … "
_MARGIN = 4096
"""How many characters beyond the cut are redacted with the kept part; longer than the longest keys and tokens."""
_BREAKS = " \t\r\n\"'`,;<>(){}[]|"
_MARK = "[REDACTED:"
_DEEPEST = 8
_ITEMS = 200
_NAME = 100


def redact_and_cut(text: str, head: int, tail: int = 0) -> str:
    """Return a text without secrets, cut to about `head` characters of its start and `tail` of its end."""
    text = remove_private(text)
    if len(text) <= head + tail:
        return redact_text(text)
    # Leave out the token that the cut goes through, and a key block that is not closed.
    start = text[: head + _MARGIN]
    begin = start.rfind("-----BEGIN ")
    if begin >= 0 and "-----END " not in start[begin:]:
        start = start[:begin]
    start = start[: max(start.rfind(sign) for sign in _BREAKS) + 1]
    rest = text[-(tail + _MARGIN) :] if tail else ""
    end, begin = rest.find("-----END "), rest.find("-----BEGIN ")
    if end >= 0 and (begin < 0 or end < begin):
        rest = rest[end + len("-----END ") :]
    rest = rest[min((position for sign in _BREAKS if (position := rest.find(sign)) >= 0), default=len(rest)) :]
    return _cut_start(redact_text(start), head) + CUT + _cut_end(redact_text(rest), tail)


def _find_mark(text: str, at: int) -> tuple[int, int]:
    """Return the start and end of the `[REDACTED:…]` mark that spans position `at`; `(at, at)` if none does.

    A mark is never cut in two: the remainder would read like the name of a secret.
    """
    mark = text.rfind(_MARK, 0, at + len(_MARK) - 1)
    end = text.find("]", mark) + 1 if mark >= 0 else 0
    return (mark, end) if end > at else (at, at)


def _cut_start(text: str, most: int) -> str:
    return text if len(text) <= most else text[: _find_mark(text, most)[0]]


def _cut_end(text: str, most: int) -> str:
    return text if len(text) <= most else text[_find_mark(text, len(text) - most)[1] :]


def cut_redacted(text: str, head: int, tail: int = 0) -> str:
    """Return the start and the end of a text that is already redacted."""
    return text if len(text) <= head + tail else _cut_start(text, head) + CUT + _cut_end(text, tail)


class Trimmer:
    """Shortens and redacts JSON values. `room` is how many characters all strings together may still use."""

    __slots__ = ("room",)

    def __init__(self, room: int) -> None:
        self.room = room

    def trim(self, value: Any, name: str = "", depth: int = 0) -> Any:
        """Return a JSON value with its texts redacted and cut. `name` is the key it was found under."""
        if isinstance(value, str):
            return self._trim_text(value, name)
        if isinstance(value, int | float | None):
            return value
        if depth >= _DEEPEST:
            return CUT
        if isinstance(value, list):
            return [self.trim(item, name, depth + 1) for item in value[:_ITEMS]]
        from ..engine.redact import name_value

        out: dict[str, Any] = {}
        for field, item in value.items():
            if len(out) >= _ITEMS or self.room <= 0:
                break
            key = redact_and_cut(field, _NAME, 0)
            self.room -= len(key)
            name = name_value(value, field)
            out[key] = self.trim(item, key if name == field else name, depth + 1)
        return out

    def _trim_text(self, text: str, name: str) -> str:
        if self.room <= 0:
            return CUT
        head, tail = min(3000, self.room), min(1000, max(0, self.room - 3000))
        # In `{"password": "hunter2"}`, only name and value together look like a secret.
        start = f"{name}=" if name else ""
        trimmed = redact_and_cut(start + text, head + len(start), tail)
        if not trimmed.startswith(start):
            trimmed = start + redact_and_cut(text, head, tail)
        self.room -= len(trimmed) - len(start)
        return trimmed.removeprefix(start)


# -- pausing


def is_paused(data_dir: DataDir, key: str, event: str = "") -> bool:
    """Return whether this project is paused, or all are. If the file is unreadable, the project counts as paused."""
    try:
        paused = json.loads(read_regular_file(data_dir.paused, _MOST))
        return paused.get("everywhere") is True or key in paused.get("projects", ())
    except FileNotFoundError:
        return False
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        problem = f"paused.json cannot be read ({type(error).__name__}); nothing is recorded until it is repaired"
        log_problem(data_dir, event, problem)
        return True


# -- ignored paths


class IgnoreRules:
    """The patterns of all `.claude-smart/ignore` files from the working folder up to the project's root.

    Patterns follow the syntax of `.gitignore`; a pattern for a folder also matches a file of that name.
    """

    def __init__(self, project: WorkingCopy, cwd: str) -> None:
        self._cwd = os.path.normcase(os.path.realpath(cwd))
        self._files: list[tuple[str, list[IgnorePattern], PatternFilter]] = []
        for folder in project.folders:
            text = read_own_file(folder, "ignore")
            lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
            if len(lines) > _MOST_PATTERNS or len(text) >= MOST_CHARS:
                # Nobody writes so many by hand. Checking them all would slow down every call, and skipping some would
                # record ignored files. So everything is ignored.
                lines = ["*"]
            if lines:
                from ..ignore import IgnorePattern, PatternFilter

                patterns = [IgnorePattern(line) for line in lines]
                self._files.append((folder, patterns, PatternFilter(patterns)))

    @property
    def covers_everything(self) -> bool:
        """Return whether a pattern such as `*` ignores the whole project."""
        return any(pattern.covers_everything for _, patterns, _ in self._files for pattern in patterns)

    def touches(self, tool_input: Any) -> bool:
        """Return whether a tool's input contains an ignored path."""
        return bool(self._files) and any(self.matches(path) for path in find_paths(tool_input))

    def matches(self, path: str) -> bool:
        """Return whether a path is ignored. As in git, the last matching pattern decides."""
        path = clean_path(os.path.expanduser(path) if path.startswith("~/") else path)
        absolute = os.path.normcase(os.path.normpath(os.path.join(self._cwd, path)))
        for folder, patterns, pattern_filter in self._files:
            # A link may point into an ignored folder, and the path of the project may contain a link.
            for full in {absolute, os.path.normcase(os.path.realpath(absolute))}:
                names = os.path.relpath(full, folder).split(os.sep)
                if not pattern_filter.may_match(names):
                    continue
                verdicts = [not pattern.is_negated for pattern in patterns if pattern.match(names)]
                if names[0] != ".." and verdicts and verdicts[-1]:
                    return True
        return False


_WORD = r"[^\s\"'`|&;<>()$={},@]+"
_NAMES = ("path", "file", "dir", "folder", "uri", "notebook")
_COMMANDS = frozenset(("command", "commands", "cmd", "script", "code", "args", "arguments", "pattern", "glob"))


def find_paths(value: Any, name: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the strings in a tool's input that may be paths: fields with a path-like name, and words of commands."""
    if isinstance(value, dict | list) and depth < 5:
        pairs = value.items() if isinstance(value, dict) else ((name, item) for item in value[:1000])
        for key, item in pairs:
            yield from find_paths(item, str(key).lower(), depth + 1)
    elif isinstance(value, str) and any(part in name for part in _NAMES):
        yield value.removeprefix("file://")[:4096]
    elif isinstance(value, str) and name in _COMMANDS:
        for word in dict.fromkeys(re.findall(_WORD, value[:_MOST])):
            yield word
            # `git show HEAD:a/b`, `host:a/b`
            yield from word.split(":")[1:]
