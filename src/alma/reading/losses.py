"""What would be lost if one text took the place of another. Whatever is not certain counts as lost.

Numbers with units, names, identifiers, quoted text and words of scope ("staging") must be in the text that stays.
Options, comparison signs, negations and "only" must be the same in both. The text that stays may not be weaker.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache, partial

from ..text import STOP, is_common, split_unspaced, stem, words
from .local import load_vocabulary

_vocabulary = partial(load_vocabulary, "vocabulary.json")
_COMPARISON = re.compile(r"(?<![-=<>])([<>]=?|[!=]=|[≤≥≠±])(?![-=<>])")
_PIECE = re.compile(r"`[^`]{1,200}`|\"[^\"]{1,200}\"|“[^”]{1,200}”|„[^“”]{1,200}[“”]|«[^»]{1,200}»|\S+")
_FLAG = re.compile(r"--?[A-Za-z][\w-]*")
_NUMBER = re.compile(r"([$€£]?[+-]?\d+(?:[.,:]\d+)*)(%|[A-Za-z]{1,3})?")
_IDENTIFIER = re.compile(r"[/\\_.@#~$]\w|\w[/\\_.@:=#]\w|[a-z][A-Z]|\d[A-Za-z]|[A-Za-z]\d|\w\(")
_WHOLE = r"(?<![\w/\\.-])%s(?![\w/\\-]|\.\w)"
_GROUPING = re.compile(r",(?=\d{3}(?!\d))")
_Signs = defaultdict[str, list[tuple[str, str]]]  # By kind: how each is compared, and how it is reported.
_QUOTES, _QUOTED, _OPENING, _CLOSING, _MAX_CHARS = '`"“„«', '`"”“»', "([{'‘", ".,;:!?…')]}", 4_000


def find_losses(kept: str, dropped: str, *, is_read: bool = False, is_action: bool = False) -> list[str]:
    """Return what `dropped` says and `kept` does not, or says otherwise; empty if nothing is lost.

    If a model has read both and found them to say the same (`is_read`), a negation may stand elsewhere in the sentence
    and a strong wish may be worded otherwise. An action begins with a verb, which is no name.
    """
    if split_unspaced(dropped) != dropped or max(len(kept), len(dropped)) > _MAX_CHARS:
        return [] if words(kept) == words(dropped) else ["a text that is long or in a language that is not read"]
    mine, theirs, stems = _read_signs(kept), _read_signs(dropped), set(map(stem, words(kept)))
    first = dropped.split(maxsplit=1)[0] if is_action else ""
    named = [one for one in theirs["name"] if one[0] not in stems and one[1] != first]
    names = [(rf"(?i:{re.escape(label)})", label) for _, label in named]
    texts = [*names, *((re.escape(value), label) for value, label in theirs["text"])]
    losses = [label for pattern, label in texts if not re.search(_WHOLE % pattern, kept.replace("’", "'"))]
    numbers = list(mine["number"])
    for value, label in theirs["number"]:
        # They keep their order: "5 of 3" is not "3 of 5". A number without a unit may have one in the text that stays.
        places = [at for at, one in enumerate(numbers) if f"{one[0]} ".startswith(f"{value} ")]
        losses += [] if places else [label]
        numbers = numbers[places[0] + 1 :] if places else numbers
    if is_read and mine["not"] and theirs["not"]:
        mine, theirs = (_Signs(list, {**signs, "not": []}) for signs in (mine, theirs))
    for kind in ("option", "only", "not") if is_read else ("option", "only", "not", "must", "should", "may"):
        left = list(mine[kind])
        for value, label in theirs[kind]:
            # What a negation is about may stand before it.
            places = [at for at, one in enumerate(left) if one[0] == value or not (one[0] and value)]
            losses += [] if places else [label]
            left = left[: places[0]] + left[places[0] + 1 :] if places else left
        losses += [f"{label} (added)" for _, label in left if kind != "must"]
    return list(dict.fromkeys(losses))


@lru_cache(maxsize=1024)
def _read_signs(text: str) -> _Signs:
    numbers, units, scopes = _vocabulary("numbers"), _vocabulary("units"), " ".join(_vocabulary("scopes")).split()
    guards = {word: kind for kind, names in _vocabulary("guards").items() for word in names.split()}
    signs: _Signs = defaultdict(list)
    raw = _PIECE.findall(_COMPARISON.sub(r" \1 ", text.replace("’", "'")))
    pieces = [one if one[0] in _QUOTES else one.lstrip(_OPENING).rstrip(_CLOSING) or one for one in raw]
    for at, piece in enumerate(pieces):
        lower = piece.casefold()
        following = [] if raw[at][-1] in _CLOSING else [one.casefold() for one in pieces[at + 1 : at + 9]]
        content = [one for one in following if one.isalpha() and one not in STOP]
        guard = guards.get("not" if lower.endswith("n't") else lower)
        number = _NUMBER.fullmatch(numbers.get(lower, piece))
        if _COMPARISON.fullmatch(piece) or _FLAG.fullmatch(piece):
            signs["option"].append((piece, piece))
        elif number is not None:
            own, after = (number[2] or "").casefold(), (following or [""])[0]
            unit = units.get(own or after) or own or (stem(after) if after in content else "")
            value = f"{_GROUPING.sub('', number[1])} {unit}".strip()
            signs["number"].append((value, piece if own or not unit else f"{piece} {after}"))
        elif guard:
            about = (content or [""])[0] if guard == "not" else ""
            signs[guard].append((stem(about), f"{piece} {about}".strip()))
        elif (is_quoted := piece[0] in _QUOTES and piece[-1] in _QUOTED and len(piece) > 2) or _IDENTIFIER.search(
            piece
        ):
            signs["text"].append((piece[1:-1] if is_quoted else piece, piece))
        elif lower in scopes or (piece[:1].isupper() and len(piece) > 1 and not (lower in STOP or is_common(lower))):
            signs["name"].append((stem(lower), piece))
    return signs
