"""The register of trusted project folders (by the content of their configuration) and of files that alma created.

It is outside every repository, so that a clone cannot add to it: in `$XDG_CONFIG_HOME/alma/trusted.json`, by
default `~/.config/alma/trusted.json`. `check_store` is the one check that every file-based store makes before it is
opened, whichever door opens it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shlex
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import ConfigError, StorageError, UntrustedConfigError
from .files import lock_file, write_atomic
from .tracked import find_tracked_files as find_tracked_files
from .tracked import find_tracked_places as find_tracked_places
from .tracked import list_places

_LOG = logging.getLogger("alma")
_LOCK_SECONDS = 5.0
BESIDE_A_STORE = ("-wal", "-shm", "-journal")
"""Suffixes of files that SQLite stores beside a database. They count as the store: a `-wal` changes its content."""
_FILES = ("created", "tracked", "owned", "refused", "approving")
"""The fields of the register that are sets of files."""


@dataclass(slots=True)
class Register:
    """The content of the register."""

    folders: dict[str, str] = field(default_factory=dict)
    """Trusted project folders, each with the SHA-256 of the configuration that was trusted."""
    created: set[str] = field(default_factory=set)
    """Stores and token files that alma created on this machine, or that the user trusted with their folder."""
    tracked: set[str] = field(default_factory=set)
    """Files, and links to them, that the user trusted while git tracked them: a `git pull` may change them."""
    owned: set[str] = field(default_factory=set)
    """Files that the user trusted although another user owns them."""
    refused: set[str] = field(default_factory=set)
    """Files that git tracked when they were refused: they may still be what a pull brought."""
    approving: set[str] = field(default_factory=set)
    """Configurations for which the user let the MCP server approve."""


def register_path() -> Path:
    """Return the path of the register.

    A repository may set `XDG_CONFIG_HOME`, or `HOME`, for the programs that are started in it. The variables are used
    all the same: what they lead to is used only if git does not track it and no other user owns it or can write to it,
    so that a clone can bring no register of its own. Another empty register trusts nothing.
    """
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(base if os.path.isabs(base) else os.path.expanduser("~/.config"), "alma", "trusted.json")


def digest_content(content: bytes) -> str:
    """Return the SHA-256 of a configuration's content."""
    return hashlib.sha256(content).hexdigest()


def is_trusted(folder: str | os.PathLike[str], content: bytes) -> bool:
    """Return whether the user trusted this folder with this content of its configuration."""
    return read_register().folders.get(os.path.realpath(folder)) == digest_content(content)


def is_strange(path: str | os.PathLike[str]) -> bool:
    """Return whether git tracks a file or another user owns it, so that others may have written it.

    What the administrator owns, such as a file below `/etc`, is the machine's.
    """
    return bool(find_tracked_places(path)) or _find_owner(Path(path)) not in (None, 0)


def find_foreign_files(paths: Iterable[Path]) -> list[Path]:
    """Return the files that alma has no record of creating on this machine."""
    created = read_register().created
    return [path for path in paths if os.path.realpath(path) not in created]


def find_unexpected_files(paths: Iterable[Path]) -> list[Path]:
    """Return the files that git tracks although the user did not trust them as tracked.

    Their content may have changed, so they no longer count as created here, even if git stops tracking them.
    """
    places = {path: find_tracked_places(path) for path in paths}
    if not any(places.values()):
        return []
    allowed = read_register().tracked
    unexpected = [path for path, tracked in places.items() if not allowed.issuperset(tracked)]
    if unexpected:
        with suppress(ConfigError, StorageError), _change_register() as register:
            names = {os.path.realpath(path) for path in unexpected}
            register.created -= names
            register.refused |= names
    return unexpected


def trust_folder(folder: str | os.PathLike[str], content: bytes, files: Sequence[Path] = ()) -> list[Path]:
    """Trust a project folder and these files in it, as long as its configuration has this content.

    Return the files that git tracks: they stay trusted when a pull changes them.
    """
    with _change_register() as register:
        register.folders[os.path.realpath(folder)] = digest_content(content)
        return _trust_files(register, files)


def trust_files(files: Sequence[Path]) -> list[Path]:
    """Trust the files of a store. Return those that git tracks: they stay trusted when a pull changes them."""
    with _change_register() as register:
        return _trust_files(register, files)


def _trust_files(register: Register, files: Sequence[Path]) -> list[Path]:
    for file in files:
        name = os.path.realpath(file)
        register.created.add(name)
        register.refused.discard(name)
        register.tracked.update(find_tracked_places(file))
        if _find_owner(file) is not None:
            register.owned.add(name)
    return find_tracked_files(files)


def allow_approval(config: str | os.PathLike[str]) -> None:
    """Let the MCP server of a configuration approve memories. Only a person may decide that."""
    with _change_register() as register:
        register.approving.add(os.path.realpath(config))


def is_approval_allowed(config: str | os.PathLike[str]) -> bool:
    """Return whether a person let the MCP server of this configuration approve memories."""
    return os.path.realpath(config) in read_register().approving


def remove_folder(folder: str | os.PathLike[str]) -> bool:
    """Stop trusting a folder and all files in it. Return False if it was not in the register."""
    root = os.path.realpath(folder)
    with _change_register() as register:
        gone = False
        for name in ("created", "tracked", "owned", "approving"):
            files = getattr(register, name)
            own = {file for file in files if Path(file).is_relative_to(root)}
            files -= own
            gone = gone or bool(own)
        return register.folders.pop(root, None) is not None or gone


def forget_files(folder: str | os.PathLike[str]) -> None:
    """Remove a folder that is erased from the register; remove the register if nothing else is in it."""
    if not register_path().exists():
        return
    remove_folder(folder)
    register = read_register()
    if not any(getattr(register, name) for name in ("folders", *_FILES)):
        register_path().unlink(missing_ok=True)


def record_created_files(*paths: str | os.PathLike[str]) -> None:
    """Record files that alma is about to create.

    If the register cannot be written, this only logs: the user is then asked to trust the folder.
    """
    try:
        names = {os.path.realpath(path) for path in paths}
        with _change_register() as register:
            register.created |= names
            register.refused -= names
    except (ConfigError, StorageError) as error:
        _LOG.info("not recorded as created on this machine: %s", error)


def read_register() -> Register:
    """Read the register; an empty one if there is no file."""
    path = register_path()
    try:
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Register()
    except (OSError, ValueError) as error:
        raise _describe_unreadable(path, error) from error
    _refuse_unsafe_register(path)
    try:
        data: Any = json.loads(content)
        folders = {str(name): str(digest) for name, digest in data["folders"].items()}
        return Register(folders, set(data["created"]), *(set(data.get(name, ())) for name in _FILES[1:]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _describe_unreadable(path, error) from error


def _describe_unreadable(path: Path, error: Exception) -> ConfigError:
    return ConfigError(f"cannot read {path} ({error}); repair it, or delete it to trust nothing")


def _refuse_unsafe_register(path: Path) -> None:
    """Raise ConfigError for a register that others may have written: a repository, or another user."""
    problem = ""
    if find_tracked_files([path]):
        # Deleting the file is not enough: git would track the next one too. Only untracking it would trust its content.
        problem = f"git tracks it, so a pull may have brought it; remove it: git rm -f {shlex.quote(str(path))}"
    elif os.name != "nt":
        for place, forbidden in ((path, stat.S_IWGRP | stat.S_IWOTH), (path.parent, stat.S_IWOTH)):
            status = os.stat(place)
            if status.st_uid != os.geteuid():
                problem = f"another user ({_name_user(status.st_uid)}) owns {place}"
            elif status.st_mode & forbidden:
                problem = f"other users can write to {place}"
    if problem:
        raise ConfigError(
            f"the register of trusted folders {path} is not used: {problem}. Check $XDG_CONFIG_HOME and $HOME, or "
            "delete it to trust nothing"
        )


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
                for name in _FILES
            }
            write_atomic(path, json.dumps({"folders": register.folders, **files}, indent=2) + "\n")
    except (OSError, StorageError) as error:
        raise StorageError(f"cannot write {path}: {error}; pass the configuration with --config instead") from error


# -- the check of every store that is opened


def list_store_files(path: str | os.PathLike[str], suffixes: Iterable[str] = BESIDE_A_STORE) -> list[Path]:
    """Return the files of a store that exist, with those beside its main file, and beside what a link to it names."""
    endings = tuple(suffixes)
    paths = [Path(f"{os.fspath(path)}{ending}") for ending in ("", *endings)]
    if os.path.islink(path):
        paths += [Path(f"{os.path.realpath(path)}{ending}") for ending in endings]
    return [one for one in paths if os.path.lexists(one)]


def check_store(path: str | os.PathLike[str], *, trust: bool = False, suffixes: Iterable[str] = ()) -> None:
    """Raise UntrustedConfigError for a store that git tracks or another user owns, unless it is trusted.

    All of its files count: `suffixes` are those of files beside it, and a folder counts with everything in it. A store
    of this user that git does not track needs no trust. If it is in a folder `.alma`, it is recorded as this user's,
    so that doors that look for a configuration use it too. With `trust`, the program decides, and nothing is checked.
    """
    if trust:
        return
    files = list_store_files(path, suffixes)
    command = f"alma trust {shlex.quote(os.path.abspath(path))}"
    refuse_tracked(files, command)
    refuse_others(files, command)
    name = os.path.realpath(path)
    try:
        register = read_register()
    except ConfigError as error:
        _LOG.info("%s", error)
        return
    if files and name in register.refused:
        raise UntrustedConfigError(
            f"git tracked {path} when it was last opened, so it may be what a pull brought. If it is yours, run: "
            f"{command}"
        )
    is_new = name not in register.created and ".alma" in Path(name).parent.parts
    if is_new or name in register.refused:
        record_created_files(path)


def check_secret(file: Path) -> None:
    """Raise UntrustedConfigError for a file of tokens that git tracks or another user owns, unless it is trusted."""
    command = f"alma trust {shlex.quote(os.path.abspath(file))}"
    refuse_tracked([file], command)
    refuse_others([file], command)


def refuse_tracked(files: Iterable[Path], command: str) -> None:
    """Raise UntrustedConfigError for files that git tracks and the user did not trust as tracked."""
    if tracked := find_unexpected_files(files):
        names = " ".join(shlex.quote(str(file)) for file in tracked)
        raise UntrustedConfigError(
            f"git tracks {', '.join(map(str, tracked))}, so a pull may have replaced it. If it is not "
            f"yours, delete it: git rm {names}. If it is, stop tracking it: git rm --cached {names}. Then, or if you "
            f"trust everybody who commits it, run: {command}"
        )


def refuse_others(files: Iterable[Path], command: str) -> None:
    """Raise UntrustedConfigError for files of other users that this user did not trust."""
    owners = {file: owner for file in files if (owner := _find_owner(file)) is not None}
    if not owners:
        return
    reason = ""
    try:
        register = read_register()
    except ConfigError as error:
        register, reason = Register(), f" ({error})"
    main = next(iter(owners))
    for file, owner in owners.items():
        is_trusted = os.path.realpath(file) in register.owned
        # What a trusted owner's SQLite creates beside a database is trusted with it.
        is_beside = str(file).endswith(BESIDE_A_STORE) and owners[main] == owner
        if not (is_trusted or (is_beside and os.path.realpath(main) in register.owned)):
            raise UntrustedConfigError(
                f"another user ({_name_user(owner)}) owns {file}, so its memories are not yours. If you trust that "
                f"user, run: {command}{reason}"
            )


def _find_owner(path: Path) -> int | None:
    """Return the id of another user who owns a file, something in a folder, or a link to it; None if nobody does.

    Links of the administrator are the system's. On Windows, owners are not known.
    """
    if os.name == "nt":
        return None
    own, place = os.geteuid(), list_places(path)[-1]
    links = [os.lstat(link).st_uid for link in list_places(path)[:-1]]
    owners = [owner for owner in links if owner != 0]
    with suppress(FileNotFoundError):
        owners.append(os.stat(place).st_uid)
    for folder, folders, files in os.walk(place):
        for name in (*folders, *files):
            with suppress(FileNotFoundError):
                owners.append(os.lstat(os.path.join(folder, name)).st_uid)
    return next((owner for owner in owners if owner != own), None)


def _name_user(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
