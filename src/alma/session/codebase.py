"""Getting one's bearings in a folder of code: by its files and by git, bounded in time and size, and never raising."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from . import _checks, _git

SECONDS = 2.0
_ENTRIES = 20_000
_WALK_SECONDS = 0.3
_DEPTH = 8
_SHOWN = 20
_SKIPPED = frozenset(
    """node_modules bower_components vendor venv env dist build target out coverage htmlcov site-packages
    __pycache__ egg-info Pods DerivedData""".split()
)
_LANGUAGES = {
    ".py": "Python", ".pyi": "Python", ".js": "JavaScript", ".mjs": "JavaScript", ".jsx": "JavaScript",
    ".ts": "TypeScript", ".tsx": "TypeScript", ".go": "Go", ".rs": "Rust", ".java": "Java", ".kt": "Kotlin",
    ".c": "C", ".h": "C", ".cc": "C++", ".cpp": "C++", ".hpp": "C++", ".cs": "C#", ".rb": "Ruby", ".php": "PHP",
    ".swift": "Swift", ".scala": "Scala", ".ex": "Elixir", ".exs": "Elixir", ".sh": "Shell", ".sql": "SQL",
    ".dart": "Dart", ".lua": "Lua", ".r": "R", ".jl": "Julia", ".hs": "Haskell", ".zig": "Zig", ".vue": "Vue",
}  # fmt: skip
_MANIFESTS = (
    "pyproject.toml", "setup.py", "requirements.txt", "package.json", "Cargo.toml", "go.mod", "pom.xml",
    "build.gradle", "build.gradle.kts", "Gemfile", "composer.json", "mix.exs", "CMakeLists.txt", "Makefile",
    "Dockerfile", "docker-compose.yml", "compose.yaml", "deno.json",
)  # fmt: skip


def orient(folder: str | os.PathLike[str], seconds: float = SECONDS) -> dict[str, Any] | None:
    """Branch, changes, recent commits, layout, languages and how tests are run; None where there is no code.

    A part that takes longer than it may is left out, and `complete` says so.
    """
    root = _root(Path(folder))
    if root is None:
        return None
    git = _git.look(root, seconds)
    manifests = [name for name in _MANIFESTS if (root / name).is_file()]
    layout, languages, complete = _walk(root)
    if git is None and not manifests and not languages:
        return None
    tests = _checks.commands(root)
    return {
        "root": str(root),
        "name": root.name,
        "git": git,
        "layout": layout,
        "languages": languages,
        "manifests": manifests,
        "tests": {
            "command": tests[0]["command"] if tests else None,
            "commands": tests,
            "folders": _checks.folders(root),
        },
        "complete": complete and (git is None or git["clean"] is not None),
    }


def _root(folder: Path) -> Path | None:
    """The top of the repository that the folder is in, else the folder itself."""
    try:
        here = folder.expanduser().resolve()
        if not here.is_dir():
            return None
        return next((place for place in (here, *here.parents) if (place / ".git").exists()), here)
    except (OSError, RuntimeError):
        return None


def _walk(root: Path) -> tuple[dict[str, Any], dict[str, int], bool]:
    """How many files each folder at the top holds, what is written in, and whether all of it was seen."""
    folders: Counter[str] = Counter()
    files: list[str] = []
    languages: Counter[str] = Counter()
    deadline = time.monotonic() + _WALK_SECONDS
    for number, (parts, name) in enumerate(_files(root)):
        if number >= _ENTRIES or time.monotonic() > deadline:
            return _layout(folders, files), dict(languages.most_common(_SHOWN)), False
        if parts:
            folders[parts[0]] += 1
        else:
            files.append(name)
        if language := _LANGUAGES.get(os.path.splitext(name)[1].lower()):
            languages[language] += 1
    return _layout(folders, files), dict(languages.most_common(_SHOWN)), True


def _layout(folders: Counter[str], files: list[str]) -> dict[str, Any]:
    return {"folders": dict(folders.most_common(_SHOWN)), "files": sorted(files)[:_SHOWN]}


def _files(root: Path) -> Iterator[tuple[tuple[str, ...], str]]:
    """What lies near the top comes first, so that a bound cuts off what is deep."""
    waiting: list[tuple[str, ...]] = [()]
    for parts in waiting:
        inner, names = _listed(root.joinpath(*parts))
        yield from ((parts, name) for name in names)
        if len(parts) < _DEPTH:
            waiting += [(*parts, name) for name in inner]


def _listed(folder: Path) -> tuple[list[str], list[str]]:
    """The folders to look into and the files; nothing where it may not be read."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
            files = [entry.name for entry in found if entry.is_file(follow_symlinks=False)]
            return [entry.name for entry in found if _entered(entry)], files
    except OSError:
        return [], []


def _entered(entry: os.DirEntry[str]) -> bool:
    if not entry.is_dir(follow_symlinks=False) or entry.name.endswith(".egg-info"):
        return False
    return not entry.name.startswith(".") and entry.name not in _SKIPPED


# -- in words


def summary(state: Mapping[str, Any] | None) -> str | None:
    """A few lines for a prompt."""
    if state is None:
        return None
    layout, git = state["layout"], state["git"]
    lines = [f"{state['name']}: {_counted(state['languages'])}" if state["languages"] else str(state["name"])]
    if git is not None:
        lines += _git_lines(git)
    if layout["folders"]:
        lines.append(f"Folders: {', '.join(f'{name}/ ({count})' for name, count in layout['folders'].items())}")
    if state["tests"]["command"]:
        source = state["tests"]["commands"][0]["source"]
        lines.append(f"Tests: {state['tests']['command']} (from {source})")
    if not state["complete"]:
        lines.append("Not all of it was looked at: it is large.")
    return "\n".join(lines)


def _counted(languages: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name} file{'s' * (count != 1)}" for name, count in list(languages.items())[:3])


def _git_lines(git: Mapping[str, Any]) -> list[str]:
    apart = "".join(f", {git[way]} {way}" for way in ("ahead", "behind") if git[way])
    lines = [f"Branch: {git['branch'] or 'none (detached)'}{apart}; {_changes(git)}"]
    if git["recent_commits"]:
        lines.append(f"Last commit: {_commit(git['recent_commits'][0])}")
    return lines


def _changes(git: Mapping[str, Any]) -> str:
    if git["clean"] is None:
        return "changes unknown"
    if git["clean"]:
        return "clean"
    counts = ", ".join(f"{git[name]} {name}" for name in ("staged", "modified", "untracked", "conflicted") if git[name])
    return f"{counts} ({', '.join(git['changed_files'][:5])}{', …' * (len(git['changed_files']) > 5)})"


def _commit(commit: Mapping[str, str]) -> str:
    return f"{commit['hash']} {commit['when'][:10]} {commit['subject']}"


def commits(state: Mapping[str, Any] | None) -> list[str]:
    git = state["git"] if state else None
    return [f"Commit {_commit(one)}" for one in git["recent_commits"]] if git else []
