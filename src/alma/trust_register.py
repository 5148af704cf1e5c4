"""The register of trusted project folders (by the content of their configuration) and of files that alma created.

It is outside every repository, so that a clone cannot add to it: in `$XDG_CONFIG_HOME/alma/trusted.json`, by
default `~/.config/alma/trusted.json`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import ConfigError, StorageError
from .files import lock_file, write_atomic

_LOG = logging.getLogger("alma")
_LOCK_SECONDS = 5.0


@dataclass(slots=True)
class Register:
    """The content of the register."""

    folders: dict[str, str] = field(default_factory=dict)
    """Trusted project folders, each with the SHA-256 of the configuration that was trusted."""
    created: set[str] = field(default_factory=set)
    """Stores and token files that alma created on this machine, or that the user trusted with their folder."""
    tracked: set[str] = field(default_factory=set)
    """Files that the user trusted while git tracked them: a `git pull` may change them."""


def register_path() -> Path:
    """Return the path of the register."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(base if os.path.isabs(base) else os.path.expanduser("~/.config"), "alma", "trusted.json")


def digest_content(content: bytes) -> str:
    """Return the SHA-256 of a configuration's content."""
    return hashlib.sha256(content).hexdigest()


def is_trusted(folder: str | os.PathLike[str], content: bytes) -> bool:
    """Return whether the user trusted this folder with this content of its configuration."""
    return read_register().folders.get(os.path.realpath(folder)) == digest_content(content)


def find_foreign_files(paths: Iterable[Path]) -> list[Path]:
    """Return the files that alma has no record of creating on this machine."""
    created = read_register().created
    return [path for path in paths if os.path.realpath(path) not in created]


def find_unexpected_files(paths: Iterable[Path]) -> list[Path]:
    """Return the files that git tracks although the user did not trust them as tracked.

    Their content may have changed, so they no longer count as created here, even if git stops tracking them.
    """
    allowed = read_register().tracked
    unexpected = [path for path in find_tracked_files(paths) if os.path.realpath(path) not in allowed]
    if unexpected:
        with suppress(ConfigError, StorageError), _change_register() as register:
            register.created -= {os.path.realpath(path) for path in unexpected}
    return unexpected


def trust_folder(folder: str | os.PathLike[str], content: bytes, files: Sequence[Path] = ()) -> list[Path]:
    """Trust a project folder and these files in it, as long as its configuration has this content.

    Return the files that git tracks: they stay trusted when a pull changes them.
    """
    tracked = find_tracked_files(files)
    with _change_register() as register:
        register.folders[os.path.realpath(folder)] = digest_content(content)
        register.created.update(os.path.realpath(file) for file in files)
        register.tracked.update(os.path.realpath(file) for file in tracked)
    return tracked


def remove_folder(folder: str | os.PathLike[str]) -> bool:
    """Stop trusting a folder and all files in it. Return False if it was not in the register."""
    root = os.path.realpath(folder)
    with _change_register() as register:
        files = {file for file in register.created | register.tracked if Path(file).is_relative_to(root)}
        register.created -= files
        register.tracked -= files
        return register.folders.pop(root, None) is not None or bool(files)


def record_created_files(*paths: str | os.PathLike[str]) -> None:
    """Record files that alma is about to create.

    If the register cannot be written, this only logs: the user is then asked to trust the folder.
    """
    try:
        with _change_register() as register:
            register.created.update(os.path.realpath(path) for path in paths)
    except (ConfigError, StorageError) as error:
        _LOG.info("not recorded as created on this machine: %s", error)


def read_register() -> Register:
    """Read the register; an empty one if there is no file."""
    path = register_path()
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        folders = {str(name): str(digest) for name, digest in data["folders"].items()}
        return Register(folders, set(data["created"]), set(data.get("tracked", ())))
    except FileNotFoundError:
        return Register()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"cannot read {path} ({error}); repair it, or delete it to trust nothing") from error


@contextmanager
def _change_register() -> Iterator[Register]:
    """Lock the register, yield it, and write it back. Files whose project is gone are dropped."""
    path = register_path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock_file(path.with_suffix(".lock"), _LOCK_SECONDS):
            register = read_register()
            yield register
            files = {
                name: sorted(file for file in getattr(register, name) if Path(file).parent.parent.exists())
                for name in ("created", "tracked")
            }
            write_atomic(path, json.dumps({"folders": register.folders, **files}, indent=2) + "\n")
    except (OSError, StorageError) as error:
        raise StorageError(f"cannot write {path}: {error}; pass the configuration with --config instead") from error


# -- which files a git repository tracks, read from its index without running git
# The last `git pull` may have changed a tracked file: git overwrites an ignored file silently.

_HEADER = struct.Struct(">4sLL")
_BEFORE_NAME = 62
"""Bytes of an entry before its name, with SHA-1: ten numbers, the hash, the flags."""
_EXTENDED = 0x4000
_LONGEST = 0xFFF
"""Names of this length and longer all have this length in the flags."""


def find_tracked_files(paths: Iterable[Path]) -> list[Path]:
    """Return the files that a repository around them tracks."""
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
    """Yield the git index of the work tree that starts here, and the shared part of a split index."""
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
    # Some file systems ignore case, so a name with another case may be the same file.
    target = name.lower()
    if _HEADER.unpack_from(index)[1] == 4:
        # A SHA-256 is 12 bytes longer than a SHA-1.
        return any(one.lower() == target for longer in (0, 12) for one in _read_short_names(index, longer))
    text, start = index.lower(), 0
    while (start := text.find(target + b"\0", start)) >= 0:
        # The flags tell whether a name of this length starts here.
        for at in (start - 2, start - 4):
            if int.from_bytes(index[at : at + 2], "big") & _LONGEST == min(len(name), _LONGEST):
                return True
        start += 1
    return False


def _read_short_names(index: bytes, longer: int) -> Iterator[bytes]:
    """Yield the names in an index of version 4, which stores each name as a difference to the previous one.

    `longer` is by how many bytes a hash is longer than SHA-1.
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
