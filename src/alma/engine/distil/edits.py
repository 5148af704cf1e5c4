"""What a person's edit of what the agent wrote teaches: one thing put in another's place, or nothing.

A longer rewrite says that something was wrong, and not what; only a swap of a few words can be the beginning of a rule,
and even that waits until the person makes it again.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

_PIECE = re.compile(r"[\w.@/-]+|\s+|[^\w\s]")
_MOST_CHARS = 60


@dataclass(frozen=True, slots=True)
class Swap:
    old: str
    new: str
    ending: str
    """Of the file, such as `.ts`."""


def swap(change: str, file: str) -> Swap | None:
    """The one replacement in a difference of lines (`-` and `+`), if it is one and small."""
    lines = change.splitlines()
    old = [line[1:] for line in lines if line.startswith("-")]
    new = [line[1:] for line in lines if line.startswith("+")]
    if not old or len(old) != len(new):
        return None
    found = {pair for before, after in zip(old, new, strict=True) for pair in _replaced(before, after)}
    if len(found) != 1:
        return None
    [(before, after)] = found
    told = before.strip() and after.strip() and max(len(before), len(after)) <= _MOST_CHARS
    _, dot, ending = file.rpartition(".")
    return Swap(before, after, f".{ending}" if dot and ending.isalnum() else "") if told else None


def _replaced(before: str, after: str) -> list[tuple[str, str]]:
    a, b = _PIECE.findall(before), _PIECE.findall(after)
    steps = difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    return [("".join(a[i:j]).strip(), "".join(b[k:m]).strip()) for tag, i, j, k, m in steps if tag != "equal"]
