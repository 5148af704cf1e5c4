"""The writing end: batches of what was read become episodes, then memories, then marks that they were kept.

The marks come last, so that whatever is interrupted is done again; doing it again adds nothing, because turns are known
by their words and findings by the turns they came from. A mark only saves the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..engine import admit, episodes, transaction, validate
from ..engine.context import Engine
from ..engine.inject.escape import suspicious
from ..engine.view import view
from ..extraction import Extracted, Kept, Kind, extract_conversation, extract_text, find_known_memories, keep
from ..ports import Model
from ..text import digest
from ..types.kinds import Episode
from ..types.record import Record, Status
from . import writing
from .types import MEMORIES, SHOWN, Chat, Document, IngestResult, Message, Piece, Voice
from .writing import Written, written

if TYPE_CHECKING:
    from ..core import ALMA

VERSION = "1"
"""Of how things are read: with another one everything is looked at again."""
_BATCH_PIECES = 64
_BATCH_CHARS = 500_000
_LOOKED_AT = 20_000
_MODEL_FAILURES = 3
"""After as many failures in a row a run does not ask the model again."""
_BECOMES: Mapping[Kind, str] = {
    Kind.OUTCOME: "outcomes",
    Kind.PREFERENCE: "user_preferences",
    Kind.CORRECTION: "rules",
    Kind.DECISION: "domain_knowledge",
    Kind.FACT: "domain_knowledge",
    Kind.ANTI_PATTERN: "anti_patterns",
    Kind.HEURISTIC: "heuristics",
    Kind.WORK_ITEM: "work_items",
}


@dataclass(frozen=True, slots=True)
class Whose:
    """Into whose memory it goes, and how."""

    agent: str
    user: str = ""
    model: Model | None = None
    resume: bool = True
    dry_run: bool = False
    how: str = ""
    """What else decides what is kept of a text; with another one it is looked at again."""


class Keeper:
    """Takes what is read and keeps it batch by batch."""

    def __init__(self, alma: ALMA, whose: Whose, result: IngestResult) -> None:
        self._alma = alma
        self._engine: Engine = alma.engine
        agent = self._engine.agent(validate.name("agent", whose.agent))
        self._whose = replace(whose, agent=agent, model=whose.model or alma.model)
        self._result = result
        self._batch: list[Written] = []
        self._size = 0
        self._files: dict[str, str] = {}
        self._failures = 0
        self._failed: set[str] = set()
        """The marks of what the model could not read: it is read again by the next run."""

    # -- files

    def has_read(self, name: str, content: str) -> bool:
        """Whether all of a file with this content was kept before."""
        if not self._whose.resume:
            return False
        held = self._engine.store.get([self._file_id(name)])
        return bool(held) and held[0].body["value"] == self._value(content)

    def read(self, name: str, content: str) -> None:
        """All of it is kept once the batches are."""
        self._files[self._file_id(name)] = self._value(content)
        if len(self._files) >= _BATCH_PIECES:
            self.flush()

    # -- pieces

    def take(self, piece: Piece, *, own: bool) -> bool:
        """Keep it with the next batch; whether that was written now."""
        one = written(piece if own else writing.foreign(piece))
        if not one.turns:
            return False
        self._batch.append(one)
        self._size += sum(len(turn.text) for turn in one.turns)
        if len(self._batch) >= _BATCH_PIECES or self._size >= _BATCH_CHARS:
            self.flush()
            return True
        return False

    def flush(self) -> None:
        batch, self._batch, self._size = self._batch, [], 0
        files, self._files = self._files, {}
        marks = {self._mark_id(one): self._value(one.digest) for one in batch}
        fresh = self._fresh(batch, marks)
        for one in fresh:
            self._result.count("messages" if isinstance(one.piece, Chat) else "sections", len(one.turns))
        if self._whose.dry_run:
            for one in fresh:
                believed, doubted = self._found(one)
                for item in [*believed, *doubted]:
                    self._result.count(_BECOMES[item.kind])
                self._result.count("waiting", len(doubted))
                self._result.count("episodes")
            return
        kept = self._record(fresh)
        for one, episode in zip(fresh, kept, strict=True):
            if episode.status is Status.RETIRED:
                self._result.leave("conversations that were deleted here")
            else:
                self._learn(one, episode)
        unread = {} if self._failed else files
        self._mark({**{id: value for id, value in marks.items() if id not in self._failed}, **unread})

    def _fresh(self, batch: Sequence[Written], marks: Mapping[str, str]) -> list[Written]:
        held: dict[str, object] = {}
        if self._whose.resume:
            held = {record.id: record.body["value"] for record in self._engine.store.get(list(marks))}
        fresh = {self._mark_id(one): one for one in batch if held.get(id := self._mark_id(one)) != marks[id]}
        self._result.count("unchanged", len(batch) - len(fresh))
        return list(fresh.values())

    def _record(self, fresh: Sequence[Written]) -> list[Record]:
        began = self._engine.clock()
        told = [writing.conversation(one, self._whose.agent, self._whose.user) for one in fresh]
        made = episodes.record(self._engine, told) if told else []
        shown = self._result.episodes
        known = {one.id for one in shown}
        for record in {one.id: one for one in made}.values():
            if record.status is Status.RETIRED or record.updated_at < began or record.id in known:
                continue
            self._result.count("episodes")
            episode = view(record, began)
            if isinstance(episode, Episode) and len(shown) < SHOWN:
                shown.append(episode)
        return made

    # -- what is learned

    def _found(self, one: Written) -> tuple[list[Extracted], list[Extracted]]:
        """What may be learned, and what waits for a person."""
        has_stopped = self._failures >= _MODEL_FAILURES
        model = None if has_stopped else self._whose.model
        if isinstance(one.piece, Document):
            extraction = extract_text(one.piece.text.replace("\0", ""), model=model, name=one.piece.name)
            turns: list[Message] = []
        else:
            # What programs said teaches nothing.
            turns = [turn for turn in one.turns if turn.voice is not Voice.TOOL]
            given = [{"speaker": each.speaker, "text": each.text, "at": each.at, "id": each.id} for each in turns]
            texts = [turn.text for turn in turns if turn.voice is Voice.PERSON]
            user = self._whose.user or None
            known = find_known_memories(self._engine, self._whose.agent, user, texts) if model else []
            extraction = extract_conversation(given, model=model, known=known)
        if model is not None:
            self._failures = self._failures + 1 if extraction.failed else 0
        if extraction.failed:
            self._result.note(f"the model was not used everywhere: {extraction.failed}")
        if extraction.failed or has_stopped:
            self._failed.add(self._mark_id(one))
        if isinstance(one.piece, Document):
            trusted = one.piece.voice is Voice.PERSON
            return (list(extraction.found), []) if trusted else ([], list(extraction.found))
        doubts = {
            at
            for at in {item.turn for item in extraction.found}
            if turns[at].voice is Voice.OTHER or suspicious(turns[at].text[:_LOOKED_AT])
        }
        believed = [item for item in extraction.found if item.turn not in doubts]
        return believed, [item for item in extraction.found if item.turn in doubts]

    def _learn(self, one: Written, episode: Record) -> None:
        for found, trusted in zip(self._found(one), (True, False), strict=True):
            if found:
                self._report(
                    keep(
                        self._alma,
                        found,
                        agent=self._whose.agent,
                        user_id=self._whose.user or None,
                        source=str(one.piece.format),
                        episode=episode.id,
                        session_id=one.piece.session,
                        trusted=trusted,
                    )
                )

    def _report(self, kept: Kept) -> None:
        for name in MEMORIES:
            new = getattr(kept, name)
            self._result.count(name, len(new))
            self._result.count("waiting", sum(getattr(one, "status", "") == Status.CANDIDATE for one in new))
            listed = getattr(self._result, name)
            listed.extend(new[: max(0, SHOWN - len(listed))])
        self._result.count("known", kept.known)
        for why in kept.refused:
            self._result.refuse(why)

    # -- marks

    def _value(self, content: str) -> str:
        model = self._whose.model
        return digest(VERSION, self._whose.how, model.name if model else "", content)

    def _mark_id(self, one: Written) -> str:
        """A part of a conversation by its name, so that it is marked anew when it grows; a document by its content."""
        piece = one.piece
        known = (piece.session, piece.part) if isinstance(piece, Chat) else ("document", one.digest)
        return f"mrk_ingested_{digest(self._engine.project, self._whose.agent, self._whose.user, *known)}"

    def _file_id(self, name: str) -> str:
        return f"mrk_read_{digest(self._engine.project, self._whose.agent, self._whose.user, name)}"

    def _mark(self, marks: Mapping[str, str]) -> None:
        if not marks:
            return

        def attempt() -> tuple[None, list[Record]]:
            held = {record.id: record for record in self._engine.store.get(list(marks))}
            changed = [
                admit.make_marker(self._engine, id, {"value": value}, held.get(id))
                for id, value in marks.items()
                if id not in held or held[id].body["value"] != value
            ]
            return None, changed

        transaction.commit(self._engine, attempt)
