"""Lines of ignore files, read as git reads them.

They come with foreign folders, so they may be written to keep us busy: no pattern takes longer than its length times
that of the path, which pathspec does not promise. Hooks use this module: it loads little.
"""

from __future__ import annotations

import re
import sys
from fnmatch import translate
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


_FLAGS = re.I if sys.platform in ("win32", "darwin") else 0


class IgnorePattern:
    """One pattern of an ignore file, with the meaning it has in .gitignore."""

    __slots__ = ("_parts", "covers_everything", "is_for_folders", "is_negated")

    def __init__(self, line: str) -> None:
        text = line.strip()
        self.covers_everything = text == "*"
        self.is_negated = text.startswith("!")
        text = text[1:] if text.startswith(("!", "\\#", "\\!")) else text
        self.is_for_folders = text.endswith("/")
        text = text.rstrip("/")
        parts = text.lstrip("/").split("/")
        parts = parts if "/" in text else ["**", *parts]
        self._parts = [part for i, part in enumerate(parts) if part != "**" or parts[i - 1 : i] != ["**"]]

    @property
    def last_part(self) -> str:
        """Return the part that the last name has to fit; empty if any name does."""
        return next((part for part in reversed(self._parts) if part != "**"), "")

    def match(self, names: Sequence[str]) -> set[int]:
        """Return how many names of a path it may stand for: all of them, or those of a folder that holds it.

        As in git `**` stands for any number of folders, and at the end for at least one name.
        """
        used = {0}
        for number, part in enumerate(self._parts, start=1):
            if part == "**":
                used = set(range(min(used) + (number == len(self._parts)), len(names) + 1))
            else:
                matches = _compile(part).match
                used = {at + 1 for at in used if at < len(names) and matches(names[at])}
            if not used:
                break
        return used


class PatternFilter:
    """Says quickly that none of many patterns stands for a path: each needs a name that fits its last part."""

    __slots__ = ("_any", "_known", "_needs_no_name")

    def __init__(self, patterns: Sequence[IgnorePattern]) -> None:
        parts = {pattern.last_part for pattern in patterns}
        self._needs_no_name = "" in parts
        self._any = re.compile("|".join(_translate(part) for part in sorted(parts)), _FLAGS)
        self._known: dict[str, bool] = {}

    def may_match(self, names: Sequence[str]) -> bool:
        """Return whether a pattern may stand for a path with these names; False is certain."""
        return self._needs_no_name or any(map(self._fits, names))

    def _fits(self, name: str) -> bool:
        if name not in self._known:
            self._known[name] = self._any.match(name) is not None
        return self._known[name]


def _translate(part: str) -> str:
    return translate(part.replace("[^", "[!"))


@lru_cache(maxsize=2048)
def _compile(part: str) -> re.Pattern[str]:
    # What stands between two stars is looked for once, where it first fits: no other place would fit better.
    return re.compile(_translate(part), _FLAGS)
