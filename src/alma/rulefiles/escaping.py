"""Text of a memory as one line of Markdown that is nothing but text, and back.

A backslash stands before what would act as structure: a tag or comment, a heading, a fence, an `@path` that a host
would load, the marks of our own lines. Code spans stay as they are. `decode(encode(text))` is `fold(text)`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

MEANT = "\\`@<!>*_#~[-+"
"""What a backslash may stand before."""

_SPACE = re.compile(r"\s+")
_RUN = re.compile(r"`+")
_RUN_OR_ESCAPE = re.compile(r"`+|\\[\\`@<!>*_#~\[+-]")
_ESCAPED = re.compile(r"\\([\\`@<!>*_#~\[+-])")
_UNSEEN = ("Cc", "Cf", "Cs", "Co")
_JOINERS = "\u200c\u200d"
"""Persian and Indic spelling and emoji need these."""
_LABEL = re.compile(r"(?=([*_])(?:Why|Instead):\1)")
_OPENS = re.compile(r"(?:#|~~~|>|[-+*](?:\s|$)|[-*_](?:\s*[-*_]){2,}\s*$|\[[^\]]*\]:|(\*\*|__)(?=.*:\1))")
_MARKUP = re.compile(
    r"(?P<mail>(?<![\w.+-])@)|(?P<tag><(?=[A-Za-z/!?]))|(?P<open>(?<=<)!(?=--))|(?P<close>(?<=--)>)"
    r"|(?P<tick>`)|(?P<slash>\\+)"
)
_ENDS_HEAD = re.compile(r"(?<=:)(?:\*(?=\*)|_(?=_))")


def fold(text: str) -> str:
    """One line, without what nobody sees."""
    flat = _SPACE.sub(" ", text).strip()
    if flat.isascii() and flat.isprintable():
        return flat
    from ..engine.inject.escape import remove_unseen  # Its patterns take a while to compile.

    seen = "".join(
        sign for sign in remove_unseen(flat) if unicodedata.category(sign) not in _UNSEEN or sign in _JOINERS
    )
    return _SPACE.sub(" ", seen).strip()


def encode(text: str, *, head: bool = False) -> str:
    """The text on one line; as a head, it holds nothing that would end one."""
    flat = fold(text)
    marks = {found.start() for found in _LABEL.finditer(flat)}
    marks |= {0} if _OPENS.match(flat) else set()
    marks |= {found.start() for found in _ENDS_HEAD.finditer(flat)} if head else set()
    return "".join(
        flat[start:end] if code else _escaped(flat, start, end, marks) for start, end, code in spans(flat, _RUN)
    )


def _escaped(text: str, start: int, end: int, marks: set[int]) -> str:
    out: list[str] = []
    at = start
    while at < end:
        found = _MARKUP.match(text, at)
        if found is not None and found["slash"]:
            stop = min(found.end(), end)
            run = text[at:stop]
            alone = len(run) == 1 and (stop == len(text) or text[stop] not in MEANT)
            out.append(run if alone else run * 2)
            at = stop
        else:
            out.append(f"\\{text[at]}" if found is not None or at in marks else text[at])
            at += 1
    return "".join(out)


# -- back


def decode(line: str) -> str:
    parts = (line[start:end] if code else _ESCAPED.sub(r"\1", line[start:end]) for start, end, code in spans(line))
    return fold("".join(parts))


def spans(text: str, sign: re.Pattern[str] = _RUN_OR_ESCAPE) -> Iterator[tuple[int, int, bool]]:
    """Yield code spans and what is between them, in order. In a line of Markdown, a backtick after a backslash opens
    none; in a text that is yet to be written, a backslash is one, and a comment is seen in a code span too."""
    done = at = 0
    while opening := sign.search(text, at):
        start, at = opening.span()
        runs = (run for run in _RUN.finditer(text, at) if len(run[0]) == at - start)
        closing = next(runs, None) if opening[0][0] == "`" else None
        if closing is None:
            continue
        if sign is _RUN and any(mark in text[start : closing.end()] for mark in ("<!--", "-->")):
            continue
        if start > done:
            yield done, start, False
        yield start, closing.end(), True
        done = at = closing.end()
    if done < len(text):
        yield done, len(text), False


def masked(line: str) -> str:
    """As long as the line, with what only looks like a mark blotted out."""
    blot = _ESCAPED.sub("\0\0", line)
    for start, end, code in spans(line):
        if code:
            blot = blot[:start] + "\0" * (end - start) + blot[end:]
    return blot
