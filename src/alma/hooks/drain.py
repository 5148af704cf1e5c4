"""From the journals into the store; what a model reads in them later; and what goes when it is no longer needed.

Whoever drains holds a lock; killed at any moment, the next one goes on there. A journal is read whole each time (it is
small: it has a quota), and what lies beyond the mark kept in the store is taken in. What no hook reports
(interruptions, refused tool calls) is first added to the journal from the host's own transcript, so that there is one
account of a session and one mark in it.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from ..app import open_memory
from ..coding.events import parse_journal
from ..coding.session import CodingSession, SessionBuilder
from ..coding.transcript import find_unreported
from ..config import Config
from ..engine import session_reading
from ..engine.admit import clean
from ..engine.coding_sessions import JournalMark, StoredSession, find_mark, mark_id, store_session
from ..engine.context import Engine
from ..engine.observations import adopt_old_fixes
from ..engine.rules import Taught
from ..engine.session_reading import Part, Progress
from ..engine.transaction import Transaction, write
from ..errors import ALMAError, ModelError, ModelOutputError, OverBudgetError
from ..files import try_lock
from ..memory import ALMA
from ..models import registry
from ..models.budget import Budgeted, Limits, meter
from ..models.claude_cli import PATH_VARIABLE, ClaudeCLI
from ..models.recorded import digest_prompt
from ..ports import Model
from ..types.asking import Answer, Prompt
from ..types.kinds import MemoryType
from ..types.query import Where
from ..types.record import Record, Status
from ..types.rules import EVERYWHERE
from . import journal
from .paths import DataDir, describe_error, is_model_allowed, list_own_files, read_settings
from .project import find_moved

DONE = ".done"
IDLE_SECONDS = 300.0
"""A session in which nothing was recorded for so long is read although it has not ended."""
FIRST_PAUSE = 15 * 60.0
LONGEST_PAUSE = 86_400.0
MAX_TRIES = 8
SPENT = "the daily budget is used up"
ALL_DROPPED = "nothing in the answer passed the checks"
_HEADER_BYTES = 64 * 1024
_TRANSCRIPT_BYTES = 64 * 1024 * 1024
_JOURNALS_BYTES = 256 * 1024 * 1024
_DAY = 86_400.0
_REMOVAL_SECONDS = 60.0
_BATCH = 500


class ProjectMemories:
    """The store of a person, opened once for all their projects."""

    def __init__(self, data_dir: DataDir) -> None:
        is_words_only = os.environ.get("CLAUDE_SMART_USE_LOCAL_EMBEDDING", "1") == "0"
        path = Path(data_dir.db)
        self.alma: ALMA = open_memory(
            Config(
                project_id=EVERYWHERE,
                storage_dir=path.parent,
                db_name=path.name,
                embedding_provider="none" if is_words_only else "auto",
            )
        )
        adopt_old_fixes(self.alma.engine)

    def engine(self, project: str) -> Engine:
        return replace(self.alma.engine, project=project)

    def close(self) -> None:
        self.alma.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@dataclass(slots=True)
class DrainReport:
    """What a drain did."""

    sessions: int = 0
    turns: int = 0
    followed: int = 0
    violated: int = 0
    taught: list[Taught] = field(default_factory=list)
    observed: list[Record] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    busy: bool = False
    """Somebody else is draining; they look again before they end."""


def drain(
    data_dir: DataDir, session: str | None = None, *, memory: ProjectMemories | None = None, wait: float = 0.0
) -> DrainReport:
    """Take in all journals, or that of one session. One drainer at a time: `wait` seconds for another to finish."""
    report = DrainReport()
    if memory is None:
        if not _list_journals(data_dir, session):
            return report
        with ProjectMemories(data_dir) as opened:
            return drain(data_dir, session, memory=opened, wait=wait)
    lock = try_lock(data_dir.drain_lock, wait)
    if lock is None:
        report.busy = True
        return report
    with lock:
        for path in _list_journals(data_dir, session):
            # One journal that cannot be taken in must not hold up the others.
            try:
                kept = _drain_journal(data_dir, memory, path)
            except FileNotFoundError:
                # Cleared meanwhile.
                continue
            except Exception as error:  # noqa: BLE001
                # What was not foreseen may quote what was said.
                problem = str(error) if isinstance(error, ALMAError | OSError) else describe_error(error)
                report.problems.append(f"{os.path.basename(path)}: {problem}")
                continue
            if kept is not None:
                report.sessions += 1
                report.turns += kept.turns
                report.followed += kept.followed
                report.violated += kept.violated
                report.taught += kept.taught
                report.observed += kept.observed
    return report


def _list_journals(data_dir: DataDir, session: str | None = None) -> list[str]:
    if session is None:
        return list_own_files(data_dir, ".jsonl")
    path = data_dir.journal(session)
    return [path] if os.path.exists(path) else []


class Journal:
    """A journal, and the session that it tells of. Reading again goes on where the last reading ended."""

    def __init__(self, path: str) -> None:
        self.file = ""
        """The id in its first line."""
        self.size = 0
        """How many bytes of whole lines were read."""
        self.known: set[str] = set()
        self._path = path
        self._builder = SessionBuilder()
        self.read()

    @property
    def story(self) -> CodingSession:
        return self._builder.session

    def read(self) -> None:
        with open(self._path, "rb") as file:
            file.seek(self.size)
            data = file.read()
        events, _ = parse_journal(data, self.size)
        for event in events:
            self.known.add(event.id)
            self._builder.add(event)
            if event.name == "Journal":
                self.file = self.file or event.id
        # What is not a whole line yet belongs to the next reading.
        self.size += data.rfind(b"\n") + 1


def read_journal(path: str) -> Journal | None:
    """Return a journal; None when it holds no event."""
    content = Journal(path)
    return content if content.known else None


def is_taken_in(engine: Engine, path: str) -> bool:
    """Return whether all of a journal is in the store: told by its first line alone, because most of them are."""
    with open(path, "rb") as file:
        first, _ = parse_journal(file.readline(_HEADER_BYTES))
        size = os.fstat(file.fileno()).st_size
    if not first or first[0].name != "Journal":
        return False
    mark = find_mark(engine, first[0].session)
    return mark.file == first[0].id and mark.offset >= size


def _drain_journal(data_dir: DataDir, memory: ProjectMemories, path: str) -> StoredSession | None:
    """Take in one journal, and queue its session for a model where that is allowed."""
    if is_taken_in(memory.engine(EVERYWHERE), path):
        return None
    content = read_journal(path)
    if content is None:
        return None
    story = content.story
    project = find_moved(data_dir, story.project)
    engine = memory.engine(project or EVERYWHERE)
    mark = find_mark(engine, story.session)
    is_same = mark.file == content.file
    if is_same and mark.offset >= content.size:
        return None
    transcript = _add_unreported(data_dir, content, mark.transcript if is_same else 0)
    # First of all: once it is taken in, nobody would know that a model has not read it.
    since, is_allowed = mark.offset if is_same else 0, is_model_allowed(data_dir)
    session_reading.queue_session(engine, story, content.file, since, is_allowed=is_allowed)
    until = JournalMark(content.file, content.size, max(transcript, mark.transcript))
    return store_session(engine, replace(story, project=project), until)


def _add_unreported(data_dir: DataDir, content: Journal, start: int) -> int:
    """Add to the journal what only the transcript tells beyond `start`; return how far the transcript was read."""
    path = content.story.transcript_path
    if not path:
        return 0
    try:
        size = os.path.getsize(path)
        if size <= start:
            return 0
        with open(path, "rb") as file:
            file.seek(max(start, size - _TRANSCRIPT_BYTES))
            lines = [line for line in file.read(_TRANSCRIPT_BYTES).splitlines(keepends=True) if line.endswith(b"\n")]
    except (OSError, ValueError):
        # It may be no path at all, and the host keeps its transcripts as long as it likes. Without one the hooks' own
        # account has to do.
        return 0
    for event in find_unreported(lines, content.known):
        journal.append_event(data_dir, content.story.session, event, content.story.project)
    content.read()
    return start + sum(map(len, lines)) if start + _TRANSCRIPT_BYTES >= size else size


def recall_rules(
    memory: ProjectMemories, project: str, session: str, text: str, limit: int = 5
) -> list[tuple[str, str]]:
    """Return the ids and lines of rules that a text calls for by meaning, best first."""
    from ..engine.retrieve.pipeline import find_rules

    found = find_rules(memory.engine(project), session, text, limit)
    return [(record.id, str(record.body["line"])) for record in found]


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
        now = memory.engine(EVERYWHERE).clock().timestamp()
        tried: set[str] = set()
        while is_model_allowed(data_dir):
            # Listed anew each time: other sessions may end while Claude reads.
            due = _find_due(data_dir, memory, now, is_urgent=is_urgent)
            fresh = (one for one in due if one.session not in tried and session in ("", one.session))
            progress = next(fresh, None)
            if progress is None:
                break
            tried.add(progress.session)
            if not _read_session(data_dir, memory, progress, report, timeout):
                break
    return report


def _find_due(data_dir: DataDir, memory: ProjectMemories, now: float, *, is_urgent: bool = False) -> Iterator[Progress]:
    daily_calls = read_settings(data_dir).number("daily_calls")
    for one in session_reading.list_progress(memory.engine(EVERYWHERE)):
        if not one.is_waiting:
            continue
        try:
            idle = time.time() - os.path.getmtime(data_dir.journal(one.session))
        except FileNotFoundError:
            idle = IDLE_SECONDS + 1
        is_over = one.has_ended or idle > IDLE_SECONDS
        # Somebody may have raised the limit.
        is_time = one.next_try <= now or (one.error == SPENT and _count_calls(memory) < daily_calls)
        if is_urgent or (is_time and is_over):
            yield one


def _read_session(
    data_dir: DataDir, memory: ProjectMemories, progress: Progress, report: ReadingReport, timeout: float | None
) -> bool:
    """Read one session. Returns whether it makes sense to go on with others."""
    engine = memory.engine(find_moved(data_dir, progress.project) or EVERYWHERE)
    try:
        content = read_journal(data_dir.journal(progress.session))
    except FileNotFoundError:
        content = None
    if content is None or content.file != progress.file:
        session_reading.change_progress(engine, progress.session, is_waiting=False, answers={})
        return True
    mark = find_mark(engine, progress.session)
    until = mark.offset if mark.file == content.file else 0
    if until <= progress.offset:
        # Not taken in yet.
        return True
    part = session_reading.collect_part(engine, content.story, progress.offset, until)
    try:
        reading = _ask_model(data_dir, engine, part, progress, timeout)
    except ModelError as error:
        report.problem = _note_failure(memory, progress, error)
        return isinstance(error, ModelOutputError)
    applied = session_reading.apply_reading(engine, part, reading, progress)
    if applied is not None:
        report.sessions += 1
        report.turns += len(part.heard)
        taught, refined, archived = applied
        report.taught += taught
        report.refined += refined
        report.archived += archived
        report.dropped.update(reading.dropped)
    return True


def _ask_model(
    data_dir: DataDir, engine: Engine, part: Part, progress: Progress, timeout: float | None
) -> session_reading.Reading:
    if not part.heard:
        return session_reading.Reading([], {})
    # First of all, because a call that cannot even start must not count.
    find_program()
    settings = read_settings(data_dir)
    options = {"model": settings.text("model_name"), **({} if timeout is None else {"timeout": timeout})}
    claude = registry.create("claude-cli", options, os.environ)
    assert claude is not None
    limits = Limits(calls=settings.number("daily_calls"))
    model = _StoringModel(Budgeted(claude, replace(engine, project=EVERYWHERE), limits), engine, progress)
    reading = session_reading.read_part(model, part)
    if reading.dropped and not reading.proposals:
        raise ModelOutputError(f"{ALL_DROPPED}: {describe_dropped(reading.dropped)}")
    if part.repairs and timeout is None:
        try:
            return reading._replace(notes=session_reading.read_repairs(model, part))
        except ModelError:
            # Repaired commands are worth one call, and no second try.
            return reading
    return reading


def find_program() -> str:
    """Return where the program `claude` is; ModelUnavailableError when it is missing."""
    return ClaudeCLI(os.environ, path=os.environ.get(PATH_VARIABLE, "")).find_program()


def _count_calls(memory: ProjectMemories) -> int:
    engine = memory.engine(EVERYWHERE)
    today = engine.clock().date().isoformat()
    return next((day.calls for day in meter(engine) if day.day == today), 0)


class _StoringModel:
    """A model whose answers are stored until they are applied: a process that is killed in between pays once."""

    def __init__(self, model: Model, engine: Engine, progress: Progress) -> None:
        self.name = model.name
        self._model = model
        self._engine = engine
        self._session = progress.session
        self._answers = dict(progress.answers)

    def ask(self, prompt: Prompt) -> Answer:
        name = digest_prompt(prompt)
        if name in self._answers:
            return Answer(value=self._answers[name], model=self.name)
        answer = self._model.ask(prompt)
        answer = replace(answer, value=clean(answer.value))
        self._answers[name] = answer.value
        session_reading.change_progress(self._engine, self._session, answers=dict(self._answers))
        return answer


def _note_failure(memory: ProjectMemories, progress: Progress, error: ModelError) -> str:
    """Note why a session could not be read, and when it is tried again. Returns the reason."""
    engine = memory.engine(EVERYWHERE)
    now = engine.clock()
    is_spent, is_nonsense = isinstance(error, OverBudgetError), isinstance(error, ModelOutputError)
    reason = SPENT if is_spent else str(clean(str(error)))
    tries = progress.tries + (not is_spent)
    if is_spent:
        next_try = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), UTC).timestamp()
    else:
        next_try = now.timestamp() + min(LONGEST_PAUSE, FIRST_PAUSE * 4 ** (tries - 1))
    failure = {"error": reason, "failed_at": now.timestamp(), "next_try": next_try}
    session_reading.change_progress(
        engine,
        progress.session,
        **failure,
        tries=tries,
        is_waiting=tries < MAX_TRIES,
        **({"answers": {}} if is_nonsense else {}),
    )
    for one in session_reading.list_progress(engine) if not is_nonsense else ():
        # A program that is missing or does not answer is missing for the other sessions, too.
        if one.session != progress.session and one.is_waiting and one.next_try < next_try:
            session_reading.change_progress(engine, one.session, **failure)
    return reason


@dataclass(frozen=True, slots=True)
class ReaderState:
    """Which reader is at work, what it cost today, and what it has to do."""

    reader: str
    """"local", or "local + claude" where Claude may read."""
    model: str
    calls_today: int
    daily_calls: int
    sessions_waiting: int
    sessions_read: int
    dropped: Mapping[str, int]
    error: str = ""
    next_try: datetime | None = None

    def plain(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {**asdict(self), "next_try": self.next_try.isoformat() if self.next_try else None}


def describe_reader(data_dir: DataDir, memory: ProjectMemories | None) -> ReaderState:
    """Return how the reading of sessions stands. `memory` is None before anything was stored."""
    settings = read_settings(data_dir)
    sessions = session_reading.list_progress(memory.engine(EVERYWHERE)) if memory is not None else []
    dropped: Counter[str] = Counter()
    for one in sessions:
        dropped.update(one.dropped)
    last_read = max((one.read_at for one in sessions), default=0.0)
    failures = [one for one in sessions if one.error and one.failed_at >= last_read]
    failed = max(failures, key=lambda one: one.failed_at, default=None)
    return ReaderState(
        reader="local + claude" if is_model_allowed(data_dir) else "local",
        model=settings.text("model_name"),
        calls_today=_count_calls(memory) if memory is not None else 0,
        daily_calls=settings.number("daily_calls"),
        sessions_waiting=sum(one.is_waiting for one in sessions),
        sessions_read=sum(one.read_at > 0 for one in sessions),
        dropped=dict(dropped),
        error=failed.error if failed else "",
        next_try=datetime.fromtimestamp(failed.next_try, UTC) if failed and failed.is_waiting else None,
    )


def describe_dropped(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{count} × {reason}" for reason, count in sorted(dropped.items()))


# -- removing what is no longer needed. A journal leaves in two steps, because a hook may have it open: it is renamed,
# and removed a while later if nothing was added meanwhile. One that was not taken in is never removed.


def tidy(data_dir: DataDir, memory: ProjectMemories) -> int:
    """Remove old journals that were taken in, profiles of sessions long over, and very old turns.

    Returns how many journals went. The caller holds the drain lock, or nobody does.
    """
    engine, settings, now = memory.engine(EVERYWHERE), read_settings(data_dir), time.time()
    removed = 0
    for path in list_own_files(data_dir, DONE):
        if now - os.stat(path).st_mtime > _REMOVAL_SECONDS:
            removed += _remove_journal(engine, path)
    days, total = settings.number("journal_days"), 0
    # Newest first: what goes beyond the quota is the oldest.
    for path in sorted(_list_journals(data_dir), key=os.path.getmtime, reverse=True):
        total += os.path.getsize(path)
        age = now - os.path.getmtime(path)
        is_old = age > days * _DAY or (total > _JOURNALS_BYTES and age > _DAY)
        if is_old and _may_go(engine, read_journal(path)):
            done = path.removesuffix(".jsonl") + DONE
            os.replace(path, done)
            os.utime(done, (now, now))
    _archive_profiles(engine, engine.clock() - timedelta(days=days))
    # Turns, conversations and notes of what was shown, past their time; what they taught stays.
    before = engine.clock() - timedelta(days=settings.number("episode_days"))
    where = Where(kinds={"turn", "episode", "retrieval"}, created_to=before)
    ids = [one.id for one in engine.store.scan(where)]
    for start in range(0, len(ids), _BATCH):
        engine.store.delete(ids[start : start + _BATCH])
    return removed


def _may_go(engine: Engine, content: Journal | None) -> bool:
    if content is None:
        return True
    mark = find_mark(engine, content.story.session)
    # Another journal of the session has begun: this one was taken in before that.
    return mark.file != content.file or mark.offset >= content.size


def _remove_journal(engine: Engine, path: str) -> bool:
    content = read_journal(path)
    if not _may_go(engine, content):
        return False
    os.remove(path)
    stem = path.removesuffix(DONE)
    if not os.path.exists(f"{stem}.jsonl"):
        if os.path.exists(f"{stem}.shown"):
            os.remove(f"{stem}.shown")
        if content is not None and find_mark(engine, content.story.session).file == content.file:
            session = content.story.session
            engine.store.delete([mark_id(session), session_reading.progress_id(session)])
    return True


def _archive_profiles(engine: Engine, before: datetime) -> None:
    """Archive the rules of single sessions that are over."""
    where = Where(kinds={MemoryType.RULE}, statuses={Status.ACTIVE, Status.CANDIDATE}, created_to=before)
    old = [one.id for one in engine.store.scan(where) if one.session and one.updated_at < before]
    for start in range(0, len(old), _BATCH):

        def archive(tx: Transaction, ids: list[str] = old[start : start + _BATCH]) -> None:
            for record in tx.get(ids):
                if record.updated_at < before:
                    tx.update(record, status=Status.ARCHIVED)
                    tx.add_history(record, "archived", "its session is over")

        write(engine, archive)


def erase_from_journals(data_dir: DataDir, project: str, is_meant: Callable[[str], bool]) -> int:
    """Blank the journal lines of a project, or of all (EVERYWHERE), that hold a text that is meant; return how many.

    A line keeps its length: how far a journal was read is counted in bytes, and a hook may be appending to it. The
    caller must hold the drain lock.
    """
    blanked = 0
    for path in list_own_files(data_dir, ".jsonl", DONE):
        with open(path, "r+b") as file:
            offset = 0
            for line in file.read().split(b"\n")[:-1]:
                if _holds_text(line, project, is_meant):
                    file.seek(offset)
                    file.write(b" " * len(line))
                    blanked += 1
                offset += len(line) + 1
    return blanked


def _holds_text(line: bytes, project: str, is_meant: Callable[[str], bool]) -> bool:
    try:
        event = json.loads(line)
        pending = [event["data"]] if project in (EVERYWHERE, event["project"]) else []
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    while pending:
        value = pending.pop()
        if isinstance(value, str) and is_meant(value):
            return True
        pending += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return False
