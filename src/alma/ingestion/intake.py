"""Files, folders and exports into memory.

What is read becomes episodes, then memories, then markers that it was stored. The markers come last, so that whatever
is interrupted is done again. Doing it again adds nothing, because turns are recognised by their words and findings by
the turns they came from: a marker only saves the work.
"""

from __future__ import annotations

import copy
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from ..engine import episodes, validate
from ..engine.admit import clean
from ..engine.episodes import Conversation, Said
from ..engine.inject.escape import suspicious
from ..engine.transaction import Transaction, write
from ..engine.view import view
from ..errors import ValidationError
from ..extraction import Extracted, Kind, extract_conversation, extract_text, find_known_memories, keep
from ..extraction.learner import LISTS
from ..opening import Holder
from ..ports import Model
from ..text import digest, replace_surrogates
from ..types.kinds import Episode
from ..types.record import Origin, Provenance, Record, Status, Trust
from .catalogue import DOCUMENT_BYTES, Catalogue, FileEntry, Wanted
from .formats import Format
from .formats.common import Chat, ChatMessage, Document, FileReading, Piece, Speaker, name_session
from .sources import survey
from .types import SHOWN, IngestResult, Plan, Progress

if TYPE_CHECKING:
    from ..memory import ALMA

Path = str | os.PathLike[str]

_VERSION = "1"  # Of how things are read: with another one everything is looked at again.
_BATCH_PIECES = 64
_BATCH_CHARS = 500_000
_TURN_CHARS = 20_000
_SECTION_CHARS = 1_500
_NAME_CHARS = 120
_TITLE_CHARS = 300
_MODEL_FAILURES = 3  # After so many failures in a row a run does not ask the model again.
_ROLES = {
    **dict.fromkeys(("assistant", "ai", "model", "bot", "agent"), Speaker.ASSISTANT),
    **dict.fromkeys(("system", "developer", "tool", "function"), Speaker.TOOL),
}
_USER_NAMES = re.compile(r"(?i)\b(?:user|human|me|you|person|owner|operator|admin|developer|system)s?\b|^\W*$")
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]+")
_HEADING = re.compile(r"(?m)^(?=#{1,6}\s|=+ \S)")
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_LISTS: Mapping[Kind, str] = {
    Kind.OUTCOME: "outcomes",
    Kind.PREFERENCE: "user_preferences",
    Kind.CORRECTION: "rules",
    Kind.DECISION: "domain_knowledge",
    Kind.FACT: "domain_knowledge",
    Kind.ANTI_PATTERN: "anti_patterns",
    Kind.HEURISTIC: "heuristics",
    Kind.WORK_ITEM: "work_items",
}


class Options(TypedDict, total=False):
    """What all ways of ingesting take."""

    alma: ALMA | None  # The memory; without one the configured one is opened, and closed again.
    # Whose preferences are learned. In Slack what the user of that name, id or address wrote counts as theirs.
    user_id: str | None
    model: Model | None  # The language model that reads; without one the configured one, if any.
    # Whether the person's own words are read: those are learned from, others' wait for a person. None: chats are,
    # unless they lie in a git repository; documents are not.
    own: bool | None
    branches: bool  # Whether abandoned branches of conversations are kept, as conversations of their own.
    max_file_bytes: int  # Larger documents that are found in a folder are skipped.
    progress: Callable[[Progress], None] | None
    dry_run: bool  # Read everything, store nothing, and count what is found.
    resume: bool  # Skip what was stored before; False looks at everything again.


def plan(
    path: Path,
    *,
    wanted: Wanted | str = Wanted.EVERYTHING,
    own: bool | None = None,
    max_file_bytes: int = DOCUMENT_BYTES,
) -> Plan:
    """Return what would be read below a path, as what, and what would not be, and why. Only beginnings are read."""
    with _list_files(path, wanted, {"own": own, "max_file_bytes": max_file_bytes}) as catalogue:
        return catalogue.plan


def ingest(
    path: Path,
    agent: str,
    project_id: str | None = None,
    *,
    wanted: Wanted | str = Wanted.EVERYTHING,
    **options: Unpack[Options],
) -> IngestResult:
    """Read a file, a folder or an export, whatever it is, and store what it says."""
    with _list_files(path, wanted, options) as catalogue, _open_memory(options.get("alma"), project_id) as alma:
        return _Ingestion(alma, agent, options).read_all(catalogue)


def ingest_file(path: Path, agent: str, project_id: str | None = None, **options: Unpack[Options]) -> IngestResult:
    """Read one file of any known format. A document is stored as untrusted unless `own` says it is the person's."""
    if os.path.isdir(path):
        raise ValidationError(f"{os.fspath(path)} is a folder; ingest_directory and ingest_conversations read folders")
    return ingest(path, agent, project_id, **options)


def ingest_directory(path: Path, agent: str, project_id: str | None = None, **options: Unpack[Options]) -> IngestResult:
    """Read the documents of a project, and the histories of conversations that lie in it.

    They are the words of whoever wrote the project: they are quoted, and what is found in them waits for a person,
    unless `own` says that they are the person's own.
    """
    if not os.path.isdir(path):
        raise ValidationError(f"{os.fspath(path)} is no folder; ingest_file reads a file")
    return ingest(path, agent, project_id, wanted=Wanted.DOCUMENTS, **options)


def ingest_conversations(
    path: Path, agent: str, project_id: str | None = None, **options: Unpack[Options]
) -> IngestResult:
    """Read chats: an export, a transcript, or a folder of them. What the person said in them is learned from."""
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
    """Read one conversation: a file, or its messages, each a mapping with role and content (or speaker and text)."""
    if isinstance(conversation, str | os.PathLike):
        return ingest_conversations(conversation, agent, project_id, **options)
    messages = []
    for at, given in enumerate(validate.many("messages", conversation)):
        label = f"messages[{at}]"
        if not isinstance(given, Mapping):
            raise ValidationError(f"{label} must be a mapping with role and content, not {type(given).__name__}")
        speaker = validate.name(f"{label} role", given.get("role") or given.get("speaker"))
        text = given.get("content") if given.get("content") is not None else given.get("text")
        messages.append(
            ChatMessage(
                speaker=speaker,
                text=validate.output(f"{label} content", text) or "",
                voice=_ROLES.get(speaker.casefold(), Speaker.PERSON),
                at=validate.moment(f"{label} at", given.get("at", given.get("timestamp"))),
                id=validate.optional_text(f"{label} id", given.get("id")) or "",
            )
        )
    session = name_session(Format.CHAT, session_id, title, messages[0].text if messages else "")
    chat = Chat(format=Format.CHAT, session=session, messages=messages, title=title, part="1")
    with _open_memory(options.get("alma"), project_id) as alma:
        ingestion = _Ingestion(alma, agent, options)
        ingestion.result.increment("conversations", bool(messages))
        ingestion.add(chat, own=options.get("own") is not False)
        ingestion.flush()
        return ingestion.result


def _list_files(path: Path, wanted: Wanted | str, options: Options) -> closing[Catalogue]:
    chosen = validate.choice("wanted", wanted, Wanted)
    most = validate.whole("max_file_bytes", options.get("max_file_bytes", DOCUMENT_BYTES), 1, 2**50)
    return closing(Catalogue(path, chosen, own=options.get("own"), max_file_bytes=most))


@contextmanager
def _open_memory(alma: ALMA | None, project_id: str | None) -> Iterator[ALMA]:
    """Give the memory to write to: the given one, seen as that project's, or the configured one, closed afterwards."""
    project = None if project_id is None else validate.name("project_id", project_id)
    with Holder(alma, project) as holder:
        memory = holder.alma
        if project is not None and project != memory.project_id:
            memory = copy.copy(memory)
            memory.engine = replace(memory.engine, project=project)
        yield memory


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A piece in the form in which it is stored."""

    piece: Piece
    turns: tuple[ChatMessage, ...]  # Their ids are such that the same words in the same place are recognised.
    marker: str
    content: str  # What the marker says once this is stored.


class _Ingestion:
    """Reads pieces and stores them batch by batch."""

    def __init__(self, alma: ALMA, agent: str, options: Options) -> None:
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
        self._failed: set[str] = set()  # The markers of what the model could not read: the next run reads it again.

    # -- reading

    def read_all(self, catalogue: Catalogue) -> IngestResult:
        result, shared, total = self.result, dict[str, Any](), catalogue.plan.bytes
        for one in catalogue.skipped:
            result.add("skipped", one)
        sessions: set[str] = set()
        done = 0

        def report(path: str, files: int, read: int) -> None:
            if progress := self._options.get("progress"):
                counts = (result.counts.get("conversations", 0), result.counts.get("messages", 0))
                progress(Progress(path, files, len(catalogue.entries), min(done + read, total), total, *counts))

        for number, entry in enumerate(catalogue.entries):
            name = entry.source.name
            try:
                for piece, read in self._read_file(entry, catalogue, shared):
                    # The parts of one conversation follow each other, so that few sessions have to be remembered.
                    is_first = piece.session not in sessions
                    result.increment("conversations" if isinstance(piece, Chat) else "documents", is_first)
                    if len(sessions) > SHOWN:
                        sessions.clear()
                    sessions.add(piece.session)
                    if self.add(piece, own=entry.own):
                        report(name, number, read)
            except OSError as error:
                # It is gone, or became unreadable: what was read of it before is stored.
                result.damage(name, "", f"it could not be read further: {error.strerror or error}")
            done += entry.source.size
            report(name, number + 1, 0)
        self.flush()
        report("", len(catalogue.entries), 0)
        return result

    def _read_file(self, entry: FileEntry, catalogue: Catalogue, shared: dict[str, Any]) -> Iterator[tuple[Piece, int]]:
        """Yield the pieces of a file, unless all of it was stored before, with how many bytes were read by then."""
        source, format = entry.source, entry.reader.format
        is_database = entry.reader.is_database is not None
        surveyed = None if is_database else survey(source)
        content = digest(surveyed.digest, str(entry.own)) if surveyed else ""
        self.result.increment("files")
        if len(self.result.files) < SHOWN:
            self.result.files[source.name] = str(format)
        marker = f"mrk_read_{digest(self._engine.project, self._agent, self._user, source.name)}"
        if surveyed and self._find_stored([marker]).get(marker) == self._sign(content):
            self.result.increment("files unchanged")
            return
        reading = FileReading(
            source,
            format,
            self.result,
            encoding=surveyed.encoding if surveyed else "utf-8",
            known_as=entry.known_as,
            voice=Speaker.PERSON if entry.own else Speaker.OTHER,
            user=self._options.get("user_id") or "",
            branches=self._options.get("branches", False),
            find_beside=lambda name: catalogue.find_beside(source, name),
            shared=shared,
        )
        self.result.note(surveyed.note if surveyed else "")
        for piece in entry.reader.read(reading):
            yield piece, reading.bytes_read
        if surveyed and reading.finish() == surveyed.digest:
            self._files[marker] = self._sign(content)
            if len(self._files) >= _BATCH_PIECES:
                self.flush()

    # -- storing

    def add(self, piece: Piece, *, own: bool) -> bool:
        """Store a piece with the next batch; return whether that was written now."""
        piece = piece if own else _disown(piece)
        turns = tuple(_make_turns(piece) if isinstance(piece, Chat) else _make_sections(piece))
        if not turns:
            return False
        content = digest(*(f"{turn.id}\x1e{turn.voice}\x1e{turn.at}" for turn in turns), piece.title)
        # A part of a conversation is marked by its name, so that it is marked anew when it grows; a document by its
        # content.
        name = (piece.session, piece.part) if isinstance(piece, Chat) else ("document", content)
        marker = f"mrk_ingested_{digest(self._engine.project, self._agent, self._user, *name)}"
        self.result.increment("unchanged", marker in self._batch)
        self._batch[marker] = _Prepared(piece, turns, marker, self._sign(content))
        self._size += sum(len(turn.text) for turn in turns)
        if len(self._batch) < _BATCH_PIECES and self._size < _BATCH_CHARS:
            return False
        self.flush()
        return True

    def flush(self) -> None:
        """Store the batch: episodes, then what is found in them, then the markers."""
        batch, self._batch, self._size = self._batch, {}, 0
        files, self._files = self._files, {}
        stored = self._find_stored(list(batch))
        fresh = [one for one in batch.values() if stored.get(one.marker) != one.content]
        self.result.increment("unchanged", len(batch) - len(fresh))
        for one in fresh:
            self.result.increment("messages" if isinstance(one.piece, Chat) else "sections", len(one.turns))
        if self.result.dry_run:
            for one in fresh:
                believed, doubted = self._extract(one)
                for item in (*believed, *doubted):
                    self.result.increment(_LISTS[item.kind])
                self.result.increment("waiting", len(doubted))
                self.result.increment("episodes")
            return
        for one, episode in zip(fresh, self._record_episodes(fresh), strict=True):
            if episode.status is Status.RETIRED:
                self.result.leave_out("conversations that were deleted here")
            else:
                self._learn(one, episode)
        markers = {one.marker: one.content for one in batch.values() if one.marker not in self._failed}
        markers |= {} if self._failed else files

        def mark(tx: Transaction) -> None:
            values = {record.id: record.body["value"] for record in tx.get(markers)}
            for id, value in markers.items():
                if values.get(id) != value:
                    tx.set_marker(id, {"value": value})

        write(self._engine, mark)

    def _sign(self, content: str) -> str:
        """Return what a marker says: the content, and what else decides what is stored of it."""
        how = f"branches={self._options.get('branches', False)}"
        return digest(_VERSION, how, self._model.name if self._model else "", content)

    def _find_stored(self, markers: list[str]) -> dict[str, str]:
        """Return what these markers say; nothing when everything is to be looked at again."""
        is_asked = markers and self._options.get("resume", True)
        return {record.id: record.body["value"] for record in self._engine.store.get(markers)} if is_asked else {}

    def _record_episodes(self, fresh: Sequence[_Prepared]) -> list[Record]:
        started = self._engine.clock()
        conversations = [_make_conversation(one, self._agent, self._user) for one in fresh]
        records = episodes.record_conversations(self._engine, conversations) if fresh else []
        known = {one.id for one in self.result.episodes}
        for record in {one.id: one for one in records}.values():
            is_changed = record.updated_at >= started and record.id not in known
            if is_changed and record.status is not Status.RETIRED:
                episode = view(record, started)
                assert isinstance(episode, Episode)
                self.result.add("episodes", episode)
        return records

    def _extract(self, one: _Prepared) -> tuple[list[Extracted], list[Extracted]]:
        """Return what a piece says that may be learned, and what waits for a person."""
        piece, has_stopped = one.piece, self._failures >= _MODEL_FAILURES
        model = None if has_stopped else self._model
        # What programs said teaches nothing.
        turns = [turn for turn in one.turns if turn.voice is not Speaker.TOOL]
        if isinstance(piece, Document):
            extraction = extract_text(piece.text.replace("\0", ""), model=model, name=piece.name)
        else:
            messages = [{"speaker": each.speaker, "text": each.text, "at": each.at, "id": each.id} for each in turns]
            texts = [turn.text for turn in turns if turn.voice is Speaker.PERSON]
            known = find_known_memories(self._engine, self._agent, self._user or None, texts) if model else []
            extraction = extract_conversation(messages, model=model, known=known)
        if model is not None:
            self._failures = self._failures + 1 if extraction.failed else 0
        if extraction.failed:
            self.result.note(f"the model was not used everywhere: {extraction.failed}")
        if extraction.failed or has_stopped:
            self._failed.add(one.marker)
        found = extraction.found
        if isinstance(piece, Document):
            return ([*found], []) if piece.voice is Speaker.PERSON else ([], [*found])
        is_doubted = {
            at: bool(turns[at].voice is Speaker.OTHER or suspicious(turns[at].text[:_TURN_CHARS]))
            for at in {item.turn for item in found}
        }
        believed, doubted = ([item for item in found if is_doubted[item.turn] is one] for one in (False, True))
        return believed, doubted

    def _learn(self, one: _Prepared, episode: Record) -> None:
        """Store what a piece says, and count it."""
        result = self.result
        for findings, is_trusted in zip(self._extract(one), (True, False), strict=True):
            if not findings:
                continue
            kept = keep(
                self._alma,
                findings,
                agent=self._agent,
                user_id=self._user or None,
                source=str(one.piece.format),
                episode=episode.id,
                session_id=one.piece.session,
                trusted=is_trusted,
            )
            for name in LISTS:
                for memory in getattr(kept, name):
                    result.add(name, memory)
                    result.increment("waiting", getattr(memory, "status", "") == Status.CANDIDATE)
            result.increment("known", kept.known)
            result.known += kept.known
            result.superseded = [*result.superseded, *kept.superseded][:SHOWN]
            for reason in kept.refused:
                result.add("refused", reason)


# -- pieces as they are stored


def _disown(piece: Piece) -> Piece:
    """Return the same as somebody else's words: a prompt that quotes them does not say that it was the user."""
    if isinstance(piece, Document):
        return replace(piece, voice=Speaker.OTHER)
    messages = []
    for one in piece.messages:
        is_user = one.voice is Speaker.PERSON and _USER_NAMES.search(one.speaker)
        voice = one.voice if one.voice is Speaker.TOOL else Speaker.OTHER
        messages.append(replace(one, voice=voice, speaker="somebody else" if is_user else one.speaker))
    return replace(piece, messages=messages)


def _make_turns(chat: Chat) -> Iterator[ChatMessage]:
    seen: Counter[tuple[str, str]] = Counter()
    for message in chat.messages:
        speaker, words = _clean_name(message.speaker, _NAME_CHARS) or "unknown", replace_surrogates(message.text)
        seen[speaker, words] += 1
        # Without an id of its own a message is recognised by its place among equal ones.
        key = ("id", message.id) if message.id else ("said", chat.part, str(seen[speaker, words]))
        for number, text in enumerate(_cut_text(clean(words), _TURN_CHARS)):
            yield replace(message, speaker=speaker, text=text, id=digest(*key, speaker, words, str(number)))


def _make_sections(document: Document) -> Iterator[ChatMessage]:
    """Yield a document as turns of its own name: what stands under a heading, in pieces that can be quoted."""
    seen: Counter[str] = Counter()
    speaker = _clean_name(document.name, _NAME_CHARS) or "unknown"
    for section in _HEADING.split(clean(replace_surrogates(document.text))):
        for text in _cut_text(section.strip(), _SECTION_CHARS):
            seen[text] += 1
            id = digest("section", text, str(seen[text]))
            yield ChatMessage(speaker=speaker, text=text, voice=document.voice, at=document.at, id=id)


def _cut_text(text: str, most: int) -> Iterator[str]:
    """Yield pieces that are not longer, cut between paragraphs, lines, sentences or words where there are any."""
    while text:
        cut = len(text)
        if cut > most:
            ends = [match.end() for match in _PARAGRAPH.finditer(text, 0, most)][-1:]
            for sign in ("\n", ". ", " "):
                if not ends and (at := text.rfind(sign, most // 2, most)) >= 0:
                    ends = [at + len(sign)]
            cut = max([*ends, 1]) if ends else most
        piece, text = text[:cut], text[cut:]
        visible = validate.output("text", piece) if _UNSEEN.sub("", piece).strip() else None
        if visible is not None:
            yield visible.strip("\n")


def _clean_name(name: str, most: int) -> str:
    return " ".join(_UNSEEN.sub(" ", clean(name)).split())[:most].strip()


def _make_conversation(one: _Prepared, agent: str, user: str) -> Conversation:
    """Return a piece as the engine stores it: that it was said is certain, and it is only ever quoted.

    What somebody else wrote for a model waits for a person, and a title that reads like an instruction is left out.
    """
    source = str(one.piece.format)
    learned = Provenance(Origin.IMPORT, Trust.LEARNED, source=source)
    untrusted = Provenance(Origin.CONTENT, Trust.UNTRUSTED, source=source)
    turns = []
    for turn in one.turns:
        is_doubted = turn.voice in (Speaker.OTHER, Speaker.TOOL) and suspicious(turn.text)
        provenance = untrusted if is_doubted else learned
        turns.append(Said(speaker=turn.speaker, text=turn.text, at=turn.at, id=turn.id, provenance=provenance))
    title = _clean_name(one.piece.title, _TITLE_CHARS)
    return Conversation(
        agent=agent,
        session=one.piece.session,
        turns=tuple(turns),
        user=user,
        title="" if suspicious(title) else title,
        provenance=learned,
        tags=(source,),
    )
