"""Opening the memory a command works on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..core import ALMA


def opened(args: argparse.Namespace, *, matching: bool = True) -> ALMA:
    """The memory that --config, $ALMA_CONFIG or the nearest `.alma/config.yaml` describes; a context manager."""
    from ..app import find_config, open_memory
    from ..config import load

    return open_memory(load(find_config(args.config)), matching=matching)
