"""Recognise a deleted memory when it comes back, in the same words or in others.

A tombstone holds no words. It recognises the same words by a salted hash of the memory's key, and other words by a
sketch: bits that are near for similar texts. Some are made from pairs of word stems, so that no word can be looked for
by itself, others from the vectors, if the embedder understands the text. Texts that differ in a number, an option, a
name, a negation or a direction are different values: one byte of a hash of these must agree.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from math import cos, pi
from typing import TYPE_CHECKING, Any, NamedTuple

from ..text import STOP, stem, stems
from ..types.kinds import KINDS, MemoryType
from ..types.record import Origin, Provenance, Record, Status, Vector, codes
from .admit import author_of

if TYPE_CHECKING:
    from .context import Engine
    from .transaction import Transaction

RESEMBLES = "resembles"  # Says in the metadata of a candidate why it waits.
# Outcomes are events: the same one may happen again.
GUARDED = frozenset((*MemoryType, "turn", "observation", "exchange")) - {MemoryType.OUTCOME}
MOST_COMPARED = 1000  # So many of the newest tombstones are compared by their sketches.
_MOST_SKETCHES = 8  # So many other wordings does a tombstone recognise that its own sketch does not.
_WORD_BITS, _NEAR_WORDS = 256, 0.70
_MEANING_BITS, _NEAR_MEANING = 128, 1.00
_LEAST_WORDS, _MOST_WORDS = 4, 20  # A shorter text is one feature; of a longer one the longest words count.
_DRAWN = 8 * _MEANING_BITS  # Each bit of a meaning compares four dimensions with four others.
_NUMBER = re.compile(r"\d+(?:[.:]\d+)*")
_SPELLED = dict(zip("two three four five six seven eight nine ten eleven twelve".split(), range(2, 13), strict=True))
_LITERAL = re.compile(r"(?<![\w-])-{1,2}[A-Za-z][\w-]*|[^\W_]+(?:[./_@\\][^\W_]+)+")
_NAME = re.compile(r"((?:^|[.!?:;\n])\s*)?\b([^\W\d_a-z][^\W_]*|[a-z]+[A-Z][^\W_]*)")
_NEGATION = re.compile(
    r"\b(?:no|not|never|none|neither|nor|without|cannot|avoid|stop|\w+n['’]t|nicht|kein\w*|nie|ohne|pas|jamais|sans"
    r"|nunca|sin|non|niet|geen)\b"
)
_DIRECTION = re.compile(
    r"\b(?:(before|after)\b|(?:instead of|rather than|over|than|from|(?:and|but) not|(?<=, )not)\s+"
    r"(?:(?:the|an?)\s+)?(\w+))"
)


def draw_salt() -> str:
    """Return a new salt for the tombstones of a store."""
    return os.urandom(16).hex()


def hash_key(salt: str, key: str, size: int = 16) -> str:
    """Return the salted hash of a look-up key; `size` is in bytes."""
    return hashlib.blake2b(key.encode("utf-8"), key=bytes.fromhex(salt), digest_size=size).hexdigest()


class Sketch(NamedTuple):
    """What a tombstone holds of a text, to recognise it in other words."""

    marks: list[str]  # Hashes of what must be equal, without and with the names that begin a sentence.
    words: int
    meaning: int = 0
    embedder: str = ""  # Whose vectors `meaning` is made from; empty if there are none.

    def is_near(self, other: Sketch) -> bool:
        """Return whether both are of one value, by words, and by meaning if one embedder understood both texts."""
        if set(self.marks).isdisjoint(other.marks):
            return False
        words = cos(pi * (self.words ^ other.words).bit_count() / _WORD_BITS)
        if not self.embedder or self.embedder != other.embedder:
            return words >= _NEAR_WORDS
        return cos(pi * (self.meaning ^ other.meaning).bit_count() / _MEANING_BITS) + words / 5 >= _NEAR_MEANING

    def to_json(self) -> list[Any]:
        """Return the sketch as JSON values."""
        return [self.marks, f"{self.words:x}", f"{self.meaning:x}", self.embedder]


def sketch_record(engine: Engine, record: Record, salt: str) -> Sketch | None:
    """Return the sketch of a memory; None for a turn or an exchange of a conversation, and without words."""
    text = "" if record.kind in ("turn", "exchange") else "\n".join(KINDS[record.kind].passages(record.body))
    if not stems(text):
        return None
    sketch = Sketch([hash_key(salt, one, 1) for one in _list_marks(text)], _sketch_words(salt, text))
    if not record.vectors or not engine.knows(text):
        return sketch
    return sketch._replace(meaning=_sketch_meaning(salt, record.vectors), embedder=record.embedder)


def _list_marks(text: str) -> list[str]:
    """Return what must be equal in two texts that say the same, without and with the names that begin a sentence."""
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    lower = plain.casefold()
    numbers = [*_NUMBER.findall(plain), *(str(_SPELLED[word]) for word in lower.split() if word in _SPELLED)]
    directions = {order or stem(word) for order, word in _DIRECTION.findall(lower)}
    parts = [*sorted(numbers), *sorted(_LITERAL.findall(plain)), *sorted(directions)]
    parts.append(str(bool(_NEGATION.search(lower))))
    names = [(stem(one[2].casefold()), one[1] is None) for one in _NAME.finditer(text) if len(one[2]) > 1]
    inner = {name for name, is_inner in names if is_inner}
    return ["\x1f".join((*parts, *sorted(some - STOP))) for some in (inner, {name for name, _ in names})]


def _sketch_words(salt: str, text: str) -> int:
    """Return for each bit the majority of the hashes of all pairs of words."""
    words = sorted(sorted(stems(text), key=lambda word: (-len(word), word))[:_MOST_WORDS])
    features = list(combinations(words, 2)) if len(words) >= _LEAST_WORDS else [tuple(words)]
    hashes = (int(hash_key(salt, "\x1f".join(one), _WORD_BITS // 8), 16) for one in features)
    columns = zip(*(f"{value:0{_WORD_BITS}b}" for value in hashes), strict=True)
    return _join_bits(2 * column.count("1") > len(features) for column in columns)


def _sketch_meaning(salt: str, vectors: Sequence[Vector]) -> int:
    """Return on which side of planes that are drawn from the salt the sum of the vectors lies."""
    total = [sum(column) for column in zip(*map(codes, vectors), strict=True)]
    drawn = struct.unpack(f">{_DRAWN}H", hashlib.shake_128(bytes.fromhex(salt)).digest(2 * _DRAWN))
    values = [total[at % len(total)] for at in drawn]
    return _join_bits(sum(values[at : at + 4]) > sum(values[at + 4 : at + 8]) for at in range(0, _DRAWN, 8))


def _join_bits(bits: Iterable[bool]) -> int:
    return int("".join("01"[bit] for bit in bits), 2)


class Tombstones:
    """The newest active tombstones of a project and of all projects, as a transaction first read them."""

    def __init__(self, stones: Sequence[Record] = (), salts: Sequence[str] = ()) -> None:
        self._salts, self._is_cut = salts, len(stones) >= MOST_COMPARED
        self._ids = {key: stone.id for stone in stones for key in (stone.key, stone.body.get("record"))}
        self._sketches: defaultdict[tuple[str, ...], list[tuple[str, Sketch]]] = defaultdict(list)
        for stone in stones:
            place = (stone.body.get("kind", ""), stone.agent, stone.user, str(stone.body.get("salt")))
            for one in (stone.body.get("sketch"), *read_others(stone).values()):
                # Imported ones may hold anything.
                with suppress(TypeError, ValueError):
                    marks, words, meaning, embedder = one
                    sketch = Sketch(list(marks), int(words, 16), int(meaning, 16), embedder)
                    self._sketches[place].append((stone.id, sketch))

    def find(self, tx: Transaction, record: Record, key: str) -> tuple[list[Record], list[Record]]:
        """Return the tombstones of the record or its key, and those of memories like it in kind, agent and user."""
        keys = {key, record.key} - {""}
        hashes = {hash_key(salt, one) for salt in self._salts for one in keys}
        same = {self._ids[one] for one in (*keys, *hashes, record.id) if one in self._ids}
        same |= {stone.id for stone in tx.find_tombstones(keys).values()} if self._is_cut else set()
        like = set()
        for salt in self._salts:
            sketches = self._sketches.get((record.kind, author_of(record), record.user, salt))
            own = sketch_record(tx.engine, record, salt) if sketches else None
            like |= {id for id, sketch in sketches or () if own and own.is_near(sketch)}
        both = ([one for one in tx.get(ids) if one.status is Status.ACTIVE] for ids in (same, like - same))
        return next(both), next(both)


def is_binding(stone: Record, provenance: Provenance) -> bool:
    """Return whether a deletion holds for a statement: what an agent deleted, a person may still say."""
    return stone.provenance.is_persons or not provenance.is_from_person


def hold_back(tx: Transaction, record: Record, key: str) -> Record:
    """Return a record as it may be put: a deleted memory that would be active again becomes a candidate.

    A person who states or accepts it, or changes another memory to it, brings it back. `key` is what its tombstone
    knows.
    """
    # What waits because nobody but a machine said it is marked as well, for the person who decides.
    is_gated = KINDS[record.kind].is_gated and record.version == 1 and record.provenance.weight > 0
    is_proposed = is_gated and record.status is Status.CANDIDATE
    if record.kind not in GUARDED or not (record.status is Status.ACTIVE or is_proposed):
        return record
    before = tx.find(record.id) if tx.is_changed(record.id) else tx.read_stored(record.id)
    if before and (before.status, before.text, before.project) == (record.status, record.text, record.project):
        return record
    stones = tx.tombstones.find(tx, record, key)
    # What a revert brings back was there after older deletions, too.
    same, like = ([one for one in some if not tx.reverts or one.created_at > tx.reverts.created_at] for some in stones)
    same, like = ([one for one in some if is_binding(one, record.provenance)] for some in (same, like))
    metadata = record.body.get("metadata", {})
    fresh = {name: value for name, value in metadata.items() if name != RESEMBLES}
    # What was said before the deletion does not take it back.
    stated = record.valid_from if record.version == 1 else None
    is_old = stated and any(stated < stone.updated_at for stone in (*same, *like))
    is_stated = record.provenance.origin is Origin.USER and not (is_old or tx.reverts or is_proposed)
    if record.id in tx.accepted or is_stated:
        for stone in same:
            tx.update(stone, status=Status.RETIRED)
    elif same or like:
        fresh[RESEMBLES] = "a deleted memory"
        record = replace(record, status=Status.CANDIDATE)
    return record if fresh == metadata else replace(record, body={**record.body, "metadata": fresh})


def read_others(stone: Record) -> dict[str, Any]:
    """Return, by the ids of memories, the sketches of other wordings that a tombstone recognises."""
    others = stone.body.get("others")
    # An imported one may hold anything.
    return others if isinstance(others, dict) else {}


def hold_back_reworded(tx: Transaction, record: Record, stones: Sequence[Record]) -> None:
    """Let an active memory wait that says the same as a deleted one; the tombstones recognise it from now on."""
    for stone in stones:
        salt, others = stone.body.get("salt"), read_others(stone)
        # Tombstones of earlier versions have no salt.
        sketch = sketch_record(tx.engine, record, salt) if salt and len(others) < _MOST_SKETCHES else None
        if sketch:
            tx.update(stone, body={**stone.body, "others": {**others, record.id: sketch.to_json()}})
    metadata = {**record.body.get("metadata", {}), RESEMBLES: "a deleted memory"}
    body = {**record.body, "metadata": metadata}
    # Nobody states it anew, so it is not dated anew.
    fresh = tx.update(record, status=Status.CANDIDATE, body=body, updated_at=record.updated_at)
    tx.add_history(fresh, "held back", "it says the same as a deleted memory", {"status": str(record.status)})
