"""Words: how texts are normalised, compared and looked up."""

from __future__ import annotations

import math
import re
from functools import lru_cache, partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Hooks load this module, and have no time for `typing`.
    from collections.abc import Callable
    from typing import Any

_PIECE = re.compile(r"[^\W_]+")
_SPACE = re.compile(r"\s+")
_CASED = re.compile(r"(?P<flag>(?<![\w-])-{1,2}[A-Za-z][\w-]*)|[^-]+|-+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TRAILING = ".!?;:,… "

STOP = frozenset(
    """a about above after again all also am an and any are as at be because been before being below between both but by
    can could did do does doing down during each few for from further had has have having he her here hers him his how i
    if in into is it its itself just let me more most my no nor not now of off on once only or other our ours out over
    own please same she should so some such than that the their theirs them then there these they this those through to
    too under until up very was we were what when where which while who whom why will with would you your yours
    don doesn didn isn aren wasn weren won wouldn shouldn couldn t s d ll m re ve""".split()
)


COMMON = frozenset(
    """able activities activity actually add ago always amount answer area ask away back bad begin best better big bit
    bring build business buy call came care case change check city class clean close come company complete consider
    could country course create current currently cut day days deal different does done earlier early easy else end
    enough even event events ever every example fact family far feel find first follow form found friend full gave
    general get getting give given goes good got great group grow guess hand happen hard head hear help high hold
    home hope hour hours house idea important include item items job keep kind kinds know known large last late
    later lead learn least leave left less level life like likely line list little live local long look lot love
    made main make makes making man many matter maybe mean meet mention might minute minutes moment money month
    months morning move much must name need never new next night nothing number offer often old older one open
    option order outside part passed past people perhaps person pick place plan play point possible prefer previous
    probably problem put question quick quite read ready real really reason recent recently remember right room run
    said save say saying second see seem send service set several share short show side simple since size small
    somebody someone something sometimes soon sort specific spend stand start state stay still stop story sure take
    talk team tell term test thing things think thought time times today together told took top total toward try
    trying turn two type understand use used useful user using usually visit wait walk want wanted watch water way
    week weekend weeks well went whole without word words work working world would write wrong year years yes yet
    young younger""".split()
)
"""Words that most texts hold: to share one of them is to share little."""


def _fold(match: re.Match[str]) -> str:
    return match[0] if match["flag"] else match[0].casefold()


def _make_compatible(text: str) -> str:
    import unicodedata

    return unicodedata.normalize("NFKC", text)


def normalise(text: str) -> str:
    """Case (but for options such as -D), width, white space and closing punctuation make no difference."""
    plain = text if text.isascii() else _make_compatible(text)
    folded = (_CASED.sub(_fold, plain) if "-" in plain else plain.casefold()).replace("’", "'")
    return _SPACE.sub(" ", folded).strip().rstrip(_TRAILING)


# Names, domains and kinds are short and come again and again.
_normalise_name = lru_cache(maxsize=4096)(normalise)


def fingerprint(*parts: str) -> str:
    """Return a digest that is equal for texts that differ only in case, accents and spacing."""
    joined = "\x1f".join(_normalise_name(part) if len(part) < 32 else normalise(part) for part in parts)
    return digest(joined)


def digest(*parts: str, size: int = 16) -> str:
    """Return a hash of these texts to the letter, in hexadecimal; `size` is in bytes."""
    # Loaded here because hooks have no time for it and no need.
    import hashlib

    return hashlib.blake2b("\x1f".join(parts).encode("utf-8", "replace"), digest_size=size).hexdigest()


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Return the stem of an English word, so that 'deploys', 'deployed' and 'deploying' are equal."""
    if len(word) <= 3 or not word.isascii():
        return word
    for ending, least in (
        ("ingly", 4),
        ("edly", 4),
        ("ing", 4),
        ("ied", 3),
        ("ies", 3),
        ("ed", 4),
        ("es", 4),
        ("ly", 4),
        ("s", 3),
    ):
        if word.endswith(ending) and len(word) - len(ending) >= least - 1 and not word.endswith("ss"):
            root = word[: -len(ending)]
            if ending in ("ied", "ies"):
                return root + "y"
            if len(root) > 3 and root[-1] == root[-2] and root[-1] not in "lsz":
                root = root[:-1]
            return root.removesuffix("e")
    return word.removesuffix("e")


def words(text: str, fold: Callable[[str], str] = str.casefold) -> list[str]:
    """Return the words of a text in lower case; Chinese and Japanese in pairs of characters."""
    plain = text if text.isascii() else split_unspaced(_make_compatible(text))
    # The Turkish İ becomes an i with a dot of its own above it.
    return _PIECE.findall(fold(plain).replace("\u0307", ""))


def content_words(text: str, most: int | None = None) -> list[str]:
    """Return the words that carry meaning, each once, in order; all words when nothing else is left."""
    all_words = list(dict.fromkeys(words(text)))
    content = [word for word in all_words if word not in STOP and (len(word) > 1 or word.isdigit())] or all_words
    return content if most is None else content[:most]


@lru_cache(maxsize=1024)
def stems(text: str) -> frozenset[str]:
    """Return the stems of the content words of a text."""
    return frozenset(map(stem, content_words(text)))


def coverage(query: frozenset[str], text: frozenset[str]) -> float:
    """Which share of the query's words the text holds."""
    return len(query & text) / len(query) if query else 0.0


@lru_cache(maxsize=1)
def _common_stems() -> frozenset[str]:
    return frozenset(map(stem, COMMON))


def is_common(word: str) -> bool:
    """Return whether a word occurs in many texts and says little about any of them."""
    return stem(word) in _common_stems()


def agreement(query: frozenset[str], text: frozenset[str]) -> float:
    """Which share of the query's words the text holds, common ones counting little.

    One word shared of several says less than its share; the only word there is, shared, is all one can ask.
    """
    common = _common_stems()
    telling = len(query - common)
    total = telling + _COMMON_WEIGHT * (len(query) - telling)
    if not total:
        return 0.0
    both = query & text
    shared = len(both - common) + _COMMON_WEIGHT * len(both & common)
    return shared / total * min(1.0, shared / max(1, min(2, telling)))


_COMMON_WEIGHT = 0.3


def shorten(text: str, most: int) -> str:
    """Return a text on one line, cut to at most so many characters."""
    flat = _SPACE.sub(" ", text).strip()
    return flat if len(flat) <= most else flat[: most - 1].rstrip() + "…"


def passages(text: str, most: int) -> list[str]:
    """Return the text in pieces of at most `most` characters, cut between sentences or words if possible."""
    pieces = []
    rest = text.strip()
    while len(rest) > most:
        cut = max(rest.rfind(mark, most // 2, most) + len(mark) for mark in ("\n", ". ", "! ", "? ", "; "))
        if cut <= most // 2:
            cut = rest.rfind(" ", most // 2, most) + 1 or most
        pieces.append(rest[:cut].strip())
        rest = rest[cut:].strip()
    return [*pieces, rest] if rest else pieces


def map_texts(value: Any, change: Callable[[str], str], *, has_names: bool = True) -> Any:
    """Return a JSON value with all its texts changed; `has_names` includes the names of members."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [map_texts(one, change, has_names=has_names) for one in value]
    if isinstance(value, dict):
        members = ((name, map_texts(one, change, has_names=has_names)) for name, one in value.items())
        return {change(name) if has_names else name: one for name, one in members}
    return value


def replace_surrogates(value: Any) -> Any:
    """Return a JSON value without halves of surrogate pairs, which no file can hold."""
    return map_texts(value, partial(_SURROGATE.sub, "\ufffd"))


@lru_cache(maxsize=1)
def _compile_unspaced() -> re.Pattern[str]:
    """Return the pattern of Chinese and Japanese. Such ranges take long to compile, and most hooks need none."""
    return re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")


def split_unspaced(text: str) -> str:
    """Replace each run of Chinese or Japanese by its pairs of characters: "東京都" becomes "東京 京都"."""

    def list_pairs(run: re.Match[str]) -> str:
        pairs = [run[0][at : at + 2] for at in range(len(run[0]) - 1)] or [run[0]]
        return f" {' '.join(pairs)} "

    return _compile_unspaced().sub(list_pairs, text)


def index_unspaced(text: str) -> str:
    """Return a text to be searched by words: with the pairs of characters of its Chinese and Japanese."""
    runs = [] if text.isascii() else _compile_unspaced().findall(text)
    return f"{text}\n{' '.join(split_unspaced(' '.join(runs)).split())}" if runs else text


def name_key(name: str) -> str:
    """Return a name as it is compared: case, width and white space make no difference."""
    return " ".join((name if name.isascii() else _make_compatible(name)).split()).casefold()


def count_tokens(text: str) -> int:
    """Return a conservative estimate of a text's tokens: one for every 3.5 bytes."""
    return math.ceil(len(text.encode("utf-8", "replace")) / 3.5)
