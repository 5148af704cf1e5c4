"""Prints of words: enough to recognise a word of a text that is not kept.

A hook sees files and pages that nobody wants in a journal. It records three bytes for each distinct word instead, so
that an import can tell later whether a name in a command was in one of them.
"""

from __future__ import annotations

import re
from binascii import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Hooks load this module, and have no time for `typing`.
    from collections.abc import Iterable, Iterator

PRINT_BYTES = 3
MOST_CHARS = 64 * 1024
"""So much of a text is read: its start and its end."""
MOST_WORDS = 4000
_WORD = re.compile(r"[A-Za-z0-9_@./:+~$%#&\\-]+|[^\W\d_a-zA-Z]+")
_STARTS = ".,:;"
_ENDS = ".,:;/-"
_PARTS = re.compile(r"[/:@]+")
_COMMENTS = ("#", "//", "/*", "*", "--", ";", "%", "<!--", '"""', "'''", "REM ", '"')
_CODE = frozenset(
    """py pyi js jsx mjs cjs ts tsx go rs rb java kt kts c h cc cpp hpp cs swift php scala clj ex exs erl hs ml lua r jl
    sql css scss vue svelte dart zig nim pl pm sh bash zsh fish ps1 tf proto graphql""".split()
)


def list_words(text: str) -> list[str]:
    """Return the words and literals of a text in lower case, each once, and the parts of paths and addresses."""
    if len(text) > MOST_CHARS:
        half = MOST_CHARS // 2
        text = f"{text[:half]} {text[-half:]}"
    words: dict[str, None] = {}
    for token in _WORD.findall(text.casefold()):
        word = token.lstrip(_STARTS).rstrip(_ENDS)
        if len(word) < 2:
            continue
        words[word] = None
        if _PARTS.search(word):
            words.update(dict.fromkeys(part for part in _PARTS.split(word) if len(part) > 2))
    return list(words)


def print_word(word: str) -> bytes:
    """Return the print of a word."""
    return (crc32(word.encode("utf-8", "replace")) & 0xFFFFFF).to_bytes(PRINT_BYTES, "big")


def print_text(text: str, path: str = "") -> str:
    """Return the prints of the words of a text as hexadecimal digits. Of source code, only comments count.

    An agent imitates the code that it reads; what a comment says is addressed to readers.
    """
    if path.rpartition(".")[2].lower() in _CODE:
        lines = text.splitlines()
        text = "\n".join(line for line in lines if line.lstrip("0123456789\t →|:").startswith(_COMMENTS))
    return b"".join(print_word(word) for word in list_words(text)[:MOST_WORDS]).hex()


def split_prints(prints: str) -> Iterator[bytes]:
    """Yield the prints in what `print_text` returned; none if it is damaged."""
    try:
        data = bytes.fromhex(prints)
    except ValueError:
        return
    for start in range(0, len(data) - PRINT_BYTES + 1, PRINT_BYTES):
        yield data[start : start + PRINT_BYTES]


def print_words(texts: Iterable[str]) -> set[bytes]:
    """Return the prints of the words of some texts."""
    return {print_word(word) for text in texts for word in list_words(text)}
