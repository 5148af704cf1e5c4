"""Decide which events of a journal a person caused: an agent may append lines, and run the hook with events it made up.

A prompt is a person's if the hook wrote its line, the session's own host started the hook, no command that names our
programs was running, and the host's transcript contains the prompt. For a host without a transcript, no command of the
agent may have been running at all. Other prompts are kept and imported with the reason for the doubt, so that what they
teach waits for a person.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from itertools import chain

from .. import people
from ..coding.events import Attendance, Event, extract_spoken, parse_command, parse_journal, restore_typed
from ..coding.transcript import find_results, find_spoken, read_lines
from ..processes import find_caller
from . import origin
from .hosts import clean_prompt
from .journal import HookCall, cut_prompt, is_sealed
from .origin import AGENT, COMMAND, HOST, PROMPTS, TRANSCRIPT, UNKNOWN
from .paths import DataDir, file_name, read_key
from .starts import find_running, may_write_result

NOT_RECORDED = "nothing is recorded here, so the agent's commands are not known"
NOT_SEALED = "its line in the journal was not written by the hook"
NOT_FROM_HOST = "the session's host did not send it"
DRIVEN = "another agent drives this session"
FORGED_START = "its session began inside a command of an agent, or in a script that one may have left behind"
ANNOUNCED = "it came while the agent ran a command that names claude-smart"
IN_COMMAND = "it came while the agent ran a command"
NO_STARTS = "this agent does not report when a command begins"
NOT_FOUND = "it is not in the host's transcript"
NOT_FOUND_THERE = "it was read from a file that the session's host did not name"
TRANSCRIPT_BYTES = 64 * 1024 * 1024
SOON_SECONDS = 10.0
"""A host may write its transcript a moment later."""
LATEST_SECONDS = 120.0
"""A prompt whose turn has not ended is waited for as long as this."""
_ENDS = frozenset(("Stop", "SessionEnd"))
_WITHOUT_STARTS = frozenset(("amp",))
"""Hosts whose adapter learns of a command only when it has ended."""
_FROM_TRANSCRIPT = frozenset(("Rejected", "Remarked"))


class JournalJudge:
    """Reads one journal and decides who caused its events."""

    def __init__(self, data_dir: DataDir, path: str, data: bytes) -> None:
        key = read_key(data_dir)
        self.events, _ = parse_journal(data, lambda line, file: is_sealed(line, key, file))
        self._data = data
        session = self.events[0].session if self.events else ""
        is_own = os.path.basename(path) == f"{file_name(session)}.jsonl"
        # A line may have been copied from the journal of another session.
        self._sealed = {one.id for one in self.events if one.is_sealed and is_own and one.session == session}
        starts = [one for one in self.events if one.id in self._sealed and one.origin]
        self._start = starts[0].origin if starts else ""
        self.transcripts = find_transcripts(starts)
        self._calls = people.list_shell_calls(data)
        self._host = next((one.host for one in self.events if one.host), "claude")
        # Their transcripts tell which commands have ended, also if a person interrupted them.
        self._has_results = self._host in origin.RESULT_HOSTS

    def judge(self) -> tuple[list[Event], int]:
        """Return the events with what speaks against them, and up to which position of the journal that is decided."""
        judged: list[Event] = []
        last = max((one.at for one in self.events if one.name in _ENDS), default=0.0)
        for event in self.events:
            doubt = self._find_doubt(event)
            if doubt == NOT_FOUND and self._may_follow(event, is_over=last >= event.at):
                before = judged[-1].offset if judged else 0
                return judged, before
            if doubt == DRIVEN:
                event = replace(event, attendance=Attendance.PROGRAM)
            judged.append(replace(event, doubt=doubt) if doubt else event)
        return judged, len(self._data)

    def find_current_doubt(self, sender: str, began: float) -> str:
        """Return what speaks against one of our slash commands that arrives now, from a host that began at a time."""
        if AGENT in (sender, self._start):
            return DRIVEN
        if self._start == COMMAND:
            return FORGED_START
        if sender != HOST:
            return NOT_FROM_HOST
        transcript = self.transcripts[-1] if self.transcripts and self._has_results else ""
        return IN_COMMAND if find_running(self._calls, transcript, began) else ""

    def _find_doubt(self, event: Event) -> str:
        if event.name == "Journal":
            return ""
        if event.id not in self._sealed:
            return NOT_SEALED
        if AGENT in (event.origin, self._start):
            return DRIVEN
        if event.name in _FROM_TRANSCRIPT:
            return "" if event.origin == TRANSCRIPT and self._is_answer(event) else NOT_FOUND_THERE
        is_edit = event.name == "PostToolUse" and event.data.get("user_modified") is True
        if event.name not in PROMPTS and not is_edit:
            return ""
        if self._start == COMMAND:
            return FORGED_START
        if event.origin not in (HOST, UNKNOWN) and not (is_edit and not event.origin):
            return NOT_FROM_HOST
        running = [call for call in self._calls if self._is_running(call, event.offset, event.at)]
        if any(call.names_us for call in running):
            return ANNOUNCED
        if self._host in _WITHOUT_STARTS:
            return NO_STARTS
        if is_edit or is_own_command(event) or not self.transcripts:
            unknown = NOT_FROM_HOST if event.origin == UNKNOWN else ""
            return IN_COMMAND if running else unknown
        if self._has_results and any(not call.agent for call in running):
            return IN_COMMAND
        return "" if self._is_in_transcript(event) else NOT_FOUND

    def _is_answer(self, event: Event) -> bool:
        """Return whether a person's answer to a call fits what the hook saw: an agent can write into a transcript.

        The host announced the call, wrote one result of it, and did not run a call that was refused.
        """
        call = event.text("tool_use_id")
        seen = {one.name for one in self.events if one.id in self._sealed and one.text("tool_use_id") == call}
        is_run = not seen.isdisjoint(("PostToolUse", "PostToolUseFailure"))
        is_refused = event.name == "Rejected"
        return "PreToolUse" in seen and self._result_counts[call] == 1 and not (is_refused and is_run)

    def _is_running(self, call: people.ShellCall, offset: float, moment: float) -> bool:
        if not call.is_open_at(offset, moment):
            return False
        # A call that a person interrupts is never reported as ended, but it has a result.
        is_interrupted = call.id and not call.is_reported and call.id in self._results
        return not is_interrupted or may_write_result(call, moment)

    @cached_property
    def _results(self) -> set[str]:
        return set(self._result_counts)

    @cached_property
    def _result_counts(self) -> Counter[str]:
        return Counter(chain.from_iterable(find_results((line,)) for line in self._read_transcripts()))

    @cached_property
    def _spoken(self) -> set[str]:
        spoken = set()
        for text in find_spoken(self._read_transcripts()):
            typed = restore_typed(text) or clean_prompt(self._host, text)
            spoken |= {_normalise(typed), _normalise(cut_prompt(typed))}
        return spoken - {""}

    def _is_in_transcript(self, event: Event) -> bool:
        name, arguments = event.text("command_name").lstrip("/"), event.text("command_args")
        typed = [f"/{name} {arguments}".strip()] if name else []
        forms = {_normalise(text) for text in (event.text("prompt"), *typed)}
        return not forms.isdisjoint(self._spoken)

    def _may_follow(self, event: Event, *, is_over: bool) -> bool:
        """Return whether a prompt may still appear in the transcript."""
        if is_over and not any(map(people.is_own_file, self.transcripts)):
            return False
        return time.time() - event.at < (SOON_SECONDS if is_over else LATEST_SECONDS)

    def _read_transcripts(self) -> Iterable[bytes]:
        for path in self.transcripts:
            yield from read_tail(path)


def find_transcripts(starts: Iterable[Event]) -> list[str]:
    """Return the transcripts that the host of a session named when it started it."""
    named = [one.text("transcript_path") for one in starts if one.name == "SessionStart" and one.origin == HOST]
    return list(dict.fromkeys(filter(None, named)))


def is_own_command(event: Event) -> bool:
    """Return whether an event is one of our slash commands, which a transcript does not contain yet."""
    if event.name != "UserPromptExpansion":
        return False
    command = parse_command(f"/{event.text('command_name').lstrip('/')}")
    return command is not None and command.is_ours


def read_tail(path: str) -> Iterable[bytes]:
    """Yield the lines at the end of a transcript of this user; none if there is no such file."""
    if not people.is_own_file(path):
        return
    try:
        with open(path, "rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - TRANSCRIPT_BYTES, 0))
            yield from read_lines(file)
    except OSError:
        return


def _normalise(text: str) -> str:
    return " ".join((extract_spoken(text) or text).split())


def find_command_doubt(data_dir: DataDir, call: HookCall) -> str:
    """Return what speaks against one of our slash commands, which a hook has just brought; empty for nothing.

    The line in the journal is not asked: the same event may have been brought before, by the host.
    """
    path = data_dir.journal_file(call.session)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return NOT_RECORDED
    judge = JournalJudge(data_dir, path, data[: data.rfind(b"\n") + 1])
    sender = origin.find_origin(data_dir, call)
    host = find_caller()[0]
    return judge.find_current_doubt(sender, host.began if host else 0.0)
