"""What a session's events tell: who said what, what the agent did, and where the person said it was wrong.

The session is a fold over its events: each event adds what follows from it and from those before it, at its own
offset. So reading a longer journal yields the same entries for its beginning, and a drain can go on from a mark.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from ..reading.local import is_same_attempt
from .events import (
    Attendance,
    Event,
    SlashCommand,
    cut_text,
    extract_note,
    extract_spoken,
    get_dict,
    get_dicts,
    get_text,
    has_content,
    parse_command,
)

SHELLS = frozenset(
    """bash powershell pwsh shell terminal cmd zsh run_shell_command run_terminal_cmd exec_command local_shell
    execute_command""".split()
)
EDITORS = frozenset(
    """edit write multiedit notebookedit apply_patch create_file edit_file write_file replace str_replace
    str_replace_editor""".split()
)
_FILE_KEYS = ("file_path", "filePath", "notebook_path", "path")
_TELLING_KEYS = ("command", *_FILE_KEYS, "plan", "pattern", "url", "query", "description", "prompt")
_NEW_KEYS = ("new_string", "content", "new_source", "newString")
_LINE_CHARS = 300
_PLAN_CHARS = 2500
_CHANGE_CHARS = 1500
_ERROR_CHARS = 4000
REPAIR_CALLS = 6
"""So many tool calls later, a command that works is no longer an answer to one that failed."""
REPAIR_TURNS = 1
"""So many times the person may have spoken in between."""

# How a shell tool says that the command failed when the host itself does not.
_BAD_EXIT = re.compile(
    r"\A\s*(?:Error:\s*)?Exit code:? [1-9]\d*\b"
    r"|(?:\A|\n)[^\n]{0,80}\b(?:exited with (?:code|status)|exit (?:code|status):?) [1-9]\d*\.?\s*\Z",
    re.IGNORECASE,
)
_REFUSED = re.compile(r"\s*(?:Error:\s*)?The user doesn't want to (?:proceed with this tool use|take this action)")
_REASON = re.compile(r"(?:the user said|reason for the rejection):\s*(.*)\Z", re.DOTALL)
_ADVICE = "\nNote: The user's next message may contain a correction or preference."


class ToolCall(NamedTuple):
    """A tool call that came to its end."""

    command: str
    """The command line of a shell, the file of an edit, else the most telling argument."""
    offset: int
    is_shell: bool
    is_edit: bool
    ok: bool
    error: str
    is_stopped: bool


def read_call(event: Event) -> ToolCall:
    """Return the call that a PostToolUse or PostToolUseFailure event ends."""
    tool = event.text("tool_name").lower()
    error = event.text("error") if event.name == "PostToolUseFailure" else ""
    is_stopped = event.data.get("is_interrupt") is True or event.data.get("interrupted") is True
    ok = event.name == "PostToolUse" and not is_stopped
    if ok and tool in SHELLS and _BAD_EXIT.search(event.text("output")):
        ok, error = False, event.text("output")
    return ToolCall(find_subject(event), event.offset, tool in SHELLS, tool in EDITORS, ok, error, is_stopped)


def find_subject(event: Event) -> str:
    """Return what a call is about: the command line of a shell, the file of an edit, else its most telling argument."""
    is_edit = event.text("tool_name").lower() in EDITORS
    return get_text(event.tool_input, *(_FILE_KEYS if is_edit else _TELLING_KEYS)).strip()


def describe_call(event: Event) -> str:
    """Return one call in words: "run `npm install`", "edit src/a.ts", "go on with the plan: …"; '' without a tool."""
    tool, subject = event.text("tool_name"), find_subject(event)
    line = cut_text(" ".join(subject.split()), _LINE_CHARS)
    if tool.lower() in SHELLS:
        return f"run `{line}`" if subject else "run a command"
    if tool.lower() in EDITORS:
        new = " ".join(get_text(event.tool_input, *_NEW_KEYS).split())
        return f"edit {subject or 'a file'}" + (f": {cut_text(new, _LINE_CHARS)}" if new else "")
    if tool == "ExitPlanMode":
        return f"go on with the plan: {cut_text(subject, _PLAN_CHARS)}" if subject else "go on with the plan"
    return f"use {tool}" + (f" ({line})" if subject else "") if tool else ""


def is_refusal(error: str) -> bool:
    """Return whether the host's words about a call say that the person did not want it."""
    return bool(_REFUSED.match(error))


def extract_reason(error: str) -> str:
    """Return what the person typed when they refused a call; '' when nothing."""
    match = _REASON.search(error.split(_ADVICE)[0])
    return match[1].strip() if match else ""


def diff_edit(proposed: Event, final: Event) -> str:
    """Return what a person changed in a proposed edit, as a difference of lines; '' when it is not known."""
    before, after = _find_new(proposed.tool_input), final.text("written") or _find_new(final.tool_input)
    if not before or not after:
        return ""
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0))[2:]
    return cut_text("\n".join(line for line in lines if not line.startswith("@@")), _CHANGE_CHARS)


def _find_new(arguments: Mapping[str, Any]) -> str:
    edits = get_dicts(arguments, "edits")
    return "\n".join(get_text(edit, "new_string") for edit in edits) if edits else get_text(arguments, *_NEW_KEYS)


def find_own_answers(event: Event) -> tuple[str, str]:
    """Return the questions put to a person, and what they wrote themselves instead of choosing an offered answer."""
    questions, own = [], []
    replies = get_dict(event.tool_input, "answers")
    for one in get_dicts(event.tool_input, "questions"):
        labels = [get_text(option, "label") for option in get_dicts(one, "options")]
        question = get_text(one, "question")
        reply = get_text(replies, question)
        if reply and reply not in labels and any(part not in labels for part in reply.split(", ")):
            questions.append(f"{question} ({' / '.join(filter(None, labels))})")
            own.append(reply.strip())
    return "\n".join(questions), "\n".join(own)


# -- commands that failed and then worked


@dataclass(slots=True)
class RepairedCommand:
    """A command that failed, why, and the form in which it worked: empty while none did."""

    failed: str
    error: str
    ids: tuple[str, ...]
    worked: str = ""
    offset: int = 0
    edits: int = 0
    """How many edits lay between: with many, it may be the code that was mended and not the command."""
    failures: int = 1
    """How often it failed before the other form worked."""
    calls: int = field(default=0, compare=False)
    turns: int = field(default=0, compare=False)


# -- tool calls: what was run or written, whether it worked, and which commands failed and then worked in another form

_BEFORE_CHARS = 4000
_ACCOUNT_CHARS = 1500
_SHORT_CHARS = 160
_COMMANDS = 8
_FILES = 12
_ABOUT_CHARS = 4000
NOTED = "noted"


class SessionTurn(NamedTuple):
    """Something that was said: by the "user", the "assistant" or a "subagent"."""

    id: str
    speaker: str
    text: str
    at: float
    offset: int
    heard: str = ""
    """The person's own words, where they may hold a wish; empty for the turns of others."""
    before: str = ""
    """What the assistant had said and done before them."""
    attendance: Attendance = Attendance.UNKNOWN
    is_typed: bool = True
    """False for words that stand in what a tool answered, where a program may have put them."""


class Signal(NamedTuple):
    """Something other than a prompt that shows what the person wants: noted, edited or denied.

    A note without a text flags what the person had said before (`what`).
    """

    name: str
    text: str
    at: float
    offset: int
    id: str
    attendance: Attendance = Attendance.UNKNOWN
    what: str = ""
    """The command or the file, or what was talked about, that it is about."""
    tool: str = ""


class ShownRules(NamedTuple):
    """Rules that were put before the assistant."""

    rules: tuple[str, ...]
    where: str
    text: str
    at: float
    offset: int


@dataclass(slots=True)
class CodingSession:
    """All that the events of one session tell."""

    session: str = ""
    project: str = ""
    ended: bool = False
    transcript_path: str = ""
    turns: list[SessionTurn] = field(default_factory=list)
    repairs: list[RepairedCommand] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    shown: list[ShownRules] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    """The commands that were run and the files that were edited."""

    @property
    def heard(self) -> list[SessionTurn]:
        """The turns in which a person may have said what they want."""
        return [turn for turn in self.turns if turn.heard]


def build_session(events: Iterable[Event]) -> CodingSession:
    """Return what the events of a session tell."""
    builder = SessionBuilder()
    for event in events:
        builder.add(event)
    return builder.session


@dataclass(slots=True)
class _Reply:
    """What the assistant said and did since the person last spoke, as far as the person could see it."""

    last: str = ""
    """The last words, also of an earlier reply."""
    said: str = ""
    commands: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    begun: dict[str, str] = field(default_factory=dict)

    def describe(self) -> str:
        """Return what the next words of the person may be about."""
        done = []
        for verb, separator, items, most in (
            ("ran", "; ", self.commands, _COMMANDS),
            ("edited", ", ", self.files, _FILES),
            ("was about to", "; ", list(self.begun.values()), _COMMANDS),
        ):
            if items:
                newest = items if len(items) <= most else ["…", *items[-most:]]
                done.append(f"{verb} {separator.join(newest)}")
        account = cut_text(f"[{'. '.join(done)}]", _ACCOUNT_CHARS) if done else ""
        said = self.said or ("" if done else self.last)
        return "\n".join(filter(None, (cut_text(said, _BEFORE_CHARS - len(account) - 1), account)))


class SessionBuilder:
    """Folds the events of a session, one after the other, into `session`."""

    def __init__(self) -> None:
        self.session = CodingSession()
        self._known: set[str] = set()
        self._waiting: dict[str, list[RepairedCommand]] = {}
        """The failed commands that still wait for a form that works, for each agent apart."""
        self._reply = _Reply()
        self._stops: list[tuple[str, str]] = []
        """The id of the prompt and the words of each answer since the last prompt."""
        self._last_prompt = ("", "", "")
        self._last_said = ""
        self._proposed: dict[str, Event] = {}
        self._refused: set[str] = set()
        self._attendance = Attendance.UNKNOWN
        self._handlers = {
            "UserPromptSubmit": self._add_prompt,
            "UserPromptExpansion": self._add_prompt,
            "PreToolUse": self._begin_call,
            "PostToolUse": self._end_call,
            "PostToolUseFailure": self._end_call,
            "PermissionDenied": self._add_denial,
            "Stop": self._add_reply,
            "SubagentStop": self._add_reply,
            "Rejected": self._add_refusal,
            "Remarked": self._add_remark,
            "Shown": self._add_shown,
        }

    def add(self, event: Event) -> None:
        if event.id in self._known:
            return
        self._known.add(event.id)
        self.session.session = self.session.session or event.session
        self.session.project = self.session.project or event.project
        # A session may be begun by a program and taken up by a person; what is added from a transcript does not say.
        self._attendance = event.attendance or self._attendance
        if event.name in ("SessionStart", "SessionEnd"):
            self.session.ended = event.name == "SessionEnd"
            self.session.transcript_path = event.text("transcript_path") or self.session.transcript_path
        elif handle := self._handlers.get(event.name):
            handle(event)

    # -- what was said

    def _add_prompt(self, event: Event) -> None:
        """Add a prompt of the person, or one that the host made. A command comes twice: as typed and as expanded."""
        prompt, name = event.text("prompt"), event.text("command_name").lstrip("/")
        typed = f"/{name} {event.text('command_args')}".strip() if name else ""
        # The prompt of an expanded command may be the text of the command's file: only what was typed is a person's.
        words = typed if event.name == "UserPromptExpansion" else prompt or typed
        compared = (prompt if prompt.lstrip().startswith("/") else words).strip()
        if command := parse_command(compared):
            # It is the same command with and without the name of its plug-in.
            compared = f"/{command.name.rpartition(':')[2]} {command.words}"
        last, self._last_prompt = self._last_prompt, (event.name, event.text("prompt_id"), compared)
        is_repeated = last[1:] == self._last_prompt[1:] and "UserPromptExpansion" in (last[0], event.name)
        # A hook may tell of both as expanded, and a host may not number prompts.
        if is_repeated and (last[0] != event.name or not last[1]):
            self._last_prompt = ("", "", "")
            return
        if event.agent_id:
            return
        self._stops.clear()
        said = extract_spoken(words, event.text("source"))
        command = parse_command(said)
        if command is not None and command.is_ours:
            self._add_note(event, command, said)
        elif said and (command is None or command.is_worth_keeping):
            heard = said if has_content(said) else ""
            if command is not None:
                heard = command.words if command.is_worth_hearing else ""
            self._add_turn(event, "user", said, heard, self._reply.describe())
            self._last_said = said
            for failure in chain.from_iterable(self._waiting.values()):
                failure.turns += 1
            self._reply = _Reply(self._reply.last)

    def _add_turn(
        self, event: Event, speaker: str, said: str, heard: str = "", before: str = "", is_typed: bool = True
    ) -> None:
        context = (cut_text(before, _BEFORE_CHARS), self._attendance, is_typed) if heard else ()
        self.session.turns.append(SessionTurn(event.id, speaker, said, event.at, event.offset, heard, *context))

    def _add_note(self, event: Event, command: SlashCommand, said: str) -> None:
        note = extract_note(command.words)
        is_flag = command.name == "tag" and not command.words and bool(self._last_said)
        if command.name not in ("tag", "learn") or not (note or is_flag):
            return
        if note:
            self._add_turn(event, "user", said)
        about = self._reply.last or self._last_said if note else self._last_said
        self._add_signal(NOTED, event, note, cut_text(about, _ABOUT_CHARS))

    def _add_reply(self, event: Event) -> None:
        said, prompt_id = event.text("last_assistant_message").strip(), event.text("prompt_id")
        if event.name == "SubagentStop" or event.agent_id:
            # The host's own helpers (what summarises for a compaction) have no type.
            reply = f"{event.agent_id or event.text('agent_id')}\0{said}"
            if said and event.data.get("agent_type") != "" and reply not in self._known:
                self._known.add(reply)
                self._add_turn(event, "subagent", said)
            return
        self._last_prompt = ("", "", "")
        # A call that never ended by now is none that the person could mean.
        self._reply.begun.clear()
        is_hooked = event.data.get("stop_hook_active") is True
        # The same words again for the same prompt. What a Stop hook of somebody else's made it add is new.
        is_repeated = any(
            (said == known or (is_hooked and said in known)) and (not prompt_id or known_id in ("", prompt_id))
            for known_id, known in self._stops
        )
        if said and not is_repeated:
            self._stops.append((prompt_id, said))
            self._reply.said = self._reply.last = said
            self._add_turn(event, "assistant", said)

    # -- what was done

    def _begin_call(self, event: Event) -> None:
        if call_id := event.text("tool_use_id"):
            self._proposed[call_id] = event
            if not event.agent_id:
                self._reply.begun[call_id] = describe_call(event)

    def _close_call(self, event: Event) -> Event:
        """Forget a call that ended; return the event that began it, or this one."""
        self._reply.begun.pop(event.text("tool_use_id"), None)
        return self._proposed.pop(event.text("tool_use_id"), event)

    def _end_call(self, event: Event) -> None:
        if event.name == "PostToolUseFailure" and is_refusal(event.text("error")):
            self._add_refusal(event)
            return
        call, proposed = read_call(event), self._close_call(event)
        self._track_repairs(event, call)
        if (call.is_shell or call.is_edit) and call.command:
            self.session.calls.append(call)
            if call.is_shell and not event.agent_id:
                failed = "" if call.ok else ", which was stopped" if call.is_stopped else ", which failed"
                self._reply.commands.append(f"`{cut_text(' '.join(call.command.split()), _SHORT_CHARS)}`{failed}")
            elif call.ok and not event.agent_id and call.command not in self._reply.files:
                self._reply.files.append(call.command)
        if event.data.get("user_modified") is True and not call.is_stopped:
            change = diff_edit(proposed, event)
            text = f"The person changed what was proposed for {call.command or 'a file'}"
            self._add_signal("edited", event, f"{text}:\n{change}" if change else text, call.command)
        asked, own = find_own_answers(event)
        if own:
            self._add_turn(event, "user", own, own, f"[asked: {asked}]", is_typed=False)

    def _track_repairs(self, event: Event, call: ToolCall) -> None:
        """Count a call towards the commands that failed before, and add those that it is the working form of."""
        waiting = self._waiting.setdefault(event.agent_id, [])
        for failure in waiting:
            failure.calls += 1
            failure.edits += call.is_edit and call.ok
        waiting[:] = [one for one in waiting if one.calls <= REPAIR_CALLS and one.turns <= REPAIR_TURNS]
        if not call.is_shell or not call.command:
            return
        same = [one for one in waiting if one.failed.split() == call.command.split()]
        if call.ok and event.tool_input.get("run_in_background") is not True:
            # A command that works as it was needs no other form: something else had been wrong.
            solved = [one for one in waiting if one not in same and is_same_attempt(one.failed, call.command)]
            for one in solved:
                one.worked, one.offset, one.ids = call.command, event.offset, (*one.ids, event.id)
            waiting[:] = [one for one in waiting if one not in same and one not in solved]
            self.session.repairs += solved
        elif call.error.strip() and not call.ok and not call.is_stopped:
            # A command that fails again is one failure, as it was last, counted.
            failures = 1 + sum(one.failures for one in same)
            error = cut_text(call.error, _ERROR_CHARS, 0.75)
            waiting[:] = [one for one in waiting if one not in same]
            waiting.append(RepairedCommand(call.command, error, (event.id,), failures=failures))

    def _add_denial(self, event: Event) -> None:
        self._close_call(event)
        text = ": ".join(filter(None, (describe_call(event), event.text("reason").strip())))
        self._add_signal("denied", event, text, find_subject(event))

    def _add_refusal(self, event: Event) -> None:
        """Add what the person said as they refused a call: once, also if a hook and the transcript report it."""
        # Any tool can fail with such a text: only the host marks what a person typed.
        said = event.text("text").strip() or extract_reason(event.text("error"))
        call_id = event.text("tool_use_id")
        if said and call_id not in self._refused:
            self._refused |= {call_id} if call_id else set()
            doing = describe_call(self._find_call(event))
            self._close_call(event)
            before = f"[was about to {doing}, and was refused]" if doing else ""
            heard = said if has_content(said) else ""
            self._add_turn(event, "user", said, heard, before, is_typed=event.data.get("marked") is True)

    def _add_remark(self, event: Event) -> None:
        """Add words that the person put beside a call as they let it pass.

        They may be known late, so what is being talked about now stays as it is.
        """
        if said := extract_spoken(event.text("text")):
            doing = describe_call(self._find_call(event))
            heard = said if has_content(said) else ""
            self._add_turn(event, "user", said, heard, f"[was allowed to {doing}]" if doing else "")

    def _find_call(self, event: Event) -> Event:
        """Return the event that names the call that an event is about; the event itself if none is known."""
        return event if event.text("tool_name") else self._proposed.get(event.text("tool_use_id"), event)

    def _add_signal(self, name: str, event: Event, text: str, what: str) -> None:
        tool = event.text("tool_name")
        self.session.signals.append(Signal(name, text, event.at, event.offset, event.id, self._attendance, what, tool))

    def _add_shown(self, event: Event) -> None:
        rules = event.data.get("rules")
        ids = tuple(rule for rule in rules if isinstance(rule, str)) if isinstance(rules, list) else ()
        self.session.shown.append(ShownRules(ids, event.text("where"), event.text("text"), event.at, event.offset))
