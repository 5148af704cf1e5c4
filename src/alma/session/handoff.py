"""Sessions as they are stored: opened, noted in, handed over; and those that never ended.

An open session is an active record, any other an archived one. Ending one writes the session and its handoff in one
transaction, so that there is always exactly one handoff for a session that is over. A session whose process is gone, or
which nobody has seen for long, hands over what is known; should it come back, it goes on, and what it hands over itself
takes the place of that.

The lists of a session are bounded, the newest first.
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
from ..engine.prompt import tokens
from ..engine.transaction import Transaction, scan_records
from ..errors import NotFoundError, ValidationError
from ..progress import ProgressSummary, WorkItem
from ..text import normalise, shorten
from ..types.kinds import Heuristic, Outcome
from ..types.query import visible_users
from ..types.record import Record, Status, unit
from ..types.slice import MemorySlice
from ..types.times import from_iso, to_iso

Body = Mapping[str, Any]

# How much of each list a handoff holds.
MAX_ITEMS = {"decisions": 10, "files": 20, "blockers": 10, "next_steps": 10, "risks": 10}
_MAX_ACTIONS = 20
_ITEM_CHARS = 300
_MAX_TESTS = 50
_GOAL_CHARS = 1000
_KNOWN = 5
_OPEN = 100
_OUTCOMES = 50
_HANDOFFS = 20
_NOTHING = "nothing was noted"


class LastOutcome(StrEnum):
    """How the last thing that was done went; interrupted: nobody was there to tell."""

    SUCCESS = "success"
    FAILURE = "failure"
    INTERRUPTED = "interrupted"


class SessionState(StrEnum):
    OPEN = "open"
    ENDED = "ended"
    INTERRUPTED = "interrupted"  # It was not seen any more and never ended; it may still come back.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Notes:
    """What is noted in a session, and handed over."""

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
    """A session as it stands: what was noted along the way."""

    goal: str = ""
    state: SessionState = SessionState.OPEN
    started_at: datetime
    last_seen: datetime
    ended_at: datetime | None = None
    actions: list[str] = field(default_factory=list)  # The latest, newest last.
    action_count: int = 0  # All of them, also those too old to be kept.
    decisions: list[str] = field(default_factory=list)
    confidence_level: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHandoff(_Notes):
    """Compressed context for going on where a session left off."""

    session_id: str
    last_action: str
    last_outcome: LastOutcome
    current_goal: str
    key_decisions: list[str]  # At most ten, the newest first.
    confidence_level: float  # Between 0 and 1: how well it was going.
    session_start: datetime
    session_end: datetime
    duration_ms: int
    embedding: list[float] | None = None
    created_at: datetime
    left_out: Mapping[str, int] = field(default_factory=dict)  # How many of each list there was no room for.
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContext:
    """What a session starts with."""

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
    # Others of this agent that are still going on, as far as anybody knows.
    open_sessions: list[Session] = field(default_factory=list)
    retrieval_id: str | None = None  # What to name when an outcome is learned with the help of these heuristics.


class AwaitableSelf:
    """A value that may be awaited, and then gives itself."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, Self]:
        yield from ()
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Orientation:
    """What an agent knows before it begins, beside its memories."""

    session_id: str
    agent: str
    goal: str
    work_items: list[WorkItem]
    codebase_summary: str | None
    recent_activity: list[str]
    scope_rules: list[str]  # What the agent may do.
    constraints: list[str]  # What it may not.
    quality_gates: list[str]  # What must hold before something is done.
    recommended_start: WorkItem | None
    # Which reader made the work items: `local`, a model's name, or both when the model failed; empty without.
    planned_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializationResult(Orientation, AwaitableSelf):
    """What an agent knows before it begins."""

    project_id: str
    relevant_memories: MemorySlice
    initialized_at: datetime
    session: SessionContext

    def to_prompt(self, max_tokens: int = 2000) -> str:
        """All of it as Markdown for a prompt, within the budget."""
        return write_briefing(self, max_tokens)


# Arguments and attributes that have another name in a record.
_STORED_AS = {
    "current_goal": "goal", "key_decisions": "decisions", "active_files": "files", "test_status": "tests",
    "risk_flags": "risks", "confidence_level": "confidence", "session_start": "started_at", "session_end": "ended_at",
}  # fmt: skip


def read_session(record: Record) -> Session:
    lists = {name: [one["what"] for one in record.body[name]] for name in ("actions", "decisions")}
    return decode_record(Session, record, _STORED_AS, **lists)


def read_handoff(record: Record) -> SessionHandoff:
    start, end = (from_iso(record.body[name]) or record.created_at for name in ("started_at", "ended_at"))
    lasted = max(0, round((end - start).total_seconds() * 1000))
    embedding = unit(record.vectors[0]) if record.vectors else None
    return decode_record(SessionHandoff, record, _STORED_AS, duration_ms=lasted, embedding=embedding)


# -- what is noted


def read_goal(_label: str, given: object) -> str:
    return shorten(clean(validate.optional_text("goal", given) or ""), _GOAL_CHARS)


def read_line(label: str, given: object) -> str:
    # What a program printed may be pasted here; colours and control characters are dropped.
    return shorten(clean(validate.output(label, given) or validate.text(label, given)), _ITEM_CHARS)


def read_paths(label: str, given: object) -> list[str]:
    """Return a list of short texts, each once; one text stands for a list of it."""
    values = [given] if isinstance(given, str) else validate.items(label, given, "texts")
    return list(dict.fromkeys(read_line(f"{label}[{at}]", one) for at, one in enumerate(values)))


def read_lines(label: str, given: object) -> list[str]:
    """Return the same where case and punctuation do not matter."""
    return join_lines(read_paths(label, given))


def name_as_stored(given: Body) -> dict[str, Any]:
    """Return the arguments that are not None, under the names they have in a record."""
    return {_STORED_AS.get(name, name): value for name, value in given.items() if value is not None}


def join_lines(*lists: Iterable[str]) -> list[str]:
    """Return all texts, each once and as it was said first."""
    texts: dict[str, str] = {}
    for text in (text for lines in lists for text in lines):
        texts.setdefault(normalise(text) or text, text)
    return list(texts.values())


def sort_tests(tests: Mapping[str, bool]) -> dict[str, bool]:
    """Return the failing ones first, and not too many."""
    return dict(sorted(tests.items(), key=lambda pair: pair[1])[:_MAX_TESTS])


# -- sessions


def begin_session(tx: Transaction, agent: str, goal: str, owner: Body | None, user: str | None) -> Record:
    now = to_iso(tx.engine.clock())
    body: dict[str, Any] = {name: [] for name in ("actions", *MAX_ITEMS)}
    body |= {"goal": goal, "started_at": now, "ended_at": None, "last_seen": now, "state": str(SessionState.OPEN)}
    body |= {"action_count": 0, "tests": {}, "confidence": None, "owner": owner}
    return tx.add("session", body, agent=agent, user=user or "")


def find_session(engine: Engine, agent: str, id: str) -> Record:
    """Return a session of this agent; the error names those there are."""
    for record in engine.store.get([id]):
        if (record.kind, record.project, record.agent) == ("session", engine.project, agent):
            return record
        if (record.kind, record.project) == ("session", engine.project):
            raise NotFoundError(f"session {id!r} belongs to {record.agent!r}, not to {agent!r}")
    latest = [f"{one.id} ({one.body['state']})" for one in scan_records(engine, "session", _KNOWN, agents={agent})]
    known = ", ".join(latest) or "none yet; start_session begins one"
    raise NotFoundError(f"{agent!r} has no session {id!r} in project {engine.project!r}. Its latest: {known}.")


def note_session(tx: Transaction, agent: str, id: str, given: Body, owner: Body | None) -> Record:
    """Add what happened since the session was last heard of; a name that is not given leaves a thing as it is."""
    [record] = tx.see([find_session(tx.engine, agent, id)])
    body, now = record.body, to_iso(tx.engine.clock())
    actions = (
        [{"what": given["action"], "outcome": str(given.get("outcome", "")), "at": now}] if "action" in given else []
    )
    if body["state"] == SessionState.ENDED:
        raise ValidationError(f"session {id!r} has ended; start_session begins another")
    lists = {"files": list(dict.fromkeys((*given.get("files", ()), *body["files"])))}
    decisions = join_lines(given.get("decisions", ()), [one["what"] for one in body["decisions"]])
    resolved, known = set(map(normalise, given.get("resolved", ()))), [*body["blockers"], *body["risks"]]
    for text in given.get("resolved", ()):
        if normalise(text) not in map(normalise, known):
            raise ValidationError(
                f"{text!r} is no blocker and no risk of session {id!r}. It has: {'; '.join(known) or 'none'}."
            )
    for name in ("blockers", "risks"):
        left = [text for text in body[name] if normalise(text) not in resolved]
        lists[name] = join_lines(given.get(name, ()), left)
    lists["next_steps"] = given.get("next_steps", body["next_steps"])
    noted = {
        **body,
        "state": str(SessionState.OPEN),
        "ended_at": None,
        "last_seen": now,
        "owner": owner,
        "goal": given.get("goal", body["goal"]),
        "actions": [*body["actions"], *actions][-_MAX_ACTIONS:],
        "action_count": body["action_count"] + len(actions),
        "decisions": [{"what": text} for text in decisions[: MAX_ITEMS["decisions"]]],
        **{name: lines[: MAX_ITEMS[name]] for name, lines in lists.items()},
        "tests": sort_tests({**body["tests"], **given.get("tests", {})}),
        "confidence": given.get("confidence", body["confidence"]),
    }
    return tx.change(record, noted, status=Status.ACTIVE)


def end_session(tx: Transaction, agent: str, id: str, closing: Body) -> Record:
    """Return the handoff. Ended twice, the later closing replaces the earlier, and what it leaves out stays."""
    [record] = tx.see([find_session(tx.engine, agent, id)])
    now = ended = tx.engine.clock()
    before = _find_handoff(tx, id) if record.body["state"] == SessionState.ENDED else None
    if before is not None:
        ended = from_iso(record.body["ended_at"]) or now
        # How well it goes follows from how it went, unless somebody said it.
        dropped = ("left_out", *(["confidence"] if "last_outcome" in closing else []))
        earlier = {name: value for name, value in before.body.items() if name not in dropped}
        given = {name: value for name, value in closing.items() if value or name not in ("decisions", "files")}
        closing = {**earlier, **given, "tests": {**before.body["tests"], **closing.get("tests", {})}}
    return _put_handoff(tx, record, closing, _list_outcomes(tx.engine, record), ended, SessionState.ENDED)


def _find_handoff(tx: Transaction, id: str) -> Record | None:
    return next(iter(tx.see(scan_records(tx.engine, "handoff", 1, sessions={id}))), None)


def _put_handoff(
    tx: Transaction, record: Record, closing: Body, outcomes: Sequence[Record], ended: datetime, state: SessionState
) -> Record:
    """End a session with a handoff: what was said at the end, else what was noted along the way."""
    notes = record.body
    lists = {name: closing.get(name, notes[name]) for name in MAX_ITEMS}
    lists["decisions"] = join_lines(closing.get("decisions", []), [one["what"] for one in notes["decisions"]])
    lists["files"] = list(dict.fromkeys((*closing.get("files", ()), *notes["files"])))
    last, result = _find_last(notes, outcomes)
    result = closing.get("last_outcome") or result or str(LastOutcome.SUCCESS)
    confidence = closing.get("confidence", notes["confidence"])
    if confidence is None:
        # How it went until now, with a half on either side to begin with.
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
    """Return the last thing that is known to have been done, and how it went: noted, or learned from."""
    action = noted["actions"][-1] if noted["actions"] else {"what": "", "outcome": "", "at": ""}
    if outcomes and str(to_iso(outcomes[0].created_at)) > action["at"]:
        newest = outcomes[0].body
        return shorten(f"{newest['task']}: {newest['strategy']}", _ITEM_CHARS), _judge_outcome(outcomes[0])
    return action["what"], action["outcome"]


def _judge_outcome(outcome: Record) -> str:
    return str(LastOutcome.FAILURE if outcome.body["outcome"] == "failure" else LastOutcome.SUCCESS)


def list_open(engine: Engine, agent: str) -> list[Record]:
    return scan_records(engine, "session", _OPEN, agents={agent}, statuses={Status.ACTIVE})


def check_session(tx: Transaction, agent: str, id: str, alive_for: timedelta) -> bool:
    """Return whether a session may still be going on; one that is not hands over what is known.

    It goes on while its process is not known to be gone, and it was seen lately; learning is a sign of life too.
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
    steps = [f"See how far this got: {last}"] if last else []
    steps += [f"Go on with: {notes['goal']}"] if notes["goal"] else []
    closing = {
        "last_action": last or "started the session",
        "last_outcome": LastOutcome.INTERRUPTED,
        "next_steps": notes["next_steps"] or [shorten(step, _ITEM_CHARS) for step in steps],
        "risks": join_lines([flag], notes["risks"]),
    }
    _put_handoff(tx, record, closing, outcomes, ended, SessionState.INTERRUPTED)
    return False


def _list_outcomes(engine: Engine, record: Record) -> list[Record]:
    """Return what was learned during a session, newest first: until it ended, or the agent's next one began."""
    began, agents = record.created_at, {record.agent}
    later = scan_records(engine, "session", _OPEN, agents=agents, created_from=began)
    ends = [one.created_at for one in later if one.created_at > began]
    end = min([*ends, from_iso(record.body.get("ended_at")) or engine.clock()]) + timedelta(microseconds=1)
    seen = {"agents": agents, "users": visible_users(record.user)}
    return scan_records(engine, "outcome", _OUTCOMES, created_from=began, created_to=end, **seen)


def list_handoffs(engine: Engine, agent: str, limit: int, users: Collection[str] | None = None) -> list[Record]:
    """Return the latest, by when their sessions ended."""
    most = max(limit, _HANDOFFS)
    records = scan_records(engine, "handoff", most, agents={agent}, users=users, statuses={Status.ACTIVE})
    return sorted(records, key=lambda one: (one.body["ended_at"], one.id), reverse=True)[:limit]


def find_latest(engine: Engine, agent: str, user: str | None = None) -> SessionHandoff | None:
    """Return the latest handoff that says something: a session in which nothing happened hides none before it."""
    records = list_handoffs(engine, agent, _HANDOFFS, users=visible_users(user))
    contents = (*MAX_ITEMS, "tests", "metadata")
    full = [one for one in records if one.body["last_action"] != _NOTHING or any(one.body[name] for name in contents)]
    return next(map(read_handoff, full or records), None)


# -- whether the process that held a session is still there


def mark_process() -> dict[str, Any]:
    """Return what tells another process on the same machine whether this one is gone."""
    return {"machine": _name_machine(), "pid": os.getpid(), "began": _find_start(os.getpid())}


def is_process_gone(held: Body | None) -> bool:
    """True only when it is certain: another machine's processes cannot be seen from here."""
    # On Windows signal 0 would end the process that is asked about.
    if not held or held.get("machine") != _name_machine() or os.name != "posix":
        return False
    try:
        os.kill(held["pid"], 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    return _find_start(held["pid"]) not in ("", held.get("began"))


@lru_cache(maxsize=1)
def _name_machine() -> str:
    """Return a name that no other machine, start of the machine or container shares, where the system tells."""
    # Only Linux tells; elsewhere the name has to do.
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{platform.node()}/{boot}/{os.readlink('/proc/self/ns/pid')}"
    return platform.node()


def _find_start(pid: int) -> str:
    """Return when a process began, as the kernel counts, since its number may be given to another one later.

    Empty: it cannot be told; "-": it has ended.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The name of the program stands in brackets and may hold spaces; the 22nd field is the start.
    parts = stat.rpartition(")")[2].split()
    # Dead: it ended, and only its parent has not asked how yet.
    return "-" if parts[0] in ("Z", "X") else parts[19]


# -- as text for a prompt: fixed order, inert, within a budget. The layout is always the same, label by label, so that
# nothing shifts when a part is empty. Long parts are shortened until the whole fits.

_OF_MEMORIES = 0.4  # Such a part of a briefing is for memories; what they do not need is for the rest.
_NONE = "none"
# The longest line; of a list at most a twentieth of it is shown.
_WIDTHS = (200, 160, 120, 90, 70, 50, 32, 16, 6)


def _write_fullest(list_lines: Callable[[int], Iterator[str]], max_tokens: int) -> str:
    """Return the fullest text that keeps to the budget."""
    for chars in _WIDTHS:
        lines = "\n".join(list_lines(chars)).splitlines()
        if tokens("\n".join(lines)) <= max_tokens:
            break
    # The last resort: as many whole lines as fit.
    while tokens("\n".join(lines)) > max_tokens:
        lines.pop()
    return "\n".join(lines)


def _quote(text: str, chars: int) -> str:
    """Return one line that cannot act as structure."""
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
    """Return where an agent left off, in a few hundred tokens."""

    def list_lines(chars: int) -> Iterator[str]:
        yield f"# {_quote(agent, 40)} in {_quote(progress.project_id, 40)}"
        yield from _list_handoff(handoff, chars) if handoff else ("Last session: none yet",)
        now, done = _NONE, "no work items"
        for first in open_sessions[:1]:
            more = f" ({len(open_sessions) - 1} more)" if len(open_sessions) > 1 else ""
            goal = _quote(first.goal or "no goal", chars)
            now = f"{first.id} since {first.started_at:%Y-%m-%d %H:%M} UTC, {goal}{more}"
        if progress.items_total:
            done = f"{progress.items_done} of {progress.items_total} done, {progress.items_in_progress} in progress"
            done += f", {progress.items_blocked} blocked"
        yield f"Open now: {now}"
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
    yield f"Last session: {handoff.session_end:%Y-%m-%d %H:%M} UTC, {lasted}, {handoff.last_outcome}"
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
    """Return what an agent knows before it begins, as Markdown."""
    budget = validate.whole("max_tokens", max_tokens, 150, 100_000)
    recalled = result.relevant_memories.to_prompt(max(1, int(budget * _OF_MEMORIES)))
    known = f"\n\n## What is known\n{recalled}" if recalled else ""

    def describe_item(item: WorkItem, chars: int) -> str:
        waits = f", waits for {', '.join(item.waiting_for[:3])}" if item.waiting_for else ""
        return f"{item.id} {_quote(item.title, chars)} (priority {item.priority}, {item.status}{waits})"

    def list_lines(chars: int) -> Iterator[str]:
        start, some = result.recommended_start, chars // 20
        few = max(1, some)
        yield f"# {_quote(result.agent, 40)} in {_quote(result.project_id, 40)}"
        yield f"Goal: {_quote(result.goal, 2 * chars)}"
        yield f"Start with: {'nothing is open' if start is None else describe_item(start, chars)}"
        # Names of branches and commits come from the repository, and not everybody who wrote there is known.
        code = (result.codebase_summary or "").splitlines()
        items = [describe_item(item, chars) for item in result.work_items]
        for heading, lines, most, width in (
            ("Work items", items, 2 * few, 0),
            ("You may", result.scope_rules, few, chars),
            ("You must not, or only so", result.constraints, few, chars),
            ("Before it is done", result.quality_gates, few, chars),
            ("Code", code, 2 * some, 2 * chars),
            ("What happened last", result.recent_activity, some, chars),
        ):
            if lines:
                yield f"\n## {heading}"
            yield from (f"- {_quote(line, width) if width else line}" for line in lines[:most])
            if len(lines) > most:
                yield f"- ({len(lines) - most} more)"

    return _write_fullest(list_lines, budget - tokens(known)) + known
