"""Texts that a person hands over to be worked on: a mail to be answered, a letter to be corrected, a story.

What such a text says, somebody else says, or nobody. It begins after the sentence that hands it over, and in doubt the
rest of the turn belongs to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .pieces import Piece

_TEXT = (
    r"(?:e-?mails?|mails?|messages?|letters?|reviews?|texts?|articles?|paragraphs?|sentences?|essays?|posts?|tweets?|"
    r"transcripts?|conversations?|dialogues?|chats?|documents?|reports?|stor(?:y|ies)|poems?|abstracts?|blogs?|"
    r"tickets?|polic(?:y|ies)|papers?|passages?|excerpts?|quotes?|prompts?|personas?|speech|resumes?|résumés?|cv|"
    r"drafts?|snippets?|announcements?|newsletters?|contracts?|clauses?|complaints?|bios?|profiles?|readme|pitch|"
    r"exam(?:\s+questions?)?|exercises?|statements?\s+of\s+purpose|minutes)"
)
_PLEASE = r"^\W*(?:(?:please|now|also|and|hi|hey|ok(?:ay)?|can\s+you|could\s+you|would\s+you|help\s+me(?:\s+to)?)\W+)*"
_ON_TEXT = (
    r"(?:translate|summari[sz]e|rephrase|paraphrase|rewrite|reword|proofread|polish|transcribe|tl;?dr|"
    r"fix\s+(?:the|my)\s+(?:grammar|spelling)|correct\s+(?:the|my)\s+(?:grammar|spelling|english)|"
    r"(?:reply|respond|answer)\s+to)"
)
_ON_THINGS = (
    r"(?:correct|fix|improve|edit|shorten|expand|explain|analy[sz]e|classify|review|write|draft|compose|generate|"
    r"create|make\s+up|invent|extract|reply|respond|answer|convert|simplify|critique|evaluate|grade|check|read|"
    r"continue|complete|turn|what\s+(?:do\s+you\s+think|is\s+wrong|does)|how\s+(?:is|would\s+you|do\s+i)|is|"
    r"tell\s+me)"
)
_OPENING = re.compile(
    rf"{_PLEASE}(?:{_ON_TEXT}\b[^:]{{0,100}}(?::|\b(?:this|these|the\s+following|below)\b)"
    rf"|{_ON_THINGS}\b[^:]{{0,60}}?\b(?:this|these|the\s+following|following|below|my|his|her|their)\s+"
    rf"(?:[\w'-]+\s+){{0,3}}?{_TEXT}\b(?=\W*$|\s*[:?,]|\s+(?:for|to|in|into|please|and|from|by|that|of|about|so)\b)"
    rf"|{_ON_THINGS}\b[^:]{{0,60}}?\ban?\s+(?:[\w'-]+\s+){{0,3}}?{_TEXT}\b[^:]{{0,60}}:)",
    re.I,
)
_SAYS = re.compile(rf"{_PLEASE}{_ON_THINGS}\b.{{0,80}}\b(?:that\s+says|saying|which\s+says)\b", re.I)
_ANNOUNCES = re.compile(
    rf"(?:\b(?:here(?:'s|\s+is|\s+are)|below\s+(?:is|are)|this\s+is|that's|these\s+are|following|received|got|found)\b"
    rf".{{0,60}}\b{_TEXT}\b.{{0,40}}|\b(?:wrote|writes|says|said|reads|states|replied|answered)(?:\s+\w+){{0,3}})\s*:$",
    re.I,
)
_SENT = re.compile(rf"^\W*(?:{_TEXT}|quote\s+of\s+the\s+day)\b[^:.]{{0,40}}:", re.I)
_TALE = re.compile(
    r"\b(?:i'm|i\s+am|we\s+are|we're)\s+(?:writing|working\s+on)\s+(?:an?|my|our)\s+(?:[\w-]+\s+){0,3}?(?:novel|story|"
    r"poem|screenplay|fanfic\w*|song|play|musical|campaign)\b|"
    r"\bwrite\s+(?:me\s+)?(?:an?|the)\s+(?:[\w-]+\s+){0,3}?(?:novel|story|poem|screenplay|fanfic\w*|song|joke|sketch)\b"
    r"(?=\W*$|\s+(?:about|in|where|with|for|of|that)\b)",
    re.I,
)


def own(sentences: Sequence[Piece]) -> list[Piece]:
    """The sentences of a turn without a text that is handed over in it, and without the sentence that does it."""
    kept: list[Piece] = []
    block = -1
    for piece in sentences:
        if piece.block == block:
            continue
        if _TALE.search(piece.plain):
            return kept
        if _hands_over(piece.plain):
            if piece.plain.rstrip().endswith((":", "?")) or _ends(piece, sentences):
                return kept
            block = piece.block
            continue
        kept.append(piece)
    return kept


def _hands_over(plain: str) -> bool:
    return any(one.search(plain) for one in (_OPENING, _SAYS, _ANNOUNCES, _SENT))


def _ends(piece: Piece, sentences: Sequence[Piece]) -> bool:
    """It closes its paragraph and names no text within it: what it speaks of follows."""
    last = [one for one in sentences if one.block == piece.block][-1]
    return last is piece and ":" not in piece.plain
