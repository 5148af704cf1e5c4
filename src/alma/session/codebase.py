"""The state of a folder of code, read from its files and from git. Time and size are bounded, and nothing raises.

Git runs without taking locks, prompting, or running any program that the repository's configuration names.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

SECONDS = 2.0
_ENTRIES = 20_000
_WALK_SECONDS = 0.3
_MIN_SECONDS = 0.1
_DEPTH = 8
_SHOWN = 20
_MAX_COMMITS = 5
_SUBJECT_CHARS = 100
_MAX_CHARS = 200_000
_SKIPPED = frozenset(
    """node_modules bower_components vendor venv env dist build target out coverage htmlcov site-packages
    __pycache__ egg-info Pods DerivedData""".split()
)
_LANGUAGES = dict(
    pair.split(":")
    for pair in """.py:Python .pyi:Python .js:JavaScript .mjs:JavaScript .jsx:JavaScript .ts:TypeScript .tsx:TypeScript
    .go:Go .rs:Rust .java:Java .kt:Kotlin .c:C .h:C .cc:C++ .cpp:C++ .hpp:C++ .cs:C# .rb:Ruby .php:PHP .swift:Swift
    .scala:Scala .ex:Elixir .exs:Elixir .sh:Shell .sql:SQL .dart:Dart .lua:Lua .r:R .jl:Julia .hs:Haskell .zig:Zig
    .vue:Vue""".split()
)
# How tests are run, most reliable first: tool | command | files that must also exist | files | pattern in one of them.
# The first matching row of a tool counts.
_TEST_COMMANDS = r"""
make | make test | | Makefile makefile GNUmakefile | ^test\s*:(?![=:])
make | make tests | | Makefile makefile GNUmakefile | ^tests\s*:(?![=:])
make | make check | | Makefile makefile GNUmakefile | ^check\s*:(?![=:])
just | just test | | justfile Justfile .justfile | ^@?test\b[^:=\n]*:(?!=)
task | task test | | Taskfile.yml Taskfile.yaml | ^ {1,4}test:\s*$
node | pnpm test | pnpm-lock.yaml | package.json | "scripts"\s*:\s*\{[^}]*"test"\s*:\s*"(?!echo \\"Error: no test)
node | yarn test | yarn.lock | package.json | "scripts"\s*:\s*\{[^}]*"test"\s*:\s*"(?!echo \\"Error: no test)
node | bun run test | bun.lock* | package.json | "scripts"\s*:\s*\{[^}]*"test"\s*:\s*"(?!echo \\"Error: no test)
node | npm test | | package.json | "scripts"\s*:\s*\{[^}]*"test"\s*:\s*"(?!echo \\"Error: no test)
deno | deno test | | deno.json deno.jsonc |
tox | tox | | tox.ini |
nox | nox | | noxfile.py |
python | uv run pytest | uv.lock | pytest.ini conftest.py tests/conftest.py setup.cfg pyproject.toml | pytest
python | python -m pytest | | pytest.ini conftest.py tests/conftest.py setup.cfg pyproject.toml | pytest
python | python -m pytest | | requirements-dev.txt dev-requirements.txt requirements.txt | (?i)^\W*pytest\b
python | python manage.py test | | manage.py |
python | python -m unittest discover | tests | pyproject.toml setup.py setup.cfg requirements.txt |
rust | cargo test | | Cargo.toml |
go | go test ./... | | go.mod |
maven | ./mvnw test | mvnw | pom.xml |
maven | mvn test | | pom.xml |
elixir | mix test | | mix.exs |
swift | swift test | | Package.swift |
dart | dart test | | pubspec.yaml |
zig | zig build test | | build.zig |
haskell | stack test | | stack.yaml |
scala | sbt test | | build.sbt |
cmake | ctest --test-dir build | | CMakeLists.txt |
gradle | ./gradlew test | gradlew | build.gradle build.gradle.kts |
gradle | gradle test | | build.gradle build.gradle.kts |
dotnet | dotnet test | | *.sln *.csproj |
ruby | bundle exec rspec | spec | .rspec Gemfile |
ruby | rake test | | Rakefile |
php | composer test | | composer.json | "test"\s*:
"""


def orient(folder: str | os.PathLike[str], seconds: float = SECONDS) -> dict[str, Any] | None:
    """Return branch, changes, recent commits, layout, languages and test commands; None where there is no code.

    A part that takes too long is left out, and `complete` is then false.
    """
    try:
        here = Path(folder).expanduser().resolve()
        root = next((place for place in (here, *here.parents) if (place / ".git").exists()), here)
        if not here.is_dir():
            return None
    except (OSError, RuntimeError):
        return None
    git = read_repository(root, seconds)
    layout, languages, complete = _count_files(root)
    commands = find_test_commands(root)
    if git is None and not commands and not languages:
        return None
    return {
        "root": str(root),
        "name": root.name,
        "git": git,
        "layout": layout,
        "languages": languages,
        "tests": {"command": commands[0]["command"] if commands else None, "commands": commands},
        "complete": complete and (git is None or git["clean"] is not None),
    }


def _count_files(root: Path) -> tuple[dict[str, Any], dict[str, int], bool]:
    """Return the file counts of the top folders, the languages, and whether every file was counted.

    Files near the top are counted first, so that a limit leaves out the deep ones.
    """
    folders, languages, files = Counter[str](), Counter[str](), list[str]()
    deadline, number, is_complete = time.monotonic() + _WALK_SECONDS, 0, True
    waiting: list[tuple[str, ...]] = [()]
    for parts in waiting:
        try:
            entries = sorted(os.scandir(root.joinpath(*parts)), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if number >= _ENTRIES or time.monotonic() > deadline:
                is_complete = False
                waiting.clear()
                break
            ending = os.path.splitext(entry.name)[1].lower()
            if entry.is_dir(follow_symlinks=False):
                is_skipped = entry.name in _SKIPPED or entry.name.startswith(".")
                waiting += [] if is_skipped or len(parts) >= _DEPTH else [(*parts, entry.name)]
            elif entry.is_file(follow_symlinks=False):
                number += 1
                folders.update(parts[:1])
                files += [] if parts else [entry.name]
                languages.update([_LANGUAGES[ending]] if ending in _LANGUAGES else [])
    layout = {"folders": dict(folders.most_common(_SHOWN)), "files": files[:_SHOWN]}
    return layout, dict(languages.most_common()), is_complete


def find_test_commands(root: Path) -> list[dict[str, str]]:
    """Return the commands that run the tests, each with the file it was found in, most reliable first."""
    commands: dict[str, dict[str, str]] = {}
    for row in _TEST_COMMANDS.strip().splitlines():
        tool, command, needs, sources, pattern = (column.strip() for column in row.split("|", 4))
        if tool in commands or not all(any(root.glob(name)) for name in needs.split()):
            continue
        for name, file in [(source, file) for source in sources.split() for file in root.glob(source)]:
            with suppress(OSError), file.open(encoding="utf-8", errors="replace") as opened:
                if not pattern or re.search(pattern, opened.read(_MAX_CHARS), re.M):
                    commands[tool] = {"command": command, "source": name}
                    break
    return list(commands.values())


# -- for a prompt


def summarise_code(state: Mapping[str, Any] | None) -> str | None:
    """Return the state of a codebase as a few lines for a prompt; None without code."""
    if state is None:
        return None
    counts = [f"{count} {name} file{'s' * (count != 1)}" for name, count in list(state["languages"].items())[:3]]
    lines = [f"{state['name']}: {', '.join(counts)}" if counts else str(state["name"])]
    if git := state["git"]:
        apart = "".join(f", {git[way]} {way}" for way in ("ahead", "behind") if git[way])
        files = ", ".join(git["changed_files"][:5]) + ", …" * (len(git["changed_files"]) > 5)
        changes = {True: "clean", False: f"changed: {files}", None: "changes unknown"}[git["clean"]]
        lines.append(f"Branch: {git['branch'] or 'none (detached)'}{apart}; {changes}")
        lines += [f"Last commit: {line.removeprefix('Commit ')}" for line in list_commits(state)[:1]]
    if folders := state["layout"]["folders"]:
        lines.append(f"Folders: {', '.join(f'{name}/ ({count})' for name, count in folders.items())}")
    if command := state["tests"]["command"]:
        lines.append(f"Tests: {command} (from {state['tests']['commands'][0]['source']})")
    if not state["complete"]:
        lines.append("Incomplete: the codebase is too large to survey in time.")
    return "\n".join(lines)


def list_commits(state: Mapping[str, Any] | None) -> list[str]:
    """Return the recent commits, one dated line each."""
    git = state["git"] if state else None
    commits = git["recent_commits"] if git else ()
    return [f"Commit {one['hash']} {one['when'][:10]} {one['subject']}" for one in commits]


# -- the state of a git repository

# How many spaces come before the path in a status line; the path itself may contain spaces.
_PATH_AFTER = {"1": 8, "2": 9, "u": 10, "?": 1}


def read_repository(root: Path, seconds: float) -> dict[str, Any] | None:
    """Return branch, changes and recent commits; None without git, without a repository, or after `seconds`.

    If only the list of changes takes too long, the rest is returned without it.
    """
    program = shutil.which("git")
    # Checked first, because starting a program in vain takes longer.
    if program is None or not (root / ".git").exists():
        return None
    # A file monitor or a signature check is a program that the repository's own configuration may name.
    quiet = ("core.fsmonitor=false", "log.showSignature=false", "core.quotePath=false")
    git = [program, "-C", str(root), "--no-pager", *(part for option in quiet for part in ("-c", option))]
    # Git must not prompt, and must not lock the repository that the person is working in.
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    # Without this flag a console window would flash up on Windows.
    flags = getattr(subprocess, "CREATE_NO_WINDOW", 0)
    deadline = time.monotonic() + seconds

    def run(*arguments: str) -> list[str] | None:
        left, null = max(_MIN_SECONDS, deadline - time.monotonic()), subprocess.DEVNULL
        try:
            done = subprocess.run(
                [*git, *arguments], stdin=null, stdout=subprocess.PIPE, stderr=null, env=environment, timeout=left,
                creationflags=flags, check=False, encoding="utf-8", errors="replace",
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return None
        return None if done.returncode else done.stdout.splitlines()

    log = run("log", f"-{_MAX_COMMITS}", "--format=%h\x1f%cI\x1f%s")
    status = run("status", "--porcelain=v2", "--branch", "--untracked-files=normal")
    if status is None and log is None:
        return None
    commits = [line.split("\x1f", 2) for line in log or () if line.count("\x1f") >= 2]
    recent = [{"hash": hash, "when": when, "subject": subject[:_SUBJECT_CHARS]} for hash, when, subject in commits]
    state = _parse_status(status or [f"# branch.head {name}" for name in run("branch", "--show-current") or ()])
    return {**state, "clean": None if status is None else state["clean"], "recent_commits": recent}


def _parse_status(lines: list[str]) -> dict[str, Any]:
    state: dict[str, Any] = {"branch": None, "ahead": 0, "behind": 0}
    files = []
    for line in lines:
        if line[0] in _PATH_AFTER:
            files.append(line.split(" ", _PATH_AFTER[line[0]])[-1].partition("\t")[0])
        elif line.startswith("# branch.head "):
            name = line.removeprefix("# branch.head ")
            state["branch"] = None if name == "(detached)" else name
        elif line.startswith("# branch.ab "):
            state["ahead"], state["behind"] = (abs(int(count)) for count in line.split()[2:])
    return {**state, "changed_files": files[:_SHOWN], "clean": not files}
