"""`AutoLearner`: a conversation goes in, and what can be learned from it is learned."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..engine import validate
from ..engine.text import shorten
from ..opening import Holder
from ..ports import Model
from ..types.sources import find_source
from .extracting import extract_conversation
from .keeping import keep
from .turns import digest, turns
from .types import Extracted, Extraction, Kept

if TYPE_CHECKING:
    from ..core import ALMA

MIN_CONFIDENCE = 0.5
_SHOWN_CHARS = 80


class Learned(dict[str, Any]):
    """What was learned from a conversation, in plain values; `findings` and `memories` hold the things themselves.

    `extracted_count`: how much was found and is believed; `new`: how much of it is new; `kept`: how many by type;
    `known`: how much was there already; `skipped`: what was left out, and why; `model`: the model that was used;
    `fallback`: why rules had to do; `dropped`: how many of the model's findings were left out, by the reason.
    """

    findings: tuple[Extracted, ...]
    memories: Kept

    def __init__(self, values: Mapping[str, Any], findings: Sequence[Extracted], memories: Kept) -> None:
        super().__init__(values)
        self.findings = tuple(findings)
        self.memories = memories


class AutoLearner(Holder):
    """Learns from conversations. Without a memory it opens the one that is configured here, and closes it again."""

    def __init__(
        self,
        alma: ALMA | None = None,
        model: Model | None = None,
        *,
        project_id: str | None = None,
        min_confidence: float = MIN_CONFIDENCE,
    ) -> None:
        super().__init__(alma, project_id)
        self.model = model
        self.min_confidence = validate.number("min_confidence", min_confidence, 0.0, 1.0)

    def learn_from_conversation(
        self,
        messages: Sequence[Mapping[str, Any]],
        agent: str,
        user_id: str | None = None,
        session_id: str | None = None,
        *,
        dry_run: bool = False,
        save_episode: bool = False,
        min_confidence: float | None = None,
        source: str = "conversation",
        trusted: bool = True,
        relayed: bool = False,
    ) -> Learned:
        """Find what a conversation teaches and keep it; told again, nothing is learned twice.

        A message is a mapping with `role` and `content`, and perhaps `at` and `id`. What is less sure than
        `min_confidence` is left out. `dry_run` only says what would be kept, `save_episode` keeps the conversation as
        well. `trusted=False` is for the talk of others: what it says waits for a person. `relayed=True` is for a
        conversation that an agent reports: the person's words in it count as the agent's, and rules wait for a person.
        """
        messages = list(validate.many("messages", messages))
        least = (
            self.min_confidence if min_confidence is None else validate.number("min_confidence", min_confidence, 0, 1)
        )
        agent = self.alma.engine.agent(validate.name("agent", agent))
        read = extract_conversation(messages, model=self.model)
        believed = [one for one in read.found if one.confidence >= least]
        if dry_run:
            return _learned(read, believed, Kept(), least, dry_run=True)
        episode = self._episode(messages, agent, user_id, session_id, source) if save_episode else ""
        kept = keep(
            self.alma,
            believed,
            agent=agent,
            user_id=user_id,
            source=source,
            episode=episode,
            session_id=session_id or "",
            trusted=trusted,
            relayed=relayed,
        )
        return _learned(read, believed, kept, least, episode=episode)

    async def alearn_from_conversation(
        self, messages: Sequence[Mapping[str, Any]], agent: str, *args: Any, **options: Any
    ) -> Learned:
        """`learn_from_conversation` for asyncio, in a worker thread."""
        return await asyncio.to_thread(self.learn_from_conversation, messages, agent, *args, **options)

    def _episode(
        self,
        messages: Sequence[Mapping[str, Any]],
        agent: str,
        user_id: str | None,
        session_id: str | None,
        source: str,
    ) -> str:
        said = turns(messages)
        if not said:
            return ""
        given = [{"speaker": one.speaker, "text": one.text, "at": one.at} for one in said]
        # Without a name of its own a conversation is known by how it begins.
        session = session_id or f"chat-{digest(said[0].speaker, said[0].text)[:16]}"
        # The name of a chat or file is no kind of source.
        known = source if find_source(source) else "conversation"
        return self.alma.add_episode(agent, session, given, user_id, source=known).id


def _learned(
    read: Extraction,
    believed: Sequence[Extracted],
    kept: Kept,
    least: float,
    *,
    episode: str = "",
    dry_run: bool = False,
) -> Learned:
    doubted = [
        f"{one.kind.replace('_', ' ')} {shorten(one.text, _SHOWN_CHARS)!r}: less sure ({one.confidence:.2f}) than "
        f"{least:g}"
        for one in read.found
        if one.confidence < least
    ]
    values = {
        "extracted_count": len(believed),
        "new": kept.count,
        "known": kept.known,
        "kept": dict(Counter(type(one).__name__ for one in kept.memories))
        | ({"WorkItem": len(kept.work_items)} if kept.work_items else {}),
        "by_kind": dict(Counter(str(one.kind) for one in believed)),
        "superseded": list(kept.superseded),
        "skipped": [*doubted, *kept.refused],
        "model": read.model or None,
        "fallback": read.failed or None,
        "dropped": dict(read.dropped),
        "episode_id": episode or None,
        "dry_run": dry_run,
    }
    return Learned(values, believed, kept)
