"""What a conversation or a text says, read without a model: sentence by sentence, each taken for one thing at most."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set

from ..types.speech import by_name
from . import doubts
from .handing import own
from .outcomes import outcome
from .pieces import Piece, pieces
from .plans import decision, work_item
from .scene import Found, Scene
from .statements import fact, subject_of
from .turns import Turn, digest
from .types import Extracted, Kind, Voice
from .wants import correction, plays, preference, whole
from .warnings import anti_pattern, heuristic

_MOST_CHARS = 600
"""A longer sentence is no statement that somebody made in passing."""
_SHORT_CHARS = 500
_LEAST_CHARS = 6
_TASK_CHARS = 240
_BY_ASSISTANT = 0.7
_GUESSED_FACTS = 0.5
"""An assistant's claims count for less than a person's words, and what it says of the world for less still."""
_IN_TEXT = 0.95
_READERS: tuple[Callable[[str, Scene], Found | None], ...] = (
    work_item,
    decision,
    preference,
    correction,
    outcome,
    anti_pattern,
    heuristic,
    fact,
)
_FEW, _MANY = 2, 14
_REQUEST = re.compile(
    r"^\W*(?:(?:ok(?:ay)?|now|so|and|also|great|good|thanks|thank\s+you|hi|hey|hello|next|then|first)\W+)*"
    r"(?:(?:please|can\s+you|could\s+you|would\s+you|will\s+you|help\s+me(?:\s+to)?|i\s+(?:want|need|"
    r"would\s+like)\s+(?:you\s+)?to|i'd\s+like\s+(?:you\s+)?to|let's|we\s+(?:need|have)\s+to)\s+(?:please\s+)?"
    r"(?P<asked>[a-z].+)|(?P<told>(?!(?:the|a|an|this|that|these|those|it|i|we|you|he|she|they|there|here|my|our|"
    r"your|is|are|was|were|do|does|did|can|could|should|would|will|has|have|"
    r"what|who|where|when|why|how|which|if|because|but|and|or|not|no|yes|yeah|ok|okay|thanks|thank|sorry|great|good|"
    r"nice|perfect|some|all|every|in|on|at|for|with|from|by|as|after|before|speaking)\b)"
    r"[a-z]+\s+(?:the|a|an|all|my|our|this|that|these|every|it|[a-z-]+)\b.*))$",
    re.I,
)


def of_turns(turns: Sequence[Turn]) -> list[Extracted]:
    """What the turns of a conversation say."""
    found: list[Extracted] = []
    task, before = "", ""
    people = {turn.speaker for turn in turns if turn.heard and turn.by_person}
    to_agent = len(people) == 1 or any(turn.heard and not turn.by_person for turn in turns)
    for turn in turns:
        if not turn.heard:
            continue
        base = Scene(person=turn.by_person, who=_name(turn), to_agent=to_agent, task=task, before=before)
        sentences = pieces(turn.text, document=False, only=None if turn.by_person else _TELLING)
        said = own(sentences) if turn.by_person else sentences
        made = list(_read(said, base))
        if turn.by_person and to_agent and not any(one.kind is Kind.CORRECTION for one, _ in made):
            made += _taken_whole(turn, before, said, {piece.text for _, piece in made})
        found += [_extracted(one, piece, turn, base) for one, piece in made]
        if turn.by_person:
            task = _asked(sentences, [piece for _, piece in made]) or task
        before = turn.text
    return _once(found)


def of_text(text: str, name: str = "") -> list[Extracted]:
    """What a note or a page says."""
    turn = Turn(index=0, speaker=name or "document", text=text, key="text")
    base = Scene(document=True, person=True)
    return _once([_extracted(one, piece, turn, base) for one, piece in _read(pieces(text, document=True), base)])


def _read(sentences: Sequence[Piece], base: Scene) -> Iterator[tuple[Found, Piece]]:
    play = any(plays(piece.plain) for piece in sentences)
    for at, piece in enumerate(sentences):
        if not base.person and not _TELLING.search(piece.plain):
            continue
        before = sentences[at - 1] if at else None
        follows = sentences[at + 1] if at + 1 < len(sentences) and sentences[at + 1].block == piece.block else None
        scene = Scene(
            document=base.document,
            person=base.person,
            who=base.who,
            to_agent=base.to_agent,
            task=base.task or piece.heading,
            before=base.before,
            heading=piece.heading,
            box=piece.box,
            subject=_subject(before, piece, base) if before and _PRONOUN.match(piece.plain) else "",
            earlier=before.plain if before else "",
            play=play,
            following=follows.plain if follows else "",
        )
        found = read_sentence(piece.plain, scene)
        if found is not None:
            yield found, piece


_PRONOUN = re.compile(r"\W*(?:\w+\W+)?(?:it|he|she|they)\b", re.I)
# What an assistant says of its work and of ours; pages of its advice hold nothing of the kind.
_TELLING = re.compile(
    r"\b(?:i|we|our|your|todo|fixme|remaining|decision|still|outstanding)\b|\b(?:worked|fixed|solved|resolved|failed|"
    r"succeeded|brought|sped|"
    r"helped|crashed|timed)\b|to-do|left to do|n't (?:work|help)|not (?:work|help)",
    re.I,
)


def _taken_whole(turn: Turn, before: str, sentences: Sequence[Piece], known: Set[str]) -> Iterator[tuple[Found, Piece]]:
    """A correction that no sentence of the turn is for itself: a short turn is also heard as a whole."""
    rest = [piece for piece in sentences if piece.text not in known and not doubts.doubt(piece.plain)]
    if not rest or len(turn.text) > _SHORT_CHARS or any(plays(piece.plain) for piece in sentences):
        return
    found = whole(" ".join(piece.plain for piece in rest), before)
    if found is not None:
        yield found, rest[0]


def _subject(before: Piece, piece: Piece, base: Scene) -> str:
    """What the sentence before is about, when it belongs to the same paragraph or is the line before."""
    near = before.block == piece.block or (not base.document and before.block == piece.block - 1)
    return subject_of(before.plain) if near and not doubts.doubt(before.plain) else ""


def read_sentence(plain: str, scene: Scene) -> Found | None:
    """What a sentence says, if it says one of the things that are kept."""
    if not _LEAST_CHARS <= len(plain) <= _MOST_CHARS:
        return None
    reason: str | None = None
    for reader in _READERS:
        found = reader(plain, scene)
        if found is None:
            continue
        reason = doubts.doubt(plain) if reason is None else reason
        if not reason or reason in _BEARS.get(reader, ()):
            return found
    return None


# "If the tests fail, always run them again" is an order, and "I'd prefer" a wish: neither supposes anything.
_BEARS: dict[Callable[[str, Scene], Found | None], tuple[str, ...]] = {
    work_item: ("uncertain",),
    preference: ("hypothetical",),
    heuristic: ("hypothetical",),
}


def _extracted(found: Found, piece: Piece, turn: Turn, scene: Scene) -> Extracted:
    weight = _IN_TEXT if scene.document else 1.0
    if not turn.by_person and not scene.document:
        weight = _GUESSED_FACTS if found.kind is Kind.FACT else _BY_ASSISTANT
    return Extracted(
        kind=found.kind,
        text=found.text,
        fields={name: value for name, value in found.fields.items() if value},
        quote=piece.text,
        turn=turn.index,
        speaker=turn.speaker,
        voice=voice(turn, scene),
        confidence=round(min(0.95, found.confidence) * weight, 3),
        at=turn.at,
        key=digest(turn.key, found.kind, piece.text),
    )


def _name(turn: Turn) -> str:
    return turn.speaker if by_name(turn.speaker, "") else "The user"


def voice(turn: Turn, scene: Scene) -> Voice:
    if scene.document:
        return Voice.DOCUMENT
    return Voice.PERSON if turn.by_person else Voice.ASSISTANT


def _asked(sentences: Sequence[Piece], told: Sequence[Piece]) -> str:
    """What a person's turn asks for: its first request, or all of it when it is short."""
    known = {piece.text for piece in told}
    rest = [piece.plain for piece in sentences if piece.text not in known]
    for plain in rest:
        found = _REQUEST.match(plain)
        if found:
            return (found["asked"] or found["told"])[:_TASK_CHARS].rstrip("?.! ")
    said = " ".join(rest)
    return said if _FEW <= len(said.split()) <= _MANY and not said.endswith("?") else ""


def _once(found: Sequence[Extracted]) -> list[Extracted]:
    """What is said twice in the same words is told apart by how often it was said, where each time counts."""
    seen: Counter[str] = Counter()
    made = []
    for one in found:
        seen[one.key] += 1
        if seen[one.key] == 1:
            made.append(one)
    return made
