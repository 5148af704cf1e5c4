"""Getting one's bearings in a folder of code: by its files and by git, bounded in time and size, and never raising.

Git is read quietly and without running anything the repository names.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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
    git = read_repository(root, seconds)
    manifests = [name for name in _MANIFESTS if (root / name).is_file()]
    layout, languages, complete = _count_files(root)
    if git is None and not manifests and not languages:
        return None
    commands = find_test_commands(root)
    folders = [name for name in _TEST_FOLDERS if (root / name).is_dir()]
    return {
        "root": str(root),
        "name": root.name,
        "git": git,
        "layout": layout,
        "languages": languages,
        "manifests": manifests,
        "tests": {"command": commands[0]["command"] if commands else None, "commands": commands, "folders": folders},
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
        changes = {True: "clean", False: "", None: "changes unknown"}[git["clean"]]
        if git["clean"] is False:
            kinds = ("staged", "modified", "untracked", "conflicted")
            files = ", ".join(git["changed_files"][:5]) + ", …" * (len(git["changed_files"]) > 5)
            changes = f"{', '.join(f'{git[kind]} {kind}' for kind in kinds if git[kind])} ({files})"
        lines.append(f"Branch: {git['branch'] or 'none (detached)'}{apart}; {changes}")
        lines += [f"Last commit: {line.removeprefix('Commit ')}" for line in list_commits(state)[:1]]
    if folders := state["layout"]["folders"]:
        lines.append(f"Folders: {', '.join(f'{name}/ ({count})' for name, count in folders.items())}")
    if command := state["tests"]["command"]:
        lines.append(f"Tests: {command} (from {state['tests']['commands'][0]['source']})")
    if not state["complete"]:
        lines.append("Not all of it was looked at: it is large.")
    return "\n".join(lines)


def list_commits(state: Mapping[str, Any] | None) -> list[str]:
    """Return the recent commits, a line each."""
    git = state["git"] if state else None
    commits = git["recent_commits"] if git else ()
    return [f"Commit {one['hash']} {one['when'][:10]} {one['subject']}" for one in commits]


# -- how the tests are run, read from the files that say so

_MAX_CHARS = 200_000
_TEST_FOLDERS = ("tests", "test", "spec", "specs", "__tests__", "e2e")
_MAKE = [(target, rf"^{target}\s*:(?![=:])") for target in ("test", "tests", "check")]
_TARGETS = (
    *((name, pattern, f"make {to}") for name in ("Makefile", "makefile", "GNUmakefile") for to, pattern in _MAKE),
    *((name, r"^@?test\b[^:=\n]*:(?!=)", "just test") for name in ("justfile", "Justfile", ".justfile")),
    *((name, r"^ {1,4}test:\s*$", "task test") for name in ("Taskfile.yml", "Taskfile.yaml")),
)
_LOCKS = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lockb": "bun run", "bun.lock": "bun run"}
_PYTEST = (
    *((name, "") for name in ("pytest.ini", "conftest.py", "tests/conftest.py")),
    ("setup.cfg", r"^\[tool:pytest\]"),
    *((name, r"(?i)^\W*pytest\b") for name in ("pyproject.toml", "requirements-dev.txt", "dev-requirements.txt")),
    *((name, r"(?i)^\W*pytest\b") for name in ("requirements.txt", "setup.cfg")),
)
_PYTHON = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")
_COMMANDS = {
    "Cargo.toml": "cargo test", "go.mod": "go test ./...", "pom.xml": "mvn test", "mix.exs": "mix test",
    "Package.swift": "swift test", "pubspec.yaml": "dart test", "build.zig": "zig build test",
    "stack.yaml": "stack test", "build.sbt": "sbt test", "CMakeLists.txt": "ctest --test-dir build",
    "build.gradle": "gradle test", "build.gradle.kts": "gradle test",
}  # fmt: skip
_WRAPPERS = {"mvn test": "mvnw", "gradle test": "gradlew"}


def find_test_commands(root: Path) -> list[dict[str, str]]:
    """Return the commands that run the tests, each with the file that says so, the surest first."""
    commands: dict[str, str] = {}
    for command, source in _list_test_commands(root):
        commands.setdefault(command, source)
    return [{"command": command, "source": source} for command, source in commands.items()]


def _list_test_commands(root: Path) -> Iterator[tuple[str, str]]:
    def has(name: str, pattern: str = "") -> bool:
        """Return whether there is such a file, and whether its beginning matches."""
        file = root / name
        return file.is_file() and (not pattern or re.search(pattern, _read_text(file), re.M) is not None)

    yield from ((command, name) for name, pattern, command in _TARGETS if has(name, pattern))
    script = _read_table(root / "package.json", "scripts").get("test")
    if isinstance(script, str) and "no test specified" not in script:
        yield f"{next((name for lock, name in _LOCKS.items() if has(lock)), 'npm')} test", "package.json"
    if has("deno.json") or has("deno.jsonc"):
        yield "deno test", "deno.json"
    if has("tox.ini"):
        yield "tox", "tox.ini"
    if has("noxfile.py"):
        yield "nox", "noxfile.py"
    source = next((name for name, pattern in _PYTEST if has(name, pattern)), "")
    if "pytest" in _read_table(root / "pyproject.toml", "tool"):
        source = "pyproject.toml"
    if source:
        yield "uv run pytest" if has("uv.lock") else "python -m pytest", source
    elif has("manage.py"):
        yield "python manage.py test", "manage.py"
    elif any(map(has, _PYTHON)) and (root / "tests").is_dir():
        yield "python -m unittest discover", "tests"
    for name, command in _COMMANDS.items():
        if has(name):
            wrapper = _WRAPPERS.get(command)
            yield f"./{wrapper} test" if wrapper and has(wrapper) else command, name
    if next(root.glob("*.sln"), None) or next(root.glob("*.csproj"), None):
        yield "dotnet test", "*.sln"
    if has(".rspec") or (has("Gemfile") and (root / "spec").is_dir()):
        yield "bundle exec rspec", "Gemfile"
    elif has("Rakefile"):
        yield "rake test", "Rakefile"
    if "test" in _read_table(root / "composer.json", "scripts"):
        yield "composer test", "composer.json"


def _read_text(file: Path) -> str:
    """Return the beginning of a file; nothing when there is none, or none that can be read."""
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(_MAX_CHARS)
    except OSError:
        return ""


def _read_table(file: Path, name: str) -> dict[str, Any]:
    """Return one table of a JSON or TOML file; an empty one when it cannot be read."""
    try:
        data = (tomllib.loads if file.suffix == ".toml" else json.loads)(_read_text(file))
    except (ValueError, RecursionError):
        return {}
    table = data.get(name) if isinstance(data, dict) else None
    return table if isinstance(table, dict) else {}


# -- the state of a git repository

_MAX_COMMITS = 5
_MAX_CHANGES = 20
_SUBJECT_CHARS = 100
_MAX_OUTPUT = 1_000_000
_MIN_SECONDS = 0.1
_MARK = "\x1f"
# A file monitor or a signature check is a program that the repository's own configuration may name.
_QUIET = ("-c", "core.fsmonitor=false", "-c", "log.showSignature=false", "-c", "core.quotePath=false", "--no-pager")
_NO_STATUS: dict[str, Any] = {
    "branch": None, "head": None, "upstream": None, "ahead": 0, "behind": 0, "clean": None,
    "staged": 0, "modified": 0, "untracked": 0, "conflicted": 0, "changed_files": [],
}  # fmt: skip
_PATH_AFTER = {"1": 8, "2": 9, "u": 10, "?": 1}
"""After so many spaces the path begins, which may hold spaces itself."""


def read_repository(root: Path, seconds: float) -> dict[str, Any] | None:
    """Return branch, changes and recent commits; None without git, without a repository, or when it takes too long.

    When a repository is so large that the changes cannot be listed in time, the rest is returned without them.
    """
    program = shutil.which("git")
    # Looked for here because starting a program in vain takes longer.
    if program is None or not (root / ".git").exists():
        return None
    git = [program, "-C", str(root), *_QUIET]
    status_call = _start_git([*git, "status", "--porcelain=v2", "--branch", "--untracked-files=normal"])
    log_call = _start_git([*git, "log", f"-{_MAX_COMMITS}", f"--format=%h{_MARK}%cI{_MARK}%s"])
    deadline = time.monotonic() + seconds
    log, status = _read_output(log_call, deadline), _read_output(status_call, deadline)
    if status is None and log is None:
        return None
    if status is None:
        branch = _read_output(_start_git([*git, "branch", "--show-current"]), time.monotonic() + _MIN_SECONDS)
        state = {**_NO_STATUS, "branch": (branch or "").strip() or None}
    else:
        state = _parse_status(status)
    commits = [line.split(_MARK, 2) for line in (log or "").splitlines() if line.count(_MARK) >= 2]
    recent = [{"hash": hash, "when": when, "subject": subject[:_SUBJECT_CHARS]} for hash, when, subject in commits]
    return {**state, "recent_commits": recent}


def _start_git(command: list[str]) -> subprocess.Popen[bytes] | None:
    # It must neither ask anybody anything nor lock what the person is working on.
    quiet = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    # On Windows a window would open for a moment.
    flags = getattr(subprocess, "CREATE_NO_WINDOW", 0)
    null = subprocess.DEVNULL
    try:
        return subprocess.Popen(
            command, stdin=null, stdout=subprocess.PIPE, stderr=null, env=quiet, creationflags=flags
        )
    except OSError:
        return None


def _read_output(process: subprocess.Popen[bytes] | None, deadline: float) -> str | None:
    if process is None:
        return None
    try:
        out, _ = process.communicate(timeout=max(_MIN_SECONDS, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None
    return None if process.returncode else out[:_MAX_OUTPUT].decode("utf-8", "replace")


def _parse_status(status: str) -> dict[str, Any]:
    state: dict[str, Any] = {**_NO_STATUS, "changed_files": []}
    for line in status.splitlines():
        kind, _, rest = line.partition(" ")
        if kind in _PATH_AFTER:
            state["untracked"] += kind == "?"
            state["conflicted"] += kind == "u"
            state["staged"] += kind in "12" and rest[0] != "."
            state["modified"] += kind in "12" and rest[1] != "."
            state["changed_files"].append(line.split(" ", _PATH_AFTER[kind])[-1].partition("\t")[0])
            continue
        name, _, value = rest.partition(" ")
        if name == "branch.oid":
            state["head"] = None if value == "(initial)" else value[:12]
        elif name == "branch.head":
            state["branch"] = None if value == "(detached)" else value
        elif name == "branch.upstream":
            state["upstream"] = value
        elif name == "branch.ab":
            state["ahead"], state["behind"] = (abs(int(count)) for count in value.split())
    state["changed_files"] = state["changed_files"][:_MAX_CHANGES]
    state["clean"] = not (state["staged"] or state["modified"] or state["untracked"] or state["conflicted"])
    return state
