"""Which project a folder belongs to, read from files and never by running git.

Worktrees and clones of one repository share a project; two repositories of the same name do not. Rules follow a
repository when it is moved or gets a remote. For that each working copy has an id of its own in `.git/claude-smart-id`,
which git never tracks, and an entry `projects/ID.json` in the home: the project's key, the remote and the folder it was
last seen with. While these agree, the entry is all a hook reads. Otherwise, in this order: a copy that is known by its
id keeps its project, a copy with the remote of a known one shares that project, and a copy without either that begins
with the same commit as one that is gone takes its place. Copies that might be the same are kept apart until a person
says so (`claude-smart project`).

A name out of `.claude-smart/project` comes with a repository, which could name any project. So it is remembered, too,
as `projects/name-ID.json`: the first working copy of a name has it, and others only if they have its remote.
"""

from __future__ import annotations

import json
import os

from .paths import digest, read_object, read_text, redact_text, write_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .paths import DataDir

FOLDER = ".claude-smart"
ID_FILE = "claude-smart-id"
_LONGEST_KEY = 200
_KEY_HEAD = 150
_USUAL_PORTS = ("22", "443", "80")
_ID_CHARS = 32
_FIELDS = ("key", "path", "remote", "root", "asked")
_MOVED = "moved.json"
_NAMED = "name-"


class WorkingCopy:
    """A folder with a project: as the folder alone says it, or as it is remembered."""

    __slots__ = ("asked", "folders", "id", "is_git", "is_stored", "key", "path", "remote", "root")

    def __init__(self, id: str, key: str, path: str, remote: str = "", root: str = "", asked: str = "") -> None:
        self.id = id
        """Empty where none is known yet."""
        self.key = key
        """The project it belongs to."""
        self.path = path
        """The git directory that all worktrees share; without git, the folder that the project is."""
        self.remote = remote
        self.root = root
        """Its first commit, where that is known."""
        self.asked = asked
        """The project that it might belong to as well: a person has to say."""
        self.folders: list[str] = []
        """From the working one up to its root, where it was located."""
        self.is_git = self.is_stored = False

    @property
    def is_named(self) -> bool:
        """Whether its key was a name out of a file that anybody may have put there."""
        return self.id.startswith(_NAMED)


def locate_project(cwd: str, opened: str = "") -> WorkingCopy:
    """Return the project of a folder. `opened` is where the host was started: without git, the project below it."""
    here = _real_path(cwd)
    above = _list_above(here)
    top = next((folder for folder in above if os.path.lexists(os.path.join(folder, ".git"))), "")
    folders = above[: above.index(top) + 1] if top else above
    start = _real_path(opened) if opened else here
    copy = _locate_git(top) if top else _locate_folder(start if start in above else here)
    for folder in above:
        # Names are a space of their own: none is the key of another.
        line = " ".join(_first_line(read_own_file(folder, "project")).split())
        if name := "".join(sign for sign in line if sign.isprintable()):
            if not top or folder not in folders:
                copy = _locate_folder(folder)
            copy.key = _shorten_key(f"name:{name}")
            copy.id = _NAMED + digest(copy.key, copy.path)
            break
    copy.folders = folders
    return copy


def _locate_folder(folder: str) -> WorkingCopy:
    return WorkingCopy(digest("path", folder), _shorten_key(f"path:{folder}"), folder)


def clean_path(path: str) -> str:
    """Return a path without what no file system takes."""
    return path.replace("\0", "").encode("utf-8", "replace").decode()


def _list_above(path: str) -> list[str]:
    """Return the folder and all that hold it, nearest first."""
    folders = [path]
    while (parent := os.path.dirname(folders[-1])) != folders[-1]:
        folders.append(parent)
    return folders


def _shorten_key(key: str) -> str:
    """A folder's name or an address may hold a secret: then what is left of it, and a digest that tells it apart."""
    safe = redact_text(key)
    return key if safe == key and len(key) <= _LONGEST_KEY else f"{safe[:_KEY_HEAD]}#{digest(key)}"


def _real_path(*parts: str) -> str:
    return os.path.normcase(os.path.realpath(os.path.join(*parts)))


def _first_line(text: str) -> str:
    lines = (line.strip() for line in text.replace("\0", "").splitlines())
    return next(filter(None, lines), "")


def read_own_file(folder: str, name: str) -> str:
    """Return the text of a file of ours in a folder of a project; empty when there is none.

    It comes with a repository, which is not to be trusted: a link could lead to a file of the person's that is nobody's
    business, and what is no plain file could hold us up.
    """
    own = os.path.join(folder, FOLDER)
    path = os.path.join(own, name)
    return "" if os.path.islink(own) or os.path.islink(path) else read_text(path)


# -- git


def _locate_git(folder: str) -> WorkingCopy:
    git = os.path.join(folder, ".git")
    common = _find_git_directory(git)
    if not common:
        # It leads nowhere, or to a repository of others.
        return _locate_folder(folder)
    if _is_worktree(common, git):
        common = os.path.dirname(os.path.dirname(common))
    url = find_remote(read_text(os.path.join(common, "config")))
    remote = normalise_remote(url, common) if url else ""
    here = os.path.dirname(common) if os.path.basename(common) == ".git" else common
    key = _shorten_key(f"git:{remote}" if remote else f"path:{here}")
    copy = WorkingCopy(read_id(common), key, common, _shorten_key(remote))
    copy.is_git = True
    return copy


def _find_git_directory(git: str) -> str:
    """Return the directory that `.git` is or leads to. Anybody can write such a file, so the directory must know it:
    as a worktree of its repository, or in the modules of a repository whose folder holds this one.
    """
    if os.path.islink(git):
        return ""
    if os.path.isdir(git):
        return _real_path(git)
    line = _first_line(read_text(git))
    target = _real_path(os.path.dirname(git), line.removeprefix("gitdir:").strip())
    if not line.startswith("gitdir:") or not os.path.isdir(target):
        return ""
    if not _is_worktree(target, git):
        outer = (os.path.join(folder, ".git") for folder in _list_above(os.path.dirname(git))[1:])
        directories = filter(None, map(_find_git_directory, filter(os.path.lexists, outer)))
        if not any(target.startswith(os.path.join(one, "modules", "")) for one in directories):
            return ""
    return target


def _is_worktree(target: str, git: str) -> bool:
    """Return whether a directory is an entry `worktrees/NAME` of a repository, made for the folder of this `.git`."""
    back, shared = (_first_line(read_text(os.path.join(target, name))) for name in ("gitdir", "commondir"))
    common, kind = os.path.split(os.path.dirname(target))
    is_entry = kind == "worktrees" and bool(back) and bool(shared)
    return is_entry and _real_path(target, back) == _real_path(git) and _real_path(target, shared) == common


def find_remote(config: str) -> str:
    """Return the address of origin, else upstream, else of the first remote by name, out of a git config."""
    urls: dict[str, str] = {}
    section = ""
    for line in config.replace("\\\n", "").replace("\t", " ").splitlines():
        name, _, value = (part.strip() for part in line.partition("="))
        if name.startswith("["):
            # `[remote "origin"]`
            kind, _, rest = line.strip()[1:].partition('"')
            section = rest.rpartition('"')[0] if kind.strip().lower() == "remote" else ""
        elif section and name.lower() == "url":
            # Without quotes and without a comment, as git reads a value.
            is_quoted = value.startswith('"')
            value = value[1:].partition('"')[0] if is_quoted else value.partition(" #")[0].partition(" ;")[0]
            if value.strip():
                urls.setdefault(section, value.strip())
    return next((urls[name] for name in ("origin", "upstream", *sorted(urls)) if name in urls), "")


def normalise_remote(url: str, folder: str = "") -> str:
    """Return one text for all ways to write an address: `github.com/acme/app`. Never with a user or a password."""
    url = url.replace("\\", "/") if os.name == "nt" else url
    scheme, sign, rest = url.partition("://")
    # `host:path`, unless it is a path itself or begins with a drive.
    host, colon, path = url.partition(":")
    is_path = not colon or "/" in host or (len(host) == 1 and host.isalpha())
    if (sign and scheme.lower() == "file") or (not sign and is_path):
        # A path on this machine; git takes a relative one from the main worktree.
        base = os.path.dirname(folder) if os.path.basename(folder) == ".git" else folder
        return _real_path(base, "/" + rest.partition("/")[2] if sign else url).removesuffix(".git").rstrip("/\\")
    if sign:
        # What may stand after these signs names no repository, but perhaps a token.
        host, _, path = rest.partition("?")[0].partition("#")[0].partition("/")
    host = host.rpartition("@")[2].lower()
    name, _, port = host.rpartition(":")
    host = name if name and (port in _USUAL_PORTS or not port) else host
    parts = [part for part in path.split("/") if part]
    return "/".join([host, *parts]).removesuffix(".git") if host and parts else ""


# -- working copies, as they are remembered


def find_copy(data_dir: DataDir, copy: WorkingCopy, *, remember: bool = True) -> WorkingCopy:
    """Return a located folder as it is remembered; `remember` writes down what is new."""
    # Without git, or where nothing can be written into its folder, a copy is known by its path.
    stored = read_copy(data_dir, copy.id or digest("path", copy.path))
    if stored is not None and (stored.path, stored.remote) == (copy.path, copy.remote):
        return stored
    # The first commit of a repository that was begun here, as its log of HEAD has it; a clone has none.
    commits, _, action = _first_line(read_text(os.path.join(copy.path, "logs", "HEAD"))).partition("\t")
    if copy.is_git and action.startswith("commit (initial)") and len(commits.split()) > 1:
        copy.root = commits.split()[1]
    _settle(data_dir, copy, stored)
    if remember:
        remember_copy(data_dir, copy)
    return copy


def remember_copy(data_dir: DataDir, copy: WorkingCopy) -> None:
    """Write down a working copy that is new or has changed."""
    if copy.is_stored:
        return
    if not copy.id:
        copy.id = os.urandom(_ID_CHARS // 2).hex()
        try:
            write_private(os.path.join(copy.path, ID_FILE), copy.id.encode() + b"\n")
        except OSError:
            copy.id = digest("path", copy.path)
    write_copy(data_dir, copy)
    copy.is_stored = True


def _settle(data_dir: DataDir, copy: WorkingCopy, stored: WorkingCopy | None) -> None:
    """Decide which project a working copy belongs to that is new, was moved or copied, or has another remote.

    A new one belongs to the project of a copy with the same remote, or of one whose place it takes. A named copy has
    its name if it is the first, or another clone, or that copy, moved.
    """
    known = [one for one in read_copies(data_dir) if one.is_named == copy.is_named]
    others = [one for one in known if one.path != copy.path and (one.key == copy.key or not copy.is_named)]
    if stored is not None and stored.path != copy.path and read_id(stored.path) == copy.id:
        # The folder was copied with its id: two copies now, of one project only if they have one remote.
        copy.id, stored = "", None
    if stored is not None:
        is_shared = any(one.key == stored.key and os.path.exists(one.path) for one in others)
        is_other = bool(stored.remote) and copy.remote not in ("", stored.remote)
        if not is_shared or not is_other or copy.is_named:
            copy.key, copy.root = stored.key, stored.root or copy.root
            elsewhere = (one.key for one in others if one.remote and one.remote == copy.remote and one.key != copy.key)
            copy.asked = stored.asked or next(elsewhere, "")
            return
        # It shared a project by its remote, and has another remote now: a fork, or one of two that were renamed.
        others = [one for one in others if one.key != stored.key]
    same = [one for one in others if one.remote and one.remote == copy.remote]
    if not copy.is_named:
        # A folder that became a repository, or a copy that lost its id.
        folder = digest("path", os.path.dirname(copy.path))
        same += [one for one in known if (one.id == folder or one.path == copy.path) and _may_be_same(one, copy)]
    rooted = [one for one in others if one.root == copy.root and (copy.root or copy.is_named)]
    moved = [one for one in rooted if not os.path.exists(one.path) and _may_be_same(one, copy)]
    own_key = f"{copy.key}#{digest(copy.path)[:8]}"
    if same or len(moved) == 1:
        copy.key, copy.asked = (same or moved)[0].key, (same or moved)[0].asked
    elif any(one.key == copy.key for one in others):
        copy.key, copy.asked = own_key, copy.key if copy.is_named else rooted[0].key if rooted else ""
    elif rooted and not copy.is_named:
        copy.asked = rooted[0].key
    if stored is not None:
        copy.key, copy.asked = own_key if copy.key == stored.key else copy.key, stored.key


def _may_be_same(one: WorkingCopy, other: WorkingCopy) -> bool:
    """Return whether nothing tells two entries apart: neither their remotes nor their first commits differ."""
    return all(not a or not b or a == b for a, b in ((one.remote, other.remote), (one.root, other.root)))


def find_moved(data_dir: DataDir, key: str) -> str:
    """Return the project that another one was joined to by its person; the same key when it was not."""
    return str(read_object(os.path.join(data_dir.projects, _MOVED)).get(key, key))


def join_projects(data_dir: DataDir, key: str, other: str) -> None:
    """Let all working copies of the project `key`, and the sessions recorded in them, belong to `other` from now on."""
    keys = {key}
    for copy in read_copies(data_dir):
        keys.add(copy.key)
        if copy.key == key:
            copy.key, copy.asked = other, ""
            write_copy(data_dir, copy)
    moved = {one: find_moved(data_dir, one) for one in keys} | {key: other}
    _write_entry(data_dir, _MOVED, {one: to for one, to in moved.items() if one != to})


def forget_copies(data_dir: DataDir, key: str = "") -> None:
    """Forget the working copies of a project, or of all; their ids are taken out of their git directories."""
    gone = [] if key else [os.path.join(data_dir.projects, _MOVED)]
    for copy in read_copies(data_dir):
        if key in ("", copy.key):
            gone += [os.path.join(copy.path, ID_FILE)] if read_id(copy.path) == copy.id else []
            gone.append(os.path.join(data_dir.projects, f"{copy.id}.json"))
    for path in filter(os.path.exists, gone):
        os.remove(path)


def read_id(git: str) -> str:
    """Return the id in a git directory; empty when there is none, or not one that we wrote."""
    path = os.path.join(git, ID_FILE)
    id = "" if os.path.islink(path) else read_text(path).strip()
    return id if len(id) == _ID_CHARS and not id.strip("0123456789abcdef") else ""


def read_copy(data_dir: DataDir, id: str) -> WorkingCopy | None:
    entry = read_object(os.path.join(data_dir.projects, f"{id}.json"))
    if not all(name in entry for name in _FIELDS):
        return None
    copy = WorkingCopy(id, *(str(entry[name]) for name in _FIELDS))
    copy.is_stored = True
    return copy


def read_copies(data_dir: DataDir) -> list[WorkingCopy]:
    names = sorted(os.listdir(data_dir.projects)) if os.path.isdir(data_dir.projects) else []
    copies = (read_copy(data_dir, name.removesuffix(".json")) for name in names if name.endswith(".json"))
    return [copy for copy in copies if copy is not None]


def write_copy(data_dir: DataDir, copy: WorkingCopy) -> None:
    _write_entry(data_dir, f"{copy.id}.json", {name: getattr(copy, name) for name in _FIELDS})


def _write_entry(data_dir: DataDir, name: str, value: Mapping[str, Any]) -> None:
    for folder in (data_dir.home, data_dir.projects):
        os.makedirs(folder, 0o700, exist_ok=True)
    write_private(os.path.join(data_dir.projects, name), json.dumps(value).encode("utf-8", "replace"))
