"""Files, folders and exports into memory.

from alma.ingestion import ingest_conversations, ingest_directory

result = ingest_directory("path/to/project", agent="dev", project_id="myapp")
result = ingest_conversations("path/to/chats", agent="dev", project_id="myapp")
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from ..engine import validate
from ..errors import ValidationError, unknown
from ..ports import Model
from ..text import digest
from .catalogue import DOCUMENT_BYTES, Catalogue, Entry, Wanted
from .formats import cursor, plain, slack
from .formats.shape import Asked, Told, session_of
from .keeping import Keeper, Whose
from .reading.sources import Reading, survey
from .types import SHOWN, Chat, Format, IngestResult, Message, Piece, Plan, Progress, Voice

if TYPE_CHECKING:
    from ..core import ALMA

Path = str | os.PathLike[str]
Watching = Callable[[Progress], None]


class Options(TypedDict, total=False):
    """What all ways of ingesting take."""

    alma: ALMA | None
    """The memory; without one that which is configured here is opened, and closed again."""
    user_id: str | None
    """Whose preferences are learned. In Slack what the user of that name, id or address wrote counts as theirs."""
    model: Model | None
    """The language model that reads conversations and documents; None: the configured one, if there is one."""
    own: bool | None
    """Whether it is the person's own words that are read: those are learned from, others' wait for a person. None:
    chats are, unless they lie in a git repository; documents are not."""
    branches: bool
    """Whether abandoned branches of conversations are kept, too, as conversations of their own."""
    max_file_bytes: int
    """Documents found in a folder that are larger are skipped."""
    progress: Watching | None
    dry_run: bool
    """Read everything, keep nothing, and count what is found."""
    resume: bool
    """Pass over what was kept before; False looks at everything again."""


def plan(
    path: Path,
    *,
    wanted: Wanted | str = Wanted.EVERYTHING,
    own: bool | None = None,
    max_file_bytes: int = DOCUMENT_BYTES,
) -> Plan:
    """What would be read below a path, as what, and what would not be, and why. Only beginnings of files are read."""
    with Catalogue(path, _wanted(wanted), own=own, max_file_bytes=_most(max_file_bytes)) as catalogue:
        return catalogue.plan


def ingest(
    path: Path,
    agent: str,
    project_id: str | None = None,
    *,
    wanted: Wanted | str = Wanted.EVERYTHING,
    **options: Unpack[Options],
) -> IngestResult:
    """Read a file, a folder or an export, whatever it is, and keep what it says."""
    most = _most(options.get("max_file_bytes", DOCUMENT_BYTES))
    with (
        Catalogue(path, _wanted(wanted), own=options.get("own"), max_file_bytes=most) as catalogue,
        _open_memory(options.get("alma"), project_id) as alma,
    ):
        return _Run(catalogue, alma, agent, options).all()


def ingest_file(path: Path, agent: str, project_id: str | None = None, **options: Unpack[Options]) -> IngestResult:
    """One file of any format that is known; a document is kept as untrusted unless `own` says it is the person's."""
    if os.path.isdir(path):
        raise ValidationError(f"{os.fspath(path)} is a folder; ingest_directory and ingest_conversations read folders")
    return ingest(path, agent, project_id, **options)


def ingest_directory(path: Path, agent: str, project_id: str | None = None, **options: Unpack[Options]) -> IngestResult:
    """The documents of a project, and the histories of conversations that lie in it.

    They are the words of whoever wrote the project: they are quoted, and what is found in them waits for a person,
    unless `own` says that they are the person's own.
    """
    if not os.path.isdir(path):
        raise ValidationError(f"{os.fspath(path)} is no folder; ingest_file reads a file")
    return ingest(path, agent, project_id, wanted=Wanted.DOCUMENTS, **options)


def ingest_conversations(
    path: Path, agent: str, project_id: str | None = None, **options: Unpack[Options]
) -> IngestResult:
    """Chats: an export, a transcript, or a folder of them. What the person said in them is learned from."""
    return ingest(path, agent, project_id, wanted=Wanted.CHATS, **options)


def ingest_conversation(
    conversation: Path | Sequence[Mapping[str, Any]],
    agent: str,
    project_id: str | None = None,
    *,
    session_id: str | None = None,
    title: str = "",
    **options: Unpack[Options],
) -> IngestResult:
    """One conversation: a file, or its messages, each a mapping with role and content (or speaker and text)."""
    if isinstance(conversation, str | os.PathLike):
        return ingest_conversations(conversation, agent, project_id, **options)
    spoken = [_told(f"messages[{at}]", one) for at, one in enumerate(validate.many("messages", conversation))]
    first = spoken[0].text if spoken else ""
    chat = Chat(
        format=Format.CHAT,
        session=session_of(Format.CHAT, session_id, title, first),
        messages=spoken,
        title=title,
        part="1",
    )
    with _open_memory(options.get("alma"), project_id) as alma:
        result = IngestResult(dry_run=options.get("dry_run", False))
        keeper = Keeper(alma, _whose(agent, options), result)
        result.count("conversations", bool(spoken))
        keeper.take(chat, own=options.get("own") is not False)
        keeper.flush()
        return result


def _told(label: str, given: Mapping[str, Any]) -> Message:
    if not isinstance(given, Mapping):
        raise ValidationError(f"{label} must be a mapping with role and content, not {type(given).__name__}")
    speaker = validate.name(f"{label} role", given.get("role") or given.get("speaker"))
    words = given.get("content") if given.get("content") is not None else given.get("text")
    machine = speaker.casefold() in ("assistant", "ai", "model", "bot", "agent")
    tool = speaker.casefold() in ("system", "developer", "tool", "function")
    return Message(
        speaker=speaker,
        text=validate.output(f"{label} content", words) or "",
        voice=Voice.ASSISTANT if machine else Voice.TOOL if tool else Voice.PERSON,
        at=validate.moment(f"{label} at", given.get("at", given.get("timestamp"))),
        id=validate.optional_text(f"{label} id", given.get("id")) or "",
    )


class _Run:
    """One pass over a catalogue."""

    def __init__(self, catalogue: Catalogue, alma: ALMA, agent: str, options: Options) -> None:
        self._catalogue = catalogue
        self._watching = options.get("progress")
        self._asked = Asked(options.get("user_id") or "", options.get("branches", False))
        self.result = IngestResult(dry_run=options.get("dry_run", False))
        self._keeper = Keeper(alma, _whose(agent, options), self.result)
        self._bytes = self._done = 0
        self._total = catalogue.plan.bytes
        self._sessions: set[str] = set()
        self._rosters = lru_cache(maxsize=4)(self._roster)

    def all(self) -> IngestResult:
        for skipped in self._catalogue.skipped:
            self.result.skip(skipped.path, skipped.reason)
        for entry in self._catalogue.entries:
            self._one(entry)
        self._keeper.flush()
        self._tell("", 0)
        return self.result

    def _one(self, entry: Entry) -> None:
        name = entry.source.name
        try:
            if entry.detected.format is Format.CURSOR and entry.detected.read is None:
                self._database(entry)
            else:
                self._text(entry)
        except OSError as error:
            # It is gone, or became unreadable: what was read of it before is kept.
            self.result.damage(name, "", f"it could not be read further: {error.strerror or error}")
        self._done += 1
        self._bytes += entry.source.size
        self._tell(name, 0)

    def _text(self, entry: Entry) -> None:
        source = entry.source
        surveyed = survey(source)
        known = digest(surveyed.digest, str(entry.own))
        self._seen(entry)
        if self._keeper.has_read(source.name, known):
            self.result.count("files unchanged")
            return
        if surveyed.note:
            self.result.note(surveyed.note)
        reading = Reading(source, surveyed)
        for piece in self._pieces(entry, reading):
            self._take(piece, entry, reading.read)
        if reading.finish():
            self._keeper.read(source.name, known)

    def _database(self, entry: Entry) -> None:
        self._seen(entry)
        if entry.source.path is not None:
            for piece in cursor.read(entry.source.path, entry.source.name, self._telling(entry)):
                self._take(piece, entry, 0)

    def _pieces(self, entry: Entry, reading: Reading) -> Iterator[Piece]:
        told = self._telling(entry)
        if entry.detected.read is not None:
            return entry.detected.read(reading, told)
        if entry.detected.format is Format.SLACK:
            users = self._catalogue.beside(entry.source, "users.json")
            return slack.read(reading, told, self._rosters(users.name if users else "", entry))
        voice = Voice.PERSON if entry.own else Voice.OTHER
        return plain.read(reading, entry.detected.format, entry.known_as, voice)

    def _roster(self, name: str, entry: Entry) -> slack.Roster:
        return slack.roster(self._catalogue.beside(entry.source, "users.json") if name else None, self._asked.user)

    def _take(self, piece: Piece, entry: Entry, read: int) -> None:
        self.result.count("conversations" if isinstance(piece, Chat) else "documents", self._is_first(piece))
        if self._keeper.take(piece, own=entry.own):
            self._tell(entry.source.name, read)

    def _is_first(self, piece: Piece) -> bool:
        """The parts of one conversation follow each other, so that little has to be remembered."""
        if piece.session in self._sessions:
            return False
        if len(self._sessions) > SHOWN:
            self._sessions.clear()
        self._sessions.add(piece.session)
        return True

    def _seen(self, entry: Entry) -> None:
        self.result.count("files")
        if len(self.result.files) < SHOWN:
            self.result.files[entry.source.name] = str(entry.detected.format)

    def _telling(self, entry: Entry) -> Told:
        name = entry.source.name
        return Told(lambda place, reason: self.result.damage(name, place, reason), self.result.leave, self._asked)

    def _tell(self, name: str, read: int) -> None:
        if self._watching is not None:
            counts = self.result.counts
            self._watching(
                Progress(
                    name,
                    self._done,
                    len(self._catalogue.entries),
                    min(self._bytes + read, self._total),
                    self._total,
                    counts.get("conversations", 0),
                    counts.get("messages", 0),
                )
            )


def _whose(agent: str, options: Options) -> Whose:
    user = options.get("user_id")
    return Whose(
        agent=agent,
        user="" if user is None else validate.name("user_id", user),
        model=options.get("model"),
        resume=options.get("resume", True),
        dry_run=options.get("dry_run", False),
        how=f"branches={options.get('branches', False)}",
    )


def _most(given: int) -> int:
    return validate.whole("max_file_bytes", given, 1, 2**50)


def _wanted(given: Wanted | str) -> Wanted:
    try:
        return Wanted(given)
    except ValueError:
        raise ValidationError(unknown("wanted", given, list(Wanted))) from None


@contextmanager
def _open_memory(alma: ALMA | None, project_id: str | None) -> Iterator[ALMA]:
    """The memory to write to: the one given, seen as that project's, or the configured one for as long as it takes."""
    project = None if project_id is None else validate.name("project_id", project_id)
    if alma is None:
        from ..app import open_default

        with closing(open_default(project)) as opened:
            yield opened
        return
    if project is not None and project != alma.project_id:
        alma = copy.copy(alma)
        alma.engine = replace(alma.engine, project=project)
    yield alma
