"""Files of a repository, and never one outside of it."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from alma.errors import ValidationError
from alma.rulefiles import targets


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    return tmp_path / "repo"


def test_the_usual_file_is_at_the_root(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repo / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(repo / "a" / "b")
    assert targets.find_file(None, None, "AGENTS.md").real == repo / "AGENTS.md"
    assert targets.find_file("X.md", None, "AGENTS.md").name == "a/b/X.md"
    assert targets.find_file(repo / "a", None, "AGENTS.md").name == "a/AGENTS.md"


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_link_does_not_lead_out_of_the_repository(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("mine")
    (repo / "AGENTS.md").symlink_to(tmp_path / "secret")
    (repo / "out").symlink_to(tmp_path)
    for path in ("AGENTS.md", "out/x.md", "../x.md"):
        with pytest.raises(ValidationError, match="outside"):
            targets.find_file(path, repo, "AGENTS.md")
    (repo / "loop").symlink_to(repo / "loop")
    with pytest.raises(ValidationError):
        targets.read_file(targets.find_file("loop", repo, "AGENTS.md"))


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_nor_does_a_folder_that_is_a_link(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository of others may bring one in the place of .github or .cursor."""
    (tmp_path / "elsewhere").mkdir()
    (repo / ".github").symlink_to(tmp_path / "elsewhere")
    monkeypatch.chdir(repo)
    for path in (None, ".github/x.md", repo / ".github" / "x.md"):
        with pytest.raises(ValidationError, match="outside"):
            targets.find_file(path, None, ".github/copilot-instructions.md")
    assert targets.find_file(tmp_path / "elsewhere" / "x.md", None, "AGENTS.md").real == tmp_path / "elsewhere" / "x.md"


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_link_inside_stays_a_link(repo: Path) -> None:
    (repo / "AGENTS.md").write_text("old")
    (repo / "CLAUDE.md").symlink_to("AGENTS.md")
    where = targets.find_file("CLAUDE.md", repo, "CLAUDE.md")
    targets.change_file(where, "new", "old")
    assert (repo / "CLAUDE.md").is_symlink()
    assert (repo / "AGENTS.md").read_text() == "new"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such modes")
def test_modes_are_what_git_wants_or_what_they_were(repo: Path) -> None:
    where = targets.find_file("deep/er/a.md", repo, "AGENTS.md")
    targets.change_file(where, "text", None)
    assert stat.S_IMODE(where.real.stat().st_mode) == 0o644
    os.chmod(where.real, 0o755)
    targets.change_file(where, "other", "text")
    assert stat.S_IMODE(where.real.stat().st_mode) == 0o755
    assert os.listdir(where.real.parent) == ["a.md"]


def test_what_somebody_else_wrote_meanwhile_is_kept(repo: Path) -> None:
    where = targets.find_file("AGENTS.md", repo, "AGENTS.md")
    where.real.write_text("theirs")
    with pytest.raises(ValidationError, match="changed by another program"):
        targets.change_file(where, "ours", "before")
    assert where.real.read_text() == "theirs"
    assert sorted(os.listdir(repo)) == [".git", "AGENTS.md"]


def test_what_is_no_text_is_refused(repo: Path) -> None:
    (repo / "latin.md").write_bytes(b"caf\xe9")
    with pytest.raises(ValidationError, match="not UTF-8"):
        targets.read_file(targets.find_file("latin.md", repo, "AGENTS.md"))
    (repo / "big.md").write_bytes(b"x" * (targets.MOST_BYTES + 1))
    with pytest.raises(ValidationError, match="more than"):
        targets.read_file(targets.find_file("big.md", repo, "AGENTS.md"))
    with pytest.raises(ValidationError, match="folder"):
        targets.find_file("a.md", repo / "nowhere", "AGENTS.md")
    if hasattr(os, "mkfifo"):
        os.mkfifo(repo / "pipe")
        with pytest.raises(ValidationError, match="not a file"):
            targets.find_file("pipe", repo, "AGENTS.md")


def test_a_folder_that_cannot_be_made_is_named(repo: Path) -> None:
    (repo / "AGENTS.md").write_text("a file")
    where = targets.find_file("AGENTS.md/x.md", repo, "AGENTS.md")
    with pytest.raises(ValidationError, match=r"x\.md cannot be"):
        targets.change_file(where, "text", None)
