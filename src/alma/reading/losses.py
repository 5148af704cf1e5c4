"""What would be lost if one text took the place of another. Whatever is not certain counts as lost.

Numbers with units, names, identifiers, quoted text and words of scope ("staging") must be in the text that stays.
Options, comparison signs, negations and "only" must be the same in both. The text that stays may not be weaker.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache, partial

from ..text import STOP, is_common, split_unspaced, stem, stems, words
from .local import load_vocabulary

_vocabulary = partial(load_vocabulary, "vocabulary.json")
_COMPARISON = re.compile(r"(?<![-=<>])([<>]=?|[!=]=|[≤≥≠±])(?![-=<>])")
_PIECE = re.compile(r"`[^`]{1,200}`|\"[^\"]{1,200}\"|“[^”]{1,200}”|„[^“”]{1,200}[“”]|«[^»]{1,200}»|\S+")
_FLAG = re.compile(r"--?[A-Za-z][\w-]*")
_NUMBER = re.compile(r"([$€£]?[+-]?\d+(?:[.,:]\d+)*)(?:st|nd|rd|th|(%|[A-Za-z]{1,3}))?")
_COUNTED = re.compile(r"(?<![\w.-])(\d+)-(?=[A-Za-z]{2})")  # "30-day".
_HYPHENATED = re.compile(r"\d[-–]\w|\w[-–]\d")  # A date, a range, "eu-west-1".
_IDENTIFIER = re.compile(r"[/\\_.@#~$]\w|\w[/\\_.@:=#]\w|[a-z][A-Z]|\d[A-Za-z]|[A-Za-z]\d|\w\(")
_WHOLE = r"(?<![\w/\\.-])%s(?![\w/\\-]|\.\w)"
_GROUPING = re.compile(r",(?=\d{3}(?!\d))")
_Signs = defaultdict[str, list[tuple[str, str]]]  # By kind: how each is compared, and how it is reported.
_QUOTES, _QUOTED, _OPENING, _CLOSING, _MAX_CHARS = '`"“„«', '`"”“»', "([{'‘", ".,;:!?…')]}", 4_000
_SAME_WORDS = 0.7
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}


def find_losses(kept: str, dropped: str, *, is_read: bool = False, is_action: bool = False) -> list[str]:
    """Return what `dropped` says and `kept` does not, or says otherwise; empty if nothing is lost.

    If a model has read both and found them to say the same (`is_read`), a negation may stand elsewhere or be a word of
    refusal ("forbidden"), and how strong a wish is and what a number counts may be worded otherwise. An action begins
    with a verb, no name.
    """
    losses = _list_losses(kept, dropped, is_read=is_read, is_action=is_action)
    return list(dict.fromkeys(label for _, label in losses))


def can_be_quoted(kept: str, dropped: str) -> bool:
    """Return whether a text that a model found to say the same as another may be kept beside it, as a quotation.

    It may not if they differ in an option, if both give a number or a name that the other lacks, or if they have the
    same words but for a negation: then one of them is wrong, or the model is.
    """
    missing, lacking = ({kind for kind, _ in losses} for losses in _compare_details(kept, dropped))
    if "option" in missing | lacking or missing & lacking & {"number", "name", "text"}:
        return False
    return "not" not in missing | lacking or _share_words(kept, dropped) < _SAME_WORDS


def can_be_checked(first: str, second: str) -> bool:
    """Return whether a model may decide that details which only one of two texts has are said by the other too.

    It may not about options, nor if the texts have the same words but for these details: then it would be wrong.
    """
    missing, lacking = _compare_details(first, second)
    kinds = {kind for kind, _ in (*missing, *lacking)}
    details = " ".join(label for _, label in (*missing, *lacking))
    # "No release without a review" and "each release needs a review" have most words in common.
    most = 1.0 if kinds == {"not"} else _SAME_WORDS
    return "option" not in kinds and _share_words(first, second, details) < most


def _share_words(first: str, second: str, details: str = "") -> float:
    """Return which share of the words of two texts both have, without negations and details."""
    guards = _vocabulary("guards")
    left_out = stems(details) | {*map(stem, f"{guards['not']} {guards['only']}".split())}
    mine, theirs = (stems(one) - left_out for one in (first, second))
    return len(mine & theirs) / len(mine | theirs) if mine | theirs else 1.0


def _compare_details(first: str, second: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return what the first of two texts lacks, and what the second lacks."""
    # A word that begins a text is no name for certain, and here nothing vanishes with it.
    read = partial(_list_losses, is_read=True, is_action=True)
    return read(first, second), read(second, first)


def _list_losses(kept: str, dropped: str, *, is_read: bool, is_action: bool = False) -> list[tuple[str, str]]:
    """Return the losses, each with its kind."""
    if split_unspaced(dropped) != dropped or max(len(kept), len(dropped)) > _MAX_CHARS:
        is_same = words(kept) == words(dropped)
        return [] if is_same else [("text", "a text that is long or in a language that is not read")]
    mine, theirs = _read_signs(kept), _read_signs(dropped)
    kept_stems = {stem(_spell_out(word)) for word in words(kept)}
    first = dropped.split(maxsplit=1)[0] if is_action else ""
    named = [one for one in theirs["name"] if one[0] not in kept_stems and one[1] != first]
    names = [(rf"(?i:{re.escape(label)})", "name", label) for _, label in named]
    texts = [*names, *((re.escape(value), "text", label) for value, label in theirs["text"])]
    plain = kept.replace("’", "'")
    losses = [(kind, label) for pattern, kind, label in texts if not re.search(_WHOLE % pattern, plain)]
    measure = _name_unit if is_read else str
    numbers = [measure(value) for value, _ in mine["number"]]
    for value, label in theirs["number"]:
        # They keep their order: "5 of 3" is not "3 of 5". A number without a unit may have one in the text that stays.
        own = measure(value)
        places = [
            at for at, one in enumerate(numbers) if f"{one} ".startswith(f"{own} ") or _convert(one) == _convert(own)
        ]
        losses += [] if places else [("number", label)]
        numbers = numbers[places[0] + 1 :] if places else numbers
    if is_read:
        # It read what a negation is about; but none may vanish or be added, nor "only" or "unless".
        for signs, others, text, other in ((theirs, mine, kept, dropped), (mine, theirs, dropped, kept)):
            refusals = {*_vocabulary("refusals").split()} & {*words(text)} - {*words(other)}
            guards = [label for _, label in (*signs["not"], *signs["only"])]
            is_negative = others["not"] or others["only"] or refusals
            losses += [("not", guards[0])] if guards and not is_negative else []
    for kind in ("option",) if is_read else ("option", "only", "not", "must", "should", "may"):
        left = list(mine[kind])
        for value, label in theirs[kind]:
            # What a negation is about may stand before it.
            places = [at for at, one in enumerate(left) if one[0] == value or not (one[0] and value)]
            losses += [] if places else [(kind, label)]
            left = left[: places[0]] + left[places[0] + 1 :] if places else left
        losses += [(kind, f"{label} (added)") for _, label in left if kind != "must"]
    return losses


def _convert(value: str) -> str:
    """Return times of day and durations in one form, so that "2 am" is "02:00"; other numbers as they are."""
    number, _, unit = value.partition(" ")
    clock = re.fullmatch(r"(\d{1,2}):?([0-5]\d)?", number)
    if clock and (unit in ("am", "pm") or ":" in number):
        hour = int(clock[1]) % 12 + 12 * (unit == "pm") if unit in ("am", "pm") else int(clock[1])
        return f"{hour:02}:{clock[2] or '00'}"
    return f"{int(number) * _SECONDS[unit]} second" if unit in _SECONDS and number.isdecimal() else value


def _name_unit(value: str) -> str:
    """Return a number with its unit of measurement, but without what it counts ("replicas"), which a model read."""
    number, _, unit = value.partition(" ")
    return value if unit in _vocabulary("units").values() else number


def _spell_out(word: str) -> str:
    return str(_vocabulary("abbreviations").get(word, word))


@lru_cache(maxsize=1024)
def _read_signs(text: str) -> _Signs:
    numbers, units, scopes = _vocabulary("numbers"), _vocabulary("units"), " ".join(_vocabulary("scopes")).split()
    guards = {word: kind for kind, names in _vocabulary("guards").items() for word in names.split()}
    signs: _Signs = defaultdict(list)
    raw = _PIECE.findall(_COMPARISON.sub(r" \1 ", _COUNTED.sub(r"\1 ", text.replace("’", "'"))))
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
            unit = units.get(own or after) or ("" if own or after not in content else stem(after))
            # The letters of "5k" and "5A" belong to the number.
            value = f"{_GROUPING.sub('', number[1])}{'' if own in units else own} {unit}".strip()
            # "One" alone is mostly a pronoun.
            if unit or lower != "one":
                signs["number"].append((value, piece if own or not unit else f"{piece} {after}"))
        elif guard:
            about = (content or [""])[0] if guard == "not" else ""
            signs[guard].append((stem(about), f"{piece} {about}".strip()))
        elif (is_quoted := piece[0] in _QUOTES and piece[-1] in _QUOTED and len(piece) > 2) or _IDENTIFIER.search(
            piece
        ):
            signs["text"].append((piece[1:-1] if is_quoted else piece, piece))
        elif (
            (name := lower.split("'")[0]) in scopes
            or _HYPHENATED.search(piece)
            or (piece[:1].isupper() and len(name) > 1 and not (lower in STOP or name in STOP or is_common(name)))
        ):
            # "HTTPS" is no plural.
            is_acronym = piece.isupper() and _spell_out(name) == name
            signs["name"].append(("" if is_acronym else stem(_spell_out(name)), piece))
    return signs
