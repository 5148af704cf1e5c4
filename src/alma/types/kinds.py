"""The kinds of record: what a body holds, how it reads as text, and the value a person gets to see."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from ..text import index_unspaced
from . import speech
from .evidence import Belief
from .quoting import is_quoted_output, quote_output
from .record import Origin, Record
from .rules import MACHINE_TAUGHT, Reach, RuleSource
from .times import from_iso, from_micros

Body = Mapping[str, Any]


class MemoryType(StrEnum):
    HEURISTIC = "heuristic"
    OUTCOME = "outcome"
    USER_PREFERENCE = "user_preference"
    DOMAIN_KNOWLEDGE = "domain_knowledge"
    ANTI_PATTERN = "anti_pattern"
    EPISODE = "episode"
    RULE = "rule"


class Result(StrEnum):
    """How a task went."""

    SUCCESS = "success"
    PARTIAL = "partial"
    FAILURE = "failure"

    @property
    def value_of(self) -> float:
        return {"success": 1.0, "partial": 0.5, "failure": 0.0}[self]


class FeedbackSignal(StrEnum):
    USED = "used"
    IGNORED = "ignored"
    THUMBS_UP = "thumbs_up"
    THUMBS_DOWN = "thumbs_down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What every memory has, whatever its type."""

    id: str
    agent: str
    project_id: str
    user_id: str = ""
    """Whose it is; empty: it belongs to nobody in particular, and every user sees it."""
    status: str = "active"
    origin: str = "user"
    """Where it came from: user, agent, tool, content or import. What comes from tool and content is only quoted."""
    confidence: float = 1.0
    confidence_interval: tuple[float, float] = (1.0, 1.0)
    created_at: datetime
    updated_at: datetime
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    newer: str = ""
    """When retrieved: the id of a newer memory that seems to be about the same thing; the newest, if several do."""


@dataclass(frozen=True, slots=True)
class Similar:
    """Another wording of a strategy, counted on its own."""

    strategy: str
    success_count: int
    occurrence_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Heuristic(Memory):
    """When `condition`, do `strategy`."""

    condition: str
    strategy: str
    similar: tuple[Similar, ...] = ()
    """When retrieved: strategies for the same sort of task that may be the same in other words."""
    occurrence_count: int = 0
    success_count: int = 0
    success_rate: float = 0.0
    last_validated: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Memory):
    """What was tried and how it went."""

    task_type: str = ""
    task_description: str
    strategy_used: str
    outcome: Result
    duration_ms: int | None = None
    error_message: str | None = None
    user_feedback: str | None = None
    retrieval_id: str | None = None
    timestamp: datetime

    @property
    def success(self) -> bool:
        return self.outcome is Result.SUCCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPreference(Memory):
    user_id: str
    category: str
    preference: str
    source: str
    attribute: str = ""
    """The explicit key, if one was given: a later preference with it replaces this one."""
    timestamp: datetime
    """When it was last stated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainKnowledge(Memory):
    domain: str
    fact: str
    source: str
    subject: str = ""
    attribute: str = ""
    """With `subject` the explicit key, if one was given: a later fact with it replaces this one."""
    last_verified: datetime
    """When it was last stated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AntiPattern(Memory):
    """What not to do when `condition`, why, and what to do instead."""

    pattern: str
    condition: str = ""
    why_bad: str
    better_alternative: str
    occurrence_count: int = 0
    last_seen: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Memory):
    """What a person wants done or not done, taught by a correction, a note or a mistake that was made good."""

    rule: str
    trigger: str = ""
    """When it applies; empty: whenever its words fit."""
    why: str = ""
    reach: Reach
    source: RuleSource
    said: str = ""
    """The words that taught it."""
    session_id: str = ""
    """The session it holds in; empty: in all."""
    followed: int = 0
    violated: int = 0
    repeats: int = 0
    """How often it had to be said again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(Memory):
    """What one speaker said at one point of a conversation."""

    session_id: str
    episode_id: str
    index: int
    """Its place in the conversation, from 0."""
    speaker: str
    text: str
    said_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode(Memory):
    """A conversation."""

    session_id: str
    title: str = ""
    speakers: tuple[str, ...] = ()
    turn_count: int = 0
    started_at: datetime
    ended_at: datetime
    turns: tuple[Turn, ...] = ()
    """Retrieved: the turns that matter, as they were said. From `get`: all of them. In a list: none."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A codec. `text` is what is searched, `passages` what is embedded, `decode` what is shown."""

    name: str
    prefix: str
    fields: tuple[str, ...]
    text: Callable[[Body], str] = lambda body: ""
    passages: Callable[[Body], tuple[str, ...]] = lambda body: ()
    decode: Callable[[Record, Belief], Memory] | None = None
    editable: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()
    """The fields that make it the same memory when it is told again; none: every one is a new one."""
    keys: tuple[str, ...] = ()
    """The optional fields of an explicit key: within the first unique field, a key has one active value."""
    passing: bool = False
    """A note that a power cut may take, and that may wait in memory while others write."""


def _common(record: Record, belief: Belief) -> dict[str, Any]:
    return {
        "id": record.id,
        "agent": record.agent,
        "project_id": record.project,
        "user_id": record.user,
        "status": str(record.status),
        "origin": record.provenance.canonical_source,
        "confidence": belief.mean,
        "confidence_interval": (belief.low, belief.high),
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "tags": record.tags,
        "metadata": record.body.get("metadata", {}),
    }


def _last_result(record: Record) -> datetime:
    recent = record.evidence.recent
    return from_micros(recent[-1][0] * 1_000_000) if recent else record.updated_at


def _heuristic(record: Record, belief: Belief) -> Heuristic:
    seen = record.evidence
    worth = seen.successes + 0.5 * seen.partials
    return Heuristic(
        **_common(record, belief),
        condition=record.body["condition"],
        strategy=record.body["strategy"],
        occurrence_count=seen.results,
        success_count=seen.successes,
        success_rate=worth / seen.results if seen.results else 0.0,
        last_validated=_last_result(record),
    )


def _outcome(record: Record, belief: Belief) -> Outcome:
    body = record.body
    return Outcome(
        **_common(record, belief),
        task_type=body["task_type"],
        task_description=body["task"],
        strategy_used=body["strategy"],
        outcome=Result(body["outcome"]),
        duration_ms=body["duration_ms"],
        error_message=body["error"],
        user_feedback=body["feedback"],
        retrieval_id=body["retrieval"],
        timestamp=record.created_at,
    )


def last_stated(record: Record) -> datetime:
    """Return when a fact or preference was last stated; one that was stored later began when it was stated."""
    return record.updated_at if record.valid_from is None else max(record.valid_from, record.created_at)


def _preference(record: Record, belief: Belief) -> UserPreference:
    body = record.body
    return UserPreference(
        **_common(record, belief),
        category=body["category"],
        preference=body["preference"],
        source=record.provenance.source,
        attribute=body.get("attribute", ""),
        timestamp=last_stated(record),
    )


def _knowledge(record: Record, belief: Belief) -> DomainKnowledge:
    return DomainKnowledge(
        **_common(record, belief),
        domain=record.body["domain"],
        fact=record.body["fact"],
        source=record.provenance.source,
        subject=record.body.get("subject", ""),
        attribute=record.body.get("attribute", ""),
        last_verified=last_stated(record),
    )


def _anti_pattern(record: Record, belief: Belief) -> AntiPattern:
    body = record.body
    return AntiPattern(
        **_common(record, belief),
        pattern=body["pattern"],
        condition=body["condition"],
        why_bad=quoted_why(record),
        better_alternative=body["better_alternative"],
        occurrence_count=record.evidence.failures,
        last_seen=_last_result(record),
    )


_COUNT = re.compile(r"failed \d+ of \d+ times")


def quoted_why(record: Record) -> str:
    """Return the reason of a warning or a rule, quoted where a program gave it.

    New ones are quoted when they are written; earlier versions stored what the program printed as it was.
    """
    learned = record.kind == "anti_pattern" and record.provenance.origin is Origin.OUTCOME
    why = str(record.body["why" if record.kind == "rule" else "why_bad"] or "")
    if not learned and not (record.kind == "rule" and record.body["source"] in MACHINE_TAUGHT):
        return why
    return why if is_quoted_output(why) or _COUNT.fullmatch(why) else quote_output(why)


def _rule(record: Record, belief: Belief) -> Rule:
    body = record.body
    common = _common(record, belief)
    return Rule(
        **common,
        rule=body["rule"],
        trigger=body["trigger"],
        why=quoted_why(record),
        reach=Reach(body["reach"]),
        source=RuleSource(body["source"]),
        said=body["said"],
        session_id=record.session,
        followed=record.evidence.successes,
        violated=record.evidence.failures,
        repeats=int(common["metadata"].get("repeats", 0)),
    )


def _turn(record: Record, belief: Belief) -> Turn:
    return Turn(
        **_common(record, belief),
        session_id=record.session,
        episode_id=record.links[0],
        index=record.body["index"],
        speaker=record.body["speaker"],
        text=record.body["text"],
        said_at=record.created_at,
    )


def _episode(record: Record, belief: Belief) -> Episode:
    body = record.body
    return Episode(
        **_common(record, belief),
        session_id=record.session,
        title=body["title"],
        speakers=tuple(body["speakers"]),
        turn_count=body["turns"],
        started_at=record.created_at,
        ended_at=from_iso(body["ended_at"]) or record.created_at,
    )


def _joined(*names: str) -> Callable[[Body], str]:
    return lambda body: index_unspaced("\n".join(str(body[name]) for name in names if body.get(name)))


def _each(*names: str) -> Callable[[Body], tuple[str, ...]]:
    return lambda body: tuple(str(body[name]) for name in names if body.get(name))


def _heads(*names: str) -> Callable[[Body], tuple[str, ...]]:
    """The beginning of each field, short enough to be one passage, so that vectors and fields correspond."""
    return lambda body: tuple(str(body[name])[:600] for name in names if body.get(name))


_ALL = (
    Kind(
        "heuristic",
        "heu",
        ("condition", "strategy", "task_type"),
        _joined("condition", "strategy"),
        _each("condition", "strategy"),
        _heuristic,
        editable=("condition", "strategy"),
    ),
    Kind(
        "outcome",
        "out",
        ("task", "strategy", "outcome", "task_type", "duration_ms", "error", "feedback", "retrieval"),
        _joined("task", "strategy", "error", "feedback"),
        _each("task", "strategy"),
        _outcome,
    ),
    Kind(
        "user_preference",
        "pre",
        ("category", "preference", "attribute"),
        _joined("category", "preference"),
        _each("preference"),
        _preference,
        editable=("category", "preference"),
        unique=("category", "preference"),
        keys=("attribute",),
    ),
    Kind(
        "domain_knowledge",
        "kno",
        ("domain", "fact", "subject", "attribute"),
        _joined("domain", "fact"),
        _each("fact"),
        _knowledge,
        editable=("domain", "fact"),
        unique=("domain", "fact"),
        keys=("subject", "attribute"),
    ),
    Kind(
        "anti_pattern",
        "ant",
        ("pattern", "condition", "why_bad", "better_alternative", "task_type"),
        _joined("condition", "pattern", "why_bad"),
        _each("condition", "pattern"),
        _anti_pattern,
        editable=("pattern", "condition", "why_bad", "better_alternative"),
    ),
    # `line` is the rule as hosts are shown it, `cues` the words that make it relevant: made when it is written, because
    # a hook has no time to.
    Kind(
        "rule",
        "rul",
        ("rule", "trigger", "why", "reach", "source", "said", "line", "cues", "prefer", "avoid"),
        lambda body: index_unspaced(
            "\n".join(
                filter(None, (body["trigger"], body["rule"], body["why"], " ".join((*body["prefer"], *body["avoid"]))))
            )
        ),
        _each("trigger", "rule"),
        _rule,
        editable=("rule", "trigger", "why"),
        unique=("rule",),
    ),
    # A command that failed and another form of it that worked: what an agent did, for hooks to quote. It is no rule.
    Kind(
        "observation",
        "obs",
        ("failed", "worked", "failures", "successes", "trigger", "source", "prefer", "avoid", "concern", "line"),
        _joined("trigger", "failed", "worked"),
        unique=("failed", "worked"),
    ),
    # A strategy group gathers the results of one way of doing one sort of task, whatever they say; the heuristic or
    # anti-pattern formed from it has the group's evidence and links to it.
    Kind(
        "strategy",
        "str",
        ("strategy", "task", "task_type", "errors", "label"),
        _joined("strategy", "task"),
        _heads("strategy", "task"),
    ),
    # What a model found out about two memories that look alike; linked to both.
    Kind("comparison", "cmp", ("verdict", "probability")),
    # A conversation and its turns. The turns are what is searched; the episode holds what its people said in one piece,
    # because a conversation about something says it here and there.
    Kind(
        "episode",
        "epi",
        ("title", "speakers", "turns", "next", "ended_at", "said"),
        lambda body: "\n".join(filter(None, (body["title"], body.get("said")))),
        decode=_episode,
        editable=("title",),
    ),
    Kind(
        "turn",
        "trn",
        ("speaker", "index", "text"),
        lambda body: speech.by_name(str(body["speaker"]), str(body["text"])),
        lambda body: speech.passages(str(body["speaker"]), str(body["text"])),
        _turn,
    ),
    # The agent's working day. What their values are like is known to the features that keep them.
    Kind(
        "work_item",
        "wrk",
        (
            *("title", "description", "item_type", "status", "priority", "parent_id", "blocks", "blocked_by"),
            *("started_at", "completed_at", "time_spent_ms", "attempt_count", "tests", "tests_passing", "notes"),
            *(
                "claimed_by",
                "claimed_until",
                "waiting_for",
                "test_results",
                "estimate_minutes",
                "working_since",
                "held",
            ),
        ),
        _joined("title", "description"),
    ),
    Kind(
        "progress_log",
        "plg",
        (
            *("total", "done", "in_progress", "blocked", "current", "action", "actions", "outcomes"),
            "session_start",
        ),
    ),
    Kind(
        "session",
        "ses",
        (
            *("goal", "started_at", "ended_at", "last_seen", "actions", "decisions", "files", "state", "blockers"),
            *("next_steps", "risks", "tests", "confidence", "action_count", "owner"),
        ),
    ),
    Kind(
        "handoff",
        "hof",
        (
            *("last_action", "last_outcome", "goal", "decisions", "files", "blockers", "next_steps", "tests"),
            *("confidence", "risks", "started_at", "ended_at", "left_out"),
        ),
        _joined("goal", "last_action"),
    ),
    Kind(
        "checkpoint",
        "chk",
        ("workflow", "run", "node", "branch", "number", "state", "digest", "parent", "base", "size", "redacted"),
    ),
    Kind("run", "run", ("run", "workflow", "status", "started_at", "ended_at")),
    Kind("artifact", "art", ("name", "path", "kind", "size", "digest", "workflow", "run", "node")),
    Kind("domain_schema", "dom", ("name", "schema")),
    # The graph: an entity's tags are what it is found by, a relation's tags and key its ends and its type; both link to
    # the records they come from.
    Kind(
        "entity",
        "ent",
        ("entity", "name", "type", "aliases", "attributes", "confidence", "absorbed"),
        lambda body: "\n".join((body["name"], *body["aliases"])),
    ),
    Kind("relation", "rel", ("relation", "subject", "type", "object", "attributes", "confidence")),
    Kind("retrieval", "ret", ("task", "shown", "mode"), passing=True),
    # Its id is made from the idempotency key, so that two processes cannot both write the first one.
    Kind("receipt", "rcp", ("arguments", "outcome")),
    Kind("change", "chg", ("record", "verb", "why", "before")),
    Kind("tombstone", "tom", ("record", "kind", "salt")),
    Kind("marker", "mrk", ("value",)),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _ALL}
MEMORY_KINDS: tuple[str, ...] = tuple(MemoryType)
READABLE_KINDS: tuple[str, ...] = (*MEMORY_KINDS, "turn")
"""What has an id that a person may ask for."""
