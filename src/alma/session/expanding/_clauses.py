"""Sentences and what they ask for: a request, a prohibition, a thing to check, a question, or only background."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from ..engagement import is_gate
from ._blocks import Piece
from ._masking import readable
from ._verbs import CLEAR, OBJECT, commands, first_word, goes_on, is_verb, words

_LONGEST = 2000


class Sense(StrEnum):
    REQUEST = "request"
    PROHIBITION = "prohibition"
    GATE = "gate"
    QUESTION = "question"
    DETAIL = "detail"
    """Says more about what was asked for before."""
    BACKGROUND = "background"


class Order(StrEnum):
    """What a clause says about when it is its turn."""

    ANY = "any"
    NEXT = "next"
    LAST = "last"
    BEFORE = "before"
    """It was said after another, and is to be done before that one."""


@dataclass
class Clause:
    piece: Piece
    order: Order = Order.ANY


_END = re.compile(
    r"(?<=[.!?])[\"')\]]*\s+(?=[^\sa-z])|(?<=[.!?])\s+(?=(?:then|and then|also|please|after that)\b)|(?<=[。！？])"
)
_GREETING = re.compile(
    r"(?i)^(?:hi|hello|hey|good (?:morning|afternoon|evening)|thanks?(?: you)?(?: (?:so|very) much)?|cheers|ok(?:ay)?"
    r"|great|perfect|nice|dear \w+)\b[\s\w]{0,15}[,.!]*$"
)
_LEAD = re.compile(
    r"(?i)^(?:(?:please|pls|kindly|ok(?:ay)?|so|well|hi|hello|hey(?: there)?|and|but|also|additionally|moreover|now"
    r"|just|in addition|besides|plus|first(?:ly)?(?: of all)?|second(?:ly)?|third(?:ly)?|fourth(?:ly)?"
    r"|to (?:start|begin)"
    r"(?: with)?|if possible|ideally|optionally|urgent(?:ly)?|asap|todo|fixme|task|step \d+|immediately|quickly|maybe"
    r"|(?:low|high|medium|top) prio(?:rity)?|nice to have|when(?:ever)? you (?:can|have time)|if time permits"
    r"|if (?:there(?:['’]s| is)|you have) time)\b[,:!—–-]*\s+)+"
)
_NEXT = re.compile(
    r"(?i)^(?:and\s+|but\s+|only\s+)*(?:then|next|afterwards?|after (?:that|this|which)|subsequently|thereafter"
    r"|(?:once|when|as soon as) (?:that|this|it|these|those|they)(?:['’]s| is|['’]re| are| has been| have been)?"
    r"(?: all)? ?(?:done|finished|complete[d]?|ready|works?|in place)?)\b\s*,?\s+"
)
_LAST = re.compile(
    r"(?i)^(?:and\s+|but\s+)*(?:finally|lastly|last(?: of all)?|at the (?:very )?end|in the end|to finish"
    r"|(?:once|when|after) (?:all(?: of (?:that|this|it))?|everything)(?: else)?"
    r"(?: (?:is|has been|that is|of that is))?(?: (?:done|finished|complete[d]?|ready|works?))?)\b\s*,?\s+"
)
_BEFORE = re.compile(
    r"(?i)^(?:and\s+|but\s+)*(?:(?:before|prior to) (?:(?:you do |doing )?(?:that|this)|(?:you do|doing) so)|beforehand"
    r"|(?<=but )first(?: of all)?)\b\s*,?\s+"
)
_ASKED = re.compile(
    r"(?i)^(?:(?:can|could|would|will) (?:you|we)(?: please| kindly| also| then| now)?"
    r"|i(?:['’]d| would) (?:like|love|want) (?:you |us )?to|i (?:want|need|expect) (?:you |us )?to"
    r"|we(?:['’]ll| will| also)? (?:need|have|want|ought)(?: to| you to)|we should(?: also)?|we must"
    r"|you(?:['’]ll| will| also)? (?:should|need to|must|have to|can)|let(?:['’]s| us)|help (?:me|us)(?: to)?"
    r"|(?:your|the|my|our) (?:task|job|goal|plan|idea|aim|mission) is to|(?:it(?:['’]s| is) )?time to"
    r"|(?:remember|don['’]t forget|do not forget|be sure|try|feel free) to|go ahead and|would you mind"
    r"|(?:i(?:['’]m| am)|we(?:['’]re| are)) (?:trying|looking|going|planning|hoping) to)\s+"
)
_WANTED = re.compile(r"(?i)^(?:i|we) (?:need|want|would like|['’]d like)\s+(?=(?:a|an|the|some|all|more|better|new)\b)")
_FORBIDDEN = re.compile(
    r"(?i)^(?:(?:please|but|and|also|just|you|we|it)\s+)*(?:don['’]?t|do not|never|must not|mustn['’]t|should not"
    r"|shouldn['’]t|cannot|can['’]t|may not|under no circumstances|no (?:need"
    r"|changes?) to)\b(?! forget)(?!['’]t forget)"
)
_AVOID = re.compile(
    r"(?i)^(?:please\s+)?(?:avoid|refrain from|leave \S.{0,60}\b(?:alone|as (?:it|they) (?:is|are)|untouched))\b"
)
_REQUIRED = re.compile(r"(?i)\b(?:should|must|needs? to|has to|have to|ought to)\b")
_POINTING = frozenset("it they this that these those he she which its their".split())
_QUESTION = re.compile(r"(?i)^(?:why|how|what|which|where|when|who|is|are|does|do|did|can|could|should|would|will)\b")


def sentences(piece: Piece) -> Iterator[Piece]:
    start = 0
    for end in _END.finditer(piece.masked):
        found = piece.part(start, end.start()).strip()
        if found.text:
            yield found
        start = end.end()
    last = piece.part(start).strip()
    if last.text:
        yield last


def sense(piece: Piece) -> Sense:
    """What the beginning of it says; nobody writes sentences of pages."""
    piece = piece.part(0, _LONGEST)
    said = readable(piece.masked)
    if _GREETING.match(said):
        return Sense.BACKGROUND
    if _FORBIDDEN.match(said) or _AVOID.match(said):
        return Sense.PROHIBITION
    bare = readable(opened(piece)[0].masked)
    asked = _ASKED.match(bare)
    if asked is None and is_gate(said) and not commands(bare):
        return Sense.GATE
    if asked or _WANTED.match(bare) or commands(bare) or _after_comma(bare):
        return Sense.REQUEST
    if said.rstrip().endswith("?") and _QUESTION.match(bare):
        return Sense.QUESTION
    if first_word(bare) in _POINTING:
        return Sense.DETAIL
    return Sense.REQUEST if _REQUIRED.search(said) else Sense.BACKGROUND


_CONDITION = re.compile(
    r"(?i)^(?:if|when|whenever|once|after|before|as soon as|while|for|in|on|with|to|since|because|as)\b"
)


def _after_comma(text: str) -> bool:
    """'Once the tests pass, deploy'; 'the cart loses items, fix that': what is asked for stands after the comma."""
    said = [bare(text[comma.end() :]) for comma in re.finditer(r",\s+(?:so\s+)?", text)]
    if _CONDITION.match(text):
        return any(map(commands, said))
    return any(first_word(one) in CLEAR and goes_on(one, False) and words(one)[1] in OBJECT for one in said)


def bare(text: str) -> str:
    """Without what only opens a request."""
    return _ASKED.sub("", _LEAD.sub("", text))


def opened(piece: Piece) -> tuple[Piece, Order]:
    """The same without its opening words, and what those say about its turn."""
    order = Order.ANY
    while True:
        said = piece.masked
        if found := _LAST.match(said):
            order = Order.LAST
        elif found := _NEXT.match(said):
            order = Order.NEXT
        elif found := _BEFORE.match(said):
            order = Order.BEFORE
        elif not (found := _LEAD.match(said)):
            return piece, order
        if not piece.masked[found.end() :].strip():
            return piece, order
        piece = piece.part(found.end())


def stripped(piece: Piece) -> Piece:
    """A request as one would write it on a list: 'Can you please fix it?' is 'fix it'."""
    while found := _ASKED.match(piece.masked) or _WANTED.match(piece.masked) or _LEAD.match(piece.masked):
        if not piece.masked[found.end() :].strip(" .!?"):
            break
        piece = piece.part(found.end())
    return piece.strip()


# -- several things in one sentence

_JOINT = re.compile(
    r"(?P<then>\s*[,;]?\s+(?:and\s+|but\s+)?(?P<word>then|afterwards|after that|after this|subsequently|finally|lastly"
    r"|next|once (?:that|this|it)(?:['’]s| is) done|when (?:that|this|it)(?:['’]s| is) done)\b,?\s+)"
    r"|(?P<semicolon>\s*;\s+(?:and\s+)?)"
    r"|(?P<comma>\s*,\s+(?:(?:and|&|plus)\s+)?(?:also\s+|please\s+)*)"
    r"|(?P<plain>\s+(?:and|&)\s+(?:also\s+|please\s+)*)",
    re.I,
)
_DEPENDENT = re.compile(
    r"(?i)\b(?:that|which|who|whose|so|if|when|where|whether|how|why|while|because|unless|until|can|could|will|would"
    r"|should|must|lets?|allow(?:s|ing)?|enabl(?:es?|ing)|help(?:s|ing)?|ensur\w+|make sure|and)\b"
)
_INFINITIVE = re.compile(r"(?i)\bto\s+(?:\w+ly\s+)?([a-z-]+)")


_EXCEPT = re.compile(r"(?i)[,;]?\s+(?:and|but)\s+(?=(?:please\s+)?(?:don['’]?t|do not|never)\b(?!\s+forget))")


def forbidding(piece: Piece) -> tuple[Piece, Piece | None]:
    """What is asked for, and what the same sentence forbids: '..., but do not touch the database'."""
    found = _EXCEPT.search(piece.masked)
    if found is None or not piece.masked[: found.start()].strip():
        return piece, None
    return piece.part(0, found.start()).strip(), piece.part(found.end()).strip()


def clauses(piece: Piece) -> list[Clause]:
    """The things to do that a sentence names, one after the other."""
    first, order = opened(piece)
    found = [Clause(first, order)]
    if len(first.text) > _LONGEST:
        return found
    at = 0
    while joint := _JOINT.search(found[-1].piece.masked, at):
        current = found[-1].piece
        rest = current.part(joint.end())
        if not _parts(current.part(0, joint.start()), joint, rest, parallel=len(found) > 1):
            at = joint.end()
            continue
        found[-1].piece = current.part(0, joint.start()).strip()
        after, own = opened(rest)
        found.append(Clause(after, own if own is not Order.ANY else _turn(joint)))
        at = 0
    return found


def _turn(joint: re.Match[str]) -> Order:
    if not joint["then"]:
        return Order.ANY
    return Order.LAST if joint["word"].casefold() in ("finally", "lastly") else Order.NEXT


def _parts(before: Piece, joint: re.Match[str], rest: Piece, parallel: bool) -> bool:
    """Whether another thing to do begins after the joint."""
    said, told = readable(before.masked), readable(bare(opened(rest)[0].masked))
    if re.match(r"(?i)\s*(?:if|when|whenever|once|after|before|as soon as|until|unless)\b", said) and "," not in said:
        return False
    if joint["then"] or joint["semicolon"]:
        return goes_on(told, True) or commands(told)
    core = words(readable(bare(said)))
    if len(core) < 2 or not commands(bare(said)) or is_verb(core[1]) or set(core[1:]) <= _PARTICLES:
        return False
    if joint["plain"] and _dependent(" ".join(core[1:])):
        return False
    if joint["comma"] and not parallel and _dependent(" ".join(core[1:])):
        return goes_on(told, False) and len(words(told)) > 1
    return goes_on(told, parallel)


_PARTICLES = frozenset("up out down off on in over for through into at back away".split())


def _dependent(text: str) -> bool:
    """Something inside has a verb of its own that the next may go with: 'a form that lets one sign up and log in'."""
    return bool(_DEPENDENT.search(text)) or any(is_verb(found[1].casefold()) for found in _INFINITIVE.finditer(text))
