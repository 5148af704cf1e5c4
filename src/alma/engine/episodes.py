"""Conversations as memory: each turn a record of its own, and one record for the whole.

A turn's id is that of its episode and its number, so that what is found tells where it belongs without being read, and
two processes that write the same turn meet in a conflict. Told again, a conversation grows by what is new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from ..text import digest
from ..types import speech
from ..types.kinds import KINDS
from ..types.query import Where
from ..types.record import Provenance, Record, Status
from ..types.times import to_iso
from ..types.vector import Vector
from .admit import build, clean, revise, screen
from .context import Engine
from .drafts import Draft
from .tombstones import find_deleted_keys
from .transaction import commit

SAID_CHARS = 20_000
"""So much of what its people said is also searched as one text; each turn is searched itself, wherever it stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    speaker: str
    text: str
    at: datetime | None = None
    id: str = ""
    """The host's own id of the turn, if it has one."""
    provenance: Provenance = field(default_factory=Provenance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What was said in one session, or what is new of it."""

    agent: str
    session: str
    turns: tuple[Said, ...]
    user: str = ""
    title: str = ""
    provenance: Provenance = field(default_factory=Provenance)
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Prepared:
    conversation: Conversation
    digest: str
    turns: tuple[Draft, ...]
    times: tuple[datetime | None, ...]
    vectors: tuple[tuple[Vector, ...], ...]

    @property
    def id(self) -> str:
        return f"epi_{self.digest}"


@lru_cache(maxsize=4096)
def episode_of(turn_id: str) -> str:
    """The id of the episode that a turn belongs to."""
    return f"epi_{turn_id[4:].rpartition('_')[0]}"


@lru_cache(maxsize=4096)
def number_of(turn_id: str) -> int:
    return int(turn_id.rpartition("_")[2])


def turn_id(episode_id: str, number: int) -> str:
    return f"trn_{episode_id[4:]}_{number}"


def record(engine: Engine, conversations: Sequence[Conversation]) -> list[Record]:
    """Keep conversations; the record of each as it is now. One that was deleted stays away: it is RETIRED and empty."""
    prepared = _prepare(engine, _joined(conversations))

    def attempt() -> tuple[dict[str, Record], list[Record]]:
        held = {one.id: one for one in engine.store.get([one.id for one in prepared])}
        keys = [turn.key for one in prepared for turn in one.turns]
        known = _known(engine, keys) | find_deleted_keys(engine, [*keys, *(one.id for one in prepared)])
        made = [_grown(engine, one, held.get(one.id), known) for one in prepared]
        return {episode.id: episode for episode, _ in made}, [changed for _, some in made for changed in some]

    episodes = commit(engine, attempt)
    for id in find_deleted_keys(engine, episodes):
        # Deleted while it was being written: what came after the deletion goes too.
        episodes[id] = replace(episodes[id], status=Status.RETIRED)
        engine.store.delete([id, *(turn.id for turn in turns(engine, episodes[id]))])
    return [episodes[f"epi_{_digest(engine, one)}"] for one in conversations]


def _joined(conversations: Iterable[Conversation]) -> list[Conversation]:
    """Each session once: two parts of one conversation follow on each other."""
    found: dict[tuple[str, str, str], Conversation] = {}
    for one in conversations:
        place = (one.agent, one.user, one.session)
        held = found.get(place)
        found[place] = one if held is None else _followed(held, one)
    return list(found.values())


def _followed(first: Conversation, second: Conversation) -> Conversation:
    return replace(
        first,
        turns=first.turns + second.turns,
        title=first.title or second.title,
        tags=tuple(dict.fromkeys(first.tags + second.tags)),
        metadata={**first.metadata, **second.metadata},
    )


def _digest(engine: Engine, conversation: Conversation) -> str:
    """A session belongs to an agent and a user: two people may both call theirs 'chat'."""
    return digest(engine.project, conversation.agent, conversation.user, conversation.session, size=10)


def _prepare(engine: Engine, conversations: Sequence[Conversation]) -> list[_Prepared]:
    drafts = [_drafts(engine, one) for one in conversations]
    known = _known(engine, [draft.key for some in drafts for draft in some])
    # What is held is not embedded again: a host may tell the whole conversation after each turn.
    passages = [() if draft.key in known else KINDS["turn"].passages(draft.body) for some in drafts for draft in some]
    vectors = iter(engine.encode(passages))
    return [
        _Prepared(
            conversation,
            _digest(engine, conversation),
            tuple(some),
            tuple(turn.at for turn in conversation.turns),
            tuple(next(vectors) for _ in some),
        )
        for conversation, some in zip(conversations, drafts, strict=True)
    ]


def _drafts(engine: Engine, conversation: Conversation) -> list[Draft]:
    owner = _digest(engine, conversation)
    made = []
    for turn, identity in zip(conversation.turns, _identities(conversation.turns), strict=True):
        draft = Draft(
            kind="turn",
            agent=conversation.agent,
            user=conversation.user,
            session=conversation.session,
            body={"speaker": turn.speaker, "text": turn.text},
            provenance=turn.provenance,
            tags=conversation.tags,
        )
        made.append(replace(screen(engine, draft), key=digest(owner, *identity)))
    return made


def _identities(turns: Sequence[Said]) -> Iterator[tuple[str, ...]]:
    """What makes each the same turn when it is told again: its id, or its moment and words, or its place and words.

    The turns of a session often share one moment; what is then said twice is told apart by how often it was said.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    for place, turn in enumerate(turns):
        if turn.id:
            yield ("id", turn.id)
            continue
        said = ("said", str(place) if turn.at is None else str(to_iso(turn.at)), turn.speaker, turn.text)
        seen[said] += 1
        yield (*said, str(seen[said]))


def _known(engine: Engine, keys: Sequence[str]) -> set[str]:
    where = Where(kinds={"turn"}, projects={engine.project}, keys=set(keys))
    return {turn.key for turn in engine.store.scan(where)}


def _grown(engine: Engine, one: _Prepared, held: Record | None, known: set[str]) -> tuple[Record, list[Record]]:
    """The episode with what is new, and all records that change."""
    if one.id in known:
        return replace(_first(engine, one), status=Status.RETIRED), []
    episode = held or _first(engine, one)
    fresh = _turns(engine, one, episode, known, told_before=held is not None)
    body = _body(episode, fresh, one.conversation)
    tags = tuple(dict.fromkeys((*episode.tags, *map(clean, one.conversation.tags))))
    if held is not None and not fresh and (body, tags) == (held.body, held.tags):
        return held, []
    grown = replace(episode, body=body, text=KINDS["episode"].text(body), tags=tags)
    if held is None:
        return grown, [grown, *fresh]
    changed = revise(engine, grown)
    older = along(engine, held, tags=tags) if tags != held.tags else []
    return changed, [changed, *older, *(_joining(turn, changed) for turn in fresh)]


def _joining(turn: Record, episode: Record) -> Record:
    """A turn as a part of its conversation; what waits for a person goes on waiting."""
    status = turn.status if turn.status is Status.CANDIDATE else episode.status
    return replace(turn, tags=tuple(dict.fromkeys((*episode.tags, *turn.tags))), status=status)


def along(engine: Engine, episode: Record, **changes: Any) -> list[Record]:
    """The turns of an episode with the same change: they are what is searched."""
    return [revise(engine, turn, **changes) for turn in turns(engine, episode)]


def _first(engine: Engine, one: _Prepared) -> Record:
    """An episode in which nothing has been said yet."""
    conversation = one.conversation
    draft = Draft(
        kind="episode",
        agent=conversation.agent,
        user=conversation.user,
        session=conversation.session,
        body={"title": conversation.title, "metadata": dict(conversation.metadata)},
        provenance=conversation.provenance,
        tags=conversation.tags,
    )
    screened = screen(engine, draft)
    started = next((at for at in one.times if at is not None), None) or engine.clock()
    body = {**screened.body, "speakers": [], "turns": 0, "next": 0, "ended_at": to_iso(started), "said": ""}
    return build(engine, replace(screened, body=body), (), id=one.id, created_at=started)


def _turns(engine: Engine, one: _Prepared, episode: Record, known: set[str], *, told_before: bool) -> list[Record]:
    """Those not held yet. One without a time of its own was said when the one before it was, or is said now."""
    number = int(episode.body["next"])
    last = engine.clock() if told_before else episode.created_at
    made = []
    for draft, at, vectors in zip(one.turns, one.times, one.vectors, strict=True):
        last = at or last
        if draft.key in known:
            continue
        known.add(draft.key)
        place = {"id": turn_id(episode.id, number), "links": (episode.id,), "created_at": last}
        made.append(build(engine, replace(draft, body={**draft.body, "index": number}), vectors, **place))
        number += 1
    return made


def _body(episode: Record, fresh: Sequence[Record], conversation: Conversation) -> dict[str, Any]:
    body = episode.body
    said = [turn.text for turn in fresh if speech.is_person(turn.body["speaker"])]
    speakers = dict.fromkeys([*body["speakers"], *(turn.body["speaker"] for turn in fresh)])
    ended = max((turn.created_at for turn in fresh), default=episode.created_at)
    return {
        **body,
        "title": body["title"] or clean(conversation.title),
        "speakers": list(speakers),
        "turns": body["turns"] + len(fresh),
        "next": body["next"] + len(fresh),
        "metadata": {**body["metadata"], **clean(dict(conversation.metadata))},
        "ended_at": max(body["ended_at"], str(to_iso(ended))),
        "said": "\n".join([body["said"], *said] if body["said"] else said)[:SAID_CHARS],
    }


def without(engine: Engine, turn: Record) -> list[Record]:
    """The episode of a turn that is going, less what was said in it."""
    found = engine.store.get(turn.links[:1])
    if not found:
        return []
    [episode] = found
    others = [one for one in turns(engine, episode) if one.id != turn.id]
    gone = find_deleted_keys(engine, [one.key for one in others])
    left = [one for one in others if one.key not in gone]
    said = [one.text for one in left if speech.is_person(one.body["speaker"])]
    title = str(episode.body["title"])
    # A host may have titled the conversation with the beginning of this turn.
    quoted = bool(title) and " ".join(turn.body["text"].split()).startswith(title.rstrip("… "))
    body = {
        **episode.body,
        "title": "" if quoted else title,
        "turns": len(left),
        "said": "\n".join(said)[:SAID_CHARS],
        "speakers": list(dict.fromkeys(one.body["speaker"] for one in left)),
    }
    return [revise(engine, episode, body=body, text=KINDS["episode"].text(body))]


def turns(engine: Engine, episode: Record) -> list[Record]:
    """All turns of an episode, as they were said."""
    where = Where(kinds={"turn"}, projects={engine.project}, linked={episode.id})
    return sorted(engine.store.scan(where), key=lambda turn: int(turn.body["index"]))
