"""Check that a memory works, and suggest fixes.

Checks that depend on a failed one are skipped. Nothing is changed: a missing store is not created, and the round trip
uses a temporary store.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from alma import __version__

from . import embedders, stores
from .app import TOKEN_FILES, open_store, read_config
from .config import Config
from .embedders.local import EXTRA
from .engine.upkeep import find_stale
from .errors import (
    ALMAError,
    ConfigError,
    CorruptStoreError,
    EarlierStoreError,
    MissingExtraError,
    NewerStoreError,
    ReadOnlyError,
    StorageError,
    UnavailableError,
    UntrustedConfigError,
    install_command,
)
from .files import READABLE_BY_OTHERS
from .memory import ALMA
from .models.claude_cli import PATH_VARIABLE
from .models.registry import build as build_model
from .ports import Checkable, Embedder, Repairable, Store
from .upkeep import count_records, read_embedders

OK, WARNING, FAILED = "ok", "warning", "failed"

_LITTLE_ROOM = 500 * 2**20
_NO_ROOM = 50 * 2**20
# Errors that reading a damaged store may raise.
_DAMAGE = (ALMAError, sqlite3.Error, OSError, ValueError, LookupError, TypeError)


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str
    state: str  # ok, warning or failed.
    detail: str
    fix: str = ""


Finding = tuple[str, str] | tuple[str, str, str]
"""The state, a description, and a fix."""

_FIXES: tuple[tuple[type[BaseException], str], ...] = (
    (UntrustedConfigError, "read the configuration; if you trust it, run: alma trust"),
    (ConfigError, "correct the configuration file, then run alma doctor again"),
    (MissingExtraError, "install the package, or set embedding_provider: auto"),
    (NewerStoreError, "update alma: git pull, then pip install . (in the checkout of alma)"),
    (ReadOnlyError, "own the file and its folder (chown), then chmod 700 the folder and chmod 600 the file"),
    (UnavailableError, "check that the database runs, and its address, name and password in the configuration"),
    (EarlierStoreError, "move the file to another path and import it: docs/how-to/migrate-from-alma-0.md"),
    (CorruptStoreError, "restore a backup, or move the file away to start with an empty memory"),
    (StorageError, "check the path, its owner and its permissions"),
    (sqlite3.Error, "restore a backup, or move the file away to start with an empty memory"),
    (ALMAError, "fix the reported problem, then run `alma doctor` again"),
)


def diagnose(config_path: str | PathLike[str] | None = None) -> Iterator[Check]:
    """Run all checks, in the order in which to fix what fails."""
    running = f"Python {platform.python_version()}, alma {__version__}, SQLite {sqlite3.sqlite_version}"
    yield Check("versions", OK, running)
    try:
        path, config = read_config(None if config_path is None else os.fspath(config_path))
    except ALMAError as error:
        yield _fail("configuration", error)
        return
    yield Check("configuration", OK, f"{path} (project {config.project_id!r})")
    yield Check("sharing", OK, f"declared agents: {len(config.agents)}" if config.agents else "any agent may learn")
    yield from _guard("permissions", _check_permissions(config))
    yield from _guard("tokens", _check_tokens(path.resolve().parent))
    if config.storage in stores.IN_A_FILE:
        yield from _guard("disk space", check_space(config.storage_dir))
    yield from _guard("model", _check_model(config))
    embedder, is_usable = None, True
    try:
        embedder = embedders.create(config.embedding_provider, dim=config.embedding_dim, options=config.embedding)
        for check in _guard("embedder", _check_embedder(config, embedder)):
            is_usable = check.state != FAILED
            yield check
    except ALMAError as error:
        is_usable = False
        yield _fail("embedder", error)
    try:
        yield from _check_store(config, embedder, is_usable=is_usable)
        if is_usable:
            yield from _guard("round trip", _check_round_trip(config))
    finally:
        if embedder is not None:
            embedder.close()


def _guard(name: str, findings: Iterable[Finding]) -> list[Check]:
    try:
        return [Check(name, *finding) for finding in findings]
    except _DAMAGE as error:
        return [_fail(name, error)]


def _fail(name: str, error: BaseException) -> Check:
    fix = next((fix for kind, fix in _FIXES if isinstance(error, kind)), "restore a backup of the store")
    if isinstance(error, ConfigError) and "alma init" in str(error):
        fix = "run: alma init"
    if isinstance(error, MissingExtraError) and name == "store":
        fix = install_command(error.extra)
    if isinstance(error, CorruptStoreError) and "crypt" in str(error):
        fix = "check `encryption` and its key in the configuration; if both are right, restore a backup"
    return Check(name, FAILED, str(error) or type(error).__name__, fix)


# -- checks around the store


def check_modes(state: str, fix: str, files: Iterable[Path]) -> list[Finding]:
    """Find files that other users can read. `fix` is the command to run, with `{}` for the file."""
    modes = {file: stat.S_IMODE(file.stat().st_mode) for file in files if os.name == "posix" and file.exists()}
    return [
        (state, f"{file} {READABLE_BY_OTHERS} (mode {mode:04o})", fix.format(shlex.quote(str(file))))
        for file, mode in modes.items()
        if mode & 0o077
    ]


def _check_permissions(config: Config) -> Iterator[Finding]:
    folder = config.storage_dir
    if config.storage == "memory":
        yield WARNING, "storage is 'memory': everything is lost when the process ends", "storage: sqlite"
    elif config.storage not in stores.IN_A_FILE:
        yield OK, f"the database decides who may read the memory ({config.storage})"
    elif os.name != "posix" or not folder.exists():
        yield OK, f"{folder} will be created on first use"
    else:
        problems = check_modes(WARNING, "chmod 700 {}", [folder])
        problems += check_modes(FAILED, "chmod 600 {}", sorted(folder.glob(f"{config.db_name}*")))
        yield from problems or [(OK, f"{folder} is private")]


def _check_tokens(folder: Path) -> Iterator[Finding]:
    """Check the permissions of the token files, if there are any."""
    files = [folder / name for name in TOKEN_FILES if (folder / name).is_file()]
    if files:
        problems = check_modes(FAILED, "chmod 600 {}, then replace the tokens: alma token add", files)
        yield from problems or [(OK, f"{', '.join(file.name for file in files)}: private")]


def check_space(folder: Path) -> Iterator[Finding]:
    """Check the free disk space of a folder."""
    folder = next(place for place in (folder, *folder.parents) if place.exists())
    free = shutil.disk_usage(folder).free
    state = FAILED if free < _NO_ROOM else WARNING if free < _LITTLE_ROOM else OK
    yield state, f"{free / 2**30:.1f} GiB free at {folder}", "" if state == OK else "free disk space"


def _check_model(config: Config) -> Iterator[Finding]:
    """Open the language model to find missing settings, without calling it."""
    settings = config.model
    if settings.provider == "none":
        yield OK, "none, as configured"
        return
    try:
        model = build_model(settings, os.environ)
    except ALMAError as error:
        yield FAILED, str(error), "add the missing setting, or set model: {provider: none}"
        return
    name = settings.provider.removesuffix("-cli")
    program = settings.path or (os.environ.get(PATH_VARIABLE) if name == "claude" else "") or name
    if settings.provider.endswith("-cli") and not shutil.which(os.path.expanduser(program)):
        title = "Claude Code" if name == "claude" else name
        yield WARNING, f"{program} not found; the built-in rules are used instead", f"install {title}"
    else:
        yield OK, f"{model.name if model is not None else settings.provider} (not called)"


def _check_embedder(config: Config, embedder: Embedder | None) -> Iterator[Finding]:
    if embedder is None and config.embedding_provider == "none":
        yield OK, "none: search uses words only, as configured"
    elif embedder is None:
        fix = f"{install_command(EXTRA)}, then run: alma reindex"
        yield WARNING, "none installed: search uses words only", fix
    else:
        # Verify hashes first, so that a damaged model is reported as damaged.
        verify = getattr(embedder, "verify", None)
        if verify is not None:
            verify()
        [vector] = embedder.embed(["is everything well?"])
        verified = ", files verified" if verify is not None else ""
        yield OK, f"{embedder.name} ({len(vector)} dimensions{verified})"


# -- checks of the store


def _check_store(config: Config, embedder: Embedder | None, *, is_usable: bool) -> Iterator[Check]:
    if config.storage in stores.IN_A_FILE and not config.path.exists():
        yield Check("store", OK, f"{config.path} will be created on first use")
        return
    try:
        store = open_store(config)
    except _DAMAGE as error:
        yield _fail("store", error)
        return
    alma = ALMA(store, embedder if is_usable else None, project_id=config.project_id)
    try:
        yield from _guard("store", _check_figures(config, alma))
        yield from _guard("integrity", check_integrity(store))
        if is_usable:
            yield from _guard("vectors", _check_vectors(alma))
        yield from _guard("graph", _check_graph(alma))
    finally:
        store.close()


def _check_figures(config: Config, alma: ALMA) -> Iterator[Finding]:
    total = alma.get_stats()["total_count"]
    stats = getattr(alma.engine.store, "stats", None)
    version = f", format {stats()['format']}" if stats is not None else ""
    place = f" at {config.path}" if config.storage in stores.IN_A_FILE else ""
    elsewhere = f", vectors in {config.vectors}" if config.vectors else ""
    memories = f"{total} active {'memory' if total == 1 else 'memories'}"
    yield OK, f"{config.storage}{place}{version}{elsewhere}: {memories}"


def check_integrity(store: Store) -> Iterator[Finding]:
    """Check a store for damage."""
    if not isinstance(store, Checkable):
        yield OK, "all records are readable"
        return
    # Permissions are a separate check.
    if problems := [problem for problem in store.check() if READABLE_BY_OTHERS not in problem]:
        hint = "restore a backup, but keep this file: most of it is still readable"
        if isinstance(store, Repairable):
            hint = "stop all other processes that write, then run: alma reindex"
        yield FAILED, "; ".join(problems[:5]), hint
    else:
        yield OK, "records, word index and vectors are consistent"


def _check_vectors(alma: ALMA) -> Iterator[Finding]:
    stored, configured = read_embedders(alma)
    waiting = len(find_stale(alma.engine))
    if stored and configured and stored != configured:
        detail = f"the store was embedded with {stored!r}, but {configured!r} is configured"
        yield FAILED, detail, "run: alma reindex (or configure the previous embedder)"
    elif waiting:
        what = f"records not embedded with {configured}" if configured else "records with vectors, but no embedder"
        yield WARNING, f"{what}: {waiting}", "run: alma reindex"
    else:
        yield OK, f"all embedded with {configured}" if configured else "none, as configured"


def _check_graph(alma: ALMA) -> Iterator[Finding]:
    entities, relations = (count_records(alma, kind) for kind in ("entity", "relation"))
    empty = "empty; run `alma graph build` to fill it"
    yield OK, f"entities: {entities}, relations: {relations}" if entities or relations else empty


def _check_round_trip(config: Config) -> Iterator[Finding]:
    """Learn three outcomes on a temporary store, and check that the heuristic is in the prompt."""
    task, strategy = "Restart the web server", "Drain the connections first"
    with tempfile.TemporaryDirectory(prefix="alma-doctor-") as folder:
        options = {name: value for name, value in config.storage_options.items() if name != "read_only"}
        plain = replace(config, storage_dir=Path(folder), storage_options=options, read_only=False, vectors="")
        if plain.storage not in stores.IN_A_FILE:
            # Nothing is written to a database of others: there, the rest of alma is checked on a store in memory.
            plain = replace(plain, storage="memory", storage_options={})
        store = open_store(plain)
        embedder = embedders.create(plain.embedding_provider, dim=plain.embedding_dim, options=plain.embedding)
        with ALMA(store, embedder, project_id="doctor") as alma:
            outcome = {"agent": "doctor", "task": task, "outcome": "success", "strategy_used": strategy}
            alma.learn_many([outcome] * 3)
            memories = alma.retrieve(task, "doctor")
    bug = "this is a bug in alma; please report it with this output"
    if not memories.heuristics:
        yield FAILED, "three successes did not form a heuristic that is retrieved", bug
    elif strategy not in memories.to_prompt():
        yield FAILED, "the heuristic is missing from the prompt", bug
    else:
        yield OK, "learned outcomes, formed a heuristic and retrieved it"
