"""Compress a long conversation: a model writes its gist, and each line is checked against the turns it comes from.

The lines become further turns of the conversation, and the turns that they stand for are archived.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from ..reading.port import GistLine, Reader, Role, SpokenTurn
from ..text import digest, normalise, words
from ..types.kinds import MemoryType
from ..types.record import Origin, Provenance, Record, Status, Trust
from .admit import draft_record, embed_records, place_of
from .context import Engine
from .episodes import GIST_OF, list_turns, turn_id
from .evidence import age_days
from .transaction import Transaction, scan_records, write

_QUOTED_WORDS = 3  # A shorter quote proves nothing.
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")


def find_long_conversations(engine: Engine, now: datetime) -> list[Record]:
    """Return the conversations to compress, oldest first. What has only one speaker is a document and stays."""
    days, least = engine.settings.upkeep.compress_after_days, engine.settings.upkeep.compress_turns
    before = now - timedelta(days=days)
    episodes = scan_records(engine, MemoryType.EPISODE, statuses={Status.ACTIVE}, created_to=before) if days else []
    episodes = [one for one in reversed(episodes) if len(one.body["speakers"]) > 1 and age_days(one, now) >= days]
    return [one for one in episodes if one.body["next"] - _find_end(one) > least]


def _find_end(episode: Record) -> int:
    """Return the number of the first turn after the last gist; 0 without one."""
    return int(episode.body.get("gist", (0, 0))[1])


def compress_conversation(engine: Engine, reader: Reader, episode: Record) -> bool:
    """Replace the turns of a conversation by its gist. Return False if too much of that is not in the turns.

    A gist that fails is not asked for again until the conversation has grown as much once more.
    """
    turns = [one for one in list_turns(engine, episode) if one.body["index"] >= _find_end(episode)]
    turns = [one for one in turns if one.status is Status.ACTIVE and one.provenance.trust is not Trust.UNTRUSTED]
    [gist] = reader.write_gists([[SpokenTurn(Role.USER, one.body["text"], one.body["speaker"]) for one in turns]])
    supported = [line for line in gist if is_supported(line, [one.text for one in turns])]
    drafts = []
    for line in supported if 2 * len(supported) >= len(gist) else ():
        sources = [turns[number] for number in line.turns]
        body = {"speaker": "summary", "text": line.text, "metadata": {GIST_OF: [one.id for one in sources]}}
        fields = {**place_of(episode), "session": episode.session, "links": (episode.id,)}
        fields |= {"key": digest(episode.id, "gist", line.text), "created_at": sources[0].created_at}
        fields |= {"provenance": Provenance(Origin.MODEL, Trust.LEARNED), "tags": (*episode.tags, "gist")}
        drafts.append(draft_record(engine, "turn", body, **fields))
    return write(engine, partial(_store_gist, episode=episode, turns=turns, lines=embed_records(engine, drafts)))


def is_supported(line: GistLine, turns: Sequence[str]) -> bool:
    """Return whether the turns that a line names contain its quote, and every number in it."""
    if not line.text or not all(0 <= number < len(turns) for number in line.turns):
        return False
    texts, quote = [turns[number] for number in line.turns], normalise(line.quote)
    is_quoted = len(words(quote)) >= _QUOTED_WORDS and any(quote in normalise(text) for text in texts)
    return is_quoted and {*_NUMBER.findall(line.text)} <= {*_NUMBER.findall(" ".join(texts))}


def _store_gist(tx: Transaction, episode: Record, turns: Sequence[Record], lines: Sequence[Record]) -> bool:
    stored = tx.get([episode.id, *(one.id for one in turns)])
    if [one.version for one in stored] != [one.version for one in (episode, *turns)]:
        # It changed while the model wrote. The next run tries again.
        return False
    first = int(episode.body["next"])
    end = first + len(lines)
    for number, line in enumerate(lines, first):
        tx.put(replace(line, id=turn_id(episode.id, number), body={**line.body, "index": number}))
    named = {id for line in lines for id in line.body["metadata"][GIST_OF]}
    for turn in turns:
        if turn.id in named:
            tx.update(turn, status=Status.ARCHIVED, updated_at=turn.updated_at)
    body = {**episode.body, "next": end, "turns": episode.body["turns"] + len(lines), "gist": [first, end]}
    tx.update(episode, body=body, updated_at=episode.updated_at)
    if lines:
        tx.add_history(episode, "compressed", f"{len(named)} turns into {len(lines)} lines")
    return bool(lines)
