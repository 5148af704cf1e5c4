"""Whether a sentence says something by itself, without the talk that it was part of."""

from __future__ import annotations

import re

from ...text import STOP, is_common, words

_EMPTY = frozenset("always never every time times yes ok okay keep like way".split())
# "it", "the other file", "back to the last one": they point at something that only the talk knows.
_POINTING = re.compile(
    r"\b(?:it|that|this|these|those|them|they|there|ones?|same|other|another|again|wrong|last|previous|latest|first|second"
    r"|third|next|above|below|earlier|before that|undo|revert|restore|back|meant|actually|you|your|i|me)\b|^the ",
    re.I,
)
_LEAST = 2


def hollow(rule: str) -> bool:
    """Whether a rule says nothing by itself: "always", "do that"."""
    return all(word in STOP or word in _EMPTY for word in words(rule))


def stands_alone(rule: str) -> bool:
    """Whether someone who did not hear the talk can follow it. In doubt, and in letters we cannot read, not."""
    if not rule.isascii() or _POINTING.search(rule):
        return False
    said = {word for word in words(rule) if word not in STOP}
    return len(said) > _LEAST or len([word for word in said if not is_common(word)]) >= _LEAST
