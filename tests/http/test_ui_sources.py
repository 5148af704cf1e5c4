"""The files of the dashboard: what they must not contain, their size, and the vendored file."""

from __future__ import annotations

import hashlib
import re
import tomllib
from pathlib import Path

import pytest

import alma.http
from alma.http.shell import list_files

UI = Path(alma.http.__file__).parent / "ui"
VENDORED = "preact.js"
VENDORED_SHA256 = "4b527c64e6b82a09eab6311bb7e39eb5f8be413fa4d047d79f945d4fcf3e6b46"
MAX_BYTES = 250_000
MAX_SCRIPT_LINES = 2_520
NAMESPACE = "http://www.w3.org/2000/svg"
FILES = sorted(one for one in UI.rglob("*") if one.is_file())
OWN = [one for one in FILES if one.name not in (VENDORED, "NOTICE.txt")]
SCRIPTS = [one for one in OWN if one.suffix == ".js"]
PAGES = [one for one in OWN if one.suffix == ".html"]


def name_file(path: Path) -> str:
    return path.relative_to(UI).as_posix()


@pytest.mark.parametrize("path", OWN, ids=name_file)
def test_no_file_uses_a_way_to_turn_text_into_code(path: Path) -> None:
    text = path.read_text()
    refused = (
        "innerHTML|outerHTML|insertAdjacentHTML|document\\.write|DOMParser|parseHTMLUnsafe|setHTML"
        "|\\beval\\(|new Function|javascript:|srcdoc|\\bstyle=|\\.style\\b|document\\.cookie"
    )
    assert re.findall(refused, text) == []


@pytest.mark.parametrize("path", OWN, ids=name_file)
def test_no_file_names_another_host(path: Path) -> None:
    text = path.read_text().replace(NAMESPACE, "")
    assert re.findall(r"\w+://|[\"'(=]//\w", text) == []


@pytest.mark.parametrize("path", PAGES, ids=name_file)
def test_pages_have_no_script_or_style_of_their_own(path: Path) -> None:
    text = path.read_text()
    scripts = re.findall(r"<script\b([^>]*)>(.*?)</script>", text, re.DOTALL)
    assert scripts
    assert all("src=" in attributes and not body.strip() for attributes, body in scripts)
    assert "<style" not in text
    assert re.findall(r"\son\w+=", text) == []


def test_the_entry_page_is_the_page_itself() -> None:
    files = list_files()
    assert files["/ui/enter"] == files["/ui/index.html"]


def test_scripts_import_only_files_that_exist() -> None:
    for path in SCRIPTS:
        for target in re.findall(r"from \"([^\"]+)\"", path.read_text()):
            assert target.startswith("."), f"{name_file(path)} imports {target}"
            assert (path.parent / target).resolve() in FILES, f"{name_file(path)} imports {target}"


def test_pages_refer_only_to_files_that_exist() -> None:
    for path in PAGES:
        for target in re.findall(r"(?:src|href)=\"([^\"]+)\"", path.read_text()):
            assert (UI / target) in FILES


def test_the_code_of_a_link_leaves_the_address_before_anything_is_loaded() -> None:
    assert re.findall(r"^import |\bimport\(", (UI / "session.js").read_text(), re.MULTILINE) == []
    first = re.search(r"<script[^>]*src=\"([^\"]+)\"", (UI / "index.html").read_text())
    assert first is not None
    assert first[1] == "session.js"


def test_the_vendored_file_is_the_one_that_the_notice_describes() -> None:
    assert hashlib.sha256((UI / VENDORED).read_bytes()).hexdigest() == VENDORED_SHA256
    notice = (UI / "NOTICE.txt").read_text()
    for text in ("Preact 11.2.0", "htm 3.1.1", "The MIT License (MIT)", "Apache License", "npx esbuild"):
        assert text in notice


def test_the_files_stay_within_their_budget() -> None:
    assert sum(one.stat().st_size for one in FILES) <= MAX_BYTES
    assert sum(len(one.read_text().splitlines()) for one in SCRIPTS) <= MAX_SCRIPT_LINES


def test_every_file_has_a_type_that_is_served_and_is_packaged() -> None:
    assert {one.suffix for one in FILES} <= {".js", ".css", ".svg", ".html", ".txt"}
    build = tomllib.loads((UI.parents[3] / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert "src/alma" in build["targets"]["wheel"]["packages"]
    assert "exclude" not in build
    assert "exclude" not in build["targets"]["wheel"]
