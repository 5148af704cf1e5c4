"""English words, their base forms and their opposites: a small lexicon made from WordNet by `tools/make_lexicon.py`.

The file is read on first use (some 20 ms) and a word's relations are split only when the word is met.
See `LEXICON-NOTICE.txt` for the licence of the data.
"""

from __future__ import annotations

import gzip
from functools import lru_cache
from importlib.resources import files

# Nouns in -ing and -ed that are no longer felt to be forms of their verb.
_NO_FORMS = frozenset("evening morning ceiling building during nothing something anything everything".split())
_VOWELS = frozenset("aeiouy")
_NEGATIVE_PREFIXES = ("un", "non", "dis", "in", "im")

_CONTRARIES = """
new old|new existing|local remote|real fake|genuine fake|manual automatic|manual automated|early late|start end
start stop|begin end|begin stop|morning evening|day night|single multiple|all none|every none|public private
static dynamic|synchronous asynchronous|accept reject|accept refuse|accept decline|merge split|merge separate
combine separate|together separate|together apart|same different|same other|same another|keep discard|keep delete
keep remove|allow forbid|allow prohibit|allow deny|allow block|permit forbid|grant deny|grant revoke|free paid
internal external|inside outside|inner outer|small big|small large|short long|brief long|fixed variable
explicit implicit|required optional|mandatory optional|fast slow|quick slow|cheap expensive|show hide|reveal hide
open close|open closed|lock unlock|eager lazy|strict lenient|strict loose|simple complex|narrow broad|narrow wide
specific general|specific generic|minimum maximum|low high|lower raise|lower higher|reduce increase|reduce raise
decrease increase|shrink grow|add remove|add subtract|include exclude|include omit|insert delete|attach detach
enable disable|activate deactivate|mute unmute|push pull|upload download|send receive|import export
encrypt decrypt|compress decompress|mount unmount|install uninstall|subscribe unsubscribe|upgrade downgrade
promote demote|centralize distribute|pessimistic optimistic|positive negative|success failure|pass fail
primary secondary|first last|next previous|front back|top bottom|head tail|left right|ascending descending
forward backward|online offline|individual collective|custom standard|parallel sequential|parallel serial
concurrent sequential|temporary permanent|always never|stateful stateless|mutable immutable|relative absolute
soft hard|light heavy|weak strong|careful careless|safe unsafe|safe dangerous|formal informal|direct indirect
stop continue|pause continue|pause resume|halt continue|hire fire|rich poor|warm cold|hot cold|wet dry|light dark
full empty|full partial|whole part|entire partial|complete partial|majority minority|expert novice|senior junior
global local|visible hidden|human machine|buy sell|win lose|succeed fail|answer ignore|speed delay
"""
CONTRARIES = frozenset(
    (left, right)
    for line in _CONTRARIES.split("\n")
    for left, _, right in (item.partition(" ") for item in line.split("|"))
    if right
)


@lru_cache(maxsize=1)
def _table() -> dict[str, str]:
    raw = gzip.decompress(files(__package__).joinpath("lexicon.txt.gz").read_bytes()).decode()
    parted = (line.partition("\t") for line in raw.splitlines())
    return {word: relations for word, _, relations in parted}


@lru_cache(maxsize=8192)
def _antonyms(word: str) -> frozenset[str]:
    """The words marked with `a` among the relations of a word."""
    return frozenset(item[2:] for item in _table().get(word, "").split() if item[0] == "a")


def known(word: str) -> bool:
    return word in _table()


@lru_cache(maxsize=32768)
def opposed(left: str, right: str) -> bool:
    if left == right:
        return False
    if right in _antonyms(left) or left in _antonyms(right) or {(left, right), (right, left)} & CONTRARIES:
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
