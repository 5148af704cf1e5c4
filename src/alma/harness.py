"""The harness: memory goes into the prompt of any agent, and how its work went is learned.

from alma import ALMA, Context, create_harness

harness = create_harness("coding", "helena", ALMA.from_config(".alma/config.yaml"))
result = harness.run(Context(task="Test the login form"), executor=my_agent)

A harness has four parts: the setting is fixed, the context is new each time, the agent does the work, and the memory
schema says what of the memory belongs to it. `learns` does the same for the calls of a function of one's own.
"""

from __future__ import annotations

import functools
import inspect
import json
import logging
import re
import reprlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from string import Formatter
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .engine import validate
from .engine.admit import allow, clean
from .errors import ALMAError, EmbeddingError, StorageError, ValidationError, unknown
from .opening import Holder
from .text import STOP, shorten, stem, words
from .types.kinds import MemoryType, Outcome, Result
from .types.scope import MemoryScope, plain
from .types.slice import MemorySlice

if TYPE_CHECKING:
    from .domains import DomainSchema
    from .memory import ALMA

__all__ = [
    "Agent", "Context", "Harness", "HarnessResult", "MemorySchema", "RunResult", "Setting", "Tool", "create_harness",
    "learns",
]  # fmt: skip

P = ParamSpec("P")
R = TypeVar("R")
Executor = Callable[..., Any]
Judge = Callable[[Any], "bool | str"]
"""Whether what was returned is a success: True, False or 'partial'."""
Wording = str | Callable[..., str] | None
"""A text, in which `{name}` stands for an argument; or a function of the call's arguments."""

_LOG = logging.getLogger("alma")
_ERROR_CHARS = 2_000
_STRATEGY_CHARS = 2_000
_TASK_CHARS = 400
_ARGUMENT_CHARS = 60
_READ_CHARS = 2_000
_LOOP_RUNS = "an event loop is running here, and the executor is async: use `await harness.arun(...)`"
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
# Cut only where no secret can be cut in two: what is shown is far shorter.
_REPR = reprlib.Repr()
_REPR.maxlevel = 3
_REPR.maxstring = _REPR.maxother = _READ_CHARS
# What most categories are called; sharing one of these says nothing about a task.
_HOLLOW = frozenset(
    map(stem, "pattern strategy technique selection handling design practice method approach timing response".split())
)


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str = ""

    def __post_init__(self) -> None:
        validate.name("tool name", self.name)


@dataclass(frozen=True, slots=True)
class Setting:
    """What is the same in every run."""

    tools: Iterable[Tool | str] = ()
    constraints: Iterable[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """What the agent should know about where it works, by name: `{"python": "3.12"}`."""

    def __post_init__(self) -> None:
        if isinstance(self.tools, str) or isinstance(self.constraints, str):
            raise ValidationError("tools and constraints must be lists, not one text")
        object.__setattr__(self, "tools", tuple(Tool(one) if isinstance(one, str) else one for one in self.tools))
        object.__setattr__(self, "constraints", tuple(validate.text("constraint", one) for one in self.constraints))
        if not isinstance(self.environment, Mapping):
            raise ValidationError(f"environment must be a mapping, not {type(self.environment).__name__}")


@dataclass(frozen=True, slots=True)
class Context:
    """What one run is about."""

    task: str
    project_id: str | None = None
    """The project the task is about. It is told to the executor and kept with the outcome; which memory is used is
    decided by the memory that the harness was given."""
    user_id: str | None = None
    session_id: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    constraints: Iterable[str] = ()
    task_type: str | None = None
    """One of the domain's learning categories; None: the one whose words the task uses, if there is one."""
    strategy: str | None = None
    """How the task is to be done, when that is known before."""

    def __post_init__(self) -> None:
        validate.text("task", self.task)
        for label in ("project_id", "user_id", "session_id", "task_type"):
            value = getattr(self, label)
            if value is not None:
                validate.name(label, value)
        if self.strategy is not None:
            validate.text("strategy", self.strategy)
        if not isinstance(self.inputs, Mapping):
            raise ValidationError(f"inputs must be a mapping, not {type(self.inputs).__name__}")
        if isinstance(self.constraints, str):
            raise ValidationError("constraints must be a list, not one text")
        object.__setattr__(self, "constraints", tuple(validate.text("constraint", one) for one in self.constraints))


@dataclass(frozen=True, slots=True)
class Agent:
    """Who does the work, and what it may learn."""

    name: str
    role: str = ""
    scope: MemoryScope | None = None
    """None: as it is declared in the memory's configuration."""

    def __post_init__(self) -> None:
        validate.name("agent", self.name)


@dataclass(frozen=True, slots=True)
class MemorySchema:
    """What a domain learns, and what of its memory is put before the agent."""

    domain: str
    categories: tuple[str, ...] = ()
    """What may be learned; empty: anything that is not excluded."""
    excluded: tuple[str, ...] = ()
    inject: Iterable[MemoryType | str] | None = None
    """Which types of memory go into the prompt; None: all."""
    top_k: int | None = None
    max_tokens: int = 2000
    """So long may the memories in the prompt be."""

    def __post_init__(self) -> None:
        validate.name("domain", self.domain)
        validate.whole("max_tokens", self.max_tokens, 1, 1_000_000)
        if self.inject is not None:
            types = tuple(validate.choice("type", one, MemoryType) for one in validate.names("inject", self.inject))
            object.__setattr__(self, "inject", types)

    def allows(self, category: str, scope: MemoryScope) -> bool:
        """Whether the agent may learn it here: of the domain or declared for the agent, and forbidden by nobody."""
        known = {plain(one) for one in (*self.categories, *scope.can_learn)}
        excluded = plain(category) in map(plain, self.excluded)
        return not excluded and scope.is_allowed(category) and (not self.categories or plain(category) in known)

    def category(self, given: str, scope: MemoryScope) -> str:
        """A category as the domain spells it, or an error that names the valid ones."""
        known = {plain(one): one for one in (*scope.can_learn, *self.categories)}
        if self.allows(given, scope):
            return known.get(plain(given), given)
        valid = [one for one in known.values() if self.allows(one, scope)]
        forbidden = ", ".join((*self.excluded, *scope.cannot_learn))
        what = f"task_type of {scope.agent_name!r} in the domain {self.domain!r}"
        raise ValidationError(unknown(what, given, valid or [f"anything but {forbidden}"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessResult:
    """What an executor may return to say more than its output."""

    output: Any = None
    success: bool = True
    outcome: str | None = None
    """'success', 'partial' or 'failure'; None: as `success` says."""
    strategy: str | None = None
    error: str | None = None
    feedback: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a run went."""

    success: bool | None
    """None: nothing was executed, or the executor's report could not be understood."""
    output: Any = None
    prompt: str
    memories: MemorySlice | None = None
    """None: they could not be read."""
    outcome: Outcome | None = None
    """What was learned; None: nothing was."""
    strategy: str | None = None
    error: str | None = None
    """Why it failed, without secrets."""
    exception: Exception | None = field(default=None, repr=False)
    """What the executor raised."""
    duration_ms: int | None = None
    retrieval_id: str | None = None
    problem: str | None = None
    """What the memory could not do. The executor's result is not touched by it."""


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
        if chosen is not None and is_async(chosen) and _has_loop():
            raise ValidationError(_LOOP_RUNS)
        run = _Run(self, context, chosen, strategy, success)
        if chosen is None:
            return run.waiting
        args, kwargs = bind_executor(chosen, run.waiting.prompt, context)
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
        args, kwargs = bind_executor(chosen, run.waiting.prompt, context)
        try:
            value = chosen(*args, **kwargs) if is_async(chosen) else await asyncio.to_thread(chosen, *args, **kwargs)
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
        self._usual = f"Use {name}" if executor and (name := find_name(executor)) else "Do it without a named strategy"
        self._judge = judge
        self._category = self._find_category()
        if executor is not None:
            bind_executor(executor, "", context)
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
        took = elapsed_ms(self._began)
        report = HarnessResult(success=False, outcome=Result.FAILURE, error=describe_error(error))
        return replace(self._learn(report, took), exception=error)

    def finish(self, value: Any) -> RunResult:
        took = elapsed_ms(self._began)
        try:
            return self._learn(read_result(value, self._judge), took)
        except ValidationError as error:
            problem = self._join_problems(f"nothing was learned: {error}")
            return replace(self.waiting, output=value, duration_ms=took, problem=problem)

    def _learn(self, report: HarnessResult, took: int) -> RunResult:
        context, harness = self._context, self._harness
        strategy = clean_text(report.strategy or self._strategy, _STRATEGY_CHARS) or self._usual
        error = None if report.error is None else clean_text(str(report.error), _STRATEGY_CHARS)
        feedback = None if report.feedback is None else clean_text(report.feedback, _STRATEGY_CHARS)
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
        outcome, problem = record_outcome(harness.alma, fields)
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
    tools = [tool for tool in setting.tools if isinstance(tool, Tool)]
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
    from .domains import DomainMemoryFactory, DomainSchema

    who = agent if isinstance(agent, Agent) else Agent(agent)
    holder = Holder(alma)
    try:
        if isinstance(domain, str):
            domain = DomainMemoryFactory(holder.alma).get_schema(validate.name("domain", domain))
        if isinstance(domain, DomainSchema):
            domain = MemorySchema(domain.name, tuple(domain.learning_categories), tuple(domain.excluded_categories))
        if not isinstance(domain, MemorySchema):
            raise ValidationError(f"domain must be a schema or the name of one, not {type(domain).__name__}")
        return Harness(who, domain, holder.alma, setting=setting, executor=executor, owns_memory=holder.owned)
    except BaseException:
        holder.close()
        raise


# -- calling whatever does the work, reading how it went, and recording that


def is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004 - not whether it can be called, but what that gives
    )


def find_name(function: Callable[..., Any]) -> str:
    """Return what people would call it; empty when it has no name of its own."""
    inner = getattr(function, "func", function)
    name = getattr(inner, "__name__", None) or type(inner).__name__
    return "" if name in ("<lambda>", "function", "partial") else str(name)


def find_signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """Return the signature; None for builtins that have none."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def bind_executor(executor: object, prompt: str, context: Context) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return what to call it with: the prompt, and the context where there is a place for it."""
    if not callable(executor):
        raise ValidationError(f"executor must be something that can be called, not {type(executor).__name__}")
    signature = find_signature(executor)
    if signature is None:
        return (prompt,), {}
    parameters = list(signature.parameters.values())
    placed = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    later = placed[2:] + [one for one in parameters if one.kind is one.KEYWORD_ONLY]
    open_ended = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    if any(one.default is one.empty and one.name != "context" for one in later) or not (placed or open_ended):
        raise ValidationError(
            f"executor must take the prompt, or the prompt and the context; {find_name(executor) or 'it'} takes "
            f"({', '.join(one.name for one in parameters)})"
        )
    if any(one.default is one.empty or one.name == "context" for one in placed[1:2]):
        return (prompt, context), {}
    return (prompt,), {"context": context} if any(one.name == "context" for one in later) else {}


def read_result(value: Any, judge: Judge | None = None) -> HarnessResult:
    """Return what a result says, with its outcome: a plain value is the output of a success, unless `judge` sees it
    otherwise."""
    if isinstance(value, Mapping) and ("success" in value or "outcome" in value):
        success = value.get("success", value.get("outcome") != Result.FAILURE)
        if not isinstance(success, bool):
            raise ValidationError(f"the executor's result says success={success!r}; it must be True or False")
        report = HarnessResult(
            output=value.get("output"),
            success=success,
            outcome=value.get("outcome"),
            strategy=value.get("strategy") or value.get("strategy_used"),
            error=value.get("error") or value.get("error_message"),
            feedback=value.get("feedback"),
        )
    else:
        report = value if isinstance(value, HarnessResult) else HarnessResult(output=value)
    result = _check_report(report)
    if judge is not None and result is not Result.FAILURE:
        result = judge_output(judge, report.output)
    return replace(report, outcome=result)


def _check_report(report: HarnessResult) -> Result:
    for label in ("strategy", "feedback"):
        text = getattr(report, label)
        if text is not None and not isinstance(text, str):
            raise ValidationError(f"the executor's result has a {label} that is not text, but {type(text).__name__}")
    if report.outcome is None:
        return Result.SUCCESS if report.success else Result.FAILURE
    result = validate.choice("outcome", report.outcome, Result)
    if (report.success, result) in ((True, Result.FAILURE), (False, Result.SUCCESS)):
        raise ValidationError(
            f"the executor's result says success={report.success} and outcome={str(result)!r}: it cannot be both"
        )
    return result


def judge_output(judge: Judge | None, output: Any) -> Result:
    """Return how the caller's own function sees it; raise ValidationError when it cannot tell."""
    try:
        verdict = True if judge is None else judge(output)
    except Exception as error:  # noqa: BLE001 - it is the caller's, and the work it judges is done and must not be lost
        raise ValidationError(f"the function that judges success raised {error!r}") from None
    if isinstance(verdict, bool):
        return Result.SUCCESS if verdict else Result.FAILURE
    if verdict not in list(Result):
        raise ValidationError(f"success must give True, False, 'success', 'partial' or 'failure', not {verdict!r}")
    return Result(verdict)


def elapsed_ms(began: float) -> int:
    """Return the milliseconds since a value of `time.perf_counter`."""
    return max(0, round((time.perf_counter() - began) * 1000))


def describe_error(error: BaseException) -> str:
    """Return an exception in a line, whatever its own text does; without secrets."""
    from traceback import format_exception_only

    return clean_text("".join(format_exception_only(error)), _ERROR_CHARS)


def clean_text(text: str, most: int) -> str:
    """Return a text from outside as it may be stored: valid, without colours and secrets, not too long."""
    valid = text[: 4 * most].encode("utf-8", "replace").decode()
    return shorten(clean(validate.output("text", valid) or ""), most)


def record_outcome(alma: ALMA, fields: Mapping[str, Any]) -> tuple[Outcome | None, str | None]:
    """Return what was learned, or why nothing was: work that is done is not lost because it could not be recorded."""
    try:
        return alma.learn(**fields), None
    except ALMAError as error:
        problem = f"the outcome could not be learned: {error}"
        _LOG.warning("%s", problem)
        return None, problem


# -- a function of one's own whose calls are learned from


def learns(
    alma: ALMA,
    agent: str,
    task: Wording = None,
    strategy: Wording = None,
    task_type: str | None = None,
    reraise: bool = True,
    *,
    success: Judge | None = None,
    user_id: str | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Learn from each call of a function, sync or async: returned is a success, raised a failure.

    The task is the first line of its docstring (else its name) with the call's arguments, the strategy its name;
    give a text in which `{argument}` is filled in, or a function of the arguments, to say it better. `success` judges
    what is returned: True, False or 'partial'. An exception is raised on unchanged; with `reraise=False` the call
    returns None instead. A memory that cannot be written never changes what the call gives.
    """
    if not isinstance(agent, str):
        raise ValidationError(f"learns needs the agent's name: @alma.learns(agent='dev'), not {agent!r}")
    name = agent
    if hasattr(alma, "engine"):
        # Where the memory is served elsewhere, the server says with each outcome whether the agent may learn.
        name = alma.engine.agent(agent)
        allow(alma.engine, name, task_type or "")
    fields = {"agent": name, "task_type": task_type, "user_id": user_id}

    def decorate(function: Callable[P, R]) -> Callable[P, Any]:
        recorder = _Recorder(alma, fields, function, {"task": task, "strategy": strategy}, success)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
            words, began = recorder.describe_call(args, kwargs), time.perf_counter()
            try:
                value = function(*args, **kwargs)
            except Exception as error:
                recorder.learn(words, began, None, error)
                if reraise:
                    raise
                return None
            recorder.learn(words, began, value)
            return value

        @functools.wraps(function)
        async def call_async(*args: P.args, **kwargs: P.kwargs) -> Any:
            import asyncio

            words, began = recorder.describe_call(args, kwargs), time.perf_counter()
            try:
                value = await function(*args, **kwargs)  # type: ignore[misc]
            except Exception as error:
                await asyncio.to_thread(recorder.learn, words, began, None, error)
                if reraise:
                    raise
                return None
            await asyncio.to_thread(recorder.learn, words, began, value)
            return value

        return call_async if is_async(function) else call

    return decorate


class _Recorder:
    """Puts the calls of one function into words, from its own words and the arguments, and learns how they went."""

    def __init__(
        self,
        alma: ALMA,
        fields: Mapping[str, Any],
        function: Callable[..., Any],
        wordings: Mapping[str, Wording],
        judge: Judge | None,
    ) -> None:
        self._name = find_name(function) or "function"
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ValidationError(f"{self._name} yields; only a function that returns can be learned from")
        self._about = (inspect.getdoc(function) or "").strip().partition("\n")[0] or self._name.replace("_", " ")
        self._signature = find_signature(function)
        self._alma, self._fields, self._wordings, self._judge = alma, fields, wordings, judge
        for label, wording in wordings.items():
            if wording is not None and not callable(wording):
                self._check_template(label, wording)

    def learn(self, words: dict[str, str] | None, began: float, value: Any, error: Exception | None = None) -> None:
        """Record a call, unless its arguments did not fit: that is a slip of the caller, not about the task."""
        try:
            result = Result.FAILURE if error else judge_output(self._judge, value)
        except ValidationError as problem:
            _LOG.warning("nothing was learned: %s", problem)
            return
        if words is not None:
            ended = {"outcome": str(result), "duration_ms": elapsed_ms(began)}
            failed = {"error_message": describe_error(error)} if error else {}
            record_outcome(self._alma, {**self._fields, **words, **ended, **failed})

    def _check_template(self, label: str, template: object) -> None:
        """Raise if a text names an argument that the function does not have: now, and not when it is called."""
        if not isinstance(template, str) or not template.strip():
            raise ValidationError(f"{label} must be a text or a function of the arguments, not {template!r}")
        known = list(self._signature.parameters) if self._signature else []
        try:
            names = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
        except ValueError as error:
            raise ValidationError(f"{label} is not a text with {{names}} in it: {error}") from None
        for name in names:
            if name not in known:
                raise ValidationError(unknown(f"argument in the {label} of {self._name}", name, known))

    def describe_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, str] | None:
        """Return the words for a call, before it can change its arguments; None if it cannot be called so."""
        values: Mapping[str, Any] = {}
        if self._signature is not None:
            try:
                bound = self._signature.bind(*args, **kwargs)
            except TypeError:
                return None
            bound.apply_defaults()
            values = bound.arguments
        words = {"task": self._about, "strategy": f"Use {self._name}"}
        for label, wording in self._wordings.items():
            if callable(wording):
                words[label] = str(wording(*args, **kwargs))
            elif wording is not None:
                brief = {name: _shorten_value(name, value) for name, value in values.items()}
                words[label] = Formatter().vformat(wording, (), brief)
        shown_names = [name for name in values if name not in ("self", "cls")]
        if shown_names and self._wordings["task"] is None:
            shown = (f"{name}={_shorten_value(name, values[name], quoted=True)}" for name in shown_names)
            words["task"] += f" ({', '.join(shown)})"
        strategy = clean_text(words["strategy"], _TASK_CHARS) or f"Use {self._name}"
        return {"task": clean_text(words["task"], _TASK_CHARS) or self._name, "strategy_used": strategy}


def _shorten_value(name: str, value: object, quoted: bool = False) -> str:
    """Return an argument in a few words that are the same for every call with the like: no address, no secret."""
    if isinstance(value, str):
        # By name and value together: a password gives itself away by what it is called.
        text = shorten(str(clean({name: value[:_READ_CHARS]}).get(name, "")), _ARGUMENT_CHARS)
        return repr(text) if quoted else text
    return shorten(str(clean(_ADDRESS.sub("", _REPR.repr(value)))), _ARGUMENT_CHARS)
