"""Wiring: from a configuration to a memory that works. The only place that knows every part."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from .config import DEFAULT_PATH, Config, load
from .core import ALMA
from .domains import govern_as_kept
from .embedders import registry as embedders
from .engine import admit
from .engine.context import Engine
from .errors import ConfigError
from .ports import Model
from .stores import registry as stores
from .types.model import ModelSettings

if TYPE_CHECKING:
    from .models.usage import Usage

_LOG = logging.getLogger("alma")


def open_config(path: str | PathLike[str]) -> ALMA:
    return open_memory(load(path))


def open_quickstart(project_id: str, storage_dir: str | PathLike[str]) -> ALMA:
    return open_memory(Config(project_id=project_id, storage_dir=Path(storage_dir).resolve()))


def open_memory(config: Config, *, matching: bool = True) -> ALMA:
    """Open what a configuration describes; `matching=False` also opens a store that another embedder filled."""
    embedder = embedders.create(config.embedding_provider, dim=config.embedding_dim, options=config.embedding)
    store = stores.create(config.storage, path=config.path, options=config.storage_options)
    alma = ALMA(
        store,
        embedder,
        project_id=config.project_id,
        agents=config.agents,
        settings=config.settings,
        model=partial(_open_model, config.model),
    )
    alma.model_settings = config.model
    if matching:
        try:
            _check_embedder(alma)
        except BaseException:
            alma.close()
            raise
    govern_as_kept(alma)
    for heir, owner in alma.engine.scopes.unanswered():
        _LOG.warning(
            "agent %r inherits from %r, who does not share with it: add %r to share_with of %r",
            heir,
            owner,
            heir,
            owner,
        )
    return alma


def _open_model(settings: ModelSettings, engine: Engine) -> Model | None:
    from .models.opening import open_model

    return open_model(settings, engine, os.environ)


def model_usage(alma: ALMA, config: Config, *, days: int = 30) -> Usage:
    """What models were asked for in this store, and what is left of today's budget."""
    from .models.usage import usage

    return usage(alma.engine, config.model, days=days)


def open_default(project_id: str | None = None) -> ALMA:
    """What is configured here (as for the command line), perhaps for another project; else a folder `.alma`."""
    try:
        config = load(find_config())
    except ConfigError:
        if os.environ.get("ALMA_CONFIG") or DEFAULT_PATH.exists():
            raise
        config = Config(project_id=project_id or "default", storage_dir=Path(".alma").resolve())
    return open_memory(config if project_id is None else replace(config, project_id=project_id))


def _check_embedder(alma: ALMA) -> None:
    held = admit.marker(alma.engine)
    name = alma.engine.embedder_name
    if held is not None and name and held.body["value"] != name:
        raise admit.mismatch(held.body["value"], name)


def find_config(given: str | None = None) -> Path:
    """The configuration file: the one given, $ALMA_CONFIG, or the nearest `.alma/config.yaml` up from here."""
    named = given or os.environ.get("ALMA_CONFIG")
    if named:
        return Path(named)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / DEFAULT_PATH).is_file():
            return folder / DEFAULT_PATH
    raise ConfigError(f"there is no {DEFAULT_PATH} here or above; `alma init` writes one, --config names another")
