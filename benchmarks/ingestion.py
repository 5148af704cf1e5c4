"""Measure ingestion: `python -m benchmarks.ingestion [--counts 1000,5000,10000] [--embedded 200] [--export-mb 1024]`.

Synthetic conversations are written in the public formats (Claude Code, Codex, Gemini CLI, SpecStory, ChatGPT,
Claude.ai, aider, Slack), an eighth each. A separate process imports them into an empty SQLite store. Reported are
conversations per second, peak memory, and the time of a second run without changes and of a third after they grew.

The large counts are stored without embeddings; embedding every turn is the slow part and is measured on `--embedded`
conversations. The export of `--export-mb` megabytes is one ChatGPT `conversations.json`, which like a real one consists
mostly of tool outputs, other branches and metadata.

Memory is the peak resident memory of the process. Times are wall times.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import _chat_formats as formats
from ._chat_formats import Said, Talk, later
from .speed import peak_mb

COUNTS = (1_000, 5_000, 10_000)
MOST_MB = 300.0
FLAT = 1.15
"""The peak at the most conversations over that at the count before it. At first caches of fixed sizes fill, such as the
16 MB of pages that SQLite holds."""
TURNS = 6
_THINGS = "login form parser cache queue worker report invoice migration webhook token page search index backup".split()
_DEEDS = "fails loads renders retries blocks times out drops a row logs twice passes hangs returns early".split()
_ASKED = (
    "Could you look why the {thing} {deed} when {other} {number} arrives?",
    "What happens to the {other} if the {thing} {deed}?",
    "Let me see what the {thing} does with {other} {number} first.",
    "Here is the output for {other} {number}, as you asked.",
    "Shall we try the {thing} again without the {other}?",
    "I am looking at the {thing} and the {other} now.",
)
_TELLING = (
    "I prefer short functions over long ones in the {thing} module.",
    "From now on never use sleep() in the tests of the {thing}, it makes them flaky.",
    "We decided to use PostgreSQL for the {thing} service.",
    "The {thing} runs on port {number}.",
)


@dataclass(frozen=True)
class Ran:
    """What one process did."""

    seconds: float
    files: int
    conversations: int
    messages: int
    memories: int
    peak_mb: float

    @property
    def rate(self) -> float:
        return self.conversations / self.seconds


def talks(seed: int, sentences: int = 4) -> Iterator[Talk]:
    """Yield conversations without end. One turn in twelve states something that is worth storing."""
    chance = random.Random(seed)
    number = 0
    while True:
        turns = []
        for at in range(TURNS):
            words = [_sentence(chance) for _ in range(chance.randint(1, 2 * sentences - 1))]
            if at % 2 == 0 and chance.random() < 1 / 6:
                telling = chance.choice(_TELLING)
                words.append(telling.format(thing=chance.choice(_THINGS), number=chance.randint(1024, 65535)))
            turns.append(Said("assistant" if at % 2 else "user", " ".join(words), later(number * 20 + at)))
        yield Talk(f"{seed:04x}-{number:08x}", f"The {chance.choice(_THINGS)}", turns)
        number += 1


def _sentence(chance: random.Random) -> str:
    thing, other = chance.choice(_THINGS), chance.choice(_THINGS)
    asked = chance.choice(_ASKED)
    return asked.format(thing=thing, other=other, deed=chance.choice(_DEEDS), number=chance.randint(1, 9999))


# -- the large export


def export(file: Path, megabytes: int, rows: tuple[int, int] = (200, 2_000)) -> int:
    """Write one conversations.json of about that size and return how many conversations it has.

    Each tool output in it has the given number of rows.
    """
    wanted, made = megabytes * 1024 * 1024, 0
    chance = random.Random(7)
    with file.open("w", encoding="utf-8") as out:
        out.write("[")
        for talk in talks(7):
            found = formats.chatgpt(talk)
            for node in found["mapping"].values():
                message = node["message"]
                if message is not None:
                    _surrounded(message, chance, rows)
            out.write(("," if made else "") + json.dumps(found))
            made += 1
            if out.tell() >= wanted:
                break
        out.write("]")
    return made


def _surrounded(message: dict[str, Any], chance: random.Random, rows: tuple[int, int]) -> None:
    message["metadata"] = {
        "model_slug": "gpt-5",
        "request_id": f"{chance.getrandbits(128):032x}",
        "search_result_groups": [{"type": "search_result_group", "domain": "example.org", "entries": []}],
    }
    if message["author"]["role"] == "tool":
        row = f"{chance.getrandbits(256):064x}"
        message["content"]["text"] = "\n".join(f"{at} {row}" for at in range(chance.randint(*rows)))


# -- one process


def child(path: Path, store: Path, embedder: str) -> Ran:
    from alma import ALMA, embedders
    from alma.ingestion import ingest
    from alma.stores.sqlite import SQLiteStore

    made = embedders.create(embedder, dim=None, options={}) if embedder else None
    with ALMA(SQLiteStore(store), made, project_id="bench") as alma:
        began = time.perf_counter()
        result = ingest(path, "dev", alma=alma, user_id="ana", own=True)
        took = time.perf_counter() - began
    assert not result.damaged, result.damaged[:3]
    counts = result.counts
    return Ran(
        took, counts.get("files", 0), counts.get("conversations", 0), counts.get("messages", 0), result.total, peak_mb()
    )


def run(path: Path, store: Path, embedder: str = "") -> Ran:
    command = [sys.executable, "-m", "benchmarks.ingestion", "--child", str(path), str(store), embedder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return Ran(**json.loads(done.stdout))


# -- measuring


def measured(folder: Path, count: int, embedder: str = "") -> dict[str, Any]:
    path, store = folder / f"chats-{count}-{embedder or 'words'}", folder / f"{count}-{embedder or 'words'}.db"
    made = talks(1)
    formats.spread(path, made, count)
    size = sum(one.stat().st_size for one in path.rglob("*") if one.is_file())
    first, again = run(path, store, embedder), run(path, store, embedder)
    _grow(path, made, max(1, count // 100))
    grown = run(path, store, embedder)
    return {
        "asked": count,
        "mb": round(size / 1e6, 1),
        "first": asdict(first),
        "conversations_per_s": round(first.rate, 1),
        "messages_per_s": round(first.messages / first.seconds, 1),
        "second": asdict(again),
        "grown": asdict(grown),
    }


def _grow(folder: Path, made: Iterator[Talk], count: int) -> None:
    """Add conversations to the ChatGPT export, and to each format that has one file per conversation."""
    file = folder / "chatgpt" / "conversations.json"
    held = file.read_text(encoding="utf-8").removesuffix("]")
    more = ",".join(json.dumps(formats.chatgpt(next(made))) for _ in range(count))
    file.write_text(f"{held},{more}]", encoding="utf-8")
    for name, (pattern, write) in formats.EACH.items():
        talk = next(made)
        (folder / name / pattern.format(id=talk.id)).write_text(write(talk), encoding="utf-8")


def large(folder: Path, megabytes: int) -> dict[str, Any]:
    file = folder / "conversations.json"
    count = export(file, megabytes)
    first = run(file, folder / "large.db")
    again = run(file, folder / "large.db")
    return {
        "mb": round(file.stat().st_size / 1024 / 1024),
        "conversations": count,
        "first": asdict(first),
        "mb_per_s": round(file.stat().st_size / 1e6 / first.seconds, 1),
        "second": asdict(again),
        "most_mb": MOST_MB,
        "holds": max(first.peak_mb, again.peak_mb) < MOST_MB,
    }


def measure(counts: list[int], embedded: int, megabytes: int) -> dict[str, Any]:
    told: dict[str, Any] = {"benchmark": "ingestion"}
    with tempfile.TemporaryDirectory(prefix="ingestion-") as name:
        folder = Path(name)
        told["words_only"] = [measured(folder, count) for count in counts]
        peaks = [one["first"]["peak_mb"] for one in told["words_only"]]
        told["growth_of_peak"] = round(peaks[-1] / peaks[-2], 3) if len(peaks) > 1 else 1.0
        told["flat"] = told["growth_of_peak"] <= FLAT
        if embedded:
            told["embedded"] = measured(folder, embedded, "local")
        if megabytes:
            told["export"] = large(folder, megabytes)
    return told


def show(told: dict[str, Any]) -> None:
    names = ("files", "convs", "turns", "s", "convs/s", "turns/s", "again s", "grown s", "peak MB")
    print(" " * 22 + "".join(f"{name:>9}" for name in names))
    rows = [(f"{one['asked']:,}, words only", one) for one in told["words_only"]]
    if "embedded" in told:
        rows.append((f"{told['embedded']['asked']:,}, embedded", told["embedded"]))
    for name, one in rows:
        first = one["first"]
        print(
            f"{name:>22}{first['files']:>9,}{first['conversations']:>9,}{first['messages']:>9,}{first['seconds']:>9.1f}"
            f"{one['conversations_per_s']:>9,.0f}{one['messages_per_s']:>9,.0f}{one['second']['seconds']:>9.2f}"
            f"{one['grown']['seconds']:>9.2f}{first['peak_mb']:>9.0f}"
        )
    flat = "flat" if told["flat"] else "NOT FLAT"
    print(f"peak memory at the largest count relative to the one before: {told['growth_of_peak']}, {flat}")
    if "export" in told:
        one = told["export"]
        print(
            f"export of {one['mb']:,} MB, {one['conversations']:,} conversations: {one['first']['seconds']:.0f} s "
            f"({one['mb_per_s']} MB/s), again {one['second']['seconds']:.1f} s, peak {one['first']['peak_mb']:.0f} MB; "
            f"at most {MOST_MB:.0f} MB: {'holds' if one['holds'] else 'DOES NOT HOLD'}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--counts", default=",".join(map(str, COUNTS)), help="numbers of conversations, stored without embeddings"
    )
    parser.add_argument("--embedded", type=int, default=200, help="conversations with every turn embedded; 0 for none")
    parser.add_argument("--export-mb", type=int, default=1024, help="size of the large export; 0 for none")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs=3, metavar=("PATH", "STORE", "EMBEDDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        path, store, embedder = args.child
        print(json.dumps(asdict(child(Path(path), Path(store), embedder))))
        return 0
    told = measure([int(one) for one in args.counts.split(",") if one], args.embedded, args.export_mb)
    if args.json:
        print(json.dumps(told, indent=2))
    else:
        show(told)
    return 0 if told["flat"] and told.get("export", {}).get("holds", True) else 1


if __name__ == "__main__":
    sys.exit(main())
