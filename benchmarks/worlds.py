"""Measure retrieval of current typed memories: `python -m benchmarks.worlds WORLDS.jsonl`.

    python -m benchmarks.worlds WORLDS.jsonl --dump prompts.jsonl       write the prompts for a model
    python -m benchmarks.worlds WORLDS.jsonl --answers answers.jsonl    score with a model's recorded answers
    python -m benchmarks.worlds WORLDS.jsonl --shared                   let users find each other's memories
    python -m benchmarks.worlds WORLDS.jsonl --consolidate              merge certain duplicates first, without a model

Each line of the file is a world: memories stored over a year, questions with the memories they need and those that are
out of date, and questions for which nothing should be shown. The worlds are split at random into two halves; parameters
are chosen on the first only.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from alma import ALMA
from alma.app import open_memory
from alma.config import Config
from alma.engine.conflicts import read_pair
from alma.engine.consolidate import list_unresolved, reconcile, split_pairs
from alma.engine.context import Settings
from alma.errors import ModelUnavailableError
from alma.models.registry import Recorded
from alma.reading.model import ModelReader

from ._product import Clock

World = dict[str, Any]
_SEED = 7
_TOP_K = 8
_BEGIN, _END = "2026-01-01T00:00:00+00:00", "2026-12-20T09:00:00+00:00"


def add_memory(memory: ALMA, row: World) -> Any:
    """Add a memory through the door that a user would take for its kind."""
    text, user = row["text"], row["user"]
    if row["kind"] == "preference":
        return memory.add_user_preference(user_id=user or "everyone", category="general", preference=text)
    if row["kind"] == "rule":
        return memory.add_rule(agent="a", rule=text)
    if row["kind"] == "warning":
        return memory.add_anti_pattern(agent="a", pattern=text, why_bad="it failed before")
    return memory.add_domain_knowledge(agent="a", domain=row["kind"], fact=text, **({"user_id": user} if user else {}))


class Replay:
    """A world in a memory."""

    def __init__(self, world: World, folder: str, *, is_shared: bool = False) -> None:
        self.clock = Clock()
        self.clock.set(datetime.fromisoformat(_BEGIN))
        settings = Settings(share_between_users=is_shared)
        config = Config(project_id="world", storage_dir=Path(folder), settings=settings)
        self.memory = open_memory(config, clock=self.clock)
        self.ids: dict[str, str] = {}
        for row in world["memories"]:
            self.clock.set(datetime.fromisoformat(row["at"]))
            self.ids[add_memory(self.memory, row).id] = row["id"]
        self.clock.set(datetime.fromisoformat(_END))

    def ask(self, question: str, user: str, at: str) -> tuple[list[str], list[str], int]:
        """Return the memories shown as current, those marked as having a newer one, and how many rules just stand."""
        self.clock.set(datetime.fromisoformat(at))
        shown = self.memory.retrieve(task=question, agent="a", user_id=user or None, top_k=_TOP_K)
        known = [(self.ids[one.id], one.newer) for one in shown if one.id in self.ids]
        current, marked = ([name for name, newer in known if bool(newer) is wanted] for wanted in (False, True))
        return current, marked, len(shown.standing_rules)


def score_world(world: World, replay: Replay) -> Iterator[tuple[str, Counter[str]]]:
    """Yield the group and the counts of each question."""
    owners = {row["id"]: row["user"] for row in world["memories"]}
    for question in world["questions"]:
        user = question.get("user", "")
        current, marked, _ = replay.ask(question["q"], user, question["at"])
        need, stale, seen = set(question["need"]), set(question.get("stale", [])), set(current)
        is_foreign = any(owners[name] not in ("", user) for name in need)
        row = Counter(
            n=1,
            any=bool(need & (seen | set(marked))),
            all=need <= seen | set(marked),
            right=need <= seen and not stale & seen,
            shown=len(current) + len(marked),
        )
        if is_foreign:
            yield "other_user", row
            continue
        yield from ((group, row) for group in (question["type"], "headline", f"headline {world['lang']}"))
    for text in world["silent"]:
        current, marked, standing = replay.ask(text, "", _END)
        row = Counter(n=1, shown=len(current) + len(marked), standing=standing)
        yield from ((group, row) for group in ("silent", f"silent {world['lang']}"))


def dump_prompts(replay: Replay, reader: ModelReader) -> None:
    """Write every prompt about this world's look-alikes."""
    for batch in split_pairs(list_unresolved(replay.memory.engine)):
        with suppress(ModelUnavailableError):
            reader.compare([read_pair(pair) for pair in batch])


def score_worlds(
    worlds: Sequence[World],
    reader: ModelReader | None,
    *,
    is_dump: bool = False,
    is_local: bool = False,
    is_shared: bool = False,
) -> dict[str, Counter[str]]:
    """Return the counts of each group; of the halves under their own names."""
    order = list(range(len(worlds)))
    random.Random(_SEED).shuffle(order)
    first_half = set(order[: len(worlds) // 2])
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for number, world in enumerate(worlds):
        with tempfile.TemporaryDirectory() as folder:
            replay = Replay(world, folder, is_shared=is_shared)
            if reader is not None and is_dump:
                dump_prompts(replay, reader)
                continue
            if reader is not None or is_local:
                done = reconcile(replay.memory.engine, reader)
                merged = sum(len(one.sources) for one in done.merged)
                counts = {name: len(getattr(done, name)) for name in ("superseded", "refused", "conflicts")}
                counts |= {name: getattr(done, name) for name in ("compared", "apart", "waiting")}
                sums["reader"].update(n=1, merged=merged, **counts)
            half = "half 1" if number in first_half else "half 2"
            for group, row in score_world(world, replay):
                sums[group].update(row)
                if group in ("headline", "headline en", "update", "silent en"):
                    sums[f"{half} {group}"].update(row)
            replay.memory.close()
    return sums


def print_scores(sums: dict[str, Counter[str]]) -> None:
    for group, row in sorted(sums.items()):
        measures: tuple[str, ...] = ("any", "all", "right", "shown")
        if group == "reader":
            measures = ("compared", "merged", "refused", "superseded", "conflicts", "apart", "waiting")
        elif "silent" in group:
            measures = ("shown", "standing")
        share = 1 if group == "reader" else row["n"]
        print(f"{group:20} n {row['n']:4}  " + "  ".join(f"{name} {row[name] / share:.3f}" for name in measures))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worlds", type=Path)
    parser.add_argument("--dump", type=Path, help="a file for the prompts")
    parser.add_argument("--answers", type=Path, help="a file of recorded answers")
    parser.add_argument("--shared", action="store_true", help="share memories between the users of a world")
    parser.add_argument("--consolidate", action="store_true", help="consolidate without a model before the questions")
    args = parser.parse_args()
    worlds = [json.loads(line) for line in args.worlds.read_text(encoding="utf-8").splitlines() if line.strip()]
    is_recorded = args.dump is not None or args.answers is not None
    reader = ModelReader(Recorded(args.answers, args.dump)) if is_recorded else None
    print_scores(
        score_worlds(worlds, reader, is_dump=args.dump is not None, is_local=args.consolidate, is_shared=args.shared)
    )


if __name__ == "__main__":
    main()
