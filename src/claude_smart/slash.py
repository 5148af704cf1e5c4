"""The slash commands of the plugin: read the host's event from standard input, answer the model and the person.

The typed text is passed as a value, never through a shell. A note is stored through the journal like every prompt: it
is redacted there, keeps its position in the session, and becomes a rule once, whichever process imports it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from alma.coding.events import Attendance, extract_note, find_attendance
from alma.errors import ALMAError
from alma.hooks import verify
from alma.hooks.inject import normalise_item, read_host_rules, reads_agents_md
from alma.hooks.journal import OWN_COMMANDS, HookCall, read_entry_point
from alma.hooks.learn_requests import may_agent_read
from alma.hooks.paths import DataDir, find_hook_dir, read_settings
from alma.hooks.run import answer_event
from alma.types.record import Status

from . import cli
from .notes import ask_agent
from .rules import (
    CommandContext,
    act_for_person,
    describe_pause,
    describe_rule,
    find_rules,
    open_context,
    plain_line,
    read_last_change,
    rule_to_dict,
    short_id,
)

_LONGEST = 9_000
"""The host replaces a longer text with the name of a file."""
_SHORTENED = 1_500
"""What is left of a text for the person where the agent gets exchanges to read."""
_FRAME = 500
"""The characters around the text, and of what the person is told about the reading."""
_COMMAND = "claude-smart notes"
_ALLOWED = re.compile(r"^allowed-tools: Bash\((.+ notes):\*\)$", re.MULTILINE)
_NEXT = {
    "show": "These are the user's current rules.",
    "learn": "Follow any learned rule from now on. Candidates are not active yet.",
    "tag": "Follow any stored rule from now on.",
    "forget": "A forgotten rule no longer applies.",
    "review": "Follow any accepted rule from now on. Candidates are not active yet.",
    "edit": "Follow a changed rule in its new form.",
    "restore": "Follow any restored rule from now on.",
}


def main(home: str = "") -> None:
    """Answer the event on standard input. `home` is the data folder that the installer recorded."""
    raw = sys.stdin.buffer.read()
    answer = answer_command(json.loads(raw), raw, find_hook_dir(home))
    if answer:
        sys.stdout.write(json.dumps(answer))


def answer_command(event: Mapping[str, Any], raw: bytes, data_dir: DataDir) -> dict[str, Any]:
    """Return the JSON that the hook prints; empty if the command is not ours."""
    name = str(event.get("command_name", "")).rpartition(":")[2]
    if name not in _NEXT:
        return {}
    if not _is_recorded(event, data_dir):
        answer_event(raw, data_dir)
    folder = str(event.get("cwd") or os.getcwd())
    os.environ["CLAUDE_CODE_SESSION_ID"] = str(event.get("session_id", ""))
    line = read_entry_point()
    is_declared = read_settings(data_dir)["programs"] == "on"
    attendance = find_attendance(line["entry"], declared=is_declared)
    words = str(event.get("command_args", "")).strip()
    out = io.StringIO()
    pause = describe_pause(open_context(data_dir=data_dir, folder=folder))
    doubt = (
        verify.NOT_RECORDED if pause else verify.find_command_doubt(data_dir, HookCall(event, "UserPromptExpansion"))
    )
    # A person typed the slash command, although the processes above show an agent.
    is_typed = attendance is Attendance.PERSON and not doubt
    note = extract_note(words) if name in ("tag", "learn") else ""
    command = _read_command(name, words)
    if pause and note and attendance is not Attendance.PROGRAM:
        # Nothing is recorded, so the note is not in the journal. It is stored all the same: the person typed it for
        # that.
        command = ["tag", "--", note]
    elif pause and name == "tag" and not note:
        pause = f"There is no recorded turn to store; pass a note: /tag NOTE\n{pause}"
    # Wrong options exit the program; its message is the answer.
    role = act_for_person() if is_typed else contextlib.nullcontext()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.suppress(SystemExit), role:
        cli.main(command, data_dir, folder)
    text = out.getvalue().strip() or "Done."
    if words and name in ("tag", "learn"):
        text = (
            _describe_stored(note, open_context(data_dir=data_dir, folder=folder))
            or _describe_unattended(line["entry"], attendance)
            or _describe_doubt(doubt)
            or text
        )
    if pause and name in ("tag", "learn"):
        text = f"{text}\n{pause}" if note else pause
    text = _name_slash_commands(text)
    request = ""
    if name == "learn" and is_typed and not note and not pause and may_agent_read(data_dir, words):
        request, offer = _ask_agent(open_context(data_dir=data_dir, folder=folder), event, len(text))
        text = "\n".join(filter(None, (text, offer)))
    return _write_answer(name, text, request)


def _write_answer(name: str, text: str, request: str) -> dict[str, Any]:
    """Return the JSON of an answer: a text for the person, and what the agent is asked to do, if anything."""
    # Outside of a terminal, the host does not show a hook's message to the person, so the model has to print it.
    is_visible = os.environ.get("CLAUDE_CODE_ENTRYPOINT") == "cli"
    if request:
        task = "The user already sees this." if is_visible else "Print it for the user first."
        end = f"{task}\n\n{request}"
        text_for_model = text[:_SHORTENED]
    else:
        short = "The user already sees this: answer in one short sentence."
        end = short if is_visible else "Print it verbatim for the user."
        text_for_model = text[:_LONGEST]
    context = f"claude-smart answers /{name}:\n\n{text_for_model}\n\n{_NEXT[name]} {end}"
    answer = {"hookSpecificOutput": {"hookEventName": "UserPromptExpansion", "additionalContext": context}}
    return {**answer, "systemMessage": text} if is_visible else answer


def _ask_agent(context: CommandContext, event: Mapping[str, Any], used: int) -> tuple[str, str]:
    """Return what the agent that reads is asked to do, and what its person is told; a failure is told to the person.

    `used` is how many characters the rest of the answer has.
    """
    source = str(event.get("prompt_id") or os.urandom(16).hex())
    room = _LONGEST - min(used, _SHORTENED) - _FRAME
    try:
        return ask_agent(context, source, find_notes_command(), room)
    except (ALMAError, OSError) as error:
        return "", f"! This agent cannot read: {cli.reword_error(error)}"


def find_notes_command() -> str:
    """Return the command with which an agent hands in notes: that of the plugin that runs, as its `learn.md` has it."""
    folder = os.path.dirname(os.path.abspath(sys.argv[0]))
    try:
        with open(os.path.join(folder, "commands", "learn.md"), encoding="utf-8") as file:
            allowed = _ALLOWED.search(file.read())
    except OSError:
        allowed = None
    return allowed[1].replace("${CLAUDE_PLUGIN_ROOT}", folder) if allowed else _COMMAND


def _is_recorded(event: Mapping[str, Any], data_dir: DataDir) -> bool:
    """Return whether the hook of the prompt has already recorded the command, perhaps under the typed name."""
    prompt = str(event.get("prompt_id") or "")
    try:
        with open(data_dir.journal_file(str(event.get("session_id", ""))), "rb") as lines:
            return bool(prompt) and any(b'"UserPromptExpansion"' in line and prompt.encode() in line for line in lines)
    except FileNotFoundError:
        return False


def _read_command(name: str, text: str) -> list[str]:
    """Return the command-line arguments for a slash command."""
    if name in ("show", "forget"):
        options = [option for option in ("--all", "--everything") if text.startswith(option)]
        words = text.removeprefix("".join(options)).strip()
        if not words:
            return ["show", "--all"] if options or name == "forget" else ["show", "--playbook"]
        return [name, *options, "--", words]
    if name == "review":
        verb, *ids = text.split() or [""]
        if verb not in ("accept", "reject") or not ids:
            return ["review"]
        return ["review", f"--{verb}-all"] if ids == ["all"] else ["review", f"--{verb}", *ids]
    if name in ("edit", "restore"):
        try:
            return [name, *shlex.split(text)]
        except ValueError:
            return [name, *text.split()]
    # A note is in the journal by now; importing the journal makes it a rule.
    return ["learn"]


_HINT = re.compile(r"(?P<before>[:;.] |\(|`)claude-smart (?P<name>[a-z]+)\b(?P<rest>.*)")
_SLASH_NAMES = {name: name if name in OWN_COMMANDS else f"smart:{name}" for name in _NEXT}


def _name_slash_commands(text: str) -> str:
    """Return an answer whose hints name slash commands, where there is one for the command."""

    def rename(hint: re.Match[str]) -> str:
        rest = hint["rest"]
        if hint["name"] not in _SLASH_NAMES:
            return hint[0]
        if hint["name"] == "review":
            rest = re.sub(r"--(accept|reject)\b", r"\1", rest)
        return f"{hint['before']}/{_SLASH_NAMES[hint['name']]}{_HINT.sub(rename, rest)}"

    return _HINT.sub(rename, text)


def _describe_stored(rule: str, context: CommandContext) -> str:
    """Return a description of the rule that the note became; empty if it is not stored yet."""
    with context.engine() as engine:
        rules = [one for one in find_rules(engine, Status.ACTIVE) if one.body["rule"] == rule]
    if not rules:
        return ""
    line, description = plain_line(rules[-1]), describe_rule(rules[-1])
    if rule_to_dict(rules[-1])["repeats"] and read_last_change(context, rules[-1]).get("status") == Status.ACTIVE:
        return f"Already a rule: {line}\n    {description}"
    undo = f"Undo: claude-smart forget {short_id(rules[-1].id)}"
    if normalise_item(rule) in read_host_rules(context.folder, with_agents=reads_agents_md(default=True)):
        return f"Already in CLAUDE.md or AGENTS.md, and stored as a rule: {line}\n    {description}. {undo}"
    return f"Stored as a rule: {line}\n    {description}. {undo}"


def _describe_unattended(entry: str, attendance: Attendance) -> str:
    """Return why a note did not become a rule, if the session is not known to be a person's."""
    if attendance is Attendance.PERSON:
        return ""
    waits = "It is a candidate: `claude-smart review`. " if attendance is Attendance.UNKNOWN else ""
    return (
        f"Not stored as a rule: this session's entry point is {entry or 'unknown'!r}, not a terminal, an "
        f"editor or the desktop app. {waits}If a person types here: `claude-smart config programs on`."
    )


def _describe_doubt(doubt: str) -> str:
    """Return why a note did not become a rule, if it is not known to be a person's."""
    if not doubt:
        return ""
    how = "It is a candidate: `claude-smart review` in a terminal of yours accepts it."
    return f"Not stored as a rule: {doubt}. {how}"
