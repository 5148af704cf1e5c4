"""`Harness`: memory goes into the prompt, any callable does the work, and how it went is learned."""

from __future__ import annotations

import inspect
import json
import logging
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..engine import validate
from ..engine.admit import allow
from ..errors import EmbeddingError, StorageError, ValidationError
from ..opening import Holder
from ..text import STOP, stem, words
from ..types.kinds import MemoryType, Result
from ..types.scope import MemoryScope
from . import calls
from .calls import Executor, Judge
from .types import Agent, Context, HarnessResult, MemorySchema, RunResult, Setting, Tool

if TYPE_CHECKING:
    from ..core import ALMA
    from ..domains import DomainSchema

_LOG = logging.getLogger("alma")
_STRATEGY_CHARS = 2_000
_LOOP_RUNS = "an event loop is running here, and the executor is async: use `await harness.arun(...)`"
# What most categories are called; sharing one of these says nothing about a task.
_HOLLOW = frozenset(
    map(stem, "pattern strategy technique selection handling design practice method approach timing response".split())
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
        if chosen is not None and calls.is_async(chosen) and _has_loop():
            raise ValidationError(_LOOP_RUNS)
        run = _Run(self, context, chosen, strategy, success)
        if chosen is None:
            return run.waiting
        args, kwargs = calls.bind_executor(chosen, run.waiting.prompt, context)
        try:
            value = chosen(*args, **kwargs)
            is_pending = inspect.isawaitable(value)
            if is_pending and not _has_loop():
                # Loaded where it is needed: it takes longer to import than all the rest.
                import asyncio

                value, is_pending = asyncio.run(_wait_for(value)), False
        except Exception as error:  # noqa: BLE001 - whatever the executor raises is how the task went
            return run.fail(error)
        if is_pending:
            if inspect.iscoroutine(value):
                value.close()
            raise ValidationError(_LOOP_RUNS)
        return run.finish(value)

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
        run = await asyncio.to_thread(_Run, self, context, chosen, strategy, success)
        if chosen is None:
            return run.waiting
        args, kwargs = calls.bind_executor(chosen, run.waiting.prompt, context)
        try:
            value = (
                chosen(*args, **kwargs) if calls.is_async(chosen) else await asyncio.to_thread(chosen, *args, **kwargs)
            )
            value = await value if inspect.isawaitable(value) else value
        except Exception as error:  # noqa: BLE001 - whatever the executor raises is how the task went
            return await asyncio.to_thread(run.fail, error)
        return await asyncio.to_thread(run.finish, value)


class _Run:
    """One run: what can be wrong with it is found before anything is executed."""

    def __init__(
        self, harness: Harness, context: Context, executor: Executor | None, strategy: str | None, judge: Judge | None
    ) -> None:
        if not isinstance(context, Context):
            raise ValidationError(f"run takes Context(task=...), not {type(context).__name__}")
        self._harness = harness
        self._context = context
        self._strategy = strategy or context.strategy or ""
        self._usual = (
            f"Use {name}" if executor and (name := calls.find_name(executor)) else "Do it without a named strategy"
        )
        self._judge = judge
        self._category = self._find_category()
        if executor is not None:
            calls.bind_executor(executor, "", context)
        self.waiting = self._retrieve_memories()
        self._began = time.perf_counter()

    def _find_category(self) -> str:
        """Return the learning category of the task: the one given, else the one whose words it uses."""
        agent, schema, given = self._harness.agent, self._harness.schema, self._context.task_type
        scope = agent.scope or MemoryScope(agent.name)
        if given is None:
            known = dict.fromkeys((*schema.categories, *scope.can_learn))
            return match_category(self._context.task, [one for one in known if schema.allows(one, scope)])
        category = schema.category(given, scope)
        allow(self._harness.alma.engine, agent.name, category)
        return category

    def _retrieve_memories(self) -> RunResult:
        """Return the run before its work is done, with its prompt."""
        agent, schema, context = self._harness.agent, self._harness.schema, self._context
        types = None if schema.inject is None else [MemoryType(one) for one in schema.inject]
        memories, problem = None, None
        try:
            memories = self._harness.alma.retrieve(
                task=context.task, agent=agent.name, user_id=context.user_id, top_k=schema.top_k, types=types
            )
        except (StorageError, EmbeddingError) as error:
            problem = f"the memories could not be read: {error}"
            _LOG.warning("%s", problem)
        knowledge = memories.to_prompt(schema.max_tokens) if memories is not None else ""
        prompt = build_prompt(self._harness.setting, agent, context, knowledge)
        retrieval = memories.retrieval_id if memories is not None else None
        return RunResult(success=None, prompt=prompt, memories=memories, retrieval_id=retrieval, problem=problem)

    def fail(self, error: Exception) -> RunResult:
        took = calls.elapsed_ms(self._began)
        report = HarnessResult(success=False, outcome=Result.FAILURE, error=calls.describe_error(error))
        return replace(self._learn(report, took), exception=error)

    def finish(self, value: Any) -> RunResult:
        took = calls.elapsed_ms(self._began)
        try:
            return self._learn(calls.read_result(value, self._judge), took)
        except ValidationError as error:
            problem = self._join_problems(f"nothing was learned: {error}")
            return replace(self.waiting, output=value, duration_ms=took, problem=problem)

    def _learn(self, report: HarnessResult, took: int) -> RunResult:
        context, harness = self._context, self._harness
        strategy = calls.clean_text(report.strategy or self._strategy, _STRATEGY_CHARS) or self._usual
        error = None if report.error is None else calls.clean_text(str(report.error), _STRATEGY_CHARS)
        feedback = None if report.feedback is None else calls.clean_text(report.feedback, _STRATEGY_CHARS)
        about = {"domain": harness.schema.domain, "project_id": context.project_id, "session_id": context.session_id}
        fields = {
            "agent": harness.agent.name,
            "task": context.task,
            "outcome": str(report.outcome),
            "strategy_used": strategy,
            "task_type": self._category or None,
            "duration_ms": took,
            "error_message": error,
            "feedback": feedback,
            "retrieval_id": self.waiting.retrieval_id,
            "user_id": context.user_id,
            "metadata": {name: value for name, value in about.items() if value},
        }
        outcome, problem = calls.record_outcome(harness.alma, fields)
        return replace(
            self.waiting,
            success=report.outcome is Result.SUCCESS,
            output=report.output,
            outcome=outcome,
            strategy=strategy,
            error=error,
            duration_ms=took,
            problem=self._join_problems(problem),
        )

    def _join_problems(self, problem: str | None) -> str | None:
        return "; ".join(filter(None, (self.waiting.problem, problem))) or None


def build_prompt(setting: Setting, agent: Agent, context: Context, knowledge: str) -> str:
    """Return the prompt of a run: who, where, what, and what was learned before."""
    tools = [tool if isinstance(tool, Tool) else Tool(tool) for tool in setting.tools]
    inputs = [
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)}"
        for name, value in context.inputs.items()
    ]
    sections = {
        "Setting": [
            *_list_lines("Environment", (f"{name}: {value}" for name, value in setting.environment.items())),
            *_list_lines("Tools", (f"{one.name}: {one.description}" if one.description else one.name for one in tools)),
            *_list_lines("Constraints", (*setting.constraints, *context.constraints)),
        ],
        "Your Task": [
            context.task.strip(),
            *([f"Project: {context.project_id}"] if context.project_id else []),
            *([f"How: {context.strategy}"] if context.strategy else []),
            *_list_lines("Inputs", inputs),
        ],
        "Knowledge from Past Runs": [knowledge] if knowledge else [],
    }
    parts = [f"You are {agent.name}. {agent.role}".strip()] if agent.role else []
    return "\n\n".join([*parts, *("\n".join((f"## {name}", *lines)) for name, lines in sections.items() if lines)])


def _list_lines(heading: str, items: Iterable[str]) -> list[str]:
    lines = [f"- {item}" for item in items]
    return [f"{heading}:", *lines] if lines else []


def _has_loop() -> bool:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _wait_for(value: Any) -> Any:
    return await value


def match_category(task: str, categories: list[str]) -> str:
    """Return the category whose telling words the task uses most; empty when none or no single one does."""
    used = {stem(word) for word in words(task)}
    shares = {}
    for name in categories:
        parts = {stem(word) for word in words(name.replace("_", " ")) if word not in STOP}
        telling = parts - _HOLLOW or parts
        shares[name] = len(telling & used) / len(telling) if telling else 0.0
    best = max(shares.values(), default=0.0)
    first = [name for name, share in shares.items() if share == best]
    return first[0] if best > 0 and len(first) == 1 else ""


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
    holder = Holder(alma)
    try:
        schema = _find_schema(domain, holder.alma)
        return Harness(who, schema, holder.alma, setting=setting, executor=executor, owns_memory=holder.owned)
    except BaseException:
        holder.close()
        raise


def _find_schema(domain: str | DomainSchema | MemorySchema, alma: ALMA) -> MemorySchema:
    if isinstance(domain, MemorySchema):
        return domain
    from ..domains import DomainMemoryFactory, DomainSchema

    schema = (
        DomainMemoryFactory(alma).get_schema(validate.name("domain", domain)) if isinstance(domain, str) else domain
    )
    if not isinstance(schema, DomainSchema):
        raise ValidationError(f"domain must be a schema or the name of one, not {type(domain).__name__}")
    return MemorySchema(schema.name, tuple(schema.learning_categories), tuple(schema.excluded_categories))
