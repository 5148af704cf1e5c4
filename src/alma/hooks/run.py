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

from . import hosts, journal, origin, privacy, project
from .journal import EVENTS, TOOL_EVENTS, HookCall, build_line, expand_own_command
from .paths import DataDir, NoHomeError, describe_error, find_hook_dir, log_problem, read_settings

SECONDS = 5.0
"""The time limit for one hook."""
MOST_BYTES = 64 * 1024 * 1024
_WAKING = frozenset(("Stop", "SessionEnd", "PreCompact", "SessionStart"))


def main(home: str = "") -> None:
    """Handle one event and exit. Does not return: `os._exit` skips the interpreter's slow shutdown.

    `home` is the data folder that the installer recorded. `--home DIR` on the command line comes first.
    """
    arguments = sys.argv[1:]
    if "--home" in arguments[:-1]:
        place = arguments.index("--home")
        home = arguments[place + 1]
        del arguments[place : place + 2]
    event = arguments[0] if arguments else ""
    # The files that are written for one host pass its name.
    host = event if event in hosts.HOSTS else ""
    data_dir = None
    try:
        data_dir = find_hook_dir(home)
        _thread.start_new_thread(_give_up, (data_dir, event, SECONDS))
        # Read all of stdin so that the host can finish writing, but keep no more than the limit.
        pieces, size = [], 0
        while piece := os.read(0, 1 << 20):
            if size <= MOST_BYTES:
                pieces.append(piece)
            size += len(piece)
        text, wake_reason = answer_event(b"".join(pieces), data_dir, "" if host else event, host)
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


def answer_event(
    raw: bytes, data_dir: DataDir, event: str = "", host: str = "", *, sender: str = ""
) -> tuple[str, str]:
    """Record one event. Return the text for stdout and the reason to wake the drain; each may be empty.

    Without the name of the host, the host is recognised by the event. `sender` says who brought the event; without it,
    the processes above this one tell.
    """
    try:
        call = _read_call(raw, data_dir, event, host)
        if call is None:
            return "", ""
    except (ValueError, RecursionError) as error:
        # Python's messages about invalid JSON may quote it.
        is_ours = type(error) is ValueError
        problem = str(error) if is_ours else f"stdin is not JSON ({type(error).__name__}, {len(raw)} bytes)"
        log_problem(data_dir, event, problem)
        return "", ""
    text, wake_reason = _record_call(expand_own_command(call), data_dir, sender)
    if call.host == "goose":
        if call.name in hosts.STARTS and hosts.has_context_file(data_dir):
            # Also without a text: the file must not keep the rules of another project, or those of a paused one.
            hosts.write_context_file(data_dir, text)
        text = ""
    return text, wake_reason


def _read_call(raw: bytes, data_dir: DataDir, event: str, host: str) -> HookCall | None:
    """Return the event in `raw`; None for an event of another host that is not recorded.

    Raise ValueError if it is not a known event with a session id.
    """
    if len(raw) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES >> 20} MB on stdin")
    # Without its byte order mark; the codec that does this would have to be imported.
    encoded = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        text = encoded.decode()
    except UnicodeDecodeError:
        text = encoded.decode(errors="replace")
        log_problem(data_dir, event, "stdin is not valid UTF-8; invalid bytes were replaced")
    payload = json.loads(text)
    if not isinstance(payload, dict):
        raise ValueError("stdin is not a JSON object")
    host = host or hosts.recognise_host(payload, os.environ)
    payload = hosts.read_event(host, payload, event)
    if payload is None:
        return None
    name = payload.get("hook_event_name")
    name = name if isinstance(name, str) and name else event
    if name not in EVENTS:
        raise ValueError(f"unknown event {name[:60]!r}")
    is_spoken = host != "claude" and name in hosts.STARTS
    call = HookCall(payload, name, host, hosts.find_entry(host, payload, os.environ) if is_spoken else None)
    if not call.session:
        raise ValueError(f"{name} without a session_id")
    return call


_FIRST_NAME = "claude-smart:"
"""The prefix of the commands before the plugin got its short name."""
_RECORDED = ("", "tag", "learn")
"""Commands whose answer matters less than that they are in the journal."""


def _describe_command(name: str) -> str:
    return (
        f"The user typed the command {name!r} of claude-smart, but this program did not run it. Tell the user to type"
        f" /smart:{name} (or /{name}), or to run `claude-smart {name}` in a terminal. Do nothing else."
    )


def _record_call(call: HookCall, data_dir: DataDir, sender: str) -> tuple[str, str]:
    call.cwd = call.cwd or os.getcwd()
    # Another agent may have inherited the variable from Claude Code.
    root = os.environ.get("CLAUDE_PROJECT_DIR", "") if call.host == "claude" else ""
    located = project.locate_project(call.cwd, root)
    ignored = privacy.IgnoreRules(located, call.cwd)
    if ignored.covers_everything:
        return "", ""
    copy = project.find_copy(data_dir, located, remember=False)
    if privacy.is_paused(data_dir, copy.key, call.name):
        return "", ""
    settings = read_settings(data_dir, call.name)
    problem = ""
    try:
        project.remember_copy(data_dir, copy)
        sender = sender or origin.find_origin(data_dir, call)
    except OSError as error:
        # Without a place to write there is nothing to record, but the rules can still be read.
        problem = str(error)
        sender = sender or origin.UNKNOWN
    if call.name == "SessionStart" and call.text("source") == "clear":
        parent = journal.find_cleared(data_dir, call.cwd, call.session)
        call.payload = {**call.payload, "parent": parent or None}
    is_ignored = call.name in TOOL_EVENTS and ignored.touches(call.payload.get("tool_input"))
    is_attended = settings["programs"] == "on"
    # The events of aider come from its history.
    at = float(call.payload.get("at", 0)) if call.host == "aider" else time.time()
    mentioned = journal.print_mentioned_files(call, ignored.matches)
    flags = {"is_ignored": is_ignored, "is_attended": is_attended}
    line = build_line(call, copy.key, at, **flags, origin=sender, mentioned=mentioned)
    try:
        journal.append_line(data_dir, call.session, line, settings["journal_mb"])
    except OSError as error:
        problem = str(error)
    if problem:
        log_problem(data_dir, call.name, f"not recorded: {problem}")
    if call.name == "SessionEnd" and call.text("reason") == "clear":
        journal.remember_cleared(data_dir, call.cwd, call.session)
    text = ""
    # Our own commands are answered by the hook for UserPromptExpansion.
    may_answer = hosts.can_show(call.host, call.name, call.text("source")) and not call.own_command
    may_answer = may_answer and (call.host != "goose" or hosts.has_context_file(data_dir))
    if may_answer and not is_ignored:
        from .inject import inject_rules

        text = inject_rules(call, data_dir, line, settings, problem)
    elif call.own_command not in _RECORDED and call.text("command_name").lstrip("/").startswith(_FIRST_NAME):
        # Our plugin has another name in Claude Code, which therefore does not run the command.
        event = call.text("hook_event_name") or call.name
        text = hosts.format_answer(call.host, event, _describe_command(call.own_command))
    elif call.name == "Stop" and call.name in hosts.NOTICED.get(call.host, ()):
        from .inject import collect_notices

        text = hosts.format_answer(call.host, call.name, "", collect_notices(call, data_dir, line, settings))
    return text, call.name if call.name in _WAKING else ""
