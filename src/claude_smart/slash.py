"""The slash commands of the plug-in: the host's event comes on standard input, the answer goes to model and person.

What the person typed arrives as a value and stays one. A note is kept by way of the journal, as everything that is
said: it is redacted there, it keeps its place in the story, and it becomes a rule once, whoever takes it in.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from alma.coding.events import Attendance, find_attendance
from alma.coding.prompts import extract_note
from alma.hooks.event_line import read_entry_point as entry_point
from alma.hooks.paths import DataDir as Place
from alma.hooks.paths import find_data_dir as find
from alma.hooks.run import answer_event as record
from alma.types.record import Status

from . import cli
from .desk import desk, rules, short
from .rules import describe_rule

_LONGEST = 9_000
"""The host replaces what is longer by the name of a file."""
_NEXT = {
    "show": "These are the person's rules as they stand.",
    "learn": "What was learned holds from now on.",
    "tag": "Keep to it from now on.",
    "forget": "What was forgotten does not hold any more.",
    "review": "What was accepted holds from now on; what waits does not hold.",
    "edit": "Keep to it as it reads now.",
    "restore": "What was restored holds from now on.",
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
    if _read_attendance()[1] is Attendance.PERSON:
        # A slash command is typed by the person, also where the host tells programs that an agent runs them.
        os.environ.pop("CLAUDECODE", None)
    words = str(event.get("command_args", "")).strip()
    text = _run(_command(name, words))
    if words and name in ("tag", "learn"):
        text = _kept(extract_note(words)) or _unattended() or text
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
    """Return the arguments of the command line that a slash command stands for."""
    if name in ("show", "forget"):
        options = [option for option in ("--all", "--everything") if said.startswith(option)]
        words = said.removeprefix("".join(options)).strip()
        if not words:
            return ["show", "--all"] if options or name == "forget" else ["show", "--playbook"]
        return [name, *options, "--", words]
    if name == "review":
        verb, *ids = said.split() or [""]
        if verb not in ("accept", "reject"):
            return ["review"]
        return ["review", f"--{verb}-all"] if ids == ["all"] else ["review", f"--{verb}", *ids]
    if name in ("edit", "restore"):
        try:
            return [name, *shlex.split(said)]
        except ValueError:
            return [name, *said.split()]
    # A note lies in the journal by now: taking that in makes it a rule.
    return ["learn"]


def _kept(said: str) -> str:
    """The rule that the note has become, whoever took it in: another process may have been quicker."""
    at = desk()
    with at.memory() as memory:
        found = [one for one in rules(at.engine(memory), Status.ACTIVE) if one.body["rule"] == said]
    if not found:
        return ""
    undo = f"Undo: claude-smart forget {short(found[-1].id)}"
    return f"Kept as a rule: {found[-1].body['line']}\n    {describe_rule(found[-1])}. {undo}"


def _read_attendance() -> tuple[str, Attendance]:
    line = entry_point(os.environ)
    return line["entry"], find_attendance(line["entry"], declared=line.get("attended", False))


def _unattended() -> str:
    """Why a note was not kept, where the session is not known to be a person's."""
    entry, attendance = _read_attendance()
    if attendance is Attendance.PERSON:
        return ""
    waits = "It waits for `claude-smart review`. " if attendance is Attendance.UNKNOWN else ""
    return (
        f"Not kept as a rule: this session's entry point is {entry or 'unknown'!r}, not a terminal, an "
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
