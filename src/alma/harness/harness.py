"""`Harness`: memory goes into the prompt, any callable does the work, and how it went is learned."""

from __future__ import annotations

import inspect
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..engine import validate
from ..engine.admit import allow
from ..engine.text import STOP, stem, words
from ..errors import EmbeddingError, StorageError, ValidationError
from ..opening import Holder
from ..types.kinds import Result
from ..types.scope import MemoryScope
from ..types.slice import MemorySlice
from . import executor as work
from .executor import Executor, Judge, Report
from .prompt import build
from .telling import Stopwatch, described, learn, spoken
from .types import Agent, Context, MemorySchema, RunResult, Setting

if TYPE_CHECKING:
    from ..core import ALMA
    from ..domains import DomainSchema

_LOG = logging.getLogger("alma")
_STRATEGY_CHARS = 2_000
_UNNAMED = "Do it without a named strategy"
# What most categories are called; sharing one of these says nothing about a task.
_HOLLOW = frozenset(
    map(stem, "pattern strategy technique selection handling design practice method approach timing response".split())
)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A run before its work is done."""

    context: Context
    prompt: str
    memories: MemorySlice | None
    category: str
    problem: str | None

    @property
    def retrieval_id(self) -> str | None:
        return self.memories.retrieval_id if self.memories is not None else None

    def waiting(self) -> RunResult:
        return RunResult(
            success=None,
            prompt=self.prompt,
            memories=self.memories,
            retrieval_id=self.retrieval_id,
            problem=self.problem,
        )


class Harness(Holder):
    """Runs tasks of one domain for one agent, with memory before and learning after."""

    def __init__(
        self,
        agent: Agent,
        schema: MemorySchema,
        alma: ALMA,
        *,
        setting: Setting | None = None,
        executor: Executor | None = None,
        owns_memory: bool = False,
    ) -> None:
        super().__init__(alma, owned=owns_memory)
        name = alma.engine.agent(agent.name)
        self.agent = replace(agent, name=name, scope=agent.scope or alma.engine.scope(name))
        self.schema = schema
        self.setting = setting or Setting()
        self.executor = executor

    # -- running

    def run(
        self,
        context: Context,
        executor: Executor | None = None,
        *,
        strategy: str | None = None,
        success: Judge | None = None,
    ) -> RunResult:
        """Put memory into the prompt, let the executor work on it, and learn how it went.

        The executor is called with the prompt, or with the prompt and the context, and may be async. What it returns
        is the output of a success, unless it returns a `HarnessResult` or a dict with `success` or `outcome`, or the
        function `success` judges it otherwise; an exception is a failure, returned as `error` and not raised again.
        The strategy is the one the result names, else `strategy`, else the context's, else the executor's name.

        Without an executor nothing is executed or learned: the result holds the prompt and the memories, `success` is
        None, and the caller does the work.
        """
        chosen = executor or self.executor
        if chosen is not None and work.is_async(chosen):
            _no_loop()
        prepared = self._prepare(context, chosen)
        if chosen is None:
            return prepared.waiting()
        watch = Stopwatch()
        try:
            value = _called(chosen, prepared)
        except _Misused as misused:
            raise ValidationError(str(misused)) from None
        except Exception as error:  # noqa: BLE001 - whatever the executor raises is how the task went
            return self._failed(prepared, chosen, strategy, error, watch.read())
        return self._done(prepared, chosen, strategy, value, success, watch.read())

    async def arun(
        self,
        context: Context,
        executor: Executor | None = None,
        *,
        strategy: str | None = None,
        success: Judge | None = None,
    ) -> RunResult:
        """`run` for asyncio: the memory and an executor that is not async work in threads. Cancelled, it learns
        nothing."""
        import asyncio

        chosen = executor or self.executor
        prepared = await asyncio.to_thread(self._prepare, context, chosen)
        if chosen is None:
            return prepared.waiting()
        watch = Stopwatch()
        given, named = work.arguments(chosen, prepared.prompt, prepared.context)
        try:
            if work.is_async(chosen):
                value = await chosen(*given, **named)
            else:
                value = await asyncio.to_thread(chosen, *given, **named)
                value = await value if inspect.isawaitable(value) else value
        except Exception as error:  # noqa: BLE001 - whatever the executor raises is how the task went
            return await asyncio.to_thread(self._failed, prepared, chosen, strategy, error, watch.read())
        return await asyncio.to_thread(self._done, prepared, chosen, strategy, value, success, watch.read())

    def _prepare(self, context: Context, executor: Executor | None) -> _Prepared:
        """All that can be wrong is found before anything is executed."""
        if not isinstance(context, Context):
            raise ValidationError(f"run takes Context(task=...), not {type(context).__name__}")
        category = self._category(context)
        if executor is not None:
            work.arguments(executor, "", context)
        memories, problem = self._remembered(context)
        knowledge = memories.to_prompt(self.schema.max_tokens) if memories is not None else ""
        return _Prepared(context, build(self.setting, self.agent, context, knowledge), memories, category, problem)

    def _remembered(self, context: Context) -> tuple[MemorySlice | None, str | None]:
        try:
            found = self.alma.retrieve(
                task=context.task,
                agent=self.agent.name,
                user_id=context.user_id,
                top_k=self.schema.top_k,
                types=None if self.schema.inject is None else map(str, self.schema.inject),
            )
        except (StorageError, EmbeddingError) as error:
            problem = f"the memories could not be read: {error}"
            _LOG.warning("%s", problem)
            return None, problem
        return found, None

    # -- learning

    def _category(self, context: Context) -> str:
        """The learning category of a task: the one given, else the one whose words it uses."""
        scope = self.agent.scope or MemoryScope(self.agent.name)
        if context.task_type is None:
            known = dict.fromkeys((*self.schema.categories, *scope.can_learn))
            return fitting(context.task, [one for one in known if self.schema.allows(one, scope)])
        given = self.schema.category(context.task_type, scope)
        allow(self.alma.engine, self.agent.name, given)
        return given

    def _failed(
        self, prepared: _Prepared, executor: Executor, strategy: str | None, error: Exception, took: int
    ) -> RunResult:
        report = Report(None, Result.FAILURE, error=described(error))
        return replace(self._learned(prepared, executor, strategy, report, took), exception=error)

    def _done(
        self, prepared: _Prepared, executor: Executor, strategy: str | None, value: Any, judge: Judge | None, took: int
    ) -> RunResult:
        try:
            report = work.read(value, judge)
        except ValidationError as error:
            told = "; ".join(filter(None, (prepared.problem, f"nothing was learned: {error}")))
            return replace(prepared.waiting(), output=value, duration_ms=took, problem=told)
        return self._learned(prepared, executor, strategy, report, took)

    def _learned(
        self, prepared: _Prepared, executor: Executor, strategy: str | None, report: Report, took: int
    ) -> RunResult:
        way = spoken(report.strategy or strategy or prepared.context.strategy or "", _STRATEGY_CHARS)
        way = way or _default(executor)
        error = None if report.error is None else spoken(report.error, _STRATEGY_CHARS)
        feedback = None if report.feedback is None else spoken(report.feedback, _STRATEGY_CHARS)
        given = {
            "agent": self.agent.name,
            "task": prepared.context.task,
            "outcome": str(report.result),
            "strategy_used": way,
            "task_type": prepared.category or None,
            "duration_ms": took,
            "error_message": error,
            "feedback": feedback,
            "retrieval_id": prepared.retrieval_id,
            "user_id": prepared.context.user_id,
            "metadata": self._metadata(prepared.context),
        }
        outcome, problem = learn(self.alma, given)
        return replace(
            prepared.waiting(),
            success=report.result is Result.SUCCESS,
            output=report.output,
            outcome=outcome,
            strategy=way,
            error=error,
            duration_ms=took,
            problem="; ".join(filter(None, (prepared.problem, problem))) or None,
        )

    def _metadata(self, context: Context) -> dict[str, str]:
        told = {"domain": self.schema.domain, "project_id": context.project_id, "session_id": context.session_id}
        return {name: value for name, value in told.items() if value}


class _Misused(Exception):
    """The harness was called in a way that cannot work; not something the executor raised."""


def _no_loop() -> None:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ValidationError("an event loop is running here, and the executor is async: use `await harness.arun(...)`")


def _called(executor: Executor, prepared: _Prepared) -> Any:
    given, named = work.arguments(executor, prepared.prompt, prepared.context)
    value = executor(*given, **named)
    if not inspect.isawaitable(value):
        return value
    # Loaded where it is needed: it takes longer to import than all the rest.
    import asyncio

    try:
        _no_loop()
    except ValidationError as error:
        if inspect.iscoroutine(value):
            value.close()
        raise _Misused(str(error)) from None
    return asyncio.run(work.awaited(value))


def _default(executor: Executor) -> str:
    name = work.name_of(executor)
    return f"Use {name}" if name else _UNNAMED


def fitting(task: str, categories: list[str]) -> str:
    """The category whose telling words the task uses most; empty when none or no single one does."""
    said = {stem(word) for word in words(task)}
    shares = {name: _share(name, said) for name in categories}
    best = max(shares.values(), default=0.0)
    first = [name for name, share in shares.items() if share == best]
    return first[0] if best > 0 and len(first) == 1 else ""


def _share(category: str, said: set[str]) -> float:
    parts = {stem(word) for word in words(category.replace("_", " ")) if word not in STOP}
    telling = parts - _HOLLOW or parts
    return len(telling & said) / len(telling) if telling else 0.0


def create_harness(
    domain: str | DomainSchema | MemorySchema,
    agent: str | Agent,
    alma: ALMA | None = None,
    *,
    setting: Setting | None = None,
    executor: Executor | None = None,
) -> Harness:
    """A harness for an agent in a domain: the name of a schema of `alma.domains`, a schema, or a `MemorySchema`.

    Without a memory the one that is configured here is opened, and closed with the harness.
    """
    who = agent if isinstance(agent, Agent) else Agent(agent)
    held = Holder(alma)
    try:
        schema = _schema(domain, held.alma)
        return Harness(who, schema, held.alma, setting=setting, executor=executor, owns_memory=held.owned)
    except BaseException:
        held.close()
        raise


def _schema(domain: str | DomainSchema | MemorySchema, alma: ALMA) -> MemorySchema:
    if isinstance(domain, MemorySchema):
        return domain
    from ..domains import DomainMemoryFactory, DomainSchema

    found = DomainMemoryFactory(alma).get_schema(validate.name("domain", domain)) if isinstance(domain, str) else domain
    if not isinstance(found, DomainSchema):
        raise ValidationError(f"domain must be a schema or the name of one, not {type(domain).__name__}")
    return MemorySchema(found.name, tuple(found.learning_categories), tuple(found.excluded_categories))
