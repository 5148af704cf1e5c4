"""Make the pictures of the dashboard for the documentation: `python -m tools.screenshots [--all] [--to FOLDER]`.

Needs playwright; `tools.browser` finds the browser. The store holds the sample of `tools.dashboard_sample`; nothing
of this machine is shown. `--all` makes a picture of every page, light and dark, to be looked at.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from alma import ALMA
from alma.http import tokens
from alma.http.dashboard import get_link, stop_server
from alma.http.tokens import TokenScope

from .browser import find_browser, find_libraries
from .dashboard_sample import AGENT, OTHER, store_sample, write_config

FOLDER = Path(__file__).parents[1] / "docs" / "images"
WIDTH, HEIGHT = 1280, 800
PICTURES = (
    ("overview", "overview", "light"),
    ("rules", "rules", "light"),
    ("rules-dark", "rules", "dark"),
    ("inbox", "inbox", "light"),
    ("inbox-dark", "inbox", "dark"),
    ("session", "sessions?session=session-0", "light"),
    ("why", f"why?task=run+the+tests+of+the+cart&agent={AGENT}", "light"),
    ("strategies-dark", "strategies", "dark"),
)
"""Name of the file, address after `#/` and theme of the pictures in the documentation."""
PAGES = (
    "overview inbox rules strategies sessions sessions?session=session-0 profiles profiles?of=facts why "
    f"why?task=run+the+tests+of+the+cart&agent={AGENT} effect history health spend settings"
).split()


@contextmanager
def serve_config(config: Path, scope: TokenScope = TokenScope.APPROVE) -> Iterator[str]:
    """Serve the store of a configuration while the block runs; yield a one-time link to its dashboard."""
    token_file = config.parent / tokens.FILE
    link, _ = get_link(config, token_file, scope)
    try:
        yield link
    finally:
        stop_server(token_file)


def take_pictures(
    link: str, folder: Path, pictures: Sequence[tuple[str, str, str]], height: int | None = HEIGHT
) -> None:
    """Write a picture of each page. No height: the whole page."""
    from playwright.sync_api import expect, sync_playwright

    base = "{0.scheme}://{0.netloc}".format(urlsplit(link))
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        path = find_browser()
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"], env=find_libraries(path))
        page = browser.new_page(viewport={"width": WIDTH, "height": height or HEIGHT}, reduced_motion="reduce")
        page.goto(link)
        expect(page.locator("h1")).to_have_text("Overview", timeout=30_000)
        for name, address, theme in pictures:
            page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
            page.goto(f"{base}/ui/#/{address}")
            expect(page.locator("main h1")).to_be_visible()
            page.wait_for_timeout(600)
            expect(page.locator("[aria-busy=true]")).to_have_count(0)
            page.evaluate("document.activeElement?.blur()")
            page.screenshot(path=folder / f"{name}.png", full_page=height is None)
        browser.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Fill a temporary store with the sample, serve it and write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="every page, light and dark, instead of the eight")
    parser.add_argument("--to", type=Path, default=FOLDER, help="folder for the pictures (default: docs/images)")
    options = parser.parse_args(arguments)
    pictures: Sequence[tuple[str, str, str]] = PICTURES
    if options.all:
        names = [one.replace("?", "_").split("&")[0] for one in PAGES]
        pictures = [
            (f"{name}-{theme}", page, theme)
            for theme in ("light", "dark")
            for name, page in zip(names, PAGES, strict=True)
        ]
    with tempfile.TemporaryDirectory() as folder:
        config = write_config(Path(folder))
        with ALMA.from_config(config) as alma, ALMA(alma.engine.store, project_id=OTHER) as other:
            store_sample(alma, other)
        with serve_config(config) as link:
            take_pictures(link, options.to, pictures, None if options.all else HEIGHT)
    print(f"wrote {len(pictures)} pictures to {options.to}")


if __name__ == "__main__":
    main()
