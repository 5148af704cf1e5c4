"""Check that everything works: a list of checks, each with what was found and what to do about it.

A check that depends on a broken one is left out, so that what is listed first is what to fix first. Nothing is changed:
a store that is not there is not made, and the round trip runs on a scratch store.
"""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from alma import __version__

from .app import TOKEN_FILES, read_config
from .config import Config
from .embedders import registry as embedders
from .embedders.local import EXTRA
from .engine.settings import Settings
from .engine.upkeep import reindex
from .errors import (
    ALMAError,
    ConfigError,
    CorruptStoreError,
    MissingExtraError,
    NewerStoreError,
    ReadOnlyError,
    StorageError,
    UntrustedConfigError,
    install_command,
)
from .inspection import count_records, read_embedders
from .memory import ALMA
from .ports import Checkable, Embedder
from .stores import registry as stores

OK, WARNING, FAILED = "ok", "warning", "failed"

_IN_A_FILE = ("sqlite", "file")
_OLDEST_PYTHON = (3, 11)
_LITTLE_ROOM = 500 * 2**20
_NO_ROOM = 50 * 2**20
# What reading a damaged store may raise besides our own errors.
_DAMAGE = (ALMAError, sqlite3.Error, OSError, ValueError, LookupError, TypeError)


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    state: str
    """ok, warning or failed."""
    detail: str
    fix: str = ""


_FIXES: tuple[tuple[type[BaseException], str], ...] = (
    (UntrustedConfigError, "read the configuration; if you trust it, run `alma trust`"),
    (ConfigError, "correct the configuration, or write a new one: alma init --force"),
    (MissingExtraError, "install it as the message says, or set embedding_provider: auto"),
    (NewerStoreError, "update alma: git pull, then pip install . (in the checkout of alma)"),
    (ReadOnlyError, "make the file and its folder yours: chown, chmod 700 the folder, chmod 600 the file"),
    (CorruptStoreError, "restore a backup, or move the file away to begin with an empty memory"),
    (StorageError, "check the path, its owner and its mode"),
    (sqlite3.Error, "restore a backup, or move the file away to begin with an empty memory"),
    (ALMAError, "do what the message says, then run `alma doctor` again"),
)


def diagnose(config_path: str | PathLike[str] | None = None) -> list[Check]:
    """Make every check that can be made, in the order in which to fix what fails."""
    return list(_run_checks(config_path))


def _run_checks(config_path: str | PathLike[str] | None) -> Iterator[Check]:
    running = f"Python {platform.python_version()}, alma {__version__}, SQLite {sqlite3.sqlite_version}"
    is_old = sys.version_info < _OLDEST_PYTHON
    yield Check("versions", FAILED if is_old else OK, running, "alma needs Python 3.11 or newer" if is_old else "")
    try:
        path, config = read_config(None if config_path is None else os.fspath(config_path))
    except ALMAError as error:
        yield _fail("configuration", error)
        return
    yield Check("configuration", OK, f"{path} (project {config.project_id!r})")
    yield Check("sharing", OK, f"{len(config.agents)} agents declared" if config.agents else "any agent may learn")
    yield from _guard("permissions", lambda: _check_permissions(config))
    yield from _guard("tokens", lambda: _check_tokens(path.resolve().parent))
    yield from _guard("disk space", lambda: _check_space(config))
    yield _check_model(config)
    embedder, check = _check_embedder(config)
    yield check
    try:
        yield from _check_store(config, embedder, is_usable=check.state != FAILED)
        if check.state != FAILED:
            yield from _guard("round trip", lambda: _check_round_trip(config))
    finally:
        if embedder is not None:
            embedder.close()


def _guard(name: str, checks: Callable[[], Iterable[Check]]) -> list[Check]:
    try:
        return list(checks())
    except _DAMAGE as error:
        return [_fail(name, error)]


def _fail(name: str, error: BaseException) -> Check:
    fix = next((fix for kind, fix in _FIXES if isinstance(error, kind)), "restore a backup of the store")
    if isinstance(error, ConfigError) and "alma init" in str(error):
        fix = "alma init"
    return Check(name, FAILED, str(error) or type(error).__name__, fix)


# -- around the store


def _read_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _check_permissions(config: Config) -> Iterator[Check]:
    folder = config.storage_dir
    if config.storage == "memory":
        yield Check("permissions", WARNING, "storage is 'memory': all is lost when the process ends", "storage: sqlite")
        return
    if os.name != "posix" or not folder.exists():
        yield Check("permissions", OK, f"{folder} will be made when something is stored")
        return
    is_private = True
    if (mode := _read_mode(folder)) & 0o077:
        is_private = False
        yield Check("permissions", WARNING, f"others may look into {folder} (mode {mode:04o})", f"chmod 700 {folder}")
    for file in sorted(folder.glob(f"{config.db_name}*")):
        if (mode := _read_mode(file)) & 0o077:
            is_private = False
            detail = f"{file} can be read by others (mode {mode:04o})"
            yield Check("permissions", FAILED, detail, f"chmod 600 {file}")
    if is_private:
        yield Check("permissions", OK, f"{folder} is private")


def _check_space(config: Config) -> Iterator[Check]:
    folder = next(place for place in (config.storage_dir, *config.storage_dir.parents) if place.exists())
    free = shutil.disk_usage(folder).free
    state = FAILED if free < _NO_ROOM else WARNING if free < _LITTLE_ROOM else OK
    yield Check(
        "disk space", state, f"{free / 2**30:.1f} GiB free at {folder}", "" if state == OK else "free some space"
    )


def _check_tokens(folder: Path) -> Iterator[Check]:
    """Check the token files; skipped where there are none."""
    files = [folder / name for name in TOKEN_FILES if (folder / name).is_file()]
    readable = [file for file in files if os.name == "posix" and _read_mode(file) & 0o077]
    for file in readable:
        detail = f"{file} can be read by others (mode {_read_mode(file):04o})"
        yield Check("tokens", FAILED, detail, f"chmod 600 {file}, and better make new tokens: alma token add")
    if files and not readable:
        yield Check("tokens", OK, f"{', '.join(file.name for file in files)}: private")


def _check_model(config: Config) -> Check:
    """Open the language model, so that what is missing shows; it is not asked."""
    settings = config.model
    if settings.provider == "none":
        return Check("model", OK, "none is asked, as configured")
    from .models.claude_cli import PATH_VARIABLE
    from .models.registry import build

    try:
        model = build(settings, os.environ)
    except ALMAError as error:
        return Check("model", FAILED, str(error), "set what is missing, or set model: {provider: none}")
    program = settings.path or os.environ.get(PATH_VARIABLE) or "claude"
    if settings.provider == "claude-cli" and not shutil.which(os.path.expanduser(program)):
        return Check("model", WARNING, f"{program} is not found, so that rules do without it", "install Claude Code")
    return Check("model", OK, f"{model.name if model is not None else settings.provider} (not asked)")


def _check_embedder(config: Config) -> tuple[Embedder | None, Check]:
    provider = config.embedding_provider
    try:
        embedder = embedders.create(provider, dim=config.embedding_dim, options=config.embedding)
    except ALMAError as error:
        return None, _fail("embedder", error)
    if embedder is None:
        if provider == "none":
            return None, Check("embedder", OK, "none: memories are found by words only, as configured")
        fix = f"{install_command(EXTRA)}, then: alma reindex"
        return None, Check("embedder", WARNING, "none installed: memories are found by words only", fix)

    def embed() -> Iterator[Check]:
        # Hashes first: a damaged model should be called damaged.
        verify = getattr(embedder, "verify", None)
        if verify is not None:
            verify()
        [vector] = embedder.embed(["is everything well?"])
        verified = ", files verified" if verify is not None else ""
        yield Check("embedder", OK, f"{embedder.name} ({len(vector)} dimensions{verified})")

    [check] = _guard("embedder", embed)
    return embedder, check


# -- the store


def _check_store(config: Config, embedder: Embedder | None, *, is_usable: bool) -> Iterator[Check]:
    if config.storage in _IN_A_FILE and not config.path.exists():
        yield Check("store", OK, f"{config.path} will be made when something is stored")
        return
    try:
        store = stores.create(config.storage, path=config.path, options=config.storage_options)
    except _DAMAGE as error:
        yield _fail("store", error)
        return
    alma = ALMA(store, embedder if is_usable else None, project_id=config.project_id)
    try:
        yield from _guard("store", lambda: _check_figures(config, alma))
        yield from _guard("integrity", lambda: _check_integrity(alma))
        if is_usable:
            yield from _guard("vectors", lambda: _check_vectors(alma))
        yield from _guard("graph", lambda: _check_graph(alma))
    finally:
        store.close()


def _check_figures(config: Config, alma: ALMA) -> Iterator[Check]:
    total = alma.get_stats()["total_count"]
    stats = getattr(alma.engine.store, "stats", None)
    version = f", format {stats()['format']}" if stats is not None else ""
    yield Check("store", OK, f"{config.storage} at {config.path}{version}: {total} memories in use")


def _check_integrity(alma: ALMA) -> Iterator[Check]:
    store = alma.engine.store
    # Who may read the file is a check of its own.
    problems = store.check() if isinstance(store, Checkable) else []
    wrong = [problem for problem in problems if "can be read by others" not in problem]
    sound = "the file, its words and its vectors agree" if isinstance(store, Checkable) else "all of it could be read"
    fix = "restore a backup; keep this file, most of it can still be read"
    yield Check("integrity", FAILED, "; ".join(wrong[:5]), fix) if wrong else Check("integrity", OK, sound)


def _check_vectors(alma: ALMA) -> Iterator[Check]:
    held, configured = read_embedders(alma)
    waiting = len(reindex.pending(alma.engine))
    if held and configured and held != configured:
        detail = f"the store was embedded by {held!r}, but {configured!r} is configured"
        yield Check("vectors", FAILED, detail, "alma reindex, or set the embedder back")
    elif waiting:
        what = "are not embedded by" if configured else "still have vectors, without"
        yield Check("vectors", WARNING, f"{waiting} records {what} {configured or 'an embedder'}", "alma reindex")
    else:
        yield Check("vectors", OK, f"all by {configured}" if configured else "none, as configured")


def _check_graph(alma: ALMA) -> Iterator[Check]:
    entities, relations = (count_records(alma, kind) for kind in ("entity", "relation"))
    empty = "none yet; `alma graph build` reads memories into it"
    yield Check("graph", OK, f"{entities} entities, {relations} relations" if entities or relations else empty)


# -- the round trip

_TASK, _STRATEGY = "Restart the web server", "Drain the connections first"


def _check_round_trip(config: Config) -> Iterator[Check]:
    """Learn thrice on a scratch store, see a heuristic formed, find it again, read it in the prompt."""
    with tempfile.TemporaryDirectory(prefix="alma-doctor-") as folder:
        plain = replace(config, project_id="doctor", storage_dir=Path(folder), agents=(), settings=Settings())
        options = {name: value for name, value in plain.storage_options.items() if name != "read_only"}
        store = stores.create(plain.storage, path=plain.path, options=options)
        embedder = embedders.create(plain.embedding_provider, dim=plain.embedding_dim, options=plain.embedding)
        with ALMA(store, embedder, project_id=plain.project_id) as alma:
            outcome = {"agent": "doctor", "task": _TASK, "outcome": "success", "strategy_used": _STRATEGY}
            alma.learn_many([outcome] * 3)
            memories = alma.retrieve(_TASK, "doctor")
            prompt = memories.to_prompt()
    bug = "this is a bug in alma: please report it with this output"
    if not memories.heuristics:
        yield Check("round trip", FAILED, "three successes did not become a heuristic that is found again", bug)
    elif _STRATEGY not in prompt:
        yield Check("round trip", FAILED, "the heuristic is missing in the prompt", bug)
    else:
        yield Check("round trip", OK, "learned, formed a heuristic, found it, and it is in the prompt")
