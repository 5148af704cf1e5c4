"""The documentation site builds without warnings, its links work, and it loads nothing from another host."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    # Without --quiet: it would hide warnings from strict mode.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    build = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert build.returncode == 0, build.stdout + build.stderr
    assert "WARNING" not in build.stdout + build.stderr
    return folder


class Html(HTMLParser):
    """What a page loads, what it links to, and the anchors it has."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.text = file.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag != "a":
            self.loads += [values[name] for name in ("src", "href", "srcset", "data", "poster") if name in values]


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Html]:
    return {file: Html(file) for file in sorted(site.rglob("*.html"))}


def find_target(site: Path, page: Path, address: str) -> Path:
    path = unquote(urlsplit(address).path)
    return (site / path.removeprefix("/") if path.startswith("/") else page.parent / path).resolve() if path else page


def test_every_page_becomes_a_page_of_the_site(site: Path) -> None:
    for document in (ROOT / "docs").rglob("*.md"):
        page = document.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / page).is_file() or page.stem == "README", page
    assert (site / "index.html").is_file()
    for notebook in (ROOT / "examples" / "notebooks").glob("*.ipynb"):
        assert (site / "notebooks" / f"{notebook.stem}.html").is_file()


def test_nothing_is_loaded_from_another_host(site: Path, pages: dict[Path, Html]) -> None:
    for file, page in pages.items():
        for address in page.loads:
            if address.startswith("data:"):
                continue
            assert not urlsplit(address).netloc, f"{file.name} loads {address}"
            assert find_target(site, file, address).exists(), f"{file.name} loads {address}, which is missing"
        assert not re.search(r"@import|style=[^>]*url\(", page.text), file.name
    for style in site.rglob("*.css"):
        for address in re.findall(r"url\(\s*['\"]?([^'\")]+)", style.read_text(encoding="utf-8")):
            assert address.startswith("data:") or not urlsplit(address).netloc, f"{style.name} loads {address}"
    for script in (site / "search").glob("*.js"):
        if script.name == "search_index.js":
            # It holds the text of the pages, with the addresses in their examples.
            continue
        assert not re.search(r"""['"](?:https?:)?//[a-z]""", script.read_text(encoding="utf-8")), script.name


def test_links_between_pages_lead_somewhere(site: Path, pages: dict[Path, Html]) -> None:
    by_path = {file.resolve(): page for file, page in pages.items()}
    count = 0
    for file, page in pages.items():
        for address in page.links:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or file.name == "404.html":
                continue
            target = find_target(site, file, address).resolve()
            assert target.exists(), f"{file.name} links to {address}"
            if parts.fragment and target in by_path:
                assert unquote(parts.fragment) in by_path[target].anchors, f"{file.name} links to {address}"
            count += 1
    assert count > 100


def test_search_has_every_page_and_its_own_scripts(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    places = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {"how-to/mcp.html", "reference/cli.html"} <= places
    assert all((site / "search" / name).is_file() for name in ("lunr.js", "main.js", "worker.js"))
    assert (site / "search.html").is_file()


def test_search_works_on_pages_that_are_opened_from_the_disk(site: Path, pages: dict[Path, Html]) -> None:
    script = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert json.loads(script.removeprefix("var search_index = ").removesuffix(";\n"))["docs"]
    loads = pages[site / "search.html"].loads
    assert loads.index("./js/search_from_disk.js") < loads.index("./search/main.js")
