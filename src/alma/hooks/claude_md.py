"""The rules that Claude Code reads by itself, from CLAUDE.md: they are in every context and need not be shown again."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .glance import Rule

_NAMES = ("CLAUDE.md", os.path.join(".claude", "CLAUDE.md"), "CLAUDE.local.md")
_MOST_BYTES = 256 * 1024
_REGULAR = 0o100000
_FENCES = ("```", "~~~")


class Items:
    """The items of the lists in these files, for comparison with rules."""

    __slots__ = ("_texts",)

    def __init__(self, folder: str) -> None:
        self._texts: set[str] = set()
        while folder:
            for name in _NAMES:
                self._add(os.path.join(folder, name))
            above = os.path.dirname(folder)
            folder = "" if above == folder or os.path.lexists(os.path.join(folder, ".git")) else above

    def __contains__(self, rule: Rule) -> bool:
        return bool(self._texts) and _plain(rule.text("rule")) in self._texts

    def _add(self, path: str) -> None:
        text = _read_file(path)
        if "@AGENTS.md" in text:
            text += "\n" + _read_file(os.path.join(os.path.dirname(path), "AGENTS.md"))
        if text:
            self._texts |= {_plain(one) for one in _read_items(text)}


def _read_file(path: str) -> str:
    try:
        # What is no plain file could hold us up.
        if os.stat(path).st_mode & 0o170000 != _REGULAR:
            return ""
        with open(path, "rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def _read_items(text: str) -> list[str]:
    """Return the items of all lists outside of comments and code; an indented line goes on with the item above."""
    first, *rest = text.split("<!--")
    lines = "".join((first, *(part.partition("-->")[2] for part in rest))).splitlines()
    items: list[str] = []
    is_open = in_code = False
    for line in lines:
        said = line.strip()
        if said.startswith(_FENCES):
            in_code = not in_code
        elif not in_code and said.startswith(("- ", "* ", "+ ")):
            items.append(said[2:])
            is_open = True
        elif is_open and said and line[0].isspace() and not in_code:
            items[-1] += f" {said}"
        else:
            is_open = False
    return items


def _plain(item: str) -> str:
    """Return what an item tells to do, without its occasion, its reason and its Markdown."""
    text = item.strip()
    for mark in ("**", "__"):
        if text.startswith(mark) and f":{mark} " in text:
            text = text.partition(f":{mark} ")[2]
    text = text.partition(" *Why:* ")[0].replace("\\", "")
    return " ".join(text.split()).rstrip(".").casefold()
