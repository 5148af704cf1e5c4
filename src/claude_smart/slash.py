"""The slash commands of the plug-in: the host's event comes on standard input, the answer goes to model and person.

What the person typed arrives as a value and stays one. A note is kept by way of the journal, as everything that is
said: it is redacted there, it keeps its place in the story, and it becomes a rule once, whoever takes it in.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from alma.engine.capture.attendance import Attendance, find_attendance
from alma.engine.capture.words import note
from alma.hooks.account import entry_point
from alma.hooks.place import Place, find
from alma.hooks.run import answer as record
from alma.types.record import Status

from . import cli
from .desk import desk, rules, short

_LONGEST = 9_000
"""The host replaces what is longer by the name of a file."""
_NEXT = {
    "show": "These are the person's rules as they stand.",
    "learn": "What was learned holds from now on.",
    "tag": "Keep to it from now on.",
    "forget": "What was forgotten does not hold any more.",
}


def main() -> None:
    raw = sys.stdin.buffer.read()
    event = json.loads(raw)
    said = reply(event, raw, find(os.environ))
    if said:
        sys.stdout.write(json.dumps(said))


def reply(event: Mapping[str, Any], raw: bytes, place: Place) -> dict[str, Any]:
    """What the hook prints; nothing for a command that is not ours."""
    name = str(event.get("command_name", "")).rpartition(":")[2]
    if name not in _NEXT:
        return {}
    if not _is_recorded(event, place):
        record(raw, place)
    os.environ["CLAUDE_PROJECT_DIR"] = str(event.get("cwd") or os.getcwd())
    os.environ["CLAUDE_CODE_SESSION_ID"] = str(event.get("session_id", ""))
    words = str(event.get("command_args", "")).strip()
    text = _run(_command(name, words))
    if words and name in ("tag", "learn"):
        text = _kept(note(words)) or _unattended() or text
    answer: dict[str, Any] = {
        "hookSpecificOutput": {
            "hookEventName": "UserPromptExpansion",
            "additionalContext": _context(name, text, seen=_terminal()),
        }
    }
    return {**answer, "systemMessage": text} if _terminal() else answer


def _is_recorded(event: Mapping[str, Any], place: Place) -> bool:
    """Whether the prompt's own hook wrote the command down already, perhaps under the name that the person typed."""
    prompt = str(event.get("prompt_id") or "")
    try:
        with open(place.journal(str(event.get("session_id", ""))), "rb") as lines:
            return bool(prompt) and any(b'"UserPromptExpansion"' in line and prompt.encode() in line for line in lines)
    except FileNotFoundError:
        return False


def _command(name: str, said: str) -> list[str]:
    if name == "forget" and said:
        return ["forget", "--", said]
    # A note lies in the journal by now: taking that in makes it a rule.
    return {"show": ["show"], "forget": ["show", "--all"]}.get(name, ["learn"])


def _kept(said: str) -> str:
    """The rule that the note has become, whoever took it in: another process may have been quicker."""
    at = desk()
    with at.memory() as memory:
        found = [one for one in rules(at.engine(memory), Status.ACTIVE) if one.body["rule"] == said]
    return f"Kept as a rule [{short(found[-1].id)}]: {found[-1].body['line']}" if found else ""


def _unattended() -> str:
    """Why a note was not kept, where the session is not known to be a person's."""
    line = entry_point(os.environ)
    attendance = find_attendance(line["entry"], declared=line.get("attended", False))
    if attendance is Attendance.PERSON:
        return ""
    waits = "It waits for `claude-smart review`. " if attendance is Attendance.UNKNOWN else ""
    return (
        f"Not kept as a rule: this session's entry point is {line['entry'] or 'unknown'!r}, not a terminal, an "
        f"editor or the desktop app. {waits}Set CLAUDE_SMART_ATTENDED=1 if a person types here."
    )


def _run(arguments: Sequence[str]) -> str:
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        failed = cli.main(arguments)
    said = out.getvalue() + (errors.getvalue() if failed else "")
    return said.strip() or "Done."


def _terminal() -> bool:
    """Whether the host shows the person what a hook says. Elsewhere the model has to pass it on."""
    return os.environ.get("CLAUDE_CODE_ENTRYPOINT") == "cli"


def _context(name: str, text: str, seen: bool) -> str:
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + " … "
    task = (
        "The person sees this already: answer in one short sentence." if seen else "Print it as it is for the person."
    )
    return f"claude-smart answers /{name}:\n\n{text}\n\n{_NEXT[name]} {task}"
