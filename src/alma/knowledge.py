"""Where knowledge comes from: conversations, files and exports; and what language models were asked for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from . import words
from .engine import validate
from .memory import ALMA
from .models.budget import ModelUse, by_model
from .models.budget import usage as read_usage
from .operations import About, Effect, Group
from .types.asking import ModelSettings
from .types.record import QUOTED
from .words import copy_fields

operation = Group("knowledge")
Sureness = Annotated[float, About("what is less sure than this (0 to 1) is left out")]
DryRun = Annotated[bool, About("only say what would be kept")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Learnt:
    """What was learned from a conversation."""

    extracted_count: int
    """How much was found and is believed."""
    new: int
    known: int
    """Was there already."""
    kept: dict[str, int]
    """How many by type."""
    by_kind: dict[str, int]
    superseded: list[str]
    """Ids of facts that something later took the place of."""
    skipped: list[str]
    """What was left out, and why."""
    model: str | None
    fallback: str | None
    """Why the local reader had to replace the model."""
    dropped: dict[str, int]
    """The proposals that were dropped, by reason."""
    episode_id: str | None
    dry_run: bool
    findings: list[dict[str, Any]]


@operation(Effect.ADDS, idempotent=True)
def learn_from_conversation(
    alma: ALMA,
    messages: Annotated[list[dict[str, Any]], About("each with role and content, and perhaps at and id")],
    agent: words.Agent,
    user_id: words.User = None,
    session_id: Annotated[str | None, About("which conversation it is")] = None,
    dry_run: DryRun = False,
    save_episode: Annotated[bool, About("keep the conversation itself, too")] = False,
    min_confidence: Sureness = 0.5,
    trusted: Annotated[bool, About("false for the talk of others: what it says waits for a person")] = True,
    source: words.Source = words.AGENT,
) -> Learnt:
    """Find what a conversation teaches and keep it: outcomes, preferences, corrections, decisions, facts, tasks.

    Told again, nothing is learned twice. A configured language model helps; none is needed. Rules in a conversation
    that an agent reports wait for a person.
    """
    options = {"session_id": session_id, "save_episode": save_episode, "dry_run": dry_run}
    return _learn(alma, source, trusted, messages, agent, user_id, min_confidence=min_confidence, **options)


@operation(Effect.ADDS, idempotent=True)
def learn_from_text(
    alma: ALMA,
    text: Annotated[str, About("a note, a page of Markdown, minutes")],
    agent: words.Agent,
    user_id: words.User = None,
    name: Annotated[str | None, About("what the text is called, such as decisions.md")] = None,
    dry_run: DryRun = False,
    min_confidence: Sureness = 0.5,
    trusted: Annotated[
        bool, About("false for the words of others: what they say waits for a person", vouches=True)
    ] = True,
    source: words.Source = words.AGENT,
) -> Learnt:
    """Find what a text states and keep it: decisions, facts, strategies, warnings, tasks.

    Told again, nothing is learned twice. To read files, use ingest.
    """
    options = {"name": name, "dry_run": dry_run}
    return _learn(alma, source, trusted, text, agent, user_id, min_confidence=min_confidence, **options)


def _learn(alma: ALMA, source: str, trusted: bool, told: Any, *args: Any, **options: Any) -> Learnt:
    """Learn from messages or a text; what no person wrote is taken as relayed, or waits for a person."""
    from .extraction import AutoLearner

    learner = AutoLearner(alma)
    origin = validate.provenance("source", source).canonical_source
    options |= {"trusted": trusted and origin not in QUOTED, "relayed": origin != "user"}
    learn = learner.learn_from_text if isinstance(told, str) else learner.learn_from_conversation
    learned = learn(told, *args, **options)
    names = ("text", "quote", "turn", "confidence")
    findings = [{"kind": str(one.kind)} | {name: getattr(one, name) for name in names} for one in learned.findings]
    return Learnt(**learned, findings=findings)


# -- files


@dataclass(frozen=True, slots=True)
class Place:
    path: str
    place: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToRead:
    path: str
    format: str
    bytes: int
    own: bool
    """A person's words in it are taken for those of the one whose memory this is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What `ingest` would read, and what it would not."""

    root: str
    bytes: int
    formats: dict[str, int]
    """How many files there are of each."""
    files: list[ToRead]
    skipped: list[Place]


def reading(path: str, only: str = "everything", own: bool | None = None, max_file_bytes: int | None = None) -> Reading:
    """What `ingest` would read below a path, as what, and what it would not, and why. Only beginnings are looked at.

    No operation: it asks no memory, and it names files.
    """
    from .ingestion import plan

    options: dict[str, Any] = {} if max_file_bytes is None else {"max_file_bytes": max_file_bytes}
    made = plan(path, wanted=only, own=own, **options)
    return copy_fields(
        Reading,
        made,
        files=[copy_fields(ToRead, one, format=str(one.format)) for one in made.files],
        skipped=[copy_fields(Place, one, place="") for one in made.skipped],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """What came of reading files."""

    counts: dict[str, int]
    """How many are new of each kind, and: files, conversations, messages, known, waiting, unchanged,
    skipped, damaged."""
    files: dict[str, str]
    """The files read, and their formats."""
    skipped: list[Place]
    damaged: list[Place]
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
    dry_run: DryRun = False,
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
        skipped=[copy_fields(Place, one, place="") for one in result.skipped],
        damaged=[copy_fields(Place, one) for one in result.damaged],
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
class Budget:
    """None: as much as you like."""

    calls: int | None
    tokens: int | None
    cost: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    provider: str
    model: str
    limits: Budget
    """Of a day."""
    left: Budget
    """Of today."""
    days: list[DayOfUse]
    """Newest first."""


@operation(Effect.READS)
def usage(alma: ALMA, days: Annotated[int, About("the last so many days of use", least=1)] = 30) -> ModelUsage:
    """What language models were asked, what it cost, and what is left of today's budget. By default none is asked."""
    found = read_usage(alma.engine, alma.model_settings or ModelSettings(), days=days)
    return copy_fields(
        ModelUsage,
        found,
        limits=copy_fields(Budget, found.limits),
        left=copy_fields(Budget, found.left),
        days=[copy_fields(DayOfUse, one, models=by_model(one)) for one in found.days],
    )
