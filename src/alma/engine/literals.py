"""Literals: the commands, flags, paths, addresses, numbers and names in a text, and where each of them comes from.

Ordinary words may be put in other words. A literal may not: an agent runs it as it stands. So a rule that a model
words is a person's only if the person typed each of its literals. `find_source` is the one place that says where a
literal comes from.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from ..text import is_common, stem
from .escape import remove_unseen
from .safety import Statement, is_forbidden, split_statements

_CODE = re.compile(r"`([^`\n]{1,400})`")
_TOKEN = re.compile(r"[^\s,;，；。、：！？「」『』（）\"“”„«»`]+")
_WIDE = re.compile(r"(?<=[\u2e80-\uffef])(?=[!-~])|(?<=[!-~])(?=[\u2e80-\uffef])")
_OUTER_START = "*_~([{<'‘’"
_OUTER_END = "*_~)]}>'‘’.,:;!?…%"
_SIGN = re.compile(r"\d|\w[/\\_@=:.$#&|]+\w|^[/~$@#.][\w/.]|^--?\w|[|&<>$]|[a-z][A-Z]|\w/$")
_HYPHENATED = re.compile(r"[^\W\d_]+(?:[-/][^\W\d_]+)+")
_CAPITALS = re.compile(r"[A-Z]{2,}s?")
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")
_OTHER_LETTER = re.compile(r"[\u0370-\u1fff]")
_WIDE_SIGN = re.compile(r"[\u2e80-\uffef]")
_LETTERS_OF_SIGN = 4  # So many letters a Latin word has for one character of Chinese or Japanese.
_PLAIN_WORD = re.compile(r"[^\W\d_]+(?:'[a-z]+)?")


class LiteralSource(StrEnum):
    """Where a literal comes from."""

    TYPED = "typed"  # The person typed it in the session.
    UNKNOWN = "unknown"  # A file, a page, a tool, the agent or the model brought it in.


class Literal(NamedTuple):
    """A literal: the words of a command, or one name. `is_forbidden` is whether the text surely forbids it."""

    words: tuple[str, ...]
    is_forbidden: bool = False


class SessionWords(NamedTuple):
    """What a literal may come from: the person's own typed words of a session, turn by turn."""

    typed: tuple[str, ...]


@lru_cache(maxsize=1)
def _load_vocabulary() -> dict[str, Any]:
    with open(os.path.join(os.path.dirname(__file__), "literals.json"), encoding="utf-8") as file:
        loaded: dict[str, Any] = json.load(file)
    return {name: value if isinstance(value, dict) else frozenset(value) for name, value in loaded.items()}


# -- words


class _PlacedWord(NamedTuple):
    word: str  # As it is compared.
    text: str  # As it is written.
    start: int
    end: int


def _read_signs(text: str) -> str:
    """Return a text without invisible and full-width characters. A look-alike of another script stays another."""
    return _WIDE.sub(" ", unicodedata.normalize("NFKC", remove_unseen(text)))


def _split_tokens(text: str) -> Iterator[_PlacedWord]:
    for match in _TOKEN.finditer(text):
        written = match[0].lstrip(_OUTER_START).rstrip(_OUTER_END).removesuffix("'s").removesuffix("’s")
        if any(sign.isalnum() for sign in written):
            yield _PlacedWord(_fold_word(written), written, match.start(), match.end())


def _fold_word(word: str) -> str:
    """Return a word as it is compared: the case of a short option counts, a number may be written out."""
    if re.match(r"-\w", word):
        return word
    folded = word.casefold().rstrip("/") or word
    numbers: Mapping[str, str] = _load_vocabulary()["numbers"]
    return numbers.get(folded, folded)


# -- the literals of a text


def find_literals(text: str) -> list[Literal]:
    """Return the literals of a text: each command in backticks or after a program's name, and each single name."""
    plain = _read_signs(text)
    others = len(_OTHER_LETTER.findall(plain)) + _LETTERS_OF_SIGN * len(_WIDE_SIGN.findall(plain))
    is_latin = len(_LATIN.findall(plain)) >= others
    found = []
    for statement in split_statements(plain):
        for code in _CODE.finditer(statement.text):
            words = tuple(one.word for one in _split_tokens(code[1]))
            found.append(Literal(words, is_forbidden(statement, code.start(), code.end())))
        bare = _CODE.sub(lambda code: " " * len(code[0]), statement.text)
        for run in _find_runs(list(_split_tokens(bare)), is_latin):
            is_avoided = is_forbidden(statement, run[0].start, run[-1].end)
            found.append(Literal(tuple(one.word for one in run), is_avoided))
    return [one for one in found if one.words]


def _find_runs(tokens: list[_PlacedWord], is_latin: bool) -> Iterator[list[_PlacedWord]]:
    """Yield each run of words that makes one literal: a program and its arguments, or a single name."""
    vocabulary = _load_vocabulary()
    run: list[_PlacedWord] = []
    for token in tokens:
        is_argument = bool(run) and token.word not in vocabulary["ends"] and _takes_argument(run, token)
        if _is_literal(token, is_latin) or is_argument:
            run.append(token)
            continue
        if run:
            yield from _close_run(run, is_latin)
        # "Install evil" names a package, whatever the word is.
        run = [token] if token.word in vocabulary["introducers"] else []
    if run:
        yield from _close_run(run, is_latin)


def _takes_argument(run: list[_PlacedWord], token: _PlacedWord) -> bool:
    """Return whether a plain word after a run of words is part of the command: "install" and "evil" after "pip"."""
    vocabulary, before = _load_vocabulary(), run[-1].word
    is_named = before in vocabulary["introducers"] or (before in vocabulary["subcommands"] and len(run) > 1)
    return is_named or (before in vocabulary["programs"] and token.word in vocabulary["subcommands"])


def _close_run(run: list[_PlacedWord], is_latin: bool) -> Iterator[list[_PlacedWord]]:
    """Yield a run without the ordinary verb that introduced it; nothing is left of a verb alone."""
    if not _is_literal(run[0], is_latin):
        run = run[1:]
    if run:
        yield run


def _is_literal(token: _PlacedWord, is_latin: bool) -> bool:
    """Return whether a word is a literal by its form or because it is the name of a program."""
    vocabulary = _load_vocabulary()
    word, text = token.word, token.text
    if word in vocabulary["not_names"] or word in vocabulary["acronyms"]:
        return False
    has_latin, has_other = bool(_LATIN.search(text)), bool(_OTHER_LETTER.search(text))
    if (has_latin and has_other) or (has_latin and not is_latin) or (has_other and is_latin):
        return True
    if _HYPHENATED.fullmatch(text):
        return word in vocabulary["programs"] or not all(map(is_common, re.split("[-/]", word)))
    is_name = word in vocabulary["programs"] or _CAPITALS.fullmatch(text) is not None
    return is_name or _SIGN.search(text) is not None or word.isdigit()


# -- where they come from


def find_untyped(texts: Iterable[str], words: SessionWords) -> list[str]:
    """Return the literals of texts that the person did not type."""
    literals = chain.from_iterable(map(find_literals, texts))
    unknown = [one for one in literals if find_source(one, words) is LiteralSource.UNKNOWN]
    return list(dict.fromkeys(" ".join(one.words) for one in unknown))


def find_source(literal: Literal, words: SessionWords) -> LiteralSource:
    """Return where a literal comes from. What else may vouch for one belongs here, and nowhere else.

    The words of a command must come from one turn: typed apart, they are another command. A turn that only forbids a
    word does not license its use.
    """
    if any(_is_typed_in(literal, turn) for turn in words.typed):
        return LiteralSource.TYPED
    return LiteralSource.UNKNOWN


def _is_typed_in(literal: Literal, turn: str) -> bool:
    return all(_find_word(word, turn, is_any=literal.is_forbidden) for word in literal.words)


class _TypedTurn(NamedTuple):
    statements: tuple[tuple[Statement, tuple[_PlacedWord, ...]], ...]
    words: frozenset[str]
    stems: frozenset[str]
    text: str


@lru_cache(maxsize=256)
def _read_turn(turn: str) -> _TypedTurn:
    statements = []
    for statement in split_statements(_read_signs(turn)):
        statements.append((statement, tuple(_split_tokens(statement.text))))
    words = [one.word for one in chain.from_iterable(tokens for _, tokens in statements)]
    stems = frozenset(stem(one) for one in words if _PLAIN_WORD.fullmatch(one))
    return _TypedTurn(tuple(statements), frozenset(words), stems, f" {' '.join(words)} ")


def _find_word(word: str, turn: str, *, is_any: bool) -> bool:
    """Return whether a turn has a word, in any stance or in one that does not forbid it."""
    typed = _read_turn(turn)
    if word in typed.words or (_PLAIN_WORD.fullmatch(word) and stem(word) in typed.stems):
        return is_any or _is_used(word, typed)
    name, sign, value = word.partition("=")
    if sign and value and word.startswith("-"):
        return all(_find_word(_fold_word(one), turn, is_any=is_any) for one in (name, value))
    # "Type-check" where the person typed "type check".
    spaced = word.replace("-", " ").replace("/", " ")
    return _HYPHENATED.fullmatch(word) is not None and f" {spaced} " in typed.text


def _is_used(word: str, typed: _TypedTurn) -> bool:
    """Return whether a word stands somewhere in a turn where the turn does not forbid it."""
    root = stem(word)
    for statement, tokens in typed.statements:
        for token in tokens:
            if (token.word == word or stem(token.word) == root) and not _is_avoided(statement, tokens, token):
                return True
    return False


def _is_avoided(statement: Statement, tokens: tuple[_PlacedWord, ...], token: _PlacedWord) -> bool:
    """Return whether a statement forbids a word itself, not only something at that place or time."""
    places = _load_vocabulary()["places"]
    is_place = any(one.word in places for one in tokens if one.start < token.start)
    return not is_place and is_forbidden(statement, token.start, token.end)
