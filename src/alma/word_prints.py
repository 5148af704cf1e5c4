"""Prints of words: enough to recognise a word of a text that is not kept.

A hook sees files and pages that nobody wants in a journal. It records three bytes for each distinct word instead, so
that an import can tell later whether a name in a command was in one of them.

A text from outside is also read as an agent may read it: with escapes, Base64 and other encodings decoded, without
colours and emphasis inside a word, and with letters of other alphabets that look like Latin ones as those.
"""

from __future__ import annotations

import re
import unicodedata
from binascii import a2b_base64, crc32, unhexlify

from .source_text import find_reader_text, list_own_names, remove_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Hooks load this module, and have no time for `typing`.
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

PRINT_BYTES = 3
MOST_CHARS = 128 * 1024
"""So much of a text is read: its start and its end."""
MOST_WORDS = 6000
CUT = "*"
"""The end of prints that are not those of all words of a text."""
_RUN_WORDS = 8
"""Whoever uses so many words of a text in a row quotes it."""
_WORD = re.compile(r"[A-Za-z0-9_@./:+~$%#&\\-]+|[^\W\d_a-zA-Z]+")
_STARTS = ".,:;"
_ENDS = ".,:;/-"
_PARTS = re.compile(r"[/:@]+")
_PLAIN_WORD = r"\w+"
_CARRIER = r"(?<![a-z0-9_-])[a-z0-9]+(?:[-_]+[a-z0-9]+){3,}"
"""A name that is made like a sentence, such as that of a branch. What it says can be taken from its parts."""
_JOINTS = re.compile(r"[-_][a-z0-9]+[-_]+[a-z0-9]+[-_]")
# How a text can hide a word from one who compares letters. Patterns that few texts need are compiled for those: a hook
# has no time for them.
_ESCAPE = r"(?i:\\u\{?([0-9a-f]{2,6})\}?|\\x([0-9a-f]{2})|&#x([0-9a-f]{2,5});|%([0-9a-f]{2}))"
_ENTITY = r"&#(\d{2,6});|&(lt|gt|amp|quot|apos|hyphen|dash|period|colon|sol|lowbar|commat);"
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'", "hyphen": "-", "dash": "-", "period": "."}
_ENTITIES |= {"colon": ":", "sol": "/", "lowbar": "_", "commat": "@"}
_COLOUR = r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
_WRAP = r"\\\r?\n[ \t]*"
_EMPHASISED = re.compile(r"(?<=[\w./@-])[*`~'\"]+(?=[\w./@-])")
_EMPHASIS = re.compile(r"[*`~'\"]+")
_WORD_CHARS = 80
_INVISIBLE = (
    "\u00ad\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e"
    "\u2060\u2061\u2062\u2063\u2064\ufe0e\ufe0f\ufeff"
)
_ENCODED = re.compile(r"[A-Za-z0-9+/]{14,}={0,2}")
_MOST_ENCODED = 400
_LOOK_ALIKES = str.maketrans(
    "аеорсухіјѕԁһԛԝвкмнтαορνκτυιχγ‐‑‒–—−﹣－",
    "aeopcyxijsdhqwbkmhtaopvktuixy" + 8 * "-",
    _INVISIBLE,
)


def list_words(text: str) -> list[str]:
    """Return the words and literals of a text in lower case, each once, and the parts of paths and addresses."""
    text = text.casefold()
    words: dict[str, None] = {}
    if not text.isascii():
        _add_words(words, _fold_letters(text))
    _add_words(words, text)
    return list(words)


def _add_words(words: dict[str, None], text: str) -> None:
    for token in _WORD.findall(text):
        word = token.lstrip(_STARTS).rstrip(_ENDS)
        if len(word) < 2:
            continue
        words[word] = None
        if "/" in word or ":" in word or "@" in word:
            words.update(dict.fromkeys(part for part in _PARTS.split(word) if len(part) > 2))


def _fold_letters(text: str) -> str:
    """Return the words of a text that are not in ASCII, with plain letters for those that look the same."""
    words = " ".join(word for word in text.split() if not word.isascii())
    return unicodedata.normalize("NFKC", words).casefold().translate(_LOOK_ALIKES)


def list_outside_words(text: str) -> tuple[list[str], bool]:
    """Return the words of a text from outside as an agent may read them, and whether some are missing."""
    is_cut = len(text) > MOST_CHARS
    if is_cut:
        half = MOST_CHARS // 2
        text = f"{text[:half]} {text[-half:]}"
    words = dict.fromkeys(list_words(text))
    words.update(dict.fromkeys(list_words(_read_hidden(text))))
    words.update(dict.fromkeys(list_name_parts(text)))
    return list(words), is_cut


def list_name_parts(text: str) -> list[str]:
    """Return the parts of the names in a text that are made like sentences."""
    parts: list[str] = []
    folded = text.casefold()
    for name in re.findall(_CARRIER, folded) if _JOINTS.search(folded) else ():
        parts += [part for part in re.split("[-_]+", name) if len(part) > 3]
    return parts


def _read_hidden(text: str) -> str:
    """Return what a text says where it does not say it letter by letter."""
    if "\x1b" in text:
        text = re.sub(_COLOUR, "", text)
        plain = [text]
    else:
        plain = []
    if "\\\n" in text or "\\\r\n" in text:
        text = re.sub(_WRAP, "", text)
        plain = [text]
    lines = [line for line in text.splitlines() if "\\" in line or "%" in line or "&" in line]
    for line in lines:
        decoded = re.sub(_ENTITY, _decode_entity, re.sub(_ESCAPE, _decode_escape, line))
        if decoded != line:
            plain.append(decoded)
    readable = "\n".join((text, *plain))
    plain += map(_decode_token, _ENCODED.findall(readable)[:_MOST_ENCODED])
    plain += _join_emphasised(readable)
    return "\n".join(plain)


def _join_emphasised(text: str) -> Iterator[str]:
    """Yield the words of which a part is emphasised or quoted, without the signs for that."""
    word_end = 0
    for match in _EMPHASISED.finditer(text):
        start, end = match.span()
        if start < word_end:
            continue
        before = text[max(0, start - _WORD_CHARS) : start].split()
        after = text[end : end + _WORD_CHARS].split()
        word_end = end + len(after[0])
        yield _EMPHASIS.sub("", f"{before[-1]}{after[0]}")


def _decode_escape(match: re.Match[str]) -> str:
    number = int(next(filter(None, match.groups())), 16)
    return chr(number) if 31 < number < 0x110000 else " "


def _decode_entity(match: re.Match[str]) -> str:
    number = int(match[1] or 0)
    return _ENTITIES[match[2]] if match[2] else chr(number) if 31 < number < 0x110000 else " "


def _decode_token(token: str) -> str:
    """Return what a word in Base64 or hexadecimal digits encodes; empty if that is no text."""
    for decode in (unhexlify, a2b_base64):
        padding = "=" * (-len(token) % 4) if decode is a2b_base64 else ""
        try:
            text = decode(token + padding).decode("ascii")
        except ValueError:
            continue
        if text.replace("\n", " ").isprintable():
            return text
    return ""


def print_word(word: str) -> bytes:
    """Return the print of a word."""
    return (crc32(word.encode("utf-8", "replace")) & 0xFFFFFF).to_bytes(PRINT_BYTES, "big")


def print_text(text: str, path: str = "") -> str:
    """Return the prints of the words of a text as hexadecimal digits. Of source code, only what it says to readers."""
    return _print_reader_text(remove_code(text, path), list_own_names(text, path))


def print_result(tool: str, arguments: Mapping[str, Any], output: str, folder: str) -> str:
    """Return the prints of what the output of a tool says to readers; `folder` is where the agent was."""
    reader_text = find_reader_text(tool, arguments, output, folder)
    return _print_reader_text(reader_text.text, reader_text.names)


def _print_reader_text(text: str, names: Iterable[str]) -> str:
    words, is_cut = list_outside_words(text)
    own = {word for name in names for word in list_words(name)}
    if own:
        words = [word for word in words if word not in own]
    end = CUT if is_cut or len(words) > MOST_WORDS else ""
    return b"".join(map(print_word, words[:MOST_WORDS])).hex() + end


def split_prints(prints: str) -> Iterator[bytes]:
    """Yield the prints in what `print_text` returned; none if it is damaged."""
    try:
        data = bytes.fromhex(prints.removesuffix(CUT))
    except ValueError:
        return
    for start in range(0, len(data) - PRINT_BYTES + 1, PRINT_BYTES):
        yield data[start : start + PRINT_BYTES]


def print_words(texts: Iterable[str], names: Iterable[str] = ()) -> set[bytes]:
    """Return the prints of the words of some texts from outside, without those of names."""
    own = {word for name in names for word in list_words(name)}
    prints: set[bytes] = set()
    for text in texts:
        words = list_outside_words(text)[0]
        prints.update(print_word(word) for word in words if word not in own)
    return prints


def print_runs(text: str) -> set[int]:
    """Return the prints of all runs of words of a text that are long enough to be quotations."""
    return {run for _, _, run in _list_runs(text)}


def remove_runs(text: str, is_known: Callable[[int], bool]) -> str:
    """Return a text with an ellipsis for the runs of words that are known."""
    spans: list[list[int]] = []
    for start, end, run in _list_runs(text):
        if not is_known(run):
            continue
        if spans and start <= spans[-1][1]:
            spans[-1][1] = end
        else:
            spans.append([start, end])
    for start, end in reversed(spans):
        text = f"{text[:start]}…{text[end:]}"
    return text


def _list_runs(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield the start and the end of each run of words, and its print."""
    words = list(re.finditer(_PLAIN_WORD, text))
    folded = [word[0].casefold() for word in words]
    for first in range(len(words) - _RUN_WORDS + 1):
        last = first + _RUN_WORDS
        run = " ".join(folded[first:last])
        yield words[first].start(), words[last - 1].end(), crc32(run.encode("utf-8", "replace"))
