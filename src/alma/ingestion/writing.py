"""What is read, made into what the engine keeps: turns that can be written, each with where it comes from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..engine import validate
from ..engine.admit import clean
from ..engine.episodes import Conversation, Said
from ..engine.inject.escape import suspicious
from ..text import digest, replace_surrogates
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
    messages = []
    for one in piece.messages:
        is_ours = one.voice is Voice.PERSON and _OURS.search(one.speaker)
        voice = one.voice if one.voice is Voice.TOOL else Voice.OTHER
        messages.append(replace(one, voice=voice, speaker=_SOMEBODY if is_ours else one.speaker))
    return replace(piece, messages=messages)


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
    while words:
        cut = len(words) if len(words) <= most else max(_find_cut(words, most), 1)
        piece, words = words[:cut], words[cut:]
        visible = validate.output("text", piece) if _UNSEEN.sub("", piece).strip() else None
        if visible is not None:
            yield visible.strip("\n")


def _find_cut(words: str, most: int) -> int:
    if ends := [found.end() for found in _PARAGRAPH.finditer(words, 0, most)]:
        return ends[-1]
    for sign in ("\n", ". ", " "):
        if (at := words.rfind(sign, most // 2, most)) >= 0:
            return at + len(sign)
    return most


def name(given: str) -> str:
    return _shorten(given, _NAME_CHARS) or "unknown"


def _shorten(given: str, most: int) -> str:
    return " ".join(_UNSEEN.sub(" ", clean(given)).split())[:most].strip()


def conversation(one: Written, agent: str, user: str) -> Conversation:
    """That it was said is certain, and it is only ever quoted. What somebody else wrote for a model waits for a
    person, and a title that reads like an instruction is left out."""
    source = str(one.piece.format)
    heard = Provenance(Origin.IMPORT, Trust.LEARNED, source=source)
    doubted = Provenance(Origin.CONTENT, Trust.UNTRUSTED, source=source)
    turns = []
    for turn in one.turns:
        is_doubted = turn.voice in (Voice.OTHER, Voice.TOOL) and suspicious(turn.text)
        provenance = doubted if is_doubted else heard
        turns.append(Said(speaker=turn.speaker, text=turn.text, at=turn.at, id=turn.id, provenance=provenance))
    title = _shorten(one.piece.title, _TITLE_CHARS)
    return Conversation(
        agent=agent,
        session=one.piece.session,
        turns=tuple(turns),
        user=user,
        title="" if suspicious(title) else title,
        provenance=heard,
        tags=(source,),
    )
