"""Which files a git repository tracks, read from its index without running git.

A tracked file may have come from somebody else with the last `git pull`: git overwrites an ignored file without a word.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

_HEADER = struct.Struct(">4sLL")
_BEFORE_NAME = 62
"""Bytes of an entry before its name, with SHA-1: ten numbers, the hash, the flags."""
_EXTENDED = 0x4000
_LONGEST = 0xFFF
"""Names of this length and longer all have this length in the flags."""


def find_tracked_files(paths: Iterable[Path]) -> list[Path]:
    """Return those of these files that a repository around them tracks."""
    tracked = []
    for path in paths:
        place = Path(os.path.realpath(path.parent), path.name)
        if any(
            _lists_file(index, place.relative_to(folder).as_posix().encode())
            for folder in place.parents
            for index in _read_indexes(folder)
        ):
            tracked.append(path)
    return tracked


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


def _lists_file(index: bytes, name: bytes) -> bool:
    if len(index) < _HEADER.size or index[:4] != b"DIRC":
        return False
    # Some file systems do not distinguish case, so the name of another case may be the same file.
    wanted = name.lower()
    if _HEADER.unpack_from(index)[1] == 4:
        # A SHA-256 is 12 bytes longer than a SHA-1.
        return any(one.lower() == wanted for longer in (0, 12) for one in _read_short_names(index, longer))
    text, start = index.lower(), 0
    while (start := text.find(wanted + b"\0", start)) >= 0:
        # A name of this length begins here, and not in the middle of a longer one, when its flags say so.
        for at in (start - 2, start - 4):
            if int.from_bytes(index[at : at + 2], "big") & _LONGEST == min(len(name), _LONGEST):
                return True
        start += 1
    return False


def _read_short_names(index: bytes, longer: int) -> Iterator[bytes]:
    """Yield the names in an index of version 4, where each gives only how it differs from the one before it.

    `longer`: by how many bytes a hash is longer than SHA-1.
    """
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
