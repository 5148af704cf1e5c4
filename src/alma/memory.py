"""`ALMA`: the memory of a project's agents. Its methods are operations: arguments are checked before a body runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, Literal, ParamSpec, TypeVar, cast, overload

# The engine's modules are imported when a call first needs them: `core.edit` is `alma.engine.edit`.
from . import __version__, words
from . import engine as core
from .engine import validate
from .engine.calls import MAX_PAIRS, Progress, ignore_progress
from .errors import ConfigError, StorageError, ValidationError
from .opening import Closeable
from .operations import OPERATIONS, About, Effect, Group
from .ports import Clock, Embedder, Model, Store
from .schema import TYPES
from .types import times
from .types.kinds import (
    KINDS,
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
from .types.query import MemoryScope, Scopes, Team, Where, visible_users
from .types.record import LIVE, Record, Status, unit
from .types.slice import MemorySlice

if TYPE_CHECKING:
    from .extraction.learner import LearningReport
    from .remote import RemoteALMA
    from .types.asking import ModelSettings

M = TypeVar("M", bound=Memory)
P = ParamSpec("P")
R = TypeVar("R")
ListOf = list[M]
Memories = list[Memory]
Matches = list[words.Match]
Vectors = list[list[float]]
Rows = Iterable[Mapping[str, Any]]

operation = Group("memories")
many = Group("many")
_PLAYBOOK = 200
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
        teams: Iterable[Team] = (),
        settings: core.context.Settings | None = None,
        clock: Clock = times.now,
        model: Model | Callable[[core.context.Engine], Model | None] | None = None,
    ) -> None:
        core.load_modules()
        self._model = model
        self.model_settings: ModelSettings | None = None
        """The configuration of the model; None if there is none."""
        self.engine = core.context.Engine(
            store=store,
            project=validate.name("project_id", project_id),
            encoder=core.context.Encoder(embedder) if embedder is not None else None,
            scopes=Scopes({scope.agent_name: scope for scope in agents}, teams=tuple(teams)),
            settings=settings or core.context.Settings(),
            clock=clock,
        )

    # -- opening and closing

    @classmethod
    def from_config(cls, config_path: str | PathLike[str], *, trust: bool = False) -> ALMA:
        """Open the memory that a YAML configuration file describes.

        A store that git tracks or another user owns is refused, unless you trusted it with `alma trust`. With `trust`,
        it is opened without that check.
        """
        from .app import open_config

        return open_config(config_path, trust=trust)

    @classmethod
    def quickstart(
        cls,
        project_id: str = "my-project",
        storage_dir: str | PathLike[str] = ".alma",
        *,
        clock: Clock | None = None,
        trust: bool = False,
    ) -> ALMA:
        """Open a SQLite memory in a folder, created if missing, with the best embedder that is installed.

        `clock` returns the current time, with a time zone. Pass your own to replay past events. A memory that git
        tracks or another user owns is refused, unless you trusted it with `alma trust`. With `trust`, it is opened
        without that check.
        """
        from .app import open_quickstart

        return open_quickstart(project_id, storage_dir, clock=clock or times.now, trust=trust)

    @classmethod
    def connect(cls, url: str, token: str, project_id: str | None = None, **options: Any) -> RemoteALMA:
        """Return the memory that `alma serve` serves at a URL, with the same methods; see `alma.remote.connect`."""
        from .remote import connect

        return connect(url, token, project_id, **options)

    @property
    def project_id(self) -> str:
        """The project this memory belongs to."""
        return self.engine.project

    @functools.cached_property
    def model(self) -> Model | None:
        """The configured language model, opened on first use; None if there is none."""
        return self._model(self.engine) if callable(self._model) else self._model

    def close(self) -> None:
        """Close the store, after writing pending retrieval notes."""
        self.engine.events.close()
        self.engine.notes.flush(self.engine.store)
        self.engine.store.close()
        if self.engine.encoder is not None:
            self.engine.encoder.embedder.close()

    def embed(self, texts: Iterable[str]) -> Vectors:
        """Return a vector of length 1 for each text, from the embedder of this memory.

        A long text is represented by its beginning, an empty one by zeros. Raise ConfigError without an embedder.
        """
        if isinstance(texts, str):
            raise ValidationError("embed takes a list of texts; put a single text in a list")
        if self.engine.encoder is None:
            raise ConfigError("this memory has no embedder, so it has no vectors; set `embedding_provider`")
        groups = self.engine.encoder.encode([[text] for text in texts])
        nothing = [0.0] * self.engine.encoder.embedder.dim
        return [unit(vectors[0]) if vectors else nothing for vectors in groups]

    def _show(self, records: Iterable[Record], kind: type[M]) -> ListOf[M]:
        now = self.engine.clock()
        return [memory for record in records if isinstance(memory := core.view.to_memory(record, now), kind)]

    # -- the loop: retrieve, learn

    @operation(Effect.READS, answer=words.to_retrieved)
    def retrieve(
        self,
        task: words.Task,
        agent: words.Agent,
        user_id: words.User = None,
        top_k: Annotated[
            int | None,
            About("maximum results per type (default: 5, lists 20)", least=1, most=1000),
        ] = None,
        *,
        mode: words.Mode = "default",
        types: words.Types = None,
        tags: Annotated[
            Iterable[str] | None, About("only memories with one of these tags", check=validate.names)
        ] = None,
        task_type: Annotated[str | None, About("only what was learned from this task type")] = None,
        since: Annotated[words.Moment, About("only from this time on, such as 2026-05-07 or 2026-05-07T14:30Z")] = None,
        until: Annotated[words.Moment, About("only before this time")] = None,
        as_of: Annotated[words.Moment, About("return what was known at this time")] = None,
        level: Annotated[Literal["session", "turn"], About("return whole conversations or single turns")] = "session",
        progressive: Annotated[bool, About("return summaries with ids; call `get` for details")] = False,
        fields: words.Fields = None,
    ) -> MemorySlice:
        """Find memories relevant to a task. Call this before starting a task.

        Returns heuristics, anti-patterns, rules, facts, user preferences and past conversations, and `prompt`: the
        same as text. The result is empty if nothing is relevant. Pass its `retrieval_id` to `learn`.

        Notes:
            Without `top_k`, returns up to 5 memories of each type, or 20 if the task asks for several ("how many",
            "list"). `mode` is 'precise' (few, and sure), 'broad', 'recent' or 'learning' (what worked and what
            failed). Conversations are returned as episodes with their relevant turns, or as single turns with
            `level='turn'`. If a memory has a newer look-alike, `newer` holds its id.

            Returns memories of `user_id` and shared memories; without `user_id`, shared memories only.
        """
        return core.retrieve.pipeline.retrieve(self.engine, build_request(self.engine, locals()))

    @operation(Effect.ADDS)
    def learn(
        self,
        agent: words.Agent,
        task: words.Task,
        outcome: words.OutcomeOf,
        strategy_used: Annotated[str, About("how the task was done, in a sentence that fits similar tasks")],
        task_type: Annotated[str | None, About("a category of your own")] = None,
        duration_ms: Annotated[int | None, About("duration in milliseconds", least=0, most=10**15)] = None,
        error_message: Annotated[str | None, About("the error, if it failed", check=validate.output)] = None,
        feedback: Annotated[str | None, About("what the user said about the result")] = None,
        retrieval_id: Annotated[str | None, About("the retrieval whose memories you used")] = None,
        *,
        idempotency_key: Annotated[str | None, About("calls with one key count once", check=validate.name)] = None,
        user_id: words.Owner = None,
        shared: Annotated[bool, About("count it for all users, who then see its words")] = False,
        tags: words.Tags = None,
        metadata: words.Metadata = None,
    ) -> Outcome:
        """Record the outcome of a task. Call this after every task, whether it succeeded or failed.

        Heuristics form from successes, anti-patterns from failures. Returns the stored outcome.
        Calls with the same `idempotency_key`, or with the same `retrieval_id` and arguments, are recorded once.

        Notes:
            Calls with the same `idempotency_key` count once, also across processes; the same key with other arguments
            is an error. With a `user_id`, the outcome and the lessons formed from it belong to that user; with
            `shared`, it counts toward the heuristics and anti-patterns that all users see instead.
        """
        draft = core.outcomes.build_outcome(self.engine, locals())
        return self._show(core.outcomes.learn_outcomes(self.engine, [draft]), Outcome)[0]

    @many(Effect.ADDS, for_models=False)
    def learn_many(
        self, outcomes: Annotated[Rows, About("outcomes, each with the arguments of `learn`", check=validate.many)]
    ) -> list[Outcome]:
        """Record several outcomes in order: all of them or none."""
        drafts = [core.outcomes.build_outcome(self.engine, OPERATIONS["learn"].complete(one)) for one in outcomes]
        return self._show(core.outcomes.learn_outcomes(self.engine, drafts), Outcome) if drafts else []

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
        """Decorate a function, sync or async, to record the outcome of each call; an exception is a failure.

        `{argument}` in `task` and `strategy` is replaced by that argument of the call. With `reraise=False`, a failing
        call returns None.
        """
        from .harness import learns

        return learns(self, agent, task, strategy, task_type, reraise, success=success, user_id=user_id)

    # -- conversations

    def learn_from(
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
    ) -> LearningReport:
        """Learn from messages, and return the new memories by type, and what was skipped and known.

        `messages` is a text of the user, a message with role and content, or a list of them. Without `agent`, the
        memories belong to the only declared agent, or to "assistant". This is the operation `learn_from`.
        """
        from .extraction.learner import AutoLearner, describe_learned

        learner = AutoLearner(self)
        learned = learner.learn_from(
            messages, agent, user_id, session_id, dry_run, save_episode, min_confidence, trusted, source
        )
        return describe_learned(learned)

    @operation(Effect.ADDS, idempotent=True)
    def add_episode(
        self,
        agent: words.Agent,
        session_id: Annotated[str, About("the conversation's id", check=validate.name)],
        turns: Annotated[Rows, About("turns with speaker and text, optionally at and id", check=validate.many)],
        user_id: words.Owner = None,
        *,
        title: Annotated[str, About("the conversation's title", most=500)] = "",
        source: words.Source = "conversation",
        tags: words.Tags = None,
        metadata: words.Metadata = None,
    ) -> Episode:
        """Store a conversation, or add new turns to it. Turns that are already stored are skipped.

        Notes:
            Turns are deduplicated by `id`, then by timestamp and text, then by position and text. They may have `role`
            and `content` instead of `speaker` and `text`. A conversation is identified by its agent, user and session
            id.
        """
        return self._keep([locals()])[0]

    @many(Effect.ADDS, idempotent=True, for_models=False)
    def add_episodes(
        self,
        conversations: Annotated[
            Rows, About("conversations, each with the arguments of `add_episode`", check=validate.many)
        ],
    ) -> list[Episode]:
        """Store several conversations: all of them or none."""
        return self._keep([OPERATIONS["add_episode"].complete(one) for one in conversations])

    def _keep(self, conversations: list[dict[str, Any]]) -> list[Episode]:
        drafts = [core.episodes.build_conversation(self.engine, one) for one in conversations]
        return self._show(core.episodes.record_conversations(self.engine, drafts), Episode) if drafts else []

    # -- stated memories

    @operation(Effect.ADDS, "add_preference", idempotent=True, defaults=_BY_AGENT)
    def add_user_preference(
        self,
        user_id: Annotated[str, About("the user's id", check=validate.name)],
        category: Annotated[str, About("such as code_style or communication", check=validate.name)],
        preference: Annotated[str, About("what the user wants, in a sentence")],
        source: words.Source = "explicit_instruction",
        *,
        attribute: Annotated[
            str | None,
            About("the setting, such as indentation; replaces the older preference for it", check=validate.name),
        ] = None,
        tags: words.Tags = None,
        metadata: words.Metadata = None,
    ) -> UserPreference:
        """Store a user preference. Call this when the user states a lasting wish.

        It waits for a person; a user's own (source 'user') is in every later retrieval. With `attribute`, it
        replaces the user's older preference for that category and attribute.

        Notes:
            The newest preference of a category comes first. A replaced preference stays in history; without
            `attribute`, older preferences stay active.
        """
        return self._add(UserPreference, locals())

    @operation(Effect.ADDS, "add_knowledge", idempotent=True, defaults=_BY_AGENT)
    def add_domain_knowledge(
        self,
        agent: words.Agent,
        domain: Annotated[str, About("the topic, such as deployment", check=validate.name)],
        fact: Annotated[str, About("the fact, in a self-contained sentence")],
        source: words.Source = "user_stated",
        *,
        subject: Annotated[
            str | None, About("what the fact is about, such as billing; requires `attribute`", check=validate.name)
        ] = None,
        attribute: Annotated[
            str | None, About("the property, such as database; replaces the older fact for it", check=validate.name)
        ] = None,
        user_id: words.Owner = None,
        tags: words.Tags = None,
        metadata: words.Metadata = None,
    ) -> DomainKnowledge:
        """Store a fact that will still be true next time. Repeating a stored fact confirms it.

        With `attribute`, and optionally `subject`, it replaces the older fact for that key. Returns the stored fact.

        Notes:
            A repetition may be lightly reworded. A fact from a more trusted source is not replaced: the new one is
            stored as a candidate. A replaced fact stays in history with its validity period. Without a key, the fact
            is added.
        """
        return self._add(DomainKnowledge, locals())

    @operation(Effect.ADDS, idempotent=True, defaults=_BY_AGENT)
    def add_heuristic(
        self,
        agent: words.Agent,
        condition: Annotated[str, About("the kind of task it applies to")],
        strategy: Annotated[str, About("what to do")],
        category: Annotated[str | None, About("a learning category, if the domain declares any")] = None,
        source: words.Source = "user_stated",
        *,
        user_id: words.Owner = None,
        tags: words.Tags = None,
        metadata: words.Metadata = None,
    ) -> Heuristic:
        """Add a heuristic: a strategy that works. Later outcomes count for or against it."""
        return self._add(Heuristic, locals())

    @operation(Effect.ADDS, idempotent=True, defaults=_BY_AGENT)
    def add_anti_pattern(
        self,
        agent: words.Agent,
        pattern: Annotated[str, About("what to avoid")],
        why_bad: Annotated[str, About("why to avoid it")],
        better_alternative: Annotated[str, About("what to do instead")] = "",
        condition: Annotated[str, About("when it applies; empty for always")] = "",
        category: Annotated[str | None, About("a learning category, if the domain declares any")] = None,
        source: words.Source = "user_stated",
        *,
        user_id: words.Owner = None,
        tags: words.Tags = None,
        metadata: words.Metadata = None,
    ) -> AntiPattern:
        """Add an anti-pattern: what to avoid, why, and what to do instead."""
        return self._add(AntiPattern, locals())

    @operation(Effect.ADDS, defaults=_BY_AGENT)
    def add_rule(
        self,
        agent: words.Agent,
        rule: Annotated[str, About("what to do or not to do", most=core.rules.RULE_CHARS)],
        trigger: Annotated[str, About("when it applies; empty for always")] = "",
        why: Annotated[str, About("the reason")] = "",
        reach: Annotated[Literal["project", "always"], About("where it applies")] = "project",
        source: words.Source = "user_stated",
        *,
        idempotency_key: Annotated[str | None, About("calls with one key count once", check=validate.name)] = None,
        user_id: words.Owner = None,
        tags: words.Tags = None,
        metadata: words.Metadata = None,
    ) -> Rule:
        """Propose a rule. Call this when the user corrects how you work.

        It waits for a person's acceptance; a person's own (source 'user') is active.

        Notes:
            A later rule supersedes it if one prefers what the other avoids, or if both give one key another value
            (port, tool for a purpose, place of a kind of file). If a later rule only seems to change it, both stay
            active and `conflicts` lists them. A repetition replaces the trigger and the reason, and adds tags and
            metadata.

            With `reach='always'`, the rule applies to every project of this store.
        """
        return self._add(Rule, locals())

    @many(Effect.ADDS, idempotent=True, for_models=False)
    def add_many(
        self,
        memories: Annotated[Rows, About("memories, each with `type` and the fields of that type", check=validate.many)],
    ) -> list[Memory]:
        """Add several memories of any types: all of them or none.

        Notes:
            Facts and preferences with an explicit key replace older ones. Other memories are added unless the same
            text is already stored.
        """
        proposals = [core.edit.build_proposal(self.engine, *_read_row(one)) for one in memories]
        return self._show(core.edit.add_memories(self.engine, proposals), Memory)

    batch_save_outcomes = learn_many

    def batch_save_heuristics(self, heuristics: Rows) -> Memories:
        """Add several strategies, each a mapping with the arguments of `add_heuristic`: all of them or none."""
        return self.add_many([{"type": MemoryType.HEURISTIC, **one} for one in heuristics])

    def batch_save_domain_knowledge(self, knowledge: Rows) -> Memories:
        """Add several facts, each a mapping with the arguments of `add_domain_knowledge`: all of them or none."""
        return self.add_many([{"type": MemoryType.DOMAIN_KNOWLEDGE, **one} for one in knowledge])

    def _add(self, kind: type[M], arguments: Mapping[str, Any]) -> M:
        proposal = core.edit.build_proposal(self.engine, MemoryType(TYPES[kind]), arguments)
        [record] = core.edit.add_memories(self.engine, [proposal], compare_texts=True)
        return cast("M", core.view.to_memory(record, self.engine.clock()))

    # -- single memories

    @overload
    def get(self, memory_id: str) -> Memory: ...
    @overload
    def get(self, memory_id: str, memory_type: type[M]) -> M: ...
    @operation(Effect.READS)
    def get(self, memory_id: words.MemoryId, memory_type: type[Memory] = Memory) -> Memory:
        """Show one memory in full. A conversation includes all its turns.

        Notes:
            If you pass a memory class, such as `Heuristic`, a memory of another type is an error.
        """
        record = core.edit.find_memory(self.engine, memory_id)
        memory = core.view.to_memory(record, self.engine.clock())
        if not isinstance(memory, memory_type):
            raise ValidationError(f"{memory_id} is of type {type(memory).__name__}, not {memory_type.__name__}")
        if isinstance(memory, Episode):
            return replace(memory, turns=tuple(self._show(core.episodes.list_turns(self.engine, record), Turn)))
        return memory

    @operation(Effect.CHANGES, idempotent=True, defaults=_BY_AGENT)
    def update(
        self,
        /,
        memory_id: words.MemoryId,
        fields: Annotated[Mapping[str, Any] | None, About('fields to change, such as {"fact": "…"}')] = None,
        *,
        status: Annotated[words.StatusName | Status | None, About("the new status")] = None,
        tags: Annotated[Iterable[str] | None, About("tags; replace the current ones", check=validate.names)] = None,
        source: words.Source = "user",
        expected_version: words.Version = None,
        **field_values: Any,
    ) -> Memory:
        """Change a memory's fields, status or tags. Call this when a memory is wrong or outdated.

        Only a person may reword a rule, activate a candidate or change what a person stated.

        Notes:
            Previous values stay in its history. Fields may be passed directly: `alma.update(id, fact="…")`. An empty
            text clears an optional field. `source` is who makes the change.
        """
        values = {**(fields or {}), **field_values}
        if not values and status is None and tags is None:
            raise ValidationError("nothing to update: pass a field, a status or tags")
        changes = core.edit.check_fields(self.engine, memory_id, values)
        record = core.edit.update_memory(
            self.engine,
            memory_id,
            changes,
            None if status is None else Status(status),
            None if tags is None else tuple(tags),
            validate.provenance("source", source or "user"),
            expected_version,
        )
        return core.view.to_memory(record, self.engine.clock())

    @operation(Effect.CHANGES, for_models=False)
    def review(
        self,
        action: Annotated[
            Literal["approve", "reject", "archive", "restore", "apply_here", "apply_everywhere", "make_rule"],
            About("the decision"),
        ],
        ids: Annotated[Iterable[str] | None, About("ids of the memories", check=validate.names)] = None,
        selection: Annotated[
            Mapping[str, Any] | None, About("instead of ids: a filter with the arguments of `browse`")
        ] = None,
        expected_count: Annotated[
            int | None, About("how many memories were seen; required with a selection", least=0)
        ] = None,
        expected_versions: words.Versions = None,
    ) -> core.edit.Reviewed:
        """Approve, reject, archive or restore memories: all of them or none, as one change that `revert` undoes.

        Approved candidates become active. Rejected ones are archived and do not come back by themselves. `apply_here`
        and `apply_everywhere` let rules apply in their project only, or in all projects; a rule of one session then
        outlives it. `make_rule` turns observations of repaired commands into rules.

        Notes:
            If another number of memories matches, or one has another version, nothing changes and `StaleVersionError`
            says what there is now. At most 1,000 memories at once.
        """
        if (ids is None) is (selection is None):
            raise ValidationError("pass either ids or a selection")
        if selection is not None and expected_count is None:
            raise ValidationError("a selection requires expected_count: how many memories you saw")
        chosen = list(ids or ()) if selection is None else self._select(OPERATIONS["browse"].complete(selection))
        if not isinstance(chosen, core.pages.Selection) and not 1 <= len(chosen) <= core.edit.MAX_REVIEWED:
            raise ValidationError(f"pass 1 to {core.edit.MAX_REVIEWED:,} ids, not {len(chosen):,}")
        return core.edit.review_memories(self.engine, action, chosen, expected_count, expected_versions)

    @operation(Effect.CHANGES, for_models=False)
    def merge(
        self,
        ids: Annotated[Iterable[str], About("ids of the memories that say the same", check=validate.names)],
        into: Annotated[str, About("the id of the memory that stays", check=validate.name)],
        text: Annotated[str, About("its new wording (default: its own)")] = "",
        expected_versions: words.Versions = None,
    ) -> core.edit.Reviewed:
        """Merge memories into one of them, which keeps its words or gets new ones. Counts are added.

        The others are superseded and stay in history; `revert` undoes the merge. Only a person may merge.
        """
        return core.consolidate.merge_memories(self.engine, list(ids), into, text, expected_versions)

    @operation(Effect.CHANGES, idempotent=True, for_models=False)
    def promote(
        self,
        memory_id: words.MemoryId,
        to: Annotated[Literal["agent", "team", "project"], About("who may read it; agent reverses a promotion")],
        team: Annotated[str | None, About("which team, if its agent is in several", check=validate.name)] = None,
    ) -> Memory:
        """Let the agents of a team, or all agents of the project, read a memory of one agent.

        Without a person's approval, only what was learned from outcomes of more than one agent, user or session can be
        promoted. Returns the promoted memory.

        Notes:
            Heuristics, anti-patterns, facts and rules can be promoted; a user's memory stays theirs. `agent` becomes
            `team:NAME` or `project:all`, and `metadata["promoted_from"]` is the agent that the memory came from.
        """
        return core.view.to_memory(core.promotion.promote_memory(self.engine, memory_id, to, team), self.engine.clock())

    @operation(Effect.ERASES, answer=words.to_deleted)
    def delete(self, memory_id: words.MemoryId) -> None:
        """Delete a memory permanently. It is not relearned. Only a person may delete what a person stated.

        Notes:
            Its history and every record that repeats its text are deleted too. `vacuum` removes the last traces from
            the store's files. If the process is killed, repeat the call to finish the deletion.
        """
        core.edit.delete_memory(self.engine, memory_id)

    @operation(Effect.ERASES, idempotent=True, answer=words.to_erased)
    def erase_user(
        self,
        user_id: Annotated[str, About("the user's id", check=validate.name)],
        progress: Progress = ignore_progress,
    ) -> dict[str, int]:
        """Delete everything that belongs to a user in this project, with its history, permanently.

        `proof` says whether any record or byte is left.

        Notes:
            Deletes conversations, outcomes, lessons, rules, preferences, facts, retrieval notes and tombstones with
            the user's id, then vacuums the store. Returns the number of deleted memories of each kind; the attribute
            `proof` of the result is an `ErasureProof`.
        """
        return core.erase.erase_user(self.engine, user_id, progress)

    @operation(Effect.READS, answer=words.to_changes)
    def history(
        self, memory_id: Annotated[str, About("the id of a memory or work item", check=validate.name)]
    ) -> list[dict[str, Any]]:
        """List the changes to a memory or work item, oldest first."""
        changes = core.history.list_revisions(self.engine, core.edit.find_memory(self.engine, memory_id, "work_item"))
        return [{name: getattr(one, name) for name in core.history.Change.__slots__} for one in changes]

    @operation(Effect.READS, for_models=False)
    def blame(self, text: Annotated[str, About("words of a memory, such as a line of a prompt")]) -> list[words.Author]:
        """Find where a text comes from: the memories that hold it, and the change that brought it in."""
        authors = core.history.find_authors(self.engine, text)
        now = self.engine.clock()
        return [words.Author(core.view.to_memory(record, now), one) for record, one in authors]

    @operation(Effect.READS, for_models=False)
    def diff(
        self,
        since: Annotated[datetime | str, About("compare with this time")],
        until: Annotated[words.Moment, About("up to this time (default: now)")] = None,
    ) -> list[core.history.Difference]:
        """List how memories differ between two times: added, removed, reworded, counted."""
        return core.history.list_differences(self.engine, cast(datetime, since), cast("datetime | None", until))

    @operation(Effect.CHANGES, for_models=False)
    def undo(
        self,
        memory_id: Annotated[
            str | None, About("only changes of this memory, or of this conflict (default: any)", check=validate.name)
        ] = None,
        dry_run: words.DryRun = False,
    ) -> core.history.RevertedChange:
        """Undo the last change that was not undone yet. If that was a deletion, nothing is undone.

        Notes:
            Undoing is a change of its own: pass its id to `revert` to redo. A deletion cannot be undone; the error
            names the change before it, for `revert`.
        """
        if memory_id is not None and not memory_id.startswith(KINDS["comparison"].prefix):
            core.edit.find_memory(self.engine, memory_id)
        return core.history.undo_last(self.engine, memory_id, dry_run=dry_run)

    @operation(Effect.CHANGES, for_models=False)
    def revert(
        self,
        change: Annotated[
            str, About("the id of a change, from `history`, or of an import, from `ingest`", check=validate.name)
        ],
        dry_run: words.DryRun = False,
    ) -> core.history.RevertedChange:
        """Undo one change, all or nothing, and keep later ones; or undo an import, as far as nothing changed since.

        Notes:
            Of an import, `left` lists what still holds, with the reasons.
            Counts are subtracted. If a text or status was changed again since, or the key of a memory has a newer
            value, nothing is reverted and the error names the later change or value.
        """
        if core.calls.is_import(change):
            return core.history.revert_import(self.engine, change, dry_run=dry_run)
        return core.history.revert_change(self.engine, change, dry_run=dry_run)

    @operation(Effect.READS, for_models=False)
    def bisect(
        self,
        task: words.Task,
        agent: words.Agent,
        user_id: words.User = None,
        since: Annotated[words.Moment, About("look at changes from this time on (default: all)")] = None,
        until: Annotated[words.Moment, About("and up to this time (default: now)")] = None,
        shows: Annotated[str, About("a text that the prompt shows now and did not before, or the reverse")] = "",
    ) -> core.history.TurningPoint:
        """Find the change after which a task is advised differently."""
        request = core.retrieve.request.Request(task=task, agent=self.engine.agent(agent), user=user_id)
        period = cast("datetime | None", since), cast("datetime | None", until)
        return core.history.find_turning_point(self.engine, request, *period, shows)

    @operation(Effect.READS)
    def search(
        self,
        query: Annotated[str, About("words to search for, or a description")],
        memory_type: words.TypeOf = None,
        agent: words.AnyAgent = None,
        user_id: words.Viewer = None,
        status: words.StatusOf = "active",
        limit: Annotated[int, About("maximum results", least=1, most=1000)] = 10,
        fields: words.Fields = None,
    ) -> Matches:
        """Search memories by words or meaning, best match first. Before a task, call `retrieve` instead.

        Ranks by relevance alone, across all agents; not recorded as a retrieval. With `user_id`, returns
        that user's memories and shared memories.
        """
        users = None if user_id is None else visible_users(user_id)
        where = self._where(memory_type, agent, users, status, fields=fields)
        hits = core.retrieve.pipeline.find_memories(self.engine, query, where, limit)
        now = self.engine.clock()
        return [
            words.Match(core.view.to_memory(hit.record, now), round(hit.score, 4), hit.explanation.reason)
            for hit in hits
        ]

    @operation(Effect.READS, for_models=False)
    def browse(
        self,
        types: words.Types = None,
        statuses: words.Statuses = None,
        words: Annotated[str, About("only memories with one of these words")] = "",
        order: Annotated[
            core.pages.Order | None, About("how to order them (default: newest first, or best match first with words)")
        ] = None,
        agent: words.AnyAgent = None,
        user_id: words.OnlyUser = None,
        trust: Annotated[
            Iterable[Literal["trusted", "learned", "untrusted"]] | None, About("only memories with this trust")
        ] = None,
        fields: words.Fields = None,
        limit: Annotated[int, About("maximum results per page", least=1, most=100)] = 25,
        cursor: Annotated[str | None, About("the `next` of the page before", check=validate.name)] = None,
    ) -> core.pages.MemoryPage:
        """List memories in pages, each with its version, trust, results and how often it was shown.

        Pass `next` as `cursor` to continue. Pages neither repeat nor skip memories while others are added.

        Notes:
            Orders other than newest look at the newest 2,000 memories that match, and words at the 200 best matches;
            `is_partial` says if there are more. Long texts are cut: see `is_cut`.
        """
        selection = self._select(locals())
        return core.pages.read_page(self.engine, selection, order or ("best" if words else "newest"), limit, cursor)

    def _select(self, arguments: Mapping[str, Any]) -> core.pages.Selection:
        """Return the selection that the arguments of `browse` describe."""
        types, statuses, user, trust = (arguments[one] for one in ("types", "statuses", "user_id", "trust"))
        users = None if user is None else {user}
        where = self._where(None, arguments["agent"], users, None, fields=arguments["fields"])
        kinds = {one for one in where.kinds or () if types is None or one in types}
        where = replace(where, kinds=kinds, statuses=LIVE if statuses is None else set(statuses) or None)
        return core.pages.Selection(where, arguments["words"], None if trust is None else frozenset(trust))

    @operation(Effect.READS, for_models=False)
    def explain_task(
        self,
        task: words.Task,
        agent: words.Agent,
        user_id: words.User = None,
        as_of: Annotated[words.Moment, About("explain what was known at this time")] = None,
        max_tokens: words.MaxTokens = 2000,
    ) -> core.explanations.TaskExplanation:
        """Explain which memories a task is shown and which not, with scores and reasons. Nothing is recorded."""
        return core.explanations.explain_candidates(self.engine, build_request(self.engine, locals()), max_tokens)

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
        return self.engine.within(
            *kinds,
            fields=values,
            agents=None if agent is None else {self.engine.agent(agent)},
            users=None if users is None else set(users),
            statuses=None if status is None else {Status(status)},
            tagged=None if tag is None else {tag},
        )

    @operation(Effect.READS)
    def explain(
        self, memory_id: words.MemoryId, task: words.Task, agent: words.Agent, user_id: words.User = None
    ) -> core.retrieve.pipeline.Why:
        """Explain why a memory is retrieved for a task, or why not."""
        record = core.edit.find_memory(self.engine, memory_id)
        if record.kind not in MEMORY_KINDS:
            raise ValidationError(
                f"{memory_id!r} is of type {record.kind}, but only memories can be explained: {', '.join(MEMORY_KINDS)}"
            )
        return core.retrieve.pipeline.explain_retrieval(self.engine, record, build_request(self.engine, locals()))

    # -- feedback

    @operation(Effect.CHANGES)
    def record_usage(
        self,
        retrieved_memory_ids: Annotated[Iterable[str], About("ids of all memories shown", check=validate.names)],
        used_memory_ids: Annotated[Iterable[str], About("ids of those used", check=validate.names)],
        memory_type: words.TypeOf = None,
        agent: words.Rater = None,
        query: Annotated[str, About("the task or question; not stored")] = "",
    ) -> core.edit.FeedbackReport:
        """Report which retrieved memories were used. Used memories rank higher later, unused ones lower."""
        signals = core.edit.read_usage(list(retrieved_memory_ids), list(used_memory_ids))
        return self._judge(signals, memory_type, agent)

    @operation(Effect.CHANGES)
    def record_feedback(
        self,
        memory_id: words.MemoryId,
        memory_type: words.TypeOf = None,
        signal: words.Signal = FeedbackSignal.THUMBS_UP,
        agent: words.Rater = None,
        query: Annotated[str, About("the task or question; not stored")] = "",
    ) -> core.edit.FeedbackReport:
        """Rate one memory. Call this when a memory helped or misled you; it changes the memory's rank."""
        return self._judge({memory_id: FeedbackSignal(signal)}, memory_type, agent)

    def _judge(
        self, signals: Mapping[str, FeedbackSignal], memory_type: Any, agent: str | None
    ) -> core.edit.FeedbackReport:
        if agent is not None:
            self.engine.agent(agent)
        return core.edit.record_feedback(self.engine, signals, memory_type)

    # -- upkeep

    @operation(Effect.CHANGES, idempotent=True, answer=words.to_forgotten)
    def forget(
        self,
        agent: words.AnyAgent = None,
        older_than_days: Annotated[float, About("only if unused for this many days", least=0)] = 90,
        below_confidence: Annotated[float, About("only if confidence is below this, 0 to 1", least=0)] = 0.3,
        dry_run: Annotated[bool, About("only report what would be archived")] = False,
    ) -> core.retention.Forgotten:
        """Archive memories that have faded and were not used or confirmed lately. Nothing is deleted."""
        name = None if agent is None else self.engine.agent(agent)
        return core.retention.forget(self.engine, name, older_than_days, below_confidence, dry_run)

    @operation(Effect.CHANGES, idempotent=True)
    def consolidate(
        self,
        dry_run: Annotated[bool, About("only report what would be merged and superseded")] = False,
        limit: Annotated[int, About("maximum number of pairs to compare", least=1, most=100_000)] = MAX_PAIRS,
    ) -> core.consolidate.Consolidation:
        """Merge memories that say the same, and supersede outdated ones.

        The configured model compares each pair once; without a model, only certain duplicates are merged. A merge that
        would lose a number, a name, an option or a negation is refused. Sources stay in history.

        Notes:
            `reconcile` is the former name of this method.
        """
        reader = core.consolidate.open_reader(self.model) if self.model is not None else None
        return core.consolidate.reconcile(self.engine, reader, limit, dry_run=dry_run)

    reconcile = consolidate

    @operation(Effect.READS, for_models=False)
    def conflicts(
        self, limit: Annotated[int, About("maximum results", least=1, most=10_000)] = 1000
    ) -> list[core.conflicts.MemoryConflict]:
        """List memories that contradict each other and wait for a person's decision, oldest first."""
        return core.conflicts.list_conflicts(self.engine)[:limit]

    @operation(Effect.CHANGES, for_models=False)
    def resolve_conflict(
        self,
        conflict_id: Annotated[str, About("the conflict's id, or the beginning of it", check=validate.name)],
        keep: Annotated[Literal["newer", "older", "both", "split"], About("what holds from now on")],
        older_scope: Annotated[str, About("for a split: where the older memory holds", most=200)] = "",
        newer_scope: Annotated[str, About("for a split: where the newer memory holds", most=200)] = "",
    ) -> Memories:
        """Decide which of two contradicting memories holds: the newer, the older, both, or each in a scope of its own.

        The decision is remembered. A memory that is not kept is superseded and stays in history. In a split, the scope
        becomes the trigger of a rule or the beginning of a fact: "In staging: …". Returns both memories.
        """
        records = core.conflicts.resolve_conflict(self.engine, conflict_id, keep, older_scope, newer_scope)
        return self._show(records, Memory)

    @operation(Effect.READS, "stats")
    def get_stats(
        self,
        agent: words.AnyAgent = None,
        user_id: words.Viewer = None,
    ) -> core.view.Stats:
        """Count memories by type, status and agent."""
        return core.view.stats(self.engine, None if agent is None else self.engine.agent(agent), user_id)

    @operation(Effect.READS, answer=words.Text)
    def playbook(
        self,
        agent: words.AnyAgent = None,
        max_tokens: Annotated[int, About("token budget of the page")] = 4000,
        user_id: words.User = None,
    ) -> str:
        """Return everything learned as one page: rules, what works, what to avoid.

        Includes the user's memories and shared memories; without `user_id`, shared memories only.
        """
        where = self._where(None, agent, visible_users(user_id), Status.ACTIVE)
        if where.agents is not None:
            where = replace(where, agents={*where.agents, *self.engine.scopes.spaces(*where.agents)})

        def newest(kind: type[M]) -> list[M]:
            records = core.search.scan_shared(self.engine.store, replace(where, kinds={TYPES[kind]}), _PLAYBOOK)
            memories = self._show(records, kind)
            return memories if kind is Rule else sorted(memories, key=lambda one: (-one.confidence, one.id))

        learned = MemorySlice(
            query="",
            agent=agent or "",
            rules=newest(Rule),
            heuristics=newest(Heuristic),
            anti_patterns=newest(AntiPattern),
            renderer=core.view.render_slice,
        )
        return learned.to_prompt(max_tokens)

    @operation(Effect.READS)
    def health(self) -> words.Health:
        """Check that the memory is open, readable and searchable. `problems` lists what is wrong."""
        problems: list[str] = []
        memories = 0
        try:
            memories = self.get_stats()["total_count"]
            if mismatch := core.transaction.find_mismatch(self.engine):
                problems.append(str(mismatch))
        except StorageError as error:
            # Callers over the network must not learn where the store is.
            problems.append(f"{error.neutral or error}; run `alma doctor` for details")
        return words.Health(
            ok=not problems,
            version=__version__,
            project_id=self.project_id,
            memories=memories,
            embedder=self.engine.embedder_name,
            problems=problems,
        )

    def reindex(self, progress: Progress = ignore_progress) -> int:
        """Embed all records again with the configured embedder and return their number. Resumes an interrupted run."""
        return core.upkeep.reindex(self.engine, progress)

    def vacuum(self) -> None:
        """Remove all traces of deleted memories from the store's files and release unused space."""
        core.erase.vacuum(self.engine)

    @operation(Effect.CHANGES, idempotent=True, for_models=False)
    def upkeep(
        self,
        dry_run: Annotated[bool, About("only report what would change")] = False,
        if_due: Annotated[bool, About("run only if the last run is older than `upkeep.every_hours`")] = False,
        progress: Progress = ignore_progress,
    ) -> core.retention.UpkeepReport:
        """Archive what faded or exceeds a quota, compress long conversations and delete old notes.

        No memory is deleted; `update` with status 'active' restores an archived one. Compression needs a model.
        """
        run = core.retention.UpkeepRun(self.engine, dry_run, progress, lambda: self.model)
        return core.retention.run_upkeep(run, if_due=if_due)

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
        user_id: words.OnlyUser = None,
        status: words.StatusOf = "active",
        tag: Annotated[str | None, About("only memories with this tag", check=validate.name)] = None,
        limit: Annotated[int, About("maximum results", least=1, most=1_000_000)] = 50,
        fields: words.Fields = None,
    ) -> Memories:
        """List memories, newest first.

        Notes:
            If `memory_type` is a memory class, such as `Heuristic`, the list is typed. `status=None` lists memories of
            every status.
        """
        where = self._where(memory_type, agent, None if user_id is None else {user_id}, status, tag, fields)
        return self._show(self.engine.store.scan(where, limit), Memory)


# -- requests for the engine


def build_request(engine: core.context.Engine, arguments: Mapping[str, Any]) -> core.retrieve.request.Request:
    """Return the request that the arguments of `retrieve` describe."""
    types, since, until = arguments.get("types"), arguments.get("since"), arguments.get("until")
    if since is not None and until is not None and since >= until:
        raise ValidationError(f"since ({since.isoformat()}) must be before until ({until.isoformat()})")
    fields: dict[str, Any] = {
        name: arguments[name] for name in core.retrieve.request.Request._fields if arguments.get(name)
    }
    fields |= {"agent": engine.agent(arguments["agent"]), "user": arguments.get("user_id")}
    fields |= {
        "mode": core.retrieve.request.Mode(arguments.get("mode") or core.retrieve.request.Mode.DEFAULT),
        "level": core.retrieve.request.Level(arguments.get("level") or core.retrieve.request.Level.SESSION),
    }
    values = None
    if arguments.get("fields"):
        # The text of conversations is in their turns, which have no such fields.
        searched = [one for one in (MEMORY_KINDS if types is None else types) if one != MemoryType.EPISODE]
        types, values = words.match_fields(searched, arguments["fields"])
    fields |= {"types": None if types is None else frozenset(map(MemoryType, types)), "fields": values}
    return core.retrieve.request.Request(**fields)


def _read_row(row: Any) -> tuple[MemoryType, dict[str, Any]]:
    """Return the type and the checked arguments of one of several memories to add."""
    if not isinstance(row, Mapping):
        raise ValidationError(f"a memory to add must be a mapping of arguments, not {type(row).__name__}")
    kind = validate.choice("type", row.get("type"), MemoryType)
    if kind in _RECORDED:
        raise ValidationError(f"an {kind} cannot be added; record it with {_RECORDED[kind]}")
    rest = {name: value for name, value in row.items() if name != "type"}
    operation = OPERATIONS[f"add_{kind.removeprefix('user_').removeprefix('domain_')}"]
    return kind, operation.complete({**rest, "source": rest.get("source") or "user_stated"})
