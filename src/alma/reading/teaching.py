"""How likely a turn of a person teaches a coding agent something that matters in later sessions.

No model is asked. A turn is split into clauses; each is a question, a request, a failure, an acceptance or a plain
statement. Together with groups of words (norms, negations, "we", reasons, …) in eighteen languages, the place in the
session, what the agent had done and how it answered, this gives some forty properties, most of them 0 or 1. A logistic
regression over them gives the probability. `teaching.json` holds the words and the weights; `python -m
tools.fit_teaching` fits the weights and prints how good they are.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from .local import load_file

FILE = "teaching.json"
PERSON_GROUPS = "must not always all we others reason once again aside praise keep you failure".split()
"""The groups of words that are properties of a turn. The other groups only tell what a clause does."""
_HEAD_CHARS, _TAIL_CHARS = 500, 200
"""How much of the beginning and the end of a turn is read."""
_BEFORE_CHARS = 400
_ANSWER_CHARS = 200
_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""A letter of a script whose words are looked up without regard to spaces: Thai, Japanese, Chinese, Korean."""
_SENTENCE_END = re.compile(r"(?<=[.!?;:])\s+|(?<=[。！？；…])|\n+|\.\.+\s*|\s[-–—]\s")
_CLAUSE_END = re.compile(r"(?<=,)\s+|(?<=[，、])")
_QUESTION = re.compile(r"[?？]\s*\Z")
_LITERAL = re.compile(r"`[^`\n]|[a-z][A-Z]|\w[_/\\.:@=]\w|--\w|\d")
_LOG = re.compile(r"[a-z](?:Error|Exception|Warning)\b|\b[45]\d\d\b|\bERROR\b|\bWARN\b")
_LETTERS = str.maketrans({"ı": "i", "ß": "ss", "ł": "l", "ø": "o"})
_OPENING = frozenset(("filler", "thanks", "yes"))
_LIGHT = _OPENING | {"praise"}
_WEAK = _LIGHT | {"light"}
_SHORT_CHARS = 8
"""How long a Japanese, Chinese or Korean clause is at most that only accepts."""
_STEM_CHARS = 3
_SAME_CHARS = 7
"""Two words that begin with so many equal letters count as the same."""


class Mark(NamedTuple):
    """Words of a group in a clause. The `position` counts words, and is 0 in a script without spaces."""

    position: int
    size: int
    group: str


class SpokenClause(NamedTuple):
    """A part of a text, and what it does: "question", "request", "failure", "acceptance" or "statement"."""

    act: str
    groups: frozenset[str]
    first_groups: frozenset[str]
    """The groups of its first two words."""


def rate_turn(text: str, *, number: int, before: str = "", deeds: str = "", then: str = "") -> float:
    """Return how likely a turn teaches something that matters in later sessions, from 0 to 1.

    `number` is 0 for the first turn of a session. `before` is what the agent had said and `then` what it said next, if
    it has answered; `deeds` are the commands and paths of what it had done. A turn that matters for its own task only
    counts as partly teaching.
    """
    measures = measure_turn(text, number=number, before=before, deeds=deeds, then=then)
    if not measures:
        return 0.0
    weights = load_file(FILE)["weights"]
    total = math.fsum([weights["bias"], *(weights.get(name, 0.0) * value for name, value in measures.items())])
    return 1.0 / (1.0 + math.exp(-total))


def measure_turn(text: str, *, number: int, before: str = "", deeds: str = "", then: str = "") -> dict[str, float]:
    """Return the properties of a turn that are not 0; empty for a text without words."""
    text = _cut_ends(text)
    clauses = list(iterate_clauses(text))
    if not clauses:
        return {}
    spoken = {group for clause in clauses if clause.act != "question" for group in clause.groups}
    measures = {f"has {group}": 1.0 for group in PERSON_GROUPS if group in spoken}
    measures |= {"first": float(number == 0), "second": float(number == 1), "late": math.log1p(min(number, 12)) / 2.5}
    measures |= _measure_form(text, [clause.act for clause in clauses])
    measures |= _measure_context(text, clauses, before[-_BEFORE_CHARS:], deeds[-_BEFORE_CHARS:])
    measures |= _measure_answer(then[:_ANSWER_CHARS])
    return {name: value for name, value in measures.items() if value}


def _measure_form(text: str, acts: list[str]) -> dict[str, float]:
    """Return the properties of the length and the form of a turn."""
    size = len(_WORD.findall(text)) + len(_UNSPACED.findall(text)) / 2
    kinds = set(acts) - {"acceptance"} or {"acceptance"}
    share = "only {}" if len(kinds) == 1 else "{} among others"
    return {share.format(act): 1.0 for act in kinds} | {
        "at most 3 words": float(size <= 3),
        "8 to 40 words": float(8 <= size <= 40),
        "words": math.log1p(size) / 4,
        "literal": float(_LITERAL.search(text) is not None),
    }


def _measure_context(text: str, clauses: Sequence[SpokenClause], before: str, deeds: str) -> dict[str, float]:
    """Return how a turn relates to what the agent had said and done."""
    was_asked = _QUESTION.search(before) is not None
    question = list(iterate_clauses(before))[-3:] if was_asked else []
    is_general = any("always" in clause.groups for clause in question)
    says_yes = any("yes" in clause.groups for clause in clauses)
    echoed = _list_telling_words(text) & _list_telling_words(f"{before} {deeds}")
    return {
        "was asked": float(was_asked),
        "agrees to a general question": float(is_general and says_yes),
        "echoes what was done": float(bool(echoed)),
    }


def _measure_answer(then: str) -> dict[str, float]:
    """Return how the agent answered."""
    first = next(iterate_clauses(then), None)
    if first is None:
        return {"no answer": 1.0}
    return {
        "answer begins with a change": float("revised" in first.first_groups),
        "answer's first clause has a change": float("revised" in first.groups),
        "answer concedes": float("concede" in first.first_groups),
    }


# -- words and clauses


def _cut_ends(text: str) -> str:
    """Return the beginning and the end of a long text."""
    return text if len(text) <= _HEAD_CHARS + _TAIL_CHARS else f"{text[:_HEAD_CHARS]}\n{text[-_TAIL_CHARS:]}"


def iterate_clauses(text: str) -> Iterator[SpokenClause]:
    """Yield the clauses of a text that have words, in order."""
    for sentence in _SENTENCE_END.split(text):
        yield from _read_sentence(sentence)


def _read_sentence(sentence: str) -> Iterator[SpokenClause]:
    parts = [part for part in _CLAUSE_END.split(sentence) if _WORD.search(part)]
    can_ask = True
    for number, part in enumerate(parts, 1):
        words = _fold_words(part)
        marks = _find_marks(words, part.casefold())
        groups = frozenset(mark.group for mark in marks)
        first_groups = frozenset(mark.group for mark in marks if mark.position <= 1)
        # "When I say short, I mean it" asks nothing, and "this is a Minitest house, has been for years" neither.
        is_subordinate = "when" in first_groups and number < len(parts)
        act = _find_act(part, words, marks, can_ask and not is_subordinate)
        can_ask = can_ask and act == "acceptance"
        yield SpokenClause(act, groups, first_groups)


def _find_act(part: str, words: list[str], marks: list[Mark], can_ask: bool) -> str:
    """Return what a clause does. Its beginning decides, after words like "ok" and "and"."""
    groups = {mark.group for mark in marks}
    if _UNSPACED.search(part):
        leading, is_light = groups, bool(groups & _LIGHT) and len(part) <= _SHORT_CHARS
        is_question = "ask" in groups
    else:
        opening = {mark.position for mark in marks if mark.group in _OPENING}
        start = next((position for position in range(4) if position not in opening), 4)
        leading = {mark.group for mark in marks if mark.position in (0, start)}
        light = {mark.position + step for mark in marks if mark.group in _WEAK for step in range(mark.size)}
        is_light = bool(groups & _LIGHT) and light.issuperset(range(len(words)))
        is_question = can_ask and not is_light and "ask" in leading
    if is_question or _QUESTION.search(part):
        return "question"
    if is_light:
        return "acceptance"
    if "request" in leading or any(
        mark.group == "request" and mark.position + mark.size == len(words) for mark in marks
    ):
        return "request"
    return "failure" if "failure" in groups or _LOG.search(part) else "statement"


def _fold_words(text: str) -> list[str]:
    """Return the words of a text without case and accents."""
    words = _WORD.findall(text.casefold())
    return [word if word.isascii() or _UNSPACED.search(word) else _strip_accents(word) for word in words]


def _strip_accents(word: str) -> str:
    letters = unicodedata.normalize("NFKD", word)
    return "".join(letter for letter in letters if not unicodedata.combining(letter)).translate(_LETTERS)


def _list_telling_words(text: str) -> set[str]:
    """Return the beginnings of the words of a text that belong to no group, and pairs of unspaced letters."""
    phrases = _load_words().phrases
    telling: set[str] = set()
    for word in _fold_words(text):
        if _UNSPACED.search(word):
            telling.update(word[start : start + 2] for start in range(len(word) - 1))
        elif len(word) > _STEM_CHARS and not any(len(phrase) == 1 for phrase, _ in phrases.get(word, ())):
            telling.add(word[:_SAME_CHARS])
    return telling


class _Words(NamedTuple):
    """The words of all groups, each with its group, by what they begin with."""

    phrases: dict[str, list[tuple[list[str], str]]]
    stems: dict[str, list[tuple[str, str]]]
    pieces: dict[str, list[tuple[str, str]]]
    """Of scripts without spaces between words."""


@lru_cache(maxsize=1)
def _load_words() -> _Words:
    words = _Words({}, {}, {})
    for group, languages in load_file(FILE)["groups"].items():
        entries = {entry.strip() for listed in languages.values() for entry in listed.split(",")}
        for entry in sorted(entries):
            phrase = _fold_words(entry)
            if _UNSPACED.search(entry):
                piece = entry.replace("_", " ")
                words.pieces.setdefault(piece[0], []).append((piece, group))
            elif entry.endswith("*"):
                words.stems.setdefault(phrase[0][:_STEM_CHARS], []).append((phrase[0], group))
            else:
                words.phrases.setdefault(phrase[0], []).append((phrase, group))
    return words


def _find_marks(words: list[str], part: str) -> list[Mark]:
    """Return where a clause has words of a group."""
    known = _load_words()
    marks = []
    for position, word in enumerate(words):
        for phrase, group in known.phrases.get(word, ()):
            if words[position : position + len(phrase)] == phrase:
                marks.append(Mark(position, len(phrase), group))
        for stem, group in known.stems.get(word[:_STEM_CHARS], ()):
            if word.startswith(stem):
                marks.append(Mark(position, 1, group))
    if _UNSPACED.search(part):
        for start, letter in enumerate(part):
            pieces = known.pieces.get(letter, ())
            marks += [Mark(0, len(piece), group) for piece, group in pieces if part.startswith(piece, start)]
    return marks
