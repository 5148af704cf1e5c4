"""Which project a working copy belongs to, remembered: rules follow the repository when it is moved or gets a remote.

Each working copy has an id of its own in `.git/claude-smart-id`, which git never tracks, and an entry
`projects/ID.json` in the home: the project's key, the remote and the folder it was last seen with. While these agree,
the entry is all a hook reads. Otherwise, in this order: a copy that is known by its id keeps its project, a copy with
the remote of a known one shares that project, and a copy without either that begins with the same commit as one that
is gone takes its place. Copies that might be the same are kept apart until a person says so (`claude-smart project`).

A name out of `.claude-smart/project` comes with a repository, which could name any project. So it is remembered, too,
as `projects/name-ID.json`: the first working copy of a name has it, and others only if they have its remote.
"""

from __future__ import annotations

import json
import os

from .place import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .place import Place
    from .project import Project

ID_FILE = "claude-smart-id"
_ID_CHARS = 32
_MOST = 64 * 1024
_HEX = frozenset("0123456789abcdef")
_INITIAL = "commit (initial)"
_FIELDS = ("key", "path", "remote", "root", "asked")
_MOVED = "moved.json"
_NAMED = "name-"


class Copy:
    """A working copy as it is remembered."""

    __slots__ = ("asked", "id", "is_held", "key", "path", "remote", "root")

    def __init__(self, id: str, key: str, path: str, remote: str = "", root: str = "", asked: str = "") -> None:
        self.id = id
        self.key = key
        """The project it belongs to."""
        self.path = path
        """The git directory that its worktrees share; without git, the folder."""
        self.remote = remote
        self.root = root
        """Its first commit, where that is known."""
        self.asked = asked
        """The project that it might belong to as well: a person has to say."""
        self.is_held = False

    @property
    def is_named(self) -> bool:
        return self.id.startswith(_NAMED)


def find_project(place: Place, found: Project, *, remember: bool = True) -> str:
    """Return the key of the project that a located folder belongs to; `remember` writes down what is new."""
    return find_copy(place, found, remember=remember).key


def find_copy(place: Place, found: Project, *, remember: bool = True) -> Copy:
    """Return the working copy that a located folder is in, as it is remembered."""
    path = found.git or found.start
    if not path:
        return Copy("", found.key, found.root)
    if found.is_named:
        return _find_named(place, found, path, remember=remember)
    own = read_id(path) if found.git else ""
    # Without git, or where nothing can be written into its folder, a copy is known by its path.
    held = read_copy(place, own or digest("path", path))
    if held is not None and (held.path, held.remote) == (path, found.remote):
        return held
    copy = _settle(place, Copy(own, found.key, path, found.remote, read_root(found.git)), held)
    if remember:
        remember_copy(place, found, copy)
    return copy


def remember_copy(place: Place, found: Project, copy: Copy) -> None:
    """Write down a working copy that is new or has changed."""
    if not copy.is_held and (found.git or found.start):
        copy.id = copy.id or (write_id(copy.path) if found.git else digest("path", copy.path))
        write_copy(place, copy)
        copy.is_held = True


def _find_named(place: Place, found: Project, path: str, *, remember: bool) -> Copy:
    id = _NAMED + digest(found.key, path)
    held = read_copy(place, id)
    if held is not None and (held.path, held.remote) == (path, found.remote):
        return held
    copy = Copy(id, found.key, path, found.remote, read_root(found.git))
    others = [one for one in read_copies(place) if one.key == copy.key and one.path != path]
    if held is not None:
        copy.key, copy.asked = held.key, held.asked
    elif others and not any(_has_place_of(copy, one) for one in others):
        copy.key, copy.asked = f"{copy.key}#{digest(path)[:8]}", copy.key
    if remember:
        remember_copy(place, found, copy)
    return copy


def _has_place_of(copy: Copy, other: Copy) -> bool:
    """Whether a named copy is another clone of one repository, or that copy itself, moved."""
    if copy.remote and copy.remote == other.remote:
        return True
    return (copy.remote, copy.root) == (other.remote, other.root) and not os.path.exists(other.path)


def _settle(place: Place, copy: Copy, held: Copy | None) -> Copy:
    """Decide about a working copy that is new, was moved or copied, or has another remote than before."""
    others = [one for one in read_copies(place) if one.path != copy.path and not one.is_named]
    if held is None:
        return _join(place, copy, others)
    if held.path != copy.path and read_id(held.path) == copy.id:
        # The folder was copied with its id: two copies now, of one project only if they have one remote.
        copy.id = ""
        return _join(place, copy, others)
    parted = held.remote and copy.remote not in ("", held.remote)
    if parted and any(one.key == held.key and os.path.exists(one.path) for one in others):
        # It shared a project by its remote, and has another remote now: a fork, or one of two that were renamed.
        joined = _join(place, copy, [one for one in others if one.key != held.key])
        joined.key = f"{joined.key}#{digest(copy.path)[:8]}" if joined.key == held.key else joined.key
        joined.asked = held.key if joined.key != held.key else ""
        return joined
    copy.key, copy.root, copy.asked = held.key, held.root or copy.root, held.asked
    elsewhere = (one.key for one in others if one.remote and one.remote == copy.remote and one.key != copy.key)
    copy.asked = copy.asked or next(elsewhere, "")
    return copy


def _join(place: Place, copy: Copy, others: list[Copy]) -> Copy:
    """Give a new working copy its project: that of a copy with the same remote, or of one whose place it takes."""
    same = next((one for one in others if one.remote and one.remote == copy.remote), None)
    # A folder that became a repository, or a copy that lost its id.
    before = [read_copy(place, digest("path", os.path.dirname(copy.path)))]
    before += [one for one in read_copies(place) if one.path == copy.path and not one.is_named]
    here = next((one for one in before if one is not None and _may_be(one, copy)), None)
    rooted = [one for one in others if copy.root and one.root == copy.root]
    moved = [one for one in rooted if not os.path.exists(one.path) and _may_be(one, copy)]
    if known := same or here or (moved[0] if len(moved) == 1 else None):
        copy.key, copy.asked = known.key, known.asked
        return copy
    if any(one.key == copy.key for one in others):
        copy.key = f"{copy.key}#{digest(copy.path)[:8]}"
    copy.asked = rooted[0].key if rooted else ""
    return copy


def _may_be(one: Copy, other: Copy) -> bool:
    """Whether nothing tells two entries apart: neither their remotes nor their first commits differ."""
    return all(not a or not b or a == b for a, b in ((one.remote, other.remote), (one.root, other.root)))


def find_moved(place: Place, key: str) -> str:
    """Return the project that another one was joined to by its person; the same key when it was not."""
    try:
        with open(os.path.join(place.projects, _MOVED), "rb") as file:
            moved = json.loads(file.read(_MOST))
        return str(moved.get(key, key))
    except (OSError, ValueError, AttributeError, RecursionError):
        return key


def join_projects(place: Place, key: str, other: str) -> None:
    """Let all working copies of the project `key`, and the sessions recorded in them, belong to `other` from now on."""
    for copy in read_copies(place):
        if copy.key == key:
            copy.key, copy.asked = other, ""
            write_copy(place, copy)
    keys = {one.key for one in read_copies(place)} | {key}
    moved = {one: find_moved(place, one) for one in keys} | {key: other}
    _write(place, _MOVED, {one: to for one, to in moved.items() if one != to})


def forget_copies(place: Place, key: str = "") -> None:
    """Forget the working copies of a project, or of all; their ids are taken out of their git directories."""
    import contextlib

    for copy in read_copies(place):
        if key in ("", copy.key):
            own = os.path.join(copy.path, ID_FILE)
            for path in ([own] if read_id(copy.path) == copy.id else []) + [_entry(place, copy.id)]:
                with contextlib.suppress(OSError):
                    os.remove(path)
    if not key:
        with contextlib.suppress(OSError):
            os.remove(os.path.join(place.projects, _MOVED))


# -- files


def _entry(place: Place, id: str) -> str:
    return os.path.join(place.projects, f"{id}.json")


def read_id(git: str) -> str:
    """Return the id in a git directory; empty when there is none, or not one that we wrote."""
    path = os.path.join(git, ID_FILE)
    try:
        if os.path.islink(path):
            return ""
        with open(path, "rb") as file:
            id = file.read(_ID_CHARS + 1).strip().decode("ascii")
    except (OSError, ValueError):
        return ""
    return id if len(id) == _ID_CHARS and _HEX.issuperset(id) else ""


def write_id(git: str) -> str:
    """Give a working copy an id; the digest of its path, where nothing can be written."""
    id, path = os.urandom(_ID_CHARS // 2).hex(), os.path.join(git, ID_FILE)
    beside = f"{path}.{os.getpid()}"
    try:
        file = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            os.write(file, id.encode() + b"\n")
        finally:
            os.close(file)
        os.replace(beside, path)
    except OSError:
        return digest("path", git)
    return id


def read_root(git: str) -> str:
    """Return the first commit of a repository that was begun here, as its log of HEAD has it; empty for a clone."""
    try:
        with open(os.path.join(git, "logs", "HEAD"), "rb") as file:
            first = file.readline(1000).decode("utf-8", "replace")
    except OSError:
        return ""
    commits, _, action = first.partition("\t")
    return commits.split()[1] if action.startswith(_INITIAL) and len(commits.split()) > 1 else ""


def read_copy(place: Place, id: str) -> Copy | None:
    try:
        with open(_entry(place, id), "rb") as file:
            entry: Any = json.loads(file.read(_MOST))
        copy = Copy(id, *(str(entry[name]) for name in _FIELDS))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    copy.is_held = True
    return copy


def read_copies(place: Place) -> list[Copy]:
    try:
        names = sorted(os.listdir(place.projects))
    except OSError:
        return []
    ids = (name.removesuffix(".json") for name in names if name.endswith(".json"))
    return [copy for id in ids if (copy := read_copy(place, id)) is not None]


def write_copy(place: Place, copy: Copy) -> None:
    _write(place, f"{copy.id}.json", {name: getattr(copy, name) for name in _FIELDS})


def _write(place: Place, name: str, value: Mapping[str, str]) -> None:
    os.makedirs(place.home, 0o700, exist_ok=True)
    os.makedirs(place.projects, 0o700, exist_ok=True)
    path = os.path.join(place.projects, name)
    beside = f"{path}.{os.getpid()}"
    file = os.open(beside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    try:
        os.write(file, json.dumps(value).encode("utf-8", "replace"))
    finally:
        os.close(file)
    os.replace(beside, path)
