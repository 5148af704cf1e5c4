"""Why a task is shown some memories and not others. Nothing is recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..text import count_tokens
from ..types.kinds import MEMORY_KINDS, Memory, MemoryType
from ..types.record import Record, Status
from ..types.slice import Explanation
from .context import Engine
from .pages import cut_memory
from .past import look_back
from .retrieve.pipeline import SHOWN_ALWAYS, choose_memories, find_memories, list_obstacles
from .retrieve.request import Request, prepare
from .rules import AGENT
from .view import to_memory

_MAX_LEFT_OUT = 20
_TEXT_BYTES = 400
AT_START = "sessions of coding agents start with it"


@dataclass(frozen=True, slots=True)
class TaskCandidate:
    """A memory that was considered for a task."""

    memory: Memory
    rank: int | None  # Its place among all that are shown, from 1; None if it is left out.
    explanation: Explanation  # What it scored, and why it is shown or left out.
    at_start: bool = False  # Whether sessions of coding agents start with it, whatever the task is.


@dataclass(frozen=True, slots=True)
class TaskExplanation:
    """What a task is shown, and what is left out."""

    candidates: list[TaskCandidate]  # Those that are shown first, then those that are left out; each best first.
    prompt: str
    tokens: int  # An estimate for the prompt.


def starts_sessions(record: Record) -> bool:
    """Return whether sessions of coding agents start with a rule, as far as the rules fit."""
    is_rule = record.kind == MemoryType.RULE and record.agent == AGENT
    return is_rule and record.status is Status.ACTIVE and not record.session


def explain_candidates(engine: Engine, request: Request, max_tokens: int) -> TaskExplanation:
    """Return the memories that are considered for a task, with scores and reasons."""
    source = engine if request.as_of is None else look_back(engine, request.as_of)
    context = prepare(source, request)
    chosen = choose_memories(context)
    memories = {one.id: one for one in (*chosen, *chosen.standing_rules)}
    shown = [one for one in chosen.explain() if one.memory_id in memories]
    shown.sort(key=lambda one: (one.standing, -one.score))
    rest: Any = (0.0, {}, None, 0.0, (), SHOWN_ALWAYS, True)
    shown += [Explanation(one.id, MemoryType.RULE, *rest) for one in chosen.standing_rules]
    candidates = [
        TaskCandidate(cut_memory(memories[one.memory_id], _TEXT_BYTES), rank, one) for rank, one in enumerate(shown, 1)
    ]
    # Conversations are found by their turns.
    where = engine.within(*{*MEMORY_KINDS} - {MemoryType.EPISODE})
    hits = find_memories(source, request.task, where, len(memories) + _MAX_LEFT_OUT)
    left_out = [one for one in hits if one.record.id not in memories][:_MAX_LEFT_OUT]
    for hit in sorted(left_out, key=lambda one: -one.explanation.score):
        fits = f"other memories fit the task better ({hit.explanation.reason})"
        reason = next(list_obstacles(context, hit.record), fits)
        if starts_sessions(hit.record):
            reason = f"{AT_START}; for this task: {reason}"
        explanation = replace(hit.explanation, reason=reason)
        memory = cut_memory(to_memory(hit.record, engine.clock()), _TEXT_BYTES)
        candidates.append(TaskCandidate(memory, None, explanation, starts_sessions(hit.record)))
    prompt = chosen.to_prompt(max_tokens)
    return TaskExplanation(candidates, prompt, count_tokens(prompt) if prompt else 0)
