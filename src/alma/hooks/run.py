"""Run a hook: read one event from stdin, add it to the journal, and print rules for the model if some apply.

The process always exits with code 0, in time, and prints nothing else, because a host treats a failing hook as a
failing session. Problems go to the log.
"""

from __future__ import annotations

import _thread
import json
import os
import sys
import time

from . import journal, privacy, project
from .journal import EVENTS, TOOL_EVENTS, HookCall, build_line, expand_own_command
from .paths import DataDir, NoHomeError, describe_error, find_data_dir, log_problem, read_settings

SECONDS = 5.0
"""The time limit for one hook."""
MOST_BYTES = 64 * 1024 * 1024
_WAKING = frozenset(("Stop", "SessionEnd", "PreCompact", "SessionStart"))


def main() -> None:
    """Handle one event and exit. Does not return: `os._exit` skips the interpreter's slow shutdown."""
    event = sys.argv[1] if len(sys.argv) > 1 else ""
    data_dir = None
    try:
        data_dir = find_data_dir(os.environ)
        _thread.start_new_thread(_give_up, (data_dir, event, SECONDS))
        # Read all of stdin so that the host can finish writing, but keep no more than the limit.
        pieces, size = [], 0
        while piece := os.read(0, 1 << 20):
            if size <= MOST_BYTES:
                pieces.append(piece)
            size += len(piece)
        text, wake_reason = answer_event(b"".join(pieces), data_dir, event)
        output = text.encode()
        while output:
            output = output[os.write(1, output) :]
        if wake_reason:
            journal.wake_drain(data_dir, wake_reason)
    except NoHomeError:
        pass
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the process boundary
        if data_dir is not None:
            # System messages contain file names and reasons, which helps. Others may quote a conversation.
            message = f": {error}" if isinstance(error, OSError) else ""
            log_problem(data_dir, event, describe_error(error) + message)
    os._exit(0)


def _give_up(data_dir: DataDir, event: str, seconds: float) -> None:
    time.sleep(seconds)
    # In its own thread: a disk that hangs would block the log as well.
    _thread.start_new_thread(log_problem, (data_dir, event, f"timed out after {seconds:.0f} s"))
    time.sleep(0.2)
    os._exit(0)


def answer_event(raw: bytes, data_dir: DataDir, event: str = "") -> tuple[str, str]:
    """Record one event. Return the text for stdout and the reason to wake the drain; each may be empty."""
    try:
        call = _read_call(raw, data_dir, event)
    except (ValueError, RecursionError) as error:
        # Python's messages about invalid JSON may quote it.
        is_ours = type(error) is ValueError
        problem = str(error) if is_ours else f"stdin is not JSON ({type(error).__name__}, {len(raw)} bytes)"
        log_problem(data_dir, event, problem)
        return "", ""
    return _record_call(expand_own_command(call), data_dir)


def _read_call(raw: bytes, data_dir: DataDir, event: str) -> HookCall:
    """Return the event in `raw`. Raise ValueError if it is not a known event with a session id."""
    if len(raw) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES >> 20} MB on stdin")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("utf-8-sig", "replace")
        log_problem(data_dir, event, "stdin is not valid UTF-8; invalid bytes were replaced")
    payload = json.loads(text)
    if not isinstance(payload, dict):
        raise ValueError("stdin is not a JSON object")
    name = payload.get("hook_event_name")
    name = name if isinstance(name, str) and name else event
    if name not in EVENTS:
        raise ValueError(f"unknown event {name[:60]!r}")
    call = HookCall(payload, name)
    if not call.session:
        raise ValueError(f"{name} without a session_id")
    return call


def _record_call(call: HookCall, data_dir: DataDir) -> tuple[str, str]:
    call.cwd = call.cwd or os.getcwd()
    located = project.locate_project(call.cwd, os.environ.get("CLAUDE_PROJECT_DIR", ""))
    ignored = privacy.IgnoreRules(located, call.cwd)
    if ignored.covers_everything:
        return "", ""
    copy = project.find_copy(data_dir, located, remember=False)
    if privacy.is_paused(data_dir, copy.key, call.name):
        return "", ""
    project.remember_copy(data_dir, copy)
    settings = read_settings(data_dir, call.name)
    if call.name == "SessionStart" and call.text("source") == "clear":
        parent = journal.find_cleared(data_dir, call.cwd, call.session)
        call.payload = {**call.payload, "parent": parent or None}
    is_ignored = call.name in TOOL_EVENTS and ignored.touches(call.payload.get("tool_input"))
    line = build_line(call, copy.key, time.time(), is_ignored=is_ignored)
    journal.append_line(data_dir, call.session, line, settings["journal_mb"])
    if call.name == "SessionEnd" and call.text("reason") == "clear":
        journal.remember_cleared(data_dir, call.cwd, call.session)
    text = ""
    # Our own commands are answered by the hook for UserPromptExpansion.
    may_answer = call.name in ("SessionStart", "UserPromptSubmit", "PreToolUse") and not call.own_command
    if may_answer and not is_ignored:
        from .inject import inject_rules

        text = inject_rules(call, data_dir, line, settings)
    return text, call.name if call.name in _WAKING else ""
