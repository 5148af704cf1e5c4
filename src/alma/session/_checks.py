"""How the tests of a project are run, read from the files that say so."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def find_commands(root: Path) -> list[dict[str, str]]:
    """Return the commands that run the tests, each with the file that says so, the surest first."""
    targets = ((command, name) for name, pattern, command in _TARGETS if _has(root / name, pattern))
    commands: dict[str, str] = {}
    for command, source in (*targets, *_find_node(root), *_find_python(root), *_find_others(root)):
        commands.setdefault(command, source)
    return [{"command": command, "source": source} for command, source in commands.items()]


def find_folders(root: Path) -> list[str]:
    return [name for name in _TEST_FOLDERS if (root / name).is_dir()]


def _find_node(root: Path) -> Iterator[tuple[str, str]]:
    script = _read_table(root / "package.json", "scripts").get("test")
    if isinstance(script, str) and "no test specified" not in script:
        manager = next((name for lock, name in _LOCKS.items() if _has(root / lock)), "npm")
        yield f"{manager} test", "package.json"
    if _has(root / "deno.json") or _has(root / "deno.jsonc"):
        yield "deno test", "deno.json"


def _find_python(root: Path) -> Iterator[tuple[str, str]]:
    if _has(root / "tox.ini"):
        yield "tox", "tox.ini"
    if _has(root / "noxfile.py"):
        yield "nox", "noxfile.py"
    source = next((name for name, pattern in _PYTEST if _has(root / name, pattern)), "")
    if "pytest" in _read_table(root / "pyproject.toml", "tool"):
        source = "pyproject.toml"
    if source:
        yield "uv run pytest" if _has(root / "uv.lock") else "python -m pytest", source
    elif _has(root / "manage.py"):
        yield "python manage.py test", "manage.py"
    elif any(_has(root / name) for name in _PYTHON) and (root / "tests").is_dir():
        yield "python -m unittest discover", "tests"


def _find_others(root: Path) -> Iterator[tuple[str, str]]:
    for name, command in _COMMANDS.items():
        if _has(root / name):
            wrapper = _WRAPPERS.get(command)
            yield f"./{wrapper} test" if wrapper and _has(root / wrapper) else command, name
    if next(root.glob("*.sln"), None) or next(root.glob("*.csproj"), None):
        yield "dotnet test", "*.sln"
    if _has(root / ".rspec") or (_has(root / "Gemfile") and (root / "spec").is_dir()):
        yield "bundle exec rspec", "Gemfile"
    elif _has(root / "Rakefile"):
        yield "rake test", "Rakefile"
    if "test" in _read_table(root / "composer.json", "scripts"):
        yield "composer test", "composer.json"


def _has(file: Path, pattern: str = "") -> bool:
    """Return whether there is such a file, and whether its beginning matches."""
    return file.is_file() and (not pattern or re.search(pattern, _read_text(file), re.M) is not None)


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
