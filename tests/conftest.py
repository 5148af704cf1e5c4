from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore

MEMORY_FOLDER = Path("/dev/shm")


def use_memory_for_temporary_files() -> None:
    """Keep the tests' files in memory where that is possible: half of their time would go into waiting for a disk."""
    if "TMPDIR" in os.environ or not MEMORY_FOLDER.is_dir() or not os.access(MEMORY_FOLDER, os.W_OK):
        return
    room = os.statvfs(MEMORY_FOLDER)
    if room.f_bavail * room.f_frsize > 4 * 2**30 and not room.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY_FOLDER)


use_memory_for_temporary_files()

# How long an example takes to make says something about the machine, and nothing about the code.
settings.register_profile("alma", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("alma")


@pytest.fixture(autouse=True, scope="session")
def register_of_trust(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the tests trust and create is not recorded among the folders of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.delenv("CI", raising=False)
        yield


class Clock:
    """A clock that goes a second further each time it is read, and further when told."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    def pass_days(self, days: float) -> None:
        self.now += timedelta(days=days)


@pytest.fixture
def clock() -> Clock:
    return Clock()


Opener = Callable[..., ALMA]


@pytest.fixture(params=["memory", "sqlite"])
def open_alma(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Opener]:
    """Opens memories on the model store and on the product's, with the embedder that needs no model."""
    opened: list[ALMA] = []

    def opener(**options: Any) -> ALMA:
        options = {"clock": clock, "project_id": "test", **options}
        store = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "alma.db")
        embedder = options.pop("embedder", HashEmbedder())
        opened.append(ALMA(store, embedder, **options))
        return opened[-1]

    yield opener
    for alma in opened:
        alma.close()


@pytest.fixture
def alma(open_alma: Opener) -> ALMA:
    return open_alma()


# -- the real Claude Code

VERSION = "2.1.325"
_SYSTEMS = {"Linux": "linux", "Darwin": "darwin", "Windows": "win32"}
_MACHINES = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def _package() -> str:
    system, machine = _SYSTEMS.get(platform.system()), _MACHINES.get(platform.machine())
    return f"@anthropic-ai/claude-code-{system}-{machine}"


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "alma-tests" / f"claude-code-{VERSION}"


def _fetch(folder: Path) -> None:
    """Whole or not at all, also when several test processes do it at the same time."""
    npm = shutil.which("npm")
    if npm is None:
        raise OSError("npm was not found")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        fresh = Path(scratch) / "host"
        command = [npm, "install", "--prefix", str(fresh), "--no-audit", "--no-fund", f"{_package()}@{VERSION}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise OSError(f"npm install failed: {done.stderr.strip()[-400:]}")
        try:
            fresh.rename(folder)
        except OSError:
            if not folder.exists():
                raise


@pytest.fixture(scope="session")
def claude_binary() -> str:
    """The real Claude Code. It is installed once into a cache folder; without npm or its registry, tests are skipped.

    `CLAUDE_SMART_TEST_CLAUDE` names a binary to use instead.
    """
    given = os.environ.get("CLAUDE_SMART_TEST_CLAUDE")
    if given:
        return given
    folder = _cache()
    if not folder.exists():
        try:
            _fetch(folder)
        except (OSError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"NOT TESTED IN THE REAL CLAUDE CODE: it could not be installed ({error})")
    return str(next((folder / "node_modules" / _package()).glob("claude*")))
