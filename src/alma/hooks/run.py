"""A hook's whole life: one event in on stdin, a line in the journal, perhaps a word to the model on stdout.

Whatever happens, the process ends with 0 and in time, and says nothing it does not mean to say: a host takes a
failing hook for a failing session. What went wrong is in the log.
"""

from __future__ import annotations

import _thread
import os
import sys
import time

from . import log
from .place import NoPlace, Place, find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .account import Call
    from .settings import Settings

SECONDS = 5.0
"""A hook that takes longer gives up."""
MOST_BYTES = 64 * 1024 * 1024
_LARGE = 1_000_000
_WAKING = frozenset(("Stop", "SessionEnd", "PreCompact", "SessionStart"))


def main() -> None:
    """Does not return: the process ends here, and skips what an interpreter does at leisure before it ends."""
    named = sys.argv[1] if len(sys.argv) > 1 else ""
    place = None
    try:
        place = find(os.environ)
        _thread.start_new_thread(_give_up, (place, named, SECONDS))
        raw = _stdin()
        answered = answer(raw, place, named)
        if answered.text:
            _say(answered.text)
        if answered.wakes:
            from .wake import wake

            wake(place, answered.wakes)
    except NoPlace:
        pass
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the process boundary
        if place is not None:
            # The system's own messages name files and reasons, which helps; others might quote what was said.
            log.note(place, named, f"{log.where(error)}: {error}" if isinstance(error, OSError) else log.where(error))
    os._exit(0)


def _give_up(place: Place, named: str, seconds: float) -> None:
    time.sleep(seconds)
    # On its own: a disk that hangs would hold up the log as well.
    _thread.start_new_thread(log.note, (place, named, f"gave up after {seconds:.0f} s"))
    time.sleep(0.2)
    os._exit(0)


def _stdin() -> bytes:
    """All of it, so that the host can finish writing; what is too much is not kept."""
    pieces, size = [], 0
    while piece := os.read(0, 1 << 20):
        if size <= MOST_BYTES:
            pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _say(text: str) -> None:
    data = text.encode()
    while data:
        data = data[os.write(1, data) :]


class Answer:
    """What is said on stdout, and why the drainer is to be woken; either may be empty."""

    __slots__ = ("text", "wakes")

    def __init__(self, text: str = "", wakes: str = "") -> None:
        self.text = text
        self.wakes = wakes


class Unheard(Exception):
    """Stdin held no event that we know."""


def answer(raw: bytes, place: Place, named: str = "") -> Answer:
    """Write down one event and find what to say to it."""
    from .account import as_expansion

    try:
        call = _heard(raw, named)
    except Unheard as problem:
        log.note(place, named, str(problem))
        return Answer()
    if not call.whole:
        log.note(place, call.name, "stdin is not all UTF-8: what is not was replaced, and nothing is said to it")
    return _answered(as_expansion(call), place)


def _heard(raw: bytes, named: str) -> Call:
    from .account import EVENTS, Call
    from .privacy import mentions_private

    given, whole = _parsed(raw)
    event = given.get("hook_event_name")
    name = event if isinstance(event, str) and event else named
    if name not in EVENTS:
        raise Unheard(f"unknown event {name[:60]!r}")
    call = Call(given, name, hiding=len(raw) < _LARGE or mentions_private(raw), whole=whole)
    if not call.session:
        raise Unheard(f"{name} without a session_id")
    return call


def _parsed(raw: bytes) -> tuple[Mapping[str, Any], bool]:
    """The object on stdin, and whether all of it could be read."""
    import json

    if len(raw) > MOST_BYTES:
        raise Unheard(f"more than {MOST_BYTES >> 20} MB on stdin")
    try:
        text, whole = raw.decode("utf-8-sig"), True
    except UnicodeDecodeError:
        text, whole = raw.decode("utf-8-sig", "replace"), False
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unheard(f"stdin is not JSON ({type(error).__name__}, {len(raw)} bytes)") from error
    if not isinstance(given, dict):
        raise Unheard("stdin is not a JSON object")
    return given, whole


def _answered(call: Call, place: Place) -> Answer:
    from . import account, cleared, identity, journal, privacy, project, settings

    call.cwd = call.cwd or os.getcwd()
    found = project.locate(call.cwd, os.environ.get("CLAUDE_PROJECT_DIR", ""))
    ignored = privacy.ignored(found, call.cwd)
    if ignored.everything:
        return Answer()
    copy = identity.find_copy(place, found, remember=False)
    if privacy.is_paused(place, copy.key, call.name):
        return Answer()
    identity.remember_copy(place, found, copy)
    config = settings.load(place, call.name)
    if call.name == "SessionStart" and call.text("source") == "clear":
        call.given = {**call.given, "parent": cleared.adopted(place, call.cwd, call.session) or None}
    hidden = call.name in account.TOOL_EVENTS and ignored.touches(call.given.get("tool_input"))
    line = account.line(call, copy.key, time.time(), ignored=hidden)
    journal.append(place, call.session, line, config.number("journal_mb"))
    if call.name == "SessionEnd" and call.text("reason") == "clear":
        cleared.remember(place, call.cwd, call.session)
    text = _text(call, place, line, config) if call.whole and not hidden else ""
    return Answer(text, call.name if call.name in _WAKING else "")


def _text(call: Call, place: Place, line: Mapping[str, Any], config: Settings) -> str:
    """What is said on stdout."""
    # Our own commands are answered where they are expanded.
    if call.own_command or call.name not in ("SessionStart", "UserPromptSubmit", "PreToolUse"):
        return ""
    from .inject import tell

    return tell(call, place, line, config)
