"""Composition root: open a memory from a configuration."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path

from . import embedders, stores, trust_register
from .config import DEFAULT_PATH, Config, load, load_found
from .domains import apply_stored_schema
from .engine.context import Engine, EventHub
from .engine.transaction import find_mismatch
from .errors import ConfigError, UntrustedConfigError
from .memory import ALMA
from .ports import Clock, Limited, Model, Store
from .stores.encryption import EncryptedStore, read_keys
from .stores.wrappers import CachedStore, ReadOnlyStore, RetryingStore
from .types import times
from .types.asking import ModelSettings

TOKEN_FILES = ("http-tokens.json", "http-token", "mcp-token")
"""Token files that the servers store beside a configuration."""
_BESIDE_A_STORE = ("-wal", "-shm", "-journal")
"""Suffixes of files that SQLite stores beside a database."""


def open_config(path: str | PathLike[str]) -> ALMA:
    """Open the memory that a configuration file describes."""
    return open_memory(load(path))


def open_quickstart(project_id: str, storage_dir: str | PathLike[str], *, clock: Clock = times.now) -> ALMA:
    """Open a SQLite memory in a folder."""
    return open_memory(Config(project_id=project_id, storage_dir=Path(storage_dir).resolve()), clock=clock)


def open_memory(config: Config, *, matching: bool = True, is_shared: bool = False, clock: Clock = times.now) -> ALMA:
    """Open the memory that a configuration describes.

    `matching=False` allows a store of another embedder. `is_shared` refuses a store that one process alone can write.
    """
    embedder = embedders.create(config.embedding_provider, dim=config.embedding_dim, options=config.embedding)
    store = open_store(config)
    alma = ALMA(
        store,
        embedder,
        project_id=config.project_id,
        agents=config.agents,
        teams=config.teams,
        settings=config.settings,
        clock=clock,
        model=partial(_open_model, config.model),
    )
    alma.model_settings = config.model
    alma.engine = replace(alma.engine, events=EventHub(config.webhooks))
    try:
        if is_shared and isinstance(store, Limited) and "many writers" in store.limits:
            raise ConfigError(f"several processes cannot share this store: {store.limits['many writers']}")
        if matching and (mismatch := find_mismatch(alma.engine)):
            raise mismatch
        apply_stored_schema(alma)
    except BaseException:
        alma.close()
        raise
    return alma


def open_store(config: Config) -> Store:
    """Open the store that a configuration describes, with the wrappers that it names."""
    stores.check_name(config.storage)
    if config.vectors:
        stores.check_vectors(config.vectors, config.storage)
    options, is_sqlite = dict(config.storage_options), config.storage == "sqlite"
    keys = [] if config.encryption is None else read_keys(config.encryption)
    if is_sqlite and keys:
        options["encryption_keys"] = keys
    if config.read_only and config.storage in stores.READ_ONLY:
        options["read_only"] = True
    if config.storage in stores.IN_A_FILE and not config.path.exists():
        # Before the file exists, so that another process does not treat it as foreign.
        trust_register.record_created_files(config.path)
    store = stores.create(config.storage, path=config.path, options=options)
    try:
        if config.vectors:
            store = stores.pair(store, config.vectors, config.vector_options)
        if config.retry is not None:
            store = RetryingStore(store, config.retry)
        if keys and not is_sqlite:
            store = EncryptedStore(store, keys)
        if config.cache is not None:
            store = CachedStore(store, config.cache)
        return ReadOnlyStore(store) if config.read_only else store
    except BaseException:
        store.close()
        raise


def _open_model(settings: ModelSettings, engine: Engine) -> Model | None:
    from .models.registry import open_model  # Loaded on first use.

    return open_model(settings, engine, os.environ)


def open_default(project_id: str | None = None) -> ALMA:
    """Open the memory that is configured here, optionally for another project; otherwise one in `.alma`."""
    if os.environ.get("ALMA_CONFIG") or _find_nearest() is not None:
        _, config = read_config()
    else:
        config = Config(project_id=project_id or "default", storage_dir=Path.cwd() / ".alma")
        if not trust_register.is_trusted(Path.cwd(), b""):
            _refuse_files(_list_store_files(config.path), Path.cwd())
    return open_memory(config if project_id is None else replace(config, project_id=project_id))


def find_config(config: str | None = None) -> Path:
    """Return the configuration file: `config`, $ALMA_CONFIG, or the nearest `.alma/config.yaml` from here up."""
    name = config or os.environ.get("ALMA_CONFIG")
    path = Path(name) if name else _find_nearest()
    if path is None:
        raise ConfigError(
            f"no {DEFAULT_PATH} in this folder or a parent folder; create one with `alma init`, or pass --config"
        )
    return path


def read_config(name: str | None = None) -> tuple[Path, Config]:
    """Find and load the configuration. A file that the user did not name is loaded only as far as it is trusted."""
    path = find_config(name)
    is_named = bool(name or os.environ.get("ALMA_CONFIG"))
    config = load(path) if is_named else load_found(path, stores.check_name)
    folder = path.absolute().parent.parent
    if path.absolute() == folder / DEFAULT_PATH:
        _refuse_files(list_data_files(path, config), folder, is_named=is_named)
    return path, config


def list_data_files(path: Path, config: Config) -> list[Path]:
    """Return the files in a project's folder that hold its memory or its tokens."""
    own = _list_store_files(config.path) if config.storage in stores.IN_A_FILE else []
    files = [*own, *(path.parent / name for name in TOKEN_FILES)]
    return [file for file in files if file.is_file() and _is_inside(file, path.parent.parent)]


def _list_store_files(store: Path) -> list[Path]:
    return [store, *(Path(f"{store}{suffix}") for suffix in _BESIDE_A_STORE)]


def _is_inside(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _refuse_files(files: list[Path], folder: Path, *, is_named: bool = False) -> None:
    """Raise UntrustedConfigError for memories and tokens that may have come with a repository.

    A tracked file may have changed with the last `git pull`. A file that alma did not create here may be from somebody
    else, unless the user named its configuration.
    """
    if tracked := trust_register.find_unexpected_files(files):
        names = " ".join(shlex.quote(str(file)) for file in tracked)
        raise UntrustedConfigError(
            f"git tracks {', '.join(map(str, tracked))}, so a pull may have replaced it. If it is not "
            f"yours, delete it: git rm {names}. If it is, stop tracking it: git rm --cached {names}. Then, or if you "
            f"trust everybody who commits it, run: alma trust {shlex.quote(str(folder))}"
        )
    # Files that SQLite creates beside a database are not in the register.
    own = [file for file in files if not file.name.endswith(_BESIDE_A_STORE)]
    outside = [file for file in own if not _is_inside(file, folder)]
    foreign = outside or trust_register.find_foreign_files(file for file in own if file.exists())
    if foreign and not is_named:
        raise UntrustedConfigError(
            f"alma did not create {', '.join(map(str, foreign))} on this machine, or the folder's trust was removed. "
            f"If you trust the folder, run: alma trust {shlex.quote(str(folder))}"
        )


def _find_nearest() -> Path | None:
    here = Path.cwd()
    paths = (folder / DEFAULT_PATH for folder in (here, *here.parents))
    return next((path for path in paths if path.is_file()), None)
