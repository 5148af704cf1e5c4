"""Check that a memory works, and say how to fix what does not.

A check that depends on a broken one is left out, so that what is listed first is what to fix first. Nothing is
changed: a store that is not there is not made, and the round trip runs on a scratch store.
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
from .app import IN_A_FILE, TOKEN_FILES, read_config
from .config import Config
from .embedders.local import EXTRA
from .engine.context import Settings
from .engine.upkeep import find_stale
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
from .memory import ALMA
from .models.claude_cli import PATH_VARIABLE
from .models.registry import build as build_model
from .ports import Checkable, Embedder, Store
from .upkeep import count_records, read_embedders

OK, WARNING, FAILED = "ok", "warning", "failed"

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


Finding = tuple[str, str] | tuple[str, str, str]
"""The state, what was found, and what to do about it."""

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


def diagnose(config_path: str | PathLike[str] | None = None) -> Iterator[Check]:
    """Make every check that can be made, in the order in which to fix what fails."""
    running = f"Python {platform.python_version()}, alma {__version__}, SQLite {sqlite3.sqlite_version}"
    yield Check("versions", OK, running)
    try:
        path, config = read_config(None if config_path is None else os.fspath(config_path))
    except ALMAError as error:
        yield _fail("configuration", error)
        return
    yield Check("configuration", OK, f"{path} (project {config.project_id!r})")
    yield Check("sharing", OK, f"{len(config.agents)} agents declared" if config.agents else "any agent may learn")
    yield from _guard("permissions", _check_permissions(config))
    yield from _guard("tokens", _check_tokens(path.resolve().parent))
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
        fix = "alma init"
    return Check(name, FAILED, str(error) or type(error).__name__, fix)


# -- checks around the store


def check_modes(state: str, fix: str, files: Iterable[Path]) -> list[Finding]:
    """Find the files that others can read. `fix` is the command that ends it, with `{}` for the file."""
    modes = {file: stat.S_IMODE(file.stat().st_mode) for file in files if os.name == "posix" and file.exists()}
    return [
        (state, f"{file} can be read by others (mode {mode:04o})", fix.format(shlex.quote(str(file))))
        for file, mode in modes.items()
        if mode & 0o077
    ]


def _check_permissions(config: Config) -> Iterator[Finding]:
    folder = config.storage_dir
    if config.storage == "memory":
        yield WARNING, "storage is 'memory': all is lost when the process ends", "storage: sqlite"
    elif os.name != "posix" or not folder.exists():
        yield OK, f"{folder} will be made when something is stored"
    else:
        problems = check_modes(WARNING, "chmod 700 {}", [folder])
        problems += check_modes(FAILED, "chmod 600 {}", sorted(folder.glob(f"{config.db_name}*")))
        yield from problems or [(OK, f"{folder} is private")]


def _check_tokens(folder: Path) -> Iterator[Finding]:
    """Check the token files; skipped where there are none."""
    files = [folder / name for name in TOKEN_FILES if (folder / name).is_file()]
    if files:
        problems = check_modes(FAILED, "chmod 600 {}, and better make new tokens: alma token add", files)
        yield from problems or [(OK, f"{', '.join(file.name for file in files)}: private")]


def check_space(folder: Path) -> Iterator[Finding]:
    folder = next(place for place in (folder, *folder.parents) if place.exists())
    free = shutil.disk_usage(folder).free
    state = FAILED if free < _NO_ROOM else WARNING if free < _LITTLE_ROOM else OK
    yield state, f"{free / 2**30:.1f} GiB free at {folder}", "" if state == OK else "free some space"


def _check_model(config: Config) -> Iterator[Finding]:
    """Open the language model, so that what is missing shows; it is not asked."""
    settings = config.model
    if settings.provider == "none":
        yield OK, "none is asked, as configured"
        return
    try:
        model = build_model(settings, os.environ)
    except ALMAError as error:
        yield FAILED, str(error), "set what is missing, or set model: {provider: none}"
        return
    program = settings.path or os.environ.get(PATH_VARIABLE) or "claude"
    if settings.provider == "claude-cli" and not shutil.which(os.path.expanduser(program)):
        yield WARNING, f"{program} is not found, so that rules do without it", "install Claude Code"
    else:
        yield OK, f"{model.name if model is not None else settings.provider} (not asked)"


def _check_embedder(config: Config, embedder: Embedder | None) -> Iterator[Finding]:
    if embedder is None and config.embedding_provider == "none":
        yield OK, "none: memories are found by words only, as configured"
    elif embedder is None:
        fix = f"{install_command(EXTRA)}, then: alma reindex"
        yield WARNING, "none installed: memories are found by words only", fix
    else:
        # Hashes first: a damaged model should be called damaged.
        verify = getattr(embedder, "verify", None)
        if verify is not None:
            verify()
        [vector] = embedder.embed(["is everything well?"])
        verified = ", files verified" if verify is not None else ""
        yield OK, f"{embedder.name} ({len(vector)} dimensions{verified})"


# -- checks of the store


def _check_store(config: Config, embedder: Embedder | None, *, is_usable: bool) -> Iterator[Check]:
    if config.storage in IN_A_FILE and not config.path.exists():
        yield Check("store", OK, f"{config.path} will be made when something is stored")
        return
    try:
        store = stores.create(config.storage, path=config.path, options=config.storage_options)
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
    yield OK, f"{config.storage} at {config.path}{version}: {total} memories in use"


def check_integrity(store: Store) -> Iterator[Finding]:
    if not isinstance(store, Checkable):
        yield OK, "all of it could be read"
        return
    # Who may read the file is a check of its own.
    if problems := [problem for problem in store.check() if "can be read by others" not in problem]:
        yield FAILED, "; ".join(problems[:5]), "restore a backup; keep this file, most of it can still be read"
    else:
        yield OK, "the file, its words and its vectors agree"


def _check_vectors(alma: ALMA) -> Iterator[Finding]:
    stored, configured = read_embedders(alma)
    waiting = len(find_stale(alma.engine))
    if stored and configured and stored != configured:
        detail = f"the store was embedded by {stored!r}, but {configured!r} is configured"
        yield FAILED, detail, "alma reindex, or set the embedder back"
    elif waiting:
        what = "are not embedded by" if configured else "still have vectors, without"
        yield WARNING, f"{waiting} records {what} {configured or 'an embedder'}", "alma reindex"
    else:
        yield OK, f"all by {configured}" if configured else "none, as configured"


def _check_graph(alma: ALMA) -> Iterator[Finding]:
    entities, relations = (count_records(alma, kind) for kind in ("entity", "relation"))
    empty = "none yet; `alma graph build` reads memories into it"
    yield OK, f"{entities} entities, {relations} relations" if entities or relations else empty


def _check_round_trip(config: Config) -> Iterator[Finding]:
    """Learn thrice on a scratch store, see a heuristic formed, find it again, read it in the prompt."""
    task, strategy = "Restart the web server", "Drain the connections first"
    with tempfile.TemporaryDirectory(prefix="alma-doctor-") as folder:
        plain = replace(config, project_id="doctor", storage_dir=Path(folder), agents=(), settings=Settings())
        options = {name: value for name, value in plain.storage_options.items() if name != "read_only"}
        store = stores.create(plain.storage, path=plain.path, options=options)
        embedder = embedders.create(plain.embedding_provider, dim=plain.embedding_dim, options=plain.embedding)
        with ALMA(store, embedder, project_id=plain.project_id) as alma:
            outcome = {"agent": "doctor", "task": task, "outcome": "success", "strategy_used": strategy}
            alma.learn_many([outcome] * 3)
            memories = alma.retrieve(task, "doctor")
    bug = "this is a bug in alma: please report it with this output"
    if not memories.heuristics:
        yield FAILED, "three successes did not become a heuristic that is found again", bug
    elif strategy not in memories.to_prompt():
        yield FAILED, "the heuristic is missing in the prompt", bug
    else:
        yield OK, "learned, formed a heuristic, found it, and it is in the prompt"
