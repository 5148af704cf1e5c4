"""`AutoLearner`: a conversation or a text goes in, and what it tells is stored as memories."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..engine import validate
from ..opening import Holder
from ..ports import Model
from ..reading.port import Role
from ..text import digest, shorten
from ..types.record import find_source
from .extractor import extract_conversation, extract_text, find_known_memories
from .messages import read_messages
from .types import Extracted, Extraction, Kept
from .writing import keep

if TYPE_CHECKING:
    from ..core import ALMA

MIN_CONFIDENCE = 0.5
_SHOWN_CHARS = 80


class Learned(dict[str, Any]):
    """What was learned, as plain values; `findings` and `memories` hold the objects.

    `extracted_count`: how many findings are sure enough; `new`: how many of them are new; `kept`: how many by type;
    `known`: how many were stored before; `skipped`: what was left out, and why; `model`: the model that was asked;
    `fallback`: why the local reader had to replace it; `dropped`: how many proposals were dropped, by reason.
    """

    findings: tuple[Extracted, ...]
    memories: Kept

    def __init__(self, values: Mapping[str, Any], findings: Sequence[Extracted], memories: Kept) -> None:
        super().__init__(values)
        self.findings = tuple(findings)
        self.memories = memories


class AutoLearner(Holder):
    """Learns from conversations and texts. Without `alma` it opens the configured memory, and closes it again.

    `model` is the language model that reads; without one it is the configured one, if any.
    """

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
        """Find what a conversation tells and store it. Repeating the call adds nothing.

        A message is a mapping with `role` and `content`, and perhaps `at` and `id`. Findings less sure than
        `min_confidence` are left out. `dry_run` only reports what would be stored, `save_episode` stores the
        conversation as well. `trusted=False` is for the talk of others: what it says waits for a person.
        `relayed=True` is for a conversation that an agent reports: the person's words in it count as the agent's, and
        rules wait for a person. If the model fails, `fallback` says why, and a later call asks it again.
        """
        messages = list(validate.many("messages", messages))
        least = self._check_confidence(min_confidence)
        agent = self.alma.engine.agent(validate.name("agent", agent))
        model = self.model or self.alma.model
        spoken = read_messages(messages)
        texts = [one.text for one in spoken if one.role is Role.USER]
        known = find_known_memories(self.alma.engine, agent, user_id, texts) if model else []
        extraction = extract_conversation(messages, model=model, known=known)
        episode = ""
        if save_episode and spoken and not dry_run:
            turns = [{"speaker": one.speaker, "text": one.text, "at": one.at} for one in spoken]
            # Without a name of its own a conversation is known by how it begins.
            session = session_id or f"chat-{digest(spoken[0].speaker, spoken[0].text)[:16]}"
            # The name of a chat or file is no kind of source.
            kind = source if find_source(source) else "conversation"
            episode = self.alma.add_episode(agent, session, turns, user_id, source=kind).id
        return self._store(
            extraction,
            least,
            dry_run,
            agent=agent,
            user_id=user_id,
            source=source,
            episode=episode,
            session_id=session_id or "",
            trusted=trusted,
            relayed=relayed,
        )

    async def alearn_from_conversation(
        self, messages: Sequence[Mapping[str, Any]], agent: str, *args: Any, **options: Any
    ) -> Learned:
        """`learn_from_conversation` for asyncio, in a worker thread."""
        return await asyncio.to_thread(self.learn_from_conversation, messages, agent, *args, **options)

    def learn_from_text(
        self,
        text: str,
        agent: str,
        user_id: str | None = None,
        name: str | None = None,
        *,
        dry_run: bool = False,
        min_confidence: float | None = None,
        trusted: bool = True,
        relayed: bool = False,
    ) -> Learned:
        """Find what a text states and store it, as `learn_from_conversation` does. `name` is its title."""
        least = self._check_confidence(min_confidence)
        agent = self.alma.engine.agent(validate.name("agent", agent))
        model = self.model or self.alma.model
        extraction = extract_text(text, model=model, name=name or "")
        source = name or "text"
        return self._store(
            extraction, least, dry_run, agent=agent, user_id=user_id, source=source, trusted=trusted, relayed=relayed
        )

    def _check_confidence(self, given: float | None) -> float:
        return self.min_confidence if given is None else validate.number("min_confidence", given, 0.0, 1.0)

    def _store(self, extraction: Extraction, least: float, dry_run: bool, **options: Any) -> Learned:
        """Store the findings that are sure enough, and describe what became of all of them."""
        sure = [one for one in extraction.found if one.confidence >= least]
        kept = Kept() if dry_run else keep(self.alma, sure, **options)
        doubted = [
            f"{one.kind.replace('_', ' ')} {shorten(one.text, _SHOWN_CHARS)!r}: less sure ({one.confidence:.2f}) than "
            f"{least:g}"
            for one in extraction.found
            if one.confidence < least
        ]
        types = [*(type(one).__name__ for one in kept.memories), *("WorkItem" for _ in kept.work_items)]
        values = {
            "extracted_count": len(sure),
            "new": kept.count,
            "known": kept.known,
            "kept": dict(Counter(types)),
            "by_kind": dict(Counter(str(one.kind) for one in sure)),
            "superseded": list(kept.superseded),
            "skipped": [*doubted, *kept.refused],
            "model": extraction.model or None,
            "fallback": extraction.failed or None,
            "dropped": dict(extraction.dropped),
            "episode_id": options.get("episode") or None,
            "dry_run": dry_run,
        }
        return Learned(values, sure, kept)
