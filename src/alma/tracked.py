"""Tell which files a git repository tracks, from its index and without running git.

The last `git pull` may have brought or replaced a tracked file: git overwrites an ignored file silently. Git is not
run, because a repository's own settings can make it run programs.
"""

from __future__ import annotations

import os
import re
import struct
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

_HEADER = struct.Struct(">4sLL")
_BEFORE_NAME = 62
"""Bytes of an entry before its name, with SHA-1: ten numbers, the hash, the flags."""
_LONGER_HASH = 12
"""A SHA-256 is so many bytes longer than a SHA-1."""
_MODES = {mode.to_bytes(4, "big") for mode in (0o100644, 0o100755, 0o100664, 0o120000, 0o160000, 0o040000)}
_EXTENDED = 0x4000
_LONGEST = 0xFFF
"""Names of this length and longer all have this length in the flags."""
_SPARSE = b"sdir"
"""The extension of an index in which an entry may stand for a whole folder."""
_MOST_LINKS = 40
_MOST_ANSWERS = 4096
_WORK_TREE = re.compile(r'^\s*worktree\s*=\s*"?([^"\n]+?)"?\s*$', re.MULTILINE | re.IGNORECASE)

Stamp = tuple[str, int, int, int]
"""A file, and what changes whenever git writes it."""
_answers: dict[tuple[Stamp, str, bool], bool] = {}


def find_tracked_files(paths: Iterable[Path]) -> list[Path]:
    """Return the files and folders that a repository around them tracks, or a link on the way to them."""
    return [path for path in paths if find_tracked_places(path)]


def find_tracked_places(path: str | os.PathLike[str]) -> list[str]:
    """Return which places on the way to a file git tracks: symbolic links, and the file itself."""
    return [place for place in list_places(path) if _is_tracked(place)]


def list_places(path: str | os.PathLike[str]) -> list[str]:
    """Return the symbolic links on the way to a file, and last the file's real path."""
    whole = os.path.join(os.getcwd(), os.path.expanduser(path))
    if os.name == "nt":
        return list(dict.fromkeys((os.path.abspath(whole), os.path.realpath(whole))))
    links: list[str] = []
    place, parts = "/", whole.split("/")
    while parts:
        part = parts.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            place = os.path.dirname(place)
            continue
        place = os.path.join(place, part)
        try:
            target = os.readlink(place)
        except OSError:
            continue
        links.append(place)
        if len(links) > _MOST_LINKS:
            break
        place = "/" if target.startswith("/") else os.path.dirname(place)
        parts = target.split("/") + parts
    return [*links, place]


def _is_tracked(place: str) -> bool:
    is_folder = os.path.isdir(place) and not os.path.islink(place)
    spelled = _spell_as_stored(place)
    for root, index in _find_indexes(Path(spelled)):
        name = os.path.relpath(spelled, root).replace(os.sep, "/")
        if not name.startswith("../") and _ask_index(index, name, is_folder):
            return True
    return False


def _spell_as_stored(place: str) -> str:
    """Return a path as its folders list it: a file system that ignores case or accents accepts other spellings."""
    folder, name = os.path.split(place)
    if sys.platform != "darwin" and not os.path.lexists(os.path.join(folder, name.swapcase())):
        return place
    spelled = Path(place).anchor
    for part in Path(place).parts[1:]:
        try:
            wanted, names = os.lstat(os.path.join(spelled, part)), os.listdir(spelled)
        except OSError:
            return place
        if part not in names:
            same = (name for name in names if os.path.samestat(os.lstat(os.path.join(spelled, name)), wanted))
            part = next(same, part)
        spelled = os.path.join(spelled, part)
    return spelled


# -- which indexes describe a folder


def _find_indexes(place: Path) -> Iterator[tuple[str, str]]:
    """Yield each index that may list a path, with the folder at which its names start."""
    homes = [(folder, folder / ".git") for folder in place.parents]
    if named := os.environ.get("GIT_DIR"):
        homes.append((Path(os.environ.get("GIT_WORK_TREE") or os.getcwd()), Path(named)))
    for folder, home in homes:
        try:
            if home.is_file():
                # A work tree of another repository, or a submodule.
                home = folder / _read_link(home)
            elif not home.is_dir():
                continue
            shared = sorted(home.glob("sharedindex.*"))
        except (OSError, ValueError):
            continue
        files = [home / "index", home / "index.lock", *shared]
        if name := os.environ.get("GIT_INDEX_FILE"):
            files.append(folder / name)
        for root in dict.fromkeys((os.path.realpath(folder), *_find_work_trees(home))):
            for file in files:
                yield root, str(file)


def _read_link(file: Path) -> str:
    """Return the folder that a file `.git` names. As for git, only the end of the line is not part of the name.

    A repository chooses the names of its submodules, which may end in a space or be no UTF-8.
    """
    return os.fsdecode(file.read_bytes()).removeprefix("gitdir:").removeprefix(" ").rstrip("\r\n")


def _find_work_trees(home: Path) -> Iterator[str]:
    """Yield the folders that a repository's settings name as its work tree."""
    for name in ("config", "config.worktree"):
        try:
            text = (home / name).read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            continue
        for match in _WORK_TREE.finditer(text):
            yield os.path.realpath(home / os.path.expanduser(match[1]))


# -- what an index lists


def _ask_index(file: str, name: str, is_folder: bool) -> bool:
    """Return whether an index lists a file, or something in a folder. The answer is kept until the index changes."""
    try:
        status = os.stat(file)
    except OSError:
        return False
    stamp = (file, status.st_mtime_ns, status.st_size, status.st_ino)
    question = (stamp, name, is_folder)
    if question not in _answers:
        try:
            index = Path(file).read_bytes()
        except OSError:
            # What cannot be read may list it.
            return True
        if len(_answers) >= _MOST_ANSWERS:
            _answers.clear()
        spellings = {name, unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)}
        _answers[question] = any(_lists_name(index, os.fsencode(one), is_folder) for one in spellings)
    return _answers[question]


def _lists_name(index: bytes, name: bytes, is_folder: bool) -> bool:
    if len(index) < _HEADER.size or index[:4] != b"DIRC":
        return False
    # Some file systems ignore case, so a name with another case may be the same file.
    target = name.lower()
    folders = []
    if _SPARSE in index:
        parts = target.split(b"/")
        folders = [b"/".join(parts[:number]) + b"/" for number in range(1, len(parts))]
    if _HEADER.unpack_from(index)[1] == 4:
        wanted, below = {target, *folders}, target + b"/" if is_folder else None
        names = (one.lower() for longer in (0, _LONGER_HASH) for one in _read_short_names(index, longer))
        return any(one in wanted or (below is not None and one.startswith(below)) for one in names)
    text = index.lower()
    if any(_has_entry(index, text, one + b"\0", len(one)) for one in (target, *folders)):
        return True
    return is_folder and _has_entry(index, text, target + b"/", None)


def _has_entry(index: bytes, text: bytes, start: bytes, length: int | None) -> bool:
    """Return whether the name of an entry starts so, and has this length if one is passed."""
    place = -1
    while (place := text.find(start, place + 1)) >= 0:
        for before in (_BEFORE_NAME, _BEFORE_NAME + _LONGER_HASH):
            for extra in (0, 2):
                entry = place - before - extra
                if entry < _HEADER.size or index[entry + 24 : entry + 28] not in _MODES:
                    continue
                flags = int.from_bytes(index[entry + before - 2 : entry + before], "big")
                is_right = length is None or flags & _LONGEST == min(length, _LONGEST)
                if is_right and bool(flags & _EXTENDED) == bool(extra):
                    return True
    return False


def _read_short_names(index: bytes, longer: int) -> Iterator[bytes]:
    """Yield the names in an index of version 4, which stores each name as a difference to the previous one.

    `longer` is by how many bytes a hash is longer than SHA-1.
    """
    place, name = _HEADER.size, b""
    for _ in range(_HEADER.unpack_from(index)[2]):
        if index[place + 24 : place + 28] not in _MODES:
            return
        place += _BEFORE_NAME + longer
        flags = int.from_bytes(index[place - 2 : place], "big")
        place += 2 if flags & _EXTENDED else 0
        cut, shift = 0, True
        while shift and place < len(index):
            cut = (cut << 7) | (index[place] & 0x7F)
            shift = bool(index[place] & 0x80)
            cut += 1 if shift else 0
            place += 1
        end = index.find(b"\0", place)
        if end < 0 or cut > len(name):
            return
        name = name[: len(name) - cut] + index[place:end]
        place = end + 1
        yield name
