"""Which words mean the same: a small lexicon made from WordNet by `tools/make_lexicon.py`.

The file is read on first use (some 20 ms) and a word's relations are split only when the word is met.
See `LEXICON-NOTICE.txt` for the licence of the data.
"""

from __future__ import annotations

import gzip
from functools import lru_cache
from importlib.resources import files

from alma.engine.distil._words import CONTRARIES

# How far a relation of each kind carries: a base, and how much the digit (cosine * 10) adds to it.
_STRENGTH = {"d": (0.80, 0.02), "s": (0.45, 0.05), "h": (0.20, 0.05), "n": (-0.10, 0.09)}
# Nouns in -ing and -ed that are no longer felt to be forms of their verb.
_NO_FORMS = frozenset("evening morning ceiling building during nothing something anything everything".split())
_VOWELS = frozenset("aeiouy")
_NEGATIVE_PREFIXES = ("un", "non", "dis", "in", "im")


@lru_cache(maxsize=1)
def _table() -> dict[str, str]:
    raw = gzip.decompress(files(__package__).joinpath("lexicon.txt.gz").read_bytes()).decode()
    parted = (line.partition("\t") for line in raw.splitlines())
    return {word: relations for word, _, relations in parted}


@lru_cache(maxsize=8192)
def _relations(word: str) -> tuple[dict[str, float], frozenset[str], frozenset[str]]:
    alike: dict[str, float] = {}
    antonyms: set[str] = set()
    rivals: set[str] = set()
    for item in _table().get(word, "").split():
        kind, digit, other = item[0], int(item[1]), item[2:]
        if kind == "a":
            antonyms.add(other)
        elif kind == "c":
            rivals.add(other)
        else:
            base, slope = _STRENGTH[kind]
            alike[other] = base + slope * digit
    return alike, frozenset(antonyms), frozenset(rivals)


def known(word: str) -> bool:
    return word in _table()


@lru_cache(maxsize=65536)
def alike(left: str, right: str) -> float:
    """0 for unrelated words, up to 1 for synonyms and derivations."""
    if left == right:
        return 1.0
    strength, _, rivals_of = _relations(left)
    if right in rivals_of:
        return 0.0
    return max(strength.get(right, 0.0), _common_stem(left, right))


def rivals(left: str, right: str) -> bool:
    """Two kinds of one thing, such as two days of the week."""
    return right in _relations(left)[2]


@lru_cache(maxsize=32768)
def opposed(left: str, right: str) -> bool:
    if left == right:
        return False
    antonyms_l, antonyms_r = _relations(left)[1], _relations(right)[1]
    if right in antonyms_l or left in antonyms_r or (left, right) in CONTRARIES or (right, left) in CONTRARIES:
        return True
    return _negated_form(left, right) or _negated_form(right, left)


def _negated_form(plain: str, marked: str) -> bool:
    """ "encrypt" and "unencrypted", "refundable" and "nonrefundable"."""
    if len(plain) < 4 or len(marked) < len(plain) + 1:
        return False
    for prefix in _NEGATIVE_PREFIXES:
        if marked.startswith(prefix) and (marked[len(prefix) :] == plain or lemma(marked[len(prefix) :]) == plain):
            return True
    return marked == "a" + plain and len(plain) > 7


def _common_stem(left: str, right: str) -> float:
    short = min(len(left), len(right))
    if short < 4 or left[:4] != right[:4]:
        return 0.0
    shared = 4
    while shared < short and left[shared] == right[shared]:
        shared += 1
    return 0.75 if shared >= short - 1 and shared >= 0.6 * max(len(left), len(right)) else 0.0


@lru_cache(maxsize=16384)
def lemma(word: str) -> str:
    """The dictionary form; an unknown word loses its ending all the same."""
    table = _table()
    irregular = table.get("=" + word)
    if irregular is not None:
        return irregular
    candidates = [_british(c) for c in _stripped(word)]
    # "uploading" and "uploads" belong together even where both stand in the dictionary.
    for candidate in candidates:
        if candidate in table:
            return candidate
    if word in table or len(word) < 5 or not candidates:
        return _british(word)
    return min(candidates, key=len)


def _stripped(word: str) -> list[str]:
    size = len(word)
    if word in _NO_FORMS:
        return []
    if word.endswith("ing") and size > 5:
        return _undoubled(word[:-3])
    if word.endswith("ed") and size > 4:
        if word.endswith("ied"):
            return [word[:-3] + "y"]
        return _undoubled(word[:-2])
    if word.endswith("ies") and size > 4:
        return [word[:-1], word[:-3] + "y"]
    if word.endswith(("ses", "xes", "zes", "ches", "shes")):
        return [word[:-1], word[:-2]]
    if word.endswith("s") and size > 3 and not word.endswith(("ss", "us", "is")):
        return [word[:-1]]
    if word.endswith("ly") and size > 5:
        return [word[:-2], word[:-3] + "y" if word.endswith("ily") else word[:-1] + "e"]
    return []


def _undoubled(stem: str) -> list[str]:
    doubled = len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "slz"
    if doubled:
        return [stem[:-1], stem]
    # "lock-ing" but "cache-ing": a cluster of consonants rarely takes a silent e.
    cluster = len(stem) > 2 and stem[-1] not in _VOWELS and stem[-2] not in _VOWELS and stem[-1] not in "cgsvz"
    return [stem, stem + "e"] if cluster else [stem + "e", stem]


def _british(word: str) -> str:
    if word.endswith("ise") and len(word) > 5:
        american = word[:-3] + "ize"
        return word if word in _table() and american not in _table() else american
    if "our" in word[2:] and word.replace("our", "or") in _table():
        return word.replace("our", "or")
    return word
