"""How well deleted memories are recognised in other words, and what that costs when memories are added.

    python -m benchmarks.rewordings

Prints precision and recall on labelled pairs of a deleted and a new text, beside the baseline of equal word stems. The
thresholds were chosen on the development part. Each figure is a mean over 100 salts, because the bits depend on them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.embedders.local import LocalEmbedder
from alma.engine.admit import embed_records, make_record
from alma.engine.context import Encoder, Engine
from alma.engine.tombstones import Sketch, sketch_record
from alma.ports import Embedder
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore
from alma.text import digest, stems
from alma.types.record import Record

DATA = Path(__file__).parent.parent / "tests" / "data" / "rewordings.jsonl"
PARTS = ("development", "held_out")
SALTS = [digest(str(number)) for number in range(100)]
FIELDS = {
    "domain_knowledge": ("fact",),
    "user_preference": ("preference",),
    "rule": ("rule",),
    "heuristic": ("condition", "strategy"),
    "anti_pattern": ("condition", "pattern"),
}
BLANK = {name: "" for names in FIELDS.values() for name in names} | {"trigger": "", "why": "", "why_bad": ""}


class Score(NamedTuple):
    """Precision and recall of recognising that two texts say the same."""

    precision: float
    recall: float


def read_pairs(part: str) -> list[dict[str, Any]]:
    """Return the labelled pairs of a part of the data."""
    rows = map(json.loads, DATA.read_text(encoding="utf-8").splitlines())
    return [row for row in rows if row["part"] == part]


def score(verdicts: Iterable[tuple[bool, bool]]) -> Score:
    """Return the score of (recognised, is the same) pairs."""
    pairs = list(verdicts)
    right = sum(is_near and is_same for is_near, is_same in pairs)
    claimed, same = (sum(column) for column in zip(*pairs, strict=True))
    return Score(right / claimed if claimed else 1.0, right / same)


def measure_baseline(part: str) -> Score:
    """Return the score of comparing the sets of word stems."""
    rows = read_pairs(part)
    return score((stems(" ".join(r["deleted"])) == stems(" ".join(r["new"])), r["label"] == "same") for r in rows)


def measure_sketches(part: str, embedder: Embedder) -> Score:
    """Return the score of the sketches of an embedder's records; one that understands nothing leaves the words."""
    engine = Engine(store=MemoryStore(), project="bench", encoder=Encoder(embedder, 4096))
    verdicts = []
    for row in read_pairs(part):
        records = [_make_record(engine, row["kind"], row[name]) for name in ("deleted", "new")]
        for salt in SALTS:
            one, other = (sketch_record(engine, record, salt) for record in records)
            assert isinstance(one, Sketch)
            assert isinstance(other, Sketch)
            verdicts.append((one.is_near(other), row["label"] == "same"))
    return score(verdicts)


def _make_record(engine: Engine, kind: str, texts: list[str]) -> Record:
    body = {**BLANK, "prefer": [], "avoid": [], "domain": "", "category": ""}
    body |= dict(zip(FIELDS[kind], texts, strict=True))
    return embed_records(engine, [make_record(engine, kind, body)])[0]


def measure_cost(deleted: int, added: int = 200) -> tuple[float, float]:
    """Return the milliseconds of CPU that one memory takes, added by itself and in a batch, after so many deletions."""
    with TemporaryDirectory() as folder, ALMA(SQLiteStore(f"{folder}/a.db"), HashEmbedder(), project_id="b") as alma:
        for number in range(deleted):
            text = f"Service {digest(str(number))[:8]} listens on port {number} of the host {digest(str(-number))[:8]}"
            alma.delete(alma.add_domain_knowledge("dev", "ports", text).id)
        rows = [
            {"type": "domain_knowledge", "agent": "dev", "domain": "x", "source": "agent"}
            | {"fact": f"The importer {digest(str(number))[:8]} reads table {number} of the shop and writes a report"}
            for number in range(2 * added)
        ]
        single = _time(lambda: [alma.add_many([row]) for row in rows[:added]])
        batch = _time(lambda: alma.add_many(rows[added:]))
    return 1000 * single / added, 1000 * batch / added


def _time(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def main() -> None:
    """Print all figures."""
    print(f"{'':24}{'precision':>10}{'recall':>8}")
    for part in PARTS:
        print(f"{part.replace('_', '-')} ({len(read_pairs(part))} pairs)")
        scores = {
            "equal stems": measure_baseline(part),
            "words": measure_sketches(part, HashEmbedder()),
            "words and meaning": measure_sketches(part, LocalEmbedder()),
        }
        for name, one in scores.items():
            print(f"  {name:22}{one.precision:10.2f}{one.recall:8.2f}")
    print(f"\n{'CPU ms per memory':24}{'one by one':>12}{'in a batch':>12}")
    for deleted in (0, 100, 1000):
        single, batch = measure_cost(deleted)
        print(f"  {f'{deleted} deleted before':22}{single:12.2f}{batch:12.2f}")


if __name__ == "__main__":
    main()
