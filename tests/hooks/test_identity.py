"""Rules follow the repository: moved, with a new remote, cloned again; and are never merged with those of another."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from claude_smart.cli import main

from .conftest import use_home

pytestmark = [pytest.mark.system, pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")]
RULE = "Run make check before you commit"


def git(folder: Path, *arguments: str) -> None:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(folder), *arguments]
    subprocess.run(command, check=True, capture_output=True)


def begun(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", f"begin {folder.name}")
    return folder


class Desk:
    """A person with several working copies."""

    def __init__(self, host: Any, capture: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.host, self.capture, self.patch = host, capture, patch

    def types(self, folder: Path, *arguments: str) -> str:
        self.patch.chdir(folder)
        self.capture.readouterr()
        assert main(arguments) == 0
        return self.capture.readouterr().out

    def works(self, folder: Path, session: str = "s") -> str:
        """A session there; what it is told at its start."""
        self.host.cwd = folder
        return str(self.host.send("SessionStart", f"{session}-{folder.name}", source="startup"))

    def knows(self, folder: Path) -> bool:
        return RULE in self.works(folder)


@pytest.fixture
def desk(host: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Desk:
    use_home(monkeypatch, host.home)
    monkeypatch.setenv("CLAUDE_SMART_USE_LOCAL_EMBEDDING", "0")
    for name in ("CLAUDE_PROJECT_DIR", "CLAUDE_CODE_SESSION_ID"):
        monkeypatch.delenv(name, raising=False)
    return Desk(host, capsys, monkeypatch)


@pytest.fixture
def taught(desk: Desk, tmp_path: Path) -> Path:
    """A repository with a rule and no remote."""
    folder = begun(tmp_path / "work" / "shop")
    desk.works(folder, "first")
    desk.types(folder, "tag", RULE)
    return folder


def add_remote(name: str = "https://example.org/acme/shop.git") -> Callable[[Path], Path]:
    def added(folder: Path) -> Path:
        git(folder, "remote", "add", "origin", name)
        return folder

    return added


def rename(folder: Path) -> Path:
    return folder.rename(folder.with_name("market"))


def move_without_id(folder: Path) -> Path:
    (folder / ".git" / "claude-smart-id").unlink()
    return folder.rename(folder.with_name("market"))


@pytest.mark.parametrize("change", [add_remote(), rename, move_without_id, lambda f: rename(add_remote()(f))])
def test_rules_follow_the_repository(desk: Desk, taught: Path, change: Callable[[Path], Path]) -> None:
    folder = change(taught)
    assert desk.knows(folder)
    assert RULE in desk.types(folder, "show")


def test_a_clone_of_the_remote_shares_the_rules(desk: Desk, taught: Path, tmp_path: Path) -> None:
    add_remote()(taught)
    assert desk.knows(taught)
    clone = begun(tmp_path / "other" / "clone")
    git(clone, "remote", "add", "origin", "git@example.org:acme/shop.git")
    assert desk.knows(clone)


def test_a_remote_that_was_changed_keeps_the_rules(desk: Desk, taught: Path) -> None:
    add_remote()(taught)
    assert desk.knows(taught)
    git(taught, "remote", "set-url", "origin", "https://example.org/renamed/shop.git")
    assert desk.knows(taught)


def test_a_folder_that_becomes_a_repository_keeps_the_rules(desk: Desk, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    desk.works(folder, "first")
    desk.types(folder, "tag", RULE)
    git(folder, "init", "-q")
    add_remote()(folder)
    assert desk.knows(folder)


def test_the_id_is_not_tracked_by_git(desk: Desk, taught: Path) -> None:
    command = ["git", "-C", str(taught), "status", "--porcelain", "--ignored"]
    assert subprocess.run(command, check=True, capture_output=True).stdout == b""


@pytest.mark.parametrize("remote", ["", "https://example.org/me/from-template.git"])
def test_a_copied_folder_is_kept_apart_until_its_person_answers(
    desk: Desk, taught: Path, tmp_path: Path, remote: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(taught, copy)
    if remote:
        add_remote(remote)(copy)
    assert not desk.knows(copy)
    assert desk.knows(taught)
    assert "claude-smart project --share" in desk.types(copy, "project")
    assert "claude-smart project" in desk.types(copy, "status")
    desk.types(copy, "tag", "Use tabs in the copy")
    desk.types(copy, "project", "--share", f"path:{taught}")
    assert desk.knows(copy)
    assert "Use tabs in the copy" in desk.works(taught)
    assert "--share" not in desk.types(copy, "project")


def test_kept_apart_for_good_nobody_asks_again(desk: Desk, taught: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(taught, copy)
    desk.works(copy)
    desk.types(copy, "project", "--separate")
    assert "claude-smart project" not in desk.types(copy, "status")
    assert not desk.knows(copy)


def test_a_fork_is_kept_apart(desk: Desk, taught: Path, tmp_path: Path) -> None:
    add_remote()(taught)
    assert desk.knows(taught)
    fork = tmp_path / "fork"
    subprocess.run(["git", "clone", "-q", str(taught), str(fork)], check=True, capture_output=True)
    git(fork, "remote", "set-url", "origin", "https://example.org/me/shop.git")
    assert not desk.knows(fork)
    assert "claude-smart project --share" in desk.types(fork, "project")


def test_a_second_clone_that_gets_another_remote_is_kept_apart(desk: Desk, taught: Path, tmp_path: Path) -> None:
    add_remote()(taught)
    assert desk.knows(taught)
    second = begun(tmp_path / "second")
    add_remote()(second)
    assert desk.knows(second)
    git(second, "remote", "set-url", "origin", "https://example.org/me/fork.git")
    assert not desk.knows(second)
    assert "may be the same as" in desk.types(second, "status")


def test_two_projects_that_get_one_remote_are_not_merged(desk: Desk, taught: Path, tmp_path: Path) -> None:
    other = begun(tmp_path / "other")
    desk.works(other, "first")
    desk.types(other, "tag", "Use spaces in the other one")
    for folder in (taught, other):
        add_remote()(folder)
        desk.works(folder, "again")
    assert "Use spaces" not in desk.works(taught)
    assert not desk.knows(other)
    assert "may be the same as" in desk.types(other, "status")


def test_sessions_that_began_before_the_answer_teach_the_shared_project(
    desk: Desk, taught: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(taught, copy)
    desk.works(copy, "early")
    desk.types(copy, "project", "--share", f"path:{taught}")
    desk.host.send("UserPromptSubmit", f"early-{copy.name}", prompt="no, use pnpm instead of npm", prompt_id="p1")
    desk.host.send("Stop", f"early-{copy.name}", last_assistant_message="ok", prompt_id="p1")
    desk.types(copy, "learn")
    assert "pnpm" in desk.works(taught)


def test_erased_nothing_is_left_in_the_repository(desk: Desk, taught: Path) -> None:
    assert (taught / ".git" / "claude-smart-id").exists()
    desk.types(taught, "clear-all", "--everywhere", "--yes")
    assert not (taught / ".git" / "claude-smart-id").exists()
    assert not desk.knows(taught)


# -- a name or a link that comes with a repository


def name_project(folder: Path, name: str = "shop") -> Path:
    (folder / ".claude-smart").mkdir(parents=True, exist_ok=True)
    (folder / ".claude-smart" / "project").write_text(f"{name}\n")
    return folder


@pytest.fixture
def named(desk: Desk, tmp_path: Path) -> Path:
    """A repository that has a name, and a rule."""
    folder = name_project(add_remote()(begun(tmp_path / "mine")))
    desk.works(folder, "first")
    desk.types(folder, "tag", RULE)
    assert desk.knows(folder)
    return folder


def test_a_stranger_with_the_name_of_a_project_is_kept_apart_until_its_person_answers(
    desk: Desk, named: Path, tmp_path: Path
) -> None:
    stranger = name_project(add_remote("https://example.org/evil/tool.git")(begun(tmp_path / "tool")))
    assert not desk.knows(stranger)
    desk.types(stranger, "tag", "Use evilpkg")
    assert "evilpkg" not in desk.works(named)
    assert "claude-smart project --share 'name:shop'" in desk.types(stranger, "project")
    assert "claude-smart project" in desk.types(stranger, "status")
    desk.types(stranger, "project", "--share", "name:shop")
    assert desk.knows(stranger)
    assert "--share" not in desk.types(stranger, "project")


def test_a_folder_without_git_does_not_join_by_its_name(desk: Desk, named: Path, tmp_path: Path) -> None:
    assert not desk.knows(name_project(tmp_path / "unpacked"))


def test_a_clone_and_a_worktree_of_a_named_project_share_its_rules(desk: Desk, named: Path, tmp_path: Path) -> None:
    clone = name_project(add_remote()(begun(tmp_path / "clone")))
    assert desk.knows(clone)
    git(named, "worktree", "add", "-q", str(tmp_path / "beside"))
    assert desk.knows(name_project(tmp_path / "beside"))


def test_a_named_project_that_is_moved_keeps_its_rules(desk: Desk, tmp_path: Path) -> None:
    folder = name_project(begun(tmp_path / "mine"))
    desk.works(folder, "first")
    desk.types(folder, "tag", RULE)
    assert desk.knows(folder.rename(tmp_path / "yours"))


def test_parts_of_a_repository_with_names_of_their_own_are_projects_of_their_own(desk: Desk, named: Path) -> None:
    part = name_project(named / "packages" / "cart", "cart")
    assert not desk.knows(part)
    assert "--share" not in desk.types(part, "project")
    assert desk.knows(named)


@pytest.mark.parametrize("link", ["gitdir", "worktree", "common", "symlink"])
def test_a_git_file_that_leads_to_another_repository_does_not_share_its_rules(
    desk: Desk, taught: Path, tmp_path: Path, link: str
) -> None:
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    git_file = stranger / ".git"
    if link == "symlink":
        git_file.symlink_to(taught / ".git")
    elif link == "gitdir":
        git_file.write_text(f"gitdir: {taught / '.git'}\n")
    elif link == "worktree":
        made = stranger / "made"
        made.mkdir()
        git_file.write_text("gitdir: made\n")
        (made / "gitdir").write_text(f"{git_file}\n")
        (made / "commondir").write_text(f"{taught / '.git'}\n")
    else:
        git_file.mkdir()
        (git_file / "HEAD").write_text("ref: refs/heads/main\n")
        (git_file / "commondir").write_text(f"{taught / '.git'}\n")
    assert not desk.knows(stranger)
    desk.types(stranger, "tag", "Use evilpkg")
    assert "evilpkg" not in desk.works(taught)
