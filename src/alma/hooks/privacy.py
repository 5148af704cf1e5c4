"""What is nobody's business never reaches the disk: private passages, ignored paths, paused projects."""

from __future__ import annotations

import json
import os
import re
import sys

from . import log
from .place import Place
from .project import MOST_CHARS, Project, own_file, writable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# Each letter is spelled in both cases, so that the search can jump from one `<` to the next. Compiled where needed.
_TAG = r"<\s{0,3}(/?)\s{0,3}[pP][rR][iI][vV][aA][tT][eE](?:\s[^<>]{0,200})?>"
_MOST = 256 * 1024
_MOST_PATTERNS = 1000


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
        text = own_file(folder, "ignore")
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        if len(lines) > _MOST_PATTERNS or len(text) >= MOST_CHARS:
            # Nobody wrote so many by hand. To look at them all would hold up every call, and to leave some out would
            # write down what was to be ignored.
            lines = ["*"]
        if lines:
            files.append((folder, [Pattern(line) for line in lines]))
    return Ignored(os.path.normcase(os.path.realpath(cwd)), files)


def _decided(patterns: list[Pattern], folder: str, path: str) -> bool:
    """As in git the last pattern that matches decides, and what is in an ignored folder is ignored."""
    below = os.path.relpath(path, folder).replace(os.sep, "/")
    if below == ".." or below.startswith("../"):
        return False
    names = below.split("/")
    verdict = False
    for pattern in patterns:
        if pattern.fits(names):
            verdict = not pattern.negated
    return verdict


class Pattern:
    """One line of an ignore file, read as git reads it, but that what is meant for folders holds for files too.

    It comes with a repository, so it may be written to keep us busy: no pattern takes longer than its length times
    that of the path.
    """

    __slots__ = ("_parts", "everything", "negated")

    def __init__(self, line: str) -> None:
        text = line.strip()
        self.everything = text == "*"
        self.negated = text.startswith("!")
        text = text[1:] if self.negated or text.startswith(("\\#", "\\!")) else text
        text = text.rstrip("/")
        parts = text.lstrip("/").split("/")
        parts = parts if "/" in text else ["**", *parts]
        self._parts = [part for i, part in enumerate(parts) if part != "**" or parts[i - 1 : i] != ["**"]]

    def fits(self, names: list[str]) -> bool:
        """Whether it means this path or a folder that holds it.

        As in git `**` stands for any number of folders, and at the end for at least one name.
        """
        open_at = {0}
        for place, part in enumerate(self._parts):
            open_at = self._further(names, part, open_at, last=place == len(self._parts) - 1)
            if not open_at:
                return False
        return True

    def _further(self, names: list[str], part: str, open_at: set[int], *, last: bool) -> set[int]:
        """How much of the path may be used up after this part, from what may be used up before it."""
        if part == "**":
            return set(range(min(open_at) + last, len(names) + 1))
        one = _compiled(part).match
        return {at + 1 for at in open_at if at < len(names) and one(names[at])}


_known: dict[str, re.Pattern[str]] = {}


def _compiled(part: str) -> re.Pattern[str]:
    if part not in _known:
        how = re.S | re.I if sys.platform in ("win32", "darwin") else re.S
        try:
            _known[part] = re.compile(_translated(part) + "\\Z", how)
        except re.error:
            # Such as `[z-a]`: then it means itself.
            _known[part] = re.compile(re.escape(part) + "\\Z", how)
    return _known[part]


def _translated(part: str) -> str:
    """What stands between two stars is looked for once, where it first fits: no other place would fit better."""
    pieces, i = [""], 0
    while i < len(part):
        if part[i] == "*":
            pieces += [""] if part[i - 1 : i] != "*" or not i else []
        elif part[i] == "[" and (end := part.find("]", i + 2)) > 0:
            inner = part[i + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            pieces[-1] += f"[{'^' + inner[1:] if inner[0] in '!^' else inner}]"
            i = end
        else:
            pieces[-1] += "." if part[i] == "?" else re.escape(part[i])
        i += 1
    first, *rest = pieces
    if not rest:
        return first
    return first + "".join(f"(?>.*?{piece})" for piece in rest[:-1]) + f".*{rest[-1]}"


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
