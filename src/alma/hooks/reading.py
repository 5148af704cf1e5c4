"""Lets Claude read the sessions that wait for it: only with the person's leave, one at a time, within a daily budget.

Nobody waits for it: it runs after a drain, in a process or thread of its own. An attempt that fails changes nothing but
the note of why it failed and when the session is tried again.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from ..engine import session_reading
from ..engine.admit import clean
from ..engine.coding_sessions import mark_of
from ..engine.context import Engine
from ..engine.rules import Taught
from ..engine.session_reading import Part, Progress
from ..errors import ModelError, ModelOutputError, OverBudgetError
from ..models import registry
from ..models.budget import Budgeted, Limits, meter
from ..models.claude_cli import PATH_VARIABLE, ClaudeCLI
from ..models.recorded import digest_prompt
from ..ports import Model
from ..types.asking import Answer, Prompt
from ..types.record import Record
from ..types.rules import EVERYWHERE
from . import settings
from .drain import Memory, read_journal
from .identity import find_moved
from .locks import held
from .place import Place

IDLE_SECONDS = 300.0
"""A session in which nothing was recorded for so long is read although it has not ended."""
FIRST_PAUSE = 15 * 60.0
LONGEST_PAUSE = 86_400.0
MAX_TRIES = 8
SPENT = "the daily budget is used up"
ALL_DROPPED = "nothing in the answer passed the checks"


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


def has_due_session(place: Place, memory: Memory) -> bool:
    now = memory.engine(EVERYWHERE).clock().timestamp()
    return any(True for _ in _find_due(place, memory, now))


def read_sessions(
    place: Place, memory: Memory, *, session: str = "", is_urgent: bool = False, timeout: float | None = None
) -> ReadingReport:
    """Let Claude read what waits: all sessions that are due, or one of them.

    With `is_urgent` a person waits for it: neither an open session nor an earlier failure makes it wait any longer.
    `timeout` is for one call, in seconds; with one, repaired commands are not explained.
    """
    report = ReadingReport()
    if not settings.is_model_allowed(place):
        return report
    lock = held(os.path.join(place.home, "reading.lock"), 5.0 if is_urgent else 0.0)
    if lock is None:
        report.problem = "another process is reading"
        return report
    with lock:
        now = memory.engine(EVERYWHERE).clock().timestamp()
        tried: set[str] = set()
        # Listed anew each time: other sessions may end while Claude reads.
        while progress := next(
            (
                one
                for one in _find_due(place, memory, now, is_urgent=is_urgent)
                if one.session not in tried and session in ("", one.session)
            ),
            None,
        ):
            tried.add(progress.session)
            may_go_on = _read_session(place, memory, progress, report, timeout)
            if not may_go_on or not settings.is_model_allowed(place):
                break
    return report


def _find_due(place: Place, memory: Memory, now: float, *, is_urgent: bool = False) -> Iterator[Progress]:
    daily_calls = settings.read(place).number("daily_calls")
    for one in session_reading.list_progress(memory.engine(EVERYWHERE)):
        # Somebody may have raised the limit.
        is_time = one.next_try <= now or (one.error == SPENT and _count_calls(memory) < daily_calls)
        if one.is_waiting and (is_urgent or (is_time and _is_over(place, one))):
            yield one


def _is_over(place: Place, progress: Progress) -> bool:
    try:
        idle = time.time() - os.path.getmtime(place.journal(progress.session))
    except FileNotFoundError:
        return True
    return progress.has_ended or idle > IDLE_SECONDS


def _read_session(
    place: Place, memory: Memory, progress: Progress, report: ReadingReport, timeout: float | None
) -> bool:
    """Read one session. Returns whether it makes sense to go on with others."""
    engine = memory.engine(find_moved(place, progress.project) or EVERYWHERE)
    part = _open_part(place, engine, progress)
    if part is None:
        session_reading.change_progress(engine, progress.session, is_waiting=False, answers={})
        return True
    if part.until <= progress.offset:
        # Not taken in yet.
        return True
    try:
        reading = session_reading.Reading()
        if part.heard:
            model = _Remembering(_open_model(place, engine, timeout), engine, progress)
            reading = session_reading.read_part(model, part)
            if reading.dropped and not reading.proposals:
                raise ModelOutputError(f"{ALL_DROPPED}: {describe_dropped(reading.dropped)}")
            if part.repairs and timeout is None:
                reading = replace(reading, notes=_explain_repairs(model, part))
    except ModelError as error:
        report.problem = _note_failure(memory, progress, error)
        return isinstance(error, ModelOutputError)
    applied = session_reading.apply_reading(engine, part, reading, progress)
    if applied is not None:
        report.sessions += 1
        report.turns += len(part.heard)
        report.taught += applied.taught
        report.refined += applied.refined
        report.archived += applied.archived
        report.dropped.update(reading.dropped)
    return True


def _explain_repairs(model: Model, part: Part) -> dict[str, str]:
    """Return what repaired commands show. They are worth one call, and no second try."""
    try:
        return session_reading.read_repairs(model, part)
    except ModelError:
        return {}


def _open_part(place: Place, engine: Engine, progress: Progress) -> Part | None:
    """Return what of a session was taken in and not read; None when its journal is gone."""
    try:
        journal = read_journal(place.journal(progress.session))
    except FileNotFoundError:
        return None
    if journal is None or journal.file != progress.file:
        return None
    mark = mark_of(engine, progress.session)
    until = mark.offset if mark.file == journal.file else 0
    return session_reading.collect_part(engine, journal.story, progress.offset, until)


# -- the model


def find_program() -> str:
    """Return where the program `claude` is; ModelUnavailableError when it is missing."""
    return ClaudeCLI(os.environ, path=os.environ.get(PATH_VARIABLE, "")).find_program()


def _count_calls(memory: Memory) -> int:
    engine = memory.engine(EVERYWHERE)
    today = engine.clock().date().isoformat()
    return next((day.calls for day in meter(engine) if day.day == today), 0)


def _open_model(place: Place, engine: Engine, timeout: float | None) -> Model:
    # First of all, because a call that cannot even start must not count.
    find_program()
    limits = settings.read(place)
    options: dict[str, object] = {"model": limits.text("model_name")}
    model = registry.create("claude-cli", options if timeout is None else {**options, "timeout": timeout}, os.environ)
    assert model is not None
    return Budgeted(model, replace(engine, project=EVERYWHERE), Limits(calls=limits.number("daily_calls")))


class _Remembering:
    """A model whose answers are stored until they are applied: a process that is killed in between pays once."""

    def __init__(self, model: Model, engine: Engine, progress: Progress) -> None:
        self._model = model
        self._engine = engine
        self._session = progress.session
        self._answers = dict(progress.answers)

    @property
    def name(self) -> str:
        return self._model.name

    def ask(self, prompt: Prompt) -> Answer:
        name = digest_prompt(prompt)
        if name in self._answers:
            return Answer(value=self._answers[name], model=self.name)
        answer = self._model.ask(prompt)
        value = clean(answer.value)
        self._answers[name] = value
        session_reading.change_progress(self._engine, self._session, answers=dict(self._answers))
        return replace(answer, value=value)


# -- what went wrong, and how it stands


def _note_failure(memory: Memory, progress: Progress, error: ModelError) -> str:
    """Note why a session could not be read, and when it is tried again. Returns the reason."""
    engine = memory.engine(EVERYWHERE)
    now = engine.clock()
    is_spent = isinstance(error, OverBudgetError)
    reason = SPENT if is_spent else str(clean(str(error)))
    tries = progress.tries + (not is_spent)
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 4 ** (tries - 1)) if tries else 0.0
    midnight = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), UTC)
    next_try = midnight.timestamp() if is_spent else now.timestamp() + pause
    is_nonsense = isinstance(error, ModelOutputError)
    for one in session_reading.list_progress(engine):
        # A program that is missing or does not answer is missing for the other sessions, too.
        if one.session == progress.session or (one.is_waiting and not is_nonsense and one.next_try < next_try):
            is_own = one.session == progress.session
            session_reading.change_progress(
                engine,
                one.session,
                error=reason,
                failed_at=now.timestamp(),
                next_try=next_try,
                tries=tries if is_own else one.tries,
                is_waiting=not (is_own and tries >= MAX_TRIES),
                answers={} if is_own and is_nonsense else one.answers,
            )
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

    @property
    def is_allowed(self) -> bool:
        return self.reader != "local"

    def plain(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {**asdict(self), "next_try": self.next_try.isoformat() if self.next_try else None}


def describe_reader(place: Place, memory: Memory | None) -> ReaderState:
    """Return how the reading of sessions stands. `memory` is None before anything was stored."""
    given = settings.read(place)
    sessions = session_reading.list_progress(memory.engine(EVERYWHERE)) if memory is not None else []
    dropped: Counter[str] = Counter()
    for one in sessions:
        dropped.update(one.dropped)
    last_read = max((one.read_at for one in sessions), default=0.0)
    failures = [one for one in sessions if one.error and one.failed_at >= last_read]
    failed = max(failures, key=lambda one: one.failed_at, default=None)
    return ReaderState(
        reader="local + claude" if settings.is_model_allowed(place) else "local",
        model=given.text("model_name"),
        calls_today=_count_calls(memory) if memory is not None else 0,
        daily_calls=given.number("daily_calls"),
        sessions_waiting=sum(one.is_waiting for one in sessions),
        sessions_read=sum(one.read_at > 0 for one in sessions),
        dropped=dict(dropped),
        error=failed.error if failed else "",
        next_try=datetime.fromtimestamp(failed.next_try, UTC) if failed and failed.is_waiting else None,
    )


def describe_dropped(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{count} × {reason}" for reason, count in sorted(dropped.items()))
