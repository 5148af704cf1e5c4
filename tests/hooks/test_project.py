from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from alma.hooks.project import find_remote, locate_project, normalise_remote

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *arguments: str) -> None:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(folder), *arguments]
    subprocess.run(command, check=True, capture_output=True)


def cloned(folder: Path, url: str = "") -> Path:
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text(f'[remote "origin"]\n  url = {url}\n' if url else "")
    return folder


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/acme/app",
        "https://github.com/acme/app.git",
        "https://github.com/acme/app.git/",
        "https://user:p@ss@GitHub.com:443/acme/app.git",
        "http://github.com:80/acme//app",
        "ssh://git@github.com/acme/app.git",
        "ssh://git@github.com:22/acme/app",
        "git+ssh://git@github.com/acme/app",
        "git://github.com/acme/app.git",
        "git@github.com:acme/app.git",
        "git@github.com:/acme/app",
        "github.com:acme/app",
    ],
)
def test_one_repository_has_one_name(url: str) -> None:
    assert normalise_remote(url) == "github.com/acme/app"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("ssh://git@host:2222/x/y.git", "host:2222/x/y"),
        ("https://gitlab.com/a/b/c.git", "gitlab.com/a/b/c"),
        ("work:acme/app.git", "work/acme/app"),
        ("7:acme/app.git", "7/acme/app"),
        ("c:/acme/app.git", "/w/here/c:/acme/app"),
        ("file:///srv/git/app.git", "/srv/git/app"),
        ("/srv/git/app.git", "/srv/git/app"),
        ("../app.git", "/w/app"),
        ("https://", ""),
        ("git@host:", ""),
    ],
)
def test_other_addresses(url: str, name: str) -> None:
    assert normalise_remote(url, "/w/here/.git") == name


def test_no_password_is_part_of_a_key(tmp_path: Path) -> None:
    cloned(tmp_path, "https://oauth2:glpat-secret@gitlab.com/a/b.git")
    assert locate_project(str(tmp_path)).key == "git:gitlab.com/a/b"


def test_origin_then_upstream_then_the_first() -> None:
    def config(*names: str) -> str:
        return "".join(f'[remote "{name}"]\n\turl = https://h/{name}\n' for name in names)

    assert find_remote(config("zeta", "upstream", "origin")) == "https://h/origin"
    assert find_remote(config("zeta", "upstream", "alpha")) == "https://h/upstream"
    assert find_remote(config("zeta", "alpha")) == "https://h/alpha"
    assert find_remote('[branch "main"]\n\tremote = origin\n[core]\n\turl = x\n') == ""


def test_a_config_is_read_as_git_reads_it() -> None:
    assert find_remote('[remote "origin"]\n\turl = "https://h/a b" ; mine\n') == "https://h/a b"
    assert find_remote('[Remote "origin"]\n\tURL=https://h/a # mine\n') == "https://h/a"
    assert find_remote('[remote "origin"]\n\turl = \n\turl = https://h/second\n') == "https://h/second"


def test_a_folder_below_belongs_to_the_repository(tmp_path: Path) -> None:
    cloned(tmp_path / "app", "git@github.com:acme/app.git")
    below = tmp_path / "app" / "a" / "b"
    below.mkdir(parents=True)
    assert locate_project(str(below)).key == "git:github.com/acme/app"
    assert locate_project(str(below)).folders[-1] == str(tmp_path / "app")


def test_two_repositories_of_the_same_name_are_two(tmp_path: Path) -> None:
    one = cloned(tmp_path / "a" / "app", "https://github.com/one/app")
    other = cloned(tmp_path / "b" / "app", "https://github.com/other/app")
    alone = cloned(tmp_path / "c" / "app")
    lonely = cloned(tmp_path / "d" / "app")
    assert len({locate_project(str(folder)).key for folder in (one, other, alone, lonely)}) == 4


@pytest.mark.system
@needs_git
@pytest.mark.parametrize("url", ["", "https://github.com/acme/app.git"])
def test_worktrees_share_the_project(tmp_path: Path, url: str) -> None:
    main = tmp_path / "main"
    main.mkdir()
    git(main, "init", "-q")
    git(main, "commit", "-q", "--allow-empty", "-m", "first")
    if url:
        git(main, "remote", "add", "origin", url)
    git(main, "worktree", "add", "-q", str(tmp_path / "beside"))
    assert locate_project(str(tmp_path / "beside")).key == locate_project(str(main)).key
    assert locate_project(str(main)).key == ("git:github.com/acme/app" if url else f"path:{main}")
    assert locate_project(str(tmp_path / "beside")).folders[-1] == str(tmp_path / "beside")


@pytest.mark.system
@needs_git
def test_a_submodule_is_a_project_of_its_own(tmp_path: Path) -> None:
    for name in ("inner", "outer"):
        (tmp_path / name).mkdir()
        git(tmp_path / name, "init", "-q")
        git(tmp_path / name, "commit", "-q", "--allow-empty", "-m", "first")
    git(
        tmp_path / "outer", "-c", "protocol.file.allow=always", "submodule", "-q", "add", str(tmp_path / "inner"), "lib"
    )
    assert locate_project(str(tmp_path / "outer" / "lib")).key == f"git:{tmp_path / 'inner'}"
    assert locate_project(str(tmp_path / "outer")).key == f"path:{tmp_path / 'outer'}"


def test_a_git_file_that_leads_nowhere_is_a_path(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /nowhere/at/all\n")
    assert locate_project(str(tmp_path)).key == f"path:{tmp_path}"


def test_without_git_the_folder_is_the_project(tmp_path: Path) -> None:
    below = tmp_path / "a"
    below.mkdir()
    assert locate_project(str(below)).key == f"path:{below}"
    assert locate_project(str(below), str(tmp_path)).key == f"path:{tmp_path}"
    assert locate_project(str(tmp_path), str(below)).key == f"path:{tmp_path}"


def test_an_override_names_the_project(tmp_path: Path) -> None:
    cloned(tmp_path / "app", "https://github.com/acme/app")
    (tmp_path / "app" / ".claude-smart").mkdir()
    (tmp_path / "app" / ".claude-smart" / "project").write_text("\n  my   shop \nmore\n")
    below = tmp_path / "app" / "sub"
    below.mkdir()
    assert locate_project(str(below)).key == "name:my shop"


def test_a_link_to_a_folder_is_that_folder(tmp_path: Path) -> None:
    cloned(tmp_path / "app")
    (tmp_path / "link").symlink_to(tmp_path / "app")
    assert locate_project(str(tmp_path / "link")).key == locate_project(str(tmp_path / "app")).key


def test_a_long_path_makes_a_short_key() -> None:
    one, other = (locate_project("/" + "/".join(["long" * 10] * 8) + name).key for name in ("/a", "/b"))
    assert len(one) <= 200
    assert one != other
    assert one[:150] == other[:150]


@pytest.mark.parametrize(
    "config", [b"\xff\xfe\0[remote", b'[remote "origin', b"[]\n=\n", b'[remote "o"]\nurl', b"\0" * 100]
)
def test_a_damaged_config_does_no_harm(tmp_path: Path, config: bytes) -> None:
    cloned(tmp_path)
    (tmp_path / ".git" / "config").write_bytes(config)
    assert locate_project(str(tmp_path)).key == f"path:{tmp_path}"


# -- what a repository says of itself is not to be trusted


@pytest.mark.parametrize("name", ["git:github.com/acme/app", "path:/w/app", "everywhere", "name:acme"])
def test_the_name_a_repository_gives_itself_is_never_the_key_of_another(tmp_path: Path, name: str) -> None:
    (tmp_path / ".claude-smart").mkdir()
    (tmp_path / ".claude-smart" / "project").write_text(f"\n{name}\n")
    assert locate_project(str(tmp_path)).key == f"name:{name}"


def test_a_name_is_one_line_of_plain_signs(tmp_path: Path) -> None:
    (tmp_path / ".claude-smart").mkdir()
    (tmp_path / ".claude-smart" / "project").write_text("a\x1b[31m\tb\u202ec\u2028d\n")
    assert locate_project(str(tmp_path)).key == "name:a[31m bc"


@pytest.mark.skipif(os.name == "nt", reason="links need rights")
def test_a_name_is_not_read_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the first line of a file of the person's")
    folder = tmp_path / "app"
    (folder / ".claude-smart").mkdir(parents=True)
    (folder / ".claude-smart" / "project").symlink_to(tmp_path / "secret")
    assert locate_project(str(folder)).key == f"path:{folder}"
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "project").write_text("theirs")
    (other / ".claude-smart").symlink_to(tmp_path / "kept")
    assert locate_project(str(other)).key == f"path:{other}"


def test_a_secret_in_a_folder_or_an_address_is_not_in_the_key(tmp_path: Path) -> None:
    token = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ0bC2dF4hJ6"
    assert "ghp_" not in normalise_remote(f"https://github.com/acme/app.git?token={token}")
    assert "ghp_" not in normalise_remote(f"https://github.com/acme/app#{token}")
    keys = [locate_project(str(tmp_path / f"a {token}{end}")).key for end in ("x", "y")]
    assert all(token not in key for key in keys)
    assert keys[0] != keys[1]
    cloned(tmp_path / "app", f"https://git.example.org/{token}/app.git")
    assert token not in locate_project(str(tmp_path / "app")).key
