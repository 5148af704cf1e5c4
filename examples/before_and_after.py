"""Print an agent's prompt before and after it learned: `python examples/before_and_after.py`."""

from __future__ import annotations

import tempfile

from alma import ALMA, MemoryType

TASK, AGENT = "Deploy", "dev"
LESSONS = [MemoryType.RULE, MemoryType.HEURISTIC, MemoryType.ANTI_PATTERN]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, ALMA.quickstart("shop", folder) as alma:
        prompt = alma.retrieve(TASK, AGENT).to_prompt()
        print(f"BEFORE: {prompt or '(empty prompt)'}\n")

        for attempt in range(10):
            alma.learn(AGENT, TASK, "failure" if attempt in (3, 6) else "success", "Canary")
        for _ in range(2):
            alma.learn(AGENT, TASK, "failure", "Rolling", error_message="502")
        rule = "Announce the deployment in #ops first"
        alma.add_rule(AGENT, rule, trigger="deploying", why="support answers the calls")

        prompt = alma.retrieve(TASK, AGENT, types=LESSONS).to_prompt()
        print(f"AFTER:\n{prompt}")


if __name__ == "__main__":
    main()
