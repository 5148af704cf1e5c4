"""Import journals into the store, let a model read sessions afterwards, and remove expired data.

A drain holds a lock. If it is killed, the next one continues where it stopped. A journal is read as a whole each time
(its quota keeps it small), and the events after the mark in the store are processed. Refused tool calls, which no hook
reports, are first added to the journal from the host's transcript, so that each session has one record and one mark.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from ..app import open_memory
from ..coding.events import list_texts, parse_journal
from ..coding.session import CodingSession, build_session
from ..coding.transcript import find_exits, find_unreported
from ..config import Config
from ..engine import coding_sessions
from ..engine.admit import clean
from ..engine.coding_sessions import (
    CheckedProposals,
    JournalMark,
    ReadingProgress,
    SessionPart,
    StoredSession,
    change_progress,
    find_mark,
    list_progress,
    mark_id,
    store_session,
)
from ..engine.context import Engine, Settings, UpkeepSettings
from ..engine.exchanges import find_near_exchanges
from ..engine.observations import adopt_old_fixes
from ..engine.retention import UpkeepRun, run_upkeep
from ..engine.retrieve.pipeline import find_rules
from ..engine.rewording import reword_refused
from ..engine.rules import Taught
from ..engine.transaction import Transaction, write
from ..errors import ALMAError, ModelError, ModelOutputError, ModelUnavailableError, OverBudgetError
from ..files import try_lock, write_atomic
from ..memory import ALMA
from ..models.budget import Budgeted, meter
from ..models.registry import digest_prompt
from ..opening import Closeable
from ..people import is_own_file
from ..ports import Model
from ..types.asking import Answer, BudgetLimits, Prompt
from ..types.kinds import EVERYWHERE
from ..types.query import Where, split_batches
from ..types.record import LIVE, Record, Status
from . import journal
from .news import note_rules, note_taught
from .notices import name_state
from .origin import OTHER, TRANSCRIPT, remove_dead_records
from .paths import AGENT_READER, DataDir, describe_error, is_model_allowed, list_own_files, read_settings
from .project import find_moved, read_copies
from .reader import choose_model, connect_reader, name_reader
from .verify import JournalJudge

DONE = ".done"
"""The file extension that earlier versions gave to journals before they removed them."""
IDLE_SECONDS = 300.0
"""A session that was idle for so long is read even though it has not ended."""
FIRST_PAUSE = 15 * 60.0
LONGEST_OUTAGE = 4 * 3600.0
MOST_TRIES = 3
"""After so many failed attempts, a session is tried once a day."""
SPENT = "the daily budget is used up"
_WARMING = "warm up"
_HEADER_BYTES = 64 * 1024
_TRANSCRIPT_BYTES = 64 * 1024 * 1024
_JOURNALS_BYTES = 256 * 1024 * 1024
_DAY = 86_400.0
_BATCH = 500


class ProjectMemories(Closeable):
    """The store with all projects of a person, opened on first use."""

    def __init__(self, data_dir: DataDir) -> None:
        self._data_dir = data_dir
        self._alma: ALMA | None = None
        self._open_lock = Lock()

    @property
    def alma(self) -> ALMA:
        """Return the memory; the first call opens it."""
        with self._open_lock:
            if self._alma is None:
                path = Path(self._data_dir.db)
                embedder = choose_embedder(self._data_dir)
                location: dict[str, Any] = {"storage_dir": path.parent, "db_name": path.name}
                upkeep = UpkeepSettings(every_hours=read_settings(self._data_dir)["upkeep_hours"])
                location["settings"] = Settings(upkeep=upkeep)
                self._alma = open_memory(Config(project_id=EVERYWHERE, embedding_provider=embedder, **location))
                adopt_old_fixes(self._alma.engine)
            return self._alma

    def engine(self, project: str) -> Engine:
        """Return the engine for one project."""
        return replace(self.alma.engine, project=project, actor="claude-smart")

    def close(self) -> None:
        """Close the store if it was opened."""
        if self._alma is not None:
            self._alma.close()
            self._alma = None


@dataclass(slots=True)
class DrainReport:
    """The result of a drain: what was imported, the rules learned from it, and the problems."""

    sessions: int = 0
    turns: int = 0
    taught: list[Taught] = field(default_factory=list)
    observed: list[Record] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    busy: bool = False
    """Whether another process was draining. That process checks for new requests before it ends."""
    waiting: int = 0
    """How many sessions have a prompt that the host has not written into its transcript yet."""
    has_new_unread: bool = False
    """Whether the number of turns that no reader has read changed."""


def drain(data_dir: DataDir, *, memory: ProjectMemories | None = None, wait: float = 0.0) -> DrainReport:
    """Import all journals. Only one process drains at a time; wait up to `wait` seconds for another to finish."""
    if memory is None:
        with ProjectMemories(data_dir) as new_memory:
            return drain(data_dir, memory=new_memory, wait=wait)
    report = DrainReport()
    paths = list_own_files(data_dir, ".jsonl")
    lock = try_lock(data_dir.drain_lock, wait) if paths else None
    if lock is None:
        report.busy = bool(paths)
        return report
    with lock:
        everywhere = memory.engine(EVERYWHERE)
        for path in paths:
            # A journal that cannot be imported must not block the others.
            try:
                session = None if is_imported(everywhere, path) else _drain_journal(data_dir, memory, path, report)
            except Exception as error:  # noqa: BLE001
                # The message of an unexpected error may quote a conversation.
                problem = str(error) if isinstance(error, ALMAError | OSError) else describe_error(error)
                report.problems.append(f"{os.path.basename(path)}: {problem}")
                continue
            if session is not None:
                report.sessions += 1
                report.turns += session.turns
                report.taught += session.taught
                report.observed += session.observed
        if report.has_new_unread:
            write_unread(data_dir, everywhere)
    return report


_MOST_PROJECTS = 200


def write_unread(data_dir: DataDir, engine: Engine) -> None:
    """Leave for the hooks how many turns of each project no reader has read, by the agent that recorded them."""
    counts: dict[str, Counter[str]] = {}
    moved: dict[str, str] = {}
    # Newest first: the file is small, because hooks read it.
    for progress in reversed(list_progress(engine)):
        if progress.project not in moved:
            moved[progress.project] = find_moved(data_dir, progress.project)
        project = moved[progress.project]
        if progress.unread and (project in counts or len(counts) < _MOST_PROJECTS):
            counts.setdefault(project, Counter())[progress.host] += progress.unread
    write_atomic(data_dir.unread, json.dumps(counts))


class Journal(NamedTuple):
    """A journal and the session that it records."""

    file: str
    """The id in its first line."""
    size: int
    """The number of bytes in complete lines."""
    event_ids: set[str]
    story: CodingSession
    transcripts: list[str]
    """The transcripts that the host named itself."""
    is_waiting: bool = False
    """Whether a prompt after the last event is not in the transcript yet."""


def read_journal(data_dir: DataDir, path: str, until: int | None = None) -> Journal | None:
    """Return a journal as far as it is known who caused its events; None if the file is missing or has no events.

    With `until`, the session is what it was up to this position.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    data = data[: data.rfind(b"\n") + 1]
    judge = JournalJudge(data_dir, path, data)
    if not judge.events:
        return None
    events, size = judge.judge()
    if until is not None:
        events = [event for event in events if event.offset <= until]
    name = next((event.id for event in judge.events if event.name == "Journal"), "")
    event_ids = {event.id for event in judge.events}
    return Journal(name, size, event_ids, build_session(events), judge.transcripts, size < len(data))


def is_imported(engine: Engine, path: str) -> bool:
    """Return whether all complete lines of a journal are in the store. Reads only its start and its end."""
    try:
        with open(path, "rb") as file:
            first, _ = parse_journal(file.readline(_HEADER_BYTES))
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - _HEADER_BYTES, 0))
            tail = file.read()
    except FileNotFoundError:
        # Removed in the meantime.
        return True
    mark = find_mark(engine, first[0].session) if first else JournalMark()
    return bool(first) and mark.file == first[0].id and mark.offset >= size - len(tail.rpartition(b"\n")[2])


def _drain_journal(data_dir: DataDir, memory: ProjectMemories, path: str, report: DrainReport) -> StoredSession | None:
    """Import one journal, and queue its session for the model reader if that is allowed."""
    content = read_journal(data_dir, path)
    if content is None or not content.story.session:
        return None
    project = find_moved(data_dir, content.story.project)
    engine = memory.engine(project or EVERYWHERE)
    mark = find_mark(engine, content.story.session)
    if mark.file != content.file:
        mark = JournalMark()
    content, transcript = _add_unreported(data_dir, path, content, mark.transcript)
    report.waiting += content.is_waiting
    if content.is_waiting and content.size <= mark.offset:
        return None
    # Queue first: after the import, nothing would show that the model has not read the session.
    is_allowed = is_model_allowed(data_dir)
    if coding_sessions.queue_session(engine, content.story, content.file, mark.offset, is_allowed=is_allowed):
        report.has_new_unread = True
    until = JournalMark(content.file, content.size, transcript)
    stored = store_session(engine, replace(content.story, project=project), until)
    if stored is not None:
        note_taught(data_dir, engine.project, stored.taught)
    return stored


def _add_unreported(data_dir: DataDir, path: str, content: Journal, start: int) -> tuple[Journal, int]:
    """Add events to the journal that only the transcript contains, after position `start`.

    Return the journal and the position up to which the transcript was read.
    """
    # A transcript that another program named is read as well, but what it says is not a person's.
    named = content.transcripts[-1] if content.transcripts else content.story.transcript_path
    origin = TRANSCRIPT if content.transcripts and is_own_file(named) else OTHER
    try:
        with open(named, "rb") as file:
            start = max(start, os.fstat(file.fileno()).st_size - _TRANSCRIPT_BYTES)
            file.seek(start)
            data = file.read(_TRANSCRIPT_BYTES)
    except (OSError, ValueError):
        # The path may be invalid, or the host may have deleted the transcript. The journal alone is then used.
        return content, start
    data = data[: data.rfind(b"\n") + 1]
    find_events = find_exits if content.story.host == "codex" else find_unreported
    events = find_events(data.splitlines(keepends=True), content.event_ids)
    for event in events:
        journal.append_event(data_dir, content.story.session, event, content.story.project, origin)
    return (events and read_journal(data_dir, path)) or content, start + len(data)


def recall_rules(
    memory: ProjectMemories, project: str, session: str, text: str, limit: int = 5
) -> list[tuple[str, str]]:
    """Return the ids and lines of the rules that are closest in meaning to a text, best first."""
    return [(one.id, one.body["line"]) for one in find_rules(memory.engine(project), session, text, limit)]


def warm_up(data_dir: DataDir, memory: ProjectMemories) -> None:
    """Load the models that find rules by meaning, which takes longer than a prompt waits for an answer."""
    if os.path.exists(data_dir.db):
        engine = memory.engine(EVERYWHERE)
        engine.encode([(_WARMING,)])
        if engine.calibration is not None:
            engine.read_pairs([(_WARMING, _WARMING)])
            engine.score_relevance([(_WARMING, _WARMING)])


def recall_exchanges(memory: ProjectMemories, project: str, text: str, limit: int) -> list[tuple[str, float]]:
    """Return the ids of the exchanges that are closest in meaning to a text, and how close they are, best first."""
    return find_near_exchanges(memory.engine(project), text, limit)


# -- reading by a model: only with the person's permission, one session at a time, within a daily budget. It runs after
# a drain, and nobody waits for it. A failed attempt only records the reason and the time of the next attempt.


@dataclass(slots=True)
class ReadingReport:
    """The result of reading sessions with a model."""

    sessions: int = 0
    turns: int = 0
    taught: list[Taught] = field(default_factory=list)
    refined: list[Record] = field(default_factory=list)
    archived: list[Record] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    problem: str = ""
    """Why some sessions were not read; empty if none is left."""
    title: str = "Claude"
    """What people call the reader."""


def read_sessions(
    data_dir: DataDir,
    memory: ProjectMemories,
    *,
    session: str = "",
    is_urgent: bool = False,
    timeout: float | None = None,
) -> ReadingReport:
    """Let the model read the waiting sessions that are due, or only `session`.

    Set `is_urgent` if a person waits for the result: open sessions and earlier failures then cause no delay, and a
    failure counts against no session. `timeout` is the limit for one call in seconds; if it is set, repaired commands
    are not explained.
    """
    report = ReadingReport(title=name_reader(read_settings(data_dir)))
    if not is_model_allowed(data_dir):
        return report
    lock = try_lock(os.path.join(data_dir.home, "reading.lock"), 5.0 if is_urgent else 0.0)
    if lock is None:
        report.problem = "another process is reading; try again in a moment"
        return report
    with lock:
        engine = memory.engine(EVERYWHERE)
        now = engine.clock().timestamp()
        tried: set[str] = set()
        while is_model_allowed(data_dir):
            # Listed again each time: other sessions may end while the model reads. Those that failed come last.
            listed = sorted(list_progress(engine), key=lambda one: (one.tries, one.failed_at))
            waiting = (one for one in listed if one.session not in tried and one.is_waiting)
            selected = (one for one in waiting if session in ("", one.session))
            due = next((one for one in selected if is_urgent or _is_due(data_dir, engine, one, now)), None)
            if due is None:
                break
            tried.add(due.session)
            if not _read_session(data_dir, memory, due, report, timeout, is_urgent):
                break
        if report.sessions:
            write_unread(data_dir, engine)
    return report


def _is_due(data_dir: DataDir, engine: Engine, progress: ReadingProgress, now: float) -> bool:
    # The daily limit may have been raised since.
    is_paid = progress.error == SPENT and _count_calls(engine) < read_settings(data_dir)["daily_calls"]
    return (progress.next_try <= now or is_paid) and (progress.has_ended or _is_idle(data_dir, progress.session))


def _is_idle(data_dir: DataDir, session: str) -> bool:
    try:
        return time.time() - os.path.getmtime(data_dir.journal_file(session)) > IDLE_SECONDS
    except FileNotFoundError:
        return True


def _read_session(
    data_dir: DataDir,
    memory: ProjectMemories,
    progress: ReadingProgress,
    report: ReadingReport,
    timeout: float | None,
    is_urgent: bool,
) -> bool:
    """Read one session. Return whether the next one may be tried."""
    engine = memory.engine(find_moved(data_dir, progress.project) or EVERYWHERE)
    content = read_journal(data_dir, data_dir.journal_file(progress.session))
    if content is None or content.file != progress.file:
        change_progress(engine, progress.session, is_waiting=False, answers={})
        return True
    mark = find_mark(engine, progress.session)
    if mark.file != content.file or mark.offset <= progress.offset:
        # Not imported yet.
        return True
    part = coding_sessions.collect_part(engine, content.story, progress.offset, mark.offset)
    try:
        reading = _ask_model(data_dir, engine, part, progress, timeout)
    except ModelError as error:
        report.problem = _note_failure(memory.engine(EVERYWHERE), progress, error, is_urgent)
        return isinstance(error, ModelOutputError)
    if changes := coding_sessions.apply_reading(engine, part, reading, progress):
        report.sessions += 1
        report.turns += len(part.turns)
        report.dropped.update(reading.dropped)
        note_taught(data_dir, engine.project, changes.taught)
        note_rules(data_dir, engine.project, _find_activated(engine, changes.refined))
        for name, more in changes._asdict().items():
            setattr(report, name, getattr(report, name) + more)
    return True


def _find_activated(engine: Engine, refined: Iterable[Record]) -> dict[str, str]:
    """Return the rules that waited until the model worded them, with their new states."""
    activated = {}
    for record in refined:
        history = Transaction(engine).read_history(record.id)
        before = history[-1].body["before"] if history else {}
        if record.status is Status.ACTIVE and before.get("status") == Status.CANDIDATE:
            activated[record.id] = name_state(str(record.status), record.session)
    return activated


def _ask_model(
    data_dir: DataDir, engine: Engine, part: SessionPart, progress: ReadingProgress, timeout: float | None
) -> CheckedProposals:
    if not part.exchanges:
        return CheckedProposals([], {})
    # Connect first: a call that cannot start must not count towards the budget.
    reader = connect_reader(data_dir, timeout)
    limits = BudgetLimits(calls=read_settings(data_dir)["daily_calls"])
    model = _StoringModel(Budgeted(reader, replace(engine, project=EVERYWHERE), limits), engine, progress)
    reading = coding_sessions.read_part(model, part)
    if reading.dropped and not reading.proposals:
        raise ModelOutputError(f"nothing in the answer passed the checks: {describe_dropped(reading.dropped)}")
    if timeout is not None:
        # A person waits for this one call.
        return reading
    reading = _reword_refused(engine, model, part, reading, progress)
    if part.repairs:
        try:
            return reading._replace(notes=coding_sessions.read_repairs(model, part))
        except ModelError:
            # Explaining repaired commands is worth one call, but no retry.
            return reading
    return reading


def _reword_refused(
    engine: Engine, model: Model, part: SessionPart, reading: CheckedProposals, progress: ReadingProgress
) -> CheckedProposals:
    """Let the model say again what it worded with names from nowhere. What it cannot say in other words waits."""
    try:
        return reword_refused(engine, model, part, reading)
    except ModelOutputError:
        return reading
    except ModelError:
        # The first answer is stored, so another attempt costs only this call. One is enough.
        if progress.tries:
            return reading
        raise


def choose_embedder(data_dir: DataDir) -> str:
    """Return the embedder of the store. CLAUDE_SMART_USE_LOCAL_EMBEDDING=0 counts in commands, not in the worker."""
    is_off = os.environ.get("CLAUDE_SMART_USE_LOCAL_EMBEDDING") == "0" or read_settings(data_dir)["embedding"] == "off"
    return "none" if is_off else "auto"


def _count_calls(engine: Engine) -> int:
    today = engine.clock().date().isoformat()
    return next((day.calls for day in meter(engine) if day.day == today), 0)


class _StoringModel:
    """A model whose answers are stored until they are applied, so that a killed process does not pay twice."""

    def __init__(self, model: Model, engine: Engine, progress: ReadingProgress) -> None:
        self.name = model.name
        self._model = model
        self._engine = engine
        self._session = progress.session
        self._answers = dict(progress.answers)

    def ask(self, prompt: Prompt) -> Answer:
        name = digest_prompt(prompt)
        if name not in self._answers:
            self._answers[name] = clean(self._model.ask(prompt).value)
            change_progress(self._engine, self._session, answers=self._answers)
        return Answer(value=self._answers[name], model=self.name)


def _note_failure(engine: Engine, progress: ReadingProgress, error: ModelError, is_urgent: bool) -> str:
    """Record why a session could not be read and when to try again. Return the reason.

    A model that cannot be reached, and a spent budget, are no failed attempt. Nor is one that a person asked for.
    """
    now = engine.clock()
    is_over_budget, is_invalid = isinstance(error, OverBudgetError), isinstance(error, ModelOutputError)
    is_outage = isinstance(error, ModelUnavailableError)
    tries = progress.tries + (not (is_over_budget or is_outage or is_urgent))
    outages = progress.outages + is_outage
    tomorrow = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), UTC).timestamp()
    if is_over_budget:
        next_try = tomorrow
    elif is_outage:
        next_try = now.timestamp() + min(LONGEST_OUTAGE, FIRST_PAUSE * 2 ** (outages - 1))
    else:
        next_try = now.timestamp() + (_DAY if tries >= MOST_TRIES else FIRST_PAUSE * 4 ** max(0, tries - 1))
    if is_urgent and progress.next_try > now.timestamp():
        # What a person asks for delays nothing.
        next_try = min(next_try, progress.next_try)
    failure: dict[str, Any] = {
        "error": SPENT if is_over_budget else clean(str(error)),
        "failed_at": now.timestamp(),
        "next_try": next_try,
    }
    answers = {} if is_invalid else progress.answers
    change_progress(engine, progress.session, **failure, tries=tries, outages=outages, answers=answers)
    for one in list_progress(engine) if not (is_invalid or is_urgent) else ():
        # A program that is missing or does not answer is not available for the other sessions either.
        if one.session != progress.session and one.is_waiting and one.next_try < failure["next_try"]:
            change_progress(engine, one.session, **failure, outages=outages)
    return str(failure["error"])


def describe_reader(data_dir: DataDir, memory: ProjectMemories | None) -> dict[str, Any]:
    """Return the state of the readers as JSON values: which one is on, its calls today, and what is waiting.

    `memory` is None if nothing has been stored yet.
    """
    settings = read_settings(data_dir)
    sessions = list_progress(memory.engine(EVERYWHERE)) if memory is not None else []
    last_read = max((one.read_at for one in sessions), default=0.0)
    failures = [one for one in sessions if one.error and one.failed_at >= last_read]
    failure = max(failures, key=lambda one: one.failed_at, default=None)
    next_try = datetime.fromtimestamp(failure.next_try, UTC).isoformat() if failure and failure.is_waiting else None
    reader = f"local + {settings['reader']}" if is_model_allowed(data_dir) else "local"
    return {
        "reader": AGENT_READER if settings["reader"] == AGENT_READER else reader,
        "title": name_reader(settings),
        "model": choose_model(settings) or "its own default",
        "calls_today": _count_calls(memory.engine(EVERYWHERE)) if memory is not None else 0,
        "daily_calls": settings["daily_calls"],
        "sessions_waiting": sum(one.is_waiting for one in sessions),
        "waiting": [_describe_waiting(data_dir, one) for one in sessions if one.is_waiting],
        "sessions_read": sum(one.read_at > 0 for one in sessions),
        "dropped": dict(sum((Counter(one.dropped) for one in sessions), Counter())),
        "error": failure.error if failure else "",
        "next_try": next_try,
    }


def _describe_waiting(data_dir: DataDir, progress: ReadingProgress) -> dict[str, Any]:
    """Return which session waits for the model, why, and when it is tried again at the earliest."""
    if progress.error == SPENT:
        why = SPENT
    elif progress.outages:
        why = "the model cannot be reached"
    elif progress.tries:
        why = f"failed {progress.tries} times" if progress.tries > 1 else "failed once"
    elif not (progress.has_ended or _is_idle(data_dir, progress.session)):
        why = "still open"
    else:
        why = "not read yet"
    next_try = datetime.fromtimestamp(progress.next_try, UTC).isoformat() if progress.next_try else None
    return {"session": progress.session, "project": progress.project, "why": why, "next_try": next_try}


def describe_dropped(dropped: Mapping[str, int]) -> str:
    """Return the reasons why proposals were dropped, each with its count."""
    return ", ".join(f"{count} × {reason}" for reason, count in sorted(dropped.items()))


# -- removing expired data. A journal that was not imported is never removed.


def remove_expired_daily(data_dir: DataDir, memory: ProjectMemories) -> None:
    """Remove expired data, at most once a day across all processes."""
    stamp = os.path.join(data_dir.home, "tidied")
    is_fresh = os.path.exists(stamp) and abs(time.time() - os.stat(stamp).st_mtime) <= _DAY
    lock = None if is_fresh else try_lock(data_dir.drain_lock)
    if lock is not None:
        with lock:
            # Set the stamp first, so that a failure is not repeated at every wake-up.
            os.close(os.open(stamp, os.O_CREAT | os.O_WRONLY, 0o600))
            os.utime(stamp)
            remove_expired(data_dir, memory)


def run_due_upkeep(data_dir: DataDir, memory: ProjectMemories, should_stop: Callable[[], bool] = lambda: False) -> None:
    """Run upkeep in all known projects where it is due. `should_stop` is asked before each batch."""
    for project in dict.fromkeys((EVERYWHERE, *(copy.key for copy in read_copies(data_dir)))):
        if os.path.exists(data_dir.db) and not should_stop():
            run_upkeep(UpkeepRun(memory.engine(project), should_stop=should_stop), if_due=True)


def remove_expired(data_dir: DataDir, memory: ProjectMemories) -> None:
    """Delete old imported journals and very old turns, and archive the rules of sessions that are over.

    The caller must hold the drain lock.
    """
    engine, settings, now = memory.engine(EVERYWHERE), read_settings(data_dir), time.time()
    remove_dead_records(data_dir, now - _DAY)
    days, total = settings["journal_days"], 0
    # Newest first, so that the quota removes the oldest.
    for path in sorted(list_own_files(data_dir, ".jsonl", DONE), key=os.path.getmtime, reverse=True):
        total += os.path.getsize(path)
        age = now - os.path.getmtime(path)
        if age > days * _DAY or (total > _JOURNALS_BYTES and age > _DAY):
            _remove_journal(data_dir, engine, path)
    write_unread(data_dir, engine)
    # Expired turns, exchanges, conversations and retrieval records. The rules learned from them stay.
    before = engine.clock() - timedelta(days=settings["episode_days"])
    expired = Where(kinds={"turn", "exchange", "episode", "retrieval"}, created_to=before)
    ids = [one.id for one in engine.store.scan(expired)]
    for batch in split_batches(ids, _BATCH):
        engine.store.delete(batch)
    # Session rules of sessions that are over.
    before = engine.clock() - timedelta(days=days)
    where = Where(kinds={"rule"}, statuses=LIVE, created_to=before)

    def archive_rules(tx: Transaction) -> None:
        for rule in tx.scan(where):
            if rule.session and rule.updated_at < before:
                tx.update(rule, status=Status.ARCHIVED)
                tx.add_history(rule, "archived", "its session is over", {"status": str(rule.status)})

    write(engine, archive_rules)


def _remove_journal(data_dir: DataDir, engine: Engine, path: str) -> None:
    content = read_journal(data_dir, path)
    session = content.story.session if content else ""
    mark = find_mark(engine, session)
    # If the mark belongs to a later journal of the session, this one was imported before it.
    if content and mark.file == content.file:
        if mark.offset < content.size:
            return
        engine.store.delete([mark_id(session), coding_sessions.progress_id(session)])
    for one in (path, f"{os.path.splitext(path)[0]}.shown"):
        with suppress(FileNotFoundError):
            os.remove(one)


def erase_from_journals(data_dir: DataDir, project: str, is_meant: Callable[[str], bool]) -> int:
    """Blank the journal lines of a project, or of all (EVERYWHERE), that contain a text for which `is_meant` is true.

    Return the number of lines. A line keeps its length, because marks count bytes and a hook may be appending. The
    caller must hold the drain lock.
    """
    blanked = 0
    for path in list_own_files(data_dir, ".jsonl", DONE):
        with open(path, "r+b") as file:
            offset = 0
            for line in file.read().split(b"\n")[:-1]:
                for event in parse_journal(line + b"\n")[0]:
                    if project in (EVERYWHERE, event.project) and any(map(is_meant, list_texts(event.data))):
                        file.seek(offset)
                        file.write(b" " * len(line))
                        blanked += 1
                offset += len(line) + 1
    return blanked
