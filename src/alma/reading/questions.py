"""What a question asks: its own words out of a pasted prompt, whom it names, and whether it is about the person.

The words are in `questions.json`. `make gate` scores this reader.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

from .times import NAMES_OF_TIMES
from .words import load_file, remove_pasted

_MAX_CHARS = 1000
_SHORT_CHARS = 400
"""Up to here, code and output are what is asked about."""
_MAX_START, _MAX_END = 5_000, 15_000
"""Of a longer prompt the beginning says what to do, and the end asks."""
_MAX_NAMES, _MAX_PARTS, _MIN_PART_CHARS = 12, 4, 8
_VOCABULARY: dict[str, Any] = load_file("questions.json")
_WORD = re.compile(r"[^\W_]+")
_PLAIN = frozenset(_VOCABULARY["plain"].split())
_NOT_NAMES = _PLAIN | NAMES_OF_TIMES
_IDLE = _PLAIN | frozenset(_VOCABULARY["idle"].split())


@cache
def _compile_phrases(name: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(_VOCABULARY[name])})\b", re.I)


_ASKING = re.compile(rf"\?|^\W*(?:{'|'.join(_VOCABULARY['asking'].split())})\b", re.I)
_CONTEXT = re.compile(rf"<(/?)(?:{'|'.join(_VOCABULARY['context_tags'].split())})(?:\s[^<>]{{0,200}})?>", re.I)
_TAGGED = re.compile(rf"<({'|'.join(_VOCABULARY['question_tags'].split())})>([^<>]{{3,1000}})</\1>", re.I)
_TURN = re.compile(r"^[ \t]{0,8}(?:(user|human|question|q)|assistant|ai|bot|system|answer)[ \t]?:", re.I | re.M)
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_ERROR = re.compile(r"^.{0,80}?(?:error|exception|panic|fatal|failed)\b.{0,200}", re.I | re.M)
_SENTENCE = re.compile(r"[^.?!\n]{3,250}\?")

_PART = re.compile(r"\bbetween (.{3,300}?) and (.{3,300})|[,:] (.{3,300}?),? or (.{3,300})", re.I | re.S)
_JOINT = re.compile(r"\b(?:before|after|when|since|than|until|from)\b", re.I)
_QUOTE = r"(?<!\w)(?:\"[^\"\n]{2,80}\"|“[^”\n]{2,80}”|`[^`\n]{2,80}`|'(?:[^'\n]|'(?=\w)){2,80}'(?!\w))"
_CODE = r"(?<![\w/.@#-])(?:[@#]\w{2,40}|[\w-]{1,80}(?:[/._]\w[\w-]{0,80}){1,20}(?:\(\))?|[a-z]{1,40}[A-Z]\w{0,80})"
_CAPITAL = r"[A-ZÀ-ÞΑ-ΩЀ-Я][\w'’&-]{0,40}"
_PROPER = rf"(?<!\w)(?:(?:Dr|Mrs?|St)\. )?{_CAPITAL}(?: (?:(?:of|of the|de|van) )?(?:{_CAPITAL}|\d{{1,6}})){{0,6}}"
_NAME = re.compile(rf"(?P<quote>{_QUOTE})|(?P<code>{_CODE})|(?P<proper>{_PROPER})")


class Question(NamedTuple):
    text: str
    """The words to search for."""
    several: bool
    """It asks for more than one memory: a count, a list, a comparison."""
    names: tuple[str, ...]
    personal: bool
    """It asks about what the person did, has or said."""
    idle: bool
    """It holds no word to search for, as "thanks" and "go on"."""
    parts: tuple[str, ...]
    """The things it asks about, where it names several."""


def read_question(prompt: str) -> Question:
    text = cut_pasted(prompt)
    names = find_names(text)
    several = _compile_phrases("several").search(_compile_phrases("one").sub(" ", text)) is not None
    return Question(
        text=text,
        several=several,
        names=names,
        personal=bool(
            _ASKING.search(text) and _compile_phrases("own").search(_compile_phrases("how_to").sub(" ", text))
        ),
        idle=not names and _IDLE.issuperset(_WORD.findall(text.casefold())),
        parts=split_parts(text) if several or " or " in text else (),
    )


def cut_pasted(prompt: str) -> str:
    """Return the words of a prompt that ask, in at most 1,000 characters.

    Of a longer text these are its beginning and its end without pasted blocks, the last questions and the last error.
    """
    text = prompt if len(prompt) <= _MAX_START + _MAX_END else f"{prompt[:_MAX_START]}\n{prompt[-_MAX_END:]}"
    text = _HIDDEN.sub("", text)
    tagged = _TAGGED.search(text)
    text = tagged[2] if tagged else _drop_context(text) if "<" in text else text
    text = _keep_last_turn(text) if ":" in text else text
    flat = " ".join(text.split())
    if len(flat) <= _SHORT_CHARS:
        return flat or prompt[:_MAX_CHARS]
    own = " ".join((remove_pasted(text) or text).split())
    ends = [*_SENTENCE.findall(own)[-2:], *(error.strip() for error in _ERROR.findall(text)[-1:])]
    room = _MAX_CHARS - sum(len(end) + 1 for end in ends)
    if len(own) > room:
        own = f"{own[: room // 3]} {own[1 + room // 3 - room :]}"
    return " ".join([own, *(end for end in ends if end not in own)]).strip()


def _drop_context(text: str) -> str:
    """Return the text outside of tags that hold context, such as <documents>; all of it where one is left open."""
    pieces, depth, at = [], 0, 0
    for tag in _CONTEXT.finditer(text):
        pieces += [] if depth else [text[at : tag.start()]]
        depth, at = max(0, depth + (-1 if tag[1] else 1)), tag.end()
    own = " ".join((*pieces, text[at:]))
    return own if not depth and _WORD.search(own) else text


def _keep_last_turn(text: str) -> str:
    """Return what the person said last in a transcript, or the text where it is none."""
    turns, end = [], len(text)
    for mark in reversed(list(_TURN.finditer(text))):
        turns += [text[mark.end() : end]] if mark[1] else []
        end = mark.start()
    return next((turn for turn in turns if _WORD.search(turn)), text)


def find_names(text: str) -> tuple[str, ...]:
    """Return people, places, titles and identifiers, as they are written and each once."""
    names: dict[str, str] = {}
    for match in _NAME.finditer("" if " " in text and text.isupper() else text[:_MAX_END]):
        name = match[0].strip("\"“”`'‘ ") if match["quote"] else match[0]
        if match["proper"]:
            words, before = name.split(" "), text[max(0, match.start() - 4) : match.start()]
            is_first = before.rstrip(" \"“'‘(*-")[-1:] in ("", ".", "!", "?", ":", "\n")
            while words and words[0].casefold().replace("’", "'").partition("'")[0] in _NOT_NAMES:
                del words[0]
            is_sure = not is_first or len(words) > 1 or words != name.split(" ") or "'" in name
            name = re.sub(r"['’]s?$", "", " ".join(words)) if is_sure else ""
        folded = name.casefold()
        if any(map(str.isalpha, name)) and folded.removesuffix("s") not in _NOT_NAMES and len(names) < _MAX_NAMES:
            names.setdefault(folded, name)
    return tuple(names.values())


def split_parts(text: str) -> tuple[str, ...]:
    """Return the things that a question asks about: "the trip" and "the wedding" of "the trip or the wedding"."""
    pair = _PART.search(text)
    pieces = [piece for piece in pair.groups() if piece] if pair else _JOINT.split(text)
    parts = [piece.strip(" ,?!.\"'“”`") for piece in pieces]
    if len(parts) < 2 or any(_PLAIN.issuperset(_WORD.findall(part.casefold())) for part in parts):
        return ()
    return tuple(part for part in parts if len(part) >= _MIN_PART_CHARS)[:_MAX_PARTS]
