"""Whether a rule turns round what a person typed: it asks for what they forbade, swaps two sides or mixes up pairs.

All its words may be the person's and the rule may still not be. So each statement of a rule is compared with the typed
statement that shares most of its words, and each relation between words ("before", "with", "in") with the typed ones.
Both sides are read in the same way: what this reader misunderstands, it misunderstands in the rule and in the turn.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from ..text import STOP
from .safety import may_invert, split_statements
from .typed_statements import TypedSentence, list_bases

_WORD = re.compile(r"-{0,2}[^\W_](?:[\w./@+'’#-]*[\w+#])?|[:=]")
_CLAUSE_END = re.compile(r"[,;:!?]\s|[.](?:\s|$)|\n")
_SENTENCE = re.compile(r"(?:[^.;!?\n]|[.!?](?=\S))+")
_NEGATIVE_VERB = re.compile(r"\w+n['’]t|(?:do|does|did|is|are|ca|wo|would|should|must|could|was|were)nt")
_ARROW = re.compile(r"(?<!\S)(\S{1,100})\s+(?:->|=>|→)\s+(?=\S)")
_ANYTHING_BUT = re.compile(r"\b(?:anything|everything|all)\s+but\s+", re.I)
# "No mocks only the real database": what follows is wanted.
_NO_BUT_ONLY = re.compile(
    r"\b(no\s+(?!(?:reason|need|one|way|point|harm|problem|idea|wonder|matter|longer|more|use)\b)"
    r"(?:(?!(?:not|never|no|to|you|we|i|if|when|it|that)\b)[\w-]{1,40}\s+){1,6}?)"
    r"(?=(?:just|only)\s+(?:the|a|an|our|my|this|these|those|some)\b)",
    re.I,
)
# "No use pnpm": the person objects, and then says what to do.
_OBJECTION = re.compile(
    r"^\W*(?:no|nope|nah)\s+(?=(?:use|run|put|keep|make|do|write|call|the|it|that|this|we|i)\b)", re.I
)
_CONTRAST = re.compile(
    r"\b(?:instead of|rather than|as opposed to|in place of|other than|rid of|no longer|sick of|tired of|less|fewer"
    r"|anstelle von|statt|anstatt|au lieu d[e'’]|plutôt que|en vez de|en lugar de|invece di|em vez de"
    r"|ao invés de|out of|hands off|off limits|away from|clear of"
    r"|enough (?:of|with)|(?:moved?|migrated?|switched|came|got) off|used to (?:use|be|have|do|run)"
    r"|leave(?=\s[^,;.]{1,60}\salone\b))(?!\w)",
    re.I,
)
_VERDICT = re.compile(
    r"\b(?:is|are|was|were|looks?|seems?)\s+(?:(?:so|really|just|always|a|all)\s+)*(?:bad|wrong|terrible|awful|horrible|evil"
    r"|ugly|forbidden|banned|deprecated|obsolete|outdated|mistakes?|garbage|off limits)\b|\bsucks?\b",
    re.I,
)
_PROPOSAL = re.compile(
    r"\bwhy\s+(?:not|(?:do|did|are|is|does)n['’]?t)\b"
    r"|^\W*(?:should|could|ca|wo|would|are|do|did)n['’]?t\s+(?=(?:we|you|i|it)\b)",
    re.I,
)
_LEFT_BEHIND = re.compile(
    r"\b(?:replac|swap|substitut|ersetz|remplac|reemplaz)\w*\s+(?P<replaced>(?:\S+\s+){1,4}?)"
    r"(?:with|by|for|durch|par|por)\b"
    r"|\b(?:switch|migrat|mov|chang|convert|wechs|umst)\w*\s+(?:\S+\s+){0,3}?(?:from|von|de)\s+(?P<left>\S+)"
    r"|\b(?:prefer|better|rather|favou?r|nicer|faster)\w*\s+(?!than\b)[^,;]*?\b(?:over|than)\s+(?P<lesser>(?:[^\s,;.]+\s?){1,3})",
    re.I,
)
_LATIN = re.compile("[-A-Za-z0-9\u00c0-\u024f]")
_THEN = re.compile(r"[,;]?\s+(?:and\s+)?(?:then|dann|puis|luego)\s+", re.I)
_NOT = re.compile(r"\b(?:not|nicht)\b", re.I)
_CONDITION_WORDS = frozenset(("when", "whenever", "if", "wenn", "falls", "quand", "si", "cuando", "se", "quando"))
_PLAIN_FORMS = frozenset(("plain", "bare"))
_NAME_WEIGHT = 2
_NEAR = 3  # So many words on each side of a relation belong to it.
_MOST_WORDS = 2_000
_CLAUSE_WORDS = 20


@lru_cache(maxsize=1)
def _load_vocabulary() -> dict[str, frozenset[str]]:
    with open(os.path.join(os.path.dirname(__file__), "reversals.json"), encoding="utf-8") as file:
        return {name: frozenset(words) for name, words in json.load(file).items()}


class _ReadStatement(NamedTuple):
    words: tuple[str, ...]  # Those that say what it is about.
    bases: frozenset[str]
    is_negated: bool
    is_request: bool
    is_licensing: bool
    is_condition: bool = False  # "When a test fails" asks for nothing.


class _Relation(NamedTuple):
    """The telling words on the two sides of a word such as "before"."""

    name: str
    left: tuple[str, ...]
    right: tuple[str, ...]


def find_reversals(text: str, typed: Iterable[TypedSentence]) -> list[str]:
    """Return the words of a text that stand in it the other way round than in all that the person typed."""
    sentences = list(typed)
    known: list[_ReadStatement] = []
    for sentence in sentences:
        known += _read_typed(sentence)
    turned: list[str] = []
    statements = list(_read_statements(text))
    for statement in statements:
        excused = _list_excused(statement, statements)
        turned += [word for word in _find_turned_words(statement, known) if list_bases(word).isdisjoint(excused)]
    turned += _find_exchanged_words(statements, known)
    turned += _find_banned_words(statements, known)
    turned += _find_substitutes(text, [sentence.text for sentence in sentences])
    own = [list(_list_relations(sentence.text)) for sentence in sentences]
    for relation in _list_relations(text):
        is_crossed = any(_is_crossed(relation, relations) for relations in own)
        if is_crossed or _is_swapped(relation, chain.from_iterable(own)):
            turned += (*relation.left[-1:], *relation.right[:1])
    return list(dict.fromkeys(turned))


# -- negation


def is_negated(text: str) -> bool:
    """Return whether a statement says no. Two negations cancel each other: "never commit without a test"."""
    vocabulary = _load_vocabulary()
    count = 0
    words = _list_signs(text)
    for position, word in enumerate(words):
        if word in vocabulary["concord"]:
            # "No uses nunca" is one negation.
            count += vocabulary["concord"].isdisjoint(words[:position])
        elif word in vocabulary["orders"]:
            # "Stop using npm", but not "so that it stops".
            count += not _list_telling(words[:position])
        elif word in vocabulary["conditions"]:
            # "Never push before …" allows it at some time; alone, the word denies nothing.
            count += count % 2
        elif word in vocabulary["negations"] or _NEGATIVE_VERB.fullmatch(word):
            count += 1
    return count % 2 == 1


def _list_signs(text: str) -> list[str]:
    """Return the words of a statement, with contrasts as "not", and without what only sounds like a negation."""
    return _list_words(_CONTRAST.sub(" not ", _PROPOSAL.sub(" ", _OBJECTION.sub(" ", text))))


def is_left_behind(text: str, position: int) -> bool:
    """Return whether a statement gives up what stands at a position: "npm" in "replace npm with pnpm"."""
    return any(start <= position < end for start, end in _list_left_behind(text))


@lru_cache(maxsize=64)
def _list_left_behind(text: str) -> tuple[tuple[int, int], ...]:
    """Return from where to where a statement names what it gives up."""
    return tuple(match.span(str(match.lastgroup)) for match in _LEFT_BEHIND.finditer(text))


def is_surely_negated(text: str) -> bool:
    """Return whether a text says no to what follows it, and no word ("hesitate", "only") may turn that round."""
    if not is_negated(text):
        return False
    vocabulary = _load_vocabulary()
    negations = vocabulary["negations"] | vocabulary["concord"] | vocabulary["orders"]
    words = _list_signs(text)
    for position, word in enumerate(words):
        if word in negations or _NEGATIVE_VERB.fullmatch(word):
            return not may_invert(" ".join(words[position + 1 :]))
    return False


def spell_out_contrasts(text: str) -> str:
    """Return a text with contrasts in words that are read.

    "npm -> pnpm" becomes "replace npm with pnpm", "anything but npm" "not npm", and "no mocks only the real one"
    two statements.
    """
    text = _NO_BUT_ONLY.sub(lambda match: f"{match[1].rstrip()}, ", text)
    return _ANYTHING_BUT.sub("not ", _ARROW.sub(r"replace \1 with ", text))


# -- statements


def _list_words(text: str) -> list[str]:
    return [match[0].casefold().replace("’", "'") for match in _WORD.finditer(text)][:_MOST_WORDS]


def _list_telling(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words that say what a statement is about."""
    vocabulary = _load_vocabulary()
    silent = STOP.union(*(vocabulary[name] for name in ("silent", "concord", "negations", "conditions", "orders")))
    return tuple(word for word in words if word not in silent and not _NEGATIVE_VERB.fullmatch(word))


def _join_bases(words: Iterable[str]) -> frozenset[str]:
    return frozenset().union(*map(list_bases, words))


def _read_typed(sentence: TypedSentence) -> Iterator[_ReadStatement]:
    """Yield the statements of a typed sentence. A complaint about an omission asks for what is missing."""
    for statement in _read_statements(sentence.text, sentence.is_licensing):
        if sentence.is_complaint:
            yield statement._replace(is_negated=False, is_licensing=True)
        else:
            yield statement


def _read_statements(text: str, is_licensing: bool = True) -> Iterator[_ReadStatement]:
    requests = _load_vocabulary()["requests"]
    for statement in split_statements(text):
        given_up = " ".join(match[str(match.lastgroup)] for match in _LEFT_BEHIND.finditer(statement.text))
        kept = _LEFT_BEHIND.sub(" ", statement.text) if given_up else statement.text
        verdict = _VERDICT.search(kept)
        rest = kept[verdict.end() :] if verdict else kept
        parts = [(part, is_negated(part)) for part in _split_contrast(rest)]
        if verdict:
            # "Tabs are bad" says no to tabs, not to what follows.
            parts.append((kept[: verdict.end()], not is_negated(kept[: verdict.start()])))
        if given_up:
            parts.append((given_up, not is_negated(statement.text)))
        for part, is_no in parts:
            words = _list_words(part)
            telling = tuple(dict.fromkeys(_list_telling(words)))
            if telling:
                is_request = not requests.isdisjoint(words)
                is_condition = words[0] in _CONDITION_WORDS and bool(statement.after.strip())
                yield _ReadStatement(telling, _join_bases(telling), is_no, is_request, is_licensing, is_condition)


def _split_contrast(text: str) -> list[str]:
    """Return the two parts of "run the unit tests not the whole suite", or the text."""
    auxiliaries = _load_vocabulary()["auxiliaries"]
    for match in _NOT.finditer(text):
        before = _list_words(text[: match.start()])
        if before and before[-1] not in auxiliaries:
            return [text[: match.start()], text[match.start() :]]
    return [text]


def _count_shared(statement: _ReadStatement, other: _ReadStatement) -> int:
    return sum(not list_bases(word).isdisjoint(other.bases) for word in statement.words)


def _weigh_shared(statement: _ReadStatement, other: _ReadStatement) -> int:
    """Return how much two statements share; a name tells more than an ordinary word."""
    weight = 0
    for word in statement.words:
        if not list_bases(word).isdisjoint(other.bases):
            weight += 1 if word.isalpha() else _NAME_WEIGHT
    return weight


def _find_turned_words(statement: _ReadStatement, known: Sequence[_ReadStatement]) -> list[str]:
    """Return the words of a statement if the typed statements that are most like it say the opposite."""
    weights = [_weigh_shared(statement, other) for other in known]
    best = max(weights, default=0)
    if not best:
        return []
    nearest = [other for other, weight in zip(known, weights, strict=True) if weight == best]
    all_bases = frozenset().union(*(other.bases for other in known))
    told = [word for word in statement.words if not list_bases(word).isdisjoint(all_bases)]
    most_shared = max(_count_shared(statement, other) for other in nearest)
    if statement.is_negated:
        # What the person asked about or reported may well be what they do not want.
        is_same = any(other.is_negated or not other.is_licensing for other in nearest)
        # In other words a ban may say what the person asked for: "keep functions short", "no long functions".
        is_asked = any(other.is_request or most_shared == len(other.words) for other in nearest)
        is_close = is_asked and 2 * most_shared > len(statement.words)
    else:
        is_same = any(other.is_licensing and not other.is_negated for other in nearest)
        is_close = 2 * most_shared > len(told)
    return told if is_close and not is_same else []


def _find_exchanged_words(statements: Sequence[_ReadStatement], known: Sequence[_ReadStatement]) -> list[str]:
    """Return what a rule wants and what it bans, if the person banned the one and wanted the other."""
    wanted = frozenset().union(*(other.bases for other in known if not other.is_negated and other.is_licensing))
    banned = frozenset().union(*(other.bases for other in known if other.is_negated))
    only_wanted, only_banned = wanted - banned, banned - wanted
    asked_for = _list_among((read for read in statements if not read.is_negated), only_banned)
    ruled_out = _list_among((read for read in statements if _rules_out(read, statements)), only_wanted)
    return [*asked_for, *ruled_out] if asked_for and ruled_out else []


def _rules_out(statement: _ReadStatement, statements: Sequence[_ReadStatement]) -> bool:
    """Return whether a statement bans what it names, and not only its plain form: "make -j4, not plain make"."""
    if not statement.is_negated or _PLAIN_FORMS.isdisjoint(statement.words):
        return statement.is_negated
    wanted = frozenset().union(*(other.bases for other in statements if not other.is_negated))
    named = [word for word in statement.words if word not in _PLAIN_FORMS]
    return not all(word in wanted for word in named)


def _find_banned_words(statements: Sequence[_ReadStatement], known: Sequence[_ReadStatement]) -> list[str]:
    """Return what a rule wants although the person only said no to it, and to nothing else: "…, not main"."""
    wanted = frozenset().union(*(other.bases for other in known if not other.is_negated and other.is_licensing))
    banned = frozenset().union(*(other.bases for other in known if other.is_negated and len(other.words) == 1))
    named: list[str] = []
    for statement in statements:
        if not statement.is_negated:
            named += _list_among([statement], banned - wanted - _list_excused(statement, statements))
    return named


def _list_excused(statement: _ReadStatement, statements: Sequence[_ReadStatement]) -> frozenset[str]:
    """Return what a condition may name although the person banned it: what the rule bans as well.

    "When a test fails, fix the code and do not change the test."
    """
    if not statement.is_condition:
        return frozenset()
    return frozenset().union(*(other.bases for other in statements if other.is_negated))


def _list_among(statements: Iterable[_ReadStatement], bases: frozenset[str]) -> list[str]:
    """Return the words of statements that are inflections of these words."""
    words = chain.from_iterable(statement.words for statement in statements)
    return [word for word in words if not list_bases(word).isdisjoint(bases)]


class _Slot(NamedTuple):
    """A telling word and the words around it, one of which is telling as well."""

    word: str
    around: tuple[str, ...]


def _list_slots(text: str) -> Iterator[_Slot]:
    """Yield the words of a text with both neighbours, and with the three words on each side."""
    for statement in split_statements(text):
        words = _list_words(statement.text)
        telling = frozenset(_list_telling(words))
        padded = ["", "", "", *words, "", "", ""]
        for place, word in enumerate(words, 3):
            # A run of signs without spaces is no word, and the first word is often a verb, of which there are many.
            if word not in telling or not _LATIN.match(word) or place == 3:
                continue
            for reach in (1, 3):
                around = (*padded[place - reach : place], *padded[place + 1 : place + reach + 1])
                if not telling.isdisjoint(around):
                    yield _Slot(word, around)


def _find_substitutes(text: str, typed: Sequence[str]) -> list[str]:
    """Return words that the person did not type and that stand where they typed another word.

    The other word must be missing in the text: "use the production database" for "use the staging database".
    """
    own_bases = _join_bases(chain.from_iterable(map(_list_words, typed)))
    bases = _join_bases(_list_words(text))
    places: set[tuple[str, ...]] = set()
    for slot in chain.from_iterable(map(_list_slots, typed)):
        if list_bases(slot.word).isdisjoint(bases):
            places.add(slot.around)
    foreign = (slot for slot in _list_slots(text) if list_bases(slot.word).isdisjoint(own_bases))
    return [slot.word for slot in foreign if slot.around in places]


# -- relations


def _list_relations(text: str) -> Iterator[_Relation]:
    """Yield the relations of a text, with "after" as "before" with its sides swapped."""
    for sentence in _SENTENCE.findall(_THEN.sub(" before ", text)):
        clauses = [_list_words(clause) for clause in _CLAUSE_END.split(sentence)]
        for number, words in enumerate(clauses):
            following = clauses[number + 1] if number + 1 < len(clauses) else []
            yield from _relate_words(words, following)


def _relate_words(words: Sequence[str], following: Sequence[str]) -> Iterator[_Relation]:
    vocabulary = _load_vocabulary()
    for position, word in enumerate(words):
        # "Don't push before the tests pass": the tests come first.
        near = " ".join(words[max(0, position - _CLAUSE_WORDS) : position])
        is_turned = word in vocabulary["before"] | vocabulary["until"] and is_negated(near)
        is_order = is_turned or word in vocabulary["before"] or word in vocabulary["after"]
        if not is_order and word not in vocabulary["links"]:
            continue
        left, right = _list_telling(words[:position]), _list_telling(words[position + 1 :])
        if is_order and not left:
            # "Before you push, run the tests."
            left = _list_telling(following)
        if is_turned or word in vocabulary["after"]:
            left, right = right, left
        if left and right:
            yield _Relation("before" if is_order else word, left[-_NEAR:], right[:_NEAR])


def _meet(first: Iterable[str], second: Iterable[str]) -> bool:
    return not _join_bases(first).isdisjoint(_join_bases(second))


def _is_swapped(relation: _Relation, typed: Iterable[_Relation]) -> bool:
    """Return whether the two sides of a relation were typed on the other sides only."""
    is_found = False
    for own in typed:
        if own.name != relation.name:
            continue
        if _meet(relation.left, own.left) and _meet(relation.right, own.right):
            return False
        if _meet(relation.left, own.right) and _meet(relation.right, own.left):
            is_found = True
    return is_found


def _is_crossed(relation: _Relation, typed: Sequence[_Relation]) -> bool:
    """Return whether the words next to a relation were both typed with others: "tests in jest, e2e in cypress"."""
    left, right = relation.left[-1:], relation.right[:1]
    is_left_other = is_right_other = False
    for own in typed:
        if own.name != relation.name:
            continue
        is_left, is_right = _meet(left, own.left[-1:]), _meet(right, own.right[:1])
        if is_left and is_right:
            return False
        is_left_other = is_left_other or is_left
        is_right_other = is_right_other or is_right
    return is_left_other and is_right_other
