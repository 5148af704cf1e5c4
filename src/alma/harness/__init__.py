"""The harness: memory goes into the prompt of any agent, and how its work went is learned.

from alma import ALMA, Context, create_harness

harness = create_harness("coding", "helena", ALMA.from_config(".alma/config.yaml"))
result = harness.run(Context(task="Test the login form"), executor=my_agent)
"""

from __future__ import annotations

from .decorator import learns
from .harness import Harness, create_harness
from .types import Agent, Context, HarnessResult, MemorySchema, RunResult, Setting, Tool

__all__ = [
    "Agent",
    "Context",
    "Harness",
    "HarnessResult",
    "MemorySchema",
    "RunResult",
    "Setting",
    "Tool",
    "create_harness",
    "learns",
]
