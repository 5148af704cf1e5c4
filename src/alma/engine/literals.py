"""Literals: the commands, flags, paths, addresses, numbers and names in a text, and where each of them comes from.

Ordinary words may be put in other words. A literal may not: an agent runs it as it stands. So a rule that a model
words is a person's only if the person typed each of its literals, or accepted the deeds of the agent that have them.
`find_source` is the one place that says where a literal comes from.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from ..text import STOP, is_common
from .escape import remove_unseen
from .reversals import find_reversals, is_left_behind, is_negated, is_surely_negated, spell_out_contrasts
from .safety import WIDE_EDGE, Statement, is_forbidden, may_invert, split_statements
from .typed_statements import (
    TypedSentence,
    is_dismissed,
    is_inflected,
    is_ordinary,
    read_turn,
    split_rejection,
)

_CODE = re.compile(r"`[^`\n]{1,400}`(?:\s*`[^`\n]{1,400}`)*")
_TOKEN = re.compile(r"[^\s,;，；。、：！？「」『』（）\"“”„«»`]+")
_OUTER_START = "*_~([{<'‘’"
_OUTER_END = "*_~)]}>'‘’.,:;!?…%"
_SIGN = re.compile(r"\d|\w[/\\_@=:.$#&|]+\w|^[/~$@#.][\w/.]|^--?\w|[|&<>$]|[a-z][A-Z]|\w/$")
_HYPHENATED = re.compile(r"[^\W\d_]+(?:[-/][^\W\d_]+)+")
_CAPITALS = re.compile(r"[A-Z]{2,}s?")
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")
_OTHER_LETTER = re.compile(r"[\u0370-\u1fff]")
_WIDE_SIGN = re.compile(r"[\u2e80-\uffef]")
_LETTERS_OF_SIGN = 4  # So many letters a Latin word has for one character of Chinese or Japanese.
_REACH = 120  # What stands farther away from a word does not speak for or against it.
_MOST_CHARS = 1000
_SPACES = re.compile(r"[^\S\n]{20,}")
_LONG_WORD = re.compile(r"(?<!\S)\S{700,}")
_GAP = "ǂ"  # Stands for what differs from case to case: `<name>` in a rule.
_PLACEHOLDER = re.compile(r"<\s*(?=[^\W\d])[\w .-]{1,30}>|(?<=\s)(?:…|\.\.\.)(?=\s|`|$)")
_NAME_PART = re.compile(r"[A-Z]?[a-z\u00df-\u024f]+|[A-Z]+(?![a-z])|[^\W\d_A-Za-z]+")
_REPEATING = re.compile(r"re-?([^\W\d_]{5,})")
_ORDINAL = re.compile(r"(\d{1,4})(?:st|nd|rd|th)")
_MEASURE = re.compile(r"(\d[\d.,]*)([a-zµ°][a-zµ°/²³]{0,10})?")
_FAILURE = re.compile(
    r"\s*(?:(?:alone|directly|itself|here|there|now|always|just)\s+)*(?:fails?|failed|breaks|crashes|crashed|hangs|misses"
    r"|(?:does|did|do)(?:n['’]?t|\s+not)\s+work|(?:is|was)\s+(?:wrong|broken|deprecated))\b",
    re.I,
)
_PAIR = re.compile(r"([^\W\d][\w.-]{0,60})[\"']?\s{0,3}[:=]\s{0,3}[\"']?([\w.-]{1,60})")
_OPERATOR = re.compile(r"[|&<>]{1,3}")
_PLAIN_WORD = re.compile(r"[^\W\d_]+(?:'[a-z]+)?")


class LiteralSource(StrEnum):
    """Where a literal comes from."""

    TYPED = "typed"  # The person typed it in the session.
    DONE = "done"  # The agent did it, and the person accepted that.
    UNKNOWN = "unknown"  # A file, a page, a tool, the agent or the model brought it in.


class Literal(NamedTuple):
    """A literal: the words of a command, or one name.

    `is_forbidden` is whether the text surely forbids it, `is_failing` whether it says no more than that it fails.
    """

    words: tuple[str, ...]
    is_forbidden: bool = False
    is_failing: bool = False


class AcceptedDeed(NamedTuple):
    """Something that the agent did and the person accepted: a command, or a path and the lines that were written.

    Words that came from outside are left out of `text`. Where the person said yes to a `question`, they accepted no
    more than what it names. `quote` are the accepting words, and `turns` the ids of the turns around the deed.
    """

    text: str
    question: str = ""
    quote: str = ""
    turns: tuple[str, ...] = ()


class SessionWords(NamedTuple):
    """What a literal may come from: the person's own typed words of a session, turn by turn, and accepted deeds.

    `avoided` is what the agent did before, with or without success: a rule may name it to forbid it. `is_outside` says
    whether a plain word came from outside, where that is known. Without it, each plain word that is neither typed nor
    ordinary counts as one that did. `is_spoken` says whether a word stands in a message of the agent.
    """

    typed: tuple[str, ...]
    deeds: tuple[AcceptedDeed, ...] = ()
    avoided: tuple[str, ...] = ()
    is_outside: Callable[[str], bool] | None = None
    is_spoken: Callable[[str], bool] | None = None


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
    """Return a text without invisible and full-width characters. A look-alike of another script stays another.

    Long runs of spaces are short ones, and a word that is longer than a rule is left out: it would only take time.
    """
    text = _LONG_WORD.sub(" ", _SPACES.sub("  ", text))
    return spell_out_contrasts(WIDE_EDGE.sub(" ", unicodedata.normalize("NFKC", remove_unseen(text))))


def _split_tokens(text: str) -> Iterator[_PlacedWord]:
    for match in _TOKEN.finditer(text):
        written = match[0].lstrip(_OUTER_START).rstrip(_OUTER_END).removesuffix("'s").removesuffix("’s")
        if _OPERATOR.fullmatch(match[0]):
            yield _PlacedWord(match[0], match[0], match.start(), match.end())
        elif any(sign.isalnum() for sign in written):
            yield _PlacedWord(_fold_word(written), written, match.start(), match.end())


def _fold_word(word: str) -> str:
    """Return a word as it is compared: the case of a short option counts, a number may be written out."""
    if re.match(r"-\w", word):
        return word
    folded = word.casefold().rstrip("/") or word
    if ordinal := _ORDINAL.fullmatch(folded):
        return ordinal[1]
    numbers: Mapping[str, str] = _load_vocabulary()["numbers"]
    return numbers.get(folded, folded)


def is_vocabulary(word: str) -> bool:
    """Return whether a word is the name of a common program or of what such programs do, or an acronym."""
    vocabulary = _load_vocabulary()
    return any(word in vocabulary[name] for name in ("programs", "subcommands", "acronyms", "not_names"))


# -- the literals of a text


def find_literals(text: str) -> list[Literal]:
    """Return the literals of a text: each command in backticks or after a program's name, and each single name."""
    plain = _PLACEHOLDER.sub(_GAP, _read_signs(text))
    others = len(_OTHER_LETTER.findall(plain)) + _LETTERS_OF_SIGN * len(_WIDE_SIGN.findall(plain))
    is_latin = len(_LATIN.findall(plain)) >= others
    found = []
    for statement in split_statements(plain):
        for code in _CODE.finditer(statement.text):
            words = [token.word for token in _split_tokens(code[0])]
            is_failing = _is_failing(statement.text, code.start(), code.end())
            found.append(Literal(_trim_gaps(words), _forbids(statement, code.start(), code.end()), is_failing))
        bare = _CODE.sub(lambda code: " " * len(code[0]), statement.text)
        for run in _find_runs(list(_split_tokens(bare)), is_latin):
            is_avoided = _forbids(statement, run[0].start, run[-1].end)
            found.append(Literal(_trim_gaps([token.word for token in run]), is_avoided))
    return [one for one in found if one.words]


def _trim_gaps(words: list[str]) -> tuple[str, ...]:
    """Return words without placeholders at their ends: `make <target>` names nothing but make."""
    while words and words[-1] == _GAP:
        words = words[:-1]
    while words and words[0] == _GAP:
        words = words[1:]
    return tuple(words)


def _forbids(statement: Statement, start: int, end: int) -> bool:
    """Return whether a statement of a rule surely asks for no use of what stands between two positions."""
    before = statement.text[:start]
    is_given_up = is_left_behind(statement.text, start) and not is_negated(statement.text)
    return is_given_up or is_surely_negated(before) or is_forbidden(statement, start, end)


def _is_failing(text: str, start: int, end: int) -> bool:
    """Return whether a statement says of what stands between two positions that it fails, without a condition."""
    failure = _FAILURE.match(text, end)
    if failure is None:
        return False
    return not may_invert(text[:start]) and not may_invert(text[failure.end() :])


def _find_runs(tokens: list[_PlacedWord], is_latin: bool) -> Iterator[list[_PlacedWord]]:
    """Yield each run of words that makes one literal: a program and its arguments, or a single name."""
    vocabulary = _load_vocabulary()
    run: list[_PlacedWord] = []
    for index, token in enumerate(tokens):
        if not run and _is_plain_use(tokens, index):
            continue
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


def _is_plain_use(tokens: list[_PlacedWord], index: int) -> bool:
    """Return whether a word that is a program's name, too, is surely used as a plain one: "make sure", "each node"."""
    vocabulary = _load_vocabulary()
    word = tokens[index].word
    if word not in vocabulary["plain_programs"]:
        return False
    before = tokens[index - 1].word if index else ""
    after = [token.word for token in tokens[index + 1 : index + 3]]
    following = after[0] if after else ""
    determiners = vocabulary["determiners"]
    is_tool = before in vocabulary["tool_words"]
    if word == "just":
        is_adverb = following in STOP or following in vocabulary["just_verbs"]
        return following in determiners or (is_adverb and not is_tool)
    if word == "make":
        # "Make all" names a target, "make all buttons blue" does not.
        is_target = len(after) < 2 or after[1] in vocabulary["ends"]
        is_described = following in determiners or following in vocabulary["made_words"]
        is_verb = following in vocabulary["made_things"] or (is_described and not is_target)
        return is_verb and not is_tool
    # "A node server" names a program.
    is_noun = before in determiners and before != "that"
    return is_noun and (not following or following in vocabulary["ends"] or following in STOP)


def _takes_argument(run: list[_PlacedWord], token: _PlacedWord) -> bool:
    """Return whether a plain word after a run of words is part of the command: "install" and "evil" after "pip"."""
    vocabulary, before = _load_vocabulary(), run[-1].word
    is_named = before in vocabulary["introducers"] or (before in vocabulary["subcommands"] and len(run) > 1)
    if is_named:
        return True
    is_program = before in vocabulary["programs"]
    return is_program and (token.word in vocabulary["subcommands"] or _is_strange(token.word))


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


def find_untyped(texts: Sequence[str], words: SessionWords) -> list[str]:
    """Return the literals of texts that the person did not type, and words that they typed the other way round.

    What exceeds `_MOST_CHARS` is not stored, and so not read.
    """
    texts = [text[:_MOST_CHARS] for text in texts]
    literals = chain.from_iterable(map(find_literals, texts))
    unknown = [literal for literal in literals if _is_unknown(literal, words)]
    named = list(dict.fromkeys(" ".join(one.words).replace(_GAP, "<…>") for one in unknown))
    parts = set(chain.from_iterable(one.words for one in unknown))
    sentences = list(chain.from_iterable(read_turn(_read_signs(turn)) for turn in words.typed))
    for deed in words.deeds:
        sentences += [TypedSentence(line, is_licensing=True) for line in deed.text.splitlines()]
    for text in texts:
        text = _PLACEHOLDER.sub(" ", _read_signs(text))
        reversals = find_reversals(text, sentences)
        for word in (*_find_unlicensed_words(text, words), *_find_strange_numbers(text, words), *reversals):
            if word not in parts and word not in named:
                named.append(word)
    return named


def _is_unknown(literal: Literal, words: SessionWords) -> bool:
    """Return whether nobody typed or did a literal. A compound ("cross-validation") may be a reader's own word."""
    if find_source(literal, words) is not LiteralSource.UNKNOWN:
        return False
    name = literal.words[0]
    is_compound = len(literal.words) == 1 and _HYPHENATED.fullmatch(name) is not None and "/" not in name
    if not is_compound or words.is_outside is None or name in _load_vocabulary()["programs"]:
        return True
    if words.is_spoken is None or words.is_spoken(name):
        return True
    return any(map(words.is_outside, (name, *name.split("-"))))


def find_source(literal: Literal, words: SessionWords) -> LiteralSource:
    """Return where a literal comes from. What else may vouch for one belongs here, and nowhere else.

    The words of a command must come from one sentence, in their order: typed apart, they are another command. A
    sentence that forbids a word, asks about it or reports it does not license its use. What the person typed only in
    such sentences, no deed licenses either.
    """
    bare = _drop_units(literal)
    for turn in words.typed:
        if _is_typed_in(literal, turn) or (bare is not None and _is_typed_in(bare, turn)):
            return LiteralSource.TYPED
    if literal.is_forbidden:
        is_done = any(_is_done_in(literal, text) for text in words.avoided)
        return LiteralSource.DONE if is_done else LiteralSource.UNKNOWN
    mentioned = literal._replace(is_forbidden=True)
    may_be_done = bool(words.deeds) or literal.is_failing
    if may_be_done and any(_is_typed_in(mentioned, turn) for turn in words.typed):
        return LiteralSource.UNKNOWN
    if literal.is_failing and any(_is_done_in(literal, text) for text in words.avoided):
        return LiteralSource.DONE
    return LiteralSource.DONE if list_sources(literal, words) else LiteralSource.UNKNOWN


def _drop_units(literal: Literal) -> Literal | None:
    """Return a literal without the units of its numbers, or None if it has none: 0.8 for "0.8 m/s".

    Whether the person typed another unit there is found by `_find_strange_numbers`.
    """
    units = _load_vocabulary()["units"]
    kept: list[str] = []
    for word in literal.words:
        number, unit = _split_measure(word)
        is_after_number = bool(kept) and _MEASURE.fullmatch(kept[-1]) is not None
        if not (word in units and is_after_number):
            kept.append(number if unit else word)
    return None if tuple(kept) == literal.words else literal._replace(words=tuple(kept))


def _split_measure(word: str) -> tuple[str, str]:
    """Return the number and the unit of a word such as "12px"; the word and nothing if it is none."""
    measure = _MEASURE.fullmatch(word)
    if measure is None or measure[2] not in _load_vocabulary()["units"]:
        return word, ""
    return measure[1], measure[2]


def list_sources(literal: Literal, words: SessionWords) -> list[AcceptedDeed]:
    """Return the accepted deeds that have a literal, word for word."""
    found = []
    for deed in words.deeds:
        is_asked = not deed.question or _is_done_in(literal, deed.question)
        if is_asked and _is_done_in(literal, deed.text):
            found.append(deed)
    return found


def names_place(text: str) -> bool:
    """Return whether a text names something to open, fetch or pass: an address, a path, a flag or a name with signs."""
    return any(_SIGN.search(word) and not word.isdigit() for one in find_literals(text) for word in one.words)


def names_same_place(text: str, deed: str) -> bool:
    """Return whether a deed has one of the places, flags or commands that a text names."""
    return any(names_place(" ".join(one.words)) and _is_done_in(one, deed) for one in find_literals(text))


def list_used_deeds(texts: Sequence[str], words: SessionWords) -> list[AcceptedDeed]:
    """Return the accepted deeds that literals of texts come from, which the person did not type."""
    used: dict[AcceptedDeed, None] = {}
    for literal in chain.from_iterable(map(find_literals, texts)):
        if find_source(literal, words) is LiteralSource.DONE:
            used |= dict.fromkeys(list_sources(literal, words)[:1])
    return list(used)


def _is_done_in(literal: Literal, text: str) -> bool:
    """Return whether a line of a deed has the words of a literal, in order and with nothing between them.

    A single plain word may be part of a name: "PDF" of `figures/heat.pdf`. Two words may be a name and its value.
    """
    is_plain = len(literal.words) == 1 and literal.words[0].isalpha()
    if is_plain and literal.words[0] in _list_name_parts(text):
        return True
    if len(literal.words) == 2 and not is_vocabulary(literal.words[0]) and literal.words in _list_pairs(text):
        return True
    pattern = _compile_words(literal.words)
    return any(pattern.search(line) for line in _list_deed_lines(text))


@lru_cache(maxsize=512)
def _list_pairs(text: str) -> frozenset[tuple[str, str]]:
    """Return the settings in a deed as names with their values: `level="info"`, `level: info`."""
    pairs = _PAIR.findall(_read_signs(text))
    return frozenset((_fold_word(name), _fold_word(value)) for name, value in pairs)


@lru_cache(maxsize=512)
def _list_deed_lines(text: str) -> tuple[str, ...]:
    lines = _read_signs(text.replace("\\\n", " ")).splitlines()
    return tuple(" ".join(_split_values(token.word for token in _split_tokens(line))) for line in lines)


@lru_cache(maxsize=512)
def _compile_words(words: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of words as a deed has them: a folder also in a path, a name also before its arguments."""
    parts = []
    for word in _split_values(words):
        name = r"[^\s/]{1,60}".join(map(re.escape, word.split(_GAP)))
        parts.append(r"\S{1,60}(?: \S{1,60}){0,2}" if word == _GAP else name)
    # A name may be a part of a longer one: "ImageField" of `models.ImageField`.
    start = r"(?<![\w-])" if words[0][:1].isalnum() else r"(?<!\S)" if words[0].startswith("-") else r"(?<![-])"
    return re.compile(start + " ".join(parts) + r"(?![\w-]|[.:@]\w)")


def _is_typed_in(literal: Literal, turn: str) -> bool:
    wanted = _split_values(literal.words)
    return any(_has_run(wanted, sentence, literal.is_forbidden) for sentence in read_turn(_read_signs(turn)))


def _split_values(words: Iterable[str]) -> list[str]:
    """Return words with `--flag=value` as two words."""
    parts = []
    for word in words:
        name, sign, value = word.partition("=")
        is_flag = bool(sign and value) and word.startswith("-")
        parts += [name, _fold_word(value)] if is_flag else [word]
    return parts


def _has_run(wanted: list[str], sentence: TypedSentence, is_any: bool) -> bool:
    """Return whether a sentence has these words in this order, with nothing but filler words between them."""
    typed = _list_typed_words(sentence, is_any)
    return any(_matches_from(wanted, typed, start) for start in range(len(typed)))


def _matches_from(wanted: list[str], typed: Sequence[str], position: int) -> bool:
    fillers = _load_vocabulary()["fillers"]
    for number, word in enumerate(wanted):
        if _GAP in word:
            pattern = r"\S+".join(map(re.escape, word.split(_GAP)))
            if position >= len(typed) or not re.fullmatch(pattern, typed[position]):
                return False
            position += 1
            continue
        parts = re.split("[-/]", word) if _HYPHENATED.fullmatch(word) else [word]
        while number and position < len(typed) and typed[position] in fillers and typed[position] != word:
            position += 1
        if position < len(typed) and typed[position] == word:
            position += 1
            continue
        following = typed[position : position + len(parts)]
        # "Type-check" where the person typed "type checks".
        if len(parts) == 1 or len(following) < len(parts) or not all(map(is_inflected, parts, following)):
            return False
        position += len(parts)
    return True


@lru_cache(maxsize=2048)
def _list_typed_words(sentence: TypedSentence, is_any: bool) -> tuple[str, ...]:
    """Return the words of a sentence as they are compared; empty where they license no use."""
    listed: list[str] = []
    for statement in split_statements(sentence.text):
        for token in _split_tokens(statement.text):
            is_used = is_any or (sentence.is_licensing and not _is_avoided(statement, token))
            listed += _split_values([token.word]) if is_used else [""]
    return tuple(listed)


def _find_unlicensed_words(text: str, words: SessionWords) -> Iterator[str]:
    """Yield the plain words of a text that are neither ordinary nor the person's, and may have come from outside.

    A reader may put in its own words what it read. It must not carry in the words of a page or a tool.
    Ordinary words count, too, if the person typed most of them only where a use is forbidden or asked about.
    """
    typed: set[str] = set()
    used: set[str] = set()
    for turn in words.typed:
        typed.update(_list_turn_words(turn, is_any=True))
        used.update(_list_turn_words(turn, is_any=False))
    done = set(chain.from_iterable(map(_list_accepted_parts, words.deeds)))
    avoided = set(chain.from_iterable(map(_list_name_parts, words.avoided)))
    told = []
    doubtful = []
    for word, is_wanted in _list_plain_words(text).items():
        is_used = _is_among(word, used if is_wanted else typed)
        if not is_used and _is_strange(word):
            if words.is_outside is not None and not words.is_outside(word):
                continue
            if word not in (done if is_wanted else done | avoided) or (is_wanted and word in typed):
                yield word
        elif is_wanted and word not in STOP and _is_among(word, typed):
            told.append(word)
            if not is_used:
                doubtful.append(word)
    # What was done and accepted need not be worded as the person did.
    if 2 * len(doubtful) > len(told) and not list_used_deeds([text], words):
        yield from doubtful


def _list_accepted_parts(deed: AcceptedDeed) -> frozenset[str]:
    parts = _list_name_parts(deed.text)
    return parts & _list_name_parts(deed.question) if deed.question else parts


@lru_cache(maxsize=512)
def _list_name_parts(text: str) -> frozenset[str]:
    """Return the words that the names in a deed are made of: "fake" and "clock" for `FakeClock`."""
    return frozenset(part.casefold() for part in _NAME_PART.findall(_read_signs(text)))


def _is_strange(word: str) -> bool:
    """Return whether a word may be a name. Names of programs and packages are in Latin letters without accents."""
    vocabulary = _load_vocabulary()
    if word in vocabulary["acronyms"] or word in vocabulary["not_names"]:
        return False
    if not word.isascii() or is_ordinary(word):
        return False
    # "Regenerate" is as ordinary as "generate".
    repeated = _REPEATING.fullmatch(word)
    return repeated is None or not is_ordinary(repeated[1])


def _list_plain_words(text: str) -> dict[str, bool]:
    """Return the plain words of a text, and whether it asks for each: a statement that forbids asks for none."""
    placed = {}
    for statement in split_statements(_CODE.sub(" ", _read_signs(text))):
        for token in _split_tokens(statement.text):
            if _PLAIN_WORD.fullmatch(token.word):
                placed[token.word.partition("'")[0]] = not _forbids(statement, token.start, token.end)
    return placed


def _list_turn_words(turn: str, is_any: bool) -> Iterator[str]:
    """Yield the words of a turn, or of those sentences only that license a use."""
    for sentence in read_turn(_read_signs(turn)):
        yield from filter(None, _list_typed_words(sentence, is_any or sentence.is_complaint))


def _is_among(word: str, known_words: Iterable[str]) -> bool:
    return any(is_inflected(word, known) for known in known_words)


def _find_strange_numbers(text: str, words: SessionWords) -> Iterator[str]:
    """Yield the numbers of a text that the person typed beside other words or with other units only."""
    units: Mapping[str, str] = _load_vocabulary()["units"]
    typed: dict[str, set[str]] = {}
    for turn in (*words.typed, *(deed.text for deed in words.deeds)):
        for number in _list_numbers(turn):
            typed.setdefault(number.word, set()).update(number.beside)
    for number in _list_numbers(text):
        own = typed.get(number.word, set())
        others: set[str] = set()
        for other, names in typed.items():
            if other != number.word:
                others |= names
        # "12px, not 20px": what is forbidden may have the unit of what is wanted.
        beside = number.beside.difference(units) if number.is_forbidden else number.beside
        if _has_other_unit(number.beside, own) or beside & (others - own):
            yield number.word


def _has_other_unit(beside: set[str], own: set[str]) -> bool:
    """Return whether the words beside a number have a unit, and those that the person typed beside it another one."""
    units: Mapping[str, str] = _load_vocabulary()["units"]
    rule_units = {units[word] for word in beside if word in units}
    own_units = {units[word] for word in own if word in units}
    return bool(rule_units and own_units) and rule_units.isdisjoint(own_units)


class _PlacedNumber(NamedTuple):
    word: str
    beside: set[str]  # The words that stand next to it, filler words aside.
    is_forbidden: bool


def _list_numbers(text: str) -> Iterator[_PlacedNumber]:
    """Yield each number of a text, with its unit as a word beside it."""
    fillers = _load_vocabulary()["fillers"] | STOP
    for statement in split_statements(_read_signs(text)):
        tokens: list[tuple[str, _PlacedWord]] = []
        for token in _split_tokens(statement.text):
            if token.word not in fillers:
                tokens += [(part, token) for part in _split_measure(token.word) if part]
        listed = [word for word, _ in tokens]
        for index, (word, token) in enumerate(tokens):
            if word[0].isdigit():
                beside = {*listed[max(0, index - 1) : index], *listed[index + 1 : index + 2]}
                yield _PlacedNumber(word, beside, _forbids(statement, token.start, token.end))


def _is_avoided(statement: Statement, token: _PlacedWord) -> bool:
    """Return whether a statement speaks against a word itself, not only against something at that place or time."""
    cut = max(0, token.start - _REACH)
    text = statement.text[cut : token.end + _REACH]
    before, after = text[: token.start - cut], text[token.end - cut :]
    if _is_place(before):
        return False
    lead = split_rejection(before)
    # "Never commit without make lint" wants it.
    is_rejected = lead is not None and not is_negated(lead)
    if is_rejected or is_negated(before) or is_dismissed(after) or is_left_behind(text, len(before)):
        return True
    return is_forbidden(statement._replace(text=text), len(before), token.end - cut)


def _is_place(before: str) -> bool:
    """Return whether a word is the place of a ban: "don't use npm in packages/web" forbids npm, and not the place."""
    vocabulary = _load_vocabulary()
    has_ban = has_place = False
    for word in before.casefold().split():
        if word in vocabulary["negations"]:
            has_ban, has_place = True, False
        elif word in vocabulary["places"]:
            has_place = True
    return has_ban and has_place
