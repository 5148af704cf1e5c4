"""What a session's events tell: who said what, what the agent did, and where the person said it was wrong.

Told as a fold: each event adds what follows from it and from those before it, at its own offset. So what was told of a
beginning of the journal is told again, word for word, of the whole, and whoever drains it can go on from a mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from . import calls, words
from .attendance import Attendance
from .events import Event, text
from .mends import Fixed, Mends

__all__ = ["Fixed", "Heard", "Note", "Ran", "Shown", "Signal", "Story", "Turn", "tell"]

_BEFORE_CHARS = 4000
_ACCOUNT_CHARS = 1500
_SHORT_CHARS = 160
_COMMANDS = 8
_FILES = 12
_ABOUT_CHARS = 4000
_OPEN_CALLS = 200


@dataclass(frozen=True, slots=True)
class Turn:
    """Something that was said: by the "user", the "assistant" or a "subagent"."""

    id: str
    speaker: str
    text: str
    at: float
    offset: int


@dataclass(frozen=True, slots=True)
class Heard:
    """A person's own words, and what the assistant had said and done before them."""

    turn_id: str
    user: str
    before: str
    at: float
    offset: int
    attendance: Attendance = Attendance.UNKNOWN
    cut_in: bool = False
    """The person spoke before the assistant was done: stopped it, refused a call, or wrote while it worked."""
    is_typed: bool = True
    """False for words that stand in what a tool answered, where a program may have put them."""


@dataclass(frozen=True, slots=True)
class Signal:
    """Something other than a prompt that shows what the person wants: edited, denied, interrupted or rejected."""

    name: str
    text: str
    tool: str
    at: float
    offset: int
    id: str
    what: str = ""
    """The command or the file that it is about."""
    attendance: Attendance = Attendance.UNKNOWN


@dataclass(frozen=True, slots=True)
class Note:
    """What a person told us to remember. Without words it points at `about`, what they had said before."""

    text: str
    about: str
    at: float
    offset: int
    id: str
    attendance: Attendance = Attendance.UNKNOWN


@dataclass(frozen=True, slots=True)
class Shown:
    """Rules that were put before the assistant."""

    rules: tuple[str, ...]
    where: str
    text: str
    at: float
    offset: int
    id: str


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that was run or a file that was edited."""

    tool: str
    command: str
    ok: bool
    at: float
    offset: int
    id: str


@dataclass(frozen=True, slots=True)
class Story:
    session: str
    project: str
    parent: str
    started_at: float
    ended: bool
    transcript_path: str
    turns: tuple[Turn, ...] = ()
    heard: tuple[Heard, ...] = ()
    fixed: tuple[Fixed, ...] = ()
    signals: tuple[Signal, ...] = ()
    notes: tuple[Note, ...] = ()
    shown: tuple[Shown, ...] = ()
    ran: tuple[Ran, ...] = ()


def tell(events: Iterable[Event]) -> Story:
    """Return the story of a session."""
    teller = _Teller()
    for event in events:
        teller.take(event)
    return teller.story()


class _Talk:
    """What the assistant said and did since the person last spoke, as far as the person could see it."""

    __slots__ = ("begun", "commands", "done", "files", "last", "said", "spoken")

    def __init__(self) -> None:
        self.last = ""
        self.spoken = False
        self.done = True
        self.start()

    def start(self) -> None:
        self.said = ""
        self.commands: list[str] = []
        self.files: list[str] = []
        self.begun: dict[str, str] = {}

    def says(self, said: str) -> None:
        self.said = self.last = said

    def ended(self, call: calls.Call) -> None:
        if call.shell and call.what:
            failed = "" if call.ok else ", which was stopped" if call.stopped else ", which failed"
            self.commands.append(f"`{words.one_line(call.what, _SHORT_CHARS)}`{failed}")
        elif call.edit and call.ok and call.what and call.what not in self.files:
            self.files.append(call.what)

    def before(self) -> str:
        """What the next words of the person may be about."""
        did = self._account()
        said = self.said or ("" if did else self.last)
        room = _BEFORE_CHARS - len(did) - 1
        return "\n".join(filter(None, (words.cut(said, room), did)))

    def _account(self) -> str:
        parts = []
        if self.commands:
            parts.append(f"ran {'; '.join(_newest(self.commands, _COMMANDS))}")
        if self.files:
            parts.append(f"edited {', '.join(_newest(self.files, _FILES))}")
        if self.begun:
            parts.append(f"was about to {'; '.join(_newest(list(self.begun.values()), _COMMANDS))}")
        return words.cut(f"[{'. '.join(parts)}]", _ACCOUNT_CHARS) if parts else ""


def _newest(items: list[str], most: int) -> list[str]:
    return items if len(items) <= most else ["…", *items[-most:]]


class _Teller:
    def __init__(self) -> None:
        self._known: set[str] = set()
        self._mends = Mends()
        self._talk = _Talk()
        self._stops: list[tuple[str, str]] = []
        self._agents: set[tuple[str, str]] = set()
        self._prompt = ("", "", "")
        self._proposed: dict[str, Event] = {}
        self._settled: set[tuple[str, bool]] = set()
        self._persons_last = ""
        self._session = self._project = self._parent = self._transcript = ""
        self._started: float | None = None
        self._attendance = Attendance.UNKNOWN
        self._ended = False
        self._turns: list[Turn] = []
        self._heard: list[Heard] = []
        self._fixed: list[Fixed] = []
        self._signals: list[Signal] = []
        self._notes: list[Note] = []
        self._shown: list[Shown] = []
        self._ran: list[Ran] = []

    def take(self, event: Event) -> None:
        if event.id in self._known:
            return
        self._known.add(event.id)
        self._session = self._session or event.session
        self._project = self._project or event.project
        self._started = event.at if self._started is None else self._started
        # A session may be begun by a program and taken up by a person; what is added from a transcript does not say.
        self._attendance = event.attendance or self._attendance
        action = _ACTIONS.get(event.name)
        if action:
            action(self, event)

    def story(self) -> Story:
        return Story(
            session=self._session,
            project=self._project,
            parent=self._parent,
            started_at=self._started or 0.0,
            ended=self._ended,
            transcript_path=self._transcript,
            turns=tuple(self._turns),
            heard=tuple(self._heard),
            fixed=tuple(self._fixed),
            signals=tuple(self._signals),
            notes=tuple(self._notes),
            shown=tuple(self._shown),
            ran=tuple(self._ran),
        )

    # -- the session

    def start(self, event: Event) -> None:
        self._ended = False
        self._parent = self._parent or text(event.data.get("parent"))
        self._transcript = text(event.data.get("transcript_path")) or self._transcript
        # A run that was killed left no Stop; who comes back to it did not cut in.
        self._talk.done = True

    def end(self, event: Event) -> None:
        self._ended = True

    # -- what was said

    def prompt(self, event: Event) -> None:
        """A prompt of the person, or one that the host made. A command comes twice: as typed and as expanded."""
        prompt, typed = text(event.data.get("prompt")), _as_typed(event)
        # The prompt of an expanded command may be the text of the command's file: only what was typed is a person's.
        given = typed if event.name == "UserPromptExpansion" else prompt or typed
        told = prompt if prompt.lstrip().startswith("/") else given
        came = (event.name, text(event.data.get("prompt_id")), words.plain(told))
        last, self._prompt = self._prompt, came
        if _twice(last, came):
            self._prompt = ("", "", "")
            return
        if event.agent_id:
            return
        self._stops.clear()
        said = words.spoken(given, text(event.data.get("source")))
        if not said:
            return
        command = words.command(said)
        if command is None:
            self._hear(event, said, said if words.says_something(said) else "")
        elif command.ours:
            self._our_command(event, command, said)
        elif command.worth_keeping:
            self._hear(event, said, command.words if command.tells else "")

    def _hear(self, event: Event, said: str, told: str) -> None:
        """The person speaks; `told` of it is worth listening to."""
        self._turn(event, "user", said)
        if told:
            cut_in = self._talk.spoken and not self._talk.done
            self._heard.append(
                Heard(event.id, told, self._talk.before(), event.at, event.offset, self._attendance, cut_in)
            )
        self._persons_last = said
        self._mends.person_spoke()
        self._talk.start()
        self._talk.spoken, self._talk.done = True, False

    def _our_command(self, event: Event, command: words.Command, said: str) -> None:
        if command.name not in ("tag", "learn"):
            return
        note = words.note(command.words)
        if note:
            about = self._talk.last or self._persons_last
            self._turn(event, "user", said)
        elif command.name == "tag" and not command.words and self._persons_last:
            about = self._persons_last
        else:
            return
        short = words.cut(about, _ABOUT_CHARS)
        self._notes.append(Note(note, short, event.at, event.offset, event.id, self._attendance))

    def stop(self, event: Event) -> None:
        if event.agent_id:
            self.subagent_stop(event)
            return
        self._talk.done = True
        self._prompt = ("", "", "")
        # A call that never ended by now is none that the person could mean.
        self._talk.begun.clear()
        said = text(event.data.get("last_assistant_message")).strip()
        if not said or self._repeats(event, said):
            return
        self._stops.append((text(event.data.get("prompt_id")), said))
        self._talk.says(said)
        self._turn(event, "assistant", said)

    def _repeats(self, event: Event, said: str) -> bool:
        """The same words again with no prompt in between. What a Stop hook of somebody else's made it add is new."""
        prompt_id = text(event.data.get("prompt_id"))
        active = event.data.get("stop_hook_active") is True
        return any(
            (said == known or (active and said in known)) and (not prompt_id or not known_id or prompt_id == known_id)
            for known_id, known in self._stops
        )

    def subagent_stop(self, event: Event) -> None:
        # The host's own helpers (what summarises for a compaction) have no type.
        if event.data.get("agent_type") == "":
            return
        agent = event.agent_id or text(event.data.get("agent_id"))
        said = text(event.data.get("last_assistant_message")).strip()
        if said and (agent, said) not in self._agents:
            self._agents.add((agent, said))
            self._turn(event, "subagent", said)

    def _turn(self, event: Event, speaker: str, said: str) -> None:
        self._turns.append(Turn(event.id, speaker, said, event.at, event.offset))

    # -- what was done

    def tool_begins(self, event: Event) -> None:
        use = text(event.data.get("tool_use_id"))
        if not use:
            return
        if len(self._proposed) >= _OPEN_CALLS:
            del self._proposed[next(iter(self._proposed))]
        self._proposed[use] = event
        if not event.agent_id:
            self._talk.begun[use] = calls.account(text(event.data.get("tool_name")), calls.arguments(event))

    def tool_ends(self, event: Event) -> None:
        if event.name == "PostToolUseFailure" and calls.refused(text(event.data.get("error"))):
            # The text alone says so, and any tool can fail with such a text.
            self._refused(event, calls.reason(text(event.data.get("error"))), is_typed=False)
            return
        call = calls.of(event)
        proposed = self._closed(event)
        self._fixed += self._mends.ended(event, call)
        if (call.shell or call.edit) and call.what:
            self._ran.append(Ran(call.tool, call.what, call.ok, event.at, event.offset, event.id))
        if not event.agent_id:
            self._talk.ended(call)
        if call.stopped:
            self._interrupted(event)
        elif event.data.get("user_modified") is True:
            self._edited(event, call, proposed)
        asked, own = calls.answers(event)
        if own:
            self._turn(event, "user", own)
            before = words.cut(f"[asked: {asked}]", _BEFORE_CHARS)
            heard = Heard(event.id, own, before, event.at, event.offset, self._attendance, is_typed=False)
            self._heard.append(heard)

    def _closed(self, event: Event) -> Event | None:
        use = text(event.data.get("tool_use_id"))
        self._talk.begun.pop(use, None)
        return self._proposed.pop(use, None)

    def _edited(self, event: Event, call: calls.Call, proposed: Event | None) -> None:
        given = calls.arguments(event)
        change = calls.changed(calls.arguments(proposed) if proposed else given, given, text(event.data.get("written")))
        told = f"The person changed what was proposed for {call.what or 'a file'}" + (f":\n{change}" if change else "")
        self._signal("edited", event, told, call.tool, call.what)

    def denied(self, event: Event) -> None:
        self._closed(event)
        tool, given = text(event.data.get("tool_name")), calls.arguments(event)
        reason = text(event.data.get("reason")).strip()
        self._signal("denied", event, _told(calls.account(tool, given), reason), tool, calls.what(tool, given))

    def interrupted(self, event: Event) -> None:
        said = text(event.data.get("said")).strip()
        if said and not self._talk.said and not self._talk.done:
            self._talk.said = said
        self._interrupted(event)

    def _interrupted(self, event: Event) -> None:
        if not self._settles(event):
            return
        tool, given, known = self._tool_of(event)
        doing = calls.account(tool, given) if known else ""
        self._signal("interrupted", event, doing, tool, calls.what(tool, given))

    def rejected(self, event: Event) -> None:
        self._refused(event, text(event.data.get("text")).strip(), is_typed=event.data.get("marked") is True)

    def _refused(self, event: Event, said: str, *, is_typed: bool) -> None:
        if not self._settles(event):
            return
        tool, given, known = self._tool_of(event)
        doing = calls.account(tool, given) if known else ""
        self._signal("rejected", event, _told(doing, said), tool, calls.what(tool, given))
        if said:
            self._closed(event)
            before = [text(event.data.get("said")).strip(), f"[was about to {doing}, and was refused]" if doing else ""]
            self._remark(event, said, "\n".join(filter(None, before)), is_typed=is_typed)

    def _settles(self, event: Event) -> bool:
        """A hook and the transcript may both tell that a call was stopped: the first counts."""
        use, late = text(event.data.get("tool_use_id")), event.name in ("Interrupted", "Rejected")
        if (use, not late) in self._settled:
            self._settled.remove((use, not late))
            return False
        if use:
            self._settled.add((use, late))
        return True

    def remarked(self, event: Event) -> None:
        """Words that the person added when they let a call pass."""
        said = words.spoken(text(event.data.get("text")))
        tool, given, known = self._tool_of(event)
        if said:
            self._remark(event, said, f"[was allowed to {calls.account(tool, given)}]" if known else "")

    def _remark(self, event: Event, said: str, before: str, *, is_typed: bool = True) -> None:
        """Heard beside a call. It may be known late, so what is being talked about now stays as it is."""
        self._turn(event, "user", said)
        if words.says_something(said):
            short = words.cut(before, _BEFORE_CHARS)
            heard = Heard(event.id, said, short, event.at, event.offset, self._attendance, True, is_typed)
            self._heard.append(heard)

    def _tool_of(self, event: Event) -> tuple[str, dict[str, object], bool]:
        """The call that an event is about, by its own account or by that of the event that began it."""
        use = text(event.data.get("tool_use_id"))
        begun = self._proposed.get(use) if use else None
        source = event if text(event.data.get("tool_name")) or begun is None else begun
        tool = text(source.data.get("tool_name"))
        return tool, dict(calls.arguments(source)), bool(tool)

    def _signal(self, name: str, event: Event, told: str, tool: str, about: str) -> None:
        self._signals.append(Signal(name, told, tool, event.at, event.offset, event.id, about, self._attendance))

    def show(self, event: Event) -> None:
        rules = event.data.get("rules")
        given = tuple(rule for rule in rules if isinstance(rule, str)) if isinstance(rules, list) else ()
        where, answered = text(event.data.get("where")), text(event.data.get("text"))
        self._shown.append(Shown(given, where, answered, event.at, event.offset, event.id))


def _twice(last: tuple[str, str, str], came: tuple[str, str, str]) -> bool:
    """One command, as typed and as expanded. A hook may tell of both as expanded, and a host may not number prompts."""
    if last[1:] != came[1:] or "UserPromptExpansion" not in (last[0], came[0]):
        return False
    return last[0] != came[0] or not came[1]


def _as_typed(event: Event) -> str:
    name = text(event.data.get("command_name")).lstrip("/")
    return f"/{name} {text(event.data.get('command_args'))}".strip() if name else ""


def _told(doing: str, said: str) -> str:
    return ": ".join(filter(None, (doing, said)))


_ACTIONS: dict[str, Callable[[_Teller, Event], None]] = {
    "SessionStart": _Teller.start,
    "SessionEnd": _Teller.end,
    "UserPromptSubmit": _Teller.prompt,
    "UserPromptExpansion": _Teller.prompt,
    "PreToolUse": _Teller.tool_begins,
    "PostToolUse": _Teller.tool_ends,
    "PostToolUseFailure": _Teller.tool_ends,
    "PermissionDenied": _Teller.denied,
    "Stop": _Teller.stop,
    "SubagentStop": _Teller.subagent_stop,
    "Interrupted": _Teller.interrupted,
    "Rejected": _Teller.rejected,
    "Remarked": _Teller.remarked,
    "Shown": _Teller.show,
}
