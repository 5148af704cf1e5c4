"""BERT's uncased WordPiece: the token ids of a text, from a vocabulary and a table of characters.

A text is cleaned, put into lower case, freed of accents and split into words and signs; all of that looks at one
character at a time, so a table can hold the outcome. The table decides and not `unicodedata`, which differs from one
Python to the next: a text must keep its vector. It is as fine as the vocabulary needs: a character that no token holds
makes its word unknown, whatever else becomes of it. For the same reason the canonical order of combining marks, which
the original restores, needs no care: such a mark is either dropped or in no token.
`tools/build_minilm.py` makes the table; the tests compare with the original, character by character.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import count

BEGIN, END, UNKNOWN, INNER = "[CLS]", "[SEP]", "[UNK]", "##"
LONGEST_WORD = 100
LONGEST_TOKEN = 18
MANY_CHARACTERS = 1 << 14
MANY_WORDS = 1 << 13
SURROGATES = range(0xD800, 0xE000)
HANGUL = range(0xAC00, 0xD7A4)
DROP, SPACE, APART = "drop", "space", "apart"
_DONE = {DROP: "", SPACE: " ", APART: " {} "}

# A text that spells out one of these names means the token itself, as in the original.
_NAMED = re.compile(r"(\[(?:PAD|UNK|CLS|SEP|MASK)\])")


class Characters(dict[int, str]):
    """What becomes of each character, for `str.translate`: words and signs stand apart by blanks.

    A line of the table holds the first and last code of a range, and either what to do with each or what it becomes.
    Lines are in order and read when one of their characters is first met.
    """

    __slots__ = ("_lines", "_starts")

    def __init__(self, table: str) -> None:
        self._lines = table.splitlines()
        self._starts = [int(line[:6], 16) for line in self._lines]

    def __missing__(self, code: int) -> str:
        _, last, what = self._lines[bisect_right(self._starts, code) - 1].split(" ")
        if code in SURROGATES:
            found = self[ord("?")]
        elif code in HANGUL:
            # Its letters, by the rule of the Unicode standard.
            block, tail = divmod(code - HANGUL.start, 28)
            lead, vowel = divmod(block, 21)
            found = chr(0x1100 + lead) + chr(0x1161 + vowel) + (chr(0x11A7 + tail) if tail else "")
        elif code > int(last, 16):
            found = chr(code)
        else:
            found = _DONE[what].format(chr(code)) if what in _DONE else what.translate(self)
        if len(self) < MANY_CHARACTERS:
            self[code] = found
        return found


class WordPiece:
    """Threads may share one: what it learns of characters and words it could learn again."""

    __slots__ = ("_characters", "_ids", "_limit", "_split", "_unknown")

    def __init__(self, vocabulary: str, characters: str, *, limit: int) -> None:
        self._ids = dict(zip(vocabulary.split(), count(), strict=False))
        self._characters = Characters(characters)
        self._limit = limit
        self._split: dict[str, tuple[int, ...]] = {}
        self._unknown = (self._ids[UNKNOWN],)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text with those of its begin and end; beyond `limit`, the end of the text is left out."""
        tokens = [self._ids[BEGIN]]
        for at, part in enumerate(_NAMED.split(text)):
            # A word is one token or more, so no more words than tokens are needed.
            words = [part]
            if at % 2 == 0:
                words = part.translate(self._characters).split(maxsplit=self._limit)[: self._limit]
            for word in words:
                token = self._ids.get(word)
                if token is None:
                    tokens += self._split.get(word) or self._learn(word)
                else:
                    tokens.append(token)
        del tokens[self._limit - 1 :]
        tokens.append(self._ids[END])
        return tokens

    def _learn(self, word: str) -> tuple[int, ...]:
        if len(word) > LONGEST_WORD:
            return self._unknown
        if len(self._split) >= MANY_WORDS:
            self._split.clear()
        self._split[word] = pieces = self._find_pieces(word)
        return pieces

    def _find_pieces(self, word: str) -> tuple[int, ...]:
        """Return the longest token that begins the word, then the longest that goes on from there, to its end."""
        pieces: list[int] = []
        start, prefix = 0, ""
        while start < len(word):
            for end in range(min(len(word), start + LONGEST_TOKEN), start, -1):
                token = self._ids.get(prefix + word[start:end])
                if token is not None:
                    break
            else:
                return self._unknown
            pieces.append(token)
            start, prefix = end, INNER
        return tuple(pieces)
