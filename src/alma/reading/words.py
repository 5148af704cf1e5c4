"""The word lists that local readers use, and a person's own words without what they pasted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any


@lru_cache(maxsize=8)
def load_file(file: str) -> Any:
    """Return the content of a JSON file of this package."""
    return json.loads(Path(__file__).with_name(file).read_text(encoding="utf-8"))


@lru_cache(maxsize=128)
def load_vocabulary(file: str, name: str) -> Any:
    """Return an entry of a vocabulary file. A list comes as a frozenset."""
    entry = load_file(file)[name]
    return frozenset(entry) if isinstance(entry, list) else entry


def join_longest_first(parts: Iterable[str]) -> str:
    """Join the alternatives of a regular expression, so that a longer one wins over its own beginning."""
    return "|".join(sorted(parts, key=len, reverse=True))


@lru_cache(maxsize=64)
def match_any(file: str, name: str) -> re.Pattern[str]:
    """Return a pattern that matches any expression of a vocabulary entry as whole words, in any case."""
    return re.compile(rf"\b(?:{join_longest_first(load_vocabulary(file, name))})\b", re.IGNORECASE)


# --- own words and pasted text ---------------------------------------------------------------------

_MAX_CHARS = 20_000
_FENCE = re.compile(r"^\s{0,3}(```|~~~)")
_HEADER = re.compile(
    r"^(from|to|cc|sent|date|subject|von|an|betreff|gesendet|de|para|asunto|objet|envoyé)\s?:\s", re.IGNORECASE
)
_FORWARDED = re.compile(r"^-{2,}\s*(original|forwarded|ursprüngliche|weitergeleitete|mensaje|message)\b", re.IGNORECASE)
_PROGRAM_LINE = re.compile(
    r"^(traceback \(|\s+file \"|\s+at \S+[(:]|\[?\d{4}-\d\d-\d\d[t ]\d\d:\d\d|\[?\d\d:\d\d:\d\d|npm err!|error\["
    r"|e\s{3,}|[$#%] \S|[\w.]*(error|exception|warning)\s?:|\s*\^+~*\s*$|diff --git|@@ -\d|[+-]{3} [ab]/)",
    re.IGNORECASE,
)
_LINE_CHARS = 200


def remove_pasted(text: str) -> str:
    """Return a turn without fenced blocks, quoted lines, forwarded mails, program output and stack traces."""
    own: list[str] = []
    fence = ""
    headers = 0
    for line in text[:_MAX_CHARS].splitlines():
        mark = _FENCE.match(line)
        if fence or mark:
            if mark:
                fence = "" if fence == mark[1] else fence or mark[1]
            continue
        headers = headers + 1 if _HEADER.match(line) else 0
        if _FORWARDED.match(line) or headers == 2:
            # What follows the headers of a mail was written by somebody else.
            own = own[: len(own) - (headers - 1 if headers else 0)]
            break
        if not line.lstrip().startswith(">") and not _PROGRAM_LINE.match(line[:_LINE_CHARS]):
            own.append(line)
    return "\n".join(own).strip()


def cut_at_output(text: str) -> str:
    """Return what stands above the first line that was pasted: program output, a quotation or a fenced block."""
    own: list[str] = []
    for line in text[:_MAX_CHARS].splitlines():
        if _FENCE.match(line) or line.lstrip().startswith(">") or _PROGRAM_LINE.match(line[:_LINE_CHARS]):
            break
        own.append(line)
    return "\n".join(own).strip()
