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


@lru_cache(maxsize=2048)
def _compile(part: str) -> re.Pattern[str]:
    # What stands between two stars is looked for once, where it first fits: no other place would fit better.
    return re.compile(translate(part.replace("[^", "[!")), re.I if sys.platform in ("win32", "darwin") else 0)
