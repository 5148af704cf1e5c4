"""Hiding what must not be cut: code, quotations, addresses and asides keep their length and lose their words."""

from __future__ import annotations

import re

HIDDEN = "\ue000"

_FENCE = re.compile(r"^[ \t]*(`{3,}+|~{3,}+)[^\n]*+\n.*?(?:^[ \t]*\1[ \t]*$|\Z)", re.M | re.S)
_INLINE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
_QUOTED = re.compile(r"\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|«[^»\n]{1,300}»|(?<![\w'])'(?=\S)[^'\n]{1,200}(?<=\S)'(?!\w)")
_SHORT = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|approx|resp|incl|Mr|Mrs|Ms|Dr|Fig|No|St)\.(?=\s+[\w(]|,)")
_ADDRESS = re.compile(
    r"(?:https?://|www\.)\S+|(?<![\w./-])[\w.-]{0,100}/[\w./-]+|\b[\w-]{1,100}\.[A-Za-z]{1,5}\b(?!\s+[A-Z])"
)
_ASIDE = re.compile(r"\((?!\d{1,3}\)|[a-zA-Z]\))[^()\n]{1,300}\)|\[[^\[\]\n]{2,200}\](?:\([^()\s]{1,300}\))?")


def mask(text: str) -> str:
    """The same text, as long, in which only what may be cut is still to be read."""
    for pattern in (_FENCE, _INLINE, _QUOTED, _ASIDE, _SHORT, _ADDRESS):
        text = pattern.sub(_hide, text)
    return text


def _hide(found: re.Match[str]) -> str:
    # Line breaks stay, so that lines correspond.
    return "\n".join(HIDDEN * len(line) for line in found[0].split("\n"))


def readable(masked: str) -> str:
    """With a pronoun in the place of what is hidden, for those who read grammar."""
    return _RUN.sub("it", masked)


_RUN = re.compile(f"{HIDDEN}+")
