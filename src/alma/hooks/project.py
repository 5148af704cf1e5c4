"""Which project a folder belongs to, read from files and never by running git.

Worktrees and clones of one repository share a project; two repositories of the same name do not.
"""

from __future__ import annotations

import os

from .place import digest

FOLDER = ".claude-smart"
_LONGEST = 200
_HEAD = 150
_READ = 256 * 1024
MOST_CHARS = _READ
_USUAL_PORTS = {"22", "443", "80"}


class Project:
    """A project's key, and the folders from the working one up to its root."""

    __slots__ = ("folders", "git", "is_named", "key", "remote", "start")

    def __init__(self, key: str, folders: list[str], git: str = "", remote: str = "", start: str = "") -> None:
        self.key = key
        """As the folder alone says it; `identity` remembers which project it belongs to."""
        self.folders = folders
        self.git = git
        """The git directory that all worktrees share; empty without one."""
        self.remote = remote
        self.start = start
        """Without git: the folder that the project is."""
        self.is_named = False
        """Whether the key is a name out of a file that anybody may have put there."""

    @property
    def root(self) -> str:
        return self.folders[-1]


def identify(cwd: str, opened: str = "") -> str:
    return locate(cwd, opened).key


def locate(cwd: str, opened: str = "") -> Project:
    """`opened` is the folder the host was started in: without git, the project of the folders below it."""
    here = os.path.normcase(os.path.realpath(cwd))
    above = _above(here)
    git = next((folder for folder in above if os.path.lexists(os.path.join(folder, ".git"))), "")
    folders = above[: above.index(git) + 1] if git else above
    naming, name = next(((folder, name) for folder in above if (name := _override(folder))), ("", ""))
    if name:
        found = _of_git(git, folders) if naming in folders and git else Project("", folders, start=naming)
        found.key, found.is_named = _short(f"name:{name}"), True
        return found
    if git:
        return _of_git(git, folders)
    start = os.path.normcase(os.path.realpath(opened)) if opened else here
    start = start if start in above else here
    return Project(_short(f"path:{start}"), folders, start=start)


def writable(path: str) -> str:
    """A path without what no file system takes."""
    return path.replace("\0", "").encode("utf-8", "replace").decode()


def _above(path: str) -> list[str]:
    """The folder and all that hold it, nearest first."""
    folders = [path]
    while (parent := os.path.dirname(folders[-1])) != folders[-1]:
        folders.append(parent)
    return folders


def _short(key: str) -> str:
    """A folder's name or an address may hold a secret: then what is left of it, and a digest that tells it apart."""
    from .trim import redacted

    safe = redacted(key)
    if safe == key and len(key) <= _LONGEST:
        return key
    return f"{safe[:_HEAD]}#{digest(key)}"


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_READ).decode("utf-8", "replace")
    except OSError:
        return ""


def _first_line(path: str) -> str:
    lines = (line.strip() for line in _read(path).replace("\0", "").splitlines())
    return next((line for line in lines if line), "")


def own_file(folder: str, name: str) -> str:
    """The text of a file of ours in a folder of a project; empty when there is none.

    It comes with a repository, which is not to be trusted: a link could lead to a file of the person's that is nobody's
    business, and what is no plain file could hold us up.
    """
    kept = os.path.join(folder, FOLDER)
    path = os.path.join(kept, name)
    try:
        # A regular file, by its own mode and not by that of what a link leads to.
        if os.lstat(path).st_mode & 0o170000 != 0o100000 or os.path.islink(kept):
            return ""
    except (OSError, ValueError):
        return ""
    return _read(path)


def _override(folder: str) -> str:
    """The name that a project gives itself. Names are a space of their own: none is the key of another project."""
    lines = (" ".join(line.split()) for line in own_file(folder, "project").replace("\0", "").splitlines())
    name = next((line for line in lines if line), "")
    return "".join(sign for sign in name if sign.isprintable())


# -- git


def _of_git(folder: str, folders: list[str]) -> Project:
    common = _common(os.path.join(folder, ".git"))
    if not common:
        return Project(_short(f"path:{folder}"), folders, start=folder)
    url = remote(_read(os.path.join(common, "config")))
    named = normalised(url, common) if url else ""
    if named:
        key = _short(f"git:{named}")
        return Project(key, folders, common, key.removeprefix("git:"))
    main = os.path.dirname(common) if os.path.basename(common) == ".git" else common
    return Project(_short(f"path:{main}"), folders, common)


def _common(git: str) -> str:
    """The git directory that all worktrees share; empty when `.git` leads nowhere, or to a repository of others."""
    found = _git_directory(git)
    if not found or not _is_worktree(found, git):
        return found
    return os.path.dirname(os.path.dirname(found))


def _git_directory(git: str) -> str:
    """The git directory that `.git` is or leads to. Anybody can write such a file, so the directory must know of it."""
    if os.path.islink(git):
        return ""
    if os.path.isdir(git):
        return _real(git)
    told = _first_line(git)
    if not told.startswith("gitdir:"):
        return ""
    found = _real(os.path.join(os.path.dirname(git), told.removeprefix("gitdir:").strip()))
    return found if os.path.isdir(found) and (_is_worktree(found, git) or _is_submodule(found, git)) else ""


def _is_worktree(found: str, git: str) -> bool:
    """Whether a directory is an entry `worktrees/NAME` of a repository, made for the folder of this `.git`."""
    back, shared = _first_line(os.path.join(found, "gitdir")), _first_line(os.path.join(found, "commondir"))
    common, kept = os.path.split(os.path.dirname(found))
    if kept != "worktrees" or not back or not shared:
        return False
    return _real(os.path.join(found, back)) == _real(git) and _real(os.path.join(found, shared)) == common


def _is_submodule(found: str, git: str) -> bool:
    """Whether a directory lies in the modules of a repository whose folder holds this one."""
    for folder in _above(os.path.dirname(git))[1:]:
        outer = os.path.join(folder, ".git")
        if os.path.lexists(outer):
            modules = os.path.join(_git_directory(outer), "modules", "")
            if os.path.isabs(modules) and found.startswith(modules):
                return True
    return False


def _real(path: str) -> str:
    return os.path.normcase(os.path.realpath(path))


def remote(config: str) -> str:
    """The address of origin, else upstream, else of the first remote by name."""
    found: dict[str, str] = {}
    section = ""
    for line in config.replace("\\\n", "").splitlines():
        stripped = line.strip()
        if stripped.startswith("["):
            section = _remote_name(stripped)
        elif section and section not in found:
            name, _, value = stripped.partition("=")
            if name.strip().lower() == "url" and _plain(value):
                found[section] = _plain(value)
    chosen = next((name for name in ("origin", "upstream", *sorted(found)) if name in found), "")
    return found.get(chosen, "")


def _remote_name(header: str) -> str:
    """`[remote "origin"]` → origin; anything else → nothing."""
    kind, _, rest = header[1:].partition('"')
    return rest.rpartition('"')[0] if kind.strip().lower() == "remote" else ""


def _plain(value: str) -> str:
    """Without quotes and without a comment, as git reads a value."""
    value = value.strip()
    if value.startswith('"'):
        return value[1:].partition('"')[0].strip()
    for sign in (" #", " ;", "\t#", "\t;"):
        value = value.partition(sign)[0]
    return value.strip()


def normalised(url: str, folder: str = "") -> str:
    """The same for all ways to write one address: `github.com/acme/app`. Never with a user or a password."""
    url = url.replace("\\", "/") if os.name == "nt" else url
    scheme, sign, rest = url.partition("://")
    if not sign:
        return _scp_or_path(url, folder)
    if scheme.lower() == "file":
        return _local("/" + rest.partition("/")[2], folder)
    for sign in "?#":
        # What may stand there names no repository, but perhaps a token.
        rest = rest.partition(sign)[0]
    authority, _, path = rest.partition("/")
    return _joined(_host(authority.rpartition("@")[2]), path)


def _scp_or_path(url: str, folder: str) -> str:
    host, colon, path = url.partition(":")
    is_drive = len(host) == 1 and host.isalpha()
    if not colon or "/" in host or is_drive:
        return _local(url, folder)
    return _joined(host.rpartition("@")[2].lower(), path)


def _host(authority: str) -> str:
    host, colon, port = authority.rpartition(":")
    if colon and port.isdigit():
        return host.lower() if port in _USUAL_PORTS else f"{host.lower()}:{port}"
    return authority.rstrip(":").lower()


def _joined(host: str, path: str) -> str:
    parts = [part for part in path.split("/") if part]
    if not host or not parts:
        return ""
    return "/".join([host, *parts]).removesuffix(".git")


def _local(path: str, folder: str) -> str:
    """A repository on this machine; git takes a relative path from the main worktree."""
    base = os.path.dirname(folder) if os.path.basename(folder) == ".git" else folder
    found = os.path.normcase(os.path.realpath(os.path.join(base, path)))
    return found.removesuffix(".git").rstrip("/\\")
