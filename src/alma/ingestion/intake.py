"""Importing files, folders and exports into memory.

Each batch stores conversations first, then the memories found in them, then markers. Markers come last, so that an
interrupted batch is read again. Reading it again adds nothing, because turns are deduplicated by their text and
findings by their turns: markers only save work.
"""

from __future__ import annotations

import copy
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from ..engine import episodes, validate
from ..engine.admit import clean
from ..engine.calls import IMPORT, RUN, name_call, name_import
from ..engine.episodes import Conversation, TurnDraft
from ..engine.escape import find_suspicion
from ..engine.redact import count_removed
from ..engine.transaction import write
from ..engine.view import to_memory
from ..errors import ValidationError, describe_type
from ..extraction import Extracted, Kept, Kind, extract_conversation, extract_text, find_known_memories, keep
from ..extraction.learner import LISTS
from ..opening import OwnsMemory
from ..ports import Model
from ..text import digest, replace_surrogates
from ..types.kinds import Episode
from ..types.record import Origin, Provenance, Status, Trust
from .catalogue import DOCUMENT_BYTES, Catalogue, FileEntry, Plan, Skipped, Wanted
from .formats import Format
from .formats.common import ASSISTANTS, ChatMessage, FileReading, Piece, Speaker, name_session
from .sources import ByteSurvey, survey_bytes

if TYPE_CHECKING:
    from ..memory import ALMA

Path = str | os.PathLike[str]

SHOWN = 1_000  # How many items of each list a result holds; `counts` counts them all.
_VERSION = "1"  # The version of the readers: after a change, everything is read again.
_BATCH_PIECES = 64
_BATCH_CHARS = 500_000
_TURN_CHARS = 20_000
_SECTION_CHARS = 1_500
_MODEL_FAILURES = 3  # After this many failures in a row, a run stops asking the model.
_WAIT = (
    "wait for a person and are not retrieved: accept one with update(ID, status='active'). To learn from files that you"
    " wrote, import them with own=True (`--own`); rules of documents always wait"
)
_TOOLS = ("system", "developer", "tool", "function")
_USER_NAMES = re.compile(r"(?i)\b(?:user|human|me|you|person|owner|operator|admin|developer|system)s?\b|^\W*$")
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]+")
_HEADING = re.compile(r"(?m)^(?=#{1,6}\s|=+ \S)")
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_LISTS: Mapping[Kind, str] = {kind: f"{kind}s" for kind in Kind} | {
    Kind.PREFERENCE: "user_preferences",
    Kind.CORRECTION: "rules",
    **dict.fromkeys((Kind.DECISION, Kind.FACT), "domain_knowledge"),
}


@dataclass(frozen=True, slots=True)
class Damage:
    """A place in a file that could not be read; the rest of the file was."""

    path: str
    place: str  # Such as 'line 12' or 'element 3 (character 4,096)'.
    reason: str

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.path, self.place, self.reason)))


class Progress(NamedTuple):
    """The progress of an import, reported after each batch and at the end of each file."""

    path: str
    files: int  # Files that are finished.
    files_total: int
    bytes: int
    bytes_total: int
    conversations: int
    messages: int


@dataclass(slots=True, kw_only=True)
class IngestResult(Kept):
    """The result of an import. The lists hold the first thousand new items of each kind; `counts` counts all.

    `counts` also has: files, conversations, messages, known (already stored), unchanged, and waiting (new items that
    are candidates until a person approves them).
    """

    id: str = ""  # The id of the import, which `revert` takes; empty if it stored nothing.
    dry_run: bool = False
    episodes: list[Episode] = field(default_factory=list)  # Conversations and documents that are new or longer.
    counts: dict[str, int] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)  # The files read, and their formats.
    skipped: list[Skipped] = field(default_factory=list)
    damaged: list[Damage] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)  # Counts of what is not imported by design.
    redacted: dict[str, int] = field(default_factory=dict)  # Counts of secrets removed from new texts, by kind.
    notes: list[str] = field(default_factory=list)  # Remarks, such as an encoding that was guessed.

    @property
    def total(self) -> int:
        """The number of new memories, without conversations."""
        return sum(self.counts.get(name, 0) for name in LISTS)

    def increment(self, name: str, by: int = 1) -> None:
        """Add to a count."""
        if by:
            self.counts[name] = self.counts.get(name, 0) + by

    def add(self, name: str, item: object) -> None:
        """Count an item, and list it among the first thousand."""
        self.increment(name)
        if len(listed := getattr(self, name)) < SHOWN:
            listed.append(item)

    def leave_out(self, what: str, by: int = 1) -> None:
        """Count items that are not imported by design."""
        if by:
            self.left_out[what] = self.left_out.get(what, 0) + by

    def count_secrets(self, removed: Mapping[str, int]) -> None:
        """Count secrets that were removed from a text, by kind."""
        for kind, number in removed.items():
            self.redacted[kind] = self.redacted.get(kind, 0) + number

    def damage(self, path: str, place: str, reason: str) -> None:
        """Report a place in a file that could not be read."""
        self.add("damaged", Damage(path, place, reason))

    def note(self, what: str) -> None:
        """Add a remark, once."""
        if what and what not in self.notes and len(self.notes) < SHOWN:
            self.notes.append(what)


class IngestOptions(TypedDict, total=False):
    """The options that all import functions take."""

    alma: ALMA | None  # The memory; by default the configured one, which is closed afterwards.
    # The user whose preferences are learned. In Slack, messages by the user with this name, id or address are theirs.
    user_id: str | None
    model: Model | None  # The language model that reads; by default the configured one, if any.
    # Whether the texts are the user's own: those are learned from, while findings in other people's texts become
    # candidates. None: conversations are, unless they are in a git repository; documents are not. True: all are, but in
    # a folder not the files that git tracks and others committed; rules in documents become candidates.
    own: bool | None
    branches: bool  # Whether abandoned branches of conversations are stored, as separate conversations.
    max_file_bytes: int  # Larger documents in a folder are skipped.
    progress: Callable[[Progress], None] | None
    dry_run: bool  # Read everything and count the findings, but store nothing.
    resume: bool  # Skip what is already stored; False reads everything again.


def plan(
    path: Path,
    *,
    wanted: Wanted | str = Wanted.EVERYTHING,
    own: bool | None = None,
    max_file_bytes: int = DOCUMENT_BYTES,
) -> Plan:
    """Return which files below a path would be read, in which format, and which would be skipped, with the reasons.

    Only the beginning of each file is read.
    """
    with _list_files(path, wanted, {"own": own, "max_file_bytes": max_file_bytes}) as catalogue:
        return catalogue.plan


def ingest(
    path: Path,
    agent: str,
    project_id: str | None = None,
    *,
    wanted: Wanted | str = Wanted.EVERYTHING,
    **options: Unpack[IngestOptions],
) -> IngestResult:
    """Import a file, a folder or an export of any known format, and return what was stored."""
    opened = _open_memory(options.get("alma"), project_id)
    with _list_files(path, wanted, options) as catalogue, opened as alma, name_call(IMPORT):
        return _Ingestion(alma, agent, options).read_all(catalogue)


def ingest_file(
    path: Path, agent: str, project_id: str | None = None, **options: Unpack[IngestOptions]
) -> IngestResult:
    """Import one file of any known format. Findings in a document become candidates, unless `own` is true."""
    if os.path.isdir(path):
        raise ValidationError(
            f"path {os.fspath(path)!r} is a folder; use ingest_directory or ingest_conversations to read a folder"
        )
    return ingest(path, agent, project_id, **options)


def ingest_directory(
    path: Path, agent: str, project_id: str | None = None, **options: Unpack[IngestOptions]
) -> IngestResult:
    """Import the documents of a project, and conversation histories stored in the project.

    They are texts of the project's authors: they are quoted, and findings in them become candidates, unless `own` is
    true.
    """
    if not os.path.isdir(path):
        raise ValidationError(f"path {os.fspath(path)!r} is not a folder; use ingest_file to read a file")
    return ingest(path, agent, project_id, wanted=Wanted.DOCUMENTS, **options)


def ingest_conversations(
    path: Path, agent: str, project_id: str | None = None, **options: Unpack[IngestOptions]
) -> IngestResult:
    """Import conversations: an export, a transcript, or a folder of them. alma learns from what the user said."""
    return ingest(path, agent, project_id, wanted=Wanted.CHATS, **options)


def ingest_conversation(
    conversation: Path | Sequence[Mapping[str, Any]],
    agent: str,
    project_id: str | None = None,
    *,
    session_id: str | None = None,
    title: str = "",
    **options: Unpack[IngestOptions],
) -> IngestResult:
    """Import one conversation: a file, or its messages as mappings with role and content (or speaker and text)."""
    if isinstance(conversation, str | os.PathLike):
        return ingest_conversations(conversation, agent, project_id, **options)
    messages = []
    for number, message in enumerate(validate.many("messages", conversation)):
        label = f"messages[{number}]"
        if not isinstance(message, Mapping):
            raise ValidationError(f"{label} must be an object with role and content, not {describe_type(message)}")
        speaker = validate.name(f"{label} role", message.get("role") or message.get("speaker"))
        content = message.get("content") if message.get("content") is not None else message.get("text")
        text = validate.output(f"{label} content", content) or ""
        at = validate.moment(f"{label} at", message.get("at", message.get("timestamp")))
        id = validate.optional_text(f"{label} id", message.get("id")) or ""
        voice = Speaker.TOOL if speaker.casefold() in _TOOLS else Speaker.PERSON
        voice = Speaker.ASSISTANT if speaker.casefold() in ASSISTANTS else voice
        messages.append(ChatMessage(speaker, text, voice, at, id))
    session = name_session(Format.CHAT, session_id, title, messages[0].text if messages else "")
    chat = Piece(Format.CHAT, session, messages, title, "1")
    with _open_memory(options.get("alma"), project_id) as alma:
        ingestion = _Ingestion(alma, agent, options)
        ingestion.result.increment("conversations", bool(messages))
        with name_call(IMPORT):
            ingestion.add(chat, options.get("own") is not False)
            return ingestion.flush()


def _list_files(path: Path, selection: Wanted | str, options: IngestOptions) -> closing[Catalogue]:
    chosen = validate.choice("wanted", selection, Wanted)
    most = validate.whole("max_file_bytes", options.get("max_file_bytes", DOCUMENT_BYTES), 1, 2**50)
    return closing(Catalogue(path, chosen, own=options.get("own"), max_file_bytes=most))


@contextmanager
def _open_memory(alma: ALMA | None, project_id: str | None) -> Iterator[ALMA]:
    """Yield the memory to write to: the one passed, or the configured one, which is closed afterwards."""
    project = None if project_id is None else validate.name("project_id", project_id)
    with OwnsMemory(alma, project) as holder:
        memory = holder.alma
        if project is not None and project != memory.project_id:
            memory = copy.copy(memory)
            memory.engine = replace(memory.engine, project=project)
        yield memory


class _Prepared(NamedTuple):
    """A piece that is ready to be stored."""

    piece: Piece
    turns: tuple[ChatMessage, ...]  # Their ids are derived from text and position, so that turns are deduplicated.
    marker: str
    content: str  # The content of the marker once the piece is stored.
    removed: Mapping[str, int]  # The secrets that were removed from its texts, by kind.


class _Ingestion:
    """Reads pieces and stores them batch by batch."""

    def __init__(self, alma: ALMA, agent: str, options: IngestOptions) -> None:
        user = options.get("user_id")
        self._alma = alma
        self._engine = alma.engine
        self._agent = alma.engine.agent(validate.name("agent", agent))
        self._user = "" if user is None else validate.name("user_id", user)
        self._model = options.get("model") or alma.model
        self._options = options
        self.result = IngestResult(dry_run=options.get("dry_run", False))
        self._batch: dict[str, _Prepared] = {}
        self._size = 0
        self._files: dict[str, str] = {}
        self._failures = 0
        self._failed: set[str] = set()  # Markers of pieces that the model could not read; the next run reads them.

    # -- reading

    def read_all(self, catalogue: Catalogue) -> IngestResult:
        """Import all files of a catalogue."""
        result, shared, total = self.result, dict[str, Any](), catalogue.plan.bytes
        for one in catalogue.skipped:
            result.add("skipped", one)
        done = 0

        def report(path: str, files: int, read: int) -> None:
            if progress := self._options.get("progress"):
                counts = (result.counts.get("conversations", 0), result.counts.get("messages", 0))
                progress(Progress(path, files, len(catalogue.entries), min(done + read, total), total, *counts))

        sessions: set[str] = set()
        for number, entry in enumerate(catalogue.entries):
            name = entry.source.name
            try:
                for piece, read in self._read_file(entry, catalogue, shared):
                    # The parts of a conversation follow each other, so only recent sessions need to be remembered.
                    is_first = piece.session not in sessions
                    result.increment("documents" if piece.is_document else "conversations", is_first)
                    sessions = {piece.session} | (sessions if len(sessions) < SHOWN else set())
                    if self.add(piece, entry.own):
                        report(name, number, read)
            except OSError as error:
                # The file was removed or became unreadable; what was read so far is stored.
                result.damage(name, "", f"the rest of the file could not be read: {error.strerror or error}")
            done += entry.source.size
            report(name, number + 1, 0)
        self.flush()
        report("", len(catalogue.entries), 0)
        if catalogue.shared:
            noun = "file is" if catalogue.shared == 1 else "files are"
            result.note(f"{catalogue.shared} {noun} in git with commits by others, so what they say waits")
        if waiting := result.counts.get("waiting"):
            result.note(f"{waiting} findings {_WAIT}")
        return result

    def _read_file(self, entry: FileEntry, catalogue: Catalogue, shared: dict[str, Any]) -> Iterator[tuple[Piece, int]]:
        """Yield the pieces of a file and the number of bytes read so far; nothing if the file is already stored."""
        source, reader, result = entry.source, entry.reader, self.result
        surveyed = ByteSurvey("", "utf-8") if reader.is_database else survey_bytes(source)
        content = self._sign(digest(surveyed.digest, str(entry.own)))
        result.increment("files")
        if len(result.files) < SHOWN:
            result.files[source.name] = str(reader.format)
        marker = self._name_marker("read", source.name)
        if not reader.is_database and self._find_stored([marker]).get(marker) == content:
            result.increment("files unchanged")
            return
        reading = FileReading(
            source,
            reader.format,
            result,
            encoding=surveyed.encoding,
            known_as=entry.known_as,
            voice=Speaker.PERSON if entry.own else Speaker.OTHER,
            user=self._user,
            branches=self._options.get("branches", False),
            find_beside=lambda name: catalogue.find_beside(source, name),
            shared=shared,
        )
        for piece in reading.read_pieces(reader.read):
            yield piece, reading.bytes_read
        if not reader.is_database and reading.finish() == surveyed.digest:
            self._files[marker] = content
            if len(self._files) >= _BATCH_PIECES:
                self.flush()

    # -- storing

    def add(self, piece: Piece, own: bool) -> bool:
        """Add a piece to the batch; return whether the batch was full and has been written."""
        removed: Counter[str] = Counter()
        turns = tuple(_make_turns(piece, own, removed))
        if not turns:
            return False
        content = digest(*(f"{turn.id}\x1e{turn.voice}\x1e{turn.at}" for turn in turns), piece.title)
        # The marker of a part of a conversation is its name, so that it is replaced when the part grows; the marker of
        # a document is its content.
        name = ("document", content) if piece.is_document else (piece.session, piece.part)
        marker = self._name_marker("ingested", *name)
        self.result.increment("unchanged", marker in self._batch)
        self._batch[marker] = _Prepared(piece, turns, marker, self._sign(content), removed)
        self._size += sum(len(turn.text) for turn in turns)
        is_full = len(self._batch) >= _BATCH_PIECES or self._size >= _BATCH_CHARS
        if is_full:
            self.flush()
        return is_full

    def flush(self) -> IngestResult:
        """Store the batch: conversations, then the memories found in them, then the markers."""
        result, batch, files = self.result, self._batch, self._files
        self._batch, self._files, self._size = {}, {}, 0
        stored = self._find_stored(list(batch))
        fresh = [one for one in batch.values() if stored.get(one.marker) != one.content]
        result.increment("unchanged", len(batch) - len(fresh))
        for one in fresh:
            result.increment("sections" if one.piece.is_document else "messages", len(one.turns))
            result.count_secrets(one.removed)
        if result.dry_run:
            for one in fresh:
                result.increment("episodes")
                for is_trusted, findings in self._extract(one).items():
                    result.increment("waiting", 0 if is_trusted else len(findings))
                    for item in findings:
                        result.increment(_LISTS[item.kind])
            return result
        started, listed_ids = self._engine.clock(), {one.id for one in result.episodes}
        conversations = [_make_conversation(one, self._agent, self._user) for one in fresh]
        records = episodes.record_conversations(self._engine, conversations) if fresh else []
        for record in {one.id: one for one in records}.values():
            if record.updated_at >= started and record.id not in listed_ids and record.status is not Status.RETIRED:
                result.add("episodes", to_memory(record, started))
        for one, record in zip(fresh, records, strict=True):
            if record.status is Status.RETIRED:
                result.leave_out("conversations that were deleted here")
            else:
                self._learn(one, record.id)
        markers = {one.marker: one.content for one in fresh if one.marker not in self._failed}
        markers |= {} if self._failed else files
        write(self._engine, lambda tx: [tx.set_marker(id, {"value": value}) for id, value in markers.items()])
        if result.episodes or result.total:
            result.id = name_import(RUN.get())
        return result

    def _name_marker(self, verb: str, *name: str) -> str:
        return f"mrk_{verb}_{digest(self._engine.project, self._agent, self._user, *name)}"

    def _sign(self, content: str) -> str:
        """Return the content of a marker: a digest of a piece and of the options that decide what is stored of it."""
        how = f"branches={self._options.get('branches', False)}"
        return digest(_VERSION, how, self._model.name if self._model else "", content)

    def _find_stored(self, markers: list[str]) -> dict[str, str]:
        """Return the contents of these markers; nothing if everything is to be read again."""
        is_used = markers and self._options.get("resume", True)
        return {record.id: record.body["value"] for record in self._engine.store.get(markers)} if is_used else {}

    def _extract(self, one: _Prepared) -> dict[bool, list[Extracted]]:
        """Return the findings in a piece by trust: those to learn (True), and those to store as candidates (False)."""
        has_stopped = self._failures >= _MODEL_FAILURES
        model = None if has_stopped else self._model
        # Nothing is learned from the output of programs.
        turns = [turn for turn in one.turns if turn.voice is not Speaker.TOOL]
        if one.piece.is_document:
            [document] = one.piece.messages
            extraction = extract_text(document.text.replace("\0", ""), model=model, name=document.speaker)
        else:
            messages = [{"speaker": each.speaker, "text": each.text, "at": each.at, "id": each.id} for each in turns]
            texts = [turn.text for turn in turns if turn.voice is Speaker.PERSON]
            stored = find_known_memories(self._engine, self._agent, self._user or None, texts) if model else []
            extraction = extract_conversation(messages, model=model, known=stored)
        if model is not None:
            self._failures = self._failures + 1 if extraction.failed else 0
        if extraction.failed:
            self.result.note(f"the model failed, so the local reader read some texts alone: {extraction.failed}")
        if extraction.failed or has_stopped:
            self._failed.add(one.marker)
        findings: dict[bool, list[Extracted]] = {True: [], False: []}
        for item in extraction.found:
            turn = turns[item.turn]
            is_hostile = not one.piece.is_document and find_suspicion(turn.text[:_TURN_CHARS])
            # A file may quote what others demand, so its rules are accepted one by one.
            is_rule_of_file = one.piece.is_document and item.kind is Kind.CORRECTION
            is_trusted = turn.voice is not Speaker.OTHER and not is_hostile and not is_rule_of_file
            findings[is_trusted].append(item)
        return findings

    def _learn(self, one: _Prepared, episode: str) -> None:
        """Store and count the findings in a piece."""
        result = self.result
        for is_trusted, findings in self._extract(one).items():
            if not findings:
                continue
            stored = keep(
                self._alma,
                findings,
                agent=self._agent,
                user_id=self._user or None,
                source=str(one.piece.format),
                episode=episode,
                session_id=one.piece.session,
                trusted=is_trusted,
                repository=one.piece.repository,
            )
            for name in LISTS:
                for memory in getattr(stored, name):
                    result.add(name, memory)
                    result.increment("waiting", getattr(memory, "status", "") == Status.CANDIDATE)
            result.increment("known", stored.known)
            result.known += stored.known
            result.superseded = [*result.superseded, *stored.superseded][:SHOWN]
            for reason in stored.refused:
                result.add("refused", reason)


# -- pieces as they are stored


def _make_turns(piece: Piece, own: bool, removed: Counter[str]) -> Iterator[ChatMessage]:
    """Yield a piece as turns. A document is split into sections that can be quoted, with its name as the speaker.

    Unless the piece is the user's own, its turns are attributed to somebody else, and never to the user. The secrets
    that are removed from its texts are added to `removed`.
    """
    seen: Counter[tuple[str, str]] = Counter()
    for message in piece.messages:
        name, voice, words = message.speaker, message.voice, replace_surrogates(message.text)
        if not own:
            is_user = not piece.is_document and voice is Speaker.PERSON and _USER_NAMES.search(name)
            name, voice = "somebody else" if is_user else name, voice if voice is Speaker.TOOL else Speaker.OTHER
        name = _clean_name(name, 120) or "unknown"
        safe = clean(words)
        removed.update(count_removed(words, safe))
        if piece.is_document:
            for section in _HEADING.split(safe):
                for text in _cut_text(section.strip(), _SECTION_CHARS):
                    seen[name, text] += 1
                    yield ChatMessage(name, text, voice, message.at, digest("section", text, str(seen[name, text])))
            continue
        seen[name, words] += 1
        # A message without an id is identified by its position among equal ones.
        key = ("id", message.id) if message.id else ("said", piece.part, str(seen[name, words]))
        for number, text in enumerate(_cut_text(safe, _TURN_CHARS)):
            yield ChatMessage(name, text, voice, message.at, digest(*key, name, words, str(number)))


def _cut_text(text: str, most: int) -> Iterator[str]:
    """Yield pieces of at most this length, cut between paragraphs, lines, sentences or words where possible."""
    while text:
        cut = len(text)
        if cut > most:
            ends = [at + len(sign) for sign in (" ", ". ", "\n") if (at := text.rfind(sign, most // 2, most)) >= 0]
            ends += [match.end() for match in _PARAGRAPH.finditer(text, 0, most)]
            cut = ends[-1] if ends else most
        piece, text = text[:cut], text[cut:]
        visible = validate.output("text", piece) if _UNSEEN.sub("", piece).strip() else None
        if visible is not None:
            yield visible.strip("\n")


def _clean_name(name: str, most: int) -> str:
    return " ".join(_UNSEEN.sub(" ", clean(name)).split())[:most].strip()


def _make_conversation(one: _Prepared, agent: str, user: str) -> Conversation:
    """Return a piece as the engine stores it. Conversations are only ever quoted, so they count as learned.

    Turns of others that read like instructions to a model are untrusted, and such a title is left out.
    """
    source = str(one.piece.format)
    learned = Provenance(Origin.IMPORT, Trust.LEARNED, source=source)
    untrusted = Provenance(Origin.CONTENT, Trust.UNTRUSTED, source=source)
    turns = []
    for turn in one.turns:
        is_doubted = turn.voice in (Speaker.OTHER, Speaker.TOOL) and find_suspicion(turn.text)
        turns.append(TurnDraft(turn.speaker, turn.text, turn.at, turn.id, untrusted if is_doubted else learned))
    title = _clean_name(one.piece.title, 300)
    title = "" if find_suspicion(title) else title
    return Conversation(agent, one.piece.session, tuple(turns), user, title, learned, (source,))
