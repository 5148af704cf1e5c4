"""Compare the first advice with the nearest example: `python -m benchmarks.streams FILE [--rows 450] [--seed 1]`.

FILE has one JSON object a line with `text` and `label`, and may be packed with gzip; without it, a small stream of
support requests that comes with the repository is read. The requests come one by one, in random order. For each, alma
is asked with `retrieve`, and then learns which desk was the right one. The names of the desks tell nothing.

first               the strategy that stands first in the prompt was the right one
anywhere            the right one was recommended somewhere in the prompt
silent              the prompt recommended nothing
nearest             the strategy of the most similar request was right, by the same vectors
nearest + centroid  the same, where a strategy is as near as the mean of its nearest request and of its centroid
one of five         the right one was among the five best of these

`--noise 0.2` reports a wrong desk for one request in five. `--swap` exchanges all desks half-way: then advice that is
wrong is tried and fails before the right desk is learned.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from alma import ALMA
from alma.embedders.local import LocalEmbedder
from alma.stores.sqlite import SQLiteStore
from alma.types.record import cosines, unit

from ._measures import mean

OWN = Path(__file__).parent / "data" / "stream.jsonl"
_DESK = re.compile(r"desk \d{3}")
_SHOWN = 5
Rows = list[dict[str, str]]


def read_rows(path: Path) -> Rows:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def list_advice(prompt: str) -> list[str]:
    """Return the desks that a prompt recommends, in order; warnings and failures recommend nothing."""
    desks: list[str] = []
    is_warning = False
    for line in prompt.splitlines():
        if line.startswith("###"):
            is_warning = line.startswith("### Avoid")
        elif not is_warning and "→ failure" not in line:
            desks += _DESK.findall(line)
    return list(dict.fromkeys(desks))


def rank_by_examples(
    near: Sequence[float], vectors: Sequence[list[float]], query: list[float], desks: Sequence[str]
) -> list[str]:
    """Return the desks by the mean of their nearest request and of the centroid of their requests."""
    members: dict[str, list[int]] = defaultdict(list)
    for place, desk in enumerate(desks):
        members[desk].append(place)
    values: dict[str, float] = {}
    for desk, places in members.items():
        sums = [sum(column) for column in zip(*(vectors[place] for place in places), strict=True)]
        length = sum(value * value for value in sums) ** 0.5
        centroid = sum(a * b for a, b in zip(sums, query, strict=True)) / length
        values[desk] = max(near[place] for place in places) + centroid
    return sorted(values, key=lambda desk: -values[desk])


def measure_stream(alma: ALMA, rows: Rows, seed: int, noise: float = 0.0, swap: bool = False) -> dict[str, list[float]]:
    """Return each measure for each request after the first."""
    random_ = random.Random(seed)
    labels = sorted({row["label"] for row in rows})
    names = {label: f"desk {number:03d}" for number, label in enumerate(labels)}
    shuffled = random_.sample(labels, len(labels))
    exchanged = dict(zip(shuffled, [*shuffled[1:], shuffled[0]], strict=True))
    embedder = LocalEmbedder()
    codes = embedder.embed([row["text"] for row in rows])
    vectors = [unit(code) for code in codes]
    learned: list[str] = []
    values: dict[str, list[float]] = defaultdict(list)
    for number, row in enumerate(rows):
        is_swapped = swap and number >= len(rows) // 2
        right = names[exchanged[row["label"]] if is_swapped else row["label"]]
        prompt = alma.retrieve(row["text"], "clerk", top_k=_SHOWN).to_prompt()
        advice = list_advice(prompt)
        if number:
            near = cosines([codes[number]], codes[:number])[0]
            ranked = rank_by_examples(near, vectors[:number], vectors[number], learned)
            values["first"].append(float(advice[:1] == [right]))
            values["anywhere"].append(float(right in advice))
            values["silent"].append(float(not advice))
            values["nearest"].append(float(learned[near.index(max(near))] == right))
            values["nearest + centroid"].append(float(ranked[0] == right))
            values["one of five"].append(float(right in ranked[:_SHOWN]))
            values["tokens"].append(len(prompt) / 4)
        if is_swapped and advice and advice[0] != right:
            alma.learn("clerk", row["text"], "failure", advice[0], error_message="wrong desk")
        wrong = [name for name in names.values() if name != right]
        learned.append(random_.choice(wrong) if random_.random() < noise else right)
        alma.learn("clerk", row["text"], "success", learned[-1])
    return values


def run(path: Path, count: int, seed: int, noise: float = 0.0, swap: bool = False) -> dict[str, Any]:
    """Return the means over the last third of a stream, and over all of it."""
    rows = read_rows(path)
    random.Random(seed).shuffle(rows)
    rows = rows[:count]
    with tempfile.TemporaryDirectory() as folder, ALMA(SQLiteStore(Path(folder) / "alma.db"), LocalEmbedder()) as alma:
        values = measure_stream(alma, rows, seed, noise, swap)
    third = max(1, len(rows) // 3)
    means = {name: {"last third": mean(some[-third:]), "all": mean(some)} for name, some in values.items()}
    return {"benchmark": "streams", "rows": len(rows), "seed": seed, "noise": noise, "swap": swap, "means": means}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", default=OWN)
    parser.add_argument("--rows", type=int, default=450)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--swap", action="store_true")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    figures = run(options.file, options.rows, options.seed, options.noise, options.swap)
    if options.json:
        print(json.dumps(figures))
        return
    print(f"{options.file.name}: {figures['rows']} requests, seed {options.seed}")
    for name, means in figures["means"].items():
        digits = 0 if name == "tokens" else 3
        print(f"{name:20s} last third {means['last third']:.{digits}f}   all {means['all']:.{digits}f}")


if __name__ == "__main__":
    main()
