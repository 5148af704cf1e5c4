"""Reads how a person answers what an agent has just done: whether they accept it, object to it, or do neither.

It is unsure rather than wrong: praise that may be irony, praise in a question and what somebody else says accept
nothing, and a "no" in a sentence that may be about the deed objects to it. The forms are in replies.toml; the score is
measured on tests/reading/data/replies.jsonl, of which one half was held back.
"""

from __future__ import annotations

import re
import tomllib
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from ..text import is_common, stems
from .local import remove_pasted

_SENTENCE = re.compile(
    r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+|[,，](?=\s*(?:but|aber|pero|mais|mas|но|however)\b)|,(?=但)"
)
_QUESTION = re.compile(r"[?？]\s*$")
_NAME_SIGN = re.compile(r"[^\w\s]|_|(?<=[a-z])(?=[A-Z])")
_SPACE = re.compile(r"\s+")
_NO = re.compile(
    r"\W*(?:(?:h?m+|uh+|er+|well|ok|wait)\W+)?(?:(?:no|nope|nah|nein|non|não|нет)\b|不|没|别|いや|いいえ)",
    re.IGNORECASE,
)
_SHORT_WORDS = 4
_MOST_CHARS = 1200


class ReplyKind(StrEnum):
    """How a turn answers what was done before it."""

    ACCEPTS = "accepts"
    ANSWERS = "answers"  # A bare yes: it answers a question, if there was one.
    OBJECTS = "objects"
    NEITHER = "neither"


@lru_cache(maxsize=1)
def _load_forms() -> dict[str, re.Pattern[str]]:
    loaded = tomllib.loads(Path(__file__).with_name("replies.toml").read_text(encoding="utf-8"))
    opener = loaded.pop("opener")
    forms = {}
    for name, entry in loaded.items():
        parts = entry if isinstance(entry, list) else [entry]
        pattern = "|".join(f"(?:{part})" for part in parts)
        if isinstance(entry, list):
            pattern = rf"^\W*(?:{opener})*(?:{pattern})"
        forms[name] = re.compile(pattern.replace("<e>", r"(?!\w)"), re.IGNORECASE)
    return forms


def read_reply(text: str, about: str = "") -> ReplyKind:
    """Return how a turn answers what was done before it; `about` is what was done, in words."""
    if find_objection(text, about):
        return ReplyKind.OBJECTS
    is_limited = _is_limited(text)
    kinds = [_read_sentence(sentence, is_limited) for sentence in _split_reply(text)]
    if _matches("irony", text):
        return ReplyKind.NEITHER
    if ReplyKind.ACCEPTS in kinds:
        return ReplyKind.ACCEPTS
    return ReplyKind.ANSWERS if kinds[:1] == [ReplyKind.ANSWERS] else ReplyKind.NEITHER


def read_quoted_reply(text: str, quote: str) -> ReplyKind:
    """Return how the sentences of a turn that contain a quote answer; in doubt they do not."""
    wanted = _fold_text(quote)
    if not wanted or _matches("irony", text):
        return ReplyKind.NEITHER
    kinds = []
    is_limited = _is_limited(text)
    for sentence in _split_reply(text):
        folded = _fold_text(sentence)
        if wanted in folded or folded in wanted:
            kinds.append(_read_sentence(sentence, is_limited))
    if ReplyKind.ACCEPTS in kinds:
        return ReplyKind.ACCEPTS
    return ReplyKind.ANSWERS if ReplyKind.ANSWERS in kinds else ReplyKind.NEITHER


def find_praise(text: str) -> str:
    """Return the first sentence of a turn that accepts what was done; empty if none does."""
    if is_ironic(text):
        return ""
    is_limited = _is_limited(text)
    for sentence in _split_reply(text):
        if _read_sentence(sentence, is_limited) is ReplyKind.ACCEPTS:
            return sentence
    return ""


def find_objection(text: str, about: str = "") -> str:
    """Return the sentence of a turn that may object to what was done; empty if none does.

    A sentence that says no, asks why or reports a failure objects if it points at what was done, shares a word with
    it, or says nothing else.
    """
    done = stems(_NAME_SIGN.sub(" ", about))
    for number, sentence in enumerate(_split_reply(text)):
        plain = _load_forms()["negated_yes"].sub(" ", sentence)
        is_question = _QUESTION.search(sentence) is not None
        is_critical = _matches("asks_why", plain) if is_question else _is_critical(plain)
        is_short = number == 0 and len(plain.split()) <= _SHORT_WORDS
        if is_critical and (is_short or _rejects_first(plain, number) or _is_about(plain, done)):
            return sentence
    return ""


def is_ironic(text: str) -> bool:
    """Return whether praise in a text may not be meant."""
    return _matches("irony", text)


def asks_question(message: str) -> str:
    """Return the questions at the end of a message, to which a bare yes would be the answer; empty if it asks none."""
    sentences = [part.strip() for part in _SENTENCE.split(remove_pasted(message)) if part.strip()]
    asked: list[str] = []
    for sentence in reversed(sentences[-3:]):
        if _QUESTION.search(sentence):
            asked.append(sentence)
    return " ".join(reversed(asked))


def is_general_question(question: str) -> bool:
    """Return whether a question asks if something should always be so."""
    return _matches("general", question)


def share_telling_words(first: str, second: str) -> bool:
    """Return whether two texts have a word in common that says what they are about."""
    telling = [{word for word in stems(_NAME_SIGN.sub(" ", text)) if not is_common(word)} for text in (first, second)]
    return not telling[0].isdisjoint(telling[1])


def _split_reply(text: str) -> list[str]:
    own = _SPACE.sub(" ", remove_pasted(text)[:_MOST_CHARS].replace("’", "'"))
    return [part.strip() for part in _SENTENCE.split(own) if part.strip()]


def _is_limited(text: str) -> bool:
    """Return whether a turn takes back a part of an approval, or is no more than polite."""
    return _matches("limits", text) or _matches("courtesy", text)


def _read_sentence(sentence: str, is_limited: bool) -> ReplyKind:
    """Return how a sentence answers; with `is_limited`, short approval accepts nothing."""
    if _QUESTION.search(sentence) or _matches("reports", sentence):
        return ReplyKind.NEITHER
    if _matches("accepts", sentence) or (not is_limited and _matches("short", sentence)):
        return ReplyKind.ACCEPTS
    return ReplyKind.ANSWERS if _load_forms()["answers"].search(sentence) else ReplyKind.NEITHER


def _is_critical(sentence: str) -> bool:
    return any(_matches(name, sentence) for name in ("negates", "undoes", "fails"))


def _rejects_first(sentence: str, number: int) -> bool:
    """Return whether the first sentence of a turn begins with a no."""
    return number == 0 and _NO.match(sentence) is not None


def _is_about(sentence: str, done: frozenset[str]) -> bool:
    rest = sentence
    for name in ("negates", "undoes", "fails"):
        rest = _load_forms()[name].sub(" ", rest)
    own = stems(_NAME_SIGN.sub(" ", rest))
    # Scripts without spaces have no words to compare.
    is_unspaced = not sentence.isascii() and not re.search(r"[a-z]{2}", sentence, re.IGNORECASE)
    return not own or is_unspaced or _matches("points", sentence) or not own.isdisjoint(done)


def _matches(name: str, text: str) -> bool:
    return _load_forms()[name].search(text) is not None


def _fold_text(text: str) -> str:
    return _SPACE.sub(" ", text.replace("’", "'").replace("`", "")).strip(" .,;:!?\"'").casefold()
