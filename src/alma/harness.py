"""The harness: add memories to the prompt of any agent, and learn from the outcome.

from alma import ALMA, Context, create_harness

harness = create_harness("coding", "helena", ALMA.from_config(".alma/config.yaml"))
result = harness.run(Context(task="Test the login form"), executor=my_agent)

A harness has four parts: a fixed setting, a context for each run, an agent, and a memory schema that selects memories.
`learns` does the same for the calls of a function.
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
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .engine import validate
from .engine.admit import allow, clean
from .errors import ALMAError, EmbeddingError, StorageError, ValidationError, unknown
from .opening import OwnsMemory
from .text import shorten
from .types.kinds import MemoryType, Outcome, Result
from .types.query import MemoryScope, plain
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
Judge = Callable[[Any], "bool | str"]  # Judges an output: True, False or 'partial'.
# A text with `{name}` placeholders for arguments, or a function of the call's arguments.
Wording = str | Callable[..., str] | None

_LOG = logging.getLogger("alma")
_MOST_CHARS = 2_000
_TASK_CHARS = 400
_ARGUMENT_CHARS = 60
_READ_CHARS = 2_000
# Names of `learn` that an executor's dict may use.
_SHORT_NAMES = {"strategy_used": "strategy", "error_message": "error"}
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
# Longer than what is shown, so that no secret is cut in two before it is detected.
_REPR = reprlib.Repr()
_REPR.maxlevel = 3
_REPR.maxstring = _REPR.maxother = _READ_CHARS


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the agent may use."""

    name: str
    description: str = ""

    def __post_init__(self) -> None:
        validate.name("tool name", self.name)


@dataclass(frozen=True, slots=True)
class Setting:
    """The environment of an agent, which is the same in every run."""

    tools: Iterable[Tool | str] = ()
    constraints: Iterable[str] = ()
    # Facts about the environment by name, such as `{"python": "3.12"}`.
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tools = validate.items("tools", self.tools)
        object.__setattr__(self, "tools", tuple(Tool(one) if isinstance(one, str) else one for one in tools))
        object.__setattr__(self, "constraints", _check_texts("constraints", self.constraints))
        validate.mapping("environment", self.environment)


@dataclass(frozen=True, slots=True)
class Context:
    """The task of one run, and its circumstances."""

    task: str
    # The project of the task. It is passed to the executor and stored with the outcome. It does not select a memory.
    project_id: str | None = None
    user_id: str | None = None
    session_id: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    constraints: Iterable[str] = ()
    task_type: str | None = None  # One of the domain's learning categories.
    strategy: str | None = None  # How to do the task, if that is known in advance.

    def __post_init__(self) -> None:
        validate.text("task", self.task)
        for label in ("project_id", "user_id", "session_id", "task_type", "strategy"):
            if getattr(self, label) is not None:
                validate.text(label, getattr(self, label))
        validate.mapping("inputs", self.inputs)
        object.__setattr__(self, "constraints", _check_texts("constraints", self.constraints))


def _check_texts(label: str, value: object) -> tuple[str, ...]:
    return tuple(validate.text(label, one) for one in validate.items(label, value, "texts"))


@dataclass(frozen=True, slots=True)
class Agent:
    """The agent that does the work, and what it may learn."""

    name: str
    role: str = ""
    scope: MemoryScope | None = None  # None: as declared in the configuration.

    def __post_init__(self) -> None:
        validate.name("agent", self.name)


@dataclass(frozen=True, slots=True)
class MemorySchema:
    """What a domain learns, and which memories go into the prompt."""

    domain: str
    categories: tuple[str, ...] = ()  # What may be learned; empty for anything that is not excluded.
    excluded: tuple[str, ...] = ()
    inject: Iterable[MemoryType | str] | None = None  # Memory types for the prompt; None for all.
    top_k: int | None = None
    max_tokens: int = 2000  # Token budget of the memories in the prompt.

    def __post_init__(self) -> None:
        validate.name("domain", self.domain)
        validate.whole("max_tokens", self.max_tokens, 1, 1_000_000)
        if self.inject is not None:
            types = tuple(validate.choice("type", one, MemoryType) for one in validate.names("inject", self.inject))
            object.__setattr__(self, "inject", types)

    def allows(self, category: str, scope: MemoryScope) -> bool:
        """Return whether the agent may learn a category in this domain."""
        declared = (*self.categories, *scope.can_learn) if self.categories else ()
        return scope.is_allowed(category) and MemoryScope(self.domain, declared, self.excluded).is_allowed(category)

    def category(self, name: str, scope: MemoryScope) -> str:
        """Return a category as the domain spells it. Raise ValidationError that lists the valid ones."""
        spellings = {plain(one): one for one in (*scope.can_learn, *self.categories)}
        if self.allows(name, scope):
            return spellings.get(plain(name), name)
        valid = [one for one in spellings.values() if self.allows(one, scope)]
        forbidden = ", ".join((*self.excluded, *scope.cannot_learn))
        what = f"task_type of {scope.agent_name!r} in the domain {self.domain!r}"
        raise ValidationError(unknown(what, name, valid or [f"anything but {forbidden}"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessResult:
    """What an executor may return to report more than its output."""

    output: Any = None
    success: bool = True
    outcome: str | None = None  # 'success', 'partial' or 'failure'; None to use `success`.
    strategy: str | None = None
    error: str | None = None
    feedback: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of a run."""

    success: bool | None  # None if nothing was executed, or the executor's result was invalid.
    output: Any = None
    prompt: str
    memories: MemorySlice | None = None  # None if they could not be read.
    outcome: Outcome | None = None  # The stored outcome; None if nothing was learned.
    strategy: str | None = None
    error: str | None = None  # The error message, without secrets.
    exception: Exception | None = field(default=None, repr=False)  # The exception of the executor.
    duration_ms: int | None = None
    retrieval_id: str | None = None
    problem: str | None = None  # An error of the memory, which does not affect the executor's result.


class Harness(OwnsMemory):
    """Runs tasks of one domain for one agent: retrieves memories before, and learns from the outcome after."""

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
        self.agent = replace(agent, name=name, scope=agent.scope or alma.engine.scopes.of(name))
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
        """Retrieve memories, call the executor with the prompt, and learn from the outcome.

        The executor is called with the prompt, or with the prompt and the context, and may be async. A plain return
        value is the output of a success, unless `success` judges it otherwise; the executor may also return a
        `HarnessResult`, or a dict with `success` or `outcome`. An exception is a failure: it is returned as `error`,
        not raised. The strategy is that of the result, `strategy`, the context's, or the executor's name, in this
        order.

        Without an executor, nothing is executed or learned: the result contains the prompt and the memories, and
        `success` is None.
        """
        waiting, call, finish = self._begin(context, executor or self.executor, strategy, success)
        if call is None:
            return waiting
        try:
            value = call(waiting.prompt)
            is_pending = inspect.isawaitable(value)
            if is_pending and not _has_loop():
                # Imported late because it is slow to import.
                import asyncio

                value, is_pending = asyncio.run(_wait_for(value)), False
        except Exception as error:  # noqa: BLE001 - whatever the executor raises is how the task went
            return finish(None, error)
        if is_pending:
            if inspect.iscoroutine(value):
                value.close()
            raise ValidationError("the executor is async and an event loop is running: use `await harness.arun(...)`")
        return finish(value)

    async def arun(
        self,
        context: Context,
        executor: Executor | None = None,
        *,
        strategy: str | None = None,
        success: Judge | None = None,
    ) -> RunResult:
        """Do the same as `run`, for asyncio.

        The memory and a synchronous executor run in threads. If cancelled, nothing is learned.
        """
        import asyncio

        begin = asyncio.to_thread(self._begin, context, executor or self.executor, strategy, success)
        waiting, call, finish = await begin
        if call is None:
            return waiting
        try:
            value = await asyncio.to_thread(call, waiting.prompt)
            value = await value if inspect.isawaitable(value) else value
        except Exception as error:  # noqa: BLE001 - whatever the executor raises is how the task went
            return await asyncio.to_thread(finish, None, error)
        return await asyncio.to_thread(finish, value)

    def _begin(
        self, context: Context, executor: Executor | None, strategy: str | None, judge: Judge | None
    ) -> tuple[RunResult, Executor | None, Callable[..., RunResult]]:
        """Return the prompt, the executor to call with it, and a function that learns from its result.

        Invalid arguments raise before anything is executed.
        """
        if not isinstance(context, Context):
            raise ValidationError(f"run takes Context(task=...), not {type(context).__name__}")
        call, category = executor and bind_executor(executor, context), None
        if context.task_type is not None:
            category = self.schema.category(context.task_type, self.agent.scope or MemoryScope(self.agent.name))
            allow(self.alma.engine, self.agent.name, category)
        schema, memories, problem = self.schema, None, None
        types = None if schema.inject is None else [MemoryType(one) for one in schema.inject]
        try:
            memories = self.alma.retrieve(
                task=context.task, agent=self.agent.name, user_id=context.user_id, top_k=schema.top_k, types=types
            )
        except (StorageError, EmbeddingError) as error:
            problem = f"cannot read the memories: {error}"
            _LOG.warning("%s", problem)
        knowledge = "" if memories is None else memories.to_prompt(schema.max_tokens)
        retrieval = None if memories is None else memories.retrieval_id
        prompt = build_prompt(self.setting, self.agent, context, knowledge)
        waiting = RunResult(success=None, prompt=prompt, memories=memories, retrieval_id=retrieval, problem=problem)
        usual = f"Use {name}" if executor and (name := find_name(executor)) else "Do it without a named strategy"
        how = clean_text(strategy or context.strategy or "") or usual
        finish = functools.partial(self._finish, context, waiting, category, how, judge, time.perf_counter())
        return waiting, call, finish

    def _finish(
        self,
        context: Context,
        waiting: RunResult,
        category: str | None,
        strategy: str,
        judge: Judge | None,
        began: float,
        value: Any,
        raised: Exception | None = None,
    ) -> RunResult:
        """Learn from the outcome of a run."""
        took = round((time.perf_counter() - began) * 1000)
        report, outcome, flaw = HarnessResult(success=False, output=value), None, ""
        result = Result.FAILURE if raised else None
        try:
            if raised is None:
                report, result = read_result(value, judge)
        except ValidationError as error:
            flaw = f"nothing was learned: {error}"
        strategy = clean_text(report.strategy or "") or strategy
        message = describe_error(raised) if raised else None if report.error is None else clean_text(str(report.error))
        about = {"domain": self.schema.domain, "project_id": context.project_id, "session_id": context.session_id}
        if result is not None:
            outcome, flaw = record_outcome(
                self.alma,
                agent=self.agent.name,
                task=context.task,
                outcome=str(result),
                strategy_used=strategy,
                task_type=category,
                duration_ms=took,
                error_message=message,
                feedback=None if report.feedback is None else clean_text(report.feedback),
                retrieval_id=waiting.retrieval_id,
                user_id=context.user_id,
                metadata={name: value for name, value in about.items() if value},
            )
        return replace(
            waiting,
            success=None if result is None else result is Result.SUCCESS,
            output=report.output,
            outcome=outcome,
            strategy=None if result is None else strategy,
            error=message,
            exception=raised,
            duration_ms=took,
            problem="; ".join(filter(None, (waiting.problem, flaw))) or None,
        )


def build_prompt(setting: Setting, agent: Agent, context: Context, knowledge: str) -> str:
    """Return the prompt of a run: role, setting, task and memories."""
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


def create_harness(
    domain: str | DomainSchema | MemorySchema,
    agent: str | Agent,
    alma: ALMA | None = None,
    *,
    setting: Setting | None = None,
    executor: Executor | None = None,
) -> Harness:
    """Create a harness for an agent in a domain: a schema name of `alma.domains`, a schema or a `MemorySchema`.

    Without `alma`, the memory that is configured here is opened, and closed with the harness.
    """
    from .domains import DomainMemoryFactory, DomainSchema

    who = agent if isinstance(agent, Agent) else Agent(agent)
    holder = OwnsMemory(alma)
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


# -- calling the executor, reading its result, recording the outcome


def find_name(function: Callable[..., Any]) -> str:
    """Return the name of a function; '' if it has none."""
    inner = getattr(function, "func", function)
    name = getattr(inner, "__name__", None) or type(inner).__name__
    return "" if name in ("<lambda>", "function", "partial") else str(name)


def find_signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """Return the signature of a function; None for builtins without one."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def bind_executor(executor: object, context: Context) -> Callable[[str], Any]:
    """Return a function that takes the prompt and calls the executor, with the context if it accepts one."""
    if not callable(executor):
        raise ValidationError(f"executor must be callable, not {type(executor).__name__}")
    signature = find_signature(executor)
    if signature is None:
        return executor
    options = {"context": context} if "context" in signature.parameters else {}
    for args, more in (((), options), ((context,), {})):
        try:
            signature.bind("", *args, **more)
        except TypeError:
            continue
        return lambda prompt, args=args, more=more: executor(prompt, *args, **more)  # type: ignore[misc]
    raise ValidationError(
        f"executor must take the prompt, or the prompt and the context; {find_name(executor) or 'it'} takes {signature}"
    )


def read_result(value: Any, judge: Judge | None = None) -> tuple[HarnessResult, Result]:
    """Return what an executor reported, and the result.

    A plain value is the output of a success, unless `judge` decides otherwise.
    """
    report = value if isinstance(value, HarnessResult) else HarnessResult(output=value)
    if isinstance(value, Mapping) and ("success" in value or "outcome" in value):
        values: dict[str, Any] = {_SHORT_NAMES.get(str(name), str(name)): item for name, item in value.items()}
        values.setdefault("success", values.get("outcome") != Result.FAILURE)
        report = HarnessResult(**{one.name: values[one.name] for one in fields(HarnessResult) if one.name in values})
    texts = (report.strategy, report.feedback)
    if not isinstance(report.success, bool) or not all(one is None or isinstance(one, str) for one in texts):
        raise ValidationError(
            "the executor's result is invalid: success must be a boolean, strategy and feedback must be strings"
        )
    result = Result.SUCCESS if report.success else Result.FAILURE
    if report.outcome is not None:
        result = validate.choice("outcome", report.outcome, Result)
        if (report.success, result) in ((True, Result.FAILURE), (False, Result.SUCCESS)):
            raise ValidationError(
                f"the executor's result contradicts itself: success={report.success}, outcome={str(result)!r}"
            )
    return report, result if judge is None or result is Result.FAILURE else judge_output(judge, report.output)


def judge_output(judge: Judge, output: Any) -> Result:
    """Return the caller's judgement of an output. Raise ValidationError if it fails."""
    try:
        verdict = judge(output)
    except Exception as error:  # noqa: BLE001 - it is the caller's, and the work it judges is done and must not be lost
        raise ValidationError(f"the function that judges success raised {error!r}") from None
    if isinstance(verdict, bool):
        return Result.SUCCESS if verdict else Result.FAILURE
    return validate.choice("success", verdict, Result)


def describe_error(error: BaseException) -> str:
    """Return an exception in one line, without secrets."""
    from traceback import format_exception_only

    return clean_text("".join(format_exception_only(error)))


def clean_text(text: str, most: int = _MOST_CHARS) -> str:
    """Return a text that is safe to store: valid UTF-8, without colors and secrets, and shortened."""
    valid = text[: 4 * most].encode("utf-8", "replace").decode()
    return shorten(clean(validate.output("text", valid) or ""), most)


def record_outcome(alma: ALMA, **fields: Any) -> tuple[Outcome | None, str]:
    """Learn an outcome. Return it, or the reason why it could not be stored."""
    try:
        return alma.learn(**fields), ""
    except ALMAError as error:
        problem = f"cannot learn the outcome: {error}"
        _LOG.warning("%s", problem)
        return None, problem


# -- learning from the calls of a function


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
    """Return a decorator that learns from each call of a function, sync or async. An exception is a failure.

    The task is the first line of the function's docstring (or its name) with the call's arguments, and the strategy is
    its name. To change them, pass a text with `{argument}` placeholders or a function of the arguments. `success`
    judges the returned value: True, False or 'partial'. An exception is raised again; with `reraise=False`, the call
    returns None instead. A memory that cannot be written never changes the result of the call.
    """
    if not isinstance(agent, str):
        raise ValidationError(f"agent must be a name, as in @alma.learns(agent='dev'), not {agent!r}")
    name = agent
    if hasattr(alma, "engine"):
        # For a remote memory, the server checks with each outcome whether the agent may learn.
        name = alma.engine.agent(agent)
        allow(alma.engine, name, task_type or "")
    record = functools.partial(record_outcome, alma, agent=name, task_type=task_type, user_id=user_id)
    learn = functools.partial(_learn_call, record, success)

    def decorate(function: Callable[P, R]) -> Callable[P, Any]:
        describe = _make_describer(function, {"task": task, "strategy": strategy})

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
            words, began = describe(args, kwargs), time.perf_counter()
            try:
                value = function(*args, **kwargs)
            except Exception as error:
                learn(words, began, None, error)
                if reraise:
                    raise
                return None
            learn(words, began, value, None)
            return value

        @functools.wraps(function)
        async def call_async(*args: P.args, **kwargs: P.kwargs) -> Any:
            import asyncio

            words, began = describe(args, kwargs), time.perf_counter()
            try:
                value = await function(*args, **kwargs)  # type: ignore[misc]
            except Exception as error:
                await asyncio.to_thread(learn, words, began, None, error)
                if reraise:
                    raise
                return None
            await asyncio.to_thread(learn, words, began, value, None)
            return value

        # A callable object is async when its `__call__` is.
        candidates = (function, getattr(type(function), "__call__", None))  # noqa: B004 - what it gives, not whether
        return call_async if any(map(inspect.iscoroutinefunction, candidates)) else call

    return decorate


def _learn_call(
    record: Executor, judge: Judge | None, words: Mapping[str, str], began: float, value: Any, error: Exception | None
) -> None:
    # A call with wrong arguments says nothing about the task.
    if not words:
        return
    took = round((time.perf_counter() - began) * 1000)
    try:
        result = Result.FAILURE if error else judge_output(judge, value) if judge else Result.SUCCESS
    except ValidationError as problem:
        _LOG.warning("nothing was learned: %s", problem)
        return
    failed = {"error_message": describe_error(error)} if error else {}
    record(**words, **failed, outcome=str(result), duration_ms=took)


def _make_describer(
    function: Callable[..., Any], wordings: Mapping[str, Wording]
) -> Callable[[tuple[Any, ...], Mapping[str, Any]], dict[str, str]]:
    """Return a function that describes a call of `function` as a task and a strategy.

    A text that names an unknown argument raises ValidationError now, not when the function is called.
    """
    name, signature = find_name(function) or "function", find_signature(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ValidationError(f"{name} is a generator; `learns` supports only functions that return")
    parameters = dict.fromkeys(signature.parameters if signature else (), "")
    for label, wording in wordings.items():
        try:
            if isinstance(wording, str):
                wording.format_map(parameters)
        except (LookupError, ValueError, AttributeError) as error:
            raise ValidationError(
                f"{label} of {name} may only use {{argument}} placeholders for {', '.join(parameters)}: {error!r}"
            ) from None
    about = (inspect.getdoc(function) or "").strip().partition("\n")[0] or name.replace("_", " ")

    def describe(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, str]:
        """Return the words for a call, before it can change its arguments; none if it cannot be called so."""
        values: Mapping[str, Any] = {}
        if signature is not None:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError:
                return {}
            bound.apply_defaults()
            values = bound.arguments
        words = {"task": about, "strategy": f"Use {name}"}
        for label, wording in wordings.items():
            if callable(wording):
                words[label] = str(wording(*args, **kwargs))
            elif wording is not None:
                brief = {one: _shorten_value(one, value) for one, value in values.items()}
                words[label] = wording.format_map(brief)
        own = {one: value for one, value in values.items() if one not in ("self", "cls")}
        if own and wordings["task"] is None:
            shown = (f"{one}={_shorten_value(one, value, quoted=True)}" for one, value in own.items())
            words["task"] += f" ({', '.join(shown)})"
        task, strategy = (clean_text(words[label], _TASK_CHARS) for label in ("task", "strategy"))
        return {"task": task or name, "strategy_used": strategy or f"Use {name}"}

    return describe


def _shorten_value(name: str, value: object, quoted: bool = False) -> str:
    """Return an argument in a few words, without addresses and secrets, so that similar calls read the same."""
    if isinstance(value, str):
        # With the name, because a name such as `password` marks a secret.
        text = shorten(str(clean({name: value[:_READ_CHARS]}).get(name, "")), _ARGUMENT_CHARS)
        return repr(text) if quoted else text
    return shorten(str(clean(_ADDRESS.sub("", _REPR.repr(value)))), _ARGUMENT_CHARS)
