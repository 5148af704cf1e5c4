"""The written examples: worlds, families of strategies and conflicts, and the pairs of texts that they give.

Every row names its author. The authors in `HELD_OUT` wrote the part that no model is trained on: settings are chosen
there.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent
FILES = ("worlds.jsonl", "families.jsonl", "conflicts.jsonl")
HELD_OUT = frozenset("hr")
ACTIONS = ("same", "opposite", "variant", "different")
FACTS = ("agrees", "replaces", "both")
Row = dict[str, Any]


class Labelled(NamedTuple):
    """Two texts and the number of their label."""

    first: str
    second: str
    label: int


class World(NamedTuple):
    """Memories, and questions with the positions of the memories that each is about; a silent question has none."""

    name: str
    lang: str
    memories: tuple[str, ...]
    questions: tuple[str, ...]
    about: tuple[frozenset[int], ...]
    updates: tuple[tuple[int, int], ...]  # Positions of an outdated memory and of the one that replaced it.
    neighbours: tuple[tuple[int, int], ...]  # Positions of an older and a newer memory of one kind and user.


class Examples(NamedTuple):
    """What a model is trained on, or measured with."""

    worlds: tuple[World, ...]
    families: tuple[Row, ...]
    conflicts: tuple[Row, ...]


def read_examples(*, is_held_out: bool, share: float = 1.0, folder: Path = FOLDER) -> Examples:
    """Return the examples for training, or those that were held out; `share` takes a random part of each file."""
    chosen = []
    for name in FILES:
        rows = [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]
        rows = [row for row in rows if (row["author"] in HELD_OUT) is is_held_out]
        random.Random(17).shuffle(rows)
        chosen.append(rows[: round(share * len(rows))])
    worlds, families, conflicts = chosen
    return Examples(tuple(map(read_world, worlds)), tuple(families), tuple(conflicts))


def hash_files(folder: Path = FOLDER) -> dict[str, str]:
    """Return the SHA-256 of each data file."""
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES}


def read_world(row: Row) -> World:
    """Return a world with its memories by position."""
    memories = row["memories"]
    places = {memory["id"]: at for at, memory in enumerate(memories)}
    questions = [one["q"] for one in row["questions"]] + row["silent"]
    about = [frozenset(places[name] for name in (*one["need"], *one["stale"])) for one in row["questions"]]
    updates = {
        (places[old], places[new])
        for one in row["questions"]
        for old in one["stale"]
        for new in one["need"]
        if places[old] < places[new] and _owner(memories[places[old]]) == _owner(memories[places[new]])
    }
    neighbours = [
        pair
        for pair in combinations(range(len(memories)), 2)
        if _owner(memories[pair[0]]) == _owner(memories[pair[1]]) and pair not in updates
    ]
    return World(
        name=row["world"],
        lang=row["lang"],
        memories=tuple(memory["text"] for memory in memories),
        questions=tuple(questions),
        about=(*about, *(frozenset[int]() for _ in row["silent"])),
        updates=tuple(sorted(updates)),
        neighbours=tuple(neighbours),
    )


def _owner(memory: Row) -> tuple[str, str]:
    return memory["kind"], memory["user"]


def list_action_pairs(family: Row) -> Iterator[Labelled]:
    """Yield every pair of wordings that a family has a label for."""
    for first, second in combinations(family["same"], 2):
        yield Labelled(first, second, 0)
    for label, name in enumerate(ACTIONS[1:], start=1):
        for other in family[name]:
            for own in family["same"]:
                yield Labelled(own, other, label)


def list_fact_pairs(conflicts: Sequence[Row]) -> list[Labelled]:
    """Return the pairs of statements with the number of their label."""
    return [Labelled(row["old"], row["new"], FACTS.index(row["label"])) for row in conflicts]
