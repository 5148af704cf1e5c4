"""Which files a git repository tracks, read from its index without running git.

A tracked file may have come from somebody else with the last `git pull`: git overwrites an ignored file without a word.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

_HEADER = struct.Struct(">4sLL")
_BEFORE_NAME = 62
"""Bytes of an entry before its name, with SHA-1: ten numbers, the hash, the flags."""
_EXTENDED = 0x4000
_LONGEST = 0xFFF
"""Names of this length and longer all have this length in the flags."""


def find_tracked_files(paths: Iterable[Path]) -> list[Path]:
    """Return those of these files that a repository around them tracks."""
    return [path for path in paths if _is_tracked(path)]


def _is_tracked(path: Path) -> bool:
    place = Path(os.path.realpath(path.parent), path.name)
    return any(
        _lists(index, place.relative_to(folder).as_posix().encode())
        for folder in place.parents
        for index in _read_indexes(folder)
    )


def _read_indexes(folder: Path) -> Iterator[bytes]:
    """The index of the work tree that has its top here, and the shared part of a split one; nothing elsewhere."""
    home = folder / ".git"
    try:
        if home.is_file():
            # A work tree of another repository, or a submodule.
            home = folder / home.read_text(encoding="utf-8").partition("gitdir:")[2].strip()
        files = [home / "index", *home.glob("sharedindex.*")]
    except (OSError, ValueError):
        return
    for file in files:
        try:
            yield file.read_bytes()
        except OSError:
            continue


def _lists(index: bytes, name: bytes) -> bool:
    if len(index) < _HEADER.size or index[:4] != b"DIRC":
        return False
    # Some file systems do not distinguish case, so the name of another case may be the same file.
    wanted = name.lower()
    if _HEADER.unpack_from(index)[1] == 4:
        return any(found.lower() == wanted for found in _read_short_names(index))
    text, start = index.lower(), 0
    while (start := text.find(wanted + b"\0", start)) >= 0:
        if _begins_name(index, start, len(name)):
            return True
        start += 1
    return False


def _begins_name(index: bytes, start: int, length: int) -> bool:
    """Whether an entry's name of this length begins here, and not in the middle of a longer one: its flags say so."""
    flags = (int.from_bytes(index[at : at + 2], "big") for at in (start - 2, start - 4))
    return any(one & _LONGEST == min(length, _LONGEST) for one in flags)


def _read_short_names(index: bytes) -> Iterator[bytes]:
    """Names in an index of version 4, where each gives only how it differs from the one before it."""
    yield from chain.from_iterable(_walk(index, longer) for longer in (0, 12))


def _walk(index: bytes, longer: int) -> Iterator[bytes]:
    """`longer`: by how many bytes a hash is longer than SHA-1."""
    at, name = _HEADER.size, b""
    for _ in range(_HEADER.unpack_from(index)[2]):
        at += _BEFORE_NAME + longer
        flags = int.from_bytes(index[at - 2 : at], "big")
        at += 2 if flags & _EXTENDED else 0
        cut, shift = 0, True
        while shift and at < len(index):
            cut = (cut << 7) | (index[at] & 0x7F)
            shift = bool(index[at] & 0x80)
            cut += 1 if shift else 0
            at += 1
        end = index.find(b"\0", at)
        if end < 0 or cut > len(name):
            return
        name = name[: len(name) - cut] + index[at:end]
        at = end + 1
        yield name
