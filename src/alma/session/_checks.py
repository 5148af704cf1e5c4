"""How the tests of a project are run, read from the files that say so."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

_MOST = 200_000
_TEST_FOLDERS = ("tests", "test", "spec", "specs", "__tests__", "e2e")
_TARGET = r"^{}\s*:(?![=:])"


def commands(root: Path) -> list[dict[str, str]]:
    """Each with the file that says so, the surest first."""
    found: dict[str, str] = {}
    for look in _LOOKS:
        for command, source in look(root):
            found.setdefault(command, source)
    return [{"command": command, "source": source} for command, source in found.items()]


def folders(root: Path) -> list[str]:
    return [name for name in _TEST_FOLDERS if (root / name).is_dir()]


def _text(file: Path) -> str:
    """The beginning of a file; nothing when there is none, or none that can be read."""
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(_MOST)
    except OSError:
        return ""


Found = Iterator[tuple[str, str]]


def _make(root: Path) -> Found:
    for name in ("Makefile", "makefile", "GNUmakefile"):
        told = _text(root / name)
        for target in ("test", "tests", "check"):
            if re.search(_TARGET.format(target), told, re.M):
                yield f"make {target}", name


def _just(root: Path) -> Found:
    for name in ("justfile", "Justfile", ".justfile"):
        if re.search(r"^@?test\b[^:=\n]*:(?!=)", _text(root / name), re.M):
            yield "just test", name
    for name in ("Taskfile.yml", "Taskfile.yaml"):
        if re.search(r"^ {1,4}test:\s*$", _text(root / name), re.M):
            yield "task test", name


def _node(root: Path) -> Found:
    scripts = _member(_json(root / "package.json"), "scripts")
    script = scripts.get("test")
    if isinstance(script, str) and "no test specified" not in script:
        yield f"{_manager(root)} test", "package.json"
    if any((root / name).is_file() for name in ("deno.json", "deno.jsonc")):
        yield "deno test", "deno.json"


def _manager(root: Path) -> str:
    locks = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lockb": "bun run", "bun.lock": "bun run"}
    return next((name for lock, name in locks.items() if (root / lock).is_file()), "npm")


def _python(root: Path) -> Found:
    if (root / "tox.ini").is_file():
        yield "tox", "tox.ini"
    if (root / "noxfile.py").is_file():
        yield "nox", "noxfile.py"
    if source := _pytest(root):
        runner = "uv run pytest" if (root / "uv.lock").is_file() else "python -m pytest"
        yield runner, source
    elif (root / "manage.py").is_file():
        yield "python manage.py test", "manage.py"
    elif _is_python(root) and (root / "tests").is_dir():
        yield "python -m unittest discover", "tests"


def _pytest(root: Path) -> str:
    """The file that tells of pytest."""
    if "pytest" in _member(_toml(root / "pyproject.toml"), "tool"):
        return "pyproject.toml"
    for name in ("pytest.ini", "conftest.py", "tests/conftest.py"):
        if (root / name).is_file():
            return name
    if re.search(r"^\[tool:pytest\]", _text(root / "setup.cfg"), re.M):
        return "setup.cfg"
    wanted = r"(?im)^\W*pytest\b"
    return next((name for name in _REQUIREMENTS if re.search(wanted, _text(root / name))), "")


_REQUIREMENTS = ("pyproject.toml", "requirements-dev.txt", "dev-requirements.txt", "requirements.txt", "setup.cfg")


def _is_python(root: Path) -> bool:
    return any((root / name).is_file() for name in ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"))


_BY_FILE = {
    "Cargo.toml": "cargo test",
    "go.mod": "go test ./...",
    "pom.xml": "mvn test",
    "mix.exs": "mix test",
    "Package.swift": "swift test",
    "pubspec.yaml": "dart test",
    "build.zig": "zig build test",
    "stack.yaml": "stack test",
    "build.sbt": "sbt test",
    "CMakeLists.txt": "ctest --test-dir build",
}


def _by_file(root: Path) -> Found:
    for name, command in _BY_FILE.items():
        if (root / name).is_file():
            yield "./mvnw test" if name == "pom.xml" and (root / "mvnw").is_file() else command, name
    for name in ("build.gradle", "build.gradle.kts"):
        if (root / name).is_file():
            yield "./gradlew test" if (root / "gradlew").is_file() else "gradle test", name
    if next(root.glob("*.sln"), None) or next(root.glob("*.csproj"), None):
        yield "dotnet test", "*.sln"


def _ruby_and_php(root: Path) -> Found:
    if (root / ".rspec").is_file() or ((root / "Gemfile").is_file() and (root / "spec").is_dir()):
        yield "bundle exec rspec", "Gemfile"
    elif (root / "Rakefile").is_file():
        yield "rake test", "Rakefile"
    if "test" in _member(_json(root / "composer.json"), "scripts"):
        yield "composer test", "composer.json"


_LOOKS: tuple[Callable[[Path], Found], ...] = (_make, _just, _node, _python, _by_file, _ruby_and_php)


def _json(file: Path) -> Mapping[str, Any]:
    try:
        read = json.loads(_text(file) or "{}")
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, Mapping) else {}


def _toml(file: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(_text(file))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _member(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = data.get(name)
    return found if isinstance(found, Mapping) else {}
