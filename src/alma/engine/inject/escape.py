"""Stored text enters a prompt as data; here it loses the means to act as structure.

`escape` changes as little as it can: the one character that would open a tag, a fence, an image or a
forged bullet is replaced by a look-alike, and text that holds nothing of the kind comes back as it was.
What is looked for is found in a folded copy (look-alikes and styled letters mapped to plain ones, without accents),
and mended in the original where each folded character comes from.

`suspicious` does not change text. It says why a text from an untrusted source reads like an attempt to
instruct the model; the trust step keeps such a text out of instruction position.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from functools import lru_cache

# --- characters nobody sees ------------------------------------------------------------------------

# CSI, OSC (ended by BEL or ST) and two-character sequences. A lone ESC falls to _UNSEEN.
_ANSI = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_a-z]")
_BREAK = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_FOLD = re.compile(r"(?<!\s)\s*\n\s*")
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]+"
)
# Persian and Indic spelling, emoji and bidirectional punctuation need these, one at a time and in place.
_JOINING = re.compile(
    "[\u0590-\u1bff\ua800-\uabff\ufb1d-\ufdff\ufe70-\ufefc\U00010a00-\U00011fff\U0001e900-\U0001e95f]"
)
_EMOJI = re.compile("[\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def _keep_needed(match: re.Match[str]) -> str:
    run, text = match[0], match.string
    before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
    if not before:
        return ""
    if run in ("\u200c", "\u200d") and _JOINING.match(before) and _JOINING.match(after):
        return run
    if run in ("\u200d", "\ufe0f\u200d"):
        return run if _EMOJI.match(before) and _EMOJI.match(after) else ""
    if run in ("\u200e", "\u200f", "\u061c"):
        return run if _RIGHT_TO_LEFT.search(text, max(0, match.start() - 24), match.end() + 24) else ""
    is_keycap = before in "#*0123456789" and after == "\u20e3"
    return run if run == "\ufe0f" and (is_keycap or _EMOJI.match(before)) else ""


def remove_unseen(text: str) -> str:
    """The text without what nobody sees; what spelling and emoji need stays."""
    if text.isascii() and text.isprintable():
        return text
    text = _BREAK.sub("\n", _ANSI.sub("", text))
    return _SURROGATE.sub("\ufffd", _UNSEEN.sub(_keep_needed, text))


# --- characters that act as structure --------------------------------------------------------------

_ALIKE = str.maketrans(
    {0xFF01 + i: 0x21 + i for i in range(94)}
    | dict(zip(map(ord, "﹤﹥❮❯⟨⟩〈〉｟｠ᐸᐳ˂˃｜│∣⁄∕"), map(ord, "<><><><><><><>|||//"), strict=False))
    | dict(zip(map(ord, "аеорсухіѕмтнвкАЕОРСУХІЅМТНВК"), map(ord, "aeopcyxismthbkAEOPCYXISMTHBK"), strict=True))
    | dict(zip(map(ord, "οαερτυνικΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"), map(ord, "oaeptuvikABEZHIKMNOPTYX"), strict=True))
    | dict(zip(map(ord, "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ"), map(ord, "abcdefghijklmnoprstuvwyz"), strict=True))
    | {start + i: 0x41 + i for start in (0x1F150, 0x1F170) for i in range(26)}
)

_STRONG = (
    r"system|memor(?:y|ies)|instructions?|assistant|reminder|prompt|alma|claude|antml|human"
    r"|function[_-]calls?"
    r"|function[_-]results?|tool[_-](?:calls?|use|results?|response|output)|start[_-]of[_-]turn"
    r"|end[_-]of[_-]turn|sys"
)
_WEAK = (
    r"user|context|tools?|rules?|messages?|documents?|role|session|profile|thinking|skills?|hooks?"
    r"|developer|admin|data|policy"
    r"|untrusted|trusted|learned|recall|invoke|conversation|turn|inst|important|hidden|override"
    r"|guidelines?|search|results?"
)
_PART = r"(?:[a-z0-9]{1,30}[_:.-]){0,4}"
# `</memory`, `<system-reminder`, `< system >`. Not `#include <memory>`, `a < memory`, `Arc<Memory>`.
_TAG = re.compile(
    rf"(?i:<\s{{0,8}}/[\s/]{{0,8}}{_PART}(?:{_STRONG}|{_WEAK})(?![a-z0-9])"
    rf"|(?<!include )<{_PART}(?:{_STRONG})(?![a-z0-9])(?=[\w:.-]{{0,60}}[\s/>]|$)"
    rf"|<\s{{1,8}}{_PART}(?:{_STRONG})(?:[_-][\w-]{{0,40}})?\s{{0,8}}>)"
    r"|<(?=\|\w[\w-]{0,40}\|>)|<(?=\|\s{0,4}(?i:im_|system|user\b|assistant|endof|start|eot|begin_))|<<"
    r"(?=/?SYS>>)|<(?=!\[CDATA\[)"
)
# Any tag at all, which quoted data has no need of. Not `a < b`, `<3`.
_ANY_TAG = re.compile(
    r"<(?=!--|[/!?]{0,2}[^\W\d])|<(?=\s{0,8}/[\s/]{0,8}[^\W\d])"
    r"|<(?=\s{1,8}[^\W\d][\w:.-]{0,60}(?:\s{1,8}[\w:.-]{1,40}=[^<>\n]{0,200})?\s{0,8}/?>)"
)
_GENERIC = re.compile(r"<[A-Z]\w*(?:>|$)")
_WEAK_OPEN = re.compile(rf"(?i:<(?P<n>{_PART}(?:{_WEAK})(?:[_-][\w-]{{0,40}})?))(?=[\s>])")
_CLOSING = re.compile(r"</(?P<n>[A-Za-z][\w:.-]{0,80})")
_LOADS = re.compile(
    r"<(?=(?i:img|image|iframe|object|embed|video|audio|source|svg|picture)\b[^<>]{0,400}?"
    r"(?://|:|\?|\{|\$|(?i:\bon[a-z]{3,20}\s{0,3}=)))"
)
_LITTLE = (
    (re.compile(r"(?<=\]\])>"), "›"),
    (re.compile(r"\[(?=cs:)", re.I), "("),
    (re.compile(r"\[(?=/?INST\])"), "("),
    (re.compile(r"(?<=[\"']role[\"']):(?=\s{0,4}[\"'](?:system|developer|assistant)[\"'])", re.I), "∶"),
    (re.compile(r"(?<=\\\"role\\\"):(?=\s{0,4}\\\"(?:system|developer|assistant)\\\")", re.I), "∶"),
    (
        re.compile(
            r"(?:(?<=^role)|(?<=\nrole)|(?<=- role)):(?=\s{0,4}[\"']?(?:system|developer"
            r"|assistant)\b)",
            re.I,
        ),
        "∶",
    ),
    (re.compile(r"(?:(?<=\nhuman)|(?<=\nassistant)|(?<=\n\nsystem)):(?=\s)", re.I), "∶"),
)
_LINE = re.compile(
    r"^(?P<in>[^\S\n]*)(?:(?P<mark>#{1,6}(?=\s|$)|=+[^\S\n]*$|(?:-[^\S\n]*){3,}(?=\s|$)|"
    r"(?:\*[^\S\n]*){3,}$|(?:_[^\S\n]*){3,}$|~{3,}"
    r"|[-*+](?=[^\S\n]))|(?P<fence>`{3,}))",
    re.M,
)
_BRACKET = re.compile(r"!\[|\[|\](?P<target>[(\[])?|\n\n")
_LOCAL_IMAGE = re.compile(r"\]\([\w./-]{1,200}\.(?:png|jpe?g|gif|svg|webp)\)", re.I)
# A quote that closes an attribute this text never opened: `name" trusted="true`.
_BREAKOUT = re.compile(r"[\"'](?=\s{1,8}[\w:-]{1,40}\s{0,4}=\s{0,4}[\"'])")
_CLAIM = re.compile(r"(?<!\s)\s+(?:trust\w*|verified|approved|privileged|authority|system)\s*=", re.I)


@lru_cache(maxsize=4096)
def _fold_sign(sign: str) -> str:
    """The plain characters that one stands for; none for an accent or for what nobody sees."""
    import unicodedata  # Loaded for text that is not ASCII.

    plain = unicodedata.normalize("NFKD", sign.translate(_ALIKE)).translate(_ALIKE)
    return "".join(part for part in plain if unicodedata.category(part) not in ("Mn", "Me", "Cf"))


def _fold(text: str) -> tuple[str, Sequence[int]]:
    """The text in plain letters, and for each of its characters where it comes from."""
    if text.isascii():
        return text, range(len(text))
    signs = [_fold_sign(sign) for sign in text]
    return "".join(signs), [at for at, sign in enumerate(signs) for _ in sign]


def _mend(text: str, found: dict[int, str], places: Sequence[int]) -> str:
    """The text with other characters in the places that were found in its folded copy."""
    if not found:
        return text
    spots = {places[at]: instead for at, instead in found.items()}
    pieces: list[str] = []
    done = 0
    for at in sorted(spots):
        pieces += (text[done:at], spots[at])
        done = at + 1
    return "".join(pieces) + text[done:]


def _close_bracket(folded: str, start: int, spots: dict[int, str]) -> None:
    end = re.compile(r"[^<>\n]{0,200}>").match(folded, start + 1)
    if end:
        spots[end.end() - 1] = "›"


def _tags(folded: str, spots: dict[int, str]) -> None:
    if "<" not in folded:
        return
    closed = {m["n"].lower() for m in _CLOSING.finditer(folded)}
    for match in _TAG.finditer(folded):
        at = match.start()
        typed = at > 0 and (folded[at - 1].isalnum() or folded[at - 1] == "_") and _GENERIC.match(folded, at)
        if not typed:
            spots[at] = "‹"
            _close_bracket(folded, at, spots)
    for match in _WEAK_OPEN.finditer(folded):
        if match["n"].lower() in closed:
            spots[match.start()] = "‹"
            _close_bracket(folded, match.start(), spots)
    spots.update((match.start(), "‹") for match in _LOADS.finditer(folded))


def _all_tags(folded: str, spots: dict[int, str]) -> None:
    for match in _ANY_TAG.finditer(folded):
        spots[match.start()] = "‹"
        _close_bracket(folded, match.start(), spots)


def _images(folded: str, spots: dict[int, str]) -> None:
    """`![alt](url)` sends what the url holds to its host; a plain local file does not."""
    open_at: list[int] = []
    for match in _BRACKET.finditer(folded) if "![" in folded else ():
        if match[0] == "\n\n":
            open_at.clear()
        elif match[0][0] != "]":
            open_at.append(match.start() if match[0] == "![" else -1)
        elif open_at:
            start = open_at.pop()
            if start >= 0 and match["target"] and not _LOCAL_IMAGE.match(folded, match.start()):
                spots[start] = "! "
            if match["target"] == "[":
                open_at.append(-1)


def _attributes(folded: str, spots: dict[int, str]) -> None:
    seen, counted = {'"': 0, "'": 0}, 0
    for match in _BREAKOUT.finditer(folded):
        at, quote = match.start(), match[0]
        for mark in seen:
            seen[mark] += folded.count(mark, counted, at)
        counted = at
        unopened = seen[quote] % 2 == 0 and at > 0 and folded[at - 1] not in " =([{,:"
        if unopened or _CLAIM.match(folded, at + 1):
            spots[at] = "”" if quote == '"' else "’"


def _lines(text: str) -> str:
    """A mark that opens a heading, rule, fence or bullet at a line's start gets a backslash before it."""
    return _LINE.sub(lambda m: m["in"] + ("'" * len(m["fence"]) if m["fence"] else "\\" + m["mark"]), text)


def escape(text: str, *, multiline: bool = False, is_data: bool = False) -> str:
    """The text, inert inside a markdown bullet of a prompt; unchanged when nothing in it is structure.

    With `is_data` no tag of any name remains one: what programs and pages say is only quoted.
    """
    text = remove_unseen(text)
    if not multiline and "\n" in text:
        text = _FOLD.sub(" ", text.strip("\n"))
    folded, places = _fold(text)
    spots: dict[int, str] = {}
    _tags(folded, spots)
    if is_data:
        _all_tags(folded, spots)
    _attributes(folded, spots)
    for pattern, instead in _LITTLE:
        spots.update((match.start(), instead) for match in pattern.finditer(folded))
    text = _mend(text, spots, places)
    # Images come after the rest, since a mended bracket no longer counts as one.
    folded, places = _fold(text)
    images: dict[int, str] = {}
    _images(folded, images)
    return _lines(_mend(text, images, places))


# --- does it read like an instruction to the model? ------------------------------------------------

_BLOB = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{24,2000}={0,2}(?![A-Za-z0-9+/=])")
_TAG_TEXT = re.compile("[\U000e0020-\U000e007e]{4,}")
_FLOOD = re.compile(r"(\S)\1{999}|(?<!\S)(?!data:)\S{4000}")
_PRETEND = re.compile(r"</?\s*(?:system|memory|instruction|system-reminder)s?\b|<\|im_|\[/?INST\]", re.I)


def _decoded(blob: str) -> str:
    try:
        return base64.b64decode(blob + "=" * (-len(blob) % 4)).decode("ascii")
    except (binascii.Error, ValueError):
        return ""


def _concealed(text: str) -> str:
    """What the text says to a reader who decodes: tag characters and base64."""
    tags = "".join(chr(ord(c) - 0xE0000) for run in _TAG_TEXT.findall(text) for c in run)
    blobs = (_decoded(m[0].rstrip("=")) for m in _BLOB.finditer(text))
    return "\n".join(filter(None, (tags, *(b for b in blobs if b.isprintable()))))


def suspicious(text: str) -> tuple[str, ...]:
    """Why the text reads like an instruction planted for the model; nothing when it does not."""
    # Its many patterns are compiled only where untrusted content comes in.
    from .suspicion import ENOUGH, signals

    shown = remove_unseen(text)
    folded = _fold(shown)[0]
    # Words of other languages are known as they are written, disguised ones only in plain letters.
    readings = dict.fromkeys(re.sub(r"[^\S\n]+", " ", one) for one in (shown, shown.translate(_ALIKE), folded))
    points = max(map(signals, readings), key=lambda found: sum(found.values()))
    concealed = _concealed(text)
    if concealed and sum(signals(concealed).values()) >= ENOUGH:
        points["encoded"] = ENOUGH
    if _FLOOD.search(text):
        points["flood"] = ENOUGH
    if _PRETEND.search(folded) and points:
        points["forged_structure"] = 3
    return tuple(points) if sum(points.values()) >= ENOUGH else ()
