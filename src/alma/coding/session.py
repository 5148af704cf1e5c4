"""Build a session from its events: who said what, what the agent did, and where the person corrected it.

The session is a fold over its events: each event adds entries, at its own offset, that depend only on it and on earlier
events. So a longer journal yields the same entries for its beginning, and a drain can continue from a mark.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

from ..hand_ins import begins_hand_in
from ..reading.local import is_same_attempt
from ..source_text import ReaderText, find_reader_text, lists_names
from ..word_prints import list_name_parts
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
from .exchanges import Account, Deed, OutsideText

SHELLS = frozenset(
    """bash powershell pwsh shell terminal cmd zsh run_shell_command run_terminal_cmd exec_command local_shell
    execute_command""".split()
)
EDITORS = frozenset(
    """edit write multiedit notebookedit apply_patch create_file edit_file write_file replace str_replace
    str_replace_editor""".split()
)
_FILE_KEYS = ("file_path", "filePath", "notebook_path", "path")
_SUBJECT_KEYS = ("command", *_FILE_KEYS, "plan", "pattern", "url", "query", "description", "prompt")
_NEW_KEYS = ("new_string", "content", "new_source", "newString")
_LINE_CHARS = 300
_PLAN_CHARS = 2500
_CHANGE_CHARS = 1500
_ERROR_CHARS = 4000
REPAIR_CALLS = 6
"""After so many tool calls, a command that works is no longer a repair of one that failed."""
REPAIR_TURNS = 1
"""How many turns of the person may lie between the failure and the repair."""

# How the output of a shell tool reports a failed command if the host itself does not.
_BAD_EXIT = re.compile(
    r"\A\s*(?:Error:\s*)?Exit code:? [1-9]\d*\b"
    r"|(?:\A|\n)[^\n]{0,80}\b(?:exited with (?:code|status)|exit (?:code|status):?) [1-9]\d*\.?\s*\Z",
    re.IGNORECASE,
)
_REFUSED = re.compile(r"\s*(?:Error:\s*)?The user doesn't want to (?:proceed with this tool use|take this action)")
_REASON = re.compile(r"(?:the user said|reason for the rejection):\s*(.*)\Z", re.DOTALL)
_ADVICE = "\nNote: The user's next message may contain a correction or preference."


class ToolCall(NamedTuple):
    """A finished tool call."""

    command: str
    """The command line of a shell, the file of an edit, or the main argument of another tool."""
    offset: int
    is_shell: bool
    is_edit: bool
    ok: bool
    error: str
    is_stopped: bool


def read_call(event: Event) -> ToolCall:
    """Return the finished call that a PostToolUse or PostToolUseFailure event reports."""
    tool = event.text("tool_name").lower()
    error = event.text("error") if event.name == "PostToolUseFailure" else ""
    is_stopped = event.data.get("is_interrupt") is True or event.data.get("interrupted") is True
    ok = event.name == "PostToolUse" and not is_stopped
    if ok and tool in SHELLS and (event.data.get("exit_code") or _BAD_EXIT.search(event.text("output"))):
        ok, error = False, event.text("output") or f"Exit code {event.data['exit_code']}"
    return ToolCall(find_subject(event), event.offset, tool in SHELLS, tool in EDITORS, ok, error, is_stopped)


def find_subject(event: Event) -> str:
    """Return the subject of a call: the command line of a shell, the file of an edit, or its main argument."""
    is_edit = event.text("tool_name").lower() in EDITORS
    return get_text(event.tool_input, *(_FILE_KEYS if is_edit else _SUBJECT_KEYS)).strip()


def describe_call(event: Event) -> str:
    """Return a call in words: "run `npm install`", "edit src/a.ts", "go on with the plan: …"; '' without a tool."""
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
    """Return whether an error text reports that the person refused the call."""
    return bool(_REFUSED.match(error))


def extract_reason(error: str) -> str:
    """Return the reason that the person typed when they refused a call; empty if there is none."""
    match = _REASON.search(error.split(_ADVICE)[0])
    return match[1].strip() if match else ""


def diff_edit(proposed: Event, final: Event) -> str:
    """Return what a person changed in a proposed edit, as a line diff; empty if it is unknown."""
    before, after = _find_new(proposed.tool_input), final.text("written") or _find_new(final.tool_input)
    if not before or not after:
        return ""
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0))[2:]
    return cut_text("\n".join(line for line in lines if not line.startswith("@@")), _CHANGE_CHARS)


def _find_new(arguments: Mapping[str, Any]) -> str:
    edits = get_dicts(arguments, "edits")
    return "\n".join(get_text(edit, "new_string") for edit in edits) if edits else get_text(arguments, *_NEW_KEYS)


def find_own_answers(event: Event) -> tuple[str, str]:
    """Return the questions that a person answered in their own words instead of choosing an option, and the answers."""
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


def _find_old(arguments: Mapping[str, Any]) -> str:
    edits = get_dicts(arguments, "edits")
    if edits:
        return "\n".join(get_text(edit, "old_string") for edit in edits)
    return get_text(arguments, "old_string", "oldString")


# -- commands that failed and then worked


@dataclass(slots=True)
class RepairedCommand:
    """A command that failed, its error, and the form of it that worked; `worked` is empty until one does."""

    failed: str
    error: str
    ids: tuple[str, ...]
    worked: str = ""
    offset: int = 0
    edits: int = 0
    """How many edits came in between. With many, the code may have been fixed, not the command."""
    failures: int = 1
    """How often it failed before the other form worked."""
    calls: int = field(default=0, compare=False)
    turns: int = field(default=0, compare=False)


# -- the parts of a session

_BEFORE_CHARS = 4000
_ACCOUNT_CHARS = 1500
_SHORT_CHARS = 160
_COMMANDS = 8
_FILES = 12
_ABOUT_CHARS = 4000
NOTED = "noted"
EXITED = "Exited"


class SessionTurn(NamedTuple):
    """A turn of a conversation by the "user", the "assistant" or a "subagent"."""

    id: str
    speaker: str
    text: str
    at: float
    offset: int
    user_words: str = ""
    """The person's own words, if they may state a preference; empty for other turns."""
    before: str = ""
    """What the assistant said and did before."""
    attendance: Attendance = Attendance.UNKNOWN
    is_typed: bool = True
    """False for words from a tool's response, which a program may have written."""
    doubt: str = ""
    """Why they are not known to be a person's words."""


class Exchange(NamedTuple):
    """What the agent had done, what the person said to it, and what the agent did then."""

    turn: SessionTurn
    number: int
    """How many turns the person had before; 0 for the first request of a session."""
    before: Account
    then: Account


class Signal(NamedTuple):
    """Something other than a prompt that shows a preference of the person: a note, an edit or a denied call.

    A note without a text refers to the person's previous turn (`what`).
    """

    name: str
    text: str
    at: float
    offset: int
    id: str
    attendance: Attendance = Attendance.UNKNOWN
    what: str = ""
    """The command, the file or the text that it is about."""
    tool: str = ""
    doubt: str = ""
    """Why it is not known to be a person's."""


class ShownRules(NamedTuple):
    """Rules that were shown to the assistant, and when."""

    rules: tuple[str, ...]
    where: str
    text: str
    at: float
    offset: int


@dataclass(slots=True)
class CodingSession:
    """A session as its events describe it."""

    session: str = ""
    project: str = ""
    host: str = ""
    """The coding agent; empty in journals of versions that recorded Claude Code only."""
    ended: bool = False
    transcript_path: str = ""
    turns: list[SessionTurn] = field(default_factory=list)
    repairs: list[RepairedCommand] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    shown_rules: list[ShownRules] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    """The finished shell commands and file edits."""
    exchanges: list[Exchange] = field(default_factory=list)
    outside: OutsideText = field(default_factory=OutsideText)

    @property
    def user_turns(self) -> list[SessionTurn]:
        """Return the turns in which a person may have stated a preference."""
        return [turn for turn in self.turns if turn.user_words]


def build_session(events: Iterable[Event]) -> CodingSession:
    """Return the session that these events describe.

    An Exited event, which comes from a host's transcript, adds the exit code to the result of an earlier command.
    """
    builder, events = SessionBuilder(), list(events)
    codes = {one.text("tool_use_id"): one.data.get("exit_code") for one in events if one.name == EXITED}
    for event in events:
        if event.name == "PostToolUse" and (code := codes.get(event.text("tool_use_id"))):
            event = replace(event, data={**event.data, "exit_code": code})
        builder.add(event)
    return builder.session


@dataclass(slots=True)
class _Reply:
    """What the assistant said and did since the person's last turn, as far as the person could see it."""

    last: str = ""
    """The assistant's most recent text, even if it is from an earlier reply."""
    text: str = ""
    commands: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    open_calls: dict[str, str] = field(default_factory=dict)

    def describe(self) -> str:
        """Return a summary of what the person's next turn may refer to."""
        actions = []
        for verb, separator, items, most in (
            ("ran", "; ", self.commands, _COMMANDS),
            ("edited", ", ", self.files, _FILES),
            ("was about to", "; ", list(self.open_calls.values()), _COMMANDS),
        ):
            if items:
                newest = items if len(items) <= most else ["…", *items[-most:]]
                actions.append(f"{verb} {separator.join(newest)}")
        account = cut_text(f"[{'. '.join(actions)}]", _ACCOUNT_CHARS) if actions else ""
        text = self.text or ("" if actions else self.last)
        return "\n".join(filter(None, (cut_text(text, _BEFORE_CHARS - len(account) - 1), account)))


class SessionBuilder:
    """Folds the events of a session into `session`, one at a time."""

    def __init__(self) -> None:
        self.session = CodingSession()
        self._seen_ids: set[str] = set()
        self._waiting: dict[str, list[RepairedCommand]] = {}
        """The failed commands without a working form so far, by agent."""
        self._reply = _Reply()
        self._stops: list[tuple[str, str]] = []
        """The prompt id and the text of each reply since the last prompt."""
        self._last_prompt = ("", "", "")
        self._last_user_text = ""
        self._proposed: dict[str, Event] = {}
        self._refused: set[str] = set()
        self._attendance = Attendance.UNKNOWN
        self._account = Account()
        """What the agent did and said since the person's last turn."""
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
        """Add the next event. An event with a known id is ignored."""
        if event.id in self._seen_ids:
            return
        self._seen_ids.add(event.id)
        self.session.session = self.session.session or event.session
        self.session.project = self.session.project or event.project
        self.session.host = self.session.host or event.host
        # A program may start a session that a person continues. Events from a transcript do not record who drives it.
        if not event.doubt or event.attendance is not Attendance.PERSON:
            self._attendance = event.attendance or self._attendance
        if event.name in ("SessionStart", "SessionEnd"):
            self.session.ended = event.name == "SessionEnd"
            self.session.transcript_path = event.text("transcript_path") or self.session.transcript_path
        elif handle := self._handlers.get(event.name):
            handle(event)

    # -- turns

    def _add_prompt(self, event: Event) -> None:
        """Add the turn of a prompt. The host reports a command twice: as typed and as expanded."""
        prompt, name = event.text("prompt"), event.text("command_name").lstrip("/")
        typed = f"/{name} {event.text('command_args')}".strip() if name else ""
        # The prompt of an expanded command may be the text of the command's file. Only the typed text is a person's.
        words = typed if event.name == "UserPromptExpansion" else prompt or typed
        compared = (prompt if prompt.lstrip().startswith("/") else words).strip()
        if command := parse_command(compared):
            # A command is the same with and without its plugin prefix.
            compared = f"/{command.name.rpartition(':')[2]} {command.words}"
        last, self._last_prompt = self._last_prompt, (event.name, event.text("prompt_id"), compared)
        is_repeated = last[1:] == self._last_prompt[1:] and "UserPromptExpansion" in (last[0], event.name)
        # A hook may report both as expanded, and a host may give prompts no id.
        if is_repeated and (last[0] != event.name or not last[1]):
            self._last_prompt = ("", "", "")
            return
        if event.agent_id:
            return
        self._stops.clear()
        text = extract_spoken(words, event.text("source"))
        # What the host or another agent put into the prompt, and what was pasted. Words that are typed as well are not
        # counted as from outside.
        self.session.outside.add(event.offset, words, prints=event.text("prints"))
        command = parse_command(text)
        if command is not None and command.is_ours:
            self._add_note(event, command, text)
        elif text and (command is None or command.is_worth_keeping):
            user_words = text if has_content(text) else ""
            if command is not None:
                user_words = command.words if command.is_worth_hearing else ""
            user_words = self.session.outside.remove_quotations(user_words)
            self._add_turn(event, "user", text, user_words, self._reply.describe())
            self._last_user_text = text
            for failure in chain.from_iterable(self._waiting.values()):
                failure.turns += 1
            self._reply = _Reply(self._reply.last)

    def _add_turn(
        self, event: Event, speaker: str, text: str, user_words: str = "", before: str = "", is_typed: bool = True
    ) -> None:
        attendance = self._find_attendance(event)
        context = (cut_text(before, _BEFORE_CHARS), attendance, is_typed, event.doubt) if user_words else ()
        turn = SessionTurn(event.id, speaker, text, event.at, event.offset, user_words, *context)
        self.session.turns.append(turn)
        if speaker == "user":
            earlier, self._account = self._account, Account()
            exchange = Exchange(turn, len(self.session.exchanges), earlier, self._account)
            self.session.exchanges.append(exchange)

    def _add_note(self, event: Event, command: SlashCommand, text: str) -> None:
        note = extract_note(command.words)
        is_flag = command.name == "tag" and not command.words and bool(self._last_user_text)
        if command.name not in ("tag", "learn") or not (note or is_flag):
            return
        if note:
            self._add_turn(event, "user", text)
        about = self._reply.last or self._last_user_text if note else self._last_user_text
        self._add_signal(NOTED, event, note, cut_text(about, _ABOUT_CHARS))

    def _add_reply(self, event: Event) -> None:
        text, prompt_id = event.text("last_assistant_message").strip(), event.text("prompt_id")
        if event.name == "SubagentStop" or event.agent_id:
            # The host's own helpers, such as the one that summarises for a compaction, have no type.
            reply = f"{event.agent_id or event.text('agent_id')}\0{text}"
            if text and event.data.get("agent_type") != "" and reply not in self._seen_ids:
                self._seen_ids.add(reply)
                self._add_turn(event, "subagent", text)
                self.session.outside.add(event.offset, text, prints=event.text("prints"))
                self.session.outside.add_quotable(text)
            return
        self._last_prompt = ("", "", "")
        # The person's next turn cannot refer to a call that has not ended by now.
        self._reply.open_calls.clear()
        is_hooked = event.data.get("stop_hook_active") is True
        # The same text for the same prompt is a repetition. Text that another plugin's Stop hook caused is new.
        is_repeated = any(
            (text == earlier or (is_hooked and text in earlier)) and (not prompt_id or earlier_id in ("", prompt_id))
            for earlier_id, earlier in self._stops
        )
        if text and not is_repeated:
            self._stops.append((prompt_id, text))
            self._reply.text = self._reply.last = text
            self._add_turn(event, "assistant", text)
            self._account.add_message(event.offset, text)

    # -- tool calls

    def _begin_call(self, event: Event) -> None:
        if call_id := event.text("tool_use_id"):
            self._proposed[call_id] = event
            if not event.agent_id:
                self._reply.open_calls[call_id] = describe_call(event)

    def _close_call(self, event: Event) -> Event:
        """Remove an open call. Return the event that began it, or `event` if it is unknown."""
        self._reply.open_calls.pop(event.text("tool_use_id"), None)
        return self._proposed.pop(event.text("tool_use_id"), event)

    def _end_call(self, event: Event) -> None:
        if event.name == "PostToolUseFailure" and is_refusal(event.text("error")):
            self._add_refusal(event)
            return
        call, proposed = read_call(event), self._close_call(event)
        if call.is_shell and begins_hand_in(call.command):
            # It may quote anything, so it vouches for nothing.
            self.session.outside.add(event.offset, event.text("output"), call.error, prints=event.text("prints"))
            return
        self._track_repairs(event, call)
        self._add_deed(event, proposed, call)
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
        questions, own = find_own_answers(event)
        if own:
            self._add_turn(event, "user", own, own, f"[asked: {questions}]", is_typed=False)

    def _add_deed(self, event: Event, proposed: Event, call: ToolCall) -> None:
        """Add a finished call to what the agent did, and what it returned to what came from outside."""
        arguments = {**proposed.tool_input, **event.tool_input}
        is_own = not event.agent_id and not call.is_stopped
        if is_own and call.is_shell and call.command:
            self._account.add_deed(Deed(event.offset, call.ok, command=call.command, error=call.error))
        elif is_own and call.is_edit and call.command:
            written, removed = _find_new(arguments), _find_old(arguments)
            self._account.add_deed(Deed(event.offset, call.ok, path=call.command, written=written, removed=removed))
        outside, output = self.session.outside, event.text("output")
        if call.is_shell and lists_names(call.command):
            # The agent may use the names of files, but not what a name says.
            outside.add_names(event.offset, list_name_parts(output))
        elif not call.is_edit:
            shown = ReaderText(output)
            if call.ok:
                shown = find_reader_text(event.text("tool_name"), arguments, output, event.folder)
            outside.add(event.offset, shown.text, call.error, prints=event.text("prints"), names=shown.names)
            outside.add_quotable(output, call.error)

    def _track_repairs(self, event: Event, call: ToolCall) -> None:
        """Count a call for the commands that failed before, and record those that it repairs."""
        waiting = self._waiting.setdefault(event.agent_id, [])
        for failure in waiting:
            failure.calls += 1
            failure.edits += call.is_edit and call.ok
        waiting[:] = [one for one in waiting if one.calls <= REPAIR_CALLS and one.turns <= REPAIR_TURNS]
        if not call.is_shell or not call.command:
            return
        same = [one for one in waiting if one.failed.split() == call.command.split()]
        if call.ok and event.tool_input.get("run_in_background") is not True:
            # A command that now works unchanged is not a repair: something else had been wrong.
            repairs = [one for one in waiting if one not in same and is_same_attempt(one.failed, call.command)]
            for one in repairs:
                one.worked, one.offset, one.ids = call.command, event.offset, (*one.ids, event.id)
            waiting[:] = [one for one in waiting if one not in same and one not in repairs]
            self.session.repairs += repairs
        elif call.error.strip() and not call.ok and not call.is_stopped:
            # A command that fails again stays one entry, with its latest error and a count.
            failures = 1 + sum(one.failures for one in same)
            error = cut_text(call.error, _ERROR_CHARS, 0.75)
            waiting[:] = [one for one in waiting if one not in same]
            waiting.append(RepairedCommand(call.command, error, (event.id,), failures=failures))

    def _add_denial(self, event: Event) -> None:
        self._close_call(event)
        text = ": ".join(filter(None, (describe_call(event), event.text("reason").strip())))
        self._add_signal("denied", event, text, find_subject(event))

    def _add_refusal(self, event: Event) -> None:
        """Add the person's words with a refused call, once even if a hook and the transcript both report it."""
        # Any tool can fail with such a text. Only a mark by the host proves that a person typed it.
        text = event.text("text").strip() or extract_reason(event.text("error"))
        call_id = event.text("tool_use_id")
        if text and call_id not in self._refused:
            self._refused |= {call_id} if call_id else set()
            doing = describe_call(self._find_call(event))
            self._close_call(event)
            before = f"[was about to {doing}, and was refused]" if doing else ""
            user_words = text if has_content(text) else ""
            self._add_turn(event, "user", text, user_words, before, is_typed=event.data.get("marked") is True)

    def _add_remark(self, event: Event) -> None:
        """Add the person's words with an allowed call.

        They may be reported late, so the current reply is left as it is.
        """
        if text := extract_spoken(event.text("text")):
            doing = describe_call(self._find_call(event))
            user_words = text if has_content(text) else ""
            self._add_turn(event, "user", text, user_words, f"[was allowed to {doing}]" if doing else "")

    def _find_call(self, event: Event) -> Event:
        """Return the event that began the call of an event; the event itself if that is unknown."""
        return event if event.text("tool_name") else self._proposed.get(event.text("tool_use_id"), event)

    def _add_signal(self, name: str, event: Event, text: str, what: str) -> None:
        place = (event.at, event.offset, event.id, self._find_attendance(event))
        self.session.signals.append(Signal(name, text, *place, what, event.text("tool_name"), event.doubt))

    def _find_attendance(self, event: Event) -> Attendance:
        """Return who said what an event reports."""
        is_doubted = event.doubt and self._attendance is Attendance.PERSON
        return Attendance.UNKNOWN if is_doubted else self._attendance

    def _add_shown(self, event: Event) -> None:
        # What an agent was shown of other sessions is not its own.
        self.session.outside.add(event.offset, prints=event.text("prints"))
        rules = event.data.get("rules")
        ids = tuple(rule for rule in rules if isinstance(rule, str)) if isinstance(rules, list) else ()
        self.session.shown_rules.append(
            ShownRules(ids, event.text("where"), event.text("text"), event.at, event.offset)
        )
