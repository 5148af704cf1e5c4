"""An agent that improves with experience: `python examples/learning_agent.py`.

For each task one strategy usually works and the others usually fail, but the agent does not know which. Without memory
it guesses every time. With alma it retrieves memories first, follows strategies that worked, avoids those that failed,
and learns from each outcome.
"""

from __future__ import annotations

import random
import tempfile

from alma import ALMA, MemorySlice
from alma.types import Result

TASKS = {
    "Deploy the auth service": "Blue-green deployment",
    "Import the customer list": "Load in batches of 500",
    "Fix a flaky browser test": "Wait for the element instead of sleeping",
}
WAYS = (*TASKS.values(), "Rolling update", "One big transaction", "Add a longer sleep")


def attempt(task: str, way: str, chance: random.Random) -> Result:
    """Return how an attempt went: the right strategy works nine times in ten, the others once."""
    return Result.SUCCESS if chance.random() < (0.9 if TASKS[task] == way else 0.1) else Result.FAILURE


def choose(memories: MemorySlice | None, chance: random.Random) -> str:
    """Choose a strategy as a model would from the prompt: prefer what worked, and avoid what failed."""
    if memories is None:
        return chance.choice(WAYS)
    if memories.heuristics:
        return memories.heuristics[0].strategy
    bad = {warning.pattern for warning in memories.anti_patterns}
    worked = [past.strategy_used for past in memories.outcomes if past.success and past.strategy_used not in bad]
    return worked[0] if worked else chance.choice([way for way in WAYS if way not in bad] or list(WAYS))


def run(alma: ALMA | None, rounds: int, seed: int) -> list[bool]:
    """Do a number of random tasks, with or without memory, and return which succeeded."""
    chance = random.Random(seed)
    results = []
    for _ in range(rounds):
        task = chance.choice(list(TASKS))
        memories = alma.retrieve(task, "worker") if alma else None
        way = choose(memories, chance)
        outcome = attempt(task, way, chance)
        if alma and memories is not None:
            alma.learn("worker", task, outcome, way, retrieval_id=memories.retrieval_id)
        results.append(outcome is Result.SUCCESS)
    return results


def main() -> None:
    """Print the success rates without memory and with alma."""
    rounds, quarter = 120, 30
    forgetful = run(None, rounds, seed=1)
    with tempfile.TemporaryDirectory() as folder, ALMA.quickstart("example", folder) as alma:
        learning = run(alma, rounds, seed=1)
        lessons = alma.list("heuristic")
    print(f"{'tasks':>9}  without memory  with alma")
    for start in range(0, rounds, quarter):
        shares = [sum(results[start : start + quarter]) / quarter for results in (forgetful, learning)]
        print(f"{start + 1:>4}–{start + quarter:<4}  {shares[0]:>14.0%}  {shares[1]:>9.0%}")
    print(f"\n{len(lessons)} strategies learned")
    assert sum(learning[quarter:]) > 2 * sum(forgetful[quarter:])


if __name__ == "__main__":
    main()
