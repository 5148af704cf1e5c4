"""Offer the person at the start of a session to let the agent in front of them read what no reader has read.

A hook loads this module only if there is a count of unread exchanges, which the drain leaves in a small file.
"""

from __future__ import annotations

import json
import os
import time

from .paths import AGENT_READER, DataDir, read_object, write_private
from .providers import may_share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_DAY = 86_400.0
_OFFER = (
    "claude-smart: {count} {noun} not read; type /learn to let this agent learn from {them}. Say no for good:"
    " claude-smart config learn_offer off"
)


def take_offer(data_dir: DataDir, project: str, host: str, settings: Mapping[str, Any]) -> str:
    """Return the line for the person, and note that they saw it; empty if a model reads, or nothing is unread.

    A project is offered at most once a day.
    """
    is_off = os.environ.get("CLAUDE_SMART_USE_LOCAL_CLI") == "0"
    if settings["model"] == "on" and settings["reader"] != AGENT_READER and not is_off:
        return ""
    count = count_unread(data_dir, project, host, settings["evidence_providers"])
    now = time.time()
    offers = {key: at for key, at in read_object(data_dir.offers).items() if _is_fresh(at, now)}
    if not count or project in offers:
        return ""
    write_private(data_dir.offers, json.dumps({**offers, project: now}).encode())
    noun, them = ("exchange was", "it") if count == 1 else ("exchanges were", "them")
    return _OFFER.format(count=count, noun=noun, them=them)


def count_unread(data_dir: DataDir, project: str, host: str, providers: str) -> int:
    """Return how many exchanges of a project no reader has read, of those that this host may be shown."""
    counts = read_object(data_dir.unread).get(project)
    if not isinstance(counts, dict):
        return 0
    total = 0
    for recorded_host, count in counts.items():
        if isinstance(count, int) and may_share(recorded_host, host, providers):
            total += count
    return total


def _is_fresh(at: object, now: float) -> bool:
    return isinstance(at, int | float) and now - _DAY < at <= now
