"""The slash commands of the plug-in: the host's event comes on standard input, the answer goes to model and person.

What the person typed arrives as a value and stays one. A note is kept by way of the journal, as everything that is
said: it is redacted there, it keeps its data_dir in the story, and it becomes a rule once, whichever process reads it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from alma.coding.events import Attendance, extract_note, find_attendance
from alma.hooks.journal import read_entry_point
from alma.hooks.paths import DataDir, find_data_dir
from alma.hooks.run import answer_event
from alma.types.record import Status

from . import cli
from .rules import describe_rule, find_rules, open_context, short_id

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
    answer = answer_command(json.loads(raw), raw, find_data_dir(os.environ))
    if answer:
        sys.stdout.write(json.dumps(answer))


def answer_command(event: Mapping[str, Any], raw: bytes, data_dir: DataDir) -> dict[str, Any]:
    """Return what the hook prints; nothing for a command that is not ours."""
    name = str(event.get("command_name", "")).rpartition(":")[2]
    if name not in _NEXT:
        return {}
    if not _is_recorded(event, data_dir):
        answer_event(raw, data_dir)
    os.environ["CLAUDE_PROJECT_DIR"] = str(event.get("cwd") or os.getcwd())
    os.environ["CLAUDE_CODE_SESSION_ID"] = str(event.get("session_id", ""))
    line = read_entry_point(os.environ)
    attendance = find_attendance(line["entry"], declared=line.get("attended", False))
    if attendance is Attendance.PERSON:
        # A slash command is typed by the person, also where the host tells programs that an agent runs them.
        os.environ.pop("CLAUDECODE", None)
    words = str(event.get("command_args", "")).strip()
    out = io.StringIO()
    # Wrong options end the program; what it says about them is the answer.
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.suppress(SystemExit):
        cli.main(_read_command(name, words))
    text = out.getvalue().strip() or "Done."
    if words and name in ("tag", "learn"):
        text = _describe_kept(extract_note(words)) or _describe_unattended(line["entry"], attendance) or text
    # Elsewhere than in a terminal the host does not show the person what a hook says: the model has to pass it on.
    is_seen = os.environ.get("CLAUDE_CODE_ENTRYPOINT") == "cli"
    seen = "The person sees this already: answer in one short sentence."
    task = seen if is_seen else "Print it as it is for the person."
    context = f"claude-smart answers /{name}:\n\n{text[:_LONGEST]}\n\n{_NEXT[name]} {task}"
    answer = {"hookSpecificOutput": {"hookEventName": "UserPromptExpansion", "additionalContext": context}}
    return {**answer, "systemMessage": text} if is_seen else answer


def _is_recorded(event: Mapping[str, Any], data_dir: DataDir) -> bool:
    """Whether the prompt's own hook wrote the command down already, perhaps under the name that the person typed."""
    prompt = str(event.get("prompt_id") or "")
    try:
        with open(data_dir.journal_file(str(event.get("session_id", ""))), "rb") as lines:
            return bool(prompt) and any(b'"UserPromptExpansion"' in line and prompt.encode() in line for line in lines)
    except FileNotFoundError:
        return False


def _read_command(name: str, said: str) -> list[str]:
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


def _describe_kept(rule: str) -> str:
    """Return the rule that the note has become; another process may have stored it."""
    with open_context().engine() as engine:
        rules = [one for one in find_rules(engine, Status.ACTIVE) if one.body["rule"] == rule]
    if not rules:
        return ""
    undo = f"Undo: claude-smart forget {short_id(rules[-1].id)}"
    return f"Kept as a rule: {rules[-1].body['line']}\n    {describe_rule(rules[-1])}. {undo}"


def _describe_unattended(entry: str, attendance: Attendance) -> str:
    """Return why a note was not kept, where the session is not known to be a person's."""
    if attendance is Attendance.PERSON:
        return ""
    waits = "It waits for `claude-smart review`. " if attendance is Attendance.UNKNOWN else ""
    return (
        f"Not kept as a rule: this session's entry point is {entry or 'unknown'!r}, not a terminal, an "
        f"editor or the desktop app. {waits}Set CLAUDE_SMART_ATTENDED=1 if a person types here."
    )
