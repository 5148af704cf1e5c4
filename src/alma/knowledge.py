"""Import files, and report the use of language models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
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
    """A file, or a place in it, that was not read."""

    path: str
    place: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestPlan:
    """The files that `ingest` would read, and those it would skip."""

    root: str
    bytes: int
    formats: dict[str, int]  # Number of files by format.
    files: tuple[Planned, ...]
    skipped: list[FileProblem]


def plan_ingest(
    path: str, only: str = "everything", own: bool | None = None, max_file_bytes: int | None = None
) -> IngestPlan:
    """Return the files that `ingest` would read below a path, their formats, and the skipped ones with reasons.

    Only the beginning of each file is read. This is not an operation, because it needs no memory.
    """
    from .ingestion import plan

    options: dict[str, Any] = {} if max_file_bytes is None else {"max_file_bytes": max_file_bytes}
    planned = plan(path, wanted=only, own=own, **options)
    return copy_fields(
        IngestPlan, planned, skipped=[copy_fields(FileProblem, one, place="") for one in planned.skipped]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """The result of importing files."""

    id: str  # The id of the import, which `revert` takes; empty if it stored nothing.
    counts: dict[str, int]
    """Number of new memories by kind, and of: files, conversations, messages, known, waiting, unchanged, skipped,
    damaged."""
    files: dict[str, str]  # The files that were read, with their formats.
    skipped: list[FileProblem]
    damaged: list[FileProblem]
    left_out: dict[str, int]
    redacted: dict[str, int]  # Number of secrets that were removed from the new texts, by kind, such as `password`.
    refused: list[str]
    notes: list[str]
    dry_run: bool


@operation(Effect.ADDS, idempotent=True, on_files=True)
def ingest(
    alma: ALMA,
    path: Annotated[str, About("a file, folder or export archive on this machine", local=True)],
    agent: words.Agent,
    user_id: Annotated[str | None, About("the user who wrote the human messages")] = None,
    only: Annotated[str, About("what to read", ("everything", "documents", "chats"))] = "everything",
    own: Annotated[
        bool | None,
        About("whether the content is the person's own (default: chats are, documents are not)", vouches=True),
    ] = None,
    branches: Annotated[bool, About("also import abandoned branches of conversations")] = False,
    max_file_bytes: Annotated[int | None, About("skip documents larger than this")] = None,
    dry_run: Annotated[bool, About("only report what would be stored")] = False,
    progress: Callable[[int, int], None] | None = None,
) -> Ingested:
    """Import files: chat exports, coding-agent transcripts and histories, Slack, Markdown, plain text.

    The format is detected. Importing again adds only what is new.
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
    """Model calls of one day."""

    day: str
    calls: int
    failed: int
    dropped: int  # Answers that did not match the requested schema.
    tokens_in: int
    tokens_out: int
    cost: float
    models: list[ModelUse]
    purposes: dict[str, dict[str, float]]
    """The same figures for each question that a model was asked, such as find_rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DailyBudget:
    """Limits per day; None for no limit."""

    calls: int | None
    tokens: int | None
    cost: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    """Model calls by day, and the budget."""

    provider: str
    model: str
    limits: DailyBudget  # Limits per day.
    left: DailyBudget  # What is left today.
    resets_at: datetime  # When the limits of the next day begin.
    days: list[DayOfUse]  # Newest first.


@operation(Effect.READS)
def usage(alma: ALMA, days: Annotated[int, About("number of days to show", least=1)] = 30) -> ModelUsage:
    """Show language model calls, their cost, and what is left of today's budget. No model is used by default."""
    report = read_usage(alma.engine, alma.model_settings or ModelSettings(), days=days)
    days_used = [copy_fields(DayOfUse, one, models=by_model(one)) for one in report.days]
    budgets = {name: copy_fields(DailyBudget, getattr(report, name)) for name in ("limits", "left")}
    tomorrow = alma.engine.clock().astimezone(UTC).date() + timedelta(days=1)
    resets_at = datetime.combine(tomorrow, time.min, UTC)
    return copy_fields(ModelUsage, report, days=days_used, resets_at=resets_at, **budgets)
