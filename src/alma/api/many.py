"""Many in one call and one transaction, for programs; a model tells one thing at a time."""

from __future__ import annotations

from typing import Annotated, Any

from ..core import ALMA
from ..types.kinds import Episode, Memory, Outcome
from .operation import About, Effect, operation


@operation(Effect.ADDS, for_models=False)
def learn_many(
    alma: ALMA,
    outcomes: Annotated[list[dict[str, Any]], About("each with the arguments of `learn`")],
) -> list[Outcome]:
    """Record how several tasks went, in order: all of them or none."""
    return alma.learn_many(outcomes)


@operation(Effect.ADDS, idempotent=True, for_models=False)
def add_many(
    alma: ALMA,
    memories: Annotated[list[dict[str, Any]], About("each with `type` and the arguments to add one of that type")],
) -> list[Memory]:
    """Add several memories of any types: all of them or none."""
    return alma.add_many(memories)


@operation(Effect.ADDS, idempotent=True, for_models=False)
def add_episodes(
    alma: ALMA,
    conversations: Annotated[list[dict[str, Any]], About("each with the arguments of `add_episode`")],
) -> list[Episode]:
    """Keep several conversations: all of them or none."""
    return alma.add_episodes(conversations)
