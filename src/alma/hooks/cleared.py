"""Which session a cleared context belonged to. The host ends one and starts another in the same folder at once."""

from __future__ import annotations

import json
import os
import time

from .place import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SECONDS = 60.0
_MOST = 1_000_000


def remember(place: Place, cwd: str, session: str) -> None:
    now = time.time()
    held = {folder: told for folder, told in _read(place).items() if _is_fresh(told, now)}
    held[cwd] = {"session": session, "at": now}
    place.make()
    beside = f"{place.cleared}.{os.getpid()}"
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(file, json.dumps(held).encode())
    finally:
        os.close(file)
    os.replace(beside, place.cleared)


def adopted(place: Place, cwd: str, session: str) -> str:
    """The session that was cleared here a moment ago; empty when there is none."""
    told = _read(place).get(cwd)
    found = str(told["session"]) if told is not None and _is_fresh(told, time.time()) else ""
    return found if found != session else ""


def _is_fresh(told: Any, now: float) -> bool:
    if not isinstance(told, dict) or not isinstance(told.get("session"), str):
        return False
    at = told.get("at")
    return isinstance(at, int | float) and 0 <= now - at <= SECONDS


def _read(place: Place) -> dict[str, Any]:
    try:
        with open(place.cleared, "rb") as file:
            told = json.loads(file.read(_MOST))
    except (OSError, ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}
