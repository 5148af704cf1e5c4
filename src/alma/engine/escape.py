"""Escape stored text so that it cannot act as markup in a prompt.

`escape` changes as little as it can: the one character that would open a tag, a fence, an image or a
forged bullet is replaced by a look-alike, and text that holds nothing of the kind comes back as it was.
What is looked for is found in a folded copy (look-alikes and styled letters mapped to plain ones, without accents),
and mended in the original where each folded character comes from.

`suspicious` does not change text. It says why a text from an untrusted source reads like an attempt to
instruct the model; the trust step keeps such a text out of instruction position.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from .redact import decode_base64


def read_patterns(name: str) -> dict[str, Any]:
    """Return what a JSON file beside this module holds, with `{NAME}` replaced by the entry of that name in "parts".

    A long pattern is a list of strings, which the caller joins.
    """
    with open(os.path.join(os.path.dirname(__file__), f"{name}.json"), encoding="utf-8") as file:
        text = file.read()
    for part, pattern in json.loads(text)["parts"].items():
        text = text.replace("{" + part + "}", json.dumps("".join(pattern))[1:-1])
    data: dict[str, Any] = json.loads(text)
    return data


_DATA = read_patterns("escape")
_PATTERNS = {name: re.compile("".join(pattern)) for name, pattern in _DATA["patterns"].items()}
_REPLACEMENTS = [(re.compile(pattern), replacement) for pattern, replacement in _DATA["replacements"]]
_ALIKE = str.maketrans({sign: plain for plain, signs in _DATA["alike"].items() for sign in signs})

# --- invisible characters --------------------------------------------------------------------------


def _keep_needed_signs(match: re.Match[str]) -> str:
    run, text = match[0], match.string
    before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
    if not before:
        return ""
    if run in ("\u200c", "\u200d") and _PATTERNS["joining"].match(before) and _PATTERNS["joining"].match(after):
        return run
    if run in ("\u200d", "\ufe0f\u200d"):
        return run if _PATTERNS["emoji"].match(before) and _PATTERNS["emoji"].match(after) else ""
    if run in ("\u200e", "\u200f", "\u061c"):
        return run if _PATTERNS["right_to_left"].search(text, max(0, match.start() - 24), match.end() + 24) else ""
    is_keycap = before in "#*0123456789" and after == "\u20e3"
    return run if run == "\ufe0f" and (is_keycap or _PATTERNS["emoji"].match(before)) else ""


def remove_unseen(text: str) -> str:
    """Return the text without invisible characters, except those that spelling and emoji need."""
    if text.isascii() and text.isprintable():
        return text
    text = _PATTERNS["line_break"].sub("\n", _PATTERNS["terminal_sequence"].sub("", text))
    return _PATTERNS["surrogate"].sub("\ufffd", _PATTERNS["unseen"].sub(_keep_needed_signs, text))


# --- characters that act as structure --------------------------------------------------------------


@lru_cache(maxsize=4096)
def _fold_sign(sign: str) -> str:
    """Return the plain characters that a sign stands for; none for accents and invisible characters."""
    import unicodedata  # Loaded for text that is not ASCII.

    plain = unicodedata.normalize("NFKD", sign.translate(_ALIKE)).translate(_ALIKE)
    return "".join(part for part in plain if unicodedata.category(part) not in ("Mn", "Me", "Cf"))


def _fold_text(text: str) -> tuple[str, Sequence[int]]:
    """Return the text in plain letters, and the original position of each of its characters."""
    if text.isascii():
        return text, range(len(text))
    signs = [_fold_sign(sign) for sign in text]
    return "".join(signs), [at for at, sign in enumerate(signs) for _ in sign]


def fold_letters(text: str) -> str:
    """Return the text in plain letters: look-alikes and styled letters mapped to plain ones, without accents."""
    return _fold_text(text)[0]


def _apply_replacements(text: str, replacements: dict[int, str], places: Sequence[int]) -> str:
    """Return the text with characters replaced at positions of its folded copy."""
    spots = {places[at]: instead for at, instead in replacements.items()}
    pieces: list[str] = []
    done = 0
    for at in sorted(spots):
        pieces += (text[done:at], spots[at])
        done = at + 1
    return "".join(pieces) + text[done:]


def _replace_tags(folded: str, spots: dict[int, str], *, is_data: bool) -> None:
    if "<" not in folded:
        return
    starts = []
    for match in _PATTERNS["tag"].finditer(folded):
        at = match.start()
        before = folded[at - 1 : at]
        if not ((before.isalnum() or before == "_") and _PATTERNS["generic_type"].match(folded, at)):
            starts.append(at)
    closed = {match["n"].lower() for match in _PATTERNS["closing_tag"].finditer(folded)}
    starts += [match.start() for match in _PATTERNS["weak_tag"].finditer(folded) if match["n"].lower() in closed]
    starts += [match.start() for match in _PATTERNS["any_tag"].finditer(folded)] if is_data else []
    for at in starts:
        spots[at] = "‹"
        if end := _PATTERNS["tag_end"].match(folded, at + 1):
            spots[end.end() - 1] = "›"
    spots.update((match.start(), "‹") for match in _PATTERNS["loading_tag"].finditer(folded))


def _replace_images(folded: str, spots: dict[int, str]) -> None:
    """`![alt](url)` sends what the url holds to its host; a plain local file does not."""
    open_at: list[int] = []
    for match in _PATTERNS["bracket"].finditer(folded) if "![" in folded else ():
        if match[0] == "\n\n":
            open_at.clear()
        elif match[0][0] != "]":
            open_at.append(match.start() if match[0] == "![" else -1)
        elif open_at:
            start = open_at.pop()
            if start >= 0 and match["target"] and not _PATTERNS["local_image"].match(folded, match.start()):
                spots[start] = "! "
            if match["target"] == "[":
                open_at.append(-1)


def _replace_attributes(folded: str, spots: dict[int, str]) -> None:
    quotes, counted = {'"': 0, "'": 0}, 0
    for match in _PATTERNS["breakout"].finditer(folded):
        at, quote = match.start(), match[0]
        for mark in quotes:
            quotes[mark] += folded.count(mark, counted, at)
        counted = at
        unopened = quotes[quote] % 2 == 0 and at > 0 and folded[at - 1] not in " =([{,:"
        if unopened or _PATTERNS["trust_claim"].match(folded, at + 1):
            spots[at] = "”" if quote == '"' else "’"


_MAX_PASSES = 4


def escape(text: str, *, is_data: bool = False) -> str:
    """Return the text escaped for a Markdown bullet of a prompt; unchanged if it contains no markup.

    With `is_data`, tags of any name are escaped, because the text comes from a program or page.
    """
    text = remove_unseen(text)
    if "\n" in text:
        text = _PATTERNS["line_fold"].sub(" ", text.strip("\n"))
    for _ in range(_MAX_PASSES):
        folded, places = _fold_text(text)
        spots: dict[int, str] = {}
        _replace_tags(folded, spots, is_data=is_data)
        _replace_attributes(folded, spots)
        for pattern, instead in _REPLACEMENTS:
            spots.update((match.start(), instead) for match in pattern.finditer(folded))
        # One mark may hide another: in "<<SYS>>", the tag is found once the mark before it is gone.
        if not spots:
            break
        text = _apply_replacements(text, spots, places)
    # Images come after the rest, since a mended bracket no longer counts as one.
    folded, places = _fold_text(text)
    images: dict[int, str] = {}
    _replace_images(folded, images)
    # A mark that opens a heading, rule, fence or bullet at a line's start gets a backslash before it.
    return _PATTERNS["line_mark"].sub(
        lambda mark: mark["in"] + ("'" * len(mark["fence"]) if mark["fence"] else "\\" + mark["mark"]),
        _apply_replacements(text, images, places),
    )


# --- does it read like an instruction to the model? ------------------------------------------------


_ENOUGH = 4
# Data keeps its keys in quotes too, so quotes excuse only what people quote.
_QUOTABLE = frozenset({"override", "persona"})
_QUOTES = "\"'`“”‘’«»"


@lru_cache(maxsize=1)
def _load_signs() -> list[tuple[str, int, re.Pattern[str]]]:
    """Return the reason, weight and pattern of each sign; compiled only where untrusted content comes in.

    Each is a general turn of phrase in some of the languages such texts come in; none is a list of known attacks. A
    sign weighs what it proves: "ignore your instructions" is enough alone, "always" or `sudo` is not.
    """
    signs = read_patterns("suspicion")["signs"]
    return [(one["reason"], one["weight"], re.compile("".join(one["pattern"]), re.I | re.M)) for one in signs]


def _weigh_signs(text: str) -> dict[str, int]:
    """Return the signs that the text bears, and how much each weighs."""
    points: dict[str, int] = {}
    for reason, weight, pattern in _load_signs():
        if points.get(reason, 0) >= weight:
            continue
        for match in pattern.finditer(text):
            before, after = text[: match.start()][-1:], text[match.end() : match.end() + 1]
            # A phrase set wholly in quotes is talked about, not said: `block "ignore previous instructions"`.
            is_mentioned = before and after and before in _QUOTES and after in _QUOTES
            if not (is_mentioned and reason in _QUOTABLE):
                points[reason] = weight
                break
    return points


@lru_cache(maxsize=512)
def find_suspicion(text: str) -> tuple[str, ...]:
    """Return why the text reads like an instruction planted for the model; nothing when it does not."""
    visible = remove_unseen(text)
    folded = _fold_text(visible)[0]
    # Words of other languages are known as they are written, disguised ones only in plain letters.
    readings = dict.fromkeys(re.sub(r"[^\S\n]+", " ", one) for one in (visible, visible.translate(_ALIKE), folded))
    points = max(map(_weigh_signs, readings), key=lambda weights: sum(weights.values()))
    # What it says to a reader who decodes tag characters and base64.
    tags = "".join(chr(ord(sign) - 0xE0000) for run in _PATTERNS["tag_characters"].findall(text) for sign in run)
    blobs = (decode_base64(blob) for blob in _PATTERNS["base64"].findall(text))
    concealed = "\n".join(filter(None, (tags, *(blob for blob in blobs if blob.isprintable()))))
    if concealed and sum(_weigh_signs(concealed).values()) >= _ENOUGH:
        points["encoded"] = _ENOUGH
    if _PATTERNS["flood"].search(text):
        points["flood"] = _ENOUGH
    if _PATTERNS["forged_structure"].search(folded) and points:
        points["forged_structure"] = 3
    return tuple(points) if sum(points.values()) >= _ENOUGH else ()
