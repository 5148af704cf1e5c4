"""Find the project that a folder belongs to, from files only, without running git.

Worktrees and clones of one repository share a project; two repositories of the same name do not. Rules follow a
repository when it is moved or gets a remote. For this, each working copy has an id in `.git/claude-smart-id`, which git
never tracks, and an entry `projects/ID.json` in the data folder: the project's key, the remote, and the last known
folder. While these agree, a hook reads only the entry. Otherwise, in this order: a copy with a known id
keeps its project; a copy with the remote of a known copy shares that project; and a copy with neither takes over the
project of a removed copy that began with the same commit. Copies that might be the same stay separate until a person
decides (`claude-smart project`).

A name in `.claude-smart/project` comes with a repository, which could name any project. So names are remembered too, as
`projects/name-ID.json`: the first working copy with a name owns it, and others share it only with the same remote.
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
# The fields of an entry, and the attributes that hold them, in the order of `WorkingCopy`.
_FIELDS = {"key": "key", "path": "path", "remote": "remote", "root": "root", "asked": "similar_project"}
_MOVED = "moved.json"
_NAMED = "name-"
_SETTERS = (".env", ".envrc", ".devcontainer", ".devcontainer.json")
"""Files that set variables, besides Claude Code's settings."""


class WorkingCopy:
    """A working copy of a project: as derived from its folder, or as stored in its entry."""

    __slots__ = ("folders", "id", "is_git", "is_stored", "key", "path", "remote", "root", "similar_project")

    def __init__(
        self, id: str, key: str, path: str, remote: str = "", root: str = "", similar_project: str = ""
    ) -> None:
        self.id = id
        """Empty if it has no id yet."""
        self.key = key
        """The key of the project it belongs to."""
        self.path = path
        """The git directory that all worktrees share; without git, the folder of the project."""
        self.remote = remote
        self.root = root
        """The id of its first commit, if known."""
        self.similar_project = similar_project
        """Another project that may be the same one; a person has to decide."""
        self.folders: list[str] = []
        """The folders from the working one up to the root, if it was located."""
        self.is_git = self.is_stored = False

    @property
    def is_named(self) -> bool:
        """Return whether its key is a name from a `.claude-smart/project` file, which is not trusted."""
        return self.id.startswith(_NAMED)


def locate_project(cwd: str, host_dir: str = "") -> WorkingCopy:
    """Return the working copy that a folder is in.

    Outside of git it is `host_dir`, the folder that the host was started in, if `cwd` is below it; otherwise `cwd`. The
    variables of a folder in between could name a folder above it, whose rules are not its own: it is then the project.
    """
    here = _real_path(cwd)
    above = _list_above(here)
    top = next((folder for folder in above if os.path.lexists(os.path.join(folder, ".git"))), "")
    folders = above[: above.index(top) + 1] if top else above
    start = _real_path(host_dir) if host_dir else here
    copy = _locate_git(top) if top else _locate_folder(_find_start(above, start))
    for folder in above:
        # The `name:` prefix keeps names from colliding with other keys.
        line = " ".join(_first_line(read_own_file(folder, "project")).split())
        if name := "".join(sign for sign in line if sign.isprintable()):
            if not top or folder not in folders:
                copy = _locate_folder(folder)
            copy.key = _shorten_key(f"name:{name}")
            copy.id = _NAMED + digest(copy.key, copy.path)
            break
    copy.folders = folders
    return copy


def _find_start(above: list[str], start: str) -> str:
    """Return `start` if it is one of these folders, and no folder below it may have set variables; else the nearest."""
    if start not in above:
        return above[0]
    below = above[: above.index(start)]
    return next((one for one in below if any(map(os.path.lexists, _list_setters(one)))), start)


def _list_setters(folder: str) -> list[str]:
    """Return the files of a folder that set variables for the programs in it."""
    return [os.path.join(folder, name) for name in (".claude/settings.json", ".claude/settings.local.json", *_SETTERS)]


def _locate_folder(folder: str) -> WorkingCopy:
    return WorkingCopy(digest("path", folder), _shorten_key(f"path:{folder}"), folder)


def clean_path(path: str) -> str:
    """Return a path without characters that no file system accepts."""
    return path.replace("\0", "").encode("utf-8", "replace").decode()


def _list_above(path: str) -> list[str]:
    """Return the folder and all its parents, nearest first."""
    folders = [path]
    while (parent := os.path.dirname(folders[-1])) != folders[-1]:
        folders.append(parent)
    return folders


def _shorten_key(key: str) -> str:
    """Return the key; if it is too long or contains a secret, its redacted start and a digest that keeps it unique."""
    safe = redact_text(key)
    return key if safe == key and len(key) <= _LONGEST_KEY else f"{safe[:_KEY_HEAD]}#{digest(key)}"


def _real_path(*parts: str) -> str:
    return os.path.normcase(os.path.realpath(os.path.join(*parts)))


def _first_line(text: str) -> str:
    lines = (line.strip() for line in text.replace("\0", "").splitlines())
    return next(filter(None, lines), "")


def read_own_file(folder: str, name: str) -> str:
    """Return the text of a `.claude-smart` file in a folder of a project; empty if there is none.

    The file comes with a repository, which is not trusted: a link could point to a private file, and something other
    than a regular file could block the hook.
    """
    own = os.path.join(folder, FOLDER)
    path = os.path.join(own, name)
    return "" if os.path.islink(own) or os.path.islink(path) else read_text(path)


# -- git


def _locate_git(folder: str) -> WorkingCopy:
    git = os.path.join(folder, ".git")
    common = _find_git_directory(git)
    if not common:
        # `.git` points nowhere, or to a repository that does not know this folder.
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
    """Return the directory that `.git` is or points to; empty if there is none to trust.

    Anyone can write a `.git` file, so the directory must refer back to it: as a worktree of its repository, or as a
    submodule of a repository that contains this folder.
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
    """Return whether a directory is the entry `worktrees/NAME` of a repository for the folder of this `.git`."""
    back, shared = (_first_line(read_text(os.path.join(target, name))) for name in ("gitdir", "commondir"))
    common, kind = os.path.split(os.path.dirname(target))
    is_entry = kind == "worktrees" and bool(back) and bool(shared)
    return is_entry and _real_path(target, back) == _real_path(git) and _real_path(target, shared) == common


def find_remote(config: str) -> str:
    """Return the URL of origin, upstream or the first remote by name, in that order, from a git config."""
    urls: dict[str, str] = {}
    section = ""
    for line in config.replace("\\\n", "").replace("\t", " ").splitlines():
        name, _, value = (part.strip() for part in line.partition("="))
        if name.startswith("["):
            # `[remote "origin"]`
            kind, _, rest = line.strip()[1:].partition('"')
            section = rest.rpartition('"')[0] if kind.strip().lower() == "remote" else ""
        elif section and name.lower() == "url":
            # Remove quotes and comments, as git does.
            is_quoted = value.startswith('"')
            value = value[1:].partition('"')[0] if is_quoted else value.partition(" #")[0].partition(" ;")[0]
            if value.strip():
                urls.setdefault(section, value.strip())
    return next((urls[name] for name in ("origin", "upstream", *sorted(urls)) if name in urls), "")


def normalise_remote(url: str, folder: str = "") -> str:
    """Return one form for all spellings of a URL, such as `github.com/acme/app`, without user and password."""
    url = url.replace("\\", "/") if os.name == "nt" else url
    scheme, sign, rest = url.partition("://")
    # `host:path`, unless it is a path or begins with a drive letter.
    host, colon, path = url.partition(":")
    is_path = not colon or "/" in host or (len(host) == 1 and host.isalpha())
    if (sign and scheme.lower() == "file") or (not sign and is_path):
        # A path on this machine; git resolves a relative one from the main worktree.
        base = os.path.dirname(folder) if os.path.basename(folder) == ".git" else folder
        return _real_path(base, "/" + rest.partition("/")[2] if sign else url).removesuffix(".git").rstrip("/\\")
    if sign:
        # Query and fragment do not name a repository, but may contain a token.
        host, _, path = rest.partition("?")[0].partition("#")[0].partition("/")
    host = host.rpartition("@")[2].lower()
    name, _, port = host.rpartition(":")
    host = name if name and (port in _USUAL_PORTS or not port) else host
    parts = [part for part in path.split("/") if part]
    return "/".join([host, *parts]).removesuffix(".git") if host and parts else ""


# -- stored entries of working copies


def find_copy(data_dir: DataDir, copy: WorkingCopy, *, remember: bool = True) -> WorkingCopy:
    """Return the stored entry of a located working copy, or the copy with its project decided.

    With `remember`, a new or changed copy is stored.
    """
    # Without git, or if its folder is read-only, a copy is identified by its path.
    entry = read_copy(data_dir, copy.id or digest("path", copy.path))
    if entry is not None and (entry.path, entry.remote) == (copy.path, copy.remote):
        return entry
    # The log of HEAD starts with the first commit if the repository was created here; in a clone it does not.
    commits, _, action = _first_line(read_text(os.path.join(copy.path, "logs", "HEAD"))).partition("\t")
    if copy.is_git and action.startswith("commit (initial)") and len(commits.split()) > 1:
        copy.root = commits.split()[1]
    _choose_project(data_dir, copy, entry)
    if remember:
        remember_copy(data_dir, copy)
    return copy


def remember_copy(data_dir: DataDir, copy: WorkingCopy) -> None:
    """Store a working copy that is new or has changed."""
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


def _choose_project(data_dir: DataDir, copy: WorkingCopy, entry: WorkingCopy | None) -> None:
    """Set the project of a working copy that is new, was moved or copied, or has another remote than its `entry`.

    A new copy joins the project of a copy with the same remote, or of a removed copy that it replaces. A copy with a
    project name gets that project if it is the first one, another clone, or the same copy after a move.
    """
    copies = [one for one in read_copies(data_dir) if one.is_named == copy.is_named]
    others = [one for one in copies if one.path != copy.path and (one.key == copy.key or not copy.is_named)]
    if entry is not None and entry.path != copy.path and read_id(entry.path) == copy.id:
        # The folder was copied with its id. The two copies share a project only if they have the same remote.
        copy.id, entry = "", None
    if entry is not None:
        is_shared = any(one.key == entry.key and os.path.exists(one.path) for one in others)
        is_other = bool(entry.remote) and copy.remote not in ("", entry.remote)
        if not is_shared or not is_other or copy.is_named:
            copy.key, copy.root = entry.key, entry.root or copy.root
            elsewhere = (one.key for one in others if one.remote and one.remote == copy.remote and one.key != copy.key)
            copy.similar_project = entry.similar_project or next(elsewhere, "")
            return
        # It shared a project by its remote and has another remote now: a fork, or one of two renamed copies.
        others = [one for one in others if one.key != entry.key]
    same = [one for one in others if one.remote and one.remote == copy.remote]
    if not copy.is_named:
        # A folder that became a repository, or a copy that lost its id.
        folder = digest("path", os.path.dirname(copy.path))
        same += [one for one in copies if (one.id == folder or one.path == copy.path) and _may_be_same(one, copy)]
    same_root = [one for one in others if one.root == copy.root and (copy.root or copy.is_named)]
    missing = [one for one in same_root if not os.path.exists(one.path) and _may_be_same(one, copy)]
    own_key = f"{copy.key}#{digest(copy.path)[:8]}"
    if same or len(missing) == 1:
        copy.key, copy.similar_project = (same or missing)[0].key, (same or missing)[0].similar_project
    elif any(one.key == copy.key for one in others):
        copy.key, copy.similar_project = own_key, copy.key if copy.is_named else same_root[0].key if same_root else ""
    elif same_root and not copy.is_named:
        copy.similar_project = same_root[0].key
    if entry is not None:
        copy.key, copy.similar_project = own_key if copy.key == entry.key else copy.key, entry.key


def _may_be_same(one: WorkingCopy, other: WorkingCopy) -> bool:
    """Return whether neither the remotes nor the first commits of two entries differ."""
    return all(not a or not b or a == b for a, b in ((one.remote, other.remote), (one.root, other.root)))


def find_moved(data_dir: DataDir, key: str) -> str:
    """Return the key of the project that a project was joined to; the same key if it was not joined."""
    return str(read_object(os.path.join(data_dir.projects, _MOVED)).get(key, key))


def join_projects(data_dir: DataDir, key: str, other: str) -> None:
    """Move all working copies of the project `key`, and the sessions recorded in them, to the project `other`."""
    keys = {key}
    for copy in read_copies(data_dir):
        keys.add(copy.key)
        if copy.key == key:
            copy.key, copy.similar_project = other, ""
            write_copy(data_dir, copy)
    targets = {one: find_moved(data_dir, one) for one in keys} | {key: other}
    _write_entry(data_dir, _MOVED, {one: to for one, to in targets.items() if one != to})


def forget_copies(data_dir: DataDir, key: str = "") -> None:
    """Forget the working copies of a project, or of all projects, and delete their ids from their git directories."""
    paths = [] if key else [os.path.join(data_dir.projects, _MOVED)]
    for copy in read_copies(data_dir):
        if key in ("", copy.key):
            paths += [os.path.join(copy.path, ID_FILE)] if read_id(copy.path) == copy.id else []
            paths.append(os.path.join(data_dir.projects, f"{copy.id}.json"))
    for path in filter(os.path.exists, paths):
        os.remove(path)


def read_id(git: str) -> str:
    """Return the id stored in a git directory; empty if there is no valid one."""
    path = os.path.join(git, ID_FILE)
    id = "" if os.path.islink(path) else read_text(path).strip()
    return id if len(id) == _ID_CHARS and not id.strip("0123456789abcdef") else ""


def read_copy(data_dir: DataDir, id: str) -> WorkingCopy | None:
    """Return the stored working copy with this id; None if there is none."""
    entry = read_object(os.path.join(data_dir.projects, f"{id}.json"))
    if not all(name in entry for name in _FIELDS):
        return None
    copy = WorkingCopy(id, *(str(entry[name]) for name in _FIELDS))
    copy.is_stored = True
    return copy


def read_copies(data_dir: DataDir) -> list[WorkingCopy]:
    """Return all stored working copies."""
    names = sorted(os.listdir(data_dir.projects)) if os.path.isdir(data_dir.projects) else []
    copies = (read_copy(data_dir, name.removesuffix(".json")) for name in names if name.endswith(".json"))
    return [copy for copy in copies if copy is not None]


def write_copy(data_dir: DataDir, copy: WorkingCopy) -> None:
    """Store a working copy under its id."""
    _write_entry(data_dir, f"{copy.id}.json", {name: getattr(copy, field) for name, field in _FIELDS.items()})


def _write_entry(data_dir: DataDir, name: str, value: Mapping[str, Any]) -> None:
    for folder in (data_dir.home, data_dir.projects):
        os.makedirs(folder, 0o700, exist_ok=True)
    write_private(os.path.join(data_dir.projects, name), json.dumps(value).encode("utf-8", "replace"))
