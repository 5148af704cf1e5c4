"""Tells a person's own words from text that they pasted."""

from __future__ import annotations

import re

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
            return _join_lines(own[: len(own) - (headers - 1 if headers else 0)])
        if not line.lstrip().startswith(">") and not _PROGRAM_LINE.match(line[:_LINE_CHARS]):
            own.append(line)
    return _join_lines(own)


def cut_at_output(text: str) -> str:
    """Return what stands above the first line that was pasted: program output, a quotation or a fenced block."""
    own: list[str] = []
    for line in text[:_MAX_CHARS].splitlines():
        if _FENCE.match(line) or line.lstrip().startswith(">") or _PROGRAM_LINE.match(line[:_LINE_CHARS]):
            break
        own.append(line)
    return _join_lines(own)


def _join_lines(lines: list[str]) -> str:
    return "\n".join(lines).strip()
