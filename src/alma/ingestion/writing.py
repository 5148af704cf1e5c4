"""What is read, made into what the engine keeps: turns that can be written, each with where it comes from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..engine import validate
from ..engine.admit import clean
from ..engine.episodes import Conversation, Said
from ..engine.inject.escape import suspicious
from ..engine.text import digest, replace_surrogates
from ..types.record import Origin, Provenance, Trust
from .types import Chat, Document, Message, Piece, Voice

TURN_CHARS = 20_000
SECTION_CHARS = 1_500
_NAME_CHARS = 120
_SOMEBODY = "somebody else"
_OURS = re.compile(r"(?i)\b(?:user|human|me|you|person|owner|operator|admin|developer|system)s?\b|^\W*$")
_TITLE_CHARS = 300
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]+")
_HEADING = re.compile(r"(?m)^(?=#{1,6}\s|=+ \S)")
_PARAGRAPH = re.compile(r"\n[ \t]*\n")


@dataclass(frozen=True, slots=True)
class Written:
    """A piece in the form in which it is kept."""

    piece: Piece
    turns: tuple[Message, ...]
    """Their ids are such that the same words in the same place are known again."""
    digest: str


def written(piece: Piece) -> Written:
    turns = tuple(_turns(piece) if isinstance(piece, Chat) else _sections(piece))
    content = digest(*(f"{turn.id}\x1e{turn.voice}\x1e{turn.at}" for turn in turns), piece.title)
    return Written(piece, turns, content)


def foreign(piece: Piece) -> Piece:
    """The same, as somebody else's: a prompt that quotes it does not say that it was the user."""
    if isinstance(piece, Document):
        return replace(piece, voice=Voice.OTHER)
    return replace(piece, messages=[_not_ours(one) for one in piece.messages])


def _not_ours(message: Message) -> Message:
    voice = message.voice if message.voice is Voice.TOOL else Voice.OTHER
    ours = message.voice is Voice.PERSON and _OURS.search(message.speaker)
    return replace(message, voice=voice, speaker=_SOMEBODY if ours else message.speaker)


def _turns(chat: Chat) -> Iterator[Message]:
    seen: Counter[tuple[str, str]] = Counter()
    for message in chat.messages:
        speaker, words = name(message.speaker), replace_surrogates(message.text)
        seen[(speaker, words)] += 1
        # Without an id of its own a message is known by its place among equal ones.
        known = ("id", message.id) if message.id else ("said", chat.part, str(seen[(speaker, words)]))
        for number, text in enumerate(_pieces(clean(words), TURN_CHARS)):
            yield replace(message, speaker=speaker, text=text, id=digest(*known, speaker, words, str(number)))


def _sections(document: Document) -> Iterator[Message]:
    """A document as turns of its own name: what stands under a heading, in pieces that can be quoted."""
    seen: Counter[str] = Counter()
    speaker = name(document.name)
    for section in _HEADING.split(clean(replace_surrogates(document.text))):
        for text in _pieces(section.strip(), SECTION_CHARS):
            seen[text] += 1
            id = digest("section", text, str(seen[text]))
            yield Message(speaker=speaker, text=text, voice=document.voice, at=document.at, id=id)


def _pieces(words: str, most: int) -> Iterator[str]:
    """Not longer than that: cut between paragraphs, else lines, else words, else anywhere."""
    while len(words) > most:
        cut = max(_last(words, most), 1)
        yield from _visible(words[:cut])
        words = words[cut:]
    yield from _visible(words)


def _last(words: str, most: int) -> int:
    ends = [found.end() for found in _PARAGRAPH.finditer(words, 0, most)]
    if ends:
        return ends[-1]
    for sign in ("\n", ". ", " "):
        found = words.rfind(sign, most // 2, most)
        if found >= 0:
            return found + len(sign)
    return most


def _visible(words: str) -> Iterator[str]:
    kept = validate.output("text", words) if _UNSEEN.sub("", words).strip() else None
    if kept is not None:
        yield kept.strip("\n")


def name(given: str) -> str:
    return " ".join(_UNSEEN.sub(" ", clean(given)).split())[:_NAME_CHARS].strip() or "unknown"


def title(given: str) -> str:
    """What a conversation is called; nothing when its name reads like an instruction."""
    told = " ".join(_UNSEEN.sub(" ", clean(given)).split())[:_TITLE_CHARS].strip()
    return "" if told and suspicious(told) else told


def conversation(one: Written, agent: str, user: str) -> Conversation:
    piece = one.piece
    source = str(piece.format)
    return Conversation(
        agent=agent,
        session=piece.session,
        turns=tuple(_said(turn, source) for turn in one.turns),
        user=user,
        title=title(piece.title),
        provenance=Provenance(Origin.IMPORT, Trust.LEARNED, source=source),
        tags=(source,),
    )


def _said(turn: Message, source: str) -> Said:
    """That it was said is certain, and it is only ever quoted. What somebody else wrote for a model waits for a
    person."""
    doubted = turn.voice in (Voice.OTHER, Voice.TOOL) and suspicious(turn.text)
    trust = Provenance(Origin.CONTENT, Trust.UNTRUSTED, source=source)
    heard = Provenance(Origin.IMPORT, Trust.LEARNED, source=source)
    return Said(speaker=turn.speaker, text=turn.text, at=turn.at, id=turn.id, provenance=trust if doubted else heard)


def messages(turns: Sequence[Message]) -> tuple[list[dict[str, Any]], list[Message]]:
    """What extraction is given, and the turns it is made of: what programs said teaches nothing."""
    heard = [turn for turn in turns if turn.voice is not Voice.TOOL]
    return [{"speaker": one.speaker, "text": one.text, "at": one.at, "id": one.id} for one in heard], heard
