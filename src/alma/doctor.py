"""Is everything well? A list of checks, each with what was found and what to do about it.

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
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from alma import __version__

from .app import TOKEN_FILES, read_config
from .config import Config
from .core import ALMA
from .embedders import registry as embedders
from .embedders.local import EXTRA
from .engine import transaction
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
from .ports import Checkable, Countable, Embedder, Store
from .stores import registry as stores
from .types.query import Where
from .types.record import Status

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


def diagnose(config_path: str | PathLike[str] | None = None) -> list[Check]:
    """Every check that can be made, in the order in which to fix what fails."""
    return list(_checks(config_path))


def _checks(config_path: str | PathLike[str] | None) -> Iterator[Check]:
    yield _versions()
    try:
        path, config = read_config(None if config_path is None else os.fspath(config_path))
    except ALMAError as error:
        yield Check("configuration", FAILED, str(error), _fix(error))
        return
    yield Check("configuration", OK, f"{path} (project {config.project_id!r})")
    yield Check("sharing", OK, f"{len(config.agents)} agents declared" if config.agents else "any agent may learn")
    yield from _each("permissions", lambda: _permissions(config))
    yield from _each("tokens", lambda: _tokens(path.resolve().parent))
    yield from _each("disk space", lambda: [_room(config)])
    yield _model(config)
    embedder, found = _embedder(config)
    yield found
    try:
        yield from _store(config, embedder if found.state != FAILED else None, usable=found.state != FAILED)
        if found.state != FAILED:
            yield _guarded("round trip", lambda: _round_trip(config))
    finally:
        if embedder is not None:
            embedder.close()


def embedded_by(alma: ALMA) -> str:
    """The embedder that made a store's vectors; empty when there are none."""
    held = transaction.find_embedder_marker(alma.engine)
    return "" if held is None else str(held.body["value"])


def _each(name: str, checks: Callable[[], Iterable[Check]]) -> list[Check]:
    try:
        return list(checks())
    except _DAMAGE as error:
        return [Check(name, FAILED, str(error) or type(error).__name__, _fix(error))]


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    [made] = _each(name, lambda: [check()])
    return made


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


def _fix(error: BaseException) -> str:
    if isinstance(error, ConfigError) and "alma init" in str(error):
        return "alma init"
    return next((fix for kind, fix in _FIXES if isinstance(error, kind)), "restore a backup of the store")


# -- around the store


def _versions() -> Check:
    running = f"Python {platform.python_version()}, alma {__version__}, SQLite {sqlite3.sqlite_version}"
    if sys.version_info < _OLDEST_PYTHON:
        return Check("versions", FAILED, running, "alma needs Python 3.11 or newer")
    return Check("versions", OK, running)


def _permissions(config: Config) -> Iterator[Check]:
    if config.storage == "memory":
        yield Check("permissions", WARNING, "storage is 'memory': all is lost when the process ends", "storage: sqlite")
        return
    if os.name != "posix" or not config.storage_dir.exists():
        yield Check("permissions", OK, f"{config.storage_dir} will be made when something is stored")
        return
    wrong = list(_readable_by_others(config))
    yield from wrong
    if not wrong:
        yield Check("permissions", OK, f"{config.storage_dir} is private")


def _readable_by_others(config: Config) -> Iterator[Check]:
    if (mode := _mode(config.storage_dir)) & 0o077:
        detail = f"others may look into {config.storage_dir} (mode {mode:04o})"
        yield Check("permissions", WARNING, detail, f"chmod 700 {config.storage_dir}")
    for file in sorted(config.storage_dir.glob(f"{config.db_name}*")):
        if (mode := _mode(file)) & 0o077:
            detail = f"{file} can be read by others (mode {mode:04o})"
            yield Check("permissions", FAILED, detail, f"chmod 600 {file}")


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _room(config: Config) -> Check:
    folder = next(place for place in (config.storage_dir, *config.storage_dir.parents) if place.exists())
    free = shutil.disk_usage(folder).free
    detail = f"{free / 2**30:.1f} GiB free at {folder}"
    if free < _LITTLE_ROOM:
        return Check("disk space", FAILED if free < _NO_ROOM else WARNING, detail, "free some space")
    return Check("disk space", OK, detail)


def _tokens(folder: Path) -> Iterator[Check]:
    """Nothing is said where none was ever made."""
    files = [folder / name for name in TOKEN_FILES if (folder / name).is_file()]
    open_ones = [file for file in files if os.name == "posix" and _mode(file) & 0o077]
    for file in open_ones:
        detail = f"{file} can be read by others (mode {_mode(file):04o})"
        yield Check("tokens", FAILED, detail, f"chmod 600 {file}, and better make new tokens: alma token add")
    if files and not open_ones:
        yield Check("tokens", OK, f"{', '.join(file.name for file in files)}: private")


# -- the language model


def _model(config: Config) -> Check:
    """Made as it would be to be asked, so that what is missing shows; it is not asked."""
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


# -- the embedder


def _embedder(config: Config) -> tuple[Embedder | None, Check]:
    provider = config.embedding_provider
    try:
        embedder = embedders.create(provider, dim=config.embedding_dim, options=config.embedding)
    except ALMAError as error:
        return None, Check("embedder", FAILED, str(error), _fix(error))
    if embedder is None:
        if provider == "none":
            return None, Check("embedder", OK, "none: memories are found by words only, as configured")
        fix = f"{install_command(EXTRA)}, then: alma reindex"
        return None, Check("embedder", WARNING, "none installed: memories are found by words only", fix)
    return embedder, _guarded("embedder", lambda: _tried(embedder))


def _tried(embedder: Embedder) -> Check:
    """Hashes first: a damaged model should be called damaged."""
    verify = getattr(embedder, "verify", None)
    if verify is not None:
        verify()
    [vector] = embedder.embed(["is everything well?"])
    checked = ", files verified" if verify is not None else ""
    return Check("embedder", OK, f"{embedder.name} ({len(vector)} dimensions{checked})")


# -- the store


def _store(config: Config, embedder: Embedder | None, *, usable: bool) -> Iterator[Check]:
    if config.storage in _IN_A_FILE and not config.path.exists():
        yield Check("store", OK, f"{config.path} will be made when something is stored")
        return
    try:
        store = stores.create(config.storage, path=config.path, options=config.storage_options)
    except _DAMAGE as error:
        yield Check("store", FAILED, str(error), _fix(error))
        return
    alma = ALMA(store, embedder, project_id=config.project_id)
    try:
        yield _guarded("store", lambda: _figures(config, alma))
        yield _guarded("integrity", lambda: _integrity(store))
        if usable:
            yield _guarded("vectors", lambda: _vectors(alma))
        yield _guarded("graph", lambda: _graph(alma))
    finally:
        store.close()


def _figures(config: Config, alma: ALMA) -> Check:
    total = alma.get_stats()["total_count"]
    figures = getattr(alma.engine.store, "stats", None)
    version = f", format {figures()['format']}" if figures is not None else ""
    return Check("store", OK, f"{config.storage} at {config.path}{version}: {total} memories in use")


def _integrity(store: Store) -> Check:
    if not isinstance(store, Checkable):
        return Check("integrity", OK, "all of it could be read")
    # Who may read the file is a check of its own.
    wrong = [problem for problem in store.check() if "can be read by others" not in problem]
    if wrong:
        fix = "restore a backup; keep this file, most of it can still be read"
        return Check("integrity", FAILED, "; ".join(wrong[:5]), fix)
    return Check("integrity", OK, "the file, its words and its vectors agree")


def _vectors(alma: ALMA) -> Check:
    held, configured = embedded_by(alma), alma.engine.embedder_name
    if held and configured and held != configured:
        detail = f"the store was embedded by {held!r}, but {configured!r} is configured"
        return Check("vectors", FAILED, detail, "alma reindex, or set the embedder back")
    waiting = len(reindex.pending(alma.engine))
    if waiting:
        what = "are not embedded by" if configured else "still have vectors, without"
        return Check("vectors", WARNING, f"{waiting} records {what} {configured or 'an embedder'}", "alma reindex")
    return Check("vectors", OK, f"all by {configured}" if configured else "none, as configured")


def _graph(alma: ALMA) -> Check:
    held = {kind: _number(alma, kind) for kind in ("entity", "relation")}
    if not any(held.values()):
        return Check("graph", OK, "none yet; `alma graph build` reads memories into it")
    return Check("graph", OK, f"{held['entity']} entities, {held['relation']} relations")


def _number(alma: ALMA, kind: str) -> int:
    where = Where(kinds={kind}, projects={alma.project_id}, statuses={Status.ACTIVE})
    store = alma.engine.store
    return sum(store.count(where).values()) if isinstance(store, Countable) else sum(1 for _ in store.scan(where))


# -- the round trip

_TASK, _STRATEGY = "Restart the web server", "Drain the connections first"


def _round_trip(config: Config) -> Check:
    """Learn thrice, see a heuristic formed, find it again, read it in the prompt."""
    with _scratch(config) as alma:
        alma.learn_many(
            {"agent": "doctor", "task": _TASK, "outcome": "success", "strategy_used": _STRATEGY} for _ in range(3)
        )
        found = alma.retrieve(_TASK, "doctor")
        prompt = found.to_prompt()
    if not found.heuristics:
        return _broken("three successes did not become a heuristic that is found again")
    if _STRATEGY not in prompt:
        return _broken("the heuristic is missing in the prompt")
    return Check("round trip", OK, "learned, formed a heuristic, found it, and it is in the prompt")


def _broken(detail: str) -> Check:
    return Check("round trip", FAILED, detail, "this is a bug in alma: please report it with this output")


@contextmanager
def _scratch(config: Config) -> Iterator[ALMA]:
    with tempfile.TemporaryDirectory(prefix="alma-doctor-") as folder:
        plain = replace(config, project_id="doctor", storage_dir=Path(folder), agents=(), settings=Settings())
        options = {name: value for name, value in plain.storage_options.items() if name != "read_only"}
        store = stores.create(plain.storage, path=plain.path, options=options)
        embedder = embedders.create(plain.embedding_provider, dim=plain.embedding_dim, options=plain.embedding)
        with ALMA(store, embedder, project_id=plain.project_id) as alma:
            yield alma
