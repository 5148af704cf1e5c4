from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from tests.persons import act_as_person

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore

if TYPE_CHECKING:
    from alma.stores.postgres.server import LocalServer

MEMORY_FOLDER = Path("/dev/shm")


def use_memory_for_temporary_files() -> None:
    """Keep the tests' files in memory where that is possible: half of their time would go into waiting for a disk."""
    if "TMPDIR" in os.environ or not MEMORY_FOLDER.is_dir() or not os.access(MEMORY_FOLDER, os.W_OK):
        return
    room = os.statvfs(MEMORY_FOLDER)
    if room.f_bavail * room.f_frsize > 4 * 2**30 and not room.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY_FOLDER)


use_memory_for_temporary_files()

# Compiled files are kept, also where the environment says otherwise: without them each run rewrites the assertions of
# all tests, and each process that a test starts compiles all of alma.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# How long an example takes to make says something about the machine, and nothing about the code.
settings.register_profile("alma", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("alma")


SLOW = """
    benchmarks confidence embedders host redaction
    api/test_approval.py
    claude_smart/test_cli.py claude_smart/test_doctor.py claude_smart/test_environment.py
    cli/test_completion.py cli/test_mcp.py cli/test_serving.py cli/test_sessions.py cli/test_transfer.py
    cli/test_upkeep.py cli/test_work.py
    context/test_stack.py
    domains/test_factory.py
    engine/retrieve/test_ahead.py
    graph/test_contract.py graph/test_benchmark.py
    hooks/test_attendance.py hooks/test_identity.py hooks/test_network.py hooks/test_reading.py hooks/test_run.py
    hooks/test_program_output.py hooks/test_sessions.py hooks/test_wake.py hooks/test_worker.py
    hooks/test_worker_service.py
    hosts
    http/test_client.py http/test_tokens.py
    http/test_connections.py http/test_document.py http/test_load.py http/test_serving.py http/test_slow_requests.py
    ingestion/test_bad_input.py ingestion/test_ingest.py ingestion/test_memory.py
    mcp/test_claude_code.py mcp/test_command.py mcp/test_conformance.py mcp/test_http.py mcp/test_inspector.py
    mcp/test_every_tool.py mcp/test_files.py
    models/test_budget.py models/test_claude_cli.py models/test_claude_cli_host.py models/test_client_log.py
    models/test_litellm.py models/test_local_model.py models/test_race.py models/test_services.py
    models/test_transport.py
    progress/test_claims.py progress/test_plan.py
    session/test_ledger.py session/test_process.py
    stores/test_processes.py stores/test_sqlite_scale.py stores/test_testing.py
    test_docs.py test_endless_texts.py test_file_locks.py test_install_texts.py test_locks.py test_processes.py
    test_quick_starts.py test_strategies_apart.py test_read_only.py test_seed_readme.py test_trust.py
    workflow/test_processes.py
""".split()
"""Modules and folders that start processes, servers or hosts, or take long: `make test-fast` leaves them out."""
SLOW_NAMES = ("random_histories", "hub_is_bounded", "time_grows_linearly", "process")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what is listed above and what Hypothesis makes up."""
    tests = Path(__file__).parent
    if missing := [name for name in SLOW if not (tests / name).exists()]:
        raise pytest.UsageError(f"tests/conftest.py lists as slow what there is not: {', '.join(missing)}")
    for item in items:
        path = item.path.relative_to(tests)
        listed = path.as_posix() in SLOW or path.parts[0] in SLOW
        named = any(part in item.name for part in SLOW_NAMES)
        if listed or named or getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("slow")


@pytest.fixture(autouse=True, scope="session")
def register_of_trust(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the tests trust and create is not recorded among the folders of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.delenv("CI", raising=False)
        yield


@pytest.fixture(autouse=True)
def person_at_terminal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that a test runs in its own process are a person's; `no_person` marks tests of who runs a command."""
    if "no_person" not in request.keywords:
        act_as_person(monkeypatch)


@pytest.fixture(autouse=True)
def fixed_salts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a tombstone recognises other words depends on its salt, so a test draws the same ones in each run."""
    numbers = count()
    monkeypatch.setattr("alma.engine.erase.draw_salt", lambda: f"{next(numbers):032x}")


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


# -- a real PostgreSQL


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[LocalServer]:
    """Start a server with pgvector, one for each process that runs tests."""
    from alma.stores.postgres.server import start_server

    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        os.chmod(folder, 0o711)  # The server does not run as root.
        server = start_server(Path(folder, "data"), fsync="off", max_connections="200")
        yield server
        server.stop()


@pytest.fixture
def postgres_dsn(postgres_server: LocalServer) -> str:
    """Return the connection string of a new, empty database."""
    from tests.stores.postgres_server import create_database

    return create_database(postgres_server.dsn)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Return an empty folder with a path short enough for a socket, which a server's user may enter."""
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        os.chmod(folder, 0o711)
        yield Path(folder)
