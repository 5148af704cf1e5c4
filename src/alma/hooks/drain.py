"""From the journals into the store; what a model reads in them later; and what goes when it is no longer needed.

A drain holds a lock; if it is killed, the next one continues where it stopped. A journal is read whole each time (it is
small: it has a quota), and the events after the mark kept in the store are processed. What no hook reports (refused
tool calls) is first added to the journal from the host's own transcript, so that there is one account of a session and
one mark in it.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Self

from ..app import open_memory
from ..coding.events import parse_journal
from ..coding.session import CodingSession, build_session
from ..coding.transcript import find_unreported
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
from ..engine.context import Engine
from ..engine.observations import adopt_old_fixes
from ..engine.retrieve.pipeline import find_rules
from ..engine.rules import Taught
from ..engine.transaction import Transaction, write
from ..errors import ALMAError, ModelError, ModelOutputError, OverBudgetError
from ..files import try_lock
from ..memory import ALMA
from ..models import registry
from ..models.budget import Budgeted, meter
from ..models.claude_cli import PATH_VARIABLE, ClaudeCLI
from ..models.registry import digest_prompt
from ..ports import Model
from ..types.asking import Answer, BudgetLimits, Prompt
from ..types.kinds import EVERYWHERE
from ..types.query import Where
from ..types.record import LIVE, Record, Status
from . import journal
from .paths import DataDir, describe_error, is_model_allowed, list_own_files, read_settings
from .project import find_moved

DONE = ".done"
"""The ending that earlier versions gave journals before they removed them."""
IDLE_SECONDS = 300.0
"""A session in which nothing was recorded for so long is read although it has not ended."""
FIRST_PAUSE = 15 * 60.0
LONGEST_PAUSE = 86_400.0
MAX_TRIES = 8
SPENT = "the daily budget is used up"
_HEADER_BYTES = 64 * 1024
_TRANSCRIPT_BYTES = 64 * 1024 * 1024
_JOURNALS_BYTES = 256 * 1024 * 1024
_DAY = 86_400.0
_BATCH = 500


class ProjectMemories:
    """The store of a person for all their projects, opened when it is first needed."""

    def __init__(self, data_dir: DataDir) -> None:
        self._data_dir = data_dir
        self._opened: ALMA | None = None
        self._opening = Lock()

    @property
    def alma(self) -> ALMA:
        with self._opening:
            if self._opened is None:
                path = Path(self._data_dir.db)
                embedder = "none" if os.environ.get("CLAUDE_SMART_USE_LOCAL_EMBEDDING") == "0" else "auto"
                place: dict[str, Any] = {"storage_dir": path.parent, "db_name": path.name}
                self._opened = open_memory(Config(project_id=EVERYWHERE, embedding_provider=embedder, **place))
                adopt_old_fixes(self._opened.engine)
            return self._opened

    def engine(self, project: str) -> Engine:
        return replace(self.alma.engine, project=project)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@dataclass(slots=True)
class DrainReport:
    """What a drain did."""

    sessions: int = 0
    turns: int = 0
    taught: list[Taught] = field(default_factory=list)
    observed: list[Record] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    busy: bool = False
    """Somebody else is draining; they look again before they end."""


def drain(data_dir: DataDir, *, memory: ProjectMemories | None = None, wait: float = 0.0) -> DrainReport:
    """Take in all journals. One drainer at a time: `wait` seconds for another to finish."""
    if memory is None:
        with ProjectMemories(data_dir) as opened:
            return drain(data_dir, memory=opened, wait=wait)
    report = DrainReport()
    paths = list_own_files(data_dir, ".jsonl")
    lock = try_lock(data_dir.drain_lock, wait) if paths else None
    if lock is None:
        report.busy = bool(paths)
        return report
    with lock:
        everywhere = memory.engine(EVERYWHERE)
        for path in paths:
            # One journal that cannot be taken in must not hold up the others.
            try:
                stored = None if is_taken_in(everywhere, path) else _drain_journal(data_dir, memory, path)
            except Exception as error:  # noqa: BLE001
                # What was not foreseen may quote what was said.
                problem = str(error) if isinstance(error, ALMAError | OSError) else describe_error(error)
                report.problems.append(f"{os.path.basename(path)}: {problem}")
                continue
            if stored is not None:
                report.sessions += 1
                report.turns += stored.turns
                report.taught += stored.taught
                report.observed += stored.observed
    return report


class Journal(NamedTuple):
    """A journal, and the session that it tells of."""

    file: str
    """The id in its first line."""
    size: int
    """How many bytes of whole lines it has."""
    known: set[str]
    story: CodingSession


def read_journal(path: str) -> Journal | None:
    """Return a journal; None when it is gone or holds no event."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    events, _ = parse_journal(data)
    name = next((event.id for event in events if event.name == "Journal"), "")
    known = {event.id for event in events}
    return Journal(name, data.rfind(b"\n") + 1, known, build_session(events)) if events else None


def is_taken_in(engine: Engine, path: str) -> bool:
    """Return whether all whole lines of a journal are in the store: told by its two ends, because most of them are."""
    try:
        with open(path, "rb") as file:
            first, _ = parse_journal(file.readline(_HEADER_BYTES))
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - _HEADER_BYTES, 0))
            tail = file.read()
    except FileNotFoundError:
        # Cleared meanwhile.
        return True
    mark = find_mark(engine, first[0].session) if first else JournalMark()
    return bool(first) and mark.file == first[0].id and mark.offset >= size - len(tail.rpartition(b"\n")[2])


def _drain_journal(data_dir: DataDir, memory: ProjectMemories, path: str) -> StoredSession | None:
    """Take in one journal, and queue its session for a model where that is allowed."""
    content = read_journal(path)
    if content is None:
        return None
    project = find_moved(data_dir, content.story.project)
    engine = memory.engine(project or EVERYWHERE)
    mark = find_mark(engine, content.story.session)
    if mark.file != content.file:
        mark = JournalMark()
    content, transcript = _add_unreported(data_dir, path, content, mark.transcript)
    # First of all: once it is taken in, nobody would know that a model has not read it.
    is_allowed = is_model_allowed(data_dir)
    coding_sessions.queue_session(engine, content.story, content.file, mark.offset, is_allowed=is_allowed)
    until = JournalMark(content.file, content.size, transcript)
    return store_session(engine, replace(content.story, project=project), until)


def _add_unreported(data_dir: DataDir, path: str, content: Journal, start: int) -> tuple[Journal, int]:
    """Add to the journal what only the transcript tells beyond `start`.

    Returns the journal and how far the transcript was read.
    """
    try:
        with open(content.story.transcript_path, "rb") as file:
            start = max(start, os.fstat(file.fileno()).st_size - _TRANSCRIPT_BYTES)
            file.seek(start)
            data = file.read(_TRANSCRIPT_BYTES)
    except (OSError, ValueError):
        # It may be no path at all, and the host keeps its transcripts as long as it likes. Without one the hooks' own
        # account has to do.
        return content, start
    data = data[: data.rfind(b"\n") + 1]
    events = find_unreported(data.splitlines(keepends=True), content.known)
    for event in events:
        journal.append_event(data_dir, content.story.session, event, content.story.project)
    return (events and read_journal(path)) or content, start + len(data)


def recall_rules(
    memory: ProjectMemories, project: str, session: str, text: str, limit: int = 5
) -> list[tuple[str, str]]:
    """Return the ids and lines of rules that a text calls for by meaning, best first."""
    return [(one.id, one.body["line"]) for one in find_rules(memory.engine(project), session, text, limit)]


# -- reading by a model: only with the person's leave, one session at a time, within a daily budget. Nobody waits for
# it: it runs after a drain. An attempt that fails changes nothing but the note of why it failed and of the next try.


@dataclass(slots=True)
class ReadingReport:
    """What Claude read, and what came of it."""

    sessions: int = 0
    turns: int = 0
    taught: list[Taught] = field(default_factory=list)
    refined: list[Record] = field(default_factory=list)
    archived: list[Record] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    problem: str = ""
    """Why not everything was read; empty when nothing is left."""


def read_sessions(
    data_dir: DataDir,
    memory: ProjectMemories,
    *,
    session: str = "",
    is_urgent: bool = False,
    timeout: float | None = None,
) -> ReadingReport:
    """Let Claude read what waits: all sessions that are due, or one of them.

    With `is_urgent` a person waits for it: neither an open session nor an earlier failure makes it wait any longer.
    `timeout` is for one call, in seconds; with one, repaired commands are not explained.
    """
    report = ReadingReport()
    if not is_model_allowed(data_dir):
        return report
    lock = try_lock(os.path.join(data_dir.home, "reading.lock"), 5.0 if is_urgent else 0.0)
    if lock is None:
        report.problem = "another process is reading"
        return report
    with lock:
        engine = memory.engine(EVERYWHERE)
        now = engine.clock().timestamp()
        tried: set[str] = set()
        while is_model_allowed(data_dir):
            # Listed anew each time: other sessions may end while Claude reads.
            fresh = (one for one in list_progress(engine) if one.session not in tried and one.is_waiting)
            wanted = (one for one in fresh if session in ("", one.session))
            due = next((one for one in wanted if is_urgent or _is_due(data_dir, engine, one, now)), None)
            if due is None:
                break
            tried.add(due.session)
            if not _read_session(data_dir, memory, due, report, timeout):
                break
    return report


def _is_due(data_dir: DataDir, engine: Engine, progress: ReadingProgress, now: float) -> bool:
    try:
        idle = time.time() - os.path.getmtime(data_dir.journal(progress.session))
    except FileNotFoundError:
        idle = IDLE_SECONDS + 1
    # Somebody may have raised the limit.
    is_paid = progress.error == SPENT and _count_calls(engine) < read_settings(data_dir)["daily_calls"]
    return (progress.next_try <= now or is_paid) and (progress.has_ended or idle > IDLE_SECONDS)


def _read_session(
    data_dir: DataDir, memory: ProjectMemories, progress: ReadingProgress, report: ReadingReport, timeout: float | None
) -> bool:
    """Read one session. Returns whether it makes sense to go on with others."""
    engine = memory.engine(find_moved(data_dir, progress.project) or EVERYWHERE)
    content = read_journal(data_dir.journal(progress.session))
    if content is None or content.file != progress.file:
        change_progress(engine, progress.session, is_waiting=False, answers={})
        return True
    mark = find_mark(engine, progress.session)
    if mark.file != content.file or mark.offset <= progress.offset:
        # Not taken in yet.
        return True
    part = coding_sessions.collect_part(engine, content.story, progress.offset, mark.offset)
    try:
        reading = _ask_model(data_dir, engine, part, progress, timeout)
    except ModelError as error:
        report.problem = _note_failure(memory.engine(EVERYWHERE), progress, error)
        return isinstance(error, ModelOutputError)
    if changes := coding_sessions.apply_reading(engine, part, reading, progress):
        report.sessions += 1
        report.turns += len(part.turns)
        report.dropped.update(reading.dropped)
        for name, more in changes._asdict().items():
            setattr(report, name, getattr(report, name) + more)
    return True


def _ask_model(
    data_dir: DataDir, engine: Engine, part: SessionPart, progress: ReadingProgress, timeout: float | None
) -> CheckedProposals:
    if not part.turns:
        return CheckedProposals([], {})
    # First of all, because a call that cannot even start must not count.
    find_program()
    settings = read_settings(data_dir)
    options = {"model": settings["model_name"], **({} if timeout is None else {"timeout": timeout})}
    claude = registry.create("claude-cli", options, os.environ)
    assert claude is not None
    limits = BudgetLimits(calls=settings["daily_calls"])
    model = _StoringModel(Budgeted(claude, replace(engine, project=EVERYWHERE), limits), engine, progress)
    reading = coding_sessions.read_part(model, part)
    if reading.dropped and not reading.proposals:
        raise ModelOutputError(f"nothing in the answer passed the checks: {describe_dropped(reading.dropped)}")
    if part.repairs and timeout is None:
        try:
            return reading._replace(notes=coding_sessions.read_repairs(model, part))
        except ModelError:
            # Repaired commands are worth one call, and no second try.
            return reading
    return reading


def find_program() -> str:
    """Return where the program `claude` is; ModelUnavailableError when it is missing."""
    return ClaudeCLI(os.environ, path=os.environ.get(PATH_VARIABLE, "")).find_program()


def _count_calls(engine: Engine) -> int:
    today = engine.clock().date().isoformat()
    return next((day.calls for day in meter(engine) if day.day == today), 0)


class _StoringModel:
    """A model whose answers are stored until they are applied: a process that is killed in between pays once."""

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


def _note_failure(engine: Engine, progress: ReadingProgress, error: ModelError) -> str:
    """Note why a session could not be read, and when it is tried again. Returns the reason."""
    now = engine.clock()
    is_spent, is_nonsense = isinstance(error, OverBudgetError), isinstance(error, ModelOutputError)
    tries = progress.tries + (not is_spent)
    tomorrow = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), UTC).timestamp()
    later = now.timestamp() + min(LONGEST_PAUSE, FIRST_PAUSE * 4 ** (tries - 1))
    failure: dict[str, Any] = {
        "error": SPENT if is_spent else clean(str(error)),
        "failed_at": now.timestamp(),
        "next_try": tomorrow if is_spent else later,
    }
    answers = {} if is_nonsense else progress.answers
    change_progress(engine, progress.session, **failure, tries=tries, is_waiting=tries < MAX_TRIES, answers=answers)
    for one in list_progress(engine) if not is_nonsense else ():
        # A program that is missing or does not answer is missing for the other sessions, too.
        if one.session != progress.session and one.is_waiting and one.next_try < failure["next_try"]:
            change_progress(engine, one.session, **failure)
    return str(failure["error"])


def describe_reader(data_dir: DataDir, memory: ProjectMemories | None) -> dict[str, Any]:
    """Return which reader is at work, what it cost today, and what it has to do, as JSON values.

    `memory` is None before anything was stored.
    """
    settings = read_settings(data_dir)
    sessions = list_progress(memory.engine(EVERYWHERE)) if memory is not None else []
    last_read = max((one.read_at for one in sessions), default=0.0)
    failures = [one for one in sessions if one.error and one.failed_at >= last_read]
    failed = max(failures, key=lambda one: one.failed_at, default=None)
    next_try = datetime.fromtimestamp(failed.next_try, UTC).isoformat() if failed and failed.is_waiting else None
    return {
        "reader": "local + claude" if is_model_allowed(data_dir) else "local",
        "model": settings["model_name"],
        "calls_today": _count_calls(memory.engine(EVERYWHERE)) if memory is not None else 0,
        "daily_calls": settings["daily_calls"],
        "sessions_waiting": sum(one.is_waiting for one in sessions),
        "sessions_read": sum(one.read_at > 0 for one in sessions),
        "dropped": dict(sum((Counter(one.dropped) for one in sessions), Counter())),
        "error": failed.error if failed else "",
        "next_try": next_try,
    }


def describe_dropped(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{count} × {reason}" for reason, count in sorted(dropped.items()))


# -- removing what is no longer needed. A journal that was not taken in is never removed.


def tidy_daily(data_dir: DataDir, memory: ProjectMemories) -> None:
    """Remove what is no longer needed, at most once a day for all processes."""
    stamp = os.path.join(data_dir.home, "tidied")
    is_fresh = os.path.exists(stamp) and abs(time.time() - os.stat(stamp).st_mtime) <= _DAY
    lock = None if is_fresh else try_lock(data_dir.drain_lock)
    if lock is not None:
        with lock:
            # First the stamp: what cannot be tidied is not tried again at every wake-up.
            os.close(os.open(stamp, os.O_CREAT | os.O_WRONLY, 0o600))
            os.utime(stamp)
            tidy(data_dir, memory)


def tidy(data_dir: DataDir, memory: ProjectMemories) -> None:
    """Remove old journals that were taken in, profiles of sessions long over, and very old turns.

    The caller holds the drain lock, or nobody does.
    """
    engine, settings, now = memory.engine(EVERYWHERE), read_settings(data_dir), time.time()
    days, total = settings["journal_days"], 0
    # Newest first: what goes beyond the quota is the oldest.
    for path in sorted(list_own_files(data_dir, ".jsonl", DONE), key=os.path.getmtime, reverse=True):
        total += os.path.getsize(path)
        age = now - os.path.getmtime(path)
        if age > days * _DAY or (total > _JOURNALS_BYTES and age > _DAY):
            _remove_journal(engine, path)
    # Turns, conversations and notes of what was shown, past their time; what they taught stays.
    before = engine.clock() - timedelta(days=settings["episode_days"])
    gone = [one.id for one in engine.store.scan(Where(kinds={"turn", "episode", "retrieval"}, created_to=before))]
    for start in range(0, len(gone), _BATCH):
        engine.store.delete(gone[start : start + _BATCH])
    # Rules of single sessions that are over.
    before = engine.clock() - timedelta(days=days)
    where = Where(kinds={"rule"}, statuses=LIVE, created_to=before)

    def archive(tx: Transaction) -> None:
        for rule in tx.scan(where):
            if rule.session and rule.updated_at < before:
                tx.update(rule, status=Status.ARCHIVED)
                tx.add_history(rule, "archived", "its session is over")

    write(engine, archive)


def _remove_journal(engine: Engine, path: str) -> None:
    content = read_journal(path)
    session = content.story.session if content else ""
    mark = find_mark(engine, session)
    # Where another journal of the session has begun, this one was taken in before that.
    if content and mark.file == content.file:
        if mark.offset < content.size:
            return
        engine.store.delete([mark_id(session), coding_sessions.progress_id(session)])
    for one in (path, f"{os.path.splitext(path)[0]}.shown"):
        with suppress(FileNotFoundError):
            os.remove(one)


def erase_from_journals(data_dir: DataDir, project: str, is_meant: Callable[[str], bool]) -> int:
    """Blank the journal lines of a project, or of all (EVERYWHERE), that hold a text that is meant; return how many.

    A line keeps its length: how far a journal was read is counted in bytes, and a hook may be appending to it. The
    caller must hold the drain lock.
    """

    def is_held(value: Any) -> bool:
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return is_meant(value) if isinstance(value, str) else any(map(is_held, parts))

    blanked = 0
    for path in list_own_files(data_dir, ".jsonl", DONE):
        with open(path, "r+b") as file:
            offset = 0
            for line in file.read().split(b"\n")[:-1]:
                event, _ = parse_journal(line + b"\n")
                if event and project in (EVERYWHERE, event[0].project) and is_held(event[0].data):
                    file.seek(offset)
                    file.write(b" " * len(line))
                    blanked += 1
                offset += len(line) + 1
    return blanked
