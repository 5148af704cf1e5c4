"""What is no longer needed goes: old journals that were taken in, profiles of sessions long over, very old turns.

A journal leaves in two steps, because a hook may have it open: it is renamed, and removed a while later if nothing
was added meanwhile. One that was not taken in is never removed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from ..engine.admit import change, revise
from ..engine.coding_sessions import mark_of, unmark
from ..engine.context import Engine
from ..engine.session_reading import forget_progress
from ..engine.transaction import commit
from ..types.kinds import MemoryType
from ..types.query import Where
from ..types.record import Record, Status
from ..types.rules import EVERYWHERE
from . import settings
from .drain import Memory, journals, read_journal
from .place import Place, own_files

DONE = ".done"
_DAY = 86_400.0
_PATIENCE = 60.0
_MOST_BYTES = 256 * 1024 * 1024
_BATCH = 500


def tidy(place: Place, memory: Memory) -> int:
    """Remove what is past its time; return how many journals went. The caller holds the drain lock, or nobody does."""
    limits = settings.read(place)
    engine = memory.engine(EVERYWHERE)
    gone = _journals(place, engine, time.time(), limits.number("journal_days"))
    _profiles(engine, limits.number("journal_days"))
    _aged(engine, limits.number("episode_days"))
    return gone


def _journals(place: Place, engine: Engine, now: float, days: int) -> int:
    gone = 0
    for path in _leaving(place):
        if now - os.stat(path).st_mtime > _PATIENCE and _taken_in(engine, path):
            gone += _remove(engine, path)
    total = 0
    # Newest first: what goes beyond the quota is the oldest.
    for path in sorted(journals(place), key=os.path.getmtime, reverse=True):
        total += os.path.getsize(path)
        age = now - os.path.getmtime(path)
        if (age > days * _DAY or (total > _MOST_BYTES and age > _DAY)) and _taken_in(engine, path):
            os.replace(path, path.removesuffix(".jsonl") + DONE)
            os.utime(path.removesuffix(".jsonl") + DONE, (now, now))
    return gone


def _leaving(place: Place) -> list[str]:
    try:
        names = os.listdir(place.sessions)
    except FileNotFoundError:
        return []
    return [os.path.join(place.sessions, name) for name in names if name.endswith(DONE)]


def _taken_in(engine: Engine, path: str) -> bool:
    found = read_journal(path)
    if found is None:
        return True
    mark = mark_of(engine, found.story.session)
    # Another journal of the session has begun: this one was taken in before that.
    return mark.file != found.file or mark.offset >= found.size


def _remove(engine: Engine, path: str) -> int:
    found = read_journal(path)
    shown = path.removesuffix(DONE) + ".shown"
    fresh = os.path.exists(path.removesuffix(DONE) + ".jsonl")
    os.remove(path)
    if not fresh:
        if os.path.exists(shown):
            os.remove(shown)
        if found is not None and mark_of(engine, found.story.session).file == found.file:
            unmark(engine, found.story.session)
            forget_progress(engine, found.story.session)
    return 1


def _profiles(engine: Engine, days: int) -> None:
    """A profile is gone with its session."""
    before = engine.clock() - timedelta(days=days)
    where = Where(kinds={MemoryType.RULE}, statuses={Status.ACTIVE, Status.CANDIDATE}, created_to=before)
    old = [one for one in engine.store.scan(where) if one.session and one.updated_at < before]
    for start in range(0, len(old), _BATCH):

        def attempt(some: Sequence[Record] = old[start : start + _BATCH]) -> tuple[None, list[Record]]:
            held = [one for one in engine.store.get([one.id for one in some]) if one.updated_at < before]
            gone = [revise(engine, one, status=Status.ARCHIVED) for one in held]
            return None, [*gone, *(change(engine, one, "archived", "its session is over") for one in held)]

        commit(engine, attempt)


def _aged(engine: Engine, days: int) -> None:
    """Turns, conversations and notes of what was shown, past their time; what they taught stays."""
    before = engine.clock() - timedelta(days=days)
    where = Where(kinds={"turn", "episode", "retrieval"}, created_to=before)
    ids = [one.id for one in engine.store.scan(where)]
    for start in range(0, len(ids), _BATCH):
        engine.store.delete(ids[start : start + _BATCH])


def erase_from_journals(place: Place, project: str, is_meant: Callable[[str], bool]) -> int:
    """Blank the journal lines of a project, or of all (EVERYWHERE), that hold a text that is meant; return how many.

    A line keeps its length: how far a journal was read is counted in bytes, and a hook may be appending to it. The
    caller must hold the drain lock.
    """
    blanked = 0
    for path in own_files(place, ".jsonl", DONE):
        with open(path, "r+b") as file:
            offset = 0
            for line in file.read().split(b"\n")[:-1]:
                if _holds_text(line, project, is_meant):
                    file.seek(offset)
                    file.write(b" " * len(line))
                    blanked += 1
                offset += len(line) + 1
    return blanked


def _holds_text(line: bytes, project: str, is_meant: Callable[[str], bool]) -> bool:
    try:
        event = json.loads(line)
        pending = [event["data"]] if project in (EVERYWHERE, event["project"]) else []
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    while pending:
        value = pending.pop()
        if isinstance(value, str) and is_meant(value):
            return True
        pending += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return False
