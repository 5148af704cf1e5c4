"""Composition root: open a memory from a configuration."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
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
from .stores.encryption import EncryptedStore, is_encrypted, read_keys
from .stores.wrappers import CachedStore, ReadOnlyStore, RetryingStore
from .types import times
from .types.asking import ModelSettings
from .types.query import Where

TOKEN_FILES = ("http-tokens.json", "http-token", "mcp-token")
"""Token files that the servers store beside a configuration."""


def open_config(path: str | PathLike[str], *, trust: bool = False) -> ALMA:
    """Open the memory that a configuration file describes."""
    if not trust:
        _refuse_links(Path(path))
    return open_memory(load(path), trust=trust)


def open_quickstart(
    project_id: str, storage_dir: str | PathLike[str], *, clock: Clock = times.now, trust: bool = False
) -> ALMA:
    """Open a SQLite memory in a folder."""
    if str(storage_dir) == ":memory:":
        # As SQLite calls it: a memory that lives as long as the process.
        return open_memory(Config(project_id=project_id, storage="memory"), clock=clock, trust=trust)
    # Links are kept: git may track one of them.
    folder = Path(storage_dir).expanduser().absolute()
    return open_memory(Config(project_id=project_id, storage_dir=folder), clock=clock, trust=trust)


def open_memory(
    config: Config,
    *,
    matching: bool = True,
    is_shared: bool = False,
    clock: Clock = times.now,
    trust: bool = False,
) -> ALMA:
    """Open the memory that a configuration describes.

    `matching=False` allows a store of another embedder. `is_shared` refuses a store that one process alone can write.
    With `trust`, the program vouches for the store: it is opened even if git tracks it or another user owns it.
    """
    embedder = embedders.create(config.embedding_provider, dim=config.embedding_dim, options=config.embedding)
    store = open_store(config, trust=trust)
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
        if config.encryption is None and any(map(is_encrypted, store.scan(Where(), 1))):
            raise ConfigError("this store is encrypted; set `encryption` with its key in the configuration")
        if matching and (mismatch := find_mismatch(alma.engine)):
            raise mismatch
        apply_stored_schema(alma)
    except BaseException:
        alma.close()
        raise
    return alma


def open_store(config: Config, *, trust: bool = False) -> Store:
    """Open the store that a configuration describes, with the wrappers that it names."""
    stores.check_name(config.storage)
    if config.vectors:
        stores.check_vectors(config.vectors, config.storage)
    options, is_sqlite = dict(config.storage_options), config.storage == "sqlite"
    keys = [] if config.encryption is None else read_keys(config.encryption)
    if is_sqlite and keys:
        options["encryption_keys"] = keys
    if config.read_only and stores.can_open_read_only(config.storage):
        options["read_only"] = True
    if config.storage in stores.IN_A_FILE and not config.path.exists():
        # Before the file exists, so that another process does not treat it as foreign.
        trust_register.record_created_files(config.path)
    store = stores.create(config.storage, path=config.path, options=options, trust=trust)
    try:
        if config.vectors:
            store = stores.pair(store, config.vectors, config.vector_options, trust=trust)
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


def open_default(project_id: str | None = None, *, trust: bool = False) -> ALMA:
    """Open the memory that is configured here, optionally for another project; otherwise one in `.alma`."""
    if os.environ.get("ALMA_CONFIG") or _find_nearest() is not None:
        _, config = read_config()
    else:
        config = Config(project_id=project_id or "default", storage_dir=Path.cwd() / ".alma")
        if not trust and not trust_register.is_trusted(Path.cwd(), b""):
            _refuse_files(trust_register.list_store_files(config.path), Path.cwd())
    return open_memory(config if project_id is None else replace(config, project_id=project_id), trust=trust)


def find_config(config: str | None = None) -> Path:
    """Return the configuration file: `config`, $ALMA_CONFIG, or the nearest `.alma/config.yaml` from here up."""
    name = config or os.environ.get("ALMA_CONFIG")
    path = Path(name) if name else _find_nearest()
    if path is None:
        raise ConfigError(
            f"no {DEFAULT_PATH} in this folder or a parent folder of its repository; create one with `alma init`, or "
            "pass --config"
        )
    return path


def read_config(name: str | None = None) -> tuple[Path, Config]:
    """Find and load the configuration. A file that the user did not name is loaded only as far as it is trusted.

    Naming a file is a person's act on the command line. $ALMA_CONFIG may be set by a repository: a file that it names
    needs the trust of a found one if git tracks it or another user owns it.
    """
    path = find_config(name)
    is_named = bool(name) or (bool(os.environ.get("ALMA_CONFIG")) and not trust_register.is_strange(path))
    folder = path.absolute().parent.parent
    is_in_place = path.absolute() == folder / DEFAULT_PATH
    if is_named:
        _refuse_links(path)
        config = load(path)
    elif is_in_place:
        config = load_found(path, stores.check_name)
    else:
        config = _load_named_by_environment(path)
    if is_in_place:
        _refuse_files(list_data_files(path, config), folder, is_named=is_named)
    return path, config


def _load_named_by_environment(path: Path) -> Config:
    """Load a file that $ALMA_CONFIG names and that others may have written, if the user trusts its content."""
    with suppress(OSError):
        if not trust_register.is_trusted(path, path.read_bytes()):
            raise UntrustedConfigError(
                f"$ALMA_CONFIG names {path}, which git tracks or another user owns, and a repository may set the "
                f"variable. Read the file; if you trust it, run: alma trust {shlex.quote(str(path.absolute()))}, or "
                "pass it with --config"
            )
    return load(path)


def _refuse_links(path: Path) -> None:
    """Raise UntrustedConfigError if git tracks a link on the way to a file: it would lead into another project."""
    links = [place for place in trust_register.find_tracked_places(path) if os.path.islink(place)]
    command = f"alma trust {shlex.quote(os.path.abspath(path))}"
    if links and not trust_register.read_register().tracked.issuperset(links):
        raise UntrustedConfigError(
            f"git tracks the link {links[0]}, so a repository decides which memory {path} means. Name the file that "
            f"you mean, {os.path.realpath(path)}, or if you trust the link, run: {command}"
        )


def list_data_files(path: Path, config: Config) -> list[Path]:
    """Return the files in a project's folder that hold its memory or its tokens."""
    own = trust_register.list_store_files(config.path) if config.storage in stores.IN_A_FILE else []
    files = [*own, *(path.parent / name for name in TOKEN_FILES)]
    return [file for file in files if file.is_file() and _is_inside(file, path.parent.parent)]


def _is_inside(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _refuse_files(files: list[Path], folder: Path, *, is_named: bool = False) -> None:
    """Raise UntrustedConfigError for memories and tokens that may have come with a repository.

    A tracked file may have changed with the last `git pull`. A file that alma did not create here may be from somebody
    else, unless the user named its configuration.
    """
    command = f"alma trust {shlex.quote(str(folder))}"
    trust_register.refuse_tracked(files, command)
    trust_register.refuse_others(files, command)
    # Files that SQLite creates beside a database are not in the register.
    own = [file for file in files if not file.name.endswith(trust_register.BESIDE_A_STORE)]
    outside = [file for file in own if not _is_inside(file, folder)]
    foreign = outside or trust_register.find_foreign_files(file for file in own if file.exists())
    if foreign and not is_named:
        raise UntrustedConfigError(
            f"alma did not create {', '.join(map(str, foreign))} on this machine, or the folder's trust was removed. "
            f"If you trust the folder, run: {command}"
        )


def _find_nearest() -> Path | None:
    """Return the configuration of this folder, or of the nearest one above it in the same repository.

    A repository inside another folder may be a stranger's: it does not use the memory above it.
    """
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / DEFAULT_PATH).is_file():
            return folder / DEFAULT_PATH
        if os.path.lexists(folder / ".git"):
            return None
    return None
