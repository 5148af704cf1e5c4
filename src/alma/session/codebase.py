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
    """Return branch, changes, recent commits, layout, languages and how tests are run; None where there is no code.

    A part that takes longer than it may is left out, and `complete` says so.
    """
    try:
        here = Path(folder).expanduser().resolve()
        root = next((place for place in (here, *here.parents) if (place / ".git").exists()), here)
        if not here.is_dir():
            return None
    except (OSError, RuntimeError):
        return None
    git = _git.read_repository(root, seconds)
    manifests = [name for name in _MANIFESTS if (root / name).is_file()]
    layout, languages, complete = _count_files(root)
    if git is None and not manifests and not languages:
        return None
    commands = _checks.find_commands(root)
    command = commands[0]["command"] if commands else None
    return {
        "root": str(root),
        "name": root.name,
        "git": git,
        "layout": layout,
        "languages": languages,
        "manifests": manifests,
        "tests": {"command": command, "commands": commands, "folders": _checks.find_folders(root)},
        "complete": complete and (git is None or git["clean"] is not None),
    }


def _count_files(root: Path) -> tuple[dict[str, Any], dict[str, int], bool]:
    """Return how many files each folder at the top holds, the languages, and whether all of it was seen."""
    folders: Counter[str] = Counter()
    files: list[str] = []
    languages: Counter[str] = Counter()
    deadline = time.monotonic() + _WALK_SECONDS
    complete = True
    for number, (parts, name) in enumerate(_walk_files(root)):
        if number >= _ENTRIES or time.monotonic() > deadline:
            complete = False
            break
        if parts:
            folders[parts[0]] += 1
        else:
            files.append(name)
        if language := _LANGUAGES.get(os.path.splitext(name)[1].lower()):
            languages[language] += 1
    layout = {"folders": dict(folders.most_common(_SHOWN)), "files": sorted(files)[:_SHOWN]}
    return layout, dict(languages.most_common(_SHOWN)), complete


def _walk_files(root: Path) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the files near the top first, so that a bound cuts off those that are deep."""
    waiting: list[tuple[str, ...]] = [()]
    for parts in waiting:
        try:
            with os.scandir(root.joinpath(*parts)) as opened:
                entries = sorted(opened, key=lambda entry: entry.name)
            files = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
            inner = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        yield from ((parts, name) for name in files)
        if len(parts) < _DEPTH:
            own = (name for name in inner if name not in _SKIPPED and not name.startswith("."))
            waiting += [(*parts, name) for name in own if not name.endswith(".egg-info")]


def summarise_code(state: Mapping[str, Any] | None) -> str | None:
    """Return a few lines for a prompt."""
    if state is None:
        return None
    counts = [f"{count} {name} file{'s' * (count != 1)}" for name, count in list(state["languages"].items())[:3]]
    lines = [f"{state['name']}: {', '.join(counts)}" if counts else str(state["name"])]
    if git := state["git"]:
        apart = "".join(f", {git[way]} {way}" for way in ("ahead", "behind") if git[way])
        lines.append(f"Branch: {git['branch'] or 'none (detached)'}{apart}; {_describe_changes(git)}")
        lines += [f"Last commit: {_describe_commit(commit)}" for commit in git["recent_commits"][:1]]
    if folders := state["layout"]["folders"]:
        lines.append(f"Folders: {', '.join(f'{name}/ ({count})' for name, count in folders.items())}")
    if command := state["tests"]["command"]:
        lines.append(f"Tests: {command} (from {state['tests']['commands'][0]['source']})")
    if not state["complete"]:
        lines.append("Not all of it was looked at: it is large.")
    return "\n".join(lines)


def _describe_changes(git: Mapping[str, Any]) -> str:
    if git["clean"] is not False:
        return "clean" if git["clean"] else "changes unknown"
    counts = ", ".join(f"{git[name]} {name}" for name in ("staged", "modified", "untracked", "conflicted") if git[name])
    return f"{counts} ({', '.join(git['changed_files'][:5])}{', …' * (len(git['changed_files']) > 5)})"


def _describe_commit(commit: Mapping[str, str]) -> str:
    return f"{commit['hash']} {commit['when'][:10]} {commit['subject']}"


def list_commits(state: Mapping[str, Any] | None) -> list[str]:
    git = state["git"] if state else None
    return [f"Commit {_describe_commit(commit)}" for commit in git["recent_commits"]] if git else []
