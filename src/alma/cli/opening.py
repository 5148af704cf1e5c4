"""Opening the memory a command works on, and loading what works on it."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..core import ALMA


def opened(args: argparse.Namespace, *, matching: bool = True) -> ALMA:
    """The memory that --config, $ALMA_CONFIG or the nearest `.alma/config.yaml` describes; a context manager."""
    from ..app import open_memory, read_config

    _, config = read_config(args.config)
    return open_memory(config, matching=matching)


class Later:
    """A module that is loaded when something of it is first used: help and completion need none of it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)
