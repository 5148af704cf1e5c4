"""Where knowledge comes from: conversations, files and exports; and what language models were asked for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from . import words
from .memory import ALMA
from .models.budget import ModelUse, by_model
from .models.budget import usage as read_usage
from .operations import About, Effect, Group
from .types.asking import ModelSettings
from .words import copy_fields

if TYPE_CHECKING:
    from .ingestion import Planned

operation = Group("knowledge")

# -- files


@dataclass(frozen=True, slots=True)
class FileProblem:
    path: str
    place: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestPlan:
    """What `ingest` would read, and what it would not."""

    root: str
    bytes: int
    formats: dict[str, int]
    """How many files there are of each."""
    files: tuple[Planned, ...]
    skipped: list[FileProblem]


def plan_ingest(
    path: str, only: str = "everything", own: bool | None = None, max_file_bytes: int | None = None
) -> IngestPlan:
    """What `ingest` would read below a path, as what, and what it would not, and why. Only beginnings are looked at.

    No operation: it asks no memory, and it names files.
    """
    from .ingestion import plan

    options: dict[str, Any] = {} if max_file_bytes is None else {"max_file_bytes": max_file_bytes}
    made = plan(path, wanted=only, own=own, **options)
    return copy_fields(IngestPlan, made, skipped=[copy_fields(FileProblem, one, place="") for one in made.skipped])


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """What came of reading files."""

    counts: dict[str, int]
    """How many are new of each kind, and: files, conversations, messages, known, waiting, unchanged,
    skipped, damaged."""
    files: dict[str, str]
    """The files read, and their formats."""
    skipped: list[FileProblem]
    damaged: list[FileProblem]
    left_out: dict[str, int]
    refused: list[str]
    notes: list[str]
    dry_run: bool


@operation(Effect.ADDS, idempotent=True, on_files=True)
def ingest(
    alma: ALMA,
    path: Annotated[str, About("a file, a folder or an export on the memory's own machine", local=True)],
    agent: words.Agent,
    user_id: Annotated[str | None, About("whose words the person's are")] = None,
    only: Annotated[str, About("what to read", ("everything", "documents", "chats"))] = "everything",
    own: Annotated[
        bool | None,
        About("whether these are the person's own words; by default chats are, documents are not", vouches=True),
    ] = None,
    branches: Annotated[bool, About("keep abandoned branches of conversations, too")] = False,
    max_file_bytes: Annotated[int | None, About("documents larger than this are skipped")] = None,
    dry_run: Annotated[bool, About("only say what would be kept")] = False,
    progress: Callable[[int, int], None] | None = None,
) -> Ingested:
    """Read files into memory: chat exports, transcripts and histories of coding agents, Slack, Markdown, plain text.

    The format is found by looking. Read again, nothing is added twice, and what has grown adds what is new.
    """
    from . import ingestion

    options: dict[str, Any] = {} if max_file_bytes is None else {"max_file_bytes": max_file_bytes}
    if progress is not None:
        options["progress"] = lambda at: progress(at.bytes, at.bytes_total)
    result = ingestion.ingest(
        path,
        agent,
        wanted=only,
        alma=alma,
        user_id=user_id,
        own=own,
        branches=branches,
        dry_run=dry_run,
        **options,
    )
    return copy_fields(
        Ingested,
        result,
        skipped=[copy_fields(FileProblem, one, place="") for one in result.skipped],
        damaged=[copy_fields(FileProblem, one) for one in result.damaged],
    )


# -- models


@dataclass(frozen=True, slots=True, kw_only=True)
class DayOfUse:
    day: str
    calls: int
    failed: int
    dropped: int
    """Answers that did not have the shape that was asked for."""
    tokens_in: int
    tokens_out: int
    cost: float
    models: list[ModelUse]


@dataclass(frozen=True, slots=True, kw_only=True)
class DailyBudget:
    """None: as much as you like."""

    calls: int | None
    tokens: int | None
    cost: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    provider: str
    model: str
    limits: DailyBudget
    """Of a day."""
    left: DailyBudget
    """Of today."""
    days: list[DayOfUse]
    """Newest first."""


@operation(Effect.READS)
def usage(alma: ALMA, days: Annotated[int, About("the last so many days of use", least=1)] = 30) -> ModelUsage:
    """What language models were asked, what it cost, and what is left of today's budget. By default none is asked."""
    found = read_usage(alma.engine, alma.model_settings or ModelSettings(), days=days)
    days_used = [copy_fields(DayOfUse, one, models=by_model(one)) for one in found.days]
    budgets = {name: copy_fields(DailyBudget, getattr(found, name)) for name in ("limits", "left")}
    return copy_fields(ModelUsage, found, days=days_used, **budgets)
