"""Conversations as memory: each turn a record of its own, and one record for the whole.

A turn's id is that of its episode and its number, so that what is found tells where it belongs without being read, and
two processes that write the same turn meet in a conflict. Added again, a conversation grows by its new turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from ..errors import ValidationError, describe_type, unknown
from ..text import digest
from ..types import speech
from ..types.kinds import KINDS
from ..types.query import Where
from ..types.record import Origin, Provenance, Record, Status, Trust
from ..types.times import to_iso
from . import validate
from .admit import clean, draft_record, embed_records
from .context import Engine
from .events import DELIVERY
from .transaction import Transaction, write

# So much of what its people said is also searched as one text; each turn is searched itself, wherever it stands.
SAID_CHARS = 20_000
GIST_OF = "gist_of"  # In the metadata of a line that a model wrote: the ids of the turns it stands for.


class TurnDraft(NamedTuple):
    """One turn of a conversation that is to be stored."""

    speaker: str
    text: str
    at: datetime | None = None
    id: str = ""  # The host's own id of the turn, if it has one.
    provenance: Provenance = Provenance()


class Conversation(NamedTuple):
    """The turns of one session, or those that are new."""

    agent: str
    session: str
    turns: tuple[TurnDraft, ...]
    user: str = ""
    title: str = ""
    provenance: Provenance = Provenance()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}

    def draft(self, engine: Engine, kind: str, body: Mapping[str, Any], provenance: Provenance) -> Record:
        """Return a record that belongs to this conversation's agent, user and session."""
        place = {"agent": self.agent, "user": self.user, "session": self.session}
        return draft_record(engine, kind, body, provenance=provenance, tags=self.tags, **place)


def build_conversation(engine: Engine, arguments: Mapping[str, Any]) -> Conversation:
    """Return the conversation that the arguments of `add_episode` describe."""
    provenance = validate.provenance("source", arguments["source"] or "conversation")
    if provenance.trust is not Trust.UNTRUSTED:
        # That it was said is certain, unless only an agent reports it; whether it is true is another matter.
        origin = Origin.IMPORT if engine.may_approve else Origin.AGENT
        provenance = replace(provenance, origin=origin, trust=Trust.LEARNED)
    turns = [_read_turn(f"turns[{at}]", one, provenance) for at, one in enumerate(arguments["turns"])]
    return Conversation(
        agent=engine.agent(arguments["agent"]),
        session=arguments["session_id"],
        turns=tuple(turn for turn in turns if turn is not None),
        user=arguments["user_id"] or "",
        title=arguments["title"],
        provenance=provenance,
        tags=arguments["tags"] or (),
        metadata=arguments["metadata"] or {},
    )


def _read_turn(label: str, value: Any, provenance: Provenance) -> TurnDraft | None:
    """Return one turn; None when nothing was said in it. `role` and `content`, as model APIs call them, will do."""
    if not isinstance(value, Mapping):
        raise ValidationError(f"{label} must be an object with speaker and text, not {describe_type(value)}")
    valid = ("speaker", "text", "at", "id", "role", "content")
    for name in value:
        if name not in valid:
            raise ValidationError(f"{label}: {unknown('field', name, valid)}")
    speaker, text = (
        next((value[name] for name in names if value.get(name) not in (None, "")), value.get(names[0]))
        for names in (("speaker", "role"), ("text", "content"))
    )
    content = validate.output(f"{label} text", text)
    if content is None:
        return None
    return TurnDraft(
        speaker=validate.name(f"{label} speaker", speaker),
        text=content,
        at=validate.moment(f"{label} at", value.get("at")),
        id=validate.optional_text(f"{label} id", value.get("id")) or "",
        provenance=provenance,
    )


def episode_of(turn_id: str) -> str:
    """Return the id of the episode that a turn belongs to."""
    return f"epi_{turn_id[4:].rpartition('_')[0]}"


def number_of(turn_id: str) -> int:
    """Return the number of a turn within its conversation, read from its id."""
    return int(turn_id.rpartition("_")[2])


def turn_id(episode_id: str, number: int) -> str:
    """Return the id of a conversation's turn with this number."""
    return f"trn_{episode_id[4:]}_{number}"


def record_conversations(engine: Engine, conversations: Sequence[Conversation]) -> list[Record]:
    """Keep conversations; the record of each as it is now. One that was deleted stays away: it is RETIRED and empty."""
    # A session belongs to an agent and a user: two people may both call theirs 'chat'.
    ids = [f"epi_{digest(engine.project, one.agent, one.user, one.session, size=10)}" for one in conversations]
    joined: dict[str, Conversation] = {}
    for id, one in zip(ids, conversations, strict=True):
        first = joined.setdefault(id, one)
        if first is not one:
            # Two parts of one conversation follow on each other.
            joined[id] = first._replace(
                turns=first.turns + one.turns,
                title=first.title or one.title,
                tags=tuple(dict.fromkeys(first.tags + one.tags)),
                metadata={**first.metadata, **one.metadata},
            )
    prepared = {id: _prepare_turns(engine, id, one) for id, one in joined.items()}
    keys = {turn.key for turns in prepared.values() for turn in turns}
    where = engine.where("turn", keys=keys)
    known_keys = {turn.key for turn in engine.store.scan(where)}
    # What is held is not embedded again: a host may tell the whole conversation after each turn.
    fresh = [turn for turns in prepared.values() for turn in turns if turn.key not in known_keys]
    # Of two with one key the first counts.
    embedded = {turn.key: turn for turn in reversed(embed_records(engine, fresh))}
    drafts = {id: [embedded.get(turn.key, turn) for turn in turns] for id, turns in prepared.items()}

    def step(tx: Transaction) -> dict[str, Record]:
        # Read first: a process that adds turns in between changes the episode, and this step runs again.
        tx.get(drafts)
        known_keys = {turn.key for turn in tx.scan(where)} | set(tx.find_tombstones([*keys, *drafts]))
        return {id: _grow_episode(tx, id, joined[id], drafts[id], known_keys) for id in drafts}

    episodes = write(engine, step)
    for id in Transaction(engine).find_tombstones(episodes):
        # Deleted while it was being written: what came after the deletion goes too.
        episodes[id] = replace(episodes[id], status=Status.RETIRED)
        outbox = engine.store.scan(Where(kinds={DELIVERY}, linked={id}))
        engine.store.delete([id, *(one.id for one in (*list_turns(engine, episodes[id]), *outbox))])
    return [episodes[id] for id in ids]


def _prepare_turns(engine: Engine, id: str, conversation: Conversation) -> list[Record]:
    """Return the turns without secrets, each with the key that deduplicates it.

    Turns are deduplicated by id, then by timestamp and text, then by position and text. The turns of a session often
    share one timestamp; equal texts with the same timestamp are counted.
    """
    counts: Counter[tuple[str, ...]] = Counter()
    drafts = []
    for place, turn in enumerate(conversation.turns):
        identity: tuple[str, ...] = ("id", turn.id)
        if not turn.id:
            turn_identity = ("said", str(to_iso(turn.at) or place), turn.speaker, turn.text)
            counts[turn_identity] += 1
            identity = (*turn_identity, str(counts[turn_identity]))
        draft = conversation.draft(engine, "turn", {"speaker": turn.speaker, "text": turn.text}, turn.provenance)
        drafts.append(replace(draft, key=digest(id[4:], *identity)))
    return drafts


def _grow_episode(
    tx: Transaction, id: str, conversation: Conversation, drafts: Sequence[Record], known_keys: set[str]
) -> Record:
    """Store the turns that are new, and return their episode as it is now."""
    if id in known_keys:
        return replace(_begin_episode(tx.engine, id, conversation), status=Status.RETIRED)
    stored_episode = tx.find(id)
    episode = stored_episode or _begin_episode(tx.engine, id, conversation)
    tags = tuple(dict.fromkeys((*episode.tags, *map(clean, conversation.tags))))
    number = int(episode.body["next"])
    # A turn without a time of its own was said when the one before it was, or is said now.
    last = tx.engine.clock() if stored_episode else episode.created_at
    fresh = []
    for draft, turn in zip(drafts, conversation.turns, strict=True):
        last = turn.at or last
        if draft.key in known_keys:
            continue
        known_keys.add(draft.key)
        numbered = {**draft.body, "index": number}
        record = replace(draft, body=numbered, id=turn_id(id, number), links=(id,), created_at=last)
        if stored_episode is not None:
            # What waits for a person goes on waiting.
            status = record.status if record.status is Status.CANDIDATE else stored_episode.status
            record = replace(record, tags=tuple(dict.fromkeys((*tags, *record.tags))), status=status)
        fresh.append(tx.put(record))
        number += 1
    body = episode.body
    texts = [turn.text for turn in fresh if speech.is_person(turn.body["speaker"])]
    ended = max((turn.created_at for turn in fresh), default=episode.created_at)
    body = {
        **body,
        "title": body["title"] or clean(conversation.title),
        "speakers": list(dict.fromkeys([*body["speakers"], *(turn.body["speaker"] for turn in fresh)])),
        "turns": body["turns"] + len(fresh),
        "next": number,
        "metadata": {**body["metadata"], **clean(dict(conversation.metadata))},
        "ended_at": max(body["ended_at"], str(to_iso(ended))),
        "said": "\n".join([body["said"], *texts] if body["said"] else texts)[:SAID_CHARS],
    }
    fields: dict[str, Any] = {"body": body, "text": KINDS["episode"].text(body), "tags": tags}
    if stored_episode is None:
        return tx.put(replace(episode, **fields))
    if not fresh and (body, tags) == (stored_episode.body, stored_episode.tags):
        return stored_episode
    for older in find_turns(tx, stored_episode) if tags != stored_episode.tags else ():
        if not tx.is_new(older):
            tx.update(older, tags=tags)
    return tx.update(stored_episode, **fields)


def _begin_episode(engine: Engine, id: str, conversation: Conversation) -> Record:
    """Return an episode in which nothing has been said yet."""
    body = {"title": conversation.title, "metadata": dict(conversation.metadata)}
    draft = conversation.draft(engine, "episode", body, conversation.provenance)
    started = next((turn.at for turn in conversation.turns if turn.at is not None), None) or engine.clock()
    begun = {"speakers": [], "turns": 0, "next": 0, "ended_at": to_iso(started), "said": ""}
    return replace(draft, body={**draft.body, **begun}, id=id, created_at=started)


def remove_turn(tx: Transaction, turn: Record) -> None:
    """Take what a turn said out of its episode. The turns of a gist that goes with it are searched again."""
    for episode in tx.get(turn.links[:1]):
        removed = [turn, *find_gists(tx, turn)]
        sources = {id for one in removed for id in list_sources(one)} - {turn.id}
        for one in tx.get(sources):
            tx.update(one, status=episode.status, updated_at=one.updated_at)
        others = [one for one in find_turns(tx, episode) if one.id not in {gone.id for gone in removed}]
        deleted = tx.find_tombstones(one.key for one in others)
        remaining = [one for one in others if one.key not in deleted]
        title = str(episode.body["title"])
        # A host may have titled the conversation with the beginning of this turn.
        is_quoted = bool(title) and " ".join(turn.body["text"].split()).startswith(title.rstrip("… "))
        body = {
            **episode.body,
            "title": "" if is_quoted else title,
            "turns": len(remaining),
            "said": join_said(remaining),
            "speakers": list(dict.fromkeys(one.body["speaker"] for one in remaining)),
        }
        tx.update(episode, body=body, text=KINDS["episode"].text(body))


def join_said(turns: Iterable[Record]) -> str:
    """Return what people said in these turns, as one text that is searched."""
    texts = [one.text for one in turns if speech.is_person(one.body["speaker"]) and one.status is not Status.RETIRED]
    return "\n".join(texts)[:SAID_CHARS]


def list_sources(turn: Record) -> list[str]:
    """Return the ids of the turns that a line of a gist stands for; none for a turn that somebody said."""
    return list(turn.body.get("metadata", {}).get(GIST_OF, ()))


def find_gists(tx: Transaction, turn: Record) -> list[Record]:
    """Return the lines of the gist that stand for a turn, among others."""
    where = tx.engine.where("turn", linked=set(turn.links[:1]))
    return [one for one in tx.scan(where) if turn.id in list_sources(one)]


def list_turns(engine: Engine, episode: Record) -> list[Record]:
    """Return all turns of an episode, as they were said."""
    return find_turns(Transaction(engine), episode)


def find_turns(tx: Transaction, episode: Record) -> list[Record]:
    """Return the turns of a conversation in order."""
    where = tx.engine.where("turn", linked={episode.id})
    return sorted(tx.scan(where), key=lambda turn: int(turn.body["index"]))
