"""From the journals into the store. Whoever drains holds a lock; killed at any moment, the next one goes on there.

A journal is read whole and told as a story each time (it is small: it has a quota), and what lies beyond the mark kept
in the store is taken in. What no hook reports (interruptions, refused tool calls) is first added to the journal from
the host's own transcript, so that there is one account of a session and one mark in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from ..app import open_memory
from ..config import Config
from ..core import ALMA
from ..engine.capture import events as journal_events
from ..engine.capture import story as stories
from ..engine.capture import transcript
from ..engine.coding_sessions import Kept, Mark, keep, mark_of
from ..engine.context import Engine
from ..engine.observations import adopt_old_fixes
from ..engine.rules import Taught
from ..engine.session_reading import queue_session
from ..errors import ALMAError
from ..types.record import Record
from ..types.rules import EVERYWHERE
from . import journal, log
from .identity import find_moved
from .locks import held
from .place import Place
from .settings import is_model_allowed

_HEADER_BYTES = 64 * 1024
_TRANSCRIPT_BYTES = 64 * 1024 * 1024


class Memory:
    """The store of a place, opened once for all its projects."""

    def __init__(self, place: Place) -> None:
        words_only = os.environ.get("CLAUDE_SMART_USE_LOCAL_EMBEDDING", "1") == "0"
        path = Path(place.db)
        self.alma: ALMA = open_memory(
            Config(
                project_id=EVERYWHERE,
                storage_dir=path.parent,
                db_name=path.name,
                embedding_provider="none" if words_only else "auto",
            )
        )
        adopt_old_fixes(self.alma.engine)

    def engine(self, project: str) -> Engine:
        return replace(self.alma.engine, project=project)

    def close(self) -> None:
        self.alma.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(slots=True)
class Report:
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

    def add(self, kept: Kept) -> None:
        self.sessions += 1
        self.turns += kept.turns
        self.followed += kept.followed
        self.violated += kept.violated
        self.taught += kept.taught
        self.observed += kept.observed


def drain(place: Place, session: str | None = None, *, memory: Memory | None = None, wait: float = 0.0) -> Report:
    """Take in all journals, or that of one session. One drainer at a time: `wait` seconds for another to finish."""
    if memory is None:
        if not any(True for _ in journals(place, session)):
            return Report()
        with Memory(place) as opened:
            return drain(place, session, memory=opened, wait=wait)
    report = Report()
    lock = held(place.drain_lock, wait)
    if lock is None:
        report.busy = True
        return report
    with lock:
        _drain(place, memory, list(journals(place, session)), report)
    return report


def _drain(place: Place, memory: Memory, due: list[str], report: Report) -> None:
    for path in due:
        try:
            kept = _one(place, memory, path)
        except FileNotFoundError:
            # Cleared meanwhile.
            continue
        except (ALMAError, OSError) as error:
            # One journal that cannot be taken in must not hold up the others.
            report.problems.append(f"{os.path.basename(path)}: {error}")
            continue
        except Exception as error:  # noqa: BLE001 - the same; and what was not foreseen may quote what was said
            report.problems.append(f"{os.path.basename(path)}: {log.where(error)}")
            continue
        if kept is not None:
            report.add(kept)


def journals(place: Place, session: str | None = None) -> Iterator[str]:
    if session is not None:
        path = place.journal(session)
        if os.path.exists(path):
            yield path
        return
    try:
        names = sorted(os.listdir(place.sessions))
    except FileNotFoundError:
        return
    yield from (os.path.join(place.sessions, name) for name in names if name.endswith(".jsonl"))


@dataclass(frozen=True, slots=True)
class Journal:
    file: str
    story: stories.Story
    size: int
    known: frozenset[str]


def _one(place: Place, memory: Memory, path: str) -> Kept | None:
    """Take in one journal, and queue its session for a model where that is allowed."""
    if is_taken_in(memory.engine(EVERYWHERE), path):
        return None
    read = read_journal(path)
    if read is None:
        return None
    project = find_moved(place, read.story.project)
    engine = memory.engine(project or EVERYWHERE)
    mark = mark_of(engine, read.story.session)
    if mark.file == read.file and mark.offset >= read.size:
        return None
    seen = _complete(place, read, mark if mark.file == read.file else Mark())
    if seen:
        read = read_journal(path) or read
    since = mark.offset if mark.file == read.file else 0
    # First of all: once it is taken in, nobody would know that a model has not read it.
    queue_session(engine, read.story, read.file, since, is_allowed=is_model_allowed(place))
    return keep(engine, replace(read.story, project=project), Mark(read.file, read.size, max(seen, mark.transcript)))


def is_taken_in(engine: Engine, path: str) -> bool:
    """Whether all of a journal is in the store: told by its first line alone, because most of them are."""
    with open(path, "rb") as file:
        first, _ = journal_events.parse(file.readline(_HEADER_BYTES))
        size = os.fstat(file.fileno()).st_size
    if not first or first[0].name != "Journal":
        return False
    mark = mark_of(engine, first[0].session)
    return mark.file == first[0].id and mark.offset >= size


def read_journal(path: str) -> Journal | None:
    with open(path, "rb") as file:
        data = file.read()
    found, _ = journal_events.parse(data)
    if not found:
        return None
    header = next((event.id for event in found if event.name == "Journal"), "")
    story = stories.tell(found)
    # What is not a whole line yet belongs to the next reading.
    whole = data.rfind(b"\n") + 1
    return Journal(header, story, whole, frozenset(event.id for event in found))


def _complete(place: Place, read: Journal, mark: Mark) -> int:
    """Add to the journal what only the transcript tells; how far the transcript was read."""
    path = read.story.transcript_path
    if not path:
        return 0
    try:
        size = os.path.getsize(path)
        if size <= mark.transcript:
            return 0
        with open(path, "rb") as file:
            file.seek(max(mark.transcript, size - _TRANSCRIPT_BYTES))
            lines = [line for line in file.read(_TRANSCRIPT_BYTES).splitlines(keepends=True) if line.endswith(b"\n")]
    except (OSError, ValueError):
        # It may be no path at all, and the host keeps its transcripts as long as it likes. Without one the hooks' own
        # account has to do.
        return 0
    for event in transcript.missed(lines, read.known):
        journal.append_event(place, read.story.session, event, read.story.project)
    return mark.transcript + sum(map(len, lines)) if mark.transcript + _TRANSCRIPT_BYTES >= size else size


def recall(
    place: Place, project: str, session: str, text: str, limit: int = 5, *, memory: Memory
) -> list[tuple[str, str]]:
    """Rules by meaning, for the warm worker: ids and lines, best first."""
    from ..engine.rules import find_relevant_rules

    found = find_relevant_rules(memory.engine(project), session, text, limit)
    return [(record.id, str(record.body["line"])) for record in found]
