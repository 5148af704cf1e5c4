from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import time
from pathlib import Path

import pytest

from alma.session import codebase

pytestmark = pytest.mark.system

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *arguments: str) -> None:
    who = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com"}
    who |= {"GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.com"}
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, env={**os.environ, **who, **alone})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    (root / "src").mkdir(parents=True)
    (root / "src" / "cart.py").write_text("x = 1\n")
    (root / "Makefile").write_text("test:\n\tpytest\n")
    git(root, "init", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-m", "Add the cart")
    return root


@needs_git
def test_a_repository_is_told_by_branch_changes_commits_layout_and_tests(repository: Path) -> None:
    (repository / "src" / "cart.py").write_text("x = 2\n")
    (repository / "new file.py").write_text("")
    (repository / "staged.py").write_text("")
    git(repository, "add", "staged.py")
    state = codebase.orient(repository)
    assert state is not None
    found = state["git"]
    assert (found["branch"], found["clean"]) == ("main", False)
    assert sorted(found["changed_files"]) == ["new file.py", "src/cart.py", "staged.py"]
    assert [one["subject"] for one in found["recent_commits"]] == ["Add the cart"]
    assert state["layout"] == {"folders": {"src": 1}, "files": ["Makefile", "new file.py", "staged.py"]}
    assert state["languages"] == {"Python": 3}
    assert state["tests"]["command"] == "make test"
    assert state["complete"]
    told = codebase.summarise_code(state)
    assert told is not None
    assert "Branch: main; changed: " in told
    assert "Tests: make test (from Makefile)" in told
    assert codebase.list_commits(state)[0].endswith("Add the cart")


@needs_git
def test_a_folder_inside_is_oriented_at_the_top(repository: Path) -> None:
    state = codebase.orient(repository / "src")
    assert state is not None
    assert state["name"] == "shop"


@needs_git
def test_a_repository_without_commits_or_on_no_branch(tmp_path: Path, repository: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "-b", "main")
    state = codebase.orient(empty)
    assert state is not None
    assert (state["git"]["branch"], state["git"]["recent_commits"]) == ("main", [])
    git(repository, "checkout", "--detach")
    state = codebase.orient(repository)
    assert state is not None
    assert state["git"]["branch"] is None
    assert "detached" in (codebase.summarise_code(state) or "")


@needs_git
def test_a_rename_is_told_by_its_new_name(repository: Path) -> None:
    git(repository, "mv", "src/cart.py", "src/basket.py")
    found = codebase.read_repository(repository, 5)
    assert found is not None
    assert found["changed_files"] == ["src/basket.py"]


@needs_git
@pytest.mark.skipif(os.name != "posix", reason="needs a program to be called")
def test_nothing_that_a_repository_names_is_run(repository: Path, tmp_path: Path) -> None:
    marker, monitor = tmp_path / "ran", tmp_path / "monitor.sh"
    monitor.write_text(f"#!/bin/sh\ntouch {marker}\n")
    monitor.chmod(monitor.stat().st_mode | stat.S_IXUSR)
    git(repository, "config", "core.fsmonitor", str(monitor))
    assert codebase.read_repository(repository, 5) is not None
    assert not marker.exists()


@pytest.mark.skipif(os.name != "posix", reason="needs a program to be called")
def test_a_git_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    slow = tmp_path / "bin" / "git"
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.py").write_text("")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    began = time.monotonic()
    state = codebase.orient(tmp_path, 0.3)
    assert time.monotonic() - began < 20
    assert state is not None
    assert state["git"] is None


def test_without_git_the_files_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "go.mod").write_text("module x\n")
    (tmp_path / "main.go").write_text("")
    monkeypatch.setenv("PATH", str(tmp_path))
    state = codebase.orient(tmp_path)
    assert state is not None
    assert state["git"] is None
    assert state["tests"]["command"] == "go test ./..."


def test_where_there_is_no_code_nothing_is_told(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear Ann")
    assert codebase.orient(tmp_path) is None
    assert codebase.orient(tmp_path / "missing") is None
    assert codebase.orient(tmp_path / "letter.txt") is None
    assert codebase.summarise_code(None) is None
    assert codebase.list_commits(None) == []


def test_a_huge_tree_is_looked_at_only_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        (tmp_path / f"d{number}").mkdir()
        for other in range(1 + number % 2):
            (tmp_path / f"d{number}" / f"{other}.py").write_text("")
    monkeypatch.setattr(codebase, "_ENTRIES", 40)
    state = codebase.orient(tmp_path)
    assert state is not None
    assert not state["complete"]
    assert sum(state["languages"].values()) == 40
    folders = list(state["layout"]["folders"].values())
    assert len(folders) == 20
    assert folders == sorted(folders, reverse=True)
    assert "large" in (codebase.summarise_code(state) or "")


def test_what_others_wrote_is_not_counted_and_circles_are_not_followed(tmp_path: Path) -> None:
    for name in ("node_modules", ".venv", "__pycache__", "src"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text("")
    os.symlink(tmp_path, tmp_path / "src" / "again")
    state = codebase.orient(tmp_path)
    assert state is not None
    assert state["languages"] == {"Python": 1}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"Makefile": "all:\n\ncheck: all\n\t./run"}, ["make check"]),
        ({"Makefile": "test := 1\nTEST = 2\n"}, []),
        ({"package.json": json.dumps({"scripts": {"test": "jest"}})}, ["npm test"]),
        ({"package.json": json.dumps({"scripts": {"test": "vitest"}}), "pnpm-lock.yaml": ""}, ["pnpm test"]),
        ({"package.json": json.dumps({"scripts": {"test": 'echo "Error: no test specified" && exit 1'}})}, []),
        ({"package.json": "{broken"}, []),
        ({"package.json": "[1]"}, []),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, ["python -m pytest"]),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n", "uv.lock": ""}, ["uv run pytest"]),
        ({"pyproject.toml": "[broken"}, []),
        ({"requirements.txt": "requests\npytest>=8\n"}, ["python -m pytest"]),
        ({"tox.ini": "", "setup.cfg": "[tool:pytest]\n"}, ["tox", "python -m pytest"]),
        ({"setup.py": "", "tests/test_a.py": ""}, ["python -m unittest discover"]),
        ({"Cargo.toml": ""}, ["cargo test"]),
        ({"go.mod": ""}, ["go test ./..."]),
        ({"build.gradle.kts": ""}, ["gradle test"]),
        ({"Gemfile": "", "spec/a_spec.rb": ""}, ["bundle exec rspec"]),
        ({"shop.csproj": ""}, ["dotnet test"]),
        ({"Makefile": "test:\n", "Cargo.toml": ""}, ["make test", "cargo test"]),
        ({}, []),
    ],
)
def test_how_tests_are_run(tmp_path: Path, files: dict[str, str], expected: list[str]) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert [one["command"] for one in codebase.find_test_commands(tmp_path)] == expected


@needs_git
def test_this_repository() -> None:
    state = codebase.orient(Path(__file__).parent)
    assert state is not None
    assert state["tests"]["command"] == "make test"
