"""Which cues a text holds, sentence by sentence, in the language it is in."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

MOST = 900
"""Characters that are read: the first two thirds of them and the last third."""

_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "´": "'"})
_CLIPPED = re.compile(r"\b(do|does|did|is|are|was|were|have|has|had|would|could|should|must|wo|ca|ai)n?t\b(?<=nt)")
# A lone question mark is a name (`use ? and thiserror`), not the end of a question.
_SPLIT = re.compile(r"(?<=[.!?…])(?<!\s\?)[\"')]*\s+|(?<=[。！？；])\s*|\n+|(?<=\w)\s*;\s+|(?<=\w)\s+[-–—]\s+")
_BULLET = re.compile(r"^\s*(?:[-*•·]|\(?\d{1,2}[.)]|[a-h]\))\s+")
_SCRIPTS = (("ja", r"[\u3040-\u30ff]"), ("ko", r"[\uac00-\ud7af]"), ("zh", r"[\u3400-\u9fff]"), ("ru", r"[а-яё]"))
_SCRIPT = tuple((name, re.compile(pattern, re.I)) for name, pattern in _SCRIPTS)
_FREQUENT = {
    "en": "the a an to of and is it in that this i you we for on with not be are use do don't please should can what",
    "es": "el la los las de que y en un una no es para por con lo se del al como esta este podes puedes usa siempre "
    "nunca sin vuelve",
    "pt": "o os as de que e em um uma não é para por com se do da no na você esse isso use eu vez sempre nunca sem "
    "prefiro",
    "fr": "le la les de que et en un une ne pas est pour par avec se du au ce je tu il on des utilise toujours",
    "de": "der die das den dem und ist ein eine nicht ich du es zu mit auf für wir bitte kein keine statt immer",
    "cs": "je a to se na že v s z do ne není jsem jsi ten ta ale jak prosím vždy nikdy už ho si aby místo používej "
    "vrať zpátky",
}
_WORDS_OF = {name: frozenset(words.split()) for name, words in _FREQUENT.items()}
_OWN_LETTERS = {"es": "ñ¿¡", "pt": "ãõç", "de": "ßäöü", "cs": "ěřůščž", "fr": "êèœùç"}
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


@dataclass(frozen=True, slots=True)
class Sentence:
    text: str
    """As it was said."""
    bulleted: bool
    cues: frozenset[str]


@dataclass(frozen=True, slots=True)
class Said:
    sentences: tuple[Sentence, ...]
    tongue: str

    @property
    def cues(self) -> frozenset[str]:
        return frozenset().union(*(one.cues for one in self.sentences))


def hear(text: str) -> Said:
    told = _cut(text)
    bulleted, pieces = _sentences(told)
    plain = [plainly(piece) for piece in pieces]
    joined = "\n".join(plain)
    tongue = which_tongue(joined)
    held: list[set[str]] = [set() for _ in pieces]
    starts = _starts(plain)
    for cue, pattern in patterns(tongue):
        for found in pattern.finditer(joined):
            held[max(0, bisect_right(starts, found.start() + (found[0][:1] == "\n")) - 1)].add(cue)
    return Said(tuple(map(Sentence, pieces, bulleted, map(frozenset, held))), tongue)


def _cut(text: str) -> str:
    if len(text) <= MOST:
        return text
    head = text[: MOST * 2 // 3].rpartition(" ")[0]
    return f"{head}\n{text[-MOST // 3 :].partition(' ')[2]}"


def _sentences(text: str) -> tuple[list[bool], list[str]]:
    bulleted, pieces = [], []
    for line in text.split("\n"):
        bare = _BULLET.sub("", line)
        for piece in _SPLIT.split(bare):
            if piece and piece.strip(" .,!-–—*"):
                bulleted.append(bare != line)
                pieces.append(piece.strip())
    return bulleted, pieces


def plainly(text: str) -> str:
    """Lower case, plain apostrophes, and "dont" as "don't"; never longer or shorter by lines."""
    return _CLIPPED.sub(_apostrophe, text.translate(_APOSTROPHES).lower())


def _apostrophe(found: re.Match[str]) -> str:
    return found[0][:-1] + "'t"


def _starts(pieces: list[str]) -> list[int]:
    starts, at = [], 0
    for piece in pieces:
        starts.append(at)
        at += len(piece) + 1
    return starts


def which_tongue(text: str) -> str:
    """Script first; among those who share the Latin one, the most frequent words and the letters others lack."""
    letters = sum(map(str.isalpha, text)) or 1
    for name, pattern in _SCRIPT:
        if len(pattern.findall(text)) > (0.02 if name == "ja" else 0.12) * letters:
            return name
    said = _WORD.findall(text)
    votes = {name: sum(word in known for word in said) for name, known in _WORDS_OF.items()}
    for name, own in _OWN_LETTERS.items():
        votes[name] += 2 * sum(letter in text for letter in own)
    best = max(votes, key=lambda name: (votes[name], name == "en"))
    return best if votes[best] > votes["en"] else "en"


@lru_cache(maxsize=16)
def patterns(tongue: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """English is always heard: people mix it in, whatever they speak."""
    table = _table()
    own = table.get(tongue, {})
    found = []
    for cue in CUES:
        both = [part for part in (table["en"].get(cue), own.get(cue) if tongue != "en" else None) if part]
        found.append((cue, re.compile("|".join(both), re.M)))
    return tuple(found)


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, list[str]]] = {}
    pieces: dict[str, str] = {}
    own: dict[str, list[str]] = {}
    for kind, name, pattern in _entries():
        if kind == "tongue":
            own = table.setdefault(name, {})
        elif kind == "piece":
            pieces[name] = _filled(pattern, pieces)
        else:
            own.setdefault(name, []).append(_filled(pattern, pieces))
    return {tongue: {cue: "|".join(parts) for cue, parts in cues.items()} for tongue, cues in table.items()}


def _entries() -> Iterator[tuple[str, str, str]]:
    for line in files(__package__).joinpath("cues.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            yield "tongue", line.strip("[]"), ""
        else:
            name, _, pattern = line.partition("\t")
            yield ("piece", name[2:], pattern) if name.startswith("= ") else ("cue", name, pattern)


def _filled(pattern: str, pieces: dict[str, str]) -> str:
    for name, piece in pieces.items():
        pattern = pattern.replace(f"{{{name}}}", piece)
    return pattern


CUES: tuple[str, ...] = tuple(_table()["en"])
