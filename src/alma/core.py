"""`ALMA`: the memory of a project's agents. Arguments are checked here; the engine does the rest."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from . import arguments
from .engine import edit, episodes, facts, rules, transaction, validate
from .engine import erase as erasing
from .engine import feedback as judge
from .engine.context import Encoder, Engine
from .engine.drafts import Draft, Statement
from .engine.feedback import FeedbackReport
from .engine.outcomes import learn as learn_episodes
from .engine.retrieve.pipeline import retrieve as retrieve_memories
from .engine.settings import Settings
from .engine.stats import Stats, stats
from .engine.upkeep import forget as forgetting
from .engine.upkeep import reconcile as reconciling
from .engine.upkeep import reindex as reindexing
from .engine.upkeep.forget import Forgotten as Forgotten
from .engine.view import view
from .errors import ValidationError
from .ports import Clock, Embedder, Model, Store
from .types import times
from .types.kinds import (
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
    Turn,
    UserPreference,
)
from .types.query import Where
from .types.record import Record, Status
from .types.rules import EVERYWHERE
from .types.scope import MemoryScope, Scopes
from .types.slice import MemorySlice

if TYPE_CHECKING:
    from .http.client import RemoteALMA
    from .types.asking import ModelSettings

M = TypeVar("M", bound=Memory)
P = ParamSpec("P")
R = TypeVar("R")
Memories = list[Memory]

_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "metadata": lambda _, value: validate.metadata(value),
    "better_alternative": lambda name, value: validate.optional_text(name, value) or "",
}

_TYPES: Mapping[type[Memory], MemoryType] = {
    Heuristic: MemoryType.HEURISTIC,
    UserPreference: MemoryType.USER_PREFERENCE,
    DomainKnowledge: MemoryType.DOMAIN_KNOWLEDGE,
    AntiPattern: MemoryType.ANTI_PATTERN,
    Rule: MemoryType.RULE,
}


class ALMA:
    """Memory that learns.

    Use `ALMA.from_config(path)` or `ALMA.quickstart()`; pass a store and an embedder yourself for anything else.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder | None = None,
        *,
        project_id: str = "default",
        agents: Iterable[MemoryScope] = (),
        settings: Settings | None = None,
        clock: Clock = times.now,
        model: Model | Callable[[Engine], Model | None] | None = None,
    ) -> None:
        self._model = model
        self.model_settings: ModelSettings | None = None
        """How the model was configured, if it was."""
        self.engine = Engine(
            store=store,
            project=validate.name("project_id", project_id),
            encoder=Encoder(embedder) if embedder is not None else None,
            scopes=Scopes({scope.agent_name: scope for scope in agents}),
            settings=settings or Settings(),
            clock=clock,
        )

    # -- opening and closing

    @classmethod
    def from_config(cls, config_path: str | PathLike[str]) -> ALMA:
        """Open the memory that a YAML file describes."""
        from .app import open_config

        return open_config(config_path)

    @classmethod
    def quickstart(
        cls,
        project_id: str = "my-project",
        storage_dir: str | PathLike[str] = ".alma",
        *,
        clock: Clock | None = None,
    ) -> ALMA:
        """Open a SQLite memory in a folder, created if it is missing, with the best embedder that is installed.

        `clock` returns the present moment, with a time zone. Pass your own to replay what happened earlier.
        """
        from .app import open_quickstart

        return open_quickstart(project_id, storage_dir, clock=clock or times.now)

    @classmethod
    def connect(cls, url: str, token: str, project_id: str | None = None, **options: Any) -> RemoteALMA:
        """The memory that `alma serve` serves at a URL, with the same methods; see `alma.http.client.connect`."""
        from .http.client import connect

        return connect(url, token, project_id, **options)

    @property
    def project_id(self) -> str:
        return self.engine.project

    @functools.cached_property
    def model(self) -> Model | None:
        """The language model that may be asked, opened when it is first wanted; None when there is none."""
        return self._model(self.engine) if callable(self._model) else self._model

    def close(self) -> None:
        """Close the store. Notes about retrievals that are still waiting for another writer are written first."""
        self.engine.notes.flush(self.engine.store)
        self.engine.store.close()
        if self.engine.encoder is not None:
            self.engine.encoder.embedder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- the loop: retrieve, learn

    def retrieve(
        self,
        task: str,
        agent: str,
        user_id: str | None = None,
        top_k: int | None = None,
        *,
        mode: str = "default",
        types: Iterable[str] | None = None,
        tags: Iterable[str] | None = None,
        task_type: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        as_of: datetime | str | None = None,
        level: str = "session",
        progressive: bool = False,
    ) -> MemorySlice:
        """The memories that matter for a task: at most `top_k` of each type, the user's preferences and standing rules.

        Without `top_k` it is 5, or 20 when the question wants several ("how many", "list"). `mode` is 'precise' (few,
        and sure), 'broad', 'recent' or 'learning' (what worked and what did not). `types`, `tags`, `task_type` (of
        strategies, warnings and outcomes), `since` and `until` filter; `as_of` asks what was known at that moment.
        Conversations come back as episodes with their telling turns, or with `level='turn'` as single turns. With
        `progressive` the prompt holds summaries and ids. A memory with a newer look-alike carries its id in `newer`.

        It finds what belongs to `user_id` and what belongs to nobody in particular; without `user_id`, only the latter.
        """
        given = {name: value for name, value in locals().items() if name != "self"}
        return retrieve_memories(self.engine, arguments.request(self.engine, given))

    def learn(
        self,
        agent: str,
        task: str,
        outcome: str,
        strategy_used: str,
        task_type: str | None = None,
        duration_ms: int | None = None,
        error_message: str | None = None,
        feedback: str | None = None,
        retrieval_id: str | None = None,
        *,
        idempotency_key: str | None = None,
        user_id: str | None = None,
        shared: bool = False,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Record how a task went; strategies and warnings follow by themselves.

        `outcome` is 'success', 'partial' or 'failure'. Calls with the same `idempotency_key` are counted once, also
        across processes; a repeated call returns the stored outcome. The same key with other arguments is an error.
        Without a key, identical calls with the same `retrieval_id` are counted once. With a `user_id` the outcome and
        what is learned from it belong to that user; with `shared` it counts for the strategies and warnings that all
        users see instead.
        """
        given = {name: value for name, value in locals().items() if name != "self"}
        return self.learn_many([given])[0]

    def learn_many(self, outcomes: Iterable[Mapping[str, Any]]) -> list[Outcome]:
        """Record several, in order and in one transaction; each a mapping of the arguments of `learn`."""
        episodes = [arguments.episode(self.engine, one) for one in validate.many("outcomes", outcomes)]
        return _views(self.engine, learn_episodes(self.engine, episodes), Outcome) if episodes else []

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
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """A decorator for a function of your own, sync or async: each call is learned from, raised is a failure.

        In `task` and `strategy` `{argument}` stands for an argument of the call. With `reraise=False` a failing call
        returns None.
        """
        from .harness import learns

        return learns(self, agent, task, strategy, task_type, reraise, success=success, user_id=user_id)

    # -- conversations

    def add_episode(
        self,
        agent: str,
        session_id: str,
        turns: Iterable[Mapping[str, Any]],
        user_id: str | None = None,
        *,
        title: str = "",
        source: str = "conversation",
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Episode:
        """Keep a conversation, or what is new of it.

        A turn is a mapping with `speaker` and `text` (or `role` and `content`), and perhaps `at` and `id`. Told again,
        a turn is known by its id, else by its time and words, else by its place and words, and kept once. A
        conversation belongs to its agent, its user and its session id.
        """
        given = {name: value for name, value in locals().items() if name != "self"}
        return self.add_episodes([given])[0]

    def add_episodes(self, conversations: Iterable[Mapping[str, Any]]) -> list[Episode]:
        """Keep several in one transaction; each a mapping of the arguments of `add_episode`."""
        given = [arguments.conversation(self.engine, one) for one in validate.many("conversations", conversations)]
        return _views(self.engine, episodes.record(self.engine, given), Episode) if given else []

    # -- what is told

    def add_user_preference(
        self,
        user_id: str,
        category: str,
        preference: str,
        source: str = "explicit_instruction",
        *,
        attribute: str | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> UserPreference:
        """Keep what a user wants; it is part of every retrieval for that user, the newest of a category first.

        With `attribute`, such as "indentation", it replaces the user's older preference of that category and attribute,
        which stays in history. Without one it is added.
        """
        return self._add(UserPreference, locals())

    def add_domain_knowledge(
        self,
        agent: str,
        domain: str,
        fact: str,
        source: str = "user_stated",
        *,
        subject: str | None = None,
        attribute: str | None = None,
        user_id: str | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> DomainKnowledge:
        """Keep a fact. A repetition, even lightly reworded, confirms the fact that is held.

        With `attribute`, and perhaps `subject` (such as "billing" and "database"), it replaces the older fact of that
        agent, domain and key, unless that one is trusted more: then the new one waits as a candidate. The
        older fact stays in history with the time it held. Without a key it is added. With a `user_id` it is retrieved
        for that user only.
        """
        return self._add(DomainKnowledge, locals())

    def add_heuristic(
        self,
        agent: str,
        condition: str,
        strategy: str,
        category: str | None = None,
        source: str = "user_stated",
        *,
        user_id: str | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Heuristic:
        """State a strategy; later outcomes count for or against it."""
        return self._add(Heuristic, locals())

    def add_anti_pattern(
        self,
        agent: str,
        pattern: str,
        why_bad: str,
        better_alternative: str = "",
        condition: str = "",
        category: str | None = None,
        source: str = "user_stated",
        *,
        user_id: str | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> AntiPattern:
        """State what not to do, why, and what to do instead."""
        return self._add(AntiPattern, locals())

    def add_rule(
        self,
        agent: str,
        rule: str,
        trigger: str = "",
        why: str = "",
        reach: str = "project",
        source: str = "user_stated",
        *,
        user_id: str | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Rule:
        """State what is to be done or not done; a later rule that contradicts it takes its place.

        `reach` is 'project' or 'always' (in every project of this store).
        """
        return self._add(Rule, locals())

    def add_many(self, memories: Iterable[Mapping[str, Any]]) -> list[Memory]:
        """Add several in one transaction; each a mapping with `type` and the arguments of that type's `add_` method.

        Facts and preferences with an explicit key replace their predecessors; others are added unless the same text is
        held.
        """
        return _views(
            self.engine,
            self._admit([arguments.proposal(self.engine, one) for one in validate.many("memories", memories)]),
            Memory,
        )

    def _add(self, kind: type[M], given: Mapping[str, Any]) -> M:
        named = {name: value for name, value in given.items() if name != "self"}
        proposal = arguments.proposal(self.engine, {"type": _TYPES[kind], **named})
        return _views(self.engine, self._admit([proposal], compare_texts=True), kind)[0]

    def _admit(
        self,
        proposed: Sequence[arguments.Proposal],
        compare_texts: bool = False,
    ) -> list[Record]:
        told = [at for at, one in enumerate(proposed) if isinstance(one, Draft)]
        stated = [at for at, one in enumerate(proposed) if isinstance(one, Statement)]
        drafts = [one for one in proposed if isinstance(one, Draft)]
        inserting = facts.admitting(self.engine, drafts, compare_texts)
        stating = edit.stating(self.engine, [one for one in proposed if isinstance(one, Statement)])
        taught = [at for at, one in enumerate(proposed) if isinstance(one, rules.Teaching)]
        teaching = rules.teaching(self.engine, [one for one in proposed if isinstance(one, rules.Teaching)])

        def attempt() -> tuple[list[Record], list[Record]]:
            first, changed = inserting()
            second, changed_too = stating()
            third, ruled = teaching()
            rule_records = [one.record for one in third if one.record is not None]
            made = dict(zip([*told, *stated, *taught], [*first, *second, *rule_records], strict=True))
            return [made[at] for at in range(len(proposed))], [*changed, *changed_too, *ruled]

        return transaction.commit(self.engine, attempt)

    # -- single memories

    def get(self, memory_id: str) -> Memory:
        """One memory by its id; a conversation comes with all its turns."""
        record = edit.find(self.engine, validate.name("memory_id", memory_id))
        memory = view(record, self.engine.clock())
        if isinstance(memory, Episode):
            return replace(memory, turns=tuple(_views(self.engine, episodes.turns(self.engine, record), Turn)))
        return memory

    def update(
        self,
        memory_id: str,
        /,
        *,
        status: str | None = None,
        tags: Iterable[str] | None = None,
        source: str = "user",
        **fields: Any,
    ) -> Memory:
        """Change a memory's own fields (such as `fact=...`), its status or its tags; its history keeps the old.

        `source` says who makes the change. Only a person (`user`) may change the words of a rule.
        """
        told: dict[str, Any] = {name: _CHECKS.get(name, validate.text)(name, value) for name, value in fields.items()}
        if not told and status is None and tags is None:
            raise ValidationError("nothing to update: pass a field, status or tags")
        record = edit.update(
            self.engine,
            validate.name("memory_id", memory_id),
            told,
            None if status is None else validate.choice("status", status, Status),
            None if tags is None else validate.names("tags", tags),
            validate.provenance("source", source),
        )
        return view(record, self.engine.clock())

    def delete(self, memory_id: str) -> None:
        """Erase a memory with its history and everything that repeats its words. It is not learned again by itself.

        `vacuum` removes the last traces from the store's files. Killed in the middle, the same call finishes the work.
        """
        edit.delete(self.engine, validate.name("memory_id", memory_id))

    def erase_user(self, user_id: str) -> dict[str, int]:
        """Erase everything of a user in this project, and vacuum; how many memories of each kind it was.

        Conversations, outcomes, lessons, rules, preferences, facts, their history, the notes of what was retrieved for
        the user, and tombstones: all that carries the user's id.
        """
        return erasing.erase_user(self.engine, validate.name("user_id", user_id))

    def history(self, memory_id: str) -> list[dict[str, Any]]:
        """What happened to a memory since it was made, oldest first."""
        found = edit.find(self.engine, validate.name("memory_id", memory_id))
        changes = edit.history(self.engine, found.id)
        return [
            {"at": one.created_at, "verb": one.body["verb"], "why": one.body["why"], "before": one.body["before"]}
            for one in changes
        ]

    # -- feedback

    def record_usage(
        self,
        retrieved_memory_ids: Sequence[str],
        used_memory_ids: Sequence[str],
        memory_type: MemoryType | str | None = None,
        agent: str | None = None,
        query: str = "",
    ) -> FeedbackReport:
        """Which of the memories shown were used. Used ones rise in later retrievals, passed-over ones sink."""
        if agent is not None:
            arguments.agent(self.engine, agent)
        retrieved = list(validate.names("retrieved_memory_ids", retrieved_memory_ids))
        used = list(validate.names("used_memory_ids", used_memory_ids))
        return judge.feedback(self.engine, judge.usage(retrieved, used), arguments.memory_type(memory_type))

    def record_feedback(
        self,
        memory_id: str,
        memory_type: MemoryType | str | None = None,
        signal: FeedbackSignal | str = FeedbackSignal.THUMBS_UP,
        agent: str | None = None,
        query: str = "",
    ) -> FeedbackReport:
        """A thumb up or down (or 'used', 'ignored') for one memory."""
        if agent is not None:
            arguments.agent(self.engine, agent)
        given = validate.choice("signal", signal, FeedbackSignal)
        return judge.feedback(
            self.engine, {validate.name("memory_id", memory_id): given}, arguments.memory_type(memory_type)
        )

    # -- upkeep

    def forget(
        self,
        agent: str | None = None,
        older_than_days: float = 90,
        below_confidence: float = 0.3,
        dry_run: bool = False,
    ) -> Forgotten:
        """Archive what nobody used or confirmed for that long and whose strength has faded below the limit."""
        policy = forgetting.Policy(
            agent=None if agent is None else arguments.agent(self.engine, agent),
            older_than_days=validate.number("older_than_days", older_than_days, 0.0),
            below_confidence=validate.number("below_confidence", below_confidence, 0.0),
        )
        if dry_run:
            return Forgotten([record.id for record in forgetting.forgettable(self.engine, policy)])
        return Forgotten(forgetting.forget(self.engine, policy))

    def reconcile(self, limit: int = reconciling.MAX_PAIRS) -> reconciling.Reconciled:
        """Ask the configured model how memories that look alike relate, and supersede what is out of date.

        At most `limit` pairs are compared, each once. What is superseded stays in history, and `update` with the status
        'active' restores it. Without a model nothing is compared, and `problem` says so.
        """
        most = validate.whole("limit", limit, 1, 100_000)
        return reconciling.reconcile_by_model(self.engine, self.model, most)

    def get_stats(self, agent: str | None = None, user_id: str | None = None) -> Stats:
        """How much is stored: by type, by status, by agent. With `user_id`: of what that user sees."""
        user = None if user_id is None else validate.name("user_id", user_id)
        return stats(self.engine, None if agent is None else arguments.agent(self.engine, agent), user)

    def reindex(self, progress: reindexing.Progress = reindexing.unseen) -> int:
        """Embed everything anew with the configured embedder; resumes where an earlier run stopped."""
        return reindexing.reindex(self.engine, progress)

    def vacuum(self) -> None:
        """Leave no byte of deleted memories in the store's files, and give their space back."""
        erasing.vacuum(self.engine)

    # Last, because within the class its name hides the builtin.
    def list(
        self,
        memory_type: str | None = None,
        agent: str | None = None,
        user_id: str | None = None,
        status: str | None = "active",
        tag: str | None = None,
        limit: int = 50,
    ) -> Memories:
        """Memories of all users, newest first; `user_id` for one user's own, `status=None` for every status."""
        where = Where(
            kinds=MEMORY_KINDS if memory_type is None else {validate.choice("type", memory_type, MemoryType)},
            projects={self.engine.project, EVERYWHERE},
            agents=None if agent is None else {arguments.agent(self.engine, agent)},
            users=None if user_id is None else {validate.name("user_id", user_id)},
            statuses=None if status is None else {validate.choice("status", status, Status)},
            tagged=None if tag is None else {validate.name("tag", tag)},
        )
        most = validate.whole("limit", limit, 1, 1_000_000)
        return _views(self.engine, list(self.engine.store.scan(where, most)), Memory)


def _views(engine: Engine, records: Iterable[Record], kind: type[M]) -> list[M]:
    now = engine.clock()
    return [memory for record in records if isinstance(memory := view(record, now), kind)]
