"""Memories: recall before a task, learn after it, tell what is so, and look after what is held."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Any, TypeVar

from alma import __version__

from ..core import ALMA
from ..engine import edit, transaction, validate
from ..engine.feedback import FeedbackReport
from ..engine.retrieve.explain import Why, explain_retrieval
from ..engine.retrieve.pipeline import find_memories
from ..engine.retrieve.request import Request
from ..engine.stats import Stats
from ..engine.upkeep import reconcile as reconciling
from ..engine.upkeep.reconcile import Reconciled as Reconciled
from ..engine.view import render_slice, view
from ..errors import StorageError, ValidationError
from ..types.kinds import (
    MEMORY_KINDS,
    AntiPattern,
    DomainKnowledge,
    Episode,
    FeedbackSignal,
    Heuristic,
    Memory,
    MemoryType,
    Outcome,
    Rule,
    UserPreference,
)
from ..types.query import Where, visible_users
from ..types.record import Status
from ..types.rules import EVERYWHERE
from ..types.slice import Explanation, MemorySlice
from . import words
from .operation import About, Effect, operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a retrieval found."""

    query: str
    agent: str
    retrieval_id: str | None
    """To be named when an outcome is learned with the help of these memories."""
    retrieval_time_ms: float
    total_items: int
    memories: list[Memory]
    explanations: list[Explanation]
    """Why each is here, in the same order."""
    standing_rules: list[Rule] = field(default_factory=list)
    """Rules in force that do not match the task; the prompt shows them, too."""
    prompt: str
    """All of it as Markdown for a prompt; empty when nothing is relevant."""


def found(slice_: MemorySlice, max_tokens: int = 2000) -> Found:
    return Found(
        query=slice_.query,
        agent=slice_.agent,
        retrieval_id=slice_.retrieval_id,
        retrieval_time_ms=round(slice_.retrieval_time_ms, 3),
        total_items=slice_.total_items,
        memories=list(slice_),
        explanations=list(slice_.explain()),
        standing_rules=list(slice_.standing_rules),
        prompt=slice_.to_prompt(max_tokens),
    )


# -- the loop


@operation(Effect.READS)
def retrieve(
    alma: ALMA,
    task: words.Task,
    agent: words.Agent,
    user_id: words.User = None,
    top_k: Annotated[int | None, About("at most so many of each type; by default 5, or as many as TASK wants")] = None,
    mode: Annotated[
        str, About("how widely to look", ("default", "precise", "broad", "recent", "learning"))
    ] = "default",
    types: words.Types = None,
    tags: Annotated[list[str] | None, About("only what has one of these tags")] = None,
    task_type: Annotated[
        str | None, About("of strategies, warnings and outcomes only those of this sort of task")
    ] = None,
    since: Annotated[str | None, About("not older than this, such as 2026-05-07 or 2026-05-07T14:30Z")] = None,
    until: Annotated[str | None, About("older than this")] = None,
    as_of: Annotated[str | None, About("what was known at this moment")] = None,
    level: Annotated[str, About("conversations whole, or their single turns", ("session", "turn"))] = "session",
    progressive: Annotated[bool, About("a prompt of summaries with ids; `get` tells more")] = False,
    max_tokens: words.MaxTokens = 2000,
) -> Found:
    """Find the memories that matter for a task. Call this before starting a task.

    Gives strategies that worked, warnings, rules, facts, the user's standing preferences and past conversations, and
    `prompt`, which holds all of it as text. Nothing relevant gives nothing. Remember `retrieval_id` for `learn`.
    """
    slice_ = alma.retrieve(
        task,
        agent,
        user_id,
        top_k,
        mode=mode,
        types=types,
        tags=tags,
        task_type=task_type,
        since=since,
        until=until,
        as_of=as_of,
        level=level,
        progressive=progressive,
    )
    return found(slice_, max_tokens)


@operation(Effect.ADDS)
def learn(
    alma: ALMA,
    agent: words.Agent,
    task: words.Task,
    outcome: words.OutcomeOf,
    strategy_used: Annotated[str, About("how it was done, in a sentence that fits other tasks too")],
    task_type: Annotated[str | None, About("the sort of task, if you have names for them")] = None,
    duration_ms: Annotated[int | None, About("how long it took")] = None,
    error_message: Annotated[str | None, About("what went wrong")] = None,
    feedback: Annotated[str | None, About("what the user said about it")] = None,
    retrieval_id: Annotated[str | None, About("the retrieval whose memories were followed")] = None,
    idempotency_key: Annotated[str | None, About("a key of your own: calls with the same key are counted once")] = None,
    user_id: words.Owner = None,
    shared: Annotated[bool, About("let it count for what all users see, not only for this user's lessons")] = False,
    tags: words.Tags = None,
    metadata: words.Metadata = None,
) -> Outcome:
    """Record how a task went. Call this after a task, whether it worked or not.

    Strategies form by themselves from what worked several times, warnings from what failed. A call repeated with the
    same `idempotency_key`, or with the same `retrieval_id` and arguments, returns the stored outcome.
    """
    given = {name: value for name, value in locals().items() if name != "alma"}
    return alma.learn(**given)


@operation(Effect.CHANGES)
def record_usage(
    alma: ALMA,
    retrieved_memory_ids: Annotated[list[str], About("all memories that were shown")],
    used_memory_ids: Annotated[list[str], About("those of them that were used")],
    memory_type: words.TypeOf = None,
    agent: words.AnyAgent = None,
    query: Annotated[str, About("what was asked")] = "",
) -> FeedbackReport:
    """Say which of the memories shown were used. Used ones rise in later retrievals, passed-over ones sink."""
    return alma.record_usage(retrieved_memory_ids, used_memory_ids, memory_type, agent, query)


@operation(Effect.CHANGES)
def record_feedback(
    alma: ALMA,
    memory_id: words.MemoryId,
    signal: words.Signal = FeedbackSignal.THUMBS_UP,
    memory_type: words.TypeOf = None,
    agent: words.AnyAgent = None,
    query: Annotated[str, About("what was asked")] = "",
) -> FeedbackReport:
    """Say what one memory was worth; it moves its rank."""
    return alma.record_feedback(memory_id, memory_type, signal, agent, query)


# -- what is told


@operation(Effect.ADDS, idempotent=True)
def add_preference(
    alma: ALMA,
    user_id: Annotated[str, About("whose preference it is")],
    category: Annotated[str, About("such as code_style or communication")],
    preference: Annotated[str, About("what the user wants, in a sentence")],
    source: words.Source = words.AGENT,
    attribute: Annotated[str | None, About("the key, such as indentation: replaces the older preference of it")] = None,
    tags: words.Tags = None,
    metadata: words.Metadata = None,
) -> UserPreference:
    """Keep what a user wants. It is part of every later retrieval for that user.

    With `attribute` it replaces the user's older preference of that category and attribute.
    """
    given = {name: value for name, value in locals().items() if name != "alma"}
    return alma.add_user_preference(**given)


@operation(Effect.ADDS, idempotent=True)
def add_knowledge(
    alma: ALMA,
    agent: words.Agent,
    domain: Annotated[str, About("what it is about, such as deployment")],
    fact: Annotated[str, About("the fact, in a sentence that can be understood alone")],
    source: words.Source = words.AGENT,
    subject: Annotated[str | None, About("what the fact is about, such as billing; needs attribute")] = None,
    attribute: Annotated[str | None, About("the key, such as database: replaces the older fact of it")] = None,
    user_id: words.Owner = None,
    tags: words.Tags = None,
    metadata: words.Metadata = None,
) -> DomainKnowledge:
    """Keep a fact. A repetition confirms the fact that is held.

    With `attribute`, and perhaps `subject`, it replaces the older fact of that domain and key.
    """
    given = {name: value for name, value in locals().items() if name != "alma"}
    return alma.add_domain_knowledge(**given)


@operation(Effect.ADDS, idempotent=True)
def add_heuristic(
    alma: ALMA,
    agent: words.Agent,
    condition: Annotated[str, About("when it applies: the sort of task")],
    strategy: Annotated[str, About("what to do then")],
    category: Annotated[str | None, About("what it is about, where that is declared")] = None,
    source: words.Source = words.AGENT,
    user_id: words.Owner = None,
    tags: words.Tags = None,
    metadata: words.Metadata = None,
) -> Heuristic:
    """State a strategy that works. Later outcomes count for or against it."""
    given = {name: value for name, value in locals().items() if name != "alma"}
    return alma.add_heuristic(**given)


@operation(Effect.ADDS, idempotent=True)
def add_anti_pattern(
    alma: ALMA,
    agent: words.Agent,
    pattern: Annotated[str, About("what not to do")],
    why_bad: Annotated[str, About("why not")],
    better_alternative: Annotated[str, About("what to do instead")] = "",
    condition: Annotated[str, About("when it applies; empty: always")] = "",
    category: Annotated[str | None, About("what it is about, where that is declared")] = None,
    source: words.Source = words.AGENT,
    user_id: words.Owner = None,
    tags: words.Tags = None,
    metadata: words.Metadata = None,
) -> AntiPattern:
    """Warn of something: what not to do, why, and what to do instead."""
    given = {name: value for name, value in locals().items() if name != "alma"}
    return alma.add_anti_pattern(**given)


@operation(Effect.ADDS)
def add_rule(
    alma: ALMA,
    agent: words.Agent,
    rule: Annotated[str, About("what is to be done or not done")],
    trigger: Annotated[str, About("when it applies; empty: always")] = "",
    why: Annotated[str, About("why")] = "",
    reach: Annotated[str, About("how far it reaches", ("project", "always"))] = "project",
    source: words.Source = words.AGENT,
    user_id: words.Owner = None,
    tags: words.Tags = None,
    metadata: words.Metadata = None,
) -> Rule:
    """Propose a rule. It holds once a person accepts it; a person's own (source 'user') holds at once.

    A later rule that contradicts it takes its place.
    """
    given = {name: value for name, value in locals().items() if name != "alma"}
    return alma.add_rule(**given)


@operation(Effect.ADDS, idempotent=True)
def add_episode(
    alma: ALMA,
    agent: words.Agent,
    session_id: Annotated[str, About("which conversation it is")],
    turns: Annotated[list[dict[str, Any]], About("each with speaker and text, and perhaps at and id")],
    user_id: words.User = None,
    title: Annotated[str, About("what it is about")] = "",
    source: words.Source = "conversation",
    tags: words.Tags = None,
    metadata: words.Metadata = None,
) -> Episode:
    """Keep a conversation, or what is new of it. A turn that is told again is kept once."""
    given = {name: value for name, value in locals().items() if name != "alma"}
    return alma.add_episode(**given)


# -- single memories


@operation(Effect.READS, "list")
def list_memories(
    alma: ALMA,
    memory_type: words.TypeOf = None,
    agent: words.AnyAgent = None,
    user_id: Annotated[str | None, About("only this user's own; without it everybody's")] = None,
    status: words.StatusOf = "active",
    tag: Annotated[str | None, About("only what has this tag")] = None,
    limit: words.Limit = 50,
) -> list[Memory]:
    """List memories, newest first."""
    return alma.list(memory_type, agent, user_id, status, tag, limit)


@dataclass(frozen=True, slots=True)
class Match:
    memory: Memory
    score: float
    """0 to 1: how near it is."""
    reason: str


@operation(Effect.READS)
def search(
    alma: ALMA,
    query: Annotated[str, About("words, or what it is about")],
    memory_type: words.TypeOf = None,
    agent: words.AnyAgent = None,
    user_id: Annotated[str | None, About("only what this user sees; without it everybody's")] = None,
    status: words.StatusOf = "active",
    limit: words.Limit = 10,
) -> list[Match]:
    """Look memories up by words or meaning, best first. To prepare a task, use `retrieve` instead.

    It goes by relevance alone, over all agents, and is not recorded. With `user_id` it finds what that user sees: the
    user's own memories and those of nobody in particular.
    """
    engine = alma.engine
    where = Where(
        kinds=MEMORY_KINDS if memory_type is None else {validate.choice("memory_type", memory_type, MemoryType)},
        projects={engine.project, EVERYWHERE},
        agents=None if agent is None else {engine.agent(validate.name("agent", agent))},
        users=None if user_id is None else visible_users(validate.name("user_id", user_id)),
        statuses=None if status is None else {validate.choice("status", status, Status)},
    )
    hits = find_memories(engine, validate.text("query", query), where, validate.whole("limit", limit, 1, 1000))
    now = engine.clock()
    return [Match(view(one.record, now), round(one.score, 4), one.explanation.reason) for one in hits]


@operation(Effect.READS)
def explain(
    alma: ALMA,
    memory_id: words.MemoryId,
    task: words.Task,
    agent: words.Agent,
    user_id: words.User = None,
) -> Why:
    """Why a memory is retrieved for a task, or why it is not."""
    record = edit.find(alma.engine, validate.name("memory_id", memory_id))
    if record.kind not in MEMORY_KINDS:
        raise ValidationError(
            f"{memory_id!r} is a {record.kind}, and only memories are explained: {', '.join(MEMORY_KINDS)}"
        )
    request = Request(
        task=validate.text("task", task),
        agent=alma.engine.agent(validate.name("agent", agent)),
        user=None if user_id is None else validate.name("user_id", user_id),
    )
    return explain_retrieval(alma.engine, record, request)


@operation(Effect.READS, "get")
def get_memory(alma: ALMA, memory_id: words.MemoryId) -> Memory:
    """Show one memory whole. A conversation comes with all its turns."""
    return alma.get(memory_id)


@operation(Effect.CHANGES, "update", idempotent=True)
def update_memory(
    alma: ALMA,
    memory_id: words.MemoryId,
    fields: Annotated[dict[str, Any] | None, About("its own fields to change, such as {'fact': '…'}")] = None,
    status: words.StatusOf = None,
    tags: words.Tags = None,
    source: words.Source = words.AGENT,
) -> Memory:
    """Change a memory's fields, status or tags. Its history keeps the old ones.

    Only a person changes the words of a rule, makes a candidate active, or changes what a person said.
    """
    if fields:
        # Before they become keyword arguments: a field may have the name of another argument.
        edit.check_fields(alma.engine, validate.name("memory_id", memory_id), fields)
    return alma.update(memory_id, status=status, tags=tags, source=source, **(fields or {}))


@dataclass(frozen=True, slots=True)
class Deleted:
    id: str


@operation(Effect.ERASES, "delete")
def delete_memory(alma: ALMA, memory_id: words.MemoryId) -> Deleted:
    """Erase a memory for good. It is not learned again by itself. What a person said, only a person erases."""
    alma.delete(memory_id)
    return Deleted(memory_id)


@dataclass(frozen=True, slots=True)
class ErasedUser:
    user_id: str
    counts: dict[str, int]
    """How many memories of each kind were erased."""


@operation(Effect.ERASES, idempotent=True)
def erase_user(alma: ALMA, user_id: Annotated[str, About("the user whose memories are erased")]) -> ErasedUser:
    """Erase everything of a user for good: all memories of this project that carry the user's id, and their history."""
    return ErasedUser(user_id, alma.erase_user(user_id))


@dataclass(frozen=True, slots=True)
class Change:
    at: datetime
    verb: str
    why: str
    before: dict[str, Any]


@operation(Effect.READS, "history")
def memory_history(alma: ALMA, memory_id: words.MemoryId) -> list[Change]:
    """What happened to a memory since it was made, oldest first."""
    return [Change(one["at"], one["verb"], one["why"], dict(one["before"] or {})) for one in alma.history(memory_id)]


# -- upkeep


@dataclass(frozen=True, slots=True)
class ForgottenMemories:
    count: int
    ids: list[str]
    dry_run: bool


@operation(Effect.CHANGES, idempotent=True)
def forget(
    alma: ALMA,
    agent: words.AnyAgent = None,
    older_than_days: Annotated[float, About("not used or confirmed for so many days")] = 90,
    below_confidence: Annotated[float, About("and faded below this strength, 0 to 1")] = 0.3,
    dry_run: Annotated[bool, About("only say what would be archived")] = False,
) -> ForgottenMemories:
    """Archive what nobody used or confirmed for long and has faded. Nothing is erased."""
    gone = alma.forget(agent, older_than_days, below_confidence, dry_run)
    return ForgottenMemories(int(gone), list(gone.ids), dry_run)


@operation(Effect.CHANGES, idempotent=True)
def reconcile(
    alma: ALMA, limit: Annotated[int, About("compare at most so many pairs")] = reconciling.MAX_PAIRS
) -> Reconciled:
    """Ask the configured model how memories that look alike relate, and supersede what is out of date.

    Each pair is asked about once. Superseded memories stay in history; `update` with the status 'active' restores one.
    """
    return alma.reconcile(limit)


@operation(Effect.READS)
def stats(
    alma: ALMA,
    agent: words.AnyAgent = None,
    user_id: Annotated[str | None, About("only what this user sees; without it everything")] = None,
) -> Stats:
    """How much is remembered: by type, by status, by agent."""
    return alma.get_stats(agent, user_id)


@dataclass(frozen=True, slots=True)
class Text:
    text: str


_PLAYBOOK = 200
M = TypeVar("M", bound=Memory)


@operation(Effect.READS)
def playbook(
    alma: ALMA, agent: words.AnyAgent = None, max_tokens: words.MaxTokens = 4000, user_id: words.User = None
) -> Text:
    """All that was learned so far as one page: the rules, what works, what to avoid.

    It holds what belongs to the user and to nobody in particular; without `user_id`, the latter only.
    """
    engine = alma.engine
    where = Where(
        projects={engine.project, EVERYWHERE},
        agents=None if agent is None else {engine.agent(validate.name("agent", agent))},
        users=visible_users(None if user_id is None else validate.name("user_id", user_id)),
        statuses={Status.ACTIVE},
    )
    now = engine.clock()

    def newest(kind: type[M], memory_type: MemoryType) -> list[M]:
        found = (view(one, now) for one in engine.store.scan(replace(where, kinds={memory_type}), _PLAYBOOK))
        return [one for one in found if isinstance(one, kind)]

    learned = MemorySlice(
        query="",
        agent=agent or "",
        rules=newest(Rule, MemoryType.RULE),
        heuristics=_strongest(newest(Heuristic, MemoryType.HEURISTIC)),
        anti_patterns=_strongest(newest(AntiPattern, MemoryType.ANTI_PATTERN)),
        renderer=render_slice,
    )
    return Text(learned.to_prompt(max_tokens))


def _strongest(memories: list[M]) -> list[M]:
    return sorted(memories, key=lambda one: (-one.confidence, one.id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    ok: bool
    version: str
    project_id: str
    memories: int
    embedder: str
    """Its name; empty when memories are found by words only."""
    problems: list[str]


@operation(Effect.READS)
def health(alma: ALMA) -> Health:
    """Is the memory open, readable and able to find things? `problems` says what is not well."""
    problems: list[str] = []
    memories = 0
    try:
        memories = alma.get_stats()["total_count"]
        held = transaction.marker(alma.engine)
        name = alma.engine.embedder_name
        if held is not None and name and held.body["value"] != name:
            problems.append(str(transaction.mismatch(held.body["value"], name)))
    except StorageError as error:
        # Others may read this over the network: where the store lies is not for them.
        problems.append(f"{error.neutral or error}; `alma doctor` says more")
    return Health(
        ok=not problems,
        version=__version__,
        project_id=alma.project_id,
        memories=memories,
        embedder=alma.engine.embedder_name,
        problems=problems,
    )
