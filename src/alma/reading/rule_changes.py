"""Finds out whether a newer rule of a person changes an older one, by words and without a model.

Sure are two values of one key: a port of the same thing, a tool for the same purpose, the place of the same kind of
file. Unsure are rules that differ only in a value ("Deploy on Tuesdays", "Deploy on Thursdays"), and a rule that asks
for what another forbids: a person decides about these. The forms are English; the words are in rule_changes.json.
`tests/reading/data/changed_rules.tsv` has the pairs by which it is judged.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from itertools import pairwise
from typing import NamedTuple

from ..text import STOP, stem
from .local import load_vocabulary
from .port import Verdict

_WORD = re.compile(r"`[^`]+`|[^\s,;:!?()\"“”]+")
_FORBIDDING = re.compile(r"(?:please\s+)?(?:never|don['’]t|do not|stop|avoid)\s+", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_PORT = re.compile(r"\d{2,5}")
_CODE = re.compile(r"[/\\_*`<>=]|\w\.\w|\d|[a-z][A-Z]")
_MOST_VALUE = 3  # The longest value, in words.
_vocabulary = partial(load_vocabulary, "rule_changes.json")


class RuleKey(NamedTuple):
    """What a rule gives a value: the type of the key, what it is about, and the value."""

    type: str
    subject: frozenset[str]
    value: str
    is_sure: bool  # Whether the value is surely of this type, such as the name of a tool.


@lru_cache(maxsize=64)
def _list_words(name: str) -> frozenset[str]:
    return frozenset(str(_vocabulary(name)).split())


@lru_cache(maxsize=1)
def _list_families() -> tuple[frozenset[str], ...]:
    return tuple(frozenset(names.split()) for names in _vocabulary("families").values())


@lru_cache(maxsize=512)
def _split_words(rule: str) -> tuple[str, ...]:
    """Return the words of a rule without articles and without words that only say that it is new."""
    text = _FORBIDDING.sub("", rule.replace("from now on", " "), count=1)
    found = (word.strip("`'’.") for word in _WORD.findall(text))
    return tuple(word for word in found if word and word.lower() not in _list_words("dropped"))


def _find_stems(words: tuple[str, ...]) -> frozenset[str]:
    """Return the stems of the words that say something."""
    changing = _list_words("changing_verbs")
    stems = {"change" if word.lower() in changing else stem(word.lower()) for word in words}
    return frozenset(word for word in stems if word not in STOP and word != "use")


def find_rule_change(older: str, newer: str) -> Verdict:
    """Return REPLACES if both rules give one key different values, CONTRADICTS if the newer one seems to change it.

    Otherwise return UNRELATED. Rules that a person may follow both are unrelated.
    """
    older_words, newer_words = _split_words(older), _split_words(newer)
    if not _list_words("added").isdisjoint(word.lower() for word in newer_words):
        return Verdict.UNRELATED
    forbids_older, forbids_newer = (bool(_FORBIDDING.match(rule)) for rule in (older, newer))
    if forbids_older and forbids_newer:
        return Verdict.UNRELATED
    if forbids_older or forbids_newer:
        forbidden, asked = (older_words, newer_words) if forbids_older else (newer_words, older_words)
        stems = _find_stems(forbidden)
        return Verdict.CONTRADICTS if stems and stems <= _find_stems(asked) else Verdict.UNRELATED
    first, second = _find_key(older_words), _find_key(newer_words)
    if first is not None and second is not None and first.type == second.type:
        return _compare_keys(first, second)
    return _compare_values(older_words, newer_words)


def _compare_keys(first: RuleKey, second: RuleKey) -> Verdict:
    if first.subject != second.subject or first.value.lower() == second.value.lower():
        return Verdict.UNRELATED
    if _are_apart(first.value, second.value):
        return Verdict.UNRELATED
    if first.is_sure is not second.is_sure:
        # A tool, and something that is used beside it.
        return Verdict.UNRELATED
    # "Use pnpm" does not say for what: it may be for another part than "Use yarn".
    return Verdict.REPLACES if first.is_sure and first.subject else Verdict.CONTRADICTS


def _find_key(words: tuple[str, ...]) -> RuleKey | None:
    return _find_port(words) or _find_place(words) or _find_tool(words)


def _find_port(words: tuple[str, ...]) -> RuleKey | None:
    """Return the key of "Use port 3000 for the dev server"."""
    for number, (word, following) in enumerate(pairwise(words)):
        if word.lower() in _list_words("ports") and _PORT.fullmatch(following):
            rest = (*words[:number], *words[number + 2 :])
            subject = [one for one in rest if one.lower() not in _list_words("port_verbs")]
            return RuleKey("port", _find_stems(tuple(subject)), following, True)
    return None


def _find_place(words: tuple[str, ...]) -> RuleKey | None:
    """Return the key of "Put migrations in db/migrations" and of "Migrations go in db/migrations"."""
    if len(words) < 3 or words[-2].lower() not in _list_words("places") or "/" not in words[-1]:
        return None
    kind = words[:-2]
    if kind[0].lower() in _list_words("place_verbs"):
        kind = kind[1:]
    elif kind[-1].lower() in _list_words("place_states"):
        kind = kind[:-1]
    else:
        return None
    subject = _find_stems(kind)
    return RuleKey("place", subject, words[-1].rstrip("/"), True) if subject else None


def _find_tool(words: tuple[str, ...]) -> RuleKey | None:
    """Return the key of "Use pytest for the tests", of "Run the tests with pytest" and of "Use pnpm"."""
    lowered = [word.lower() for word in words]
    if len(words) >= 2 and lowered[0] == "use":
        ends = [number for number, word in enumerate(lowered) if number > 1 and word in ("for", "to")]
        end = ends[0] if ends else len(words)
        value = words[1:end]
        if len(value) == 1:
            family = _find_family(value[0])
            is_sure = family is not None or (bool(ends) and _CODE.search(value[0]) is not None)
            return RuleKey("tool", _find_stems(words[end + 1 :]), value[0], is_sure) if ends or family else None
    if len(words) >= 3 and "with" in lowered[1:-1]:
        place = lowered.index("with", 1)
        value = words[place + 1 :]
        is_sure = _find_family(value[0]) is not None or _CODE.search(value[0]) is not None
        if len(value) <= _MOST_VALUE and lowered[0] != "indent":
            return RuleKey("tool", _find_stems(words[:place]), " ".join(value), is_sure)
    return None


def list_rivals(rule: str) -> tuple[str, ...]:
    """Return the names of other tools that a rule could have named instead, by which an older rule is found."""
    key = _find_key(_split_words(rule))
    family = _find_family(key.value) if key is not None and key.type == "tool" else None
    return tuple(sorted(family - {key.value.lower()})) if key is not None and family else ()


def _find_family(value: str) -> frozenset[str] | None:
    """Return the names that may stand in place of a name: other tools for the same work, other days."""
    name = value.split()[0].lower()
    return next((family for family in _list_families() if name in family), None)


def _are_apart(first: str, second: str) -> bool:
    """Return whether two values are known, and never in place of each other: a test runner and a linter."""
    names = [value.split()[0].lower() for value in (first, second)]
    is_known = all(_find_family(name) is not None for name in names)
    # Builds and wrappers of tests run one another.
    is_build = any(name in ("make", "just", "nox", "tox") for name in names)
    return is_known and not is_build and not any(set(names) <= family for family in _list_families())


def _compare_values(older: tuple[str, ...], newer: tuple[str, ...]) -> Verdict:
    """Return CONTRADICTS if two rules are the same but for one value."""
    start = 0
    while start < min(len(older), len(newer)) and older[start].lower() == newer[start].lower():
        start += 1
    end = 0
    while end < min(len(older), len(newer)) - start and older[-1 - end].lower() == newer[-1 - end].lower():
        end += 1
    first, second = older[start : len(older) - end], newer[start : len(newer) - end]
    shared = (*older[:start], *older[len(older) - end :])
    if not (0 < len(first) <= _MOST_VALUE and 0 < len(second) <= _MOST_VALUE and _find_stems(shared)):
        return Verdict.UNRELATED
    if _NUMBER.fullmatch(first[0]) and _NUMBER.fullmatch(second[0]):
        return Verdict.CONTRADICTS
    if _are_apart(first[0], second[0]) or not start:
        return Verdict.UNRELATED
    is_setting = older[start - 1].lower() in _list_words("settings")
    is_named = older[0].lower() in _list_words("naming_verbs")
    are_literal = all(len(value) == 1 and _CODE.search(value[0]) for value in (first, second))
    family = _find_family(first[-1])
    is_family = family is not None and second[-1].lower() in family
    return Verdict.CONTRADICTS if is_setting or is_family or (is_named and are_literal) else Verdict.UNRELATED
