"""A reader that needs no model. It recognises the same text in a light rewording and is unsure about everything else.

Two texts are the same when their words match one by one, in order. Articles, punctuation, capitalisation, contractions,
common abbreviations and British spelling make no difference. In an action ("Ran the tests") neither does the tense of
its verbs. A leading clause ("Before merging, …") or adverb may also stand at the end. Numbers, options, operators,
quoted text, paths and identifiers must be equal to the letter. Every other word counts, so a negation, an opposite, a
swapped direction, a plural ("http", "https") or an extra detail keeps two texts apart.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from ..ports import PairReader
from ..text import STOP, normalise
from .port import (
    UNSURE,
    Entities,
    MemoryProposal,
    Observation,
    Pair,
    PairKind,
    Reader,
    Relation,
    Repair,
    RuleProposal,
    SpokenTurn,
    StoredText,
    TaskPlan,
    Verdict,
)


@lru_cache(maxsize=8)
def load_file(file: str) -> Any:
    """Return the content of a JSON file of this package."""
    return json.loads(Path(__file__).with_name(file).read_text(encoding="utf-8"))


@lru_cache(maxsize=128)
def load_vocabulary(file: str, name: str) -> Any:
    """Return an entry of a vocabulary file. A list comes as a frozenset."""
    entry = load_file(file)[name]
    return frozenset(entry) if isinstance(entry, list) else entry


def join_longest_first(parts: Iterable[str]) -> str:
    """Join the alternatives of a regular expression, so that a longer one wins over its own beginning."""
    return "|".join(sorted(parts, key=len, reverse=True))


@lru_cache(maxsize=64)
def match_any(file: str, name: str) -> re.Pattern[str]:
    """Return a pattern that matches any expression of a vocabulary entry as whole words, in any case."""
    return re.compile(rf"\b(?:{join_longest_first(load_vocabulary(file, name))})\b", re.IGNORECASE)


_vocabulary = partial(load_vocabulary, "vocabulary.json")
_SAME = Relation(Verdict.SAME, 0.99)
_ACTION = PairKind.ACTION
_MAX_CHARS = 4_000
_PIECE = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”|\S+")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_GROUPED_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)([A-Za-z]{1,3}|%)")
_LETTERS = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
_HYPHENATED = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+")
_OPENING, _CLOSING = "([{'‘", ".,;:!?…'’)]}"
_BREAKS = frozenset(",;:.!?…–—")


class _Token(NamedTuple):
    """A word with the forms it may be an inflection of, or a literal without forms, which matches only itself."""

    surface: str
    forms: frozenset[str] = frozenset()

    def matches(self, other: _Token) -> bool:
        if self.forms and other.forms:
            return not self.forms.isdisjoint(other.forms)
        return self.surface == other.surface


_COMMA = _Token(",")
_Tokens = tuple[_Token, ...]


_COMMAND_CHARS = 4_000
_OUTPUT_CHARS = 8_000
_JOINS = frozenset(("&&", "||", ";", "|", "&"))
_PREFIXES = frozenset(("sudo", "env", "time", "command", "exec", "npx"))
_NAMED_CHARS = 3
_CODE_FAILURE = re.compile(
    r"\b(?:assert\w*|expected|failures?|tests? failed|\d+ (?:failed|errors?)|failed \d|error ts\d+|undefined|\w*lint"
    r"|(?:type|name|attribute|value|key|reference)error|compil\w+|mismatch)\b",
    re.IGNORECASE,
)


READ_AT_ONCE, _READ_CHARS = 4, 400  # The maximum number of pairs that the embedder reads in one call, and their length.


class LocalReader(Reader):
    """Reads by words and explicit forms, and is unsure about everything else.

    An embedder that reads pairs of texts also says how two texts relate, where it is sure. The readers of rules,
    memories, tasks and entities are loaded when they are first asked: most memories need none.
    """

    def __init__(self, pairs: PairReader | None = None) -> None:
        self._pairs = pairs

    def find_rules(self, turns: Sequence[SpokenTurn], known: Sequence[StoredText] = ()) -> list[RuleProposal]:
        """Return the rules that the person of a coding session taught."""
        from .local_rules import find_rules

        return find_rules(turns, known, self)

    def explain_repairs(self, repairs: Sequence[Repair]) -> list[Observation]:
        """Return one observation for each repair, which quotes both commands and explains nothing.

        It has no note where the command did not change, or where the output reports failing code: an edit helped there.
        """
        observations = []
        for one in repairs:
            is_unchanged = one.failed.split() == one.worked.split()
            is_code = _CODE_FAILURE.search(one.output[:_OUTPUT_CHARS])
            note = f"`{one.failed.strip()}` failed, `{one.worked.strip()}` worked"
            observations.append(Observation(one, "" if is_unchanged or is_code else note))
        return observations

    def compare(self, pairs: Sequence[Pair]) -> list[Relation]:
        """Return for each pair whether both texts surely say the same, or what else the embedder is sure of."""
        relations = [_SAME if _is_same(pair) else UNSURE for pair in pairs]
        if self._pairs is not None:
            unsure = [at for at, relation in enumerate(relations) if relation is UNSURE and self._can_read(pairs[at])]
            unsure = unsure[:READ_AT_ONCE]
            for at, relation in zip(unsure, _read_relations(self._pairs, [pairs[at] for at in unsure]), strict=True):
                relations[at] = relation
        return relations

    def _can_read(self, pair: Pair) -> bool:
        is_short = max(len(pair.first), len(pair.second)) <= _READ_CHARS
        knows = getattr(self._pairs, "knows", None)
        return is_short and (knows is None or (knows(pair.first) and knows(pair.second)))

    def find_memories(self, turns: Sequence[SpokenTurn], known: Sequence[StoredText] = ()) -> list[MemoryProposal]:
        """Return the memories that a conversation contains."""
        from .local_memories import find_local_memories

        return find_local_memories(turns)

    def plan_tasks(self, prompt: str) -> TaskPlan:
        """Split a request into tasks and constraints."""
        from .local_tasks import plan_tasks

        return plan_tasks(prompt)

    def find_entities(self, texts: Sequence[str], speakers: Sequence[str] = ()) -> list[Entities]:
        """Return the entities and relations of each text."""
        from .local_entities import find_entities

        return [find_entities(text, speaker) for text, speaker in zip_longest(texts, speakers, fillvalue="")]


def _read_relations(reader: PairReader, pairs: Sequence[Pair]) -> list[Relation]:
    """Return how the texts of each pair relate, where the embedder is sure. Strategies are read in both orders."""
    texts = [(pair.first, pair.second) for pair in pairs]
    scores = dict(zip(texts, reader.read_pairs(texts), strict=True))
    turned = [(second, first) for (first, second), pair in zip(texts, pairs, strict=True) if pair.about is _ACTION]
    scores |= dict(zip(turned, reader.read_pairs(turned), strict=True))
    least = reader.calibration
    relations = []
    for (first, second), pair in zip(texts, pairs, strict=True):
        if pair.about is _ACTION:
            ways = scores[first, second].action, scores[second, first].action
            same, opposite = (sum(column) / 2 for column in list(zip(*ways, strict=True))[:2])
            chances = ((Verdict.SAME, same, least.same), (Verdict.CONTRADICTS, opposite, least.opposite))
        else:
            odds = scores[first, second].fact
            chances = ((Verdict.SAME, odds.agrees, least.agrees), (Verdict.REPLACES, odds.replaces, least.replaces))
        sure = (Relation(verdict, chance) for verdict, chance, enough in chances if chance >= enough)
        relations.append(next(sure, UNSURE))
    return relations


def are_opposites(first: str, second: str) -> bool:
    """Return whether one of two words undoes the other: "enable" and "disable", "lock" and "unlock"."""
    opposites = _vocabulary("opposites")
    if f"{first} {second}" in opposites or f"{second} {first}" in opposites:
        return True
    short, long = sorted((first, second), key=len)
    return len(short) > 3 and any(long == prefix + short for prefix in ("un", "non", "dis", "in", "im", "de"))


def _is_same(pair: Pair) -> bool:
    if pair.first == pair.second:
        return True
    if max(len(pair.first), len(pair.second)) > _MAX_CHARS:
        return False
    first, second = (_read_orders(text, pair.about) for text in (pair.first, pair.second))
    return any(
        bool(one) and len(one) == len(other) and all(map(_Token.matches, one, other))
        for one in first
        for other in second
    )


def has_same_words(pair: Pair) -> bool:
    """Return whether two texts certainly say the same: but for case, punctuation and "the", they are equal."""
    pieces = [[one.strip(_OPENING + _CLOSING) for one in normalise(text).split()] for text in pair[:2]]
    first, second = ([one for one in text if one != "the"] for text in pieces)
    return first == second and _is_same(pair)


@lru_cache(maxsize=4096)
def _read_orders(text: str, about: PairKind) -> tuple[_Tokens, ...]:
    """Return the tokens of a text in each order that means the same: as written, and with a leading clause last."""
    text = text.strip().replace("’", "'")
    if len(text) > 1 and text[0] + text[-1] in ('""', "“”", "''") and text[0] not in text[1:-1]:
        text = text[1:-1].strip()
    clauses = _read_clauses(text, about)
    # "No, deploy" is not "No deploy".
    pause = (_COMMA,) if len(clauses) > 1 and len(clauses[0]) == 1 else ()
    as_written = tuple(token for clause in clauses for token in _move_adverb(clause)) + pause
    if len(clauses) != 2 or clauses[0][0].surface.casefold() not in _vocabulary("markers"):
        return (as_written,)
    return (as_written, _move_adverb((*clauses[1], *clauses[0])))


def _move_adverb(clause: _Tokens) -> _Tokens:
    """Move an adverb from the start of a clause to its end: "Always run it" and "Run it always" are the same."""
    first = clause[0].surface.casefold() if clause else ""
    is_adverb = first in _vocabulary("adverbs") or (first.endswith("ly") and len(first) > 4 and first != "only")
    return (*clause[1:], clause[0]) if is_adverb and clause[0].forms else clause


def _read_clauses(text: str, about: PairKind) -> list[_Tokens]:
    """Split a text at its punctuation and read the tokens of each clause."""
    clauses = [_Clause(about, shouting=text.isupper())]
    for piece in _PIECE.findall(text):
        if len(piece) > 1 and piece[0] + piece[-1] in ("``", '""', "“”"):
            clauses[-1].add_literal(piece[1:-1])
            continue
        if _BREAKS.issuperset(piece) and piece not in (".", ".."):
            clauses.append(_Clause(about, clauses[0].shouting))
            continue
        core = piece.lstrip(_OPENING)
        if piece[0] in "([{":
            clauses.append(_Clause(about, clauses[0].shouting))
        ending = len(core)
        while ending and core[ending - 1] in _CLOSING and not (core[ending - 1] in ")]}" and "(" in core):
            ending -= 1
        clauses[-1].add_piece(core[:ending] or piece)
        if "?" in core[ending:]:
            clauses[-1].add_literal("?")
        if not _BREAKS.isdisjoint(core[ending:]) and ending:
            clauses.append(_Clause(about, clauses[0].shouting))
    return [tuple(clause.list_tokens()) for clause in clauses if clause.tokens]


class _Clause:
    """The tokens of one clause, read from left to right."""

    def __init__(self, about: PairKind, shouting: bool) -> None:
        self.tokens: list[_Token] = []
        self.shouting = shouting
        self._is_action = about is PairKind.ACTION
        self._expects_verb = True
        self._in_command = False
        self._opener = ""

    def add_literal(self, surface: str) -> None:
        self.tokens.append(_Token(surface))
        self._expects_verb = False

    def add_piece(self, piece: str) -> None:
        """Add what stands between two spaces: a number, a word, an expanded short form or a literal."""
        lower = piece.casefold()
        quantity = _QUANTITY.fullmatch(piece)
        follows_number = bool(self.tokens) and _NUMBER.fullmatch(self.tokens[-1].surface) is not None
        if _GROUPED_NUMBER.fullmatch(piece):
            self.add_literal(piece.replace(",", ""))
        elif quantity and quantity[2].casefold() in _vocabulary("units"):
            self.add_literal(quantity[1])
            self.add_literal(_vocabulary("units")[quantity[2].casefold()])
        elif follows_number and lower in _vocabulary("units"):
            self.add_literal(_vocabulary("units")[lower])
        elif lower in _vocabulary("abbreviations") and not self._in_command:
            for word in _vocabulary("abbreviations")[lower].split():
                self._add_word(word)
        elif _LETTERS.fullmatch(piece):
            for word in _expand_contraction(piece, lower):
                self._add_word(word)
        elif _HYPHENATED.fullmatch(piece):
            head, *rest = piece.split("-")
            if head.casefold() in _vocabulary("prefixes"):
                head, rest = head + rest[0], rest[1:]
            for word in (head, *rest):
                self._add_word(word)
        else:
            self.add_literal(piece)

    def list_tokens(self) -> Iterator[_Token]:
        """Yield the tokens without articles. Not every "a" or "The" is one: "option a", "The Times"."""
        articles, surfaces = _vocabulary("articles"), ["", *(token.surface for token in self.tokens), ""]
        for at, token in enumerate(self.tokens):
            before, own, after = surfaces[at : at + 3]
            is_plain = self.shouting or own.islower() or not before
            follows = before.casefold() in ("", *STOP - articles) or (self._is_action and at == 1)
            is_article = own.casefold() in articles and is_plain and (follows or own.casefold() == "the")
            leads_name = after.casefold() in ("", *STOP) or (after[:1].isupper() and not after.isupper())
            if not is_article or leads_name:
                yield token

    def _add_word(self, word: str) -> None:
        lower = word.casefold()
        is_acronym = word.isupper() and len(word) > 1 and not self.shouting
        if (is_acronym and lower in _vocabulary("homographs")) or (word[0].islower() and word != lower):
            self.add_literal(word)
        elif lower in _vocabulary("articles"):
            self.tokens.append(_Token(word, frozenset({lower})))
            self._in_command = False
        elif self._in_command and lower not in _vocabulary("markers") and lower not in _vocabulary("joins"):
            self.add_literal(word)
        elif lower in _vocabulary("numbers"):
            self.add_literal(_vocabulary("numbers")[lower])
        elif not self._drop_opener(lower):
            self._append_word(word, lower)

    def _drop_opener(self, lower: str) -> bool:
        """Drop "please", "I" or "we should" at the start of an action: "Retry" says the same."""
        openers = ("please", "i", "we", "you") if not self._opener else ("should",)
        if not self._is_action or self.tokens or self._opener == "should" or lower not in openers:
            return False
        self._opener = lower
        return True

    def _append_word(self, word: str, lower: str) -> None:
        has_inner_capital = word[1:] != word[1:].lower() and not self.shouting and not word[:-1].isupper()
        is_verb = self._is_action and self._expects_verb and not has_inner_capital
        self.tokens.append(_Token(word, frozenset(_list_forms(lower, is_verb))))
        self._in_command = word in _vocabulary("programs")
        is_adverb = lower in _vocabulary("adverbs") or lower.endswith("ly")
        self._expects_verb = lower in _vocabulary("joins") or (self._expects_verb and is_adverb)


def _expand_contraction(word: str, lower: str) -> list[str]:
    if lower in _vocabulary("contractions"):
        return list(_vocabulary("contractions")[lower].split())
    for ending, expansion in _vocabulary("contraction_endings").items():
        if lower.endswith(ending) and len(lower) > len(ending):
            return [word[: -len(ending)], expansion]
    return [word]


def _list_forms(word: str, is_verb: bool) -> Iterator[str]:
    """Yield what a word may be a form of: for a verb of an action also its present tense."""
    yield _vocabulary("present").get(word, _americanise(word))
    if not is_verb:
        return
    if word in _vocabulary("irregular"):
        yield _vocabulary("irregular")[word]
    if word.endswith(("ies", "ied")) and len(word) > 4:
        yield word[:-3] + "y"
    elif word.endswith("s") and len(word) > 3 and not word.endswith(("ss", "us", "is", "as", "os")):
        yield _americanise(word[:-1])
        if word.endswith(("ses", "xes", "zes", "ches", "shes")):
            yield word[:-2]
    for ending in ("ed", "ing"):
        root = word.removesuffix(ending)
        # "Seed" is no form of "see".
        if root == word or len(root) < 2 or word.endswith("eed") or not re.search("[aeiouy]", root):
            continue
        yield from (_americanise(root), _americanise(root + "e"))
        if len(root) > 2 and root[-1] == root[-2]:
            yield root[:-1]


def _americanise(word: str) -> str:
    if len(word) > 5:
        return re.sub(r"is(e|es|ed|ing)$", r"iz\1", re.sub(r"our(s|ed|ing)?$", r"or\1", word))
    return word


# --- commands --------------------------------------------------------------------------------------


def names_change(repair: Repair) -> bool:
    """Return whether the output of the failed command names a word that differs between the two commands."""
    changed = set(split_command(repair.failed)) ^ set(split_command(repair.worked))
    output = repair.output[:_OUTPUT_CHARS]
    return any(len(word) >= _NAMED_CHARS and word in output for word in changed)


def is_same_attempt(failed: str, worked: str) -> bool:
    """Return whether two commands start the same program or one named alike, or share most of their words."""
    first, second = split_command(failed), split_command(worked)
    if any(one in other or other in one for one in find_programs(first) for other in find_programs(second)):
        return True
    return 2 * len(set(first) & set(second)) > max(len(set(first)), len(set(second)))


def split_command(command: str) -> list[str]:
    """Return the words of a command line."""
    plain = command[:_COMMAND_CHARS].replace(";", " ; ")
    try:
        return shlex.split(plain)
    except ValueError:
        return plain.split()


def find_programs(words: Sequence[str]) -> list[str]:
    """Return the programs that a command line starts, without the folders in front of them and without `cd`."""
    programs = []
    is_start = True
    for word in words:
        if is_start and word not in _PREFIXES and "=" not in word and word not in _JOINS:
            programs.append(re.split(r"[\\/]", word)[-1])
            is_start = False
        elif word in _JOINS:
            is_start = True
    return [one for one in programs if one and one != "cd"]


# --- own words and pasted text ---------------------------------------------------------------------

_PASTED_CHARS = 20_000
_FENCE = re.compile(r"^\s{0,3}(```|~~~)")
_HEADER = re.compile(
    r"^(from|to|cc|sent|date|subject|von|an|betreff|gesendet|de|para|asunto|objet|envoyé)\s?:\s", re.IGNORECASE
)
_CLOCK = r"\d{1,2}[:.]\d\d(?::\d\d)?(?:\s?[ap]m)?"
_CHATTER = r"[^\W\d_][\w.'’-]*"
_CHAT_LINE = re.compile(
    rf"\s*(?:[@<]?{_CHATTER}(?: {_CHATTER}){{0,2}}>?,?\s+[\[(]?{_CLOCK}[\])]?\s*(?:$|:\s)"
    rf"|[\[(]?(?:[\d./-]{{6,10}},?\s+)?{_CLOCK}[\])]?\s+(?:-\s+)?"
    rf"(?:<[^>]{{1,40}}>|@?{_CHATTER}(?: {_CHATTER}){{0,2}}:\s))",
    re.IGNORECASE,
)
"""A line of a chat: a name and the time, or the time and a name."""
_FORWARDED = re.compile(r"^-{2,}\s*(original|forwarded|ursprüngliche|weitergeleitete|mensaje|message)\b", re.IGNORECASE)
_PROGRAM_LINE = re.compile(
    r"^(traceback \(|\s+file \"|\s+at \S+[(:]|\[?\d{4}-\d\d-\d\d[t ]\d\d:\d\d|\[?\d\d:\d\d:\d\d|npm err!|error\["
    r"|e\s{3,}|[$#%] \S|[\w.]*(error|exception|warning)\s?:|\s*\^+~*\s*$|diff --git|@@ -\d|[+-]{3} [ab]/)",
    re.IGNORECASE,
)
_LINE_CHARS = 200


def remove_pasted(text: str) -> str:
    """Return a turn without fenced blocks, quoted lines, forwarded mails, chats, program output and stack traces."""
    own: list[str] = []
    fence = ""
    headers = 0
    is_chat = False
    lines = text[:_PASTED_CHARS].splitlines()
    for line in lines:
        mark = _FENCE.match(line)
        if fence or mark:
            if mark:
                fence = "" if fence == mark[1] else fence or mark[1]
            continue
        is_chat = len(lines) > 1 and (bool(_CHAT_LINE.match(line)) or (is_chat and bool(line.strip())))
        if is_chat:
            continue
        headers = headers + 1 if _HEADER.match(line) else 0
        if _FORWARDED.match(line) or headers == 2:
            # What follows the headers of a mail was written by somebody else.
            own = own[: len(own) - (headers - 1 if headers else 0)]
            break
        if not line.lstrip().startswith(">") and not _PROGRAM_LINE.match(line[:_LINE_CHARS]):
            own.append(line)
    return "\n".join(own).strip()


def cut_at_output(text: str) -> str:
    """Return the text above the first line that was pasted: program output, a quotation or a fenced block."""
    own: list[str] = []
    for line in text[:_PASTED_CHARS].splitlines():
        if _FENCE.match(line) or line.lstrip().startswith(">") or _PROGRAM_LINE.match(line[:_LINE_CHARS]):
            break
        own.append(line)
    return "\n".join(own).strip()
