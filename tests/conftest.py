from __future__ import annotations

import gc
import os
import platform
import random
import shutil
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import wraps
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from tests.hosts.agents import NotInstalledError
from tests.persons import act_as_person, hide_agents
from tests.programs import find_claude_code

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.embedders.local import LocalEmbedder
from alma.engine import erase
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

# How long an example takes to make says something about the machine, and nothing about the code. Each run draws the
# same examples, so that a change fails only for what it did. With `ALMA_TEST_EXAMPLES` each run draws others.
EXAMPLES = int(os.environ.get("ALMA_TEST_EXAMPLES", "40"))
settings.register_profile(
    "alma",
    deadline=None,
    max_examples=EXAMPLES,
    derandomize="ALMA_TEST_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("alma")


# Thousands of collected tests live until the end. The garbage collector need not look at them again and again.
gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage among what the tests create, and less often: there is memory enough."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Shuffle the files, and the tests in each, if `ALMA_TEST_SHUFFLE` names a seed."""
    seed = os.environ.get("ALMA_TEST_SHUFFLE")
    if not seed:
        return
    order = random.Random(seed)
    by_file: dict[Path, list[pytest.Item]] = {}
    for item in items:
        by_file.setdefault(item.path, []).append(item)
    files = list(by_file.values())
    order.shuffle(files)
    for tests in files:
        order.shuffle(tests)
    items[:] = chain.from_iterable(files)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Say at the very end how many tests were skipped, and why."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    if not skipped:
        return
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    listed = "; ".join(f"{number} x {reason}" for reason, number in reasons.most_common())
    reporter.write_line(f"skipped {len(skipped)}: {listed}")


# -- unit tests start nothing and wait for nothing

_STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn"}
_WATCHED = frozenset({*_STARTS, "time.sleep"})
_LONGEST_SLEEP = 0.02
_starts: list[str] = []


def _watch_starts(event: str, arguments: tuple[Any, ...], watched: frozenset[str] = _WATCHED) -> None:
    """Note each process that this thread starts, and each sleep. It is called for each file that is opened, too."""
    if event not in watched or _STARTS is None:  # The interpreter ends, and has taken this module apart.
        return
    is_short = event == "time.sleep" and arguments[0] <= _LONGEST_SLEEP
    if not is_short and threading.current_thread() is threading.main_thread():
        _starts.append(f"{event} {arguments[:1]!r:.80}")


sys.addaudithook(_watch_starts)

# `platform` starts a program the first time that it is asked for the processor, as some clients of stores do.
platform.processor()


@pytest.fixture(autouse=True)
def start_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that starts a process or sleeps, unless it or its file has the mark `system` or `quality`."""
    _starts.clear()
    yield
    if _starts and not {"system", "quality"} & set(request.keywords):
        pytest.fail(f"mark this test `system`, or let it start nothing: {_starts[:3]}", pytrace=False)


@pytest.fixture(autouse=True, scope="session")
def register_of_trust(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the tests trust and create is not recorded among the folders of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.delenv("CI", raising=False)
        yield


@pytest.fixture(autouse=True, scope="session")
def no_agent() -> Iterator[None]:
    """The tests do not see the variables of an agent that runs them."""
    with pytest.MonkeyPatch.context() as patch:
        hide_agents(patch)
        yield


@pytest.fixture(autouse=True)
def person_at_terminal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that a test runs in its own process are a person's; `no_person` marks tests of who runs a command.

    Whether a tombstone recognises other words depends on its salt, so a test draws the same ones in each run.
    """
    if "no_person" not in request.keywords:
        act_as_person(monkeypatch)
    numbers = count()
    monkeypatch.setattr(erase, "draw_salt", lambda: f"{next(numbers):032x}")


@pytest.fixture(autouse=True, scope="session")
def load_model_once() -> Iterator[None]:
    """Let the memories that the tests open share a loaded model. `tests/embedders` tests how it is loaded."""
    models: dict[object, Any] = {}
    words: dict[object, Any] = {}
    load_model, load_words = LocalEmbedder._load_model, LocalEmbedder._load_words

    @wraps(load_model)
    def share_model(self: LocalEmbedder, key: Any) -> Any:
        # A fork must not run what a thread of its parent may be running.
        place = (self._folder, key, os.getpid())
        if place not in models:
            models[place] = load_model(self, key)
        return models[place]

    @wraps(load_words)
    def share_words(self: LocalEmbedder) -> Any:
        if self._folder not in words:
            words[self._folder] = load_words(self)
        return words[self._folder]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalEmbedder, "_load_model", share_model)
        patch.setattr(LocalEmbedder, "_load_words", share_words)
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


@pytest.fixture(scope="session")
def new_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database without memories. All new ones have the same bytes, and a copy is made in half the time."""
    path = tmp_path_factory.mktemp("database") / "alma.db"
    SQLiteStore(path).close()
    return path


@pytest.fixture
def open_alma(tmp_path: Path, clock: Clock, new_database: Path) -> Iterator[Opener]:
    """Open memories on SQLite, with the embedder that needs no model. The contract proves the other stores equal."""
    opened: list[ALMA] = []
    path = tmp_path / "alma.db"

    def opener(**options: Any) -> ALMA:
        options = {"clock": clock, "project_id": "test", **options}
        if not path.exists():
            shutil.copy(new_database, path)
        store = SQLiteStore(path)
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


@pytest.fixture(scope="session")
def claude_binary() -> str:
    """The real Claude Code. It is installed once into a cache folder; without npm or its registry, tests are skipped.

    `CLAUDE_SMART_TEST_CLAUDE` names a binary to use instead.
    """
    try:
        return find_claude_code()
    except NotInstalledError as error:
        pytest.skip(f"NOT TESTED IN THE REAL CLAUDE CODE: it could not be installed ({error})")


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
