"""What the parameters that many operations share are called, and what they mean."""

from __future__ import annotations

from typing import Annotated, Any

from ..types.kinds import FeedbackSignal, MemoryType, Result
from ..types.record import Status
from .operation import About

Agent = Annotated[str, About("the agent's name")]
AnyAgent = Annotated[str | None, About("only this agent's; without it everybody's")]
By = Annotated[str | None, About("who makes the change; an agent cannot change what another has claimed")]
User = Annotated[str | None, About("the user it is for")]
Owner = Annotated[str | None, About("whose it is: only this user sees it; without it every user does")]
Task = Annotated[str, About("what is to be done, in a sentence or more")]
Tags = Annotated[list[str] | None, About("tags")]
Metadata = Annotated[dict[str, Any] | None, About("a JSON object of your own, kept with it")]
Limit = Annotated[int, About("at most so many")]
MemoryId = Annotated[str, About("the memory's id")]
TypeOf = Annotated[str | None, About("the memory type", tuple(MemoryType))]
Types = Annotated[list[str] | None, About("only these memory types", tuple(MemoryType))]
OutcomeOf = Annotated[str, About("how it went", tuple(Result))]
Signal = Annotated[str, About("what the memory was worth", tuple(FeedbackSignal))]
StatusOf = Annotated[str | None, About("the status; null for any", tuple(Status))]
Source = Annotated[
    str,
    About(
        "where it comes from: user (a person said it), agent (you did or wrote it), tool (a program printed it), "
        "content (a file, page, mail or pasted text) or import"
    ),
]
AGENT = "agent"
"""The source of what is written through an operation. Where a person calls it, as in a terminal, that face says so."""
MaxTokens = Annotated[int, About("the prompt's budget in tokens")]
