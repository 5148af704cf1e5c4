"""Find a Chromium, Chrome or Edge, or take a small one from a registry package that carries it.

The package `@sparticuz/chromium` of the npm registry holds a compressed Chromium for Linux on x64, without a window. It
is unpacked once into the cache folder. The browser tests prefer it: it needs a third of the CPU time of a full browser.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

PACKAGE = "@sparticuz/chromium"
VERSION = "147.0.0"
NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "microsoft-edge-stable",
    "msedge",
)
PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
    r"C:\Program Files\Microsoft\Edge\Application\msedge.exe",
)
_UNPACK = """
const zlib = require("zlib"), fs = require("fs");
const [from, to] = process.argv.slice(1);
fs.writeFileSync(to, zlib.brotliDecompressSync(fs.readFileSync(from)), {mode: 0o755});
"""
_LIBRARIES = "al2023"


class BrowserMissingError(Exception):
    """No browser is installed and none could be taken from a package."""


@lru_cache(maxsize=1)
def find_browser() -> str:
    """Return the path of a browser: the one that `ALMA_TEST_CHROMIUM` names, an installed one, or a package's."""
    named = os.environ.get("ALMA_TEST_CHROMIUM")
    if named:
        return named
    return _find_installed() or _fetch_browser()


@lru_cache(maxsize=1)
def find_small_browser() -> str:
    """Return the path of a browser as `find_browser` does, but prefer the package's to an installed one."""
    named = os.environ.get("ALMA_TEST_CHROMIUM")
    if named:
        return named
    try:
        return _fetch_browser()
    except BrowserMissingError:
        installed = _find_installed()
        if installed is None:
            raise
        return installed


def _find_installed() -> str | None:
    """Return the path of an installed browser, if there is one."""
    for name in NAMES:
        path = shutil.which(name)
        if path:
            return path
    for place in PLACES:
        if os.path.exists(place):
            return place
    return None


def find_libraries(browser: str) -> dict[str, str | float | bool]:
    """Return the environment for a browser: a packaged one may need the libraries that came with it."""
    folder = Path(browser).parent / _LIBRARIES / "lib"
    if not folder.is_dir():
        return dict(os.environ)
    paths = [os.environ.get("LD_LIBRARY_PATH", ""), str(folder)]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(path for path in paths if path)}


def _fetch_browser() -> str:
    """Return the packaged browser, which the first call puts into the cache folder: whole or not at all."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "alma-tests" / f"chromium-{VERSION}"
    browser = folder / "chromium"
    if browser.exists():
        return str(browser)
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise BrowserMissingError(_explain("no package carries one for this system"))
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        raise BrowserMissingError(_explain("npm is needed to take one from a package, and was not found"))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        try:
            _unpack_browser(npm, node, Path(scratch))
        except (OSError, subprocess.SubprocessError) as error:
            raise BrowserMissingError(_explain(f"{PACKAGE} could not be installed ({error})")) from None
        try:
            Path(scratch, "ready").rename(folder)
        except OSError:
            # Another process was faster.
            if not browser.exists():
                raise
    return str(browser)


def _unpack_browser(npm: str, node: str, scratch: Path) -> None:
    """Install the package below a folder and unpack the browser and its libraries into `ready`."""
    install = [npm, "install", "--prefix", str(scratch), "--ignore-scripts", "--no-audit", "--no-fund"]
    install.append("--fetch-retries=0")
    _run([*install, f"{PACKAGE}@{VERSION}"])
    packed = scratch / "node_modules" / PACKAGE / "bin"
    ready = scratch / "ready"
    ready.mkdir()
    _run([node, "-e", _UNPACK, str(packed / "chromium.br"), str(ready / "chromium")])
    archive = scratch / "libraries.tar"
    _run([node, "-e", _UNPACK, str(packed / f"{_LIBRARIES}.tar.br"), str(archive)])
    libraries = ready / _LIBRARIES
    libraries.mkdir()
    shutil.unpack_archive(archive, libraries, filter="data")


def _run(command: list[str]) -> None:
    subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)


def _explain(why: str) -> str:
    return f"no Chromium, Chrome or Edge was found: install one or set ALMA_TEST_CHROMIUM to its path; {why}"
