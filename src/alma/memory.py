"""`ALMA`: the memory of a project's agents. Its methods are operations: arguments are checked before a body runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, Literal, ParamSpec, TypeVar, cast, overload

from . import words
from .engine import edit, episodes, erase, transaction, upkeep, validate
from .engine.context import Encoder, Engine, Settings
from .engine.edit import FeedbackReport
from .engine.outcomes import build_outcome, learn_outcomes
from .engine.retrieve.pipeline import Why, explain_retrieval, find_memories
from .engine.retrieve.pipeline import retrieve as retrieve_memories
from .engine.retrieve.request import Level, Mode, Request
from .engine.rules import RULE_CHARS
from .engine.upkeep import Forgotten as Forgotten
from .engine.upkeep import Reconciled
from .engine.view import Stats, render_slice, stats, to_memory
from .errors import StorageError, ValidationError
from .opening import Closeable
from .operations import OPERATIONS, About, Effect, Group, describe_methods
from .ports import Clock, Embedder, Model, Store
from .schema import TYPES
from .types import times
from .types.kinds import (
    EVERYWHERE,
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
from .types.query import MemoryScope, Scopes, Where, visible_users
from .types.record import Record, Status
from .types.slice import MemorySlice
from .words import Health, Match, Text, to_changes, to_deleted, to_erased, to_forgotten, to_retrieved

if TYPE_CHECKING:
    from .remote import RemoteALMA
    from .types.asking import ModelSettings

M = TypeVar("M", bound=Memory)
P = ParamSpec("P")
R = TypeVar("R")
ListOf = list[M]
Memories = list[Memory]
Matches = list[Match]
Rows = Iterable[Mapping[str, Any]]

operation = Group("memories")
many = Group("many")
_PLAYBOOK = 200
_CHANGE = ("verb", "why", "before", "by", "after")
_BY_AGENT = {"source": words.AGENT}
_RECORDED = {MemoryType.OUTCOME: "learn or learn_many", MemoryType.EPISODE: "add_episode or add_episodes"}


class ALMA(Closeable):
    """Memory that learns.

    Open one with `ALMA.from_config(path)` or `ALMA.quickstart()`; pass a store and an embedder yourself for anything
    else. It is a context manager, and may be used from several threads.

        with ALMA.quickstart() as alma:
            print(alma.retrieve("Fix the login bug", agent="dev").to_prompt())
            alma.learn("dev", "Fix the login bug", "success", "Cleared the session cache")
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
        """Return the memory that `alma serve` serves at a URL, with the same methods; see `alma.remote.connect`."""
        from .remote import connect

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

    # -- the loop: retrieve, learn

    @operation(Effect.READS, answer=to_retrieved)
    def retrieve(
        self,
        task: words.Task,
        agent: words.Agent,
        user_id: words.User = None,
        top_k: Annotated[
            int | None,
            About("at most so many of each type; by default 5, or as many as TASK wants", least=1, most=1000),
        ] = None,
        *,
        mode: words.Mode = "default",
        types: words.Types = None,
        tags: Annotated[Iterable[str] | None, About("only what has one of these tags", check=validate.names)] = None,
        task_type: Annotated[
            str | None, About("of strategies, warnings and outcomes only those of this sort of task")
        ] = None,
        since: Annotated[words.Moment, About("not older than this, such as 2026-05-07 or 2026-05-07T14:30Z")] = None,
        until: Annotated[words.Moment, About("older than this")] = None,
        as_of: Annotated[words.Moment, About("what was known at this moment")] = None,
        level: Annotated[Literal["session", "turn"], About("conversations whole, or their single turns")] = "session",
        progressive: Annotated[bool, About("a prompt of summaries with ids; `get` tells more")] = False,
        fields: words.Fields = None,
    ) -> MemorySlice:
        """Find the memories that matter for a task. Call this before starting a task.

        Gives strategies that worked, warnings, rules, facts, the user's standing preferences and past conversations,
        and `prompt`, which holds all of it as text. Nothing relevant gives nothing. Remember `retrieval_id` for
        `learn`.

        Notes:
            Without `top_k` it is 5, or 20 when the question wants several ("how many", "list"). `mode` is 'precise'
            (few, and sure), 'broad', 'recent' or 'learning' (what worked and what did not). Conversations come back as
            episodes with the turns that matter, or with `level='turn'` as single turns. A memory with a newer
            look-alike carries its id in `newer`.

            It finds what belongs to `user_id` and what belongs to nobody in particular; without `user_id`, only the
            latter.
        """
        return retrieve_memories(self.engine, build_request(self.engine, locals()))

    @operation(Effect.ADDS)
    def learn(
        self,
        agent: words.Agent,
        task: words.Task,
        outcome: words.OutcomeOf,
        strategy_used: Annotated[str, About("how it was done, in a sentence that fits other tasks too")],
        task_type: Annotated[str | None, About("the sort of task, if you have names for them")] = None,
        duration_ms: Annotated[int | None, About("how long it took", least=0, most=10**15)] = None,
        error_message: Annotated[str | None, About("what went wrong", check=validate.output)] = None,
        feedback: Annotated[str | None, About("what the user said about it")] = None,
        retrieval_id: Annotated[str | None, About("the retrieval whose memories were followed")] = None,
        *,
        idempotency_key: Annotated[
            str | None, About("a key of your own: calls with the same key are counted once", check=validate.name)
        ] = None,
        user_id: words.Owner = None,
        shared: Annotated[bool, About("let it count for what all users see, not only for this user's lessons")] = False,
        tags: words.Tags = None,
        metadata: words.Metadata = None,
    ) -> Outcome:
        """Record how a task went. Call this after a task, whether it worked or not.

        Strategies form by themselves from what worked several times, warnings from what failed. A call repeated with
        the same `idempotency_key`, or with the same `retrieval_id` and arguments, returns the stored outcome.

        Notes:
            Calls with the same `idempotency_key` are counted once, also across processes; the same key with other
            arguments is an error. With a `user_id` the outcome and what is learned from it belong to that user; with
            `shared` it counts for the strategies and warnings that all users see instead.
        """
        return _views(self.engine, learn_outcomes(self.engine, [build_outcome(self.engine, locals())]), Outcome)[0]

    @many(Effect.ADDS, for_models=False)
    def learn_many(
        self, outcomes: Annotated[Rows, About("each with the arguments of `learn`", check=validate.many)]
    ) -> list[Outcome]:
        """Record how several tasks went, in order: all of them or none."""
        drafts = [build_outcome(self.engine, OPERATIONS["learn"].complete(one)) for one in outcomes]
        return _views(self.engine, learn_outcomes(self.engine, drafts), Outcome) if drafts else []

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
        """Decorate a function of your own, sync or async, so that each call is learned from; an exception is a failure.

        In `task` and `strategy` `{argument}` stands for an argument of the call. With `reraise=False` a failing call
        returns None.
        """
        from .harness import learns

        return learns(self, agent, task, strategy, task_type, reraise, success=success, user_id=user_id)

    # -- conversations

    @operation(Effect.ADDS, idempotent=True)
    def add_episode(
        self,
        agent: words.Agent,
        session_id: Annotated[str, About("which conversation it is", check=validate.name)],
        turns: Annotated[Rows, About("each with speaker and text, and perhaps at and id", check=validate.many)],
        user_id: words.Owner = None,
        *,
        title: Annotated[str, About("what it is about", most=500)] = "",
        source: words.Source = "conversation",
        tags: words.Tags = None,
        metadata: words.Metadata = None,
    ) -> Episode:
        """Store a conversation, or what is new of it. Turns that are stored already are not stored again.

        Notes:
            Turns are deduplicated by `id`, then by time and text, then by position and text. They may have `role` and
            `content` instead of `speaker` and `text`. A conversation belongs to its agent, its user and its session id.
        """
        return self._keep([locals()])[0]

    @many(Effect.ADDS, idempotent=True, for_models=False)
    def add_episodes(
        self, conversations: Annotated[Rows, About("each with the arguments of `add_episode`", check=validate.many)]
    ) -> list[Episode]:
        """Keep several conversations: all of them or none."""
        return self._keep([OPERATIONS["add_episode"].complete(one) for one in conversations])

    def _keep(self, conversations: list[dict[str, Any]]) -> list[Episode]:
        drafts = [episodes.build_conversation(self.engine, one) for one in conversations]
        return _views(self.engine, episodes.record_conversations(self.engine, drafts), Episode) if drafts else []

    # -- what somebody states

    @operation(Effect.ADDS, "add_preference", idempotent=True, defaults=_BY_AGENT)
    def add_user_preference(
        self,
        user_id: Annotated[str, About("whose preference it is", check=validate.name)],
        category: Annotated[str, About("such as code_style or communication", check=validate.name)],
        preference: Annotated[str, About("what the user wants, in a sentence")],
        source: words.Source = "explicit_instruction",
        *,
        attribute: Annotated[
            str | None,
            About("the key, such as indentation: replaces the older preference of it", check=validate.name),
        ] = None,
        tags: words.Tags = None,
        metadata: words.Metadata = None,
    ) -> UserPreference:
        """Keep what a user wants. It is part of every later retrieval for that user.

        With `attribute` it replaces the user's older preference of that category and attribute.

        Notes:
            The newest of a category comes first. The older preference stays in history; without `attribute` it stays
            in force.
        """
        return self._add(UserPreference, locals())

    @operation(Effect.ADDS, "add_knowledge", idempotent=True, defaults=_BY_AGENT)
    def add_domain_knowledge(
        self,
        agent: words.Agent,
        domain: Annotated[str, About("what it is about, such as deployment", check=validate.name)],
        fact: Annotated[str, About("the fact, in a sentence that can be understood alone")],
        source: words.Source = "user_stated",
        *,
        subject: Annotated[
            str | None, About("what the fact is about, such as billing; needs attribute", check=validate.name)
        ] = None,
        attribute: Annotated[
            str | None, About("the key, such as database: replaces the older fact of it", check=validate.name)
        ] = None,
        user_id: words.Owner = None,
        tags: words.Tags = None,
        metadata: words.Metadata = None,
    ) -> DomainKnowledge:
        """Keep a fact. A repetition confirms the fact that is held.

        With `attribute`, and perhaps `subject`, it replaces the older fact of that domain and key.

        Notes:
            A repetition may be lightly reworded. An older fact that is trusted more is not replaced: the new one waits
            as a candidate. A replaced fact stays in history with the time it held. Without a key the fact is added.
        """
        return self._add(DomainKnowledge, locals())

    @operation(Effect.ADDS, idempotent=True, defaults=_BY_AGENT)
    def add_heuristic(
        self,
        agent: words.Agent,
        condition: Annotated[str, About("when it applies: the sort of task")],
        strategy: Annotated[str, About("what to do then")],
        category: Annotated[str | None, About("what it is about, where that is declared")] = None,
        source: words.Source = "user_stated",
        *,
        user_id: words.Owner = None,
        tags: words.Tags = None,
        metadata: words.Metadata = None,
    ) -> Heuristic:
        """State a strategy that works. Later outcomes count for or against it."""
        return self._add(Heuristic, locals())

    @operation(Effect.ADDS, idempotent=True, defaults=_BY_AGENT)
    def add_anti_pattern(
        self,
        agent: words.Agent,
        pattern: Annotated[str, About("what not to do")],
        why_bad: Annotated[str, About("why not")],
        better_alternative: Annotated[str, About("what to do instead")] = "",
        condition: Annotated[str, About("when it applies; empty: always")] = "",
        category: Annotated[str | None, About("what it is about, where that is declared")] = None,
        source: words.Source = "user_stated",
        *,
        user_id: words.Owner = None,
        tags: words.Tags = None,
        metadata: words.Metadata = None,
    ) -> AntiPattern:
        """Warn of something: what not to do, why, and what to do instead."""
        return self._add(AntiPattern, locals())

    @operation(Effect.ADDS, defaults=_BY_AGENT)
    def add_rule(
        self,
        agent: words.Agent,
        rule: Annotated[str, About("what is to be done or not done", most=RULE_CHARS)],
        trigger: Annotated[str, About("when it applies; empty: always")] = "",
        why: Annotated[str, About("why")] = "",
        reach: Annotated[Literal["project", "always"], About("how far it reaches")] = "project",
        source: words.Source = "user_stated",
        *,
        user_id: words.Owner = None,
        tags: words.Tags = None,
        metadata: words.Metadata = None,
    ) -> Rule:
        """Propose a rule. It holds once a person accepts it; a person's own (source 'user') holds at once.

        A later rule that contradicts it takes its place.

        Notes:
            With `reach='always'` it holds in every project of this store.
        """
        return self._add(Rule, locals())

    @many(Effect.ADDS, idempotent=True, for_models=False)
    def add_many(
        self,
        memories: Annotated[
            Rows, About("each with `type` and the arguments to add one of that type", check=validate.many)
        ],
    ) -> list[Memory]:
        """Add several memories of any types: all of them or none.

        Notes:
            Facts and preferences with an explicit key replace their predecessors; others are added unless the same text
            is held.
        """
        proposals = [edit.build_proposal(self.engine, *_read_row(one)) for one in memories]
        return _views(self.engine, edit.add_memories(self.engine, proposals), Memory)

    batch_save_outcomes = learn_many

    def batch_save_heuristics(self, heuristics: Rows) -> Memories:
        """Add several strategies, each a mapping with the arguments of `add_heuristic`: all of them or none."""
        return self.add_many([{"type": MemoryType.HEURISTIC, **one} for one in heuristics])

    def batch_save_domain_knowledge(self, knowledge: Rows) -> Memories:
        """Add several facts, each a mapping with the arguments of `add_domain_knowledge`: all of them or none."""
        return self.add_many([{"type": MemoryType.DOMAIN_KNOWLEDGE, **one} for one in knowledge])

    def _add(self, kind: type[M], given: Mapping[str, Any]) -> M:
        proposal = edit.build_proposal(self.engine, MemoryType(TYPES[kind]), given)
        [record] = edit.add_memories(self.engine, [proposal], compare_texts=True)
        return cast("M", to_memory(record, self.engine.clock()))

    # -- single memories

    @overload
    def get(self, memory_id: str) -> Memory: ...
    @overload
    def get(self, memory_id: str, memory_type: type[M]) -> M: ...
    @operation(Effect.READS)
    def get(self, memory_id: words.MemoryId, memory_type: type[Memory] = Memory) -> Memory:
        """Show one memory whole. A conversation comes with all its turns.

        Notes:
            With a class of memories, such as `Heuristic`, a memory of another type is an error.
        """
        record = edit.find_memory(self.engine, memory_id)
        memory = to_memory(record, self.engine.clock())
        if not isinstance(memory, memory_type):
            raise ValidationError(f"{memory_id} is of type {type(memory).__name__}, not {memory_type.__name__}")
        if isinstance(memory, Episode):
            return replace(memory, turns=tuple(_views(self.engine, episodes.list_turns(self.engine, record), Turn)))
        return memory

    @operation(Effect.CHANGES, idempotent=True, defaults=_BY_AGENT)
    def update(
        self,
        /,
        memory_id: words.MemoryId,
        fields: Annotated[Mapping[str, Any] | None, About("its own fields to change, such as {'fact': '…'}")] = None,
        *,
        status: Annotated[words.StatusName | Status | None, About("its new status")] = None,
        tags: words.Tags = None,
        source: words.Source = "user",
        **named: Any,
    ) -> Memory:
        """Change a memory's fields, status or tags. Its history keeps the old ones.

        Only a person changes the words of a rule, makes a candidate active, or changes what a person said.

        Notes:
            Fields may be named directly: `alma.update(id, fact="…")`. `source` says who makes the change.
        """
        wanted = {**(fields or {}), **named}
        if not wanted and status is None and tags is None:
            raise ValidationError("nothing to update: pass a field, status or tags")
        edit.check_fields(self.engine, memory_id, wanted)
        changes: dict[str, Any] = {}
        for name, value in wanted.items():
            if name == "metadata":
                changes[name] = validate.metadata(value)
            elif name == "better_alternative":
                changes[name] = validate.optional_text(name, value) or ""
            else:
                changes[name] = validate.text(name, value)
        record = edit.update_memory(
            self.engine,
            memory_id,
            changes,
            None if status is None else Status(status),
            None if tags is None else tuple(tags),
            validate.provenance("source", source or "user"),
        )
        return to_memory(record, self.engine.clock())

    @operation(Effect.ERASES, answer=to_deleted)
    def delete(self, memory_id: words.MemoryId) -> None:
        """Erase a memory for good. It is not learned again by itself. What a person said, only a person erases.

        Notes:
            Its history and everything that repeats its words go with it. `vacuum` removes the last traces from the
            store's files. If the process is killed, the same call finishes the work.
        """
        edit.delete_memory(self.engine, memory_id)

    @operation(Effect.ERASES, idempotent=True, answer=to_erased)
    def erase_user(
        self, user_id: Annotated[str, About("the user whose memories are erased", check=validate.name)]
    ) -> dict[str, int]:
        """Erase everything of a user for good: all that carries the user's id in this project, and its history.

        Notes:
            That includes conversations, outcomes, lessons, rules, preferences, facts, notes of what was retrieved for
            the user, and tombstones. The store is vacuumed. Returns how many memories of each kind were erased.
        """
        return erase.erase_user(self.engine, user_id)

    @operation(Effect.READS, answer=to_changes)
    def history(self, memory_id: words.MemoryId) -> list[dict[str, Any]]:
        """What happened to a memory or a work item since it was made, oldest first."""
        record = edit.find_memory(self.engine, memory_id, "work_item")
        changes = edit.list_history(self.engine, memory_id)
        lines = [
            {"at": one.created_at} | {name: one.body[name] for name in _CHANGE if name in one.body} for one in changes
        ]
        made = {"at": record.created_at, "verb": "created", "why": "", "before": {}}
        return [made, *lines] if record.kind == "work_item" else lines

    @operation(Effect.READS)
    def search(
        self,
        query: Annotated[str, About("words, or what it is about")],
        memory_type: words.TypeOf = None,
        agent: words.AnyAgent = None,
        user_id: Annotated[
            str | None, About("only what this user sees; without it everybody's", check=validate.name)
        ] = None,
        status: words.StatusOf = "active",
        limit: Annotated[int, About("at most so many", least=1, most=1000)] = 10,
        fields: words.Fields = None,
    ) -> Matches:
        """Look memories up by words or meaning, best first. To prepare a task, use `retrieve` instead.

        It goes by relevance alone, over all agents, and is not recorded. With `user_id` it finds what that user sees:
        the user's own memories and those of nobody in particular.
        """
        users = None if user_id is None else visible_users(user_id)
        where = self._where(memory_type, agent, users, status, fields=fields)
        hits = find_memories(self.engine, query, where, limit)
        now = self.engine.clock()
        return [Match(to_memory(one.record, now), round(one.score, 4), one.explanation.reason) for one in hits]

    def _where(
        self,
        memory_type: Any,
        agent: str | None,
        users: Iterable[str] | None,
        status: str | None,
        tag: str | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> Where:
        kinds, values = words.match_fields(MEMORY_KINDS if memory_type is None else (memory_type,), fields)
        return Where(
            kinds=kinds,
            fields=values,
            projects={self.engine.project, EVERYWHERE},
            agents=None if agent is None else {self.engine.agent(agent)},
            users=None if users is None else set(users),
            statuses=None if status is None else {Status(status)},
            tagged=None if tag is None else {tag},
        )

    @operation(Effect.READS)
    def explain(
        self, memory_id: words.MemoryId, task: words.Task, agent: words.Agent, user_id: words.User = None
    ) -> Why:
        """Why a memory is retrieved for a task, or why it is not."""
        record = edit.find_memory(self.engine, memory_id)
        if record.kind not in MEMORY_KINDS:
            raise ValidationError(
                f"{memory_id!r} is of type {record.kind}, and only memories are explained: {', '.join(MEMORY_KINDS)}"
            )
        return explain_retrieval(self.engine, record, Request(task=task, agent=self.engine.agent(agent), user=user_id))

    # -- feedback

    @operation(Effect.CHANGES)
    def record_usage(
        self,
        retrieved_memory_ids: Annotated[Iterable[str], About("all memories that were shown", check=validate.names)],
        used_memory_ids: Annotated[Iterable[str], About("those of them that were used", check=validate.names)],
        memory_type: words.TypeOf = None,
        agent: words.AnyAgent = None,
        query: Annotated[str, About("what was asked")] = "",
    ) -> FeedbackReport:
        """Say which of the memories shown were used. Used ones rise in later retrievals, passed-over ones sink."""
        signals = edit.read_usage(list(retrieved_memory_ids), list(used_memory_ids))
        return self._judge(signals, memory_type, agent)

    @operation(Effect.CHANGES)
    def record_feedback(
        self,
        memory_id: words.MemoryId,
        memory_type: words.TypeOf = None,
        signal: words.Signal = FeedbackSignal.THUMBS_UP,
        agent: words.AnyAgent = None,
        query: Annotated[str, About("what was asked")] = "",
    ) -> FeedbackReport:
        """Say what one memory was worth; it moves its rank."""
        return self._judge({memory_id: FeedbackSignal(signal)}, memory_type, agent)

    def _judge(self, signals: Mapping[str, FeedbackSignal], memory_type: Any, agent: str | None) -> FeedbackReport:
        if agent is not None:
            self.engine.agent(agent)
        return edit.record_feedback(self.engine, signals, memory_type)

    # -- upkeep

    @operation(Effect.CHANGES, idempotent=True, answer=to_forgotten)
    def forget(
        self,
        agent: words.AnyAgent = None,
        older_than_days: Annotated[float, About("not used or confirmed for so many days", least=0)] = 90,
        below_confidence: Annotated[float, About("and faded below this strength, 0 to 1", least=0)] = 0.3,
        dry_run: Annotated[bool, About("only say what would be archived")] = False,
    ) -> Forgotten:
        """Archive what nobody used or confirmed for long and has faded. Nothing is erased."""
        name = None if agent is None else self.engine.agent(agent)
        return upkeep.forget(self.engine, name, older_than_days, below_confidence, dry_run)

    @operation(Effect.CHANGES, idempotent=True)
    def reconcile(
        self,
        limit: Annotated[int, About("compare at most so many pairs", least=1, most=100_000)] = upkeep.MAX_PAIRS,
    ) -> Reconciled:
        """Ask the configured model how memories that look alike relate, and supersede what is out of date.

        Each pair is asked about once. Superseded memories stay in history; `update` with the status 'active' restores
        one.

        Notes:
            Without a model nothing is compared, and `problem` says so.
        """
        return upkeep.reconcile_by_model(self.engine, self.model, limit)

    @operation(Effect.READS, "stats")
    def get_stats(
        self,
        agent: words.AnyAgent = None,
        user_id: Annotated[
            str | None, About("only what this user sees; without it everything", check=validate.name)
        ] = None,
    ) -> Stats:
        """How much is remembered: by type, by status, by agent."""
        return stats(self.engine, None if agent is None else self.engine.agent(agent), user_id)

    @operation(Effect.READS, answer=Text)
    def playbook(
        self, agent: words.AnyAgent = None, max_tokens: words.MaxTokens = 4000, user_id: words.User = None
    ) -> str:
        """All that was learned so far as one page: the rules, what works, what to avoid.

        It holds what belongs to the user and to nobody in particular; without `user_id`, the latter only.
        """
        where = self._where(None, agent, visible_users(user_id), Status.ACTIVE)

        def newest(kind: type[M]) -> list[M]:
            records = self.engine.store.scan(replace(where, kinds={TYPES[kind]}), _PLAYBOOK)
            memories = _views(self.engine, records, kind)
            return memories if kind is Rule else sorted(memories, key=lambda one: (-one.confidence, one.id))

        learned = MemorySlice(
            query="",
            agent=agent or "",
            rules=newest(Rule),
            heuristics=newest(Heuristic),
            anti_patterns=newest(AntiPattern),
            renderer=render_slice,
        )
        return learned.to_prompt(max_tokens)

    @operation(Effect.READS)
    def health(self) -> Health:
        """Is the memory open, readable and able to find things? `problems` says what is not well."""
        from alma import __version__

        problems: list[str] = []
        memories = 0
        try:
            memories = self.get_stats()["total_count"]
            if mismatch := transaction.find_mismatch(self.engine):
                problems.append(str(mismatch))
        except StorageError as error:
            # Others may read this over the network: where the store lies is not for them.
            problems.append(f"{error.neutral or error}; `alma doctor` says more")
        return Health(
            ok=not problems,
            version=__version__,
            project_id=self.project_id,
            memories=memories,
            embedder=self.engine.embedder_name,
            problems=problems,
        )

    def reindex(self, progress: upkeep.Progress = upkeep.ignore_progress) -> int:
        """Embed everything anew with the configured embedder; resumes where an earlier run stopped."""
        return upkeep.reindex(self.engine, progress)

    def vacuum(self) -> None:
        """Leave no byte of deleted memories in the store's files, and give their space back."""
        erase.vacuum(self.engine)

    # Last, because within the class its name hides the builtin.
    @overload
    def list(
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
    def list(
        self,
        memory_type: type[M],
        agent: str | None = None,
        user_id: str | None = None,
        status: words.StatusName | Status | None = "active",
        tag: str | None = None,
        limit: int = 50,
        fields: Mapping[str, Any] | None = None,
    ) -> ListOf[M]: ...
    # A list of memories of one type is a list of memories.
    @operation(Effect.READS)  # type: ignore[misc]
    def list(
        self,
        memory_type: words.TypeOf = None,
        agent: words.AnyAgent = None,
        user_id: Annotated[
            str | None, About("only this user's own; without it everybody's", check=validate.name)
        ] = None,
        status: words.StatusOf = "active",
        tag: Annotated[str | None, About("only what has this tag", check=validate.name)] = None,
        limit: Annotated[int, About("at most so many", least=1, most=1_000_000)] = 50,
        fields: words.Fields = None,
    ) -> Memories:
        """List memories, newest first.

        Notes:
            With a class of memories as `memory_type`, such as `Heuristic`, the list is typed. `status=None` lists
            memories of every status.
        """
        where = self._where(memory_type, agent, None if user_id is None else {user_id}, status, tag, fields)
        return _views(self.engine, self.engine.store.scan(where, limit), Memory)


describe_methods(ALMA)


# -- from checked arguments to what the engine takes


def build_request(engine: Engine, given: Mapping[str, Any]) -> Request:
    """Return the request that the arguments of `retrieve` describe."""
    types, since, until = given.get("types"), given.get("since"), given.get("until")
    if since is not None and until is not None and since >= until:
        raise ValidationError(f"since ({since.isoformat()}) must lie before until ({until.isoformat()})")
    named: dict[str, Any] = {name: given[name] for name in Request._fields if given.get(name)}
    named |= {"agent": engine.agent(given["agent"]), "user": given.get("user_id")}
    named |= {"mode": Mode(given.get("mode") or Mode.DEFAULT), "level": Level(given.get("level") or Level.SESSION)}
    values = None
    if given.get("fields"):
        # What conversations hold is in their turns, which have no such fields.
        asked = [one for one in (MEMORY_KINDS if types is None else types) if one != MemoryType.EPISODE]
        types, values = words.match_fields(asked, given["fields"])
    named |= {"types": None if types is None else frozenset(map(MemoryType, types)), "fields": values}
    return Request(**named)


def _read_row(given: Any) -> tuple[MemoryType, dict[str, Any]]:
    """Return the type and the checked arguments of one of several memories to add."""
    if not isinstance(given, Mapping):
        raise ValidationError(f"a memory to add must be a mapping of arguments, not {type(given).__name__}")
    kind = validate.choice("type", given.get("type"), MemoryType)
    if kind in _RECORDED:
        raise ValidationError(f"an {kind} is recorded with {_RECORDED[kind]}, not added")
    rest = {name: value for name, value in given.items() if name != "type"}
    operation = OPERATIONS[f"add_{kind.removeprefix('user_').removeprefix('domain_')}"]
    return kind, operation.complete({**rest, "source": rest.get("source") or "user_stated"})


def _views(engine: Engine, records: Iterable[Record], kind: type[M]) -> list[M]:
    now = engine.clock()
    return [memory for record in records if isinstance(memory := to_memory(record, now), kind)]
