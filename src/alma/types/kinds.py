"""The kinds of record: what a body holds, how it reads as text, and the value a person gets to see.

A new field of a memory is declared here; see `kind` for what follows from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from . import speech
from .kind import Kind as Kind
from .kind import declare, derived, stored, taken
from .record import Origin, Record
from .rules import MACHINE_TAUGHT, Reach, RuleSource
from .speech import is_quoted_output, quote_output
from .times import from_iso, from_micros


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


# --- what fields are derived from ------------------------------------------------------------------


def last_stated(record: Record) -> datetime:
    """Return when a fact or preference was last stated; one that was stored later began when it was stated."""
    return record.updated_at if record.valid_from is None else max(record.valid_from, record.created_at)


def _find_last_result(record: Record) -> datetime:
    recent = record.evidence.recent
    return from_micros(recent[-1][0] * 1_000_000) if recent else record.updated_at


def _measure_success(record: Record) -> float:
    seen = record.evidence
    return (seen.successes + 0.5 * seen.partials) / seen.results if seen.results else 0.0


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


# --- memories --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What every memory has, whatever its type."""

    id: str = taken("id")
    agent: str = taken("agent")
    project_id: str = taken("project")
    user_id: str = taken("user", default="")
    """Whose it is; empty: it belongs to nobody in particular, and every user sees it."""
    status: str = taken("status", str, default="active")
    origin: str = taken("provenance.canonical_source", default="user")
    """Where it came from: user, agent, tool, content or import. What comes from tool and content is only quoted."""
    confidence: float = 1.0
    confidence_interval: tuple[float, float] = (1.0, 1.0)
    created_at: datetime = taken("created_at")
    updated_at: datetime = taken("updated_at")
    tags: tuple[str, ...] = taken("tags", default=())
    metadata: Mapping[str, Any] = stored(default_factory=dict)
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

    condition: str = stored(searched=1, embedded=True, editable=True)
    strategy: str = stored(searched=2, embedded=True, editable=True)
    similar: tuple[Similar, ...] = ()
    """When retrieved: strategies for the same sort of task that may be the same in other words."""
    occurrence_count: int = taken("evidence.results", default=0)
    success_count: int = taken("evidence.successes", default=0)
    success_rate: float = derived(_measure_success, default=0.0)
    last_validated: datetime = derived(_find_last_result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Memory):
    """What was tried and how it went."""

    task_type: str = stored(default="")
    task_description: str = stored("task", searched=1, embedded=True)
    strategy_used: str = stored("strategy", searched=2, embedded=True)
    outcome: Result = stored(read=Result)
    duration_ms: int | None = stored(default=None)
    error_message: str | None = stored("error", searched=3, default=None)
    user_feedback: str | None = stored("feedback", searched=4, default=None)
    retrieval_id: str | None = stored("retrieval", default=None)
    timestamp: datetime = taken("created_at")

    @property
    def success(self) -> bool:
        return self.outcome is Result.SUCCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPreference(Memory):
    user_id: str = taken("user")
    category: str = stored(searched=1, editable=True, unique=True)
    preference: str = stored(searched=2, embedded=True, editable=True, unique=True)
    source: str = taken("provenance.source")
    attribute: str = stored(key=True, default="")
    """The explicit key, if one was given: a later preference with it replaces this one."""
    timestamp: datetime = derived(last_stated)
    """When it was last stated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainKnowledge(Memory):
    domain: str = stored(searched=1, editable=True, unique=True)
    fact: str = stored(searched=2, embedded=True, editable=True, unique=True)
    source: str = taken("provenance.source")
    subject: str = stored(key=True, default="")
    attribute: str = stored(key=True, default="")
    """With `subject` the explicit key, if one was given: a later fact with it replaces this one."""
    last_verified: datetime = derived(last_stated)
    """When it was last stated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AntiPattern(Memory):
    """What not to do when `condition`, why, and what to do instead."""

    pattern: str = stored(searched=2, embedded=True, editable=True)
    condition: str = stored(searched=1, embedded=True, editable=True, default="")
    why_bad: str = stored(searched=3, editable=True, derive=quoted_why)
    better_alternative: str = stored(editable=True)
    occurrence_count: int = taken("evidence.failures", default=0)
    last_seen: datetime = derived(_find_last_result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Memory):
    """What a person wants done or not done, taught by a correction, a note or a mistake that was made good."""

    rule: str = stored(searched=2, embedded=True, editable=True, unique=True)
    trigger: str = stored(searched=1, embedded=True, editable=True, default="")
    """When it applies; empty: whenever its words fit."""
    why: str = stored(searched=3, editable=True, derive=quoted_why, default="")
    reach: Reach = stored(read=Reach)
    source: RuleSource = stored(read=RuleSource)
    said: str = stored(default="")
    """The words that taught it."""
    session_id: str = taken("session", default="")
    """The session it holds in; empty: in all."""
    followed: int = taken("evidence.successes", default=0)
    violated: int = taken("evidence.failures", default=0)
    repeats: int = derived(lambda record: int(record.body.get("metadata", {}).get("repeats", 0)), default=0)
    """How often it had to be said again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(Memory):
    """What one speaker said at one point of a conversation."""

    session_id: str = taken("session")
    episode_id: str = derived(lambda record: record.links[0])
    index: int = stored()
    """Its place in the conversation, from 0."""
    speaker: str = stored()
    text: str = stored()
    said_at: datetime = taken("created_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode(Memory):
    """A conversation."""

    session_id: str = taken("session")
    title: str = stored(editable=True, default="")
    speakers: tuple[str, ...] = stored(read=tuple, default=())
    turn_count: int = stored("turns", default=0)
    started_at: datetime = taken("created_at")
    ended_at: datetime = stored(derive=lambda record: from_iso(record.body["ended_at"]) or record.created_at)
    turns: tuple[Turn, ...] = ()
    """Retrieved: the turns that matter, as they were said. From `get`: all of them. In a list: none."""


# --- kinds -----------------------------------------------------------------------------------------

_ALL = (
    declare("heuristic", "heu", Heuristic, "task_type"),
    declare("outcome", "out", Outcome),
    declare("user_preference", "pre", UserPreference),
    declare("domain_knowledge", "kno", DomainKnowledge),
    declare("anti_pattern", "ant", AntiPattern, "task_type"),
    # `line` is the rule as hosts are shown it, `cues` the words that make it relevant: made when it is written, because
    # a hook has no time to.
    declare(
        "rule",
        "rul",
        Rule,
        "line cues prefer avoid",
        extra_text=lambda body: " ".join((*body["prefer"], *body["avoid"])),
    ),
    # A command that failed and another form of it that worked: what an agent did, for hooks to quote. It is no rule.
    declare(
        "observation",
        "obs",
        more="failed worked failures successes trigger source prefer avoid concern line",
        searched="trigger failed worked",
        unique="failed worked",
    ),
    # A strategy group gathers the results of one way of doing one sort of task, whatever they say; the heuristic or
    # anti-pattern formed from it has the group's evidence and links to it.
    declare(
        "strategy", "str", more="strategy task task_type errors label", searched="strategy task", passage_chars=600
    ),
    # What a model found out about two memories that look alike; linked to both.
    declare("comparison", "cmp", more="verdict probability"),
    # A conversation and its turns. The turns are what is searched; the episode holds what its people said in one piece,
    # because a conversation about something says it here and there.
    declare(
        "episode",
        "epi",
        Episode,
        "next said",
        text=lambda body: "\n".join(filter(None, (body["title"], body.get("said")))),
    ),
    declare(
        "turn",
        "trn",
        Turn,
        text=lambda body: speech.by_name(str(body["speaker"]), str(body["text"])),
        passages=lambda body: speech.passages(str(body["speaker"]), str(body["text"])),
    ),
    # The agent's working day. What their values are like is known to the features that keep them.
    declare(
        "work_item",
        "wrk",
        more="title description item_type status priority parent_id blocks blocked_by started_at completed_at "
        "time_spent_ms attempt_count tests tests_passing notes claimed_by claimed_until waiting_for test_results "
        "estimate_minutes working_since held",
        searched="title description",
    ),
    declare(
        "progress_log",
        "plg",
        more="total done in_progress blocked current action actions outcomes session_start",
    ),
    declare(
        "session",
        "ses",
        more="goal started_at ended_at last_seen actions decisions files state blockers next_steps risks tests "
        "confidence action_count owner",
    ),
    declare(
        "handoff",
        "hof",
        more="last_action last_outcome goal decisions files blockers next_steps tests confidence risks started_at "
        "ended_at left_out",
        searched="goal last_action",
    ),
    declare("checkpoint", "chk", more="workflow run node branch number state digest parent base size redacted"),
    declare("run", "run", more="run workflow status started_at ended_at"),
    declare("artifact", "art", more="name path kind size digest workflow run node"),
    declare("domain_schema", "dom", more="name schema"),
    # The graph: an entity's tags are what it is found by, a relation's tags and key its ends and its type; both link to
    # the records they come from.
    declare(
        "entity",
        "ent",
        more="entity name type aliases attributes confidence absorbed",
        text=lambda body: "\n".join((body["name"], *body["aliases"])),
    ),
    declare("relation", "rel", more="relation subject type object attributes confidence"),
    declare("retrieval", "ret", more="task shown mode", passing=True),
    # Its id is made from the idempotency key, so that two processes cannot both write the first one.
    declare("receipt", "rcp", more="arguments outcome"),
    declare("change", "chg", more="record verb why before"),
    declare("tombstone", "tom", more="record kind salt"),
    declare("marker", "mrk", more="value"),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _ALL}
MEMORY_KINDS: tuple[str, ...] = tuple(MemoryType)
READABLE_KINDS: tuple[str, ...] = (*MEMORY_KINDS, "turn")
"""What has an id that a person may ask for."""
