"""Stored sessions and their handoffs, and how both are written as text for a prompt.

An open session is an active record; any other is archived. Ending a session writes it and its handoff in one
transaction, so a session that is over has exactly one handoff. A session whose process has exited, or that has been
silent for too long, gets a handoff made from what was recorded. If such a session continues after all, it is open
again, and its own handoff replaces the first one.

The lists of a session are bounded and newest first.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from ..codec import decode_record
from ..engine import validate
from ..engine.admit import clean
from ..engine.context import Engine
from ..engine.escape import escape
from ..engine.transaction import Transaction, scan_records
from ..errors import NotFoundError, ValidationError
from ..progress import ProgressSummary, WorkItem, refuse_misspelt
from ..text import count_tokens, normalise, shorten
from ..types.kinds import Heuristic, Outcome
from ..types.query import visible_users
from ..types.record import Record, Status, unit
from ..types.slice import MemorySlice
from ..types.times import from_iso, to_iso

Body = Mapping[str, Any]

# The longest lists that a handoff holds.
MAX_ITEMS = {"decisions": 10, "files": 20, "blockers": 10, "next_steps": 10, "risks": 10}
_MAX_ACTIONS = 20
_ITEM_CHARS = 300
_MAX_TESTS = 50
_GOAL_CHARS = 1000
_OPEN = 100
_OUTCOMES = 50
_HANDOFFS = 20
_NOTHING = "nothing was noted"  # Stored in handoffs, so it stays as it is.


class LastOutcome(StrEnum):
    """The result of the last action; interrupted: the session stopped before anybody reported one."""

    SUCCESS = "success"
    FAILURE = "failure"
    INTERRUPTED = "interrupted"


class SessionState(StrEnum):
    """Whether a session is open, was ended, or was given up as interrupted."""

    OPEN = "open"
    ENDED = "ended"
    INTERRUPTED = "interrupted"  # It went silent and was never ended. An update opens it again.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Notes:
    """The fields that a session and its handoff share."""

    id: str
    project_id: str
    agent: str
    active_files: list[str] = field(default_factory=list)
    blockers: list[str] = field(default_factory=list)
    next_steps: list[str] = field(default_factory=list)
    test_status: Mapping[str, bool] = field(default_factory=dict)
    risk_flags: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(_Notes):
    """A session and what has been recorded in it so far."""

    goal: str = ""
    state: SessionState = SessionState.OPEN
    started_at: datetime
    last_seen: datetime
    ended_at: datetime | None = None
    actions: list[str] = field(default_factory=list)  # The latest, newest last.
    action_count: int = 0  # All actions, including those that are no longer stored.
    decisions: list[str] = field(default_factory=list)
    confidence_level: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHandoff(_Notes):
    """What the next session needs to continue where this one left off."""

    session_id: str
    last_action: str
    last_outcome: LastOutcome
    current_goal: str
    key_decisions: list[str]  # At most ten, the newest first.
    confidence_level: float  # 0 to 1: how well the work was going.
    session_start: datetime
    session_end: datetime
    duration_ms: int
    embedding: list[float] | None = None
    created_at: datetime
    left_out: Mapping[str, int] = field(default_factory=dict)  # How many entries were cut from each list.
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContext:
    """Everything that an agent receives when its session starts."""

    session_id: str
    project_id: str
    agent: str
    goal: str
    started_at: datetime
    previous_handoff: SessionHandoff | None
    progress: ProgressSummary
    recent_outcomes: list[Outcome]
    relevant_heuristics: list[Heuristic]
    # Branch, changes, recent commits, layout, how tests are run; None where there is no code.
    codebase_state: dict[str, Any] | None
    environment_state: dict[str, Any] | None
    suggested_focus: WorkItem | None
    rules_of_engagement: list[str]
    # Other sessions of this agent that are still open.
    open_sessions: list[Session] = field(default_factory=list)
    retrieval_id: str | None = None  # Pass it when learning an outcome that used these heuristics.


class AwaitableSelf:
    """A mixin for values that callers may also await: awaiting one returns the value itself."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, Self]:
        yield from ()
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Orientation:
    """What an agent knows before it starts, without its memories."""

    session_id: str
    agent: str
    goal: str
    work_items: list[WorkItem]
    codebase_summary: str | None
    recent_activity: list[str]
    scope_rules: list[str]  # What the agent may do.
    constraints: list[str]  # What it must not do.
    quality_gates: list[str]  # What must be true before work counts as done.
    recommended_start: WorkItem | None
    # The reader that planned the work items: `local`, the model's name, or both if the model failed; empty without one.
    planned_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializationResult(Orientation, AwaitableSelf):
    """What an agent knows before it starts: orientation, memories and its session."""

    project_id: str
    relevant_memories: MemorySlice
    initialized_at: datetime
    session: SessionContext

    def to_prompt(self, max_tokens: int = 2000) -> str:
        """Return the result as Markdown for a prompt, at most `max_tokens` long."""
        return write_briefing(self, max_tokens)


# Arguments and attributes, and the names they have in a record.
_STORED_AS = {
    "current_goal": "goal", "key_decisions": "decisions", "active_files": "files", "test_status": "tests",
    "risk_flags": "risks", "confidence_level": "confidence", "session_start": "started_at", "session_end": "ended_at",
}  # fmt: skip


def read_session(record: Record) -> Session:
    """Return the session that a record holds."""
    lists = {name: [one["what"] for one in record.body[name]] for name in ("actions", "decisions")}
    return decode_record(Session, record, _STORED_AS, **lists)


def read_handoff(record: Record) -> SessionHandoff:
    """Return the handoff that a record holds."""
    start, end = (from_iso(record.body[name]) or record.created_at for name in ("started_at", "ended_at"))
    lasted = max(0, round((end - start).total_seconds() * 1000))
    embedding = unit(record.vectors[0]) if record.vectors else None
    return decode_record(SessionHandoff, record, _STORED_AS, duration_ms=lasted, embedding=embedding)


# -- arguments


def read_goal(_label: str, value: object) -> str:
    """Return a goal as it is stored: without secrets, shortened, empty for None."""
    return shorten(clean(validate.optional_text("goal", value) or ""), _GOAL_CHARS)


def read_line(label: str, value: object) -> str:
    """Return a text as it is stored: one line without secrets, shortened."""
    # A program's output may be pasted here; colours and control characters are dropped.
    return shorten(clean(validate.output(label, value) or validate.text(label, value)), _ITEM_CHARS)


def read_paths(label: str, value: object) -> list[str]:
    """Return a list of texts as they are stored, without duplicates; a single text becomes a list of one."""
    values = [value] if isinstance(value, str) else validate.items(label, value, "texts")
    return list(dict.fromkeys(read_line(f"{label}[{at}]", one) for at, one in enumerate(values)))


def read_lines(label: str, value: object) -> list[str]:
    """Return a list of texts as `read_paths` does; texts that differ only in case and punctuation are duplicates."""
    return join_lines(read_paths(label, value))


def name_as_stored(arguments: Body) -> dict[str, Any]:
    """Return the arguments that are not None, under the names they have in a record."""
    return {_STORED_AS.get(name, name): value for name, value in arguments.items() if value is not None}


def join_lines(*lists: Iterable[str]) -> list[str]:
    """Return the texts of all lists without duplicates; of texts that differ only in spelling the first is returned."""
    texts: dict[str, str] = {}
    for text in (text for lines in lists for text in lines):
        texts.setdefault(normalise(text) or text, text)
    return list(texts.values())


def sort_tests(tests: Mapping[str, bool]) -> dict[str, bool]:
    """Return test results as they are stored: failing tests first, at most fifty."""
    return dict(sorted(tests.items(), key=lambda pair: pair[1])[:_MAX_TESTS])


# -- sessions


def begin_session(tx: Transaction, agent: str, goal: str, owner: Body | None, user: str | None) -> Record:
    """Add an open session; `owner` identifies the process that owns it."""
    now = to_iso(tx.engine.clock())
    body: dict[str, Any] = {name: [] for name in ("actions", *MAX_ITEMS)}
    body |= {"goal": goal, "started_at": now, "ended_at": None, "last_seen": now, "state": str(SessionState.OPEN)}
    body |= {"action_count": 0, "tests": {}, "confidence": None, "owner": owner}
    return tx.add("session", body, agent=agent, user=user or "")


def find_session(engine: Engine, agent: str, id: str) -> Record:
    """Return a session of this agent, or raise NotFoundError with the ids of its latest sessions."""
    for record in engine.store.get([id]):
        if (record.kind, record.project, record.agent) == ("session", engine.project, agent):
            return record
        if (record.kind, record.project) == ("session", engine.project):
            raise NotFoundError(f"session {id!r} belongs to agent {record.agent!r}, not to {agent!r}")
    refuse_misspelt(engine, agent, id)
    place = f"in project {engine.project!r}"
    raise NotFoundError(f"{agent!r} has no session {id!r} {place}. It has no session yet: start one.")


def note_session(tx: Transaction, agent: str, id: str, notes: Body, owner: Body | None) -> Record:
    """Record notes in a session and return it; what `notes` does not name stays as it is."""
    [record] = tx.see([find_session(tx.engine, agent, id)])
    body, now = record.body, to_iso(tx.engine.clock())
    actions = (
        [{"what": notes["action"], "outcome": str(notes.get("outcome", "")), "at": now}] if "action" in notes else []
    )
    if body["state"] == SessionState.ENDED:
        raise ValidationError(f"session {id!r} has ended and takes no more notes; start a new session")
    lists = {"files": list(dict.fromkeys((*notes.get("files", ()), *body["files"])))}
    decisions = join_lines(notes.get("decisions", ()), [one["what"] for one in body["decisions"]])
    resolved, problems = set(map(normalise, notes.get("resolved", ()))), [*body["blockers"], *body["risks"]]
    for text in notes.get("resolved", ()):
        if normalise(text) not in map(normalise, problems):
            raise ValidationError(
                f"{text!r} is not a blocker or risk of session {id!r}. Its blockers and risks: "
                f"{'; '.join(problems) or 'none'}."
            )
    for name in ("blockers", "risks"):
        left = [text for text in body[name] if normalise(text) not in resolved]
        lists[name] = join_lines(notes.get(name, ()), left)
    lists["next_steps"] = notes.get("next_steps", body["next_steps"])
    changed = {
        **body,
        "state": str(SessionState.OPEN),
        "ended_at": None,
        "last_seen": now,
        "owner": owner,
        "goal": notes.get("goal", body["goal"]),
        "actions": [*body["actions"], *actions][-_MAX_ACTIONS:],
        "action_count": body["action_count"] + len(actions),
        "decisions": [{"what": text} for text in decisions[: MAX_ITEMS["decisions"]]],
        **{name: lines[: MAX_ITEMS[name]] for name, lines in lists.items()},
        "tests": sort_tests({**body["tests"], **notes.get("tests", {})}),
        "confidence": notes.get("confidence", body["confidence"]),
    }
    return tx.change(record, changed, status=Status.ACTIVE)


def end_session(tx: Transaction, agent: str, id: str, closing: Body) -> Record:
    """End a session and return its handoff.

    When a session is ended again, the fields of the later closing replace those of the earlier one; the others stay.
    """
    [record] = tx.see([find_session(tx.engine, agent, id)])
    now = ended = tx.engine.clock()
    before = _find_handoff(tx, id) if record.body["state"] == SessionState.ENDED else None
    if before is not None:
        ended = from_iso(record.body["ended_at"]) or now
        # A new outcome makes the earlier confidence obsolete, unless the caller passes one.
        dropped = ("left_out", *(["confidence"] if "last_outcome" in closing else []))
        earlier = {name: value for name, value in before.body.items() if name not in dropped}
        later = {name: value for name, value in closing.items() if value or name not in ("decisions", "files")}
        closing = {**earlier, **later, "tests": {**before.body["tests"], **closing.get("tests", {})}}
    return _put_handoff(tx, record, closing, _list_outcomes(tx.engine, record), ended, SessionState.ENDED)


def _find_handoff(tx: Transaction, id: str) -> Record | None:
    return next(iter(tx.see(scan_records(tx.engine, "handoff", 1, sessions={id}))), None)


def _put_handoff(
    tx: Transaction, record: Record, closing: Body, outcomes: Sequence[Record], ended: datetime, state: SessionState
) -> Record:
    """Close a session and store its handoff: the values of `closing`, and the session's own notes for the rest."""
    notes = record.body
    lists = {name: closing.get(name, notes[name]) for name in MAX_ITEMS}
    lists["decisions"] = join_lines(closing.get("decisions", []), [one["what"] for one in notes["decisions"]])
    lists["files"] = list(dict.fromkeys((*closing.get("files", ()), *notes["files"])))
    last, result = _find_last(notes, outcomes)
    result = closing.get("last_outcome") or result or str(LastOutcome.SUCCESS)
    confidence = closing.get("confidence", notes["confidence"])
    if confidence is None:
        # The success rate so far, with one success and one failure added so that a few outcomes do not decide.
        results = [_judge_outcome(one) for one in outcomes] or [result]
        good, bad = results.count(LastOutcome.SUCCESS), results.count(LastOutcome.FAILURE)
        confidence = round((good + 1) / (good + bad + 2), 2)
    body = {
        "last_action": closing.get("last_action") or last or _NOTHING,
        "last_outcome": str(result),
        "goal": closing.get("goal", notes["goal"]),
        **{name: lines[: MAX_ITEMS[name]] for name, lines in lists.items()},
        "tests": sort_tests({**notes["tests"], **closing.get("tests", {})}),
        "confidence": float(confidence),
        "started_at": notes["started_at"],
        "ended_at": to_iso(ended),
        "left_out": {name: more for name, lines in lists.items() if (more := len(lines) - MAX_ITEMS[name]) > 0},
        "metadata": closing.get("metadata", {}),
    }
    over = {**notes, "state": str(state), "ended_at": body["ended_at"], "owner": None}
    tx.change(record, over, status=Status.ARCHIVED)
    before = _find_handoff(tx, record.id)
    if before is not None:
        return tx.change(before, body, created_at=tx.engine.clock())
    place = {"agent": record.agent, "user": record.user, "session": record.id, "links": (record.id,)}
    return tx.add("handoff", body, **place)


def _find_last(noted: Body, outcomes: Sequence[Record]) -> tuple[str, str]:
    """Return the last recorded action or learned outcome of a session, whichever is later, and its result."""
    action = noted["actions"][-1] if noted["actions"] else {"what": "", "outcome": "", "at": ""}
    if outcomes and str(to_iso(outcomes[0].created_at)) > action["at"]:
        newest = outcomes[0].body
        return shorten(f"{newest['task']}: {newest['strategy']}", _ITEM_CHARS), _judge_outcome(outcomes[0])
    return action["what"], action["outcome"]


def _judge_outcome(outcome: Record) -> str:
    return str(LastOutcome.FAILURE if outcome.body["outcome"] == "failure" else LastOutcome.SUCCESS)


def list_open(engine: Engine, agent: str) -> list[Record]:
    """Return the open sessions of an agent, newest first."""
    return scan_records(engine, "session", _OPEN, agents={agent}, statuses={Status.ACTIVE})


def check_session(tx: Transaction, agent: str, id: str, alive_for: timedelta) -> bool:
    """Return whether a session is still alive; one that is not is closed with a handoff made from its notes.

    A session is alive if its process has not exited, as far as can be known, and it was seen within `alive_for`. A
    learned outcome counts as a sign of life.
    """
    [record] = tx.see([find_session(tx.engine, agent, id)])
    notes, outcomes = record.body, _list_outcomes(tx.engine, record)
    ended = max([from_iso(notes.get("last_seen")) or record.updated_at, *(one.created_at for one in outcomes[:1])])
    if record.status is not Status.ACTIVE:
        return False
    if not is_process_gone(notes["owner"]) and tx.engine.clock() - ended <= alive_for:
        return True
    last, _ = _find_last(notes, outcomes)
    flag = f"This session ended without a handoff; it was last seen {ended:%Y-%m-%d %H:%M} UTC."
    steps = [f"Check how far this got: {last}"] if last else []
    steps += [f"Continue with: {notes['goal']}"] if notes["goal"] else []
    closing = {
        "last_action": last or "started the session",
        "last_outcome": LastOutcome.INTERRUPTED,
        "next_steps": notes["next_steps"] or [shorten(step, _ITEM_CHARS) for step in steps],
        "risks": join_lines([flag], notes["risks"]),
    }
    _put_handoff(tx, record, closing, outcomes, ended, SessionState.INTERRUPTED)
    return False


def _list_outcomes(engine: Engine, record: Record) -> list[Record]:
    """Return the outcomes learned during a session, newest first, until it ended or the agent's next one started."""
    began, agents = record.created_at, {record.agent}
    later = scan_records(engine, "session", _OPEN, agents=agents, created_from=began)
    ends = [one.created_at for one in later if one.created_at > began]
    end = min([*ends, from_iso(record.body.get("ended_at")) or engine.clock()]) + timedelta(microseconds=1)
    seen = {"agents": agents, "users": visible_users(record.user)}
    return scan_records(engine, "outcome", _OUTCOMES, created_from=began, created_to=end, **seen)


def list_handoffs(engine: Engine, agent: str, limit: int, users: Collection[str] | None = None) -> list[Record]:
    """Return the handoffs of the sessions of an agent that ended last, newest first."""
    most = max(limit, _HANDOFFS)
    records = scan_records(engine, "handoff", most, agents={agent}, users=users, statuses={Status.ACTIVE})
    return sorted(records, key=lambda one: (one.body["ended_at"], one.id), reverse=True)[:limit]


def find_latest(engine: Engine, agent: str, user: str | None = None) -> SessionHandoff | None:
    """Return the latest handoff with content, so that an empty session does not hide the one before it."""
    records = list_handoffs(engine, agent, _HANDOFFS, users=visible_users(user))
    contents = (*MAX_ITEMS, "tests", "metadata")
    full = [one for one in records if one.body["last_action"] != _NOTHING or any(one.body[name] for name in contents)]
    return next(map(read_handoff, full or records), None)


# -- whether the process that owns a session is still running


def mark_process() -> dict[str, Any]:
    """Return a mark from which another process on this machine can see whether this one has exited."""
    return {"machine": _name_machine(), "pid": os.getpid(), "began": _find_start(os.getpid())}


def is_process_gone(owner: Body | None) -> bool:
    """Return whether a process has certainly exited; False for processes of another machine."""
    # On Windows signal 0 would end the process instead of probing it.
    if not owner or owner.get("machine") != _name_machine() or os.name != "posix":
        return False
    try:
        os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    return _find_start(owner["pid"]) not in ("", owner.get("began"))


@lru_cache(maxsize=1)
def _name_machine() -> str:
    """Return a name for this machine, boot and container; on systems other than Linux only the host name."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{platform.node()}/{boot}/{os.readlink('/proc/self/ns/pid')}"
    return platform.node()


def _find_start(pid: int) -> str:
    """Return the kernel's start time of a process, which tells it from a later process with the same id.

    Empty if it is not available; "-" if the process has ended.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The program's name is in brackets and may contain spaces; the 22nd field is the start time.
    parts = stat.rpartition(")")[2].split()
    # A zombie has ended, but its parent has not collected it yet.
    return "-" if parts[0] in ("Z", "X") else parts[19]


# -- text for a prompt: escaped, within a budget, and always with the same labels in the same order, so that nothing
# shifts when a part is empty. Long parts are shortened until the whole fits.

_OF_MEMORIES = 0.4  # The share of a briefing for memories; the rest gets what they leave over.
_NONE = "none"
# Widths to try for the longest line; a list shows at most a twentieth of that number of entries.
_WIDTHS = (200, 160, 120, 90, 70, 50, 32, 16, 6)


def _write_fullest(list_lines: Callable[[int], Iterator[str]], max_tokens: int) -> str:
    """Return the longest version of a text that fits the budget."""
    for chars in _WIDTHS:
        lines = "\n".join(list_lines(chars)).splitlines()
        if count_tokens("\n".join(lines)) <= max_tokens:
            break
    # The last resort: as many whole lines as fit.
    while count_tokens("\n".join(lines)) > max_tokens:
        lines.pop()
    return "\n".join(lines)


def _quote(text: str, chars: int) -> str:
    """Return a text as one shortened line, escaped so that it cannot act as Markdown structure."""
    return escape(shorten(text, chars)) if text.strip() else _NONE


def _list_some(items: Sequence[str], most: int, chars: int) -> list[str]:
    more = [f"({len(items) - most} more)"] if len(items) > most else []
    return [*(_quote(item, chars) for item in items[:most]), *more]


def write_reload(
    agent: str,
    handoff: SessionHandoff | None,
    open_sessions: Sequence[Session],
    progress: ProgressSummary,
    focus: WorkItem | None,
    max_tokens: int = 400,
) -> str:
    """Return where an agent left off as text for a prompt."""

    def list_lines(chars: int) -> Iterator[str]:
        yield f"# {_quote(agent, 40)} in {_quote(progress.project_id, 40)}"
        yield from _list_handoff(handoff, chars) if handoff else ("Last session: none yet",)
        now, done = _NONE, "no work items"
        for first in open_sessions[:1]:
            more = f" ({len(open_sessions) - 1} more)" if len(open_sessions) > 1 else ""
            goal = f"goal: {_quote(first.goal, chars)}" if first.goal else "no goal"
            now = f"{first.id} since {first.started_at:%Y-%m-%d %H:%M} UTC, {goal}{more}"
        if progress.items_total:
            done = f"{progress.items_done} of {progress.items_total} done, {progress.items_in_progress} in progress"
            done += f", {progress.items_blocked} blocked"
        yield f"Open session: {now}"
        yield f"Progress: {done}"
        yield f"Focus: {f'{focus.id} {_quote(focus.title, chars)} (priority {focus.priority})' if focus else _NONE}"

    return _write_fullest(list_lines, max_tokens)


def _list_handoff(handoff: SessionHandoff, chars: int) -> Iterator[str]:
    def list_items(label: str, items: Sequence[str], least: int = 0) -> Iterator[str]:
        most = max(least, chars // 20)
        lines = _list_some(items, most, chars)
        yield f"{label}:" if items and most else f"{label}: {', '.join(lines) or _NONE}"
        yield from (f"- {line}" for line in lines if most)

    seconds, some = handoff.duration_ms // 1000, chars // 20
    lasted = f"{seconds // 3600} h" if seconds >= 7200 else f"{seconds // 60} min" if seconds >= 60 else f"{seconds} s"
    yield f"Last session: ended {handoff.session_end:%Y-%m-%d %H:%M} UTC after {lasted}, {handoff.last_outcome}"
    yield f"Goal: {_quote(handoff.current_goal, chars)}"
    yield f"Last action: {_quote(handoff.last_action, chars)}"
    yield from list_items("Blockers", handoff.blockers, 1)
    yield from list_items("Next steps", handoff.next_steps, 1)
    yield from list_items("Decisions", handoff.key_decisions)
    yield f"Files: {', '.join(_list_some(handoff.active_files, some, chars)) or _NONE}"
    failing = [name for name, passing in handoff.test_status.items() if not passing]
    counts = f"{len(handoff.test_status) - len(failing)} passing, {len(failing)} failing"
    names = f": {', '.join(_list_some(failing, some, chars))}" if failing and some else ""
    yield f"Tests: {counts if handoff.test_status else _NONE}{names}"
    yield from list_items("Risks", handoff.risk_flags)
    yield f"Confidence: {handoff.confidence_level:.0%}"


def write_briefing(result: InitializationResult, max_tokens: int) -> str:
    """Return what an agent knows before it starts, as Markdown."""
    budget = validate.whole("max_tokens", max_tokens, 150, 100_000)
    recalled = result.relevant_memories.to_prompt(max(1, int(budget * _OF_MEMORIES)))
    memories = f"\n\n## Memories\n{recalled}" if recalled else ""

    def describe_item(item: WorkItem, chars: int) -> str:
        waits = f", waits for {', '.join(item.waiting_for[:3])}" if item.waiting_for else ""
        return f"{item.id} {_quote(item.title, chars)} (priority {item.priority}, {item.status}{waits})"

    def list_lines(chars: int) -> Iterator[str]:
        start, some = result.recommended_start, chars // 20
        few = max(1, some)
        yield f"# {_quote(result.agent, 40)} in {_quote(result.project_id, 40)}"
        yield f"Goal: {_quote(result.goal, 2 * chars)}"
        yield f"Start with: {'no open work item' if start is None else describe_item(start, chars)}"
        # Names of branches and commits come from the repository, whose authors are not trusted: they are escaped.
        code = (result.codebase_summary or "").splitlines()
        items = [describe_item(item, chars) for item in result.work_items]
        for heading, lines, most, width in (
            ("Work items", items, 2 * few, 0),
            ("Scope", result.scope_rules, few, chars),
            ("Constraints", result.constraints, few, chars),
            ("Required before the work is done", result.quality_gates, few, chars),
            ("Code", code, 2 * some, 2 * chars),
            ("Recent activity", result.recent_activity, some, chars),
        ):
            if lines:
                yield f"\n## {heading}"
            yield from (f"- {_quote(line, width) if width else line}" for line in lines[:most])
            if len(lines) > most:
                yield f"- ({len(lines) - most} more)"

    return _write_fullest(list_lines, budget - count_tokens(memories)) + memories
