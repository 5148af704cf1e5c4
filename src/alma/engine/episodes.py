"""Conversations as memory: each turn a record of its own, and one record for the whole.

A turn's id is that of its episode and its number, so that what is found tells where it belongs without being read, and
two processes that write the same turn meet in a conflict. Told again, a conversation grows by what is new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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
from .admit import Draft, build, clean, screen
from .context import Engine
from .transaction import Transaction, write

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


@lru_cache(maxsize=4096)
def episode_of(turn_id: str) -> str:
    """Return the id of the episode that a turn belongs to."""
    return f"epi_{turn_id[4:].rpartition('_')[0]}"


@lru_cache(maxsize=4096)
def number_of(turn_id: str) -> int:
    return int(turn_id.rpartition("_")[2])


def turn_id(episode_id: str, number: int) -> str:
    return f"trn_{episode_id[4:]}_{number}"


def episode_id(engine: Engine, conversation: Conversation) -> str:
    """A session belongs to an agent and a user: two people may both call theirs 'chat'."""
    return f"epi_{digest(engine.project, conversation.agent, conversation.user, conversation.session, size=10)}"


def record_conversations(engine: Engine, conversations: Sequence[Conversation]) -> list[Record]:
    """Keep conversations; the record of each as it is now. One that was deleted stays away: it is RETIRED and empty."""
    joined: dict[str, Conversation] = {}
    for one in conversations:
        # Two parts of one conversation follow on each other.
        id = episode_id(engine, one)
        joined[id] = _join(joined[id], one) if id in joined else one
    prepared = {id: _prepare_turns(engine, id, one) for id, one in joined.items()}
    known = _find_known(Transaction(engine), [turn.key for turns in prepared.values() for turn in turns])
    # What is held is not embedded again: a host may tell the whole conversation after each turn.
    fresh = [turn for turns in prepared.values() for turn in turns if turn.key not in known]
    encoded = engine.encode([KINDS["turn"].passages(turn.body) for turn in fresh])
    vectors = {turn.key: own for turn, own in zip(fresh, encoded, strict=True)}

    def step(tx: Transaction) -> dict[str, Record]:
        tx.get(prepared)
        keys = [turn.key for turns in prepared.values() for turn in turns]
        known = _find_known(tx, keys) | set(tx.find_tombstones([*keys, *prepared]))
        return {id: _grow_episode(tx, id, joined[id], turns, vectors, known) for id, turns in prepared.items()}

    episodes = write(engine, step)
    for id in Transaction(engine).find_tombstones(episodes):
        # Deleted while it was being written: what came after the deletion goes too.
        episodes[id] = replace(episodes[id], status=Status.RETIRED)
        engine.store.delete([id, *(turn.id for turn in list_turns(engine, episodes[id]))])
    return [episodes[episode_id(engine, one)] for one in conversations]


def _join(first: Conversation, second: Conversation) -> Conversation:
    return replace(
        first,
        turns=first.turns + second.turns,
        title=first.title or second.title,
        tags=tuple(dict.fromkeys(first.tags + second.tags)),
        metadata={**first.metadata, **second.metadata},
    )


def _prepare_turns(engine: Engine, id: str, conversation: Conversation) -> list[Draft]:
    """Return the turns without secrets, each with the key that deduplicates it.

    Turns are deduplicated by id, then by timestamp and text, then by position and text. The turns of a session often
    share one timestamp; equal texts with the same timestamp are told apart by their number.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    drafts = []
    for place, turn in enumerate(conversation.turns):
        identity: tuple[str, ...] = ("id", turn.id)
        if not turn.id:
            said = ("said", str(place) if turn.at is None else str(to_iso(turn.at)), turn.speaker, turn.text)
            seen[said] += 1
            identity = (*said, str(seen[said]))
        draft = Draft(
            kind="turn",
            agent=conversation.agent,
            user=conversation.user,
            session=conversation.session,
            body={"speaker": turn.speaker, "text": turn.text},
            provenance=turn.provenance,
            tags=conversation.tags,
        )
        drafts.append(replace(screen(engine, draft), key=digest(id[4:], *identity)))
    return drafts


def _find_known(tx: Transaction, keys: Sequence[str]) -> set[str]:
    return {turn.key for turn in tx.scan(Where(kinds={"turn"}, projects={tx.engine.project}, keys=set(keys)))}


def _grow_episode(
    tx: Transaction,
    id: str,
    conversation: Conversation,
    drafts: Sequence[Draft],
    vectors: Mapping[str, tuple[Vector, ...]],
    known: set[str],
) -> Record:
    """Store the turns that are new, and return their episode as it is now."""
    if id in known:
        return replace(_begin_episode(tx.engine, id, conversation), status=Status.RETIRED)
    held = tx.find(id)
    episode = held or _begin_episode(tx.engine, id, conversation)
    tags = tuple(dict.fromkeys((*episode.tags, *map(clean, conversation.tags))))
    number = int(episode.body["next"])
    # A turn without a time of its own was said when the one before it was, or is said now.
    last = tx.engine.clock() if held else episode.created_at
    fresh = []
    for draft, turn in zip(drafts, conversation.turns, strict=True):
        last = turn.at or last
        if draft.key in known:
            continue
        known.add(draft.key)
        made = build(
            tx.engine,
            replace(draft, body={**draft.body, "index": number}),
            vectors.get(draft.key, ()),
            id=turn_id(id, number),
            links=(id,),
            created_at=last,
        )
        if held is not None:
            # What waits for a person goes on waiting.
            status = made.status if made.status is Status.CANDIDATE else held.status
            made = replace(made, tags=tuple(dict.fromkeys((*tags, *made.tags))), status=status)
        fresh.append(tx.put(made))
        number += 1
    body = _describe_episode(episode, fresh, conversation)
    if held is None:
        return tx.put(replace(episode, body=body, text=KINDS["episode"].text(body), tags=tags))
    if not fresh and (body, tags) == (held.body, held.tags):
        return held
    for older in find_turns(tx, held) if tags != held.tags else ():
        if not tx.is_new(older):
            tx.update(older, tags=tags)
    return tx.update(held, body=body, text=KINDS["episode"].text(body), tags=tags)


def _begin_episode(engine: Engine, id: str, conversation: Conversation) -> Record:
    """Return an episode in which nothing has been said yet."""
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
    started = next((turn.at for turn in conversation.turns if turn.at is not None), None) or engine.clock()
    body = {**screened.body, "speakers": [], "turns": 0, "next": 0, "ended_at": to_iso(started), "said": ""}
    return build(engine, replace(screened, body=body), id=id, created_at=started)


def _describe_episode(episode: Record, fresh: Sequence[Record], conversation: Conversation) -> dict[str, Any]:
    """Return the body of an episode with these new turns."""
    body = episode.body
    said = [turn.text for turn in fresh if speech.is_person(turn.body["speaker"])]
    ended = max((turn.created_at for turn in fresh), default=episode.created_at)
    return {
        **body,
        "title": body["title"] or clean(conversation.title),
        "speakers": list(dict.fromkeys([*body["speakers"], *(turn.body["speaker"] for turn in fresh)])),
        "turns": body["turns"] + len(fresh),
        "next": body["next"] + len(fresh),
        "metadata": {**body["metadata"], **clean(dict(conversation.metadata))},
        "ended_at": max(body["ended_at"], str(to_iso(ended))),
        "said": "\n".join([body["said"], *said] if body["said"] else said)[:SAID_CHARS],
    }


def remove_turn(tx: Transaction, turn: Record) -> None:
    """Take what a turn said out of its episode."""
    for episode in tx.get(turn.links[:1]):
        others = [one for one in find_turns(tx, episode) if one.id != turn.id]
        gone = tx.find_tombstones(one.key for one in others)
        left = [one for one in others if one.key not in gone]
        said = [one.text for one in left if speech.is_person(one.body["speaker"])]
        title = str(episode.body["title"])
        # A host may have titled the conversation with the beginning of this turn.
        is_quoted = bool(title) and " ".join(turn.body["text"].split()).startswith(title.rstrip("… "))
        body = {
            **episode.body,
            "title": "" if is_quoted else title,
            "turns": len(left),
            "said": "\n".join(said)[:SAID_CHARS],
            "speakers": list(dict.fromkeys(one.body["speaker"] for one in left)),
        }
        tx.update(episode, body=body, text=KINDS["episode"].text(body))


def list_turns(engine: Engine, episode: Record) -> list[Record]:
    """Return all turns of an episode, as they were said."""
    return find_turns(Transaction(engine), episode)


def find_turns(tx: Transaction, episode: Record) -> list[Record]:
    where = Where(kinds={"turn"}, projects={tx.engine.project}, linked={episode.id})
    return sorted(tx.scan(where), key=lambda turn: int(turn.body["index"]))
