"""Names of people, organisations, places and products: runs of capitalised words that are names and not only words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...engine.text import STOP
from ...types.graph import THING
from ._verbs import Form, verbs
from ._words import (
    ACRONYMS,
    AUXILIARIES,
    CAPITALISED,
    DETERMINERS,
    NAME_STARTS,
    ORG_ENDINGS,
    ORG_STARTS,
    ORGANISATIONS,
    PLACES,
    PREPOSITIONS,
    PRODUCTS,
    PRONOUNS,
    SAYING,
    TITLES,
    first_names,
)
from ._written import STANDARD, Mention

_UPPER = "A-ZÀ-ÖØ-ÞĀĂĄĆČĎĐĒĖĘĚĞĢĪĮİĶĹĽŁŃŅŇŐŒŔŘŚŞŠŢŤŪŮŰŲŴŶŹŻŽΑ-ΩЀ-Я"
_WORD = rf"[{_UPPER}][\w’'&+.-]*[\w+]|[{_UPPER}]"
_JOINT = "of the |of |de la |de |di |da |van der |van |von |du |la |& "
_RUN = re.compile(rf"(?<![\w@#/.`$-])(?:{_WORD})(?:\s(?:{_JOINT})?(?:{_WORD})){{0,4}}")
_INNER = re.compile(r"(?<![\w@#/.`$-])(?:[a-z]+[A-Z]\w*)(?![\w(/])")
_GOING_ON = re.compile(r"[\w,)’'&%/+-] ?\Z")
_AFTER_NAME = re.compile(r"['’]s\b|,? (?:who|which|and [A-Z]|from [A-Z]|of [A-Z]|at [A-Z])|, [A-Z][\w]+(?:,| and )")
_OWN = re.compile(r"['’](?:s|d|ll|m|re|ve|t)?$")


def names(text: str) -> Iterator[Mention]:
    if " " in text and text.isupper():
        return
    for found in _RUN.finditer(text):
        yield from _named(text, found.start(), found[0])
    for found in _INNER.finditer(text):
        if found[0].lower() in PRODUCTS | {"gitlab", "github", "ebay", "iphone"}:
            yield Mention(found.start(), found.end(), found[0], "product")


def _named(text: str, start: int, run: str) -> Iterator[Mention]:
    """One name of a run of capitalised words; at the beginning of a sentence the first may be only a word."""
    words = [(found.start() + start, found[0]) for found in re.finditer(r"\S+", run)]
    words = _without_titles(words)
    opening = bool(words) and words[0][0] == start and not _GOING_ON.search(text[max(0, start - 2) : start])
    if opening and not _is_name(words, text):
        words = words[1:]
    while words and (not words[0][1][:1].isupper() or _bare(words[0][1]).lower() in _NO_START):
        words = words[1:]
    words = _cut(words)
    if not words or not words[0][1][:1].isupper():
        return
    begin = words[0][0]
    name = text[begin : words[-1][0] + len(words[-1][1])]
    name = _OWN.sub("", name).rstrip(".,&-'’")
    low = name.lower()
    if name.isupper() and len(name) > 3 and all(_is_word(one) for one in low.split()):
        return
    if STANDARD.match(name):
        return
    if len(name) < 2 or low in _NO_START or low.removesuffix("s") in CAPITALISED:
        return
    kind, sure = classify(name)
    yield Mention(begin, begin + len(name), name, kind, sure)


def _without_titles(words: list[tuple[int, str]]) -> list[tuple[int, str]]:
    while words and words[0][1].rstrip(".").lower() in TITLES and len(words) > 1:
        words = words[1:]
    return words


_STARTING = (
    STOP
    | PREPOSITIONS
    | PRONOUNS
    | DETERMINERS
    | frozenset(
        """please never always use run see no yes oh ah aw aww ha haha hm hmm wow woah whoa woo woohoo yay yum yup yep
    yeah yea yo ugh oof nope nah dang congrats kudos cheers gonna wanna gotta lol omg bravo bingo anytime whenever
    sure great perfect awesome nice cool sorry welcome dear thx""".split()
    )
)
_NO_START = _STARTING | CAPITALISED | ACRONYMS


def _bare(word: str) -> str:
    return _OWN.sub("", word).strip(".,")


def _is_name(words: list[tuple[int, str]], text: str) -> bool:
    """Whether the first word of a sentence belongs to a name: it is one and no other word, or it is used like one."""
    first = _bare(words[0][1])
    low = first.lower()
    if low in _NO_START:
        return False
    if any(one.isupper() or one.isdigit() for one in first[1:]):
        return not (first.isupper() and _is_word(low))
    if len(words) > 1 and (low in ORG_STARTS or low in NAME_STARTS or _bare(words[-1][1]).lower() in ORG_ENDINGS):
        return True
    listed = low in first_names() or low in PLACES or low in PRODUCTS or low in ORGANISATIONS
    if _is_word(low):
        return listed and (len(words) > 1 or _used_as_name(words[0], text))
    if len(words) > 1 and not listed:
        return _bare(words[1][1]).lower() not in first_names()
    return listed or _used_as_name(words[0], text)


def _used_as_name(word: tuple[int, str], text: str) -> bool:
    """What follows is what is said of somebody: "Docker is", "Grace merged", "Rosa's"."""
    end = word[0] + len(_bare(word[1]))
    after = text[end : end + 40]
    if _AFTER_NAME.match(after):
        return True
    following = re.match(r" ([a-z]+)", after)
    if following is None:
        return False
    low = following[1]
    known = verbs().get(low)
    finite = known is not None and not known.forms <= {Form.BASE, Form.GERUND}
    return finite or low in AUXILIARIES or low in SAYING or (low.endswith("ed") and len(low) > 4)


def _is_word(low: str) -> bool:
    """Whether it is in the dictionary, in any form."""
    from ...engine.distil._lexicon import known, lemma

    endings = (low, low.removesuffix("s"), low.removesuffix("es"), low.removesuffix("ed"), low.removesuffix("ing"))
    return (
        any(known(one) for one in endings) or known(lemma(low)) or low.endswith(("ly", "n't", "thing", "body", "one"))
    )


def _cut(words: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """What follows an owner is not part of the name: "Maria's Brother"; and a run ends with a capital letter."""
    for at, (_, word) in enumerate(words):
        if re.search(r"['’]s$", word) and at + 1 < len(words):
            return words[: at + 1]
        if (
            word.endswith(".")
            and at + 1 < len(words)
            and len(word) > 3
            and word.rstrip(".").lower() not in ("inc", "corp")
        ):
            return words[: at + 1]
    while words and _bare(words[-1][1]).lower() in (CAPITALISED - {"may", "march"}) and len(words) > 1:
        words = words[:-1]
    return words


def classify(name: str) -> tuple[str, bool]:
    """What a name names, and whether its form alone tells."""
    low = name.lower()
    parts = low.split()
    if low in PLACES:
        return "place", True
    if low in PRODUCTS or (
        parts[0] in PRODUCTS and len(parts) > 1 and parts[0] in ("github", "google", "apache", "aws")
    ):
        return "product", True
    if low in ORGANISATIONS:
        return "organisation", True
    if len(parts) > 1 and (parts[-1].rstrip(".,") in ORG_ENDINGS or parts[0] in ORG_STARTS):
        return "organisation", True
    if parts[0] in first_names() and len(parts) < 4:
        return "person", True
    if len(parts) > 1 and parts[0] in ("project", "operation"):
        return THING, True
    if len(parts) == 1 and any(one.isupper() for one in name[1:]) and not name.isupper():
        return "product", False
    return THING, False
