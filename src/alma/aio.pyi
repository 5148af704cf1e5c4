# Written by tools/generate_stub.py
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from os import PathLike
from typing import Any, Literal, overload

from . import engine as core
from . import words
from .engine.calls import MAX_PAIRS, Progress, ignore_progress
from .extraction.learner import LearningReport
from .memory import ALMA, ListOf, M, Matches, Memories, P, R, Rows, Vectors
from .ports import Clock, Model
from .types.kinds import (
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
from .types.record import Status
from .types.slice import MemorySlice

class AsyncALMA:
    alma: ALMA

    def __init__(self, alma: ALMA) -> None: ...
    @property
    def project_id(self) -> str: ...
    @property
    def model(self) -> Model | None: ...
    async def __aenter__(self) -> AsyncALMA: ...
    async def __aexit__(self, *error: object) -> None: ...
    @classmethod
    async def from_config(cls, config_path: str | PathLike[str], *, trust: bool = False) -> AsyncALMA: ...
    @classmethod
    async def quickstart(
        cls,
        project_id: str = "my-project",
        storage_dir: str | PathLike[str] = ".alma",
        *,
        clock: Clock | None = None,
        trust: bool = False,
    ) -> AsyncALMA: ...
    async def close(self) -> None: ...
    async def embed(self, texts: Iterable[str]) -> Vectors: ...
    async def retrieve(
        self,
        task: words.Task,
        agent: words.Agent,
        user_id: words.User = None,
        top_k: int | None = None,
        *,
        mode: words.Mode = "default",
        types: words.Types = None,
        tags: Iterable[str] | None = None,
        task_type: str | None = None,
        since: words.Moment = None,
        until: words.Moment = None,
        as_of: words.Moment = None,
        level: Literal["session", "turn"] = "session",
        progressive: bool = False,
        fields: words.Fields = None,
    ) -> MemorySlice: ...
    async def learn(
        self,
        agent: words.Agent,
        task: words.Task,
        outcome: words.OutcomeOf,
        strategy_used: str,
        task_type: str | None = None,
        duration_ms: int | None = None,
        error_message: str | None = None,
        feedback: str | None = None,
        retrieval_id: str | None = None,
        *,
        idempotency_key: str | None = None,
        user_id: words.Owner = None,
        shared: bool = False,
        tags: words.Tags = None,
        metadata: words.Metadata = None,
    ) -> Outcome: ...
    async def learn_many(self, outcomes: Rows) -> list[Outcome]: ...
    def learns(
        self,
        agent: str,
        task: str | Callable[..., str] | None = None,
        strategy: str | Callable[..., str] | None = None,
        task_type: str | None = None,
        reraise: bool = True,
        *,
        success: Callable[[Any], bool | str] | None = None,
        user_id: str | None = None,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    async def learn_from(
        self,
        messages: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]],
        agent: str | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
        dry_run: bool = False,
        save_episode: bool = False,
        min_confidence: float | None = None,
        trusted: bool = True,
        source: str = "user",
    ) -> LearningReport: ...
    async def add_episode(
        self,
        agent: words.Agent,
        session_id: str,
        turns: Rows,
        user_id: words.Owner = None,
        *,
        title: str = "",
        source: words.Source = "conversation",
        tags: words.Tags = None,
        metadata: words.Metadata = None,
    ) -> Episode: ...
    async def add_episodes(self, conversations: Rows) -> list[Episode]: ...
    async def add_user_preference(
        self,
        user_id: str,
        category: str,
        preference: str,
        source: words.Source = "explicit_instruction",
        *,
        attribute: str | None = None,
        tags: words.Tags = None,
        metadata: words.Metadata = None,
    ) -> UserPreference: ...
    async def add_domain_knowledge(
        self,
        agent: words.Agent,
        domain: str,
        fact: str,
        source: words.Source = "user_stated",
        *,
        subject: str | None = None,
        attribute: str | None = None,
        user_id: words.Owner = None,
        tags: words.Tags = None,
        metadata: words.Metadata = None,
    ) -> DomainKnowledge: ...
    async def add_heuristic(
        self,
        agent: words.Agent,
        condition: str,
        strategy: str,
        category: str | None = None,
        source: words.Source = "user_stated",
        *,
        user_id: words.Owner = None,
        tags: words.Tags = None,
        metadata: words.Metadata = None,
    ) -> Heuristic: ...
    async def add_anti_pattern(
        self,
        agent: words.Agent,
        pattern: str,
        why_bad: str,
        better_alternative: str = "",
        condition: str = "",
        category: str | None = None,
        source: words.Source = "user_stated",
        *,
        user_id: words.Owner = None,
        tags: words.Tags = None,
        metadata: words.Metadata = None,
    ) -> AntiPattern: ...
    async def add_rule(
        self,
        agent: words.Agent,
        rule: str,
        trigger: str = "",
        why: str = "",
        reach: Literal["project", "always"] = "project",
        source: words.Source = "user_stated",
        *,
        idempotency_key: str | None = None,
        user_id: words.Owner = None,
        tags: words.Tags = None,
        metadata: words.Metadata = None,
    ) -> Rule: ...
    async def add_many(self, memories: Rows) -> list[Memory]: ...
    batch_save_outcomes = learn_many

    async def batch_save_heuristics(self, heuristics: Rows) -> Memories: ...
    async def batch_save_domain_knowledge(self, knowledge: Rows) -> Memories: ...
    @overload
    async def get(self, memory_id: str) -> Memory: ...
    @overload
    async def get(self, memory_id: str, memory_type: type[M]) -> M: ...
    async def update(
        self,
        /,
        memory_id: words.MemoryId,
        fields: Mapping[str, Any] | None = None,
        *,
        status: words.StatusName | Status | None = None,
        tags: Iterable[str] | None = None,
        source: words.Source = "user",
        expected_version: words.Version = None,
        **field_values: Any,
    ) -> Memory: ...
    async def review(
        self,
        action: Literal["approve", "reject", "archive", "restore", "apply_here", "apply_everywhere", "make_rule"],
        ids: Iterable[str] | None = None,
        selection: Mapping[str, Any] | None = None,
        expected_count: int | None = None,
        expected_versions: words.Versions = None,
    ) -> core.edit.Reviewed: ...
    async def merge(
        self, ids: Iterable[str], into: str, text: str = "", expected_versions: words.Versions = None
    ) -> core.edit.Reviewed: ...
    async def promote(
        self, memory_id: words.MemoryId, to: Literal["agent", "team", "project"], team: str | None = None
    ) -> Memory: ...
    async def delete(self, memory_id: words.MemoryId) -> None: ...
    async def erase_user(self, user_id: str, progress: Progress = ignore_progress) -> dict[str, int]: ...
    async def history(self, memory_id: str) -> list[dict[str, Any]]: ...
    async def blame(self, text: str) -> list[words.Author]: ...
    async def diff(self, since: datetime | str, until: words.Moment = None) -> list[core.history.Difference]: ...
    async def undo(
        self, memory_id: str | None = None, dry_run: words.DryRun = False
    ) -> core.history.RevertedChange: ...
    async def revert(self, change: str, dry_run: words.DryRun = False) -> core.history.RevertedChange: ...
    async def bisect(
        self,
        task: words.Task,
        agent: words.Agent,
        user_id: words.User = None,
        since: words.Moment = None,
        until: words.Moment = None,
        shows: str = "",
    ) -> core.history.TurningPoint: ...
    async def search(
        self,
        query: str,
        memory_type: words.TypeOf = None,
        agent: words.AnyAgent = None,
        user_id: words.Viewer = None,
        status: words.StatusOf = "active",
        limit: int = 10,
        fields: words.Fields = None,
    ) -> Matches: ...
    async def browse(
        self,
        types: words.Types = None,
        statuses: words.Statuses = None,
        words: str = "",
        order: core.pages.Order | None = None,
        agent: words.AnyAgent = None,
        user_id: words.OnlyUser = None,
        trust: Iterable[Literal["trusted", "learned", "untrusted"]] | None = None,
        fields: words.Fields = None,
        limit: int = 25,
        cursor: str | None = None,
    ) -> core.pages.MemoryPage: ...
    async def explain_task(
        self,
        task: words.Task,
        agent: words.Agent,
        user_id: words.User = None,
        as_of: words.Moment = None,
        max_tokens: words.MaxTokens = 2000,
    ) -> core.explanations.TaskExplanation: ...
    async def explain(
        self, memory_id: words.MemoryId, task: words.Task, agent: words.Agent, user_id: words.User = None
    ) -> core.retrieve.pipeline.Why: ...
    async def record_usage(
        self,
        retrieved_memory_ids: Iterable[str],
        used_memory_ids: Iterable[str],
        memory_type: words.TypeOf = None,
        agent: words.Rater = None,
        query: str = "",
    ) -> core.edit.FeedbackReport: ...
    async def record_feedback(
        self,
        memory_id: words.MemoryId,
        memory_type: words.TypeOf = None,
        signal: words.Signal = FeedbackSignal.THUMBS_UP,
        agent: words.Rater = None,
        query: str = "",
    ) -> core.edit.FeedbackReport: ...
    async def forget(
        self,
        agent: words.AnyAgent = None,
        older_than_days: float = 90,
        below_confidence: float = 0.3,
        dry_run: bool = False,
    ) -> core.retention.Forgotten: ...
    async def consolidate(self, dry_run: bool = False, limit: int = MAX_PAIRS) -> core.consolidate.Consolidation: ...
    reconcile = consolidate

    async def conflicts(self, limit: int = 1000) -> list[core.conflicts.MemoryConflict]: ...
    async def resolve_conflict(
        self,
        conflict_id: str,
        keep: Literal["newer", "older", "both", "split"],
        older_scope: str = "",
        newer_scope: str = "",
    ) -> Memories: ...
    async def get_stats(self, agent: words.AnyAgent = None, user_id: words.Viewer = None) -> core.view.Stats: ...
    async def playbook(
        self, agent: words.AnyAgent = None, max_tokens: int = 4000, user_id: words.User = None
    ) -> str: ...
    async def health(self) -> words.Health: ...
    async def reindex(self, progress: Progress = ignore_progress) -> int: ...
    async def vacuum(self) -> None: ...
    async def upkeep(
        self, dry_run: bool = False, if_due: bool = False, progress: Progress = ignore_progress
    ) -> core.retention.UpkeepReport: ...
    @overload
    async def list(
        self,
        memory_type: words.TypeName | MemoryType | None = None,
        agent: str | None = None,
        user_id: str | None = None,
        status: words.StatusName | Status | None = "active",
        tag: str | None = None,
        limit: int = 50,
        fields: Mapping[str, Any] | None = None,
    ) -> Memories: ...
    @overload
    async def list(
        self,
        memory_type: type[M],
        agent: str | None = None,
        user_id: str | None = None,
        status: words.StatusName | Status | None = "active",
        tag: str | None = None,
        limit: int = 50,
        fields: Mapping[str, Any] | None = None,
    ) -> ListOf[M]: ...
